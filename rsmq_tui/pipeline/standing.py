"""What is stored of days that are worked in part: files that stay as they are, and files of which only some rows do."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.manifest import Manifest
from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, VERDICT_RUNS
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.hours import hours_in, hours_of
from rsmq_tui.pipeline.publishing import Written, run_of, write_table
from rsmq_tui.pipeline.rows import StoredTables
from rsmq_tui.pipeline.to_do import ToDo
from rsmq_tui.pipeline.transforms.samples import is_within

BEGINS = {ROLLUP_10S: "bucket_ms", ROLLUP_1M: "bucket_ms", ROLLUP_1H: "bucket_ms", VERDICT_RUNS: "first_ms"}
"""The column of each table of samples that tells which hour a row is of."""

MANY = 8
"""When a day's rows lie in the files of so many runs, those of the hours that stay are put together again."""


class Standing:
    """What the tables of samples keep of the manifest ``before``, when the hours to do are worked by a run."""

    def __init__(self, spark: SparkSession, out: Folder, run: str, before: Manifest | None, todo: ToDo) -> None:
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
