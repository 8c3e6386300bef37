"""How much of a long list one call may change: what it costs to walk there decides."""

from collections.abc import Iterable, Iterator, Sequence

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.edits import Edit
from rsmq_tui.protocol.lists.edits import position_of

# One call is to hold the server for so long, and no longer than HOLDS_AT_MOST_MS where a list is short enough for that.
_BUDGET_US = 15_000.0
_BEYOND_WALK_US = 6_000.0
HOLDS_AT_MOST_MS = 50
_ITEMS = 2_000
_INSERTED = 1_000
_BYTES = 1_000_000

# About what the server needs: to walk past an item while comparing it, and to get to one by its index; for each command
# of a script; to read an item into one; and to take an item away at an end and put it back.
_WALK_US, _INDEX_US, _COMMAND_US, _READ_US, _CUT_US = 0.05, 0.0003, 2.0, 0.4, 1.0
_INSERT_US = 300.0


def removals(items: Iterable[RawMessage], length: int) -> Iterator[list[RawMessage]]:
    """Cut items that come in order of position, or against it, into those that one call may remove.

    Each part is in order of position. Those in the middle of a list need a walk there, whatever their number.
    """
    part: list[RawMessage] = []
    first, heavy = 0, 0
    for item in items:
        position = position_of(item.id)
        low, high = (min(first, position), max(first, position)) if part else (position, position)
        budget = max(_BUDGET_US, walk_us(low, high, length) + _BEYOND_WALK_US)
        is_full = len(part) == _ITEMS or heavy + item.size > _BYTES
        if part and (is_full or _removal_us(len(part) + 1, low, high, length) > budget):
            yield _in_order(part)
            part, heavy = [], 0
        if not part:
            first = position
        part.append(item)
        heavy += item.size
    if part:
        yield _in_order(part)


def pushes(items: Iterable[RawMessage]) -> Iterator[list[RawMessage]]:
    """Cut items into those that one call may add at an end, or change where no walk is needed."""
    part: list[RawMessage] = []
    heavy = 0
    for item in items:
        if part and (len(part) == _ITEMS or heavy + item.size > _BYTES):
            yield part
            part, heavy = [], 0
        part.append(item)
        heavy += item.size
    if part:
        yield part


def walk_us(low: int, high: int, length: int) -> float:
    """Return about how long the walk from the nearer end takes that removes what lies between two positions."""
    return min(high + 1, max(1, length - low)) * _WALK_US


def _removal_us(count: int, low: int, high: int, length: int) -> float:
    to_each = _COMMAND_US + min(high, max(0, length - low)) * _INDEX_US
    is_run = high - low + 1 == count
    if is_run and (low == 0 or high >= length - 1):
        return count * (_READ_US + _COMMAND_US / 2)
    # Either all between the first and the last is read, or each and what lies before it.
    return walk_us(low, high, length) + count * to_each + min((high - low + 1) * _READ_US, 2 * count * to_each)


def insertions(edits: Sequence[Edit], length: int, take_from: str) -> Iterator[tuple[Edit, ...]]:
    """Cut edits that put items at places, in order, into those that one call may make."""
    part: list[Edit] = []
    first = total = 0
    for edit in edits:
        place = 0 if edit.after is None else position_of(edit.after.id)
        count = len(part) + 1
        low = first if part else place
        is_full = count > _INSERTED or insertion_us(count, low, place, total + place, length, take_from) > _BUDGET_US
        if part and is_full:
            yield tuple(part)
            length += len(part)
            part, total = [], 0
        if not part:
            first = place
        part.append(edit)
        total += place
    if part:
        yield tuple(part)


def insertion_us(count: int, low: int, high: int, total: int, length: int, take_from: str) -> float:
    """Return about how long it takes to put items at places, from the lowest to the highest, of that sum.

    The script chooses the cheapest way as well; places below 0 are at the back.
    """
    if low < 0:
        return count * _COMMAND_US
    through_front = max(0, high - count + 1) * _CUT_US
    through_back = max(0, length - low) * _CUT_US
    # The walk is from the head of the list, whichever end is nearer.
    walked = (total if take_from == "left" else count * (length + count) - total) * _WALK_US
    return min(through_front, through_back, walked + count * _INSERT_US) + count * _COMMAND_US


def _in_order(part: list[RawMessage]) -> list[RawMessage]:
    return sorted(part, key=lambda item: position_of(item.id))
