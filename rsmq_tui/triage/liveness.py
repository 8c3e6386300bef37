"""Whether the program that began a change still works on it: it holds a lock that the system takes from the dead."""

import socket
from contextlib import suppress
from pathlib import Path

from rsmq_tui.locks import FileLock

# A change tells the journal that it is alive with every group of batches.
_SILENT_MS = 60_000


class Work:
    """Work on a change, as long as it is neither ended nor the process dead; raises ``OSError``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock.acquire(path)

    def end(self) -> None:
        """Note that nobody works on it any more."""
        if self._lock is not None:
            _remove(self._path, self._lock)


def is_alive(path: Path, host: str, silent_ms: int) -> bool:
    """Tell whether somebody may still be at work on the change whose lock is the file ``path``; raises ``OSError``.

    No clock is asked about a process of this machine. On another one a lock may tell nothing: there, ``silent_ms`` is
    how long the change has told the journal nothing. To take it for dead is safe at any time: it is then told so, and
    stops.
    """
    if path.exists():
        lock = FileLock.acquire(path, shared=True)
        if lock is None:
            return True
        _remove(path, lock)
    return host != socket.gethostname() and abs(silent_ms) < _SILENT_MS


def _remove(path: Path, lock: FileLock) -> None:
    lock.release()
    # Somebody else may be looking at it, which on Windows keeps it where it is.
    with suppress(OSError):
        path.unlink()
