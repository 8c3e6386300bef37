"""The keys after each step, as redis-cli prints them, against the dumps that the written protocol prints.

The dumps are those of https://github.com/keithsharp/rsmqctl PROTOCOL.md, with ids and times masked.
"""

import pytest
from redis import Redis

from tests.protocol.either import Either
from tests.protocol.keyspace import NEW_ATTRIBUTES, masked, now_ms, printed

SENT = f"""\
{NEW_ATTRIBUTES}11) "<id>"
12) "Hello, World"
13) "totalsent"
14) "1\""""

RECEIVED = f"""\
{SENT}
15) "totalrecv"
16) "1"
17) "<id>:rc"
18) "1"
19) "<id>:fr"
20) "<ms>\""""

DELETED = f"""\
{NEW_ATTRIBUTES}11) "totalsent"
12) "1"
13) "totalrecv"
14) "1\""""

NAME = "test-queue"


def queue_names(client: Redis) -> str:
    return printed(client.smembers("rsmq:QUEUES") or [])


def hash_of(client: Redis) -> str:
    return masked(printed(client.hgetall("rsmq:test-queue:Q")))


def ids_of(client: Redis) -> str:
    return masked(printed(client.zrange("rsmq:test-queue", 0, -1)))


@pytest.fixture
async def queues(queues: Either) -> Either:
    await queues.create_queue(NAME, maxsize=65535)
    return queues


async def test_no_queues(client: Redis) -> None:
    assert queue_names(client) == "(empty array)"
    assert client.exists("rsmq:QUEUES") == 0


async def test_a_created_queue(queues: Either, client: Redis) -> None:
    assert queue_names(client) == '1) "test-queue"'
    assert hash_of(client) == NEW_ATTRIBUTES.strip("\n")
    assert ids_of(client) == "(empty array)"


async def test_the_types_of_the_keys(queues: Either, client: Redis) -> None:
    await queues.send_message(NAME, "Hello, World")

    types = {key: client.type(key) for key in client.scan_iter()}
    assert types == {b"rsmq:QUEUES": b"set", b"rsmq:test-queue": b"zset", b"rsmq:test-queue:Q": b"hash"}


async def test_a_sent_message(queues: Either, client: Redis) -> None:
    message_id = await queues.send_message(NAME, "Hello, World")

    assert hash_of(client) == SENT
    assert ids_of(client) == '1) "<id>"'
    assert masked(printed(client.zscore("rsmq:test-queue", message_id))) == '"<ms>"'


async def test_a_received_message(queues: Either, client: Redis) -> None:
    message_id = await queues.send_message(NAME, "Hello, World")

    received = await queues.receive_message(NAME)

    assert hash_of(client) == RECEIVED
    assert ids_of(client) == '1) "<id>"'
    assert masked(printed(client.zscore("rsmq:test-queue", message_id))) == '"<ms>"'
    assert client.hget("rsmq:test-queue:Q", f"{message_id}:fr") == str(received.fr_ms).encode()
    assert client.zscore("rsmq:test-queue", message_id) - received.fr_ms == 30_000


async def test_a_changed_visibility(queues: Either, client: Redis) -> None:
    message_id = await queues.send_message(NAME, "Hello, World")
    await queues.receive_message(NAME)
    before_ms = now_ms(client)

    await queues.change_message_visibility(NAME, message_id, 600)

    assert before_ms <= client.zscore("rsmq:test-queue", message_id) - 600_000 <= now_ms(client)
    assert hash_of(client) == RECEIVED


async def test_a_deleted_message(queues: Either, client: Redis) -> None:
    message_id = await queues.send_message(NAME, "Hello, World")
    await queues.receive_message(NAME)

    await queues.delete_message(NAME, message_id)

    assert hash_of(client) == DELETED
    assert ids_of(client) == "(empty array)"
    assert client.exists("rsmq:test-queue") == 0


async def test_a_popped_message_leaves_what_a_received_and_deleted_one_leaves(queues: Either, client: Redis) -> None:
    await queues.send_message(NAME, "Hello, World")

    await queues.pop_message(NAME)

    assert hash_of(client) == DELETED
    assert client.exists("rsmq:test-queue") == 0


async def test_a_queue_as_the_go_client_of_the_blog_post_creates_it_can_be_used(queues: Either, client: Redis) -> None:
    fields = {"createdby": "ersin", "vt": 30, "delay": 0, "maxsize": 65536}
    client.hset("rsmq:go:Q", mapping=fields | {"created": 1647964800000, "modified": 1647964800000})
    client.sadd("rsmq:QUEUES", "go")

    await queues.send_message("go", "Hello, World")

    assert await queues.list_queues() == ["go", NAME]
    assert (await queues.receive_message("go")).body == b"Hello, World"
    assert (await queues.get_queue_attributes("go")).created == 1647964800000
