"""A poll of every queue, against asking for each queue and against a pipeline of the same reads."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import RsmqPoller
from tests.bench.measure import Sample, interleave
from tests.bench.queues import NS, Backlog, filled, poller_on
from tests.bench.row import Measured, Row, Run, Sense

# Before each sample of either side half of the busy tenth changes: between two polls of ours, all of it has. Rows that
# stay the same cost less to poll, so a server at rest would flatter ours.
_CHANGED_SHARE = 0.10
# On a server of very many queues, few are at work at a time.
_RARELY_CHANGED_SHARE = 0.01
_FIELDS = ("vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv")


@dataclass(frozen=True, slots=True)
class _Scene:
    """A filled server, our poller on it, and the loop that the poller lives in."""

    server: EmbeddedServer
    backlog: Backlog
    poller: RsmqPoller
    loop: asyncio.Runner
    changed: float

    def ours(self) -> Sample:
        return self.changed_before(lambda: self.loop.run(self._timed_poll()))()

    def changed_before(self, sample: Sample) -> Callable[[], Sample]:
        """Return what changes half of what is to change, before each sample."""

        def prepare() -> Sample:
            self.backlog.change(self.changed / 2)
            return sample

        return prepare

    async def _timed_poll(self) -> float:
        started_s = time.perf_counter()
        snapshot = await self.poller.poll()
        taken_s = time.perf_counter() - started_s
        if snapshot.connection.failure is not None or len(snapshot.queues) != len(self.backlog.names):
            raise RuntimeError(f"the poll failed: {snapshot.connection.failure}")
        return taken_s * 1000


@contextmanager
def _scene(run: Run, count: int, changed: float = _CHANGED_SHARE) -> Iterator[_Scene]:
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client, asyncio.Runner() as loop:
        backlog, poller = filled(run, client, count, busy=changed), poller_on(server, loop)
        try:
            yield _Scene(server, backlog, poller, loop, changed)
        finally:
            loop.run(poller.aclose())


def _against_pyrsmq(run: Run) -> Measured:
    from rsmq import RedisSMQ

    with _scene(run, run.size(1_000, 20)) as scene:
        peer = RedisSMQ(host="127.0.0.1", port=scene.server.port, ns=NS)

        def ask_for_each() -> float:
            started_s = time.perf_counter()
            # It is given the names; ours reads them.
            for name in scene.backlog.names:
                peer.getQueueAttributes(qname=name).execute()
            return (time.perf_counter() - started_s) * 1000

        return interleave(run, scene.ours, scene.changed_before(ask_for_each), pairs=20, warm_up=2, limit_s=10)


def _against_pipeline(run: Run) -> Measured:
    with _scene(run, run.size(10_000, 20)) as scene, redis.Redis.from_url(scene.server.url) as client:
        keys = [(f"{NS}:{name}", f"{NS}:{name}:Q") for name in scene.backlog.names]

        def pipelined() -> float:
            started_s = time.perf_counter()
            now_ms = int(time.time() * 1000)
            with client.pipeline(transaction=False) as pipeline:
                for zset, attributes in keys:
                    pipeline.hmget(attributes, *_FIELDS)
                    pipeline.zcard(zset)
                    pipeline.zcount(zset, f"({now_ms}", "+inf")
                    pipeline.zrange(zset, 0, 0, withscores=True)
                pipeline.execute()
            return (time.perf_counter() - started_s) * 1000

        return interleave(run, scene.ours, scene.changed_before(pipelined), pairs=20, warm_up=3, limit_s=22)


def _against_a_tenth(run: Run) -> Measured:
    with (
        _scene(run, run.size(100_000, 40), 2 * _RARELY_CHANGED_SHARE) as many,
        _scene(run, run.size(10_000, 20), 2 * _RARELY_CHANGED_SHARE) as few,
    ):
        return interleave(run, many.ours, few.ours, pairs=20, warm_up=3, limit_s=30)


ROWS = (
    Row(
        "poll of 1,000 queues, wall",
        "PyRSMQ getQueueAttributes in a loop",
        "ms",
        Sense.TIMES_LESS,
        30,
        _against_pyrsmq,
    ),
    Row(
        "poll of 10,000 queues, wall",
        "a redis-py pipeline of the same reads",
        "ms",
        Sense.TIMES_LESS,
        6,
        _against_pipeline,
    ),
    Row(
        "poll of 100,000 queues, a hundredth change, wall",
        "a poll of 10,000 queues, a hundredth of which change",
        "ms",
        Sense.AT_MOST,
        4,
        _against_a_tenth,
    ),
)
