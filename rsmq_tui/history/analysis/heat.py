"""A metric by day and hour, or by weekday and hour, from the hours of a line."""

from collections.abc import Iterable
from math import fsum

from rsmq_tui.history.analysis.values import AGE, DAY_MS, HOUR_MS, HeatMap, Line, TimeRange

# Nobody looks at more; a damaged file may tell of millions.
_MOST_DAYS = 3_660
# 1970 began on a Thursday.
_FIRST_WEEKDAY = 3


def by_day(line: Line, span: TimeRange) -> HeatMap:
    """Fold a line of hours: a row for each day of the range, also for those of which nothing is known."""
    hours = {at_ms // HOUR_MS: value for at_ms, value in line.points if at_ms >= span.from_ms - HOUR_MS + 1}
    last = max(span.from_ms, span.to_ms - 1) // DAY_MS
    first = max(span.from_ms // DAY_MS, last - _MOST_DAYS)
    days = range(first, last + 1) if line.points else ()
    rows = ((day * DAY_MS, tuple(hours.get(day * 24 + hour) for hour in range(24))) for day in days)
    return HeatMap(line.metric, False, tuple(rows))


def by_weekday(line: Line) -> HeatMap:
    """Fold a line of hours: the mean of each hour of the week, of ages the greatest."""
    known: dict[tuple[int, int], list[float]] = {}
    for at_ms, value in line.points:
        if value is not None:
            weekday = (at_ms // DAY_MS + _FIRST_WEEKDAY) % 7
            known.setdefault((weekday, at_ms // HOUR_MS % 24), []).append(value)
    if not known:
        return HeatMap(line.metric, True, ())
    joined = {at: max(values) if line.metric == AGE else _mean(values) for at, values in known.items()}
    rows = ((day, tuple(joined.get((day, hour)) for hour in range(24))) for day in range(7))
    return HeatMap(line.metric, True, tuple(rows))


def hour_of_week(at_ms: int) -> int:
    """Return the hour of the week of a time: 0 is Monday 00:00 UTC."""
    return (at_ms // DAY_MS + _FIRST_WEEKDAY) % 7 * 24 + at_ms // HOUR_MS % 24


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return fsum(numbers) / len(numbers)
