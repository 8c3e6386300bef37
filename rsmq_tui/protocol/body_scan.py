"""Scanning by bodies: the hash that holds them is walked once, and only what was chosen is asked for whole.

For a search that looks at nothing but bodies this takes half of the server's time that a walk through the messages
takes: their bodies come along instead of being fetched. A body stays where it is for as long as its message is there.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from rsmq_tui.protocol.inspected import COUNTER_SUFFIXES
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.messages import RawMessage
from rsmq_tui.protocol.read_scripts import ATTRIBUTE_FIELDS
from rsmq_tui.protocol.running import ScriptRunner, raise_first, raising_nonsense
from rsmq_tui.protocol.scan import fitting, sent
from rsmq_tui.protocol.scan_seen import WINDOW_IDS, Seen
from rsmq_tui.protocol.validation import is_limited

# How many fields a step takes: half of a queue's may be counters. The first is small, as its bodies may be long.
_STEP_FIELDS = 750
_FIRST_STEP_FIELDS = 100
_ATTRIBUTES = frozenset(name.encode() for name in ATTRIBUTE_FIELDS)
# Ids of this length may end as the names of counters do, but theirs are longer.
_ID_LENGTH = 32


class BodyChunk(NamedTuple):
    """Some bodies by id, in no order: ``at_ms`` is the server's time and ``depth`` the queue's when they were read."""

    at_ms: int
    depth: int
    ids: Sequence[bytes]
    bodies: Sequence[bytes]
    is_last: bool


class BodyScan:
    """Scans the bodies of queues of one namespace; raises ``wrongType`` where a key of the queue is something else."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def suits(self, queue: str) -> bool:
        """Tell whether clients keep the queue's bodies short, and its hash may be walked."""
        attributes = self._keys.attributes(queue)
        maxsize, walked = await self._runner.commands(
            ("HGET", attributes, "maxsize"), ("HSCAN", attributes, 0, "COUNT", 1)
        )
        return is_limited(maxsize) and not isinstance(walked, Exception)

    async def chunks(self, queue: str, count: int = _STEP_FIELDS) -> AsyncGenerator[BodyChunk, None]:
        """Yield every body that is there throughout once, and others at most once; a few at a time.

        A body may be that of no message: ``messages`` tells. A step takes about ``count`` fields, fewer where bodies
        are long; a small queue comes whole. The next is under way while the caller works. Close it with ``aclose``.
        """
        seen = Seen(WINDOW_IDS)
        looking: asyncio.Task[tuple[bytes | None, BodyChunk]] | None
        looking = await sent(self._runner, self._look(queue, b"0", min(count, _FIRST_STEP_FIELDS)))
        try:
            while looking is not None:
                cursor, chunk = await looking
                step = fitting(list(map(len, chunk.bodies)), count)
                looking = None if cursor is None else await sent(self._runner, self._look(queue, cursor, step))
                fresh = seen.fresh(chunk.ids, chunk.depth)
                if fresh is not None:
                    ids, bodies = list(compress(chunk.ids, fresh)), list(compress(chunk.bodies, fresh))
                    chunk = chunk._replace(ids=ids, bodies=bodies)
                yield chunk
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)

    @raising_nonsense
    async def messages(self, queue: str, ids: Sequence[bytes], bodies: Sequence[bytes]) -> list[RawMessage]:
        """Return the messages that these bodies are of, with their scores and counts; of no message, none."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        counters = [id + suffix for id in ids for suffix in (b":rc", b":fr")]
        scores, counts = await self._runner.commands(("ZMSCORE", zset, *ids), ("HMGET", attributes, *counters))
        if isinstance(scores, ResponseError) and "WRONGTYPE" not in str(scores):
            # Before Redis 6.2, or not allowed.
            scores = await self._ask(*(("ZSCORE", zset, id) for id in ids))
        raise_first((scores, counts))
        rows = zip(ids, scores, counts[::2], counts[1::2], bodies, strict=True)
        return [RawMessage(id, score, rc, fr, len(body), body) for id, score, rc, fr, body in rows if score is not None]

    @raising_nonsense
    async def _look(self, queue: str, cursor: bytes, step: int) -> tuple[bytes | None, BodyChunk]:
        """Take a step from the cursor, and return where to go on and what is there."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        time, depth, (following, found) = await self._ask(
            ("TIME",), ("ZCARD", zset), ("HSCAN", attributes, cursor, "COUNT", step)
        )
        names, values = found[::2], found[1::2]
        if len(names) != len(values):
            raise ValueError("columns of different lengths")
        if _ATTRIBUTES.isdisjoint(names):
            are_bodies = [len(name) == _ID_LENGTH or not name.endswith(COUNTER_SUFFIXES) for name in names]
        else:
            are_bodies = [_is_id(name) for name in names]
        ids, bodies = list(compress(names, are_bodies)), list(compress(values, are_bodies))
        at_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        is_last = int(following) == 0
        return None if is_last else following, BodyChunk(at_ms, depth, ids, bodies, is_last)

    async def _ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        replies = await self._runner.commands(*commands)
        raise_first(replies)
        return replies


def _is_id(name: bytes) -> bool:
    return name not in _ATTRIBUTES and (len(name) == _ID_LENGTH or not name.endswith(COUNTER_SUFFIXES))
