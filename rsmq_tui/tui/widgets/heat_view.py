"""A heat map: days down, hours across, a denser cell where there was more."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime

from textual.content import Content

from rsmq_tui.history.analysis.values import HeatMap
from rsmq_tui.tui.body_text import PieceLines
from rsmq_tui.tui.past_columns import METRIC_WORDS, metric_value
from rsmq_tui.tui.widgets.line_view import LineView
from rsmq_tui.tui.widgets.painted import Piece

_SHADES = "·░▒▓█"
_ASCII_SHADES = ".:+*#"
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LABEL = 10


class HeatView(LineView):
    """Shows a heat map, the newest day first; its legend tells what each shade begins at."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heat: HeatMap | None = None

    def show_heat(self, heat: HeatMap | None, of: str, empty: str) -> None:
        """Show a heat map ``of`` some queues, None while it is made; both texts are harmless already."""
        stays = self._heat is not None and heat is not None and len(heat.rows) == len(self._heat.rows)
        self._heat = heat
        title = "" if heat is None else f"{METRIC_WORDS.get(heat.metric, '')} of {of}, by hour, UTC"
        self.border_title = Content(title)
        self._draw(empty, stays)

    def on_resize(self) -> None:
        """Draw cells as wide as fits."""
        super().on_resize()
        self._draw("", True)

    def _draw(self, empty: str, stays: bool) -> None:
        heat = self._heat
        if heat is None:
            lines: list[list[Piece]] = [[("  loading …", "muted")]]
        elif heat.peak is None:
            lines = [[(f"  {empty or 'no data for this time'}", "muted")]]
        else:
            lines = self._lines_of_map(heat)
        self.show(PieceLines(lines), stay=stays)

    def _lines_of_map(self, heat: HeatMap) -> list[list[Piece]]:
        cell = max(1, min(5, (self.size.width - _LABEL) // 24))
        label_width = min(_LABEL, max(0, self.size.width - 24 * cell))
        shades = _ASCII_SHADES if self.ascii_only else _SHADES
        levels = levels_of([value for _, hours in heat.rows for value in hours if value is not None])
        step = 1 if cell >= 3 else 2 if cell == 2 else 6
        hours = "".join(f"{hour:02d}".ljust(step * cell) for hour in range(0, 24, step))
        lines: list[list[Piece]] = [[(" " * label_width, ""), (hours, "head")]]
        for day, values in heat.rows if heat.is_week else reversed(heat.rows):
            pieces: list[Piece] = [(_label(day, heat.is_week)[:label_width].ljust(label_width), "muted")]
            for value in values:
                level = -1 if value is None else bisect_right(levels, value) - 1
                shade = " " if level < 0 else shades[level]
                pieces.append((shade * cell, "strong" if level == len(shades) - 1 else "spark"))
            lines.append(pieces)
        told = [f"{shades[index] * 2} {metric_value(heat.metric, level)}+" for index, level in enumerate(levels)]
        lines += [[], [(" " + "  ".join(told) + "   blank: no data", "muted")]]
        return lines


def levels_of(values: Sequence[float]) -> list[float]:
    """Return what each shade begins at: about as many different values have each."""
    distinct = sorted(set(values))
    count = min(len(_SHADES), len(distinct))
    return [distinct[index * len(distinct) // count] for index in range(count)]


def _label(day: int, is_week: bool) -> str:
    if is_week:
        return f" {_WEEKDAYS[day]}"
    try:
        moment = datetime.fromtimestamp(day / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return " –"
    return f"{moment:%m-%d} {_WEEKDAYS[moment.weekday()]}"
