"""Episodes: each period in which a queue had one verdict of trouble, and its cause."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import EPISODES
from rsmq_tui.pipeline.transforms.columns import conform, count, duration, plural, rate
from rsmq_tui.pipeline.transforms.samples import GAP_MS, PLACE, QUEUE
from rsmq_tui.protocol.kinds import KINDS

# Nothing counts what arrives in queues of these kinds.
_UNCOUNTED = [kind.name for kind in KINDS.values() if not kind.counts_arrivals]


def cause() -> Column:
    """Return the sentence for an episode, from its columns and ``span_ms``, how long it went on as far as is known.

    It names no queue. Why a place could not be polled or a queue was broken is as the server told: that may be any
    text, and whoever prints it makes it harmless.
    """
    verdict, is_uncounted = sf.col("verdict"), sf.col("kind").isin(_UNCOUNTED)
    return (
        sf.when((verdict == "stalled") & is_uncounted, _stalled_list())
        .when(verdict == "leaking", _leaking())
        .when((verdict == "growing") & is_uncounted, _growing_list())
        .when(verdict == "growing", _growing())
        .when(
            verdict == "stalled",
            sf.concat(plural(_known("peak_ready"), "message"), _text(" ready and none received"), _span()),
        )
        .when(
            verdict == "aged",
            sf.concat(_text("the first ready message was up to "), duration(sf.col("peak_age_ms")), _text(" old")),
        )
        .when(verdict == "poisoned", _poisoned())
        .when(verdict == "broken", sf.coalesce("told", _text("its keys disagree")))
        .when(verdict == "down", sf.concat(sf.coalesce("told", _text("no poll succeeded")), _span()))
        .otherwise(verdict)
    )


def _growing() -> Column:
    net_s = sf.try_divide(sf.try_subtract("arrivals", "deletes"), sf.col("span_ms") / 1000)
    by = _if(net_s > 0, _text(" by "), rate(net_s), _text("/s"))
    first, peak = sf.col("first_depth"), sf.col("peak_depth")
    rose = _if(peak > first, _text("; depth rose from "), count(first), _text(" to "), count(peak))
    return sf.concat(_text("arrivals exceeded deletes"), by, _span(), rose)


def _growing_list() -> Column:
    """Say by how much a list grew: nothing counts its arrivals and deletes."""
    first, peak = sf.col("first_depth"), sf.col("peak_depth")
    rose = _if(peak > first, _text(": depth rose from "), count(first), _text(" to "), count(peak))
    return sf.concat(_text("more was pushed than taken"), _span(), rose)


def _stalled_list() -> Column:
    """Say that none was taken, or that leases expired: older histories have the same verdict for both."""
    items = sf.concat(plural(_known("peak_ready"), "item"), _text(" ready and none taken"), _span())
    return sf.when(sf.col("expired") > _known("peak_ready"), _leaking()).otherwise(items)


def _leaking() -> Column:
    return sf.concat(plural(_known("expired"), "lease"), _text(" expired and not returned"), _span())


def _poisoned() -> Column:
    highest = sf.col("highest_rc")
    return sf.concat(
        sf.when(sf.col("poison") > 0, plural(sf.col("poison"), "message")).otherwise("messages"),
        _text(" received too often"),
        _if(highest.isNotNull(), _text(" (up to "), plural(_known("highest_rc"), "time"), _text(")")),
    )


def _span() -> Column:
    """Say for how long; nothing where it was seen in one sample only."""
    return _if(sf.col("span_ms") > 0, _text(" for "), duration(sf.col("span_ms")))


def _if(condition: Column, *words: Column) -> Column:
    return sf.when(condition, sf.concat(*words)).otherwise("")


def _known(name: str) -> Column:
    return sf.coalesce(name, sf.lit(0))


def _text(words: str) -> Column:
    return sf.lit(words)


OVER, UNKNOWN, OPEN = "over", "unknown", "open"

_SUMS = ("samples", "arrivals", "deletes", "receives")
# Of a queue's kind there is one.
_PEAKS = ("peak_depth", "peak_ready", "peak_age_ms", "poison", "highest_rc", "expired", "kind")


def episodes_of(runs: DataFrame) -> DataFrame:
    """Return the episodes, from the runs of all hours.

    Runs of one verdict that follow on each other are one episode. It is over where another run of the queue follows on,
    which tells when it ended; open where nothing of the queue follows and its place was not polled afterwards; else it
    is unknown how it ended: a gap follows, an outage, or the queue was gone. It recovered where the queue was next ok,
    with nothing unknown in between. A queue that is being watched, so that nothing is known to be wrong, is in no
    episode.

    A place that could not be polled was up again, and had recovered, with the next sample of any of its queues, if that
    came within a minute of the last poll that failed.

    ``affected``, the messages that it concerned: of a growing queue those it gained from the first sample to its peak;
    of a stalled, leaking or aged one the most that were ready, or whose leases had expired; of a poisoned one the most
    that were received too often; of a broken one all that were in it, at the most. Null of a place that was down:
    nobody could count.
    """
    followed = _followed(_joined(runs))
    is_down = sf.col("verdict") == "down"
    is_up_soon = sf.col("up_ms") - sf.col("last_ms") <= GAP_MS
    is_over = sf.when(is_down, is_up_soon).otherwise(sf.col("next_continues"))
    next_ms = sf.when(is_down, sf.col("up_ms")).otherwise(sf.col("next_ms"))
    is_open = next_ms.isNull() & (sf.col("last_ms") == sf.col("place_last_ms"))
    troubles = followed.where(~sf.col("verdict").isin("ok", "watching")).withColumns(
        {
            "ended": sf.when(is_over, OVER).when(is_open, OPEN).otherwise(UNKNOWN),
            "end_ms": sf.when(is_over, next_ms).otherwise(sf.col("last_ms")),
            "recovered_ms": sf.when(is_down, sf.when(is_up_soon, sf.col("up_ms"))).otherwise(sf.col("ok_ms")),
            "affected": _affected(),
        }
    )
    told = troubles.withColumn("span_ms", sf.col("end_ms") - sf.col("start_ms")).withColumn("cause", cause())
    return conform(told, EPISODES)


def _joined(runs: DataFrame) -> DataFrame:
    """Return the runs with those joined that follow on each other and have one verdict: across the hours, that is."""
    by_time = Window.partitionBy(*QUEUE).orderBy("first_ms")
    is_same = sf.lag("verdict").over(by_time).eqNullSafe(sf.col("verdict")) & sf.col("continues")
    at_peak = sf.when(sf.col("peak_depth").isNotNull(), sf.struct("peak_depth", -sf.col("peak_ms")))
    return (
        runs.repartition(*QUEUE)
        .withColumn("is_start", sf.when(is_same, 0).otherwise(1))
        .withColumn("run", sf.sum("is_start").over(by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .groupBy(*QUEUE, "run", "verdict")
        .agg(
            sf.min("first_ms").alias("start_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.min_by(sf.struct("continues", "first_depth", "told"), "first_ms").alias("first"),
            sf.max_by("peak_ms", at_peak).alias("peak_ms"),
            *(sf.try_sum(name).alias(name) for name in _SUMS),
            *(sf.max(name).alias(name) for name in _PEAKS),
        )
        .withColumns({name: sf.col("first")[name] for name in ("continues", "first_depth", "told")})
    )


def _followed(runs: DataFrame) -> DataFrame:
    """Return the runs with what comes after each: of the queue, and in its place."""
    # The latest first: frames that begin at an end cost no more than a pass.
    by_queue = Window.partitionBy(*QUEUE).orderBy(sf.desc("start_ms"))
    later = by_queue.rowsBetween(Window.unboundedPreceding, -1)
    in_chain = Window.partitionBy(*QUEUE, "chain").orderBy(sf.desc("start_ms"))
    in_place = Window.partitionBy(*PLACE).orderBy(sf.desc("start_ms"))
    breaks = sf.sum(sf.when(sf.col("continues"), 0).otherwise(1)).over(later)
    is_ok, is_queue = sf.col("verdict") == "ok", sf.col("queue").isNotNull()
    followed = runs.withColumns(
        {
            "next_ms": sf.lag("start_ms").over(by_queue),
            "next_continues": sf.lag("continues").over(by_queue),
            "chain": sf.coalesce(breaks, sf.lit(0)),
        }
    ).withColumn(
        "ok_ms",
        sf.min(sf.when(is_ok, sf.col("start_ms"))).over(in_chain.rowsBetween(Window.unboundedPreceding, -1)),
    )
    # Of a place only the runs are wanted that tell when it was up, and its last sample: both are there in one pass.
    return followed.withColumns(
        {
            "up_ms": sf.min(sf.when(is_queue, sf.col("start_ms"))).over(
                in_place.rangeBetween(Window.unboundedPreceding, -1)
            ),
            "place_last_ms": sf.max("last_ms").over(Window.partitionBy(*PLACE)),
        }
    )


def _affected() -> Column:
    verdict = sf.col("verdict")
    gained = sf.col("peak_depth") - sf.col("first_depth")
    return (
        sf.when(verdict == "growing", gained)
        .when(verdict == "stalled", sf.greatest("peak_ready", "expired"))
        .when(verdict == "leaking", sf.col("expired"))
        .when(verdict == "aged", sf.col("peak_ready"))
        .when(verdict == "poisoned", sf.col("poison"))
        .when(verdict == "broken", sf.col("peak_depth"))
    )
