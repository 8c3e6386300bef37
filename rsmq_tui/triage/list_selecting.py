"""Finding the items of a list queue that a change is for."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from rsmq_tui.monitor.filters import Filter, parse_filter
from rsmq_tui.monitor.search import Progress
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import Spot, sha_of, spot_of
from rsmq_tui.protocol.lists.item_ids import READY_SCORE, UNLEASED_SCORE
from rsmq_tui.triage.list_places import places_of
from rsmq_tui.triage.list_selection import ListSelection
from rsmq_tui.triage.previewing import Seeing, SeeingCallback
from rsmq_tui.triage.previews import Everything, Marked, Matching, Named, Scope
from rsmq_tui.triage.words import TriageError

# Of so few it is remembered what lies before each: where they are many, they tell of each other where they are.
_WITNESSED = 500
_ITEMS_MIN, _ITEMS_MAX = 50, 2_000
_READ_BYTES = 1_000_000


# What finds the items of a queue that match.
Search = Callable[[str, Filter], AsyncGenerator[Progress, None]]


class Area(NamedTuple):
    """Which items an action may be for: those in the queue, from ``first`` to ``last``, and those in processing."""

    queue: bool = True
    processing: bool = True
    first: int = 0
    last: int | None = None


class Found(NamedTuple):
    """What was left out: items that are no longer what was shown, that are elsewhere, that could not be searched."""

    elsewhere: int = 0
    not_meant: int = 0
    unsearched: int = 0


async def select(
    editor: ListEditor,
    search: Search,
    queue: str,
    scope: Scope | None,
    area: Area,
    selection: ListSelection,
    seeing: SeeingCallback,
) -> Found:
    """Select what a scope means, as far as it is in the area; raises what the editor and the search raise."""
    adding = _Adding(editor, queue, area, selection)
    elsewhere = unsearched = 0
    walked = _walked(scope, area)
    match scope if walked is None else walked:
        case Marked(messages=messages):
            elsewhere = await _named(editor, queue, [(shown.id, shown.score) for shown in messages], adding)
        case Named(ids=ids):
            elsewhere = await _named(editor, queue, [(id, None) for id in dict.fromkeys(ids)], adding)
        case Matching(filter=wanted, limit=limit) if walked is not None or wanted.text.strip():
            found_by = search(queue, wanted)
            async with aclosing(found_by) as found:
                async for part in found:
                    matching = part.messages if limit is None else part.messages[: max(0, limit - adding.taken)]
                    await adding.add(matching, part.at_ms)
                    unsearched = part.not_searched
                    seeing(Seeing(part.scanned, part.depth, adding.taken))
                    if limit is not None and adding.taken >= limit:
                        break
        case Matching() | Everything() | None:
            limit = scope.limit if isinstance(scope, Matching) else None
            async with aclosing(_everything(editor, queue, area, limit)) as parts:
                async for scanned, depth, at_ms, items in parts:
                    await adding.add(items, at_ms)
                    seeing(Seeing(scanned, depth, adding.taken))
    await adding.end()
    return Found(elsewhere, adding.not_meant, unsearched)


def _walked(scope: Scope | None, area: Area) -> Matching | None:
    """Return what to search for where all is meant, whole or in the queue: that gives each once, whoever takes some."""
    is_all = scope is None or isinstance(scope, Everything)
    if isinstance(scope, Matching):
        is_all = scope.limit is None and not scope.filter.text.strip()
    if not is_all or not area.queue or area.first or area.last is not None:
        return None
    return Matching(parse_filter("" if area.processing else "state:ready"), None)


class _Adding:
    """Adds to a selection what is in the area; of a few, with what lies before each."""

    def __init__(self, editor: ListEditor, queue: str, area: Area, selection: ListSelection) -> None:
        self.not_meant = self.taken = 0
        self._editor, self._queue, self._area, self._selection = editor, queue, area, selection
        self._few: list[tuple[RawMessage, int]] | None = []

    async def add(self, messages: Sequence[RawMessage], at_ms: int) -> None:
        meant = [message for message in messages if self._is_meant(message)]
        self.not_meant += len(messages) - len(meant)
        self.taken += len(meant)
        if self._few is not None:
            self._few += [(message, at_ms) for message in meant]
            if len(self._few) <= _WITNESSED:
                return
            few, self._few = self._few, None
            for message, seen_ms in few:
                self._selection.add([message], seen_ms)
        else:
            self._selection.add(meant, at_ms)

    async def end(self) -> None:
        if not self._few:
            return
        at_ms = self._few[-1][1]
        messages = [message for message, _ in self._few]
        places = [spot_of(message.id).position for message in messages if message.id.startswith(b"q")]
        there = dict(zip(places, await self._editor.items_at(self._queue, "q", places), strict=True))
        before = dict(zip(places, await self._editor.shas_before(self._queue, places), strict=True))
        witnessed = []
        for message in messages:
            spot = spot_of(message.id)
            now = there.get(spot.position) if spot.area == "q" else None
            # Where it has shifted since, what is before its place now was not before it.
            is_there = now is not None and sha_of(now) == spot.sha
            # And what goes itself tells nothing when it has gone.
            sha = before[spot.position] if is_there and spot.position - 1 not in there else None
            witnessed.append(message._replace(fr=sha or None, rc=None))
        self._selection.add(witnessed, at_ms)

    def _is_meant(self, message: RawMessage) -> bool:
        return self._area.queue if message.id.startswith(b"q") else self._area.processing


async def _named(editor: ListEditor, queue: str, named: Iterable[tuple[str, str | None]], adding: _Adding) -> int:
    """Select items by their ids (and deadlines, where they were shown); returns how many are not there any more."""
    left, found = 0, []
    taken: set[bytes] = set()
    processing: dict[str, list[RawMessage]] | None = None
    at_ms = await editor.clock_us() // 1000
    spots = [(_spot(id), score) for id, score in named]
    queued = await places_of(editor, queue, [spot for spot, _ in spots if spot.area == "q"])
    for spot, score in spots:
        if spot.area == "p":
            if processing is None:
                processing = {}
                async for _, _, _, items in _processing(editor, queue, at_ms):
                    for there in items:
                        processing.setdefault(spot_of(there.id).sha, []).append(there)
            same = [
                there
                for there in processing.get(spot.sha, [])
                if there.id not in taken and (score is None or _is_same(score, there.score))
            ]
            item = _nearest(same, spot)
        else:
            place = queued[spot]
            item = None if place is None else _queued(*place)
        if item is None or item.id in taken:
            left += 1
            continue
        taken.add(item.id)
        found.append(item)
    await adding.add(found, at_ms)
    return left


def _nearest(items: Sequence[RawMessage], spot: Spot) -> RawMessage | None:
    return min(items, key=lambda item: abs(spot_of(item.id).position - spot.position), default=None)


def _is_same(shown: str, now: bytes) -> bool:
    try:
        return shown == now.decode("latin-1") or float(shown) == float(now) or shown == "nan"
    except ValueError:
        return False


def _spot(id: str) -> Spot:
    try:
        return spot_of(id.encode("utf-8", "surrogateescape"))
    except ValueError:
        raise TriageError(
            "ids of a list's items are as q:0:SHA1: the place, where it is, and the SHA1 of its bytes"
        ) from None


def _queued(position: int, body: bytes) -> RawMessage:
    return RawMessage(Spot("q", position, sha_of(body)).id, READY_SCORE, None, None, len(body), body)


_Part = tuple[int, int, int, list[RawMessage]]


async def _everything(editor: ListEditor, queue: str, area: Area, limit: int | None) -> AsyncGenerator[_Part, None]:
    """Walk through the area, or with a limit through so many that are taken next."""
    facts = await editor.facts(queue)
    last = facts.ready - 1 if area.last is None else min(area.last, facts.ready - 1)
    if limit is not None:
        last = min(last, area.first + limit - 1)
    depth = (last + 1 - area.first if area.queue else 0) + (facts.processing if area.processing else 0)
    scanned, number, first = 0, _ITEMS_MIN, area.first
    while area.queue and last >= first:
        # With a limit from those that are taken next on: what consumers take meanwhile is passed over, and none is
        # read twice. Without, from the back: what is to stay must not move into what is read.
        start, stop = (max(first, last - number + 1), last) if limit is None else (first, min(last, first + number - 1))
        items = await editor.items(queue, "q", start, stop)
        at_ms = await editor.clock_us() // 1000
        scanned += stop - start + 1
        yield scanned, depth, at_ms, [_queued(start + place, body) for place, body in enumerate(items)]
        heavy = sum(map(len, items))
        number = max(1, min(_ITEMS_MAX, number * 2, number * _READ_BYTES // max(1, heavy)))
        if limit is None:
            last = start - 1
        else:
            first = stop + 1
    if area.processing and (limit is None or scanned < limit):
        at_ms = await editor.clock_us() // 1000
        async for seen, _, _, found in _processing(editor, queue, at_ms):
            yield scanned + seen, depth, at_ms, found if limit is None else found[: limit - scanned]
            if limit is not None and scanned + seen >= limit:
                return


async def _processing(editor: ListEditor, queue: str, at_ms: int) -> AsyncGenerator[_Part, None]:
    """Walk through what is in processing, each with the deadline of its lease."""
    leases = await editor.leases(queue)
    number = (await editor.facts(queue)).processing
    for first in range(0, number, _ITEMS_MIN * 10):
        items = await editor.items(queue, "p", first, first + _ITEMS_MIN * 10 - 1)
        found = []
        for place, body in enumerate(items):
            left = leases.get(body)
            score = left.pop(0)[1] if left else UNLEASED_SCORE
            found.append(RawMessage(Spot("p", first + place, sha_of(body)).id, score, None, None, len(body), body))
        yield first + len(items), number, at_ms, found
