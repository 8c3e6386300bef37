"""Known troubles: queues whose trouble somebody has acknowledged, with a note, until a time or until they are ok.

They are kept in one SQLite file in the user's state folder, which dashboards, `rsmq-tui watch` and `rsmq-tui known`
share. Nothing is changed in Redis. A note stays with its queue after the trouble is over.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import ClassVar, NamedTuple

from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.monitor.moments import MomentError, read_moment
from rsmq_tui.monitor.text import SENTENCE_MAX, read_span
from rsmq_tui.protocol.keys import name_bytes, name_of
from rsmq_tui.sqlite_file import SqliteFile

FILE_NAME = "known.sqlite"
NOTE_MAX = SENTENCE_MAX
UNTIL_OK = "until it is ok"
_UNTIL_MAX_MS = 366 * 86_400_000


class KnownError(Exception):
    """The file of known troubles cannot be read or written; its text is for people."""


def local_minute(at_ms: int, *, zone: bool = False) -> str:
    """Return date and time of the system's time zone, optionally with the zone."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M{' %Z' if zone else ''}}"


class Known(NamedTuple):
    """A queue whose trouble is known, or was until ``ended_ms``; times are local, in ms.

    ``until_ms`` is None until it is ok. ``note`` may be any text.
    """

    server: str
    ns: str
    queue: str
    note: str
    since_ms: int
    until_ms: int | None = None
    ended_ms: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.ended_ms is None

    def why_over(self, now_ms: int, *, is_ok: bool) -> str:
        """Return why it has to end: its time is over, or it has none and the queue ``is_ok``; empty if it goes on."""
        if self.until_ms is None:
            return "it is ok" if is_ok else ""
        return "its time is over" if now_ms >= self.until_ms else ""

    @property
    def until(self) -> str:
        """Until when, for people: in local time, with the zone, because the log of events may be read in another."""
        if self.until_ms is None:
            return UNTIL_OK
        return f"until {local_minute(self.until_ms, zone=True)}"

    def event(self, at_ms: int, why: str | None = None) -> Event:
        """Return the event of its beginning, or with ``why`` of its end; ``at_ms`` is the server's time."""
        words = f"its trouble is no longer acknowledged: {why}"
        if why is None:
            words = f"its trouble is acknowledged {self.until}{': ' if self.note else ''}{self.note}"
        details = {"note": self.note, "until_ms": self.until_ms, "ended": why}
        same = f"{self.since_ms} {why or ''}"
        return Event(
            at_ms, self.server, self.ns, self.queue, EventKind.KNOWN, Severity.INFO, words, details, same, at_ms
        )


def read_until(text: str, now_ms: int, zone: tzinfo | None = None) -> int | None:
    """Read ``06:00`` (the next such time), ``2031-05-19 09:00``, ``2h``, or ``until it is ok`` (also an empty text).

    The time is in ``zone``, by default in local time. Raises ValueError, also for a time that is past or more than a
    year away.
    """
    wanted = " ".join(text.lower().split())
    if wanted in ("", "ok", "until ok", UNTIL_OK):
        return None
    try:
        end_ms = _end_ms(wanted.removeprefix("until "), now_ms, zone)
    except MomentError:
        end_ms = now_ms
    if not now_ms < end_ms <= now_ms + _UNTIL_MAX_MS:
        example = "06:00 or 2031-05-19 09:00"
        raise ValueError(f'{text!r} is not a time such as {example}, a duration such as 2h, or "{UNTIL_OK}"')
    return end_ms


def _end_ms(wanted: str, now_ms: int, zone: tzinfo | None) -> int:
    span_ms = read_span(wanted)
    if isinstance(span_ms, int):
        return now_ms + span_ms
    if ":" not in wanted or "-" in wanted:
        return read_moment(wanted.upper(), now_ms, zone)
    today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date()
    days = today, today + timedelta(days=1)
    return next(end_ms for day in days if (end_ms := read_moment(f"{day} {wanted.upper()}", now_ms, zone)) > now_ms)


_COLUMNS = ("server", "ns", "queue", "note", "since_ms", "until_ms", "ended_ms")


class KnownStore(SqliteFile):
    """Reads and writes the file of known troubles; raises ``KnownError``."""

    what = "file of known troubles"
    error_type = KnownError
    version = 1
    # "rsmk", in the file's header.
    application_id = 0x72736D6B
    # Names and notes are blobs: they need not be UTF-8.
    schema = """
    CREATE TABLE known (
        server BLOB NOT NULL,
        ns BLOB NOT NULL,
        queue BLOB NOT NULL,
        note BLOB NOT NULL,
        since_ms INTEGER NOT NULL,
        until_ms INTEGER,
        ended_ms INTEGER,
        PRIMARY KEY (server, ns, queue)
    )
    """
    columns: ClassVar = {"known": _COLUMNS}

    def put(self, known: Known) -> None:
        """Store a known trouble in place of an earlier one of its queue."""
        names = (name_bytes(known.server), name_bytes(known.ns), name_bytes(known.queue))
        values = (*names, name_bytes(known.note[:NOTE_MAX]), known.since_ms, known.until_ms, known.ended_ms)
        with self.explained(), self.transaction():
            self.db.execute(f"INSERT OR REPLACE INTO known VALUES ({', '.join('?' * len(_COLUMNS))})", values)

    def end(self, known: Known, at_ms: int) -> bool:
        """Record its end, and return whether that is new: several programs may find it."""
        key = (name_bytes(known.server), name_bytes(known.ns), name_bytes(known.queue), known.since_ms)
        with self.explained(), self.transaction():
            ended = self.db.execute(
                "UPDATE known SET ended_ms = ?"
                " WHERE server = ? AND ns = ? AND queue = ? AND since_ms = ? AND ended_ms IS NULL",
                (at_ms, *key),
            )
        return ended.rowcount > 0

    def all(self) -> list[Known]:
        """Return all of them, also those that have ended."""
        with self.explained():
            rows = self.db.execute("SELECT * FROM known ORDER BY server, ns, queue").fetchall()
        found = []
        for row in rows:
            # Another program may have written anything.
            with suppress(TypeError, AttributeError):
                server, ns, queue, note = (name_of(row[name]) for name in _COLUMNS[:4])
                found.append(Known(server, ns, queue, note, row["since_ms"], row["until_ms"], row["ended_ms"]))
        return found


class KnownReader:
    """What the file of known troubles at ``path`` holds now; ``store`` is the open file, None if there is none."""

    def __init__(self, path: Path) -> None:
        self.store: KnownStore | None = None
        self._path = path
        self._found: dict[tuple[str, str], dict[str, Known]] = {}

    def of(self, server: str, ns: str) -> Mapping[str, Known]:
        """Return the current and past acknowledgements of a namespace, by the names of the queues."""
        return self._found.get((server, ns), {})

    def read(self, *, create: bool = False) -> bool:
        """Read the file again if it has changed, and return whether it has; raises ``KnownError``, and closes it then.

        Without ``create`` only if it exists.
        """
        try:
            if self.store is not None and not self.store.is_in_place:
                self.close()
                self._found = {}
            if self.store is None and (create or self._path.exists()):
                self.store = KnownStore(self._path)
            if self.store is None or not self.store.has_news():
                return False
            found: dict[tuple[str, str], dict[str, Known]] = {}
            for known in self.store.all():
                found.setdefault((known.server, known.ns), {})[known.queue] = known
        except KnownError:
            self.close()
            raise
        self._found = found
        return True

    def close(self) -> None:
        """Close the file; what was read stays."""
        if self.store is not None:
            self.store.close()
            self.store = None
