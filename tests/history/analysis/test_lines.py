"""Lines: the roll-up that suits, sums of queues, gaps that stay gaps."""

from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import METRICS, PLACES, QUEUES, ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, VERDICT_RUNS
from rsmq_tui.history.analysis.values import AGE, Line, QueueRef, TimeRange
from rsmq_tui.history.names import Place
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from tests.history.analysis.made import Made, bucket, line_of, metrics_of, named, of_places, scripted
from tests.history.analysis.queues import EMAILS, END_MS, GAP, INVOICES, ORDERS, OUTAGE, REFS, START_MS, WEBHOOKS

HOUR = TimeRange(END_MS - HOUR_MS, END_MS)
DAY = TimeRange(END_MS - DAY_MS, END_MS)
ALL = TimeRange(START_MS, END_MS)


def _known(line: Line) -> dict[int, float]:
    return {at_ms: value for at_ms, value in line.points if value is not None}


@pytest.mark.parametrize(
    ("span", "points", "step_ms"),
    [
        (HOUR, 200, 10_000), (HOUR, 120, MINUTE_MS), (HOUR, 10, MINUTE_MS), (HOUR, 2, HOUR_MS), (DAY, 200, MINUTE_MS),
        (DAY, 48, HOUR_MS), (ALL, 100, HOUR_MS), (TimeRange(END_MS - 60_000, END_MS), 500, 10_000),
    ],
)  # fmt: skip
def test_the_roll_up_suits_the_width(analysis: Analysis, span: TimeRange, points: int, step_ms: int) -> None:
    line = line_of(analysis, [ORDERS], "depth", span, points=points)
    assert line.step_ms == step_ms
    assert len(line.points) >= points / 2 or step_ms == 10_000


def test_the_coarse_roll_up_stands_in_where_the_fine_one_lacks_days(analysis: Analysis) -> None:
    line = line_of(analysis, [ORDERS], "depth", ALL, points=1_000)
    assert (line.step_ms, line.points[0][0]) == (HOUR_MS, START_MS)


def test_all_queues_together_are_read_from_the_roll_up_of_places(tmp_path: Path) -> None:
    made = scripted(tmp_path)
    asked = [("depth", "mean"), ("depth", "max"), (AGE, "max"), ("arrivals_s", "mean")]
    spans = [(HOUR, 200), (DAY, 200), (ALL, 100)]
    before = Analysis(tmp_path)
    summed = [before.lines(None, asked, span, points=points) for span, points in spans]
    most = [before.greatest(None, "depth", span, points=points) for span, points in spans]
    for table in (ROLLUP_10S, ROLLUP_1M, ROLLUP_1H):
        rows = [row for parts in made.rows[table].values() for part in parts for row in part.to_pylist()]
        made.add(PLACES, *of_places(rows, table))
    # What is of single queues is not read.
    for table in (ROLLUP_10S, ROLLUP_1M, ROLLUP_1H):
        for day, parts in made.rows[table].items():
            made.rows[table][day] = [part.slice(0, 0) for part in parts]
    made.publish("run-2")
    analysis = Analysis(tmp_path)

    for (span, points), lines, greatest in zip(spans, summed, most, strict=True):
        found = analysis.lines(None, asked, span, points=points)
        for line, expected in zip(found, lines, strict=True):
            assert (line.metric, line.step_ms) == (expected.metric, expected.step_ms)
            assert [at_ms for at_ms, _ in line.points] == [at_ms for at_ms, _ in expected.points]
            assert _known(line) == pytest.approx(_known(expected))
            assert _known(line)
        assert analysis.greatest(None, "depth", span, points=points) == pytest.approx(greatest)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("refs", [(ORDERS,), (ORDERS, EMAILS, INVOICES), REFS])
def test_a_line_is_the_sum_of_its_queues_and_of_ages_the_greatest(
    analysis: Analysis, metric: str, refs: tuple[QueueRef, ...]
) -> None:
    span = TimeRange(START_MS, START_MS + DAY_MS - 1)
    line = line_of(analysis, refs, metric, span, points=24)
    joined = max if metric == AGE else sum
    for at_ms, value in _known(line).items():
        assert value == pytest.approx(joined(metrics_of(ref, at_ms)[metric] or 0.0 for ref in refs)), at_ms
    assert list(_known(line)) == list(range(START_MS, START_MS + DAY_MS, HOUR_MS))


def test_all_queues_are_meant_where_none_is_named(analysis: Analysis) -> None:
    assert line_of(analysis, None, "depth", DAY) == line_of(analysis, REFS, "depth", DAY)
    assert line_of(analysis, (), "depth", DAY).points == ()


@pytest.mark.parametrize("refs", [(ORDERS,), (ORDERS, EMAILS), REFS])
@pytest.mark.parametrize(("from_ms", "to_ms"), [GAP, OUTAGE])
def test_what_nobody_recorded_is_a_gap_and_never_zero(
    analysis: Analysis, refs: tuple[QueueRef, ...], from_ms: int, to_ms: int
) -> None:
    day = TimeRange(from_ms // DAY_MS * DAY_MS, from_ms // DAY_MS * DAY_MS + DAY_MS - 1)
    line = line_of(analysis, refs, "depth", day, points=200)
    assert line.step_ms == MINUTE_MS
    inside = [(at_ms, value) for at_ms, value in line.points if from_ms <= at_ms < to_ms]
    assert inside[0] == (from_ms, None)
    assert {value for _, value in inside} == {None}
    assert all(value is not None for at_ms, value in line.points if not from_ms <= at_ms < to_ms)


def test_a_place_of_its_own_goes_on_while_another_has_a_gap(analysis: Analysis) -> None:
    span = TimeRange(*GAP)
    assert not line_of(analysis, [WEBHOOKS], "depth", span).is_empty
    assert line_of(analysis, [ORDERS], "depth", TimeRange(GAP[0], GAP[1] - 1), points=60).is_empty


@pytest.mark.parametrize("statistic", ["min", "max", "p50", "p95", "p99"])
def test_other_statistics_come_from_their_columns(analysis: Analysis, statistic: str) -> None:
    factor = {"min": 0.8, "max": 1.3, "p50": 0.99, "p95": 1.2, "p99": 1.25}[statistic]
    line = line_of(analysis, [ORDERS], "depth", HOUR, statistic=statistic)
    assert _known(line)[HOUR.from_ms] == pytest.approx(160.0 * factor)


def _made(tmp_path: Path, *rows: dict[str, Any], table: str = ROLLUP_1M, refs: tuple[QueueRef, ...]) -> Analysis:
    made = Made(tmp_path)
    made.add(table, *rows)
    for ref in refs:
        ours = [row["bucket_ms"] for row in rows if row["server"] == ref.server and row["queue"] == ref.queue]
        made.add(QUEUES, {**named(ref), "first_ms": min(ours), "last_ms": max(ours) + MINUTE_MS - 1, "samples": 9})
    made.publish()
    return Analysis(tmp_path)


def test_a_queue_that_was_polled_too_rarely_for_the_fine_roll_up_has_a_line_by_minute(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for ref in (ORDERS, WEBHOOKS):
        made.add(ROLLUP_1M, *(bucket(ref, START_MS + n * MINUTE_MS, MINUTE_MS, depth=9.0) for n in range(30)))
        made.add(QUEUES, {**named(ref), "first_ms": START_MS, "last_ms": START_MS + 30 * MINUTE_MS - 1, "samples": 9})
    made.add(ROLLUP_10S, *(bucket(ORDERS, START_MS + n * 10_000, 10_000, depth=10.0) for n in range(180)))
    # The first poll of the other one, before which nothing is known.
    made.add(ROLLUP_10S, bucket(WEBHOOKS, START_MS, 10_000, depth=9.0))
    made.publish()
    analysis = Analysis(tmp_path)
    span = TimeRange(START_MS, START_MS + 30 * MINUTE_MS - 1)

    dense, sparse, both = (
        line_of(analysis, refs, "depth", span, points=180) for refs in ([ORDERS], [WEBHOOKS], [ORDERS, WEBHOOKS])
    )

    assert (dense.step_ms, set(_known(dense).values())) == (10_000, {10.0})
    assert (sparse.step_ms, set(_known(sparse).values()), len(sparse.points)) == (MINUTE_MS, {9.0}, 30)
    assert (both.step_ms, set(_known(both).values())) == (MINUTE_MS, {18.0})


def test_a_queue_that_is_not_there_adds_nothing_while_its_place_is_polled(tmp_path: Path) -> None:
    rows = [bucket(ORDERS, START_MS + n * MINUTE_MS, MINUTE_MS, depth=10.0) for n in range(30)]
    rows += [bucket(EMAILS, START_MS + n * MINUTE_MS, MINUTE_MS, depth=5.0) for n in range(30) if n not in range(9, 20)]
    analysis = _made(tmp_path, *rows, refs=(ORDERS, EMAILS))
    line = line_of(analysis, None, "depth", TimeRange(START_MS, START_MS + 30 * MINUTE_MS), points=30)
    assert [value for _, value in line.points] == [10.0 if n in range(9, 20) else 15.0 for n in range(30)]


def test_a_sum_is_unknown_while_one_of_its_places_is(tmp_path: Path) -> None:
    rows = [bucket(ORDERS, START_MS + n * MINUTE_MS, MINUTE_MS, depth=10.0) for n in range(30)]
    rows += [bucket(WEBHOOKS, START_MS + n * MINUTE_MS, MINUTE_MS, depth=5.0) for n in range(5, 25) if n != 12]
    analysis = _made(tmp_path, *rows, refs=(ORDERS, WEBHOOKS))
    line = line_of(analysis, None, "depth", TimeRange(START_MS, START_MS + 30 * MINUTE_MS), points=30)
    wanted = [None if n == 12 else 15.0 if n in range(5, 25) else 10.0 for n in range(30)]
    assert [value for _, value in line.points] == wanted


@pytest.mark.parametrize("there", [range(0, 30, 5), range(5, 20)])
def test_a_place_that_was_polled_and_had_no_queue_adds_nothing_to_a_sum(tmp_path: Path, there: range) -> None:
    rows = [bucket(ORDERS, START_MS + n * MINUTE_MS, MINUTE_MS, depth=10.0) for n in range(30)]
    rows += [bucket(WEBHOOKS, START_MS + n * MINUTE_MS, MINUTE_MS, depth=5.0) for n in {0, 29, *there}]
    made = Made(tmp_path)
    made.add(ROLLUP_1M, *rows)
    for ref in (ORDERS, WEBHOOKS):
        made.add(QUEUES, {**named(ref), "first_ms": START_MS, "last_ms": START_MS + 30 * MINUTE_MS - 1, "samples": 9})
    # Every five seconds, but not from minute 22 to 26; and once in a while only, or in vain.
    polls = {**named(WEBHOOKS), "queue": None, "verdict": "ok"}
    made.add(VERDICT_RUNS, {**polls, "first_ms": START_MS, "last_ms": START_MS + 22 * MINUTE_MS, "samples": 265})
    made.add(
        VERDICT_RUNS,
        {**polls, "first_ms": START_MS + 22 * MINUTE_MS, "last_ms": START_MS + 26 * MINUTE_MS, "samples": 3},
        {**polls, "verdict": "down", "first_ms": START_MS + 24 * MINUTE_MS, "last_ms": END_MS, "samples": 500},
        {**polls, "first_ms": START_MS + 26 * MINUTE_MS, "last_ms": START_MS + 30 * MINUTE_MS, "samples": 49},
    )
    made.publish()

    line = line_of(Analysis(tmp_path), None, "depth", TimeRange(START_MS, START_MS + 30 * MINUTE_MS), points=30)

    known = {0, 29, *there}
    wanted = [15.0 if n in known else None if n in range(22, 26) else 10.0 for n in range(30)]
    assert [value for _, value in line.points] == wanted


@pytest.mark.parametrize(("every_ms", "is_known"), [(5_003, True), (9_400, False), (30_000, False)])
def test_a_step_tells_that_there_was_no_queue_if_it_surely_has_a_poll(
    tmp_path: Path, every_ms: int, is_known: bool
) -> None:
    rows = [bucket(ORDERS, START_MS + n * 10_000, 10_000, depth=10.0) for n in range(60)]
    rows += [bucket(WEBHOOKS, START_MS + n * 10_000, 10_000, depth=5.0) for n in (*range(30), 59)]
    made = Made(tmp_path)
    made.add(ROLLUP_10S, *rows)
    for ref in (ORDERS, WEBHOOKS):
        made.add(QUEUES, {**named(ref), "first_ms": START_MS, "last_ms": START_MS + 600_000 - 1, "samples": 9})
    polls = {**named(WEBHOOKS), "queue": None, "verdict": "ok", "first_ms": START_MS, "last_ms": START_MS + 600_000}
    made.add(VERDICT_RUNS, {**polls, "samples": 600_000 // every_ms + 1})
    made.publish()

    line = line_of(Analysis(tmp_path), None, "depth", TimeRange(START_MS, START_MS + 600_000), points=60)

    assert line.step_ms == 10_000
    assert dict(line.points)[START_MS + 450_000] == (10.0 if is_known else None)


def test_places_that_are_polled_by_turns_are_added_up_over_longer_steps(tmp_path: Path) -> None:
    odd = [bucket(ORDERS, START_MS + n * MINUTE_MS, 10_000, samples=1, depth=10.0) for n in range(60)]
    even = [bucket(WEBHOOKS, START_MS + 30_000 + n * MINUTE_MS, 10_000, samples=1, depth=5.0) for n in range(60)]
    analysis = _made(tmp_path, *odd, *even, table=ROLLUP_10S, refs=(ORDERS, WEBHOOKS))
    line = line_of(analysis, None, "depth", TimeRange(START_MS, START_MS + HOUR_MS), points=800)
    assert line.step_ms == 2 * MINUTE_MS
    assert {value for _, value in line.points} == {15.0}


def test_a_poll_that_comes_a_little_late_is_no_gap(tmp_path: Path) -> None:
    rows = [bucket(ORDERS, START_MS + n * 10_000, 10_000, samples=1, depth=1.0) for n in range(60) if n % 7]
    rows = [row for row in rows if not 300_000 <= row["bucket_ms"] - START_MS < 400_000]
    line = line_of(
        _made(tmp_path, *rows, table=ROLLUP_10S, refs=(ORDERS,)),
        None,
        "depth",
        TimeRange(START_MS, START_MS + 600_000),
        points=60,
    )
    assert [at_ms - START_MS for at_ms, value in line.points if value is None] == [300_000]


def test_steps_weigh_samples_and_rates_what_is_covered(tmp_path: Path) -> None:
    first = bucket(ORDERS, START_MS, HOUR_MS, samples=1, depth=10.0, arrivals_s=1.0)
    second = bucket(ORDERS, START_MS + 3_600_000, HOUR_MS, samples=3, depth=20.0, arrivals_s=None)
    second |= {"arrivals": 600, "covered_ms": 60_000}
    unknown = bucket(ORDERS, START_MS + 2 * HOUR_MS, HOUR_MS, depth=None, arrivals_s=None) | {"covered_ms": 0}
    rows = [first, second, unknown]
    rows.append(bucket(ORDERS, START_MS + 6_000 * HOUR_MS, HOUR_MS, depth=7.0, arrivals_s=3.0))
    analysis = _made(tmp_path, *rows, table=ROLLUP_1H, refs=(ORDERS,))
    whole = TimeRange(START_MS, START_MS + 6_000 * HOUR_MS)
    depth = line_of(analysis, None, "depth", whole)
    assert depth.step_ms == 2 * HOUR_MS
    assert _known(depth) == {START_MS: 17.5, START_MS + 6_000 * HOUR_MS: 7.0}
    assert depth.points[1] == (START_MS + 2 * HOUR_MS, None)
    arrivals = _known(line_of(analysis, None, "arrivals_s", whole))
    assert arrivals == {START_MS: pytest.approx(4_200 / 3_660), START_MS + 6_000 * HOUR_MS: pytest.approx(3.0)}


def test_names_that_are_no_utf_8_are_found_by_their_own_bytes(tmp_path: Path) -> None:
    place = Place("p\\x", "redis://h", "n\udcff")
    odd, other = QueueRef(*place, "a\udc80"), QueueRef(*place, "a\\x80")
    rows = [bucket(ref, START_MS + n * MINUTE_MS, MINUTE_MS, depth=value) for ref, value in ((odd, 1.0), (other, 2.0))
            for n in range(9)]  # fmt: skip
    made = Made(tmp_path)
    made.add(ROLLUP_1M, *rows)
    made.add(QUEUES, *({**named(ref), "first_ms": START_MS, "last_ms": START_MS + HOUR_MS} for ref in (odd, other)))
    made.publish()
    analysis = Analysis(tmp_path)
    span = TimeRange(START_MS, START_MS + HOUR_MS)
    assert [facts.ref for facts in analysis.queues()] == [other, odd]
    assert {value for _, value in line_of(analysis, [odd], "depth", span, points=50).points} == {1.0}
    assert {value for _, value in line_of(analysis, [other], "depth", span, points=50).points} == {2.0}
    assert {value for _, value in line_of(analysis, [odd, other], "depth", span, points=50).points} == {3.0}
