"""When each of very many positions is due. To find those that are costs nothing for those that are not."""

from array import array
from collections.abc import Iterable, Iterator
from math import inf

_SLOT_MS = 1_000
# The farthest slot: an entry that no longer counts takes memory until its slot has passed.
_SLOTS_AHEAD = 600
# No server's clock gets so far: later times count as never.
_NEVER_MS = 1 << 53
_NOWHERE = inf


class DueTimes:
    """The times, in ms, at which the positions from 0 on are due, in slots of a second.

    A position waits in one slot, which is that of its time or an earlier one: when it is found there too early, it goes
    on to a later one. So a time that is put off again and again costs no more than one that stays. A position that
    waits in no slot has ``inf`` for its slot, so any slot is earlier.
    """

    def __init__(self, times_ms: Iterable[float] = ()) -> None:
        self._times_ms = array("d", times_ms)
        # The slot that each position waits in. Slots may have older entries of it, which do not count.
        self._waits_in = array("d", [_NOWHERE]) * len(self._times_ms)
        self._slots: dict[int, array[int]] = {}
        # Earlier slots are empty.
        self._first = 0
        for position in range(len(self)):
            self._put(position)

    @classmethod
    def all_taken(cls, count: int) -> "DueTimes":
        """Return the times of that many positions that are due, as after ``pop_due``."""
        made = cls()
        made._times_ms = array("d", bytes(8 * count))
        made._waits_in = array("d", [_NOWHERE]) * count
        return made

    def __len__(self) -> int:
        """Return how many positions there are."""
        return len(self._times_ms)

    def __getitem__(self, position: int) -> float:
        """Return when a position is due."""
        return self._times_ms[position]

    def __iter__(self) -> Iterator[float]:
        """Iterate over the times, in the order of the positions."""
        return iter(self._times_ms)

    def set(self, position: int, due_ms: float) -> None:
        """Change when a position is due."""
        self._times_ms[position] = due_ms
        self._put(position)

    def pop_due(self, now_ms: int) -> list[int]:
        """Return the positions that are due, in order; the time of each must be set again."""
        last = now_ms // _SLOT_MS
        if last < self._first:
            # The clock went back.
            self._first = last
            self._slots.clear()
            self._waits_in = array("d", [_NOWHERE]) * len(self)
            for position in range(len(self)):
                self._put(position)
        slots, times_ms, waits_in = self._slots, self._times_ms, self._waits_in
        # After a long time without a poll, there are fewer slots than seconds.
        passed = range(self._first, last + 1) if last - self._first < len(slots) else [n for n in slots if n <= last]
        self._first = last
        due: list[int] = []
        early: list[int] = []
        for slot in passed:
            for position in slots.pop(slot, ()):
                if waits_in[position] == slot:
                    waits_in[position] = _NOWHERE
                    (due if times_ms[position] <= now_ms else early).append(position)
        for position in early:
            self._put(position)
        return sorted(due)

    def _put(self, position: int) -> None:
        due_ms = self._times_ms[position]
        if due_ms >= _NEVER_MS:
            return
        # Written out for speed: a poll puts thousands.
        slot = first = self._first
        if due_ms >= (first + _SLOTS_AHEAD) * _SLOT_MS:
            slot = first + _SLOTS_AHEAD
        elif due_ms > first * _SLOT_MS:
            slot = int(due_ms) // _SLOT_MS
        if slot < self._waits_in[position]:
            self._waits_in[position] = slot
            if slot in self._slots:
                self._slots[slot].append(position)
            else:
                self._slots[slot] = array("I", [position])
