"""The live source: polls one namespace of one server, never two polls at once, and says how it went."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.looks import QUICK_SPAN
from rsmq_tui.monitor.peek import (
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
from rsmq_tui.monitor.polling import Polling, notes_of, refusal
from rsmq_tui.monitor.sampler import Sampler
from rsmq_tui.monitor.search import Progress, search
from rsmq_tui.monitor.snapshot import Link, Snapshot
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.protocol import Namespaces, QueueReader

if TYPE_CHECKING:
    from rsmq_tui.monitor.auditing import AuditProgress


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
        from rsmq_tui.monitor.auditing import audit  # noqa: PLC0415

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
