"""The line at the bottom: the keys that matter here, from the registry."""

from textual.strip import Strip

from rsmq_tui.tui.key import NO_CHANGES, Key, Where
from rsmq_tui.tui.keymap import keys_of
from rsmq_tui.tui.widgets.painted import Painted, Piece

_WIDE = 100


class KeyHints(Painted):
    """The hints of some places, as many as fit; those that are pinned come last and always."""

    DEFAULT_CSS = """
    KeyHints { height: 1; background: $panel; }
    """

    def __init__(self, *where: Where) -> None:
        super().__init__()
        self._where = where

    def paint(self) -> list[Strip]:
        """Paint key and word, one after the other."""
        is_replay = getattr(self.app, "replay", None) is not None
        where: tuple[Where, ...] = ("replay", *self._where) if is_replay else self._where
        keys = keys_of(*where, usable=getattr(self.screen, "usable", NO_CHANGES))
        hints = [key for key in keys if key.hint and self._leads_somewhere(key.action)]
        pinned = [key for key in hints if key.pinned]
        # Where it is narrow, more words are worth more than the room between them.
        gap = 2 if self.size.width < _WIDE else 3
        # Behind the last there is none.
        left = self.size.width - 1 + gap - sum(_width(key, gap) for key in pinned)
        shown = []
        for key in hints:
            if key.pinned:
                continue
            left -= _width(key, gap)
            if left < 0:
                break
            shown.append(key)
        pieces: list[Piece] = [(" ", "")]
        for key in (*shown, *pinned):
            pieces += [(f"{_face(key)} ", "head"), (f"{key.hint}{' ' * gap}", "muted")]
        return [self.line(pieces)]

    def _leads_somewhere(self, action: str) -> bool:
        """Tell whether a key's action does more here than to say why it does nothing, as app and screen know it."""
        known = (getattr(owner, "leads_somewhere", None) for owner in (self.app, self.screen))
        return all(leads is None or leads(action) for leads in known)


def _face(key: Key) -> str:
    return key.face or key.shown.split()[0]


def _width(key: Key, gap: int) -> int:
    return len(_face(key)) + 1 + len(key.hint) + gap
