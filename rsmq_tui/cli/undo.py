"""`rsmq-tui undo`: take back what a change did."""

import argparse

from rsmq_tui.cli.changing import make
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.list_argument import queue_of
from rsmq_tui.cli.target import profile_of
from rsmq_tui.cli.triage_of import open_journal
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.triage.journal_file import JournalError


def run(options: argparse.Namespace) -> int:
    """Preview an undo, carry it out where --yes says so, and return the exit status; raises ``UsageError``."""
    profile, queue = profile_of(options), options.queue
    if queue is not None:
        queue, is_list, profile = queue_of(options, profile)
    else:
        # One that is given by its number is found anywhere.
        is_list = options.change is None and _is_last_of_lists(options, profile)
    return make(
        options,
        lambda triage, _: triage.preview_undo(options.change, queue=queue, unsettled=options.unsettled),
        queue,
        profile,
        is_list=is_list,
    )


def _is_last_of_lists(options: argparse.Namespace, profile: Profile) -> bool:
    """Tell whether the last change on the server was one of a list; only those are meant where --lists is said."""
    if getattr(options, "lists", None):
        return True
    try:
        journal = open_journal()
        if journal is None:
            return False
        try:
            of_lists, of_rsmq = (
                journal.last_undoable(profile.address.label, ns, None) for ns in (LISTS_NS, profile.ns)
            )
        finally:
            journal.close()
    except JournalError as error:
        raise UsageError(str(error)) from error
    return of_lists is not None and (of_rsmq is None or of_lists.change > of_rsmq.change)
