"""The tables of samples as a whole: against another engine, some hours at a time and all hours at once."""

import re
from collections.abc import Collection, Iterator
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, SCHEMAS, VERDICT_RUNS
from rsmq_tui.pipeline.transforms.episodes import episodes_of
from rsmq_tui.pipeline.transforms.samples import is_within, sample_tables
from tests.pipeline.transforms import reference
from tests.pipeline.transforms.made import DAYS, HOURS, MIDNIGHT_MS, arrow, by_chance, frame, in_order, rows_of, sample

TABLES = (ROLLUP_10S, ROLLUP_1M, ROLLUP_1H, VERDICT_RUNS)


@pytest.fixture(autouse=True)
def kept_rows_are_let_go(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


@settings(max_examples=1)
@given(st.integers(0, 2**32))
def test_every_table_is_what_another_engine_makes_of_the_samples_at_once_and_some_hours_at_a_time(
    spark: SparkSession, seed: int
) -> None:
    rows = by_chance(seed)
    expected = reference.tables_of(arrow(rows))
    expected = {table: [row for row in made if row["day"] in DAYS] for table, made in expected.items()}

    at_once = sample_tables(frame(spark, rows), HOURS)
    # Of every three hours one is worked, and one more is read.
    parts = [sample_tables(frame(spark, rows), {hour for hour in HOURS if hour % 3 == part}) for part in range(3)]

    assert set(at_once) == set(TABLES)
    for table in TABLES:
        found = rows_of(at_once[table])
        reference.assert_same(found, in_order(expected[table]))
        first, *others = (tables[table] for tables in parts)
        # To the last digit: a run over the same history gives the same tables, however its hours are dealt out.
        assert rows_of(reduce(DataFrame.union, others, first)) == found
    assert rows_of(episodes_of(at_once[VERDICT_RUNS]).drop("cause")) == in_order(
        reference.episodes(expected[VERDICT_RUNS])
    )


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
