"""Making a change, or only saying what it would be: preview, then --yes, then progress, then the report."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptibly
from rsmq_tui.cli.output import ProgressLine, as_key, fields_json, print_words, say, wants_json
from rsmq_tui.cli.target import profile_of
from rsmq_tui.cli.triage_of import list_triage_of, triage_of
from rsmq_tui.monitor.wording import clock, plural, printable
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import RsmqError
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.triage.actions import Action, MessageAction
from rsmq_tui.triage.desk import Triage
from rsmq_tui.triage.journal_file import JournalError
from rsmq_tui.triage.list_actions import reference, target_reference
from rsmq_tui.triage.previewing import Seeing, SeeingCallback
from rsmq_tui.triage.previews import Preview, Scope
from rsmq_tui.triage.reports import Report, Tally
from rsmq_tui.triage.words import TriageError

EXIT_FAILED = 1
EXIT_PREVIEW = 3
_NOT_THERE = "not in the queue"
_NOTHING = "Nothing matches; there is nothing to do."
# How many ids of skipped messages a person is told, and how many a program.
_IDS_LISTED, _IDS_PRINTED = 20, 1_000

Ask = Callable[[Triage, SeeingCallback], Awaitable[Preview]]


def make_change(
    options: argparse.Namespace,
    action: Action,
    scope: Scope | None = None,
    profile: Profile | None = None,
    *,
    is_list: bool = False,
) -> int:
    """Preview an action, carry it out where --yes says so, and return the exit status; raises ``UsageError``.

    ``profile`` is the server, where that is known already, and ``is_list`` says that the queue is a list.
    """
    return make(
        options, lambda triage, seeing: triage.preview(action, scope, seeing), action.queue, profile, is_list=is_list
    )


def make(
    options: argparse.Namespace,
    ask: Ask,
    queue: str | None = None,
    profile: Profile | None = None,
    *,
    is_list: bool = False,
) -> int:
    """Do that with whatever ``ask`` previews."""
    triage = (list_triage_of if is_list else triage_of)(profile or profile_of(options))
    return run_interruptibly(lambda interrupts: _make(options, triage, ask, queue, interrupts))


async def _make(
    options: argparse.Namespace, triage: Triage, ask: Ask, queue: str | None, interrupts: Interrupts
) -> int:
    line = ProgressLine()
    preview = None
    try:
        await tell_what_was_interrupted(triage)
        try:
            preview = await ask(triage, lambda seeing: line.show(seeing_words(seeing)))
        except asyncio.CancelledError:
            line.clear()
            say("interrupted before anything was changed")
            raise
        line.clear()
        if not options.yes:
            _show(options, preview)
            return EXIT_PREVIEW
        return await _carry_out(options, triage, preview, interrupts, line)
    except TriageError as error:
        raise UsageError(_refusal(error, triage, queue)) from error
    finally:
        line.clear()
        if preview is not None:
            preview.close()
        await triage.aclose()


async def _carry_out(
    options: argparse.Namespace, triage: Triage, preview: Preview, interrupts: Interrupts, line: ProgressLine
) -> int:
    action = preview.action
    if isinstance(action, MessageAction) and not preview.count:
        report = Report(action.name, action.past, action.queue, Tally(), None)
    else:
        run = triage.run(preview)
        interrupts.gently = run.cancel
        try:
            async for tally in run:
                line.show(f"{preview.title}: {tally.handled:,} / {tally.planned:,}; Ctrl+C cancels")
        except asyncio.CancelledError:
            line.clear()
            say("interrupted; rsmq-tui settles the unfinished batch before its next change")
            raise
        interrupts.gently = None
        line.clear()
        if run.report is None:
            raise RuntimeError("a run without an end")
        report = run.report
    _tell(options, preview, report)
    if interrupts.taken and report.stopped:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if report.stopped or report.tally.failed else 0


async def tell_what_was_interrupted(triage: Triage) -> None:
    """Settle what earlier runs left unfinished on a server, and say what became of it; raises ``TriageError``."""
    for change in await triage.recover():
        told = f"change {change.change} ({change.name} in {change.queue}, {clock(change.at_ms, date=True)})"
        undo = f"; rsmq-tui undo {change.change} reverts it" if change.can_be_undone else ""
        doubt = f" ({change.doubt})" if change.doubt else ""
        say(f"{told} was interrupted with {change.done:,} of {change.planned:,} done{doubt}{undo}")


def _refusal(error: TriageError, triage: Triage, queue: str | None) -> str:
    named = triage.server if queue is None else f"{printable(queue)} on {triage.server}"
    cause = error.__cause__
    # The journal is a file here: no server has refused anything.
    where = "" if triage.server in str(error) or isinstance(cause, JournalError) else named
    is_missing = triage.ns != LISTS_NS and isinstance(cause, RsmqError) and cause.code == "queueNotFound"
    return f"{where}: {error}".removeprefix(": ") + (
        "; rsmq-tui queues list shows the existing queues" if is_missing else ""
    )


def seeing_words(seeing: Seeing) -> str:
    """Say how far a look has come."""
    return f"{seeing.scanned:,} of about {seeing.depth:,} scanned, {seeing.matched:,} match"


def _show(options: argparse.Namespace, preview: Preview) -> None:
    if wants_json(options):
        _show_as_json(preview)
        return
    print_words(preview.title)
    for label, words in preview.rows:
        print_words(f"  {label:5} {words}")
    print()
    for note in preview.notes:
        print_words(note)
    if preview.elsewhere:
        print_words(_elsewhere_words(preview.elsewhere))
    if preview.unsearched:
        print_words(unsearched_words(preview.unsearched))
    is_nothing = isinstance(preview.action, MessageAction) and not preview.count
    print_words(_NOTHING if is_nothing else "Nothing was changed; --yes applies this change.")


def _show_as_json(preview: Preview) -> None:
    action = preview.action
    states = preview.selection.states.items() if preview.selection is not None else ()
    fields_json(
        preview=True,
        action=action.name,
        **_places(preview),
        server=preview.server,
        ns=preview.ns,
        what=preview.what,
        planned=preview.count,
        states={as_key(state): count for state, count in states},
        not_there=preview.elsewhere,
        unsearched=preview.unsearched,
        notes=preview.notes,
    )


def _places(preview: Preview) -> dict[str, str | None]:
    """Return the queue of a change and its target as commands take them."""
    action = preview.action
    target = action.to if isinstance(action, MessageAction) else None
    return {"queue": reference(action.queue, preview.ns), "target": target_reference(target, preview.ns)}


def _elsewhere_words(number: int) -> str:
    return f"{plural(number, 'id')} {'is' if number == 1 else 'are'} {_NOT_THERE}."


def unsearched_words(number: int) -> str:
    """Say how many messages a filter could not be tried on."""
    return f"{plural(number, 'message')} could not be searched: the body is too long."


def _tell(options: argparse.Namespace, preview: Preview, report: Report) -> None:
    tally = report.tally
    if wants_json(options):
        skipped, failed = dict(tally.skipped), dict(tally.failed)
        if preview.elsewhere:
            skipped[_NOT_THERE] = preview.elsewhere
        fields_json(
            action=report.name,
            **_places(preview),
            server=preview.server,
            ns=preview.ns,
            planned=preview.count + preview.elsewhere,
            done=tally.done,
            skipped=sum(skipped.values()),
            failed=sum(failed.values()),
            reasons=[
                {"outcome": outcome, "reason": reason, "count": number}
                for outcome, counts in (("skipped", skipped), ("failed", failed))
                for reason, number in counts.items()
            ],
            changed_ids=report.changed[:_IDS_PRINTED],
            changed_ids_left_out=max(0, len(report.changed) - _IDS_PRINTED),
            unknown=tally.unknown,
            unsure=tally.unsure,
            change=report.change,
            stopped=report.stopped,
            notes=tally.notes,
        )
    else:
        undo = f"; rsmq-tui undo {report.change} reverts it" if report.undoable else ""
        print_words(f"{report.queue}: {report.sentence}{undo}")
    sys.stdout.flush()
    if report.changed and not wants_json(options):
        some = " ".join(map(printable, report.changed[:_IDS_LISTED]))
        more = f" and {len(report.changed) - _IDS_LISTED:,} more" if len(report.changed) > _IDS_LISTED else ""
        say(
            f"skipped, because received or changed since the preview: {some}{more}; --even-if-received "
            "includes such messages"
        )
    if preview.elsewhere and not wants_json(options):
        say(_elsewhere_words(preview.elsewhere))
    if preview.unsearched:
        say(unsearched_words(preview.unsearched))
