"""Quiet queues are not read again and again, and yet nothing that changes is missed for long."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import ClassVar

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq_tui.embedded import EmbeddedServer
from rsmq_tui.protocol import QueueReader, Row, Rsmq, RsmqError
from rsmq_tui.protocol.chunks import FULL_EVERY, Chunk
from rsmq_tui.protocol.rows import CHUNK_QUEUES
from tests.protocol.keyspace import now_ms, plant

# 2096: hidden whenever these tests run.
LATER_MS = 4_000_000_000_000
ID = "x" * 32


@pytest.fixture
async def reader(redis_url: str) -> AsyncIterator[QueueReader]:
    async with aclosing(QueueReader(redis_url)) as opened:
        yield opened


async def read_all(reader: QueueReader, at_ms: int) -> dict[str, Row]:
    await reader.rows.index()
    return {name: row async for names, rows in reader.rows.rows(at_ms) for name, row in zip(names, rows, strict=True)}


async def read_afresh(url: str, at_ms: int) -> dict[str, Row]:
    async with aclosing(QueueReader(url)) as fresh:
        return await read_all(fresh, at_ms)


async def settle(reader: QueueReader, at_ms: int) -> dict[str, Row]:
    """Read until every quiet row is known to be so."""
    await read_all(reader, at_ms)
    return await read_all(reader, at_ms)


def busy(client: redis.Redis) -> Rsmq:
    """A queue ``q`` with five messages, two of them received."""
    queues = Rsmq(client)
    queues.create_queue("q")
    queues.send_messages("q", ["x"] * 5)
    queues.receive_messages("q", 2)
    return queues


async def test_a_quiet_queue_costs_next_to_nothing_and_gives_the_same_row(
    client: redis.Redis, reader: QueueReader
) -> None:
    for number in range(20):
        Rsmq(client).create_queue(f"q{number}")
        client.hset(f"rsmq:q{number}:Q", mapping={"totalsent": 20, "totalrecv": number} if number % 2 else {"vt": 31})
        plant(client, f"q{number}", ID, due_ms=LATER_MS if number % 3 else 500_000_000_000)
    at_ms = now_ms(client)
    sizes = []
    for _ in range(4):
        before = reader.traffic.bytes_received
        rows = await read_all(reader, at_ms)
        sizes.append(reader.traffic.bytes_received - before)
    again = await read_all(reader, at_ms)

    assert sizes[2] < sizes[0] / 4
    assert all(again[name] is row for name, row in rows.items())


CHANGES: dict[str, Callable[[redis.Redis], object]] = {
    "send": lambda client: Rsmq(client).send_message("q", "x"),
    "receive": lambda client: Rsmq(client).receive_message("q"),
    "receive with vt 0": lambda client: Rsmq(client).receive_message("q", vt=0),
    "pop": lambda client: Rsmq(client).pop_message("q"),
    "delete": lambda client: client.zpopmax("rsmq:q"),
    "hide": lambda client: client.zincrby("rsmq:q", 1e12, client.zrange("rsmq:q", 0, 0)[0]),
    "count a send": lambda client: client.hincrby("rsmq:q:Q", "totalsent"),
    "count a receive": lambda client: client.hincrby("rsmq:q:Q", "totalrecv"),
    "modify": lambda client: client.hset("rsmq:q:Q", mapping={"vt": 5, "modified": 12345}),
    "lose the hash": lambda client: client.delete("rsmq:q:Q"),
    "lose the messages": lambda client: client.delete("rsmq:q"),
    "lose both": lambda client: client.delete("rsmq:q", "rsmq:q:Q"),
    "another type for the hash": lambda client: (client.delete("rsmq:q:Q"), client.set("rsmq:q:Q", "x")),
    "another type for the messages": lambda client: (client.delete("rsmq:q"), client.set("rsmq:q", "x")),
    "delete and create": lambda client: (Rsmq(client).delete_queue("q"), Rsmq(client).create_queue("q", vt=7)),
    "seconds": lambda client: client.zadd("rsmq:q", {ID: 1_750_000_000}),
    "never": lambda client: client.zadd("rsmq:q", {ID: "inf"}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_seen_at_once(client: redis.Redis, redis_url: str, reader: QueueReader, change: str) -> None:
    busy(client)
    at_ms = now_ms(client)
    before = await settle(reader, at_ms)
    CHANGES[change](client)
    after = await read_all(reader, at_ms)

    assert after != before
    assert after == await read_afresh(redis_url, at_ms)
    # And so is the change back to a queue that works.
    client.delete("rsmq:q", "rsmq:q:Q")
    busy(client) if not client.sismember("rsmq:QUEUES", "q") else client.hset("rsmq:q:Q", "vt", 30)
    assert await settle(reader, at_ms) == await read_afresh(redis_url, at_ms)


@pytest.mark.parametrize(
    "scores",
    [
        [1_750_000_000_000, 1_750_000_000_005],
        [1_750_000_000, 1_750_000_001],
        [1_750_000_000_000_000, 1_750_000_000_005_000],
        ["-inf", 1_750_000_001, 1_750_000_000_005, 1_750_000_000_005_000],
        [1_750_000_000_005],
    ],
)
async def test_messages_that_become_visible_by_themselves_are_seen_at_once(
    client: redis.Redis, redis_url: str, reader: QueueReader, scores: list[float]
) -> None:
    client.sadd("rsmq:QUEUES", "q")
    client.hset("rsmq:q:Q", "vt", 30)
    for number, score in enumerate(scores):
        plant(client, "q", f"{number:032d}", due_ms=score)
    start_ms = 1_749_999_999_999
    await settle(reader, start_ms)
    for at_ms in (start_ms, start_ms + 1, start_ms + 5, start_ms + 6, start_ms + 999, start_ms + 1001, LATER_MS):
        assert await read_all(reader, at_ms) == await read_afresh(redis_url, at_ms)


@pytest.mark.parametrize(
    "change",
    [
        lambda client: client.hset("rsmq:q:Q", "vt", 99),
        lambda client: client.hset("rsmq:q:Q", "created", "2022-07-19"),
        lambda client: client.hdel("rsmq:q:Q", "maxsize"),
        # The first of messages that are all hidden, made to stay so longer.
        lambda client: client.zadd("rsmq:q", {client.zrange("rsmq:q", 0, 0)[0]: LATER_MS + 99}),
    ],
)
async def test_a_change_that_leaves_no_trace_is_seen_after_a_few_polls(
    client: redis.Redis, redis_url: str, reader: QueueReader, change: Callable[[redis.Redis], object]
) -> None:
    Rsmq(client).create_queue("q")
    for number in range(3):
        plant(client, "q", f"{number:032d}", due_ms=LATER_MS + number)
    at_ms = now_ms(client)
    await settle(reader, at_ms)
    change(client)
    wanted = await read_afresh(redis_url, at_ms)
    seen = [await read_all(reader, at_ms) == wanted for _ in range(FULL_EVERY)]

    assert seen[-1]
    assert seen == sorted(seen)


async def test_every_chunk_is_read_in_full_in_its_turn(client: redis.Redis, reader: QueueReader) -> None:
    names = [f"q{number:05d}" for number in range(CHUNK_QUEUES * FULL_EVERY)]
    with client.pipeline(transaction=False) as to:
        for name in names:
            to.sadd("rsmq:QUEUES", name).hset(f"rsmq:{name}:Q", "vt", 30)
        to.execute()
    at_ms = now_ms(client)
    for _ in range(FULL_EVERY):
        await read_all(reader, at_ms)
    client.config_resetstat()
    sizes = []
    for _ in range(FULL_EVERY):
        before = reader.traffic.bytes_received
        await read_all(reader, at_ms)
        sizes.append(reader.traffic.bytes_received - before)

    # One chunk of them all in each poll; the clock's microseconds have one to six digits.
    assert max(sizes) - min(sizes) <= 6
    # No queue is looked at twice in a poll, as one would be whose row is taken for known and is not.
    assert client.info("commandstats")["cmdstat_hmget"]["calls"] == len(names) * FULL_EVERY


async def test_queues_that_come_and_go_do_not_confuse_the_others(
    client: redis.Redis, redis_url: str, reader: QueueReader
) -> None:
    queues = Rsmq(client)
    for name in "bdf":
        queues.create_queue(name, vt=ord(name))
    at_ms = now_ms(client)
    await settle(reader, at_ms)
    for name in "ace":
        queues.create_queue(name, vt=ord(name))
        queues.delete_queue(chr(ord(name) + 1))
        rows = await read_all(reader, at_ms)
        assert rows == await read_afresh(redis_url, at_ms)
        assert {int(row[0][0]) for row in rows.values()} == {ord(found) for found in rows}


async def test_another_namespace_is_read_from_its_own_keys(client: redis.Redis, reader: QueueReader) -> None:
    for ns, vt in (("one", 1), ("two", 2)):
        Rsmq(client, ns).create_queue("q", vt=vt)
    seen = []
    for ns in ("one", "two", "one"):
        reader.watch(ns)
        seen.append((await settle(reader, now_ms(client)))["q"][0][0])

    assert seen == [b"1", b"2", b"1"]


class TestAReplyThatIsLost:
    QUIET: ClassVar[Row] = [[b"30", b"0", b"65536", b"5", b"5", None, None], 0]

    def known(self) -> Chunk:
        chunk = Chunk([b"rsmq:q", b"rsmq:q:Q"], 0)
        for _ in range(2):
            chunk.arguments(1)
            chunk.take([list(self.QUIET)])
        return chunk

    def test_leaves_what_was_known(self) -> None:
        chunk = self.known()
        for _ in range(5):
            chunk.arguments(1)

        assert chunk.take([0]) == [self.QUIET]

    def test_asks_in_full_again_when_that_was_its_turn(self) -> None:
        chunk = self.known()
        asked = [chunk.arguments(1)[1] for _ in range(FULL_EVERY)]

        assert b"" in asked
        assert asked[-1] == b""

    def test_is_no_answer_to_what_came_after(self) -> None:
        chunk = self.known()
        chunk.arguments(1)
        changed: Row = [self.QUIET[0], 7, ID.encode(), b"1750000000000", 0]
        assert chunk.take([changed]) == [changed]

        assert chunk.arguments(1)[1] == b""


def place(client: redis.Redis, name: str, number: int, due_ms: int) -> None:
    client.zadd(f"rsmq:{name}", {f"{number:032d}": due_ms + number})
    client.hincrby(f"rsmq:{name}:Q", "totalsent")


def create_again(client: redis.Redis, name: str, number: int) -> None:
    client.delete(f"rsmq:{name}", f"rsmq:{name}:Q")
    client.hset(f"rsmq:{name}:Q", mapping={"vt": number, "delay": 0, "maxsize": -1, "modified": number})


# What happens to a queue; what its keys' types do not allow does not happen.
EVENTS: dict[str, Callable[[redis.Redis, str, int], object]] = {
    "send": lambda client, name, number: place(client, name, number, 500_000_000_000),
    "send delayed": lambda client, name, number: place(client, name, number, LATER_MS),
    "receive": lambda client, name, number: Rsmq(client).receive_message(name),
    "pop": lambda client, name, number: Rsmq(client).pop_message(name),
    "delete": lambda client, name, number: client.zremrangebyrank(f"rsmq:{name}", 0, 0),
    "create again": create_again,
    "lose messages": lambda client, name, number: client.delete(f"rsmq:{name}"),
    "lose hash": lambda client, name, number: client.delete(f"rsmq:{name}:Q"),
    "wrong messages": lambda client, name, number: client.set(f"rsmq:{name}", "x"),
    "wrong hash": lambda client, name, number: client.set(f"rsmq:{name}:Q", "x"),
    "nothing": lambda client, name, number: None,
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(sorted(EVENTS))), max_size=25))
async def test_whatever_happens_rows_are_those_of_a_fresh_reader(
    server: EmbeddedServer, events: list[tuple[str, str]]
) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        client.sadd("rsmq:QUEUES", "a", "b")
        async with aclosing(QueueReader(server.url)) as reader, aclosing(QueueReader(server.url)) as fresh:
            for number, (name, event) in enumerate(events, 1):
                with suppress(RsmqError, redis.ResponseError):
                    EVENTS[event](client, name, number)
                at_ms = now_ms(client)
                # Watching anew forgets all that was known.
                fresh.watch("rsmq")
                assert await read_all(reader, at_ms) == await read_all(fresh, at_ms)
