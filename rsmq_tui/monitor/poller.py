"""What polls a server: the interface of all sources, the polls and retries that they share, and that of RSMQ queues."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from rsmq_tui.monitor.messages.peek import (
    DUE_BOUNDS,
    QUICK_SPAN,
    MessageRow,
    MessageView,
    Page,
    RowsAgain,
    in_words,
    read_message,
    read_page,
    row_alone,
    row_of,
)
from rsmq_tui.monitor.model import Connection, Cost, QueueState, Snapshot, Totals
from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.monitor.tracking.forecast import MemoryGrowth
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol import (
    SERVER_ERRORS,
    Failure,
    Index,
    Namespaces,
    PageRequest,
    PeekedMessage,
    Row,
    RsmqReader,
    Traffic,
    defect_of,
    failure_of,
)

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.rsmq import AuditProgress
    from rsmq_tui.monitor.filters.language import Filter
    from rsmq_tui.monitor.filters.search import SearchProgress
    from rsmq_tui.monitor.tracking.memory import Memory
    from rsmq_tui.protocol.lists.reader import ListReader
    from rsmq_tui.protocol.server.clients import QueueClients
    from rsmq_tui.protocol.server.status import ServerInfo, ServerStatus


RETRY_FIRST_S = 1.0
# A server that is back should be seen soon; an attempt costs it next to nothing.
RETRY_MAX_S = 10.0
# Seconds from one read of INFO to the next, and after a refusal: the server logs each of these in its ACL LOG.
INFO_EVERY_S, INFO_AGAIN_S = 10.0, 3_600.0


def retry_delay_s(failures: int, first_s: float, most_s: float) -> float:
    """Return the time until the next attempt after so many failures, one or more: it doubles each time."""
    # Far beyond any longest time; after 1,025 failures, the power would be too large for a float.
    return min(most_s, first_s * 2.0 ** min(failures - 1, 64))


class Feed(Protocol):
    """The snapshots of the same place from another process, which polls it for several sessions."""

    @property
    def end(self) -> Failure:
        """Why there are no more snapshots, after the last one."""

    def snapshots(self) -> AsyncIterator[Snapshot]:
        """Yield one snapshot after another, until the other process has ended."""

    def wake(self) -> None:
        """Ask for a poll now."""

    def switch(self, ns: str) -> None:
        """Ask for another namespace."""

    def look_first(self, queues: Sequence[str]) -> None:
        """Ask for more looks at these queues than at others."""

    async def aclose(self) -> None:
        """Close the connection."""


class Source(Protocol):
    """A stream of snapshots, and reads of one queue at a time. No method changes anything on the server."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the verdicts."""

    def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield one snapshot after another; a failed poll yields a snapshot too, and never raises."""

    def wake(self) -> None:
        """Poll now."""

    def set_paused(self, paused: bool) -> None:
        """Pause or resume polling; ``wake`` still polls once."""

    def switch(self, ns: str) -> None:
        """Watch another namespace from the next poll on."""

    async def peek(self, request: PageRequest) -> Page:
        """Read one page of a queue's messages; raises ``PeekError``."""

    async def read(self, queue: str, id: str) -> MessageView:
        """Read one message whole; raises ``PeekError``."""

    def search(self, queue: str, wanted: "Filter") -> "AsyncGenerator[SearchProgress, None]":
        """Search the whole queue; raises ``PeekError``. Close it with ``aclose`` when leaving early."""

    def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Audit these queues, or all; raises ``PeekError``. Close it with ``aclose`` when leaving early."""

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count the messages of a queue by when they become visible, as (label, messages); raises ``PeekError``."""

    async def namespaces(self) -> Namespaces:
        """Return the namespaces on the server; raises ``PeekError``."""

    async def aclose(self) -> None:
        """Close the connections."""


class Polling(Source, ABC):
    """A source that polls a server while its snapshots are iterated over.

    The next poll is scheduled only after the previous one has completed, so polls never overlap. A failure yields the
    last good snapshot with the failure in its ``connection``; retries follow 1, 2, 4 … 10 seconds after the beginning
    of the attempt before, and at least a second after its end. A defect of this program is handled like a failure.

    ``first`` is the snapshot before the first poll; ``clock`` is a monotonic clock in seconds, and the only local time
    used. ``thresholds`` are those of the verdicts, None for the defaults. From ``memory``, the first poll continues an
    earlier run. ``own_changes``, if set, gets the server and the namespace, and returns the queues there that this
    program has changed since it was last called, in any of its processes: that is not the work of a consumer. Without
    ``is_charted``, nothing is kept that only charts show. With a ``feed``, snapshots come from there, and nothing is
    polled.
    """

    def __init__(
        self,
        first: Snapshot,
        *,
        interval_s: float = 1.0,
        thresholds: Thresholds | None = None,
        memory: "Memory | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._thresholds = thresholds or Thresholds()
        self._memory = memory
        self._last = first
        self._interval_s = interval_s
        self._clock = clock
        self._wake = asyncio.Event()
        self._paused = False
        self._failures = 0
        self._retry_s = 0.0
        self._metered: Meter | None = None
        self.own_changes: Callable[[str, str], Awaitable[Iterable[str]]] | None = None
        self.is_charted = True
        self.feed: Feed | None = None
        self._info: ServerInfo | None = None
        self._info_due_s = 0.0
        self._growth = MemoryGrowth()

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the verdicts."""
        return self._thresholds

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Poll, yield and wait, without end; with a feed, until that has ended, as the last snapshot says."""
        if self.feed is not None:
            async with aclosing(self._fed(self.feed)) as fed:
                async for snapshot in fed:
                    yield snapshot
            self._last = replace(self._last, connection=Connection(self.feed.end, self._last.connection.fresh_at_s))
            yield self._last
            return
        while True:
            self._wake.clear()
            yield await self.poll()
            await self._wait()

    async def poll(self) -> Snapshot:
        """Poll once and return the snapshot; a failure is in its ``connection``."""
        while True:
            began_s = self._clock()
            try:
                found: Snapshot | Exception = await self._read()
            except Exception as error:  # a defect with one server must not end the polls of the others
                found = error
            # The namespace may have been switched meanwhile: drop the reply.
            if self._is_wanted():
                break
        if not isinstance(found, Snapshot):
            return self.fail(found, self._clock() - began_s)
        self._failures = 0
        self._last = found
        return found

    def fail(self, error: Exception, waited_s: float = 0.0) -> Snapshot:
        """Return the snapshot of a poll that failed with this error, after that time."""
        self._failures += 1
        delay_s = retry_delay_s(self._failures, RETRY_FIRST_S, RETRY_MAX_S)
        self._retry_s = max(RETRY_FIRST_S, delay_s - waited_s)
        retry_at_s = None if self._paused else self._clock() + self._retry_s
        failure = failure_of(error) if isinstance(error, SERVER_ERRORS) else defect_of(error)
        failure = failure._replace(sentence=printable(failure.sentence, SENTENCE_MAX))
        connection = Connection(failure, self._last.connection.fresh_at_s, retry_at_s)
        self._last = replace(self._last, connection=connection, paused=self._paused)
        return self._last

    def wake(self) -> None:
        """Poll now, without waiting for the interval."""
        self._wake.set()
        if self.feed is not None:
            self.feed.wake()

    def set_paused(self, paused: bool) -> None:
        """Pause or resume polling; one poll follows at once, whose snapshot has the new state."""
        self._paused = paused
        self.wake()

    @abstractmethod
    def search(self, queue: str, wanted: "Filter", limit: int | None = None) -> "AsyncGenerator[SearchProgress, None]":
        """Search the whole queue, or for the ``limit`` matches that are received first; raises ``PeekError``."""

    @abstractmethod
    def audit(
        self, queues: Sequence[str] | None, *, limit: int | None = None, seconds: float | None = None
    ) -> "AsyncGenerator[AuditProgress, None]":
        """Audit these queues, or all: at most ``limit`` of them, and for that long; raises ``PeekError``."""

    async def _fed(self, feed: Feed) -> AsyncGenerator[Snapshot, None]:
        """Yield the snapshots of the feed; while paused, only requested ones.

        The feed has other receivers, and continues.
        """
        async for snapshot in feed.snapshots():
            if not self._paused or self._wake.is_set():
                self._wake.clear()
                self._last = replace(snapshot, paused=self._paused)
                yield self._last

    @abstractmethod
    async def _read(self) -> Snapshot:
        """Read a snapshot; raises the errors of the server."""

    async def _begin_poll(self, tracker: PlaceTracker, index: Index) -> None:
        """Start a poll of these queues: the first one continues an earlier run."""
        at_ms = index.at_ms
        tracker.trend.is_charted = self.is_charted
        if self._failures:
            tracker.resume(at_ms)
        if self._memory is not None:
            await self._memory.restore(tracker, at_ms)
        tracker.begin(at_ms, index.names, self._growth.limit)

    async def _add_rows(self, tracker: PlaceTracker, positions: Sequence[int], rows: Sequence[Row]) -> None:
        """Process the rows of the queues at these positions of the index."""
        # After the rows were read: what changed them is in the journal by then.
        if self.own_changes is not None:
            tracker.note_own_change(await self.own_changes(self._last.server, self._last.ns))
        tracker.add_rows(positions, rows)

    async def _end_poll(self, tracker: PlaceTracker, at_ms: int) -> tuple[tuple[QueueState, ...], Totals]:
        """End a poll, and return the states and their sums."""
        # Thousands of queues may get into trouble at the same moment: keys and the screen do not wait for all of them.
        for _ in tracker.update_stale():
            await asyncio.sleep(0)
        found = tracker.finish()
        await asyncio.sleep(0)
        if self._memory is not None:
            self._memory.keep(tracker, at_ms)
        return found

    def _start_meter(self, traffic: Traffic) -> "Meter":
        """Start the meter of a new poll, and the memory. Its cost includes what was read since the last poll."""
        if self._memory is not None:
            self._memory.begin()
        since = None if self._metered is None else self._metered.counted
        self._metered = Meter(traffic, self._clock, since)
        return self._metered

    def _snapshot_of(self, meter: "Meter", notes: Iterable[str | None], **read: Any) -> Snapshot:
        """Return the snapshot of a poll with the fields that it ``read``, and those of the notes that are not empty."""
        now_s = self._clock()
        memory_problem = None if self._memory is None else self._memory.problem
        # Notes may contain text of the server.
        shown = tuple(printable(note, SENTENCE_MAX) for note in (*notes, memory_problem) if note)
        connection = Connection(None, now_s, None)
        known: dict[str, Any] = {"info": self._info, "memory_limit": self._growth.limit, "notes": shown}
        return replace(self._last, connection=connection, cost=meter.cost(now_s), paused=self._paused, **known, **read)

    def _is_wanted(self) -> bool:
        """Return whether the reply just read is still wanted."""
        return True

    async def _wait(self) -> None:
        if self._paused:
            await self._wake.wait()
            return
        delay_s = self._retry_s if self._failures else self._interval_s
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            return


class Meter:
    """Measures the cost of one poll, from its creation; call ``heard`` at the first reply.

    ``since`` is the ``counted`` of the previous poll: traffic between the two polls counts for this one.
    """

    def __init__(self, traffic: Traffic, clock: Callable[[], float], since: tuple[int, int] | None = None) -> None:
        self._traffic = traffic
        self._clock = clock
        self.counted = self._all()
        self._bytes, self._commands = since or self.counted
        self._started_s = self._heard_s = clock()

    def heard(self) -> None:
        """Record the time of the first reply."""
        self._heard_s = self._clock()

    def cost(self, now_s: float) -> Cost:
        """Return the cost up to that time of the clock."""
        bytes_now, commands_now = self.counted = self._all()
        return Cost(
            round_trip_ms=(self._heard_s - self._started_s) * 1000,
            poll_ms=(now_s - self._started_s) * 1000,
            bytes=bytes_now - self._bytes,
            commands=commands_now - self._commands,
        )

    def _all(self) -> tuple[int, int]:
        return self._traffic.bytes_sent + self._traffic.bytes_received, self._traffic.commands


def refusal(refused: str | None) -> str | None:
    """Return a note that scripts are refused, and why; None if they are not."""
    return refused and f"scripts refused, reading by pipeline: {refused}"


ReaderT = TypeVar("ReaderT", bound="RsmqReader | ListReader")


class ReaderPolling(Polling, Generic[ReaderT]):
    """Polls by a ``reader``, which is closed with it, and answers questions about its server."""

    def __init__(self, reader: ReaderT, tracker: PlaceTracker, first: Snapshot, **options: Any) -> None:
        super().__init__(first, **options)
        self.reader = reader
        self._tracker = tracker
        self._replaced = 0
        # Another poller may have used the reader.
        reader.rows.forget()

    async def clients(self, queue: str, *, seconds: float | None = None) -> "QueueClients":
        """Find out who works on a queue; raises ``PeekError``."""
        with in_words():
            return await self.reader.clients(queue, seconds=seconds)

    async def server(self) -> "tuple[ServerStatus, ...]":
        """Read what the server, or each node of a cluster, says of itself; raises ``PeekError``."""
        with in_words():
            return await self.reader.status()

    async def aclose(self) -> None:
        """Write the memory and close the connections."""
        if self.feed is not None:
            await self.feed.aclose()
        await self._remember()
        await self.reader.aclose()

    async def _read_info(self, at_ms: int) -> None:
        """Read INFO if that is due, as of the poll at this time.

        It is due after an outage, and when a connection was replaced, as the server may have been restarted between two
        polls. It is never due with the first poll, which is to be shown soon. Without permission for it, polls continue
        without INFO.
        """
        replaced, self._replaced = self._replaced, self.reader.traffic.replaced
        if self._replaced != replaced and self._info is not None:
            self._info_due_s = 0.0
        if self._failures:
            self._info_due_s = 0.0
            self._growth.forget()
        if self._last.connection.fresh_at_s is None:
            return
        now_s = self._clock()
        if now_s < self._info_due_s:
            return
        self._info_due_s = now_s + INFO_EVERY_S
        try:
            info = await self.reader.server_info()
            # INFO is read after the clock of the poll.
            self._info = None if info is None else info._replace(at_ms=min(info.at_ms, at_ms))
        except SERVER_ERRORS as error:
            if failure_of(error).kind not in ("noperm", "error"):
                raise
            self._info, self._info_due_s = None, now_s + INFO_AGAIN_S
        self._growth.add(self._info)

    async def _remember(self) -> None:
        if self._memory is not None:
            await self._memory.aclose(self._tracker)


class RsmqPoller(ReaderPolling[RsmqReader]):
    """Polls one namespace of RSMQ queues (see ``Polling``); ``place`` names the server if there are several.

    ``memory_of`` returns the memory of a namespace.
    """

    def __init__(
        self,
        reader: RsmqReader,
        *,
        interval_s: float = 1.0,
        place: str = "",
        thresholds: Thresholds | None = None,
        memory_of: "Callable[[str], Memory | None]" = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        first = Snapshot(0, reader.label, reader.ns, interval_s=interval_s, place=place)
        thresholds, memory = thresholds or Thresholds(), memory_of(reader.ns)
        tracker = PlaceTracker(thresholds, place)
        super().__init__(
            reader, tracker, first, interval_s=interval_s, thresholds=thresholds, memory=memory, clock=clock
        )
        self._memory_of = memory_of
        self._wanted_ns: str | None = None

    def switch(self, ns: str) -> None:
        """Watch another namespace; the state of the old one is dropped, including a pending reply."""
        if self.feed is not None:
            self.reader.watch(ns)
            self.feed.switch(ns)
            return
        self._wanted_ns = ns
        self._wake.set()

    def look_first(self, queues: Sequence[str]) -> None:
        """Look at these queues more often than at others; they are on the screen."""
        if self.feed is not None:
            self.feed.look_first(queues)
        else:
            self._tracker.look_first(queues)

    async def peek(self, request: PageRequest) -> Page:
        """Read one page of a queue's messages; raises ``PeekError``."""
        return await read_page(self.reader, request)

    async def read(self, queue: str, id: str) -> MessageView:
        """Read one message whole; raises ``PeekError``."""
        return await read_message(self.reader, queue, id)

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        """Read the current state of a known message; its body is read only if its length has changed.

        The body is kept if the message has left the queue. Raises ``PeekError``.
        """
        with in_words():
            raw = await self.reader.pages.message(queue, known.id, with_body=False)
        if raw.score is not None and raw.size != known.size:
            return await self.read(queue, known.id)
        return replace(known, at_ms=raw.at_ms, row=row_alone(raw, known.body))

    async def read_long(self, queue: str, known: MessageView, arrived: Callable[[int], None]) -> MessageView:
        """Read the body of a known message, of any length, and its current state; raises ``PeekError``."""
        with in_words():
            body = await self.reader.pages.long_body(queue, known.id, arrived)
        return await self.read_again(queue, replace(known, body=body, size=known.size if body is None else len(body)))

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        """Read the current state of known messages, without their bodies; raises ``PeekError``."""
        with in_words():
            at_ms, found = await self.reader.pages.present(queue, [row.id for row in rows])
        again: dict[str, MessageRow | None] = dict.fromkeys(row.id for row in rows)
        for row, now in zip(rows, found, strict=True):
            if now is not None:
                peeked = PeekedMessage(row.id, now.score, now.rc, now.fr_ms, row.size, row.preview)
                again[row.id] = row_of(peeked, at_ms)
        return RowsAgain(at_ms, again)

    def search(self, queue: str, wanted: "Filter", limit: int | None = None) -> "AsyncGenerator[SearchProgress, None]":
        """Search the whole queue, or for the ``limit`` matches that are due first; raises ``PeekError``."""
        from rsmq_tui.monitor.filters.search import search, search_due_first  # noqa: PLC0415 - polls do without

        # A reader of its own: the namespace may be switched while it runs.
        reader = self.reader.within(self.reader.ns)
        return search(reader, queue, wanted) if limit is None else search_due_first(reader, queue, wanted, limit)

    def audit(
        self, queues: Sequence[str] | None, *, limit: int | None = None, seconds: float | None = None
    ) -> "AsyncGenerator[AuditProgress, None]":
        """Audit these queues, or all: at most ``limit`` of them, and for that long; raises ``PeekError``."""
        # Imported on demand: few runs need the audit, and it is large.
        from rsmq_tui.monitor.audit.rsmq import audit  # noqa: PLC0415

        return audit(self.reader.within(self.reader.ns), queues, limit=limit, seconds=seconds)

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count the messages of a queue by when they become visible; raises ``PeekError``."""
        with in_words():
            counts = await self.reader.pages.due_counts(queue, tuple(at_ms + bound for _, bound in DUE_BOUNDS))
        labels = (*(label for label, _ in DUE_BOUNDS), "later")
        bounded = zip(labels, counts, (0, *counts), strict=False)
        return tuple((label, max(0, count - before)) for label, count, before in bounded)

    async def namespaces(self) -> Namespaces:
        """Return the namespaces on the server; raises ``PeekError``."""
        with in_words():
            return await self.reader.namespaces()

    async def _read(self) -> Snapshot:
        await self._switch()
        meter = self._start_meter(self.reader.traffic)
        index = await self.reader.rows.index()
        meter.heard()
        await self._read_info(index.at_ms)
        await self._begin_poll(self._tracker, index)
        # Look at messages in parallel with the rows: afterwards it would cost another round trip.
        looked, pages = self._tracker.looks(index.names)
        poison_rc = self.thresholds.poison_rc
        look = asyncio.create_task(self.reader.rows.looks(looked, pages, index.at_ms, poison_rc, QUICK_SPAN))
        try:
            async with aclosing(self.reader.rows.read(index.at_ms)) as coming:
                async for positions, rows in coming:
                    await self._add_rows(self._tracker, positions, rows)
            counts, found, flights = await look
        finally:
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)
        queues, totals = await self._end_poll(self._tracker, index.at_ms)
        self._tracker.store_receive_counts(looked, counts)
        self._tracker.store_flights(looked, flights)
        self._tracker.store_pages(zip(pages, found, strict=True))
        namespaces, lists = self._last.namespaces, self._last.lists
        if queues:
            namespaces, lists = None, ()
        elif namespaces is None:
            namespaces, _, lists = await self.reader.namespaces()
        tracked = {"trend": self._tracker.trend, "changes": self._tracker.changes}
        read = {"queues": queues, "totals": totals, "namespaces": namespaces, "lists": lists, **tracked}
        notes = index.problem, refusal(self.reader.scripts_refused)
        is_partial = index.problem is not None
        return self._snapshot_of(meter, notes, at_ms=index.at_ms, is_partial=is_partial, **read)

    def _is_wanted(self) -> bool:
        return self._wanted_ns is None

    async def _switch(self) -> None:
        """Start afresh with the wanted namespace, if another one is wanted."""
        if self._wanted_ns is None:
            return
        await self._remember()
        ns, self._wanted_ns = self._wanted_ns, None
        self.reader.watch(ns)
        place = self._last.place
        self._tracker = PlaceTracker(self.thresholds, place)
        self._memory = self._memory_of(ns)
        self._last = Snapshot(0, self.reader.label, self.reader.ns, interval_s=self._interval_s, place=place)


@runtime_checkable
class ReadsAgain(Protocol):
    """A live source that can update a message without reading its body again."""

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        """Read its current state; the body is kept if it has left the queue. Raises ``PeekError``."""


@runtime_checkable
class ReadsLong(Protocol):
    """A live source that can read a body of any length."""

    async def read_long(self, queue: str, known: MessageView, arrived: Callable[[int], None]) -> MessageView:
        """Read the body of a known message and its current state; raises ``PeekError``.

        ``arrived`` is called several times a second with how many of its bytes have arrived. The body stays None if the
        message has left the queue, or moves meanwhile.
        """


@runtime_checkable
class ReadsRowsAgain(Protocol):
    """A live source that can update many messages at once."""

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        """Read their current state; raises ``PeekError``."""


@runtime_checkable
class LooksFirst(Protocol):
    """A live source that looks at few of many queues in each poll."""

    def look_first(self, queues: Sequence[str]) -> None:
        """Look at these queues more often than at others."""


@runtime_checkable
class KnowsServer(Protocol):
    """A live source that can read the status of its server."""

    async def server(self) -> "tuple[ServerStatus, ...]":
        """Read what the server, or each node of a cluster, says of itself; raises ``PeekError``."""


@runtime_checkable
class KnowsClients(Protocol):
    """A live source that can find out which clients work on a queue."""

    async def clients(self, queue: str, *, seconds: float | None = None) -> "QueueClients":
        """Find out by MONITOR for at most ``seconds``, and by CLIENT LIST alone if that is None.

        Call it on demand only. Raises ``PeekError``.
        """


class Waiters(NamedTuple):
    """The number of consumers that are blocked on lists of a server.

    ``here`` of them wait on one list, for up to ``longest_s`` seconds; both are None if the server does not report it.
    """

    anywhere: int
    here: int | None
    longest_s: int | None


@runtime_checkable
class KnowsWaiters(Protocol):
    """A source that can count the consumers that are blocked on lists of its server."""

    async def blocked(self, queue: str) -> Waiters:
        """Count the blocked consumers; call it on demand only, because it reads CLIENT LIST. Raises ``PeekError``."""

    async def waiting(self, queue: str) -> Waiters | None:
        """Count the blocked consumers, at most once in a poll; raises ``PeekError``.

        None if the server does not report those of a list; CLIENT LIST is then not read.
        """
