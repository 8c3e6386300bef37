"""Reads what a change of a list queue needs, byte for byte, and applies guarded changes on one server."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from redis.asyncio.connection import ConnectionPool

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.connections.connect import TIMEOUT_S
from rsmq_tui.protocol.connections.pool import ServerConnection
from rsmq_tui.protocol.editing import Batch, EditExecutor
from rsmq_tui.protocol.errors import RsmqError
from rsmq_tui.protocol.keys import Keys, name_bytes, name_of
from rsmq_tui.protocol.lists.edits import ListBatch, are_there
from rsmq_tui.protocol.lists.naming import LISTS_NS, Area, ListNames
from rsmq_tui.protocol.lists.pages import ListRanges, Range, sha_of
from rsmq_tui.protocol.lists.scan import ListWalk, whole_walk
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.operations import Operation

# Leases read per call, which takes a few ms.
_LEASES_PER_CALL = 5_000
_TOKEN_CHARS = 22


@dataclass(frozen=True, slots=True)
class ListFacts:
    """The numbers of ready items, of items in processing, and of leases of a list queue."""

    ready: int
    processing: int
    leases: int

    @property
    def depth(self) -> int:
        """All of its items."""
        return self.ready + self.processing


class ListEditor(EditExecutor):
    """Changes the list queues of a server; ``names`` defines their keys. Close it with ``aclose``.

    Every method raises redis-py's errors if the server cannot be asked, and ``RsmqError`` for what it refuses.
    """

    def __init__(self, server: Address | str, names: ListNames, *, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(server, LISTS_NS, timeout_s=timeout_s)
        self.names = names

    @classmethod
    def sharing(cls, other: EditExecutor, ns: str) -> "ListEditor":
        """Return an editor that shares the connections of another one, and its names if it has them."""
        return cls.beside(other, other.names if isinstance(other, ListEditor) else ListNames())

    @classmethod
    def beside(cls, other: EditExecutor, names: ListNames) -> "ListEditor":
        """Return an editor that shares the connections of another one."""
        editor = object.__new__(cls)
        editor.share(other, LISTS_NS)
        editor.names = names
        return editor

    def at(self, queue: str) -> "ListEditor":
        """Return an editor for a queue, which in a cluster is on one of many servers."""
        editor = ListEditor.beside(self, self.names)
        editor._pool = self._pool_of(queue)
        return editor

    def new_token(self, batch: Batch | None = None) -> str:
        """Return a new token for a call: the quoted key of its marker."""
        if not isinstance(batch, ListBatch):
            raise TypeError(f"cannot apply a {type(batch).__name__}")
        token = secrets.token_hex(12)
        if batch.ns is not None and batch.target is None:
            return quote_from_bytes(Keys(batch.ns).marker(token))
        return quote_from_bytes(batch.names.marker(self._home_of(batch), token))

    async def facts(self, queue: str) -> ListFacts:
        """Count what a queue holds; raises ``wrongType`` if one of its keys has another type."""
        names = self.names
        ready, processing, leases = await self._ask(
            queue,
            ("LLEN", name_bytes(queue)),
            ("LLEN", names.processing_key(queue)),
            ("ZCARD", names.leases_key(queue)),
        )
        return ListFacts(ready, processing, leases)

    def walk(self, queue: str, area: Area, first: int | None = None, last: int = 0) -> ListWalk:
        """Return a walk through the queue or the processing list that reads whole items, however long."""
        return whole_walk(self._link_of(queue).runner, self.names, queue, area, first, last)

    async def newest(self, queue: str) -> tuple[int, bytes]:
        """Return how many items the queue holds, and the SHA1 of the one that was pushed last, empty for none."""
        ranges = ListRanges(self._link_of(queue).runner, self.names, queue)
        now = await ranges.read(Range("queue", False, 0, 0), whole_bytes=0)
        return now.ready, bytes.fromhex(sha_of(now.items[0][0])) if now.items[0] else b""

    async def leases(self, queue: str) -> dict[bytes, list[tuple[bytes, bytes]]]:
        """Read all leases of a queue: for each item's bytes the tokens and deadlines, the earliest first."""
        key, start = self.names.leases_key(queue), 0
        found: dict[bytes, list[tuple[bytes, bytes]]] = {}
        while True:
            (part,) = await self._ask(queue, ("ZRANGE", key, start, start + _LEASES_PER_CALL - 1, "WITHSCORES"))
            # A list of pairs in RESP3, a flat list in RESP2.
            pairs = (
                part if part and isinstance(part[0], list | tuple) else list(zip(part[::2], part[1::2], strict=True))
            )
            for member, score in pairs:
                if member[_TOKEN_CHARS : _TOKEN_CHARS + 1] == b":":
                    deadline = score if isinstance(score, bytes) else repr(score).removesuffix(".0").encode()
                    found.setdefault(member[_TOKEN_CHARS + 1 :], []).append((member[:_TOKEN_CHARS], deadline))
            if len(pairs) < _LEASES_PER_CALL:
                return found
            start += _LEASES_PER_CALL

    async def infer_outcome(self, batch: Batch) -> str:
        """Return what a voided call may have done: an outcome, empty if nothing has changed."""
        if not isinstance(batch, ListBatch):
            return await RsmqEditor.sharing(self, self.ns).infer_outcome(batch)
        try:
            home = self._home_of(batch)
            return batch.traces(await are_there(partial(self._ask, home), self._link_of(home).runner, batch))
        except RsmqError:
            return ""

    def _operation(self, batch: Batch, token: str) -> Operation[str]:
        if not isinstance(batch, ListBatch):
            raise TypeError(f"cannot apply a {type(batch).__name__}")
        return batch.operation(None, self._place(token)[1])

    def _place(self, token: str) -> tuple[ConnectionPool, bytes]:
        marker = unquote_to_bytes(token)
        return self._pool_of(name_of(marker)), marker

    def _pool_of(self, queue: str) -> ConnectionPool:
        return self._link_of(queue).pool

    def _link_of(self, queue: str) -> ServerConnection:
        # A cluster's node is found by hash tag; a key without one is in the same slot as if it were the tag.
        return self._connections.of(queue if "{" in queue else "{" + queue + "}")

    async def _ask(self, queue: str, *commands: Sequence[bytes | str | int]) -> list[Any]:
        return await self._read(*commands, pool=self._pool_of(queue))

    @staticmethod
    def _home_of(batch: ListBatch) -> str:
        return batch.queue if batch.ns is None else batch.target or batch.queue
