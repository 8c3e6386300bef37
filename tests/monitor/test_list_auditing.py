"""Auditing list queues of a real server: each kind of trouble once, none where consumers just work, nothing changed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from rsmq_tui.monitor import PeekError
from rsmq_tui.monitor.audit.findings import Finding, ListFindingKind
from rsmq_tui.monitor.audit.lists import audit_lists, missing_lists
from rsmq_tui.monitor.audit.rsmq import AuditProgress
from rsmq_tui.protocol.lists.client import AsyncListQueue, ListQueue
from rsmq_tui.protocol.lists.naming import ListNames, item_id
from rsmq_tui.protocol.lists.reader import ListReader
from tests.protocol.keyspace import everything, now_ms

Kind = ListFindingKind
Audit = Callable[..., Awaitable[AuditProgress]]
PROCESSING, LEASES = "queue:a:processing", "queue:a:leases"


def member(letter: str, item: str = "item") -> str:
    """A lease of an item, told from others by its letter."""
    return letter * 22 + ":" + item


@pytest.fixture
async def reading(redis_url: str) -> AsyncIterator[Callable[..., ListReader]]:
    """Makes readers of the test's server, which are closed afterwards."""
    made: list[ListReader] = []

    def read(*patterns: str, url: str = redis_url) -> ListReader:
        made.append(ListReader(url, ListNames(), patterns))
        return made[-1]

    yield read
    for reader in made:
        await reader.aclose()


@pytest.fixture
def audited(reading: Callable[..., ListReader]) -> Audit:
    """Audit lists, and return the last of what it says, with all findings."""

    async def run(
        *patterns: str, queues: Sequence[str] | None = None, settling_s: float = 0, **options: str
    ) -> AuditProgress:
        findings: list[Finding] = []
        progress = None
        async for progress in audit_lists(reading(*patterns, **options), queues, settling_s=settling_s):
            findings += progress.findings
        assert progress is not None
        assert progress.found == len(findings)
        return AuditProgress(
            None, progress.queues, progress.examined, progress.keys, progress.found, tuple(findings), progress.unseen
        )

    return run


async def test_whoever_keeps_to_the_convention_is_not_told_of(client: Redis, audited: Audit) -> None:
    queue = ListQueue(client, "a")
    queue.push("one", "two", "two", "two", "three")
    for _ in range(4):
        assert queue.take() is not None
    before = everything(client)
    found = await audited("queue:*")

    assert (found.findings, found.unseen, found.queues) == ((), (), 1)
    # Four items, and four leases before and after.
    assert found.examined == 12
    assert everything(client) == before


async def test_items_without_leases(client: Redis, audited: Audit) -> None:
    client.lpush(PROCESSING, "one", "two", "two")
    client.zadd(LEASES, {member("t", "two"): now_ms(client) + 60_000})
    (finding,) = (await audited("queue:*")).findings

    assert (finding.kind, finding.queue, finding.count) == (Kind.UNLEASED, "queue:a", 2)
    assert "`rsmq-tui messages requeue list:queue:a --filter state:unleased`" in str(finding.hint)
    assert item_id("processing", 0, b"one") in finding.ids
    assert (finding.fix, finding.words.severity.value) == (None, "error")
    assert "requeue" in (finding.hint or "")


async def test_leases_without_items(client: Redis, audited: Audit) -> None:
    client.lpush(PROCESSING, "two")
    at_ms = now_ms(client) + 60_000
    client.zadd(LEASES, {member("t", "two"): at_ms, member("u", "two"): at_ms, member("v", "gone"): at_ms})
    (finding,) = (await audited("queue:*")).findings

    assert (finding.kind, finding.count) == (Kind.ORPHAN, 2)
    assert "v" * 22 in finding.ids


async def test_leases_that_ended_long_ago(client: Redis, audited: Audit) -> None:
    client.lpush(PROCESSING, "one", "two")
    at_ms = now_ms(client)
    client.zadd(LEASES, {member("t", "one"): at_ms - 2 * 3_600_000, member("u", "two"): at_ms - 1_000})
    (finding,) = (await audited("queue:*")).findings

    # A lease that has just ended is a reaper's to find, and no finding.
    assert (finding.kind, finding.count, finding.ids) == (Kind.OVERDUE, 1, ("t" * 22,))
    assert finding.what == "lease that ended more than a minute ago: the first 2h 0m ago"


async def test_a_lease_that_ended_long_ago_and_has_no_item_keeps_none_from_consumers(
    client: Redis, audited: Audit
) -> None:
    client.lpush(PROCESSING, "one")
    at_ms = now_ms(client) - 3_600_000
    client.zadd(LEASES, {member("t", "one"): at_ms, member("v", "gone"): at_ms})
    kept, orphaned = (await audited("queue:*")).findings

    assert (kept.kind, kept.ids) == (Kind.OVERDUE, ("t" * 22,))
    assert (orphaned.kind, orphaned.ids) == (Kind.ORPHAN, ("v" * 22,))


async def test_deadlines_of_other_units(client: Redis, audited: Audit) -> None:
    client.lpush(PROCESSING, "s", "m", "i")
    at_ms = now_ms(client)
    client.zadd(LEASES, {member("s", "s"): at_ms // 1000, member("m", "m"): at_ms * 1000, member("i", "i"): "inf"})
    (finding,) = (await audited("queue:*")).findings

    assert (finding.kind, finding.count) == (Kind.UNIT, 3)
    assert finding.detail == "1 in seconds, 1 in microseconds, 1 infinite"


async def test_members_of_another_form(client: Redis, audited: Audit) -> None:
    client.lpush(PROCESSING, "item")
    client.zadd(LEASES, {"item": now_ms(client) + 60_000})
    found = await audited("queue:*")

    assert [(finding.kind, finding.count, finding.ids) for finding in found.findings if finding.kind is Kind.FORM] == [
        (Kind.FORM, 1, ("item",))
    ]
    # Reapers do not know it for that item's lease.
    assert Kind.UNLEASED in {finding.kind for finding in found.findings}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("queue:a", "its key is a string, not a list"),
        (PROCESSING, "its processing key is a string, not a list"),
        (LEASES, "its leases key is a string, not a zset"),
    ],
)
async def test_keys_of_other_types(client: Redis, audited: Audit, key: str, words: str) -> None:
    client.lpush("queue:a", "x")
    client.lpush(PROCESSING, "item")
    client.zadd(LEASES, {member("t"): now_ms(client) + 60_000})
    client.set(key, "something else")
    found = await audited("queue:a")

    assert [(finding.kind, finding.detail) for finding in found.findings] == [(Kind.TYPE, words)]
    # What cannot be compared is said not to have been.
    assert len(found.unseen) == 1


async def test_queues_that_are_worked_on_and_not_watched(client: Redis, audited: Audit) -> None:
    client.lpush("queue:a", "x")
    client.lpush("mail:processing", "x", "y")
    found = await audited("queue:*")

    assert [(finding.kind, finding.queue, finding.detail) for finding in found.findings] == [
        (Kind.UNWATCHED, "mail", "it holds 2 items")
    ]
    assert found.queues == 2
    assert (await audited("queue:*", queues=["queue:a"])).findings == ()
    assert {finding.kind for finding in (await audited("mail")).findings} == {Kind.UNLEASED}


async def test_a_queue_that_was_empty_when_it_was_searched_for_is_watched(
    client: Redis, reading: Callable[..., ListReader]
) -> None:
    client.lpush("queue:a", "x")
    steps = [step async for step in _with_an_item_in("queue:late:processing", client, reading("queue:*"))]

    assert [(f.kind, f.queue) for step in steps for f in step.findings] == [(Kind.UNLEASED, "queue:late")]
    assert steps[-1].queues == 2


async def _with_an_item_in(key: str, client: Redis, reader: ListReader) -> AsyncIterator[AuditProgress]:
    """Audit, and put an item into a list after the first step."""
    async for step in audit_lists(reader, settling_s=0):
        client.lpush(key, "item")
        client.ltrim(key, 0, 0)
        yield step


async def test_what_consumers_are_about_to_finish_is_no_finding(client: Redis, redis_url: str, audited: Audit) -> None:
    """Consumers take, wait a moment between the move and the lease, and acknowledge, all the time."""
    stop, numbers = asyncio.Event(), count()

    async def work() -> None:
        async with AsyncRedis.from_url(redis_url) as connected:
            queue = AsyncListQueue(connected, "a")
            while not stop.is_set():
                await queue.push(*(f"item {next(numbers)}" for _ in range(20)))
                while (lease := await queue.take_blocking(0.001)) is not None:
                    await queue.ack(lease)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    try:
        found = [await audited("queue:*", settling_s=0.05) for _ in range(5)]
    finally:
        stop.set()
        await asyncio.gather(*workers)

    assert [progress.findings for progress in found] == [()] * 5


async def test_who_may_not_look_is_told_what_was_not_seen(client: Redis, redis_url: str, audited: Audit) -> None:
    client.lpush("queue:a", "x")
    client.acl_setuser("half", enabled=True, passwords=["+x"], keys=["queue:a"], commands=["+@all"], reset_keys=True)
    found = await audited("queue:a", url=redis_url.replace("redis://", "redis://half:x@"))

    assert found.findings == ()
    assert any("queue queue:a: it was not checked: " in sentence for sentence in found.unseen)


async def test_what_may_not_be_counted_is_there_all_the_same(client: Redis, redis_url: str, audited: Audit) -> None:
    client.lpush("queue:a", "x")
    client.lpush("mail:processing", "x")
    client.acl_setuser("some", enabled=True, passwords=["+x"], keys=["queue:*"], commands=["+@all"], reset_keys=True)
    found = await audited("queue:*", url=redis_url.replace("redis://", "redis://some:x@"))

    assert [(finding.kind, finding.queue, finding.detail) for finding in found.findings] == [
        (Kind.UNWATCHED, "mail", "")
    ]
    assert len(found.unseen) == 1


async def test_a_server_that_is_not_there(audited: Audit) -> None:
    with pytest.raises(PeekError, match="refused"):
        await audited("queue:a", url="redis://127.0.0.1:1")


async def test_lists_that_are_not_there(client: Redis, reading: Callable[..., ListReader]) -> None:
    client.lpush("queue:a", "x")
    client.set("orders", "no list")
    client.lpush("other:processing", "x")

    reader = reading("queue:*", "named")
    assert await missing_lists(reader, ["queue:a", "named", "orders", "other", "nowhere"]) == ["orders", "nowhere"]
