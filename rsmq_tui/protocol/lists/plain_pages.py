"""Pages of list queues where scripts are refused: the same by plain commands, one after another."""

from typing import Any

from rsmq_tui.protocol.lists.item_ids import (
    READY_SCORE,
    UNKNOWN_LEASE_SCORE,
    UNLEASED_SCORE,
    ItemId,
    item_sha,
    leased_item,
)
from rsmq_tui.protocol.lists.looking import ask, walk
from rsmq_tui.protocol.pages import BODY_BYTES_MAX, PREVIEW_BYTES, Part, Where
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.running import ScriptRunner

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
