"""Exports messages of RSMQ queues."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from operator import attrgetter

from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.search import search
from rsmq_tui.monitor.peek import read_message
from rsmq_tui.protocol import QueueReader, RawMessage, name_bytes, name_of
from rsmq_tui.protocol.rsmq.editor import QueueEditor
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.protocol.rsmq.pages import BODY_BYTES_MAX
from rsmq_tui.triage.export import Exporting
from rsmq_tui.triage.rsmq.preview import search_due_first
from rsmq_tui.triage.scope import Seeing


class Export(Exporting):
    """Exports the messages of a queue that match a filter; with a ``limit``, those due first, in that order.

    Raises ``PeekError``, and what ``write`` raises.
    """

    def __init__(
        self, reader: QueueReader, queue: str, wanted: Filter, write: Callable[[str], object], limit: int | None = None
    ) -> None:
        super().__init__(write)
        self.depth = 0
        self._reader, self._queue, self._wanted, self._limit = reader, queue, wanted, limit

    async def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        reader, queue, wanted, limit = self._reader, self._queue, self._wanted, self._limit
        parts = search(reader, queue, wanted) if limit is None else search_due_first(reader, queue, wanted, limit)
        async with aclosing(parts) as found:
            async for progress in found:
                for message in progress.messages:
                    await self._take_whole(message, progress.at_ms)
                self.unsearched, self.depth = progress.not_searched, progress.depth
                yield Seeing(progress.scanned, progress.depth, progress.matched)

    async def _take_whole(self, message: RawMessage, at_ms: int) -> None:
        if message.body is None and message.size:
            # Too long for a scan, which reads many bodies at once.
            view = await read_message(self._reader, self._queue, name_of(message.id))
            if view.row is None:
                self.gone += 1
                return
            if view.body is None:
                self.cut += 1
                return
            message = message._replace(body=view.body)
        self._take(message, at_ms)


_CHUNK_MESSAGES = 500
# How much one call may read, unless a single body is longer. A server copies a gigabyte per second.
_CALL_BYTES = 1_000_000


class MarkedExport(Exporting):
    """Exports the messages with these ids; raises what the editor and ``write`` raise."""

    def __init__(self, editor: QueueEditor, queue: str, ids: Sequence[str], write: Callable[[str], object]) -> None:
        super().__init__(write)
        self._editor, self._queue, self._ids = editor, queue, ids

    async def __aiter__(self) -> AsyncGenerator[Seeing, None]:
        for start in range(0, len(self._ids), _CHUNK_MESSAGES):
            ids = [name_bytes(id) for id in self._ids[start : start + _CHUNK_MESSAGES]]
            _, seen = await self._editor.messages(self._queue, ids, bodies=False)
            there = [message for message in seen if message is not None]
            short = [message for message in there if message.size <= BODY_BYTES_MAX]
            self.gone += len(seen) - len(there)
            self.cut += len(there) - len(short)
            for group in chunked(short, _CHUNK_MESSAGES, attrgetter("size"), _CALL_BYTES):
                await self._take_group([message.id for message in group])
                yield self._seeing
            yield self._seeing

    async def _take_group(self, ids: list[bytes]) -> None:
        at_ms, found = await self._editor.messages(self._queue, ids)
        for message in found:
            if message is None:
                self.gone += 1
            else:
                self._take(message, at_ms)

    @property
    def _seeing(self) -> Seeing:
        return Seeing(self.written + self.gone + self.cut, len(self._ids), self.written)
