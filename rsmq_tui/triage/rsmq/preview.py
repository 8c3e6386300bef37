"""The preview of a change: which messages it selects, and their current state.

A filter scans the whole queue, in no order. If a limit selects the messages due first (by score, then id, as consumers
get them), the queue is read from its front; without a filter, no further than the limit.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from rsmq_tui.monitor.filters.language import Filter, parse_filter
from rsmq_tui.monitor.filters.matching import Term
from rsmq_tui.monitor.filters.search import Progress, search, search_chunks
from rsmq_tui.monitor.peek import in_words
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol import QueueReader, RawMessage, ScanChunk, leading_int, name_bytes, rsmq_error
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import QueueEditor, QueueFields
from rsmq_tui.triage.actions import (
    Action,
    Copy,
    DeleteQueue,
    Fix,
    Hide,
    MessageAction,
    Move,
    Redrive,
    Release,
    target_of_rsmq,
)
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.lists.transfer import list_target_notes
from rsmq_tui.triage.rsmq.fixes import preview_of_fix
from rsmq_tui.triage.rsmq.plan import check, origin_notes
from rsmq_tui.triage.rsmq.queues import QUEUE_ACTIONS
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
    still_matching,
)

_CHUNK_MESSAGES = 500
_Item = TypeVar("_Item")


async def select_marked(
    editor: QueueEditor, queue: str, messages: Sequence[Shown], selection: Selection
) -> tuple[int, int]:
    """Select messages that are unchanged; return how many are not, and how many of these are still in the queue."""
    left = changed = 0
    rest = iter(messages)
    for chunk in _chunks(rest):
        at_ms, found = await editor.messages(queue, [name_bytes(message.id) for message in chunk], bodies=False)
        there = [(shown, now) for shown, now in zip(chunk, found, strict=True) if now is not None]
        same = [now for shown, now in there if _is_same(shown, now)]
        changed += len(there) - len(same)
        left += len(chunk) - len(same)
        selection.add(same, at_ms)
    return left, changed


async def select_named(editor: QueueEditor, queue: str, ids: Sequence[str], selection: Selection) -> int:
    """Select the messages with these ids; return how many of them do not exist."""
    left = 0
    for chunk in _chunks(iter(dict.fromkeys(ids))):
        at_ms, found = await editor.messages(queue, [name_bytes(id) for id in chunk], bodies=False)
        there = [now for now in found if now is not None]
        left += len(chunk) - len(there)
        selection.add(there, at_ms)
    return left


async def select_matching(
    found_by: AsyncGenerator[Progress, None], selection: Selection, seeing: Callable[[int, int, int], None]
) -> int:
    """Select the matches of a search of the whole queue; return how many messages could not be searched.

    ``seeing`` is called with (scanned, depth, matched).
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
    """Select the first ``limit`` matches by due time; return how many match, and how many could not be searched.

    ``bodies`` and ``sizes`` are read for the selected messages; ``hidden`` selects only hidden messages. ``seeing`` is
    called with (scanned, depth, matched). Raises what the reader raises, and ``PeekError``.
    """
    wanted = scope.filter
    if hidden:
        wanted = replace(wanted, terms=(*wanted.terms, Term("state", ":", ("hidden",))))
    if await reader.ranges.depth(queue) <= limit:
        unsearched = await select_matching(search(reader, queue, wanted, bodies=bodies, sizes=sizes), selection, seeing)
        if selection.count <= limit:
            return selection.count, unsearched
        # Messages arrived meanwhile: there are more than the limit.
        selection.clear()
    matched = unsearched = 0
    # If all match, the queue is read no further than the limit.
    count = min(limit, _CHUNK_MESSAGES) if wanted.is_empty else _CHUNK_MESSAGES
    chunks = _read(reader, queue, wanted, count, bodies=False, sizes=False)
    async with aclosing(search_chunks(chunks, wanted, None)) as found:
        async for part in found:
            chosen = [message._replace(body=None) for message in part.messages[: limit - selection.count]]
            if chosen:
                columns = tuple(zip(*chosen, strict=True))
                chunk = ScanChunk(part.at_ms, part.depth, columns)
                whole = await reader.scan.read(queue, chunk, counts=False, bodies=bodies, sizes=sizes or bodies)
                selection.add(whole.messages, part.at_ms)
            matched, unsearched = part.matched, part.not_searched
            seeing(part.scanned, max(part.depth, part.scanned), matched)
            if wanted.is_empty and selection.count >= limit:
                return max(part.depth, selection.count), 0
    return matched, unsearched


async def search_due_first(
    reader: QueueReader, queue: str, wanted: Filter, limit: int
) -> AsyncGenerator[Progress, None]:
    """Yield the first ``limit`` matches by due time, with their bodies.

    The queue is read from its front, no further than the last of them. Raises ``PeekError``. Close it with ``aclose``
    when leaving early.
    """
    count = min(limit, _CHUNK_MESSAGES) if wanted.is_empty else _CHUNK_MESSAGES
    chunks = _read(reader, queue, wanted, count, bodies=True, sizes=True)
    with in_words():
        async with aclosing(search_chunks(chunks, wanted, limit)) as found:
            async for progress in found:
                yield progress


async def _read(
    reader: QueueReader, queue: str, wanted: Filter, count: int, *, bodies: bool, sizes: bool
) -> AsyncGenerator[ScanChunk, None]:
    """Read a queue from its front, with the fields that the filter needs, and bodies and sizes if requested."""
    needs = wanted.needs()
    async with aclosing(reader.ranges.chunks(queue, count=count)) as chunks:
        async for chunk in chunks:
            yield await reader.scan.read(
                queue, chunk, counts=True, bodies=bodies or "body" in needs, sizes=sizes or "size" in needs
            )


def what_is_due_first(scope: Matching, limit: int, matched: int, chosen: int, *, hidden: bool = False) -> str:
    """Describe the selected messages, ``chosen`` of ``matched``; some of them may have left the queue since."""
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
    """Return ``base``, completed with what its action would do; ``names`` are the keys of target lists.

    Raises what the editor and the reader raise.
    """
    action = base.action
    check(action)
    base = replace(base, at_ms=await editor.clock_us() // 1000)
    if isinstance(action, Fix):
        return await preview_of_fix(reader, base, action, lambda *seen: seeing(Seeing(*seen)))
    if not isinstance(action, MessageAction):
        return await QUEUE_ACTIONS[type(action)].preview(editor, base, action, seeing)
    own, notes = await _notes(editor, action, names)
    guard = guard_of(action, scope)
    selection = Selection()

    def tell(scanned: int, depth: int, matched: int) -> None:
        seeing(Seeing(scanned, depth, matched))

    try:
        elsewhere = unsearched = changed = 0
        takes, moves = action.takes_away, isinstance(action, Move | Redrive)
        match scope:
            case Marked(messages=messages, even_if_received=False):
                elsewhere, changed = await select_marked(editor, action.queue, messages, selection)
            case Marked(messages=messages):
                elsewhere = await select_named(editor, action.queue, [one.id for one in messages], selection)
            case Named(ids=ids):
                elsewhere = await select_named(editor, action.queue, ids, selection)
            case Matching(limit=int() as limit):
                # A release has no effect on visible messages.
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
                # Removed messages go to the journal with their bodies; moved ones must not exceed the target's maxsize.
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
    """Return the guard of a scope's messages."""
    match scope:
        case Marked(even_if_received=True) | Named(even_if_received=True) | Matching(even_if_received=True):
            return SAME_MESSAGE
        case Marked() | Named():
            return UNCHANGED
        case Matching(filter=wanted, limit=int()) if wanted.is_empty:
            # They were selected because they are due first; a message that was received meanwhile no longer is.
            return UNCHANGED
        case Matching(filter=wanted):
            return still_matching(wanted)
    # A queue is deleted only while no client uses it.
    return UNCHANGED if isinstance(action, DeleteQueue) else SAME_MESSAGE


def _unit_notes(action: MessageAction, selection: Selection) -> Iterator[str]:
    """Yield notes on scores that are not in ms, and on the units of new scores."""
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
