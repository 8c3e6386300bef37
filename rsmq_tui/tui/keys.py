"""Every key of the dashboard. Bindings, hints, help and palette are made from this table."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

from textual.binding import Binding, BindingType

Where = Literal[
    "app", "change", "table", "lines", "overview", "queue", "message", "audit", "history", "replay", "diff", "modal",
    "dialog", "choice"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usable:
    """Which keys have a use on a screen: whether queues may be changed, whether it is live, and what kinds it shows."""

    changes: bool = True
    live: bool = True
    kinds: frozenset[str] = frozenset({"rsmq", "list"})


ALL_KEYS = Usable()
NO_CHANGES = Usable(changes=False)


@dataclass(frozen=True, slots=True)
class Key:
    """What one key does.

    ``id`` names it in key files. ``hint`` is its word at the bottom, where none means that only the help tells it, and
    ``face`` the keys shown before that word, where one hint stands for a pair. Hints stand in the order of the keys,
    and those that do not fit are left out, but for a ``pinned`` one. ``changes`` is set for what changes a queue: where
    nothing may be changed, there is no such key. ``live`` is set for what a replay has no use for, ``kind`` for what
    only one kind of queue has.
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
    live: bool = False
    kind: Literal["", "rsmq", "list"] = ""

    def is_among(self, usable: Usable) -> bool:
        """Tell whether the key has a use there."""
        return (
            (usable.changes or not self.changes)
            and (usable.live or not self.live)
            and (not self.kind or self.kind in usable.kinds)
        )

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
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "at": "@",
    "comma": ",",
    "full_stop": ".",
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


def _change(id: str, keys: str, action: str, words: str, hint: str = "", kind: Literal["", "rsmq", "list"] = "") -> Key:
    where = cast("Where", id.partition(".")[0])
    return Key(id, keys, action, words, where, hint, changes=True, kind=kind)


def _replay(id: str, keys: str, action: str, words: str, hint: str = "", face: str = "") -> Key:
    # Of priority: in a replay they come before what else these keys mean on a screen.
    return Key(f"replay.{id}", keys, action, words, "replay", hint, face, priority=True)


KEYS = (
    Key(
        "app.help",
        "question_mark,f1",
        "help",
        "Show the keys of this screen and the meaning of the signs",
        "app",
        "help",
        pinned=True,
    ),
    Key("app.palette", "colon,ctrl+p", "command_palette", "Find a command or a queue by name", "app", "commands"),
    Key("app.pause", "p", "pause", "Pause or resume polling", "app", "pause", live=True),
    Key("app.refresh", "r,ctrl+r", "refresh_now", "Poll now; sort or search again", "app"),
    Key("app.time", "t", "time", "Show times as ages, or as UTC clock times", "app"),
    Key("app.theme", "T", "next_theme", "Switch to the next theme", "app"),
    Key("app.namespace", "n", "namespaces", "List the namespaces of this server and switch to one", "app", live=True),
    Key("app.quit", "ctrl+c", "quit", "Quit from anywhere", "app", priority=True),
    Key("app.back", "q", "leave", "Go back; quit from the overview", "app", "quit"),
    Key(
        "app.history",
        "H",
        "history",
        "Show the analysis of the recorded history",
        "app",
        "history",
        live=True,
    ),
    _replay("play", "p", "replay('play')", "Play or pause", "play"),
    _replay("next", "right_square_bracket", "replay('step', 1)", "Pause, and go to the next poll"),
    _replay("previous", "left_square_bracket", "replay('step', -1)", "Pause, and go to the poll before", "step", "[ ]"),
    _replay(
        "next_verdict", "right_curly_bracket", "replay('verdict', 1)", "Go to the next change of a verdict or outage"
    ),
    _replay(
        "previous_verdict",
        "left_curly_bracket",
        "replay('verdict', -1)",
        "Go to the previous change; press again to stop the search",
        "change",
        "{ }",
    ),
    _replay("seek", "at", "replay('seek')", "Go to a time: 21:50, -10m, 2031-05-17 21:50", "go to"),
    _replay("slower", "less_than_sign", "replay('speed', -1)", "Play slower, down to x1", "speed", "< >"),
    _replay("faster", "greater_than_sign", "replay('speed', 1)", "Play faster, up to x3600"),
    _replay("minute_on", "full_stop", "replay('jump', 1)", "Go one minute forward"),
    _replay("minute_back", "comma", "replay('jump', -1)", "Go one minute back", "minute", ", ."),
    _replay("mark", "m", "replay('mark')", "Mark this time for a comparison", "mark"),
    _replay("diff", "D", "replay('diff')", "Compare this time with the marked one", "diff"),
    Key("diff.back", "escape", "app.leave", "Go back", "diff", "back"),
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
        "Show only queues that match a filter",
        "overview",
        "filter",
        priority=True,
    ),
    Key("overview.sort", "s", "sort_next", "Sort by the next column", "overview", "sort"),
    Key("overview.reverse", "S", "sort_reverse", "Reverse the order", "overview"),
    _change("overview.send", "a", "change('send')", "Send a message to the queue", "send"),
    _change("overview.delete", "x", "change('delete-queue')", "Delete the queue and its messages", "delete", "rsmq"),
    _change("overview.undo", "u", "undo", "Undo the last change in this namespace", "undo"),
    _change("overview.create", "c", "change('create')", "Create a queue", "create", "rsmq"),
    _change(
        "overview.redrive", "R", "change('redrive')", "Send all dead letters to their source queues", "redrive", "rsmq"
    ),
    _change(
        "overview.requeue",
        "R",
        "change('requeue')",
        "Put all items in processing back into the list",
        "requeue",
        "list",
    ),
    _change("overview.purge", "P", "change('purge')", "Remove every message of the queue", "purge"),
    _change("overview.set", "equals_sign", "change('set')", "Change vt, delay and maxsize of the queue", "set", "rsmq"),
    _change("overview.trim", "equals_sign", "change('trim')", "Trim a list to a number of items", "trim", "list"),
    _change("overview.pop", "o", "change('pop')", "Remove the next items from a list", "pop", "list"),
    _change("overview.import", "I", "change('import')", "Import messages from a file into the queue"),
    Key("overview.export", "E", "export", "Export all messages of the queue to a file", "overview", live=True),
    Key(
        "overview.audit",
        "F",
        "audit",
        "Audit: check that the keys of all queues are consistent",
        "overview",
        "audit",
        live=True,
    ),
    Key("overview.clear", "escape", "clear", "Clear the filter, then the sorting", "overview"),
    Key("queue.mark", "space", "mark", "Mark or unmark the message", "queue", "mark"),
    Key("queue.mark_all", "A", "mark_all", "Mark all matching messages in the whole queue", "queue", "all"),
    Key("queue.filter", "slash", "filter", "Show only messages that match", "queue", "filter", priority=True),
    _change("queue.delete", "x", "change('delete')", "Delete the marked messages, or this one", "delete"),
    _change("queue.undo", "u", "undo", "Undo the last change of this queue", "undo"),
    _change("queue.retry", "L", "retry_skipped", "Retry messages skipped because they were received", kind="rsmq"),
    _change("queue.release", "0", "change('release')", "Make the marked messages visible now", "release", "rsmq"),
    _change("queue.requeue", "0", "change('requeue')", "Put the marked items back into the list", "requeue", "list"),
    _change("queue.hide", "plus,minus", "change('hide')", "Hide the marked messages for some time", "hide"),
    _change("queue.move", "M", "change('move')", "Move the marked messages to another queue", "move"),
    _change("queue.edit", "e", "edit", "Edit a copy of the message and send it", "edit"),
    _change("queue.send", "a", "change('send')", "Send a message to this queue", "send"),
    Key("queue.next_part", "l,right", "part(1)", "Next tab: all, ready, in flight, delayed, poison", "queue"),
    Key(
        "queue.previous_part",
        "h,left",
        "part(-1)",
        "Previous tab: all, ready, in flight, delayed, poison",
        "queue",
        "tabs",
        "h l",
    ),
    Key("queue.next_page", "right_square_bracket", "turn(1)", "Next page of messages", "queue", live=True),
    Key(
        "queue.previous_page",
        "left_square_bracket",
        "turn(-1)",
        "Previous page of messages",
        "queue",
        "page",
        "[ ]",
        live=True,
    ),
    Key(
        "queue.blocked",
        "B",
        "blocked",
        "Count the consumers blocked on lists of this server",
        "queue",
        "waiting",
        live=True,
        kind="list",
    ),
    Key("queue.group", "b", "group", "Count messages by a field of their JSON", "queue", "group"),
    _change(
        "queue.redrive",
        "R",
        "change('redrive')",
        "Send the marked messages to their source queues",
        "redrive",
        "rsmq",
    ),
    _change("queue.copy_to", "C", "change('copy')", "Copy the marked messages to a queue", "copy to"),
    Key("queue.range", "v", "range", "Start or end marking a range", "queue", "range"),
    Key("queue.mark_page", "asterisk", "mark_page", "Mark the page", "queue"),
    Key("queue.copy_body", "y", "copy_body", "Copy the body of the message under the cursor", "queue", "copy"),
    Key("queue.copy_id", "Y", "copy_id", "Copy the id of the message under the cursor", "queue"),
    Key(
        "queue.export", "E", "export", "Export the marked or matching messages to a file", "queue", "export", live=True
    ),
    _change("queue.set", "equals_sign", "change('set')", "Change vt, delay and maxsize of this queue", "set", "rsmq"),
    _change("queue.trim", "equals_sign", "change('trim')", "Trim the list to a number of items", "trim", "list"),
    _change("queue.pop", "o", "change('pop')", "Remove the next items from the list", "pop", "list"),
    _change(
        "queue.ack", "K", "change('ack')", "Acknowledge the marked items in processing: remove them", "ack", "list"
    ),
    _change("queue.purge", "P", "change('purge')", "Remove every message of this queue", "purge"),
    Key("queue.audit", "F", "audit", "Audit: check that the keys of this queue are consistent", "queue", live=True),
    Key("queue.clear", "escape", "clear", "Clear the marks, then the filter, then go back", "queue", "back"),
    Key("audit.fix", "f", "fix", "Preview the fix for the queue under the cursor", "audit", "fix", changes=True),
    Key("audit.undo", "u", "undo", "Undo the last change", "audit", "undo", changes=True),
    Key("audit.back", "escape", "app.leave", "Go back", "audit", "back"),
    Key("history.mark", "space", "mark", "Mark or unmark the queue", "history", "mark"),
    Key("history.mark_all", "A", "mark_all", "Mark all queues; charts show the sum of marked queues", "history", "all"),
    Key("history.later", "right", "shift(1)", "Show a later time", "history"),
    Key("history.earlier", "left", "shift(-1)", "Show an earlier time", "history", "shift", "← →"),
    Key("history.closer", "plus", "zoom(1)", "Show less time, in more detail", "history"),
    Key("history.wider", "minus", "zoom(-1)", "Show more time", "history", "zoom", "+ -"),
    Key("history.range", "f", "range", "Choose a range of time, or type one", "history", "range"),
    Key("history.next_page", "l", "turn_page(1)", "Next page: queues, episodes, heat map, poison, …", "history"),
    Key(
        "history.previous_page",
        "h",
        "turn_page(-1)",
        "Previous page: queues, episodes, heat map, poison, …",
        "history",
        "pages",
        "h l",
    ),
    Key("history.metric", "m", "metric", "Chart the next metric: depth, oldest ready, rates", "history", "metric"),
    Key("history.weekly", "W", "weekly", "Heat map by day, or by day of the week", "history"),
    Key("history.filter", "slash", "filter", "Show only queues that match a filter", "history", priority=True),
    Key("history.clear", "escape", "clear", "Clear the marks, then the filter, then go back", "history", "back"),
    _change("message.delete", "x", "change('delete')", "Delete the message", "delete"),
    _change("message.undo", "u", "undo", "Undo the last change of its queue", "undo"),
    _change("message.retry", "L", "retry_skipped", "Retry messages skipped because they were received", kind="rsmq"),
    _change("message.release", "0", "change('release')", "Make the message visible now", "release", "rsmq"),
    _change("message.requeue", "0", "change('requeue')", "Put the item back into the list", "requeue", "list"),
    _change("message.hide", "plus,minus", "change('hide')", "Hide the message for some time", "hide"),
    _change("message.move", "M", "change('move')", "Move the message to another queue", "move"),
    _change("message.edit", "e", "edit", "Edit a copy of the message and send it", "edit"),
    _change("message.redrive", "R", "change('redrive')", "Send the message to its source queue", "redrive", "rsmq"),
    _change("message.ack", "K", "change('ack')", "Acknowledge the item in processing: remove it", "ack", "list"),
    _change("message.copy_to", "C", "change('copy')", "Copy the message to a queue", "copy"),
    Key("message.next_view", "l,right", "view(1)", "Next view: pretty, raw, hex", "message", "pretty/raw/hex", "h l"),
    Key("message.previous_view", "h,left", "view(-1)", "Previous view: pretty, raw, hex", "message"),
    Key("lines.down", "j,down", "scroll_lines(1)", "One line down", "lines"),
    Key("lines.up", "k,up", "scroll_lines(-1)", "One line up", "lines"),
    Key("lines.page_down", "pagedown", "scroll_pages(1)", "One screen down", "lines"),
    Key("lines.page_up", "pageup", "scroll_pages(-1)", "One screen up", "lines"),
    Key("lines.top", "g,home", "scroll_to_end(-1)", "First line", "lines"),
    Key("lines.bottom", "G,end", "scroll_to_end(1)", "Last line", "lines"),
    Key("message.copy_body", "y", "copy_body", "Copy the body", "message", "copy body"),
    Key("message.copy_id", "Y", "copy_id", "Copy the id", "message", "copy id"),
    Key("message.back", "escape", "app.leave", "Back to the queue", "message", "back"),
    Key("modal.close", "escape,q", "close", "Close this", "modal", "close"),
    Key("dialog.next", "right,l", "app.focus_next", "Next button or field", "dialog"),
    Key("dialog.previous", "left,h", "app.focus_previous", "Previous button or field", "dialog"),
    Key("choice.next", "down", "choose(1)", "Next suggestion", "choice"),
    Key("choice.previous", "up", "choose(-1)", "Previous suggestion", "choice"),
    # Of priority: as long as a change runs, this comes before whatever else the key means.
    Key("change.cancel", "escape", "cancel_change", "Cancel the running change", "change", priority=True, changes=True),
)


def keys_of(*where: Where, usable: Usable = ALL_KEYS) -> Iterator[Key]:
    """Walk through the keys of these places that have a use, place by place."""
    return (key for place in where for key in KEYS if key.where == place and key.is_among(usable))


def can_be_used(where: Iterable[Where], action: str, parameters: tuple[object, ...], usable: Usable) -> bool:
    """Tell whether an action has a use there, as far as it is one of these places' keys."""
    written = f"{action}({', '.join(map(repr, parameters))})" if parameters else action
    named = [key for key in keys_of(*where) if key.action.partition("(")[0] == action]
    keys = [key for key in named if key.action == written] or named
    return not keys or any(key.is_among(usable) for key in keys)


def is_live_only(where: Iterable[Where], action: str) -> bool:
    """Tell whether an action of these places is one that a replay has no use for."""
    return any(key.live and key.action.partition("(")[0] == action for key in keys_of(*where))


def bindings_of(where: Where) -> list[BindingType]:
    """Return a place's keys as Textual bindings."""
    return [
        Binding(key.keys, key.action, key.hint or key.help, id=key.id, tooltip=key.help, priority=key.priority)
        for key in keys_of(where)
    ]
