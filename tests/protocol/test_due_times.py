"""Positions that are due are found at the time, and only those, whatever was put off or brought forward before."""

from math import inf

from hypothesis import given
from hypothesis import strategies as some

from rsmq_tui.protocol.polling import DueTimes

_TIMES = some.one_of(some.integers(0, 9_000), some.just(inf), some.just(-inf), some.just(1e300), some.floats(0, 9_000))
_STEP = some.one_of(
    some.tuples(some.just("set"), some.integers(0, 9), _TIMES),
    some.tuples(some.just("take"), some.integers(-3_000, 4_000), some.lists(_TIMES, min_size=1, max_size=3)),
)


@given(some.lists(_TIMES, max_size=9), some.booleans(), some.lists(_STEP, max_size=30))
def test_what_is_due_is_found(first: list[float], are_taken: bool, steps: list[tuple[str, int, object]]) -> None:
    due, times, now_ms = DueTimes(first), list(first), 0
    if are_taken:
        due, times = DueTimes.all_taken(len(first)), [0] * len(first)
        for position, time_ms in enumerate(first):
            due.set(position, time_ms)
            times[position] = time_ms
    for what, number, given_ in steps:
        if what == "set" and number < len(times):
            assert isinstance(given_, int | float)
            due.set(number, given_)
            times[number] = given_
        elif what == "take":
            assert isinstance(given_, list)
            now_ms = max(0, now_ms + number)
            found = due.pop_due(now_ms)
            assert found == [position for position, time_ms in enumerate(times) if time_ms <= now_ms]
            for position in found:
                times[position] = given_[position % len(given_)]
                due.set(position, times[position])
        assert list(due) == times


def test_a_time_that_is_put_off_again_and_again_waits_once() -> None:
    due = DueTimes([600_000] * 10)
    for second in range(1_000):
        assert due.pop_due(second * 1_000) == []
        for position in range(10):
            due.set(position, 600_000 + second * 1_000)
        assert sum(map(len, due._slots.values())) <= 10


def test_a_time_far_ahead_that_is_brought_forward_in_each_poll_takes_little_memory() -> None:
    due = DueTimes([0] * 10)
    for second in range(3_000):
        for position in range(10):
            due.set(position, 0)
        assert due.pop_due(second * 1_000) == [*range(10)]
        for position in range(10):
            due.set(position, 30 * 86_400_000)
    # Each position has an entry that counts, and those of the slots that have not passed.
    assert sum(map(len, due._slots.values())) <= 10 * 602
