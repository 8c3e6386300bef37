"""Carrying out guarded changes of list queues on one server, and reading what they will change byte for byte."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from redis.asyncio import Redis

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.batches import Batch
from rsmq_tui.protocol.carrying import Carrier
from rsmq_tui.protocol.connection import TIMEOUT_S
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.errors import RsmqError
from rsmq_tui.protocol.keys import Keys, name_bytes, name_of
from rsmq_tui.protocol.lists.edits import EDGE, ListBatch, sha_of
from rsmq_tui.protocol.lists.item_places import are_there, in_order, is_left, key_of, range_of
from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames
from rsmq_tui.protocol.operations import Operation
from rsmq_tui.protocol.running import raising_nonsense

# Leases are read so many at a time: a call takes some ms.
_LEASES_PER_CALL = 5_000
_TOKEN_CHARS = 22
# So many items are read by the first call, and how many and about how much by others.
_STEP, _STEP_GROWS, _STEP_MOST = 8, 8, 4_096
_STEP_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class ListFacts:
    """How many items lie in a list queue, how many are in processing, and how many leases there are."""

    ready: int
    processing: int
    leases: int

    @property
    def depth(self) -> int:
        """All of its items."""
        return self.ready + self.processing


class ListEditor(Carrier):
    """Changes the list queues of a server, whose keys ``names`` tells. Close it with ``aclose``.

    Every method raises redis-py's errors when the server cannot be asked, and ``RsmqError`` for what it refuses.
    """

    # Positions tell items apart: what goes away shifts those behind it.
    in_order = True

    def __init__(self, server: Address | str, names: ListNames, *, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(server, LISTS_NS, timeout_s=timeout_s)
        self.names = names
        self._step = _STEP

    @classmethod
    def beside(cls, other: Carrier, names: ListNames) -> "ListEditor":
        """Return an editor that shares the connections of another one."""
        editor = object.__new__(cls)
        editor.share(other, LISTS_NS)
        editor.names, editor._step = names, _STEP
        return editor

    def at(self, queue: str) -> "ListEditor":
        """Return an editor for a queue, which in a cluster is on one of many servers."""
        editor = ListEditor.beside(self, self.names)
        editor._client = self._client_of(queue)
        return editor

    def new_token(self, batch: Batch | None = None) -> str:
        """Return a name for a call; it is also the key, in ASCII, under which the outcome will be."""
        if not isinstance(batch, ListBatch):
            raise TypeError("a batch of something else than list queues")
        token = secrets.token_hex(12)
        if batch.ns is not None and batch.target is None:
            return quote_from_bytes(Keys(batch.ns).marker(token))
        return quote_from_bytes(batch.names.marker(self._home_of(batch), token))

    @raising_nonsense
    async def facts(self, queue: str) -> ListFacts:
        """Count what a queue holds; raises ``wrongType`` where one of its keys is something else."""
        names = self.names
        ready, processing, leases = await self._ask(
            queue,
            ("LLEN", name_bytes(queue)),
            ("LLEN", names.processing_key(queue)),
            ("ZCARD", names.leases_key(queue)),
        )
        return ListFacts(ready, processing, leases)

    @raising_nonsense
    async def items(self, queue: str, area: str, first: int, last: int) -> list[bytes]:
        """Read what lies at these positions, as far as there is anything, in calls that each take a moment.

        Nothing tells how long items are before they are read: it begins with a few, from the last position on. What is
        taken meanwhile may then be given twice, and nothing is passed over.
        """
        (length,) = await self._ask(queue, ("LLEN", key_of(self.names, queue, area)))
        parts: list[list[bytes]] = []
        stop = min(last, length - 1)
        while stop >= first:
            start = max(first, stop - self._step + 1)
            (found,) = await self._ask(queue, range_of(self.names, queue, area, start, stop))
            parts.append(in_order(self.names, area, found))
            longest = max(map(len, found), default=0)
            self._step = max(1, min(_STEP_MOST, self._step * _STEP_GROWS, _STEP_BYTES // max(1, longest)))
            stop = start - 1
        return list(chain.from_iterable(reversed(parts)))

    @raising_nonsense
    async def items_at(self, queue: str, area: str, positions: Sequence[int]) -> list[bytes | None]:
        """Read one item at each of these positions, None where there is none."""
        key = key_of(self.names, queue, area)
        places = [place if is_left(self.names, area) else -1 - place for place in positions]
        return await self._ask(queue, *(("LINDEX", key, place) for place in places)) if places else []

    @raising_nonsense
    async def shas_before(self, queue: str, positions: Sequence[int]) -> list[bytes]:
        """Return for each position the SHA1 of the item before it, ``EDGE`` for the first, empty where none is."""
        behind = [position - 1 for position in positions if position > 0]
        found = dict(zip(behind, await self.items_at(queue, "q", behind), strict=True))
        told = []
        for position in positions:
            item = found.get(position - 1)
            told.append(EDGE if position == 0 else b"" if item is None else sha_of(item).encode())
        return told

    @raising_nonsense
    async def leases(self, queue: str) -> dict[bytes, list[tuple[bytes, bytes]]]:
        """Read all leases of a queue: for each item's bytes the tokens and deadlines, the earliest first."""
        key, start = self.names.leases_key(queue), 0
        found: dict[bytes, list[tuple[bytes, bytes]]] = {}
        while True:
            (part,) = await self._ask(queue, ("ZRANGE", key, start, start + _LEASES_PER_CALL - 1, "WITHSCORES"))
            # Pairs of RESP 3, or all in a row.
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

    @raising_nonsense
    async def look(self, batch: Batch) -> str:
        """Return what a void call may have done before: an outcome, empty when all is as it was."""
        if not isinstance(batch, ListBatch):
            return await QueueEditor.beside(self, self.ns).look(batch)
        try:
            there = await are_there(lambda *commands: self._ask(self._home_of(batch), *commands), batch)
        except RsmqError:
            return ""
        return batch.traces(there)

    def _operation(self, batch: Batch, token: str) -> Operation[str]:
        if not isinstance(batch, ListBatch):
            raise TypeError("a batch of something else than list queues")
        return batch.operation(None, self._place(token)[1])

    def _place(self, token: str) -> tuple[Redis, bytes]:
        marker = unquote_to_bytes(token)
        return self._client_of(name_of(marker)), marker

    def _client_of(self, queue: str) -> Redis:
        # In a cluster the server is found by a hash tag; a key without one is in the slot that it would be in as a tag.
        return self._links.of(queue if "{" in queue else "{" + queue + "}").client

    async def _ask(self, queue: str, *commands: Sequence[bytes | str | int]) -> list[Any]:
        return await self._read(*commands, client=self._client_of(queue))

    @staticmethod
    def _home_of(batch: ListBatch) -> str:
        return batch.queue if batch.ns is None else batch.target or batch.queue


def editor_of(editor: Carrier, ns: str, names: ListNames | None = None) -> Carrier:
    """Return what changes a namespace, or list queues where it stands for these, over the connections of an editor."""
    if ns == LISTS_NS:
        known = editor.names if isinstance(editor, ListEditor) else ListNames()
        return ListEditor.beside(editor, names or known)
    return QueueEditor.beside(editor, ns)
