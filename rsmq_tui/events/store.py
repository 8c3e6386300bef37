"""The events in one SQLite file in the user's state folder, which several dashboards write and read at once.

Two dashboards see the same event at slightly different times. An event is left out if another writer has written one of
the same server, queue, kind and outcome that began at nearly the same time, or since the last poll before the event.
A verdict is left out too if another writer has written it within ``_SAME_VERDICT_MS``, and it is still the last one of
its queue: two dashboards that began to watch at different times need different times to see that a queue grows.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from sys import intern
from typing import ClassVar, NamedTuple

from rsmq_tui.events.model import Event, EventKind, ReportedVerdict, Severity
from rsmq_tui.monitor import Thresholds, Verdict
from rsmq_tui.monitor.incidents import QUEUE_FLAP_SPAN_MS
from rsmq_tui.protocol.keys import name_bytes, name_of
from rsmq_tui.sqlite_file import SqliteFile

LIMIT = 100_000
# Two dashboards poll at different moments, and the beginning of a condition is known to within a few polls. They try a
# lost server again after up to 10 s (earlier versions: 30 s), read INFO every 10 s, and report evictions once a minute.
_SAME_MS = 5_000
_SAME_OF_KIND_MS = {
    # Flapping that is over is not reported again within this time.
    EventKind.FLAPPING: QUEUE_FLAP_SPAN_MS,
    # Lists are found by a search, which begins a minute after the last one ended. Other queues are told apart by when
    # they were created.
    EventKind.CREATED: 120_000,
    EventKind.DELETED: 120_000,
    EventKind.BACK: 35_000,
    EventKind.RESTARTED: 45_000,
    EventKind.SHRUNK: 45_000,
    EventKind.FAILOVER: 45_000,
    EventKind.ROLE: 45_000,
    EventKind.EVICTED: 60_000,
    EventKind.CONFIG: 45_000,
}
_SAME_VERDICT_MS = Thresholds().growing_ms
_TIME_MAX = 1 << 62
FILE_NAME = "events.sqlite"


class EventStoreError(Exception):
    """The log of events cannot be written or read; its text is for people."""


class Stored(NamedTuple):
    """An event in the file; ids grow in the order of writing."""

    id: int
    event: Event


# server, ns and queue are blobs: names are bytes, and need not be UTF-8. queue is empty if there is none. uid: the id
# of an event that only the program that finds it first writes, such as a change in the journal; NULL for others.
_SCHEMA = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    server BLOB NOT NULL,
    run_id TEXT NOT NULL,
    ns BLOB NOT NULL,
    queue BLOB,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL,
    text BLOB NOT NULL,
    details TEXT NOT NULL,
    same TEXT NOT NULL,
    begin_ms INTEGER NOT NULL,
    writer TEXT NOT NULL,
    uid TEXT UNIQUE
);
CREATE INDEX events_by_time ON events (at_ms);
CREATE INDEX events_by_queue ON events (queue, begin_ms)
"""
# The kinds that change the verdict of a queue, and what an event of the same queue of the same server has.
_OF_VERDICTS = "('verdict', 'deleted', 'created')"
_OF_PLACE = "queue IS ? AND ns = ? AND (server = ? OR (run_id != '' AND run_id = ?))"
_COLUMNS = ("id", "at_ms", "server", "run_id", "ns", "queue", "kind", "severity", "text", "details", "same", "begin_ms",
            "writer", "uid")  # fmt: skip


class EventStore(SqliteFile):
    """Writes and reads the events in the file ``path``, created if needed; raises ``EventStoreError``.

    At most ``limit`` events are kept; the oldest go first. ``writer`` is a random id of the program that writes.
    """

    what = "log of events"
    error_type = EventStoreError
    version = 2
    # "rsme", in the file's header.
    application_id = 0x72736D65
    schema = _SCHEMA
    # By begin alone, each of thousands of queues that get into trouble at once was compared with all others.
    migrations: ClassVar = {
        1: ("DROP INDEX events_by_begin", "CREATE INDEX events_by_queue ON events (queue, begin_ms)")
    }
    columns: ClassVar = {"events": _COLUMNS}
    # The last events may be lost when the machine crashes, but a commit does not wait for the disk.
    synchronous = "NORMAL"

    def __init__(self, path: Path, *, writer: str = "", limit: int = LIMIT) -> None:
        super().__init__(path)
        self._writer = writer
        self._limit = limit

    def write(self, events: Iterable[Event], *, uids: Sequence[str] | None = None) -> int:
        """Write events in one transaction, and return how many were written; those of other writers are left out.

        ``uids`` gives each event an id, under which it is written only once, ever: not again when it was deleted.
        """
        written = 0
        with self.explained(), self.transaction():
            from_ms = None if uids is None else self._reaches_back_to()
            for number, event in enumerate(events):
                if from_ms is None or event.at_ms >= from_ms:
                    written += self._write(event, None if uids is None else uids[number])
            if written:
                self.db.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (self._limit,))
        return written

    def _reaches_back_to(self) -> int | None:
        """Return the time of the oldest event if others were deleted to keep the limit, otherwise None."""
        # Ids begin at 1, and are not used again.
        first = self.db.execute("SELECT id FROM events ORDER BY id LIMIT 1").fetchone()
        if first is None or first["id"] == 1:
            return None
        return int(self.db.execute("SELECT min(at_ms) FROM events").fetchone()[0])

    def _write(self, event: Event, uid: str | None) -> bool:
        begin_ms, within_ms = _time(event.begin_ms), _SAME_OF_KIND_MS.get(event.kind, _SAME_MS)
        from_ms = begin_ms if event.after_ms is None else min(begin_ms, _time(event.after_ms))
        values = (
            _time(event.at_ms), name_bytes(event.server), event.run_id, name_bytes(event.ns),
            None if event.queue is None else name_bytes(event.queue), event.kind.value, event.severity.value,
            name_bytes(event.text), json.dumps(event.details), event.same, begin_ms, self._writer, uid,
        )  # fmt: skip
        at_ms, server, run_id, ns, queue, kind, _, _, _, same, _, writer, _ = values
        of_place = queue, ns, server, run_id
        if event.kind is EventKind.VERDICT and self._is_last_verdict(at_ms, event.same, of_place):
            return False
        inserted = self.db.execute(
            f"INSERT OR IGNORE INTO events ({', '.join(_COLUMNS[1:])}) SELECT {', '.join('?' * (len(_COLUMNS) - 1))}"
            " WHERE NOT EXISTS (SELECT 1 FROM events WHERE begin_ms BETWEEN ? AND ? AND writer != ? AND kind = ?"
            f" AND same = ? AND {_OF_PLACE})",
            (*values, from_ms - within_ms, begin_ms + within_ms, writer, kind, same, *of_place),
        )
        return inserted.rowcount > 0

    def _is_last_verdict(self, at_ms: int, same: str, of_place: tuple[object, ...]) -> bool:
        """Return whether a verdict is still the last one of its queue, and another writer has just written it."""
        # The + keeps SQLite from reading the whole table in the order of the ids.
        last = self.db.execute(
            f"SELECT same, at_ms, writer FROM events WHERE at_ms >= ? AND kind IN {_OF_VERDICTS} AND {_OF_PLACE}"
            " ORDER BY +id DESC LIMIT 1",
            (at_ms - _SAME_VERDICT_MS, *of_place),
        ).fetchone()
        if last is None or last["writer"] == self._writer:
            return False
        return bool(last["same"] == same and last["at_ms"] <= at_ms + _SAME_VERDICT_MS)

    def last(self, limit: int, *, since_ms: int | None = None) -> list[Stored]:
        """Return the last events since a time, the oldest of them first."""
        found = self._select(
            "WHERE at_ms >= ? ORDER BY at_ms DESC, id DESC LIMIT ?", -_TIME_MAX if since_ms is None else since_ms, limit
        )
        return found[::-1]

    def after(self, id: int, limit: int = 1_000) -> list[Stored]:
        """Return the events that were written after that one, in the order of writing."""
        return self._select("WHERE id > ? ORDER BY id LIMIT ?", id, limit)

    def newest_id(self) -> int:
        """Return the id of the event that was written last, 0 for none."""
        with self.explained():
            return int(self.db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])

    def reported_verdicts(self, server: str, ns: str) -> dict[str, ReportedVerdict]:
        """Return the troubles of queues that were reported and are not over, as far as the log reaches."""
        with self.explained():
            rows = self.db.execute(
                "SELECT queue, kind, same, at_ms, max(id) FROM events WHERE server = ? AND ns = ? AND queue IS NOT NULL"
                f" AND kind IN {_OF_VERDICTS} GROUP BY queue",
                (name_bytes(server), name_bytes(ns)),
            ).fetchall()
        found: dict[str, ReportedVerdict] = {}
        for queue, kind, same, at_ms, _ in rows:
            with suppress(ValueError, TypeError):
                verdict = Verdict(same) if kind == EventKind.VERDICT else Verdict.OK
                if verdict is not Verdict.OK:
                    found[_name(queue)] = ReportedVerdict(verdict, int(at_ms))
        return found

    def was_lost(self, server: str) -> bool:
        """Return whether the last event of a server's connection is that it was lost."""
        with self.explained():
            row = self.db.execute(
                "SELECT kind FROM events WHERE server = ? AND kind IN ('lost', 'back') ORDER BY id DESC LIMIT 1",
                (name_bytes(server),),
            ).fetchone()
        return row is not None and row["kind"] == EventKind.LOST

    def _select(self, where: str, *values: object) -> list[Stored]:
        with self.explained():
            rows = self.db.execute(f"SELECT * FROM events {where}", values).fetchall()
        found = []
        for row in rows:
            # Another program may have written anything: invalid events are left out.
            with suppress(ValueError, TypeError, AttributeError, RecursionError):
                found.append(Stored(int(row["id"]), _event_of(row)))
        return found


def _time(ms: int) -> int:
    """Return a time that fits in a column: a score that was set by hand may be any number."""
    return max(-_TIME_MAX, min(ms, _TIME_MAX))


def _name(raw: object) -> str:
    if not isinstance(raw, bytes):
        raise TypeError("not a name")
    return name_of(raw)


def _event_of(row: sqlite3.Row) -> Event:
    details = json.loads(row["details"])
    queue = row["queue"]
    return Event(
        at_ms=int(row["at_ms"]),
        server=intern(_name(row["server"])),
        ns=intern(_name(row["ns"])),
        queue=None if queue is None else _name(queue),
        kind=EventKind(row["kind"]),
        severity=Severity(row["severity"]),
        text=_name(row["text"]),
        details=details if isinstance(details, dict) else {},
        same=str(row["same"]),
        begin_ms=int(row["begin_ms"]),
        run_id=intern(str(row["run_id"])),
    )
