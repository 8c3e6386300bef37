"""List queues from poll to poll: how old the next item is, what does not change, and the recent past."""

import json

import pytest

from rsmq_tui.monitor import Thresholds, Verdict, reason
from rsmq_tui.monitor.filters.json_paths import age_path
from tests.monitor.list_rows import ListFlow, ScriptedLists, filled

LIMITS = Thresholds()


class TestAges:
    def aged(self, body: object, path: str = "created") -> tuple[ScriptedLists, ListFlow]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        watched = ScriptedLists(age=age_path(path))
        return watched, filled(2, body=raw)

    def test_of_the_next_item(self) -> None:
        watched, flow = self.aged({"created": 1_750_000_000})
        state = watched.once(flow)

        assert state.oldest_ready_ms == 1_750_000_000_000
        assert (watched.totals.oldest, watched.totals.oldest_ready_due_ms) == ("q", 1_750_000_000_000)
        assert state.problems == ()

    def test_make_it_aged(self) -> None:
        watched, flow = self.aged({"created": 1_750_000_000})
        state = watched.once(flow, after_s=LIMITS.aged_ms / 1000)

        assert (state.verdict, state.since_ms) == (Verdict.AGED, 1_750_000_000_000 + LIMITS.aged_ms)
        assert reason(state, watched.at_ms, LIMITS) == "the next item is 10m old"

    def test_an_old_item_that_comes_later_begins_no_trouble_before_it_came(self) -> None:
        watched, flow = self.aged({"created": 1_750_000_000})
        assert watched.once(flow).verdict is Verdict.WATCHING
        last_ms = watched.at_ms
        flow.body = b'{"created": 1740000000}'
        state = watched.once(flow)

        assert (state.verdict, state.since_ms) == (Verdict.AGED, last_ms)

    def test_an_unchanged_row_becomes_aged_in_time(self) -> None:
        watched = ScriptedLists(Thresholds(aged_ms=100_000), age_path("at"))
        flow = filled(2, body=b'{"at": 1750000000000}')
        flow.push(2000)
        assert watched.go(flow, seconds=99, taken=1, done=1).verdict is Verdict.OK

        assert watched.go(flow, seconds=1, taken=1, done=1).verdict is Verdict.AGED

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"{", "the next item is not JSON: its age is unknown"),
            ({"made": 1}, "the next item has no .created: its age is unknown"),
            ({"created": "\x1b[2J"}, ".created of the next item is not a time: ␛[2J"),
            ({"created": True}, ".created of the next item is not a time: true"),
        ],
    )
    def test_that_cannot_be_read_are_a_problem(self, body: object, words: str) -> None:
        watched, flow = self.aged(body)
        state = watched.once(flow)

        assert (state.oldest_ready_ms, state.problems, state.verdict) == (None, (words,), Verdict.WATCHING)

    def test_of_a_long_item_are_not_read(self) -> None:
        watched, flow = self.aged({"created": 1_750_000_000})
        row = flow.row(watched.at_ms)
        row[3][0] = 1_000_000
        assert watched.poll_one(row).problems == ("the next item is too long for its age to be read: 1,000,000 bytes",)


class TestUnchanged:
    def test_a_quiet_queue_gives_the_same_object(self) -> None:
        watched = ScriptedLists()
        flow = filled(3)
        before = watched.go(flow, seconds=200)

        assert before.verdict is Verdict.STALLED
        assert watched.go(flow, seconds=100) is before

    def test_a_net_rate_runs_out_although_the_row_stands_still(self) -> None:
        watched = ScriptedLists()
        flow = filled(3)
        assert watched.go(flow, seconds=10, pushed=1).net_s == pytest.approx(1.0)
        assert watched.go(flow, seconds=20).net_s == 0

    def test_a_lease_that_is_over_becomes_a_leak_in_time(self) -> None:
        watched = ScriptedLists()
        flow = ListFlow(processing=1, leases=[watched.at_ms - 1])
        assert watched.go(flow, seconds=59).verdict is Verdict.OK
        assert watched.once(flow).verdict is Verdict.LEAKING

    def test_a_queue_that_comes_back_has_no_past(self) -> None:
        watched = ScriptedLists()
        watched.go(filled(50), seconds=100)
        watched.poll({})
        state = watched.once(filled(5))

        assert (state.verdict, state.net_s) == (Verdict.WATCHING, None)


def test_the_series_of_a_list_holds_its_counts_and_net_rates() -> None:
    watched = ScriptedLists()
    flow = filled(100, processing=4)
    watched.go(flow, seconds=30, pushed=2)
    points = list(watched.tracker.trend.queue("q"))

    assert len(points) == 6
    assert (points[0].ready, points[0].hidden, points[0].net_s) == (102, 4, None)
    assert {point.net_s for point in points[1:]} == {2.0}
    assert {(point.arrivals_s, point.deletes_s, point.receives_s) for point in points} == {(None, None, None)}
    assert set(watched.tracker.trend.arrivals("q")) == {None}
