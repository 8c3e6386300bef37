"""The sums over all queues, at a glance."""

from typing import Literal

from textual.reactive import reactive
from textual.strip import Strip

from rsmq_tui.monitor import Snapshot, Verdict
from rsmq_tui.monitor.wording import compact, duration, printable, rate
from rsmq_tui.tui.columns import SPARK_MS, spark_pieces
from rsmq_tui.tui.signs import sign
from rsmq_tui.tui.widgets.painted import Painted, Piece


class NowPanel(Painted):
    """Ready, hidden, the oldest ready message, the rates, and how many queues are in which trouble."""

    DEFAULT_CSS = """
    NowPanel { border: round $rule; border-title-color: $quiet; padding: 0 1; }
    """
    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)

    def on_mount(self) -> None:
        """Name the panel."""
        self.border_title = "Now, and the last 10 min"

    def watch_snapshot(self) -> None:
        """Show the news."""
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint one fact a line."""
        snapshot = self.snapshot
        if snapshot is None or snapshot.link.fresh_at_s is None:
            return []
        totals = snapshot.totals
        age = None if totals.ready_since_ms is None else snapshot.at_ms - totals.ready_since_ms
        where = f"  in {printable(totals.oldest, 24)}" if totals.oldest else ""
        lines: list[list[Piece]] = [
            [("ready  ", "muted"), (f"{compact(totals.ready):>9} ", "strong"), *self._past(snapshot, "ready")],
            [("hidden ", "muted"), (f"{compact(totals.hidden):>9} ", "strong"), *self._past(snapshot, "hidden")],
            [("oldest ", "muted"), (f"{duration(age):>9}", "strong"), (where, "muted")],
            [("in     ", "muted"), (f"{rate(totals.arrivals_s):>9}", "strong"), ("/s", "muted")],
            [("out    ", "muted"), (f"{rate(totals.deletes_s):>9}", "strong"), ("/s", "muted")],
            self._verdicts(snapshot),
        ]
        return [self.line(pieces) for pieces in lines]

    def _past(self, snapshot: Snapshot, name: Literal["ready", "hidden"]) -> list[Piece]:
        """Draw how much it was, and say what the highest of it was."""
        points = [point for point in snapshot.trend.totals if point.at_ms > snapshot.at_ms - SPARK_MS]
        values = [point.ready if name == "ready" else point.hidden for point in points]
        pieces = spark_pieces([point.at_ms for point in points], values, snapshot.at_ms, ascii_only=self.ascii_only)
        # Where several servers are watched, the sums of the past lag a little behind those of now.
        now = snapshot.totals.ready if name == "ready" else snapshot.totals.hidden
        highest = max((value for value in (*values, now) if value is not None), default=None)
        return [*pieces, (f" max {compact(highest)}", "muted")]

    def _verdicts(self, snapshot: Snapshot) -> list[Piece]:
        counts = snapshot.totals.verdicts
        return [
            (f"{sign(verdict, self.ascii_only)} {counts[verdict]}  ", f"verdict-{verdict}")
            for verdict in Verdict
            if counts.get(verdict)
        ]
