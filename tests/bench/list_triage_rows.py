"""Removing 10,000 items that lie all over a list of a million: how long the server is held at a time."""

import asyncio
import random
import tempfile
import time
from pathlib import Path

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import parse_filter
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.scope import Matching
from tests.bench.row import Measured, Row, Run, Sense
from tests.triage.list_doing import list_changes

_QUEUE, _FILTER = "queue:jobs", "body:chargeback"
_ITEMS, _SCATTERED, _NAIVE = 1_000_000, 10_000, 20
_LONGEST_MS = 50.0
_LOGGED_US = 1_000


def _longest_call(run: Run) -> Measured:
    """Find them by a filter and remove them, and look up the longest call; then a few as one does by hand."""
    items, scattered = run.size(_ITEMS, 2_000), run.size(_SCATTERED, 50)
    chosen = set(random.Random(7).sample(range(items), scattered))
    with (
        EmbeddedServer() as server,
        redis.Redis(host="127.0.0.1", port=server.port) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        for start in range(0, items, 1_000):
            client.lpush(_QUEUE, *(_item(number, number in chosen) for number in range(start, start + 1_000)))
        client.config_set("slowlog-log-slower-than", _LOGGED_US)
        client.config_set("slowlog-max-len", 100_000)
        client.slowlog_reset()
        started_s = time.perf_counter()
        asyncio.run(_remove(server.url, Path(folder), scattered))
        taken_s = time.perf_counter() - started_s
        longest_ms = _longest_ms(client)
        client.slowlog_reset()
        started_s = time.perf_counter()
        naive = random.Random(8).sample(sorted(set(range(items)) - chosen), _NAIVE)
        for number in naive:
            client.lrem(_QUEUE, 1, _item(number, False))
        naive_s = (time.perf_counter() - started_s) * scattered / _NAIVE
        note = f"{taken_s:.1f} s in all; LREM one by one: up to {_longest_ms(client):.0f} ms, {naive_s:,.0f} s in all"
    return Measured(longest_ms, _LONGEST_MS, note)


def _item(number: int, is_wanted: bool) -> bytes:
    kind = "chargeback" if is_wanted else "payment"
    return b'{"id":%d,"type":"%s","pad":"%s"}' % (number, kind.encode(), b"x" * 66)


async def _remove(url: str, folder: Path, scattered: int) -> None:
    lists = list_changes(url, ListNames(), folder)
    try:
        preview = await lists.preview(Delete(queue=_QUEUE), Matching(parse_filter(_FILTER)))
        report = await lists.run(preview).to_end()
    finally:
        await lists.aclose()
    if report.tally.done != scattered:
        raise RuntimeError(report.sentence)


def _longest_ms(client: redis.Redis) -> float:
    return max((entry["duration"] / 1000 for entry in client.slowlog_get(100_000)), default=_LOGGED_US / 1000)


ROWS = (
    Row(
        "removing 10,000 scattered items of 1,000,000, longest server call",
        "50 ms",
        "ms",
        Sense.AT_MOST,
        1.0,
        _longest_call,
    ),
)
