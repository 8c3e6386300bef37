"""The columns of the tables: named and meant as recorded history names and means them, wherever it has them."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from rsmq_tui.history.schema import COLUMNS, SAMPLES
from rsmq_tui.history.schema import MESSAGES as RECORDED_MESSAGES
from rsmq_tui.monitor.wording import printable
from rsmq_tui.pipeline.datasource.errors import SourceError
from rsmq_tui.pipeline.datasource.options import QUEUES, Options

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int64": LongType(),
    "double": DoubleType(),
    "bool": BooleanType(),
    "binary": BinaryType(),
    "list": ArrayType(StringType()),
}
_BODY_COLUMNS = ("size", "body")
_OUR_WORDS = {
    "state": "ready, in flight or delayed at the time of at_ms; of an item of a list also expired or no lease"
}
_MESSAGE_COLUMNS = (
    *("at_ms", "server", "ns", "queue", "id", "sent_ms", "due_ms", "rc", "fr_ms", "state"),
    *_BODY_COLUMNS,
)


def _recorded(table: str) -> dict[str, StructField]:
    return {
        column.name: StructField(
            column.name,
            _TYPES["list" if str(column.type).startswith("list") else str(column.type)],
            metadata={"comment": column.words},
        )
        for column in COLUMNS[table]
    }


_SAMPLE_FIELDS = _recorded(SAMPLES)
_MESSAGE_FIELDS = _recorded(RECORDED_MESSAGES) | {
    "state": StructField("state", StringType(), metadata={"comment": _OUR_WORDS["state"]})
}

SAMPLE_SCHEMA = StructType(list(_SAMPLE_FIELDS.values()))
MESSAGE_SCHEMA = StructType([_MESSAGE_FIELDS[name] for name in _MESSAGE_COLUMNS])


def schema_of(options: Options) -> StructType:
    """Return the columns of a table for which no schema was given."""
    if options.table == QUEUES:
        return SAMPLE_SCHEMA
    wanted = [each for each in MESSAGE_SCHEMA if options.bodies or each.name not in _BODY_COLUMNS]
    return StructType(wanted)


def check_columns(wanted: StructType, options: Options) -> None:
    """Raise ``SourceError`` where a schema that was given names columns or types that the table does not have."""
    table = options.table
    types = {each.name: each.dataType for each in (SAMPLE_SCHEMA if table == QUEUES else MESSAGE_SCHEMA)}
    for each in wanted:
        if each.name not in types:
            raise SourceError(f"the table {table} has no column {printable(each.name)}: it has {', '.join(types)}")
        if each.dataType != types[each.name]:
            column = f"{each.name} {types[each.name].simpleString()}"
            raise SourceError(f"{printable(each.dataType.simpleString())} is not what the table {table} has: {column}")
