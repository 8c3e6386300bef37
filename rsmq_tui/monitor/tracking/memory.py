"""Keeps the last hour of a place across restarts: series of counters, sums, and when conditions began.

Each place has an SQLite file. Every ``EVERY_MS`` of server time, a thread writes one bucket of counters and the state
of all trackers in one transaction. One bucket of each half hour is kept for a day, for the sums of a day, and what
charts show of the time before the hour, up to a day: a row for five minutes, in all some 2 MB for 1,000 queues. Several
dashboards may share the file: the last one to write a bucket, or the state, wins, and all of them have seen the same
server. SQLite rather than a file that is replaced as a whole, because a write then costs one bucket instead of an hour
of them, and because a writer that is killed loses nothing of what was there. A file that cannot be used never stops the
polls: ``problem`` says why.
"""

import asyncio
import json
import os
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import chain, repeat
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rsmq_tui.heap import give_back
from rsmq_tui.monitor.tracking.place_tracker import EarlierRun, PlaceMemory, PlaceTracker
from rsmq_tui.monitor.tracking.series import BUCKETS_MS, COARSE_MS, COUNTERS, MARK_MS, MARKS, UNKNOWN, FlightTimes
from rsmq_tui.monitor.tracking.trend import DAY_BUCKET_MS, DAY_MS, DAY_VALUES, DayBucket, TotalsPoint

if TYPE_CHECKING:
    import sqlite3

EVERY_MS = 30_000
KEPT_MS = 3_600_000
_MARKS_KEPT_MS = MARKS * MARK_MS
VERSION = 1
# "rsmm", in the file's header.
_APPLICATION_ID = 0x72736D6D
# A file that nobody has written for a day is deleted, and the oldest ones if all together are longer than this.
_DELETED_AFTER_S = 86_400
FOLDER_BYTES_MAX = 200_000_000
# The longest file, and the longest content of a compressed column, that are read.
_FILE_BYTES_MAX = 100_000_000
_COLUMN_BYTES_MAX = 200_000_000
_LOCK_WAIT_S = 1.0
_SUFFIX = ".sqlite"

# names: the queues of a bucket, in the order of its counters; id: their digest. bucket: one for each slot of
# ``EVERY_MS``; counters: depth, ready, totalsent and totalrecv of each queue. state: one row with the state of the
# trackers; more: a JSON array of the sums, and of values that are not numbers. flights: the samples of messages in
# flight between two moments, a JSON object of arrays by queue. changes: one row, such an object, of when this program
# changed queues. day: a ``DayBucket`` for each slot of ``DAY_BUCKET_MS``.
_SCHEMA = """
CREATE TABLE names (id TEXT PRIMARY KEY, names BLOB NOT NULL);
CREATE TABLE bucket (slot INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, names TEXT NOT NULL, counters BLOB NOT NULL);
CREATE TABLE state (
    id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, names TEXT NOT NULL, numbers BLOB NOT NULL, more BLOB NOT NULL
);
"""
# Files that were begun by an earlier version do not have these.
_LATER = (
    "CREATE TABLE IF NOT EXISTS flights (at_ms INTEGER NOT NULL, samples BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS changes (id INTEGER PRIMARY KEY, times BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS day"
    " (slot INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, names TEXT NOT NULL, points BLOB NOT NULL)",
)


class _UnfitError(Exception):
    """The file is of another program or of another version: it is neither read nor written."""


class _TooLongError(Exception):
    """The file is ours, and too long: it is replaced."""


class Memory:
    """The memory of one place in ``folder``; ``identity`` says which server, user and queues it is about.

    It is in no file name, but its digest is, so it must not contain passwords. ``problem`` is a sentence, or None.
    ``clock`` is a monotonic clock in seconds.
    """

    def __init__(self, folder: Path, *identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        digest = sha256("\n".join(identity).encode("utf-8", "surrogateescape")).hexdigest()
        self.path = folder / f"{digest[:32]}{_SUFFIX}"
        self.problem: str | None = None
        self._is_unfit = False
        self._loading: asyncio.Task[EarlierRun | None] | None = None
        self._saving: asyncio.Task[None] | None = None
        # The time of the last poll that was kept, or of the first poll.
        self._kept_ms: int | None = None
        self._clock = clock
        self._polled_s = 0.0
        self._is_tidy = False

    def begin(self) -> None:
        """Start to read the file, while the first poll is under way."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self.load))

    async def restore(self, tracker: PlaceTracker, at_ms: int) -> None:
        """Let a new tracker continue from the file; ``at_ms`` is the time of the first poll. Later calls do nothing."""
        if self._kept_ms is not None:
            return
        self.begin()
        assert self._loading is not None
        earlier = await asyncio.shield(self._loading)
        self._kept_ms = at_ms
        # A clock that was set back, or another server with the same address, makes it useless.
        if earlier is None or at_ms < earlier.last.at_ms:
            return
        count = len(earlier.names)
        tracker.trend.marks = {name: earlier.marks[index::count] for index, name in enumerate(earlier.names)}
        goes_on = at_ms - earlier.last.at_ms <= KEPT_MS
        day = [bucket for bucket in earlier.day if bucket.at_ms >= at_ms - DAY_MS]
        tracker.trend.restore_day(day, None if goes_on else earlier.last.at_ms)
        if goes_on:
            tracker.restore(earlier, at_ms)

    def keep(self, tracker: PlaceTracker, at_ms: int) -> None:
        """Write the state after a poll, in a thread, if that is due."""
        self._polled_s = self._clock()
        if self._kept_ms is None or 0 <= at_ms - self._kept_ms < EVERY_MS or self._is_unfit:
            return
        if self._saving is None or self._saving.done():
            self._kept_ms = at_ms
            self._saving = asyncio.create_task(asyncio.to_thread(self.save, tracker.moment()))

    async def aclose(self, tracker: PlaceTracker) -> None:
        """Write the state after the last poll."""
        for task in (self._loading, self._saving):
            if task is not None:
                await asyncio.shield(task)
        if self._kept_ms is not None and not self._is_unfit and (moment := tracker.moment()).at_ms:
            # If this dashboard was paused for long, others may have written later moments.
            is_late = (self._clock() - self._polled_s) * 1000 > EVERY_MS
            await asyncio.to_thread(self.save, moment, only_if_newest=is_late)

    def load(self) -> EarlierRun | None:
        """Read the file; None if there is none, or if it cannot be used."""
        with suppress(OSError):
            # Without a file, the first paint does not wait for sqlite3 either.
            if not self.path.exists():
                return None
        with self._explained("read"), closing(self._opened()) as db:
            return _read(db)
        return None

    def save(self, moment: PlaceMemory, *, only_if_newest: bool = False) -> None:
        """Write a moment, and delete what is too old. It may be called from any thread, and raises nothing.

        A moment earlier than the last one in the file is from a clock that was set back, and is written; with
        ``only_if_newest``, it is left out.
        """
        with self._explained("kept"):
            for folder in (self.path.parent.parent, self.path.parent):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._is_tidy:
                self._is_tidy = True
                _tidy(self.path.parent)
            # Names of queues may be secret: only the user may ever read the file.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(self._opened()) as db:
                _write(db, moment, only_if_newest=only_if_newest)
            self.problem = None
        give_back()

    def _opened(self) -> "sqlite3.Connection":
        """Open the file, whose tables are created if it is empty.

        Raises ``_UnfitError``, ``_TooLongError`` and sqlite3's errors.
        """
        import sqlite3  # noqa: PLC0415 - not before the first paint

        db = sqlite3.connect(self.path, timeout=_LOCK_WAIT_S, isolation_level=None)
        try:
            with _transaction(db):
                (application,), (version,) = (
                    db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
                )
                if (application, version) == (0, 0) and not db.execute("SELECT * FROM sqlite_schema").fetchall():
                    for statement in _SCHEMA.split(";")[:-1]:
                        db.execute(statement)
                    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    db.execute(f"PRAGMA user_version = {VERSION}")
                elif application != _APPLICATION_ID:
                    raise _UnfitError("another program wrote it")
                elif version != VERSION:
                    raise _UnfitError("another version of this program wrote it")
                elif self.path.stat().st_size > _FILE_BYTES_MAX:
                    raise _TooLongError
                for statement in _LATER:
                    db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _explained(self, what: Literal["read", "kept"]) -> Iterator[None]:
        """Turn the errors of a file into ``problem``; a damaged file is deleted."""
        import sqlite3  # noqa: PLC0415 - not before the first paint

        words = f"the last hour cannot be {what} in {self.path}"
        # What is written is ours: if it is invalid, nothing is wrong with the file.
        of_values = (zlib.error, ValueError, TypeError, LookupError, RecursionError)
        damage = (sqlite3.DatabaseError, *of_values) if what == "read" else (sqlite3.DatabaseError,)
        try:
            yield
        except _UnfitError as error:
            self._is_unfit = True
            self.problem = f"{words}: {error}"
        except _TooLongError:
            # Every bucket has its own names if queues come and go all the time.
            self.problem = f"{words}: it was too long, and replaced"
            with suppress(OSError):
                _delete(self.path)
        except OSError as error:
            self.problem = f"{words}: {error.strerror or type(error).__name__}"
        except sqlite3.OperationalError as error:
            self.problem = f"{words}: {error}"
        except damage as error:
            if "not a database" in str(error):
                self._is_unfit = True
                self.problem = f"{words}: another program wrote it"
                return
            self.problem = f"{words}: it was damaged, and replaced"
            with suppress(OSError):
                _delete(self.path)
        except of_values as error:
            self.problem = f"{words}: a defect of this program ({type(error).__name__}: {error})"


@contextmanager
def _transaction(db: "sqlite3.Connection") -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _write(db: "sqlite3.Connection", moment: PlaceMemory, *, only_if_newest: bool) -> None:
    # Names may hold bytes that are not UTF-8; JSON escapes preserve them.
    names = json.dumps(moment.names).encode()
    digest = sha256(names).hexdigest()
    counters = zlib.compress(_shuffled(b"".join(map(_little_endian, moment.counters))), 1)
    numbers = zlib.compress(_shuffled(_little_endian(moment.numbers)), 1)
    more = zlib.compress(json.dumps([moment.totals, moment.more]).encode(), 1)
    at_ms = moment.at_ms
    with _transaction(db):
        if only_if_newest and db.execute("SELECT * FROM state WHERE at_ms > ?", (at_ms,)).fetchone() is not None:
            return
        db.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (digest, zlib.compress(names, 1)))
        db.execute("INSERT OR REPLACE INTO bucket VALUES (?, ?, ?, ?)", (at_ms // EVERY_MS, at_ms, digest, counters))
        db.execute("INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?, ?)", (at_ms, digest, numbers, more))
        changes = zlib.compress(json.dumps(moment.changes).encode(), 1)
        db.execute("INSERT OR REPLACE INTO changes VALUES (1, ?)", (changes,))
        if moment.flights:
            samples = zlib.compress(json.dumps(moment.flights).encode(), 1)
            db.execute("INSERT INTO flights VALUES (?, ?)", (at_ms, samples))
        db.execute("DELETE FROM flights WHERE at_ms > ? OR at_ms < ?", (at_ms, at_ms - KEPT_MS))
        # Moments later than now are from before the clock was set back. One a minute is kept for an hour, then one a
        # half hour.
        first = "(SELECT min(slot) FROM bucket GROUP BY at_ms / ?)"
        db.execute(
            f"DELETE FROM bucket WHERE at_ms > ? OR at_ms < ? OR (at_ms < ? AND slot NOT IN {first})"
            f" OR (at_ms < ? AND slot NOT IN {first})",
            (at_ms, at_ms - _MARKS_KEPT_MS, at_ms - KEPT_MS, MARK_MS, at_ms - BUCKETS_MS, COARSE_MS),
        )
        if moment.day is not None:
            _write_day(db, moment.day)
        db.execute("DELETE FROM day WHERE at_ms > ? OR at_ms < ?", (at_ms, at_ms - DAY_MS))
        used = "SELECT names FROM bucket UNION SELECT names FROM day"
        db.execute(f"DELETE FROM names WHERE id <> ? AND id NOT IN ({used})", (digest,))


def _write_day(db: "sqlite3.Connection", bucket: DayBucket) -> None:
    names = json.dumps(list(bucket.names)).encode()
    digest = sha256(names).hexdigest()
    points = zlib.compress(_shuffled(_little_endian(bucket.values), bucket.values.itemsize), 1)
    db.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (digest, zlib.compress(names, 1)))
    slot = bucket.at_ms // DAY_BUCKET_MS
    db.execute("INSERT OR REPLACE INTO day VALUES (?, ?, ?, ?)", (slot, bucket.at_ms, digest, points))


def _read(db: "sqlite3.Connection") -> EarlierRun | None:
    """Read the last moment and the buckets before it; raises sqlite3's errors, ``ValueError`` and ``TypeError``."""
    with _transaction(db):
        state = db.execute("SELECT at_ms, names, numbers, more FROM state").fetchone()
        named = dict(db.execute("SELECT id, names FROM names").fetchall())
        buckets = db.execute("SELECT at_ms, names, counters FROM bucket ORDER BY at_ms").fetchall()
        stored = db.execute("SELECT samples FROM flights ORDER BY at_ms").fetchall()
        changed = db.execute("SELECT times FROM changes").fetchall()
        days = db.execute("SELECT at_ms, names, points FROM day ORDER BY at_ms").fetchall()
    if state is None:
        return None
    at_ms, latest, packed_numbers, packed_more = state
    buckets = [bucket for bucket in buckets if at_ms - _MARKS_KEPT_MS <= bucket[0] <= at_ms]
    recent = [bucket for bucket in buckets if bucket[0] >= at_ms - KEPT_MS]
    marks = {time_ms // MARK_MS: time_ms for time_ms, _, _ in reversed(buckets)}.values()
    lists = {key: _names(named[key]) for key in dict.fromkeys((latest, *(key for _, key, _ in buckets)))}
    # Queues that did not exist in the last hour are not continued. Most buckets have the same queues.
    of_hour = dict.fromkeys((latest, *(key for _, key, _ in recent)))
    names = list(dict.fromkeys(chain.from_iterable(map(lists.__getitem__, of_hour))))
    orders = {key: None if each == names else _order(each, names) for key, each in lists.items()}
    # Queue by queue, as their series are. The last bucket stays without any queue: there, charts show a gap.
    width = COUNTERS * (len(recent) + 1)
    counters = array("d", [nan]) * (width * len(names))
    marked = array("d")
    for number, (time_ms, key, packed) in enumerate(buckets, len(recent) - len(buckets)):
        size, order = len(lists[key]), orders[key]
        numbers = _unshuffled("d", _inflated(packed), size * COUNTERS)
        columns = [numbers[index * size : (index + 1) * size] for index in range(COUNTERS)]
        if order is not None:
            columns = [array("d", map([*values, nan].__getitem__, order)) for values in columns]
        for start, values in enumerate(columns, COUNTERS * number) if number >= 0 else ():
            counters[start::width] = values
        if time_ms in marks:
            for values in (array("d", [time_ms]) * len(names), *columns[2:]):
                marked.extend(values)
    times_ms = [*(time_ms for time_ms, _, _ in recent), at_ms + 1]
    totals, more = json.loads(_inflated(packed_more))
    points = [TotalsPoint(*point) for point in totals]
    known = _unshuffled("q", _inflated(packed_numbers))
    flights: dict[str, list[FlightTimes]] = {}
    for (packed,) in stored:
        for name, samples in dict(json.loads(_inflated(packed))).items():
            flights.setdefault(name, []).extend(map(_flight_times, samples))
    changes: dict[str, list[int]] = {}
    for (packed,) in changed:
        changes = {name: list(map(int, times)) for name, times in dict(json.loads(_inflated(packed))).items()}
    last = PlaceMemory(at_ms, lists[latest], [], points, known, dict(more), flights, changes)
    return EarlierRun(last, times_ms, names, counters, marked, list(_day(days, named, at_ms)))


def _day(rows: Iterable[tuple[int, str, bytes]], named: Mapping[str, bytes], until_ms: int) -> Iterator[DayBucket]:
    known: dict[str, dict[str, int]] = {}
    for at_ms, key, packed in rows:
        # An earlier version deletes the names that only these rows need.
        if key in named and until_ms - DAY_MS <= at_ms <= until_ms:
            if key not in known:
                known[key] = {name: index for index, name in enumerate(_names(named[key]))}
            names = known[key]
            yield DayBucket(at_ms, names, _unshuffled("f", _inflated(packed), len(names) * DAY_VALUES))


def _flight_times(kept: list[Any]) -> FlightTimes:
    at_ms, sampled, *times_ms = kept
    known = (at_ms, sampled, *(value for value in times_ms if value is not None))
    if not all(isinstance(value, int) and abs(value) < -UNKNOWN for value in known):
        raise ValueError("not times of messages in flight")
    return FlightTimes(at_ms, sampled, *times_ms)


def _names(packed: bytes) -> list[str]:
    return list(map(str, json.loads(_inflated(packed))))


def _order(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the index of each wanted name, or the number of names for one that is not there."""
    index = dict(zip(names, range(len(names)), strict=True))
    return list(map(index.get, wanted, repeat(len(names))))


def _unshuffled(code: str, shuffled: bytes, count: int | None = None) -> "array[Any]":
    """Return the numbers of a type of ``array``; raises ``ValueError`` if there are not ``count`` of them."""
    width = array(code).itemsize
    size = len(shuffled) // width
    if len(shuffled) % width or count not in (None, size):
        raise ValueError("numbers are missing")
    raw = bytearray(len(shuffled))
    for index in range(width):
        raw[index::width] = shuffled[index * size : (index + 1) * size]
    numbers = array(code)
    numbers.frombytes(raw)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _little_endian(numbers: "array[Any]") -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _shuffled(raw: bytes, width: int = 8) -> bytes:
    """Return all first bytes of the numbers, then all second ones, and so on: zlib halves the size of that."""
    return b"".join(raw[index::width] for index in range(width))


def _inflated(packed: bytes) -> bytes:
    """Decompress; raises ``zlib.error``, and ``ValueError`` for a content that is cut or too long."""
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(packed, _COLUMN_BYTES_MAX)
    if not unpacking.eof:
        raise ValueError("compressed content without its end")
    return found


def _tidy(folder: Path) -> None:
    """Delete files that are no longer written, and the oldest ones if there are too many."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            known = path.stat()
            found.append((known.st_mtime, known.st_size, path))
    kept_bytes, oldest_s = 0, time.time() - _DELETED_AFTER_S
    for written_s, size, path in sorted(found, reverse=True):
        kept_bytes += size
        if written_s < oldest_s or kept_bytes > FOLDER_BYTES_MAX:
            with suppress(OSError):
                _delete(path)


def _delete(path: Path) -> None:
    """Delete a file and the journal that SQLite keeps beside it, without which the journal would damage the next."""
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
