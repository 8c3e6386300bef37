"""The dashboard on a server that is there, or will be."""

import argparse
import sys

from rsmq_tui.cli.target import reader_of
from rsmq_tui.monitor import LivePoller, Thresholds
from rsmq_tui.tui.app import RsmqApp


def run(options: argparse.Namespace) -> int:
    """Open the dashboard; raises ``UsageError`` for a URL that cannot be one."""
    return open_dashboard(options, options.redis_url)


def open_dashboard(options: argparse.Namespace, url: str, thresholds: Thresholds | None = None) -> int:
    """Open the dashboard on that server and return the exit status."""
    poller = LivePoller(reader_of(url, options.ns), interval_s=options.interval, thresholds=thresholds)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("rsmq-tui: the dashboard needs a terminal; `rsmq-tui snapshot` prints queues as JSON", file=sys.stderr)
        return 2
    app = RsmqApp(poller, ascii_only=options.ascii, theme=options.theme)
    app.run()
    return app.return_code or 0
