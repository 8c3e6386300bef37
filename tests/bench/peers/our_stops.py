"""The dashboard with events and alerts on a live server, and the longest time for which it did nothing else."""

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from rsmq_tui.events.alerts.runner import AlertRunner
from rsmq_tui.events.recorder import EventRecorder
from rsmq_tui.monitor import RsmqPoller, Snapshot, Thresholds, Verdict
from rsmq_tui.profiles.alerts import Alerts, Rule, read_condition
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.bench.peers.channel import Channel
from tests.bench.queues import NS

_BEAT_S = 0.001
# A queue from which nothing was received between two ticks is stalled.
TICK_S, _STALLED_MS = 1.5, 1_000


class Stepped:
    """A live poller that polls on request.

    It answers with the longest processor time, in seconds, that the loop was away from a task that is always due, and
    with how many queues are stalled.
    """

    def __init__(self, poller: RsmqPoller, channel: Channel) -> None:
        self.thresholds = poller.thresholds
        self.aclose, self.peek, self.look_first = poller.aclose, poller.peek, poller.look_first
        self._poller = poller
        self._channel = channel
        self._longest_s = 0.0

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield a snapshot for each line."""
        self._channel.listen()
        beating = asyncio.create_task(self._beat())
        while await self._channel.next() is not None:
            gc.collect()
            # The collection is none of it.
            await asyncio.sleep(2 * _BEAT_S)
            self._longest_s, started_s = 0.0, time.monotonic()
            snapshot = await self._poller.poll()
            yield snapshot
            await asyncio.sleep(TICK_S - (time.monotonic() - started_s))
            self._channel.tell(f"{self._longest_s} {snapshot.totals.verdicts[Verdict.STALLED]}")
        beating.cancel()

    async def _beat(self) -> None:
        before_s = time.thread_time()
        while True:
            await asyncio.sleep(_BEAT_S)
            now_s = time.thread_time()
            self._longest_s, before_s = max(self._longest_s, now_s - before_s), now_s


def _alerts(write: Callable[[str], None], acknowledged: Callable[[Snapshot], set[str]]) -> AlertRunner:
    runner = AlertRunner(Alerts(rules=(Rule("trouble", read_condition("trouble")),)), write, acknowledged=acknowledged)
    runner.start()
    return runner


def _events(folder: str) -> EventRecorder:
    recorder = EventRecorder(Path(folder))
    recorder.start()
    return recorder


if __name__ == "__main__":
    url, *descriptors = sys.argv[1:]
    with tempfile.TemporaryDirectory() as state:
        thresholds = Thresholds(stalled_ms=_STALLED_MS, clear_ms=0)
        source: Any = Stepped(RsmqPoller(RsmqReader(url, NS), thresholds=thresholds), Channel(*descriptors))
        RsmqApp([WatchedServer(source)], events=lambda: _events(state), alerts=_alerts).run()
