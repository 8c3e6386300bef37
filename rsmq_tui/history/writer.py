"""Writes a history: polls and messages to segments, segments to sealed Parquet files; removes old days.

Used by one thread.

If it is stopped at any point, by kill -9 or a full disk, sealed files are complete, and each row is in at most one of
them. The name of the sealed file is fixed when the segment is created, so sealing it again changes nothing.

Counters and depths are stored as differences from row to row: a few bits each, except for the step from one queue to
the next. Parquet stores 32 differences with the width of the widest, relative to the least of 128: one large increase
widens 32 of them, one large decrease all 128. So queues are sorted by their counters, the least first, and the rows of
each from last to first: every step between two queues is then a small increase. This saves a fifth to a third of the
file size.

Inventories repeat each other. They are sorted by message, so that what is the same in all inventories of a file is
next to each other, and is stored about once.
"""

import json
import os
import secrets
import shutil
import socket
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rsmq_tui.files import FileLock, read_json, sync
from rsmq_tui.heap import give_back
from rsmq_tui.history.names import HistoryError, Place, explain
from rsmq_tui.history.poll_log import BEGINNING, BegunPoll, is_poll_log, read_polls
from rsmq_tui.history.schema import (
    PLACES_KEY,
    REPLACES_KEY,
    SAMPLES,
    SCHEMA_FILE,
    SCHEMAS,
    VERSION,
    VERSION_KEY,
    describe,
    version_in,
)
from rsmq_tui.history.store import SEALED, day_of, delete_old_days, open_store

Rows = TypeVar("Rows")
SUFFIX = ".arrows"
# Batches are small: distributing the columns to threads takes longer than compressing them.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
# The end marker of an Arrow stream, which open segments do not have.
_END_BYTES = 8


class OpenFile(ABC, Generic[Rows]):
    """A new segment, open for appending rows of a ``table`` and ``day``. Raises ``OSError``.

    ``beginning`` is what its file begins with. ``opened_s`` is when it was opened, ``written_s`` when it was last
    written, which its owner sets.
    """

    def __init__(self, path: Path, table: str, day: str, beginning: bytes, opened_s: float = 0.0) -> None:
        self.path = path
        self.table, self.day = table, day
        self.opened_s = self.written_s = opened_s
        self.rows = self.bytes = 0
        self._end = 0
        self._is_dirty = False
        # Set if the file ends in partial rows that could not be truncated: nothing may follow them.
        self.is_torn = False
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
        try:
            self._write(beginning)
        except OSError:
            self.close()
            with suppress(OSError):
                path.unlink()
            raise

    @property
    def file_bytes(self) -> int:
        """The size of the file; ``bytes`` is the size of its rows in memory."""
        return self._end

    def sync(self) -> None:
        """Flush to the disk; raises ``OSError``."""
        if self._is_dirty:
            os.fsync(self._fd)
            self._is_dirty = False

    def close(self) -> None:
        """Close the file, which stays on disk."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def append(self, rows: Rows) -> int:
        """Append rows, all or none of them, and return how many; raises ``OSError``."""
        data, count, size = self._encoded(rows)
        self._write(data)
        self.rows += count
        self.bytes += size
        return count

    @abstractmethod
    def _encoded(self, rows: Rows) -> tuple[bytes | memoryview, int, int]:
        """Return rows as the file has them, how many they are, and their size in memory."""

    def _write(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        self._is_dirty = True
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            self._truncate()
            raise
        self._end += len(data)

    def _truncate(self) -> None:
        try:
            os.ftruncate(self._fd, self._end)
            os.lseek(self._fd, self._end, os.SEEK_SET)
        except OSError:
            self.is_torn = True


class Segment(OpenFile[pa.RecordBatch]):
    """A segment of Arrow batches."""

    def __init__(self, path: Path, table: str, day: str, schema: pa.Schema, opened_s: float = 0.0) -> None:
        self._header = bytes(schema.serialize())
        super().__init__(path, table, day, self._header, opened_s)

    def _encoded(self, batch: pa.RecordBatch) -> tuple[memoryview, int, int]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as stream:
            stream.write_batch(batch)
        return memoryview(sink.getvalue())[len(self._header) : -_END_BYTES], batch.num_rows, batch.nbytes


class PollSegment(OpenFile[BegunPoll]):
    """A segment of polls."""

    def __init__(self, path: Path, day: str, opened_s: float = 0.0) -> None:
        super().__init__(path, SAMPLES, day, BEGINNING, opened_s)

    def _encoded(self, poll: BegunPoll) -> tuple[bytes, int, int]:
        return poll.frame(self)


def read_segment(path: Path) -> pa.Table | None:
    """Return the rows of a segment up to the last that were written whole, or None if there are none.

    Raises ``OSError``, and ``HistoryError`` for a segment of another version of this program.
    """
    # Read everything first: a disk error must not be taken for the end of the segment.
    data = path.read_bytes()
    if is_poll_log(data):
        return read_polls(data)
    batches: list[pa.RecordBatch] = []
    try:
        reader = pa.ipc.open_stream(data)
        while True:
            batches.append(reader.read_next_batch())
    except StopIteration:
        pass
    except (pa.ArrowException, OSError):
        # The writer was stopped in the middle of this batch.
        pass
    return pa.Table.from_batches(batches) if batches else None


# Readers decode whole row groups, so a larger one takes more memory.
ROW_GROUP_ROWS = 131_072
_PLACE, _QUEUE, _COUNTER = ("profile", "server", "ns"), "queue", "totalsent"
# Delta encoding suits values close to the previous row's, a dictionary suits few distinct values.
_AS_DIFFERENCES = (
    *("depth", "ready", "hidden", "oldest_ready_age_ms", "totalsent", "totalrecv", "expired"),
    *("oldest_ready_waiting_ms", "since_ms", "idle_since_ms", "pending_since_ms", "pending_until_ms", "looked_all_ms"),
    *("sent_ms", "due_ms", "fr_ms"),
)
# Neither helps with these: all values differ.
_AS_THEY_ARE = ("id", "body")
_LEVEL = 6


def write_sealed(table: pa.Table, path: Path, replaces: Sequence[str] = ()) -> None:
    """Write rows as a sealed file, and flush it to the disk; raises ``OSError``.

    ``replaces`` are the names of the sealed files that the rows are from.
    """
    write_sorted(_sorted(table), path, sorted(places_in(table)), replaces)


def write_sorted(table: pa.Table, path: Path, places: Sequence[Place], replaces: Sequence[str] = ()) -> None:
    """Write rows that are in the order of ``write_sealed``, text as dictionaries or not; raises ``OSError``."""
    differences = {name: "DELTA_BINARY_PACKED" for name in _AS_DIFFERENCES if name in table.column_names}
    left_alone = {*differences, *_AS_THEY_ARE}
    with pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=[_leaf(field) for field in table.schema if field.name not in left_alone],
        column_encoding=differences,
        # Plain types: readers choose themselves whether to use dictionaries.
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        replaced = {REPLACES_KEY: json.dumps(replaces)} if replaces else {}
        writer.add_key_value_metadata({VERSION_KEY: str(VERSION), PLACES_KEY: json.dumps(places), **replaced})
    sync(path)


def places_in(table: pa.Table) -> list[Place]:
    """Return the places in a table, with names as stored."""
    found = table.select(["profile", "server", "ns"]).group_by(["profile", "server", "ns"]).aggregate([])
    return [Place(*row.values()) for row in found.to_pylist()]


def _sorted(table: pa.Table) -> pa.Table:
    """Return the rows sorted for a sealed file, as the module docstring says."""
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        # Dictionary-encoded text is sorted and written much faster.
        is_text = pa.types.is_string(column.type) and name not in _AS_THEY_ARE
        columns[name] = column.dictionary_encode() if is_text else column
    key = None
    for name in (*_PLACE, _QUEUE):
        column = columns[name]
        # Codes start at 1; 0 is null.
        order = pc.rank(column.dictionary, tiebreaker="first").cast(pa.int64())
        ranks = pc.fill_null(order.take(column.indices), 0)
        key = ranks if key is None else pc.add(pc.multiply(key, len(column.dictionary) + 1), ranks)
    rows = pa.table(columns)
    if _COUNTER not in rows.column_names:
        # The sort is stable: the rows of a message keep the order of its inventories.
        messages = pa.table({"key": key, "id": rows.column("id")})
        return rows.take(pc.sort_indices(messages, sort_keys=[("key", "ascending"), ("id", "ascending")]))
    return rows.take(_by_counter(key, len(columns[_QUEUE].dictionary) + 1, columns[_COUNTER]))


def _by_counter(key: pa.Array, queues: int, counter: pa.Array) -> pa.Array:
    """Return the sort order of rows: by place, then by counter, the last row first; ``key`` is place and queue."""
    found = pa.table({"key": key, "counter": counter}).group_by("key").aggregate([("counter", "min")])
    place = pc.divide(found.column("key"), queues)
    # Lists and rows of polls have no counter; ties are sorted by name.
    order = found.append_column("place", place).sort_by(
        [("place", "ascending"), ("counter_min", "ascending"), ("key", "ascending")]
    )
    ranks = pc.index_in(key, value_set=order.column("key").combine_chunks()).cast(pa.int64())
    last = len(key) - 1
    from_last = pc.subtract(last, pc.indices_nonzero(pa.repeat(True, len(key))).cast(pa.int64()))
    return pc.sort_indices(pc.add(pc.multiply(ranks, len(key)), from_last))


def _leaf(field: pa.Field) -> str:
    """Return the Parquet name of a column's values."""
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)


_LOCK = "lock"
# Locks may not work across machines: a recorder elsewhere that has not written for this long counts as dead.
_SILENT_ELSEWHERE_S = 300.0


class Spool:
    """A recorder's folder of segments, locked while its process lives."""

    def __init__(self, folder: Path, lock: FileLock) -> None:
        self.folder = folder
        self.recorder = folder.name
        self._lock = lock

    def segments(self) -> list[Path]:
        """Return the segments, the oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def leave(self) -> None:
        """Remove the folder, except for segments that are still to be sealed, and unlock it."""
        try:
            if not self.segments():
                # The lock goes last: if it is free, there is nothing left to do.
                for path in self.folder.iterdir():
                    if path.name != _LOCK:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                (self.folder / _LOCK).unlink()
                self.folder.rmdir()
        except OSError:
            # The next recorder removes what is left.
            pass
        finally:
            self._lock.release()


def make_spool(root: Path, recorder: str) -> Spool:
    """Create a recorder's folder, and lock it; raises ``OSError``."""
    root.mkdir(parents=True, exist_ok=True)
    with _gate(root):
        folder = root / recorder
        folder.mkdir()
        lock = FileLock.acquire(folder / _LOCK, wait=True)
        if lock is None:
            raise OSError(f"{folder} belongs to another user")
        lock.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}) + "\n")
        return Spool(folder, lock)


def claim_abandoned(root: Path) -> Iterator[Spool]:
    """Yield the folders of dead recorders, locked; each is left after its iteration. Raises ``OSError``."""
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
    for folder in folders:
        with _gate(root):
            lock = _claim(folder)
        if lock is not None:
            yield Spool(folder, lock)


def _claim(folder: Path) -> FileLock | None:
    if _is_elsewhere(folder):
        return None
    with suppress(FileNotFoundError):
        lock = FileLock.acquire(folder / _LOCK)
        # The recorder may have finished between the listing and the lock.
        if lock is not None and not (folder / _LOCK).exists():
            lock.release()
            return None
        return lock
    return None


def _is_elsewhere(folder: Path) -> bool:
    """Return whether a recorder on another machine may be using the folder."""
    try:
        host = read_json(folder / _LOCK)["host"]
        silent_s = time.time() - max(path.stat().st_mtime for path in folder.iterdir())
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return host != socket.gethostname() and silent_s < _SILENT_ELSEWHERE_S


@contextmanager
def _gate(root: Path) -> Iterator[None]:
    """Let only one process at a time create or claim a folder."""
    gate = FileLock.acquire(root / _LOCK, wait=True)
    try:
        yield
    finally:
        if gate is not None:
            gate.release()


def _give_back_memory() -> None:
    """Return the free memory of sealing and inventories to the system, in less than a millisecond."""
    # This does something only if Arrow has an allocator of its own, which keeps some of it all the same.
    pa.default_memory_pool().release_unused()
    give_back()


# What was written survives the end of the process, and, once it is flushed, a crash of the machine. A flush takes more
# processor time than writing a poll of a hundred queues.
SYNC_EVERY_S = 5.0
# A segment of a past day gets no more rows, except from a server whose clock is behind.
_DAY_OVER_S = 60.0
_RETRY_S = 30.0
# Polls wait while segments are sealed. After an outage of the disk or of a bucket, there may be hundreds of them.
_SEALING_S = 2.0
_GIVE_BACK_S = 10.0


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """When segments are sealed, and how much is kept; ``seal_bytes`` is the uncompressed size in memory.

    ``keep_ms`` and ``max_bytes`` are None for no limit.
    """

    seal_every_s: float = 600.0
    seal_rows: int = 250_000
    seal_bytes: int = 256_000_000
    keep_ms: int | None = None
    max_bytes: int | None = None


class Writer:
    """Writes one history; ``state`` is the user's folder, ``clock`` a monotonic clock in seconds.

    ``problem`` says why sealing or deleting failed, until it succeeds. Raises ``HistoryError`` if ``out`` cannot be a
    history.
    """

    def __init__(
        self,
        out: str,
        state: Path,
        settings: RecordingSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.recorder = secrets.token_hex(6)
        self.problem: str | None = None
        self.sealed_files = self.sealed_bytes = 0
        self._store, self._root = open_store(out, state)
        self.label = self._store.label
        self._settings = settings
        self._clock = clock
        self._wall_s = wall_s
        self._place: Spool | None = None
        self._open: dict[tuple[str, str], OpenFile[Any]] = {}
        # The segments to be sealed, and the time of the next attempt.
        self._waiting: list[Path] = []
        self._retry_at_s = 0.0
        self._number = 0
        self._newest_ms = 0
        self._recover_at_s = self._give_back_at_s = self._sync_at_s = 0.0

    def open(self) -> None:
        """Create the folders, and check that this version may write there; raises ``HistoryError``."""
        try:
            self._store.prepare()
            text = self._store.read(SCHEMA_FILE)
            version = None if text is None else version_in(text)
            if version is not None and version > VERSION:
                raise HistoryError(
                    f"{self.label} contains a history of version {version}, but this program writes "
                    f"version {VERSION}: record to another folder, or use a newer program"
                )
            place = self._place = make_spool(self._root, self.recorder)
            # An older version may have described fewer columns.
            if version != VERSION or text != describe():
                self._store.write(SCHEMA_FILE, describe(), place.folder / SCHEMA_FILE)
        except HistoryError:
            raise
        except Exception as error:
            raise HistoryError(explain(error, self.label)) from error

    def append(self, table: str, rows: pa.RecordBatch | BegunPoll, at_ms: int) -> int:
        """Append the rows of one moment, all or none, and return how many; raises ``OSError`` or ``HistoryError``.

        The rows of ``SAMPLES`` are a poll that a log has begun.
        """
        day = day_of(at_ms)
        now_s = self._clock()
        segment = self._open.get((table, day))
        if segment is None:
            try:
                segment = self._new_segment(table, day)
            except FileNotFoundError:
                # Somebody removed the folder: the history begins anew.
                if self._place is not None:
                    self._place.leave()
                self.open()
                segment = self._new_segment(table, day)
            self._open[table, day] = segment
        try:
            appended = segment.append(rows)
        finally:
            if segment.is_torn:
                self._end(table, day)
        segment.written_s = now_s
        self._newest_ms = max(self._newest_ms, at_ms)
        return appended

    def _new_segment(self, table: str, day: str) -> OpenFile[Any]:
        self._number += 1
        path, now_s = self._folder / f"{table}.{day}.{self._number:06d}{SUFFIX}", self._clock()
        return PollSegment(path, day, now_s) if table == SAMPLES else Segment(path, table, day, SCHEMAS[table], now_s)

    def sync(self) -> None:
        """Flush all segments to the disk, at most every ``SYNC_EVERY_S``; raises ``OSError``."""
        now_s = self._clock()
        if now_s >= self._sync_at_s:
            for segment in self._open.values():
                segment.sync()
            # Not before: a flush that failed is tried again with the next poll.
            self._sync_at_s = now_s + SYNC_EVERY_S

    def tend(self) -> None:
        """Seal due segments, recover those of dead recorders, delete old days; failures are retried later."""
        now_s, sealed = self._clock(), self.sealed_files
        for (table, day), segment in list(self._open.items()):
            if self._is_due(segment, now_s):
                self._end(table, day)
        if now_s >= self._retry_at_s:
            self._seal_waiting(now_s + _SEALING_S)
        if now_s >= self._recover_at_s:
            is_whole = self._recover(now_s + _SEALING_S)
            self._recover_at_s = now_s + (self._settings.seal_every_s if is_whole else _RETRY_S)
        if self.sealed_files != sealed or now_s >= self._give_back_at_s:
            self._give_back_at_s = now_s + _GIVE_BACK_S
            _give_back_memory()

    def close(self) -> None:
        """Seal everything; segments that cannot be sealed stay for the next recorder."""
        for table, day in list(self._open):
            self._end(table, day)
        self._seal_waiting(inf)
        if self._place is not None:
            self._place.leave()

    @property
    def open_bytes(self) -> int:
        """The size of the open segments on disk."""
        return sum(segment.file_bytes for segment in self._open.values())

    @property
    def _folder(self) -> Path:
        if self._place is None:
            raise HistoryError("nothing recorded yet")
        return self._place.folder

    def _is_due(self, segment: OpenFile[Any], now_s: float) -> bool:
        settings = self._settings
        if segment.rows >= settings.seal_rows or segment.bytes >= settings.seal_bytes:
            return True
        if segment.day < day_of(self._newest_ms) and now_s - segment.written_s >= _DAY_OVER_S:
            return True
        return now_s - segment.opened_s >= settings.seal_every_s

    def _end(self, table: str, day: str) -> None:
        segment = self._open.pop((table, day))
        segment.close()
        self._waiting.append(segment.path)
        self._retry_at_s = 0.0

    def _seal_waiting(self, until_s: float) -> None:
        """Seal the segments that wait, the oldest first, until that time of the clock, ``inf`` for all of them.

        Unless all are to be sealed, it ends with the first one that cannot be: the others would most likely fail in the
        same way. That one waits behind the others, so that it keeps none from being sealed.
        """
        if not self._waiting:
            return
        waiting, self._waiting = deque(self._waiting), []
        is_any_lost = False
        while waiting and self._clock() <= until_s:
            path = waiting.popleft()
            try:
                self._seal(path, self.recorder)
            except Exception as error:
                # pyarrow and filesystems raise exceptions of their own.
                self.problem = explain(error, self.label)
                if path.parent.exists() and not path.exists():
                    self.problem = f"{self.label}: {path.name} was removed before it was sealed: its rows are lost"
                    is_any_lost = True
                    continue
                self._waiting.append(path)
                self._retry_at_s = self._clock() + _RETRY_S
                if until_s < inf:
                    break
        self._waiting = [*waiting, *self._waiting]
        if not self._waiting and not is_any_lost:
            self.problem = None
        self._delete_old_days()

    def _seal(self, path: Path, recorder: str) -> None:
        table, day, number = path.name.removesuffix(SUFFIX).split(".")
        name = f"{table}/day={day}/{recorder}-{number}{SEALED}"
        # A writer may have been stopped after publishing the file.
        if not self._store.has(name):
            rows = read_segment(path)
            if rows is not None:
                scratch = path.with_suffix(".part")
                try:
                    write_sealed(rows, scratch)
                    size = scratch.stat().st_size
                    self._store.publish(scratch, name)
                except BaseException:
                    scratch.unlink(missing_ok=True)
                    raise
                self.sealed_files += 1
                self.sealed_bytes += size
        path.unlink()

    def _recover(self, until_s: float) -> bool:
        """Seal the segments of dead recorders until that time of the clock, and return whether all were tried.

        One that cannot be sealed stays, such as one of a later version.
        """
        try:
            for place in claim_abandoned(self._root):
                try:
                    for path in place.segments():
                        if self._clock() > until_s:
                            return False
                        try:
                            self._seal(path, place.recorder)
                        except Exception as error:
                            self.problem = explain(error, self.label)
                finally:
                    place.leave()
        except OSError as error:
            self.problem = explain(error, self.label)
        return True

    def _delete_old_days(self) -> None:
        settings = self._settings
        if settings.keep_ms is None and settings.max_bytes is None:
            return
        try:
            delete_old_days(
                self._store,
                keep_ms=settings.keep_ms,
                max_bytes=settings.max_bytes,
                # A clock that is far ahead, on the server or here, must not delete everything.
                now_ms=min(self._newest_ms, round(self._wall_s() * 1000)),
                written={day for _, day in self._open},
                scratch=self._folder,
            )
        except Exception as error:
            self.problem = explain(error, self.label)
