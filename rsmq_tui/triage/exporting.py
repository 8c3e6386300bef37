"""Exporting: a queue's messages, or those that match, as lines of JSON; nothing on the server changes."""

import errno
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import NamedTuple

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.peek import read_message
from rsmq_tui.monitor.search import search
from rsmq_tui.protocol import QueueReader, RawMessage, name_of
from rsmq_tui.triage.due_first import search_due_first
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.transfer import to_line


class Exported(NamedTuple):
    """How far an export has come: how many messages it has written, and how many it has left out.

    ``cut`` counts those whose bodies are too long to be read, ``gone`` those that left the queue meanwhile, and
    ``unsearched`` those that could not be matched because their bodies are too long. ``is_incomplete`` says that a list
    changed too fast to read all of it.
    """

    seeing: Seeing
    written: int
    cut: int
    gone: int
    unsearched: int
    is_incomplete: bool = False


class Export:
    """Hands every message of a queue that matches, as a line, to ``write``; iterate over it for its progress.

    With a ``limit`` these are the ones that are due first, in this order.

    ``written`` counts lines, ``cut`` messages that were left out because even alone their bodies are too long to read,
    ``gone`` those that left the queue before they were read, and ``unsearched`` those that could not be matched. Raises
    ``PeekError``, and what ``write`` raises.
    """

    is_incomplete = False

    def __init__(
        self, reader: QueueReader, queue: str, wanted: Filter, write: Callable[[str], object], limit: int | None = None
    ) -> None:
        self.written = self.cut = self.gone = self.unsearched = self.depth = 0
        self._reader, self._queue, self._wanted, self._limit = reader, queue, wanted, limit
        self._write = write

    async def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        reader, queue, wanted, limit = self._reader, self._queue, self._wanted, self._limit
        parts = search(reader, queue, wanted) if limit is None else search_due_first(reader, queue, wanted, limit)
        async with aclosing(parts) as found:
            async for progress in found:
                for message in progress.messages:
                    await self._take(message, progress.at_ms)
                self.unsearched, self.depth = progress.not_searched, progress.depth
                yield Seeing(progress.scanned, progress.depth, progress.matched)

    async def _take(self, message: RawMessage, at_ms: int) -> None:
        if message.body is None and message.size:
            # Too long for a scan, which reads many at once.
            view = await read_message(self._reader, self._queue, name_of(message.id))
            if view.row is None:
                self.gone += 1
                return
            if view.body is None:
                self.cut += 1
                return
            message = message._replace(body=view.body)
        self._write(to_line(message, at_ms) + "\n")
        self.written += 1


@contextmanager
def whole_file(path: Path, *, force: bool = False) -> Iterator[Callable[[str], object]]:
    """Write a file that has its name only when it is whole, readable by nobody else; raises OSError.

    Raises ``FileExistsError`` for a file that is there, now or at the end, unless ``force`` says to replace it. Until
    then the text is in a hidden file in the same folder, of which nothing stays after a failure or a cancel.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device: nothing to put in the place of it.
        with path.open("w", encoding="ascii") as out:
            yield out.write
        return
    path = path.resolve()
    if not force:
        _refuse_if_there(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            yield out.write
            out.flush()
            os.fsync(out.fileno())
        if not force:
            # Who else makes a file of that name meanwhile keeps it.
            path.touch(mode=0o600, exist_ok=False)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _refuse_if_there(path: Path) -> None:
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
