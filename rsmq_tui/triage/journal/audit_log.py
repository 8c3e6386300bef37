"""The audit log: a line of JSON for each change that has ended; it is never shortened."""

import errno
import json
import os
from pathlib import Path

from rsmq_tui.triage.change import Change

# The fields of a change in a line of the audit log, and the keys that differ from their names.
_AUDITED = ("at_ms", "name", "who", "host", "profile", "server", "ns", "queue", "target", "what", "planned", "done",
            "skipped", "failed")  # fmt: skip
_AUDITED_AS = {"name": "action", "what": "filter"}


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

    def write(self, change: Change, ended: str) -> None:
        """Append the line of a change that has ended; raises OSError."""
        line = {_AUDITED_AS.get(name, name): getattr(change, name) for name in _AUDITED}
        line |= {"ended": ended, "change": change.change, "undoes": change.undoes}
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Names may hold bytes that are not UTF-8: JSON escapes keep every line in ASCII.
        text = json.dumps(line, ensure_ascii=True) + "\n"
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
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict) or (found.get("change"), found.get("at_ms")) != (change.change, change.at_ms):
        return False
    counts = change.done, change.skipped, change.failed
    written = tuple(found.get(name) for name in ("done", "skipped", "failed"))
    return ended is None or (ended, counts) == (found.get("ended"), written)
