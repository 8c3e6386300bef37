"""Reapers that go on by themselves: until when, who is told, and what an error does."""

import asyncio

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from rsmq_tui.protocol import AsyncListQueue, ListQueue, Reaped
from rsmq_tui.protocol.lists.client import AsyncReaper, Reaper

QUEUE = "queue:orders"


@pytest.fixture
def stuck(db: redis.Redis) -> ListQueue:
    """A queue whose worker has died."""
    orders = ListQueue(db, "orders")
    orders.push("a")
    orders.take(0)
    return orders


def test_a_loop_reaps_until_it_is_stopped(stuck: ListQueue, db: redis.Redis) -> None:
    answer: list[tuple[str, Reaped]] = []
    letters = ListQueue(db, "letters")

    def tell(queue: str, reaped: Reaped) -> None:
        answer.append((queue, reaped))
        if len(answer) == 2:
            reaper.stop()
        else:
            letters.push("x", "y")
            assert letters.take(0)
            assert letters.take(0)

    reaper = Reaper([ListQueue(db, "empty"), stuck, letters], interval_s=0.001, on_reaped=tell)
    reaper.run()
    assert answer == [(QUEUE, Reaped(returned=1)), ("queue:letters", Reaped(returned=2))]


async def test_a_loop_of_asyncio_reaps_until_it_is_cancelled(
    stuck: ListQueue, adb: redis.asyncio.Redis, db: redis.Redis
) -> None:
    answer: asyncio.Queue[tuple[str, Reaped]] = asyncio.Queue()
    queues = [AsyncListQueue(adb, name) for name in ("empty", "orders")]
    reaper = AsyncReaper(queues, interval_s=0.001, on_reaped=lambda *done: answer.put_nowait(done))
    running = asyncio.create_task(reaper.run())
    assert await answer.get() == (QUEUE, Reaped(returned=1))
    stuck.take(0)
    assert await answer.get() == (QUEUE, Reaped(returned=1))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("tells", [True, False])
async def test_a_loop_ends_with_an_error_unless_somebody_is_told(unused_tcp_port: int, tells: bool) -> None:
    answer: list[str] = []
    client = redis.Redis(port=unused_tcp_port, retry=Retry(NoBackoff(), 0))
    aclient = redis.asyncio.Redis(port=unused_tcp_port, retry=AsyncRetry(NoBackoff(), 0))

    def tell(queue: str, error: Exception) -> None:
        assert isinstance(error, redis.ConnectionError)
        answer.append(queue)
        reaper.stop()
        if len(answer) == 2:
            running.cancel()

    reaper = Reaper([ListQueue(client, "orders")], interval_s=0.001, on_error=tell if tells else None)
    areaper = AsyncReaper([AsyncListQueue(aclient, "orders")], interval_s=0.001, on_error=tell if tells else None)
    running = asyncio.create_task(areaper.run())
    if tells:
        reaper.run()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert answer == [QUEUE, QUEUE]
    else:
        with pytest.raises(redis.ConnectionError):
            reaper.run()
        with pytest.raises(redis.ConnectionError):
            await running
    client.close()
    await aclient.aclose()
