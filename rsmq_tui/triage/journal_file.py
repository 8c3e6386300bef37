"""The journal's file: opened with care, one transaction at a time, and every failure told in words."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rsmq_tui.triage.journal_schema import (
    APPLICATION_ID,
    BROUGHT,
    COLUMNS,
    MIGRATIONS,
    SCHEMA,
    VERSION,
    outcome_checksum,
)

_OPENING_S, _OPENING_WAIT_S = 10.0, 0.02
# How long another program may hold the file locked.
LOCK_WAIT_S = 5.0

_MOVE_AWAY = "move it away to start a new one"
# What SQLite's primary result codes mean to people.
_REASONS = {
    sqlite3.SQLITE_BUSY: "another program has locked it",
    sqlite3.SQLITE_LOCKED: "another program has locked it",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_PERM: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it, or its folder, cannot be opened for writing",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CORRUPT: f"it is damaged; {_MOVE_AWAY}",
    sqlite3.SQLITE_NOTADB: f"it is not a journal of rsmq-tui, or it is damaged; {_MOVE_AWAY}",
}


class JournalError(Exception):
    """The journal cannot be written or read, in words for people: nothing is changed without it."""


class JournalGoneError(JournalError):
    """What is being written to is no longer in the journal, so that it could not be undone."""


class JournalFile:
    """The SQLite file ``path``, which is made if need be; raises ``JournalError``. Close it with ``close``.

    May be used from several threads, and by several processes at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        with self.told():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Bodies may be anybody's secrets: the file is the user's alone from its first byte on.
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                self._identity = _identity(os.fstat(descriptor))
            finally:
                os.close(descriptor)
            self.db = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
            self.db.row_factory = sqlite3.Row
            self.db.text_factory = _text
            self.db.create_function("outcome_checksum", 3, outcome_checksum, deterministic=True)
            try:
                self._open()
            except BaseException:
                self.db.close()
                raise

    @property
    def is_in_place(self) -> bool:
        """True while this is the file that is found at ``path``, and not one that was removed or replaced."""
        try:
            return _identity(self.path.stat()) == self._identity
        except OSError:
            return False

    def refuse_if_removed(self) -> None:
        """Raise ``JournalGoneError`` when the file was removed or replaced: what is written there nobody ever finds."""
        if not self.is_in_place:
            raise JournalGoneError(
                f"the journal {self.path} was removed or replaced: what this change did can no longer be undone"
            )

    def size_bytes(self) -> int:
        """Return how much of the file is in use."""
        pages, free, size = (
            self.db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def close(self) -> None:
        """Close the file, when nobody is at work in it any more."""
        with self._lock:
            self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all of it or nothing, in the file that is found at ``path``."""
        with self._lock:
            self.refuse_if_removed()
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                # A full disk has ended it already.
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise what goes wrong as ``JournalError``."""
        # A thread whose caller was cancelled works on: to close the file under it would end the program.
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> JournalError:
        """Return an error of the file in words."""
        reason = str(error)
        if isinstance(error, sqlite3.Error):
            # Errors of the module itself, as for a closed file, have no code.
            reason = _REASONS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, reason)
        elif isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        return JournalError(f"the journal {self.path} cannot be used: {reason}")

    def _prepare_file(self) -> None:
        # SQLite does not wait for others who open a new file at the same moment, whatever its timeout.
        give_up_s = time.monotonic() + min(_OPENING_S, LOCK_WAIT_S)
        while True:
            try:
                # Before anything is written: it may be somebody else's.
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
        # Written means written: a crash of the machine loses no batch that the server was asked for.
        self.db.execute("PRAGMA synchronous = FULL")
        if self._version() < VERSION:
            with self.transaction():
                self._migrate(self._version())
            self._version()

    def _version(self) -> int:
        """Return the version of what is in the file, 0 for nothing; raises ``JournalError`` for what is not ours."""
        # Its parts are read as of one moment: somebody else may be making the file just now.
        with self._snapshot():
            version = int(self.db.execute("PRAGMA user_version").fetchone()[0])
            application = self.db.execute("PRAGMA application_id").fetchone()[0]
            kinds = {row[0] for row in self.db.execute("SELECT type FROM sqlite_master")}
            has_columns = not version or self._has_columns(version)
        if application == APPLICATION_ID and version > VERSION:
            raise JournalError(f"{self.path} was written by a newer rsmq-tui: upgrade this one")
        if application == APPLICATION_ID:
            is_ours = bool(version)
        else:
            # Before the fourth version a journal had nothing but its number.
            is_ours = not application and (version in MIGRATIONS or not (version or kinds))
        # With a trigger, what is written is not what will be there.
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
        """Tell whether the tables are those of that version."""
        later = {pair for number, pairs in BROUGHT.items() if number > version for pair in pairs}
        wanted = {(table, column) for table, columns in COLUMNS.items() for column in columns} - later
        there = {(table, row["name"]) for table in COLUMNS for row in self.db.execute(f"PRAGMA table_info({table})")}
        return wanted <= there

    def _migrate(self, version: int) -> None:
        for number in range(version, VERSION) if version else ():
            for statement in MIGRATIONS[number]:
                self.db.execute(statement)
        for statement in () if version else SCHEMA.split(";"):
            self.db.execute(statement)
        self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.db.execute(f"PRAGMA user_version = {VERSION}")

    def _foreign(self) -> JournalError:
        return JournalError(f"the journal {self.path} cannot be used: it is not a journal of rsmq-tui; {_MOVE_AWAY}")


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _text(raw: bytes) -> str | bytes:
    """Read a text of the file; what is no UTF-8 stays bytes, and is then found to be damaged."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
