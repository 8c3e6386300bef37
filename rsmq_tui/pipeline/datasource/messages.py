"""The table ``messages``: what lies in queues, read without changing anything."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rsmq_tui.history.columns import repeated
from rsmq_tui.history.names import stored_name, stored_text
from rsmq_tui.monitor import MessageState
from rsmq_tui.pipeline.datasource.bridge import iterate, opened
from rsmq_tui.pipeline.datasource.errors import ERRORS, briefly, told
from rsmq_tui.pipeline.datasource.filters import ALL_STATES, Pushed, push
from rsmq_tui.pipeline.datasource.message_columns import MessageColumns
from rsmq_tui.pipeline.datasource.options import Options
from rsmq_tui.pipeline.datasource.planning import MessagePartition, Piece, plan
from rsmq_tui.protocol import QueueReader, ScanChunk

# A batch holds about so many rows, or so much of bodies: batches of a few rows cost the JVM more than their rows.
_BATCH_ROWS = 10_000
_BATCH_BODY_BYTES = 16_000_000
_COUNT_COLUMNS = {"rc", "fr_ms", "state"}


class MessageReader(DataSourceReader):
    """Reads messages, of one queue or of all.

    A message that is in its queue throughout the read comes once, whatever consumers do to it meanwhile; others come
    at most once. There are two exceptions. A queue of which a twentieth or less is left while it is read may give some
    of that twice. And where a filter asks for hidden messages only, one whose visibility is cut short meanwhile, and
    that is still hidden then, may be left out. Each row is as it was at its ``at_ms``; a message that becomes ready
    while ``state = 'ready'`` is read may come or not.

    Receive counts are read only where rc, fr_ms or state is among the columns, bodies where body is, and their sizes
    where size is. The API tells a source no other columns than those of its schema, so that ``select`` saves nothing
    here: ``.schema("queue string, id string")`` does.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Take on filters on queue, state and rc."""
        self._pushed, left = push(filters)
        return left

    @briefly
    def partitions(self) -> list[InputPartition]:
        """Split the work; raises ``SourceError``."""
        return asyncio.run(self._plan())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition; raises ``SourceError``."""
        assert isinstance(partition, MessagePartition)
        reading = _Reading(self._options, self._pushed, to_arrow_schema(self._schema, timezone="UTC"))
        yield from iterate(self._options, lambda reader: reading.batches(reader, partition.pieces))

    async def _plan(self) -> list[InputPartition]:
        async with aclosing(opened(self._options)) as reader:
            try:
                return list(await plan(reader, self._options, self._pushed))
            except ERRORS as error:
                raise told(error, reader.label) from None


class _Reading:
    """What is read, and how it becomes batches; ``schema`` is that of the batches."""

    def __init__(self, options: Options, pushed: Pushed, schema: pa.Schema) -> None:
        columns = set(schema.names)
        self._options = options
        self._pushed = pushed
        self._schema = schema
        self._asks_states = pushed.states != ALL_STATES
        self._counts = bool(columns & _COUNT_COLUMNS) or bool(pushed.rc) or self._asks_states
        self._bodies = "body" in columns
        self._sizes = "size" in columns and not self._bodies

    async def batches(self, reader: QueueReader, pieces: Sequence[Piece]) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of some pieces."""
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

    async def _chunks(self, reader: QueueReader, piece: Piece) -> AsyncGenerator[ScanChunk, None]:
        selects = self._asks_states or bool(self._pushed.rc)
        async with aclosing(self._found(reader, piece, selects)) as found:
            async for chunk in found:
                if not selects:
                    yield chunk
                    continue
                kept = await self._selected(reader, piece, chunk)
                if len(kept) and (self._bodies or self._sizes):
                    kept = await reader.scan.read(
                        piece.queue, kept, counts=False, bodies=self._bodies, sizes=self._sizes
                    )
                if len(kept):
                    yield kept

    async def _found(self, reader: QueueReader, piece: Piece, selects: bool) -> AsyncGenerator[ScanChunk, None]:
        """Yield what there is, with no more than is needed to tell what is wanted of it."""
        count = self._options.chunk
        if not piece.ranges:
            async with aclosing(
                reader.scan.chunks(
                    piece.queue,
                    counts=self._counts and not self._asks_states,
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
            async with aclosing(reader.ranges.chunks(piece.queue, bounds, remember=piece.rises, count=count)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _selected(self, reader: QueueReader, piece: Piece, chunk: ScanChunk) -> ScanChunk:
        """Return what is wanted of a chunk; rc is known of it then."""
        if self._asks_states:
            # Before anything else is asked, scores alone tell which can be wanted.
            chunk = _kept(chunk, self._may_be_wanted(chunk))
            if not len(chunk):
                return chunk
            chunk = await reader.scan.read(piece.queue, chunk, counts=True, bodies=False, sizes=False)
        columns = MessageColumns([chunk.at_ms] * len(chunk), chunk.columns)
        wanted = self._pushed.wanted_rc(columns.column("rc")) if self._pushed.rc else None
        if self._asks_states:
            is_in = pc.is_in(columns.column("state"), value_set=pa.array(map(str, self._pushed.states), pa.string()))
            wanted = is_in if wanted is None else pc.and_(wanted, is_in)
        return chunk if wanted is None else _kept(chunk, wanted.to_pylist())

    def _may_be_wanted(self, chunk: ScanChunk) -> list[bool]:
        columns = MessageColumns([chunk.at_ms] * len(chunk), chunk.columns)
        # Without counts, what is hidden looks delayed.
        states = self._pushed.states
        wants_ready, wants_hidden = MessageState.READY in states, bool(states - {MessageState.READY})
        is_ready = pc.equal(columns.column("state"), pa.scalar(str(MessageState.READY), pa.string()))
        return [wants_ready if ready else wants_hidden for ready in is_ready.to_pylist()]

    def _batch(self, reader: QueueReader, queue: str, gathered: "_Gathered") -> pa.RecordBatch:
        columns = MessageColumns(gathered.at_ms, gathered.columns)
        same = {"server": stored_text(reader.label), "ns": stored_name(reader.ns), "queue": stored_name(queue)}
        arrays = [
            repeated(same[each.name], each.type, len(columns)) if each.name in same else columns.column(each.name)
            for each in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Gathered:
    """Chunks that are yet to become a batch."""

    def __init__(self) -> None:
        self.at_ms: list[int] = []
        self.columns: tuple[list[Any], ...] = ([], [], [], [], [], [])
        self._body_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to make a batch of it."""
        return len(self.at_ms) >= _BATCH_ROWS or self._body_bytes >= _BATCH_BODY_BYTES

    def add(self, chunk: ScanChunk) -> None:
        """Take a chunk."""
        self.at_ms += [chunk.at_ms] * len(chunk)
        for column, values in zip(self.columns, chunk.columns, strict=True):
            column.extend(values)
        self._body_bytes += sum(chunk.columns[4])


def _kept(chunk: ScanChunk, wanted: Sequence[bool]) -> ScanChunk:
    columns = tuple(list(compress(column, wanted)) for column in chunk.columns)
    return ScanChunk(chunk.at_ms, chunk.depth, columns, chunk.too_long)
