"""`rsmq-tui undo`: undoes a change."""

import click

from rsmq_tui.cli.changes import make, open_journal, queue_of
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.options import changing, complete_queues, guarded, unsettled
from rsmq_tui.cli.parsing import Command, Options, option, positive
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.triage.journal_db import JournalError


@click.command(cls=Command, examples=("", "12 --yes"))
@click.argument(
    "change", required=False, type=positive, metavar="[CHANGE]", help="its number (default: the last change)"
)
@option("--queue QUEUE", "the last change of this queue", shell_complete=complete_queues)
@unsettled
@changing
@guarded
def command(options: Options) -> int:
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


def _is_last_of_lists(options: Options, profile: Profile) -> bool:
    """Tell whether the last change on the server was one of a list; only those are meant where --lists is said."""
    if options.lists:
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
