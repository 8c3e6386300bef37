"""The backend of RSMQ queues: preview and export of the selected messages; ``plan`` has the batches.

A filter scans the whole queue, in no order. If a limit selects the messages due first (by score, then id, as consumers
get them), the queue is read from its front; without a filter, no further than the limit.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from rsmq_tui.monitor import MessageState
from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.monitor.filters.matching import Term
from rsmq_tui.monitor.filters.search import SearchProgress, due_first, search, search_chunks, search_due_first
from rsmq_tui.monitor.messages.peek import read_message
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol import Address, RawMessage, RsmqReader, ScanChunk, leading_int, name_bytes, name_of, rsmq_error
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import QueueFields, RsmqEditor
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.protocol.rsmq.pages import BODY_BYTES_MAX
from rsmq_tui.triage import actions
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.errors import NoTargetError, TriageError
from rsmq_tui.triage.export import Exporting
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.lists.transfer import list_target_notes, prepare_to_list
from rsmq_tui.triage.rsmq.fixes import prepare_fix, preview_of_fix
from rsmq_tui.triage.rsmq.plan import check_action, prepare_messages, prepare_queue, preview_of_queue
from rsmq_tui.triage.rsmq.redrive import redrive_notes
from rsmq_tui.triage.scope import (
    BODIES_SHOWN,
    SAME_MESSAGE,
    UNCHANGED,
    Guard,
    Marked,
    Matching,
    Named,
    Preview,
    ScanCallback,
    ScanProgress,
    Scope,
    Selection,
    Shown,
    check_room,
    starts_of,
    still_matching,
)
from rsmq_tui.triage.service import Backend

_CHUNK_MESSAGES = 500
# How much one call may read, unless a single body is longer. A server copies a gigabyte per second.
_CALL_BYTES = 1_000_000
# A longer body is not read only to be shown in a preview.
_SHOWN_BYTES_MAX = 100_000


class RsmqBackend(Backend):
    """The changes of RSMQ queues in a namespace; ``names`` are the keys of lists that messages are moved to.

    Raises ``ValueError`` for an invalid URL.
    """

    def __init__(self, server: Address | str, ns: str, names: ListNames | None = None) -> None:
        self._editor = RsmqEditor(server, ns)
        self._reader = RsmqReader(server, ns)
        self._names = names or ListNames()

    @property
    def editor(self) -> EditExecutor:
        """The executor of its edits."""
        return self._editor

    def watch(self, ns: str) -> None:
        """Switch to another namespace."""
        self._editor = self._editor.within(ns)
        self._reader = self._reader.within(ns)

    async def preview(self, base: Preview, journal: Journal, scope: Scope | None, on_progress: ScanCallback) -> Preview:
        """Return ``base``, completed with what its action would do."""
        action = base.action
        check_action(action)
        base = replace(base, at_ms=await self._editor.clock_us() // 1000)
        if isinstance(action, actions.Fix):
            return await preview_of_fix(self._reader, base, action, on_progress)
        if not isinstance(action, actions.MessageAction):
            return await preview_of_queue(self._editor, base, on_progress)
        own, notes = await self._notes(action)
        guard = guard_of(action, scope)
        selection = Selection()
        sources: tuple[str, ...] = ()
        try:
            found = await self._select(action, scope, selection, on_progress)
            check_room(journal.limit_bytes, action, selection)
            bodies = await self._some_bodies(action, selection)
            if isinstance(action, actions.Redrive):
                sources = await redrive_notes(self._editor, journal, action, selection)
        except BaseException:
            selection.close()
            raise
        return replace(
            base,
            what=found.what or base.what,
            at_ms=selection.at_ms or base.at_ms,
            count=selection.count + action.counts_queue,
            selection=selection,
            elsewhere=found.elsewhere,
            unsearched=found.unsearched,
            notes=(guard.sentence, *notes, *sources, *_due_notes(action, selection), *_unit_notes(action, selection)),
            fields=own,
            guard=guard,
            collects_changed=isinstance(scope, Marked | Named),
            changed=found.changed,
            wider=replace(scope, even_if_received=True) if isinstance(scope, Marked) and found.changed else None,
            bodies=bodies,
        )

    def prepare(self, editor: EditExecutor, journal: Journal, preview: Preview) -> AsyncGenerator[Step, None]:
        """Yield the batches of a previewed change."""
        action = preview.action
        queues = RsmqEditor.sharing(editor, preview.ns)
        if isinstance(action, actions.Move) and (to := actions.target_of_rsmq(action.target, preview.ns)).ns is None:
            return prepare_to_list(queues, self._names, action, to, preview)
        if isinstance(action, actions.MessageAction):
            return prepare_messages(queues, journal, action, preview)
        if isinstance(action, actions.Fix):
            return prepare_fix(queues, self._reader.within(preview.ns), action)
        return prepare_queue(queues, preview)

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Return an export that passes the messages of a scope to ``write``."""
        match scope:
            case Marked(messages=messages):
                return MarkedExport(self._editor, queue, [message.id for message in messages], write)
            case Named(ids=ids):
                return MarkedExport(self._editor, queue, ids, write)
            case Matching():
                return Export(self._reader, queue, scope, write)
        return Export(self._reader, queue, Matching(parse_filter("")), write)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._editor.aclose()
        await self._reader.aclose()

    async def _select(
        self, action: actions.MessageAction, scope: Scope | None, selection: Selection, on_progress: ScanCallback
    ) -> "_Selected":
        """Add the messages of a scope to a selection."""
        match scope:
            case Marked(messages=messages, even_if_received=is_any):
                shown = {one.id: None if is_any else one for one in messages}
                return _Selected(*await select_shown(self._editor, action.queue, shown, selection))
            case Named(ids=ids):
                return _Selected(*await select_shown(self._editor, action.queue, dict.fromkeys(ids), selection))
            case Matching(limit=int() as limit):
                matched, unsearched = await select_due_first(self._reader, action, scope, limit, selection, on_progress)
                what = what_is_due_first(action, scope, limit, matched, selection.count)
                return _Selected(unsearched=unsearched, what=printable(what))
        wanted = scope.filter if isinstance(scope, Matching) else parse_filter("")
        found_by = search(self._reader, action.queue, wanted, **_needs(action))
        return _Selected(unsearched=await select_matching(found_by, selection, on_progress))

    async def _some_bodies(self, action: actions.MessageAction, selection: Selection) -> tuple[bytes, ...]:
        """Return the starts of the bodies of some selected messages; long ones are left out."""
        some = list(islice(selection, BODIES_SHOWN))
        unread = [message.id for message in some if message.body is None]
        # The selection may not have their sizes.
        _, sized = await self._editor.messages(action.queue, unread, bodies=False) if unread else (0, [])
        short = [message.id for message in sized if message is not None and message.size <= _SHOWN_BYTES_MAX]
        _, read = await self._editor.messages(action.queue, short) if short else (0, [])
        return starts_of(message.body for message in (*some, *read) if message is not None)

    async def _notes(self, action: actions.MessageAction) -> tuple[QueueFields, tuple[str, ...]]:
        """Return the queue's fields and notes on the action; raises ``TriageError`` if it is not possible."""
        editor = self._editor
        notes: list[str] = []
        own = await editor.fields(action.queue)
        if not own.attributes and not own.depth and not own.listed:
            raise rsmq_error("queueNotFound")
        match action:
            case actions.Move(target=target) if (to := actions.target_of_rsmq(target, editor.ns)).ns is None:
                notes += await list_target_notes(editor, self._names, action, to)
            case actions.Move(target=target):
                if target == action.queue and action.moves_away:
                    raise TriageError("the target is the queue itself")
                there = await editor.fields(target)
                if not there.exists:
                    if not action.create:
                        words = "create it first, or together with this change (--create)"
                        raise NoTargetError(f"queue {target} does not exist: {words}")
                    rest = "" if own.exists else ", and the defaults of those that it does not have"
                    notes.append(f"Queue {target} is created with the attributes of {action.queue}{rest}.")
            case actions.Redrive(target=str() as target):
                if not (await editor.fields(target)).exists:
                    raise TriageError(f"queue {target} does not exist: create it first")
            case actions.DeleteQueue():
                notes.append("If messages arrive or are received meanwhile, the queue and these messages are kept.")
        if isinstance(action, actions.Copy) and actions.target_of_rsmq(action.target, editor.ns).ns is not None:
            notes.append("The copies are visible at once.")
        return own, tuple(notes)


class _Selected(NamedTuple):
    """How a selection went: numbers as in ``Preview``, and ``what`` it is, if the scope alone does not say that."""

    elsewhere: int = 0
    changed: int = 0
    unsearched: int = 0
    what: str = ""


async def select_shown(
    editor: RsmqEditor, queue: str, messages: Mapping[str, Shown | None], selection: Selection
) -> tuple[int, int]:
    """Select messages by their ids: those that are unchanged since they were shown, or in any state for None.

    Return how many were not selected, and how many of these are still in the queue.
    """
    left = changed = 0
    rest = iter(messages.items())
    while chunk := list(islice(rest, _CHUNK_MESSAGES)):
        at_ms, found = await editor.messages(queue, [name_bytes(id) for id, _ in chunk], bodies=False)
        there = [(shown, now) for (_, shown), now in zip(chunk, found, strict=True) if now is not None]
        same = [now for shown, now in there if shown is None or _is_same(shown, now)]
        changed += len(there) - len(same)
        left += len(chunk) - len(same)
        selection.add(same, at_ms)
    return left, changed


async def select_matching(
    found_by: AsyncGenerator[SearchProgress, None], selection: Selection, on_progress: ScanCallback
) -> int:
    """Select the matches of a search of the whole queue; return how many messages could not be searched."""
    unsearched = 0
    async with aclosing(found_by) as found:
        async for part in found:
            selection.add(part.messages, part.at_ms)
            unsearched = part.not_searched
            on_progress(ScanProgress(part.scanned, part.depth, part.matched))
    return unsearched


def _needs(action: actions.MessageAction) -> dict[str, bool]:
    """Return what is read of the selected messages.

    Removed messages go to the journal with their bodies; moved ones must not exceed the target's maxsize.
    """
    return {"bodies": action.takes_away, "sizes": isinstance(action, actions.Move | actions.Redrive)}


def _is_same(shown: Shown, now: RawMessage) -> bool:
    return float(shown.score) == float(now.score) and shown.rc == (leading_int(now.rc) or 0)


async def select_due_first(
    reader: RsmqReader,
    action: actions.MessageAction,
    scope: Matching,
    limit: int,
    selection: Selection,
    on_progress: ScanCallback,
) -> tuple[int, int]:
    """Select the first ``limit`` matches by due time; return how many match, and how many could not be searched.

    Raises what the reader raises, and ``PeekError``.
    """
    queue, wanted, is_sized = action.queue, scope.filter, any(_needs(action).values())
    if isinstance(action, actions.Release):
        # A release has no effect on visible messages.
        wanted = replace(wanted, terms=(*wanted.terms, Term("state", ":", ("hidden",))))
    if await reader.ranges.depth(queue) <= limit:
        unsearched = await select_matching(search(reader, queue, wanted, **_needs(action)), selection, on_progress)
        if selection.count <= limit:
            return selection.count, unsearched
        # Messages arrived meanwhile: there are more than the limit.
        selection.clear()
    matched = unsearched = 0
    chunks = due_first(reader, queue, wanted, limit, bodies=False, sizes=False)
    async with aclosing(search_chunks(chunks, wanted, None)) as found:
        async for part in found:
            chosen = [message._replace(body=None) for message in part.messages[: limit - selection.count]]
            if chosen:
                columns = tuple(zip(*chosen, strict=True))
                chunk = ScanChunk(part.at_ms, part.depth, columns)
                whole = await reader.scan.read(queue, chunk, bodies=action.takes_away, sizes=is_sized)
                selection.add(whole.messages, part.at_ms)
            matched, unsearched = part.matched, part.not_searched
            on_progress(ScanProgress(part.scanned, max(part.depth, part.scanned), matched))
            if wanted.is_empty and selection.count >= limit:
                return max(part.depth, selection.count), 0
    return matched, unsearched


def what_is_due_first(action: actions.MessageAction, scope: Matching, limit: int, matched: int, chosen: int) -> str:
    """Describe the selected messages, ``chosen`` of ``matched``; some of them may have left the queue since."""
    which = "hidden " if isinstance(action, actions.Release) else ""
    is_all = matched <= limit
    first = "the one" if chosen == 1 else f"the {chosen:,}"
    if scope.filter.is_empty:
        if not is_all:
            return f"{first} due first of {matched:,} {which}messages of the queue"
        if chosen > 1:
            return f"all {chosen:,} {which}messages of the queue"
        return f"{'the only' if chosen else 'no'} {which}message of the queue"
    where = f"{scope.filter.text}, in the whole queue"
    if not is_all:
        return f"{first} due first of {matched:,} {which + 'ones ' if which else ''}that match {where}"
    if chosen > 1:
        return f"all {plural(chosen, which + 'message')} that match {where}"
    return f"{'the only' if chosen else 'no'} {which}message that matches {where}"


def guard_of(action: actions.Action, scope: Scope | None) -> Guard:
    """Return the guard of a scope's messages."""
    match scope:
        case Marked(even_if_received=True) | Named(even_if_received=True) | Matching(even_if_received=True):
            return SAME_MESSAGE
        case Marked() | Named() | Matching(if_unchanged=True):
            return UNCHANGED
        case Matching(filter=wanted, limit=int()) if wanted.is_empty:
            # They were selected because they are due first; a message that was received meanwhile no longer is.
            return UNCHANGED
        case Matching(filter=wanted):
            return still_matching(wanted)
    # A queue is deleted only while no client uses it.
    return UNCHANGED if isinstance(action, actions.DeleteQueue) else SAME_MESSAGE


def _due_notes(action: actions.MessageAction, selection: Selection) -> Iterator[str]:
    """Yield what becomes of due times and receive counts, unless that is what the action is for."""
    match action:
        case actions.Release() if ready := selection.states[MessageState.READY]:
            visible = "1 is visible already, and comes" if ready == 1 else f"{ready:,} are visible already, and come"
            yield f"All become due now. {visible} after those that have waited longer."
        case actions.Redrive() if selection.count:
            yield "There they are visible at once, and count as never received."


def _unit_notes(action: actions.MessageAction, selection: Selection) -> Iterator[str]:
    """Yield notes on scores that are not in ms, and on the units of new scores."""
    match action:
        case actions.Move(target=target) if actions.target_of_rsmq(target, "").ns is None:
            return
        case actions.Copy(target=target) if target != action.queue:
            then = "the copies are in milliseconds"
        case actions.Redrive():
            then = "in the target queue they are in milliseconds"
        case actions.Hide() | actions.Release() | actions.Copy():
            then = "the new ones use the same unit"
        case actions.Move():
            then = "they are not converted"
        case _:
            return
    for unit, count in selection.units.items():
        yield f"The scores of {plural(count, 'message')} are in {unit}: {then}."


class Export(Exporting):
    """Exports the messages of a queue that match; with a limit, those due first, in that order.

    Raises ``PeekError``, and what ``write`` raises.
    """

    def __init__(self, reader: RsmqReader, queue: str, scope: Matching, write: Callable[[str], object]) -> None:
        super().__init__(write)
        self.depth = 0
        self._reader, self._queue, self._scope = reader, queue, scope

    async def __aiter__(self) -> AsyncGenerator[ScanProgress, None]:
        reader, queue, wanted, limit = self._reader, self._queue, self._scope.filter, self._scope.limit
        parts = search(reader, queue, wanted) if limit is None else search_due_first(reader, queue, wanted, limit)
        async with aclosing(parts) as found:
            async for progress in found:
                for message in progress.messages:
                    await self._take_whole(message, progress.at_ms)
                self.unsearched, self.depth = progress.not_searched, progress.depth
                yield ScanProgress(progress.scanned, progress.depth, progress.matched)

    async def _take_whole(self, message: RawMessage, at_ms: int) -> None:
        if message.body is None and message.size:
            # Too long for a scan, which reads many bodies at once.
            view = await read_message(self._reader, self._queue, name_of(message.id))
            if view.row is None:
                self.gone += 1
                return
            if view.body is None:
                self.cut += 1
                return
            message = message._replace(body=view.body)
        self._take(message, at_ms)


class MarkedExport(Exporting):
    """Exports the messages with these ids; raises what the editor and ``write`` raise."""

    def __init__(self, editor: RsmqEditor, queue: str, ids: Sequence[str], write: Callable[[str], object]) -> None:
        super().__init__(write)
        self._editor, self._queue, self._ids = editor, queue, ids

    async def __aiter__(self) -> AsyncGenerator[ScanProgress, None]:
        for start in range(0, len(self._ids), _CHUNK_MESSAGES):
            ids = [name_bytes(id) for id in self._ids[start : start + _CHUNK_MESSAGES]]
            _, seen = await self._editor.messages(self._queue, ids, bodies=False)
            there = [message for message in seen if message is not None]
            short = [message for message in there if message.size <= BODY_BYTES_MAX]
            self.gone += len(seen) - len(there)
            self.cut += len(there) - len(short)
            for group in chunked(short, _CHUNK_MESSAGES, attrgetter("size"), _CALL_BYTES):
                await self._take_group([message.id for message in group])
                yield self._progress
            yield self._progress

    async def _take_group(self, ids: list[bytes]) -> None:
        at_ms, found = await self._editor.messages(self._queue, ids)
        for message in found:
            if message is None:
                self.gone += 1
            else:
                self._take(message, at_ms)

    @property
    def _progress(self) -> ScanProgress:
        return ScanProgress(self.written + self.gone + self.cut, len(self._ids), self.written)
