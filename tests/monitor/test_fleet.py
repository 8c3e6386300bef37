"""Several servers side by side."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from rsmq_tui.monitor import Connection, Cost, Snapshot, TotalsPoint, Trend, Verdict
from rsmq_tui.monitor.fleet import Fleet
from rsmq_tui.protocol import Failure
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import poll_of, queue_of

DOWN = Failure("refused", "the connection was refused", "is it running?")


def _poll(place: str, ready: int, *, at_ms: int = START_MS, oldest_s: int = 60, **values: Any) -> Snapshot:
    queue = queue_of("orders", ready=ready, oldest_ready_ms=at_ms - oldest_s * 1000, arrivals_s=2.0, deletes_s=1.0,
                     receives_s=1.5, place=place)  # fmt: skip
    server = f"redis://{place}:6379/0"
    return replace(poll_of(ScriptedSource(), [queue], at_ms), **{"place": place, "server": server, **values})


def test_queues_of_the_same_name_are_told_apart() -> None:
    fleet = Fleet(["prod", "test"])
    fleet.combine(_poll("prod", 3))
    both = fleet.combine(_poll("test", 4))
    assert [(queue.place, queue.name, queue.ready) for queue in both.queues] == [
        ("prod", "orders", 3),
        ("test", "orders", 4),
    ]
    assert len({queue.key for queue in both.queues}) == 2
    assert both.part("test").queues[0].ready == 4
    assert both.server == "2 servers"


def test_the_sums_are_of_all_servers() -> None:
    fleet = Fleet(["prod", "test"])
    fleet.combine(_poll("prod", 3, oldest_s=60, cost=Cost(1.0, 2.0, 300, 4)))
    both = fleet.combine(_poll("test", 4, oldest_s=90, cost=Cost(5.0, 1.0, 100, 3)))
    totals = both.totals
    assert (totals.depth, totals.ready, totals.arrivals_s, totals.deletes_s) == (7, 7, 4.0, 2.0)
    assert totals.oldest == "orders on test"
    assert totals.verdicts[Verdict.OK] == 2
    assert both.cost == Cost(5.0, 2.0, 400, 7)


def test_ages_are_right_though_the_servers_clocks_differ() -> None:
    fleet = Fleet(["fast", "slow"])
    fleet.combine(_poll("fast", 1, at_ms=START_MS + 3_600_000, oldest_s=10))
    both = fleet.combine(_poll("slow", 1, oldest_s=90))
    assert both.totals.oldest == "orders on slow"
    assert both.at_ms - (both.totals.oldest_ready_due_ms or 0) == 90_000
    assert both.part("slow").at_ms == START_MS


def test_time_goes_on_though_the_server_whose_clock_is_ahead_is_gone() -> None:
    fleet = Fleet(["fast", "slow"])
    ahead = fleet.combine(_poll("fast", 1, at_ms=START_MS + 3_600_000, connection=Connection(None, 100.0)))
    fleet.combine(replace(ahead, place="fast", connection=Connection(DOWN, 100.0, 104.0)))
    times = [fleet.combine(_poll("slow", 1, connection=Connection(None, 101.0 + step))).at_ms for step in range(3)]
    assert [time - ahead.at_ms for time in times] == [1_000, 2_000, 3_000]
    assert len(fleet.combine(_poll("slow", 1, connection=Connection(None, 105.0))).trend.totals) == 5


def test_time_is_right_after_this_machine_has_slept() -> None:
    fleet, slept_ms = Fleet(["prod", "test"]), 1_800_000
    for step in range(3):
        for place in ("prod", "test"):
            fleet.combine(_poll(place, 1, at_ms=START_MS + 1_000 * step, connection=Connection(None, 100.0 + step)))
    # Its monotonic clock stood still.
    awake = fleet.combine(_poll("prod", 1, at_ms=START_MS + slept_ms, connection=Connection(None, 103.0)))
    both = fleet.combine(_poll("test", 1, at_ms=START_MS + slept_ms, connection=Connection(None, 104.0)))

    assert (awake.at_ms, both.at_ms) == (START_MS + slept_ms, START_MS + slept_ms + 1_000)
    # Charts show a gap.
    assert [point.ready for point in both.trend.totals] == [1, 2, 2, None, 2, 2]


def test_the_sums_go_on_after_the_clock_of_a_server_was_set_back() -> None:
    fleet = Fleet(["prod", "test"])
    for step in range(3):
        for place in ("prod", "test"):
            fleet.combine(_poll(place, 1, at_ms=START_MS + 1_000 * step, connection=Connection(None, 100.0 + step)))
    for step in range(3, 6):
        back_ms = START_MS - 7_200_000 + 1_000 * step
        both = fleet.combine(_poll("prod", 1, at_ms=back_ms, connection=Connection(None, 100.0 + step)))
        both = fleet.combine(_poll("test", 1, at_ms=START_MS + 1_000 * step, connection=Connection(None, 100.0 + step)))

    assert both.at_ms == back_ms
    assert [point.at_ms - back_ms for point in both.trend.totals] == [-2_000, -1_000, 0]


def test_a_server_that_has_not_answered_has_an_empty_part() -> None:
    both = Fleet(["prod", "test"]).combine(_poll("prod", 3))
    assert both.part("test").queues == ()
    assert both.part("prod").queues[0].ready == 3


def test_a_server_that_does_not_answer_keeps_its_queues_and_has_a_note() -> None:
    fleet = Fleet(["prod", "test"])
    fleet.combine(_poll("prod", 3))
    before = fleet.combine(_poll("test", 4))
    both = fleet.combine(replace(before.part("prod"), connection=Connection(DOWN, 900.0, 1001.0)))
    assert both.connection.failure is None
    assert both.notes == ("prod is stale (the connection was refused)",)
    assert [queue.ready for queue in both.queues] == [3, 4]
    # What it counted is still there, but nobody knows how fast it moves.
    assert (both.totals.ready, both.totals.arrivals_s) == (7, 2.0)


def test_it_fails_when_every_server_does() -> None:
    fleet = Fleet(["prod", "test"])
    one = replace(_poll("prod", 3), connection=Connection(DOWN, 900.0, 1004.0))
    fleet.combine(one)
    both = fleet.combine(replace(_poll("test", 4), connection=Connection(DOWN, 910.0, 1002.0)))
    assert both.connection == Connection(DOWN, 910.0, 1002.0)
    assert fleet.combine(_poll("test", 5)).connection.failure is None


def test_the_parts_of_a_server_that_is_gone_tell_the_same_of_it() -> None:
    fleet = Fleet(["rsmq", "lists", "other"])
    fleet.combine(_poll("other", 1))
    parts = {
        place: replace(_poll(place, 1), server="redis://one:6379/0", connection=link)
        for place, link in (
            ("rsmq", Connection(DOWN, 900.0, 1004.0)),
            ("lists", Connection(DOWN, 903.0, 1009.0)),
        )
    }
    last = fleet.combine(parts["rsmq"])
    # The other part has not been heard of yet.
    assert last.part("rsmq").connection == Connection(DOWN, 900.0, 1004.0)
    last = fleet.combine(parts["lists"])
    assert last.part("rsmq").connection == last.part("lists").connection == Connection(DOWN, 903.0, 1004.0)
    assert last.connection.failure is None
    last = fleet.combine(replace(parts["lists"], connection=Connection(None, 1005.0)))
    assert last.part("rsmq").connection == Connection(DOWN, 900.0, 1004.0)


def test_one_that_never_answered_delays_nobody() -> None:
    fleet = Fleet(["prod", "test"])
    first = fleet.combine(_poll("test", 4))
    assert [queue.place for queue in first.queues] == ["test"]
    assert first.connection.failure is None


def test_the_past_has_a_point_a_second_however_many_servers_there_are() -> None:
    places = [f"s{number}" for number in range(5)]
    fleet = Fleet(places)
    for step in range(4):
        for place in places:
            last = fleet.combine(_poll(place, 1, connection=Connection(None, 100.0 + step)))
    points = last.trend.totals
    assert [later.at_ms - earlier.at_ms for earlier, later in pairwise(points)] == [1000] * 3
    assert isinstance(points[-1], TotalsPoint)


def _points(ready: int, *seconds: int, gap_s: int | None = None) -> list[TotalsPoint]:
    known = [TotalsPoint(START_MS + second * 1000, ready, 1, 2.0, 1.0, 1.5) for second in seconds]
    gap = [] if gap_s is None else [TotalsPoint(START_MS + gap_s * 1000, None, None, None, None, None)]
    return sorted([*known, *gap])


def _restarted(place: str, ready: int, points: list[TotalsPoint], *, ahead_ms: int = 0) -> Snapshot:
    """The first poll after a restart, 200 s after the first point, of a server that remembers these."""
    poll = _poll(place, ready, at_ms=START_MS + 200_000 + ahead_ms, connection=Connection(None, 200.0))
    trend = Trend()
    trend.totals.extend(point._replace(at_ms=point.at_ms + ahead_ms) for point in points)
    trend.add_totals(TotalsPoint(poll.at_ms, ready, 0, None, None, None))
    return replace(poll, trend=trend)


def test_the_sums_go_on_after_a_restart() -> None:
    fleet = Fleet(["prod", "test", "new"])
    # The second one was polled a little later, its clock is an hour ahead, and the third one is not known yet.
    fleet.combine(_restarted("prod", 5, _points(3, *range(100), gap_s=100)))
    fleet.combine(_restarted("test", 6, _points(4, *range(1, 101), gap_s=101), ahead_ms=3_600_000))
    both = fleet.combine(_restarted("new", 7, []))
    points = list(both.trend.totals)

    assert [(point.at_ms - START_MS) // 1000 for point in points] == [*range(1, 102), 200]
    assert {(point.ready, point.hidden) for point in points[:100]} == {(7, 2)}
    assert [point.arrivals_s for point in points[:100]] == [4.0] * 99 + [2.0]
    assert points[100].ready is points[100].arrivals_s is None
    assert points[101].ready == 5


def test_a_gap_of_one_server_is_none_of_the_sums() -> None:
    fleet = Fleet(["prod", "test"])
    fleet.combine(_restarted("prod", 5, _points(3, *range(20), *range(30, 50), gap_s=20)))
    points = list(fleet.combine(_restarted("test", 6, _points(4, *range(50)))).trend.totals)

    assert {point.ready for point in points[:-1]} == {7}
    assert [point.arrivals_s for point in points[19:31]] == [4.0] + [2.0] * 10 + [4.0]


def test_what_was_polled_before_a_server_answered_stays() -> None:
    fleet = Fleet(["prod", "test"])
    fleet.combine(_restarted("prod", 5, _points(3, 0, 1)))
    for second in (201, 202):
        fleet.combine(_poll("prod", 5, at_ms=START_MS + second * 1000, connection=Connection(None, float(second))))
    late = replace(
        _restarted("test", 6, _points(4, 0, 1)), at_ms=START_MS + 203_000, connection=Connection(None, 203.0)
    )
    points = fleet.combine(late).trend.totals

    assert [point.ready for point in points] == [7, 7, 5, 5, 5, 11]


def test_it_is_paused_when_all_are() -> None:
    fleet = Fleet(["prod", "test"])
    fleet.combine(_poll("prod", 3, paused=True))
    assert not fleet.combine(_poll("test", 4)).paused
    assert fleet.combine(_poll("test", 4, paused=True)).paused
