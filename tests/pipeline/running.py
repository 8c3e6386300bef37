"""Histories for the runner, runs of it in this process, and what they leave."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.schema import ROLLUP_1H, RUNS
from rsmq_tui.history.analysis.tables import Manifest, read_manifest
from rsmq_tui.history.schema import MESSAGES, SCHEMAS
from rsmq_tui.history.store import FolderStore
from rsmq_tui.pipeline.run import Job, PipelineRun, RunResult
from rsmq_tui.pipeline.spark import SQL, Amount
from rsmq_tui.pipeline.state import AnalysisSettings
from tests.history.made import DAY_MS, NOON_MS, PLACE, ClockedWriter

DAY = "2024-10-04"
DAY_AFTER, DAY_BEFORE = "2024-10-05", "2024-10-03"
MIDNIGHT_MS = NOON_MS - DAY_MS // 2


class SharedEngine:
    """The session of all tests as the engine of one run: it goes on afterwards."""

    log: Path | None = None

    def __init__(self, spark: SparkSession) -> None:
        self.spark: Any = spark.newSession()
        for name, value in (SQL | {"spark.sql.shuffle.partitions": "2"}).items():
            self.spark.conf.set(name, value)

    def tasks(self) -> tuple[int, int]:
        return 0, 0

    def cancel(self) -> None:
        self.spark.sparkContext.cancelAllJobs()

    def fitting(self, amount: Amount) -> dict[str, str]:
        del amount
        return {}

    def close(self, *, is_done: bool = False) -> None:
        """It is not ours to end."""


class Workspace:
    """A history, and the analyses of it; ``started`` counts how often a run needed Spark."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.history, self.out, self.state = folder / "history", folder / "out", folder / "state"
        self.started = 0
        self._spark = spark

    def record(self, *times: int, queues: int = 2) -> list[Path]:
        """Record polls as one recorder, from its start to its end; returns the new files."""
        before = set(self.files())
        clocked = ClockedWriter(self.history, self.state)
        for at_ms in times:
            clocked.poll(at_ms, queues)
        clocked.writer.close()
        return sorted(set(self.files()) - before)

    def inventory(self, day: str, at_ms: int, name: str, *, messages: int = 2, rc: int = 1) -> Path:
        """Write down some messages, as a file of that name."""
        row = {
            "at_ms": at_ms, "inventory_ms": at_ms, "recorder": "r1", "profile": PLACE.profile, "server": PLACE.server,
            "ns": PLACE.ns, "queue": "q0", "rc": rc,
        }  # fmt: skip
        rows = [row | {"id": f"m{number}"} for number in range(messages)]
        path = self.history / MESSAGES / f"day={day}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, SCHEMAS[MESSAGES]), path)
        return path

    def files(self) -> list[Path]:
        return sorted(self.history.rglob("*.parquet"))

    def run(
        self,
        *,
        out: Path | None = None,
        steps: Callable[[str], None] | None = None,
        full: bool = False,
        compact: bool = True,
        history: Path | None = None,
        starting: Callable[[], object] = lambda: None,
        stop: Event | None = None,
        **settings: Any,
    ) -> RunResult:
        """Run the pipeline, once; ``starting`` is called where Spark starts."""

        def engine_of(label: str, amount: Amount) -> SharedEngine:
            assert amount is Amount.SMALL
            assert label == str(out or self.out)
            self.started += 1
            starting()
            return SharedEngine(self._spark)

        job = Job(str(history or self.history), str(out or self.out), AnalysisSettings(**settings), full, compact)
        return PipelineRun(job, self.state, cast(Any, engine_of), steps=steps, stop=stop).run()

    def manifest(self, out: Path | None = None) -> Manifest | None:
        return read_manifest(FolderStore(out or self.out))

    def samples_by_hour(self) -> dict[int, tuple[int, ...]]:
        """How many samples of each queue the hours count, by when they begin."""
        hours: dict[int, list[tuple[str, int]]] = {}
        for _, cells in self.tables()[ROLLUP_1H]:
            row = dict(cells)
            hours.setdefault(int(row["bucket_ms"]), []).append((row["queue"], int(row["samples"])))
        return {at_ms: tuple(count for _, count in sorted(output)) for at_ms, output in hours.items()}

    def tables(self, out: Path | None = None) -> dict[str, list[Any]]:
        """All rows of all tables, as a reader finds them by the manifest."""
        manifest = self.manifest(out)
        return {} if manifest is None else read_tables(out or self.out, manifest)


def read_tables(out: Path, manifest: Manifest) -> dict[str, list[Any]]:
    """All rows of the tables that a manifest names, with the day; what is empty is not there, nor are ``runs``.

    The sources are without the run that read them first.
    """
    found = {}
    for table, days in manifest.tables.items():
        rows = [
            (day, sorted((name, repr(value)) for name, value in row.items() if value is not None and name != "run"))
            for day, names in ({} if table == RUNS else days).items()
            for name in names
            for row in pq.ParquetFile(out / name).read().to_pylist()
        ]
        if rows:
            found[table] = sorted(rows)
    return found


def without(path: Path, columns: Iterable[str], **more: pa.Array) -> None:
    """Write a file anew as another version of the schema would have it: some columns missing, and others more."""
    table = pq.ParquetFile(path).read().drop_columns(list(columns))
    for name, kind in more.items():
        table = table.append_column(name, pa.array(["new"] * table.num_rows, kind))
    pq.write_table(table, path)
