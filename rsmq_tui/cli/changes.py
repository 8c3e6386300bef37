"""One change on the command line: its target, preview, --yes, progress, report and journal."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rsmq_tui.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PREVIEW, UsageError
from rsmq_tui.cli.interrupts import Interrupts, run_interruptibly
from rsmq_tui.cli.options import changing, queue_argument, with_read_only
from rsmq_tui.cli.output import ProgressLine, as_key, fields_json, print_words, say, wants_json
from rsmq_tui.cli.parsing import Decorator, Group, Options, Section, several
from rsmq_tui.cli.places import LISTS_HINT, KindPlace, name_hint, no_queue_words, waiting
from rsmq_tui.cli.queue_names import QueueArgument, queue_of, queues_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.files import reason_of, state_folder
from rsmq_tui.monitor.filters.language import is_pattern
from rsmq_tui.monitor.text import and_more, clock, plural, printable, printable_name, printable_ns
from rsmq_tui.protocol import RsmqError
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.triage.actions import Action, Hide, MessageAction, Send, Undo, reference, target_reference
from rsmq_tui.triage.change import ChangeReport, Tally
from rsmq_tui.triage.errors import NoListError, TriageError
from rsmq_tui.triage.journal.database import JournalError
from rsmq_tui.triage.journal.journal import KEEP_DAYS, LIMIT_BYTES, Journal
from rsmq_tui.triage.scope import Preview, ScanCallback, ScanProgress, Scope, if_unchanged
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.triage.several import PreviewRequest, SeveralPreview, SeveralReport, preview_several, previews_in, run_of
from rsmq_tui.triage.undo.preview import ANOTHER_SERVER

_MB = 1_000_000


def service_of(place: KindPlace, folder: Path | None = None) -> ChangeService:
    """Return the change service of a place; ``folder`` is that of a demo, which removes it at its end.

    Raises ``UsageError`` for an invalid address or limit.
    """
    keep_days, limit_bytes = _limits()
    profile = place.profile
    return ChangeService(
        place.backend(),
        folder or state_folder(),
        read_only=profile.read_only,
        profile=profile.name,
        keep_days=None if folder else keep_days,
        limit_bytes=limit_bytes,
    )


def open_journal() -> Journal | None:
    """Open the journal for reading; None if nothing was ever changed. Raises ``JournalError``."""
    path = state_folder() / "journal.sqlite"
    keep_days, limit_bytes = _limits()
    try:
        is_there = path.exists()
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be used: {reason_of(error)}") from error
    return Journal(path, keep_days=keep_days, limit_bytes=limit_bytes) if is_there else None


def _limits() -> tuple[int, int]:
    days = _number("RSMQ_TUI_JOURNAL_DAYS", "days", KEEP_DAYS)
    megabytes = _number("RSMQ_TUI_JOURNAL_MB", "megabytes", LIMIT_BYTES // _MB)
    return days, megabytes * _MB


def _number(name: str, unit: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0):
        raise UsageError(f"{name} is a whole number of {unit}, 1 or more, not {printable(text, 40)!r}")
    return int(text)


_NOTHING = "Nothing matches; there is nothing to do."
# How many ids of skipped messages are printed for people, and how many in JSON.
_IDS_LISTED, _IDS_PRINTED = 20, 1_000

Ask = Callable[[ChangeService, ScanCallback], Awaitable[Preview]]


def make_change(options: Options, action: Action, place: KindPlace, scope: Scope | None = None) -> int:
    """Preview an action, apply it with --yes, and return the exit status; raises ``UsageError``."""
    return make(options, lambda service, on_progress: service.preview(action, scope, on_progress), place, action.queue)


def make(options: Options, ask: Ask, place: KindPlace, queue: str | None = None) -> int:
    """Do the same with the preview that ``ask`` makes."""
    service = service_of(place)
    return run_interruptibly(lambda interrupts: _make(options, [service], partial(ask, service), queue, interrupts))


def make_several(options: Options, build: "Build", scope_of: "ScopeOf") -> int:
    """Preview an action on the messages of all queues that match a pattern, and apply it with --yes.

    Messages that were received since the preview are skipped. Raises ``UsageError``.
    """

    async def several(interrupts: Interrupts) -> int:
        services: dict[KindPlace, ChangeService] = {}
        requests = []
        async with queues_of(options.queue, options, profile_of(options), ProgressLine()) as queues:
            for named in queues:
                action, scope = build(options, named), scope_of(options, named)
                service = services.get(named.place) or service_of(named.place)
                services[named.place] = service
                requests.append(
                    PreviewRequest(service, named.reference, partial(service.preview, action, if_unchanged(scope)))
                )
        return await _make(options, list(services.values()), partial(preview_several, requests), None, interrupts)

    return run_interruptibly(several)


async def _make(
    options: Options,
    services: Sequence[ChangeService],
    look: Callable[[ScanCallback], Awaitable[Preview]],
    queue: str | None,
    interrupts: Interrupts,
) -> int:
    line = ProgressLine()
    preview, first = None, services[0]
    try:
        async with waiting(line, [first.server]):
            for service in services:
                await report_interrupted(service)
            try:
                preview = await look(lambda progress: line.show(progress_words(progress)))
            except asyncio.CancelledError:
                say("interrupted before anything was changed")
                raise
            if not options.yes:
                _show(options, preview)
                return EXIT_PREVIEW
            return await _carry_out(options, first, preview, interrupts, line)
    except TriageError as error:
        raise UsageError(_refusal(error, first, queue)) from error
    finally:
        if preview is not None:
            preview.close()
        for service in services:
            await service.aclose()


async def _carry_out(
    options: Options, service: ChangeService, preview: Preview, interrupts: Interrupts, line: ProgressLine
) -> int:
    action = preview.action
    if isinstance(action, MessageAction) and not preview.count:
        report: ChangeReport = ChangeReport(action.name, action.past, action.queue, Tally(), None)
    else:
        run = run_of(service, preview)
        interrupts.gently = run.stop
        try:
            async for tally in run:
                line.show(f"{preview.title}: {tally.handled:,} / {tally.planned:,}; Ctrl+C stops")
        except asyncio.CancelledError:
            say("interrupted; rsmq-tui settles the unfinished batch before its next change")
            raise
        interrupts.gently = None
        if run.report is None:
            raise RuntimeError("a run without an end")
        report = run.report
    for each, part in _parts(preview, report):
        _print_report(options, each, part)
    if isinstance(report, SeveralReport) and not wants_json(options):
        print_words(f"{plural(len(report.reports), 'queue')}: {report.sum}")
    if not wants_json(options) and report.did_nothing:
        sys.stdout.flush()
        say(f"nothing was {report.past}")
    is_refused = _say_refused(preview)
    if interrupts.taken and report.stopped:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if report.stopped or report.tally.failed or preview.elsewhere or is_refused else 0


async def report_interrupted(service: ChangeService) -> None:
    """Settle interrupted changes on a server, and print their outcome; raises ``TriageError``."""
    for change in await service.recover():
        title = f"change {change.change} ({change.name} in {change.queue}, {clock(change.at_ms, date=True, zone=True)})"
        undo = f"; rsmq-tui undo {change.change} reverts it" if change.can_be_undone else ""
        doubt = f" ({change.doubt})" if change.doubt else ""
        say(f"{title} was interrupted with {change.done:,} of {change.planned:,} done{doubt}{undo}")


def _refusal(error: TriageError, service: ChangeService, queue: str | None) -> str:
    named = service.server if queue is None else f"{printable_name(queue)} on {service.server}"
    cause = error.__cause__
    # The journal is a file here: no server has refused anything.
    where = "" if service.server in str(error) or isinstance(cause, JournalError) else named
    if isinstance(cause, NoListError):
        return f"{where}: {error}; {LISTS_HINT}"
    why = str(error)
    if queue is not None and kind_of(service.ns).has_namespaces and isinstance(cause, RsmqError):
        if cause.code == "queueNotFound":
            why = no_queue_words(f"namespace {printable_ns(service.ns)}", queue)
        elif cause.item == "qname":
            why += name_hint(queue)
    return f"{where}: {why}".removeprefix(": ")


def progress_words(progress: ScanProgress) -> str:
    """Return a sentence about the progress of a search."""
    return f"{progress.scanned:,} of about {progress.depth:,} scanned, {progress.matched:,} match"


def _show(options: Options, preview: Preview) -> None:
    if wants_json(options):
        for each in previews_in(preview):
            _show_as_json(each)
        _say_refused(preview)
        return
    print_words(preview.title)
    # The title of an undo is what it undoes.
    rows = [row for row in preview.rows if row != ("that", preview.action.about(preview.count))]
    width = max(len(label) for label, _ in rows)
    for label, words in rows:
        print_words(f"  {label:{width}}  {words}")
    print()
    for note in preview.notes:
        print_words(note)
    if preview.elsewhere:
        print_words(_elsewhere_words(preview))
    if preview.unsearched:
        print_words(unsearched_words(preview.unsearched))
    is_nothing = isinstance(preview.action, MessageAction) and not preview.count
    print_words(_NOTHING if is_nothing else "Nothing was changed; --yes applies this change.")


def _parts(preview: Preview, report: ChangeReport) -> Iterable[tuple[Preview, ChangeReport]]:
    """Pair the reports of several changes with their previews; after an early end, previews have no report."""
    reports = [each for _, each in report.reports] if isinstance(report, SeveralReport) else [report]
    return zip(previews_in(preview), reports, strict=False)


def _say_refused(preview: Preview) -> bool:
    """Print which of several queues cannot be changed, and return whether there are any."""
    refused = preview.refused if isinstance(preview, SeveralPreview) else ()
    for words in refused:
        say(f"left out: {words}")
    return bool(refused)


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
        for_s=action.seconds if isinstance(action, Hide) else None,
        delay_s=action.delay_s if isinstance(action, Send) else None,
        planned=preview.count,
        whole=_whole(preview),
        states={as_key(state): count for state, count in states},
        not_there=preview.elsewhere,
        unsearched=preview.unsearched,
        notes=preview.notes,
    )


def _whole(preview: Preview) -> int | None:
    """Return how many messages a change has changed of which a part is undone; None for any other change."""
    return preview.action.whole if isinstance(preview.action, Undo) else None


def _places(preview: Preview) -> dict[str, str | None]:
    """Return the queue of a change and its target, as commands accept them."""
    action = preview.action
    return {"queue": reference(action.queue, preview.ns), "target": target_reference(action.to, preview.ns)}


def _elsewhere_words(preview: Preview) -> str:
    number, action = preview.elsewhere, preview.action
    where = f"among the messages of change {action.change}" if isinstance(action, Undo) else "in the queue"
    return f"{plural(number, 'id')} {'is' if number == 1 else 'are'} not {where}."


def unsearched_words(number: int, queue: str | None = None) -> str:
    """Say how many messages could not be tested by a filter, of a queue if one is given."""
    of_queue = "" if queue is None else f" of {printable(queue)}"
    return f"{plural(number, 'message')}{of_queue} could not be searched: the body is too long."


def _print_report(options: Options, preview: Preview, report: ChangeReport) -> None:
    # Who undoes with --yes has seen no preview.
    warnings = [note for note in preview.notes if note == ANOTHER_SERVER]
    said = [unsearched_words(preview.unsearched)] if preview.unsearched else []
    if wants_json(options):
        _print_report_json(preview, report, warnings)
    else:
        undo = f"; rsmq-tui undo {report.change} reverts it" if report.undoable else ""
        print_words(f"{report.queue}: {report.sentence}{undo}")
        changed = [_changed_words(report.changed)] if report.changed else []
        elsewhere = [_elsewhere_words(preview)] if preview.elsewhere else []
        said = [*changed, *elsewhere, *said, *warnings]
    sys.stdout.flush()
    for words in said:
        say(words)


def _changed_words(ids: Sequence[str]) -> str:
    some = and_more(map(printable, ids[:_IDS_LISTED]), len(ids), separator=" ")
    skipped = f"skipped, because received or changed since the preview: {some}"
    return f"{skipped}; --even-if-received includes such messages"


def _print_report_json(preview: Preview, report: ChangeReport, warnings: Sequence[str]) -> None:
    tally = report.tally
    fields_json(
        action=report.name,
        **_places(preview),
        server=preview.server,
        ns=preview.ns,
        planned=preview.count,
        whole=_whole(preview),
        done=tally.done,
        skipped=tally.skipped.total(),
        failed=tally.failed.total(),
        reasons=[
            {"outcome": outcome, "reason": reason, "count": number}
            for outcome, counts in (("skipped", tally.skipped), ("failed", tally.failed))
            for reason, number in counts.items()
        ],
        not_there=preview.elsewhere,
        changed_ids=report.changed[:_IDS_PRINTED],
        changed_ids_left_out=max(0, len(report.changed) - _IDS_PRINTED),
        unknown=tally.unknown,
        unsure=tally.unsure,
        change=report.change,
        stopped=report.stopped,
        notes=[*warnings, *tally.notes],
    )


Build = Callable[[Options, QueueArgument], Action]
ScopeOf = Callable[[Options, QueueArgument], Scope]


def change_command(
    group: Group,
    name: str,
    words: str,
    *own: Decorator,
    examples: Sequence[str],
    sections: Mapping[str, Section] | None = None,
    scope_of: ScopeOf | None = None,
) -> Callable[[Build], Build]:
    """Add a command that changes a queue, or its messages in a scope; the decorated function returns its action.

    A command with a scope also accepts a pattern of queues, and makes one change for each. The function may raise
    ``UsageError``, and so may ``scope_of``.
    """

    def add(build: Build) -> Build:
        @group.command(name, help=words, examples=examples, sections=sections)
        @several(queue_argument, *own, changing, with_read_only)
        def run(options: Options) -> int:
            if scope_of is not None and is_pattern(options.queue):
                return make_several(options, build, scope_of)
            named = queue_of(options.queue, options, profile_of(options))
            action = build(options, named)
            scope = None if scope_of is None else scope_of(options, named)
            return make_change(options, action, named.place, scope)

        return build

    return add
