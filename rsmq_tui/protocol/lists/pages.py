"""Peek: one page of items, or one item whole, read without changing anything.

Ranks are counted from the item that is taken next; items in processing come after those in the queue. Items are read by
position, which costs less the nearer they are to an end: Redis walks over nodes of 8 KiB each.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from rsmq_tui.protocol.connections.script_runner import ScriptRunner, ScriptsRefusedError, raise_first
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import name_bytes
from rsmq_tui.protocol.lists import scripts as lists_scripts
from rsmq_tui.protocol.lists.naming import (
    READY_SCORE,
    UNKNOWN_LEASE_SCORE,
    UNLEASED_SCORE,
    ItemId,
    ListNames,
    item_sha,
    leased_item,
    read_item_id,
)
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq import scripts
from rsmq_tui.protocol.rsmq.pages import (
    BODY_BYTES_MAX,
    PREVIEW_BYTES,
    Anchor,
    Part,
    PeekedMessage,
    RawPage,
    Where,
    WholeMessage,
)

Command = Sequence[bytes | str | int]
_STEP_MAX = 1_000


@contextmanager
def telling_wrong_types() -> Iterator[None]:
    """Raise ``wrongType`` where Redis says, in a script or not, that a key is something else."""
    try:
        yield
    except ResponseError as error:
        if "WRONGTYPE" in str(error):
            raise rsmq_error("wrongType") from error
        raise


def list_keys(names: ListNames, queue: str) -> tuple[bytes, bytes, bytes]:
    """Return the keys of a list queue: its own, those in processing, and the leases."""
    return name_bytes(queue), names.processing_key(queue), names.leases_key(queue)


def between(key: bytes, right: bool, first: int, count: int) -> Command:
    """Return the command for items from a position on, counted from the right end or from the left."""
    last = first + count - 1
    return ("LRANGE", key, -last - 1, -first - 1) if right else ("LRANGE", key, first, last)


async def ask(runner: ScriptRunner, *commands: Command) -> list[Any]:
    """Send plain commands; raises the first error among the replies."""
    replies = await runner.commands(*commands)
    raise_first(replies)
    return replies


async def walk(
    runner: ScriptRunner, key: bytes, right: bool, first: int, count: int, budget: int, *, longest: int = 0
) -> list[bytes]:
    """Read items in order by plain commands: a few at first, more where they are short, until the budget is used up.

    No command tells how long an item is without copying it: one that is longer than the budget is read all the same.
    ``longest`` is how long they were so far, where that is known.
    """
    items: list[bytes] = []
    step = max(1, min(_STEP_MAX, budget // (4 * longest))) if longest else 1
    longest = max(longest, 1)
    while len(items) < count and budget > 0:
        (found,) = await ask(runner, between(key, right, first + len(items), min(step, count - len(items))))
        if not found:
            break
        items += reversed(found) if right else found
        budget -= sum(map(len, found))
        longest = max(longest, *map(len, found))
        step = max(1, min(_STEP_MAX, budget // (4 * longest)))
    return items


# What one call may copy. Redis copies a megabyte in half a millisecond, and hashes it in two.
PAGE_BYTES = 1_000_000
# An item that moved is looked for this far towards the end that it is counted from, and a quarter as far beyond.
SPAN_ITEMS = 500
# Leases that a page looks through. Where there are more, not all of what is in flight has its deadline told.
LEASES_MAX = 1_000

_Keys = tuple[bytes, bytes, bytes]
_Found = tuple[int, bytes] | None


class PlainPages:
    """Does what the scripts of ``look_scripts`` do, and gives what they give."""

    def __init__(self, runner: ScriptRunner) -> None:
        self._runner = runner

    async def page(
        self, keys: _Keys, right: bool, part: Part, where: Where, anchor: ItemId | None, count: int, whole_bytes: int
    ) -> list[Any]:
        """Return the time, the depth, how many are ready, the rank of the first row, and the rows."""
        now, ready, hidden = await self._now(keys)
        depth = ready + hidden
        low, high = (ready if part == "hidden" else 0), (ready if part == "ready" else depth)
        start, rows = low, _Rows(self._runner, keys, right, ready, hidden)
        if where == "last":
            start = high - count
        elif where != "first":
            rank, is_there = await self._rank(keys, right, ready, hidden, anchor, low)
            start = {"after": rank + is_there, "before": max(low, min(rank, high)) - count, "at": rank}[where]
        if where in ("last", "before"):
            start, stop = max(low, start), min(start + count, high)
            await rows.add(start, stop, backward=True)
            rows.found.reverse()
            if len(rows.found) == stop - start:
                await rows.add(stop, min(low + count, high), backward=False)
            else:
                start = stop - len(rows.found)
        else:
            start = max(low, min(start, high - 1))
            await rows.add(start, min(start + count, high), backward=False)
        leases = _Leases(await self._leases(keys[2])) if any(letter == "p" for letter, _, _ in rows.found) else None
        return [now, depth, ready, start, [
            (
                letter.encode(), at, len(item), item_sha(item).encode(),
                item if len(item) <= whole_bytes else item[:PREVIEW_BYTES],
                leases.of(item) if leases is not None and letter == "p" else READY_SCORE,
            )
            for letter, at, item in rows.found
        ]]  # fmt: skip

    async def item(self, keys: _Keys, right: bool, wanted: ItemId) -> list[Any]:
        """Return the time and, where it is found, an item's place, position, score, size and body."""
        now, ready, hidden = await self._now(keys)
        in_queue = wanted.place == "queue"
        found = await self._find(keys, right, (ready, hidden)[not in_queue], wanted)
        if found is None:
            in_queue = not in_queue
            moved = ItemId(*(("queue", 0) if in_queue else ("processing", max(0, hidden - 1))), wanted.sha)
            found = await self._find(keys, right, (ready, hidden)[not in_queue], moved)
        if found is None:
            return [now]
        at, item = found
        score = READY_SCORE if in_queue else _Leases(await self._leases(keys[2])).of(item)
        body = item if len(item) <= BODY_BYTES_MAX else None
        return [now, b"q" if in_queue else b"p", at, score, len(item), body]

    async def _now(self, keys: _Keys) -> tuple[int, int, int]:
        clock, ready, hidden = await ask(self._runner, ("TIME",), ("LLEN", keys[0]), ("LLEN", keys[1]))
        return clock_ms(clock), ready, hidden

    async def _rank(
        self, keys: _Keys, right: bool, ready: int, hidden: int, anchor: ItemId | None, low: int
    ) -> tuple[int, bool]:
        if anchor is None:
            return low, False
        in_queue = anchor.place == "queue"
        before, length = (0, ready) if in_queue else (ready, hidden)
        found = await self._find(keys, right, length, anchor)
        return before + (min(anchor.position, length) if found is None else found[0]), found is not None

    async def _find(self, keys: _Keys, right: bool, length: int, wanted: ItemId) -> _Found:
        """Return where an item is now, nearest to where it was."""
        if not length:
            return None
        key, right = (keys[0], right) if wanted.place == "queue" else (keys[1], True)
        start = min(wanted.position, length - 1)
        below = await walk(self._runner, key, not right, length - 1 - start, SPAN_ITEMS, PAGE_BYTES // 4)
        for place, item in enumerate(below):
            if item_sha(item) == wanted.sha:
                return start - place, item
        above = await walk(self._runner, key, right, start + 1, SPAN_ITEMS // 4, PAGE_BYTES // 4)
        for place, item in enumerate(above):
            if item_sha(item) == wanted.sha:
                return start + 1 + place, item
        return None

    async def _leases(self, key: bytes) -> tuple[list[bytes], bool]:
        """Return leases with their deadlines in turns, and whether these are all."""
        card, found = await ask(self._runner, ("ZCARD", key), ("ZRANGE", key, 0, LEASES_MAX - 1, "WITHSCORES"))
        return found, len(found) // 2 >= card


class _Rows:
    """The rows of a page while it is read: a place, a position and an item each."""

    def __init__(self, runner: ScriptRunner, keys: _Keys, right: bool, ready: int, hidden: int) -> None:
        self.found: list[tuple[str, int, bytes]] = []
        self._runner = runner
        self._keys = keys
        self._right = right
        self._ready = ready
        self._hidden = hidden
        self._budget = PAGE_BYTES

    async def add(self, start: int, stop: int, *, backward: bool) -> None:
        """Add the rows of these ranks while the budget lasts, from the first on or from the last, and at least one."""
        parts = [
            ("q", self._keys[0], self._right, start, min(stop, self._ready), self._ready),
            ("p", self._keys[1], True, max(0, start - self._ready), stop - self._ready, self._hidden),
        ]
        for letter, key, right, first, last, length in reversed(parts) if backward else parts:
            if last <= first or (self._budget <= 0 and self.found):
                continue
            begin, side = (length - last, not right) if backward else (first, right)
            items = await walk(self._runner, key, side, begin, last - first, max(1, self._budget))
            self._budget -= sum(map(len, items))
            self.found += [
                (letter, last - 1 - place if backward else first + place, item) for place, item in enumerate(items)
            ]


class _Leases:
    """The deadlines of items with the same bytes, each given once, the earliest first."""

    def __init__(self, found: tuple[list[bytes], bool]) -> None:
        members, is_whole = found
        self._missing = UNLEASED_SCORE if is_whole else UNKNOWN_LEASE_SCORE
        self._deadlines: dict[bytes, list[bytes]] = {}
        for member, deadline in zip(members[::2], members[1::2], strict=True):
            item = leased_item(member)
            if item is not None:
                self._deadlines.setdefault(item, []).append(deadline)

    def of(self, item: bytes) -> bytes:
        """Return the deadline of an item, or what stands for none."""
        deadlines = self._deadlines.get(item)
        return deadlines.pop(0) if deadlines else self._missing


# One look at the items of a page hashes so many at most, which holds the server for a few ms.
_LOOKED_MAX = 2_000


@dataclass(frozen=True, slots=True)
class PresentItems:
    """Where items are at a later time of the server, by their ids from before: an id and a score each.

    One that is not there was not found; where all of the queue ``is_known``, it has left it.
    """

    at_ms: int
    found: dict[str, tuple[str, str]]
    is_known: bool


class ListPages:
    """Reads pages and items of list queues; raises ``wrongType`` where a key of the queue is something else.

    Nothing of an item stays the same but its bytes: one that moved is found again near its place by their SHA1. Which
    of several with the same bytes that is, nobody can tell, nor which of their leases is whose: those on a page take
    theirs in order, the earliest first.
    """

    def __init__(self, runner: ScriptRunner, names: ListNames) -> None:
        self._runner = runner
        self._names = names
        self._plainly = PlainPages(runner)

    async def page(
        self,
        queue: str,
        *,
        part: Part = "all",
        where: Where = "first",
        anchor: Anchor | None = None,
        count: int,
        whole_bytes: int = 0,
    ) -> RawPage:
        """Read up to ``count`` items of the part, relative to the anchor: of its score nothing is asked.

        Fewer come where they are long: no more than PAGE_BYTES and one item are copied. Those of up to ``whole_bytes``
        have a whole preview. Scores are as ``item_ids`` has them, and ``rc`` means nothing.
        """
        keys, right = self._keys(queue), self._names.take_from == "right"
        place = None if anchor is None else read_item_id(anchor.id)
        letter, position, sha = _split(place)
        arguments = (int(right), part, where, letter, position, sha, count, PREVIEW_BYTES, PAGE_BYTES, SPAN_ITEMS,
                     LEASES_MAX, whole_bytes)  # fmt: skip
        with telling_wrong_types():
            try:
                now, depth, ready, start, rows = await self._runner.run(lists_scripts.PAGE, keys, arguments)
            except ScriptsRefusedError:
                now, depth, ready, start, rows = await self._plainly.page(
                    keys, right, part, where, place, count, whole_bytes
                )
        return RawPage(int(now), depth, ready, start, tuple(_peeked(*row) for row in rows))

    async def item(self, queue: str, id: str, *, with_body: bool = True) -> WholeMessage:
        """Read one item, and its body unless that is longer than BODY_BYTES_MAX or not wanted; its id says where it is.

        One that is no more where it was is also looked for among those that were taken last, or put back.
        """
        keys, right = self._keys(queue), self._names.take_from == "right"
        place = read_item_id(id)
        if place is None:
            (clock,) = await ask(self._runner, ("TIME",))
            return WholeMessage(clock_ms(clock), id, None, 0, None, 0, None)
        longest = BODY_BYTES_MAX if with_body else -1
        arguments = (int(right), *_split(place), longest, PAGE_BYTES, SPAN_ITEMS, LEASES_MAX)
        with telling_wrong_types():
            try:
                now, *found = await self._runner.run(lists_scripts.ITEM, keys, arguments)
            except ScriptsRefusedError:
                now, *found = await self._plainly.item(keys, right, place)
        if not found:
            return WholeMessage(int(now), id, None, 0, None, 0, None)
        letter, at, score, size, body = found
        known = ItemId("queue" if letter == b"q" else "processing", at, place.sha)
        return WholeMessage(int(now), str(known), score.decode(), 0, None, size, body if with_body else None)

    async def present(self, queue: str, ids: Sequence[str]) -> PresentItems | None:
        """Look for items near where they were, all in one round trip; None where scripts are refused.

        Far from there none is looked for, nor after so many that each look is short.
        """
        places = [(id, place) for id in ids if (place := read_item_id(id)) is not None]
        # Those that are taken last come first: where they have moved to tells the most of the others. None of those in
        # processing is taken for one that was in the queue.
        places.sort(key=lambda each: (each[1].place == "queue", -each[1].position))
        right = self._names.take_from == "right"
        arguments = (int(right), SPAN_ITEMS, PAGE_BYTES, _LOOKED_MAX, LEASES_MAX, PAGE_BYTES)
        wanted = [value for _, place in places for value in _split(place)]
        with telling_wrong_types():
            try:
                now, is_known, rows = await self._runner.run(
                    lists_scripts.ITEMS, self._keys(queue), (*arguments, *wanted)
                )
            except ScriptsRefusedError:
                return None
        found = {
            id: (str(ItemId("queue" if row[0] == b"q" else "processing", row[1], place.sha)), row[2].decode())
            for (id, place), row in zip(places, rows, strict=True)
            if row is not None
        }
        return PresentItems(int(now), found, bool(is_known))

    async def due_counts(self, queue: str, bounds_ms: tuple[int, ...]) -> tuple[int, ...]:
        """Count the leases that are over by each bound, then all of them, then what is in processing."""
        _, processing, leases = self._keys(queue)
        with telling_wrong_types():
            try:
                counts = await self._runner.run(scripts.DUE_COUNTS, (leases,), bounds_ms)
                counts += await ask(self._runner, ("LLEN", processing))
            except ScriptsRefusedError:
                commands = [("ZCOUNT", leases, "-inf", bound) for bound in bounds_ms]
                counts = await ask(self._runner, *commands, ("ZCARD", leases), ("LLEN", processing))
        return tuple(int(count) for count in counts)

    def _keys(self, queue: str) -> tuple[bytes, bytes, bytes]:
        return list_keys(self._names, queue)


def _split(place: ItemId | None) -> tuple[str, int, str]:
    return ("none", 0, "") if place is None else (place.place[0], place.position, place.sha)


def _peeked(letter: bytes, at: int, size: int, sha: bytes, preview: bytes, score: bytes) -> PeekedMessage:
    place = ItemId("queue" if letter == b"q" else "processing", at, sha.decode())
    return PeekedMessage(str(place), score.decode(), 0, None, size, preview)
