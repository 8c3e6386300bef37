"""Taking a change back: its batches in reverse, each turned round and guarded as the change itself was."""

import asyncio
from collections.abc import AsyncGenerator

from rsmq_tui.monitor.wording import plural, printable
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.edits import Batch, EditKind, FieldBatch, MessageBatch, Outcome
from rsmq_tui.triage.actions import CreateQueue, Fix, SetAttributes
from rsmq_tui.triage.changes import Change, Entry
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.preparing import Prepared, removal_of


async def prepare_undo(editor: QueueEditor, journal: Journal, change: int) -> AsyncGenerator[Prepared, None]:
    """Prepare the way back of what was done; raises what the editor and the journal raise."""
    already = await asyncio.to_thread(journal.undone_numbers, change)
    is_rest = await asyncio.to_thread(_is_rest, journal, change, already)
    entries = journal.entries(change, newest_first=True)
    kind: str | None = None
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        if entry.number in already:
            continue
        prepared = await _inverse(editor, entry)
        if prepared is not None:
            prepared.undoes, prepared.counted = entry.number, entry.counted or is_rest
            before, kind = kind, _kind(entry.batch)
            if before not in (None, kind):
                # A message that was changed in several ways is changed back in the opposite order.
                yield Prepared(alone=True)
            yield prepared


def _kind(batch: Batch) -> str:
    return "fields" if isinstance(batch, FieldBatch) else batch.kind.value


async def _inverse(editor: QueueEditor, entry: Entry) -> Prepared | None:
    if not entry.outcome:
        return None
    inverse = entry.batch.inverse(entry.outcome)
    if inverse is None:
        return None
    if isinstance(inverse, FieldBatch):
        # A queue must be there before its messages are, and empty before it goes.
        return Prepared(inverse, alone=True)
    if not isinstance(inverse, MessageBatch) or inverse.kind is not EditKind.REMOVE:
        return Prepared(inverse)
    # What it puts there is not in the journal: it is read, so that taking it away can be taken back as well.
    seen = [before for before, _ in inverse.edits if before is not None]
    return await removal_of(editor, inverse.queue, seen, inverse.must_exist, inverse.sent)


def planned_undo(journal: Journal, change: int) -> int:
    """Count what there is to take back; where nothing that people asked for is left, what only served it counts."""
    counted, served = _left(journal, change, journal.undone_numbers(change))
    return counted or served


def undo_summary(change: Change) -> str:
    """Say in a line what there is to take back."""
    if change.name in (CreateQueue.name, SetAttributes.name, Fix.name):
        done = f"{change.past} queue {printable(change.queue)}, {change.what}"
    elif not change.done:
        done = f"made queue {change.target}" if change.target is not None else f"changed queue {change.queue}"
    else:
        done = f"{change.past} {plural(change.done, 'message')}, {change.what}"
    return f"change {change.change}: {done}"


def _is_rest(journal: Journal, change: int, already: set[int]) -> bool:
    """Tell whether only what served a change is left to be taken back, as a queue made for messages that never came."""
    found = journal.change(change)
    if found is not None and found.done and not already:
        # To look through all of its batches is not for nothing.
        return False
    return not _left(journal, change, already)[0]


def _left(journal: Journal, change: int, already: set[int]) -> tuple[int, int]:
    """Count what is left of what people asked for, and of what served it."""
    counted = served = 0
    for entry in journal.entries(change):
        if entry.number not in already:
            counted += entry.letters.count(Outcome.DONE)
            served += 0 if entry.counted else (entry.outcome or "").count(Outcome.DONE)
    return counted, served
