"""A time series, its gaps, and how it is reduced to the columns of a chart."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter, sub

from rsmq_tui.charts.known import known

# A distance this many times the usual one around it is a hole: samples are missing, the value in between is not known.
_HOLE = 3
# How far "around it" reaches, in distances to each side: the usual one changes with the interval a user chooses.
_NEAR = 4


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart.

    Attributes:
        label: its name in the legend; untrusted text is fine.
        points: (epoch ms, value) pairs, best in order of time; a value of None, NaN or infinity is unknown.
    """

    label: str
    points: Sequence[tuple[int, float | None]]


@dataclass(frozen=True, slots=True)
class Span:
    """The time that a chart shows, both ends included, in epoch milliseconds; it is never empty."""

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        """Return how long it is."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class Run:
    """Points with no gap between them.

    Attributes:
        times_ms: epoch ms, ascending, at least one.
        values: one finite value for each time.
    """

    times_ms: list[int]
    values: list[float]


def split_runs(series: Series, span: Span, resolution_ms: float) -> list[Run]:
    """Split the points inside `span` into runs without a gap, oldest first.

    A gap is an unknown value, or a hole: no sample for three times as long as is usual there, if it spans more than two
    distances of `resolution_ms`, the time one column stands for.
    """
    points = sorted(series.points, key=itemgetter(0))
    times_ms = [at_ms for at_ms, _ in points]
    inside = slice(bisect_left(times_ms, span.start_ms), bisect_right(times_ms, span.end_ms))
    times_ms = times_ms[inside]
    values = [known(value) for _, value in points[inside]]
    # Cut before a hole, and on both sides of an unknown value.
    cuts = _find_holes(times_ms, 2 * resolution_ms) | {0, len(values)}
    if None in values:
        cuts.update(index + side for index, value in enumerate(values) if value is None for side in (0, 1))
    borders = sorted(cuts)
    runs: list[Run] = []
    for begin, end in pairwise(borders):
        numbers = [value for value in values[begin:end] if value is not None]
        if numbers:
            runs.append(Run(times_ms[begin:end], numbers))
    return runs


def _find_holes(times_ms: list[int], shortest_ms: float) -> set[int]:
    """Return the indexes of the points that have a hole before them."""
    steps = list(map(sub, times_ms[1:], times_ms))
    if not steps:
        return set()
    suspect_ms = max(shortest_ms, _HOLE * _middle(steps))
    if max(steps) <= suspect_ms:
        return set()
    return {
        index + 1
        for index, step in enumerate(steps)
        if step > suspect_ms and step > _HOLE * _middle(steps[max(0, index - _NEAR) : index + _NEAR + 1])
    }


def _middle(steps: list[int]) -> int:
    return sorted(steps)[len(steps) // 2]


def reduce_run(run: Run, span: Span, columns: int) -> Iterator[tuple[int, float]]:
    """Yield at most the lowest and the highest value of each column, in the order they came, as (column, value).

    The first of `columns` begins where `span` does, the last ends with it. Peaks survive any number of points.
    """
    index = 0
    while index < len(run.values):
        column = (run.times_ms[index] - span.start_ms) * columns // span.length_ms
        # The end itself belongs to the last column.
        column = min(column, columns - 1)
        next_ms = span.start_ms - (column + 1) * -span.length_ms // columns
        after = bisect_left(run.times_ms, next_ms, index + 1) if column < columns - 1 else len(run.times_ms)
        chunk = run.values[index:after]
        index = after
        lowest, highest = min(chunk), max(chunk)
        if lowest == highest:
            yield column, lowest
        elif chunk.index(lowest) < chunk.index(highest):
            yield column, lowest
            yield column, highest
        else:
            yield column, highest
            yield column, lowest


def fold_runs(runs: Sequence[Run], span: Span, columns: int) -> list[float | None]:
    """Reduce runs to the highest value per column; a column between two points of a run holds the earlier value."""
    cells: list[float | None] = [None] * columns
    for run in runs:
        previous: tuple[int, float] | None = None
        for column, value in reduce_run(run, span, columns):
            if previous is not None:
                for between in range(previous[0] + 1, column):
                    cells[between] = previous[1]
            before = cells[column]
            cells[column] = value if before is None else max(before, value)
            previous = (column, value)
    return cells
