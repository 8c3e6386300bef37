"""The dashboard on several servers, and how old the numbers of some of them get on the screen."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.bench.peers.channel import Channel
from tests.bench.queues import NS


class Shown:
    """A live poller that notes for how long each of its snapshots was the last one on the screen."""

    def __init__(self, poller: RsmqPoller) -> None:
        self.thresholds = poller.thresholds
        self.aclose, self.peek, self.look_first = poller.aclose, poller.peek, poller.look_first
        self.lasted_s: list[float] = []
        self._poller = poller

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield the poller's snapshots."""
        shown_s = None
        async for snapshot in self._poller.snapshots():
            yield snapshot
            # The screens have it: the caller asks for the next one.
            now_s = time.monotonic()
            if shown_s is not None:
                self.lasted_s.append(now_s - shown_s)
            shown_s = now_s


class Teller:
    """Answers each line with how long numbers lasted since the previous line, the time spent, and how many there
    were."""

    def __init__(self, sources: Sequence[Shown], channel: Channel) -> None:
        self._sources = sources
        self._channel = channel

    async def run(self) -> None:
        """Listen, until there are no more lines."""
        self._channel.listen()
        spent_s = time.process_time()
        while await self._channel.next() is not None:
            lasted = [each for source in self._sources for each in source.lasted_s]
            for source in self._sources:
                source.lasted_s.clear()
            before_s, spent_s = spent_s, time.process_time()
            self._channel.tell(f"{sum(lasted) / max(1, len(lasted))} {spent_s - before_s} {len(lasted)}")


async def main(urls: Sequence[str], channel: Channel) -> None:
    """Open the dashboard on these servers, and tell of all but the last one, which may be far away."""
    *near, far = (RsmqPoller(RsmqReader(url, NS), place=f"s{number}") for number, url in enumerate(urls))
    shown = [Shown(poller) for poller in near]
    sources: list[Any] = [*shown, far]
    telling = asyncio.create_task(Teller(shown, channel).run())
    try:
        await RsmqApp(
            [WatchedServer(source, place=f"s{number}", name=f"s{number}") for number, source in enumerate(sources)]
        ).run_async()
    finally:
        telling.cancel()


if __name__ == "__main__":
    *addresses, heard, told = sys.argv[1:]
    asyncio.run(main(addresses, Channel(heard, told)))
