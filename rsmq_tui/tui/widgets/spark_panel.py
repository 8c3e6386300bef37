"""The charts folded: one line for each series, where there is no room for more."""

from collections.abc import Sequence
from itertools import islice

from textual.strip import Strip

from rsmq_tui.charts import Series, sparklines
from rsmq_tui.tui.widgets.chart_panel import first_shown_ms
from rsmq_tui.tui.widgets.painted import Painted

_VALUE_WIDTH = 8


class SparkPanel(Painted):
    """Name, sparkline and current value of each series; those of one group are drawn to the same scale."""

    DEFAULT_CSS = """
    SparkPanel { padding: 0 1; }
    """

    def __init__(self, *groups: Sequence[str], id: str | None = None) -> None:
        super().__init__(id=id)
        self._groups = groups
        self._names = [name for group in groups for name in group]
        self._series: Sequence[Series] = [Series(name, ()) for name in self._names]
        self._values: dict[str, str] = {}
        self._end_ms = 0
        self._drawn: tuple[int, list[str]] = (0, [])
        self.styles.height = len(self._names)

    def show(self, series: Sequence[Series], end_ms: int) -> None:
        """Show the past of these series, in the order of the names, up to that moment."""
        self._series, self._end_ms = series, end_ms
        self._drawn = (0, [])
        self.repaint()

    def tell(self, values: dict[str, str]) -> None:
        """Say what each is now, by name; that changes more often than the past does."""
        self._values = values
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint one series a line."""
        names = max(map(len, self._names)) + 2
        sparks = self._sparks(self.size.width - names - 1 - _VALUE_WIDTH)
        return [
            self.line(
                [
                    (f"{name:<{names}}", "muted"),
                    (spark, "spark"),
                    (f" {self._values.get(name, ''):>{_VALUE_WIDTH}}", "strong"),
                ]
            )
            for name, spark in zip(self._names, sparks, strict=True)
        ]

    def _sparks(self, width: int) -> list[str]:
        if self._drawn[0] != width or not self._drawn[1]:
            start_ms = first_shown_ms(self._series, self._end_ms)
            series, lines = iter(self._series), list[str]()
            for group in self._groups:
                lines += sparklines(
                    list(islice(series, len(group))),
                    width=width,
                    start_ms=start_ms,
                    end_ms=self._end_ms,
                    ascii=self.ascii_only,
                )
            self._drawn = (width, lines)
        return self._drawn[1]
