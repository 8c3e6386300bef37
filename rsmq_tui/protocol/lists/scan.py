"""Reads every item of a list queue once, without changing anything and without holding the server for long.

A list has no cursor: positions are all there is, and every pop and push shifts them. So each window begins with items
that were read before, and is compared with them. Items are compared by hashes of their bytes; of equal items only the
number counts. The queue is read first, then processing, because items move that way; then items that were put back.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.lists.naming import (
    PLACE_OF,
    READY_SCORE,
    UNKNOWN_LEASE_SCORE,
    UNLEASED_SCORE,
    Area,
    ItemPlace,
    ListNames,
    leased_item,
)
from rsmq_tui.protocol.lists.pages import (
    Item,
    ListRanges,
    Moment,
    Range,
    sha_of,
    size_of,
)
from rsmq_tui.protocol.rsmq.scan import CHUNK_MESSAGES, CHUNK_MESSAGES_MIN, SCAN_BODY_BYTES, ReadField, ScanChunk, sent

# Each takes 60 bytes of memory. The deadlines of further leases are not known.
LEASES_MAX = 200_000


class LeaseBook:
    """Deadlines by the bytes of items, each given once, the earliest first."""

    def __init__(self, runner: ScriptRunner, key: bytes) -> None:
        self._runner = runner
        self._key = key
        self._deadlines: dict[int, list[bytes]] = {}
        self._seen: set[int] = set()
        self._is_whole = True

    async def read(self) -> None:
        """Read all leases that were not read before."""
        cursor, count = b"0", CHUNK_MESSAGES_MIN
        while True:
            ((cursor, found),) = await self._runner.ask(("ZSCAN", self._key, cursor, "COUNT", count))
            self._add(found)
            if int(cursor) == 0:
                break
            if len(self._seen) >= LEASES_MAX:
                self._is_whole = False
                break
            longest = max(map(len, found[::2]), default=1)
            count = max(CHUNK_MESSAGES_MIN, min(CHUNK_MESSAGES, SCAN_BODY_BYTES // (longest or 1)))
        for deadlines in self._deadlines.values():
            deadlines.sort(key=float, reverse=True)

    def pop(self, mark: int) -> bytes | None:
        """Return a deadline for an item of that hash, or None if none is left."""
        deadlines = self._deadlines.get(mark)
        return deadlines.pop() if deadlines else None

    @property
    def missing(self) -> bytes:
        """The score of an item without a deadline."""
        return UNLEASED_SCORE if self._is_whole else UNKNOWN_LEASE_SCORE

    def _add(self, found: Sequence[bytes]) -> None:
        for member, deadline in zip(found[::2], found[1::2], strict=True):
            known = hash(member)
            item = leased_item(member)
            if known not in self._seen and item is not None:
                self._seen.add(known)
                self._deadlines.setdefault(hash(item), []).append(deadline)


def hashes(items: Sequence[Item]) -> list[int]:
    """Return a hash for each item: Python's, which has 64 bits and a secret seed."""
    return list(map(hash, items))


# This many items in a row identify a place, if no equal run is near.
_GRAM = 8


def kept(window: Sequence[int], before: Sequence[int]) -> int:
    """Return how many items at the start of a window are in ``before``, in that order; others may be missing."""
    place, size = 0, len(before)
    for count, item in enumerate(window):
        while place < size and before[place] != item:
            place += 1
        if place == size:
            return count
        place += 1
    return len(window)


def ends_of(window: Sequence[int], tail: Sequence[int], needed: int) -> list[int]:
    """Return where the tail may end in a window: at least ``needed`` items must agree, as far as the window reaches."""
    size, last = len(tail), tail[-1]
    return [
        end
        for end in range(needed, len(window) + 1)
        if window[end - 1] == last and window[max(0, end - size) : end] == tail[max(0, size - end) :]
    ]


def end_of_most(window: Sequence[int], tail: Sequence[int]) -> int | None:
    """Return where a tail ends in a window if some of its items are gone; None if that is not clear."""
    for stop in range(len(tail), max(_GRAM, len(tail) - _OVERLAP_ITEMS) - 1, -1):
        ends = ends_of(window, tail[stop - _GRAM : stop], _GRAM)
        if len(ends) == 1:
            return ends[0] + kept(window[ends[0] :], tail[stop:])
    return None


def index_of(history: "array[int]", gram: "array[int]") -> int | None:
    """Return where these items first follow each other in a history."""
    for at, mark in enumerate(history):
        if mark == gram[0] and history[at : at + len(gram)] == gram:
            return at
    return None


@dataclass(frozen=True, slots=True)
class WindowItems:
    """Items at one moment with their positions, counted from the front, and their hashes."""

    place: ItemPlace
    moment: Moment
    positions: Sequence[int]
    items: Sequence[Item]
    marks: Sequence[int]

    @property
    def bodies(self) -> list[bytes]:
        """The items that were read whole."""
        return [item for item in self.items if isinstance(item, bytes)]

    def only(self, chosen: Sequence[int]) -> "WindowItems":
        """Return some of the items, by their indexes."""
        if len(chosen) == len(self.items):
            return self
        positions, items, marks = ([column[at] for at in chosen] for column in (self.positions, self.items, self.marks))
        return WindowItems(self.place, self.moment, positions, items, marks)  # type: ignore[arg-type] # columns differ


# How many items a window repeats of those read before: more if many were pushed, fewer if they are long.
_OVERLAP_ITEMS, _OVERLAP_MAX, _OVERLAP_BYTES = 64, 4_096, 4_000_000


class ListWalk:
    """Walks through a list in windows of ``count`` items, from the front to the end that items are pushed to.

    Places are counted from that other end: place 0 is the item pushed last. Consumers take items from the front, or put
    them back there, among the items already read, so that shifts no unread item. A push shifts all places by one: the
    repeated items at the start of a window show by how many. If they are equal to items that follow, the walk assumes
    the fewest pushes that agree with the list's length: none if the window reaches the front, where the list may have
    grown too. It goes from the place ``first``, by default the front, to ``last``.

    ``history`` holds a hash of each item in the order in which they were read. ``lost`` counts how often the place was
    not found, or was ambiguous while the list changed: items may have been missed, or read twice. ``overtaken`` counts
    how often none of the items read before was left: all were taken, or the list was replaced.
    """

    def __init__(
        self, ranges: ListRanges, place: ItemPlace, *, count: int, first: int | None = None, last: int = 0,
        most_bytes: int = SCAN_BODY_BYTES, whole_bytes: int = SCAN_BODY_BYTES,
    ) -> None:  # fmt: skip
        self.history: array[int] = array("q")
        self.is_over = False
        self._ranges, self._place, self._count = ranges, place, count
        self._most_bytes, self._whole_bytes = most_bytes, whole_bytes
        self._next, self._last = first, last
        self._length = 0
        self._overlap = _OVERLAP_ITEMS
        # The sizes of the items that were read last.
        self._sizes: list[int] = []
        self.overtaken = self._lost = self._ambiguous = 0
        self._has_changed = self._has_others = False

    @property
    def lost(self) -> int:
        """How often items may have been missed, or read twice."""
        return self._lost + (self._ambiguous if self._has_changed else 0)

    @property
    def window(self) -> Range:
        """The range to read next."""
        if self._next is None:
            return Range(self._place, True, 0, self._count - 1)
        last = max(self._last, self._next - self._count + 1)
        return Range(self._place, False, max(last, self._next + (self._overlap if self.history else 0)), last)

    @property
    def most_bytes(self) -> int:
        """How many bytes of the window may be copied: those of the repeated items are added."""
        return self._most_bytes + sum(self._sizes) * self._overlap // max(1, len(self._sizes))

    async def step(self) -> WindowItems:
        """Read the next window; there may be nothing new in it."""
        return self.new_items(
            await self._ranges.read(self.window, most_bytes=self.most_bytes, whole_bytes=self._whole_bytes), 0
        )

    def new_items(self, now: Moment, number: int) -> WindowItems:
        """Return the new items of the window, which is the range ``number`` of ``now``."""
        length = now.length(self._place)
        # The first window is counted from the front, and may reach beyond ``last``.
        positions = now.positions(number)
        positions = positions[: max(0, length - self._last - positions.start)]
        items = now.items[number][: len(positions)]
        if not items:
            # Consumers have taken all items of the window.
            self._go_on_at(length - 1 if self._next is None else min(self._next, length - 1))
            return WindowItems(self._place, now, (), (), ())
        marks = hashes(items)
        top = length - 1 - positions[0]
        known = self._read_before(marks, top, length) if self.history else 0
        if known is None:
            return WindowItems(self._place, now, (), (), ())
        fresh = marks[known:]
        pushed = top - known - self._next if self.history and self._next is not None else 0
        self._has_changed = self._has_changed or pushed != 0 or (bool(self.history) and length != self._length)
        longest = max(map(size_of, items)) or 1
        self._overlap = max(1, min(_OVERLAP_ITEMS, _OVERLAP_BYTES // (16 * longest)), min(4 * pushed, _OVERLAP_MAX))
        if not fresh and top - len(items) >= self._last:
            # The window was cut short before anything new.
            self._overlap = 1
        self._sizes = list(map(size_of, items[-self._overlap :]))
        self.history.extend(fresh)
        self._has_others = self._has_others or any(mark != self.history[0] for mark in fresh)
        self._length = length
        self._go_on_at(top - len(items))
        return WindowItems(self._place, now, positions[known:], items[known:], fresh)

    def _go_on_at(self, place: int) -> None:
        self._next = place
        self.is_over = place < self._last

    def _read_before(self, marks: list[int], top: int, length: int) -> int | None:
        """Return how many items at the start of a window were read before; None if the window must repeat more items.

        ``top`` is the place of its first item.
        """
        assert self._next is not None, "something was read before"
        tail = self.history[-self._overlap :].tolist()
        is_front = top == length - 1
        # At least this many were pushed, or put back to the front: consumers may have taken some meanwhile.
        pushed = max(0, length - self._length)
        at_most = min(len(marks), max(0, top - self._next - (0 if is_front else pushed)))
        ends = ends_of(marks, tail, 1 if is_front else min(_GRAM, len(tail), self._overlap))
        if ends and (is_front or pushed < self._overlap):
            # An end beyond that is only possible if items were removed from the middle.
            likely = [end for end in ends if end <= at_most] or ends[::-1]
            self._ambiguous += len(likely) > 1 and self._has_others
            return likely[-1]
        most = end_of_most(marks, tail)
        if most is not None:
            return most
        if is_front:
            # Consumers have taken most of what was read, or the list was trimmed at its other end, or replaced.
            start = index_of(self.history, array("q", marks[:_GRAM]))
            before = tail if start is None else self.history[start:].tolist()
            self._ambiguous += len(set(before)) < len(before)
            known = kept(marks, before)
            self.overtaken += not known
            return known
        if self._overlap < _OVERLAP_MAX and self.most_bytes < self._most_bytes + _OVERLAP_BYTES:
            self._overlap = min(_OVERLAP_MAX, max(4 * self._overlap, pushed + _OVERLAP_ITEMS))
            return None
        self._lost += 1
        return at_most


# How much a change reads at a time, which takes the server a few ms. Changes need whole items, however long.
_CHANGE_ITEMS, _CHANGE_BYTES, _EVERY_BYTE = 4_096, 4_000_000, 1 << 40


def whole_walk(
    runner: ScriptRunner, names: ListNames, queue: str, area: Area, first: int | None = None, last: int = 0
) -> ListWalk:
    """Return a walk through the queue or the processing list that reads whole items, however long."""
    return ListWalk(
        ListRanges(runner, names, queue), PLACE_OF[area], count=_CHANGE_ITEMS, first=first, last=last,
        most_bytes=_CHANGE_BYTES, whole_bytes=_EVERY_BYTE,
    )  # fmt: skip


PLACES: tuple[ItemPlace, ...] = ("queue", "processing")
# How many items of the front are read along with processing, to find those that were put back meanwhile.
_FRONT_ITEMS = 500
# At most this many items without a lease are held back until leases have been read again.
_HELD_ITEMS = 5_000
# The fields that count as read: items have no receive counts, and sizes are always known.
_WITHOUT: frozenset[ReadField] = frozenset(("counts", "size"))
_WITH_BODIES: frozenset[ReadField] = frozenset((*_WITHOUT, "body"))


class ListScan:
    """Scans list queues; raises ``wrongType`` if a key of the queue has another type."""

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
        places: Sequence[ItemPlace] = PLACES,
    ) -> AsyncGenerator[ScanChunk, None]:
        """Yield once every item that stays in the queue or in processing during the scan, even if it moves.

        Items in the queue come in the order in which they are taken. Of items with the same bytes only the number
        counts. Ids hold positions as of the ``at_ms`` of their chunk, and scores are those of ``naming``. Sizes are
        always known and counts never, whatever is asked for. A round trip takes about ``count`` items, fewer if they
        are long, and the next is under way while the caller works on a chunk. Close it with ``aclose`` when leaving
        early. It remembers 8 bytes of each item, and up to 200,000 leases.

        It may miss or repeat items if thousands are pushed between two calls, if items are removed from the middle, if
        the queue is replaced, or if long runs of equal items follow each other while the queue changes: ``restarts``
        of the chunks counts how often that may be so. An item that is taken and put back is found if it is among the
        500 that are taken next. Not counted is whether one that is put to the front beside equal items is missed or
        repeated: another one may have been pushed instead.
        """
        scan = _Scan(ListRanges(self._runner, self._names, queue), count, places)
        coming: asyncio.Task[list[_Scored]] | None = None
        reported = 0
        last: WindowItems | None = None
        try:
            while True:
                found = await (scan.step() if coming is None else coming)
                # The server reads on while the caller works.
                coming = None if scan.is_over else await sent(self._runner, scan.step())
                for last, scores in found:
                    if last.items:
                        reported = scan.lost
                        yield _chunk(last, scores, bodies, reported)
                if coming is None:
                    break
            if last is not None and scan.lost > reported:
                # Nothing was new in the last windows.
                yield _chunk(last.only(()), (), bodies, scan.lost)
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)


_Scored = tuple[WindowItems, Sequence[bytes]]


class _Scan:
    """One scan: the queue, then processing, then the items that were put back."""

    def __init__(self, ranges: ListRanges, count: int, places: Sequence[ItemPlace]) -> None:
        self._ranges = ranges
        self._queue = ListWalk(ranges, "queue", count=count) if "queue" in places else None
        self._processing = ListWalk(ranges, "processing", count=count) if "processing" in places else None
        self._book: LeaseBook | None = None
        self._held: list[WindowItems] = []
        # Items that were yielded from the queue, then taken, and seen in processing.
        self._met: Counter[int] = Counter()
        # Items that were yielded from processing, and how many of these were seen there again.
        self._given: Counter[int] = Counter()
        self._again: Counter[int] = Counter()
        self._returned = False
        self._lost = 0
        self.is_over = False

    @property
    def lost(self) -> int:
        """How often items may have been missed, or yielded twice."""
        walks = [walk for walk in (self._queue, self._processing) if walk is not None]
        return self._lost + sum(walk.lost + walk.overtaken for walk in walks)

    async def step(self) -> list[_Scored]:
        """Read the next items; the last step sets ``is_over``."""
        if self._queue is not None and not self._queue.is_over:
            found = await self._queue.step()
            self.is_over = self._queue.is_over and self._processing is None
            return [(found, [READY_SCORE] * len(found.items))]
        if self._processing is not None:
            return await self._step_in_processing(self._processing)
        self.is_over = True
        return []

    async def _step_in_processing(self, walk: ListWalk) -> list[_Scored]:
        book = self._book
        if book is None:
            book = self._book = LeaseBook(self._ranges.runner, self._ranges.keys[2])
            await book.read()
        queue, asked = self._queue, [walk.window]
        if queue is not None:
            asked += [queue.window, Range("queue", True, 0, _FRONT_ITEMS - 1)]
        now = await self._ranges.read(*asked, most_bytes=walk.most_bytes, whole_bytes=SCAN_BODY_BYTES)
        found, back = walk.new_items(now, 0), None
        if queue is not None:
            queue.new_items(now, 1)
            found, back = self._not_given(queue, found)
        self.is_over = walk.is_over
        scored = [self._leased(found, book)]
        if self.is_over and back is not None:
            scored.append((back, [READY_SCORE] * len(back.items)))
        if self.is_over or sum(len(each.items) for each in self._held) > _HELD_ITEMS:
            scored += await self._unleased(book)
        return scored

    def _leased(self, found: WindowItems, book: LeaseBook) -> _Scored:
        """Return the items with a lease; hold back the others, which may have got one since leases were read."""
        deadlines = list(map(book.pop, found.marks))
        self._held.append(found.only([at for at, deadline in enumerate(deadlines) if deadline is None]))
        leased = found.only([at for at, deadline in enumerate(deadlines) if deadline is not None])
        return leased, [deadline for deadline in deadlines if deadline is not None]

    async def _unleased(self, book: LeaseBook) -> list[_Scored]:
        held, self._held = [each for each in self._held if each.items], []
        if held:
            await book.read()
        return [(each, [book.pop(mark) or book.missing for mark in each.marks]) for each in held]

    def _not_given(self, queue: ListWalk, found: WindowItems) -> tuple[WindowItems, WindowItems]:
        """Return the items not yet yielded: of those in processing, and of those put back to the front.

        Both are of one moment, at which the rest of the queue is as it was read.
        """
        front = found.moment.items[2]
        marks = hashes(front)
        came, gone = self._front(queue, found.moment, marks)
        self._returned = self._returned or came > 0
        taken, put_back = Counter(queue.history[:gone]), Counter(marks[:came])
        fresh = []
        for at, mark in enumerate(found.marks):
            if taken[mark] - put_back[mark] > self._met[mark]:
                self._met[mark] += 1
            elif self._returned and self._given[mark] > self._again[mark]:
                # Yielded, put back and taken again; or another, equal item.
                self._again[mark] += 1
                self._lost += 1
            else:
                fresh.append(at)
        known = taken + self._given
        known.subtract(self._met)
        back = []
        for at, mark in enumerate(marks[:came]):
            known[mark] -= 1
            if known[mark] < 0:
                back.append(at)
        # Of several equal ones, another one may have been put back than one that was yielded.
        self._lost += any(self._given[mark] > 1 and known[mark] >= 0 for mark in put_back)
        # What is in processing at this moment has not been put back.
        self._given.update(found.marks[at] for at in fresh)
        behind = WindowItems("queue", found.moment, found.moment.positions(2), front, marks)
        return found.only(fresh), behind.only(back)

    def _front(self, queue: ListWalk, now: Moment, marks: list[int]) -> tuple[int, int]:
        """Return how many items are in front of those that were read, and how many of the latter are gone.

        The lengths of the queue tell the one from the other.
        """
        history = queue.history
        more = now.ready - len(history)
        for came in range(max(0, more), len(marks) + 1):
            gone, rest = came - more, marks[came:]
            if history[gone : gone + len(rest)].tolist() == rest and (rest or now.ready == len(marks)):
                return came, gone
        # Items were removed from the middle.
        for came in range(len(marks)):
            start = index_of(history, array("q", marks[came : came + _GRAM]))
            if start is not None:
                return came, start
        self._lost += bool(marks)
        return len(marks), len(history)


def _chunk(found: WindowItems, scores: Sequence[bytes], bodies: bool, lost: int) -> ScanChunk:
    items, letter = found.items, found.place[0]
    ids = [f"{letter}:{at}:{sha_of(item)}".encode() for at, item in zip(found.positions, items, strict=True)]
    nothing: list[bytes | None] = [None] * len(items)
    read = [item if isinstance(item, bytes) else None for item in items] if bodies else nothing
    columns = (ids, scores, nothing, nothing, list(map(size_of, items)), read)
    too_long = read.count(None) if bodies else 0
    depth = found.moment.ready + found.moment.hidden
    return ScanChunk(found.moment.at_ms, depth, columns, too_long, lost, _WITH_BODIES if bodies else _WITHOUT)
