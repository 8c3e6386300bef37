"""The data source itself: what Spark makes of ``format("rsmq")``."""

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import StructType

from rsmq_tui.pipeline.datasource.errors import SourceError, briefly
from rsmq_tui.pipeline.datasource.list_messages import ListMessageReader
from rsmq_tui.pipeline.datasource.list_writing import ListWriter
from rsmq_tui.pipeline.datasource.messages import MessageReader
from rsmq_tui.pipeline.datasource.options import LIST, QUEUES, read_options
from rsmq_tui.pipeline.datasource.queues import QueueTableReader
from rsmq_tui.pipeline.datasource.schema import check_columns, schema_of
from rsmq_tui.pipeline.datasource.streaming import SampleStreamReader
from rsmq_tui.pipeline.datasource.writing import QueueWriter


class RsmqDataSource(DataSource):
    """Queues as tables, as a stream of samples, and as a place to write to; see ``options`` for what may be said."""

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
        """Return what reads a table; raises ``SourceError``."""
        options = read_options(self.options)
        check_columns(schema, options)
        if options.table == QUEUES:
            return QueueTableReader(options, schema)
        return ListMessageReader(options, schema) if options.kind == LIST else MessageReader(options, schema)

    @briefly
    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what polls the queues, again and again; raises ``SourceError``."""
        options = read_options(self.options)
        if options.table != QUEUES:
            raise SourceError("a stream reads samples: leave option table out, or set it to queues")
        check_columns(schema, options)
        return SampleStreamReader(options, schema)

    @briefly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what sends rows; raises ``SourceError``."""
        if overwrite:
            raise SourceError('a queue cannot be overwritten, only appended to: use mode("append")')
        options = read_options(self.options)
        return ListWriter(options, schema) if options.kind == LIST else QueueWriter(options, schema)

    @briefly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Raise ``SourceError``: streams are written batch by batch."""
        raise SourceError('use foreachBatch to write a stream: lambda rows, _: rows.write.format("rsmq")…save()')


def register(spark: SparkSession) -> None:
    """Make the format known to a session, and let Spark push filters down to sources written in Python."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(RsmqDataSource)
