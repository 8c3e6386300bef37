"""Hours in which a queue was far from what is usual for it at that hour of the week."""

from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ANOMALIES
from rsmq_tui.pipeline.transforms.baseline import compared
from rsmq_tui.pipeline.transforms.conforming import conform

HOURS_MIN = 3
"""So many hours, each of another week, have to be known before one of them can be called unusual."""

SIGMAS_IN_MAD = 1.4826
"""The standard deviation of what is normally distributed, in median absolute deviations."""

SHARE_OF_MEDIAN = 0.05
FLOORS = {"depth": 1.0, "oldest_ready_age_ms": 5_000.0, "arrivals_s": 0.01, "deletes_s": 0.01, "receives_s": 0.01}
"""A deviation counts as no smaller than this, nor than that share of the median: a queue that is the same each week
would else be unusual at its first change by one message."""


def anomalies(hours: DataFrame, score: float) -> DataFrame:
    """Return the table ``anomalies``, from ``rollup_1h`` of all days: hours that are ``score`` deviations away or more.

    The judged hour is among those that the median is of. That is a median's strength: one of three moves it by little.
    """
    floors = sf.create_map(*chain.from_iterable((sf.lit(metric), sf.lit(floor)) for metric, floor in FLOORS.items()))
    deviation = sf.greatest(
        sf.col("mad") * SIGMAS_IN_MAD, sf.abs("median") * SHARE_OF_MEDIAN, floors[sf.col("metric")]
    )  # fmt: skip
    judged = compared(hours).where(sf.col("hours") >= HOURS_MIN)
    scored = judged.withColumn("score", (sf.col("value") - sf.col("median")) / deviation)
    return conform(scored.where(sf.abs("score") >= score), ANOMALIES)
