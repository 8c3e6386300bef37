"""Finding the items of a list queue that a change is for."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from rsmq_tui.monitor.filters import Filter, parse_filter
from rsmq_tui.monitor.search import Progress
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.item_ids import (
    READY_SCORE,
    UNLEASED_SCORE,
    ItemId,
    area_of,
    item_digest,
    item_id,
    position_of,
    read_item_id,
)
from rsmq_tui.triage.list_finding import EVERYWHERE, Look, Span, sightings, spans_of, windows
from rsmq_tui.triage.list_selection import ListSelection
from rsmq_tui.triage.previewing import Seeing, SeeingCallback
from rsmq_tui.triage.previews import Everything, Marked, Matching, Named, Scope
from rsmq_tui.triage.words import TriageError

# What finds the items of a queue that match.
Search = Callable[[str, Filter], AsyncGenerator[Progress, None]]


class Area(NamedTuple):
    """Which items an action may be for: those in the queue, and those in processing.

    Of the queue not the ``first`` that are taken next, nor the ``spared`` that were sent last, and at most ``most``.
    """

    queue: bool = True
    processing: bool = True
    first: int = 0
    spared: int = 0
    most: int | None = None


class Found(NamedTuple):
    """What was left out: items that are no longer what was shown, that are elsewhere, that could not be searched.

    ``is_incomplete`` says that the list changed too fast to read all of it.
    """

    elsewhere: int = 0
    not_meant: int = 0
    unsearched: int = 0
    is_incomplete: bool = False


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
    adding = _Adding(area, selection)
    elsewhere = unsearched = begun_anew = 0
    look = Look()
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
                    adding.add(matching, part.at_ms)
                    unsearched, begun_anew = part.not_searched, part.begun_anew
                    seeing(Seeing(part.scanned, part.depth, adding.taken))
                    if limit is not None and adding.taken >= limit:
                        break
        case Matching() | Everything() | None:
            limit = scope.limit if isinstance(scope, Matching) else None
            async with aclosing(_everything(editor, queue, area, limit, look)) as parts:
                async for scanned, depth, at_ms, items in parts:
                    adding.add(items, at_ms)
                    seeing(Seeing(scanned, depth, adding.taken))
    selection.ready, newest = await editor.places(queue, "q", 0, 0)
    selection.newest = item_digest(newest[0]) if newest else b""
    return Found(elsewhere, adding.not_meant, unsearched, is_incomplete=begun_anew > 0 or look.has_gaps)


def _walked(scope: Scope | None, area: Area) -> Matching | None:
    """Return what to search for where all is meant, whole or in the queue: that gives each once, whoever takes some."""
    is_all = scope is None or isinstance(scope, Everything)
    if isinstance(scope, Matching):
        is_all = scope.limit is None and not scope.filter.text.strip()
    if not is_all or not area.queue or area.first or area.spared or area.most is not None:
        return None
    return Matching(parse_filter("" if area.processing else "state:ready"), None)


class _Adding:
    """Adds to a selection what is in the area."""

    def __init__(self, area: Area, selection: ListSelection) -> None:
        self.not_meant = self.taken = 0
        self._area, self._selection = area, selection

    def add(self, messages: Sequence[RawMessage], at_ms: int) -> None:
        meant = [message for message in messages if self._is_meant(message)]
        self.not_meant += len(messages) - len(meant)
        self.taken += len(meant)
        self._selection.add(meant, at_ms)

    def _is_meant(self, message: RawMessage) -> bool:
        return self._area.queue if area_of(message.id) == "q" else self._area.processing


async def _named(editor: ListEditor, queue: str, named: Iterable[tuple[str, str | None]], adding: _Adding) -> int:
    """Select items by their ids (and deadlines, where they were shown); returns how many are not there any more.

    Of equal items as many are meant as were named.
    """
    left = 0
    ids = [(_known(id), score) for id, score in named]
    at_ms = await editor.clock_us() // 1000
    worked_on = [(id, score) for id, score in ids if id.place == "processing"]
    if worked_on:
        processing: dict[str, list[RawMessage]] = {}
        async for _, _, _, items in _processing(editor, queue, at_ms):
            for there in items:
                processing.setdefault(there.id[-40:].decode(), []).append(there)
        found = []
        for id, score in worked_on:
            there_now = processing.get(id.sha, [])
            same = [there for there in there_now if score is None or _is_same(score, there.score)]
            item = _nearest(same, id)
            if item is not None:
                there_now.remove(item)
                found.append(item)
        left += len(worked_on) - len(found)
        adding.add(found, at_ms)
    queued = sorted(id for id, _ in ids if id.place == "queue")
    if queued:
        left += await _queued_named(editor, queue, queued, adding, at_ms)
    return left


async def _queued_named(editor: ListEditor, queue: str, named: Sequence[ItemId], adding: _Adding, at_ms: int) -> int:
    """Look where they were shown first, then everywhere."""
    wanted = Counter(bytes.fromhex(id.sha) for id in named)
    ready = (await editor.facts(queue)).ready
    for spans in (spans_of((id.position for id in named), ready), [Span(0, EVERYWHERE)]):
        async with aclosing(sightings(editor, queue, "q", wanted, spans, Look())) as seen:
            async for length, found in seen:
                items = [_queued(max(0, length - 1 - place), body) for place, body, _ in found]
                adding.add(items, at_ms)
    return wanted.total()


def _nearest(items: Sequence[RawMessage], id: ItemId) -> RawMessage | None:
    return min(items, key=lambda item: abs(position_of(item.id) - id.position), default=None)


def _is_same(shown: str, now: bytes) -> bool:
    try:
        return shown == now.decode("latin-1") or float(shown) == float(now) or shown == "nan"
    except ValueError:
        return False


def _known(id: str) -> ItemId:
    known = read_item_id(id)
    if known is None:
        raise TriageError("the id of a list's item is like q:0:SHA1: its place, its position and the SHA1 of its bytes")
    return known


def _queued(position: int, body: bytes) -> RawMessage:
    return RawMessage(item_id("queue", position, body).encode(), READY_SCORE, None, None, len(body), body)


_Part = tuple[int, int, int, list[RawMessage]]


async def _everything(
    editor: ListEditor, queue: str, area: Area, limit: int | None, look: Look
) -> AsyncGenerator[_Part, None]:
    """Walk through the area, or with a limit through so many that are taken next, in that order."""
    facts = await editor.facts(queue)
    first = facts.ready - 1 - area.first
    number = max(0, first - area.spared + 1) if area.queue else 0
    number = min([number, *(most for most in (area.most, limit) if most is not None)])
    depth = number + (facts.processing if area.processing else 0)
    scanned = 0
    if number:
        async with aclosing(windows(editor, queue, "q", Span(area.spared, first), look)) as coming:
            async for length, place, items in coming:
                bodies = items[: number - scanned]
                scanned += len(bodies)
                at_ms = await editor.clock_us() // 1000
                start = max(0, length - 1 - place)
                yield scanned, depth, at_ms, [_queued(start + at, body) for at, body in enumerate(bodies)]
                if scanned == number:
                    break
    if area.processing and (limit is None or scanned < limit):
        at_ms = await editor.clock_us() // 1000
        async for seen, _, _, found in _processing(editor, queue, at_ms):
            yield scanned + seen, depth, at_ms, found if limit is None else found[: limit - scanned]
            if limit is not None and scanned + seen >= limit:
                return


async def _processing(editor: ListEditor, queue: str, at_ms: int) -> AsyncGenerator[_Part, None]:
    """Walk through what is in processing, the oldest first, each with the deadline of its lease."""
    leases = await editor.leases(queue)
    number = (await editor.facts(queue)).processing
    seen = 0
    async with aclosing(windows(editor, queue, "p", Span(0, number - 1), Look())) as coming:
        async for _, _, items in coming:
            found = []
            for at, body in enumerate(items, seen):
                left = leases.get(body)
                score = left.pop(0)[1] if left else UNLEASED_SCORE
                id = item_id("processing", at, body).encode()
                found.append(RawMessage(id, score, None, None, len(body), body))
            seen += len(items)
            yield seen, number, at_ms, found
