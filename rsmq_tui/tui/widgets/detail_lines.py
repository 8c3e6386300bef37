"""Labels with words beside them, wrapped to the width there is."""

import textwrap
from collections.abc import Sequence

from textual.geometry import Size
from textual.strip import Strip

from rsmq_tui.tui.widgets.painted import Painted

_LABEL = 10
_LINES_MAX = 12


class DetailLines(Painted):
    """Shows pairs of a label and its words, as high as they need."""

    DEFAULT_CSS = """
    DetailLines { height: auto; max-height: 50%; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pairs: Sequence[tuple[str, str]] = ()

    def show(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Show these pairs; the words are harmless already."""
        if pairs != self._pairs:
            self._pairs = pairs
            self.repaint_all()
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Tell how many lines there are."""
        return len(self._lines_for(width))

    def paint(self) -> list[Strip]:
        """Paint the pairs."""
        return [
            self.line([(f" {label:<{_LABEL}}", "muted"), (words, "")])
            for label, words in self._lines_for(self.size.width)
        ]

    def _lines_for(self, width: int) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = []
        for label, words in self._pairs:
            wrapped = textwrap.wrap(words, max(10, width - _LABEL - 2), break_on_hyphens=False) or [""]
            lines += [(label if not number else "", part) for number, part in enumerate(wrapped)]
        return lines[:_LINES_MAX]
