"""The batch job of a run: rows in, tables out. What cannot be read is named, left out, and the rest is worked."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.history.analysis.manifest import Manifest
from rsmq_tui.history.analysis.schema import BY_DAY, WHOLE
from rsmq_tui.history.schema import SAMPLES
from rsmq_tui.monitor.wording import plural
from rsmq_tui.pipeline.damage import check_bodies, check_footers, named_in
from rsmq_tui.pipeline.days import TABLES, day_in, source_of
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.progress import Progress
from rsmq_tui.pipeline.publishing import Written, write_table
from rsmq_tui.pipeline.rows import StoredTables, history_rows
from rsmq_tui.pipeline.settings import Settings
from rsmq_tui.pipeline.spark_log import why
from rsmq_tui.pipeline.standing import Standing
from rsmq_tui.pipeline.state import LeftOut
from rsmq_tui.pipeline.to_do import Held, ToDo, with_whole_days


class Made(NamedTuple):
    """The tables by day that were written, the files that were found to be unreadable on the way, and what was done."""

    written: dict[str, Written]
    damaged: dict[str, LeftOut]
    done: ToDo


class Working:
    """Works days of a history into tables in a run's own folder; ``begin`` is told of each step before it begins."""

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

    def by_day(self, held: Held, todo: ToDo, left_out: Collection[str], before: Manifest | None) -> Made:
        """Write the tables by day, of the days to do; raises what Spark raises.

        The hours that stay as they are come from the tables that ``before`` names.
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
            # What a damaged file told stays nowhere, or everywhere in its day.
            spoilt = {day for name in damaged if name.startswith(f"{SAMPLES}/") and (day := day_in(name))}
            todo = with_whole_days(todo, held, todo.partly.intersection(spoilt))
            standing = Standing(self._spark, self._out, self._run, before, todo)
            try:
                return Made(self._write_days(todo, standing, {*left_out, *damaged}), damaged, todo)
            except Exception as error:
                found = self._found_by(error, [name for name in names if name not in damaged])
                if not found:
                    raise
                damaged |= found
                self._progress.expect(len(wanted) + len(WHOLE) + 1)

    def over_all(self, manifest: Manifest) -> dict[str, Written]:
        """Write the tables that are whole in each run, of all the tables by day that a manifest names."""
        from rsmq_tui.pipeline.transforms.over_all import whole_tables  # noqa: PLC0415

        stored = StoredTables(self._spark, self._out, manifest)
        return {
            table: self._write(table, rows, "all days") for table, rows in whole_tables(stored, self._settings).items()
        }

    def _write_days(self, todo: ToDo, standing: Standing, left_out: Collection[str]) -> dict[str, Written]:
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
                    # Where Spark has ended there is nothing left of it.
                    with suppress(Exception):
                        shared.unpersist()
        return written

    def _tables_of(self, source: str, rows: DataFrame, todo: ToDo, kept: list[DataFrame]) -> dict[str, DataFrame]:
        from rsmq_tui.pipeline.transforms.by_day import persisted, sample_tables  # noqa: PLC0415
        from rsmq_tui.pipeline.transforms.by_inventory import message_tables  # noqa: PLC0415

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
        """Return which files cannot be read, when a job has failed: the one that it names, and others like it."""
        named = named_in(error, names)
        found = {} if named is None else {named: why(error)}
        return self._marked(found | check_bodies(self._history.store, names))

    def _marked(self, damaged: Mapping[str, str]) -> dict[str, LeftOut]:
        return {name: LeftOut(self._history.stamp(name) or "", why) for name, why in damaged.items()}
