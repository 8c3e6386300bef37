"""One line of words."""

from collections.abc import Sequence

from textual.strip import Strip

from rsmq_tui.tui.widgets.painted import Painted, Piece


class TextLine(Painted):
    """Shows pieces on one line; what is too long is cut off, and says so."""

    DEFAULT_CSS = """
    TextLine { height: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces: Sequence[Piece] = ()

    def show(self, pieces: Sequence[Piece]) -> None:
        """Show these pieces."""
        self._pieces = pieces
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the line."""
        return [self.clipped(self._pieces)]
