"""Roll-ups, percentile sketches and runs of verdicts: the tables kept by day.

Sketches of a metric can be merged, and give its percentiles. Up to ``SKETCH_K`` values are kept completely; percentiles
are then exact (nearest rank). Of more values, a sketch keeps about twice ``SKETCH_K``, and a percentile is, in 99 of
100 cases, within 1.7 % of its rank.
"""

from collections.abc import Callable, Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from rsmq_tui.history.analysis.schema import METRICS, ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, VERDICT_RUNS, WIDTHS_MS
from rsmq_tui.pipeline.transforms.columns import conform
from rsmq_tui.pipeline.transforms.samples import QUEUE, RATES, annotated_samples, day_of

SKETCH_K = 200
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}

_WHOLE = ("depth", "oldest_ready_age_ms")


def sketch_of(metric: str) -> Column:
    """Aggregate the values of a metric into a sketch; null if there is none."""
    made = sf.kll_sketch_agg_bigint if metric in _WHOLE else sf.kll_sketch_agg_double
    return sf.when(sf.count(metric) > 0, made(metric, SKETCH_K))


def merged(metric: str, sketch: str) -> Column:
    """Aggregate sketches of a metric into one; null if there is none."""
    merge = sf.kll_merge_agg_bigint if metric in _WHOLE else sf.kll_merge_agg_double
    return sf.when(sf.count(sketch) > 0, merge(sketch, SKETCH_K))


def percentiles_in(metric: str, sketch: str) -> Column:
    """Return the ``PERCENTILES`` of a sketch, an array; null if the sketch is."""
    quantiles = sf.kll_sketch_get_quantile_bigint if metric in _WHOLE else sf.kll_sketch_get_quantile_double
    ranks = sf.array(*(sf.lit(percent / 100) for percent in PERCENTILES.values()))
    return sf.when(sf.col(sketch).isNotNull(), quantiles(sketch, ranks))


def percentiles_of(values: str) -> Column:
    """Return the ``PERCENTILES`` of a sorted array of all values; null if it is empty."""
    count = sf.size(values)
    picked = [
        # The first index, from 0, whose rank is at least the percentage.
        sf.get(values, sf.floor((count * percent + 99) / 100).cast("int") - 1)
        for percent in PERCENTILES.values()
    ]
    return sf.array(*picked)


_SUMS = ("samples", "covered_ms", *RATES)
# Means are kept as sum and count, so that roll-ups of roll-ups are correct.
_MEANS = ("ready", "hidden", *METRICS)


def rollup_10s(told: DataFrame) -> DataFrame:
    """Return the roll-up at 10 seconds; its percentiles are of all samples."""
    values = {f"{metric}_values": sf.sort_array(sf.collect_list(metric)) for metric in METRICS}
    buckets = _grouped(told, ROLLUP_10S, values)
    return _finished(buckets, ROLLUP_10S, {metric: percentiles_of(f"{metric}_values") for metric in METRICS})


def minutes_of(told: DataFrame) -> DataFrame:
    """Aggregate the samples of each minute to sums, counts and sketches, from which roll-ups are made."""
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
    """Return a row for each queue and bucket, with the aggregates of all roll-ups, and ``more``."""
    return (
        told.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE, _bucket(sf.col("at_ms"), table))
        .agg(
            sf.max_by("kind", "at_ms").alias("kind"),
            sf.count(sf.lit(1)).alias("samples"),
            sf.coalesce(sf.sum("covered_ms"), sf.lit(0)).alias("covered_ms"),
            # A counter may be any number: a sum that overflows is unknown.
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


def verdict_runs(told: DataFrame) -> DataFrame:
    """Return the maximal runs of samples of a queue with one verdict, from ``annotated_samples``.

    A run ends where the verdict changes, at a gap and on the hour. Rows without a queue make the runs of failed polls
    of a place.
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


def persisted(rows: DataFrame) -> DataFrame:
    """Cache rows once they are computed, in memory and, if that is full, on disk."""
    return rows.persist(StorageLevel.MEMORY_AND_DISK)


def sample_tables(
    samples: DataFrame, hours: Collection[int], keep: Callable[[DataFrame], DataFrame] = persisted
) -> dict[str, DataFrame]:
    """Return the tables of some hours, each with ``day`` in front.

    ``samples`` are rows of a history: of these hours, and of the hour before each; other rows are ignored. The rows
    that all four tables share go through ``keep``, so that they are computed once; the caller must release them.
    """
    # Reading, shuffling and sorting the samples takes more than half the time of each table.
    told = keep(annotated_samples(samples, hours))
    minutes = minutes_of(told)
    return {
        ROLLUP_10S: rollup_10s(told),
        ROLLUP_1M: rollup_1m(minutes),
        ROLLUP_1H: rollup_1h(minutes),
        VERDICT_RUNS: verdict_runs(told),
    }
