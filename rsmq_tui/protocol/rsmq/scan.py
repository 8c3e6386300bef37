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
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, compress
from operator import itemgetter
from typing import Any, Literal, TypeVar

from redis.exceptions import InvalidResponse

from rsmq_tui.protocol.connections.reply_limits import ReplyTooLongError, replies_of_at_most
from rsmq_tui.protocol.connections.script_runner import ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq.operations import RawMessage, chunked, raw_message
from rsmq_tui.protocol.rsmq.pages import scores_and_counts
from rsmq_tui.protocol.rsmq.scripts import COUNTED_STEP, SIZES
from rsmq_tui.protocol.validation import is_limited

# The optional fields of a message: both counters, the length of its body, and the body.
ReadField = Literal["counts", "size", "body"]


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Some messages in no order: ``at_ms`` is the server's time and ``depth`` the queue's when they were found.

    ``columns`` holds one sequence for each field of ``RawMessage``, so that only the messages needed are built.
    ``too_long`` counts the bodies that were asked for and are longer than ``scan.SCAN_BODY_BYTES``: they are None.
    ``restarts`` counts how often the place in a list was lost so far: items may have been missed, or come twice.
    ``read`` names the fields that were read besides ids and scores; the others are None, or 0.
    """

    at_ms: int
    depth: int
    columns: tuple[Sequence[Any], ...]
    too_long: int = 0
    restarts: int = 0
    read: frozenset[ReadField] = frozenset()

    @classmethod
    def unread(cls, at_ms: int, depth: int, ids: Sequence[bytes], scores: Sequence[bytes]) -> "ScanChunk":
        """Make a chunk of ids and scores alone."""
        nothing: list[bytes | None] = [None] * len(ids)
        return cls(at_ms, depth, (ids, scores, nothing, nothing, [0] * len(ids), nothing))

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def ids(self) -> Sequence[bytes]:
        """The column of ids."""
        return self.columns[0]

    @property
    def sizes(self) -> Sequence[int]:
        """The column of the lengths of bodies."""
        return self.columns[4]

    @property
    def bodies(self) -> Sequence[bytes | None]:
        """The column of bodies."""
        return self.columns[-1]

    def kept(self, wanted: Sequence[bool]) -> "ScanChunk":
        """Return the messages for which ``wanted`` is true."""
        return replace(self, columns=tuple([*compress(column, wanted)] for column in self.columns))

    def between(self, start: int, stop: int) -> "ScanChunk":
        """Return the messages from one index to another."""
        return replace(self, columns=tuple(column[start:stop] for column in self.columns))

    def with_columns(self, first: int, *columns: Sequence[Any], read: Iterable[ReadField] = ()) -> "ScanChunk":
        """Return the same messages with other columns from the index ``first`` on; ``read`` are fields read now."""
        after = self.columns[first + len(columns) :]
        return replace(self, columns=(*self.columns[:first], *columns, *after), read=self.read.union(read))

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
        if int(following) == 0:
            return self.index < self.count - 1
        return not self.is_whole and _turned(int(following)) > self._end

    def share_of(self, cursor: bytes, following: bytes) -> float:
        """Return which share of the hashes of a step from one cursor to another belongs to this part."""
        if not self.oversteps(following):
            return 1.0
        begin = _turned(int(cursor))
        return (self._end - begin) / (_reach(following) - begin)

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


def _reach(following: bytes) -> int:
    """Return how far a step that returned that cursor has read: 0 is the end of the scan."""
    return _turned(int(following)) or 1 << _BITS


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
# Messages per round trip if it reads their counts too, by a script: it takes 1.5 µs a message, with sizes 2.5 µs.
COUNTED_MESSAGES = 350


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read of a queue; with ``sizes``, these are read before the bodies."""

    zset: bytes
    attributes: bytes
    counts: bool
    bodies: bool
    sizes: bool


class RsmqScan:
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

        ``rc`` and ``fr`` are read only with ``counts``, and together with the score: the three are those of one moment.
        Bodies are read only with ``bodies``; sizes are known with bodies, or with ``sizes``, which costs more than
        short bodies do. A round trip takes about ``count`` messages, at most COUNTED_MESSAGES with ``counts``, fewer if
        bodies are long; a small queue comes whole. The next is under way while the caller works on a chunk. A message
        that leaves before its body is read is left out. Close it with ``aclose`` when leaving early. It remembers up to
        131,072 ids, and 8 bytes of each before.

        Several readers may take a ``part`` each: together these are the whole, with the same guarantees, as long as the
        queue holds MESSAGES_PER_PART_MIN for each part. If it shrinks below, a message may come in several parts. So
        may one that arrives and leaves within a few round trips.
        """
        wanted = await self._wanted(queue, counts, bodies, sizes)
        count = min(count, COUNTED_MESSAGES) if counts else count
        seen, step = Seen(WINDOW_IDS), count
        waiting: deque[ScanChunk] = deque()
        cursor: bytes | None = part.first
        looking: asyncio.Task[tuple[bytes | None, ScanChunk]] | None = None
        before: asyncio.Task[ScanChunk] | None = None
        reading: asyncio.Task[ScanChunk] | None = None
        try:
            while True:
                if looking is not None:
                    cursor, found = await looking
                    looking = None
                    fresh = seen.fresh(found.ids, found.depth)
                    found = found if fresh is None else found.kept(fresh)
                    waiting.extend(_groups(found) if bodies else (found,))
                    step = fitting(len(found), sum(found.sizes), count) if wanted.sizes else step
                # Messages that wait are read before more are looked for.
                if cursor is not None and len(waiting) <= 1:
                    looking = await sent(self._runner, self._step(wanted, cursor, step, part))
                before, reading = reading, None
                if waiting and not bodies:
                    yield waiting.popleft()
                    continue
                if waiting:
                    reading = await sent(self._runner, self._read(wanted, waiting.popleft()))
                if before is not None:
                    chunk = await before
                    step = fitting(len(chunk), sum(chunk.sizes), count) if bodies and not wanted.sizes else step
                    yield chunk
                elif looking is None and reading is None:
                    return
        finally:
            under_way = [task for task in (looking, before, reading) if task is not None]
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def member(self, queue: str, id: bytes, *, bodies: bool, sizes: bool) -> ScanChunk:
        """Look up one message by its id, as ``chunks`` would read it; the chunk is empty if it is not there."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        at_ms, ((score,), (rc,), (fr,)), (depth,) = await scores_and_counts(
            self._runner, zset, attributes, [id], ("ZCARD", zset)
        )
        found = ScanChunk(at_ms, depth, ([id], [score], [rc], [fr], [0], [None]), read=_COUNTS)
        return await self.read(queue, found.kept([score is not None]), bodies=bodies, sizes=sizes)

    async def read(self, queue: str, found: ScanChunk, *, bodies: bool, sizes: bool) -> ScanChunk:
        """Read bodies, and their sizes, of messages that were found, as ``chunks`` does."""
        wanted = await self._wanted(queue, False, bodies, sizes)
        sized = await self._sized(wanted, found)
        return _joined([await self._read(wanted, each) for each in _groups(sized)]) if bodies else sized

    async def _wanted(self, queue: str, counts: bool, bodies: bool, sizes: bool) -> _Wanted:
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        if bodies and not sizes:
            (maxsize,) = await self._runner.ask(("HGET", attributes, "maxsize"))
            sizes = not is_limited(maxsize)
        return _Wanted(zset, attributes, counts, bodies, sizes)

    async def _step(self, wanted: _Wanted, cursor: bytes, step: int, part: ScanPart) -> tuple[bytes | None, ScanChunk]:
        """Scan one step from the cursor; return the next cursor, None at the end, and the messages found."""
        walk = ("ZSCAN", cursor, "COUNT", step)
        zset, attributes, counts = wanted.zset, wanted.attributes, wanted.counts
        beyond: set[bytes] = set()
        read_to = part.next_first
        while True:
            following, found = await walked(self._runner, zset, attributes, walk, counts=counts, sizes=wanted.sizes)
            part.check_step(cursor, following)
            if not part.oversteps(following):
                break
            # The rest belongs to other parts. As some of it may arrive or leave meanwhile, all that the step reaches is
            # read before and after.
            was_read_before = _reach(following) <= _reach(read_to)
            ids, read_to = await self._beyond(wanted, following, step, part)
            beyond |= ids
            if was_read_before:
                break
        if beyond:
            found = found.kept([id not in beyond for id in found.ids])
        if counts:
            found = await with_counts(self._runner, zset, attributes, found)
        return None if part.has_reached_end(following) else following, await self._sized(wanted, found)

    async def _sized(self, wanted: _Wanted, found: ScanChunk) -> ScanChunk:
        if not wanted.sizes or "size" in found.read:
            return found
        return found.with_columns(4, await sizes_of(self._runner, wanted.attributes, found.ids), read=("size",))

    async def _beyond(self, wanted: _Wanted, following: bytes, step: int, part: ScanPart) -> tuple[set[bytes], bytes]:
        """Return the ids from the end of the part to the cursor or farther, and how far: steps end between parts."""
        beyond: set[bytes] = set()
        cursor = part.next_first
        while _reach(cursor) < _reach(following):
            before, ((cursor, found),) = cursor, await self._runner.ask(("ZSCAN", wanted.zset, cursor, "COUNT", step))
            part.check_step(before, cursor)
            beyond.update(found[::2])
        return beyond, cursor

    async def _read(self, wanted: _Wanted, group: ScanChunk) -> ScanChunk:
        """Read the bodies of a group after it was found: they never change."""
        if "size" in group.read:
            return await self._with_bodies(wanted, group)
        try:
            with replies_of_at_most(UNMEASURED_BYTES_MAX):
                chunk = await self._with_bodies(wanted, group)
            refuse_long(chunk.sizes)
            return chunk
        except ReplyTooLongError:
            sized = await self._sized(replace(wanted, sizes=True), group)
            return _joined([await self._with_bodies(wanted, each) for each in _groups(sized)])

    async def _with_bodies(self, wanted: _Wanted, group: ScanChunk) -> ScanChunk:
        ids, sizes, per_call = group.ids, group.sizes, _BODIES_PER_CALL
        if "size" in group.read:
            ids = [id for id, size in zip(ids, sizes, strict=True) if size <= SCAN_BODY_BYTES]
            per_call = len(ids)
        commands: list[Sequence[bytes | str]] = [("HMGET", wanted.attributes, *part) for part in chunked(ids, per_call)]
        replies = await self._runner.ask(*commands)
        read = [body for reply in replies for body in reply]
        if None not in read and len(read) == len(group):
            sizes = sizes if "size" in group.read else list(map(len, read))
            return group.with_columns(4, sizes, read, read=("size", "body"))
        bodies = dict(zip(ids, read, strict=True))
        without = [id for id, body in bodies.items() if body is None]
        # Either the message has left the queue since it was found, or it has no body.
        scores = await self._runner.ask(*(("ZSCORE", wanted.zset, id) for id in without))
        left = {id for id, score in zip(without, scores, strict=True) if score is None}
        if "size" not in group.read:
            sizes = [len(bodies.get(id) or b"") for id in group.ids]
        whole = group.with_columns(4, sizes, [bodies.get(id) for id in group.ids], read=("size", "body"))
        return replace(whole.kept([id not in left for id in group.ids]), too_long=len(group) - len(read))


_COUNTS: frozenset[ReadField] = frozenset(("counts",))


async def walked(
    runner: ScriptRunner,
    zset: bytes,
    attributes: bytes,
    walk: Sequence[bytes | str | int],
    *,
    counts: bool,
    sizes: bool = False,
) -> tuple[bytes, ScanChunk]:
    """Take a step through a queue by ZSCAN or ZRANGE, written without the key; return the next cursor, and what it met.

    With ``counts``, the score, rc and fr of a message are those of one moment, and ``sizes`` are read too. If scripts
    are refused, neither is read: ``with_counts`` adds the counts. A ZRANGE has no cursor: it is 0.
    """
    if counts:
        with suppress(ScriptsRefusedError):
            reply = await runner.run(COUNTED_STEP, (zset, attributes), (int(sizes), *walk))
            now, depth, cursor, found, values, lengths = reply
            chunk = ScanChunk.unread(int(now), depth, found[::2], found[1::2])
            chunk = chunk.with_columns(2, values[::2], values[1::2], read=_COUNTS)
            return cursor, chunk.with_columns(4, lengths, read=("size",)) if sizes else chunk
    command, *rest = walk
    clock, depth, reply = await runner.ask(("TIME",), ("ZCARD", zset), (command, zset, *rest))
    cursor, found = reply if command == "ZSCAN" else (b"0", reply)
    return cursor, ScanChunk.unread(clock_ms(clock), depth, found[::2], found[1::2])


async def with_counts(runner: ScriptRunner, zset: bytes, attributes: bytes, found: ScanChunk) -> ScanChunk:
    """Read the counts of messages, unless they were read, and their scores again; those that have left are left out."""
    if "counts" in found.read or not len(found):
        return replace(found, read=found.read | _COUNTS)
    at_ms, columns, _ = await scores_and_counts(runner, zset, attributes, found.ids)
    chunk = replace(found, at_ms=at_ms).with_columns(1, *columns, read=_COUNTS)
    return chunk.kept([score is not None for score in columns[0]])


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


def _joined(parts: Sequence[ScanChunk]) -> ScanChunk:
    """Join chunks of one step."""
    columns = tuple([value for part in parts for value in part.columns[place]] for place in range(6))
    return replace(parts[0], columns=columns, too_long=sum(part.too_long for part in parts))


def _groups(found: ScanChunk) -> Iterator[ScanChunk]:
    """Split messages, if their sizes are known, into groups whose bodies one call may read."""
    if "size" not in found.read:
        yield found
        return
    start, budget = 0, SCAN_BODY_BYTES
    for stop, size in enumerate(found.sizes):
        if size > SCAN_BODY_BYTES:
            continue
        if size > budget:
            yield found.between(start, stop)
            start, budget = stop, SCAN_BODY_BYTES
        budget -= size
    if start < len(found) or not len(found):
        yield found.between(start, len(found))


def fitting(messages: int, size: int, count: int) -> int:
    """Return how many messages a round trip may take, to limit memory, if ``messages`` have ``size`` bytes."""
    return min(count, max(CHUNK_MESSAGES_MIN, messages * SCAN_BODY_BYTES // size)) if size else count
