"""Tables that are quick to make, in place of the real ones: what is tested is how they are run, not what is in them.

They depend on all that the runner has to give them: rows once and more than once, the hour before, the day after.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ADVICE, LIFECYCLE, ROLLUP_1H, SCHEMAS, VERDICT_RUNS
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.transforms.columns import conform
from rsmq_tui.pipeline.transforms.samples import day_of, is_within
from rsmq_tui.pipeline.work_plan import midnight_ms

_DAY_MS = 86_400_000
_QUEUE = ("profile", "server", "ns", "queue")
Keep = Callable[[DataFrame], DataFrame]
TARGETS = {
    "sample_tables": "rsmq_tui.pipeline.batch_job.sample_tables",
    "message_tables": "rsmq_tui.pipeline.batch_job.message_tables",
    "whole_tables": "rsmq_tui.pipeline.batch_job.whole_tables",
}


def sample_tables(samples: DataFrame, hours: Collection[int], keep: Keep) -> dict[str, DataFrame]:
    """Per queue and hour: distinct samples of the hour and of the one before, their depths, and how many are down."""
    hour = sf.floor(sf.col("at_ms") / HOUR_MS)
    rows = (
        samples.withColumn("of", sf.explode(sf.array(hour, hour + 1)))
        .where(is_within(sf.col("of") * HOUR_MS, hours))
        .dropDuplicates(["recorder", *_QUEUE, "at_ms", "of"])
    )
    counted = (
        keep(rows)
        .groupBy((sf.col("of") * HOUR_MS).alias("bucket_ms"), *_QUEUE)
        .agg(
            sf.count(sf.lit(1)).alias("samples"),
            sf.max("at_ms").alias("last_ms"),
            sf.sum("depth").alias("last_depth"),
            sf.max("day").alias("kind"),
        )
        .withColumns({"day": day_of(sf.col("bucket_ms")), "first_ms": sf.col("bucket_ms")})
    )
    is_queue = sf.col("queue").isNotNull()
    return {
        ROLLUP_1H: _with_all_columns(counted.where(is_queue), ROLLUP_1H),
        VERDICT_RUNS: _with_all_columns(counted.where(~is_queue), VERDICT_RUNS),
    }


def message_tables(messages: DataFrame, days: Sequence[str], settings: Any) -> dict[str, DataFrame]:
    """Per queue and day: messages of the day and the day after, and those that are poison."""
    of = sf.array_compact(sf.array(*(_within(day, sf.lit(day)) for day in sorted(days))))
    rows = messages.withColumn("of", sf.explode(of)).dropDuplicates(["recorder", *_QUEUE, "at_ms", "id", "of"])
    counted = rows.groupBy(sf.col("of").alias("day"), *_QUEUE).agg(
        sf.count(sf.lit(1)).alias("messages"),
        sf.count_if(sf.col("rc") >= settings.poison_rc).alias("poison"),
    )
    return {LIFECYCLE: counted}


def whole_tables(tables: Mapping[str, DataFrame], settings: Any) -> dict[str, DataFrame]:
    """Per queue: what there is of it in all days."""
    del settings
    samples = tables[ROLLUP_1H].select(*_QUEUE, "samples", "last_depth", "day")
    messages = tables[LIFECYCLE].select(*_QUEUE, sf.col("messages").alias("samples"), sf.lit(0).alias("d"), "day")
    both = samples.unionAll(messages)
    return {ADVICE: both.groupBy(*_QUEUE).agg(sf.sum("samples").alias("samples"), sf.max("day").alias("kind"))}


def take_their_places(patch: Callable[[str, Any], AbstractContextManager[Any] | None]) -> None:
    """Put them in, by what patches a dotted name."""
    made = {"sample_tables": sample_tables, "message_tables": message_tables, "whole_tables": whole_tables}
    for name, target in TARGETS.items():
        patch(target, made[name])


def _with_all_columns(some: DataFrame, table: str) -> DataFrame:
    missing = [name for name in SCHEMAS[table].names if name not in some.columns]
    return conform(some.withColumns({name: sf.lit(None) for name in missing}), table)


def _within(day: str, value: Column) -> Column:
    """The value for what is of the day or of the one after it."""
    from_ms = midnight_ms(day)
    return sf.when((sf.col("at_ms") >= from_ms) & (sf.col("at_ms") < from_ms + 2 * _DAY_MS), value)


def endless(rows: DataFrame) -> DataFrame:
    """Rows that take a long time to come: for those who want to end it."""
    tens = reduce(lambda one, other: one.crossJoin(other), [rows.sparkSession.range(10**6).select("id")] * 2)
    slow = tens.where(reduce(or_, [sf.xxhash64(sf.rand()) == number for number in range(3)])).limit(1)
    return rows.crossJoin(sf.broadcast(slow)).drop("id")
