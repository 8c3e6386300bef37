"""The table ``queues``: the state of every queue of a namespace now, as one poll finds it."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, suppress
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rsmq_tui.history.place import Place
from rsmq_tui.history.rows import SampleRows
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.monitor.wording import printable
from rsmq_tui.pipeline.datasource.bridge import opened_poller
from rsmq_tui.pipeline.datasource.errors import ERRORS, SourceError
from rsmq_tui.pipeline.datasource.options import Options


class QueueTableReader(DataSourceReader):
    """Reads the state of all queues, or of one, in one task: a poll of thousands takes some ms.

    What a verdict needs time to tell, such as growing, shows in a stream of polls, not in one.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a row for each queue; raises ``SourceError``."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        snapshot = asyncio.run(_polled(self._options))
        options = self._options
        rows = SampleRows(uuid4().hex[:12], place_of(options, snapshot))
        queues = snapshot.queues
        if options.queue is not None:
            queues = tuple(queue for queue in queues if queue.name == options.queue)
            if not queues:
                raise SourceError(
                    f"no queue {printable(options.queue)} in namespace {printable(options.ns)} of {snapshot.server}"
                )
        # The last row is that of the whole place.
        yield fitted(rows.polled(queues, snapshot.at_ms, None), schema).slice(0, len(queues))


async def _polled(options: Options) -> Snapshot:
    async with aclosing(opened_poller(options)) as poller:
        if isinstance(poller, ListPoller):
            # A server that cannot be read is told by the poll.
            with suppress(*ERRORS):
                await poller.discover()
        snapshot = await poller.poll()
    failure = snapshot.link.failure
    if failure is not None:
        raise SourceError(f"{snapshot.server}: {failure.sentence}; {failure.hint}")
    if snapshot.notes and not snapshot.queues:
        raise SourceError(snapshot.notes[0])
    return snapshot


def place_of(options: Options, snapshot: Snapshot) -> Place:
    """Return the place that the rows of a snapshot tell of."""
    return Place(options.server.profile, snapshot.server, options.ns)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return those columns of recorded rows that a schema names, exactly as Spark types them."""
    return pa.RecordBatch.from_arrays([batch.column(each.name).cast(each.type) for each in schema], schema=schema)


__all__ = ["QueueTableReader", "fitted", "place_of"]
