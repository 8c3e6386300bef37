"""Replies of a server that lies: refused before they take memory, and all others read as hiredis reads them."""

import platform
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.exceptions import InvalidResponse, RedisError

from rsmq_tui.protocol.connections import reply_limits
from rsmq_tui.protocol.connections.connect import connect, connect_async
from rsmq_tui.protocol.connections.reply_limits import ELEMENTS_MAX, PUSHES_MAX, REPLY_BYTES_MAX, ReplyReader
from tests.allocator import heap
from tests.hostile.liar import Liar

# No reply of these tests that is refused may take more.
_MEMORY_MAX = 100_000_000
_BODIES = (b"", b"a", b"*1000000000\r\n", b"\n*1000000000\r\n*5", b"~9999\r\n" * 3, b"x" * 3_000, b"\r\n>100\r\n:1\r\n")


def _reader() -> ReplyReader:
    reader = hiredis.Reader(protocolError=InvalidResponse, notEnoughData=NOT_ENOUGH_DATA)
    return ReplyReader(reader)


def _fed(reader: ReplyReader, chunks: Iterator[bytes]) -> list[Any]:
    replies = []
    for chunk in chunks:
        reader.feed(chunk)
        while (reply := reader.gets()) is not NOT_ENOUGH_DATA:
            replies.append(reply)
    return replies


def _chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _packed(value: Any) -> bytes:
    match value:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(value), value)
        case _:
            return b"*%d\r\n%s" % (len(value), b"".join(map(_packed, value)))


_SCALARS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from(_BODIES) | st.binary(max_size=40)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=5), max_leaves=20)


@given(st.lists(_VALUES, max_size=8), st.integers(1, 400))
def test_honest_replies_are_what_hiredis_reads(values: list[Any], size: int) -> None:
    reader = _reader()
    assert _fed(reader, _chunks(b"".join(map(_packed, values)), size)) == values
    assert not reader.has_data()


@pytest.mark.parametrize("size", [7, 100, 65_536])
def test_large_honest_replies(size: int) -> None:
    value = [b"n%d" % number for number in range(5_000)], [[body] * 150 for body in _BODIES]
    assert _fed(_reader(), _chunks(_packed(value), size)) == [[value[0], value[1]]]


def test_an_array_of_many_names_may_be_real() -> None:
    reader = _reader()
    (reply,) = _fed(reader, _chunks(b"*1200000\r\n" + b"$1\r\na\r\n" * 1_200_000, 65_536))
    assert len(reply) == 1_200_000


def test_a_body_of_line_ends_may_be_real() -> None:
    body = b"\n*9\r\n" * 4_000_000
    assert _fed(_reader(), _chunks(_packed([body]), 65_536)) == [[body]]


LIES: dict[str, Callable[[], Iterator[bytes]]] = {
    "a billion elements": lambda: iter([b"*1000000000\r\n"]),
    "a billion elements within an array": lambda: iter([b"*2\r\n:1\r\n*1000000000\r\n"]),
    "a billion elements in halves": lambda: iter([b"*10000", b"00000\r", b"\n"]),
    "a billion elements behind a reply": lambda: iter([b"+OK\r\n*1000000000\r\n"]),
    "a billion in a set": lambda: iter([b"~1000000000\r\n"]),
    "a billion in a map": lambda: iter([b"%1000000000\r\n"]),
    "a billion in a push": lambda: iter([b">1000000000\r\n"]),
    "a billion attributes": lambda: iter([b"|1000000000\r\n"]),
    "many nested arrays of a million": lambda: _chunks(b"*1000000\r\n" * 1_000, 4_096),
    "many nested arrays of 99": lambda: _chunks(b"*99\r\n" * 2_000_000, 65_536),
    "more elements than any key has": lambda: iter([b"*%d\r\n" % (ELEMENTS_MAX + 1)]),
    "a body of a terabyte": lambda: iter([b"$999999999999\r\n", b"x"]),
    "an endless line": lambda: _chunks(b"+" + b"x" * 3_000_000, 65_536),
    "a map of arrays": lambda: iter([b"%1\r\n*0\r\n:1\r\n"]),
    "garbage": lambda: iter([b"\x00garbage\r\n"]),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_no_server_sends_is_refused(lie: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidResponse) as raised:
            _fed(_reader(), LIES[lie]())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(str(raised.value)) < 200
    assert peak < _MEMORY_MAX


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc tells what is allocated")
def test_the_buffer_of_a_long_reply_does_not_stay_until_the_next_one() -> None:
    reader, body = _reader(), _packed(b"x" * 8_000_000)
    before = heap().used_bytes
    for chunk in _chunks(body, 65_536):
        reader.feed(chunk)
        reply = reader.gets()
    del reply
    assert heap().used_bytes - before < 1_000_000
    assert _fed(reader, iter([b":1\r\n+ok\r\n"])) == [1, b"ok"]


def test_a_reply_is_bounded_in_bytes() -> None:
    assert _reader().bytes_max == REPLY_BYTES_MAX > 512_000_000
    reader = _reader()
    reader.bytes_max = 1_000_000
    with pytest.raises(InvalidResponse, match="1,000,000 bytes"):
        _fed(reader, _chunks(b"*9\r\n" + _packed(b"x" * 400_000) * 9, 65_536))
    # Of each, not of all.
    reader = _reader()
    reader.bytes_max = 1_000_000
    assert len(_fed(reader, _chunks(_packed(b"x" * 400_000) * 9, 65_536))) == 9


def test_a_reply_is_bounded_in_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_limits, "ELEMENTS_MAX", 100_000)
    with pytest.raises(InvalidResponse, match="elements"):
        _fed(_reader(), _chunks(_packed([[[1] * 90] * 90] * 90), 65_536))


def test_pushes_are_taken_one_after_another_and_no_more_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _reader()
    taken: list[Any] = []
    reader.take_push = taken.append
    (reply,) = _fed(reader, iter([b">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n" * 20_000 + b":7\r\n"]))
    assert (reply, len(taken)) == (7, 20_000)
    assert PUSHES_MAX > 20_000
    monkeypatch.setattr(reply_limits, "PUSHES_MAX", 1_000)
    with pytest.raises(InvalidResponse, match="unrequested push"):
        _fed(reader, iter([b">1\r\n+x\r\n" * 2_000]))


def test_pushes_may_be_cut_anywhere() -> None:
    push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n"
    data = push * 1_000 + b"*1\r\n:7\r\n"
    for cut in range(len(push) * 990, len(push) * 991 + 1):
        reader = _reader()
        taken: list[Any] = []
        reader.take_push = taken.append
        assert _fed(reader, iter([data[:cut], data[cut:]])) == [[7]], cut
        assert taken == [[b"invalidate", [b"a"]]] * 1_000


@pytest.mark.parametrize("lie", ["pushes", "billion", "drip", "deep", "terabyte"])
async def test_connections_of_both_kinds_end_in_an_error_of_redis(lie: str) -> None:
    with Liar(lie) as liar:
        with connect(liar.url, timeout_s=0.5) as client, pytest.raises(RedisError):
            _ping(client.execute_command("PING"))
        async with connect_async(liar.url, timeout_s=0.5) as other:
            with pytest.raises(RedisError):
                _ping(await other.execute_command("PING"))


def _ping(reply: Any) -> None:
    if reply != b"PONG":
        raise InvalidResponse("no PONG")
