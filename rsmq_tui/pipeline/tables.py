"""The tables of a run: their rows, what is kept of earlier runs, and their publication."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import BY_DAY, ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, RUNS, VERDICT_RUNS
from rsmq_tui.history.analysis.schema import SCHEMAS as TABLES
from rsmq_tui.history.analysis.tables import WHOLE_KEY, Manifest
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.pipeline.folder import Folder, as_uri
from rsmq_tui.pipeline.increment import DAY_MS, WorkPlan, hours_in, hours_of
from rsmq_tui.pipeline.transforms.columns import DAY, spark_type
from rsmq_tui.pipeline.transforms.samples import is_within


def history_rows(
    spark: SparkSession,
    history: Folder,
    table: str,
    days: Sequence[str],
    left_out: Collection[str],
) -> DataFrame:
    """Return the rows of some days of a history, with ``day`` as the last column.

    Columns are taken by name: one that a file does not have is null. The files ``left_out`` are never opened.
    """
    if not days:
        return _nothing(spark, SCHEMAS[table], DAY)
    paths = [history.at(f"{table}/day={day}") for day in days]
    rows = (
        spark.read.schema(f"{_ddl(SCHEMAS[table])}, {DAY} string")
        .option("basePath", history.at(table))
        .option("__globPaths__", "false")
        .option("pathGlobFilter", "*.parquet")
        # A day may be deleted while it is read; what was worked of it then is not published.
        .option("ignoreMissingFiles", "true")
        .parquet(*paths)
    )
    if table == SAMPLES:
        # A row that is in the folder of another day would be told of by some runs, and not by others.
        rows = rows.where(sf.floor(sf.col("at_ms") / DAY_MS) == sf.unix_date(sf.col(DAY).cast("date")))
    if left_out:
        names = [as_uri("/".join(name.split("/")[1:])) for name in sorted(left_out)]
        rows = rows.where(~sf.substring_index(sf.col("_metadata.file_path"), "/", -2).isin(names))
    return rows


class StoredTables(Mapping[str, DataFrame]):
    """The tables by day of an analysis, each with ``day`` as its first column; made when they are asked for."""

    def __init__(self, spark: SparkSession, out: Folder, manifest: Manifest) -> None:
        self._spark, self._out, self._manifest = spark, out, manifest

    def __getitem__(self, table: str) -> DataFrame:
        if table not in BY_DAY:
            raise KeyError(table)
        return self.of_files(table, self._manifest.files(table))

    def of_files(self, table: str, names: Sequence[str]) -> DataFrame:
        """Return the rows in some files of a table."""
        if not names:
            rows = _nothing(self._spark, TABLES[table], DAY)
        else:
            # One analysis consists of the files of many runs, so the day is what their own names say.
            rows = (
                self._spark.read.schema(_ddl(TABLES[table]))
                .option("__globPaths__", "false")
                .parquet(*map(self._out.at, names))
                .withColumn(DAY, sf.regexp_extract("_metadata.file_path", "/day=([0-9-]{10})/[^/]*$", 1))
            )
        return rows.select(DAY, *(f"`{name}`" for name in TABLES[table].names))

    def __iter__(self) -> Iterator[str]:
        return iter(BY_DAY)

    def __len__(self) -> int:
        return len(BY_DAY)


def _nothing(spark: SparkSession, schema: pa.Schema, *more: str) -> DataFrame:
    """Return a table without rows; no task runs for it."""
    typed = [(field.name, spark_type(field.type)) for field in schema] + [(name, "string") for name in more]
    return spark.range(0).select(*(sf.lit(None).cast(kind).alias(name) for name, kind in typed))


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


_DAY = re.compile(r"/day=([0-9]{4}-[0-9]{2}-[0-9]{2})/")


class Written(NamedTuple):
    """What a run wrote of a table: its files by day, or under one key for all, and its rows."""

    files: dict[str, tuple[str, ...]]
    rows: int


def write_table(out: Folder, run: str, table: str, rows: DataFrame, part: str = "") -> Written:
    """Let Spark write a table's rows, or a part of them, into the run's folder; nobody sees them yet."""
    folder = f"{RUNS}/{run}/{table}{part and '-'}{part}"
    # Where not many rows belong to a day they become one file, else several of a good size.
    shaped = rows.hint("rebalance", "day") if table in BY_DAY else rows.coalesce(1)
    writer = (
        shaped.write.mode("overwrite")
        .option("compression", "zstd")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        # Nobody reads the folder before it is whole, so files need no second rename.
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    )
    (writer.partitionBy("day") if table in BY_DAY else writer).parquet(out.at(folder))
    return _written(out, folder, table)


def run_of(name: str) -> str:
    """Return which run wrote a file."""
    return name.split("/")[1]


def _written(out: Folder, folder: str, table: str) -> Written:
    files: dict[str, list[str]] = {}
    count = 0
    beside = []
    for name in sorted(out.files(folder)):
        last = name.rpartition("/")[2]
        if last.startswith(("_", ".")):
            # Checksums that only Hadoop reads: the files have their own.
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
    return Written({day: tuple(names) for day, names in files.items()}, count)


def merged(
    before: Manifest | None, written: Mapping[str, Written], days: Mapping[str, Collection[str]]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the files of all tables: those of the ``days`` that were worked anew from this run, others as before.

    ``days`` has those of each table by day; what a run wrote of another day is no part of it.
    """
    tables: dict[str, dict[str, tuple[str, ...]]] = {}
    for table in BY_DAY:
        old = {} if before is None else before.tables.get(table, {})
        new = written[table].files if table in written else {}
        worked = set(days.get(table, ()))
        kept = {day: names for day, names in old.items() if day not in worked}
        tables[table] = dict(sorted((kept | {day: names for day, names in new.items() if day in worked}).items()))
    for table, made in written.items():
        if table not in BY_DAY:
            tables[table] = made.files
    return tables


def remove_old(out: Folder, *manifests: Manifest | None) -> None:
    """Remove the files of runs that none of the manifests names: of those that failed, and of those long replaced."""
    named = {
        name
        for manifest in manifests
        if manifest is not None
        for days in manifest.tables.values()
        for names in days.values()
        for name in names
    }
    out.remove(*(name for name in out.files(RUNS) if name not in named))
    out.remove_empty(RUNS)


def _rows_in(out: Folder, name: str) -> int:
    with out.open(name) as opened, pq.ParquetFile(opened) as file:
        return int(file.metadata.num_rows)


BEGINS = {ROLLUP_10S: "bucket_ms", ROLLUP_1M: "bucket_ms", ROLLUP_1H: "bucket_ms", VERDICT_RUNS: "first_ms"}
"""The column of each table of samples that tells which hour a row is of."""

MANY = 8
"""When a day's rows lie in the files of so many runs, those of the hours that stay are put together again."""


class IncrementalMerge:
    """What the tables of samples keep of the manifest ``before``, when the hours to do are worked by a run."""

    def __init__(self, spark: SparkSession, out: Folder, run: str, before: Manifest | None, todo: WorkPlan) -> None:
        self._out, self._run, self._before, self._todo = out, run, before, todo
        self._stored = None if before is None else StoredTables(spark, out, before)

    def with_rest(self, table: str, made: Written) -> Written:
        """Return what was written of a table, and with it what it keeps of other hours of the same days.

        A file that holds nothing of the worked hours stays. Rows in others are written anew, apart from what was made:
        they will stay the next time.
        """
        stay: dict[str, tuple[str, ...]] = {}
        replaced: list[str] = []
        for day in sorted(self._todo.partly if table in BEGINS else ()):
            stay[day], some = self._sorted_out(table, day)
            replaced += some
        if self._stored is None or not replaced:
            return _together(Written(stay, 0), made)
        others = self._stored.of_files(table, replaced).where(~is_within(sf.col(BEGINS[table]), self._todo.hours))
        return _together(Written(stay, 0), write_table(self._out, self._run, table, others, "kept"), made)

    def _sorted_out(self, table: str, day: str) -> tuple[tuple[str, ...], list[str]]:
        """Return the files of a day that stay, and those of which some rows do."""
        assert self._before is not None
        names = self._before.files(table, day, day)
        hours = hours_in(self._out.store, names, BEGINS[table])
        is_many = len({run_of(name) for name in names}) >= MANY
        stay = tuple(name for name in names if not (is_many or hours[name] & self._todo.hours))
        rest = hours_of([day]) - self._todo.hours
        return stay, [name for name in names if name not in stay and hours[name] & rest]


def _together(*parts: Written) -> Written:
    days = sorted({day for part in parts for day in part.files})
    files = {day: tuple(name for part in parts for name in part.files.get(day, ())) for day in days}
    return Written(files, sum(part.rows for part in parts))
