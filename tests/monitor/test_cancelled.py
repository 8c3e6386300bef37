"""A poll, a scan and a check end by a cancel at every moment of them, and what is read afterwards is right."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.monitor import RsmqPoller, Thresholds
from rsmq_tui.monitor.checks import CheckLimit, LastSeen, Limits, check
from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.monitor.filters.search import search
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.cancelled import cancelled_at_each_turn, cancelled_at_random

pytestmark = pytest.mark.slow

TIMES = 80
# As many turns as each has at least.
TURNS = 50
QUEUES = 30
MESSAGES = 1_500


@pytest.fixture
def queues(client: Redis) -> None:
    queues = Rsmq(client)
    for number in range(QUEUES):
        queues.create_queue(f"q{number}", maxsize=-1)
    queues.send_messages("q0", [b"x"] * MESSAGES)


@pytest.fixture
async def poller(queues: None, redis_url: str) -> AsyncIterator[RsmqPoller]:
    async with aclosing(RsmqPoller(RsmqReader(redis_url))) as opened:
        yield opened


async def test_polls(poller: RsmqPoller, client: Redis) -> None:
    async def poll(number: int) -> None:
        client.hset("rsmq:q1:Q", "totalsent", number)
        snapshot = await poller.poll()
        assert snapshot.connection.failure is None
        assert [queue.depth for queue in snapshot.queues].count(0) == QUEUES - 1

    assert await cancelled_at_each_turn(poll) > TURNS
    assert await cancelled_at_random(poll, times=TIMES, within_s=0.006, seed=1) > TIMES / 8
    await poll(-1)


async def test_first_polls(queues: None, redis_url: str) -> None:
    async with AsyncExitStack() as stack:

        async def poll(_: int) -> None:
            poller = await stack.enter_async_context(aclosing(RsmqPoller(RsmqReader(redis_url))))
            assert len((await poller.poll()).queues) == QUEUES

        assert await cancelled_at_each_turn(poll) > TURNS
        assert await cancelled_at_random(poll, times=TIMES, within_s=0.01, seed=2) > TIMES / 8


async def test_scans(queues: None, redis_url: str) -> None:
    async with aclosing(RsmqReader(redis_url)) as reader:

        async def scan(_: int) -> None:
            wanted = parse_filter("rc>=0")
            async with aclosing(search(reader, "q0", wanted, counts=True, bodies=True, sizes=False)) as coming:
                assert sum([len(progress.messages) async for progress in coming]) == MESSAGES

        assert await cancelled_at_each_turn(scan) > TURNS
        assert await cancelled_at_random(scan, times=TIMES, within_s=0.015, seed=3) > TIMES / 8
        await scan(-1)


async def test_checks(queues: None, redis_url: str, tmp_path: Path) -> None:
    async with aclosing(RsmqReader(redis_url)) as reader:
        last_seen = LastSeen(tmp_path, reader.label, reader.ns)

        async def look(_: int) -> None:
            found = await check(reader, Limits(rc=CheckLimit(None, 1)), Thresholds(), last_seen)
            assert [(problem.kind, problem.queue) for problem in found.problems] == []

        assert await cancelled_at_each_turn(look) > TURNS
        assert await cancelled_at_random(look, times=TIMES, within_s=0.015, seed=4) > TIMES / 8
        await look(-1)
