"""The table of messages: what the protocol's own reading finds, and no more of it than was asked for."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, Not, StringStartsWith

from rsmq_tui.history.names import Place, stored_name
from rsmq_tui.history.rows import message_rows
from rsmq_tui.monitor.messages.peek import state_of
from rsmq_tui.protocol import Rsmq, RsmqReader, make_id, name_of
from tests.pipeline.datasource.conftest import BODIES, Load, make_queue
from tests.pipeline.datasource.reading import Row, read, reader_of

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000


def put(client: redis.Redis, queue: str, **messages: tuple[float, int | bytes | None, bytes | None]) -> None:
    """Write messages by hand: id -> (score, rc, body)."""
    for id, (score, rc, body) in messages.items():
        client.zadd(f"rsmq:{queue}", {id: score})
        fields = {id: body, f"{id}:rc": rc, f"{id}:fr": None if rc is None else 1_750_000_000_000}
        for field, value in fields.items():
            if value is not None:
                client.hset(f"rsmq:{queue}:Q", field, value)


def now_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def by_id(rows: list[Row]) -> dict[str, Row]:
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


ids = st.one_of(
    st.integers(1_700_000_000_000_000, 1_790_000_000_000_000).map(lambda at_us: make_id(at_us).encode()),
    st.binary(min_size=1, max_size=40).filter(lambda id: not id.endswith((b":rc", b":fr"))),
    st.sampled_from(["naïve \\ id".encode(), b"0123456789abcdef0123456789abcdef", b"\xff\xfe"]),
)
scores = st.one_of(
    st.integers(-5_000_000, 5_000_000),  # around now, in ms
    st.sampled_from(["inf", "-inf", "0", "1700000000", "1750000000.5", "1700000000000000", "1750000000000.25", "1e18"]),
)
numbers = st.one_of(
    st.none(), st.integers(0, 9).map(str), st.sampled_from(["5x", "-3", "0", "", "99999999999999999999", "\xff", "+7"])
)
queues = st.dictionaries(
    ids, st.tuples(scores, numbers, numbers, st.one_of(st.none(), st.sampled_from(BODIES))), max_size=12
)
names = st.sampled_from(["orders", "with space", "ünï\\code", "[/foo]", "a:b", "\udcff\udc80"])


class TestContents:
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(queue=queues, name=names, maxsize=st.sampled_from([65_536, -1]))
    def test_are_what_a_recorder_writes(
        self, redis_url: str, client: redis.Redis, queue: dict[bytes, Any], name: str, maxsize: int
    ) -> None:
        """The same values as recorded history, whatever is in the keys."""
        client.flushall()
        zset, attributes = (f"rsmq:{name}{end}".encode("utf-8", "surrogateescape") for end in ("", ":Q"))
        client.sadd("rsmq:QUEUES", name.encode("utf-8", "surrogateescape"))
        client.hset(attributes, mapping={"vt": 30, "delay": 0, "maxsize": maxsize})
        begun_ms = now_ms(client)
        for id, (score, rc, fr, body) in queue.items():
            client.zadd(zset, {id: begun_ms + score if isinstance(score, int) else float(score)})
            for field, value in ((id, body), (id + b":rc", rc), (id + b":fr", fr)):
                if value is not None:
                    client.hset(attributes, field, value)
        found = by_id(read(redis_url, bodies=True))

        async def scanned() -> dict[str, Row]:
            rows: dict[str, Row] = {}
            async with aclosing(RsmqReader(redis_url)) as reader:
                async for chunk in reader.scan.chunks(name, counts=True, bodies=True):
                    batch = message_rows(
                        "", Place("", reader.label, "rsmq"), name, chunk.messages, at_ms=chunk.at_ms, inventory_ms=0
                    )
                    for row, message in zip(batch.to_pylist(), chunk.messages, strict=True):
                        at_ms = found[row["id"]]["at_ms"]
                        rows[row["id"]] = row | {"state": str(state_of(message.score, message.rc, at_ms))}
            return rows

        expected = asyncio.run(scanned())
        assert found.keys() == expected.keys() == {stored_name(name_of(id)) for id in queue}
        for name_of_it, row in found.items():
            same = row.keys() - {"at_ms"}
            assert {column: row[column] for column in same} == {column: expected[name_of_it][column] for column in same}

    def test_of_all_queues_or_of_one(self, redis_url: str, client: redis.Redis) -> None:
        for name in ("a", "b", "empty"):
            make_queue(client, name)
        put(client, "a", x=(1, None, b"1"))
        put(client, "b", x=(2, 3, b"2"), y=(3, None, b"3"))

        assert sorted((row["queue"], row["id"]) for row in read(redis_url)) == [("a", "x"), ("b", "x"), ("b", "y")]
        assert [row["queue"] for row in read(redis_url, queue="b")] == ["b", "b"]
        assert read(redis_url, queue="empty") == []

    def test_a_body_that_is_too_long_to_be_read_is_null(self, redis_url: str, client: redis.Redis) -> None:
        make_queue(client, maxsize=-1)
        put(client, "orders", long=(1, None, b"x" * 1_000_001), short=(2, None, b"y"))
        found = by_id(read(redis_url, bodies=True))

        assert (found["long"]["size"], found["long"]["body"]) == (1_000_001, None)
        assert (found["short"]["size"], found["short"]["body"]) == (1, b"y")

    def test_through_spark(self, load: Load, client: redis.Redis) -> None:
        make_queue(client)
        put(client, "orders", a=(1, 7, b"\x00\xff"), b=(float("inf"), None, b""))
        rows = load(schema="id string, state string, rc bigint, body binary", queue="orders").orderBy("id").collect()

        assert [tuple(row) for row in rows] == [
            ("a", "ready", 7, bytearray(b"\x00\xff")),
            ("b", "delayed", 0, bytearray()),
        ]


def asked(client: redis.Redis, work: Callable[[], object]) -> dict[str, int]:
    """How often each command was called by some work."""
    client.config_resetstat()
    work()
    stats = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): int(output["calls"]) for name, output in stats.items()}


class TestWhatTheServerIsAsked:
    @pytest.fixture(autouse=True)
    def _filled(self, client: redis.Redis) -> None:
        make_queue(client)
        make_queue(client, "other")
        now = now_ms(client)
        put(client, "orders", **{f"ready{number}": (now - 1_000, number, b"r") for number in range(40)})
        put(client, "orders", flying=(now + HOUR_MS, 1, b"f"), delayed=(now + HOUR_MS, None, b"d"))
        put(client, "other", **{f"m{number}": (now - 1_000, None, b"o") for number in range(30)})

    def test_bodies_only_where_a_column_wants_them(self, redis_url: str, client: redis.Redis) -> None:
        with client.monitor() as monitor:
            for columns in (["id"], ["id", "rc"], ["id", "body"]):
                read(redis_url, queue="orders", columns=columns)
            client.ping()
            said: list[str] = []
            while "PING" not in (command := monitor.next_command()["command"]):
                said.append(command)
        reads = [command for command in said if command.startswith("HMGET")]

        assert ["ready1:rc" in command for command in reads] == [True, False]
        assert ["ready1 " in f"{command} " for command in reads] == [False, True]

    def test_no_counts_for_a_column_that_needs_none(self, redis_url: str, client: redis.Redis) -> None:
        calls = asked(client, lambda: read(redis_url, queue="orders", columns=["queue", "id", "due_ms", "sent_ms"]))
        assert "hmget" not in calls
        assert calls["zscan"] == 1

    def test_sizes_only_where_a_column_wants_them(self, redis_url: str, client: redis.Redis) -> None:
        assert "hstrlen" not in asked(client, lambda: read(redis_url))
        calls = asked(client, lambda: read(redis_url, queue="orders", columns=["id", "size"]))
        assert calls["hstrlen"] == 42

    @pytest.mark.parametrize(
        "wanted",
        [EqualTo(("queue",), "orders"), In(("queue",), ("orders", "none")), StringStartsWith(("queue",), "ord")],
    )
    def test_a_filter_on_the_queue_reads_that_queue(self, redis_url: str, client: redis.Redis, wanted: Filter) -> None:
        calls = asked(client, lambda: read(redis_url, wanted))
        assert calls["zscan"] == 1
        assert {row["queue"] for row in read(redis_url, wanted)} == {"orders"}

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (EqualTo(("state",), "ready"), 40),
            (EqualTo(("state",), "in flight"), 1),
            (EqualTo(("state",), "delayed"), 1),
            (In(("state",), ("in flight", "delayed")), 2),
            (Not(EqualTo(("state",), "ready")), 2),
        ],
    )
    def test_a_filter_on_the_state_reads_by_score(
        self, redis_url: str, client: redis.Redis, wanted: Filter, found: int
    ) -> None:
        calls = asked(client, lambda: read(redis_url, wanted, queue="orders"))
        assert len(read(redis_url, wanted, queue="orders", columns=["id", "body"])) == found
        assert "zscan" not in calls

    def test_a_filter_on_the_count_decides_before_bodies_are_read(self, redis_url: str, client: redis.Redis) -> None:
        wanted = GreaterThanOrEqual(("rc",), 38)
        with client.monitor() as monitor:
            rows = read(redis_url, wanted, queue="orders", columns=["id", "body"])
            client.ping()
            said: list[str] = []
            while "PING" not in (command := monitor.next_command()["command"]):
                said.append(command)
        bodies = [command.split()[2:] for command in said if command.startswith("HMGET") and ":rc" not in command]

        assert sorted(row["id"] for row in rows) == ["ready38", "ready39"]
        assert sorted(bodies[0]) == ["ready38", "ready39"]
        assert len(bodies) == 1

    def test_nothing_where_nothing_can_match(self, redis_url: str, client: redis.Redis) -> None:
        calls = asked(client, lambda: read(redis_url, EqualTo(("state",), "lost")))
        assert not {"zscan", "hmget", "zrange"} & calls.keys()

    def test_nothing_is_changed(self, redis_url: str, client: redis.Redis) -> None:
        before = client.dbsize(), client.hgetall("rsmq:orders:Q"), client.zrange("rsmq:orders", 0, -1, withscores=True)
        read(redis_url, bodies=True)
        after = client.dbsize(), client.hgetall("rsmq:orders:Q"), client.zrange("rsmq:orders", 0, -1, withscores=True)
        assert after == before

    def test_spark_pushes(self, load: Load, client: redis.Redis) -> None:
        rows: list[Any] = []
        wanted = "queue = 'orders' and state != 'ready' and rc > 0 and rc in (1, 2) and id like '%y%'"
        calls = asked(client, lambda: rows.extend(load().filter(wanted).select("id").collect()))

        assert [row.id for row in rows] == ["flying"]
        assert "zscan" not in calls
        assert calls["zrange"] == 3


class TestTasks:
    def test_a_deep_queue_is_shared_out(self, redis_url: str, client: redis.Redis) -> None:
        make_queue(client)
        for start in range(0, 50_000, 10_000):
            client.zadd("rsmq:orders", {f"m{number}": number for number in range(start, start + 10_000)})
        reader, _ = reader_of(redis_url, columns=["id"], partitions=4)
        partitions = reader.partitions()
        found = [row["id"] for partition in partitions for batch in reader.read(partition) for row in batch.to_pylist()]

        assert len(partitions) == 4
        assert sorted(found) == sorted(f"m{number}" for number in range(50_000))

    def test_the_ready_ones_too(self, redis_url: str, client: redis.Redis) -> None:
        make_queue(client)
        now = now_ms(client)
        for start in range(0, 50_000, 10_000):
            scores = {f"m{number}": now - 60_000 + number // 2 for number in range(start, start + 10_000)}
            client.zadd("rsmq:orders", scores)
        reader, _ = reader_of(redis_url, EqualTo(("state",), "ready"), columns=["id"], partitions=4)
        partitions = reader.partitions()
        parts = [[row["id"] for batch in reader.read(each) for row in batch.to_pylist()] for each in partitions]

        assert len(partitions) == 3
        assert min(map(len, parts)) >= 10_000
        assert sorted(id for part in parts for id in part) == sorted(f"m{number}" for number in range(50_000))

    def test_small_queues_share_a_task(self, redis_url: str, client: redis.Redis) -> None:
        for number in range(30):
            make_queue(client, f"q{number}")
            client.zadd(f"rsmq:q{number}", {"m": 1})
        reader, _ = reader_of(redis_url, partitions=3)
        partitions = reader.partitions()

        assert len(partitions) == 3
        assert sum(len(list(reader.read(partition))) for partition in partitions) == 30


@pytest.mark.parametrize("state", [None, "ready"])
def test_a_moving_queue(redis_url: str, client: redis.Redis, state: str | None) -> None:
    """Between any two batches some are received, deleted and sent; what stays comes in one task, once."""
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    now = now_ms(client)
    for start in range(0, 60_000, 10_000):
        client.zadd(
            "rsmq:orders", {make_id((now - 90_000 + n) * 1000): now - 90_000 + n for n in range(start, start + 10_000)}
        )
    client.hset("rsmq:orders:Q", mapping=dict.fromkeys(client.zrange("rsmq:orders", 0, -1), b"x"))
    before = set(client.zrange("rsmq:orders", 0, -1))
    filters = () if state is None else (EqualTo(("state",), state),)
    reader, _ = reader_of(redis_url, *filters, columns=["id"], partitions=4)
    found: list[bytes] = []
    scans = [reader.read(partition) for partition in reader.partitions()]
    assert len(scans) >= 3
    while scans:
        # All tasks at once, each a batch at a time, the last first.
        for scan in reversed(scans.copy()):
            batch = next(scan, None)
            if batch is None:
                scans.remove(scan)
                continue
            found += (row["id"].encode() for row in batch.to_pylist())
            rsmq.receive_messages("orders", 700)
            for message in rsmq.receive_messages("orders", 300):
                rsmq.delete_message("orders", message.id)
            rsmq.send_messages("orders", ["new"] * 500)
    there = (
        set(client.zrange("rsmq:orders", 0, -1)) if state is None else set(client.zrangebyscore("rsmq:orders", 0, now))
    )
    stayed = before & there

    assert 10_000 < len(stayed) < 60_000
    assert stayed <= set(found)
    assert len(found) == len(set(found))


def test_a_message_that_becomes_ready_meanwhile_is_not_called_hidden(redis_url: str, client: redis.Redis) -> None:
    make_queue(client)
    put(client, "orders", soon=(now_ms(client) + 300, None, b""), later=(now_ms(client) + HOUR_MS, None, b""))
    put(client, "orders", **{f"r{number}": (1, None, b"") for number in range(20)})
    reader, _ = reader_of(redis_url, EqualTo(("state",), "delayed"), queue="orders")
    (partition,) = reader.partitions()
    while now_ms(client) <= client.zscore("rsmq:orders", "soon"):
        time.sleep(0.01)

    assert [row["id"] for batch in reader.read(partition) for row in batch.to_pylist()] == ["later"]
