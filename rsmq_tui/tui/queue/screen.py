"""The screen of one queue: verdict, recent history and messages."""

from collections.abc import Iterator
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from rsmq_tui.monitor import (
    Filter,
    MessageRow,
    PeekError,
    QueueState,
    Snapshot,
    Thresholds,
    needed_deletes,
    parse_filter,
    reason,
)
from rsmq_tui.monitor.poller import KnowsWaiters, LooksFirst
from rsmq_tui.monitor.text import (
    UNKNOWN,
    clock,
    count,
    duration,
    net,
    plural,
    printable,
    seconds,
    zone_words,
)
from rsmq_tui.monitor.tracking.drain import drain_rates
from rsmq_tui.monitor.tracking.forecast import limit_words
from rsmq_tui.monitor.tracking.reasons import returned
from rsmq_tui.monitor.tracking.tracker import DRAIN_SPAN_MS
from rsmq_tui.protocol.kinds import kind_named
from rsmq_tui.triage.scope import Scope
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.changes.forms import Answers, Field, Form, FormScreen
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.links import Link
from rsmq_tui.tui.overview.known import ignored_pieces, known_pieces
from rsmq_tui.tui.queue.clients import ClientsScreen, waiters_text, waiting_text
from rsmq_tui.tui.queue.groups import GroupScreen
from rsmq_tui.tui.queue.marks import ActingScreen, all_of
from rsmq_tui.tui.queue.message import MessagePane
from rsmq_tui.tui.queue.message_list import MessageList
from rsmq_tui.tui.queue.pager import OncePerPoll
from rsmq_tui.tui.queue.pane import QueueCharts
from rsmq_tui.tui.queue.positions import FORMS, Position, read_position
from rsmq_tui.tui.replay.banner import inventory_pieces
from rsmq_tui.tui.theme import verdict_words
from rsmq_tui.tui.widgets.charts import BarPanel
from rsmq_tui.tui.widgets.controls import copy_text
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.message_filter import FilterLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import RowTable

_GONE = "this queue is gone: it was deleted or lost, or another namespace is shown"


def title_pieces(
    queue: str, state: QueueState | None, snapshot: Snapshot, thresholds: Thresholds, log_key: str
) -> list[Piece]:
    """Return the queue's name, its verdict and the reason, how many deletes it needs, and what came back.

    ``log_key`` opens the log of events.
    """
    pieces: list[Piece] = [(" ◀ ", "muted"), (printable(queue, 80), "strong")]
    if state is not None:
        words = reason(state, snapshot.at_ms, thresholds)
        pieces.append((f"   {verdict_words(state.verdict)}", f"verdict-{state.verdict}"))
        pieces.append((f": {words}", ""))
        recent = snapshot.trend.rates(state.name, DRAIN_SPAN_MS)
        rates = None if recent is None else drain_rates(recent, state.rates)
        if more := needed_deletes(state, rates):
            pieces.append((f"; {more}, at the rates of {'1 min' if rates is recent else '10 s'}", "strong"))
        if back := returned(state, snapshot.trend):
            pieces.append((f"; {back}", "strong"))
    elif snapshot.connection.fresh_at_s is not None:
        pieces.append((f"   {_GONE}; the log ({log_key}) says which", "alarm"))
    return pieces


def fact_pieces(state: QueueState | None, at_ms: int) -> list[Piece]:
    """Return the limit that it approaches, its attributes and counters, and its problems."""
    if state is None:
        return []
    limit = limit_words(state.limit, at_ms)
    pieces: list[Piece] = [(f" limit: {limit} at the rates of 10 min  ", "strong")] if limit else []
    pieces.append((f" {' · '.join(_facts(state))}", "muted"))
    if state.problems:
        pieces.append((f"   ! {'; '.join(state.problems)}", "notice"))
    return pieces


def _facts(state: QueueState) -> Iterator[str]:
    kind = kind_named(state.kind)
    if kind.title:
        yield kind.title
    if "set" in kind.actions:
        yield f"vt {seconds(state.vt_s)}"
        yield f"delay {seconds(state.delay_s)}"
        yield f"max {'unlimited' if state.maxsize == -1 else count(state.maxsize)}"
    if kind.counts_receives:
        yield f"sent {count(state.totalsent)}"
        yield f"received {count(state.totalrecv)}"
        yield f"created {clock(state.created_ms, date=True)[:16]}"
    if kind.has_leases:
        yield f"{count(state.hidden)} in processing"
        yield f"{UNKNOWN if state.expired is None else plural(state.expired, 'lease')} expired"
    if not kind.counts_arrivals:
        yield f"depth {net(state.net_s)}/s"


def time_pieces(state: QueueState | None, snapshot: Snapshot) -> list[Piece]:
    """Return the waiting and working times of messages in flight, and how many were sent and received recently."""
    if state is None:
        return []
    words = []
    times = state.times_at(snapshot.at_ms)
    if times is not None:
        high = "p95" if times.is_percentile else "longest"
        words.append(f"wait {duration(times.wait_p50_ms)}, {high} {duration(times.wait_p95_ms)}")
        words.append(f"work {duration(times.work_p50_ms)}, {high} {duration(times.work_p95_ms)}")
        sampled = "sampled " if (state.hidden or 0) > times.sampled else ""
        words.append(f"of {times.sampled} {sampled}in flight")
    if state.totalsent is not None and state.totalrecv is not None and kind_named(state.kind).counts_receives:
        for sums in snapshot.trend.sums(state.name, snapshot.at_ms, state.totalsent, state.totalrecv, state.created_ms):
            since = clock(snapshot.at_ms - sums.span_ms)[:5]
            span = f"in {duration(sums.span_ms)}" if sums.whole else f"since {since}"
            words.append(f"{span} {count(sums.sent)} sent, {count(sums.received)} received")
    return [(f" · {word}", "muted") for word in words]


class QueueScreen(ActingScreen):
    """Shows attributes, charts and messages of one queue; its keys mark messages and start changes.

    ``wanted`` is the filter that it begins with.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("queue", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("queue")

    def __init__(self, queue: str, place: str = "", wanted: Filter | None = None) -> None:
        super().__init__(queue, place)
        self._kind = self.server.kind
        self.messages = MessageList(queue, place, self._kind.tabs, on_open=self._open, wanted=wanted)
        self._title = TextLine(id="title")
        self._facts = TextLine(id="facts")
        self._charts = QueueCharts(self._kind)
        self._due = BarPanel(self._kind.due_title)
        self._pane = MessagePane()
        charts = self._charts
        self.parts = (
            self._title,
            Horizontal(charts.depth, charts.rates, charts.flights, self._due, id="charts"),
            *(charts.sparks, self._facts),
            Vertical(self.messages, self._pane, id="body"),
        )
        self._counting = OncePerPoll()
        self._known_facts: list[Piece] = []
        self._waiting: list[Piece] = []

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the queue's state and its messages."""
        state = next((queue for queue in snapshot.queues if queue.name == self.queue), None)
        place = self.server.place
        silenced = known_pieces(self.dashboard.known(place).get(self.queue))
        silenced += ignored_pieces(state, self.dashboard.ignored.get(place))
        # On a narrow terminal, more lines for the reason of the verdict.
        thresholds, log_key = self.server.source.thresholds, self.dashboard.keymap.first_key("events")
        self._title.show([*title_pieces(self.queue, state, snapshot, thresholds, log_key), *silenced], 3)
        replay = self.dashboard.replay
        recorded = [] if replay is None else inventory_pieces(replay, self.place or "", self.queue)
        # What does not fit on two lines is cut off at the end, and the time of the messages must not be.
        words = self.dashboard.usual_words(snapshot, self.queue)
        usual: list[Piece] = [(f" {words}  ", "strong")] if words else []
        self._known_facts = [*recorded, *usual, *fact_pieces(state, snapshot.at_ms), *time_pieces(state, snapshot)]
        if isinstance(self.server.source, LooksFirst):
            self.server.source.look_first([self.queue])
        self._show_facts()
        self._show_charts(snapshot, state)
        self.messages.show_snapshot(snapshot, state)

    @on(RowTable.Moved)
    @on(MessageList.Shown)
    def _show_pane(self) -> None:
        """Show the message under the cursor."""
        at_ms, row = 0 if self.snapshot is None else self.snapshot.at_ms, self.messages.table.cursor_row
        is_gone = row is not None and row.id in self.messages.table.context.gone
        self._pane.follow(row, at_ms, self.queue, self.server.place, is_gone=is_gone)

    def _show_facts(self) -> None:
        self._facts.show([*self._known_facts, *self._waiting], 2, keep=True)

    def refresh_unpolled(self) -> None:
        """Sort as was asked for, or repeat the search, if there is one."""
        if not self.messages.confirm_order():
            self.messages.search_again()

    def _open(self, message: MessageRow) -> None:
        self.dashboard.navigation.open("message", self.queue, message.id, self.server.place)

    @on(FilterLine.Applied)
    def _apply(self, event: FilterLine.Applied) -> None:
        self._close_filter()
        self.messages.apply(event.wanted)

    def action_known(self) -> None:
        """Acknowledge the trouble of this queue."""
        self.ask_known(self.queue, self.server.place)

    def action_part(self, step: int) -> None:
        """Show the next tab, or the one before."""
        self.messages.choose_tab(step)

    def action_turn(self, step: int) -> None:
        """Show the next page or the one before."""
        if not self.messages.turn(step) and self.messages.is_search:
            self.messages.table.action_page(step)

    def action_sort_next(self) -> None:
        """Sort by the next column."""
        self.messages.sort_next()

    def action_sort_reverse(self) -> None:
        """Reverse the order."""
        self.messages.sort_reverse()

    def action_go_to(self) -> None:
        """Ask for a position, and go there."""
        field = Field("position", "position", hint=FORMS)
        form = Form(f"Go to a message of {printable(self.queue, 60)}", (field,), self._position_of)
        note = f"times in {zone_words(self.snapshot.at_ms if self.snapshot else 0)}"
        screen = FormScreen(form, lambda position: self._go_to(screen, position), yes="Go", note=note)
        self.app.push_screen(screen)

    def _position_of(self, answers: Answers) -> Position:
        now_ms = 0 if self.snapshot is None else self.snapshot.at_ms
        return read_position(str(answers["position"]), now_ms)

    def _go_to(self, screen: FormScreen[Position], position: Position) -> None:
        screen.dismiss()
        self.messages.go_to(position)

    def action_filter(self) -> None:
        """Open the filter."""
        messages = self.messages
        messages.filter_line.poison_rc = self.server.source.thresholds.poison_rc
        messages.filter_line.open(messages.typed.text)
        messages.show()

    def action_clear(self) -> None:
        """Clear the first of these: typed text, running search, range, marks, order, filter; if none, go back."""
        messages = self.messages
        if messages.filter_line.is_open:
            self._close_filter()
        elif messages.end_search():
            return
        elif messages.marks.end_range() or messages.marks.clear():
            messages.show()
        elif messages.end_sort():
            return
        elif not messages.typed.is_empty:
            messages.apply(parse_filter(""))
        else:
            self.app.pop_screen()

    def action_mark(self) -> None:
        """Mark or unmark the message under the cursor and go to the next; or end a range."""
        messages, table = self.messages, self.messages.table
        if messages.marks.end_all():
            messages.show()
        elif messages.marks.has_range:
            self.action_range()
        elif table.cursor_row is not None:
            messages.marks.toggle(table.cursor_row)
            messages.show()
            table.action_cursor(1)

    def action_range(self) -> None:
        """Start a range, or mark it."""
        marks, table = self.messages.marks, self.messages.table
        if marks.end_all():
            pass
        elif marks.has_range:
            marks.mark(marks.ranged(table.rows, table.keys, table.cursor_index))
            marks.end_range()
        elif table.cursor_key is not None:
            marks.start_range(table.cursor_key, table.cursor_index)
        self.messages.show()

    def action_mark_page(self) -> None:
        """Mark or unmark all rows of the page."""
        if not self.messages.marks.end_all():
            self.messages.marks.mark_or_clear(self.messages.table.rows)
        self.messages.show()

    def action_mark_all(self) -> None:
        """Mark all matching messages in the whole queue."""
        self.messages.marks.mark_all()
        self.messages.show()

    def action_export(self) -> None:
        """Export the marked messages, or else all that match; this removes nothing."""
        marks, wanted = self.messages.marks, self.messages.wanted
        self.dashboard.changes.export(self.server, self.queue, marks.scope(wanted, None) or all_of(wanted))

    def action_audit(self) -> None:
        """Audit this queue."""
        self.dashboard.navigation.open("audit", self.queue, self.server.place)

    def action_journal(self) -> None:
        """Show the changes of this queue."""
        self.dashboard.navigation.open("journal", self.queue, self.server.place)

    def action_group(self) -> None:
        """Count messages by a field of their JSON."""
        self.app.push_screen(GroupScreen(self.server.source, self.queue, self.messages.wanted), self._narrow)

    def action_clients(self) -> None:
        """Show who works on this queue."""
        self.app.push_screen(ClientsScreen(self.server.source, self.queue))

    def action_copy_body(self) -> None:
        """Copy the body of the message under the cursor."""
        if self.messages.table.cursor_key is not None:
            self._copy_body(self.messages.table.cursor_key)

    @property
    def link(self) -> Link:
        """The queue with its filter."""
        return Link(self.queue, self.messages.typed.text, self.server.place)

    @property
    def scope(self) -> Scope | None:
        """The marked messages, or all that match, or the message under the cursor."""
        return self.messages.marks.scope(self.messages.wanted, self.messages.table.cursor_row)

    @property
    def chosen_id(self) -> str | None:
        """The id of the message under the cursor."""
        return self.messages.table.cursor_key

    @property
    def why_nothing(self) -> str:
        """Why there is nothing to change."""
        if self.chosen_id is None:
            return self.messages.why_none
        return f"nothing is marked: {self.dashboard.keymap.first_key('mark')} marks a message, esc starts over"

    def _narrow(self, term: str | None) -> None:
        """Add the term of a group to the filter."""
        if term is not None:
            text = f"{self.messages.typed.text} {term}".strip()
            self.messages.apply(parse_filter(text, self.server.source.thresholds.poison_rc))

    def _close_filter(self) -> None:
        self.messages.filter_line.close()
        self.set_focus(self.messages.table)
        self.messages.show()

    def receive_change(self, status: ChangeStatus | None) -> None:
        """Show the progress or outcome of a change; the next message is then under the cursor."""
        super().receive_change(status)
        is_begun = status is not None and status.is_running and not status.handled
        if is_begun and self.asked is not None:
            self.messages.stay(self.asked)

    def _follow_change(self, status: ChangeStatus) -> None:
        # The marked messages were changed, and the results of a search may be outdated.
        if status.scope is not None and status.scope is self.asked:
            self.asked = None
            self.messages.marks.clear()
        self.messages.search_again()

    @work(group="copy", exclusive=True)
    async def _copy_body(self, id: str) -> None:
        body = await self.body_of(id)
        if body is not None:
            copy_text(self.app, body.decode("utf-8", "replace"), "the body")

    @work(group="blocked", exclusive=True)
    async def action_blocked(self) -> None:
        """Show how many consumers are blocked on this list, or on all lists of the server."""
        self.notify(await waiters_text(self.server.source, self.queue), markup=False)

    def _show_charts(self, snapshot: Snapshot, state: QueueState | None) -> None:
        self._charts.show_values(state)
        if self._counting.begin(snapshot.at_ms):
            self._count_due(snapshot.at_ms)
        changed_ms = self.dashboard.changed_ms(snapshot, self.queue)
        self._charts.show(snapshot, self.queue, self._kind, self.dashboard.window_ms, changed_ms)

    @work(group="due", exclusive=True)
    async def _count_due(self, at_ms: int) -> None:
        source = self.server.source
        try:
            due = await source.due(self.queue, at_ms)
            waiting = await source.waiting(self.queue) if isinstance(source, KnowsWaiters) else None
        except PeekError:
            self._due.add_class("-stale")
        else:
            self._due.remove_class("-stale")
            self._due.show(due)
            self._waiting = [(f" · {waiting_text(waiting)}", "muted")] if waiting and waiting.here else []
            self._show_facts()
            self.messages.show_unleased(dict(due).get("no lease"))
        finally:
            self._counting.end()
