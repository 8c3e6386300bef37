"""`rsmq-tui undo`: take back what a change did."""

import argparse

from rsmq_tui.cli.changing import make
from rsmq_tui.cli.list_argument import list_key
from rsmq_tui.cli.target import profile_of


def run(options: argparse.Namespace) -> int:
    """Preview an undo, carry it out where --yes says so, and return the exit status; raises ``UsageError``."""
    profile = profile_of(options)
    key = list_key(options, profile)
    queue = options.queue if key is None else key
    # The last change of all lists, where only these are spoken of; one that is given by its number is found anywhere.
    is_list = key is not None or bool(queue is None and options.change is None and getattr(options, "lists", None))
    return make(
        options, lambda triage, _: triage.preview_undo(options.change, queue=queue), queue, profile, is_list=is_list
    )
