"""Verdicts from scripted polls: when each begins, when it ends, and which one wins."""

import pytest

from rsmq_tui.monitor import Drain, QueueState, Thresholds, Verdict, outlook, reason
from rsmq_tui.protocol import Row
from tests.monitor.rows import START_MS, Flow, Scripted, first_at


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
