"""Paging through a queue of a million messages: from the middle on, against from the head on."""

import asyncio
import time

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import PageRequest
from rsmq_tui.protocol import Anchor, Rsmq, make_id
from tests.bench.measure import Sample, Side, interleave
from tests.bench.queues import NS, bodies, poller_on
from tests.bench.row import Measured, Row, Run, Sense

_QUEUE = "jobs-backlog"
_DEPTH = 1_000_000
_PAGES = 200
_CHUNK = 10_000


def _fill(run: Run, client: redis.Redis, depth: int) -> None:
    """Write messages a millisecond apart, as if they had been sent until now, some of them received before."""
    Rsmq(client, ns=NS).create_queue(_QUEUE)
    some = bodies(300)
    first_ms = int(time.time() * 1000) - depth
    for start in range(0, depth, _CHUNK):
        scores: dict[str | bytes, float] = {}
        fields: dict[str, str | bytes | int] = {}
        for number in range(start, min(start + _CHUNK, depth)):
            id = make_id((first_ms + number) * 1000)
            scores[id] = first_ms + number
            fields[id] = some[number % len(some)]
            if number % 4 == 0:
                fields[f"{id}:rc"] = 1
                fields[f"{id}:fr"] = first_ms + number
        client.zadd(f"{NS}:{_QUEUE}", scores)
        client.hset(f"{NS}:{_QUEUE}:Q", mapping=fields)
        run.say(f"filling {start + _CHUNK:,} of {depth:,}")
    client.hset(f"{NS}:{_QUEUE}:Q", "totalsent", depth)


def _anchor_before(client: redis.Redis, rank: int) -> Anchor:
    ((id, score),) = client.zrange(f"{NS}:{_QUEUE}", rank - 1, rank - 1, withscores=True)
    return Anchor(f"{score:.0f}", id.decode())


def _measure(run: Run) -> Measured:
    depth = run.size(_DEPTH, 2_000)
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client, asyncio.Runner() as loop:
        _fill(run, client, depth)
        poller = poller_on(server, loop)

        async def timed(request: PageRequest, start: int) -> tuple[float, Anchor]:
            started_s = time.perf_counter()
            page = await poller.peek(request)
            taken_s = time.perf_counter() - started_s
            if page.start != start or len(page.rows) != request.count or page.depth != depth:
                raise RuntimeError(f"a page of {len(page.rows)} at {page.start:,}, not {request.count} at {start:,}")
            return taken_s * 1000, page.rows[-1].anchor

        def pages_from(rank: int) -> Side:
            # Each sample is the next page, as somebody who pages on reads them, so that no page is read twice.
            start = rank
            anchor = _anchor_before(client, rank) if rank else None

            def sample() -> float:
                nonlocal start, anchor
                request = PageRequest(_QUEUE, where="after" if anchor else "first", anchor=anchor)
                taken_ms, anchor = loop.run(timed(request, start))
                start += request.count
                return taken_ms

            def side() -> Sample:
                return sample

            return side

        try:
            return interleave(run, pages_from(depth // 2), pages_from(0), pairs=_PAGES, warm_up=5, limit_s=10)
        finally:
            loop.run(poller.aclose())


ROWS = (
    Row(
        "peek page 500,000 deep in a queue of 1,000,000",
        "the same page at the head",
        "ms",
        Sense.AT_MOST,
        1.3,
        _measure,
    ),
)
