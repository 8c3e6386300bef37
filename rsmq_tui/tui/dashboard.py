"""What all screens share: the servers or the replay, the last snapshot, navigation and changes."""

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.app import App
from textual.screen import Screen
from textual.worker import Worker

from rsmq_tui.files import reason_of
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import printable, short_clock, show_in_zone, zone_words
from rsmq_tui.tui.changes.controller import ChangeController, ChangeStatus
from rsmq_tui.tui.keys import Keymap, keymap_of
from rsmq_tui.tui.links import Link
from rsmq_tui.tui.preferences import TIMES, TIMES_SHOWN, WINDOW_MS, WINDOWS_MS, Preferences
from rsmq_tui.tui.servers import WatchedServer

if TYPE_CHECKING:
    from rsmq_tui.events.known import Known
    from rsmq_tui.events.recorder import EventRecorder
    from rsmq_tui.history.recorder import Recorder
    from rsmq_tui.monitor.incidents import Expected
    from rsmq_tui.tui.dialogs.demo import Controls
    from rsmq_tui.tui.history.loading import AnalysisLocation
    from rsmq_tui.tui.history.usual import UsualValues
    from rsmq_tui.tui.replay.session import ReplaySession
    from rsmq_tui.tui.widgets.tour import Tour

# The longest window of the charts in a replay.
_REPLAY_WINDOW_MS = 600_000


_SCREENS = {
    "overview": "overview.screen:OverviewScreen",
    "queue": "queue.screen:QueueScreen",
    "message": "queue.message:MessageScreen",
    "life": "queue.life:LifeScreen",
    "audit": "overview.audit:AuditScreen",
    "events": "overview.events:EventsScreen",
    "journal": "changes.journal:JournalScreen",
    "change": "changes.messages:ChangeMessagesScreen",
    "search": "overview.search:SearchScreen",
    "server": "overview.server:ServerScreen",
    "history": "history.screen:HistoryScreen",
    "diff": "replay.screens:DiffScreen",
    "seek": "replay.screens:seek_screen",
    "help": "dialogs.screens:HelpScreen",
    "namespaces": "dialogs.screens:NamespaceScreen",
    "columns": "dialogs.screens:ColumnsScreen",
    "filters": "dialogs.screens:SavedFiltersScreen",
    "filter name": "dialogs.screens:filter_name_screen",
    "page": "dialogs.screens:PageScreen",
    "controls": "dialogs.demo:ControlsScreen",
}


def make_screen(name: str, *arguments: Any) -> Screen[Any]:
    """Return a new screen; its module is imported when it is first needed, after the overview has its first numbers."""
    module, _, made = _SCREENS[name].partition(":")
    screen: Screen[Any] = getattr(import_module(f"rsmq_tui.tui.{module}"), made)(*arguments)
    return screen


class Navigation:
    """Opens screens.

    ``floor`` is the number of screens on the stack up to the first screen of what is shown (the live servers or a
    replay).
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self.floor = 1

    def open(self, name: str, *arguments: Any) -> None:
        """Open the screen of that name."""
        self._app.push_screen(make_screen(name, *arguments))

    def open_queue(self, queue: str, place: str = "") -> None:
        """Open the screen of a queue above the first screen."""
        self.close_above(self.floor)
        self.open("queue", queue, place)

    def filter_by(self, text: str) -> None:
        """Filter what the screen in front shows, when it is there."""
        screen: Any = self._app.screen
        screen.call_after_refresh(screen.apply_filter, text)

    def close_above(self, floor: int) -> None:
        """Close all screens above the lowest ``floor`` ones."""
        while len(self._app.screen_stack) > floor:
            self._app.pop_screen()


class _Behind(NamedTuple):
    """The state from before a replay was opened; its servers are still polled."""

    servers: Sequence[WatchedServer]
    by_place: Mapping[str, WatchedServer]
    floor: int


class Dashboard:
    """What screens know of their app: live servers and their snapshots, or those of a replay.

    ``show`` gets each snapshot to be shown, and ``show_change`` the progress and outcome of a change. A
    ``place`` identifies one of several servers, and is empty if there is only one. ``clock`` is the monotonic clock, in
    seconds, by which sources measure their freshness. ``choices`` is the file of the ``preferences``, if they are kept.
    ``zone`` is the user's time zone, None for that of the system. Troubles that are ``expected``, by profile, are no
    incidents of a replay. ``controls`` are those of a demo.
    """

    def __init__(
        self,
        app: App[Any],
        servers: Sequence[WatchedServer],
        *,
        show: Callable[[Snapshot | None], None],
        show_change: Callable[[ChangeStatus | None], None],
        replay: "ReplaySession | None",
        recording: "Recorder | None",
        analysis: "AnalysisLocation | None",
        expected: "Mapping[str, Expected]",
        change_logs: Sequence[Path],
        clock: Callable[[], float],
        choices: Path | None,
        zone: tzinfo | None,
        controls: "Controls | None",
    ) -> None:
        self._app = app
        self.controls = controls
        # None until the first numbers are shown, and if there is no tour.
        self.tour: Tour | None = None
        self._expected = expected
        # The audit logs whose changes the history screen and replays show.
        self.change_logs = change_logs
        self.servers = servers
        self.navigation = Navigation(app)
        self.changes = ChangeController(app, self.part, show_change)
        self.replay = replay
        self.recording = recording
        # None until its packages are imported, after the first numbers are shown, and if no events are recorded.
        self.events: EventRecorder | None = None
        self.analysis = analysis
        # None until its packages are imported, and without an analysis.
        self.usual: UsualValues | None = None
        self.clock = clock
        self._zone = zone
        self.preferences = Preferences(choices, self._keep_choices)
        self._show_zone()
        self.snapshot: Snapshot | None = None
        # The last one of the live servers that has queues.
        self.last_with_queues: Snapshot | None = None
        self._show = show
        self._by_place: Mapping[str, WatchedServer] = {server.place: server for server in servers}
        self._behind: _Behind | None = None
        self._live: Snapshot | None = None

    @property
    def keymap(self) -> Keymap:
        """The user's keys."""
        return keymap_of(self._app)

    def usual_words(self, part: Snapshot, queue: str) -> str:
        """Return what is usual for a live queue at this hour of the week; empty if no analysis knows it."""
        if self.usual is None or self.replay is not None:
            return ""
        return self.usual.words(part.server, part.ns, queue)

    @property
    def window_ms(self) -> int:
        """The window of time of the charts; in a replay, at most the time for which it reads polls."""
        window_ms = self.preferences.get(WINDOW_MS)
        return window_ms if self.replay is None else min(window_ms, _REPLAY_WINDOW_MS)

    def choose_window(self, step: int) -> None:
        """Choose the next window of time of the charts, or the one before, and keep the choice."""
        windows = [each for each in WINDOWS_MS if self.replay is None or each <= _REPLAY_WINDOW_MS]
        self.preferences.set(WINDOW_MS, windows[(windows.index(self.window_ms) + step) % len(windows)])

    @property
    def clock_times(self) -> bool:
        """Whether times are shown as clock times rather than as ages."""
        return self.preferences.get(TIMES) != "ages"

    def choose_next_times(self) -> None:
        """Show times as ages, as clock times in UTC, or as clock times in the user's time zone: the next of these."""
        self.preferences.set(
            TIMES, TIMES_SHOWN[(TIMES_SHOWN.index(self.preferences.get(TIMES)) + 1) % len(TIMES_SHOWN)]
        )
        self._show_zone()

    def _show_zone(self) -> None:
        times = self.preferences.get(TIMES)
        # While ages are shown, other times are in the zone that the user has given.
        is_utc = times == "utc" or (times == "ages" and self._zone is None)
        show_in_zone(UTC if is_utc else self._zone)

    def _keep_choices(self) -> None:
        self._app.run_worker(self.save_choices(), group="choices")

    async def save_choices(self) -> None:
        """Write the choices since the last call to the file."""
        try:
            await asyncio.to_thread(self.preferences.save)
        except OSError as error:
            path = self.preferences.path
            why = printable(reason_of(error), 200)
            self._warn(f"your choices cannot be kept in {path}: {why}; they last until you quit")

    @property
    def all_servers(self) -> Sequence[WatchedServer]:
        """All servers that must be closed on exit, also those behind a replay."""
        return self.servers if self._behind is None else (*self.servers, *self._behind.servers)

    @property
    def can_change(self) -> bool:
        """Whether queues of any server may be changed."""
        return any(server.can_change for server in self.servers)

    def count_queues(self) -> int:
        """Return how many queues are shown."""
        return 0 if self.snapshot is None else len(self.snapshot.queues)

    def server(self, place: str) -> WatchedServer:
        """Return the server of that place; raises ``LookupError``."""
        return self._by_place[place]

    def part(self, place: str) -> Snapshot | None:
        """Return the part of the snapshot for that place; None before its first poll."""
        return self.snapshot and self.snapshot.part(place)

    def known(self, place: str) -> "Mapping[str, Known]":
        """Return the current and past acknowledgements of a server's queues, by name; a replay has none."""
        part = self.part(place)
        return {} if part is None or self.events is None or self.replay is not None else self.events.known(part)

    def expected(self, server: WatchedServer) -> "Expected | None":
        """Return the troubles of a server that are expected, None if there are none."""
        return self._expected.get(server.name)

    @property
    def ignored(self) -> "dict[str, Expected]":
        """The queues whose trouble is expected, by the places of the servers that have such."""
        found = {server.place: self.expected(server) for server in self.servers}
        return {place: expected for place, expected in found.items() if expected is not None and expected.queues}

    def maintenance(self, at_ms: float) -> str:
        """Return until when there is maintenance, and of which servers if not of all; empty if there is none.

        ``at_ms`` is the time by this machine's clock.
        """
        ends = {server.name: found.end_ms(at_ms) for server in self.servers if (found := self.expected(server))}
        ends_ms = {name: end_ms for name, end_ms in ends.items() if end_ms is not None}
        if not ends_ms or self.replay is not None:
            return ""
        is_of_all = len(ends_ms) == len({server.name for server in self.servers})
        of_some = "" if is_of_all else f" of {printable(', '.join(ends_ms), 60)}"
        until_ms = max(ends_ms.values())
        return f"maintenance{of_some} until {short_clock(until_ms, at_ms)} {zone_words(until_ms)}"

    def show_live(self, snapshot: Snapshot) -> None:
        """Take a snapshot of the live servers; while a replay is shown, it is kept but not shown."""
        self._live = snapshot
        if snapshot.queues:
            self.last_with_queues = snapshot
        if self._behind is None:
            self._take(snapshot)

    def open_replay(
        self, history: str, at_ms: int, queue: str | None = None, otherwise: Callable[[], None] | None = None
    ) -> Worker[None]:
        """Open a paused replay of a history at a moment, on the screen of ``queue`` if given.

        It returns at once. If the history cannot be read, a toast says why. ``otherwise``, if given, is called if
        nothing was recorded at that moment, or if it cannot be read.
        """
        opening = partial(self._open_replay, history, at_ms, queue, otherwise)
        return self._app.run_worker(opening, group="replay", exclusive=True)

    def changed_ms(self, snapshot: Snapshot, queue: str | None = None) -> list[int]:
        """Return when a queue, or any of a snapshot, was changed in a replay: live rates do not include that."""
        return [] if self.replay is None else self.replay.changed_ms(snapshot, queue)

    def leave_replay(self) -> bool:
        """Return to the state from before a replay was opened; return False if there was none."""
        behind, replay, navigation = self._behind, self.replay, self.navigation
        if replay is None or behind is None:
            return False
        replay.player.close()
        floor, self._behind, self.replay = navigation.floor, None, None
        self.servers, self._by_place, navigation.floor = behind.servers, behind.by_place, behind.floor
        self._take(self._live)
        navigation.close_above(floor - 1)
        return True

    async def follow_replay(self, replay: "ReplaySession", queue: str | None = None) -> None:
        """Show the snapshots of the player until it is closed, first on the screen of ``queue`` if given."""
        _: Worker[None] = self._app.run_worker(self._mark_changes(replay), group="changes of a replay")
        async for snapshot in replay.player.snapshots():
            if self.replay is not replay:
                return
            if replay.follow():
                self._show_servers(replay)
            self._take(snapshot)
            self._notify_problems(replay)
            if queue is not None:
                self._open_first(queue, snapshot)
                queue = None

    async def _mark_changes(self, replay: "ReplaySession") -> None:
        await replay.changes()
        replay.player.wake()

    def _take(self, snapshot: Snapshot | None) -> None:
        self.snapshot = snapshot
        self._show(snapshot)

    async def _open_replay(
        self, history: str, at_ms: int, queue: str | None, otherwise: Callable[[], None] | None
    ) -> None:
        from rsmq_tui.history.names import HistoryError  # noqa: PLC0415 - live screens need none of it
        from rsmq_tui.tui.replay.session import replay_session  # noqa: PLC0415

        def opened() -> "ReplaySession":
            from rsmq_tui.history.reading import History  # noqa: PLC0415 - Arrow is loaded where something is replayed

            return replay_session(
                History(history),
                from_ms=at_ms,
                playing=False,
                expected=self._expected,
                change_logs=self.change_logs,
            )

        try:
            replay = await asyncio.to_thread(opened)
            if otherwise is None or replay.shows(at_ms):
                self._enter_replay(replay, queue)
                return
            replay.player.close()
        except ImportError:
            self._warn("to replay a history, install the extra `history`: pip install 'rsmq-tui[history]'")
        except HistoryError as error:
            if otherwise is None:
                self._warn(str(error))
        except Exception as error:
            # A damaged file or a filesystem may raise any exception.
            self._warn(f"this history cannot be replayed: {str(error) or type(error).__name__}")
        if otherwise is not None:
            otherwise()

    def _enter_replay(self, replay: "ReplaySession", queue: str | None) -> None:
        """Show a replay above the current screens."""
        if self.replay is not None or self.changes.is_running:
            replay.player.close()
            self._warn("this is a replay" if self.replay else "a change is running: open the history after it")
            return
        self._behind = _Behind(self.servers, self._by_place, self.navigation.floor)
        self._show_servers(replay)
        self.replay = replay
        self._take(None)
        self.navigation.open("overview")
        self.navigation.floor = len(self._app.screen_stack)
        _: Worker[None] = self._app.run_worker(partial(self.follow_replay, replay, queue), group="poll")

    def _show_servers(self, replay: "ReplaySession") -> None:
        self.servers = replay.servers
        # Screens behind the replay may still ask for their own server.
        self._by_place = {**self._by_place, **replay.servers_by_label}

    def open_shown(self, server: str, names: Callable[[str], Container[str | None]]) -> bool:
        """Open a queue of one of the given servers and namespaces, above the current screen.

        Return False if none is shown.
        """
        if (snapshot := self.snapshot) is None:
            return False
        for queue in snapshot.queues:
            part = snapshot.part(queue.place)
            if part.server == server and queue.name in names(part.ns):
                self.navigation.open("queue", queue.name, queue.place)
                return True
        return False

    def go_to(self, link: Link) -> tuple[bool, str]:
        """Show what a link names; return whether that is done, and a message if it cannot be.

        It is not done before its server has been polled.
        """
        places = [server.place for server in self.servers]
        if link.server and link.server not in places:
            return True, f"the link is for {printable(link.server, 60)}, which is not among the servers here"
        if link.at_ms is not None and self.replay is None:
            return True, "the link is for a moment of a replay, but this dashboard is live"
        if self.snapshot is None:
            return False, ""
        wanted = [link.server] if link.server else places
        if link.queue:
            queues = (queue for queue in self.snapshot.queues if queue.name == link.queue)
            place = next((queue.place for queue in queues if queue.place in wanted), None)
            if place is None:
                is_known = all(self.snapshot.part(each).connection.fresh_at_s is not None for each in wanted)
                return is_known, f"there is no queue {printable(link.queue, 60)} here" if is_known else ""
            self.navigation.open_queue(link.queue, place)
        if link.filter:
            self.navigation.filter_by(link.filter)
        return True, ""

    def _open_first(self, name: str, snapshot: Snapshot) -> None:
        place = next((queue.place for queue in snapshot.queues if queue.name == name), None)
        if place is None:
            self._warn(f"queue {printable(name, 60)} does not exist at this time")
        else:
            self.navigation.open_queue(name, place)

    def _notify_problems(self, replay: "ReplaySession") -> None:
        if news := replay.new_problems():
            words = "\n".join(printable(problem, 300) for problem in news[:3])
            self._app.notify(words, title="Some files could not be read", severity="warning", markup=False, timeout=10)

    def warn_of(self, words: str, *, title: str) -> None:
        """Show a warning that the user should act on."""
        self._app.notify(printable(words, 500), title=title, severity="warning", markup=False, timeout=20)

    def _warn(self, words: str) -> None:
        self._app.notify(printable(words, 300), severity="warning", markup=False)


def dashboard_of(app: App[Any]) -> Dashboard:
    """Return the dashboard of the app that a screen or a widget lives in."""
    return cast("Dashboard", vars(app)["dashboard"])
