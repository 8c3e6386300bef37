"""Compacts a history: the many small files that a recorder sealed in a day become few.

A file of ``<recorder>-<first>-<last>.parquet`` has the rows of several files of one recorder and day, at most as many
as a recorder seals at once, so that readers of a moment stay as quick. Its metadata has ``rsmq_replaces``, the names of
these files, which are removed when it is complete. If a compaction is killed in between, readers ignore the replaced
files, and the next compaction removes them.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rsmq_tui.history.names import HistoryError, explain
from rsmq_tui.history.schema import REPLACES_KEY, SAMPLES, SCHEMAS
from rsmq_tui.history.store import SealedFile, Store
from rsmq_tui.history.writer import Settings, write_sealed

_ROWS_MAX = Settings().seal_rows


class Compacted(NamedTuple):
    """How many files there were, and how many there are now, of the days that were compacted."""

    before: int
    after: int


class _Part(NamedTuple):
    """A file of one recorder: its name, its rows, and the files that it replaces."""

    name: str
    rows: int
    replaces: tuple[str, ...]


def compact(store: Store, before_day: str, scratch: Path) -> Iterator[tuple[str, Compacted]]:
    """Compact the samples of each day before ``before_day``; yield the day and its result.

    ``scratch`` is a folder for temporary files, on the disk of the history if that is local. Raises ``HistoryError``.
    """
    try:
        for day in sorted(store.days(SAMPLES)):
            if day < before_day:
                files = store.files(SAMPLES, [day])
                yield day, Compacted(len(files), len(files) - _compact_day(store, files, scratch))
    except Exception as error:
        # Filesystems raise exceptions of their own.
        raise HistoryError(explain(error, store.label)) from error


def replaced_by(metadata: dict[bytes, bytes] | None) -> tuple[str, ...]:
    """Return the files that a file replaces, by its metadata; raises ``ValueError`` for damaged ones."""
    return tuple(map(str, json.loads((metadata or {}).get(REPLACES_KEY.encode(), b"[]"))))


def _compact_day(store: Store, files: Sequence[SealedFile], scratch: Path) -> int:
    """Compact the files of a day; return how many fewer there are."""
    found = [(file.name, _look(store, file.name)) for file in files]
    replaced = {name for _, part in found if part is not None for name in part.replaces}
    gone = [name for name, _ in found if name in replaced]
    store.remove(*gone)
    fewer = len(gone)
    left = sorted((name, part) for name, part in found if name not in replaced)
    for _, group in groupby(left, key=lambda one: _recorder(one[0])):
        for parts in _batches([part for _, part in group]):
            _join(store, parts, scratch)
            fewer += len(parts) - 1
    return fewer


def _look(store: Store, name: str) -> _Part | None:
    """Return what is known of a file; None if it must stay as it is: unreadable, or of a newer version."""
    try:
        with pq.ParquetFile(store.open(name)) as file:
            if set(file.schema_arrow.names) - set(SCHEMAS[SAMPLES].names):
                return None
            return _Part(name, file.metadata.num_rows, replaced_by(file.metadata.metadata))
    except (OSError, ValueError, pa.ArrowException):
        return None


def _batches(parts: Sequence[_Part | None]) -> Iterator[list[_Part]]:
    """Yield the runs of files to be joined; the numbers in their names follow each other."""
    batch: list[_Part] = []
    for part in (*parts, None):
        if part is None or sum(one.rows for one in batch) + part.rows > _ROWS_MAX:
            if len(batch) > 1:
                yield batch
            batch = []
        if part is not None:
            batch.append(part)


def _join(store: Store, parts: Sequence[_Part], scratch: Path) -> None:
    """Write the rows of some files as one, and remove them."""
    tables = []
    for part in parts:
        with pq.ParquetFile(store.open(part.name)) as file:
            tables.append(file.read())
    # Files of earlier versions lack columns.
    rows = pa.concat_tables([SCHEMAS[SAMPLES].empty_table(), *tables], promote_options="permissive")
    folder, _, first = parts[0].name.rpartition("/")
    numbers = [_numbers(part.name) for part in (parts[0], parts[-1])]
    name = f"{folder}/{_recorder(first)}-{numbers[0][0]}-{numbers[1][-1]}.parquet"
    with tempfile.TemporaryDirectory(dir=scratch) as temporary:
        path = Path(temporary) / "joined.parquet"
        write_sealed(rows, path, [part.name for part in parts])
        with pq.ParquetFile(path) as written:
            if written.metadata.num_rows != sum(part.rows for part in parts):
                raise OSError("a joined file has not all rows")
        store.publish(path, name)
    store.remove(*(part.name for part in parts))


def _recorder(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[0]


def _numbers(name: str) -> list[str]:
    """Return the first and last number in the name of a file; a name without one stands for itself."""
    stem = name.rpartition("/")[2].removesuffix(".parquet")
    return stem.split("-")[1:] or [stem]
