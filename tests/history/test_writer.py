"""When segments are sealed, what is recovered, what is deleted, and who stays out of whose way."""

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rsmq_tui.files import FileLock
from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.rows import SampleRows
from rsmq_tui.history.schema import COLUMNS, SAMPLES, SCHEMAS
from rsmq_tui.history.writer import SYNC_EVERY_S, Segment, claim_abandoned, make_spool
from tests.history.made import DAY_MS, NOON_MS, PLACE, ClockedWriter, left_over, rows_of, state

MIDNIGHT_MS = NOON_MS + DAY_MS // 2


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "history"


def sealed(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out)) for path in out.rglob("*.parquet"))


def test_a_segment_is_sealed_when_its_time_has_come(out: Path, tmp_path: Path) -> None:
    clocked = ClockedWriter(out, tmp_path, seal_every_s=600)
    clocked.poll(NOON_MS)
    clocked.now_s = 599
    clocked.writer.tend()
    assert (sealed(out), rows_of(out)) == ([], [])
    clocked.now_s = 600
    clocked.writer.tend()

    assert sealed(out) == [f"samples/day=2024-10-04/{clocked.writer.recorder}-000001.parquet"]
    assert [(row["queue"], row["depth"]) for row in rows_of(out)] == [("q0", 0), ("q1", 1), (None, None)]
    clocked.poll(NOON_MS + 1)
    clocked.writer.close()
    assert len(sealed(out)) == 2
    assert left_over(out) == []


@pytest.mark.parametrize("setting", [{"seal_rows": 5}, {"seal_bytes": 2_500}])
def test_a_segment_is_sealed_when_it_is_large(out: Path, tmp_path: Path, setting: dict[str, int]) -> None:
    clocked = ClockedWriter(out, tmp_path, **setting)
    clocked.poll(NOON_MS)
    clocked.writer.tend()
    assert sealed(out) == []
    clocked.poll(NOON_MS + 1)
    clocked.writer.tend()

    assert len(rows_of(out)) == 6


def test_a_day_that_is_over_is_sealed(out: Path, tmp_path: Path) -> None:
    clocked = ClockedWriter(out, tmp_path)
    clocked.poll(MIDNIGHT_MS - 1)
    clocked.poll(MIDNIGHT_MS)
    # A server whose clock is behind.
    clocked.now_s = 59
    clocked.poll(MIDNIGHT_MS - 2)
    clocked.writer.tend()
    clocked.now_s = 118
    clocked.writer.tend()
    assert sealed(out) == []
    clocked.now_s = 119
    clocked.writer.tend()

    assert [(row["day"], row["at_ms"]) for row in rows_of(out) if row["queue"] is None] == [
        ("2024-10-04", MIDNIGHT_MS - 2), ("2024-10-04", MIDNIGHT_MS - 1),
    ]  # fmt: skip
    clocked.writer.close()
    assert {name.split("/")[1] for name in sealed(out)} == {"day=2024-10-04", "day=2024-10-05"}


def test_files_are_sorted_small_and_say_what_they_are(out: Path, tmp_path: Path) -> None:
    clocked = ClockedWriter(out, tmp_path)
    for number in range(50):
        clocked.poll(NOON_MS + number, queues=20)
    clocked.writer.close()
    (name,) = sealed(out)
    file = pq.ParquetFile(out / name)
    rows = file.read().to_pylist()

    assert file.schema_arrow.equals(SCHEMAS["samples"])
    assert file.metadata.metadata[b"rsmq_schema"] == b"1"
    assert json.loads(file.metadata.metadata[b"rsmq_places"]) == [list(PLACE)]
    assert {file.metadata.row_group(0).column(number).compression for number in range(26)} == {"ZSTD"}
    assert [row["queue"] for row in rows[::50]] == [*sorted(f"q{number}" for number in range(20)), None]
    assert [row["at_ms"] for row in rows] == [NOON_MS + number for number in range(49, -1, -1)] * 21
    assert (out / name).stat().st_size / len(rows) < 15


def test_the_folder_says_what_its_columns_mean(out: Path, tmp_path: Path) -> None:
    ClockedWriter(out, tmp_path).writer.close()
    known = json.loads((out / "_schema.json").read_text())

    assert known["schema"] == 1
    for table, columns in COLUMNS.items():
        assert [column["name"] for column in known["tables"][table]] == SCHEMAS[table].names
        assert all(column.words for column in columns)


@pytest.mark.parametrize(("text", "is_refused"), [('{"schema": 2}', True), ('{"schema": 0}', False), ("{", False)])
def test_a_history_of_a_newer_version_is_left_alone(out: Path, tmp_path: Path, text: str, is_refused: bool) -> None:
    out.mkdir()
    (out / "_schema.json").write_text(text)
    if is_refused:
        with pytest.raises(
            HistoryError, match=r"contains a history of version 2, but this program writes version 1: record to"
        ):
            ClockedWriter(out, tmp_path)
        assert [path.name for path in out.iterdir()] == ["_schema.json"]
    else:
        ClockedWriter(out, tmp_path).writer.close()
        assert json.loads((out / "_schema.json").read_text())["schema"] == 1


def test_two_recorders_in_one_folder(out: Path, tmp_path: Path) -> None:
    one, other = ClockedWriter(out, tmp_path), ClockedWriter(out, tmp_path)
    for number in range(3):
        one.poll(NOON_MS + number)
        other.poll(NOON_MS + number)
        one.now_s = other.now_s = one.now_s + 10_000
        # Each looks for dead recorders too, and finds none.
        one.writer.tend()
        other.writer.tend()
    one.writer.close()
    other.writer.close()

    rows = rows_of(out)
    assert len(rows) == 18
    assert len({(row["recorder"], row["at_ms"], row["queue"]) for row in rows}) == 18
    assert left_over(out) == []


def test_what_a_dead_recorder_left_is_sealed_once(out: Path, tmp_path: Path) -> None:
    dead = ClockedWriter(out, tmp_path)
    dead.poll(NOON_MS)
    segment = next(iter(dead.writer._open.values()))
    kept = segment.path.read_bytes()
    assert dead.writer._place is not None
    dead.writer._place._lock.release()
    ClockedWriter(out, tmp_path).writer.tend()
    assert (len(rows_of(out)), left_over(out)[1:]) == (3, [f"{left_over(out)[0]}/lock"])
    # As if it had been stopped after the file had appeared, and before the segment was gone.
    segment.path.parent.mkdir()
    segment.path.write_bytes(kept)
    ClockedWriter(out, tmp_path).writer.tend()

    assert len(rows_of(out)) == 3
    assert not segment.path.parent.exists()


def test_what_a_dead_recorder_of_an_earlier_version_left_is_sealed(out: Path, tmp_path: Path) -> None:
    ClockedWriter(out, tmp_path).writer.close()
    place = make_spool(out / "_segments", "dead")
    # It wrote the rows of each poll as an Arrow batch.
    segment = Segment(place.folder / "samples.2024-10-04.000001.arrows", SAMPLES, "2024-10-04", SCHEMAS[SAMPLES])
    rows = SampleRows("dead", PLACE)
    for number in range(3):
        segment.append(rows.polled((state(depth=number),), NOON_MS + number, None))
    segment.close()
    place._lock.release()
    ClockedWriter(out, tmp_path).writer.tend()

    assert sealed(out) == ["samples/day=2024-10-04/dead-000001.parquet"]
    assert [row["depth"] for row in rows_of(out)] == [0, None, 1, None, 2, None]


def test_a_segment_that_cannot_be_read_keeps_no_other_from_being_sealed(out: Path, tmp_path: Path) -> None:
    ClockedWriter(out, tmp_path).writer.close()
    dead = ClockedWriter(out, tmp_path)
    dead.poll(NOON_MS)
    segment = next(iter(dead.writer._open.values()))
    # Beside it, and in a folder before its own: names of another version.
    first = make_spool(out / "_segments", "0")
    foreign = [segment.path.with_name("a.arrows"), first.folder / "a.arrows"]
    for path in foreign:
        path.touch()
    first._lock.release()
    assert dead.writer._place is not None
    dead.writer._place._lock.release()
    other = ClockedWriter(out, tmp_path).writer
    other.tend()

    assert len(rows_of(out)) == 3
    assert not segment.path.exists()
    assert all(path.exists() for path in foreign)
    assert other.problem is not None


def test_segments_are_flushed_every_few_seconds(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocked, flushed_s = ClockedWriter(out, tmp_path), []
    monkeypatch.setattr(os, "fsync", lambda _: flushed_s.append(clocked.now_s))
    for number in range(12):
        clocked.now_s = number
        clocked.poll(NOON_MS + number)
    # Without new rows, there is nothing to flush.
    clocked.now_s = 100
    clocked.writer.sync()
    clocked.now_s = 200
    clocked.writer.sync()

    assert flushed_s == [0, SYNC_EVERY_S, 2 * SYNC_EVERY_S, 100]


def test_a_flush_that_failed_is_tried_again_at_once(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocked, flushes = ClockedWriter(out, tmp_path), [OSError("no"), OSError("no"), None]

    def flush(_: int) -> None:
        failure = flushes.pop(0)
        if failure is not None:
            raise failure

    monkeypatch.setattr(os, "fsync", flush)
    for number in range(2):
        with pytest.raises(OSError, match="no"):
            clocked.poll(NOON_MS + number)
    clocked.poll(NOON_MS + 2)

    assert not flushes


def test_what_another_has_just_finished_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_spool(tmp_path, "dead")._lock.release()
    acquire = FileLock.acquire

    def late(path: Path, *, wait: bool = False) -> FileLock | None:
        lock = acquire(path, wait=wait)
        if path.parent != tmp_path:
            path.unlink()
        return lock

    monkeypatch.setattr(FileLock, "acquire", late)
    assert list(claim_abandoned(tmp_path)) == []


def test_a_recorder_elsewhere_is_left_alone_while_it_writes(out: Path, tmp_path: Path) -> None:
    there = ClockedWriter(out, tmp_path)
    there.poll(NOON_MS)
    assert there.writer._place is not None
    folder = there.writer._place.folder
    # Its lock does not reach this machine.
    there.writer._place._lock.release()
    (folder / "lock").write_text('{"pid": 1, "host": "another machine"}')
    ClockedWriter(out, tmp_path).writer.tend()

    assert folder.exists()
    assert rows_of(out) == []


def fill(clocked: ClockedWriter, *days: int) -> None:
    """Seal one file for each day before noon's."""
    for day in days:
        clocked.poll(NOON_MS - day * DAY_MS)
        clocked.now_s += 10_000
        clocked.writer.tend()


def days(out: Path) -> list[int]:
    return sorted((NOON_MS - row["at_ms"]) // DAY_MS for row in rows_of(out) if row["queue"] is None)


@pytest.mark.parametrize(("keep_days", "left"), [(1, [0, 1]), (2, [0, 1, 2]), (30, [0, 1, 2, 5])])
def test_days_that_are_older_go(out: Path, tmp_path: Path, keep_days: int, left: list[int]) -> None:
    clocked = ClockedWriter(out, tmp_path, keep_ms=keep_days * DAY_MS)
    (out / "samples" / "day=of-somebody").mkdir(parents=True)
    fill(clocked, 5, 2, 1, 0)

    assert days(out) == left
    assert (out / "samples" / "day=of-somebody").exists()
    clocked.writer.close()
    assert left_over(out) == []


@pytest.mark.parametrize(("files", "left"), [(0.5, [0]), (1.5, [0]), (2.5, [0, 1]), (4.5, [0, 1, 2, 5])])
def test_the_oldest_days_go_when_there_is_too_much(out: Path, tmp_path: Path, files: float, left: list[int]) -> None:
    fill(ClockedWriter(out, tmp_path), 5, 2)
    one_file = (out / sealed(out)[0]).stat().st_size
    fill(ClockedWriter(out, tmp_path, max_bytes=round(files * one_file)), 1, 0)

    assert days(out) == left


def test_nobody_sees_half_a_day_that_goes(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocked = ClockedWriter(out, tmp_path, keep_ms=DAY_MS)

    def stopped(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", stopped)
        fill(clocked, 5, 0)
    assert days(out) == [0]
    assert clocked.writer.problem is not None
    clocked.writer.close()
    assert left_over(out) == []


def test_a_clock_that_is_far_ahead_deletes_nothing(out: Path, tmp_path: Path) -> None:
    clocked = ClockedWriter(out, tmp_path, keep_ms=DAY_MS)
    fill(clocked, 1, 0, -5000)

    assert days(out) == [-5000, 0, 1]


def test_a_server_without_a_calendar_is_refused_in_a_sentence(out: Path, tmp_path: Path) -> None:
    clocked = ClockedWriter(out, tmp_path)
    with pytest.raises(HistoryError, match="the server's clock is outside the calendar"):
        clocked.poll(10**18)


def test_a_file_that_cannot_be_sealed_is_sealed_later(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = ClockedWriter(out, tmp_path)
    clocked.poll(NOON_MS)
    clocked.now_s = 1_000

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rsmq_tui.history.writer.write_sealed", fail)
        clocked.writer.tend()
        assert (
            clocked.writer.problem
            == f"no space left for {out}: free some space, or use --max-size to delete the oldest days"
        )
        clocked.poll(NOON_MS + 1)
    clocked.now_s += 29
    clocked.writer.tend()
    assert rows_of(out) == []
    clocked.now_s += 1
    clocked.writer.tend()

    assert clocked.writer.problem is None
    assert len(rows_of(out)) == 3
    clocked.writer.close()
    assert len(rows_of(out)) == 6


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError) as failed:
        ClockedWriter(tmp_path / "file" / "history", tmp_path)

    assert str(failed.value) == f"{tmp_path}/file/history cannot be written: Not a directory"


def test_a_history_that_is_removed_meanwhile_begins_anew(out: Path, tmp_path: Path) -> None:
    clocked = ClockedWriter(out, tmp_path, seal_every_s=600)
    clocked.poll(NOON_MS)
    shutil.rmtree(out)
    clocked.now_s = 600
    clocked.writer.tend()
    assert clocked.writer.problem == f"{out} cannot be written: No such file or directory"
    clocked.poll(NOON_MS + 1)
    clocked.now_s = 1_200
    clocked.writer.tend()
    assert len(rows_of(out)) == 3
    assert (
        clocked.writer.problem
        == f"{out}: samples.2024-10-04.000001.arrows was removed before it was sealed: its rows are lost"
    )

    clocked.poll(NOON_MS + 2)
    clocked.now_s = 1_800
    clocked.writer.tend()
    assert clocked.writer.problem is None
    assert len(rows_of(out)) == 6
    assert (out / "_schema.json").exists()
    clocked.writer.close()
    assert left_over(out) == []
