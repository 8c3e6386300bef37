"""Clocks, timers and gates of the tests' own, so that no test waits and none depends on how fast it runs."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from rsmq_tui.monitor import Snapshot
from rsmq_tui.protocol.polling import Index
from rsmq_tui.protocol.rsmq.reader import RsmqRows


class FakeClock:
    """A monotonic clock that stands still unless it is moved; ``step_s`` is how much each look moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


class Timer:
    """Stands for the poller's ``asyncio.timeout``: notes each wait, moves the clock on, and is over at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
        self.waits_s: list[float] = []
        self._clock = clock
        names = {**vars(asyncio), "timeout": self._timeout}
        monkeypatch.setattr("rsmq_tui.monitor.poller.asyncio", SimpleNamespace(**names))

    def _timeout(self, delay_s: float) -> asyncio.Timeout:
        self.waits_s.append(delay_s)
        self._clock.now_s += delay_s
        return asyncio.timeout(0)


class Gate:
    """Holds every poll before its first question to the server until ``open`` is set, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_open: bool = False) -> None:
        self.open = asyncio.Event()
        if is_open:
            self.open.set()
        self.reached = asyncio.Event()
        self.polls = 0
        self.under_way = 0
        self.most_under_way = 0
        read_index = RsmqRows.index

        async def index(rows: RsmqRows) -> Index:
            self.polls += 1
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self.reached.set()
            try:
                await self.open.wait()
                return await read_index(rows)
            finally:
                self.under_way -= 1

        monkeypatch.setattr(RsmqRows, "index", index)

    async def next_poll(self) -> None:
        """Wait until a poll stands at the gate."""
        await self.reached.wait()
        self.reached.clear()

    async def is_waiting(self, coming: asyncio.Task[Snapshot]) -> bool:
        """Return whether the next snapshot is awaited without a running poll."""
        polls = self.polls
        for _ in range(20):
            await asyncio.sleep(0)
        return not coming.done() and self.polls == polls and self.under_way == 0

    def let_one_through(self) -> None:
        """Open for the polls that stand here now, and close again."""
        self.open.set()
        self.open = asyncio.Event()


def next_of(stream: AsyncIterator[Snapshot]) -> asyncio.Task[Snapshot]:
    """Ask for the next snapshot without waiting for it."""
    return asyncio.ensure_future(anext(stream))


async def give_up(coming: asyncio.Task[Snapshot]) -> None:
    """Do not wait for it any more."""
    coming.cancel()
    await asyncio.wait([coming])
