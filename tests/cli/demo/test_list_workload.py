"""The workload of list queues in this process, with scenarios small enough to come to the point."""

import asyncio
import json
import os
import signal
from dataclasses import replace
from itertools import pairwise

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer, workload
from rsmq_tui.cli.demo import scenarios as embedded_scenarios
from rsmq_tui.cli.demo.scenarios import Abandoned, Backlog, Bounds, Hands, ListScenario, VariedRate
from rsmq_tui.cli.demo.workload import run_workload
from rsmq_tui.protocol import AsyncListQueue, Lease, ListQueue, Reaped
from tests.cli.demo.running import highest_of_two_swings, waiting_long, working
from tests.protocol.keyspace import now_ms
from tests.waiting import SECONDS_MAX, until

QUEUE, PROCESSING, LEASES = "queue:jobs", "queue:jobs:processing", "queue:jobs:leases"
# Never done with anything, and dead before long.
DYING = Hands(5, work_s=(600.0, 600.0), lease_ms=20, dies_after_s=(0.05, 0.1), down_s=0.0)
QUICK = Hands(4, work_s=(0.0, 0.01), lease_ms=60_000)

STILL = ListScenario(QUEUE, embedded_scenarios.thumbnail_body, VariedRate(0.0), None, backlog=Backlog(40, 60.0))
# Less comes than the workers take, however slow the machine is.
BUSY = replace(STILL, arrivals=VariedRate(25.0), worker=QUICK, backlog=Backlog(300, 60.0))
OTHER = replace(STILL, queue="queue:other", arrivals=VariedRate(50.0), backlog=Backlog(7, 60.0))


def ready(client: redis.Redis) -> list[bytes]:
    """What is ready, what is taken next first."""
    return client.lrange(QUEUE, 0, -1)[::-1]


def processed(client: redis.Redis) -> list[bytes]:
    return client.lrange(PROCESSING, 0, -1)[::-1]


def expired(client: redis.Redis) -> int:
    return client.zcount(LEASES, "-inf", now_ms(client))


def everything(client: redis.Redis) -> list[bytes]:
    """What is ready and what is in processing, as of one moment."""
    with client.pipeline() as pipeline:
        one, other = pipeline.lrange(QUEUE, 0, -1).lrange(PROCESSING, 0, -1).execute()
    return sorted(one + other)


def bodies(items: list[bytes]) -> list[dict[str, object]]:
    """What items say besides when they were made."""
    return [{name: value for name, value in json.loads(item).items() if name != "created"} for item in items]


@pytest.fixture
def acknowledged(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What workers said that they were done with."""
    noted: list[bytes] = []
    ack = AsyncListQueue.ack

    async def noting(queue: AsyncListQueue, lease: Lease) -> bool:
        # One that dies now does not hear that it was acknowledged.
        noted.append(lease.item)
        return await ack(queue, lease)

    monkeypatch.setattr(AsyncListQueue, "ack", noting)
    return noted


@pytest.fixture
def returned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items each reap brought back."""
    noted: list[int] = []
    reap = AsyncListQueue.reap

    async def noting(queue: AsyncListQueue, *, grace_ms: int) -> Reaped:
        reaped = await reap(queue, grace_ms=grace_ms)
        noted.append(reaped.returned)
        return reaped

    monkeypatch.setattr(AsyncListQueue, "reap", noting)
    return noted


async def test_pushes_takes_and_acknowledges(redis_url: str, client: redis.Redis, acknowledged: list[bytes]) -> None:
    async with working(redis_url, BUSY):
        await until(lambda: len(set(acknowledged)) > 310)
        await until(lambda: client.llen(QUEUE) < 20)
        assert client.llen(PROCESSING) <= QUICK.count
        assert client.zcard(LEASES) <= QUICK.count


async def test_without_leases_what_is_taken_is_gone(redis_url: str, client: redis.Redis) -> None:
    async with working(redis_url, replace(STILL, worker=Hands(2, work_s=(0.0, 0.0)))):
        await until(lambda: not client.exists(QUEUE))
        assert not client.exists(PROCESSING, LEASES)


async def test_whoever_has_nothing_to_do_waits_on_the_server(redis_url: str, client: redis.Redis) -> None:
    async with working(redis_url, replace(STILL, worker=QUICK)):
        await until(lambda: client.info("clients")["blocked_clients"] == QUICK.count)


async def test_what_a_dead_worker_held_stays_until_a_reaper_brings_it_back(
    redis_url: str, client: redis.Redis, acknowledged: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "_GRACE_MS", 20)
    async with working(redis_url, replace(STILL, worker=DYING)):
        await until(lambda: client.llen(PROCESSING) == 40)
        # All but those that a worker held that died between taking and leasing.
        await until(lambda: expired(client) == client.zcard(LEASES) >= 20)
        assert not client.exists(QUEUE)
    held = processed(client)
    assert acknowledged == []
    async with working(redis_url, replace(STILL, worker=QUICK)):
        # A worker that lives touches none of it.
        await until(lambda: client.info("clients")["blocked_clients"] == QUICK.count)
        assert processed(client) == held
    async with working(redis_url, replace(STILL, worker=QUICK, reap_every_s=0.05)):
        await until(lambda: not client.exists(QUEUE, PROCESSING, LEASES))
    assert set(acknowledged) == set(held)


async def test_nothing_is_lost_while_workers_die_and_a_reaper_brings_back(
    redis_url: str, client: redis.Redis, returned: list[int]
) -> None:
    async with working(redis_url, STILL):
        items = sorted(ready(client))
    assert len(set(items)) == 40
    async with working(redis_url, replace(STILL, worker=DYING, reap_every_s=0.05)):
        await until(lambda: everything(client) != items or sum(returned) > 60)
        assert everything(client) == items


async def test_all_is_done_at_last_although_workers_die(
    redis_url: str, client: redis.Redis, acknowledged: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "_GRACE_MS", 20)
    worker = Hands(5, work_s=(0.0, 0.1), lease_ms=200, dies_after_s=(0.05, 0.15), down_s=0.0)
    async with working(redis_url, STILL):
        items = ready(client)
    async with working(redis_url, replace(STILL, worker=worker, reap_every_s=0.05)):
        await until(lambda: not client.exists(QUEUE, PROCESSING, LEASES))
    assert set(acknowledged) == set(items)


async def test_what_was_abandoned_lies_in_processing_and_stays(redis_url: str, client: redis.Redis) -> None:
    scenario = replace(STILL, abandoned=Abandoned(leased=9, unleased=3, ended_s=600.0))
    async with working(redis_url, scenario, OTHER):
        await until(lambda: client.llen("queue:other") > 10)
    held = processed(client)
    leased = {member.partition(b":")[2]: int(score) for member, score in client.zrange(LEASES, 0, -1, withscores=True)}
    assert len(held) == 12
    assert len(set(held) - set(leased)) == 3
    assert leased.keys() <= set(held)
    assert all(len(member) > 22 and member[22:23] == b":" for member in client.zrange(LEASES, 0, -1))
    assert all(600_000 <= now_ms(client) - deadline_ms < 640_000 for deadline_ms in leased.values())
    # The oldest is where it was taken first, and what is ready is newer.
    times = [json.loads(item)["created"] for item in held]
    assert times == sorted(times)
    assert len(ready(client)) == 40


async def test_what_was_abandoned_is_what_the_core_can_reap(redis_url: str, client: redis.Redis) -> None:
    scenario = replace(STILL, abandoned=Abandoned(leased=9, unleased=3, ended_s=600.0))
    async with working(redis_url, scenario):
        pass
    queue = ListQueue(client, QUEUE.encode())
    assert queue.reap(grace_ms=0) == Reaped(returned=9, adopted=3)
    assert queue.reap() == Reaped(returned=3)
    assert client.llen(QUEUE) == 52


async def test_a_backlog_is_taken_oldest_first(redis_url: str, client: redis.Redis) -> None:
    # More than one call pushes.
    async with working(redis_url, replace(STILL, backlog=Backlog(1_200, 600.0))):
        times = [json.loads(item)["created"] for item in ready(client)]
    assert len(times) == 1_200
    assert all(one <= other for one, other in pairwise(times))


async def test_a_depth_stays_within_its_bounds(
    monkeypatch: pytest.MonkeyPatch, redis_url: str, client: redis.Redis
) -> None:
    monkeypatch.setattr(embedded_scenarios, "_BOUNDS_CHECK_S", 0.0)
    worker = Hands(4, work_s=(0.02, 0.02))
    bounded = replace(
        STILL,
        arrivals=VariedRate(600.0),
        worker=worker,
        backlog=None,
        bounds=Bounds(low=50, high=200, relief_per_s=1.0),
    )
    async with working(redis_url, bounded):
        highest = await highest_of_two_swings(lambda: client.llen(QUEUE))
    # At most the second that a producer makes up for on a busy machine.
    assert highest < 200 + 600 + 50


async def test_speed_multiplies_the_rates(redis_url: str, client: redis.Redis) -> None:
    async with working(redis_url, replace(STILL, arrivals=VariedRate(1.0), backlog=None), speed=500.0):
        await until(lambda: client.llen(QUEUE) > 100)


async def test_speed_divides_the_times(redis_url: str, client: redis.Redis, returned: list[int]) -> None:
    never_done = Hands(1, work_s=(1e6, 1e6), lease_ms=5, dies_after_s=(100.0, 200.0), down_s=100.0)
    slow = Hands(1, work_s=(10.0, 20.0))
    scenarios = replace(STILL, worker=never_done, reap_every_s=100.0), replace(STILL, queue="queue:slow", worker=slow)
    async with working(redis_url, *scenarios, speed=2_000.0):
        await until(lambda: sum(returned) > 3)
        await until(lambda: not client.exists("queue:slow"))


@pytest.mark.parametrize("seed", [7, 8])
async def test_seeds_reproduce(redis_url: str, client: redis.Redis, seed: int) -> None:
    made = []
    for used in (7, seed):
        client.flushall()
        async with working(redis_url, replace(OTHER, queue=QUEUE, backlog=Backlog(20, 60.0)), seed=used):
            await until(lambda: client.llen(QUEUE) >= 50)
        made.append(bodies(ready(client)[:50]))
    assert (made[0] == made[1]) is (seed == 7)
    assert (made[0][20:] == made[1][20:]) is (seed == 7)


async def test_a_queue_that_exists_gets_no_second_backlog(redis_url: str, client: redis.Redis) -> None:
    scenario = replace(STILL, abandoned=Abandoned(leased=2, unleased=1, ended_s=5.0))
    for _ in range(2):
        async with working(redis_url, scenario):
            assert (client.llen(QUEUE), client.llen(PROCESSING), client.zcard(LEASES)) == (40, 3, 2)


async def test_a_queue_that_was_emptied_gets_new_items_and_no_second_backlog(
    redis_url: str, client: redis.Redis
) -> None:
    scenario = replace(STILL, arrivals=VariedRate(20.0), backlog=Backlog(3_000, 60.0))
    async with working(redis_url, scenario, OTHER):
        before = client.llen("queue:other")
        client.delete(QUEUE)
        await until(lambda: client.llen(QUEUE) > 5)
        await until(lambda: client.llen("queue:other") > before)
        assert client.llen(QUEUE) < 1_000


async def test_a_server_that_lost_everything_gets_everything_again(redis_url: str, client: redis.Redis) -> None:
    scenario = replace(STILL, arrivals=VariedRate(20.0), abandoned=Abandoned(leased=2, unleased=1, ended_s=5.0))
    async with working(redis_url, scenario, OTHER):
        client.flushall()
        await until(lambda: client.llen(QUEUE) > 40 and client.llen("queue:other") > 7)
        assert (client.llen(PROCESSING), client.zcard(LEASES)) == (3, 2)


async def test_a_key_of_another_type_is_waited_out(redis_url: str, client: redis.Redis) -> None:
    client.set(QUEUE, "mine")
    async with working(redis_url, BUSY):
        assert client.get(QUEUE) == b"mine"
        client.delete(QUEUE)
        await until(lambda: client.exists(PROCESSING) == 1)


async def test_goes_on_when_the_server_comes_back_empty(acknowledged: list[bytes]) -> None:
    with EmbeddedServer() as first:
        port = first.port
        stop = asyncio.Event()
        task = asyncio.create_task(run_workload(first.url, stop=stop, scenarios=(BUSY,)))
        await until(lambda: len(acknowledged) > 300)
    acknowledged.clear()
    with EmbeddedServer(port=port):
        await until(lambda: len(acknowledged) > 350)
        stop.set()
        async with asyncio.timeout(SECONDS_MAX):
            await task


async def test_stops_at_once_when_the_server_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = waiting_long(monkeypatch)
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        async with working(server.url, replace(STILL, worker=QUICK, reap_every_s=0.01), OTHER):
            await until(lambda: client.info("clients")["blocked_clients"] == QUICK.count)
            os.kill(server.pid, signal.SIGSTOP)
            # Every hand waits for an item; the reaper and the producer of the other queue are in the middle of a call.
            await until(lambda: waiting() == QUICK.count + 2)
