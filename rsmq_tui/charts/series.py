"""Time series, axes, colours and labels of charts."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from operator import itemgetter, sub
from typing import NamedTuple
from unicodedata import category

from rich.cells import cell_len, set_cell_size

LARGEST = sys.float_info.max


def known(value: float | None) -> float | None:
    """Return ``value`` as a finite float, or None for anything a chart must show as unknown.

    Unknown are None, NaN, the infinities, and integers too large for a float.
    """
    return float(value) if value is not None and -LARGEST <= value <= LARGEST else None


# A distance this many times the usual one around it is a hole: samples are missing, and the value there is unknown.
_HOLE = 3
# How many distances on each side count as "around it": the usual distance changes if the user changes the interval.
_NEAR = 4


class Series(NamedTuple):
    """One line of a chart.

    ``label`` is its name in the legend; untrusted text is fine. ``points`` are (epoch ms, value) pairs, best in order
    of time; a value of None, NaN or infinity is unknown.
    """

    label: str
    points: Sequence[tuple[int, float | None]]


class ChartSpan(NamedTuple):
    """The time that a chart shows, both ends included, in epoch milliseconds; it is never empty."""

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        """Return how long it is."""
        return self.end_ms - self.start_ms


class Run(NamedTuple):
    """Points with no gap between them: at least one time, ascending, and a finite value for each."""

    times_ms: list[int]
    values: list[float]


def split_runs(series: Series, span: ChartSpan, resolution_ms: float) -> list[Run]:
    """Split the points inside ``span`` into runs without a gap, oldest first.

    A gap is an unknown value, or a hole: no sample for three times as long as is usual there, if it spans more than two
    distances of ``resolution_ms``, the time one column stands for.
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


def reduce_run(run: Run, span: ChartSpan, columns: int) -> Iterator[tuple[int, float]]:
    """Yield at most the lowest and the highest value of each column, in the order they came, as (column, value).

    The first of ``columns`` begins where ``span`` does, the last ends with it. Peaks survive any number of points.
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


def fold_runs(runs: Sequence[Run], span: ChartSpan, columns: int) -> list[float | None]:
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


_UNITS = ("k", "M", "G", "T", "P", "E")

# Multiples of these keep two significant digits up to five steps, which is all that `tick_label` shows.
_STEPS = (1, 2, 3, 4, 5, 10)
# A scale of a single step has no multiples to keep short, so it can follow the data more closely.
_SINGLE_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)

# No step is more than twice the one before: halving seven labels must leave at least three.
_TIME_STEPS_S = (1, 2, 3, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MINUTE_S = 60
_DAY_S = 86400

# Smaller than any rate or count can be, and far from where powers of ten underflow.
_SMALLEST = 1e-9


def tick_label(value: float) -> str:
    """Write ``value`` short: 0, 0.25, 850, 1.2k, 38k, 4.1M, 1E.

    Prefixes are SI. Two significant digits are always kept: a tick is exact, any other number is rounded. What is not
    finite is "–".
    """
    if not isfinite(value):
        return "–"
    if value < 0:
        return f"-{tick_label(-value)}"
    if value < 999.5:
        return f"{value:.3g}" if value >= 1 else f"{value:.2g}"
    scaled = value
    for unit in _UNITS:
        scaled /= 1000
        if scaled < 9.95:
            return f"{scaled:.1f}".removesuffix(".0") + unit
        if scaled < 999.5:
            return f"{scaled:.0f}{unit}"
    return f"{value:.1e}".replace(".0", "").replace("+", "")


def value_ticks(largest: float, most_steps: int, *, whole: bool = False) -> list[float]:
    """Choose the ticks of an axis from zero that holds ``largest``: at least two, the last one is the axis' end.

    ``most_steps`` bounds the distances between ticks (1 to 5 make sense). ``whole`` asks for ticks at integers.
    """
    if largest < _SMALLEST:
        return [0.0, 1.0]
    best: list[float] = []
    for steps in range(max(1, most_steps), 0, -1):
        step = _round_up(largest / steps, _STEPS if steps > 1 else _SINGLE_STEPS)
        step = max(1.0, step) if whole else step
        # The rounding error of a division must not add an empty step on top.
        ticks = [step * i for i in range(ceil(largest / step - _SMALLEST) + 1)]
        if not best or ticks[-1] < best[-1] * (1 - _SMALLEST):
            best = ticks
    return best if isfinite(best[-1]) else [0.0, largest]


def _round_up(value: float, mantissas: tuple[float, ...]) -> float:
    power = 10.0 ** floor(log10(value))
    return power * next((m for m in mantissas if m * power >= value * (1 - _SMALLEST)), 10)


def time_ticks(start_ms: int, end_ms: int, width: int, zone: tzinfo | None = UTC) -> list[tuple[int, str]]:
    """Choose round times between two epoch times, as (epoch ms, label), for an axis of ``width`` cells.

    Three to six where they fit, fewer on a narrow axis or over less than three seconds. Labels are HH:MM; HH:MM:SS when
    they are less than a minute apart; MM-DD when they are days apart; "" for a day no calendar has. Times are those of
    the clocks in the time zone, None for that of the system, and days begin at midnight. Of a time that occurs twice
    because the clocks go back, the first one between the two is chosen.
    """
    start_s, end_s = -(-start_ms // 1000), end_ms // 1000
    offset_s, end_offset_s = _offset_s(start_s, zone), _offset_s(end_s, zone)
    for step_s in _steps_s():
        are_days = step_s >= _DAY_S
        label_width = len(_day_label(0) if are_days else _time_label(0, step_s))
        room = max(1, min(6, (width + 2) // (label_width + 2)))
        if (end_s - start_s) // step_s > 2 * room:
            # Even if half of them are shown twice.
            continue
        if are_days:
            # As the clocks show them: a day in which they are set back has 25 hours.
            days = _multiples(step_s, start_s + offset_s, end_s + end_offset_s)
            ticks = [((clock_s - _offset_s(clock_s - offset_s, zone)) * 1000, _day_label(clock_s)) for clock_s in days]
        else:
            times = _clock_times(step_s, start_s, end_s, {offset_s, end_offset_s}, zone)
            ticks = [(at_s * 1000, _time_label(clock_s, step_s)) for at_s, clock_s in times]
        if len(ticks) <= room:
            return ticks
    raise AssertionError("the steps never end")


def _multiples(step: int, first: int, last: int) -> range:
    return range(-(-first // step) * step, last + 1, step)


def _clock_times(
    step_s: int, start_s: int, end_s: int, offsets_s: Collection[int], zone: tzinfo | None
) -> list[tuple[int, int]]:
    """Return when the clocks of a zone show multiples of a step, by its offsets at the start and at the end."""
    found: dict[int, int] = {}
    # By the greater one, a time that occurs twice is the earlier one.
    for offset_s in sorted(offsets_s, reverse=True):
        for clock_s in _multiples(step_s, start_s + offset_s, end_s + offset_s):
            at_s = clock_s - offset_s
            if len(offsets_s) == 1 or _offset_s(at_s, zone) == offset_s:
                found.setdefault(clock_s, at_s)
    return sorted((at_s, clock_s) for clock_s, at_s in found.items())


def _steps_s() -> Iterator[int]:
    yield from _TIME_STEPS_S
    step_s = _DAY_S
    while True:
        step_s *= 2
        yield step_s


def _offset_s(at_s: int, zone: tzinfo | None) -> int:
    """Return by how much the clocks of a zone are ahead of UTC; 0 for a time no calendar has."""
    try:
        offset = datetime.fromtimestamp(at_s, UTC).astimezone(zone).utcoffset()
    except (OverflowError, ValueError, OSError):
        return 0
    return 0 if offset is None else round(offset.total_seconds())


def _day_label(clock_s: int) -> str:
    try:
        return datetime.fromtimestamp(clock_s, UTC).strftime("%m-%d")
    except (OverflowError, ValueError, OSError):
        return ""


def _time_label(clock_s: int, step_s: int) -> str:
    minutes, seconds = divmod(clock_s % _DAY_S, 60)
    label = f"{minutes // 60:02}:{minutes % 60:02}"
    return label if step_s >= _MINUTE_S else f"{label}:{seconds:02}"


class Palette(NamedTuple):
    """Colours of a chart, and the marks of its lines.

    Colours are what Rich parses ("#rrggbb", "red"); "" and "default" both mean the terminal's own colour. ``series`` is
    one colour for each series, reused from the start when there are more; it may be empty. ``muted`` is that of axes,
    their numbers and times, and remarks. With ``ascii``, lines are drawn with ASCII marks, for terminals without
    braille; other characters are left to the output.
    """

    series: tuple[str, ...]
    muted: str
    ascii: bool = False

    def series_style(self, index: int) -> str:
        """Return the style of the series at ``index`` (from 0), "" when it has no colour."""
        return plain_or(self.series[index % len(self.series)]) if self.series else ""


def plain_or(colour: str) -> str:
    """Return ``colour``, or "" for the names of no colour.

    A span styled "default" is drawn black on black by Textual's ANSI themes; an unstyled one is not.
    """
    return "" if colour == "default" else colour


# A base character and a few combining marks: enough for any script, and a bound on what a hostile label costs.
_CHARACTERS_PER_CELL = 4


def fit_label(text: str, width: int) -> str:
    """Return ``text`` without anything that controls a terminal, in at most ``width`` cells.

    Control, format, bidirectional, unassigned and private characters and line separators become "�". A cut shows as a
    final "…". Markup stays text.
    """
    if width < 1:
        return ""
    kept = text[: width * _CHARACTERS_PER_CELL + 1]
    clean = "".join(char if _is_harmless(char) else "\N{REPLACEMENT CHARACTER}" for char in kept)
    if len(kept) == len(text) and cell_len(clean) <= width:
        return clean
    return set_cell_size(clean, width - 1).rstrip() + "…"


def _is_harmless(char: str) -> bool:
    kind = category(char)
    return not kind.startswith("C") and kind not in {"Zl", "Zp"}
