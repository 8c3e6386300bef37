"""Batches of RSMQ queues: their rows in the journal, and their inverse, with the same guards."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol import RawMessage, RsmqError, leading_int
from rsmq_tui.protocol.editing import Batch, EditExecutor
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import (
    Edit,
    EditKind,
    Edits,
    FieldBatch,
    FieldEdit,
    LooseBatch,
    LooseKind,
    MessageBatch,
)
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage.change import OF_QUEUE, Entry, Step
from rsmq_tui.triage.journal.batches import (
    DamageError,
    edits_of,
    name_for_row,
    name_from_row,
    pack,
    packed_edits,
    unpack,
)
from rsmq_tui.triage.rsmq.plan import removal_of
from rsmq_tui.triage.undo.inverse import BatchUndo

# Whether the messages exist before and after.
_SIDES = {EditKind.REMOVE: (True, False), EditKind.DROP: (True, False), EditKind.PUT: (False, True)}


def row_of(batch: MessageBatch | FieldBatch | LooseBatch) -> dict[str, object]:
    """Return the columns of a batch, other than kind and queue."""
    if isinstance(batch, MessageBatch):
        edits, target = packed_edits(batch.edits), name_for_row(batch.target)
        return {"target": target, "must_exist": int(batch.must_exist), "sent": batch.sent, "edits": edits}
    fields: dict[str, object] = {"edits": pack(list(zip(*batch.fields, strict=True)) or [(), (), ()])}
    if isinstance(batch, LooseBatch):
        return fields
    # In a batch of fields, must_exist and sent have other meanings.
    flags = {"must_exist": batch.empty, "sent": batch.held}
    flags |= {"listed_before": batch.listed_before, "listed_after": batch.listed_after}
    return fields | {name: int(flag) for name, flag in flags.items()}


def batch_of(row: Mapping[str, Any], queue: str) -> Batch:
    """Return the batch of a row; an invalid row raises ``DamageError``, or any error of decoding."""
    kind = row["kind"]
    if row["lists"] is not None:
        raise DamageError("it is of another kind of queue")
    if kind == FieldBatch.kind or kind in set(LooseKind):
        fields = tuple(FieldEdit(name or b"", *values) for name, *values in zip(*unpack(row["edits"]), strict=True))
        if kind != FieldBatch.kind:
            return LooseBatch(LooseKind(kind), queue, fields)
        listed = bool(row["listed_before"]), bool(row["listed_after"])
        return FieldBatch(queue, fields, *listed, bool(row["must_exist"]), bool(row["sent"]))
    target = None if row["target"] is None else name_from_row(row["target"])
    edits = edits_of(row["edits"])
    batch = MessageBatch(EditKind(kind), queue, edits, target, bool(row["must_exist"]), int(row["sent"]))
    has = edits.before is not None, edits.after is not None
    if has != _SIDES.get(batch.kind, (True, True)) or (target is None) is (batch.kind is EditKind.MOVE):
        raise DamageError("its messages do not match its kind")
    return batch


class RsmqUndo(BatchUndo):
    """Undoes the batches of RSMQ queues."""

    async def steps(self, editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
        """Yield the inverse of a batch."""
        outcome = await self.left(entry)
        inverse = entry.batch.inverse(outcome) if outcome else None
        if inverse is None:
            return
        queues = RsmqEditor.sharing(editor, editor.ns)
        if isinstance(inverse, FieldBatch):
            # A queue must exist before its messages, and be empty before it is deleted.
            outcomes: list[str] = []
            left = f"{OF_QUEUE}{'created again by others' if _creates_queue(inverse) else 'changed or removed since'}"
            yield Step(inverse, alone=True, on_outcome=outcomes.append, skip_reason=left)
            if outcomes == [Outcome.DONE] and _creates_queue(inverse) and not entry.counted:
                yield Step(note=f"queue {printable(inverse.queue)} was created again")
            if outcomes and _removes_queue(inverse):
                yield Step(note=await _removal_note(queues, inverse.queue, was_done=outcomes == [Outcome.DONE]))
        elif isinstance(inverse, MessageBatch) and inverse.kind is EditKind.REMOVE:
            # The journal has no bodies of messages that were put there: read them, so that the undo can be undone.
            seen = Edits.of(inverse.edits).known
            yield await removal_of(queues, inverse.queue, seen, must_exist=inverse.must_exist, sent=inverse.sent)
        else:
            yield Step(inverse)

    async def unchanged(self, editor: EditExecutor, entry: Entry) -> tuple[int, int]:
        """Compare the score and receive count of each message that the undo would change."""
        outcome = await self.left(entry)
        inverse = entry.batch.inverse(outcome) if outcome else None
        if not isinstance(inverse, MessageBatch):
            return 0, 0
        queues = RsmqEditor.sharing(editor, editor.ns)
        ids = inverse.ids
        _, found = await queues.messages(inverse.queue, ids, bodies=False)
        left = [edit.before for edit in inverse.edits]
        return len(ids), sum(map(_is_as_left, left, found))

    def recreated(self, entry: Entry) -> str | None:
        """Return the queue that a batch deleted, or None."""
        inverse = entry.batch.inverse(self.still_done(entry)) if isinstance(entry.batch, FieldBatch) else None
        return inverse.queue if isinstance(inverse, FieldBatch) and _creates_queue(inverse) else None

    async def missing(self, editor: EditExecutor, entry: Entry) -> str | None:
        """Return the queue to which messages go, or in which they stay, if it must exist and does not."""
        outcome = await self.left(entry)
        inverse = entry.batch.inverse(outcome) if outcome else None
        if not isinstance(inverse, MessageBatch) or inverse.kind is EditKind.REMOVE or not inverse.must_exist:
            return None
        queue = inverse.target or inverse.queue
        return None if await exists(editor, queue, editor.ns) else queue

    def undid(self, undo: Entry) -> list[Edit]:
        """Return the edits that count as undone: if the outcome was inferred, all of them.

        A message that had come back, and that a consumer has taken by then, must not come back again.
        """
        return list(undo.batch.edits) if undo.unsure else super().undid(undo)

    async def bodies(self, editor: EditExecutor, entry: Entry, outcome: str) -> list[bytes | None] | None:
        """Read the bodies of messages where the change has left them."""
        inverse = entry.batch.inverse(outcome)
        if not isinstance(inverse, MessageBatch):
            return None
        return await bodies_now(editor, inverse.queue, Edits.of(inverse.edits).known)

    def created(self, entry: Entry) -> str | None:
        """Return the queue that a batch created, or None."""
        inverse = entry.batch.inverse(self.still_done(entry)) if isinstance(entry.batch, FieldBatch) else None
        return inverse.queue if isinstance(inverse, FieldBatch) and _removes_queue(inverse) else None


async def exists(editor: EditExecutor, queue: str, ns: str) -> bool:
    """Return whether an RSMQ queue exists."""
    try:
        return (await RsmqEditor.sharing(editor, ns).fields(queue)).exists
    except RsmqError:
        return False


async def bodies_now(
    editor: EditExecutor, queue: str, messages: Sequence[RawMessage], ns: str | None = None
) -> list[bytes | None]:
    """Read the bodies of messages of a queue, as many at a time as the server can copy in a moment.

    None for those that are gone. The namespace is by default that of the editor.
    """
    queues = RsmqEditor.sharing(editor, editor.ns if ns is None else ns)
    bodies: list[bytes | None] = []
    for part in chunked(messages, weight=_weight):
        _, found = await queues.messages(queue, [message.id for message in part])
        bodies += [None if message is None else message.body for message in found]
    return bodies


def _weight(message: RawMessage) -> int:
    return message.size


def _is_as_left(left: RawMessage | None, now: RawMessage | None) -> bool:
    if left is None or now is None:
        return left is now
    return float(left.score) == float(now.score) and leading_int(left.rc) == leading_int(now.rc)


def _creates_queue(inverse: FieldBatch) -> bool:
    return any(name == b"vt" and before is None for name, before, _ in inverse.fields)


def _removes_queue(inverse: FieldBatch) -> bool:
    return inverse.empty and not inverse.listed_after


async def _removal_note(editor: RsmqEditor, queue: str, *, was_done: bool) -> str:
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
