"""Scanning by bodies: each that is there throughout comes once, and only those of messages are messages."""

import random
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.protocol import RsmqError, RsmqReader, make_id
from rsmq_tui.protocol.rsmq.scan import SCAN_BODY_BYTES, UNMEASURED_BYTES_MAX
from tests.protocol.keyspace import everything

NOW_MS = 1_750_000_000_000


def fill(client: redis.Redis, count: int) -> dict[bytes, bytes]:
    """Fill a queue, of which every other message has been received."""
    bodies = {make_id((NOW_MS - number) * 1000).encode(): b"body %d" % number for number in range(count)}
    if bodies:
        client.zadd("rsmq:q", {id: NOW_MS + number for number, id in enumerate(bodies)})
    counters = {id + suffix: 1 for number, id in enumerate(bodies) if number % 2 for suffix in (b":rc", b":fr")}
    attributes = {b"vt": 30, b"delay": 0, b"maxsize": 65_536, b"totalsent": count, b"totalrecv": 7, b"created": 1}
    client.hset("rsmq:q:Q", mapping={**bodies, **counters, **attributes})
    return bodies


async def scanned(reader: RsmqReader, count: int = 100) -> list[tuple[bytes, bytes]]:
    async with aclosing(reader.bodies.chunks("q", count)) as chunks:
        return [pair async for chunk in chunks for pair in zip(chunk.ids, chunk.bodies, strict=True)]


@pytest.mark.parametrize("count", [0, 1, 30, 5_000])
async def test_each_body_comes_once_and_nothing_else_does(reader: RsmqReader, client: redis.Redis, count: int) -> None:
    bodies = fill(client, count)
    before = everything(client)
    found = await scanned(reader)
    assert len(found) == count
    assert dict(found) == bodies
    assert everything(client) == before


async def test_the_last_chunk_says_so(reader: RsmqReader, client: redis.Redis) -> None:
    fill(client, 3_000)
    async with aclosing(reader.bodies.chunks("q", 100)) as chunks:
        ends = [chunk.is_last async for chunk in chunks]
    assert len(ends) > 5
    assert ends == [False] * (len(ends) - 1) + [True]


async def test_what_stays_comes_while_the_queue_shrinks(reader: RsmqReader, client: redis.Redis) -> None:
    bodies = fill(client, 20_000)
    stay = set(random.Random(4).sample(sorted(bodies), 300))
    found: list[bytes] = []
    async with aclosing(reader.bodies.chunks("q", 50)) as chunks:
        async for chunk in chunks:
            found += chunk.ids
            if len(found) > 2_000 and client.hlen("rsmq:q:Q") > 10_000:
                gone = [id for id in bodies if id not in stay]
                client.zrem("rsmq:q", *gone)
                client.hdel("rsmq:q:Q", *gone, *(id + b":rc" for id in gone), *(id + b":fr" for id in gone))
    assert stay <= set(found)


async def test_an_id_that_ends_as_a_counter_does_is_an_id(reader: RsmqReader, client: redis.Redis) -> None:
    odd = b"a" * 29 + b":rc"
    client.zadd("rsmq:q", {odd: NOW_MS})
    client.hset("rsmq:q:Q", mapping={odd: b"odd", odd + b":rc": 3, b"maxsize": 65_536})
    assert await scanned(reader) == [(odd, b"odd")]
    _, (message,) = await reader.bodies.messages("q", [odd], [b"odd"])
    assert (message.id, message.rc, message.fr, message.body, message.size) == (odd, b"3", None, b"odd", 3)
    assert float(message.score) == NOW_MS


async def test_a_body_of_no_message_is_none(reader: RsmqReader, client: redis.Redis) -> None:
    bodies = fill(client, 4)
    ids = list(bodies)
    client.zrem("rsmq:q", ids[0], ids[2])
    _, found = await reader.bodies.messages("q", ids, list(bodies.values()))
    assert [message.id for message in found] == [ids[1], ids[3]]


@pytest.mark.parametrize("refused", ["-zmscore", "-hscan"])
async def test_what_may_not_be_used_is_gone_without(
    reader: RsmqReader, redis_url: str, client: redis.Redis, refused: str
) -> None:
    bodies = fill(client, 4)
    client.execute_command("ACL", "SETUSER", "some", "on", ">x", "~*", "+@all", refused)
    async with aclosing(RsmqReader(redis_url.replace("://", "://some:x@"))) as other:
        assert await other.bodies.suits("q") is (refused == "-zmscore")
        assert len((await other.bodies.messages("q", list(bodies), list(bodies.values())))[1]) == 4
    client.execute_command("ACL", "DELUSER", "some")


async def test_it_suits_queues_with_a_hash(reader: RsmqReader, client: redis.Redis) -> None:
    client.hset("rsmq:q:Q", "maxsize", 65_536)
    assert await reader.bodies.suits("q")
    client.hset("rsmq:q:Q", "maxsize", -1)
    assert not await reader.bodies.suits("q")
    assert not await reader.bodies.suits("gone")
    client.set("rsmq:gone:Q", "a string")
    assert not await reader.bodies.suits("gone")


@pytest.mark.parametrize("size", [SCAN_BODY_BYTES + 1, 2 * UNMEASURED_BYTES_MAX], ids=["one fits", "none fits"])
async def test_long_bodies_are_left_out_though_maxsize_is_less(
    reader: RsmqReader, client: redis.Redis, size: int
) -> None:
    bodies = fill(client, 2_000)
    long = set(random.Random(5).sample(sorted(bodies), 10))
    for id in long:
        client.execute_command("HSET", "rsmq:q:Q", id, b"x" * size)
    found: dict[bytes, bytes] = {}
    too_long: list[bytes] = []
    async with aclosing(reader.bodies.chunks("q")) as chunks:
        async for chunk in chunks:
            assert sum(map(len, chunk.bodies)) <= 2 * SCAN_BODY_BYTES
            found.update(zip(chunk.ids, chunk.bodies, strict=True))
            too_long += chunk.too_long
    assert found == {id: body for id, body in bodies.items() if id not in long}
    assert sorted(too_long) == sorted(long)


async def test_it_goes_on_when_the_server_has_forgotten_the_script(reader: RsmqReader, client: redis.Redis) -> None:
    bodies = fill(client, 3_000)
    found: list[bytes] = []
    async with aclosing(reader.bodies.chunks("q", 100)) as chunks:
        async for chunk in chunks:
            found += chunk.ids
            client.script_flush()
    assert sorted(found) == sorted(bodies)


async def test_another_type_is_told(reader: RsmqReader, client: redis.Redis) -> None:
    fill(client, 2)
    client.delete("rsmq:q")
    client.set("rsmq:q", "x")
    with pytest.raises(RsmqError) as caught:
        await scanned(reader)
    assert caught.value.code == "wrongType"
    with pytest.raises(RsmqError):
        await reader.bodies.messages("q", [b"x"], [b"y"])
