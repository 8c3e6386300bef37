"""Rows that are sent: what becomes of each, and what stops a write."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
import redis
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from rsmq_tui.pipeline.datasource import RsmqDataSource
from rsmq_tui.pipeline.datasource.options import SourceError
from rsmq_tui.pipeline.datasource.writing import QueueWriter, TaskResult
from rsmq_tui.protocol import Rsmq
from tests.pipeline.datasource.conftest import BODIES, Load
from tests.pipeline.datasource.reading import read
from tests.protocol.keyspace import plant

Columns = dict[str, Sequence[Any]]


@dataclass
class Task:
    """What a task tells of itself."""

    partition: int

    def partitionId(self) -> int:
        return self.partition


@pytest.fixture
def orders(client: redis.Redis) -> Rsmq:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", maxsize=1024)
    return rsmq


def batch_of(columns: Columns) -> pa.RecordBatch:
    types = {"body": pa.binary(), "delay_s": pa.int32(), "due_ms": pa.int64(), "rc": pa.int64(), "fr_ms": pa.int64()}
    is_text = isinstance(next(iter(columns["body"]), b""), str)
    arrays = {
        name: pa.array(values, pa.string() if name == "body" and is_text else types.get(name, pa.string()))
        for name, values in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


def writer_of(url: str, schema: pa.Schema, **options: str) -> QueueWriter:
    writer = RsmqDataSource({"url": url, **options}).writer(from_arrow_schema(schema), overwrite=False)
    assert isinstance(writer, QueueWriter)
    return writer


def send(url: str, columns: Columns, **options: str) -> TaskResult:
    """Send some rows as one task, in two batches."""
    batch = batch_of(columns)
    half = batch.num_rows // 2
    writer = writer_of(url, batch.schema, **options)
    written = writer.write(iter([batch.slice(0, half), batch.slice(half)]))
    writer.commit([written])
    return written


def bodies(client: redis.Redis, queue: str = "orders") -> list[bytes]:
    """The bodies of a queue in the order in which consumers get them."""
    return [client.hget(f"rsmq:{queue}:Q", id) for id in client.zrange(f"rsmq:{queue}", 0, -1)]


class TestNew:
    def test_in_their_order(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        sent = [b"%d" % number for number in range(2_300)]
        assert send(redis_url, {"body": sent}, queue="orders").sent == 2_300
        assert bodies(client) == sent

    def test_any_bytes_and_any_text(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        short = [body for body in BODIES if len(body) < 1_000]
        send(redis_url, {"body": short}, queue="orders")
        send(redis_url, {"body": ["", "ünï ✓", "\x00"]}, queue="orders")
        assert bodies(client) == [*short, b"", "ünï ✓".encode(), b"\x00"]

    def test_to_several_queues_after_delays(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        orders.create_queue("late", delay=50)
        rows: Columns = {
            "body": [b"a", b"b", b"c", b"d", b"e"],
            "queue": ["orders", "late", None, "late", "late"],
            "delay_s": [100, None, 7, 200, None],
        }
        assert send(redis_url, rows, queue="orders", delay_s="30").sent == 5
        now_ms = client.time()[0] * 1000

        def due_s(queue: str) -> dict[bytes, int]:
            found = client.zrange(f"rsmq:{queue}", 0, -1, withscores=True)
            return {client.hget(f"rsmq:{queue}:Q", id): round((score - now_ms) / 10_000) * 10 for id, score in found}

        assert due_s("orders") == {b"c": 10, b"a": 100}
        assert due_s("late") == {b"b": 30, b"e": 30, b"d": 200}

    def test_a_task_that_is_run_again_sends_again(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        batch = batch_of({"body": [b"a", b"b"]})
        writer = writer_of(redis_url, batch.schema, queue="orders")
        for _ in range(2):
            writer.write(iter([batch]))
        assert bodies(client) == [b"a", b"b"] * 2


class TestOnce:
    def test_what_is_run_again_in_another_order(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        first = batch_of({"body": [b"a", b"same", b"b", b"same"]})
        again = batch_of({"body": [b"same", b"c", b"b", b"same", b"same", b"a"]})
        writer = writer_of(redis_url, first.schema, queue="orders", ids="once")
        writer.write(iter([first]))
        while orders.pop_message("orders"):
            pass
        second = writer.write(iter([again]))

        assert bodies(client) == [b"c", b"same"]
        assert (second.sent, second.before) == (2, 4)

    def test_the_same_row_for_another_queue_or_after_another_delay_is_another(
        self, redis_url: str, client: redis.Redis, orders: Rsmq
    ) -> None:
        orders.create_queue("other")
        rows: Columns = {
            "body": [b"x", b"x", b"x", b"x"],
            "queue": ["orders", "other", "orders", "orders"],
            "delay_s": [None, None, 5, 50],
        }
        assert send(redis_url, rows, ids="once").sent == 4
        assert (len(bodies(client)), len(bodies(client, "other"))) == (3, 1)

    def test_a_write_of_its_own_is_another(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        for _ in range(2):
            assert send(redis_url, {"body": [b"a"]}, queue="orders", ids="once").sent == 1
        assert all(0 < client.ttl(fence) <= 600 for fence in client.keys("rsmq:rsmq-tui:*"))

    def test_a_write_with_a_name_may_be_repeated(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        output = [
            send(redis_url, {"body": [b"a", b"b"]}, queue="orders", ids="once", run="monday", fence_s="9000")
            for _ in range(2)
        ]
        assert [(each.sent, each.before) for each in output] == [(2, 0), (0, 2)]
        ttls_s = {key.decode(): client.ttl(key) for key in client.keys("rsmq:rsmq-tui:*")}
        assert 8_000 < ttls_s.pop("rsmq:rsmq-tui:once:run:monday") <= 9_000
        assert all(0 < ttl_s <= 600 for ttl_s in ttls_s.values())

    @pytest.mark.parametrize("kept", [1, 7, 40, 200])
    def test_a_write_may_be_repeated_in_other_partitions(
        self, redis_url: str, client: redis.Redis, orders: Rsmq, kept: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A write that failed after some partitions is repeated with others; each row goes out as often as it is."""
        rows = [b"%d" % (number % 150) for number in range(200)]

        def written(partitions: int, stop: int) -> tuple[int, int]:
            writer = writer_of(redis_url, batch_of({"body": []}).schema, queue="orders", ids="once", run="r")
            output = []
            for part in range(partitions):
                monkeypatch.setattr(TaskContext, "get", lambda part=part: Task(part))
                output.append(writer.write(iter([batch_of({"body": rows[part:stop:partitions]})])))
            # Spark may run a task again.
            assert writer.write(iter([batch_of({"body": rows[partitions - 1 : stop : partitions]})])).sent == 0
            return sum(each.sent for each in output), sum(each.before for each in output)

        assert written(4, kept) == (kept, 0)
        while orders.pop_message("orders"):
            pass
        assert written(7, 200) == (200 - kept, kept)
        assert written(1, 200) == (0, 200)
        assert sorted(bodies(client)) == sorted(rows[kept:])

    def test_rows_that_are_refused_stay_rows_that_may_be_sent(
        self, redis_url: str, client: redis.Redis, orders: Rsmq
    ) -> None:
        rows: Columns = {"body": [b"a", b"x" * 2_000, b"b"]}
        with pytest.raises(SourceError, match="1 of 3 rows cannot be sent"):
            send(redis_url, rows, queue="orders", ids="once", run="r")
        orders.set_queue_attributes("orders", maxsize=65_536)
        assert send(redis_url, rows, queue="orders", ids="once", run="r").sent == 1
        assert sorted(bodies(client)) == [b"a", b"b", b"x" * 2_000]


class TestKept:
    def test_a_queue_is_moved_as_it_is(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        orders.send_messages("orders", ["a", b"\xff\x00", "c"], delay=1)
        orders.send_messages("orders", ["d"])
        orders.receive_messages("orders", 1)
        for id in ("A" * 22, "short"):
            plant(client, "orders", id, due_ms=1_700_000_000_000, body="of another client", rc=2, fr=1_700_000_000_000)
        orders.create_queue("copy")
        rows = read(redis_url, queue="orders", bodies=True)
        columns: Columns = {name: [row[name] for row in rows] for name in ("id", "body", "due_ms", "rc", "fr_ms")}
        assert send(redis_url, columns, queue="copy", ids="kept").sent == 6
        again = send(redis_url, columns, queue="copy", ids="kept")

        assert (again.sent, again.before) == (0, 6)
        same = ("id", "body", "due_ms", "rc", "fr_ms", "sent_ms", "state")
        found = [[row[name] for name in same] for row in sorted(rows, key=lambda row: row["id"])]
        copied = sorted(read(redis_url, queue="copy", bodies=True), key=lambda row: row["id"])
        assert [[row[name] for name in same] for row in copied] == found

    @pytest.mark.parametrize(
        ("id", "due_ms", "words"),
        [
            ("vt", 5, "Invalid id format: vt is the name of a field of the queue"),
            ("", 5, "No id supplied"),
            (None, 5, "its id is null"),
            ("a" * 32, None, "its due_ms is null"),
        ],
    )
    def test_what_is_no_message(
        self, redis_url: str, client: redis.Redis, orders: Rsmq, id: str | None, due_ms: int | None, words: str
    ) -> None:
        rows: Columns = {"id": [id, "b" * 32], "body": [b"x", b"y"], "due_ms": [due_ms, 5]}
        with pytest.raises(
            SourceError, match=f"1 of 2 rows cannot be sent; the others were sent. First reason: {words}"
        ):
            send(redis_url, rows, queue="orders", ids="kept")
        assert bodies(client) == [b"y"]
        assert client.hget("rsmq:orders:Q", "vt") == b"30"


class TestRefused:
    def test_rows_do_not_stop_others(self, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
        good = [b"%d" % number for number in range(1_000)]
        rows: Columns = {
            "body": [*good, b"x" * 1_025, None, b"lost", *good],
            "queue": [*["orders"] * 1_002, "nowhere", *["orders"] * 1_000],
        }
        with pytest.raises(SourceError, match=r"3 of 2,003 rows cannot be sent; the others were sent. First reason: "):
            send(redis_url, rows)
        assert bodies(client) == good * 2

    @pytest.mark.parametrize(
        ("columns", "options", "words"),
        [
            ({"body": []}, {}, "no queue is given: set option queue, or add a column queue to the rows"),
            ({"queue": []}, {}, "no column body"),
            ({"body": [], "text": []}, {"queue": "orders"}, "the column text would not be sent"),
            ({"body": [], "delay_s": []}, {"queue": "orders", "ids": "kept"}, "no column id"),
            (
                {"body": [], "id": [], "delay_s": []},
                {"queue": "orders", "ids": "kept"},
                "delay_s would not be sent|leave delay_s out",
            ),
            ({"body": []}, {"queue": "nowhere"}, "no queue nowhere on redis://.*: create it first"),
            ({"body": []}, {"queue": "no such"}, "Invalid qname format"),
            (
                {"body": []},
                {"queue": "orders", "url": "redis://:secret@127.0.0.1:1/0"},
                "127.0.0.1:1/0: connection refused",
            ),
        ],
    )
    def test_before_any_task_is_started(
        self, redis_url: str, orders: Rsmq, columns: Columns, options: dict[str, str], words: str
    ) -> None:
        schema = pa.schema([(name, pa.int32() if name == "delay_s" else pa.string()) for name in columns])
        with pytest.raises(SourceError, match=words) as refused:
            writer_of(**{"url": redis_url, **options}, schema=schema)
        assert "secret" not in str(refused.value)

    def test_queues_are_not_overwritten(self, redis_url: str, orders: Rsmq) -> None:
        source = RsmqDataSource({"url": redis_url, "queue": "orders"})
        with pytest.raises(SourceError, match=r'mode\("append"\)'):
            source.writer(from_arrow_schema(pa.schema([("body", pa.string())])), overwrite=True)


def test_through_spark(rsmq: SparkSession, load: Load, redis_url: str, client: redis.Redis, orders: Rsmq) -> None:
    rows = rsmq.range(100).selectExpr("concat('body ', id) body").repartition(2)
    rows.write.format("rsmq").options(url=redis_url, queue="orders", ids="once").mode("append").save()
    assert sorted(bodies(client)) == sorted(b"body %d" % number for number in range(100))

    too_long = rsmq.range(1).selectExpr("repeat('x', 2000) body")
    with pytest.raises(AnalysisException) as failed:
        too_long.write.format("rsmq").options(url=redis_url, queue="orders").mode("append").save()
    output = str(failed.value)
    assert "1 of 1 row cannot be sent; the others were sent. First reason: queue orders: Message too long" in output
    assert len(output.splitlines()) < 10
