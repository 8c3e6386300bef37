"""Searches a queue with a filter, and groups its messages."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any, Generic, TypeVar, cast

from rsmq_tui.monitor.filters.json_paths import (
    Absent,
    JsonPath,
    JsonPathError,
    load,
    path_text,
    read_age,
    read_path,
    value_at,
    value_text,
)
from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.matching import Matches, SentAt
from rsmq_tui.monitor.messages.peek import MessageRow, in_words, row_of
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol import (
    PREVIEW_BYTES,
    PeekedMessage,
    RawMessage,
    RsmqReader,
    ScanChunk,
    leading_int,
    name_of,
    sent_ms,
)
from rsmq_tui.protocol.rsmq.operations import Messages
from rsmq_tui.protocol.rsmq.scan import WINDOW_IDS, Seen
from rsmq_tui.protocol.rsmq.scan_strategies import BodyChunk

T = TypeVar("T")

# Note for a list that changed too fast to read (see ``SearchProgress.restarts``).
INCOMPLETE = "the list changed too fast to read: some items may be missing or listed twice"

# Matching yields to the event loop after this long.
_TURN_S = 0.005
_TURN_MESSAGES = 256
# Matching that may take longer runs in a thread, so that a search can be cancelled at once.
_TURN_NS_MAX = 20_000_000
# A search through bodies reads the other fields of its matches in batches of this size, or after this time; while one
# is read, this many more may wait.
_ASKED_AT_ONCE = 250
_WAITING_MAX = 500
_ASKED_EVERY_S = 0.1
# How many messages are read at once from the front of a queue.
_FRONT_MESSAGES = 500


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The progress of a search, and the ``messages`` found since the last one.

    ``scanned``, ``matched`` and ``not_searched`` count from the start; ``not_searched`` are messages whose bodies are
    needed but too long to read. ``depth`` is the queue's current depth: it changes meanwhile, so ``scanned`` may end
    below or above it; bodies that do not match may count twice in it while the queue shrinks. ``restarts`` counts how
    often the position in a list was lost because the list changed too fast: items may then be missing or found twice.
    ``age`` is the path of the creation time in list items, if known.
    """

    at_ms: int
    depth: int
    scanned: int
    matched: int
    not_searched: int
    messages: Sequence[RawMessage]
    restarts: int = 0
    age: JsonPath | None = None

    @property
    def rows(self) -> tuple[MessageRow, ...]:
        """The messages found since the last progress, as rows of a page."""
        return tuple(map(self.row, self.messages))

    def row(self, message: RawMessage) -> MessageRow:
        """Return one of the messages as a row of a page."""
        row = found_row(message, self.at_ms)
        if self.age is None or message.body is None:
            return row
        return replace(row, sent_ms=read_age(message.body, message.size, self.age)[0])


class UnreadError(RuntimeError):
    """A scan did not read the fields that the filter needs: a defect of this program."""


async def search(
    reader: RsmqReader,
    queue: str,
    wanted: Filter,
    *,
    limit: int | None = None,
    counts: bool = True,
    bodies: bool = True,
    sizes: bool = True,
) -> AsyncGenerator[SearchProgress, None]:
    """Yield the matches of each part of the queue, in no order; raises ``PeekError``.

    The search ends after ``limit`` matches. ``counts``, ``bodies`` and ``sizes`` read receive counts, bodies and their
    lengths even if the filter does not need them; the fields that it needs are always read. Without ``counts``, no row
    is in flight. Without ``bodies``, the previews are empty, and without ``sizes`` too, they are missing. Close it with
    ``aclose`` when leaving early.
    """
    body_search, needs = wanted.body_search(), wanted.needs()
    counts, bodies, sizes = counts or "counts" in needs, bodies or "body" in needs, sizes or "size" in needs
    with in_words():
        if (one := await _pinned(reader, queue, wanted, bodies=bodies, sizes=sizes)) is not None:
            parts = search_chunks(one, wanted, limit)
        elif body_search is not None and await reader.bodies.suits(queue):
            chunks_of_bodies = reader.bodies.chunks(queue, wanted=wanted.body_filter())
            parts = _search_bodies(reader, queue, chunks_of_bodies, _Matcher(body_search, wanted.ns_per_byte), limit)
        else:
            chunks = reader.scan.chunks(queue, counts=counts, bodies=bodies, sizes=sizes)
            parts = search_chunks(chunks, wanted, limit)
        async with aclosing(parts) as coming:
            async for progress in coming:
                yield progress


async def search_due_first(
    reader: RsmqReader, queue: str, wanted: Filter, limit: int
) -> AsyncGenerator[SearchProgress, None]:
    """Yield the first ``limit`` matches by due time, with their bodies.

    The queue is read from its front, no further than the last of them. Raises ``PeekError``. Close it with ``aclose``
    when leaving early.
    """
    with in_words():
        chunks = due_first(reader, queue, wanted, limit, bodies=True, sizes=True)
        async with aclosing(search_chunks(chunks, wanted, limit)) as found:
            async for progress in found:
                yield progress


async def due_first(
    reader: RsmqReader, queue: str, wanted: Filter, limit: int, *, bodies: bool, sizes: bool
) -> AsyncGenerator[ScanChunk, None]:
    """Read a queue from its front, with the fields that the filter needs, and bodies and sizes if requested."""
    needs = wanted.needs()
    # If all match, the queue is read no further than the limit.
    count = min(limit, _FRONT_MESSAGES) if wanted.is_empty else _FRONT_MESSAGES
    bodies, sizes = bodies or "body" in needs, sizes or "size" in needs
    async with aclosing(reader.ranges.chunks(queue, counts=True, count=count)) as chunks:
        async for chunk in chunks:
            yield await reader.scan.read(queue, chunk, bodies=bodies, sizes=sizes)


async def _pinned(
    reader: RsmqReader, queue: str, wanted: Filter, *, bodies: bool, sizes: bool
) -> AsyncGenerator[ScanChunk, None] | None:
    """Return a scan of the only message that can match, which takes one read; None if others can match."""
    pinned = wanted.pinned_id
    if pinned is None:
        return None
    id, is_whole = pinned
    chunk = await reader.scan.member(queue, id, bodies=bodies, sizes=sizes)

    async def alone() -> AsyncGenerator[ScanChunk, None]:
        yield chunk

    return alone() if is_whole or len(chunk) else None


async def search_chunks(
    coming: AsyncGenerator[ScanChunk, None], wanted: Filter, limit: int | None, age: JsonPath | None = None
) -> AsyncGenerator[SearchProgress, None]:
    """Yield the matches in each chunk of a scan, until there are ``limit`` matches; closes the scan.

    Raises ``UnreadError`` if the scan does not read what the filter needs.
    """
    needs = wanted.needs(ages_in_bodies=age is not None)
    matches, body_search = wanted.matches(None if age is None else sent_by(age)), wanted.body_search()
    in_bodies = None if body_search is None else _Matcher(body_search, wanted.ns_per_byte)
    searched = wanted.searched(ages_in_bodies=age is not None)
    scanned = matched = not_searched = 0
    async with aclosing(coming) as chunks:
        async for chunk in chunks:
            if not needs <= chunk.read:
                raise UnreadError(f"{wanted} needs what was not read: {', '.join(sorted(needs - chunk.read))}")
            if in_bodies is not None:
                positions = await in_bodies.positions(chunk.bodies, chunk.bodies)
                found = [chunk.message(position) for position in positions]
            else:
                found = await _matching(chunk, matches, wanted.ns_per_byte)
            if limit is not None:
                found = found[: limit - matched]
            scanned += len(chunk)
            matched += len(found)
            if chunk.too_long and "body" in needs:
                not_searched += sum(not searched(message, chunk.at_ms) for message in chunk.messages)
            counts = scanned, matched, not_searched
            yield SearchProgress(chunk.at_ms, chunk.depth, *counts, tuple(found), chunk.restarts, age)
            if limit is not None and matched >= limit:
                return


def sent_by(age: JsonPath) -> SentAt:
    """Return a function that reads when a message was sent from that path in its JSON body."""
    return lambda raw, at_ms: None if raw.body is None else read_age(raw.body, raw.size, age)[0]


async def _search_bodies(
    reader: RsmqReader,
    queue: str,
    coming: AsyncGenerator[BodyChunk, None],
    matching: "_Matcher[bytes | None]",
    limit: int | None,
) -> AsyncGenerator[SearchProgress, None]:
    """Search by scanning only bodies; the other fields of matches are read while the scan continues."""
    scanned = matched = not_searched = asked = 0
    ids: list[bytes] = []
    bodies: list[bytes] = []
    # Of what does not match it does not matter whether it comes again, as some bodies do while the queue shrinks.
    seen, seen_long = Seen(WINDOW_IDS), Seen(WINDOW_IDS)
    asked_s = time.monotonic()
    asking: asyncio.Task[tuple[int, Messages]] | None = None
    try:
        async with aclosing(coming) as chunks:
            async for chunk in chunks:
                positions = await matching.positions(chunk.bodies, chunk.bodies, chunk.size)
                scanned += len(chunk.ids) + len(chunk.too_long) + chunk.passed_over
                if (fresh := seen.fresh([chunk.ids[position] for position in positions], chunk.depth)) is not None:
                    scanned -= fresh.count(False)
                    positions = list(compress(positions, fresh))
                ids += [chunk.ids[position] for position in positions]
                bodies += [chunk.bodies[position] for position in positions]
                too_long = chunk.too_long
                if too_long and (fresh := seen_long.fresh(too_long, chunk.depth)) is not None:
                    scanned -= fresh.count(False)
                    too_long = list(compress(too_long, fresh))
                if too_long:
                    _, unread = await reader.bodies.messages(queue, too_long, [b""] * len(too_long))
                    not_searched += len(unread)
                at_ms, found = chunk.at_ms, Messages.of(())
                may_be_enough = limit is not None and len(ids) + asked >= limit - matched
                # Over a slow link, a reply takes as long as several chunks, which need not wait for it.
                is_waiting = chunk.is_last or may_be_enough or len(ids) >= _WAITING_MAX
                if asking is not None and (asking.done() or is_waiting):
                    at_ms, found = await asking
                    asking, asked = None, 0
                # One request for each match would cost as much as the search.
                is_due = len(ids) >= _ASKED_AT_ONCE or time.monotonic() - asked_s > _ASKED_EVERY_S
                is_enough = limit is not None and len(ids) + len(found) >= limit - matched
                if asking is None and ids and (chunk.is_last or is_due or is_enough):
                    asking, asked = asyncio.create_task(reader.bodies.messages(queue, ids, bodies)), len(ids)
                    ids, bodies, asked_s = [], [], time.monotonic()
                if asking is not None and (chunk.is_last or is_enough):
                    at_ms, last = await asking
                    found, asking, asked = found + last, None, 0
                if limit is not None:
                    found = found[: limit - matched]
                matched += len(found)
                yield SearchProgress(at_ms, chunk.depth, scanned, matched, not_searched, found)
                if limit is not None and matched >= limit:
                    return
    finally:
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


def found_row(message: RawMessage, at_ms: int) -> MessageRow:
    """Return the row of a message that a scan found."""
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


async def _matching(chunk: ScanChunk, matches: Matches, ns_per_byte: int) -> list[RawMessage]:
    messages = chunk.messages
    matcher = _Matcher[RawMessage](lambda some: matches(some, chunk.at_ms), ns_per_byte)
    return [messages[position] for position in await matcher.positions(messages, chunk.bodies)]


class _Matcher(Generic[T]):
    """Finds matches in a sequence, a few elements at a time: the event loop runs in between, and can cancel it.

    ``ns_per_byte`` is the worst cost of a byte of a body.
    """

    def __init__(self, match: Callable[[Sequence[T]], list[int]], ns_per_byte: int) -> None:
        self._match = match
        self._ns_per_byte = ns_per_byte

    async def positions(
        self, things: Sequence[T], bodies: Sequence[bytes | None], size: int | None = None
    ) -> list[int]:
        """Return the indexes of the matches; ``bodies`` are theirs, and ``size`` the length of these, if known."""
        if not self._is_heavy(bodies, size):
            return self._match(things)
        positions: list[int] = []
        turn_ends_s = time.monotonic() + _TURN_S
        for start in range(0, len(things), _TURN_MESSAGES):
            some = things[start : start + _TURN_MESSAGES]
            if self._is_heavy(bodies[start : start + _TURN_MESSAGES]):
                found = await abandonable(partial(self._one_by_one, some))
            else:
                found = self._match(some)
            positions += [start + position for position in found]
            if time.monotonic() > turn_ends_s:
                await asyncio.sleep(0)
                turn_ends_s = time.monotonic() + _TURN_S
        return positions

    def _is_heavy(self, bodies: Sequence[bytes | None], size: int | None = None) -> bool:
        if not self._ns_per_byte:
            return False
        size = sum(map(len, filter(None, bodies))) if size is None else size
        return size * self._ns_per_byte > _TURN_NS_MAX

    def _one_by_one(self, things: Sequence[T], is_over: threading.Event) -> list[int]:
        return [position for position, thing in enumerate(things) if not is_over.is_set() and self._match((thing,))]


async def abandonable(work: Callable[[threading.Event], T]) -> T:
    """Run work in its own thread. If this is cancelled, the event is set and the thread is not waited for.

    The threads of an executor would delay the closing of the loop.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    is_over = threading.Event()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("T", result))

    def run() -> None:
        result, failed = None, None
        try:
            result = work(is_over)
        except BaseException as error:
            failed = error
        # The loop may have been closed meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, name="search", daemon=True).start()
    try:
        return await done
    finally:
        is_over.set()


GROUPS_MAX = 2_000
OTHER = "(other)"
SHAPE = "shape"
_LABEL_MAX = 80
_KEYS_MAX = 12


class GroupingError(ValueError):
    """An invalid grouping; its text says what is valid."""


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """A group of messages; ``bytes`` is the total of their bodies, ``oldest_ms`` is None if no id carries a time."""

    label: str
    count: int
    bytes: int
    oldest_ms: int | None

    def age_ms(self, at_ms: int) -> int | None:
        """Return the age of its oldest message at that server time."""
        return None if self.oldest_ms is None else at_ms - self.oldest_ms


class MessageGroups:
    """Counts messages by ``shape``, or by a JSON path such as ``json.customer.type``.

    Beyond GROUPS_MAX groups, new labels count as OTHER. Labels are printable. Raises ``GroupingError`` for any other
    ``by``.
    """

    def __init__(self, by: str) -> None:
        self.by = by
        self.path: JsonPath | None = None if by == SHAPE else _path_of(by)
        self.total = 0
        self._groups: dict[str, list[Any]] = {}

    def add(self, raw: RawMessage, at_ms: int) -> str:
        """Count a message that was read with its body at that server time; return the label of its group."""
        label = _shape(raw) if self.path is None else _value_label(raw, self.path)
        label = label if label in self._groups or len(self._groups) < GROUPS_MAX else OTHER
        sent = sent_ms(name_of(raw.id), now_ms=at_ms)
        self.total += 1
        group = self._groups.get(label)
        if group is None:
            self._groups[label] = [1, raw.size, sent]
            return label
        group[0] += 1
        group[1] += raw.size
        if sent is not None and (group[2] is None or sent < group[2]):
            group[2] = sent
        return label

    async def add_all(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Count messages, and yield to the event loop in between."""
        turn_ends_s = time.monotonic() + _TURN_S
        for message in messages:
            self.add(message, at_ms)
            if time.monotonic() > turn_ends_s:
                await asyncio.sleep(0)
                turn_ends_s = time.monotonic() + _TURN_S

    def top(self, count: int) -> tuple[MessageGroup, ...]:
        """Return the ``count`` largest groups; one more, OTHER, sums up the rest, if any."""
        ordered = sorted(
            (MessageGroup(label, *values) for label, values in self._groups.items()),
            key=lambda group: (group.label == OTHER, -group.count, group.label),
        )
        shown, rest = ordered[:count], ordered[count:]
        if rest:
            sent = [group.oldest_ms for group in rest if group.oldest_ms is not None]
            messages, size = sum(group.count for group in rest), sum(group.bytes for group in rest)
            shown.append(MessageGroup(OTHER, messages, size, min(sent, default=None)))
        return tuple(shown)


def _path_of(by: str) -> JsonPath:
    try:
        path, end = read_path(by, len("json")) if by.startswith("json") else ((), 0)
    except JsonPathError as error:
        raise GroupingError(str(error)) from error
    if not path or end < len(by):
        raise GroupingError(f"group by {SHAPE}, or by a JSON path: json.customer.type")
    return path


def _value_label(raw: RawMessage, path: JsonPath) -> str:
    if raw.body is None:
        return _without_body(raw)
    document = load(raw.body)
    if document is Absent.JSON:
        return "(not JSON)"
    value = value_at(document, path)
    if value is Absent.VALUE:
        return f"(no {printable(path_text(path), _LABEL_MAX).removeprefix('.')})"
    if isinstance(value, dict):
        return _keys(value)
    if isinstance(value, list):
        return f"[{plural(len(value), 'item')}]"
    text = value_text(value)
    # Quote a string that could be mistaken for another JSON value or a label.
    is_plain = not isinstance(value, str) or (
        text[:1] not in '([{"' and load(text.encode("utf-8", "replace")) is Absent.JSON
    )
    return printable(text if is_plain else f'"{text}"', _LABEL_MAX)


def _shape(raw: RawMessage) -> str:
    body = raw.body
    if body is None:
        return _without_body(raw)
    if not body:
        return "empty"
    document = load(body)
    if isinstance(document, dict):
        return _keys(document)
    if isinstance(document, list):
        return "[list]"
    if isinstance(document, int | float) and not isinstance(document, bool):
        return "number"
    try:
        body.decode()
    except UnicodeDecodeError:
        return "binary"
    return "binary" if b"\0" in body else "text"


def _without_body(raw: RawMessage) -> str:
    return "(too long)" if raw.size else "missing"


def _keys(document: dict[str, Any]) -> str:
    keys = sorted(document)
    shown = ", ".join(printable(key, 24) for key in keys[:_KEYS_MAX])
    return f"{{{shown}{f', … {len(keys)} keys' if len(keys) > _KEYS_MAX else ''}}}"
