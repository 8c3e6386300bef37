"""Types and leases of list queues as a real server tells them, and which queues are worked on."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest
from redis import Redis

from rsmq_tui.protocol import RsmqError
from rsmq_tui.protocol.lists.inspection import KeyTypes, LeaseMember
from rsmq_tui.protocol.lists.naming import ListNames, item_sha
from rsmq_tui.protocol.lists.reader import ListReader
from tests.protocol.keyspace import now_ms

Reading = Callable[..., ListReader]


@pytest.fixture
async def reading(redis_url: str) -> AsyncIterator[Reading]:
    """Makes readers of the test's server, which are closed afterwards."""
    made: list[ListReader] = []

    def read(*patterns: str, **names: str) -> ListReader:
        made.append(ListReader(redis_url, ListNames(**names), patterns))  # type: ignore[arg-type] # an end among them
        return made[-1]

    yield read
    for reader in made:
        await reader.aclose()


async def members_of(reader: ListReader, queue: str) -> list[LeaseMember]:
    """All leases, as they come."""
    async with aclosing(reader.leases.pages(queue)) as pages:
        return [member async for page in pages for member in page.members]


async def test_what_the_keys_hold(client: Redis, reading: Reading) -> None:
    client.lpush("queue:a", "x")
    client.set("queue:a:processing", "x")
    reader = reading("queue:a")

    assert await reader.leases.types("queue:a") == KeyTypes("list", "string", "none")
    assert await reader.leases.processing("queue:b") == 0
    with pytest.raises(RsmqError) as raised:
        await reader.leases.processing("queue:a")
    assert raised.value.code == "wrongType"


async def test_every_lease_comes_with_the_servers_time(client: Redis, reading: Reading) -> None:
    leases = {f"{number:022}:item {number}": number for number in range(5_000)}
    client.zadd("queue:a:leases", leases)
    client.zadd("queue:a:leases", {b"\xffodd": 7})
    reader = reading("queue:a")
    found = {member.mark: member for member in await members_of(reader, "queue:a")}
    (odd,) = (member for member in found.values() if member.sha is None)

    assert len(found) == 5_001
    assert (odd.token, odd.score) == (b"\xffodd", b"7")
    first = next(member for member in found.values() if member.token == b"%022d" % 17)
    assert (first.sha, first.score) == (item_sha(b"item 17"), b"17")
    async with aclosing(reader.leases.pages("queue:a")) as pages:
        assert abs((await anext(pages)).at_ms - now_ms(client)) < 60_000


async def test_leases_that_are_none(client: Redis, reading: Reading) -> None:
    client.set("queue:a:leases", "x")
    reader = reading("queue:a")
    with pytest.raises(RsmqError) as raised:
        await members_of(reader, "queue:a")
    assert raised.value.code == "wrongType"
    assert await members_of(reader, "queue:b") == []


@pytest.mark.parametrize(
    ("names", "keys", "expected"),
    [
        ({}, ["queue:a:processing", "mail:processing", "queue:b", "processing"], {"queue:a", "mail"}),
        (
            {"queue": "bull:{name}:wait", "processing": "bull:{name}:active", "leases": "bull:{name}:leases"},
            ["bull:x:active", "bull:y:wait", "queue:a:processing"],
            {"bull:x:wait"},
        ),
        ({"processing": "busy[{queue}]"}, ["busy[queue:a]", "busyq", "queue:b"], {"queue:a"}),
    ],
)
async def test_queues_that_are_worked_on(
    client: Redis, reading: Reading, names: dict[str, str], keys: list[str], expected: set[str]
) -> None:
    for key in keys:
        client.lpush(key, "x")
    client.zadd("zset:processing", {"x": 1})

    assert await reading("queue:*", **names).worked_on() == (frozenset(expected), None)
