"""Lines of an analysis as series of a chart, in units that its axis can say."""

from collections.abc import Sequence
from dataclasses import dataclass

from rsmq_tui.charts import Series
from rsmq_tui.history.analysis.values import AGE, Line, Point
from rsmq_tui.tui.past_columns import METRIC_WORDS, metric_value
from rsmq_tui.tui.past_loading import Lines

_AGE_UNITS = ((172_800_000, 86_400_000, "d"), (7_200_000, 3_600_000, "h"), (600_000, 60_000, "min"), (0, 1_000, "s"))
_RATE_WORDS = {"arrivals_s": "arrivals", "deletes_s": "deletes", "receives_s": "receives"}


@dataclass(frozen=True, slots=True)
class Charted:
    """A chart: what stands over it, its series and the unit of its axis."""

    title: str
    series: tuple[Series, ...]
    unit: str = ""


def metric_chart(lines: Lines, of: str) -> Charted:
    """Return the chart of the metric: its mean, and of one queue also its 95th percentile and what is usual."""
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
    """Return the metric and two rates, or three, each with its peak in words."""
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
