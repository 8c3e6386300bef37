"""Looking at the items of list queues without touching them: a page, one item, a search, and when leases run out."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.json_paths import JsonPath
from rsmq_tui.monitor.list_ages import AGE_BYTES, read_age
from rsmq_tui.monitor.peek import (
    DUE_BOUNDS,
    PEEK_ERRORS,
    MessageRow,
    MessageView,
    Page,
    PageRequest,
    RowsAgain,
    row_of,
    told,
)
from rsmq_tui.monitor.search import Progress, search_chunks
from rsmq_tui.protocol import PREVIEW_BYTES, PeekedMessage, WholeMessage
from rsmq_tui.protocol.lists.item_ids import ItemId, Place, read_item_id
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.lists.scan import PLACES

# The states of a filter that only items in one place have.
_PLACES: dict[str, Place] = {
    "ready": "queue",
    "hidden": "processing",
    "inflight": "processing",
    "expired": "processing",
    "unleased": "processing",
}

# The states that all items in one place have.
_WHOLE: dict[str, Place] = {"ready": "queue", "hidden": "processing"}


async def read_list_page(reader: ListReader, request: PageRequest, *, age: JsonPath | None = None) -> Page:
    """Read a page of a list queue; ``age`` is where items tell when they were made. Raises ``PeekError``."""
    try:
        raw = await reader.pages.page(
            request.queue,
            part=request.part,
            where=request.where,
            anchor=request.anchor,
            count=request.count,
            whole_bytes=0 if age is None else AGE_BYTES,
        )
    except PEEK_ERRORS as error:
        raise told(error) from error
    rows = tuple(_row(message, raw.at_ms, age) for message in raw.messages)
    return Page(request, raw.at_ms, raw.depth, raw.ready, raw.start, rows)


async def read_list_item(reader: ListReader, queue: str, id: str, *, age: JsonPath | None = None) -> MessageView:
    """Read one item, wherever it is now; raises ``PeekError``."""
    try:
        raw = await reader.pages.item(queue, id)
    except PEEK_ERRORS as error:
        raise told(error) from error
    return MessageView(raw.at_ms, raw.id, _whole_row(raw, age), raw.body, raw.size)


async def read_item_again(reader: ListReader, queue: str, known: MessageView) -> MessageView:
    """Read anew where an item is that was read before; its body is what its id says. Raises ``PeekError``."""
    try:
        raw = await reader.pages.item(queue, known.id, with_body=False)
    except PEEK_ERRORS as error:
        raise told(error) from error
    if raw.score is None:
        return replace(known, at_ms=raw.at_ms, row=None)
    row = row_of(PeekedMessage(raw.id, raw.score, raw.rc, raw.fr_ms, raw.size, known.body), raw.at_ms)
    sent_ms = None if known.row is None else known.row.sent_ms
    return replace(known, at_ms=raw.at_ms, id=raw.id, row=replace(row, sent_ms=sent_ms))


async def read_items_again(reader: ListReader, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
    """Read anew where items are that were read before, as far as they are still near there.

    Where scripts are refused nothing is told. Raises ``PeekError``.
    """
    ids = [row.id for row in rows]
    try:
        now = await reader.pages.present(queue, ids)
    except PEEK_ERRORS as error:
        raise told(error) from error
    if now is None:
        return RowsAgain(0, {})
    again: dict[str, MessageRow | None] = dict.fromkeys(ids) if now.is_known else {}
    for row in rows:
        if row.id in now.found:
            id, score = now.found[row.id]
            found = row_of(PeekedMessage(id, score, 0, None, row.size, row.preview), now.at_ms)
            again[row.id] = replace(found, sent_ms=row.sent_ms)
    return RowsAgain(now.at_ms, again, frozenset(ids) - again.keys())


async def search_lists(
    reader: ListReader,
    queue: str,
    wanted: Filter,
    *,
    limit: int | None = None,
    bodies: bool = True,
    age: JsonPath | None = None,
) -> AsyncGenerator[Progress, None]:
    """Yield what matches, in no order, with each part of the queue that was searched; raises ``PeekError``.

    It ends after ``limit`` matches. Only what is in processing is read where nothing else can match, or only the queue.
    Without ``bodies`` they are read only where the filter needs them. Close it with ``aclose`` when leaving early.
    """
    bodies = bodies or "body" in wanted.needs(ages_in_bodies=age is not None)
    try:
        chunks = reader.scan.chunks(queue, bodies=bodies, places=places_of(wanted))
        async with aclosing(search_chunks(chunks, wanted, limit, age)) as coming:
            async for progress in coming:
                yield progress
    except PEEK_ERRORS as error:
        raise told(error) from error


async def read_list_due(reader: ListReader, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
    """Count what is in processing by when its lease runs out; raises ``PeekError``."""
    try:
        counts = await reader.pages.due_counts(queue, tuple(at_ms + bound for _, bound in DUE_BOUNDS))
    except PEEK_ERRORS as error:
        raise told(error) from error
    *ends, leases, processing = counts
    labels = ("over", *(label for label, _ in DUE_BOUNDS[1:]), "later", "no lease")
    numbers = [count - before for count, before in zip((*ends, leases), (0, *ends), strict=True)]
    return tuple(zip(labels, (max(0, number) for number in (*numbers, processing - leases)), strict=True))


async def count_blocked(reader: ListReader) -> int:
    """Count the consumers that wait on lists of the server, whichever lists these are; raises ``PeekError``."""
    try:
        return len(await reader.blocked())
    except PEEK_ERRORS as error:
        raise told(error) from error


def places_of(wanted: Filter) -> tuple[Place, ...]:
    """Return where items lie that a filter may find."""
    places = set(PLACES)
    for term in wanted.terms:
        if term.field == "state" and isinstance(term.value, tuple):
            if not term.inverted:
                places &= {_PLACES[state] for state in term.value if state in _PLACES}
            else:
                places -= {_WHOLE[state] for state in term.value if state in _WHOLE}
    return tuple(place for place in PLACES if place in places)


def follow_items(ids: Iterable[str], rows: Sequence[MessageRow]) -> Iterator[tuple[str, MessageRow]]:
    """Find items that are no more where their ids say among rows, by their bytes: each in the nearest that is left."""
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
    if raw.score is None:
        return None
    row = row_of(PeekedMessage(raw.id, raw.score, raw.rc, raw.fr_ms, raw.size, raw.body), raw.at_ms)
    if age is None or raw.body is None:
        return row
    return replace(row, sent_ms=read_age(raw.body, raw.size, age)[0])
