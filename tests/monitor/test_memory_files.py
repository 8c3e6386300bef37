"""Files of memory that a writer leaves when it is killed, that cannot be used, and that cannot be written."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rsmq_tui.monitor.tracking import memory
from rsmq_tui.monitor.tracking.memory import Memory
from tests.cli.running import printed
from tests.killing import ROOT
from tests.monitor.memories import MOMENT, began, run
from tests.monitor.rows import START_MS, Flow, Scripted

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "memory"


_TOO_LARGE: bytes = zlib.compress(json.dumps({"q1": [[0, 1, 1 << 63, 1, 1, 1]]}).encode())


KILLED = """
import sys
from array import array
from pathlib import Path
from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.monitor.tracking.place_tracker import PlaceMemory

memory, names = Memory(Path(sys.argv[1]), "x"), [f"q{number}" for number in range(2000)]
for slot in range(100_000):
    column = array("d", range(slot, slot + 2000))
    memory.save(PlaceMemory(slot * 30_000, names, [column] * 4, [], array("q", range(28_000)), {}))
    assert memory.problem is None, memory.problem
    print(slot * 30_000, flush=True)
"""


def test_a_writer_that_is_killed_leaves_all_that_it_had_written(folder: Path) -> None:
    for lines in (1, 2, 6):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process:
            words = [int(process.stdout.readline()) for _ in range(lines)]
            os.kill(process.pid, signal.SIGKILL)
        found = Memory(folder, "x")
        earlier = found.load()

        assert found.problem is None
        assert earlier is not None
        assert earlier.last.at_ms >= words[-1]
        found.path.unlink()


def test_a_full_disk_is_a_sentence_until_there_is_room(folder: Path) -> None:
    code = """
import json, resource, sys
from array import array
from pathlib import Path
from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.monitor.tracking.place_tracker import PlaceMemory

memory, told = Memory(Path(sys.argv[1]), "x"), []
names = [str(hash((number, "name"))) for number in range(5000)]
columns = [array("d", map(hash, names))] * 4
for slot, limit in enumerate((resource.RLIM_INFINITY, 100_000, resource.RLIM_INFINITY)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    memory.save(PlaceMemory(slot * 30_000, names, columns, [], array("q"), {}))
    told.append(memory.problem)
earlier = memory.load()
print(json.dumps([told, earlier.last.at_ms, len(earlier.times_ms)]))
"""
    (room, full, again), at_ms, buckets = json.loads(printed(code, folder))

    assert (room, again, at_ms, buckets) == (None, None, 60_000, 3)
    assert full.startswith("the last hour cannot be kept in ")


@pytest.mark.parametrize(
    ("spoil", "why", "recovers"),
    [
        (lambda path: path.write_bytes(b"not a database" * 1000), "another program wrote it", False),
        (lambda path: run(path, "PRAGMA application_id = 7"), "another program wrote it", False),
        (lambda path: run(path, "PRAGMA user_version = 99"), "another version of this program wrote it", False),
        (lambda path: os.truncate(path, 200_000_000), "it was too long, and replaced", True),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "it was damaged, and replaced", True),
        (lambda path: run(path, "UPDATE bucket SET counters = x'00'"), "it was damaged, and replaced", True),
        (lambda path: run(path, "UPDATE state SET more = 'x'"), "it was damaged, and replaced", True),
        (lambda path: run(path, "DELETE FROM names"), "it was damaged, and replaced", True),
        (
            lambda path: run(path, "INSERT INTO flights VALUES (0, 'x')"),
            "it was damaged, and replaced",
            True,
        ),
        (
            lambda path: run(path, "INSERT INTO flights VALUES (0, ?)", _TOO_LARGE),
            "it was damaged, and replaced",
            True,
        ),
        (lambda path: (path.unlink(), path.mkdir()), "unable to open database file", False),
    ],
)
async def test_a_file_that_cannot_be_used_is_a_sentence(
    folder: Path, spoil: Callable[[Path], object], why: str, *, recovers: bool
) -> None:
    watched, flow = Scripted(), Flow(sent=10)
    now = await began(folder, watched)
    watched.poll({f"q{number}": flow.row() for number in range(300)})
    await now.aclose(watched.tracker)
    spoil(now.path)
    now = await began(folder, new := Scripted(), at_ms=watched.at_ms + 1000)

    assert now.problem is not None
    assert now.problem.startswith(f"the last hour cannot be read in {now.path}: ")
    assert now.problem.endswith(why)
    assert new.tracker.trend.times_ms == []
    new.poll_one(flow.row())
    await now.aclose(new.tracker)
    assert (now.problem is None) is recovers
    assert (Memory(folder, "a server", "rsmq").load() is not None) is recovers


def test_what_cannot_be_written_harms_no_file(folder: Path) -> None:
    kept = Memory(folder, "a server", "rsmq")
    kept.save(MOMENT)
    before = kept.path.read_bytes()
    kept.save(replace(MOMENT, at_ms=START_MS + 110_000, more={"q": b"not for JSON"}))

    assert kept.problem is not None
    assert "a defect of this program (TypeError: " in kept.problem
    assert kept.path.read_bytes() == before


def test_a_locked_file_is_a_sentence_until_it_is_free(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_LOCK_WAIT_S", 0.01)
    now = Memory(folder, "x")
    now.save(MOMENT)
    with closing(sqlite3.connect(now.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert now.load() is None
        assert now.problem == f"the last hour cannot be read in {now.path}: database is locked"
        now.save(MOMENT)
        assert now.problem == f"the last hour cannot be kept in {now.path}: database is locked"
    now.save(MOMENT)
    assert now.problem is None


def test_a_folder_that_cannot_be_made_is_a_sentence(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("")
    now = Memory(folder, "x")
    now.save(MOMENT)

    assert now.problem == f"the last hour cannot be kept in {now.path}: File exists"
