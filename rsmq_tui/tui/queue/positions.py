"""Positions in a queue, as users type them: a number, a share, a time or an id; and how they are found."""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import NamedTuple

from rsmq_tui.monitor import Filter, MessageRow, Page, PageRequest, SearchProgress, Source
from rsmq_tui.monitor.filters.matching import Term
from rsmq_tui.monitor.moments import MomentError, read_moment
from rsmq_tui.monitor.text import count, date_clock, plural, printable, shown_zone
from rsmq_tui.protocol import Anchor, Part
from rsmq_tui.protocol.lists.naming import read_item_id

# How many messages that are due later are examined to find one by its sent time, and how many at once.
LOOKED_MAX = 10_000
_AT_ONCE = 500
_SHOWN_CHARS = 60
_DIGITS, _SHARE = re.compile(r"[0-9][0-9,]{0,15}"), re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_AGE = re.compile(r"-?(.+?)(?: ago)?")
# The forms that ``read_position`` accepts, as the dialog and its errors show them.
FORMS = "31, 50%, 22:10, 10m ago, or an id"


class Number(NamedTuple):
    """The message with that number, counted from 1; the last one if there are fewer."""

    number: int


class Share(NamedTuple):
    """The message before which that share of the messages lies, in percent."""

    percent: float


class Sent(NamedTuple):
    """The first message that was sent at that time or later, in ms."""

    at_ms: int


class IdPrefix(NamedTuple):
    """The message with that id, or the first one whose id begins with it."""

    id: str


Position = Number | Share | Sent | IdPrefix


class PositionError(ValueError):
    """There is no such position; the text is a sentence."""


def read_position(text: str, now_ms: int) -> Position:
    """Read 31, 50%, 22:10, 10m ago, a date and time, or an id; raises ``PositionError``."""
    typed = text.strip()
    if _DIGITS.fullmatch(typed):
        return Number(int(typed.replace(",", "")))
    if (share := _SHARE.fullmatch(typed)) is not None and float(share[1]) <= 100:
        return Share(float(share[1]))
    age = _AGE.fullmatch(typed)
    for moment in (typed, f"-{age[1]}" if age is not None else typed):
        with suppress(MomentError):
            return Sent(read_moment(moment, now_ms, shown_zone()))
    # Only the ids of list items have colons.
    if typed and (read_item_id(typed) is not None or not re.search(r"[\s:%]", typed)):
        return IdPrefix(typed)
    raise PositionError(f"'{printable(typed, _SHOWN_CHARS)}' is not a position: write {FORMS}")


class FoundPosition(NamedTuple):
    """Where a position is: ``offset`` counts from 0 in the ``part``.

    ``row`` is the message that was searched for. ``words`` describe what was examined, if that is not obvious.
    """

    part: Part
    offset: int
    row: MessageRow | None = None
    words: str = ""


def index_among(rows: Sequence[MessageRow], position: Position) -> int:
    """Return the index of a position in listed rows; raises ``PositionError``."""
    match position:
        case Number() | Share():
            return _index_of(position, len(rows))
        case Sent(at_ms):
            indexes = (n for n, row in enumerate(rows) if row.sent_ms is not None and row.sent_ms >= at_ms)
        case IdPrefix(id):
            indexes = (n for n, row in enumerate(rows) if row.id.startswith(id))
    index = next(indexes, None)
    if index is None:
        raise PositionError(f"none of the {plural(len(rows), 'listed message')} {_missing(position)}")
    return index


async def find(
    source: Source, queue: str, part: Part, position: Position, on_progress: Callable[[SearchProgress], None]
) -> FoundPosition:
    """Find a position in a part of a queue; raises ``PositionError`` and ``PeekError``.

    An id that is not in the part is searched for in the whole queue. ``on_progress`` gets the progress of a search for
    an id.
    """
    match position:
        case Number() | Share():
            low, high = (await source.peek(PageRequest(queue, part, count=1))).bounds(part)
            return FoundPosition(part, _index_of(position, high - low), words=beyond_words(position, high - low))
        case Sent(at_ms):
            first = await source.peek(PageRequest(queue, part, count=1))
            if first.rows and first.rows[0].is_item:
                return await _first_item_sent(source, first, at_ms)
            return await _first_sent(source, PageRequest(queue, part), at_ms)
        case IdPrefix(id):
            row = (await source.read(queue, id)).row or await _with_prefix(source, queue, id, on_progress)
            if row is not None:
                for within in dict.fromkeys((part, "all")):
                    page = await source.peek(PageRequest(queue, within, "at", row.anchor, count=1))
                    if page.rows and page.rows[0].id == row.id:
                        return FoundPosition(within, page.start - page.bounds(within)[0], row)
    raise PositionError(f"no message {_missing(position)}")


async def _first_sent(source: Source, request: PageRequest, sent_ms: int) -> FoundPosition:
    """Find the first message in the order of due times that was sent then or later.

    No message is due before it was sent, so the messages that are due from then on are examined, at most LOOKED_MAX.
    """
    looked, part = 0, request.part
    request = replace(request, where="at", anchor=Anchor(str(sent_ms), ""), count=_AT_ONCE)
    page = await source.peek(request)
    while page.rows and looked < LOOKED_MAX:
        for number, row in enumerate(page.rows, 1):
            if row.sent_ms is not None and row.sent_ms >= sent_ms:
                looked += number
                words = f"sent {date_clock(row.sent_ms)}: the first in the order of due times"
                return FoundPosition(
                    part, page.start - page.bounds(part)[0] + number - 1, row, _examined_words(words, looked)
                )
        looked += len(page.rows)
        if page.is_last:
            break
        page = await source.peek(replace(request, where="after", anchor=page.rows[-1].anchor))
    raise PositionError(_examined_words(f"no message {_missing(Sent(sent_ms))}", looked))


async def _first_item_sent(source: Source, first: Page, sent_ms: int) -> FoundPosition:
    """Find the first item of a list that was sent then or later, by bisection: items are taken in their order."""
    request, row = first.request, None
    # Items in processing come last, and were sent first.
    low, high = (0, first.ready) if request.part == "all" else (0, len(range(*first.bounds(request.part))))
    looked = 0
    while low < high:
        middle = (low + high) // 2
        page = await source.peek(replace(request, offset=middle))
        looked += 1
        at = page.rows[0] if page.rows else None
        if at is None or at.sent_ms is None:
            raise PositionError(f"it is not known when item {count(middle + 1)} was sent: see lists_age in the help")
        if at.sent_ms < sent_ms:
            low = middle + 1
        else:
            high, row = middle, at
    if row is None:
        raise PositionError(_examined_words(f"no item {_missing(Sent(sent_ms))}", looked))
    words = f"sent {date_clock(row.sent_ms)}: the first in the order of the list"
    return FoundPosition(request.part, low, row, _examined_words(words, looked))


async def _with_prefix(
    source: Source, queue: str, id: str, on_progress: Callable[[SearchProgress], None]
) -> MessageRow | None:
    """Return a message whose id begins with that: of those found in one step, the one that is due first."""
    wanted = Filter(f"id:{id}", (Term("id", ":", id),))
    async with aclosing(source.search(queue, wanted)) as found:
        async for progress in found:
            on_progress(progress)
            if progress.messages:
                return min(progress.rows, key=lambda row: (row.due_ms is None, row.due_ms or 0, row.id))
    return None


def _index_of(position: Number | Share, total: int) -> int:
    wanted = position.number - 1 if isinstance(position, Number) else math.floor(total * position.percent / 100)
    return max(0, min(wanted, total - 1))


def beyond_words(position: Position, total: int) -> str:
    """Say how many messages there are, if the given number is beyond the last one; else empty."""
    return f"there are {count(total)}" if isinstance(position, Number) and position.number > total else ""


def _missing(position: Position) -> str:
    if isinstance(position, Sent):
        return f"was sent at {date_clock(position.at_ms)} or later"
    return f"has the id {printable(position.id, _SHOWN_CHARS)}" if isinstance(position, IdPrefix) else "is there"


def _examined_words(words: str, looked: int) -> str:
    most = ", the maximum" if looked >= LOOKED_MAX else ""
    return f"{words}; {plural(looked, 'message')} examined{most}"
