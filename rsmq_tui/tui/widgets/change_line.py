"""The line that tells of a change: how far it is, and what it came to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.strip import Strip

from rsmq_tui.monitor.wording import count, printable
from rsmq_tui.tui.widgets.painted import Painted, Piece

if TYPE_CHECKING:
    from rsmq_tui.triage.previews import Scope

_BAR_CELLS = 20


@dataclass(frozen=True, slots=True)
class ChangeTold:
    """What there is to tell: ``words``, and while the change runs how many of the ``planned`` are behind us.

    ``planned`` is None where there is nothing to count; ``is_alarm`` is set when something failed, or was left out.
    Told at the end are ``scope``, which messages the change was asked for, ``taken``, how many left their queue,
    ``change``, its number in the journal, and ``undone``, the number of the change that it took back.
    """

    words: str
    is_running: bool = False
    handled: int = 0
    planned: int | None = None
    skipped: int = 0
    failed: int = 0
    is_stopping: bool = False
    is_alarm: bool = False
    scope: "Scope | None" = None
    taken: int = 0
    change: int | None = None
    undone: int | None = None


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
