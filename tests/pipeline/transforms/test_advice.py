"""What follows from all days: messages that are poison, and which vt a queue should have."""

from bisect import bisect_left
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ADVICE, LIFECYCLE, POISON, POISON_DAYS, SCHEMAS
from rsmq_tui.pipeline.transforms.columns import columns_of
from rsmq_tui.pipeline.transforms.inventories import poison
from rsmq_tui.pipeline.transforms.quantiles import merged, summary
from rsmq_tui.pipeline.transforms.whole import advice
from tests.pipeline.transforms import made_hours
from tests.pipeline.transforms.made_inventories import PLACE, Row, day, percentile


def table(spark: SparkSession, name: str, rows: list[Row]) -> DataFrame:
    """A table by day, as it is stored; what is not told is unknown."""
    schema = SCHEMAS[name].insert(0, pa.field("day", pa.string()))
    filled = [{column: {**PLACE, **row}.get(column) for column in schema.names} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(filled, schema))


def lifecycle_of(
    spark: SparkSession, days: list[tuple[str, int, int, list[float], float | None]], rcs: dict[str, list[int]]
) -> DataFrame:
    """Days of queues: how many were received, how many of these came back, how long in s they were held, the error.

    ``rcs`` has the receive counts of the messages of some queues, on each day.
    """
    rows = [
        {"day": day(number), "queue": queue, "final_received": received, "final_expired": expired, "held": held}
        | {"holding_error_ms": None if error_s is None else error_s * 1000}
        | {"rc_counts": [sum(min(rc, 10) == at for rc in rcs.get(queue, ())) for at in range(11)]}
        for number, (queue, received, expired, held, error_s) in enumerate(days)
    ]
    schema = "day string, queue string, final_received bigint, final_expired bigint, held array<double>"
    schema += ", holding_error_ms double, rc_counts array<bigint>"
    by_day = spark.createDataFrame(rows, schema)
    held_ms = sf.transform(sf.sort_array("held"), lambda held_s: held_s * 1000)
    summaries = by_day.withColumn("held_ms", held_ms).withColumns(
        {"holding_ms_known": sf.size("held"), "holding_ms_quantiles": summary("held_ms")}
    )
    return summaries.withColumns({name: sf.lit(text) for name, text in PLACE.items()})


def hours_of(receives: dict[str, tuple[int, list[int]]], vts: dict[str, float | None]) -> pa.Table:
    """Hours of queues: how many were received in each, and how many of these came back; and the vt."""
    return made_hours.arrow(
        [
            # What is not known in the last hour was known in the one before.
            made_hours.hour(queue, at, vt_s=None if at + 1 == len(again) > 1 else vts.get(queue, 30.0),
                            receives=number, redeliveries=came_back)
            for queue, (number, again) in receives.items()
            for at, came_back in enumerate(again)
        ]
    )  # fmt: skip


def test_advice_is_of_all_days_together(spark: SparkSession) -> None:
    quick = [float(number) for number in range(1, 100)]
    lifecycle = lifecycle_of(
        spark,
        [
            # 99 % of these are held for 94.2 s at most, which no day by itself tells.
            ("slow", 1000, 100, [*quick, 94.2], 5.0), ("slow", 204, 44, [n / 10 for n in range(400)], 5.0),
            ("quick", 300, 0, quick[:20], 5.0), ("hardly known", 3, 1, [1.0] * 19, 5.0),
            ("never received", 0, 0, [], None), ("a list", 9, 3, [60.0] * 30, 5.0),
            ("without vt", 100, 0, quick, None), ("long", 10, 5, [90_000.0] * 20, 30_000.0),
            # Inventories that are hours apart tell no shorter holding time.
            ("far apart", 300, 30, [1_800.2] * 20, 1_800.0),
            ("near enough", 300, 30, [16.0] * 20, 8.0), ("held long", 300, 30, [9_000.0] * 20, 3_600.0),
            # A few messages that were seen before an outage do not count, many do.
            ("after an outage", 300, 30, [60.0] * 500, 5.0), ("after an outage", 0, 0, [3_600.0] * 5, 3_600.0),
            ("seen by two", 300, 30, [60.0] * 500, 5.0), ("seen by two", 0, 0, [1_800.0] * 50, 1_800.0),
            # Consumers crash, or need a little longer than vt, or much longer.
            ("crashing", 300, 30, [2.0] * 80 + [32.0] * 20, 5.0), ("little low", 300, 30, [28.0, 32.0] * 50, 5.0),
            ("far too low", 300, 30, [2.0] * 80 + [60.0] * 20, 5.0),
            # Three messages come back again and again, or messages need five times the vt.
            ("poisoned", 300, 3, [2.0] * 80 + [60.0] * 20, 5.0), ("five times", 300, 30, [150.0] * 100, 5.0),
            # Inventories show the twenty messages that a consumer held when it was killed, and few of the others.
            ("crashed once", 56, 20, [89.0] * 20, 7.5), ("crashed once in a short recording", 21, 20, [47.0] * 20, 7.5),
        ],
        {"poisoned": [1] * 290 + [2] * 7 + [40] * 3, "five times": [5] * 300, "far too low": [1] * 270 + [2] * 29 + [9]}
    )  # fmt: skip
    often = dict.fromkeys(("slow", "hardly known", "far apart", "near enough", "held long"), (1_000, [120, 100, 140]))
    often |= dict.fromkeys(
        ("crashing", "little low", "far too low", "poisoned", "five times"), (1_000, [120, 100, 140])
    )
    often |= dict.fromkeys(("after an outage", "seen by two", "without vt", "long"), (1_000, [120, 100, 140, 0]))
    counted = often | {
        "quick": (100_000, [0, 0]), "never received": (0, [0]),
        "crashed once": (1_738, [0, 20]), "crashed once in a short recording": (341, [12, 8]),
    }  # fmt: skip
    vts: dict[str, float | None] = {"quick": 30.5, "long": 7200.0, "without vt": None}
    hours = pa.concat_tables([hours_of(counted, vts), made_hours.arrow([made_hours.hour("a list", 0, kind="list")])])

    found = advice(lifecycle, spark.createDataFrame(hours))

    assert dict(found.dtypes) == columns_of(ADVICE)
    rows = {row["queue"]: row for row in found.toArrow().to_pylist()}
    twelve = "about 360 of 3,000 receives (12 %) redelivered a message"
    nine = "about 360 of 4,000 receives (9 %) redelivered a message"
    assert {queue: row["told"] for queue, row in rows.items()} == {
        "slow": f"{twelve}; if no consumer crashed, a vt of 95 s (now 30 s) would cover 99 % or more",
        "quick": "vt 30.5 s is enough: none of 200,000 receives redelivered a message",
        "hardly known": f"{twelve}; too few were seen in inventories (19) to advise a vt",
        "never received": "no receive was counted",
        "a list": "no receive was counted",
        "without vt": f"{nine}; if no consumer crashed, a vt of 99 s would cover 99 % or more",
        "long": f"{nine}; if no consumer crashed, a vt of 1d 1h (now 2h 0m) would cover 99 % or more",
        "far apart": f"{twelve}; inventories every 15 s would show which vt is enough",
        "near enough": f"{twelve}, but hardly any was held longer than vt 30 s: consumers may crash",
        "held long": f"{twelve}; inventories every 45m would show which vt is enough",
        "crashing": f"{twelve}; hardly any was held nearly as long as vt 30 s, so consumers may crash; if none did, a "
        "vt of 32 s would cover 99 % or more",
        "little low": f"{twelve}; if no consumer crashed, a vt of 32 s (now 30 s) would cover 99 % or more",
        "far too low": f"{twelve}; if no consumer crashed, a vt of 60 s (now 30 s) would cover 99 % or more",
        "poisoned": f"{twelve}, most of them one that was received 5 times or more: it fails with any vt",
        "five times": f"{twelve}; if no consumer crashed, a vt of 150 s (now 30 s) would cover 99 % or more",
        "after an outage": f"{nine}; if no consumer crashed, a vt of 60 s (now 30 s) would cover 99 % or more",
        "seen by two": f"{nine}; inventories every 15 s would show which vt is enough",
        "crashed once": "vt 30 s is enough: about 20 of 3,476 receives (less than 1 %) redelivered a message",
        "crashed once in a short recording": "about 20 of 682 receives (3 %) redelivered a message, in two hours at "
        "most: too seldom to tell a low vt from a crash",
    }
    advised = {queue: row["advised_vt_s"] for queue, row in rows.items() if row["advised_vt_s"] is not None}
    assert advised == {
        "slow": 95.0,
        "without vt": 99.0,
        "long": 90_000.0,
        "after an outage": 60.0,
        "little low": 32.0,
        "far too low": 60.0,
        "five times": 150.0,
    }
    slow, unknown, never = rows["slow"], rows["hardly known"], rows["never received"]
    assert (slow["vt_s"], slow["receives"], slow["redeliveries"]) == (30.0, 3000, 360)
    assert (slow["received"], slow["holding_ms_p99"]) == (1204, 94_200.0)
    assert slow["expired_share"] == pytest.approx(144 / 1204)
    assert unknown["holding_ms_p99"] == 1000.0
    assert (never["expired_share"], never["holding_ms_p99"]) == (None, None)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_percentile_of_merged_days_is_within_one_percent_of_its_rank(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    days = [
        [
            random.paretovariate(1.2) * 10 ** random.randint(0, 4)
            for _ in range(random.choice([1, 5, 99, 100, 101, 4000]))
        ]
        for _ in range(12)
    ]
    rows = [{"queue": "many", "values": sorted(values), "known": len(values)} for values in days]
    stored = spark.createDataFrame(pa.Table.from_pylist(rows)).withColumn("summary", summary("values"))
    everything = sorted(value for values in days for value in values)

    for percent in (1, 50, 95, 99):
        found = merged(stored, ["queue"], "summary", "known", percent).toArrow().to_pylist()
        again = merged(stored.repartition(3), ["queue"], "summary", "known", percent).toArrow().to_pylist()
        least = bisect_left(everything, found[0]["merged"]) / len(everything)
        assert found[0]["merged_known"] == len(everything)
        assert found == again
        assert abs(least - percent / 100) <= 0.01 + 1 / len(everything)


def test_days_of_a_hundred_values_or_fewer_are_merged_exactly(spark: SparkSession) -> None:
    random = Random(3)
    days = [[random.random() for _ in range(size)] for size in (1, 2, 20, 99, 100)]
    rows = [{"queue": "few", "values": sorted(values), "known": len(values)} for values in days]
    stored = spark.createDataFrame(pa.Table.from_pylist(rows)).withColumn("summary", summary("values"))
    everything = sorted(value for values in days for value in values)

    for percent in (0, 1, 50, 99, 100):
        found = merged(stored, ["queue"], "summary", "known", percent).toArrow().to_pylist()
        assert found[0]["merged"] == percentile(everything, percent)


def test_poison_over_all_days(spark: SparkSession) -> None:
    def seen(queue: str, id_: str, number: int, first_ms: int, last_ms: int, **facts: Any) -> Row:
        when = {"day": day(number), "first_seen_ms": first_ms, "last_seen_ms": last_ms}
        return {"queue": queue, "id": id_, "size": 7, **when, **facts}

    days = table(
        spark,
        POISON_DAYS,
        [
            seen("orders", "stays", 1, 200, 300, rc=9, fr_ms=5), seen("orders", "stays", 0, 50, 100, rc=6, fr_ms=5),
            seen("orders", "went", 0, 60, 100, rc=5, sent_ms=4), seen("gone", "went", 0, 60, 100, rc=5),
            seen("unknown", "there", 0, 60, 100, rc=5),
        ],
    )  # fmt: skip
    inventories = [("orders", 0, 100), ("orders", 1, 300), ("gone", 0, 100), ("gone", 2, 900)]
    lifecycle = table(
        spark,
        LIFECYCLE,
        [{"queue": q, "day": day(number), "last_inventory_ms": at_ms} for q, number, at_ms in inventories],
    )

    found = poison(days, lifecycle)

    assert dict(found.dtypes) == columns_of(POISON)
    rows = {(row["queue"], row["id"]): row for row in found.toArrow().to_pylist()}
    stays = {
        "rc": 9,
        "fr_ms": 5,
        "sent_ms": None,
        "size": 7,
        "first_seen_ms": 50,
        "last_seen_ms": 300,
        "is_there": True,
    }
    assert rows["orders", "stays"] == {**PLACE, "queue": "orders", "id": "stays", **stays}
    assert {key: row["is_there"] for key, row in rows.items()} == {
        ("orders", "stays"): True, ("orders", "went"): False, ("gone", "went"): False, ("unknown", "there"): None,
    }  # fmt: skip
