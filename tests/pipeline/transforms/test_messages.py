"""What inventories tell of the life of messages equals the definitions, worked out by brute force."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.history.analysis.schema import LIFECYCLE, POISON_DAYS
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.columns import columns_of
from rsmq_tui.pipeline.transforms.inventories import message_tables
from tests.pipeline.transforms.made_inventories import (
    DAY_MS,
    START_MS,
    Chances,
    Row,
    arrow,
    day,
    expected_lifecycle,
    expected_poison_days,
    made_rows,
    row,
    stored_on,
)

SETTINGS = AnalysisSettings(poison_rc=5)
HISTORIES = st.builds(Chances, seed=st.integers(0, 2**32), hours=st.integers(1, 9))


def output(spark: SparkSession, rows: list[Row], days: Sequence[int]) -> tuple[dict[Any, Row], dict[Any, Row]]:
    """Both tables, by what the brute force names them by."""
    spark.catalog.clearCache()
    tables = message_tables(spark.createDataFrame(arrow(rows)), [day(number) for number in days], SETTINGS)
    for table, df in tables.items():
        assert dict(df.dtypes) == columns_of(table)
    lifecycle = {(one["queue"], one["day"]): one for one in _rows(tables[LIFECYCLE])}
    return lifecycle, {(one["queue"], one["day"], one["id"]): one for one in _rows(tables[POISON_DAYS])}


def _rows(df: DataFrame) -> list[Row]:
    return list(df.toArrow().to_pylist())


def about(value: Any) -> Any:
    return value if value is None else pytest.approx(value)


def same(found: dict[Any, Row], expected: dict[Any, Row]) -> None:
    assert found.keys() == expected.keys()
    for key, one in expected.items():
        assert {name: found[key][name] for name in one} == {name: about(value) for name, value in one.items()}, key


AT: Row = {"sent_ms": START_MS + 1_000, "fr_ms": START_MS + 61_000}


def test_a_message_is_gone_by_the_inventory_that_follows(spark: SparkSession) -> None:
    minute = 60_000
    evening = START_MS + DAY_MS - 5 * minute
    rows = [
        # Gone between minutes 5 and 10, and between 5 before and 6 after midnight; one was seen again after it.
        row("orders", START_MS + 5 * minute, id="morning", rc=1, **AT), row("orders", START_MS + 5 * minute),
        row("orders", START_MS + 10 * minute), row("orders", evening, id="evening", rc=1, **AT),
        row("orders", evening, id="stays", rc=1, **AT), row("orders", evening, id="never", rc=0),
        row("orders", evening),
        row("orders", evening + 10 * minute, id="stays", rc=1, **AT),
        row("orders", evening + 10 * minute, evening + 11 * minute),
        # Not in an inventory that was cut short, and no other follows.
        row("cut", evening, id="here", rc=1, **AT), row("cut", evening),
        row("cut", evening + minute, id="other", rc=1, **AT),
        # Emptied, and never filled.
        row("empty", evening),
    ]  # fmt: skip

    found, _ = output(spark, rows, [0])

    orders, cut, empty = (found[queue, day(0)] for queue in ("orders", "cut", "empty"))
    assert (orders["messages"], orders["received"], orders["gone"], orders["final_received"]) == (4, 3, 3, 2)
    morning_ms, evening_ms = 7.5 * minute - 61_000, DAY_MS + 0.5 * minute - 61_000
    assert (orders["holding_ms_min"], orders["holding_ms_max"]) == (morning_ms, evening_ms)
    assert (orders["inventories"], orders["last_inventory_ms"]) == (3, evening)
    assert (cut["inventories"], cut["messages"], cut["gone"], cut["holding_ms_p50"]) == (1, 1, 0, None)
    assert (empty["inventories"], empty["messages"], empty["rc_counts"]) == (1, 0, [0] * 11)
    assert empty["waiting_ms_mean"] is None


def test_times_that_contradict_each_other_are_in_no_statistics(spark: SparkSession) -> None:
    good = {"rc": 1, **AT}
    strange: dict[str, Row] = {
        "received before sent": {**good, "fr_ms": START_MS}, "received later": {**good, "fr_ms": START_MS + 999_999},
        "received in seconds": {**good, "sent_ms": None, "fr_ms": START_MS // 1000},
        "received in the year 0": {**good, "sent_ms": None, "fr_ms": -(2**62)},
        "sent later": {**good, "sent_ms": 2**62}, "not received": {**good, "rc": 0},
        "unknown": {**good, "rc": None}, "negative": {**good, "rc": -(2**62)},
    }  # fmt: skip
    rows = [row("orders", START_MS + 300_000, id=id_, **facts) for id_, facts in {"good": good, **strange}.items()]
    rows += [row("orders", START_MS + 300_000), row("orders", START_MS + 400_000)]
    # No time of day at all.
    rows += [row("orders", at_ms) for at_ms in (2**62, -(2**62))]

    found, _ = output(spark, rows, [0])

    orders = found["orders", day(0)]
    assert (orders["messages"], orders["gone"], orders["received"]) == (9, 9, 6)
    assert (orders["waiting_ms_min"], orders["waiting_ms_max"], orders["holding_ms_known"]) == (60_000, 60_000, 1)
    assert orders["holding_ms_max"] == 350_000 - 61_000
    assert orders["rc_counts"] == [1, 6, *[0] * 9]


@settings(max_examples=1, phases=(Phase.explicit, Phase.generate))
@given(HISTORIES)
def test_tables_equal_the_brute_force(spark: SparkSession, chances: Chances) -> None:
    rows = made_rows(chances)
    days = range(chances.days)

    lifecycle, poison = output(spark, rows, days)

    same(lifecycle, expected_lifecycle(rows, list(days), SETTINGS.poison_rc))
    same(poison, expected_poison_days(rows, list(days), SETTINGS.poison_rc))


@settings(max_examples=1, phases=(Phase.explicit, Phase.generate))
@given(st.builds(Chances, seed=st.integers(0, 2**32), days=st.just(2), hours=st.just(9)))
def test_days_together_equal_days_one_by_one(spark: SparkSession, chances: Chances) -> None:
    rows = made_rows(chances)
    lifecycle: dict[Any, Row] = {}
    poison: dict[Any, Row] = {}

    for number in range(chances.days):
        of_day = output(spark, stored_on(rows, number), [number])
        lifecycle |= of_day[0]
        poison |= of_day[1]

    assert (lifecycle, poison) == output(spark, rows, range(chances.days))
