"""Inventories, the life of messages, and poison messages.

Only complete inventories count: if the last row is missing, the inventory was cut short, and a message that is not in
it may have been in the queue. Overlapping inventories of several recorders of a place all count.

The next inventory of a queue is the first that began after this one ended. A message that it does not contain was
deleted before it ended. If none follows on the same day, the first of the next day is used that began after all
inventories of this day had ended, and that ended on the day on which it began. So the tables of a day need at most two
days of rows.

Messages that came and went between two inventories are not recorded. Long-lived messages are recorded more often than
short-lived ones, so holding times and shares of expired messages tend to be too high. A message that is gone was
deleted between its last inventory and the end of the next: the middle is used, with an error of at most half of that
time.

Older versions read scores before receive counts. A message that was received in between is recorded as ready, with a
first receive that is not before it was read: it had not come back, it was in flight.
"""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import LIFECYCLE, POISON, POISON_DAYS
from rsmq_tui.monitor.moments import DAY_MS
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.columns import DAY, conform
from rsmq_tui.pipeline.transforms.quantiles import percentiles, summary
from rsmq_tui.pipeline.transforms.samples import QUEUE
from rsmq_tui.protocol import SECONDS_BELOW

DAY_NO = "day_no"
"""Days since 1970, UTC."""

INVENTORY = (*QUEUE, "recorder", "inventory_ms")
_EPOCH = date(1970, 1, 1)

# The sort key of the sightings of a message within a day is packed into one number of 63 bits: Spark aggregates numbers
# by hashing, but structs by sorting, which takes twice as long. It holds the time since the start of the day (28 bits,
# since an inventory may last into the next day), the inventory (27 bits), and, in case two recorders read it in the
# same millisecond, the receive count and whether it was ready.
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
    """Return the rows of inventories that began on one of these days, or on the day after.

    Adds ``day_no``, the day on which the inventory began, and ``seen_ms``. Rows more than a day away from the start of
    their inventory are invalid and left out.
    """
    numbers = day_numbers(days)
    wanted = sorted({*numbers, *(number + 1 for number in numbers)})
    day_no = _day_of("inventory_ms")
    return messages.where(
        day_no.isin(wanted) & (_day_of("at_ms") - day_no).isin(0, 1) & sf.col("queue").isNotNull()
    ).withColumns({DAY_NO: day_no, "seen_ms": sf.greatest("at_ms", "inventory_ms")})


def inventories(rows: DataFrame) -> DataFrame:
    """Return the inventories in the rows of ``observed``; ``end_ms`` is null for those that were cut short.

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
    """Add ``next_end_ms``: going back in time, the last start met before an end is the inventory that follows it."""
    # Inventories that began at the same time are not distinguished.
    together = Window.partitionBy(*QUEUE, DAY_NO, "inventory_ms")
    begins = sf.struct(sf.col("inventory_ms").alias("moment_ms"), sf.lit(False).alias("is_end"))
    ends = sf.struct(sf.coalesce("all_end_ms", "inventory_ms").alias("moment_ms"), sf.lit(True).alias("is_end"))
    # An inventory that begins in the millisecond in which another ends does not follow it; of those that begin at the
    # same time, the one that ends last is met last.
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
    """Return every message of each of these days, as last seen in a complete inventory that began on that day.

    ``rows`` and ``found`` are what ``observed`` and ``inventories`` return. ``seen_ms`` is when it was last seen, in
    the inventory ``inventory_ms``; ``goes_on`` says whether the inventory that follows the day contains it too.
    """
    # Nearly all inventories are complete, and only one follows a day: the exceptions are few. There are never more than
    # inventories, about 100 bytes each, while an inventory has a row for each message. Without the hint, Spark would
    # shuffle all messages before it knows that.
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
    """Return the sort key of the sightings of a message within a day."""
    start_ms = sf.col("begun_no") * DAY_MS
    is_in_flight = sf.coalesce(sf.col("fr_ms") >= sf.col("at_ms"), sf.lit(False))
    is_ready = sf.coalesce(sf.col("due_ms") <= sf.col("at_ms"), sf.lit(False)) & ~is_in_flight
    rc = sf.least(sf.greatest(sf.coalesce("rc", sf.lit(0)), sf.lit(0)), sf.lit(_RC_MAX))
    return (
        (sf.col("seen_ms") - start_ms) * _SEEN_STEP
        + (sf.col("inventory_ms") - start_ms) * _INVENTORY_STEP
        + rc * _RC_STEP
        + is_ready.cast("int")
    )


def _unpacked() -> tuple[Column, ...]:
    """Unpack the sort key of the last sighting: its time, its inventory, and whether it was ready."""
    start_ms, order = sf.col(DAY_NO) * DAY_MS, sf.col("order")
    in_day = sf.shiftright(order, 8)
    return (
        (start_ms + sf.shiftright(order, 35)).alias("seen_ms"),
        (start_ms + in_day.bitwiseAND(sf.lit((1 << 27) - 1).cast("long"))).alias("inventory_ms"),
        (order.bitwiseAND(sf.lit(1).cast("long")) == 1).alias("is_ready"),
    )


def _day_of(name: str) -> Column:
    return sf.floor(sf.col(name) / DAY_MS)


RC_COUNTS = 11


def fates(seen: DataFrame, found: DataFrame) -> DataFrame:
    """Return the outcome of each message of ``sightings``; ``found`` are the inventories.

    ``waiting_ms`` and ``holding_ms`` are null if they are unknown, or if the times contradict each other: received
    before it was sent, received after it was seen, or not in milliseconds.
    """
    following = found.groupBy(*QUEUE, DAY_NO, "inventory_ms").agg(
        sf.max("next_end_ms").alias("next_end_ms"), sf.max("after_end_ms").alias("after_end_ms")
    )
    fr, sent = sf.col("fr_ms"), sf.col("sent_ms")
    is_fr_known = sf.col("is_received") & fr.between(SECONDS_BELOW, sf.col("seen_ms")) & (sent.isNull() | (sent <= fr))
    error_ms = (sf.col("until_ms") - sf.col("seen_ms")) / 2
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
                "holding_ms": sf.when(is_fr_known, sf.col("seen_ms") + error_ms - fr),
                "error_ms": sf.when(is_fr_known, error_ms),
            }
        )
    )


def lifecycle(ends: DataFrame, found: DataFrame, days: Sequence[str], poison_rc: int) -> DataFrame:
    """Return the table ``lifecycle``: a row for each queue and day with a complete inventory, also an empty one.

    ``ends`` is the result of ``fates`` for these days, ``found`` are the inventories.
    """
    rc, is_received, is_expired, is_final = map(sf.col, ("rc", "is_received", "is_expired", "is_final"))
    counts = [sf.count_if(rc == number) for number in range(RC_COUNTS - 1)]
    messages = ends.groupBy(*QUEUE, DAY_NO).agg(
        sf.count("*").alias("messages"),
        sf.count_if(is_received).alias("received"),
        sf.count("until_ms").alias("gone"),
        sf.count("holding_ms").alias("holding_ms_known"),
        *_values("waiting_ms"),
        *_values("holding_ms"),
        *_values("error_ms"),
        sf.array(*counts, sf.count_if(rc >= RC_COUNTS - 1)).alias("rc_counts"),
        sf.count_if(rc >= poison_rc).alias("poison"),
        sf.count_if(is_expired).alias("expired"),
        sf.count_if(is_received & is_final).alias("final_received"),
        sf.count_if(is_expired & is_final).alias("final_expired"),
    )
    whole = (
        found.where(sf.col("end_ms").isNotNull() & sf.col(DAY_NO).isin(day_numbers(days)))
        .groupBy(*QUEUE, DAY_NO)
        .agg(sf.count("*").alias("inventories"), sf.max("inventory_ms").alias("last_inventory_ms"))
    )
    counted = (
        *("messages", "received", "gone", "holding_ms_known", "poison", "expired"),
        *("final_received", "final_expired"),
    )
    none: dict[str, bool | float | int | str] = dict.fromkeys(counted, 0)
    rows = whole.join(messages, on=[*QUEUE, DAY_NO], how="left").fillna(none)
    no_counts = sf.array_repeat(sf.lit(0).cast("bigint"), RC_COUNTS)
    return conform(
        rows.withColumns(
            {
                DAY: day_name(sf.col(DAY_NO)),
                "rc_counts": sf.coalesce("rc_counts", no_counts),
                **percentiles("waiting_ms"),
                **percentiles("holding_ms"),
                "holding_error_ms": percentiles("error_ms")["error_ms_p99"],
                "holding_ms_quantiles": summary("holding_ms_values"),
            }
        ),
        LIFECYCLE,
    )


def _values(name: str) -> tuple[Column, Column]:
    return sf.mean(name).alias(f"{name}_mean"), sf.sort_array(sf.collect_list(name)).alias(f"{name}_values")


_FACTS = ("sent_ms", "fr_ms", "rc", "size")


def poison_days(rows: DataFrame, found: DataFrame, days: Sequence[str], poison_rc: int) -> DataFrame:
    """Return the table ``poison_days``: the poison messages in complete inventories of a day.

    ``rows`` and ``found`` are the results of ``observed`` and ``inventories``. Values are as of the last inventory in
    which the message was poison.
    """
    # As few as in ``sightings``.
    cut = found.where(sf.col("end_ms").isNull()).select(*INVENTORY)
    is_meant = (
        sf.col("id").isNotNull() & (sf.col("rc") >= poison_rc) & sf.col(DAY_NO).isin(day_numbers(days))
    )  # fmt: skip
    # There are few, so that sorting structs is fast enough.
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


def message_tables(messages: DataFrame, days: Sequence[str], settings: AnalysisSettings) -> dict[str, DataFrame]:
    """Return ``lifecycle`` and ``poison_days`` of these days, with ``day`` in front.

    ``messages`` are the recorded rows of these days and of the day after each, which has the inventories that follow
    those of the day. The result is the same if days are computed together or one by one.

    The inventories, one row each, stay in Spark's cache until the caller clears it.
    """
    rows = observed(messages, days)
    # They are used four times, each of which would read all messages.
    found = inventories(rows).cache()
    ends = fates(sightings(rows, found, days), found)
    return {
        LIFECYCLE: lifecycle(ends, found, days, settings.poison_rc),
        POISON_DAYS: poison_days(rows, found, days, settings.poison_rc),
    }
