"""Inventories: which of them are whole, which follows which, and what each message was like when it was last seen.

Only whole inventories count: one without its ending row was cut short, and a message that is not in it may have been
there all the same. Several recorders of a place take inventories of their own, which may overlap, and all are true.

The inventory that follows another is the first of that queue that began after the other had ended. A message that it
does not hold was deleted before it ended. Where none follows on the same day, the first of the day after does that
began after all inventories of the day had ended; it has to end on the day that it began on, so that two days of rows
are all that a day's tables are made of.
"""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.pipeline.transforms.samples import DAY_MS, QUEUE

DAY_NO = "day_no"
"""Days since 1970, UTC."""

INVENTORY = (*QUEUE, "recorder", "inventory_ms")
_EPOCH = date(1970, 1, 1)

# What orders the sightings of a message within a day is packed into one number of 63 bits: a number is aggregated by
# hashing, a struct by sorting, which takes twice as long. When it was seen, from the day's start on: 28 bits, since an
# inventory has two days; in which inventory: 27 bits; then, should two recorders have read it in the same
# millisecond, the higher receive count and whether it was ready.
_INVENTORY_STEP = 1 << 8
_SEEN_STEP = _INVENTORY_STEP << 27
_RC_STEP = 2
_RC_MAX = 127


def day_numbers(days: Sequence[str]) -> list[int]:
    """Return the days since 1970 of days such as 2031-05-17."""
    return [(date.fromisoformat(day) - _EPOCH).days for day in days]


def day_name(day_no: Column) -> Column:
    """Return the day such as 2031-05-17, whatever the session's time zone."""
    return sf.date_add(sf.lit(_EPOCH), day_no.cast("int")).cast("string")


def observed(messages: DataFrame, days: Sequence[str]) -> DataFrame:
    """Return the rows of inventories that began on one of these days, or on the day after one.

    With ``day_no``, the day that the inventory began on, and ``seen_ms``. What lies more than a day from the
    beginning of its inventory is left out: no inventory takes so long.
    """
    numbers = day_numbers(days)
    wanted = sorted({*numbers, *(number + 1 for number in numbers)})
    day_no = _day_of("inventory_ms")
    return messages.where(
        day_no.isin(wanted) & (_day_of("at_ms") - day_no).isin(0, 1) & sf.col("queue").isNotNull()
    ).withColumns({DAY_NO: day_no, "seen_ms": sf.greatest("at_ms", "inventory_ms")})


def inventories(rows: DataFrame) -> DataFrame:
    """Return the inventories in what ``observed`` returned, also those that were cut short, whose ``end_ms`` is null.

    ``next_end_ms`` is the end of the one that follows on the same day; ``is_after`` marks the one that follows the day
    before, and ``after_end_ms`` is the end of the one that follows this day.
    """
    found = rows.groupBy(*INVENTORY, DAY_NO).agg(
        sf.max(sf.when(sf.col("id").isNull(), sf.col("seen_ms"))).alias("end_ms")
    )
    queue = Window.partitionBy(*QUEUE).orderBy(DAY_NO)
    day = Window.partitionBy(*QUEUE, DAY_NO)
    day_before, day_after = queue.rangeBetween(-1, -1), queue.rangeBetween(1, 1)
    after = sf.when(
        (_day_of("end_ms") == sf.col(DAY_NO)) & (sf.col("inventory_ms") > sf.max("end_ms").over(day_before)),
        sf.struct("inventory_ms", "recorder"),
    )
    this = sf.struct("inventory_ms", "recorder")
    return (
        _with_next(found)
        .withColumn("after", after)
        .withColumn("is_after", sf.coalesce(sf.min("after").over(day) == this, sf.lit(False)))
        .withColumn("after_end_ms", sf.max(sf.when(sf.col("is_after"), sf.col("end_ms"))).over(day_after))
        .drop("after")
    )


def _with_next(found: DataFrame) -> DataFrame:
    """Add ``next_end_ms``: walking back in time, the beginning that was last met before an end is what follows it."""
    # Of inventories that began together it is not told apart which of them showed a message last.
    together = Window.partitionBy(*QUEUE, DAY_NO, "inventory_ms")
    begins = sf.struct(sf.col("inventory_ms").alias("moment_ms"), sf.lit(False).alias("is_end"))
    ends = sf.struct(sf.coalesce("all_end_ms", "inventory_ms").alias("moment_ms"), sf.lit(True).alias("is_end"))
    # What begins in the millisecond in which another ends does not follow it; of those that begin together the one
    # that ends last is met last.
    walk = (
        Window.partitionBy(*QUEUE, DAY_NO)
        .orderBy(sf.desc("moment_ms"), sf.desc("is_end"), sf.asc_nulls_first("end_ms"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    met = sf.last(sf.when(~sf.col("is_end"), sf.col("end_ms")), ignorenulls=True)
    return (
        found.withColumn("all_end_ms", sf.max("end_ms").over(together))
        .withColumn("event", sf.explode(sf.array(begins, ends)))
        .select("*", "event.*")
        .withColumn("next_end_ms", met.over(walk))
        .where("is_end")
        .drop("event", "moment_ms", "is_end", "all_end_ms")
    )


def sightings(rows: DataFrame, found: DataFrame, days: Sequence[str]) -> DataFrame:
    """Return every message of every one of these days, as the whole inventories that began on it last showed it.

    ``rows`` and ``found`` are what ``observed`` and ``inventories`` return. ``seen_ms`` is when it was last seen, in
    the inventory ``inventory_ms``; ``goes_on`` tells whether the inventory that follows the day shows it too.
    """
    # Nearly all inventories are whole, and only one follows a day: what has to be known of the others is small.
    special = found.where(sf.col("end_ms").isNull() | sf.col("is_after")).select(
        *INVENTORY, "is_after", sf.col("end_ms").isNull().alias("is_cut")
    )
    number = sf.col("begun_no")
    seen_on = sf.when(sf.col("is_after"), sf.array(number, number - 1)).otherwise(sf.array(number))
    is_own = sf.col(DAY_NO) == number
    order = sf.when(is_own, _order())
    return (
        rows.where(sf.col("id").isNotNull())
        .join(sf.broadcast(special), on=list(INVENTORY), how="left")
        .where(~sf.coalesce("is_cut", sf.lit(False)))
        .withColumnRenamed(DAY_NO, "begun_no")
        .withColumn(DAY_NO, sf.explode(seen_on))
        .where(sf.col(DAY_NO).isin(day_numbers(days)))
        .groupBy("id", *QUEUE, DAY_NO)
        .agg(
            sf.max(order).alias("order"),
            *(sf.max_by(name, order).alias(name) for name in ("rc", "fr_ms", "sent_ms")),
            sf.bool_or(~is_own).alias("goes_on"),
        )
        .where(sf.col("order").isNotNull())
        .select("*", *_unpacked())
        .drop("order")
    )


def _order() -> Column:
    """Return what puts the sightings of a message within a day in order."""
    start_ms = sf.col("begun_no") * DAY_MS
    is_ready = sf.coalesce(sf.col("due_ms") <= sf.col("at_ms"), sf.lit(False))
    rc = sf.least(sf.greatest(sf.coalesce("rc", sf.lit(0)), sf.lit(0)), sf.lit(_RC_MAX))
    return (
        (sf.col("seen_ms") - start_ms) * _SEEN_STEP
        + (sf.col("inventory_ms") - start_ms) * _INVENTORY_STEP
        + rc * _RC_STEP
        + is_ready.cast("int")
    )


def _unpacked() -> tuple[Column, ...]:
    """Return what the order of the last sighting tells: when it was, in which inventory, and if it was ready."""
    start_ms, order = sf.col(DAY_NO) * DAY_MS, sf.col("order")
    in_day = sf.shiftright(order, 8)
    return (
        (start_ms + sf.shiftright(order, 35)).alias("seen_ms"),
        (start_ms + in_day.bitwiseAND(sf.lit((1 << 27) - 1).cast("long"))).alias("inventory_ms"),
        (order.bitwiseAND(sf.lit(1).cast("long")) == 1).alias("is_ready"),
    )


def _day_of(name: str) -> Column:
    return sf.floor(sf.col(name) / DAY_MS)
