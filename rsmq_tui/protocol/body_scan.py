"""Scanning by bodies: the hash that holds them is walked once, and only what was chosen is asked for whole.

For a search that looks at nothing but bodies this takes half of the server's time that a walk through the messages
takes: their bodies come along instead of being fetched. A body stays where it is for as long as its message is there.
Where ``maxsize`` says that bodies are short they are read without being measured; a step that is long all the same is
not read to its end, but measured and read again without what is long.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from rsmq_tui.protocol.inspected import COUNTER_SUFFIXES
from rsmq_tui.protocol.keys import QUEUE_FIELDS, Keys
from rsmq_tui.protocol.messages import RawMessage
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.reply_limits import ReplyTooLongError, replies_of_at_most
from rsmq_tui.protocol.running import ScriptRunner, raise_first
from rsmq_tui.protocol.scan import UNMEASURED_BYTES_MAX, bounded_values, fitting, refuse_long, sent
from rsmq_tui.protocol.scan_seen import WINDOW_IDS, Seen
from rsmq_tui.protocol.validation import is_limited

# How many fields a step takes: half of a queue's may be counters. The first is small, as its bodies may be long.
_STEP_FIELDS = 750
_FIRST_STEP_FIELDS = 100
# Ids of this length may end as the names of counters do, but theirs are longer.
_ID_LENGTH = 32


class BodyChunk(NamedTuple):
    """Some bodies by id, in no order: ``at_ms`` is the server's time and ``depth`` the queue's when they were read.

    ``too_long`` are the ids of bodies that are longer than SCAN_BODY_BYTES, which are not read.
    """

    at_ms: int
    depth: int
    ids: Sequence[bytes]
    bodies: Sequence[bytes]
    is_last: bool
    too_long: Sequence[bytes] = ()


class BodyScan:
    """Scans the bodies of queues of one namespace; raises ``wrongType`` where a key of the queue is something else."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def suits(self, queue: str) -> bool:
        """Tell whether its hash may be walked, and its bodies are short if its clients heed ``maxsize``."""
        attributes = self._keys.attributes(queue)
        maxsize, walked = await self._runner.commands(
            ("HGET", attributes, "maxsize"), ("HSCAN", attributes, 0, "COUNT", 1, "NOVALUES")
        )
        return is_limited(maxsize) and not isinstance(walked, Exception)

    async def chunks(self, queue: str, count: int = _STEP_FIELDS) -> AsyncGenerator[BodyChunk, None]:
        """Yield every body that is there throughout once, and others at most once; a few at a time.

        A body may be that of no message: ``messages`` tells. A step takes about ``count`` fields, fewer where bodies
        are long; a small queue comes whole. The next is under way while the caller works. Close it with ``aclose``.
        """
        seen = Seen(WINDOW_IDS)
        looking: asyncio.Task[tuple[bytes, BodyChunk]] | None = None
        try:
            looking = await sent(self._runner, self._look(queue, b"0", min(count, _FIRST_STEP_FIELDS)))
            while looking is not None:
                cursor, chunk = await looking
                looking = None
                if not chunk.is_last:
                    step = fitting(list(map(len, chunk.bodies)), count)
                    looking = await sent(self._runner, self._look(queue, cursor, step))
                fresh = seen.fresh(chunk.ids, chunk.depth)
                if fresh is not None:
                    ids, bodies = list(compress(chunk.ids, fresh)), list(compress(chunk.bodies, fresh))
                    chunk = chunk._replace(ids=ids, bodies=bodies)
                yield chunk
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)

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

    async def _look(self, queue: str, first: bytes, fields: int) -> tuple[bytes, BodyChunk]:
        """Take a step from a cursor, and return where to go on and what is there."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        scan: list[bytes | str | int] = ["HSCAN", attributes, first, "COUNT", fields]
        too_long: list[bytes] = []
        try:
            with replies_of_at_most(UNMEASURED_BYTES_MAX):
                clock, depth, (cursor, found) = await self._ask(("TIME",), ("ZCARD", zset), scan)
            ids, bodies = _bodies(found[::2], found[1::2])
            refuse_long(bodies)
        except ReplyTooLongError:
            clock, depth, (cursor, names) = await self._ask(("TIME",), ("ZCARD", zset), (*scan, "NOVALUES"))
            values = await bounded_values(self._runner, attributes, names)
            too_long = [name for name, value in zip(names, values, strict=True) if isinstance(value, int)]
            read = {name: value for name, value in zip(names, values, strict=True) if isinstance(value, bytes)}
            ids, bodies = _bodies(list(read), list(read.values()))
        chunk = BodyChunk(clock_ms(clock), depth, ids, bodies, int(cursor) == 0, [*filter(_is_id, too_long)])
        return cursor, chunk

    async def _ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        replies = await self._runner.commands(*commands)
        raise_first(replies)
        return replies


def _is_id(name: bytes) -> bool:
    return name not in QUEUE_FIELDS and (len(name) == _ID_LENGTH or not name.endswith(COUNTER_SUFFIXES))


def _bodies(names: Sequence[bytes], values: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the ids and the bodies among fields: the others are attributes and counters."""
    if len(names) != len(values):
        raise ValueError("columns of different lengths")
    if QUEUE_FIELDS.isdisjoint(names):
        are_bodies = [len(name) == _ID_LENGTH or not name.endswith(COUNTER_SUFFIXES) for name in names]
    else:
        are_bodies = [_is_id(name) for name in names]
    return list(compress(names, are_bodies)), list(compress(values, are_bodies))
