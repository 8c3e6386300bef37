"""Exports messages, selected or marked, to a file. Nothing on the server changes."""

import errno
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import NamedTuple

from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.search import search
from rsmq_tui.monitor.peek import read_message
from rsmq_tui.protocol import QueueReader, RawMessage, name_bytes, name_of
from rsmq_tui.protocol.rsmq.editor import QueueEditor
from rsmq_tui.protocol.rsmq.pages import BODY_BYTES_MAX
from rsmq_tui.triage.jsonl import to_line
from rsmq_tui.triage.preview import Seeing, search_due_first


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


_CHUNK_MESSAGES = 500
# How much one call may read, but for a single body that is longer: a server copies a gigabyte a second.
_CALL_BYTES = 1_000_000


class MarkedExport:
    """Hands these messages of a queue, as lines, to ``write``; iterate over it for its progress.

    ``written`` counts lines, ``gone`` messages that have left the queue, and ``cut`` those whose bodies are too long to
    be read; both are left out. Raises what the editor and ``write`` raise.
    """

    is_incomplete = False

    def __init__(self, editor: QueueEditor, queue: str, ids: Sequence[str], write: Callable[[str], object]) -> None:
        self.written = self.cut = self.gone = self.unsearched = 0
        self._editor, self._queue, self._ids = editor, queue, ids
        self._write = write

    async def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        for start in range(0, len(self._ids), _CHUNK_MESSAGES):
            ids = [name_bytes(id) for id in self._ids[start : start + _CHUNK_MESSAGES]]
            _, seen = await self._editor.seen(self._queue, ids)
            there = [message for message in seen if message is not None]
            short = [message for message in there if message.size <= BODY_BYTES_MAX]
            self.gone += len(seen) - len(there)
            self.cut += len(there) - len(short)
            for group in _groups(short):
                await self._take(group)
                yield self._seeing
            yield self._seeing

    async def _take(self, ids: list[bytes]) -> None:
        at_ms, found = await self._editor.messages(self._queue, ids)
        for message in found:
            if message is None:
                self.gone += 1
                continue
            self._write(to_line(message, at_ms) + "\n")
            self.written += 1

    @property
    def _seeing(self) -> Seeing:
        return Seeing(self.written + self.gone + self.cut, len(self._ids), self.written)


def _groups(messages: Sequence[RawMessage]) -> Iterator[list[bytes]]:
    """Split messages into the ids of those whose bodies one call may read."""
    ids: list[bytes] = []
    heavy = 0
    for message in messages:
        if ids and heavy + message.size > _CALL_BYTES:
            yield ids
            ids, heavy = [], 0
        ids.append(message.id)
        heavy += message.size
    if ids:
        yield ids
