"""One change of several queues: a preview of all of them, then one change in the journal for each, and their report."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rsmq_tui.files import whole_file
from rsmq_tui.monitor.changes import ON_REQUEST
from rsmq_tui.monitor.text import and_more, plural, printable
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.triage.actions import Undo, reference
from rsmq_tui.triage.change import ChangeReport, Tally
from rsmq_tui.triage.errors import TriageError, explained
from rsmq_tui.triage.execute import RunningChange
from rsmq_tui.triage.export import Exported
from rsmq_tui.triage.jsonl import write_named
from rsmq_tui.triage.scope import BODIES_SHOWN, Preview, ScanCallback, ScanProgress, Scope, check_room
from rsmq_tui.triage.service import ChangeService

# How many queues a preview and a report name.
QUEUES_NAMED = 20
_NAME_MAX = 60
# The labels of the lines of a preview that are about its queue, or about its messages alone.
_OF_EACH = ("in", "from", "does", "body", "bodies", "", "now")


class PreviewRequest(NamedTuple):
    """How one of the changes is previewed: ``ask`` makes the preview of ``queue`` by ``service``."""

    service: ChangeService
    queue: str
    ask: Callable[[ScanCallback], Awaitable[Preview]]


@dataclass(frozen=True, slots=True)
class SeveralPreview(Preview):
    """The previews of all queues in which there is something to change, as one.

    ``refused`` are sentences about queues that cannot be changed.
    """

    parts: tuple[tuple[ChangeService, Preview], ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The action, its count, and the number of queues."""
        if isinstance(self.action, Undo):
            return f"Undo {plural(len(self.parts), 'change')}"
        return f"{self.action.title(self.count, self.unleased)} in {plural(len(self.parts), 'queue')}"

    @property
    def unleased(self) -> int:
        """The sum of all queues."""
        return sum(each.unleased for _, each in self.parts)

    def rows_with(self, undo_key: str) -> tuple[tuple[str, str], ...]:
        """Return where, what is changed in each queue, then what holds for all."""
        previews = [each for _, each in self.parts]
        places = dict.fromkeys(each.where for each in previews)
        # A queue's reference says its kind: on one server, it says its place too, unless a kind has two of them.
        kinds = {kind_of(each.ns).name for each in previews}
        is_clear = len({each.server for each in previews}) == 1 and len(places) == len(kinds)
        # The place of the kind with namespaces names more; the references below say which queues are lists.
        rows = [("on", max(places, key=len))] if is_clear else []
        rows += [(each.rows[0][0], _sum_of(each, names_place=not is_clear)) for each in previews[:QUEUES_NAMED]]
        if len(previews) > QUEUES_NAMED:
            rest = sum(each.count for each in previews[QUEUES_NAMED:])
            rows.append((rows[-1][0], f"{plural(len(previews) - QUEUES_NAMED, 'more queue')}: {rest:,}"))
        first, *others = [each.rows_with(undo_key) for each in previews] or [()]
        common = set(first).intersection(*others)
        rows += [row for row in first if row in common and row[0] not in _OF_EACH]
        return (*rows, *self._bodies())

    def close(self) -> None:
        """Free the selections."""
        for _, each in self.parts:
            each.close()


def previews_in(preview: Preview) -> Sequence[Preview]:
    """Return the previews of several changes, or the one."""
    return [part for _, part in preview.parts] if isinstance(preview, SeveralPreview) else [preview]


def _sum_of(preview: Preview, *, names_place: bool) -> str:
    place = f" on {preview.where}" if names_place else ""
    if isinstance(preview.action, Undo):
        return f"{_named(preview)}{place}: {preview.what}"
    now = dict(preview.rows).get("now", "")
    return f"{_named(preview)}{place}: {preview.count:,}, now {now}"


def _named(preview: Preview) -> str:
    return printable(reference(preview.action.queue, preview.ns), _NAME_MAX)


async def preview_several(requests: Sequence[PreviewRequest], on_progress: ScanCallback) -> Preview:
    """Return the previews of several changes as one; that of a single change is returned as it is.

    Queues in which nothing would be changed are left out. If none can be changed, the first refusal is raised, a
    ``TriageError`` that names its queue.
    """
    if len(requests) == 1:
        return await _asked(requests[0], on_progress)
    found: list[tuple[ChangeService, Preview]] = []
    refusals: list[TriageError] = []
    before = ScanProgress(0, 0, 0)
    try:
        for request in requests:
            last = before

            def add(progress: ScanProgress, before: ScanProgress = before) -> None:
                nonlocal last
                last = ScanProgress(*map(sum, zip(before, progress, strict=True)))
                on_progress(last)

            try:
                found.append((request.service, await _asked(request, add)))
            except TriageError as error:
                refusals.append(error)
            before = last
        _check_room(found)
    except BaseException:
        for _, each in found:
            each.close()
        raise
    if refusals and not found:
        raise refusals[0]
    return _as_one(found, refusals)


async def _asked(request: PreviewRequest, on_progress: ScanCallback) -> Preview:
    """Return the preview of a change; a refusal names its queue."""
    try:
        return await request.ask(on_progress)
    except TriageError as error:
        raise TriageError(f"{printable(request.queue, _NAME_MAX)}: {error}") from error.__cause__


def _check_room(found: Sequence[tuple[ChangeService, Preview]]) -> None:
    """Raise ``TriageError`` if a journal has no room for all of its changes: it would drop the first of them."""
    for folder in {service.folder for service, _ in found}:
        parts = [(service, each) for service, each in found if service.folder == folder]
        service, first = parts[0]
        selections = [each.selection for _, each in parts if each.selection is not None]
        check_room(service.limit_bytes, first.action, *selections)


def _as_one(found: Sequence[tuple[ChangeService, Preview]], refusals: Iterable[TriageError]) -> SeveralPreview:
    parts = tuple(part for part in found if part[1].count)
    refused = tuple(map(str, refusals))
    first = (parts or found)[0][1]
    for _, each in found:
        if not each.count:
            each.close()
    previews = [each for _, each in found]
    notes = dict.fromkeys(note for each in previews for note in each.notes)
    too_long = [f"{plural(each.unsearched, 'message')} of {_named(each)}" for each in previews if each.unsearched]
    return SeveralPreview(
        action=first.action,
        what=first.what,
        server=first.server,
        ns=first.ns,
        profile=first.profile,
        at_ms=max(each.at_ms for each in previews),
        count=sum(each.count for each in previews),
        elsewhere=sum(each.elsewhere for each in previews),
        unsearched=sum(each.unsearched for each in previews),
        keep_days=first.keep_days,
        notes=(
            *notes,
            *(f"Too long to search: {words}." for words in too_long[:QUEUES_NAMED]),
            *(f"Left out: {words}." for words in refused[:QUEUES_NAMED]),
        ),
        bodies=tuple(each.bodies[0] for _, each in parts if each.bodies)[:BODIES_SHOWN],
        parts=parts,
        refused=refused,
    )


@dataclass(frozen=True, slots=True)
class SeveralReport(ChangeReport):
    """The reports of several changes as one: ``change`` is the number of the last of them."""

    reports: tuple[tuple[ChangeService, ChangeReport], ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """Nothing: ids of several queues are not retried together."""
        return ()

    @property
    def undoable(self) -> bool:
        """True if any of them is."""
        return any(report.undoable for _, report in self.reports)

    @property
    def sum(self) -> str:
        """What was done in all."""
        # The class that super finds without arguments is the one that a dataclass with slots replaces.
        return super(SeveralReport, self).sentence

    @property
    def sentence(self) -> str:
        """What was done in all, and in each queue."""
        changed = [report for _, report in self.reports if report.tally.done]
        done = [f"{printable(report.queue, _NAME_MAX)} {report.tally.done_words}" for report in changed]
        where = f" ({and_more(done[:QUEUES_NAMED], len(done))})" if done else ""
        return f"{self.sum}{where}"


class SeveralRun:
    """Runs the previewed changes one after the other, as ``RunningChange`` does one: iterate over it for its progress.

    After a change that ended early, no other change is started.
    """

    def __init__(self, preview: SeveralPreview) -> None:
        self.preview: Preview = preview
        self.report: SeveralReport | None = None
        self._parts = list(preview.parts)
        self._planned = preview.count
        self._run: RunningChange | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Stop after the current batch."""
        self._is_stopping = True
        if self._run is not None:
            self._run.stop()

    async def __aiter__(self) -> AsyncIterator[Tally]:
        reports: list[tuple[ChangeService, ChangeReport]] = []
        stopped: str | None = None
        try:
            while self._parts and stopped is None:
                if self._is_stopping:
                    stopped = ON_REQUEST
                    break
                service, preview = self._parts.pop(0)
                self._run = run = service.run(preview)
                try:
                    async for tally in run:
                        yield self._sum([*(report.tally for _, report in reports), tally])
                except TriageError as error:
                    # What was done in other queues is reported.
                    stopped = f"{printable(preview.action.queue, _NAME_MAX)}: {error}"
                if run.report is not None:
                    reports.append((service, run.report))
                    stopped = run.report.stopped
        finally:
            for _, left in self._parts:
                left.close()
        action = self.preview.action
        change = reports[-1][1].change if reports else None
        tally = self._sum([report.tally for _, report in reports])
        self.report = SeveralReport(action.name, action.past, action.queue, tally, change, stopped, tuple(reports))

    def _sum(self, tallies: Sequence[Tally]) -> Tally:
        return Tally(
            planned=self._planned,
            done=sum(tally.done for tally in tallies),
            queues=sum(tally.queues for tally in tallies),
            skipped=sum((tally.skipped for tally in tallies), Counter()),
            failed=sum((tally.failed for tally in tallies), Counter()),
            unsure=sum(tally.unsure for tally in tallies),
            unknown=sum(tally.unknown for tally in tallies),
            notes=list(dict.fromkeys(note for tally in tallies for note in tally.notes)),
        )


async def export_several(
    asked: Sequence[tuple[ChangeService, str, Scope | None]], path: Path
) -> AsyncGenerator[Exported, None]:
    """Write messages of several queues to a file as JSON lines, each with its queue, and yield the progress.

    The lines of a single queue's export have no queue. Raises ``TriageError``.
    """
    if len(asked) == 1:
        service, queue, scope = asked[0]
        async with aclosing(service.export(queue, scope, path)) as alone:
            async for exported in alone:
                yield exported
        return
    before = Exported(ScanProgress(0, 0, 0), 0, 0, 0, 0)
    with explained(), whole_file(path) as write:
        for service, queue, scope in asked:
            last, named = before, partial(write_named, write, reference(queue, service.ns))
            async with aclosing(service.export_to(queue, scope, named)) as parts:
                async for exported in parts:
                    last = before.and_then(exported)
                    yield last
            before = last


def run_of(service: ChangeService, preview: Preview) -> RunningChange | SeveralRun:
    """Return the run of a preview, of one change or of several."""
    return SeveralRun(preview) if isinstance(preview, SeveralPreview) else service.run(preview)
