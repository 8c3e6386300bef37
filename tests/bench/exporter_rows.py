"""What a scrape costs: the metrics of 10,000 queues, written and compressed."""

import asyncio
import gzip
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import redis
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.web.exporter.poller import PollTotals, Reading, Target
from rsmq_tui.web.exporter.server import Renderer
from tests.bench.measure import Sample, interleave
from tests.bench.queues import filled, poller_on
from tests.bench.row import Measured, Row, Run, Sense


def _scrape(run: Run) -> Measured:
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client, asyncio.Runner() as loop:
        filled(run, client, run.size(10_000, 20))
        poller = poller_on(server, loop)
        snapshot = loop.run(poller.poll())
        loop.run(poller.aclose())
    if (failure := snapshot.connection.failure) is not None:
        raise RuntimeError(f"the poll failed: {failure}")
    readings = (Reading(Target("", snapshot.server, snapshot.ns), snapshot, None, PollTotals()),)
    written, _ = Renderer().render(readings, "", "gzip", ())
    # The samples exist before: what it costs to make them is not in the figure of the other side.
    families = list(text_string_to_metric_families(gzip.decompress(written).decode()))
    registry: Any = SimpleNamespace(collect=lambda: families)

    def timed(write: Callable[[], object]) -> Sample:
        def sample() -> float:
            began_s = time.process_time()
            write()
            return (time.process_time() - began_s) * 1000

        return sample

    return interleave(
        run,
        # A new one each time: it keeps its last response.
        lambda: timed(lambda: Renderer().render(readings, "", "gzip", ())),
        lambda: timed(lambda: gzip.compress(generate_latest(registry), compresslevel=1)),
        pairs=6,
        limit_s=25,
    )


ROWS = (
    Row(
        "scrape of 10,000 queues, compressed, processor time",
        "prometheus_client that writes the same samples",
        "ms",
        Sense.TIMES_LESS,
        4,
        _scrape,
    ),
)
