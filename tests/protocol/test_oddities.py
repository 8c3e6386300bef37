"""What other clients leave among the messages: none of it stops a receive, and none of it is an exception."""

import pytest
from redis import Redis

from rsmq_tui.protocol import RsmqError, StoredMessage
from rsmq_tui.protocol.keys import QUEUE_FIELDS
from tests.protocol.either import Either
from tests.protocol.keyspace import everything, now_ms, plant

ID = "a" * 32
GONE = "0" * 31


async def test_an_id_without_a_body_at_the_head_is_passed_over_and_hidden(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1)
    message_id = await orders.send_message("orders", "behind")

    received = await orders.receive_message("orders", vt=60)

    assert (received.id, received.rc) == (message_id, 1)
    assert client.zscore("rsmq:orders", ID) == received.fr_ms + 60_000
    assert not client.hexists("rsmq:orders:Q", f"{ID}:rc")
    assert (await orders.get_queue_attributes("orders")).totalrecv == 1


async def test_an_id_without_a_body_is_hidden_for_a_second_even_with_a_vt_of_0(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1)
    message_id = await orders.send_message("orders", "behind")

    received = await orders.receive_message("orders", vt=0)

    assert received.id == message_id
    assert client.zscore("rsmq:orders", ID) == received.fr_ms + 1000


async def test_a_queue_of_nothing_but_ids_without_bodies_gives_nothing(orders: Either, client: Redis) -> None:
    for number in range(5):
        plant(client, "orders", f"{GONE}{number}", due_ms=number)

    assert await orders.receive_message("orders", vt=0) is None
    assert (await orders.get_queue_attributes("orders")).hiddenmsgs == 5


async def test_hundreds_of_ids_without_bodies_delay_the_message_behind_them_and_never_block_it(
    orders: Either, client: Redis
) -> None:
    client.zadd("rsmq:orders", {f"{number:032}": number for number in range(350)})
    message_id = await orders.send_message("orders", "behind")

    received = [await orders.receive_message("orders") for _ in range(4)]

    assert received[:3] == [None, None, None]
    assert received[3].id == message_id


async def test_a_batch_is_filled_past_ids_without_bodies(orders: Either, client: Redis) -> None:
    plant(client, "orders", GONE + "1", due_ms=1)
    plant(client, "orders", "1" * 32, due_ms=2, body="a")
    plant(client, "orders", GONE + "2", due_ms=3)
    plant(client, "orders", "2" * 32, due_ms=4, body="b")

    received = await orders.receive_messages("orders", 2)

    assert [message.body for message in received] == [b"a", b"b"]


async def test_a_batch_is_not_overfilled_past_ids_without_bodies(orders: Either, client: Redis) -> None:
    plant(client, "orders", GONE + "1", due_ms=1)
    for number, body in enumerate("abc", 2):
        plant(client, "orders", str(number) * 32, due_ms=number, body=body)

    received = [await orders.receive_messages("orders", 2) for _ in range(2)]

    assert [[message.body for message in batch] for batch in received] == [[b"a", b"b"], [b"c"]]


async def test_a_pop_removes_ids_without_bodies_with_what_is_left_of_them(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1, rc=3, fr=5)
    message_id = await orders.send_message("orders", "behind")

    popped = await orders.pop_message("orders")

    assert popped.id == message_id
    assert client.exists("rsmq:orders") == 0
    assert list(client.hgetall("rsmq:orders:Q"))[5:] == [b"totalsent", b"totalrecv"]


async def test_a_pop_of_nothing_but_ids_without_bodies_empties_the_queue(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1, rc=3)

    assert await orders.pop_message("orders") is None
    assert client.exists("rsmq:orders", f"rsmq:orders:Q:{ID}:rc") == 0


@pytest.mark.parametrize("rc", ["x", "", "1.5", "9223372036854775807", b"\xff"])
async def test_a_receive_count_that_is_no_number_starts_again_at_1(
    orders: Either, client: Redis, rc: str | bytes
) -> None:
    plant(client, "orders", ID, due_ms=1, body="poison", rc=rc, fr=5)

    first = await orders.receive_message("orders", vt=0)
    second = await orders.receive_message("orders", vt=0)

    assert (first.body, first.rc) == (b"poison", 1)
    assert (second.rc, second.fr_ms) == (2, first.fr_ms)


async def test_a_message_with_a_receive_count_that_is_no_number_can_be_popped(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1, body="poison", rc="x")

    assert (await orders.pop_message("orders")).rc == 1
    assert not client.hexists("rsmq:orders:Q", f"{ID}:rc")


async def test_a_first_received_time_without_a_receive_count_is_not_believed(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1, body="a", fr=5)
    before_ms = now_ms(client)

    first = await orders.receive_message("orders", vt=0)
    second = await orders.receive_message("orders", vt=0)

    assert before_ms <= first.fr_ms == second.fr_ms <= now_ms(client)


async def test_a_first_received_time_that_is_missing_is_set_now(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1, body="moved", rc=3)
    before_ms = now_ms(client)

    first = await orders.receive_message("orders", vt=0)
    second = await orders.receive_message("orders", vt=0)

    assert (first.rc, second.rc) == (4, 5)
    assert before_ms <= first.fr_ms <= now_ms(client)
    assert second.fr_ms == first.fr_ms


async def test_a_first_received_time_that_is_missing_is_now_for_a_pop(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1, body="moved", rc=3)
    before_ms = now_ms(client)

    popped = await orders.pop_message("orders")

    assert popped.rc == 4
    assert before_ms <= popped.fr_ms <= now_ms(client)


async def test_a_first_received_time_that_is_no_number_reads_as_now(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1, body="a", rc=3, fr="yesterday")
    before_ms = now_ms(client)

    assert before_ms <= (await orders.receive_message("orders")).fr_ms <= now_ms(client)


@pytest.mark.parametrize(
    "foreign",
    ["ABCDEFGHIJKLMNOPQRSTUV", "123e4567-e89b-12d3-a456-426614174000", "lhz2vvsb" + "x" * 22, "x", "\x1b[31m"],
    ids=["Go and Ruby", "Scala", "old Rust", "one character", "escape"],
)
async def test_an_id_of_another_shape_is_delivered_hidden_and_deleted(
    orders: Either, client: Redis, foreign: str
) -> None:
    plant(client, "orders", foreign, due_ms=1, body="a")
    plant(client, "orders", foreign + "2", due_ms=2, body="b")
    empty = await orders.get_queue_attributes("orders")

    first, second = await orders.receive_messages("orders", 2, vt=0)
    assert (first.id, second.id) == (foreign, foreign + "2")
    assert await orders.change_message_visibility("orders", first.id, 60) is True
    assert await orders.change_visibility_of("orders", [second.id, "unknown"], 60) == [True, False]
    assert await orders.receive_message("orders") is None
    assert await orders.delete_message("orders", first.id) is True
    assert await orders.delete_messages("orders", [second.id, first.id]) == [True, False]

    assert client.exists("rsmq:orders") == 0
    assert client.hlen("rsmq:orders:Q") == 6
    assert (await orders.get_queue_attributes("orders")).vt == empty.vt


async def test_an_id_that_is_no_utf8_is_delivered_hidden_and_deleted(orders: Either, client: Redis) -> None:
    client.zadd("rsmq:orders", {b"\xff" * 32: 1})
    client.hset("rsmq:orders:Q", b"\xff" * 32, b"\xfe")

    received = await orders.receive_message("orders")

    assert received.id.encode("utf-8", "surrogateescape") == b"\xff" * 32
    assert (received.body, received.sent_ms) == (b"\xfe", None)
    assert await orders.change_message_visibility("orders", received.id, 0) is True
    assert await orders.delete_message("orders", received.id) is True
    assert client.exists("rsmq:orders") == 0


@pytest.mark.parametrize("name", sorted(QUEUE_FIELDS))
async def test_a_member_named_as_a_field_of_the_queue_is_no_message_and_the_field_stays(
    orders: Either, client: Redis, name: bytes
) -> None:
    client.hset("rsmq:orders:Q", mapping={name: "30", name + b":rc": "1"})
    fields = client.hgetall("rsmq:orders:Q")
    client.zadd("rsmq:orders", {name: 1})

    for call in (
        orders.delete_message("orders", name.decode()),
        orders.delete_messages("orders", [name.decode()]),
        orders.change_message_visibility("orders", name.decode(), 0),
        orders.restore_messages("orders", [StoredMessage(name.decode(), b"1", 1, 0, None)]),
    ):
        with pytest.raises(RsmqError, match="is the name of a field of the queue"):
            await call
    assert await orders.receive_message("orders", vt=0) is None
    assert client.zscore("rsmq:orders", name) > 1
    client.zadd("rsmq:orders", {name: 1})
    assert await orders.pop_message("orders") is None

    assert client.exists("rsmq:orders") == 0
    assert client.hgetall("rsmq:orders:Q") == {field: fields[field] for field in fields if field != name + b":rc"}


@pytest.mark.parametrize("suffix", [":rc", ":fr"])
async def test_a_counter_is_no_message_and_stays(orders: Either, client: Redis, suffix: str) -> None:
    plant(client, "orders", "one", due_ms=1, body="a", rc=1, fr=5)
    # Of 32 characters, as the canonical client's are.
    plant(client, "orders", "b" * 29, due_ms=1, body="b", rc=2, fr=6)
    before = everything(client)

    for name in ("one", "b" * 29):
        assert await orders.delete_message("orders", name + suffix) is False
        assert await orders.delete_messages("orders", [name + suffix]) == [False]
        assert await orders.change_message_visibility("orders", name + suffix, 60) is False
        assert await orders.restore_messages("orders", [StoredMessage(name + suffix, b"x", 1, 0, None)]) == [False]

    assert everything(client) == before


@pytest.mark.parametrize("suffix", [":rc", ":fr"])
@pytest.mark.parametrize("way", ["delete", "delete many", "pop"])
async def test_a_message_named_as_anothers_counter_keeps_its_body_when_the_other_goes(
    orders: Either, client: Redis, suffix: str, way: str
) -> None:
    plant(client, "orders", "one", due_ms=1, body="a", rc=1, fr=5)
    plant(client, "orders", "one" + suffix, due_ms=2, body="other")

    if way == "pop":
        assert (await orders.pop_message("orders")).id == "one"
    elif way == "delete":
        assert await orders.delete_message("orders", "one") is True
    else:
        assert await orders.delete_messages("orders", ["one"]) == [True]

    assert client.zrange("rsmq:orders", 0, -1) == [b"one" + suffix.encode()]
    assert client.hget("rsmq:orders:Q", "one" + suffix) == b"other"
    assert not client.hexists("rsmq:orders:Q", "one")
    # Nor does it come back over the other.
    assert await orders.restore_messages("orders", [StoredMessage("one", b"a", 1, 1, 5)]) == [False]
    assert await orders.delete_message("orders", "one" + suffix) is True
    assert not [name for name in client.hkeys("rsmq:orders:Q") if name.startswith(b"one" + suffix.encode())]


async def test_fields_of_a_foreign_id_that_is_no_member_are_left_alone(orders: Either, client: Redis) -> None:
    client.hset("rsmq:orders:Q", mapping={"custom": "of somebody", "custom:rc": 1})
    before = everything(client)

    assert await orders.delete_message("orders", "custom") is False

    assert everything(client) == before


async def test_a_body_without_a_place_in_the_queue_is_removed_by_its_id_and_said_not_to_be_there(
    orders: Either, client: Redis
) -> None:
    client.hset("rsmq:orders:Q", mapping={ID: "leaked", f"{ID}:rc": 1, f"{ID}:fr": 5})

    assert await orders.receive_message("orders") is None
    assert await orders.delete_message("orders", ID) is False
    assert client.hlen("rsmq:orders:Q") == 5


async def test_an_id_without_a_body_can_be_deleted_and_is_said_not_to_be_there(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1)

    assert await orders.delete_message("orders", ID) is False
    assert client.exists("rsmq:orders") == 0


async def test_the_visibility_of_an_id_without_a_body_can_be_changed(orders: Either, client: Redis) -> None:
    plant(client, "orders", ID, due_ms=1)

    assert await orders.change_message_visibility("orders", ID, 60) is True


@pytest.mark.parametrize("score", ["-inf", "-5", "0", "1.5", "1700000000"])
async def test_any_score_of_the_past_is_ready(orders: Either, client: Redis, score: str) -> None:
    client.zadd("rsmq:orders", {ID: score})
    client.hset("rsmq:orders:Q", ID, "a")

    assert (await orders.get_queue_attributes("orders")).hiddenmsgs == 0
    assert (await orders.receive_message("orders")).body == b"a"


@pytest.mark.parametrize("score", ["inf", "1e300", "4102444800000.5"])
async def test_any_score_of_the_future_is_hidden(orders: Either, client: Redis, score: str) -> None:
    client.zadd("rsmq:orders", {ID: score})
    client.hset("rsmq:orders:Q", ID, "a")
    before = everything(client)

    assert (await orders.get_queue_attributes("orders")).hiddenmsgs == 1
    assert await orders.receive_message("orders") is None
    assert everything(client) == before
