"""The messages of a change: a screen that says of each whether it was undone, and undoes those that are marked."""

import time
from collections.abc import Sequence, Set
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar, NamedTuple

from textual import on, work
from textual.binding import BindingType
from textual.widgets import Static

from rsmq_tui.monitor import Filter, Snapshot, parse_filter
from rsmq_tui.monitor.text import UNKNOWN, count, date_clock, plural, printable, size
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.triage.actions import reference
from rsmq_tui.triage.change import Change, State
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.undo.part import ChangedMessage, chosen_of
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.queue.columns import age, first_line
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.controls import copy_text, label_table
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.message_filter import FilterLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import CLOCK_WIDTH, Column, RowTable

# Messages beyond these are only counted; a filter finds them.
LISTED_MAX = 200_000
_SHOWN_EVERY_S = 0.1
_BODY_SHOWN = 400
_OUTCOMES = {
    Outcome.GONE: "gone",
    Outcome.CHANGED: "changed",
    Outcome.UNMATCHED: "no match",
    Outcome.TAKEN: "id in use",
    Outcome.MISSED: "elsewhere",
}
_MEANINGS = {
    Outcome.GONE: "skipped: it was gone",
    Outcome.CHANGED: "skipped: it was received or changed meanwhile",
    Outcome.UNMATCHED: "skipped: it no longer matched",
    Outcome.TAKEN: "failed: its id was already in use there",
    Outcome.MISSED: "it was looked for elsewhere",
}


class _Context(NamedTuple):
    """The server's time, whether times are clock times, what the change did, and the keys of the marked messages."""

    at_ms: int = 0
    clock_times: bool = False
    past: str = ""
    marked: Set[str] = frozenset()
    ranged: Set[str] = frozenset()


def _key(message: ChangedMessage) -> str:
    return f"{message.number}:{message.edit_index}"


def _mark(message: ChangedMessage, context: _Context) -> Piece:
    if not context.marked and not context.ranged:
        return "", ""
    key = _key(message)
    return ("●" if key in context.marked else "○" if key in context.ranged else ""), "strong"


def _state(message: ChangedMessage, context: _Context) -> Piece:
    if message.undone:
        return "undone", "muted"
    if message.made_again:
        return "made again", "muted"
    if message.outcome is Outcome.DONE:
        return context.past, ""
    if message.outcome is not None:
        return _OUTCOMES[message.outcome], "muted"
    return ("not done" if message.is_known else UNKNOWN), "muted"


def _meaning(message: ChangedMessage, past: str) -> str:
    if message.outcome is not None:
        meaning = _MEANINGS.get(message.outcome, past)
        if message.made_again:
            return f"{meaning}, undone, and {past} again"
        return f"{meaning}, and undone" if message.undone else meaning
    return "not done: the change ended before" if message.is_known else "not known yet"


def _sent(message: ChangedMessage, context: _Context) -> Piece:
    return age(message.sent_ms, context.at_ms, clock_times=context.clock_times)


def _body(message: ChangedMessage, _: _Context) -> Piece:
    if message.start is None:
        return "not in the journal", "muted"
    return first_line(message.start), ""


_COLUMNS: tuple[Column[ChangedMessage, _Context], ...] = (
    Column("mark", "", 1, _mark),
    Column("id", "ID", 16, lambda message, _: (message.id, "muted"), drop=4),
    Column("state", "STATE", 9, _state, grow=True, width_max=12),
    Column("sent", "AGE", 8, _sent, drop=1, right=True),
    Column("rc", "RC", 5, lambda message, _: (count(message.rc), ""), drop=2, right=True),
    Column("size", "SIZE", 9, lambda message, _: (size(message.size), ""), drop=3, right=True),
    Column("body", "BODY", 12, _body, grow=True),
)


class ChangeMessagesScreen(DashboardScreen):
    """Lists the messages of a change, or with a filter those left to undo that match; its keys undo the marked ones.

    ``target`` is the server on which the change can be undone, None if that is not here; ``reader`` is one with the
    same journal. The messages are read once, after each change that was made from here, and on request.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("recorded", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("recorded")

    def __init__(self, change: Change, reader: WatchedServer, target: WatchedServer | None) -> None:
        super().__init__(None if target is None else target.place)
        self.change = change
        self.table = RowTable(_COLUMNS, _Context(), id="changed", on_open=lambda _: self.action_open_queue())
        self.filter_line = FilterLine()
        self._title = TextLine(id="title")
        self._details = Static(id="details", markup=False)
        self.parts = (self._title, self.filter_line, self.table, self._details)
        # The server of the change has the bodies that the journal does not have.
        self._reader, self._target = target or reader, target
        self._wanted = parse_filter("")
        self._found = _Found()
        self._marked: dict[str, ChangedMessage] = {}
        # The index of the row where the open range begins.
        self._range: int | None = None
        self._is_reading = False
        self._problem: str | None = None

    def on_mount(self) -> None:
        """Read the messages."""
        self.table.focus()
        self._read()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Update the ages."""
        self._show()

    def refresh_unpolled(self) -> None:
        """Read the messages again."""
        self._read()

    def _follow_change(self, status: ChangeStatus) -> None:
        if status.undone == self.change.change:
            self._marked.clear()
        self._read()

    @property
    def can_change(self) -> bool:
        """Whether the change can be undone from here."""
        return self._target is not None and self._target.can_change

    @work(group="messages", exclusive=True)
    async def _read(self) -> None:
        found, shown_s = _Found(), time.monotonic()
        self._is_reading, self._problem = True, None
        # A list that is read again is shown when it is complete, so that the cursor stays where it is.
        is_first = not self._found.rows
        wanted = None if self._wanted.is_empty else self._wanted
        try:
            # It may have ended since, or an old one may have been removed.
            self.change = await self._reader.triage.current(self.change)
            async with aclosing(self._reader.triage.messages_of(self.change, wanted)) as batches:
                async for messages in batches:
                    found.add(messages)
                    if is_first and time.monotonic() >= shown_s + _SHOWN_EVERY_S:
                        self._found, shown_s = found, time.monotonic()
                        self._show()
        except TriageError as error:
            self._problem = str(error)
        else:
            # Another process may have undone some of those that are marked.
            listed = zip(found.keys, found.rows, strict=True)
            self._marked = {key: message for key, message in listed if key in self._marked and message.is_left}
        self._is_reading, self._found = False, found
        self._show()

    def _show(self) -> None:
        if not self.is_mounted:
            return
        clock_times = self.dashboard.clock_times
        self.table.columns = tuple(
            replace(column, title="SENT", width=CLOCK_WIDTH) if clock_times and column.id == "sent" else column
            for column in _COLUMNS
        )
        self.table.empty_text = [(f"  {self._nothing()}", "muted")]
        found = self._found
        at_ms = self.change.at_ms if self.snapshot is None else self.snapshot.at_ms
        ranged = set(found.keys[self._ranged]) if self._range is not None else set()
        cells = _Context(at_ms, clock_times, self.change.past, self._marked.keys(), ranged)
        self.table.show(found.rows, found.keys, cells)
        self._title.show(self._head())
        self._show_details()

    def _head(self) -> list[Piece]:
        change, found = self.change, self._found
        # The journal counts what a change has done at its end.
        done = found.done if change.state is State.RUNNING else change.done
        did = f"change {change.change}: {change.past} {count(done)} of {count(change.planned)}"
        pieces: list[Piece] = [(f" ◀ {did}   ", "strong")]
        if self._wanted.is_empty:
            pieces.append((found.undone_words, ""))
        elif self._problem is None:
            pieces.append((f"{count(found.total)} left to undo match {printable(self._wanted.text.strip(), 60)}", ""))
        if found.total > len(found.rows):
            pieces.append((f" · first {count(LISTED_MAX)} of {count(found.total)} listed", "muted"))
        if self._marked:
            pieces.append((f" · {count(len(self._marked))} marked", "strong"))
        if self._is_reading:
            pieces.append(("   reading …", "muted"))
        if self._problem is not None:
            pieces.append((f"   ! {printable(self._problem, 200)}", "alarm"))
        return pieces

    def _nothing(self) -> str:
        if self._is_reading or self._problem is not None:
            return ""
        if not self._wanted.is_empty:
            return "No message that is left to undo matches."
        if self.change.state is State.RUNNING:
            return "This change has just begun."
        return "This change has no messages: it is of the queue."

    @on(RowTable.Moved)
    def _follow_cursor(self) -> None:
        if self._range is not None:
            self._show()
        else:
            self._show_details()

    def _show_details(self) -> None:
        message = self.table.cursor_row
        self._details.display = message is not None or self._problem is not None
        if message is None:
            # The line at the top may be too narrow for it.
            self._details.update(f" {printable(self._problem or '', _BODY_SHOWN)}")
            return
        sent = "" if message.sent_ms is None else f", sent {date_clock(message.sent_ms)}"
        body = "the journal has no bodies of messages that stay on the server"
        if self._wanted.is_empty:
            body += f"; a filter on bodies ({self.dashboard.keymap.first_key('filter')}) reads them there"
        if message.start is not None:
            body = message.start.decode("utf-8", "surrogateescape")
        rows = (
            ("message", f"{message.id}{sent}, received {plural(message.rc, 'time')}, {size(message.size)}"),
            ("outcome", _meaning(message, self.change.past)),
            ("body", printable(body, _BODY_SHOWN)),
        )
        self._details.update(
            label_table(self.app, [(f" {label:<8}", printable(words)) for label, words in rows], gap=0)
        )

    @on(FilterLine.Applied)
    def _apply_filter(self, event: FilterLine.Applied) -> None:
        event.stop()
        self._close_filter()
        self._filter_by(event.wanted)

    def _filter_by(self, wanted: Filter) -> None:
        self._wanted, self._found, self._range = wanted, _Found(), None
        self._marked.clear()
        self._read()

    def _close_filter(self) -> None:
        self.filter_line.close()
        self.table.focus()

    def action_filter(self) -> None:
        """Open the filter."""
        self.filter_line.open(self._wanted.text)

    def action_clear(self) -> None:
        """Clear the first of these: typed text, range, marks, filter; if there is none, go back."""
        if self.filter_line.is_open:
            self._close_filter()
        elif self._range is not None:
            self._range = None
            self._show()
        elif self._marked:
            self._marked.clear()
            self._show()
        elif not self._wanted.is_empty:
            self._filter_by(parse_filter(""))
        else:
            self.app.pop_screen()

    def action_mark(self) -> None:
        """Mark or unmark the message under the cursor and go to the next; or end a range."""
        if self._range is not None:
            self.action_range()
        elif (message := self.table.cursor_row) is not None:
            if self._marked.pop(_key(message), None) is None and self._may_mark(message):
                self._marked[_key(message)] = message
            self.table.action_cursor(1)
            self._show()

    def action_range(self) -> None:
        """Start a range, or mark it."""
        if self._range is None:
            self._range = self.table.cursor_index
        else:
            self._mark(self._found.rows[self._ranged])
            self._range = None
        self._show()

    @property
    def _ranged(self) -> slice:
        start, cursor = self._range or 0, self.table.cursor_index
        return slice(min(start, cursor), max(start, cursor) + 1)

    def action_mark_page(self) -> None:
        """Mark or unmark what can be undone on the screen."""
        self._mark_or_clear(self.table.rows_in_sight)

    def action_mark_all(self) -> None:
        """Mark or unmark all listed messages that can be undone."""
        if self._is_reading:
            self.warn("the messages are still being read")
        else:
            self._mark_or_clear(self._found.rows)

    def _mark_or_clear(self, messages: Sequence[ChangedMessage]) -> None:
        meant = [message for message in messages if message.is_left]
        if meant and all(_key(message) in self._marked for message in meant):
            for message in meant:
                del self._marked[_key(message)]
        else:
            self._mark(meant)
        self._show()

    def _mark(self, messages: Sequence[ChangedMessage]) -> None:
        self._marked |= {_key(message): message for message in messages if message.is_left}

    def _may_mark(self, message: ChangedMessage) -> bool:
        if not message.is_left:
            words = "was not changed: there is nothing to undo"
            if message.undone or message.made_again:
                words = "was undone already"
            if message.made_again:
                words += f", and {self.change.past} again: undo the redo"
            self.warn(f"this message {words}")
        return message.is_left

    def action_undo_marked(self) -> None:
        """Preview the undo of the marked messages, or of the one under the cursor."""
        message = self.table.cursor_row
        chosen = list(self._marked.values()) or ([] if message is None else [message])
        if self._target is None:
            warn_elsewhere(self, self.change)
        elif not chosen:
            self.warn("there is no message here")
        elif self._may_mark(chosen[0]):
            self.dashboard.changes.undo(self._target, None, self.change.change, scope=chosen_of(chosen))

    def action_copy_id(self) -> None:
        """Copy the id of the message under the cursor."""
        if (message := self.table.cursor_row) is not None:
            copy_text(self.app, message.id, "the id")

    def action_open_queue(self) -> None:
        """Go to the queue of the change."""
        open_queue_of(self, self.change)


class _Found:
    """The messages that were read: those that are listed, with their keys, and how many there are of each sort."""

    def __init__(self) -> None:
        self.rows: list[ChangedMessage] = []
        self.keys: list[str] = []
        self.total = self.done = self.undone = self.made_again = 0

    def add(self, messages: list[ChangedMessage]) -> None:
        """Add messages; those beyond the limit are counted."""
        room = LISTED_MAX - len(self.rows)
        self.rows += messages[:room]
        self.keys += map(_key, messages[:room])
        self.total += len(messages)
        self.done += sum(message.outcome is Outcome.DONE for message in messages)
        self.undone += sum(message.undone for message in messages)
        self.made_again += sum(message.made_again for message in messages)

    @property
    def undone_words(self) -> str:
        """How many of those that were done are undone; empty if none were done."""
        if not self.done:
            return ""
        some = f"undone in part: {count(self.undone)} of {count(self.done)}"
        words = "all undone" if self.undone == self.done else some if self.undone else "none undone"
        return f"{words}, {count(self.made_again)} made again" if self.made_again else words


def warn_elsewhere(screen: DashboardScreen, change: Change) -> None:
    """Say that a change cannot be undone from here."""
    words = f"change {change.change} was made on {printable(change.server, 80)}, which cannot be changed here"
    screen.warn(words)


def open_queue_of(screen: DashboardScreen, change: Change) -> None:
    """Go to the queue of a change; if it is not shown, say so."""
    if not screen.dashboard.open_shown(change.server, change.queues_in):
        name = printable(reference(change.queue, change.ns), 60)
        screen.warn(f"queue {name} is not among those that are shown")
