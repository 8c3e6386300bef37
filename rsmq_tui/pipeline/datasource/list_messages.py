"""The table ``messages`` of lists: the items in them and in processing, read without changing anything."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rsmq_tui.history.columns import repeated
from rsmq_tui.history.names import stored_name, stored_text
from rsmq_tui.monitor.reading import read_score
from rsmq_tui.monitor.states import MessageState, state_of
from rsmq_tui.pipeline.datasource.bridge import iterate_with, opened_lists
from rsmq_tui.pipeline.datasource.errors import ERRORS, briefly, told
from rsmq_tui.pipeline.datasource.options import Options
from rsmq_tui.pipeline.datasource.planning import MessagePartition, Piece, packed
from rsmq_tui.protocol import RsmqError, ScanChunk, name_of
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.protocol.lists.reader import ListReader

_LEASED = (MessageState.IN_FLIGHT, MessageState.EXPIRED)


class ListMessageReader(DataSourceReader):
    """Reads the items of one list queue, or of all that option ``lists`` means, each queue in one task.

    A position is all that tells where an item is, and every pop shifts it: no part of a list stays what it is while
    another task reads the other, so that a list is not split. An item that is there throughout comes once, be it in the
    queue or in processing; of those with the same bytes only the number counts. Its ``id`` says where it was and which
    bytes it had; ``due_ms`` is the deadline of its lease. What a list does not know is null: sent_ms, rc, fr_ms.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @briefly
    def partitions(self) -> list[InputPartition]:
        """Split the work; raises ``SourceError``."""
        return asyncio.run(self._plan())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition; raises ``SourceError``."""
        assert isinstance(partition, MessagePartition)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        yield from iterate_with(
            opened_lists(self._options), lambda reader: self._batches(reader, partition.pieces, schema)
        )

    async def _plan(self) -> list[InputPartition]:
        async with aclosing(opened_lists(self._options)) as reader:
            try:
                await reader.discovery.search()
                index = await reader.rows.index()
                pieces = []
                async with aclosing(reader.rows.rows(index.at_ms)) as coming:
                    async for names, rows in coming:
                        # A count that cannot be read is told by the task.
                        sizes = (sum(each for each in row[:2] if isinstance(each, int)) for row in rows)
                        pieces += [Piece(name, size=size) for name, size in zip(names, sizes, strict=True)]
            except ERRORS as error:
                raise told(error, reader.label) from None
        return list(packed(pieces, self._options.partitions))

    async def _batches(
        self, reader: ListReader, pieces: tuple[Piece, ...], schema: pa.Schema
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        bodies = "body" in schema.names
        for piece in pieces:
            try:
                chunks = reader.scan.chunks(piece.queue, bodies=bodies, count=self._options.chunk)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        yield _batch(reader, piece.queue, chunk, schema)
            except RsmqError as error:
                if self._options.queue is None and error.code == "wrongType":
                    # It is no list queue: the table of queues says what is wrong with it.
                    continue
                raise told(error, reader.label, f"queue {piece.queue}") from None


def _batch(reader: ListReader, queue: str, chunk: ScanChunk, schema: pa.Schema) -> pa.RecordBatch:
    ids, scores, _, _, sizes, bodies = chunk.columns
    count = len(chunk)
    states = [state_of(score, None, chunk.at_ms, id) for score, id in zip(scores, ids, strict=True)]
    same = {
        "at_ms": chunk.at_ms,
        "server": stored_text(reader.label),
        "ns": stored_name(LISTS_NS),
        "queue": stored_name(queue),
    }
    found = {
        "id": [name_of(id) for id in ids],
        "due_ms": [_due_ms(score) if state in _LEASED else None for score, state in zip(scores, states, strict=True)],
        "state": list(map(str, states)),
        "size": sizes,
        "body": bodies,
    }
    arrays = [
        pa.array(found[each.name], each.type) if each.name in found else repeated(same.get(each.name), each.type, count)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _due_ms(score: bytes) -> int | None:
    due_ms, _ = read_score(score.decode("latin-1"))
    with suppress(OverflowError, ValueError):
        return None if due_ms is None else int(due_ms)
    return None
