"""`rsmq-tui undo`: undoes a change."""

import click

from rsmq_tui.cli.changes import make, open_journal, queue_of
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.options import changing, complete_queues, guarded, unsettled
from rsmq_tui.cli.parsing import Command, Options, option, positive
from rsmq_tui.cli.places import Place, place_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import KINDS, LIST
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
        queue, place = queue_of(options, profile)
    else:
        place = place_of(profile) if options.change is not None else _place_of_last(options, profile)
    return make(
        options,
        # One that is given by its number is found anywhere.
        lambda triage, _: triage.preview_undo(options.change, queue=queue, unsettled=options.unsettled),
        place,
        queue,
    )


def _place_of_last(options: Options, profile: Profile) -> Place:
    """Return where the last change on the server was made; only one of a list is meant where --lists is said."""
    if options.lists:
        return place_of(profile, LIST.ns)
    places = [kind.ns or profile.ns for kind in KINDS.values()]
    try:
        journal = open_journal()
        if journal is None:
            return place_of(profile)
        try:
            server = profile.address.label
            known = [journal.last_undoable(server, ns, None) for ns in places]
            # One that was interrupted can be undone as soon as the server was asked what it did.
            known += [change for change in journal.unfinished(server) if change.ns in places]
        finally:
            journal.close()
    except JournalError as error:
        raise UsageError(str(error)) from error
    last = max((change for change in known if change is not None), key=lambda change: change.change, default=None)
    return place_of(profile, None if last is None else last.ns)
