"""Servers that are down or hang: said at once, in a scrape that ends, and not of a server that is only slow."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.web.exporter.poller import Target, TargetPoller
from tests.cancelled import TURNS, cancelled_at_each_turn
from tests.monitor.timing import FakeClock, Gate
from tests.waiting import SECONDS_MAX, until
from tests.web.exporter.scraping import NEVER_S, Answer, exporting


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that comes back on the port that it had."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with EmbeddedServer(port=port) as running:
        yield running


def fill(server: EmbeddedServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        Rsmq(client).create_queue("q")
        Rsmq(client).send_messages("q", ["x"] * 3)


def failures(answer: Answer, **labels: str) -> float:
    return sum(answer.values("rsmq_poll_failures_total", **labels))


async def test_a_server_that_goes_and_comes_back(own_server: EmbeddedServer) -> None:
    fill(own_server)
    async with exporting(own_server.url) as exporter:
        healthy = await exporter.get()
        assert (await exporter.get("/healthz")).status == 200
        own_server.stop()
        # The connection breaks, then no new one is to be had.
        await exporter.get()
        down = await exporter.get()
        reply = await exporter.get("/healthz")
        own_server.start()
        fill(own_server)
        back = await exporter.until(lambda answer: answer.value("rsmq_up") == 1)
        recovered = await exporter.get("/healthz")

    assert (healthy.value("rsmq_up"), failures(healthy)) == (1, 0)
    assert healthy.value("rsmq_queue_depth_messages") == 3
    assert (down.status, down.value("rsmq_up")) == (200, 0)
    assert {sample.name for sample in down.samples if sample.name.startswith("rsmq_queue")} == set()
    assert down.value("rsmq_poll_failures_total", kind="refused") >= 1
    assert down.value("rsmq_last_poll_timestamp_seconds") == healthy.value("rsmq_last_poll_timestamp_seconds")
    assert reply.status == 503
    assert reply.text.startswith("s0 redis://127.0.0.1:")
    assert "connection refused; check that the server is running" in reply.text
    assert back.value("rsmq_queue_depth_messages") == 3
    assert failures(back) >= failures(down)
    assert back.value("rsmq_poll_bytes_total") > healthy.value("rsmq_poll_bytes_total")
    assert (recovered.status, recovered.text) == (200, "ok\n")


async def test_a_server_that_is_not_there_from_the_beginning(own_server: EmbeddedServer) -> None:
    own_server.stop()
    async with exporting("redis://127.0.0.1:1/0") as exporter:
        down = await exporter.get()
        health = await exporter.get("/healthz")

    assert down.value("rsmq_up") == 0
    assert down.values("rsmq_last_poll_timestamp_seconds") == []
    assert health.status == 503


async def test_a_server_that_hangs_delays_no_other(own_server: EmbeddedServer, redis_url: str) -> None:
    fill(own_server)
    async with exporting(redis_url, own_server.url, patience_s=0.3, timeout_s=1) as exporter:
        # On a busy machine even a healthy server may take longer than that.
        await exporter.until(lambda answer: answer.values("rsmq_up") == [1, 1])
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            hung = await exporter.until(lambda answer: answer.values("rsmq_up") == [1, 0])
            health = await exporter.until(lambda answer: answer.status == 503, "/healthz")
        finally:
            os.kill(own_server.pid, signal.SIGCONT)
        back = await exporter.until(lambda answer: answer.values("rsmq_up") == [1, 1])

    assert hung.values("rsmq_queue_depth_messages", profile="s1") == []
    assert hung.value("rsmq_queues", profile="s0") == 0
    assert "s1 redis://127.0.0.1:" in health.text
    assert back.value("rsmq_queue_depth_messages", profile="s1") == 3


class TestPatience:
    """A poll is held; whatever waits for it without end fails by the test's own limit."""

    @pytest.fixture
    def gate(self, monkeypatch: pytest.MonkeyPatch) -> Gate:
        return Gate(monkeypatch)

    async def test_its_end_does_not_make_a_slow_server_one_that_is_down(
        self, redis_url: str, client: redis.Redis, gate: Gate
    ) -> None:
        Rsmq(client).create_queue("q")
        clock = FakeClock()
        async with (
            asyncio.timeout(SECONDS_MAX),
            exporting(redis_url, max_age_s=1, patience_s=NEVER_S, clock=clock) as exporter,
        ):
            await gate.next_poll()
            gate.let_one_through()
            good = await exporter.get()
            Rsmq(client).send_message("q", "x")
            clock.now_s += 1
            slow = asyncio.create_task(exporter.get())
            await gate.next_poll()
            # From the beginning of the poll, not of the scrape.
            clock.now_s += NEVER_S + 1
            late = [await exporter.get() for _ in range(2)]
            health = await exporter.get("/healthz")
            gate.open.set()
            fresh = await slow

        for answer in (good, *late):
            assert answer.value("rsmq_up") == 1
            assert answer.value("rsmq_queue_depth_messages") == 0
            assert answer.value("rsmq_last_poll_timestamp_seconds") == good.value("rsmq_last_poll_timestamp_seconds")
        assert (health.status, health.text) == (200, "ok\n")
        assert fresh.value("rsmq_queue_depth_messages") == 1
        assert failures(fresh) == 0

    async def test_ends_before_the_scraper_gives_up(self, redis_url: str, gate: Gate) -> None:
        async with asyncio.timeout(SECONDS_MAX), exporting(redis_url, patience_s=NEVER_S) as exporter:
            await gate.next_poll()
            answer = await exporter.get(X_Prometheus_Scrape_Timeout_Seconds="0.6")
            gate.open.set()

        # Nothing is known yet, not even that it is down.
        assert answer.values("rsmq_up") == answer.values("rsmq_last_poll_timestamp_seconds") == []

    @pytest.mark.parametrize("reply", ["", "soon", "nan", "-1", "inf"])
    async def test_is_not_changed_by_nonsense(self, redis_url: str, gate: Gate, reply: str) -> None:
        async with asyncio.timeout(SECONDS_MAX), exporting(redis_url, patience_s=NEVER_S) as exporter:
            await gate.next_poll()
            coming = asyncio.create_task(exporter.get(X_Prometheus_Scrape_Timeout_Seconds=reply))
            (watch,) = exporter.pollers
            await until(lambda: watch.scrapes == 1)
            gate.open.set()

            assert (await coming).value("rsmq_up") == 1

    async def test_before_the_first_poll_it_is_not_well(self, redis_url: str, gate: Gate) -> None:
        async with exporting(redis_url) as exporter:
            await gate.next_poll()
            health = await exporter.get("/healthz")
            gate.open.set()

        assert (health.status, "not been polled yet" in health.text) == (503, True)


async def test_a_request_under_way_at_the_end_is_answered(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with asyncio.timeout(SECONDS_MAX):
        async with exporting(redis_url) as exporter:
            (watch,) = exporter.pollers
            coming = asyncio.create_task(exporter.get())
            await until(lambda: watch.scrapes == 1)
            loop, shutdown = asyncio.get_running_loop(), exporter.server.shutdown

            def shut_down() -> None:
                shutdown()
                loop.call_soon_threadsafe(loop.call_later, 0.05, gate.open.set)

            # The server answers only once nothing new is taken.
            monkeypatch.setattr(exporter.server, "shutdown", shut_down)
        answer = await coming

    assert answer.value("rsmq_up") == 1
    with pytest.raises(ConnectionRefusedError):
        await exporter.get()


async def test_polling_ends_at_every_moment(redis_url: str) -> None:
    pollers: list[RsmqPoller] = []

    async def watch(_: int) -> None:
        # The first polls of a connection, and the making of it.
        pollers.append(RsmqPoller(RsmqReader(redis_url)))
        await TargetPoller(Target("s0", redis_url, "rsmq"), pollers[-1], interval_s=0.001).run()

    assert await cancelled_at_each_turn(watch, rounds=2) == TURNS * 2
    for poller in pollers:
        await poller.aclose()
