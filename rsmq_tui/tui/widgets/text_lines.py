"""Single lines of text: plain text, key hints, and the progress of a change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual.strip import Strip

from rsmq_tui.monitor.text import count, printable
from rsmq_tui.tui.changes.controller import ChangeTold
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.keys import NO_CHANGES, Key, Where, keys_of
from rsmq_tui.tui.widgets.painted import Painted, Piece

if TYPE_CHECKING:
    pass


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


_BAR_CELLS = 20


class ChangeLine(Painted):
    """Shows ``deleting  ███████░░░░ 812 / 1,204 · 9 skipped · esc cancels``, then a sentence; else it is not there."""

    DEFAULT_CSS = """
    ChangeLine { height: 1; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: ChangeTold | None = None

    def tell(self, told: ChangeTold | None) -> None:
        """Show this; nothing takes the line away."""
        self._told = told
        self.display = told is not None
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the line."""
        told = self._told
        if told is None:
            return []
        if not told.is_running:
            return [self.clipped([(f" {printable(told.words)}", "alarm" if told.is_alarm else "strong")])]
        end = "stopping after the current batch" if told.is_stopping else "esc cancels"
        numbers = f"{count(told.handled)} / {count(told.planned)}" if told.planned is not None else count(told.handled)
        counts = [numbers if told.handled or told.planned is not None else ""]
        counts += [
            f"{count(number)} {word}" for number, word in ((told.skipped, "skipped"), (told.failed, "failed")) if number
        ]
        words = " · ".join([*filter(None, counts), end])
        room = self.size.width - cell_len(told.words) - len(words) - 5
        pieces: list[Piece] = [(f" {printable(told.words)}  ", "strong"), *self._bar(told, min(room, _BAR_CELLS))]
        return [self.clipped([*pieces, (words, "")])]

    def _bar(self, told: ChangeTold, cells: int) -> list[Piece]:
        if told.planned is None or cells < 4:
            return []
        done = round(cells * min(1.0, told.handled / max(1, told.planned)))
        full, empty = ("#", ".") if self.ascii_only else ("█", "░")
        return [(full * done, "spark"), (empty * (cells - done) + " ", "muted")]


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
        is_replay = dashboard_of(self.app).replay is not None
        where: tuple[Where, ...] = ("replay", *self._where) if is_replay else self._where
        keys = keys_of(*where, usable=getattr(self.screen, "usable", NO_CHANGES))
        leads_somewhere = getattr(self.screen, "leads_somewhere", lambda _: True)
        hints = [key for key in keys if key.hint and leads_somewhere(key.action)]
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


def _face(key: Key) -> str:
    return key.face or key.shown.split()[0]


def _width(key: Key, gap: int) -> int:
    return len(_face(key)) + 1 + len(key.hint) + gap
