"""Compaction: the same rows in fewer files, also if it is killed anywhere (see test_crashes)."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rsmq_tui.history.compaction import compact, past_days
from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.messages import Inventories
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.store import FolderStore
from rsmq_tui.history.synthetic import Generator, HistorySpec
from rsmq_tui.history.writer import RecordingSettings
from tests.history.made import DAY_MS, NOON_MS, PLACE, read_by, sealed_one_by_one

DAY, DAY_AFTER = "2024-10-04", "2024-10-05"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.parquet"))


def compacted(folder: Path, *, is_asked: bool = True) -> dict[str, tuple[int, int]]:
    store = FolderStore(folder)
    days = past_days(store.days(MESSAGES), NOON_MS + 2 * DAY_MS)
    return {day: (done.before, done.after) for day, done in compact(store, days, folder.parent, is_asked=is_asked)}


def test_the_files_of_each_recorder_and_day_become_one_and_the_rows_stay_the_same(tmp_path: Path) -> None:
    history = tmp_path / "history"
    sealed_one_by_one(history)
    sealed_one_by_one(history, 2)
    sealed_one_by_one(history, 3, at_ms=NOON_MS + DAY_MS)
    before = read_by(History(history))
    found = compacted(history)

    # The day after is yesterday.
    assert found == {DAY: (16, 4)}
    assert len(files(history)) == 4 + 6
    assert read_by(History(history)) == before
    assert (len(before[0]), len(before[1])) == (11, 44)
    # There is nothing more to do.
    assert compacted(history) == {DAY: (4, 4)}


def test_days_are_joined_unasked_only_if_they_have_many_small_files(tmp_path: Path) -> None:
    history = tmp_path / "history"
    sealed_one_by_one(history, 9)
    assert compacted(history, is_asked=False) == {DAY: (18, 18)}
    # With one more file of samples; but of messages, none is small.
    sealed_one_by_one(history, 1)
    for path in (history / MESSAGES).rglob("*.parquet"):
        os.truncate(path, 2 << 20)
    assert compacted(history, is_asked=False) == {DAY: (20, 12)}


async def test_a_replay_that_is_open_goes_on(tmp_path: Path) -> None:
    history = tmp_path / "history"
    sealed_one_by_one(history, 8)
    expected = read_by(History(history))
    reader = History(history)
    reader.refresh()
    polls = reader.polls()
    found = [next(polls)]
    inventories = Inventories(reader)
    compacted(history)
    found += polls

    assert [(poll.at_ms, poll.recorder, poll.rows.to_pylist()) for poll in found] == expected[0]
    assert (await inventories.last(PLACE, "q0", NOON_MS + 60_000)).at_ms == NOON_MS + 35_000
    assert read_by(reader) == expected
    # It is compacted once more, with a file that was sealed late.
    sealed = reader.listed()[0].name
    late = history / sealed.replace("-000001-000015", "-000017")
    rows = pq.ParquetFile(history / sealed).read()
    times = pa.compute.add(rows.column("at_ms"), 100_000)
    footer = {
        key: value for key, value in pq.read_metadata(history / sealed).metadata.items() if key != b"rsmq_replaces"
    }
    rows = rows.set_column(rows.schema.get_field_index("at_ms"), "at_ms", times).replace_schema_metadata(footer)
    pq.write_table(rows, late)
    old = History(history)
    old.refresh()
    compacted(history)
    assert len(list(old.polls())) == 16
    assert (old.problems, reader.problems) == ([], [])


def test_a_generated_history_is_continued_after_it_was_compacted(tmp_path: Path) -> None:
    history = tmp_path / "history"
    wanted = HistorySpec(NOON_MS - 3_600_000, NOON_MS, 2, 10_000, 600_000)
    Generator(wanted, str(history)).run(lambda _: None, 1)
    compacted(history)
    wanted = replace(wanted, to_ms=NOON_MS + 3_600_000)
    Generator(wanted, str(history)).run(lambda _: None, 1)
    compacted(history)
    Generator(wanted, str(history)).run(lambda _: None, 1)
    Generator(wanted, str(tmp_path / "at once")).run(lambda _: None, 1)

    assert compacted(history)[DAY][0] < 8
    assert read_by(History(history)) == read_by(History(tmp_path / "at once"))


def test_files_that_are_large_damaged_or_of_a_newer_version_stay_and_divide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = tmp_path / "history"
    sealed_one_by_one(history, 7)
    paths = sorted((history / SAMPLES).rglob("*.parquet"))
    paths[2].write_bytes(b"no file of a history")
    newer = pq.ParquetFile(paths[5]).read()
    pq.write_table(newer.append_column("more", newer.column("at_ms")), paths[5])
    # Two rows of queues and one of the poll are in each file, and four rows in each of messages.
    monkeypatch.setattr("rsmq_tui.history.compaction._LIMITS", RecordingSettings(seal_rows=6))

    assert compacted(history) == {DAY: (14, 12)}
    names = files(history / SAMPLES)
    assert paths[2].name in names
    assert paths[5].name in names
    recorder = paths[0].name.partition("-")[0]
    assert [name for name in names if name.count("-") == 2] == [
        f"{recorder}-000001-000003.parquet", f"{recorder}-000007-000009.parquet"
    ]  # fmt: skip


def test_no_file_is_removed_that_readers_read(tmp_path: Path) -> None:
    history = tmp_path / "history"
    sealed_one_by_one(history, 2)
    sealed = {path: path.read_bytes() for path in history.rglob("*.parquet")}
    compacted(history)
    for joined in history.rglob("*.parquet"):
        joined.rename(joined.with_name("other-000001.parquet"))
    for path, content in sealed.items():
        path.write_bytes(content)
    before = read_by(History(history))
    compacted(history)
    assert read_by(History(history)) == before


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed_one_by_one(tmp_path / "history")

    def full(self: FolderStore, path: Path, name: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FolderStore, "publish", full)
    with pytest.raises(HistoryError, match="no space left for"):
        compacted(tmp_path / "history")
    assert len(files(tmp_path / "history")) == 12
