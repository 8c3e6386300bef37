"""The recent past: buckets of counters for each queue, aligned with one list of times, bounded."""

import pickle
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq_tui.monitor.tracking import trend as trends
from rsmq_tui.monitor.tracking.series import BUCKET_MS, BUCKETS, COARSE_MS, TREND_MS, QueueSeries, Sample
from rsmq_tui.monitor.tracking.trend import (
    COARSE_BUCKETS,
    DAY_BUCKET_MS,
    DAY_BUCKETS,
    DAY_MS,
    TOTALS_COARSE_MS,
    TOTALS_FINE,
    Trend,
)
from tests.monitor.rows import Flow, Scripted


def test_a_bucket_is_opened_every_five_seconds() -> None:
    watched = Scripted()
    watched.run(Flow(), seconds=60)
    times_ms = watched.tracker.trend.times_ms

    assert [later - earlier for earlier, later in pairwise(times_ms)] == [BUCKET_MS] * 11
    assert len(list(watched.tracker.trend.queue("q"))) == 12


def test_a_slower_poll_opens_one_each_time() -> None:
    watched = Scripted()
    for _ in range(10):
        watched.poll_one(Flow().row(), after_s=17)

    assert len(watched.tracker.trend.times_ms) == 10


def test_points_hold_what_was_there_and_what_moved_since_the_point_before() -> None:
    watched = Scripted()
    flow = Flow(hidden=1)
    for _ in range(3):
        flow.move(sent=50, received=20, deleted=10)
        watched.poll_one(flow.row(), after_s=5)
    first, second, third = watched.tracker.trend.queue("q")

    assert (first.ready, first.hidden) == (39, 1)
    assert (third.ready, third.hidden) == (119, 1)
    assert (first.arrivals_s, first.deletes_s, first.receives_s) == (None, None, None)
    assert (second.arrivals_s, second.deletes_s, second.receives_s) == (10, 2, 4)
    assert (second.at_ms, third.at_ms) == tuple(watched.tracker.trend.times_ms[1:])


def test_arrivals_and_depths_bucket_by_bucket() -> None:
    watched = Scripted()
    flow = Flow()
    for _ in range(3):
        flow.move(sent=50, received=20, deleted=10)
        watched.poll_one(flow.row(), after_s=5)

    assert watched.tracker.trend.arrivals("q") == [None, 10, 10]
    assert watched.tracker.trend.depths("q") == [40, 80, 120]


def test_a_queue_that_is_not_there_has_none() -> None:
    trend = Scripted().tracker.trend

    assert trend.arrivals("q") == trend.depths("q") == []
    assert list(trend.queue("q")) == []


def test_an_unreadable_queue_leaves_a_hole() -> None:
    watched = Scripted()
    flow = Flow(sent=100)
    for row in (flow.row(), [b"WRONGTYPE", 1], flow.row(), flow.row()):
        watched.poll_one(row, after_s=5)

    assert [point.ready for point in watched.tracker.trend.queue("q")] == [100, None, 100, 100]
    assert watched.tracker.trend.arrivals("q") == [None, None, None, 0]


@pytest.mark.parametrize(("gap_s", "after_s"), [(60, 30), (20, 1800)])
def test_an_outage_makes_no_spike_and_stays_a_hole(gap_s: int, after_s: int) -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=30, sent=10)
    watched.outage(flow, after_s=gap_s)
    watched.run(flow, seconds=after_s, sent=10)
    arrivals = watched.tracker.trend.arrivals("q")

    assert arrivals.count(None) == 2
    assert set(arrivals) == {None, 10}


def test_an_outage_stays_a_hole_after_the_next_one() -> None:
    watched = Scripted()
    flow = Flow()
    for _ in range(3):
        watched.run(flow, seconds=30, sent=10)
        watched.outage(flow, after_s=20)
    arrivals = watched.tracker.trend.arrivals("q")

    # The first point of all, and the first one after each outage.
    assert arrivals.count(None) == 4
    assert set(arrivals) == {None, 10}


def test_a_server_that_comes_and_goes_costs_no_memory() -> None:
    watched = Scripted()
    for _ in range(2000):
        watched.resume(after_s=5)
        watched.poll_one(Flow(sent=1).row(), after_s=0)

    assert len(watched.tracker.trend.gaps_ms) <= BUCKETS + COARSE_BUCKETS + 1


def test_a_queue_created_again_makes_no_spike() -> None:
    watched = Scripted()
    watched.run(Flow(sent=1_000_000, received=900_000, deleted=900_000), seconds=30)
    watched.run(Flow(sent=3), seconds=30)
    points = list(watched.tracker.trend.queue("q"))

    assert max(point.arrivals_s or 0 for point in points) == 0
    assert max(point.receives_s or 0 for point in points) == 0
    assert all(point.deletes_s is None or point.deletes_s >= 0 for point in points)


def test_ten_minutes_are_kept_in_full_and_an_hour_minute_by_minute() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=4200)
    trend = watched.tracker.trend
    series = trend.series["q"]
    steps_ms = [later - earlier for earlier, later in pairwise(trend.times_ms)]

    assert len(trend.times_ms) == BUCKETS + COARSE_BUCKETS
    assert [later.at_ms - earlier.at_ms for earlier, later in pairwise(trend.totals)][-599:] == [1000] * 599
    assert 3_580_000 <= watched.at_ms - trend.totals[0].at_ms <= 3_600_000
    assert len(trend.totals) <= 600 + 3000 // 20 + 1
    assert {len(values) for values in (series.depth, series.totalsent, series.totalrecv)} == {170}
    assert trend.times_ms[-1] <= watched.at_ms < trend.times_ms[-1] + BUCKET_MS
    assert steps_ms[-BUCKETS + 1 :] == [BUCKET_MS] * (BUCKETS - 1)
    assert set(steps_ms[: COARSE_BUCKETS - 1]) == {COARSE_MS}
    assert 59 * 60_000 <= watched.at_ms - trend.times_ms[0] <= 3_600_000


def test_what_is_older_shows_the_peaks_of_its_time() -> None:
    watched = Scripted()
    flow = Flow(sent=10, hidden=1)
    watched.run(flow, seconds=37)
    watched.poll_one(Flow(sent=500, hidden=120).row())
    watched.run(flow, seconds=2000)
    trend = watched.tracker.trend
    points = list(trend.queue("q"))

    # For one poll, 380 were ready and 120 hidden. It was in no bucket.
    assert max(point.ready or 0 for point in points) == 9
    assert max(point.ready or 0 for point in trend.totals) == 380
    watched.poll_one(Flow(sent=500, hidden=120).row(), after_s=10)
    seen_ms = watched.at_ms
    watched.run(flow, seconds=1200)
    (peak,) = (point for point in trend.queue("q") if point.ready == 380)
    assert (peak.hidden, seen_ms - COARSE_MS < peak.at_ms <= seen_ms) == (120, True)
    assert [point.ready for point in trend.totals].count(380) == 2
    assert trend.depths("q")[-1] == 10


def test_the_older_part_has_the_same_rates() -> None:
    watched = Scripted()
    watched.run(Flow(), seconds=3600, sent=10)
    arrivals = watched.tracker.trend.arrivals("q")

    assert set(arrivals) == {None, 10}
    assert arrivals[0] is None
    assert arrivals[60:] == watched.tracker.trend.arrivals("q", 60)


def test_a_bucket_of_a_queue_takes_32_bytes() -> None:
    watched = Scripted()
    for sent in range(2 * 720):
        watched.poll_one(Flow(sent=sent).row(), after_s=5)
    series = watched.tracker.trend.series["q"]

    assert len(series.counters) * series.counters.itemsize == (BUCKETS + COARSE_BUCKETS) * 32
    assert series.peaks is not None
    assert len(series.peaks) == 2 * COARSE_BUCKETS


def _taken_bytes(series: QueueSeries) -> int:
    """Return what a series takes in a pickle, without the times that all share."""
    return len(pickle.dumps(series)) - len(pickle.dumps(series.times_ms))


def test_an_hour_of_a_queue_that_does_not_change_takes_no_more_than_a_bucket() -> None:
    watched = Scripted()
    # Found at the start, found later, and changed for the last time after that.
    rows = {"always": Flow(sent=9).row(), "changed": Flow(sent=1).row()}
    for number in range(2 * 720):
        if number == 100:
            rows["found"] = Flow(sent=9).row()
        if number == 200:
            rows["changed"] = Flow(sent=9).row()
        watched.poll(rows, after_s=5)
    trend = watched.tracker.trend

    assert {name: _taken_bytes(series) < 500 for name, series in trend.series.items()} == dict.fromkeys(rows, True)
    assert {name: trend.depths(name) for name in rows} == dict.fromkeys(rows, [9.0] * len(trend.times_ms))
    # What happens then is seen among all that did not.
    watched.poll(rows | {"always": Flow(sent=11).row()}, after_s=5)
    assert trend.depths("always") == [*[9.0] * (len(trend.times_ms) - 1), 11.0]
    assert trend.arrivals("always")[-2:] == [0.0, 0.4]


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from((1, 2, 11, 120, 800))), max_size=8)


@settings(max_examples=60)
@given(RUNS, st.sampled_from((0, 0, 1, 119, 120, 121, 500)))
def test_a_series_shows_what_was_added_however_long_it_stayed_the_same(
    runs: list[tuple[int, int, int]], missed: int
) -> None:
    trend = Trend()
    added: list[Sample] = []
    counts = [(ready + hidden, ready) for ready, hidden, length in runs for _ in range(length)]
    for number, (depth, ready) in enumerate([(0, 0)] * missed + counts):
        if number == missed:
            trend.add_queue("q")
        at_ms = number * BUCKET_MS
        sample = Sample(at_ms, depth, ready, depth, 0)
        trend.add_bucket(at_ms, [sample] if trend.series else [])
        if trend.series:
            added.append(sample)

    points = list(trend.queue("q"))
    assert [point.at_ms for point in points] == (trend.times_ms if trend.series else [])
    for index, point in enumerate(points):
        is_coarse = index < len(points) - BUCKETS
        until_ms = trend.times_ms[index + 1] if is_coarse else point.at_ms + 1
        # One that the queue is not in is all that is known of its minute.
        found = [each for each in added if point.at_ms <= each.at_ms < until_ms]
        found = found if point.at_ms >= missed * BUCKET_MS else []
        assert point.ready == max((each.ready for each in found), default=None)
        assert point.hidden == max((each.depth - each.ready for each in found), default=None)


def test_queues_that_are_gone_are_forgotten() -> None:
    watched = Scripted()
    for number in range(300):
        watched.poll({f"q{number}": Flow(sent=number).row()})

    assert list(watched.tracker.trend.series) == ["q299"]


NAMES = ("a", "b", "c", "d")
# Which queues are there, which of them are broken, how long it took, and whether polls failed before.
POLL = st.tuples(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)), st.integers(0, 12), st.booleans())


@settings(max_examples=80)
@given(st.lists(POLL, max_size=60))
def test_series_stay_aligned_as_queues_come_and_go(polls: list[tuple[set[str], set[str], int, bool]]) -> None:
    watched = Scripted()
    trend = watched.tracker.trend
    expected: dict[str, dict[int, int | None]] = {}
    buckets: list[int] = []
    for number, (there, broken, after_s, after_outage) in enumerate(polls):
        if after_outage:
            watched.resume(after_s=after_s)
        rows = {name: [b"WRONGTYPE", 1] if name in broken else Flow(sent=number + 1).row() for name in there}
        watched.poll(rows, after_s=after_s)
        expected = {name: expected.get(name, {}) for name in there}
        if not buckets or watched.at_ms - buckets[-1] >= BUCKET_MS:
            buckets.append(watched.at_ms)
            for name in there:
                expected[name][watched.at_ms] = None if name in broken else number + 1

        assert trend.times_ms == buckets[-BUCKETS:]
        assert trend.series.keys() == there
        for name in there:
            points = list(trend.queue(name))
            assert [point.at_ms for point in points] == trend.times_ms
            assert [point.ready for point in points] == [expected[name].get(at_ms) for at_ms in trend.times_ms]


def _after_a_day(watched: Scripted, names: Sequence[str], hours: int) -> None:
    """Poll every 30 s; ten messages a second are sent and deleted, 900 are ready once an hour after the begin."""
    flow = Flow(sent=20)
    for poll in range(hours * 120):
        flow.move(sent=300, deleted=300)
        fields, depth, *head = flow.row()
        watched.poll({name: [fields, 900 if poll == 120 else depth, *head] for name in names}, after_s=30)


def test_a_day_is_kept_with_its_peaks_and_mean_rates() -> None:
    watched = Scripted()
    _after_a_day(watched, ["q"], 23)
    trend = watched.tracker.trend
    points = list(trend.day_of("q"))

    assert max(point.ready or 0 for point in points) == 900
    assert {round(point.arrivals_s or 10, 3) for point in points} == {10.0}
    assert all(later.at_ms > earlier.at_ms for earlier, later in pairwise(points))
    day = list(trend.day.queue("q"))[1:]
    assert {later.at_ms - earlier.at_ms for earlier, later in pairwise(day)} == {DAY_BUCKET_MS}
    assert max(point.ready or 0 for point in trend.day_totals) == 900
    # Another run continues with the sums of the day.
    again = Scripted()
    again.tracker.trend.totals.extend(watched.tracker.moment().totals)
    again.at_ms = watched.at_ms
    again.poll_one(Flow().row(), after_s=30)
    assert again.tracker.trend.day_totals[:200] == trend.day_totals[:200]

    _after_a_day(watched, ["q"], 4)
    firsts_ms = next(trend.day_of("q")).at_ms, trend.day_totals[0].at_ms
    for first_ms in firsts_ms:
        assert 86_400_000 - 3 * DAY_BUCKET_MS <= watched.at_ms - first_ms <= 86_400_000 + BUCKETS * 30_000
    assert len(list(trend.day.queue("q"))) <= DAY_BUCKETS


def test_a_day_of_a_new_queue_begins_with_the_queue() -> None:
    watched = Scripted()
    _after_a_day(watched, ["old"], 3)
    created_ms = watched.at_ms
    _after_a_day(watched, ["new", "old"], 3)
    day = watched.tracker.trend.day
    of_new, of_old = list(day.queue("new")), list(day.queue("old"))
    assert [point.at_ms for point in of_old[-len(of_new) :]] == [point.at_ms for point in of_new]
    assert len(of_new) > 10
    # The bucket in which it was created began before.
    assert of_new[0].at_ms > created_ms - DAY_BUCKET_MS
    assert len(of_old) - len(of_new) > 20


def test_without_charts_nothing_but_the_hour_of_each_queue_is_kept() -> None:
    charted, watched = Scripted(), Scripted()
    watched.tracker.trend.is_charted = False
    for each in (charted, watched):
        _after_a_day(each, ["q"], 5)
    trend = watched.tracker.trend
    assert (len(trend.totals), trend.day.last, len(trend.day_totals)) == (0, None, 0)
    assert not trend.series["q"].marks
    assert list(trend.queue("q")) == list(charted.tracker.trend.queue("q"))
    assert trend.times_ms == charted.tracker.trend.times_ms
    # What is said of the queue is the same.
    flow = Flow().row()
    assert watched.poll_one(flow) == charted.poll_one(flow)


def test_of_too_many_queues_a_day_is_kept_of_those_that_were_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "DAY_QUEUES", 2)
    watched, names = Scripted(), ["a", "b", "c"]
    for seen in (["a", "b"], ["c", "b"]):
        watched.tracker.look_first(seen)
    _after_a_day(watched, names, 3)
    trend = watched.tracker.trend
    assert {name: len(list(trend.day.queue(name))) > 6 for name in names} == {"a": False, "b": True, "c": True}
    # A queue that is seen again has the time from then on.
    watched.tracker.look_first(["a"])
    _after_a_day(watched, names, 1)
    assert list(trend.day.queue("c")) == []
    assert [point.ready is None for point in trend.day.queue("a")].count(False) >= 10


def test_the_sums_of_a_server_that_comes_and_goes_all_day_are_bounded() -> None:
    watched = Scripted()
    flow = Flow()
    for _ in range(DAY_MS // 8_000):
        flow.move(sent=1)
        watched.resume(after_s=4)
        watched.poll_one(flow.row(), after_s=4)
    trend = watched.tracker.trend

    hour, day = TREND_MS // TOTALS_COARSE_MS, DAY_MS // DAY_BUCKET_MS
    assert len(trend.totals) <= TOTALS_FINE + 3 * (hour + 1)
    assert len(trend.day.totals) <= 3 * (day + 1)
    # Charts still show the gaps, and the highest counts.
    for points, every_ms in (([*trend.totals][:-TOTALS_FINE], TOTALS_COARSE_MS), (trend.day.totals, DAY_BUCKET_MS)):
        gaps = {point.at_ms // every_ms for point in points if point.ready is None}
        assert len(gaps) >= len({point.at_ms // every_ms for point in points}) - 1
        known = [point.ready for point in points if point.ready is not None]
        assert known == sorted(known)


def test_an_outage_stays_a_gap_in_the_sums() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=1_000, sent=1)
    watched.resume(after_s=1_000)
    watched.run(flow, seconds=7_200, sent=1)
    (gap,) = [point for point in watched.tracker.trend.day_totals if point.ready is None]

    before = [point for point in watched.tracker.trend.day_totals if point.at_ms < gap.at_ms]
    after = [point for point in watched.tracker.trend.day_totals if point.at_ms > gap.at_ms]
    assert after[0].at_ms - before[-1].at_ms >= 1_000_000
