"""Receiving and popping: order, visibility, receive counts and first-received times."""

import pytest
from redis import Redis

from rsmq_tui.protocol import Message
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms


async def test_an_empty_queue_gives_nothing_and_is_not_changed(orders: Either, client: Redis) -> None:
    before = everything(client)

    assert await orders.receive_message("orders") is None
    assert await orders.receive_messages("orders", 10) == []
    assert await orders.pop_message("orders") is None
    assert everything(client) == before


async def test_a_received_message_tells_its_id_body_count_and_times(orders: Either, client: Redis) -> None:
    message_id = await orders.send_message("orders", "hello")
    before_ms = now_ms(client)
    received = await orders.receive_message("orders")
    after_ms = now_ms(client)

    assert received == Message(
        id=message_id, body=b"hello", rc=1, fr_ms=received.fr_ms, sent_ms=int(message_id[:10], 36) // 1000
    )
    assert before_ms <= received.fr_ms <= after_ms


async def test_a_received_message_is_hidden_for_the_queues_vt(orders: Either, client: Redis) -> None:
    message_id = await orders.send_message("orders", "a")

    received = await orders.receive_message("orders")

    assert client.zscore("rsmq:orders", message_id) == received.fr_ms + 30_000
    assert await orders.receive_message("orders") is None


@pytest.mark.parametrize("vt", [1, 9_999_999])
async def test_a_vt_given_overrides_the_queues(orders: Either, client: Redis, vt: int) -> None:
    message_id = await orders.send_message("orders", "a")

    received = await orders.receive_message("orders", vt=vt)

    assert client.zscore("rsmq:orders", message_id) == received.fr_ms + vt * 1000


async def test_with_a_vt_of_0_a_message_is_received_again_and_counted(orders: Either) -> None:
    await orders.send_message("orders", "a")

    received = [await orders.receive_message("orders", vt=0) for _ in range(3)]

    assert [message.rc for message in received] == [1, 2, 3]
    assert len({message.fr_ms for message in received}) == 1
    assert (await orders.get_queue_attributes("orders")).totalrecv == 3


async def test_a_receive_writes_the_canonical_fields_in_order(orders: Either, client: Redis) -> None:
    message_id = (await orders.send_message("orders", "a")).encode()

    received = await orders.receive_message("orders")

    fields = client.hgetall("rsmq:orders:Q")
    assert list(fields)[5:] == [message_id, b"totalsent", b"totalrecv", message_id + b":rc", message_id + b":fr"]
    assert fields[message_id + b":rc"] == b"1"
    assert fields[message_id + b":fr"] == str(received.fr_ms).encode()


async def test_messages_come_by_visible_time_and_then_by_id(orders: Either, client: Redis) -> None:
    for due_ms, letter in ((2000, "b"), (1000, "z"), (2000, "a"), (1500, "m")):
        client.zadd("rsmq:orders", {letter * 32: due_ms})
        client.hset("rsmq:orders:Q", letter * 32, letter)

    received = [await orders.receive_message("orders") for _ in range(4)]

    assert [message.body for message in received] == [b"z", b"m", b"a", b"b"]


async def test_a_batch_is_received_in_the_same_order_and_up_to_its_count(orders: Either) -> None:
    ids = await orders.send_messages("orders", ["a", "b", "c"])

    first = await orders.receive_messages("orders", 2)
    rest = await orders.receive_messages("orders", 5)

    assert [message.id for message in first + rest] == ids
    assert [message.rc for message in first + rest] == [1, 1, 1]


async def test_a_batch_with_a_vt_of_0_gives_each_message_once(orders: Either) -> None:
    ids = await orders.send_messages("orders", ["a", "b", "c"])

    received = await orders.receive_messages("orders", 10, vt=0)

    assert [message.id for message in received] == ids
    assert [message.rc for message in received] == [1, 1, 1]


@pytest.mark.parametrize("count", [0, -1])
async def test_a_batch_of_less_than_one_message_is_refused(orders: Either, count: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        await orders.receive_messages("orders", count)


async def test_a_delayed_message_is_not_received(orders: Either) -> None:
    await orders.send_message("orders", "later", delay=600)

    assert await orders.receive_message("orders") is None
    assert await orders.pop_message("orders") is None


async def test_a_popped_message_leaves_only_its_place_in_the_totals(orders: Either, client: Redis) -> None:
    message_id = await orders.send_message("orders", "a")
    before_ms = now_ms(client)

    popped = await orders.pop_message("orders")

    assert (popped.id, popped.body, popped.rc) == (message_id, b"a", 1)
    assert before_ms <= popped.fr_ms <= now_ms(client)
    assert client.exists("rsmq:orders") == 0
    assert list(client.hgetall("rsmq:orders:Q"))[5:] == [b"totalsent", b"totalrecv"]
    assert await orders.pop_message("orders") is None


async def test_a_pop_counts_on_from_earlier_receives(orders: Either) -> None:
    await orders.send_message("orders", "a")
    received = await orders.receive_message("orders", vt=0)

    popped = await orders.pop_message("orders")

    assert (popped.rc, popped.fr_ms) == (2, received.fr_ms)
