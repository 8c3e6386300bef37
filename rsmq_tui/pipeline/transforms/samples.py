"""From the rows of a history to deduplicated samples with rates, and to their roll-ups and runs of verdicts by day.

The samples are shuffled once, by queue. All tables of samples are computed from that and grouped by queue, so no second
shuffle is needed.

Sketches of a metric can be merged, and give its percentiles. Up to ``SKETCH_K`` values are kept completely; percentiles
are then exact (nearest rank). Of more values, a sketch keeps about twice ``SKETCH_K``, and a percentile is, in 99 of
100 cases, within 1.7 % of its rank.
"""

from collections.abc import Callable, Collection

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from rsmq_tui.history.analysis.schema import METRICS, ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, VERDICT_RUNS, WIDTHS_MS
from rsmq_tui.history.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.history.schema import OK
from rsmq_tui.pipeline.transforms.columns import conform

INTERVAL_MAX_MS = HOUR_MS
"""Samples that are further apart give no rates."""

RATES = ("arrivals", "deletes", "receives", "redeliveries")

_COUNTERS = ("depth", "hidden", "totalsent", "totalrecv")


def with_rates(samples: DataFrame) -> DataFrame:
    """Return deduplicated samples, with what happened since the row before of the same recorder and queue.

    ``follows`` says whether the recorder saw the queue in the poll before, within an hour. Then ``arrivals``,
    ``deletes``, ``receives`` and ``redeliveries`` are messages since that poll, and the columns with ``_s`` messages
    per second. They are null if a counter is unknown, or if it fell because the queue was recreated. Deletes are
    arrivals minus the change of depth; ``_redeliveries`` says what redeliveries are. ``covered_ms`` is the time for
    which arrivals are known.

    The counters and ``interval_ms`` are dropped.
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
    redeliveries = _redeliveries(by_time, sf.try_subtract(sf.try_subtract(receives, deletes), _change("hidden")))
    counts = dict(zip(RATES, (arrivals, deletes, receives, redeliveries), strict=True))
    with_counts = counted.withColumns({name: sf.when(sf.col("is_counted"), count) for name, count in counts.items()})
    return (
        with_counts.withColumns({f"{name}_s": sf.col(name) / (interval_ms / 1000) for name in RATES})
        .withColumn("covered_ms", sf.when(sf.col("arrivals").isNotNull(), interval_ms))
        .drop("interval_ms", "is_counted", "earlier_ms", "totalsent", "totalrecv")
        .drop(*(f"earlier_{name}" for name in _COUNTERS))
    )


# More messages than that between two polls are no counts of messages.
_MESSAGES_MAX = 10**12


def _redeliveries(by_time: WindowSpec, shown: Column) -> Column:
    """Return the number of expiries since the row before, each of which leads to a redelivery.

    A receive hides a message; a delete or an expiry ends that. So expiries are ``shown``: receives minus deletes minus
    the change of ``hidden``. A delayed message hides itself, which lowers that number, and raises it when it becomes
    due. So expiries are told only as far as the sum of ``shown`` exceeds its maximum in this hour and the one before,
    and no more are taken off than were hidden. What was hidden when a recording begins may be delayed too.
    """
    step = sf.when(sf.col("is_counted") & (sf.abs(shown) <= _MESSAGES_MAX), shown)
    hidden = sf.when(sf.abs("hidden") <= _MESSAGES_MAX, sf.col("hidden"))
    total = sf.sum(sf.coalesce(step, sf.lit(0))).over(by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    begun = sf.col("interval_ms").isNull() | (sf.col("interval_ms") > INTERVAL_MAX_MS)
    told = total + sf.when(begun, sf.coalesce(hidden, sf.lit(0))).otherwise(0)
    hour = sf.floor(sf.col("at_ms") / HOUR_MS)
    # A frame that grows takes one pass, one that slides would read an hour for each row: so the maximum is that of two
    # hours, which begin at an even hour or at an odd one.
    earlier = by_time.rowsBetween(Window.unboundedPreceding, -1)
    even, odd = (
        sf.max(sf.struct(sf.floor((hour + shift) / 2).alias("hours"), told.alias("total"))).over(earlier)["total"]
        for shift in (0, 1)
    )
    delayed = sf.when(hour % 2 == 1, even).otherwise(odd) - (total - step)
    return _not_negative(step - sf.least(delayed, sf.coalesce("earlier_hidden", sf.lit(0))))


def _change(name: str) -> Column:
    """The change of a number; null on overflow: clients may write any counter."""
    return sf.try_subtract(name, f"earlier_{name}")


def _not_negative(number: Column) -> Column:
    # Not greatest(), for which null is less than 0.
    return sf.when(number < 0, 0).otherwise(number)


PLACE = ("profile", "server", "ns")
QUEUE = (*PLACE, "queue")
GAP_MS = MINUTE_MS
"""Samples that are further apart, and not consecutive polls of one recorder, have a gap in between."""

_READ = (
    *("at_ms", "interval_ms", "recorder", *QUEUE, "kind", "depth", "ready", "hidden", "oldest_ready_age_ms"),
    *("totalsent", "totalrecv", "vt_s", "maxsize", "poison", "highest_rc", "expired", "since_ms"),
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


def annotated_samples(samples: DataFrame, hours: Collection[int]) -> DataFrame:
    """Return the samples of some hours: distinct, of one recorder at a time, with rates and continuity.

    Adds the columns of ``with_rates``. ``verdict`` is ``down`` if a poll failed, and null in other rows without a
    queue; ``told`` is why it failed or why the queue was broken; ``continues`` says whether nothing is unknown between
    a sample and the one before of its queue, and ``is_start`` whether a run of one verdict begins with it: where the
    verdict changes, after a gap, and on the hour. The result for an hour depends only on it and on the hour before, so
    any hour can be computed separately.

    A sample continues if its recorder saw the queue in the poll before, or if another sample of the queue is at most a
    minute older and no poll failed in between. A failed poll continues only another failed poll.
    """
    rows = samples.where(is_within(sf.col("at_ms"), {read for hour in hours for read in (hour - 1, hour)}))
    is_queue = sf.col("queue").isNotNull()
    read = rows.select(
        *_READ,
        sf.when(is_queue, sf.col("verdict")).when(_is_down(), "down").alias("verdict"),
        sf.coalesce("broken", "failure").alias("told"),
    )
    distinct = with_rates(read.repartition(*QUEUE))
    return _with_runs(_of_one_voice(distinct, minutes_in_doubt(rows)), hours)


def minutes_in_doubt(samples: DataFrame) -> DataFrame:
    """Return the minutes of places in which not just one recorder polled, and successfully.

    ``teller`` is the recorder that is used for the minute: one whose polls succeeded before one whose polls failed,
    then the smallest id; null if the row is only for failures of the minute before. ``failed_ms`` are the times of its
    failed polls, of this minute and of the one before.
    """
    rows = samples.where(sf.col("queue").isNull()).select(
        *PLACE, _minute().alias("minute"), "recorder", "at_ms", _is_down().alias("is_down")
    )
    minutes = (
        rows.groupBy(*PLACE, "minute")
        .agg(
            sf.min(sf.struct("is_down", "recorder"))["recorder"].alias("teller"),
            (sf.min("recorder") != sf.max("recorder")).alias("is_contested"),
            sf.collect_set(sf.when(sf.col("is_down"), sf.struct("recorder", "at_ms"))).alias("failures"),
        )
        .where(sf.col("is_contested") | (sf.size("failures") > 0))
    )
    failed_ms = sf.transform(
        sf.filter("failures", lambda failure: failure["recorder"] == sf.col("teller")), lambda failure: failure["at_ms"]
    )
    itself = sf.struct(sf.col("minute"), sf.col("teller"))
    following = sf.struct((sf.col("minute") + 1).alias("minute"), sf.lit(None).cast("string").alias("teller"))
    return (
        minutes.select(*PLACE, failed_ms.alias("failed_ms"), sf.explode(sf.array(itself, following)).alias("of"))
        .groupBy(*PLACE, sf.col("of.minute").alias("minute"))
        .agg(sf.max("of.teller").alias("teller"), sf.flatten(sf.collect_list("failed_ms")).alias("failed_ms"))
        .where(sf.col("teller").isNotNull() | (sf.size("failed_ms") > 0))
    )


def _of_one_voice(rows: DataFrame, minutes: DataFrame) -> DataFrame:
    """Return the rows of the recorder used for each minute, with ``failed_ms`` if polls failed."""
    # Usually there are few or none of these minutes, so they are broadcast to the samples.
    joined = rows.withColumn("minute", _minute()).join(sf.broadcast(minutes), [*PLACE, "minute"], "left")
    return joined.where(sf.col("teller").isNull() | (sf.col("teller") == sf.col("recorder"))).drop("teller", "minute")


def _with_runs(rows: DataFrame, hours: Collection[int]) -> DataFrame:
    """Return the rows of these hours, with how each continues the one before of its queue."""
    at_ms, before_ms = sf.col("at_ms"), sf.col("before_ms")
    by_time = Window.partitionBy(*QUEUE).orderBy("at_ms")
    is_near = (at_ms - before_ms <= GAP_MS) & ~sf.coalesce(
        sf.exists("failed_ms", lambda failed: (failed > before_ms) & (failed < at_ms)), sf.lit(False)
    )
    is_followed = sf.col("queue").isNotNull() | sf.col("verdict_before").eqNullSafe(sf.lit("down"))
    continues = (sf.col("follows") | sf.coalesce(is_near, sf.lit(False))) & is_followed
    is_same = sf.col("verdict").eqNullSafe(sf.col("verdict_before")) & (
        sf.floor(at_ms / HOUR_MS) == sf.floor(before_ms / HOUR_MS)
    )
    return (
        rows.withColumns(
            {"before_ms": sf.lag("at_ms").over(by_time), "verdict_before": sf.lag("verdict").over(by_time)}
        )
        .withColumn("continues", continues)
        .withColumn("is_start", ~(sf.col("continues") & sf.coalesce(is_same, sf.lit(False))))
        .where(is_within(at_ms, hours))
        .drop("failed_ms", "follows", "before_ms", "verdict_before")
    )


def _minute() -> Column:
    return sf.floor(sf.col("at_ms") / MINUTE_MS)


def _is_down() -> Column:
    return ~sf.col("status").eqNullSafe(OK)


SKETCH_K = 200
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}

_WHOLE = ("depth", "oldest_ready_age_ms")


def sketch_of(metric: str) -> Column:
    """Aggregate the values of a metric into a sketch; null if there is none."""
    made = sf.kll_sketch_agg_bigint if metric in _WHOLE else sf.kll_sketch_agg_double
    return sf.when(sf.count(metric) > 0, made(metric, SKETCH_K))


def merged(metric: str, sketch: str) -> Column:
    """Aggregate sketches of a metric into one; null if there is none."""
    merge = sf.kll_merge_agg_bigint if metric in _WHOLE else sf.kll_merge_agg_double
    return sf.when(sf.count(sketch) > 0, merge(sketch, SKETCH_K))


def percentiles_in(metric: str, sketch: str) -> Column:
    """Return the ``PERCENTILES`` of a sketch, an array; null if the sketch is."""
    quantiles = sf.kll_sketch_get_quantile_bigint if metric in _WHOLE else sf.kll_sketch_get_quantile_double
    ranks = sf.array(*(sf.lit(percent / 100) for percent in PERCENTILES.values()))
    return sf.when(sf.col(sketch).isNotNull(), quantiles(sketch, ranks))


def percentiles_of(values: str) -> Column:
    """Return the ``PERCENTILES`` of a sorted array of all values; null if it is empty."""
    count = sf.size(values)
    picked = [
        # The first index, from 0, whose rank is at least the percentage.
        sf.get(values, sf.floor((count * percent + 99) / 100).cast("int") - 1)
        for percent in PERCENTILES.values()
    ]
    return sf.array(*picked)


_SUMS = ("samples", "covered_ms", *RATES)
# Means are kept as sum and count, so that roll-ups of roll-ups are correct.
_MEANS = ("ready", "hidden", *METRICS)


def rollup_10s(told: DataFrame) -> DataFrame:
    """Return the roll-up at 10 seconds; its percentiles are of all samples."""
    values = {f"{metric}_values": sf.sort_array(sf.collect_list(metric)) for metric in METRICS}
    buckets = _grouped(told, ROLLUP_10S, values)
    return _finished(buckets, ROLLUP_10S, {metric: percentiles_of(f"{metric}_values") for metric in METRICS})


def minutes_of(told: DataFrame) -> DataFrame:
    """Aggregate the samples of each minute to sums, counts and sketches, from which roll-ups are made."""
    facts = sf.struct("at_ms", "depth", "vt_s", "maxsize")
    return _grouped(
        told,
        ROLLUP_1M,
        {f"{metric}_sketch": sketch_of(metric) for metric in METRICS} | {"last": sf.max_by(facts, "at_ms")},
    )


def rollup_1m(minutes: DataFrame) -> DataFrame:
    """Return the roll-up at one minute, from ``minutes_of``."""
    return _finished(minutes, ROLLUP_1M, _from_sketches())


def rollup_1h(minutes: DataFrame) -> DataFrame:
    """Return the roll-up at one hour, from ``minutes_of``: the sketches of its minutes are merged."""
    hours = minutes.groupBy(*QUEUE, _bucket(sf.col("bucket_ms"), ROLLUP_1H)).agg(
        sf.max_by("kind", "bucket_ms").alias("kind"),
        *(sf.try_sum(name).alias(name) for name in _SUMS),
        *(sf.sum(f"{name}_{part}").alias(f"{name}_{part}") for name in _MEANS for part in ("sum", "count")),
        *(sf.min(f"{metric}_min").alias(f"{metric}_min") for metric in METRICS),
        *(sf.max(f"{metric}_max").alias(f"{metric}_max") for metric in METRICS),
        *(merged(metric, f"{metric}_sketch").alias(f"{metric}_sketch") for metric in METRICS),
        sf.max_by("last", "bucket_ms").alias("last"),
    )
    facts = {"vt_s": "vt_s", "maxsize": "maxsize", "last_ms": "at_ms", "last_depth": "depth"}
    return _finished(
        hours.withColumns({name: sf.col("last")[field] for name, field in facts.items()}), ROLLUP_1H, _from_sketches()
    )


def _grouped(told: DataFrame, table: str, more: dict[str, Column]) -> DataFrame:
    """Return a row for each queue and bucket, with the aggregates of all roll-ups, and ``more``."""
    return (
        told.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE, _bucket(sf.col("at_ms"), table))
        .agg(
            sf.max_by("kind", "at_ms").alias("kind"),
            sf.count(sf.lit(1)).alias("samples"),
            sf.coalesce(sf.sum("covered_ms"), sf.lit(0)).alias("covered_ms"),
            # A counter may be any number: a sum that overflows is unknown.
            *(sf.try_sum(name).alias(name) for name in RATES),
            *(sf.sum(sf.col(name).cast("double")).alias(f"{name}_sum") for name in _MEANS),
            *(sf.count(name).alias(f"{name}_count") for name in _MEANS),
            *(sf.min(metric).alias(f"{metric}_min") for metric in METRICS),
            *(sf.max(metric).alias(f"{metric}_max") for metric in METRICS),
            *(column.alias(name) for name, column in more.items()),
        )
    )


def _finished(buckets: DataFrame, table: str, percentiles: dict[str, Column]) -> DataFrame:
    means = {f"{name}_mean": sf.try_divide(f"{name}_sum", f"{name}_count") for name in _MEANS}
    arrays = {f"{metric}_percentiles": array for metric, array in percentiles.items()}
    picked = {
        f"{metric}_{name}": sf.col(f"{metric}_percentiles")[place]
        for metric in METRICS
        for place, name in enumerate(PERCENTILES)
    }
    named = buckets.withColumns({**means, **arrays, "day": day_of(sf.col("bucket_ms"))}).withColumns(picked)
    return conform(named, table)


def _from_sketches() -> dict[str, Column]:
    return {metric: percentiles_in(metric, f"{metric}_sketch") for metric in METRICS}


def _bucket(at_ms: Column, table: str) -> Column:
    return (at_ms - at_ms % WIDTHS_MS[table]).alias("bucket_ms")


def verdict_runs(told: DataFrame) -> DataFrame:
    """Return the maximal runs of samples of a queue with one verdict, from ``annotated_samples``.

    A run ends where the verdict changes, at a gap and on the hour. Rows without a queue make the runs of failed polls
    of a place.
    """
    by_time = Window.partitionBy(*QUEUE).orderBy("at_ms").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    first = sf.when(sf.col("is_start"), sf.struct("continues", "depth", "told"))
    at_peak = sf.when(sf.col("depth").isNotNull(), sf.struct("depth", -sf.col("at_ms")))
    runs = (
        told.withColumn("run", sf.sum(sf.col("is_start").cast("int")).over(by_time))
        .where(sf.col("verdict").isNotNull())
        .groupBy(*QUEUE, "run", "verdict")
        .agg(
            sf.min("at_ms").alias("first_ms"),
            sf.max("at_ms").alias("last_ms"),
            sf.min("since_ms").alias("since_ms"),
            sf.max(first).alias("first"),
            sf.count(sf.lit(1)).alias("samples"),
            sf.max_by("depth", "at_ms").alias("last_depth"),
            sf.max("depth").alias("peak_depth"),
            sf.max("ready").alias("peak_ready"),
            sf.max_by("at_ms", at_peak).alias("peak_ms"),
            sf.max("oldest_ready_age_ms").alias("peak_age_ms"),
            *(sf.try_sum(name).alias(name) for name in ("arrivals", "deletes", "receives")),
            sf.max("poison").alias("poison"),
            sf.max("highest_rc").alias("highest_rc"),
            sf.max("kind").alias("kind"),
            sf.max("expired").alias("expired"),
        )
    )
    named = runs.withColumns(
        {
            "day": day_of(sf.col("first_ms")),
            "continues": sf.col("first.continues"),
            "first_depth": sf.col("first.depth"),
            "told": sf.col("first.told"),
        }
    )
    return conform(named, VERDICT_RUNS)


def persisted(rows: DataFrame) -> DataFrame:
    """Cache rows once they are computed, in memory and, if that is full, on disk."""
    return rows.persist(StorageLevel.MEMORY_AND_DISK)


def sample_tables(
    samples: DataFrame, hours: Collection[int], keep: Callable[[DataFrame], DataFrame] = persisted
) -> dict[str, DataFrame]:
    """Return the tables of some hours, each with ``day`` in front.

    ``samples`` are rows of a history: of these hours, and of the hour before each; other rows are ignored. The rows
    that all four tables share go through ``keep``, so that they are computed once; the caller must release them.
    """
    # Reading, shuffling and sorting the samples takes more than half the time of each table.
    told = keep(annotated_samples(samples, hours))
    minutes = minutes_of(told)
    return {
        ROLLUP_10S: rollup_10s(told),
        ROLLUP_1M: rollup_1m(minutes),
        ROLLUP_1H: rollup_1h(minutes),
        VERDICT_RUNS: verdict_runs(told),
    }


def last_known(name: str) -> Column:
    """Return the aggregate for a column's value in the last hour of ``rollup_1h`` in which it is known."""
    return sf.max_by(name, sf.when(sf.col(name).isNotNull(), sf.col("bucket_ms"))).alias(name)
