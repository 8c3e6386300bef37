"""Drawing with ASCII characters alone, on terminals that have no others: whatever is painted is put into them."""

from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_SIGNS = {
    "·": ".",
    "…": "~",
    "–": "-",
    "—": "-",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "←": "<",
    "→": ">",
    "↑": "^",
    "↓": "v",
    "❯": ">",
    "✔": "v",
    "🔎": "/",
}
_BOX = {"─": "-", "━": "-", "═": "-", "│": "|", "┃": "|", "║": "|"}


class AsciiFilter(LineFilter):
    """Replaces each character by an ASCII one, or by ? where there is none, without moving anything."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace what is not ASCII."""
        return [
            segment if segment.text.isascii() else Segment(in_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(1024)
def in_ascii(text: str) -> str:
    """Return ASCII text of the same width."""
    return set_cell_size("".join(map(_in_ascii, text)), cell_len(text))


def _in_ascii(character: str) -> str:
    code = ord(character)
    if code < 0x80:
        return character
    if character in _SIGNS:
        return _SIGNS[character]
    if 0x2500 <= code < 0x2580:
        return _BOX.get(character, "+")
    if 0x2580 <= code < 0x25A0:
        # Scrollbars and the edges of panels.
        return "#" if character == "█" else "=" if "▁" <= character < "█" or character == "▔" else "|"
    return "?" * cell_len(character)
