"""Messages that are there already: delete them, change their visibility, put them back."""

import pytest
from redis import Redis

from rsmq_tui.protocol import RsmqError, StoredMessage
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms

UNKNOWN = "0" * 32


async def test_a_message_is_deleted_whether_received_or_not(orders: Either, client: Redis) -> None:
    fresh, received = await orders.send_messages("orders", ["a", "b"])
    await orders.change_message_visibility("orders", fresh, 60)
    await orders.receive_message("orders")

    assert await orders.delete_message("orders", fresh) is True
    assert await orders.delete_message("orders", received) is True

    assert client.exists("rsmq:orders") == 0
    assert list(client.hgetall("rsmq:orders:Q"))[5:] == [b"totalsent", b"totalrecv"]


async def test_deleting_a_message_that_is_not_there_says_so(orders: Either) -> None:
    message_id = await orders.send_message("orders", "a")

    assert await orders.delete_message("orders", UNKNOWN) is False
    assert await orders.delete_message("orders", message_id) is True
    assert await orders.delete_message("orders", message_id) is False


async def test_deleting_from_a_queue_that_is_not_there_says_that_nothing_was(queues: Either, client: Redis) -> None:
    assert await queues.delete_message("nowhere", UNKNOWN) is False
    assert client.keys() == []


async def test_many_deletes_tell_of_each_whether_it_was_there(orders: Either) -> None:
    first, second = await orders.send_messages("orders", ["a", "b"])

    assert await orders.delete_messages("orders", [second, UNKNOWN, first, first]) == [True, False, True, False]


@pytest.mark.parametrize("vt", [0, 1, 9_999_999])
async def test_visibility_counts_from_now(orders: Either, client: Redis, vt: int) -> None:
    message_id = await orders.send_message("orders", "a", delay=500)
    before_ms = now_ms(client)

    assert await orders.change_message_visibility("orders", message_id, vt) is True

    assert before_ms <= client.zscore("rsmq:orders", message_id) - vt * 1000 <= now_ms(client)


async def test_visibility_leaves_receive_count_and_first_received_time(orders: Either) -> None:
    message_id = await orders.send_message("orders", "a")
    first = await orders.receive_message("orders")

    await orders.change_message_visibility("orders", message_id, 0)
    again = await orders.receive_message("orders")

    assert (again.id, again.rc, again.fr_ms) == (message_id, 2, first.fr_ms)


async def test_visibility_of_a_ready_and_of_a_delayed_message_can_be_changed(orders: Either) -> None:
    ready = await orders.send_message("orders", "ready")
    delayed = await orders.send_message("orders", "delayed", delay=600)

    await orders.change_message_visibility("orders", ready, 600)
    await orders.change_message_visibility("orders", delayed, 0)

    assert (await orders.receive_message("orders")).id == delayed
    assert await orders.receive_message("orders") is None


async def test_visibility_of_a_message_that_is_not_there_changes_nothing(orders: Either, client: Redis) -> None:
    before = everything(client)

    assert await orders.change_message_visibility("orders", UNKNOWN, 5) is False
    assert everything(client) == before


async def test_many_visibilities_tell_of_each_whether_it_was_there(orders: Either) -> None:
    first, second = await orders.send_messages("orders", ["a", "b"])

    assert await orders.change_visibility_of("orders", [first, UNKNOWN, second], 60) == [True, False, True]
    assert (await orders.get_queue_attributes("orders")).hiddenmsgs == 2


async def test_a_restored_message_is_what_it_was(orders: Either, client: Redis) -> None:
    message_id = await orders.send_message("orders", b"\x00\xffbody")
    await orders.receive_message("orders", vt=0)
    received = await orders.receive_message("orders", vt=60)
    due_ms = int(client.zscore("rsmq:orders", message_id))
    before = (client.zrange("rsmq:orders", 0, -1, withscores=True), client.hgetall("rsmq:orders:Q"))

    await orders.delete_message("orders", message_id)
    stored = StoredMessage(message_id, b"\x00\xffbody", due_ms, rc=2, fr_ms=received.fr_ms)

    assert await orders.restore_messages("orders", [stored]) == [True]
    assert (client.zrange("rsmq:orders", 0, -1, withscores=True), client.hgetall("rsmq:orders:Q")) == before


async def test_a_message_that_was_never_received_is_restored_without_counts(orders: Either, client: Redis) -> None:
    assert await orders.restore_messages("orders", [StoredMessage("a" * 32, b"x", 5)]) == [True]

    assert list(client.hgetall("rsmq:orders:Q"))[5:] == [b"a" * 32]
    assert (await orders.receive_message("orders")).rc == 1


async def test_a_message_that_is_there_is_not_overwritten_by_a_restored_one(orders: Either, client: Redis) -> None:
    message_id = await orders.send_message("orders", "mine")
    before = everything(client)

    assert await orders.restore_messages("orders", [StoredMessage(message_id, b"other", 5, rc=9)]) == [False]
    assert everything(client) == before


async def test_nothing_is_restored_into_a_queue_that_is_not_there(queues: Either, client: Redis) -> None:
    with pytest.raises(RsmqError, match="Queue not found"):
        await queues.restore_messages("nowhere", [StoredMessage("a" * 32, b"x", 5)])

    assert client.keys() == []
