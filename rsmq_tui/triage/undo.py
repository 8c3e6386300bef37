"""Undoes a change: the inverse of its batches in reverse order, guarded as the change itself was.

A message of which it is unknown whether the change or a consumer removed it is unsettled: it is put back only if that
is asked for explicitly.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol.editing import Batch, EditExecutor
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind
from rsmq_tui.protocol.rsmq.editor import QueueEditor
from rsmq_tui.protocol.rsmq.edits import EditKind, FieldBatch, MessageBatch, Outcome
from rsmq_tui.triage.actions import CreateQueue, Fix, SetAttributes
from rsmq_tui.triage.change import Change, Entry
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.lists.undo import ListUndo, still_done
from rsmq_tui.triage.plan import Step, removal_of

_TAKE_AWAY = (EditKind.REMOVE, EditKind.DROP, ListKind.REMOVE)


class LeftToUndo(NamedTuple):
    """How many messages (or queues) an undo is for, how many messages are unsettled, and which queues were created."""

    planned: int
    unsettled: int
    created: tuple[str, ...]


async def prepare_undo(
    editor: EditExecutor, journal: Journal, change: int, *, unsettled: bool = False
) -> AsyncGenerator[Step, None]:
    """Prepare the way back of what was done, ``unsettled`` batches only if that is said.

    Raises what the editor and the journal raise.
    """
    already = await asyncio.to_thread(journal.undone_numbers, change)
    is_rest = await asyncio.to_thread(_is_rest, journal, change, already)
    entries = journal.entries(change, newest_first=True)
    kind: str | None = None
    lists = ListUndo(editor, journal, change)
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        if _is_unsettled(entry) and not unsettled:
            continue
        if isinstance(entry.batch, ListBatch):
            steps = lists.steps(entry)
        elif entry.number in already:
            continue
        else:
            steps = _inverse(editor, entry)
        async for prepared in steps:
            prepared.undoes, prepared.counted = entry.number, entry.counted or is_rest
            before, kind = kind, _kind(entry.batch)
            if before not in (None, kind):
                # A message that was changed in several ways is changed back in the opposite order.
                yield Step(alone=True)
            yield prepared


def _kind(batch: Batch) -> str:
    return "fields" if isinstance(batch, FieldBatch) else batch.kind.value


async def _inverse(editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
    inverse = entry.batch.inverse(entry.outcome) if entry.outcome else None
    if inverse is None:
        return
    if isinstance(inverse, FieldBatch):
        # A queue must be there before its messages are, and empty before it goes.
        outcome: list[str] = []
        yield Step(inverse, alone=True, heard=outcome.append)
        if outcome and _removes_queue(inverse):
            was_done = outcome == [Outcome.DONE]
            yield Step(note=await _removal_note(_queues_of(editor), inverse.queue, was_done=was_done))
        return
    if not isinstance(inverse, MessageBatch) or inverse.kind is not EditKind.REMOVE:
        yield Step(inverse)
        return
    # What it puts there is not in the journal: it is read, so that taking it away can be taken back as well.
    seen = [before for before, _ in inverse.edits if before is not None]
    yield await removal_of(_queues_of(editor), inverse.queue, seen, inverse.must_exist, inverse.sent)


def _queues_of(editor: EditExecutor) -> QueueEditor:
    return editor if isinstance(editor, QueueEditor) else QueueEditor.beside(editor, editor.ns)


def _removes_queue(inverse: FieldBatch) -> bool:
    return inverse.empty and not inverse.listed_after


async def _removal_note(editor: QueueEditor, queue: str, *, was_done: bool) -> str:
    """Say what became of a queue that the change had created."""
    shown = printable(queue)
    if was_done:
        return f"queue {shown}, which the change created, was removed"
    now = await editor.fields(queue)
    if now.depth:
        return f"queue {shown}, which the change created, was kept: it holds {plural(now.depth, 'message')}"
    if not now.exists:
        return f"queue {shown}, which the change created, no longer exists"
    return f"queue {shown}, which the change created, was kept: it has been used or changed since"


def left_to_undo(journal: Journal, change: int, *, unsettled: bool = False) -> LeftToUndo:
    """Count what there is to take back; where nothing that people asked for is left, what only served it counts."""
    counted, served, doubtful, created = _left(journal, change, journal.undone_numbers(change))
    return LeftToUndo((counted or served) + (doubtful if unsettled else 0), doubtful, created)


def removal_notes(left: LeftToUndo) -> list[str]:
    """Say which queues an undo removes, and when it does not."""
    return [
        f"Queue {printable(queue)}, which the change created, is removed if it is empty then and nobody else has used "
        "it; otherwise it is kept."
        for queue in left.created
    ]


def undo_summary(change: Change) -> str:
    """Say in a line what there is to take back."""
    if change.name in (CreateQueue.name, SetAttributes.name, Fix.name):
        done = f"{change.past} queue {printable(change.queue)}, {change.what}"
    elif not change.done:
        done = f"created queue {change.target}" if change.target is not None else f"changed queue {change.queue}"
    else:
        done = f"{change.past} {plural(change.done, 'message')}, {change.what}"
    return f"change {change.change}: {done}"


def _is_rest(journal: Journal, change: int, already: set[int]) -> bool:
    """Tell whether only what served a change is left to be taken back, as a queue made for messages that never came."""
    found = journal.change(change)
    if found is not None and found.done and not already:
        # To look through all of its batches is not for nothing.
        return False
    counted, _, doubtful, _ = _left(journal, change, already)
    return not counted + doubtful


def _is_unsettled(entry: Entry) -> bool:
    """Tell whether to take a batch back may put messages back that a consumer has taken.

    All else that is unsure is guarded by what is there: what this change did not do is not taken back.
    """
    return entry.unsure and not isinstance(entry.batch, FieldBatch) and entry.batch.kind in _TAKE_AWAY


def _left(journal: Journal, change: int, already: set[int]) -> tuple[int, int, int, tuple[str, ...]]:
    """Count what is left of what people asked for, of what served it, and what of it is unsettled.

    Last come the queues that the change created.
    """
    counted = served = doubtful = 0
    created: list[str] = []
    for entry in journal.entries(change):
        if isinstance(entry.batch, ListBatch):
            done = still_done(journal, change, entry).count(Outcome.DONE)
        else:
            done = 0 if entry.number in already else (entry.outcome or "").count(Outcome.DONE)
            if done and isinstance(entry.batch, FieldBatch):
                inverse = entry.batch.inverse(entry.outcome or "")
                created += [inverse.queue] if inverse is not None and _removes_queue(inverse) else []
        if _is_unsettled(entry):
            doubtful += done
        elif entry.counted or isinstance(entry.batch, ListBatch):
            counted += done
        else:
            served += done
    return counted, served, doubtful, tuple(created)
