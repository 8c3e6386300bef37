"""Reads what a change needs, byte for byte, and applies guarded changes on one server."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio.connection import ConnectionPool

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.connections.connect import TIMEOUT_S
from rsmq_tui.protocol.editing import Batch, EditExecutor
from rsmq_tui.protocol.errors import RsmqError
from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS, Keys, name_bytes
from rsmq_tui.protocol.lists.edits import ListBatch, are_there
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq.edits import EditKind, FieldBatch, LooseBatch, MessageBatch
from rsmq_tui.protocol.rsmq.inspection import QueueInspection, is_queue
from rsmq_tui.protocol.rsmq.operations import Operation, RawMessage, chunked

_FIELDS = tuple(name.encode() for name in ATTRIBUTE_FIELDS)
# Strays may be bodies of half a gigabyte each: names and lengths are read first, then about a megabyte at a time.
_VALUE_BYTES_PER_CALL = 1_000_000


@dataclass(frozen=True, slots=True)
class QueueFields:
    """The raw attributes of a queue, and whether the index names it.

    ``attributes`` holds the fields that exist; ``depth`` is the number of messages.
    """

    attributes: dict[bytes, bytes]
    listed: bool
    depth: int

    @property
    def exists(self) -> bool:
        """True if every client takes it for a queue."""
        return is_queue(self.attributes)


class RsmqEditor(EditExecutor):
    """Changes the queues of ``ns`` on a server. Close it with ``aclose``; raises ValueError for an invalid URL.

    Every method raises redis-py's errors if the server cannot be asked, and ``RsmqError`` for what it refuses.
    """

    def __init__(self, server: Address | str, ns: str = "rsmq", *, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(server, ns, timeout_s=timeout_s)
        self._keys = Keys(ns)

    def within(self, ns: str) -> "RsmqEditor":
        """Return an editor for another namespace that shares the connections of this one."""
        return RsmqEditor.sharing(self, ns)

    @classmethod
    def sharing(cls, other: EditExecutor, ns: str) -> "RsmqEditor":
        """Return an editor of a namespace that shares the connections of another editor."""
        editor = object.__new__(cls)
        editor.share(other, ns)
        editor._keys = Keys(ns)
        return editor

    async def fields(self, queue: str) -> QueueFields:
        """Read a queue's own fields, whether it is in the index, and its depth."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        values, listed, depth = await self._read(
            ("HMGET", attributes, *_FIELDS), ("SISMEMBER", self._keys.index, name_bytes(queue)), ("ZCARD", zset)
        )
        there = {name: value for name, value in zip(_FIELDS, values, strict=True) if value is not None}
        return QueueFields(there, bool(listed), depth)

    async def messages(
        self, queue: str, ids: Sequence[bytes], *, bodies: bool = True
    ) -> tuple[int, list[RawMessage | None]]:
        """Read the server's clock in ms and these messages, None for those that are not in the queue.

        All ``bodies`` come in one reply: ask for no more at a time than the server can copy in a moment.
        """
        if not ids:
            return await self.clock_us() // 1000, []
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        suffixes = (b":rc", b":fr", b"") if bodies else (b":rc", b":fr")
        lengths = () if bodies else (("HSTRLEN", attributes, id) for id in ids)
        clock, values, *rest = await self._read(
            ("TIME",),
            ("HMGET", attributes, *(id + suffix for id in ids for suffix in suffixes)),
            *(("ZSCORE", zset, id) for id in ids),
            *lengths,
        )
        found: list[RawMessage | None] = []
        for number, (id, score) in enumerate(zip(ids, rest, strict=False)):
            rc, fr, *whole = values[len(suffixes) * number : len(suffixes) * (number + 1)]
            body = whole[0] if bodies else None
            size = len(body or b"") if bodies else rest[len(ids) + number]
            found.append(None if score is None else RawMessage(id, score, rc, fr, size, body))
        return clock_ms(clock), found

    async def values(self, queue: str, ids: Sequence[bytes]) -> list[tuple[Any, Any, Any]]:
        """Read each id's raw body, rc and fr, whether it is in the queue or not."""
        if not ids:
            return []
        names = [name for id in ids for name in (id, id + b":rc", id + b":fr")]
        (values,) = await self._read(("HMGET", self._keys.attributes(queue), *names))
        return list(zip(values[::3], values[1::3], values[2::3], strict=True))

    async def stray_fields(self, queue: str) -> AsyncGenerator[dict[bytes, int], None]:
        """Yield the sizes of all fields that are not attributes, each once, a few at a time."""
        inspection = QueueInspection(self._connections.of(self.ns).runner, self._keys)
        attributes = self._keys.attributes(queue)
        async for names in inspection.fields(queue, besides=_FIELDS):
            sizes = await self._read(*(("HSTRLEN", attributes, name) for name in names)) if names else []
            yield dict(zip(names, sizes, strict=True))

    async def field_values(self, queue: str, sizes: Mapping[bytes, int]) -> AsyncIterator[dict[bytes, bytes]]:
        """Read fields of these sizes, about a megabyte at a time; missing fields are left out."""
        for part in chunked(sizes, len(sizes), sizes.__getitem__, _VALUE_BYTES_PER_CALL):
            (values,) = await self._read(("HMGET", self._keys.attributes(queue), *part))
            yield {name: value for name, value in zip(part, values, strict=True) if value is not None}

    async def infer_outcome(self, batch: Batch) -> str:
        """Return what a voided call may have done: an outcome, empty if nothing has changed."""
        accepted = self._accepted(batch)
        try:
            if isinstance(accepted, ListBatch):
                return accepted.traces(await are_there(self._read, self._connections.of(self.ns).runner, accepted))
            return accepted.traces(*await self._read(*accepted.questions(self._keys)))
        except RsmqError:
            # A key has another type now.
            is_put = isinstance(batch, MessageBatch) and batch.kind is EditKind.PUT
            return "" if is_put else Outcome.DONE * batch.size

    def _operation(self, batch: Batch, token: str) -> Operation[str]:
        return self._accepted(batch).operation(self._keys, self._keys.marker(token))

    def _accepted(self, batch: Batch) -> MessageBatch | FieldBatch | LooseBatch | ListBatch:
        """Return the batch; one of a list may move its items to or from an RSMQ queue."""
        if not isinstance(batch, MessageBatch | FieldBatch | LooseBatch | ListBatch):
            raise TypeError(f"cannot apply a {type(batch).__name__}")
        return batch

    def _place(self, token: str) -> tuple[ConnectionPool, bytes]:
        return self._pool, self._keys.marker(token)
