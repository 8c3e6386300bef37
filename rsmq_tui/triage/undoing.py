"""Taking a change back: its batches in reverse, each turned round and guarded as the change itself was."""

import asyncio
from collections.abc import AsyncGenerator

from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.edits import EditKind, MessageBatch, Outcome
from rsmq_tui.triage.changes import Entry
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.preparing import Prepared, removal_of


async def prepare_undo(editor: QueueEditor, journal: Journal, change: int) -> AsyncGenerator[Prepared, None]:
    """Prepare the way back of what was done; raises what the editor and the journal raise."""
    already = await asyncio.to_thread(journal.undone_numbers, change)
    entries = journal.entries(change, newest_first=True)
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        if entry.number in already:
            continue
        prepared = await _inverse(editor, entry)
        if prepared is not None:
            prepared.undoes, prepared.counted = entry.number, entry.counted
            yield prepared


async def _inverse(editor: QueueEditor, entry: Entry) -> Prepared | None:
    if not entry.outcome:
        return None
    inverse = entry.batch.inverse(entry.outcome)
    if inverse is None:
        return None
    if not isinstance(inverse, MessageBatch):
        # A queue must be there before its messages are, and empty before it goes.
        return Prepared(inverse, alone=True)
    if inverse.kind is not EditKind.REMOVE:
        return Prepared(inverse)
    # What it puts there is not in the journal: it is read, so that taking it away can be taken back as well.
    seen = [before for before, _ in inverse.edits if before is not None]
    return await removal_of(editor, inverse.queue, seen, inverse.must_exist, inverse.sent)


def planned_undo(journal: Journal, change: int) -> int:
    """Count what there is to take back."""
    already = journal.undone_numbers(change)
    return sum(entry.letters.count(Outcome.DONE) for entry in journal.entries(change) if entry.number not in already)
