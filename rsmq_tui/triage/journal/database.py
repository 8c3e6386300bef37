"""The SQLite file of the journal: its tables, versions and checksums.

Every change and batch has a checksum of the columns that never change: a row that is damaged, or was written by another
program, is detected before it is used.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from rsmq_tui.sqlite_file import SqliteFile
from rsmq_tui.triage.journal.batches import DamageError

VERSION = 5
# "rsmq", in the file's header.
APPLICATION_ID = 0x72736D71

# outcome: NULL until it is known, '' for a call that was never carried out, else its letters. unsure: the outcome was
# inferred from the queue's current state. settled: the audit log has a line of the change from before its outcome was
# complete.
# markers: markers that are still on a server and are removed later, because they may void a call that is under way.
# undoes: not a foreign key, because the undone change is dropped first. A file never reuses numbers of changes.
# edits: packed columns. For messages: before (id, score, rc, fr, size, body; id is NULL if the message did not exist)
# and after (id, score, rc, fr); bodies only of removed messages. For fields: name, value, new value.
# must_exist, sent: for a batch of fields, whether the queue must be empty, and whether messages existed before it.
# lists: for list queues, a JSON object with the names of their keys, the namespaces of RSMQ queues, and the end to
# which items go. Earlier versions did not store the end, and stored positions in ids, which are ignored.
# checksum: of the columns in _SEALED, or 'none' in rows of versions without checksums. outcome_checksum: of outcome
# and unsure.
# written: the number of batches of the change, NULL if an earlier version wrote it.
# counted_ms: when the change began, by the journal's own time in clock. That time advances only on reads, by at most a
# day between two reads, so that a clock that jumps expires nothing.
# part: whether it undoes only some messages of the change that it undoes.
# Version 1 was never released; version 2 had no list queues, version 3 no checksums, version 4 no undo of a part.
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
    settled INTEGER NOT NULL DEFAULT 0,
    checksum TEXT NOT NULL DEFAULT 'none',
    written INTEGER,
    counted_ms INTEGER NOT NULL DEFAULT 0,
    part INTEGER NOT NULL DEFAULT 0
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
    checksum TEXT NOT NULL DEFAULT 'none',
    outcome_checksum TEXT NOT NULL DEFAULT 'none',
    UNIQUE (change, number)
);
CREATE TABLE markers (
    token TEXT PRIMARY KEY,
    server TEXT NOT NULL,
    ns TEXT NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE TABLE clock (last_ms INTEGER NOT NULL, counted_ms INTEGER NOT NULL);
INSERT INTO clock VALUES (0, 0)
"""

# Statements that migrate each version to the next.
MIGRATIONS = {
    2: ("ALTER TABLE batches ADD COLUMN lists TEXT",),
    3: (
        "ALTER TABLE changes ADD COLUMN checksum TEXT NOT NULL DEFAULT 'none'",
        "ALTER TABLE changes ADD COLUMN written INTEGER",
        "ALTER TABLE changes ADD COLUMN counted_ms INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE batches ADD COLUMN checksum TEXT NOT NULL DEFAULT 'none'",
        "ALTER TABLE batches ADD COLUMN outcome_checksum TEXT NOT NULL DEFAULT 'none'",
        "CREATE TABLE clock (last_ms INTEGER NOT NULL, counted_ms INTEGER NOT NULL)",
        "INSERT INTO clock VALUES (0, 0)",
    ),
    4: ("ALTER TABLE changes ADD COLUMN part INTEGER NOT NULL DEFAULT 0",),
}

# fmt: off
_SEALED = {
    "changes": ("change", "at_ms", "name", "past", "who", "host", "profile", "server", "run_id", "ns", "queue",
                "target", "what", "planned", "undoes"),
    "batches": ("change", "number", "token", "undoes", "counted", "renames", "kind", "queue", "target", "must_exist",
                "sent", "listed_before", "listed_after", "lists", "edits"),
}
COLUMNS = {
    "changes": (*_SEALED["changes"], "pid", "alive_ms", "done", "skipped", "failed", "unsure", "state", "audited",
                "settled", "checksum", "written", "counted_ms", "part"),
    "batches": (*_SEALED["batches"], "outcome", "unsure", "checksum", "outcome_checksum"),
    "markers": ("token", "server", "ns", "at_ms"),
    "clock": ("last_ms", "counted_ms"),
}
# The columns that each version added, including those of new tables.
BROUGHT = {
    3: {("batches", "lists")},
    4: {("changes", "checksum"), ("changes", "written"), ("changes", "counted_ms"), ("batches", "checksum"),
        ("batches", "outcome_checksum"), ("clock", "last_ms"), ("clock", "counted_ms")},
    5: {("changes", "part")},
}
# fmt: on
_UNSEALED = "none"
_CHECKSUM_CHARS = 32


def checksum(*values: object) -> str:
    """Return the checksum of values as SQLite stores them; values of different types have different checksums."""
    sealed = sha256()
    for value in values:
        raw = value if isinstance(value, bytes) else str(int(value) if isinstance(value, bool) else value).encode()
        kind = b"n" if value is None else b"b" if isinstance(value, bytes) else b"t" if isinstance(value, str) else b"i"
        sealed.update(b"%b%d:" % (kind, len(raw)))
        sealed.update(raw)
    return sealed.hexdigest()[:_CHECKSUM_CHARS]


def sealed(table: str, row: Mapping[str, object]) -> str:
    """Return the checksum of a row of ``changes`` or ``batches``."""
    return checksum(*(row[name] for name in _SEALED[table]))


def outcome_checksum(row: object, outcome: object, unsure: object) -> str:
    """Return the checksum of a batch's outcome; ``row`` is the checksum of the batch."""
    return checksum(row, outcome, unsure)


def refuse_damaged(table: str, row: Mapping[str, object]) -> None:
    """Raise ``DamageError`` if a row does not match its checksums; a row of a version without them is accepted."""
    if row["checksum"] not in (_UNSEALED, sealed(table, row)):
        raise DamageError("its checksum does not match")
    if table == "batches" and row["outcome"] is not None:
        wanted = outcome_checksum(row["checksum"], row["outcome"], row["unsure"])
        is_old = row["checksum"] == row["outcome_checksum"] == _UNSEALED
        if not is_old and row["outcome_checksum"] != wanted:
            raise DamageError("the checksum of its outcome does not match")


class JournalError(Exception):
    """The journal cannot be written or read; its text is for people. Nothing is changed without a journal."""


class JournalGoneError(JournalError):
    """The change is no longer in the journal, so it could not be undone."""


class JournalFile(SqliteFile):
    """The file of a journal; raises ``JournalError``, and ``JournalGoneError`` if it was removed or replaced."""

    what = "journal"
    error_type = JournalError
    version = VERSION
    application_id = APPLICATION_ID
    schema = SCHEMA
    columns = COLUMNS
    migrations = MIGRATIONS
    brought = BROUGHT
    # ``synchronous`` is FULL: a crash of the machine loses no batch that was sent. A change writes thousands of rows.
    cache_kb = 2_000

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.db.create_function("outcome_checksum", 3, outcome_checksum, deterministic=True)

    def gone(self) -> Exception:
        """Return the error for a file that was removed or replaced."""
        return JournalGoneError(
            f"the journal {self.path} was removed or replaced: what this change did can no longer be undone"
        )
