"""Verdicts from scripted polls: when each begins, when it ends, and which one wins."""

from collections import deque
from collections.abc import Collection, Sequence
from math import exp, pi, sin
from random import Random

import pytest

from rsmq_tui.monitor import Drain, QueueState, Thresholds, Verdict, outlook, reason
from rsmq_tui.protocol import Row
from tests.monitor.batches import far_batches, follow
from tests.monitor.rows import START_MS, Flow, Scripted


def first_at(watched: Scripted, flow: Flow, wanted: Verdict, *, seconds: int, **per_s: int) -> int | None:
    """After how many seconds a queue gets a verdict, or None."""
    for second in range(1, seconds + 1):
        if watched.run(flow, seconds=1, **per_s).verdict is wanted:
            return second
    return None


class TestWatching:
    """What is said in the first minutes after a start."""

    def test_a_large_queue_from_which_others_were_received(self) -> None:
        watched = Scripted()
        flow = Flow(sent=50_000, received=1, head_ms=START_MS - 3_600_000)
        flow.score = str(START_MS - 90_000)
        states = [watched.run(flow, seconds=1) for _ in range(61)]

        assert {state.verdict for state in states[:60]} == {Verdict.WATCHING}
        assert states[60].verdict is Verdict.STALLED
        assert (states[40].drain, outlook(states[40], START_MS + 41_000)) == (
            Drain.UNKNOWN,
            "watching, 40 s of 1 min",
        )

    def test_for_how_long_none_was_received_is_the_least_it_can_be(self) -> None:
        watched = Scripted()
        flow = Flow(sent=50, received=1, head_ms=START_MS - 3_600_000)
        state = watched.run(flow, seconds=61)

        words = "50 messages ready and none received for 1m 0s"
        assert reason(state, watched.at_ms, Thresholds()) == f"{words} or more"
        assert outlook(state, watched.at_ms) == "no consumer ≥ 1m 0s"
        watched.run(flow, seconds=1, received=1)
        state = watched.run(flow, seconds=60)
        assert reason(state, watched.at_ms, Thresholds()).startswith(f"{words}, and almost")
        assert outlook(state, watched.at_ms) == "no consumer for 1m 0s"

    def test_a_backlog_that_is_worked_off_slowly_is_not_idle_for_as_long_as_its_first_message_waits(self) -> None:
        watched = Scripted()
        flow = Flow(sent=15, received=10, deleted=1, hidden=9, head_ms=START_MS - 55_000)
        # One message is received every 30 s, and was so before the dashboard started.
        states = [watched.run(flow, seconds=1, received=int(second % 30 == 15)) for second in range(100)]
        verdicts = [state.verdict for state in states]

        # At first, its first message has waited for less than a minute: so it is not stalled.
        assert verdicts == [Verdict.OK] * 4 + [Verdict.WATCHING] * 11 + [Verdict.OK] * 85
        assert (states[10].idle_since_ms, states[10].is_idle_longer) == (START_MS + 1000, True)
        said = [reason(state, START_MS + 1000 * after_s, Thresholds()) for after_s, state in enumerate(states, 1)]
        assert said[10].startswith("10 s of 1 min")
        assert said[40].startswith("nothing is wrong yet: none received for 25 s")

    def test_not_of_one_that_was_never_received_from(self) -> None:
        watched = Scripted()
        state = watched.poll_one(Flow(sent=50_000, head_ms=START_MS - 1_559_000).row(created=b"1749990000"))

        assert (state.verdict, state.since_ms) == (Verdict.STALLED, START_MS - 1_559_000)
        words = "50,000 messages ready, never received for 26m since the first send"
        assert reason(state, watched.at_ms, Thresholds()) == words

    def test_a_queue_is_not_idle_for_longer_than_it_exists(self) -> None:
        watched = Scripted()
        # Old messages that were moved to a new queue.
        row = Flow(sent=5, head_ms=START_MS - 2_580_000).row(created=b"%d" % (START_MS // 1000))
        states = [watched.poll_one(row) for _ in range(60)]

        assert states[58].verdict is not Verdict.STALLED
        assert (states[59].verdict, states[59].since_ms) == (Verdict.STALLED, START_MS)
        words = "5 messages ready, never received for 1m 0s since the queue was created"
        assert reason(states[59], watched.at_ms, Thresholds()) == words
        assert outlook(states[59], watched.at_ms) == "no consumer for 1m 0s"

    def test_a_created_time_in_the_future_says_nothing_about_a_queue(self) -> None:
        watched = Scripted()
        row = Flow(sent=5, head_ms=START_MS - 2_580_000).row(created=b"1850000000")
        assert watched.poll_one(row).since_ms == START_MS - 2_580_000

    def test_what_waited_before_monitoring_counts_while_it_is_there(self) -> None:
        watched = Scripted()
        flow = Flow(sent=50, head_ms=START_MS - 900_000)
        state = watched.poll_one(flow.row())
        assert (state.verdict, state.idle_since_ms) == (Verdict.STALLED, START_MS - 900_000)

        # The oldest is deleted, without a receive.
        flow.head_ms = START_MS - 70_000
        state = watched.run(flow, seconds=1, deleted=1)
        words = "49 messages ready, never received for 1m 12s since the first send"
        assert reason(state, watched.at_ms, Thresholds()) == words

        flow.head_ms = START_MS + 1500
        state = watched.run(flow, seconds=1, deleted=1)
        # What was seen stays: messages have been ready since the first poll, and none was received.
        assert state.idle_since_ms == START_MS + 1000
        state = watched.run(flow, seconds=60)
        words = "48 messages ready, never received for 1m 2s"
        assert reason(state, watched.at_ms, Thresholds()) == words

    def test_a_queue_that_doubles_until_it_is_growing(self) -> None:
        watched = Scripted()
        flow = Flow(sent=1000)
        states = [watched.run(flow, seconds=1, sent=10, received=1, deleted=1) for _ in range(121)]

        assert {state.verdict for state in states[:120]} == {Verdict.WATCHING}
        assert {state.drain for state in states[:120]} == {Drain.UNKNOWN}
        assert outlook(states[100], START_MS + 101_000) == "watching, 1m 40s of 2 min"
        assert (states[120].verdict, states[120].since_ms) == (Verdict.GROWING, START_MS + 1000)

    def test_one_that_does_not_grow_for_ten_seconds(self) -> None:
        watched = Scripted()
        flow = Flow(sent=1000)
        verdicts = [watched.run(flow, seconds=1, sent=10, received=10, deleted=10).verdict for _ in range(300)]

        assert verdicts == [Verdict.WATCHING] * 10 + [Verdict.OK] * 290

    def test_a_quiet_one_for_as_long_although_its_row_stands_still(self) -> None:
        watched = Scripted()
        flow = Flow(sent=1000, hidden=1000)
        verdicts = [watched.poll_one(flow.row()).verdict for _ in range(60)]

        assert verdicts == [Verdict.WATCHING] * 10 + [Verdict.OK] * 50

    @pytest.mark.parametrize(
        "flow", [Flow(), Flow(sent=9, received=9, deleted=9), Flow(sent=19), Flow(sent=5, hidden=5)]
    )
    def test_not_of_one_that_can_be_in_no_trouble(self, flow: Flow) -> None:
        assert Scripted().poll_one(flow.row()).verdict is Verdict.OK

    def test_of_one_that_was_created_lately_counts_from_then(self) -> None:
        watched = Scripted()
        created = {"created": b"%d" % (START_MS // 1000 - 100)}
        flow = Flow(sent=1000, head_ms=START_MS - 50_000)
        states = []
        for _ in range(21):
            flow.move(sent=10, received=1, deleted=1)
            states.append(watched.poll_one(flow.row(**created)))

        assert {state.verdict for state in states[:19]} == {Verdict.WATCHING}
        assert outlook(states[0], START_MS + 1000) == "watching, 1m 41s of 2 min"
        assert states[19].verdict is Verdict.GROWING

    def test_begins_again_after_an_outage(self) -> None:
        watched = Scripted()
        flow = Flow(sent=1000)
        assert watched.run(flow, seconds=130, sent=10, received=5, deleted=5).verdict is Verdict.GROWING
        watched.resume(after_s=300)
        flow.move(sent=10, received=5, deleted=5)
        state = watched.poll_one(flow.row(), after_s=0)

        assert (state.verdict, state.pending_since_ms) == (Verdict.WATCHING, watched.at_ms)
        assert watched.run(flow, seconds=118, sent=10, received=5, deleted=5).verdict is Verdict.WATCHING
        assert watched.run(flow, seconds=5, sent=10, received=5, deleted=5).verdict is Verdict.GROWING

    def test_begins_again_after_an_outage_of_a_queue_that_was_created_lately(self) -> None:
        watched = Scripted(Thresholds(growing_ms=20_000))
        created = {"created": b"%d" % (START_MS // 1000)}
        flow = Flow()
        for _ in range(15):
            flow.move(sent=10, received=10, deleted=10)
            watched.poll_one(flow.row(**created))
        watched.resume(after_s=17)
        flow.move(sent=170)
        verdicts = [watched.poll_one(flow.row(**created), after_s=0).verdict]
        for _ in range(19):
            flow.move(sent=80)
            verdicts.append(watched.poll_one(flow.row(**created)).verdict)

        assert verdicts == [Verdict.WATCHING] * 20

    def test_an_outage_in_which_nothing_was_received_changes_nothing(self) -> None:
        watched = Scripted()
        flow = Flow(sent=9, received=1)
        watched.run(flow, seconds=30, received=1)
        last_ms = watched.at_ms
        watched.resume(after_s=300)
        state = watched.poll_one(flow.row(), after_s=0)

        assert (state.verdict, state.since_ms) == (Verdict.STALLED, last_ms)

    def test_begins_again_with_a_counter(self) -> None:
        watched = Scripted()
        watched.run(Flow(sent=5000), seconds=300, sent=5, received=5, deleted=5)
        flow = Flow(sent=3000, received=10, score="0")
        state = watched.poll_one(flow.row())

        assert (state.verdict, state.pending_until_ms) == (Verdict.WATCHING, watched.at_ms + 120_000)


class TestStalled:
    def test_after_a_minute_without_a_receive(self) -> None:
        watched = Scripted()
        flow = Flow(sent=5)
        assert first_at(watched, flow, Verdict.STALLED, seconds=120) == 60
        assert watched.poll_one(flow.row()).since_ms == flow.head_ms

    def test_from_the_last_receive_on(self) -> None:
        watched = Scripted()
        flow = Flow(sent=500)
        watched.run(flow, seconds=90, received=1)
        last_receive_ms = watched.at_ms

        assert first_at(watched, flow, Verdict.STALLED, seconds=120) == 60
        assert watched.poll_one(flow.row()).since_ms == last_receive_ms

    def test_from_when_there_was_something_to_receive(self) -> None:
        watched = Scripted()
        flow = Flow()
        watched.run(flow, seconds=300)
        flow.move(sent=1)

        assert first_at(watched, flow, Verdict.STALLED, seconds=120) == 61

    def test_never_while_nothing_is_ready(self) -> None:
        flow = Flow(sent=5, hidden=5)

        assert first_at(Scripted(), flow, Verdict.STALLED, seconds=300) is None

    def test_ends_when_messages_were_received_for_half_a_minute(self) -> None:
        watched = Scripted()
        flow = Flow(sent=500)
        watched.run(flow, seconds=100)
        ended_ms = watched.at_ms + 1000
        held = [watched.run(flow, seconds=1, received=1) for _ in range(30)]

        assert {(state.verdict, state.since_ms, state.pending_since_ms) for state in held} == {
            (Verdict.STALLED, flow.head_ms, ended_ms)
        }
        assert {state.drain for state in held}.isdisjoint({Drain.STALLED})
        words = "was stalled for 1m 41s, until just now; the verdict ends in 30 s unless it begins again"
        assert reason(held[0], ended_ms, Thresholds()) == words
        words = "was stalled for 1m 41s, until 29 s ago; the verdict ends in 1 s unless it begins again"
        assert reason(held[-1], watched.at_ms, Thresholds()) == words
        assert outlook(held[-1], watched.at_ms) == "recovering"
        assert watched.run(flow, seconds=1, received=1).verdict is Verdict.OK

    def test_ends_when_the_queue_stays_empty(self) -> None:
        watched = Scripted()
        flow = Flow(sent=5)
        watched.run(flow, seconds=100)

        assert watched.run(flow, seconds=30, deleted=5).verdict is Verdict.STALLED
        assert watched.run(flow, seconds=1).verdict is Verdict.OK

    def test_does_not_go_to_and_fro_with_a_receive_now_and_then(self) -> None:
        watched = Scripted()
        flow = Flow(sent=500)
        watched.run(flow, seconds=60)
        seen = {(state.verdict, state.since_ms) for _ in range(8) for state in self.one_receive(watched, flow)}

        assert seen == {(Verdict.STALLED, flow.head_ms)}
        state = watched.poll_one(flow.row())
        words = "500 messages ready and none received for 1m 10s, and almost none for 10m"
        assert reason(state, watched.at_ms, Thresholds()) == words

    @staticmethod
    def one_receive(watched: Scripted, flow: Flow) -> list[QueueState]:
        watched.run(flow, seconds=1, received=1)
        return [watched.run(flow, seconds=1) for _ in range(69)]

    def test_is_forgotten_when_the_queue_is_created_again(self) -> None:
        watched = Scripted()
        watched.run(Flow(sent=5), seconds=100)

        assert watched.run(Flow(sent=3, head_ms=watched.at_ms), seconds=1).verdict is Verdict.OK

    def test_after_as_long_as_the_threshold_says(self) -> None:
        watched = Scripted(Thresholds(stalled_ms=5000))

        assert first_at(watched, Flow(sent=5), Verdict.STALLED, seconds=20) == 5


def batches(period_s: int, size: int, *, is_filled: bool, growth_s: float) -> list[int]:
    """Return the depth of each second of a quarter of an hour: filled at once and emptied evenly, or vice versa."""
    shares = [second % period_s / period_s for second in range(900)]
    swings = [1 - share if is_filled else share for share in shares]
    return [round(size * swing + growth_s * second) for second, swing in enumerate(swings)]


def poisson(chance: Random, mean: float) -> int:
    """Return how many of something come by chance, if as many as the mean come on average."""
    least, number, product = exp(-mean), 0, chance.random()
    while product > least:
        number += 1
        product *= chance.random()
    return number


def remainders(period_s: int, left: Sequence[int]) -> list[int]:
    """Return the depths, five seconds apart, of a queue to which 500 messages are sent at once each period.

    In the first 60 % of the period all are worked off but as many as ``left`` says.
    """
    depths, before = list[int](), 0
    for after in left:
        full = before + 500
        passed = (second / (0.6 * period_s) for second in range(0, period_s, 5))
        depths += [round(full + (after - full) * min(1.0, share)) for share in passed]
        before = after
    return depths


def verdicts_of(depths: list[int], every_s: int = 1, failing: Collection[int] = ()) -> list[Verdict]:
    """Return the verdicts of a queue that has these depths, one at each poll, and is busy all the time.

    The polls with the numbers ``failing`` fail; they have no verdict.
    """
    watched, flow, verdicts = Scripted(), Flow(), []
    for poll, depth in enumerate(depths):
        if poll in failing:
            watched.resume(after_s=every_s)
        else:
            verdicts.append(follow(watched, flow, depth, every_s).verdict)
    return verdicts


def test_what_is_over_does_not_come_to_light_only_to_end() -> None:
    watched, flow = Scripted(), Flow()
    # Nothing is received for 150 s: stalled, and growing too. Then little is received, and then all of it.
    watched.run(flow, seconds=150, sent=5)
    states = [watched.run(flow, seconds=1, sent=5, received=1, deleted=1) for _ in range(10)]
    states += [watched.run(flow, seconds=1, received=79, deleted=79) for _ in range(10)]
    states += [watched.run(flow, seconds=1, sent=5, received=5, deleted=5) for _ in range(60)]
    assert list(dict.fromkeys(state.verdict for state in states)) == [Verdict.STALLED, Verdict.OK]


def test_an_old_message_that_comes_back_begins_no_trouble_before_it_came() -> None:
    watched, flow = Scripted(), Flow(sent=2, received=1, deleted=1)
    # It is busy, so that nothing else is wrong with it.
    for _ in range(200):
        flow.head_ms = watched.at_ms
        assert watched.run(flow, seconds=1, sent=1, received=1, deleted=1).verdict in (Verdict.WATCHING, Verdict.OK)
    last_ms = watched.at_ms
    # An undo puts one back that was due hours ago.
    flow.head_ms = START_MS - 7_200_000
    state = watched.run(flow, seconds=1, sent=1, received=1)
    assert (state.verdict, state.since_ms) == (Verdict.AGED, last_ms)


def test_ok_says_what_may_become_a_trouble() -> None:
    watched, flow = Scripted(), Flow()

    def said(state: QueueState) -> str:
        # Then comes what was not checked.
        return reason(state, watched.at_ms, Thresholds()).partition(";")[0]

    watched.run(flow, seconds=200, sent=2, received=2, deleted=2)
    state = watched.run(flow, seconds=40, sent=5, received=2, deleted=2)
    assert said(state) == "nothing is wrong yet: it grows by 3.0/s"
    flow.head_ms = watched.at_ms
    state = watched.run(flow, seconds=40)
    assert said(state) == "nothing is wrong yet: none received for 40 s"
    state = watched.run(flow, seconds=40, sent=2, received=2, deleted=2)
    assert said(state) == "nothing is wrong"


class TestGrowing:
    def test_after_two_minutes_of_more_arrivals_than_deletes(self) -> None:
        watched = Scripted()
        seconds = first_at(watched, Flow(), Verdict.GROWING, seconds=300, sent=10, received=5, deleted=5)
        state = watched.poll_one(Flow(sent=10 * 121 + 10, received=5 * 121 + 5, deleted=5 * 121 + 5).row())

        assert seconds == 121
        assert state.verdict is Verdict.GROWING
        assert state.since_ms == START_MS + 1000

    @pytest.mark.parametrize(("deleted", "verdict"), [(10, Verdict.OK), (5, Verdict.GROWING)])
    def test_messages_that_wait_for_their_delay_are_no_growth(self, deleted: int, verdict: Verdict) -> None:
        watched, flow, seen, delayed = Scripted(), Flow(), set(), deque[int](maxlen=60)
        for second in range(1, 400):
            # About ten a second, which are delayed for 60 s, and then received and deleted, or half of them.
            delayed.append(11 if second % 14 < 7 else 9)
            due = flow.sent + delayed[-1] - sum(delayed)
            gone = due * deleted // 10 - flow.deleted
            flow.move(sent=delayed[-1], received=gone, deleted=gone)
            flow.hidden = sum(delayed)
            flow.head_ms = watched.at_ms + 1_000 - 60_000
            seen.add(watched.poll_one(flow.row(delay=b"60")).verdict)
        assert seen - {Verdict.WATCHING, Verdict.OK} == {verdict} - {Verdict.OK}

    def test_since_stays_while_it_lasts(self) -> None:
        watched = Scripted()
        flow = Flow()
        since = {watched.run(flow, seconds=1, sent=10, received=5, deleted=5).since_ms for _ in range(600)}

        assert since == {None, START_MS + 1000}

    def test_ends_when_deletes_catch_up(self) -> None:
        watched = Scripted()
        flow = Flow()
        watched.run(flow, seconds=200, sent=10, received=5, deleted=5)

        assert watched.run(flow, seconds=35, sent=10, received=15, deleted=15).verdict is Verdict.GROWING
        assert watched.run(flow, seconds=5, sent=10, received=15, deleted=15).verdict is Verdict.OK

    def test_does_not_go_to_and_fro_with_a_load_that_does(self) -> None:
        watched = Scripted()
        flow = Flow(sent=500)
        watched.run(flow, seconds=130, sent=10, received=5, deleted=5)
        loads = (30 if second % 30 < 15 else 1 for second in range(600))

        assert {watched.run(flow, seconds=1, sent=sent, received=12, deleted=12).verdict for sent in loads} == {
            Verdict.GROWING
        }

    @pytest.mark.parametrize("period_s", [40, 45, 60, 73, 90, 110])
    @pytest.mark.parametrize("is_filled", [True, False], ids=["filled", "emptied"])
    def test_not_by_batches_that_come_and_go(self, period_s: int, *, is_filled: bool) -> None:
        depths = batches(period_s, 60, is_filled=is_filled, growth_s=0)

        assert Verdict.GROWING not in verdicts_of(depths)

    @pytest.mark.parametrize("is_filled", [True, False], ids=["filled", "emptied"])
    def test_by_batches_that_are_not_worked_off_whole(self, *, is_filled: bool) -> None:
        verdicts = verdicts_of(batches(73, 60, is_filled=is_filled, growth_s=0.5))

        # Within seven minutes, to which a batch adds one, and from then on without a break.
        assert verdicts.index(Verdict.GROWING) <= 480
        assert set(verdicts[480:]) == {Verdict.GROWING}

    @pytest.mark.parametrize(("period_s", "left"), [(150, 0.2), (300, 0.8), (420, 0.2), (600, 0.8)])
    def test_by_batches_far_apart_that_each_leave_more_behind(self, period_s: int, left: float) -> None:
        verdicts = verdicts_of(far_batches(period_s, left, 12 * period_s), every_s=5)

        # When the fifth batch comes, and from the sixth on without a break.
        assert set(verdicts[: 4 * period_s // 5]) == {Verdict.WATCHING, Verdict.OK}
        assert Verdict.GROWING in verdicts[: 4 * period_s // 5 + 12]
        assert set(verdicts[5 * period_s // 5 + 12 :]) == {Verdict.GROWING}

    @pytest.mark.parametrize(
        ("period_s", "noise"), [(130, 0.4), (300, 0), (420, 0.4), (600, 0.4), (900, 0), (1500, 0.4), (3600, 0)]
    )
    def test_not_by_batches_far_apart_that_are_worked_off(self, period_s: int, noise: float) -> None:
        verdicts = verdicts_of(far_batches(period_s, 0, 4 * 3600, noise=noise), every_s=5)

        assert Verdict.GROWING not in verdicts

    def test_not_by_batches_that_are_larger_at_some_hours_of_the_day(self) -> None:
        # What they leave behind rises by eight messages a minute at most, which is below the threshold.
        height = 8 / 60 * 86_400 / (2 * pi)
        waves = [sin(2 * pi * second / 86_400) for second in range(0, 86_400, 15)]
        depths = [
            round(depth * (1.5 + wave) + height * (1 + wave))
            for depth, wave in zip(far_batches(450, 0, 86_400)[::3], waves, strict=True)
        ]

        assert Verdict.GROWING not in verdicts_of(depths, every_s=15)

    @pytest.mark.parametrize("goes_on", [True, False], ids=["worked off", "none come"])
    def test_by_batches_far_apart_ends_with_them(self, *, goes_on: bool) -> None:
        depths = far_batches(300, 0.3, 8 * 300)
        last = depths[-1]
        after = [min(last, depth) for depth in far_batches(300, 0, 8 * 300)] if goes_on else [last] * (8 * 60)
        verdicts = verdicts_of([*depths, *after], every_s=5)

        assert verdicts[len(depths)] is Verdict.GROWING
        # The span that was looked at has thirds of less than eight minutes.
        assert set(verdicts[len(depths) + 8 * 60 // 5 + 10 :]) == {Verdict.OK}

    @pytest.mark.parametrize("at_s", [0, 5, 60, 140], ids="{} s after a batch".format)
    @pytest.mark.parametrize("outage_s", [5, 60])
    def test_by_batches_goes_on_after_an_outage(self, at_s: int, outage_s: int) -> None:
        depths = far_batches(150, 0.2, 12 * 150)
        first = (8 * 150 + at_s) // 5
        failing = range(first, first + outage_s // 5)
        verdicts = verdicts_of(depths, every_s=5, failing=failing)

        assert verdicts[first - 1] is Verdict.GROWING
        # With the first bucket after it, the batches before it count.
        assert set(verdicts[first:]) <= {Verdict.WATCHING, Verdict.GROWING}
        assert set(verdicts[first + 2 :]) == {Verdict.GROWING}

    def test_by_batches_ends_if_all_were_worked_off_in_an_outage(self) -> None:
        depths = [*far_batches(150, 0.2, 9 * 150), *far_batches(150, 0, 10 * 150)]
        verdicts = verdicts_of(depths, every_s=5, failing=range(9 * 30, 10 * 30))

        assert verdicts[9 * 30 - 1] is Verdict.GROWING
        # Until that is seen of the batch after it.
        assert Verdict.GROWING not in verdicts[10 * 30 :]

    @pytest.mark.parametrize("period_s", [60, 130, 300])
    def test_not_by_batches_that_are_worked_off_between_outages(self, period_s: int) -> None:
        chance = Random(period_s)
        depths = far_batches(period_s, 0, 4 * 3600, noise=0.4)
        failing = {first + poll for first in range(0, len(depths), 60) for poll in range(chance.randrange(30))}

        assert Verdict.GROWING not in verdicts_of(depths, every_s=5, failing=failing)

    def test_by_batches_ends_when_all_are_worked_off_again(self) -> None:
        depths = batches(73, 60, is_filled=True, growth_s=0.5)
        level = [depths[second % 73 + 73 * 7] for second in range(600)]
        verdicts = verdicts_of([*depths[: 73 * 8], *level])

        assert verdicts[73 * 8] is Verdict.GROWING
        assert set(verdicts[73 * 8 + 240 :]) == {Verdict.OK}

    def test_seldom_by_batches_that_leave_another_number_behind(self) -> None:
        chance = Random(3)
        queues = [remainders(90, [chance.randrange(100) for _ in range(80)]) for _ in range(4)]

        said = sum(verdicts_of(depths, every_s=5).count(Verdict.GROWING) for depths in queues)
        assert said < 0.01 * sum(map(len, queues))

    def test_seldom_by_a_load_of_95_percent(self) -> None:
        chance, queues = Random(3), []
        for _ in range(4):
            depths = [0]
            for _ in range(7_200):
                depths.append(max(0, depths[-1] + poisson(chance, 10) - poisson(chance, 10 / 0.95)))
            queues.append(depths[::5])

        said = sum(verdicts_of(depths, every_s=5).count(Verdict.GROWING) for depths in queues)
        assert said < 0.04 * sum(map(len, queues))

    def test_seldom_by_what_is_sent_and_deleted_at_random(self) -> None:
        """The growth of a queue that holds its own at a load of 95 % is less than that of its counters by chance."""
        chance, said, polls = Random(3), 0, 0
        for _ in range(4):
            watched, flow = Scripted(), Flow()
            for _ in range(1_440):
                sent = poisson(chance, 50)
                gone = min(flow.depth + sent, poisson(chance, 50 / 0.95))
                flow.head_ms = watched.at_ms
                flow.move(sent=sent, received=gone, deleted=gone)
                said += watched.poll_one(flow.row(), after_s=5).verdict is Verdict.GROWING
                polls += 1
        assert said < 0.015 * polls

    @pytest.mark.parametrize("backlog", [0, 3_000])
    def test_as_soon_after_a_backlog(self, backlog: int) -> None:
        """A backlog of the hour before was as high, but once."""
        drained = [max(0, backlog - 2 * second) for second in range(0, 1_800, 5)]
        steady = verdicts_of([*drained, *range(0, 5 * 60, 5)], every_s=5)
        batches = verdicts_of([*drained, *remainders(120, range(0, 600, 100))], every_s=5)

        assert steady.index(Verdict.GROWING, len(drained)) <= len(drained) + 90 // 5
        assert batches.index(Verdict.GROWING, len(drained)) <= len(drained) + (4 * 120 + 30) // 5

    @pytest.mark.parametrize("swing", [1, 5, 40])
    def test_not_on_noise_around_a_level(self, swing: int) -> None:
        watched = Scripted()
        flow = Flow(sent=1000)
        verdicts: set[Verdict] = set()
        for second in range(600):
            extra = swing if second % 20 < 10 else 0
            owed = swing - extra
            verdicts.add(watched.run(flow, seconds=1, sent=50 + extra, received=50, deleted=50 + owed).verdict)

        assert Verdict.GROWING not in verdicts

    def test_not_by_a_few_messages(self) -> None:
        watched = Scripted()
        flow = Flow(sent=1000)
        verdicts = set()
        for second in range(600):
            verdicts.add(watched.run(flow, seconds=1, sent=int(second % 8 == 0), received=1).verdict)

        assert Verdict.GROWING not in verdicts

    def test_not_by_a_tiny_share_of_a_fast_queue(self) -> None:
        assert first_at(Scripted(), Flow(), Verdict.GROWING, seconds=300, sent=1000, received=990, deleted=990) is None

    def test_not_any_more_once_a_burst_is_being_worked_off(self) -> None:
        watched = Scripted()
        flow = Flow()
        watched.run(flow, seconds=120, sent=10, received=10, deleted=10)
        flow.move(sent=10_000)
        watched.run(flow, seconds=16, sent=10, received=30, deleted=30)

        assert first_at(watched, flow, Verdict.GROWING, seconds=300, sent=10, received=30, deleted=30) is None

    @pytest.mark.parametrize("rate", [0, 5])
    def test_not_by_messages_with_a_delay_of_their_own(self, rate: int) -> None:
        watched, flow, verdicts = Scripted(), Flow(), set()
        # Beside those that are delayed for longer, some are received and deleted at once.
        for second in range(600):
            flow.move(sent=2 + rate, received=rate, deleted=rate)
            flow.hidden += 2
            state = watched.poll_one(flow.row())
            verdicts.add(state.verdict)
            assert state.drain is Drain.EMPTY, second
        assert verdicts <= {Verdict.WATCHING, Verdict.OK}

    def test_by_messages_that_become_due_faster_than_they_are_deleted(self) -> None:
        watched, flow = Scripted(), Flow()
        for _ in range(130):
            # Half of what is sent is delayed for longer.
            flow.move(sent=20, received=4, deleted=4)
            flow.hidden += 10
            state = watched.poll_one(flow.row())
        assert (state.verdict, state.ready) == (Verdict.GROWING, 130 * 6)

    @pytest.mark.parametrize("noise", [0, 2])
    def test_lasts_from_its_lowest_depth_to_its_highest(self, noise: int) -> None:
        watched, flow = Scripted(), Flow(sent=7)
        states = []
        for second in range(900):
            sent = 8 if 400 <= second < 700 else 3
            flow.move(sent=sent + noise * (second % 2), received=3, deleted=3 + noise * (second % 2))
            states.append(watched.poll_one(flow.row()))
        began_ms, ended_ms = START_MS + 400_000, START_MS + 700_000
        growing = [state for state in states if state.verdict is Verdict.GROWING]
        lasted = [(state.since_ms, state.pending_since_ms) for state in growing if state.pending_since_ms is not None]

        # Buckets are 5 s apart.
        assert lasted
        assert all(abs((since or 0) - began_ms) <= 5_000 for since, _ in lasted)
        assert all(abs(until - ended_ms) <= 5_000 for _, until in lasted)
        assert {state.since_depth for state in growing} <= set(range(7, 7 + 5 * 5))
        assert {state.since_depth for state in states if state.verdict is not Verdict.GROWING} == {None}
        assert not any(state.is_since_longer for state in states)

    @pytest.mark.parametrize("rested_s", [0, 5, 60])
    def test_may_have_begun_before_monitoring(self, rested_s: int) -> None:
        watched, flow = Scripted(), Flow(sent=7)
        watched.run(flow, seconds=1 + rested_s, sent=1, received=1, deleted=1)
        growing = watched.run(flow, seconds=300, sent=10, received=5, deleted=5)
        cleared = watched.run(flow, seconds=40, received=100, deleted=100)

        # Five seconds do not tell whether it grew before.
        assert (growing.verdict, growing.is_since_longer) == (Verdict.GROWING, rested_s < 10)
        assert (cleared.verdict, cleared.is_since_longer) == (Verdict.OK, False)

    @pytest.mark.parametrize("empty_polls", [0, 3])
    def test_of_a_new_queue_began_after_its_creation(self, empty_polls: int) -> None:
        watched, flow = Scripted(), Flow()
        for poll in range(300):
            if poll >= empty_polls:
                flow.move(sent=10, received=5, deleted=5)
            state = watched.poll_one(flow.row(created=b"%d" % (START_MS // 1000 - 5)))

        since_ms = START_MS + (1_000 if empty_polls else -5_000)
        assert (state.verdict, state.since_ms, state.is_since_longer) == (Verdict.GROWING, since_ms, False)

    def test_may_have_begun_in_an_outage(self) -> None:
        watched, flow = Scripted(), Flow(sent=7)
        watched.run(flow, seconds=300, sent=1, received=1, deleted=1)
        watched.resume(after_s=60)
        growing = watched.run(flow, seconds=300, sent=10, received=5, deleted=5)
        watched.resume(after_s=60)
        goes_on = watched.run(flow, seconds=300, sent=10, received=5, deleted=5)

        assert growing.verdict is goes_on.verdict is Verdict.GROWING
        assert growing.is_since_longer
        assert (goes_on.since_ms, goes_on.is_since_longer) == (growing.since_ms, True)

    def test_ends_when_the_queue_is_emptied(self) -> None:
        watched, flow = Scripted(), Flow()
        watched.run(flow, seconds=300, sent=10, received=5, deleted=5)
        flow.move(deleted=flow.depth)
        states = [watched.run(flow, seconds=1) for _ in range(31)]

        assert [state.verdict for state in states] == [Verdict.GROWING] * 30 + [Verdict.OK]
        assert abs((states[0].pending_since_ms or 0) - START_MS - 300_000) <= 5_000

    def test_with_messages_that_are_received_and_not_deleted(self) -> None:
        watched = Scripted()
        flow = Flow()
        for _ in range(130):
            flow.move(sent=10, received=10)
            flow.hidden = flow.depth
            state = watched.poll_one(flow.row())

        assert (state.ready, state.verdict) == (0, Verdict.GROWING)

    @pytest.mark.parametrize("interval_s", [0.5, 5, 30])
    def test_at_any_interval(self, interval_s: float) -> None:
        watched = Scripted()
        flow = Flow()
        for _ in range(int(200 / interval_s)):
            flow.move(sent=100, received=10, deleted=10)
            state = watched.poll_one(flow.row(), after_s=interval_s)

        assert state.verdict is Verdict.GROWING

    def test_by_four_samples_if_polls_are_far_apart(self) -> None:
        rising = [10 + 5 * second for second in range(0, 300, 60)]
        # Full, two thirds, one third: in another order, a minute apart.
        batches = [(100, 33, 67)[minute % 3] for minute in range(180)]

        verdicts = verdicts_of(rising, every_s=60)
        assert verdicts == [Verdict.WATCHING] * 3 + [Verdict.GROWING] * 2
        assert Verdict.GROWING not in verdicts_of(batches, every_s=60)


class TestAged:
    def busy(self, head_age_s: int, thresholds: Thresholds | None = None) -> QueueState:
        watched = Scripted(thresholds)
        flow = Flow(sent=9, received=1, head_ms=START_MS + 2000 - head_age_s * 1000)
        watched.poll_one(flow.row())
        flow.received += 1
        return watched.poll_one(flow.row())

    def test_from_ten_minutes_on(self) -> None:
        assert self.busy(599).verdict is Verdict.OK
        assert self.busy(600).verdict is Verdict.AGED
        assert self.busy(700).since_ms == START_MS + 2000 - 100_000

    def test_from_the_threshold_on(self) -> None:
        assert self.busy(60, Thresholds(aged_ms=30_000)).verdict is Verdict.AGED

    def test_counts_from_when_a_message_became_due_and_not_from_when_it_was_sent(self) -> None:
        sent_ms = START_MS - 3_600_000
        state = Scripted().poll_one(Flow(sent=1, head_ms=sent_ms, score=str(START_MS)).row())

        assert (state.verdict, state.waiting_ms(START_MS + 1000)) == (Verdict.OK, 1000)
        assert state.oldest_ready_age_ms(START_MS + 1000) == 3_601_000

    @pytest.mark.parametrize("score", ["0", "1"])
    def test_counts_from_when_it_was_sent_where_its_score_is_no_time(self, score: str) -> None:
        sent_ms = START_MS - 660_000
        watched = Scripted(Thresholds(stalled_ms=10**9))
        state = watched.poll_one(Flow(sent=1, head_ms=sent_ms, score=score).row())

        assert (state.verdict, state.oldest_ready_due_ms) == (Verdict.AGED, sent_ms)
        assert reason(state, watched.at_ms, Thresholds()) == "the first ready message has waited 11m"

    def test_does_not_go_to_and_fro_at_the_threshold(self) -> None:
        watched = Scripted()
        flow = Flow(sent=1000)
        watched.run(flow, seconds=600, sent=1, received=1, deleted=1)
        seen = set()
        for second in range(300):
            flow.head_ms = watched.at_ms - 600_000 + (20_000 if second % 10 < 5 else -1000)
            seen.add(watched.run(flow, seconds=1, sent=1, received=1, deleted=1).verdict)
        flow.head_ms = watched.at_ms

        assert seen == {Verdict.AGED}
        assert watched.run(flow, seconds=30, sent=1, received=1, deleted=1).verdict is Verdict.AGED
        assert watched.run(flow, seconds=1, sent=1, received=1, deleted=1).verdict is Verdict.OK

    def test_not_for_what_is_hidden(self) -> None:
        flow = Flow(sent=9, hidden=9, head_ms=START_MS - 3_600_000)

        assert Scripted().poll_one(flow.row()).verdict is Verdict.OK


class TestPoisoned:
    def poisoned(self, watched: Scripted, flow: Flow) -> QueueState:
        watched.poll_one(flow.row())
        watched.tracker.store_receive_counts(["q", "gone"], [[10, 2, 9], [1, 1, 1]])
        return watched.poll_one(flow.row())

    def test_from_the_poll_after_the_look(self) -> None:
        state = self.poisoned(Scripted(), Flow(sent=10))

        assert (state.verdict, state.poison, state.highest_rc) == (Verdict.POISONED, 2, 9)
        assert state.since_ms == START_MS + 2000

    def test_ends_when_they_are_gone(self) -> None:
        watched = Scripted()
        self.poisoned(watched, Flow(sent=10))
        watched.tracker.store_receive_counts(["q"], [[8, 0, 1]])

        state = watched.poll_one(Flow(sent=10).row())
        assert (state.verdict, state.poison, state.highest_rc) == (Verdict.POISONED, 0, 1)
        assert watched.run(Flow(sent=10), seconds=30).verdict is Verdict.OK

    def test_is_forgotten_when_the_queue_is_created_again(self) -> None:
        watched = Scripted()
        self.poisoned(watched, Flow(sent=10))

        state = watched.poll_one(Flow(sent=2).row())
        assert (state.verdict, state.poison, state.highest_rc) == (Verdict.OK, 0, 0)


class TestPriority:
    OLD_MS = START_MS - 86_400_000

    def test_worst_first(self) -> None:
        assert " ".join(Verdict) == "broken stalled leaking growing poisoned aged watching ok"
        assert [verdict.rank for verdict in Verdict] == [0, 1, 2, 3, 4, 5, 6, 7]
        assert [verdict for verdict in Verdict if not verdict.is_trouble] == [Verdict.WATCHING, Verdict.OK]

    def test_each_gives_way_to_the_next_as_the_trouble_ends(self) -> None:
        watched = Scripted()
        flow = Flow(sent=10, head_ms=self.OLD_MS)
        watched.poll_one(flow.row())
        watched.tracker.store_receive_counts(["q"], [[10, 1, 5]])
        seen: list[Verdict] = [watched.run(flow, seconds=150, sent=10).verdict]
        seen.append(watched.run(flow, seconds=31, sent=10, received=1).verdict)
        seen.append(watched.run(flow, seconds=45, received=1, deleted=1).verdict)
        watched.tracker.store_receive_counts(["q"], [[10, 0, 4]])
        seen.append(watched.run(flow, seconds=31, received=1).verdict)
        flow.head_ms = watched.at_ms
        seen.append(watched.run(flow, seconds=31, received=1).verdict)

        assert seen == [Verdict.STALLED, Verdict.GROWING, Verdict.POISONED, Verdict.AGED, Verdict.OK]

    def test_a_broken_queue_is_nothing_else(self) -> None:
        watched = Scripted()
        flow = Flow(sent=10, head_ms=self.OLD_MS)
        watched.run(flow, seconds=100, sent=10)
        broken: Row = flow.row(vt=None)
        state = watched.poll_one(broken)

        assert state.verdict is Verdict.BROKEN
        assert state.broken == "its attributes hold no vt: clients report queueNotFound"
        assert (state.ready, state.hidden, state.poison, state.since_ms, state.drain_s) == (None, None, 0, None, None)
        assert state.depth == flow.depth
