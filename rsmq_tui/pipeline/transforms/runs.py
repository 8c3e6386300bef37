"""Runs: how long each queue had each verdict, hour by hour, and how long each place could not be polled."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import VERDICT_RUNS
from rsmq_tui.pipeline.transforms.conforming import conform
from rsmq_tui.pipeline.transforms.samples import QUEUE, day_of


def verdict_runs(told: DataFrame) -> DataFrame:
    """Return the longest runs of samples of a queue that have one verdict, from ``told_samples``.

    A run ends where the verdict changes, at a gap and on the hour. Rows without a queue make the runs of polls of a
    place that failed.
    """
    by_time = Window.partitionBy(*QUEUE).orderBy("at_ms").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    first = sf.when(sf.col("is_start"), sf.struct("continues", "depth", "told"))
    at_peak = sf.when(sf.col("depth").isNotNull(), sf.struct("depth", -sf.col("at_ms")))
    runs = (
        told.withColumn("run", sf.sum(sf.col("is_start").cast("int")).over(by_time))
        .where(sf.col("verdict").isNotNull())
        .groupBy(*QUEUE, "run", "verdict")
        .agg(
            sf.min("at_ms").alias("first_ms"),
            sf.max("at_ms").alias("last_ms"),
            sf.max(first).alias("first"),
            sf.count(sf.lit(1)).alias("samples"),
            sf.max_by("depth", "at_ms").alias("last_depth"),
            sf.max("depth").alias("peak_depth"),
            sf.max("ready").alias("peak_ready"),
            sf.max_by("at_ms", at_peak).alias("peak_ms"),
            sf.max("oldest_ready_age_ms").alias("peak_age_ms"),
            *(sf.try_sum(name).alias(name) for name in ("arrivals", "deletes", "receives")),
            sf.max("poison").alias("poison"),
            sf.max("highest_rc").alias("highest_rc"),
            sf.max("kind").alias("kind"),
            sf.max("expired").alias("expired"),
        )
    )
    named = runs.withColumns(
        {
            "day": day_of(sf.col("first_ms")),
            "continues": sf.col("first.continues"),
            "first_depth": sf.col("first.depth"),
            "told": sf.col("first.told"),
        }
    )
    return conform(named, VERDICT_RUNS)
