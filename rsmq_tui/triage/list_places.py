"""Finding what has shifted: items of a list queue that consumers and producers work on meanwhile."""

from collections.abc import Sequence
from typing import NamedTuple

from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import EDGE, Spot, sha_of

_SAMPLES = 6
# How much is read at once while looking, and how far down: what consumers took since.
_WINDOW_ITEMS = 1_000
_WINDOW_BYTES = 1_000_000
_WINDOWS = 100
_ABOVE_ITEMS = 250
_AT_ONCE = 50
# Two marks that agree are evidence; one may be any other item of the same bytes.
EVIDENCE = 2


class Mark(NamedTuple):
    """That at a position lay an item of that SHA1."""

    position: int
    sha: str


class Marks(NamedTuple):
    """What tells where items are: some of them themselves, and what lies before some."""

    items: list[Mark]
    witnesses: list[Mark]


def marks_of(spots: Sequence[Spot], before: Sequence[bytes | None]) -> Marks:
    """Return what tells where items are."""
    chosen = _spread(len(spots))
    items = [Mark(spots[number].position, spots[number].sha) for number in chosen]
    known = [(spots[number].position - 1, before[number]) for number in chosen]
    return Marks(items, [Mark(position, sha.decode()) for position, sha in known if sha and sha != EDGE])


def _spread(count: int) -> list[int]:
    if count <= _SAMPLES:
        return list(range(count))
    return [number * (count - 1) // (_SAMPLES - 1) for number in range(_SAMPLES)]


async def shift_of(
    editor: ListEditor, queue: str, marks: Marks, *, guess: int = 0, least: int = EVIDENCE, size: int = 100
) -> int:
    """Return how far all marks have shifted, or ``guess`` where nothing tells; ``size`` is about an item's length.

    Positions below 0 count from the back. What consumers take makes positions smaller, and so does what producers send
    those that count from the back: it is looked for a little above, then further and further below.
    """
    items, every = marks.items, [*marks.items, *marks.witnesses]
    if not items:
        return guess
    if items[0].position < 0:
        ready = (await editor.facts(queue)).ready
        items, every = ([Mark(ready + position, sha) for position, sha in some] for some in (items, every))
    best, votes = guess, await _votes(editor, queue, every, guess)
    if votes == len(every):
        return guess
    window = max(20, min(_WINDOW_ITEMS, _WINDOW_BYTES // max(1, size)))
    # The first may be gone already; the last was taken by nobody who takes them in order.
    first = max(items, key=lambda mark: mark.position)
    top = first.position + guess + _ABOVE_ITEMS
    for _ in range(_WINDOWS):
        bottom = max(0, top - window)
        if top < 0:
            break
        around = await editor.items(queue, "q", bottom, top)
        found = [bottom + place - first.position for place, item in enumerate(around) if sha_of(item) == first.sha]
        # Those that are nearest to what was expected come first.
        for shift in sorted(found, key=lambda shift: abs(shift - guess))[:_SAMPLES]:
            now = await _votes(editor, queue, every, shift)
            if now >= least and now > votes:
                best, votes = shift, now
        if best != guess:
            return best
        top = bottom - 1
    return best


async def _votes(editor: ListEditor, queue: str, marks: Sequence[Mark], shift: int) -> int:
    places = [mark.position + shift for mark in marks]
    there = [place for place in places if place >= 0]
    items = dict(zip(there, await editor.items_at(queue, "q", there), strict=True))
    return sum(
        (item := items.get(place)) is not None and sha_of(item) == mark.sha
        for place, mark in zip(places, marks, strict=True)
    )


async def places_of(editor: ListEditor, queue: str, spots: Sequence[Spot]) -> dict[Spot, tuple[int, bytes] | None]:
    """Return where items of these bytes are now, and their bytes; None where one is gone, or several may be meant."""
    found: dict[Spot, tuple[int, bytes] | None] = {}
    for start in range(0, len(spots), _AT_ONCE):
        part = spots[start : start + _AT_ONCE]
        items = await editor.items_at(queue, "q", [spot.position for spot in part])
        for spot, item in zip(part, items, strict=True):
            is_there = item is not None and sha_of(item) == spot.sha
            found[spot] = (spot.position, item) if is_there and item is not None else await _near(editor, queue, spot)
    return found


async def _near(editor: ListEditor, queue: str, spot: Spot) -> tuple[int, bytes] | None:
    top = spot.position + _ABOVE_ITEMS
    for _ in range(_WINDOWS // 5):
        bottom = max(0, top - _WINDOW_ITEMS)
        if top < 0:
            break
        items = await editor.items(queue, "q", bottom, top)
        found = [(bottom + place, item) for place, item in enumerate(items) if sha_of(item) == spot.sha]
        if found:
            return found[0] if len(found) == 1 else None
        top = bottom - 1
    return None
