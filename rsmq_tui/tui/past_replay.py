"""From a moment of the past into its replay."""

from textual.app import App

from rsmq_tui.monitor.wording import clock
from rsmq_tui.tui.replaying import open_replay


def jump(app: App[None], history: str, at_ms: int, queue: str | None) -> None:
    """Replay that moment of a history; where none is known, say so in one line."""
    if history:
        open_replay(app, history, at_ms, queue)
        return
    words = f"cannot replay {clock(at_ms, date=True)[:16]}: name the folder of the history with --history"
    app.notify(words, severity="warning", markup=False)
