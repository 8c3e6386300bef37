"""What is usual for a queue at each hour of the week: the median of its hourly means, and how far they lie from it.

Both are medians, so that a bad hour moves neither. The hours that are judged by them are among those that they are of.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import BASELINE
from rsmq_tui.pipeline.hours import HOUR_MS
from rsmq_tui.pipeline.transforms.conforming import conform
from rsmq_tui.pipeline.transforms.samples import QUEUE

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
        *QUEUE, "bucket_ms", HOUR_OF_WEEK, sf.inline(sf.array(*map(_told, METRICS)))
    ).where(sf.col("value").isNotNull())  # fmt: skip


def baseline(hours: DataFrame) -> DataFrame:
    """Return the table ``baseline``, from ``rollup_1h`` of all days."""
    # All rows of a group say the same of it.
    same = [sf.max(name).alias(name) for name in ("hours", "median", "mad")]
    return conform(compared(hours).groupBy(*QUEUE, HOUR_OF_WEEK, "metric").agg(*same), BASELINE)


def _told(metric: str) -> Column:
    """Return one metric of an hour."""
    return sf.struct(
        sf.lit(metric).alias("metric"),
        sf.col(metric).alias("value"),
        *(sf.col(f"{metric}_{name}").alias(name) for name in ("hours", "median", "mad")),
    )
