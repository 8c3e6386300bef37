"""Columns of the tables, and sentences made by column expressions."""

from functools import cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_type

from rsmq_tui.history.analysis.schema import BY_DAY, SCHEMAS
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.monitor.text import UNKNOWN

DAY = "day"
"""The first column of the tables that are kept by day, such as 2031-05-17, UTC."""


@cache
def columns_of(table: str) -> dict[str, str]:
    """Return the columns of a table in their order, each with Spark's name of its type; ``day`` first, if by day."""
    promised = {field.name: spark_type(field.type) for field in SCHEMAS[table]}
    return {DAY: "string", **promised} if table in BY_DAY else promised


def conform(df: DataFrame, table: str) -> DataFrame:
    """Return the columns of a table's schema, in its order and of its types; raises if one is missing."""
    # As text: each column expression costs several calls to Java.
    return df.selectExpr(*(f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in columns_of(table).items()))


def spark_type(kind: pa.DataType) -> str:
    """Return Spark's name of a type."""
    return from_arrow_type(kind).simpleString()


def joined(*parts: Column | str) -> Column:
    """Return a sentence of columns and literal text; null if a part is null."""
    return sf.concat(*(sf.lit(part) if isinstance(part, str) else part for part in parts))


# As in monitor/text: 9,999 years.
_CALENDAR_MS = 315_537_897_600_000


def count(number: Column) -> Column:
    """Format a number of messages, with thousands separators: 38,112."""
    return sf.coalesce(sf.format_number(number, 0), sf.lit(UNKNOWN))


def plural(number: Column, noun: str) -> Column:
    """Format a number with a noun: 1 message, 3 messages."""
    return sf.concat(count(number), sf.when(number == 1, f" {noun}").otherwise(f" {noun}s"))


def rate(per_s: Column) -> Column:
    """Format a rate: 3.4 below ten messages per second, 1,211 from there on."""
    return sf.when(per_s < 9.95, sf.format_number(per_s, 1)).otherwise(count(per_s))


def duration(ms: Column) -> Column:
    """Format a span of whole milliseconds in its two largest units, as ``monitor.text.duration`` does."""
    days, hours = _whole(ms, DAY_MS), _whole(ms % DAY_MS, HOUR_MS)
    minutes, seconds = _whole(ms % HOUR_MS, MINUTE_MS), _whole(ms % MINUTE_MS, 1000)
    return (
        sf.when(ms.isNull() | (ms > _CALENDAR_MS), UNKNOWN)
        .when(ms < 1000, sf.concat(sf.greatest(ms, sf.lit(0)).cast("string"), sf.lit(" ms")))
        .when(ms < MINUTE_MS, sf.concat(seconds, sf.lit(" s")))
        .when(ms < 10 * MINUTE_MS, sf.concat(minutes, sf.lit("m "), seconds, sf.lit("s")))
        .when(ms < HOUR_MS, sf.concat(minutes, sf.lit("m")))
        .when(ms < DAY_MS, sf.concat(hours, sf.lit("h "), minutes, sf.lit("m")))
        .when(ms < 1000 * DAY_MS, sf.concat(days, sf.lit("d "), hours, sf.lit("h")))
        .otherwise(sf.concat(sf.format_number(sf.floor(ms / DAY_MS), 0), sf.lit("d")))
    )


def _whole(ms: Column, unit_ms: int) -> Column:
    return sf.floor(ms / unit_ms).cast("string")


def rounded(value: Column) -> Column:
    """Round to an integer; null if it does not fit."""
    return sf.round(value).try_cast("bigint")
