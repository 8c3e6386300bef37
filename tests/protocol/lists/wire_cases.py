"""What is asked of a server about lists, and what it says to that, byte by byte."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rsmq_tui.protocol import ListNames
from tests.protocol.either import Either
from tests.protocol.lists.wire import Part

# Keys as the document has them.
NAMES = ListNames(queue="{name}", processing="{queue}:p", leases="{queue}:l")


@dataclass(frozen=True)
class Case:
    """What is asked, in bytes; what a server says to that, in bytes; and what our clients make of it."""

    what: str
    before: tuple[tuple[Part, ...], ...]
    call: Callable[[Either], Awaitable[Any]]
    asked: bytes
    answered: bytes
    value: Any


def full(*items: str) -> tuple[tuple[Part, ...], ...]:
    """The queue holds these items, left to right."""
    return (("RPUSH", "queue", *items),)


CASES = [
    # Pushing.
    Case(
        "LPUSH makes the list",
        (),
        lambda queue: queue.push("job-1"),
        b"*3\r\n$5\r\nLPUSH\r\n$5\r\nqueue\r\n$5\r\njob-1\r\n",
        b":1\r\n",
        1,
    ),
    Case(
        "LPUSH of several",
        full("a"),
        lambda queue: queue.push("b", b"c", "d"),
        b"*5\r\n$5\r\nLPUSH\r\n$5\r\nqueue\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n",
        b":4\r\n",
        4,
    ),
    Case(
        "RPUSH",
        full("a"),
        lambda queue: queue.push("b", end="right"),
        b"*3\r\n$5\r\nRPUSH\r\n$5\r\nqueue\r\n$1\r\nb\r\n",
        b":2\r\n",
        2,
    ),
    Case(
        "RPUSH at the front",
        (),
        lambda queue: queue.push_front(b"\x00\r\n\xff"),
        b"*3\r\n$5\r\nRPUSH\r\n$5\r\nqueue\r\n$4\r\n\x00\r\n\xff\r\n",
        b":1\r\n",
        1,
    ),
    Case(
        "LPUSHX without a list",
        (),
        lambda queue: queue.push_existing("a"),
        b"*3\r\n$6\r\nLPUSHX\r\n$5\r\nqueue\r\n$1\r\na\r\n",
        b":0\r\n",
        0,
    ),
    Case(
        "LPUSHX",
        full("a"),
        lambda queue: queue.push_existing("b", "c"),
        b"*4\r\n$6\r\nLPUSHX\r\n$5\r\nqueue\r\n$1\r\nb\r\n$1\r\nc\r\n",
        b":3\r\n",
        3,
    ),
    Case(
        "RPUSHX",
        full("a"),
        lambda queue: queue.push_existing("b", end="right"),
        b"*3\r\n$6\r\nRPUSHX\r\n$5\r\nqueue\r\n$1\r\nb\r\n",
        b":2\r\n",
        2,
    ),
    # Popping.
    Case(
        "RPOP",
        full("job-2", "job-1"),
        lambda queue: queue.pop(),
        b"*2\r\n$4\r\nRPOP\r\n$5\r\nqueue\r\n",
        b"$5\r\njob-1\r\n",
        b"job-1",
    ),
    Case("RPOP of nothing", (), lambda queue: queue.pop(), b"*2\r\n$4\r\nRPOP\r\n$5\r\nqueue\r\n", b"$-1\r\n", None),
    Case(
        "LPOP",
        full("job-2", "job-1"),
        lambda queue: queue.pop("left"),
        b"*2\r\n$4\r\nLPOP\r\n$5\r\nqueue\r\n",
        b"$5\r\njob-2\r\n",
        b"job-2",
    ),
    Case(
        "LPOP of nothing", (), lambda queue: queue.pop("left"), b"*2\r\n$4\r\nLPOP\r\n$5\r\nqueue\r\n", b"$-1\r\n", None
    ),
    Case(
        "LPOP with a count",
        full("job-2", "job-3", "job-4"),
        lambda queue: queue.pop_many(2, "left"),
        b"*3\r\n$4\r\nLPOP\r\n$5\r\nqueue\r\n$1\r\n2\r\n",
        b"*2\r\n$5\r\njob-2\r\n$5\r\njob-3\r\n",
        [b"job-2", b"job-3"],
    ),
    Case(
        "RPOP with a count of more than there are",
        full("job-2", "job-3"),
        lambda queue: queue.pop_many(10),
        b"*3\r\n$4\r\nRPOP\r\n$5\r\nqueue\r\n$2\r\n10\r\n",
        b"*2\r\n$5\r\njob-3\r\n$5\r\njob-2\r\n",
        [b"job-3", b"job-2"],
    ),
    Case(
        "RPOP with a count of one",
        full("a"),
        lambda queue: queue.pop_many(1),
        b"*3\r\n$4\r\nRPOP\r\n$5\r\nqueue\r\n$1\r\n1\r\n",
        b"*1\r\n$1\r\na\r\n",
        [b"a"],
    ),
    Case(
        "RPOP with a count of none",
        full("a"),
        lambda queue: queue.pop_many(0),
        b"*3\r\n$4\r\nRPOP\r\n$5\r\nqueue\r\n$1\r\n0\r\n",
        b"*0\r\n",
        [],
    ),
    Case(
        "LPOP with a count, of nothing",
        (),
        lambda queue: queue.pop_many(2, "left"),
        b"*3\r\n$4\r\nLPOP\r\n$5\r\nqueue\r\n$1\r\n2\r\n",
        b"*-1\r\n",
        None,
    ),
    # Moving.
    Case(
        "LMOVE",
        (("RPUSH", "queue", "job-6", "job-5"), ("RPUSH", "dst", "job-4")),
        lambda queue: queue.move("dst"),
        b"*5\r\n$5\r\nLMOVE\r\n$5\r\nqueue\r\n$3\r\ndst\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n",
        b"$5\r\njob-5\r\n",
        b"job-5",
    ),
    Case(
        "LMOVE of nothing",
        (),
        lambda queue: queue.move(b"dst"),
        b"*5\r\n$5\r\nLMOVE\r\n$5\r\nqueue\r\n$3\r\ndst\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n",
        b"$-1\r\n",
        None,
    ),
    Case(
        "LMOVE between other ends",
        full("a", "b"),
        lambda queue: queue.move("dst", from_end="left", to_end="right"),
        b"*5\r\n$5\r\nLMOVE\r\n$5\r\nqueue\r\n$3\r\ndst\r\n$4\r\nLEFT\r\n$5\r\nRIGHT\r\n",
        b"$1\r\na\r\n",
        b"a",
    ),
    # Looking, counting, removing.
    Case(
        "LLEN", full("a", "b", "c"), lambda queue: queue.length(), b"*2\r\n$4\r\nLLEN\r\n$5\r\nqueue\r\n", b":3\r\n", 3
    ),
    Case("LLEN of nothing", (), lambda queue: queue.length(), b"*2\r\n$4\r\nLLEN\r\n$5\r\nqueue\r\n", b":0\r\n", 0),
    Case(
        "LREM",
        full("job-5", "x", "job-5"),
        lambda queue: queue.remove("job-5"),
        b"*4\r\n$4\r\nLREM\r\n$5\r\nqueue\r\n$1\r\n1\r\n$5\r\njob-5\r\n",
        b":1\r\n",
        1,
    ),
    Case(
        "LREM of all",
        full("a", "x", "a"),
        lambda queue: queue.remove("a", 0),
        b"*4\r\n$4\r\nLREM\r\n$5\r\nqueue\r\n$1\r\n0\r\n$1\r\na\r\n",
        b":2\r\n",
        2,
    ),
    Case(
        "LREM from the right",
        full("a", "x", "a"),
        lambda queue: queue.remove("a", -1),
        b"*4\r\n$4\r\nLREM\r\n$5\r\nqueue\r\n$2\r\n-1\r\n$1\r\na\r\n",
        b":1\r\n",
        1,
    ),
    Case(
        "LREM of nothing",
        full("a"),
        lambda queue: queue.remove("b"),
        b"*4\r\n$4\r\nLREM\r\n$5\r\nqueue\r\n$1\r\n1\r\n$1\r\nb\r\n",
        b":0\r\n",
        0,
    ),
    Case(
        "LTRIM",
        full("a", "b", "c"),
        lambda queue: queue.trim(0, 999),
        b"*4\r\n$5\r\nLTRIM\r\n$5\r\nqueue\r\n$1\r\n0\r\n$3\r\n999\r\n",
        b"+OK\r\n",
        None,
    ),
    Case(
        "LRANGE",
        full("a", "b", "c"),
        lambda queue: queue.peek(),
        b"*4\r\n$6\r\nLRANGE\r\n$5\r\nqueue\r\n$1\r\n0\r\n$2\r\n-1\r\n",
        b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
        [b"a", b"b", b"c"],
    ),
    Case(
        "LRANGE of nothing",
        (),
        lambda queue: queue.peek(5, 9),
        b"*4\r\n$6\r\nLRANGE\r\n$5\r\nqueue\r\n$1\r\n5\r\n$1\r\n9\r\n",
        b"*0\r\n",
        [],
    ),
    Case(
        "LINDEX",
        full("a", "b"),
        lambda queue: queue.item_at(-1),
        b"*3\r\n$6\r\nLINDEX\r\n$5\r\nqueue\r\n$2\r\n-1\r\n",
        b"$1\r\nb\r\n",
        b"b",
    ),
    Case(
        "LINDEX of nothing",
        full("a"),
        lambda queue: queue.item_at(5),
        b"*3\r\n$6\r\nLINDEX\r\n$5\r\nqueue\r\n$1\r\n5\r\n",
        b"$-1\r\n",
        None,
    ),
]
