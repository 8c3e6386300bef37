"""Which visibility timeout a queue should have, by how long its messages were held.

The holding time counts from the first receive until the message was deleted, whatever happened in between: of a message
that came back it holds the wait for the next receive as well. A vt that covers it is on the safe side.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ADVICE
from rsmq_tui.pipeline.transforms.conforming import conform
from rsmq_tui.pipeline.transforms.outlook_words import joined, seconds, share
from rsmq_tui.pipeline.transforms.queues import last_known
from rsmq_tui.pipeline.transforms.samples import QUEUE
from rsmq_tui.pipeline.transforms.wording import count, plural

KNOWN_MIN = 20
"""With fewer holding times than this nothing is advised."""

_COVERED = 0.99
_EXPIRED_MAX = 0.01


def advice(lifecycle: DataFrame, hours: DataFrame) -> DataFrame:
    """Return the table ``advice``, from ``lifecycle`` and ``rollup_1h`` of all days, for queues with inventories.

    Where hardly any message came back, the vt that is set covers them: no holding time that inventories hours apart
    tell says it better.
    """
    attributes = hours.where(sf.col("queue").isNotNull()).groupBy(*QUEUE).agg(last_known("vt_s"))
    found = (
        lifecycle.groupBy(*QUEUE)
        .agg(
            sf.coalesce(sf.sum("final_received"), sf.lit(0)).alias("received"),
            sf.sum("final_expired").alias("expired"),
            sf.count("holding_ms_sketch").alias("sketches"),
            sf.kll_merge_agg_double("holding_ms_sketch").alias("sketch"),
        )
        .join(attributes, on=list(QUEUE), how="left")
    )
    is_known = sf.col("sketches") > 0
    known = found.withColumns(
        {
            "known": sf.coalesce(sf.when(is_known, sf.kll_sketch_get_n_double("sketch")), sf.lit(0)),
            "holding_ms_p99": sf.when(is_known, sf.kll_sketch_get_quantile_double("sketch", sf.lit(_COVERED))),
            "expired_share": sf.when(sf.col("received") > 0, sf.col("expired") / sf.col("received")),
        }
    )
    enough = sf.col("known") >= KNOWN_MIN
    covering_s = sf.ceil(sf.col("holding_ms_p99") / 1000).cast("double")
    # A holding time may be off by half the time between two inventories, and is never less than that.
    advised_s = sf.when(_is_enough(), sf.least(covering_s, sf.col("vt_s"))).otherwise(covering_s)
    advised = known.withColumn("advised_vt_s", sf.when(enough, advised_s))
    return conform(advised.withColumn("told", _told()), ADVICE)


def _told() -> Column:
    vt_s, advised_s, expired = sf.col("vt_s"), sf.col("advised_vt_s"), sf.coalesce("expired_share", sf.lit(0.0))
    came_back = joined(share(expired), " of ", plural(sf.col("received"), "received message"), " became visible again")
    covers = joined("vt ", seconds(vt_s), " covers 99 % of the holding times")
    now = sf.coalesce(joined(" (now ", seconds(vt_s), ")"), sf.lit(""))
    would_cover = joined("; a vt of ", seconds(advised_s), now, " would cover 99 %")
    is_covered = sf.col("holding_ms_p99") <= vt_s * 1000
    is_enough = joined("vt ", seconds(vt_s), " is enough: ", came_back)
    return (
        sf.when(advised_s.isNull(), joined("not enough data (", count(sf.col("known")), " completed)"))
        .when(is_covered & (expired > 0), joined(covers, ", but ", came_back))
        .when(is_covered, covers)
        .when(_is_enough(), is_enough)
        .otherwise(joined(came_back, " before they were deleted", would_cover))
    )


def _is_enough() -> Column:
    return sf.coalesce((sf.col("expired_share") <= _EXPIRED_MAX) & sf.col("vt_s").isNotNull(), sf.lit(False))
