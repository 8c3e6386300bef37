"""Percentiles of all values by nearest rank, and summaries of values that can be merged.

A summary is the values at 0, 1, 2, ... and 100 % of all values, and is kept with their number. It is the same in every
run, unlike a random sketch. In a percentile of merged summaries, the share of the values below it is wrong by at most
1 %.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

PERCENTILES = {"min": 0, "p50": 50, "p95": 95, "p99": 99, "max": 100}
STEPS = 100
"""A summary has one value more than this."""


def percentiles(name: str) -> dict[str, Column]:
    """Return the ``PERCENTILES`` of all values of a column, from their sorted array in ``<name>_values``."""
    return {f"{name}_{how}": _at(f"{name}_values", sf.lit(percent)) for how, percent in PERCENTILES.items()}


def summary(values: str) -> Column:
    """Return the summary of a sorted array of all values; null if it is empty."""
    percents = sf.sequence(sf.lit(0), sf.lit(STEPS))
    return sf.when(sf.size(values) > 0, sf.transform(percents, lambda percent: _at(values, percent)))


def _at(values: str, percent: Column) -> Column:
    """Return the first value whose rank is at least a percentage; null if there is none."""
    return sf.get(values, (_rank(sf.size(values), percent) - 1).cast("int"))


def _rank(size: Column, percent: Column) -> Column:
    """Return the least rank, from 1, that is at least a percentage."""
    return sf.greatest(sf.ceil(size * percent / STEPS), sf.lit(1))


def merged(rows: DataFrame, by: Sequence[str], values: str, known: str, percent: int) -> DataFrame:
    """Merge the summaries ``values`` of ``known`` values each.

    Return, for each group with a value, ``merged``, their percentile, and ``merged_known``, their number.
    """

    def until(at: Column) -> Column:
        return sf.when(at >= 0, _rank(sf.col(known), at)).otherwise(0)

    # Each value stands for those of the ranks after that of the value before it.
    counted = sf.transform(
        values, lambda value, at: sf.struct(value.alias("merged"), (until(at) - until(at - 1)).alias("count"))
    )
    each = rows.where(sf.col(known) > 0).select(*by, sf.inline(counted))
    rank = sf.sum("count").over(Window.partitionBy(*by).orderBy("merged"))
    total = sf.sum("count").over(Window.partitionBy(*by))
    return (
        each.select(*by, "merged", rank.alias("rank"), total.alias("merged_known"))
        .where(sf.col("rank") * STEPS >= sf.col("merged_known") * percent)
        .groupBy(*by)
        .agg(sf.min("merged").alias("merged"), sf.max("merged_known").alias("merged_known"))
    )
