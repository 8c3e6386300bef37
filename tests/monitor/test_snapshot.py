"""One poll of a real server: what the snapshot says, and what it cost."""

from contextlib import aclosing

import pytest
import redis

from rsmq_tui.monitor import Drain, QueueState, RsmqPoller, Snapshot, Thresholds, Verdict
from rsmq_tui.monitor.poller import INFO_AGAIN_S, INFO_EVERY_S
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.monitor.fresh import NOTHING_KNOWN
from tests.monitor.timing import FakeClock
from tests.protocol.keyspace import now_ms, plant


def until_time_passes(client: redis.Redis) -> None:
    """Return once the server's clock has moved by a millisecond."""
    before_ms = now_ms(client)
    while now_ms(client) == before_ms:
        pass


async def test_a_queue(client: redis.Redis, poller: RsmqPoller) -> None:
    queues = Rsmq(client)
    queues.create_queue("q", vt=5, delay=6, maxsize=-1)
    created_s = int(client.hget("rsmq:q:Q", "created") or 0)
    first = queues.send_message("q", "first", delay=0)
    queues.send_message("q", "received", delay=0)
    queues.send_message("q", "delayed", delay=60)
    # The first message is received later than the second: it is the one that stays ready.
    client.zincrby("rsmq:q", -1000, first)
    snapshot = await poller.poll()
    (queue,) = snapshot.queues

    assert queue == QueueState(
        name="q",
        kind="rsmq",
        depth=3,
        ready=2,
        hidden=1,
        oldest_ready_ms=queue.oldest_ready_ms,
        vt_s=5,
        delay_s=6,
        maxsize=-1,
        created_ms=created_s * 1000,
        modified_ms=created_s * 1000,
        totalsent=3,
        totalrecv=0,
        **NOTHING_KNOWN,
        verdict=Verdict.OK,
        since_ms=None,
        drain=Drain.UNKNOWN,
        oldest_ready_due_ms=(queue.oldest_ready_ms or 0) - 1000,
        # It cannot have been idle for longer than it exists.
        idle_since_ms=max((queue.oldest_ready_ms or 0) - 1000, created_s * 1000),
    )
    assert queue.oldest_ready_ms is not None
    assert snapshot.at_ms - 60_000 < queue.oldest_ready_ms <= snapshot.at_ms
    assert snapshot.totals.oldest == "q"


async def test_the_snapshot_around_it(
    client: redis.Redis, redis_url: str, poller: RsmqPoller, clock: FakeClock
) -> None:
    for name in ("b", "a"):
        Rsmq(client).create_queue(name)
    before_ms = now_ms(client)
    snapshot = await poller.poll()

    assert before_ms <= snapshot.at_ms <= now_ms(client)
    assert (snapshot.server, snapshot.ns) == (redis_url, "rsmq")
    assert [queue.name for queue in snapshot.queues] == ["a", "b"]
    assert (snapshot.connection.failure, snapshot.connection.fresh_at_s, snapshot.connection.retry_at_s) == (
        None,
        clock.now_s,
        None,
    )
    assert (snapshot.paused, snapshot.interval_s, snapshot.notes, snapshot.namespaces) == (False, 1.0, (), None)
    assert not snapshot.is_empty
    assert snapshot.totals.verdicts[Verdict.OK] == 2


async def test_each_snapshot_is_news(client: redis.Redis, poller: RsmqPoller) -> None:
    Rsmq(client).create_queue("q")
    first, second = await poller.poll(), await poller.poll()

    assert first != second
    assert first.queues[0] == second.queues[0]._replace(arrivals_s=None, deletes_s=None, receives_s=None)


async def test_the_second_poll_knows_rates(client: redis.Redis, poller: RsmqPoller) -> None:
    queues = Rsmq(client)
    queues.create_queue("q")
    await poller.poll()
    queues.send_messages("q", ["x"] * 50)
    queues.pop_message("q")
    until_time_passes(client)
    snapshot = await poller.poll()
    (queue,) = snapshot.queues

    assert queue.arrivals_s is not None
    assert queue.deletes_s == pytest.approx(queue.arrivals_s / 50)
    assert queue.receives_s == pytest.approx(queue.arrivals_s / 50)
    assert snapshot.totals.arrivals_s == queue.arrivals_s


class TestAnEmptyNamespace:
    async def test_says_what_else_there_is(self, client: redis.Redis, poller: RsmqPoller) -> None:
        Rsmq(client, "other").create_queue("q")
        snapshot = await poller.poll()

        assert snapshot.is_empty
        assert snapshot.namespaces == ("other",)

    async def test_is_searched_for_others_once_only(self, client: redis.Redis, poller: RsmqPoller) -> None:
        for _ in range(3):
            assert (await poller.poll()).namespaces == ()

        # For namespaces, and for lists.
        assert client.info("commandstats")["cmdstat_scan"]["calls"] == 2

    async def test_is_searched_again_when_it_was_filled_and_emptied(
        self, client: redis.Redis, poller: RsmqPoller
    ) -> None:
        assert (await poller.poll()).namespaces == ()
        Rsmq(client).create_queue("q")
        assert (await poller.poll()).namespaces is None
        Rsmq(client).delete_queue("q")
        Rsmq(client, "new").create_queue("q")

        assert (await poller.poll()).namespaces == ("new",)

    async def test_is_not_known_to_be_empty_before_the_first_answer(self) -> None:
        assert not Snapshot(0, "server", "rsmq").is_empty


async def test_an_index_of_another_type_is_a_note(client: redis.Redis, poller: RsmqPoller) -> None:
    Rsmq(client).create_queue("q")
    await poller.poll()
    client.delete("rsmq:QUEUES")
    client.rpush("rsmq:QUEUES", "x")
    snapshot = await poller.poll()

    assert snapshot.queues == ()
    assert snapshot.connection.failure is None
    (note,) = snapshot.notes
    assert note.startswith("rsmq:QUEUES is not a set of names: WRONGTYPE")


class TestPoison:
    async def test_is_told_by_the_poll_after_the_look(self, client: redis.Redis, poller: RsmqPoller) -> None:
        Rsmq(client).create_queue("q")
        for number, rc in enumerate((1, 5, 9)):
            plant(client, "q", f"{number:032d}", due_ms=now_ms(client), rc=rc, body="x")
        await poller.poll()
        (queue,) = (await poller.poll()).queues

        assert (queue.verdict, queue.poison, queue.highest_rc) == (Verdict.POISONED, 2, 9)

    async def test_counts_from_the_threshold_on(self, client: redis.Redis, reader: RsmqReader) -> None:
        Rsmq(client).create_queue("q")
        plant(client, "q", "x" * 32, due_ms=now_ms(client), rc=2, body="x")
        poller = RsmqPoller(reader, thresholds=Thresholds(poison_rc=2))
        await poller.poll()

        assert (await poller.poll()).queues[0].verdict is Verdict.POISONED

    async def test_is_found_in_any_of_many_queues_in_turn(self, client: redis.Redis, poller: RsmqPoller) -> None:
        for number in range(100):
            Rsmq(client).create_queue(f"q{number:02d}")
            plant(client, f"q{number:02d}", "x" * 32, due_ms=now_ms(client), rc=7, body="x")
        client.config_resetstat()
        counts = [(await poller.poll()).totals.verdicts[Verdict.POISONED] for _ in range(7)]

        assert counts == [0, 20, 40, 60, 80, 100, 100]
        assert client.info("commandstats")["cmdstat_evalsha"]["calls"] <= 3 * 7


class TestCost:
    async def test_is_what_the_poll_took(self, client: redis.Redis, poller: RsmqPoller, clock: FakeClock) -> None:
        Rsmq(client).create_queue("q")
        clock.step_s = 0.25
        cost = (await poller.poll()).cost

        assert (cost.round_trip_ms, cost.poll_ms) == (250, 500)

    async def test_is_what_went_over_the_wire_for_this_poll(
        self, client: redis.Redis, reader: RsmqReader, poller: RsmqPoller
    ) -> None:
        Rsmq(client).create_queue("q")
        # INFO is read with the second poll.
        await poller.poll()
        await poller.poll()
        before = reader.traffic.bytes_sent + reader.traffic.bytes_received
        cost = (await poller.poll()).cost

        assert cost.bytes == reader.traffic.bytes_sent + reader.traffic.bytes_received - before
        assert 100 < cost.bytes < 1000
        # TIME, SMEMBERS, one chunk of queues, one look at receive counts.
        assert cost.commands == 4


async def test_scripts_that_are_refused_are_a_note(client: redis.Redis, redis_url: str) -> None:
    Rsmq(client).create_queue("q")
    client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])
    async with aclosing(RsmqReader(redis_url.replace("redis://", "redis://plain:x@"))) as reader:
        snapshot = await RsmqPoller(reader).poll()

    assert [queue.name for queue in snapshot.queues] == ["q"]
    (note,) = snapshot.notes
    assert note.startswith("scripts refused, reading by pipeline: ")
    assert note.endswith("no permissions to run the 'evalsha' command")


class TestServer:
    async def test_is_asked_from_the_second_poll_on_and_every_ten_seconds(
        self, client: redis.Redis, poller: RsmqPoller, clock: FakeClock
    ) -> None:
        assert (await poller.poll()).info is None
        info = (await poller.poll()).info
        assert info is not None
        assert (info.run_id, info.role) == (client.info()["run_id"], "master")
        assert abs(info.used_memory - client.info()["used_memory"]) < 10_000_000
        clock.now_s += INFO_EVERY_S - 0.1
        assert (await poller.poll()).info is info
        clock.now_s += 0.1
        assert (await poller.poll()).info is not info

    async def test_that_refuses_is_asked_again_after_an_hour(
        self, client: redis.Redis, redis_url: str, clock: FakeClock
    ) -> None:
        client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-info"])
        client.acl_log_reset()
        async with aclosing(RsmqReader(redis_url.replace("redis://", "redis://plain:x@"))) as reader:
            poller = RsmqPoller(reader, clock=clock)
            for _ in range(40):
                snapshot = await poller.poll()
                assert (snapshot.connection.failure, snapshot.info, snapshot.memory_limit) == (None, None, None)
                clock.now_s += INFO_AGAIN_S / 50
            # One reading of four sections.
            assert [entry["count"] for entry in client.acl_log()] == [4]
            clock.now_s += INFO_AGAIN_S
            await poller.poll()
        assert sum(entry["count"] for entry in client.acl_log()) == 8
