"""What has become of a message that was read before, without its body."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest
import redis

from rsmq_tui.monitor import MessageState, PeekError, RsmqPoller
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import ListQueue, Rsmq, RsmqReader
from rsmq_tui.protocol.lists.naming import ItemId, ItemPlace, ListNames, item_sha
from rsmq_tui.protocol.lists.reader import ListReader

BODY = b"x" * 50_000
QUEUE = "queue:jobs"


@pytest.fixture(params=["by script", "plainly"])
def url(request: pytest.FixtureRequest, client: redis.Redis, redis_url: str) -> str:
    if request.param == "by script":
        return redis_url
    client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])
    return redis_url.replace("redis://", "redis://plain:x@")


@pytest.fixture
async def reader(url: str, client: redis.Redis) -> AsyncIterator[RsmqReader]:
    Rsmq(client).create_queue("q")
    async with aclosing(RsmqReader(url)) as opened:
        yield opened
    client.acl_deluser("plain")


@pytest.fixture
async def lists(url: str, client: redis.Redis) -> AsyncIterator[ListReader]:
    async with aclosing(ListReader(url, ListNames(), [QUEUE])) as opened:
        yield opened
    client.acl_deluser("plain")


def item_id(place: ItemPlace, position: int, item: bytes) -> str:
    return str(ItemId(place, position, item_sha(item)))


def _received(reader: RsmqReader | ListReader) -> int:
    return reader.traffic.bytes_received


async def test_a_message_from_its_sending_to_its_end(client: redis.Redis, reader: RsmqReader) -> None:
    poller, rsmq = RsmqPoller(reader), Rsmq(client)
    id = rsmq.send_message("q", BODY.decode())
    known = await poller.read("q", id)
    before = _received(reader)
    rsmq.receive_message("q", vt=60)
    now = await poller.read_again("q", known)
    assert (now.row and now.row.state, now.row and now.row.rc) == (MessageState.IN_FLIGHT, 1)
    assert (now.body, now.size) == (BODY, len(BODY))
    rsmq.delete_message("q", id)
    gone = await poller.read_again("q", now)
    assert gone == replace(now, at_ms=gone.at_ms, row=None)
    assert _received(reader) - before < len(BODY) + 1_000


async def test_a_body_of_another_length_is_read(client: redis.Redis, reader: RsmqReader) -> None:
    poller = RsmqPoller(reader)
    id = Rsmq(client).send_message("q", "short")
    known = await poller.read("q", id)
    client.hset("rsmq:q:Q", id, "much longer")
    assert (await poller.read_again("q", known)).body == b"much longer"


async def test_a_wrong_type_is_told(client: redis.Redis, reader: RsmqReader) -> None:
    poller = RsmqPoller(reader)
    known = await poller.read("q", Rsmq(client).send_message("q", "x"))
    client.delete("rsmq:q")
    client.set("rsmq:q", "x")
    with pytest.raises(PeekError, match="another type"):
        await poller.read_again("q", known)


async def test_an_item_wherever_it_is_now(client: redis.Redis, lists: ListReader) -> None:
    poller, jobs = ListPoller(lists), ListQueue(client, "jobs")
    jobs.push(BODY)
    known = await poller.read(QUEUE, item_id("queue", 0, BODY))
    assert known.body == BODY
    jobs.take(60_000)
    now = await poller.read_again(QUEUE, known)
    assert now.id.startswith("p:0:")
    assert (now.row and now.row.state, now.body) == (MessageState.IN_FLIGHT, BODY)
    client.delete(f"{QUEUE}:processing")
    gone = await poller.read_again(QUEUE, now)
    assert gone == replace(now, at_ms=gone.at_ms, row=None)


async def test_a_long_body_is_read_when_it_is_asked_for(
    client: redis.Redis, reader: RsmqReader, lists: ListReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("rsmq", "lists"):
        monkeypatch.setattr(f"rsmq_tui.protocol.{kind}.pages.BODY_BYTES_MAX", len(BODY) - 1)
    jobs = ListQueue(client, "jobs")
    jobs.push(b"first", BODY, BODY + b"another", b"last")
    places = {"q": Rsmq(client).send_message("q", BODY.decode()), QUEUE: item_id("queue", 1, BODY)}
    for queue, id in places.items():
        poller = ListPoller(lists) if queue == QUEUE else RsmqPoller(reader)
        known = await poller.read(queue, id)
        assert (known.body, known.size) == (None, len(BODY))
        # An item moves.
        jobs.take(60_000)
        whole = await poller.read_long(queue, known, lambda _: None)
        assert (whole.body, whole.size, whole.row is None) == (BODY, len(BODY), False)
        assert (await poller.read_again(queue, whole)).body == BODY
        client.delete(*(("rsmq:q", "rsmq:q:Q") if queue == "q" else (QUEUE, f"{QUEUE}:processing")))
        gone = await poller.read_long(queue, known, lambda _: None)
        assert (gone.body, gone.row) == (None, None)


async def test_what_is_read_between_two_polls_is_part_of_their_cost(client: redis.Redis, redis_url: str) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "x")
    async with aclosing(RsmqReader(redis_url)) as reader:
        poller = RsmqPoller(reader)
        known = await poller.read("q", id)
        # The messages of a queue are looked at only once, as long as nothing changes.
        for _ in range(3):
            await poller.poll()
        alone = (await poller.poll()).cost
        await poller.read_again("q", known)
        watched = (await poller.poll()).cost
        # First the size of its body; then the time, its score, its fields, and its score again.
        assert watched.commands == alone.commands + 5
        assert watched.bytes > alone.bytes
        assert (await poller.poll()).cost.commands == alone.commands
