"""The life of messages as inventories show it: how long they waited and were held, how often they came back.

An inventory is a picture: what came and went between two of them was never seen. Of the messages that were seen, long
ones are seen more often than short ones, so that holding times and shares of expired messages are rather too high.

A message that is gone was deleted between its last sighting and the end of the inventory that follows. The middle of
the two is taken, which is off by at most half of that time: about half of the interval between inventories.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import LIFECYCLE, STATISTICS
from rsmq_tui.pipeline.transforms.conforming import DAY, conform
from rsmq_tui.pipeline.transforms.inventories import DAY_NO, day_name, day_numbers
from rsmq_tui.pipeline.transforms.samples import QUEUE
from rsmq_tui.protocol import SECONDS_BELOW

SKETCH_K = 1024
"""The size of the sketches of holding times: up to so many are kept as they are, beyond a rank is off by 0.3 %."""

RC_COUNTS = 11
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def fates(seen: DataFrame, found: DataFrame) -> DataFrame:
    """Return what became of each message that ``sightings`` returned; ``found`` are the inventories.

    ``waiting_ms`` and ``holding_ms`` are null where they are not known, and where the times contradict each other: a
    message that was received before it was sent, or after it was seen, or in a unit other than milliseconds.
    """
    following = found.groupBy(*QUEUE, DAY_NO, "inventory_ms").agg(
        sf.max("next_end_ms").alias("next_end_ms"), sf.max("after_end_ms").alias("after_end_ms")
    )
    fr, sent = sf.col("fr_ms"), sf.col("sent_ms")
    is_fr_known = sf.col("is_received") & fr.between(SECONDS_BELOW, sf.col("seen_ms")) & (sent.isNull() | (sent <= fr))
    gone_ms = sf.col("seen_ms") + (sf.col("until_ms") - sf.col("seen_ms")) / 2
    return (
        seen.join(following, on=[*QUEUE, DAY_NO, "inventory_ms"])
        .withColumns(
            {
                "until_ms": sf.coalesce("next_end_ms", sf.when(~sf.col("goes_on"), sf.col("after_end_ms"))),
                "is_received": sf.col("rc") >= 1,
                "is_expired": (sf.col("rc") >= 2) | ((sf.col("rc") >= 1) & sf.col("is_ready")),
                "is_final": ~sf.col("goes_on"),
            }
        )
        .withColumns(
            {
                "waiting_ms": sf.when(is_fr_known & (sent >= SECONDS_BELOW), (fr - sent).cast("double")),
                "holding_ms": sf.when(is_fr_known, gone_ms - fr),
            }
        )
    )


def lifecycle(ends: DataFrame, found: DataFrame, days: Sequence[str], poison_rc: int) -> DataFrame:
    """Return the table ``lifecycle``: a row for each queue and day with a whole inventory, whether it held any or not.

    ``ends`` are what ``fates`` returned for these days, ``found`` the inventories.
    """
    rc, is_received, is_expired, is_final = map(sf.col, ("rc", "is_received", "is_expired", "is_final"))
    counts = [sf.count_if(rc == number) for number in range(RC_COUNTS - 1)]
    messages = ends.groupBy(*QUEUE, DAY_NO).agg(
        sf.count("*").alias("messages"),
        sf.count_if(is_received).alias("received"),
        sf.count("until_ms").alias("gone"),
        *_statistics("waiting_ms"),
        *_statistics("holding_ms"),
        sf.array(*counts, sf.count_if(rc >= RC_COUNTS - 1)).alias("rc_counts"),
        sf.count_if(rc >= poison_rc).alias("poison"),
        sf.count_if(is_expired).alias("expired"),
        sf.count_if(is_received & is_final).alias("final_received"),
        sf.count_if(is_expired & is_final).alias("final_expired"),
        sf.when(sf.count("holding_ms") > 0, sf.kll_sketch_agg_double("holding_ms", SKETCH_K)).alias(
            "holding_ms_sketch"
        ),
    )
    whole = (
        found.where(sf.col("end_ms").isNotNull() & sf.col(DAY_NO).isin(day_numbers(days)))
        .groupBy(*QUEUE, DAY_NO)
        .agg(sf.count("*").alias("inventories"), sf.max("inventory_ms").alias("last_inventory_ms"))
    )
    none: dict[str, bool | float | int | str] = dict.fromkeys(
        ("messages", "received", "gone", "poison", "expired", "final_received", "final_expired"), 0
    )
    rows = whole.join(messages, on=[*QUEUE, DAY_NO], how="left").fillna(none)
    no_counts = sf.array_repeat(sf.lit(0).cast("bigint"), RC_COUNTS)
    return conform(
        rows.withColumns({DAY: day_name(sf.col(DAY_NO)), "rc_counts": sf.coalesce("rc_counts", no_counts)})
        .withColumns(_columns("waiting_ms") | _columns("holding_ms")),
        LIFECYCLE,
    )  # fmt: skip


def _statistics(name: str) -> tuple[Column, ...]:
    """Return the statistics of a column; the percentiles are exact, and in one array, since they are of one sorting."""
    return (
        *(getattr(sf, how)(name).alias(f"{name}_{how}") for how in STATISTICS if how not in _QUANTILES),
        sf.percentile(name, list(_QUANTILES.values())).alias(f"{name}_percentiles"),
    )


def _columns(name: str) -> dict[str, Column]:
    """Return a column for each percentile."""
    return {f"{name}_{how}": sf.col(f"{name}_percentiles")[at] for at, how in enumerate(_QUANTILES)}
