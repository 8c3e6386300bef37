"""The batch job of a run: finds new files, computes tables from them, and leaves corrupt files out.

Structured Streaming finds the files that no earlier run has seen. Each is noted in a small file under ``_notes``, which
is written before the stream's checkpoint commits, and removed only when the tables of those files are published. So if
a run is killed, the file is still noted, or is noted again. In this stream, a row is a file, not a sample: no file of
the history is opened, so a corrupt file does not stop it.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.history.analysis.schema import BY_DAY, WHOLE
from rsmq_tui.history.analysis.tables import Manifest
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.history.store import Store
from rsmq_tui.monitor.text import plural
from rsmq_tui.pipeline.folder import Folder, as_glob
from rsmq_tui.pipeline.increment import TABLES, Held, WorkPlan, day_in, source_of, with_whole_days
from rsmq_tui.pipeline.spark import why
from rsmq_tui.pipeline.state import LeftOut, Progress, Settings
from rsmq_tui.pipeline.tables import IncrementalMerge, StoredTables, Written, history_rows, write_table

_AT_ONCE = 8
_SAID_MAX = 200
_Look = Callable[[Store, str], str | None]
_NAMED = re.compile(r"reading file (\S+\.parquet)")


def check_footers(store: Store, names: Iterable[str]) -> dict[str, str]:
    """Return why files of a history cannot be used, by name, from their Parquet footers."""
    return _checked(store, names, _footer)


def check_bodies(store: Store, names: Iterable[str]) -> dict[str, str]:
    """Return why files of a history cannot be read completely, by name."""
    return _checked(store, names, _body)


def named_in(error: BaseException, names: Iterable[str]) -> str | None:
    """Return which of some files Spark could not read, by its message; None if it names none of them."""
    # Spark quotes the URL of the file; its last parts identify it.
    found = _NAMED.search(str(error))
    if found is None:
        return None
    ends = "/".join(unquote(found[1]).rsplit("/", 3)[1:])
    return ends if ends in set(names) else None


def _checked(store: Store, names: Iterable[str], look: _Look) -> dict[str, str]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        names = list(names)
        told = pool.map(lambda name: _told(store, name, look), names)
        return {name: why for name, why in zip(names, told, strict=True) if why is not None}


def _told(store: Store, name: str, look: _Look) -> str | None:
    try:
        return look(store, name)
    except FileNotFoundError:
        # Its day was deleted meanwhile.
        return None
    except Exception as error:
        # A bad file must not stop the others.
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return (said.splitlines() or [type(error).__name__])[0][:_SAID_MAX]


def _footer(store: Store, name: str) -> str | None:
    with pq.ParquetFile(store.open(name)) as file:
        return _odd_column(name, {field.name: field.type for field in file.schema_arrow})


def _body(store: Store, name: str) -> str | None:
    with pq.ParquetFile(store.open(name)) as file:
        for number in range(file.metadata.num_row_groups):
            file.read_row_group(number)
    return None


def _odd_column(name: str, types: Mapping[str, pa.DataType]) -> str | None:
    """Describe the first column whose type differs from the schema; missing and additional columns are accepted."""
    for field in SCHEMAS[name.partition("/")[0]]:
        found = types.get(field.name, field.type)
        if _plain(found) != _plain(field.type):
            return f"its column {field.name} is {found}, not {field.type}"
    return None


def _plain(kind: pa.DataType) -> str:
    """Return the name of a type, without names and widths that do not matter."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_plain(kind.value_type)}"
    return "string" if pa.types.is_large_string(kind) else "int64" if pa.types.is_int32(kind) else str(kind)


class Made(NamedTuple):
    """The tables by day that were written, the files that turned out to be unreadable, and the executed work plan."""

    written: dict[str, Written]
    damaged: dict[str, LeftOut]
    done: WorkPlan


class BatchJob:
    """Computes tables from a history, in the run's own folder; ``begin`` is called with the name of each step."""

    def __init__(
        self,
        spark: SparkSession,
        history: Folder,
        out: Folder,
        run: str,
        settings: Settings,
        progress: Progress,
        begin: Callable[[str], None],
    ) -> None:
        self._spark, self._history, self._out, self._run = spark, history, out, run
        self._settings, self._progress, self._begin = settings, progress, begin

    def by_day(self, held: Held, todo: WorkPlan, left_out: Collection[str], before: Manifest | None) -> Made:
        """Write the tables by day for a work plan; raises what Spark raises.

        The hours that are kept are copied from the tables that ``before`` names.
        """
        names = [
            file.name
            for table in TABLES
            for file in held[table]
            if file.day in todo.read[table] and file.name not in left_out
        ]
        wanted = [table for table in BY_DAY if todo.days[source_of(table)]]
        self._progress.expect(len(wanted) + len(WHOLE) + 2)
        self._begin(f"checking {plural(len(names), 'file')}")
        damaged = self._marked(check_footers(self._history.store, names))
        while True:
            # If a file is damaged, its whole day is computed again without it.
            spoilt = {day for name in damaged if name.startswith(f"{SAMPLES}/") and (day := day_in(name))}
            todo = with_whole_days(todo, held, todo.partly.intersection(spoilt))
            standing = IncrementalMerge(self._spark, self._out, self._run, before, todo)
            try:
                return Made(self._write_days(todo, standing, {*left_out, *damaged}), damaged, todo)
            except Exception as error:
                found = self._found_by(error, [name for name in names if name not in damaged])
                if not found:
                    raise
                damaged |= found
                self._progress.expect(len(wanted) + len(WHOLE) + 1)

    def over_all(self, manifest: Manifest) -> dict[str, Written]:
        """Write the tables over all days, from all tables by day that a manifest names."""
        from rsmq_tui.pipeline.transforms.outlook import whole_tables  # noqa: PLC0415

        stored = StoredTables(self._spark, self._out, manifest)
        return {
            table: self._write(table, rows, "all days") for table, rows in whole_tables(stored, self._settings).items()
        }

    def _write_days(self, todo: WorkPlan, standing: IncrementalMerge, left_out: Collection[str]) -> dict[str, Written]:
        written = {}
        for source in TABLES:
            if not todo.days[source]:
                continue
            out = [name for name in left_out if name.startswith(f"{source}/")]
            rows = history_rows(self._spark, self._history, source, todo.read[source], out)
            kept: list[DataFrame] = []
            try:
                for table, made in self._tables_of(source, rows, todo, kept).items():
                    written[table] = standing.with_rest(table, self._write(table, made, todo.amount(source)))
            finally:
                for shared in kept:
                    # If Spark has ended, nothing is cached any more.
                    with suppress(Exception):
                        shared.unpersist()
        return written

    def _tables_of(self, source: str, rows: DataFrame, todo: WorkPlan, kept: list[DataFrame]) -> dict[str, DataFrame]:
        from rsmq_tui.pipeline.transforms.inventories import message_tables  # noqa: PLC0415
        from rsmq_tui.pipeline.transforms.rollups import persisted, sample_tables  # noqa: PLC0415

        def keep(shared: DataFrame) -> DataFrame:
            kept.append(persisted(shared))
            return kept[-1]

        if source == SAMPLES:
            return sample_tables(rows, todo.hours, keep)
        return message_tables(rows, todo.days[source], self._settings)

    def _write(self, table: str, rows: DataFrame, of: str) -> Written:
        self._begin(f"{table} of {of}")
        return write_table(self._out, self._run, table, rows)

    def _found_by(self, error: Exception, names: Sequence[str]) -> dict[str, LeftOut]:
        """Return the unreadable files after a job has failed: the one that the error names, and others like it."""
        named = named_in(error, names)
        found = {} if named is None else {named: why(error)}
        return self._marked(found | check_bodies(self._history.store, names))

    def _marked(self, damaged: Mapping[str, str]) -> dict[str, LeftOut]:
        return {name: LeftOut(self._history.stamp(name) or "", why) for name, why in damaged.items()}


CHECKPOINT, NOTES = "_checkpoint", "_notes"
_FILES = "path string, modificationTime timestamp, length bigint, content binary"


class Notes(NamedTuple):
    """The names of the new files of each table, and the note files."""

    names: dict[str, set[str]]
    files: tuple[str, ...]


def note_new_files(
    spark: SparkSession,
    history: Folder,
    out: Folder,
    tables: Iterable[str],
    noted: Callable[[], None] | None = None,
) -> None:
    """Write notes of the new files of some tables.

    ``noted`` is called when notes are written, before the stream commits its checkpoint.
    """
    queries: list[Any] = []
    try:
        for table in tables:
            found = (
                spark.readStream.format("binaryFile")
                .schema(_FILES)
                .option("pathGlobFilter", "*.parquet")
                .option("recursiveFileLookup", "true")
                # A file that was copied with its old date is new too.
                .option("maxFileAge", "99999d")
                # A day may be deleted meanwhile.
                .option("ignoreMissingFiles", "true")
                .load(as_glob(history.at(table)))
                .select("path")
            )
            queries.append(
                found.writeStream.foreachBatch(_noting(out.at(f"{NOTES}/{table}"), noted))
                .option("checkpointLocation", out.at(f"{CHECKPOINT}/{table}"))
                .queryName(f"new files of {table}")
                .trigger(availableNow=True)
                .start()
            )
        for query in queries:
            query.awaitTermination()
    finally:
        for query in queries:
            if query.isActive:
                query.stop()


def read_notes(out: Folder) -> Notes:
    """Return the notes whose tables are not published yet."""
    names: dict[str, set[str]] = {}
    files = []
    for note in out.files(NOTES):
        parts = note.split("/")
        # Names of incomplete files, also of killed runs, begin like this.
        if len(parts) != 4 or parts[3].startswith(("_", ".")):
            continue
        files.append(note)
        with out.open(note) as lines:
            for line in lines:
                # The name unchanged; if a store quotes it, it matches no file, and stands for its whole day.
                name = "/".join(json.loads(line)["path"].rsplit("/", 3)[1:])
                if day_in(name) is not None:
                    names.setdefault(parts[1], set()).add(name)
    return Notes(names, tuple(files))


def drop_notes(out: Folder, notes: Notes) -> None:
    """Remove notes, and incomplete files that killed runs left there."""
    out.remove(*{name.rpartition("/")[0] for name in notes.files})
    out.remove_empty(NOTES)


def forget(out: Folder) -> None:
    """Make all files new to the next run; the checkpoint is removed first, so that no noted file is lost."""
    out.remove(CHECKPOINT)
    out.remove(NOTES)


def _noting(url: str, noted: Callable[[], None] | None) -> Callable[[DataFrame, int], None]:
    # Over Spark Connect it runs on the server, which may not have this package: it must not refer to it.
    if noted is None:

        def note(batch: DataFrame, number: int) -> None:
            batch.coalesce(1).write.mode("overwrite").json(f"{url}/{number}")

        return note

    def note_and_tell(batch: DataFrame, number: int) -> None:
        batch.coalesce(1).write.mode("overwrite").json(f"{url}/{number}")
        noted()

    return note_and_tell
