"""What an app does with a replay: show it in place of the live servers, and move in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import work
from textual.reactive import var
from textual.screen import ModalScreen
from textual.widgets import Input

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.keys import is_live_only
from rsmq_tui.tui.navigation import Navigation
from rsmq_tui.tui.servers import WatchedServer

if TYPE_CHECKING:
    from rsmq_tui.tui.history.loading import Past
    from rsmq_tui.tui.replay.session import Replaying
    from rsmq_tui.tui.widgets.text_lines import ChangeTold

_JUMP_MS = 60_000


@dataclass(slots=True)
class _Behind:
    """What was shown before a replay was opened over it; its servers are polled on."""

    sites: Sequence[WatchedServer]
    by_place: Mapping[str, WatchedServer]
    snapshot: Snapshot | None
    floor: int


class ReplayHost(Navigation):
    """An app that shows what its sites say, or a replay: then its ``sites`` and its ``snapshot`` are the replay's."""

    snapshot: var[Snapshot | None] = var(None)
    clock_times: var[bool] = var(False)
    change_told: var["ChangeTold | None"] = var(None)

    def __init__(self, sites: Sequence[WatchedServer], replay: "Replaying | None", past: "Past | None" = None) -> None:
        super().__init__(past)
        self.sites = sites
        self.replay = replay
        self.sites_by_place: Mapping[str, WatchedServer] = {site.place: site for site in sites}
        self._behind: _Behind | None = None
        self._problems_told = 0

    @property
    def all_sites(self) -> Sequence[WatchedServer]:
        """All that has to be closed in the end."""
        return self.sites if self._behind is None else (*self.sites, *self._behind.sites)

    def is_of_lists(self, place: str) -> bool:
        """Tell whether the queues of a place are Redis Lists."""
        return self.sites_by_place[place].is_of_lists

    def show_live(self, snapshot: Snapshot) -> None:
        """Take the news of what is watched; while a replay is shown it waits behind it."""
        if self._behind is None:
            self.snapshot = snapshot
        else:
            self._behind.snapshot = snapshot

    def enter_replay(self, replay: "Replaying", queue: str | None = None) -> None:
        """Show a replay over what is there."""
        # Screens know the app, so it loads them when it needs them.
        from rsmq_tui.tui.overview import OverviewScreen  # noqa: PLC0415

        if self.replay is not None or self.check_action("cancel_change", ()):
            replay.close()
            words = "a change is running: open the history after it" if self.replay is None else "this is a replay"
            self.notify(words, severity="warning", markup=False)
            return
        self._behind = _Behind(self.sites, self.sites_by_place, self.snapshot, self.floor)
        self._show_sites(replay)
        self.replay = replay
        self._problems_told = 0
        self.snapshot = None
        self.push_screen(OverviewScreen(replay.sites))
        self.floor = len(self.screen_stack)
        self.follow_replay(replay, queue)

    def leave_replay(self) -> bool:
        """Show again what was there before, and tell whether there was something."""
        behind, replay = self._behind, self.replay
        if replay is None or behind is None:
            return False
        replay.close()
        floor, self._behind, self.replay = self.floor, None, None
        self.sites, self.sites_by_place, self.floor = behind.sites, behind.by_place, behind.floor
        self.snapshot = behind.snapshot
        while len(self.screen_stack) >= floor:
            self.pop_screen()
        return True

    def forget_closed(self) -> None:
        """Forget screens that are closed, and the replays that they hold.

        Textual keeps what watches an attribute until the attribute is told anew, and these may never be.
        """
        self.mutate_reactive(ReplayHost.clock_times)
        self.mutate_reactive(ReplayHost.change_told)

    @work(group="poll")
    async def follow_replay(self, replay: "Replaying", queue: str | None = None) -> None:
        """Show what the player yields, until it is closed."""
        async for snapshot in replay.player.snapshots():
            if self.replay is not replay:
                return
            if replay.follow():
                self._show_sites(replay)
            self.snapshot = snapshot
            self._tell_problems(replay)
            if queue is not None:
                self._open_first(queue, snapshot)
                queue = None

    def may_replay(self, action: str) -> bool | None:
        """Tell whether an action of the app's goes with a replay, or with none; None where it is all the same."""
        if action.startswith("replay_"):
            is_typing = isinstance(self.screen.focused, Input) or isinstance(self.screen, ModalScreen)
            return self.replay is not None and not is_typing
        if self.replay is not None and is_live_only(("app",), action):
            return False
        return None

    def action_replay_play(self) -> None:
        """Play or pause."""
        if self.replay is None:
            return
        player = self.replay.player
        if not player.is_playing and player.position_ms >= self.replay.span.to_ms:
            self.notify("this is the end of the recorded history; @ goes to another time", markup=False)
        player.set_playing(not player.is_playing)

    def action_replay_step(self, count: int) -> None:
        """Go to the next poll, or the one before."""
        if self.replay is not None:
            self.replay.player.step(count)

    def action_replay_verdict(self, direction: int) -> None:
        """Go to the next change of a verdict, or the one before; on a queue's screen, of that queue."""
        if self.replay is None:
            return
        queue, place = getattr(self.screen, "queue", None), getattr(self.screen, "place", None)
        wanted = None if queue is None or place is None else (self.replay.place(place), str(queue))
        self.replay.player.go_to_change(direction, wanted)

    def action_replay_jump(self, direction: int) -> None:
        """Go one minute forward or back."""
        if self.replay is not None:
            self.replay.player.jump(direction * _JUMP_MS)

    def action_replay_speed(self, direction: int) -> None:
        """Play faster or slower."""
        if self.replay is not None:
            self.replay.player.change_speed(direction)

    def action_replay_seek(self) -> None:
        """Ask for a moment, and go there."""
        if self.replay is not None:
            from rsmq_tui.tui.replay.screens import seek_screen  # noqa: PLC0415

            self.push_screen(seek_screen(self.replay))

    def action_replay_mark(self) -> None:
        """Mark what is shown, to compare with it."""
        if self.replay is not None and self.snapshot is not None:
            self.replay.mark(self.snapshot)

    def action_replay_diff(self) -> None:
        """Compare what is shown with what was marked."""
        if self.replay is None:
            return
        if self.replay.marked is None:
            self.notify("no time is marked: m marks one for D to compare with", severity="warning", markup=False)
            return
        from rsmq_tui.tui.replay.screens import DiffScreen  # noqa: PLC0415

        if not isinstance(self.screen, DiffScreen):
            self.push_screen(DiffScreen())

    def _show_sites(self, replay: "Replaying") -> None:
        self.sites = replay.sites
        # Screens behind may still ask for theirs.
        self.sites_by_place = {**self.sites_by_place, **replay.sites_by_label}

    def _open_first(self, name: str, snapshot: Snapshot) -> None:
        place = next((queue.place for queue in snapshot.queues if queue.name == name), None)
        if place is None:
            words = f"queue {printable(name, 60)} does not exist at this time"
            self.notify(words, severity="warning", markup=False)
        else:
            self.open_queue(name, place)

    def _tell_problems(self, replay: "Replaying") -> None:
        news = replay.problems[self._problems_told :]
        if news:
            self._problems_told += len(news)
            words = "\n".join(printable(problem, 300) for problem in news[:3])
            self.notify(words, title="Some files could not be read", severity="warning", markup=False, timeout=10)
