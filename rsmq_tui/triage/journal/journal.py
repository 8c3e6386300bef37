"""The journal: each change is written to disk before it is sent to the server, so it can be undone.

The journal is one SQLite file in the user's state folder. A change is a row. Its batches are written before they are
sent, and their outcomes afterwards: whatever happens in between, each batch can be settled by its token. A lock file
and a heartbeat show whether the program that makes a change is still running.

Changes expire by the journal's own clock, so that a local clock that jumps expires nothing. Between two reads it
advances as much as the local clock, but never backwards, at most a day, and within a process at most as much as the
monotonic clock.
"""

import getpass
import os
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from rsmq_tui.files import FileLock
from rsmq_tui.local_clock import now_ms
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, FieldBatch
from rsmq_tui.triage.actions import Redrive, Undo
from rsmq_tui.triage.change import NOT_CARRIED_OUT, Change, Entry, State, Tally, UndoChain
from rsmq_tui.triage.journal.batches import DamageError, batch_of, name_for_row, name_from_row, new_ids, row_of
from rsmq_tui.triage.journal.database import JournalError, JournalFile, JournalGoneError, refuse_damaged, sealed
from rsmq_tui.triage.scope import Preview

_T = TypeVar("_T")

# A running change updates its heartbeat with every group of batches.
_SILENT_MS = 60_000


class ChangeLock:
    """The lock of a running change; it is released by ``release``, or when the process ends. Raises ``OSError``.

    Another process holds the file only while it looks whether it is locked; then there is no lock, and the heartbeat
    alone shows that the change is running.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock.acquire(path)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            _remove(self._path, self._lock)


def is_alive(path: Path, host: str, silent_ms: int) -> bool:
    """Return whether the change whose lock is the file ``path`` may still be running; raises ``OSError``.

    For a process on this host the lock decides. Locks may not work across hosts: for another ``host``, ``silent_ms``,
    the time since the last heartbeat, counts too. A wrong False is safe: the running change notices that it was
    settled, and stops.
    """
    if path.exists():
        lock = FileLock.acquire(path, shared=True)
        if lock is None:
            return True
        _remove(path, lock)
    return host != socket.gethostname() and abs(silent_ms) < _SILENT_MS


def _remove(path: Path, lock: FileLock) -> None:
    lock.release()
    # On Windows the file cannot be removed while another program has it open.
    with suppress(OSError):
        path.unlink()


_TOUCHED = (
    "EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change"
    f" AND instr(coalesce(outcome, ''), '{Outcome.DONE}'))"
)
_UNKNOWN = "EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change AND outcome IS NULL)"
_ENDED = "state IN ('done', 'stopped', 'interrupted')"
# Whether an undo of all of it has come to its end. Earlier versions set the state back to done when a redo made the
# change again.
_WAS_UNDONE = (
    "change IN (SELECT undoes FROM changes WHERE undoes IS NOT NULL AND done > 0"
    f" AND state IN ('{State.DONE}', '{State.UNDONE}') AND done + skipped + failed >= planned AND NOT part)"
)
_ANY_UNDONE = "EXISTS (SELECT 1 FROM changes AS undo WHERE undo.undoes = changes.change AND undo.done > 0)"
# Whether every message of a change was undone, by several undos, and the change has done nothing else.
_NOTHING_LEFT = (
    "(done <= (SELECT sum(undo.done) FROM changes AS undo WHERE undo.undoes = changes.change)"
    " AND NOT EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change AND NOT counted"
    f" AND instr(coalesce(outcome, ''), '{Outcome.DONE}')))"
)
# A change and its redos: the undos of its undos, and so on.
_AND_REDOS = (
    "WITH RECURSIVE made(change) AS (SELECT ? UNION SELECT redo.change FROM made"
    " JOIN changes AS undo ON undo.undoes = made.change JOIN changes AS redo ON redo.undoes = undo.change)"
    " SELECT change FROM made"
)
_NUMBER_OF_BATCHES = "(SELECT count(*) FROM batches WHERE batches.change = changes.change)"
# The damage of another change makes this one no damaged one.
_UNDONE_TARGET = (
    "(SELECT undone.target FROM changes AS undone WHERE undone.change = changes.undoes"
    " AND typeof(undone.target) IN ('text', 'blob'))"
)


class DamagedError(JournalError):
    """A change is damaged in the journal, and cannot be undone; it is set aside, and other changes are not affected."""

    def __init__(self, change: int, reason: str) -> None:
        super().__init__(f"{damage_words(change)}: {reason}")


def damage_words(change: int) -> str:
    """Return the sentence for a damaged change."""
    return f"change {change} is damaged in the journal and set aside; it cannot be undone, the others can"


KEEP_DAYS = 7
LIMIT_BYTES = 1_000_000_000

_UNDOABLE = f"{_ENDED} AND {_TOUCHED}"

_DAY_MS = 86_400_000
# How long the marker of a void call has no expiry, and so is not evicted; then the server keeps it for a day.
_VOID_MS = _DAY_MS


class Journal:
    """The journal in the file ``path``, created if needed; raises ``JournalError``. Close it with ``close``.

    Every row is verified before it is used. A damaged change has the state ``damaged``; reading its batches raises
    ``DamagedError``. Every method that writes raises ``JournalGoneError`` if the file was removed or replaced, or the
    change dropped, because the change could not be undone then. Changes are dropped after ``keep_days``, and the oldest
    ones if the file exceeds ``limit_bytes``; ``keep_days`` is None for a demo, which removes its journal. The journal
    may be used by several threads and processes at once.
    """

    def __init__(self, path: Path, *, keep_days: int | None = KEEP_DAYS, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = path
        self.file = JournalFile(path)
        self.keep_days = keep_days
        self.limit_bytes = limit_bytes
        self._counted_s: float | None = None
        self._locks: dict[int, ChangeLock] = {}

    def change(self, change: int) -> Change | None:
        """Return one change, or None if it is not in the journal (any more)."""
        return next(self._changes("WHERE change = ?", change), None)

    def changes(self, limit: int = 100) -> list[Change]:
        """Return the last changes, newest first."""
        return list(self._changes("ORDER BY change DESC LIMIT ?", limit))

    def removed_queues(self, since: int) -> dict[int, set[str]]:
        """Return by change, from the change ``since`` on, the queues that it took away or is about to."""
        removed: dict[int, set[str]] = {}
        with self.file.explained():
            rows = self.file.db.execute(
                "SELECT change, queue FROM batches WHERE change >= ? AND listed_before AND NOT listed_after"
                " AND coalesce(outcome, ?) = ?",
                (since, Outcome.DONE, Outcome.DONE),
            ).fetchall()
        for change, queue in rows:
            with suppress(DamageError):
                removed.setdefault(change, set()).add(name_from_row(queue))
        return removed

    def last_undoable(self, server: str, namespaces: Sequence[str], queue: str | None = None) -> Change | None:
        """Return the last change in these namespaces of a server (and queue) that can be undone and is no undo itself.

        A redo is such a change.
        """
        found = self._changes(
            f"WHERE server = ? AND ns IN ({', '.join('?' * len(namespaces))})"
            # An empty name is that of any queue.
            " AND ? IN (queue, target, '')"
            f" AND touched AND {_ENDED} AND NOT {_WAS_UNDONE} ORDER BY change DESC",
            server,
            *namespaces,
            name_for_row(queue or ""),
        )
        undamaged = (each for each in found if each.state is not State.DAMAGED)
        return next((each for each in undamaged if not self.undo_chain(each).is_undo), None)

    def last_without_effect(self, since: Change, namespaces: Sequence[str], queue: str | None = None) -> Change | None:
        """Return the last change since another one on its server that did nothing and is no undo.

        It is in one of these namespaces (and that queue).
        """
        found = self._changes(
            f"WHERE change > ? AND server = ? AND ns IN ({', '.join('?' * len(namespaces))})"
            " AND ? IN (queue, target, '') AND undoes IS NULL"
            f" AND {_ENDED} AND NOT touched ORDER BY change DESC LIMIT 1",
            since.change,
            since.server,
            *namespaces,
            name_for_row(queue or ""),
        )
        return next(found, None)

    def undo_chain(self, change: Change) -> UndoChain:
        """Return the changes that a change undoes in turn."""
        return UndoChain.of(change, self.change)

    def redos(self, change: int) -> list[Change]:
        """Return the redos that have made a change, or a part of it, again and can be undone, newest first.

        There are several if an undo was interrupted: each makes again what one undo had undone.
        """
        found = self._changes(
            f"WHERE change > ? AND change IN ({_AND_REDOS}) AND touched AND {_ENDED} AND NOT {_WAS_UNDONE}"
            " ORDER BY change DESC",
            change,
            change,
        )
        return [redo for redo in found if redo.state is not State.DAMAGED]

    def damaged_since(self, change: int) -> list[int]:
        """Return the numbers of the changes after that one which are damaged."""
        return [
            later.change
            for later in self._changes("WHERE change > ? ORDER BY change", change)
            if later.state is State.DAMAGED
        ]

    def unfinished(self, server: str | None = None) -> list[Change]:
        """Return the changes (on that server) that no program is making, and that are not settled and audited yet."""
        found = self._changes(
            "WHERE coalesce(?, server) = server AND state != 'damaged'"
            f" AND (state = 'running' OR NOT audited OR {_UNKNOWN})",
            server,
        )
        at_ms = now_ms()
        with self.file.explained():
            return [
                change
                for change in found
                # The damage may be found only when the row is read.
                if change.state is not State.DAMAGED
                and not is_alive(self._lock_path(change.change, change.at_ms), change.host, at_ms - change.alive_ms)
            ]

    def entries(self, change: int, *, newest_first: bool = False) -> Iterator[Entry]:
        """Iterate over the batches of a change, with one of them in memory at a time."""
        with self.file.explained():
            numbers = self.file.db.execute(
                f"SELECT number FROM batches WHERE change = ? ORDER BY number {'DESC' if newest_first else 'ASC'}",
                (change,),
            ).fetchall()
        for (number,) in numbers:
            yield self.entry(change, number)

    def entry(self, change: int, number: int) -> Entry:
        """Return one batch of a change."""
        try:
            with self.file.explained():
                row = self.file.db.execute(
                    "SELECT * FROM batches WHERE change = ? AND number = ?", (change, number)
                ).fetchone()
        except JournalError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            raise self._damaged_error(change, f"batch {number} cannot be read") from error
        if row is None:
            raise JournalError(f"change {change} is no longer in the journal")
        try:
            fields = dict(row)
            refuse_damaged("batches", fields)
            return _entry_of(fields, batch_of(fields))
        except DamageError as error:
            raise self._damaged_error(change, f"batch {number}: {error}") from error

    def edits_done(self, change: Change, entry: Entry) -> Sequence[Edit]:
        """Return the edits of a batch of messages as they were done; empty for a batch of fields.

        The journal keeps the bodies of messages that a batch put back in the batch that it undoes: they are taken from
        there, if that is still in the journal.
        """
        edits = entry.batch.as_done(entry.outcome or "")
        if change.undoes is None or entry.undoes is None or not any(before is None for before, _ in edits[:1]):
            return edits
        bodies: dict[bytes, bytes | None] = {}
        # Without it, the messages are shown without their bodies.
        with suppress(JournalError):
            undone = self.entry(change.undoes, entry.undoes)
            bodies = {before.id: before.body for before, _ in undone.batch.edits if before is not None}
        return [
            Edit(None, after._replace(body=bodies.get(after.id))) if after is not None else Edit(before, after)
            for before, after in edits
        ]

    def batches_undoing(self, change: int) -> dict[int, list[tuple[int, int]]]:
        """Return for each batch of a change of which something was undone the batches that did so.

        These are named by their change and their number. They count also if a redo has made the messages again: it has
        fewer, if consumers took some meanwhile, and is undone as a change of its own.
        """
        with self.file.explained():
            rows = self.file.db.execute(
                "SELECT batches.undoes, change, number FROM batches JOIN changes USING (change)"
                " WHERE changes.undoes = ? AND batches.undoes IS NOT NULL AND instr(coalesce(outcome, ''), ?)"
                # A batch of fields is atomic and guarded, so an unsure one can be tried again.
                " AND NOT (batches.unsure AND kind = ?)",
                (change, Outcome.DONE, FieldBatch.kind),
            ).fetchall()
        found: dict[int, list[tuple[int, int]]] = {}
        for undone, undo, number in rows:
            found.setdefault(undone, []).append((undo, number))
        return found

    def sources(self, server: str, ns: str, target: str) -> dict[bytes, str]:
        """Return, for all messages that were moved to ``target``, the last source queue by id."""
        with self.file.explained():
            rows = self.file.db.execute(
                "SELECT batches.* FROM batches JOIN changes USING (change)"
                " WHERE changes.server = ? AND changes.ns = ? AND batches.target = ? AND batches.kind = ?"
                " AND batches.queue != batches.target AND outcome IS NOT NULL"
                " ORDER BY batches.change, batches.number",
                (server, ns, target, EditKind.MOVE),
            )
            found: dict[bytes, str] = {}
            for row in rows:
                # Skip damaged rows: their messages count as of unknown origin, which is reported.
                with suppress(DamageError):
                    refuse_damaged("batches", dict(row))
                    queue, ids = name_from_row(row["queue"]), new_ids(row["edits"])
                    letters = zip(ids, row["outcome"], strict=False)
                    found |= {id: queue for id, letter in letters if letter == Outcome.DONE}
            return found

    def mark_damaged(self, change: int, *states: State) -> None:
        """Mark a change as damaged if it is in one of these states."""
        with self.file.explained(), self.file.transaction():
            self.file.db.executemany(
                "UPDATE changes SET state = ? WHERE change = ? AND state = ?",
                [(State.DAMAGED, change, state) for state in states],
            )

    def begin(self, preview: Preview, at_ms: int, run_id: str | None = None) -> int:
        """Add a running change, and return its number; call ``leave`` at its end. The times are those of the server."""
        action = preview.action
        row: dict[str, object] = {
            "at_ms": at_ms,
            "name": action.name,
            "past": action.past,
            "who": user_name(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "alive_ms": now_ms(),
            "profile": preview.profile,
            "server": preview.server,
            "run_id": run_id,
            "ns": preview.ns,
            "queue": name_for_row(action.queue),
            "target": name_for_row(action.to),
            "what": preview.what,
            "planned": preview.count,
            "undoes": action.change if isinstance(action, Undo) else None,
            "part": int(isinstance(action, Undo) and action.part is not None),
            "written": 0,
        }
        change = 0
        try:
            with self.file.explained(), self.file.transaction():
                self._refuse_second_undo(row["undoes"])
                row["counted_ms"] = self._count_time()
                change = self._insert("changes", row)
                self.file.db.execute(
                    "UPDATE changes SET checksum = ? WHERE change = ?",
                    (sealed("changes", row | {"change": change}), change),
                )
                # Take the lock before the commit: others that see an unlocked change would settle it.
                self._locks[change] = ChangeLock(self._lock_path(change, at_ms))
        except BaseException:
            self.leave(change)
            raise
        return change

    def _refuse_second_undo(self, undone: object) -> None:
        """Raise ``JournalError`` if another undo of that change is running: items of lists would be put back twice."""
        running = "SELECT 1 FROM changes WHERE undoes = ? AND state = ?"
        if undone is not None and self.file.db.execute(running, (undone, State.RUNNING)).fetchone() is not None:
            raise JournalError(f"change {undone} is being undone by another rsmq-tui: wait for it, and preview again")

    def leave(self, change: int) -> None:
        """Release the lock of a change: any process may settle it from now on."""
        lock = self._locks.pop(change, None)
        if lock is not None:
            lock.release()

    def write(self, change: int, entries: Sequence[Entry], outcomes: Sequence[tuple[int, str]] = ()) -> None:
        """Write batches durably, before they are carried out, and the outcomes of earlier ones."""
        rows = []
        for entry in entries:
            row: dict[str, object] = {
                "change": change,
                "number": entry.number,
                "token": entry.token,
                "undoes": entry.undoes,
                "counted": int(entry.counted),
                "renames": int(entry.renames),
                **row_of(entry.batch),
            }
            rows.append(row | {"checksum": sealed("batches", row)})
        with self.file.explained(), self.file.transaction():
            self._record(change, outcomes)
            for row in rows:
                self._insert("batches", row)
            self.file.db.execute("UPDATE changes SET written = written + ? WHERE change = ?", (len(rows), change))

    def refuse_if_gone(self, change: int) -> None:
        """Raise ``JournalGoneError`` if a change is not in the journal, or the file was removed or replaced."""
        with self.file.explained():
            self.file.refuse_if_removed()
            if self.file.db.execute("SELECT 1 FROM changes WHERE change = ?", (change,)).fetchone() is None:
                raise self._gone(change)

    def record(self, change: int, outcomes: Sequence[tuple[int, str]]) -> None:
        """Write the outcomes of batches, by their numbers."""
        with self.file.explained(), self.file.transaction():
            self._record(change, outcomes)

    def settle(self, change: int, entries: Sequence[Entry], void: Sequence[str] = ()) -> None:
        """Write the outcomes of settled batches, and add them to the counts of a change that has already ended.

        ``void`` are the tokens of the calls that were voided: their markers must stay for now.
        """
        with self.file.explained(), self.file.transaction():
            tally = Tally()
            is_any_new = False
            for entry in entries:
                if self._record(change, [(entry.number, entry.outcome or "")], unsure=entry.unsure):
                    is_any_new = True
                    tally.add_outcome(entry.letters, unsure=entry.unsure)
            if is_any_new:
                self.file.db.execute(
                    "UPDATE changes SET done = done + ?, skipped = skipped + ?, failed = failed + ?,"
                    " unsure = unsure + ?, settled = max(settled, audited), audited = 0"
                    " WHERE change = ? AND state != 'running'",
                    (*tally.counts.values(), change),
                )
            self._leave_markers(change, void)

    def leave_markers(self, change: int, tokens: Sequence[str]) -> None:
        """Record that the markers of these calls are still on the server."""
        with self.file.explained(), self.file.transaction():
            self._leave_markers(change, tokens)

    def old_markers(self, server: str, limit: int) -> list[tuple[str, str]]:
        """Return (namespace, token) of markers that were left on a server a day ago or earlier, the oldest first.

        Those from more than a day ahead too: the clock has been set back, and may not be there again for months.
        """
        now = now_ms()
        with self.file.explained():
            rows = self.file.db.execute(
                "SELECT ns, token FROM markers WHERE server = ? AND at_ms NOT BETWEEN ? AND ? ORDER BY at_ms LIMIT ?",
                (server, now - _VOID_MS, now + _VOID_MS, limit),
            ).fetchall()
        return [(ns, token) for ns, token in rows]

    def postpone_markers(self, tokens: Sequence[str]) -> None:
        """Let ``old_markers`` return these a day later: the server has refused to change them."""
        with self.file.explained(), self.file.transaction():
            now = now_ms()
            self.file.db.executemany("UPDATE markers SET at_ms = ? WHERE token = ?", [(now, token) for token in tokens])

    def drop_markers(self, tokens: Sequence[str]) -> None:
        """Record that these markers are no longer on the server, or expire there."""
        with self.file.explained(), self.file.transaction():
            self.file.db.executemany("DELETE FROM markers WHERE token = ?", [(token,) for token in tokens])

    def finish(self, change: int, state: State, *, done: int, skipped: int, failed: int, unsure: int = 0) -> None:
        """Record the end of a change; a completed undo marks the change that it undoes as undone.

        If it skipped or failed some messages, and no undo has changed any, it does not: it may be tried again. The undo
        of a part does only if nothing is left to undo then.
        """
        with self.file.explained(), self.file.transaction():
            self.file.db.execute(
                "UPDATE changes SET state = ?, done = ?, skipped = ?, failed = ?, unsure = ? WHERE change = ?"
                " AND (state = 'running' OR ? != 'interrupted')",
                (state, done, skipped, failed, unsure, change, state),
            )
            if state is State.DONE:
                self.file.db.execute(
                    "UPDATE changes SET state = ? WHERE change = (SELECT undoes FROM changes WHERE change = ?)"
                    f" AND CASE WHEN (SELECT part FROM changes WHERE change = ?) THEN {_NOTHING_LEFT}"
                    f" ELSE ? OR {_ANY_UNDONE} END",
                    (State.UNDONE, change, change, not skipped + failed),
                )

    def discard(self, change: int) -> bool:
        """Remove a running change of which no batch was carried out, and return whether it was one."""
        with self.file.explained(), self.file.transaction():
            removed = self.file.db.execute(
                "DELETE FROM changes WHERE change = ? AND state = 'running' AND NOT EXISTS"
                " (SELECT 1 FROM batches WHERE batches.change = changes.change AND outcome IS NOT ?)",
                (change, NOT_CARRIED_OUT),
            )
            return removed.rowcount > 0

    def audit(self, change: int, write: Callable[[Change], None]) -> None:
        """Call ``write`` for a change that is not in the audit log yet, exactly once across processes.

        Raises ``JournalError``, and what ``write`` raises.
        """
        try:
            with self.file.transaction():
                found = self.change(change)
                if found is not None and not found.audited:
                    write(found)
                    self.file.db.execute("UPDATE changes SET audited = 1 WHERE change = ?", (change,))
        except sqlite3.Error as error:
            raise self.file.error(error) from error

    def prune(self) -> None:
        """Drop changes that have expired, and the oldest ones while the file exceeds its limit.

        Changes that are running, not settled or not in the audit log stay, and so does the newest one that can be
        undone. An unsettled change is dropped after twice the time.
        """
        with self.file.explained():
            keep_ms = (self.keep_days or KEEP_DAYS) * _DAY_MS
            with self.file.transaction():
                oldest_ms = self._count_time() - keep_ms
            needed = "SELECT undoes FROM changes WHERE state = 'running' AND undoes IS NOT NULL"
            newest = f"SELECT change FROM changes WHERE {_UNDOABLE} ORDER BY change DESC LIMIT 1"
            old = (
                "counted_ms < ? AND state != 'running' AND audited"
                f" AND (counted_ms < ? OR NOT {_UNKNOWN}) AND change NOT IN ({needed}) AND change NOT IN ({newest})"
            )
            limits = (oldest_ms, oldest_ms - keep_ms)
            with self.file.transaction():
                self.file.db.execute(
                    "INSERT OR IGNORE INTO markers SELECT token, server, ns, alive_ms FROM batches JOIN changes"
                    f" USING (change) WHERE outcome IS NULL AND {old}",
                    limits,
                )
                self.file.db.execute(f"DELETE FROM changes WHERE {old}", limits)
            # The newest change stays: its preview promised that it can be undone.
            while self.file.size_bytes() > self.limit_bytes:
                dropped = self.file.db.execute(
                    "DELETE FROM changes WHERE change = (SELECT min(change) FROM changes WHERE state != 'running'"
                    f" AND audited AND NOT {_UNKNOWN} AND change != (SELECT max(change) FROM changes)"
                    f" AND change NOT IN ({needed}))"
                )
                if not dropped.rowcount:
                    break
            self.file.db.execute("PRAGMA incremental_vacuum").fetchall()

    def close(self) -> None:
        """Close the file, after other threads have finished with it, and release the locks."""
        self.file.close()
        for change in [*self._locks]:
            self.leave(change)

    def _record(self, change: int, outcomes: Sequence[tuple[int, str]], *, unsure: bool = False) -> int:
        """Write outcomes, and return how many were not known before."""
        alive = self.file.db.execute("UPDATE changes SET alive_ms = ? WHERE change = ?", (now_ms(), change))
        if not alive.rowcount:
            raise self._gone(change)
        # The first known outcome is final: a later request would find the marker removed.
        return self.file.db.executemany(
            "UPDATE batches SET outcome = :outcome, unsure = :unsure,"
            " outcome_checksum = outcome_checksum(checksum, :outcome, :unsure)"
            " WHERE change = :change AND number = :number AND outcome IS NULL",
            [
                {"outcome": str(outcome), "unsure": int(unsure), "change": change, "number": number}
                for number, outcome in outcomes
            ],
        ).rowcount

    def _insert(self, table: str, row: Mapping[str, object]) -> int:
        names, places = ", ".join(row), ", ".join("?" * len(row))
        found = self.file.db.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))
        return int(found.lastrowid or 0)

    def _gone(self, change: int) -> JournalGoneError:
        return JournalGoneError(
            f"change {change} is no longer in the journal {self.path}: what it did can no longer be undone"
        )

    def _count_time(self) -> int:
        """Advance the journal's own clock, and return it, in ms."""
        previous_s, self._counted_s = self._counted_s, time.monotonic()
        limit_ms = _DAY_MS if previous_s is None else min(_DAY_MS, int((self._counted_s - previous_s) * 1000) + 1)
        last_ms, counted_ms = self.file.db.execute("SELECT last_ms, counted_ms FROM clock").fetchone()
        at_ms = now_ms()
        elapsed_ms = at_ms - int(last_ms) if last_ms else 0
        counted_ms = int(counted_ms) + max(0, min(elapsed_ms, limit_ms))
        self.file.db.execute("UPDATE clock SET last_ms = ?, counted_ms = ?", (at_ms, counted_ms))
        return counted_ms

    def _leave_markers(self, change: int, tokens: Sequence[str]) -> None:
        self.file.db.executemany(
            "INSERT OR IGNORE INTO markers SELECT ?, server, ns, ? FROM changes WHERE change = ?",
            [(token, now_ms(), change) for token in tokens],
        )

    def _lock_path(self, change: int, at_ms: int) -> Path:
        """Return the lock file of a change; it contains the time, because a new journal reuses numbers."""
        return self.path.with_name(f"{self.path.name}-{change}-{at_ms}.lock")

    def _damaged_error(self, change: int, reason: str) -> DamagedError:
        """Mark a change as damaged, unless it is running, and return the error to raise."""
        # If the file cannot be written, the damage is detected again the next time.
        with suppress(JournalError):
            self.mark_damaged(change, State.DONE, State.STOPPED, State.INTERRUPTED, State.UNDONE)
        return DamagedError(change, reason)

    def _redrives(self, undoes: Mapping[int, int]) -> set[int]:
        """Return the redrives that name no target, and their undos and redos; ``undoes`` has what each undo undoes."""
        found = self.file.db.execute("SELECT change FROM changes WHERE name = ? AND target IS NULL", (Redrive.name,))
        redrives = {change for (change,) in found}
        if redrives:
            # An undo is later than what it undoes.
            redrives.update(change for change in sorted(undoes) if undoes[change] in redrives)
        return redrives

    def _moved(self, change: int, own: object) -> dict[str, int]:
        """Return how many messages a change has moved between its ``own`` queue and each other one."""
        rows = self.file.db.execute(
            "SELECT CASE queue WHEN ? THEN target ELSE queue END, outcome FROM batches WHERE change = ? AND kind = ?",
            (own, change, EditKind.MOVE),
        )
        moved: Counter[str] = Counter()
        for queue, outcome in rows:
            # Damage is found when the batch itself is read.
            with suppress(DamageError):
                letters = letters_of(outcome) if isinstance(outcome, str) else ""
                moved[name_from_row(queue)] += letters.count(Outcome.DONE)
        return dict(moved)

    def _changes(self, where: str, *values: object) -> Iterator[Change]:
        with self.file.explained():
            rows = self.file.db.execute(
                f"SELECT *, {_TOUCHED} AS touched, {_NUMBER_OF_BATCHES} AS batch_count,"
                f" {_UNDONE_TARGET} AS undone_target FROM changes {where}",
                values,
            ).fetchall()
            # Not a subquery, which would read all changes for each of them.
            undos = self.file.db.execute(
                "SELECT change, undoes, done FROM changes WHERE typeof(undoes) = 'integer' AND typeof(done) = 'integer'"
                " ORDER BY change DESC"
            ).fetchall()
            redrives = self._redrives({change: undoes for change, undoes, _ in undos})
            redriven = [row for row in rows if row["change"] in redrives]
            moved = {row["change"]: self._moved(row["change"], row["queue"]) for row in redriven}
        undone, was_undone = _undone(undos)
        for row in rows:
            change = row["change"]
            try:
                yield _change_of(dict(row), undone[change], was_undone[change], moved.get(change, {}))
            except DamageError:
                yield _damaged(dict(row))


_LAST_CHANGES = 100
# A change, and the queues that it took away.
Removal = tuple[Change, set[str]]


def last_changes(path: Path) -> list[Change]:
    """Return the last changes of a journal, the oldest first; none if it does not exist or cannot be read."""
    return _last_of(path, lambda journal: journal.changes(_LAST_CHANGES)[::-1])


def last_removals(path: Path) -> list[Removal]:
    """Return those of the last changes that took queues away, as ``last_changes`` does, with these queues."""

    def read(journal: Journal) -> list[Removal]:
        changes = journal.changes(_LAST_CHANGES)[::-1]
        removed = journal.removed_queues(changes[0].change) if changes else {}
        return [(change, removed[change.change]) for change in changes if change.change in removed]

    return _last_of(path, read)


def _last_of(path: Path, read: Callable[[Journal], list[_T]]) -> list[_T]:
    if not path.exists():
        return []
    with suppress(JournalError), closing(Journal(path)) as journal:
        return read(journal)
    return []


_INTEGERS = ("change", "at_ms", "pid", "alive_ms", "planned", "done", "skipped", "failed", "unsure")
_TEXTS = ("name", "past", "who", "host", "profile", "server", "ns", "what")
_FLAGS = ("audited", "touched", "settled", "part")
_NAMES = ("queue", "target")


def _undone(undos: Iterable[tuple[int, int, int]]) -> tuple[Counter[int], Counter[int]]:
    """Return by change how many of its messages are undone now, and how many were, also if they were made again since.

    ``undos`` are all undos and redos, newest first: the change, the one that it undoes, and how many messages it did.
    """
    undone: Counter[int] = Counter()
    was_undone: Counter[int] = Counter()
    for change, undoes, done in undos:
        undone[undoes] += max(0, done - undone[change])
        was_undone[undoes] += done
    return undone, was_undone


def _change_of(row: dict[str, Any], undone: int, was_undone: int, moved: Mapping[str, int]) -> Change:
    """Return the change of a row, of which so many messages are and were undone; raises ``DamageError``."""
    refuse_damaged("changes", row)
    if row["written"] not in (None, row["batch_count"]):
        raise DamageError("some of its batches are missing")
    if not (
        all(isinstance(row[name], int) for name in _INTEGERS)
        and all(isinstance(row[name], str) for name in _TEXTS)
        and isinstance(row["undoes"], int | None)
        and isinstance(row["run_id"], str | None)
        and row["state"] in set(State)
    ):
        raise DamageError("its contents are invalid")
    fields = {name: row[name] for name in (*_INTEGERS, *_TEXTS, "undoes", "run_id")}
    fields |= {name: bool(row[name]) for name in _FLAGS}
    for name in ("target", "undone_target"):
        fields[name] = None if row[name] is None else name_from_row(row[name])
    # The undo of the rest of a change, such as of a queue that it created, counts that.
    fields["undone"] = min(undone, row["done"])
    fields["redone"] = min(was_undone, row["done"]) - fields["undone"]
    return Change(**fields, queue=name_from_row(row["queue"]), state=State(row["state"]), moved=moved)


def _damaged(row: dict[str, Any]) -> Change:
    """Return a damaged change with the fields that are valid."""
    fields: dict[str, Any] = {name: row[name] if isinstance(row[name], int) else 0 for name in _INTEGERS}
    fields |= {name: row[name] if isinstance(row[name], str) else "" for name in (*_TEXTS, *_NAMES)}
    return Change(**fields, state=State.DAMAGED, undoes=None, audited=True, touched=False)


def _entry_of(row: dict[str, Any], batch: Batch) -> Entry:
    """Return the entry of a row with its batch; raises ``DamageError``."""
    token, outcome, undoes = row["token"], row["outcome"], row["undoes"]
    if not (isinstance(token, str) and isinstance(outcome, str | None) and isinstance(undoes, int | None)):
        raise DamageError("its contents are invalid")
    flags = bool(row["counted"]), bool(row["renames"]), bool(row["unsure"])
    return Entry(row["number"], token, batch, outcome, undoes, *flags)


def user_name() -> str:
    """Return the name of the user, or the user id if it has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
