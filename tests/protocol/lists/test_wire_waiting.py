"""Commands that wait, bytes against bytes: at once, in time, too late, in order, and when a waiter hangs up."""

from collections.abc import Callable

import pytest

from tests.protocol.lists.wire import Part, Wire
from tests.waiting import wait_until

MakeWire = Callable[[], Wire]
NULL_ARRAY = b"*-1\r\n"
# One that pops, and what it says to a job of the queue "queue".
POPS = [("BRPOP", "queue", 0), ("BLPOP", "queue", 0)]
POPPED = b"*2\r\n$5\r\nqueue\r\n$5\r\njob-4\r\n"


def flags_of(watcher: Wire, number: int) -> bytes | None:
    """The flags of a connection, None where the server has it no longer."""
    lines = watcher.ask("CLIENT", "LIST").split(b"\n")
    for line in lines:
        fields = dict(field.partition(b"=")[::2] for field in line.split())
        if fields.get(b"id") == b"%d" % number:
            return fields[b"flags"]
    return None


def waits(watcher: Wire, waiter: Wire, number: int, *command: Part) -> None:
    """Let a connection send a command that waits, until the server has blocked it."""
    waiter.send(*command)
    wait_until(lambda: b"b" in (flags_of(watcher, number) or b""), what=f"{command!r} to wait")


def waiter_of(wires: MakeWire, watcher: Wire, *command: Part) -> Wire:
    """A connection that waits."""
    waiter = wires()
    waits(watcher, waiter, waiter.id(), *command)
    return waiter


def test_a_pop_of_what_is_there_is_answered_at_once(wire: Wire) -> None:
    wire.ask("RPUSH", "queue", "job-3", "job-4")
    asked = b"*3\r\n$5\r\nBRPOP\r\n$5\r\nqueue\r\n$1\r\n0\r\n"
    assert wire.ask_bytes(asked) == POPPED
    assert wire.ask("BLPOP", "queue", 0) == b"*2\r\n$5\r\nqueue\r\n$5\r\njob-3\r\n"


def test_a_move_of_what_is_there_is_answered_at_once(wire: Wire) -> None:
    wire.ask("RPUSH", "queue", "a", "b")
    assert wire.ask("BLMOVE", "queue", "processing", "RIGHT", "LEFT", 0) == b"$1\r\nb\r\n"
    assert wire.ask("BRPOPLPUSH", "queue", "processing", 0) == b"$1\r\na\r\n"
    assert wire.ask("LRANGE", "processing", 0, -1) == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"


@pytest.mark.parametrize(
    "command",
    [
        ("BRPOP", "queue", "0.02"),
        ("BLPOP", "queue", "other", "0.02"),
        ("BLMOVE", "queue", "processing", "RIGHT", "LEFT", "0.02"),
    ],
)
def test_a_wait_that_is_over_is_a_null_array(command: tuple[Part, ...], wire: Wire) -> None:
    # Also of BLMOVE, although it returns a string otherwise.
    assert wire.ask(*command) == NULL_ARRAY
    assert wire.ask("DBSIZE") == b":0\r\n"


@pytest.mark.parametrize("push", ["LPUSH", "RPUSH"])
@pytest.mark.parametrize("command", POPS)
def test_a_push_wakes_whoever_waits_and_counts_what_it_takes(
    push: str, command: tuple[Part, ...], wire: Wire, wires: MakeWire
) -> None:
    waiter = waiter_of(wires, wire, *command)
    # The length before it was served, as in a list that has it for a moment.
    assert wire.ask(push, "queue", "job-4") == b":1\r\n"
    assert waiter.reply() == POPPED
    assert wire.ask("EXISTS", "queue") == b":0\r\n"


def test_of_several_that_are_pushed_at_once_the_waiter_gets_the_one_at_its_end(wire: Wire, wires: MakeWire) -> None:
    right = waiter_of(wires, wire, "BRPOP", "queue", 0)
    assert wire.ask("LPUSH", "queue", "a", "b", "c") == b":3\r\n"
    assert right.reply() == b"*2\r\n$5\r\nqueue\r\n$1\r\na\r\n"
    assert wire.ask("LRANGE", "queue", 0, -1) == b"*2\r\n$1\r\nc\r\n$1\r\nb\r\n"


def test_a_push_to_a_list_that_must_exist_wakes_nobody(wire: Wire, wires: MakeWire) -> None:
    waiter = waiter_of(wires, wire, "BRPOP", "queue", 0)
    assert wire.ask("LPUSHX", "queue", "job-3") == b":0\r\n"
    assert wire.ask("LPUSH", "queue", "job-4") == b":1\r\n"
    assert waiter.reply() == POPPED


def test_what_is_moved_wakes_whoever_waits_for_it(wire: Wire, wires: MakeWire) -> None:
    waiter = waiter_of(wires, wire, "BRPOP", "queue", 0)
    wire.ask("RPUSH", "source", "job-4")
    assert wire.ask("LMOVE", "source", "queue", "RIGHT", "LEFT") == b"$5\r\njob-4\r\n"
    assert waiter.reply() == POPPED
    assert wire.ask("DBSIZE") == b":0\r\n"


def test_the_first_key_that_has_items_is_popped_whatever_the_others_hold(wire: Wire) -> None:
    wire.ask("RPUSH", "second", "b")
    wire.ask("RPUSH", "third", "c")
    assert wire.ask("BRPOP", "first", "second", "third", 0) == b"*2\r\n$6\r\nsecond\r\n$1\r\nb\r\n"
    assert wire.ask("BLPOP", "third", "second", 0) == b"*2\r\n$5\r\nthird\r\n$1\r\nc\r\n"


@pytest.mark.parametrize("key", ["first", "second", "third"])
def test_a_push_to_any_of_its_keys_wakes_a_waiter(key: str, wire: Wire, wires: MakeWire) -> None:
    waiter = waiter_of(wires, wire, "BLPOP", "first", "second", "third", 0)
    assert wire.ask("RPUSH", key, "x") == b":1\r\n"
    assert waiter.reply() == b"*2\r\n$%d\r\n%b\r\n$1\r\nx\r\n" % (len(key), key.encode())


def test_those_who_wait_are_served_in_the_order_in_which_they_came(wire: Wire, wires: MakeWire) -> None:
    waiters = [
        waiter_of(wires, wire, *command)
        for command in (
            ("BRPOP", "queue", 0),
            ("BLMOVE", "queue", "processing", "RIGHT", "LEFT", 0),
            ("BLPOP", "other", "queue", 0),
        )
    ]
    for item in "abc":
        assert wire.ask("LPUSH", "queue", item) == b":1\r\n"
    assert [waiter.reply() for waiter in waiters] == [
        b"*2\r\n$5\r\nqueue\r\n$1\r\na\r\n",
        b"$1\r\nb\r\n",
        b"*2\r\n$5\r\nqueue\r\n$1\r\nc\r\n",
    ]


def test_one_push_of_many_serves_many(wire: Wire, wires: MakeWire) -> None:
    waiters = [waiter_of(wires, wire, "BRPOP", "queue", 0) for _ in range(3)]
    assert wire.ask("LPUSH", "queue", *"abcd") == b":4\r\n"
    assert [waiter.reply()[-3:] for waiter in waiters] == [b"a\r\n", b"b\r\n", b"c\r\n"]
    assert wire.ask("LRANGE", "queue", 0, -1) == b"*1\r\n$1\r\nd\r\n"


def test_whoever_waited_too_long_has_lost_its_place(wire: Wire, wires: MakeWire) -> None:
    first = wires()
    number = first.id()
    waits(wire, first, number, "BRPOP", "queue", 0)
    second = waiter_of(wires, wire, "BRPOP", "queue", 0)
    # As if its time were over.
    assert wire.ask("CLIENT", "UNBLOCK", number, "TIMEOUT") == b":1\r\n"
    assert first.reply() == NULL_ARRAY
    waits(wire, first, number, "BRPOP", "queue", 0)
    wire.ask("LPUSH", "queue", "a")
    wire.ask("LPUSH", "queue", "b")
    assert [waiter.reply()[-3:] for waiter in (second, first)] == [b"a\r\n", b"b\r\n"]


@pytest.mark.parametrize("command", [("BRPOP", "queue", 0), ("BLMOVE", "queue", "processing", "RIGHT", "LEFT", 0)])
def test_a_waiter_that_hangs_up_takes_nothing_with_it(command: tuple[Part, ...], wire: Wire, wires: MakeWire) -> None:
    gone = wires()
    number = gone.id()
    waits(wire, gone, number, *command)
    stays = waiter_of(wires, wire, "BRPOP", "queue", 0)
    gone.close()
    wait_until(lambda: flags_of(wire, number) is None, what="the server to see that it has gone")

    assert wire.ask("LPUSH", "queue", "job-4") == b":1\r\n"
    assert stays.reply() == POPPED
    assert wire.ask("DBSIZE") == b":0\r\n"


def test_a_move_wakes_on_a_push_and_then_lies_in_the_other_list(wire: Wire, wires: MakeWire) -> None:
    waiter = waiter_of(wires, wire, "BLMOVE", "queue", "processing", "RIGHT", "LEFT", 0)
    assert wire.ask("LPUSH", "queue", "job-5") == b":1\r\n"
    assert waiter.reply() == b"$5\r\njob-5\r\n"
    assert wire.ask("LRANGE", "processing", 0, -1) == b"*1\r\n$5\r\njob-5\r\n"
    assert wire.ask("EXISTS", "queue") == b":0\r\n"


def test_a_chain_of_moves_goes_through_in_one_push(wire: Wire, wires: MakeWire) -> None:
    second = waiter_of(wires, wire, "BLMOVE", "b", "c", "RIGHT", "LEFT", 0)
    first = waiter_of(wires, wire, "BLMOVE", "a", "b", "RIGHT", "LEFT", 0)
    assert wire.ask("LPUSH", "a", "x") == b":1\r\n"
    assert first.reply() == second.reply() == b"$1\r\nx\r\n"
    assert wire.ask("LRANGE", "c", 0, -1) == b"*1\r\n$1\r\nx\r\n"
    assert wire.ask("EXISTS", "a", "b") == b":0\r\n"


def test_a_move_into_another_type_leaves_the_item_where_it_was(wire: Wire, wires: MakeWire) -> None:
    wrong = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    wire.ask("SET", "text", "x")
    waiter = waiter_of(wires, wire, "BLMOVE", "queue", "text", "RIGHT", "LEFT", 0)
    assert wire.ask("LPUSH", "queue", "a") == b":1\r\n"
    assert waiter.reply() == wrong
    assert wire.ask("LMOVE", "queue", "text", "RIGHT", "LEFT") == wrong
    assert wire.ask("LRANGE", "queue", 0, -1) == b"*1\r\n$1\r\na\r\n"


def test_who_waits_on_what_becomes_another_type_waits_on(wire: Wire, wires: MakeWire) -> None:
    waiter = waiter_of(wires, wire, "BRPOP", "queue", 0)
    wire.ask("SET", "queue", "x")
    wire.ask("DEL", "queue")
    wire.ask("LPUSH", "queue", "job-4")
    assert waiter.reply() == POPPED


def test_a_pipeline_of_moves_and_acknowledgements(wire: Wire) -> None:
    wire.ask("LPUSH", "queue", "job-1", "job-2", "job-3")
    moves = [wire.ask("LMOVE", "queue", "processing", "RIGHT", "LEFT") for _ in range(4)]
    assert moves == [b"$5\r\njob-1\r\n", b"$5\r\njob-2\r\n", b"$5\r\njob-3\r\n", b"$-1\r\n"]
    assert wire.ask("LRANGE", "processing", 0, -1) == b"*3\r\n$5\r\njob-3\r\n$5\r\njob-2\r\n$5\r\njob-1\r\n"
    assert [wire.ask("LREM", "processing", 1, f"job-{number}") for number in (2, 1, 2, 3)] == [
        b":1\r\n",
        b":1\r\n",
        b":0\r\n",
        b":1\r\n",
    ]
    assert wire.ask("DBSIZE") == b":0\r\n"


def test_nobody_ever_sees_an_item_in_both_lists_or_in_none(wire: Wire, wires: MakeWire) -> None:
    mover, items = wires(), [b"%d" % number for number in range(200)]
    wire.ask("RPUSH", "queue", *items)
    # All moves are on their way at once; whoever looks sees some of them done.
    for _ in items:
        mover.send("LMOVE", "queue", "processing", "RIGHT", "LEFT")
    left = len(items)
    while left:
        wire.ask("MULTI")
        wire.ask("LLEN", "queue")
        wire.ask("LLEN", "processing")
        lengths = [int(line[1:]) for line in wire.ask("EXEC").split(b"\r\n")[1:3]]
        assert sum(lengths) == len(items)
        left = lengths[0]
    assert [mover.reply() for _ in items] == [b"$%d\r\n%b\r\n" % (len(item), item) for item in reversed(items)]
