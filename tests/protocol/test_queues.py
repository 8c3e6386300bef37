"""Queues: create, list, delete, read and change attributes."""

import pytest
from redis import Redis

from rsmq_tui.protocol import QueueAttributes, RsmqError
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms


def attributes_of(client: Redis, queue: str = "orders") -> dict[bytes, bytes]:
    return client.hgetall(f"rsmq:{queue}:Q")


async def test_a_server_without_queues_lists_none(queues: Either) -> None:
    assert await queues.list_queues() == []


async def test_a_new_queue_has_the_five_canonical_fields_in_order(queues: Either, client: Redis) -> None:
    before_s = client.time()[0]
    result = await queues.create_queue("orders")
    after_s = client.time()[0]

    fields = attributes_of(client)
    assert result is None
    assert list(fields) == [b"vt", b"delay", b"maxsize", b"created", b"modified"]
    assert list(fields.values())[:3] == [b"30", b"0", b"65536"]
    assert fields[b"created"] == fields[b"modified"]
    assert before_s <= int(fields[b"created"]) <= after_s
    assert client.smembers("rsmq:QUEUES") == {b"orders"}
    assert sorted(client.keys()) == [b"rsmq:QUEUES", b"rsmq:orders:Q"]


@pytest.mark.parametrize(
    ("vt", "delay", "maxsize"), [(0, 0, 1024), (9_999_999, 9_999_999, 65_536), (15, 60, -1)], ids=str
)
async def test_a_queue_is_created_with_the_attributes_given(queues: Either, vt: int, delay: int, maxsize: int) -> None:
    await queues.create_queue("orders", vt=vt, delay=delay, maxsize=maxsize)

    found = await queues.get_queue_attributes("orders")
    assert (found.vt, found.delay, found.maxsize) == (vt, delay, maxsize)


async def test_a_queue_that_exists_is_not_created_again_nor_changed(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders", vt=5)
    before = everything(client)

    with pytest.raises(RsmqError) as refused:
        await queues.create_queue("orders", vt=6)

    assert refused.value.code == "queueExists"
    assert everything(client) == before


async def test_queues_are_listed_sorted(queues: Either) -> None:
    for name in ("b", "a-2", "C", "a_1"):
        await queues.create_queue(name)

    assert await queues.list_queues() == ["C", "a-2", "a_1", "b"]


async def test_a_fresh_queue_has_no_messages_and_no_totals(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")
    created = int(attributes_of(client)[b"created"])

    assert await queues.get_queue_attributes("orders") == QueueAttributes(
        vt=30,
        delay=0,
        maxsize=65536,
        totalrecv=0,
        totalsent=0,
        created=created,
        modified=created,
        msgs=0,
        hiddenmsgs=0,
    )


async def test_attributes_count_messages_sends_and_deliveries(queues: Either) -> None:
    await queues.create_queue("orders")
    await queues.send_messages("orders", ["a", "b", "c", "d"])
    await queues.receive_message("orders", vt=0)
    await queues.receive_message("orders", vt=60)
    await queues.pop_message("orders")

    found = await queues.get_queue_attributes("orders")

    assert (found.totalsent, found.totalrecv, found.msgs, found.hiddenmsgs) == (4, 3, 3, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"vt": 0}, (0, 0, 65536)),
        ({"delay": 7}, (30, 7, 65536)),
        ({"maxsize": -1}, (30, 0, -1)),
        ({"vt": 1, "delay": 2, "maxsize": 2048}, (1, 2, 2048)),
    ],
    ids=str,
)
async def test_attributes_given_are_set_and_all_are_returned(
    queues: Either, given: dict[str, int], expected: tuple[int, int, int]
) -> None:
    await queues.create_queue("orders")
    await queues.send_message("orders", "a")

    returned = await queues.set_queue_attributes("orders", **given)

    assert (returned.vt, returned.delay, returned.maxsize) == expected
    assert (returned.totalsent, returned.msgs) == (1, 1)
    assert returned == await queues.get_queue_attributes("orders")


async def test_setting_attributes_moves_modified_to_the_servers_second_and_leaves_created(
    queues: Either, client: Redis
) -> None:
    await queues.create_queue("orders")
    client.hset("rsmq:orders:Q", mapping={"created": 1_500_000_000, "modified": 1_500_000_000})
    before_s = client.time()[0]

    returned = await queues.set_queue_attributes("orders", vt=5)

    assert returned.created == 1_500_000_000
    assert before_s <= returned.modified <= client.time()[0]


async def test_setting_attributes_keeps_the_order_of_the_fields(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")

    await queues.set_queue_attributes("orders", delay=1, maxsize=1024, vt=2)

    assert list(attributes_of(client)) == [b"vt", b"delay", b"maxsize", b"created", b"modified"]


async def test_new_attributes_count_for_later_sends_and_receives_only(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")
    first = await queues.send_message("orders", "a")
    due = client.zscore("rsmq:orders", first)

    await queues.set_queue_attributes("orders", vt=100, delay=1000)
    after_ms = now_ms(client)
    second = await queues.send_message("orders", "b")
    await queues.receive_message("orders")

    assert due <= after_ms
    assert client.zscore("rsmq:orders", second) >= after_ms + 1_000_000
    assert client.zscore("rsmq:orders", first) >= after_ms + 100_000


async def test_deleting_a_queue_leaves_nothing_of_it(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")
    await queues.create_queue("other")
    await queues.send_message("orders", "a")
    await queues.receive_message("orders")

    assert await queues.delete_queue("orders") is None

    assert sorted(client.keys()) == [b"rsmq:QUEUES", b"rsmq:other:Q"]
    assert client.smembers("rsmq:QUEUES") == {b"other"}


async def test_deleting_the_last_queue_leaves_an_empty_server(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")

    await queues.delete_queue("orders")

    assert client.keys() == []


async def test_a_deleted_queue_can_be_created_again_from_scratch(queues: Either) -> None:
    await queues.create_queue("orders", vt=5)
    await queues.send_message("orders", "a")
    await queues.delete_queue("orders")

    await queues.create_queue("orders")

    found = await queues.get_queue_attributes("orders")
    assert (found.vt, found.totalsent, found.msgs) == (30, 0, 0)
