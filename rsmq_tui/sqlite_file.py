"""SQLite files that several processes share: ``SqliteFile``."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

_OPENING_S, _OPENING_WAIT_S = 10.0, 0.02
# How long to wait while another program has locked the file.
BUSY_WAIT_S = 5.0

# What SQLite needs at least for its files beside the database.
_ROOM_BYTES = 64 * 1024

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
            self.db = sqlite3.connect(path, timeout=BUSY_WAIT_S, isolation_level=None, check_same_thread=False)
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
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_IOERR and self._has_no_room():
                # SQLite does not say so of its files beside the database.
                code = sqlite3.SQLITE_FULL
            reason = _REASONS.get(code, reason)
        elif isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        return self.error_type(f"the {self.what} {self.path} cannot be used: {reason}")

    def _has_no_room(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < _ROOM_BYTES
        except OSError:
            return False

    def _prepare_file(self) -> None:
        # SQLite's timeout does not apply when several programs create a new file at the same time.
        give_up_s = time.monotonic() + min(_OPENING_S, BUSY_WAIT_S)
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
            is_ours = version == self.version or version in self.migrations
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


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _text(raw: bytes) -> str | bytes:
    """Decode a text; one that is not UTF-8 stays bytes, which the checks then report as damaged."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
