"""Baselines: the median of a queue's hourly means for each hour of the week, and the median deviation from it.

One bad hour changes neither. The hours that are judged are among those that the baseline was computed from.
"""

from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ANOMALIES, BASELINE
from rsmq_tui.history.moments import HOUR_MS
from rsmq_tui.pipeline.transforms.columns import conform
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
