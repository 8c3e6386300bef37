"""Advice: the visibility timeout that covers the holding times of messages.

A holding time is from the first receive until the delete. For a message that became visible again it includes the wait
for the next receive, so the advice is rather too long.

Holding times are as precise as inventories are close. There is no advice if it would be near their error; then it says
which time between inventories would do.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ADVICE
from rsmq_tui.pipeline.transforms.columns import conform, count, duration, joined, plural, rounded
from rsmq_tui.pipeline.transforms.quantiles import merged
from rsmq_tui.pipeline.transforms.samples import QUEUE, last_known

KNOWN_MIN = 20
"""The minimum number of holding times for an advice."""

ERRORS_MIN = 3
"""The minimum holding time for an advice, in errors: the true one is then between two thirds of it and four thirds."""

_COVERED = 99
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
            sf.collect_list(sf.struct(sf.col("holding_ms_known").alias("known"), "holding_error_ms")).alias("days"),
        )
        .join(attributes, on=list(QUEUE), how="left")
        .join(merged(lifecycle, QUEUE, "holding_ms_quantiles", "holding_ms_known", _COVERED), list(QUEUE), "left")
    )
    known = found.withColumns(
        {
            "known": sf.coalesce("merged_known", sf.lit(0)),
            "holding_ms_p99": sf.col("merged"),
            "expired_share": sf.when(sf.col("received") > 0, sf.col("expired") / sf.col("received")),
        }
    )
    # Days with less than 1 % of the messages do not decide what covers 99 %.
    counting = sf.filter("days", lambda in_one: in_one["known"] >= sf.col("known") * (100 - _COVERED) / 100)
    p99_ms, error_ms = sf.col("holding_ms_p99"), sf.col("error_ms")
    is_clear = p99_ms >= error_ms * ERRORS_MIN
    most_ms = sf.when(is_clear, p99_ms).otherwise(p99_ms + error_ms)
    covering_s = sf.ceil(sf.col("most_ms") / 1000).cast("double")
    advised_s = sf.when(_is_enough(), sf.least(covering_s, sf.col("vt_s"))).when(is_clear | _is_covered(), covering_s)
    # At that distance a holding time of vt, or of what messages are held at least, is clear, or vt covers it.
    every_s = sf.greatest(sf.col("vt_s"), (p99_ms - error_ms) / 1000, sf.lit(2.0)) / 2
    advised = (
        known.withColumn("error_ms", sf.coalesce(sf.array_max(counting["holding_error_ms"]), sf.lit(0.0)))
        .withColumn("most_ms", most_ms)
        .withColumn("advised_vt_s", sf.when(sf.col("known") >= KNOWN_MIN, advised_s))
        .withColumn("every_s", sf.floor(every_s).cast("double"))
    )
    return conform(advised.withColumn("told", _advice_text()), ADVICE)


def _advice_text() -> Column:
    vt_s, advised_s, expired = sf.col("vt_s"), sf.col("advised_vt_s"), sf.coalesce("expired_share", sf.lit(0.0))
    came_back = joined(share(expired), " of ", plural(sf.col("received"), "received message"), " became visible again")
    covers = joined("vt ", seconds(vt_s), " covers 99 % of the holding times")
    now = sf.coalesce(joined(" (now ", seconds(vt_s), ")"), sf.lit(""))
    would_cover = joined("; a vt of ", seconds(advised_s), now, " would cover 99 %")
    is_enough = joined("vt ", seconds(vt_s), " is enough: ", came_back)
    too_far = joined("; inventories every ", seconds(sf.col("every_s")), " would show which vt covers 99 %")
    return (
        sf.when(sf.col("known") < KNOWN_MIN, joined("not enough data (", count(sf.col("known")), " completed)"))
        .when(advised_s.isNull(), joined(came_back, " before they were deleted", too_far))
        .when(_is_covered() & (expired > 0), joined(covers, ", but ", came_back))
        .when(_is_covered(), covers)
        .when(_is_enough(), is_enough)
        .otherwise(joined(came_back, " before they were deleted", would_cover))
    )


def _is_covered() -> Column:
    return sf.col("most_ms") <= sf.col("vt_s") * 1000


def _is_enough() -> Column:
    return sf.coalesce((sf.col("expired_share") <= _EXPIRED_MAX) & sf.col("vt_s").isNotNull(), sf.lit(False))


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
