"""What finding events adds to a poll of 10,000 queues."""

import asyncio
import time

import redis

from rsmq_tui.embedded import EmbeddedServer
from rsmq_tui.events.detector import QueueDetector, ServerDetector
from rsmq_tui.monitor import LivePoller, Snapshot
from rsmq_tui.protocol import QueueReader
from tests.bench.measure import Sample, interleave
from tests.bench.queues import NS, Backlog
from tests.bench.row import Measured, Row, Run, Sense

# As in ``poll_rows``: between two polls of either side all of the busy tenth changes.
_CHANGED_SHARE = 0.10


def _with_events(run: Run) -> Measured:
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client, asyncio.Runner() as loop:
        backlog = Backlog(client, run.size(10_000, 20))
        run.say("filling")
        backlog.fill()

        async def start() -> LivePoller:
            return LivePoller(QueueReader(server.url, NS))

        watched, alone = loop.run(start()), loop.run(start())
        queues = QueueDetector(server.url, NS, watched.thresholds)
        link = ServerDetector(server.url)

        def detect(snapshot: Snapshot) -> None:
            link.take("", snapshot.link.failure, snapshot.at_ms)
            queues.take(snapshot)

        async def poll(poller: LivePoller, *, with_events: bool) -> float:
            spent_s = time.process_time()
            snapshot = await poller.poll()
            if with_events:
                detect(snapshot)
            taken_s = time.process_time() - spent_s
            if len(snapshot.queues) != len(backlog.names):
                raise RuntimeError(f"the poll failed: {snapshot.link.failure}")
            return taken_s * 1000

        def ours() -> Sample:
            backlog.change(_CHANGED_SHARE / 2)
            return lambda: loop.run(poll(watched, with_events=True))

        def other() -> Sample:
            backlog.change(_CHANGED_SHARE / 2)
            return lambda: loop.run(poll(alone, with_events=False))

        try:
            return interleave(run, ours, other, pairs=30, warm_up=3, limit_s=30)
        finally:
            loop.run(watched.aclose())
            loop.run(alone.aclose())


ROWS = (
    Row(
        "processor time of a poll with events, 10,000 queues",
        "the poll alone",
        "ms",
        Sense.AT_MOST,
        1.1,
        _with_events,
    ),
)
