"""Scanning: every message of a queue, once, without changing anything and without holding the server for long.

Consumers move scores all the time, so that neither ranks nor scores are places to go on from. ZSCAN's cursor is: what
is there throughout is returned at least once. It is returned again only when the table shrinks meanwhile.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, repeat
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.messages import RawMessage
from rsmq_tui.protocol.running import ScriptRunner, ScriptsRefusedError, raising_nonsense
from rsmq_tui.protocol.scan_scripts import SCAN

# On two cores over loopback the server works 3 to 6 µs on a message, and copies a gigabyte of bodies a second.
CHUNK_MESSAGES = 250
CHUNK_MESSAGES_MIN = 10
# What one call may copy, and with that the longest body that a scan reads.
SCAN_BODY_BYTES = 1_000_000
WINDOW_IDS = 65_536
# A table holds at most 35 messages a bucket in Valkey, 5 in Redis, and twice as many while it grows.
_BUCKET_MAX = 128

# Calling RawMessage takes three times as long.
_raw_message = partial(tuple.__new__, RawMessage)


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Some messages in no order: ``at_ms`` is the server's time and ``depth`` the queue's when they were found.

    ``too_long`` counts those whose body was asked for and is longer than SCAN_BODY_BYTES: their body is None.
    """

    at_ms: int
    depth: int
    messages: list[RawMessage]
    too_long: int = 0


class _Found(NamedTuple):
    """What one step found, in columns."""

    ids: Sequence[bytes]
    scores: Sequence[bytes]
    rcs: Sequence[bytes | None]
    frs: Sequence[bytes | None]
    sizes: Sequence[int]


class _Step(NamedTuple):
    at_ms: int
    depth: int
    cursor: bytes | None
    found: _Found


class _Group(NamedTuple):
    """Messages whose bodies one call may read."""

    at_ms: int
    depth: int
    found: _Found

    @property
    def short(self) -> list[bytes]:
        """The ids whose bodies are not too long to be read."""
        found = self.found
        return [id for id, size in zip(found.ids, found.sizes, strict=True) if size <= SCAN_BODY_BYTES]


_Trip = tuple[_Step | None, list[bytes | None]]


class QueueScan:
    """Scans queues of one namespace; raises ``wrongType`` where a key of the queue is something else."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def chunks(
        self, queue: str, *, counts: bool, bodies: bool, count: int = CHUNK_MESSAGES
    ) -> AsyncGenerator[ScanChunk, None]:
        """Yield every message that is in the queue throughout once, and others at most once; a few at a time.

        Sizes are always read, ``rc`` and ``fr`` only with ``counts``, bodies only with ``bodies``. A call takes about
        ``count`` messages, half as many with ``counts``, fewer where bodies are long; a small queue comes whole. The
        next call is under way while the caller works on a chunk. A message that leaves before its body is read is left
        out. Close it with ``aclose`` when leaving early. It remembers up to 131,072 ids, and 8 bytes of each before.
        """
        count = max(1, count // 2) if counts else count
        seen = Seen(WINDOW_IDS)
        waiting: deque[_Group] = deque()
        group: _Group | None = None
        cursor: bytes | None = b"0"
        wanted = count
        trip: asyncio.Task[_Trip] | None = asyncio.create_task(self._trip(queue, cursor, wanted, counts, None))
        try:
            while trip is not None:
                # Not awaited itself: a connection that is being made swallows a cancel.
                await asyncio.wait((trip,))
                step, read = trip.result()
                ready = None if group is None else _chunk(group, read)
                if step is not None:
                    cursor = step.cursor
                    found = seen.fresh(step.found, step.depth)
                    if bodies:
                        waiting.extend(_groups(step, found))
                        wanted = _fitting(found.sizes, count)
                    else:
                        ready = ScanChunk(step.at_ms, step.depth, _raw(found, repeat(None)))
                group = waiting.popleft() if waiting else None
                # Bodies that wait are read before more is looked for.
                ahead = None if waiting else cursor
                trip = None
                if ahead is not None or group is not None:
                    trip = asyncio.create_task(self._trip(queue, ahead, wanted, counts, group))
                    # The question goes out before this answer is read: else the server and we would take turns.
                    await asyncio.sleep(0)
                if ready is not None:
                    yield ready
        finally:
            if trip is not None:
                trip.cancel()
                await asyncio.gather(trip, return_exceptions=True)

    @raising_nonsense
    async def _trip(self, queue: str, cursor: bytes | None, count: int, counts: bool, group: _Group | None) -> _Trip:
        """In one round trip, take the step from the cursor and read the bodies of the group found before."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        commands: list[Sequence[bytes | str | int]] = []
        plainly = self._runner.refused is not None
        if cursor is not None and plainly:
            commands += [("TIME",), ("ZCARD", zset), ("ZSCAN", zset, cursor, "COUNT", count)]
        elif cursor is not None:
            commands.append(("EVALSHA", SCAN.sha, 2, zset, attributes, cursor, count, int(counts)))
        # Bodies never change: read a moment after the rest, they are those of the same messages.
        if short := [] if group is None else group.short:
            commands.append(("HMGET", attributes, *short))
        replies = await self._runner.commands(*commands)
        try:
            read = _whole(replies.pop()) if short else []
            if cursor is None:
                return None, read
            if plainly:
                return await self._step_plainly(attributes, [_whole(reply) for reply in replies], counts), read
            (reply,) = replies
            if isinstance(reply, Exception):
                # The runner knows what to do where a script is unknown or refused.
                reply = await self._runner.run(SCAN, (zset, attributes), (cursor, count, int(counts)))
            return _step(*reply), read
        except ScriptsRefusedError:
            step, _ = await self._trip(queue, cursor, count, counts, None)
            return step, read
        except ResponseError as error:
            if "WRONGTYPE" in str(error):
                raise rsmq_error("wrongType") from error
            raise

    async def _step_plainly(self, attributes: bytes, replies: list[Any], counts: bool) -> _Step:
        time, depth, (cursor, found) = replies
        ids = found[::2]
        fields = [field for id in ids for field in (id + b":rc", id + b":fr")] if counts else []
        commands: list[Sequence[bytes | str | int]] = [("HSTRLEN", attributes, id) for id in ids]
        if fields:
            commands.append(("HMGET", attributes, *fields))
        sizes = [_whole(reply) for reply in await self._runner.commands(*commands)] if commands else []
        return _step(time, depth, cursor, found, sizes, sizes.pop() if fields else None)


class Seen:
    """What a scan has returned, so that it is not returned again.

    A table that shrinks to some buckets has the scan go back to the start of one of these. What had been returned of
    it lies among the last ``window`` ids, except where a deep queue shrank to next to nothing: only then the hashes of
    all ids are asked.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent: set[bytes] = set()
        self._before: set[bytes] = set()
        self._hashes: list[array[int]] = []
        self._deepest = 0

    def fresh(self, found: _Found, depth: int) -> _Found:
        """Return what was not returned before, of a queue that held ``depth`` messages at that moment."""
        self._deepest = max(self._deepest, depth)
        ids, recent, before = set(found.ids), self._recent, self._before
        collapsed = bool(self._hashes) and depth * self._window <= _BUCKET_MAX * self._deepest
        if collapsed or len(ids) < len(found.ids) or not (ids.isdisjoint(recent) and ids.isdisjoint(before)):
            old = self._old(ids) if collapsed else set()
            fresh = []
            for id in found.ids:
                is_fresh = id not in recent and id not in before and hash(id) not in old
                if is_fresh:
                    recent.add(id)
                fresh.append(is_fresh)
            found = _Found._make(list(compress(column, fresh)) for column in found)
        else:
            recent |= ids
        if len(recent) >= self._window:
            # Python's hash of bytes has 64 bits and a secret of this process: nobody can make two ids collide.
            self._hashes.append(array("q", map(hash, before)))
            self._before, self._recent = recent, set()
        return found

    def _old(self, ids: set[bytes]) -> set[int]:
        wanted = {hash(id) for id in ids}
        return {old for run in self._hashes for old in wanted.intersection(run)} if wanted else wanted


def _step(
    time: Sequence[Any], depth: int, cursor: bytes, found: list[bytes], sizes: list[int], counts: list[Any] | None
) -> _Step:
    at_ms = int(time[0]) * 1000 + int(time[1]) // 1000
    ids = found[::2]
    nothing: list[bytes | None] = [None] * len(ids)
    rcs, frs = (nothing, nothing) if counts is None else (counts[::2], counts[1::2])
    columns = _Found(ids, found[1::2], rcs, frs, sizes)
    if any(len(column) != len(ids) for column in columns):
        raise ValueError("columns of different lengths")
    return _Step(at_ms, depth, None if int(cursor) == 0 else cursor, columns)


def _groups(step: _Step, found: _Found) -> Iterator[_Group]:
    """Split what was found into groups whose bodies one call may read."""
    sizes, start, budget = found.sizes, 0, SCAN_BODY_BYTES
    if sum(sizes) > budget:
        for stop, size in enumerate(sizes):
            if size > SCAN_BODY_BYTES:
                continue
            if size > budget:
                yield _Group(step.at_ms, step.depth, _Found._make(column[start:stop] for column in found))
                start, budget = stop, SCAN_BODY_BYTES
            budget -= size
    if start < len(sizes) or not sizes:
        yield _Group(step.at_ms, step.depth, _Found._make(column[start:] for column in found))


def _fitting(sizes: Sequence[int], count: int) -> int:
    """Return how many messages of such sizes a call may take: those that wait for their bodies take memory."""
    total = sum(sizes)
    return min(count, max(CHUNK_MESSAGES_MIN, len(sizes) * SCAN_BODY_BYTES // total)) if total else count


def _chunk(group: _Group, read: list[bytes | None]) -> ScanChunk:
    """Make a chunk of a group, and of the bodies that were read for it."""
    found = group.found
    too_long = len(found.ids) - len(read)
    if too_long == 0 and None not in read:
        return ScanChunk(group.at_ms, group.depth, _raw(found, read))
    bodies = iter(read)
    messages = []
    for id, score, rc, fr, size in zip(*found, strict=True):
        body = next(bodies) if size <= SCAN_BODY_BYTES else None
        # Its body is gone since it was measured: the message has left the queue.
        if body is not None or size == 0 or size > SCAN_BODY_BYTES:
            messages.append(RawMessage(id, score, rc, fr, size, body))
    return ScanChunk(group.at_ms, group.depth, messages, too_long)


def _raw(found: _Found, bodies: Iterable[bytes | None]) -> list[RawMessage]:
    return list(map(_raw_message, zip(*found, bodies, strict=False)))


def _whole(reply: Any) -> Any:
    """Return the reply; raise it when it is an error."""
    if isinstance(reply, Exception):
        raise reply
    return reply
