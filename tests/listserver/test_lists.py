"""Section 6 of the description of list queues: the same bytes from this server, from Valkey and from Redis."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tests.listserver.peers import Connection, Word, request

Connect = Callable[[], Connection]


@pytest.fixture
def connect(port: int) -> Iterator[Connect]:
    """Open connections to the server of the test; they are closed after it."""
    opened: list[Connection] = []

    def connection() -> Connection:
        opened.append(Connection(port))
        return opened[-1]

    yield connection
    for each in opened:
        each.close()


def _bytes(connection: Connection, *requests: bytes, size: int) -> bytes:
    """Send requests in one write; return ``size`` bytes of the replies."""
    connection.socket.sendall(b"".join(requests))
    found = b""
    while len(found) < size:
        found += connection.socket.recv(size - len(found))
    return found


def _wait_until_blocked(connect: Connect, *ids: int) -> None:
    admin = connect()
    deadline_s = time.monotonic() + 30
    while not all(b"flags=b" in admin.call("CLIENT", "LIST", "ID", number) for number in ids):
        assert time.monotonic() < deadline_s


@pytest.mark.parametrize(
    ("written", "reply"),
    [
        (b"*3\r\n$5\r\nLPUSH\r\n$5\r\nqueue\r\n$5\r\njob-1\r\n", b":1\r\n"),
        (request("RPUSH", "queue", "a", "b", "c"), b":3\r\n"),
        (request("LPUSHX", "queue", "a"), b":0\r\n"),
        (request("RPUSHX", "queue", "a"), b":0\r\n"),
        (request("RPUSH", "queue", "a") + request("LPUSHX", "queue", "b"), b":1\r\n:2\r\n"),
        (request("LPOP", "queue"), b"$-1\r\n"),
        (request("RPOP", "queue", 2), b"*-1\r\n"),
        (request("RPUSH", "queue", "a") + request("RPOP", "queue", 0), b":1\r\n*0\r\n"),
        (request("LPUSH", "queue", "job-1") + request("RPOP", "queue"), b":1\r\n$5\r\njob-1\r\n"),
        (
            request("RPUSH", "queue", "a", "b", "c") + request("LPOP", "queue", 2) + request("RPOP", "queue", 9),
            b":3\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$1\r\nc\r\n",
        ),
        (request("LLEN", "queue"), b":0\r\n"),
        (request("LRANGE", "queue", 0, -1), b"*0\r\n"),
        (request("LINDEX", "queue", 0), b"$-1\r\n"),
        (request("RPUSH", "q", "a", "b", "a") + request("LREM", "q", 1, "a"), b":3\r\n:1\r\n"),
        (request("RPUSH", "q", "a", "b", "c") + request("LTRIM", "q", 0, 1), b":3\r\n+OK\r\n"),
        (request("RPUSH", "q", "a") + request("LMOVE", "q", "w", "RIGHT", "LEFT"), b":1\r\n$1\r\na\r\n"),
        (request("RPOPLPUSH", "q", "w"), b"$-1\r\n"),
        (request("LMPOP", 1, "q", "LEFT"), b"*-1\r\n"),
        (request("RPUSH", "q", "a") + request("LPOS", "q", "b", "COUNT", 0), b":1\r\n*0\r\n"),
        (
            request("SET", "text", "x") + request("LPUSH", "text", "a"),
            b"+OK\r\n-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
        (request("BLPOP", "q", "x"), b"-ERR timeout is not a float or out of range\r\n"),
        (request("BLPOP", "q", "-1"), b"-ERR timeout is negative\r\n"),
        (request("LSET", "q", 0, "x"), b"-ERR no such key\r\n"),
        (request("LPOP", "q", -1), b"-ERR value is out of range, must be positive\r\n"),
        (request("LLEN"), b"-ERR wrong number of arguments for 'llen' command\r\n"),
        (request("NIX", "a"), b"-ERR unknown command 'NIX', with args beginning with: 'a' \r\n"),
        (b"PING\r\n", b"+PONG\r\n"),
        (b'ECHO "a\\x00\\n"\r\n', b"$3\r\na\x00\n\r\n"),
    ],
)
def test_replies_are_these_bytes(connect: Connect, written: bytes, reply: bytes) -> None:
    assert _bytes(connect(), written, size=len(reply)) == reply


def test_a_list_ends_with_its_last_element(connect: Connect) -> None:
    client = connect()
    client.call("RPUSH", "queue", "a")
    assert client.call("LPOP", "queue") == b"a"
    assert client.call("EXISTS", "queue") == 0
    assert client.call("TYPE", "queue") == b"none"


def test_a_blocking_pop_takes_at_once_from_the_first_list_that_has_an_element(connect: Connect) -> None:
    client = connect()
    client.call("RPUSH", "second", "s")
    client.call("RPUSH", "third", "t")
    assert client.call("BLPOP", "first", "second", "third", 0) == [b"second", b"s"]


def test_a_blocking_pop_without_an_element_replies_a_null_array_after_its_time(connect: Connect) -> None:
    client = connect()
    assert _bytes(client, request("BRPOP", "queue", "0.01"), size=5) == b"*-1\r\n"
    assert _bytes(client, request("BLMOVE", "queue", "w", "LEFT", "LEFT", "0.01"), size=5) == b"*-1\r\n"
    assert _bytes(client, request("BLMPOP", "0.01", 1, "queue", "LEFT"), size=5) == b"*-1\r\n"


def test_in_a_transaction_nothing_waits(connect: Connect) -> None:
    client = connect()
    replies = b"+OK\r\n" + b"+QUEUED\r\n" * 3 + b"*3\r\n*-1\r\n$-1\r\n*-1\r\n"
    requests = (
        request("MULTI"),
        request("BLPOP", "queue", 0),
        request("BLMOVE", "queue", "w", "LEFT", "LEFT", 0),
        request("BLMPOP", 0, 1, "queue", "LEFT"),
        request("EXEC"),
    )
    assert _bytes(client, *requests, size=len(replies)) == replies


def test_a_push_wakes_those_who_wait_in_the_order_in_which_they_came(connect: Connect) -> None:
    waiting = [connect() for _ in range(3)]
    for client in waiting:
        number = client.call("CLIENT", "ID")
        client.send("BLPOP", "queue", 0)
        _wait_until_blocked(connect, number)
    assert connect().call("RPUSH", "queue", "a", "b") == 2
    assert [client.read() for client in waiting[:2]] == [[b"queue", b"a"], [b"queue", b"b"]]
    assert not waiting[2].has_reply()
    assert connect().call("RPUSH", "queue", "c") == 1
    assert waiting[2].read() == [b"queue", b"c"]


def test_one_who_waits_for_many_lists_is_served_by_any_of_them_once(connect: Connect) -> None:
    client, producer = connect(), connect()
    number = client.call("CLIENT", "ID")
    client.send("BRPOP", "one", "two", 0)
    _wait_until_blocked(connect, number)
    producer.call("RPUSH", "two", "x")
    producer.call("RPUSH", "one", "y")
    assert client.read() == [b"two", b"x"]
    assert producer.call("LRANGE", "one", 0, -1) == [b"y"]


# Redis serves in the order of the keys since 7.2; Debian 12 has 7.0.
@pytest.mark.parametrize("port", ["listserver", "valkey"], indirect=True)
def test_in_a_transaction_the_order_of_the_keys_decides_and_not_that_of_the_pushes(connect: Connect) -> None:
    client, producer = connect(), connect()
    number = client.call("CLIENT", "ID")
    client.send("BLPOP", "one", "two", 0)
    _wait_until_blocked(connect, number)
    for words in (["MULTI"], ["RPUSH", "two", "x"], ["RPUSH", "one", "y"]):
        producer.call(*words)
    assert producer.call("EXEC") == [1, 1]
    assert client.read() == [b"one", b"y"]


def test_moves_form_a_chain(connect: Connect) -> None:
    first, second, last = connect(), connect(), connect()
    waits: list[tuple[Connection, list[Word]]] = [
        (last, ["BLPOP", "c", 0]),
        (second, ["BLMOVE", "b", "c", "RIGHT", "LEFT", 0]),
        (first, ["BLMOVE", "a", "b", "RIGHT", "LEFT", 0]),
    ]
    for client, words in waits:
        number = client.call("CLIENT", "ID")
        client.send(*words)
        _wait_until_blocked(connect, number)
    assert connect().call("LPUSH", "a", "job") == 1
    assert (first.read(), second.read(), last.read()) == (b"job", b"job", [b"c", b"job"])
    assert connect().call("EXISTS", "a", "b", "c") == 0


def test_a_move_to_another_type_is_an_error_for_who_waited_and_leaves_the_element(connect: Connect) -> None:
    client, producer = connect(), connect()
    producer.call("SET", "target", "text")
    number = client.call("CLIENT", "ID")
    client.send("BLMOVE", "queue", "target", "RIGHT", "LEFT", 0)
    _wait_until_blocked(connect, number)
    assert producer.call("LPUSH", "queue", "job") == 1
    assert client.read().startswith("WRONGTYPE")
    assert producer.call("LRANGE", "queue", 0, -1) == [b"job"]


def test_a_key_of_another_type_wakes_nobody(connect: Connect) -> None:
    client, other = connect(), connect()
    number = client.call("CLIENT", "ID")
    client.send("BLPOP", "queue", 0)
    _wait_until_blocked(connect, number)
    other.call("SADD", "queue", "member")
    other.call("RPUSH", "made", "job")
    assert not client.has_reply()
    other.call("RENAME", "made", "queue")
    assert client.read() == [b"queue", b"job"]


def test_the_reliable_pattern_moves_works_and_acknowledges(connect: Connect) -> None:
    producer, consumer = connect(), connect()
    producer.call("LPUSH", "queue", "job-1", "job-2")
    assert consumer.call("LMOVE", "queue", "processing", "RIGHT", "LEFT") == b"job-1"
    assert consumer.call("LREM", "processing", 1, "job-1") == 1
    assert consumer.call("EXISTS", "processing") == 0
    assert consumer.call("LLEN", "queue") == 1


def test_a_closed_connection_leaves_every_queue(connect: Connect, port: int) -> None:
    gone, stays, producer = connect(), connect(), connect()
    for client in (gone, stays):
        number = client.call("CLIENT", "ID")
        client.send("BLPOP", "one", "two", 0)
        _wait_until_blocked(connect, number)
    address = gone.socket.getsockname()
    gone.socket.shutdown(socket.SHUT_RDWR)
    gone.close()
    deadline_s = time.monotonic() + 30
    while f"addr={address[0]}:{address[1]}".encode() in producer.call("CLIENT", "LIST"):
        assert time.monotonic() < deadline_s
    producer.call("RPUSH", "two", "job")
    assert stays.read() == [b"two", b"job"]


def test_requests_after_one_that_waits_are_answered_after_it(connect: Connect) -> None:
    client, producer = connect(), connect()
    number = client.call("CLIENT", "ID")
    client.socket.sendall(request("BLPOP", "queue", 0) + request("ECHO", "later") + request("LLEN", "queue"))
    _wait_until_blocked(connect, number)
    producer.call("RPUSH", "queue", "a", "b")
    assert [client.read() for _ in range(3)] == [[b"queue", b"a"], b"later", 1]
