"""Finding new files: the time with a year of known days, compared with a week."""

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from rsmq_tui.history.analysis.schema import SOURCES
from rsmq_tui.history.analysis.tables import Manifest
from rsmq_tui.history.schema import MESSAGES, SAMPLES, SCHEMAS
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.sources import Sources
from rsmq_tui.pipeline.tables import write_rows
from rsmq_tui.pipeline.work_plan import shifted
from tests.bench.measure import Sample, interleave
from tests.bench.row import Measured, Row, Run, Sense

_LAST = "2031-05-17"
# Long ago: their folders are certain not to have changed.
_THEN_S = 1_000_000_000
_NEW = 12


class _Side:
    """A history of which all files but a few of the last day are known."""

    def __init__(self, folder: Path, days: int, files_a_day: int) -> None:
        self.history = Folder(str(folder / "history"), folder)
        self.out = Folder(str(folder / "out"), folder)
        pq.write_table(SCHEMAS[SAMPLES].empty_table(), folder / "one.parquet")
        tables: dict[str, tuple[str, ...]] = {}
        for number in range(days):
            day = shifted(_LAST, -number)
            top = folder / "history" / SAMPLES / f"day={day}"
            top.mkdir(parents=True)
            names = [f"r-{index:06}.parquet" for index in range(files_a_day)]
            for name in names:
                os.link(folder / "one.parquet", top / name)
            rows = [{"source": SAMPLES, "name": f"{SAMPLES}/day={day}/{name}", "run": "r"} for name in names]
            tables[day] = (write_rows(self.out, "r", SOURCES, rows, day),)
            os.utime(top, (_THEN_S, _THEN_S))
        self.before = Manifest("r", 1, "h", tables={SOURCES: tables})
        self.before = replace(self.before, listed=Sources(self.history, self.out, self.before).stamps())
        for index in range(_NEW):
            os.link(folder / "one.parquet", folder / "history" / SAMPLES / f"day={_LAST}" / f"s-{index:06}.parquet")

    def find(self) -> None:
        """Find the new files; raises if these are not all, or not only these."""
        sources = Sources(self.history, self.out, self.before)
        found = sources.new(SAMPLES, is_anew=False) | sources.new(MESSAGES, is_anew=False)
        if len(found) != _NEW:
            raise RuntimeError(f"{len(found)} new files were found, not {_NEW}")


def _new_files(run: Run) -> Measured:
    days, files_a_day = run.size(365, 14), run.size(144, 4)
    with tempfile.TemporaryDirectory() as name:
        sides = {}
        for side, amount in (("long", days), ("short", 7)):
            (Path(name) / side).mkdir()
            sides[side] = _Side(Path(name) / side, amount, files_a_day)

        def one(side: str) -> Sample:
            def sample() -> float:
                begun_s = time.perf_counter()
                sides[side].find()
                return (time.perf_counter() - begun_s) * 1000

            return sample

        found = interleave(run, lambda: one("long"), lambda: one("short"), pairs=20, warm_up=1, limit_s=60)
    note = f"{_NEW} new files; {days * files_a_day:,} known ones and {7 * files_a_day:,}"
    return Measured(found.ours, found.other, note)


ROWS = (
    Row(
        "new files of a history of a year",
        "the same of a week",
        "ms",
        Sense.AT_MOST,
        1.5,
        _new_files,
    ),
)
