"""The journal: every change is written here, on disk, before the server is asked for it, and so can be undone.

One SQLite file in the user's state folder. A change is a row; its batches are written before they are carried out, and
their outcomes afterwards: whatever happens in between, each batch can be settled by its token.
"""

import getpass
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rsmq_tui.protocol.edits import Batch, Outcome
from rsmq_tui.triage.journal_schema import SCHEMA, VERSION, batch_of, batch_row, new_ids, packed_edits
from rsmq_tui.triage.liveness import begin_work, end_work, is_alive

KEEP_DAYS = 7
LIMIT_BYTES = 1_000_000_000

# The outcome of a batch that the server never carried out, and never will.
NOT_CARRIED_OUT = ""

_TOUCHED = (
    "EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change"
    f" AND instr(coalesce(outcome, ''), '{Outcome.DONE}'))"
)


class JournalError(Exception):
    """The journal cannot be written or read, in words for people: nothing is changed without it."""


class State(StrEnum):
    """How far a change has come."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change as the journal knows it; times in ms of the server, ``undoes`` is the change that it takes back.

    ``touched`` says whether anything was done on the server, be it only a queue that was made for messages that did not
    come; ``audited`` whether its line is in the audit log.
    """

    change: int
    at_ms: int
    name: str
    past: str
    who: str
    host: str
    pid: int
    alive_ms: int
    profile: str
    server: str
    ns: str
    queue: str
    target: str | None
    what: str
    planned: int
    done: int
    skipped: int
    failed: int
    state: State
    undoes: int | None
    audited: bool
    touched: bool

    @property
    def can_be_undone(self) -> bool:
        """True when something was done that was not taken back."""
        return self.touched and self.state in (State.DONE, State.STOPPED, State.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of a change; ``outcome`` is None until it is known, and empty when it was never carried out.

    ``undoes`` is the number of the batch that it takes back. ``counted`` says whether it is what people asked for, or
    only serves it; ``renames`` that what finds its id taken comes again in a later batch.
    """

    number: int
    token: str
    batch: Batch
    outcome: str | None
    undoes: int | None
    counted: bool = True
    renames: bool = False

    @property
    def letters(self) -> str:
        """What people are told of its outcome."""
        if self.outcome is None or not self.counted:
            return ""
        return self.outcome.replace(Outcome.TAKEN, "") if self.renames else self.outcome


class Journal:
    """The journal in the file ``path``, which is made if need be; raises ``JournalError``. Close it with ``close``.

    Older changes are dropped after ``keep_days``, and the oldest ones when the file grows over ``limit_bytes``.
    May be used from several threads, and by several processes at once.
    """

    def __init__(self, path: Path, *, keep_days: int = KEEP_DAYS, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = path
        self.keep_days = keep_days
        self.limit_bytes = limit_bytes
        self._lock = threading.RLock()
        with self._told():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Bodies may be anybody's secrets: the file is the user's alone from its first byte on.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def begin(
        self,
        *,
        at_ms: int,
        name: str,
        past: str,
        profile: str,
        server: str,
        ns: str,
        queue: str,
        target: str | None,
        what: str,
        planned: int,
        undoes: int | None = None,
    ) -> int:
        """Note that a change begins, and return its number; ``leave`` it when nobody works on it any more."""
        # fmt: off
        values = (
            at_ms, name, past, user_name(), socket.gethostname(), os.getpid(), _now_ms(),
            profile, server, ns, queue, target, what, planned, undoes,
        )
        # fmt: on
        with self._told(), self._transaction():
            found = self._db.execute(
                "INSERT INTO changes (at_ms, name, past, who, host, pid, alive_ms, profile, server, ns, queue, target,"
                " what, planned, undoes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            change = int(found.lastrowid or 0)
            begin_work(str(self.path), change)
            return change

    def leave(self, change: int) -> None:
        """Note that this process no longer works on a change: what is not known of it may be found out."""
        end_work(str(self.path), change)

    def write(self, change: int, entries: Sequence[Entry], outcomes: Sequence[tuple[int, str]] = ()) -> None:
        """Write batches, durably, before they are carried out; and the outcomes of earlier ones with them."""
        rows = [(entry, packed_edits(entry.batch)) for entry in entries]
        with self._told(), self._transaction():
            self._record(change, outcomes)
            for entry, packed in rows:
                self._db.execute(
                    "INSERT INTO batches (change, number, token, undoes, counted, renames, kind, queue, target,"
                    " must_exist, sent, listed_before, listed_after, edits)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        change,
                        *(entry.number, entry.token, entry.undoes, entry.counted, entry.renames),
                        *batch_row(entry.batch),
                        packed,
                    ),
                )

    def record(self, change: int, outcomes: Sequence[tuple[int, str]]) -> None:
        """Note the outcomes of batches, by their numbers."""
        with self._told(), self._transaction():
            self._record(change, outcomes)

    def finish(self, change: int, state: State, *, done: int, skipped: int, failed: int) -> None:
        """Note how a change ended; one that takes another back marks that as undone.

        Where that one had taken a third back, the third can be undone again.
        """
        with self._told(), self._transaction():
            self._db.execute(
                "UPDATE changes SET state = ?, done = ?, skipped = ?, failed = ? WHERE change = ?"
                " AND (state = 'running' OR ? != 'interrupted')",
                (state, done, skipped, failed, change, state),
            )
            if state is State.DONE:
                undone = "SELECT undoes FROM changes WHERE change = ?"
                self._db.execute(f"UPDATE changes SET state = ? WHERE change = ({undone})", (State.UNDONE, change))
                self._db.execute(
                    f"UPDATE changes SET state = ? WHERE state = ? AND change ="
                    f" (SELECT undoes FROM changes WHERE change = ({undone}))",
                    (State.DONE, State.UNDONE, change),
                )

    def audit(self, change: int, write: Callable[[Change], None]) -> None:
        """Have the line of a change written to the audit log, once, whoever else is about to; raises what it raises."""
        try:
            with self._transaction():
                found = self.change(change)
                if found is not None and not found.audited:
                    write(found)
                    self._db.execute("UPDATE changes SET audited = 1 WHERE change = ?", (change,))
        except sqlite3.Error as error:
            raise self._error(error) from error

    def change(self, change: int) -> Change | None:
        """Return one change, or None when it is not in the journal (any more)."""
        return next(self._changes("WHERE change = ?", change), None)

    def changes(self, limit: int = 100) -> list[Change]:
        """Return the last changes, newest first."""
        return list(self._changes("ORDER BY change DESC LIMIT ?", limit))

    def last_undoable(self, server: str, ns: str, queue: str | None = None) -> Change | None:
        """Return the last change on that server and namespace (and queue) that can be undone and is no undo itself."""
        return next(
            self._changes(
                "WHERE server = ? AND ns = ? AND ? IN (queue, target, '') AND undoes IS NULL AND touched"
                " AND state IN ('done', 'stopped', 'interrupted') ORDER BY change DESC LIMIT 1",
                server,
                ns,
                queue or "",
            ),
            None,
        )

    def unfinished(self, server: str) -> list[Change]:
        """Return the changes on that server of which something is not known or told, and nobody is at work on."""
        found = self._changes(
            "WHERE server = ? AND (state = 'running' OR NOT audited OR EXISTS"
            " (SELECT 1 FROM batches WHERE batches.change = changes.change AND outcome IS NULL))",
            server,
        )
        now_ms, journal = _now_ms(), str(self.path)
        return [
            change
            for change in found
            if not is_alive(journal, change.change, change.host, change.pid, now_ms - change.alive_ms)
        ]

    def entries(self, change: int, *, newest_first: bool = False) -> Iterator[Entry]:
        """Walk through the batches of a change, one of them in memory at a time."""
        with self._told():
            numbers = self._db.execute(
                f"SELECT number FROM batches WHERE change = ? ORDER BY number {'DESC' if newest_first else 'ASC'}",
                (change,),
            ).fetchall()
        for (number,) in numbers:
            with self._told():
                row = self._db.execute(
                    "SELECT * FROM batches WHERE change = ? AND number = ?", (change, number)
                ).fetchone()
                if row is None:
                    raise JournalError(f"change {change} was dropped from the journal meanwhile")
                batch = batch_of(row)
            flags = bool(row["counted"]), bool(row["renames"])
            yield Entry(number, row["token"], batch, row["outcome"], row["undoes"], *flags)

    def undone_numbers(self, change: int) -> set[int]:
        """Return the numbers of those of its batches that an earlier, unfinished undo has already taken back.

        What was taken back itself does not count: then it is to be done again.
        """
        with self._told():
            rows = self._db.execute(
                "SELECT change, number, batches.undoes FROM batches JOIN changes USING (change)"
                " WHERE changes.undoes = ? AND outcome IS NOT NULL AND outcome != ''",
                (change,),
            ).fetchall()
        again = {undo: self.undone_numbers(undo) for undo in {row[0] for row in rows}}
        return {undone for undo, number, undone in rows if number not in again[undo]}

    def sources(self, server: str, ns: str, target: str) -> dict[bytes, str]:
        """Return for all messages that were moved to ``target``, by id, the queue that each came from last."""
        with self._told():
            rows = self._db.execute(
                "SELECT batches.edits, batches.queue, outcome FROM batches JOIN changes USING (change)"
                " WHERE changes.server = ? AND changes.ns = ? AND batches.target = ? AND batches.kind = 'move'"
                " AND outcome IS NOT NULL"
                " ORDER BY batches.change, batches.number",
                (server, ns, target),
            )
            return {
                id: queue
                for packed, queue, outcome in rows
                for id, letter in zip(new_ids(packed), outcome, strict=False)
                if letter == Outcome.DONE
            }

    def prune(self) -> None:
        """Drop what is older than the journal keeps, and the oldest changes of one that is too long."""
        with self._told():
            oldest_ms = _now_ms() - self.keep_days * 86_400_000
            needed = "SELECT undoes FROM changes WHERE state = 'running' AND undoes IS NOT NULL AND alive_ms >= ?"
            self._db.execute(
                f"DELETE FROM changes WHERE alive_ms < ? AND change NOT IN ({needed})", (oldest_ms, oldest_ms)
            )
            # The newest one stays: people were promised that they can undo it.
            while self.size_bytes() > self.limit_bytes:
                dropped = self._db.execute(
                    "DELETE FROM changes WHERE change = (SELECT min(change) FROM changes WHERE state != 'running'"
                    f" AND change != (SELECT max(change) FROM changes) AND change NOT IN ({needed}))",
                    (oldest_ms,),
                )
                if not dropped.rowcount:
                    break
            self._db.execute("PRAGMA incremental_vacuum").fetchall()

    def size_bytes(self) -> int:
        """Return how much of the file is in use."""
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def close(self) -> None:
        """Close the file, when nobody is at work in it any more."""
        with self._lock:
            self._db.close()

    def _open(self) -> None:
        self._db.execute("PRAGMA foreign_keys = ON")
        if self._db.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._db.execute("PRAGMA journal_mode = WAL")
        # Written means written: a crash of the machine loses no batch that the server was asked for.
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise JournalError(f"{self.path} was written by a later rsmq-tui: update this one")
            if version == 0:
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _record(self, change: int, outcomes: Sequence[tuple[int, str]]) -> None:
        self._db.execute("UPDATE changes SET alive_ms = ? WHERE change = ?", (_now_ms(), change))
        # Once known, it is known: whoever comes second asks a server that has been told to forget it.
        self._db.executemany(
            "UPDATE batches SET outcome = ? WHERE change = ? AND number = ? AND outcome IS NULL",
            [(outcome, change, number) for number, outcome in outcomes],
        )

    def _changes(self, where: str, *values: object) -> Iterator[Change]:
        with self._told():
            rows = self._db.execute(f"SELECT *, {_TOUCHED} AS touched FROM changes {where}", values).fetchall()
        for row in rows:
            fields = dict(row)
            flags = {name: bool(fields[name]) for name in ("audited", "touched")}
            yield Change(**{**fields, **flags, "state": State(fields["state"])})

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                # A full disk has ended it already.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        # A thread whose caller was cancelled works on: to close the file under it would end the program.
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> JournalError:
        return JournalError(f"the journal {self.path} cannot be used: {error}")


def user_name() -> str:
    """Return who runs this, as well as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
