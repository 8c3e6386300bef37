"""The journal: every change is written here, on disk, before the server is asked for it, and so can be undone.

One SQLite file in the user's state folder. A change is a row; its batches are written before they are carried out, and
their outcomes afterwards: whatever happens in between, each batch can be settled by its token.

Changes grow old by the journal's own time. It goes on by what the local clock has gone on between two looks, but by a
day at most, in one process never by more than its monotonic clock, and never back: a clock that jumps drops nothing.
"""

import getpass
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rsmq_tui.triage.changes import Change, Entry, State
from rsmq_tui.triage.journal_file import JournalGoneError
from rsmq_tui.triage.journal_reading import ENDED, TOUCHED, UNKNOWN, JournalReading, now_ms
from rsmq_tui.triage.journal_schema import batch_row, sealed, stored_name
from rsmq_tui.triage.liveness import Work
from rsmq_tui.triage.reports import Tally

KEEP_DAYS = 7
LIMIT_BYTES = 1_000_000_000

_UNDOABLE = f"{ENDED} AND {TOUCHED}"

_DAY_MS = 86_400_000
# A call that was given up may be on its way so long, and its marker is what forbids it.
_VOID_MS = _DAY_MS


class Journal(JournalReading):
    """The journal in the file ``path``, which is made if need be; raises ``JournalError``. Close it with ``close``.

    Every method that writes raises ``JournalGoneError`` where the file was removed or replaced, or the change dropped:
    what is done without it could not be undone. Older changes are dropped after ``keep_days``, and the oldest ones when
    the file grows over ``limit_bytes``; ``keep_days`` is None for a demo, which removes its journal.
    May be used from several threads, and by several processes at once.
    """

    def __init__(self, path: Path, *, keep_days: int | None = KEEP_DAYS, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(path)
        self.keep_days = keep_days
        self.limit_bytes = limit_bytes
        self._looked_s: float | None = None
        self._works: dict[int, Work] = {}

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
        run_id: str | None = None,
    ) -> int:
        """Note that a change begins, and return its number; ``leave`` it when nobody works on it any more."""
        row: dict[str, object] = {
            "at_ms": at_ms,
            "name": name,
            "past": past,
            "who": user_name(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "alive_ms": now_ms(),
            "profile": profile,
            "server": server,
            "run_id": run_id,
            "ns": ns,
            "queue": stored_name(queue),
            "target": stored_name(target),
            "what": what,
            "planned": planned,
            "undoes": undoes,
            "written": 0,
        }
        with ExitStack() as failed:
            with self._file.told(), self._file.transaction():
                row["counted_ms"] = self._count_time()
                change = self._insert("changes", row)
                self._file.db.execute(
                    "UPDATE changes SET checksum = ? WHERE change = ?",
                    (sealed("changes", row | {"change": change}), change),
                )
                # Before anybody else can see the change: who sees it asks whether somebody works on it.
                self._works[change] = Work(self._lock_path(change, at_ms))
                failed.callback(self.leave, change)
            failed.pop_all()
        return change

    def leave(self, change: int) -> None:
        """Note that this process no longer works on a change: what is not known of it may be found out."""
        work = self._works.pop(change, None)
        if work is not None:
            work.end()

    def close(self) -> None:
        """Close the file, when nobody is at work in it any more."""
        super().close()
        for change in [*self._works]:
            self.leave(change)

    def write(self, change: int, entries: Sequence[Entry], outcomes: Sequence[tuple[int, str]] = ()) -> None:
        """Write batches, durably, before they are carried out; and the outcomes of earlier ones with them."""
        rows = []
        for entry in entries:
            row: dict[str, object] = {
                "change": change,
                "number": entry.number,
                "token": entry.token,
                "undoes": entry.undoes,
                "counted": int(entry.counted),
                "renames": int(entry.renames),
                **batch_row(entry.batch),
            }
            rows.append(row | {"checksum": sealed("batches", row)})
        with self._file.told(), self._file.transaction():
            self._record(change, outcomes)
            for row in rows:
                self._insert("batches", row)
            self._file.db.execute("UPDATE changes SET written = written + ? WHERE change = ?", (len(rows), change))

    def refuse_if_gone(self, change: int) -> None:
        """Raise ``JournalGoneError`` where a change is not in the journal, or the journal not in its place."""
        with self._file.told():
            self._file.refuse_if_removed()
            if self._file.db.execute("SELECT 1 FROM changes WHERE change = ?", (change,)).fetchone() is None:
                raise self._gone(change)

    def record(self, change: int, outcomes: Sequence[tuple[int, str]]) -> None:
        """Note the outcomes of batches, by their numbers."""
        with self._file.told(), self._file.transaction():
            self._record(change, outcomes)

    def settle(self, change: int, found: Sequence[Entry], void: Sequence[str] = ()) -> None:
        """Note what was found out of batches later, and count it where the change has ended without.

        ``void`` are the tokens of those whose markers forbid their calls from now on.
        """
        with self._file.told(), self._file.transaction():
            tally = Tally()
            new = [
                entry
                for entry in found
                if self._record(change, [(entry.number, entry.outcome or "")], unsure=entry.unsure)
            ]
            for entry in new:
                tally.take(entry.letters, unsure=entry.unsure)
            if new:
                self._file.db.execute(
                    "UPDATE changes SET done = done + ?, skipped = skipped + ?, failed = failed + ?,"
                    " unsure = unsure + ?, settled = max(settled, audited), audited = 0"
                    " WHERE change = ? AND state != 'running'",
                    (*tally.counts.values(), change),
                )
            self._leave_markers(change, void)

    def leave_markers(self, change: int, tokens: Sequence[str]) -> None:
        """Note that the markers of these calls were left on the server."""
        with self._file.told(), self._file.transaction():
            self._leave_markers(change, tokens)

    def left_markers(self, server: str, limit: int) -> list[tuple[str, str]]:
        """Return the namespaces and tokens of markers that were left on a server, and nobody needs any more."""
        with self._file.told():
            rows = self._file.db.execute(
                "SELECT ns, token FROM markers WHERE server = ? AND at_ms < ? ORDER BY at_ms LIMIT ?",
                (server, now_ms() - _VOID_MS, limit),
            ).fetchall()
        return [(ns, token) for ns, token in rows]

    def drop_markers(self, tokens: Sequence[str]) -> None:
        """Note that markers are no longer on the server."""
        with self._file.told(), self._file.transaction():
            self._file.db.executemany("DELETE FROM markers WHERE token = ?", [(token,) for token in tokens])

    def finish(self, change: int, state: State, *, done: int, skipped: int, failed: int, unsure: int = 0) -> None:
        """Note how a change ended; one that takes another back marks that as undone.

        Not where it found all of it changed since: it may be tried again. Where that one had taken a third back, the
        third can be undone again.
        """
        with self._file.told(), self._file.transaction():
            self._file.db.execute(
                "UPDATE changes SET state = ?, done = ?, skipped = ?, failed = ?, unsure = ? WHERE change = ?"
                " AND (state = 'running' OR ? != 'interrupted')",
                (state, done, skipped, failed, unsure, change, state),
            )
            taken_back = not skipped + failed or any(self._changes("WHERE change = ? AND touched", change))
            if state is State.DONE and taken_back:
                undone = "SELECT undoes FROM changes WHERE change = ?"
                self._file.db.execute(f"UPDATE changes SET state = ? WHERE change = ({undone})", (State.UNDONE, change))
                self._file.db.execute(
                    f"UPDATE changes SET state = ? WHERE state = ? AND change ="
                    f" (SELECT undoes FROM changes WHERE change = ({undone}))",
                    (State.DONE, State.UNDONE, change),
                )

    def audit(self, change: int, write: Callable[[Change], None]) -> None:
        """Have the line of a change written to the audit log, once, whoever else is about to; raises what it raises."""
        try:
            with self._file.transaction():
                found = self.change(change)
                if found is not None and not found.audited:
                    write(found)
                    self._file.db.execute("UPDATE changes SET audited = 1 WHERE change = ?", (change,))
        except sqlite3.Error as error:
            raise self._file.error(error) from error

    def prune(self) -> None:
        """Drop what is older than the journal keeps, and the oldest changes of one that is too long.

        What is running, and not known or told yet, stays; so does the newest that can be undone, however old it is.
        """
        with self._file.told():
            keep_ms = (self.keep_days or KEEP_DAYS) * _DAY_MS
            with self._file.transaction():
                oldest_ms = self._count_time() - keep_ms
            needed = "SELECT undoes FROM changes WHERE state = 'running' AND undoes IS NOT NULL"
            newest = f"SELECT change FROM changes WHERE {_UNDOABLE} ORDER BY change DESC LIMIT 1"
            old = (
                "counted_ms < ? AND state != 'running' AND audited"
                f" AND (counted_ms < ? OR NOT {UNKNOWN}) AND change NOT IN ({needed}) AND change NOT IN ({newest})"
            )
            limits = (oldest_ms, oldest_ms - keep_ms)
            with self._file.transaction():
                self._file.db.execute(
                    "INSERT OR IGNORE INTO markers SELECT token, server, ns, alive_ms FROM batches JOIN changes"
                    f" USING (change) WHERE outcome IS NULL AND {old}",
                    limits,
                )
                self._file.db.execute(f"DELETE FROM changes WHERE {old}", limits)
            # The newest one stays: people were promised that they can undo it.
            while self._file.size_bytes() > self.limit_bytes:
                dropped = self._file.db.execute(
                    "DELETE FROM changes WHERE change = (SELECT min(change) FROM changes WHERE state != 'running'"
                    f" AND audited AND NOT {UNKNOWN} AND change != (SELECT max(change) FROM changes)"
                    f" AND change NOT IN ({needed}))"
                )
                if not dropped.rowcount:
                    break
            self._file.db.execute("PRAGMA incremental_vacuum").fetchall()

    def _record(self, change: int, outcomes: Sequence[tuple[int, str]], *, unsure: bool = False) -> int:
        """Note outcomes, and return how many were not known before."""
        alive = self._file.db.execute("UPDATE changes SET alive_ms = ? WHERE change = ?", (now_ms(), change))
        if not alive.rowcount:
            raise self._gone(change)
        # Once known, it is known: whoever comes second asks a server that has been told to forget it.
        return self._file.db.executemany(
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
        found = self._file.db.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))
        return int(found.lastrowid or 0)

    def _gone(self, change: int) -> JournalGoneError:
        return JournalGoneError(
            f"change {change} is no longer in the journal {self.path}: what it did can no longer be undone"
        )

    def _count_time(self) -> int:
        """Let the journal's own time go on, and return it, in ms."""
        looked_s, self._looked_s = self._looked_s, time.monotonic()
        most_ms = _DAY_MS if looked_s is None else min(_DAY_MS, int((self._looked_s - looked_s) * 1000) + 1)
        last_ms, counted_ms = self._file.db.execute("SELECT last_ms, counted_ms FROM clock").fetchone()
        at_ms = now_ms()
        gone_on_ms = at_ms - int(last_ms) if last_ms else 0
        now_counted_ms = int(counted_ms) + max(0, min(gone_on_ms, most_ms))
        self._file.db.execute("UPDATE clock SET last_ms = ?, counted_ms = ?", (at_ms, now_counted_ms))
        return now_counted_ms

    def _leave_markers(self, change: int, tokens: Sequence[str]) -> None:
        self._file.db.executemany(
            "INSERT OR IGNORE INTO markers SELECT ?, server, ns, ? FROM changes WHERE change = ?",
            [(token, now_ms(), change) for token in tokens],
        )


def user_name() -> str:
    """Return who runs this, as well as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
