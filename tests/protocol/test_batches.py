"""Batches: one call for many messages, in chunks, in order."""

import pytest
from redis import Redis

from rsmq_tui.protocol import RsmqError, StoredMessage
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, scripts_run


@pytest.fixture
async def orders(queues: Either) -> Either:
    await queues.create_queue("orders", maxsize=-1)
    # The server learns the scripts, so that what follows is one command for each chunk.
    message_id = await queues.send_message("orders", "x")
    await queues.change_message_visibility("orders", message_id, 0)
    await queues.receive_message("orders")
    await queues.delete_message("orders", message_id)
    await queues.restore_messages("orders", [StoredMessage(message_id, b"x", 5)])
    await queues.delete_message("orders", message_id)
    return queues


@pytest.mark.parametrize(("count", "chunks"), [(1, 1), (500, 1), (501, 2), (1203, 3)])
async def test_a_chunk_holds_at_most_500_messages(orders: Either, client: Redis, count: int, chunks: int) -> None:
    client.config_resetstat()
    ids = await orders.send_messages("orders", (str(number) for number in range(count)))
    assert scripts_run(client) == chunks

    client.config_resetstat()
    assert await orders.change_visibility_of("orders", ids, 0) == [True] * count
    assert scripts_run(client) == chunks

    client.config_resetstat()
    assert await orders.delete_messages("orders", ids) == [True] * count
    assert scripts_run(client) == chunks

    client.config_resetstat()
    stored = [StoredMessage(message_id, b"x", 5) for message_id in ids]
    assert await orders.restore_messages("orders", stored) == [True] * count
    assert scripts_run(client) == chunks


@pytest.mark.parametrize(
    ("sizes", "chunks"),
    [
        ([400_000, 400_000, 400_000], 2),
        ([500_000, 500_000], 1),
        ([500_000, 500_001], 2),
        ([3_000_000], 1),
        ([1, 3_000_000, 1], 3),
    ],
    ids=str,
)
async def test_a_chunk_holds_about_a_megabyte_of_bodies(
    orders: Either, client: Redis, sizes: list[int], chunks: int
) -> None:
    bodies = [bytes([65 + number]) * size for number, size in enumerate(sizes)]

    client.config_resetstat()
    await orders.send_messages("orders", bodies)
    assert scripts_run(client) == chunks

    received = await orders.receive_messages("orders", 10)
    assert [message.body for message in received] == bodies

    await orders.delete_messages("orders", [message.id for message in received])
    client.config_resetstat()
    stored = [StoredMessage(message.id, message.body, 5) for message in received]
    await orders.restore_messages("orders", stored)
    assert scripts_run(client) == chunks


async def test_a_batch_keeps_its_order_over_chunks(orders: Either) -> None:
    bodies = [str(number) for number in range(1203)]

    ids = await orders.send_messages("orders", bodies)
    received = await orders.receive_messages("orders", 2000)

    assert [message.body.decode() for message in received] == bodies
    assert [message.id for message in received] == ids
    assert ids == sorted(ids)


async def test_a_batch_counts_each_message_in_the_totals(orders: Either) -> None:
    await orders.send_messages("orders", ["x"] * 501)
    await orders.receive_messages("orders", 501)

    found = await orders.get_queue_attributes("orders")
    assert (found.totalsent, found.totalrecv) == (502, 502)


async def test_a_batch_takes_one_delay_for_all(orders: Either) -> None:
    await orders.send_messages("orders", ["x"] * 501, delay=60)

    found = await orders.get_queue_attributes("orders")
    assert (found.msgs, found.hiddenmsgs) == (501, 501)


async def test_one_body_too_long_refuses_all_even_when_it_is_in_a_later_chunk(orders: Either, client: Redis) -> None:
    await orders.set_queue_attributes("orders", maxsize=1024)
    before = everything(client)

    with pytest.raises(RsmqError, match="Message too long"):
        await orders.send_messages("orders", ["x"] * 600 + ["x" * 1025])

    assert everything(client) == before


async def test_one_body_that_is_no_text_refuses_all(orders: Either, client: Redis) -> None:
    before = everything(client)

    with pytest.raises(RsmqError, match="Message must be a string"):
        await orders.send_messages("orders", ["x"] * 600 + [5])

    assert everything(client) == before


@pytest.mark.parametrize("operation", ["delete_messages", "change_visibility_of"])
async def test_one_bad_id_refuses_all(orders: Either, client: Redis, operation: str) -> None:
    ids = await orders.send_messages("orders", ["x"] * 600)
    before = everything(client)
    vt = {"vt": 60} if operation == "change_visibility_of" else {}

    with pytest.raises(RsmqError, match="Invalid id format"):
        await getattr(orders, operation)("orders", [*ids, "vt"], **vt)

    assert everything(client) == before


async def test_an_empty_batch_does_nothing(orders: Either, client: Redis) -> None:
    before = everything(client)
    client.config_resetstat()

    assert await orders.send_messages("orders", []) == []
    assert await orders.delete_messages("orders", []) == []
    assert await orders.change_visibility_of("orders", [], 5) == []
    assert await orders.restore_messages("orders", []) == []

    assert scripts_run(client) == 0
    assert everything(client) == before


async def test_an_empty_batch_still_has_its_arguments_checked(orders: Either) -> None:
    for call in (
        orders.send_messages("no such", []),
        orders.delete_messages("no such", []),
        orders.change_visibility_of("no such", [], 5),
        orders.restore_messages("no such", []),
    ):
        with pytest.raises(RsmqError, match="Invalid qname format"):
            await call
    with pytest.raises(RsmqError, match="vt must be between"):
        await orders.change_visibility_of("orders", [], -1)
    with pytest.raises(RsmqError, match="delay must be between"):
        await orders.send_messages("orders", [], delay=-1)
