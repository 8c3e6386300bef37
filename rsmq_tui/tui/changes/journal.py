"""The journal: a screen with all changes, what undoing one would do now, and undo and redo of any of them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from textual import on, work
from textual.binding import BindingType
from textual.widgets import Static

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import count, date_clock, duration, passes, plural, printable
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.triage.actions import reference
from rsmq_tui.triage.change import Change, State, UndoChain
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.changes.messages import open_queue_of, warn_elsewhere
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.controls import label_table
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column, RowTable
from rsmq_tui.tui.widgets.word_filter import WordFilter

CHANGES_MAX = 1_000
# How often the file is checked for changes by other programs.
_NEWS_S = 0.5
# How long the cursor must rest before the server is asked about a change.
_REST_S = 0.15
# How long its answer is shown before it is asked again.
_AGAIN_MS = 5_000
_TOKENS = {State.RUNNING: "live", State.INTERRUPTED: "alarm", State.DAMAGED: "alarm", State.UNDONE: "muted"}


@dataclass(frozen=True, slots=True)
class _Context:
    """The time from which ages count, whether times are clock times, and the changes by their numbers."""

    at_ms: int = 0
    clock_times: bool = False
    changes: Mapping[int, Change] = field(default_factory=dict)

    def is_undo(self, change: Change) -> bool:
        """Return whether a change is an undo, not a redo."""
        return UndoChain.of(change, self.changes.get).is_undo


def _when(change: Change, context: _Context) -> Piece:
    return (
        (date_clock(change.at_ms), "") if context.clock_times else (duration(max(0, context.at_ms - change.at_ms)), "")
    )


def _what(change: Change, context: _Context) -> Piece:
    if change.undoes is not None:
        if context.is_undo(change):
            return f"undo of {change.undoes}{', in part' if change.part else ''}", ""
        undone = context.changes.get(change.undoes)
        # That may be no longer in the journal, or not among the last changes.
        words = f"redo of {undone.undoes}" if undone is not None else f"redo: {change.what}"
        return f"{words}, in part" if change.part else words, ""
    return f"{change.name}{change.to}: {change.what}", ""


def _state(change: Change, _: _Context) -> Piece:
    return change.state_words, _TOKENS.get(change.state, "")


def _failed(change: Change, _: _Context) -> Piece:
    return count(change.failed), "alarm" if change.failed else "muted"


def _queue(change: Change) -> str:
    return reference(change.queue, change.ns)


_COLUMNS: tuple[Column[Change, _Context], ...] = (
    Column("change", "NO.", 5, lambda change, _: (str(change.change), "strong"), right=True),
    Column("when", "WHEN", 8, _when, grow=True),
    Column("state", "STATE", 11, _state),
    Column("done", "DONE", 9, lambda change, _: (count(change.done), ""), right=True),
    Column("skipped", "SKIPPED", 7, lambda change, _: (count(change.skipped), "muted"), drop=2, right=True),
    Column("failed", "FAILED", 6, _failed, drop=3, right=True),
    Column("who", "WHO", 8, lambda change, _: (change.who, "muted"), drop=1, width_max=16),
    Column("queue", "QUEUE", 8, lambda change, _: (_queue(change), "strong"), grow=True, width_max=28),
    Column("what", "WHAT", 16, _what, grow=True),
)  # fmt: skip


class _Outlook(NamedTuple):
    """What undoing a change would do, None until known; ``at_ms`` is the server's time, None during the request."""

    change: Change
    words: str | None = None
    at_ms: int | None = None


class JournalScreen(DashboardScreen):
    """Shows the last changes in the journal, the newest first; with ``queue`` and its place, those of that queue."""

    WHERE: ClassVar[tuple[Where, ...]] = ("journal", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("journal")

    def __init__(self, queue: str | None = None, place: str | None = None) -> None:
        super().__init__(place)
        self.queue = queue
        # A change that another program makes must not come under the cursor, where keys would undo it.
        self.table = RowTable(_COLUMNS, _Context(), id="journal", on_open=self._open, follows_at_once=True)
        self._title = TextLine(id="title")
        self._details = Static(id="details", markup=False)
        self._filter = WordFilter(
            "journal",
            "words in a queue, change or name; !word excludes",
            apply=self._show,
            target=lambda: self.table,
        )
        self.parts = (self._title, self._filter, self.table, self._details)
        self._changes: Sequence[Change] = ()
        self._problem: str | None = None
        self._version_read: object = ()
        self._outlook: _Outlook | None = None
        self._is_settling = False

    def on_mount(self) -> None:
        """Focus the table, and follow the journal."""
        self.table.focus()
        self._look()
        self.set_interval(_NEWS_S, self._look)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Update the ages."""
        self._show()

    def refresh_unpolled(self) -> None:
        """Ask the server again what an undo would do."""
        self._outlook = None
        self._show_details()

    def _follow_change(self, status: ChangeStatus) -> None:
        self._outlook = None
        self._look()

    @property
    def _servers(self) -> list[WatchedServer]:
        """The servers whose queues can be changed from here; they share a journal."""
        servers = self.dashboard.servers if self.place is None else [self.server]
        return [server for server in servers if server.can_export]

    def _server_of(self, change: Change) -> WatchedServer | None:
        """Return the server on which a change can be undone: with its namespace or kind, if that is shown."""
        servers = [server for server in self._servers if server.can_change and server.triage.server == change.server]
        return next((server for server in servers if server.triage.ns == change.ns), servers[0] if servers else None)

    def _look(self) -> None:
        servers = self._servers
        if servers and (version := servers[0].triage.journal_version) != self._version_read:
            self._version_read = version
            self._read(servers[0])
        elif any(change.state is State.RUNNING for change in self._changes) and not self._is_settling:
            self._settle()

    @work(group="journal", exclusive=True)
    async def _read(self, server: WatchedServer) -> None:
        try:
            self._changes, self._problem = await server.triage.changes(CHANGES_MAX), None
        except TriageError as error:
            self._problem = str(error)
        self._show()

    @work(group="settle")
    async def _settle(self) -> None:
        """Settle changes whose program has ended without doing so; the journal then has news."""
        self._is_settling = True
        running = {change.server for change in self._changes if change.state is State.RUNNING}
        try:
            for server in self._servers:
                if server.can_change and server.triage.server in running:
                    running.remove(server.triage.server)
                    await server.triage.settle_abandoned()
        except TriageError as error:
            self._problem = str(error)
            self._show()
        finally:
            self._is_settling = False

    def _show(self) -> None:
        if not self.is_mounted:
            return
        rows = [change for change in self._changes if self._is_shown(change)]
        self.table.empty_text = [(f"  {self._nothing()}", "muted")]
        self.table.show(rows, [str(change.change) for change in rows], self._cells)
        pieces: list[Piece] = [(" ◀ journal ", "strong"), (f"{self._where}  {plural(len(rows), 'change')}", "")]
        if len(self._changes) == CHANGES_MAX:
            pieces.append((f" of the last {count(CHANGES_MAX)}", "muted"))
        if self._problem is not None:
            pieces.append((f"   ! {printable(self._problem, 200)}", "alarm"))
        self._title.show(pieces)
        self._show_details()

    def _is_shown(self, change: Change) -> bool:
        if self.queue is not None:
            part = self.snapshot
            if part is None or change.server != part.server or self.queue not in change.queues_in(part.ns):
                return False
        texts = (change.queue, change.to, *change.moved, change.what, change.who, change.server, change.name,
                 change.state_words)  # fmt: skip
        return passes(self._filter.value, lambda word: any(word in text.lower() for text in texts))

    @property
    def _where(self) -> str:
        return "" if self.queue is None else f"of {printable(self.queue, 60)} "

    def _nothing(self) -> str:
        if self._filter.value and self._changes:
            return "No change matches."
        return "No changes were made from here yet." if self._servers else "Nothing can be changed here."

    @property
    def _cells(self) -> _Context:
        return _Context(self._now_ms, self.dashboard.clock_times, {change.change: change for change in self._changes})

    @on(RowTable.Moved)
    def _show_details(self) -> None:
        change = self.table.cursor_row
        self._details.display = change is not None
        if change is None:
            return
        where = f"{_queue(change)} on {change.server}"
        if kind_of(change.ns).has_namespaces:
            where += f", ns {change.ns}"
        by = f"{change.who} on {change.host}, {date_clock(change.at_ms, zone=True)}"
        if change.profile:
            by += f", profile {change.profile}"
        done = f"{change.past} {count(change.done)} of {count(change.planned)}: {change.what}"
        rows = [("change", f"{done}; {change.doubt}" if change.doubt else done), ("queue", where), ("by", by)]
        rows.append(("undo", self._undo_words(change)))
        pairs = [(f" {label:<8}", printable(words)) for label, words in rows]
        self._details.update(label_table(self.app, pairs, gap=0))

    def _undo_words(self, change: Change) -> str:
        """Describe what undoing a change would do now; ask the server if necessary."""
        if change.state is State.UNDONE:
            return self._undone_words(change)
        if not change.can_be_undone:
            if change.state is not State.RUNNING:
                return "nothing was done"
            is_ours = self._server_of(change) is not None
            return "it is running" if is_ours else f"it is running, or interrupted: {change.server} is not changed here"
        server = self._server_of(change)
        if server is None:
            return f"{change.server} cannot be changed here"
        before = f"undone in part: {count(change.undone)} of {count(change.done)}" if change.is_part_undone else ""
        were = "was" if change.redone == 1 else "were"
        again = f"{count(change.redone)} {f'more {were}' if before else f'{were} undone and'} made again"
        again = again if change.redone else ""
        return "; ".join(filter(None, (", ".join(filter(None, (before, again))), self._outlook_words(server, change))))

    def _outlook_words(self, server: WatchedServer, change: Change) -> str:
        known = self._outlook
        if known is None or known.change != change:
            known = _Outlook(change)
        elif known.at_ms is None or self._now_ms - known.at_ms <= _AGAIN_MS:
            return known.words or "…"
        # The words stay until there is an answer.
        self._outlook = asked = known._replace(at_ms=None)
        self._ask(server, asked)
        return known.words or "…"

    def _undone_words(self, change: Change) -> str:
        """Describe by which changes a change was undone, and made again."""
        chain, original = self._undone_by(change), self._original_of(change)
        if not chain:
            return "undone"
        first, last = chain[0].change, chain[-1].change
        is_undone = self._cells.is_undo(chain[-1])
        if original is None and change.undone and not is_undone:
            # Its undo was undone in part.
            again = f"{count(change.redone)} of {count(change.done)} made again by {last}"
            return f"undone by {first}, and {again}; {self._redo_key} makes the others again"
        if original is not None:
            again = f"change {original} was made again by {first if is_undone else last}"
            return f"{again}, and undone by {last}" if is_undone else again
        if not is_undone:
            return f"undone by {first}, and made again by {last}"
        left = change.done - change.undone
        less = f", except for {count(left)} of {count(change.done)}" if change.is_part_undone else ""
        return f"undone by {last}{less}; {self._redo_key} makes it again"

    @property
    def _redo_key(self) -> str:
        return self.dashboard.keymap.first_key("redo")

    @property
    def _now_ms(self) -> int:
        return self.snapshot.at_ms if self.snapshot is not None else 0

    @work(group="outlook", exclusive=True)
    async def _ask(self, server: WatchedServer, asked: _Outlook) -> None:
        # If the cursor moves on, a newer request cancels this one.
        await asyncio.sleep(_REST_S)
        try:
            words = (await server.triage.undo_outlook(asked.change)).words
        except TriageError as error:
            words = str(error)
        if (original := self._original_of(asked.change)) is not None:
            words += f"; {self._redo_key} makes change {original} again"
        # If a change was made meanwhile, ask again.
        if self._outlook is asked:
            self._outlook = asked._replace(words=words, at_ms=self._now_ms)
        self._show_details()

    def _undone_by(self, change: Change) -> list[Change]:
        """Return the change that has undone a change, the one that has undone that, and so on; the last one counts."""
        chain: list[Change] = []
        # Newest first: the last one that has changed anything.
        last = {one.undoes: one for one in reversed(self._changes) if one.undoes is not None and one.touched}
        undo = last.get(change.change)
        while undo is not None:
            chain.append(undo)
            undo = last.get(undo.change)
        return chain

    def _original_of(self, change: Change) -> int | None:
        """Return the number of the change that an undo has undone; None if it is no undo."""
        return change.undoes if self._cells.is_undo(change) else None

    def _open(self, change: Change) -> None:
        """Show the messages of a change."""
        if self._servers:
            self.dashboard.navigation.open("change", change, self._servers[0], self._server_of(change))

    def action_open_queue(self) -> None:
        """Go to the queue of the change under the cursor."""
        if (change := self.table.cursor_row) is not None:
            open_queue_of(self, change)

    def action_undo_change(self) -> None:
        """Preview the undo of the change under the cursor."""
        change = self.table.cursor_row
        if change is None:
            self.warn("no change is selected")
        elif change.state is State.UNDONE:
            self.warn(f"change {change.change}: {self._undo_words(change)}")
        else:
            self._undo(change, "Undo")

    def action_redo_change(self) -> None:
        """Preview making again the change under the cursor, which was undone, or the change that it has undone."""
        change = self.table.cursor_row
        if change is None:
            self.warn("no change is selected")
            return
        *before, last = change, *self._undone_by(change)
        # A redo may have made a part of it again: then its undo can be undone further.
        undo = next((one for one in (last, *before[::-1]) if self._cells.is_undo(one) and one.can_be_undone), None)
        if undo is not None:
            self._undo(undo, "Redo")
            return
        words = "this change is not undone: there is nothing to redo"
        if self._cells.is_undo(last):
            words = "this undo has changed nothing"
        elif before:
            words = f"change {self._original_of(change) or change.change} was made again already"
        self.warn(words)

    def _undo(self, change: Change, verb: str) -> None:
        server = self._server_of(change)
        if server is None:
            warn_elsewhere(self, change)
        else:
            self.dashboard.changes.undo(server, None, change.change, verb)
