"""Numbers and spans in sentences that are made by column expressions: the twin of ``rsmq_tui.monitor.wording``."""

from pyspark.sql import Column
from pyspark.sql import functions as sf

from rsmq_tui.monitor.wording import UNKNOWN

# As in monitor/wording: 9,999 years.
_CALENDAR_MS = 315_537_897_600_000
_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1000, 60_000, 3_600_000, 86_400_000


def count(number: Column) -> Column:
    """Say a number of messages, with thousands separators: 38,112."""
    return sf.coalesce(sf.format_number(number, 0), sf.lit(UNKNOWN))


def plural(number: Column, noun: str) -> Column:
    """Say a number of things: 1 message, 3 messages."""
    return sf.concat(count(number), sf.when(number == 1, f" {noun}").otherwise(f" {noun}s"))


def rate(per_s: Column) -> Column:
    """Say a rate: 3.4 below ten messages a second, 1,211 from there on."""
    return sf.when(per_s < 10, sf.format_number(per_s, 1)).otherwise(count(per_s))


def duration(ms: Column) -> Column:
    """Say a span of whole milliseconds in its two largest units, as ``monitor.wording.duration`` does."""
    days, hours = _whole(ms, _DAY_MS), _whole(ms % _DAY_MS, _HOUR_MS)
    minutes, seconds = _whole(ms % _HOUR_MS, _MINUTE_MS), _whole(ms % _MINUTE_MS, _SECOND_MS)
    return (
        sf.when(ms.isNull() | (ms > _CALENDAR_MS), UNKNOWN)
        .when(ms < _SECOND_MS, sf.concat(sf.greatest(ms, sf.lit(0)).cast("string"), sf.lit(" ms")))
        .when(ms < _MINUTE_MS, sf.concat(seconds, sf.lit(" s")))
        .when(ms < 10 * _MINUTE_MS, sf.concat(minutes, sf.lit("m "), seconds, sf.lit("s")))
        .when(ms < _HOUR_MS, sf.concat(minutes, sf.lit("m")))
        .when(ms < _DAY_MS, sf.concat(hours, sf.lit("h "), minutes, sf.lit("m")))
        .when(ms < 1000 * _DAY_MS, sf.concat(days, sf.lit("d "), hours, sf.lit("h")))
        .otherwise(sf.concat(sf.format_number(sf.floor(ms / _DAY_MS), 0), sf.lit("d")))
    )


def _whole(ms: Column, unit_ms: int) -> Column:
    return sf.floor(ms / unit_ms).cast("string")
