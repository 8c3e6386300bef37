"""Reading the journal: which changes were made, what each did, and what can be undone."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsmq_tui.protocol.batches import Batch
from rsmq_tui.protocol.edits import Outcome
from rsmq_tui.triage.changes import Change, Entry, State
from rsmq_tui.triage.journal_file import JournalError, JournalFile
from rsmq_tui.triage.journal_schema import (
    FIELDS,
    DamageError,
    batch_of,
    known_name,
    new_ids,
    refuse_damaged,
    stored_name,
)
from rsmq_tui.triage.liveness import is_alive

TOUCHED = (
    "EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change"
    f" AND instr(coalesce(outcome, ''), '{Outcome.DONE}'))"
)
UNKNOWN = "EXISTS (SELECT 1 FROM batches WHERE batches.change = changes.change AND outcome IS NULL)"
ENDED = "state IN ('done', 'stopped', 'interrupted')"
_NUMBER_OF_BATCHES = "(SELECT count(*) FROM batches WHERE batches.change = changes.change)"


class DamagedError(JournalError):
    """A change is not in the journal as it was written, and so cannot be undone; it is set aside, others are not."""

    def __init__(self, change: int, reason: str) -> None:
        super().__init__(f"{damage_words(change)}: {reason}")


def damage_words(change: int) -> str:
    """Say that a change is damaged."""
    return f"change {change} is damaged in the journal and set aside; it cannot be undone, the others can"


class JournalReading:
    """What can be read of the journal in the file ``path``; raises ``JournalError``. Close it with ``close``.

    Every row is checked before it is believed. A change that is damaged has the state ``damaged``; its batches raise
    ``DamagedError``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = JournalFile(path)

    def change(self, change: int) -> Change | None:
        """Return one change, or None when it is not in the journal (any more)."""
        return next(self._changes("WHERE change = ?", change), None)

    def changes(self, limit: int = 100) -> list[Change]:
        """Return the last changes, newest first."""
        return list(self._changes("ORDER BY change DESC LIMIT ?", limit))

    @property
    def is_in_place(self) -> bool:
        """True while this is the journal that is found at its path, and not one that was removed or replaced."""
        return self._file.is_in_place

    def last_undoable(self, server: str, ns: str, queue: str | None = None) -> Change | None:
        """Return the last change on that server and namespace (and queue) that can be undone and is no undo itself."""
        found = self._changes(
            "WHERE server = ? AND ns = ? AND ? IN (queue, target, '') AND undoes IS NULL AND touched"
            f" AND {ENDED} ORDER BY change DESC",
            server,
            ns,
            stored_name(queue or ""),
        )
        return next((change for change in found if change.state is not State.DAMAGED), None)

    def damaged_since(self, change: int) -> list[int]:
        """Return the numbers of the changes after that one which are damaged."""
        return [
            later.change
            for later in self._changes("WHERE change > ? ORDER BY change", change)
            if later.state is State.DAMAGED
        ]

    def unfinished(self, server: str | None = None) -> list[Change]:
        """Return the changes (on that server) of which something is not known or told, and nobody is at work on."""
        found = self._changes(
            "WHERE coalesce(?, server) = server AND state != 'damaged'"
            f" AND (state = 'running' OR NOT audited OR {UNKNOWN})",
            server,
        )
        at_ms = now_ms()
        with self._file.told():
            return [
                change
                for change in found
                if change.state is not State.DAMAGED
                and not is_alive(self._lock_path(change.change, change.at_ms), change.host, at_ms - change.alive_ms)
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
                "SELECT change, number FROM batches JOIN changes USING (change)"
                " WHERE changes.undoes = ? AND instr(coalesce(outcome, ''), ?)"
                # All or nothing, and guarded: what was perhaps not taken back is tried again.
                " AND NOT (batches.unsure AND kind = ?)",
                (change, Outcome.DONE, FIELDS),
            ).fetchall()
        again = {undo: self.undone_numbers(undo) for undo in {row[0] for row in rows}}
        found = [self._entry(undo, number).undoes for undo, number in rows if number not in again[undo]]
        return {undone for undone in found if undone is not None}

    def sources(self, server: str, ns: str, target: str) -> dict[bytes, str]:
        """Return for all messages that were moved to ``target``, by id, the queue that each came from last."""
        with self._file.told():
            rows = self._file.db.execute(
                "SELECT batches.* FROM batches JOIN changes USING (change)"
                " WHERE changes.server = ? AND changes.ns = ? AND batches.target = ? AND batches.kind = 'move'"
                " AND batches.queue != batches.target AND outcome IS NOT NULL"
                " ORDER BY batches.change, batches.number",
                (server, ns, target),
            )
            found: dict[bytes, str] = {}
            for row in rows:
                # A damaged one knows nothing: its messages are then of unknown origin, and told.
                with suppress(DamageError):
                    refuse_damaged("batches", dict(row))
                    queue, ids = known_name(row["queue"]), new_ids(row["edits"])
                    found |= {id: queue for id, letter in zip(ids, row["outcome"], strict=False) if letter == "d"}
            return found

    def set_aside(self, change: int, *states: State) -> None:
        """Note that a change in one of these states is damaged."""
        with self._file.told(), self._file.transaction():
            self._file.db.executemany(
                "UPDATE changes SET state = ? WHERE change = ? AND state = ?",
                [(State.DAMAGED, change, state) for state in states],
            )

    def size_bytes(self) -> int:
        """Return how much of the file is in use."""
        return self._file.size_bytes()

    def close(self) -> None:
        """Close the file, when nobody is at work in it any more."""
        self._file.close()

    def _lock_path(self, change: int, at_ms: int) -> Path:
        """Return what is locked while a change is worked on; in a new journal, the numbers begin anew."""
        return self.path.with_name(f"{self.path.name}-{change}-{at_ms}.lock")

    def _entry(self, change: int, number: int) -> Entry:
        try:
            with self._file.told():
                row = self._file.db.execute(
                    "SELECT * FROM batches WHERE change = ? AND number = ?", (change, number)
                ).fetchone()
        except JournalError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            raise self._set_aside(change, f"batch {number} cannot be read") from error
        if row is None:
            raise JournalError(f"change {change} is no longer in the journal")
        try:
            fields = dict(row)
            batch = batch_of(fields)
            return _entry_of(fields, batch)
        except DamageError as error:
            raise self._set_aside(change, f"batch {number}: {error}") from error

    def _set_aside(self, change: int, reason: str) -> DamagedError:
        """Note that a change is damaged, unless somebody works on it, and return what to raise."""
        # Where the file does not let us it is found out again the next time.
        with suppress(JournalError):
            self.set_aside(change, State.DONE, State.STOPPED, State.INTERRUPTED, State.UNDONE)
        return DamagedError(change, reason)

    def _changes(self, where: str, *values: object) -> Iterator[Change]:
        with self._file.told():
            rows = self._file.db.execute(
                f"SELECT *, {TOUCHED} AS touched, {_NUMBER_OF_BATCHES} AS there FROM changes {where}", values
            ).fetchall()
        for row in rows:
            try:
                yield _change_of(dict(row))
            except DamageError:
                yield _damaged(dict(row))


_INTEGERS = ("change", "at_ms", "pid", "alive_ms", "planned", "done", "skipped", "failed", "unsure")
_TEXTS = ("name", "past", "who", "host", "profile", "server", "ns", "what")
_FLAGS = ("audited", "touched", "settled")
_NAMES = ("queue", "target")


def _change_of(row: dict[str, Any]) -> Change:
    """Read a change; raises ``DamageError``."""
    refuse_damaged("changes", row)
    if row["written"] not in (None, row["there"]):
        raise DamageError("some of its batches are missing")
    if not (
        all(isinstance(row[name], int) for name in _INTEGERS)
        and all(isinstance(row[name], str) for name in _TEXTS)
        and isinstance(row["undoes"], int | None)
        and isinstance(row["run_id"], str | None)
        and row["state"] in set(State)
    ):
        raise DamageError("it holds nothing that rsmq-tui writes")
    fields = {name: row[name] for name in (*_INTEGERS, *_TEXTS, "undoes", "run_id")}
    fields |= {name: bool(row[name]) for name in _FLAGS}
    target = None if row["target"] is None else known_name(row["target"])
    return Change(**fields, queue=known_name(row["queue"]), target=target, state=State(row["state"]))


def _damaged(row: dict[str, Any]) -> Change:
    """Return what can be shown of a change that is damaged."""
    fields: dict[str, Any] = {name: row[name] if isinstance(row[name], int) else 0 for name in _INTEGERS}
    fields |= {name: row[name] if isinstance(row[name], str) else "" for name in (*_TEXTS, *_NAMES)}
    return Change(**fields, state=State.DAMAGED, undoes=None, audited=True, touched=False)


def _entry_of(row: dict[str, Any], batch: Batch) -> Entry:
    """Return a batch with what the journal knows of it; raises ``DamageError``."""
    token, outcome, undoes = row["token"], row["outcome"], row["undoes"]
    if not (isinstance(token, str) and isinstance(outcome, str | None) and isinstance(undoes, int | None)):
        raise DamageError("it holds nothing that rsmq-tui writes")
    flags = bool(row["counted"]), bool(row["renames"]), bool(row["unsure"])
    return Entry(row["number"], token, batch, outcome, undoes, *flags)


def now_ms() -> int:
    """Return the local time in ms since the epoch."""
    return time.time_ns() // 1_000_000
