"""The charts of one queue: its messages, its rates, and how long its messages wait and are worked on."""

from collections.abc import Iterable

from rsmq_tui.charts import Series
from rsmq_tui.monitor import QueuePoint, QueueState
from rsmq_tui.monitor.tracking.series import TREND_MS, FlightTimes, Trend
from rsmq_tui.protocol.kinds import RSMQ, Kind
from rsmq_tui.tui.widgets.charts import ChartPanel, SparkPanel, series_of

# One dot of a chart stands for several seconds: drawing it at each poll would only cost time.
CHART_STEP_MS = 5_000


class QueueCharts:
    """The panels of one queue: charts, and the sparklines that replace them where there is little room.

    ``flights`` is hidden for a kind whose messages do not say when they were received.
    """

    def __init__(self, kind: Kind = RSMQ) -> None:
        self.depth = ChartPanel("Messages", ("series-first", "series-third"), id="depth")
        self.rates = ChartPanel("Messages a second", ("series-first", "series-second", "series-third"), id="rates")
        self.flights = ChartPanel("Wait and work, p95", ("series-first", "series-third"), id="flights")
        self.sparks = SparkPanel(*_spark_names(kind), id="sparks")
        self._kind = kind

    def show(self, trend: Trend, queue: str, kind: Kind, at_ms: int, window_ms: int) -> None:
        """Show a window of time before ``at_ms``."""
        points = trend.queue(queue) if window_ms <= TREND_MS else trend.day_of(queue)
        counts, rates = past_series(points, counts_arrivals=kind.counts_arrivals)
        self.depth.show_last(counts, at_ms, window_ms)
        self.rates.show_last(rates, at_ms, window_ms)
        self.flights.set_class(not kind.counts_receives, "-unknown")
        self.flights.show_last(flight_series(trend.flights(queue)), at_ms, window_ms, unit="s")
        if kind is not self._kind:
            self._kind = kind
            self.sparks.name_series(*_spark_names(kind))
        self.sparks.show_last((*counts, *rates), at_ms, window_ms)

    def tell(self, state: QueueState | None) -> None:
        """Show the current values beside the sparklines."""
        self.sparks.tell({} if state is None else _present_numbers(state))


def _spark_names(kind: Kind) -> tuple[tuple[str, ...], ...]:
    rates = ("arrivals/s", "deletes/s", "receives/s") if kind.counts_arrivals else ("fills/s", "drains/s")
    return ("ready",), ("hidden",), rates


def past_series(
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
    """Return the series of waiting times and of work, p95 in seconds."""
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
