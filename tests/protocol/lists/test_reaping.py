"""Reapers: what they give back, adopt, drop and leave alone, one at a time and many at once."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from rsmq_tui.protocol import Lease, ListNames, ListQueue, Reaped
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms
from tests.protocol.lists.conftest import each_once

QUEUE, PROCESSING, LEASES = "queue:orders", "queue:orders:processing", "queue:orders:leases"


@pytest.fixture
def orders(db: redis.Redis) -> ListQueue:
    return ListQueue(db, "orders")


def taken(orders: ListQueue, *items: str | bytes) -> list[Lease]:
    """Push and take items, for long."""
    orders.push(*items)
    leases = [orders.take(1_000_000) for _ in items]
    return [lease for lease in leases if lease is not None]


def expire(db: redis.Redis, *leases: Lease) -> None:
    """Let leases have ended long ago, one after another."""
    db.zadd(LEASES, {lease.member: number for number, lease in enumerate(leases)}, xx=True)


def left(db: redis.Redis) -> tuple[list[bytes], list[bytes], int]:
    """What is ready, what is being processed, and how many leases there are."""
    queue, processing = (ListQueue(db, key.encode()).peek() for key in (QUEUE, PROCESSING))
    return queue, processing, db.zcard(LEASES)


def members(db: redis.Redis) -> dict[bytes, float]:
    """The leases and their deadlines."""
    found: Any = db.zrange(LEASES, 0, -1, withscores=True)
    return dict(found)


@each_once
async def test_what_expired_goes_back_and_the_first_that_did_is_taken_next(queue: Either, db: redis.Redis) -> None:
    await queue.push("a", "b", "c", "d", "e")
    a, b, _, d = [await queue.take() for _ in range(4)]
    db.zadd(LEASES, {b.member: 1, d.member: 2, a.member: 3})
    assert await queue.reap() == Reaped(returned=3)
    assert left(db) == ([b"e", b"a", b"d", b"b"], [b"c"], 1)
    assert await queue.reap() == Reaped()


@each_once
async def test_a_lease_ends_at_its_deadline(queue: Either, db: redis.Redis) -> None:
    await queue.push("a", "b")
    now, later = await queue.take(), await queue.take()
    # The one has ended by when the reaper asks, the other cannot have.
    db.zadd(LEASES, {now.member: now_ms(db), later.member: now_ms(db) + 60_000})
    assert await queue.reap() == Reaped(returned=1)
    assert left(db) == ([b"a"], [b"b"], 1)


@each_once
async def test_what_nobody_leased_gets_a_grace_time_and_then_goes_back(queue: Either, db: redis.Redis) -> None:
    await queue.push("a", "b", "b")
    await queue.take()
    for _ in range(2):
        await queue.move(PROCESSING.encode())
    since_ms = now_ms(db)
    assert await queue.reap(grace_ms=5_000) == Reaped(adopted=2)
    graced = {member: score for member, score in members(db).items() if member[:1] == b"~"}
    assert [member[22:] for member in graced] == [b":b", b":b"]
    assert all(since_ms <= score - 5_000 <= now_ms(db) for score in graced.values())
    # They are leased now, for everybody.
    assert await queue.reap(grace_ms=0) == Reaped()
    db.zadd(LEASES, dict.fromkeys(graced, 0))
    assert await queue.reap() == Reaped(returned=2)
    assert left(db) == ([b"b", b"b"], [b"a"], 1)


def test_consumers_that_only_move_and_remove_are_served_too(orders: ListQueue, db: redis.Redis) -> None:
    # The pattern as the commands alone have it. One job is done, one is at work, the worker of one has died.
    orders.push("done", "at work", "died")
    for _ in range(3):
        orders.move(PROCESSING.encode())
    assert orders.reap() == Reaped(adopted=3)
    processing = ListQueue(db, PROCESSING.encode())
    assert processing.remove("done") == 1
    # As many leases as items, or more, hide nothing that comes anew.
    orders.push("new")
    orders.move(PROCESSING.encode())
    assert orders.reap() == Reaped(adopted=1, dropped=1)
    db.zadd(LEASES, {member: 0 for member in members(db) if member[23:] == b"died"})
    assert orders.reap() == Reaped(returned=1)
    assert left(db) == ([b"died"], [b"new", b"at work"], 2)


def test_a_lease_without_its_item_is_dropped_and_never_another_of_equal_bytes(
    orders: ListQueue, db: redis.Redis
) -> None:
    first, second = taken(orders, "a", "a")
    expire(db, first)
    db.lrem(PROCESSING, 1, "a")
    # One item, two leases: it is left to the one whose time has not ended.
    assert orders.reap() == Reaped(dropped=1)
    assert left(db) == ([], [b"a"], 1)
    assert (orders.ack(first), orders.ack(second)) == (False, True)


@pytest.mark.parametrize("examine", [0, 1_000])
def test_what_a_reaper_leased_and_its_owner_removed_is_not_taken_from_another(
    orders: ListQueue, db: redis.Redis, examine: int
) -> None:
    (lease,) = taken(orders, "a")
    db.zadd(LEASES, {b"~" * 22 + b":a": 1})
    reaped = orders.reap(examine=examine)
    assert (reaped.returned, reaped.dropped) == (0, 1)
    assert orders.ack(lease) is True


def test_a_lease_of_a_reaper_gives_way_to_one_of_a_consumer(orders: ListQueue, db: redis.Redis) -> None:
    (lease,) = taken(orders, "a")
    db.lpush(PROCESSING, "a")
    db.zadd(LEASES, {b"~" * 22 + b":a": 2e12})
    expire(db, lease)
    db.lrem(PROCESSING, 1, "a")
    # Although it ends later.
    assert orders.reap() == Reaped(returned=1, dropped=1)
    assert left(db) == ([b"a"], [], 0)


def test_all_leases_go_when_nothing_is_being_processed(orders: ListQueue, db: redis.Redis) -> None:
    taken(orders, *(b"%d" % number for number in range(50)))
    db.delete(PROCESSING)
    assert orders.reap() == Reaped(dropped=50)
    assert db.keys() == []


def test_what_is_of_another_form_is_left_alone(orders: ListQueue, db: redis.Redis) -> None:
    db.zadd(LEASES, {b"job:17": 1, b"x" * 40: 2, b"": 3})
    before = everything(db)
    assert orders.reap() == Reaped()
    assert orders.reap(examine=0) == Reaped()
    assert everything(db) == before
    expire(db, *taken(orders, "a"))
    assert orders.reap() == Reaped(returned=1)
    assert db.zcard(LEASES) == 3


def test_no_more_is_done_than_asked_for(orders: ListQueue, db: redis.Redis) -> None:
    expire(db, *taken(orders, "a", "b", "c"))
    assert orders.reap(limit=2) == Reaped(returned=2)
    assert db.lrange(QUEUE, 0, -1) == [b"b", b"a"]
    assert orders.reap(limit=2) == Reaped(returned=1)
    for _ in range(3):
        db.lmove(QUEUE, PROCESSING, "RIGHT", "LEFT")
    assert orders.reap(limit=2) == Reaped(adopted=2)
    assert orders.reap(limit=2) == Reaped(adopted=1)
    with pytest.raises(ValueError, match="limit must be at least 1"):
        orders.reap(limit=0)


def test_many_are_seen_to_in_many_calls_and_keep_their_order(orders: ListQueue, db: redis.Redis) -> None:
    count = 5_000
    items = [b"%d" % number for number in range(count)]
    db.rpush(PROCESSING, *reversed(items))
    assert orders.reap() == Reaped(adopted=count)
    leases = {member[23:]: member for member in members(db)}
    db.zadd(LEASES, {leases[item]: number for number, item in enumerate(items)})
    db.config_resetstat()
    assert orders.reap() == Reaped(returned=count)
    assert db.info("commandstats")["cmdstat_evalsha"]["calls"] == 5
    # Each call returns the first that expired of those that are left, before all that are there.
    calls = [reversed(items[start : start + 1_000]) for start in range(0, count, 1_000)]
    assert db.lrange(QUEUE, 0, -1) == [item for call in calls for item in call]
    assert db.keys() == [QUEUE.encode()]


@pytest.mark.parametrize("bounds", [{"examine": 100}, {"examine_bytes": 2_000}])
def test_where_there_is_too_much_to_compare_it_says_so(
    orders: ListQueue, db: redis.Redis, bounds: dict[str, int]
) -> None:
    leases = taken(orders, *(b"%020d" % number for number in range(100)))
    db.lpush(PROCESSING, "unleased")
    expire(db, *leases[:10])
    ListQueue(db, PROCESSING.encode()).remove(leases[3].item)
    # What ended is seen to all the same.
    assert orders.reap(**bounds) == Reaped(returned=9, dropped=1, unexamined=100)
    assert orders.reap(**bounds) == Reaped(unexamined=91)
    assert orders.reap(examine=1_000) == Reaped(adopted=1)
    assert [orders.pop() for _ in range(10)] == [lease.item for lease in (*leases[:3], *leases[4:10])] + [None]


def test_nothing_is_compared_where_all_is_well(orders: ListQueue, db: redis.Redis) -> None:
    taken(orders, *(b"%d" % number for number in range(50)))
    db.config_resetstat()
    assert orders.reap() == Reaped()
    stats = db.info("commandstats")
    assert not {"cmdstat_lrange", "cmdstat_zrange"} & stats.keys()


def test_without_memory_nothing_is_lost(orders: ListQueue, db: redis.Redis) -> None:
    leases = taken(orders, "a", "b", "c", "d")
    orders.push("e")
    expire(db, *leases[:2])
    orders.extend(leases[3], 1_000_000)
    db.config_set("maxmemory", 1)
    try:
        assert orders.nack(leases[2]) is True
        assert orders.ack(leases[0]) is True
        assert orders.reap() == Reaped(returned=1)
        before = everything(db)
        with pytest.raises(redis.ResponseError, match="maxmemory"):
            orders.take()
        assert everything(db) == before
    finally:
        db.config_set("maxmemory", 0)
    assert left(db) == ([b"e", b"c", b"b"], [b"d"], 1)


def test_many_reapers_at_once_do_it_once(orders: ListQueue, db: redis.Redis, port: int) -> None:
    kinds, each = 20, 10
    items = [b"item %d" % number for number in range(kinds)] * each
    leases = taken(orders, *items)
    expire(db, *leases[::2])
    db.lpush(PROCESSING, *items)
    start = threading.Barrier(4)

    def reap() -> Reaped:
        with redis.Redis(port=port) as client:
            queue = ListQueue(client, "orders")
            start.wait()
            done = [queue.reap(limit=7) for _ in range(20)]
        return Reaped(*map(sum, zip(*done, strict=True)))

    with ThreadPoolExecutor(4) as threads:
        done = [future.result() for future in [threads.submit(reap) for _ in range(4)]]
    assert Reaped(*map(sum, zip(*done, strict=True))) == Reaped(returned=len(items) // 2, adopted=len(items))
    assert Counter(db.lrange(QUEUE, 0, -1)) == Counter(lease.item for lease in leases[::2])
    assert db.llen(PROCESSING) == db.zcard(LEASES) == len(items) * 3 // 2


def test_the_other_end_is_where_they_go_back_to(db: redis.Redis) -> None:
    queue = ListQueue(db, "orders", names=ListNames(take_from="left"))
    queue.push("a", "b", "c")
    expire(db, *(lease for lease in (queue.take(), queue.take()) if lease))
    assert queue.reap() == Reaped(returned=2)
    assert db.lrange(QUEUE, 0, -1) == [b"a", b"b", b"c"]
