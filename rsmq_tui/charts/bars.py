"""Bars and sparklines."""

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from rich.cells import cell_len
from rich.text import Text

from rsmq_tui.charts.series import (
    LARGEST,
    Palette,
    Series,
    Span,
    fit_label,
    fold_runs,
    known,
    split_runs,
    tick_label,
)

# A heavy line rather than blocks, which would touch the row above: long bars would look like one area.
_WHOLE, _HALF = "━", "╸"
# A shorter bar is worth less than the space it takes from the label.
_SHORTEST_BAR = 4
_UNKNOWN_AMOUNT = "–"


def bar_rows(rows: Sequence[tuple[str, float]], *, width: int, palette: Palette) -> Text:
    """Draw one line for each (label, amount): label, right-aligned amount, bar, in at most `width` cells.

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


def sparkline(values: Sequence[float | None], width: int, *, top: float | None = None) -> str:
    """Draw `values`, oldest first, in exactly `width` cells with the newest at the right.

    The floor is zero, whatever the values; `top` is the value of the highest mark, as `spark_top` says when None. More
    values than cells are joined by their maximum, fewer leave the left blank. Unknown values (None, NaN, infinity) are
    blank, negative ones are drawn as zero.
    """
    return _draw(_levels(values, width), top).rjust(width) if width > 0 else ""


def spark_runs(values: Sequence[float | None], width: int) -> list[tuple[str, bool]]:
    """Draw values as `sparkline` does, as runs of (text, whether its values are high).

    A value is high if it exceeds one and a half times the median.
    """
    if width < 1:
        return []
    levels = _levels(values, width)
    drawn = _draw(levels, None)
    limit = _HIGH * _median(levels)
    runs = groupby(zip(drawn, levels, strict=True), lambda cell: cell[1] > limit)
    blank = [(" " * (width - len(drawn)), False)] if len(drawn) < width else []
    return blank + [("".join(mark for mark, _ in run), is_high) for is_high, run in runs]


def spark_top(values: Sequence[float | None]) -> float:
    """Return the value of the highest mark: the largest value, or twice the median where that is more.

    So a constant value is drawn at half the height, with room for a peak above it.
    """
    return _top(_levels(values, max(1, len(values))))


def fold_latest(
    times_ms: Sequence[int], values: Sequence[float | None], *, end_ms: int, cell_ms: int, cells: int
) -> list[float | None]:
    """Return the largest known value of each of the last `cells` spans of `cell_ms`, oldest first; None if unknown.

    `times_ms`, ascending, says when each value was; the last span ends with `end_ms`.
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
    there = [level for level in levels if level >= 0]
    return float(median(there)) if there else 0.0


def _top(levels: Sequence[float]) -> float:
    return max(_ROOM * _median(levels), max(levels, default=0.0))


def _draw(levels: Sequence[float], top: float | None) -> str:
    ceiling = known(top)
    if ceiling is None:
        ceiling = _top(levels)
    return "".join([_mark(level, ceiling) for level in levels])


def _mark(level: float, ceiling: float) -> str:
    if level == 0:
        return _BLOCKS[0]
    if level < 0:
        return " "
    return _BLOCKS[1 + int(level / ceiling * _STEPS)] if level < ceiling else _BLOCKS[-1]


def sparklines(series: Sequence[Series], *, width: int, start_ms: int, end_ms: int) -> list[str]:
    """Draw each series in exactly `width` cells, all over the same time and to the same scale.

    A cell shows the largest value of its time. Unknown values and missing samples are blank.
    """
    if width < 1:
        return ["" for _ in series]
    span = Span(start_ms, max(end_ms, start_ms + 1))
    cells = [fold_runs(split_runs(each, span, span.length_ms / width), span, width) for each in series]
    top = max(map(spark_top, cells), default=0.0)
    return [sparkline(values, width, top=top) for values in cells]
