"""Sending: what is stored, when it becomes visible, how long it may be."""

import re
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import RsmqError, sent_ms
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms

CANONICAL_ID = re.compile(r"[a-zA-Z0-9:]{32}")


@pytest.fixture
async def orders(queues: Either) -> Either:
    await queues.create_queue("orders", maxsize=1024)
    return queues


async def test_a_sent_message_is_an_id_a_body_and_one_more_in_the_total(orders: Either, client: Redis) -> None:
    before_ms = now_ms(client)
    message_id = await orders.send_message("orders", "hello")
    after_ms = now_ms(client)

    ((member, due_ms),) = client.zrange("rsmq:orders", 0, -1, withscores=True)
    fields = client.hgetall("rsmq:orders:Q")
    assert CANONICAL_ID.fullmatch(message_id)
    assert member == message_id.encode()
    assert before_ms <= due_ms <= after_ms
    assert list(fields)[5:] == [message_id.encode(), b"totalsent"]
    assert (fields[message_id.encode()], fields[b"totalsent"]) == (b"hello", b"1")


async def test_the_id_carries_the_servers_time_to_the_microsecond(orders: Either, client: Redis) -> None:
    before_s, before_us = client.time()
    message_id = await orders.send_message("orders", "a")
    after_s, after_us = client.time()

    at_us = int(message_id[:10], 36)
    assert before_s * 1_000_000 + before_us <= at_us <= after_s * 1_000_000 + after_us
    assert at_us // 1000 == client.zscore("rsmq:orders", message_id)
    assert sent_ms(message_id, now_ms=now_ms(client)) == at_us // 1000


async def test_scores_are_stored_as_whole_milliseconds(orders: Either, client: Redis) -> None:
    message_id = await orders.send_message("orders", "a", delay=9_999_999)

    raw = client.execute_command("EVAL", "return redis.call('ZSCORE', KEYS[1], ARGV[1])", 1, "rsmq:orders", message_id)
    assert re.fullmatch(rb"\d{13}", raw)


@pytest.mark.parametrize("delay", [0, 1, 9_999_999])
async def test_a_delay_moves_the_visible_time_and_not_the_id(orders: Either, client: Redis, delay: int) -> None:
    message_id = await orders.send_message("orders", "a", delay=delay)

    due_ms = client.zscore("rsmq:orders", message_id)
    assert due_ms - int(message_id[:10], 36) // 1000 == delay * 1000


async def test_the_queues_own_delay_is_the_default_and_0_overrides_it(orders: Either) -> None:
    await orders.set_queue_attributes("orders", delay=600)
    await orders.send_message("orders", "delayed")
    assert await orders.receive_message("orders") is None

    await orders.send_message("orders", "at once", delay=0)

    assert (await orders.receive_message("orders")).body == b"at once"


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ("", b""),
        (b"", b""),
        ("grüße 😀", "grüße 😀".encode()),
        ("nul\x00\r\n\x1b[31m[/bold]", b"nul\x00\r\n\x1b[31m[/bold]"),
        (bytes(range(256)), bytes(range(256))),
    ],
    ids=["empty text", "empty bytes", "unicode", "control characters and markup", "every byte"],
)
async def test_a_body_arrives_byte_for_byte(orders: Either, body: str | bytes, stored: bytes) -> None:
    await orders.send_message("orders", body)

    received = await orders.receive_message("orders")

    assert received.body == stored
    assert isinstance(received.body, bytes)


async def test_a_body_that_looks_like_an_attribute_is_only_a_body(orders: Either) -> None:
    await orders.send_messages("orders", ["vt", "totalsent", "QUEUES"])

    received = await orders.receive_messages("orders", 3)

    assert [message.body for message in received] == [b"vt", b"totalsent", b"QUEUES"]
    assert (await orders.get_queue_attributes("orders")).totalsent == 3


@pytest.mark.parametrize(
    ("longest", "unit"),
    [
        pytest.param("a" * 1024, "a", id="ASCII"),
        pytest.param("ñ" * 1024, "ñ", id="two bytes, one unit"),
        pytest.param("😀" * 512, "a", id="astral characters of two units"),
        pytest.param("a" * 1022 + "😀", "a", id="astral character at the limit"),
        pytest.param(b"a" * 1024, b"a", id="bytes"),
        pytest.param("ñ".encode() * 512, b"a", id="bytes of two-byte characters"),
    ],
)
async def test_a_body_may_be_as_long_as_maxsize_and_no_longer(
    orders: Either, client: Redis, longest: Any, unit: Any
) -> None:
    await orders.send_message("orders", longest)
    before = everything(client)

    with pytest.raises(RsmqError) as refused:
        await orders.send_message("orders", longest + unit)

    assert (refused.value.code, str(refused.value)) == ("messageTooLong", "Message too long")
    assert everything(client) == before


async def test_an_astral_character_that_half_fits_is_too_long(orders: Either) -> None:
    with pytest.raises(RsmqError, match="Message too long"):
        await orders.send_message("orders", "a" * 1023 + "😀")


async def test_a_maxsize_of_minus_one_takes_any_length(orders: Either) -> None:
    await orders.set_queue_attributes("orders", maxsize=-1)

    await orders.send_message("orders", "x" * 3_000_000)

    assert len((await orders.receive_message("orders")).body) == 3_000_000


async def test_a_refused_body_stores_nothing(orders: Either, client: Redis) -> None:
    before = everything(client)

    for body in (None, 5, {"a": 1}, "\ud800"):
        with pytest.raises(RsmqError, match="Message must be a string"):
            await orders.send_message("orders", body)

    assert everything(client) == before


async def test_ids_of_single_sends_sort_in_the_order_of_sending(orders: Either) -> None:
    ids = [await orders.send_message("orders", str(number)) for number in range(50)]

    assert ids == sorted(ids)
    assert len(set(ids)) == 50
