"""List queues of a real server: what a snapshot says of them, and how those are found that nobody named."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import Drain, QueueState, Snapshot, Thresholds, Verdict, list_poller
from rsmq_tui.monitor.audit.rsmq import AuditProgress
from rsmq_tui.monitor.filters.json_paths import AGE_BYTES, age_path
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import Namespaces
from rsmq_tui.protocol.lists import reader as list_reader
from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from tests.monitor.fresh import NOT_OF_LISTS, NOTHING_KNOWN
from tests.monitor.timing import FakeClock
from tests.protocol.keyspace import everything, now_ms

Polling = Callable[..., ListPoller]


@pytest.fixture
async def polling(redis_url: str) -> AsyncIterator[Polling]:
    """Makes pollers on the test's server, which are closed afterwards."""
    made: list[ListPoller] = []

    def poll(*patterns: str, url: str = redis_url, age: str | None = None, **options: Any) -> ListPoller:
        shown_bytes = AGE_BYTES if age else 0
        reader = ListReader(url, ListNames(), patterns, shown_bytes=shown_bytes)
        made.append(ListPoller(reader, age=age_path(age) if age else None, **options))
        return made[-1]

    yield poll
    for poller in made:
        await poller.aclose()


def names_of(snapshot: Snapshot) -> list[str]:
    assert snapshot.connection.failure is None
    return [queue.name for queue in snapshot.queues]


async def until(poller: ListPoller, wanted: Callable[[Snapshot], bool]) -> Snapshot:
    """Poll until a snapshot is as wanted."""
    for _ in range(2000):
        if wanted(snapshot := await poller.poll()):
            return snapshot
        await asyncio.sleep(0.005)
    raise AssertionError("no snapshot is as wanted")


async def test_equal_items_are_taken_if_the_list_changes_and_keeps_its_length(
    client: redis.Redis, polling: Polling
) -> None:
    client.rpush("queue:taken", *["same"] * 5)
    client.rpush("queue:left", *["same"] * 5)
    poller = polling("queue:*", thresholds=Thresholds(stalled_ms=1))
    await poller.poll()
    before_ms = now_ms(client)
    while now_ms(client) <= before_ms + 5:
        pass
    client.rpush("queue:taken", "same")
    client.lpop("queue:taken")
    left, taken = (await poller.poll()).queues

    assert (left.name, left.verdict) == ("queue:left", Verdict.STALLED)
    assert (taken.ready, taken.verdict) == (5, Verdict.OK)
    assert (left.idle_since_ms or 0) <= before_ms < (taken.idle_since_ms or 0)
    again = {queue.name: queue.idle_since_ms for queue in (await poller.poll()).queues}
    assert again == {"queue:left": left.idle_since_ms, "queue:taken": taken.idle_since_ms}


async def test_a_queue(client: redis.Redis, polling: Polling) -> None:
    at_ms = now_ms(client)
    client.lpush("queue:a", f'{{"at": {at_ms - 5000}}}', "next but one")
    client.lpush("queue:a:processing", "x", "y")
    client.zadd("queue:a:leases", {"t:x": at_ms - 10, "t:y": at_ms + 600_000})
    snapshot = await polling("queue:*", age="at", place="here").poll()
    (queue,) = snapshot.queues

    assert queue == QueueState(
        name="queue:a",
        kind="list",
        depth=4,
        ready=2,
        hidden=2,
        oldest_ready_ms=at_ms - 5000,
        **NOT_OF_LISTS,
        **NOTHING_KNOWN,
        verdict=Verdict.WATCHING,
        since_ms=snapshot.at_ms,
        drain=Drain.UNKNOWN,
        place="here",
        expired=1,
        net_s=None,
        oldest_ready_due_ms=at_ms - 5000,
        pending_since_ms=snapshot.at_ms,
        pending_until_ms=snapshot.at_ms + 60_000,
        idle_since_ms=snapshot.at_ms,
        is_idle_longer=True,
    )


async def test_the_snapshot_around_it(client: redis.Redis, redis_url: str, polling: Polling, clock: FakeClock) -> None:
    client.lpush("queue:b", "x")
    clock.step_s = 0.25
    snapshot = await polling("queue:*", "queue:a", interval_s=2.0, place="lists", clock=clock).poll()

    assert names_of(snapshot) == ["queue:a", "queue:b"]
    assert (snapshot.server, snapshot.ns, snapshot.place, snapshot.interval_s) == (redis_url, LISTS_NS, "lists", 2.0)
    assert (snapshot.paused, snapshot.notes, snapshot.namespaces) == (False, (), None)
    assert (snapshot.cost.round_trip_ms, snapshot.cost.poll_ms) == (250, 500)
    assert (snapshot.totals.verdicts[Verdict.WATCHING], snapshot.totals.verdicts[Verdict.OK]) == (1, 1)


async def test_no_list_at_all_is_an_empty_snapshot(polling: Polling) -> None:
    assert (await polling("queue:*").poll()).is_empty


async def test_the_next_poll_knows_how_the_depth_changed(client: redis.Redis, polling: Polling) -> None:
    poller = polling("queue:a")
    before = await poller.poll()
    client.lpush("queue:a", *"abcdefghij")
    after = await until(poller, lambda snapshot: snapshot.at_ms > before.at_ms)

    assert after.queues[0].net_s == pytest.approx(10_000 / (after.at_ms - before.at_ms))
    assert (after.totals.arrivals_s, after.totals.deletes_s) == (None, None)


async def test_looking_changes_nothing(client: redis.Redis, polling: Polling) -> None:
    client.lpush("queue:a", "x")
    client.lpush("queue:b:processing", b"\xff")
    client.set("queue:string", "x")
    before = everything(client)
    poller = polling("queue:*", "queue:string")
    for _ in range(3):
        await poller.poll()

    assert everything(client) == before


async def test_hostile_names_stay_themselves(client: redis.Redis, polling: Polling) -> None:
    names = [b"queue:\xff\xfe", b"queue:\x1b[2J", "queue:日本\u202e".encode(), b"queue:a\nb\0"]
    for name in names:
        client.lpush(name, "x")
    snapshot = await polling("queue:*").poll()

    assert sorted(queue.name.encode("utf-8", "surrogateescape") for queue in snapshot.queues) == sorted(names)


class TestSearching:
    async def test_is_no_part_of_a_poll(self, client: redis.Redis, polling: Polling) -> None:
        client.lpush("queue:a", "x")
        poller = polling("queue:*")
        await poller.poll()
        client.config_resetstat()
        for _ in range(5):
            await poller.poll()

        assert "cmdstat_scan" not in client.info("commandstats")

    async def test_is_not_done_where_all_are_named(self, client: redis.Redis, polling: Polling) -> None:
        assert names_of(await polling("queue:a").poll()) == ["queue:a"]
        assert "cmdstat_scan" not in client.info("commandstats")

    async def test_finds_new_ones_at_its_own_pace(self, client: redis.Redis, polling: Polling) -> None:
        poller = polling("queue:*", search_every_s=0.01)
        assert names_of(await poller.poll()) == []
        client.lpush("queue:new", "x")

        assert names_of(await until(poller, lambda snapshot: bool(snapshot.queues))) == ["queue:new"]

    async def test_finds_new_ones_when_it_is_woken(
        self, client: redis.Redis, polling: Polling, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(list_poller, "_SEARCH_AGAIN_S", 0.0)
        poller = polling("queue:*", search_every_s=1e6)
        await poller.poll()
        client.lpush("queue:new", "x")
        poller.wake()

        assert names_of(await until(poller, lambda snapshot: bool(snapshot.queues))) == ["queue:new"]

    async def test_on_demand_is_known_to_the_next_poll(self, client: redis.Redis, polling: Polling) -> None:
        poller = polling("queue:*", search_every_s=1e6)
        assert await poller.discover()
        await poller.poll()
        client.lpush("queue:new", "x")
        assert await poller.discover()

        assert names_of(await poller.poll()) == ["queue:new"]

    async def test_rests_while_paused(self, client: redis.Redis, polling: Polling) -> None:
        poller = polling("queue:*", search_every_s=0.001)
        await poller.poll()
        poller.set_paused(True)
        await asyncio.sleep(0)
        client.config_resetstat()
        # A search that had begun may end; no other one begins.
        for _ in range(20):
            await asyncio.sleep(0.001)
        calls = client.info("commandstats").get("cmdstat_scan", {"calls": 0})["calls"]

        assert calls <= 1

    async def test_that_takes_long_does_not_hold_up_the_first_poll(
        self, client: redis.Redis, polling: Polling, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.mset({f"key:{number}": "x" for number in range(5000)})
        client.lpush("queue:a", "x")
        monkeypatch.setattr(list_reader, "SCAN_COUNT", 10)
        monkeypatch.setattr(list_poller, "SEARCH_PAUSE_S", 1e6)
        monkeypatch.setattr(list_poller, "FIRST_SEARCH_S", 0.0)
        snapshot = await polling("queue:*", "named").poll()

        assert "named" in names_of(snapshot)
        assert snapshot.notes[0].startswith("still searching for lists, ")

    async def test_that_takes_long_is_awaited_by_those_who_record(
        self, client: redis.Redis, polling: Polling, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.mset({f"key:{number}": "x" for number in range(500)})
        client.lpush("queue:a", "x")
        monkeypatch.setattr(list_reader, "SCAN_COUNT", 10)
        monkeypatch.setattr(list_poller, "FIRST_SEARCH_S", 0.0)
        poller = polling("queue:*", "named")
        poller.waits_for_search = True

        assert names_of(await poller.poll()) == ["named", "queue:a"]

    async def test_that_is_not_allowed_is_a_note(self, client: redis.Redis, redis_url: str, polling: Polling) -> None:
        client.acl_setuser("narrow", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-scan"])
        poller = polling("queue:*", "mail", url=redis_url.replace("redis://", "redis://narrow:x@"))
        snapshot = await poller.poll()

        assert names_of(snapshot) == ["mail"]
        (note,) = snapshot.notes
        assert "only lists given by name are shown" in note


async def test_scripts_that_are_refused_are_a_note(client: redis.Redis, redis_url: str, polling: Polling) -> None:
    client.lpush("queue:a", "x")
    client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])
    snapshot = await polling("queue:*", url=redis_url.replace("redis://", "redis://plain:x@")).poll()

    assert [(queue.name, queue.ready) for queue in snapshot.queues] == [("queue:a", 1)]
    (note,) = snapshot.notes
    assert note.startswith("scripts refused, reading by pipeline: ")


class TestAServerThatIsGone:
    async def test_is_a_failed_link_with_the_last_queues(self, polling: Polling) -> None:
        with EmbeddedServer() as server:
            with redis.Redis.from_url(server.url) as client:
                client.lpush("queue:a", "x")
            poller = polling("queue:*", url=server.url)
            assert names_of(await poller.poll()) == ["queue:a"]
        snapshot = await poller.poll()

        assert snapshot.connection.failure is not None
        assert snapshot.connection.retry_at_s is not None
        assert [queue.name for queue in snapshot.queues] == ["queue:a"]

    async def test_from_the_start_is_a_failed_link_and_no_error(self, polling: Polling) -> None:
        snapshot = await polling("queue:*", url="redis://127.0.0.1:1").poll()

        assert snapshot.connection.failure is not None
        assert snapshot.queues == ()


class TestTheLoop:
    async def test_polls_when_it_is_woken_and_stops_while_paused(self, client: redis.Redis, polling: Polling) -> None:
        poller = polling("queue:a", interval_s=1e9)
        async with aclosing(poller.snapshots()) as stream:
            assert (await anext(stream)).queues[0].ready == 0
            client.lpush("queue:a", "x")
            poller.wake()
            assert (await anext(stream)).queues[0].ready == 1
            poller.set_paused(True)
            assert (await anext(stream)).paused

    async def test_asks_nothing_of_namespaces_and_audits(self, polling: Polling) -> None:
        poller = polling("queue:a", "queue:b")
        before = await poller.poll()
        poller.switch("other")

        assert names_of(await poller.poll()) == names_of(before)
        assert await poller.namespaces() == Namespaces((), complete=True)
        assert [step async for step in poller.audit(None)][-1] == AuditProgress(None, 2, 0, 0, 0)

    async def test_ends_its_search_when_it_is_closed(self, polling: Polling) -> None:
        poller = polling("queue:*")
        await poller.poll()
        await poller.aclose()

        assert len(asyncio.all_tasks()) == 1
