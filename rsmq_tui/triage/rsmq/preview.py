"""The preview of a change: which messages it selects, and what each of them is now.

A filter scans the whole queue, in no order. If it selects only so many messages, those due first (by score, then id, as
consumers get them), at most twice that number is kept in memory. Without a filter the queue is read from its front, no
further than the limit.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from rsmq_tui.monitor.filters.language import Filter, parse_filter
from rsmq_tui.monitor.filters.matching import Term
from rsmq_tui.monitor.filters.search import Progress, search, search_chunks
from rsmq_tui.monitor.peek import PEEK_ERRORS, explain
from rsmq_tui.monitor.text import plural, printable, size
from rsmq_tui.protocol import QueueReader, RawMessage, ScanChunk, leading_int, name_bytes, name_of, rsmq_error
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import QueueEditor, QueueFields
from rsmq_tui.triage.actions import (
    Action,
    Copy,
    CreateQueue,
    Delete,
    DeleteQueue,
    Fix,
    Hide,
    Import,
    MessageAction,
    Move,
    Redrive,
    Release,
    Send,
    SetAttributes,
    target_of_rsmq,
)
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.jsonl import file_seen
from rsmq_tui.triage.lists.transfer import list_target_notes
from rsmq_tui.triage.rsmq.fixes import preview_of_fix
from rsmq_tui.triage.rsmq.plan import check, origin_notes
from rsmq_tui.triage.scope import (
    SAME_MESSAGE,
    UNCHANGED,
    Everything,
    Guard,
    Marked,
    Matching,
    Named,
    Preview,
    Scope,
    Seeing,
    SeeingCallback,
    Selection,
    Shown,
    check_room,
    counted,
    still_matching,
)

_CHUNK_MESSAGES = 500
_Item = TypeVar("_Item")


async def select_marked(
    editor: QueueEditor, queue: str, messages: Sequence[Shown], selection: Selection
) -> tuple[int, int]:
    """Select those that are still what was shown; returns how many are not, and how many of these are there."""
    left = changed = 0
    rest = iter(messages)
    for chunk in _chunks(rest):
        at_ms, found = await editor.seen(queue, [name_bytes(message.id) for message in chunk])
        there = [(shown, now) for shown, now in zip(chunk, found, strict=True) if now is not None]
        same = [now for shown, now in there if _is_same(shown, now)]
        changed += len(there) - len(same)
        left += len(chunk) - len(same)
        selection.add(same, at_ms)
    return left, changed


async def select_named(editor: QueueEditor, queue: str, ids: Sequence[str], selection: Selection) -> int:
    """Select the messages of these ids; returns how many of them are not there."""
    left = 0
    for chunk in _chunks(iter(dict.fromkeys(ids))):
        at_ms, found = await editor.seen(queue, [name_bytes(id) for id in chunk])
        there = [now for now in found if now is not None]
        left += len(chunk) - len(there)
        selection.add(there, at_ms)
    return left


async def select_matching(
    found_by: AsyncGenerator[Progress, None], selection: Selection, seeing: Callable[[int, int, int], None]
) -> int:
    """Select what a search of the whole queue finds; returns how many could not be searched.

    ``seeing`` is told how many were scanned, how many there are, and how many match.
    """
    unsearched = 0
    async with aclosing(found_by) as found:
        async for part in found:
            selection.add(part.messages, part.at_ms)
            unsearched = part.not_searched
            seeing(part.scanned, part.depth, part.matched)
    return unsearched


def _is_same(shown: Shown, now: RawMessage) -> bool:
    return float(shown.score) == float(now.score) and shown.rc == (leading_int(now.rc) or 0)


def _chunks(rest: Iterator[_Item]) -> Iterator[list[_Item]]:
    while chunk := list(islice(rest, _CHUNK_MESSAGES)):
        yield chunk


# So many messages and no more are kept in memory to be sorted, twice.
_KEPT_MAX = 10_000
# What is kept is sorted no more often than this.
_SORTED_AT_LEAST = 1_000

_Ranked = tuple[float, bytes, RawMessage, int]
_place = itemgetter(0, 1)


class DueFirst:
    """Keeps the first ``limit`` of all messages that it is given, without their bodies; ``matched`` counts all."""

    def __init__(self, limit: int) -> None:
        self.matched = 0
        self._limit = limit
        self._kept: list[_Ranked] = []
        self._last: tuple[float, bytes] | None = None

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Take messages that were read at that server time."""
        last = self._last
        for message in messages:
            self.matched += 1
            score = float(message.score)
            if last is None or (score, message.id) < last:
                self._kept.append((score, message.id, message._replace(body=None), at_ms))
        if len(self._kept) >= self._limit + max(self._limit, _SORTED_AT_LEAST):
            self._cut()

    def chosen(self) -> Sequence[_Ranked]:
        """Return them as (score, id, message, when it was read), those due first at the front."""
        self._cut()
        return self._kept

    def _cut(self) -> None:
        self._kept.sort(key=_place)
        del self._kept[self._limit :]
        if len(self._kept) == self._limit:
            self._last = _place(self._kept[-1]) if self._kept else (float("-inf"), b"")


async def select_due_first(
    reader: QueueReader,
    queue: str,
    scope: Matching,
    limit: int,
    selection: Selection,
    seeing: Callable[[int, int, int], None],
    *,
    bodies: bool,
    sizes: bool,
    hidden: bool,
) -> tuple[int, int]:
    """Select what is due first of all that matches; returns how many match, and how many could not be searched.

    ``bodies`` and ``sizes`` say what is to be read of those that are chosen, ``hidden`` that only those are meant that
    are not visible yet; ``seeing`` is told how many were scanned, how many there are, and how many match. Raises what
    the reader raises, and ``PeekError``.
    """
    wanted = scope.filter
    if hidden:
        wanted = replace(wanted, terms=(*wanted.terms, Term("state", ":", ("hidden",))))
    if await reader.fronts.depth(queue) <= limit:
        unsearched = await select_matching(search(reader, queue, wanted, bodies=bodies, sizes=sizes), selection, seeing)
        if selection.count <= limit:
            return selection.count, unsearched
        # More came in meanwhile than were meant.
        selection.clear()
    if wanted.is_empty or limit > _KEPT_MAX:
        return await _from_front(reader, queue, wanted, limit, selection, seeing, sizes=sizes or bodies)
    first, unsearched, depth = DueFirst(limit), 0, 0
    async with aclosing(search(reader, queue, wanted, bodies=False, sizes=False)) as found:
        async for part in found:
            first.add(part.messages, part.at_ms)
            unsearched, depth = part.not_searched, part.depth
            seeing(part.scanned, part.depth, first.matched)
    chosen = first.chosen()
    for start in range(0, len(chosen), _CHUNK_MESSAGES):
        some = chosen[start : start + _CHUNK_MESSAGES]
        columns = tuple(zip(*(message for _, _, message, _ in some), strict=True))
        at_ms = max(at_ms for *_, at_ms in some)
        read = await reader.scan.read(
            queue, ScanChunk(at_ms, depth, columns), counts=False, bodies=bodies, sizes=sizes or bodies
        )
        selection.add(read.messages, at_ms)
    return first.matched, unsearched


async def search_due_first(
    reader: QueueReader, queue: str, wanted: Filter, limit: int
) -> AsyncGenerator[Progress, None]:
    """Yield the first ``limit`` messages that match with their bodies, those due first at the front.

    The queue is read from its front, and no further than the last of them. Raises ``PeekError``. Close it with
    ``aclose`` when leaving early.
    """
    count = min(limit, _CHUNK_MESSAGES) if wanted.is_empty else _CHUNK_MESSAGES
    chunks = _read(reader, queue, wanted, count, bodies=True, sizes=True)
    try:
        async with aclosing(search_chunks(chunks, wanted, limit)) as found:
            async for progress in found:
                yield progress
    except PEEK_ERRORS as error:
        raise explain(error) from error


async def _from_front(
    reader: QueueReader,
    queue: str,
    wanted: Filter,
    limit: int,
    selection: Selection,
    seeing: Callable[[int, int, int], None],
    *,
    sizes: bool,
) -> tuple[int, int]:
    """Select from the front of a queue; where all match, it is read no further than the limit."""
    matched = unsearched = 0
    count = min(limit, _CHUNK_MESSAGES) if wanted.is_empty else _CHUNK_MESSAGES
    async with aclosing(
        search_chunks(_read(reader, queue, wanted, count, bodies=False, sizes=sizes), wanted, None)
    ) as found:
        async for part in found:
            chosen = part.messages[: limit - selection.count]
            selection.add([message._replace(body=None) for message in chosen], part.at_ms)
            matched, unsearched = part.matched, part.not_searched
            seeing(part.scanned, max(part.depth, part.scanned), matched)
            if wanted.is_empty and selection.count >= limit:
                return max(part.depth, selection.count), 0
    return matched, unsearched


async def _read(
    reader: QueueReader, queue: str, wanted: Filter, count: int, *, bodies: bool, sizes: bool
) -> AsyncGenerator[ScanChunk, None]:
    """Walk through a queue from its front, with what the filter needs, and bodies and sizes where they are wanted."""
    needs = wanted.needs()
    async with aclosing(reader.fronts.chunks(queue, count)) as chunks:
        async for chunk in chunks:
            yield await reader.scan.read(
                queue, chunk, counts=True, bodies=bodies or "body" in needs, sizes=sizes or "size" in needs
            )


def what_is_due_first(scope: Matching, limit: int, matched: int, chosen: int, *, hidden: bool = False) -> str:
    """Say which messages were chosen, out of how many that matched; of these, some may have left since."""
    which = "hidden " if hidden else ""
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


async def preview_of(
    editor: QueueEditor,
    reader: QueueReader,
    base: Preview,
    journal: Journal,
    scope: Scope | None,
    seeing: SeeingCallback,
    names: ListNames,
) -> Preview:
    """Find out what the action of ``base`` would do, also to lists of those names.

    Raises what editor and reader raise.
    """
    action = base.action
    check(action)
    base = replace(base, at_ms=await editor.clock_us() // 1000)
    if not isinstance(action, MessageAction):
        return await _of_another(editor, reader, base, action, seeing)
    own, notes = await _notes(editor, action, names)
    guard = guard_of(action, scope)
    selection = Selection()

    def tell(scanned: int, depth: int, matched: int) -> None:
        seeing(Seeing(scanned, depth, matched))

    try:
        elsewhere = unsearched = changed = 0
        takes, moves = isinstance(action, Delete | DeleteQueue), isinstance(action, Move | Redrive)
        match scope:
            case Marked(messages=messages, even_if_received=False):
                elsewhere, changed = await select_marked(editor, action.queue, messages, selection)
            case Marked(messages=messages):
                elsewhere = await select_named(editor, action.queue, [one.id for one in messages], selection)
            case Named(ids=ids):
                elsewhere = await select_named(editor, action.queue, ids, selection)
            case Matching(limit=int() as limit):
                # What is visible already is not released by anything.
                hidden = isinstance(action, Release)
                matched, unsearched = await select_due_first(
                    reader,
                    action.queue,
                    scope,
                    limit,
                    selection,
                    tell,
                    bodies=takes,
                    sizes=moves,
                    hidden=hidden,
                )
                what = what_is_due_first(scope, limit, matched, selection.count, hidden=hidden)
                base = replace(base, what=printable(what))
            case Matching() | Everything() | None:
                # What is taken away goes to the journal whole; what goes elsewhere must fit there.
                wanted = scope.filter if isinstance(scope, Matching) else parse_filter("")
                found_by = search(reader, action.queue, wanted, bodies=takes, sizes=moves)
                unsearched = await select_matching(found_by, selection, tell)
        check_room(journal.limit_bytes, selection, selection.bytes if takes else 0)
        origins = await origin_notes(editor, journal, action, selection) if isinstance(action, Redrive) else ()
    except BaseException:
        selection.close()
        raise
    return replace(
        base,
        at_ms=selection.at_ms or base.at_ms,
        count=selection.count + isinstance(action, DeleteQueue),
        selection=selection,
        elsewhere=elsewhere,
        unsearched=unsearched,
        notes=(guard.sentence, *notes, *origins, *_unit_notes(action, selection)),
        fields=own,
        guard=guard,
        left_is_asked=isinstance(scope, Marked | Named),
        changed=changed,
        wider=replace(scope, even_if_received=True) if isinstance(scope, Marked) and changed else None,
    )


def guard_of(action: Action, scope: Scope | None) -> Guard:
    """Return what must still be true of the messages that a scope means when they are changed."""
    match scope:
        case Marked(even_if_received=True) | Named(even_if_received=True) | Matching(even_if_received=True):
            return SAME_MESSAGE
        case Marked() | Named():
            return UNCHANGED
        case Matching(filter=wanted, limit=int()) if wanted.is_empty:
            # They were chosen because they are due first: one that is received meanwhile no longer is.
            return UNCHANGED
        case Matching(filter=wanted):
            return still_matching(wanted)
    # A queue is deleted only while nobody uses it.
    return UNCHANGED if isinstance(action, DeleteQueue) else SAME_MESSAGE


async def _of_another(
    editor: QueueEditor, reader: QueueReader, base: Preview, action: Action, seeing: SeeingCallback
) -> Preview:
    match action:
        case Send(bodies=bodies):
            if not bodies:
                raise TriageError("nothing to send: give a body")
            if not (await editor.fields(action.queue)).exists:
                raise rsmq_error("queueNotFound")
            return replace(base, count=len(bodies), what=f"{size(sum(map(len, bodies)))} in all")
        case Import(path=path):
            seen = file_seen(await asyncio.to_thread(path.stat))
            count = await counted(path, seen, seeing)
            if not count:
                raise TriageError(f"{path} has no messages")
            if not (await editor.fields(action.queue)).exists:
                raise rsmq_error("queueNotFound")
            note = "Messages with ids that are already in the queue are not imported."
            return replace(base, count=count, what=printable(f"from {path}"), notes=(note,), file=seen)
        case CreateQueue(vt=vt, delay=delay, maxsize=maxsize):
            if b"vt" in (await editor.fields(action.queue)).attributes:
                raise rsmq_error("queueExists")
            return replace(base, what=f"vt {vt} s, delay {delay} s, maxsize {maxsize}")
        case SetAttributes():
            there = await editor.fields(action.queue)
            if not there.exists:
                raise rsmq_error("queueNotFound")
            note = "Only if they are unchanged since this preview."
            return replace(base, what=_settings(action, there.attributes), notes=(note,), fields=there)
        case Fix():
            return await preview_of_fix(reader, base, action, lambda *seen: seeing(Seeing(*seen)))
    return base


def _settings(action: SetAttributes, now: Mapping[bytes, bytes]) -> str:
    wanted = (("vt", action.vt), ("delay", action.delay), ("maxsize", action.maxsize))
    return ", ".join(
        f"{name} {printable(name_of(now.get(name.encode(), b'')), 20)} -> {value}"
        for name, value in wanted
        if value is not None
    )


def _unit_notes(action: MessageAction, selection: Selection) -> Iterator[str]:
    """Say where scores are not in ms, and what those will be that are written."""
    match action:
        case Move(target=target) if target_of_rsmq(target, "").ns is None:
            return
        case Copy(target=target) if target != action.queue:
            then = "the copies are in milliseconds"
        case Redrive():
            then = "in the target queue they are in milliseconds"
        case Hide() | Release() | Copy():
            then = "the new ones use the same unit"
        case Move():
            then = "they are not converted"
        case _:
            return
    for unit, count in selection.units.items():
        yield f"The scores of {plural(count, 'message')} are in {unit}: {then}."


async def _notes(editor: QueueEditor, action: MessageAction, names: ListNames) -> tuple[QueueFields, tuple[str, ...]]:
    notes: list[str] = []
    own = await editor.fields(action.queue)
    if not own.attributes and not own.depth and not own.listed:
        raise rsmq_error("queueNotFound")
    match action:
        case Move(target=target) if (to := target_of_rsmq(target, editor.ns)).ns is None:
            notes += await list_target_notes(editor, names, action, to)
        case Move(target=target):
            if target == action.queue and action.name == "move":
                raise TriageError("the target is the queue itself")
            there = await editor.fields(target)
            if not there.exists:
                if not action.create:
                    raise TriageError(f"queue {target} does not exist: create it first, or choose to create it")
                notes.append(f"Queue {target} is created with the attributes of {action.queue}.")
        case Redrive(target=str() as target):
            if not (await editor.fields(target)).exists:
                raise TriageError(f"queue {target} does not exist: create it first")
        case DeleteQueue():
            notes.append("If messages arrive or are received meanwhile, the queue and these messages are kept.")
    if isinstance(action, Copy) and target_of_rsmq(action.target, editor.ns).ns is not None:
        notes.append("The copies are visible at once.")
    return own, tuple(notes)
