"""Recorders that are killed at a step, in the middle of whatever they were doing.

Run as a program it is the process from which those are forked: importing everything takes longer than a recording.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.history.made import DAY_MS, NOON_MS, Hand

ROOT = Path(__file__).parents[2]
POLLS = 6
# The first polls are of a day that is to be deleted in the end.
OLD_POLLS = 2
_CALLS = ("open", "close", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate")


def at_ms(number: int) -> int:
    """When a poll was made."""
    return NOON_MS + number - (5 * DAY_MS if number < OLD_POLLS else 0)


class Crasher:
    """Records, or recovers, in processes that are killed after some steps; 0 lets them end."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self.folder = folder

    def run(self, what: str, kill_at: int) -> bool:
        """Record, or recover; returns whether it was killed before its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"folder": str(self.folder), "what": what, "kill_at": kill_at}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer in ("killed", "ended"), answer
        return bool(answer == "killed")

    @property
    def polls_on_disk(self) -> int:
        """How many polls the recorder had been told are on the disk."""
        path = self.folder / "told"
        return len(path.read_bytes()) if path.exists() else 0


@contextmanager
def mother() -> Iterator["subprocess.Popen[str]"]:
    """The process that makes and buries those who are killed."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.history.crashing"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _work(job: dict[str, Any]) -> None:
    folder = Path(job["folder"])
    write, told = os.write, os.open(folder / "told", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    _arm(job["kill_at"])
    hand = Hand(folder / "history", folder, seal_every_s=3, keep_ms=DAY_MS)
    hand.writer.tend()
    if job["what"] == "record":
        for number in range(POLLS):
            hand.poll(at_ms(number))
            write(told, b".")
            hand.now_s += 1
            hand.writer.tend()
    hand.writer.close()


def _arm(kill_at: int) -> None:
    left = kill_at

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    write = os.write

    def write_in_halves(fd: int, data: Any) -> int:
        half = len(data) // 2
        written = write(fd, data[:half])
        step()
        written += write(fd, data[half:])
        step()
        return written

    os.write = write_in_halves
    for name in _CALLS:
        setattr(os, name, _stepping(getattr(os, name), step))
    pq.ParquetWriter.write_table = _stepping(pq.ParquetWriter.write_table, step)


def _stepping(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        found = call(*given, **named)
        step()
        return found

    return called


def _main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _work(json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        answer = "killed" if killed else "ended" if status == 0 else f"failed with {status}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
