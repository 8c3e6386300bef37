"""PyRSMQ 0.6.1 on the same server: what ours writes it reads, and the other way round."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis
from rsmq import RedisSMQ
from rsmq.cmd.exceptions import NoMessageInQueue, QueueAlreadyExists, QueueDoesNotExist

from rsmq_tui.protocol import Message, RsmqError
from tests.protocol.conftest import MakeQueues
from tests.protocol.either import Either
from tests.protocol.keyspace import masked, printed

CANONICAL_ID = re.compile(r"[a-zA-Z0-9:]{32}")


class Peer:
    """PyRSMQ with its operations as plain calls."""

    def __init__(self, connected: Redis, ns: str = "rsmq") -> None:
        self._rsmq = RedisSMQ(client=connected, ns=ns)

    def __call__(self, operation: str, **parameters: Any) -> Any:
        return getattr(self._rsmq, operation)(**parameters).execute()


@pytest.fixture
def decoding(redis_url: str) -> Iterator[Redis]:
    """The kind of client that PyRSMQ makes by default."""
    with Redis.from_url(redis_url, decode_responses=True) as connected:
        yield connected


@pytest.fixture
def peer(decoding: Redis) -> Peer:
    return Peer(decoding)


# Ours writes, PyRSMQ reads.


async def test_pyrsmq_lists_and_describes_a_queue_of_ours(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders", vt=15, delay=5, maxsize=2048)

    assert peer("listQueues") == {"orders"}
    described = peer("getQueueAttributes", qname="orders")
    ours = await queues.get_queue_attributes("orders")
    assert described == {name: getattr(ours, name) for name in described}
    assert (described["vt"], described["delay"], described["maxsize"]) == (15, 5, 2048)


async def test_pyrsmq_does_not_create_a_queue_of_ours_again(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders")

    with pytest.raises(QueueAlreadyExists):
        peer("createQueue", qname="orders")


async def test_pyrsmq_sees_the_attributes_that_ours_set(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders")
    await queues.set_queue_attributes("orders", vt=7, delay=8, maxsize=-1)

    described = peer("getQueueAttributes", qname="orders")
    assert (described["vt"], described["delay"], described["maxsize"]) == (7, 8, -1)


async def test_pyrsmq_receives_what_ours_sent(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders")
    ids = [await queues.send_message("orders", "grüße 😀"), *await queues.send_messages("orders", ["b", "c"])]

    received = [peer("receiveMessage", qname="orders") for _ in ids]

    assert [message["id"] for message in received] == ids
    assert [message["message"] for message in received] == ["grüße 😀", "b", "c"]
    assert [message["rc"] for message in received] == [1, 1, 1]


async def test_pyrsmq_keeps_to_the_delay_that_ours_sent_with(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders")
    await queues.send_message("orders", "later", delay=600)

    with pytest.raises(NoMessageInQueue):
        peer("receiveMessage", qname="orders")


async def test_pyrsmq_does_not_get_what_ours_is_working_on_until_ours_shows_it_again(
    queues: Either, peer: Peer
) -> None:
    await queues.create_queue("orders")
    message_id = await queues.send_message("orders", "a")
    ours = await queues.receive_message("orders")
    with pytest.raises(NoMessageInQueue):
        peer("receiveMessage", qname="orders")

    await queues.change_message_visibility("orders", message_id, 0)

    assert peer("receiveMessage", qname="orders") == {"id": message_id, "message": "a", "rc": 2, "ts": ours.fr_ms}


async def test_pyrsmq_pops_deletes_and_rehides_what_ours_sent(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders")
    popped, deleted, hidden = await queues.send_messages("orders", ["a", "b", "c"])

    assert peer("popMessage", qname="orders")["id"] == popped
    assert (await queues.receive_message("orders")).id == deleted
    assert peer("deleteMessage", qname="orders", id=deleted) is True
    assert peer("changeMessageVisibility", qname="orders", id=hidden, vt=600) is True

    found = await queues.get_queue_attributes("orders")
    assert (found.msgs, found.hiddenmsgs, found.totalsent, found.totalrecv) == (1, 1, 3, 2)


async def test_pyrsmq_no_longer_finds_what_ours_removed(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders")
    first = await queues.send_message("orders", "a")
    await queues.send_message("orders", "b")
    await queues.delete_message("orders", first)
    await queues.pop_message("orders")

    with pytest.raises(NoMessageInQueue):
        peer("receiveMessage", qname="orders")
    assert peer("getQueueAttributes", qname="orders")["msgs"] == 0

    await queues.delete_queue("orders")
    assert peer("listQueues") == set()
    with pytest.raises(QueueDoesNotExist):
        peer("getQueueAttributes", qname="orders")


# PyRSMQ writes, ours reads.


async def test_ours_lists_and_describes_a_queue_of_pyrsmq(queues: Either, peer: Peer) -> None:
    peer("createQueue", qname="orders", vt=15, delay=5)

    found = await queues.get_queue_attributes("orders")

    assert await queues.list_queues() == ["orders"]
    assert (found.vt, found.delay, found.maxsize, found.msgs) == (15, 5, 65_565, 0)
    with pytest.raises(RsmqError, match="Queue exists"):
        await queues.create_queue("orders")


async def test_ours_reads_the_fractions_that_pyrsmq_writes_as_whole_seconds(queues: Either, peer: Peer) -> None:
    peer("createQueue", qname="orders", vt=15.5, delay=0.5)
    peer("sendMessage", qname="orders", message="a", delay=0)

    found = await queues.get_queue_attributes("orders")

    assert (found.vt, found.delay) == (15, 0)
    assert (await queues.receive_message("orders")).body == b"a"


async def test_ours_receives_what_pyrsmq_sent(queues: Either, peer: Peer) -> None:
    peer("createQueue", qname="orders")
    bodies = ["grüße 😀", "b", {"json": [1, "é"]}]
    ids = [peer("sendMessage", qname="orders", message=body) for body in bodies]

    received = await queues.receive_messages("orders", 10)

    assert [message.id for message in received] == ids
    assert [message.body for message in received] == ["grüße 😀".encode(), b"b", b'{"json": [1, "\\u00e9"]}']
    assert [message.sent_ms for message in received] == [int(value[:10], 36) // 1000 for value in ids]


async def test_ours_keeps_to_delays_and_receives_of_pyrsmq(queues: Either, peer: Peer) -> None:
    peer("createQueue", qname="orders")
    peer("sendMessage", qname="orders", message="later", delay=600)
    message_id = peer("sendMessage", qname="orders", message="a")
    theirs = peer("receiveMessage", qname="orders")
    assert await queues.receive_message("orders") is None

    peer("changeMessageVisibility", qname="orders", id=message_id, vt=0)

    ours = await queues.receive_message("orders")
    assert ours == Message(message_id, b"a", 2, theirs["ts"], int(message_id[:10], 36) // 1000)


async def test_ours_pops_deletes_and_rehides_what_pyrsmq_sent(queues: Either, peer: Peer) -> None:
    peer("createQueue", qname="orders")
    popped, deleted, hidden = (peer("sendMessage", qname="orders", message=body) for body in "abc")

    assert (await queues.pop_message("orders")).id == popped
    assert await queues.delete_message("orders", deleted) is True
    assert await queues.change_message_visibility("orders", hidden, 600) is True

    described = peer("getQueueAttributes", qname="orders")
    assert (described["msgs"], described["hiddenmsgs"]) == (1, 1)
    assert (described["totalsent"], described["totalrecv"]) == (3, 1)


async def test_ours_sees_what_pyrsmq_changed_and_removed(queues: Either, peer: Peer) -> None:
    peer("createQueue", qname="orders")
    message_id = peer("sendMessage", qname="orders", message="a")
    peer("setQueueAttributes", qname="orders", vt=7, maxsize=2048)
    peer("receiveMessage", qname="orders")
    peer("deleteMessage", qname="orders", id=message_id)

    found = await queues.get_queue_attributes("orders")
    assert (found.vt, found.maxsize, found.msgs, found.totalsent, found.totalrecv) == (7, 2048, 0, 1, 1)

    peer("deleteQueue", qname="orders")
    with pytest.raises(RsmqError, match="Queue not found"):
        await queues.send_message("orders", "a")


# Side by side.


async def test_ids_of_both_are_canonical_and_sort_together(queues: Either, peer: Peer) -> None:
    await queues.create_queue("orders")
    ids = []
    for _ in range(20):
        ids += [await queues.send_message("orders", "ours"), peer("sendMessage", qname="orders", message="theirs")]

    assert all(CANONICAL_ID.fullmatch(value) for value in ids)
    assert ids == sorted(ids)


@pytest.mark.parametrize("ns", ["rsmq", "rsmq:", "{jobs}", "jöbs 任务"])
async def test_both_leave_the_same_keys_fields_and_order_after_each_step(
    make_queues: MakeQueues, client: Redis, decoding: Redis, ns: str
) -> None:
    ours, theirs = make_queues("ours" + ns), Peer(decoding, "theirs" + ns)

    def keys_of(owner: str) -> dict[str, str]:
        prefix = owner + ns
        found = sorted(key for key in client.scan_iter() if key.startswith(prefix.encode() + b":"))
        readers = {b"set": client.smembers, b"hash": client.hgetall, b"zset": lambda key: client.zrange(key, 0, -1)}
        return {key.decode().removeprefix(prefix): masked(printed(readers[client.type(key)](key))) for key in found}

    def compare() -> None:
        assert keys_of("ours") == keys_of("theirs")

    await ours.create_queue("q", vt=20, delay=0, maxsize=2048)
    theirs("createQueue", qname="q", vt=20, delay=0, maxsize=2048)
    compare()
    mine, other = await ours.send_message("q", "a"), theirs("sendMessage", qname="q", message="a")
    compare()
    await ours.receive_message("q")
    theirs("receiveMessage", qname="q")
    compare()
    await ours.change_message_visibility("q", mine, 0)
    theirs("changeMessageVisibility", qname="q", id=other, vt=0)
    compare()
    await ours.set_queue_attributes("q", vt=21, maxsize=4096)
    theirs("setQueueAttributes", qname="q", vt=21, maxsize=4096)
    compare()
    await ours.receive_message("q")
    theirs("receiveMessage", qname="q")
    compare()
    await ours.delete_message("q", mine)
    theirs("deleteMessage", qname="q", id=other)
    compare()
    await ours.send_message("q", "b")
    theirs("sendMessage", qname="q", message="b")
    await ours.pop_message("q")
    theirs("popMessage", qname="q")
    compare()
    await ours.delete_queue("q")
    theirs("deleteQueue", qname="q")
    compare()
    assert client.keys() == []
