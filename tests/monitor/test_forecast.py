"""When a queue reaches a limit: known answers, another computation of the band, and what is too little to say."""

import random
from array import array
from collections.abc import Callable
from math import ceil, inf, isnan, nan

import pytest

from rsmq_tui.monitor import QueueState, Thresholds
from rsmq_tui.monitor.filters.json_paths import age_path
from rsmq_tui.monitor.tracking.forecast import (
    Limit,
    MemoryGrowth,
    age_slopes,
    band_of,
    depth_slopes,
    limit_of,
    limit_words,
)
from rsmq_tui.monitor.tracking.list_tracker import list_trackers
from rsmq_tui.monitor.tracking.series import QueueSeries, Sample
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.protocol.server.status import ServerInfo
from tests.monitor.list_rows import ListFlow
from tests.monitor.rows import START_MS, Flow, Scripted

MINUTE_MS = 60_000
AGED_MS = Thresholds().aged_ms


def of_depth_only(limit: int) -> Thresholds:
    return Thresholds(depth_limit=limit, aged_ms=1_000_000_000)


def series_of(samples: list[tuple[int, int, int]]) -> QueueSeries:
    """A series of (time in s, depth, sent)."""
    trend = Trend()
    series = trend.add_queue("q")
    for at_s, depth, sent in samples:
        trend.times_ms.append(at_s * 1000)
        series.append(Sample(at_s * 1000, depth, depth, sent, 0))
    return series


def of_depth(series: QueueSeries, depth: int, limit: int) -> Limit | None:
    at_ms = series.times_ms[-1]
    return limit_of(series, at_ms, 0, depth=depth, depth_limit=limit, age_ms=None, age_limit_ms=AGED_MS)


def until_s(state: QueueState, at_ms: int) -> tuple[str, float, float | None]:
    assert state.limit is not None
    latest = state.limit.latest_ms
    return (
        state.limit.name,
        (state.limit.soonest_ms - at_ms) / 1000,
        None if latest is None else (latest - at_ms) / 1000,
    )


def test_steady_growth_reaches_the_limit_when_it_does() -> None:
    watched, flow = Scripted(of_depth_only(10_000)), Flow()
    state = watched.run(flow, seconds=400, sent=13, received=8, deleted=8)
    assert state.limit is not None
    assert state.limit.name == "depth"
    while flow.depth < 10_000:
        state = watched.run(flow, seconds=1, sent=13, received=8, deleted=8)
        assert state.limit is not None
        # 5 a second since the start, in whole polls.
        assert state.limit.soonest_ms == state.limit.latest_ms == pytest.approx(START_MS + 2_000_000, abs=1_000)
    assert state.limit == Limit("depth", watched.at_ms, watched.at_ms)


def test_a_queue_that_is_drained_before_approaches_no_limit() -> None:
    watched, flow = Scripted(of_depth_only(10_000)), Flow()
    state = watched.run(flow, seconds=400, sent=13, received=8, deleted=8)
    assert state.limit is not None
    # 2,000 messages, which are gone in 80 s.
    states = [watched.run(flow, seconds=1, received=25, deleted=25) for _ in range(40)]
    assert states[-1].drain_s is not None
    assert states[-1].limit is None


def test_two_rates_in_turn_are_the_band() -> None:
    watched, flow = Scripted(of_depth_only(100_000)), Flow()
    for _ in range(3):
        watched.run(flow, seconds=100, sent=10)
        state = watched.run(flow, seconds=100, sent=40)
    name, soonest_s, latest_s = until_s(state, watched.at_ms)
    rest = 100_000 - flow.depth
    assert name == "depth"
    # Computed up to 15 s ago.
    assert rest / 40 - 15 <= soonest_s <= rest / 40 + 15
    assert latest_s is not None
    assert rest / 10 - 15 <= latest_s <= rest / 10 + 45


def test_nothing_is_said_of_a_few_polls_nor_across_an_outage() -> None:
    watched, flow = Scripted(of_depth_only(10_000)), Flow()
    for _ in range(170):
        assert watched.run(flow, seconds=1, sent=5).limit is None
    assert watched.run(flow, seconds=40, sent=5).limit is not None
    watched.resume(after_s=60)
    for _ in range(170):
        assert watched.run(flow, seconds=1, sent=5).limit is None
    assert watched.run(flow, seconds=40, sent=5).limit is not None


@pytest.mark.parametrize(("sent", "deleted"), [(0, 0), (5, 5), (5, 6)])
def test_a_queue_that_does_not_grow_reaches_nothing(sent: int, deleted: int) -> None:
    watched, flow = Scripted(of_depth_only(10_000)), Flow(sent=5_000)
    state = watched.run(flow, seconds=400, sent=sent, received=deleted, deleted=deleted)
    assert state.limit is None
    # It grew once, and has stood still for a minute since.
    watched.run(flow, seconds=400, sent=5, received=5)
    state = watched.run(flow, seconds=90)
    assert state.limit is None


def test_one_burst_is_no_growth() -> None:
    samples = [(number * 5, 100 + 5_000 * (number > 60), 0) for number in range(120)]
    assert of_depth(series_of(samples), 5_100, 10_000) is None


def test_a_pause_of_the_consumers_leaves_the_end_open() -> None:
    # One minute of three shrinks.
    depth, samples = 0, []
    for number in range(120):
        depth += -20 if number // 12 % 3 == 2 else 30
        samples.append((number * 5, depth, 0))
    limit = of_depth(series_of(samples), depth, depth + 600)
    assert limit == Limit("depth", 595_000 + 100_000, None)
    assert limit_words(limit, 595_000) == "depth ≥ 1m 40s"


def test_ten_minutes_tell_nothing_of_next_week() -> None:
    series = series_of([(number * 5, number, 0) for number in range(120)])
    assert of_depth(series, 119, 119 + 17_000) is not None
    assert of_depth(series, 119, 119 + 17_300) is None


def test_a_message_that_nobody_receives_is_aged_ten_minutes_after_it_was_due() -> None:
    watched, flow = Scripted(), Flow(sent=1, head_ms=START_MS)
    for second in range(1, 600):
        state = watched.run(flow, seconds=1)
        assert (state.limit is not None) == (second > 180)
        if state.limit is not None:
            assert state.limit == Limit("age", START_MS + AGED_MS, START_MS + AGED_MS)
    assert watched.run(flow, seconds=5).limit is None


def assert_aged_at(state: QueueState, at_ms: int, within_ms: int) -> None:
    assert state.limit is not None
    assert state.limit.name == "age"
    assert state.limit.soonest_ms == pytest.approx(at_ms, abs=within_ms)
    assert state.limit.latest_ms == pytest.approx(at_ms, abs=within_ms)


def test_the_age_of_a_queue_that_is_worked_on_in_order() -> None:
    """10 a second arrive and 4 leave: the first one is as old as 0.6 of the time that has passed."""
    watched, flow = Scripted(), Flow()
    for second in range(1, 500):
        flow.move(sent=10, received=4, deleted=4)
        flow.head_ms = START_MS + flow.deleted * 100
        state = watched.poll_one(flow.row())
        if second > 200:
            # By steps of 15 s, and of a message in each poll.
            assert_aged_at(state, START_MS + 1_000_000, within_ms=10_000)


def test_a_list_has_the_limit_of_its_depth() -> None:
    watched = Scripted(Thresholds(depth_limit=2_000), list_trackers(None))
    flow = ListFlow()
    for _ in range(400):
        flow.push(2)
        state = watched.poll_one(flow.row(watched.at_ms))
    assert until_s(state, START_MS)[0] == "depth"
    assert state.limit is not None
    assert state.limit.soonest_ms == pytest.approx(START_MS + 1_001_000, abs=1_000)


def aged_list(watched: Scripted, flow: ListFlow, sent_ms: int) -> QueueState:
    """Poll a list whose next item was sent then."""
    flow.body = b'{"t": %d}' % sent_ms
    return watched.poll_one(flow.row(watched.at_ms))


def test_a_list_whose_items_have_times_has_the_limit_of_its_age() -> None:
    """Each second consumers take what was sent within 0.4 s: the next item gets older by 0.6 s."""
    watched, flow = Scripted(new_tracker=list_trackers(age_path(".t"))), ListFlow()
    flow.push(1)
    for second in range(500):
        flow.push(2)
        flow.take(1)
        state = aged_list(watched, flow, START_MS + 400 * second)
        if second < 170:
            assert state.limit is None
        elif second > 200:
            assert_aged_at(state, START_MS + 1_000_000, within_ms=2_000)


def test_a_list_that_nobody_takes_from_is_aged_to_the_millisecond() -> None:
    watched, flow = Scripted(new_tracker=list_trackers(age_path(".t"))), ListFlow()
    flow.push(1)
    for second in range(1, 600):
        state = aged_list(watched, flow, START_MS)
        if second > 185:
            assert state.limit == Limit("age", START_MS + AGED_MS, START_MS + AGED_MS)


def test_a_list_whose_consumers_keep_up_has_no_limit() -> None:
    watched, flow = Scripted(new_tracker=list_trackers(age_path(".t"))), ListFlow()
    flow.push(10)
    for _ in range(500):
        flow.push(1)
        flow.take(1)
        assert aged_list(watched, flow, watched.at_ms - 100_000).limit is None


MAX_BYTES = 10_000_000


def info(at_s: int, used: int, run_id: str = "a", maxmemory: int = MAX_BYTES) -> ServerInfo:
    return ServerInfo(run_id, 1, "master", 0, used, maxmemory, START_MS + at_s * 1000)


def test_the_memory_of_a_server_is_full_when_it_is() -> None:
    growth = MemoryGrowth()
    for at_s in range(10, 1_000, 10):
        growth.add(info(at_s, 10_000 * at_s))
        if at_s < 190:
            assert growth.limit is None
        else:
            assert growth.limit == Limit("memory", START_MS + 1_000_000, START_MS + 1_000_000)
    growth.add(info(1_000, MAX_BYTES))
    assert growth.limit == Limit("memory", START_MS + 1_000_000, START_MS + 1_000_000)
    assert limit_words(growth.limit, START_MS + 1_000_000) == "memory reached"


@pytest.mark.parametrize(
    "grown",
    [
        lambda at_s: info(at_s, 5_000_000),
        lambda at_s: info(at_s, 9_000_000 - 1_000 * at_s),
        # There is no limit, or INFO does not tell.
        lambda at_s: info(at_s, 10_000 * at_s, maxmemory=0),
        lambda at_s: info(at_s, 0),
        # More than a day away.
        lambda at_s: info(at_s, 50 * at_s),
        # Another server each time.
        lambda at_s: info(at_s, 10_000 * at_s, run_id=str(at_s // 100)),
        lambda at_s: None if at_s % 100 == 0 else info(at_s, 10_000 * at_s),
    ],
)
def test_memory_that_does_not_grow_towards_a_limit_has_no_forecast(grown: Callable[[int], ServerInfo | None]) -> None:
    growth = MemoryGrowth()
    for at_s in range(0, 900, 10):
        growth.add(grown(at_s))
        assert growth.limit is None


def test_memory_is_not_forecast_across_an_outage() -> None:
    growth = MemoryGrowth()
    for at_s in range(0, 300, 10):
        growth.add(info(at_s, 10_000 * at_s))
    assert growth.limit is not None
    growth.forget()
    for at_s in range(300, 470, 10):
        growth.add(info(at_s, 10_000 * at_s))
        assert growth.limit is None


def test_full_memory_is_a_limit_of_queues_that_grow_and_of_no_others() -> None:
    watched, growing, still = Scripted(of_depth_only(0)), Flow(), Flow(sent=5, head_ms=START_MS)
    memory = Limit("memory", START_MS + 3_000_000, None)
    watched.memory_limit = memory
    for _ in range(300):
        growing.move(sent=2)
        states = watched.poll({"growing": growing.row(), "still": still.row()})
    assert (states["growing"].limit, states["still"].limit) == (memory, None)
    watched.memory_limit = None
    for _ in range(20):
        growing.move(sent=2)
        states = watched.poll({"growing": growing.row(), "still": still.row()})
    assert states["growing"].limit is None


def _slow_band(series: QueueSeries) -> tuple[float, float] | None:
    """The same band of the depth, by the words of the method."""
    times = series.times_ms
    pairs, last_ms = [], -inf
    for start, start_ms in enumerate(times):
        ends = [end for end, end_ms in enumerate(times) if end_ms >= start_ms + MINUTE_MS]
        if ends and start_ms - last_ms >= MINUTE_MS / 2:
            pairs.append((start, ends[0]))
            last_ms = start_ms
    slopes = [(series.depth[end] - series.depth[start]) / (times[end] - times[start]) * 1000 for start, end in pairs]
    known = [slope for slope in slopes if not isnan(slope)]
    if len(known) < 5 or sum(slope > 0 for slope in known) < len(known) - (len(known) - 1) // 2:
        return None
    below = [sum(other <= slope for other in known) - 1 for slope in known]
    low = min(slope for slope, rank in zip(known, below, strict=True) if rank >= (len(known) - 1) // 10)
    high = min(slope for slope, rank in zip(known, below, strict=True) if rank >= ceil(0.9 * (len(known) - 1)))
    return low, high


@pytest.mark.parametrize("seed", range(200))
def test_the_band_is_the_same_by_another_computation(seed: int) -> None:
    chance = random.Random(seed)
    depth, at_s, samples = 1_000, 0, []
    for _ in range(chance.randrange(2, 121)):
        at_s += chance.choice((5, 5, 5, 6, 30))
        depth = max(0, depth + chance.randrange(-20, 30))
        samples.append((at_s, depth, 0))
    series = series_of(samples)
    if chance.random() < 0.3:
        unread = chance.randrange(len(samples))
        counters = series.counters[:]
        counters[4 * unread : 4 * unread + 4] = array("d", [nan]) * 4
        series.fill(counters)

    found, expected = band_of(depth_slopes(series, 0)), _slow_band(series)

    assert (found is None) == (expected is None)
    if found is not None:
        assert found == pytest.approx(expected)


def test_a_queue_that_was_created_again_has_no_slope_across_it() -> None:
    series = series_of([(number * 5, number % 60, number % 60) for number in range(120)])
    assert set(age_slopes(series, 0)) == {1.0}
    assert len(age_slopes(series, 0)) < len(depth_slopes(series, 0))


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (None, ""),
        (Limit("depth", 720_000, 1_200_000), "depth 12m–20m"),
        (Limit("depth", 720_000, 725_000), "depth 12m"),
        (Limit("age", 540_000, None), "age ≥ 9m 0s"),
        (Limit("depth", 0, 0), "depth reached"),
        (Limit("age", -5_000, 60_000), "age 0 ms–1m 0s"),
    ],
)
def test_the_words_of_a_limit(limit: Limit | None, words: str) -> None:
    assert limit_words(limit, 0) == words
