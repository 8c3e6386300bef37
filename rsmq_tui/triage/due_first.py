"""Choosing so many messages of a queue as are due first: by score, then id, as consumers get them.

A queue is scanned in no order, so that a filter wants all of it scanned; what is kept meanwhile is twice the limit at
most. Without a filter, the queue is read from its front, and no further than the limit.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from operator import itemgetter

from rsmq_tui.monitor.search import search
from rsmq_tui.protocol import QueueReader, RawMessage, ScanChunk, name_bytes, name_of
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.pages import Anchor
from rsmq_tui.triage.previews import Matching
from rsmq_tui.triage.selection import Selection

_CHUNK_MESSAGES = 500
# As on a screen: a page takes the server about a millisecond.
_PAGE_MESSAGES = 100
# How often the end of a queue is read again, where messages are received again and again.
_RESTS = 5
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
    editor: QueueEditor,
    reader: QueueReader,
    queue: str,
    scope: Matching,
    limit: int,
    selection: Selection,
    seeing: Callable[[int, int, int], None],
    *,
    bodies: bool,
    sizes: bool,
) -> tuple[int, int]:
    """Select what is due first of all that matches; returns how many match, and how many could not be searched.

    ``bodies`` and ``sizes`` say what is to be read of those that are chosen; ``seeing`` is told how many were scanned,
    how many there are, and how many match. Raises what editor and reader raise.
    """
    if scope.filter.is_empty:
        return await _from_front(editor, reader, queue, limit, selection, seeing), 0
    first, unsearched, depth = DueFirst(limit), 0, 0
    async with aclosing(search(reader, queue, scope.filter, bodies=False, sizes=False)) as found:
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


async def _from_front(
    editor: QueueEditor,
    reader: QueueReader,
    queue: str,
    limit: int,
    selection: Selection,
    seeing: Callable[[int, int, int], None],
) -> int:
    """Select from the front of a queue; returns how many messages that holds."""
    page = await reader.pages.page(queue, count=min(limit, _PAGE_MESSAGES))
    depth, known, rests = page.depth, set[str](), _RESTS
    while page.messages:
        # What is received meanwhile comes again, further back.
        rows = [row for row in page.messages if row.id not in known]
        known.update(row.id for row in rows)
        at_ms, now = await editor.seen(queue, [name_bytes(row.id) for row in rows])
        same = [
            found
            for row, found in zip(rows, now, strict=True)
            if found is not None and float(found.score) == float(row.score)
        ]
        # One that was received in between is due later; it may be met again there.
        moved = {row.id for row in rows} - {name_of(found.id) for found in same}
        known -= moved
        selection.add(same[: limit - selection.count], at_ms)
        seeing(len(known), max(depth, len(known)), selection.count)
        is_end = page.start + len(page.messages) >= page.depth
        rests -= is_end
        if selection.count >= limit or (is_end and not (moved and rests)):
            break
        last = page.messages[-1]
        page = await reader.pages.page(queue, where="after", anchor=Anchor(last.score, last.id), count=_PAGE_MESSAGES)
    return max(depth, selection.count)


def what_is_due_first(scope: Matching, limit: int, matched: int) -> str:
    """Say which messages were chosen, out of how many."""
    which = f"all {matched:,}" if matched <= limit else f"the {limit:,} due first of {matched:,}"
    if scope.filter.is_empty:
        return f"{which} {'message' if matched == 1 else 'messages'} of the queue"
    return f"{which} that match {scope.filter.text}, in the whole queue"
