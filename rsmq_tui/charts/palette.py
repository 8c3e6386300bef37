"""The colours a chart may use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours and the character set of a chart.

    Colours are what Rich parses ("#rrggbb", "red"); "" and "default" both mean the terminal's own colour.

    Attributes:
        series: one colour per series, reused from the start when there are more series; may be empty.
        axis: axis lines and their ticks.
        muted: axis numbers, times and remarks.
        ascii: only ASCII characters in the output, for poor terminals.
    """

    series: tuple[str, ...]
    axis: str
    muted: str
    ascii: bool = False

    def series_style(self, index: int) -> str:
        """Return the style of the series at `index` (from 0), "" when it has no colour."""
        return plain_or(self.series[index % len(self.series)]) if self.series else ""


def plain_or(colour: str) -> str:
    """Return `colour`, or "" for the names of no colour.

    A span styled "default" is drawn black on black by Textual's ANSI themes; an unstyled one is not.
    """
    return "" if colour == "default" else colour
