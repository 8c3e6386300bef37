"""How long messages waited and are being worked on, against values that the test computes from what it wrote."""

import inspect
import math
import random
import tracemalloc
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.monitor.messages.peek import QUICK_QUEUES, flight_times
from rsmq_tui.monitor.tracking.series import MARK_MS, FlightLog, FlightTimes, QueueSeries, Sample
from rsmq_tui.monitor.tracking.trend import Sums, Trend
from rsmq_tui.protocol import Flight, Rsmq, RsmqReader, make_id
from rsmq_tui.protocol.rsmq.scripts import FLIGHTS_MAX
from tests.protocol.keyspace import now_ms, plant

VT_S = 600
NOW_MS = 1_700_000_000_000


def _percentile(values: list[int], share: float) -> int:
    """The smallest value that so many of all do not exceed."""
    return next(value for value in sorted(values) if sum(each <= value for each in values) >= share * len(values))


def _in_flight(client: redis.Redis, queue: str, times: list[tuple[int, int, int]]) -> None:
    """Write messages as receives leave them: (waited, worked on, received so often), in ms before now."""
    at_ms = now_ms(client)
    for waited_ms, worked_ms, rc in times:
        received_ms = at_ms - worked_ms
        first_ms = received_ms - (1000 if rc > 1 else 0)
        id = make_id((first_ms - waited_ms) * 1000)
        plant(client, queue, id, due_ms=received_ms + VT_S * 1000, body="x")
        client.hset(f"rsmq:{queue}:Q", mapping={f"{id}:rc": rc, f"{id}:fr": first_ms})


async def _times(poller: RsmqPoller, queue: str) -> FlightTimes | None:
    # The state that a poll returns knows the look of the poll before.
    await poller.poll()
    snapshot = await poller.poll()
    assert snapshot.connection.failure is None
    return next(state for state in snapshot.queues if state.name == queue).times_at(snapshot.at_ms)


@pytest.mark.parametrize("number", [1, 2, FLIGHTS_MAX])
async def test_percentiles_of_all_that_is_in_flight(redis_url: str, client: redis.Redis, number: int) -> None:
    Rsmq(client).create_queue("q", vt=VT_S)
    chance = random.Random(number)
    made = [(chance.randrange(100_000), chance.randrange(500_000), chance.choice((1, 1, 3))) for _ in range(number)]
    begun_ms = now_ms(client)
    _in_flight(client, "q", made)
    async with aclosing(RsmqPoller(RsmqReader(redis_url))) as poller:
        times = await _times(poller, "q")
    late_ms = now_ms(client) - begun_ms
    assert times is not None
    assert times.sampled == number
    assert times.is_percentile == (number == FLIGHTS_MAX)
    waits, works = [made_[0] for made_ in made], [made_[1] for made_ in made]
    # An id holds its time in microseconds, so the whole milliseconds are exact.
    assert (times.wait_p50_ms, times.wait_p95_ms) == (_percentile(waits, 0.5), _percentile(waits, 0.95))
    for found, made_ms in ((times.work_p50_ms, _percentile(works, 0.5)), (times.work_p95_ms, _percentile(works, 0.95))):
        assert found is not None
        assert made_ms <= found <= made_ms + late_ms


async def test_a_look_at_many_is_spread_over_all_of_them(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("q", vt=VT_S)
    number = 1_000
    _in_flight(client, "q", [(place * 10, place * 100, 1) for place in range(number)])
    async with aclosing(RsmqPoller(RsmqReader(redis_url))) as poller:
        times = await _times(poller, "q")
    assert times is not None
    assert times.sampled == FLIGHTS_MAX
    step = math.ceil(number / (FLIGHTS_MAX - 1))
    assert times.wait_p50_ms is not None
    assert times.wait_p95_ms is not None
    assert abs(times.wait_p50_ms - number * 10 // 2) <= step * 10
    assert abs(times.wait_p95_ms - number * 10 * 95 // 100) <= step * 10


async def test_what_is_delayed_or_ready_or_gone_has_no_times(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("q", vt=VT_S)
    rsmq.send_message("q", "ready")
    rsmq.send_message("q", "delayed", delay=500)
    async with aclosing(RsmqPoller(RsmqReader(redis_url))) as poller:
        assert await _times(poller, "q") is None
        received = rsmq.receive_message("q")
        assert received is not None
        times = await _times(poller, "q")
        assert times is not None
        assert times.sampled == 1
        rsmq.delete_message("q", received.id)
        assert await _times(poller, "q") is None


async def test_both_ways_of_reading_agree(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("q", vt=VT_S)
    _in_flight(client, "q", [(place, place * 7, 1) for place in range(55)])
    client.execute_command("ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting")
    found = []
    for url in (redis_url, redis_url.replace("://", "://plain:secret@")):
        async with aclosing(RsmqReader(url)) as reader:
            at_ms = now_ms(client)
            (flights,) = (await reader.rows.looks(["q"], (), at_ms, 5, 50))[2]
            found.append(flights)
    assert found[0] == found[1]
    assert len(found[0]) == FLIGHTS_MAX


async def test_queues_on_the_screen_are_looked_at_in_the_next_poll(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    names = [f"q{number:03}" for number in range(QUICK_QUEUES * 4)]
    for name in names:
        rsmq.create_queue(name, vt=VT_S)
    _in_flight(client, names[-1], [(5_000, 1_000, 1)])
    async with aclosing(RsmqPoller(RsmqReader(redis_url))) as poller:
        assert await _times(poller, names[-1]) is None
        poller.look_first([names[-1], "gone"])
        assert await _times(poller, names[-1]) is not None


@pytest.mark.parametrize(
    ("flight", "wait_ms", "work_ms"),
    [
        ((make_id((NOW_MS - 9_000) * 1000), NOW_MS, 1, NOW_MS - 4_000), 5_000, 4_000),
        # Received again 3 seconds ago; its visibility changed; received in the future; without a time in its id.
        ((make_id((NOW_MS - 9_000) * 1000), NOW_MS + 27_000, 2, NOW_MS - 4_000), 5_000, 3_000),
        ((make_id((NOW_MS - 9_000) * 1000), NOW_MS + 90_000, 2, NOW_MS - 4_000), 5_000, None),
        ((make_id((NOW_MS - 9_000) * 1000), NOW_MS, 1, NOW_MS + 1), None, None),
        (("x" * 22, NOW_MS + 27_000, 2, NOW_MS - 4_000), None, 3_000),
        ((make_id((NOW_MS - 1_000) * 1000), NOW_MS, 1, NOW_MS - 4_000), None, 4_000),
        ((make_id((NOW_MS - 9_000) * 1000), "inf", 2, NOW_MS - 4_000), 5_000, None),
        ((make_id((NOW_MS - 9_000) * 1000), "nan", "many", "\x1b[2J"), None, None),
        (("\udcff", "", "", ""), None, None),
    ],
)
def test_values_that_cannot_be_are_left_out(
    flight: tuple[object, ...], wait_ms: int | None, work_ms: int | None
) -> None:
    raw = Flight(*(str(part).encode("utf-8", "surrogateescape") for part in flight))
    times = flight_times([raw], 30, NOW_MS)
    assert times == FlightTimes(NOW_MS, 1, wait_ms, wait_ms, work_ms, work_ms)
    assert flight_times([], 30, NOW_MS) is None


def _polled(trend: Trend, series: QueueSeries, sample: Sample) -> None:
    if trend.is_due(sample.at_ms):
        trend.open_bucket(sample.at_ms)
        series.append(sample)


def test_sums_of_a_minute_an_hour_and_a_day() -> None:
    trend = Trend()
    series = trend.add_queue("q")
    assert trend.sums("q", NOW_MS, 5, 5) == []
    assert trend.sums("gone", NOW_MS, 5, 5) == []
    # One message is sent each second, and every second one is received; a day and an hour pass.
    for second in range(0, 25 * 3600, 5):
        _polled(trend, series, Sample(NOW_MS + second * 1000, 0, 0, second, second // 2))
    seconds = 25 * 3600
    minute, hour, day = trend.sums("q", NOW_MS + seconds * 1000, seconds, seconds // 2)
    for sums, span_ms, slack_ms in ((minute, 60_000, 5_000), (hour, 3_600_000, MARK_MS), (day, 86_400_000, MARK_MS)):
        assert span_ms <= sums.span_ms <= span_ms + slack_ms
        assert sums.sent == sums.span_ms // 1000
        assert abs(sums.received - sums.sent / 2) <= 1


def test_sums_begin_where_the_memory_or_the_queue_does() -> None:
    trend = Trend()
    series = trend.add_queue("q")
    _polled(trend, series, Sample(NOW_MS, 0, 0, 100, 100))
    _polled(trend, series, Sample(NOW_MS + 30_000, 0, 0, 107, 103))
    assert trend.sums("q", NOW_MS + 40_000, 110, 104) == [Sums(40_000, 10, 4, whole=False)]
    assert trend.sums("q", NOW_MS + 60_000, 110, 104) == [Sums(60_000, 10, 4)]
    # It was created anew, and its counters are higher already.
    assert trend.sums("q", NOW_MS + 40_000, 110, 104, NOW_MS + 20_000) == [Sums(20_000, 110, 104, whole=False)]
    # A time of creation in the future is wrong.
    assert trend.sums("q", NOW_MS + 40_000, 110, 104, NOW_MS + 41_000) == [Sums(40_000, 10, 4, whole=False)]
    # It was created anew.
    _polled(trend, series, Sample(NOW_MS + 50_000, 0, 0, 2, 1))
    assert trend.sums("q", NOW_MS + 60_000, 5, 1) == [Sums(10_000, 3, 0, whole=False)]


def test_all_that_was_sent_counts_since_a_queue_was_created() -> None:
    trend = Trend()
    trend.open_bucket(NOW_MS)
    # It was created 200 ms before the poll that found it, and 200 messages were sent at once.
    created_ms = NOW_MS + 9_800
    series = trend.add_queue("q")
    assert trend.sums("q", NOW_MS + 10_000, 200, 0, created_ms) == [Sums(200, 200, 0, whole=False)]
    for second in range(10, 200, 5):
        _polled(trend, series, Sample(NOW_MS + second * 1000, 200, 200, 200, 0))
    assert trend.sums("q", NOW_MS + 30_000, 200, 0, created_ms) == [Sums(20_200, 200, 0, whole=False)]
    # A span that is a little longer than a minute.
    assert trend.sums("q", NOW_MS + 70_000, 200, 0, created_ms) == [
        Sums(60_000, 0, 0),
        Sums(60_200, 200, 0, whole=False),
    ]
    assert trend.sums("q", NOW_MS + 190_000, 201, 1, created_ms) == [
        Sums(60_000, 1, 1),
        Sums(180_200, 201, 1, whole=False),
    ]


def test_a_creation_long_before_the_first_poll_counts_only_in_spans_as_long() -> None:
    trend = Trend()
    series = trend.add_queue("q")
    for second in (0, 30):
        _polled(trend, series, Sample(NOW_MS + second * 1000, 0, 0, 500 + second, 500))
    at_ms = NOW_MS + 40_000
    since_poll = Sums(40_000, 40, 0, whole=False)
    assert trend.sums("q", at_ms, 540, 500, at_ms - 1_800_000) == [since_poll, Sums(1_800_000, 540, 500, whole=False)]
    assert trend.sums("q", at_ms, 540, 500, at_ms - 90 * 86_400_000) == [since_poll]


def test_the_chart_keeps_an_hour_and_its_peaks() -> None:
    series = Trend().add_queue("q")
    for second in range(2 * 3_600):
        p95_ms = 9_000 if second == 2 * 3_600 - 1_500 else None if second % 2 else 1
        series.add_flights(FlightTimes(NOW_MS + second * 1000, 1, 1, p95_ms, None, 1))
    assert series.flights is not None
    assert 3_540_000 <= series.flights[-1].at_ms - series.flights[0].at_ms <= 3_600_000
    assert 120 + 49 <= len(series.flights) <= 120 + 51
    assert [times.wait_p95_ms for times in series.flights].count(9_000) == 1
    assert {times.work_p50_ms for times in series.flights} == {None}


def test_an_hour_of_the_chart_takes_a_few_kb() -> None:
    series = Trend().add_queue("q")
    tracemalloc.start()
    try:
        for second in range(3_600):
            series.add_flights(FlightTimes(NOW_MS + second * 1000, 50, 1_000 + second, 2_000 + second, None, 7_000))
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Threads of other tests may allocate meanwhile.
    here = [tracemalloc.Filter(True, each) for each in (__file__, inspect.getfile(FlightLog))]
    used = sum(trace.size for trace in taken.filter_traces(here).traces)
    # As tuples they are 40 KB.
    assert used < 12_000


def test_samples_since_a_moment() -> None:
    log = FlightLog()
    assert log.since(0) == []
    samples = [FlightTimes(at_ms, 2, None, 5, at_ms, None) for at_ms in (10, 20, 30)]
    for times in samples:
        log.append(times)
    assert list(log) == samples
    assert [log.since(from_ms) for from_ms in (0, 10, 11, 30, 31)] == [samples, samples, samples[1:], samples[2:], []]
    assert list(log.copy()) == log[:] == samples
