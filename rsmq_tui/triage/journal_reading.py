"""Reading the journal: which changes were made, what each did, and what can be undone."""

import time
from collections.abc import Iterator
from pathlib import Path

from rsmq_tui.protocol.edits import Outcome
from rsmq_tui.triage.changes import Change, Entry, State
from rsmq_tui.triage.journal_file import JournalError, JournalFile
from rsmq_tui.triage.journal_schema import FIELDS, batch_of, known_name, new_ids, stored_name
from rsmq_tui.triage.liveness import is_alive

TOUCHED = (
    "EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change"
    f" AND instr(coalesce(outcome, ''), '{Outcome.DONE}'))"
)
UNKNOWN = "EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change AND outcome IS NULL)"
ENDED = "state IN ('done', 'stopped', 'interrupted')"


class JournalReading:
    """What can be read of the journal in the file ``path``; raises ``JournalError``. Close it with ``close``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = JournalFile(path)

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
                f" AND {ENDED} ORDER BY change DESC LIMIT 1",
                server,
                ns,
                stored_name(queue or ""),
            ),
            None,
        )

    def unfinished(self, server: str) -> list[Change]:
        """Return the changes on that server of which something is not known or told, and nobody is at work on."""
        found = self._changes(
            f"WHERE server = ? AND (state = 'running' OR NOT audited OR {UNKNOWN})",
            server,
        )
        at_ms, journal = now_ms(), str(self.path)
        return [
            change
            for change in found
            if not is_alive(journal, change.change, change.host, change.pid, at_ms - change.alive_ms)
        ]

    def entries(self, change: int, *, newest_first: bool = False) -> Iterator[Entry]:
        """Walk through the batches of a change, one of them in memory at a time."""
        with self._file.told():
            numbers = self._file.db.execute(
                f"SELECT number FROM batches WHERE change = ? ORDER BY number {'DESC' if newest_first else 'ASC'}",
                (change,),
            ).fetchall()
        for (number,) in numbers:
            yield self._entry(change, number)

    def undos_of(self, change: int, number: int) -> list[tuple[int, Entry]]:
        """Return the batches, each with its change, that have taken back something of a batch."""
        with self._file.told():
            rows = self._file.db.execute(
                "SELECT change, number FROM batches JOIN changes USING (change)"
                " WHERE changes.undoes = ? AND batches.undoes = ? AND instr(coalesce(outcome, ''), ?)",
                (change, number, Outcome.DONE),
            ).fetchall()
        return [(undo, self._entry(undo, undone)) for undo, undone in rows]

    def undone_numbers(self, change: int) -> set[int]:
        """Return the numbers of those of its batches that an earlier, unfinished undo has already taken back.

        What was taken back itself does not count: then it is to be done again.
        """
        with self._file.told():
            rows = self._file.db.execute(
                "SELECT change, number, batches.undoes FROM batches JOIN changes USING (change)"
                " WHERE changes.undoes = ? AND instr(coalesce(outcome, ''), ?)"
                # All or nothing, and guarded: what was perhaps not taken back is tried again.
                " AND NOT (batches.unsure AND kind = ?)",
                (change, Outcome.DONE, FIELDS),
            ).fetchall()
        again = {undo: self.undone_numbers(undo) for undo in {row[0] for row in rows}}
        return {undone for undo, number, undone in rows if number not in again[undo]}

    def sources(self, server: str, ns: str, target: str) -> dict[bytes, str]:
        """Return for all messages that were moved to ``target``, by id, the queue that each came from last."""
        with self._file.told():
            rows = self._file.db.execute(
                "SELECT batches.edits, batches.queue, outcome FROM batches JOIN changes USING (change)"
                " WHERE changes.server = ? AND changes.ns = ? AND batches.target = ? AND batches.kind = 'move'"
                " AND batches.queue != batches.target AND outcome IS NOT NULL"
                " ORDER BY batches.change, batches.number",
                (server, ns, target),
            )
            return {
                id: queue
                for packed, queue, outcome in rows
                for id, letter in zip(new_ids(packed), outcome, strict=False)
                if letter == Outcome.DONE
            }

    def size_bytes(self) -> int:
        """Return how much of the file is in use."""
        return self._file.size_bytes()

    def close(self) -> None:
        """Close the file, when nobody is at work in it any more."""
        self._file.close()

    def _entry(self, change: int, number: int) -> Entry:
        with self._file.told():
            row = self._file.db.execute(
                "SELECT * FROM batches WHERE change = ? AND number = ?", (change, number)
            ).fetchone()
            if row is None:
                raise JournalError(f"change {change} was dropped from the journal meanwhile")
            batch = batch_of(row)
        flags = bool(row["counted"]), bool(row["renames"]), bool(row["unsure"])
        return Entry(number, row["token"], batch, row["outcome"], row["undoes"], *flags)

    def _changes(self, where: str, *values: object) -> Iterator[Change]:
        with self._file.told():
            rows = self._file.db.execute(f"SELECT *, {TOUCHED} AS touched FROM changes {where}", values).fetchall()
        for row in rows:
            fields = dict(row)
            flags = {name: bool(fields[name]) for name in ("audited", "touched", "settled")}
            target = None if fields["target"] is None else known_name(fields["target"])
            named = {"queue": known_name(fields["queue"]), "target": target, "state": State(fields["state"])}
            yield Change(**{**fields, **flags, **named})


def now_ms() -> int:
    """Return the local time in ms since the epoch."""
    return time.time_ns() // 1_000_000
