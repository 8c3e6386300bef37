"""The tables of the journal, and how batches are written to rows and read back."""

import json
from dataclasses import asdict
from sqlite3 import Row

from rsmq_tui.protocol import RawMessage, name_bytes, name_of
from rsmq_tui.protocol.batches import Batch
from rsmq_tui.protocol.edits import Edit, EditKind, FieldBatch, FieldEdit, LooseBatch, LooseKind, MessageBatch
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.packing import pack, unpack

VERSION = 3

# outcome: NULL until it is known, '' for a call that was never carried out, else its letters; unsure: nothing but what
# is there told them. settled: the audit log has a line of the change, and some of it became known later.
# markers: what was left on a server that is to be removed, but not at once: it may forbid a call that is on its way.
# undoes: no reference, because what was undone is dropped first; the numbers of changes never come again.
# edits: packed columns. Of messages what each was (id, score, rc, fr, size, body; no id where it was not there) and
# what it becomes (id, score, rc, fr); a body is kept only of what is taken away. Of fields: name, value, new value.
# must_exist and sent say of a batch of fields whether it must be empty, and whether its messages came before the queue.
# lists: of a batch of list queues, how their keys are named, and the namespaces of what is a queue of RSMQ, as JSON.
# The first version was never released; the second knew no list queues.
SCHEMA = """
DROP TABLE IF EXISTS batches;
DROP TABLE IF EXISTS changes;
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
    run_id TEXT,
    ns TEXT NOT NULL,
    queue TEXT NOT NULL,
    target TEXT,
    what TEXT NOT NULL,
    planned INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    unsure INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'running',
    undoes INTEGER,
    audited INTEGER NOT NULL DEFAULT 0,
    settled INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE batches (
    change INTEGER NOT NULL REFERENCES changes (change) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    token TEXT NOT NULL,
    undoes INTEGER,
    counted INTEGER NOT NULL,
    renames INTEGER NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    target TEXT,
    must_exist INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    listed_before INTEGER NOT NULL,
    listed_after INTEGER NOT NULL,
    outcome TEXT,
    unsure INTEGER NOT NULL DEFAULT 0,
    edits BLOB NOT NULL,
    lists TEXT,
    UNIQUE (change, number)
);
CREATE TABLE markers (
    token TEXT PRIMARY KEY,
    server TEXT NOT NULL,
    ns TEXT NOT NULL,
    at_ms INTEGER NOT NULL
);
"""

# From the second version to this one.
ADD_LISTS = "ALTER TABLE batches ADD COLUMN lists TEXT"

FIELDS = "fields"
_BEFORE = 6
Values = tuple[object, ...]


def stored_name(name: str | None) -> str | bytes | None:
    """Return what a table holds of a queue's name: bytes where it is no UTF-8, which SQLite does not take for text."""
    try:
        return None if name is None else name_bytes(name).decode()
    except UnicodeDecodeError:
        return name_bytes(name or "")


def known_name(stored: str | bytes) -> str:
    """Return the name of which that is held."""
    return name_of(stored) if isinstance(stored, bytes) else stored


def batch_row(batch: Batch) -> Values:
    """Return what the table of batches holds of a batch, from ``kind`` to ``listed_after``, and ``lists``."""
    if isinstance(batch, ListBatch):
        told = {"names": asdict(batch.names), "ns": batch.ns, "target_ns": batch.target_ns}
        names = stored_name(batch.queue), stored_name(batch.target)
        return batch.kind, *names, 0, batch.sent, 0, 0, json.dumps(told)
    if isinstance(batch, FieldBatch):
        flags = batch.empty, int(batch.held), batch.listed_before, batch.listed_after
        return FIELDS, stored_name(batch.queue), None, *flags, None
    if isinstance(batch, LooseBatch):
        return batch.kind, stored_name(batch.queue), None, 0, 0, 0, 0, None
    names = stored_name(batch.queue), stored_name(batch.target)
    return batch.kind, *names, batch.must_exist, batch.sent, 0, 0, None


def packed_edits(batch: Batch) -> bytes:
    """Return what the table of batches holds of its edits."""
    if isinstance(batch, FieldBatch | LooseBatch):
        return pack(list(zip(*batch.fields, strict=True)) or [(), (), ()])
    before = _columns([edit.before for edit in batch.edits])
    after = _columns([edit.after for edit in batch.edits])
    if isinstance(batch, ListBatch) and batch.kind is not ListKind.REMOVE:
        # What stays on the server is not kept here as well.
        before[5] = [None] * batch.size
    before[4] = [b"%d" % (edit.before or edit.after or _NOTHING).size for edit in batch.edits]
    return pack([*before, *after[:4]])


def batch_of(row: Row) -> Batch:
    """Read a batch back; a message that it put there comes without its body. Raises ValueError for what is broken."""
    columns = unpack(row["edits"])
    queue = known_name(row["queue"])
    if row["kind"] == FIELDS or row["kind"] in set(LooseKind):
        fields = tuple(FieldEdit(name or b"", *values) for name, *values in zip(*columns, strict=True))
        if row["kind"] != FIELDS:
            return LooseBatch(LooseKind(row["kind"]), queue, fields)
        listed = bool(row["listed_before"]), bool(row["listed_after"])
        return FieldBatch(queue, fields, *listed, bool(row["must_exist"]), bool(row["sent"]))
    sizes = [int(size or 0) for size in columns[4]]
    before = [
        None if id is None else RawMessage(id, score or b"", rc, fr, size, body)
        for id, score, rc, fr, size, body in zip(*columns[:4], sizes, columns[5], strict=True)
    ]
    after = [
        None if id is None else RawMessage(id, score or b"", rc, fr, size, None)
        for id, score, rc, fr, size in zip(*columns[_BEFORE:], sizes, strict=True)
    ]
    edits = tuple(map(Edit, before, after))
    if row["lists"] is not None:
        told = json.loads(row["lists"])
        target = None if row["target"] is None else known_name(row["target"])
        names = ListNames(**told["names"])
        return ListBatch(ListKind(row["kind"]), queue, edits, names, target, told["ns"], told["target_ns"], row["sent"])
    return MessageBatch(
        EditKind(row["kind"]),
        queue,
        edits,
        None if row["target"] is None else known_name(row["target"]),
        bool(row["must_exist"]),
        row["sent"],
    )


def new_ids(packed: bytes) -> list[bytes]:
    """Return the ids that the messages of a batch have afterwards."""
    return [id for id in unpack(packed)[_BEFORE] if id is not None]


_NOTHING = RawMessage(b"", b"", None, None, 0, None)


def _columns(messages: list[RawMessage | None]) -> list[list[bytes | None]]:
    there = [message for message in messages if message is not None]
    if not there:
        return [[None] * len(messages) for _ in _NOTHING]
    if len(there) < len(messages):
        raise ValueError("a batch whose messages are of two kinds")
    return [list(column) for column in zip(*there, strict=True)]
