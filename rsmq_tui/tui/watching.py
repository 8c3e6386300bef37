"""What follows the live servers besides the screens: the log of events, alerts, and what is usual."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.worker import Worker

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.servers import WatchedServer

if TYPE_CHECKING:
    from rsmq_tui.events.alerts.runner import AlertRunner
    from rsmq_tui.events.recorder import EventRecorder
    from rsmq_tui.tui.history.usual import UsualValues

    StartEvents = Callable[[], EventRecorder]
    StartAlerts = Callable[[Callable[[str], None], Callable[[Snapshot], set[str]]], AlertRunner | None]

# A channel that hangs must not keep the terminal.
_ALERTS_END_S = 2.0
# How often it is checked whether an hour has begun, or the analysis has a new run.
_USUAL_S = 60.0


class Watching:
    """Starts events and alerts, gives them each snapshot, and shows their problems; ``show_usual`` shows what is usual.

    ``events`` and ``alerts`` start them, in a thread. Alerts get two functions: one writes to the terminal, the other
    returns the queues of a snapshot whose trouble is acknowledged.
    """

    def __init__(
        self,
        app: App[Any],
        dashboard: Dashboard,
        events: "StartEvents | None",
        alerts: "StartAlerts | None",
        show_usual: Callable[[], None],
    ) -> None:
        self._app, self._dashboard = app, dashboard
        self._start_events, self._start_alerts = events, alerts
        self._show_usual = show_usual
        self._alerts: AlertRunner | None = None
        # The last problems of events, alerts and what is usual.
        self._problems: dict[str, Mapping[str, str]] = {}

    async def start(self) -> None:
        """Start the events and the alerts, which take the snapshots from then on, and read what is usual."""
        dashboard = self._dashboard
        if self._start_events is not None:
            dashboard.events = await asyncio.to_thread(self._start_events)
        if self._start_alerts is not None:
            loop, driver = asyncio.get_running_loop(), self._app._driver

            def write(text: str) -> None:
                # Called from the thread of a channel; a sequence must not be written into the middle of one of the
                # screen's.
                if driver is not None:
                    loop.call_soon_threadsafe(driver.write, text)

            self._alerts = await asyncio.to_thread(self._start_alerts, write, self._acknowledged)
        if dashboard.analysis is not None:
            # Its packages would delay the first numbers.
            dashboard.usual = await asyncio.to_thread(_usual_values, dashboard.analysis.analysis)
            self._app.set_interval(_USUAL_S, self._begin_usual)
            self._begin_usual()

    def observe(self, snapshot: Snapshot, server: WatchedServer) -> None:
        """Give them the snapshot of a server."""
        events, alerts = self._dashboard.events, self._alerts
        if events is not None:
            events.observe(snapshot, server.source, self._dashboard.expected(server))
            self._notify_of("events", events.problems)
        if alerts is not None:
            alerts.apply(snapshot, server.source.thresholds, server.name)
            self._notify_of("alerts", alerts.problems)

    async def aclose(self) -> None:
        """Write what is not written yet, and end the alerts."""
        if self._dashboard.events is not None:
            await self._dashboard.events.aclose()
        if self._alerts is not None:
            await asyncio.to_thread(self._alerts.close, _ALERTS_END_S)

    def _begin_usual(self) -> None:
        _: Worker[None] = self._app.run_worker(self._read_usual, group="usual")

    async def _read_usual(self) -> None:
        from rsmq_tui.monitor.filters.search import abandonable  # noqa: PLC0415 - not before the first paint

        dashboard = self._dashboard
        usual, snapshot = dashboard.usual, dashboard.snapshot
        if usual is None or snapshot is None or dashboard.replay is not None:
            return
        # A store that does not answer must neither keep threads that others need, nor the app from ending.
        if await abandonable(lambda _: usual.read(snapshot.at_ms)):
            self._show_usual()
        self._notify_of("usual", {"What is usual": usual.problem} if usual.problem else {})

    def _acknowledged(self, snapshot: Snapshot) -> set[str]:
        events = self._dashboard.events
        return set() if events is None else events.acknowledged(snapshot)

    def _notify_of(self, subject: str, problems: Mapping[str, str]) -> None:
        """Show new problems of a subject."""
        before, self._problems[subject] = self._problems.get(subject, {}), problems
        for name, problem in problems.items():
            if before.get(name) != problem:
                words, title = printable(problem), printable(name)
                self._app.notify(words, title=title, severity="warning", markup=False, timeout=10)


def _usual_values(analysis: str) -> "UsualValues":
    from rsmq_tui.tui.history.usual import UsualValues  # noqa: PLC0415 - only with an analysis

    return UsualValues(analysis)
