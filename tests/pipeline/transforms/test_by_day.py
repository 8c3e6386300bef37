"""The tables of samples as a whole: against plain Python, day by day and all days at once."""

import re
from collections.abc import Collection, Iterator
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import METRICS, ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, SCHEMAS, VERDICT_RUNS
from rsmq_tui.pipeline.transforms.episodes import episodes_of
from rsmq_tui.pipeline.transforms.samples import is_within, sample_tables
from tests.pipeline.transforms import reference
from tests.pipeline.transforms.made import DAYS, HOURS, MIDNIGHT_MS, by_chance, frame, in_order, rows_of, sample

SKETCHES = [f"{metric}_sketch" for metric in METRICS]
TABLES = (ROLLUP_10S, ROLLUP_1M, ROLLUP_1H, VERDICT_RUNS)


def assert_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Equal, but for the last digits of what is a mean."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        means = {name for name in other if name.endswith("_mean")}
        assert {name: one[name] for name in one if name not in means} == {
            name: other[name] for name in other if name not in means
        }
        assert {name: one[name] for name in means} == pytest.approx({name: other[name] for name in means})


@pytest.fixture(autouse=True)
def kept_rows_are_let_go(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


@settings(max_examples=1)
@given(st.integers(0, 2**32))
def test_every_table_is_what_plain_python_makes_of_the_samples_at_once_and_some_hours_at_a_time(
    spark: SparkSession, seed: int
) -> None:
    rows = by_chance(seed)
    told = reference.told_samples(rows, DAYS)
    runs = reference.verdict_runs(told)
    expected = {table: reference.rollup(told, table) for table in (ROLLUP_10S, ROLLUP_1M, ROLLUP_1H)}
    expected[VERDICT_RUNS] = runs

    at_once = sample_tables(frame(spark, rows), HOURS)
    # Of every three hours one is worked, and one more is read.
    parts = [sample_tables(frame(spark, rows), {hour for hour in HOURS if hour % 3 == part}) for part in range(3)]

    assert set(at_once) == set(TABLES)
    for table in TABLES:
        found = rows_of(at_once[table].drop(*SKETCHES))
        assert_same(found, in_order(expected[table]))
        first, *others = (tables[table].drop(*SKETCHES) for tables in parts)
        assert_same(rows_of(reduce(DataFrame.union, others, first)), found)
    assert rows_of(episodes_of(at_once[VERDICT_RUNS]).drop("cause")) == in_order(reference.episodes(runs))


def test_sketches_are_of_what_the_hour_knows_and_can_be_merged(spark: SparkSession) -> None:
    rows = by_chance(7)
    told = [row for row in reference.told_samples(rows, DAYS) if row["queue"] is not None]
    hours = sample_tables(frame(spark, rows), HOURS)[ROLLUP_1H]
    merged = hours.agg(
        sf.kll_sketch_get_n_bigint(sf.kll_merge_agg_bigint("depth_sketch")).alias("depth"),
        sf.kll_sketch_get_n_double(sf.kll_merge_agg_double("arrivals_s_sketch")).alias("arrivals_s"),
    )

    for name in ("depth", "arrivals_s"):
        known = [row for row in told if row[name] is not None]
        assert known
        assert rows_of(merged)[0][name] == len(known)
        assert hours.where(sf.col(f"{name}_p50").isNull() != sf.col(f"{name}_sketch").isNull()).isEmpty()


def test_the_samples_are_shuffled_once_for_all_tables(spark: SparkSession) -> None:
    for table in sample_tables(frame(spark, by_chance(1)), HOURS).values():
        table.collect()
        # What was run, when Spark had seen how much there was: first the table's own plan, then that of what is kept.
        ran = table._jdf.queryExecution().executedPlan().toString()
        made, _, kept = ran.partition("InMemoryRelation")
        assert "Final Plan" in made
        assert "Exchange" not in made
        assert len(re.findall(r"Exchange hashpartitioning\([^)]*queue", kept.partition("Initial Plan")[0])) == 1


def test_tables_have_the_columns_that_are_promised(spark: SparkSession) -> None:
    tables = sample_tables(frame(spark, []), HOURS)

    for table, made in tables.items():
        assert rows_of(made) == []
        assert made.toArrow().schema.names == ["day", *SCHEMAS[table].names]
        assert [field.type for field in made.toArrow().schema][1:] == SCHEMAS[table].types
    episodes = episodes_of(tables[VERDICT_RUNS])
    assert (episodes.toArrow().schema.names, episodes.toArrow().schema.types) == (
        SCHEMAS["episodes"].names,
        SCHEMAS["episodes"].types,
    )


def test_what_is_within_some_hours(spark: SparkSession) -> None:
    moments = [MIDNIGHT_MS + ms for ms in (-3_600_001, -3_600_000, -1, 0, 7_199_999, 7_200_000)]
    rows = frame(spark, [sample(at_ms) for at_ms in moments])
    hour = MIDNIGHT_MS // 3_600_000

    def within(hours: Collection[int]) -> list[int]:
        return [row["at_ms"] for row in rows_of(rows.where(is_within(sf.col("at_ms"), hours)))]

    assert within([hour + 1, hour]) == moments[3:5]
    assert within([]) == []
    assert within([hour + 2, hour - 2, hour - 1]) == [*moments[:3], moments[5]]
    # Somebody who records now and then, for months.
    assert within(range(hour, hour + 20_000, 2)) == [moments[3], moments[5]]
