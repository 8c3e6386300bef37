"""What earlier checks saw of a namespace, in a small file: one look cannot tell since when nobody receives."""

import errno
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rsmq_tui.files import read_json
from rsmq_tui.monitor.snapshot import QueueState

if sys.platform != "win32":
    import fcntl

# A clock that is further ahead than checks may overlap was set back since.
_OVERLAP_MAX_MS = 60_000
# The end of the calendar.
_LAST_MS = 253_402_300_799_999
# How long another check may hold the file.
LOCK_WAIT_S = 5.0
_LOCK_STEP_S = 0.02


@dataclass(frozen=True, slots=True)
class Known:
    """Since when, in server time, each queue with ready messages has had no receive, as far as checks have seen.

    ``is_first`` is True where nothing was known before; ``problem`` says why nothing can be kept.
    """

    since_ms: Mapping[str, int]
    is_first: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Record:
    """``queues`` holds (totalrecv, since_ms) of those that had ready messages at ``at_ms``."""

    at_ms: int
    queues: dict[str, tuple[int | None, int]] = field(default_factory=dict)


class LastSeen:
    """Keeps what was seen of namespace ``ns`` on ``server`` in a file of its own in ``folder``, made if need be."""

    def __init__(self, folder: Path, server: str, ns: str) -> None:
        self._server, self._ns = server, ns
        name = hashlib.sha256(f"{server}\n{ns}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path = folder / f"{name}.json"

    def update(self, at_ms: int, queues: Sequence[QueueState]) -> Known:
        """Take in what one look saw, of all queues of the namespace, and return what is known with it.

        Several programs may do so at once. A file that cannot be read counts as none; queues that are gone, or have
        nothing ready, are forgotten.
        """
        try:
            with self._locked():
                earlier = self._read(at_ms)
                now = _followed(earlier, at_ms, queues)
                # Another check, which looked later, may have been here first.
                if earlier is None or earlier.at_ms <= at_ms:
                    self._write(now)
        except OSError as error:
            problem = f"{self.path.parent} cannot be written: {error.strerror or type(error).__name__}"
            return Known({}, problem=problem)
        return Known({name: since_ms for name, (_, since_ms) in now.queues.items()}, is_first=earlier is None)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            # Elsewhere replacing the file at once must do: the worst is a clock that starts again.
            if sys.platform != "win32":
                _lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _read(self, at_ms: int) -> _Record | None:
        try:
            found = read_json(self.path)
            if (found["server"], found["ns"]) != (self._server, self._ns):
                return None
            queues = {str(name): _entry(*entry) for name, entry in found["queues"].items()}
            record = _Record(_entry(None, found["at_ms"])[1], queues)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, LookupError, AttributeError):
            return None
        return None if record.at_ms > at_ms + _OVERLAP_MAX_MS else record

    def _write(self, record: _Record) -> None:
        told = {"server": self._server, "ns": self._ns, "at_ms": record.at_ms, "queues": record.queues}
        descriptor, name = tempfile.mkstemp(prefix=self.path.stem, dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                # Names may hold bytes that are no UTF-8: escaped, they come back as they are.
                json.dump(told, file)
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise


if sys.platform != "win32":

    def _lock(descriptor: int) -> None:
        """Lock a file; raises OSError when somebody else holds it for long."""
        give_up_s = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > give_up_s:
                    raise OSError(errno.EAGAIN, "another program has locked it") from None
                time.sleep(_LOCK_STEP_S)


def _entry(totalrecv: Any, since_ms: Any) -> tuple[int | None, int]:
    """Return an entry of the file; raises TypeError or ValueError for what no check has written."""
    if not isinstance(since_ms, int) or not (totalrecv is None or isinstance(totalrecv, int)):
        raise TypeError
    if not 0 <= since_ms <= _LAST_MS:
        raise ValueError
    return totalrecv, since_ms


def _followed(earlier: _Record | None, at_ms: int, queues: Sequence[QueueState]) -> _Record:
    """Return what is known after a look: the clock of a queue runs on while nothing is received from it."""
    known = {} if earlier is None else earlier.queues
    now = _Record(at_ms)
    for queue in queues:
        if queue.ready:
            totalrecv, since_ms = known.get(queue.name, (None, at_ms))
            runs_on = queue.name in known and totalrecv == queue.totalrecv
            now.queues[queue.name] = queue.totalrecv, min(since_ms, at_ms) if runs_on else at_ms
    return now
