"""What other clients leave in place of a queue: odd attributes, missing fields, missing keys, keys of other types."""

from collections.abc import Awaitable, Callable

import pytest
from redis import Redis

from rsmq_tui.protocol import RsmqError, StoredMessage
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms

ID = "a" * 32
USES: dict[str, Callable[[Either], Awaitable[object]]] = {
    "send_message": lambda queues: queues.send_message("orders", "x"),
    "receive_message": lambda queues: queues.receive_message("orders"),
    "pop_message": lambda queues: queues.pop_message("orders"),
    "change_message_visibility": lambda queues: queues.change_message_visibility("orders", ID, 5),
    "set_queue_attributes": lambda queues: queues.set_queue_attributes("orders", vt=5),
    "restore_messages": lambda queues: queues.restore_messages("orders", [StoredMessage(ID, b"x", 5)]),
}
EVERYTHING = USES | {
    "create_queue": lambda queues: queues.create_queue("orders"),
    "get_queue_attributes": lambda queues: queues.get_queue_attributes("orders"),
    "delete_message": lambda queues: queues.delete_message("orders", ID),
}


async def refusal_of(awaited: Awaitable[object]) -> str:
    with pytest.raises(RsmqError) as refused:
        await awaited
    return refused.value.code


async def test_fractions_of_a_second_are_read_as_whole_seconds(orders: Either, client: Redis) -> None:
    client.hset("rsmq:orders:Q", mapping={"vt": "15.5", "delay": "0.5"})
    before_ms = now_ms(client)

    message_id = await orders.send_message("orders", "a")
    received = await orders.receive_message("orders")
    found = await orders.get_queue_attributes("orders")

    assert int(message_id[:10], 36) // 1000 >= before_ms
    assert client.zscore("rsmq:orders", message_id) == received.fr_ms + 15_000
    assert (found.vt, found.delay) == (15, 0)


@pytest.mark.parametrize("value", ["30000000", "-1", "soon", "", "nan", "inf", "1e999"])
async def test_a_default_that_is_no_valid_time_is_refused_where_it_is_used(
    orders: Either, client: Redis, value: str
) -> None:
    client.hset("rsmq:orders:Q", mapping={"vt": value, "delay": value})
    before = everything(client)

    for call, item in ((orders.send_message("orders", "a"), "delay"), (orders.receive_message("orders"), "vt")):
        with pytest.raises(RsmqError) as refused:
            await call
        assert refused.value.code == "invalidValue"
        assert str(refused.value) == f"{item} must be between 0 and 9999999"

    assert everything(client) == before


async def test_a_time_that_is_given_stands_in_for_a_default_that_cannot_be_used(orders: Either, client: Redis) -> None:
    client.hset("rsmq:orders:Q", mapping={"vt": "30000000", "delay": "soon"})

    await orders.send_message("orders", "a", delay=0)

    assert (await orders.receive_message("orders", vt=5)).body == b"a"


@pytest.mark.parametrize("maxsize", ["65565", "65535", "unlimited", "-1"])
async def test_a_maxsize_of_another_client_is_taken_for_what_it_says(
    orders: Either, client: Redis, maxsize: str
) -> None:
    client.hset("rsmq:orders:Q", "maxsize", maxsize)

    await orders.send_message("orders", "x" * 65_535)

    expected = None if maxsize == "unlimited" else int(maxsize)
    assert (await orders.get_queue_attributes("orders")).maxsize == expected


@pytest.mark.parametrize("field", ["vt", "delay", "maxsize"])
async def test_a_queue_without_one_of_its_three_attributes_is_not_found(
    orders: Either, client: Redis, field: str
) -> None:
    client.hdel("rsmq:orders:Q", field)
    before = everything(client)

    assert {name: await refusal_of(use(orders)) for name, use in USES.items()} == dict.fromkeys(USES, "queueNotFound")
    assert everything(client) == before


async def test_attributes_can_be_read_as_long_as_there_is_a_vt(orders: Either, client: Redis) -> None:
    client.hdel("rsmq:orders:Q", "delay", "maxsize", "created", "modified")

    found = await orders.get_queue_attributes("orders")
    assert (found.vt, found.delay, found.maxsize, found.created, found.modified) == (30, None, None, None, None)

    client.hdel("rsmq:orders:Q", "vt")
    client.hset("rsmq:orders:Q", "totalsent", 1)
    assert await refusal_of(orders.get_queue_attributes("orders")) == "queueNotFound"


async def test_totals_that_are_no_numbers_are_0(orders: Either, client: Redis) -> None:
    client.hset("rsmq:orders:Q", mapping={"totalsent": "many", "totalrecv": b"\xff", "createdby": "ersin"})

    found = await orders.get_queue_attributes("orders")

    assert (found.totalsent, found.totalrecv) == (0, 0)


@pytest.mark.parametrize(
    ("text", "date_s"),
    [
        ("1690000000", 1_690_000_000),
        ("1690000000.75", 1_690_000_000),
        ("1690000000123", 1_690_000_000_123),
        ("2022-07-19T10:00:00.123456789Z", 1_658_224_800),
        ("2022-07-19T12:00:00.9+02:00", 1_658_224_800),
        ("2022-07-19T10:00:00", 1_658_224_800),
        ("2022-07-19", 1_658_188_800),
        ("2022-99-99T10:00:00Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
async def test_a_date_is_read_for_the_moment_it_means(
    orders: Either, client: Redis, text: str, date_s: int | None
) -> None:
    client.hset("rsmq:orders:Q", mapping={"created": text, "modified": text})

    found = await orders.get_queue_attributes("orders")

    assert (found.created, found.modified) == (date_s, date_s)


@pytest.mark.parametrize("total", ["many", "", "1.5", "9223372036854775807"])
async def test_totals_that_cannot_be_counted_up_stop_neither_sends_nor_receives(
    orders: Either, client: Redis, total: str
) -> None:
    client.hset("rsmq:orders:Q", mapping={"totalsent": total, "totalrecv": total})

    first, second = await orders.send_messages("orders", ["a", "b"])

    assert (await orders.receive_message("orders")).id == first
    assert (await orders.pop_message("orders")).id == second
    assert client.hmget("rsmq:orders:Q", "totalsent", "totalrecv") == [total.encode()] * 2


async def test_a_name_in_the_index_without_a_queue_is_listed_not_found_and_can_be_created(
    queues: Either, client: Redis
) -> None:
    client.sadd("rsmq:QUEUES", "orders")

    assert await queues.list_queues() == ["orders"]
    assert await refusal_of(queues.get_queue_attributes("orders")) == "queueNotFound"
    await queues.create_queue("orders")
    assert (await queues.get_queue_attributes("orders")).vt == 30


async def test_deleting_a_name_without_a_queue_is_refused_and_takes_it_out_of_the_index(
    queues: Either, client: Redis
) -> None:
    client.sadd("rsmq:QUEUES", "orders")

    assert await refusal_of(queues.delete_queue("orders")) == "queueNotFound"
    assert client.keys() == []


async def test_a_queue_that_is_not_in_the_index_works_and_exists(orders: Either, client: Redis) -> None:
    client.srem("rsmq:QUEUES", "orders")

    await orders.send_message("orders", "a")

    assert (await orders.receive_message("orders")).body == b"a"
    assert await orders.list_queues() == []
    assert await refusal_of(orders.create_queue("orders")) == "queueExists"
    assert await orders.list_queues() == []


async def test_a_hash_with_nothing_but_a_vt_exists_and_is_not_filled_up(queues: Either, client: Redis) -> None:
    client.hset("rsmq:orders:Q", "vt", 30)
    before = everything(client)

    assert await refusal_of(queues.create_queue("orders")) == "queueExists"
    assert everything(client) == before


@pytest.mark.parametrize("fields", [{"modified": 5}, {ID: "orphan", "totalsent": 1}], ids=["PyRSMQ", "racing send"])
async def test_a_hash_without_a_vt_becomes_a_queue_when_it_is_created(
    queues: Either, client: Redis, fields: dict[str, str | int]
) -> None:
    client.hset("rsmq:orders:Q", mapping=fields)

    await queues.create_queue("orders", vt=5)

    found = await queues.get_queue_attributes("orders")
    assert (found.vt, found.delay, found.maxsize) == (5, 0, 65536)
    assert found.modified == fields.get("modified", found.created)
    assert await queues.list_queues() == ["orders"]


async def test_what_a_hash_without_a_vt_holds_is_kept_when_the_queue_is_created(queues: Either, client: Redis) -> None:
    fields = {"delay": "7", "maxsize": "-1", "created": "5", "modified": "6", "totalsent": "9", "note": "kept"}
    client.hset("rsmq:orders:Q", mapping=fields)

    await queues.create_queue("orders", vt=5, delay=1, maxsize=2048)

    assert client.hgetall("rsmq:orders:Q") == {
        name.encode(): value.encode() for name, value in (fields | {"vt": "5"}).items()
    }


async def test_messages_without_their_hash_are_not_found_and_can_be_deleted(queues: Either, client: Redis) -> None:
    client.zadd("rsmq:orders", {ID: 1})
    client.sadd("rsmq:QUEUES", "orders")

    assert await refusal_of(queues.receive_message("orders")) == "queueNotFound"
    assert await refusal_of(queues.get_queue_attributes("orders")) == "queueNotFound"
    await queues.delete_queue("orders")
    assert client.keys() == []


@pytest.mark.parametrize(
    ("key", "created"), [("rsmq:orders", "queueExists"), ("rsmq:orders:Q", "wrongType")], ids=["zset", "hash"]
)
async def test_a_key_of_another_type_is_a_wrong_type_and_nothing_is_changed(
    orders: Either, client: Redis, key: str, created: str
) -> None:
    await orders.send_message("orders", "a")
    client.zadd("rsmq:orders", {ID: 1})
    client.delete(key)
    client.rpush(key, "a list, as another protocol of that name keeps there")
    before = everything(client)

    codes = {name: await refusal_of(use(orders)) for name, use in EVERYTHING.items()}

    assert codes == dict.fromkeys(EVERYTHING, "wrongType") | {"create_queue": created}
    assert everything(client) == before


async def test_an_index_of_another_type_is_a_wrong_type_and_nothing_is_changed(queues: Either, client: Redis) -> None:
    client.set("rsmq:QUEUES", "text")
    before = everything(client)

    for call in (queues.list_queues(), queues.create_queue("orders"), queues.delete_queue("orders")):
        assert await refusal_of(call) == "wrongType"

    assert everything(client) == before


@pytest.mark.parametrize("key", ["rsmq:orders", "rsmq:orders:Q"])
async def test_a_key_of_another_type_is_not_deleted_with_a_queue(orders: Either, client: Redis, key: str) -> None:
    client.delete(key)
    client.rpush(key, "of somebody else")
    before = everything(client)

    assert await refusal_of(orders.delete_queue("orders")) == "wrongType"

    assert everything(client) == before
