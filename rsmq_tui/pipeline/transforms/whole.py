"""All tables over all days, from the tables by day: advice, and the incidents of the episodes.

Advice is the visibility timeout that covers the holding times of messages. There is one if more than 1 % of the
receives were redeliveries, by the counters, and these are in several hours: one crash of a consumer says nothing of the
vt. A holding time is from the first receive until the delete, of the messages in inventories. These are mostly those
held longest, and for a message that became visible again it includes the wait for the next receive: the advice is
rather too long, and covers more. Holding times are as precise as inventories are close. There is no advice if it would
be near their error; then it says which time between inventories would do.

A message whose consumer crashed is held for vt, and then for as long as others are. If consumers need longer than vt
instead, there are messages that are held for nearly as long as vt.

Messages that are received again and again fail, for whatever reason: if they are most of the redeliveries, no vt helps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from math import inf
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.incidents import incidents_of
from rsmq_tui.history.analysis.schema import (
    ADVICE,
    ANOMALIES,
    BASELINE,
    EPISODES,
    FORECAST,
    INCIDENTS,
    LIFECYCLE,
    POISON,
    POISON_DAYS,
    QUEUES,
    ROLLUP_1H,
    VERDICT_RUNS,
)
from rsmq_tui.history.analysis.values import Episode
from rsmq_tui.history.names import Place, read_name, stored_name
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.baselines import anomalies, baseline
from rsmq_tui.pipeline.transforms.columns import conform, count, duration, joined, plural, rounded
from rsmq_tui.pipeline.transforms.episodes import episodes_of
from rsmq_tui.pipeline.transforms.forecasts import forecast
from rsmq_tui.pipeline.transforms.inventories import poison
from rsmq_tui.pipeline.transforms.quantiles import STEPS, merged
from rsmq_tui.pipeline.transforms.samples import QUEUE, last_known

WHOLE_SOURCES = {
    QUEUES: (ROLLUP_1H,),
    EPISODES: (VERDICT_RUNS,),
    INCIDENTS: (VERDICT_RUNS,),
    BASELINE: (ROLLUP_1H,),
    ANOMALIES: (ROLLUP_1H,),
    FORECAST: (ROLLUP_1H,),
    POISON: (POISON_DAYS, LIFECYCLE),
    ADVICE: (LIFECYCLE, ROLLUP_1H),
}
"""The tables over all days, and the tables by day that each is computed from."""


def whole_tables(tables: Mapping[str, DataFrame], settings: AnalysisSettings) -> dict[str, DataFrame]:
    """Return the tables over all days; ``tables`` are those in ``WHOLE_SOURCES``, with all of their days.

    ``incidents`` is computed from the rows of ``episodes`` once they are written.
    """
    hours, lifecycle = tables[ROLLUP_1H], tables[LIFECYCLE]
    return {
        QUEUES: queues(hours),
        EPISODES: episodes_of(tables[VERDICT_RUNS]),
        BASELINE: baseline(hours, settings),
        ANOMALIES: anomalies(hours, settings),
        FORECAST: forecast(hours, settings),
        POISON: poison(tables[POISON_DAYS], lifecycle),
        ADVICE: advice(lifecycle, hours),
    }


def queues(hours: DataFrame) -> DataFrame:
    """Return the table ``queues``, from ``rollup_1h`` of all days."""
    return conform(
        hours.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE)
        .agg(
            sf.min("bucket_ms").alias("first_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.sum("samples").alias("samples"),
            sf.max("depth_max").alias("peak_depth"),
            *(last_known(name) for name in ("kind", "last_depth")),
        ),
        QUEUES,
    )


_EPISODE_FIELDS = [field.name for field in fields(Episode) if field.name != "place"]


def incidents(episodes: Iterable[Mapping[str, Any]], settings: AnalysisSettings) -> list[dict[str, Any]]:
    """Return the rows of the table ``incidents``, from those of ``episodes``.

    It is computed by this process, by the rule that replays use (see ``rsmq_tui.history.analysis.incidents``): there
    are few episodes beside samples.
    """
    expected = {profile: Expected.of_lists(*lists) for profile, lists in settings.expected.items()}
    found = []
    for row in episodes:
        place = Place.read(row["profile"], row["server"], row["ns"])
        values = {name: row[name] for name in _EPISODE_FIELDS}
        values["queue"] = None if row["queue"] is None else read_name(row["queue"])
        found.append(Episode(place=place, **values))
    rows = []
    for incident in incidents_of(found, expected):
        queue = None if incident.queue is None else stored_name(incident.queue)
        names = {**incident.place.stored._asdict(), "queue": queue, "verdicts": list(incident.verdicts)}
        rows.append(asdict(incident) | names)
    return rows


KNOWN_MIN = 20
"""The minimum number of holding times for an advice."""

ERRORS_MIN = 3
"""The minimum holding time for an advice, in errors: the true one is then between two thirds of it and four thirds."""

AGAIN_HOURS_MIN = 3
"""The minimum number of hours with redeliveries for an advice: what one crash leaves is in two of them at most."""

NEAR_SHARE = 0.5
"""How far below and above vt, as a share of it, a holding time is near vt."""

NEARLY_ALL, HARDLY_ANY = 0.75, 0.5
"""If that share of the messages that are held longer than vt is near vt, and at most that share as many are held for
nearly as long as vt, consumers may crash."""

FAILS_RC = 5
"""A message that is received so often fails, unless messages are held for as many times vt."""

_COVERED = 99
_AGAIN_MAX = 0.01


def advice(lifecycle: DataFrame, hours: DataFrame) -> DataFrame:
    """Return the table ``advice``, from ``lifecycle`` and ``rollup_1h`` of all days, for queues with inventories.

    How many messages came back is derived from the counters of receives, not from inventories, which mostly show what
    is held for long. If hardly any did, the current vt is enough.
    """
    counted = (
        hours.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE)
        .agg(
            last_known("vt_s"),
            sf.try_sum("receives").alias("receives"),
            sf.try_sum("redeliveries").alias("redeliveries"),
            sf.count_if(sf.col("redeliveries") > 0).alias("again_hours"),
        )
    )
    found = (
        lifecycle.groupBy(*QUEUE)
        .agg(
            sf.coalesce(sf.sum("final_received"), sf.lit(0)).alias("received"),
            sf.sum("final_expired").alias("expired"),
            sf.sum(_again_from(2)).alias("again_seen"),
            sf.sum(_again_from(FAILS_RC)).alias("again_failing"),
            sf.collect_list(
                sf.struct(sf.col("holding_ms_known").alias("known"), "holding_error_ms", "holding_ms_quantiles")
            ).alias("days"),
        )
        .join(counted, on=list(QUEUE), how="left")
        .join(merged(lifecycle, QUEUE, "holding_ms_quantiles", "holding_ms_known", _COVERED), list(QUEUE), "left")
    )
    known = found.withColumns(
        {
            "known": sf.coalesce("merged_known", sf.lit(0)),
            "holding_ms_p99": sf.col("merged"),
            "expired_share": sf.when(sf.col("received") > 0, sf.col("expired") / sf.col("received")),
            "again_share": sf.when(sf.col("receives") > 0, sf.col("redeliveries") / sf.col("receives")),
        }
    )
    # Days with less than 1 % of the messages do not decide what covers 99 %.
    counting = sf.filter("days", lambda in_one: in_one["known"] >= sf.col("known") * (100 - _COVERED) / 100)
    p99_ms, error_ms = sf.col("holding_ms_p99"), sf.col("error_ms")
    is_clear = p99_ms >= error_ms * ERRORS_MIN
    most_ms = sf.when(is_clear, p99_ms).otherwise(p99_ms + error_ms)
    covering_s = sf.ceil(sf.col("most_ms") / 1000).cast("double")
    # At that distance a holding time of vt, or of what messages are held at least, is clear, or vt covers it.
    every_s = sf.greatest(sf.col("vt_s"), (p99_ms - error_ms) / 1000, sf.lit(2.0)) / 2
    is_wanted = (
        _came_back_often() & (sf.col("known") >= KNOWN_MIN) & is_clear & ~_is_covered() & ~_may_crash() & ~_fail()
    )
    advised = (
        known.withColumn("error_ms", sf.coalesce(sf.array_max(counting["holding_error_ms"]), sf.lit(0.0)))
        .withColumn("most_ms", most_ms)
        .withColumns({"advised_vt_s": sf.when(is_wanted, covering_s), "covering_s": covering_s, "is_clear": is_clear})
        .withColumn("every_s", sf.floor(every_s).cast("double"))
    )
    return conform(advised.withColumn("told", _advice_text()), ADVICE)


def _advice_text() -> Column:
    again, receives = sf.col("redeliveries"), sf.col("receives")
    number = sf.when(again == 0, "none").otherwise(joined("about ", count(again)))
    of_all = sf.when(again == 0, "").otherwise(joined(" (", share(sf.col("again_share")), ")"))
    came_back = joined(number, " of ", plural(receives, "receive"), of_all, " redelivered a message")
    vt = joined("vt ", seconds(sf.col("vt_s")))
    now = sf.coalesce(joined(" (now ", seconds(sf.col("vt_s")), ")"), sf.lit(""))
    is_once = sf.col("again_hours") < AGAIN_HOURS_MIN
    return (
        sf.when(~(receives > 0) | sf.col("again_share").isNull(), "no receive was counted")
        .when(sf.col("again_share") <= _AGAIN_MAX, sf.coalesce(joined(vt, " is enough: ", came_back), came_back))
        .when(is_once, joined(came_back, ", in two hours at most: too seldom to tell a low vt from a crash"))
        .when(
            _fail(),
            joined(came_back, f", most of them one that was received {FAILS_RC} times or more: it fails with any vt"),
        )
        .when(
            sf.col("known") < KNOWN_MIN,
            joined(came_back, "; too few were seen in inventories (", count(sf.col("known")), ") to advise a vt"),
        )
        .when(_is_covered(), joined(came_back, ", but hardly any was held longer than ", vt, ": consumers may crash"))
        .when(
            ~sf.col("is_clear"),
            joined(came_back, "; inventories every ", seconds(sf.col("every_s")), " would show which vt is enough"),
        )
        .when(
            _may_crash(),
            joined(
                came_back,
                "; hardly any was held nearly as long as ",
                vt,
                ", so consumers may crash; if none did, a vt of ",
                seconds(sf.col("covering_s")),
                " would cover 99 % or more",
            ),
        )
        .otherwise(
            joined(
                came_back,
                "; if no consumer crashed, a vt of ",
                seconds(sf.col("advised_vt_s")),
                now,
                " would cover 99 % or more",
            )
        )
    )


def _came_back_often() -> Column:
    """Return whether so many messages came back, and at so many times, that the vt may be too low."""
    is_often = (sf.col("again_share") > _AGAIN_MAX) & (sf.col("again_hours") >= AGAIN_HOURS_MIN)
    return sf.coalesce(is_often, sf.lit(False))


def _again_from(rc: int) -> Column:
    """Return how many redeliveries those messages had at least that were received so often."""
    again = sf.transform("rc_counts", lambda number, at: sf.when(at >= rc, number * (at - 1)).otherwise(0))
    return sf.coalesce(sf.aggregate(again, sf.lit(0).cast("bigint"), lambda total, each: total + each), sf.lit(0))


def _fail() -> Column:
    """Return whether most redeliveries are of messages that fail, by their receive counts in inventories."""
    is_most = (sf.col("again_failing") > 0) & (sf.col("again_failing") >= sf.col("again_seen") * NEARLY_ALL)
    is_slow = sf.col("holding_ms_p99") >= sf.col("vt_s") * 1000 * (FAILS_RC - 1)
    return sf.coalesce(is_most & ~sf.coalesce(is_slow, sf.lit(False)), sf.lit(False))


def _is_covered() -> Column:
    return sf.coalesce(sf.col("most_ms") <= sf.col("vt_s") * 1000, sf.lit(False))


def _may_crash() -> Column:
    """Return whether the messages that were held longer than vt look like those of consumers that crashed."""
    below, above = _held(1 - NEAR_SHARE, 1.0), _held(1.0, 1 + NEAR_SHARE)
    return (above > 0) & (above >= _held(1.0, inf) * NEARLY_ALL) & (below <= above * HARDLY_ANY)


def _held(from_share: float, to_share: float) -> Column:
    """Return about how many messages were held longer than a share of vt, and not longer than another one."""
    vt_ms = sf.col("vt_s") * 1000

    def is_in(held_ms: Column) -> Column:
        return (held_ms > vt_ms * from_share) & (held_ms <= vt_ms * to_share)

    def in_one(day: Column) -> Column:
        # The first value of a summary is the minimum, each other one stands for a percent.
        values = sf.filter(sf.slice(day["holding_ms_quantiles"], 2, STEPS), is_in)
        return sf.coalesce(day["known"] * sf.size(values) / STEPS, sf.lit(0.0))

    return sf.aggregate("days", sf.lit(0.0), lambda total, day: total + in_one(day))


def share(value: Column) -> Column:
    """Format a share: 12 %, less than 1 %, none."""
    return (
        sf.when(value <= 0, "none").when(value < 0.01, "less than 1 %").otherwise(joined(count(value * 100), " %"))
    )  # fmt: skip


def seconds(value: Column) -> Column:
    """Format a setting in seconds: 30 s, 15.5 s, 2h 0m."""
    number = sf.when(value == sf.floor(value), sf.floor(value).cast("string")).otherwise(
        sf.round(value, 3).cast("string")
    )  # fmt: skip
    return sf.when(value < 600, joined(number, " s")).when(value >= 600, duration(rounded(value * 1000)))
