"""Guarded changes of messages: each changes only if it still is what was seen, and whole or not at all."""

from dataclasses import replace

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError, ResponseError

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import RawMessage, Rsmq, RsmqError
from rsmq_tui.protocol.editing import VoidedError
from rsmq_tui.protocol.outcomes import letters_of
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, MessageBatch
from tests.protocol.edited import applied, applied_without
from tests.protocol.keyspace import everything
from tests.triage.keyspace import ODD, lay, markers, message

pytestmark = pytest.mark.slow

ONE, TWO, THREE = (message(id, rc=b"1", fr=b"5") for id in (b"one", b"two", b"three"))
LATER = b"99999"


@pytest.fixture(autouse=True)
def two_queues(client: Redis) -> None:
    for queue in ("a", "b"):
        Rsmq(client).create_queue(queue)


# A drop is for messages without a body alone: see the tests of edits that mend.
KINDS = [kind for kind in EditKind if kind is not EditKind.DROP]


def batch(kind: EditKind, *messages: RawMessage, sent: int = 0, must_exist: bool = True) -> MessageBatch:
    """These messages removed, put, made visible later, or moved to b as they are."""
    edits = {
        EditKind.REMOVE: lambda found: Edit(found, None),
        EditKind.DROP: lambda found: Edit(found, None),
        EditKind.PUT: lambda found: Edit(None, found),
        EditKind.RESCORE: lambda found: Edit(found, found._replace(score=LATER)),
        EditKind.MOVE: lambda found: Edit(found, found),
    }
    target = "b" if kind is EditKind.MOVE else None
    return MessageBatch(kind, "a", tuple(map(edits[kind], messages)), target, must_exist, sent)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_inverse_puts_every_byte_back(editor: RsmqEditor, client: Redis, kind: EditKind, odd: str) -> None:
    lay(client, "a", THREE, *([] if kind is EditKind.PUT else [ODD[odd]]))
    before = everything(client)
    edits = batch(kind, ODD[odd])

    assert await applied(editor, edits) == "d"
    changed = everything(client)
    assert changed != before
    inverse = edits.inverse("d")
    assert inverse is not None
    assert await applied(editor, inverse) == "d"
    assert everything(client) == before
    again = inverse.inverse("d")
    assert again is not None
    assert await applied(editor, again) == "d"
    assert everything(client) == changed


@pytest.mark.parametrize("odd", ODD)
async def test_a_move_takes_everything_along(editor: RsmqEditor, client: Redis, odd: str) -> None:
    lay(client, "a", ODD[odd])
    there = everything(client)
    client.delete("rsmq:a")
    attributes = client.hgetall("rsmq:b:Q")
    lay(client, "a", ODD[odd])

    await applied(editor, batch(EditKind.MOVE, ODD[odd]))

    assert everything(client)[b"rsmq:b"] == there[b"rsmq:a"]
    fields = {name: value for name, value in there[b"rsmq:a:Q"].items() if name not in attributes}
    assert client.hgetall("rsmq:b:Q") == attributes | fields
    assert not client.exists("rsmq:a")
    assert client.hgetall("rsmq:a:Q").keys() == attributes.keys()


@pytest.mark.parametrize("kind", [EditKind.REMOVE, EditKind.RESCORE, EditKind.MOVE])
async def test_only_what_is_as_it_was_changes(editor: RsmqEditor, client: Redis, kind: EditKind) -> None:
    seen = [message(b"%d" % number, rc=b"1", fr=b"5") for number in range(6)]
    rescored, received, forgotten, emptied = (
        seen[1]._replace(score=b"1001"),
        seen[2]._replace(rc=b"2"),
        seen[3]._replace(rc=None),
        seen[4]._replace(rc=b""),
    )
    now = [seen[0], rescored, received, forgotten, emptied]
    lay(client, "a", *now)
    others = {found.id for found in now[1:]}

    assert await applied(editor, batch(kind, *seen, seen[0])) == "dccccgg"

    members = dict(client.zrange("rsmq:a", 0, -1, withscores=True))
    assert {id for id in members if id != b"0"} == others
    assert all(members[found.id] == float(found.score) for found in now[1:])
    fields = client.hgetall("rsmq:a:Q")
    assert all(fields[found.id] == found.body and fields.get(found.id + b":rc") == found.rc for found in now[1:])


@pytest.mark.parametrize(
    ("places", "outcome"),
    [((0, 1, 2), "ddd"), ((0, 1, 0, 2), "ddgd"), ((0, 3, 1), "ddd"), ((4, 0), "gd"), ((5, 1), "cd"), ((3, 3), "dg")],
    ids=["all", "one twice", "one called vt", "one gone", "one rescored", "vt twice"],
)
@pytest.mark.parametrize("is_any", [False, True], ids=["unchanged", "any"])
async def test_messages_that_nobody_received_are_removed(
    editor: RsmqEditor, client: Redis, places: tuple[int, ...], outcome: str, is_any: bool
) -> None:
    there = [message(b"%d" % number) for number in range(3)]
    called, gone = message(b"vt", body=None), message(b"gone")
    rescored = message(b"rescored")
    lay(client, "a", *there, rescored._replace(score=b"2000"))
    client.zadd("rsmq:a", {"vt": float(called.score)})
    before = everything(client)
    seen = [*there, called, gone, rescored]
    edits = replace(batch(EditKind.REMOVE, *(seen[place] for place in places)), conditions=() if is_any else None)
    # Whose score or count may be any goes as it is now.
    expected = outcome.replace("c", "d") if is_any else outcome

    found = await applied(editor, edits)

    assert letters_of(found) == expected
    removed = {seen[place].id for place, letter in zip(places, expected, strict=True) if letter == "d"}
    members = {id for id, _ in before[b"rsmq:a"]}
    assert {id for id, _ in everything(client)[b"rsmq:a"]} == members - removed
    assert set(client.hgetall("rsmq:a:Q")) == set(before[b"rsmq:a:Q"]) - (removed - {b"vt"})
    assert await applied(editor, edits.inverse(found)) == "d" * len(removed)
    assert everything(client) == before


@pytest.mark.parametrize("kind", [EditKind.PUT, EditKind.MOVE])
async def test_an_id_that_is_in_use_there_is_left_alone(editor: RsmqEditor, client: Redis, kind: EditKind) -> None:
    known, bodied, free = (message(id) for id in (b"known", b"bodied", b"free"))
    to = "a" if kind is EditKind.PUT else "b"
    lay(client, to, message(b"known", body=b"other"))
    client.hset(f"rsmq:{to}:Q", "bodied", "other")
    if kind is EditKind.MOVE:
        lay(client, "a", known, bodied, free)

    twice = (free,) if kind is EditKind.PUT else ()
    assert await applied(editor, batch(kind, known, bodied, free, *twice)) == "ttd" + "t" * len(twice)

    assert client.hget(f"rsmq:{to}:Q", "known") == b"other"
    assert client.hget(f"rsmq:{to}:Q", "bodied") == b"other"
    assert {id for id, _ in everything(client)[f"rsmq:{to}".encode()]} == {b"known", b"free"}
    if kind is EditKind.MOVE:
        assert {id for id, _ in everything(client)[b"rsmq:a"]} == {b"known", b"bodied"}


async def test_two_messages_do_not_move_to_one_id(editor: RsmqEditor, client: Redis) -> None:
    lay(client, "a", ONE, TWO)
    edits = (Edit(ONE, ONE._replace(id=b"same")), Edit(TWO, TWO._replace(id=b"same")))

    assert await applied(editor, MessageBatch(EditKind.MOVE, "a", edits, "b")) == "dt"

    assert everything(client)[b"rsmq:a"] == [(b"two", 1000.0)]
    assert everything(client)[b"rsmq:b"] == [(b"same", 1000.0)]


async def test_the_inverse_is_of_what_was_done_only(editor: RsmqEditor, client: Redis) -> None:
    lay(client, "a", ONE, TWO._replace(rc=b"9"))
    before = everything(client)
    edits = batch(EditKind.REMOVE, ONE, TWO, THREE)
    outcome = await applied(editor, edits)

    inverse = edits.inverse(outcome)

    assert outcome == "dcg"
    assert inverse == MessageBatch(EditKind.PUT, "a", (Edit(None, ONE),))
    assert edits.inverse("cgt") is None
    assert await applied(editor, inverse) == "d"
    assert everything(client) == before


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_is_carried_out_once(editor: RsmqEditor, client: Redis, kind: EditKind) -> None:
    lay(client, "a", *([] if kind is EditKind.PUT else [ONE]))
    token = editor.new_token()
    outcome = await editor.apply(batch(kind, ONE, TWO), token)
    done = everything(client)

    with pytest.raises(VoidedError):
        await editor.apply(batch(kind, ONE, TWO), token)

    assert everything(client) == done
    assert await editor.settle(token) == outcome
    await editor.forget([token])
    assert markers(client) == {}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_that_was_given_up_never_is(editor: RsmqEditor, client: Redis, kind: EditKind) -> None:
    lay(client, "a", *([] if kind is EditKind.PUT else [ONE]))
    before = everything(client)
    token = editor.new_token()

    assert await editor.settle(token) is None
    with pytest.raises(VoidedError):
        await editor.apply(batch(kind, ONE), token)

    assert await editor.settle(token) is None
    await editor.forget([token])
    assert everything(client) == before


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_that_was_announced_and_left_no_marker_was_not_carried_out(
    editor: RsmqEditor, client: Redis, kind: EditKind
) -> None:
    lay(client, "a", *([] if kind is EditKind.PUT else [ONE]))
    before = everything(client)
    lost, known = editor.new_token(), editor.new_token()
    await editor.announce([lost, known])

    # Whoever asks twice, having died in between, hears the same.
    assert [await editor.settle(lost), await editor.settle(lost)] == ["", ""]
    with pytest.raises(VoidedError):
        await editor.apply(batch(kind, ONE), lost)
    await editor.forget([lost])
    assert {key: value for key, value in everything(client).items() if b":rsmq-tui:" not in key} == before
    assert await editor.apply(batch(kind, ONE), known) == "d"
    assert await editor.settle(known) == "d"
    await editor.forget([known])
    assert not client.keys("*:rsmq-tui:*")


async def test_what_is_left_behind_has_no_lifetime_to_be_evicted_by(editor: RsmqEditor, client: Redis) -> None:
    lay(client, "a", ONE)
    applied_token, voided = editor.new_token(), editor.new_token()
    await editor.apply(batch(EditKind.REMOVE, ONE), applied_token)
    await editor.settle(voided)

    assert client.ttl(f"rsmq:rsmq-tui:{applied_token}") == client.ttl(f"rsmq:rsmq-tui:{voided}") == -1


async def test_what_expires_keeps_its_outcome_and_its_type_until_then_also_without_memory(
    editor: RsmqEditor, client: Redis
) -> None:
    lay(client, "a", ONE)
    done, voided, foreign = editor.new_token(), editor.new_token(), editor.new_token()
    await editor.announce([done, voided])
    await editor.apply(batch(EditKind.REMOVE, ONE), done)
    await editor.settle(voided)
    client.rpush(f"rsmq:rsmq-tui:{foreign}", "a list")
    client.config_set("maxmemory", 1)
    try:
        await editor.expire([done, voided, foreign, editor.new_token()])
    finally:
        client.config_set("maxmemory", 0)

    assert [await editor.settle(done), await editor.settle(voided)] == ["d", ""]
    assert client.lrange(f"rsmq:rsmq-tui:{foreign}", 0, -1) == [b"a list"]
    assert {client.ttl(f"rsmq:rsmq-tui:{token}") > 0 for token in (done, voided, foreign)} == {True}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_queue_that_is_none_gets_nothing(editor: RsmqEditor, client: Redis, kind: EditKind) -> None:
    to = "b" if kind is EditKind.MOVE else "a"
    lay(client, "a", *([] if kind is EditKind.PUT else [ONE]))
    client.hdel(f"rsmq:{to}:Q", "vt")
    before = everything(client)

    with pytest.raises(RsmqError) as refused:
        await editor.apply(batch(kind, ONE), editor.new_token())
    assert refused.value.code == "queueNotFound"
    assert everything(client) == before

    assert await applied(editor, batch(kind, ONE, must_exist=False)) == "d"
    assert everything(client) != before


@pytest.mark.parametrize("key", ["rsmq:a", "rsmq:a:Q", "rsmq:b", "rsmq:b:Q"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_of_another_type_changes_nothing(
    editor: RsmqEditor, client: Redis, kind: EditKind, key: str
) -> None:
    lay(client, "a", *([] if kind is EditKind.PUT else [ONE]))
    client.delete(key)
    client.set(key, "a string")
    before = everything(client)

    if kind is not EditKind.MOVE and key.startswith("rsmq:b"):
        assert await applied(editor, batch(kind, ONE)) == "d"
        return
    with pytest.raises(RsmqError) as refused:
        await editor.apply(batch(kind, ONE), editor.new_token())
    assert refused.value.code == "wrongType"
    assert everything(client) == before


@pytest.mark.parametrize("score", [b" 12", b"12 ", b"0x1G", b"1_0", b"nan", b"", b"one", b"1e", b"\xd9\xa1"])
@pytest.mark.parametrize("kind", [EditKind.PUT, EditKind.MOVE])
async def test_a_score_that_is_none_changes_nothing(
    editor: RsmqEditor, client: Redis, kind: EditKind, score: bytes
) -> None:
    lay(client, "a", *([] if kind is EditKind.PUT else [ONE, TWO]))
    before = everything(client)
    after = [ONE, TWO._replace(score=score)]
    edits = tuple(
        Edit(None if kind is EditKind.PUT else found, now) for found, now in zip([ONE, TWO], after, strict=True)
    )
    target = "b" if kind is EditKind.MOVE else None

    with pytest.raises(ResponseError):
        await editor.apply(MessageBatch(kind, "a", edits, target), editor.new_token())

    assert everything(client) == before


@pytest.mark.parametrize("name", ["vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_called_as_an_attribute_leaves_the_attribute_alone(
    editor: RsmqEditor, client: Redis, kind: EditKind, name: str
) -> None:
    for queue in ("a", "b"):
        client.hset(f"rsmq:{queue}:Q", mapping={"totalsent": 7, "totalrecv": 8})
    attributes = {queue: client.hgetall(f"rsmq:{queue}:Q") for queue in ("a", "b")}
    odd = message(name.encode(), body=client.hget("rsmq:a:Q", name))
    client.execute_command("ZADD", "rsmq:a", *([1, "other"] if kind is EditKind.PUT else [odd.score, odd.id]))
    before = everything(client)

    assert await applied(editor, batch(kind, odd)) == "d"
    assert {queue: client.hgetall(f"rsmq:{queue}:Q") for queue in ("a", "b")} == attributes
    inverse = batch(kind, odd).inverse("d")
    assert inverse is not None
    assert await applied(editor, inverse) == "d"
    assert everything(client) == before


@pytest.mark.parametrize(
    ("total", "with_three", "after"),
    [(None, b"2", b"0"), (b"0", b"2", b"0"), (b"40", b"42", b"40"), (b"many", b"many", b"many"), (b"", b"", b"")],
)
async def test_what_is_sent_counts_and_what_is_taken_back_does_not(
    editor: RsmqEditor, client: Redis, total: bytes | None, with_three: bytes, after: bytes
) -> None:
    if total is not None:
        client.hset("rsmq:a:Q", "totalsent", total)
    lay(client, "a", THREE)
    edits = batch(EditKind.PUT, ONE, TWO, THREE, sent=1)

    assert await applied(editor, edits) == "ddt"
    assert client.hget("rsmq:a:Q", "totalsent") == with_three
    inverse = edits.inverse("ddt")
    assert inverse is not None
    assert await applied(editor, inverse) == "dd"
    assert client.hget("rsmq:a:Q", "totalsent") == after


async def test_nothing_sent_counts_nothing(editor: RsmqEditor, client: Redis) -> None:
    lay(client, "a", ONE)

    assert await applied(editor, batch(EditKind.PUT, ONE, sent=1)) == "t"

    assert client.hget("rsmq:a:Q", "totalsent") is None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_may_be_large(editor: RsmqEditor, client: Redis, kind: EditKind) -> None:
    many = [message(b"%032d" % number, rc=b"1", fr=b"5") for number in range(500)]
    lay(client, "a", *([] if kind is EditKind.PUT else many))
    before = everything(client)
    edits = batch(kind, *many)

    assert await applied(editor, edits) == "d" * 500
    client.script_flush()
    inverse = edits.inverse("d" * 500)
    assert inverse is not None
    assert await applied(editor, inverse) == "d" * 500
    assert everything(client) == before


async def test_an_empty_batch_does_nothing(editor: RsmqEditor, client: Redis) -> None:
    before = everything(client)

    for kind in EditKind:
        assert await applied(editor, batch(kind)) == ""
    assert everything(client) == before


async def test_an_edit_of_nothing_is_refused(editor: RsmqEditor) -> None:
    with pytest.raises(ValueError, match="an edit of nothing"):
        await editor.apply(MessageBatch(EditKind.REMOVE, "a", (Edit(None, None),)), editor.new_token())


COMMANDS = (
    *("zadd", "zrem", "zscore", "zmscore", "zcard", "hset", "hdel", "hget", "hmget", "hlen", "hexists", "hincrby"),
    *("sadd", "srem", "sismember", "set", "exists"),
)


@pytest.mark.parametrize("denied", COMMANDS)
@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_half_done_for_a_user_who_may_not_do_all_of_it(
    editor: RsmqEditor, client: Redis, redis_url: str, kind: EditKind, denied: str
) -> None:
    # The first has no fields: whoever writes it before being refused has begun.
    messages = [message(b"bare", body=None), ONE, TWO]
    lay(client, "a", *([] if kind is EditKind.PUT else messages))
    before = everything(client)
    edits = batch(kind, *messages, sent=1 if kind is EditKind.PUT else 0)

    outcome = await applied_without(denied, editor, edits, client, redis_url)

    if outcome is None:
        assert everything(client) == before
    else:
        assert outcome == "ddd"
        done = everything(client)
        inverse = edits.inverse(outcome)
        assert inverse is not None
        await applied(editor, inverse)
        # Who may not HINCRBY counts nothing.
        total = client.hget("rsmq:a:Q", "totalsent")
        assert total == (None if kind is not EditKind.PUT else b"-3" if denied == "hincrby" else b"0")
        client.hdel("rsmq:a:Q", "totalsent")
        assert everything(client) == before
        assert done != before


async def test_removing_works_on_a_server_that_is_out_of_memory() -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as admin:
        for queue in ("a", "b"):
            Rsmq(admin).create_queue(queue)
        lay(admin, "a", ONE, TWO)
        editor = RsmqEditor(server.url)
        await editor.fields("a")
        # The server knows the script: only what the script does is refused.
        assert await applied(editor, batch(EditKind.REMOVE, THREE)) == "g"
        before = everything(admin)
        admin.config_set("maxmemory", "1")
        try:
            for kind, edited in ((EditKind.PUT, THREE), (EditKind.RESCORE, ONE)):
                with pytest.raises(OutOfMemoryError):
                    await editor.apply(batch(kind, edited), editor.new_token())
            assert everything(admin) == before

            token = editor.new_token()
            assert await editor.apply(batch(EditKind.REMOVE, ONE), token) == "d"
            assert await editor.settle(token) == "d"
            await editor.forget([token])
            assert everything(admin)[b"rsmq:a"] == [(b"two", 1000.0)]
        finally:
            admin.config_set("maxmemory", "0")
            await editor.aclose()
