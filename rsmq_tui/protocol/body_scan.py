"""Scanning by bodies: the hash that holds them is walked once, and only what was chosen is asked for whole.

For a search that looks at nothing but bodies this takes half of the server's time that a walk through the messages
takes: their bodies come along instead of being fetched. A body stays where it is for as long as its message is there.
The server says how much a step would read before it is read, so that nothing long is ever copied.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from rsmq_tui.protocol.errors import RsmqError
from rsmq_tui.protocol.inspected import COUNTER_SUFFIXES
from rsmq_tui.protocol.keys import QUEUE_FIELDS, Keys
from rsmq_tui.protocol.messages import RawMessage
from rsmq_tui.protocol.read_scripts import STEP_SIZE
from rsmq_tui.protocol.replies import decode_clock
from rsmq_tui.protocol.running import ScriptRunner, ScriptsRefusedError, raise_first
from rsmq_tui.protocol.scan import CHUNK_MESSAGES_MIN, SCAN_BODY_BYTES, bounded_values, sent
from rsmq_tui.protocol.scan_seen import WINDOW_IDS, Seen

# How many fields a step takes: half of a queue's may be counters. The first is small, as its bodies may be long.
_STEP_FIELDS = 1_500
_FIRST_STEP_FIELDS = 100
_STEPS_AHEAD = 2
# Ids of this length may end as the names of counters do, but theirs are longer.
_ID_LENGTH = 32


class _Step(NamedTuple):
    """A step that may be taken: from where, how many fields, where it ends, and how many bytes it reads."""

    first: bytes
    fields: int
    following: bytes
    size: int
    at_ms: int
    depth: int


class _Steps:
    """Measures steps ahead of those that are taken, so that the server is at it while the caller works."""

    def __init__(self, measure: Callable[[bytes, int], Coroutine[Any, Any, _Step]], count: int) -> None:
        self._measure = measure
        self._count = count
        self._fields = min(count, _FIRST_STEP_FIELDS)
        self._measured: asyncio.Queue[_Step | BaseException] = asyncio.Queue(_STEPS_AHEAD)
        self._measuring: asyncio.Task[None] | None = None

    async def next(self, cursor: bytes) -> _Step:
        """Return the step from there; raises what measuring it raised."""
        if self._measuring is not None:
            step = await self._measured.get()
            if isinstance(step, BaseException):
                raise step
            if step.first == cursor:
                return step
            # The table has another size than when it was measured, and the step before ended elsewhere.
            await self.aclose()
        step = await self._fitting(cursor)
        if int(step.following) != 0:
            self._measured = asyncio.Queue(_STEPS_AHEAD)
            self._measuring = asyncio.create_task(self._go_on(step.following))
        return step

    async def aclose(self) -> None:
        """Stop measuring."""
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.gather(self._measuring, return_exceptions=True)
            self._measuring = None

    async def _go_on(self, cursor: bytes) -> None:
        try:
            while int(cursor) != 0:
                step = await self._fitting(cursor)
                await self._measured.put(step)
                cursor = step.following
        except Exception as error:
            await self._measured.put(error)

    async def _fitting(self, cursor: bytes) -> _Step:
        """Measure a step of as many fields as may be read at once."""
        step = await self._measure(cursor, self._fields)
        while step.size > SCAN_BODY_BYTES and step.fields > CHUNK_MESSAGES_MIN:
            step = await self._measure(
                cursor, max(CHUNK_MESSAGES_MIN, min(step.fields - 1, step.fields * SCAN_BODY_BYTES // step.size))
            )
        self._fields = min(self._count, max(CHUNK_MESSAGES_MIN, step.fields * SCAN_BODY_BYTES // (step.size + 1)))
        return step


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
        """Tell whether its hash may be walked, and the server says how much a step would read."""
        try:
            await self._measure(queue, b"0", CHUNK_MESSAGES_MIN)
            (fields,) = await self._ask(("HLEN", self._keys.attributes(queue)))
        except (ScriptsRefusedError, ResponseError, RsmqError):
            return False
        return int(fields) > 0

    async def chunks(self, queue: str, count: int = _STEP_FIELDS) -> AsyncGenerator[BodyChunk, None]:
        """Yield every body that is there throughout once, and others at most once; a few at a time.

        A body may be that of no message: ``messages`` tells. A step takes about ``count`` fields, fewer where bodies
        are long; a small queue comes whole. The next is under way while the caller works. Close it with ``aclose``.
        """
        seen = Seen(WINDOW_IDS)
        steps = _Steps(partial(self._measure, queue), count)
        looking: asyncio.Task[tuple[bytes | None, BodyChunk]] | None = None
        try:
            looking = await sent(self._runner, self._look(queue, await steps.next(b"0")))
            while looking is not None:
                cursor, chunk = await looking
                looking = None
                if cursor is not None:
                    looking = await sent(self._runner, self._look(queue, await steps.next(cursor)))
                fresh = seen.fresh(chunk.ids, chunk.depth)
                if fresh is not None:
                    ids, bodies = list(compress(chunk.ids, fresh)), list(compress(chunk.bodies, fresh))
                    chunk = chunk._replace(ids=ids, bodies=bodies)
                yield chunk
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
            await steps.aclose()

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

    async def _measure(self, queue: str, cursor: bytes, count: int) -> _Step:
        """Ask what a step from the cursor would read; raises ``ScriptsRefusedError``."""
        try:
            measured = await self._runner.run(STEP_SIZE, self._of(queue), (cursor, count))
        except ResponseError as error:
            raise_first((error,))
            raise
        return _step(cursor, count, measured)

    async def _look(self, queue: str, step: _Step) -> tuple[bytes | None, BodyChunk]:
        """Take a step, and return where to go on and what is there."""
        attributes = self._keys.attributes(queue)
        scan: list[bytes | str | int] = ["HSCAN", attributes, step.first, "COUNT", step.fields]
        too_long: list[bytes] = []
        if step.size <= SCAN_BODY_BYTES:
            ((following, found),) = await self._ask(scan)
            ids, bodies = _bodies(found[::2], found[1::2])
        else:
            ((following, names),) = await self._ask((*scan, "NOVALUES"))
            values = await bounded_values(self._runner, attributes, names)
            too_long = [name for name, value in zip(names, values, strict=True) if isinstance(value, int)]
            read = {name: value for name, value in zip(names, values, strict=True) if isinstance(value, bytes)}
            ids, bodies = _bodies(list(read), list(read.values()))
        is_last = int(following) == 0
        chunk = BodyChunk(step.at_ms, step.depth, ids, bodies, is_last, [*filter(_is_id, too_long)])
        return None if is_last else following, chunk

    def _of(self, queue: str) -> tuple[bytes, bytes]:
        return self._keys.attributes(queue), self._keys.messages(queue)

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


def _step(first: bytes, count: int, measured: Any) -> _Step:
    following, size, time, depth = measured
    seconds, microseconds = decode_clock(time)
    return _Step(first, count, following, size, seconds * 1000 + microseconds // 1000, depth)
