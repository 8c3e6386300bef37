"""The audit log: one line of JSON for every change, in the user's state folder; appended to, never rewritten."""

import errno
import json
import os
from pathlib import Path

from rsmq_tui.triage.changes import Change


class AuditLog:
    """Appends to the file ``path``, which only the user may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, change: Change, ended: str | None = None) -> bool:
        """Tell whether it has the line of that change, with that end (and its counts); raises OSError."""
        try:
            with self.path.open(encoding="ascii", errors="replace") as lines:
                return any(_is_of(line, change, ended) for line in lines)
        except FileNotFoundError:
            return False

    def write(self, change: Change, ended: str) -> None:
        """Append what is known of a change that has ended; raises OSError."""
        line = {
            "at_ms": change.at_ms,
            "action": change.name,
            "who": change.who,
            "host": change.host,
            "profile": change.profile,
            "server": change.server,
            "ns": change.ns,
            "queue": change.queue,
            "target": change.target,
            "filter": change.what,
            "planned": change.planned,
            "done": change.done,
            "skipped": change.skipped,
            "failed": change.failed,
            "ended": ended,
            "change": change.change,
            "undoes": change.undoes,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Names may hold bytes that are no UTF-8: escaped, every line stays one line of ASCII.
        text = json.dumps(line, ensure_ascii=True) + "\n"
        descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            if not _ends_a_line(descriptor):
                text = "\n" + text
            # One write, so that several programs may append at once.
            if os.write(descriptor, text.encode()) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(descriptor)


def _ends_a_line(descriptor: int) -> bool:
    """Tell whether a file ends with a whole line; one on a disk that was full does not."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if not size:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _is_of(line: str, change: Change, ended: str | None) -> bool:
    # Numbers begin anew with a new journal: the time tells.
    if f'"change": {change.change},' not in line:
        return False
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict) or (found.get("change"), found.get("at_ms")) != (change.change, change.at_ms):
        return False
    counts = change.done, change.skipped, change.failed
    told = tuple(found.get(name) for name in ("done", "skipped", "failed"))
    return ended is None or (ended, counts) == (found.get("ended"), told)
