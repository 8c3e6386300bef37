"""Forecasts: when a growing queue reaches its limit, by least-squares lines through its last hours and its last days.

A line counts as growth if a one-sided t-test of the correlation gives less than 5 %, if no step has most of the growth,
and if the last three steps grow too: a queue that only fluctuates, jumped once, or has stopped growing does not grow.

The hours find growth that began lately. Many queues fill up every day, or every Monday: growth is usual, and reaches no
limit, if the queue grew about as fast a day or a week before, was about as full, and did not reach the limit since. The
days find slow growth, which is less than the noise of some hours. As the days of a week differ, the last one must also
exceed the same day of the week before by at least what the queue gains in a day. The gain is added to each hour of the
last day: the limit is reached at the time of the day at which the queue is fullest.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import FORECAST
from rsmq_tui.history.analysis.values import AGE
from rsmq_tui.monitor import text
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.columns import conform, count, duration, joined, rounded
from rsmq_tui.pipeline.transforms.inventories import day_name
from rsmq_tui.pipeline.transforms.samples import PLACE, QUEUE

DEPTH = "depth"

STEPS = 6
"""The number of hours, and of days, that a line is computed from, if they are known."""

R2_MIN = {3: 0.9755, 4: 0.810, 5: 0.649, 6: 0.532}
"""The minimum share of the variance that a line explains, by the number of known steps; fewer steps give no line."""

LATE_STEPS, LATE_SHARE = 3, 0.25
"""The last steps must grow by at least that share of the growth of all."""

STEP_SHARE = 0.6
"""A step that has more of the growth is a jump."""

GROWTH_MIN_H = {DEPTH: 0.1, AGE: 1_000.0}
"""Slower growth, per hour, does not count as growth."""

USUAL_FACTOR = 2.0
"""Growth is more than that of another time if it is so many times as fast."""

DAY_HOURS_MIN = 20
"""The minimum number of known hours of a day."""

HORIZON_MS = 365 * 24 * HOUR_MS
"""Limits that are reached later are not forecast."""

_DAY, _WEEK = 24, 168
_KEYS = (*QUEUE, "metric", "limit", "amount", "at_ms", "now_ms")


def forecast(hours: DataFrame, settings: AnalysisSettings) -> DataFrame:
    """Return the table ``forecast``, from ``rollup_1h`` of all days.

    It has the queues that existed in the last hour of their place, or in the one before. Times are relative to the last
    sample: the mean of an hour counts for the middle between the hour's start and its last sample. Days end with the
    last hour.
    """
    limits = {DEPTH: settings.depth_limit, AGE: settings.age_limit_ms}
    series = _series(hours, {metric: limit for metric, limit in limits.items() if limit is not None})
    trends = _by_hours(series).join(_by_days(series), list(_KEYS), "left")
    is_usual = (_was_so("day") | _was_so("week")) & (sf.col("peak") < sf.col("limit"))
    is_more = sf.col("days_last") - sf.col("days_before") >= sf.col("days_slope")
    grows_by_days = _grows("days", _DAY) & sf.col("days_last").isNotNull() & sf.coalesce(is_more, sf.lit(True))
    is_faster = ~grows_by_days | (sf.col("hours_slope") * _DAY >= USUAL_FACTOR * sf.col("days_slope"))
    found = (
        trends.withColumns({"is_usual": _grows("hours") & is_usual, "grows_by_days": grows_by_days})
        .withColumn("grows_by_hours", _grows("hours") & ~is_usual & is_faster)
        .withColumn(
            "line_ms",
            sf.when(sf.col("grows_by_hours"), _line_ms()).when(sf.col("grows_by_days"), _days_line_ms()),
        )
    )
    is_by_days = sf.col("grows_by_days") & ~sf.col("grows_by_hours")
    # The line may cross the limit before the last sample does.
    line_ms = sf.when(
        sf.col("line_ms") < sf.col("at_ms") + HORIZON_MS, sf.greatest(rounded(sf.col("line_ms")), sf.col("now_ms"))
    )
    described = found.withColumns(
        {
            "is_over": sf.col("value") >= sf.col("limit"),
            "is_by_days": is_by_days,
            "line_ms": line_ms,
            "hours": sf.when(is_by_days, sf.col("days_known") * _DAY).otherwise(sf.col("hours_known")),
            "slope_s": sf.when(is_by_days, sf.col("days_slope") / _DAY).otherwise(sf.col("hours_slope"))
            / (HOUR_MS / 1000),
        }
    )
    reaches = sf.when(sf.col("is_over"), sf.col("since_ms")).otherwise(sf.col("line_ms"))
    return conform(described.withColumns({"reaches_ms": reaches, "told": _forecast_text()}), FORECAST)


def _series(hours: DataFrame, limits: dict[str, int]) -> DataFrame:
    """Return the hourly means of each metric with a limit, and aggregates over all hours of a queue.

    ``back`` is the number of hours until the last one, ``x`` the time of the mean, in hours from ``at_ms`` on.
    """
    of_queue = Window.partitionBy(*QUEUE)
    queues = hours.where(sf.col("queue").isNotNull())
    # A row for each place, of which a history has thousands at most.
    newest = queues.groupBy(*PLACE).agg(sf.max("bucket_ms").alias("newest_ms"))
    bucket, at_ms = sf.col("bucket_ms"), sf.col("at_ms")
    last_ms = sf.coalesce("last_ms", bucket + HOUR_MS)

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
        .where(at_ms >= sf.col("newest_ms") - HOUR_MS)
        .withColumns(
            {
                "back": sf.floor((at_ms - bucket) / HOUR_MS),
                "x": ((bucket - at_ms) / 2 + (last_ms - at_ms) / 2) / HOUR_MS,
            }
        )
        .select(*QUEUE, "bucket_ms", "at_ms", "now_ms", "back", "x", sf.inline(sf.array(*map(fields_of, limits))))
    )


def _by_hours(series: DataFrame) -> DataFrame:
    """Return the line through the last hours, what the same hours were a day and a week before, and the last day."""
    bucket, value, back = sf.col("bucket_ms"), sf.col("value"), sf.col("back")
    is_over = (value >= sf.col("limit")) & (sf.col("below_ms").isNull() | (bucket > sf.col("below_ms")))
    before = {"day": _DAY, "week": _WEEK}
    return (
        series.groupBy(*_KEYS)
        .agg(
            *_line("hours"),
            *(sf.regr_slope(_within(ago), sf.col("x")).alias(f"{name}_slope") for name, ago in before.items()),
            *(sf.mean(_within(ago)).alias(f"{name}_mean") for name, ago in before.items()),
            sf.max(sf.when(back == 0, value)).alias("value"),
            sf.max(sf.when(back < _WEEK, value)).alias("peak"),
            sf.min(sf.when(is_over, bucket)).alias("since_ms"),
            sf.collect_list(
                sf.when((back < _DAY) & value.isNotNull(), sf.struct(bucket.alias("bucket_ms"), value.alias("value")))
            ).alias("last_day"),
        )
        .where(sf.col("value").isNotNull() & (sf.col("hours_known") >= min(R2_MIN)))
    )


def _by_days(series: DataFrame) -> DataFrame:
    """Return the line through the means of the last days, and ``days_before``, the mean of the day a week before."""
    days = (
        series.where(sf.col("back") < _WEEK + _DAY)
        .groupBy(*_KEYS, sf.floor(sf.col("back") / _DAY).alias("back"))
        .agg(
            sf.mean("value").alias("value"),
            (sf.mean(sf.when(sf.col("value").isNotNull(), sf.col("x"))) / _DAY).alias("x"),
            sf.count("value").alias("known"),
        )
        .where(sf.col("known") >= DAY_HOURS_MIN)
    )
    last, before = (sf.max(sf.when(sf.col("back") == back, sf.col("value"))) for back in (0, _WEEK // _DAY))
    return days.groupBy(*_KEYS).agg(*_line("days"), last.alias("days_last"), before.alias("days_before"))


def _within(ago: int, steps: int = STEPS) -> Column:
    """Return the value of a step if it is one of the last, at a time so many steps ago; otherwise null."""
    return sf.when(sf.col("back").between(ago, ago + steps - 1), sf.col("value"))


def _line(name: str) -> tuple[Column, ...]:
    """Return the aggregates for the line through the last steps."""
    y, x = _within(0), sf.col("x")
    return (
        sf.count(y).alias(f"{name}_known"),
        sf.mean(y).alias(f"{name}_mean"),
        sf.regr_slope(y, x).alias(f"{name}_slope"),
        sf.regr_intercept(y, x).alias(f"{name}_intercept"),
        sf.regr_r2(y, x).alias(f"{name}_r2"),
        sf.regr_slope(_within(0, LATE_STEPS), x).alias(f"{name}_late"),
        sf.sort_array(sf.collect_list(sf.when(y.isNotNull(), sf.struct(x.alias("x"), y.alias("y"))))).alias(
            f"{name}_values"
        ),
    )


def _grows(name: str, step_hours: int = 1) -> Column:
    """Return whether a line counts as growth."""
    slope, known = sf.col(f"{name}_slope"), sf.col(f"{name}_known").cast("int")
    least = sf.when(sf.col("metric") == AGE, GROWTH_MIN_H[AGE]).otherwise(GROWTH_MIN_H[DEPTH]) * step_hours
    r2_min = sf.lit([R2_MIN.get(steps, 2.0) for steps in range(STEPS + 1)])[known]
    goes_on = sf.coalesce(sf.col(f"{name}_late") >= slope * LATE_SHARE, sf.lit(True))
    values = sf.col(f"{name}_values")

    def gain(value: Column, at: Column) -> Column:
        # What was gained while nothing was recorded was gained in several steps.
        before = sf.get(values, at - 1)
        return (value["y"] - before["y"]) / sf.greatest(value["x"] - before["x"], sf.lit(1.0))

    steps = sf.transform(values, gain)
    rise = sf.get(values, sf.size(values) - 1)["y"] - sf.get(values, sf.lit(0))["y"]
    is_jump = sf.array_max(steps) > rise * STEP_SHARE
    return sf.coalesce((slope >= least) & (sf.col(f"{name}_r2") >= r2_min) & goes_on & ~is_jump, sf.lit(False))


def _was_so(before: str) -> Column:
    """Return whether the queue grew about as fast before, and was about as full."""
    slope = sf.col("hours_slope")
    is_slope = slope < USUAL_FACTOR * sf.col(f"{before}_slope")
    is_full = sf.col("hours_mean") - sf.col(f"{before}_mean") < slope * STEPS / USUAL_FACTOR
    return sf.coalesce(is_slope & is_full, sf.lit(False))


def _line_ms() -> Column:
    """Return when the line through the hours reaches the limit."""
    return sf.col("at_ms") + (sf.col("limit") - sf.col("hours_intercept")) / sf.col("hours_slope") * HOUR_MS


def _days_line_ms() -> Column:
    """Return when the first of the hours of the last day reaches the limit, if each gains the same from day to day."""

    def reaches_ms(hour: Column) -> Column:
        days = sf.ceil((sf.col("limit") - hour["value"]) / sf.col("days_slope"))
        return hour["bucket_ms"] + sf.greatest(days.cast("double"), sf.lit(1.0)) * DAY_MS

    return sf.array_min(sf.transform("last_day", reaches_ms))


def _forecast_text() -> Column:
    line_ms, now_ms, amount = sf.col("line_ms"), sf.col("now_ms"), sf.col("amount")
    is_age = sf.col("metric") == AGE
    there = sf.when(is_age, joined("an age of ", amount)).otherwise(amount)
    course = (
        sf.when(line_ms.isNull(), joined("does not reach ", there, " within a year"))
        .when(line_ms <= now_ms, joined("is about to reach ", there))
        .otherwise(joined("reaches ", there, " in ", duration(line_ms - now_ms), " (", minute(line_ms), ")"))
    )
    return (
        sf.when(sf.col("is_over"), joined("over the limit of ", amount, " since ", minute(sf.col("since_ms"))))
        .when(sf.col("grows_by_hours"), joined("at +", _speed("hours_slope"), "/h it ", course))
        .when(sf.col("is_by_days"), joined("at +", _speed("days_slope"), " a day it ", course))
        .when(sf.col("is_usual"), joined("grows as it did a day or a week before, when it did not reach ", there))
        .otherwise(sf.lit("does not grow"))
    )


def _amount(metric: str, limit: int) -> str:
    return text.duration(limit) if metric == AGE else text.plural(limit, "message")


def _speed(slope: str) -> Column:
    """Format growth: 1,204 messages, 3.4 for few ones, or an age."""
    value = sf.col(slope)
    messages = sf.when(value < 10, sf.format_number(value, 1)).otherwise(count(value))
    return sf.when(sf.col("metric") == AGE, duration(rounded(value))).otherwise(messages)


def minute(at_ms: Column) -> Column:
    """Format a moment to the minute: 2031-05-17 21:50 UTC, whatever the session's time zone."""
    minutes = sf.floor(sf.pmod(at_ms, sf.lit(DAY_MS)) / MINUTE_MS)
    clock = sf.format_string("%02d:%02d", sf.floor(minutes / 60), sf.pmod(minutes, sf.lit(60)))
    return joined(day_name(sf.floor(at_ms / DAY_MS)), " ", clock, " UTC")
