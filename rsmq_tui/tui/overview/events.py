"""The log of events: a screen with a table and a filter, and the last three on the overview."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on, work
from textual.binding import BindingType
from textual.strip import Strip

from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import clock, count, date_clock, duration, plural, printable, printable_name
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Painted, Piece
from rsmq_tui.tui.widgets.row_table import Column, RowTable
from rsmq_tui.tui.widgets.word_filter import WordFilter

if TYPE_CHECKING:
    from rsmq_tui.events.model import Event
    from rsmq_tui.tui.replay.session import ReplaySession

# How often the file is checked for new events.
_NEWS_S = 0.5
# The terminal height from which the overview shows the last events, and how many it shows.
LINES_FROM, LINES = 40, 3
# For this time, what happened to the server stays among the last events, and then what is worse and still true: a
# restart is followed by many events of its queues.
_KEPT_MS = 60_000
# A replay shows what happened in this time before its position.
REPLAY_SPAN_MS = 15 * 60_000

_TOKENS = {"error": "verdict-stalled", "warning": "verdict-growing", "info": "muted"}
_RANKS = {"info": 0, "warning": 1, "error": 2}
_TEXT_TOKENS = {**_TOKENS, "info": ""}


class EventContext(NamedTuple):
    """What the cells show besides their event: the time from which ages count, and whether times are clock times."""

    at_ms: int = 0
    clock_times: bool = False


def _now_ms(dashboard: Dashboard, snapshot: Snapshot | None) -> int:
    """Return the server's time, which continues while it does not answer; in a replay, the position."""
    if snapshot is None or snapshot.connection.fresh_at_s is None:
        return now_ms()
    if dashboard.replay is not None:
        return snapshot.at_ms
    return snapshot.at_ms + round(max(0.0, dashboard.clock() - snapshot.connection.fresh_at_s) * 1000)


def _when(event: "Event", context: EventContext) -> Piece:
    if context.clock_times:
        return date_clock(event.at_ms), ""
    return duration(context.at_ms - event.at_ms), ""


def _where(event: "Event") -> tuple[str, str, str | None]:
    return event.server, event.ns, event.queue


def _is_about(event: "Event", server: str, ns: str, queue: str) -> bool:
    """Return whether an event is about a queue, its server, or many queues of its namespace."""
    return event.server == server and event.queue in (None, queue) and event.ns in ("", ns)


def _queue(event: "Event") -> str:
    return "" if event.queue is None else printable_name(event.queue)


_COLUMNS: tuple[Column["Event", EventContext], ...] = (
    Column("time", "TIME", 8, _when, grow=True),
    Column(
        "server", "SERVER", 12, lambda event, _: (event.server, "muted"), drop=2, grow=True, width_max=28, middle=True
    ),
    Column("queue", "QUEUE", 8, lambda event, _: (_queue(event), "strong"), grow=True, width_max=24),
    # The sentence shows the kind of the event.
    Column("what", "WHAT", 20, lambda event, _: (event.text, _TEXT_TOKENS[event.severity.value]), grow=True),
)


class EventsScreen(DashboardScreen):
    """Shows the last events, the newest first; in a replay, those of the recorded minutes before its position.

    With a ``queue``, as (server, namespace, name), it shows only those about the queue and about its server.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("events", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("events")

    def __init__(self, queue: tuple[str, str, str] | None = None) -> None:
        super().__init__()
        self._queue = queue
        self.table = RowTable(_COLUMNS, EventContext(), id="events", on_open=self._open)
        self._title = TextLine(id="title")
        self._why = TextLine(id="event")
        self._filter = WordFilter(
            "events",
            "words in a queue, server or sentence; !word excludes",
            apply=self._show,
            target=lambda: self.table,
        )
        self.parts = (self._title, self._filter, self.table, self._why)
        # Those of the queue, or all.
        self._events: Sequence[Event] = ()
        self._shown: object = None
        self._problem: str | None = None
        self._is_reading = False

    def on_mount(self) -> None:
        """Focus the table, and follow the log."""
        self.table.focus()
        if self.dashboard.replay is None:
            self._look()
            self.set_interval(_NEWS_S, self._look)
        else:
            self.refresh_unpolled()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Update the ages."""
        self._show()

    def refresh_unpolled(self) -> None:
        """Read the events before the position of a replay again."""
        replay = self.dashboard.replay
        if replay is not None:
            self._read(replay, replay.position_ms)

    @work(group="events", exclusive=True)
    async def _read(self, replay: "ReplaySession", at_ms: int) -> None:
        from rsmq_tui.tui.replay.session import events_before  # noqa: PLC0415 - Arrow is loaded where something is replayed

        self._is_reading = True
        self._show()
        try:
            audited = await replay.changes()
            self._keep(await asyncio.to_thread(events_before, replay.label, at_ms, REPLAY_SPAN_MS, audited.changes))
            self._problem = next(iter(audited.problems), None)
        except Exception as error:
            # A damaged file or a filesystem may raise any exception.
            self._problem = f"these events cannot be read: {str(error) or type(error).__name__}"
        self._is_reading = False
        self._show()

    def _look(self) -> None:
        events = self.dashboard.events
        if events is None:
            return
        if (events.revision, events.problem) != self._shown:
            self._shown = events.revision, events.problem
            self._keep(events.recent)
            self._problem = events.problem
            self._show()
        else:
            # The next poll may be ten seconds away.
            self.table.context = self._ages
            self.table.repaint()

    def _keep(self, events: "Sequence[Event]") -> None:
        self._events = events if self._queue is None else [event for event in events if _is_about(event, *self._queue)]

    def _show(self) -> None:
        if not self.is_mounted:
            return
        rows = [event for event in self._events if event.matches(self._filter.value)]
        # Of events with equal times, the one that was recorded last is the newest.
        rows.sort(key=lambda event: event.at_ms)
        rows.reverse()
        # Two equal events, as from dashboards without a common file, are one row.
        by_key = {f"{one.at_ms} {one.kind}\0{one.server}\0{one.ns}\0{one.queue}\0{one.text}": one for one in rows}
        has_several = len({one.server for one in self._events}) > 1
        self.table.columns = tuple(column for column in _COLUMNS if has_several or column.id != "server")
        self.table.empty_text = [(f"  {self._nothing()}", "muted")]
        self.table.show(list(by_key.values()), list(by_key), self._ages)
        self._title.show(self._head(len(by_key)))
        self._show_whole()

    @property
    def _ages(self) -> EventContext:
        return EventContext(_now_ms(self.dashboard, self.snapshot), self.dashboard.clock_times)

    def _nothing(self) -> str:
        if self._is_reading:
            return "reading the history …"
        return "No event matches." if self._filter.value and self._events else "Nothing has happened yet."

    def _head(self, shown: int) -> list[Piece]:
        total = len(self._events)
        number = plural(total, "event") if shown == total else f"{count(shown)} of {plural(total, 'event')}"
        if self.dashboard.replay is not None:
            span = f"the {duration(REPLAY_SPAN_MS)} before"
            # What is shown meanwhile is of another position, or nothing.
            number = f"reading {span} …" if self._is_reading else f"{number} in {span}"
        of_queue = "" if self._queue is None else f" of {printable_name(self._queue[2], 60)} and its server"
        pieces: list[Piece] = [(f" ◀ events{of_queue}   ", "strong"), (number, "")]
        if self._problem is not None:
            pieces.append((f"   ! {printable(self._problem, 200)}", "alarm"))
        return pieces

    @on(RowTable.Moved)
    def _show_whole(self) -> None:
        event = self.table.cursor_row
        pieces: list[Piece] = []
        if event is not None:
            where = printable(event.server if event.queue is None else event.queue, 60)
            token = _TOKENS[event.severity.value]
            pieces = [(f" {clock(event.at_ms, date=True)} ", "muted"), (f"{event.kind} ", token),
                      (f"{where}: {printable(event.text, 600)}", "")]  # fmt: skip
        self._why.show(pieces, 3)

    def _open(self, event: "Event") -> None:
        """Replay the moment if it was recorded; otherwise, go to the queue."""
        history = self._history
        if history is None:
            self._go_to_queue(event)
        else:
            self.dashboard.open_replay(history, event.at_ms, event.queue, partial(self._go_to_queue, event))

    def _go_to_queue(self, event: "Event") -> None:
        if _where(event) == self._queue:
            # Its screen is the one below.
            self.app.pop_screen()
            return
        if self.dashboard.open_shown(event.server, lambda ns: (event.queue,) if ns == event.ns else ()):
            return
        name = printable(event.queue or "", 60)
        gone = [one.at_ms for one in self._events if one.kind == "deleted" and _where(one) == _where(event)]
        if event.queue is None:
            words = "this event is not about a queue"
        elif gone:
            words = f"queue {name} was deleted at {date_clock(gone[-1], zone=True)}"
        else:
            words = f"queue {name} is not among those that are shown"
        self.warn(words)

    @property
    def _history(self) -> str | None:
        """The recording: the one that this dashboard writes, or that of the open analysis."""
        if self.dashboard.replay is not None:
            return None
        if self.dashboard.recording is not None:
            return self.dashboard.recording.label
        return None if self.dashboard.analysis is None else self.dashboard.analysis.history

    def leads_somewhere(self, action: str) -> bool:
        """Leave out the hint for a replay if nothing is recorded."""
        return self._history is not None if action == "replay_moment" else super().leads_somewhere(action)

    def action_replay_moment(self) -> None:
        """Replay the moment of the event under the cursor."""
        event, history = self.table.cursor_row, self._history
        if event is None:
            self.warn("no event is selected")
        elif history is None:
            self.warn("nothing is being recorded: start rsmq-tui with --record DIR")
        else:
            self.dashboard.open_replay(history, event.at_ms, event.queue)


class LastEvents(Painted):
    """Shows the last events on a terminal with room for them, and nothing while there are none."""

    DEFAULT_CSS = f"""
    LastEvents {{ height: {LINES}; display: none; }}
    """

    def __init__(self) -> None:
        super().__init__(id="last-events")
        self._events: Sequence[Event] = ()
        self._verdicts: dict[tuple[str, str, str | None], Event] = {}
        self._at_ms = 0

    def follow(self, snapshot: Snapshot) -> None:
        """Show the last events of what is on the overview, with their ages; the log may have others."""
        dashboard = dashboard_of(self.app)
        has_room = self.app.size.height >= LINES_FROM and dashboard.replay is None
        events = dashboard.events.recent if has_room and dashboard.events is not None else ()
        parts = snapshot.parts or (snapshot,)
        servers, namespaces = {part.server for part in parts}, {(part.server, part.ns) for part in parts}
        shown = [
            event
            for event in events
            if event.server in servers and (event.queue is None or (event.server, event.ns) in namespaces)
        ]
        self._at_ms = _now_ms(dashboard, snapshot)
        in_order = sorted(shown, key=lambda event: event.at_ms)
        self._verdicts = {_where(event): event for event in in_order if event.kind == "verdict"}
        kept = sorted(shown, key=self._importance)[-LINES:]
        self._events = sorted(kept, key=lambda event: event.at_ms)
        self.display = bool(self._events)
        if self.display:
            self.styles.height = len(self._events)
            self.repaint()

    def _importance(self, event: "Event") -> tuple[bool, bool, int, int]:
        """Order events by how long they stay; those of the same importance by their time."""
        # A queue that has another verdict now is no longer what the event says.
        is_over = event.kind == "verdict" and self._verdicts[_where(event)] is not event
        rank = 0 if is_over or self._at_ms - event.at_ms >= _KEPT_MS else _RANKS[event.severity.value]
        return rank > 0, event.ns == "" and rank > 0, rank, event.at_ms

    def paint(self) -> list[Strip]:
        """Paint one event a line, the newest first."""
        return [self.clipped(self._pieces(event)) for event in reversed(self._events)]

    def _pieces(self, event: "Event") -> list[Piece]:
        where = _queue(event) or event.server
        dashboard = dashboard_of(self.app)
        when, _ = _when(event, EventContext(self._at_ms, dashboard.clock_times))
        return [
            (f" {when:>8} ", "muted"), (f"{printable(where, 30)} ", "strong"),
            (printable(event.text, 300), _TEXT_TOKENS[event.severity.value]),
        ]  # fmt: skip
