"""Sending behind a fence: once, in order, and never half."""

import pytest
import redis

from rsmq_tui.protocol import Rsmq, RsmqError
from rsmq_tui.protocol.rsmq.client import FencedRsmq, MarkedMessage
from tests.protocol.keyspace import everything


@pytest.fixture
def rsmq(client: redis.Redis) -> FencedRsmq:
    queues = FencedRsmq(client)
    queues.create_queue("orders", maxsize=1024)
    return queues


def marked(*numbers: int) -> list[MarkedMessage]:
    return [MarkedMessage(b"mark %d" % number, b"body %d" % number) for number in numbers]


def bodies(rsmq: Rsmq) -> list[bytes]:
    return [message.body for message in rsmq.receive_messages("orders", 5_000, vt=0)]


def test_what_was_sent_is_not_sent_again(rsmq: FencedRsmq, client: redis.Redis) -> None:
    assert rsmq.send_once("orders", marked(1, 2, 3), fence="f", keep_s=60) == [True] * 3
    assert rsmq.send_once("orders", marked(5, 3, 4, 2, 4), fence="f", keep_s=60) == [True, False, True, False, False]
    assert rsmq.send_once("orders", marked(1), fence="another", keep_s=60) == [True]

    assert sorted(bodies(rsmq)) == [b"body 1", b"body 1", b"body 2", b"body 3", b"body 4", b"body 5"]
    assert rsmq.get_queue_attributes("orders").totalsent == 6


def test_not_even_when_it_was_deleted_meanwhile(rsmq: FencedRsmq) -> None:
    rsmq.send_once("orders", marked(1, 2), fence="f", keep_s=60)
    while rsmq.pop_message("orders") is not None:
        pass
    assert rsmq.send_once("orders", marked(1, 2, 3), fence="f", keep_s=60) == [False, False, True]
    assert bodies(rsmq) == [b"body 3"]


def test_messages_are_those_that_a_send_makes(rsmq: FencedRsmq, client: redis.Redis) -> None:
    rsmq.send_once("orders", marked(*range(1_200)), fence="f", keep_s=60, delay=100)
    now_ms = rsmq.now_ms()
    rows = client.zrange("rsmq:orders", 0, -1, withscores=True)

    assert len(rows) == 1_200
    assert all(len(id) == 32 and abs(score - now_ms - 100_000) < 60_000 for id, score in rows)
    # In their order, as a batch keeps it.
    assert [client.hget("rsmq:orders:Q", id) for id in sorted(id for id, _ in rows)] == [
        b"body %d" % number for number in range(1_200)
    ]


def test_a_fence_is_forgotten(rsmq: FencedRsmq, client: redis.Redis) -> None:
    rsmq.send_once("orders", marked(1), fence="f", keep_s=500)
    assert 400 < client.ttl("rsmq:rsmq-tui:f") <= 500
    rsmq.forget_fence("f", after_s=60)
    assert client.ttl("rsmq:rsmq-tui:f") <= 60


@pytest.mark.parametrize(
    ("queue", "body", "delay", "code"),
    [
        ("orders", b"x" * 1025, None, "messageTooLong"),
        ("nowhere", b"x", None, "queueNotFound"),
        ("orders", b"x", -1, "invalidValue"),
        ("no such", b"x", None, "invalidFormat"),
    ],
)
def test_a_refusal_changes_nothing(
    rsmq: FencedRsmq, client: redis.Redis, queue: str, body: bytes, delay: int | None, code: str
) -> None:
    before = everything(client)
    with pytest.raises(RsmqError) as refused:
        rsmq.send_once(queue, [*marked(1), MarkedMessage(b"2", body)], fence="f", keep_s=60, delay=delay)
    assert refused.value.code == code
    assert everything(client) == before


def test_a_key_of_another_type_changes_nothing(rsmq: FencedRsmq, client: redis.Redis) -> None:
    client.set("rsmq:orders", "a text")
    before = everything(client)
    with pytest.raises(RsmqError, match="another type"):
        rsmq.send_once("orders", marked(1), fence="f", keep_s=60)
    assert everything(client) == before
