"""`rsmq-tui journal`: the changes in the journal, and what it keeps of each; `rsmq-tui undo`."""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import Any

import click

from rsmq_tui.cli.changes import Ask, make, open_journal, report_interrupted, service_of
from rsmq_tui.cli.errors import UsageError, refusing
from rsmq_tui.cli.filters import BY_FILTER, filter_of, filter_option
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import changing, complete_queues, json_option, unsettled, wide, with_read_only
from rsmq_tui.cli.output import ProgressLine, TextColumn, TextTable, print_json, say, text_of, wants_json
from rsmq_tui.cli.parsing import Command, Group, OneOf, Options, option, positive, several
from rsmq_tui.cli.places import KindPlace, place_of, waiting
from rsmq_tui.cli.queue_names import queue_of
from rsmq_tui.cli.servers import profile_of, profiles_of
from rsmq_tui.monitor.text import count, date_clock
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import KINDS, LIST
from rsmq_tui.protocol.lists.edits import ListBatch
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import FieldBatch, LooseBatch, MessageBatch
from rsmq_tui.triage.actions import Target, reference, target_reference
from rsmq_tui.triage.change import Change, Entry, State
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.database import JournalError
from rsmq_tui.triage.journal.journal import Journal, damage_words
from rsmq_tui.triage.jsonl import to_fields
from rsmq_tui.triage.scope import Matching, Named
from rsmq_tui.triage.undo.inverse import Undos
from rsmq_tui.triage.undo.part import EntryLeft, PartScope, entry_left

_SHOWN = ("change", "at_ms", "name", "who", "host", "profile", "server", "ns", "queue", "target", "what", "planned",
          "done", "skipped", "failed", "state", "undone", "redone", "undoes", "part", "moved")  # fmt: skip


_change = click.argument("change", type=positive, metavar="CHANGE", help="its number")
_listing = several(option("--limit N", "at most N", positive, default="100"), wide, json_option, with_read_only)


_READ_STATUSES = {0: "done", 2: "a usage error, or the journal cannot be read"}


@click.command(cls=Group, invoke_without_command=True, statuses=_READ_STATUSES)
@_listing
def command(options: Options) -> int:
    """Print the changes; raises ``UsageError``."""
    return _reading(options, lambda journal: _list(journal, options))


@command.command(
    "list",
    help="print the changes, newest first (the default command)",
    examples=("", "--limit 5 --json"),
    statuses=_READ_STATUSES,
)
@_listing
def _list_command(options: Options) -> int:
    return _reading(options, lambda journal: _list(journal, options))


@command.command(
    "show",
    help="print the journal's entries of a change, as JSON lines",
    examples=("12",),
    statuses=_READ_STATUSES,
)
@_change
@option("--json", "the same: these are always JSON lines")
@with_read_only
def _show_command(options: Options) -> int:
    return _reading(options, lambda journal: _show(journal, options.change))


_WHICH = OneOf()
_part = several(
    option(
        "--id ID...",
        "only the messages with these ids, as `rsmq-tui journal show` prints them",
        name="ids",
        many=True,
        one_of=_WHICH,
    ),
    filter_option(_WHICH, "only the messages that matched this filter before the change; see below"),
)
_EXAMPLES = ("12", "12 --yes", "12 --id fo2q8ljkn4aZ3vJ8mBqRcT7LhYw1xK5e", "12 --filter json.customer.id=4711 --yes")


@command.command("restore", help="undo a change, or some of its messages", examples=_EXAMPLES, sections=BY_FILTER)
@_change
@_part
@unsettled
@changing
@with_read_only
def _restore(options: Options) -> int:
    return make(options, _previewer(options), place_of(profile_of(options)))


def _previewer(options: Options, queue: str | None = None, only_last: Sequence[str] = ()) -> Ask:
    """Return what previews the undo; raises ``UsageError`` for an invalid filter."""
    scope: PartScope | None = None
    if options.ids:
        scope = Named(tuple(options.ids))
    elif options.filter is not None:
        scope = Matching(filter_of(options))
    return lambda service, on_progress: service.preview_undo(
        options.change,
        queue=queue,
        unsettled=options.unsettled,
        only_last=only_last,
        scope=scope,
        on_progress=on_progress,
    )


def _reading(options: Options, read: Callable[[Journal | None], int]) -> int:
    """Settle interrupted changes, and open the journal for reading; None if it does not exist yet."""
    with refusing(JournalError), ExitStack() as stack:
        journal = open_journal()
        if journal is not None:
            stack.callback(journal.close)
            if journal.unfinished():
                run_interruptibly(lambda _: _settle(options, journal))
        return read(journal)


async def _settle(options: Options, journal: Journal) -> int:
    """Settle interrupted changes on the servers of the options, and print which are not settled."""
    reasons = {}
    for profile in profiles_of(options):
        label = profile.address.label
        reasons[label] = "the server is read-only here"
        if profile.read_only or not journal.unfinished(label):
            continue
        service = service_of(place_of(profile))
        try:
            async with waiting(ProgressLine(), [label]):
                await report_interrupted(service)
        except TriageError as error:
            reasons[label] = str(error)
        finally:
            await service.aclose()
    for change in journal.unfinished():
        reason = reasons.get(change.server, "the next change on that server settles it")
        say(f"change {change.change} on {change.server} was interrupted and is not settled yet: {reason}")
    return 0


def _list(journal: Journal | None, options: Options) -> int:
    changes = [] if journal is None else journal.changes(options.limit)
    for change in changes:
        if change.state is State.DAMAGED:
            say(damage_words(change.change))
    if wants_json(options):
        for change in changes:
            fields = asdict(change)
            fields["queue"] = reference(change.queue, change.ns)
            fields["target"] = target_reference(change.target, change.ns)
            print_json({"action" if name == "name" else name: fields[name] for name in _SHOWN})
        return 0
    table = TextTable(
        TextColumn("CHANGE", 6, right=True),
        TextColumn("WHEN UTC", 19),
        TextColumn("STATE", 11),
        TextColumn("DONE", 9, right=True),
        TextColumn("SKIPPED", 7, right=True, drop=1),
        TextColumn("FAILED", 6, right=True, drop=2),
        TextColumn("WHO", 12),
        TextColumn("WHAT", 0),
        wide=options.wide,
    )
    for change in changes:
        counts = count(change.done), count(change.skipped), count(change.failed)
        when = date_clock(change.at_ms)
        table.print(str(change.change), when, change.state_words, *counts, change.who, _what(change))
    if not changes:
        say("the journal is empty: no changes were made from here, or they were pruned")
    return 0


def _what(change: Change) -> str:
    undone = f" ({count(change.undone)} undone)" if change.is_part_undone else ""
    return f"{change.name} {change.queue}{change.to}{undone}: {change.what} ({change.server}, ns {change.ns})"


def _show(journal: Journal | None, number: int) -> int:
    change = None if journal is None else journal.change(number)
    if journal is None or change is None:
        raise UsageError(f"no change {number} in the journal: rsmq-tui journal lists them")
    is_known = change.state is not State.RUNNING
    undos = Undos(journal, number)
    for entry in undos.entries():
        is_known = is_known and entry.outcome is not None
        for fields in _fields(entry_left(undos, change, entry), change):
            print_json(fields)
    if is_known and not change.touched:
        sys.stdout.flush()
        say(f"change {number} has changed nothing: {count(change.skipped)} skipped, {count(change.failed)} failed")
    return 0


def _fields(found: EntryLeft, change: Change) -> Iterator[dict[str, Any]]:
    """Iterate over the entries of a batch: messages as they were (new ones as they will be), and fields."""
    entry = found.entry
    match entry.batch:
        case MessageBatch(kind=kind, queue=queue, target=target) | ListBatch(kind=kind, queue=queue, target=target):
            if isinstance(entry.batch, ListBatch):
                queue = _named(queue, entry.batch.ns, change)
                target = target and _named(target, entry.batch.target_ns, change)
            letters = letters_of(entry.outcome or "")
            edits = itertools.zip_longest(found.edits, letters, found.is_undone)
            for place, ((before, after), letter, was_undone) in enumerate(edits):
                message = before or after
                if message is None:
                    continue
                fields: dict[str, Any] = {
                    "edit": kind.value,
                    "outcome": _outcome(entry, letter),
                    "queue": queue,
                    "target": target,
                }
                fields["redone"] = place in found.made_again
                fields["undone"] = was_undone and not fields["redone"]
                if before is not None and after is not None:
                    fields["new_score"] = text_of(after.score)
                    fields["new_id"] = text_of(after.id)
                # For list items, earlier versions stored the preceding item there, not a time.
                shown = message._replace(fr=None) if isinstance(entry.batch, ListBatch) else message
                yield to_fields(shown, change.at_ms) | fields
        case LooseBatch(kind=loose, queue=queue, fields=changed):
            for (name, was, becomes), letter in itertools.zip_longest(changed, entry.outcome or ""):
                named = [_field(name, was, becomes)]
                yield _of_fields(loose.value, _outcome(entry, letter), queue, named)
        case FieldBatch(queue=queue, fields=changed):
            letter = entry.outcome or None
            named = [_field(name, before, after) for name, before, after in changed]
            yield _of_fields("fields", _outcome(entry, letter), queue, named)


def _named(queue: str, ns: str | None, change: Change) -> str:
    return queue if ns == change.ns else Target(queue, ns).text


def _of_fields(edit: str, outcome: str, queue: str, fields: list[dict[str, str | None]]) -> dict[str, Any]:
    return {"edit": edit, "outcome": outcome, "queue": queue, "target": None, "fields": fields}


def _field(name: bytes, before: bytes | None, after: bytes | None) -> dict[str, str | None]:
    return {"name": text_of(name), "before": _text(before), "after": _text(after)}


def _outcome(entry: Entry, letter: str | None) -> str:
    if letter:
        return Outcome(letter).name.lower()
    return "unknown" if entry.outcome is None else "not carried out"


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else text_of(raw)


@click.command(cls=Command, examples=("", *_EXAMPLES[1:]), sections=BY_FILTER)
@click.argument(
    "change", required=False, type=positive, metavar="[CHANGE]", help="its number (default: the last change)"
)
@option("--queue QUEUE", "the last change of this queue", shell_complete=complete_queues)
@_part
@unsettled
@changing
@with_read_only
def undo(options: Options) -> int:
    """Preview an undo, apply it with --yes, and return the exit status; raises ``UsageError``."""
    profile, queue = profile_of(options), options.queue
    if queue is not None:
        queue, place = queue_of(queue, options, profile)
        namespaces = [place.ns]
    elif options.change is None:
        # With --lists, the last change of a list.
        namespaces = [LIST.ns] if options.lists else [kind.ns or profile.ns for kind in KINDS.values()]
        place = _place_of_last(namespaces, profile)
    else:
        # A change given by its number is found in any place.
        namespaces, place = [], place_of(profile)
    return make(options, _previewer(options, queue, namespaces if options.yes else ()), place, queue)


def _number(change: Change) -> int:
    return change.change


def _place_of_last(namespaces: Sequence[str], profile: Profile) -> KindPlace:
    """Return the place of the last change in these namespaces of the server."""
    if len(namespaces) == 1:
        return place_of(profile, namespaces[0])
    with refusing(JournalError):
        journal = open_journal()
        if journal is None:
            return place_of(profile)
        with closing(journal):
            server = profile.address.label
            last = journal.last_undoable(server, namespaces)
            # An interrupted change can be undone as soon as it is settled, which the next change would do first.
            last = max(
                (each for each in journal.unfinished(server) if each.ns in namespaces), default=last, key=_number
            )
    return place_of(profile, None if last is None else last.ns)
