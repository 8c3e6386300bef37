"""The dashboard on a live server, one tick whenever the bench says so, and what each cost the processor."""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.bench.peers.channel import Channel
from tests.bench.queues import NS

# A tick is all that happens in its second: the poll, what it changes on the screen, and the dashboard's own timers.
_TICK_S = 1.0


class Stepped:
    """A live poller that polls on request, and reports the processor time of the second that follows."""

    def __init__(self, poller: RsmqPoller, channel: Channel) -> None:
        self.thresholds = poller.thresholds
        self.aclose, self.peek = poller.aclose, poller.peek
        self._poller = poller
        self._channel = channel

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield a snapshot for each line."""
        self._channel.listen()
        while await self._channel.next() is not None:
            gc.collect()
            started_s, spent_s = time.monotonic(), time.process_time()
            yield await self._poller.poll()
            await asyncio.sleep(_TICK_S - (time.monotonic() - started_s))
            self._channel.tell(str(time.process_time() - spent_s))


if __name__ == "__main__":
    url, *descriptors = sys.argv[1:]
    source: Any = Stepped(RsmqPoller(RsmqReader(url, NS)), Channel(*descriptors))
    RsmqApp([WatchedServer(source)]).run()
