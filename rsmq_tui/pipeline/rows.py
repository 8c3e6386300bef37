"""Rows for Spark to work on: those of a history, and those of the tables that are stored already."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.manifest import Manifest
from rsmq_tui.history.analysis.schema import BY_DAY
from rsmq_tui.history.analysis.schema import SCHEMAS as TABLES
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.pipeline.days import DAY_MS
from rsmq_tui.pipeline.folder import Folder, as_uri

DAY = "day"
_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}
_TYPES |= {pa.bool_(): "boolean"}


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
    typed = [(field.name, _type(field.type)) for field in schema] + [(name, "string") for name in more]
    return spark.range(0).select(*(sf.lit(None).cast(kind).alias(name) for name, kind in typed))


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)


def _type(kind: pa.DataType) -> str:
    return f"array<{_type(kind.value_type)}>" if pa.types.is_list(kind) else _TYPES[kind]
