"""Baselines: what is usual for a queue at an hour of the week, in local time, and the hours that were not.

Usual is the median of the hourly means at that hour of the week, and at the hours before and after it, in the last four
weeks; deviations are measured in median absolute deviations. One bad hour changes neither.

An hour is judged by the weeks before it, never by itself or by what came later. It is unusual if it is far from what is
usual then, and on the same side as far from the median of the 24 hours before it: a queue that is as it was since
yesterday is not unusual any more. The first ready message may be younger than usual, but not older.
"""

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ANOMALIES, BASELINE, USUAL_HOURS_MIN
from rsmq_tui.history.analysis.values import AGE
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.columns import conform
from rsmq_tui.pipeline.transforms.samples import QUEUE

SIGMAS_IN_MAD = 1.4826
"""The standard deviation of a normal distribution, in median absolute deviations."""

SHARE_OF_MEDIAN = 0.05
FLOORS = {"depth": 1.0, "oldest_ready_age_ms": 5_000.0, "arrivals_s": 0.01, "deletes_s": 0.01, "receives_s": 0.01}
"""The minimum deviation of each metric, besides that share of the median. Otherwise a queue that is the same each week
would be unusual as soon as it changes by one message."""

JUDGED_BY_DAYS = 30
"""The hours of so many days before a day decide which of its hours are unusual: four weeks, and changes of clocks."""

_HOUR_OF_WEEK, _LOCAL_HOUR, _ZONE = "hour_of_week", "local_hour", "zone"
_WEEK, _WEEKS, _NEAR = 168, 4, 1
# 1970 began on a Thursday.
_FIRST_HOUR_OF_WEEK = 72


def baseline(hours: DataFrame, settings: AnalysisSettings) -> DataFrame:
    """Return the table ``baseline``, from ``rollup_1h`` of all days: what is usual at the end of each queue's hours."""
    last = sf.max(_LOCAL_HOUR).over(Window.partitionBy(*QUEUE))
    known = _hourly_means(hours, settings).withColumn("last", last)
    recent = _spread(known.where(sf.col(_LOCAL_HOUR) > sf.col("last") - _reach()))
    values = {f"{metric}_usual": sf.collect_list(metric) for metric in FLOORS}
    usual = recent.groupBy(*QUEUE, _HOUR_OF_WEEK, _ZONE).agg(*(column.alias(name) for name, column in values.items()))
    return conform(_by_metric(usual, _HOUR_OF_WEEK, _ZONE).where(sf.col("hours") > 0), BASELINE)


def anomalies(hours: DataFrame, settings: AnalysisSettings) -> DataFrame:
    """Return the table ``anomalies``, from ``rollup_1h`` of all days: hours of the settings' score or more."""
    day = Window.partitionBy(*QUEUE).orderBy(sf.floor(sf.col("bucket_ms") / HOUR_MS)).rangeBetween(-24, -1)
    weeks = Window.partitionBy(*QUEUE, _HOUR_OF_WEEK).orderBy(_LOCAL_HOUR).rangeBetween(-_reach(), _NEAR - _WEEK)
    before = {f"{metric}_day": sf.collect_list(metric).over(day) for metric in FLOORS}
    usual = {f"{metric}_usual": sf.collect_list(metric).over(weeks) for metric in FLOORS}
    judged = _spread(_hourly_means(hours, settings).withColumns(before)).withColumns(usual).where("is_itself")
    found = _by_metric(judged, "bucket_ms").where(sf.col("value").isNotNull() & (sf.col("hours") >= USUAL_HOURS_MIN))
    floors = sf.create_map(*chain.from_iterable((sf.lit(metric), sf.lit(floor)) for metric, floor in FLOORS.items()))
    deviation = sf.greatest(sf.col("mad") * SIGMAS_IN_MAD, sf.abs("median") * SHARE_OF_MEDIAN, floors[sf.col("metric")])
    by_weeks = (sf.col("value") - sf.col("median")) / deviation
    by_day = sf.coalesce((sf.col("value") - _median("day")) / deviation, by_weeks)
    nearer = sf.when(sf.abs(by_day) < sf.abs(by_weeks), by_day).otherwise(by_weeks)
    score = sf.when(by_day * by_weeks > 0, nearer).otherwise(0.0)
    is_unusual = (sf.abs("score") >= settings.anomaly_score) & ((sf.col("metric") != AGE) | (sf.col("score") > 0))
    return conform(found.withColumn("score", score).where(is_unusual), ANOMALIES)


def _reach() -> int:
    return _WEEKS * _WEEK + _NEAR


def _hourly_means(hours: DataFrame, settings: AnalysisSettings) -> DataFrame:
    """Return the hourly means of the metrics; ``local_hour`` is the hours since 1970 on the clocks of ``zone``."""
    zone = _zone_of(settings.zones, settings.zone)
    # Types without a time zone: the session's own does not matter.
    epoch = sf.lit("1970-01-01").cast("timestamp_ntz")
    moment = epoch + sf.make_dt_interval(hours=sf.floor(sf.col("bucket_ms") / HOUR_MS).cast("int"))
    local = sf.convert_timezone(sf.lit("UTC"), zone, moment)
    return (
        hours.where(sf.col("queue").isNotNull())
        .select(*QUEUE, "bucket_ms", zone.alias(_ZONE), *(sf.col(f"{metric}_mean").alias(metric) for metric in FLOORS))
        .withColumn(_LOCAL_HOUR, sf.unix_date(local.cast("date")).cast("bigint") * 24 + sf.hour(local))
        .repartition(*QUEUE)
    )


def _zone_of(zones: Mapping[str, str], zone: str) -> Column:
    """Return the time zone of a row's profile."""
    found = sf.lit(zone)
    for profile, of_profile in zones.items():
        found = sf.when(sf.col("profile") == profile, of_profile).otherwise(found)
    return found


def _spread(known: DataFrame) -> DataFrame:
    """Return each hour once for its own hour of the week, ``is_itself``, and once for each one near it."""
    near = sf.explode(sf.sequence(sf.lit(-_NEAR), sf.lit(_NEAR)))
    hour_of_week = sf.pmod(sf.col(_LOCAL_HOUR) + sf.col("near") + _FIRST_HOUR_OF_WEEK, sf.lit(_WEEK))
    return known.withColumn("near", near).withColumns({_HOUR_OF_WEEK: hour_of_week, "is_itself": sf.col("near") == 0})


def _by_metric(rows: DataFrame, *names: str) -> DataFrame:
    """Return a row for each metric, with the median of its usual values and their deviation from it."""
    given = set(rows.columns)

    def of(metric: str) -> Column:
        columns = {"value": metric, "usual": f"{metric}_usual", "day": f"{metric}_day"}
        there = [sf.col(column).alias(name) for name, column in columns.items() if column in given]
        return sf.struct(sf.lit(metric).alias("metric"), *there)

    usual = rows.select(*QUEUE, *names, sf.inline(sf.array(*map(of, FLOORS)))).withColumns(
        {"hours": sf.size("usual"), "median": _median("usual")}
    )
    away = sf.transform("usual", lambda value: sf.abs(value - sf.col("median")))
    return usual.withColumn("away", away).withColumn("mad", _median("away"))


def _median(values: str) -> Column:
    """Return the median of an array; null if it is empty."""
    ordered, size = sf.sort_array(values), sf.size(values)
    return (sf.get(ordered, sf.floor((size - 1) / 2)) + sf.get(ordered, sf.floor(size / 2))) / 2
