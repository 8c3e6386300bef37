"""Episodes: each period in which a queue had one verdict of trouble, and its cause."""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import EPISODES
from rsmq_tui.pipeline.transforms.columns import conform, count, duration, joined, plural, rate
from rsmq_tui.pipeline.transforms.samples import GAP_MS, PLACE, QUEUE
from rsmq_tui.protocol.kinds import KINDS

# The kinds of queues that do not count arrivals.
_UNCOUNTED = [kind.name for kind in KINDS.values() if not kind.counts_arrivals]


def cause() -> Column:
    """Return the sentence for an episode, from its columns and ``span_ms``, its known duration.

    It does not name the queue. Reasons for a failed poll or a broken queue may contain untrusted text from the server;
    the caller must make it printable.
    """
    verdict, is_uncounted = sf.col("verdict"), sf.col("kind").isin(_UNCOUNTED)
    return (
        sf.when((verdict == "stalled") & is_uncounted, _stalled_list())
        .when(verdict == "leaking", _leaking())
        .when((verdict == "growing") & is_uncounted, _growing_list())
        .when(verdict == "growing", _growing())
        .when(verdict == "stalled", _idle("message", "received"))
        .when(verdict == "aged", _aged())
        .when(verdict == "poisoned", _poisoned())
        .when(verdict == "broken", sf.coalesce("told", sf.lit("its keys disagree")))
        .when(verdict == "down", joined(sf.coalesce("told", sf.lit("no poll succeeded")), _span()))
        .otherwise(verdict)
    )


def _growing() -> Column:
    gained_s = sf.try_divide(sf.try_subtract("peak_depth", "since_depth"), sf.col("span_ms") / 1000)
    # Counters are of all samples with the verdict: they begin with it, and some follow the end of its condition.
    net_s = sf.try_divide(sf.try_subtract("arrivals", "deletes"), (sf.col("left_ms") - sf.col("first_ms")) / 1000)
    net_s = sf.coalesce(gained_s, net_s)
    by = _if(net_s > 0, " by ", rate(net_s), "/s")
    return joined("arrivals exceeded deletes", by, _span(" over "), _rose("; "))


def _growing_list() -> Column:
    """Return the cause for a list, which does not count arrivals and deletes."""
    return joined("more was pushed than taken", _span(" over "), _rose(": "))


def _rose(before: str) -> Column:
    """Return how far the depth rose, and in what time if only that in the samples of the episode is known."""
    first, peak = sf.coalesce("since_depth", "first_depth"), sf.col("peak_depth")
    seen_ms = sf.col("end_ms") - sf.col("first_ms")
    is_later = sf.col("since_depth").isNull() & (sf.col("start_ms") < sf.col("first_ms"))
    later = _if(is_later, " in the last ", duration(seen_ms), " of that")
    has_risen = (peak > first) & sf.coalesce(sf.col("peak_ms") <= sf.col("end_ms"), sf.lit(True))
    return _if(has_risen, before, "depth rose from ", count(first), " to ", count(peak), later)


def _stalled_list() -> Column:
    """Return that no item was taken, or that leases expired: older histories have the same verdict for both."""
    return sf.when(sf.col("expired") > _or_zero("peak_ready"), _leaking()).otherwise(_idle("item", "taken"))


def _idle(noun: str, done: str) -> Column:
    """Return how many were ready and for how long; neither if none was in any sample.

    A recorder keeps a verdict for a while after its condition has ended: the recording may begin then.
    """
    ready = _or_zero("peak_ready")
    known = joined(plural(ready, noun), f" ready and none {done}", _span())
    return sf.when(ready > 0, known).otherwise(f"{noun}s ready and none {done}")


def _leaking() -> Column:
    return joined(plural(_or_zero("expired"), "lease"), " expired and none returned", _span())


def _aged() -> Column:
    """Return how old the first ready message was; only that it waited if none was in any sample."""
    age_ms = sf.col("peak_age_ms")
    known = joined("the first ready message was up to ", duration(age_ms), " old")
    return sf.when(age_ms.isNotNull(), known).otherwise("the first ready message waited for too long")


def _poisoned() -> Column:
    highest = sf.col("highest_rc")
    return joined(
        sf.when(sf.col("poison") > 0, plural(sf.col("poison"), "message")).otherwise("messages"),
        " received too often",
        _if(highest.isNotNull(), " (up to ", plural(_or_zero("highest_rc"), "time"), ")"),
    )


def _span(word: str = " for ") -> Column:
    """Return the duration after a word; empty if the episode has one sample only.

    The word for growth is " over ": it is measured between two moments, and the depth may have stopped rising earlier.
    """
    return _if(sf.col("span_ms") > 0, word, duration(sf.col("span_ms")))


def _if(condition: Column, *words: Column | str) -> Column:
    return sf.when(condition, joined(*words)).otherwise("")


def _or_zero(name: str) -> Column:
    return sf.coalesce(name, sf.lit(0))


OVER, UNKNOWN, OPEN = "over", "unknown", "open"

_SUMS = ("samples", "arrivals", "deletes", "receives")
# A queue has only one kind, and was created once, so max() returns it.
_PEAKS = ("peak_depth", "peak_ready", "peak_age_ms", "poison", "highest_rc", "expired", "kind", "created_ms")

# What the samples of a trouble tell of its extent.
_MEASURED = (
    *("first_depth", "peak_depth", "peak_ready", "peak_ms", "peak_age_ms", "arrivals", "deletes"),
    *("poison", "highest_rc", "expired"),
)
# What is known of the beginning of a run, and of what follows it.
_BEGUN = ("first_depth", "since_depth", "told")
_FOLLOWING = ("next_ms", "next_continues", "ok_ms", "up_ms", "place_last_ms", "over_ms")


def episodes_of(runs: DataFrame) -> DataFrame:
    """Return the episodes, from the runs of all hours.

    Consecutive runs of one verdict are one episode, also with a gap or an outage between them if the recorder knew that
    the condition has held since before that. It begins when the condition of the verdict began, as the recorder knew
    it, and so it may overlap with the one before; but not before the queue was created, nor before the end of an
    earlier episode of the queue with the same verdict.

    A recorder keeps a verdict for a while after its condition has stopped holding. That time is no trouble: if the last
    sample says since when, this is the end, and the episode is ``over``. Older files do not say so. There, it is
    ``over`` if another run of the queue follows directly, whose first sample is its end. It is ``open`` if the history
    has neither rows of the queue nor polls of its place after it. Otherwise its end is ``unknown``: a gap or an outage
    follows, or the queue was deleted, even if another one of the same name was created.

    A queue that was next ok, with nothing unknown in between, recovered when the last condition before that had stopped
    holding. A queue with the verdict watching is in no episode.

    A place that was down recovered with its next poll that succeeded, if that is within a minute of the last failed
    one. Older tables do not have these polls: there it recovered with the next sample of any of its queues. It was
    down since ``answered_ms`` at most, and until ``failed_ms`` at least.

    ``affected`` is the number of messages affected. For a growing queue: how many it gained from the beginning of its
    growth to the peak; older files do not have the depth of then, and count from the first sample with that verdict.
    For a stalled, leaking or aged one: the maximum of ready messages or expired leases. For a poisoned one: the maximum
    of poison messages. For a broken one: the maximum depth. Null for a place that was down, and, like the peaks, for a
    trouble that a worse one hid as long as its condition held.
    """
    known = _joined(runs).withColumn("over_ms", _over_ms())
    troubles = _resumed(_followed(known).where(~sf.col("verdict").isin("ok", "watching")))
    is_down = sf.col("verdict") == "down"
    is_up_soon = sf.col("up_ms") - sf.col("last_ms") <= GAP_MS
    is_left = sf.when(is_down, is_up_soon).otherwise(sf.col("next_continues"))
    next_ms = sf.when(is_down, sf.col("up_ms")).otherwise(sf.col("next_ms"))
    is_open = next_ms.isNull() & (sf.col("last_ms") == sf.col("place_last_ms"))
    left_ms = sf.when(is_left, next_ms).otherwise(sf.col("last_ms"))
    is_over = is_left | sf.col("over_ms").isNotNull()
    end_ms = sf.coalesce("over_ms", left_ms)
    ok_ms = sf.when(sf.col("ok_ms").isNotNull(), sf.greatest("ok_ms", end_ms))
    ended = _without_later(troubles).withColumns(
        {
            "ended": sf.when(is_over, OVER).when(is_open, OPEN).otherwise(UNKNOWN),
            "left_ms": left_ms,
            "end_ms": end_ms,
            "recovered_ms": sf.when(is_down, sf.when(is_up_soon, sf.col("up_ms"))).otherwise(ok_ms),
            "failed_ms": sf.when(is_down, sf.col("last_ms")),
            "affected": _affected(),
        }
    )
    by_verdict = Window.partitionBy(*QUEUE, "verdict").orderBy("first_ms")
    start_ms = sf.greatest(_before_first("since_ms"), _before_first("created_ms"), sf.lag("end_ms").over(by_verdict))
    begun_ms = sf.when(_before_first("since_ms").isNotNull(), start_ms).otherwise(sf.col("first_ms"))
    begun = ended.withColumn("start_ms", sf.least(begun_ms, "end_ms"))
    explained = begun.withColumn("span_ms", sf.col("end_ms") - sf.col("start_ms")).withColumn("cause", cause())
    return conform(explained, EPISODES)


def _without_later(troubles: DataFrame) -> DataFrame:
    """Return the troubles without what is known of later times only.

    A trouble that a worse one hid until its condition had stopped holding has no sample in which it held.
    """
    is_later = sf.coalesce(sf.col("over_ms") <= sf.col("first_ms"), sf.lit(False))
    return troubles.withColumns({name: sf.when(~is_later, sf.col(name)) for name in _MEASURED})


def _before_first(name: str) -> Column:
    """Return a time before the first sample, null if it is not: any number may be recorded."""
    return sf.when(sf.col(name).between(0, sf.col("first_ms")), sf.col(name))


def _over_ms() -> Column:
    """Return when the condition of a trouble stopped holding, null if it holds or that is not recorded."""
    pending_ms = sf.col("pending_since_ms")
    is_known = pending_ms.between(sf.greatest(sf.coalesce("since_ms", sf.lit(0)), sf.lit(0)), sf.col("last_ms"))
    return sf.when(is_known & ~sf.col("verdict").isin("ok", "watching", "down"), pending_ms)


def _joined(runs: DataFrame) -> DataFrame:
    """Join consecutive runs of one verdict across hours."""
    by_time = Window.partitionBy(*QUEUE).orderBy("first_ms")
    is_same = sf.lag("verdict").over(by_time).eqNullSafe(sf.col("verdict")) & sf.col("continues")
    return _as_one(runs.repartition(*QUEUE), is_same, "continues", *_BEGUN, last=("pending_since_ms",))


def _resumed(troubles: DataFrame) -> DataFrame:
    """Join troubles that are consecutive across a gap, if the condition has held since before that."""
    return _as_one(troubles, sf.col("resumes"), *_BEGUN, "answered_ms", last=_FOLLOWING)


def _as_one(runs: DataFrame, is_same: Column, *first: str, last: Collection[str] = ()) -> DataFrame:
    """Join each run with the one before of its queue if it is the same; the named columns are of its first or last."""
    by_time = Window.partitionBy(*QUEUE).orderBy("first_ms")
    at_peak = sf.when(sf.col("peak_depth").isNotNull(), sf.struct("peak_depth", -sf.col("peak_ms")))
    kept = {"first": sf.min_by(sf.struct(*first), "first_ms")}
    if last:
        kept["last"] = sf.max_by(sf.struct(*last), "first_ms")
    return (
        runs.withColumn("is_start", sf.when(is_same, 0).otherwise(1))
        .withColumn("run", sf.sum("is_start").over(by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .groupBy(*QUEUE, "run", "verdict")
        .agg(
            sf.min("first_ms").alias("first_ms"),
            sf.min("since_ms").alias("since_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.max_by("peak_ms", at_peak).alias("peak_ms"),
            *(column.alias(name) for name, column in kept.items()),
            *(sf.try_sum(name).alias(name) for name in _SUMS),
            *(sf.max(name).alias(name) for name in _PEAKS),
        )
        .withColumns({name: sf.col("first")[name] for name in first} | {name: sf.col("last")[name] for name in last})
    )


def _followed(runs: DataFrame) -> DataFrame:
    """Return the runs with what follows each: of its queue, and in its place."""
    # The latest first: a window frame that begins at an end takes one pass.
    by_queue = Window.partitionBy(*QUEUE).orderBy(sf.desc("first_ms"))
    later = by_queue.rowsBetween(Window.unboundedPreceding, -1)
    in_chain = Window.partitionBy(*QUEUE, "chain").orderBy(sf.desc("first_ms"))
    in_place = Window.partitionBy(*PLACE).orderBy(sf.desc("first_ms"))
    breaks = sf.sum(sf.when(sf.col("continues"), 0).otherwise(1)).over(later)
    is_ok, is_up = sf.col("verdict") == "ok", sf.col("verdict") != "down"
    over_ms = sf.when(sf.col("continues"), sf.lead("over_ms").over(by_queue))
    followed = runs.withColumns(
        {
            "next_ms": sf.lag("first_ms").over(by_queue),
            "next_continues": sf.lag("continues").over(by_queue),
            "resumes": _has_held(by_queue),
            "chain": sf.coalesce(breaks, sf.lit(0)),
            "answered_ms": sf.when(sf.col("verdict") == "down", _answered_ms(by_queue)),
            "calm_ms": sf.when(is_ok, sf.coalesce(over_ms, sf.col("first_ms"))),
        }
    ).withColumn("ok_ms", sf.min("calm_ms").over(in_chain.rowsBetween(Window.unboundedPreceding, -1)))
    # For a place, only when it was up and its last sample are needed: one pass computes both.
    return followed.withColumns(
        {
            "up_ms": sf.min(sf.when(is_up, sf.col("first_ms"))).over(
                in_place.rangeBetween(Window.unboundedPreceding, -1)
            ),
            "place_last_ms": sf.max("last_ms").over(Window.partitionBy(*PLACE)),
        }
    )


def _answered_ms(latest_first: WindowSpec) -> Column:
    """Return the last poll of a place that succeeded before this run, if it was not long before."""
    before_ms = sf.when(sf.lead("verdict").over(latest_first) == "ok", sf.lead("last_ms").over(latest_first))
    return sf.when(sf.col("first_ms") - before_ms <= GAP_MS, before_ms)


def _has_held(latest_first: WindowSpec) -> Column:
    """Return whether the verdict is that of the run before, and its condition has held since then, by the recorder."""
    before = {name: sf.lead(name).over(latest_first) for name in ("verdict", "last_ms", "created_ms")}
    is_other = sf.coalesce(sf.col("created_ms") != before["created_ms"], sf.lit(False))
    has_held = sf.coalesce(sf.col("since_ms").between(0, before["last_ms"]), sf.lit(False))
    return sf.col("verdict").eqNullSafe(before["verdict"]) & has_held & ~is_other


def _affected() -> Column:
    verdict = sf.col("verdict")
    gained = sf.col("peak_depth") - sf.coalesce("since_depth", "first_depth")
    return (
        sf.when(verdict == "growing", gained)
        .when(verdict == "stalled", sf.greatest("peak_ready", "expired"))
        .when(verdict == "leaking", sf.col("expired"))
        .when(verdict == "aged", sf.col("peak_ready"))
        .when(verdict == "poisoned", sf.col("poison"))
        .when(verdict == "broken", sf.col("peak_depth"))
    )
