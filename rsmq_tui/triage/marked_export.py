"""Exporting messages that were marked, as they are now; nothing on the server changes."""

from collections.abc import AsyncGenerator, Callable, Sequence

from rsmq_tui.protocol import name_bytes
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.transfer import to_line

_CHUNK_MESSAGES = 50


class MarkedExport:
    """Hands these messages of a queue, as lines, to ``write``; iterate over it for its progress.

    ``written`` counts lines; those that have left the queue are left out. Raises what the editor and ``write`` raise.
    """

    def __init__(self, editor: QueueEditor, queue: str, ids: Sequence[str], write: Callable[[str], object]) -> None:
        self.written = self.cut = self.unsearched = 0
        self._editor, self._queue, self._ids = editor, queue, ids
        self._write = write

    async def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        for start in range(0, len(self._ids), _CHUNK_MESSAGES):
            ids = [name_bytes(id) for id in self._ids[start : start + _CHUNK_MESSAGES]]
            at_ms, found = await self._editor.messages(self._queue, ids)
            for message in found:
                if message is not None:
                    self._write(to_line(message, at_ms) + "\n")
                    self.written += 1
            yield Seeing(start + len(ids), len(self._ids), self.written)
