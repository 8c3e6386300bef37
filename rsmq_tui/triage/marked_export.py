"""Exporting messages that were marked, as they are now; nothing on the server changes."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from rsmq_tui.protocol import RawMessage, name_bytes
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.pages import BODY_BYTES_MAX
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.transfer import to_line

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
