"""Looks at whether keys agree: the same with scripts and without, and nothing of them holds the server."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq, RsmqError, RsmqReader
from rsmq_tui.protocol.rsmq.inspection import Belonging, MemberNow, QueueInspection, QueueLook
from tests.protocol.keyspace import everything, plant

A, B, C = "a" * 32, "b" * 32, "c" * 32


@pytest.fixture(params=["scripts", "plain commands"])
async def looking(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[QueueInspection]:
    async with aclosing(RsmqReader(redis_url)) as reader:
        if request.param == "plain commands":
            reader.inspection._runner.refused = "not here"
        yield reader.inspection


async def test_looks(looking: QueueInspection, client: Redis) -> None:
    queues = Rsmq(client)
    queues.create_queue("whole", vt=7)
    plant(client, "whole", A, due_ms=5)
    plant(client, "zset", B, due_ms=1_700_000_000_000)
    client.hset("rsmq:half:Q", mapping={"vt": "x", "other": "y"})
    client.set("rsmq:wrong", "1")
    client.rpush("rsmq:wrong:Q", "1")
    client.sadd("rsmq:QUEUES", "wrong")
    before = everything(client)
    whole, zset, half, wrong, gone = await looking.looks(["whole", "zset", "half", "wrong", "gone"])

    assert (whole.zset_type, whole.hash_type, whole.listed, whole.depth, whole.fields) == ("zset", "hash", True, 1, 5)
    assert (whole.exists, whole.head, whole.attributes[b"vt"]) == (True, (A.encode(), b"5"), b"7")
    assert zset == QueueLook("zset", "zset", "none", False, 1, 0, (B.encode(), b"1700000000000"), {})
    assert half == QueueLook("half", "none", "hash", False, 0, 2, None, {b"vt": b"x"})
    assert wrong == QueueLook("wrong", "string", "list", True, 0, 0, None, {})
    assert gone == QueueLook("gone", "none", "none", False, 0, 0, None, {})
    assert everything(client) == before


async def test_an_index_of_another_type_names_nobody(looking: QueueInspection, client: Redis) -> None:
    client.set("rsmq:QUEUES", "1")
    (look,) = await looking.looks(["q"])
    assert not look.listed
    with pytest.raises(RsmqError) as raised:
        _ = [names async for names in looking.listed()]
    assert raised.value.code == "wrongType"


async def test_many_looks_keep_their_order(looking: QueueInspection, client: Redis) -> None:
    names = [f"q{number}" for number in range(250)]
    client.sadd("rsmq:QUEUES", *names[::2])
    looks = await looking.looks(names)

    assert [look.queue for look in looks] == names
    assert [look.listed for look in looks] == [number % 2 == 0 for number in range(250)]
    assert sorted([name async for part in looking.listed() for name in part]) == sorted(names[::2])


async def test_members(looking: QueueInspection, client: Redis) -> None:
    plant(client, "q", A, due_ms=5, body="", rc=3, fr=4)
    plant(client, "q", B, due_ms=6)
    client.hset("rsmq:q:Q", C, "no member")
    # The counter of one is the body of another.
    plant(client, "q", A + ":x", due_ms=7, body="x")
    plant(client, "q", A + ":x:rc", due_ms=8, body="no count")

    assert await looking.members("q", [id.encode() for id in (A, B, C, A + ":x")]) == [
        MemberNow(A.encode(), b"5", True, b"3", b"4"),
        MemberNow(B.encode(), b"6", False, None, None),
        MemberNow(C.encode(), None, True, None, None),
        MemberNow(A.encode() + b":x", b"7", True, None, None),
    ]
    assert await looking.members("q", []) == []


async def test_belongings(looking: QueueInspection, client: Redis) -> None:
    plant(client, "q", A, due_ms=5, body="x", rc=3, fr=4)
    plant(client, "q", B + ":rc", due_ms=5, body="x")
    client.hset("rsmq:q:Q", mapping={C: "leaked", C + ":rc": 1, "d:fr": 1, "e:meta": 1, ":rc": 1, "f:rcx": 1})
    expected = {
        A: Belonging.MESSAGE,
        A + ":rc": Belonging.MESSAGE,
        A + ":fr": Belonging.MESSAGE,
        A + ":meta": Belonging.MESSAGE,
        B + ":rc": Belonging.MESSAGE,
        C: Belonging.BODY,
        C + ":rc": Belonging.OF_BODY,
        C + ":fr": Belonging.MESSAGE,
        "d:fr": Belonging.COUNTER,
        "e:meta": Belonging.COUNTER,
        ":rc": Belonging.COUNTER,
        "f:rcx": Belonging.BODY,
        "not there": Belonging.MESSAGE,
    }
    assert dict(zip(expected, await looking.belongings("q", [name.encode() for name in expected]), strict=True)) == (
        expected
    )


@pytest.mark.parametrize("leaves_out", [True, False])
async def test_fields_come_once_and_without_attributes(
    leaves_out: bool, looking: QueueInspection, client: Redis
) -> None:
    Rsmq(client).create_queue("q")
    client.hset(
        "rsmq:q:Q", mapping={"createdby": "x", "totalsent": 1, **{f"{n}": "y" * (n % 300) for n in range(2_000)}}
    )
    looking._can_leave_values_out = leaves_out
    names = [name async for page in looking.fields("q") for name in page]

    assert sorted(names) == sorted(b"%d" % number for number in range(2_000))
    assert [page async for page in looking.fields("gone")] == [[]]


async def test_a_server_without_novalues_is_asked_once(
    looking: QueueInspection, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis 7.0 answers with a syntax error."""
    client.hset("rsmq:q:Q", mapping={f"{number}": "x" * 70 for number in range(700)})
    commands = looking._runner.commands
    refused: list[Any] = []

    async def old(*asked: Any) -> object:
        changed = [(*command[:-1], "NOPE") if command[-1] == "NOVALUES" else command for command in asked]
        refused.extend(command for command in changed if command[-1] == "NOPE")
        return await commands(*changed)

    monkeypatch.setattr(looking._runner, "commands", old)
    names = [name async for page in looking.fields("q") for name in page]

    assert len(names) == 700
    assert len(refused) == 1


async def test_a_server_without_novalues_sends_no_long_values(looking: QueueInspection, client: Redis) -> None:
    client.hset("rsmq:q:Q", mapping={f"{number}": b"x" * 1_000_000 for number in range(20)})
    looking._can_leave_values_out = False
    before = looking._runner.traffic.bytes_received
    names = [name async for page in looking.fields("q") for name in page]
    assert len(names) == 20
    # Without scripts there is no way to leave them out.
    are_left_out = looking._runner.traffic.bytes_received - before < 10_000
    assert are_left_out is (looking._runner.refused is None)


async def test_values(looking: QueueInspection, client: Redis) -> None:
    client.hset("rsmq:q:Q", mapping={"short": "x", "long": "y" * 1_000_001, "limit": "z" * 1_000_000, b"\xff": b"\x00"})
    names = [b"short", b"long", b"gone", b"limit", b"\xff"]

    assert await looking.values("q", names) == [b"x", 1_000_001, None, b"z" * 1_000_000, b"\x00"]
    assert await looking.values("q", []) == []


async def test_keys_are_found_by_their_names(client: Redis, redis_url: str) -> None:
    for key in ("a*b:q:Q", "a*b:z", "a*b:QUEUES", "a*b:nested:q:Q", "axb:q:Q", "a*b:QUEUES:Q", "a*b::Q", "a*b:"):
        client.set(key, "x")
    async with aclosing(RsmqReader(redis_url, "a*b")) as reader:
        assert [names async for _, names in reader.inspection.keyed()] == [["QUEUES", "q", "z"]]
