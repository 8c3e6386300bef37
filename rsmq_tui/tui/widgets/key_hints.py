"""The line at the bottom: the keys that matter here, from the registry."""

from textual.strip import Strip

from rsmq_tui.tui.keymap import Where, keys_of
from rsmq_tui.tui.widgets.painted import Painted, Piece, tokens


class KeyHints(Painted):
    """The hints of some places, as many as fit."""

    COMPONENT_CLASSES = tokens("head", "muted")
    DEFAULT_CSS = """
    KeyHints { height: 1; background: $panel; }
    """

    def __init__(self, *where: Where) -> None:
        super().__init__()
        self._where = where

    def paint(self) -> list[Strip]:
        """Paint key and word, one after the other."""
        pieces: list[Piece] = [(" ", "")]
        left = self.size.width - 1
        for key in keys_of(*self._where):
            if not key.hint:
                continue
            shown = key.face or key.shown.split()[0]
            left -= len(shown) + len(key.hint) + 4
            if left < 0:
                break
            pieces += [(f"{shown} ", "head"), (f"{key.hint}   ", "muted")]
        return [self.line(pieces)]
