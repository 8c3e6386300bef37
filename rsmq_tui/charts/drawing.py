"""Bars, sparklines, and line charts over time. The only module that imports plotext.

plotext has no type hints, so none of its objects leave this module: strokes in dots go in, rows of strings come out. It
is used as a rasteriser, because its frame, legend and tick labels cannot be made small enough for a dashboard. Its
default figure, which the whole process shares, is left alone.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from rsmq_tui.charts.series import (
    LARGEST,
    ChartSpan,
    Palette,
    Run,
    Series,
    fit_label,
    fold_runs,
    known,
    plain_or,
    reduce_run,
    split_runs,
    tick_label,
    time_ticks,
    value_ticks,
)

# Of how many sizes the figures are kept: the charts of a screen have one to three.
_FIGURES = 8
_drawing = Lock()
# A heavy line rather than blocks, which would touch the row above: long bars would look like one area.
_WHOLE, _HALF = "━", "╸"
# A shorter bar is not worth the space that it takes from the label.
_SHORTEST_BAR = 4
_UNKNOWN_AMOUNT = "–"


def bar_rows(rows: Sequence[tuple[str, float]], *, width: int, palette: Palette) -> Text:
    """Draw one line for each (label, amount): label, right-aligned amount, bar, in at most ``width`` cells.

    Bars are relative to the largest amount, and anything above zero gets at least a sliver. Amounts that are not finite
    are unknown and shown as "–". If ``width`` is small, the bar is dropped first, then the amounts become short (38k),
    then the labels are cut.
    """
    if width < 1 or not rows:
        return Text()
    amounts = [known(amount) for _, amount in rows]
    labels = [fit_label(label, width) for label, _ in rows]
    label_width = max(map(cell_len, labels))
    numbers = [_exact(amount) for amount in amounts]
    if label_width + 1 + max(map(len, numbers)) > width:
        numbers = [_short(amount) for amount in amounts]
    number_width = min(width, max(map(len, numbers)))
    label_width = min(label_width, max(0, width - 1 - number_width))
    bar_width = width - label_width - number_width - 2
    largest = max((amount for amount in amounts if amount is not None), default=0.0)

    text = Text(no_wrap=True, overflow="crop")
    for index, amount in enumerate(amounts):
        if index:
            text.append("\n")
        if label_width:
            label = fit_label(labels[index], label_width)
            text.append(label + " " * (label_width - cell_len(label) + 1))
        text.append(fit_label(numbers[index], number_width).rjust(number_width))
        if bar_width >= _SHORTEST_BAR and amount is not None and amount > 0:
            text.append(" ")
            text.append(_bar(amount / largest, bar_width), palette.series_style(0))
    return text


def _bar(share: float, width: int) -> str:
    whole, half = divmod(max(1, round(share * width * 2)), 2)
    return _WHOLE * whole + _HALF * half


def _exact(amount: float | None) -> str:
    if amount is None:
        return _UNKNOWN_AMOUNT
    return f"{amount:,.0f}" if amount.is_integer() else f"{amount:,.1f}"


def _short(amount: float | None) -> str:
    return _UNKNOWN_AMOUNT if amount is None else tick_label(amount)


# The first mark is zero and only zero: a queue with one message must not look empty. A full block is not among them:
# rows under each other would touch, and look like one area.
_BLOCKS = "▁▂▃▄▅▆▇"

# Just under one step per mark above zero, so that a value on the border of two marks takes the lower one.
_STEPS = 5.9999

# Below every level, so that max() ignores it: this runs for each visible row of a table at each repaint.
_UNKNOWN = -1.0

# A value this many times the usual one is drawn at full height, and one above _HIGH times it is high.
_ROOM = 2.0
_HIGH = 1.5


def spark_runs(values: Sequence[float | None], width: int) -> list[tuple[str, bool]]:
    """Draw ``values``, oldest first, in exactly ``width`` cells, as runs of (text, whether its values are high).

    The newest value is at the right. The floor is zero, whatever the values; more values than cells are joined by their
    maximum, fewer leave the left blank. Unknown values (None, NaN, infinity) are blank, negative ones are drawn as
    zero. A value is high if it exceeds one and a half times the median.
    """
    if width < 1:
        return []
    levels = _levels(values, width)
    drawn = _draw(levels, _top(levels))
    limit = _HIGH * _median(levels)
    runs = groupby(zip(drawn, levels, strict=True), lambda cell: cell[1] > limit)
    blank = [(" " * (width - len(drawn)), False)] if len(drawn) < width else []
    return blank + [("".join(mark for mark, _ in run), is_high) for is_high, run in runs]


def fold_latest(
    times_ms: Sequence[int], values: Sequence[float | None], *, end_ms: int, cell_ms: int, cells: int
) -> list[float | None]:
    """Return the largest known value of each of the last ``cells`` spans of ``cell_ms``, oldest first; None if unknown.

    ``times_ms``, ascending, says when each value was; the last span ends with ``end_ms``.
    """
    folded: list[float | None] = [None] * cells
    for at_ms, value in zip(reversed(times_ms), reversed(values), strict=True):
        cell = cells - 1 - (end_ms - at_ms) // cell_ms
        if cell < 0:
            break
        if value is not None and cell < cells:
            before = folded[cell]
            folded[cell] = value if before is None or value > before else before
    return folded


def _levels(values: Sequence[float | None], width: int) -> list[float]:
    # One expression rather than a call to known() for each value: it halves the time.
    levels = [
        _UNKNOWN if value is None else value if 0 < value <= LARGEST else 0.0 if -LARGEST <= value <= 0 else _UNKNOWN
        for value in values
    ]
    count = len(levels)
    if count > width:
        borders = [cell * count // width for cell in range(width + 1)]
        levels = [max(levels[borders[cell] : borders[cell + 1]]) for cell in range(width)]
    return levels


def _median(levels: Sequence[float]) -> float:
    there = sorted(level for level in levels if level >= 0)
    middle = len(there) // 2
    return (there[middle] + there[~middle]) / 2 if there else 0.0


def _top(levels: Sequence[float]) -> float:
    """Return the value of the highest mark: the largest value, or twice the median where that is more.

    So a constant value is drawn at half the height, with room for a peak above it.
    """
    return max(_ROOM * _median(levels), max(levels, default=0.0))


def _draw(levels: Sequence[float], top: float) -> str:
    return "".join([_mark(level, top) for level in levels])


def _mark(level: float, top: float) -> str:
    if level == 0:
        return _BLOCKS[0]
    if level < 0:
        return " "
    return _BLOCKS[1 + int(level / top * _STEPS)] if level < top else _BLOCKS[-1]


def sparklines(series: Sequence[Series], *, width: int, start_ms: int, end_ms: int) -> list[str]:
    """Draw each series in exactly ``width`` cells, all over the same time and to the same scale.

    A cell shows the largest value of its time. Unknown values and missing samples are blank.
    """
    if width < 1:
        return ["" for _ in series]
    span = ChartSpan(start_ms, max(end_ms, start_ms + 1))
    cells = [fold_runs(split_runs(each, span, span.length_ms / width), span, width) for each in series]
    levels = [_levels(values, width) for values in cells]
    top = max(map(_top, levels), default=0.0)
    return [_draw(each, top) for each in levels]


# Braille has 2 x 4 dots in a cell; all strokes use this grid, so that full-cell marks are placed like the dots.
DOTS_ACROSS = 2
DOTS_DOWN = 4

BRAILLE = "braille"

_BLANK = " "
# Shorter turns look like a zigzag, longer ones hide a peak.
_TURN_CELLS = 2
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Stroke(NamedTuple):
    """A line to draw.

    ``mark`` is BRAILLE, or one character that fills its cell. ``runs`` are the dots to connect, as (across from the
    left, up from the bottom); runs are not connected to each other.
    """

    mark: str
    runs: Sequence[Sequence[tuple[int, int]]]


def draw_strokes(strokes: Sequence[Stroke], width: int, height: int) -> list[list[tuple[str, int | None]]]:
    """Draw strokes on ``width`` x ``height`` cells; where several meet, they take turns of a few columns.

    Returns ``height`` rows, top first, each as pieces of (text, index of its stroke or None for background) that have
    ``width`` cells together. A cell has one colour, so it shows the dots of one stroke only.
    """
    drawn = [(index, _rows(stroke, width, height)) for index, stroke in enumerate(strokes) if any(stroke.runs)]
    pieces: list[list[tuple[str, int | None]]] = []
    for row in range(height):
        cells: list[tuple[str, int | None]] = []
        for column in range(width):
            here = [(rows[row][column], index) for index, rows in drawn if rows[row][column] != _BLANK]
            cells.append(here[column // _TURN_CELLS % len(here)] if here else (_BLANK, None))
        owned = groupby(cells, itemgetter(1))
        pieces.append([("".join(mark for mark, _ in each), index) for index, each in owned])
    return pieces


def _rows(stroke: Stroke, width: int, height: int) -> list[str]:
    """Return the rows of one stroke, top first."""
    import plotext  # noqa: PLC0415 - it takes 0.16 s, which starting the program must not wait for

    dots = [dot for run in stroke.runs for dot in run]
    marker = plotext.marker(stroke.mark)
    # Other threads may draw too.
    with _drawing:
        figure = _figure(width, height)
        figure.clear.data()
        signal = figure.signal([across + 0.5 for across, _ in dots], [up + 0.5 for _, up in dots], marker=marker)
        signal.lines(True)
        start = 0
        for run in stroke.runs:
            signal.line(start, False)
            start += len(run)
        figure.draw(signal)
        drawn = str(figure.build().string())
    return _ESCAPE.sub("", drawn).split("\n")[:height]


@lru_cache(maxsize=_FIGURES)
def _figure(width: int, height: int) -> Any:
    """Return a figure of that size: it consists of hundreds of objects in cycles, so it is made once."""
    import plotext  # noqa: PLC0415 - it takes 0.16 s, which starting the program must not wait for

    # A terminal without limits, or the figure is clipped to the size of this process's terminal.
    figure = type(plotext.figure)(parent=type(plotext.terminal)().limit(False, False))
    figure.plot_size(width, height)
    figure.axes(False)
    figure.canvas("default")
    for axis, length in (("x", DOTS_ACROSS * width), ("y", DOTS_DOWN * height)):
        # No ticks, and limits at the edges of the outer dots, so that dot n is n + 0.5.
        figure.ruler(axis).frequency(0).lim(0, length).alignment(lim="edge")
    return figure


# Marks of one cell, the easiest to tell apart first.
_MARKS = "*+ox#%@=&ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# What a braille line looks like.
_BRAILLE_SAMPLE = "⠤"

_SAMPLE_WIDTH = 2
_GAP = "  "
# A label cut shorter than this names nothing.
_LABEL_WIDTH_MIN = 4


def choose_marks(count: int, palette: Palette) -> list[str]:
    """Choose a mark for each of ``count`` series so that no two have both the same mark and the same colour.

    The first series of a colour is braille, in ASCII palettes every series has a mark of its own.
    """
    if palette.ascii:
        return [_MARKS[index % len(_MARKS)] for index in range(count)]
    marks: list[str] = []
    seen: dict[str, int] = {}
    for index in range(count):
        colour = palette.series_style(index)
        before = seen.get(colour, 0)
        marks.append(_MARKS[(before - 1) % len(_MARKS)] if before else BRAILLE)
        seen[colour] = before + 1
    return marks


def append_legend(text: Text, labels: Sequence[str], marks: Sequence[str], width: int, palette: Palette) -> None:
    """Append a sample and the label of each series to ``text``, in at most ``width`` cells.

    Long labels are cut to equal shares; series that do not fit are counted at the end ("+2").
    """
    shown = min(len(labels), max(1, (width + len(_GAP)) // (_SAMPLE_WIDTH + 1 + _LABEL_WIDTH_MIN + len(_GAP))))
    more = f"{_GAP}+{len(labels) - shown}" if shown < len(labels) else ""
    room = width - len(more) - shown * (_SAMPLE_WIDTH + 1) - (shown - 1) * len(_GAP)
    for index, label in enumerate(_share(labels[:shown], room)):
        sample = (_BRAILLE_SAMPLE if marks[index] == BRAILLE else marks[index]) * _SAMPLE_WIDTH
        text.append(_GAP if index else "")
        text.append(f"{sample} {label}", palette.series_style(index))
    text.append(more, plain_or(palette.muted))


def _share(labels: Sequence[str], room: int) -> list[str]:
    """Fit labels into ``room`` cells together: the short ones whole, the others in equal parts of what is left."""
    fitted = [fit_label(label, room) for label in labels]
    left = room
    for done, index in enumerate(sorted(range(len(fitted)), key=lambda index: cell_len(fitted[index]))):
        fitted[index] = fit_label(fitted[index], left // (len(fitted) - done))
        left -= cell_len(fitted[index])
    return fitted


# In smaller charts a frame would leave no room for the lines.
_WIDTH_MIN = 24
_HEIGHT_MIN = 5

MARKED = "┊"
"""What marks a time in a chart."""
_STEPS_MAX = 5
_NO_DATA = "no data"


def line_chart(
    series: Sequence[Series],
    *,
    width: int,
    height: int,
    start_ms: int,
    end_ms: int,
    palette: Palette,
    unit: str = "",
    zone: tzinfo | None = UTC,
    marked_ms: Iterable[int] = (),
) -> Text:
    """Draw series over the same time as lines, in exactly ``height`` lines of at most ``width`` cells.

    Times are epoch milliseconds, labelled in ``zone``, None for that of the system. The y axis begins at zero, where
    negative values are drawn too, and has ``unit`` above it. Unknown values and missing samples are gaps. Series that
    meet take turns, in dashes. One that shares its colour with an earlier one, or has none, is drawn with a mark of
    its own. At the times ``marked_ms``, a dotted line lies behind them. Below 24 x 5 all lines are blank.
    """
    if width < 1 or height < 1:
        return Text()
    if width < _WIDTH_MIN or height < _HEIGHT_MIN:
        return Text("\n" * (height - 1))
    span = ChartSpan(start_ms, max(end_ms, start_ms + 1))
    runs = [split_runs(each, span, span.length_ms / (DOTS_ACROSS * width)) for each in series]
    labels = [each.label for each in series]
    rows = height - 2
    values = [value for each in runs for run in each for value in run.values]
    ticks = value_ticks(max(values, default=0.0), min(_STEPS_MAX, rows // 2), whole=all(map(float.is_integer, values)))
    top = ticks[-1]
    tick_labels = {_dot(tick, top, rows) // DOTS_DOWN: tick_label(tick) for tick in ticks}
    gutter = max(map(len, tick_labels.values()))
    columns = width - gutter - 1
    marks = choose_marks(len(labels), palette)
    strokes = [
        Stroke(mark, [_dots(run, span, columns, rows, top=top) for run in each])
        for mark, each in zip(marks, runs, strict=True)
    ]

    marked = {
        (at_ms - span.start_ms) * columns // span.length_ms for at_ms in marked_ms if start_ms <= at_ms < span.end_ms
    }
    text = Text(no_wrap=True, overflow="crop")
    muted = plain_or(palette.muted)
    head = fit_label(unit, width // 3)
    head = " " * (gutter - cell_len(head)) + head + " "
    text.append(head, muted)
    append_legend(text, labels, marks, width - cell_len(head), palette)
    styles = [palette.series_style(index) for index in range(len(labels))]
    for row, pieces in enumerate(draw_strokes(strokes, columns, rows)):
        label = tick_labels.get(rows - 1 - row)
        text.append("\n" + (label or "").rjust(gutter) + ("│" if label is None else "┤"), muted)
        if not values and row == rows // 2:
            text.append(_NO_DATA.center(columns), muted)
            continue
        column = 0
        for piece, index in pieces:
            if index is None:
                behind = (MARKED if column + at in marked else each for at, each in enumerate(piece))
                text.append("".join(behind) if marked else piece, muted if marked else None)
            else:
                text.append(piece, styles[index])
            column += len(piece)
    text.append("\n" + " " * gutter)
    _append_times(text, span, columns, palette, zone)
    return text


def _dots(run: Run, span: ChartSpan, columns: int, rows: int, *, top: float) -> list[tuple[int, int]]:
    """Turn a run into the dots that its line connects, without those that would not change the line."""
    dots: list[tuple[int, int]] = []
    for across, value in reduce_run(run, span, DOTS_ACROSS * columns):
        dot = (across, _dot(value, top, rows))
        if dots and dot == dots[-1]:
            continue
        if len(dots) > 1 and dot[1] == dots[-1][1] == dots[-2][1]:
            dots.pop()
        dots.append(dot)
    return dots


def _dot(value: float, top: float, rows: int) -> int:
    # max: counters corrected by hand can make a rate dip below zero, and the axis begins there.
    return round(max(0.0, value) / top * (DOTS_DOWN * rows - 1))


def _append_times(text: Text, span: ChartSpan, columns: int, palette: Palette, zone: tzinfo | None) -> None:
    axis, drawn = "└", 0
    for at_ms, label in time_ticks(span.start_ms, span.end_ms, columns, zone):
        middle = (at_ms - span.start_ms) * columns // span.length_ms
        begin = max(0, min(columns - len(label), middle - len(label) // 2))
        # A label that was moved in from the edge can run into its neighbour.
        if drawn and begin <= drawn:
            continue
        axis += "─" * (begin - drawn) + label
        drawn = begin + len(label)
    text.append(axis + "─" * (columns - drawn), plain_or(palette.muted))
