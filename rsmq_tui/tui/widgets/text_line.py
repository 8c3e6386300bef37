"""One line of words, or a few."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.text import Text
from textual.strip import Strip

from rsmq_tui.tui.widgets.painted import Painted, Piece


class TextLine(Painted):
    """Shows pieces on one line, or on as many as they need and may have; what is too long is cut off, and says so."""

    DEFAULT_CSS = """
    TextLine { height: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces: Sequence[Piece] = ()
        self._height = 1

    def show(self, pieces: Sequence[Piece], most: int = 1) -> None:
        """Show these pieces, on ``most`` lines at most."""
        self._pieces = pieces
        height = max(1, min(most, len(self._wrapped()))) if most > 1 and self.size else 1
        if height != self._height:
            self._height = height
            self.styles.height = height
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the line, or the lines."""
        height = self.size.height
        if height <= 1:
            return [self.clipped(self._pieces)]
        lines = self._wrapped()
        if len(lines) > height:
            last = lines[height - 1].crop(0, self.size.width - 1)
            lines[height - 1] = Strip([*last, Segment("~" if self.ascii_only else "…", self.token("muted"))])
        return lines[:height]

    def _wrapped(self) -> list[Strip]:
        """Set the pieces out on lines; those after the first begin where the words of the first do."""
        text = Text.assemble(*((words, self.token(tokens)) for words, tokens in self._pieces))
        first, *others = text.wrap(self.app.console, max(10, self.size.width - 1)) or [Text()]
        lines = [first, *(Text(" ", self.token("")) + line for line in others)]
        return [strip for line in lines for strip in self.lines_of(line)]
