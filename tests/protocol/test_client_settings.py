"""The redis-py client is the caller's: whatever it decodes or speaks, the core gives the same values."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
import redis.asyncio

from rsmq_tui.protocol import AsyncRsmq, Rsmq
from tests.protocol.either import Either

SETTINGS: dict[str, dict[str, Any]] = {
    "decoded text": {"decode_responses": True},
    "RESP3": {"protocol": 3},
    "RESP3, decoded text": {"protocol": 3, "decode_responses": True},
    "Latin-1": {"decode_responses": True, "encoding": "latin-1"},
}


@pytest.fixture(params=[(kind, name) for kind in ("sync", "async") for name in SETTINGS], ids="-".join)
async def queues(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[Either]:
    kind, name = request.param
    if kind == "sync":
        with redis.Redis.from_url(redis_url, **SETTINGS[name]) as connected:
            yield Either(Rsmq(connected))
    else:
        async with redis.asyncio.Redis.from_url(redis_url, **SETTINGS[name]) as aconnected:
            yield Either(AsyncRsmq(aconnected))


async def test_bodies_are_bytes_that_need_not_be_text(queues: Either) -> None:
    await queues.create_queue("orders")
    await queues.send_messages("orders", [b"\xff\xfe", b"text", b"more"])

    received = await queues.receive_messages("orders", 2)
    popped = await queues.pop_message("orders")

    assert [message.body for message in (*received, popped)] == [b"\xff\xfe", b"text", b"more"]


async def test_ids_names_numbers_and_flags_have_their_types(queues: Either) -> None:
    await queues.create_queue("orders", vt=5)
    message_id = await queues.send_message("orders", "a")
    received = await queues.receive_message("orders")

    assert isinstance(message_id, str)
    assert received.id == message_id
    assert (type(received.rc), type(received.fr_ms), type(received.sent_ms)) == (int, int, int)
    assert await queues.list_queues() == ["orders"]
    assert (await queues.get_queue_attributes("orders")).vt == 5
    assert (await queues.set_queue_attributes("orders", vt=6)).vt == 6
    assert await queues.change_message_visibility("orders", message_id, 0) is True
    assert await queues.delete_message("orders", message_id) is True


async def test_refusals_are_the_same(queues: Either) -> None:
    await queues.create_queue("orders")

    with pytest.raises(Exception, match=r"^Queue exists$"):
        await queues.create_queue("orders")
    with pytest.raises(Exception, match=r"^Queue not found$"):
        await queues.send_message("nowhere", "a")
