"""Reads every item of a list queue once, without changing anything and without holding the server for long.

A list has no cursor: positions are all there is, and every pop and push shifts them. So each step first finds its place
again, by comparing with what was read before. Items are compared by hashes of their bytes; of equal items only the
number counts. The queue is read first, then processing, because items go that way; last is what came back meanwhile.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.protocol.connections.script_runner import ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.lists.naming import (
    READY_SCORE,
    UNKNOWN_LEASE_SCORE,
    UNLEASED_SCORE,
    ListNames,
    Place,
    item_sha,
    leased_item,
)
from rsmq_tui.protocol.lists.pages import ask, list_keys, telling_wrong_types, walk
from rsmq_tui.protocol.lists.scripts import RANGES
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq.scan import CHUNK_MESSAGES, CHUNK_MESSAGES_MIN, SCAN_BODY_BYTES, ReadField, ScanChunk, sent

# 60 bytes of memory each. Of more no deadlines are told.
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
        cursor, count, fresh = b"0", CHUNK_MESSAGES_MIN, False
        with telling_wrong_types():
            while True:
                ((cursor, found),) = await ask(self._runner, ("ZSCAN", self._key, cursor, "COUNT", count))
                fresh = self._add(found) or fresh
                if int(cursor) == 0:
                    break
                if len(self._seen) >= LEASES_MAX:
                    self._is_whole = False
                    break
                longest = max(map(len, found[::2]), default=1)
                count = max(CHUNK_MESSAGES_MIN, min(CHUNK_MESSAGES, SCAN_BODY_BYTES // (longest or 1)))
        if fresh:
            for deadlines in self._deadlines.values():
                deadlines.sort(key=float, reverse=True)

    def take(self, mark: int) -> bytes | None:
        """Return a deadline for an item of that hash, or None where none is left."""
        deadlines = self._deadlines.get(mark)
        return deadlines.pop() if deadlines else None

    @property
    def missing(self) -> bytes:
        """What stands where an item has no deadline."""
        return UNLEASED_SCORE if self._is_whole else UNKNOWN_LEASE_SCORE

    def _add(self, found: Sequence[bytes]) -> bool:
        before = len(self._seen)
        for member, deadline in zip(found[::2], found[1::2], strict=True):
            known = hash(member)
            item = leased_item(member)
            if known not in self._seen and item is not None:
                self._seen.add(known)
                self._deadlines.setdefault(hash(item), []).append(deadline)
        return len(self._seen) > before


# So many items in a row make a landmark, where none like them are near.
GRAM = 4
# How far around a landmark none like it may be, and how far it is looked for.
SPAN = 500
# The shortest run of items that tells a place where some of those around have gone.
_SHORT = 8
# How far back it is looked for what consumers have left of a queue that was read.
_BACK = 20_000
_BYTES = array("q").itemsize
# How many places where the history may begin are tried.
_TRIED = 16


class Left(NamedTuple):
    """How many items of a history are still in the list, from its start on, and how many came behind these."""

    kept: int
    behind: int


def places_after(window: Sequence[int], tail: Sequence[int]) -> list[int]:
    """Return where in a window the tail ends, for each time that it is there whole."""
    size, last, whole = len(tail), tail[-1], list(tail)
    return [
        end for end in range(size, len(window) + 1) if window[end - 1] == last and window[end - size : end] == whole
    ]


def place_after_most(window: Sequence[int], tail: Sequence[int]) -> tuple[int, int] | None:
    """Return where in a window the tail ends although some of its items have gone, and how far what is left has moved.

    None where that cannot be told.
    """
    for stop in range(len(tail), _SHORT - 1, -1):
        ends = places_after(window, tail[stop - _SHORT : stop])
        if len(ends) == 1:
            return ends[0] + kept(window[ends[0] :], tail[stop:])[0], ends[0] - stop
    return None


def is_cut_short(window: Sequence[int], tail: Sequence[int]) -> bool:
    """Tell whether a window ends, as its list does, within the tail: consumers have taken the rest of it."""
    whole = list(tail)
    return any(window[first:] == whole[: len(window) - first] for first in range(len(window) - _SHORT + 1))


def kept(window: Sequence[int], before: Sequence[int]) -> tuple[int, int]:
    """Return how many items from the start of the window on were there before, in that order, and among how many.

    Not all that were there need be left. It is the most that may be: whatever of equal items has gone, each of those
    before and each that is new counts once.
    """
    place, size = 0, len(before)
    for count, item in enumerate(window):
        found = place
        while found < size and before[found] != item:
            found += 1
        if found == size:
            return count, place
        place = found + 1
    return len(window), place


def landmark_in(history: "array[int]") -> int | None:
    """Return the end of the last GRAM items that are like no others among the last: where they move, all have moved."""
    first = max(0, len(history) - 2 * SPAN)
    recent = tuple(history[first:])
    grams = [recent[end - GRAM : end] for end in range(GRAM, len(recent) + 1)]
    seen: dict[tuple[int, ...], int] = {}
    for gram in grams:
        seen[gram] = seen.get(gram, 0) + 1
    for place in range(len(grams) - 1, -1, -1):
        if seen[grams[place]] == 1:
            return first + place + GRAM
    return None


def left_of(
    history: "array[int]", head: Sequence[int], ending: Sequence[int], length: int, *, is_all: bool
) -> Left | None:
    """Return what is left of the history in a list, by how it begins and ends now, where the history may begin.

    ``length`` counts the items from the start of ``head`` to the end. Of several answers it is the one with fewest
    pushed before, then the one with most left. None where the ending is of other items; where it is the whole list,
    nothing is left then.
    """
    begins = [place for place in range(len(head)) if history and head[place] == history[0]][:_TRIED]
    for pushed in begins:
        for behind in range(len(ending)):
            left, stop = length - pushed - behind, len(ending) - behind
            if left <= 0:
                break
            size, first = min(left, stop), min(left, len(head) - pushed)
            if (
                left <= len(history)
                and history[left - 1] == ending[stop - 1]
                and list(history[left - size : left]) == list(ending[stop - size : stop])
                and list(history[:first]) == list(head[pushed : pushed + first])
            ):
                return Left(left, behind)
    if is_all:
        return Left(0, len(ending))
    # Where more came behind it than is looked at, its start may tell.
    there = max(((_same(history, head[pushed:]), pushed) for pushed in begins), default=(0, 0))
    if there[0] and (there[0] == len(history) or sum(there) < len(head)):
        return Left(there[0], length - sum(there))
    # Some in its midst have gone, or its start is too far.
    history = history[:length]
    begin = max(0, len(history) - _BACK)
    recent = history[begin:].tobytes()
    size = min(_SHORT, len(history))
    for behind in range(len(ending) - size + 1 if size else 0):
        pattern = array("q", ending[len(ending) - behind - size : len(ending) - behind]).tobytes()
        at = recent.rfind(pattern)
        while at % _BYTES and at >= 0:
            at = recent.rfind(pattern, 0, at + len(pattern) - 1)
        if at >= 0:
            return Left(begin + at // _BYTES + size, behind)
    return None


def _same(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many items are the same at the start of both."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


# An item as it is; of one that is longer than SCAN_BODY_BYTES its length and its SHA1.
Item = bytes | list[int | bytes]


class Stretch(NamedTuple):
    """Some items of a list in order, counted from its right end or from its left."""

    place: Place
    right: bool
    first: int
    length: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What lay there at one moment: ``ready`` items in the queue, ``hidden`` in processing, and those asked for."""

    at_ms: int
    ready: int
    hidden: int
    stretches: tuple[Sequence[Item], ...]


class ListLook:
    """Reads one list queue; no call copies more than about SCAN_BODY_BYTES for a stretch, and one item."""

    def __init__(self, runner: ScriptRunner, names: ListNames, queue: str) -> None:
        self.runner = runner
        self.takes_right = names.take_from == "right"
        self.keys = list_keys(names, queue)
        self._longest = 0

    async def at(self, *stretches: Stretch, more_bytes: int = 0) -> Moment:
        """Read these; ``more_bytes`` of them are known, and come on top of what may be copied."""
        arguments: list[bytes | str | int] = [SCAN_BODY_BYTES + more_bytes, SCAN_BODY_BYTES]
        for place, right, first, length in stretches:
            arguments += [1 if place == "queue" else 2, int(right), first, length]
        with telling_wrong_types():
            try:
                now, ready, hidden, *found = await self.runner.run(RANGES, self.keys[:2], arguments)
            except ScriptsRefusedError:
                return await self._plainly(stretches, SCAN_BODY_BYTES + more_bytes)
        return Moment(int(now), int(ready), int(hidden), tuple(found))

    async def _plainly(self, stretches: Sequence[Stretch], budget: int) -> Moment:
        """Read them one after another: each at one moment, once it is known how long the items are."""
        queue, processing, _ = self.keys
        clock, ready, hidden = await ask(self.runner, ("TIME",), ("LLEN", queue), ("LLEN", processing))
        found: list[Sequence[Item]] = []
        for place, right, first, length in stretches:
            key = queue if place == "queue" else processing
            items = await walk(self.runner, key, right, first, length, budget, longest=self._longest)
            self._longest = max([self._longest, *map(len, items)])
            found.append(
                [item if len(item) <= SCAN_BODY_BYTES else [len(item), item_sha(item).encode()] for item in items]
            )
        return Moment(clock_ms(clock), ready, hidden, tuple(found))


def hashes(items: Sequence[Item]) -> list[int]:
    """Return a hash for each item: Python's, which has 64 bits and a secret of this process."""
    try:
        return list(map(hash, items))
    except TypeError:
        return [hash(item if isinstance(item, bytes) else item[1]) for item in items]


def size_of(item: Item) -> int:
    """Return an item's length in bytes."""
    return len(item) if isinstance(item, bytes) else int(item[0])


def sha_of(item: Item) -> str:
    """Return an item's SHA1."""
    if isinstance(item, bytes):
        return item_sha(item)
    sha = item[1]
    return sha.decode() if isinstance(sha, bytes) else str(sha)


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
