"""The verdict growing from scripted polls: what is growth, when it begins, and what it is not."""

from collections import deque
from collections.abc import Collection, Sequence
from math import exp, pi, sin
from random import Random

import pytest

from rsmq_tui.monitor import Drain, Verdict
from tests.monitor.batches import far_batches, follow
from tests.monitor.rows import START_MS, Flow, Scripted, first_at


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
