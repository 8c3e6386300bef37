"""The inverse of a batch of RSMQ queues, with the same guards."""

from collections.abc import AsyncGenerator

from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.rsmq.editor import QueueEditor
from rsmq_tui.protocol.rsmq.edits import EditKind, FieldBatch, MessageBatch, Outcome
from rsmq_tui.triage.change import Entry, Step
from rsmq_tui.triage.rsmq.plan import removal_of
from rsmq_tui.triage.undo import BatchUndo


class RsmqUndo(BatchUndo):
    """Undoes the batches of RSMQ queues, each as a whole."""

    def still_done(self, entry: Entry) -> str:
        """Return the outcome, empty if the batch was undone."""
        return "" if entry.number in self.already else entry.outcome or ""

    async def steps(self, editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
        """Yield the inverse of a batch."""
        outcome = self.still_done(entry)
        inverse = entry.batch.inverse(outcome) if outcome else None
        if inverse is None:
            return
        queues = editor if isinstance(editor, QueueEditor) else QueueEditor.sharing(editor, editor.ns)
        if isinstance(inverse, FieldBatch):
            # A queue must exist before its messages, and be empty before it is deleted.
            heard: list[str] = []
            yield Step(inverse, alone=True, heard=heard.append)
            if heard and _removes_queue(inverse):
                yield Step(note=await _removal_note(queues, inverse.queue, was_done=heard == [Outcome.DONE]))
        elif isinstance(inverse, MessageBatch) and inverse.kind is EditKind.REMOVE:
            # The journal has no bodies of messages that were put there: read them, so that the undo can be undone.
            seen = [before for before, _ in inverse.edits if before is not None]
            yield await removal_of(queues, inverse.queue, seen, inverse.must_exist, inverse.sent)
        else:
            yield Step(inverse)

    def created(self, entry: Entry) -> str | None:
        """Return the queue that a batch created, or None."""
        inverse = entry.batch.inverse(self.still_done(entry)) if isinstance(entry.batch, FieldBatch) else None
        return inverse.queue if isinstance(inverse, FieldBatch) and _removes_queue(inverse) else None


def _removes_queue(inverse: FieldBatch) -> bool:
    return inverse.empty and not inverse.listed_after


async def _removal_note(editor: QueueEditor, queue: str, *, was_done: bool) -> str:
    """Return what happened to a queue that the change had created."""
    shown = printable(queue)
    if was_done:
        return f"queue {shown}, which the change created, was removed"
    now = await editor.fields(queue)
    if now.depth:
        return f"queue {shown}, which the change created, was kept: it holds {plural(now.depth, 'message')}"
    if not now.exists:
        return f"queue {shown}, which the change created, no longer exists"
    return f"queue {shown}, which the change created, was kept: it has been used or changed since"
