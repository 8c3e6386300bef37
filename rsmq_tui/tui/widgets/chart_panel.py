"""Panels that draw: lines over time, and bars."""

from collections.abc import Iterable, Sequence

from textual.strip import Strip

from rsmq_tui.charts import Series, bar_rows, line_chart
from rsmq_tui.tui.widgets.painted import Painted

CHART_SPAN_MS = 600_000
_LEAST_SPAN_MS = 60_000


class ChartPanel(Painted):
    """Series of the last ten minutes, drawn anew when they change."""

    DEFAULT_CSS = """
    ChartPanel { border: round $rule; border-title-color: $quiet; padding: 0; }
    """

    def __init__(self, title: str, colors: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = title
        self._colors = colors
        self._series: Sequence[Series] = ()
        self._end_ms = 0

    def show(self, series: Sequence[Series], end_ms: int) -> None:
        """Show these series up to that moment."""
        self._series, self._end_ms = series, end_ms
        self.repaint()

    def paint(self) -> list[Strip]:
        """Draw the chart; before there are two points there is nothing to draw, and plotext need not be loaded."""
        known = _known_ms(self._series)
        if len(set(known[:3])) < 2:
            return [Strip([]), self.line([("  collecting …", "muted")])]
        return self.lines_of(
            line_chart(
                self._series,
                width=self.size.width,
                height=self.size.height,
                start_ms=first_shown_ms(self._series, self._end_ms),
                end_ms=self._end_ms,
                palette=self.palette(self._colors),
            )
        )


class BarPanel(Painted):
    """Labelled numbers with bars."""

    DEFAULT_CSS = """
    BarPanel { border: round $rule; border-title-color: $quiet; border-subtitle-color: $quiet; padding: 0 1; }
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
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


def first_shown_ms(series: Iterable[Series], end_ms: int) -> int:
    """Return where the time axis begins: with the data, at least a minute ago, until ten minutes are known."""
    first_ms = min(_known_ms(series), default=end_ms)
    return max(end_ms - CHART_SPAN_MS, min(first_ms, end_ms - _LEAST_SPAN_MS))


def _known_ms(series: Iterable[Series]) -> list[int]:
    return [at_ms for each in series for at_ms, value in each.points if value is not None]
