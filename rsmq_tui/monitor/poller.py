"""Polls one namespace of one server and makes snapshots, with retries."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.search import Progress, search
from rsmq_tui.monitor.model import Cost, Link, Snapshot
from rsmq_tui.monitor.peek import (
    QUICK_SPAN,
    MessageRow,
    MessageView,
    Page,
    PageRequest,
    RowsAgain,
    read_again,
    read_due,
    read_message,
    read_namespaces,
    read_page,
    read_rows_again,
)
from rsmq_tui.monitor.rsmq_tracker import Sampler
from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.protocol import SERVER_ERRORS, Namespaces, QueueReader, Traffic, defect_of, failure_of

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.rsmq import AuditProgress


RETRY_FIRST_S = 1.0
RETRY_MAX_S = 30.0


class Polling(ABC):
    """Polls for as long as its snapshots are asked for.

    The next poll is scheduled only after the previous one has come back, so polls never overlap. A failure yields the
    last good snapshot with its ``link`` saying what failed, and the next attempts come after 1, 2, 4 … 30 seconds. So
    does a defect of this program, which the ``link`` calls one.
    ``first`` is what is known before the first poll; ``clock`` is a monotonic clock in seconds, and the only local time
    used. ``thresholds`` are those that its queues get verdicts by.
    """

    thresholds: Thresholds

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

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
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
    async def aclose(self) -> None:
        """Close the connections."""

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


class LivePoller(Polling):
    """Polls a server, as ``Polling`` says; ``place`` names it among several."""

    def __init__(
        self,
        reader: QueueReader,
        *,
        interval_s: float = 1.0,
        place: str = "",
        thresholds: Thresholds | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        first = Snapshot(0, reader.label, reader.ns, interval_s=interval_s, place=place)
        super().__init__(first, interval_s=interval_s, clock=clock)
        self.thresholds = thresholds or Thresholds()
        self._reader = reader
        self._place = place
        self._sampler = Sampler(self.thresholds, place)
        self._wanted_ns: str | None = None

    def switch(self, ns: str) -> None:
        """Watch another namespace; what was known of the old one is dropped, a reply still under way included."""
        self._wanted_ns = ns
        self._wake.set()

    async def peek(self, request: PageRequest) -> Page:
        """Read one page of a queue's messages; raises ``PeekError``."""
        return await read_page(self._reader, request)

    async def read(self, queue: str, id: str) -> MessageView:
        """Read one message whole; raises ``PeekError``."""
        return await read_message(self._reader, queue, id)

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        """Read anew where a message is; raises ``PeekError``."""
        return await read_again(self._reader, queue, known)

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        """Read anew where these messages are; raises ``PeekError``."""
        return await read_rows_again(self._reader, queue, rows)

    def search(self, queue: str, wanted: Filter) -> AsyncGenerator[Progress, None]:
        """Look for what matches in the whole queue; it raises ``PeekError``."""
        # A reader of its own: the namespace may be switched while it runs.
        return search(self._reader.within(self._reader.ns), queue, wanted)

    def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Look for what does not fit together in these queues, or in all; it raises ``PeekError``."""
        # Loaded when somebody asks: what the audit knows of other clients is a lot of words.
        from rsmq_tui.monitor.audit.rsmq import audit  # noqa: PLC0415

        return audit(self._reader.within(self._reader.ns), queues)

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count when the messages of a queue become visible; raises ``PeekError``."""
        return await read_due(self._reader, queue, at_ms)

    async def namespaces(self) -> Namespaces:
        """Look for namespaces on the server; raises ``PeekError``."""
        return await read_namespaces(self._reader)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._reader.aclose()

    async def _read(self) -> Snapshot:
        self._switch()
        meter = self._meter(self._reader.traffic)
        index = await self._reader.rows.index()
        meter.heard()
        if self._failures:
            self._sampler.resume(index.at_ms)
        self._sampler.begin(index.at_ms)
        # The look goes out beside the rows: behind them it would cost a round trip more.
        looked, pages = self._sampler.looks(index.names)
        poison_rc = self.thresholds.poison_rc
        look = asyncio.create_task(self._reader.rows.looks(looked, pages, index.at_ms, poison_rc, QUICK_SPAN))
        try:
            async with aclosing(self._reader.rows.rows(index.at_ms)) as coming:
                async for names, rows in coming:
                    self._sampler.take(names, rows)
            counts, found = await look
        finally:
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)
        queues, totals = self._sampler.finish()
        self._sampler.take_receive_counts(looked, counts)
        self._sampler.take_pages(zip(pages, found, strict=True))
        namespaces = self._last.namespaces
        if queues:
            namespaces = None
        elif namespaces is None:
            namespaces = (await self._reader.namespaces()).names
        now_s = self._clock()
        return Snapshot(
            at_ms=index.at_ms,
            server=self._reader.label,
            ns=self._reader.ns,
            queues=queues,
            totals=totals,
            trend=self._sampler.trend,
            cost=meter.cost(now_s),
            link=Link(None, now_s, None),
            interval_s=self._interval_s,
            paused=self._paused,
            notes=notes_of(index.problem, refusal(self._reader.scripts_refused)),
            namespaces=namespaces,
            place=self._place,
        )

    def _is_wanted(self) -> bool:
        return self._wanted_ns is None

    def _switch(self) -> None:
        """Begin anew with the namespace that is wanted, where it is another one."""
        if self._wanted_ns is None:
            return
        self._reader.watch(self._wanted_ns)
        self._wanted_ns = None
        self._sampler = Sampler(self.thresholds, self._place)
        self._last = Snapshot(0, self._reader.label, self._reader.ns, interval_s=self._interval_s, place=self._place)


class Source(Protocol):
    """A stream of snapshots, and looks into one queue at a time."""

    @property
    def thresholds(self) -> Thresholds:
        """When a queue gets a verdict."""
        ...

    def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield one snapshot after another; a failed poll is a snapshot too, and never an exception."""
        ...

    def wake(self) -> None:
        """Poll now."""
        ...

    def set_paused(self, paused: bool) -> None:
        """Stop or go on polling; ``wake`` still polls once."""
        ...

    def switch(self, ns: str) -> None:
        """Watch another namespace from the next poll on."""
        ...

    async def peek(self, request: PageRequest) -> Page:
        """Read one page of a queue's messages without changing anything; raises ``PeekError``."""
        ...

    async def read(self, queue: str, id: str) -> MessageView:
        """Read one message whole without changing anything; raises ``PeekError``."""
        ...

    def search(self, queue: str, wanted: Filter) -> AsyncGenerator[Progress, None]:
        """Look for what matches in the whole queue, without changing anything; it raises ``PeekError``.

        Close it with ``aclose`` when leaving early.
        """
        ...

    def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Look for what does not fit together in these queues, or in all; it raises ``PeekError``.

        Close it with ``aclose`` when leaving early.
        """
        ...

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count when the messages of a queue become visible, as (label, messages); raises ``PeekError``."""
        ...

    async def namespaces(self) -> Namespaces:
        """Look for namespaces on the server; raises ``PeekError``."""
        ...

    async def aclose(self) -> None:
        """Let go of everything that is open."""
        ...


@runtime_checkable
class ReadsAgain(Protocol):
    """A source of messages that go on living, which can tell what has become of one without reading its body again."""

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        """Read anew where it is; of one that has left its queue, the body stays what it was. Raises ``PeekError``."""
        ...


@runtime_checkable
class ReadsRowsAgain(Protocol):
    """A source that can tell what has become of many messages at once."""

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        """Read anew where they are and how often they were received; raises ``PeekError``."""
        ...


class Waiters(NamedTuple):
    """The consumers that are blocked on lists of a server.

    ``here`` of them wait for one list, the first for ``longest_s`` seconds; None where the server does not tell.
    """

    anywhere: int
    here: int | None
    longest_s: int | None


@runtime_checkable
class KnowsWaiters(Protocol):
    """A source that can tell how many consumers wait on lists of its server."""

    async def blocked(self, queue: str) -> Waiters:
        """Count them, on demand: it asks for the list of all clients; raises ``PeekError``."""
        ...
