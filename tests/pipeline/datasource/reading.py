"""Reading without Spark between: what it would call, called in turn."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.types import StructType

from rsmq_tui.pipeline.datasource import RsmqDataSource
from rsmq_tui.pipeline.datasource.messages import MessageReader

Row = dict[str, Any]


def reader_of(
    url: str, *filters: Filter, columns: Sequence[str] | None = None, **options: object
) -> tuple[MessageReader, list[Filter]]:
    """A reader as Spark makes it, and the filters that are left to Spark."""
    source = RsmqDataSource({"url": url, "table": "messages", **{name: str(value) for name, value in options.items()}})
    schema = source.schema()
    if columns is not None:
        whole = RsmqDataSource({"url": url, "table": "messages", "bodies": "true"}).schema()
        schema = StructType([each for each in whole if each.name in columns])
    reader = source.reader(schema)
    assert isinstance(reader, MessageReader)
    return reader, reader.pushFilters(list(filters))


def rows_of(reader: MessageReader, partition: InputPartition) -> list[Row]:
    """The rows of one partition."""
    return [row for batch in reader.read(partition) for row in batch.to_pylist()]


def read(url: str, *filters: Filter, columns: Sequence[str] | None = None, **options: object) -> list[Row]:
    """All rows, of filters that all have to be taken on."""
    reader, left = reader_of(url, *filters, columns=columns, **options)
    assert not left
    return [row for partition in reader.partitions() for row in rows_of(reader, partition)]
