"""`rsmq-tui` without a command: opens the dashboard, also on servers that do not answer yet."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.cli.options import ANALYSIS_VARIABLE
from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.places import Place, places_of
from rsmq_tui.cli.servers import profiles_of
from rsmq_tui.files import state_folder
from rsmq_tui.profiles import Profile
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer

if TYPE_CHECKING:
    from rsmq_tui.history.recorder import Recorder
    from rsmq_tui.triage.service import ChangeService
    from rsmq_tui.tui.history.loading import Past

# Sealing takes a second or two; a disk that hangs must not keep the terminal.
_SEAL_S = 10.0


def run(options: Options) -> int:
    """Open the dashboard; raises ``UsageError`` for an address that cannot be one."""
    return open_dashboard(options, profiles_of(options))


def open_dashboard(options: Options, profiles: Sequence[Profile], folder: Path | None = None) -> int:
    """Open the dashboard on those servers and return the exit status; ``folder`` is for the journal of a demo.

    What a demo's server held is of no use once it is gone, so nothing of it is kept across restarts.
    """
    memory = None if folder is not None or options.no_memory else state_folder() / "memory"
    sites = _sites(profiles, folder, memory)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("rsmq-tui: the dashboard needs a terminal; `rsmq-tui snapshot` prints queues as JSON", file=sys.stderr)
        return 2
    with _recording(options.record) as recording:
        past = _past(options.analysis)
        app = RsmqApp(sites, recording=recording, past=past, ascii_only=options.ascii, theme=options.theme)
        app.run()
    return app.return_code or 0


def _past(out: str | None) -> "Past | None":
    out = out or os.environ.get(ANALYSIS_VARIABLE)
    if not out:
        return None
    from rsmq_tui.tui.history.loading import Past  # noqa: PLC0415

    return Past(out)


@contextmanager
def _recording(out: str | None) -> Iterator["Recorder | None"]:
    """Record into that folder; what was taken is written and sealed at the end."""
    if out is None:
        yield None
        return
    from rsmq_tui.cli.commands.recorded.record import started_recorder  # noqa: PLC0415 - only who records needs its packages

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


def _sites(profiles: Sequence[Profile], folder: Path | None, memory: Path | None = None) -> list[WatchedServer]:
    """Make a site of each place of each profile; what is in no namespace comes last.

    ``folder`` is for the journal, ``memory`` for what is kept across restarts, if anything is.
    """
    found = [place for profile in profiles for place in places_of(profile)]
    is_one = len(profiles) == 1 and bool(profiles[0].lists)
    sites = []
    for place in sorted(found, key=lambda place: not place.kind.has_namespaces):
        profile = place.profile
        name = "" if len(found) == 1 else _name(place, is_one=is_one)
        sites.append(
            WatchedServer(
                place.poller(name, memory if profile.memory else None),
                place=name,
                name=profile.name,
                ns=place.ns,
                colour=profile.colour,
                triage=partial(_service, place, folder),
                read_only=profile.read_only,
            )
        )
    return sites


def _name(place: Place, *, is_one: bool) -> str:
    """Name a place among others; of one server that has no name, what of it is watched says it."""
    profile, label = place.profile, place.kind.label
    part = place.ns if label in profile.namespaces else label
    if place.kind.has_namespaces:
        part = place.ns if len(profile.namespaces) > 1 else ""
    if is_one and not profile.name:
        return part or profile.ns
    name = profile.name or profile.address.label
    return f"{name} {part}" if part else name


def _service(place: Place, folder: Path | None) -> "ChangeService":
    # Loaded when the first numbers are on the screen.
    from rsmq_tui.cli.changes import service_of  # noqa: PLC0415

    return service_of(place, folder)
