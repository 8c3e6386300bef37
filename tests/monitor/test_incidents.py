"""Which troubles of a queue are one incident, and what of a trouble is not expected."""

from random import Random
from typing import NamedTuple

import pytest

from rsmq_tui.monitor.incidents import HOLD_MS, QUEUE_FLAP_SPAN_MS, Expected, grouped

S, MINUTE = 1_000, 60_000


class Trouble(NamedTuple):
    start_ms: int
    end_ms: int
    recovered_ms: int | None


def over(start_ms: int, end_ms: int) -> Trouble:
    return Trouble(start_ms, end_ms, end_ms)


def lost(start_ms: int, end_ms: int) -> Trouble:
    return Trouble(start_ms, end_ms, None)


def sizes(*troubles: Trouble) -> list[int]:
    return [len(group) for group in grouped(troubles)]


LONG = over(0, 20 * MINUTE)


@pytest.mark.parametrize(
    ("gap_ms", "expected"), [(0, [2]), (-MINUTE, [2]), (HOLD_MS, [2]), (HOLD_MS + 1, [1, 1]), (5 * MINUTE, [1, 1])]
)
def test_a_short_time_without_trouble_does_not_end_an_incident(gap_ms: int, expected: list[int]) -> None:
    assert sizes(LONG, over(LONG.end_ms + gap_ms, LONG.end_ms + gap_ms + 20 * MINUTE)) == expected


@pytest.mark.parametrize(("gap_ms", "expected"), [(QUEUE_FLAP_SPAN_MS, [2]), (QUEUE_FLAP_SPAN_MS + 1, [1, 1])])
def test_a_time_of_which_nothing_is_known_is_bridged(gap_ms: int, expected: list[int]) -> None:
    before = lost(0, 20 * MINUTE)

    assert sizes(before, over(before.end_ms + gap_ms, before.end_ms + gap_ms + 20 * MINUTE)) == expected


def test_what_flaps_is_one_incident() -> None:
    # Each is over for more than the hold time, and four changes are within ten minutes.
    assert sizes(over(0, 5 * S), over(4 * MINUTE, 4 * MINUTE + 5 * S)) == [2]
    assert sizes(over(0, 5 * S), over(10 * MINUTE, 10 * MINUTE + 5 * S)) == [1, 1]
    assert sizes(*(over(n * 9 * MINUTE, n * 9 * MINUTE + 5 * S) for n in range(6))) == [6]


def test_the_time_that_counts_is_that_in_which_it_was_ok() -> None:
    watched = Trouble(0, 20 * MINUTE, 22 * MINUTE)

    assert sizes(watched, over(22 * MINUTE + HOLD_MS, 50 * MINUTE)) == [2]


def test_a_trouble_that_goes_on_has_not_changed_yet() -> None:
    first = over(0, 5 * S)

    assert sizes(first, lost(2 * MINUTE, 2 * MINUTE + S)) == [1, 1]
    assert sizes(first, lost(2 * MINUTE, 30 * MINUTE)) == [1, 1]


def test_an_incident_does_not_depend_on_what_was_long_before() -> None:
    for seed in range(300):
        chance = Random(seed)
        troubles, at_ms = [], 0
        for _ in range(chance.randrange(1, 40)):
            at_ms += chance.choice((S, 40 * S, 3 * MINUTE, 8 * MINUTE, 20 * MINUTE, 50 * MINUTE))
            end_ms = at_ms + chance.choice((S, 10 * S, MINUTE, 30 * MINUTE))
            troubles.append(chance.choice((over, over, lost))(at_ms, end_ms))
            at_ms = end_ms
        every = grouped(troubles)
        cut = chance.randrange(len(troubles))
        later = grouped(troubles[cut:])
        far_ms = troubles[cut].end_ms + 3 * QUEUE_FLAP_SPAN_MS
        assert [one for one in every if one[0].start_ms > far_ms] == [one for one in later if one[0].start_ms > far_ms]
        assert [trouble for group in every for trouble in group] == troubles


def test_expected_times_are_no_trouble() -> None:
    night = Expected(("*-dead", "dlq"), ((100, 200), (200, 300)))

    assert night.holds("mail-dead", "rsmq")
    assert night.holds("dlq", "list")
    assert not night.holds("dlq-2", "rsmq")
    assert night.rest(0, 50) == (0, 50)
    assert night.rest(120, 250) is None
    assert night.rest(120, 400) == (300, 400)
    assert night.rest(50, 250) == (50, 100)
    assert night.rest(50, 400) == (50, 400)


def test_a_name_that_looks_like_a_pattern_is_that_of_its_queue() -> None:
    assert Expected(("jobs[1]",)).holds("jobs[1]", "rsmq")
    assert Expected(("jobs[1]",)).holds("jobs1", "rsmq")
    assert not Expected(("jobs[1]",)).holds("jobs", "rsmq")


def test_a_name_with_the_prefix_of_its_kind_is_that_of_its_queue() -> None:
    expected = Expected(("list:queue:mail", "rsmq:orders-*"))

    assert expected.holds("queue:mail", "list")
    assert not expected.holds("queue:mail", "rsmq")
    assert expected.holds("orders-dead", "rsmq")
    assert not expected.holds("orders-dead", "list")
