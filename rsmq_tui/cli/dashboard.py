"""The dashboard on a server that is there, or will be."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.cli.target import reader_of
from rsmq_tui.monitor import LivePoller, Thresholds
from rsmq_tui.tui.app import RsmqApp

if TYPE_CHECKING:
    from rsmq_tui.triage.desk import Triage


def run(options: argparse.Namespace) -> int:
    """Open the dashboard; raises ``UsageError`` for a URL that cannot be one."""
    return open_dashboard(options, options.redis_url)


def open_dashboard(
    options: argparse.Namespace, url: str, thresholds: Thresholds | None = None, folder: Path | None = None
) -> int:
    """Open the dashboard on that server and return the exit status; ``folder`` is for the journal of changes."""
    poller = LivePoller(reader_of(url, options.ns), interval_s=options.interval, thresholds=thresholds)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("rsmq-tui: the dashboard needs a terminal; `rsmq-tui snapshot` prints queues as JSON", file=sys.stderr)
        return 2
    triage = partial(_triage, options, url, folder)
    app = RsmqApp(poller, triage=triage, read_only=options.read_only, ascii_only=options.ascii, theme=options.theme)
    app.run()
    return app.return_code or 0


def _triage(options: argparse.Namespace, url: str, folder: Path | None) -> "Triage":
    # Loaded when the first numbers are on the screen.
    from rsmq_tui.cli.triage_of import triage_of  # noqa: PLC0415

    return triage_of(options, url, folder)
