"""Sentences made by column expressions, percentiles and sketches, and the columns that tables promise."""

from random import Random

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import BY_DAY, COLUMNS, EPISODES, SCHEMAS
from rsmq_tui.monitor import text as plain
from rsmq_tui.pipeline.transforms import columns, samples
from rsmq_tui.pipeline.transforms.columns import columns_of, conform
from tests.pipeline.transforms.reference import percentile

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
    rows = spark.createDataFrame(pa.table({"n": [0, 1, 2, 1204], "r": [0.04, 9.94, 211.4, 1e7]}))
    made = rows.select(columns.plural(sf.col("n"), "message"), columns.rate(sf.col("r"))).toArrow().to_pydict()

    assert list(made.values()) == [
        ["0 messages", "1 message", "2 messages", "1,204 messages"],
        ["0.0", "9.9", "211", "10,000,000"],
    ]


def test_percentiles_are_exact_while_the_sketch_holds_all_values(spark: SparkSession) -> None:
    random = Random(2)
    # From one value to as many as fit, and two metrics: whole numbers and rates.
    groups = {n: [random.randrange(50) for _ in range(n)] for n in (1, 2, 3, 19, 20, 21, 60, 99, 100, 101, 200)}
    rows = [(n, value, value / 3) for n, values in groups.items() for value in values] + [(0, None, None)]
    table = pa.Table.from_pylist([dict(zip(("n", "depth", "arrivals_s"), row, strict=True)) for row in rows])
    made = (
        spark.createDataFrame(table)
        .groupBy("n")
        .agg(
            *(samples.sketch_of(metric).alias(f"{metric}_sketch") for metric in ("depth", "arrivals_s")),
            sf.sort_array(sf.collect_list("depth")).alias("values"),
        )
        .select(
            "n",
            samples.percentiles_in("depth", "depth_sketch").alias("depth"),
            samples.percentiles_in("arrivals_s", "arrivals_s_sketch").alias("arrivals_s"),
            samples.percentiles_of("values").alias("exact"),
        )
    )
    found = {row["n"]: row for row in made.toArrow().to_pylist()}

    assert found[0]["depth"] is None
    assert found[0]["arrivals_s"] is None
    assert found[0]["exact"] == [None, None, None]
    for n, values in groups.items():
        expected = [percentile(sorted(values), percent) for percent in (50, 95, 99)]
        assert (n, found[n]["depth"], found[n]["exact"]) == (n, expected, expected)
        assert found[n]["arrivals_s"] == [value / 3 for value in expected]


def test_percentiles_of_merged_sketches_are_near_their_rank(spark: SparkSession) -> None:
    values = list(range(6000))
    Random(3).shuffle(values)
    table = pa.table({"minute": [n // 100 for n in range(6000)], "depth": values})
    minutes = spark.createDataFrame(table).groupBy("minute").agg(samples.sketch_of("depth").alias("depth_sketch"))
    hour = minutes.agg(samples.merged("depth", "depth_sketch").alias("depth_sketch")).select(
        samples.percentiles_in("depth", "depth_sketch"), sf.kll_sketch_get_n_bigint("depth_sketch")
    )
    ((percentiles,), (count,)) = hour.toArrow().to_pydict().values()

    assert count == 6000
    # Three times the error that 99 of 100 keep to: no merge at all would be far outside.
    for found, percent in zip(percentiles, (50, 95, 99), strict=True):
        assert abs(found / 6000 - percent / 100) < 0.05


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
