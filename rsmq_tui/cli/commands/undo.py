"""`rsmq-tui undo`: undoes a change."""

import argparse

from rsmq_tui.cli.changes import make, open_journal, queue_of
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.triage.journal_db import JournalError


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
            server = profile.address.label
            known = [journal.last_undoable(server, ns, None) for ns in (LISTS_NS, profile.ns)]
            # One that was interrupted can be undone as soon as the server was asked what it did.
            known += [change for change in journal.unfinished(server) if change.ns in (LISTS_NS, profile.ns)]
        finally:
            journal.close()
    except JournalError as error:
        raise UsageError(str(error)) from error
    last = max((change for change in known if change is not None), key=lambda change: change.change, default=None)
    return last is not None and last.ns == LISTS_NS
