"""Panels of charts, bars and sparklines."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from textual.content import Content
from textual.strip import Strip

from rsmq_tui.charts.drawing import MARKED, bar_rows, line_chart, sparklines
from rsmq_tui.charts.series import Series
from rsmq_tui.monitor.text import compact, rate, shown_zone
from rsmq_tui.monitor.tracking.trend import QueuePoint, TotalsPoint
from rsmq_tui.tui.widgets.painted import Painted

_SPAN_MIN_MS = 60_000


class ChartPanel(Painted):
    """Shows series over a range of time; redrawn when they change.

    ``waiting`` is the text before the first data, ``nothing`` the one for fewer than ``least`` known points.
    """

    DEFAULT_CSS = """
    ChartPanel { border: round $rule; border-title-color: $quiet; padding: 0; }
    """

    def __init__(
        self,
        title: str,
        colors: Sequence[str],
        *,
        id: str | None = None,
        waiting: str = "collecting …",
        nothing: str = "collecting …",
        least: int = 2,
    ) -> None:
        super().__init__(id=id)
        self.border_title = Content(title)
        self._title = self._title_shown = title
        self._colors = colors
        self._waiting, self._nothing, self._least = waiting, nothing, least
        self._series: Sequence[Series] = ()
        self._span_ms: tuple[int, int] | None = None
        self._unit = ""
        self._marked_ms: Sequence[int] = ()

    def show(
        self,
        series: Sequence[Series],
        end_ms: int,
        *,
        start_ms: int,
        title: str = "",
        unit: str = "",
        marked_ms: Sequence[int] = (),
    ) -> None:
        """Show these series from ``start_ms`` to ``end_ms``, and marks at some times.

        A new title must already be printable.
        """
        if title and title != self._title_shown:
            self._title_shown = title
            self.border_title = Content(title)
        self._series, self._unit, self._marked_ms = series, unit, marked_ms
        self._span_ms = start_ms, end_ms
        self.repaint()

    def show_last(
        self,
        series: Sequence[Series],
        end_ms: int,
        window_ms: int,
        *,
        unit: str = "",
        changed_ms: Sequence[int] = (),
    ) -> None:
        """Show these series in a window of time before ``end_ms``, which the title names, and times of changes."""
        start_ms = first_shown_ms(series, end_ms, window_ms)
        marked_ms = [at_ms for at_ms in changed_ms if start_ms <= at_ms <= end_ms]
        title = f"{self._title}, {window_words(window_ms)}{changes_words(marked_ms)}"
        self.show(series, end_ms, start_ms=start_ms, title=title, unit=unit, marked_ms=marked_ms)

    def paint(self) -> list[Strip]:
        """Draw the chart; plotext is loaded only if there is something to draw."""
        if self._span_ms is None or len(set(_known_ms(self._series)[:3])) < self._least:
            words = self._waiting if self._span_ms is None else self._nothing
            return [Strip([]), self.line([(f"  {words}", "muted")])]
        start_ms, end_ms = self._span_ms
        return self.lines_of(
            line_chart(
                self._series,
                width=self.size.width,
                height=self.size.height,
                start_ms=start_ms,
                end_ms=end_ms,
                palette=self.palette(self._colors),
                unit=self._unit,
                zone=shown_zone(),
                marked_ms=self._marked_ms,
            )
        )


def series_of(points: Iterable[QueuePoint | TotalsPoint], **labels: str) -> tuple[Series, ...]:
    """Return a series for each attribute of the points in ``labels``, with its label."""
    known = list(points)
    return tuple(
        Series(label, [(point.at_ms, getattr(point, name)) for point in known]) for name, label in labels.items()
    )


class BarPanel(Painted):
    """Shows labelled numbers with bars."""

    DEFAULT_CSS = """
    BarPanel { border: round $rule; border-title-color: $quiet; border-subtitle-color: $quiet; padding: 0 1; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self.border_title = title
        self._rows: Sequence[tuple[str, float]] = ()

    def show(self, rows: Sequence[tuple[str, float]]) -> None:
        """Show these numbers."""
        self._rows = rows
        self.repaint()

    def paint(self) -> list[Strip]:
        """Draw one bar a line."""
        if not self._rows:
            return []
        return self.lines_of(bar_rows(self._rows, width=self.size.width, palette=self.palette(("series-first",))))


def changes_words(marked_ms: Sequence[int]) -> str:
    """Return what a title adds if changes are marked in its chart."""
    return f" · {MARKED} changes" if marked_ms else ""


def window_words(window_ms: int) -> str:
    """Format the length of a window."""
    return f"{window_ms // 60_000} min" if window_ms <= 3_600_000 else f"{window_ms // 3_600_000} h"


def first_shown_ms(series: Iterable[Series], end_ms: int, window_ms: int) -> int:
    """Return the start of the time axis: at the first point, but a minute to ``window_ms`` before ``end_ms``."""
    first_ms = min(_known_ms(series), default=end_ms)
    return max(end_ms - window_ms, min(first_ms, end_ms - _SPAN_MIN_MS))


def _known_ms(series: Iterable[Series]) -> list[int]:
    return [at_ms for each in series for at_ms, value in each.points if value is not None]


_VALUE_WIDTH = 8
_WITH_PEAKS = 60


class SparkPanel(Painted):
    """Shows name, sparkline, highest and current value of each series; series of a group share a scale.

    A narrow panel leaves out the highest value.
    """

    DEFAULT_CSS = """
    SparkPanel { padding: 0 1; }
    """

    def __init__(self, *groups: Sequence[str], id: str | None = None) -> None:
        super().__init__(id=id)
        self.name_series(*groups)
        self._values: Mapping[str, float | None] = {}
        self._start_ms = self._end_ms = 0
        self._drawn: tuple[int, list[str]] = (0, [])

    def name_series(self, *groups: Sequence[str]) -> None:
        """Show series of other names from now on."""
        self._groups = groups
        self._names = [name for group in groups for name in group]
        self._series: Sequence[Series] = [Series(name, ()) for name in self._names]
        self.styles.height = len(self._names)

    def show_last(self, series: Sequence[Series], end_ms: int, window_ms: int) -> None:
        """Show these series, in the order of the names, in a window of time before ``end_ms``."""
        self._series, self._start_ms, self._end_ms = series, first_shown_ms(series, end_ms, window_ms), end_ms
        self._drawn = (0, [])
        self.repaint()

    def show_values(self, values: Mapping[str, float | None]) -> None:
        """Show the current values, by name; they change more often than the sparklines."""
        self._values = values
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint one series a line."""
        names = max(map(len, self._names)) + 2
        peaks = self._peaks() if self.size.width >= _WITH_PEAKS else [""] * len(self._names)
        room = max(map(len, peaks), default=0)
        values = [_value_words(name, self._values[name]) if name in self._values else "" for name in self._names]
        sparks = self._sparks(self.size.width - names - 1 - _VALUE_WIDTH - room)
        return [
            self.line(
                [
                    (f"{name:<{names}}", "muted"),
                    (spark, "spark"),
                    (f"{peak:<{room}}", "muted"),
                    (f" {value:>{_VALUE_WIDTH}}", "strong"),
                ]
            )
            for name, spark, peak, value in zip(self._names, sparks, peaks, values, strict=True)
        ]

    def _peaks(self) -> list[str]:
        """Return the highest value of each series, including the current one: the scale of its bars."""
        peaks: list[str] = []
        for name, series in zip(self._names, self._series, strict=True):
            # The current value is updated more often than the series, and may be higher than all of it.
            shown = [*(value for at_ms, value in series.points if at_ms >= self._start_ms), self._values.get(name)]
            highest = max((value for value in shown if value is not None), default=None)
            peaks.append("" if highest is None else f" max {_value_words(name, highest):<6}")
        return peaks

    def _sparks(self, width: int) -> list[str]:
        if self._drawn[0] != width or not self._drawn[1]:
            series, lines = iter(self._series), list[str]()
            for group in self._groups:
                own = list(islice(series, len(group)))
                lines += sparklines(own, width=width, start_ms=self._start_ms, end_ms=self._end_ms)
            self._drawn = (width, lines)
        return self._drawn[1]


def _value_words(name: str, value: float | None) -> str:
    return rate(value) if name.endswith("/s") else compact(value)
