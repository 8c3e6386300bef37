"""A stream of samples: poll by poll, over a restart, and through an outage."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.pipeline.datasource import RsmqDataSource
from rsmq_tui.pipeline.datasource.options import SourceError
from rsmq_tui.pipeline.datasource.source import SampleStreamReader
from rsmq_tui.protocol import Rsmq

LONG_AGO_S = 60.0


class Query:
    """A query as Spark runs it, without Spark: its reader, and the offset that it is at."""

    def __init__(self, url: str, offset: dict[str, Any] | None = None, **options: str) -> None:
        source = RsmqDataSource({"url": url, "every_s": "0.1", **options})
        reader = source.simpleStreamReader(source.schema())
        assert isinstance(reader, SampleStreamReader)
        self.reader = reader
        self.offset = reader.initialOffset() if offset is None else offset

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()

    def batch(self) -> list[dict[str, Any]]:
        """The rows of the next batch that has any."""
        deadline_s = time.monotonic() + LONG_AGO_S
        while time.monotonic() < deadline_s:
            batches, end = self.reader.read(self.offset)
            if end != self.offset:
                self.offset = end
                return [row for batch in batches for row in batch.to_pylist()]
            assert list(batches) == []
        raise AssertionError("no batch came")


def test_rows_are_those_of_a_recorder(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders")
    with Query(redis_url) as query:
        first, _ = query.batch()
        rsmq.send_messages("orders", ["a", "b"])
        second, place = query.batch()

    assert list(first) == SCHEMAS[SAMPLES].names
    assert [(row["queue"], row["depth"], row["totalsent"]) for row in (first, second)] == [
        ("orders", 0, 0),
        ("orders", 2, 2),
    ]
    assert first["interval_ms"] is None
    assert second["interval_ms"] == second["at_ms"] - first["at_ms"] >= 50
    assert (place["queue"], place["status"], place["at_ms"]) == (None, "ok", second["at_ms"])


def test_a_trigger_that_comes_early_gets_nothing(redis_url: str) -> None:
    with Query(redis_url, every_s="3600") as query:
        assert len(query.batch()) == 1
        batches, end = query.reader.read(query.offset)
        assert (list(batches), end) == ([], query.offset)


def test_what_was_planned_before_a_restart_is_a_gap(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("orders")
    with Query(redis_url) as before:
        before.batch()
    begun, end = before.offset, {"polls": 2, "at_ms": before.offset["at_ms"] + 1}
    with Query(redis_url, offset=end) as after:
        assert list(after.reader.readBetweenOffsets(begun, end)) == []
        row, _ = after.batch()

    assert row["interval_ms"] is None
    assert row["at_ms"] >= begun["at_ms"]
    assert after.offset["polls"] == 3


def test_an_outage_is_a_row_that_says_so() -> None:
    with EmbeddedServer() as server, Query(server.url) as query:
        assert [row["status"] for row in query.batch()] == ["ok"]
        server.stop()
        (row,) = query.batch()

    assert (row["status"], row["queue"], row["depth"], row["interval_ms"]) == ("down", None, None, None)
    assert "refused" in row["failure"] or "closed" in row["failure"]
    assert query.offset["polls"] == 2


def test_a_new_query_wants_a_server() -> None:
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1/0: connection refused"):
        Query("redis://127.0.0.1:1/0")


def test_one_queue_of_many(redis_url: str, client: redis.Redis) -> None:
    for name in ("orders", "other"):
        Rsmq(client).create_queue(name)
    with Query(redis_url, queue="other") as query:
        assert [row["queue"] for row in query.batch()] == ["other", None]


@pytest.fixture
def run(rsmq: SparkSession, redis_url: str, tmp_path: Path) -> Callable[[], list[tuple[int, int]]]:
    """Runs a query once from its checkpoint, and returns the polls that came: which batch, which depth."""
    came: list[tuple[int, int]] = []

    def keep(rows: DataFrame, batch: int) -> None:
        came.extend((batch, row.depth) for row in rows.filter("queue = 'orders'").select("depth").collect())

    def once() -> list[tuple[int, int]]:
        stream = rsmq.readStream.format("rsmq").option("url", redis_url).load()
        writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return came.copy()

    return once


def test_spark_goes_on_from_its_checkpoint(run: Callable[[], list[tuple[int, int]]], client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders")
    assert run() == [(0, 0)]
    rsmq.send_messages("orders", ["a", "b"])
    assert run() == [(0, 0), (1, 2)]
