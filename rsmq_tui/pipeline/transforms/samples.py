"""From the rows of a history to its samples: each once, told by one recorder, with what went before.

``told_samples`` is what the tables of samples are made from. Its one shuffle of the samples is by queue, and all that
is made from it is grouped by queue and more, so that no second one is needed.
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.schema import OK
from rsmq_tui.pipeline.hours import HOUR_MS
from rsmq_tui.pipeline.transforms.rates import with_rates

PLACE = ("profile", "server", "ns")
QUEUE = (*PLACE, "queue")
DAY_MS = 86_400_000
MINUTE_MS = 60_000
GAP_MS = 60_000
"""Two samples that are further apart, and that no recorder saw follow each other, have a gap in between."""

_READ = (
    *("at_ms", "interval_ms", "recorder", *QUEUE, "kind", "depth", "ready", "hidden", "oldest_ready_age_ms"),
    *("totalsent", "totalrecv", "vt_s", "maxsize", "poison", "highest_rc", "expired"),
)


def day_of(at_ms: Column) -> Column:
    """Return the UTC day of a moment, such as 2031-05-17, whatever the session's time zone is."""
    return sf.date_from_unix_date(sf.floor(at_ms / DAY_MS).cast("int")).cast("string")


def is_within(at_ms: Column, hours: Collection[int]) -> Column:
    """Tell whether a moment is in one of some hours."""
    if not hours:
        return sf.lit(False)
    first, last = min(hours), max(hours)
    # Files are skipped by this part; and there may be thousands of hours, which are no match for as many conditions.
    is_near = (at_ms >= first * HOUR_MS) & (at_ms < (last + 1) * HOUR_MS)
    return is_near if last - first < len(set(hours)) else is_near & sf.floor(at_ms / HOUR_MS).isin(sorted(set(hours)))


def told_samples(samples: DataFrame, hours: Collection[int]) -> DataFrame:
    """Return the samples of some hours: distinct, of one voice, with rates and with how they follow on.

    Added are what ``with_rates`` adds; ``verdict`` is ``down`` where a poll failed, and null in other rows without a
    queue; ``told`` says why it failed or why the queue was broken; ``continues`` tells whether nothing is unknown
    between a sample and the one before of its queue, and ``is_start`` whether a run of one verdict begins with it:
    where the verdict changes, after a gap, and on the hour. What is told of an hour depends on it and on the hour
    before, and on nothing else: so any hour may be worked anew by itself.

    A sample continues where its recorder saw the queue in the poll before, or where another sample of the queue is at
    most a minute older and no poll failed in between. A poll that failed continues only another one that failed.
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
    """Return the minutes of places about which more is to be known than that one recorder polled, and succeeded.

    ``teller`` is the recorder that tells of the minute: one whose polls succeeded before one whose polls failed, then
    the smallest id; null where nothing else is to be told than of the minute before. ``failed_ms`` are the moments
    of the polls that failed, as told, of this minute and of the one before.
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
    """Return the rows of those who tell of their minutes, with ``failed_ms`` where polls failed there and then."""
    # Few minutes are in doubt, and none as a rule: they go to where the samples are, not the other way round.
    joined = rows.withColumn("minute", _minute()).join(sf.broadcast(minutes), [*PLACE, "minute"], "left")
    return joined.where(sf.col("teller").isNull() | (sf.col("teller") == sf.col("recorder"))).drop("teller", "minute")


def _with_runs(rows: DataFrame, hours: Collection[int]) -> DataFrame:
    """Return the rows of these hours, and how each follows on the one before of its queue."""
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
