"""From a moment of the past into its replay."""

from textual.app import App

from rsmq_tui.monitor.wording import clock
from rsmq_tui.tui.replaying import open_replay


def jump(app: App[None], history: str, at_ms: int, queue: str | None) -> None:
    """Replay that moment of a history; where none is known, say so in one line."""
    if history:
        open_replay(app, history, at_ms, queue)
        return
    words = f"no history is known to replay {clock(at_ms, date=True)[:16]} of: give its folder with --history"
    app.notify(words, severity="warning", markup=False)
