"""Guarded changes of a queue's own fields and of its place in the index: all of it, or nothing."""

from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq, RsmqError
from rsmq_tui.protocol.editing import VoidedError
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import FieldBatch, FieldEdit
from tests.protocol.edited import applied, applied_without
from tests.protocol.keyspace import everything
from tests.triage.keyspace import lay, message

CREATION = FieldBatch(
    "new",
    (FieldEdit(b"vt", None, b"30"), FieldEdit(b"delay", None, b"0"), FieldEdit(b"maxsize", None, b"-1")),
    listed_before=False,
    listed_after=True,
)
ODD_VALUES = [b"30", b"", b"\xff\x00", b"=30", b" 007", b"x" * 100_000]


async def test_a_queue_is_made_and_taken_away_again(editor: RsmqEditor, client: Redis) -> None:
    before = everything(client)

    assert await applied(editor, CREATION) == "d"
    assert Rsmq(client).get_queue_attributes("new").vt == 30
    assert client.smembers("rsmq:QUEUES") == {b"new"}
    inverse = CREATION.inverse("d")
    assert inverse is not None
    assert await applied(editor, inverse) == "d"

    assert everything(client) == before
    assert CREATION.inverse("c") is None


@pytest.mark.parametrize("after", [None, *ODD_VALUES])
@pytest.mark.parametrize("before", [None, *ODD_VALUES])
async def test_values_are_raw(editor: RsmqEditor, client: Redis, before: bytes | None, after: bytes | None) -> None:
    client.hset("rsmq:new:Q", "kept", "x")
    if before is not None:
        client.hset("rsmq:new:Q", b"na\xffme", before)
    was = everything(client)
    edits = FieldBatch("new", (FieldEdit(b"na\xffme", before, after),), listed_before=False, listed_after=False)

    assert await applied(editor, edits) == "d"
    assert client.hget("rsmq:new:Q", b"na\xffme") == after
    inverse = edits.inverse("d")
    assert inverse is not None
    assert await applied(editor, inverse) == "d"
    assert everything(client) == was


def _somebody_lists_it(client: Redis) -> Any:
    client.sadd("rsmq:QUEUES", "new")


def _somebody_sets_a_field(client: Redis) -> Any:
    client.hset("rsmq:new:Q", "delay", "0")


@pytest.mark.parametrize("meddle", [_somebody_lists_it, _somebody_sets_a_field])
async def test_nothing_changes_where_anything_has(editor: RsmqEditor, client: Redis, meddle: Any) -> None:
    meddle(client)
    before = everything(client)

    assert await applied(editor, CREATION) == "c"

    assert everything(client) == before


async def test_a_queue_with_messages_is_not_taken_away(editor: RsmqEditor, client: Redis) -> None:
    await applied(editor, CREATION)
    lay(client, "new", message())
    before = everything(client)
    inverse = CREATION.inverse("d")
    assert inverse is not None

    assert inverse.empty
    assert await applied(editor, inverse) == "c"
    assert everything(client) == before
    assert await applied(editor, replace(inverse, empty=False)) == "d"


async def test_it_is_carried_out_once(editor: RsmqEditor, client: Redis) -> None:
    token = editor.new_token()
    assert await editor.settle(token) is None
    with pytest.raises(VoidedError):
        await editor.apply(CREATION, token)
    assert not client.exists("rsmq:new:Q", "rsmq:QUEUES")

    token = editor.new_token()
    await editor.apply(CREATION, token)
    assert await editor.settle(token) == "d"
    with pytest.raises(VoidedError):
        await editor.apply(CREATION, token)


@pytest.mark.parametrize("key", ["rsmq:new", "rsmq:new:Q", "rsmq:QUEUES"])
async def test_a_key_of_another_type_changes_nothing(editor: RsmqEditor, client: Redis, key: str) -> None:
    client.set(key, "a string")
    before = everything(client)

    with pytest.raises(RsmqError) as refused:
        await editor.apply(CREATION, editor.new_token())

    assert refused.value.code == "wrongType"
    assert everything(client) == before


MIXED = FieldBatch(
    "new",
    (FieldEdit(b"vt", None, b"30"), FieldEdit(b"stray", b"x", None), FieldEdit(b"delay", b"1", b"2")),
    listed_before=False,
    listed_after=True,
)


@pytest.mark.parametrize(
    "denied", ["hset", "hdel", "hget", "sadd", "srem", "sismember", "zcard", "hlen", "exists", "set"]
)
@pytest.mark.parametrize("way", ["there", "back"])
async def test_nothing_is_half_done_for_a_user_who_may_not_do_all_of_it(
    editor: RsmqEditor, client: Redis, redis_url: str, denied: str, way: str
) -> None:
    client.hset("rsmq:new:Q", mapping={"stray": "x", "delay": "1"})
    edits = MIXED
    if way == "back":
        await applied(editor, MIXED)
        inverse = MIXED.inverse("d")
        assert inverse is not None
        edits = inverse
    before = everything(client)
    outcome = await applied_without(denied, editor, edits, client, redis_url)

    if outcome is None:
        assert everything(client) == before
    else:
        assert outcome == "d"
        assert everything(client) != before
        again = edits.inverse("d")
        assert again is not None
        assert await applied(editor, again) == "d"
        assert everything(client) == before
