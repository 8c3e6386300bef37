"""A server that goes away: back-off, stale data that stays, and recovery by itself."""

import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import NoReturn

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.events.detector import QueueDetector
from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.monitor.timing import FakeClock, Gate, Timer, next_of


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that comes back on the port that it had."""
    with EmbeddedServer(port=free_port()) as running:
        yield running


@pytest.fixture
async def poller(own_server: EmbeddedServer, clock: FakeClock) -> AsyncIterator[RsmqPoller]:
    poller = RsmqPoller(RsmqReader(own_server.url), clock=clock)
    yield poller
    await poller.aclose()


def fill(server: EmbeddedServer, *, sent: int = 3) -> None:
    with redis.Redis.from_url(server.url) as client:
        queues = Rsmq(client)
        queues.create_queue("q")
        queues.send_messages("q", ["x"] * sent)


def kind(snapshot: Snapshot) -> str | None:
    return None if snapshot.connection.failure is None else snapshot.connection.failure.kind


BACK_OFF_S = [1, 2, 4, 8, 10, 10, 10]


class TestBackOff:
    async def test_is_told_with_each_failure(
        self, own_server: EmbeddedServer, poller: RsmqPoller, clock: FakeClock
    ) -> None:
        own_server.stop()
        clock.now_s = 500
        retries = [(await poller.poll()).connection.retry_at_s for _ in BACK_OFF_S]

        assert [(retry_at_s or 0) - 500 for retry_at_s in retries] == BACK_OFF_S

    async def test_is_kept(self, own_server: EmbeddedServer, poller: RsmqPoller, timer: Timer) -> None:
        own_server.stop()
        async with aclosing(poller.snapshots()) as stream:
            for _ in range(len(BACK_OFF_S) + 1):
                await anext(stream)

        assert timer.waits_s == BACK_OFF_S

    async def test_counts_the_time_for_which_the_server_did_not_answer(
        self, poller: RsmqPoller, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def wait_in_vain() -> NoReturn:
            clock.now_s += 5
            raise TimeoutError

        monkeypatch.setattr(poller, "_read", wait_in_vain)
        retries = [(await poller.poll()).connection.retry_at_s for _ in BACK_OFF_S]

        ended_s = [1005 + 5 * number for number in range(len(BACK_OFF_S))]
        assert [(retry or 0) - end for retry, end in zip(retries, ended_s, strict=True)] == [1, 1, 1, 3, 5, 5, 5]

    async def test_starts_again_after_a_success(
        self, own_server: EmbeddedServer, poller: RsmqPoller, timer: Timer
    ) -> None:
        async with aclosing(poller.snapshots()) as stream:
            for is_up in (True, False, False, False, True, False, False):
                own_server.start() if is_up else own_server.stop()
                assert ((await anext(stream)).connection.failure is None) == is_up
            await anext(stream)

        assert timer.waits_s == [1, 1, 2, 4, 1, 1, 2]

    async def test_grows_although_the_server_answers_a_part(self, client: redis.Redis, redis_url: str) -> None:
        Rsmq(client).create_queue("q")
        client.acl_setuser("half", enabled=True, passwords=["+x"], keys=["rsmq:QUEUES"], commands=["+@all"])
        clock = FakeClock()
        async with aclosing(RsmqReader(redis_url.replace("redis://", "redis://half:x@"))) as reader:
            poller = RsmqPoller(reader, clock=clock)
            polls = [await poller.poll() for _ in range(4)]

        assert [(snapshot.connection.retry_at_s or 0) - clock.now_s for snapshot in polls] == [1, 2, 4, 8]
        assert len(polls[-1].trend.totals) == 0

    async def test_is_cut_short_by_a_wake(self, own_server: EmbeddedServer, poller: RsmqPoller, timer: Timer) -> None:
        own_server.stop()
        async with aclosing(poller.snapshots()) as stream:
            for _ in range(5):
                await anext(stream)
            own_server.start()
            poller.wake()

            assert kind(await anext(stream)) is None


class TestWhileItIsAway:
    async def test_what_was_known_stays_and_is_marked(
        self, own_server: EmbeddedServer, poller: RsmqPoller, clock: FakeClock
    ) -> None:
        fill(own_server)
        good = await poller.poll()
        own_server.stop()
        clock.now_s += 42
        stale = await poller.poll()

        assert kind(stale) in {"closed", "refused"}
        assert (stale.at_ms, stale.queues, stale.totals, stale.trend) == (
            good.at_ms,
            good.queues,
            good.totals,
            good.trend,
        )
        assert stale.connection.fresh_at_s == clock.now_s - 42
        assert stale.connection.retry_at_s == clock.now_s + 1
        assert good.connection.failure is None

    async def test_every_failure_is_news(self, own_server: EmbeddedServer, poller: RsmqPoller) -> None:
        own_server.stop()

        assert await poller.poll() is not await poller.poll()


class TestWhenItComesBack:
    async def test_it_is_read_again(self, own_server: EmbeddedServer, poller: RsmqPoller) -> None:
        fill(own_server)
        assert (await poller.poll()).queues[0].depth == 3
        own_server.stop()
        assert kind(await poller.poll()) is not None
        own_server.start()
        back = await poller.poll()

        assert (kind(back), back.connection.retry_at_s, back.queues) == (None, None, ())
        fill(own_server, sent=5)
        (queue,) = (await poller.poll()).queues
        assert (queue.depth, queue.arrivals_s) == (5, None)

    async def test_nothing_that_happened_meanwhile_is_a_rate(
        self, own_server: EmbeddedServer, poller: RsmqPoller
    ) -> None:
        fill(own_server)
        with redis.Redis.from_url(own_server.url) as admin:
            await poller.poll()
            await poller.poll()
            admin.acl_setuser("default", commands=["-smembers"])
            assert kind(await poller.poll()) == "noperm"
            Rsmq(admin).send_messages("q", ["x"] * 1000)
            admin.acl_setuser("default", commands=["+smembers"])
            back = await poller.poll()

        assert back.queues[0].depth == 1003
        assert back.queues[0].arrivals_s is None
        assert [point.ready for point in back.trend.totals] == [3, 3, None, 1003]
        assert back.trend.totals[-1].arrivals_s is None

    async def test_a_server_that_hung_is_read_again(self, own_server: EmbeddedServer) -> None:
        fill(own_server)
        async with aclosing(RsmqReader(own_server.url, timeout_s=0.2)) as reader:
            poller = RsmqPoller(reader)
            # On a busy machine even a healthy server may take longer than that.
            while kind(await poller.poll()) is not None:
                pass
            os.kill(own_server.pid, signal.SIGSTOP)
            try:
                hung = await poller.poll()
                hung_still = await poller.poll()
            finally:
                os.kill(own_server.pid, signal.SIGCONT)

            assert (kind(hung), kind(hung_still)) == ("timeout", "timeout")
            assert len(hung_still.queues) == 1
            while (back := await poller.poll()).connection.failure is not None:
                assert kind(back) == "timeout"
            assert back.queues[0].depth == 3

    async def test_connections_that_were_cut_are_made_again(
        self, own_server: EmbeddedServer, poller: RsmqPoller
    ) -> None:
        fill(own_server)
        await poller.poll()
        with redis.Redis.from_url(own_server.url) as admin:
            for connection in admin.client_list():
                if connection["lib-name"] == "rsmq-tui":
                    admin.client_kill_filter(_id=connection["id"])
        await poller.poll()

        assert kind(await poller.poll()) is None

    async def test_a_restart_between_two_polls_is_in_the_first_one_after_it(
        self, own_server: EmbeddedServer, poller: RsmqPoller, clock: FakeClock
    ) -> None:
        fill(own_server)
        detector = QueueDetector(own_server.url, "rsmq", poller.thresholds)
        for _ in range(2):
            before = await poller.poll()
            assert detector.observe(before) == []
            clock.now_s += 1
        own_server.stop()
        own_server.start()
        after = await poller.poll()

        assert kind(after) is None
        assert before.info is not None
        assert after.info is not None
        assert before.info.run_id != after.info.run_id
        (event,) = detector.observe(after)
        lost = "lost with the restart of the server, with 3 messages at the previous poll"
        assert (event.queue, event.text) == ("q", lost)


class TestPaused:
    async def test_a_pause_survives_a_failure(self, own_server: EmbeddedServer, poller: RsmqPoller) -> None:
        fill(own_server)
        await poller.poll()
        poller.set_paused(True)
        own_server.stop()
        failed = await poller.poll()
        own_server.start()
        back = await poller.poll()

        assert (failed.paused, kind(failed) is not None) == (True, True)
        # Nobody will ask again until the pause ends or somebody wakes it.
        assert failed.connection.retry_at_s is None
        assert (back.paused, kind(back)) == (True, None)

    async def test_no_retry_is_made_while_paused(
        self, own_server: EmbeddedServer, poller: RsmqPoller, timer: Timer, gate: Gate
    ) -> None:
        own_server.stop()
        poller.set_paused(True)
        async with aclosing(poller.snapshots()) as stream:
            assert (await anext(stream)).paused
            coming = next_of(stream)
            assert await gate.is_waiting(coming)
            assert timer.waits_s == []
            poller.set_paused(False)

            assert (await coming).connection.retry_at_s is not None
