"""Pushing rows to list queues: at least once, in batches."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rsmq_tui.monitor.wording import SENTENCE_MAX, plural, printable
from rsmq_tui.pipeline.datasource.errors import ERRORS, SourceError, briefly, told
from rsmq_tui.pipeline.datasource.options import NEW, Options
from rsmq_tui.pipeline.datasource.outgoing import check_written, outgoing_rows
from rsmq_tui.pipeline.datasource.writing import Written, check_all_sent
from rsmq_tui.protocol import RsmqError, connect, name_bytes
from rsmq_tui.protocol.lists.client import ListQueue

_PUSH_ITEMS = 500
_PUSH_BYTES = 1 << 20


class ListWriter(DataSourceArrowWriter):
    """Pushes rows: the column ``body``, and where there is such a column to the row's ``queue``, the key of a list.

    Each row is pushed at least once, at the end that consumers do not take from: a task that fails midway is run again
    from its first row. Rows of a partition keep their order. A list that is not there comes into being; a row for a key
    of another type is refused, and the write fails when all others are pushed. Lists delay nothing and keep no ids.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
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
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Push the rows of one partition; raises ``SourceError``."""
        done = Written("")
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
                raise told(error, address.label, f"this task had pushed {sent}") from None
        return done

    @briefly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raise ``SourceError`` where rows could not be pushed."""
        check_all_sent([message for message in messages if isinstance(message, Written)])

    def _push(self, queue: ListQueue, items: Sequence[str | bytes], done: Written) -> None:
        for part in _parts(items):
            try:
                queue.push(*part)
            except RsmqError as error:
                done.refuse(len(part), printable(f"queue {queue.key}: {error}", SENTENCE_MAX))
            else:
                done.sent += len(part)

    def _check_server(self) -> None:
        """Find out before any task is started whether there is a server, and nothing else at the list's key."""
        options = self._options
        address = options.server.address()
        with connect(address, options.ns) as client:
            try:
                ListQueue(client, name_bytes(options.queue or "queue"), names=options.list_names).length()
            except RsmqError as error:
                if options.queue is not None:
                    raise told(error, address.label, f"queue {printable(options.queue)}") from None
            except ERRORS as error:
                raise told(error, address.label) from None


def _parts(items: Sequence[str | bytes]) -> Iterator[list[str | bytes]]:
    """Yield as much as one command should take."""
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
