"""The dashboard on a server that is there, or will be."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.cli.target import profile_of, reader_of
from rsmq_tui.monitor import LivePoller
from rsmq_tui.profiles import Profile
from rsmq_tui.tui.app import RsmqApp

if TYPE_CHECKING:
    from rsmq_tui.triage.desk import Triage


def run(options: argparse.Namespace) -> int:
    """Open the dashboard; raises ``UsageError`` for an address that cannot be one."""
    return open_dashboard(options, profile_of(options))


def open_dashboard(options: argparse.Namespace, profile: Profile, folder: Path | None = None) -> int:
    """Open the dashboard on that server and return the exit status; ``folder`` is for the journal of changes."""
    poller = LivePoller(reader_of(profile), interval_s=profile.interval_s, thresholds=profile.thresholds)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("rsmq-tui: the dashboard needs a terminal; `rsmq-tui snapshot` prints queues as JSON", file=sys.stderr)
        return 2
    triage = partial(_triage, profile, folder)
    app = RsmqApp(poller, triage=triage, read_only=profile.read_only, ascii_only=options.ascii, theme=options.theme)
    app.run()
    return app.return_code or 0


def _triage(profile: Profile, folder: Path | None) -> "Triage":
    # Loaded when the first numbers are on the screen.
    from rsmq_tui.cli.triage_of import triage_of  # noqa: PLC0415

    return triage_of(profile, folder)
