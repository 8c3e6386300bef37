"""Walking through a queue from its front, in the order in which messages are due, while consumers move them."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.running import ScriptRunner, raise_first
from rsmq_tui.protocol.scan import CHUNK_MESSAGES
from rsmq_tui.protocol.scan_chunk import ScanChunk

# How far a page reaches back into the one before: what consumers take from the front meanwhile shifts all ranks.
_OVERLAP = 50
_RECENT_IDS = 65_536


class QueueFronts:
    """Walks through queues of one namespace; raises ``wrongType`` where a key of the queue is something else."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def depth(self, queue: str) -> int:
        """Return how many messages a queue holds."""
        (depth,) = await self._ask(("ZCARD", self._keys.messages(queue)))
        return int(depth)

    async def chunks(self, queue: str, count: int = CHUNK_MESSAGES) -> AsyncGenerator[ScanChunk, None]:
        """Yield ids and scores, those due first at the front, about ``count`` at a time.

        Whatever stays where it is comes once, and what becomes due later meanwhile once at most. ``QueueScan.read``
        reads more of them. It remembers 8 bytes of each, and up to 65,536 ids.
        """
        zset, met = self._keys.messages(queue), _Met()
        start, last = 0, (float("-inf"), b"")
        while True:
            asked = count + _OVERLAP if start else count
            at_ms, depth, found = await self._page(zset, start, start + asked - 1)
            ids, scores = found[::2], found[1::2]
            places = list(zip(map(float, scores), ids, strict=True))
            if start and (not places or places[0] > last):
                # Something in between may have been passed over.
                start = max(0, min(start, depth) - count)
                continue
            is_last = len(ids) < asked
            first = bisect_right(places, last)
            fresh = [place for place in range(first, len(ids)) if met.is_new(ids[place])]
            if fresh:
                nothing: list[bytes | None] = [None] * len(fresh)
                chosen = [ids[place] for place in fresh], [scores[place] for place in fresh]
                yield ScanChunk(at_ms, depth, (*chosen, nothing, nothing, [0] * len(fresh), nothing))
            if is_last:
                return
            last = max(last, places[-1])
            start = max(start + len(ids) - _OVERLAP, 1)

    async def _page(self, zset: bytes, start: int, stop: int) -> tuple[int, int, list[bytes]]:
        time, depth, found = await self._ask(("TIME",), ("ZCARD", zset), ("ZRANGE", zset, start, stop, "WITHSCORES"))
        return clock_ms(time), depth, found

    async def _ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        replies = await self._runner.commands(*commands)
        raise_first(replies)
        return replies


class _Met:
    """Which ids have come, in little memory: what is received while a queue is read lies further back then."""

    def __init__(self) -> None:
        self._recent: set[bytes] = set()
        self._runs: list[array[int]] = []

    def is_new(self, id: bytes) -> bool:
        """Tell whether an id comes for the first time."""
        if id in self._recent or (self._runs and _is_in(hash(id), self._runs)):
            return False
        self._recent.add(id)
        if len(self._recent) >= _RECENT_IDS:
            # Python's hash of bytes has 64 bits and a secret of this process: nobody can make two ids collide.
            self._runs.append(array("q", sorted(map(hash, self._recent))))
            self._recent = set()
        return True


def _is_in(value: int, runs: Iterable["array[int]"]) -> bool:
    for run in runs:
        place = bisect_left(run, value)
        if place < len(run) and run[place] == value:
            return True
    return False
