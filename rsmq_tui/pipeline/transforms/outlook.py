"""The tables over all days: queues, episodes, baselines, anomalies, forecasts and advice.

Advice: the visibility timeout that covers the holding times of messages. A holding time is from the first receive until
the delete. For a message that became visible again it includes the wait for the next receive, so the advice is rather
too long.

Baselines: the median of a queue's hourly means for each hour of the week, and the median deviation from it. One bad
hour changes neither. The hours that are judged are among those that the baseline was computed from.

Episodes: each period in which a queue had one verdict of trouble, and its cause.

Forecasts: a least-squares line through the last hours of a queue says when it reaches its limit. It counts as growth if
a one-sided t-test of the correlation gives less than 5 %, so a queue that only fluctuates, or jumped once, does not
grow.
"""

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import (
    ADVICE,
    ANOMALIES,
    BASELINE,
    EPISODES,
    FORECAST,
    LIFECYCLE,
    POISON,
    POISON_DAYS,
    QUEUES,
    ROLLUP_1H,
    VERDICT_RUNS,
)
from rsmq_tui.history.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.monitor import text
from rsmq_tui.pipeline.state import Settings
from rsmq_tui.pipeline.transforms.columns import conform, count, duration, plural, rate
from rsmq_tui.pipeline.transforms.inventories import day_name, poison
from rsmq_tui.pipeline.transforms.samples import GAP_MS, PLACE, QUEUE
from rsmq_tui.protocol.kinds import KINDS

# The kinds of queues that do not count arrivals.
_UNCOUNTED = [kind.name for kind in KINDS.values() if not kind.counts_arrivals]


def joined(*parts: Column | str) -> Column:
    """Return a sentence of columns and literal text; null if a part is null."""
    return sf.concat(*(sf.lit(part) if isinstance(part, str) else part for part in parts))


def cause() -> Column:
    """Return the sentence for an episode, from its columns and ``span_ms``, its known duration.

    It does not name the queue. Reasons for a failed poll or a broken queue may contain untrusted text from the server;
    the caller must make it printable.
    """
    verdict, is_uncounted = sf.col("verdict"), sf.col("kind").isin(_UNCOUNTED)
    return (
        sf.when((verdict == "stalled") & is_uncounted, _stalled_list())
        .when(verdict == "leaking", _leaking())
        .when((verdict == "growing") & is_uncounted, _growing_list())
        .when(verdict == "growing", _growing())
        .when(
            verdict == "stalled",
            joined(plural(_known("peak_ready"), "message"), " ready and none received", _span()),
        )
        .when(
            verdict == "aged",
            joined("the first ready message was up to ", duration(sf.col("peak_age_ms")), " old"),
        )
        .when(verdict == "poisoned", _poisoned())
        .when(verdict == "broken", sf.coalesce("told", sf.lit("its keys disagree")))
        .when(verdict == "down", joined(sf.coalesce("told", sf.lit("no poll succeeded")), _span()))
        .otherwise(verdict)
    )


def _growing() -> Column:
    net_s = sf.try_divide(sf.try_subtract("arrivals", "deletes"), sf.col("span_ms") / 1000)
    by = _if(net_s > 0, " by ", rate(net_s), "/s")
    first, peak = sf.col("first_depth"), sf.col("peak_depth")
    rose = _if(peak > first, "; depth rose from ", count(first), " to ", count(peak))
    return joined("arrivals exceeded deletes", by, _span(), rose)


def _growing_list() -> Column:
    """Return the cause for a list, which does not count arrivals and deletes."""
    first, peak = sf.col("first_depth"), sf.col("peak_depth")
    rose = _if(peak > first, ": depth rose from ", count(first), " to ", count(peak))
    return joined("more was pushed than taken", _span(), rose)


def _stalled_list() -> Column:
    """Return that no item was taken, or that leases expired: older histories have the same verdict for both."""
    items = joined(plural(_known("peak_ready"), "item"), " ready and none taken", _span())
    return sf.when(sf.col("expired") > _known("peak_ready"), _leaking()).otherwise(items)


def _leaking() -> Column:
    return joined(plural(_known("expired"), "lease"), " expired and not returned", _span())


def _poisoned() -> Column:
    highest = sf.col("highest_rc")
    return joined(
        sf.when(sf.col("poison") > 0, plural(sf.col("poison"), "message")).otherwise("messages"),
        " received too often",
        _if(highest.isNotNull(), " (up to ", plural(_known("highest_rc"), "time"), ")"),
    )


def _span() -> Column:
    """Return " for " and the duration; empty if the episode has one sample only."""
    return _if(sf.col("span_ms") > 0, " for ", duration(sf.col("span_ms")))


def _if(condition: Column, *words: Column | str) -> Column:
    return sf.when(condition, joined(*words)).otherwise("")


def _known(name: str) -> Column:
    return sf.coalesce(name, sf.lit(0))


OVER, UNKNOWN, OPEN = "over", "unknown", "open"

_SUMS = ("samples", "arrivals", "deletes", "receives")
# A queue has only one kind, so max() returns it.
_PEAKS = ("peak_depth", "peak_ready", "peak_age_ms", "poison", "highest_rc", "expired", "kind")


def episodes_of(runs: DataFrame) -> DataFrame:
    """Return the episodes, from the runs of all hours.

    Consecutive runs of one verdict are one episode. It is ``over`` if another run of the queue follows directly, whose
    start is its end. It is ``open`` if the history has neither rows of the queue nor polls of its place after it.
    Otherwise its end is ``unknown``: a gap or an outage follows, or the queue disappeared. It recovered when the queue
    was next ok, if nothing is unknown in between. A queue with the verdict watching is in no episode.

    A place that was down recovered with the next sample of any of its queues, if that is within a minute of the last
    failed poll.

    ``affected`` is the number of messages affected. For a growing queue: how many it gained from the first sample to
    the peak. For a stalled, leaking or aged one: the maximum of ready messages or expired leases. For a poisoned one:
    the maximum of poison messages. For a broken one: the maximum depth. Null for a place that was down.
    """
    followed = _followed(_joined(runs))
    is_down = sf.col("verdict") == "down"
    is_up_soon = sf.col("up_ms") - sf.col("last_ms") <= GAP_MS
    is_over = sf.when(is_down, is_up_soon).otherwise(sf.col("next_continues"))
    next_ms = sf.when(is_down, sf.col("up_ms")).otherwise(sf.col("next_ms"))
    is_open = next_ms.isNull() & (sf.col("last_ms") == sf.col("place_last_ms"))
    troubles = followed.where(~sf.col("verdict").isin("ok", "watching")).withColumns(
        {
            "ended": sf.when(is_over, OVER).when(is_open, OPEN).otherwise(UNKNOWN),
            "end_ms": sf.when(is_over, next_ms).otherwise(sf.col("last_ms")),
            "recovered_ms": sf.when(is_down, sf.when(is_up_soon, sf.col("up_ms"))).otherwise(sf.col("ok_ms")),
            "affected": _affected(),
        }
    )
    told = troubles.withColumn("span_ms", sf.col("end_ms") - sf.col("start_ms")).withColumn("cause", cause())
    return conform(told, EPISODES)


def _joined(runs: DataFrame) -> DataFrame:
    """Join consecutive runs of one verdict across hours."""
    by_time = Window.partitionBy(*QUEUE).orderBy("first_ms")
    is_same = sf.lag("verdict").over(by_time).eqNullSafe(sf.col("verdict")) & sf.col("continues")
    at_peak = sf.when(sf.col("peak_depth").isNotNull(), sf.struct("peak_depth", -sf.col("peak_ms")))
    return (
        runs.repartition(*QUEUE)
        .withColumn("is_start", sf.when(is_same, 0).otherwise(1))
        .withColumn("run", sf.sum("is_start").over(by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .groupBy(*QUEUE, "run", "verdict")
        .agg(
            sf.min("first_ms").alias("start_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.min_by(sf.struct("continues", "first_depth", "told"), "first_ms").alias("first"),
            sf.max_by("peak_ms", at_peak).alias("peak_ms"),
            *(sf.try_sum(name).alias(name) for name in _SUMS),
            *(sf.max(name).alias(name) for name in _PEAKS),
        )
        .withColumns({name: sf.col("first")[name] for name in ("continues", "first_depth", "told")})
    )


def _followed(runs: DataFrame) -> DataFrame:
    """Return the runs with what follows each: of its queue, and in its place."""
    # The latest first: a window frame that begins at an end takes one pass.
    by_queue = Window.partitionBy(*QUEUE).orderBy(sf.desc("start_ms"))
    later = by_queue.rowsBetween(Window.unboundedPreceding, -1)
    in_chain = Window.partitionBy(*QUEUE, "chain").orderBy(sf.desc("start_ms"))
    in_place = Window.partitionBy(*PLACE).orderBy(sf.desc("start_ms"))
    breaks = sf.sum(sf.when(sf.col("continues"), 0).otherwise(1)).over(later)
    is_ok, is_queue = sf.col("verdict") == "ok", sf.col("queue").isNotNull()
    followed = runs.withColumns(
        {
            "next_ms": sf.lag("start_ms").over(by_queue),
            "next_continues": sf.lag("continues").over(by_queue),
            "chain": sf.coalesce(breaks, sf.lit(0)),
        }
    ).withColumn(
        "ok_ms",
        sf.min(sf.when(is_ok, sf.col("start_ms"))).over(in_chain.rowsBetween(Window.unboundedPreceding, -1)),
    )
    # For a place, only when it was up and its last sample are needed: one pass computes both.
    return followed.withColumns(
        {
            "up_ms": sf.min(sf.when(is_queue, sf.col("start_ms"))).over(
                in_place.rangeBetween(Window.unboundedPreceding, -1)
            ),
            "place_last_ms": sf.max("last_ms").over(Window.partitionBy(*PLACE)),
        }
    )


def _affected() -> Column:
    verdict = sf.col("verdict")
    gained = sf.col("peak_depth") - sf.col("first_depth")
    return (
        sf.when(verdict == "growing", gained)
        .when(verdict == "stalled", sf.greatest("peak_ready", "expired"))
        .when(verdict == "leaking", sf.col("expired"))
        .when(verdict == "aged", sf.col("peak_ready"))
        .when(verdict == "poisoned", sf.col("poison"))
        .when(verdict == "broken", sf.col("peak_depth"))
    )


def share(value: Column) -> Column:
    """Format a share: 12 %, less than 1 %, none."""
    return (
        sf.when(value <= 0, "none").when(value < 0.01, "less than 1 %").otherwise(joined(count(value * 100), " %"))
    )  # fmt: skip


def seconds(value: Column) -> Column:
    """Format a setting in seconds: 30 s, 15.5 s, 2h 0m."""
    number = sf.when(value == sf.floor(value), sf.floor(value).cast("string")).otherwise(
        sf.round(value, 3).cast("string")
    )  # fmt: skip
    return sf.when(value < 600, joined(number, " s")).when(value >= 600, duration(rounded(value * 1000)))


def rounded(value: Column) -> Column:
    """Round to an integer; null if it does not fit."""
    return sf.round(value).try_cast("bigint")


def per_hour(value: Column) -> Column:
    """Format a number of messages per hour: 1,204/h, or 3.4/h for small ones."""
    return joined(sf.when(value < 10, sf.format_number(value, 1)).otherwise(count(value)), "/h")


def minute(at_ms: Column) -> Column:
    """Format a moment to the minute: 2031-05-17 21:50 UTC, whatever the session's time zone."""
    minutes = sf.floor(sf.pmod(at_ms, sf.lit(DAY_MS)) / MINUTE_MS)
    clock = sf.format_string("%02d:%02d", sf.floor(minutes / 60), sf.pmod(minutes, sf.lit(60)))
    return joined(day_name(sf.floor(at_ms / DAY_MS)), " ", clock, " UTC")


METRICS = ("depth", "oldest_ready_age_ms", "arrivals_s", "deletes_s", "receives_s")
HOUR_OF_WEEK = "hour_of_week"
_WEEK_HOURS = 168
# 1970 began on a Thursday.
_FIRST_HOUR_OF_WEEK = 72


def compared(hours: DataFrame) -> DataFrame:
    """Return every hour of ``rollup_1h`` and metric whose mean is known, next to what is usual at its hour of the week.

    One pass over all metrics, and one shuffle: by queue and hour of the week.
    """
    usual = Window.partitionBy(*QUEUE, HOUR_OF_WEEK)
    found = hours.where(sf.col("queue").isNotNull()).select(
        *QUEUE,
        "bucket_ms",
        sf.pmod(sf.floor(sf.col("bucket_ms") / HOUR_MS) + _FIRST_HOUR_OF_WEEK, sf.lit(_WEEK_HOURS)).alias(HOUR_OF_WEEK),
        *(sf.col(f"{metric}_mean").alias(metric) for metric in METRICS),
    )
    with_medians = found.withColumns(
        {f"{metric}_median": sf.median(metric).over(usual) for metric in METRICS}
        | {f"{metric}_hours": sf.count(metric).over(usual) for metric in METRICS}
    )
    with_deviations = with_medians.withColumns(
        {
            f"{metric}_mad": sf.median(sf.abs(sf.col(metric) - sf.col(f"{metric}_median"))).over(usual)
            for metric in METRICS
        }
    )
    return with_deviations.select(
        *QUEUE, "bucket_ms", HOUR_OF_WEEK, sf.inline(sf.array(*map(_baseline_text, METRICS)))
    ).where(sf.col("value").isNotNull())  # fmt: skip


def baseline(hours: DataFrame) -> DataFrame:
    """Return the table ``baseline``, from ``rollup_1h`` of all days."""
    # All rows of a group have the same values.
    same = [sf.max(name).alias(name) for name in ("hours", "median", "mad")]
    return conform(compared(hours).groupBy(*QUEUE, HOUR_OF_WEEK, "metric").agg(*same), BASELINE)


def _baseline_text(metric: str) -> Column:
    """Return one metric of an hour."""
    return sf.struct(
        sf.lit(metric).alias("metric"),
        sf.col(metric).alias("value"),
        *(sf.col(f"{metric}_{name}").alias(name) for name in ("hours", "median", "mad")),
    )


HOURS_MIN = 3
"""The minimum number of known hours, each of another week, before one of them can be unusual."""

SIGMAS_IN_MAD = 1.4826
"""The standard deviation of a normal distribution, in median absolute deviations."""

SHARE_OF_MEDIAN = 0.05
FLOORS = {"depth": 1.0, "oldest_ready_age_ms": 5_000.0, "arrivals_s": 0.01, "deletes_s": 0.01, "receives_s": 0.01}
"""The minimum deviation, besides that share of the median. Otherwise a queue that is the same each week would be
unusual as soon as it changes by one message."""


def anomalies(hours: DataFrame, score: float) -> DataFrame:
    """Return the table ``anomalies``, from ``rollup_1h`` of all days: hours that are ``score`` deviations away or more.

    The median includes the judged hour, which is harmless: one of three values hardly moves it.
    """
    floors = sf.create_map(*chain.from_iterable((sf.lit(metric), sf.lit(floor)) for metric, floor in FLOORS.items()))
    deviation = sf.greatest(
        sf.col("mad") * SIGMAS_IN_MAD, sf.abs("median") * SHARE_OF_MEDIAN, floors[sf.col("metric")]
    )  # fmt: skip
    judged = compared(hours).where(sf.col("hours") >= HOURS_MIN)
    scored = judged.withColumn("score", (sf.col("value") - sf.col("median")) / deviation)
    return conform(scored.where(sf.abs("score") >= score), ANOMALIES)


DEPTH, AGE = "depth", "oldest_ready_age_ms"

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
    reaches = sf.when(sf.col("is_over"), sf.col("at_ms")).otherwise(sf.col("line_ms"))
    return conform(found.withColumns({"reaches_ms": reaches, "told": _forecast_text()}), FORECAST)


def _series(hours: DataFrame, limits: dict[str, int]) -> DataFrame:
    """Return the hourly means of each metric with a limit, and aggregates over all hours of a queue."""
    of_queue = Window.partitionBy(*QUEUE)
    queues = hours.where(sf.col("queue").isNotNull())
    newest = queues.groupBy(*PLACE).agg(sf.max("bucket_ms").alias("newest_ms"))
    bucket = sf.col("bucket_ms")

    def told(metric: str) -> Column:
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
        .select(*QUEUE, "bucket_ms", "last_ms", "at_ms", "now_ms", sf.inline(sf.array(*map(told, limits))))
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


def queues(hours: DataFrame) -> DataFrame:
    """Return the table ``queues``, from ``rollup_1h`` of all days."""
    return conform(
        hours.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE)
        .agg(
            sf.min("bucket_ms").alias("first_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.sum("samples").alias("samples"),
            sf.max("depth_max").alias("peak_depth"),
            *(last_known(name) for name in ("kind", "last_depth")),
        ),
        QUEUES,
    )


def last_known(name: str) -> Column:
    """Return the aggregate for a column's value in the last hour of ``rollup_1h`` in which it is known."""
    return sf.max_by(name, sf.when(sf.col(name).isNotNull(), sf.col("bucket_ms"))).alias(name)


KNOWN_MIN = 20
"""The minimum number of holding times for an advice."""

_COVERED = 0.99
_EXPIRED_MAX = 0.01


def advice(lifecycle: DataFrame, hours: DataFrame) -> DataFrame:
    """Return the table ``advice``, from ``lifecycle`` and ``rollup_1h`` of all days, for queues with inventories.

    If hardly any message became visible again, the current vt is enough: holding times from inventories hours apart are
    less precise than that.
    """
    attributes = hours.where(sf.col("queue").isNotNull()).groupBy(*QUEUE).agg(last_known("vt_s"))
    found = (
        lifecycle.groupBy(*QUEUE)
        .agg(
            sf.coalesce(sf.sum("final_received"), sf.lit(0)).alias("received"),
            sf.sum("final_expired").alias("expired"),
            sf.count("holding_ms_sketch").alias("sketches"),
            sf.kll_merge_agg_double("holding_ms_sketch").alias("sketch"),
        )
        .join(attributes, on=list(QUEUE), how="left")
    )
    is_known = sf.col("sketches") > 0
    known = found.withColumns(
        {
            "known": sf.coalesce(sf.when(is_known, sf.kll_sketch_get_n_double("sketch")), sf.lit(0)),
            "holding_ms_p99": sf.when(is_known, sf.kll_sketch_get_quantile_double("sketch", sf.lit(_COVERED))),
            "expired_share": sf.when(sf.col("received") > 0, sf.col("expired") / sf.col("received")),
        }
    )
    enough = sf.col("known") >= KNOWN_MIN
    covering_s = sf.ceil(sf.col("holding_ms_p99") / 1000).cast("double")
    # A holding time has an error of up to half the time between two inventories, and is never less than that.
    advised_s = sf.when(_is_enough(), sf.least(covering_s, sf.col("vt_s"))).otherwise(covering_s)
    advised = known.withColumn("advised_vt_s", sf.when(enough, advised_s))
    return conform(advised.withColumn("told", _advice_text()), ADVICE)


def _advice_text() -> Column:
    vt_s, advised_s, expired = sf.col("vt_s"), sf.col("advised_vt_s"), sf.coalesce("expired_share", sf.lit(0.0))
    came_back = joined(share(expired), " of ", plural(sf.col("received"), "received message"), " became visible again")
    covers = joined("vt ", seconds(vt_s), " covers 99 % of the holding times")
    now = sf.coalesce(joined(" (now ", seconds(vt_s), ")"), sf.lit(""))
    would_cover = joined("; a vt of ", seconds(advised_s), now, " would cover 99 %")
    is_covered = sf.col("holding_ms_p99") <= vt_s * 1000
    is_enough = joined("vt ", seconds(vt_s), " is enough: ", came_back)
    return (
        sf.when(advised_s.isNull(), joined("not enough data (", count(sf.col("known")), " completed)"))
        .when(is_covered & (expired > 0), joined(covers, ", but ", came_back))
        .when(is_covered, covers)
        .when(_is_enough(), is_enough)
        .otherwise(joined(came_back, " before they were deleted", would_cover))
    )


def _is_enough() -> Column:
    return sf.coalesce((sf.col("expired_share") <= _EXPIRED_MAX) & sf.col("vt_s").isNotNull(), sf.lit(False))


WHOLE_SOURCES = (ROLLUP_1H, VERDICT_RUNS, LIFECYCLE, POISON_DAYS)
"""The tables by day that those over all days are computed from."""


def whole_tables(tables: Mapping[str, DataFrame], settings: Settings) -> dict[str, DataFrame]:
    """Return the tables over all days; ``tables`` are the ``WHOLE_SOURCES``, with all of their days."""
    hours, lifecycle = tables[ROLLUP_1H], tables[LIFECYCLE]
    return {
        QUEUES: queues(hours),
        EPISODES: episodes_of(tables[VERDICT_RUNS]),
        BASELINE: baseline(hours),
        ANOMALIES: anomalies(hours, settings.anomaly_score),
        FORECAST: forecast(hours, settings),
        POISON: poison(tables[POISON_DAYS], lifecycle),
        ADVICE: advice(lifecycle, hours),
    }
