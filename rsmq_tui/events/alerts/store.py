"""The reported alerts, in one SQLite file in the user's state folder that dashboards and `rsmq-tui watch` share.

A program that is started again neither repeats an alert nor forgets to report its end. If several programs find
the same condition, the first one records it here, and only that one sends it to commands and services.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.protocol.keys import name_bytes, name_of
from rsmq_tui.sqlite_file import SqliteFile

T = TypeVar("T")

FILE_NAME = "alerts.sqlite"
# An alert that was reported longer ago than this is reported again after a restart: what happened since is unknown.
KEPT_MS = 7 * 86_400_000
_FUTURE_MS = 3_600_000
_RETRY_S = 30.0
# How often what ended longer ago than ``KEPT_MS`` is deleted.
_TIDY_S = 3_600.0
# Two programs do not repeat at the same moment.
_REPEAT_SLACK_MS = 1_000


class AlertStoreError(Exception):
    """The file cannot be read or written; its text is for people."""


class Topic(NamedTuple):
    """What an alert is about: a rule, its condition as written, and a place; ``ns`` is empty for a server.

    ``rule`` is what identifies the rule besides its condition, not its name.
    """

    rule: str
    when: str
    profile: str
    server: str
    ns: str


class ReportedCondition(NamedTuple):
    """A condition that was reported at ``reported_ms`` and has held since ``since_ms``; both times are local, in ms."""

    since_ms: int
    reported_ms: int


_TOPIC = ("rule", "condition", "profile", "server", "ns")
_COLUMNS = (*_TOPIC, "queue", "since_ms", "told_ms", "over_ms")
_KEY = ", ".join((*_TOPIC, "queue"))
_OF_TOPIC = " AND ".join(f"{name} = ?" for name in _TOPIC)
_INSERT = f"INSERT INTO told VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT ({_KEY}) DO UPDATE SET"


class AlertFile(SqliteFile):
    """The file of reported alerts."""

    what = "file of sent alerts"
    error_type = AlertStoreError
    version = 1
    # "rsma", in the file's header.
    application_id = 0x72736D61
    # Names are blobs: they need not be UTF-8. queue is empty for a server. over_ms: when its end was reported, local
    # time.
    schema = f"""
    CREATE TABLE told (
        {", ".join(f"{name} BLOB NOT NULL" for name in (*_TOPIC, "queue"))},
        since_ms INTEGER NOT NULL,
        told_ms INTEGER NOT NULL,
        over_ms INTEGER,
        PRIMARY KEY ({_KEY})
    )
    """
    columns: ClassVar = {"told": _COLUMNS}
    # After a crash of the machine, the last ones may be reported again, but a commit does not wait for the disk.
    synchronous = "NORMAL"


class AlertStore:
    """Stores the reported alerts in ``folder``, created if needed; not safe for threads.

    If the file cannot be used, ``problem`` says why, every alert counts as new, and the file is tried again after a
    while. ``clock`` is a monotonic clock in seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.problem: str | None = None
        self._path = folder / FILE_NAME
        self._clock = clock
        self._retry_at_s = self._tidy_at_s = 0.0
        self._file: AlertFile | None = None

    def load(self, topic: Topic, wall_ms: int) -> dict[str, ReportedCondition]:
        """Return the reported alerts that are not over, by queue."""

        def read(file: AlertFile) -> dict[str, ReportedCondition]:
            with file.transaction():
                # Times in the future are from before the clock was set back.
                span_ms = wall_ms - KEPT_MS, wall_ms + _FUTURE_MS
                file.db.execute("DELETE FROM told WHERE told_ms NOT BETWEEN ? AND ?", span_ms)
                query = f"SELECT * FROM told WHERE {_OF_TOPIC} AND over_ms IS NULL"
                rows = file.db.execute(query, _raw(topic)).fetchall()
            found = {}
            for row in rows:
                # Another program may have written anything.
                with suppress(TypeError, AttributeError, ValueError):
                    found[name_of(row["queue"])] = ReportedCondition(
                        min(int(row["since_ms"]), wall_ms), int(row["told_ms"])
                    )
            return found

        return self._do(read, {})

    def begin(self, topic: Topic, since_ms: Mapping[str, int], wall_ms: int) -> Sequence[str]:
        """Record that these queues are reported now, and return those that no other program has reported."""
        values = ((*_raw(topic), name_bytes(name), since, wall_ms, None) for name, since in since_ms.items())
        change = "since_ms = excluded.since_ms, told_ms = excluded.told_ms, over_ms = NULL WHERE over_ms IS NOT NULL"
        return self._news(f"{_INSERT} {change}", since_ms, values, wall_ms)

    def repeat(
        self, topic: Topic, since_ms: Mapping[str, int], unreported_ms: Mapping[str, int], wall_ms: int
    ) -> Sequence[str]:
        """Record that these queues are reported again, and return those that no other program has reported since.

        ``unreported_ms`` is for how long this program has not reported each of them.
        """
        latest_ms = wall_ms + _REPEAT_SLACK_MS
        values = (
            (*_raw(topic), name_bytes(name), since, wall_ms, None, latest_ms - unreported_ms[name])
            for name, since in since_ms.items()
        )
        change = "told_ms = excluded.told_ms, over_ms = NULL WHERE told_ms <= ?"
        return self._news(f"{_INSERT} {change}", since_ms, values, wall_ms)

    def end(self, topic: Topic, since_ms: Mapping[str, int], wall_ms: int) -> Sequence[str]:
        """Record that it is over for these queues, and return those for which no other program has reported that."""
        values = ((*_raw(topic), name_bytes(name), since, wall_ms, wall_ms) for name, since in since_ms.items())
        return self._news(f"{_INSERT} over_ms = excluded.over_ms WHERE over_ms IS NULL", since_ms, values, wall_ms)

    def take_back(self, topic: Topic, wall_ms: int) -> None:
        """Record that what was reported at that time could not be sent: the next start reports it."""

        def change(file: AlertFile) -> None:
            with file.transaction():
                for query in ("DELETE FROM told WHERE told_ms = ? AND over_ms IS NULL",
                              "UPDATE told SET over_ms = NULL WHERE over_ms = ?"):  # fmt: skip
                    file.db.execute(f"{query} AND {_OF_TOPIC}", (wall_ms, *_raw(topic)))

        self._do(change, None)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(sqlite3.Error):
                self._file.close()
            self._file = None

    def _news(
        self, query: str, names: Iterable[str], values: Iterable[tuple[object, ...]], wall_ms: int
    ) -> Sequence[str]:
        """Execute a statement for each name in one transaction, and return those for which it changed a row."""

        def write(file: AlertFile) -> Sequence[str]:
            with file.transaction():
                if self._clock() >= self._tidy_at_s:
                    # Queues come and go, so that names would collect there.
                    file.db.execute("DELETE FROM told WHERE over_ms < ?", (wall_ms - KEPT_MS,))
                    self._tidy_at_s = self._clock() + _TIDY_S
                return [
                    name
                    for name, value in zip(names, values, strict=True)
                    if file.db.execute(query, value).rowcount > 0
                ]

        return self._do(write, list(names))

    def _do(self, work: Callable[[AlertFile], T], otherwise: T) -> T:
        if self._file is not None and not self._file.is_in_place:
            # Somebody removed the file: a new one begins.
            self.close()
        if self._file is None and self._clock() < self._retry_at_s:
            return otherwise
        try:
            if self._file is None:
                self._file = AlertFile(self._path)
            with self._file.explained():
                done = work(self._file)
        except AlertStoreError as error:
            self.problem = printable(str(error), SENTENCE_MAX)
            self._retry_at_s = self._clock() + _RETRY_S
            self.close()
            return otherwise
        self.problem = None
        return done


def _raw(topic: Topic) -> tuple[bytes, ...]:
    return tuple(map(name_bytes, topic))
