"""Recorders that are killed at a step; run as a program, the process from which those are forked."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rsmq_tui.history.compaction import compact
from rsmq_tui.history.schema import SAMPLES
from rsmq_tui.history.store import FolderStore
from tests.history.made import DAY_MS, NOON_MS, ClockedWriter
from tests.killing import killing_after, stepping, was_killed, work_in_forks

POLLS = 6
# The first polls are of a day that is to be deleted in the end.
OLD_POLLS = 2
_CALLS = ("open", "close", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate")


def at_ms(number: int) -> int:
    """When a poll was made."""
    return NOON_MS + number - (5 * DAY_MS if number < OLD_POLLS else 0)


class Crasher:
    """Records, recovers or compacts, in processes that are killed after some steps."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self.folder = folder

    def run(self, what: str, kill_at: int) -> bool:
        """Record, recover or compact; returns whether it was killed before its end."""
        return was_killed(self._process, {"folder": str(self.folder), "what": what, "kill_at": kill_at})

    @property
    def polls_on_disk(self) -> int:
        """How many polls the recorder had been told are on the disk."""
        path = self.folder / "told"
        return len(path.read_bytes()) if path.exists() else 0


def _work(job: dict[str, Any]) -> None:
    folder = Path(job["folder"])
    write, known = os.write, os.open(folder / "told", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    _arm(job["kill_at"])
    if job["what"] == "compact":
        compact_whole(folder)
    elif job["what"] == "recover":
        recover(folder)
    else:
        clocked = _writer(folder)
        clocked.writer.tend()
        for number in range(POLLS):
            clocked.poll(at_ms(number))
            write(known, b".")
            clocked.now_s += 1
            clocked.writer.tend()
        clocked.writer.close()


def _writer(folder: Path) -> ClockedWriter:
    return ClockedWriter(folder / "history", folder, seal_every_s=3, keep_ms=DAY_MS)


def recover(folder: Path) -> None:
    """Do what a recorder does that starts, and ends at once."""
    clocked = _writer(folder)
    clocked.writer.tend()
    clocked.writer.close()


def compact_whole(folder: Path) -> None:
    """Compact all days of the history."""
    store = FolderStore(folder / "history")
    list(compact(store, store.days(SAMPLES), folder / "history" / "_segments"))


def _arm(kill_at: int) -> None:
    step = killing_after(kill_at)
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
        setattr(os, name, stepping(getattr(os, name), step))
    pq.ParquetWriter.write_table = stepping(pq.ParquetWriter.write_table, step)


if __name__ == "__main__":
    work_in_forks(_work)
