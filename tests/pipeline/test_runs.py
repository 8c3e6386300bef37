"""What a run leaves about itself: its sources, and what it read, covered and wrote."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rsmq_tui import __version__
from rsmq_tui.history.analysis.schema import (
    PLACES,
    QUEUES,
    ROLLUP_1H,
    ROLLUP_1M,
    ROLLUP_10S,
    RUNS,
    SCHEMAS,
    SOURCES,
    VERDICT_RUNS,
    WIDTHS_MS,
)
from rsmq_tui.history.analysis.tables import Manifest, Tables
from rsmq_tui.history.compaction import compact
from rsmq_tui.history.schema import SAMPLES
from rsmq_tui.history.store import FolderStore
from rsmq_tui.monitor.moments import HOUR_MS, MINUTE_MS
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.tables import WrittenTable, coverage, merged, write_table
from tests.history.made import DAY_MS, NOON_MS, ClockedWriter
from tests.pipeline.running import DAY, Workspace
from tests.pipeline.test_delta import expected, replayed


def test_each_run_names_its_sources_and_says_what_it_read_and_wrote(workspace: Workspace) -> None:
    (first,) = workspace.record(NOON_MS, NOON_MS + 5_000)
    earlier = workspace.run()
    (second,) = workspace.record(NOON_MS + 60_000)
    (spoilt,) = workspace.record(NOON_MS + 70_000)
    spoilt.write_bytes(b"no file of a history")
    later = workspace.run()

    tables = Tables(workspace.out, workspace.state)
    sources = {row["name"]: row for row in tables.read(SOURCES, SCHEMAS[SOURCES].names).to_pylist()}
    names = [path.relative_to(workspace.history).as_posix() for path in (first, second, spoilt)]
    assert {name: row["run"] for name, row in sources.items()} == dict(
        zip(names, (earlier.run, later.run, later.run), strict=True)
    )
    assert (sources[names[0]]["first_ms"], sources[names[0]]["last_ms"]) == (NOON_MS, NOON_MS + 5_000)
    assert (sources[names[1]]["rows"], sources[names[2]]["rows"]) == (3, None)
    one, other = tables.read(RUNS, SCHEMAS[RUNS].names).to_pylist()
    assert [row["run"] for row in (one, other)] == [earlier.run, later.run]
    assert (one["sources"], one["rows_in"], one["left_out"], one["hours"]) == (1, 6, 0, 24)
    assert (other["sources"], other["rows_in"], other["left_out"]) == (2, 3, 1)
    assert (other["from_ms"], other["to_ms"], other["rows_out"]) == (
        NOON_MS + 60_000, NOON_MS + 60_000, sum(later.rows.values()),
    )  # fmt: skip
    assert (one["version"], one["history"]) == (__version__, str(workspace.history))


def test_files_that_are_joined_are_not_computed_again(workspace: Workspace, tmp_path: Path) -> None:
    for number in range(3):
        workspace.record(NOON_MS + number * 5_000)
    clocked = ClockedWriter(workspace.history, workspace.state)
    for number in range(3, 6):
        clocked.poll(NOON_MS + number * 5_000)
        clocked.writer._end(SAMPLES, DAY)
    clocked.writer.close()
    workspace.run()
    before, started = workspace.tables(), workspace.started
    (done,) = compact(FolderStore(workspace.history), [DAY], tmp_path)
    assert done == (DAY, (6, 4))

    assert workspace.run().run is None
    assert (workspace.started, workspace.tables()) == (started, before)
    # Of files that were joined before a run has read them, the rows are new.
    workspace.record(NOON_MS + 60_000)
    clocked = ClockedWriter(workspace.history, workspace.state)
    for number in range(2):
        clocked.poll(NOON_MS + 70_000 + number * 5_000)
        clocked.writer._end(SAMPLES, DAY)
    clocked.writer.close()
    list(compact(FolderStore(workspace.history), [DAY], tmp_path))
    workspace.run()
    assert workspace.samples_by_hour()[NOON_MS] == (9, 9)


def test_a_run_joins_the_files_of_past_days(workspace: Workspace, tmp_path: Path) -> None:
    for number in range(4):
        clocked = ClockedWriter(workspace.history, workspace.state)
        for part in range(3):
            clocked.poll(NOON_MS + 3 * number * HOUR_MS + part * 5_000)
            clocked.writer._end(SAMPLES, DAY)
        clocked.writer.close()
        workspace.run(compact=False)
    workspace.record(NOON_MS + 2 * DAY_MS)
    before = workspace.manifest()
    assert before is not None
    assert (len(before.files(ROLLUP_1H, DAY, DAY)), len(workspace.files())) == (4, 13)
    done = workspace.run()

    manifest = workspace.manifest()
    assert manifest is not None
    assert [len(manifest.files(table, DAY, DAY)) for table in (ROLLUP_1H, VERDICT_RUNS)] == [1, 1]
    assert (len(workspace.files()), done.notes) == (5, ())
    assert replayed(workspace.out, ROLLUP_1H) == expected(manifest, ROLLUP_1H)
    # Nothing is computed again for that.
    assert done.days["samples"] == ("2024-10-06",)
    assert workspace.run().run is None
    # Samples that come late replace their hours of the joined file.
    workspace.record(NOON_MS + 30_000)
    workspace.run()
    assert workspace.samples_by_hour()[NOON_MS] == (4, 4)
    workspace.run(out=tmp_path / "full")
    whole = workspace.tables(tmp_path / "full")
    assert {table: rows for table, rows in workspace.tables().items() if table != SOURCES} == {
        table: rows for table, rows in whole.items() if table != SOURCES
    }


def test_fine_roll_ups_of_days_long_ago_are_left_out() -> None:
    days = [f"2031-{month:02}-{day:02}" for month in range(1, 6) for day in (1, 10, 20)]
    tables: dict[str, dict[str, tuple[str, ...]]] = {
        table: {day: (f"tables/{table}/r/day={day}/a",) for day in days} for table in (*WIDTHS_MS, VERDICT_RUNS)
    }
    before = Manifest("r", 1, "/history", tables=tables)
    written = {ROLLUP_10S: WrittenTable({"2031-05-25": ("new",), "2031-02-01": ("late",)}, 1)}
    found = merged(before, written, {ROLLUP_10S: ["2031-05-25", "2031-02-01"]}, "2031-05-25")

    assert found[ROLLUP_10S] == {"2031-05-20": tables[ROLLUP_10S]["2031-05-20"], "2031-05-25": ("new",)}
    assert list(found[ROLLUP_1M]) == [day for day in days if day >= "2031-02-23"]
    assert found[ROLLUP_1H] == tables[ROLLUP_1H]
    assert found[VERDICT_RUNS] == tables[VERDICT_RUNS]


def test_minutes_that_are_missing_are_gaps(tmp_path: Path) -> None:
    names = {"profile": "p", "server": "s", "ns": "n"}
    rows = [
        names | {"width_ms": width_ms, "bucket_ms": NOON_MS + minute * MINUTE_MS}
        for width_ms, minutes in ((MINUTE_MS, (0, 1, 2, 9, 10, 61)), (HOUR_MS, (0,)))
        for minute in minutes
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMAS[PLACES]), tmp_path / "a")
    folder = Folder(str(tmp_path), tmp_path)

    # The last minute is in an hour that was not computed.
    assert coverage(folder, ["a"], {NOON_MS // HOUR_MS}) == (5 * MINUTE_MS, 1, 6 * MINUTE_MS)
    assert coverage(folder, ["a"], set()) == (0, 0, 0)
    assert coverage(folder, [], {NOON_MS // HOUR_MS}) == (0, 0, 0)


def test_readers_need_the_memory_of_some_rows_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.pipeline.tables.ROW_GROUP_ROWS", 1_000)
    out = Folder(str(tmp_path), tmp_path)
    ((name,),) = write_table(out, "run", QUEUES, spark.range(2_500).coalesce(1)).files.values()
    footer = pq.read_metadata(tmp_path / name)
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [1_000, 1_000, 500]
