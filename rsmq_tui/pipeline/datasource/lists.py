"""The table ``messages`` of list queues, and pushing rows to them."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rsmq_tui.history.names import stored_name, stored_text
from rsmq_tui.history.rows import repeated
from rsmq_tui.monitor.messages.peek import MessageState, state_of
from rsmq_tui.monitor.messages.reading import read_score
from rsmq_tui.monitor.text import SENTENCE_MAX, plural, printable
from rsmq_tui.pipeline.datasource.messages import MessagePartition, Piece, packed
from rsmq_tui.pipeline.datasource.options import (
    ERRORS,
    NEW,
    SourceError,
    SourceOptions,
    briefly,
    explain,
    iterate,
    opened_lists,
)
from rsmq_tui.pipeline.datasource.writing import TaskResult, check_all_sent, check_written, outgoing_rows
from rsmq_tui.protocol import RsmqError, ScanChunk, connect, name_bytes, name_of
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.protocol.lists.client import ListQueue
from rsmq_tui.protocol.lists.reader import ListReader

_LEASED = (MessageState.IN_FLIGHT, MessageState.EXPIRED)


class ListMessageReader(DataSourceReader):
    """Reads the items of one list queue, or of all that option ``lists`` means, each queue in one task.

    A list is not split into tasks: items are identified by position, and every pop shifts them while another task
    reads. An item that is in the list or in processing during the whole read is returned exactly once; of equal items,
    only the number is exact. Its ``id`` holds its position and bytes; ``due_ms`` is the deadline of its lease. Values
    that a list does not have are null: sent_ms, rc, fr_ms.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @briefly
    def partitions(self) -> list[InputPartition]:
        """Split the work; raises ``SourceError``."""
        return list(iterate(opened_lists(self._options), self._plan))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition; raises ``SourceError``."""
        assert isinstance(partition, MessagePartition)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        yield from iterate(opened_lists(self._options), lambda reader: self._batches(reader, partition.pieces, schema))

    async def _plan(self, reader: ListReader) -> AsyncGenerator[InputPartition, None]:
        await reader.discovery.search()
        index = await reader.rows.index()
        rows = await reader.rows.rows(index.at_ms)
        # The task reports a count that cannot be read.
        sizes = (sum(each for each in row[:2] if isinstance(each, int)) for row in rows.values())
        pieces = [Piece(name, size=size) for name, size in zip(rows, sizes, strict=True)]
        for partition in packed(pieces, self._options.partitions):
            yield partition

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
                    # Not a list queue: the table ``queues`` reports the problem.
                    continue
                raise explain(error, reader.label, f"queue {piece.queue}") from None


def _batch(reader: ListReader, queue: str, chunk: ScanChunk, schema: pa.Schema) -> pa.RecordBatch:
    ids, scores, _, _, sizes, bodies = chunk.columns
    count = len(chunk)
    states = [state_of(score, None, chunk.at_ms, id) for score, id in zip(scores, ids, strict=True)]
    same = {
        "at_ms": chunk.at_ms,
        "server": stored_text(reader.label),
        "ns": stored_name(LIST.ns),
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


_PUSH_ITEMS = 500
_PUSH_BYTES = 1 << 20


class ListWriter(DataSourceArrowWriter):
    """Pushes rows: the column ``body``, to the key in the column ``queue`` if there is one.

    Each row is pushed at least once, at the end that consumers do not take from: a task that fails midway is run again
    from its first row. Rows of a partition keep their order. A missing list is created; a row for a key of another type
    is refused, and the write fails after all others are pushed. Lists have no delays and no ids.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.ids != NEW or options.run is not None:
            raise SourceError("rows are pushed to a list at least once: leave options ids and run out")
        if options.delay_s is not None or "delay_s" in schema.names:
            raise SourceError("lists have no delay: leave delay_s out")
        check_written(schema, options)
        if options.server.address().cluster:
            raise SourceError("lists of a cluster cannot be written: each list may be on another node")
        self._options = options
        self._check_server()

    @briefly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """Push the rows of one partition; raises ``SourceError``."""
        done = TaskResult("")
        address = self._options.server.address()
        with connect(address, self._options.ns) as client:
            try:
                for batch in iterator:
                    groups: dict[str, list[str | bytes]] = {}
                    for row in outgoing_rows(batch, self._options, done.refuse):
                        groups.setdefault(row.queue, []).append(row.body)
                    for queue, items in groups.items():
                        self._push(ListQueue(client, name_bytes(queue), names=self._options.list_names), items, done)
            except ERRORS as error:
                sent = plural(done.sent, "item")
                raise explain(error, address.label, f"this task had pushed {sent}") from None
        return done

    @briefly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raise ``SourceError`` if rows could not be pushed."""
        check_all_sent([message for message in messages if isinstance(message, TaskResult)])

    def _push(self, queue: ListQueue, items: Sequence[str | bytes], done: TaskResult) -> None:
        for part in _parts(items):
            try:
                queue.push(*part)
            except RsmqError as error:
                done.refuse(len(part), printable(f"queue {queue.key}: {error}", SENTENCE_MAX))
            else:
                done.sent += len(part)

    def _check_server(self) -> None:
        """Check, before any task starts, that the server answers and that the key is a list or missing."""
        options = self._options
        address = options.server.address()
        with connect(address, options.ns) as client:
            try:
                ListQueue(client, name_bytes(options.queue or "queue"), names=options.list_names).length()
            except RsmqError as error:
                if options.queue is not None:
                    raise explain(error, address.label, f"queue {printable(options.queue)}") from None
            except ERRORS as error:
                raise explain(error, address.label) from None


def _parts(items: Sequence[str | bytes]) -> Iterator[list[str | bytes]]:
    """Split the items into parts for one command each."""
    part: list[str | bytes] = []
    size = 0
    for item in items:
        if part and (len(part) >= _PUSH_ITEMS or size + len(item) > _PUSH_BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += len(item)
    if part:
        yield part
