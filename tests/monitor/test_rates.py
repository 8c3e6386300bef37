"""Rates come from counters, over the interval that was measured, and never from before something was lost."""

import pytest

from rsmq_tui.monitor import QueueState, Verdict
from tests.monitor.rows import START_MS, Flow, Scripted


def rates(state: QueueState) -> tuple[float | None, float | None, float | None]:
    return state.arrivals_s, state.deletes_s, state.receives_s


UNKNOWN = (None, None, None)


def test_there_are_none_before_the_second_poll() -> None:
    watched = Scripted()
    flow = Flow(sent=100, deleted=90, received=95)

    assert rates(watched.poll_one(flow.row())) == UNKNOWN
    assert watched.totals.arrivals_s is None
    assert rates(watched.poll_one(flow.row())) == (0, 0, 0)


@pytest.mark.parametrize("interval_s", [0.25, 1, 3, 7.5, 60])
def test_they_are_divided_by_the_time_that_passed(interval_s: float) -> None:
    watched = Scripted()
    flow = Flow(sent=100)
    watched.poll_one(flow.row())
    for _ in range(8):
        flow.move(sent=30, received=18, deleted=12)
        state = watched.poll_one(flow.row(), after_s=interval_s)

    assert rates(state) == pytest.approx((30 / interval_s, 12 / interval_s, 18 / interval_s))


def test_they_follow_a_change_within_fifteen_seconds() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=120, sent=100, received=100, deleted=100)

    assert rates(watched.run(flow, seconds=15, sent=10, received=20, deleted=30)) == (10, 30, 20)


def test_they_are_smooth_over_ten_seconds() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=60, sent=10)
    flow.move(sent=110)

    assert 10 <= (watched.poll_one(flow.row()).arrivals_s or 0) <= 20


def test_a_new_queue_is_measured_from_when_it_was_first_seen() -> None:
    watched = Scripted()
    old, new = Flow(), Flow(sent=1_000_000)
    for _ in range(60):
        old.move(sent=1)
        watched.poll({"old": old.row()})
    watched.poll({"old": old.row(), "new": new.row()})
    new.move(sent=8)
    states = watched.poll({"old": old.row(), "new": new.row()}, after_s=2)

    assert states["new"].arrivals_s == 4


def test_no_rate_spans_a_change_of_this_program() -> None:
    watched = Scripted()
    flow = Flow(sent=1_000)
    watched.run(flow, seconds=60, sent=2, received=1, deleted=1)
    watched.tracker.note_own_change(["q"])
    flow.move(deleted=500)
    assert rates(watched.run(flow, seconds=1, sent=2, received=1, deleted=1)) == UNKNOWN
    for _ in range(90):
        assert rates(watched.run(flow, seconds=1, sent=2, received=1, deleted=1)) == (2, 1, 1)
    known = [(point.arrivals_s, point.deletes_s) for point in watched.tracker.trend.queue("q")]
    assert set(known) == {(None, None), (2, 1)}
    assert known.count((None, None)) <= 3


def test_the_undo_of_a_send_lowers_a_counter_and_ends_no_verdict() -> None:
    watched = Scripted()
    flow = Flow(sent=10, received=5)
    stalled = watched.run(flow, seconds=100)
    assert stalled.verdict is Verdict.STALLED
    for sent in (1, -1, 1, -1):
        watched.tracker.note_own_change(["q"])
        state = watched.run(flow, seconds=1, sent=sent)
        assert rates(state) == UNKNOWN
        for _ in range(3):
            assert (state.verdict, state.since_ms, state.pending_since_ms) == (
                Verdict.STALLED, stalled.since_ms, None,
            )  # fmt: skip
            assert state.idle_since_ms == stalled.idle_since_ms
            state = watched.run(flow, seconds=1)


def test_the_sums_of_all_queues_do_not_dip_after_a_change_of_this_program() -> None:
    watched = Scripted()
    flows = {"large": Flow(sent=1_000), "other": Flow(sent=1_000)}

    def poll(*names: str, deleted: int = 0) -> tuple[float | None, ...]:
        flows["large"].move(sent=8, received=4, deleted=4 + deleted)
        flows["other"].move(sent=2, received=1, deleted=1)
        watched.poll({name: flows[name].row() for name in names or flows})
        return watched.totals.arrivals_s, watched.totals.deletes_s, watched.totals.receives_s

    assert [poll() for _ in range(60)][-1] == (10, 5, 5)
    watched.tracker.note_own_change(["large"])
    assert {poll(deleted=500)} | {poll() for _ in range(90)} == {(10, 5, 5)}
    watched.tracker.note_own_change(["large"])
    assert [poll(), poll("other"), poll("other")] == [(10, 5, 5), (2, 1, 1), (2, 1, 1)]


@pytest.mark.parametrize(
    "again",
    [
        Flow(sent=3, received=1),
        # More was sent than before, but fewer received: it is another queue of that name all the same.
        Flow(sent=600, received=1),
    ],
)
def test_a_counter_that_falls_is_a_queue_created_again(again: Flow) -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=60, sent=5, received=5)

    assert rates(watched.poll_one(again.row())) == UNKNOWN
    again.move(sent=6, received=4, deleted=2)
    assert rates(watched.poll_one(again.row(), after_s=2)) == (3, 1, 2)


def test_messages_that_were_put_back_are_not_negative_deletes() -> None:
    watched = Scripted()
    flow = Flow(sent=100, deleted=50)
    watched.poll_one(flow.row())
    flow.deleted = 40

    assert rates(watched.poll_one(flow.row())) == (0, 0, 0)


def test_no_rate_is_made_without_time() -> None:
    watched = Scripted()
    flow = Flow(sent=100)
    watched.poll_one(flow.row())
    flow.move(sent=100)

    assert rates(watched.poll_one(flow.row(), after_s=0)) == UNKNOWN
    assert rates(watched.poll_one(flow.row(), after_s=-5)) == UNKNOWN


class TestAfterAnOutage:
    @pytest.mark.parametrize("seen_s", [1, 2, 4, 5, 9, 300])
    @pytest.mark.parametrize("outage_s", [1, 3, 60, 3600])
    def test_what_moved_meanwhile_makes_no_rate(self, seen_s: int, outage_s: int) -> None:
        watched = Scripted()
        flow = Flow()
        watched.run(flow, seconds=seen_s, sent=10, received=10, deleted=10)
        watched.resume(after_s=outage_s)
        flow.move(sent=1_000_000, received=1_000_000, deleted=1_000_000)

        assert rates(watched.poll_one(flow.row(), after_s=0)) == UNKNOWN
        for _ in range(30):
            state = watched.run(flow, seconds=1, sent=10, received=10, deleted=10)
            assert rates(state) in {UNKNOWN, (10, 10, 10)}
        assert rates(state) == (10, 10, 10)

    def test_no_queue_is_called_growing_for_it(self) -> None:
        watched = Scripted()
        flow = Flow(head_ms=START_MS + 3_600_000)
        watched.run(flow, seconds=300, sent=10, received=10, deleted=10)
        watched.resume(after_s=600)
        flow.move(sent=1_000_000, received=1)

        assert watched.poll_one(flow.row(), after_s=0).verdict == "watching"
        assert watched.run(flow, seconds=30, sent=10, received=10, deleted=10).verdict == "ok"

    def test_the_sums_show_a_gap(self) -> None:
        watched = Scripted()
        flow = Flow()
        watched.run(flow, seconds=10, sent=10)
        watched.outage(flow, after_s=60)
        *_, before, gap, after = watched.tracker.trend.totals

        assert before.arrivals_s == 10
        assert gap[1:] == (None,) * 5
        assert before.at_ms < gap.at_ms < after.at_ms
        assert after.arrivals_s is None

    def test_one_gap_is_one_gap_however_often_it_is_told(self) -> None:
        watched = Scripted()
        watched.run(Flow(), seconds=10, sent=10)
        kept = len(watched.tracker.trend.totals)
        for _ in range(50):
            watched.resume(after_s=1)

        assert len(watched.tracker.trend.totals) == kept + 1


def test_a_queue_that_was_unreadable_starts_anew() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=60, sent=10)
    assert rates(watched.poll_one([b"WRONGTYPE", 3])) == UNKNOWN
    flow.move(sent=1_000_000)

    assert rates(watched.poll_one(flow.row())) == UNKNOWN
    flow.move(sent=10)
    assert rates(watched.poll_one(flow.row())) == (10, 0, 0)


def test_sums_are_those_of_the_queues_that_were_measured() -> None:
    watched = Scripted()
    one, two = Flow(hidden=1), Flow()
    for seconds in range(1, 4):
        one.move(sent=10, received=5, deleted=2)
        two.move(sent=1, received=1, deleted=0)
        rows = {"one": one.row(), "two": two.row(), "wreck": [b"WRONGTYPE", 7]}
        if seconds == 3:
            rows["new"] = Flow(sent=100).row()
        watched.poll(rows)
    totals = watched.totals

    assert (totals.arrivals_s, totals.deletes_s, totals.receives_s) == (11, 2, 6)
    assert (totals.depth, totals.ready, totals.hidden) == (24 + 3 + 7 + 100, 23 + 3 + 100, 1)
    assert totals.verdicts[Verdict.BROKEN] == 1
    assert sum(totals.verdicts.values()) == 4
    assert totals.oldest == "new"


def test_a_server_clock_that_is_set_back_by_hours_begins_anew() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=300, sent=5, received=5, deleted=5)
    watched.tracker.trend.follow(["q"])
    watched.at_ms -= 2 * 3_600_000
    flow.move(sent=5, received=5, deleted=5)

    assert rates(watched.poll_one(flow.row())) == UNKNOWN
    assert rates(watched.run(flow, seconds=20, sent=5, received=5, deleted=5)) == (5, 5, 5)
    assert max(watched.tracker.trend.times_ms) <= watched.at_ms
    assert all(point.at_ms <= watched.at_ms for point in watched.tracker.trend.totals)
    assert list(watched.tracker.trend.followed) == ["q"]
    assert watched.totals.verdicts[Verdict.OK] == 1


def test_a_server_clock_that_is_set_back_by_hours_hides_no_stall() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=30, sent=1)
    watched.at_ms -= 2 * 3_600_000

    state = watched.run(flow, seconds=121)
    assert (state.verdict, rates(state)) == (Verdict.STALLED, (0, 0, 0))


def test_a_server_clock_that_is_set_back_by_seconds_loses_nothing() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=300, sent=5, received=5, deleted=5)
    trend = watched.tracker.trend
    watched.at_ms -= 5_000

    assert rates(watched.run(flow, seconds=20, sent=5, received=5, deleted=5)) == (5, 5, 5)
    assert watched.tracker.trend is trend
