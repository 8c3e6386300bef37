"""Compaction: the same rows in fewer files, also if it is killed anywhere."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rsmq_tui.history.compaction import compact
from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.reading import History
from rsmq_tui.history.schema import SAMPLES
from rsmq_tui.history.store import FolderStore
from tests.history.made import DAY_MS, NOON_MS, Hand

DAY, DAY_AFTER = "2024-10-04", "2024-10-05"


def recorded(folder: Path, polls: int = 6, *, at_ms: int = NOON_MS) -> None:
    """A file for each poll, of one recorder."""
    hand = Hand(folder, folder.parent / "state")
    for number in range(polls):
        hand.poll(at_ms + number * 5_000, 2)
        for table, day in list(hand.writer._open):
            hand.writer._end(table, day)
        hand.writer._seal_waiting()
    hand.writer.close()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.parquet"))


def polls_of(folder: Path) -> list[tuple[int, str, list[object]]]:
    return [(poll.at_ms, poll.recorder, poll.rows.to_pylist()) for poll in History(folder).polls()]


def compacted(folder: Path, before_day: str = "2024-10-06") -> dict[str, tuple[int, int]]:
    return {day: tuple(done) for day, done in compact(FolderStore(folder), before_day, folder.parent)}  # type: ignore[misc]


def test_the_files_of_each_recorder_and_day_become_one_and_the_polls_stay_the_same(tmp_path: Path) -> None:
    history = tmp_path / "history"
    recorded(history)
    recorded(history, 2)
    recorded(history, 3, at_ms=NOON_MS + DAY_MS)
    before = polls_of(history)
    found = compacted(history, DAY_AFTER)

    assert found == {DAY: (8, 2)}
    assert len(files(history)) == 2 + 3
    assert polls_of(history) == before
    assert len(before) == 11
    # There is nothing more to do.
    assert compacted(history, DAY_AFTER) == {DAY: (2, 2)}


@pytest.mark.parametrize("step", ["publish", "remove"])
def test_one_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    history = tmp_path / "history"
    recorded(history)
    before = polls_of(history)
    own: Callable[..., None] = getattr(FolderStore, step)

    def killed(self: FolderStore, *arguments: object) -> None:
        if step == "remove" and arguments:
            own(self, arguments[0])
        if step != "remove" or arguments:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FolderStore, step, killed)
        with pytest.raises(KeyboardInterrupt):
            compacted(history)
    assert len(files(history)) == 6
    assert polls_of(history) == before
    compacted(history)
    assert len(files(history)) == 1
    assert polls_of(history) == before


def test_files_that_are_large_damaged_or_of_a_newer_version_stay_and_divide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = tmp_path / "history"
    recorded(history, 7)
    paths = sorted(history.rglob("*.parquet"))
    paths[2].write_bytes(b"no file of a history")
    newer = pq.ParquetFile(paths[5]).read()
    pq.write_table(newer.append_column("more", newer.column("at_ms")), paths[5])
    # Two rows of queues and one of the poll are in each file: no more than two files become one.
    monkeypatch.setattr("rsmq_tui.history.compaction._ROWS_MAX", 6)

    assert compacted(history) == {DAY: (7, 5)}
    names = files(history)
    assert paths[2].name in names
    assert paths[5].name in names
    recorder = paths[0].name.partition("-")[0]
    assert [name for name in names if name.count("-") == 2] == [
        f"{recorder}-000001-000002.parquet", f"{recorder}-000004-000005.parquet"
    ]  # fmt: skip


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "history")

    def full(self: FolderStore, path: Path, name: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FolderStore, "publish", full)
    with pytest.raises(HistoryError, match="no space left for"):
        compacted(tmp_path / "history")
    assert len(files(tmp_path / "history")) == 6
    assert SAMPLES in {path.name for path in (tmp_path / "history").iterdir()}
