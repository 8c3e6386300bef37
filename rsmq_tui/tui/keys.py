"""Every key of the dashboard. Bindings, hints, help and palette are made from this table."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, cast

from textual.binding import Binding, BindingType
from textual.keys import REPLACED_KEYS, format_key, key_to_character
from textual.keys import Keys as NamedKey

from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol.kinds import KINDS, kind_named

Where = Literal[
    "app", "change", "table", "lines", "overview", "queue", "message", "audit", "events", "history", "journal",
    "recorded", "search", "server", "replay", "diff", "modal", "dialog", "choice", "confirm", "form", "list", "columns",
    "filter", "filters", "palette", "controls", "life"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usable:
    """The conditions that decide which keys are available.

    ``changes``: queues may be changed. ``live``: the screen is not that of a replay. ``local``: the user is at this
    machine rather than in a browser. ``kinds`` are those of the queues that are shown. ``demo``: it is a demo with
    controls. ``tour``: its tour is shown.
    """

    changes: bool = True
    live: bool = True
    local: bool = True
    kinds: frozenset[str] = frozenset(KINDS)
    demo: bool = True
    tour: bool = False


ALL_KEYS = Usable(tour=True)
NO_CHANGES = Usable(changes=False, tour=True)


@dataclass(frozen=True, slots=True)
class Key:
    """What one key does.

    ``id`` is its key group (``Where``) and the name of its command. ``keys`` are Textual's names or characters, with
    commas between them. ``hint`` is its word in the bottom line; if empty, only the help lists the key. With ``pair``,
    the hint is also that of the key of this name in the group. Hints are in the order of the keys; those that do not
    fit are left out, except ``pinned`` ones. ``changes`` marks keys that change a queue, which are removed if nothing
    may be changed. ``live`` marks keys that a replay does not have, ``demo`` those that only a demo has, ``tour`` those
    of these that only its tour has, and ``local`` those that a page does not have: they use files and programs of this
    machine, or its user's stored data.
    """

    id: str
    keys: str
    action: str
    help: str
    hint: str = ""
    pair: str = ""
    priority: bool = False
    changes: bool = False
    pinned: bool = False
    live: bool = False
    demo: bool = False
    tour: bool = False
    local: bool = False

    @property
    def where(self) -> Where:
        """The key group that it belongs to."""
        return cast("Where", self.id.partition(".")[0])

    @property
    def name(self) -> str:
        """The name of its command, also in the configuration file. Keys of one name are the same in all groups."""
        return self.id.partition(".")[2]

    @property
    def needs(self) -> str:
        """The action that the kind of queue must support, "block" if it must have blocking consumers, or empty."""
        name, _, argument = self.action.partition("(")
        return argument.strip("')") if name == "change" else _NEEDS.get(name, "")

    def is_available(self, usable: Usable) -> bool:
        """Return whether the key is available under these conditions."""
        return (
            (usable.changes or not self.changes)
            and (usable.live or not self.live)
            and (usable.tour if self.tour else usable.demo or not self.demo)
            and (usable.local or not self.local)
            and (not self.needs or any(_can(kind, self.needs) for kind in usable.kinds))
        )

    @property
    def pressed(self) -> tuple[str, ...]:
        """The keys as Textual names them when they are pressed."""
        return tuple(each.key for each in Binding.make_bindings([Binding(self.keys, self.action)]))

    @property
    def written(self) -> list[str]:
        """The keys as users write them in the configuration file."""
        return [_written(key) for key in self.pressed]

    @property
    def shown(self) -> str:
        """The keys as shown to users."""
        return " ".join(key if key == "enter" else format_key(key) for key in self.keys.split(","))

    @property
    def first(self) -> str:
        """The first of the keys, as shown to users."""
        return self.shown.split()[0]


def _written(key: str) -> str:
    """Return what stands for a key in the configuration file: its character, or Textual's name of it."""
    character = key_to_character(REPLACED_KEYS.get(key, key)) or ""
    return character if character.isprintable() and character.strip() else key


_NEEDS = {"retry_skipped": "retry", "blocked": "block"}


def _can(name: str, needed: str) -> bool:
    kind = kind_named(name)
    return kind.can_block if needed == "block" else needed in kind.actions


def _change(id: str, keys: str, action: str, words: str, hint: str = "", *, local: bool = False) -> Key:
    return Key(id, keys, action, words, hint, changes=True, local=local)


def _replay(id: str, keys: str, action: str, words: str, hint: str = "", pair: str = "") -> Key:
    # Priority: in a replay they override the other meanings of these keys.
    return Key(f"replay.{id}", keys, action, words, hint, pair, priority=True)


KEYS = (
    Key("app.help", "?,f1", "help", "Show the keys of this screen and the meaning of the signs", "help", pinned=True),
    Key("app.palette", ":,ctrl+p", "command_palette", "Find a command or a queue by name", "commands"),
    Key("app.pause", "p", "pause", "Pause or resume polling", "pause", live=True),
    Key("app.refresh", "r,ctrl+r", "refresh_now", "Poll now; sort or search again"),
    Key("app.time", "t", "time", "Show times as ages, as UTC clock times, or in your time zone"),
    Key("app.window", "z", "window(1)", "Show a longer time in the charts: 1, 10, 60 min, 6 h, 24 h"),
    Key("app.window_back", "Z", "window(-1)", "Show a shorter time in the charts"),
    Key("app.pane", "|", "pane", "Show the pane: beside the table, below it, or closed"),
    Key("app.link", "Y", "copy_link", "Copy the address of what is shown: a queue, a filter, a moment"),
    Key("app.theme", "T", "next_theme", "Switch to the next theme"),
    Key("app.namespace", "n", "namespaces", "List the namespaces of this server and switch to one", live=True),
    Key("app.server", "i", "server", "Show the server: memory, clients, replication, disk, latency", live=True),
    Key("app.quit", "ctrl+c", "quit", "Quit from anywhere", priority=True),
    Key("app.leave", "q", "leave", "Go back; quit from the overview", "quit"),
    Key(
        "app.controls",
        "D",
        "controls",
        "Demo: stop, slow or break its clients and its server",
        "demo",
        live=True,
        demo=True,
    ),
    # Priority: also while a dialog is open.
    Key(
        "app.skip_step",
        "ctrl+n",
        "skip_step",
        "Demo: skip this step of the tour",
        priority=True,
        live=True,
        demo=True,
        tour=True,
    ),
    Key("app.history", "H", "history", "Show the analysis of the recorded history", "history", live=True),
    _replay("play", "p", "replay('play')", "Play or pause", "play"),
    _replay("next_poll", "]", "replay('step', 1)", "Pause, and go to the next poll"),
    _replay("previous_poll", "[", "replay('step', -1)", "Pause, and go to the previous poll", "step", "next_poll"),
    _replay(
        "next_verdict",
        "}",
        "replay('verdict', 1)",
        "Go to the next incident or its end; on a queue, the next verdict",
    ),
    _replay(
        "previous_verdict",
        "{",
        "replay('verdict', -1)",
        "Go to the previous one; press again to stop the search",
        "incident",
        "next_verdict",
    ),
    _replay("seek", "@", "replay('seek')", "Go to a time: 21:50, -10m, 2031-05-17 21:50", "go to"),
    _replay("slower", "<", "replay('speed', -1)", "Play slower, down to x1", "speed", "faster"),
    _replay("faster", ">", "replay('speed', 1)", "Play faster, up to x3600"),
    _replay("minute_on", ".", "replay('jump', 1)", "Go one minute forward"),
    _replay("minute_back", "comma", "replay('jump', -1)", "Go one minute back", "minute", "minute_on"),
    _replay("mark_time", "m", "replay('mark')", "Mark this time for a comparison", "mark"),
    _replay("diff", "D", "replay('diff')", "Compare this time with the marked one", "diff"),
    Key("life.back", "escape", "app.leave", "Go back", "back"),
    Key("diff.back", "escape", "app.leave", "Go back", "back"),
    Key("table.down", "j,down", "cursor(1)", "Next row"),
    Key("table.up", "k,up", "cursor(-1)", "Previous row"),
    Key("table.page_down", "pagedown", "page(1)", "One screen down"),
    Key("table.page_up", "pageup", "page(-1)", "One screen up"),
    Key("table.top", "g,home", "top", "First row"),
    Key("table.bottom", "G,end", "bottom", "Last row"),
    Key("table.open", "enter", "open", "Open the row under the cursor", "open"),
    Key("overview.filter", "/", "filter", "Show only queues that match a filter", "filter"),
    Key("overview.saved", "apostrophe", "saved_filters", "Choose a saved filter"),
    Key("overview.sort", "s", "sort_next", "Sort by the next column", "sort"),
    Key("overview.reverse", "S", "sort_reverse", "Reverse the order"),
    _change("overview.send", "a", "change('send')", "Send a message to the queue", "send"),
    _change("overview.delete", "x", "change('delete-queue')", "Delete the queue and its messages", "delete"),
    _change("overview.undo", "u", "undo", "Undo the last change in this namespace", "undo"),
    _change("overview.create", "c", "change('create')", "Create a queue", "create"),
    _change("overview.redrive", "R", "change('redrive')", "Send all dead letters to their source queues", "redrive"),
    _change(
        "overview.requeue_all", "R", "change('requeue')", "Put all items in processing back into the list", "requeue"
    ),
    _change("overview.purge", "P", "change('purge')", "Remove every message of the queue", "purge"),
    _change("overview.set", "=", "change('set')", "Change vt, delay and maxsize of the queue", "set"),
    _change("overview.trim", "=", "change('trim')", "Trim a list to a number of items", "trim"),
    _change("overview.pop", "o", "change('pop')", "Remove the next items from a list", "pop"),
    _change("overview.import", "I", "change('import')", "Import messages from a file into the queue", local=True),
    Key("overview.export", "E", "export", "Export all messages of the queue to a file", live=True, local=True),
    Key("overview.audit", "F", "audit", "Audit: check that the keys of all queues are consistent", "audit", live=True),
    Key(
        "overview.search",
        "f",
        "search",
        "Find messages in all queues, or those that match a pattern",
        "find",
        live=True,
    ),
    Key("overview.events", "L", "events", "Show the log of events: what happened to queues and servers"),
    Key(
        "overview.journal",
        "J",
        "journal",
        "Show the journal of changes, and undo any of them",
        live=True,
    ),
    Key(
        "overview.known",
        "N",
        "known",
        "Acknowledge the trouble of the queue: no alerts for some time",
        live=True,
        local=True,
    ),
    Key("overview.favourite", "*", "favourite", "Add the queue to the favourites on top, or remove it"),
    Key("overview.group", "b", "group", "Group queues by the prefixes of their names, or show all", "group"),
    Key("overview.separators", "B", "separators", "Choose the characters that end a prefix"),
    Key("overview.unfold", "right,l", "unfold(1)", "Unfold the group"),
    Key("overview.fold", "left,h", "unfold(-1)", "Fold the group, also from one of its queues"),
    Key("overview.columns", "V", "columns", "Choose the columns and their order"),
    Key("overview.clear", "escape", "clear", "Clear the filter, then the sorting"),
    Key("queue.mark", "space", "mark", "Mark or unmark the message", "mark"),
    Key("queue.mark_all", "A", "mark_all", "Mark all matching messages in the whole queue", "all"),
    Key("queue.filter", "/", "filter", "Show only messages that match", "filter"),
    Key("queue.saved", "apostrophe", "saved_filters", "Choose a saved filter"),
    _change("queue.delete", "x", "change('delete')", "Delete the marked messages, or this one", "delete"),
    _change("queue.undo", "u", "undo", "Undo the last change of this queue", "undo"),
    _change("queue.retry", "U", "retry_skipped", "Retry messages skipped because they were received"),
    _change("queue.release", "0", "change('release')", "Make the marked messages visible now", "release"),
    _change("queue.requeue", "0", "change('requeue')", "Put the marked items back into the list", "requeue"),
    _change("queue.hide", "+,-", "change('hide')", "Hide the marked messages for some time", "hide"),
    _change("queue.extend", "+,-", "change('extend')", "Extend the leases of the marked items", "extend lease"),
    _change("queue.move", "M", "change('move')", "Move the marked messages to another queue", "move"),
    _change("queue.edit", "e", "edit", "Edit a copy of the message and send it", "edit"),
    _change("queue.edit_outside", "V", "edit_outside", "Edit a copy in $VISUAL or $EDITOR, and send it", local=True),
    _change("queue.send", "a", "change('send')", "Send a message to this queue", "send"),
    Key("queue.next_part", "l,right", "part(1)", "Next tab above the messages: all, ready, …"),
    Key(
        "queue.previous_part",
        "h,left",
        "part(-1)",
        "Previous tab above the messages",
        "tabs",
        "next_part",
    ),
    Key("queue.next_page", "]", "turn(1)", "Next page of messages", live=True),
    Key("queue.previous_page", "[", "turn(-1)", "Previous page of messages", "page", "next_page", live=True),
    Key("queue.go_to", "#", "go_to", "Go to a message: by number, percentage, time or id", "go to"),
    Key("queue.sort", "s", "sort_next", "Sort by the next column: due time, age, receive count, size", "sort"),
    Key("queue.reverse", "S", "sort_reverse", "Reverse the order"),
    Key("queue.blocked", "B", "blocked", "Count the consumers blocked on lists of this server", "waiting", live=True),
    Key("queue.clients", "w", "clients", "Show which clients work on this queue", "who", live=True),
    Key("queue.life", "W", "life", "Watch the life of the message under the cursor", "life", live=True),
    Key("queue.group", "b", "group", "Count messages by a field of their JSON", "group"),
    _change("queue.redrive", "R", "change('redrive')", "Send the marked messages to their source queues", "redrive"),
    _change("queue.copy_to", "C", "change('copy')", "Copy the marked messages to a queue", "copy to"),
    Key("queue.range", "v", "range", "Start or end marking a range", "range"),
    Key("queue.mark_page", "*", "mark_page", "Mark the page"),
    Key("queue.copy_body", "y", "copy_body", "Copy the body of the message under the cursor", "copy"),
    Key("queue.copy_id", "I", "copy_id", "Copy the id of the message under the cursor"),
    Key(
        "queue.export",
        "E",
        "export",
        "Export the marked or matching messages to a file",
        "export",
        live=True,
        local=True,
    ),
    _change("queue.set", "=", "change('set')", "Change vt, delay and maxsize of this queue", "set"),
    _change("queue.trim", "=", "change('trim')", "Trim the list to a number of items", "trim"),
    _change("queue.pop", "o", "change('pop')", "Remove the next items from the list", "pop"),
    _change("queue.ack", "K", "change('ack')", "Acknowledge the marked items in processing: remove them", "ack"),
    _change("queue.purge", "P", "change('purge')", "Remove every message of this queue", "purge"),
    Key("queue.audit", "F", "audit", "Audit: check that the keys of this queue are consistent", live=True),
    Key("queue.journal", "J", "journal", "Show the changes of this queue, and undo any of them", live=True),
    Key(
        "queue.known",
        "N",
        "known",
        "Acknowledge the trouble of this queue: no alerts for some time",
        live=True,
        local=True,
    ),
    Key("queue.events", "L", "events", "Show what happened to this queue and to its server"),
    Key("queue.clear", "escape", "clear", "Clear the marks, then the filter, then go back", "back"),
    _change("audit.fix", "f", "fix", "Preview the fix for the queue under the cursor", "fix"),
    _change("audit.undo", "u", "undo", "Undo the last change", "undo"),
    Key("audit.back", "escape", "app.leave", "Go back", "back"),
    Key("events.filter", "/", "filter", "Show only events that match a filter", "filter"),
    Key("events.saved", "apostrophe", "saved_filters", "Choose a saved filter"),
    Key("events.replay", "@", "replay_moment", "Replay the moment of the event", "replay", live=True),
    Key("events.clear", "escape", "clear", "Clear the filter, then go back", "back"),
    _change("journal.undo", "u", "undo_change", "Undo the change under the cursor", "undo"),
    _change("journal.redo", "U", "redo_change", "Make this change again, or the one that it undid", "redo"),
    Key("journal.queue", "o", "open_queue", "Go to the queue of the change", "queue"),
    Key("journal.filter", "/", "filter", "Show only changes that match a filter", "filter"),
    Key("journal.clear", "escape", "clear", "Clear the filter, then go back", "back"),
    Key("recorded.mark", "space", "mark", "Mark or unmark the message", "mark"),
    Key("recorded.mark_all", "A", "mark_all", "Mark all listed messages that are left to undo", "all"),
    Key("recorded.filter", "/", "filter", "Show only messages left to undo that match", "filter"),
    Key("recorded.saved", "apostrophe", "saved_filters", "Choose a saved filter"),
    _change("recorded.undo", "u", "undo_marked", "Undo the marked messages, or this one", "undo"),
    Key("recorded.range", "v", "range", "Start or end marking a range", "range"),
    Key("recorded.mark_page", "*", "mark_page", "Mark what is on the screen"),
    Key("recorded.copy_id", "I", "copy_id", "Copy the id of the message under the cursor"),
    Key("recorded.queue", "o", "open_queue", "Go to the queue of the change", "queue"),
    Key("recorded.clear", "escape", "clear", "Clear the marks, then the filter, then go back", "back"),
    Key("search.filter", "/", "filter", "Change the filter, and the pattern of queues", "filter"),
    Key("search.sort", "s", "sort_next", "Sort by the next column: queue, due time, age, receive count, size", "sort"),
    Key("search.reverse", "S", "sort_reverse", "Reverse the order"),
    Key("search.mark", "space", "mark", "Mark or unmark the message, or all that match in the queue", "mark"),
    Key("search.mark_all", "A", "mark_all", "Mark or unmark all that match in all queues", "all"),
    _change("search.delete", "x", "change('delete')", "Delete what is marked, or this message", "delete"),
    _change("search.undo", "u", "undo", "Undo the last change from a search, in all its queues", "undo"),
    _change("search.release", "0", "change('release')", "Make the marked messages visible now", "release"),
    _change("search.requeue", "0", "change('requeue')", "Put the marked items back into their lists", "requeue"),
    _change("search.hide", "+,-", "change('hide')", "Hide the marked messages for some time", "hide"),
    _change("search.extend", "+,-", "change('extend')", "Extend the leases of the marked items", "extend lease"),
    _change("search.move", "M", "change('move')", "Move the marked messages to one queue", "move"),
    _change("search.copy_to", "C", "change('copy')", "Copy the marked messages to one queue", "copy to"),
    _change("search.redrive", "R", "change('redrive')", "Send the marked messages to their source queues", "redrive"),
    _change("search.ack", "K", "change('ack')", "Acknowledge the marked items in processing: remove them", "ack"),
    Key(
        "search.export",
        "E",
        "export",
        "Export what is marked, or all that match, to one file",
        "export",
        live=True,
        local=True,
    ),
    Key("search.copy_id", "I", "copy_id", "Copy the id of the message under the cursor"),
    Key("search.clear", "escape", "clear", "Stop the search, clear the marks, then go back", "back"),
    Key("server.next_server", "l,right", "turn(1)", "Next server"),
    Key("server.previous_server", "h,left", "turn(-1)", "Previous server", "servers", "next_server"),
    Key("server.back", "escape", "app.leave", "Go back", "back"),
    Key("history.mark", "space", "mark", "Mark or unmark the queue", "mark"),
    Key("history.mark_all", "A", "mark_all", "Mark all queues; charts show the total of the marked queues", "all"),
    Key("history.later", "right", "shift(1)", "Show a later time"),
    Key("history.earlier", "left", "shift(-1)", "Show an earlier time", "shift", "later"),
    Key("history.closer", "+", "zoom(1)", "Show less time, in more detail", "zoom", "wider"),
    Key("history.wider", "-", "zoom(-1)", "Show more time"),
    Key("history.time_range", "f", "range", "Choose a range of time, or type one", "range"),
    Key("history.next_table", "l", "turn_page(1)", "Next page: queues, incidents, heat map, poison, …"),
    Key(
        "history.previous_table",
        "h",
        "turn_page(-1)",
        "Previous page: queues, incidents, heat map, poison, …",
        "pages",
        "next_table",
    ),
    Key("history.metric", "m", "metric", "Chart the next metric: depth, oldest ready, rates", "metric"),
    Key("history.weekly", "W", "weekly", "Heat map by day, or by day of the week"),
    Key("history.pane_down", "J,shift+down", "scroll_pane(1)", "Scroll the pane down"),
    Key("history.pane_up", "K,shift+up", "scroll_pane(-1)", "Scroll the pane up"),
    Key("history.filter", "/", "filter", "Show only queues that match a filter"),
    Key("history.clear", "escape", "clear", "Clear the marks, then the filter, then go back", "back"),
    _change("message.delete", "x", "change('delete')", "Delete the message", "delete"),
    _change("message.undo", "u", "undo", "Undo the last change of its queue", "undo"),
    _change("message.retry", "U", "retry_skipped", "Retry messages skipped because they were received"),
    _change("message.release", "0", "change('release')", "Make the message visible now", "release"),
    _change("message.requeue", "0", "change('requeue')", "Put the item back into the list", "requeue"),
    _change("message.hide", "+,-", "change('hide')", "Hide the message for some time", "hide"),
    _change("message.extend", "+,-", "change('extend')", "Extend the lease of the item", "extend lease"),
    _change("message.move", "M", "change('move')", "Move the message to another queue", "move"),
    _change("message.edit", "e", "edit", "Edit a copy of the message and send it", "edit"),
    _change("message.edit_outside", "V", "edit_outside", "Edit a copy in $VISUAL or $EDITOR, and send it", local=True),
    _change("message.redrive", "R", "change('redrive')", "Send the message to its source queue", "redrive"),
    _change("message.ack", "K", "change('ack')", "Acknowledge the item in processing: remove it", "ack"),
    _change("message.copy_to", "C", "change('copy')", "Copy the message to a queue", "copy"),
    Key("message.next_view", "l,right", "view(1)", "Next view: pretty, raw, hex"),
    Key(
        "message.previous_view",
        "h,left",
        "view(-1)",
        "Previous view: pretty, raw, hex",
        "pretty/raw/hex",
        "next_view",
    ),
    Key("message.decoded", "d", "decoded", "Show the body as it is stored, or decoded", "decode"),
    Key("message.life", "W", "life", "Watch the life of the message", "life", live=True),
    Key("message.find", "/", "find", "Find a text in the body", "find"),
    Key("lines.down", "j,down", "scroll_lines(1)", "One line down"),
    Key("lines.up", "k,up", "scroll_lines(-1)", "One line up"),
    Key("lines.page_down", "pagedown", "scroll_pages(1)", "One screen down"),
    Key("lines.page_up", "pageup", "scroll_pages(-1)", "One screen up"),
    Key("lines.top", "g,home", "scroll_to_end(-1)", "First line"),
    Key("lines.bottom", "G,end", "scroll_to_end(1)", "Last line"),
    Key("message.copy_body", "y", "copy_body", "Copy the body", "copy body"),
    Key("message.copy_id", "I", "copy_id", "Copy the id", "copy id"),
    Key("message.back", "escape", "clear", "End the search in the body, then go back", "back"),
    Key("message.find_next", "n", "find_next(1)", "Next match in the body"),
    Key("message.find_previous", "N", "find_next(-1)", "Previous match in the body"),
    Key("message.fold_object", "space,enter", "fold", "Fold or unfold the object or array under the cursor", "fold"),
    Key("message.fold_all", "f", "fold_all", "Fold all objects and arrays but the outermost, or unfold all"),
    Key("controls.next", "right,l", "turn(1)", "Next queue"),
    Key("controls.previous", "left,h", "turn(-1)", "Previous queue"),
    Key("controls.close_controls", "D", "close", "Close this"),
    Key("message.save", "s", "save_body", "Save the body to a file", "save", local=True),
    Key("message.pager", "o", "open_in_pager", "Open the body in $PAGER", local=True),
    Key("message.open_copy", "O", "open_copy", "Open a copy of the body in $VISUAL or $EDITOR", local=True),
    Key("modal.close", "escape,q", "close", "Close this", "close"),
    Key("dialog.next_button", "right,l", "app.focus_next", "Next button or field"),
    Key("dialog.previous_button", "left,h", "app.focus_previous", "Previous button or field"),
    Key("confirm.copy_command", "y", "copy_command", "Copy the command that previews the same change"),
    # Priority: also while a field has the focus.
    Key("confirm.submit", "ctrl+s", "submit", "Confirm, as the button does", priority=True),
    Key("form.submit", "ctrl+s", "submit", "Continue, from any field", priority=True),
    Key("form.copy_form", "ctrl+y", "copy_command", "Copy the command that does the same", priority=True),
    Key("choice.next_suggestion", "down", "choose(1)", "Next suggestion"),
    Key("choice.previous_suggestion", "up", "choose(-1)", "Previous suggestion"),
    Key("list.down", "j,down", "cursor_down", "Next line"),
    Key("list.up", "k,up", "cursor_up", "Previous line"),
    Key("columns.show", "space", "show", "Show or hide the column"),
    Key("columns.shift_right", "J,shift+down", "shift(1)", "Move the column to the right"),
    Key("columns.shift_left", "K,shift+up", "shift(-1)", "Move the column to the left"),
    Key("columns.reset", "r", "reset", "Restore the default columns and their order"),
    Key("filter.save_filter", "ctrl+s", "save_filter", "Save the filter under a name"),
    Key("filter.choose_saved", "down", "screen.saved_filters", "Choose a saved filter"),
    Key("filters.forget", "x,delete", "forget", "Delete the saved filter"),
    Key("palette.next_command", "down", "cursor(1)", "Next command"),
    Key("palette.previous_command", "up", "cursor(-1)", "Previous command"),
    Key("palette.page_down", "pagedown", "page(1)", "One screen down"),
    Key("palette.page_up", "pageup", "page(-1)", "One screen up"),
    # Priority: while a change runs, this overrides the other meanings of the key.
    Key("change.stop", "escape", "stop_change", "Stop the running change", changes=True, priority=True),
)


# The groups whose keys are available at the same time, so that one key must not stand for two of them.
_TOGETHER: tuple[tuple[Where, ...], ...] = (
    ("overview", "table", "app"),
    ("queue", "table", "app"),
    ("search", "table", "app"),
    ("audit", "table", "app"),
    ("events", "table", "app"),
    ("journal", "table", "app"),
    ("recorded", "table", "app"),
    ("history", "table", "app"),
    ("diff", "table", "app"),
    ("message", "lines", "app"),
    ("server", "lines", "app"),
    ("life", "lines", "app"),
    ("replay", "app"),
    ("change", "app"),
    ("filter", "app"),
    ("confirm", "dialog", "lines", "modal"),
    ("form", "dialog", "choice", "modal"),
    ("columns", "list", "modal"),
    ("filters", "list", "modal"),
    ("controls", "list", "modal"),
    ("palette", "modal"),
)
# Where text is typed, and the keys that come before it: a character must stay a character.
_TYPED: tuple[Where, ...] = ("filter", "choice", "palette", "form")
_BEFORE_TEXT = "app.quit"
# Textual names keys so: the modifiers in this order, and no capital after them.
_MODIFIED = re.compile(r"(?:alt\+)?(?:ctrl\+)?(?:shift\+)?([^+]+)")
# That of Textual, which quits from anywhere.
_QUIT = "ctrl+q"
# They mean the same everywhere.
_KEPT = ("enter", "escape", _QUIT)
_NAMES = frozenset(each.value for each in NamedKey if not each.value.startswith("<"))


class Keymap:
    """The keys of the dashboard: the table above, with the keys that the user chose.

    ``chosen`` has keys by the names of commands, such as ``delete``, for all of their groups. Each mistake in it is a
    sentence in ``problems``; that command then has its default keys and is not in ``self.chosen``.
    """

    def __init__(self, chosen: Mapping[str, Sequence[str]] | None = None) -> None:
        self.problems: list[str] = []
        self._keys = dict(_BY_ID)
        self.chosen: set[str] = set()
        for name, keys in (chosen or {}).items():
            if (problem := _problem_with(name, keys)) is not None:
                self.problems.append(problem)
            else:
                self.chosen.add(name)
                names = ",".join(map(_name_of, keys))
                self._keys |= {key.id: replace(key, keys=names) for key in COMMANDS[name]}
        while (clash := next(self._clashes(), None)) is not None:
            name, other, common = clash
            self.problems.append(f"{name}: {_written(common)} is already the key of {other}")
            self.chosen.discard(name)
            self._keys |= {key.id: key for key in COMMANDS[name]}
        self._groups = _by_group(self)

    def _clashes(self) -> Iterator[tuple[str, str, str]]:
        """Yield the names of two commands, of which the user chose the first one's key, and the key of both."""
        for name in sorted(self.chosen):
            for key in COMMANDS[name]:
                near = {where for groups in _TOGETHER if key.where in groups for where in groups}
                for other in self:
                    # Some have the same key by default: they are for different kinds of queues, for example.
                    if (
                        other.where in near
                        and other.name != name
                        and not other.demo
                        and not _common(key, _BY_ID[other.id])
                    ):
                        yield from ((name, other.name, each) for each in _common(self._keys[key.id], other))

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def __getitem__(self, id: str) -> Key:
        return self._keys[id]

    @property
    def overrides(self) -> dict[str, str]:
        """The keys by id, as ``App.set_keymap`` takes them.

        They are all keys, if any was chosen: Textual forgets those that share one with a key that is replaced.
        """
        return {key.id: ",".join(key.pressed) for key in self if self.chosen}

    @property
    def quitting(self) -> Set[str]:
        """The keys that quit from anywhere, as Textual names them."""
        return {*self["app.quit"].pressed, _QUIT}

    def of(self, *where: Where, usable: Usable = ALL_KEYS) -> Iterator[Key]:
        """Yield the available keys of these groups, group by group."""
        return (key for group in where for key in self._groups[group] if key.is_available(usable))

    def command(self, name: str) -> Key:
        """Return the key of a command in the first of its groups; in the others, the keys are the same."""
        return self._keys[COMMANDS[name][0].id]

    def first_key(self, name: str) -> str:
        """Return the first key of a command, as sentences name it."""
        return self.command(name).first

    def hint_keys(self, key: Key) -> str:
        """Return what stands before the hint of a key: its first key, and that of its pair."""
        pair = self.pair_of(key)
        return key.first if pair is None else f"{key.first} {pair.first}"

    def pair_of(self, key: Key) -> Key | None:
        """Return the key that shares the hint of a key."""
        return self._keys[f"{key.where}.{key.pair}"] if key.pair else None

    def would_change(self, where: Iterable[Where], pressed: str, usable: Usable) -> bool:
        """Return whether a key, as Textual names it, would change a queue there if queues might be changed."""
        if usable.changes:
            return False
        keys = self.of(*where, usable=replace(usable, changes=True))
        return any(key.changes and pressed in key.pressed for key in keys)


def _by_group(keys: Iterable[Key]) -> Mapping[Where, Sequence[Key]]:
    groups: dict[Where, list[Key]] = {}
    for key in keys:
        groups.setdefault(key.where, []).append(key)
    return groups


def keymap_of(app: object) -> Keymap:
    """Return the keys of the app that a screen or a widget lives in."""
    return cast("Keymap", vars(app)["keymap"])


_BY_ID = {key.id: key for key in KEYS}
_GROUPS = _by_group(KEYS)
# The keys of each command, by its name.
COMMANDS: dict[str, list[Key]] = {}
for _key in KEYS:
    COMMANDS.setdefault(_key.name, []).append(_key)
# The names of commands whose keys cannot be changed: they have escape or enter, or are those of a demo.
FIXED = frozenset(
    name
    for name, (key, *_) in COMMANDS.items()
    if not {"escape", "enter"}.isdisjoint(key.keys.split(",")) or key.demo or key.where == "controls"
)


def _common(one: Key, other: Key) -> list[str]:
    return [key for key in one.pressed if key in other.pressed]


def _name_of(key: str) -> str:
    """Return Textual's name of a key, which is never a comma."""
    return next(iter(Binding.make_bindings([Binding(key, "")]))).key if key != "," else "comma"


def _is_key(key: str) -> bool:
    """Return whether this stands for a key in the configuration file."""
    if key in _NAMES or len(key) == 1:
        return key.isprintable() and key != " "
    modified = _MODIFIED.fullmatch(key)
    last = modified[1] if modified else ""
    is_letter = len(last) == 1 and last.isalnum() and last == last.lower() and key != f"shift+{last}"
    return is_letter or last in _NAMES


def _problem_with(name: str, keys: Sequence[str]) -> str | None:
    """Return why a command of this name cannot have these keys."""
    if name in FIXED:
        return f"{name}: its key cannot be changed"
    if name not in COMMANDS:
        from difflib import get_close_matches  # noqa: PLC0415 - only for who makes a mistake

        near = get_close_matches(name.rpartition(".")[2], COMMANDS, 1)
        meant = f"; did you mean {near[0]}?" if near else "; `rsmq-tui keys` lists them"
        return f"{printable(name, 60)}: there is no command of this name{meant}"
    where = {key.where for key in COMMANDS[name]}
    is_typed = not where.isdisjoint(_TYPED) or any(key.id == _BEFORE_TEXT for key in COMMANDS[name])
    for key in keys:
        if key in _KEPT:
            return f"{name}: {key} cannot be chosen, it means the same everywhere"
        if not _is_key(key):
            is_wrong = f"{printable(key, 30)} is no key" if key else "a key is empty"
            return f"{name}: {is_wrong}, write a character, or a name such as f5, ctrl+x, shift+down or space"
        if is_typed and (len(key) == 1 or key == "space"):
            return f"{name}: {printable(key, 30)} could no longer be typed, write a name such as f5 or ctrl+x"
    return None if keys else f"{name}: it needs a key"


def keys_of(*where: Where, usable: Usable = ALL_KEYS) -> Iterator[Key]:
    """Yield the available keys of these groups as they are by default, group by group."""
    return (key for group in where for key in _GROUPS[group] if key.is_available(usable))


def can_be_used(where: Iterable[Where], action: str, parameters: tuple[object, ...], usable: Usable) -> bool:
    """Return whether an action is available; True if no key of these groups has it."""
    written = f"{action}({', '.join(map(repr, parameters))})" if parameters else action
    named = [key for key in keys_of(*where) if key.action.partition("(")[0] == action]
    keys = [key for key in named if key.action == written] or named
    return not keys or any(key.is_available(usable) for key in keys)


def bindings_of(where: Where) -> list[BindingType]:
    """Return the keys of a group as Textual bindings, which ``App.set_keymap`` may replace by their ids."""
    return [
        Binding(key.keys, key.action, key.hint or key.help, id=key.id, tooltip=key.help, priority=key.priority)
        for key in keys_of(where)
    ]
