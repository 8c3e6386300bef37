"""The actions of the replay keys: play, and move in time."""

from textual.app import App

from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.replay.session import ReplaySession

_JUMP_MS = 60_000


def act(app: App[None], dashboard: Dashboard, name: str, direction: int = 1) -> None:
    """Run a replay action; ``direction`` is 1 forward and -1 back. Does nothing if no replay is shown."""
    replay = dashboard.replay
    if replay is None:
        return
    player = replay.player
    match name:
        case "play":
            _play(app, replay)
        case "step":
            player.step(direction)
        case "verdict":
            # On a queue's screen, search for changes of that queue.
            queue, place = getattr(app.screen, "queue", None), getattr(app.screen, "place", None)
            wanted = None if queue is None or place is None else (replay.place(place), str(queue))
            player.go_to_change(direction, wanted)
        case "jump":
            player.jump(direction * _JUMP_MS)
        case "speed":
            player.change_speed(direction)
        case "seek":
            dashboard.navigation.open("seek", replay)
        case "mark" if dashboard.snapshot is not None:
            replay.mark(dashboard.snapshot)
        case "diff" if replay.marked is None:
            words = "no time is marked: m marks one for D to compare with"
            app.notify(words, severity="warning", markup=False)
        case "diff" if "diff" not in getattr(app.screen, "WHERE", ()):
            dashboard.navigation.open("diff")


def _play(app: App[None], replay: ReplaySession) -> None:
    player = replay.player
    if not player.is_playing and player.position_ms >= replay.span.to_ms:
        app.notify("this is the end of the recorded history; @ goes to another time", markup=False)
    player.set_playing(not player.is_playing)
