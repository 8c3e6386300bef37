"""The last look at what is painted: nothing of it but styles may be a command to the terminal.

Every screen makes what it shows of the data printable. This is for the place that forgets to: Textual sends the
characters of a text to the terminal as they are, escape sequences too, and a style with a link as an OSC 8 hyperlink.
"""

from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter


class OutputGuard(LineFilter):
    """Replaces what is not printable by blanks of the same width, and takes links out of styles."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments, changed only where one would do something to the terminal."""
        if all(segment.text.isprintable() and not (segment.style and segment.style.link) for segment in segments):
            return segments
        return [
            Segment(
                segment.text if segment.text.isprintable() else _blanked(segment.text),
                segment.style and _without_link(segment.style),
                segment.control,
            )
            for segment in segments
        ]


@lru_cache(1024)
def _blanked(text: str) -> str:
    return "".join(
        character if character.isprintable() else " " * get_character_cell_size(character) for character in text
    )


@lru_cache(1024)
def _without_link(style: Style) -> Style:
    return style.update_link(None) if style.link else style
