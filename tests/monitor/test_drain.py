"""Whether a backlog clears, and that a growing or stalled queue never gets a number."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq_tui.monitor import Drain, QueueState, Thresholds, Verdict, needed_deletes, outlook
from rsmq_tui.monitor.tracking import tracker
from rsmq_tui.monitor.tracking.drain import Batches, batches_of, drain_rates
from rsmq_tui.monitor.tracking.series import BUCKET_MS, QueueSeries, Rates, Sample
from rsmq_tui.monitor.tracking.tracker import DRAIN_SPAN_MS
from tests.monitor.list_rows import ScriptedLists
from tests.monitor.rows import Flow, Scripted


def test_empty_when_nothing_is_ready() -> None:
    watched = Scripted()

    assert watched.poll_one(Flow().row()).drain is Drain.EMPTY
    assert watched.poll_one(Flow(sent=5, hidden=5).row()).drain is Drain.EMPTY


def test_unknown_until_something_was_measured() -> None:
    assert Scripted().poll_one(Flow(sent=5).row()).drain is Drain.UNKNOWN


def test_clears_in_what_is_ready_divided_by_the_net_rate() -> None:
    watched = Scripted()
    flow = Flow(sent=10_000)
    state = watched.run(flow, seconds=90, sent=5, received=15, deleted=15)

    assert (state.drain, state.ready) == (Drain.CLEARS, 10_000 - 90 * 10)
    assert state.drain_s == pytest.approx((10_000 - 90 * 10) / 10)


def test_unknown_where_it_shrinks_over_a_minute_and_grows_just_now() -> None:
    watched = Scripted()
    flow = Flow(sent=10_000)
    watched.run(flow, seconds=90, sent=5, received=15, deleted=15)
    states = [watched.run(flow, seconds=1, sent=20, received=15, deleted=15) for _ in range(20)]

    growing = [state for state in states if (state.change_s or 0) >= 0]
    assert growing
    assert {(state.drain, state.drain_s) for state in growing} == {(Drain.UNKNOWN, None)}


def test_steady_when_as_much_comes_as_goes() -> None:
    state = Scripted().run(Flow(sent=100), seconds=30, sent=50, received=50, deleted=50)

    assert (state.drain, state.drain_s) == (Drain.STEADY, None)


@pytest.mark.parametrize(("more", "every_s", "drain"), [(1, 3, Drain.STEADY), (2, 1, Drain.GROWING)])
def test_steady_while_it_grows_by_no_more_than_chance(more: int, every_s: int, drain: Drain) -> None:
    """Of 600 messages a minute, 13 more than were deleted are chance, and 80 more are not."""
    watched, flow = Scripted(), Flow(sent=500)
    watched.run(flow, seconds=90, sent=10, received=10, deleted=10)
    states = [watched.run(flow, seconds=1, sent=10 + more * (second % every_s == 0), received=10, deleted=10)
              for second in range(40)]  # fmt: skip

    assert {(state.verdict, state.drain) for state in states[35:]} == {(Verdict.OK, drain)}


def test_a_queue_at_its_balance_is_rarely_said_to_grow() -> None:
    chance, watched, flow = random.Random(5), Scripted(), Flow(sent=5_000)
    # The sum of many small shares is nearly a Poisson distribution.
    moved = [[sum(chance.random() < 0.05 for _ in range(200)) for _ in range(2)] for _ in range(1_800)]
    states = [watched.run(flow, seconds=1, sent=sent, received=gone, deleted=gone) for sent, gone in moved]

    said = [state for state in states if state.drain is Drain.GROWING and state.verdict is not Verdict.GROWING]
    assert len(said) < 0.05 * len(states)


def test_unknown_while_it_cannot_be_told_whether_it_grows() -> None:
    state = Scripted().run(Flow(sent=100), seconds=5, sent=20, received=10, deleted=10)

    assert (state.verdict, state.drain, state.drain_s) == (Verdict.WATCHING, Drain.UNKNOWN, None)


def test_growing_and_then_a_time_while_a_growing_queue_recovers() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=180, sent=30, received=1)
    states = [watched.run(flow, seconds=1, received=30, deleted=30) for _ in range(30)]

    assert {state.verdict for state in states} == {Verdict.GROWING}
    drains = [state.drain for state in states]
    assert list(dict.fromkeys(drains)) == [Drain.GROWING, Drain.CLEARS]
    assert drains.index(Drain.CLEARS) <= 14
    assert states[-1].drain_s == pytest.approx(flow.depth / 30)
    assert outlook(states[-1], watched.at_ms) == "2m 30s"


def test_after_a_burst_the_time_is_that_of_the_latest_rates() -> None:
    watched, flow = Scripted(), Flow()
    watched.run(flow, seconds=100, sent=2, received=2, deleted=2)
    watched.run(flow, seconds=38, sent=131, received=43, deleted=43)
    states = [watched.run(flow, seconds=1, received=43, deleted=43) for _ in range(20)]

    # As many messages as the queue then holds, at 43 a second; no growth and nothing constant in between.
    assert {state.drain for state in states[14:]} == {Drain.CLEARS}
    assert states[-1].drain_s == pytest.approx(flow.depth / 43, rel=0.01)
    recent, now = watched.tracker.trend.rates("q", DRAIN_SPAN_MS), states[-1]
    assert recent is not None
    assert now.arrivals_s is not None
    assert now.deletes_s is not None
    latest = Rates(now.arrivals_s, now.deletes_s, 0.0)
    assert drain_rates(recent, latest) is latest
    assert needed_deletes(now, latest) == ""


def test_from_when_a_consumer_began_on() -> None:
    watched, flow = Scripted(), Flow(sent=5_000)
    watched.run(flow, seconds=100)
    states = [watched.run(flow, seconds=1, received=5, deleted=5) for _ in range(40)]

    # At first, the rate of a minute would say that it takes hours.
    assert {state.drain_s for state in states[:10]} == {None}
    # It counts from a bucket, which was up to 5 s before.
    for begin, error in ((16, 0.35), (25, 0.2), (35, 0.15)):
        assert all(state.drain_s == pytest.approx((state.ready or 0) / 5, rel=error) for state in states[begin:])


def test_of_batches_it_is_that_of_the_minute() -> None:
    watched, flow = Scripted(), Flow(sent=50_000)
    moved = (100 if second % 20 == 0 else 0 for second in range(300))
    states = [watched.run(flow, seconds=1, received=count, deleted=count) for count in moved]

    assert all(abs(state.drain_s - (state.ready or 0) / 5) < 4_000 for state in states[80:] if state.drain_s)


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("every_s", [15, 30, 60, 120])
def test_a_queue_that_is_filled_in_batches_drains_over_all_of_them(every_s: int, is_list: bool) -> None:
    """Between two batches it falls by 15/s, and by 5/s in the mean: the true time is when it first is empty."""
    watched, depth, sent, taken = ScriptedLists() if is_list else Scripted(), 6_000, 6_000, 0
    said: list[tuple[int, float | None]] = []
    for second in range(2_000):
        batch = 10 * every_s if second % every_s == every_s // 3 else 0
        gone = min(15, depth + batch)
        depth, sent, taken = depth + batch - gone, sent + batch, taken + gone
        row = [depth, 0, 0, [1, b"%d" % taken, 1], None] if is_list else Flow(sent, taken, taken).row()
        said.append((second, watched.poll_one(row).drain_s))
        if not depth:
            break
    assert not depth

    # From the third batch on, to some seconds before the end, and without the batches that are just seen.
    shown = [(said_s, second - at) for at, said_s in said[2 * every_s + 60 : -every_s] if said_s is not None]
    errors = sorted(abs(said_s - left_s) / left_s for said_s, left_s in shown)
    assert len(shown) > 0.9 * (len(said) - 3 * every_s - 60)
    assert errors[len(errors) * 9 // 10] < 0.2


def test_what_is_left_of_batches_that_are_over_drains_as_it_falls() -> None:
    watched, flow = Scripted(), Flow(sent=6_000)
    for second in range(300):
        flow.move(sent=300 if second % 30 == 10 else 0, received=15, deleted=15)
        state = watched.poll_one(flow.row())
    assert state.drain_s is not None
    assert state.drain_s > flow.depth / 6
    states = [watched.run(flow, seconds=1, received=15, deleted=15) for _ in range(40)]

    assert states[-1].drain_s == pytest.approx(flow.depth / 15, rel=0.01)


@pytest.mark.parametrize("is_list", [False, True])
def test_of_batches_no_time_stays_where_nothing_moves_any_more(is_list: bool) -> None:
    thresholds = Thresholds(stalled_ms=3_600_000)
    watched = ScriptedLists(thresholds) if is_list else Scripted(thresholds)
    depth, sent, taken = 6_000, 6_000, 0
    states = []
    for second in range(520):
        batch, gone = (300 * (second % 100 == 10), 15 * (second % 100 < 50)) if second < 420 else (0, 0)
        depth, sent, taken = depth + batch - gone, sent + batch, taken + gone
        row = [depth, 0, 0, [1, b"%d" % taken, 1], None] if is_list else Flow(sent, taken, taken).row()
        states.append(watched.poll_one(row))

    assert Drain.CLEARS in {state.drain for state in states[300:420]}
    assert (states[-1].verdict, states[-1].drain) == (Verdict.OK, Drain.UNKNOWN)


@pytest.mark.parametrize(("sent", "deleted"), [(15, 15), (5, 15)])
def test_batches_are_not_looked_for_again_in_a_queue_that_never_rises(
    monkeypatch: pytest.MonkeyPatch, sent: int, deleted: int
) -> None:
    looked: list[int] = []

    def counted(series: QueueSeries, from_ms: int, at_ms: int) -> Batches | None:
        looked.append(at_ms)
        return batches_of(series, from_ms, at_ms)

    monkeypatch.setattr(tracker, "batches_of", counted)
    watched, flow = Scripted(), Flow(sent=6_000)
    watched.run(flow, seconds=300, sent=sent, received=deleted, deleted=deleted)

    assert len(looked) == 1


def test_a_change_of_this_program_is_no_batch() -> None:
    watched, flow = Scripted(), Flow(sent=6_000)
    for second in range(200):
        if second % 40 == 20:
            watched.tracker.note_own_change(["q"])
        flow.move(sent=500 if second % 40 == 20 else 0, received=15, deleted=15)
        state = watched.poll_one(flow.row())

    assert state.drain_s == pytest.approx(flow.depth / 15, rel=0.01)


def test_arrivals_that_fell_by_chance_change_no_time() -> None:
    for arrived in range(7, 20):
        recent, latest = Rates(1.2, 1.2, 1.2), Rates(arrived / 10 / 2, 1.5, 1.5)
        assert drain_rates(recent, latest) is recent
    assert drain_rates(Rates(1.2, 1.2, 1.2), Rates(0.0, 1.5, 1.5)) is not recent


def test_what_grew_in_the_minute_and_shrinks_now_is_not_said_to_grow() -> None:
    watched, flow = Scripted(), Flow(sent=100)
    watched.run(flow, seconds=50, sent=3, received=2, deleted=2)
    states = [watched.run(flow, seconds=1, sent=3, received=4, deleted=4) for _ in range(15)]

    assert {state.drain for state in states[11:]} == {Drain.UNKNOWN}


def test_stalled_has_no_number_although_messages_are_deleted() -> None:
    state = Scripted().run(Flow(sent=1000), seconds=90, deleted=5)

    assert (state.verdict, state.drain, state.drain_s) == (Verdict.STALLED, Drain.STALLED, None)


def test_unknown_when_nothing_moves_and_it_is_too_early_to_call_it_stalled() -> None:
    state = Scripted().run(Flow(sent=1000), seconds=30)

    assert (state.verdict, state.drain) == (Verdict.OK, Drain.UNKNOWN)


def test_unknown_when_broken() -> None:
    state = Scripted().poll_one([[None] * 7, 4])

    assert (state.drain, state.drain_s) == (Drain.UNKNOWN, None)


SECOND = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.booleans())


@settings(max_examples=60)
@given(st.lists(SECOND, min_size=1, max_size=40), st.sampled_from([1, 5, 20]))
def test_a_number_means_that_it_clears(seconds: list[tuple[int, int, int, bool]], interval_s: int) -> None:
    watched = Scripted()
    flow = Flow(sent=200)
    for sent, received, deleted, is_hidden in seconds:
        flow.move(sent=sent, received=received, deleted=min(deleted, flow.depth))
        flow.hidden = flow.depth // 2 if is_hidden else 0
        state = watched.poll_one(flow.row(), after_s=interval_s)

        assert (state.drain_s is not None) == (state.drain is Drain.CLEARS)
        assert (state.drain is Drain.EMPTY) == (state.ready == 0)
        if state.drain_s is not None:
            assert state.verdict not in {Verdict.GROWING, Verdict.STALLED} or state.pending_since_ms is not None
            assert 0 < state.drain_s < float("inf")


def _needed(watched: Scripted, state: QueueState) -> str:
    return needed_deletes(state, watched.tracker.trend.rates("q", DRAIN_SPAN_MS))


@pytest.mark.parametrize(
    ("sent", "deleted", "backlog", "words"),
    [
        (8, 5, 420, "needs 1.6x the deletes to keep up, 1.9x to drain in 10 min"),
        (5, 5, 3_000, "needs 2.0x the deletes to drain in 10 min"),
        (5, 6, 3_060, "needs 1.7x the deletes to drain in 10 min"),
        (5, 20, 3_000, ""),
        (5, 5, 0, ""),
        (5, 0, 0, ""),
    ],
)
def test_how_many_times_the_deletes_a_queue_needs(sent: int, deleted: int, backlog: int, words: str) -> None:
    watched, flow = Scripted(), Flow(sent=backlog + 10)
    watched.poll_one(flow.row())
    state = watched.run(flow, seconds=50, sent=sent, received=deleted, deleted=deleted)
    assert _needed(watched, state) == ""
    state = watched.run(flow, seconds=80, sent=sent, received=deleted, deleted=deleted)
    assert _needed(watched, state) == words


def test_that_many_times_the_deletes_do_drain_a_queue() -> None:
    watched, flow = Scripted(), Flow(sent=1_010)
    watched.poll_one(flow.row())
    state = watched.run(flow, seconds=130, sent=8, received=5, deleted=5)
    found = re.search(r"needs ([\d.]+)x the deletes to keep up, ([\d.]+)x to drain", _needed(watched, state))
    assert found is not None
    for factor, left in zip(map(float, found.groups()), (flow.depth, 0), strict=True):
        # A tenth of the deletes is what rounding may cost.
        assert abs(flow.depth + (8 - factor * 5) * 600 - left) <= 0.05 * 5 * 600


def test_after_a_gap_nothing_is_said_of_deletes() -> None:
    watched, flow = Scripted(), Flow(sent=1_000)
    watched.poll_one(flow.row())
    assert _needed(watched, watched.run(flow, seconds=130, sent=8, received=5, deleted=5))
    watched.resume(after_s=30)
    assert _needed(watched, watched.run(flow, seconds=40, sent=8, received=5, deleted=5)) == ""
    assert watched.tracker.trend.rates("another", DRAIN_SPAN_MS) is None


def test_what_depends_on_the_buckets_is_found_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    between, reads = QueueSeries.between, 0

    def counted(series: QueueSeries, after_ms: int, before_ms: int) -> list[Sample]:
        nonlocal reads
        reads += 1
        return between(series, after_ms, before_ms)

    monkeypatch.setattr(QueueSeries, "between", counted)
    watched, flow = Scripted(), Flow()
    assert watched.run(flow, seconds=300, sent=30, received=5, deleted=5).verdict is Verdict.GROWING
    reads = 0
    state = watched.run(flow, seconds=20, received=30, deleted=30)

    assert (state.verdict, state.drain) == (Verdict.GROWING, Drain.CLEARS)
    # The fall, and the growth over one span or two.
    assert 0 < reads <= 4 * (20_000 // BUCKET_MS + 1)
