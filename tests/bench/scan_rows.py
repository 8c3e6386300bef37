"""Searching a queue of a million messages: against a loop that only reads them, and how long its calls take."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import Filter, parse_filter, search
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.protocol.rsmq.scan import CHUNK_MESSAGES
from tests.bench.measure import ProcessorTimes, Sample, interleave
from tests.bench.peek_rows import _QUEUE, _fill
from tests.bench.queues import NS
from tests.bench.row import Measured, Row, Run, Sense
from tests.hostile.proxy import Proxy

_DEPTH = 1_000_000
_LONGEST_MS = 5.0
# The bare loop reads them in twenty seconds.
_LINK_DEPTH = 200_000
_LINK_BYTES_S, _LINK_ROUND_TRIP_S = 100e6 / 8, 0.02
# Slower calls than this are in the server's log; that of a scan holds some hundreds of them.
_LOGGED_US = 500
_ZSET, _HASH = f"{NS}:{_QUEUE}", f"{NS}:{_QUEUE}:Q"


@contextmanager
def _filled(run: Run, full: int) -> Iterator[tuple[EmbeddedServer, redis.Redis, int]]:
    depth = run.size(full, 2_000)
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        _fill(run, client, depth)
        yield server, client, depth


async def _search(url: str, wanted: Filter, depth: int, *, whole: bool) -> float:
    """Search the queue, and return how many seconds that takes."""
    reader = RsmqReader(url, NS)
    try:
        started_s, scanned, matched = time.perf_counter(), 0, 0
        async for progress in search(reader, _QUEUE, wanted, counts=whole, bodies=True):
            scanned, matched = progress.scanned, progress.matched
        taken_s = time.perf_counter() - started_s
    finally:
        await reader.aclose()
    # Through a slow link, messages are counted where they are: about, where two parts of a scan meet.
    if abs(scanned - depth) > depth / 1_000 or not 0 < matched < depth:
        raise RuntimeError(f"{scanned:,} searched and {matched:,} found of {depth:,}")
    return taken_s


def _read_all(client: redis.Redis, depth: int) -> float:
    """Read every body by rank, as one writes it first, in steps of the same size; return the seconds it took."""
    started_s, read = time.perf_counter(), 0
    while ids := client.zrange(_ZSET, read, read + CHUNK_MESSAGES - 1):
        read += len(client.hmget(_HASH, ids))
    taken_s = time.perf_counter() - started_s
    if read != depth:
        raise RuntimeError(f"{read:,} read of {depth:,}")
    return taken_s


def _throughput(run: Run) -> Measured:
    wanted = parse_filter(r"body~7[0-9]7")
    with _filled(run, _DEPTH) as (server, client, depth):
        processor = ProcessorTimes(client)

        def ours() -> Sample:
            return processor.of("ours", lambda: asyncio.run(_search(server.url, wanted, depth, whole=False)))

        def other() -> Sample:
            return processor.of("other", lambda: _read_all(client, depth))

        measured = interleave(run, ours, other, pairs=5, warm_up=1, limit_s=60)
        return replace(measured, note=processor.note(Sense.AT_MOST))


def _through_a_link(run: Run) -> Measured:
    wanted = parse_filter(r"body~7[0-9]7")
    with _filled(run, _LINK_DEPTH) as (server, local, depth), Proxy(server.port) as proxy:
        proxy.slow(_LINK_BYTES_S, _LINK_ROUND_TRIP_S)
        processor = ProcessorTimes(local)
        with redis.Redis.from_url(proxy.url) as client:

            def ours() -> Sample:
                return processor.of("ours", lambda: asyncio.run(_search(proxy.url, wanted, depth, whole=False)))

            def other() -> Sample:
                return processor.of("other", lambda: _read_all(client, depth))

            measured = interleave(run, ours, other, pairs=5, warm_up=0, limit_s=60)
        local.config_set("latency-tracking-info-percentiles", "100")
        local.config_resetstat()
        asyncio.run(_search(proxy.url, wanted, depth, whole=False))
        calls = local.info("latencystats").items()
        longest_ms = max(found["p100"] for name, found in calls if "info" not in name and "config" not in name) / 1000
        return replace(measured, note=f"{processor.note(Sense.TIMES_LESS)}; longest call {longest_ms:.2f} ms")


def _longest_call(run: Run) -> Measured:
    """Search with everything that a scan can read, and look up its longest calls."""
    wanted = parse_filter(r"rc>=0 body~7[0-9]7")
    with _filled(run, _DEPTH) as (server, client, depth):
        client.config_set("slowlog-log-slower-than", _LOGGED_US)
        client.config_set("slowlog-max-len", 100_000)
        client.slowlog_reset()
        asyncio.run(_search(server.url, wanted, depth, whole=True))
        logged = client.slowlog_get(100_000)
        durations = sorted(entry["duration"] / 1000 for entry in logged if b"SLOWLOG" not in entry["command"])
        longest_ms = durations[-1] if durations else _LOGGED_US / 1000
        calls = 2 * depth // CHUNK_MESSAGES
        note = f"{len(durations):,} of about {calls:,} calls took more than {_LOGGED_US / 1000:g} ms"
        return Measured(longest_ms, _LONGEST_MS, note)


ROWS = (
    Row(
        "scan with body~regex over 1,000,000 messages",
        "a redis-py loop of ZRANGE and HMGET that only reads",
        "s",
        Sense.AT_MOST,
        1.0,
        _throughput,
    ),
    Row(
        "scan with body~regex over 200,000 messages, slow link",
        "the same loop through it: 100 Mbit/s and 20 ms",
        "s",
        Sense.TIMES_LESS,
        5,
        _through_a_link,
    ),
    Row(
        "scan of 1,000,000 messages, longest server call",
        "5 ms",
        "ms",
        Sense.AT_MOST,
        1.0,
        _longest_call,
    ),
)
