"""Files that cannot be read: each is named once, and the rest is worked."""

from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline import batch_job
from rsmq_tui.pipeline.state import StoppedError
from tests.history.made import NOON_MS
from tests.pipeline.running import DAY, Workspace
from tests.pipeline.stand_ins import take_their_places


@pytest.fixture
def workspace(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    take_their_places(monkeypatch.setattr)
    # A folder's name may hold what Hadoop takes for a pattern, or for a URL.
    folder = tmp_path / "a [b] {c} %41 *é"
    folder.mkdir()
    return Workspace(spark, folder)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def no_parquet(path: Path) -> None:
    path.write_bytes(b"this is no Parquet file, however long it is")


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def damaged_inside(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    column = next(
        chunk
        for number in range(30)
        if (chunk := pq.ParquetFile(path).metadata.row_group(0).column(number)).path_in_schema == "at_ms"
    )
    at = column.dictionary_page_offset or column.data_page_offset
    whole[at : at + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(whole)


def of_another_type(path: Path) -> None:
    table = pq.ParquetFile(path).read()
    at = table.column_names.index("depth")
    pq.write_table(table.set_column(at, "depth", pa.array(["many"] * table.num_rows)), path)


def test_a_run_that_is_stopped_does_not_look_for_damage(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.record(NOON_MS)
    stop = Event()

    def cancelled(*_: object) -> None:
        stop.set()
        raise RuntimeError("the job was cancelled")

    def read(*_: object) -> None:
        pytest.fail("it reads the history")

    monkeypatch.setattr(batch_job.BatchJob, "_write_days", cancelled)
    monkeypatch.setattr(batch_job, "damage_in", read)
    with pytest.raises(StoppedError):
        workspace.run(stop=stop)


def test_files_that_cannot_be_read_are_named_once_and_the_rest_is_worked(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    kept = {}
    for number, damage in enumerate((empty, no_parquet, cut_short, damaged_inside, of_another_type), 1):
        (spoilt,) = workspace.record(NOON_MS + number * 5_000)
        kept[spoilt] = spoilt.read_bytes()
        damage(spoilt)
    done = workspace.run()

    names = sorted(path.relative_to(workspace.history).as_posix() for path in kept)
    assert [problem.partition(" was left out: ")[0] for problem in done.problems] == [
        f"{workspace.history}/{name}" for name in names
    ]
    assert all(problem.partition(" was left out: ")[2] for problem in done.problems)
    manifest = workspace.manifest()
    assert manifest is not None
    assert manifest.problems == done.problems
    assert workspace.samples_by_hour()[NOON_MS] == (1, 1)
    # Later runs of the same day do not stumble over them again, and still tell of them to readers.
    again = workspace.run()
    assert (again.run, again.known_problems) == (None, len(kept))
    workspace.record(NOON_MS + 60_000)
    again = workspace.run()
    assert (again.problems, again.known_problems, again.days["samples"]) == ((), len(kept), (DAY,))
    manifest = workspace.manifest()
    assert manifest is not None
    assert manifest.problems == done.problems
    # Somebody has found copies of them.
    for path, whole in kept.items():
        path.unlink()
        path.write_bytes(whole)
    mended = workspace.run()
    assert (mended.problems, mended.known_problems) == ((), 0)
    assert workspace.samples_by_hour()[NOON_MS] == (7, 7)


def test_of_a_file_that_is_damaged_later_nothing_is_left_in_the_days_that_are_worked(
    workspace: Workspace, tmp_path: Path
) -> None:
    (spoilt,) = workspace.record(NOON_MS, NOON_MS + 3 * HOUR_MS)
    workspace.record(NOON_MS + 8 * HOUR_MS)
    workspace.run()
    whole = spoilt.read_bytes()
    cut_short(spoilt)
    workspace.record(NOON_MS + 3 * HOUR_MS + 1_000)
    assert len(workspace.run().problems) == 1
    workspace.run(out=tmp_path / "full")

    assert workspace.tables() == workspace.tables(tmp_path / "full")
    assert NOON_MS not in workspace.samples_by_hour()
    spoilt.unlink()
    spoilt.write_bytes(whole)
    workspace.run()
    assert workspace.samples_by_hour()[NOON_MS + 3 * HOUR_MS] == (2, 2)
