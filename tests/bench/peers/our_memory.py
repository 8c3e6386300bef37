"""The dashboard on a live server whose clock runs a second ahead with each poll, and how much memory that takes."""

import asyncio
import resource
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.protocol import Index, RsmqReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.bench.peers.channel import Channel
from tests.bench.queues import NS

# Long enough for the screen to follow, short enough for ten minutes to pass in one.
_PAUSE_S = 0.005


class FastForward:
    """Polls as fast as the bench says, with the server's time a second on each time, so that the series fill up."""

    def __init__(self, reader: RsmqReader, channel: Channel) -> None:
        self._poller = RsmqPoller(reader)
        self.thresholds = self._poller.thresholds
        self.aclose, self.peek = self._poller.aclose, self._poller.peek
        self._channel = channel
        self._read_index = reader.rows.index
        self._at_ms = 0
        # The poller takes the server's time from the index: everything after that is as in real life.
        setattr(reader.rows, "index", self._index)  # noqa: B010 - of this reader alone

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield a snapshot for each line ``poll``; tell the memory at any other."""
        self._channel.listen()
        while (line := await self._channel.next()) is not None:
            if line == "poll":
                snapshot = await self._poller.poll()
                yield snapshot
                await asyncio.sleep(_PAUSE_S)
                self._channel.tell(str(len(snapshot.queues)))
            else:
                self._channel.tell(f"{_peak_mb()} {_resident_mb()}")

    async def _index(self) -> Index:
        index = await self._read_index()
        self._at_ms = self._at_ms + 1000 if self._at_ms else index.at_ms
        return index._replace(at_ms=self._at_ms)


def _peak_mb() -> float:
    # getrusage counts the bench itself, as it was when it forked: Linux knows better.
    if (peak_mb := _status_mb("VmHWM")) is not None:
        return peak_mb
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1_000_000 if sys.platform == "darwin" else 1_000)


def _resident_mb() -> float:
    return _status_mb("VmRSS") or _peak_mb()


def _status_mb(name: str) -> float | None:
    """Read a size from the kernel's account of this process; None where there is none."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) for line in lines if line.startswith(f"{name}:")]
    return found[0] * 1024 / 1_000_000 if found else None


if __name__ == "__main__":
    url, *descriptors = sys.argv[1:]
    source: Any = FastForward(RsmqReader(url, NS), Channel(*descriptors))
    RsmqApp([WatchedServer(source)]).run()
