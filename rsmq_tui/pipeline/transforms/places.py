"""The roll-up of places: all queues of a place together, so that no reader has to add up thousands of queues."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import METRICS, PLACES, STATISTICS, WIDTHS_MS
from rsmq_tui.history.analysis.values import AGE
from rsmq_tui.pipeline.transforms.columns import DAY, conform
from rsmq_tui.pipeline.transforms.samples import PLACE, RATES


def place_rollup(rollups: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table ``places``, from roll-ups of queues by the names of their tables, each with ``day``."""
    # One pass over all widths: a job for each would cost more than its rows.
    rows = reduce(
        DataFrame.unionAll,
        (_with_width(rows, WIDTHS_MS[table]) for table, rows in rollups.items()),
    )
    grouped = rows.groupBy(DAY, "width_ms", "bucket_ms", *PLACE).agg(
        sf.count(sf.lit(1)).alias("queues"),
        sf.max("samples").alias("samples"),
        sf.max("covered_ms").alias("covered_ms"),
        *(sf.try_sum(name).alias(name) for name in RATES),
        *(sf.sum(name).alias(name) for name in ("ready_mean", "hidden_mean")),
        *(_together(metric, statistic) for metric in METRICS for statistic in STATISTICS),
        *(sf.max(f"{metric}_max").alias(f"{metric}_greatest") for metric in METRICS),
    )
    return conform(grouped, PLACES)


def _together(metric: str, statistic: str) -> Column:
    """Aggregate a statistic over the queues: ages cannot be added."""
    name = f"{metric}_{statistic}"
    return (sf.max(name) if metric == AGE else sf.sum(sf.col(name).cast("double"))).alias(name)


def _with_width(rows: DataFrame, width_ms: int) -> DataFrame:
    names = [f"{metric}_{statistic}" for metric in METRICS for statistic in STATISTICS]
    return rows.select(
        DAY,
        sf.lit(width_ms).cast("bigint").alias("width_ms"),
        *("bucket_ms", *PLACE, "samples", "covered_ms", *RATES, "ready_mean", "hidden_mean", *names),
    )
