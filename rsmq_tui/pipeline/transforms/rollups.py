"""Roll-ups: what the samples of each queue come to, in buckets of 10 seconds, a minute and an hour."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import METRICS, ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, WIDTHS_MS
from rsmq_tui.pipeline.transforms.conforming import conform
from rsmq_tui.pipeline.transforms.rates import RATES
from rsmq_tui.pipeline.transforms.samples import QUEUE, day_of
from rsmq_tui.pipeline.transforms.sketches import PERCENTILES, merged, percentiles_in, percentiles_of, sketch_of

_SUMS = ("samples", "covered_ms", *RATES)
# What is averaged, as sum and count, so that roll-ups of roll-ups are right.
_MEANS = ("ready", "hidden", *METRICS)


def rollup_10s(told: DataFrame) -> DataFrame:
    """Return the roll-up at 10 seconds; its percentiles are of all samples."""
    values = {f"{metric}_values": sf.sort_array(sf.collect_list(metric)) for metric in METRICS}
    buckets = _grouped(told, ROLLUP_10S, values)
    return _finished(buckets, ROLLUP_10S, {metric: percentiles_of(f"{metric}_values") for metric in METRICS})


def minutes_of(told: DataFrame) -> DataFrame:
    """Return what the samples of each minute come to, as sums, counts and sketches: roll-ups are made from it."""
    facts = sf.struct("at_ms", "depth", "vt_s", "maxsize")
    return _grouped(
        told,
        ROLLUP_1M,
        {f"{metric}_sketch": sketch_of(metric) for metric in METRICS} | {"last": sf.max_by(facts, "at_ms")},
    )


def rollup_1m(minutes: DataFrame) -> DataFrame:
    """Return the roll-up at one minute, from ``minutes_of``."""
    return _finished(minutes, ROLLUP_1M, _from_sketches())


def rollup_1h(minutes: DataFrame) -> DataFrame:
    """Return the roll-up at one hour, from ``minutes_of``: the sketches of its minutes are merged."""
    hours = minutes.groupBy(*QUEUE, _bucket(sf.col("bucket_ms"), ROLLUP_1H)).agg(
        sf.max_by("kind", "bucket_ms").alias("kind"),
        *(sf.try_sum(name).alias(name) for name in _SUMS),
        *(sf.sum(f"{name}_{part}").alias(f"{name}_{part}") for name in _MEANS for part in ("sum", "count")),
        *(sf.min(f"{metric}_min").alias(f"{metric}_min") for metric in METRICS),
        *(sf.max(f"{metric}_max").alias(f"{metric}_max") for metric in METRICS),
        *(merged(metric, f"{metric}_sketch").alias(f"{metric}_sketch") for metric in METRICS),
        sf.max_by("last", "bucket_ms").alias("last"),
    )
    facts = {"vt_s": "vt_s", "maxsize": "maxsize", "last_ms": "at_ms", "last_depth": "depth"}
    return _finished(
        hours.withColumns({name: sf.col("last")[field] for name, field in facts.items()}), ROLLUP_1H, _from_sketches()
    )


def _grouped(told: DataFrame, table: str, more: dict[str, Column]) -> DataFrame:
    """Return a row for each queue and bucket, with what all roll-ups need, and more."""
    return (
        told.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE, _bucket(sf.col("at_ms"), table))
        .agg(
            sf.max_by("kind", "at_ms").alias("kind"),
            sf.count(sf.lit(1)).alias("samples"),
            sf.coalesce(sf.sum("covered_ms"), sf.lit(0)).alias("covered_ms"),
            # A counter may be anything: what is too much to be added is not known.
            *(sf.try_sum(name).alias(name) for name in RATES),
            *(sf.sum(sf.col(name).cast("double")).alias(f"{name}_sum") for name in _MEANS),
            *(sf.count(name).alias(f"{name}_count") for name in _MEANS),
            *(sf.min(metric).alias(f"{metric}_min") for metric in METRICS),
            *(sf.max(metric).alias(f"{metric}_max") for metric in METRICS),
            *(column.alias(name) for name, column in more.items()),
        )
    )


def _finished(buckets: DataFrame, table: str, percentiles: dict[str, Column]) -> DataFrame:
    """Return the columns of the table."""
    means = {f"{name}_mean": sf.try_divide(f"{name}_sum", f"{name}_count") for name in _MEANS}
    arrays = {f"{metric}_percentiles": array for metric, array in percentiles.items()}
    picked = {
        f"{metric}_{name}": sf.col(f"{metric}_percentiles")[place]
        for metric in METRICS
        for place, name in enumerate(PERCENTILES)
    }
    named = buckets.withColumns({**means, **arrays, "day": day_of(sf.col("bucket_ms"))}).withColumns(picked)
    return conform(named, table)


def _from_sketches() -> dict[str, Column]:
    return {metric: percentiles_in(metric, f"{metric}_sketch") for metric in METRICS}


def _bucket(at_ms: Column, table: str) -> Column:
    return (at_ms - at_ms % WIDTHS_MS[table]).alias("bucket_ms")
