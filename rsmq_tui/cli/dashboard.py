"""`rsmq-tui` without a command: opens the dashboard, also on servers that do not answer yet."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.options import ANALYSIS_VARIABLE, HUB_VARIABLE, zone_for
from rsmq_tui.cli.output import has_screen
from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.places import KindPlace, named_places
from rsmq_tui.cli.servers import config_of, keys_of, profiles_of
from rsmq_tui.files import AUDIT_LOG, state_folder
from rsmq_tui.monitor import Snapshot
from rsmq_tui.profiles import Profile
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer

if TYPE_CHECKING:
    from rsmq_tui.events.alerts.runner import AlertRunner
    from rsmq_tui.events.recorder import EventRecorder
    from rsmq_tui.history.recorder import Recorder
    from rsmq_tui.monitor.poller import Polling
    from rsmq_tui.triage.service import ChangeService
    from rsmq_tui.tui.dialogs.demo import Controls
    from rsmq_tui.tui.history.loading import AnalysisLocation
    from rsmq_tui.tui.watching import StartAlerts

# With the first numbers in the first frame, nothing is painted twice; this long, nobody misses the frame.
_FIRST_WAIT_S = 0.2
# Sealing takes a second or two; a disk that hangs must not keep the terminal.
_SEAL_S = 10.0


def run(options: Options) -> int:
    """Open the dashboard; raises ``UsageError`` for an invalid address, or without a terminal."""
    alerts = None if options.no_alerts else partial(_alerts, options)
    return open_dashboard(options, profiles_of(options), alerts=alerts)


def open_dashboard(
    options: Options,
    profiles: Sequence[Profile],
    folder: Path | None = None,
    *,
    alerts: "StartAlerts | None" = None,
    controls: "Controls | None" = None,
    tour: bool = False,
) -> int:
    """Open the dashboard on those servers and return the exit status; ``folder`` is for the journal of a demo.

    The data of a demo's server is useless once it is gone, so nothing is kept across restarts. ``alerts`` starts
    the alerts (see ``RsmqApp``); ``controls`` are those of a demo; ``tour`` starts its tour.
    """
    kept = None if folder is not None or options.no_memory else state_folder()
    servers = _servers(profiles, folder, kept and kept / "memory")
    if not has_screen():
        raise UsageError("the dashboard needs a terminal; --plain prints it as lines, and `rsmq-tui snapshot` as JSON")
    with _recording(options.record) as recording:
        analysis = _analysis_at(options.analysis)
        app = RsmqApp(
            servers,
            recording=recording,
            events=partial(_events, folder),
            alerts=alerts,
            analysis=analysis,
            choices=kept and kept / "dashboard.json",
            expected={profile.name: profile.expected for profile in profiles},
            change_logs=((folder or state_folder()) / AUDIT_LOG,),
            ascii_only=options.ascii,
            theme=options.theme,
            zone=zone_for(options, (profile.zone for profile in profiles)),
            controls=controls,
            link=options.link,
            tour=tour,
            keys={} if folder is not None else keys_of(options),
            first_wait_s=_FIRST_WAIT_S,
        )
        app.run()
    return app.return_code or 0


def _analysis_at(out: str | None) -> "AnalysisLocation | None":
    out = out or os.environ.get(ANALYSIS_VARIABLE)
    if not out:
        return None
    from rsmq_tui.tui.history.loading import AnalysisLocation  # noqa: PLC0415

    return AnalysisLocation(out)


@contextmanager
def _recording(out: str | None) -> Iterator["Recorder | None"]:
    """Record into that folder; at the end, all polls taken are written and sealed."""
    if out is None:
        yield None
        return
    from rsmq_tui.cli.commands.recorded import started_recorder  # noqa: PLC0415 - only who records needs its packages

    recorder = started_recorder(out)
    try:
        yield recorder
    finally:
        recorder.close()
        if not recorder.wait(_SEAL_S):
            print(
                "rsmq-tui: the end of the recording is not sealed yet; the next recording into "
                f"{recorder.label} seals it",
                file=sys.stderr,
            )


def _servers(profiles: Sequence[Profile], folder: Path | None, memory: Path | None = None) -> list[WatchedServer]:
    """Return a watched server for each place of each profile.

    ``folder`` is for the journal, ``memory`` for what is kept across restarts; None for nothing.
    """
    return [
        WatchedServer(
            _source(place, name, memory, folder),
            place=name,
            name=place.profile.name,
            address=place.server,
            ns=place.ns,
            lists=() if place.kind.has_namespaces else place.profile.lists,
            colour=place.profile.colour,
            make_triage=partial(_service, place, folder),
            read_only=place.profile.read_only,
        )
        for name, place in named_places(profiles)
    ]


def _source(place: KindPlace, name: str, memory: Path | None, folder: Path | None) -> "Polling":
    """Return the source of a place; for a page of `rsmq-tui serve`, one that gets snapshots from the server."""
    hub = os.environ.get(HUB_VARIABLE)
    if not hub:
        return place.watcher(name, memory if place.profile.memory else None, folder)
    from rsmq_tui.web.hub import HubFeed  # noqa: PLC0415 - in a browser only

    poller = place.poller(name)
    poller.feed = HubFeed(Path(hub), name)
    return poller


def _alerts(
    options: Options, write: Callable[[str], None], acknowledged: Callable[[Snapshot], set[str]]
) -> "AlertRunner | None":
    """Start the alerts of the configuration file, if it has any."""
    from rsmq_tui.events.alerts.runner import AlertRunner  # noqa: PLC0415 - after the first numbers are on the screen
    from rsmq_tui.events.alerts.store import AlertStore  # noqa: PLC0415
    from rsmq_tui.events.recorder import deletions  # noqa: PLC0415

    config = config_of(options)
    if config is None or not (config.alerts.rules or config.alerts.problems):
        return None
    folder = state_folder()
    found = partial(deletions, folder / "journal.sqlite")
    runner = AlertRunner(config.alerts, write, acknowledged=acknowledged, deletions=found, store=AlertStore(folder))
    runner.start()
    return runner


def _events(folder: Path | None) -> "EventRecorder":
    from rsmq_tui.events.recorder import EventRecorder  # noqa: PLC0415 - after the first numbers are on the screen

    recorder = EventRecorder(folder or state_folder())
    recorder.start()
    return recorder


def _service(place: KindPlace, folder: Path | None) -> "ChangeService":
    # Imported when the first numbers are on the screen.
    from rsmq_tui.cli.changes import service_of  # noqa: PLC0415

    return service_of(place, folder)
