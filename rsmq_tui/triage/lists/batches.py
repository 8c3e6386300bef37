"""Batches of list queues as rows of the journal, and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rsmq_tui.protocol.lists.edits import ListBatch, ListKind
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.batches import DamageError, edits_of, known_name, packed_edits, stored_name


def row_of(batch: ListBatch) -> dict[str, object]:
    """Return the columns of a batch, other than kind and queue."""
    told = {"names": asdict(batch.names), "ns": batch.ns, "target_ns": batch.target_ns, "first": batch.first}
    # The journal keeps bodies only of items that are removed from the server.
    edits = packed_edits(batch.edits, bodies=batch.takes_away)
    return {"target": stored_name(batch.target), "sent": batch.sent, "lists": json.dumps(told), "edits": edits}


def batch_of(row: Mapping[str, Any], queue: str) -> ListBatch:
    """Return the batch of a row; an invalid row raises ``DamageError``, or any error of decoding."""
    told = json.loads(row["lists"])
    names = ListNames(**told["names"])
    namespaces = told["ns"], told["target_ns"]
    if not all(isinstance(text, str) for text in (*asdict(names).values(), *filter(None, namespaces))):
        raise DamageError("the names of its keys are invalid")
    is_first = told.get("first", False)
    if not isinstance(is_first, bool):
        raise DamageError("the end to which its items go is invalid")
    target = None if row["target"] is None else known_name(row["target"])
    edits = edits_of(row["edits"])
    return ListBatch(ListKind(row["kind"]), queue, edits, names, target, *namespaces, int(row["sent"]), is_first)
