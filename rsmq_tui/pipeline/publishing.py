"""The tables of a run: written aside, made visible all at once, and what they replace removed when nobody needs it."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from rsmq_tui.history.analysis.manifest import WHOLE_KEY, Manifest
from rsmq_tui.history.analysis.schema import BY_DAY, RUNS
from rsmq_tui.pipeline.folder import Folder

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
    for file in sorted(out.files(folder)):
        last = file.name.rpartition("/")[2]
        if last.startswith(("_", ".")):
            # Checksums that only Hadoop reads: the files have their own.
            beside.append(file.name)
            continue
        day = _DAY.search(file.name)
        rows = _rows_in(out, file.name)
        if table in BY_DAY and (day is None or not rows):
            continue
        files.setdefault(day[1] if day is not None else WHOLE_KEY, []).append(file.name)
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
    out.remove(*_without(file.name for file in out.files(RUNS) if file.name not in named))
    out.remove_empty(RUNS)


def _without(names: Iterable[str]) -> list[str]:
    return sorted(set(names))


def _rows_in(out: Folder, name: str) -> int:
    with out.open(name) as opened, pq.ParquetFile(opened) as file:
        return int(file.metadata.num_rows)
