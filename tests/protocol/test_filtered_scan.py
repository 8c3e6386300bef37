"""Scanning by bodies that the server filters: what may match comes once, and the rest is counted."""

import random
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.protocol import RsmqError, RsmqReader
from rsmq_tui.protocol.rsmq import scan_strategies
from rsmq_tui.protocol.rsmq.scan import SCAN_BODY_BYTES
from rsmq_tui.protocol.rsmq.scan_strategies import BodyChunk, BodyFilter
from tests.protocol.keyspace import everything
from tests.protocol.test_body_scan import fill

# Of the bodies "body 0" to "body 19999", a tenth.
_WANTED = BodyFilter(b"[13]7", is_plain=False, in_lower=False)


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_strategies, "_SLOW_S", 0.0)


async def _chunks(reader: RsmqReader, wanted: BodyFilter = _WANTED) -> list[BodyChunk]:
    async with aclosing(reader.bodies.chunks("q", 100, wanted)) as chunks:
        return [chunk async for chunk in chunks]


def _wanted(bodies: dict[bytes, bytes]) -> set[bytes]:
    return {id for id, body in bodies.items() if body.endswith((b"17", b"37"))}


@pytest.mark.parametrize("count", [0, 1, 30, 3_000, 20_000])
async def test_what_passes_comes_once_and_the_rest_is_counted(
    reader: RsmqReader, client: redis.Redis, count: int
) -> None:
    bodies = fill(client, count)
    before = everything(client)
    chunks = await _chunks(reader)
    ids = [id for chunk in chunks for id in chunk.ids]
    assert len(ids) == len(set(ids))
    assert _wanted(bodies) <= set(ids)
    assert all(bodies[id] == body for chunk in chunks for id, body in zip(chunk.ids, chunk.bodies, strict=True))
    # Where two parts meet, a step reaches into the next one.
    assert len(ids) + sum(chunk.passed_over for chunk in chunks) == pytest.approx(count, rel=0.02)
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    if count > 10_000:
        assert len(ids) < count // 4
    assert everything(client) == before


async def test_what_stays_comes_once_while_the_queue_grows_and_shrinks(reader: RsmqReader, client: redis.Redis) -> None:
    bodies = fill(client, 20_000)
    rng = random.Random(4)
    stay = set(rng.sample(sorted(_wanted(bodies)), 100))
    gone = [id for id in bodies if id not in stay]
    found: list[bytes] = []
    async with aclosing(reader.bodies.chunks("q", 100, _WANTED)) as chunks:
        number = 0
        async for chunk in chunks:
            number += 1
            found += chunk.ids
            if number == 6:
                client.hset("rsmq:q:Q", mapping={b"%032d" % new: b"new 17" for new in range(60_000)})
            if number == 20:
                client.hdel("rsmq:q:Q", *gone, *(b"%032d" % new for new in range(60_000)))
                client.zrem("rsmq:q", *gone)
    assert number > 20
    assert len(found) == len(set(found))
    assert stay <= set(found)


async def test_without_scripts_every_body_passes(redis_url: str, client: redis.Redis) -> None:
    bodies = fill(client, 12_000)
    client.execute_command("ACL", "SETUSER", "some", "on", ">x", "~*", "+@all", "-@scripting")
    async with aclosing(RsmqReader(redis_url.replace("://", "://some:x@"))) as other:
        chunks = await _chunks(other)
    assert {id for chunk in chunks for id in chunk.ids} == set(bodies)
    assert not any(chunk.passed_over for chunk in chunks)
    client.execute_command("ACL", "DELUSER", "some")


async def test_a_filter_that_leaves_little_out_is_given_up(reader: RsmqReader, client: redis.Redis) -> None:
    bodies = fill(client, 12_000)
    chunks = await _chunks(reader, BodyFilter(b"body", is_plain=True, in_lower=False))
    ids = [id for chunk in chunks for id in chunk.ids]
    assert sorted(ids) == sorted(bodies)
    assert chunks[-1].is_last


@pytest.mark.parametrize("size", [600_000, SCAN_BODY_BYTES + 1], ids=["as many as fit", "too long"])
async def test_long_bodies_that_pass_are_read_or_told(reader: RsmqReader, client: redis.Redis, size: int) -> None:
    bodies = fill(client, 2_000)
    long = set(random.Random(5).sample(sorted(bodies), 10))
    for id in long:
        client.hset("rsmq:q:Q", id, b"x" * size + b"17")
    chunks = await _chunks(reader)
    read = {id: body for chunk in chunks for id, body in zip(chunk.ids, chunk.bodies, strict=True)}
    too_long = [id for chunk in chunks for id in chunk.too_long]
    assert _wanted({id: body for id, body in bodies.items() if id not in long}) <= set(read)
    if size > SCAN_BODY_BYTES:
        assert sorted(too_long) == sorted(long)
    else:
        assert not too_long
        assert all(len(read[id]) == size + 2 for id in long)


async def test_counters_and_attributes_are_no_bodies(reader: RsmqReader, client: redis.Redis) -> None:
    fill(client, 9_000)
    odd = b"a" * 29 + b":rc"
    client.hset("rsmq:q:Q", mapping={odd: b"odd 17", odd + b":rc": b"17", b"short:fr": b"17", b"totalsent": b"17"})
    ids = {id for chunk in await _chunks(reader) for id in chunk.ids}
    assert odd in ids
    assert ids.isdisjoint((odd + b":rc", b"short:fr", b"totalsent"))


async def test_it_goes_on_when_the_server_has_forgotten_the_script(reader: RsmqReader, client: redis.Redis) -> None:
    bodies = fill(client, 12_000)
    found: set[bytes] = set()
    async with aclosing(reader.bodies.chunks("q", 100, _WANTED)) as chunks:
        async for chunk in chunks:
            found.update(chunk.ids)
            client.script_flush()
    assert _wanted(bodies) <= found


async def test_leaving_early_leaves_nothing_behind(reader: RsmqReader, client: redis.Redis) -> None:
    bodies = fill(client, 12_000)
    async with aclosing(reader.bodies.chunks("q", 100, _WANTED)) as chunks:
        number = 0
        async for _ in chunks:
            number += 1
            if number == 8:
                break
    assert {id for chunk in await _chunks(reader) for id in chunk.ids} >= _wanted(bodies)


async def test_another_type_is_told(reader: RsmqReader, client: redis.Redis) -> None:
    fill(client, 12_000)

    async def scan() -> None:
        async with aclosing(reader.bodies.chunks("q", 100, _WANTED)) as chunks:
            number = 0
            async for _ in chunks:
                number += 1
                if number == 6:
                    client.delete("rsmq:q:Q")
                    client.set("rsmq:q:Q", "x")

    with pytest.raises(RsmqError) as caught:
        await scan()
    assert caught.value.code == "wrongType"
