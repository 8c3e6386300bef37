"""Whether the program that began a change still works on it."""

import os
import socket

# A change tells the journal that it is alive with every group of batches.
_SILENT_MS = 60_000


def is_alive(host: str, pid: int, alive_ms: int, now_ms: int) -> bool:
    """Tell whether process ``pid`` on ``host`` may still be at work; ``alive_ms`` is when it last said so."""
    if host == socket.gethostname() and os.name == "posix":
        # On Windows a signal 0 would end the process.
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    return now_ms - alive_ms < _SILENT_MS
