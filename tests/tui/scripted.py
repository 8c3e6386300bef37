"""A source that plays snapshots made by a test, on a clock that the test controls."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from rsmq_tui.monitor import (
    Connection,
    Filter,
    MessageRow,
    MessageState,
    MessageView,
    Page,
    PageRequest,
    PeekError,
    SearchProgress,
    Snapshot,
    Thresholds,
)
from rsmq_tui.monitor.audit.rsmq import AuditProgress
from rsmq_tui.monitor.messages.peek import RowsAgain
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.protocol import Failure, Namespaces, RawMessage, Row, name_bytes
from rsmq_tui.protocol.rsmq.pages import start_of_page

START_MS = 1_795_000_000_000


class FakeClock:
    """A monotonic clock in seconds that moves only on request."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def row_of(
    *,
    depth: int = 0,
    hidden: int = 0,
    sent: int = 0,
    received: int = 0,
    head: tuple[str, int] | None = None,
    vt: str = "30",
) -> Row:
    """Make a raw row of a queue created at START_MS."""
    created = str(START_MS // 1000 - 86_400).encode()
    fields = [vt.encode(), b"0", b"65536", created, created, str(sent).encode(), str(received).encode()]
    if not depth:
        return [fields, 0]
    identity, score = head or ("hocx8qopw" + "0" * 23, START_MS - 1000)
    return [fields, depth, identity.encode(), str(score).encode(), hidden]


class ScriptedSource:
    """Gives the snapshots that are played to it, and pages of the messages that it was given.

    A page is made when it is asked for; while ``hold`` is set to an event, it is given only after that event. A search
    takes ``search_step`` messages at a time, and ``search_gate``, a semaphore, lets it take so many steps.
    """

    def __init__(
        self, clock: FakeClock | None = None, *, thresholds: Thresholds | None = None, place: str = ""
    ) -> None:
        self.thresholds = thresholds or Thresholds()
        self.clock = clock or FakeClock()
        self.tracker = PlaceTracker(self.thresholds, place)
        self.messages: dict[str, list[MessageRow]] = {}
        self.bodies: dict[str, bytes] = {}
        self.depths: dict[str, tuple[int, int]] = {}
        self.due_counts: tuple[tuple[str, int], ...] | None = None
        self.found = Namespaces((), complete=True)
        self.peek_error: str | None = None
        self.read_error: str | None = None
        self.scan_error: str | None = None
        self.search_error: str | None = None
        self.search_step = 100
        self.search_gate: asyncio.Semaphore | None = None
        self.searches: list[Filter] = []
        self.searches_closed = 0
        self.hold: asyncio.Event | None = None
        self.woken = 0
        self.paused = False
        self.switched: list[str] = []
        self.requests: list[PageRequest] = []
        self.followed: list[list[str]] = []
        self.closed = False
        self.audits: list[Sequence[str] | None] = []
        self.audit_steps: Sequence[AuditProgress] = ()
        self.last = Snapshot(0, f"redis://{place or 'cache-1'}:6379/0", "rsmq", place=place)
        self._queue: asyncio.Queue[Snapshot] = asyncio.Queue()

    def snapshot_of(self, rows: dict[str, Row], at_ms: int = START_MS) -> Snapshot:
        """Make a snapshot as a poll of these rows would."""
        self.tracker.begin(at_ms, list(rows))
        self.tracker.add_rows(range(len(rows)), rows.values())
        queues, totals = self.tracker.finish()
        link = Connection(fresh_at_s=self.clock.now_s)
        self.last = replace(
            self.last, at_ms=at_ms, queues=queues, totals=totals, trend=self.tracker.trend, connection=link
        )
        return self.last

    def play(self, snapshot: Snapshot) -> None:
        """Give the app this snapshot next."""
        self.last = snapshot
        self._queue.put_nowait(snapshot)

    def play_rows(self, rows: dict[str, Row], at_ms: int = START_MS) -> None:
        """Give the app the snapshot of a poll of these rows."""
        self.play(self.snapshot_of(rows, at_ms))

    def play_failure(self, failure: Failure, retry_in_s: float = 4.0) -> None:
        """Let the next poll fail."""
        link = Connection(failure, self.last.connection.fresh_at_s, self.clock.now_s + retry_in_s)
        self.play(replace(self.last, connection=link))

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        while True:
            yield await self._queue.get()

    def wake(self) -> None:
        self.woken += 1

    def set_paused(self, paused: bool) -> None:
        self.paused = paused
        self.play(replace(self.last, paused=paused))

    def switch(self, ns: str) -> None:
        self.switched.append(ns)

    async def peek(self, request: PageRequest) -> Page:
        self.requests.append(request)
        if self.peek_error is not None:
            raise PeekError(self.peek_error)
        everything = self.messages.get(request.queue, [])
        ready = sum(1 for row in everything if row.state is MessageState.READY)
        low = ready if request.part == "hidden" else 0
        high = ready if request.part == "ready" else len(everything)
        # An anchor is a place in the order, and need not be there any more.
        anchor = (float(request.anchor.score), request.anchor.id) if request.anchor else (0.0, "")
        order = [(float(row.score), row.id) for row in everything]
        at, after = bisect_left(order, anchor), bisect_right(order, anchor)
        start = {"first": low, "last": high - request.count, "after": after, "before": at - request.count, "at": at}[
            request.where
        ]
        start = start_of_page(start + request.offset, request.offset, request.count, low, high)
        rows = tuple(everything[start : min(start + request.count, high)])
        depth, ready = self.depths.get(request.queue, (len(everything), ready))
        page = Page(request, self.last.at_ms or START_MS, depth, ready, start, rows)
        if self.hold is not None:
            await self.hold.wait()
        return page

    async def read(self, queue: str, id: str) -> MessageView:
        if self.read_error is not None:
            raise PeekError(self.read_error)
        row = next((row for row in self.messages.get(queue, []) if row.id == id), None)
        body = self.bodies.get(id, b"" if row is None else row.preview)
        return MessageView(self.last.at_ms or START_MS, id, row, body, len(body or b""))

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        found = await self.read(queue, known.id)
        return replace(known, at_ms=found.at_ms, row=None) if found.row is None else found

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        if self.peek_error is not None:
            raise PeekError(self.peek_error)
        self.followed.append([row.id for row in rows])
        there = {row.id: row for row in self.messages.get(queue, [])}
        return RowsAgain(self.last.at_ms, {row.id: there.get(row.id) for row in rows})

    async def search(self, queue: str, wanted: Filter) -> AsyncGenerator[SearchProgress, None]:
        self.searches.append(wanted)
        everything = [self._raw(row) for row in self.messages.get(queue, [])]
        at_ms, matches, matched = self.last.at_ms or START_MS, wanted.predicate(), 0
        try:
            for start in range(0, max(1, len(everything)), self.search_step):
                if self.search_gate is not None:
                    await self.search_gate.acquire()
                if self.search_error is not None:
                    raise PeekError(self.search_error)
                part = everything[start : start + self.search_step]
                found = tuple(message for message in part if matches(message, at_ms))
                matched += len(found)
                yield SearchProgress(at_ms, len(everything), start + len(part), matched, 0, found)
                await asyncio.sleep(0)
        finally:
            self.searches_closed += 1

    async def audit(self, queues: Sequence[str] | None) -> AsyncGenerator[AuditProgress, None]:
        self.audits.append(queues)
        if self.peek_error is not None:
            raise PeekError(self.peek_error)
        for progress in self.audit_steps:
            if self.search_gate is not None:
                await self.search_gate.acquire()
            yield progress
            await asyncio.sleep(0)

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        if self.due_counts is not None:
            return self.due_counts
        rows = self.messages.get(queue, [])
        ready = sum(1 for row in rows if row.state is MessageState.READY)
        return (("now", ready), ("< 1 min", len(rows) - ready))

    def _raw(self, row: MessageRow) -> RawMessage:
        rc, fr = (str(row.rc).encode(), str(row.fr_ms or 0).encode()) if row.rc else (None, None)
        body = self.bodies.get(row.id, row.preview)
        return RawMessage(name_bytes(row.id), row.score.encode(), rc, fr, row.size, body)

    async def namespaces(self) -> Namespaces:
        if self.scan_error is not None:
            raise PeekError(self.scan_error)
        return self.found

    async def aclose(self) -> None:
        self.closed = True


def messages_of(bodies: Sequence[bytes | None], *, hidden: int = 0, rc: int = 0) -> list[MessageRow]:
    """Make messages with these bodies; the last ``hidden`` of them are in flight."""
    rows = []
    for number, body in enumerate(bodies):
        is_hidden = number >= len(bodies) - hidden
        rows.append(
            MessageRow(
                id=f"hocx8qopw{number:023d}",
                score=str(START_MS + (20_000 + number if is_hidden else number - 60_000)),
                state=MessageState.IN_FLIGHT if is_hidden else MessageState.READY,
                due_ms=START_MS + (20_000 + number if is_hidden else number - 60_000),
                sent_ms=START_MS - 60_000 + number,
                rc=max(rc, int(is_hidden)),
                fr_ms=START_MS - 10_000 if is_hidden else None,
                size=len(body or b""),
                preview=None if body is None else body[:240],
            )
        )
    return rows
