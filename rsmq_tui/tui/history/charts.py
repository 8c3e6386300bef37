"""Charts and heat maps of a range of time."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.strip import Strip

from rsmq_tui.charts import Series, sparklines
from rsmq_tui.history.analysis.values import AGE, HeatMap, Line, Point, TimeRange
from rsmq_tui.tui.history.loading import Lines
from rsmq_tui.tui.history.pages import METRIC_WORDS, metric_value
from rsmq_tui.tui.widgets.charts import ChartPanel
from rsmq_tui.tui.widgets.painted import Painted, Piece
from rsmq_tui.tui.widgets.text_view import LineView, PieceLines

_AGE_UNITS = ((172_800_000, 86_400_000, "d"), (7_200_000, 3_600_000, "h"), (600_000, 60_000, "min"), (0, 1_000, "s"))
_RATE_WORDS = {"arrivals_s": "arrivals", "deletes_s": "deletes", "receives_s": "receives"}


@dataclass(frozen=True, slots=True)
class Charted:
    """A chart: its title, its series and the unit of its axis."""

    title: str
    series: tuple[Series, ...]
    unit: str = ""


def metric_chart(lines: Lines, of: str) -> Charted:
    """Return the chart of the metric: the mean; for a single queue also the 95th percentile and the usual value."""
    metric = lines.metric.metric
    known = [line.peak[1] for line in (lines.metric, lines.p95) if line is not None and line.peak is not None]
    divisor, unit = _unit(metric, max(known, default=0.0))
    series = [Series("mean", _scaled(lines.metric.points, divisor))]
    if lines.p95 is not None:
        series.append(Series("95th percentile", _scaled(lines.p95.points, divisor)))
    if lines.usual is not None and lines.usual.points:
        series.append(Series("usual", [(at_ms, middle / divisor) for at_ms, _, middle, _ in lines.usual.points]))
    return Charted(f"{METRIC_WORDS[metric]} of {of}", tuple(series), unit)


def rates_chart(lines: Lines) -> Charted:
    """Return the chart of the rates."""
    return Charted("messages a second", tuple(Series(_RATE_WORDS[line.metric], line.points) for line in lines.rates))


def sparks(lines: Lines) -> list[tuple[Series, str]]:
    """Return up to three series, the metric and rates, each with its peak as text."""
    shown = [lines.metric, *(line for line in lines.rates if line.metric != lines.metric.metric)][:3]
    return [(Series(METRIC_WORDS[line.metric], line.points), _peak(line)) for line in shown]


def _peak(line: Line) -> str:
    return metric_value(line.metric, None if line.peak is None else line.peak[1])


def _unit(metric: str, highest: float) -> tuple[float, str]:
    if metric != AGE:
        return 1.0, ""
    return next((float(divisor), unit) for least, divisor, unit in _AGE_UNITS if highest >= least)


def _scaled(points: Sequence[Point], divisor: float) -> Sequence[Point]:
    if divisor == 1.0:
        return points
    return [(at_ms, None if value is None else value / divisor) for at_ms, value in points]


_VALUE_WIDTH = 8


class PastSparks(Painted):
    """Shows name, sparkline and peak of each series, each on its own scale."""

    DEFAULT_CSS = """
    PastSparks { padding: 0 1; height: 3; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._series: Sequence[tuple[Series, str]] = ()
        self._span = TimeRange(0, 1)

    def show(self, series: Sequence[tuple[Series, str]], span: TimeRange) -> None:
        """Show these series, each with its peak as text."""
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
        (drawn,) = sparklines([series], width=width, start_ms=start_ms, end_ms=end_ms)
        return drawn


class PastCharts(Vertical):
    """The charts of the metric and the rates of some queues, or sparklines if there is little room."""

    DEFAULT_CSS = """
    PastCharts { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        words: dict[str, Any] = {"waiting": "loading …", "nothing": "no data for this time", "least": 1}
        self.metric = ChartPanel("", ("series-first", "series-third", "quiet"), id="past-metric", **words)
        self.rates = ChartPanel("", ("series-first", "series-second", "series-third"), id="past-rates", **words)
        self.sparks = PastSparks(id="sparks")

    def compose(self) -> ComposeResult:
        """Two charts, and the sparklines that replace them."""
        with Horizontal(id="charts"):
            yield self.metric
            yield self.rates
        yield self.sparks

    def show(self, lines: Lines, of: str, span: TimeRange) -> None:
        """Show these lines ``of`` some queues, a text that must already be printable."""
        for panel, chart in ((self.metric, metric_chart(lines, of)), (self.rates, rates_chart(lines))):
            panel.show(chart.series, span.to_ms, start_ms=span.from_ms, title=chart.title, unit=chart.unit)
        self.sparks.show(sparks(lines), span)


_SHADES = "·░▒▓█"
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LABEL = 10


class HeatView(LineView):
    """Shows a heat map, the newest day first; its legend gives the lower bound of each shade."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heat: HeatMap | None = None

    def show_heat(self, heat: HeatMap | None, of: str, empty: str) -> None:
        """Show a heat map ``of`` some queues, None while it is loading; both texts must already be printable."""
        stays = self._heat is not None and heat is not None and len(heat.rows) == len(self._heat.rows)
        self._heat = heat
        title = "" if heat is None else f"{METRIC_WORDS.get(heat.metric, '')} of {of}, by hour, UTC"
        self.border_title = Content(title)
        self._draw(empty, stays)

    def on_resize(self) -> None:
        """Adapt the width of the cells."""
        super().on_resize()
        self._draw("", True)

    def _draw(self, empty: str, stays: bool) -> None:
        heat = self._heat
        if heat is None:
            lines: list[list[Piece]] = [[("  loading …", "muted")]]
        elif heat.peak is None:
            lines = [[(f"  {empty or 'no data for this time'}", "muted")]]
        else:
            lines = self._lines_of_map(heat)
        self.show(PieceLines(lines), stay=stays)

    def _lines_of_map(self, heat: HeatMap) -> list[list[Piece]]:
        cell = max(1, min(5, (self.size.width - _LABEL) // 24))
        label_width = min(_LABEL, max(0, self.size.width - 24 * cell))
        levels = levels_of([value for _, hours in heat.rows for value in hours if value is not None])
        step = 1 if cell >= 3 else 2 if cell == 2 else 6
        hours = "".join(f"{hour:02d}".ljust(step * cell) for hour in range(0, 24, step))
        lines: list[list[Piece]] = [[(" " * label_width, ""), (hours, "head")]]
        for day, values in heat.rows if heat.is_week else reversed(heat.rows):
            pieces: list[Piece] = [(_label(day, heat.is_week)[:label_width].ljust(label_width), "muted")]
            for value in values:
                level = -1 if value is None else bisect_right(levels, value) - 1
                shade = " " if level < 0 else _SHADES[level]
                pieces.append((shade * cell, "strong" if level == len(_SHADES) - 1 else "spark"))
            lines.append(pieces)
        told = [f"{_SHADES[index] * 2} {metric_value(heat.metric, level)}+" for index, level in enumerate(levels)]
        lines += [[], [(" " + "  ".join(told) + "   blank: no data", "muted")]]
        return lines


def levels_of(values: Sequence[float]) -> list[float]:
    """Return the lower bound of each shade, such that all have about the same number of distinct values."""
    distinct = sorted(set(values))
    count = min(len(_SHADES), len(distinct))
    return [distinct[index * len(distinct) // count] for index in range(count)]


def _label(day: int, is_week: bool) -> str:
    if is_week:
        return f" {_WEEKDAYS[day]}"
    try:
        moment = datetime.fromtimestamp(day / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return " –"
    return f"{moment:%m-%d} {_WEEKDAYS[moment.weekday()]}"
