"""Batches of RSMQ queues as rows of the journal, and back."""

from collections.abc import Mapping
from typing import Any

from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.rsmq.edits import EditKind, FieldBatch, FieldEdit, LooseBatch, LooseKind, MessageBatch
from rsmq_tui.triage.batches import DamageError, edits_of, known_name, pack, packed_edits, stored_name, unpack

# Whether the messages exist before and after.
_SIDES = {EditKind.REMOVE: (True, False), EditKind.DROP: (True, False), EditKind.PUT: (False, True)}


def row_of(batch: MessageBatch | FieldBatch | LooseBatch) -> dict[str, object]:
    """Return the columns of a batch, other than kind and queue."""
    if isinstance(batch, MessageBatch):
        edits, target = packed_edits(batch.edits), stored_name(batch.target)
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
    target = None if row["target"] is None else known_name(row["target"])
    edits = edits_of(row["edits"])
    batch = MessageBatch(EditKind(kind), queue, edits, target, bool(row["must_exist"]), int(row["sent"]))
    has = [(edit.before is not None, edit.after is not None) for edit in edits]
    if {*has} - {_SIDES.get(batch.kind, (True, True))} or (target is None) is (batch.kind is EditKind.MOVE):
        raise DamageError("its messages do not match its kind")
    return batch
