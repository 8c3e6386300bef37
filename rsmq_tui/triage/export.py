"""Exports messages to a file. Nothing on the server changes."""

import errno
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rsmq_tui.protocol import RawMessage
from rsmq_tui.triage.jsonl import to_line
from rsmq_tui.triage.scope import Seeing


class Exported(NamedTuple):
    """The progress of an export: how many messages were written and left out.

    ``cut`` counts those whose bodies are too long to read, ``gone`` those that left the queue meanwhile, and
    ``unsearched`` those that could not be matched because their bodies are too long. ``is_incomplete`` is True if a
    list changed too fast to read all of it.
    """

    seeing: Seeing
    written: int
    cut: int
    gone: int
    unsearched: int
    is_incomplete: bool = False


class Exporting(ABC):
    """Passes messages as lines to ``write``; iterate over it for its progress.

    ``written``, ``cut``, ``gone``, ``unsearched`` and ``is_incomplete`` are those of ``Exported``. Raises what the
    server, the search and ``write`` raise.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self.written = self.cut = self.gone = self.unsearched = 0
        self.is_incomplete = False
        self._write = write

    @abstractmethod
    def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        """Write the messages, and yield the progress."""

    def exported(self, seeing: Seeing) -> Exported:
        """Return the progress with the counts so far."""
        return Exported(seeing, self.written, self.cut, self.gone, self.unsearched, self.is_incomplete)

    def _take(self, message: RawMessage, at_ms: int) -> None:
        self._write(to_line(message, at_ms) + "\n")
        self.written += 1


@contextmanager
def whole_file(path: Path, *, force: bool = False) -> Iterator[Callable[[str], object]]:
    """Write a file that gets its name only when it is complete; only the user can read it. Raises OSError.

    Raises ``FileExistsError`` if the file exists, at the start or at the end, unless ``force`` is set. Until then the
    text is in a hidden file in the same folder, which is removed after a failure or a cancellation.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced.
        with path.open("w", encoding="ascii") as out:
            yield out.write
        return
    path = path.resolve()
    if not force and path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            yield out.write
            out.flush()
            os.fsync(out.fileno())
        if not force:
            # Fails if another program has created the file meanwhile.
            path.touch(mode=0o600, exist_ok=False)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
