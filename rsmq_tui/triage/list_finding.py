"""Finding the items of a list queue that a change names by their values, and how many of them one call may take.

A list is read in windows, from the end that consumers take from to the other, in places that are counted from that
other end: what consumers take shifts none of them. What producers push shifts all, so windows overlap, and what is read
twice is counted once. Whatever a pass misses, the next one finds.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from rsmq_tui.protocol.edits import Edit, Outcome, letters_of
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import ListBatch, Window
from rsmq_tui.protocol.lists.item_ids import Area, digest_of, item_digest
from rsmq_tui.protocol.lists.item_places import Steps
from rsmq_tui.triage.preparing import Prepared

# One call holds the server for some ms, and no longer than HOLDS_AT_MOST_MS where a list is short enough for that.
HOLDS_AT_MOST_MS = 50
MAX_ITEMS = 2_000
MAX_BYTES = 1_000_000
_MAX_SPAN_ITEMS, _MAX_SPAN_BYTES = 8_000, 2_000_000
_LOOKUPS_US = 4_000.0
# About what the server needs: to walk past an item while comparing it, to get to one by its place, for a command.
_WALK_US, _INDEX_US, _COMMAND_US = 0.05, 0.0003, 2.0

# What producers push between two reads, and between a read and its call, may shift items so far.
_OVERLAP_ITEMS = 250
_SLACK_ITEMS, _SLACK_BYTES = 500, 4_000_000
# How often the whole list is looked through for what calls have missed.
_PASSES = 8
# Stretches of a list that lie nearer to each other than that are read as one; so much of it is read whole.
_JOINED_ITEMS = 2_000
_MUCH = 0.1

EVERYWHERE = 2**40
MOVED_ON = "the list changed too fast to find them"

# Makes the batch for the values of a part, in the order in which they are taken, and the window in which they lie.
Make = Callable[[list[bytes], Window], Awaitable[Prepared]]


class Span(NamedTuple):
    """A stretch of a list, both ends included, in places from 0 on: that of the item which was pushed last."""

    near: int
    far: int


class Sighting(NamedTuple):
    """An item that was seen, and its place then; ``passed`` is how many bytes of items were read up to it."""

    place: int
    body: bytes
    passed: int = 0


@dataclass(slots=True)
class Part:
    """Items that one call takes, what is taken first at first."""

    items: list[Sighting] = field(default_factory=list)
    heavy: int = 0
    # How many items this change takes first from behind them, and how long the items are that lie around.
    behind: int = 0
    longest: int = 1

    def window(self, spared: int) -> Window:
        """Return where the call is to look for them."""
        slack = min(_SLACK_ITEMS, _SLACK_BYTES // self.longest)
        return Window(self.items[-1].place - self.behind, self.items[0].place - self.behind, slack, spared)

    def takes(self, item: Sighting, in_front: int) -> bool:
        """Tell whether one call may take that too, where so many items lie before all of them that stay."""
        if not self.items:
            return True
        number, span = len(self.items) + 1, self.items[0].place - item.place + 1
        if number > MAX_ITEMS or self.heavy + len(item.body) > MAX_BYTES:
            return False
        if span > _MAX_SPAN_ITEMS or item.passed - self.items[0].passed > _MAX_SPAN_BYTES:
            return False
        depth = min(in_front + span, self.items[0].place + 1)
        return number * (_COMMAND_US + depth * _INDEX_US) <= _LOOKUPS_US

    def add(self, item: Sighting) -> None:
        """Add an item that is taken later than all of them."""
        self.items.append(item)
        self.heavy += len(item.body)


def walk_ms(place: int) -> float:
    """Return about how long the walk from the end of a list to a place takes, in which the server does nothing else."""
    return place * _WALK_US / 1000


def spans_of(positions: Iterable[int], ready: int, *, is_still: bool = True) -> list[Span]:
    """Return the stretches in which items lie, by their positions in order, counted from what is taken next.

    ``is_still`` says that nothing was pushed since. Else stretches are wider, and there are none where they would be
    much of the list: what is looked for everywhere comes in order.
    """
    slack = 0 if is_still else _SLACK_ITEMS
    spans: list[Span] = []
    for position in positions:
        place = max(0, ready - 1 - position)
        if spans and spans[-1].near - place <= _JOINED_ITEMS:
            spans[-1] = Span(min(place, spans[-1].near), max(place + slack, spans[-1].far))
        else:
            spans.append(Span(place, place + slack))
    is_much = sum(span.far - span.near for span in spans) > ready * _MUCH
    return [] if is_much and not is_still else spans


class Look:
    """A look at a list: ``steps`` is how much to read at once, ``longest`` the length of the longest item read last.

    ``has_gaps`` says that it may have passed over items: more were pushed between two reads than these overlap.
    """

    def __init__(self, steps: Steps | None = None) -> None:
        self.steps = steps or Steps()
        self.has_gaps = False
        self.longest = 1


async def windows(
    editor: ListEditor, queue: str, area: Area, span: Span, look: Look
) -> AsyncGenerator[tuple[int, int, list[bytes]], None]:
    """Walk through a stretch of a list from what is taken first on; yields its length, and items from a place down.

    Where no more than _OVERLAP_ITEMS are pushed between two reads each item comes once, whatever consumers take. Where
    more are pushed some are passed over, and where others take items out of the midst some may come twice: ``look``
    tells.
    """
    steps, far = look.steps, span.far
    tail: list[bytes] = []
    length = await length_of(editor, queue, area)
    while far >= span.near:
        is_end = far >= length - 1
        far = min(far, length - 1)
        near = max(span.near, far - steps.items + 1)
        # What was pushed since the list was counted may have shifted its end.
        length, items = await editor.places(queue, area, near, EVERYWHERE if is_end else far + len(tail))
        steps.learn(items)
        look.longest = max(map(len, items), default=1) or 1
        # Without a push these are the last of those before.
        known = again = min(len(tail), max(0, len(items) - (far - near + 1)))
        while again and items[:again] != tail[len(tail) - again :]:
            again -= 1
        look.has_gaps = look.has_gaps or (known > 0 and again == 0)
        yield length, near + len(items) - 1 - again, items[again:]
        tail = items[len(items) - min(len(items), _OVERLAP_ITEMS, steps.items // 4) :]
        far = near - 1


async def length_of(editor: ListEditor, queue: str, area: Area) -> int:
    """Return how many items are in the queue, or in processing."""
    facts = await editor.facts(queue)
    return facts.processing if area == "p" else facts.ready


async def sightings(
    editor: ListEditor, queue: str, area: Area, wanted: Counter[bytes], spans: Sequence[Span], look: Look
) -> AsyncGenerator[tuple[int, list[Sighting]], None]:
    """Walk through stretches of a list, the furthest first, and yield its length and those that are wanted.

    ``wanted`` counts the SHA1s of values in 20 bytes; each item that is seen is taken from it, and it ends when none is
    left. What is in no stretch is left there.
    """
    left, passed = wanted.total(), 0
    for span in spans:
        if not left:
            return
        async with aclosing(windows(editor, queue, area, span, look)) as coming:
            async for length, first, items in coming:
                found = []
                for number, body in enumerate(items):
                    passed += len(body)
                    digest = item_digest(body)
                    if meant := wanted.get(digest):
                        if meant == 1:
                            del wanted[digest]
                        else:
                            wanted[digest] = meant - 1
                        left -= 1
                        found.append(Sighting(first - number, body, passed))
                yield length, found
                if not left:
                    return


async def parts(
    editor: ListEditor, queue: str, area: Area, wanted: Counter[bytes], spans: Sequence[Span], look: Look
) -> AsyncGenerator[Part, None]:
    """Walk through those that are wanted in parts that one call takes each, what is taken first at first."""
    part, claimed, before = Part(), 0, 0
    async with aclosing(sightings(editor, queue, area, wanted, spans, look)) as seen:
        async for length, found in seen:
            before = before or length
            for item in found:
                if part.items and item.place >= part.items[-1].place:
                    # Pushes have shifted what was read twice.
                    yield part
                    part = Part()
                # What this change takes from before them is no longer there then.
                first = part.items[0] if part.items else item
                if not part.takes(item, max(0, before - 1 - first.place - (claimed - len(part.items)))):
                    yield part
                    part = Part()
                part.add(item)
                part.longest = max(part.longest, look.longest)
                claimed += 1
    if part.items:
        yield part


class Finding:
    """Finds what is ``wanted`` in a list, which counts the SHA1s of values in 20 bytes.

    It looks in those ``spans`` first. ``spared`` items are left alone at the end that producers push to. ``backwards``
    gives those that are taken last first. ``again`` is told of each edit that missed its item.
    """

    def __init__(
        self,
        editor: ListEditor,
        queue: str,
        area: Area,
        wanted: Counter[bytes],
        spans: Sequence[Span] = (),
        *,
        spared: int = 0,
        backwards: bool = False,
        again: Callable[[Edit], None] = lambda edit: None,
    ) -> None:
        self._editor, self._queue, self._area = editor, queue, area
        self._wanted, self._spans, self._spared, self._backwards = wanted, spans, spared, backwards
        self._again = again
        self._missed: Counter[bytes] = Counter()
        self._steps = Steps()

    async def passes(self, make: Make) -> AsyncGenerator[Prepared, None]:
        """Have batches made of all that is there; what is not there in a look at the whole list is told to be gone."""
        if self._spans:
            async with aclosing(self._one_pass(make, self._spans)) as steps:
                async for prepared in steps:
                    yield prepared
        for _ in range(_PASSES):
            if not self._wanted:
                return
            whole = Span(self._spared, EVERYWHERE)
            async with aclosing(self._one_pass(make, [whole], is_whole=True)) as steps:
                async for prepared in steps:
                    yield prepared
        if moved_on := self._wanted.total():
            yield Prepared(sorted_out=Outcome.CHANGED * moved_on, left=MOVED_ON)

    async def _one_pass(
        self, make: Make, spans: Sequence[Span], *, is_whole: bool = False
    ) -> AsyncGenerator[Prepared, None]:
        look = Look(self._steps)
        found = parts(self._editor, self._queue, self._area, self._wanted, spans, look)
        if self._backwards:
            found = _turned([part async for part in found])
        async with aclosing(found) as coming:
            async for part in coming:
                prepared = await make([item.body for item in part.items], part.window(self._spared))
                if isinstance(prepared.batch, ListBatch) and prepared.batch.takes_from_list:
                    prepared.heard = partial(self._hear, prepared.batch.edits)
                yield prepared
        # What became of them is known when this is over.
        yield Prepared(alone=True)
        if is_whole and not look.has_gaps:
            if gone := self._wanted.total():
                yield Prepared(sorted_out=Outcome.GONE * gone)
            self._wanted.clear()
        self._wanted.update(self._missed)
        self._missed.clear()

    def _hear(self, edits: Sequence[Edit], outcome: str) -> None:
        for edit, letter in zip(edits, letters_of(outcome), strict=True):
            if letter == Outcome.MISSED and edit.before is not None:
                self._missed[digest_of(edit.before.id)] += 1
                self._again(edit)


async def _turned(found: Sequence[Part]) -> AsyncGenerator[Part, None]:
    behind = 0
    for part in reversed(found):
        part.behind, behind = behind, behind + len(part.items)
        yield part


def cut(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Cut items into those that one call may add at an end."""
    part: list[bytes] = []
    heavy = 0
    for item in items:
        if part and (len(part) == MAX_ITEMS or heavy + len(item) > MAX_BYTES):
            yield part
            part, heavy = [], 0
        part.append(item)
        heavy += len(item)
    if part:
        yield part
