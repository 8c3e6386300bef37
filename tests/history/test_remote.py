"""Histories that fsspec reaches: segments stay here until a sealed file is there, whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.reading import History
from rsmq_tui.history.store import open_store
from tests.history.made import DAY_MS, NOON_MS, ClockedWriter, rows_of

URL = "memory://bucket/queues"


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    filesystem = MemoryFileSystem()
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def names(memory: MemoryFileSystem) -> list[str]:
    return sorted(memory.find("/bucket/queues"))


def test_sealed_files_appear_there(memory: MemoryFileSystem, tmp_path: Path) -> None:
    clocked = ClockedWriter(URL, tmp_path)
    clocked.poll(NOON_MS)
    assert names(memory) == ["/bucket/queues/_schema.json"]
    clocked.writer.close()

    (name,) = (name for name in names(memory) if name.endswith(".parquet"))
    assert name == f"/bucket/queues/samples/day=2024-10-04/{clocked.writer.recorder}-000001.parquet"
    assert len(names(memory)) == 2
    with memory.open(name) as file:
        assert pq.read_table(file).num_rows == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [next(tmp_path.rglob("lock"))]
    (poll,) = History(URL, state=tmp_path).polls()
    assert (poll.at_ms, poll.rows.num_rows) == (NOON_MS, 2)


def test_an_outage_there_loses_nothing(
    memory: MemoryFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = ClockedWriter(URL, tmp_path)
    clocked.poll(NOON_MS)

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("the bucket does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "mv", fail)
        clocked.writer.close()
    assert clocked.writer.problem == f"{URL} cannot be written: ConnectionError: the bucket does not answer"
    assert [name for name in names(memory) if not name.rpartition("/")[2].startswith("_")] == []
    # The next recorder of this history, on this machine, brings it there.
    later = ClockedWriter(URL, tmp_path)
    later.writer.tend()
    later.writer.close()

    assert len(list(History(URL, state=tmp_path).polls())) == 1


def test_in_a_long_outage_there_each_attempt_seals_one_segment(
    memory: MemoryFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = ClockedWriter(URL, tmp_path, seal_every_s=600)
    attempts = 0

    def fail(*_: Any, **__: Any) -> None:
        nonlocal attempts
        attempts += 1
        raise ConnectionError("the bucket does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "mv", fail)
        for number in range(40):
            clocked.poll(NOON_MS + number)
            clocked.now_s += 600
            before = attempts
            clocked.writer.tend()
            assert attempts == before + 1
    assert clocked.writer.problem is not None

    original = MemoryFileSystem.mv

    def slow(*arguments: Any, **options: Any) -> None:
        original(*arguments, **options)
        clocked.now_s += 1

    # It is there again: polls do not wait until all of them are sealed.
    clocked.now_s += 30
    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "mv", slow)
        clocked.writer.tend()
        assert 0 < clocked.writer.sealed_files < 10
        while clocked.writer.sealed_files < 40:
            clocked.writer.tend()
    assert clocked.writer.problem is None
    clocked.writer.close()
    assert len(list(History(URL, state=tmp_path).polls())) == 40


def test_old_days_go_there_too(memory: MemoryFileSystem, tmp_path: Path) -> None:
    clocked = ClockedWriter(URL, tmp_path, keep_ms=DAY_MS)
    for day in (5, 0):
        clocked.poll(NOON_MS - day * DAY_MS)
        clocked.now_s += 10_000
        clocked.writer.tend()

    assert [poll.at_ms for poll in History(URL, state=tmp_path).polls()] == [NOON_MS]


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    clocked = ClockedWriter(f"file://{tmp_path}/history", tmp_path)
    clocked.poll(NOON_MS)
    clocked.writer.close()

    assert len(rows_of(tmp_path / "history")) == 3
    assert (tmp_path / "history" / "_segments").is_dir()


@pytest.mark.parametrize("url", ["nosuch://user:hunter2@host/x", "gs://user:hunter2@bucket/x"])
def test_a_url_that_nobody_knows_is_one_sentence_without_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError) as failed:
        open_store(url, tmp_path)

    assert "hunter2" not in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_folder_in_the_home_of_nobody_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"^~nosuchuser/history: its home directory is not known here$"):
        open_store("~nosuchuser/history", tmp_path)
