"""Finding out what a change would do: which messages it is for, and what each of them is now."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rsmq_tui.monitor.filters import parse_filter
from rsmq_tui.monitor.search import search
from rsmq_tui.monitor.wording import plural, printable, size
from rsmq_tui.protocol import QueueReader, name_of, rsmq_error
from rsmq_tui.protocol.editor import QueueEditor, QueueFields
from rsmq_tui.protocol.lists.naming import ListNames
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
)
from rsmq_tui.triage.due_first import select_due_first, what_is_due_first
from rsmq_tui.triage.fix_preview import preview_of_fix
from rsmq_tui.triage.guards import SAME_MESSAGE, UNCHANGED, Guard, still_matching
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.list_actions import target_of_rsmq
from rsmq_tui.triage.mixed import list_target_notes
from rsmq_tui.triage.origins import origin_notes
from rsmq_tui.triage.previews import Everything, Marked, Matching, Named, Preview, Scope
from rsmq_tui.triage.queue_actions import check
from rsmq_tui.triage.selecting import select_marked, select_matching, select_named
from rsmq_tui.triage.selection import Selection
from rsmq_tui.triage.transfer import FileSeen, file_seen, read_file
from rsmq_tui.triage.words import TriageError

_CHUNK_MESSAGES = 500
# What the journal needs for a message besides its body.
_OVERHEAD_BYTES = 200


class Seeing(NamedTuple):
    """How far a look has come: messages scanned of about ``depth``, and how many of them match."""

    scanned: int
    depth: int
    matched: int


SeeingCallback = Callable[[Seeing], None]


async def preview_of(
    editor: QueueEditor,
    reader: QueueReader,
    journal: Journal,
    profile: str,
    action: Action,
    scope: Scope | None,
    seeing: SeeingCallback,
    names: ListNames,
) -> Preview:
    """Find out what an action would do, also to lists of those names; raises what editor and reader raise."""
    check(action)
    at_ms = await editor.clock_us() // 1000
    base = Preview(
        action=action,
        what=printable(what_of(action, scope)),
        server=editor.label,
        ns=editor.ns,
        profile=profile,
        at_ms=at_ms,
        count=1,
        keep_days=journal.keep_days,
    )
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
        check_room(journal, selection, selection.bytes if takes else 0)
        origins = await origin_notes(editor, journal, action, selection) if isinstance(action, Redrive) else ()
    except BaseException:
        selection.close()
        raise
    return replace(
        base,
        at_ms=selection.at_ms or at_ms,
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


def what_of(action: Action, scope: Scope | None) -> str:
    """Say which messages a scope means."""
    match scope:
        case Marked(messages=messages):
            return f"the message {messages[0].id}" if len(messages) == 1 else f"the {len(messages):,} marked messages"
        case Named(ids=ids):
            return f"the message {ids[0]}" if len(ids) == 1 else f"the {len(ids):,} messages with these ids"
        case Matching(filter=wanted, limit=limit) if wanted.text.strip():
            first = f"any {limit:,} that " if limit is not None else ""
            return f"{first}match {wanted.text}, in the whole queue"
        case Matching(limit=limit) if limit is not None:
            return f"any {plural(limit, 'message')} of the queue"
    return "every message of the queue" if isinstance(action, MessageAction) else action.queue


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


async def counted(path: Path, seen: FileSeen, seeing: SeeingCallback) -> int:
    """Count the messages of a file, all of which can be read."""
    messages = read_file(path, seen)

    def read_on() -> int:
        return sum(1 for _ in islice(messages, _CHUNK_MESSAGES))

    count = 0
    while found := await asyncio.to_thread(read_on):
        count += found
        seeing(Seeing(count, count, count))
    return count


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


def check_room(journal: Journal, selection: Selection, bodies: int) -> None:
    """Raise ``TriageError`` where the journal cannot hold what a change would write, with so many bytes of bodies."""
    wanted = bodies + _OVERHEAD_BYTES * selection.count
    if wanted > journal.limit_bytes:
        raise TriageError(
            f"the journal would need {size(wanted)} for {plural(selection.count, 'message')}, and holds at most "
            f"{size(journal.limit_bytes)}: change fewer at a time, or raise RSMQ_TUI_JOURNAL_MB"
        )
