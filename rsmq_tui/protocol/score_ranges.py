"""Counting messages, and reading those of a range of scores, rising, where a scan of all would be a waste."""

from collections.abc import AsyncGenerator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from redis.exceptions import InvalidResponse

from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.running import ScriptRunner, raise_first
from rsmq_tui.protocol.scan import CHUNK_MESSAGES
from rsmq_tui.protocol.scan_chunk import ScanChunk
from rsmq_tui.protocol.scan_parts import ScanPart

_QUEUES_PER_TRIP = 250


class ScoreRange(NamedTuple):
    """Scores from ``low`` to ``high``, as the server writes bounds: ``(`` before one leaves it out."""

    low: bytes = b"-inf"
    high: bytes = b"+inf"


class QueueSize(NamedTuple):
    """How many messages a queue holds, and how many of them are in each of the ranges that were asked for.

    ``exists`` tells whether it has attributes; ``problem`` is why its messages cannot be counted, or None.
    """

    depth: int
    in_ranges: tuple[int, ...]
    exists: bool
    problem: str | None = None


class QueueRanges:
    """Counts and reads ranges of scores; raises ``wrongType`` where a key of the queue is something else."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def now_ms(self) -> int:
        """Return the server's time."""
        (time,) = await self._ask(("TIME",))
        return clock_ms(time)

    async def sizes(self, queues: Sequence[str], ranges: Sequence[ScoreRange] = ()) -> list[QueueSize]:
        """Count the messages of queues; a key of another type is told in the queue's place."""
        found: list[QueueSize] = []
        for start in range(0, len(queues), _QUEUES_PER_TRIP):
            part = queues[start : start + _QUEUES_PER_TRIP]
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
        """Return each so manieth score of a range, which holds ``size`` messages: where it may be cut."""
        zset = self._keys.messages(queue)
        (before,) = await self._ask(("ZCOUNT", zset, "-inf", _below(bounds.low)))
        ranks = range(before + every, before + size, every)
        replies = await self._ask(*(("ZRANGE", zset, rank, rank, "WITHSCORES") for rank in ranks)) if ranks else []
        return [reply[1] for reply in replies if reply]

    async def can_split(self, queue: str) -> bool:
        """Tell whether this server's scans can be split into parts, by a look at how it counts in this queue."""
        part = ScanPart(1, 2)
        ((following, _),) = await self._ask(("ZSCAN", self._keys.messages(queue), part.first, "COUNT", 1))
        try:
            part.check_step(part.first, following)
        except InvalidResponse:
            return False
        return not part.has_reached_end(following)

    async def _page(self, zset: bytes, low: bytes, high: bytes, count: int) -> tuple[int, int, list[bytes]]:
        time, depth, found = await self._ask(
            ("TIME",), ("ZCARD", zset), ("ZRANGEBYSCORE", zset, low, high, "WITHSCORES", "LIMIT", 0, count)
        )
        return clock_ms(time), depth, found

    async def chunks(
        self, queue: str, bounds: ScoreRange, *, remember: bool, count: int = CHUNK_MESSAGES
    ) -> AsyncGenerator[ScanChunk, None]:
        """Yield every message whose score is and stays in the range, rising; a few at a time.

        Only ids and scores are read: ``QueueScan.read`` reads more. With ``remember`` a message whose score rises
        within the range comes once too; that takes some 100 bytes for each. A round trip takes about ``count``
        messages, and all those that have the same score.
        """
        zset, low, wanted = self._keys.messages(queue), bounds.low, count
        # What came already: of all, or of those with the score from which the next question begins.
        seen: set[int] = set()
        while True:
            at_ms, depth, found = await self._page(zset, low, bounds.high, wanted)
            ids, scores = found[::2], found[1::2]
            fresh = [hash(id) not in seen for id in ids] if seen else [True] * len(ids)
            if any(fresh):
                new_ids, new_scores = list(compress(ids, fresh)), list(compress(scores, fresh))
                nothing: list[bytes | None] = [None] * len(new_ids)
                yield ScanChunk(at_ms, depth, (new_ids, new_scores, nothing, nothing, [0] * len(new_ids), nothing))
            if len(ids) < wanted:
                return
            if remember:
                seen.update(map(hash, ids))
            else:
                seen = {hash(id) for id, score in zip(ids, scores, strict=True) if score == scores[-1]}
            # Those with the last score are asked for again: some of them may be yet to come. Where they are all that
            # came, more has to be asked for at once.
            wanted = wanted * 4 if scores[0] == scores[-1] else count
            low = scores[-1]

    async def _ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        replies = await self._runner.commands(*commands)
        raise_first(replies)
        return replies


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
    """Return the upper bound of what lies below a lower bound."""
    return low[1:] if low.startswith(b"(") else b"(" + low
