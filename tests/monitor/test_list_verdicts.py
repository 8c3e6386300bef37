"""List queues from poll to poll: what a state says, its verdict, whether it clears, and the sentence for it."""

import pytest

from rsmq_tui.monitor import Drain, Thresholds, Verdict, outlook, reason
from tests.monitor.list_rows import ListFlow, ScriptedLists, filled

LIMITS = Thresholds()


def test_a_state() -> None:
    watched = ScriptedLists()
    flow = filled(3, processing=2, leases=[watched.at_ms + 500, watched.at_ms + 9_000_000])
    state = watched.once(flow)

    assert state[:6] == ("q", "list", 5, 3, 2, None)
    assert set(state[6:16]) == {None}
    assert (state.poison, state.highest_rc, state.verdict, state.since_ms) == (0, 0, Verdict.WATCHING, watched.at_ms)
    assert reason(state, watched.at_ms, LIMITS) == (
        "0 ms of 1 min, too early to tell whether it grows, or whether a consumer takes"
    )
    assert (state.drain, state.broken, state.problems, state.expired, state.net_s) == (Drain.UNKNOWN, None, (), 1, None)
    totals = watched.totals
    assert (totals.depth, totals.ready, totals.hidden) == (5, 3, 2)
    assert (totals.arrivals_s, totals.deletes_s, totals.receives_s) == (None, None, None)


def test_an_empty_queue() -> None:
    watched = ScriptedLists()
    state = watched.go(ListFlow(), seconds=200)

    assert (state.depth, state.expired, state.net_s, state.verdict, state.drain) == (0, 0, 0, Verdict.OK, Drain.EMPTY)
    assert reason(state, watched.at_ms, LIMITS) == "empty"
    assert outlook(state, watched.at_ms) == "nothing ready"


@pytest.mark.parametrize(
    ("row", "depth", "words"),
    [
        ([b"WRONGTYPE Operation", 2, 0, None, None], None, "its key is not a list"),
        ([3, b"WRONGTYPE Operation", 0, None, None], None, "its processing key is not a list"),
        ([3, 2, b"WRONGTYPE Operation", None, None], 5, "its leases key is not a sorted set"),
        ([b"OOPS \x1b[2J", 2, 0, None, None], None, "its key cannot be read: OOPS ␛[2J"),
    ],
)
def test_a_broken_one(row: list[object], depth: int | None, words: str) -> None:
    watched = ScriptedLists()
    before = watched.go(filled(3), seconds=5)
    state = watched.poll_one(row)

    assert (state.verdict, state.depth, state.broken, state.expired, state.net_s) == (
        Verdict.BROKEN, depth, words, None, None,
    )  # fmt: skip
    assert reason(state, watched.at_ms, LIMITS) == outlook(state, watched.at_ms) == words
    assert watched.poll_one(list(row)) is state
    again = watched.once(filled(3))
    assert (before.net_s, again.verdict, again.net_s) == (0, Verdict.WATCHING, None)


class TestDrains:
    def test_from_the_end_of_a_burst_on(self) -> None:
        watched, flow = ScriptedLists(), filled(1)
        watched.go(flow, seconds=100, pushed=2, taken=2, done=2)
        watched.go(flow, seconds=38, pushed=131, taken=43, done=43)
        states = [watched.go(flow, seconds=1, taken=43, done=43) for _ in range(60)]
        known = [state.drain_s for state in states if state.drain is Drain.CLEARS]

        # It has fallen for three buckets of 5 s, the first of which may be an end of the burst.
        assert Drain.CLEARS not in {state.drain for state in states[:14]}
        assert {state.drain for state in states[20:]} == {Drain.CLEARS}
        assert known == [pytest.approx((state.depth or 0) / 43, rel=0.02) for state in states[-len(known) :]]

    def test_not_by_what_may_be_chance(self) -> None:
        watched, flow = ScriptedLists(), filled(2_000)
        watched.go(flow, seconds=60)
        watched.go(flow, seconds=5, pushed=150)
        falls = [30, 300, 5, 200]
        drains = {
            watched.go(flow, seconds=1, taken=fall // 5, done=fall // 5).drain for fall in falls for _ in range(5)
        }

        # Over the last minute it has grown.
        assert Drain.CLEARS not in drains

    def test_as_over_the_last_minute_otherwise(self) -> None:
        watched, flow = ScriptedLists(), filled(10_000)
        state = watched.go(flow, seconds=120, pushed=5, taken=15, done=15)

        assert state.drain is Drain.CLEARS
        assert state.drain_s == pytest.approx((state.depth or 0) / 10)


class TestStalled:
    def test_when_the_next_item_has_been_the_same_for_a_minute(self) -> None:
        watched = ScriptedLists()
        flow = filled(5)
        first_ms = watched.at_ms + 1000
        state = watched.go(flow, seconds=60)
        assert (state.verdict, outlook(state, watched.at_ms)) == (Verdict.WATCHING, "watching, 59 s of 1 min")
        state = watched.once(flow)

        assert (state.verdict, state.since_ms, state.drain) == (Verdict.STALLED, first_ms, Drain.STALLED)
        assert reason(state, watched.at_ms, LIMITS) == "5 items ready and none taken for 1m 0s or more"
        assert outlook(state, watched.at_ms) == "no consumer ≥ 1m 0s"

    def test_although_items_are_pushed(self) -> None:
        watched = ScriptedLists(Thresholds(growing_messages=10**9))

        assert watched.go(filled(5), seconds=61, pushed=3).verdict is Verdict.STALLED

    def test_not_while_items_are_taken(self) -> None:
        watched = ScriptedLists()
        flow = filled(1000)

        assert watched.go(flow, seconds=200, pushed=1, taken=1, done=1).verdict is Verdict.OK

    def test_ends_when_items_were_taken_for_half_a_minute(self) -> None:
        watched = ScriptedLists()
        flow = filled(500)
        assert watched.go(flow, seconds=100).verdict is Verdict.STALLED

        assert watched.go(flow, seconds=30, taken=1, done=1).verdict is Verdict.STALLED
        assert watched.go(flow, seconds=1, taken=1, done=1).verdict is Verdict.OK

    def test_from_when_there_was_something_to_take(self) -> None:
        watched = ScriptedLists()
        flow = ListFlow()
        watched.go(flow, seconds=300)
        flow.push(1)

        assert watched.go(flow, seconds=60).verdict is Verdict.OK
        state = watched.once(flow)
        assert state.verdict is Verdict.STALLED
        assert reason(state, watched.at_ms, LIMITS) == "1 item ready and none taken for 1m 0s"
        assert outlook(state, watched.at_ms) == "no consumer for 1m 0s"

    def test_not_by_equal_items_while_anything_changes(self) -> None:
        # One taken and one pushed between two polls looks like nothing; now and then the counts tell.
        watched = ScriptedLists()
        flow = filled(100, equal=True)
        verdicts = []
        for _ in range(5):
            flow.push(1)
            verdicts.append(watched.go(flow, seconds=40).verdict)

        assert verdicts == [Verdict.WATCHING] + [Verdict.OK] * 4
        assert watched.go(flow, seconds=25).verdict is Verdict.STALLED

    def test_not_while_the_next_item_is_not_known(self) -> None:
        flow = filled(5, looked=False)

        assert ScriptedLists().go(flow, seconds=300).verdict is Verdict.OK


def reaped(watched: ScriptedLists, every_s: int, deaths_s: list[int]) -> set[Verdict]:
    """Let leases end at these times until a reaper returns them all, so long after its last round; what was said."""
    begun_ms, flow, seen = watched.at_ms, ListFlow(), set()
    flow.leases = [begun_ms + 1000 * death_s for death_s in deaths_s]
    flow.processing = len(flow.leases)
    for _ in range(every_s - 1):
        seen.add(watched.once(flow).verdict)
    seen.add(watched.once(ListFlow()).verdict)
    return seen


class TestLeaking:
    def test_when_leases_have_been_over_for_a_minute(self) -> None:
        watched = ScriptedLists()
        deadline_ms = watched.at_ms + 10_500
        flow = ListFlow(processing=2, leases=[deadline_ms, deadline_ms + 1, deadline_ms + 10**9])
        assert watched.go(flow, seconds=70).verdict is Verdict.OK
        state = watched.once(flow)

        assert (state.verdict, state.since_ms, state.drain) == (Verdict.LEAKING, deadline_ms, Drain.EMPTY)
        words = "2 leases expired and none returned for 1m 0s: no reaper seems to be running"
        assert reason(state, watched.at_ms, LIMITS) == words
        assert outlook(state, watched.at_ms) == "2 leases expired"

    def test_although_a_consumer_takes_items(self) -> None:
        watched = ScriptedLists()
        flow = filled(500, processing=1, leases=[watched.at_ms])
        seen = [watched.go(flow, seconds=1, pushed=1, taken=1, done=1).verdict for _ in range(120)]

        assert seen == [Verdict.WATCHING] * 10 + [Verdict.OK] * 49 + [Verdict.LEAKING] * 61

    def test_ends_when_the_items_were_returned_for_half_a_minute(self) -> None:
        watched = ScriptedLists()
        flow = ListFlow(processing=1, leases=[watched.at_ms])
        assert watched.go(flow, seconds=100).verdict is Verdict.LEAKING
        flow.processing, flow.leases = 0, []

        assert watched.go(flow, seconds=30).verdict is Verdict.LEAKING
        assert watched.go(flow, seconds=1).verdict is Verdict.OK

    def test_not_ended_by_a_lease_that_this_program_returned(self) -> None:
        watched = ScriptedLists()
        flow = filled(3, processing=9, leases=[watched.at_ms - 1000 * (100 - place) for place in range(9)])
        began = watched.go(flow, seconds=100)
        assert began.verdict is Verdict.STALLED
        watched.tracker.note_own_change(["q"])
        flow.leases.pop(0)
        flow.processing -= 1
        flow.ready.appendleft(b"returned")
        states = [watched.once(flow) for _ in range(40)]

        assert {(state.verdict, state.pending_since_ms, state.since_ms) for state in states} == {
            (Verdict.STALLED, None, began.since_ms)
        }
        # Two seconds at most are not counted: a consumer may have taken an item in them.
        assert states[-1].idle_since_ms is not None
        assert (began.idle_since_ms or 0) < states[-1].idle_since_ms <= (began.idle_since_ms or 0) + 2000

        flow.ready.clear()
        assert watched.go(flow, seconds=31).verdict is Verdict.LEAKING

    def test_ended_by_a_consumer_after_a_change_of_this_program(self) -> None:
        watched = ScriptedLists()
        flow = filled(500, processing=1, leases=[watched.at_ms])
        assert watched.go(flow, seconds=100).verdict is Verdict.STALLED
        watched.tracker.note_own_change(["q"])
        watched.once(flow)
        # What the running poll did not see may be seen by the next one, and no later one.
        watched.once(flow)
        state = watched.go(flow, seconds=1, taken=1)
        assert state.idle_since_ms == watched.at_ms

    @pytest.mark.parametrize("every_s", [10, 30, 59, 90, 170, 290])
    @pytest.mark.parametrize("dies_at_s", [1, 7, 9])
    def test_not_with_a_reaper_that_comes_now_and_then(self, every_s: int, dies_at_s: int) -> None:
        watched = ScriptedLists()
        seen = [reaped(watched, every_s, [dies_at_s * every_s // 10]) for _ in range(6)]

        # At first nothing tells that there is one.
        assert Verdict.LEAKING not in set().union(*seen[3 if every_s > 60 else 0 :])

    def test_as_soon_as_ever_after_leases_went_once(self) -> None:
        watched = ScriptedLists()
        flow = ListFlow(processing=14, leases=[watched.at_ms + 1000])
        assert watched.go(flow, seconds=600).verdict is Verdict.LEAKING
        # As after a restart without data between two polls, or a clean-up by hand.
        watched.go(ListFlow(processing=33), seconds=120)
        flow = ListFlow(processing=34, leases=[watched.at_ms + 1000])

        assert watched.go(flow, seconds=60).verdict is Verdict.OK
        assert watched.once(flow).verdict is Verdict.LEAKING

    def test_not_with_a_reaper_that_often_finds_nothing(self) -> None:
        watched = ScriptedLists(Thresholds(leaking_ms=20_000))
        rounds = [[3], [20], [5], [], [], [3, 15], [28], [], [1], [12], []] * 3
        seen = [reaped(watched, 30, round_) for round_ in rounds]

        assert (Verdict.LEAKING in seen[0], Verdict.LEAKING in set().union(*seen[3:])) == (True, False)

    def test_not_while_a_reaper_returns_many_a_few_at_a_time(self) -> None:
        watched = ScriptedLists()
        began_ms = watched.at_ms
        flow = ListFlow(processing=200, leases=[began_ms + number for number in range(200)])
        seen = []
        for _ in range(9):
            seen.append(watched.go(flow, seconds=50).verdict)
            flow.processing -= 20
            del flow.leases[:20]

        assert set(seen[1:]) == {Verdict.OK}

    @pytest.mark.parametrize(("every_s", "after_s"), [(10, 60), (30, 60), (90, 180), (290, 580), (500, 600)])
    def test_when_the_reaper_comes_no_more(self, every_s: int, after_s: int) -> None:
        watched = ScriptedLists()
        for _ in range(6):
            reaped(watched, every_s, [every_s // 2])
        flow = ListFlow(processing=1, leases=[watched.at_ms + 1000])

        assert watched.go(flow, seconds=after_s).verdict is Verdict.OK
        state = watched.once(flow)
        assert (state.verdict, state.since_ms) == (Verdict.LEAKING, flow.leases[0])

    def test_at_the_usual_time_although_slow_workers_ack_late(self) -> None:
        watched = ScriptedLists()
        for _ in range(5):
            # An hour passes from one of them to the next.
            reaped(watched, 3600, [3595])
        flow = ListFlow(processing=1, leases=[watched.at_ms + 1000])

        assert watched.go(flow, seconds=60).verdict is Verdict.OK
        assert watched.once(flow).verdict is Verdict.LEAKING

    def test_what_was_returned_during_an_outage_tells_no_time(self) -> None:
        watched = ScriptedLists()
        flow = ListFlow(processing=1, leases=[watched.at_ms + 1000])
        watched.go(flow, seconds=30)
        watched.resume(after_s=7200)
        flow.leases = [watched.at_ms + 2000]
        watched.once(flow)

        assert watched.go(flow, seconds=60).verdict is Verdict.OK
        assert watched.once(flow).verdict is Verdict.LEAKING

    def test_and_stalled_says_both(self) -> None:
        watched = ScriptedLists()
        flow = filled(1, processing=1, leases=[watched.at_ms + 1])
        state = watched.go(flow, seconds=100)

        words = "1 item ready and none taken for 1m 39s or more; 1 lease expired"
        assert reason(state, watched.at_ms, LIMITS) == words

    def test_leases_in_seconds_are_leases(self) -> None:
        watched = ScriptedLists()
        state = watched.poll_one([0, 1, 1, None, [1, b"%d" % (watched.at_ms // 1000 - 90)]], after_s=0)

        assert state.verdict is Verdict.LEAKING
        assert outlook(state, watched.at_ms) == "1 lease expired"


class TestGrowing:
    def test_over_two_minutes(self) -> None:
        watched = ScriptedLists()
        flow = filled(10)
        assert watched.go(flow, seconds=119, pushed=3, taken=2, done=2).verdict is Verdict.WATCHING
        state = watched.go(flow, seconds=10, pushed=3, taken=2, done=2)

        assert (state.verdict, state.drain) == (Verdict.GROWING, Drain.GROWING)
        assert state.net_s == pytest.approx(1.0)
        words = reason(state, watched.at_ms, LIMITS)
        assert (words.startswith("more was pushed than taken for 2m "), words.endswith(", now by 1.0/s")) == (
            True,
            True,
        )
        assert outlook(state, watched.at_ms) == "never (+1/s)"

    def test_ends_when_it_does_not_grow_any_more(self) -> None:
        watched = ScriptedLists()
        flow = filled(10)
        watched.go(flow, seconds=140, pushed=3, taken=2, done=2)

        assert watched.go(flow, seconds=38, pushed=2, taken=2, done=2).verdict is Verdict.GROWING
        assert watched.go(flow, seconds=3, pushed=2, taken=2, done=2).verdict is Verdict.OK

    def test_not_by_a_batch_now_and_then_that_is_worked_off(self) -> None:
        watched = ScriptedLists()
        flow = ListFlow()
        verdicts = set()
        for _ in range(8):
            flow.push(60)
            for _ in range(60):
                verdicts.add(watched.go(flow, seconds=1, taken=1, done=1).verdict)

        assert verdicts == {Verdict.WATCHING, Verdict.OK}

    def test_not_by_a_few(self) -> None:
        watched = ScriptedLists(Thresholds(growing_messages=500))

        assert watched.go(ListFlow(), seconds=200, pushed=2, taken=1).verdict is Verdict.OK


class TestDrain:
    def test_clears(self) -> None:
        watched = ScriptedLists()
        flow = filled(1000)
        state = watched.go(flow, seconds=100, pushed=1, taken=3, done=3)

        assert (state.drain, state.net_s) == (Drain.CLEARS, -2.0)
        assert state.drain_s == pytest.approx(400)
        assert outlook(state, watched.at_ms) == "6m 40s"

    def test_is_unknown_where_it_shrinks_over_a_minute_and_grows_just_now(self) -> None:
        watched = ScriptedLists()
        flow = filled(1000)
        watched.go(flow, seconds=100, pushed=1, taken=3, done=3)
        states = [watched.go(flow, seconds=1, pushed=4, taken=3, done=3) for _ in range(20)]

        growing = [state for state in states if (state.net_s or 0) >= 0]
        assert growing
        assert {(state.drain, state.drain_s) for state in growing} == {(Drain.UNKNOWN, None)}

    def test_is_steady_while_items_are_taken(self) -> None:
        watched = ScriptedLists()
        state = watched.go(filled(100), seconds=100, pushed=2, taken=2, done=2)

        assert (state.drain, outlook(state, watched.at_ms)) == (Drain.STEADY, "steady")

    def test_is_unknown_when_nothing_moves(self) -> None:
        watched = ScriptedLists(Thresholds(stalled_ms=10**9))

        assert watched.go(filled(100), seconds=100).drain is Drain.UNKNOWN

    def test_is_unknown_until_something_was_taken(self) -> None:
        watched = ScriptedLists()
        flow = ListFlow()
        watched.go(flow, seconds=10)
        flow.push(5)

        assert watched.go(flow, seconds=90).drain is Drain.STALLED
        assert ScriptedLists().go(filled(5), seconds=2).drain is Drain.UNKNOWN

    def test_is_not_made_across_a_gap(self) -> None:
        watched = ScriptedLists()
        flow = filled(100)
        watched.go(flow, seconds=30, pushed=2)
        watched.resume(after_s=100)

        assert watched.once(flow).net_s is None
