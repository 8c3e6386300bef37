"""What a page, a message and the due counts say to a screen."""

from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import MessageRow, MessageState, PageRequest, PeekError, RsmqPoller
from rsmq_tui.protocol import Anchor, Rsmq, RsmqReader
from tests.protocol.keyspace import now_ms, plant

WRONG_TYPE = r"^A key of this queue holds another type of value$"


@pytest.fixture
def queues(client: redis.Redis) -> Rsmq:
    queues = Rsmq(client)
    queues.create_queue("q")
    return queues


class TestStates:
    async def test_of_canonical_messages(self, queues: Rsmq, poller: RsmqPoller) -> None:
        queues.send_message("q", "received")
        received = queues.receive_message("q", vt=60)
        ready = queues.send_message("q", "ready")
        delayed = queues.send_message("q", "delayed", delay=120)
        page = await poller.peek(PageRequest("q"))

        assert received is not None
        assert [(row.id, row.state, row.rc) for row in page.rows] == [
            (ready, MessageState.READY, 0),
            (received.id, MessageState.IN_FLIGHT, 1),
            (delayed, MessageState.DELAYED, 0),
        ]
        assert (page.depth, page.ready, page.start) == (3, 1, 0)

    async def test_a_message_that_came_back_is_ready(self, queues: Rsmq, poller: RsmqPoller) -> None:
        queues.send_message("q", "x")
        queues.receive_message("q", vt=0)
        (row,) = (await poller.peek(PageRequest("q"))).rows

        assert (row.state, row.rc) == (MessageState.READY, 1)

    @pytest.mark.parametrize(
        ("score", "rc", "state", "due_ms"),
        [
            ("-inf", 0, MessageState.READY, 0),
            ("0", 0, MessageState.READY, 0),
            ("1750000000", 0, MessageState.READY, 1_750_000_000_000),
            ("1750000000000000", 0, MessageState.READY, 1_750_000_000_000),
            ("4000000000", 0, MessageState.DELAYED, 4_000_000_000_000),
            ("4000000000000000", 2, MessageState.IN_FLIGHT, 4_000_000_000_000),
            ("inf", 0, MessageState.DELAYED, None),
            ("inf", 3, MessageState.IN_FLIGHT, None),
        ],
    )
    async def test_of_odd_scores(
        self, client: redis.Redis, poller: RsmqPoller, score: Any, rc: int, state: MessageState, due_ms: float | None
    ) -> None:
        plant(client, "q", "x" * 32, due_ms=score, body="x", rc=rc)
        (row,) = (await poller.peek(PageRequest("q"))).rows

        assert (row.state, row.due_ms) == (state, due_ms)

    def test_are_words(self) -> None:
        assert [state.value for state in MessageState] == ["ready", "in flight", "delayed", "expired", "no lease"]


async def test_a_row_says_all_there_is(queues: Rsmq, poller: RsmqPoller, client: redis.Redis) -> None:
    before_ms = now_ms(client)
    identity = queues.send_message("q", "hello")
    received = queues.receive_message("q", vt=60)
    page = await poller.peek(PageRequest("q"))
    (row,) = page.rows

    assert received is not None
    assert row == MessageRow(
        id=identity,
        score=row.score,
        state=MessageState.IN_FLIGHT,
        due_ms=float(row.score),
        sent_ms=received.sent_ms,
        rc=1,
        fr_ms=received.fr_ms,
        size=5,
        preview=b"hello",
    )
    assert row.sent_ms is not None
    assert before_ms <= row.sent_ms <= page.at_ms
    assert row.due_ms is not None
    assert page.at_ms < row.due_ms <= page.at_ms + 60_000
    assert row.anchor == Anchor(row.score, identity)


async def test_a_missing_body_is_none_and_an_empty_one_is_not(client: redis.Redis, poller: RsmqPoller) -> None:
    plant(client, "q", "a" * 32, due_ms=1)
    plant(client, "q", "b" * 32, due_ms=2, body="")
    rows = (await poller.peek(PageRequest("q"))).rows

    assert [(row.preview, row.size) for row in rows] == [(None, 0), (b"", 0)]


async def test_a_long_body_has_a_size_and_may_have_no_preview(client: redis.Redis, poller: RsmqPoller) -> None:
    plant(client, "q", "a" * 32, due_ms=1, body=b"[" + b"x" * 999_999)
    plant(client, "q", "b" * 32, due_ms=2, body=b"x" * 2_000_000)
    first, second = (await poller.peek(PageRequest("q"))).rows
    whole = await poller.read("q", "b" * 32)

    assert (first.size, first.preview) == (1_000_000, b"[" + b"x" * 239)
    assert (second.size, second.preview) == (2_000_000, b"")
    assert (whole.size, whole.body) == (2_000_000, b"x" * 2_000_000)


class TestEnds:
    @pytest.fixture(autouse=True)
    def six_messages(self, client: redis.Redis) -> None:
        """Three ready and three hidden."""
        for number, letter in enumerate("abc"):
            plant(client, "q", letter * 32, due_ms=number)
        for number, letter in enumerate("xyz"):
            plant(client, "q", letter * 32, due_ms=4_000_000_000_000 + number)

    @pytest.mark.parametrize(
        ("request_", "is_first", "is_last"),
        [
            (PageRequest("q", count=6), True, True),
            (PageRequest("q", count=2), True, False),
            (PageRequest("q", where="last", count=2), False, True),
            (PageRequest("q", where="at", anchor=Anchor("1", "b" * 32), count=2), False, False),
            (PageRequest("q", "ready", count=3), True, True),
            (PageRequest("q", "ready", count=2), True, False),
            (PageRequest("q", "ready", "last", count=2), False, True),
            (PageRequest("q", "hidden", count=3), True, True),
            (PageRequest("q", "hidden", count=2), True, False),
            (PageRequest("q", "hidden", "last", count=2), False, True),
            (PageRequest("nowhere"), True, True),
            (PageRequest("nowhere", "hidden", "last"), True, True),
        ],
    )
    async def test_are_known(self, poller: RsmqPoller, request_: PageRequest, is_first: bool, is_last: bool) -> None:
        page = await poller.peek(request_)

        assert (page.is_first, page.is_last) == (is_first, is_last)
        assert page.request is request_

    async def test_are_reached_by_walking(self, poller: RsmqPoller) -> None:
        page = await poller.peek(PageRequest("q", count=4))
        seen = [row.id[0] for row in page.rows]
        while not page.is_last:
            page = await poller.peek(PageRequest("q", where="after", anchor=page.rows[-1].anchor, count=4))
            seen += [row.id[0] for row in page.rows]

        assert seen == ["a", "b", "c", "x", "y", "z"]


class TestOneMessage:
    async def test_whole(self, queues: Rsmq, poller: RsmqPoller) -> None:
        identity = queues.send_message("q", "x" * 500)
        (row,) = (await poller.peek(PageRequest("q"))).rows
        view = await poller.read("q", identity)

        assert (view.id, view.body, view.size) == (identity, b"x" * 500, 500)
        assert view.row is not None
        assert (view.row.id, view.row.score, view.row.state) == (row.id, row.score, row.state)
        assert view.at_ms >= row.sent_ms if row.sent_ms else False

    async def test_that_was_deleted(self, queues: Rsmq, poller: RsmqPoller) -> None:
        identity = queues.send_message("q", "x")
        queues.delete_message("q", identity)
        view = await poller.read("q", identity)

        assert (view.row, view.body, view.size) == (None, None, 0)

    async def test_of_a_queue_that_was_deleted(self, queues: Rsmq, poller: RsmqPoller) -> None:
        identity = queues.send_message("q", "x")
        queues.delete_queue("q")

        assert (await poller.read("q", identity)).row is None
        assert (await poller.peek(PageRequest("q"))).rows == ()
        assert {count for _, count in await poller.due("q", 0)} == {0}

    async def test_without_a_body(self, client: redis.Redis, poller: RsmqPoller) -> None:
        plant(client, "q", "a" * 32, due_ms=1, rc=3)
        view = await poller.read("q", "a" * 32)

        assert view.row is not None
        assert (view.row.rc, view.row.preview, view.body) == (3, None, None)


async def test_due_counts_have_labels(client: redis.Redis, poller: RsmqPoller) -> None:
    at_ms = 1_750_000_000_000
    due_ms = [-5, 0, 1, 10_000, 10_001, 60_000, 600_000, 3_600_000, 3_600_001, 10**15]
    for number, after_ms in enumerate(due_ms):
        plant(client, "q", f"{number:032d}", due_ms=at_ms + after_ms)

    assert await poller.due("q", at_ms) == (
        ("now", 2),
        ("< 10 s", 2),
        ("< 1 min", 2),
        ("< 10 min", 1),
        ("< 1 h", 1),
        ("later", 2),
    )


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("key", ["rsmq:q", "rsmq:q:Q"])
async def test_wrong_types_are_told_in_words(client: redis.Redis, redis_url: str, key: str, plainly: bool) -> None:
    client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])
    plant(client, "q", "a" * 32, due_ms=1, body="x")
    client.delete(key)
    client.set(key, "x")
    url = redis_url.replace("redis://", "redis://plain:x@") if plainly else redis_url
    async with aclosing(RsmqReader(url)) as reader:
        poller = RsmqPoller(reader)
        with pytest.raises(PeekError, match=WRONG_TYPE):
            await poller.peek(PageRequest("q"))
        with pytest.raises(PeekError, match=WRONG_TYPE):
            await poller.read("q", "a" * 32)
        if key == "rsmq:q":
            with pytest.raises(PeekError, match=WRONG_TYPE):
                await poller.due("q", 0)


async def test_looks_go_to_the_namespace_that_is_watched(client: redis.Redis, poller: RsmqPoller) -> None:
    for ns in ("rsmq", "other"):
        Rsmq(client, ns).create_queue("q")
        Rsmq(client, ns).send_message("q", ns)
    here = (await poller.peek(PageRequest("q"))).rows
    poller.switch("other")
    await poller.poll()
    there = (await poller.peek(PageRequest("q"))).rows

    assert [here[0].preview, there[0].preview] == [b"rsmq", b"other"]
