"""Every key of the dashboard, in one registry: bindings, hints, help and palette are made from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Where = Literal["app", "table", "lines", "overview", "queue", "message", "modal"]


@dataclass(frozen=True, slots=True)
class Key:
    """What one key does.

    ``id`` names it in key files. ``hint`` is its word at the bottom, where none means that only the help tells it, and
    ``face`` the keys shown before that word, where one hint stands for a pair.
    """

    id: str
    keys: str
    action: str
    help: str
    where: Where
    hint: str = ""
    face: str = ""
    priority: bool = False

    @property
    def shown(self) -> str:
        """The keys as people write them."""
        return " ".join(_SHOWN.get(key, key) for key in self.keys.split(","))


_SHOWN = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
    "pagedown": "pgdn",
    "pageup": "pgup",
}

KEYS = (
    Key("app.help", "question_mark,f1", "help", "Show the keys of this screen and what the signs mean", "app", "help"),
    Key("app.palette", "colon,ctrl+p", "command_palette", "Find a command or a queue by name", "app", "commands"),
    Key("app.pause", "p", "pause", "Pause or resume polling", "app", "pause"),
    Key("app.refresh", "r,ctrl+r", "refresh_now", "Poll now, and sort again", "app"),
    Key("app.time", "t", "time", "Show times as ages, or as UTC clock times", "app"),
    Key("app.theme", "T", "next_theme", "Switch to the next theme", "app"),
    Key("app.namespace", "n", "namespaces", "Look for namespaces on this server and switch to one", "app"),
    Key("app.quit", "ctrl+c", "quit", "Quit from anywhere", "app", priority=True),
    Key("app.back", "q", "leave", "Go back; quit from the overview", "app", "quit"),
    Key("table.down", "j,down", "cursor(1)", "Next row", "table"),
    Key("table.up", "k,up", "cursor(-1)", "Previous row", "table"),
    Key("table.page_down", "pagedown", "page(1)", "One screen down", "table"),
    Key("table.page_up", "pageup", "page(-1)", "One screen up", "table"),
    Key("table.top", "g,home", "top", "First row", "table"),
    Key("table.bottom", "G,end", "bottom", "Last row", "table"),
    Key("table.open", "enter", "open", "Open the row under the cursor", "table", "open"),
    # Of priority, so that what is typed right behind it reaches the filter and not the table.
    Key(
        "overview.filter",
        "slash",
        "filter",
        "Show only queues that match some words",
        "overview",
        "filter",
        priority=True,
    ),
    Key("overview.sort", "s", "sort_next", "Sort by the next column", "overview", "sort"),
    Key("overview.reverse", "S", "sort_reverse", "Reverse the order", "overview"),
    Key("overview.clear", "escape", "clear", "Clear the filter, then the sorting", "overview"),
    Key("queue.next_part", "l,right", "part(1)", "Next of all, ready, hidden", "queue"),
    Key(
        "queue.previous_part",
        "h,left",
        "part(-1)",
        "Previous of all, ready, hidden",
        "queue",
        "all/ready/hidden",
        "h l",
    ),
    Key("queue.next_page", "right_square_bracket", "turn(1)", "Next page of messages", "queue"),
    Key("queue.previous_page", "left_square_bracket", "turn(-1)", "Previous page of messages", "queue", "page", "[ ]"),
    Key("queue.copy_body", "y", "copy_body", "Copy the body of the message under the cursor", "queue", "copy"),
    Key("queue.copy_id", "Y", "copy_id", "Copy the id of the message under the cursor", "queue"),
    Key("queue.back", "escape", "app.leave", "Back to the overview", "queue", "back"),
    Key("message.next_view", "l,right", "view(1)", "Next of pretty, raw, hex", "message", "pretty/raw/hex", "h l"),
    Key("message.previous_view", "h,left", "view(-1)", "Previous of pretty, raw, hex", "message"),
    Key("lines.down", "j,down", "scroll_lines(1)", "One line down", "lines"),
    Key("lines.up", "k,up", "scroll_lines(-1)", "One line up", "lines"),
    Key("lines.page_down", "pagedown", "scroll_pages(1)", "One screen down", "lines"),
    Key("lines.page_up", "pageup", "scroll_pages(-1)", "One screen up", "lines"),
    Key("lines.top", "g,home", "scroll_to_end(-1)", "First line", "lines"),
    Key("lines.bottom", "G,end", "scroll_to_end(1)", "Last line", "lines"),
    Key("message.copy_body", "y", "copy_body", "Copy the body", "message", "copy"),
    Key("message.copy_id", "Y", "copy_id", "Copy the id", "message", "copy id"),
    Key("message.back", "escape", "app.leave", "Back to the queue", "message", "back"),
    Key("modal.close", "escape,q", "close", "Close this", "modal", "close"),
)


def keys_of(*where: Where) -> Iterator[Key]:
    """Walk through the keys of these places, place by place."""
    return (key for place in where for key in KEYS if key.where == place)


def bindings_of(where: Where) -> list[BindingType]:
    """Return a place's keys as Textual bindings."""
    return [
        Binding(key.keys, key.action, key.hint or key.help, id=key.id, tooltip=key.help, priority=key.priority)
        for key in keys_of(where)
    ]
