"""Messages that were received too often: day by day, and over all days."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import POISON, POISON_DAYS
from rsmq_tui.pipeline.transforms.conforming import DAY, conform
from rsmq_tui.pipeline.transforms.inventories import DAY_NO, INVENTORY, day_name, day_numbers
from rsmq_tui.pipeline.transforms.samples import QUEUE

_FACTS = ("sent_ms", "fr_ms", "rc", "size")


def poison_days(rows: DataFrame, found: DataFrame, days: Sequence[str], poison_rc: int) -> DataFrame:
    """Return the table ``poison_days``: the messages that a whole inventory of a day showed received too often.

    ``rows`` and ``found`` are what ``observed`` and ``inventories`` return. Everything is as it was when it was last
    seen received too often.
    """
    cut = found.where(sf.col("end_ms").isNull()).select(*INVENTORY)
    is_meant = (
        sf.col("id").isNotNull() & (sf.col("rc") >= poison_rc) & sf.col(DAY_NO).isin(day_numbers(days))
    )  # fmt: skip
    # They are few: of these the order may be what reads best.
    last = sf.struct("seen_ms", *_FACTS)
    grouped = (
        rows.where(is_meant)
        .join(sf.broadcast(cut), on=list(INVENTORY), how="left_anti")
        .groupBy(*QUEUE, "id", DAY_NO)
        .agg(sf.max(last).alias("last"), *_seen("inventory_ms", "inventory_ms"))
    )
    named = grouped.withColumns({DAY: day_name(sf.col(DAY_NO)), **{name: sf.col(f"last.{name}") for name in _FACTS}})
    return conform(named, POISON_DAYS)


def poison(days: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return the table ``poison``: each such message once, as it was on the last of its days."""
    last = sf.struct("last_seen_ms", *_FACTS)
    messages = days.groupBy(*QUEUE, "id").agg(sf.max(last).alias("last"), *_seen("first_seen_ms", "last_seen_ms"))
    queues = lifecycle.groupBy(*QUEUE).agg(sf.max("last_inventory_ms").alias("last_inventory_ms"))
    is_there = sf.col("last_seen_ms") >= sf.col("last_inventory_ms")
    joined = messages.join(queues, on=list(QUEUE), how="left")
    return conform(
        joined.withColumns({"is_there": is_there, **{name: sf.col(f"last.{name}") for name in _FACTS}}), POISON
    )


def _seen(first: str, last: str) -> tuple[Column, Column]:
    return sf.min(first).alias("first_seen_ms"), sf.max(last).alias("last_seen_ms")
