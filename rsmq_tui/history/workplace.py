"""A recorder's own folder for what it has not sealed yet, and those that dead recorders left behind."""

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rsmq_tui.files import read_json
from rsmq_tui.history.segment import SUFFIX
from rsmq_tui.locks import FileLock

_LOCK = "lock"
# Locks may not reach from machine to machine: one that has not written for this long is gone.
_SILENT_ELSEWHERE_S = 300.0


class Workplace:
    """A folder that is locked for as long as whoever works in it lives; ``recorder`` is whose it is."""

    def __init__(self, folder: Path, lock: FileLock) -> None:
        self.folder = folder
        self.recorder = folder.name
        self._lock = lock

    def segments(self) -> list[Path]:
        """Return the segments in it, the oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def leave(self) -> None:
        """Remove the folder, but for what is still to be sealed, and unlock it."""
        try:
            if not self.segments():
                # The lock is the last to go: who finds it free finds nothing to do.
                for path in self.folder.iterdir():
                    if path.name != _LOCK:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                (self.folder / _LOCK).unlink()
                self.folder.rmdir()
        except OSError:
            # What is left over is removed by the next recorder.
            pass
        finally:
            self._lock.release()


def make_workplace(root: Path, recorder: str) -> Workplace:
    """Make a recorder's folder, and lock it; raises ``OSError``."""
    root.mkdir(parents=True, exist_ok=True)
    with _gate(root):
        folder = root / recorder
        folder.mkdir()
        lock = FileLock.acquire(folder / _LOCK, wait=True)
        if lock is None:
            raise OSError(f"{folder} belongs to another user")
        lock.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}) + "\n")
        return Workplace(folder, lock)


def claim_abandoned(root: Path) -> Iterator[Workplace]:
    """Yield the folders of recorders that have died, locked; leave each when it is done with. Raises ``OSError``."""
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
    for folder in folders:
        with _gate(root):
            lock = _claim(folder)
        if lock is not None:
            yield Workplace(folder, lock)


def _claim(folder: Path) -> FileLock | None:
    if _is_elsewhere(folder):
        return None
    with suppress(FileNotFoundError):
        lock = FileLock.acquire(folder / _LOCK)
        # Whoever held it may have finished between our look at the folder and now.
        if lock is not None and not (folder / _LOCK).exists():
            lock.release()
            return None
        return lock
    return None


def _is_elsewhere(folder: Path) -> bool:
    """Tell whether a recorder on another machine may be at work there."""
    try:
        host = read_json(folder / _LOCK)["host"]
        silent_s = time.time() - max(path.stat().st_mtime for path in folder.iterdir())
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return host != socket.gethostname() and silent_s < _SILENT_ELSEWHERE_S


@contextmanager
def _gate(root: Path) -> Iterator[None]:
    """Let one process at a time make or claim a folder."""
    gate = FileLock.acquire(root / _LOCK, wait=True)
    try:
        yield
    finally:
        if gate is not None:
            gate.release()
