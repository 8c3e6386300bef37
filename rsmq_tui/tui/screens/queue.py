"""One queue: its verdict, its recent past, and its messages, read without touching them."""

from dataclasses import replace
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from rsmq_tui.charts import Series
from rsmq_tui.monitor import MessageRow, Page, PageRequest, PeekError, QueueState, Snapshot, reason
from rsmq_tui.monitor.wording import clock, compact, count, printable, rate, seconds, size
from rsmq_tui.protocol import Part
from rsmq_tui.tui.columns import MESSAGE_COLUMNS, MessageContext
from rsmq_tui.tui.keymap import Where, bindings_of
from rsmq_tui.tui.screens.base import DashboardScreen
from rsmq_tui.tui.signs import sign
from rsmq_tui.tui.widgets.chart_panel import BarPanel, ChartPanel
from rsmq_tui.tui.widgets.key_hints import KeyHints
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import RowTable
from rsmq_tui.tui.widgets.spark_panel import SparkPanel
from rsmq_tui.tui.widgets.status_line import StatusLine
from rsmq_tui.tui.widgets.text_line import TextLine

_PARTS: tuple[Part, ...] = ("all", "ready", "hidden")
_CHART_STEP_MS = 5_000


class QueueScreen(DashboardScreen):
    """Attributes, charts, and the peek table of one queue.

    A page is read again at each poll, from its first message on, so that it stays where it is while messages before it
    come and go. A reply to an older question is dropped. A question that failed leaves the last page on the screen,
    dimmed, with the sentence why, and it is that page which the next poll asks for.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("queue", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("queue")

    def __init__(self, queue: str) -> None:
        super().__init__()
        self.queue = queue
        self.table = RowTable(MESSAGE_COLUMNS, MessageContext(0, 0), id="messages")
        self._title = TextLine(id="title")
        self._facts = TextLine(id="facts")
        self._tabs = TextLine(id="tabs")
        self._depth = ChartPanel("Depth", ("series-first", "series-third"), id="depth")
        self._rates = ChartPanel("Rates /s", ("series-first", "series-second", "series-third"), id="rates")
        self._due = BarPanel("Becoming visible")
        self._sparks = SparkPanel(("ready",), ("hidden",), ("arrivals/s", "deletes/s", "receives/s"), id="sparks")
        # Nothing is asked for before it is known how many rows are in sight.
        self._request = PageRequest(queue, count=0)
        self._page: Page | None = None
        self._page_again = self._request
        self._error: str | None = None
        self._pending: PageRequest | None = None
        self._read_for_ms: int | None = None
        self._charts_at = 0

    def compose(self) -> ComposeResult:
        """Status, title, charts, tabs, messages, hints."""
        yield StatusLine().data_bind(DashboardScreen.snapshot)
        yield self._title
        with Horizontal(id="charts"):
            yield self._depth
            yield self._rates
            yield self._due
        yield self._sparks
        yield self._facts
        yield self._tabs
        yield self.table
        yield KeyHints("table", "queue", "app")

    def on_mount(self) -> None:
        """Begin in the table."""
        self.table.empty_text = [("  Reading …", "muted")]
        self.table.focus()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the queue's state, and read its page again."""
        state = next((queue for queue in snapshot.queues if queue.name == self.queue), None)
        self._show_title(snapshot, state)
        self._show_facts(state)
        self._show_charts(snapshot)
        self._tell_numbers(state)
        self._show_page()
        # A poll does not ask again while a reply is under way: on a slow link none would ever come in.
        if snapshot.at_ms != self._read_for_ms and self._pending is None and self._request.count:
            self._read(self._request)

    @on(RowTable.Opened)
    def _open(self, event: RowTable.Opened) -> None:
        self.dashboard.open_message(self.queue, event.key)

    @on(RowTable.Overrun)
    def _turn_on(self, event: RowTable.Overrun) -> None:
        self.action_turn(event.step)

    @on(RowTable.Resized)
    def _fill(self) -> None:
        if self.table.visible_rows != self._request.count:
            self._read(self._request)

    def action_part(self, step: int) -> None:
        """Show the next part of the queue."""
        part = _PARTS[(_PARTS.index(self._request.part) + step) % len(_PARTS)]
        self._read(PageRequest(self.queue, part), cursor=0)

    def action_turn(self, step: int) -> None:
        """Turn to the next page or the one before."""
        page = self._page
        if page is None or not page.rows or (page.is_last if step > 0 else page.is_first):
            return
        if step > 0:
            self._read(replace(self._request, where="after", anchor=page.rows[-1].anchor), cursor=0)
        else:
            last = self.table.visible_rows - 1
            self._read(replace(self._request, where="before", anchor=page.rows[0].anchor), cursor=last)

    def action_copy_id(self) -> None:
        """Copy the id of the message under the cursor."""
        if self.table.cursor_key is not None:
            self.dashboard.copy_text(self.table.cursor_key, "the id")

    def action_copy_body(self) -> None:
        """Copy the body of the message under the cursor."""
        if self.table.cursor_key is not None:
            self._copy_body(self.table.cursor_key)

    def _read(self, request: PageRequest, cursor: int | None = None) -> None:
        """Ask for a page, and where its cursor then goes; the worker of an older question is cancelled."""
        wanted = replace(request, count=self.table.visible_rows)
        self._request = self._pending = wanted
        self._read_for_ms = self.snapshot.at_ms if self.snapshot else None
        self._fetch(wanted, cursor)

    @work(group="peek", exclusive=True)
    async def _fetch(self, request: PageRequest, cursor: int | None) -> None:
        source, snapshot = self.dashboard.source, self.snapshot
        try:
            page = await source.peek(request)
            due = await source.due(self.queue, page.at_ms)
        except PeekError as error:
            if self._is_answered(request):
                self._error = str(error)
                if self._page is not None:
                    self._request = self._page_again
                self._show_page()
            return
        if not self._is_answered(request):
            return
        self._error = None
        self._page = page
        if page.rows and not page.is_first:
            self._request = replace(request, where="at", anchor=page.rows[0].anchor)
        else:
            self._request = PageRequest(self.queue, request.part, count=request.count)
        self._page_again = self._request
        self._due.show(due)
        if snapshot is not None:
            self._show_page()
        if cursor is not None:
            self.table.place_cursor(cursor)

    def _is_answered(self, request: PageRequest) -> bool:
        """Take an answer; False when something else was asked meanwhile, for a cancelled worker may come this far."""
        if self._pending is not request:
            return False
        self._pending = None
        return True

    @work(group="copy", exclusive=True)
    async def _copy_body(self, id: str) -> None:
        try:
            view = await self.dashboard.source.read(self.queue, id)
        except PeekError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        if view.body is None:
            self.notify("that message has no body any more", severity="warning", markup=False)
        else:
            self.dashboard.copy_text(view.body.decode("utf-8", "replace"), "the body")

    def _show_title(self, snapshot: Snapshot, state: QueueState | None) -> None:
        ascii_only = self.dashboard.ascii_only
        pieces: list[Piece] = [(" < " if ascii_only else " ◀ ", "muted"), (printable(self.queue, 80), "strong")]
        if state is not None:
            words = reason(state, snapshot.at_ms, self.dashboard.source.thresholds)
            pieces.append((f"   {sign(state.verdict, ascii_only)} {state.verdict}", f"verdict-{state.verdict}"))
            pieces.append((f": {words}", ""))
        elif snapshot.link.fresh_at_s is not None:
            pieces.append(("   this queue is gone: it was deleted, or its namespace was switched", "alarm"))
        self._title.show(pieces)

    def _show_facts(self, state: QueueState | None) -> None:
        if state is None:
            self._facts.show([])
            return
        maxsize = "unlimited" if state.maxsize == -1 else size(state.maxsize)
        words = (
            f" vt {seconds(state.vt_s)} · delay {seconds(state.delay_s)} · max {maxsize}"
            f" · sent {count(state.totalsent)} · received {count(state.totalrecv)}"
            f" · created {clock(state.created_ms, date=True)[:16]}"
        )
        pieces: list[Piece] = [(words, "muted")]
        if state.problems:
            pieces.append((f"   ! {'; '.join(state.problems)}", "verdict-aged"))
        self._facts.show(pieces)

    def _show_charts(self, snapshot: Snapshot) -> None:
        step = snapshot.at_ms // _CHART_STEP_MS
        if step == self._charts_at:
            return
        self._charts_at = step
        points = list(snapshot.trend.queue(self.queue))
        counts = (
            Series("ready", [(point.at_ms, point.ready) for point in points]),
            Series("hidden", [(point.at_ms, point.hidden) for point in points]),
        )
        rates = (
            Series("arrivals", [(point.at_ms, point.arrivals_s) for point in points]),
            Series("deletes", [(point.at_ms, point.deletes_s) for point in points]),
            Series("receives", [(point.at_ms, point.receives_s) for point in points]),
        )
        self._depth.show(counts, snapshot.at_ms)
        self._rates.show(rates, snapshot.at_ms)
        self._sparks.show((*counts, *rates), snapshot.at_ms)

    def _tell_numbers(self, state: QueueState | None) -> None:
        self._sparks.tell(
            {}
            if state is None
            else {
                "ready": compact(state.ready),
                "hidden": compact(state.hidden),
                "arrivals/s": rate(state.arrivals_s),
                "deletes/s": rate(state.deletes_s),
                "receives/s": rate(state.receives_s),
            }
        )

    def _show_page(self) -> None:
        page, app = self._page, self.dashboard
        self._tabs.show(self._tab_pieces(page))
        is_stale = page is not None and self._error is not None
        for panel in (self.table, self._due):
            panel.set_class(is_stale, "-stale")
        if page is None:
            if self._error is not None:
                self.table.empty_text = [(f"  {printable(self._error, 200)}", "alarm")]
                self.table.show((), (), self.table.context)
            return
        part = page.request.part
        what = "no messages" if part == "all" else f"no {part} messages"
        self.table.empty_text = [(f"  There are {what} in this queue.", "muted")]
        at_ms = max(page.at_ms, self.snapshot.at_ms if self.snapshot else 0)
        context = MessageContext(at_ms, app.source.thresholds.poison_rc, app.clock_times)
        rows: tuple[MessageRow, ...] = page.rows
        self.table.show(rows, [row.id for row in rows], context)

    def _tab_pieces(self, page: Page | None) -> list[Piece]:
        numbers = {} if page is None else {"all": page.depth, "ready": page.ready, "hidden": page.depth - page.ready}
        pieces: list[Piece] = [(" ", "")]
        for part in _PARTS:
            chosen = part == self._request.part
            if page is not None and self._error is not None and not chosen:
                continue
            words = f"{part} {compact(numbers.get(part))}"
            pieces.append((f"[ {words} ] " if chosen else f"  {words}   ", "strong" if chosen else "muted"))
        if page is not None and self._error is not None:
            # In place of the other tabs, so that the sentence is seen on a narrow screen too.
            age_s = max(0, (self.snapshot.at_ms if self.snapshot else 0) - page.at_ms) / 1000
            cross = "X" if self.dashboard.ascii_only else "✗"
            pieces.append((f" {cross} stale {age_s:.0f} s: {printable(self._error, 200)}", "alarm"))
        elif page is not None and page.rows:
            first = page.start + 1
            pieces.append((f"   {count(first)}–{count(page.start + len(page.rows))} of {count(page.depth)}", "muted"))
        return pieces
