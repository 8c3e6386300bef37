"""Shares, settings, rates and moments put into words, as column expressions."""

from pyspark.sql import Column
from pyspark.sql import functions as sf

from rsmq_tui.pipeline.transforms.inventories import day_name
from rsmq_tui.pipeline.transforms.samples import DAY_MS, MINUTE_MS
from rsmq_tui.pipeline.transforms.wording import count, duration


def joined(*parts: Column | str) -> Column:
    """Return a sentence made of columns and plain words; null where a part is."""
    return sf.concat(*(sf.lit(part) if isinstance(part, str) else part for part in parts))


def share(value: Column) -> Column:
    """Say a share of things: 12 %, less than 1 %, none."""
    return (
        sf.when(value <= 0, "none").when(value < 0.01, "less than 1 %").otherwise(joined(count(value * 100), " %"))
    )  # fmt: skip


def seconds(value: Column) -> Column:
    """Say a setting in seconds: 30 s, 15.5 s, 2h 0m."""
    number = sf.when(value == sf.floor(value), sf.floor(value).cast("string")).otherwise(
        sf.round(value, 3).cast("string")
    )  # fmt: skip
    return sf.when(value < 600, joined(number, " s")).when(value >= 600, duration(rounded(value * 1000)))


def rounded(value: Column) -> Column:
    """Return a number as a whole one; null where it does not fit into one."""
    return sf.round(value).try_cast("bigint")


def per_hour(value: Column) -> Column:
    """Say a number of messages that come in an hour: 1,204/h, or 3.4/h where they are few."""
    return joined(sf.when(value < 10, sf.format_number(value, 1)).otherwise(count(value)), "/h")


def minute(at_ms: Column) -> Column:
    """Say a moment to the minute: 2031-05-17 21:50 UTC, whatever the session's time zone."""
    minutes = sf.floor(sf.pmod(at_ms, sf.lit(DAY_MS)) / MINUTE_MS)
    clock = sf.format_string("%02d:%02d", sf.floor(minutes / 60), sf.pmod(minutes, sf.lit(60)))
    return joined(day_name(sf.floor(at_ms / DAY_MS)), " ", clock, " UTC")
