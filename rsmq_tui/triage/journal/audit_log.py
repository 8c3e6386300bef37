"""The audit log: a line of JSON for each change that has ended; it is never shortened."""

import errno
import os
from pathlib import Path

from rsmq_tui.monitor.changes import read_line
from rsmq_tui.triage.change import Change


class AuditLog:
    """The audit log in the file ``path``, which only the user may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, change: Change, ended: str | None = None) -> bool:
        """Return whether it has a line of a change, with that end and the change's counts if given; raises OSError."""
        try:
            with self.path.open(encoding="ascii", errors="replace") as lines:
                return any(_is_of(line, change, ended) for line in lines)
        except FileNotFoundError:
            return False

    def write(self, change: Change, ended: str, lasted_ms: int | None = None) -> None:
        """Append the line of a change that has ended, which took at most ``lasted_ms``; raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = change.as_audited(ended, lasted_ms).line + "\n"
        descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            if not _ends_a_line(descriptor):
                text = "\n" + text
            # A single write, because several programs may append at once.
            if os.write(descriptor, text.encode()) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            # Without its name, this would be an error of the network.
            error.filename = str(self.path)
            raise
        finally:
            os.close(descriptor)


def _ends_a_line(descriptor: int) -> bool:
    """Return whether a file ends with a newline; it does not if the disk was full."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if not size:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _is_of(line: str, change: Change, ended: str | None) -> bool:
    # A new journal reuses numbers, so the time must match too.
    if f'"change": {change.change},' not in line:
        return False
    found = read_line(line)
    if found is None or (found.change, found.at_ms) != (change.change, change.at_ms):
        return False
    counts = change.done, change.skipped, change.failed
    return ended is None or (ended, counts) == (found.ended, (found.done, found.skipped, found.failed))
