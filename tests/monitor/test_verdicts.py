"""Verdicts from scripted polls: when each begins, when it ends, and which one wins."""

import pytest

from rsmq_tui.monitor import QueueState, Thresholds, Verdict
from rsmq_tui.protocol import Row
from tests.monitor.rows import START_MS, Flow, Scripted


def first_at(watched: Scripted, flow: Flow, wanted: Verdict, *, seconds: int, **per_s: int) -> int | None:
    """After how many seconds a queue gets a verdict, or None."""
    for second in range(1, seconds + 1):
        if watched.run(flow, seconds=1, **per_s).verdict is wanted:
            return second
    return None


class TestStalled:
    def test_after_a_minute_without_a_receive(self) -> None:
        watched = Scripted()
        flow = Flow(sent=5)
        first_seen_ms = watched.at_ms + 1000

        assert first_at(watched, flow, Verdict.STALLED, seconds=120) == 61
        assert watched.poll_one(flow.row()).since_ms == first_seen_ms

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

    def test_ends_with_a_receive(self) -> None:
        watched = Scripted()
        flow = Flow(sent=5)
        watched.run(flow, seconds=100)

        assert watched.run(flow, seconds=1, received=1).verdict is Verdict.OK

    def test_ends_when_the_queue_is_empty(self) -> None:
        watched = Scripted()
        flow = Flow(sent=5)
        watched.run(flow, seconds=100)

        assert watched.run(flow, seconds=1, deleted=5).verdict is Verdict.OK

    def test_is_forgotten_when_the_queue_is_created_again(self) -> None:
        watched = Scripted()
        watched.run(Flow(sent=5), seconds=100)

        assert watched.run(Flow(sent=3), seconds=1).verdict is Verdict.OK

    def test_after_as_long_as_the_threshold_says(self) -> None:
        watched = Scripted(Thresholds(stalled_ms=5000))

        assert first_at(watched, Flow(sent=5), Verdict.STALLED, seconds=20) == 6


class TestGrowing:
    def test_after_two_minutes_of_more_arrivals_than_deletes(self) -> None:
        watched = Scripted()
        seconds = first_at(watched, Flow(), Verdict.GROWING, seconds=300, sent=10, received=5, deleted=5)
        state = watched.poll_one(Flow(sent=10 * 121 + 10, received=5 * 121 + 5, deleted=5 * 121 + 5).row())

        assert seconds == 121
        assert state.verdict is Verdict.GROWING
        assert state.since_ms == START_MS + 1000

    def test_since_stays_while_it_lasts(self) -> None:
        watched = Scripted()
        flow = Flow()
        since = {watched.run(flow, seconds=1, sent=10, received=5, deleted=5).since_ms for _ in range(600)}

        assert since == {None, START_MS + 1000}

    def test_ends_when_deletes_catch_up(self) -> None:
        watched = Scripted()
        flow = Flow()
        watched.run(flow, seconds=200, sent=10, received=5, deleted=5)

        assert watched.run(flow, seconds=16, sent=10, received=15, deleted=15).verdict is Verdict.OK

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

    def test_with_messages_that_are_hidden(self) -> None:
        watched = Scripted()
        flow = Flow()
        for _ in range(130):
            flow.move(sent=10)
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


class TestAged:
    def busy(self, head_age_s: int, thresholds: Thresholds | None = None) -> QueueState:
        watched = Scripted(thresholds)
        return watched.poll_one(Flow(sent=9, received=1, head_ms=START_MS + 1000 - head_age_s * 1000).row())

    def test_from_ten_minutes_on(self) -> None:
        assert self.busy(599).verdict is Verdict.OK
        assert self.busy(600).verdict is Verdict.AGED
        assert self.busy(700).since_ms == START_MS + 1000 - 100_000

    def test_from_the_threshold_on(self) -> None:
        assert self.busy(60, Thresholds(aged_ms=30_000)).verdict is Verdict.AGED

    def test_not_for_what_is_hidden(self) -> None:
        flow = Flow(sent=9, hidden=9, head_ms=START_MS - 3_600_000)

        assert Scripted().poll_one(flow.row()).verdict is Verdict.OK


class TestPoisoned:
    def poisoned(self, watched: Scripted, flow: Flow) -> QueueState:
        watched.poll_one(flow.row())
        watched.sampler.take_receive_counts(["q", "gone"], [[10, 2, 9], [1, 1, 1]])
        return watched.poll_one(flow.row())

    def test_from_the_poll_after_the_look(self) -> None:
        state = self.poisoned(Scripted(), Flow(sent=10))

        assert (state.verdict, state.poison, state.highest_rc) == (Verdict.POISONED, 2, 9)
        assert state.since_ms is None

    def test_ends_when_they_are_gone(self) -> None:
        watched = Scripted()
        self.poisoned(watched, Flow(sent=10))
        watched.sampler.take_receive_counts(["q"], [[8, 0, 1]])

        state = watched.poll_one(Flow(sent=10).row())
        assert (state.verdict, state.poison, state.highest_rc) == (Verdict.OK, 0, 1)

    def test_is_forgotten_when_the_queue_is_created_again(self) -> None:
        watched = Scripted()
        self.poisoned(watched, Flow(sent=10))

        state = watched.poll_one(Flow(sent=2).row())
        assert (state.verdict, state.poison, state.highest_rc) == (Verdict.OK, 0, 0)


class TestPriority:
    OLD_MS = START_MS - 86_400_000

    def test_worst_first(self) -> None:
        assert [verdict.value for verdict in Verdict] == ["broken", "stalled", "growing", "poisoned", "aged", "ok"]
        assert [verdict.rank for verdict in Verdict] == [0, 1, 2, 3, 4, 5]

    def test_each_gives_way_to_the_next_as_the_trouble_ends(self) -> None:
        watched = Scripted()
        flow = Flow(sent=10, head_ms=self.OLD_MS)
        watched.poll_one(flow.row())
        watched.sampler.take_receive_counts(["q"], [[10, 1, 5]])
        seen: list[Verdict] = [watched.run(flow, seconds=150, sent=10).verdict]
        seen.append(watched.run(flow, seconds=1, sent=10, received=1).verdict)
        seen.append(watched.run(flow, seconds=30, received=1, deleted=1).verdict)
        watched.sampler.take_receive_counts(["q"], [[10, 0, 4]])
        seen.append(watched.poll_one(flow.row()).verdict)
        flow.head_ms = watched.at_ms
        seen.append(watched.poll_one(flow.row()).verdict)

        assert seen == [Verdict.STALLED, Verdict.GROWING, Verdict.POISONED, Verdict.AGED, Verdict.OK]

    def test_a_broken_queue_is_nothing_else(self) -> None:
        watched = Scripted()
        flow = Flow(sent=10, head_ms=self.OLD_MS)
        watched.run(flow, seconds=100, sent=10)
        broken: Row = flow.row(vt=None)
        state = watched.poll_one(broken)

        assert state.verdict is Verdict.BROKEN
        assert state.broken == "its attributes hold no vt: clients answer queueNotFound"
        assert (state.ready, state.hidden, state.poison, state.since_ms, state.drain_s) == (None, None, 0, None, None)
        assert state.depth == flow.depth
