"""Reads ranges, pages and single items of list queues, without changing anything.

Ranks are counted from the item that is taken next; items in processing come after those in the queue. Redis walks over
nodes of 8 KiB each to find an index, so it is faster the nearer the index is to an end.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.protocol.connections.script_runner import Arrived, ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.keys import name_bytes
from rsmq_tui.protocol.lists.naming import (
    READY_SCORE,
    UNKNOWN_LEASE_SCORE,
    UNLEASED_SCORE,
    ItemId,
    ItemPlace,
    ListNames,
    item_sha,
    leased_item,
    read_item_id,
)
from rsmq_tui.protocol.lists.scripts import RANGES
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq.pages import (
    BODY_BYTES_MAX,
    PREVIEW_BYTES,
    PageRequest,
    PeekedMessage,
    RawPage,
    WholeMessage,
    start_of_page,
)

# How much of a range one call may copy. Redis copies a megabyte in 0.5 ms, and hashes it in 2 ms.
PAGE_BYTES = 1_000_000
# If scripts are refused, the first read of a list is this short, because the size of items is not known.
_FIRST_ITEMS, _GROWTH = 1, 16


def list_keys(names: ListNames, queue: str) -> tuple[bytes, bytes, bytes]:
    """Return the keys of a list queue: the queue, the processing list and the leases."""
    return name_bytes(queue), names.processing_key(queue), names.leases_key(queue)


class CutItem(NamedTuple):
    """An item that was not read whole: its size in bytes, its SHA1 in hexadecimal digits, and its first bytes."""

    size: int
    sha: bytes
    start: bytes


Item = bytes | CutItem


def size_of(item: Item) -> int:
    """Return an item's length in bytes."""
    return len(item) if isinstance(item, bytes) else item.size


def sha_of(item: Item) -> str:
    """Return an item's SHA1."""
    return item_sha(item) if isinstance(item, bytes) else item.sha.decode()


class Range(NamedTuple):
    """Items of a list from index ``first`` to ``last``, both included; in reverse order if ``last`` is less.

    With ``front``, indexes count from the item that is taken next (in processing the oldest), else from the other end.
    """

    place: ItemPlace
    front: bool
    first: int
    last: int

    def count(self, length: int) -> int:
        """Return how many items of the range exist in a list of that length."""
        low, high = sorted((self.first, self.last))
        return max(0, min(high, length - 1) - low + 1)

    def cut(self, most: int, length: int) -> "Range":
        """Return the range cut to its first ``most`` items, in a list of that length."""
        if self.first <= self.last:
            return self._replace(last=min(self.last, self.first + most - 1))
        return self._replace(last=max(self.last, min(self.first, max(0, length - 1)) - most + 1))


@dataclass(frozen=True, slots=True)
class Moment:
    """A queue at one moment: ``ready`` items in the queue, ``hidden`` in processing, and the items of each range."""

    at_ms: int
    ready: int
    hidden: int
    asked: tuple[Range, ...]
    items: tuple[Sequence[Item], ...]

    def length(self, place: ItemPlace) -> int:
        """Return how many items lay at a place."""
        return self.ready if place == "queue" else self.hidden

    def positions(self, number: int) -> range:
        """Return the positions of the items of a range, counted from the front."""
        asked, count = self.asked[number], len(self.items[number])
        last = self.length(asked.place) - 1
        step = 1 if asked.first <= asked.last else -1
        first = min(asked.first, last) if step < 0 else asked.first
        if not asked.front:
            first, step = last - first, -step
        return range(first, first + step * count, step)


class ListRanges:
    """Reads ranges of one list queue, any number of them at one moment; raises ``wrongType``.

    A range is cut short after ``most_bytes`` and one item. If scripts are refused, this limit is estimated from the
    size of earlier items.
    """

    def __init__(self, runner: ScriptRunner, names: ListNames, queue: str) -> None:
        self.runner = runner
        self.keys = list_keys(names, queue)
        self._takes_right = names.take_from == "right"
        self._longest = 0
        self._most_items = _FIRST_ITEMS
        self._lengths: dict[ItemPlace, int] = {"queue": 0, "processing": 0}

    async def read(
        self, *ranges: Range, most_bytes: int = PAGE_BYTES, whole_bytes: int = BODY_BYTES_MAX, start_bytes: int = 0
    ) -> Moment:
        """Read ranges; of an item longer than ``whole_bytes`` only its first ``start_bytes`` are returned."""
        arguments: list[bytes | str | int] = [most_bytes, whole_bytes, start_bytes]
        for each in ranges:
            arguments += [1 if each.place == "queue" else 2, int(self._is_right(each)), each.first, each.last]
        try:
            now, ready, hidden, *found = await self.runner.run(RANGES, self.keys[:2], arguments)
        except ScriptsRefusedError:
            return await self._read_plainly(ranges, most_bytes, whole_bytes, start_bytes)
        items = tuple([item if isinstance(item, bytes) else CutItem(*item) for item in part] for part in found)
        return Moment(int(now), ready, hidden, ranges, items)

    async def _read_plainly(
        self, ranges: tuple[Range, ...], most_bytes: int, whole_bytes: int, start_bytes: int
    ) -> Moment:
        """Read all ranges in one round trip, a few items first; read more of them again if they are short."""
        while True:
            most_items = min(self._most_items, 1 + most_bytes // max(1, self._longest))
            cut = [each.cut(most_items, self._lengths[each.place]) for each in ranges]
            clock, ready, hidden, *replies = await self.runner.ask(
                ("TIME",), *(("LLEN", key) for key in self.keys[:2]), *map(self.command, cut)
            )
            self._lengths = {"queue": ready, "processing": hidden}
            longest = max((len(item) for items in replies for item in items), default=0)
            # Decays, so that a single long item does not slow down all later reads.
            self._longest = max(longest, self._longest // 2)
            are_whole = all(
                len(items) >= each.count(self._lengths[each.place]) for each, items in zip(ranges, replies, strict=True)
            )
            if are_whole or self._longest * most_items * 2 > most_bytes:
                break
            self._most_items = most_items * _GROWTH

        def shown(item: bytes) -> Item:
            return item if len(item) <= whole_bytes else CutItem(len(item), item_sha(item).encode(), item[:start_bytes])

        found = tuple(
            list(map(shown, items[::-1] if (each.first <= each.last) is self._is_right(each) else items))
            for each, items in zip(ranges, replies, strict=True)
        )
        return Moment(clock_ms(clock), ready, hidden, ranges, found)

    def command(self, wanted: Range) -> tuple[bytes | str | int, ...]:
        """Return the plain command that reads a range."""
        low, high = sorted((wanted.first, wanted.last))
        bounds = (-1 - high, -1 - low) if self._is_right(wanted) else (low, high)
        return ("LRANGE", self.keys[0 if wanted.place == "queue" else 1], *bounds)

    def _is_right(self, wanted: Range) -> bool:
        # Whichever end consumers take from, the oldest item in processing is at the right.
        return wanted.front is (wanted.place == "processing" or self._takes_right)


# An item that moved is searched for this far towards the front, and a quarter as far to the back.
SPAN_ITEMS = 500
# Leases that are read for a page. If there are more, some items in processing have no known deadline.
LEASES_MAX = 1_000
# Items that are read to find those of a page again.
_LOOKED_MAX = 2_000


class Located(NamedTuple):
    """An item, and its position, counted from the front."""

    place: ItemPlace
    position: int
    item: Item

    @property
    def id(self) -> str:
        """Its id."""
        return str(ItemId(self.place, self.position, sha_of(self.item)))


@dataclass(frozen=True, slots=True)
class PresentItems:
    """The new id and score of items at the server's time ``at_ms``, by their old ids.

    Items that were not found are missing; if ``is_known``, the whole queue was read, so they have left it.
    """

    at_ms: int
    found: dict[str, tuple[str, str]]
    is_known: bool


class ListPages:
    """Reads pages and items of list queues; raises ``wrongType`` if a key of the queue has another type.

    Only an item's bytes identify it: one that moved is found near its old position by its SHA1. Equal items cannot be
    distinguished, nor can their leases: the items of a page get deadlines in order, the earliest first. A page takes
    two calls, or three with leases, and other clients may write in between.
    """

    def __init__(self, runner: ScriptRunner, names: ListNames) -> None:
        self._runner = runner
        self._names = names

    async def page(self, request: PageRequest, whole_bytes: int = 0) -> RawPage:
        """Read a page; the score of its anchor is ignored.

        If items are long there are fewer: at most PAGE_BYTES and one item. Items of up to ``whole_bytes`` have a whole
        preview. Scores are those of ``naming``, and ``rc`` has no meaning.
        """
        part, where, anchor, count, offset = request.part, request.where, request.anchor, request.count, request.offset
        ranges = ListRanges(self._runner, self._names, request.queue)
        wanted = None if anchor is None or where in ("first", "last") else read_item_id(anchor.id)
        now, found, _ = await _locate(ranges, [] if wanted is None else [wanted], elsewhere=False)
        ready, depth = now.ready, now.ready + now.hidden
        low, high = (ready if part == "hidden" else 0), (ready if part == "ready" else depth)
        rank = low
        if wanted is not None:
            there = found.get(wanted)
            position = min(wanted.position, now.length(wanted.place)) if there is None else there.position
            rank = position if wanted.place == "queue" else ready + position
        if where in ("last", "before"):
            stop = max(low, min((high if where == "last" else rank) + offset, high))
            start = max(low, stop - count)
            rows = (await _rows(ranges, ready, start, stop, whole_bytes, backward=True))[::-1]
            if len(rows) == stop - start:
                rows += await _rows(ranges, ready, stop, min(low + count, high), whole_bytes)
            else:
                start = stop - len(rows)
        else:
            start = rank + (where == "after" and wanted in found) + offset
            start = start_of_page(start, offset, count, low, high)
            rows = await _rows(ranges, ready, start, min(start + count, high), whole_bytes)
        scores = await self._scores(ranges, rows, now.hidden)
        messages = [_peeked(row, score) for row, score in zip(rows, scores, strict=True)]
        return RawPage(now.at_ms, depth, ready, start, tuple(messages))

    async def item(self, queue: str, id: str, *, with_body: bool = True) -> WholeMessage:
        """Read one item, and its body unless that is longer than BODY_BYTES_MAX or not wanted; return its new id.

        An item that has moved is also searched for among those that were taken last, or put back.
        """
        ranges, wanted = ListRanges(self._runner, self._names, queue), read_item_id(id)
        known = [] if wanted is None else [wanted]
        now, found, _ = await _locate(ranges, known, whole_bytes=BODY_BYTES_MAX if with_body else 0)
        if not found:
            return WholeMessage(now.at_ms, id, None, 0, None, 0, None)
        (row,) = found.values()
        (score,) = await self._scores(ranges, [row], now.hidden)
        body = row.item if isinstance(row.item, bytes) and with_body else None
        return WholeMessage(now.at_ms, row.id, score, 0, None, size_of(row.item), body)

    async def long_body(self, queue: str, id: str, arrived: Arrived) -> bytes | None:
        """Read an item of any length; None if it is not there, or moves meanwhile.

        ``arrived`` is as in ``ScriptRunner.ask_long``.
        """
        ranges, wanted = ListRanges(self._runner, self._names, queue), read_item_id(id)
        if wanted is None:
            return None
        body = await self._at(ranges, wanted, wanted.place, wanted.position, arrived)
        if body is None:
            # To look for it, the server copies and hashes long items, which holds it up.
            for place, position, _ in (await _locate(ranges, [wanted]))[1].values():
                body = await self._at(ranges, wanted, place, position, arrived)
        return body

    async def _at(
        self, ranges: ListRanges, wanted: ItemId, place: ItemPlace, position: int, arrived: Arrived
    ) -> bytes | None:
        items = await self._runner.ask_long(arrived, ranges.command(Range(place, True, position, position)))
        body: bytes | None = items[0] if items else None
        return None if body is None or await asyncio.to_thread(item_sha, body) != wanted.sha else body

    async def present(self, queue: str, ids: Sequence[str]) -> PresentItems:
        """Find items near their old positions, all at one moment.

        At most some thousand items are searched.
        """
        ranges = ListRanges(self._runner, self._names, queue)
        known = {place: id for id in ids if (place := read_item_id(id)) is not None}
        now, found, is_known = await _locate(ranges, list(known))
        scores = await self._scores(ranges, list(found.values()), now.hidden)
        again = {known[was]: (row.id, score) for (was, row), score in zip(found.items(), scores, strict=True)}
        return PresentItems(now.at_ms, again, is_known)

    async def due_counts(self, queue: str, bounds_ms: tuple[int, ...]) -> tuple[int, ...]:
        """Count the leases that end by each bound, then all leases, then the items in processing."""
        _, processing, leases = list_keys(self._names, queue)
        bounds = [("ZCOUNT", leases, "-inf", bound) for bound in bounds_ms]
        return tuple(await self._runner.ask(*bounds, ("ZCARD", leases), ("LLEN", processing)))

    async def _scores(self, ranges: ListRanges, rows: Sequence[Located], hidden: int) -> list[str]:
        """Return the score of each item: for one in processing, the deadline of its lease."""
        worked_on = [row.position for row in rows if row.place == "processing"]
        if not worked_on:
            return [READY_SCORE.decode()] * len(rows)
        leases = await _leases_near(ranges, worked_on[0] / max(1, hidden))
        return [(leases.of(sha_of(item)) if place == "processing" else READY_SCORE).decode() for place, _, item in rows]


async def _rows(
    ranges: ListRanges, ready: int, start: int, stop: int, whole_bytes: int, *, backward: bool = False
) -> list[Located]:
    """Read the items of ranks ``start`` to ``stop``, not included: up to PAGE_BYTES, but at least one item.

    ``ready`` is the length of the queue. With ``backward`` the last items are read first.
    """
    parts: list[tuple[ItemPlace, int, int]] = [
        ("queue", start, min(stop, ready)),
        ("processing", max(0, start - ready), stop - ready),
    ]
    asked = [
        Range(place, True, last - 1, first) if backward else Range(place, True, first, last - 1)
        for place, first, last in (reversed(parts) if backward else parts)
        if first < last
    ]
    now = await ranges.read(*asked, whole_bytes=max(PREVIEW_BYTES, whole_bytes), start_bytes=PREVIEW_BYTES)
    rows: list[Located] = []
    budget = PAGE_BYTES
    for number, items in enumerate(now.items):
        for position, item in zip(now.positions(number), items, strict=True):
            if budget <= 0:
                return rows
            rows.append(Located(asked[number].place, position, item))
            budget -= size_of(item)
    return rows


async def _locate(
    ranges: ListRanges, wanted: Sequence[ItemId], *, elsewhere: bool = True, whole_bytes: int = 0
) -> tuple[Moment, dict[ItemId, Located], bool]:
    """Find items near their old positions, and with ``elsewhere`` also where they may have moved to.

    Returns also whether the whole queue was read. Each item is found once.
    """
    # Items that are taken last come first: how far they moved is the best guess for the others. Those in processing
    # come before those in the queue, so that no id of the queue takes an item of theirs.
    wanted = sorted(wanted, key=lambda id: (id.place == "queue", -id.position))
    asked = _near(wanted)
    other: dict[ItemPlace, ItemPlace] = {"queue": "processing", "processing": "queue"}
    if elsewhere:
        # What was taken last is the newest in processing; what was put back is taken next.
        places = {other[id.place] for id in wanted}
        asked += [Range(place, place == "queue", 0, SPAN_ITEMS - 1) for place in sorted(places)]
    now = await ranges.read(*asked, most_bytes=PAGE_BYTES // max(4, len(asked)), whole_bytes=whole_bytes)
    there: dict[tuple[ItemPlace, str], dict[int, Item]] = {}
    seen: dict[ItemPlace, set[int]] = {"queue": set(), "processing": set()}
    for number, (part, items) in enumerate(zip(asked, now.items, strict=True)):
        for position, item in zip(now.positions(number), items, strict=True):
            there.setdefault((part.place, sha_of(item)), {})[position] = item
            seen[part.place].add(position)
    found: dict[ItemId, Located] = {}
    moved: dict[ItemPlace, int] = {"queue": 0, "processing": 0}
    for id in wanted:
        place = id.place
        same = there.get((place, id.sha))
        near = id.position + moved[place]
        if not same and elsewhere:
            place = other[place]
            same, near = there.get((place, id.sha)), now.hidden if place == "processing" else 0
        if same:
            at = min(same, key=lambda position: abs(position - near))
            if place == id.place:
                moved[place] = at - id.position
            found[id] = Located(place, at, same.pop(at))
    return now, found, (len(seen["queue"]), len(seen["processing"])) == (now.ready, now.hidden)


def _near(wanted: Iterable[ItemId]) -> list[Range]:
    """Return the ranges to search for items in that order: each item, then the items around it."""
    room, found = _LOOKED_MAX, list[Range]()
    floor: dict[ItemPlace, int] = {"queue": 1 << 62, "processing": 1 << 62}
    for place, position, _ in wanted:
        beyond = min(position + SPAN_ITEMS // 4, floor[place] - 1)
        if position < beyond:
            found.append(Range(place, True, position + 1, beyond))
        # The items in front of it, except those that belong to an earlier range.
        top = min(position, floor[place] - 1)
        low = max(0, position - SPAN_ITEMS, top - room + 1)
        if low > top:
            continue
        if found and (found[-1].place, found[-1].last) == (place, top + 1):
            found[-1] = found[-1]._replace(last=low)
        else:
            found.append(Range(place, True, top, low))
        room -= top - low + 1
        floor[place] = low
    return found


class _Deadlines:
    """The deadlines of leases by the SHA1 of their items, each given once, the earliest first."""

    def __init__(self, leases: Sequence[bytes], *, are_all: bool) -> None:
        self._missing = UNLEASED_SCORE if are_all else UNKNOWN_LEASE_SCORE
        self._deadlines: dict[str, list[bytes]] = {}
        for member, deadline in zip(leases[::2], leases[1::2], strict=True):
            item = leased_item(member)
            if item is not None:
                self._deadlines.setdefault(item_sha(item), []).append(deadline)

    def of(self, sha: str) -> bytes:
        """Return the deadline of an item, or the score of an item without one."""
        deadlines = self._deadlines.get(sha)
        return deadlines.pop(0) if deadlines else self._missing


async def _leases_near(ranges: ListRanges, share: float) -> _Deadlines:
    """Read leases: if there are many, those at about the ``share`` (0 to 1) of all, ordered by deadline."""
    key, found, longest = ranges.keys[2], list[bytes](), 0
    (card,) = await ranges.runner.ask(("ZCARD", key))
    first = 0 if card <= LEASES_MAX else max(0, min(card - LEASES_MAX, int(share * card) - LEASES_MAX // 2))
    stop, budget, step = min(card, first + LEASES_MAX), PAGE_BYTES, _FIRST_ITEMS
    at = first
    while at < stop and budget > 0:
        (part,) = await ranges.runner.ask(("ZRANGE", key, at, min(stop, at + step) - 1, "WITHSCORES"))
        if not part:
            break
        found += part
        at += len(part) // 2
        longest = max(longest, *map(len, part))
        budget -= sum(map(len, part))
        step = max(1, budget // (2 * longest))
    return _Deadlines(found, are_all=at - first >= card)


def _peeked(row: Located, score: str) -> PeekedMessage:
    item = row.item
    return PeekedMessage(row.id, score, 0, None, size_of(item), item if isinstance(item, bytes) else item.start)
