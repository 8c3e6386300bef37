"""The cost of the memory across restarts: a restart, and the polls in between."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.monitor.tracking import memory
from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.protocol import RsmqReader
from tests.bench.measure import Sample, interleave
from tests.bench.queues import NS, Backlog, filled
from tests.bench.row import Measured, Row, Run, Sense

_CHANGED_SHARE = 0.10
# With a poll a second, the polls between two writes.
_POLLS = memory.EVERY_MS // 1000


@contextmanager
def _served(run: Run) -> Iterator[tuple[str, Backlog, asyncio.Runner, Path]]:
    """Start a server with many queues, an event loop, and a folder."""
    with (
        EmbeddedServer() as server,
        redis.Redis.from_url(server.url) as client,
        asyncio.Runner() as loop,
        tempfile.TemporaryDirectory() as folder,
    ):
        yield server.url, filled(run, client, run.size(10_000, 20)), loop, Path(folder)


async def _first_poll(url: str, kept: Memory | None) -> float:
    """Return how long it takes to make a poller and poll once, in ms."""
    started_s = time.perf_counter()
    poller = RsmqPoller(RsmqReader(url, NS), memory_of=lambda _: kept)
    snapshot = await poller.poll()
    taken_s = time.perf_counter() - started_s
    await poller.reader.aclose()
    assert snapshot.connection.failure is None, snapshot.connection.failure
    assert (len(snapshot.trend.times_ms) > 1) is (kept is not None)
    return taken_s * 1000


def _restart(run: Run) -> Measured:
    with _served(run) as (url, _, loop, path):

        async def hour() -> None:
            """Write an hour, of buckets that all have the same counters."""
            poller = RsmqPoller(RsmqReader(url, NS), memory_of=lambda _: Memory(path))
            snapshot = await poller.poll()
            moment = poller._tracker.moment()
            kept = Memory(path)
            for number in range(run.size(120, 3), 0, -1):
                kept.save(replace(moment, at_ms=snapshot.at_ms - number * memory.EVERY_MS))
            assert kept.problem is None
            await poller.aclose()

        loop.run(hour())

        def ours() -> Sample:
            return lambda: loop.run(_first_poll(url, Memory(path)))

        def other() -> Sample:
            return lambda: loop.run(_first_poll(url, None))

        return interleave(run, ours, other, pairs=8, warm_up=1, limit_s=25)


def _polls(run: Run) -> Measured:
    with _served(run) as (url, backlog, loop, path):
        kept = Memory(path)

        async def start() -> RsmqPoller:
            return RsmqPoller(RsmqReader(url, NS))

        poller = loop.run(start())

        async def polled(*, writes: bool) -> float:
            spent_s = time.process_time()
            for _ in range(run.size(_POLLS, 2)):
                assert (await poller.poll()).connection.failure is None
            if writes:
                await asyncio.to_thread(kept.save, poller._tracker.moment())
                assert kept.problem is None
            return (time.process_time() - spent_s) * 1000

        def sample(*, writes: bool) -> Sample:
            backlog.change(_CHANGED_SHARE / 2)
            return lambda: loop.run(polled(writes=writes))

        try:
            return interleave(
                run, lambda: sample(writes=True), lambda: sample(writes=False), pairs=8, warm_up=1, limit_s=40
            )
        finally:
            loop.run(poller.aclose())


ROWS = (
    Row("first poll of a restart, 10,000 queues, an hour kept", "nothing kept", "ms", Sense.AT_MOST, 1.3, _restart),
    Row("30 polls of 10,000 queues and a write, processor", "without the write", "ms", Sense.AT_MOST, 1.1, _polls),
)
