"""Lines over a range of the past, as charts, or folded into sparklines where there is no room for more."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.strip import Strip

from rsmq_tui.charts import Series, line_chart, sparklines
from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.tui.past_loading import Lines
from rsmq_tui.tui.past_series import metric_chart, rates_chart, sparks
from rsmq_tui.tui.widgets.painted import Painted

_VALUE_WIDTH = 8


class PastChart(Painted):
    """Some series over a range of time."""

    DEFAULT_CSS = """
    PastChart { border: round $rule; border-title-color: $quiet; padding: 0; width: 1fr; }
    """

    def __init__(self, colors: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._colors = colors
        self._series: Sequence[Series] = ()
        self._span: TimeRange | None = None
        self._unit = ""

    def show(self, title: str, series: Sequence[Series], span: TimeRange, unit: str = "") -> None:
        """Show these series; the title is harmless already."""
        self.border_title = Content(title)
        self._series, self._span, self._unit = series, span, unit
        self.repaint()

    def paint(self) -> list[Strip]:
        """Draw the chart."""
        if self._span is None:
            return [Strip([]), self.line([("  loading …", "muted")])]
        if all(value is None for each in self._series for _, value in each.points):
            return [Strip([]), self.line([("  no data for this time", "muted")])]
        return self.lines_of(
            line_chart(
                self._series,
                width=self.size.width,
                height=self.size.height,
                start_ms=self._span.from_ms,
                end_ms=self._span.to_ms,
                palette=self.palette(self._colors),
                unit=self._unit,
            )
        )


class PastSparks(Painted):
    """Name, sparkline and peak of each series, each to a scale of its own."""

    DEFAULT_CSS = """
    PastSparks { padding: 0 1; height: 3; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._series: Sequence[tuple[Series, str]] = ()
        self._span = TimeRange(0, 1)

    def show(self, series: Sequence[tuple[Series, str]], span: TimeRange) -> None:
        """Show these series, each with what its peak is called."""
        self._series, self._span = series, span
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint one series a line."""
        if not self._series:
            return [self.line([(" loading …", "muted")])]
        names = max(len(series.label) for series, _ in self._series) + 2
        width = self.size.width - names - 1 - _VALUE_WIDTH
        return [
            self.line(
                [
                    (f"{series.label:<{names}}", "muted"),
                    (self._spark(series, width), "spark"),
                    (f" {peak:>{_VALUE_WIDTH}}", "strong"),
                ]
            )
            for series, peak in self._series
        ]

    def _spark(self, series: Series, width: int) -> str:
        start_ms, end_ms = self._span
        (drawn,) = sparklines([series], width=width, start_ms=start_ms, end_ms=end_ms, ascii=self.ascii_only)
        return drawn


class PastCharts(Vertical):
    """The metric and the rates of some queues, beside each other, or folded."""

    DEFAULT_CSS = """
    PastCharts { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.metric = PastChart(("series-first", "series-third", "quiet"), id="past-metric")
        self.rates = PastChart(("series-first", "series-second", "series-third"), id="past-rates")
        self.sparks = PastSparks(id="sparks")

    def compose(self) -> ComposeResult:
        """Two charts, and what stands in for them."""
        with Horizontal(id="charts"):
            yield self.metric
            yield self.rates
        yield self.sparks

    def show(self, lines: Lines, of: str, span: TimeRange) -> None:
        """Show these lines ``of`` some queues; the words are harmless already."""
        metric, rates = metric_chart(lines, of), rates_chart(lines)
        self.metric.show(metric.title, metric.series, span, metric.unit)
        self.rates.show(rates.title, rates.series, span)
        self.sparks.show(sparks(lines), span)
