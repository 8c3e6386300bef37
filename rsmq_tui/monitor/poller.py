"""The live source: polls one namespace of one server, never two polls at once, and says how it went."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.peek import (
    MessageView,
    Page,
    PageRequest,
    read_again,
    read_due,
    read_message,
    read_namespaces,
    read_page,
)
from rsmq_tui.monitor.polling import Polling, notes_of, refusal
from rsmq_tui.monitor.sampler import Sampler
from rsmq_tui.monitor.search import Progress, search
from rsmq_tui.monitor.snapshot import Link, Snapshot
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.protocol import Namespaces, QueueReader

if TYPE_CHECKING:
    from rsmq_tui.monitor.auditing import AuditProgress

# Each poll also looks at the receive counts of this many queues, in turn, and at this many messages on either side of
# the first hidden one; together a look holds the server for a millisecond or two.
_LOOK_QUEUES = 40
_LOOK_SPAN = 50


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
        self._look_at_index = 0
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
        looked = self._next_to_look_at(index.names)
        look = asyncio.create_task(self._look_at(looked, index.at_ms))
        try:
            async with aclosing(self._reader.rows.rows(index.at_ms)) as coming:
                async for names, rows in coming:
                    self._sampler.take(names, rows)
            counts = await look
        finally:
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)
        queues, totals = self._sampler.finish()
        self._sampler.take_receive_counts(looked, counts)
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

    def _next_to_look_at(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the queues whose receive counts are looked at in this poll; all have their turn."""
        start = self._look_at_index if self._look_at_index < len(names) else 0
        looked = names[start : start + _LOOK_QUEUES]
        self._look_at_index = start + len(looked)
        return looked

    async def _look_at(self, names: tuple[str, ...], at_ms: int) -> list[list[int]]:
        if not names:
            return []
        return await self._reader.rows.receive_counts(names, at_ms, self.thresholds.poison_rc, _LOOK_SPAN)

    def _is_wanted(self) -> bool:
        return self._wanted_ns is None

    def _switch(self) -> None:
        """Begin anew with the namespace that is wanted, where it is another one."""
        if self._wanted_ns is None:
            return
        self._reader.watch(self._wanted_ns)
        self._wanted_ns = None
        self._look_at_index = 0
        self._sampler = Sampler(self.thresholds, self._place)
        self._last = Snapshot(0, self._reader.label, self._reader.ns, interval_s=self._interval_s, place=self._place)
