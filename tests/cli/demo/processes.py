"""Looking at processes from the tests: parents that start something and are then ended, and whether it is gone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import rsmq_tui
from tests.waiting import wait_until


def is_alive(pid: int) -> bool:
    """Whether that process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in {"", "Z"}


def wait_until_gone(pid: int) -> None:
    """Wait for that process to end."""
    wait_until(lambda: not is_alive(pid), f"{pid} ends")


@contextmanager
def parent(script: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a script in a session of its own; gives it and the words of the first line that it prints.

    In the end it and all its children of the same process group are killed.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(rsmq_tui.__file__).parent.parent)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        try:
            words = process.stdout.readline().split()
            if not words:
                raise AssertionError(process.stderr.read())
            yield process, words
        finally:
            # macOS refuses (EPERM) where only the unreaped parent is left.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
