"""Every key of the dashboard, in one registry: bindings, hints, help and palette are made from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Where = Literal["app", "change", "table", "lines", "overview", "queue", "message", "audit", "modal", "dialog", "choice"]


@dataclass(frozen=True, slots=True)
class Key:
    """What one key does.

    ``id`` names it in key files. ``hint`` is its word at the bottom, where none means that only the help tells it, and
    ``face`` the keys shown before that word, where one hint stands for a pair. Hints stand in the order of the keys,
    and those that do not fit are left out, but for a ``pinned`` one. ``changes`` is set for what changes a queue: where
    nothing may be changed, there is no such key.
    """

    id: str
    keys: str
    action: str
    help: str
    where: Where
    hint: str = ""
    face: str = ""
    priority: bool = False
    changes: bool = False
    pinned: bool = False

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
    "plus": "+",
    "minus": "-",
    "asterisk": "*",
    "equals_sign": "=",
    "pagedown": "pgdn",
    "pageup": "pgup",
}


def _change(id: str, keys: str, action: str, words: str, hint: str = "") -> Key:
    where: Where = "overview" if id.startswith("overview.") else "queue"
    return Key(id, keys, action, words, where, hint, changes=True)


KEYS = (
    Key(
        "app.help",
        "question_mark,f1",
        "help",
        "Show the keys of this screen and what the signs mean",
        "app",
        "help",
        pinned=True,
    ),
    Key("app.palette", "colon,ctrl+p", "command_palette", "Find a command or a queue by name", "app", "commands"),
    Key("app.pause", "p", "pause", "Pause or resume polling", "app", "pause"),
    Key("app.refresh", "r,ctrl+r", "refresh_now", "Poll now; sort or search again", "app"),
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
    _change("overview.send", "a", "change('send')", "Send a message to the queue", "send"),
    _change("overview.delete", "x", "change('delete-queue')", "Delete the queue and its messages", "delete"),
    _change("overview.undo", "u", "undo", "Undo the last change in this namespace", "undo"),
    _change("overview.create", "c", "change('create')", "Create a queue", "create"),
    _change("overview.redrive", "R", "change('redrive')", "Send all dead letters of the queue back", "redrive"),
    _change("overview.purge", "P", "change('purge')", "Remove every message of the queue", "purge"),
    _change("overview.set", "equals_sign", "change('set')", "Change vt, delay and maxsize of the queue", "set"),
    _change("overview.import", "I", "change('import')", "Put messages from a file back into the queue"),
    Key("overview.export", "E", "export", "Write all messages of the queue to a file", "overview"),
    Key("overview.audit", "F", "audit", "Audit: look for what does not fit together in the keys", "overview", "audit"),
    Key("overview.clear", "escape", "clear", "Clear the filter, then the sorting", "overview"),
    Key("queue.mark", "space", "mark", "Mark the message, or take the mark off", "queue", "mark"),
    Key("queue.mark_all", "A", "mark_all", "Mark all that match, in the whole queue", "queue", "all"),
    Key("queue.filter", "slash", "filter", "Show only messages that match", "queue", "filter", priority=True),
    _change("queue.delete", "x", "change('delete')", "Delete what is marked, or the message", "delete"),
    _change("queue.undo", "u", "undo", "Undo the last change of this queue", "undo"),
    _change("queue.release", "0", "change('release')", "Make what is marked visible now", "release"),
    _change("queue.hide", "plus,minus", "change('hide')", "Hide what is marked for some seconds from now", "hide"),
    _change("queue.move", "M", "change('move')", "Move what is marked to another queue", "move"),
    _change("queue.edit", "e", "edit", "Edit a copy of the message and send it", "edit"),
    _change("queue.send", "a", "change('send')", "Send a message to this queue", "send"),
    Key("queue.next_part", "l,right", "part(1)", "Next of all, ready, in flight, delayed, poison", "queue"),
    Key(
        "queue.previous_part",
        "h,left",
        "part(-1)",
        "Previous of all, ready, in flight, delayed, poison",
        "queue",
        "tabs",
        "h l",
    ),
    Key("queue.next_page", "right_square_bracket", "turn(1)", "Next page of messages", "queue"),
    Key("queue.previous_page", "left_square_bracket", "turn(-1)", "Previous page of messages", "queue", "page", "[ ]"),
    Key("queue.group", "b", "group", "Count what the messages consist of", "queue", "group"),
    _change("queue.redrive", "R", "change('redrive')", "Send what is marked back to where it came from", "redrive"),
    _change("queue.copy_to", "C", "change('copy')", "Copy what is marked to a queue", "copy to"),
    Key("queue.range", "v", "range", "Begin or end marking a range", "queue", "range"),
    Key("queue.mark_page", "asterisk", "mark_page", "Mark the page", "queue"),
    Key("queue.copy_body", "y", "copy_body", "Copy the body of the message under the cursor", "queue", "copy"),
    Key("queue.copy_id", "Y", "copy_id", "Copy the id of the message under the cursor", "queue"),
    Key("queue.export", "E", "export", "Write what is marked or matches to a file", "queue", "export"),
    _change("queue.set", "equals_sign", "change('set')", "Change vt, delay and maxsize of this queue", "set"),
    _change("queue.purge", "P", "change('purge')", "Remove every message of this queue", "purge"),
    Key("queue.audit", "F", "audit", "Audit: look for what does not fit together in this queue", "queue"),
    Key("queue.clear", "escape", "clear", "Clear the marks, then the filter, then go back", "queue", "back"),
    Key(
        "audit.fix", "f", "fix", "Show what a fix would do to the queue under the cursor", "audit", "fix", changes=True
    ),
    Key("audit.undo", "u", "undo", "Undo the last change", "audit", "undo", changes=True),
    Key("audit.back", "escape", "app.leave", "Go back", "audit", "back"),
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
    Key("dialog.next", "right,l", "app.focus_next", "Next button or field", "dialog"),
    Key("dialog.previous", "left,h", "app.focus_previous", "Previous button or field", "dialog"),
    Key("choice.next", "down", "choose(1)", "Next suggestion", "choice"),
    Key("choice.previous", "up", "choose(-1)", "Previous suggestion", "choice"),
    # Of priority: as long as a change runs, this comes before whatever else the key means.
    Key(
        "change.cancel", "escape", "cancel_change", "Cancel the change that runs", "change", priority=True, changes=True
    ),
)


def keys_of(*where: Where, changes: bool = True) -> Iterator[Key]:
    """Walk through the keys of these places, place by place; without those that change something if so asked."""
    return (key for place in where for key in KEYS if key.where == place and (changes or not key.changes))


def changes_something(where: Iterable[Where], action: str) -> bool:
    """Tell whether an action of these places is one of those that change a queue."""
    return any(key.changes and key.action.partition("(")[0] == action for key in keys_of(*where))


def bindings_of(where: Where) -> list[BindingType]:
    """Return a place's keys as Textual bindings."""
    return [
        Binding(key.keys, key.action, key.hint or key.help, id=key.id, tooltip=key.help, priority=key.priority)
        for key in keys_of(where)
    ]
