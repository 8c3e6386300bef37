"""Finding the place again in a list that others change: where a scan goes on, told by what it has read before.

Items stand here as hashes of their bytes. Those of equal bytes are interchangeable: only their number counts.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

# So many items in a row make a landmark, where none like them are near.
GRAM = 4
# How far around a landmark none like it may be, and how far it is looked for.
SPAN = 500
# The shortest run of items that tells a place where some of those around have gone.
_SHORT = 8
# How far back it is looked for what consumers have left of a queue that was read.
_BACK = 20_000
_BYTES = array("q").itemsize
# How many places where the history may begin are tried.
_TRIED = 16


class Left(NamedTuple):
    """How many items of a history are still in the list, from its start on, and how many came behind these."""

    kept: int
    behind: int


def places_after(window: Sequence[int], tail: Sequence[int]) -> list[int]:
    """Return where in a window the tail ends, for each time that it is there whole."""
    size, last, whole = len(tail), tail[-1], list(tail)
    return [
        end for end in range(size, len(window) + 1) if window[end - 1] == last and window[end - size : end] == whole
    ]


def place_after_most(window: Sequence[int], tail: Sequence[int]) -> tuple[int, int] | None:
    """Return where in a window the tail ends although some of its items have gone, and how far what is left has moved.

    None where that cannot be told.
    """
    for stop in range(len(tail), _SHORT - 1, -1):
        ends = places_after(window, tail[stop - _SHORT : stop])
        if len(ends) == 1:
            return ends[0] + kept(window[ends[0] :], tail[stop:])[0], ends[0] - stop
    return None


def is_cut_short(window: Sequence[int], tail: Sequence[int]) -> bool:
    """Tell whether a window ends, as its list does, within the tail: consumers have taken the rest of it."""
    whole = list(tail)
    return any(window[first:] == whole[: len(window) - first] for first in range(len(window) - _SHORT + 1))


def kept(window: Sequence[int], before: Sequence[int]) -> tuple[int, int]:
    """Return how many items from the start of the window on were there before, in that order, and among how many.

    Not all that were there need be left. It is the most that may be: whatever of equal items has gone, each of those
    before and each that is new counts once.
    """
    place, size = 0, len(before)
    for count, item in enumerate(window):
        found = place
        while found < size and before[found] != item:
            found += 1
        if found == size:
            return count, place
        place = found + 1
    return len(window), place


def landmark_in(history: "array[int]") -> int | None:
    """Return the end of the last GRAM items that are like no others among the last: where they move, all have moved."""
    first = max(0, len(history) - 2 * SPAN)
    recent = tuple(history[first:])
    grams = [recent[end - GRAM : end] for end in range(GRAM, len(recent) + 1)]
    seen: dict[tuple[int, ...], int] = {}
    for gram in grams:
        seen[gram] = seen.get(gram, 0) + 1
    for place in range(len(grams) - 1, -1, -1):
        if seen[grams[place]] == 1:
            return first + place + GRAM
    return None


def left_of(
    history: "array[int]", head: Sequence[int], ending: Sequence[int], length: int, *, is_all: bool
) -> Left | None:
    """Return what is left of the history in a list, by how it begins and ends now, where the history may begin.

    ``length`` counts the items from the start of ``head`` to the end. Of several answers it is the one with fewest
    pushed before, then the one with most left. None where the ending is of other items; where it is the whole list,
    nothing is left then.
    """
    begins = [place for place in range(len(head)) if history and head[place] == history[0]][:_TRIED]
    for pushed in begins:
        for behind in range(len(ending)):
            left, stop = length - pushed - behind, len(ending) - behind
            if left <= 0:
                break
            size, first = min(left, stop), min(left, len(head) - pushed)
            if (
                left <= len(history)
                and history[left - 1] == ending[stop - 1]
                and list(history[left - size : left]) == list(ending[stop - size : stop])
                and list(history[:first]) == list(head[pushed : pushed + first])
            ):
                return Left(left, behind)
    if is_all:
        return Left(0, len(ending))
    # Where more came behind it than is looked at, its start may tell.
    there = max(((_same(history, head[pushed:]), pushed) for pushed in begins), default=(0, 0))
    if there[0] and (there[0] == len(history) or sum(there) < len(head)):
        return Left(there[0], length - sum(there))
    # Some in its midst have gone, or its start is too far.
    history = history[:length]
    begin = max(0, len(history) - _BACK)
    recent = history[begin:].tobytes()
    size = min(_SHORT, len(history))
    for behind in range(len(ending) - size + 1 if size else 0):
        pattern = array("q", ending[len(ending) - behind - size : len(ending) - behind]).tobytes()
        at = recent.rfind(pattern)
        while at % _BYTES and at >= 0:
            at = recent.rfind(pattern, 0, at + len(pattern) - 1)
        if at >= 0:
            return Left(begin + at // _BYTES + size, behind)
    return None


def _same(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many items are the same at the start of both."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
