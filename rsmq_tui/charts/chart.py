"""A line chart over time: legend, y axis, lines and x axis, or sparklines where these do not fit."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from rsmq_tui.charts.labels import fit_label
from rsmq_tui.charts.legend import append_legend, choose_marks
from rsmq_tui.charts.lines import DOTS_ACROSS, DOTS_DOWN, Stroke, draw_strokes
from rsmq_tui.charts.palette import Palette, plain_or
from rsmq_tui.charts.series import Run, Series, Span, fold_runs, reduce_run, split_runs
from rsmq_tui.charts.spark import spark_top, sparkline
from rsmq_tui.charts.ticks import tick_label, time_ticks, value_ticks

# Below this a frame leaves no room for the lines, and a sparkline says more.
_LEAST_WIDTH = 24
_LEAST_HEIGHT = 5

_MOST_STEPS = 5
_NO_DATA = "no data"


def line_chart(
    series: Sequence[Series], *, width: int, height: int, start_ms: int, end_ms: int, palette: Palette, unit: str = ""
) -> Text:
    """Draw series over the same time as lines, in exactly `height` lines of at most `width` cells.

    Times are epoch milliseconds, labelled in UTC. The y axis begins at zero, where negative values are drawn too, and
    has `unit` above it. Unknown values and missing samples are gaps. The first series lies on top. A series that shares
    its colour with an earlier one, or has none, is drawn with a mark of its own. Below 24 x 5 every series is a
    sparkline on a line of its own, all to the same scale, as many as there are lines.
    """
    if width < 1 or height < 1:
        return Text()
    span = Span(start_ms, max(end_ms, start_ms + 1))
    runs = [split_runs(each, span, span.length_ms / (DOTS_ACROSS * width)) for each in series]
    labels = [each.label for each in series]
    if width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return _draw_sparklines(labels, runs, span, width=width, height=height, palette=palette)
    return _draw_chart(labels, runs, span, width=width, height=height, palette=palette, unit=unit)


def _draw_chart(
    labels: Sequence[str],
    runs: Sequence[Sequence[Run]],
    span: Span,
    *,
    width: int,
    height: int,
    palette: Palette,
    unit: str,
) -> Text:
    rows = height - 2
    values = [value for each in runs for run in each for value in run.values]
    ticks = value_ticks(max(values, default=0.0), min(_MOST_STEPS, rows // 2), whole=all(map(float.is_integer, values)))
    top = ticks[-1]
    tick_labels = {_dot(tick, top, rows) // DOTS_DOWN: tick_label(tick) for tick in ticks}
    gutter = max(map(len, tick_labels.values()))
    columns = width - gutter - 1
    marks = choose_marks(len(labels), palette)
    strokes = [
        Stroke(mark, [_dots(run, span, columns, rows, top=top) for run in each])
        for mark, each in zip(marks, runs, strict=True)
    ]

    text = Text(no_wrap=True, overflow="crop")
    axis, muted = plain_or(palette.axis), plain_or(palette.muted)
    wall, tooth = ("|", "+") if palette.ascii else ("│", "┤")
    head = fit_label(unit, width // 3, ascii_only=palette.ascii)
    head = " " * (gutter - cell_len(head)) + head + " "
    text.append(head, muted)
    append_legend(text, labels, marks, width - cell_len(head), palette)
    styles = [palette.series_style(index) for index in range(len(labels))]
    for row, pieces in enumerate(draw_strokes(strokes, columns, rows)):
        label = tick_labels.get(rows - 1 - row)
        text.append("\n" + (label or "").rjust(gutter), muted)
        text.append(wall if label is None else tooth, axis)
        if not values and row == rows // 2:
            text.append(_NO_DATA.center(columns), muted)
            continue
        for piece, index in pieces:
            text.append(piece, None if index is None else styles[index])
    text.append("\n" + " " * gutter)
    _append_times(text, span, columns, palette)
    return text


def _dots(run: Run, span: Span, columns: int, rows: int, *, top: float) -> list[tuple[int, int]]:
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


def _append_times(text: Text, span: Span, columns: int, palette: Palette) -> None:
    corner, line = ("+", "-") if palette.ascii else ("└", "─")
    axis, muted = plain_or(palette.axis), plain_or(palette.muted)
    text.append(corner, axis)
    drawn = 0
    for at_ms, label in time_ticks(span.start_ms, span.end_ms, columns):
        middle = (at_ms - span.start_ms) * columns // span.length_ms
        begin = max(0, min(columns - len(label), middle - len(label) // 2))
        # A label that was moved in from the edge can run into its neighbour.
        if drawn and begin <= drawn:
            continue
        text.append(line * (begin - drawn), axis)
        text.append(label, muted)
        drawn = begin + len(label)
    text.append(line * (columns - drawn), axis)


def _draw_sparklines(
    labels: Sequence[str], runs: Sequence[Sequence[Run]], span: Span, *, width: int, height: int, palette: Palette
) -> Text:
    names = [fit_label(label, width // 2 - 1, ascii_only=palette.ascii) for label in labels[:height]]
    name_width = max(map(cell_len, names), default=0)
    columns = width - name_width - 1 if name_width else width
    cells = [fold_runs(each, span, columns) for each in runs]
    top = max(map(spark_top, cells), default=0.0)
    text = Text(no_wrap=True, overflow="crop")
    for row in range(height):
        text.append("\n" if row else "")
        if row < len(names):
            text.append((names[row] + " " * (name_width - cell_len(names[row]) + 1)) if name_width else "")
            style = palette.series_style(row)
            text.append_text(sparkline(cells[row], columns, style=style, ascii=palette.ascii, top=top))
    return text
