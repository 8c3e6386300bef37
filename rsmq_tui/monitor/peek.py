"""Looking at messages without touching them: what a page of a queue, or one message, says."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from rsmq_tui.monitor.reading import read_id, read_score
from rsmq_tui.monitor.states import MessageState, item_state, place_of
from rsmq_tui.monitor.wording import SENTENCE_MAX, printable
from rsmq_tui.protocol import (
    SERVER_ERRORS,
    Anchor,
    Namespaces,
    Part,
    PeekedMessage,
    QueueReader,
    RsmqError,
    Where,
    failure_of,
)
from rsmq_tui.protocol.lists.item_ids import Place

PAGE_MESSAGES = 100
DUE_BOUNDS = (("now", 0), ("< 10 s", 10_000), ("< 1 min", 60_000), ("< 10 min", 600_000), ("< 1 h", 3_600_000))

PEEK_ERRORS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)


class PeekError(Exception):
    """A look that failed, in words for people."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page: relative to an anchor, a message that need not be there any more."""

    queue: str
    part: Part = "all"
    where: Where = "first"
    anchor: Anchor | None = None
    count: int = PAGE_MESSAGES


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as a page shows it.

    ``due_ms`` is when it becomes (or became) visible, None for never; ``sent_ms`` is None where the id carries no time;
    ``preview`` is the start of the body, None where there is no body. ``rc`` is None where nobody counts: of
    an item of a list, whose ``due_ms`` is the deadline of its lease, if it has one.
    """

    id: str
    score: str
    state: MessageState
    due_ms: float | None
    sent_ms: int | None
    rc: int | None
    fr_ms: int | None
    size: int
    preview: bytes | None

    @property
    def is_item(self) -> bool:
        """True for an item of a list."""
        return place_of(self.id) is not None

    def state_at(self, at_ms: int) -> MessageState:
        """Return its state at a later time: what was hidden is ready once its time has come, but a lease is over."""
        if self.due_ms is None or self.due_ms > at_ms:
            return self.state
        return MessageState.EXPIRED if self.is_item else MessageState.READY

    @property
    def anchor(self) -> Anchor:
        """The place of this message in its queue."""
        return Anchor(self.score, self.id)


@dataclass(frozen=True, slots=True)
class Page:
    """A page at one moment of server time; ``start`` is the rank of its first row among all messages."""

    request: PageRequest
    at_ms: int
    depth: int
    ready: int
    start: int
    rows: tuple[MessageRow, ...]

    @property
    def is_first(self) -> bool:
        """True when nothing of the part comes before."""
        return self.start <= (self.ready if self.request.part == "hidden" else 0)

    @property
    def is_last(self) -> bool:
        """True when nothing of the part comes after."""
        end = self.ready if self.request.part == "ready" else self.depth
        return self.start + len(self.rows) >= end


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message whole; ``row`` is None when it has left the queue, ``body`` None when missing or too long to show."""

    at_ms: int
    id: str
    row: MessageRow | None
    body: bytes | None
    size: int


@dataclass(frozen=True, slots=True)
class RowsAgain:
    """Messages at a later time of the server, by their ids; None for one that has left its queue.

    An item of a list may have another id by then. Of those that are ``unknown`` it is not known where they are.
    """

    at_ms: int
    rows: Mapping[str, MessageRow | None]
    unknown: Set[str] = frozenset()


async def read_page(reader: QueueReader, request: PageRequest) -> Page:
    """Read a page; raises ``PeekError``."""
    try:
        raw = await reader.pages.page(
            request.queue, part=request.part, where=request.where, anchor=request.anchor, count=request.count
        )
    except PEEK_ERRORS as error:
        raise told(error) from error
    rows = tuple(row_of(message, raw.at_ms) for message in raw.messages)
    return Page(request, raw.at_ms, raw.depth, raw.ready, raw.start, rows)


async def read_message(reader: QueueReader, queue: str, id: str) -> MessageView:
    """Read one message; raises ``PeekError``."""
    try:
        raw = await reader.pages.message(queue, id)
    except PEEK_ERRORS as error:
        raise told(error) from error
    row = None
    if raw.score is not None:
        peeked = PeekedMessage(raw.id, raw.score, raw.rc, raw.fr_ms, raw.size, raw.body)
        row = row_of(peeked, raw.at_ms)
    return MessageView(raw.at_ms, raw.id, row, raw.body, raw.size)


async def read_again(reader: QueueReader, queue: str, known: MessageView) -> MessageView:
    """Read anew where a message is that was read before: its body only where it has another length now.

    Of one that has left the queue, the body stays what it was. Raises ``PeekError``.
    """
    try:
        raw = await reader.pages.message(queue, known.id, with_body=False)
    except PEEK_ERRORS as error:
        raise told(error) from error
    if raw.score is None:
        return replace(known, at_ms=raw.at_ms, row=None)
    if raw.size != known.size:
        return await read_message(reader, queue, known.id)
    peeked = PeekedMessage(raw.id, raw.score, raw.rc, raw.fr_ms, raw.size, known.body)
    return replace(known, at_ms=raw.at_ms, row=row_of(peeked, raw.at_ms))


async def read_rows_again(reader: QueueReader, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
    """Read anew what may have become of messages that were read before, which are all but what is in them.

    Raises ``PeekError``.
    """
    try:
        at_ms, found = await reader.pages.present(queue, [row.id for row in rows])
    except PEEK_ERRORS as error:
        raise told(error) from error
    again: dict[str, MessageRow | None] = {}
    for row, now in zip(rows, found, strict=True):
        if now is None:
            again[row.id] = None
        else:
            again[row.id] = row_of(PeekedMessage(row.id, now.score, now.rc, now.fr_ms, row.size, row.preview), at_ms)
    return RowsAgain(at_ms, again)


async def read_due(reader: QueueReader, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
    """Count a queue's messages by when they become visible; raises ``PeekError``."""
    try:
        counts = await reader.pages.due_counts(queue, tuple(at_ms + bound for _, bound in DUE_BOUNDS))
    except PEEK_ERRORS as error:
        raise told(error) from error
    labels = (*(label for label, _ in DUE_BOUNDS), "later")
    earlier = (0, *counts)
    return tuple((label, max(0, count - before)) for label, count, before in zip(labels, counts, earlier, strict=False))


async def read_namespaces(reader: QueueReader) -> Namespaces:
    """Look for namespaces on the server; raises ``PeekError``."""
    try:
        return await reader.namespaces()
    except PEEK_ERRORS as error:
        raise told(error) from error


def row_of(message: PeekedMessage, at_ms: int) -> MessageRow:
    """Return what a page shows of a message at that server time."""
    place = place_of(message.id)
    if place is not None:
        return _item_row(message, place, at_ms)
    due_ms, _ = read_score(message.score)
    sent_ms, _ = read_id(message.id, at_ms)
    if due_ms is not None and due_ms <= at_ms:
        state = MessageState.READY
    else:
        state = MessageState.IN_FLIGHT if message.rc else MessageState.DELAYED
    return MessageRow(
        message.id, message.score, state, due_ms, sent_ms, message.rc, message.fr_ms, message.size, message.preview
    )


def _item_row(message: PeekedMessage, place: Place, at_ms: int) -> MessageRow:
    deadline_ms = None if place == "queue" else read_score(message.score)[0]
    state = item_state(place, message.score.encode(), at_ms)
    return MessageRow(message.id, message.score, state, deadline_ms, None, None, None, message.size, message.preview)


def told(error: Exception) -> PeekError:
    """Return an error of PEEK_ERRORS in words for people."""
    if isinstance(error, RsmqError):
        return PeekError(str(error))
    failure = failure_of(error)
    return PeekError(f"{printable(failure.sentence, SENTENCE_MAX)}: {failure.hint}")
