"""The totals of all queues on the overview: current numbers, and the chart of their rates."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from textual.strip import Strip

from rsmq_tui.monitor import Snapshot, Verdict
from rsmq_tui.monitor.text import compact, duration, printable, rate
from rsmq_tui.monitor.tracking.series import TREND_MS
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.tui.overview.columns import SPARK_MS, spark_pieces
from rsmq_tui.tui.overview.known import SIGN, Silenced
from rsmq_tui.tui.queue.pane import CHART_STEP_MS
from rsmq_tui.tui.theme import SIGNS
from rsmq_tui.tui.widgets.charts import ChartPanel, SparkPanel, series_of
from rsmq_tui.tui.widgets.painted import Painted, Piece

# With fewer points, the chart is drawn at each poll.
_EARLY_POINTS = 10


class NowPanel(Painted):
    """Shows ready, hidden, the longest wait, the rates, and how many queues have each verdict, or are silenced."""

    DEFAULT_CSS = """
    NowPanel { border: round $rule; border-title-color: $quiet; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._snapshot: Snapshot | None = None
        self._silenced = Silenced()

    def show(self, snapshot: Snapshot, silenced: Silenced) -> None:
        """Show the sums of a snapshot."""
        self._snapshot, self._silenced = snapshot, silenced
        self.repaint()

    def on_mount(self) -> None:
        """Set the title."""
        self.border_title = "Now, and the last 10 min"

    def paint(self) -> list[Strip]:
        """Paint one fact a line."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.connection.fresh_at_s is None:
            return []
        totals = snapshot.totals
        age = None if totals.oldest_ready_due_ms is None else snapshot.at_ms - totals.oldest_ready_due_ms
        where = f"  in {printable(totals.oldest, 24)}" if totals.oldest else ""
        kinds = [kind_of(part.ns) for part in snapshot.parts or (snapshot,) if part.queues]
        labels = sorted({kind.label for kind in kinds if not kind.counts_arrivals})
        # Without a kind that counts them, the rates are unknown.
        uncounted = f"  without {', '.join(labels)}" if any(kind.counts_arrivals for kind in kinds) and labels else ""
        lines: list[list[Piece]] = [
            [("ready   ", "muted"), (f"{compact(totals.ready):>8} ", "strong"), *self._past(snapshot, "ready")],
            [("hidden  ", "muted"), (f"{compact(totals.hidden):>8} ", "strong"), *self._past(snapshot, "hidden")],
            [("waiting ", "muted"), (f"{duration(age):>8}", "strong"), (where, "muted")],
            [("in      ", "muted"), (f"{rate(totals.arrivals_s):>8}", "strong"), (f"/s{uncounted}", "muted")],
            [("out     ", "muted"), (f"{rate(totals.deletes_s):>8}", "strong"), (f"/s{uncounted}", "muted")],
            self._verdicts(snapshot),
        ]
        return [self.line(pieces) for pieces in lines]

    def _past(self, snapshot: Snapshot, name: Literal["ready", "hidden"]) -> list[Piece]:
        """Draw a sparkline of a total, and its highest value."""
        points = [point for point in snapshot.trend.totals if point.at_ms > snapshot.at_ms - SPARK_MS]
        values = [point.ready if name == "ready" else point.hidden for point in points]
        pieces = spark_pieces([point.at_ms for point in points], values, snapshot.at_ms)
        # With several servers, the recorded sums lag a little behind the current ones.
        now = snapshot.totals.ready if name == "ready" else snapshot.totals.hidden
        highest = max((value for value in (*values, now) if value is not None), default=None)
        return [*pieces, (f" max {compact(highest)}", "muted")]

    def _verdicts(self, snapshot: Snapshot) -> list[Piece]:
        silenced = self._silenced.verdicts(snapshot.queues)
        counts = Counter(snapshot.totals.verdicts) - silenced
        pieces = [
            (f"{SIGNS[verdict]} {counts[verdict]}  ", f"verdict-{verdict}") for verdict in Verdict if counts[verdict]
        ]
        return [*pieces, (f"{SIGN} {silenced.total()}", "muted")] if silenced else pieces


class TotalsCharts:
    """The chart of the rates, and the sparklines that replace it if there is little room."""

    def __init__(self) -> None:
        self.rates = ChartPanel("Messages a second", ("series-first", "series-second"), id="throughput")
        self.sparks = SparkPanel(("ready",), ("hidden",), ("arrivals/s", "deletes/s"), id="sparks")
        self._drawn: tuple[object, ...] = ()

    def show(self, snapshot: Snapshot, window_ms: int, changed_ms: Sequence[int]) -> None:
        """Show a window of time, and the current values; ``changed_ms`` are times of changes."""
        at_ms, totals = snapshot.at_ms, snapshot.totals
        if snapshot.connection.fresh_at_s is not None:
            per_s = {"arrivals/s": totals.arrivals_s, "deletes/s": totals.deletes_s}
            self.sparks.show_values({"ready": totals.ready, "hidden": totals.hidden, **per_s})
        drawn = snapshot.ns, at_ms // CHART_STEP_MS, window_ms, len(changed_ms)
        if drawn == self._drawn and len(snapshot.trend.totals) >= _EARLY_POINTS:
            return
        self._drawn = drawn
        points = snapshot.trend.totals if window_ms <= TREND_MS else snapshot.trend.day_totals
        counts = series_of(points, ready="ready", hidden="hidden")
        rates = series_of(points, arrivals_s="arrivals/s", deletes_s="deletes/s")
        self.rates.show_last(rates, at_ms, window_ms, changed_ms=changed_ms)
        self.sparks.show_last((*counts, *rates), at_ms, window_ms)
