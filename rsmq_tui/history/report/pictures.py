"""The SVG pictures of a report: panels of lines over time, a timeline of incidents, a heat map.

Colours are classes, which the style sheet ``report.css`` defines for light and for dark. A verdict has a letter as
well. Each picture has a title and a description for screen readers. All text is escaped here.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count as counting

from rsmq_tui.charts.series import ChartSpan, Run, Series, reduce_run, split_runs, tick_label, time_ticks, value_ticks
from rsmq_tui.history.analysis.values import HeatMap, Point, TimeRange

WIDE, CARD = 960, 470
"""Widths of pictures: of the page, and of half of it."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 6, 22
# The axis of times has about one label for this many units.
_LABEL_WIDTH = 13
_STRIP = 13
_ROW, _HEAD = 19, 22
# Of a timeline: the names before the bars, the words behind them, and the width of a letter of a name.
_NAMES, _WORDS, _LETTER = 236, 124, 7.3
# A bar that is at least this wide has its letter in it.
_LETTERED = 11


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line of a chart: its points, its name, and its CSS class; with ``area``, the area down to 0 is filled."""

    points: Sequence[Point]
    name: str
    style: str
    is_area: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines with an axis of values from zero, in units of ``divisor``; unknown values are gaps."""

    label: str
    drawn: Sequence[Drawn]
    height: int
    divisor: float = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of time with a verdict: the text that explains it, its CSS class, and its letter."""

    from_ms: int
    to_ms: int
    words: str
    style: str
    letter: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a timeline: its name, its marks, and words behind them; a row without marks is a heading."""

    name: str
    marks: Sequence[Mark] = ()
    words: str = ""


class Pictures:
    """Draws the pictures of one page, with ids that are unique in the page."""

    def __init__(self) -> None:
        self._numbers = counting(1)

    def panels(
        self, panels: Sequence[Panel], span: TimeRange, title: str, words: str, *,
        marks: Sequence[Mark] = (), width: int = WIDE,
    ) -> str:  # fmt: skip
        """Draw panels of lines below each other, on one axis of times, with the marks above and behind them."""
        axis = _axis(span)
        top = _TOP + (_STRIP if marks else 0)
        height = top + sum(panel.height for panel in panels) + _BOTTOM
        whole = _Frame(axis, top, height - _BOTTOM, 1.0, right=width - _RIGHT)
        parts = [_shade(mark, whole) for mark in marks]
        parts += [_bar(mark, whole, _TOP - 3, _STRIP - 2) for mark in marks]
        parts += _times(whole)
        for panel in panels:
            parts += _panel(panel, axis, top, width)
            top += panel.height
        return self._picture(parts, width, height, title, words)

    def timeline(self, rows: Sequence[Row], span: TimeRange, title: str, words: str) -> str:
        """Draw a row of bars for each name; a long name has a line of its own."""
        axis = _axis(span)
        height = _TOP + sum(_height(row) for row in rows) + _BOTTOM
        frame = _Frame(axis, _TOP, height - _BOTTOM, 1.0, left=_NAMES, right=WIDE - _WORDS)
        parts = _times(frame)
        y = _TOP
        for row in rows:
            bottom = y + _height(row)
            parts.append(_name(row, y if _is_long(row) else bottom - _ROW))
            if row.marks:
                parts.append(f'<path class="grid" d="M4 {bottom}H{WIDE - 4}"/>')
                parts += [_bar(mark, frame, bottom - _ROW + 3, _ROW - 6) for mark in row.marks]
                parts.append(f'<text x="{WIDE - _WORDS + 10}" y="{bottom - 5}">{escape(row.words)}</text>')
            y = bottom
        return self._picture(parts, WIDE, height, title, words)

    def heat(self, heat: HeatMap, labels: Sequence[str], title: str, words: str) -> str:
        """Draw days down and hours across; ``labels`` names the rows."""
        left, row_height = 112, 17
        cell = (WIDE - left - _RIGHT) / 24
        height = _TOP + 14 + row_height * len(heat.rows)
        levels = heat.levels
        parts = [
            f'<text class="tick" x="{left + (hour + 0.5) * cell:.1f}" y="{_TOP + 6}">{hour:02d}</text>'
            for hour in range(24)
        ]
        for row, ((_, values), label) in enumerate(zip(heat.rows, labels, strict=True)):
            y = _TOP + 14 + row * row_height
            parts.append(f'<text class="tick end" x="{left - 8}" y="{y + 12}">{escape(label)}</text>')
            for hour, value in enumerate(values):
                if value is None:
                    continue
                level = bisect_right(levels, value) - 1
                parts.append(
                    f'<rect class="heat h{level}" x="{left + hour * cell:.1f}" y="{y}" width="{cell - 1:.1f}" '
                    f'height="{row_height - 1}"><title>{escape(f"{label} {hour:02d}:00: {value:,.0f}")}</title></rect>'
                )
        return self._picture(parts, WIDE, height, title, words)

    def _picture(self, parts: Iterable[str], width: int, height: int, title: str, words: str) -> str:
        number = next(self._numbers)
        return (
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="t{number} d{number}">'
            f'<title id="t{number}">{escape(title)}</title><desc id="d{number}">{escape(words)}</desc>'
            f"{''.join(parts)}</svg>"
        )


class _Frame:
    """Converts times and values to coordinates between ``top`` and ``base``, where ``highest`` is at the top."""

    def __init__(self, span: ChartSpan, top: int, base: int, highest: float, *, left: int = _LEFT, right: int) -> None:
        self.span, self.top, self.base, self.left, self.right = span, top, base, left, right
        self._highest = highest

    @property
    def columns(self) -> int:
        return (self.right - self.left) // 2

    def x(self, at_ms: float) -> float:
        share = (at_ms - self.span.start_ms) / self.span.length_ms
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)

    def y(self, value: float) -> float:
        share = min(1.0, max(0.0, value / self._highest)) if self._highest else 0.0
        return self.base - share * (self.base - self.top)


def _axis(span: TimeRange) -> ChartSpan:
    return ChartSpan(span.from_ms, max(span.to_ms, span.from_ms + 1))


def _panel(panel: Panel, axis: ChartSpan, top: int, width: int) -> list[str]:
    """Draw one panel, with its label above its lines."""
    inside, base = top + 17, top + panel.height - 3
    columns = (width - _RIGHT - _LEFT) // 2
    runs = [(each, split_runs(Series("", each.points), axis, axis.length_ms / columns)) for each in panel.drawn]
    highest = max((value for _, each in runs for run in each for value in run.values), default=0.0) / panel.divisor
    ticks = value_ticks(highest, 4 if panel.height > 90 else 2)
    frame = _Frame(axis, inside, base, ticks[-1] * panel.divisor, right=width - _RIGHT)
    parts = [f'<text class="label" x="{_LEFT}" y="{top + 11}">{escape(panel.label)}</text>']
    for tick in ticks:
        y = frame.y(tick * panel.divisor)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{width - _RIGHT}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 5}" y="{y + 4:.1f}">{escape(tick_label(tick))}</text>')
    for each, known in runs:
        if each.is_area:
            parts += [f'<path class="area {each.style}" d="{_area(run, frame)}"/>' for run in known]
        else:
            path = "".join(_path(run, frame) for run in known)
            parts.append(f'<path class="line {each.style}" d="{path}"><title>{escape(each.name)}</title></path>')
    if not any(known for _, known in runs):
        parts.append(f'<text class="tick" x="{width // 2}" y="{(inside + base) // 2 + 4}">no data for this time</text>')
    return parts


def _times(frame: _Frame) -> list[str]:
    parts = []
    cells = (frame.right - frame.left) // _LABEL_WIDTH
    for at_ms, label in time_ticks(frame.span.start_ms, frame.span.end_ms, cells):
        x = frame.x(at_ms)
        parts.append(f'<path class="grid" d="M{x:.1f} {frame.top}V{frame.base + 4}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{frame.base + 16}">{escape(label)}</text>')
    return parts


def _shade(mark: Mark, frame: _Frame) -> str:
    left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
    return (
        f'<rect class="shade {mark.style}" x="{left:.1f}" y="{frame.top}" width="{max(1.0, right - left):.1f}" '
        f'height="{frame.base - frame.top}"/>'
    )


def _bar(mark: Mark, frame: _Frame, y: int, height: int) -> str:
    """Draw a bar that is wide enough to be seen, with its letter if there is room."""
    left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
    width = max(3.0, right - left)
    left = min(left, frame.right - width)
    bar = (
        f'<rect class="bar {mark.style}" x="{left:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="1.5">'
        f"<title>{escape(mark.words)}</title></rect>"
    )
    if width < _LETTERED:
        return bar
    x = left + width / 2
    return f'{bar}<text class="letter on-{mark.style}" x="{x:.1f}" y="{y + height - 2}">{mark.letter}</text>'


def _is_long(row: Row) -> bool:
    return len(row.name) * _LETTER > _NAMES - 8


def _height(row: Row) -> int:
    if not row.marks:
        return _HEAD
    return 2 * _ROW - 4 if _is_long(row) else _ROW


def _name(row: Row, y: int) -> str:
    """Draw a name; one that is longer than the page is drawn in narrower letters, never cut."""
    if not row.marks:
        return f'<text class="heading" x="4" y="{y + _ROW - 4}">{escape(row.name)}</text>'
    most = WIDE - 8 if _is_long(row) else _NAMES - 8
    squeezed = f' textLength="{most}" lengthAdjust="spacingAndGlyphs"' if len(row.name) * _LETTER > most else ""
    return f'<text class="name" x="4" y="{y + 14}"{squeezed}>{escape(row.name)}</text>'


def _dots(run: Run, frame: _Frame) -> list[tuple[float, float]]:
    step = frame.span.length_ms / frame.columns
    reduced = reduce_run(run, frame.span, frame.columns)
    return [(frame.x(frame.span.start_ms + (column + 0.5) * step), frame.y(value)) for column, value in reduced]


def _path(run: Run, frame: _Frame) -> str:
    (x, y), *rest = _dots(run, frame)
    # A single point is a dot, which round line ends make visible.
    return f"M{x:.1f} {y:.1f}" + ("".join(f"L{x:.1f} {y:.1f}" for x, y in rest) or "h0.1")


def _area(run: Run, frame: _Frame) -> str:
    dots = _dots(run, frame)
    return f"M{dots[0][0]:.1f} {frame.base}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in dots) + f"V{frame.base}Z"
