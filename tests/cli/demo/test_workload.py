"""The workload in this process, with scenarios small enough to come to the point."""

import asyncio
import os
import signal

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer, scenarios
from rsmq_tui.cli.demo.scenarios import Backlog, Bounds, Consumer, Scenario, VariedRate
from rsmq_tui.cli.demo.workload import run_workload
from rsmq_tui.protocol import Rsmq
from tests.cli.demo.running import highest_of_two_swings, waiting_long, working
from tests.waiting import SECONDS_MAX, until

BUSY = Scenario(
    "busy",
    scenarios.order_body,
    VariedRate(200.0),
    Consumer(VariedRate(400.0), work_s=(0.0, 0.1)),
    backlog=Backlog(700, 60.0),
)

IDLE = Scenario("idle", scenarios.order_body, VariedRate(50.0), None)


async def test_sends_receives_and_deletes(redis_url: str, client: redis.Redis) -> None:
    queues = Rsmq(client)
    async with working(redis_url, BUSY):
        await until(lambda: queues.get_queue_attributes("busy").totalsent > 800)
        await until(lambda: queues.get_queue_attributes("busy").totalrecv > 900)
        await until(lambda: queues.get_queue_attributes("busy").msgs < 100)


async def test_a_queue_without_a_consumer_is_never_received_from(redis_url: str, client: redis.Redis) -> None:
    queues = Rsmq(client)
    async with working(redis_url, IDLE, BUSY):
        await until(lambda: queues.get_queue_attributes("busy").totalrecv > 100)
        await until(lambda: queues.get_queue_attributes("idle").totalsent > 10)
    attributes = queues.get_queue_attributes("idle")
    assert attributes.totalrecv == 0
    assert attributes.msgs == attributes.totalsent


async def test_what_a_consumer_cannot_read_comes_back_again_and_again(redis_url: str, client: redis.Redis) -> None:
    poisoned = Scenario(
        "poisoned",
        scenarios.invoice_body,
        VariedRate(20.0),
        Consumer(VariedRate(50.0), work_s=(0.0, 0.0), can_read=scenarios.is_readable_json),
        vt_s=0,
        backlog=Backlog(2, 60.0, rcs=(3,), body=scenarios.cut_off_invoice_body),
    )
    queues = Rsmq(client)

    def poison() -> list[tuple[bytes, int]]:
        ids = client.zrange("rsmq:poisoned", 0, -1)
        counts = [(id_, int(client.hget("rsmq:poisoned:Q", id_ + b":rc") or 0)) for id_ in ids]
        return [(id_, rc) for id_, rc in counts if rc >= 3]

    async with working(redis_url, poisoned):
        before = poison()
        assert len(before) == 2
        await until(lambda: queues.get_queue_attributes("poisoned").totalsent > 7)
        await until(lambda: all(rc >= 6 for _, rc in poison()))
        assert {id_ for id_, _ in before} <= {id_ for id_, _ in poison()}
        # The good ones get through all the same.
        await until(lambda: queues.get_queue_attributes("poisoned").msgs <= 4)


async def test_lost_messages_are_received_again(redis_url: str, client: redis.Redis) -> None:
    losing = Scenario(
        "losing",
        scenarios.order_body,
        VariedRate(0.0),
        Consumer(VariedRate(100.0), fails=1.0),
        vt_s=0,
        backlog=Backlog(5, 60.0),
    )
    async with working(redis_url, losing):
        await until(lambda: Rsmq(client).get_queue_attributes("losing").totalrecv > 10)
        assert client.zcard("rsmq:losing") == 5


async def test_delays_are_within_their_range(redis_url: str, client: redis.Redis) -> None:
    delayed = Scenario(
        "delayed", scenarios.reminder_body, VariedRate(100.0), Consumer(VariedRate(100.0)), delay_s=(100, 200)
    )
    async with working(redis_url, delayed):
        await until(lambda: client.zcard("rsmq:delayed") > 20)
        now_s, _ = client.time()
        scores = [score / 1000 - now_s for _, score in client.zrange("rsmq:delayed", 0, -1, withscores=True)]
    assert min(scores) > 80
    assert max(scores) < 202
    assert max(scores) - min(scores) > 10
    assert Rsmq(client).get_queue_attributes("delayed").totalrecv == 0


async def test_a_depth_stays_within_its_bounds(
    monkeypatch: pytest.MonkeyPatch, redis_url: str, client: redis.Redis
) -> None:
    monkeypatch.setattr(scenarios, "_BOUNDS_CHECK_S", 0.0)
    bounded = Scenario(
        "bounded",
        scenarios.order_body,
        VariedRate(500.0),
        Consumer(VariedRate(200.0), work_s=(0.0, 0.0)),
        bounds=Bounds(low=50, high=200, relief_per_s=10.0),
    )
    queues = Rsmq(client)
    async with working(redis_url, bounded):
        highest = await highest_of_two_swings(lambda: queues.get_queue_attributes("bounded").msgs)
    # At most the second that a producer makes up for on a busy machine.
    assert highest < 200 + 500 + 50


async def test_speed_multiplies_the_rates(redis_url: str, client: redis.Redis) -> None:
    slow = Scenario("slow", scenarios.order_body, VariedRate(1.0), None)
    async with working(redis_url, slow, speed=500.0):
        await until(lambda: Rsmq(client).get_queue_attributes("slow").totalsent > 100)


async def test_another_namespace(redis_url: str, client: redis.Redis) -> None:
    async with working(redis_url, IDLE, ns="{shop}"):
        await until(lambda: client.zcard("{shop}:idle") > 0)
    assert client.smembers("{shop}:QUEUES") == {b"idle"}
    assert not client.exists("rsmq:QUEUES")


async def test_a_queue_that_exists_gets_no_second_backlog(redis_url: str, client: redis.Redis) -> None:
    still = Scenario("still", scenarios.order_body, VariedRate(0.0), None, backlog=Backlog(30, 60.0))
    for _ in range(2):
        async with working(redis_url, still):
            assert client.zcard("rsmq:still") == 30


async def test_a_deleted_queue_stays_deleted_and_the_others_go_on(redis_url: str, client: redis.Redis) -> None:
    queues = Rsmq(client)
    async with working(redis_url, BUSY, IDLE):
        queues.delete_queue("busy")
        before = queues.get_queue_attributes("idle").totalsent
        # It has tried again, and so have the others.
        await until(lambda: client.info("errorstats").get("errorstat_RSMQ", {}).get("count", 0) >= 4)
        await until(lambda: queues.get_queue_attributes("idle").totalsent > before)
        assert queues.list_queues() == ["idle"]
        queues.create_queue("busy")
        await until(lambda: queues.get_queue_attributes("busy").totalsent > 0)


async def test_a_server_that_lost_everything_gets_everything_again(redis_url: str, client: redis.Redis) -> None:
    async with working(redis_url, BUSY, IDLE):
        client.flushall()
        await until(lambda: client.smembers("rsmq:QUEUES") == {b"busy", b"idle"})
        await until(lambda: int(client.hget("rsmq:busy:Q", "totalrecv") or 0) > 700)


async def test_a_backlog_counts_as_sent_and_as_received_as_often_as_it_says(
    redis_url: str, client: redis.Redis
) -> None:
    still = Scenario("still", scenarios.order_body, VariedRate(0.0), None, backlog=Backlog(700, 60.0, rcs=(0, 3)))
    async with working(redis_url, still, ns="{shop}"):
        attributes = Rsmq(client, ns="{shop}").get_queue_attributes("still")
        assert (attributes.msgs, attributes.totalsent, attributes.totalrecv) == (700, 700, 1050)
        # The queue is as old as its oldest message.
        assert (attributes.modified or 0) - (attributes.created or 0) == 60


async def test_ends_when_it_is_cancelled(redis_url: str, client: redis.Redis) -> None:
    task = asyncio.create_task(run_workload(redis_url, stop=asyncio.Event(), scenarios=(BUSY, IDLE)))
    await until(lambda: client.scard("rsmq:QUEUES") == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(SECONDS_MAX):
            await task


async def test_goes_on_when_the_server_comes_back_empty() -> None:
    with EmbeddedServer() as first:
        port = first.port
        stop = asyncio.Event()
        task = asyncio.create_task(run_workload(first.url, stop=stop, scenarios=(BUSY,)))
        with redis.Redis.from_url(first.url) as client:
            await until(lambda: client.zcard("rsmq:busy") > 0)
    with EmbeddedServer(port=port) as second, redis.Redis.from_url(second.url) as client:
        await until(lambda: int(client.hget("rsmq:busy:Q", "totalrecv") or 0) > 700)
        stop.set()
        await task


async def test_stops_at_once_when_the_server_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = waiting_long(monkeypatch)
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        async with working(server.url, BUSY):
            await until(lambda: Rsmq(client).get_queue_attributes("busy").totalsent > 700)
            os.kill(server.pid, signal.SIGSTOP)
            # The producer and the consumer are in the middle of a call.
            await until(lambda: waiting() == 2)


async def test_a_wrong_url_is_refused() -> None:
    with pytest.raises(ValueError, match="not a Redis URL"):
        await run_workload("http://localhost", stop=asyncio.Event())
