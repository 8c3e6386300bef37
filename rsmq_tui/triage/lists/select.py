"""Selects items of a list queue, finds them again by value, and splits them into parts for one call each.

A list is read in windows, starting at the end that consumers take from. Places are counted from the other end, so takes
do not shift them. Pushes shift all of them, so windows overlap, and items that are read twice are counted once. What
one pass misses, the next one finds.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from os import SEEK_END
from typing import NamedTuple

from rsmq_tui.monitor.filters.language import Filter, parse_filter
from rsmq_tui.monitor.filters.search import SearchProgress
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import ListBatch, Window
from rsmq_tui.protocol.lists.naming import (
    NO_ITEM_ID,
    READY_SCORE,
    UNLEASED_SCORE,
    Area,
    ItemId,
    area_of,
    digest_of,
    item_digest,
    item_id,
    position_of,
    read_item_id,
)
from rsmq_tui.protocol.lists.scan import WindowItems
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.scope import Everything, Marked, Matching, Named, ScanCallback, ScanProgress, Scope, Selection

PUT_BACK = (
    "Undo puts items back at the end that consumers take from: the one that was removed first is taken next again."
)
"""What undoing a removal does to the order of a list; items that were in processing go back there."""


class _Block(NamedTuple):
    first: int
    offset: int


class ListSelection(Selection):
    """Items of one list queue; ``counts`` has the number of each area, ``q`` (queue) and ``p`` (processing).

    ``deepest`` is the highest position in the queue, counted from the item that is taken next. ``ready`` is how many
    items the queue held when they were found, and ``newest`` the SHA1 of the item that was pushed last, in 20 bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[Area, int] = {"q": 0, "p": 0}
        self.deepest = 0
        self.ready = 0
        self.newest = b""
        self._block_offsets: dict[Area, list[_Block]] = {"q": [], "p": []}

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Add items that were read at that server time."""
        areas: dict[Area, list[tuple[int, RawMessage]]] = {"q": [], "p": []}
        for message in messages:
            areas[area_of(message.id)].append((position_of(message.id), message))
        for area, found in areas.items():
            if found:
                found.sort(key=lambda pair: pair[0])
                self._block_offsets[area].append(_Block(found[0][0], self._file.seek(0, SEEK_END)))
                self.counts[area] += len(found)
                if area == "q":
                    self.deepest = max(self.deepest, found[-1][0])
                super().add([message for _, message in found], at_ms)

    def items(self, area: Area) -> Iterator[RawMessage]:
        """Iterate over the items of an area, in order of position."""
        for _, offset in sorted(self._block_offsets[area]):
            yield from next(self._blocks(offset))


# One call blocks the server for a few ms, and for at most HOLD_MAX_MS unless the list is too long.
HOLD_MAX_MS = 50
ITEMS_MAX = 2_000
BYTES_MAX = 1_000_000
_SPAN_ITEMS_MAX, _SPAN_BYTES_MAX = 8_000, 2_000_000
_LOOKUPS_US = 4_000.0
# Approximate server time: to compare one item of a walk, to skip one item of an index lookup, and for one command.
_WALK_US, _INDEX_US, _COMMAND_US = 0.05, 0.0003, 2.0

# How far pushes between a read and its call may shift items.
_SLACK_ITEMS, _SLACK_BYTES = 500, 4_000_000
# How often the whole list is searched for items that calls have missed.
_PASSES = 8
# Spans closer together than this are joined; if spans cover more than this share of a list, all of it is read.
_JOINED_ITEMS = 2_000
_MUCH = 0.1

EVERYWHERE = 2**40
MOVED_ON = "the list changed too fast to find them"
# If others remove newer items, an item may become one of those that a trim keeps.
KEPT = "taken or removed by others, or now among those that are kept"

# Makes the step for the values of a part, in the order in which they are taken; the window says where they are.
Make = Callable[[list[bytes], Window], Awaitable[Step]]


class IndexRange(NamedTuple):
    """A range of indexes in a list, both ends included; index 0 is the item that was pushed last."""

    near: int
    far: int


class Sighting(NamedTuple):
    """An item that was found, and its index then; ``passed_bytes`` are those of the items read up to it."""

    list_index: int
    body: bytes
    passed_bytes: int = 0


@dataclass(slots=True)
class ItemBatch:
    """Items for one call, in the order in which they are taken; ``bytes`` is the total length of their bodies."""

    items: list[Sighting] = field(default_factory=list)
    bytes: int = 0
    # How many items at lower indexes this change removes before, and the length of the longest item nearby.
    behind: int = 0
    longest: int = 1

    def window(self, spared: int) -> Window:
        """Return where the call searches for the items."""
        slack = min(_SLACK_ITEMS, _SLACK_BYTES // self.longest)
        return Window(self.items[-1].list_index - self.behind, self.items[0].list_index - self.behind, slack, spared)

    def takes(self, item: Sighting, in_front: int) -> bool:
        """Return whether one call may take that item too, if ``in_front`` items before the part stay in the list."""
        if not self.items:
            return True
        number, span = len(self.items) + 1, self.items[0].list_index - item.list_index + 1
        if number > ITEMS_MAX or self.bytes + len(item.body) > BYTES_MAX:
            return False
        if span > _SPAN_ITEMS_MAX or item.passed_bytes - self.items[0].passed_bytes > _SPAN_BYTES_MAX:
            return False
        depth = min(in_front + span, self.items[0].list_index + 1)
        return number * (_COMMAND_US + depth * _INDEX_US) <= _LOOKUPS_US

    def add(self, item: Sighting) -> None:
        """Add an item that is taken after all others."""
        self.items.append(item)
        self.bytes += len(item.body)


def walk_ms(index: int) -> float:
    """Return about how long a walk from the end of a list to an index blocks the server."""
    return index * _WALK_US / 1000


def spans_of(positions: Iterable[int], ready: int, *, is_still: bool = True) -> list[IndexRange]:
    """Return the spans of items with these positions, in order, counted from the item that is taken next.

    ``is_still`` is True if nothing was pushed since. Otherwise spans are wider, and none are returned if they cover
    much of the list: a search of the whole list finds the items in order.
    """
    slack = 0 if is_still else _SLACK_ITEMS
    spans: list[IndexRange] = []
    for position in positions:
        index = max(0, ready - 1 - position)
        if spans and spans[-1].near - index <= _JOINED_ITEMS:
            spans[-1] = IndexRange(min(index, spans[-1].near), max(index + slack, spans[-1].far))
        else:
            spans.append(IndexRange(index, index + slack))
    is_much = sum(span.far - span.near for span in spans) > ready * _MUCH
    return [] if is_much and not is_still else spans


class AreaReader:
    """Reads an area of a list; ``longest`` is the length of the longest item of the last window.

    ``has_gaps`` is True if items may have been missed, because the list changed too fast.
    """

    def __init__(self, editor: ListEditor, queue: str, area: Area) -> None:
        self.has_gaps = False
        self.longest = 1
        self._editor, self._queue, self._area = editor, queue, area

    async def windows(self, span: IndexRange) -> AsyncGenerator[WindowItems, None]:
        """Read a span in the order in which items are taken; each window has only items not read before."""
        walk = self._editor.walk(self._queue, self._area, None if span.far == EVERYWHERE else span.far, span.near)
        while not walk.is_over:
            found = await walk.step()
            self.longest = max(map(len, found.bodies), default=1) or 1
            yield found
        self.has_gaps = self.has_gaps or walk.lost > 0

    async def sightings(
        self, wanted: Counter[bytes], spans: Sequence[IndexRange]
    ) -> AsyncGenerator[tuple[int, list[Sighting]], None]:
        """Read spans in their order, and yield the length of the list and the wanted items of each window.

        ``wanted`` counts items by the SHA1 of their values, in 20 bytes. Each item found is subtracted from it; the
        search ends when it is empty, and items that were not found remain in it.
        """
        left, passed_bytes = wanted.total(), 0
        for span in spans:
            if not left:
                return
            async with aclosing(self.windows(span)) as coming:
                async for window in coming:
                    found, length = [], window.moment.length(window.place)
                    for position, body in zip(window.positions, window.bodies, strict=True):
                        passed_bytes += len(body)
                        digest = item_digest(body)
                        if meant := wanted.get(digest):
                            if meant == 1:
                                del wanted[digest]
                            else:
                                wanted[digest] = meant - 1
                            left -= 1
                            found.append(Sighting(length - 1 - position, body, passed_bytes))
                    yield length, found
                    if not left:
                        return

    async def parts(self, wanted: Counter[bytes], spans: Sequence[IndexRange]) -> AsyncGenerator[ItemBatch, None]:
        """Yield the wanted items in parts for one call each, in the order in which they are taken."""
        part, claimed, before = ItemBatch(), 0, 0
        async with aclosing(self.sightings(wanted, spans)) as seen:
            async for length, found in seen:
                before = before or length
                for item in found:
                    if part.items and item.list_index >= part.items[-1].list_index:
                        # Pushes have shifted indexes between the windows.
                        yield part
                        part = ItemBatch()
                    # Items that this change takes before these are gone by then.
                    first = part.items[0] if part.items else item
                    if not part.takes(item, max(0, before - 1 - first.list_index - (claimed - len(part.items)))):
                        yield part
                        part = ItemBatch()
                    part.add(item)
                    part.longest = max(part.longest, self.longest)
                    claimed += 1
        if part.items:
            yield part


class ItemFinder:
    """Finds items in a list; ``wanted`` counts them by the SHA1 of their values, in 20 bytes.

    ``spans`` are searched first. The ``spared`` items that were pushed last are skipped. ``backwards`` yields the items
    that are taken last first. ``again`` is called with each edit that missed its item.
    """

    def __init__(
        self,
        editor: ListEditor,
        queue: str,
        area: Area,
        wanted: Counter[bytes],
        spans: Sequence[IndexRange] = (),
        *,
        spared: int = 0,
        backwards: bool = False,
        again: Callable[[Edit], None] = lambda edit: None,
    ) -> None:
        self._editor, self._queue, self._area = editor, queue, area
        self._wanted, self._spans, self._spared, self._backwards = wanted, spans, spared, backwards
        self._again = again
        self._missed: Counter[bytes] = Counter()

    async def passes(self, make: Make) -> AsyncGenerator[Step, None]:
        """Yield a step for each part that is found; items that a search of the whole list does not find are gone."""
        if self._spans:
            async with aclosing(self._one_pass(make, self._spans)) as steps:
                async for step in steps:
                    yield step
        for _ in range(_PASSES):
            if not self._wanted:
                return
            whole = IndexRange(self._spared, EVERYWHERE)
            async with aclosing(self._one_pass(make, [whole], is_whole=True)) as steps:
                async for step in steps:
                    yield step
        if moved_on := self._wanted.total():
            yield Step(excluded=Outcome.CHANGED * moved_on, skip_reason=MOVED_ON)

    async def _one_pass(
        self, make: Make, spans: Sequence[IndexRange], *, is_whole: bool = False
    ) -> AsyncGenerator[Step, None]:
        reader = AreaReader(self._editor, self._queue, self._area)
        found = reader.parts(self._wanted, spans)
        if self._backwards:
            found = _turned([part async for part in found])
        async with aclosing(found) as coming:
            async for part in coming:
                step = await make([item.body for item in part.items], part.window(self._spared))
                if isinstance(step.batch, ListBatch) and step.batch.takes_from_list:
                    step.on_outcome = partial(self._note_missed, step.batch.edits)
                yield step
        # Wait for the outcomes, which show what was missed.
        yield Step(alone=True)
        if is_whole and not reader.has_gaps:
            gone = self._wanted.total()
            if gone and self._spared:
                yield Step(excluded=Outcome.CHANGED * gone, skip_reason=KEPT)
            elif gone:
                yield Step(excluded=Outcome.GONE * gone)
            self._wanted.clear()
        self._wanted.update(self._missed)
        self._missed.clear()

    def _note_missed(self, edits: Sequence[Edit], outcome: str) -> None:
        for edit, letter in zip(edits, letters_of(outcome), strict=True):
            if letter == Outcome.MISSED and edit.before is not None:
                self._missed[digest_of(edit.before.id)] += 1
                self._again(edit)


async def _turned(found: Sequence[ItemBatch]) -> AsyncGenerator[ItemBatch, None]:
    behind = 0
    for part in reversed(found):
        part.behind, behind = behind, behind + len(part.items)
        yield part


# Searches a queue with a filter.
Search = Callable[[str, Filter], AsyncGenerator[SearchProgress, None]]


class EligibleItems(NamedTuple):
    """The items that an action can apply to: those in the queue, those in processing, or both.

    In the queue, the ``first`` items that are taken next and the ``spared`` ones that were pushed last are excluded;
    ``most`` limits the number.
    """

    queue: bool = True
    processing: bool = True
    first: int = 0
    spared: int = 0
    most: int | None = None


_ALL_ITEMS = EligibleItems()


class LeftOut(NamedTuple):
    """The numbers of items that were left out.

    ``elsewhere``: no longer as shown. ``not_meant``: not eligible. ``unsearched``: too long to match.
    ``is_incomplete`` is True if the list changed too fast to read all of it.
    """

    elsewhere: int = 0
    not_meant: int = 0
    unsearched: int = 0
    is_incomplete: bool = False


async def select_items(
    editor: ListEditor,
    search: Search,
    queue: str,
    scope: Scope | None,
    selection: ListSelection,
    *,
    eligible: EligibleItems = _ALL_ITEMS,
    on_progress: ScanCallback = lambda _: None,
) -> LeftOut:
    """Add the eligible items of a scope to a selection; raises what the editor and the search raise."""
    adding = _Adding(eligible, selection)
    elsewhere = unsearched = restarts = 0
    reader = AreaReader(editor, queue, "q")
    walked = _walked(scope, eligible)
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
                    unsearched, restarts = part.not_searched, part.restarts
                    on_progress(ScanProgress(part.scanned, part.depth, adding.taken))
                    if limit is not None and adding.taken >= limit:
                        break
        case Matching() | Everything() | None:
            limit = scope.limit if isinstance(scope, Matching) else None
            async with aclosing(_everything(editor, queue, eligible, limit, reader)) as parts:
                async for scanned, depth, at_ms, items in parts:
                    adding.add(items, at_ms)
                    on_progress(ScanProgress(scanned, depth, adding.taken))
    selection.ready, selection.newest = await editor.newest(queue)
    return LeftOut(elsewhere, adding.not_meant, unsearched, is_incomplete=restarts > 0 or reader.has_gaps)


def _walked(scope: Scope | None, eligible: EligibleItems) -> Matching | None:
    """Return the search for a scope that selects everything, or None: a search yields each item once despite takes."""
    is_all = scope is None or isinstance(scope, Everything)
    if isinstance(scope, Matching):
        is_all = scope.limit is None and not scope.filter.text.strip()
    if not is_all or not eligible.queue or eligible.first or eligible.spared or eligible.most is not None:
        return None
    return Matching(parse_filter("" if eligible.processing else "state:ready"), None)


class _Adding:
    """Adds items to a selection if they are eligible."""

    def __init__(self, eligible: EligibleItems, selection: ListSelection) -> None:
        self.not_meant = self.taken = 0
        self._eligible, self._selection = eligible, selection

    def add(self, messages: Sequence[RawMessage], at_ms: int) -> None:
        meant = [message for message in messages if self._is_meant(message)]
        self.not_meant += len(messages) - len(meant)
        self.taken += len(meant)
        self._selection.add(meant, at_ms)

    def _is_meant(self, message: RawMessage) -> bool:
        return self._eligible.queue if area_of(message.id) == "q" else self._eligible.processing


async def _named(editor: ListEditor, queue: str, named: Iterable[tuple[str, str | None]], adding: _Adding) -> int:
    """Select items by ids (and deadlines, if they were shown); return how many no longer exist.

    Among equal items, as many are selected as were named.
    """
    left = 0
    ids = [(_read_id(id), score) for id, score in named]
    at_ms = await editor.clock_us() // 1000
    worked_on = [(id, score) for id, score in ids if id.place == "processing"]
    if worked_on:
        processing: dict[str, list[RawMessage]] = {}
        async for _, _, _, items in _processing(editor, queue):
            for there in items:
                processing.setdefault(there.id[-40:].decode(), []).append(there)
        found = []
        for id, score in worked_on:
            there_now = processing.get(id.sha, [])
            same = [there for there in there_now if score is None or _is_same(score, there.score)]
            if same:
                item = min(same, key=lambda item: abs(position_of(item.id) - id.position))
                there_now.remove(item)
                found.append(item)
        left += len(worked_on) - len(found)
        adding.add(found, at_ms)
    queued = sorted(id for id, _ in ids if id.place == "queue")
    if queued:
        left += await _queued_named(editor, queue, queued, adding, at_ms)
    return left


async def _queued_named(editor: ListEditor, queue: str, named: Sequence[ItemId], adding: _Adding, at_ms: int) -> int:
    """Search near the positions of the ids first, then the whole list."""
    wanted = Counter(bytes.fromhex(id.sha) for id in named)
    ready = (await editor.facts(queue)).ready
    for spans in (spans_of((id.position for id in named), ready), [IndexRange(0, EVERYWHERE)]):
        async with aclosing(AreaReader(editor, queue, "q").sightings(wanted, spans)) as seen:
            async for length, found in seen:
                items = [_queued(max(0, length - 1 - index), body) for index, body, _ in found]
                adding.add(items, at_ms)
    return wanted.total()


def _is_same(shown: str, now: bytes) -> bool:
    try:
        return shown == now.decode("latin-1") or float(shown) == float(now) or shown == "nan"
    except ValueError:
        return False


def _read_id(id: str) -> ItemId:
    known = read_item_id(id)
    if known is None:
        raise TriageError(NO_ITEM_ID)
    return known


def _queued(position: int, body: bytes) -> RawMessage:
    return RawMessage(item_id("queue", position, body).encode(), READY_SCORE, None, None, len(body), body)


_Part = tuple[int, int, int, list[RawMessage]]


async def _everything(
    editor: ListEditor, queue: str, eligible: EligibleItems, limit: int | None, reader: AreaReader
) -> AsyncGenerator[_Part, None]:
    """Read the eligible items, or the first ``limit`` of them, in the order in which they are taken."""
    facts = await editor.facts(queue)
    first = facts.ready - 1 - eligible.first
    number = max(0, first - eligible.spared + 1) if eligible.queue else 0
    number = min([number, *(most for most in (eligible.most, limit) if most is not None)])
    depth = number + (facts.processing if eligible.processing else 0)
    scanned = 0
    if number:
        async with aclosing(reader.windows(IndexRange(eligible.spared, first))) as coming:
            async for window in coming:
                bodies = window.bodies[: number - scanned]
                scanned += len(bodies)
                yield scanned, depth, window.moment.at_ms, list(map(_queued, window.positions, bodies))
                if scanned == number:
                    break
    if eligible.processing and (limit is None or scanned < limit):
        async with aclosing(_processing(editor, queue)) as parts:
            async for _, _, at_ms, items in parts:
                chosen = items if limit is None else items[: limit - scanned]
                scanned += len(chosen)
                yield scanned, depth, at_ms, chosen
                if scanned == limit:
                    return


async def _processing(editor: ListEditor, queue: str) -> AsyncGenerator[_Part, None]:
    """Read the items in processing, the oldest first, each with the deadline of its lease."""
    leases = await editor.leases(queue)
    seen = 0
    async with aclosing(AreaReader(editor, queue, "p").windows(IndexRange(0, EVERYWHERE))) as coming:
        async for window in coming:
            found = []
            for position, body in zip(window.positions, window.bodies, strict=True):
                left = leases.get(body)
                score = left.pop(0)[1] if left else UNLEASED_SCORE
                id = item_id("processing", position, body).encode()
                found.append(RawMessage(id, score, None, None, len(body), body))
            seen += len(found)
            yield seen, window.moment.hidden, window.moment.at_ms, found
