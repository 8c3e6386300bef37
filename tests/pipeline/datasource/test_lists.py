"""List queues through the data source: their state, their items, and rows pushed to them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.pipeline.datasource import RsmqDataSource
from rsmq_tui.pipeline.datasource.options import SourceError, opened_poller, read_options
from rsmq_tui.pipeline.datasource.source import SampleStreamReader
from rsmq_tui.pipeline.datasource.writing import TaskResult
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.protocol.lists.naming import LISTS_NS, item_id
from tests.protocol.keyspace import everything, now_ms

Row = dict[str, Any]


def read(url: str, **options: str) -> list[Row]:
    """All rows of a table."""
    source = RsmqDataSource({"url": url, **options})
    reader: Any = source.reader(source.schema())
    rows: list[Row] = []
    partitions: Sequence[InputPartition] = reader.partitions() if "table" in options else [InputPartition(None)]
    for partition in partitions:
        rows += [row for batch in reader.read(partition) for row in batch.to_pylist()]
    return rows


def push(url: str, columns: Row, **options: str) -> TaskResult:
    """Push some rows as one task."""
    batch = pa.RecordBatch.from_pydict(columns)
    writer: Any = RsmqDataSource({"url": url, "kind": "list", **options}).writer(from_arrow_schema(batch.schema), False)
    written = writer.write(iter([batch]))
    assert isinstance(written, TaskResult)
    writer.commit([written])
    return written


@pytest.fixture
def mail(client: redis.Redis) -> int:
    """A list with three items, one in flight, one whose lease is over and one without any; and the server's time."""
    at_ms = now_ms(client)
    client.lpush("queue:mail", "a", "b", "c")
    client.lpush("queue:mail:processing", "d", "e", "f")
    client.zadd("queue:mail:leases", {"t" * 22 + ":d": at_ms - 1_000, "u" * 22 + ":e": at_ms + 600_000})
    client.rpush("jobs", "x")
    Rsmq(client).create_queue("orders")
    return at_ms


def test_the_state_of_lists(redis_url: str, client: redis.Redis, mail: int) -> None:
    before = everything(client)
    queue_jobs, queue_mail = read(redis_url, lists="queue:*, jobs")

    assert [(row["queue"], row["kind"], row["ns"]) for row in (queue_jobs, queue_mail)] == [
        ("jobs", "list", LISTS_NS), ("queue:mail", "list", LISTS_NS),
    ]  # fmt: skip
    assert (queue_mail["depth"], queue_mail["ready"], queue_mail["hidden"], queue_mail["expired"]) == (6, 3, 3, 1)
    assert {queue_mail[name] for name in ("totalsent", "totalrecv", "vt_s", "poison", "highest_rc")} == {None}
    assert [row["queue"] for row in read(redis_url, kind="list", queue="jobs")] == ["jobs"]
    assert everything(client) == before


def test_items(redis_url: str, client: redis.Redis, mail: int) -> None:
    before = everything(client)
    rows = read(redis_url, table="messages", kind="list", queue="queue:mail", bodies="true")
    found = {row["body"]: row for row in rows}

    assert len(rows) == len(found) == 6
    assert {body: row["state"] for body, row in found.items()} == {
        b"a": "ready", b"b": "ready", b"c": "ready", b"d": "expired", b"e": "in flight", b"f": "no lease",
    }  # fmt: skip
    assert {body: row["due_ms"] for body, row in found.items()} == {
        **dict.fromkeys((b"a", b"b", b"c", b"f")), b"d": mail - 1_000, b"e": mail + 600_000,
    }  # fmt: skip
    assert (found[b"a"]["id"], found[b"d"]["id"]) == (item_id("queue", 0, b"a"), item_id("processing", 0, b"d"))
    assert {(row["queue"], row["ns"], row["size"]) for row in rows} == {("queue:mail", LISTS_NS, 1)}
    assert {row[name] for row in rows for name in ("sent_ms", "rc", "fr_ms")} == {None}
    assert everything(client) == before


def test_items_of_all_lists_and_none_of_what_is_none(redis_url: str, client: redis.Redis, mail: int) -> None:
    client.set("queue:odd", "no list")
    rows = read(redis_url, table="messages", lists="queue:*,queue:odd,jobs", partitions="2")

    assert sorted({row["queue"] for row in rows}) == ["jobs", "queue:mail"]
    assert len(rows) == 7
    with pytest.raises(SourceError, match="queue queue:odd"):
        read(redis_url, table="messages", kind="list", queue="queue:odd")


def test_a_deep_list_comes_whole(redis_url: str, client: redis.Redis) -> None:
    client.rpush("deep", *(f"item {number}" for number in range(12_000)))
    rows = read(redis_url, table="messages", kind="list", queue="deep")

    assert len({row["id"] for row in rows}) == len(rows) == 12_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "list"}, "option lists names the lists to read: queue:*, or several separated by commas"),
        ({"kind": "rsmq", "lists": "a"}, "option lists is for lists: leave it out, or set kind=list"),
        ({"kind": "list", "ns": "rsmq", "queue": "a"}, "lists have no namespace: leave option ns out"),
        ({"lists": "a,,b"}, "option lists is a key or a pattern"),
        ({"lists": "a", "lists_take": "top"}, "Consumers take from the left or the right end"),
        ({"lists": "a", "lists_leases": "same"}, "options lists_processing, lists_leases, lists_take: "),
        ({"kind": "heap"}, "option kind is one of rsmq, list, not heap"),
    ],
)
def test_mistakes_are_one_sentence(redis_url: str, given: dict[str, str], words: str) -> None:
    with pytest.raises(SourceError) as raised:
        read(redis_url, **given)
    assert words in str(raised.value)


def test_a_profile_says_which_lists_and_how_their_keys_are_named(
    redis_url: str, client: redis.Redis, tmp_path: Any
) -> None:
    client.lpush("jobs", "x")
    client.lpush("jobs.busy", "y", "z")
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.here]\nurl = "{redis_url}"\nlists = ["jobs"]\nlists_processing = "{{queue}}.busy"\n')
    source = RsmqDataSource({"profile": "here", "config": str(config), "kind": "list"})
    reader: Any = source.reader(source.schema())
    (batch,) = reader.read(InputPartition(None))

    assert [(row["queue"], row["hidden"]) for row in batch.to_pylist()] == [("jobs", 2)]
    assert [
        (row["queue"], row["hidden"]) for row in read(redis_url, lists="jobs", lists_processing="{queue}.busy")
    ] == [("jobs", 2)]


def test_what_polls_is_of_the_kind_that_was_asked_for(redis_url: str) -> None:
    assert isinstance(opened_poller(read_options({"url": redis_url})), RsmqPoller)
    assert isinstance(opened_poller(read_options({"url": redis_url, "lists": "a"})), ListPoller)
    assert read_options({"url": redis_url, "lists": "a"}).kind == LIST.name


def test_a_stream_of_samples(redis_url: str, client: redis.Redis, mail: int) -> None:
    source = RsmqDataSource({"url": redis_url, "lists": "queue:*", "every_s": "0.1"})
    reader = source.simpleStreamReader(source.schema())
    assert isinstance(reader, SampleStreamReader)
    try:
        start = reader.initialOffset()
        rows, offset = reader.read(start)
        found = [row for batch in rows for row in batch.to_pylist()]
    finally:
        reader.close()

    assert [(row["queue"], row["expired"]) for row in found] == [("queue:mail", 1), (None, None)]
    assert offset["polls"] == 1


@pytest.mark.parametrize("take", ["right", "left"])
def test_rows_are_pushed_where_nobody_takes(redis_url: str, client: redis.Redis, take: str) -> None:
    client.lpush("queue:mail", "first")
    done = push(redis_url, {"body": [f"row {number}" for number in range(1_200)]}, queue="queue:mail", lists_take=take)

    assert (done.sent, done.refused) == (1_200, 0)
    items = client.lrange("queue:mail", 0, -1)[:: 1 if take == "left" else -1]
    assert items == [b"first", *(b"row %d" % number for number in range(1_200))]


def test_a_row_goes_to_its_own_list_and_none_to_what_is_no_list(redis_url: str, client: redis.Redis) -> None:
    client.set("queue:odd", "no list")
    with pytest.raises(SourceError, match=r"2 of 4 rows cannot be sent; the others were sent. First reason: "):
        push(redis_url, {"body": [b"\xff", b"b", None, b"d"], "queue": ["queue:a", "queue:odd", "queue:a", "queue:b"]})

    assert (client.lrange("queue:a", 0, -1), client.lrange("queue:b", 0, -1)) == ([b"\xff"], [b"d"])


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (
            {"body": ["a"]},
            {"queue": "a", "ids": "once"},
            "pushed to a list at least once: leave options ids and run out",
        ),
        ({"body": ["a"]}, {"queue": "a", "delay_s": "3"}, "lists have no delay: leave delay_s out"),
        ({"body": ["a"], "delay_s": [3]}, {"queue": "a"}, "lists have no delay: leave delay_s out"),
        ({"body": ["a"]}, {}, "no queue is given: set option queue, or add a column queue to the rows"),
    ],
)
def test_what_lists_cannot_do_is_said_before(redis_url: str, columns: Row, options: dict[str, str], words: str) -> None:
    with pytest.raises(SourceError) as raised:
        push(redis_url, columns, **options)
    assert words in str(raised.value)


def test_through_spark(rsmq: SparkSession, redis_url: str, client: redis.Redis) -> None:
    given = rsmq.createDataFrame([(f"row {number}",) for number in range(50)], "body string").coalesce(2)
    options = {"url": redis_url, "kind": "list", "queue": "queue:mail"}
    given.write.format("rsmq").options(**options).mode("append").save()
    found = rsmq.read.format("rsmq").options(**options, table="messages", bodies="true").load()

    assert sorted(row["body"] for row in found.where("state = 'ready'").collect()) == sorted(
        f"row {number}".encode() for number in range(50)
    )
    (queue,) = rsmq.read.format("rsmq").options(**options).load().select("kind", "depth", "totalsent").collect()
    assert tuple(queue) == ("list", 50, None)
    assert isinstance(found.schema, StructType)
    assert client.llen("queue:mail") == 50
