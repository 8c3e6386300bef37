"""The live source of the list queues of one server: polls those that are known, and looks for others now and then."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.json_paths import JsonPath
from rsmq_tui.monitor.list_looking import (
    count_blocked,
    read_item_again,
    read_items_again,
    read_list_due,
    read_list_item,
    read_list_page,
    search_lists,
)
from rsmq_tui.monitor.list_tracking import list_trackers
from rsmq_tui.monitor.peek import MessageRow, MessageView, Page, PageRequest, RowsAgain
from rsmq_tui.monitor.polling import Polling, notes_of, refusal
from rsmq_tui.monitor.sampler import Sampler
from rsmq_tui.monitor.search import Progress
from rsmq_tui.monitor.snapshot import Link, Snapshot
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.monitor.wording import plural
from rsmq_tui.protocol import SERVER_ERRORS, Namespaces, failure_of
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.protocol.lists.reader import ListReader

if TYPE_CHECKING:
    from rsmq_tui.monitor.auditing import AuditProgress

SEARCH_EVERY_S = 60.0
# Between two steps of a search, each of which holds the server for a millisecond at most.
SEARCH_PAUSE_S = 0.01
# The first poll waits so long for the first search; what is found later is shown by later polls.
FIRST_SEARCH_S = 1.0
# A search that failed is tried again sooner, and one that somebody asks for comes no sooner after the last.
_SEARCH_AGAIN_S = 5.0


class ListPoller(Polling):
    """Polls the list queues of a server, as ``Polling`` says; ``place`` names it among several.

    Where patterns are watched, it looks for lists by a slow SCAN of its own, apart from the polls: before the first of
    them, then every ``search_every_s`` seconds and when it is woken. ``age`` is where an item tells when it was made.
    """

    def __init__(
        self,
        reader: ListReader,
        *,
        interval_s: float = 1.0,
        place: str = "",
        thresholds: Thresholds | None = None,
        age: JsonPath | None = None,
        search_every_s: float = SEARCH_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        first = Snapshot(0, reader.label, LISTS_NS, interval_s=interval_s, place=place)
        super().__init__(first, interval_s=interval_s, clock=clock)
        self.thresholds = thresholds or Thresholds()
        self._reader = reader
        self._place = place
        self._age = age
        self._sampler = Sampler(self.thresholds, place, list_trackers(age))
        self._search_every_s = search_every_s
        self._searching: asyncio.Task[None] | None = None
        self._searched = asyncio.Event()
        self._search_now = asyncio.Event()
        self._search_problem: str | None = None

    async def discover(self, told: Callable[[int, int], None] | None = None) -> bool:
        """Look for lists now, without rests, and tell whether all were found; raises redis-py's errors.

        ``told`` is called now and then with the number of keys that were passed, about, and of lists that are known.
        """
        complete = await self._reader.discovery.search(told=told)
        self._searched.set()
        return complete

    def wake(self) -> None:
        """Poll now, and look for lists soon."""
        self._search_now.set()
        super().wake()

    def switch(self, ns: str) -> None:
        """Do nothing: lists are in no namespace."""

    async def peek(self, request: PageRequest) -> Page:
        """Read one page of a queue's items; raises ``PeekError``."""
        return await read_list_page(self._reader, request, age=self._age)

    async def read(self, queue: str, id: str) -> MessageView:
        """Read one item whole; raises ``PeekError``."""
        return await read_list_item(self._reader, queue, id, age=self._age)

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        """Read anew where an item is; raises ``PeekError``."""
        return await read_item_again(self._reader, queue, known)

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        """Read anew where these items are, as far as they are still near there; raises ``PeekError``."""
        return await read_items_again(self._reader, queue, rows)

    def search(self, queue: str, wanted: Filter) -> AsyncGenerator[Progress, None]:
        """Look for what matches in the whole queue; it raises ``PeekError``."""
        return search_lists(self._reader, queue, wanted, age=self._age)

    def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Compare what is in processing with the leases; it raises ``PeekError``."""
        from rsmq_tui.monitor.list_auditing import audit_lists  # noqa: PLC0415 - only who asks needs it

        return audit_lists(self._reader, queues)

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count when the leases of a queue run out; raises ``PeekError``."""
        return await read_list_due(self._reader, queue, at_ms)

    async def blocked(self) -> int:
        """Count the consumers blocked on lists of this server, whichever these are; raises ``PeekError``."""
        return await count_blocked(self._reader)

    async def namespaces(self) -> Namespaces:
        """Return none: lists are in no namespace."""
        return Namespaces((), complete=True)

    async def aclose(self) -> None:
        """End the search and close the connections."""
        if self._searching is not None:
            self._searching.cancel()
            await asyncio.gather(self._searching, return_exceptions=True)
        await self._reader.aclose()

    async def _read(self) -> Snapshot:
        await self._begin_search()
        meter = self._meter(self._reader.traffic)
        index = await self._reader.rows.index()
        meter.heard()
        if self._failures:
            self._sampler.resume(index.at_ms)
        self._sampler.begin(index.at_ms)
        async with aclosing(self._reader.rows.rows(index.at_ms)) as coming:
            async for names, rows in coming:
                self._sampler.take(names, rows)
        queues, totals = self._sampler.finish()
        now_s = self._clock()
        return Snapshot(
            at_ms=index.at_ms,
            server=self._reader.label,
            ns=LISTS_NS,
            queues=queues,
            totals=totals,
            trend=self._sampler.trend,
            cost=meter.cost(now_s),
            link=Link(None, now_s, None),
            interval_s=self._interval_s,
            paused=self._paused,
            notes=notes_of(index.problem, *self._search_notes(), refusal(self._reader.scripts_refused)),
            place=self._place,
        )

    async def _begin_search(self) -> None:
        """Let the search run beside the polls; the first poll waits for its end, but not for long."""
        if not self._reader.discovery.searches:
            return
        if self._searching is None:
            self._searching = asyncio.create_task(self._keep_searching())
            ended = asyncio.create_task(self._searched.wait())
            await asyncio.wait((ended, self._searching), timeout=FIRST_SEARCH_S, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
        elif self._searching.done():
            self._searching.result()

    async def _keep_searching(self) -> None:
        if self._searched.is_set():
            await self._rest(self._search_every_s)
        while True:
            pause_s = self._search_every_s
            if not self._paused:
                try:
                    await self._reader.discovery.search(pause_s=SEARCH_PAUSE_S, steps_max=None)
                    self._search_problem = None
                except SERVER_ERRORS as error:
                    # Whoever polls tells what is wrong with the server; it may also be wrong with this alone.
                    self._search_problem = f"the search for lists failed: {failure_of(error).sentence}"
                    pause_s = min(pause_s, _SEARCH_AGAIN_S)
                self._searched.set()
            await self._rest(pause_s)

    async def _rest(self, pause_s: float) -> None:
        """Wait for so long, or until somebody wants to know."""
        await asyncio.sleep(min(pause_s, _SEARCH_AGAIN_S))
        try:
            async with asyncio.timeout(max(0.0, pause_s - _SEARCH_AGAIN_S)):
                await self._search_now.wait()
        except TimeoutError:
            pass
        self._search_now.clear()

    def _search_notes(self) -> Sequence[str | None]:
        if not self._reader.discovery.searches:
            return ()
        if not self._searched.is_set():
            return (f"still searching for lists, {plural(len(self._reader.discovery.names), 'list')} found so far",)
        return self._search_problem, self._reader.discovery.note
