"""Searching a queue: what matches a filter, as it is found, while the screen stays fluid."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.matching import BodySearch, Predicate
from rsmq_tui.monitor.peek import PEEK_ERRORS, MessageRow, row_of, told
from rsmq_tui.protocol import (
    PREVIEW_BYTES,
    PeekedMessage,
    QueueReader,
    RawMessage,
    ScanChunk,
    leading_int,
    name_of,
)

# Matching gives way to whatever else waits in the loop after this long.
_TURN_S = 0.005
_TURN_MESSAGES = 64


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search has come, and what it has found since the last time.

    ``scanned``, ``matched`` and ``not_searched`` count from the start; the latter are messages that would have to be
    read whole and are too long for that. ``depth`` is the queue's now: messages come and go, so that ``scanned`` may
    end on either side of it.
    """

    at_ms: int
    depth: int
    scanned: int
    matched: int
    not_searched: int
    messages: tuple[RawMessage, ...]

    @property
    def rows(self) -> tuple[MessageRow, ...]:
        """The messages found since the last time, as a page shows them."""
        return tuple(found_row(message, self.at_ms) for message in self.messages)


class _Ways(NamedTuple):
    """How a filter is matched; ``body_search`` is the faster way, where there is one."""

    predicate: Predicate
    body_search: BodySearch | None


async def search(
    reader: QueueReader,
    queue: str,
    wanted: Filter,
    *,
    limit: int | None = None,
    counts: bool = True,
    bodies: bool = True,
    sizes: bool = True,
) -> AsyncGenerator[Progress, None]:
    """Yield what matches, in no order, with each part of the queue that was searched; raises ``PeekError``.

    It ends after ``limit`` matches. ``counts`` and ``bodies`` read receive counts and bodies even where the filter
    does not need them: without, the rows say neither in flight nor what is in them; without ``sizes`` either, they say
    that nothing is. Close it with ``aclose`` when leaving early.
    """
    ways, searched = _Ways(wanted.predicate(), wanted.body_search()), wanted.searched()
    counts, bodies = counts or wanted.needs_counts, bodies or wanted.needs_bodies
    scanned = matched = not_searched = 0
    try:
        async with aclosing(reader.scan.chunks(queue, counts=counts, bodies=bodies, sizes=sizes)) as chunks:
            async for chunk in chunks:
                found = await _matching(chunk, ways)
                if limit is not None:
                    found = found[: limit - matched]
                scanned += len(chunk)
                matched += len(found)
                if chunk.too_long and wanted.needs_bodies:
                    not_searched += sum(not searched(message, chunk.at_ms) for message in chunk.messages)
                yield Progress(chunk.at_ms, chunk.depth, scanned, matched, not_searched, tuple(found))
                if limit is not None and matched >= limit:
                    return
    except PEEK_ERRORS as error:
        raise told(error) from error


def found_row(message: RawMessage, at_ms: int) -> MessageRow:
    """Return what a page shows of a message that a scan found."""
    body = message.body
    preview = body[:PREVIEW_BYTES] if body is not None else b"" if message.size else None
    peeked = PeekedMessage(
        name_of(message.id),
        message.score.decode("latin-1"),
        leading_int(message.rc) or 0,
        leading_int(message.fr),
        message.size,
        preview,
    )
    return row_of(peeked, at_ms)


async def _matching(chunk: ScanChunk, ways: _Ways) -> list[RawMessage]:
    found: list[RawMessage] = []
    turn_ends_s = time.monotonic() + _TURN_S
    messages = () if ways.body_search else chunk.messages
    for start in range(0, len(chunk), _TURN_MESSAGES):
        stop = start + _TURN_MESSAGES
        if ways.body_search is not None:
            found += [chunk.message(start + index) for index in ways.body_search(chunk.bodies[start:stop])]
        else:
            found += [message for message in messages[start:stop] if ways.predicate(message, chunk.at_ms)]
        if time.monotonic() > turn_ends_s:
            await asyncio.sleep(0)
            turn_ends_s = time.monotonic() + _TURN_S
    return found
