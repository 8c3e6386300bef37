"""Peeking into list queues: one page of items, or one item whole, read without changing anything.

A page counts ranks from the item that is taken next; those in processing come after those in the queue. Items are
found by position, which costs the less the nearer they are to one of the ends: Redis hops over nodes of 8 KiB each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rsmq_tui.protocol import read_scripts
from rsmq_tui.protocol.lists import look_scripts
from rsmq_tui.protocol.lists.item_ids import ItemId, read_item_id
from rsmq_tui.protocol.lists.looking import ask, list_keys, telling_wrong_types
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.plain_pages import LEASES_MAX, PAGE_BYTES, SPAN_ITEMS, PlainPages
from rsmq_tui.protocol.pages import (
    BODY_BYTES_MAX,
    PREVIEW_BYTES,
    Anchor,
    Part,
    PeekedMessage,
    RawPage,
    Where,
    WholeMessage,
)
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.running import ScriptRunner, ScriptsRefusedError

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
                now, depth, ready, start, rows = await self._runner.run(look_scripts.PAGE, keys, arguments)
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
                now, *found = await self._runner.run(look_scripts.ITEM, keys, arguments)
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
                    look_scripts.ITEMS, self._keys(queue), (*arguments, *wanted)
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
                counts = await self._runner.run(read_scripts.DUE_COUNTS, (leases,), bounds_ms)
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
