"""Walking through lists that move: each item once, a stretch at a time, and the place found again before each."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rsmq_tui.protocol.lists.item_ids import Place
from rsmq_tui.protocol.lists.scan_places import (
    GRAM,
    SPAN,
    Left,
    is_cut_short,
    kept,
    landmark_in,
    left_of,
    place_after_most,
    places_after,
)
from rsmq_tui.protocol.lists.scan_reading import Item, ListLook, Moment, Stretch, hashes, size_of

# How many items are read again to find the place, and how much of them; but always one.
_TAIL_ITEMS = 32
_TAIL_BYTES = 250_000
_KEPT_ITEMS = 1_000
# How many stretches of pushes between two steps are looked through.
_FORWARD = 20
_ANEW_MAX = 5
# How often the place is looked for without anything new to read.
_TRIES_MAX = 10


@dataclass(frozen=True, slots=True)
class Found:
    """Items at one moment with their positions, counted from the take end or from the oldest, and their hashes."""

    place: Place
    moment: Moment
    positions: Sequence[int]
    items: Sequence[Item]
    marks: Sequence[int]

    def only(self, chosen: Sequence[int]) -> "Found":
        """Return some of them, by their places in this."""
        if len(chosen) == len(self.items):
            return self
        return Found(
            self.place,
            self.moment,
            [self.positions[at] for at in chosen],
            [self.items[at] for at in chosen],
            [self.marks[at] for at in chosen],
        )


class QueueWalk:
    """Walks through the queue, from the end that producers push to.

    Counted from there nothing moves items but what is pushed there: what consumers take, and what is put back to be
    taken next, is at the other end, behind all that has been read. So each step reads the last items again, and goes on
    behind them wherever they are now. Where they are alike, a landmark further back tells how far all have moved.

    ``history`` holds a hash of each item in the order that they were read, less those that are seen to be ``gone``.
    Where the place is lost, because the queue was replaced, or trimmed of more than had been read, it is read from the
    start again, less as many of equal bytes as were given before; ``begun_anew`` counts how often. So it is where more
    is pushed than a step reads, and items are so alike that the place is found in vain, or what was pushed is read.
    """

    def __init__(self, look: ListLook, count: int) -> None:
        self._look = look
        self._count = count
        self._side = not look.takes_right
        # Where the next item is, counted from the producers' end.
        self._next = 0
        self._tail_bytes: list[int] = []
        self._landmark: int | None = None
        self._given: Counter[int] = Counter()
        self.history: array[int] = array("q")
        # How many items there were.
        self._first = 0
        self._gone: Counter[int] = Counter()
        self.begun_anew = 0
        self.is_over = False

    @property
    def gone(self) -> Counter[int]:
        """Those that were given and are seen to have left."""
        return self._gone + self._given

    async def step(self) -> Found | None:
        """Read on; None at the end."""
        tries = 0
        while not self.is_over:
            tries += 1
            if tries > _TRIES_MAX or len(self.history) > 2 * self._first:
                self._begin_anew()
                tries = 0
                continue
            tail = self.history[len(self.history) - len(self._tail_bytes) :]
            start = self._next - len(tail)
            moment, marks = await self._read(start, len(tail))
            self._first = self._first or moment.ready
            place = 0
            if tail:
                ends = places_after(marks, tail)
                if len(ends) > 1:
                    moment, marks, ends = await self._by_landmark(start, moment, marks, tail, ends)
                if not ends and await self._is_further(start, moment, tail):
                    continue
                if not ends and start + len(marks) >= moment.ready and is_cut_short(marks, tail):
                    self.is_over = True
                    break
                found = (ends[0], 0) if ends else place_after_most(marks, tail)
                if found is None:
                    await self._find_again(start, tail)
                    continue
                place, moved = found
                if moved > 0 and place == len(marks):
                    # There may be more of the tail behind the window.
                    self._next += moved
                    continue
            if place > len(marks):
                self._next = start + place
                continue
            now = marks[max(0, place - len(tail)) : place]
            if now != list(tail):
                self._mend(tail, now)
            taken = self._take(moment, start, marks, place)
            if taken.items:
                return taken
            tries = 0
        return None

    def ends(self, count: int) -> tuple[Stretch, Stretch]:
        """Return what tells what is left of what was read: where the queue ends now, and what came before its start."""
        first = max(0, self._next - len(self.history))
        return Stretch("queue", self._look.takes_right, 0, count), Stretch("queue", self._side, first, count)

    def left(self, ready: int, ending: Sequence[Item], head: Sequence[Item]) -> Left | None:
        """Return what of ``history`` is still there, by what ``ends`` asked for."""
        marks = hashes(ending)[::-1]
        length = max(0, ready - max(0, self._next - len(self.history)))
        return left_of(self.history, hashes(head), marks, length, is_all=len(marks) == ready)

    async def _read(self, start: int, tail: int, *more: Stretch) -> tuple[Moment, list[int]]:
        """Read so many items again, and more behind them."""
        stretch = Stretch("queue", self._side, start, tail + self._count)
        moment = await self._look.at(stretch, *more, more_bytes=sum(self._tail_bytes))
        return moment, hashes(moment.stretches[0])

    async def _by_landmark(
        self, start: int, moment: Moment, marks: list[int], tail: "array[int]", ends: list[int]
    ) -> tuple[Moment, list[int], list[int]]:
        """Return where the tail ends, of several places that it may; and the window, which had to be read again."""
        found = landmark_in(self.history)
        self._landmark = self._landmark if found is None else found
        # Where all that was read is alike, its start tells.
        place = self._landmark or min(GRAM, len(self.history))
        gram = self.history[max(0, place - GRAM) : place]
        first = max(0, self._next - len(self.history) + place - len(gram))
        moment, marks = await self._read(start, len(tail), Stretch("queue", self._side, first, GRAM + SPAN))
        moved = places_after(hashes(moment.stretches[1]), gram)
        ends = places_after(marks, tail)
        place = len(tail) + moved[0] - len(gram) if moved else 0
        return moment, marks, [place] if place in ends or place > len(marks) else ends

    async def _is_further(self, start: int, moment: Moment, tail: "array[int]") -> bool:
        """Look for the tail behind more pushes than a window shows, and go there."""
        first, width = start, len(moment.stretches[0])
        for _ in range(_FORWARD):
            # Long items come a few at a time.
            first += max(1, width - len(tail))
            if first >= moment.ready:
                break
            _, marks = await self._read(first, len(tail))
            if ends := places_after(marks, tail):
                self._next = first + ends[0]
                return True
            width = len(marks)
        return False

    def _mend(self, tail: "array[int]", now: list[int]) -> None:
        """Take what has gone from among the last items out of the history, so that it is like the list again."""
        self._gone += Counter(tail) - Counter(now)
        del self.history[len(self.history) - len(tail) :]
        self.history.extend(now)
        self._tail_bytes = self._tail_bytes[: len(now)]

    def _take(self, moment: Moment, start: int, marks: list[int], place: int) -> Found:
        items, marks = moment.stretches[0][place:], marks[place:]
        self._next = start + place + len(items)
        self.is_over = self._next >= moment.ready
        self.history.extend(marks)
        sizes = self._tail_bytes + [size_of(item) for item in items[-_TAIL_ITEMS:]]
        self._tail_bytes = _last(sizes, _TAIL_ITEMS)
        # In the order that they are taken in.
        first = moment.ready - self._next
        found = Found("queue", moment, range(first, first + len(items)), items[::-1], marks[::-1])
        if not self._given:
            return found
        return found.only(without(found.marks, self._given))

    async def _find_again(self, start: int, tail: "array[int]") -> None:
        """Look for the place nearer to the producers' end, and begin anew where it is nowhere."""
        seen, width = start, self._count
        while seen > 0:
            first = max(0, seen - width)
            _, marks = await self._read(first, len(tail))
            if ends := places_after(marks, tail):
                self._next = first + ends[-1]
                return
            if first + len(marks) < seen and width > 1:
                # Long items come a few at a time: not all up to where it has been looked.
                width = max(1, min(width // 2, len(marks)))
            else:
                seen = first
        moment = await self._look.at(*self.ends(_TAIL_ITEMS))
        left = self.left(moment.ready, *moment.stretches)
        if not moment.ready or (left is not None and not left.behind):
            # Consumers have come beyond the place: nothing is there that has not been read.
            self.is_over = True
            return
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.begun_anew += 1
        self.is_over = self.begun_anew > _ANEW_MAX
        self._given += Counter(self.history)
        self._next, self._landmark, self._tail_bytes = 0, None, []
        self.history = array("q")


class ProcessingWalk:
    """Walks through what is in processing, from the oldest item: others come at the far end, and any may go.

    ``given`` holds a hash of each item that it gave.
    """

    def __init__(self, look: ListLook, count: int) -> None:
        self._look = look
        self._count = count
        # What was read, as far as it was there when it was read last.
        self._known: array[int] = array("q")
        self._sizes: list[int] = []
        self.given: array[int] = array("q")
        self.is_over = False

    async def step(self, *more: Stretch) -> Found | None:
        """Read on, and more at the same moment; None at the end."""
        if self.is_over:
            return None
        start = len(self._known) - len(self._sizes)
        while True:
            again = len(self._known) - start
            stretch = Stretch("processing", True, start, again + self._count)
            moment = await self._look.at(stretch, *more, more_bytes=sum(self._sizes))
            items = moment.stretches[0]
            marks = hashes(items)
            place, among = kept(marks, self._known[start:])
            # Where most of them have gone, what comes next may be further back.
            if not start or 2 * place > again:
                break
            start = max(0, start - self._count)
        # What lies beyond items that were long is as it was.
        beyond = self._known[start + among :] if place == len(items) else ()
        del self._known[start:]
        self._known.extend(marks)
        self._known.extend(beyond)
        self.given.extend(marks[place:])
        self._sizes = _last([size_of(item) for item in items], _KEPT_ITEMS)
        self.is_over = start + len(items) >= moment.hidden
        positions = range(start + place, start + len(items))
        return Found("processing", moment, positions, items[place:], marks[place:])


def _last(sizes: list[int], most: int) -> list[int]:
    """Return the sizes of the last items that are read again."""
    count = total = 0
    for size in reversed(sizes[-most:]):
        total += size
        if count and total > _TAIL_BYTES:
            break
        count += 1
    return sizes[len(sizes) - count :]


def without(marks: Sequence[int], given: Counter[int]) -> list[int]:
    """Return the places of those that were not given, and take the others from what was."""
    fresh = []
    for place, mark in enumerate(marks):
        if given[mark] > 0:
            given[mark] -= 1
        else:
            fresh.append(place)
    return fresh
