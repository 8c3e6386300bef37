"""Polls the list queues of one server, and reads their items."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from rsmq_tui.monitor.filters.json_paths import AGE_BYTES, JsonPath, read_age
from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.search import SearchProgress, search_chunks
from rsmq_tui.monitor.messages.peek import (
    DUE_BOUNDS,
    MessageRow,
    MessageView,
    Page,
    PeekError,
    RowsAgain,
    in_words,
    row_alone,
    row_of,
)
from rsmq_tui.monitor.model import Snapshot
from rsmq_tui.monitor.poller import ReaderPolling, Waiters, refusal
from rsmq_tui.monitor.text import plural
from rsmq_tui.monitor.tracking.list_tracker import list_trackers
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol import (
    PREVIEW_BYTES,
    SERVER_ERRORS,
    Namespaces,
    PageRequest,
    PeekedMessage,
    WholeMessage,
    failure_of,
)
from rsmq_tui.protocol.keys import name_bytes
from rsmq_tui.protocol.lists.naming import LISTS_NS, NO_ITEM_ID, ItemId, ItemPlace, read_item_id
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.lists.scan import PLACES

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.rsmq import AuditProgress
    from rsmq_tui.monitor.tracking.memory import Memory


# Each state in the filter language, and the only place where items can have it.
_PLACES: dict[str, ItemPlace] = {
    "ready": "queue",
    "hidden": "processing",
    "inflight": "processing",
    "expired": "processing",
    "unleased": "processing",
}

# The states that every item in a place has.
_WHOLE: dict[str, ItemPlace] = {"ready": "queue", "hidden": "processing"}


async def search_lists(
    reader: ListReader,
    queue: str,
    wanted: Filter,
    *,
    limit: int | None = None,
    age: JsonPath | None = None,
) -> AsyncGenerator[SearchProgress, None]:
    """Yield the matches of each part of the queue, in the order in which items are taken; raises ``PeekError``.

    Items in processing come last, the oldest first. The search ends after ``limit`` matches. It reads only the queue,
    or only the items in processing, if nothing else can match. Close it with ``aclose`` when leaving early.
    """
    with in_words():
        chunks = reader.scan.chunks(queue, bodies=True, places=item_places_of(wanted))
        async with aclosing(search_chunks(chunks, wanted, limit, age)) as coming:
            async for progress in coming:
                yield progress


def item_places_of(wanted: Filter) -> tuple[ItemPlace, ...]:
    """Return the places where items can match a filter."""
    places = set(PLACES)
    for term in wanted.terms:
        if term.field == "state" and isinstance(term.value, tuple):
            if not term.inverted:
                places &= {_PLACES[state] for state in term.value if state in _PLACES}
            else:
                places -= {_WHOLE[state] for state in term.value if state in _WHOLE}
    return tuple(place for place in PLACES if place in places)


def follow_items(ids: Iterable[str], rows: Sequence[MessageRow]) -> Iterator[tuple[str, MessageRow]]:
    """Pair ids of items that have moved with the rows that have the same bytes, the nearest unpaired one for each."""
    by_sha: dict[str, list[tuple[ItemId, MessageRow]]] = {}
    known = [(id, found) for id in ids if (found := read_item_id(id)) is not None]
    for row in rows if known else ():
        if (found := read_item_id(row.id)) is not None:
            by_sha.setdefault(found.sha, []).append((found, row))
    for id, was in known:
        near = by_sha.get(was.sha)
        if near:
            best = min(near, key=lambda one: (one[0].place != was.place, abs(one[0].position - was.position)))
            near.remove(best)
            yield id, best[1]


def _row(message: PeekedMessage, at_ms: int, age: JsonPath | None) -> MessageRow:
    row = row_of(message, at_ms)
    if age is None or message.preview is None:
        return row
    sent_ms, _ = read_age(message.preview, message.size, age)
    return replace(row, sent_ms=sent_ms, preview=message.preview[:PREVIEW_BYTES])


def _whole_row(raw: WholeMessage, age: JsonPath | None) -> MessageRow | None:
    row = row_alone(raw, raw.body)
    if row is None or age is None or raw.body is None:
        return row
    return replace(row, sent_ms=read_age(raw.body, raw.size, age)[0])


SEARCH_EVERY_S = 60.0
# Pause between two steps of a search; each step blocks the server for at most a millisecond.
SEARCH_PAUSE_S = 0.01
# How long the first poll waits for the first search; later polls show what is found after that.
FIRST_SEARCH_S = 1.0
# Delay before a failed search is tried again, and the shortest time between two searches.
_SEARCH_AGAIN_S = 5.0


class ListPoller(ReaderPolling[ListReader]):
    """Polls the list queues of a server (see ``Polling``); ``place`` names the server if there are several.

    If patterns are watched, a slow SCAN searches for lists beside the polls: before the first poll, then every
    ``search_every_s`` seconds and after ``wake``. ``age`` is the path of the creation time in an item.
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
        memory: "Memory | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        first = Snapshot(0, reader.label, LISTS_NS, interval_s=interval_s, place=place)
        thresholds = thresholds or Thresholds()
        tracker = PlaceTracker(thresholds, place, list_trackers(age))
        super().__init__(
            reader, tracker, first, interval_s=interval_s, thresholds=thresholds, memory=memory, clock=clock
        )
        self._age = age
        self._search_every_s = search_every_s
        # Let the first poll wait for the first search as long as that takes, at most until the next one would be due:
        # for callers to whom a list that is not found yet would be one that does not exist.
        self.waits_for_search = False
        self._searching: asyncio.Task[None] | None = None
        self._searched = asyncio.Event()
        self._search_now = asyncio.Event()
        self._search_problem: str | None = None

    async def discover(self, on_progress: Callable[[int, int], None] | None = None) -> bool:
        """Search for lists now, without pauses, and return whether the search was complete; raises redis-py's errors.

        ``on_progress`` is called from time to time with the approximate number of keys scanned, and the number of lists
        known.
        """
        complete = await self.reader.discovery.search(on_progress=on_progress)
        self._searched.set()
        return complete

    def wake(self) -> None:
        """Poll now, and search for lists soon."""
        self._search_now.set()
        super().wake()

    def switch(self, ns: str) -> None:
        """Do nothing: lists are in no namespace."""

    async def peek(self, request: PageRequest) -> Page:
        """Read one page of a queue's items; raises ``PeekError``."""
        with in_words():
            raw = await self.reader.pages.page(request, 0 if self._age is None else AGE_BYTES)
        rows = tuple(_row(message, raw.at_ms, self._age) for message in raw.messages)
        return Page(request, raw.at_ms, raw.depth, raw.ready, raw.start, rows)

    async def read(self, queue: str, id: str) -> MessageView:
        """Read one item whole, in the queue or in processing; raises ``PeekError``, also for what is no id of one."""
        if read_item_id(id) is None:
            raise PeekError(NO_ITEM_ID)
        with in_words():
            raw = await self.reader.pages.item(queue, id)
        return MessageView(raw.at_ms, raw.id, _whole_row(raw, self._age), raw.body, raw.size)

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        """Find a known item again. Its body is not read: the id identifies it. Raises ``PeekError``."""
        with in_words():
            raw = await self.reader.pages.item(queue, known.id, with_body=False)
        row = row_alone(raw, known.body)
        if row is None:
            return replace(known, at_ms=raw.at_ms, row=None)
        sent_ms = None if known.row is None else known.row.sent_ms
        return replace(known, at_ms=raw.at_ms, id=raw.id, row=replace(row, sent_ms=sent_ms))

    async def read_long(self, queue: str, known: MessageView, arrived: Callable[[int], None]) -> MessageView:
        """Read a known item of any length; if it is not found, its current state. Raises ``PeekError``."""
        with in_words():
            body = await self.reader.pages.long_body(queue, known.id, arrived)
        return await self.read_again(queue, known) if body is None else replace(known, body=body)

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        """Find known items again, near their last positions; raises ``PeekError``."""
        ids = [row.id for row in rows]
        with in_words():
            now = await self.reader.pages.present(queue, ids)
        again: dict[str, MessageRow | None] = dict.fromkeys(ids) if now.is_known else {}
        for row in rows:
            if row.id in now.found:
                id, score = now.found[row.id]
                found = row_of(PeekedMessage(id, score, 0, None, row.size, row.preview), now.at_ms)
                again[row.id] = replace(found, sent_ms=row.sent_ms)
        return RowsAgain(now.at_ms, again, frozenset(ids) - again.keys())

    def search(self, queue: str, wanted: Filter, limit: int | None = None) -> AsyncGenerator[SearchProgress, None]:
        """Search the whole queue, or for the ``limit`` matches that are taken first; raises ``PeekError``."""
        return search_lists(self.reader, queue, wanted, limit=limit, age=self._age)

    def audit(
        self, queues: Sequence[str] | None, *, limit: int | None = None, seconds: float | None = None
    ) -> "AsyncGenerator[AuditProgress, None]":
        """Compare the items in processing with the leases; raises ``PeekError``.

        It takes some calls, however many lists there are: the limits are for other kinds of queues.
        """
        from rsmq_tui.monitor.audit.lists import audit_lists  # noqa: PLC0415 - only audits need it

        return audit_lists(self.reader, queues)

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count the items in processing by when their leases expire; raises ``PeekError``."""
        with in_words():
            counts = await self.reader.pages.due_counts(queue, tuple(at_ms + bound for _, bound in DUE_BOUNDS))
        *ends, leases, processing = counts
        labels = ("over", *(label for label, _ in DUE_BOUNDS[1:]), "later", "no lease")
        numbers = [count - before for count, before in zip((*ends, leases), (0, *ends), strict=True)]
        return tuple(zip(labels, (max(0, number) for number in (*numbers, processing - leases)), strict=True))

    async def blocked(self, queue: str) -> Waiters:
        """Count the consumers blocked on lists of this server, and on this one; raises ``PeekError``."""
        with in_words():
            found = await self.reader.blocked()
        if any(each.keys is None for each in found):
            return Waiters(len(found), None, None)
        here = [each.waited_s for each in found if each.keys and name_bytes(queue) in each.keys]
        return Waiters(len(found), len(here), max(here, default=None))

    async def waiting(self, queue: str) -> Waiters | None:
        """Count them if the server reports for which lists they wait, else return None; raises ``PeekError``."""
        with in_words():
            is_reported = await self.reader.reports_waits()
        return await self.blocked(queue) if is_reported else None

    async def namespaces(self) -> Namespaces:
        """Return none: lists are in no namespace."""
        return Namespaces((), complete=True)

    async def aclose(self) -> None:
        """Stop the search, write the memory and close the connections."""
        if self._searching is not None:
            self._searching.cancel()
            await asyncio.gather(self._searching, return_exceptions=True)
        await super().aclose()

    async def _read(self) -> Snapshot:
        await self._begin_search()
        meter = self._start_meter(self.reader.traffic)
        index = await self.reader.rows.index()
        meter.heard()
        await self._read_info(index.at_ms)
        await self._begin_poll(self._tracker, index)
        async with aclosing(self.reader.rows.read(index.at_ms)) as coming:
            async for positions, rows in coming:
                await self._add_rows(self._tracker, positions, rows)
        queues, totals = await self._end_poll(self._tracker, index.at_ms)
        missing = (index.problem, *self._search_notes())
        notes = (*missing, refusal(self.reader.scripts_refused))
        read = {"queues": queues, "totals": totals, "trend": self._tracker.trend, "changes": self._tracker.changes}
        return self._snapshot_of(meter, notes, at_ms=index.at_ms, is_partial=any(missing), **read)

    async def _begin_search(self) -> None:
        """Start the search beside the polls; the first poll waits for its end, usually at most ``FIRST_SEARCH_S``."""
        if not self.reader.discovery.searches:
            return
        if self._searching is None:
            self._searching = asyncio.create_task(self._keep_searching())
            ended = asyncio.create_task(self._searched.wait())
            timeout_s = self._search_every_s if self.waits_for_search else FIRST_SEARCH_S
            await asyncio.wait((ended, self._searching), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
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
                    await self.reader.discovery.search(pause_s=SEARCH_PAUSE_S, steps_max=None)
                    self._search_problem = None
                except SERVER_ERRORS as error:
                    # A poll reports a failing server, but SCAN may fail alone.
                    self._search_problem = f"the search for lists failed: {failure_of(error).sentence}"
                    pause_s = min(pause_s, _SEARCH_AGAIN_S)
                self._searched.set()
            await self._rest(pause_s)

    async def _rest(self, pause_s: float) -> None:
        """Wait ``pause_s``, or less if ``wake`` is called, but at least ``_SEARCH_AGAIN_S``."""
        await asyncio.sleep(min(pause_s, _SEARCH_AGAIN_S))
        try:
            async with asyncio.timeout(max(0.0, pause_s - _SEARCH_AGAIN_S)):
                await self._search_now.wait()
        except TimeoutError:
            pass
        self._search_now.clear()

    def _search_notes(self) -> Sequence[str | None]:
        if not self.reader.discovery.searches:
            return ()
        if not self._searched.is_set():
            return (f"still searching for lists, {plural(len(self.reader.discovery.names), 'list')} found so far",)
        return self._search_problem, self.reader.discovery.note
