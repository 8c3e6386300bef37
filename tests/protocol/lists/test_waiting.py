"""Our clients waiting: what they send, how long they wait for the answer, and what happens when they are stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis
import redis.asyncio

from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import AsyncListQueue, ListQueue, Popped, RsmqError
from rsmq_tui.protocol.lists.inspection import COMMANDS, BlockedConsumer, read_blocked
from tests.cancelled import TURNS, cancelled_at_each_turn
from tests.protocol.either import Either
from tests.protocol.lists.conftest import each_once
from tests.protocol.lists.wire import Tap, Wire, command
from tests.waiting import wait_until

Start = Callable[..., "asyncio.Task[Any]"]
MakeClient = Callable[..., Any]


@pytest.fixture
async def make_client(kind: str) -> AsyncIterator[MakeClient]:
    """Makes clients of either kind."""
    async with AsyncExitStack() as stack:

        def make(**options: Any) -> Any:
            if kind == "sync":
                client = redis.Redis(**options)
                stack.callback(client.close)
                return client
            aclient = redis.asyncio.Redis(**options)
            stack.push_async_callback(aclient.aclose)
            return aclient

        yield make


def queue_on(client: Any, name: str | bytes = "orders") -> Either:
    return Either(ListQueue(client, name) if isinstance(client, redis.Redis) else AsyncListQueue(client, name))


@pytest.fixture
async def background(db: redis.Redis) -> AsyncIterator[Start]:
    """Starts a method of either client, which then runs beside the test, and not longer."""
    started: list[asyncio.Task[Any]] = []

    def start(queue: Either, method: str, *arguments: Any, **keywords: Any) -> "asyncio.Task[Any]":
        call: Coroutine[Any, Any, Any]
        if isinstance(queue.target, ListQueue):
            call = asyncio.to_thread(getattr(queue.target, method), *arguments, **keywords)
        else:
            call = getattr(queue.target, method)(*arguments, **keywords)
        started.append(asyncio.create_task(call))
        return started[-1]

    yield start
    if not all(task.done() for task in started):
        # A thread cannot be cancelled; it ends with its connection.
        db.client_kill_filter(_type="normal", skipme=True)
        await asyncio.gather(*started, return_exceptions=True)


def blocked_consumers(db: redis.Redis) -> list[BlockedConsumer]:
    return read_blocked(*(db.execute_command(*command) for command in COMMANDS))


async def until_waiting(db: redis.Redis, count: int = 1) -> None:
    """Let those who are to wait do so."""
    await asyncio.to_thread(wait_until, lambda: len(blocked_consumers(db)) == count, what=f"{count} to wait")


async def test_what_is_sent_is_one_command_with_the_whole_wait(tap: Tap, make_client: MakeClient) -> None:
    queue = queue_on(make_client(port=tap.port, protocol=2, driver_info=None), b"queue")
    await queue.push("job-3", "job-4")
    tap.forget()
    assert await queue.pop_blocking(0) == Popped("queue", b"job-3")
    assert bytes(tap.asked) == b"*3\r\n$5\r\nBRPOP\r\n$5\r\nqueue\r\n$1\r\n0\r\n"
    tap.forget()
    assert await queue.pop_blocking(7.5, others=["a", b"b"], end="left") == ("queue", b"job-4")
    assert bytes(tap.asked) == command("BLPOP", "queue", "queue:a", "b", "7.5")
    tap.forget()
    assert await queue.move_blocking("b", 0.02, to_end="right") is None
    assert bytes(tap.asked) == command("BLMOVE", "queue", "queue:b", "RIGHT", "RIGHT", "0.02")


@each_once
async def test_a_wait_is_never_rounded_to_one_that_never_ends(tap: Tap, make_client: MakeClient) -> None:
    queue = queue_on(make_client(port=tap.port), b"queue")
    for given_s, sent in ((1e-9, "0.001"), (0.0015, "0.002"), (10, "10"), (1.25, "1.25")):
        await queue.push("a")
        tap.forget()
        await queue.pop_blocking(given_s)
        assert bytes(tap.asked) == command("BRPOP", "queue", sent)


@each_once
@pytest.mark.parametrize("method", ["pop_blocking", "take_blocking"])
async def test_the_clients_own_timeout_may_be_shorter_than_the_wait(
    port: int, db: redis.Redis, make_client: MakeClient, method: str
) -> None:
    client = make_client(port=port, socket_timeout=0.2)
    assert await getattr(queue_on(client), method)(0.3) is None
    # Nor is it left behind on a connection that somebody else uses.
    assert await queue_on(client).length() == 0
    assert blocked_consumers(db) == []


@pytest.mark.parametrize("method", ["pop_blocking", "take_blocking"])
async def test_a_push_wakes_a_client(
    port: int, db: redis.Redis, make_client: MakeClient, background: Start, method: str
) -> None:
    waiting = background(queue_on(make_client(port=port)), method, 0)
    await until_waiting(db)
    ListQueue(db, "orders").push("a")
    found = await waiting
    assert (found.queue, found.item) == ("queue:orders", b"a")


@each_once
async def test_whoever_came_first_is_served_first(
    port: int, db: redis.Redis, make_client: MakeClient, background: Start
) -> None:
    client, waiting = make_client(port=port), []
    for count, method in enumerate(["pop_blocking", "take_blocking", "pop_blocking"], start=1):
        waiting.append(background(queue_on(client), method, 0))
        await until_waiting(db, count)
    ListQueue(db, "orders").push("a", "b", "c")
    assert [found.item for found in await asyncio.gather(*waiting)] == [b"a", b"b", b"c"]


async def test_a_server_that_does_not_answer_is_given_up(
    make_client: MakeClient, list_server: ListServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.protocol.connections.command_runner._LATENESS_S", 0.0)
    with list_server.fault("stall", commands=["BRPOP"]):
        queue = queue_on(make_client(port=list_server.port, socket_timeout=0.5), b"queue")
        with pytest.raises(redis.TimeoutError):
            await queue.pop_blocking(0.02)


@each_once
async def test_a_refusal_leaves_the_connection_in_use(port: int, db: redis.Redis, make_client: MakeClient) -> None:
    db.set("queue:orders", "x")
    queue = queue_on(make_client(port=port, max_connections=1))
    for _ in range(3):
        with pytest.raises(RsmqError, match="another type"):
            await queue.pop_blocking(1)
    db.delete("queue:orders")
    await queue.push("a")
    assert await queue.pop_blocking(1) == ("queue:orders", b"a")


@pytest.mark.parametrize("method", ["pop_blocking", "take_blocking"])
async def test_whoever_is_cancelled_while_it_waits_takes_nothing(port: int, db: redis.Redis, method: str) -> None:
    async with redis.asyncio.Redis(port=port) as client:
        waiting = asyncio.create_task(getattr(AsyncListQueue(client, "orders"), method)(0))
        await until_waiting(db)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until_waiting(db, 0)
        ListQueue(db, "orders").push("a")
        assert db.lrange("queue:orders", 0, -1) == [b"a"]
        assert await AsyncListQueue(client, "orders").pop() == b"a"


@pytest.mark.parametrize("method", ["pop_blocking", "take_blocking"])
async def test_a_cancel_ends_a_wait_at_every_moment_of_it(port: int, db: redis.Redis, method: str) -> None:
    async with redis.asyncio.Redis(port=port) as client:
        queue = AsyncListQueue(client, "orders")
        assert await cancelled_at_each_turn(lambda _: getattr(queue, method)(0), rounds=2) == 2 * TURNS
    await until_waiting(db, 0)


@pytest.mark.parametrize(
    "options",
    [{"decode_responses": True}, {"protocol": 3}, {"single_connection_client": True}],
    ids=lambda options: next(iter(options)),
)
@each_once
async def test_any_client_gives_bytes(port: int, make_client: MakeClient, options: dict[str, Any]) -> None:
    queue = queue_on(make_client(port=port, **options))
    await queue.push("a", b"\xff", "c", "d", "e")
    assert await queue.peek() == [b"e", b"d", b"c", b"\xff", b"a"]
    assert await queue.pop() == b"a"
    assert await queue.pop_many(1) == [b"\xff"]
    assert await queue.pop_blocking(1) == ("queue:orders", b"c")
    lease = await queue.take()
    assert lease.item == b"d"
    assert await queue.ack(lease) is True
    assert (await queue.take_blocking(1)).item == b"e"
    assert await queue.pop_blocking(0.01) is None
    assert await queue.pop_many(2) is None
    assert await queue.take() is None


@each_once
@pytest.mark.parametrize("method", ["pop_blocking", "take_blocking"])
async def test_timeouts_that_are_none(queue: Either, method: str) -> None:
    for timeout_s in (-1, float("nan"), float("inf"), 1e10, "1", None, True):
        with pytest.raises(RsmqError) as refused:
            await getattr(queue, method)(timeout_s)
        assert refused.value.code == "invalidValue"


@each_once
async def test_the_deprecated_ones_are_moves_and_say_so(queue: Either) -> None:
    await queue.push("a", "b")
    with pytest.warns(DeprecationWarning, match="use move"):
        assert await queue.rpoplpush("done") == b"a"
    with pytest.warns(DeprecationWarning, match="use move_blocking"):
        assert await queue.brpoplpush("done", 1) == b"b"
    assert await queue.move("done") is None


@each_once
async def test_who_is_blocked(
    port: int, db: redis.Redis, make_client: MakeClient, background: Start, wires: Callable[[], Wire]
) -> None:
    client = make_client(port=port, client_name="worker")
    elsewhere = make_client(port=port, db=3)
    waiting = [
        background(queue_on(client), "pop_blocking", 0),
        background(queue_on(client), "take_blocking", 0),
        background(queue_on(elsewhere), "pop_blocking", 0),
    ]
    await until_waiting(db, 2)
    # One that waits, but not on a list.
    wires().send("BZPOPMIN", "scores", 0)
    await asyncio.to_thread(wait_until, lambda: db.info("clients")["blocked_clients"] == 4, what="all to wait")

    found = blocked_consumers(db)
    assert {(each.name, each.command) for each in found} == {("worker", "brpop"), ("worker", "blmove")}
    assert all(each.address.startswith("127.0.0.1:") and each.waited_s < 60 for each in found)
    with redis.Redis(port=port, db=3) as third:
        assert [each.command for each in blocked_consumers(third)] == ["brpop"]

    ListQueue(db, "orders").push("a", "b")
    with redis.Redis(port=port, db=3) as third:
        ListQueue(third, "orders").push("c")
    await asyncio.gather(*waiting)
    assert blocked_consumers(db) == []
