"""Episodes: every period in which a queue was in trouble, or a place could not be polled."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import EPISODES
from rsmq_tui.pipeline.transforms.causes import cause
from rsmq_tui.pipeline.transforms.conforming import conform
from rsmq_tui.pipeline.transforms.samples import GAP_MS, PLACE, QUEUE

OVER, UNKNOWN, OPEN = "over", "unknown", "open"

_SUMS = ("samples", "arrivals", "deletes", "receives")
# Of a queue's kind there is one.
_PEAKS = ("peak_depth", "peak_ready", "peak_age_ms", "poison", "highest_rc", "expired", "kind")


def episodes_of(runs: DataFrame) -> DataFrame:
    """Return the episodes, from the runs of all hours.

    Runs of one verdict that follow on each other are one episode. It is over where another run of the queue follows on,
    which tells when it ended; open where nothing of the queue follows and its place was not polled afterwards; else it
    is unknown how it ended: a gap follows, an outage, or the queue was gone. It recovered where the queue was next ok,
    with nothing unknown in between. A queue that is being watched, so that nothing is known to be wrong, is in no
    episode.

    A place that could not be polled was up again, and had recovered, with the next sample of any of its queues, if that
    came within a minute of the last poll that failed.

    ``affected``, the messages that it concerned: of a growing queue those it gained from the first sample to its peak;
    of a stalled, leaking or aged one the most that were ready, or whose leases had expired; of a poisoned one the most
    that were received too often; of a broken one all that were in it, at the most. Null of a place that was down:
    nobody could count.
    """
    followed = _followed(_joined(runs))
    is_down = sf.col("verdict") == "down"
    is_up_soon = sf.col("up_ms") - sf.col("last_ms") <= GAP_MS
    is_over = sf.when(is_down, is_up_soon).otherwise(sf.col("next_continues"))
    next_ms = sf.when(is_down, sf.col("up_ms")).otherwise(sf.col("next_ms"))
    is_open = next_ms.isNull() & (sf.col("last_ms") == sf.col("place_last_ms"))
    troubles = followed.where(~sf.col("verdict").isin("ok", "watching")).withColumns(
        {
            "ended": sf.when(is_over, OVER).when(is_open, OPEN).otherwise(UNKNOWN),
            "end_ms": sf.when(is_over, next_ms).otherwise(sf.col("last_ms")),
            "recovered_ms": sf.when(is_down, sf.when(is_up_soon, sf.col("up_ms"))).otherwise(sf.col("ok_ms")),
            "affected": _affected(),
        }
    )
    told = troubles.withColumn("span_ms", sf.col("end_ms") - sf.col("start_ms")).withColumn("cause", cause())
    return conform(told, EPISODES)


def _joined(runs: DataFrame) -> DataFrame:
    """Return the runs with those joined that follow on each other and have one verdict: across the hours, that is."""
    by_time = Window.partitionBy(*QUEUE).orderBy("first_ms")
    is_same = sf.lag("verdict").over(by_time).eqNullSafe(sf.col("verdict")) & sf.col("continues")
    at_peak = sf.when(sf.col("peak_depth").isNotNull(), sf.struct("peak_depth", -sf.col("peak_ms")))
    return (
        runs.repartition(*QUEUE)
        .withColumn("is_start", sf.when(is_same, 0).otherwise(1))
        .withColumn("run", sf.sum("is_start").over(by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .groupBy(*QUEUE, "run", "verdict")
        .agg(
            sf.min("first_ms").alias("start_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.min_by(sf.struct("continues", "first_depth", "told"), "first_ms").alias("first"),
            sf.max_by("peak_ms", at_peak).alias("peak_ms"),
            *(sf.try_sum(name).alias(name) for name in _SUMS),
            *(sf.max(name).alias(name) for name in _PEAKS),
        )
        .withColumns({name: sf.col("first")[name] for name in ("continues", "first_depth", "told")})
    )


def _followed(runs: DataFrame) -> DataFrame:
    """Return the runs with what comes after each: of the queue, and in its place."""
    # The latest first: frames that begin at an end cost no more than a pass.
    by_queue = Window.partitionBy(*QUEUE).orderBy(sf.desc("start_ms"))
    later = by_queue.rowsBetween(Window.unboundedPreceding, -1)
    in_chain = Window.partitionBy(*QUEUE, "chain").orderBy(sf.desc("start_ms"))
    in_place = Window.partitionBy(*PLACE).orderBy(sf.desc("start_ms"))
    breaks = sf.sum(sf.when(sf.col("continues"), 0).otherwise(1)).over(later)
    is_ok, is_queue = sf.col("verdict") == "ok", sf.col("queue").isNotNull()
    followed = runs.withColumns(
        {
            "next_ms": sf.lag("start_ms").over(by_queue),
            "next_continues": sf.lag("continues").over(by_queue),
            "chain": sf.coalesce(breaks, sf.lit(0)),
        }
    ).withColumn(
        "ok_ms",
        sf.min(sf.when(is_ok, sf.col("start_ms"))).over(in_chain.rowsBetween(Window.unboundedPreceding, -1)),
    )
    # Of a place only the runs are wanted that tell when it was up, and its last sample: both are there in one pass.
    return followed.withColumns(
        {
            "up_ms": sf.min(sf.when(is_queue, sf.col("start_ms"))).over(
                in_place.rangeBetween(Window.unboundedPreceding, -1)
            ),
            "place_last_ms": sf.max("last_ms").over(Window.partitionBy(*PLACE)),
        }
    )


def _affected() -> Column:
    verdict = sf.col("verdict")
    gained = sf.col("peak_depth") - sf.col("first_depth")
    return (
        sf.when(verdict == "growing", gained)
        .when(verdict == "stalled", sf.greatest("peak_ready", "expired"))
        .when(verdict == "leaking", sf.col("expired"))
        .when(verdict == "aged", sf.col("peak_ready"))
        .when(verdict == "poisoned", sf.col("poison"))
        .when(verdict == "broken", sf.col("peak_depth"))
    )
