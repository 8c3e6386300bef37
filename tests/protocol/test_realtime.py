"""Realtime: senders publish the depth of the queue, as the canonical client's option does."""

from collections.abc import AsyncIterator, Iterator

import pytest
from redis import Redis
from redis.client import PubSub

from rsmq_tui.protocol import AsyncRsmq, Rsmq, connect, connect_async
from tests.protocol.conftest import MakeQueues
from tests.protocol.either import Either


@pytest.fixture
def listener(client: Redis) -> Iterator[PubSub]:
    with client.pubsub() as listener:
        listener.psubscribe("*")
        assert listener.get_message(timeout=5)["type"] == "psubscribe"
        yield listener


def published(client: Redis, listener: PubSub) -> list[tuple[bytes, bytes]]:
    """Everything published until now: what is published after it marks the end."""
    client.publish("end", "")
    found = []
    while (message := listener.get_message(timeout=5))["channel"] != b"end":
        found.append((message["channel"], message["data"]))
    return found


async def test_each_send_publishes_the_depth_once_on_the_queues_channel(
    make_queues: MakeQueues, client: Redis, listener: PubSub
) -> None:
    queues = make_queues(realtime=True)
    await queues.create_queue("orders")

    await queues.send_message("orders", "a")
    await queues.send_message("orders", "b", delay=600)
    await queues.pop_message("orders")
    await queues.send_message("orders", "c")

    assert published(client, listener) == [
        (b"rsmq:rt:orders", b"1"),
        (b"rsmq:rt:orders", b"2"),
        (b"rsmq:rt:orders", b"2"),
    ]


async def test_only_sends_publish(make_queues: MakeQueues, client: Redis, listener: PubSub) -> None:
    queues = make_queues(realtime=True)
    await queues.create_queue("orders")
    message_id = await queues.send_message("orders", "a")
    published(client, listener)

    await queues.receive_message("orders", vt=0)
    await queues.change_message_visibility("orders", message_id, 0)
    await queues.set_queue_attributes("orders", vt=5)
    await queues.get_queue_attributes("orders")
    await queues.list_queues()
    await queues.delete_message("orders", message_id)
    await queues.pop_message("orders")
    await queues.delete_queue("orders")

    assert published(client, listener) == []


async def test_without_realtime_nothing_is_published(queues: Either, client: Redis, listener: PubSub) -> None:
    await queues.create_queue("orders")
    await queues.send_message("orders", "a")
    await queues.send_messages("orders", ["b", "c"])

    assert published(client, listener) == []


async def test_a_batch_publishes_once_a_chunk(make_queues: MakeQueues, client: Redis, listener: PubSub) -> None:
    queues = make_queues(realtime=True)
    await queues.create_queue("orders")

    await queues.send_messages("orders", ["x"] * 501)

    assert published(client, listener) == [(b"rsmq:rt:orders", b"500"), (b"rsmq:rt:orders", b"501")]


async def test_a_refused_send_publishes_nothing(make_queues: MakeQueues, client: Redis, listener: PubSub) -> None:
    queues = make_queues(realtime=True)
    await queues.create_queue("orders", maxsize=1024)

    for call in (queues.send_message("orders", "x" * 1025), queues.send_message("nowhere", "x")):
        with pytest.raises(Exception, match=r"too long|not found"):
            await call

    assert published(client, listener) == []


@pytest.mark.parametrize(
    ("ns", "channel"),
    [("", b":rt:orders"), ("jobs:", b"jobs::rt:orders"), ("{jobs}", b"{jobs}:rt:orders"), ("jöbs", "jöbs:rt:orders")],
)
async def test_the_channel_is_in_the_namespace(
    make_queues: MakeQueues, client: Redis, listener: PubSub, ns: str, channel: bytes | str
) -> None:
    queues = make_queues(ns, realtime=True)
    await queues.create_queue("orders")

    await queues.send_message("orders", "a")

    expected = channel if isinstance(channel, bytes) else channel.encode()
    assert published(client, listener) == [(expected, b"1")]


@pytest.fixture(params=["sync", "async"])
async def restricted(request: pytest.FixtureRequest, client: Redis, redis_url: str) -> AsyncIterator[Either]:
    """Realtime queues of a user that may do everything to the keys and nothing to any channel."""
    client.acl_setuser(
        "sender", enabled=True, passwords=["+secret"], keys=["rsmq:*"], commands=["+@all"], reset_channels=True
    )
    url = redis_url.replace("redis://", "redis://sender:secret@")
    if request.param == "sync":
        with connect(url) as connected:
            yield Either(Rsmq(connected, realtime=True))
    else:
        async with connect_async(url) as aconnected:
            yield Either(AsyncRsmq(aconnected, realtime=True))


async def test_a_user_without_permission_for_the_channel_still_sends(
    restricted: Either, client: Redis, listener: PubSub
) -> None:
    await restricted.create_queue("orders")

    message_id = await restricted.send_message("orders", "a")

    assert client.zrange("rsmq:orders", 0, -1) == [message_id.encode()]
    assert published(client, listener) == []
