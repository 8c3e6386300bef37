"""The tables of a work plan, computed with Spark in parts that fit in memory, without files that cannot be read."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import (
    ANOMALIES,
    EPISODES,
    INCIDENTS,
    PLACES,
    ROLLUP_1H,
    SERVER_RUNS,
    VERSION,
    WHOLE,
    WIDTHS_MS,
)
from rsmq_tui.history.analysis.tables import WHOLE_KEY, Manifest
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.pipeline.folder import Folder, rows_in
from rsmq_tui.pipeline.sources import HISTORY_TABLES, Sources, damage_in, day_in, named_in
from rsmq_tui.pipeline.spark import Amount, compile_queries, why
from rsmq_tui.pipeline.state import AnalysisSettings, Progress, StoppedError
from rsmq_tui.pipeline.tables import (
    IncrementalMerge,
    WrittenTable,
    combined,
    history_rows,
    stored_rows,
    write_rows,
    write_table,
)
from rsmq_tui.pipeline.transforms.baselines import JUDGED_BY_DAYS, anomalies
from rsmq_tui.pipeline.transforms.columns import DAY
from rsmq_tui.pipeline.transforms.inventories import message_tables
from rsmq_tui.pipeline.transforms.samples import persisted, place_rollup, sample_tables, server_runs
from rsmq_tui.pipeline.transforms.whole import WHOLE_SOURCES, incidents, whole_tables
from rsmq_tui.pipeline.work_plan import (
    WorkPlan,
    batches,
    first_day_of,
    midnight_ms,
    parts_to_read,
    shifted,
    with_whole_days,
)

WEIGHTS = {SAMPLES: 20.0, MESSAGES: 6.0}
"""About how many times as long the tables of samples and of messages take as one table over all days."""
# Queries over fewer new rows of a table take less time if they are not compiled.
_FEW_ROWS = 40_000
# What the samples of a run need in memory, or on disk, depends on this, and not on the length of the history.
_BATCH_ROWS = 4_000_000


class Made(NamedTuple):
    """The tables by day that were written, the files that turned out to be unreadable, and the executed work plan."""

    written: dict[str, WrittenTable]
    damaged: dict[str, str]
    done: WorkPlan


class BatchJob:
    """Computes tables from a history, in folders of the run; ``begin`` is called with each step and its weight.

    ``new_rows`` are the numbers of new rows by table of the history; ``amount`` is of these, and of the tables over all
    days.
    """

    def __init__(
        self,
        spark: SparkSession,
        history: Folder,
        out: Folder,
        run: str,
        settings: AnalysisSettings,
        progress: Progress,
        begin: Callable[[str, float], None],
        new_rows: Mapping[str, int],
        amount: Amount,
    ) -> None:
        self._spark, self._history, self._out, self._run = spark, history, out, run
        self._new_rows, self._amount = new_rows, amount
        self._settings, self._progress, self._begin = settings, progress, begin

    def by_day(self, sources: Sources, todo: WorkPlan, left_out: Collection[str], before: Manifest | None) -> Made:
        """Write the tables by day for a work plan; raises what Spark raises.

        The hours that are kept are copied from the tables that ``before`` names.
        """
        damaged: dict[str, str] = {}
        while True:
            wanted = [source for source in HISTORY_TABLES if todo.days[source]]
            self._progress.expect(sum(WEIGHTS[source] for source in wanted) + len(WHOLE) + 1)
            # If a file is damaged that was read before, its whole day is computed again without it.
            spoilt = {day for name in damaged if name.startswith(f"{SAMPLES}/") and (day := day_in(name))}
            todo = with_whole_days(todo, sources, todo.partly.intersection(spoilt))
            merge = IncrementalMerge(self._spark, self._out, self._run, before, todo)
            try:
                return Made(self._write_days(sources, todo, merge, {*left_out, *damaged}), damaged, todo)
            except StoppedError:
                raise
            except Exception as error:
                # Stops here if that was a job that was cancelled: looking for damage reads the whole history.
                self._begin("looking for damaged files", 0.0)
                read = {name for source in wanted for day in todo.read[source] for name in sources.names(source, day)}
                found = self._found_by(error, sorted(read.difference(left_out, damaged)))
                if not found:
                    raise
                damaged |= found

    def over_all(self, manifest: Manifest, before: Manifest | None) -> dict[str, WrittenTable]:
        """Write the tables over all days, from all tables by day that a manifest names, except those ``unchanged``."""
        compile_queries(self._spark, wanted=self._amount is not Amount.SMALL)
        needed = {source for sources in WHOLE_SOURCES.values() for source in sources}
        stored = {table: stored_rows(self._spark, self._out, table, manifest.files(table)) for table in needed}
        kept = unchanged(manifest, before)
        tables = {table: rows for table, rows in whole_tables(stored, self._settings).items() if table not in kept}
        if before is not None and is_alike(before, manifest) and manifest.files(ROLLUP_1H) and ANOMALIES in tables:
            tables[ANOMALIES] = self.anomalies_since(before, manifest)
        written = {table: self._write(table, rows, "all days") for table, rows in tables.items()}
        if EPISODES in written:
            self._begin(f"{INCIDENTS} of all days", 1.0)
            episodes = rows_in(self._out, EPISODES, written[EPISODES].files[WHOLE_KEY])
            rows = incidents(episodes, self._settings)
            name = write_rows(self._out, self._run, INCIDENTS, rows)
            written[INCIDENTS] = WrittenTable({WHOLE_KEY: (name,)}, len(rows))
        return written

    def anomalies_since(self, before: Manifest, manifest: Manifest) -> DataFrame:
        """Return the table ``anomalies``: from the first day whose hours have changed computed, before it as it was.

        An hour is judged by the weeks before it, and not by what came later.
        """
        then, now = before.tables.get(ROLLUP_1H, {}), manifest.tables.get(ROLLUP_1H, {})
        days = sorted(then.keys() | now.keys())
        first = next((day for day in days if then.get(day) != now.get(day)), days[-1])
        from_ms, bucket_ms = midnight_ms(first), sf.col("bucket_ms")
        recent = manifest.files(ROLLUP_1H, shifted(first, -JUDGED_BY_DAYS), days[-1])
        made = anomalies(stored_rows(self._spark, self._out, ROLLUP_1H, recent), self._settings)
        kept = stored_rows(self._spark, self._out, ANOMALIES, before.files(ANOMALIES)).drop(DAY)
        return kept.where(bucket_ms < from_ms).unionByName(made.where(bucket_ms >= from_ms))

    def _write_days(
        self, sources: Sources, todo: WorkPlan, merge: IncrementalMerge, left_out: Collection[str]
    ) -> dict[str, WrittenTable]:
        written: dict[str, WrittenTable] = {}
        for source in HISTORY_TABLES:
            compile_queries(self._spark, wanted=self._new_rows[source] >= _FEW_ROWS)
            out = [name for name in left_out if name.startswith(f"{source}/")]
            parts = batches(todo, sources, source, _BATCH_ROWS)
            made: dict[str, list[WrittenTable]] = {}
            for number, part in enumerate(parts):
                folder = f"{self._run}/{number}" if number else self._run
                for table, rows in self._write_batch(source, part, sources, out, folder, 1 / len(parts)).items():
                    made.setdefault(table, []).append(rows)
            written |= {table: merge.with_rest(table, combined(*rows)) for table, rows in made.items()}
        return written

    def _write_batch(
        self, source: str, todo: WorkPlan, sources: Sources, left_out: Collection[str], folder: str, share: float
    ) -> dict[str, WrittenTable]:
        """Write the tables of a part of the work, which is this ``share`` of it, to ``folder`` of each table."""
        of, weight = todo.amount(source), WEIGHTS[source] * share
        self._begin(f"{source} of {of}", weight / 10)
        parts = parts_to_read(sources, todo, source, left_out)
        rows = history_rows(self._spark, self._history, source, parts, left_out)
        kept: list[DataFrame] = []
        found: dict[str, WrittenTable] = {}
        try:
            tables = self._tables_of(source, rows, todo, kept)
            for table, made in tables.items():
                first = first_day_of(table, sources.newest)
                if first > todo.days[source][-1]:
                    continue
                # The first one computes the rows that the others share.
                part = 0.5 if not found else 0.4 / max(1, len(tables) - 1)
                kept_rows = made.where(sf.col(DAY) >= first) if first else made
                found[table] = self._write(table, kept_rows, of, weight * part, folder)
            rollups = {
                table: stored_rows(self._spark, self._out, table, names)
                for table in WIDTHS_MS
                if table in found and (names := [name for day in found[table].files.values() for name in day])
            }
            if rollups:
                found[PLACES] = self._write(PLACES, place_rollup(rollups), of, 0.0, folder)
        finally:
            for shared in kept:
                # If Spark has ended, nothing is cached any more.
                with suppress(Exception):
                    shared.unpersist()
        return found

    def _tables_of(self, source: str, rows: DataFrame, todo: WorkPlan, kept: list[DataFrame]) -> dict[str, DataFrame]:
        def keep(shared: DataFrame) -> DataFrame:
            kept.append(persisted(shared))
            return kept[-1]

        if source == SAMPLES:
            return sample_tables(rows, todo.hours, keep) | {SERVER_RUNS: server_runs(rows, todo.hours)}
        return message_tables(rows, todo.days[source], self._settings)

    def _write(self, table: str, rows: DataFrame, of: str, weight: float = 1.0, folder: str = "") -> WrittenTable:
        self._begin(f"{table} of {of}", weight)
        return write_table(self._out, folder or self._run, table, rows)

    def _found_by(self, error: Exception, names: Sequence[str]) -> dict[str, str]:
        """Return the unreadable files after a job has failed: the one that the error names, and others like it."""
        named = named_in(error, names)
        found = {} if named is None else {named: why(error)}
        return found | damage_in(self._history.store, names)


def is_alike(before: Manifest, manifest: Manifest) -> bool:
    """Return whether two runs compute the same tables from the same files."""
    return before.schema == VERSION and before.settings == manifest.settings


def unchanged(manifest: Manifest, before: Manifest | None) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the files of the tables over all days that a run need not compute, since nothing they need has changed."""
    if before is None or not is_alike(before, manifest):
        return {}
    return {
        table: before.tables[table]
        for table, sources in WHOLE_SOURCES.items()
        if table in before.tables
        and all(before.tables.get(source, {}) == manifest.tables.get(source, {}) for source in sources)
    }
