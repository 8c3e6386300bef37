"""Filters of all that goes to the terminal: the output guard, and ASCII characters for terminals that need them.

Every screen makes its data printable; the guard catches code that forgets to. Textual sends text unchanged, including
escape sequences, and sends a style with a link as an OSC 8 hyperlink.
"""

from functools import lru_cache

from rich.cells import cell_len, get_character_cell_size, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from rsmq_tui.monitor.text import ASCII_SIGNS, is_encodable


class AsciiFilter(LineFilter):
    """Draws signs, boxes and bars with ASCII characters of the same width; letters in names and bodies stay.

    ``printable`` has escaped what the terminal's ``encoding`` lacks; what was not escaped becomes dots.
    """

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with ASCII signs."""
        return [
            segment
            if segment.text.isascii()
            else Segment(in_ascii(segment.text, self._encoding), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(1024)
def in_ascii(text: str, encoding: str = "utf-8") -> str:
    """Return text of the same width with ASCII signs, in characters of that encoding."""
    return set_cell_size("".join(_in_ascii(character, encoding) for character in text), cell_len(text))


def _in_ascii(character: str, encoding: str) -> str:
    if character in ASCII_SIGNS:
        return ASCII_SIGNS[character]
    return character if is_encodable(character, encoding) else "." * cell_len(character)


class OutputGuard(LineFilter):
    """Replaces unprintable characters by blanks of the same width, and removes links from styles."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without anything that controls the terminal."""
        for segment in segments:
            if not segment.text.isprintable() or (segment.style and segment.style.link):
                break
        else:
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
