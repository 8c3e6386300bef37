"""The charts of one queue, and the pane of the overview: verdict, charts and first messages of a queue."""

from collections.abc import Iterable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from rsmq_tui.charts.series import Series
from rsmq_tui.monitor import Page, PageRequest, PeekError, QueuePoint, QueueState, Snapshot
from rsmq_tui.monitor.text import clock, count, plural, printable
from rsmq_tui.monitor.tracking.series import TREND_MS, FlightTimes
from rsmq_tui.protocol.kinds import RSMQ, Kind, kind_named
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.queue.columns import MESSAGE_COLUMNS, MessageContext
from rsmq_tui.tui.widgets.charts import ChartPanel, SparkPanel, series_of
from rsmq_tui.tui.widgets.lines import TextLine, is_stale
from rsmq_tui.tui.widgets.pane import Pane
from rsmq_tui.tui.widgets.row_table import RowTable

# One dot of a chart stands for several seconds: drawing it at each poll would only cost time.
CHART_STEP_MS = 5_000


class QueueCharts:
    """The panels of one queue: charts, and the sparklines that replace them if there is little room.

    ``flights`` is hidden for a kind whose messages do not say when they were received.
    """

    def __init__(self, kind: Kind = RSMQ) -> None:
        self.depth = ChartPanel("Messages", ("series-first", "series-third"), id="depth")
        self.rates = ChartPanel("Messages a second", ("series-first", "series-second", "series-third"), id="rates")
        self.flights = ChartPanel("Wait and work, p95 or longest", ("series-first", "series-third"), id="flights")
        self.sparks = SparkPanel(*_spark_names(kind), id="sparks")
        self._kind = kind
        self._drawn: tuple[object, ...] = ()

    def show(self, part: Snapshot, queue: str, kind: Kind, window_ms: int, changed_ms: Sequence[int] = ()) -> None:
        """Show the last window of time of a queue, from the snapshot of its server, and when the queue was changed."""
        trend, at_ms = part.trend, part.at_ms
        drawn = part.place, part.ns, queue, at_ms // CHART_STEP_MS, window_ms, len(changed_ms)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        points = trend.queue(queue) if window_ms <= TREND_MS else trend.day_of(queue)
        counts, rates = queue_series(points, counts_arrivals=kind.counts_arrivals)
        self.depth.show_last(counts, at_ms, window_ms, changed_ms=changed_ms)
        self.rates.show_last(rates, at_ms, window_ms, changed_ms=changed_ms)
        self.flights.set_class(not kind.counts_receives, "-unknown")
        self.flights.show_last(flight_series(trend.flights(queue)), at_ms, window_ms, unit="s")
        if kind is not self._kind:
            self._kind = kind
            self.sparks.name_series(*_spark_names(kind))
        self.sparks.show_last((*counts, *rates), at_ms, window_ms)

    def show_values(self, state: QueueState | None) -> None:
        """Show the current values beside the sparklines."""
        self.sparks.show_values({} if state is None else _present_numbers(state))


def _spark_names(kind: Kind) -> tuple[tuple[str, ...], ...]:
    rates = ("arrivals/s", "deletes/s", "receives/s") if kind.counts_arrivals else ("fills/s", "drains/s")
    return ("ready",), ("hidden",), rates


def queue_series(
    points: Iterable[QueuePoint], *, counts_arrivals: bool = True
) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """Return the series of depths and of rates per second; for a kind without counters, of the net rate."""
    known = list(points)
    counts = series_of(known, ready="ready", hidden="hidden")
    if not counts_arrivals:
        fills = Series("fills", [(point.at_ms, _above_zero(point.net_s)) for point in known])
        drains = Series("drains", [(point.at_ms, _above_zero(point.net_s, -1)) for point in known])
        return counts, (fills, drains)
    return counts, series_of(known, arrivals_s="arrivals", deletes_s="deletes", receives_s="receives")


def _above_zero(per_s: float | None, sign: int = 1) -> float | None:
    return None if per_s is None else max(0.0, sign * per_s)


def flight_series(known: Iterable[FlightTimes]) -> tuple[Series, ...]:
    """Return the series of waiting times and of work, the higher values in seconds."""
    times = list(known)
    return (
        Series("wait", [(each.at_ms, _in_seconds(each.wait_p95_ms)) for each in times]),
        Series("work", [(each.at_ms, _in_seconds(each.work_p95_ms)) for each in times]),
    )


def _in_seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _present_numbers(state: QueueState) -> dict[str, float | None]:
    return {
        "ready": state.ready,
        "hidden": state.hidden,
        "arrivals/s": state.arrivals_s,
        "deletes/s": state.deletes_s,
        "receives/s": state.receives_s,
        "fills/s": _above_zero(state.net_s),
        "drains/s": _above_zero(state.net_s, -1),
    }


_COLUMNS = tuple(column for column in MESSAGE_COLUMNS if column.id in ("state", "due", "rc", "body"))
_MESSAGES = 20
# A frame with a heading and a message; with less room, there is no frame.
_FRAMED_ROWS = 4


class QueuePane(Pane[Page]):
    """Shows the queue under the cursor; if it is closed, only ``why``, the reason of its verdict, below the table."""

    def __init__(self, why: TextLine) -> None:
        super().__init__()
        self._why = why
        self._charts = QueueCharts()
        self._messages = RowTable(_COLUMNS, MessageContext(0, 0), id="first")
        # It accepts neither keys nor clicks.
        self._messages.can_focus, self._messages.disabled = False, True
        self._queue: QueueState | None = None
        self._part: Snapshot | None = None
        self._is_filled = False
        self._page: Page | None = None
        self._problem = self._title = ""

    def compose(self) -> ComposeResult:
        """The reason."""
        yield self._why

    def follow(self, queue: QueueState | None, part: Snapshot) -> None:
        """Show this queue, None if there is none, from the snapshot of its server."""
        dashboard, before = dashboard_of(self.app), self._part
        self._queue, self._part = queue, part
        if self.position == "closed":
            return
        if not self._is_filled:
            # The first paint does not wait for the pane.
            self.call_after_refresh(self._fill)
            return
        self.set_class(is_stale(part, dashboard), "-stale")
        drawn = (part.at_ms // CHART_STEP_MS, dashboard.window_ms)
        # A recording may have other messages for the same counts.
        version = (queue, dashboard.replay is not None and part.at_ms)
        self.point(None if queue is None else (part.ns, queue.key), drawn, version)
        self._charts.show_values(queue)
        if part is not before:
            self._show_messages()

    def _fill(self) -> None:
        if self._is_filled or self._part is None or not self.is_attached:
            return
        charts = self._charts
        parts = Vertical(charts.sparks, charts.depth, charts.rates, charts.flights, self._messages, classes="parts")
        self.mount(parts)
        # An app that is ending accepts no more widgets.
        if parts.is_attached:
            self._is_filled = True
            self.follow(self._queue, self._part)

    def draw(self) -> None:
        """Draw the charts."""
        queue, part = self._queue, self._part
        if queue is not None and part is not None:
            dashboard = dashboard_of(self.app)
            changed_ms, window_ms = dashboard.changed_ms(part, queue.name), dashboard.window_ms
            self._charts.show(part, queue.name, kind_named(queue.kind), window_ms, changed_ms)

    def forget(self) -> None:
        """Remove the messages of another queue."""
        self._page, self._problem = None, ""
        self._show_messages()

    async def read(self) -> Page:
        """Read the first messages."""
        queue = self._queue
        if queue is None:
            raise PeekError("no queue is selected")
        return await dashboard_of(self.app).server(queue.place).source.peek(PageRequest(queue.name, count=_MESSAGES))

    def show_details(self, found: Page) -> None:
        """Show the first messages."""
        self._page, self._problem = found, ""
        self._show_messages()

    def fail(self, problem: str) -> None:
        """Show why the messages cannot be read, in addition to those read before."""
        self._problem = problem
        self._show_messages()

    @on(RowTable.Resized)
    def _show_messages(self) -> None:
        table, page, part, dashboard = self._messages, self._page, self._part, dashboard_of(self.app)
        words, token = (self._problem, "alarm") if self._problem else ("reading …" if page is None else "none", "muted")
        table.empty_text = [(f" {printable(words, 300)}", token)]
        table.set_class(bool(self._problem), "-stale")
        table.set_class(0 < table.outer_size.height < _FRAMED_ROWS, "-frameless")
        title = "First messages"
        if page is not None and page.rows:
            title = f"First {count(len(page.rows))} of {plural(page.depth, 'message')}"
            is_old = part is not None and part.connection.failure is not None
            if self._problem or is_old or dashboard.replay is not None:
                title += f" as of {clock(page.at_ms)[:8]}"
        if title != self._title:
            self._title, table.border_title = title, Content(title)
        rows = () if page is None else page.rows
        at_ms = max(part.at_ms if part else 0, page.at_ms if page else 0)
        poison_rc = dashboard.server(self._queue.place).source.thresholds.poison_rc if self._queue else 0
        table.show(rows, [row.id for row in rows], MessageContext(at_ms, poison_rc, dashboard.clock_times))
