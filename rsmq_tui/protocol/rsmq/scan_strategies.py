"""Scans in other orders: by scores, and by bodies.

The scan by bodies reads the hash that holds them. For a search in bodies it takes the server half the time of a scan
of the messages, because bodies are not fetched separately. If ``maxsize`` says that bodies are short, they are read
without asking for their sizes first; a reply that is too long all the same is not read to its end, and the step is
repeated without the long bodies.

Through a slow link, the server looks at the bodies itself, in steps of a millisecond, and returns only those that may
match a ``BodyFilter``. Several parts are read at once: each step waits for a round trip.
"""

import asyncio
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import compress
from math import inf
from operator import methodcaller
from typing import Any, NamedTuple

from redis.exceptions import InvalidResponse

from rsmq_tui.protocol.connections.reply_limits import ReplyTooLongError, replies_of_at_most
from rsmq_tui.protocol.connections.script_runner import ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.keys import QUEUE_FIELDS, Keys
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq.inspection import COUNTER_SUFFIXES
from rsmq_tui.protocol.rsmq.operations import Messages, chunked
from rsmq_tui.protocol.rsmq.pages import scores_and_counts
from rsmq_tui.protocol.rsmq.scan import (
    CHUNK_MESSAGES,
    COUNTED_MESSAGES,
    MESSAGES_PER_PART_MIN,
    SCAN_BODY_BYTES,
    UNMEASURED_BYTES_MAX,
    WHOLE,
    ScanChunk,
    ScanPart,
    bounded_values,
    fitting,
    has_passed,
    sent,
    walked,
    with_counts,
)
from rsmq_tui.protocol.rsmq.scripts import FILTERED_BODIES, FILTERED_STEP_US
from rsmq_tui.protocol.validation import is_limited

# How far a page overlaps the one before: messages that consumers take from the front shift all ranks.
_OVERLAP = 50
_RECENT_IDS = 65_536


class _Met:
    """The ids that have come, in little memory: a message that is received during the scan comes again later."""

    def __init__(self) -> None:
        self._recent: set[bytes] = set()
        self._runs: list[array[int]] = []

    def is_new(self, id: bytes) -> bool:
        """Return whether an id comes for the first time."""
        if id in self._recent or (self._runs and _is_in(hash(id), self._runs)):
            return False
        self._recent.add(id)
        if len(self._recent) >= _RECENT_IDS:
            # Python's hash of bytes has 64 bits and a secret seed, so collisions cannot be provoked.
            self._runs.append(array("q", sorted(map(hash, self._recent))))
            self._recent = set()
        return True


def _is_in(value: int, runs: Iterable["array[int]"]) -> bool:
    for run in runs:
        place = bisect_left(run, value)
        if place < len(run) and run[place] == value:
            return True
    return False


_QUEUES_PER_TRIP = 250
_Cut = Callable[[Sequence[float], float], int]


class ScoreRange(NamedTuple):
    """Scores from ``low`` to ``high``, as in ZCOUNT: a bound that starts with ``(`` is exclusive."""

    low: bytes = b"-inf"
    high: bytes = b"+inf"


EVERY_SCORE = ScoreRange()


class QueueSize(NamedTuple):
    """How many messages a queue holds, and how many of them are in each of the ranges that were asked for.

    ``exists`` says whether it has attributes; ``problem`` is why its messages cannot be counted, or None.
    """

    depth: int
    in_ranges: tuple[int, ...]
    exists: bool
    problem: str | None = None


class QueueRanges:
    """Counts and reads ranges of scores; raises ``wrongType`` if a key of the queue has another type."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def now_ms(self) -> int:
        """Return the server's time."""
        (time,) = await self._runner.ask(("TIME",))
        return clock_ms(time)

    async def sizes(self, queues: Sequence[str], ranges: Sequence[ScoreRange] = ()) -> list[QueueSize]:
        """Count the messages of queues; a key of another type is the ``problem`` of its queue."""
        found: list[QueueSize] = []
        for part in chunked(queues, _QUEUES_PER_TRIP):
            commands: list[Sequence[Any]] = []
            for queue in part:
                zset = self._keys.messages(queue)
                commands += (("EXISTS", self._keys.attributes(queue)), ("ZCARD", zset))
                commands += (("ZCOUNT", zset, *bounds) for bounds in ranges)
            replies = await self._runner.commands(*commands)
            width = 2 + len(ranges)
            found += (_size(replies[place : place + width]) for place in range(0, len(replies), width))
        return found

    async def scores_at(self, queue: str, bounds: ScoreRange, size: int, every: int) -> list[bytes]:
        """Return every ``every``-th score of a range of ``size`` messages, at which the range may be split."""
        zset = self._keys.messages(queue)
        (before,) = await self._runner.ask(("ZCOUNT", zset, "-inf", _below(bounds.low)))
        ranks = range(before + every, before + size, every)
        replies = await self._runner.ask(*(("ZRANGE", zset, rank, rank, "WITHSCORES") for rank in ranks))
        return [reply[1] for reply in replies if reply]

    async def can_split(self, queue: str) -> bool:
        """Return whether this server's scans can be split into parts, by one step in this queue."""
        part = ScanPart(1, 2)
        ((following, _),) = await self._runner.ask(("ZSCAN", self._keys.messages(queue), part.first, "COUNT", 1))
        try:
            part.check_step(part.first, following)
        except InvalidResponse:
            return False
        return not part.has_reached_end(following)

    async def depth(self, queue: str) -> int:
        """Return how many messages a queue holds."""
        (depth,) = await self._runner.ask(("ZCARD", self._keys.messages(queue)))
        return int(depth)

    async def chunks(
        self,
        queue: str,
        bounds: ScoreRange = EVERY_SCORE,
        *,
        counts: bool = False,
        remember: bool = True,
        count: int = CHUNK_MESSAGES,
    ) -> AsyncGenerator[ScanChunk, None]:
        """Yield every message whose score stays in the range, in order of scores, about ``count`` at a time.

        ``counts`` is as in ``RsmqScan.chunks``; ``RsmqScan.read`` reads bodies and sizes. A message whose score does
        not change comes once; one whose score rises meanwhile comes at most once with ``remember``, which takes 8 bytes
        of each and up to 65,536 ids.
        """
        zset, met = self._keys.messages(queue), _Met() if remember else None
        attributes, count = self._keys.attributes(queue), min(count, COUNTED_MESSAGES) if counts else count
        low, cut_low = _bound(bounds.low, bisect_left, bisect_right)
        high, cut_high = _bound(bounds.high, bisect_right, bisect_left)
        start, last = 0, (low, b"")
        if low > float("-inf"):
            (before,) = await self._runner.ask(("ZCOUNT", zset, "-inf", _below(bounds.low)))
            start = max(0, before - _OVERLAP)
        while True:
            asked = count + _OVERLAP if start else count
            walk = ("ZRANGE", start, start + asked - 1, "WITHSCORES")
            _, page = await walked(self._runner, zset, attributes, walk, counts=counts)
            ids = page.ids
            values = list(map(float, page.columns[1]))
            places = list(zip(values, ids, strict=True))
            if start and (not places or places[0] > last):
                # Messages in between may have been skipped.
                start = max(0, min(start, page.depth) - count)
                continue
            first, stop = max(bisect_right(places, last), cut_low(values, low)), cut_high(values, high)
            chosen = page.between(first, stop)
            if met is not None:
                chosen = chosen.kept([met.is_new(id) for id in chosen.ids])
            if counts:
                chosen = await with_counts(self._runner, zset, attributes, chosen)
            if len(chosen):
                yield chosen
            if stop < len(ids) or len(ids) < asked:
                return
            last = max(last, places[-1])
            start = max(start + len(ids) - _OVERLAP, 1)


def _bound(raw: bytes, inclusive: _Cut, exclusive: _Cut) -> tuple[float, _Cut]:
    """Return the score of a bound, and the function that finds its place among sorted scores."""
    return float(raw.lstrip(b"(")), exclusive if raw.startswith(b"(") else inclusive


def _size(replies: Sequence[Any]) -> QueueSize:
    exists, *counts = replies
    for reply in replies:
        if isinstance(reply, Exception) and "WRONGTYPE" not in str(reply):
            raise reply
    if wrong := next((reply for reply in counts if isinstance(reply, Exception)), None):
        return QueueSize(0, (0,) * (len(counts) - 1), bool(exists), str(wrong))
    depth, *in_ranges = counts
    return QueueSize(depth, tuple(in_ranges), bool(exists))


def _below(low: bytes) -> bytes:
    """Return a lower bound as the upper bound of everything below it."""
    return low[1:] if low.startswith(b"(") else b"(" + low


# Fields per step, of which half may be counters. The first step is small, because bodies may be long.
_STEP_FIELDS = 1_500
_FIRST_STEP_FIELDS = 100
# An id of this length may end like the name of a counter; names of counters of such ids are longer.
_ID_LENGTH = 32
# 1 at that place; a table translates lengths in a tenth of the time of comparing each.
_HAS_ID_LENGTH = bytes(length == _ID_LENGTH for length in range(256))
_INVERTED = bytes((1, 0)) + bytes(254)
_ENDS_AS_COUNTER = methodcaller("endswith", COUNTER_SUFFIXES)
# A link is slow if none of the first steps took less: over loopback they take 1 to 4 ms.
_SLOW_S = 0.012
_TIMED_STEPS = 3
# Through a slow link, how many parts are read at once, and the fields of a step, before its time is known and after.
_PARTS = 8
_FIRST_FILTERED_FIELDS, _FILTERED_FIELDS_MIN, _FILTERED_FIELDS_MAX = 100, 20, 1_000


@dataclass(frozen=True, slots=True)
class BodyFilter:
    """What a server can check of a body: each body that is wanted passes, and others may.

    A body passes if it contains ``pattern``, a pattern of Lua without repeats (a text if ``is_plain``), after its ASCII
    letters were made small if ``in_lower``; or if it is not ASCII and contains one of ``texts``.
    """

    pattern: bytes
    is_plain: bool
    in_lower: bool
    texts: tuple[bytes, ...] = ()


class BodyChunk(NamedTuple):
    """Some bodies by id, in no order: ``at_ms`` is the server's time and ``depth`` the queue's when they were read.

    ``size`` is the total length of the bodies. ``too_long`` are the ids of bodies that are longer than SCAN_BODY_BYTES,
    which are not read. ``passed_over`` counts bodies that do not pass the filter, which are not read either: about,
    where two parts of a scan meet.
    """

    at_ms: int
    depth: int
    ids: Sequence[bytes]
    bodies: Sequence[bytes]
    size: int
    is_last: bool
    too_long: Sequence[bytes] = ()
    passed_over: int = 0


class _Step(NamedTuple):
    """What a step of a scan has found, before bodies are told from other fields; without ``values``, only names."""

    attributes: bytes
    cursor: bytes
    at_ms: int
    depth: int
    names: Sequence[bytes]
    values: Sequence[bytes] | None

    @property
    def is_last(self) -> bool:
        return int(self.cursor) == 0


class BodyScan:
    """Scans the bodies of queues of one namespace; raises ``wrongType`` if a key of the queue has another type."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def suits(self, queue: str) -> bool:
        """Return whether its hash can be scanned, and its bodies are short if its clients respect ``maxsize``."""
        attributes = self._keys.attributes(queue)
        maxsize, walked = await self._runner.commands(
            ("HGET", attributes, "maxsize"), ("HSCAN", attributes, 0, "COUNT", 1, "NOVALUES")
        )
        return is_limited(maxsize) and not isinstance(walked, Exception)

    async def chunks(
        self, queue: str, count: int = _STEP_FIELDS, wanted: BodyFilter | None = None
    ) -> AsyncGenerator[BodyChunk, None]:
        """Yield every body that stays in the queue during the scan, and perhaps others; a few at a time.

        Some bodies may belong to no message: see ``messages``. If the hash table shrinks meanwhile, some come again:
        the caller removes duplicates, by ``Seen`` and only of the bodies that match, which is cheaper. A step takes
        about ``count`` fields, fewer if bodies are long; a small queue comes whole. The next is under way while the
        caller works, and already while other fields are sorted out. Bodies that do not pass ``wanted`` may be left out.
        Close it with ``aclose``.
        """
        steps, step, shortest_s = 0, min(count, _FIRST_STEP_FIELDS), inf
        looking: asyncio.Task[tuple[_Step, float]] | None = None
        met: set[int] = set()
        try:
            looking = await sent(self._runner, self._timed(queue, b"0", step))
            while looking is not None:
                found, taken_s = await looking
                looking, cursor = None, found.cursor
                steps, shortest_s = steps + 1, min(shortest_s, taken_s)
                is_slow = wanted is not None and steps == _TIMED_STEPS and shortest_s >= _SLOW_S
                if not (found.is_last or is_slow):
                    # Its length is what the sizes of the step before this one allow.
                    looking = await sent(self._runner, self._timed(queue, cursor, step))
                chunk = await self._chunk_of(found)
                step = fitting(len(chunk.bodies), chunk.size, count)
                if wanted is not None and steps <= _TIMED_STEPS:
                    met.update(map(hash, (*chunk.ids, *chunk.too_long)))
                yield chunk
                if wanted is None or not is_slow or chunk.is_last:
                    continue
                # One step of a few fields tells whether the filter leaves enough out.
                first, chunk, fields = await self._filtered_step(queue, cursor, _FIRST_FILTERED_FIELDS, wanted)
                yield _unmet(chunk, met)
                if not chunk.is_last and len(chunk.ids) > chunk.passed_over:
                    looking = await sent(self._runner, self._timed(queue, first, step))
                elif not chunk.is_last:
                    parts = _parts_from(first, chunk.depth, can_split=has_passed(first, cursor))
                    async with aclosing(self._filtered(queue, parts, fields, wanted, met)) as rest:
                        async for chunk in rest:
                            yield chunk
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)

    async def _filtered(
        self, queue: str, parts: Sequence[tuple[bytes, ScanPart]], fields: int, wanted: BodyFilter, met: set[int]
    ) -> AsyncGenerator[BodyChunk, None]:
        """Scan parts from their cursors, all at once; ``met`` are the hashes of the ids that came before."""
        looking: dict[asyncio.Task[tuple[bytes, BodyChunk, int]], tuple[bytes, ScanPart]] = {}

        async def look(at: bytes, part: ScanPart, fields: int) -> None:
            looking[await sent(self._runner, self._filtered_step(queue, at, fields, wanted))] = at, part

        try:
            for at, part in parts:
                await look(at, part, fields)
            while looking:
                done, _ = await asyncio.wait(looking, return_when=asyncio.FIRST_COMPLETED)
                task = next(iter(done))
                at, part = looking.pop(task)
                following, chunk, fields = task.result()
                part.check_step(at, following)
                if not part.has_reached_end(following):
                    await look(following, part, fields)
                passed_over = round(part.share_of(at, following) * chunk.passed_over)
                yield _unmet(chunk._replace(passed_over=passed_over, is_last=not looking), met)
        finally:
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)

    async def messages(self, queue: str, ids: Sequence[bytes], bodies: Sequence[bytes]) -> tuple[int, Messages]:
        """Return the messages of these bodies, with their scores and counts, and the server's time.

        Bodies without a message are left out.
        """
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        at_ms, counted, _ = await scores_and_counts(self._runner, zset, attributes, ids)
        found, scores = Messages((ids, *counted, list(map(len, bodies)), bodies)), counted[0]
        return at_ms, found.kept([score is not None for score in scores]) if None in scores else found

    async def _filtered_step(
        self, queue: str, first: bytes, fields: int, wanted: BodyFilter
    ) -> tuple[bytes, BodyChunk, int]:
        """Scan one step of bodies that pass; return the next cursor, the bodies, and how many fields a step may take.

        If scripts are refused, all bodies pass.
        """
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        flags = int(wanted.is_plain), int(wanted.in_lower), SCAN_BODY_BYTES
        try:
            now, depth, cursor, count, size, taken_us, found, left = await self._runner.run(
                FILTERED_BODIES, (zset, attributes), (first, fields, wanted.pattern, *flags, *wanted.texts)
            )
        except ScriptsRefusedError:
            step = await self._step(queue, first, fields)
            cursor, chunk = step.cursor, await self._chunk_of(step)
            return cursor, chunk, fitting(len(chunk.bodies), chunk.size, _STEP_FIELDS)
        read = dict(zip(found[::2], found[1::2], strict=True))
        values = await bounded_values(self._runner, attributes, left)
        too_long = [name for name, value in zip(left, values, strict=True) if isinstance(value, int)]
        read |= {name: value for name, value in zip(left, values, strict=True) if isinstance(value, bytes)}
        ids, bodies = _bodies(list(read), list(read.values()))
        rest = max(0, count - len(read) - len(too_long))
        too_long = [*filter(_is_id, too_long)]
        chunk = BodyChunk(int(now), depth, ids, bodies, sum(map(len, bodies)), int(cursor) == 0, too_long, rest)
        most = min(
            2 * fields,
            fields * FILTERED_STEP_US // taken_us if taken_us > 0 else _FIRST_FILTERED_FIELDS,
            fields * SCAN_BODY_BYTES // size if size else _FILTERED_FIELDS_MAX,
        )
        return cursor, chunk, max(_FILTERED_FIELDS_MIN, min(most, _FILTERED_FIELDS_MAX))

    async def _timed(self, queue: str, first: bytes, fields: int) -> tuple[_Step, float]:
        """Scan one step, and return how many seconds it took too."""
        started_s = time.monotonic()
        found = await self._step(queue, first, fields)
        return found, time.monotonic() - started_s

    async def _step(self, queue: str, first: bytes, fields: int) -> _Step:
        """Scan one step from a cursor, without the values if they are too long for one reply."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        scan: list[bytes | str | int] = ["HSCAN", attributes, first, "COUNT", fields]
        try:
            with replies_of_at_most(UNMEASURED_BYTES_MAX):
                clock, depth, (cursor, found) = await self._runner.ask(("TIME",), ("ZCARD", zset), scan)
        except ReplyTooLongError:
            clock, depth, (cursor, names) = await self._runner.ask(("TIME",), ("ZCARD", zset), (*scan, "NOVALUES"))
            return _Step(attributes, cursor, clock_ms(clock), depth, names, None)
        return _Step(attributes, cursor, clock_ms(clock), depth, found[::2], found[1::2])

    async def _chunk_of(self, found: _Step) -> BodyChunk:
        """Return the bodies that a step has found; if they were too long for one reply, they are read in several."""
        names, values, too_long = found.names, found.values, list[bytes]()
        if values is None:
            bounded = await bounded_values(self._runner, found.attributes, names)
            too_long = [name for name, value in zip(names, bounded, strict=True) if isinstance(value, int)]
            read = {name: value for name, value in zip(names, bounded, strict=True) if isinstance(value, bytes)}
            names, values = list(read), list(read.values())
        ids, bodies = _bodies(names, values)
        size = sum(map(len, bodies))
        if size > SCAN_BODY_BYTES and max(map(len, bodies)) > SCAN_BODY_BYTES:
            are_short = [len(body) <= SCAN_BODY_BYTES for body in bodies]
            too_long += [id for id, is_short in zip(ids, are_short, strict=True) if not is_short]
            ids, bodies = list(compress(ids, are_short)), list(compress(bodies, are_short))
            size = sum(map(len, bodies))
        too_long = [*filter(_is_id, too_long)]
        return BodyChunk(found.at_ms, found.depth, ids, bodies, size, found.is_last, too_long)


def _unmet(chunk: BodyChunk, met: set[int]) -> BodyChunk:
    """Return the bodies whose ids have not come before, and note that they have."""
    # Two parts may return the same body, one of them much later: all hashes are kept, but few bodies pass a filter.
    new: list[bool] = []
    for id in chunk.ids:
        new.append(hash(id) not in met)
        met.add(hash(id))
    too_long = []
    for id in chunk.too_long:
        too_long += [id] if hash(id) not in met else []
        met.add(hash(id))
    ids, bodies = list(compress(chunk.ids, new)), list(compress(chunk.bodies, new))
    return chunk._replace(ids=ids, bodies=bodies, size=sum(map(len, bodies)), too_long=too_long)


def _parts_from(cursor: bytes, depth: int, *, can_split: bool) -> list[tuple[bytes, ScanPart]]:
    """Return the parts of the rest of a scan, each with the cursor to begin at."""
    if not can_split or depth < _PARTS * MESSAGES_PER_PART_MIN:
        return [(cursor, WHOLE)]
    parts = [ScanPart(index, _PARTS) for index in range(_PARTS)]
    # The first of them begins within its part, and those before it have been read.
    return [
        (cursor if has_passed(cursor, part.first) else part.first, part)
        for part in parts
        if not part.has_reached_end(cursor)
    ]


def _is_id(name: bytes) -> bool:
    return name not in QUEUE_FIELDS and (len(name) == _ID_LENGTH or not name.endswith(COUNTER_SUFFIXES))


def _bodies(names: Sequence[bytes], values: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the ids and the bodies among fields: the others are attributes and counters."""
    # In most queues all names have the length of an id, or end as those of counters do.
    try:
        are_bodies = bytes(map(len, names)).translate(_HAS_ID_LENGTH)
    except ValueError:
        # A name of more than 255 bytes.
        are_bodies = b""
    if are_bodies and 0 not in are_bodies:
        return list(names), list(values)
    if not are_bodies or not all(map(_ENDS_AS_COUNTER, compress(names, are_bodies.translate(_INVERTED)))):
        are_bodies = bytes(map(_is_id, names))
    return list(compress(names, are_bodies)), list(compress(values, are_bodies))
