"""`rsmq-tui` without a command: opens the dashboard, also on servers that do not answer yet."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.cli.options import ANALYSIS_VARIABLE
from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.servers import list_poller_of, profiles_of, reader_of
from rsmq_tui.monitor import LivePoller
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.lists.naming import LISTS_NS
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
    """Open the dashboard on those servers and return the exit status; ``folder`` is for the journal of a demo."""
    sites = _sites(profiles, folder)
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


def _sites(profiles: Sequence[Profile], folder: Path | None) -> list[WatchedServer]:
    """Make a site of each namespace of each profile, and one more of its list queues."""
    wanted = [(profile, ns) for profile in profiles for ns in profile.namespaces]
    is_alone = len(wanted) == 1 and not profiles[0].lists
    is_one = len(profiles) == 1
    sites = []
    for profile, ns in wanted:
        several_ns = len(profile.namespaces) > 1
        place = "" if is_alone else _place(profile, ns if several_ns else "", is_one=is_one and bool(profile.lists))
        poller = LivePoller(
            reader_of(profile, ns), interval_s=profile.interval_s, place=place, thresholds=profile.thresholds
        )
        triage = partial(_triage, replace(profile, namespaces=(ns,)), folder)
        sites.append(
            WatchedServer(
                poller,
                place=place,
                name=profile.name,
                ns=ns,
                colour=profile.colour,
                triage=triage,
                read_only=profile.read_only,
            )
        )
    return sites + [_list_site(profile, folder, is_one=is_one) for profile in profiles if profile.lists]


def _place(profile: Profile, part: str, *, is_one: bool) -> str:
    """Name a part of what a profile watches; of one server that has no name, the part alone says it."""
    if is_one and not profile.name:
        return part or profile.ns
    name = profile.name or profile.address.label
    return f"{name} {part}" if part else name


def _list_site(profile: Profile, folder: Path | None, *, is_one: bool) -> WatchedServer:
    place = _place(profile, LISTS_NS if "lists" in profile.namespaces else "lists", is_one=is_one)
    return WatchedServer(
        list_poller_of(profile, place),
        place=place,
        name=profile.name,
        ns=LISTS_NS,
        colour=profile.colour,
        triage=partial(_list_triage, profile, folder),
        read_only=profile.read_only,
    )


def _list_triage(profile: Profile, folder: Path | None) -> "ChangeService":
    from rsmq_tui.cli.changes import list_triage_of  # noqa: PLC0415

    return list_triage_of(profile, folder)


def _triage(profile: Profile, folder: Path | None) -> "ChangeService":
    # Loaded when the first numbers are on the screen.
    from rsmq_tui.cli.changes import triage_of  # noqa: PLC0415

    return triage_of(profile, folder)
