"""Requests in pieces, malformed and enormous ones: a bad one costs its own connection and nothing else."""

import gc
import random
import socket

import pytest

from rsmq_tui.listserver import ListServer
from rsmq_tui.listserver.engine import Client
from rsmq_tui.listserver.resp import CommandError, ProtocolError, Requests, encode, number
from tests.listserver.peers import Connection, request


def _read(data: bytes, size: int) -> list[list[bytes]]:
    """Return the requests in ``data``, fed ``size`` bytes at a time."""
    requests, found = Requests(), []
    for start in range(0, len(data), size):
        requests.feed(data[start : start + size])
        while (words := requests.next()) is not None:
            found.append(words)
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_requests_come_in_pieces_of_any_size(size: int) -> None:
    data = (
        request("LPUSH", "queue", b"\r\n$", b"") + b"PING\r\n\r\n*0\r\n*-1\r\n" + b"GET 'a b'\n" + request("LLEN", "q")
    )
    assert _read(data, size) == [[b"LPUSH", b"queue", b"\r\n$", b""], [b"PING"], [b"GET", b"a b"], [b"LLEN", b"q"]]


def test_a_large_value_that_comes_in_many_pieces_is_joined_once() -> None:
    requests = Requests()
    value = b"x" * 1_000_000
    data = request("SET", "key", value)
    for start in range(0, len(data), 1000):
        requests.feed(data[start : start + 1000])
        words = requests.next()
    assert words == [b"SET", b"key", value]
    assert requests.size == 0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        (b"*1\r\n\r\n", "expected '$', got '\r'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"'a\r\n", "unbalanced quotes in request"),
        (b'"a"b\r\n', "unbalanced quotes in request"),
        (b"x" * 70_000, "too big inline request"),
        (b"*" + b"1" * 70_000, "too big mbulk count string"),
        (b"*1\r\n$" + b"1" * 70_000, "too big bulk count string"),
    ],
)
def test_what_is_no_request_is_told_and_ends_its_connection(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        _read(data, 100_000)
    assert str(raised.value) == text
    with ListServer() as server:
        bad, good = Connection(server.port), Connection(server.port)
        bad.socket.sendall(data)
        assert bad.read() == f"ERR Protocol error: {text}".replace("\r", " ")
        with pytest.raises(ConnectionError):
            bad.read()
        assert good.call("PING") == b"PONG"
        bad.close()
        good.close()


@pytest.mark.parametrize(
    ("reply", "in_2", "in_3"),
    [
        (1, b":1\r\n", b":1\r\n"),
        (b"a", b"$1\r\na\r\n", b"$1\r\na\r\n"),
        ("OK", b"+OK\r\n", b"+OK\r\n"),
        (None, b"$-1\r\n", b"_\r\n"),
        (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        ([1, None], b"*2\r\n:1\r\n$-1\r\n", b"*2\r\n:1\r\n_\r\n"),
        ({b"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        ({b"a"}, b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        (CommandError("ERR a\r\nb"), b"-ERR a  b\r\n", b"-ERR a  b\r\n"),
    ],
)
def test_replies_in_both_versions(reply: object, in_2: bytes, in_3: bytes) -> None:
    for version, expected in ((2, in_2), (3, in_3)):
        written: list[bytes] = []
        encode(reply, written.append, version)
        assert b"".join(written) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, b"1"),
        (-0.5, b"-0.5"),
        (1e16, b"10000000000000000"),
        (float("inf"), b"inf"),
        (1760000000.25, b"1760000000.25"),
    ],
)
def test_numbers_are_printed_as_scores(value: float, text: bytes) -> None:
    assert number(value) == text


def fuzz(port: int, *, count: int, seed: int) -> None:
    """Send malformed requests over many connections; fail if the server does not answer others."""
    chance = random.Random(seed)
    witness = Connection(port)
    whole = [
        request("LPUSH", "q", "x"), request("BLPOP", "q", 0), request("MULTI"), b"PING\r\n", request("HELLO", 3),
        request("EVAL", "return 1", 0), request("CLIENT", "REPLY", "SKIP"), b"*3\r\n$3\r\nSET\r\n",
    ]  # fmt: skip
    for sent in range(count):
        data = bytearray(b"".join(chance.choices(whole, k=chance.randint(1, 4))))
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    del data[at : at + chance.randint(1, 5)]
                case 2:
                    data[at:at] = chance.choice([b"\r\n", b"*9999999\r\n", b"$-7\r\n", b"\0" * 9, b"*2\r\n$1\r\n"])
                case _:
                    data[at:at] = chance.randbytes(chance.randint(1, 9))
            data = data or bytearray(b"\n")
        with socket.create_connection(("127.0.0.1", port)) as bad:
            bad.sendall(bytes(data))
        if sent % 100 == 99:
            assert witness.call("PING") == b"PONG"
    assert witness.call("PING") == b"PONG"
    witness.close()


def test_malformed_requests_end_their_own_connections_and_nothing_else() -> None:
    with ListServer() as server:
        fuzz(server.port, count=600, seed=1)
        client = Connection(server.port)
        while server.do(lambda: len(server.engine.clients)) > 1:
            assert client.call("PING") == b"PONG"
        assert server.engine.blocking.clients == 0
        assert not server.engine.blocking.queues
        client.close()


def test_refused_requests_keep_nothing_of_their_connections() -> None:
    refused = [("CLIENT", "REPLY", "MAYBE"), ("LSET", "none", 0, "x"), ("NIX",), ("LPUSH",), ("LRANGE", "a", "b", "c")]
    with ListServer() as server:
        for words in refused:
            connection = Connection(server.port)
            assert connection.call(*words).startswith("ERR")
            connection.close()
        while server.do(lambda: len(server.engine.clients)):
            pass
        # The call in which the last of them was removed has ended when this one is made.
        server.do(gc.collect)
        kept = [each for each in gc.get_objects() if isinstance(each, Client) and each.server is server.engine]
        assert not kept
