"""Forecasts: a least-squares line through the last hours of a queue says when it reaches its limit.

It counts as growth if a one-sided t-test of the correlation gives less than 5 %, so a queue that only fluctuates, or
jumped once, does not grow.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import FORECAST
from rsmq_tui.history.analysis.values import AGE
from rsmq_tui.history.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.monitor import text
from rsmq_tui.pipeline.state import Settings
from rsmq_tui.pipeline.transforms.columns import conform, count, duration, joined, rounded
from rsmq_tui.pipeline.transforms.inventories import day_name
from rsmq_tui.pipeline.transforms.samples import PLACE, QUEUE

DEPTH = "depth"

HOURS = 6
"""The number of hours that the trend is computed from, if they are known."""

R2_MIN = {3: 0.9755, 4: 0.810, 5: 0.649, 6: 0.532}
"""The minimum share of the variance that the line explains, by the number of known hours; fewer hours give no trend."""

GROWTH_MIN_H = {DEPTH: 0.1, AGE: 1_000.0}
"""Slower growth, per hour, does not count as growth."""

HORIZON_MS = 365 * 24 * HOUR_MS
"""Limits that are reached later are not forecast."""


def forecast(hours: DataFrame, settings: Settings) -> DataFrame:
    """Return the table ``forecast``, from ``rollup_1h`` of all days.

    It has the queues that existed in the last hour of their place, or in the one before. Times are relative to the last
    sample: the mean of an hour counts for the middle between the hour's start and its last sample.
    """
    limits = {DEPTH: settings.depth_limit, AGE: settings.age_limit_ms}
    trends = _trends(_series(hours, {metric: limit for metric, limit in limits.items() if limit is not None}))
    is_age = sf.col("metric") == AGE
    grows = (sf.col("slope_h") >= sf.when(is_age, GROWTH_MIN_H[AGE]).otherwise(GROWTH_MIN_H[DEPTH])) & (
        sf.col("r2") >= sf.lit([R2_MIN.get(hours, 1.0) for hours in range(HOURS + 1)])[sf.col("hours").cast("int")]
    )
    left_ms = (sf.col("limit") - sf.col("intercept")) / sf.col("slope_h") * HOUR_MS
    # The line may cross the limit before the last sample does.
    reaches_ms = sf.greatest(sf.col("at_ms") + rounded(left_ms), sf.col("now_ms"))
    found = trends.withColumns(
        {
            "is_over": sf.col("value") >= sf.col("limit"),
            "grows": grows,
            "line_ms": sf.when(grows & (left_ms < HORIZON_MS), reaches_ms),
            "slope_s": sf.col("slope_h") / (HOUR_MS / 1000),
            "slope_ms": rounded(sf.col("slope_h")),
        }
    )
    reaches = sf.when(sf.col("is_over"), sf.col("since_ms")).otherwise(sf.col("line_ms"))
    return conform(found.withColumns({"reaches_ms": reaches, "told": _forecast_text()}), FORECAST)


def _series(hours: DataFrame, limits: dict[str, int]) -> DataFrame:
    """Return the hourly means of each metric with a limit, and aggregates over all hours of a queue."""
    of_queue = Window.partitionBy(*QUEUE)
    queues = hours.where(sf.col("queue").isNotNull())
    # A row for each place, of which a history has thousands at most.
    newest = queues.groupBy(*PLACE).agg(sf.max("bucket_ms").alias("newest_ms"))
    bucket = sf.col("bucket_ms")

    def fields_of(metric: str) -> Column:
        mean = sf.col(f"{metric}_mean")
        fields = {
            "metric": sf.lit(metric),
            "value": mean,
            "limit": sf.lit(float(limits[metric])),
            "amount": sf.lit(_amount(metric, limits[metric])),
            "below_ms": sf.col(f"{metric}_below_ms"),
        }
        return sf.struct(*(field.alias(name) for name, field in fields.items()))

    below = {
        f"{metric}_below_ms": sf.max(sf.when(sf.col(f"{metric}_mean") < limit, bucket)).over(of_queue)
        for metric, limit in limits.items()
    }
    return (
        queues.withColumns(
            {"at_ms": sf.max(bucket).over(of_queue), "now_ms": sf.max("last_ms").over(of_queue), **below}
        )
        .join(sf.broadcast(newest), on=list(PLACE))
        .where(sf.col("at_ms") >= sf.col("newest_ms") - HOUR_MS)
        .select(*QUEUE, "bucket_ms", "last_ms", "at_ms", "now_ms", sf.inline(sf.array(*map(fields_of, limits))))
    )


def _trends(series: DataFrame) -> DataFrame:
    """Return the line through the last hours of each queue and metric, in hours from ``at_ms`` on."""
    bucket, at_ms, value = sf.col("bucket_ms"), sf.col("at_ms"), sf.col("value")
    last_ms = sf.coalesce("last_ms", bucket + HOUR_MS)
    y = sf.when(bucket > at_ms - HOURS * HOUR_MS, value)
    x = ((bucket - at_ms) / 2 + (last_ms - at_ms) / 2) / HOUR_MS
    is_over = (value >= sf.col("limit")) & (sf.col("below_ms").isNull() | (bucket > sf.col("below_ms")))
    return (
        series.groupBy(*QUEUE, "metric", "limit", "amount", "at_ms", "now_ms")
        .agg(
            sf.count(y).alias("hours"),
            sf.max(sf.when(bucket == at_ms, value)).alias("value"),
            sf.regr_slope(y, x).alias("slope_h"),
            sf.regr_intercept(y, x).alias("intercept"),
            sf.regr_r2(y, x).alias("r2"),
            sf.min(sf.when(is_over, bucket)).alias("since_ms"),
        )
        .where(sf.col("value").isNotNull() & (sf.col("hours") >= min(R2_MIN)))
    )


def _forecast_text() -> Column:
    line_ms, now_ms, amount = sf.col("line_ms"), sf.col("now_ms"), sf.col("amount")
    is_age = sf.col("metric") == AGE
    speed = sf.when(is_age, joined(duration(sf.col("slope_ms")), "/h")).otherwise(per_hour(sf.col("slope_h")))
    there = sf.when(is_age, joined("an age of ", amount)).otherwise(amount)
    course = (
        sf.when(line_ms.isNull(), joined("does not reach ", there, " within a year"))
        .when(line_ms <= now_ms, joined("is about to reach ", there))
        .otherwise(joined("reaches ", there, " in ", duration(line_ms - now_ms), " (", minute(line_ms), ")"))
    )
    return (
        sf.when(sf.col("is_over"), joined("over the limit of ", amount, " since ", minute(sf.col("since_ms"))))
        .when(sf.col("grows"), joined("at +", speed, " it ", course))
        .otherwise(sf.lit("does not grow"))
    )


def _amount(metric: str, limit: int) -> str:
    return text.duration(limit) if metric == AGE else text.plural(limit, "message")


def per_hour(value: Column) -> Column:
    """Format a number of messages per hour: 1,204/h, or 3.4/h for small ones."""
    return joined(sf.when(value < 10, sf.format_number(value, 1)).otherwise(count(value)), "/h")


def minute(at_ms: Column) -> Column:
    """Format a moment to the minute: 2031-05-17 21:50 UTC, whatever the session's time zone."""
    minutes = sf.floor(sf.pmod(at_ms, sf.lit(DAY_MS)) / MINUTE_MS)
    clock = sf.format_string("%02d:%02d", sf.floor(minutes / 60), sf.pmod(minutes, sf.lit(60)))
    return joined(day_name(sf.floor(at_ms / DAY_MS)), " ", clock, " UTC")
