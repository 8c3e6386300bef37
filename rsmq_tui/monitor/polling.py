"""The rhythm of every live source: poll, wait, poll again; after a failure later and later, and never two at once."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from rsmq_tui.monitor.snapshot import Cost, Link, Snapshot
from rsmq_tui.monitor.wording import SENTENCE_MAX, printable
from rsmq_tui.protocol import SERVER_ERRORS, Traffic, defect_of, failure_of

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 30.0


class Polling(ABC):
    """Polls for as long as its snapshots are asked for.

    The next poll is scheduled only after the previous one has come back, so polls never overlap. A failure yields the
    last good snapshot with its ``link`` saying what failed, and the next attempts come after 1, 2, 4 … 30 seconds. So
    does a defect of this program, which the ``link`` calls one.
    ``first`` is what is known before the first poll; ``clock`` is a monotonic clock in seconds, and the only local time
    used.
    """

    def __init__(
        self, first: Snapshot, *, interval_s: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._last = first
        self._interval_s = interval_s
        self._clock = clock
        self._wake = asyncio.Event()
        self._paused = False
        self._failures = 0
        self._metered: Meter | None = None

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Poll, yield, wait; for ever."""
        while True:
            self._wake.clear()
            yield await self.poll()
            await self._wait()

    async def poll(self) -> Snapshot:
        """Poll once and return what is known then; a failure is told in the snapshot's ``link``."""
        while True:
            try:
                found: Snapshot | Exception = await self._read()
            except Exception as error:  # a defect met with one server must not end the polls of the others
                found = error
            # What comes back for something that is not watched any more is dropped.
            if self._is_wanted():
                break
        if isinstance(found, Snapshot):
            self._failures = 0
            self._last = found
        else:
            self._failures += 1
            retry_at_s = None if self._paused else self._clock() + self._delay_s()
            failure = failure_of(found) if isinstance(found, SERVER_ERRORS) else defect_of(found)
            failure = replace(failure, sentence=printable(failure.sentence, SENTENCE_MAX))
            link = Link(failure, self._last.link.fresh_at_s, retry_at_s)
            self._last = replace(self._last, link=link, paused=self._paused)
        return self._last

    def wake(self) -> None:
        """Poll now instead of waiting on."""
        self._wake.set()

    def set_paused(self, paused: bool) -> None:
        """Stop or go on polling; the poll that this asks for says so."""
        self._paused = paused
        self._wake.set()

    @abstractmethod
    async def _read(self) -> Snapshot:
        """Read everything once; raises the errors of the server."""

    def _meter(self, traffic: Traffic) -> "Meter":
        """Return what measures a poll that begins: looks at messages since the last one are part of what it costs."""
        since = None if self._metered is None else self._metered.counted
        self._metered = Meter(traffic, self._clock, since)
        return self._metered

    def _is_wanted(self) -> bool:
        """Tell whether what was just read is still what is watched."""
        return True

    def _delay_s(self) -> float:
        """Return how long to wait before the next attempt, after the failures so far."""
        return min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** (self._failures - 1))

    async def _wait(self) -> None:
        if self._paused:
            await self._wake.wait()
            return
        delay_s = self._delay_s() if self._failures else self._interval_s
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            return


class Meter:
    """Measures what one poll costs, from when it is made; ``heard`` is told of the first reply.

    ``since`` is the ``counted`` of the poll before: what went over the wire between the two counts for this one.
    """

    def __init__(self, traffic: Traffic, clock: Callable[[], float], since: tuple[int, int] | None = None) -> None:
        self._traffic = traffic
        self._clock = clock
        self.counted = self._all()
        self._bytes, self._commands = since or self.counted
        self._started_s = self._heard_s = clock()

    def heard(self) -> None:
        """Take note that the server has answered."""
        self._heard_s = self._clock()

    def cost(self, now_s: float) -> Cost:
        """Return what it has cost until then."""
        bytes_now, commands_now = self.counted = self._all()
        return Cost(
            round_trip_ms=(self._heard_s - self._started_s) * 1000,
            poll_ms=(now_s - self._started_s) * 1000,
            bytes=bytes_now - self._bytes,
            commands=commands_now - self._commands,
        )

    def _all(self) -> tuple[int, int]:
        return self._traffic.bytes_sent + self._traffic.bytes_received, self._traffic.commands


def notes_of(*notes: str | None) -> tuple[str, ...]:
    """Return the sentences that there are, made harmless: they may quote the server."""
    return tuple(printable(note, SENTENCE_MAX) for note in notes if note)


def refusal(refused: str | None) -> str | None:
    """Say that scripts are refused, and why; None while they are not."""
    return refused and f"scripts refused, reading by pipeline: {refused}"
