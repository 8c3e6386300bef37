"""The reliable pattern, one step at a time: what each operation returns, and what it leaves in the keys."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from rsmq_tui.protocol import Lease, ListNames, ListQueue, RsmqError
from rsmq_tui.protocol.lists import operations
from rsmq_tui.protocol.lists.operations import Location
from rsmq_tui.protocol.rsmq.operations import Waiting
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms
from tests.protocol.lists.conftest import MakeQueue, each_once

QUEUE, PROCESSING, LEASES = "queue:orders", "queue:orders:processing", "queue:orders:leases"
PLACE = Location.of("orders", ListNames())
LATE_MS = 1_000_000
# What patterns, tokens and numbers could be taken for.
ODD_ITEMS = [
    b"*",
    b"a?c",
    b"[ab]",
    b"\\",
    b"\\*",
    b"^-]",
    b"",
    b"a:b",
    b"~" * 22 + b":a",
    b"\x00\r\n\xff",
    b"%d%%1",
    b"nil",
]


def members(db: redis.Redis) -> dict[bytes, float]:
    found: Any = db.zrange(LEASES, 0, -1, withscores=True)
    return dict(found)


def adopted(db: redis.Redis, item: bytes, vt_ms: int = LATE_MS) -> Lease | None:
    """What the second half of a take that waited does."""
    return ListQueue(db, "orders")._run(operations.adopt(PLACE, item, vt_ms))


@each_once
async def test_what_is_taken_lies_in_processing_under_a_lease(queue: Either, db: redis.Redis) -> None:
    await queue.push("a", "b")
    since_ms = now_ms(db)
    lease = await queue.take(5_000)

    assert (lease.queue, lease.item, len(lease.token)) == (QUEUE, b"a", 22)
    assert since_ms <= lease.deadline_ms - 5_000 <= now_ms(db)
    assert db.lrange(QUEUE, 0, -1) == [b"b"]
    assert db.lrange(PROCESSING, 0, -1) == [b"a"]
    assert members(db) == {f"{lease.token}:a".encode(): lease.deadline_ms}

    second = await queue.take()
    assert (second.item, second.token != lease.token) == (b"b", True)
    assert db.lrange(PROCESSING, 0, -1) == [b"b", b"a"]
    assert await queue.take() is None
    assert second.deadline_ms > lease.deadline_ms


@each_once
async def test_any_bytes_are_taken_and_acknowledged(queue: Either, db: redis.Redis) -> None:
    for item in ODD_ITEMS:
        await queue.push(item, item)
        first, second = await queue.take(), await queue.take_blocking(0)
        assert first.item == second.item == item
        assert await queue.ack(first) is True
        assert db.lrange(PROCESSING, 0, -1) == [item]
        assert [*members(db)] == [second.member]
        assert await queue.nack(second) is True
        assert await queue.pop() == item
        assert db.keys() == []


@each_once
async def test_what_is_acknowledged_is_gone_and_only_once(queue: Either, db: redis.Redis) -> None:
    await queue.push("a")
    lease = await queue.take()
    assert await queue.ack(lease) is True
    assert db.keys() == []
    assert await queue.ack(lease) is False
    assert await queue.nack(lease) is False
    assert await queue.extend(lease) is None


@pytest.mark.parametrize(("to_back", "left"), [(False, [b"c", b"b", b"a"]), (True, [b"a", b"c", b"b"])])
@each_once
async def test_what_is_given_back_is_taken_next_or_last(
    queue: Either, db: redis.Redis, to_back: bool, left: list[bytes]
) -> None:
    await queue.push("a", "b", "c")
    lease = await queue.take()
    assert await queue.nack(lease, to_back=to_back) is True
    assert db.lrange(QUEUE, 0, -1) == left
    assert db.keys() == [QUEUE.encode()]


@each_once
async def test_a_lease_is_extended_while_it_is_held(queue: Either, db: redis.Redis) -> None:
    await queue.push("a")
    lease = await queue.take(0)
    longer = await queue.extend(lease, LATE_MS)
    assert (longer.token, longer.item) == (lease.token, lease.item)
    assert lease.deadline_ms + LATE_MS <= longer.deadline_ms <= now_ms(db) + LATE_MS
    assert members(db) == {lease.member: longer.deadline_ms}
    assert not any(await queue.reap())
    shorter = await queue.extend(longer, 0)
    assert shorter.deadline_ms < longer.deadline_ms
    assert (await queue.reap()).returned == 1
    assert await queue.extend(shorter, LATE_MS) is None
    assert members(db) == {}


@each_once
async def test_whoever_comes_too_late_changes_nothing_of_whose_it_is_now(queue: Either, db: redis.Redis) -> None:
    await queue.push("a")
    late = await queue.take(0)
    await queue.reap()
    lease = await queue.take()
    assert lease.item == b"a"
    before = everything(db)
    assert (await queue.ack(late), await queue.nack(late), await queue.extend(late)) == (False, False, None)
    assert everything(db) == before
    assert await queue.ack(lease) is True


@pytest.mark.parametrize("names", [ListNames(take_from="left"), ListNames("bull:{name}:wait", "bull:{name}:active")])
@each_once
async def test_other_names_and_the_other_end(make_queue: MakeQueue, db: redis.Redis, names: ListNames) -> None:
    queue = make_queue("orders", names)
    await queue.push("a", "b", "c")
    items = [(await queue.take(0)).item, (await queue.take_blocking(1)).item]
    assert items == [b"a", b"b"]
    assert db.lrange(names.processing_key(queue.target.key), 0, -1) == [b"b", b"a"]
    assert (await queue.reap()).returned == 1
    assert await queue.nack(await queue.take())
    assert [await queue.pop() for _ in range(3)] == [b"a", b"c", None]


@each_once
async def test_a_lease_of_another_queue_is_a_mistake(make_queue: MakeQueue) -> None:
    queue = make_queue("orders")
    await queue.push("a")
    lease = await queue.take()
    for method in ("ack", "nack", "extend"):
        with pytest.raises(ValueError, match="'queue:orders', not of 'queue:letters'"):
            await getattr(make_queue("letters"), method)(lease)


@each_once
async def test_times_that_are_none(queue: Either) -> None:
    await queue.push("a", "b")
    lease = await queue.take()
    for vt_ms in (-1, 1.5, None, True, 10**13):
        calls: list[Awaitable[Any]] = [
            queue.take(vt_ms),
            queue.take_blocking(0, vt_ms),
            queue.extend(lease, vt_ms),
            queue.reap(grace_ms=vt_ms),
        ]
        for call in calls:
            with pytest.raises(RsmqError) as refused:
                await call
            assert refused.value.code == "invalidValue"


@pytest.mark.parametrize("key", [QUEUE, PROCESSING, LEASES])
@each_once
async def test_a_key_of_another_type_stops_everything_before_it_begins(
    queue: Either, db: redis.Redis, key: str
) -> None:
    await queue.push("a", "b", "c")
    lease, expired = await queue.take(), await queue.take(0)
    db.rename(key, "put aside")
    db.set(key, "text")
    before = everything(db)
    touches: dict[str, Callable[[], Awaitable[Any]]] = {
        "take": queue.take,
        "nack": lambda: queue.nack(lease),
        "reap": queue.reap,
    }
    if key != QUEUE:
        touches["ack"] = lambda: queue.ack(expired)
    if key == LEASES:
        touches["extend"] = lambda: queue.extend(lease)
    for call in touches.values():
        with pytest.raises(RsmqError) as refused:
            await call()
        assert refused.value.code == "wrongType"
    if key != QUEUE:
        with pytest.raises(RsmqError, match="another type"):
            adopted(db, b"a")
    assert everything(db) == before


# A take that waited: moved first, leased then.


def test_an_item_that_was_moved_is_leased(db: redis.Redis) -> None:
    db.rpush(PROCESSING, b"b", b"a", b"b")
    leases = [adopted(db, b"b"), adopted(db, b"a"), adopted(db, b"b")]
    assert members(db) == {lease.member: lease.deadline_ms for lease in leases if lease}
    assert adopted(db, b"a") is adopted(db, b"b") is adopted(db, b"c") is None
    assert len(members(db)) == 3


def test_only_leases_of_equal_bytes_stand_in_the_way(db: redis.Redis) -> None:
    for item in ODD_ITEMS:
        db.flushall()
        db.rpush(PROCESSING, *ODD_ITEMS, b"abc", b"a", b"x")
        others = {b"%022d:%b" % (number, other): 1 for number, other in enumerate(ODD_ITEMS) if other != item}
        db.zadd(LEASES, others | {b"1" * 22 + b":" + item + b"x": 1, b"a lease of another form": 1})
        assert adopted(db, item) is not None
        assert adopted(db, item) is None


@pytest.mark.parametrize("leased", [0, 200])
def test_an_adopted_item_is_taken_over_from_the_reaper(db: redis.Redis, leased: int) -> None:
    queue = ListQueue(db, "orders")
    for number in range(leased):
        queue.push(b"%d" % number)
        queue.take()
    queue.push("a")
    db.lmove(QUEUE, PROCESSING, "RIGHT", "LEFT")
    assert queue.reap().adopted == 1
    lease = adopted(db, b"a")
    assert lease is not None
    assert [member for member in members(db) if member.endswith(b":a")] == [lease.member]
    assert not any(queue.reap())


def test_an_orphan_of_a_reaper_is_no_item(db: redis.Redis) -> None:
    # One that is leased to somebody, and one that somebody removed by hand after a reaper had adopted it.
    db.rpush(PROCESSING, b"a")
    db.zadd(LEASES, {b"t" * 22 + b":a": 2e12, b"~" * 22 + b":a": 2e12})
    assert adopted(db, b"a") is None
    assert len(members(db)) == 2


def test_a_wait_goes_on_when_its_item_was_reaped_before_it_was_leased(db: redis.Redis) -> None:
    queue = ListQueue(db, "orders")
    flow = operations.take_blocking(PLACE, 50, LATE_MS)
    first = next(flow)
    assert queue._run(first) is None
    waiting = flow.send(None)
    assert isinstance(waiting, Waiting)
    assert (waiting.command[0], 0 < waiting.wait_s <= 50) == ("BLMOVE", True)
    # The move is done; two reapers come by before the answer is read, and then somebody else takes the item.
    queue.push("a")
    item = db.lmove(QUEUE, PROCESSING, "RIGHT", "LEFT")
    assert queue.reap(grace_ms=0).adopted == 1
    assert queue.reap().returned == 1
    other = queue.take()

    adopt = flow.send(item)
    assert queue._run(adopt) is None
    again = flow.send(None)
    assert isinstance(again, Waiting)
    assert 0 < again.wait_s <= waiting.wait_s
    with pytest.raises(StopIteration) as end:
        flow.send(None)
    assert end.value.value is None
    assert other is not None
    assert queue.ack(other) is True


def test_a_wait_goes_on_for_the_rest_of_its_time_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [100.0]
    monkeypatch.setattr(
        "rsmq_tui.protocol.connections.command_runner.time", SimpleNamespace(monotonic=lambda: clock_s[0])
    )
    flow = operations.take_blocking(PLACE, 5, LATE_MS)
    next(flow)
    waits = []
    for passed_s in (2.0, 2.5, 0.5):
        waiting = flow.send(None)
        assert isinstance(waiting, Waiting)
        waits.append(waiting.wait_s)
        clock_s[0] += passed_s
        # An item came, but was reaped before it could be leased.
        flow.send(b"a")
    assert waits == [5, 3, 0.5]
    with pytest.raises(StopIteration) as end:
        flow.send(None)
    assert end.value.value is None
