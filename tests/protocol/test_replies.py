"""Replies of the wrong shape are told as the server's; mistakes of our own are not."""

import re
import socketserver
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq_tui.protocol import SERVER_ERRORS, AsyncRsmq, PageRequest, Rsmq, RsmqError, RsmqReader, defect_of
from rsmq_tui.protocol.connections.connect import Traffic, connect, connect_async
from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.replies import decode, decoded
from rsmq_tui.protocol.rsmq import operations
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import FieldEdit, LooseBatch, LooseKind
from tests.hostile.liar import LIES, Liar
from tests.protocol.responder import FakeServer, Responder

REFUSALS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)
_WRONG: tuple[tuple[tuple[Any, ...], Any], ...] = (
    (("ZCARD", b"k"), b"7"),
    (("ZCARD", b"k"), -1),
    (("ZCARD", b"k"), 1 << 60),
    (("ZCARD", b"k"), True),
    (("ZCARD", b"k"), 1.5),
    (("ZCARD", b"k"), None),
    (("HMGET", b"k", b"a", b"b"), [b"1"]),
    (("HMGET", b"k", b"a"), [1]),
    (("HMGET", b"k", b"a"), [ResponseError("inner")]),
    (("ZRANGE", b"k", 0, 1, "WITHSCORES"), [b"a", b"1", b"b"]),
    (("ZRANGE", b"k", 0, 1, "WITHSCORES"), [b"a", b"nan"]),
    (("ZRANGE", b"k", 0, 1, "WITHSCORES"), [b"a", b"x"]),
    (("ZRANGE", b"k", 0, 1), [[b"a"]]),
    (("ZSCAN", b"k", 0), [b"0"]),
    (("ZSCAN", b"k", 0), [b"-1", []]),
    (("ZSCAN", b"k", 0), [b"9" * 30, []]),
    (("SCAN", 0), [b"0", b"a"]),
    (("TYPE", b"k"), b"\xff"),
    (("TIME",), [b"0", b"0"]),
    (("TIME",), [b"-5", b"0"]),
    (("TIME",), [b"99999999999999", b"0"]),
    (("TIME",), [b"1763820000", b"1000000"]),
    (("TIME",), [b"9" * 5_000, b"0"]),
    (("TIME",), [b"1763820000"]),
    (("TIME",), b"1763820000"),
)


@pytest.mark.parametrize(("command", "reply"), _WRONG, ids=repr)
def test_a_reply_of_another_shape_is_the_servers_fault(command: tuple[Any, ...], reply: Any) -> None:
    with pytest.raises(InvalidResponse) as raised:
        decode(command, reply)
    assert len(str(raised.value)) < 200


def test_replies_as_they_should_be() -> None:
    assert decode(("ZCARD", b"k"), 7) == 7
    assert decode(("HMGET", b"k", b"a", b"b"), [b"1", None]) == [b"1", None]
    assert decode(("TIME",), [b"1763820000", b"999999"]) == (1_763_820_000, 999_999)
    assert decode(("ZRANGE", b"k", 0, 0, "WITHSCORES"), [b"a", b"-inf"]) == [b"a", b"-inf"]
    assert decode(("SOMETHING", b"k"), {1.5: True}) == {1.5: True}
    error = ResponseError("WRONGTYPE")
    assert decode(("ZCARD", b"k"), error) is error


def _broken(*arguments: object) -> Any:
    raise TypeError("a builder with a defect")


def test_a_defect_in_what_builds_an_operation_is_no_reply(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rsmq_tui.protocol.validation.queue_name", _broken)
    with pytest.raises(TypeError, match="a builder with a defect"):
        Rsmq(client).get_queue_attributes("q")


def test_operations_decode_their_replies() -> None:
    with Responder(b"+OK") as liar, connect(liar.url) as client, pytest.raises(InvalidResponse):
        Rsmq(client).get_queue_attributes("q")
    assert decoded(int, b"5") == 5
    with pytest.raises(InvalidResponse):
        operations.get_queue_attributes(Keys("rsmq"), "q").decode([1, 2])


@pytest.mark.parametrize("reply", [b"", b"d", b"ddd", b"dx", b"d\xff", b"dg;0:1::", 2, None, [b"d", b"d"]], ids=repr)
def test_the_outcome_of_a_change_has_a_letter_for_each_edit(reply: Any) -> None:
    fields = tuple(FieldEdit(name, b"1", None) for name in (b"a", b"b"))
    operation = LooseBatch(LooseKind.STRAY, "q", fields).operation(Keys("rsmq"), b"marker")
    assert operation.decode(b"dg") == "dg"
    with pytest.raises(InvalidResponse):
        operation.decode(reply)


async def test_operations_decode_their_replies_in_asyncio() -> None:
    with Responder(b":5") as liar:
        async with connect_async(liar.url) as client:
            with pytest.raises(InvalidResponse):
                await AsyncRsmq(client).receive_message("q")


class _Halting(FakeServer):
    """Sends a body in two halves; the second one when ``go_on`` is set. It answers everything else with +OK."""

    def __init__(self) -> None:
        self.go_on = go_on = threading.Event()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                while data := self.request.recv(65_536):
                    if b"HGET" not in data:
                        self.request.sendall(b"+OK\r\n" * len(re.findall(rb"\*\d+\r\n", data)))
                        continue
                    self.request.sendall(b"$8\r\nhalf")
                    go_on.wait()
                    self.request.sendall(b"body\r\n")

        super().__init__(Handler)


async def test_a_long_reply_has_time_while_more_of_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its parts are looked for less often: within this timeout it would not be read.
    monkeypatch.setattr("rsmq_tui.protocol.connections.script_runner._ARRIVED_S", 0.6)
    with _Halting() as server:
        async with connect_async(server.url, timeout_s=0.5) as client:
            arrived: list[int] = []

            def take(bytes_: int) -> None:
                arrived.append(bytes_)
                server.go_on.set()

            runner = ScriptRunner(client.connection_pool, Traffic())
            assert await runner.ask_long(take, ("HGET", b"q", b"id")) == b"halfbody"
            assert arrived[0] == len(b"$8\r\nhalf")
            server.go_on.clear()
            try:
                with pytest.raises(RedisTimeoutError):
                    await runner.ask_long(arrived.append, ("HGET", b"q", b"id"))
            finally:
                server.go_on.set()


@pytest.fixture
async def reader(redis_url: str) -> AsyncIterator[RsmqReader]:
    reader = RsmqReader(redis_url)
    yield reader
    await reader.aclose()


async def test_a_defect_in_a_read_surfaces_as_itself(reader: RsmqReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rsmq_tui.protocol.rsmq.pages.name_bytes", _broken)
    monkeypatch.setattr("rsmq_tui.protocol.rsmq.reader.clock_ms", _broken)
    monkeypatch.setattr("rsmq_tui.protocol.rsmq.inspection._look_of", _broken)
    with pytest.raises(TypeError, match="defect"):
        await reader.pages.message("q", "x" * 32)
    with pytest.raises(TypeError, match="defect") as raised:
        await reader.rows.index()
    with pytest.raises(TypeError, match="defect"):
        await reader.inspection.looks(["q"])
    failure = defect_of(raised.value)
    # What an error says may be a password, or come from a server.
    assert failure.kind == "defect"
    assert "a builder" not in failure.sentence
    assert "a defect in rsmq-tui: TypeError in protocol" in failure.sentence.replace("\\", "/")


@pytest.mark.parametrize("lie", sorted(set(LIES) - {"drip", "nothing", "pushes", "garbage", "terabyte"}))
async def test_every_read_of_a_lie_raises_an_error_of_redis(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each read would take in 600 MB before it refuses, and the process would keep them.
    monkeypatch.setattr("rsmq_tui.protocol.connections.reply_limits.REPLY_BYTES_MAX", 2_000_000)
    with Liar(lie) as liar:
        reader, editor = RsmqReader(liar.url, timeout_s=0.5), RsmqEditor(liar.url, timeout_s=0.5)
        lists = ListReader(liar.url, ListNames(), ["a", "b*"], timeout_s=0.5)
        asked = (
            reader.rows.index,
            lambda: reader.rows.receive_counts(["q"], 1_763_820_000_000, 5, 50),
            lambda: reader.pages.page(PageRequest("q", count=10)),
            lambda: reader.pages.message("q", "x" * 32),
            lambda: reader.pages.due_counts("q", (1, 2)),
            reader.inspection.clock_ms,
            lambda: reader.inspection.looks(["q"]),
            lambda: reader.inspection.members("q", [b"a"]),
            lambda: reader.inspection.belongings("q", [b"a"]),
            lambda: reader.inspection.values("q", [b"a"]),
            lambda: anext(reader.inspection.fields("q")),
            reader.ranges.now_ms,
            lambda: reader.ranges.sizes(["q"]),
            lambda: reader.ranges.can_split("q"),
            lambda: reader.ranges.depth("q"),
            lambda: reader.bodies.messages("q", [b"a"], [b"b"]),
            reader.namespaces,
            lists.rows.index,
            lambda: lists.pages.page(PageRequest("a", count=10)),
            lambda: lists.pages.item("a", f"q:0:{'a' * 40}"),
            lambda: lists.pages.due_counts("a", (1, 2)),
            lambda: lists.leases.types("a"),
            lambda: lists.leases.processing("a"),
            lists.discovery.search,
            lists.blocked,
            editor.clock_us,
            editor.clock_and_run_id,
            lambda: editor.fields("q"),
            lambda: editor.messages("q", [b"a", b"b"]),
            lambda: editor.messages("q", [b"a", b"b"], bodies=False),
            lambda: editor.values("q", [b"a"]),
            lambda: anext(editor.stray_fields("q")),
            lambda: anext(editor.field_values("q", {b"a": 1})),
            lambda: editor.settle("0" * 24),
            lambda: editor.forget(["0" * 24]),
            lambda: editor.expire(["0" * 24]),
        )
        for ask in asked:
            # A lie may happen to be a possible answer; nothing but the server's own errors may come of it.
            try:
                await ask()
            except REFUSALS:
                continue
        for each in (reader, editor, lists):
            await each.aclose()
