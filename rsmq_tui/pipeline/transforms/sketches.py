"""Sketches of a metric's values, from which percentiles are read, and which can be merged.

A sketch holds all values while there are no more than ``SKETCH_K``; its percentiles are exact then: the smallest value
that so many percent of the values do not exceed. Of more values it keeps about twice as many as ``SKETCH_K``, and a
percentile is, 99 times in 100, within 1.7 % of its rank.
"""

from pyspark.sql import Column
from pyspark.sql import functions as sf

SKETCH_K = 200
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}

_WHOLE = ("depth", "oldest_ready_age_ms")


def sketch_of(metric: str) -> Column:
    """Aggregate the values of a metric into a sketch; null where there is none."""
    made = sf.kll_sketch_agg_bigint if metric in _WHOLE else sf.kll_sketch_agg_double
    return sf.when(sf.count(metric) > 0, made(metric, SKETCH_K))


def merged(metric: str, sketch: str) -> Column:
    """Aggregate sketches of a metric into one; null where there is none."""
    merge = sf.kll_merge_agg_bigint if metric in _WHOLE else sf.kll_merge_agg_double
    return sf.when(sf.count(sketch) > 0, merge(sketch, SKETCH_K))


def percentiles_in(metric: str, sketch: str) -> Column:
    """Return the ``PERCENTILES`` of a sketch, an array; null where the sketch is."""
    quantiles = sf.kll_sketch_get_quantile_bigint if metric in _WHOLE else sf.kll_sketch_get_quantile_double
    ranks = sf.array(*(sf.lit(percent / 100) for percent in PERCENTILES.values()))
    return sf.when(sf.col(sketch).isNotNull(), quantiles(sketch, ranks))


def percentiles_of(values: str) -> Column:
    """Return the ``PERCENTILES`` of all values, which are sorted in an array; null where there is none."""
    count = sf.size(values)
    picked = [
        # The first whose rank is so many percent or more, from 0.
        sf.get(values, sf.floor((count * percent + 99) / 100).cast("int") - 1)
        for percent in PERCENTILES.values()
    ]
    return sf.array(*picked)
