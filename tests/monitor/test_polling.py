"""The loop around the poll: one at a time, when it is due or asked for, and not while paused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.monitor.timing import FakeClock, Gate, Timer, give_up, next_of


@pytest.fixture
async def snapshots(poller: RsmqPoller) -> AsyncIterator[AsyncIterator[Snapshot]]:
    async with aclosing(poller.snapshots()) as stream:
        yield stream


async def test_it_waits_the_interval_after_each_poll(
    snapshots: AsyncIterator[Snapshot], timer: Timer, clock: FakeClock
) -> None:
    seen = [await anext(snapshots) for _ in range(4)]

    assert timer.waits_s == [1.0] * 3
    assert [snapshot.connection.fresh_at_s for snapshot in seen] == [1000.0, 1001.0, 1002.0, 1003.0]


async def test_the_interval_is_a_setting(reader: RsmqReader, timer: Timer) -> None:
    async with aclosing(RsmqPoller(reader, interval_s=0.2).snapshots()) as stream:
        assert (await anext(stream)).interval_s == 0.2
        await anext(stream)

    assert timer.waits_s == [0.2]


async def test_polls_never_overlap(poller: RsmqPoller, monkeypatch: pytest.MonkeyPatch, timer: Timer) -> None:
    gate = Gate(monkeypatch)
    async with aclosing(poller.snapshots()) as stream:
        for _ in range(5):
            coming = next_of(stream)
            await gate.next_poll()
            for _ in range(50):
                poller.wake()
            poller.set_paused(False)
            assert gate.under_way == 1
            gate.let_one_through()
            await coming

    assert gate.polls == 5
    assert gate.most_under_way == 1


async def test_many_wakes_during_a_poll_are_one_more_poll(reader: RsmqReader, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    poller = RsmqPoller(reader, interval_s=1e9)
    async with aclosing(poller.snapshots()) as stream:
        coming = next_of(stream)
        await gate.next_poll()
        for _ in range(50):
            poller.wake()
        gate.open.set()
        await coming
        await anext(stream)
        after = next_of(stream)

        assert await gate.is_waiting(after)
        assert gate.polls == 2
        await give_up(after)


async def test_a_wake_ends_the_wait(reader: RsmqReader, client: redis.Redis, gate: Gate) -> None:
    poller = RsmqPoller(reader, interval_s=1e9)
    async with aclosing(poller.snapshots()) as stream:
        await anext(stream)
        coming = next_of(stream)
        assert await gate.is_waiting(coming)
        Rsmq(client).create_queue("q")
        poller.wake()

        assert [queue.name for queue in (await coming).queues] == ["q"]


async def test_a_wake_before_the_first_poll_is_that_poll(poller: RsmqPoller, timer: Timer) -> None:
    poller.wake()
    async with aclosing(poller.snapshots()) as stream:
        await anext(stream)
        await anext(stream)

    assert timer.waits_s == [1.0]


class TestPaused:
    async def test_it_says_so_and_then_asks_for_no_time(
        self, poller: RsmqPoller, snapshots: AsyncIterator[Snapshot], timer: Timer, gate: Gate
    ) -> None:
        assert not (await anext(snapshots)).paused
        poller.set_paused(True)
        assert (await anext(snapshots)).paused
        waits_s = list(timer.waits_s)
        coming = next_of(snapshots)

        assert await gate.is_waiting(coming)
        assert timer.waits_s == waits_s
        poller.set_paused(False)
        assert not (await coming).paused
        await anext(snapshots)
        assert len(timer.waits_s) == len(waits_s) + 1

    async def test_a_wake_still_polls_once(
        self, client: redis.Redis, poller: RsmqPoller, snapshots: AsyncIterator[Snapshot], gate: Gate
    ) -> None:
        poller.set_paused(True)
        assert (await anext(snapshots)).paused
        coming = next_of(snapshots)
        assert await gate.is_waiting(coming)
        Rsmq(client).create_queue("q")
        poller.wake()
        shown = await coming

        assert (shown.paused, [queue.name for queue in shown.queues]) == (True, ["q"])
        after = next_of(snapshots)
        assert await gate.is_waiting(after)
        await give_up(after)

    async def test_pausing_during_a_poll_holds_from_that_poll_on(
        self, poller: RsmqPoller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = Gate(monkeypatch)
        async with aclosing(poller.snapshots()) as stream:
            coming = next_of(stream)
            await gate.next_poll()
            poller.set_paused(True)
            gate.open.set()

            assert (await coming).paused
            assert (await anext(stream)).paused
            after = next_of(stream)
            assert await gate.is_waiting(after)
            await give_up(after)


class TestAnotherNamespace:
    @pytest.fixture(autouse=True)
    def two_namespaces(self, client: redis.Redis) -> None:
        for ns, queue in (("rsmq", "old"), ("other", "new"), ("third", "newer")):
            Rsmq(client, ns).create_queue(queue)
            Rsmq(client, ns).send_message(queue, "x")

    async def test_is_watched_from_the_next_poll_on(self, poller: RsmqPoller) -> None:
        before = await poller.poll()
        poller.switch("other")
        after = await poller.poll()

        assert (before.ns, after.ns) == ("rsmq", "other")
        assert [queue.name for queue in after.queues] == ["new"]

    async def test_wakes_the_loop(self, reader: RsmqReader, gate: Gate) -> None:
        poller = RsmqPoller(reader, interval_s=1e9)
        async with aclosing(poller.snapshots()) as stream:
            await anext(stream)
            coming = next_of(stream)
            assert await gate.is_waiting(coming)
            poller.switch("other")

            assert (await coming).ns == "other"

    async def test_shares_nothing_with_the_old_one(self, client: redis.Redis, poller: RsmqPoller) -> None:
        Rsmq(client, "other").create_queue("old")
        for _ in range(3):
            old = await poller.poll()
        poller.switch("other")
        new = await poller.poll()

        assert [queue.arrivals_s for queue in new.queues] == [None, None]
        assert new.trend is not old.trend
        assert set(new.trend.series) == {"new", "old"}
        assert len(new.trend.totals) == 1
        assert len(old.trend.totals) == 3

    async def test_drops_the_reply_that_is_under_way(self, poller: RsmqPoller, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = Gate(monkeypatch)
        coming = asyncio.create_task(poller.poll())
        await gate.next_poll()
        poller.switch("other")
        poller.switch("third")
        gate.open.set()
        snapshot = await coming

        assert (snapshot.ns, [queue.name for queue in snapshot.queues]) == ("third", ["newer"])
        assert gate.polls == 2

    async def test_whose_poll_fails_shows_nothing_of_the_old_one(self, client: redis.Redis, redis_url: str) -> None:
        client.acl_setuser(
            "narrow", enabled=True, passwords=["+x"], keys=["rsmq:*"], commands=["+@all"], reset_keys=True
        )
        async with aclosing(RsmqReader(redis_url.replace("redis://", "redis://narrow:x@"))) as reader:
            poller = RsmqPoller(reader)
            assert len((await poller.poll()).queues) == 1
            poller.switch("other")
            snapshot = await poller.poll()

        assert (snapshot.ns, snapshot.queues, snapshot.connection.fresh_at_s) == ("other", (), None)
        assert snapshot.connection.failure is not None
        assert snapshot.connection.failure.kind == "noperm"
