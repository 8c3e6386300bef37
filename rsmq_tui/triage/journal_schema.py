"""The tables of the journal, and how batches are written to rows and read back."""

from collections.abc import Iterator
from sqlite3 import Row

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.edits import Batch, Edit, EditKind, FieldBatch, FieldEdit, MessageBatch

VERSION = 1

# outcome: NULL until it is known, '' for a call that was never carried out, else its letters.
# edits: of a message what it was (id to body) and what it becomes (new_id to new_fr), NULL ids where it is not there,
# only new_score where nothing else changes; of a field its name in id, and its values in body and new_fr.
SCHEMA = """
CREATE TABLE changes (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    past TEXT NOT NULL,
    who TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    alive_ms INTEGER NOT NULL,
    profile TEXT NOT NULL,
    server TEXT NOT NULL,
    ns TEXT NOT NULL,
    queue TEXT NOT NULL,
    target TEXT,
    what TEXT NOT NULL,
    planned INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'running',
    undoes INTEGER REFERENCES changes (change)
);
CREATE TABLE batches (
    change INTEGER NOT NULL REFERENCES changes (change) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    token TEXT NOT NULL,
    undoes INTEGER,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    target TEXT,
    must_exist INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    listed_before INTEGER NOT NULL,
    listed_after INTEGER NOT NULL,
    outcome TEXT,
    PRIMARY KEY (change, number)
) WITHOUT ROWID;
CREATE TABLE edits (
    change INTEGER NOT NULL,
    number INTEGER NOT NULL,
    place INTEGER NOT NULL,
    id BLOB, score BLOB, rc BLOB, fr BLOB, size INTEGER, body BLOB,
    new_id BLOB, new_score BLOB, new_rc BLOB, new_fr BLOB,
    PRIMARY KEY (change, number, place),
    FOREIGN KEY (change, number) REFERENCES batches (change, number) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX moved ON edits (new_id) WHERE id IS NOT NULL AND new_id IS NOT NULL;
"""

FIELDS = "fields"
Values = tuple[object, ...]


def batch_row(batch: Batch) -> Values:
    """Return what the table of batches holds of a batch, from ``kind`` to ``listed_after``."""
    if isinstance(batch, FieldBatch):
        return FIELDS, batch.queue, None, batch.empty, 0, batch.listed_before, batch.listed_after
    return batch.kind, batch.queue, batch.target, batch.must_exist, batch.sent, 0, 0


def edit_rows(batch: Batch) -> Iterator[Values]:
    """Return what the table of edits holds of a batch, from ``id`` to ``new_fr``."""
    if isinstance(batch, FieldBatch):
        for name, value, new_value in batch.fields:
            yield name, None, None, None, None, value, None, None, None, new_value
        return
    nothing = (None, None, None, None)
    for before, after in batch.edits:
        if batch.kind is EditKind.RESCORE and before is not None and after is not None:
            yield (*before[:6], None, after.score, None, None)
            continue
        was = (*nothing, 0 if after is None else after.size, None) if before is None else before[:6]
        yield (*was, *(nothing if after is None else after[:4]))


def batch_of(row: Row, edits: list[Row]) -> Batch:
    """Read a batch back; a message that it put there comes without its body."""
    if row["kind"] == FIELDS:
        fields = tuple(FieldEdit(edit["id"], edit["body"], edit["new_fr"]) for edit in edits)
        listed = bool(row["listed_before"]), bool(row["listed_after"])
        return FieldBatch(row["queue"], fields, *listed, bool(row["must_exist"]))
    return MessageBatch(
        EditKind(row["kind"]),
        row["queue"],
        tuple(_edit_of(edit) for edit in edits),
        row["target"],
        bool(row["must_exist"]),
        row["sent"],
    )


def _edit_of(row: Row) -> Edit:
    before = after = None
    if row["id"] is not None:
        before = RawMessage(row["id"], row["score"], row["rc"], row["fr"], row["size"], row["body"])
    if row["new_id"] is not None:
        after = RawMessage(row["new_id"], row["new_score"], row["new_rc"], row["new_fr"], row["size"], None)
    elif before is not None and row["new_score"] is not None:
        after = before._replace(score=row["new_score"])
    return Edit(before, after)
