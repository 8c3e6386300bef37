"""The table ``messages`` of RSMQ queues: its columns, its filters, and how a read is split into tasks.

If all messages are in the canonical format (canonical ids, scores in ms, plain integers as counts), whole columns are
converted at once; otherwise, value by value. Both ways give the values of ``rsmq_tui.history.rows``.

A deep queue is split into shares of its table of ids (``rsmq_tui.protocol.rsmq.scan``), not of its ranks: a message
that is received gets another score and rank, but keeps its place in the table.

If a filter selects one state, and its messages are few or adjacent, they are read by score instead. The ready ones are
split by score, because a message that stays ready keeps its score. The hidden ones are read by one task in rising
order, because a message that is received again moves up.

Filters that Spark pushes down choose the queues, the part of each, and what is dropped before its body is read. Spark
does not apply an accepted filter again, so each is also applied to what was read.
"""

import operator
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rsmq_tui.history.names import stored_name, stored_text
from rsmq_tui.history.rows import array_of, repeated
from rsmq_tui.monitor import MessageState
from rsmq_tui.monitor.messages.peek import state_of
from rsmq_tui.monitor.messages.reading import read_score
from rsmq_tui.monitor.text import printable
from rsmq_tui.pipeline.datasource.options import SourceError, SourceOptions, briefly, iterate, opened
from rsmq_tui.protocol import (
    MICROSECONDS_FROM,
    SECONDS_BELOW,
    RsmqError,
    RsmqReader,
    ScanChunk,
    leading_int,
    name_of,
    sent_ms,
)
from rsmq_tui.protocol.keys import EARLIEST_MS, SLACK_MS
from rsmq_tui.protocol.rsmq.scan import WHOLE, ScanPart
from rsmq_tui.protocol.rsmq.scan_strategies import QueueSize, ScoreRange

_LONG, _TEXT, _RAW = pa.int64(), pa.string(), pa.binary()
# Made once: Arrow tries to import numpy for each plain number.
_ZERO, _THOUSAND = pa.scalar(0, _LONG), pa.scalar(1000, _LONG)
_STATES = {state: pa.scalar(str(state), _TEXT) for state in MessageState}
# An id of 32 characters that begins with a time; an id that is all hexadecimal contains no time.
_ID_LENGTH, _TIME_LENGTH = 32, 10
_TIMED_IDS = re.compile(rb"(?:[0-9a-z]{10}[0-9a-zA-Z:]{22})*")
_HEXADECIMAL = "^[0-9a-f]{32}$"
# The most digits that ``leading_int`` reads exactly.
_DIGITS_MAX = 18


class MessageColumns:
    """Messages of one queue, each with the time of its read, and the conversion to columns of a table."""

    def __init__(self, at_ms: Sequence[int], columns: Sequence[Sequence[Any]]) -> None:
        self.ids, self.scores, self.rcs, self.frs, self.sizes, self.bodies = columns
        self._at_ms = at_ms
        self._made: dict[str, pa.Array] = {}
        self._numbers: dict[str, pa.Array | None] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> pa.Array:
        """Return one column."""
        if name not in self._made:
            self._made[name] = getattr(self, f"_make_{name}")()
        return self._made[name]

    def _plain(self, what: str, raw: Sequence[bytes | None]) -> pa.Array | None:
        if what not in self._numbers:
            self._numbers[what] = _plain_numbers(raw)
        return self._numbers[what]

    def _make_at_ms(self) -> pa.Array:
        return pa.array(self._at_ms, _LONG)

    def _make_id(self) -> pa.Array:
        joined = b"".join(self.ids)
        if joined.isascii() and b"\\" not in joined:
            return pa.array(self.ids, _RAW).cast(_TEXT)
        return pa.array([stored_name(name_of(id)) for id in self.ids], _TEXT)

    def _make_sent_ms(self) -> pa.Array:
        usual = self._usual_sent_ms()
        if usual is not None:
            return usual
        moments = zip(self.ids, self._at_ms, strict=True)
        return array_of([sent_ms(name_of(id), now_ms=at_ms) for id, at_ms in moments], _LONG)

    def _usual_sent_ms(self) -> pa.Array | None:
        joined = b"".join(self.ids)
        if set(map(len, self.ids)) != {_ID_LENGTH} or _TIMED_IDS.fullmatch(joined) is None:
            return None
        raw = pa.array(self.ids, _RAW)
        if pc.any(pc.match_substring_regex(raw.cast(_TEXT), _HEXADECIMAL)).as_py():
            return None
        found = pc.divide(pa.array([int(id[:_TIME_LENGTH], 36) for id in self.ids], _LONG), _THOUSAND)
        earliest, latest = pc.min_max(found).values()
        is_plausible = earliest.as_py() >= EARLIEST_MS and latest.as_py() <= min(self._at_ms) + SLACK_MS
        return found if is_plausible else None

    def _make_due_ms(self) -> pa.Array:
        usual = self._usual_due_ms()
        if usual is not None:
            return usual
        return array_of([read_score(score.decode("latin-1"))[0] for score in self.scores], _LONG)

    def _usual_due_ms(self) -> pa.Array | None:
        found = self._plain("score", self.scores)
        if found is None:
            return None
        lowest, highest = (bound.as_py() for bound in pc.min_max(found).values())
        return found if lowest >= SECONDS_BELOW and highest < MICROSECONDS_FROM else None

    def _make_rc(self) -> pa.Array:
        usual = self._plain("rc", self.rcs)
        if usual is not None:
            return pc.fill_null(usual, _ZERO)
        return array_of([0 if rc is None else leading_int(rc) for rc in self.rcs], _LONG)

    def _make_fr_ms(self) -> pa.Array:
        usual = self._plain("fr", self.frs)
        return array_of([leading_int(fr) for fr in self.frs], _LONG) if usual is None else usual

    def _make_state(self) -> pa.Array:
        due_ms, rc = self._usual_due_ms(), self._plain("rc", self.rcs)
        if due_ms is None or rc is None:
            moments = zip(self.scores, self.rcs, self._at_ms, strict=True)
            return pa.array([str(state_of(*moment)) for moment in moments], _TEXT)
        was_received = pc.not_equal(pc.fill_null(rc, _ZERO), _ZERO)
        hidden = pc.if_else(was_received, _STATES[MessageState.IN_FLIGHT], _STATES[MessageState.DELAYED])
        is_ready = pc.less_equal(due_ms, self.column("at_ms"))
        return pc.if_else(is_ready, _STATES[MessageState.READY], hidden)

    def _make_size(self) -> pa.Array:
        return pa.array(self.sizes, _LONG)

    def _make_body(self) -> pa.Array:
        return pa.array(self.bodies, _RAW)


def _plain_numbers(raw: Sequence[bytes | None]) -> pa.Array | None:
    """Convert plain integers; None if one of them is not plain. Missing values stay null."""
    texts = pa.array(raw, _RAW)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _LONG)
    # Arrow would also accept hexadecimal numbers.
    if not b"".join(filter(None, raw)).isdigit() or pc.max(pc.binary_length(texts)).as_py() > _DIGITS_MAX:
        return None
    try:
        return texts.cast(_TEXT).cast(_LONG)
    except pa.ArrowInvalid:
        return None


_INT64_MAX = 2**63 - 1
_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, others: value in others,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
_OF_TEXT = (StringStartsWith, StringEndsWith, StringContains)
ALL_STATES = frozenset(MessageState)


@dataclass(frozen=True)
class Pushed:
    """The accepted filters: on the queue's name, on the state, and on rc."""

    queue: tuple[Filter, ...] = ()
    rc: tuple[Filter, ...] = ()
    states: frozenset[MessageState] = field(default=ALL_STATES)

    def wants_queue(self, stored: str) -> bool:
        """Return whether rows of a queue are wanted, by its name as stored in the column."""
        return all(_matches(each, stored) for each in self.queue)

    def wanted_rc(self, counts: Sequence[int | None]) -> list[bool]:
        """Return for each receive count whether it is wanted."""
        wanted = {rc: all(_matches(each, rc) for each in self.rc) for rc in set(counts)}
        return [wanted[rc] for rc in counts]


def push(filters: Sequence[Filter]) -> tuple[Pushed, list[Filter]]:
    """Return the accepted filters, and those that are left to Spark."""
    queue: list[Filter] = []
    rc: list[Filter] = []
    states, left = ALL_STATES, []
    for each in filters:
        column, values = _subject(each)
        if column == "queue" and _are(values, str):
            queue.append(each)
        elif column == "state" and _are(values, str):
            states = frozenset(state for state in states if _matches(each, str(state)))
        elif column == "rc" and _are(values, int) and _is_about_numbers(each):
            rc.append(each)
        else:
            left.append(each)
    return Pushed(tuple(queue), tuple(rc), states), left


def _subject(each: Filter) -> tuple[str | None, tuple[Any, ...]]:
    """Return the column of a filter, and its values; None if it is not on a single column."""
    if isinstance(each, Not):
        return _subject(each.child) if not isinstance(each.child, Not) else (None, ())
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:
        return None, ()
    if isinstance(each, (IsNull, IsNotNull)):
        return attribute[0], ()
    value: Any = getattr(each, "value", None)
    return attribute[0], tuple(value) if isinstance(each, In) else (value,)


def _are(values: Iterable[Any], kind: type) -> bool:
    return all(
        isinstance(value, kind)
        and not isinstance(value, bool)
        and not (isinstance(value, int) and abs(value) > _INT64_MAX)
        for value in values
    )


def _is_about_numbers(each: Filter) -> bool:
    return not isinstance(each.child if isinstance(each, Not) else each, _OF_TEXT)


def _matches(each: Filter, value: Any) -> bool | None:
    """Evaluate a filter as SQL does: for a null, most are null."""
    match each:
        case Not():
            found = _matches(each.child, value)
            return None if found is None else not found
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe():
            return bool(value == each.value)
    # Spark compares texts by bytes, Python by characters: for valid UTF-8 the order is the same.
    other: Any = each.value  # type: ignore[attr-defined] # all but those above have one
    return None if value is None else _COMPARISONS[type(each)](value, other)


# Starting a task takes some ms, and each part of a scan one more round trip: this many messages are worth it.
_PART_MESSAGES_MIN = 20_000
# A scan by score is faster than a full scan if it reads less than one in this many messages.
_HIDDEN_SHARE = 4
_HIDDEN_MAX = 500_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit of reading: a queue, or a part of one; by score if ``ranges`` are given.

    ``rises`` says that scores may rise within the ranges. ``size`` is the approximate number of messages when planned.
    """

    queue: str
    part: ScanPart = WHOLE
    ranges: tuple[ScoreRange, ...] = ()
    rises: bool = False
    size: int = 0


@dataclass
class MessagePartition(InputPartition):
    """The pieces that one task reads."""

    pieces: tuple[Piece, ...]

    def __init__(self, pieces: Iterable[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


async def plan(reader: RsmqReader, options: SourceOptions, pushed: Pushed) -> list[MessagePartition]:
    """Return the tasks; raises ``SourceError``, and errors of the reader."""
    if not pushed.states:
        return [MessagePartition(())]
    queues = await _queues(reader, options, pushed)
    now_ms = await reader.ranges.now_ms()
    ready, hidden = _ranges_of(now_ms)
    sizes = await reader.ranges.sizes(queues, (*ready, *hidden))
    if options.queue is not None and queues:
        _check_there(options.queue, sizes[0], reader)
    total = sum(size.depth for size in sizes)
    wanted = max(_PART_MESSAGES_MIN, -(-total // options.partitions))
    pieces: list[Piece] = []
    for queue, size in zip(queues, sizes, strict=True):
        in_ready = sum(size.in_ranges[: len(ready)])
        in_hidden = sum(size.in_ranges[len(ready) :])
        if size.depth == 0:
            continue
        if pushed.states == {MessageState.READY}:
            pieces += await _ready_pieces(reader, queue, ready, size.in_ranges, in_ready, wanted)
        elif MessageState.READY not in pushed.states and in_hidden <= min(_HIDDEN_MAX, size.depth // _HIDDEN_SHARE):
            pieces.append(Piece(queue, ranges=hidden, rises=True, size=in_hidden))
        else:
            pieces += await _parts(reader, queue, size.depth, wanted)
    return packed(pieces, options.partitions)


def _check_there(queue: str, size: QueueSize, reader: RsmqReader) -> None:
    name = printable(queue)
    if size.problem is not None:
        raise SourceError(f"the messages of {name} cannot be read: {printable(size.problem)}")
    if not size.exists and not size.depth:
        raise SourceError(f"no queue {name} in namespace {printable(reader.ns)} of {reader.label}")


async def _queues(reader: RsmqReader, options: SourceOptions, pushed: Pushed) -> list[str]:
    if options.queue is not None:
        names: Sequence[str] = (options.queue,)
    else:
        index = await reader.rows.index()
        if index.problem is not None:
            raise SourceError(printable(index.problem))
        names = index.names
    return [name for name in names if pushed.wants_queue(stored_name(name))]


def _ranges_of(now_ms: int) -> tuple[tuple[ScoreRange, ...], tuple[ScoreRange, ...]]:
    """Return the score ranges of ready and of hidden messages at a time, in each unit that clients use."""
    # Scores in seconds may have fractions.
    second_bound, ms_bound, micro_bound = repr(now_ms / 1000).encode(), b"%d" % now_ms, b"%d" % (now_ms * 1000)
    ms_from, micros_from = b"%d" % SECONDS_BELOW, b"%d" % MICROSECONDS_FROM
    ready = (
        ScoreRange(b"-inf", second_bound),
        ScoreRange(ms_from, ms_bound),
        ScoreRange(micros_from, micro_bound),
    )
    hidden = (
        ScoreRange(b"(" + second_bound, b"(" + ms_from),
        ScoreRange(b"(" + ms_bound, b"(" + micros_from),
        ScoreRange(b"(" + micro_bound, b"+inf"),
    )
    return ready, hidden


async def _ready_pieces(
    reader: RsmqReader, queue: str, ranges: Sequence[ScoreRange], counts: Sequence[int], total: int, wanted: int
) -> list[Piece]:
    if total <= wanted:
        return [Piece(queue, ranges=tuple(ranges), size=total)] if total else []
    pieces: list[Piece] = []
    for bounds, count in zip(ranges, counts, strict=False):
        if not count:
            continue
        try:
            cuts = await reader.ranges.scores_at(queue, bounds, count, wanted)
        except RsmqError:
            cuts = []
        low = bounds.low
        # Messages with equal scores stay together.
        for cut in dict.fromkeys(cuts):
            pieces.append(Piece(queue, ranges=(ScoreRange(low, b"(" + cut),), size=wanted))
            low = cut
        pieces.append(Piece(queue, ranges=(ScoreRange(low, bounds.high),), size=wanted))
    return pieces


async def _parts(reader: RsmqReader, queue: str, depth: int, wanted: int) -> list[Piece]:
    """Split a queue into parts of about ``wanted`` messages; the number of parts must be a power of two."""
    count = 1
    while depth > wanted * count:
        count *= 2
    if count > 1 and not await reader.ranges.can_split(queue):
        count = 1
    return [Piece(queue, ScanPart(index, count), size=depth // count) for index in range(count)]


def packed(pieces: list[Piece], partitions: int) -> list[MessagePartition]:
    """Distribute pieces to tasks, the largest first, each to the task with the least work."""
    bins: list[list[Piece]] = [[] for _ in range(min(partitions, len(pieces)) or 1)]
    loads = [0] * len(bins)
    for piece in sorted(pieces, key=lambda piece: -piece.size):
        place = loads.index(min(loads))
        bins[place].append(piece)
        loads[place] += piece.size + 100
    return [MessagePartition(each) for each in bins]


# The approximate limits of a batch, in rows and in bytes of bodies: small batches are expensive for the JVM.
_BATCH_ROWS = 10_000
_BATCH_BODY_BYTES = 16_000_000
_COUNT_COLUMNS = {"rc", "fr_ms", "state"}


class MessageReader(DataSourceReader):
    """Reads messages, of one queue or of all.

    A message that is in its queue during the whole read is returned exactly once, whatever consumers do meanwhile;
    others at most once. There are two exceptions. If a queue shrinks to a twentieth or less while it is read, some
    messages may be returned twice. If a filter selects only hidden messages, one whose due time is made earlier while
    it stays hidden may be missed. Each row is as of its ``at_ms``; a message that becomes ready while ``state =
    'ready'`` is read may be included or not.

    Receive counts are read only where rc, fr_ms or state is among the columns, bodies where body is, and their sizes
    where size is. Spark passes a source only the columns of its schema, so ``select`` saves nothing here, but
    ``.schema("queue string, id string")`` does.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Accept filters on queue, state and rc."""
        self._pushed, left = push(filters)
        return left

    @briefly
    def partitions(self) -> list[InputPartition]:
        """Split the work; raises ``SourceError``."""
        return list(iterate(opened(self._options), self._plan))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition; raises ``SourceError``."""
        assert isinstance(partition, MessagePartition)
        reading = _Reading(self._options, self._pushed, to_arrow_schema(self._schema, timezone="UTC"))
        yield from iterate(opened(self._options), lambda reader: reading.batches(reader, partition.pieces))

    async def _plan(self, reader: RsmqReader) -> AsyncGenerator[InputPartition, None]:
        for partition in await plan(reader, self._options, self._pushed):
            yield partition


class _Reading:
    """Reads pieces and makes batches; ``schema`` is that of the batches."""

    def __init__(self, options: SourceOptions, pushed: Pushed, schema: pa.Schema) -> None:
        columns = set(schema.names)
        self._options = options
        self._pushed = pushed
        self._schema = schema
        self._asks_states = pushed.states != ALL_STATES
        self._counts = bool(columns & _COUNT_COLUMNS) or bool(pushed.rc) or self._asks_states
        self._bodies = "body" in columns
        self._sizes = "size" in columns and not self._bodies

    async def batches(self, reader: RsmqReader, pieces: Sequence[Piece]) -> AsyncGenerator[pa.RecordBatch, None]:
        for piece in pieces:
            gathered = _Gathered()
            async with aclosing(self._chunks(reader, piece)) as chunks:
                async for chunk in chunks:
                    gathered.add(chunk)
                    if gathered.is_full:
                        yield self._batch(reader, piece.queue, gathered)
                        gathered = _Gathered()
            if gathered.at_ms:
                yield self._batch(reader, piece.queue, gathered)

    async def _chunks(self, reader: RsmqReader, piece: Piece) -> AsyncGenerator[ScanChunk, None]:
        selects = self._asks_states or bool(self._pushed.rc)
        async with aclosing(self._found(reader, piece, selects)) as found:
            async for chunk in found:
                if not selects:
                    yield chunk
                    continue
                kept = chunk.kept(self._are_wanted(chunk))
                if len(kept) and (self._bodies or self._sizes):
                    kept = await reader.scan.read(piece.queue, kept, bodies=self._bodies, sizes=self._sizes)
                if len(kept):
                    yield kept

    async def _found(self, reader: RsmqReader, piece: Piece, selects: bool) -> AsyncGenerator[ScanChunk, None]:
        """Yield the messages, with only the fields that the filters need."""
        count = self._options.chunk
        if not piece.ranges:
            async with aclosing(
                reader.scan.chunks(
                    piece.queue,
                    counts=self._counts,
                    bodies=self._bodies and not selects,
                    sizes=self._sizes and not selects,
                    count=count,
                    part=piece.part,
                )
            ) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        for bounds in piece.ranges:
            found = reader.ranges.chunks(piece.queue, bounds, counts=self._counts, remember=piece.rises, count=count)
            async with aclosing(found) as chunks:
                async for chunk in chunks:
                    yield chunk

    def _are_wanted(self, chunk: ScanChunk) -> list[bool]:
        columns = MessageColumns([chunk.at_ms] * len(chunk), chunk.columns)
        wanted = self._pushed.wanted_rc(columns.column("rc").to_pylist())
        states, found = {str(state) for state in self._pushed.states}, columns.column("state").to_pylist()
        return [is_wanted and state in states for is_wanted, state in zip(wanted, found, strict=True)]

    def _batch(self, reader: RsmqReader, queue: str, gathered: "_Gathered") -> pa.RecordBatch:
        columns = MessageColumns(gathered.at_ms, gathered.columns)
        same = {"server": stored_text(reader.label), "ns": stored_name(reader.ns), "queue": stored_name(queue)}
        arrays = [
            repeated(same[each.name], each.type, len(columns)) if each.name in same else columns.column(each.name)
            for each in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Gathered:
    """Chunks that are collected for a batch."""

    def __init__(self) -> None:
        self.at_ms: list[int] = []
        self.columns: tuple[list[Any], ...] = ([], [], [], [], [], [])
        self._body_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the limits of a batch are reached."""
        return len(self.at_ms) >= _BATCH_ROWS or self._body_bytes >= _BATCH_BODY_BYTES

    def add(self, chunk: ScanChunk) -> None:
        self.at_ms += [chunk.at_ms] * len(chunk)
        for column, values in zip(self.columns, chunk.columns, strict=True):
            column.extend(values)
        self._body_bytes += sum(chunk.columns[4])
