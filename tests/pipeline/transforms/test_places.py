"""The roll-up of places, against plain Python."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_10S, SCHEMAS
from rsmq_tui.pipeline.transforms.samples import day_of, place_rollup
from tests.history.analysis.made import bucket, of_places
from tests.history.analysis.queues import EMAILS, ORDERS, WEBHOOKS
from tests.pipeline.transforms.made import MIDNIGHT_MS, in_order, rows_of

_COUNTS = ("arrivals", "deletes", "receives", "redeliveries")


def test_the_queues_of_a_place_are_added_up_and_of_ages_the_maximum_is_kept(spark: SparkSession) -> None:
    rows: dict[str, list[dict[str, Any]]] = {ROLLUP_10S: [], ROLLUP_1H: []}
    for table, width_ms in ((ROLLUP_10S, 10_000), (ROLLUP_1H, 3_600_000)):
        for number, ref in enumerate((ORDERS, EMAILS, WEBHOOKS)):
            for step in range(2):
                values: dict[str, Any] = {
                    "depth": 10 * number + step,
                    "oldest_ready_age_ms": 500 - number,
                    "arrivals_s": 2.0 + number,
                }
                made = bucket(ref, MIDNIGHT_MS + step * width_ms, width_ms, **values)
                # One that does not count, as lists.
                made |= dict.fromkeys(_COUNTS) if ref == EMAILS else dict.fromkeys(_COUNTS, number + 3)
                rows[table].append(made | {"ready_mean": 1.5, "hidden_mean": None})
    frames = {
        table: spark.createDataFrame(
            [tuple(row.get(name) for name in SCHEMAS[table].names) for row in made],
            schema=", ".join(f"`{field.name}` {_NAMES[str(field.type)]}" for field in SCHEMAS[table]),
        ).withColumn("day", day_of(sf.col("bucket_ms")))
        for table, made in rows.items()
    }
    expected = in_order(row for table, made in rows.items() for row in of_places(made, table))
    found = rows_of(place_rollup(frames).drop("day"))

    assert len(found) == len(expected) == 8
    for one, other in zip(found, expected, strict=True):
        assert {name: value for name, value in one.items() if value is not None} == pytest.approx(
            {name: value for name, value in other.items() if value is not None}
        )


_NAMES = {"int64": "bigint", "string": "string", "double": "double", "list<item: double>": "array<double>"}
