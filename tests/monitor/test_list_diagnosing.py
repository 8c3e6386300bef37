"""What `doctor` says of list queues, on a real server."""

from collections.abc import Awaitable, Callable

import pytest
from redis import Redis

from rsmq_tui.monitor.doctor import diagnose_lists
from rsmq_tui.monitor.server import CheckLevel, CheckResult
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader

Diagnose = Callable[..., Awaitable[dict[str, CheckResult]]]


@pytest.fixture
def found(redis_url: str) -> Diagnose:
    """What is found of lists, by the names of the results."""

    async def run(*patterns: str, url: str = redis_url, interval_s: float = 60.0) -> dict[str, CheckResult]:
        reader = ListReader(url, ListNames(), patterns)
        try:
            return {each.name: each async for each in diagnose_lists(reader, patterns, interval_s=interval_s)}
        finally:
            await reader.aclose()

    return run


def levels(results: dict[str, CheckResult]) -> dict[str, CheckLevel]:
    return {name: result.level for name, result in results.items()}


async def test_all_is_well(client: Redis, found: Diagnose) -> None:
    client.lpush("queue:a", "x")
    results = await found("queue:*", "b")
    assert levels(results) == {"lists.found": CheckLevel.OK, "lists.speed": CheckLevel.OK}
    assert results["lists.found"].text == "2 lists found for queue:*, b"


async def test_a_poll_that_takes_too_long(client: Redis, found: Diagnose) -> None:
    client.lpush("queue:a", "x")
    assert levels(await found("queue:*", interval_s=1e-9))["lists.speed"] is CheckLevel.WARN


async def test_no_lists_at_all(found: Diagnose) -> None:
    results = await found("queue:*")
    assert results["lists.found"].level is CheckLevel.WARN
    assert "no key for an empty list" in (results["lists.found"].hint or "")


async def test_keys_of_other_types(client: Redis, found: Diagnose) -> None:
    client.lpush("queue:a", "x")
    client.set("queue:a:leases", "x")
    result = (await found("queue:*"))["lists.broken"]
    assert result.level is CheckLevel.WARN
    assert result.text == ("1 list queue cannot be read completely: queue:a: its leases key is not a sorted set")


async def test_what_is_refused(client: Redis, redis_url: str, found: Diagnose) -> None:
    client.acl_setuser("half", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-scan", "-@scripting"])
    results = await found("queue:*", "queue:a", url=redis_url.replace("redis://", "redis://half:x@"))
    assert levels(results) == {
        "lists.search": CheckLevel.WARN, "lists.found": CheckLevel.OK, "lists.speed": CheckLevel.OK,
        "lists.scripts": CheckLevel.WARN,
    }  # fmt: skip


async def test_a_server_that_is_not_there(found: Diagnose) -> None:
    assert levels(await found("queue:*", url="redis://127.0.0.1:1")) == {"lists.found": CheckLevel.FAIL}
    assert levels(await found("queue:a", url="redis://127.0.0.1:1")) == {"lists.poll": CheckLevel.FAIL}
