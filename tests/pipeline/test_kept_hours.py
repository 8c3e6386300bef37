"""Hours that are computed by themselves, and the kept ones of their days: together they are one run over everything."""

import shutil
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ADVICE, ANOMALIES, QUEUES, ROLLUP_1H
from rsmq_tui.history.analysis.tables import WHOLE_KEY, Manifest
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.batch_job import BatchJob
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.spark import Amount
from rsmq_tui.pipeline.state import AnalysisSettings, Progress
from rsmq_tui.pipeline.tables import write_rows
from rsmq_tui.pipeline.transforms.baselines import JUDGED_BY_DAYS
from rsmq_tui.pipeline.transforms.whole import queues
from rsmq_tui.pipeline.work_plan import days_of, midnight_ms, shifted
from tests.history.made import DAY_MS, NOON_MS
from tests.pipeline.running import DAY, SharedEngine, Workspace
from tests.pipeline.stand_ins import TARGETS, Keep, sample_tables, whole_tables
from tests.pipeline.transforms.made_hours import Chances, arrow, weekly_hours


def test_of_a_day_only_the_hours_are_worked_that_have_something_new(workspace: Workspace) -> None:
    workspace.record(NOON_MS - 5 * HOUR_MS, NOON_MS)
    workspace.run()
    # Whoever would work them once more would find nothing.
    for path in workspace.files():
        pq.write_table(SCHEMAS[SAMPLES].empty_table(), path)
    workspace.record(NOON_MS + HOUR_MS)

    assert workspace.run().days == {"samples": (DAY,), "messages": ()}
    assert workspace.samples_by_hour() == {NOON_MS + hour * HOUR_MS: (1, 1) for hour in (-5, -4, 0, 1, 2)}


def test_files_of_hours_that_are_not_worked_stay_as_long_as_there_are_not_many(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.pipeline.tables.MANY", 2)

    def files() -> list[str]:
        manifest = workspace.manifest()
        return [] if manifest is None else manifest.files(ROLLUP_1H)

    workspace.record(NOON_MS)
    workspace.run()
    (first,) = files()
    workspace.record(NOON_MS + 5 * HOUR_MS)
    workspace.run()
    kept, second = files()
    assert kept == first
    # Two of them are many: what is there becomes one, and what is new another.
    workspace.record(NOON_MS + 10 * HOUR_MS)
    workspace.run()
    together, third = files()
    assert len({first, second, together, third}) == 4
    # The file of an hour that is worked once more leaves its other hours behind, in a file of their own.
    workspace.record(NOON_MS + 11 * HOUR_MS)
    workspace.run()
    assert (files()[0], len(files())) == (together, 3)
    workspace.run(out=tmp_path / "full")
    assert workspace.tables() == workspace.tables(tmp_path / "full")


def test_any_name_that_a_file_has_is_found_again(workspace: Workspace, tmp_path: Path) -> None:
    workspace.record(*(NOON_MS + hour * HOUR_MS for hour in range(-9, 9)))
    workspace.run()
    for hour, name in enumerate(("x%2Fy", "%5Fz", "a b", "a%20b", "#?ü", "a+b")):
        (path,) = workspace.record(NOON_MS + hour * HOUR_MS + 1_000)
        path.rename(path.with_name(f"{name}.parquet"))
    workspace.run()
    workspace.run(out=tmp_path / "full")

    assert workspace.tables() == workspace.tables(tmp_path / "full")
    assert workspace.samples_by_hour()[NOON_MS + 2 * HOUR_MS] == (4, 4)


def test_rows_that_lie_in_the_folder_of_another_day_count_for_no_run(workspace: Workspace, tmp_path: Path) -> None:
    workspace.record(NOON_MS)
    (stray,) = workspace.record(NOON_MS + DAY_MS)
    workspace.run()
    shutil.move(stray, workspace.history / "samples" / f"day={DAY}" / stray.name)
    workspace.record(NOON_MS + DAY_MS + 5_000)
    workspace.run()
    workspace.run(out=tmp_path / "full")

    assert workspace.samples_by_hour()[NOON_MS] == (1, 1)
    assert workspace.tables(tmp_path / "full") == workspace.tables()


def test_a_long_history_is_computed_in_parts_of_days(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [shifted(DAY, number) for number in range(4)]
    for number, day in enumerate(days):
        # One minute before midnight and one after: an hour needs the one before it, and so a part that before it.
        workspace.record(NOON_MS + number * DAY_MS, midnight_ms(day) + DAY_MS - 60_000, midnight_ms(day) + DAY_MS)
        workspace.inventory(day, midnight_ms(day) + HOUR_MS, "a", rc=5)
    workspace.run(out=tmp_path / "whole")
    monkeypatch.setattr("rsmq_tui.pipeline.batch_job._BATCH_ROWS", 20)
    outcome = workspace.run()

    manifest = workspace.manifest()
    assert manifest is not None
    folders = {Path(name).parent.parent.name for name in manifest.files(ROLLUP_1H)}
    # Nine or six rows a day: two days each, and the last one.
    assert folders == {manifest.run, "1", "2"}
    assert workspace.tables() == workspace.tables(tmp_path / "whole")
    assert outcome.days["samples"] == (*days, shifted(DAY, 4))


def test_a_table_whose_sources_have_not_changed_is_kept(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_queues(tables: Mapping[str, DataFrame], settings: AnalysisSettings) -> dict[str, DataFrame]:
        return whole_tables(tables, settings) | {QUEUES: queues(tables[ROLLUP_1H])}

    def files(table: str) -> object:
        manifest = workspace.manifest()
        return None if manifest is None else manifest.tables[table]

    monkeypatch.setattr(TARGETS["whole_tables"], with_queues)
    workspace.record(NOON_MS)
    workspace.inventory(DAY, NOON_MS, "a")
    workspace.run()
    then = files(QUEUES), files(ADVICE)
    workspace.inventory(DAY, NOON_MS + HOUR_MS, "b")
    workspace.run()
    assert (files(QUEUES), files(ADVICE) == then[1]) == (then[0], False)
    workspace.record(NOON_MS + HOUR_MS)
    workspace.run()
    assert files(QUEUES) != then[0]
    workspace.run(out=tmp_path / "full")
    assert workspace.tables() == workspace.tables(tmp_path / "full")
    # Other settings may change any table.
    then = files(QUEUES), files(ADVICE)
    workspace.run(depth_limit=5)
    assert files(QUEUES) != then[0]


def test_a_failure_of_spark_is_told_although_its_java_has_ended(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(samples: DataFrame, hours: Collection[int], keep: Keep) -> dict[str, DataFrame]:
        tables = sample_tables(samples, hours, keep)
        full = sf.raise_error(sf.lit("No space left on device")).cast("bigint")
        return tables | {ROLLUP_1H: tables[ROLLUP_1H].withColumn("samples", full)}

    monkeypatch.setattr(TARGETS["sample_tables"], failing)
    monkeypatch.setattr(SharedEngine, "close", lambda _, **__: monkeypatch.setattr(SparkContext, "_jvm", None))
    workspace.record(NOON_MS)

    with pytest.raises(RuntimeError, match="no space left on the disk: free some space"):
        workspace.run()


def test_unusual_hours_are_computed_from_the_first_day_that_has_changed(spark: SparkSession, tmp_path: Path) -> None:
    """What the last run found before that day is kept, and all together is what one run over everything finds."""
    out, by_day = Folder(str(tmp_path / "out"), tmp_path), defaultdict(list)
    for row in weekly_hours(Chances(3)):
        by_day[days_of([row["bucket_ms"] // HOUR_MS])[0]].append(row)
    files: dict[str, tuple[str, ...]] = {
        day: (_stored(out, ROLLUP_1H, arrow(rows), day),) for day, rows in by_day.items()
    }
    changed = sorted(files)[-5]

    def manifest(days: dict[str, tuple[str, ...]], **whole: tuple[str, ...]) -> Manifest:
        return Manifest(
            "run", 0, "history", tables={ROLLUP_1H: days} | {name: {WHOLE_KEY: at} for name, at in whole.items()}
        )

    def unusual(before: Manifest, now: Manifest) -> pa.Table:
        job = BatchJob(spark, out, out, "run", AnalysisSettings(), Progress(), lambda *_: None, {}, Amount.SMALL)
        found = job.anomalies_since(before, now).toArrow()
        return found.sort_by([(name, "ascending") for name in ("bucket_ms", "queue", "metric")])

    at_once = unusual(Manifest("none", 0, "history"), manifest(files))
    assert {row["bucket_ms"] < midnight_ms(changed) for row in at_once.to_pylist()} == {True, False}
    earlier = {day: names for day, names in files.items() if day < changed}
    first = unusual(Manifest("none", 0, "history"), manifest(earlier))
    # Nothing before that day is computed: a mark is still there.
    mark = first.slice(0, 1).set_column(1, "profile", pa.array(["mark"]))
    stored = _stored(out, ANOMALIES, pa.concat_tables([first, mark]))
    then = unusual(manifest(earlier, **{ANOMALIES: (stored,)}), manifest(files))

    assert then.filter(pc.field("profile") == "mark").num_rows == 1
    assert then.filter(pc.field("profile") != "mark") == at_once
    # The oldest rows are not read: they are too old to be compared with.
    assert min(files) < shifted(changed, -JUDGED_BY_DAYS)
    (tmp_path / "out" / files[min(files)][0]).unlink()
    assert unusual(manifest(earlier, **{ANOMALIES: (stored,)}), manifest(files)) == then


def _stored(out: Folder, table: str, rows: pa.Table, day: str = "") -> str:
    return write_rows(out, "run", table, rows.to_pylist(), day)
