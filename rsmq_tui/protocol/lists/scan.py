"""Scanning list queues: every item, once, without changing anything and without holding the server for long.

A list has no cursor: positions are all there is, and every pop and push shifts them. The walks of ``scan_walks`` find
their place again before each step. First the queue is read, then what is in processing, for that is the way that items
take; at last what came back meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from rsmq_tui.protocol.lists.item_ids import READY_SCORE, Place
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.scan_leases import LeaseBook
from rsmq_tui.protocol.lists.scan_places import SPAN
from rsmq_tui.protocol.lists.scan_reading import ListLook, Stretch, hashes, sha_of, size_of
from rsmq_tui.protocol.lists.scan_walks import Found, ProcessingWalk, QueueWalk, without
from rsmq_tui.protocol.running import ScriptRunner
from rsmq_tui.protocol.scan import CHUNK_MESSAGES, sent
from rsmq_tui.protocol.scan_chunk import ReadField, ScanChunk

PLACES: tuple[Place, ...] = ("queue", "processing")
# How much of the take end is read with what is in processing: what has left there since then may be found here.
_END_ITEMS = 64
# Those without a lease wait, this many and this much at most, until leases have been read again.
_HELD_ITEMS = 5_000
_HELD_BYTES = 16_000_000
# What is known of items: that nothing counts how often they were received, and how long they are.
_WITHOUT: frozenset[ReadField] = frozenset(("counts", "size"))
_WITH_BODIES: frozenset[ReadField] = frozenset((*_WITHOUT, "body"))


@dataclass(frozen=True, slots=True)
class ListChunk(ScanChunk):
    """Some items of a list queue; what was given before it began anew is not given again, but for items alike."""


class ListScan:
    """Scans list queues; raises ``wrongType`` where a key of the queue is something else."""

    def __init__(self, runner: ScriptRunner, names: ListNames) -> None:
        self._runner = runner
        self._names = names

    async def chunks(
        self,
        queue: str,
        *,
        counts: bool = False,
        bodies: bool = True,
        sizes: bool = True,
        count: int = CHUNK_MESSAGES,
        places: Sequence[Place] = PLACES,
    ) -> AsyncGenerator[ListChunk, None]:
        """Yield every item that is there throughout once, in the queue or in processing, whichever way it goes.

        Of items with the same bytes only the number counts. Ids hold positions as of the ``at_ms`` of their chunk, and
        scores are as ``item_ids`` has them. Sizes are always known and counts never, whatever is asked for. Positions
        in the queue fall from chunk to chunk, for it is read from the end that producers push to. A round trip takes
        about ``count`` items, fewer where they are long, and the next is under way while the caller works on a chunk.
        Close it with ``aclose`` when leaving early. It remembers 8 bytes of each item, and up to 200,000 leases.

        It may come short of some, or give some twice, where a queue is replaced meanwhile or trimmed at the producers'
        end, or too much is pushed between two calls to find the place, which ``begun_anew`` tells; and of items that
        are alike, where clients take from both ends, or where more is pushed between two calls than one call reads. An
        item that goes to and fro is found if no more than 500 items are in processing.
        """
        scan = _Scan(ListLook(self._runner, self._names, queue), count, places)
        coming: asyncio.Task[list[_Scored]] | None = None
        last, told = None, 0
        try:
            while True:
                found = await (scan.step() if coming is None else coming)
                # The server reads on while the caller works.
                coming = None if scan.is_over else await sent(self._runner, scan.step())
                for each, scores in found:
                    if each.items:
                        last, told = each, scan.begun_anew
                        yield _chunk(each, scores, bodies, told)
                if coming is None:
                    break
            if last is not None and scan.begun_anew > told:
                # Nothing was read since the place was lost.
                yield _chunk(last.only(()), (), bodies, scan.begun_anew)
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)


_Scored = tuple[Found, Sequence[bytes]]


class _Scan:
    """One scan: the queue, then what is in processing, then what has come back from there."""

    def __init__(self, look: ListLook, count: int, places: Sequence[Place]) -> None:
        self._look = look
        self._queue = QueueWalk(look, count) if "queue" in places else None
        self._processing = ProcessingWalk(look, count) if "processing" in places else None
        self._book: LeaseBook | None = None
        self._held: list[Found] = []
        # Those of the queue that were taken since they were given, and have been seen in processing.
        self._met: Counter[int] = Counter()
        self._taken: tuple[int, Counter[int]] | None = None
        self.is_over = False

    @property
    def begun_anew(self) -> int:
        """How often the place in the queue was lost."""
        return 0 if self._queue is None else self._queue.begun_anew

    async def step(self) -> list[_Scored]:
        """Read on; the last step is the one after which ``is_over`` says so."""
        if self._queue is not None and not self._queue.is_over:
            found = await self._queue.step()
            self.is_over = self._queue.is_over and self._processing is None
            return [] if found is None else [(found, [READY_SCORE] * len(found.items))]
        if self._processing is not None and not self._processing.is_over:
            scored = await self._step_in_processing(self._processing)
            self.is_over = self._processing.is_over and self._queue is None
            return scored
        self.is_over = True
        if self._queue is None or self._processing is None or self._book is None:
            return []
        return await self._come_back(self._queue, self._processing, self._book)

    async def _step_in_processing(self, walk: ProcessingWalk) -> list[_Scored]:
        if self._book is None:
            self._book = LeaseBook(self._look.runner, self._look.keys[2])
            await self._book.read()
        ending = () if self._queue is None else self._queue.ends(_END_ITEMS)
        found = await walk.step(*ending)
        if found is not None and self._queue is not None:
            fresh = self._not_met(found, self._queue)
            found = found.only(fresh)
        scored = [] if found is None else self._leased(found, self._book)
        held = sum(len(each.items) for each in self._held)
        if walk.is_over or held > _HELD_ITEMS or sum(map(_bytes, self._held)) > _HELD_BYTES:
            scored += await self._unleased(self._book)
        return scored

    def _leased(self, found: Found, book: LeaseBook) -> list[_Scored]:
        """Return those that have a lease; the others wait, for theirs may have begun since leases were read."""
        deadlines = list(map(book.take, found.marks))
        if None in deadlines:
            self._held.append(found.only([place for place, deadline in enumerate(deadlines) if deadline is None]))
            found = found.only([place for place, deadline in enumerate(deadlines) if deadline is not None])
        return [(found, [deadline for deadline in deadlines if deadline is not None])]

    async def _unleased(self, book: LeaseBook) -> list[_Scored]:
        if not self._held:
            return []
        await book.read()
        held, self._held = self._held, []
        return [(each, [book.take(mark) or book.missing for mark in each.marks]) for each in held]

    def _not_met(self, found: Found, walk: QueueWalk) -> list[int]:
        """Return which have not been given as they were in the queue, from where they have been taken since then."""
        left = walk.left(found.moment.ready, *found.moment.stretches[1:])
        # Where nothing of it is seen to be left, consumers have taken all.
        taken, gone = self._taken_from(walk, left.kept if left else 0), walk.gone
        fresh = []
        for place, mark in enumerate(found.marks):
            if taken[mark] + gone[mark] > self._met[mark]:
                self._met[mark] += 1
            else:
                fresh.append(place)
        return fresh

    def _taken_from(self, walk: QueueWalk, left: int) -> Counter[int]:
        """Count by their hashes what was read of the queue behind that many."""
        if self._taken is None or self._taken[0] != left:
            self._taken = left, Counter(walk.history[left:])
        return self._taken[1]

    async def _come_back(self, walk: QueueWalk, processing: ProcessingWalk, book: LeaseBook) -> list[_Scored]:
        """Read what moved between the two while they were read: each at its other place whenever it was looked for.

        That is what was put back to be taken next, and what is in processing, less what was given wherever it was. In
        processing only so much can be read at the same moment.
        """
        moment = await self._look.at(*walk.ends(SPAN), Stretch("processing", True, 0, SPAN))
        items, head, worked_on = moment.stretches
        left = walk.left(moment.ready, items, head)
        if left is None:
            return []
        given = Counter(walk.history[left.kept :]) + walk.gone + Counter(processing.given)
        given.subtract(self._met)
        is_whole = len(worked_on) == moment.hidden
        back, taken = items[: left.behind], worked_on if is_whole else ()
        behind = Found("queue", moment, range(len(back)), back, hashes(back))
        behind = behind.only(without(behind.marks, given))
        again = Found("processing", moment, range(len(taken)), taken, hashes(taken))
        self._held.append(again.only(without(again.marks, given)))
        return [(behind, [READY_SCORE] * len(behind.items)), *await self._unleased(book)]


def _bytes(found: Found) -> int:
    return sum(map(size_of, found.items))


def _chunk(found: Found, scores: Sequence[bytes], bodies: bool, begun_anew: int) -> ListChunk:
    items, letter = found.items, found.place[0]
    ids = [f"{letter}:{at}:{sha_of(item)}".encode() for at, item in zip(found.positions, items, strict=True)]
    nothing: list[bytes | None] = [None] * len(items)
    read = [item if isinstance(item, bytes) else None for item in items] if bodies else nothing
    depth = found.moment.ready + found.moment.hidden
    columns = (ids, scores, nothing, nothing, list(map(size_of, items)), read)
    too_long = read.count(None) if bodies else 0
    return ListChunk(found.moment.at_ms, depth, columns, too_long, begun_anew, _WITH_BODIES if bodies else _WITHOUT)
