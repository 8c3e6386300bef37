"""The table of queues: one poll, in the columns of recorded history."""

import pyarrow as pa
import pytest
import redis
from pyspark.sql.datasource import InputPartition

from rsmq_tui.history.schema import COLUMNS, SAMPLES
from rsmq_tui.pipeline.datasource import RsmqDataSource
from rsmq_tui.pipeline.datasource.options import SourceError
from rsmq_tui.protocol import Rsmq
from tests.pipeline.datasource.conftest import Load, make_queue


def batches(url: str, **options: str) -> list[pa.RecordBatch]:
    source = RsmqDataSource({"url": url, **options})
    return list(source.reader(source.schema()).read(InputPartition(None)))


def test_a_row_for_each_queue(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    for name in ("a", "b"):
        rsmq.create_queue(name, vt=12)
    rsmq.send_messages("b", ["x"] * 5)
    rsmq.receive_messages("b", 2)
    make_queue(client, "ünï\\x")
    client.delete("rsmq:ünï\\x:Q")
    (batch,) = batches(redis_url)
    a, b, odd = batch.to_pylist()

    assert batch.schema.names == [column.name for column in COLUMNS[SAMPLES]]
    assert (a["queue"], a["depth"], a["vt_s"], a["verdict"]) == ("a", 0, 12.0, "ok")
    assert (b["depth"], b["ready"], b["hidden"], b["totalsent"], b["totalrecv"]) == (5, 3, 2, 5, 2)
    assert (odd["queue"], odd["verdict"]) == ("ünï\\\\x", "broken")
    assert a["server"] == redis_url
    assert abs(a["at_ms"] / 1000 - client.time()[0]) < 60


def test_one_queue(redis_url: str, client: redis.Redis) -> None:
    for name in ("a", "b"):
        make_queue(client, name)
    (batch,) = batches(redis_url, queue="b")
    assert batch.column("queue").to_pylist() == ["b"]


def test_a_queue_that_is_not_there(redis_url: str) -> None:
    with pytest.raises(SourceError, match="no queue nowhere in namespace rsmq of redis://"):
        batches(redis_url, queue="nowhere")


def test_through_spark(load: Load, client: redis.Redis) -> None:
    make_queue(client)
    (row,) = load("queues").filter("depth = 0").select("queue", "problems", "interval_ms").collect()
    assert tuple(row) == ("orders", [], None)
