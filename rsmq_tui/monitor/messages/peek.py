"""Peek: pages of messages, single messages and their states; and the looks at messages during a poll.

A message is ready, in flight or delayed. A list item in processing is in flight while its lease lasts: its id says
where it is, and its score is the deadline of the lease.

A poll row contains neither receive counts nor missing bodies. So each poll also looks at some queues: it reads the
receive counts around the first hidden message, where messages that are received repeatedly are, how long some messages
in flight waited and are being worked on, and a few pages of a walk through all messages. Queues take turns, those on
the screen more often, so the cost does not depend on the number of queues or messages.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from rsmq_tui.monitor.messages.reading import read_id, read_score
from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.protocol import (
    MICROSECONDS_FROM,
    SECONDS_BELOW,
    SERVER_ERRORS,
    TIME_FROM,
    Anchor,
    Flight,
    MessagePage,
    PageLook,
    PageRequest,
    Part,
    PeekedMessage,
    Row,
    RsmqError,
    RsmqReader,
    WholeMessage,
    failure_of,
    leading_int,
    name_of,
)
from rsmq_tui.protocol.lists.naming import UNKNOWN_LEASE_SCORE, UNLEASED_SCORE, ItemPlace, read_item_id

# What a message without a body means for those who receive it: for the reason of its queue, and in place of the body.
NO_BODY = "no body: consumers receive only an id"


class MessageState(StrEnum):
    """The state of a message; the last two apply only to list items in processing."""

    READY = "ready"
    IN_FLIGHT = "in flight"
    DELAYED = "delayed"
    EXPIRED = "expired"
    UNLEASED = "no lease"


def item_place_of(id: str | bytes) -> ItemPlace | None:
    """Return the place of a list item from its id; None for an RSMQ message."""
    # Fast path for millions of ids: the ids of RSMQ messages have no colon there.
    if id[1:2] not in (":", b":"):
        return None
    found = read_item_id(id)
    return None if found is None else found.place


def state_of(score: bytes, rc: bytes | None, at_ms: int, id: bytes = b"") -> MessageState:
    """Return the state of a message with that raw score, receive count and id, at that server time."""
    place = item_place_of(id)
    if place is not None:
        return item_state(place, score, at_ms)
    due_ms, _ = read_score(score.decode("latin-1"))
    if due_ms is not None and due_ms <= at_ms:
        return MessageState.READY
    return _hidden_state(rc)


def item_state(place: ItemPlace, score: bytes, at_ms: int) -> MessageState:
    """Return the state of a list item with that place and score, at that server time."""
    if place == "queue":
        return MessageState.READY
    if score == UNLEASED_SCORE:
        return MessageState.UNLEASED
    # The deadline was not read: the item may have a lease.
    is_over = score != UNKNOWN_LEASE_SCORE and float(score) <= at_ms
    return MessageState.EXPIRED if is_over else MessageState.IN_FLIGHT


def count_states(
    scores: Sequence[bytes], rcs: Sequence[bytes | None], at_ms: int, ids: Sequence[bytes] = ()
) -> dict[MessageState, int]:
    """Count messages, given by their raw scores, receive counts and ids, by state at that server time."""
    if ids and item_place_of(ids[0]) is not None:
        states = [state_of(score, None, at_ms, id) for score, id in zip(scores, ids, strict=True)]
        return {state: states.count(state) for state in MessageState}
    due_ms = list(map(float, scores))
    if due_ms and min(due_ms) >= SECONDS_BELOW and max(due_ms) < MICROSECONDS_FROM:
        # Fast path: there may be millions, usually all in ms.
        hidden = [rc for due, rc in zip(due_ms, rcs, strict=True) if due > at_ms]
        in_flight = sum(_hidden_state(rc) is MessageState.IN_FLIGHT for rc in hidden)
        counts = (len(due_ms) - len(hidden), in_flight, len(hidden) - in_flight, 0, 0)
        return dict(zip(MessageState, counts, strict=True))
    states = [state_of(score, rc, at_ms) for score, rc in zip(scores, rcs, strict=True)]
    return {state: states.count(state) for state in MessageState}


def _hidden_state(rc: bytes | None) -> MessageState:
    return MessageState.IN_FLIGHT if rc is not None and rc.strip(b"+-0 ") else MessageState.DELAYED


DUE_BOUNDS = (("now", 0), ("< 10 s", 10_000), ("< 1 min", 60_000), ("< 10 min", 600_000), ("< 1 h", 3_600_000))

PEEK_ERRORS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)


class PeekError(Exception):
    """A read that failed; its text is for people."""


@contextmanager
def in_words() -> Iterator[None]:
    """Raise errors of PEEK_ERRORS as ``PeekError``."""
    try:
        yield
    except RsmqError as error:
        raise PeekError(str(error)) from error
    except SERVER_ERRORS as error:
        failure = failure_of(error)
        shown = failure._replace(sentence=printable(failure.sentence, SENTENCE_MAX))
        raise PeekError(shown.words) from error


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as a page shows it.

    ``due_ms`` is when it becomes (or became) visible, None for never. ``sent_ms`` is None if the id carries no time.
    ``preview`` is the start of the body, None if there is no body. For a list item, ``rc`` is None, and ``due_ms`` is
    the deadline of its lease, if it has one.
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
        """True for a list item."""
        return item_place_of(self.id) is not None

    def state_at(self, at_ms: int) -> MessageState:
        """Return its state at a later time: after ``due_ms`` a message is ready, and a lease has expired."""
        if self.due_ms is None or self.due_ms > at_ms:
            return self.state
        return MessageState.EXPIRED if self.is_item else MessageState.READY

    @property
    def anchor(self) -> Anchor:
        """The place of this message in its queue."""
        return Anchor(self.score, self.id)


class Page(NamedTuple):
    """A page at one moment of server time; ``start`` is the rank of its first row among all messages."""

    request: PageRequest
    at_ms: int
    depth: int
    ready: int
    start: int
    rows: tuple[MessageRow, ...]

    def bounds(self, part: Part) -> tuple[int, int]:
        """Return the rank of the first message of a part of the queue, and the rank after its last."""
        return self.ready if part == "hidden" else 0, self.ready if part == "ready" else self.depth

    @property
    def is_first(self) -> bool:
        """True if this page starts the requested part."""
        return self.start <= self.bounds(self.request.part)[0]

    @property
    def is_last(self) -> bool:
        """True if this page ends the requested part."""
        return self.start + len(self.rows) >= self.bounds(self.request.part)[1]


@dataclass(frozen=True, slots=True)
class MessageView:
    """One whole message; ``row`` is None if it has left the queue, ``body`` None if it is missing or too long."""

    at_ms: int
    id: str
    row: MessageRow | None
    body: bytes | None
    size: int


class RowsAgain(NamedTuple):
    """The state of known messages at a later server time, by their ids; None for one that has left its queue.

    The id of a list item may have changed. The items in ``unknown`` were not found, and may still be in the queue.
    """

    at_ms: int
    rows: Mapping[str, MessageRow | None]
    unknown: Set[str] = frozenset()


async def read_page(reader: RsmqReader, request: PageRequest) -> Page:
    """Read a page; raises ``PeekError``."""
    with in_words():
        raw = await reader.pages.page(request)
    rows = tuple(row_of(message, raw.at_ms) for message in raw.messages)
    return Page(request, raw.at_ms, raw.depth, raw.ready, raw.start, rows)


async def read_message(reader: RsmqReader, queue: str, id: str) -> MessageView:
    """Read one message; raises ``PeekError``."""
    with in_words():
        raw = await reader.pages.message(queue, id)
    return MessageView(raw.at_ms, raw.id, row_alone(raw, raw.body), raw.body, raw.size)


def row_alone(raw: WholeMessage, body: bytes | None) -> MessageRow | None:
    """Return the row of a message that was read alone, and has that body; None if it has left its queue."""
    if raw.score is None:
        return None
    return row_of(PeekedMessage(raw.id, raw.score, raw.rc, raw.fr_ms, raw.size, body), raw.at_ms)


def row_of(message: PeekedMessage, at_ms: int) -> MessageRow:
    """Return the row of a message at that server time."""
    place = item_place_of(message.id)
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


def _item_row(message: PeekedMessage, place: ItemPlace, at_ms: int) -> MessageRow:
    deadline_ms = None if place == "queue" else read_score(message.score)[0]
    state = item_state(place, message.score.encode(), at_ms)
    return MessageRow(message.id, message.score, state, deadline_ms, None, None, None, message.size, message.preview)


# Each poll reads the receive counts of this many queues, for this many messages on either side of the first hidden
# one. Together with the walk this blocks the server for a millisecond or two.
QUICK_QUEUES = 20
# Of the queues on the screen, each poll reads this many besides.
SHOWN_QUEUES = 10
QUICK_SPAN = 50
# A queue without problems that has not changed since its last walk is walked again only after this time.
_QUIET_MS = 600_000
# Ids stored per walk, so that a message that moved meanwhile is not counted twice; further ones are only counted.
_IDS_MAX = 10_000


def flight_times(flights: Sequence[Flight], vt_s: float | None, at_ms: int) -> FlightTimes | None:
    """Return the percentiles of some messages in flight; None without any.

    A message that was received once was received at ``fr``. One that was received again was last received ``vt_s``
    before its score, if its visibility was not changed; work that began before ``fr`` or in the future is unknown.
    """
    if not flights:
        return None
    waits: list[int] = []
    works: list[int] = []
    for flight in flights:
        received_ms, rc = leading_int(flight.fr), leading_int(flight.rc)
        if received_ms is None or rc is None or not TIME_FROM < received_ms <= at_ms:
            continue
        sent_ms = read_id(name_of(flight.id), at_ms)[0]
        if sent_ms is not None and sent_ms <= received_ms:
            waits.append(received_ms - sent_ms)
        due_ms = read_score(flight.score.decode("latin-1"))[0]
        if rc == 1:
            works.append(at_ms - received_ms)
        elif due_ms is not None and vt_s is not None and received_ms <= due_ms - vt_s * 1000 <= at_ms:
            works.append(int(at_ms - due_ms + vt_s * 1000))
    ranked = [_ranked(sorted(values), share) for values in (waits, works) for share in (50, 95)]
    return FlightTimes(at_ms, len(flights), *ranked)


def _ranked(values: Sequence[int], percent: int) -> int | None:
    """Return the nearest-rank percentile of sorted values."""
    return values[-(-percent * len(values) // 100) - 1] if values else None


class Looked(NamedTuple):
    """The results of the looks at one queue, as in ``QueueState``."""

    poison: int = 0
    highest_rc: int = 0
    missing: int = 0
    looked: int | None = None
    looked_all_ms: int | None = None


# One for all queues that were not looked at yet.
_NOTHING_LOOKED = Looked()


class _Found:
    """The results of a walk through a queue so far; the next page starts after ``last``."""

    __slots__ = ("begun_ms", "highest_rc", "last", "looked", "missing", "more", "poison")

    def __init__(self, begun_ms: int) -> None:
        self.begun_ms = begun_ms
        self.last: tuple[bytes, bytes] | None = None
        self.looked = 0
        self.highest_rc = 0
        self.more = 0
        self.poison: set[bytes] = set()
        self.missing: set[bytes] = set()

    def add(self, page: PageLook) -> None:
        self.looked += page.looked
        self.highest_rc = max(self.highest_rc, page.highest_rc)
        self.missing.update(page.missing[: _IDS_MAX - len(self.missing)])
        if len(self.poison) < _IDS_MAX:
            self.poison.update(page.poison)
        else:
            self.more += len(page.poison)
        self.last = page.last


class Look:
    """The looks at one queue; ``found`` is their result so far.

    It ``is_outdated`` from a ``restart`` until a whole walk has ended.
    """

    __slots__ = (
        "_headless_ms", "_quick", "_walk", "_walked", "_walked_ms", "_walked_row", "found", "is_outdated", "times",
    )  # fmt: skip

    def __init__(self) -> None:
        self.found = _NOTHING_LOOKED
        self.times: FlightTimes | None = None
        self._quick = (0, 0)
        self._walk: _Found | None = None
        self._walked: _Found | None = None
        self._walked_ms = 0
        self._walked_row: Row | None = None
        self._headless_ms: int | None = None
        self.is_outdated = False

    @classmethod
    def after(cls, poison: int, highest_rc: int, looked: int | None, looked_all_ms: int | None) -> "Look":
        """Return the looks at a queue of which an earlier run found this; new looks replace it."""
        look = cls()
        look._quick = poison, highest_rc
        if looked_all_ms is not None:
            look._walked = walked = _Found(looked_all_ms)
            walked.more, walked.highest_rc, walked.looked = poison, highest_rc, looked or 0
            look._walked_ms = looked_all_ms
        look._sum_up()
        return look

    def store_counts(self, looked: int, poison: int, highest_rc: int, depth: int, at_ms: int) -> None:
        """Store the receive counts around the first hidden message; ``looked`` is how many messages were read."""
        self._quick = poison, highest_rc
        if not depth:
            self.found, self._walk, self._walked, self._headless_ms = _NOTHING_LOOKED, None, None, None
        elif looked >= depth:
            # All messages were read, more recently than by any walk.
            missing = self.found.missing
            self.found = Looked(poison, highest_rc, missing, looked, at_ms)
            if self._walked is not None:
                self._walked.poison, self._walked.more, self._walked.highest_rc = set(), 0, 0
        else:
            self._sum_up()

    def note_headless(self, at_ms: int) -> None:
        """Note that the first message has no body."""
        self._headless_ms = at_ms
        self._sum_up()

    def store_page(self, page: PageLook, row: Row | None, at_ms: int) -> None:
        """Store a page of the walk; the last page ends it."""
        walk = self._walk = self._walk or _Found(at_ms)
        walk.add(page)
        if page.is_last:
            self._walked, self._walked_ms, self._walked_row, self._walk = walk, at_ms, row, None
            self.is_outdated = False
            if self._headless_ms is not None and self._headless_ms < walk.begun_ms:
                self._headless_ms = None
        self._sum_up()

    def restart(self) -> None:
        """Begin the walk again: what the current one has found may be gone."""
        self._walk, self._walked_row, self.is_outdated = None, None, True

    def next_page(self, name: str, row: Row | None, at_ms: int, size: int) -> MessagePage | None:
        """Return the next page of the walk, or None if another walk is not due yet."""
        found = self.found
        is_same = row is self._walked_row and row is not None
        if is_same and not found.poison and not found.missing and at_ms - self._walked_ms < _QUIET_MS:
            return None
        return MessagePage(name, None if self._walk is None else self._walk.last, size)

    def _sum_up(self) -> None:
        walk, walked = self._walk, self._walked
        poison, highest_rc = self._quick
        missing = int(self._headless_ms is not None)
        for known in (walk, walked):
            if known is not None:
                poison = max(poison, len(known.poison) + known.more)
                highest_rc = max(highest_rc, known.highest_rc)
                missing = max(missing, len(known.missing))
        looked = walk.looked if walk is not None else None if walked is None else walked.looked
        self.found = Looked(poison, highest_rc, missing, looked, None if walked is None else self._walked_ms)
