"""What is seen of a process from outside, and what it counts itself."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from redis import Redis

from tests.soak import looking

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

_TASKS = """
import asyncio, sys

def wait():
    print("ready", flush=True)
    sys.stdin.read()

async def main():
    tasks = [asyncio.create_task(asyncio.sleep(1000)) for _ in range(300)]
    await asyncio.sleep(0)
    await asyncio.to_thread(wait)

asyncio.run(main())
"""

_GARBAGE = """
import gc, sys

class Circle:
    def __init__(self):
        self.own = [self]

gc.collect()
gc.disable()
before = len(gc.get_objects())
for _ in range(5_000):
    Circle()
assert len(gc.get_objects()) >= before + 10_000
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def running(script: str, folder: Path | None) -> Iterator[int]:
    """Run a script that prints a line when it is ready, and give it what counts inside if there is a folder."""
    given = {} if folder is None else looking.prepared(folder)
    with Popen([sys.executable, "-c", script], env={**os.environ, **given}, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_a_process_counts_what_is_inside(tmp_path: Path) -> None:
    with running(_TASKS, tmp_path) as pid:
        for whole in (False, True, True):
            found = looking.of_inside({"it": pid}, tmp_path, whole=whole)["it"]
            # Its main task too.
            assert found["tasks"] == 301
            assert found["pool_threads"] == 1
            assert found["blocks"] > 1_000
            assert ("heap_kb" in found) is (platform.libc_ver()[0] == "glibc")
            assert ("types" in found) is whole
        assert found["types"]["_asyncio.Task"] == 301
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"{pid}.json"]


def test_garbage_that_waits_to_be_collected_is_no_growth(tmp_path: Path) -> None:
    with running(_GARBAGE, tmp_path) as pid:
        found = looking.of_inside({"it": pid}, tmp_path, whole=True)["it"]
        assert found["types"]["__main__.Circle"] == 5_000
        assert found["objects"] < sum(found["types"].values()) - 5_000


def test_a_process_that_was_not_prepared_is_not_asked(tmp_path: Path) -> None:
    with running(_TASKS, None) as pid:
        assert looking.of_inside({"it": pid}, tmp_path, whole=False) == {}
        assert looking.of_process(pid)["threads"] >= 1


def test_a_process_from_outside() -> None:
    found = looking.of_process(os.getpid())
    assert found["rss_kb"] > found["private_kb"] > 1_000
    assert found["pss_kb"] <= found["rss_kb"]
    with Path(__file__).open(encoding="utf-8"):
        assert looking.of_process(os.getpid())["fds"] == found["fds"] + 1


def test_a_server(client: Redis) -> None:
    client.set("one", 1)
    before = looking.of_server(client)
    client.set("two", 2)
    after = looking.of_server(client)
    assert (before["keys"], after["keys"]) == (1, 2)
    assert after["commands"] > before["commands"]
    assert before["clients"] >= 1


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "one").write_bytes(bytes(1024))
    (tmp_path / "memory" / "two").write_bytes(bytes(2048))
    (tmp_path / "journal.sqlite").write_bytes(bytes(512))
    assert looking.of_folder(tmp_path) == {"files": 3, "memory_kb": 3.0, "journal.sqlite_kb": 0.5}
