"""Parts of a scan: together they are the whole, each message is in one of them, whatever others do meanwhile."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Any

import pytest
import redis
from redis.exceptions import InvalidResponse

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.protocol.connections import script_runner
from rsmq_tui.protocol.rsmq.scan import ScanPart
from tests.protocol.test_scan import NOW_MS, drop, fill

pytestmark = pytest.mark.slow


@pytest.fixture
def client(either_server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(either_server.url) as connected:
        connected.flushall()
        yield connected


async def ids_of(url: str, part: ScanPart, count: int = 500, *, counts: bool = False) -> list[bytes]:
    async with aclosing(RsmqReader(url)) as reader:
        chunks = reader.scan.chunks("q", counts=counts, bodies=False, count=count, part=part)
        return [id async for chunk in chunks for id in chunk.columns[0]]


@pytest.mark.parametrize("parts", [2, 8])
@pytest.mark.parametrize("count", [10, 137, 500])
async def test_together_they_are_the_whole(
    either_server: EmbeddedServer, client: redis.Redis, parts: int, count: int
) -> None:
    ids = fill(client, 8_000)
    found = [await ids_of(either_server.url, ScanPart(index, parts), count) for index in range(parts)]

    assert sorted(chain(*found)) == sorted(ids)
    # They are even: a part is a share of the hashes.
    assert all(abs(len(part) - len(ids) / parts) < 0.1 * len(ids) / parts + 100 for part in found)


@pytest.mark.parametrize("change", ["grow", "shrink", "move"])
async def test_what_is_there_throughout_is_in_exactly_one(
    either_server: EmbeddedServer, client: redis.Redis, change: str
) -> None:
    """One part after the other is begun and read to its end, while the table grows, shrinks, or every score moves."""
    ids = fill(client, 24_000)
    rng = random.Random(11)
    rng.shuffle(ids)
    stay, leave = ids[:10_000], ids[10_000:]
    found: list[bytes] = []
    steps = 0
    async with aclosing(RsmqReader(either_server.url)) as reader:
        scans = [
            reader.scan.chunks("q", counts=False, bodies=False, count=200, part=ScanPart(index, 8))
            for index in range(8)
        ]
        while scans:
            scan = scans[rng.randrange(len(scans))]
            try:
                chunk = await anext(scan)
            except StopAsyncIteration:
                scans.remove(scan)
                continue
            found += chunk.columns[0]
            steps += 1
            if change == "grow" and steps <= 60:
                client.zadd("rsmq:q", {f"new-{steps}-{number}": steps for number in range(1_000)})
            elif change == "shrink":
                drop(client, leave[-300:])
                del leave[-300:]
            elif change == "move":
                moved = rng.sample(stay, 300)
                client.zadd("rsmq:q", dict.fromkeys(moved, 9_000_000_000_000 * (steps % 2) + steps))
            await asyncio.sleep(0)

    assert steps > 60
    there = set(stay)
    assert sorted(id for id in found if id in there) == sorted(stay)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("depth", [3, 200, 20_000])
@pytest.mark.parametrize("counts", [False, True])
async def test_what_arrives_or_leaves_meanwhile_is_in_one_at_most(
    either_server: EmbeddedServer, client: redis.Redis, depth: int, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are read at the same time; some messages arrive, and others leave, between any two requests."""
    honest, leave, steps = script_runner.exchange, fill(client, depth), 0
    stay = {leave.pop() for _ in range(depth // 2)}
    # As a queue of that depth would not be split, the table stays as it is.
    many = 0 if depth < 20_000 else 100

    async def beside(connection: Any, commands: Sequence[Any]) -> list[Any]:
        nonlocal steps
        replies = await honest(connection, commands)
        steps += 1
        drop(client, [leave.pop() for _ in range(min(many, len(leave)))] or [b"none"])
        client.zadd("rsmq:q", {f"new-{steps}-{number}": NOW_MS for number in range(many + 1)})
        return replies

    monkeypatch.setattr(script_runner, "exchange", beside)
    parts = [ids_of(either_server.url, ScanPart(index, 8), 350, counts=counts) for index in range(8)]
    found = list(chain(*await asyncio.gather(*parts)))

    assert steps > 8
    assert stay <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("counts", [False, True])
async def test_what_leaves_while_a_part_reaches_farther_is_in_the_next_alone(
    either_server: EmbeddedServer, client: redis.Redis, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next part was read before, and its first messages leave while the last step of this part reaches them."""
    fill(client, 20_000)
    part, honest = ScanPart(0, 2), script_runner.exchange
    next_part = await ids_of(either_server.url, ScanPart(1, 2), 20, counts=counts)
    leave, is_last_step = list(next_part), False

    async def beside(connection: Any, commands: Sequence[Any]) -> list[Any]:
        nonlocal is_last_step
        replies = await honest(connection, commands)
        is_last_step = is_last_step or any(part.next_first in command for command in commands)
        if is_last_step:
            drop(client, leave[:60] or [b"none"])
            del leave[:60]
        return replies

    monkeypatch.setattr(script_runner, "exchange", beside)
    for count in range(20, 60, 3):
        found = await ids_of(either_server.url, part, count, counts=counts)
        assert set(next_part).isdisjoint(found)
        # One in five scans has a step that ends just where the part does.
        if is_last_step:
            break
    assert is_last_step


def test_there_are_no_other_parts() -> None:
    for index, count in ((0, 3), (2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="no part"):
            ScanPart(index, count)


@pytest.mark.parametrize("following", [b"7", b"18446744073709551616", b"6"])
def test_a_server_that_counts_otherwise_is_noticed(following: bytes) -> None:
    # From 1, which is half of the way, no server goes to what lies in the first half or nowhere.
    part = ScanPart(1, 2)
    with pytest.raises(InvalidResponse, match="cannot be split"):
        part.check_step(b"15", following)
    ScanPart().check_step(b"15", following)
