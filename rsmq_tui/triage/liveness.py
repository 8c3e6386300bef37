"""Whether the program that began a change still works on it."""

import os
import socket

# A change tells the journal that it is alive with every group of batches.
_SILENT_MS = 60_000
# A process id is soon another program's, and in containers always the same.
_SILENT_HERE_MS = 600_000

# What this process works on: the files of journals, and the numbers of their changes.
_at_work: set[tuple[str, int]] = set()


def begin_work(journal: str, change: int) -> None:
    """Note that this process works on a change of the journal in that file."""
    _at_work.add((journal, change))


def end_work(journal: str, change: int) -> None:
    """Note that this process no longer does, however it ended."""
    _at_work.discard((journal, change))


def is_alive(journal: str, change: int, host: str, pid: int, silent_ms: int) -> bool:
    """Tell whether process ``pid`` on ``host`` may still be at work on a change.

    ``silent_ms`` is how long the change has told the journal nothing. To take it for dead is safe at any time: it is
    then told so, and stops.
    """
    if host != socket.gethostname():
        return silent_ms < _SILENT_MS
    if pid == os.getpid():
        return (journal, change) in _at_work
    # On Windows a signal 0 would end the process.
    if os.name != "posix":
        return silent_ms < _SILENT_MS
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return silent_ms < _SILENT_HERE_MS
