"""What is usual, what is not, and where it leads, equals what is worked out by brute force."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.history.analysis.schema import ANOMALIES, BASELINE, FORECAST, QUEUES
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.baselines import anomalies, baseline
from rsmq_tui.pipeline.transforms.columns import columns_of
from rsmq_tui.pipeline.transforms.forecasts import forecast
from rsmq_tui.pipeline.transforms.whole import queues
from tests.pipeline.transforms.made_hours import (
    HOUR_MS,
    START_MS,
    Chances,
    Row,
    arrow,
    expected_anomalies,
    expected_baseline,
    expected_forecast,
    hour,
    trending_hours,
    weekly_hours,
)

HOURS = st.builds(Chances, seed=st.integers(0, 2**32), missing=st.sampled_from((0, 20, 50)))
LIMITED = AnalysisSettings(depth_limit=100_000)


def rows_of(df: DataFrame, table: str, *names: str) -> dict[Any, Row]:
    """The rows of a table by what names them; its columns are as promised."""
    assert dict(df.dtypes) == columns_of(table)
    rows = df.toArrow().to_pylist()
    output = {tuple(row[name] for name in names): row for row in rows}
    assert len(output) == len(rows)
    return output


def about(value: Any) -> Any:
    return pytest.approx(value) if isinstance(value, float) else value


def same(found: dict[Any, Row], expected: dict[Any, Row]) -> None:
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert {name: found[key][name] for name in row} == {name: about(value) for name, value in row.items()}, key


@settings(max_examples=1, phases=(Phase.explicit, Phase.generate))
@given(HOURS, st.sampled_from(("UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York")))
def test_baseline_and_anomalies_equal_the_brute_force(spark: SparkSession, chances: Chances, zone: str) -> None:
    rows = weekly_hours(chances)
    hours = spark.createDataFrame(arrow(rows))
    settings = AnalysisSettings(zone=zone)

    same(rows_of(baseline(hours, settings), BASELINE, "queue", "metric", "hour_of_week"), expected_baseline(rows, zone))
    found = rows_of(anomalies(hours, settings), ANOMALIES, "queue", "metric", "bucket_ms")
    same(found, expected_anomalies(rows, 6.0, zone))


@settings(max_examples=1, phases=(Phase.explicit, Phase.generate))
@given(HOURS)
def test_forecasts_equal_the_brute_force(spark: SparkSession, chances: Chances) -> None:
    rows = trending_hours(chances)

    found = rows_of(forecast(spark.createDataFrame(arrow(rows)), LIMITED), FORECAST, "queue", "metric")

    same(found, expected_forecast(rows, LIMITED))


def test_a_constant_queue_is_not_unusual_at_its_first_change(spark: SparkSession) -> None:
    def weeks(queue: str, *depths: float) -> list[Row]:
        return [
            hour(queue, 168 * week + by, depth_mean=depth) for week, depth in enumerate(depths) for by in (-1, 0, 1)
        ]

    rows = [
        *weeks("one more", 0.0, 0.0, 0.0), hour("one more", 504, depth_mean=1.0),
        *weeks("six more", 0.0, 0.0, 0.0), hour("six more", 504, depth_mean=6.0),
        *weeks("new", 0.0), hour("new", 168, depth_mean=9000.0),
        *weeks("deep", 1000.0, 1000.0, 1000.0), hour("deep", 504, depth_mean=1250.0),
        *weeks("empty", 1000.0, 1000.0, 1000.0), hour("empty", 504, depth_mean=0.0),
    ]  # fmt: skip

    found = rows_of(anomalies(spark.createDataFrame(arrow(rows)), AnalysisSettings()), ANOMALIES, "queue")

    assert {queue: row["score"] for (queue,), row in found.items()} == {"six more": 6.0, "empty": -20.0}
    assert found["six more",]["bucket_ms"] == START_MS + 3 * 168 * HOUR_MS


def office(from_: datetime, days: int, zone: str) -> list[Row]:
    """Hours of a queue that is full in working hours, on the clocks of a zone."""
    random, rows = Random(1), []
    begin_ms = int(from_.timestamp() * 1000)
    for number in range(24 * days):
        at_ms = begin_ms + number * HOUR_MS
        moment = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone))
        level = 1000.0 if moment.weekday() < 5 and 9 <= moment.hour < 17 else 10.0
        rates = {f"{name}_s_mean": level / 100 * random.uniform(0.95, 1.05) for name in ("arrivals", "deletes")}
        rows.append(hour(zone, 0, depth_mean=level * random.uniform(0.95, 1.05), **rates) | {"bucket_ms": at_ms})
    return rows


@pytest.mark.parametrize("change", [datetime(2031, 3, 30, tzinfo=UTC), datetime(2031, 10, 26, tzinfo=UTC)])
def test_working_hours_are_usual_when_the_clocks_change(spark: SparkSession, change: datetime) -> None:
    rows = office(change - timedelta(days=35), 70, "Europe/Berlin")
    hours = spark.createDataFrame(arrow(rows))
    by_profile = AnalysisSettings(zones={"prod": "Europe/Berlin", "other": "Asia/Tokyo"})

    assert rows_of(anomalies(hours, AnalysisSettings(zone="Europe/Berlin")), ANOMALIES, "bucket_ms", "metric") == {}
    assert rows_of(anomalies(hours, by_profile), ANOMALIES, "bucket_ms", "metric") == {}
    # By UTC, the first and the last working hours are unusual from then on.
    assert rows_of(anomalies(hours, AnalysisSettings()), ANOMALIES, "bucket_ms", "metric") != {}


def test_an_hour_is_judged_by_what_was_before_it(spark: SparkSession) -> None:
    rows = weekly_hours(Chances(3, 0))
    now_ms = START_MS + 5 * 168 * HOUR_MS
    past = [row for row in rows if row["bucket_ms"] < now_ms]

    later = rows_of(
        anomalies(spark.createDataFrame(arrow(rows)), AnalysisSettings()), ANOMALIES, "queue", "metric", "bucket_ms"
    )
    then = rows_of(
        anomalies(spark.createDataFrame(arrow(past)), AnalysisSettings()), ANOMALIES, "queue", "metric", "bucket_ms"
    )

    assert then
    assert then == {key: row for key, row in later.items() if row["bucket_ms"] < now_ms}


def test_growth_that_began_yesterday_is_not_unusual_any_more(spark: SparkSession) -> None:
    rows = [hour("orders", at, depth_mean=5.0) for at in range(600)]
    rows += [hour("orders", at, depth_mean=900.0) for at in range(600, 700)]

    found = rows_of(anomalies(spark.createDataFrame(arrow(rows)), AnalysisSettings()), ANOMALIES, "bucket_ms")

    # For half a day, until most of the last 24 hours were like it.
    assert [(at_ms - START_MS) // HOUR_MS for (at_ms,) in sorted(found)] == list(range(600, 613))


def test_forecasts_in_words(spark: SparkSession) -> None:
    def hours(queue: str, depths: list[float], *, until: int = 10) -> list[Row]:
        begin = until - len(depths)
        return [hour(queue, begin + at, depth_mean=depth) for at, depth in enumerate(depths)]

    rows = [
        *hours("grows", [90_000.0 + 1204 * at for at in range(6)]), *hours("crawls", [3.4 * at for at in range(6)]),
        *hours("close", [60_000.0, 75_000.0, 90_000.0, 99_000.0]), *hours("over", [0.0, 100_000.0, 150_000.0]),
        *hours("jumped", [0.0, 0.0, 0.0, 0.0, 0.0, 9000.0]), *hours("new", [0.0, 9000.0]),
        *(hour("with a gap", at, depth_mean=9000.0 * at) for at in (4, 8, 9)),
        *hours("left", [0.0, 9000.0, 18_000.0], until=8),
    ]  # fmt: skip

    depths = rows_of(forecast(spark.createDataFrame(arrow(rows)), LIMITED), FORECAST, "queue")

    assert {queue: row["told"] for (queue,), row in depths.items()} == {
        "grows": "at +1,204/h it reaches 100,000 messages in 2h 48m (2031-05-17 12:48 UTC)",
        "crawls": "at +3.4/h it does not reach 100,000 messages within a year",
        "close": "at +13,200/h it is about to reach 100,000 messages",
        "over": "over the limit of 100,000 messages since 2031-05-17 08:00 UTC",
        "jumped": "does not grow",
        "with a gap": "at +9,000/h it reaches 100,000 messages in 1h 36m (2031-05-17 11:36 UTC)",
    }
    others = {queue: row["reaches_ms"] for (queue,), row in depths.items() if queue not in ("grows", "with a gap")}
    assert others == {
        "crawls": None, "close": START_MS + 10 * HOUR_MS, "over": START_MS + 8 * HOUR_MS, "jumped": None,
    }  # fmt: skip


def test_what_a_queue_does_every_day_is_no_forecast(spark: SparkSession) -> None:
    def days(queue: str, number: int, depth: Callable[[int], float], until: int = 12) -> list[Row]:
        return [hour(queue, at, depth_mean=depth(at)) for at in range(until - 24 * number, until)]

    # Emptied at midnight; the last day is half over.
    rows = [
        *days("daily", 2, lambda at: 4000.0 * (at % 24)),
        *days("weekly", 10, lambda at: 4000.0 * (at % 24) if at // 24 in (-7, 0) else 0.0),
        *days("more than usual", 2, lambda at: 5000.0 * (at % 24) if at >= 0 else 100.0 * (at % 24)),
        *days("reaches it daily", 2, lambda at: 9000.0 * (at % 24)),
        *days("fuller every day", 5, lambda at: 3000.0 * (at % 24) + 2400.0 * (at // 24)),
        *days("slow", 5, lambda at: 50_000.0 + 20.0 * at + 300 * (-1) ** at),
        *days("workdays", 9, lambda at: 20_000.0 if at // 24 < -6 or at // 24 >= -4 else 1000.0),
        *days("jumped", 3, lambda at: 0.0 if at < 9 else 50_000.0 + at),
        *days("jumped 1 h ago", 3, lambda at: 0.0 if at < 11 else 50_000.0 + at),
        *days("jumped a day ago", 6, lambda at: 5.0 * (-1) ** at + (0 if at < -15 else 50_000)),
        *days("grew", 1, lambda at: 9000.0 * min(at % 24, 9)),
    ]  # fmt: skip
    rows += [hour("first day", at, depth_mean=5000.0 * at) for at in range(12)]

    found = rows_of(forecast(spark.createDataFrame(arrow(rows)), LIMITED), FORECAST, "queue")

    usual = "grows as it did a day or a week before, when it did not reach 100,000 messages"
    assert {queue: row["told"] for (queue,), row in found.items()} == {
        "daily": usual,
        "weekly": usual,
        "first day": "at +5,000/h it reaches 100,000 messages in 8h 30m (2031-05-17 20:30 UTC)",
        "more than usual": "at +5,000/h it reaches 100,000 messages in 8h 30m (2031-05-17 20:30 UTC)",
        "reaches it daily": "at +9,000/h it is about to reach 100,000 messages",
        "fuller every day": "at +2,400 a day it reaches 100,000 messages in 13d 11h (2031-05-30 23:00 UTC)",
        "slow": "at +480 a day it reaches 100,000 messages in 103d 2h (2031-08-28 14:00 UTC)",
        "workdays": "does not grow",
        "jumped": "does not grow",
        "jumped 1 h ago": "does not grow",
        "jumped a day ago": "does not grow",
        "grew": "does not grow",
    }


def test_without_a_limit_depth_is_not_foretold(spark: SparkSession) -> None:
    minute = 60_000.0
    rows = [hour("aging", at, depth_mean=at * 9e9, oldest_ready_age_ms_mean=at * minute) for at in range(5)]

    found = rows_of(forecast(spark.createDataFrame(arrow(rows)), AnalysisSettings()), FORECAST, "metric")

    assert [row["told"] for row in found.values()] == [
        "at +1m 0s/h it reaches an age of 10m in 5h 30m (2031-05-17 10:30 UTC)"
    ]


def test_queues_are_told_as_last_known(spark: SparkSession) -> None:
    rows = [
        hour("orders", 3, kind=None, samples=5, depth_max=9.0, last_depth=None),
        hour("orders", 2, kind="list", samples=7, depth_max=70.0, last_depth=4),
        hour("orders", 1, kind="rsmq", samples=1, depth_max=None, last_depth=5),
    ]

    found = rows_of(queues(spark.createDataFrame(arrow(rows))), QUEUES, "queue")

    output = {"first_ms": START_MS + HOUR_MS, "last_ms": START_MS + 4 * HOUR_MS, "samples": 13, "peak_depth": 70}
    assert found["orders",].items() >= {**output, "kind": "list", "last_depth": 4}.items()
