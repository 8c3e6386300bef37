"""SQLite files that several processes share, ``SqliteFile``, and the journal's: its tables and checksums.

A file has a version. Every change and batch has a checksum of the columns that never change: a row that is damaged,
or was written by another program, is detected before it is used.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from rsmq_tui.triage.batches import DamageError

VERSION = 4
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
# Version 1 was never released; version 2 had no list queues, version 3 no checksums.
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
    counted_ms INTEGER NOT NULL DEFAULT 0
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
                "settled", "checksum", "written", "counted_ms"),
    "batches": (*_SEALED["batches"], "outcome", "unsure", "checksum", "outcome_checksum"),
    "markers": ("token", "server", "ns", "at_ms"),
    "clock": ("last_ms", "counted_ms"),
}
# The columns that each version added, including those of new tables.
BROUGHT = {
    3: {("batches", "lists")},
    4: {("changes", "checksum"), ("changes", "written"), ("changes", "counted_ms"), ("batches", "checksum"),
        ("batches", "outcome_checksum"), ("clock", "last_ms"), ("clock", "counted_ms")},
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


_OPENING_S, _OPENING_WAIT_S = 10.0, 0.02
# How long to wait while another program has locked the file.
LOCK_WAIT_S = 5.0

_MOVE_AWAY = "move it away to start a new one"
# SQLite's primary result codes -> a reason for people.
_REASONS = {
    sqlite3.SQLITE_BUSY: "another program has locked it",
    sqlite3.SQLITE_LOCKED: "another program has locked it",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_PERM: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it, or its folder, cannot be opened for writing",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CORRUPT: f"it is damaged; {_MOVE_AWAY}",
    sqlite3.SQLITE_NOTADB: f"it is not one of rsmq-tui, or it is damaged; {_MOVE_AWAY}",
}


class JournalError(Exception):
    """The journal cannot be written or read; its text is for people. Nothing is changed without a journal."""


class JournalGoneError(JournalError):
    """The change is no longer in the journal, so it could not be undone."""


class SqliteFile:
    """The SQLite file ``path``, created if needed; raises ``error_type``. Close it with ``close``.

    It may be used by several threads and processes at once. A subclass has its form: ``columns`` are those of each
    table of ``schema``, ``brought`` those that each version added, ``migrations`` the statements that lead to it.
    ``what`` names the file in sentences. ``synchronous`` is SQLite's setting, ``cache_kb`` the size of its page cache.
    """

    what: ClassVar[str]
    error_type: ClassVar[type[Exception]]
    version: ClassVar[int]
    application_id: ClassVar[int]
    schema: ClassVar[str]
    columns: ClassVar[Mapping[str, Sequence[str]]]
    migrations: ClassVar[Mapping[int, Sequence[str]]] = {}
    brought: ClassVar[Mapping[int, Set[tuple[str, str]]]] = {}
    synchronous: ClassVar[str] = "FULL"
    # Most read only the last rows. A larger cache would fill with the others within hours.
    cache_kb: ClassVar[int] = 256

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._seen: object = None
        with self.explained():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # An existing file is not opened here: closing it would release the locks of all SQLite connections of this
            # process to it, and another program could then delete the write-ahead log that they use.
            with suppress(FileExistsError):
                # Bodies may contain secrets: only the user may ever read the file.
                os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._identity = _identity(path.stat())
            self.db = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
            self.db.row_factory = sqlite3.Row
            self.db.text_factory = _text
            try:
                self._open()
            except BaseException:
                self.db.close()
                raise

    @property
    def is_in_place(self) -> bool:
        """True while the open file is the one at ``path``, and was not removed or replaced."""
        try:
            return _identity(self.path.stat()) == self._identity
        except OSError:
            return False

    def refuse_if_removed(self) -> None:
        """Raise an error if the file was removed or replaced: what is written to it would be lost."""
        if not self.is_in_place:
            raise self.gone()

    def gone(self) -> Exception:
        """Return the error for a file that was removed or replaced."""
        return self.error_type(f"the {self.what} {self.path} was removed or replaced")

    def size_bytes(self) -> int:
        """Return the size of the used pages of the file."""
        pages, free, size = (
            self.db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def has_news(self) -> bool:
        """Return whether this or another program has written since the last call."""
        with self.explained():
            # data_version changes if another connection has written, total_changes if this one has.
            seen = self.db.execute("PRAGMA data_version").fetchone()[0], self.db.total_changes
        is_new, self._seen = seen != self._seen, seen
        return is_new

    def close(self) -> None:
        """Close the file, after other threads have finished with it; an error is ignored: transactions have ended."""
        with self._lock, suppress(sqlite3.Error):
            self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction; raises the error ``gone`` if the file was removed or replaced."""
        with self._lock:
            self.refuse_if_removed()
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                # A full disk has already ended the transaction.
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise errors as ``error_type``."""
        # A thread continues after its caller was cancelled; closing the file under it would crash the program.
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> Exception:
        """Return an error as ``error_type``."""
        reason = str(error)
        if isinstance(error, sqlite3.Error):
            # Errors of the sqlite3 module itself, such as for a closed file, have no code.
            reason = _REASONS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, reason)
        elif isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        return self.error_type(f"the {self.what} {self.path} cannot be used: {reason}")

    def _prepare_file(self) -> None:
        # SQLite's timeout does not apply when several programs create a new file at the same time.
        give_up_s = time.monotonic() + min(_OPENING_S, LOCK_WAIT_S)
        while True:
            try:
                # Check the file before writing anything: it may belong to another program.
                self._version()
                if self.db.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
                    self.db.execute("PRAGMA auto_vacuum = INCREMENTAL")
                self.db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > give_up_s:
                    raise
                time.sleep(_OPENING_WAIT_S)

    def _open(self) -> None:
        self.db.execute("PRAGMA trusted_schema = OFF")
        self.db.execute("PRAGMA foreign_keys = ON")
        self._prepare_file()
        self.db.execute(f"PRAGMA synchronous = {self.synchronous}")
        self.db.execute(f"PRAGMA cache_size = -{self.cache_kb}")
        if self._version() < self.version:
            with self.transaction():
                self._migrate(self._version())
            self._version()

    def _version(self) -> int:
        """Return the version of the file, 0 if it is empty; raises an error if it is no such file."""
        # Read in one transaction, because another program may be creating the file.
        with self._snapshot():
            version = int(self.db.execute("PRAGMA user_version").fetchone()[0])
            application = self.db.execute("PRAGMA application_id").fetchone()[0]
            kinds = {row[0] for row in self.db.execute("SELECT type FROM sqlite_master")}
            has_columns = not version or self._has_columns(version)
        if application == self.application_id and version > self.version:
            raise self.error_type(f"{self.path} was written by a newer rsmq-tui: upgrade this one")
        if application == self.application_id:
            is_ours = bool(version)
        else:
            # Before version 4, a journal had a version but no application id.
            is_ours = not application and (version in self.migrations or not (version or kinds))
        # A trigger or view could change what is written.
        if not is_ours or kinds & {"trigger", "view"} or not has_columns:
            raise self._foreign()
        return version

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def _has_columns(self, version: int) -> bool:
        """Return whether the tables have the columns of that version."""
        later = {pair for number, pairs in self.brought.items() if number > version for pair in pairs}
        wanted = {(table, column) for table, columns in self.columns.items() for column in columns} - later
        tables = {table: self.db.execute(f"PRAGMA table_info({table})") for table in self.columns}
        there = {(table, row["name"]) for table, rows in tables.items() for row in rows}
        return wanted <= there

    def _migrate(self, version: int) -> None:
        for number in range(version, self.version) if version else ():
            for statement in self.migrations[number]:
                self.db.execute(statement)
        for statement in () if version else self.schema.split(";"):
            self.db.execute(statement)
        self.db.execute(f"PRAGMA application_id = {self.application_id}")
        self.db.execute(f"PRAGMA user_version = {self.version}")

    def _foreign(self) -> Exception:
        reason = f"it is not one of rsmq-tui; {_MOVE_AWAY}"
        return self.error_type(f"the {self.what} {self.path} cannot be used: {reason}")


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


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _text(raw: bytes) -> str | bytes:
    """Decode a text; one that is not UTF-8 stays bytes, which the checks then report as damaged."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
