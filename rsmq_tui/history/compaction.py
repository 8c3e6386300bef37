"""Compacts a history: the many small files that a recorder sealed in a day become few.

A file of ``<recorder>-<first>-<last>.parquet`` has the rows of several files of one recorder and day, at most as many
as a recorder seals at once, so that readers of a moment stay as quick. Its metadata has ``rsmq_replaces``, the names of
these files, and of those that they replace; they are removed when it is complete. If a compaction is killed in between,
readers ignore the replaced files, and the next compaction removes them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rsmq_tui.files import FileLock
from rsmq_tui.history.names import HistoryError, explain
from rsmq_tui.history.reading import is_joined, replaced_by
from rsmq_tui.history.schema import MESSAGES, SAMPLES, SCHEMAS
from rsmq_tui.history.store import SealedFile, Store, day_of, recorder_of
from rsmq_tui.history.writer import RecordingSettings, write_sealed
from rsmq_tui.monitor.moments import DAY_MS

_LIMITS = RecordingSettings()
_LOCK, _JOINED = "compaction", "compaction.part"
# A day is worth joining without being asked to if it has as many files, of this mean size or less. So what a run of the
# pipeline joins is little, and days that are compacted, or whose files are full, are not opened.
_WORTH_FILES = 10
_WORTH_BYTES = {SAMPLES: 1 << 17, MESSAGES: 1 << 20}


class Compacted(NamedTuple):
    """How many files a day had, and how many it has now."""

    before: int
    after: int


class _Part(NamedTuple):
    """A file of one recorder: its name, its rows, their size in bytes, and the files that it replaces."""

    name: str
    rows: int
    bytes: int
    replaces: tuple[str, ...]


def past_days(days: Iterable[str], now_ms: int) -> set[str]:
    """Return those days that recorders are done with: the days before yesterday."""
    before_day = day_of(now_ms - DAY_MS)
    return {day for day in days if day < before_day}


def compact(
    store: Store, days: Collection[str], scratch: Path, *, is_asked: bool = True
) -> Iterator[tuple[str, Compacted]]:
    """Compact some days; yield each day that there is, and its result.

    ``scratch`` is a folder for temporary files, on the disk of the history if that is local. If it ``is_asked`` for,
    all files are joined that can be; otherwise those of days that are worth it. Raises ``HistoryError``.
    """
    try:
        for day in sorted(days):
            found = {table: store.files(table, [day]) for table in SCHEMAS}
            wanted = [table for table, files in found.items() if is_asked or _is_worth_it(table, files)]
            fewer = 0
            if wanted:
                with _alone(store, scratch):
                    fewer = sum(_compact_day(store, table, found[table], scratch) for table in wanted)
            if before := sum(map(len, found.values())):
                yield day, Compacted(before, before - fewer)
    except Exception as error:
        # Filesystems raise exceptions of their own.
        raise HistoryError(explain(error, store.label)) from error


@contextmanager
def _alone(store: Store, scratch: Path) -> Iterator[None]:
    scratch.mkdir(parents=True, exist_ok=True)
    lock = FileLock.acquire(scratch / _LOCK)
    if lock is None:
        raise HistoryError(f"{store.label} is being compacted: wait until that is done")
    try:
        yield
    finally:
        (scratch / _JOINED).unlink(missing_ok=True)
        lock.release()


def _is_worth_it(table: str, files: Sequence[SealedFile]) -> bool:
    return len(files) >= _WORTH_FILES and sum(file.bytes for file in files) <= _WORTH_BYTES[table] * len(files)


def _compact_day(store: Store, table: str, files: Sequence[SealedFile], scratch: Path) -> int:
    """Compact the files of a day of a table; return how many fewer there are."""
    found = [(file.name, _read_part(store, table, file.name)) for file in files]
    # Only files that readers leave out: readers find replaced files in the metadata of joined ones.
    joined = (part for name, part in found if part is not None and is_joined(name))
    replaced = {name for part in joined for name in part.replaces}
    gone = [name for name, _ in found if name in replaced]
    store.remove(*gone)
    fewer = len(gone)
    left = sorted((name, part) for name, part in found if name not in replaced)
    for _, group in groupby(left, key=lambda one: recorder_of(one[0])):
        for parts in _batches([part for _, part in group]):
            _join(store, table, parts, scratch)
            fewer += len(parts) - 1
    return fewer


def _read_part(store: Store, table: str, name: str) -> _Part | None:
    """Return what is known of a file; None if it must stay as it is: unreadable, or of a newer version."""
    try:
        with pq.ParquetFile(store.open(name)) as file:
            if set(file.schema_arrow.names) - set(SCHEMAS[table].names):
                return None
            footer = file.metadata
            size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
            return _Part(name, footer.num_rows, size, replaced_by(footer.metadata))
    except (OSError, ValueError, pa.ArrowException):
        return None


def _batches(parts: Sequence[_Part | None]) -> Iterator[list[_Part]]:
    """Yield the runs of files to be joined; the numbers in their names follow each other."""
    batch: list[_Part] = []
    for part in (*parts, None):
        if part is None or not _fit([*batch, part]):
            if len(batch) > 1:
                yield batch
            batch = []
        if part is not None:
            batch.append(part)


def _fit(parts: Sequence[_Part]) -> bool:
    """Return whether some files are no more than a recorder seals at once."""
    return sum(part.rows for part in parts) <= _LIMITS.seal_rows and sum(part.bytes for part in parts) <= (
        _LIMITS.seal_bytes
    )


def _join(store: Store, table: str, parts: Sequence[_Part], scratch: Path) -> None:
    """Write the rows of some files as one, and remove them."""
    tables = []
    for part in parts:
        with pq.ParquetFile(store.open(part.name)) as file:
            tables.append(file.read())
    # Files of earlier versions lack columns.
    rows = pa.concat_tables([SCHEMAS[table].empty_table(), *tables], promote_options="permissive")
    folder, _, first = parts[0].name.rpartition("/")
    numbers = [_numbers(part.name) for part in (parts[0], parts[-1])]
    name = f"{folder}/{recorder_of(first)}-{numbers[0][0]}-{numbers[1][-1]}.parquet"
    path = scratch / _JOINED
    write_sealed(rows, path, [name for part in parts for name in (part.name, *part.replaces)])
    with pq.ParquetFile(path) as written:
        if written.metadata.num_rows != sum(part.rows for part in parts):
            raise OSError("a joined file has not all rows")
    store.publish(path, name)
    store.remove(*(part.name for part in parts))


def _numbers(name: str) -> list[str]:
    """Return the first and last number in the name of a file; a name without one stands for itself."""
    stem = name.rpartition("/")[2].removesuffix(".parquet")
    return stem.split("-")[1:] or [stem]
