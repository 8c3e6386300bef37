"""Reads every message of a queue once, in chunks, without changing anything or holding the server for long.

Consumers change scores all the time, so a scan cannot continue from a rank or a score. It uses ZSCAN: what is in
the queue throughout is returned at least once, and again only if the hash table shrinks meanwhile.

A scan can be split into parts for several readers: each message is in exactly one, whatever its score. A server
advances a cursor from the highest bit down (Redis since 2.8, Valkey). With the bits reversed, cursors only rise, and a
range of them is a range of the hashes of ids, whatever the size of the table. So a scan can begin at any position and
end at another. Replies are checked against that, so a server that counts otherwise is noticed at the first step.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeVar

from redis.exceptions import InvalidResponse

from rsmq_tui.protocol.connections.connect import ReplyTooLongError, replies_of_at_most
from rsmq_tui.protocol.connections.script_runner import ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq.operations import RawMessage, chunked, raw_message
from rsmq_tui.protocol.rsmq.scripts import SIZES
from rsmq_tui.protocol.validation import is_limited

# The optional fields of a message: both counters, the length of its body, and the body.
ReadField = Literal["counts", "size", "body"]


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Some messages in no order: ``at_ms`` is the server's time and ``depth`` the queue's when they were found.

    ``columns`` holds one sequence for each field of ``RawMessage``, so that only the messages needed are built.
    ``too_long`` counts the bodies that were asked for and are longer than ``scan.SCAN_BODY_BYTES``: they are None.
    ``begun_anew`` counts how often the place in a list was lost so far: items may have been missed, or come twice.
    ``read`` names the fields that were read besides ids and scores; the others are None, or 0.
    """

    at_ms: int
    depth: int
    columns: tuple[Sequence[Any], ...]
    too_long: int = 0
    begun_anew: int = 0
    read: frozenset[ReadField] = frozenset()

    @classmethod
    def unread(cls, at_ms: int, depth: int, ids: Sequence[bytes], scores: Sequence[bytes]) -> "ScanChunk":
        """Make a chunk of ids and scores alone."""
        nothing: list[bytes | None] = [None] * len(ids)
        return cls(at_ms, depth, (ids, scores, nothing, nothing, [0] * len(ids), nothing))

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def bodies(self) -> Sequence[bytes | None]:
        """The column of bodies."""
        return self.columns[-1]

    @property
    def messages(self) -> list[RawMessage]:
        """All messages of the chunk."""
        return list(map(raw_message, zip(*self.columns, strict=True)))

    def message(self, index: int) -> RawMessage:
        """Return the message at an index."""
        message: RawMessage = raw_message([column[index] for column in self.columns])
        return message


WINDOW_IDS = 65_536
# A hash table holds at most 35 messages a bucket in Valkey, 5 in Redis, and twice as many while it grows.
_BUCKET_MAX = 128


class Seen:
    """The ids that a scan has returned, so that none is returned twice.

    If the hash table shrinks, the scan goes back to the start of a bucket. The ids of that bucket are among the last
    ``window`` ids, unless a deep queue shrank to a few messages: only then the hashes of all ids are compared.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent: set[bytes] = set()
        # The same ids in chunks, to rebuild ``_recent`` without the last chunk.
        self._came: list[Sequence[bytes]] = []
        self._before: set[bytes] = set()
        # Python's hash of bytes has 64 bits and a secret seed, so collisions cannot be provoked.
        self._hashes = array("q")
        self._deepest = 0

    def fresh(self, found: Sequence[bytes], depth: int) -> list[bool] | None:
        """Return for each id whether it is new, or None if all are; the queue held ``depth`` messages."""
        self._deepest = max(self._deepest, depth)
        recent, before = self._recent, self._before
        count = len(recent)
        # Most ids are new: adding all and comparing sizes takes a third of the time of looking up each.
        recent.update(found)
        collapsed = depth * self._window <= _BUCKET_MAX * self._deepest
        fresh: list[bool] | None = None
        if collapsed or len(recent) < count + len(found) or not before.isdisjoint(found):
            recent = self._recent = set(chain.from_iterable(self._came))
            old = set(map(hash, found)).intersection(self._hashes) if collapsed else set()
            fresh = []
            for id in found:
                is_fresh = id not in recent and id not in before and hash(id) not in old
                if is_fresh:
                    recent.add(id)
                fresh.append(is_fresh)
            found = list(compress(found, fresh))
        self._came.append(found)
        self._hashes.extend(map(hash, found))
        if len(recent) >= self._window:
            self._before, self._recent, self._came = recent, set(), []
        return fresh


_BITS = 64
# If a table had fewer buckets than a scan has parts, several parts would read the same bucket. Servers keep at most 35
# messages in a bucket, and shrink a table when it is eight times as large as needed.
MESSAGES_PER_PART_MIN = 1_000


@dataclass(frozen=True, slots=True)
class ScanPart:
    """The part ``index`` of ``count`` of a scan; ``count`` is a power of two."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.count & (self.count - 1) or not 0 <= self.index < self.count:
            raise ValueError(f"there is no part {self.index} of {self.count}")

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole scan; then cursors are not compared."""
        return self.count == 1

    @property
    def first(self) -> bytes:
        """The cursor to begin with."""
        return b"%d" % _turned(self._begin)

    @property
    def next_first(self) -> bytes:
        """The cursor with which the next part begins."""
        return b"%d" % _turned(self._end)

    def has_reached_end(self, following: bytes) -> bool:
        """Return whether a step that returned that cursor is the last of this part."""
        return int(following) == 0 or (not self.is_whole and _turned(int(following)) >= self._end)

    def oversteps(self, following: bytes) -> bool:
        """Return whether a step that returned that cursor went beyond the end of this part."""
        return int(following) != 0 and not self.is_whole and _turned(int(following)) > self._end

    def check_step(self, cursor: bytes, following: bytes) -> None:
        """Raise redis-py's ``InvalidResponse`` if the server does not advance cursors as parts need."""
        if self.is_whole or int(following) == 0:
            return
        if int(following) >= 1 << _BITS or _turned(int(following)) <= _turned(int(cursor)):
            raise InvalidResponse("this server's scans cannot be split into parts")

    @property
    def _begin(self) -> int:
        return self.index * (1 << _BITS) // self.count

    @property
    def _end(self) -> int:
        return (self.index + 1) * (1 << _BITS) // self.count


def has_passed(cursor: bytes, other: bytes) -> bool:
    """Return whether a scan at ``cursor`` has read everything before the cursor ``other``."""
    return _turned(int(cursor)) >= _turned(int(other))


WHOLE = ScanPart()


def _turned(cursor: int) -> int:
    """Return a cursor with its bits reversed."""
    return int(f"{cursor % (1 << _BITS):0{_BITS}b}"[::-1], 2)


T = TypeVar("T")

# Messages per round trip. On two cores over loopback, ZSCAN takes 1 µs a message.
CHUNK_MESSAGES = 500
CHUNK_MESSAGES_MIN = 10
# How much one call may copy, and so the longest body that a scan reads: a server copies a gigabyte a second.
SCAN_BODY_BYTES = 1_000_000
# If the queue limits its bodies, they are read without asking for their sizes, this many per call: 250 of 64 KiB take
# 1.5 ms. After the first reply the number is adapted to SCAN_BODY_BYTES; a reply of more than UNMEASURED_BYTES_MAX is
# not read to its end.
_BODIES_PER_CALL = 250
UNMEASURED_BYTES_MAX = 4_000_000
_COUNTS_PER_CALL = 250


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read of a queue; with ``measured``, the sizes of bodies are read before the bodies."""

    zset: bytes
    attributes: bytes
    counts: bool
    bodies: bool
    measured: bool

    @property
    def read(self) -> frozenset[ReadField]:
        """The fields of messages that are then known."""
        told: dict[ReadField, bool] = {
            "counts": self.counts,
            "size": self.bodies or self.measured,
            "body": self.bodies,
        }
        return frozenset(field for field, is_read in told.items() if is_read)


class _Group(NamedTuple):
    """Messages that were found, and are read in one round trip; ``sizes`` is None if not measured."""

    at_ms: int
    depth: int
    ids: Sequence[bytes]
    scores: Sequence[bytes]
    sizes: Sequence[int] | None = None

    @property
    def short(self) -> Sequence[bytes]:
        """The ids whose bodies are not too long to be read."""
        if self.sizes is None:
            return self.ids
        return [id for id, size in zip(self.ids, self.sizes, strict=True) if size <= SCAN_BODY_BYTES]


class QueueScan:
    """Scans queues of one namespace; raises ``wrongType`` if a key of the queue has another type."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def chunks(
        self,
        queue: str,
        *,
        counts: bool,
        bodies: bool,
        sizes: bool = False,
        count: int = CHUNK_MESSAGES,
        part: ScanPart = WHOLE,
    ) -> AsyncGenerator[ScanChunk, None]:
        """Yield once every message that stays in the queue during the scan, and others at most once; a few at a time.

        ``rc`` and ``fr`` are read only with ``counts``, bodies only with ``bodies``; sizes are known with bodies, or
        with ``sizes``, which costs more than short bodies do. A round trip takes about ``count`` messages, fewer if
        bodies are long; a small queue comes whole. The next is under way while the caller works on a chunk. A message
        that leaves before its body is read is left out. Close it with ``aclose`` when leaving early. It remembers up to
        131,072 ids, and 8 bytes of each before.

        Several readers may take a ``part`` each: together these are the whole, with the same guarantees, as long as the
        queue holds MESSAGES_PER_PART_MIN for each part. If it shrinks below, a message may come in several parts.
        """
        wanted = await self._wanted(queue, counts, bodies, sizes)
        seen, step = Seen(WINDOW_IDS), count
        waiting: deque[_Group] = deque()
        cursor: bytes | None = part.first
        looking: asyncio.Task[tuple[bytes | None, _Group]] | None = None
        before: asyncio.Task[ScanChunk] | None = None
        reading: asyncio.Task[ScanChunk] | None = None
        try:
            while True:
                if looking is not None:
                    cursor, found = await looking
                    looking = None
                    fresh = _fresh(found, seen)
                    waiting.extend(_groups(fresh) if bodies and wanted.measured else (fresh,))
                    step = fitting(fresh.sizes, count) if wanted.measured else step
                # Messages that wait are read before more are looked for.
                if cursor is not None and len(waiting) <= 1:
                    looking = await sent(self._runner, self._look(wanted, cursor, step, part))
                before, reading = reading, None
                if waiting:
                    reading = await sent(self._runner, self._read(wanted, waiting.popleft()))
                if before is not None:
                    chunk = await before
                    step = fitting(chunk.columns[4], count) if bodies and not wanted.measured else step
                    yield chunk
                elif looking is None and reading is None:
                    return
        finally:
            under_way = [task for task in (looking, before, reading) if task is not None]
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def member(self, queue: str, id: bytes, *, counts: bool, bodies: bool, sizes: bool) -> ScanChunk:
        """Look up one message by its id, as ``chunks`` would read it; the chunk is empty if it is not there."""
        time, depth, score = await self._runner.ask(
            ("TIME",), ("ZCARD", self._keys.messages(queue)), ("ZSCORE", self._keys.messages(queue), id)
        )
        ids, scores = ([], []) if score is None else ([id], [score])
        found = ScanChunk.unread(clock_ms(time), depth, ids, scores)
        return await self.read(queue, found, counts=counts, bodies=bodies, sizes=sizes)

    async def read(self, queue: str, found: ScanChunk, *, counts: bool, bodies: bool, sizes: bool) -> ScanChunk:
        """Read more fields of messages, as ``chunks`` does; what was read before is kept."""
        wanted = await self._wanted(queue, counts, bodies, sizes)
        ids, scores, rcs, frs, _, _ = found.columns
        group = _Group(found.at_ms, found.depth, ids, scores, await self._sizes(wanted, ids))
        groups = _groups(group) if bodies and wanted.measured else (group,)
        chunk = _joined(group, [await self._read(wanted, each) for each in groups])
        columns = chunk.columns
        if not counts:
            kept = dict(zip(ids, zip(rcs, frs, strict=True), strict=True))
            columns = (*columns[:2], *([kept[id][place] for id in columns[0]] for place in range(2)), *columns[4:])
        read = chunk.read | (found.read & {"counts"})
        return ScanChunk(found.at_ms, found.depth, columns, chunk.too_long, read=read)

    async def _wanted(self, queue: str, counts: bool, bodies: bool, sizes: bool) -> _Wanted:
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        measured = sizes
        if bodies:
            (maxsize,) = await self._runner.ask(("HGET", attributes, "maxsize"))
            measured = sizes or not is_limited(maxsize)
        return _Wanted(zset, attributes, counts, bodies, measured)

    async def _look(self, wanted: _Wanted, cursor: bytes, step: int, part: ScanPart) -> tuple[bytes | None, _Group]:
        """Scan one step from the cursor; return the next cursor, None at the end, and the messages found."""
        time, depth, (following, found) = await self._runner.ask(
            ("TIME",), ("ZCARD", wanted.zset), ("ZSCAN", wanted.zset, cursor, "COUNT", step)
        )
        part.check_step(cursor, following)
        ids, scores = found[::2], found[1::2]
        if part.oversteps(following):
            beyond = await self._beyond(wanted, following, step, part)
            kept = [id not in beyond for id in ids]
            ids, scores = list(compress(ids, kept)), list(compress(scores, kept))
        at_ms = clock_ms(time)
        group = _Group(at_ms, depth, ids, scores, await self._sizes(wanted, ids))
        return None if part.has_reached_end(following) else following, group

    async def _sizes(self, wanted: _Wanted, ids: Sequence[bytes]) -> list[int] | None:
        return await sizes_of(self._runner, wanted.attributes, ids) if wanted.measured else None

    async def _beyond(self, wanted: _Wanted, reached: bytes, step: int, part: ScanPart) -> set[bytes]:
        """Return the ids between the end of the part and the cursor: a step does not stop where a part ends."""
        beyond: set[bytes] = set()
        cursor = part.next_first
        while int(cursor) != 0 and not has_passed(cursor, reached):
            before, ((cursor, found),) = cursor, await self._runner.ask(("ZSCAN", wanted.zset, cursor, "COUNT", step))
            part.check_step(before, cursor)
            beyond.update(found[::2])
        return beyond

    async def _read(self, wanted: _Wanted, group: _Group) -> ScanChunk:
        """Read what is wanted of a group, after it was found: bodies never change."""
        if wanted.measured or not wanted.bodies:
            return await self._read_group(wanted, group)
        try:
            with replies_of_at_most(UNMEASURED_BYTES_MAX):
                chunk = await self._read_group(wanted, group)
            refuse_long(chunk.columns[4])
            return chunk
        except ReplyTooLongError:
            sizes = await sizes_of(self._runner, wanted.attributes, group.ids)
            groups = _groups(group._replace(sizes=sizes))
            return _joined(group, [await self._read_group(replace(wanted, measured=True), each) for each in groups])

    async def _read_group(self, wanted: _Wanted, group: _Group) -> ScanChunk:
        short = group.short if wanted.bodies else []
        per_call = len(short) if wanted.measured else _BODIES_PER_CALL
        commands: list[Sequence[bytes | str | int]] = []
        commands += [("HMGET", wanted.attributes, *part) for part in chunked(short, per_call)]
        for part in chunked(group.ids if wanted.counts else (), _COUNTS_PER_CALL):
            names = [b""] * (2 * len(part))
            names[::2], names[1::2] = [id + b":rc" for id in part], [id + b":fr" for id in part]
            commands.append(("HMGET", wanted.attributes, *names))
        values = [value for reply in await self._runner.ask(*commands) for value in reply]
        read, counts = values[: len(short)], values[len(short) :]
        ids, sizes = group.ids, group.sizes
        nothing: list[bytes | None] = [None] * len(ids)
        rcs, frs = (counts[::2], counts[1::2]) if wanted.counts else (nothing, nothing)
        if not wanted.bodies:
            known = [0] * len(ids) if sizes is None else sizes
            columns = (ids, group.scores, rcs, frs, known, nothing)
            return ScanChunk(group.at_ms, group.depth, columns, read=wanted.read)
        if None not in read and len(read) == len(ids):
            known = list(map(len, read))
            columns = (ids, group.scores, rcs, frs, known, read)
            return ScanChunk(group.at_ms, group.depth, columns, read=wanted.read)
        bodies = dict(zip(group.short, read, strict=True))
        without = [id for id, body in bodies.items() if body is None]
        # Either the message has left the queue since it was found, or it has no body.
        scores = await self._runner.ask(*(("ZSCORE", wanted.zset, id) for id in without))
        left = {id for id, score in zip(without, scores, strict=True) if score is None}
        known = [len(bodies.get(id) or b"") for id in ids] if sizes is None else sizes
        there = [id not in left for id in ids]
        columns = (ids, group.scores, rcs, frs, known, [bodies.get(id) for id in ids])
        kept = tuple(list(compress(column, there)) for column in columns)
        return ScanChunk(group.at_ms, group.depth, kept, len(ids) - len(read), read=wanted.read)


def refuse_long(sizes: Sequence[int]) -> None:
    """Raise ``ReplyTooLongError`` for a body of more than SCAN_BODY_BYTES, which a scan does not return."""
    if max(sizes, default=0) > SCAN_BODY_BYTES:
        raise ReplyTooLongError("a body is longer than a scan reads")


async def sizes_of(runner: ScriptRunner, attributes: bytes, names: Sequence[bytes]) -> list[int]:
    """Return the sizes of fields of a hash in bytes, 0 for a missing one."""
    if not names:
        return []
    try:
        sizes: list[int] = await runner.run(SIZES, (attributes,), names)
    except ScriptsRefusedError:
        sizes = await runner.ask(*(("HSTRLEN", attributes, name) for name in names))
    if len(sizes) != len(names):
        raise ValueError("not a length for each field")
    return sizes


async def bounded_values(runner: ScriptRunner, attributes: bytes, names: Sequence[bytes]) -> list[bytes | int | None]:
    """Read fields of a hash: only the length of one longer than SCAN_BODY_BYTES, None for a missing one."""
    sizes = await sizes_of(runner, attributes, names)
    found: dict[bytes, bytes | int | None] = dict(zip(names, sizes, strict=True))
    short = [(name, size) for name, size in zip(names, sizes, strict=True) if size <= SCAN_BODY_BYTES]
    for group in chunked(short, len(names), itemgetter(1), SCAN_BODY_BYTES):
        part = [name for name, _ in group]
        (values,) = await runner.ask(("HMGET", attributes, *part))
        found.update(zip(part, values, strict=True))
    return [found[name] for name in names]


async def sent(runner: ScriptRunner, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task and wait until its request is sent, so that the server works while the caller does."""
    task = asyncio.create_task(work)
    try:
        await runner.until_sent(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    return task


def _joined(group: _Group, parts: Sequence[ScanChunk]) -> ScanChunk:
    """Join the chunks of a group."""
    columns = tuple([value for part in parts for value in part.columns[place]] for place in range(6))
    too_long = sum(part.too_long for part in parts)
    return ScanChunk(group.at_ms, group.depth, columns, too_long, read=parts[0].read)


def _fresh(found: _Group, seen: Seen) -> _Group:
    """Leave out what was returned before."""
    fresh = seen.fresh(found.ids, found.depth)
    if fresh is None:
        return found
    sizes = None if found.sizes is None else list(compress(found.sizes, fresh))
    return found._replace(ids=list(compress(found.ids, fresh)), scores=list(compress(found.scores, fresh)), sizes=sizes)


def _groups(group: _Group) -> Iterator[_Group]:
    """Split measured messages into groups whose bodies one call may read."""
    sizes, start, budget = group.sizes or (), 0, SCAN_BODY_BYTES
    for stop, size in enumerate(sizes):
        if size > SCAN_BODY_BYTES:
            continue
        if size > budget:
            yield _cut(group, start, stop)
            start, budget = stop, SCAN_BODY_BYTES
        budget -= size
    if start < len(sizes) or not sizes:
        yield _cut(group, start, len(sizes))


def _cut(group: _Group, start: int, stop: int) -> _Group:
    sizes = None if group.sizes is None else group.sizes[start:stop]
    return group._replace(ids=group.ids[start:stop], scores=group.scores[start:stop], sizes=sizes)


def fitting(sizes: Sequence[int] | None, count: int) -> int:
    """Return how many messages of such sizes a round trip may take, to limit memory."""
    total = sum(sizes or ())
    return min(count, max(CHUNK_MESSAGES_MIN, len(sizes) * SCAN_BODY_BYTES // total)) if sizes and total else count
