"""A poll of every list queue, against one of as many queues of RSMQ."""

import asyncio
import time
from contextlib import ExitStack

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.protocol.lists.reader import ListReader
from tests.bench.list_queues import NAMES, ListBacklog
from tests.bench.measure import Sample, interleave
from tests.bench.queues import NS, Backlog
from tests.bench.row import Measured, Row, Run, Sense

# As in ``poll_rows``: between two polls of either side all of its busy tenth changes.
_CHANGED_SHARE = 0.10


def _against_rsmq(run: Run) -> Measured:
    count = run.size(10_000, 20)
    with ExitStack() as stack:
        loop = stack.enter_context(asyncio.Runner())
        servers = [stack.enter_context(EmbeddedServer()) for _ in range(2)]
        clients = [stack.enter_context(redis.Redis.from_url(server.url)) for server in servers]
        lists, queues = ListBacklog(clients[0], count), Backlog(clients[1], count)
        run.say(f"filling {count:,} queues of each kind")
        lists.fill()
        queues.fill()

        async def start() -> tuple[ListPoller, RsmqPoller]:
            return (
                ListPoller(ListReader(servers[0].url, NAMES, lists.names)),
                RsmqPoller(RsmqReader(servers[1].url, NS)),
            )

        pollers = loop.run(start())

        async def timed_poll(poller: ListPoller | RsmqPoller) -> float:
            started_s = time.perf_counter()
            snapshot = await poller.poll()
            taken_s = time.perf_counter() - started_s
            if snapshot.connection.failure is not None or len(snapshot.queues) != count:
                raise RuntimeError(f"the poll failed: {snapshot.connection.failure}")
            return taken_s * 1000

        def ours() -> Sample:
            lists.change(_CHANGED_SHARE)
            return lambda: loop.run(timed_poll(pollers[0]))

        def other() -> Sample:
            queues.change(_CHANGED_SHARE)
            return lambda: loop.run(timed_poll(pollers[1]))

        try:
            return interleave(run, ours, other, pairs=40, warm_up=3, limit_s=25)
        finally:
            for poller in pollers:
                loop.run(poller.aclose())


ROWS = (
    Row(
        "poll of 10,000 list queues, wall",
        "a poll of 10,000 RSMQ queues",
        "ms",
        Sense.AT_MOST,
        1.0,
        _against_rsmq,
    ),
)
