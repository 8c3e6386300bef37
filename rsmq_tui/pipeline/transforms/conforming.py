"""The columns of each table of an analysis, as its schema promises them, and nothing else."""

from functools import cache

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import BY_DAY, SCHEMAS

DAY = "day"
"""The column in front of the tables that are kept by day: such as 2031-05-17, UTC."""

_NAMES = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}
_NAMES |= {pa.bool_(): "boolean"}


@cache
def columns_of(table: str) -> dict[str, str]:
    """Return the columns of a table in their order, each with Spark's name of its type; ``day`` first, if by day."""
    promised = {field.name: _name_of(field.type) for field in SCHEMAS[table]}
    return {DAY: "string", **promised} if table in BY_DAY else promised


def conform(df: DataFrame, table: str) -> DataFrame:
    """Return the columns that a table promises, in its order and of its types; raises where one is missing."""
    return df.select(*(sf.col(f"`{name}`").cast(kind).alias(name) for name, kind in columns_of(table).items()))


def _name_of(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_name_of(kind.value_type)}>"
    return _NAMES[kind]
