"""Hidden messages are counted to the millisecond, where the canonical client counts from the start of the second."""

from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.rsmq import operations
from tests.protocol.either import Either
from tests.protocol.keyspace import now_ms

# Within one EXEC the server's time stands still: a score can be set relative to the very millisecond of the count.
PLANT = """
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[1]), ARGV[2])
return time
"""


def counted(client: Redis, offset_ms: int, count: operations.Operation[Any]) -> Any:
    """Plant a message due ``offset_ms`` from now, and run the operation in the same moment."""
    with client.pipeline(transaction=True) as transaction:
        transaction.eval(PLANT, 1, "rsmq:orders", offset_ms, "m" * 32)
        transaction.execute_command(*count.by_text)
        transaction.eval("return redis.call('TIME')", 0)
        planted_at, reply, asked_at = transaction.execute()
    assert planted_at == asked_at
    return count.read(reply)


@pytest.mark.parametrize(("offset_ms", "hidden"), [(-1000, 0), (-1, 0), (0, 0), (1, 1), (1000, 1)])
def test_a_message_is_hidden_when_it_is_due_after_this_millisecond(client: Redis, offset_ms: int, hidden: int) -> None:
    Rsmq(client).create_queue("orders")

    attributes = counted(client, offset_ms, operations.get_queue_attributes(Keys("rsmq"), "orders"))

    assert (attributes.msgs, attributes.hiddenmsgs) == (1, hidden)


@pytest.mark.parametrize(("offset_ms", "ready"), [(-1, True), (0, True), (1, False)])
def test_what_is_not_hidden_can_be_received_in_the_same_millisecond(client: Redis, offset_ms: int, ready: bool) -> None:
    Rsmq(client).create_queue("orders")
    client.hset("rsmq:orders:Q", "m" * 32, "body")

    received = counted(client, offset_ms, operations.receive_message(Keys("rsmq"), "orders"))

    assert (received is not None) == ready


async def test_a_message_just_sent_is_not_hidden_although_the_canonical_count_says_so(
    queues: Either, client: Redis
) -> None:
    await queues.create_queue("orders")
    message_id = await queues.send_message("orders", "a")
    sent_in_s = int(client.zscore("rsmq:orders", message_id)) // 1000

    assert (await queues.get_queue_attributes("orders")).hiddenmsgs == 0
    assert client.zcount("rsmq:orders", f"{sent_in_s}000", "+inf") == 1


async def test_a_message_just_shown_again_is_not_hidden(queues: Either) -> None:
    await queues.create_queue("orders")
    await queues.send_message("orders", "a")

    received = await queues.receive_message("orders", vt=600)
    assert (await queues.get_queue_attributes("orders")).hiddenmsgs == 1

    await queues.change_message_visibility("orders", received.id, 0)
    assert (await queues.get_queue_attributes("orders")).hiddenmsgs == 0


async def test_setting_attributes_counts_hidden_in_the_same_way(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")
    client.zadd("rsmq:orders", {"a" * 32: now_ms(client), "b" * 32: now_ms(client) + 60_000})

    assert (await queues.set_queue_attributes("orders", vt=5)).hiddenmsgs == 1
