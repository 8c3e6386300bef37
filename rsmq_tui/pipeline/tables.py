"""The tables of a run: their rows, what is kept of earlier runs, and their publication."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import (
    BY_DAY,
    FILES,
    PLACES,
    ROLLUP_1H,
    ROLLUP_1M,
    ROLLUP_10S,
    SERVER_RUNS,
    SOURCES,
    VERDICT_RUNS,
)
from rsmq_tui.history.analysis.schema import SCHEMAS as TABLES
from rsmq_tui.history.analysis.tables import WHOLE_KEY, Manifest
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.history.writer import ROW_GROUP_ROWS
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.pipeline.folder import Folder, as_uri
from rsmq_tui.pipeline.transforms.columns import DAY, spark_type
from rsmq_tui.pipeline.transforms.samples import PLACE, is_within
from rsmq_tui.pipeline.work_plan import WorkPlan, first_day_of, hours_in, hours_of, shifted


def history_rows(
    spark: SparkSession,
    history: Folder,
    table: str,
    parts: Sequence[str],
    left_out: Collection[str],
) -> DataFrame:
    """Return the rows of some folders and files of a history, with ``day`` as the last column.

    Columns are taken by name: one that a file does not have is null. The files ``left_out`` are never opened.
    """
    if not parts:
        return _nothing(spark, SCHEMAS[table], DAY)
    rows = (
        spark.read.schema(f"{_ddl(SCHEMAS[table])}, {DAY} string")
        .option("basePath", history.at(table))
        .option("__globPaths__", "false")
        .option("pathGlobFilter", "*.parquet")
        # A day may be deleted while it is read; its results are then not published.
        .option("ignoreMissingFiles", "true")
        .parquet(*map(history.at, parts))
    )
    if table == SAMPLES:
        # A row in the folder of another day would be counted by some runs only.
        rows = rows.where(sf.floor(sf.col("at_ms") / DAY_MS) == sf.unix_date(sf.col(DAY).cast("date")))
    if left_out:
        names = [as_uri("/".join(name.split("/")[1:])) for name in sorted(left_out)]
        rows = rows.where(~sf.substring_index(sf.col("_metadata.file_path"), "/", -2).isin(names))
    return rows


def stored_rows(spark: SparkSession, out: Folder, table: str, names: Sequence[str]) -> DataFrame:
    """Return the rows in some files of a table by day of an analysis, with ``day`` as first column."""
    if not names:
        rows = _nothing(spark, TABLES[table], DAY)
    else:
        # An analysis has files of many runs, so the day is taken from the file names.
        rows = (
            spark.read.schema(_ddl(TABLES[table]))
            .option("__globPaths__", "false")
            .parquet(*map(out.at, names))
            .withColumn(DAY, sf.regexp_extract("_metadata.file_path", "/day=([0-9-]{10})/[^/]*$", 1))
        )
    return rows.select(DAY, *(f"`{name}`" for name in TABLES[table].names))


def _nothing(spark: SparkSession, schema: pa.Schema, *more: str) -> DataFrame:
    """Return an empty table, which needs no task."""
    typed = [(field.name, spark_type(field.type)) for field in schema] + [(name, "string") for name in more]
    return spark.range(0).select(*(sf.lit(None).cast(kind).alias(name) for name, kind in typed))


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


_DAY = re.compile(r"/day=([0-9]{4}-[0-9]{2}-[0-9]{2})/")


class WrittenTable(NamedTuple):
    """What a run wrote to a table: its files by day, or under ``WHOLE_KEY``, and the number of rows."""

    files: dict[str, tuple[str, ...]]
    rows: int


_KEPT = "kept"
OLD_FILES = "runs"
"""Where version 2 kept the files of its tables."""


def write_table(out: Folder, run: str, table: str, rows: DataFrame, part: str = "") -> WrittenTable:
    """Write rows of a table, or a part of them, to the run's folder; they are not published yet."""
    folder = f"{FILES}/{table}/{run}{part and '-'}{part}"
    # Few rows become one file, many become several files of a suitable size.
    shaped = rows.hint("rebalance", *(("day",) if table in BY_DAY else ()))
    writer = (
        shaped.write.mode("overwrite")
        .option("compression", "zstd")
        .option("parquet.block.row.count.limit", str(ROW_GROUP_ROWS))
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        # The folder is not read before it is complete, so files need no second rename.
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    )
    (writer.partitionBy("day") if table in BY_DAY else writer).parquet(out.at(folder))
    return _written(out, folder, table)


def is_by_day(table: str) -> bool:
    """Return whether a table has the days of its rows as keys in the manifest."""
    return table in BY_DAY or table == SOURCES


def run_of(name: str) -> str:
    """Return the run that wrote a file."""
    parts = name.split("/")
    return parts[1] if parts[0] == OLD_FILES else parts[2].removesuffix(f"-{_KEPT}")


def table_of(name: str) -> str:
    """Return the table that a file belongs to."""
    parts = name.split("/")
    return parts[2].removesuffix(f"-{_KEPT}") if parts[0] == OLD_FILES else parts[1]


def _written(out: Folder, folder: str, table: str) -> WrittenTable:
    files: dict[str, list[str]] = {}
    count = 0
    beside = []
    for name in sorted(out.files(folder)):
        last = name.rpartition("/")[2]
        if last.startswith(("_", ".")):
            # Hadoop's checksum files, which are not needed.
            beside.append(name)
            continue
        day = _DAY.search(name)
        rows = _rows_in(out, name)
        if table in BY_DAY and (day is None or not rows):
            continue
        files.setdefault(day[1] if day is not None else WHOLE_KEY, []).append(name)
        count += rows
    if out.path is not None:
        out.remove(*beside)
    out.sync(*(name for names in files.values() for name in names))
    return WrittenTable({day: tuple(names) for day, names in files.items()}, count)


def merged(
    before: Manifest | None, written: Mapping[str, WrittenTable], days: Mapping[str, Collection[str]], newest: str
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the files of all tables: for the computed ``days`` those of this run, for others those of ``before``.

    ``days`` has the days of each table by day; files that the run wrote for other days are ignored. ``newest`` is the
    newest day of the history: of fine roll-ups, days long before it are left out.
    """
    tables: dict[str, dict[str, tuple[str, ...]]] = {}
    for table in BY_DAY:
        old = {} if before is None else before.tables.get(table, {})
        new = written[table].files if table in written else {}
        worked = set(days.get(table, ()))
        kept = {day: names for day, names in old.items() if day not in worked}
        found = kept | {day: names for day, names in new.items() if day in worked}
        tables[table] = {day: found[day] for day in sorted(found) if day >= first_day_of(table, newest)}
    for table, made in written.items():
        if table not in BY_DAY:
            tables[table] = made.files
    return tables


_JOINED_FROM = 4
# As large as Spark makes its files.
_JOINED_BYTES_MAX = 1 << 27


def with_days_joined(
    out: Folder, run: str, tables: Mapping[str, Mapping[str, tuple[str, ...]]], newest: str
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the files of all tables, with the small files that many runs wrote of a day joined by this run.

    The last two days, ``newest`` and the one before it, are left as they are: the next runs replace their files. Files
    of version 2 are always written anew, since readers of Delta tables do not look outside the folder of the table. A
    day with a file that cannot be read is left as it is.
    """
    found = {table: dict(days) for table, days in tables.items()}
    for table in BY_DAY:
        for day, names in found.get(table, {}).items():
            is_old = any(name.startswith(f"{OLD_FILES}/") for name in names)
            with suppress(OSError, pa.ArrowException):
                if is_old or (day < shifted(newest, -1) and _are_small(out, names)):
                    found[table][day] = (_join(out, run, table, day, names),)
    return found


def _are_small(out: Folder, names: Sequence[str]) -> bool:
    return len(names) >= _JOINED_FROM and sum(map(out.size, names)) <= _JOINED_BYTES_MAX


def _join(out: Folder, run: str, table: str, day: str, names: Iterable[str]) -> str:
    """Write the rows of some files of a table as one, a row group for each, and return its name."""
    name = f"{FILES}/{table}/{run}/day={day}/joined.parquet"
    with out.create(name) as opened, pq.ParquetWriter(opened, TABLES[table], compression="zstd") as writer:
        for part in names:
            with out.open(part) as file:
                writer.write_table(pq.read_table(file, schema=TABLES[table]))
    out.sync(name)
    return name


def write_rows(out: Folder, run: str, table: str, rows: Sequence[Mapping[str, object]], day: str = "") -> str:
    """Write rows of a table that are already in memory, and return the name of the file."""
    name = f"{FILES}/{table}/{run}/{day and f'day={day}/'}part-0.parquet"
    with out.create(name) as opened:
        pq.write_table(pa.Table.from_pylist(list(rows), TABLES[table]), opened, compression="zstd")
    out.sync(name)
    return name


class Coverage(NamedTuple):
    """How long places were recorded, and the gaps in between, added up over places."""

    covered_ms: int
    gaps: int
    gap_ms: int


def coverage(out: Folder, names: Iterable[str], hours: Collection[int]) -> Coverage:
    """Return what some hours cover, by the minutes in files of the table ``places``.

    Minutes have a gap in between if they are more than twice as far apart as is usual for the place.
    """
    minutes: dict[tuple[str, ...], set[int]] = {}
    is_minute = pc.field("width_ms") == MINUTE_MS
    for name in names:
        with out.open(name) as opened:
            rows = pq.read_table(opened, columns=["width_ms", "bucket_ms", *PLACE], filters=is_minute)
        columns = (rows.column(column).to_pylist() for column in ("bucket_ms", *PLACE))
        for bucket_ms, *place in zip(*columns, strict=True):
            if bucket_ms // HOUR_MS in hours:
                minutes.setdefault(tuple(place), set()).add(bucket_ms)
    covered_ms, gaps = 0, []
    for found in minutes.values():
        steps = [later - earlier for earlier, later in pairwise(sorted(found))]
        usual_ms = int(median(steps)) if steps else MINUTE_MS
        here = [step - usual_ms for step in steps if step > 2 * usual_ms]
        covered_ms += sum(steps) + usual_ms - sum(here)
        gaps += here
    return Coverage(covered_ms, len(gaps), sum(gaps))


_OLD_STREAM = ("_checkpoint", "_notes")


def names_in(manifest: Manifest | None) -> set[str]:
    """Return all files that a manifest names."""
    tables = {} if manifest is None else manifest.tables
    return {name for days in tables.values() for names in days.values() for name in names}


def remove_old(out: Folder, manifest: Manifest, before: Manifest | None) -> None:
    """Remove the folders of failed runs, and the files that the manifest before ``before`` named last."""
    named = {_folder_of(name) for name in names_in(manifest) | names_in(before)}
    tops = (OLD_FILES, *(f"{FILES}/{table}" for table in manifest.tables))
    there = (folder for top in tops for folder in out.folders(top) if not folder.rpartition("/")[2].startswith("_"))
    out.remove(*(folder for folder in there if folder not in named), *_OLD_STREAM)
    if before is not None:
        out.remove(*before.replaced)
        out.remove_empty(*before.replaced)
    out.remove_empty(f"{OLD_FILES}/any")


def _folder_of(name: str) -> str:
    """Return the folder of the run that wrote a file."""
    parts = name.split("/")
    return "/".join(parts[: 2 if parts[0] == OLD_FILES else 3])


def _rows_in(out: Folder, name: str) -> int:
    with out.open(name) as opened, pq.ParquetFile(opened) as file:
        return int(file.metadata.num_rows)


BEGINS = dict.fromkeys((ROLLUP_10S, ROLLUP_1M, ROLLUP_1H, PLACES), "bucket_ms") | {
    VERDICT_RUNS: "first_ms",
    SERVER_RUNS: "first_ms",
}
"""The column with the time of a row, for each table of samples."""

MANY = 8
"""If the rows of a day are in files of this many runs, the kept hours are rewritten together."""


class IncrementalMerge:
    """Merges the computed hours of a run with the kept hours of the manifest ``before``."""

    def __init__(self, spark: SparkSession, out: Folder, run: str, before: Manifest | None, todo: WorkPlan) -> None:
        self._spark, self._out, self._run, self._before, self._todo = spark, out, run, before, todo

    def with_rest(self, table: str, made: WrittenTable) -> WrittenTable:
        """Return what was written to a table, with the kept hours of the same days.

        A file without rows of computed hours is kept. The kept rows of other files are rewritten to separate files,
        which can be kept next time.
        """
        stay: dict[str, tuple[str, ...]] = {}
        replaced: list[str] = []
        for day in sorted(self._todo.partly if table in BEGINS else ()):
            stay[day], some = self._sorted_out(table, day)
            replaced += some
        if not replaced:
            return combined(WrittenTable(stay, 0), made)
        stored = stored_rows(self._spark, self._out, table, replaced)
        others = stored.where(~is_within(sf.col(BEGINS[table]), self._todo.hours))
        return combined(WrittenTable(stay, 0), write_table(self._out, self._run, table, others, _KEPT), made)

    def _sorted_out(self, table: str, day: str) -> tuple[tuple[str, ...], list[str]]:
        """Return the files of a day that are kept, and those of which only some rows are kept."""
        assert self._before is not None
        names = self._before.files(table, day, day)
        hours = hours_in(self._out.store, names, BEGINS[table])
        is_many = len({run_of(name) for name in names}) >= MANY
        stay = tuple(name for name in names if not (is_many or hours[name] & self._todo.hours))
        rest = hours_of([day]) - self._todo.hours
        return stay, [name for name in names if name not in stay and hours[name] & rest]


def combined(*parts: WrittenTable) -> WrittenTable:
    """Return what several writes to a table wrote, as one."""
    days = sorted({day for part in parts for day in part.files})
    files = {day: tuple(name for part in parts for name in part.files.get(day, ())) for day in days}
    return WrittenTable(files, sum(part.rows for part in parts))
