"""`rsmq-tui undo`: take back what a change did."""

import argparse

from rsmq_tui.cli.changing import make


def run(options: argparse.Namespace) -> int:
    """Preview an undo, carry it out where --yes says so, and return the exit status; raises ``UsageError``."""
    return make(options, lambda triage, _: triage.preview_undo(options.change, queue=options.queue), options.queue)
