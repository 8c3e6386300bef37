"""The line over everything that says: this is not live."""

from typing import cast

from rich.cells import cell_len
from textual.color import Color
from textual.strip import Strip

from rsmq_tui.tui.host import Dashboard
from rsmq_tui.tui.replay_words import moment_words, problem_words, span_words, speed_words, told_words
from rsmq_tui.tui.widgets.painted import Painted, Piece

_TICK_S = 0.25


class ReplayBanner(Painted):
    """Shows ``REPLAY 2031-05-17 21:50:05 UTC · x60 · playing · of …`` on a ground that nothing live has.

    What does not fit goes from the right; that it is a replay, and of when, always stays.
    """

    DEFAULT_CSS = """
    ReplayBanner { height: 1; dock: top; }
    """

    def on_mount(self) -> None:
        """Follow what is shown, and a search, which shows nothing while it looks."""
        self.watch(self.app, "snapshot", self.repaint)
        self.set_interval(_TICK_S, self.repaint)

    def paint(self) -> list[Strip]:
        """Paint the line."""
        replaying = cast("Dashboard", self.app).replay
        if replaying is None:
            return []
        player, width = replaying.player, self.size.width
        sign = ("=" if self.ascii_only else "‖") if not player.is_playing else ">" if self.ascii_only else "▶"
        state = "playing" if player.is_playing else "paused"
        parts = [f" REPLAY {moment_words(replaying.position_ms)}", speed_words(player), f"{sign} {state}"]
        told, problems = told_words(replaying), problem_words(replaying.problems)
        marked = "" if replaying.marked is None else f"marked {moment_words(replaying.marked.at_ms)[11:19]}"
        parts += [part for part in (told, marked, problems) if part]
        words = " · ".join(parts)
        while len(parts) > 1 and cell_len(words) + 1 > width:
            parts.pop()
            words = " · ".join(parts)
        right = f"{span_words(replaying)} "
        if cell_len(words) + cell_len(right) + 1 > width:
            right = ""
        gap = " " * max(0, width - cell_len(words) - cell_len(right))
        ground: Piece = (f"{words}{gap}{right}", Color.parse(self.app.theme_variables["replay"]).hex6.lower())
        return [self.line([ground])]
