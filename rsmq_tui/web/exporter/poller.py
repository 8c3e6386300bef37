"""Polls one namespace for scrapes. Only one poll runs at a time, and all waiting scrapes share it.

Polls also run in the background without scrapes: the verdicts `stalled` and `growing` compare polls over a minute or
two, and must not depend on how often, or by how many servers, the exporter is scraped. With the default interval of a
second, a scrape is answered at once from a snapshot that is at most a second old, or waits for the running poll.

A server is down only if a poll fails, because a connection is refused or a command is not answered in time. A poll that
takes long proves nothing: this machine may be busy, or the queues many.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.poller import Polling
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.kinds import RSMQ

# Kinds of failures whose counters start at 0: an alert would not see the increase of a series that begins at 1.
USUAL_FAILURES = ("refused", "timeout", "closed")

NOT_YET = Failure("starting", "it has not been polled yet", "ask again in a moment")


@dataclass(frozen=True, slots=True)
class Target:
    """What is polled: an RSMQ namespace of a server, or its queues of another kind.

    ``profile`` is empty for a server from a URL. An RSMQ namespace may have the same name as the ``ns`` of another
    kind; the two then differ in ``kind``. ``expected`` are the expected troubles of the profile.
    """

    profile: str
    server: str
    ns: str
    kind: str = RSMQ.name
    expected: Expected = field(default_factory=Expected)


@dataclass(frozen=True, slots=True)
class PollTotals:
    """The totals of a target's polls; ``polls`` and their cost include only successful ones."""

    polls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    commands: int = 0
    failures: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(USUAL_FAILURES, 0))

    def with_poll(self, snapshot: Snapshot) -> "PollTotals":
        """Return the tally after one more poll, which may have failed."""
        if (failure := snapshot.connection.failure) is not None:
            return replace(self, failures={**self.failures, failure.kind: self.failures.get(failure.kind, 0) + 1})
        cost = snapshot.cost
        return PollTotals(
            self.polls + 1,
            self.seconds + cost.poll_ms / 1000,
            self.bytes + cost.bytes,
            self.commands + cost.commands,
            self.failures,
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of a target: its last good ``snapshot``, if any, and the ``failure`` of the last poll, if it failed."""

    target: Target
    snapshot: Snapshot | None
    failure: Failure | None
    tally: PollTotals

    @property
    def current(self) -> Snapshot | None:
        """The snapshot, or None if the last poll failed."""
        return self.snapshot if self.failure is None else None


class TargetPoller:
    """Polls a target while ``run`` runs, and answers scrapes.

    ``interval_s`` is the pause between polls in the background; after a failure the poller's back-off applies.
    ``clock`` is the poller's monotonic clock, in seconds. ``reading`` is the state after the last poll.
    """

    def __init__(
        self,
        target: Target,
        poller: Polling,
        *,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.target = target
        self._poller = poller
        self._interval_s = interval_s
        self._clock = clock
        self._asked = asyncio.Event()
        self._answered = asyncio.Event()
        # When the current poll began, and when the last one ended.
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self.reading = Reading(target, None, NOT_YET, PollTotals())

    async def run(self) -> None:
        """Poll at each interval and on request, until cancelled; then close the connections."""
        try:
            while True:
                self._asked.clear()
                self._begun_s = self._clock()
                snapshot = await self._poller.poll()
                self._begun_s, self._ended_s = None, self._clock()
                self.reading = self._read(snapshot)
                # Release the scrapes that wait for this poll; later ones wait for the next.
                self._answered.set()
                self._answered = asyncio.Event()
                await self._wait(snapshot)
        finally:
            await self._poller.aclose()

    async def scrape(self, *, max_age_s: float, patience_s: float) -> Reading:
        """Return a reading no older than ``max_age_s``, or the last one if a poll takes longer than ``patience_s``.

        It joins the current poll, or requests one. A poll that takes longer continues, and later scrapes do not wait
        for the whole time again.
        """
        now_s = self._clock()
        if self._ended_s is not None and now_s - self._ended_s < max_age_s:
            return self.reading
        begun_s = self._begun_s
        if begun_s is None:
            begun_s = now_s
            self._asked.set()
        answered = self._answered
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, begun_s + patience_s - now_s)):
                await answered.wait()
        return self.reading

    def _read(self, snapshot: Snapshot) -> Reading:
        failure = snapshot.connection.failure
        good = snapshot if failure is None else self.reading.snapshot
        return Reading(self.target, good, failure, self.reading.tally.with_poll(snapshot))

    async def _wait(self, snapshot: Snapshot) -> None:
        retry_at_s = snapshot.connection.retry_at_s
        delay_s = self._interval_s if retry_at_s is None else max(0.0, retry_at_s - self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._asked.wait()


class TargetPollers:
    """All targets of an exporter; each is polled separately, so that a slow server does not delay the others."""

    def __init__(self, pollers: tuple[TargetPoller, ...], *, max_age_s: float = 1.0, patience_s: float = 3.0) -> None:
        self._pollers = pollers
        self._max_age_s = max_age_s
        self.patience_s = patience_s

    async def run(self) -> None:
        """Poll them all until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for poller in self._pollers:
                group.create_task(poller.run())

    async def scrape(self, limit_s: float | None = None) -> tuple[Reading, ...]:
        """Return a reading of each target, within ``patience_s`` or ``limit_s``, whichever is less."""
        patience_s = self.patience_s if limit_s is None else min(self.patience_s, limit_s)
        scrapes = (poller.scrape(max_age_s=self._max_age_s, patience_s=patience_s) for poller in self._pollers)
        return tuple(await asyncio.gather(*scrapes))

    def failed(self) -> tuple[Reading, ...]:
        """Return the targets whose last poll failed, without polling; may be called from any thread."""
        readings = (poller.reading for poller in self._pollers)
        return tuple(reading for reading in readings if reading.failure is not None)
