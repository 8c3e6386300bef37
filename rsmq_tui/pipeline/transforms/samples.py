"""From the rows of a history to deduplicated samples with rates, and to their roll-ups and runs of verdicts by day.

Several recorders may poll one place. In each minute one of them counts: the one with the most successful polls, or with
the smallest id of several that poll as often. A recorder that has just begun counts only if no other one polled, or
hardly: it does not know what went on before, and its verdicts would end troubles that go on. The counters are the
server's, so what happened between two samples that count is the difference of their counters, whichever recorders took
them.

The samples are shuffled and sorted once, by queue and time. All tables of samples are computed from that, so that no
second shuffle or sort is needed.
"""

from collections.abc import Callable, Collection, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from rsmq_tui.history.analysis.schema import (
    METRICS,
    PLACES,
    ROLLUP_1H,
    ROLLUP_1M,
    ROLLUP_10S,
    SERVER_RUNS,
    STATISTICS,
    VERDICT_RUNS,
    WIDTHS_MS,
)
from rsmq_tui.history.analysis.values import AGE, WAITING
from rsmq_tui.history.schema import OK
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.pipeline.transforms.columns import DAY, conform
from rsmq_tui.pipeline.transforms.quantiles import percentiles, summary

INTERVAL_MAX_MS = HOUR_MS
"""Samples that are further apart give no rates."""

RATES = ("arrivals", "deletes", "receives", "redeliveries")
PLACE = ("profile", "server", "ns")
QUEUE = (*PLACE, "queue")
GAP_MS = MINUTE_MS
"""Samples that are further apart, and not consecutive polls of one recorder, have a gap in between."""

BEGUN_MINUTES = 10
"""So many minutes a recorder has just begun, after its first poll and after an outage, in the hour of that."""

DENSE_SHARE, RARE_SHARE = 0.8, 0.15
"""Shares of the most polls in a minute: a recorder with the first one polls as often, because numbers vary by one or
two; one with less than the second one polls too rarely to count instead of one that has just begun."""

_COUNTERS = ("depth", "hidden", "totalsent", "totalrecv")
_READ = ("at_ms", "interval_ms", "recorder", *QUEUE, "kind", "created_ms", "depth", "hidden", "totalsent", "totalrecv")
# What is not compared with the sample before. In one column it is copied at once, by each of the windows.
_REST = (
    *("ready", AGE, WAITING, "vt_s", "maxsize", "poison", "highest_rc", "expired"),
    *("since_ms", "pending_since_ms", "since_depth"),
)


def day_of(at_ms: Column) -> Column:
    """Return the UTC day of a moment, such as 2031-05-17, whatever the session's time zone is."""
    return sf.date_from_unix_date(sf.floor(at_ms / DAY_MS).cast("int")).cast("string")


def is_within(at_ms: Column, hours: Collection[int]) -> Column:
    """Return whether a moment is in one of some hours."""
    if not hours:
        return sf.lit(False)
    first, last = min(hours), max(hours)
    # This condition lets Spark skip files; there may be thousands of hours, too many for a condition each.
    is_near = (at_ms >= first * HOUR_MS) & (at_ms < (last + 1) * HOUR_MS)
    return is_near if last - first < len(set(hours)) else is_near & sf.floor(at_ms / HOUR_MS).isin(sorted(set(hours)))


Keep = Callable[[DataFrame], DataFrame]
"""Caches rows that are used several times; the caller that passes it must release them."""


def persisted(rows: DataFrame) -> DataFrame:
    """Cache rows once they are computed, in memory and, if that is full, on disk."""
    return rows.persist(StorageLevel.MEMORY_AND_DISK)


def annotated_samples(samples: DataFrame, hours: Collection[int], keep: Keep = persisted) -> DataFrame:
    """Return the samples of some hours: distinct, of one recorder at a time, with rates and continuity.

    Adds the columns of ``_counted``, and the starts of its buckets, by the names of the roll-ups. In rows without a
    queue, ``verdict`` is ``down`` if the poll failed, and otherwise ``ok``. ``continues`` says whether nothing is
    unknown between a sample and the one before of its queue; the queue is another one if it was created at another
    time. A run of one verdict begins where the verdict changes, after a gap, with another queue, and on the hour.
    ``run_ms``, ``run_kind``, ``run_created_ms`` and ``told``, why the poll failed or the queue was broken, are of the
    first sample of the run. The result for an hour depends only on it and on the hour before, so any hour can be
    computed separately.

    A sample continues if its recorder polled without a break since the sample before, or if that is at most a minute
    older and no poll failed in between. A failed poll continues only another failed poll, and a row of a poll that
    succeeded only another one.
    """
    rows = samples.where(is_within(sf.col("at_ms"), {read for hour in hours for read in (hour - 1, hour)}))
    is_queue = sf.col("queue").isNotNull()
    read = rows.select(
        *_READ,
        sf.struct(*_REST).alias("rest"),
        sf.when(is_queue, sf.col("verdict")).when(_is_down(), "down").otherwise("ok").alias("verdict"),
        sf.coalesce("broken", "failure").alias("told"),
    )
    minutes = keep(minutes_in_doubt(rows))
    # With its size known, Spark sends a small table to all tasks, so that the samples are not shuffled for it.
    minutes.count()
    return _with_runs(_of_counted_recorder(read, minutes).repartition(*QUEUE), hours)


def minutes_in_doubt(samples: DataFrame) -> DataFrame:
    """Return the minutes of places in which not just one recorder polled, and successfully.

    ``counted`` is the recorder that counts in the minute, null if the row is only for failures of the minute before. It
    is one with a successful poll, if there is one, and then one that has not just begun, if that does not poll rarely.
    Of these it is the one with the most polls; of several with about as many the one with the smallest id, so that two
    recorders with the same interval do not take turns. ``failed_ms`` are the times of its failed polls, of this minute
    and of the one before.
    """
    # Within an hour, so that the result for it does not depend on earlier ones.
    recent = Window.partitionBy(*PLACE, "recorder", sf.floor(sf.col("minute") / 60)).orderBy("minute")
    polls = (
        samples.where(sf.col("queue").isNull())
        .groupBy(*PLACE, _minute().alias("minute"), "recorder")
        .agg(
            sf.collect_set(sf.when(~_is_down(), sf.col("at_ms"))).alias("answered_ms"),
            sf.collect_set(sf.when(_is_down(), sf.col("at_ms"))).alias("failed_ms"),
            sf.bool_or(sf.col("interval_ms").isNull()).alias("begins"),
        )
        .withColumn("has_begun", sf.max("begins").over(recent.rangeBetween(-BEGUN_MINUTES, 0)))
    )
    has_failed = sf.size("answered_ms") == 0
    one = sf.struct(
        has_failed.alias("has_failed"),
        "has_begun",
        sf.size(sf.when(has_failed, sf.col("failed_ms")).otherwise(sf.col("answered_ms"))).alias("polls"),
        sf.struct("recorder", "failed_ms").alias("counted"),
    )
    minutes = (
        polls.groupBy(*PLACE, "minute")
        .agg(sf.collect_list(one).alias("each"))
        .select(
            *PLACE, "minute", (sf.size("each") > 1).alias("is_contested"), _counted_recorder("each").alias("counted")
        )
        .select(*PLACE, "minute", "is_contested", "counted.*")
        .where(sf.col("is_contested") | (sf.size("failed_ms") > 0))
    )
    itself = sf.struct(sf.col("minute"), sf.col("recorder").alias("counted"))
    following = sf.struct((sf.col("minute") + 1).alias("minute"), sf.lit(None).cast("string").alias("counted"))
    return (
        minutes.select(*PLACE, "failed_ms", sf.explode(sf.array(itself, following)).alias("of"))
        .groupBy(*PLACE, sf.col("of.minute").alias("minute"))
        .agg(sf.max("of.counted").alias("counted"), sf.flatten(sf.collect_list("failed_ms")).alias("failed_ms"))
        .where(sf.col("counted").isNotNull() | (sf.size("failed_ms") > 0))
    )


def _counted_recorder(each: str) -> Column:
    """Return the recorder that counts, of those in an array."""

    def first(some: Column, flag: str) -> Column:
        """Return those without a flag; all, if none is without."""
        least = sf.array_min(sf.transform(some, lambda one: one[flag]))
        return sf.filter(some, lambda one: one[flag] == least)

    def frequent(some: Column, share: float) -> Column:
        most = sf.array_max(sf.transform(some, lambda one: one["polls"]))
        return sf.filter(some, lambda one: one["polls"] >= most * share)

    known = first(frequent(first(sf.col(each), "has_failed"), RARE_SHARE), "has_begun")
    return sf.array_min(sf.transform(frequent(known, DENSE_SHARE), lambda one: one["counted"]))


def _of_counted_recorder(rows: DataFrame, minutes: DataFrame) -> DataFrame:
    """Return the rows of the recorder that counts in each minute, with when the last poll before failed, if any."""
    joined = rows.withColumn("minute", _minute()).join(minutes, [*PLACE, "minute"], "left")
    known = joined.where(sf.col("counted").isNull() | (sf.col("counted") == sf.col("recorder")))
    failed_ms = sf.array_max(sf.filter("failed_ms", lambda failed: failed < sf.col("at_ms")))
    return known.withColumn("failed_ms", failed_ms).drop("counted", "minute", "recorder")


def _with_runs(rows: DataFrame, hours: Collection[int]) -> DataFrame:
    """Return the rows of these hours, each once, with how it continues the one before of its queue."""
    at_ms, before_ms = sf.col("at_ms"), sf.col("before_ms")
    by_time = _by_time()
    apart_ms = at_ms - before_ms
    follows = (sf.col("interval_ms") <= INTERVAL_MAX_MS) & (sf.col("interval_ms") >= apart_ms)
    is_near = (apart_ms <= GAP_MS) & ~sf.coalesce(sf.col("failed_ms") > before_ms, sf.lit(False))
    is_followed = sf.col("queue").isNotNull() | sf.col("verdict").eqNullSafe(sf.col("verdict_before"))
    is_same = sf.col("verdict").eqNullSafe(sf.col("verdict_before")) & (
        sf.floor(at_ms / HOUR_MS) == sf.floor(before_ms / HOUR_MS)
    )
    is_other = sf.coalesce(sf.col("created_ms") != sf.col("created_ms_before"), sf.lit(False))
    of_run = {"at_ms": "run_ms", "kind": "run_kind", "created_ms": "run_created_ms", "told": "told"}
    start = sf.struct(*(sf.col(name).alias(alias) for name, alias in of_run.items()))
    earlier = {f"{name}_before": sf.lag(name).over(by_time) for name in ("verdict", "created_ms", *_COUNTERS)}
    continued = (
        rows.withColumns({table: at_ms - at_ms % WIDTHS_MS[table] for table in _BUCKETS})
        .withColumns({"before_ms": sf.lag("at_ms").over(by_time), **earlier})
        .where(~at_ms.eqNullSafe(before_ms))
        .withColumn("continues", sf.coalesce(follows | is_near, sf.lit(False)) & is_followed & ~is_other)
        .withColumn("run", sf.when(~(sf.col("continues") & sf.coalesce(is_same, sf.lit(False))), start))
    )
    counted = _counted(continued, by_time).where(is_within(at_ms, hours)).select("*", "rest.*")
    # Each column that is cached takes time.
    counted = counted.drop("rest", "failed_ms", "before_ms", "created_ms", "totalsent", "totalrecv", *earlier)
    # They are in this order already. Saying so lets Spark group the cached rows as they come, without sorting them.
    return counted.sortWithinPartitions(*QUEUE, *_BUCKETS, "at_ms")


# Each bucket of one is within one bucket of the table before it.
_BUCKETS = (ROLLUP_1H, ROLLUP_1M, ROLLUP_10S)


def _by_time() -> WindowSpec:
    """Return the rows of a queue by time, and so also by the buckets that they are in."""
    return Window.partitionBy(*QUEUE).orderBy(*_BUCKETS, "at_ms")


def _counted(rows: DataFrame, by_time: WindowSpec) -> DataFrame:
    """Add what happened since the sample before, if it ``continues`` that one.

    ``arrivals``, ``deletes``, ``receives`` and ``redeliveries`` are messages since then, and the columns with ``_s``
    messages per second. They are null if a counter is unknown, or if it fell because the queue was recreated. Deletes
    are arrivals minus the change of depth; ``_redeliveries`` says what redeliveries are. ``covered_ms`` is the time for
    which arrivals are known. ``run_ms``, ``run_kind``, ``run_created_ms`` and ``told`` are those of the last row with a
    ``run``.
    """
    is_anew = (_change("totalsent") < 0) | (_change("totalrecv") < 0)
    is_counted = sf.col("continues") & ~sf.coalesce(is_anew, sf.lit(False))
    arrivals, receives = _change("totalsent"), _change("totalrecv")
    removed = sf.try_subtract(arrivals, _change("depth"))
    deletes = _not_negative(removed)
    expiries = sf.try_subtract(sf.try_subtract(receives, deletes), _change("hidden"))
    # If messages were moved here or restored, how many others were deleted meanwhile is unknown: it may explain them.
    expiries = sf.when((removed < 0) & (expiries > 0), 0).otherwise(expiries)
    counts = dict(zip(RATES, (arrivals, deletes, receives, _redeliveries(by_time)), strict=True))
    until_now = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    apart_ms = sf.col("at_ms") - sf.col("before_ms")
    return (
        rows.withColumn("expiries", sf.when(is_counted & (sf.abs(expiries) <= _MESSAGES_MAX), expiries))
        .withColumns(
            {
                "expiries_sum": sf.sum(sf.coalesce("expiries", sf.lit(0))).over(until_now),
                # In the same pass.
                "run": sf.last("run", ignorenulls=True).over(until_now),
            }
        )
        .withColumns({name: sf.col("run")[name] for name in ("run_ms", "run_kind", "run_created_ms", "told")})
        .withColumns({name: sf.when(is_counted, count) for name, count in counts.items()})
        .withColumns({f"{name}_s": sf.col(name) / (apart_ms / 1000) for name in RATES})
        .withColumn("covered_ms", sf.when(sf.col("arrivals").isNotNull(), apart_ms))
        .drop("expiries", "expiries_sum", "run")
    )


# A greater number than that is no count of messages.
_MESSAGES_MAX = 10**12


def _redeliveries(by_time: WindowSpec) -> Column:
    """Return how many messages came back since the row before, each of which leads to a redelivery.

    A receive hides a message; a delete or an expiry ends that. So expiries are receives minus deletes minus the
    change of ``hidden``. But a delayed message hides itself, which lowers that number, and raises it when it becomes
    due. So they are counted only as far as their sum exceeds the maximum that it had in this hour and the one before,
    except that no more are left out than were hidden. What is hidden when a recording begins may be delayed too.

    Messages that are moved into a queue look like those that came back, if more are deleted until the next poll. If
    fewer are, the depth shows it, and nothing is counted.
    """
    hidden = sf.when(sf.abs("hidden") <= _MESSAGES_MAX, sf.col("hidden"))
    is_begun = sf.col("interval_ms").isNull() | (sf.col("interval_ms") > INTERVAL_MAX_MS)
    most = sf.col("expiries_sum") + sf.when(is_begun, sf.coalesce(hidden, sf.lit(0))).otherwise(0)
    hour = sf.floor(sf.col("at_ms") / HOUR_MS)
    # A frame that grows takes one pass, but one that slides would read two hours for each row. So there are two maxima:
    # of two hours that begin with an even one, and with an odd one.
    earlier = by_time.rowsBetween(Window.unboundedPreceding, -1)
    from_even, from_odd = (
        sf.max(sf.struct(sf.floor((hour + shift) / 2).alias("hours"), most.alias("most"))).over(earlier)["most"]
        for shift in (0, 1)
    )
    before = sf.col("expiries_sum") - sf.col("expiries")
    delayed = sf.when(hour % 2 == 1, from_even).otherwise(from_odd) - before
    return _not_negative(sf.col("expiries") - sf.least(delayed, sf.coalesce("hidden_before", sf.lit(0))))


def _change(name: str) -> Column:
    """The change of a number; null on overflow: clients may write any counter."""
    return sf.try_subtract(name, f"{name}_before")


def _not_negative(number: Column) -> Column:
    # Not greatest(), for which null is less than 0.
    return sf.when(number < 0, 0).otherwise(number)


def _minute() -> Column:
    return sf.floor(sf.col("at_ms") / MINUTE_MS)


def _is_down() -> Column:
    return ~sf.col("status").eqNullSafe(OK)


_MEANS = ("ready", "hidden", WAITING, *METRICS)
# Polls every ten seconds are sometimes a little early.
_SPARSE_MS = 9_500


def rollup(annotated: DataFrame, table: str) -> DataFrame:
    """Return a roll-up of ``annotated_samples``; its percentiles are of all samples of a bucket, by nearest rank.

    The one at 10 seconds has the samples that were polled more often than that, and those after which it is unknown.
    """
    if table == ROLLUP_10S:
        annotated = annotated.where(sf.coalesce("interval_ms", sf.lit(0)) < _SPARSE_MS)
    more: dict[str, Column] = {}
    if table == ROLLUP_1H:
        last = sf.struct("vt_s", "maxsize", sf.col("at_ms").alias("last_ms"), sf.col("depth").alias("last_depth"))
        more["last"] = sf.max_by(last, "at_ms")
        more |= {f"{metric}_known": sf.count(metric) for metric in METRICS}
    buckets = (
        annotated.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE, *_BUCKETS[: _BUCKETS.index(table) + 1])
        .agg(
            sf.max_by("kind", "at_ms").alias("kind"),
            sf.count(sf.lit(1)).alias("samples"),
            sf.coalesce(sf.sum("covered_ms"), sf.lit(0)).alias("covered_ms"),
            # A counter may be any number: a sum that overflows is unknown.
            *(sf.try_sum(name).alias(name) for name in RATES),
            *(sf.mean(sf.col(name).cast("double")).alias(f"{name}_mean") for name in _MEANS),
            sf.max(WAITING).alias(f"{WAITING}_max"),
            *(sf.sort_array(sf.collect_list(metric)).alias(f"{metric}_values") for metric in METRICS),
            *(column.alias(name) for name, column in more.items()),
        )
    )
    picked = {name: column for metric in METRICS for name, column in percentiles(metric).items()}
    if table == ROLLUP_1H:
        picked |= {f"{metric}_quantiles": summary(f"{metric}_values") for metric in METRICS}
        picked |= {name: sf.col("last")[name] for name in ("vt_s", "maxsize", "last_ms", "last_depth")}
    return conform(buckets.withColumns({**picked, "bucket_ms": sf.col(table), "day": day_of(sf.col(table))}), table)


# More than the milliseconds of an hour.
_HOUR_STEP = 1 << 22


def verdict_runs(annotated: DataFrame) -> DataFrame:
    """Return the maximal runs of samples of a queue with one verdict, from ``annotated_samples``.

    A run ends where the verdict changes, at a gap, where the queue was created again, and on the hour. Rows without a
    queue make the runs of polls of a place: those that failed, and those that succeeded, whether or not there were
    queues.
    """
    at_ms, depth = sf.col("at_ms"), sf.col("depth")
    is_first = at_ms == sf.col("run_ms")
    # The greatest depth, and of its samples the first, as one number: Spark aggregates numbers by hashing, but texts
    # and structs by sorting. A run is within an hour.
    counted = sf.least(sf.greatest(depth, sf.lit(-_MESSAGES_MAX)), sf.lit(_MESSAGES_MAX))
    peak = sf.when(depth.isNotNull(), (counted + 1) * _HOUR_STEP - 1 - sf.pmod(at_ms, sf.lit(HOUR_MS)))
    runs = (
        annotated.where(sf.col("verdict").isNotNull())
        .groupBy(*QUEUE, "run_ms", "run_kind", "run_created_ms", "told", "verdict")
        .agg(
            sf.max(at_ms).alias("last_ms"),
            sf.min("since_ms").alias("since_ms"),
            sf.max(sf.when(is_first, sf.col("continues"))).alias("continues"),
            sf.max(sf.when(is_first, depth)).alias("first_depth"),
            sf.max(sf.when(is_first, sf.col("since_depth"))).alias("since_depth"),
            sf.count(sf.lit(1)).alias("samples"),
            sf.max_by(depth, at_ms).alias("last_depth"),
            sf.max(depth).alias("peak_depth"),
            sf.max("ready").alias("peak_ready"),
            sf.max(peak).alias("peak"),
            sf.max(AGE).alias("peak_age_ms"),
            *(sf.try_sum(name).alias(name) for name in ("arrivals", "deletes", "receives")),
            sf.max("poison").alias("poison"),
            sf.max("highest_rc").alias("highest_rc"),
            sf.max("expired").alias("expired"),
            sf.max_by("pending_since_ms", at_ms).alias("pending_since_ms"),
        )
    )
    first_ms = sf.col("run_ms")
    peak_ms = _HOUR_STEP - 1 - sf.col("peak").bitwiseAND(sf.lit(_HOUR_STEP - 1).cast("bigint"))
    named = runs.withColumns(
        {
            "day": day_of(first_ms),
            "first_ms": first_ms,
            "kind": sf.col("run_kind"),
            "created_ms": sf.col("run_created_ms"),
            "peak_ms": first_ms - sf.pmod(first_ms, sf.lit(HOUR_MS)) + peak_ms,
        }
    )
    return conform(named, VERDICT_RUNS)


def sample_tables(samples: DataFrame, hours: Collection[int], keep: Keep = persisted) -> dict[str, DataFrame]:
    """Return the tables of some hours, each with ``day`` in front.

    ``samples`` are rows of a history: of these hours, and of the hour before each; other rows are ignored. The rows
    that all four tables share go through ``keep``, so that they are computed once; the caller must release them.
    """
    # Reading, shuffling and sorting the samples takes more than half the time of each table.
    annotated = keep(annotated_samples(samples, hours, keep))
    return {table: rollup(annotated, table) for table in (ROLLUP_10S, ROLLUP_1M, ROLLUP_1H)} | {
        VERDICT_RUNS: verdict_runs(annotated)
    }


def server_runs(samples: DataFrame, hours: Collection[int]) -> DataFrame:
    """Return the table of the servers that answered in some hours, from rows of a history, with ``day``."""
    at_ms = sf.col("at_ms")
    read = samples.where(sf.col("queue").isNull() & sf.col("run_id").isNotNull() & is_within(at_ms, hours))
    # Any number may be recorded.
    started_ms = sf.try_subtract(at_ms, sf.try_multiply("uptime_s", sf.lit(1000)))
    runs = read.groupBy(*PLACE, "run_id", sf.floor(at_ms / HOUR_MS)).agg(
        sf.min("at_ms").alias("first_ms"),
        sf.max("at_ms").alias("last_ms"),
        sf.min_by(started_ms, at_ms).alias("started_ms"),
    )
    return conform(runs.withColumn(DAY, day_of(sf.col("first_ms"))), SERVER_RUNS)


def last_known(name: str) -> Column:
    """Return the aggregate for a column's value in the last hour of ``rollup_1h`` in which it is known."""
    return sf.max_by(name, sf.when(sf.col(name).isNotNull(), sf.col("bucket_ms"))).alias(name)


def place_rollup(rollups: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table ``places``, from roll-ups of queues by the names of their tables, each with ``day``."""
    # One pass over all widths: a job for each would cost more than its rows.
    rows = reduce(
        DataFrame.unionAll,
        (_with_width(rows, WIDTHS_MS[table]) for table, rows in rollups.items()),
    )
    grouped = rows.groupBy(DAY, "width_ms", "bucket_ms", *PLACE).agg(
        sf.count(sf.lit(1)).alias("queues"),
        sf.max("samples").alias("samples"),
        sf.max("covered_ms").alias("covered_ms"),
        *(sf.try_sum(name).alias(name) for name in RATES),
        *(sf.sum(name).alias(name) for name in ("ready_mean", "hidden_mean")),
        *(_together(metric, statistic) for metric in METRICS for statistic in STATISTICS),
        *(sf.max(f"{metric}_max").alias(f"{metric}_greatest") for metric in METRICS),
    )
    return conform(grouped, PLACES)


def _together(metric: str, statistic: str) -> Column:
    """Aggregate a statistic over the queues: ages cannot be added."""
    name = f"{metric}_{statistic}"
    return (sf.max(name) if metric == AGE else sf.sum(sf.col(name).cast("double"))).alias(name)


def _with_width(rows: DataFrame, width_ms: int) -> DataFrame:
    names = [f"{metric}_{statistic}" for metric in METRICS for statistic in STATISTICS]
    return rows.select(
        DAY,
        sf.lit(width_ms).cast("bigint").alias("width_ms"),
        *("bucket_ms", *PLACE, "samples", "covered_ms", *RATES, "ready_mean", "hidden_mean", *names),
    )
