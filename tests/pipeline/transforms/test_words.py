"""Sentences made by column expressions, percentiles, and the columns that tables promise."""

from random import Random

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import BY_DAY, COLUMNS, EPISODES, SCHEMAS
from rsmq_tui.monitor import text as plain
from rsmq_tui.pipeline.transforms import columns, quantiles
from rsmq_tui.pipeline.transforms.columns import columns_of, conform
from tests.pipeline.transforms.made_inventories import percentile

UNITS_MS = (1000, 60_000, 600_000, 3_600_000, 86_400_000, 1000 * 86_400_000, 315_537_897_600_000)


def test_spans_and_numbers_read_as_everywhere_else(spark: SparkSession) -> None:
    random = Random(1)
    spans = [None, -5, 0, 1, *(unit + by for unit in UNITS_MS for by in (-1001, -1000, -1, 0, 1, 999, 1000))]
    spans += [random.randrange(10 ** random.randint(1, 15)) for _ in range(3000)]
    rows = spark.createDataFrame(pa.table({"ms": pa.array(spans, pa.int64())}))
    made = rows.select("ms", columns.duration(sf.col("ms")), columns.count(sf.col("ms"))).toArrow().to_pydict()

    asked, durations, counts = made.values()
    assert sorted(asked, key=str) == sorted(spans, key=str)
    assert durations == [plain.duration(ms) for ms in asked]
    assert counts == [plain.count(ms) for ms in asked]


def test_rates_and_things_are_counted(spark: SparkSession) -> None:
    rows = spark.createDataFrame(pa.table({"n": [0, 1, 2, 1204], "r": [0.04, 9.94, 9.96, 1e7]}))
    made = rows.select(columns.plural(sf.col("n"), "message"), columns.rate(sf.col("r"))).toArrow().to_pydict()

    assert list(made.values()) == [
        ["0 messages", "1 message", "2 messages", "1,204 messages"],
        ["0.0", "9.9", "10", "10,000,000"],
    ]


def test_percentiles_and_summaries_are_of_all_values_by_nearest_rank(spark: SparkSession) -> None:
    random = Random(2)
    groups = [[random.randrange(50) for _ in range(size)] for size in (0, 1, 2, 3, 19, 20, 21, 99, 100, 101, 102, 5000)]
    rows = [{"depth_values": sorted(values)} for values in groups]
    table = pa.Table.from_pylist(rows, pa.schema({"depth_values": pa.list_(pa.int64())}))
    made = spark.createDataFrame(table).select(
        "depth_values",
        *(column.alias(name) for name, column in quantiles.percentiles("depth").items()),
        quantiles.summary("depth_values").alias("summary"),
    )

    for row in made.toArrow().to_pylist():
        values = row.pop("depth_values")
        expected = {
            f"depth_{name}": percentile(values, percent) if values else None
            for name, percent in {"min": 0, "p50": 50, "p95": 95, "p99": 99, "max": 100}.items()
        }
        summary = [percentile(values, percent) for percent in range(101)] if values else None
        assert row == {**expected, "summary": summary}


def test_a_table_has_exactly_the_columns_that_are_promised(spark: SparkSession) -> None:
    for table in COLUMNS:
        kinds = columns_of(table)
        # In the wrong order, as text, and with one more.
        given = spark.range(0).select(
            *(sf.lit(None).cast(kind).alias(name) for name, kind in reversed(kinds.items())), sf.lit(1).alias("more")
        )
        schema = conform(given, table).toArrow().schema
        day = ["day"] if table in BY_DAY else []
        assert schema.names == [*day, *SCHEMAS[table].names]
        assert schema.types[len(day) :] == [
            pa.list_(pa.field("element", kind.value_type)) if pa.types.is_list(kind) else kind
            for kind in SCHEMAS[table].types
        ]


def test_a_column_that_is_missing_is_not_made_up(spark: SparkSession) -> None:
    some = spark.range(1).select(*(sf.lit(None).alias(name) for name in SCHEMAS[EPISODES].names if name != "cause"))

    with pytest.raises(AnalysisException, match="cause"):
        conform(some, EPISODES).collect()
