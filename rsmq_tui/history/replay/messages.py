"""The messages of a queue at its last inventory before a moment."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.names import Place, read_name, stored_name
from rsmq_tui.history.reading import History, RecordedSpan
from rsmq_tui.history.schema import MESSAGES
from rsmq_tui.monitor import Filter, MessageRow, MessageView, Page, PageRequest, PeekError, SearchProgress
from rsmq_tui.monitor.filters.search import found_row
from rsmq_tui.monitor.messages.peek import DUE_BOUNDS
from rsmq_tui.monitor.moments import DAY_MS
from rsmq_tui.protocol import RawMessage, name_bytes
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.protocol.rsmq.pages import start_of_page

# Older inventories are too old to show.
_LOOK_BACK_MS = DAY_MS
_FILES_KEPT = 64
_INVENTORIES_KEPT = 2
_CHUNK = 2_000
_QUEUE = ("profile", "server", "ns", "queue")
_NOT_RECORDED = "– not recorded".encode()
NO_MESSAGES = (
    "no messages were recorded here before this time, only the counts of the queue; `rsmq-tui record "
    "--messages 5m` also records messages"
)
NO_IDS = "the {noun}s of {label} are not recorded, only their number: {noun}s have no ids that identify them"
IN_PART = "the messages were recorded only in part before this time: no inventory of this queue was completed"
GONE = "the file with these messages can no longer be read"


class _End(NamedTuple):
    """A complete inventory: its queue, its recorder, its start and its end."""

    inventory_ms: int
    end_ms: int
    recorder: str
    place: Place
    queue: str


class _Ends(NamedTuple):
    """The content of a file: the complete inventories, and every queue that has messages in it."""

    ends: tuple[_End, ...]
    queues: frozenset[tuple[Place, str]]


class Inventories:
    """Finds inventories in a history; files are read in a thread."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ends_in = lru_cache(_FILES_KEPT)(self._read_ends)
        self._inventory = lru_cache(_INVENTORIES_KEPT)(self._read_inventory)
        self._lock = asyncio.Lock()

    async def last(self, place: Place, queue: str, at_ms: int) -> "Inventory":
        """Return the last complete inventory of a queue before a moment; raises ``PeekError`` if there is none."""
        async with self._lock:
            return await asyncio.to_thread(self._history.again, lambda: self._last(place, stored_name(queue), at_ms))

    def _last(self, place: Place, queue: str, at_ms: int) -> "Inventory":
        span = RecordedSpan(at_ms - _LOOK_BACK_MS, at_ms)
        files = [file for file in self._history.files(span, MESSAGES) if place in file.places]
        best: _End | None = None
        is_in_part = False
        for file in sorted(files, key=lambda file: -file.span.to_ms):
            if best is not None and file.span.to_ms < best.inventory_ms:
                break
            known = self._ends_in(file.name)
            is_in_part = is_in_part or ((place, queue) in known.queues and file.span.from_ms <= at_ms)
            for end in known.ends:
                is_its = end.place == place and end.queue == queue and end.end_ms <= at_ms
                if is_its and (best is None or end.inventory_ms > best.inventory_ms):
                    best = end
        if best is None:
            kind = kind_of(place.ns)
            nothing = NO_MESSAGES if kind.has_namespaces else NO_IDS.format(noun=kind.noun, label=kind.label)
            raise PeekError(IN_PART if is_in_part else nothing)
        return self._inventory(best)

    def _read_ends(self, name: str) -> _Ends:
        columns = ("at_ms", "inventory_ms", "recorder", "profile", "server", "ns", "queue", "id")
        table = self._history.columns(name, columns, MESSAGES)
        return _Ends((), frozenset()) if table is None else _ends(table)

    def _read_inventory(self, end: _End) -> "Inventory":
        within = RecordedSpan(end.inventory_ms, end.end_ms)
        wanted = (
            (pc.field("inventory_ms") == end.inventory_ms)
            & (pc.field("recorder") == end.recorder)
            & (pc.field("queue") == end.queue)
            & pc.field("id").is_valid()
        )
        for name, value in end.place.stored._asdict().items():
            wanted &= pc.field(name) == value
        key = ("inventory_ms", "recorder", "profile", "server", "ns", "queue")
        columns = (*key, "id", "sent_ms", "due_ms", "rc", "fr_ms", "size", "body")
        tables = [
            table.filter(wanted)
            for file in self._history.files(within, MESSAGES)
            if end.place in file.places and (table := self._history.columns(file.name, columns, MESSAGES)) is not None
        ]
        if not tables:
            # The day may have been removed since its last row was read.
            raise PeekError(GONE)
        whole = pa.concat_tables(tables).sort_by([("due_ms", "ascending"), ("id", "ascending")])
        return Inventory(end.inventory_ms, whole)


class Inventory:
    """All messages of a queue at ``at_ms``, in the order in which they become visible."""

    def __init__(self, at_ms: int, rows: pa.Table) -> None:
        self.at_ms = at_ms
        self._rows = rows
        self._due = rows.column("due_ms")
        self.ready = self._due_until(at_ms)

    def page(self, request: PageRequest) -> Page:
        """Return a page, as of the inventory."""
        low = self.ready if request.part == "hidden" else 0
        high = self.ready if request.part == "ready" else len(self._rows)
        count = request.count
        match request.where:
            case "last":
                start = high - count
            case "after" | "before" | "at" if request.anchor is not None:
                place = self._place(request.anchor.id)
                start = {"after": place + 1, "before": place - count, "at": place}[request.where]
            case _:
                start = low
        start = start_of_page(start + request.offset, request.offset, count, low, high)
        messages = self._messages(start, max(0, min(count, high - start)))
        rows = tuple(self._shown(message) for message in messages)
        return Page(request, self.at_ms, len(self._rows), self.ready, start, rows)

    def view(self, id: str) -> MessageView:
        """Return one message; its body is None if none was recorded."""
        place = self._place(id)
        found = self._messages(place, 1) if place < len(self._rows) else []
        if not found or found[0].id != name_bytes(id):
            return MessageView(self.at_ms, id, None, None, 0)
        row: MessageRow = found_row(found[0], self.at_ms)
        return MessageView(self.at_ms, id, row, found[0].body, found[0].size)

    async def search(self, wanted: Filter) -> AsyncGenerator[SearchProgress, None]:
        """Yield the matches in parts; terms on bodies do not match if bodies were not recorded."""
        matches, depth, matched = wanted.predicate(), len(self._rows), 0
        not_searched, needs_bodies = 0, "body" in wanted.needs()
        for start in range(0, max(1, depth), _CHUNK):
            part = self._messages(start, _CHUNK)
            found = tuple(message for message in part if matches(message, self.at_ms))
            matched += len(found)
            if needs_bodies:
                not_searched += sum(message.body is None and message.size > 0 for message in part)
            yield SearchProgress(self.at_ms, depth, min(depth, start + _CHUNK), matched, not_searched, found)
            await asyncio.sleep(0)

    def due(self, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count the messages by when they become visible, relative to that moment."""
        counts = [self._due_until(at_ms + bound) for _, bound in DUE_BOUNDS]
        labels = (*(label for label, _ in DUE_BOUNDS), "later")
        earlier = (0, *counts)
        all_counts = (*counts, len(self._rows))
        return tuple((label, count - before) for label, count, before in zip(labels, all_counts, earlier, strict=True))

    def _shown(self, message: RawMessage) -> MessageRow:
        row = found_row(message, self.at_ms)
        return replace(row, preview=_NOT_RECORDED) if message.body is None and message.size else row

    def _due_until(self, at_ms: int) -> int:
        return int(pc.sum(pc.less_equal(self._due, pa.scalar(at_ms, pa.int64()))).as_py() or 0)

    def _place(self, id: str) -> int:
        """Return the index of a message, or the number of messages if it is not there."""
        place = pc.index(self._rows.column("id"), pa.scalar(stored_name(id))).as_py()
        return len(self._rows) if place < 0 else int(place)

    def _messages(self, start: int, count: int) -> list[RawMessage]:
        return [_message(row) for row in self._rows.slice(start, count).to_pylist()]


def _message(row: dict[str, Any]) -> RawMessage:
    due_ms = row["due_ms"]
    return RawMessage(
        id=name_bytes(read_name(row["id"])),
        score=b"inf" if due_ms is None else str(due_ms).encode(),
        rc=str(row["rc"]).encode() if row["rc"] else None,
        fr=None if row["fr_ms"] is None else str(row["fr_ms"]).encode(),
        size=row["size"] or 0,
        body=row["body"],
    )


def _ends(table: pa.Table) -> _Ends:
    rows = table.filter(pc.is_null(table.column("id"))).to_pylist()
    queues = table.select(_QUEUE).group_by(list(_QUEUE)).aggregate([]).to_pylist()
    return _Ends(tuple(map(_end, rows)), frozenset((_place_in(row), row["queue"]) for row in queues))


def _end(row: dict[str, Any]) -> _End:
    return _End(row["inventory_ms"], row["at_ms"], row["recorder"], _place_in(row), row["queue"])


def _place_in(row: dict[str, Any]) -> Place:
    return Place.read(row["profile"], row["server"], row["ns"])
