"""The cost of finding events, applying alert rules and other work beside a poll of 10,000 queues."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.places import OwnChanges
from rsmq_tui.events.alerts.rules import AlertRules
from rsmq_tui.events.detector import QueueDetector, ServerDetector
from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.profiles.alerts import Rule, read_condition
from rsmq_tui.protocol import RsmqReader
from tests.bench.measure import Sample, interleave
from tests.bench.queues import NS, Backlog
from tests.bench.row import Measured, Row, Run, Sense

# As in ``poll_rows``: between two polls of either side all of the busy tenth changes.
_CHANGED_SHARE = 0.10
# For the row with everything: most of many queues are idle for some seconds.
_SOME_SHARE = 0.01


_RULES = ("trouble", "depth > 1000000", "oldest > 100d", "server gone")

_Take = Callable[[Snapshot], object]


def _events(poller: RsmqPoller) -> _Take:
    server = poller.reader.label
    queues, link = QueueDetector(server, NS, poller.thresholds), ServerDetector(server)

    def take(snapshot: Snapshot) -> None:
        link.observe("", snapshot.connection.failure, snapshot.at_ms)
        queues.observe(snapshot)

    return take


def _alerts(poller: RsmqPoller) -> _Take:
    rules = AlertRules([Rule(text, read_condition(text)) for text in _RULES])

    def take(snapshot: Snapshot) -> None:
        rules.apply(snapshot, poller.thresholds, profile="", now_ms=snapshot.at_ms, wall_s=snapshot.at_ms / 1000)

    return take


def _everything(poller: RsmqPoller) -> _Take:
    events, alerts = _events(poller), _alerts(poller)

    def take(snapshot: Snapshot) -> None:
        events(snapshot)
        alerts(snapshot)

    return take


def _with(
    run: Run, made: Callable[[RsmqPoller], _Take], share: float = _CHANGED_SHARE, *, remembers: bool = False
) -> Measured:
    with (
        EmbeddedServer() as server,
        redis.Redis.from_url(server.url) as client,
        asyncio.Runner() as loop,
        tempfile.TemporaryDirectory() as folder,
    ):
        backlog = Backlog(client, run.size(10_000, 20))
        run.say("filling")
        backlog.fill()

        async def start(memory: Memory | None = None) -> RsmqPoller:
            return RsmqPoller(RsmqReader(server.url, NS), memory_of=lambda _: memory)

        watched, alone = loop.run(start(Memory(Path(folder)) if remembers else None)), loop.run(start())
        if remembers:
            watched.own_changes = OwnChanges(Path(folder) / "journal.sqlite").since_last
        taken = made(watched)

        async def poll(poller: RsmqPoller, take: _Take | None) -> float:
            spent_s = time.process_time()
            snapshot = await poller.poll()
            if take is not None:
                take(snapshot)
            taken_s = time.process_time() - spent_s
            if len(snapshot.queues) != len(backlog.names):
                raise RuntimeError(f"the poll failed: {snapshot.connection.failure}")
            return taken_s * 1000

        def ours() -> Sample:
            backlog.change(share / 2)
            return lambda: loop.run(poll(watched, taken))

        def other() -> Sample:
            backlog.change(share / 2)
            return lambda: loop.run(poll(alone, None))

        try:
            return interleave(run, ours, other, pairs=30, warm_up=3, limit_s=30)
        finally:
            loop.run(watched.aclose())
            loop.run(alone.aclose())


ROWS = tuple(
    Row(
        f"processor time of a poll with {what}, 10,000 queues",
        "the poll alone",
        "ms",
        Sense.AT_MOST,
        1.1,
        measure,
    )
    for what, measure in (
        ("events", partial(_with, made=_events)),
        (f"{len(_RULES)} alert rules", partial(_with, made=_alerts)),
        ("everything on", partial(_with, made=_everything, share=_SOME_SHARE, remembers=True)),
    )
)
