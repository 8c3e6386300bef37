"""What happened between two samples of a queue, from its counters."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

INTERVAL_MAX_MS = 3_600_000
"""Counters of samples that are further apart tell of no moment in particular."""

RATES = ("arrivals", "deletes", "receives", "redeliveries")

_COUNTERS = ("depth", "hidden", "totalsent", "totalrecv")


def with_rates(samples: DataFrame) -> DataFrame:
    """Return each sample once, with what happened since the row before of its recorder and queue.

    Duplicates are dropped. ``follows`` tells whether the recorder saw the queue in the poll before, within an hour;
    then ``arrivals``, ``deletes``, ``receives`` and ``redeliveries`` are messages since then, and those with ``_s``
    messages a second; null where a counter is unknown, and where one fell: then the queue was created anew in between.
    Deletes are what arrived and is not there any more. Each receive hides a message, and a delete or an expiry brings
    it back to light: what the receives exceed deletes and the growth of ``hidden`` by has expired, and is to be
    received again. ``covered_ms`` is the time that arrivals are known of.

    The counters themselves and ``interval_ms`` are not among the columns any more.
    """
    by_time = Window.partitionBy("profile", "server", "ns", "queue", "recorder").orderBy("at_ms")
    lagged = samples.withColumns(
        {"earlier_ms": sf.lag("at_ms").over(by_time)}
        | {f"earlier_{name}": sf.lag(name).over(by_time) for name in _COUNTERS}
    ).where(~sf.col("at_ms").eqNullSafe(sf.col("earlier_ms")))
    interval_ms = sf.col("interval_ms")
    follows = (interval_ms <= INTERVAL_MAX_MS) & (interval_ms == sf.col("at_ms") - sf.col("earlier_ms"))
    is_anew = (_change("totalsent") < 0) | (_change("totalrecv") < 0)
    counted = lagged.withColumn("follows", sf.coalesce(follows, sf.lit(False))).withColumn(
        "is_counted", sf.col("follows") & ~sf.coalesce(is_anew, sf.lit(False))
    )
    arrivals, receives = _change("totalsent"), _change("totalrecv")
    deletes = _not_negative(sf.try_subtract(arrivals, _change("depth")))
    redeliveries = _not_negative(sf.try_subtract(sf.try_subtract(receives, deletes), _change("hidden")))
    counts = dict(zip(RATES, (arrivals, deletes, receives, redeliveries), strict=True))
    with_counts = counted.withColumns({name: sf.when(sf.col("is_counted"), count) for name, count in counts.items()})
    return (
        with_counts.withColumns({f"{name}_s": sf.col(name) / (interval_ms / 1000) for name in RATES})
        .withColumn("covered_ms", sf.when(sf.col("arrivals").isNotNull(), interval_ms))
        .drop("interval_ms", "is_counted", "earlier_ms", "totalsent", "totalrecv")
        .drop(*(f"earlier_{name}" for name in _COUNTERS))
    )


def _change(name: str) -> Column:
    """By how much a number changed; null where that is no number any more: any client may write any counter."""
    return sf.try_subtract(name, f"earlier_{name}")


def _not_negative(number: Column) -> Column:
    # Not greatest(), for which null is less than 0.
    return sf.when(number < 0, 0).otherwise(number)
