"""Checking list queues once: every kind of problem on a real server, and what one look or two can prove."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.monitor import Thresholds
from rsmq_tui.monitor.checks import Checked, CheckLimit, LastSeen, Limits, Status, check_lists, reconcile
from rsmq_tui.monitor.filters.json_paths import AGE_BYTES, age_path
from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from tests.protocol.keyspace import now_ms

Check = Callable[..., Awaitable[Checked]]
HOUR_MS = 3_600_000


@pytest.fixture
def checked(redis_url: str, tmp_path: Path) -> Check:
    """Check the lists of the test's server with those limits."""

    async def run(
        *queues: str,
        lists: tuple[str, ...] = ("queue:*",),
        thresholds: Thresholds | None = None,
        age: str | None = None,
        url: str = redis_url,
        **limits: object,
    ) -> Checked:
        reader = ListReader(url, ListNames(), lists, shown_bytes=AGE_BYTES if age else 0)
        try:
            return await check_lists(
                reader,
                lists,
                Limits(queues, **limits),  # type: ignore[arg-type] # any
                thresholds or Thresholds(),
                LastSeen(tmp_path, reader.label, LISTS_NS),
                age_path(age) if age else None,
            )
        finally:
            await reader.aclose()

    return run


def words(found: Checked) -> list[tuple[str, str, str | None]]:
    return [(problem.status.value, problem.kind, problem.queue) for problem in found.problems]


def lease(client: Redis, queue: str, *, overdue_ms: int) -> None:
    """An item in processing whose lease ended so long ago."""
    client.lpush(f"{queue}:processing", "item")
    client.zadd(f"{queue}:leases", {"t" * 22 + ":item": now_ms(client) - overdue_ms})


async def test_nothing_is_wrong(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", "one", "two")
    found = await checked(depth=CheckLimit(2, 2), stalled_ms=CheckLimit(HOUR_MS), expired=CheckLimit(0, 0))

    assert (found.status, words(found), found.ns) == (Status.OK, [], LISTS_NS)
    assert [(queue.name, queue.kind) for queue in found.queues] == [("queue:a", "list")]
    assert found.notes == ["--stalled: this is the first check of lists, with nothing to compare to yet"]


async def test_depth_counts_what_is_in_processing(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", "one", "two")
    client.lpush("queue:a:processing", "three")
    found = await checked(depth=CheckLimit(2, 5))

    assert words(found) == [("warning", "depth", "queue:a")]
    assert found.problems[0].text == "3 items stored, more than 2"


async def test_leases_that_nobody_brings_back_are_a_warning(client: Redis, checked: Check) -> None:
    lease(client, "queue:a", overdue_ms=5 * 60_000)
    found = await checked()

    assert words(found) == [("warning", "expired", "queue:a")]
    assert found.problems[0].text == "1 lease expired and none returned for 5m 0s: no reaper seems to be running"
    assert words(await checked(thresholds=Thresholds(leaking_ms=HOUR_MS))) == []


async def test_leases_count_against_their_limit(client: Redis, checked: Check) -> None:
    lease(client, "queue:a", overdue_ms=1_000)
    assert words(await checked()) == []
    found = await checked(expired=CheckLimit(0, 1))

    assert words(found) == [("warning", "expired", "queue:a")]
    assert (found.problems[0].value, found.problems[0].limit) == (1, 0)
    assert found.problems[0].text == "1 lease expired, more than 0"


async def test_a_broken_queue_is_critical_whatever_the_limits(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", "x")
    client.set("queue:a:leases", "no sorted set")
    for limits in ({}, {"expired": CheckLimit(0, 0), "stalled_ms": CheckLimit(None, 0), "depth": CheckLimit(None, 9)}):
        assert ("critical", "broken", "queue:a") in words(await checked(**limits))


async def test_age_counts_where_items_tell_it(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", json.dumps({"at": now_ms(client) - 2 * HOUR_MS}))
    assert words(await checked(age="at")) == [("warning", "aged", "queue:a")]
    assert words(await checked(age="at", age_ms=CheckLimit(None, HOUR_MS))) == [("critical", "age_ms", "queue:a")]
    found = await checked(age_ms=CheckLimit(None, HOUR_MS))

    # What is not known is no age of 0: it is said.
    assert words(found) == []
    assert found.notes[-1].startswith("--max-age does not apply to 1 list: age unknown")


async def test_receive_counts_are_said_to_be_none(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", "x")
    assert (await checked(rc=CheckLimit(None, 5))).notes == [
        "--max-rc does not apply to lists: their items have no receive counts"
    ]


async def test_the_same_next_item_is_idle_from_the_first_check_on(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", "one", "two")
    limit = CheckLimit(0, HOUR_MS)
    assert (await checked(stalled_ms=limit)).idle_ms == {"queue:a": 0}
    began_ms = now_ms(client)
    client.lpush("queue:a", "three")
    while now_ms(client) <= began_ms + 1:
        pass
    found = await checked(stalled_ms=limit)

    assert found.idle_ms["queue:a"] > 0
    assert words(found) == [("warning", "stalled_ms", "queue:a")]
    assert found.problems[0].text.startswith("3 items ready and none taken for ")
    client.rpop("queue:a")
    assert (await checked(stalled_ms=limit)).idle_ms == {"queue:a": 0}


@pytest.mark.parametrize(("made_ago_ms", "expected_ms"), [(120_000, 120_000), (-HOUR_MS, 600_000)])
async def test_an_item_is_not_ignored_before_it_was_made(
    client: Redis, checked: Check, redis_url: str, tmp_path: Path, made_ago_ms: int, expected_ms: int
) -> None:
    # The time of an item that is ahead of the server's says nothing.
    client.lpush("queue:a", json.dumps({"at": now_ms(client) - made_ago_ms}))
    limits = {"age": "at", "age_ms": CheckLimit(None, HOUR_MS), "stalled_ms": CheckLimit(None, HOUR_MS)}
    await checked(**limits)
    # As if the first check had been ten minutes ago: the lists were made anew with equal items since.
    reader = ListReader(redis_url, ListNames(), ("queue:*",))
    path = LastSeen(tmp_path, reader.label, LISTS_NS).path
    await reader.aclose()
    state = json.loads(path.read_text())
    for seen in state["queues"].values():
        seen[1] -= 600_000
    path.write_text(json.dumps(state))

    idle_ms = (await checked(**limits)).idle_ms["queue:a"]

    assert expected_ms <= idle_ms < expected_ms + 60_000


async def test_of_equal_items_the_counts_tell(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", *["same"] * 5)
    await checked(stalled_ms=CheckLimit(1))
    client.rpop("queue:a")

    assert (await checked(stalled_ms=CheckLimit(HOUR_MS))).idle_ms == {"queue:a": 0}


async def test_a_pattern_without_lists_is_unknown_but_a_named_list_may_be_empty(checked: Check) -> None:
    found = await checked()
    assert words(found) == [("unknown", "missing", None)]
    assert "no list matches queue:*" in found.problems[0].text
    assert words(await checked(lists=("queue:a",))) == []


async def test_only_what_is_asked_for(client: Redis, checked: Check) -> None:
    client.lpush("queue:a", "x", "y")
    client.lpush("queue:b", "x", "y")
    found = await checked("queue:a", "mail", "queue:empty", depth=CheckLimit(None, 1))

    # An empty list that a pattern means is one that could be there.
    assert words(found) == [("critical", "depth", "queue:a"), ("unknown", "missing", "mail")]
    assert [queue.name for queue in found.queues] == ["queue:a"]


async def test_who_may_not_look_for_lists_does_not_hear_that_all_is_well(
    redis_url: str, client: Redis, checked: Check
) -> None:
    client.lpush("queue:a", "x")
    client.acl_setuser("blind", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-scan"])
    found = await checked(url=redis_url.replace("redis://", "redis://blind:x@"), lists=("queue:*", "queue:a"))

    assert words(found) == [("unknown", "unread", None)]
    assert [queue.name for queue in found.queues] == ["queue:a"]


async def test_a_server_that_is_not_there_is_unknown(checked: Check) -> None:
    found = await checked(url="redis://127.0.0.1:1")
    assert (words(found), found.failure) == ([("unknown", "unreachable", None)], "refused")


def test_what_one_place_lacks_another_may_have() -> None:
    def place(*missing: str | None, failure: str | None = None, ns: str = "rsmq") -> Checked:
        checked = Checked("redis://x", ns, failure=failure)
        for queue in missing:
            checked.add(Status.UNKNOWN, "missing", queue, "it is not there")
        if failure:
            checked.add(Status.UNKNOWN, "unreachable", None, failure)
        return checked

    queues, lists = place("a", "b"), place("b", "c", ns=LISTS_NS)
    reconcile([queues, lists])
    assert [words(checked) for checked in (queues, lists)] == [[("unknown", "missing", "b")]] * 2

    for failure, left in (("noperm", 0), ("refused", 1)):
        queues, lists = place(failure=failure), place("b", ns=LISTS_NS)
        reconcile([queues, lists])
        assert (len(queues.problems), len(queues.notes), words(lists)) == (
            left,
            1 - left,
            [("unknown", "missing", "b")],
        )
