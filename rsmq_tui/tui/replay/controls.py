"""What the keys of a replay do: play, and move in time."""

from textual.app import App

from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.replay.session import ReplaySession

_JUMP_MS = 60_000


class ReplayControls:
    """The actions of a replay's keys, by name, for the replay that ``dashboard`` shows."""

    def __init__(self, app: App[None], dashboard: Dashboard) -> None:
        self._app = app
        self._dashboard = dashboard

    def act(self, name: str, direction: int = 1) -> None:
        """Do what a key is for; ``direction`` is 1 forward and -1 back. Nothing where no replay is shown."""
        replay = self._dashboard.replay
        if replay is None:
            return
        player = replay.player
        match name:
            case "play":
                self._play(replay)
            case "step":
                player.step(direction)
            case "verdict":
                # On a queue's screen, of that queue.
                queue, place = getattr(self._app.screen, "queue", None), getattr(self._app.screen, "place", None)
                wanted = None if queue is None or place is None else (replay.place(place), str(queue))
                player.go_to_change(direction, wanted)
            case "jump":
                player.jump(direction * _JUMP_MS)
            case "speed":
                player.change_speed(direction)
            case "seek":
                self._dashboard.navigation.open("seek", replay)
            case "mark" if self._dashboard.snapshot is not None:
                replay.mark(self._dashboard.snapshot)
            case "diff" if replay.marked is None:
                self._app.notify(
                    "no time is marked: m marks one for D to compare with", severity="warning", markup=False
                )
            case "diff" if "diff" not in getattr(self._app.screen, "WHERE", ()):
                self._dashboard.navigation.open("diff")

    def _play(self, replay: ReplaySession) -> None:
        player = replay.player
        if not player.is_playing and player.position_ms >= replay.span.to_ms:
            self._app.notify("this is the end of the recorded history; @ goes to another time", markup=False)
        player.set_playing(not player.is_playing)
