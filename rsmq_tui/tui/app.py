"""RsmqApp: start, polls, and exit."""

import asyncio
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from rich.text import Text
from textual import events, work
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.notifications import Notification, Notifications, SeverityLevel
from textual.screen import ModalScreen, Screen
from textual.widgets import Input
from textual.worker import Worker, active_worker

from rsmq_tui.heap import keep_little_free
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.fleet import Fleet
from rsmq_tui.monitor.text import ASCII_SIGNS, escape_beyond, printable, show_in_zone, zone_words
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.dashboard import Dashboard, make_screen
from rsmq_tui.tui.garbage import START_S, GarbageCollection
from rsmq_tui.tui.keys import Keymap, Usable, bindings_of, can_be_used
from rsmq_tui.tui.links import Link
from rsmq_tui.tui.output import AsciiFilter, OutputGuard
from rsmq_tui.tui.preferences import THEME
from rsmq_tui.tui.screen import NO_SERVER, DashboardScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.theme import VARIABLES, AppThemes
from rsmq_tui.tui.type_ahead import TypeAhead
from rsmq_tui.tui.watching import Watching
from rsmq_tui.tui.widgets.charts import window_words
from rsmq_tui.tui.widgets.painted import TOKEN_CLASSES, Painted
from rsmq_tui.tui.widgets.word_filter import FilterInput

if TYPE_CHECKING:
    from rsmq_tui.history.recorder import Recorder
    from rsmq_tui.monitor.incidents import Expected
    from rsmq_tui.tui.dialogs.demo import Controls
    from rsmq_tui.tui.history.loading import AnalysisLocation
    from rsmq_tui.tui.replay.session import ReplaySession
    from rsmq_tui.tui.watching import StartAlerts, StartEvents


def end_on_signals(end: Callable[[int], None]) -> None:
    """Call ``end`` with the exit status on SIGTERM and SIGHUP, so that the terminal is restored."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Even if nohup ignores SIGHUP: without a terminal, reading the input would fail in an endless loop.
        if number is not None:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, end, 128 + number)


# The exit status of a program whose terminal was closed, as a shell sees it.
_HUNG_UP = 129
# How often the step of a tour is checked.
_TOUR_S = 0.25
_GUARD = OutputGuard()


class RsmqApp(App[None]):
    """Shows the snapshots of one or several servers in one table, until the user quits.

    Data flows one way: source, ``dashboard``, screens, widgets.

    - ``servers``: the servers to watch. With a replay, they are not polled.
    - ``recording``: gets each snapshot.
    - ``events``, ``alerts``: start the log of events and the alerts, after the first snapshot is shown.
    - ``analysis``: an analysis to open; without a server, only the analysis is shown.
    - ``replay``: a replay to show.
    - ``choices``: the file in which the user's choices are kept.
    - ``zone``: the user's time zone; None is that of the system.
    - ``expected``: by profile, the troubles that are expected, so that they come last and are no incidents.
    - ``link``: what to show first.
    - ``clock``: the monotonic clock, in seconds, by which sources measure how old their snapshots are.
    - ``ascii_only``: draw signs and lines with ASCII characters, and names and bodies in ``encoding``, the terminal's;
      by default that of the standard output.
    - ``theme``: the theme to begin with; by default the one that was chosen last.
    - ``controls``: those of a demo; with ``tour``, its tour is shown.
    - ``keys``: the keys that the user chose, by the names of commands.
    - ``first_wait_s``: how long the first frame waits for the first snapshot.
    """

    TITLE = "rsmq-tui"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of("app"), *bindings_of("change"), *bindings_of("replay")]
    COMPONENT_CLASSES = TOKEN_CLASSES
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide"), (200, "-broad")]  # noqa: RUF012 - Textual's own way to declare them
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-short"), (20, "-tall")]  # noqa: RUF012 - Textual's own way to declare them

    def __init__(
        self,
        servers: Sequence[WatchedServer],
        *,
        recording: "Recorder | None" = None,
        events: "StartEvents | None" = None,
        alerts: "StartAlerts | None" = None,
        analysis: "AnalysisLocation | None" = None,
        replay: "ReplaySession | None" = None,
        choices: Path | None = None,
        zone: tzinfo | None = None,
        expected: "Mapping[str, Expected] | None" = None,
        change_logs: Sequence[Path] = (),
        link: Link | None = None,
        clock: Callable[[], float] = time.monotonic,
        ascii_only: bool = False,
        encoding: str | None = None,
        theme: str | None = None,
        controls: "Controls | None" = None,
        tour: bool = False,
        keys: Mapping[str, Sequence[str]] | None = None,
        first_wait_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.keymap = Keymap(keys)
        self.set_keymap(self.keymap.overrides)
        self.ascii_only = ascii_only
        encoding = encoding or sys.stdout.encoding or "ascii"
        self._ascii = AsciiFilter(encoding)
        escape_beyond(encoding if ascii_only else None, ASCII_SIGNS)
        self.dashboard = Dashboard(
            self,
            tuple(servers),
            show=self._show,
            show_change=self._show_change,
            replay=replay,
            recording=recording,
            analysis=analysis,
            expected=expected or {},
            change_logs=change_logs,
            clock=clock,
            choices=choices,
            zone=zone,
            controls=controls,
        )
        self._link = link
        self._has_tour = tour
        self._first_wait_s = first_wait_s
        self._has_first = asyncio.Event()
        self._fleet = Fleet(tuple(server.place for server in servers))
        self._watching = Watching(self, self.dashboard, events, alerts, self._refresh_words)
        self._toasts = Notifications()
        moves = (self.keymap.command(name).pressed for name in ("down", "up", "page_down", "page_up"))
        self.type_ahead = TypeAhead(self, super().on_event, held={key for pressed in moves for key in pressed})
        self._quitting: Worker[None] | None = None
        self._garbage = GarbageCollection(self, self.dashboard.count_queues)
        self.themes = AppThemes(self, theme, self.dashboard.preferences.get(THEME))

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the defaults of our own variables, for themes that do not set them."""
        return VARIABLES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Filter all output by the output guard, and draw with ASCII characters if only those are allowed."""
        filters = [_GUARD, *super().get_line_filters()]
        return [*filters, self._ascii] if self.ascii_only else filters

    def get_default_screen(self) -> Screen[None]:
        """Start on the overview, or on the history screen if no server is watched."""
        analysis = self.dashboard.analysis
        return (
            make_screen("overview") if self.dashboard.servers or analysis is None else make_screen("history", analysis)
        )

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save a screenshot in the user's download folder, or in the current folder if there is none."""
        downloads = Path.home() / "Downloads"
        folder = path or str(downloads if downloads.is_dir() else Path.cwd())
        return super().deliver_screenshot(filename, folder, time_format)

    def run(self, *arguments: Any, **options: Any) -> None:
        """Run the app, without the garbage collector until the first numbers."""
        self._garbage.disable()
        try:
            super().run(*arguments, **options)
        finally:
            self._garbage.enable()

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, or on a terminal our own."""
        found = super().get_driver_class()
        if found.__name__ != "LinuxDriver":
            return found
        from rsmq_tui.tui.drivers import TerminalDriver  # noqa: PLC0415 - it cannot be imported on Windows

        return TerminalDriver

    async def on_event(self, event: events.Event) -> None:
        """Pass events on, what is typed or pasted one after the other.

        Pasted text is made printable first, because Textual's inputs paint it unchanged.
        """
        if not isinstance(event, events.Key | events.Paste):
            await super().on_event(event)
        elif event.is_forwarded:
            # It comes back from the widget that had the focus: its command is looked for on the screen in front.
            if isinstance(event, events.Key) and not self.screen.is_mounted:
                await self.type_ahead.add_first(events.Key(event.key, event.character))
            else:
                await super().on_event(event)
        elif isinstance(event, events.Paste):
            await self.type_ahead.add(events.Paste("\n".join(map(printable, event.text.splitlines()))))
        elif event.key in self.keymap.quitting:
            # It does not wait: what was typed before may take long.
            await super().on_event(event)
        else:
            await self.type_ahead.add(event)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a toast, unless the same one is still visible: repeated key presses must not cover the screen."""
        if any(toast.message == message and toast.title == title for toast in self._toasts):
            return
        self._toasts.add(
            Notification(message, title, severity, self.NOTIFICATION_TIMEOUT if timeout is None else timeout)
        )
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)
        self.call_later(self._remove_toast_holders)

    def clear_notifications(self) -> None:
        """Remove all toasts."""
        self._toasts.clear()
        super().clear_notifications()
        self.call_later(self._remove_toast_holders)

    def _remove_toast_holders(self) -> None:
        """Remove what held toasts: if a toast goes because a new one comes, Textual leaves its holder for ever."""
        for screen in self.screen_stack:
            for holder in screen.query("ToastHolder"):
                if not holder.children:
                    holder.remove()

    async def on_load(self) -> None:
        """Start polling, and let the first frame have the first numbers if they come soon."""
        if self.dashboard.replay is not None:
            return
        servers = self.dashboard.servers
        for server in servers:
            self._poll(server, is_alone=len(servers) == 1)
        if servers and self._first_wait_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_first.wait(), self._first_wait_s)

    def on_mount(self) -> None:
        """Choose a theme, start the timers, and follow a replay or a link."""
        self.themes.choose_first()
        if self.keymap.problems:
            words = "\n".join(self.keymap.problems)
            self.notify(words, title="Some keys stay as they are", severity="warning", markup=False, timeout=10)
        self.set_timer(START_S, self._garbage.enable)
        if self.dashboard.preferences.problem is not None:
            self.notify(printable(self.dashboard.preferences.problem, 600), severity="warning", markup=False)
        if self.dashboard.replay is not None:
            self._follow_replay(self.dashboard.replay)
        self.call_after_refresh(self._go_to_link)
        if not self.is_headless:
            end_on_signals(self._quit)

    async def on_unmount(self) -> None:
        """Stop a running change and the alerts, save the choices, and close the connections to all servers."""
        escape_beyond(None)
        show_in_zone(UTC)
        await self.dashboard.changes.aclose()
        await self.dashboard.save_choices()
        await self._watching.aclose()
        # A failure to close one must not leave the others open.
        await asyncio.gather(*(server.aclose() for server in self.dashboard.all_servers), return_exceptions=True)

    def watch_theme(self, theme: str) -> None:
        """Draw everything in the new colours."""
        self.themes.forget_edits()
        # After Textual's own handler: before that, the tokens have their old colours.
        self.call_next(self._repaint)

    def _repaint(self) -> None:
        self._garbage.free_soon()
        for screen in self.screen_stack:
            for widget in screen.query(Painted):
                widget.notify_style_update()
                widget.repaint_all()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let escape stop a change only if one runs and no dialog is open; enable replay keys only in a replay."""
        dashboard, has_dialog = self.dashboard, isinstance(self.screen, ModalScreen)
        if action == "stop_change":
            return dashboard.changes.is_running and not has_dialog
        if action == "replay":
            return dashboard.replay is not None and not (has_dialog or isinstance(self.screen.focused, Input))
        usable = Usable(
            live=dashboard.replay is None,
            demo=dashboard.controls is not None,
            tour=dashboard.tour is not None,
        )
        if not can_be_used(("app",), action, parameters, usable):
            return False
        return super().check_action(action, parameters)

    def action_replay(self, name: str, direction: int = 1) -> None:
        """Run the action of a replay key."""
        from rsmq_tui.tui.replay.screens import act  # noqa: PLC0415 - live screens need none

        act(self, self.dashboard, name, direction)

    def pop_screen(self) -> AwaitComplete:
        """Close the screen in front; what it takes is freed soon after."""
        self._garbage.free_soon()
        closed = self.screen
        # Not when its widgets are gone, as by default: until then they would show, or begin, what nobody waits for.
        for worker in list(self.workers):
            if closed in worker.node.ancestors_with_self and worker is not active_worker.get(None):
                worker.cancel()
        return super().pop_screen()

    def action_leave(self) -> None:
        """Close the screen; on the first one, quit."""
        if len(self.screen_stack) > self.dashboard.navigation.floor:
            self.pop_screen()
        elif not self.dashboard.leave_replay():
            self._quit()

    async def action_quit(self) -> None:
        """Quit; a running change is first stopped after its current batch."""
        self._quit()

    def action_stop_change(self) -> None:
        """Stop the running change after its current batch."""
        self.dashboard.changes.stop()

    def action_command_palette(self) -> None:
        """Find a command or a queue by name."""
        from rsmq_tui.tui.dialogs.palette import PaletteScreen, run_command  # noqa: PLC0415 - not before the first paint

        if not isinstance(self.screen, ModalScreen):
            self.themes.read_all()
            self.push_screen(PaletteScreen(self.screen), partial(run_command, self.dashboard))

    def action_help(self) -> None:
        """Show the keys of this screen."""
        from rsmq_tui.tui.dialogs.palette import keys_on  # noqa: PLC0415 - as above

        where, usable = keys_on(self.screen)
        self.dashboard.navigation.open("help", (*where, "filter") if self.screen.query(FilterInput) else where, usable)

    def action_controls(self) -> None:
        """Open the controls of the demo, at the queue of the screen."""
        screen, controls = self.screen, self.dashboard.controls
        if isinstance(screen, DashboardScreen) and controls is not None:
            self.dashboard.navigation.open("controls", controls, screen.queue_in_sight or "")

    def action_skip_step(self) -> None:
        """Skip the step of the tour; at its end, close it."""
        if self.dashboard.tour is not None:
            self.dashboard.tour.skip()

    def action_history(self) -> None:
        """Show the history of the screen's queue, or of all queues."""
        analysis = self.dashboard.analysis
        if analysis is None:
            words = "no analysis is open: rsmq-tui --analysis OUT opens one, rsmq-tui pipeline run creates one"
            self.notify(words, severity="warning", markup=False)
        elif isinstance(self.screen, DashboardScreen) and "history" not in self.screen.WHERE:
            self.dashboard.navigation.open("history", analysis, self.screen.chosen_queue)

    def action_namespaces(self) -> None:
        """List the namespaces and switch to one."""
        place = self.screen.chosen_place if isinstance(self.screen, DashboardScreen) else None
        if place is None:
            self.notify(NO_SERVER, severity="warning", markup=False)
            return
        server = self.dashboard.server(place)
        if not server.kind.has_namespaces:
            # Use the part of the same profile that has namespaces.
            others = (other for other in self.dashboard.servers if other.name == server.name)
            beside = [other for other in others if other.kind.has_namespaces]
            if len(beside) != 1:
                words = f"{server.kind.label} are in no namespace: select an RSMQ queue first"
                self.notify(words, severity="warning", markup=False)
                return
            (server,) = beside
        # Without ``open``, because this screen returns the chosen namespace.
        self.push_screen(make_screen("namespaces", server.source), partial(self._switch, server))

    def action_server(self) -> None:
        """Show the server of the queue under the cursor, or the first one."""
        screen = self.screen
        if isinstance(screen, DashboardScreen) and "server" not in screen.WHERE and self.dashboard.servers:
            place = screen.chosen_place
            self.dashboard.navigation.open("server", self.dashboard.servers[0].place if place is None else place)

    def action_copy_link(self) -> None:
        """Copy the address of what is shown; in a terminal, copy a command that shows it."""
        from rsmq_tui.tui.widgets.controls import copy_text  # noqa: PLC0415 - not before the first paint

        if isinstance(self.screen, DashboardScreen):
            page = str(getattr(self._driver, "address", ""))
            copy_text(self, self.screen.address(page), "the address" if page else "the command", shown=True)

    def action_pause(self) -> None:
        """Pause or resume polling."""
        if self.dashboard.snapshot is not None:
            paused = not self.dashboard.snapshot.paused
            for server in self.dashboard.servers:
                server.source.set_paused(paused)

    def action_refresh_now(self) -> None:
        """Poll now, and sort or search again."""
        if isinstance(self.screen, DashboardScreen):
            self.screen.refresh_unpolled()
        for server in self.dashboard.servers:
            server.source.wake()

    def action_time(self) -> None:
        """Show times as ages, as clock times in UTC, or as clock times in the user's time zone."""
        self.dashboard.choose_next_times()
        self._refresh_words()
        for widget in self.screen.query(Painted):
            widget.repaint()
        words = "clock times" if self.dashboard.clock_times else "ages"
        self.notify(f"{words}, in {zone_words(now_ms())}", timeout=2, markup=False)

    def action_window(self, step: int) -> None:
        """Show the next window of time in the charts, or the one before."""
        self.dashboard.choose_window(step)
        self._refresh_words()
        self.notify(f"charts show the last {window_words(self.dashboard.window_ms)}", timeout=2, markup=False)

    def action_pane(self) -> None:
        """Show the pane beside the table, below it, or not at all."""
        if isinstance(self.screen, DashboardScreen):
            self.screen.turn_pane()

    def action_next_theme(self) -> None:
        """Switch to the next of our themes."""
        file = self.themes.next_file()
        if file is not None:
            self.action_choose_theme(file.theme.name)
            self.notify(file.description, title=file.theme.name, timeout=2, markup=False)

    def action_choose_theme(self, name: str) -> None:
        """Switch to that theme, also at the next start."""
        if name not in self.available_themes:
            self.themes.read_all()
        self.theme = name
        self.dashboard.preferences.set(THEME, name)

    @property
    def _screens(self) -> Iterator[DashboardScreen]:
        screens = (screen for screen in self.screen_stack if isinstance(screen, DashboardScreen))
        return (screen for screen in screens if screen.is_following)

    def _refresh_words(self) -> None:
        for screen in self._screens:
            screen.refresh_words()

    def _show(self, snapshot: Snapshot | None) -> None:
        # Before the first frame there are none: they take it when they are mounted.
        screens = list(self._screens)
        for screen in screens:
            screen.receive_snapshot(snapshot)
        if screens:
            self._go_to_link()

    def _go_to_link(self) -> None:
        if self._link is not None and self.dashboard.snapshot is not None:
            is_done, problem = self.dashboard.go_to(self._link)
            if is_done:
                self._link = None
            if problem:
                self.notify(problem, severity="warning", markup=False)

    def _show_change(self, status: ChangeStatus | None) -> None:
        for screen in self._screens:
            screen.receive_change(status)

    def _switch(self, server: WatchedServer, ns: str | None) -> None:
        if ns is not None:
            server.switch(ns)

    def _quit(self, return_code: int = 0) -> None:
        if self._quitting is not None and return_code == _HUNG_UP:
            # A closed terminal sends this signal more than once: the later ones do not mean that the user insists.
            return
        if self._quitting is not None or not self.dashboard.changes.is_running:
            self.exit(None, return_code)
            return
        self._quitting = self.run_worker(partial(self._quit_after_change, return_code), group="quit")

    async def _quit_after_change(self, return_code: int) -> None:
        words = "a change was still running: the next start finds out what was done, and `rsmq-tui journal` lists it"
        with suppress(TimeoutError):
            await self.dashboard.changes.stop_and_wait()
            status = self.dashboard.changes.status
            undo = "" if status is None or status.change is None else f": `rsmq-tui undo {status.change}` reverts it"
            words = f"the running change was stopped{'' if status is None else f', {status.words}'}{undo}"
        self.exit(None, return_code, Text(f"rsmq-tui: {words}"))

    def _fatal_error(self) -> None:
        """Show a traceback without the values of variables, as one may be a password. Textual's would have them."""
        lines = traceback.format_exc().splitlines()
        self.panic(Text("\n".join(map(printable, lines))))

    @work(group="poll")
    async def _follow_replay(self, replay: "ReplaySession") -> None:
        await self.dashboard.follow_replay(replay)

    @work(group="poll")
    async def _poll(self, server: WatchedServer, *, is_alone: bool) -> None:
        is_recovered = False
        async for snapshot in server.source.snapshots():
            if self.dashboard.recording is not None:
                self.dashboard.recording.add(snapshot, server.name, server.source.thresholds)
            self.dashboard.show_live(snapshot if is_alone else self._fleet.combine(snapshot))
            # Rich keeps the last 16,384 texts with signs like … that were cut; most are never painted again.
            Segment._split_cells.cache_clear()
            if not self._has_first.is_set():
                self._has_first.set()
                self.call_after_refresh(self._garbage.enable)
                # Not before the first paint, but before most threads begin.
                self.call_after_refresh(keep_little_free)
                # Its imports in another thread would delay the first paint.
                self.call_after_refresh(self._start_watching)
                self._start_tour()
            self._watching.observe(snapshot, server)
            if not is_recovered and snapshot.connection.failure is None:
                is_recovered = True
                self.dashboard.changes.recover(server, snapshot.server)

    def _start_tour(self) -> None:
        if not self._has_tour:
            return
        from rsmq_tui.tui.dialogs.tour import TourChecker  # noqa: PLC0415 - after the first numbers are on the screen

        checker = TourChecker(self.dashboard)
        self.dashboard.tour = checker.tour
        self.set_interval(_TOUR_S, lambda: checker.look(self.screen_stack))
        for screen in self._screens:
            screen.show_tour()

    @work(group="watching")
    async def _start_watching(self) -> None:
        await self._watching.start()
