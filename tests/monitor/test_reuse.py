"""A row that did not change costs nothing, and yet no verdict is late because of it."""

import asyncio
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

from rsmq_tui.monitor import QueueState, RsmqPoller, Snapshot, Thresholds, Verdict
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.monitor.tracking.rsmq_tracker import RsmqTracker
from rsmq_tui.monitor.tracking.series import BUCKET_MS
from rsmq_tui.protocol import RsmqReader
from tests.monitor.rows import START_MS, Flow, Scripted


def settled(flow: Flow, thresholds: Thresholds | None = None) -> Scripted:
    """A tracker that has seen this queue stand still for so long that its rates are 0."""
    watched = Scripted(thresholds)
    watched.run(flow, seconds=20)
    return watched


def test_an_unchanged_row_gives_the_same_object() -> None:
    flow = Flow(sent=5, hidden=5)
    watched = settled(flow)
    first = watched.poll_one(flow.row())

    assert all(watched.poll_one(flow.row()) is first for _ in range(500))


def test_so_do_an_empty_queue_and_a_broken_one() -> None:
    watched = Scripted()
    rows = {"empty": Flow().row(), "gone": [[None] * 7, 0], "wreck": [b"WRONGTYPE", b"WRONGTYPE"]}
    for _ in range(20):
        first = watched.poll(rows)

    assert all(watched.poll(rows)[name] is first[name] for name in rows for _ in range(50))


def test_a_stalled_queue_gives_the_same_object_too() -> None:
    flow = Flow(sent=5)
    watched = settled(flow)
    watched.run(flow, seconds=90)
    first = watched.poll_one(flow.row())

    assert first.verdict is Verdict.STALLED
    assert all(watched.poll_one(flow.row()) is first for _ in range(50))


def test_a_changed_row_gives_a_new_one() -> None:
    flow = Flow(sent=5, hidden=5)
    watched = settled(flow)
    first = watched.poll_one(flow.row())
    second = watched.poll_one(flow.row(vt=b"31"))

    assert second is not first
    assert second.vt_s == 31


def test_rates_run_out_although_the_row_stands_still() -> None:
    watched = Scripted()
    flow = Flow()
    watched.run(flow, seconds=60, sent=10, received=10, deleted=10)
    rates = [watched.run(flow, seconds=1).arrivals_s for _ in range(20)]

    assert rates[0] is not None
    assert rates[-1] == 0


class Restless(RsmqTracker):
    """Computes a new state in every poll."""

    stale_from_ms = property(lambda self: 0, lambda self, _: None)


def test_a_queue_that_rests_keeps_its_rates_for_some_seconds_and_nothing_else_is_late() -> None:
    """By chance: queues are busy or rest, and polls fail; beside it the same with a new state in every poll."""
    rates = ("arrivals_s", "deletes_s", "receives_s")
    judged = ("verdict", "since_ms", "drain", "drain_s", "pending_since_ms", "pending_until_ms", "limit")
    left_out: dict[str, Any] = dict.fromkeys((*rates, *judged))
    chance, watched, anew = random.Random(3), Scripted(), Scripted(new_tracker=Restless)
    flows = {f"q{number}": Flow(sent=10 * number) for number in range(6)}
    busy = dict.fromkeys(flows, 0.3)
    seen: dict[str, list[tuple[int, Verdict]]] = {name: [] for name in flows}
    before: dict[str, QueueState] = {}
    kept, polls = 0, 500
    for _ in range(polls):
        for name, flow in flows.items():
            if chance.random() < 0.01:
                busy[name] = chance.choice((0, 0.02, 0.3, 1))
            if chance.random() < busy[name]:
                flow.move(sent=chance.randrange(5), received=chance.randrange(3), deleted=min(flow.depth, 1))
        if chance.random() < 0.01:
            watched.resume(after_s=5)
            anew.resume(after_s=5)
        rows = {name: flow.row() for name, flow in flows.items()}
        states, expected = (one.poll(rows, after_s=1.003) for one in (watched, anew))
        for name, state in states.items():
            new = expected[name]
            assert state._replace(**left_out) == new._replace(**left_out)
            for rate in rates:
                ours, theirs = getattr(state, rate), getattr(new, rate)
                assert ours == theirs or 1 / 2 < ours / theirs < 2
            seen[name].append((anew.at_ms, new.verdict))
            assert state.verdict in {verdict for at_ms, verdict in seen[name] if at_ms > anew.at_ms - 2 * BUCKET_MS}
            kept += state is before.get(name)
        before = states
    assert kept > polls * len(flows) / 2


def test_an_unchanged_row_becomes_stalled_in_time() -> None:
    flow = Flow(sent=5)
    watched = settled(flow)
    verdicts = [watched.poll_one(flow.row()).verdict for _ in range(60)]

    # It was sent at 0 s and has been polled up to 20 s: it is stalled from 60 s on.
    assert verdicts == [Verdict.OK] * 39 + [Verdict.STALLED] * 21


def test_an_unchanged_row_becomes_aged_in_time() -> None:
    flow = Flow(sent=5, head_ms=START_MS)
    watched = settled(flow, Thresholds(stalled_ms=10_000_000))
    verdicts = [watched.poll_one(flow.row()).verdict for _ in range(590)]

    assert verdicts == [Verdict.OK] * 579 + [Verdict.AGED] * 11


def test_an_unchanged_row_is_poisoned_at_the_poll_after_the_look() -> None:
    flow = Flow(sent=5, hidden=5)
    watched = settled(flow)
    watched.tracker.store_receive_counts(["q"], [[5, 1, 7]])
    poisoned = watched.poll_one(flow.row())
    watched.tracker.store_receive_counts(["q"], [[5, 1, 7]])

    again = watched.poll_one(flow.row())

    assert poisoned.verdict is Verdict.POISONED
    assert again == poisoned._replace(looked_all_ms=watched.at_ms - 1000)
    assert watched.poll_one(flow.row()) is again


def test_a_queue_that_comes_back_has_no_past() -> None:
    flow = Flow(sent=5)
    watched = settled(flow)
    first = watched.poll_one(flow.row())
    assert watched.poll({}) == {}
    again = watched.poll_one(flow.row())

    assert again is not first
    assert again.arrivals_s is None


def test_what_was_read_of_a_queue_is_not_shown_when_it_cannot_be_read_any_more() -> None:
    flow = Flow(sent=5)
    watched = Scripted()
    watched.poll_one(flow.row(vt=b"15.5"))
    state = watched.poll_one([b"WRONGTYPE Operation against a key", 5])

    assert state.broken == "its attributes key is not a hash"
    assert (state.vt_s, state.maxsize, state.created_ms, state.problems) == (None, None, None, ())
    assert watched.poll_one(flow.row()).vt_s == 30


def test_what_can_be_read_of_a_broken_queue_is_shown() -> None:
    state = Scripted().poll_one([Flow().row(delay=b"15.5")[0], b"WRONGTYPE Operation against a key"])

    assert state.broken == "its messages key is not a sorted set"
    assert (state.vt_s, state.delay_s, state.maxsize, state.depth) == (30, 15.5, 65536, None)
    assert state.problems == ("delay 15.5 is not whole: the canonical client reads 15",)


def test_the_states_that_a_poll_replaced_are_those_that_a_comparison_of_all_finds() -> None:
    """By chance: queues change, come and go, polls fail halfway, and some snapshots are not looked at."""
    chance = random.Random(7)
    tracker = PlaceTracker(Thresholds())
    flows = {f"q{number:03}": Flow(sent=5, hidden=5) for number in range(30)}
    last: tuple[QueueState, ...] = ()
    compared, replaced = 0, 0
    for second in range(600):
        at_ms = START_MS + second * 1000
        for name in chance.sample(sorted(flows), chance.choice((0, 0, 1, 2))):
            flows[name].move(sent=1)
        if chance.random() < 0.04:
            del flows[chance.choice(sorted(flows))]
        if chance.random() < 0.04:
            flows[f"q{chance.randrange(1000):03}"] = Flow(sent=5, hidden=5)
        names = sorted(flows)
        rows = [flows[name].row() for name in names]
        tracker.begin(at_ms, names)
        tracker.add_rows(range(10), rows[:10])
        if chance.random() < 0.1:
            # After ``resume``, all states are replaced.
            if chance.random() < 0.2:
                tracker.resume(at_ms)
            continue
        tracker.add_rows(range(10, len(rows)), rows[10:])
        snapshot = Snapshot(at_ms, "server", "rsmq", tracker.finish()[0], changes=tracker.changes)
        found, expected = (one.changed_since(last) for one in (snapshot, replace(snapshot, changes=None)))
        assert [list(map(id, some)) for some in found or ()] == [list(map(id, some)) for some in expected or ()]
        assert (found is None) is (expected is None)
        before, now = ({queue.name: queue for queue in some} for some in (last, snapshot.queues))
        differences = snapshot.differences(last)
        assert [queue.name for queue in differences.created] == [name for name in now if name not in before]
        assert [queue.name for queue in differences.gone] == [name for name in before if name not in now]
        assert [[id(queue) for queue in pair] for pair in differences.pairs] == [
            [id(before[name]), id(queue)] for name, queue in now.items() if before.get(name, queue) is not queue
        ]
        if snapshot.changes is not None and snapshot.changes.before is last:
            compared += 1
            replaced += len(snapshot.changes.indexes)
        if chance.random() < 0.9:
            last = snapshot.queues
    assert compared > 300
    assert replaced > 300


async def test_thousands_of_queues_that_stall_at_once_do_not_hold_up_what_else_runs() -> None:
    watched = Scripted()
    rows = {f"q{number:04}": Flow(sent=5).row() for number in range(2_000)}
    watched.poll(rows)
    watched.poll(rows, after_s=58)
    turns: list[int] = []
    tracker, at_ms = watched.tracker, watched.at_ms + 1_000

    async def beside() -> None:
        while True:
            turns.append(sum(state is not None and state.verdict is Verdict.STALLED for state in tracker._states))
            await asyncio.sleep(0)

    other = asyncio.create_task(beside())
    # Nothing changed, so no row is read.
    tracker.begin(at_ms, sorted(rows))
    states, totals = await RsmqPoller(RsmqReader("redis://127.0.0.1:1"))._end_poll(tracker, at_ms)
    other.cancel()

    assert totals.verdicts[Verdict.STALLED] == len(states) == 2_000
    assert {after - before for before, after in pairwise(turns)} == {0, 250}
