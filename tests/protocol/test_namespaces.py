"""Namespaces: the prefix of every key, taken as it is."""

import pytest
from redis import Redis

from tests.protocol.conftest import MakeQueues
from tests.protocol.either import Either

NAMESPACES = [
    pytest.param("rsmq", id="default"),
    pytest.param("", id="empty"),
    pytest.param("rsmq:", id="trailing colon"),
    pytest.param("a:b", id="nested"),
    pytest.param("jöbs-任务-😀", id="unicode"),
    pytest.param("with space", id="space"),
    pytest.param("{rsmq}", id="hash tag"),
    pytest.param("*[a]?", id="glob characters"),
    pytest.param("\udcff\udcfe", id="bytes that are no UTF-8"),
]


@pytest.mark.parametrize("ns", NAMESPACES)
async def test_all_keys_start_with_the_namespace_and_a_colon(make_queues: MakeQueues, client: Redis, ns: str) -> None:
    queues = make_queues(ns)
    prefix = ns.encode("utf-8", "surrogateescape") + b":"

    await queues.create_queue("orders")
    await queues.send_message("orders", "a")

    assert set(client.keys()) == {prefix + b"QUEUES", prefix + b"orders", prefix + b"orders:Q"}


@pytest.mark.parametrize("ns", NAMESPACES)
async def test_every_operation_works_in_every_namespace(make_queues: MakeQueues, client: Redis, ns: str) -> None:
    queues = make_queues(ns)

    await queues.create_queue("orders")
    first, second, third = await queues.send_messages("orders", ["a", "b", "c"])
    assert await queues.list_queues() == ["orders"]
    assert (await queues.receive_message("orders", vt=60)).id == first
    assert await queues.change_message_visibility("orders", first, 60)
    assert (await queues.pop_message("orders")).id == second
    assert await queues.delete_message("orders", third)
    assert (await queues.set_queue_attributes("orders", vt=5)).hiddenmsgs == 1
    await queues.delete_queue("orders")

    assert client.keys() == []


async def test_namespaces_do_not_see_each_other(make_queues: MakeQueues) -> None:
    ours, theirs = make_queues("a"), make_queues("a:b")

    await ours.create_queue("orders")
    await theirs.create_queue("b")

    assert await ours.list_queues() == ["orders"]
    assert await theirs.list_queues() == ["b"]


async def test_a_name_that_is_no_utf8_is_listed_and_gives_back_its_bytes(queues: Either, client: Redis) -> None:
    names = [b"\xff\xfe", b"\x1b[31m", b"[/bold]", b"a\x00b", "任务".encode(), b""]
    client.sadd("rsmq:QUEUES", *names)

    listed = await queues.list_queues()

    assert listed == sorted(listed)
    assert {name.encode("utf-8", "surrogateescape") for name in listed} == set(names)
