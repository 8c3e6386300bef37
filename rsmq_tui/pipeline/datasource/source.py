"""The data source class, the schemas of its tables, and the table ``queues``, also as a stream."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    StringType,
    StructField,
    StructType,
)

from rsmq_tui.history.names import Place
from rsmq_tui.history.rows import SampleRows
from rsmq_tui.history.schema import COLUMNS, SAMPLES
from rsmq_tui.history.schema import MESSAGES as RECORDED_MESSAGES
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.list_poller import SEARCH_EVERY_S, ListPoller
from rsmq_tui.monitor.text import printable
from rsmq_tui.pipeline.datasource.lists import ListMessageReader, ListWriter
from rsmq_tui.pipeline.datasource.messages import MessageReader
from rsmq_tui.pipeline.datasource.options import (
    ERRORS,
    QUEUES,
    SourceError,
    SourceOptions,
    briefly,
    opened_poller,
    read_options,
)
from rsmq_tui.pipeline.datasource.writing import QueueWriter
from rsmq_tui.protocol.kinds import LIST, RSMQ

_BODY_COLUMNS = ("size", "body")
_STATE_WORDS = "ready, in flight or delayed at the time of at_ms; of an item of a list also expired or no lease"
_MESSAGE_COLUMNS = (
    *("at_ms", "server", "ns", "queue", "id", "sent_ms", "due_ms", "rc", "fr_ms", "state"),
    *_BODY_COLUMNS,
)


def _recorded(table: str) -> dict[str, StructField]:
    return {
        column.name: StructField(column.name, from_arrow_type(column.type), metadata={"comment": column.words})
        for column in COLUMNS[table]
    }


_SAMPLE_FIELDS = _recorded(SAMPLES)
_STATE = StructField("state", StringType(), metadata={"comment": _STATE_WORDS})
_MESSAGE_FIELDS = {**_recorded(RECORDED_MESSAGES), "state": _STATE}

SAMPLE_SCHEMA = StructType(list(_SAMPLE_FIELDS.values()))
MESSAGE_SCHEMA = StructType([_MESSAGE_FIELDS[name] for name in _MESSAGE_COLUMNS])


def schema_of(options: SourceOptions) -> StructType:
    """Return the default schema of a table."""
    if options.table == QUEUES:
        return SAMPLE_SCHEMA
    wanted = [each for each in MESSAGE_SCHEMA if options.bodies or each.name not in _BODY_COLUMNS]
    return StructType(wanted)


def check_columns(wanted: StructType, options: SourceOptions) -> None:
    """Raise ``SourceError`` if a schema that was given names columns or types that the table does not have."""
    table = options.table
    types = {each.name: each.dataType for each in (SAMPLE_SCHEMA if table == QUEUES else MESSAGE_SCHEMA)}
    for each in wanted:
        if each.name not in types:
            raise SourceError(f"the table {table} has no column {printable(each.name)}: it has {', '.join(types)}")
        if each.dataType != types[each.name]:
            column = f"{each.name} {types[each.name].simpleString()}"
            raise SourceError(f"{printable(each.dataType.simpleString())} is not what the table {table} has: {column}")


class QueueTableReader(DataSourceReader):
    """Reads the state of all queues, or of one, in one task: a poll of thousands takes some ms.

    Verdicts that need several polls, such as growing, appear only in a stream.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a row for each queue; raises ``SourceError``."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        options = self._options
        with closing(_Polls(options)) as polls:
            snapshot = polls.check()
        if snapshot.notes and not snapshot.queues:
            raise SourceError(snapshot.notes[0])
        rows = SampleRows(uuid4().hex[:12], place_of(options, snapshot))
        queues = snapshot.queues
        if options.queue is not None:
            queues = tuple(queue for queue in queues if queue.name == options.queue)
            if not queues:
                raise SourceError(
                    f"no queue {printable(options.queue)} in namespace {printable(options.ns)} of {snapshot.server}"
                )
        # The last row is that of the poll itself.
        yield fitted(rows.polled(queues, snapshot.at_ms, None), schema).slice(0, len(queues))


def place_of(options: SourceOptions, snapshot: Snapshot) -> Place:
    """Return the place of a snapshot's rows."""
    return Place(options.server.profile, snapshot.server, options.ns)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of recorded rows that a schema names, with exactly Spark's types."""
    return pa.RecordBatch.from_arrays([batch.column(each.name).cast(each.type) for each in schema], schema=schema)


# A trigger that is early by at most this share of the interval waits for the poll.
_EARLY = 0.1

_Offset = dict[str, Any]


class SampleStreamReader(SimpleDataSourceStreamReader):
    """Polls at a trigger if ``every_s`` has passed, and yields a row for each queue and poll.

    As in a recorded history, each poll has one row without a queue, which says whether the poll failed.

    The offset counts polls. An earlier state cannot be read again: if Spark is stopped before a planned batch is
    finished, its rows are lost, and ``interval_ms`` is null after this gap. So each row is delivered at most once. If
    the server does not answer when a query first starts, the query fails; later that is an outage.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        # Created where the polls run: Spark also copies this object to other processes.
        self._polls: _Polls | None = None

    @briefly
    def initialOffset(self) -> _Offset:  # noqa: N802 - Spark's name
        """Return the offset before the first poll; raises ``SourceError`` if there is nothing to poll."""
        self._polls = self._polls or _Polls(self._options)
        try:
            self._polls.check()
        except SourceError:
            self.close()
            raise
        return {"polls": 0, "at_ms": 0}

    def read(self, start: _Offset) -> tuple[Iterator[Any], _Offset]:
        """Poll, if it is time, and return the rows and the offset behind them."""
        self._polls = self._polls or _Polls(self._options)
        if not self._polls.is_due():
            return iter(()), start
        rows, at_ms = self._polls.poll()
        batch = fitted(rows, to_arrow_schema(self._schema, timezone="UTC"))
        return iter([batch]), {"polls": start["polls"] + 1, "at_ms": at_ms}

    def readBetweenOffsets(self, start: _Offset, end: _Offset) -> Iterator[Any]:  # noqa: N802 - Spark's name
        """Return nothing: polls before a restart cannot be repeated."""
        return iter(())

    def close(self) -> None:
        """Close the connections; Spark does not call it, but ends the process."""
        if self._polls is not None:
            self._polls.close()


class _Polls:
    """The polls of one run of a query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._poller = opened_poller(options, interval_s=options.every_s)
        # After the options are known to be valid: it holds sockets from now on.
        self._runner = asyncio.Runner()
        # Not its run(): CPython makes a text of its handler of SIGINT, with all queues of the poll that it returns.
        self._run = self._runner.get_loop().run_until_complete
        self._searched_s = -SEARCH_EVERY_S
        self._recorder = uuid4().hex[:12]
        self._rows: SampleRows | None = None
        self._polled_s: float | None = None

    def check(self) -> Snapshot:
        """Poll once; raises ``SourceError`` if the server cannot be read."""
        snapshot = self._polled()
        failure = snapshot.connection.failure
        if failure is not None:
            raise SourceError(printable(f"{snapshot.server}: {failure.words}"))
        return snapshot

    def close(self) -> None:
        """Close the connections."""
        self._run(self._poller.aclose())
        self._runner.close()

    def is_due(self) -> bool:
        """Return whether it is time for a poll; when it nearly is, wait until then."""
        if self._polled_s is None:
            return True
        every_s = self._options.every_s
        rest_s = self._polled_s + every_s - time.monotonic()
        if rest_s > _EARLY * every_s:
            return False
        time.sleep(max(0.0, rest_s))
        return True

    def poll(self) -> tuple[pa.RecordBatch, int]:
        """Poll, and return the rows and the server's time."""
        self._polled_s = time.monotonic()
        snapshot = self._polled()
        wall_ms = now_ms()
        if self._rows is None:
            self._rows = SampleRows(self._recorder, place_of(self._options, snapshot))
        name = self._options.queue
        wanted = tuple(queue for queue in snapshot.queues if name is None or queue.name == name)
        return self._rows.taken(snapshot, wall_ms, wanted)

    def _polled(self) -> Snapshot:
        """Poll, after a search for lists if that is due."""
        if isinstance(self._poller, ListPoller) and time.monotonic() - self._searched_s >= SEARCH_EVERY_S:
            # The poll reports a server that cannot be read.
            with suppress(*ERRORS):
                self._run(self._poller.discover())
                self._searched_s = time.monotonic()
        return self._run(self._poller.poll())


# The reader of messages and the writer for each kind of queue.
_OF_KIND: dict[str, tuple[Callable[[SourceOptions, StructType], DataSourceReader], Callable[..., DataSourceWriter]]] = {
    RSMQ.name: (MessageReader, QueueWriter),
    LIST.name: (ListMessageReader, ListWriter),
}


class RsmqDataSource(DataSource):
    """The data source ``rsmq``: reads queues as tables or streams, and writes to them; see ``SourceOptions``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rsmq"

    @briefly
    def schema(self) -> StructType:
        """Return the columns of the table that the options name; raises ``SourceError``."""
        return schema_of(read_options(self.options))

    @briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a table; raises ``SourceError``."""
        options = read_options(self.options)
        check_columns(schema, options)
        if options.table == QUEUES:
            return QueueTableReader(options, schema)
        return _OF_KIND[options.kind][0](options, schema)

    @briefly
    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader that polls the queues; raises ``SourceError``."""
        options = read_options(self.options)
        if options.table != QUEUES:
            raise SourceError("a stream reads samples: leave option table out, or set it to queues")
        check_columns(schema, options)
        return SampleStreamReader(options, schema)

    @briefly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer; raises ``SourceError``."""
        if overwrite:
            raise SourceError('a queue cannot be overwritten, only appended to: use mode("append")')
        options = read_options(self.options)
        return _OF_KIND[options.kind][1](options, schema)

    @briefly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Raise ``SourceError``: streams are written batch by batch."""
        raise SourceError('use foreachBatch to write a stream: lambda rows, _: rows.write.format("rsmq")…save()')


def register(spark: SparkSession) -> None:
    """Register the format with a session, and enable filter pushdown for Python data sources.

    Without PYSPARK_PYTHON, Spark starts its workers with the first python3 of the PATH. A local session starts them
    with this Python instead, which has rsmq_tui; nodes of a cluster may not have it at this path.
    """
    with suppress(PySparkException):
        # A session of Spark Connect has no context.
        context = spark.sparkContext
        if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(RsmqDataSource)
