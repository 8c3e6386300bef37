"""Pictures of a report as SVG: lines over time, a timeline of episodes, a heat map. Values in, text out.

Colours are classes, which the page's style sheet gives a colour by light and by dark. Each picture has a title and a
description for whoever cannot see it. All text is escaped here.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import count as counting

from rsmq_tui.charts import Series
from rsmq_tui.charts.series import Run, Span, reduce_run, split_runs
from rsmq_tui.charts.ticks import tick_label, time_ticks, value_ticks
from rsmq_tui.history.analysis.values import HeatMap, Point, TimeRange

WIDTH = 760
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 22, 10, 22
_COLUMNS = 350
_AXIS_CELLS = 60
_ROW = 20
_NAME_WIDTH = 180
_NAME_MAX = 28
LEVELS = 5


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line of a chart: its points, its name, and the class that gives it its colour; an ``area`` reaches to 0."""

    points: Sequence[Point]
    name: str
    style: str
    is_area: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of time to be shaded behind the lines, or drawn as a bar: what it says, and its class."""

    from_ms: int
    to_ms: int
    words: str
    style: str


class Pictures:
    """Draws the pictures of one page; their parts have names that no other picture of the page has."""

    def __init__(self) -> None:
        self._numbers = counting(1)

    def lines(
        self, drawn: Sequence[Drawn], span: TimeRange, title: str, words: str, *, marks: Sequence[Mark] = (),
        divisor: float = 1.0, height: int = 180,
    ) -> str:  # fmt: skip
        """Draw lines over time from zero up; what is unknown is a gap."""
        axis = Span(span.from_ms, max(span.to_ms, span.from_ms + 1))
        resolution_ms = axis.length_ms / _COLUMNS
        runs = [(each, split_runs(Series("", each.points), axis, resolution_ms)) for each in drawn]
        highest = max((value for _, each in runs for run in each for value in run.values), default=0.0) / divisor
        ticks = value_ticks(highest, 4)
        frame = _Frame(axis, height, ticks[-1] * divisor)
        parts = [_shade(mark, frame) for mark in marks]
        for tick in ticks:
            y = frame.y(tick * divisor)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
            parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{_text(tick_label(tick))}</text>')
        parts += _times(frame)
        for each, known in runs:
            if each.is_area:
                parts += [f'<path class="area {each.style}" d="{_area(run, frame)}"/>' for run in known]
            else:
                path = "".join(_path(run, frame) for run in known)
                parts.append(f'<path class="line {each.style}" d="{path}"><title>{_text(each.name)}</title></path>')
        if not any(known for _, known in runs):
            parts.append(f'<text class="tick" x="{WIDTH // 2}" y="{height // 2}">no data for this time</text>')
        return self._picture(parts, height, title, words)

    def timeline(self, rows: Sequence[tuple[str, Sequence[Mark]]], span: TimeRange, title: str, words: str) -> str:
        """Draw a row of bars for each name."""
        axis = Span(span.from_ms, max(span.to_ms, span.from_ms + 1))
        height = _TOP + _ROW * len(rows) + _BOTTOM
        frame = _Frame(axis, height, 1.0, left=_NAME_WIDTH)
        parts = _times(frame)
        for row, (name, marks) in enumerate(rows):
            y = _TOP + row * _ROW
            short = name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"
            parts.append(f'<text class="name" x="4" y="{y + 14}">{_text(short)}</text>')
            parts.append(f'<path class="grid" d="M{_NAME_WIDTH} {y + _ROW}H{WIDTH - _RIGHT}"/>')
            for mark in marks:
                left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
                width = max(3.0, right - left)
                parts.append(
                    f'<rect class="bar {mark.style}" x="{min(left, WIDTH - _RIGHT - width):.1f}" y="{y + 3}" '
                    f'width="{width:.1f}" height="{_ROW - 6}" rx="2"><title>{_text(mark.words)}</title></rect>'
                )
        return self._picture(parts, height, title, words)

    def heat(self, heat: HeatMap, labels: Sequence[str], title: str, words: str) -> str:
        """Draw days down and hours across; ``labels`` names the rows."""
        cell, row_height = (WIDTH - 96 - _RIGHT) / 24, 16
        height = _TOP + 14 + row_height * len(heat.rows)
        levels = levels_of(heat)
        parts = [
            f'<text class="tick" x="{96 + (hour + 0.5) * cell:.1f}" y="{_TOP + 6}">{hour:02d}</text>'
            for hour in range(0, 24, 2)
        ]
        for row, ((_, values), label) in enumerate(zip(heat.rows, labels, strict=True)):
            y = _TOP + 14 + row * row_height
            parts.append(f'<text class="tick end" x="88" y="{y + 12}">{_text(label)}</text>')
            for hour, value in enumerate(values):
                if value is None:
                    continue
                level = bisect_right(levels, value) - 1
                parts.append(
                    f'<rect class="heat h{level}" x="{96 + hour * cell:.1f}" y="{y}" width="{cell - 1:.1f}" '
                    f'height="{row_height - 1}"><title>{_text(f"{label} {hour:02d}:00: {value:,.0f}")}</title></rect>'
                )
        return self._picture(parts, height, title, words)

    def _picture(self, parts: Sequence[str], height: int, title: str, words: str) -> str:
        number = next(self._numbers)
        return (
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t{number} d{number}">'
            f'<title id="t{number}">{_text(title)}</title><desc id="d{number}">{_text(words)}</desc>'
            f"{''.join(parts)}</svg>"
        )


class _Frame:
    """Where a time and a value lie in a picture."""

    def __init__(self, span: Span, height: int, top: float, *, left: int = _LEFT) -> None:
        self.span, self.height, self.top, self.left = span, height, top, left

    def x(self, at_ms: float) -> float:
        share = (at_ms - self.span.start_ms) / self.span.length_ms
        return self.left + min(1.0, max(0.0, share)) * (WIDTH - _RIGHT - self.left)

    def y(self, value: float) -> float:
        share = min(1.0, max(0.0, value / self.top)) if self.top else 0.0
        return self.height - _BOTTOM - share * (self.height - _BOTTOM - _TOP)


def levels_of(heat: HeatMap) -> list[float]:
    """Return what each level of a heat map begins at: about as many different values are of each."""
    distinct = sorted({value for _, hours in heat.rows for value in hours if value is not None})
    number = min(LEVELS, len(distinct))
    return [distinct[index * len(distinct) // number] for index in range(number)]


def _times(frame: _Frame) -> list[str]:
    base = frame.height - _BOTTOM
    parts = []
    for at_ms, label in time_ticks(frame.span.start_ms, frame.span.end_ms, _AXIS_CELLS):
        x = frame.x(at_ms)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{base + 4}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 16}">{_text(label)}</text>')
    return parts


def _shade(mark: Mark, frame: _Frame) -> str:
    left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
    return (
        f'<rect class="shade {mark.style}" x="{left:.1f}" y="{_TOP}" width="{max(1.0, right - left):.1f}" '
        f'height="{frame.height - _BOTTOM - _TOP}"><title>{_text(mark.words)}</title></rect>'
    )


def _dots(run: Run, frame: _Frame) -> list[tuple[float, float]]:
    step = frame.span.length_ms / _COLUMNS
    reduced = reduce_run(run, frame.span, _COLUMNS)
    return [(frame.x(frame.span.start_ms + (column + 0.5) * step), frame.y(value)) for column, value in reduced]


def _path(run: Run, frame: _Frame) -> str:
    (x, y), *rest = _dots(run, frame)
    # One point alone is a dot, which a round end makes visible.
    return f"M{x:.1f} {y:.1f}" + ("".join(f"L{x:.1f} {y:.1f}" for x, y in rest) or "h0.1")


def _area(run: Run, frame: _Frame) -> str:
    dots = _dots(run, frame)
    base = frame.height - _BOTTOM
    return f"M{dots[0][0]:.1f} {base}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in dots) + f"V{base}Z"


def _text(text: str) -> str:
    return escape(text, quote=True)
