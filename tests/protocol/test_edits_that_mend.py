"""Guarded edits for what an audit finds: ids without bodies, and fields of nobody or of messages that are there."""

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from rsmq_tui.protocol import Rsmq, RsmqError
from rsmq_tui.protocol.editing import Batch, VoidedError
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, FieldBatch, FieldEdit, LooseBatch, LooseKind, MessageBatch
from tests.protocol.edited import applied, applied_without
from tests.protocol.keyspace import everything
from tests.triage.keyspace import lay, message

BARE = message(b"bare", body=None, rc=b"1", fr=b"5")
STRAY = LooseBatch(LooseKind.STRAY, "a", (FieldEdit(b"gone:rc", b"1", None), FieldEdit(b"leaked", b"\xff=", None)))
OWNED = LooseBatch(LooseKind.OWNED, "a", (FieldEdit(b"here:rc", b"x", None), FieldEdit(b"here:fr", None, b"9")))
DROP = MessageBatch(EditKind.DROP, "a", (Edit(BARE, None),))
BATCHES: dict[str, Batch] = {"drop": DROP, "stray": STRAY, "owned": OWNED}


@pytest.fixture(autouse=True)
def damaged_queue(client: Redis) -> None:
    Rsmq(client).create_queue("a")
    lay(client, "a", BARE, message(b"here", rc=b"x"))
    client.hset("rsmq:a:Q", mapping={"gone:rc": "1", "leaked": b"\xff="})


@pytest.mark.parametrize("name", BATCHES)
async def test_there_and_back(editor: RsmqEditor, client: Redis, name: str) -> None:
    batch, before = BATCHES[name], everything(client)
    assert await applied(editor, batch) == "d" * batch.size
    after = everything(client)
    inverse = batch.inverse("d" * batch.size)
    assert inverse is not None
    assert await applied(editor, inverse) == "d" * batch.size
    assert everything(client) == before
    again = inverse.inverse("d" * batch.size)
    if name != "drop":
        # What was put back is dropped as any message is: by a removal, which reads it first.
        assert again == batch
    assert after != before


async def test_a_body_saves_its_message(editor: RsmqEditor, client: Redis) -> None:
    client.hset("rsmq:a:Q", "bare", "")
    before = everything(client)
    assert await applied(editor, DROP) == "c"
    assert everything(client) == before


@pytest.mark.parametrize(
    ("kind", "edits", "outcome"),
    [
        (LooseKind.STRAY, [(b"gone:rc", b"2", None)], "c"),
        (LooseKind.STRAY, [(b"gone:fr", b"2", None)], "g"),
        (LooseKind.STRAY, [(b"gone:rc", None, b"2")], "c"),
        # Of a message that is there: its body, its counter.
        (LooseKind.STRAY, [(b"here", b"hello", None)], "c"),
        (LooseKind.STRAY, [(b"here:rc", b"x", None)], "c"),
        (LooseKind.STRAY, [(b"here:fr", None, b"5")], "c"),
        (LooseKind.STRAY, [(b"here:meta", None, b"5")], "c"),
        # Each for itself.
        (LooseKind.STRAY, [(b"gone:rc", b"1", None), (b"here:rc", b"x", None), (b"leaked", b"no", None)], "dcc"),
        # An owned field is a counter of a message that is there.
        (LooseKind.OWNED, [(b"gone:rc", b"1", None)], "g"),
        (LooseKind.OWNED, [(b"leaked", b"\xff=", None)], "g"),
        (LooseKind.OWNED, [(b"here:rc", b"y", None)], "c"),
        (LooseKind.OWNED, [(b"here", b"hello", None)], "c"),
        (LooseKind.OWNED, [(b"vt", b"30", None)], "g"),
        (LooseKind.OWNED, [(b"here:rc", b"x", b"")], "d"),
    ],
)
async def test_a_stray_is_nobodys_and_an_owned_field_is_a_counter(
    editor: RsmqEditor,
    client: Redis,
    kind: LooseKind,
    edits: list[tuple[bytes, bytes | None, bytes | None]],
    outcome: str,
) -> None:
    before = everything(client)
    batch = LooseBatch(kind, "a", tuple(FieldEdit(*edit) for edit in edits))
    assert await applied(editor, batch) == outcome
    assert (everything(client) == before) == ("d" not in outcome)


@pytest.mark.parametrize("name", BATCHES)
async def test_carried_out_once_and_settled(editor: RsmqEditor, client: Redis, name: str) -> None:
    batch, token = BATCHES[name], editor.new_token()
    outcome = await editor.apply(batch, token)
    with pytest.raises(VoidedError):
        await editor.apply(batch, token)
    assert await editor.settle(token) == outcome


@pytest.mark.parametrize("name", BATCHES)
async def test_given_up_and_looked_for(editor: RsmqEditor, client: Redis, name: str) -> None:
    batch, token = BATCHES[name], editor.new_token()
    assert await editor.infer_outcome(batch) == ""
    assert await editor.settle(token) is None
    before = everything(client)
    with pytest.raises(VoidedError):
        await editor.apply(batch, token)
    assert everything(client) == before
    await applied(editor, batch)
    assert await editor.infer_outcome(batch) == "d" * batch.size


COMMANDS = ("zcard", "zscore", "hget", "hset", "hdel", "hlen", "hexists", "zrem", "set", "exists")


@pytest.mark.parametrize("denied", COMMANDS)
@pytest.mark.parametrize("name", BATCHES)
async def test_nothing_is_half_done(editor: RsmqEditor, client: Redis, redis_url: str, name: str, denied: str) -> None:
    batch, before = BATCHES[name], everything(client)
    outcome = await applied_without(denied, editor, batch, client, redis_url)

    if outcome is None:
        assert everything(client) == before
    else:
        assert outcome == "d" * batch.size
        inverse = batch.inverse(outcome)
        assert inverse is not None
        await applied(editor, inverse)
        assert everything(client) == before


@pytest.mark.parametrize("key", ["rsmq:a", "rsmq:a:Q"])
@pytest.mark.parametrize("name", BATCHES)
async def test_a_key_of_another_type_changes_nothing(editor: RsmqEditor, client: Redis, name: str, key: str) -> None:
    client.delete(key)
    client.set(key, "x")
    before = everything(client)
    with pytest.raises((RsmqError, ResponseError)):
        await editor.apply(BATCHES[name], editor.new_token())
    assert everything(client) == before


async def test_a_queue_of_the_indexs_name(editor: RsmqEditor, client: Redis) -> None:
    """Its messages' key is the index, a set: there are none, whatever is done to its hash."""
    client.sadd("rsmq:QUEUES", "QUEUES")
    client.hset("rsmq:QUEUES:Q", mapping={"vt": 30, "lost": "body"})
    before = everything(client)
    lost = LooseBatch(LooseKind.STRAY, "QUEUES", (FieldEdit(b"lost", b"body", None),))
    vt = (FieldEdit(b"vt", b"30", None),)
    last = FieldBatch("QUEUES", vt, listed_before=True, listed_after=False, empty=True)
    assert [await applied(editor, lost), await applied(editor, last)] == ["d", "d"]
    assert client.smembers("rsmq:QUEUES") == {b"a"}
    assert not client.exists("rsmq:QUEUES:Q")
    for batch in (last, lost):
        inverse = batch.inverse("d")
        assert inverse is not None
        assert await applied(editor, inverse) == "d"
    assert everything(client) == before


@pytest.mark.parametrize("held", [False, True])
async def test_a_queue_that_held_messages_before_it_was_one(editor: RsmqEditor, client: Redis, held: bool) -> None:
    """Undoing a queue leaves no message without one, but where it found them like that."""
    client.hdel("rsmq:a:Q", "vt")
    before = everything(client)
    made = FieldBatch("a", (FieldEdit(b"vt", None, b"30"),), listed_before=True, listed_after=True, held=held)
    assert await applied(editor, made) == "d"
    inverse = made.inverse("d")
    assert inverse is not None
    assert await applied(editor, inverse) == ("d" if held else "c")
    assert (everything(client) == before) == held
