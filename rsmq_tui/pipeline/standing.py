"""What is stored of days that are worked in part: files that stay as they are, and files of which only some rows do."""

from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.history.analysis.manifest import Manifest
from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, VERDICT_RUNS
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.hours import hours_in, spans_of
from rsmq_tui.pipeline.publishing import Written
from rsmq_tui.pipeline.rows import StoredTables
from rsmq_tui.pipeline.to_do import ToDo
from rsmq_tui.pipeline.transforms.by_day import with_others

BEGINS = {ROLLUP_10S: "bucket_ms", ROLLUP_1M: "bucket_ms", ROLLUP_1H: "bucket_ms", VERDICT_RUNS: "first_ms"}
"""The column of each table of samples that tells which hour a row is of."""

MANY = 8
"""A day that has so many files of a table gets new ones, as few as a day that is worked as a whole."""


class Standing:
    """What the tables of samples keep of the manifest ``before``, when the hours to do are worked."""

    def __init__(self, spark: SparkSession, out: Folder, before: Manifest | None, todo: ToDo) -> None:
        self._out, self._before, self._todo = out, before, todo
        self._stored = None if before is None else StoredTables(spark, out, before)
        self._stay: dict[str, dict[str, tuple[str, ...]]] = {}

    def with_rest(self, table: str, made: DataFrame) -> DataFrame:
        """Return what was made of a table, and with it the rows of other hours in files that are to be replaced."""
        replaced: list[str] = []
        for day in sorted(self._todo.partly if table in BEGINS else ()):
            names = self._files(table, day)
            hours = hours_in(self._out.store, names, BEGINS[table]) if len(names) < MANY else {}
            stay = tuple(name for name in hours if not hours[name] & self._todo.hours)
            self._stay.setdefault(table, {})[day] = stay
            replaced += [name for name in names if name not in stay]
        if self._stored is None or not replaced:
            return made
        return with_others(made, self._stored.of_files(table, replaced), BEGINS[table], spans_of(self._todo.hours))

    def beside(self, table: str, written: Written) -> Written:
        """Return what was written of a table, and the files that stay."""
        stay = self._stay.get(table, {})
        days = sorted({*written.files, *stay})
        return Written({day: (*stay.get(day, ()), *written.files.get(day, ())) for day in days}, written.rows)

    def _files(self, table: str, day: str) -> list[str]:
        return [] if self._before is None else self._before.files(table, day, day)
