"""Commands that do not wait, bytes against bytes: said by hand, and by our clients."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from rsmq_tui.protocol import AsyncListQueue, ListQueue, RsmqError
from tests.protocol.either import Either
from tests.protocol.lists.wire import Part, Tap, Wire
from tests.protocol.lists.wire_cases import CASES, NAMES, Case

WRONG = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)

WRONG_CALLS: dict[str, Callable[[Either], Awaitable[Any]]] = {
    "LPUSH": lambda queue: queue.push("a"),
    "RPUSH": lambda queue: queue.push("a", end="right"),
    "LPUSHX": lambda queue: queue.push_existing("a"),
    "RPUSHX": lambda queue: queue.push_existing("a", end="right"),
    "LPOP": lambda queue: queue.pop("left"),
    "RPOP": lambda queue: queue.pop(),
    "RPOP with a count": lambda queue: queue.pop_many(2),
    "BLPOP": lambda queue: queue.pop_blocking(1, end="left"),
    "BRPOP": lambda queue: queue.pop_blocking(1),
    "LMOVE": lambda queue: queue.move("dst"),
    "BLMOVE": lambda queue: queue.move_blocking("dst", 1),
    "LLEN": lambda queue: queue.length(),
    "LREM": lambda queue: queue.remove("a"),
    "LTRIM": lambda queue: queue.trim(0, 1),
    "LRANGE": lambda queue: queue.peek(),
    "LINDEX": lambda queue: queue.item_at(0),
}


@pytest.fixture
def answer(tap: Tap) -> Callable[[str, Callable[[Either], Awaitable[Any]]], Any]:
    """Calls a client of either kind through the tap, and returns what it said and heard, and what it returned."""

    async def say(kind: str, call: Callable[[Either], Awaitable[Any]]) -> Any:
        # A client that sends nothing on connecting, and stays connected.
        if kind == "sync":
            with redis.Redis(port=tap.port, protocol=2, driver_info=None) as client:
                return await _heard(tap, Either(client), Either(ListQueue(client, "queue", names=NAMES)), call)
        async with redis.asyncio.Redis(port=tap.port, protocol=2, driver_info=None) as aclient:
            return await _heard(tap, Either(aclient), Either(AsyncListQueue(aclient, "queue", names=NAMES)), call)

    return lambda kind, call: asyncio.run(say(kind, call))


async def _heard(tap: Tap, client: Either, queue: Either, call: Callable[[Either], Awaitable[Any]]) -> Any:
    await client.ping()
    tap.forget()
    try:
        value = await call(queue)
    except RsmqError as error:
        value = error.code
    return bytes(tap.asked), bytes(tap.answered), value


@each_case
def test_by_hand(case: Case, wire: Wire) -> None:
    for each in case.before:
        wire.ask(*each)
    assert wire.ask_bytes(case.asked) == case.answered


@each_case
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_by_our_clients(case: Case, kind: str, wire: Wire, answer: Callable[..., Any]) -> None:
    for each in case.before:
        wire.ask(*each)
    assert answer(kind, case.call) == (case.asked, case.answered, case.value)


@pytest.mark.parametrize("name", WRONG_CALLS)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_key_of_another_type_is_refused_and_left_alone(
    name: str, kind: str, wire: Wire, answer: Callable[..., Any]
) -> None:
    wire.ask("SET", "queue", "no list")
    asked, answered, value = answer(kind, WRONG_CALLS[name])

    assert asked.split(b"\r\n")[2] == name.split(maxsplit=1)[0].encode()
    assert (answered, value) == (WRONG, "wrongType")
    assert wire.ask_bytes(asked) == WRONG
    assert wire.ask("GET", "queue") == b"$7\r\nno list\r\n"
    assert wire.ask("DBSIZE") == b":1\r\n"


@pytest.mark.parametrize(
    "last",
    [
        ("LPOP", "queue"),
        ("RPOP", "queue"),
        ("LPOP", "queue", 5),
        ("RPOP", "queue", 1),
        ("BLPOP", "queue", 0),
        ("BRPOP", "queue", 0),
        ("LMOVE", "queue", "dst", "RIGHT", "LEFT"),
        ("BLMOVE", "queue", "dst", "RIGHT", "LEFT", 0),
        ("LREM", "queue", 0, "job-1"),
        ("LTRIM", "queue", 1, 0),
    ],
    ids=lambda last: " ".join(map(str, last)),
)
def test_the_last_item_takes_the_key_with_it(last: tuple[Part, ...], wire: Wire) -> None:
    wire.ask("LPUSH", "queue", "job-1")
    wire.ask(*last)
    assert wire.ask("EXISTS", "queue") == b":0\r\n"
    assert wire.ask("LLEN", "queue") == b":0\r\n"
    assert wire.ask("TYPE", "queue") == b"+none\r\n"


async def test_both_ends_are_a_queue_and_a_stack(queue: Either) -> None:
    assert await queue.push("a", "b", "c") == 3
    assert await queue.peek() == [b"c", b"b", b"a"]
    assert [await queue.pop() for _ in range(4)] == [b"a", b"b", b"c", None]
    await queue.push("a", "b", "c")
    assert [await queue.pop("left") for _ in range(4)] == [b"c", b"b", b"a", None]


async def test_what_is_trimmed_is_gone(queue: Either) -> None:
    await queue.push("a", "b", "c", "d")
    await queue.trim(0, 1)
    assert await queue.peek() == [b"d", b"c"]
    await queue.trim(5, 9)
    assert await queue.length() == 0
