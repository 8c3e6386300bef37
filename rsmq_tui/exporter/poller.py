"""Polls one namespace for scrapes. Only one poll runs at a time, and all scrapes that wait share it.

Polls also run in the background, whether or not anybody scrapes: the verdicts `stalled` and `growing` compare polls
over a minute or two, and must not depend on how often, or by how many servers, the exporter is scraped. With the usual
interval of a second, a scrape is answered at once from a snapshot that is no older than that.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.poller import Polling
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.kinds import RSMQ

# Kinds that a counter starts with at 0: a series that begins at 1 has no increase that an alert could see.
USUAL_FAILURES = ("refused", "timeout", "closed")

_NOT_YET = Failure("starting", "it has not been polled yet", "ask again in a moment")


@dataclass(frozen=True, slots=True)
class Target:
    """What is watched: a namespace of a server, or its queues of another kind than RSMQ.

    ``profile`` is empty where the server came from a URL. A namespace of RSMQ may be called as what stands for the
    namespace of another kind, and then differs in ``kind``.
    """

    profile: str
    server: str
    ns: str
    kind: str = RSMQ.name


@dataclass(frozen=True, slots=True)
class Tally:
    """What the polls of a target came to so far; the cost is that of those that succeeded."""

    polls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    commands: int = 0
    failures: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(USUAL_FAILURES, 0))

    def with_poll(self, snapshot: Snapshot) -> "Tally":
        """Return the tally after one more poll, which may have failed."""
        if (failure := snapshot.link.failure) is not None:
            return replace(self, failures={**self.failures, failure.kind: self.failures.get(failure.kind, 0) + 1})
        cost = snapshot.cost
        return Tally(
            self.polls + 1,
            self.seconds + cost.poll_ms / 1000,
            self.bytes + cost.bytes,
            self.commands + cost.commands,
            self.failures,
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a target: its last good ``snapshot``, if any, and why there is none now, if so."""

    target: Target
    snapshot: Snapshot | None
    failure: Failure | None
    tally: Tally

    @property
    def current(self) -> Snapshot | None:
        """The snapshot, where the server answered when it was last asked."""
        return self.snapshot if self.failure is None else None


class Watch:
    """Polls a target for as long as ``run`` does, and answers scrapes.

    ``interval_s`` is the pause between polls in the background; after a failure it is the poller's, which backs off.
    ``clock`` is the poller's monotonic clock, in seconds.
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
        # When the poll under way began, and when the last one ended.
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self._reading = Reading(target, None, _NOT_YET, Tally())

    async def run(self) -> None:
        """Poll, and wait until the next poll is due or asked for; until cancelled, then close the connections."""
        try:
            while True:
                self._asked.clear()
                self._begun_s = self._clock()
                snapshot = await self._poller.poll()
                self._begun_s, self._ended_s = None, self._clock()
                self._reading = self._read(snapshot)
                # Those who waited for this poll have its result; who asks from now on waits for another.
                self._answered.set()
                self._answered = asyncio.Event()
                await self._wait(snapshot)
        finally:
            await self._poller.aclose()

    async def scrape(self, *, max_age_s: float, patience_s: float) -> Reading:
        """Return a reading no older than ``max_age_s``.

        It joins the poll under way, or asks for one. A poll that takes longer than ``patience_s`` is a server that
        does not answer; it goes on none the less, and later scrapes do not begin to wait anew.
        """
        now_s = self._clock()
        if self._ended_s is not None and now_s - self._ended_s < max_age_s:
            return self._reading
        begun_s = self._begun_s
        if begun_s is None:
            begun_s = now_s
            self._asked.set()
        answered = self._answered
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, begun_s + patience_s - now_s)):
                await answered.wait()
        return self._reading if answered.is_set() else self._unanswered(patience_s)

    def last(self, patience_s: float) -> Reading:
        """Return what is known without polling; a poll that has taken longer than ``patience_s`` counts as failed."""
        begun_s = self._begun_s  # read once: this may be called from any thread
        late = begun_s is not None and self._clock() - begun_s > patience_s
        return self._unanswered(patience_s) if late else self._reading

    def _read(self, snapshot: Snapshot) -> Reading:
        failure = snapshot.link.failure
        good = snapshot if failure is None else self._reading.snapshot
        return Reading(self.target, good, failure, self._reading.tally.with_poll(snapshot))

    def _unanswered(self, patience_s: float) -> Reading:
        sentence = f"the server has not answered for {patience_s:g} s"
        return replace(
            self._reading,
            failure=Failure("timeout", sentence, "check whether it is overloaded, or whether a firewall blocks it"),
        )

    async def _wait(self, snapshot: Snapshot) -> None:
        retry_at_s = snapshot.link.retry_at_s
        delay_s = self._interval_s if retry_at_s is None else max(0.0, retry_at_s - self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._asked.wait()


class Watches:
    """All targets of an exporter; each is polled by itself, so that a slow or dead server delays no other."""

    def __init__(self, watches: tuple[Watch, ...], *, max_age_s: float = 1.0, patience_s: float = 3.0) -> None:
        self._watches = watches
        self._max_age_s = max_age_s
        self.patience_s = patience_s

    async def run(self) -> None:
        """Poll them all until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())

    async def scrape(self, limit_s: float | None = None) -> tuple[Reading, ...]:
        """Return a reading of each, in ``patience_s`` at most, or ``limit_s`` where that is less."""
        patience_s = self.patience_s if limit_s is None else min(self.patience_s, limit_s)
        scrapes = (watch.scrape(max_age_s=self._max_age_s, patience_s=patience_s) for watch in self._watches)
        return tuple(await asyncio.gather(*scrapes))

    def failed(self) -> tuple[Reading, ...]:
        """Return the targets whose last poll failed, or hangs; nothing is polled for it."""
        readings = (watch.last(self.patience_s) for watch in self._watches)
        return tuple(reading for reading in readings if reading.failure is not None)
