"""Choosing so many messages of a queue as are due first: by score, then id, as consumers get them.

A queue is scanned in no order, so that a filter wants all of it scanned; what is kept meanwhile is twice the limit at
most. Without a filter the queue is read from its front, and no further than the limit; and so it is, to its end, where
a filter may choose more than are kept.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from operator import itemgetter

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.matching import Term
from rsmq_tui.monitor.peek import PEEK_ERRORS, told
from rsmq_tui.monitor.search import Progress, search, search_chunks
from rsmq_tui.monitor.wording import plural
from rsmq_tui.protocol import QueueReader, RawMessage, ScanChunk
from rsmq_tui.triage.previews import Matching
from rsmq_tui.triage.selecting import select_matching
from rsmq_tui.triage.selection import Selection

_CHUNK_MESSAGES = 500
# So many messages and no more are kept in memory to be sorted, twice.
_KEPT_MAX = 10_000
# What is kept is sorted no more often than this.
_SORTED_AT_LEAST = 1_000

_Ranked = tuple[float, bytes, RawMessage, int]
_place = itemgetter(0, 1)


class DueFirst:
    """Keeps the first ``limit`` of all messages that it is given, without their bodies; ``matched`` counts all."""

    def __init__(self, limit: int) -> None:
        self.matched = 0
        self._limit = limit
        self._kept: list[_Ranked] = []
        self._last: tuple[float, bytes] | None = None

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Take messages that were read at that server time."""
        last = self._last
        for message in messages:
            self.matched += 1
            score = float(message.score)
            if last is None or (score, message.id) < last:
                self._kept.append((score, message.id, message._replace(body=None), at_ms))
        if len(self._kept) >= self._limit + max(self._limit, _SORTED_AT_LEAST):
            self._cut()

    def chosen(self) -> Sequence[_Ranked]:
        """Return them as (score, id, message, when it was read), those due first at the front."""
        self._cut()
        return self._kept

    def _cut(self) -> None:
        self._kept.sort(key=_place)
        del self._kept[self._limit :]
        if len(self._kept) == self._limit:
            self._last = _place(self._kept[-1]) if self._kept else (float("-inf"), b"")


async def select_due_first(
    reader: QueueReader,
    queue: str,
    scope: Matching,
    limit: int,
    selection: Selection,
    seeing: Callable[[int, int, int], None],
    *,
    bodies: bool,
    sizes: bool,
    hidden: bool,
) -> tuple[int, int]:
    """Select what is due first of all that matches; returns how many match, and how many could not be searched.

    ``bodies`` and ``sizes`` say what is to be read of those that are chosen, ``hidden`` that only those are meant that
    are not visible yet; ``seeing`` is told how many were scanned, how many there are, and how many match. Raises what
    the reader raises, and ``PeekError``.
    """
    wanted = scope.filter
    if hidden:
        wanted = replace(wanted, terms=(*wanted.terms, Term("state", ":", ("hidden",))))
    if await reader.fronts.depth(queue) <= limit:
        unsearched = await select_matching(search(reader, queue, wanted, bodies=bodies, sizes=sizes), selection, seeing)
        if selection.count <= limit:
            return selection.count, unsearched
        # More came in meanwhile than were meant.
        selection.clear()
    if wanted.is_empty or limit > _KEPT_MAX:
        return await _from_front(reader, queue, wanted, limit, selection, seeing, sizes=sizes or bodies)
    first, unsearched, depth = DueFirst(limit), 0, 0
    async with aclosing(search(reader, queue, wanted, bodies=False, sizes=False)) as found:
        async for part in found:
            first.add(part.messages, part.at_ms)
            unsearched, depth = part.not_searched, part.depth
            seeing(part.scanned, part.depth, first.matched)
    chosen = first.chosen()
    for start in range(0, len(chosen), _CHUNK_MESSAGES):
        some = chosen[start : start + _CHUNK_MESSAGES]
        columns = tuple(zip(*(message for _, _, message, _ in some), strict=True))
        at_ms = max(at_ms for *_, at_ms in some)
        read = await reader.scan.read(
            queue, ScanChunk(at_ms, depth, columns), counts=False, bodies=bodies, sizes=sizes or bodies
        )
        selection.add(read.messages, at_ms)
    return first.matched, unsearched


async def search_due_first(
    reader: QueueReader, queue: str, wanted: Filter, limit: int
) -> AsyncGenerator[Progress, None]:
    """Yield the first ``limit`` messages that match with their bodies, those due first at the front.

    The queue is read from its front, and no further than the last of them. Raises ``PeekError``. Close it with
    ``aclose`` when leaving early.
    """
    count = min(limit, _CHUNK_MESSAGES) if wanted.is_empty else _CHUNK_MESSAGES
    chunks = _read(reader, queue, wanted, count, bodies=True, sizes=True)
    try:
        async with aclosing(search_chunks(chunks, wanted, limit)) as found:
            async for progress in found:
                yield progress
    except PEEK_ERRORS as error:
        raise told(error) from error


async def _from_front(
    reader: QueueReader,
    queue: str,
    wanted: Filter,
    limit: int,
    selection: Selection,
    seeing: Callable[[int, int, int], None],
    *,
    sizes: bool,
) -> tuple[int, int]:
    """Select from the front of a queue; where all match, it is read no further than the limit."""
    matched = unsearched = 0
    count = min(limit, _CHUNK_MESSAGES) if wanted.is_empty else _CHUNK_MESSAGES
    async with aclosing(
        search_chunks(_read(reader, queue, wanted, count, bodies=False, sizes=sizes), wanted, None)
    ) as found:
        async for part in found:
            chosen = part.messages[: limit - selection.count]
            selection.add([message._replace(body=None) for message in chosen], part.at_ms)
            matched, unsearched = part.matched, part.not_searched
            seeing(part.scanned, max(part.depth, part.scanned), matched)
            if wanted.is_empty and selection.count >= limit:
                return max(part.depth, selection.count), 0
    return matched, unsearched


async def _read(
    reader: QueueReader, queue: str, wanted: Filter, count: int, *, bodies: bool, sizes: bool
) -> AsyncGenerator[ScanChunk, None]:
    """Walk through a queue from its front, with what the filter needs, and bodies and sizes where they are wanted."""
    needs = wanted.needs()
    async with aclosing(reader.fronts.chunks(queue, count)) as chunks:
        async for chunk in chunks:
            yield await reader.scan.read(
                queue, chunk, counts=True, bodies=bodies or "body" in needs, sizes=sizes or "size" in needs
            )


def what_is_due_first(scope: Matching, limit: int, matched: int, chosen: int, *, hidden: bool = False) -> str:
    """Say which messages were chosen, out of how many that matched; of these, some may have left since."""
    which = "hidden " if hidden else ""
    is_all = matched <= limit
    first = "the one" if chosen == 1 else f"the {chosen:,}"
    if scope.filter.is_empty:
        if not is_all:
            return f"{first} due first of {matched:,} {which}messages of the queue"
        if chosen > 1:
            return f"all {chosen:,} {which}messages of the queue"
        return f"{'the only' if chosen else 'no'} {which}message of the queue"
    where = f"{scope.filter.text}, in the whole queue"
    if not is_all:
        return f"{first} due first of {matched:,} {which + 'ones ' if which else ''}that match {where}"
    if chosen > 1:
        return f"all {plural(chosen, which + 'message')} that match {where}"
    return f"{'the only' if chosen else 'no'} {which}message that matches {where}"
