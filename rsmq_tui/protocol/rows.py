"""Reading all queues at once: the clock, and the index if it changed, in one round trip; then the queues in chunks.

Only what changed since the last poll is read, as far as the server tells (see ``tracked``); else everything is.
Measured on two cores over loopback: a chunk of 250 queues holds the server for about 2 ms. Where scripts are refused
the same rows are read by a pipeline of plain commands.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from redis.exceptions import ResponseError

from rsmq_tui.protocol import read_scripts
from rsmq_tui.protocol.keys import Keys, name_of
from rsmq_tui.protocol.known import KnownQueues
from rsmq_tui.protocol.operations import leading_int
from rsmq_tui.protocol.read_scripts import ATTRIBUTE_FIELDS, MICROSECONDS_FROM, RC_MAX, SECONDS_BELOW, Row
from rsmq_tui.protocol.running import ScriptRunner, ScriptsRefusedError, raising_nonsense
from rsmq_tui.protocol.tracked import TrackedConnection

CHUNK_QUEUES = 250
CHUNKS_PER_TRIP = 2
TRIPS_IN_FLIGHT = 3
# An index of up to so many names is read in every poll, changed or not: it costs nothing, and a permission that was
# taken away shows at once.
_SHORT_INDEX = 250


@dataclass(frozen=True, slots=True)
class Index:
    """The names in a namespace at one moment: ``at_ms`` is the server's clock, ``problem`` why they cannot be read."""

    at_ms: int
    names: tuple[str, ...]
    problem: str | None = None


class QueueRows:
    """Reads the rows of every queue of one namespace.

    A poll is ``index``, then ``rows``; polls may not overlap.
    """

    def __init__(self, connection: TrackedConnection, runner: ScriptRunner, keys: Keys) -> None:
        self._connection = connection
        self._runner = runner
        self._keys = keys
        self._known = KnownQueues(keys)
        self._epoch: int | None = None
        self._index_known = False

    @raising_nonsense
    async def index(self) -> Index:
        """Read the names, sorted, and the clock; raises redis-py's errors when the server cannot be read."""
        read_names = ("SMEMBERS", self._keys.index)
        asked_at_once = not self._index_known
        clock, *members = await self._connection.begin(("TIME",), *([read_names] if asked_at_once else []))
        if isinstance(clock, Exception):
            raise clock
        at_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000
        self._forget_what_changed()
        if not members and not self._index_known:
            members = await self._connection.commands(read_names)
        for found in members:
            self._index_known = False
            if isinstance(found, ResponseError) and "WRONGTYPE" in str(found):
                self._known.keep(frozenset())
                return Index(at_ms, (), f"{name_of(self._keys.index)} is not a set of names: {found}")
            if isinstance(found, Exception):
                raise found
            self._known.keep(frozenset(found))
            self._index_known = self._connection.tracks and len(found) > _SHORT_INDEX
        return Index(at_ms, self._known.names)

    async def rows(self, now_ms: int) -> AsyncGenerator[tuple[Sequence[str], list[Row]]]:
        """Give the rows of the names last read by ``index``, in their order, as they come.

        A few round trips are under way at once, so that the server works while the caller reads what came. A row that
        did not change is the same object as before.
        """
        known = self._known
        trips = _split(known.to_ask(now_ms), CHUNK_QUEUES * CHUNKS_PER_TRIP)
        pending: deque[tuple[list[int], asyncio.Task[list[Row]]]] = deque()
        start = 0
        try:
            for trip in islice(trips, TRIPS_IN_FLIGHT):
                pending.append((trip, asyncio.create_task(self._trip(trip, now_ms))))
            while pending:
                asked, coming = pending[0]
                reply = await coming
                pending.popleft()
                for trip in islice(trips, 1):
                    pending.append((trip, asyncio.create_task(self._trip(trip, now_ms))))
                    # The question goes out before this answer is read: else the server and we would take turns.
                    await asyncio.sleep(0)
                await self._take(asked, reply, now_ms)
                end = asked[-1] + 1 if pending else len(known.names)
                yield known.names[start:end], known.rows[start:end]
                start = end
            if start < len(known.names):
                yield known.names[start:], known.rows[start:]
        finally:
            for _, task in pending:
                task.cancel()
            await asyncio.gather(*(task for _, task in pending), return_exceptions=True)

    @raising_nonsense
    async def receive_counts(self, names: Sequence[str], now_ms: int, threshold: int, span: int) -> list[list[int]]:
        """For each queue, look at up to ``2 * span`` messages around the first hidden one.

        Returns for each: how many were looked at, how many have ``rc >= threshold``, the highest ``rc``.
        """
        keys = [key for name in names for key in (self._keys.messages(name), self._keys.attributes(name))]
        try:
            reply = await self._runner.run(read_scripts.RECEIVE_COUNTS, keys, (now_ms, threshold, span))
        except ScriptsRefusedError:
            return [await self._receive_counts_plainly(name, now_ms, threshold, span) for name in names]
        return [
            [int(looked), int(poison), int(highest)] for _, (looked, poison, highest) in zip(names, reply, strict=True)
        ]

    def _forget_what_changed(self) -> None:
        connection = self._connection
        changed = connection.take_changed()
        all_may_have = self._epoch != connection.epoch or not connection.tracks
        self._epoch = connection.epoch
        if all_may_have or self._keys.index in changed or self._known.begins_anew:
            self._index_known = False
        if all_may_have or self._runner.refused:
            # Plain commands go over connections on which nothing is told.
            self._known.forget()
        self._known.mark_changed(changed)

    @raising_nonsense
    async def _trip(self, asked: list[int], now_ms: int) -> list[Row]:
        chunks = [self._known.keys_of(chunk) for chunk in _split(asked, CHUNK_QUEUES)]
        try:
            replies = await self._runner.run_many(
                read_scripts.QUEUE_ROWS, [(keys, (now_ms,)) for keys in chunks], self._connection.commands
            )
        except ScriptsRefusedError:
            return [row for keys in chunks for row in await self._chunk_plainly(keys, now_ms)]
        return [row for reply in replies for row in reply]

    @raising_nonsense
    async def _take(self, asked: list[int], reply: list[Row], now_ms: int) -> None:
        untold = self._known.take(asked, reply, now_ms)
        if untold and self._connection.changed.isdisjoint(untold):
            self._connection.distrust()

    async def _chunk_plainly(self, keys: list[bytes], now_ms: int) -> list[Row]:
        commands: list[Sequence[bytes | str | int]] = []
        for zset, attributes in zip(keys[::2], keys[1::2], strict=True):
            commands += (
                ("HMGET", attributes, *ATTRIBUTE_FIELDS),
                ("ZCARD", zset),
                ("ZRANGE", zset, 0, 0, "WITHSCORES"),
                ("ZCOUNT", zset, f"({now_ms}", "+inf"),
            )
        replies = await self._runner.commands(*commands)
        rows = []
        for number, zset in enumerate(keys[::2]):
            fields, depth, head, hidden = (_as_data(reply) for reply in replies[4 * number : 4 * number + 4])
            if error := next((reply for reply in (depth, head, hidden) if isinstance(reply, bytes)), None):
                rows.append([fields, error])
                continue
            # Other clients work between these commands: what they say need not agree.
            if not head or not depth:
                rows.append([fields, 0])
                continue
            if not SECONDS_BELOW <= float(head[1]) < MICROSECONDS_FROM:
                hidden = await self._hidden_in_other_units(zset, now_ms)
            rows.append([fields, depth, head[0], head[1], min(hidden, depth)])
        return rows

    async def _hidden_in_other_units(self, zset: bytes, now_ms: int) -> int:
        counts = await self._runner.commands(
            ("ZCOUNT", zset, f"({now_ms // 1000}", f"({SECONDS_BELOW}"),
            ("ZCOUNT", zset, f"({now_ms}", f"({MICROSECONDS_FROM}"),
            ("ZCOUNT", zset, f"({now_ms}000", "+inf"),
        )
        return sum(count for count in counts if isinstance(count, int))

    async def _receive_counts_plainly(self, name: str, now_ms: int, threshold: int, span: int) -> list[int]:
        zset, attributes = self._keys.messages(name), self._keys.attributes(name)
        (ready,) = await self._runner.commands(("ZCOUNT", zset, "-inf", now_ms))
        if not isinstance(ready, int):
            return [0, 0, 0]
        (ids,) = await self._runner.commands(("ZRANGE", zset, max(0, ready - span), ready + span - 1))
        if not isinstance(ids, list) or not ids:
            return [0, 0, 0]
        (raw,) = await self._runner.commands(("HMGET", attributes, *(value + b":rc" for value in ids)))
        if isinstance(raw, Exception):
            return [0, 0, 0]
        counts = [min(leading_int(value) or 0, RC_MAX) for value in raw]
        return [len(ids), sum(1 for count in counts if count >= threshold), max(0, *counts)]


def _as_data(reply: Any) -> Any:
    """Turn a command's error into its text, as the script does; what no row can explain is raised."""
    if isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply):
        return str(reply).encode()
    if isinstance(reply, Exception):
        raise reply
    return reply


def _split(items: Sequence[Any], size: int) -> Iterator[Any]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
