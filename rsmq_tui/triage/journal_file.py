"""The journal's file: opened with care, one transaction at a time, and every failure told in words."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rsmq_tui.triage.journal_schema import ADD_LISTS, SCHEMA, VERSION

_OPENING_S, _OPENING_WAIT_S = 10.0, 0.02


class JournalError(Exception):
    """The journal cannot be written or read, in words for people: nothing is changed without it."""


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
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self.db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            self.db.row_factory = sqlite3.Row
            try:
                self._open()
            except BaseException:
                self.db.close()
                raise

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
        """Do all of it or nothing."""
        with self._lock:
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
        except (sqlite3.Error, OSError, ValueError) as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> JournalError:
        """Return an error of the file in words."""
        return JournalError(f"the journal {self.path} cannot be used: {error}")

    def _prepare_file(self) -> None:
        # SQLite does not wait for others who open a new file at the same moment, whatever its timeout.
        give_up_s = time.monotonic() + _OPENING_S
        while True:
            try:
                if self.db.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
                    self.db.execute("PRAGMA auto_vacuum = INCREMENTAL")
                self.db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > give_up_s:
                    raise
                time.sleep(_OPENING_WAIT_S)

    def _open(self) -> None:
        self.db.execute("PRAGMA foreign_keys = ON")
        self._prepare_file()
        # Written means written: a crash of the machine loses no batch that the server was asked for.
        self.db.execute("PRAGMA synchronous = FULL")
        with self.transaction():
            version = self.db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise JournalError(f"{self.path} was written by a later rsmq-tui: update this one")
            if version < VERSION:
                for statement in (ADD_LISTS,) if version == 2 else SCHEMA.split(";"):
                    self.db.execute(statement)
                self.db.execute(f"PRAGMA user_version = {VERSION}")
