"""What an editor reads before it changes anything: every byte as it lies in the server."""

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from rsmq_tui.protocol import Rsmq, RsmqError
from rsmq_tui.protocol.rsmq.editor import QueueFields, RsmqEditor
from tests.protocol.keyspace import now_ms
from tests.triage.keyspace import ODD, lay, message


@pytest.mark.parametrize("odd", ODD)
async def test_messages_are_read_byte_for_byte(editor: RsmqEditor, client: Redis, odd: str) -> None:
    there = ODD[odd]
    lay(client, "a", there, message(b"other"))
    since_ms = now_ms(client)

    at_ms, found = await editor.messages("a", [b"missing", there.id])
    _, seen = await editor.messages("a", [b"missing", there.id], bodies=False)
    values = await editor.values("a", [there.id, b"missing"])

    assert since_ms <= at_ms <= now_ms(client)
    assert found[0] is seen[0] is None
    assert found[1] is not None
    assert float(found[1].score) == float(there.score)
    assert found[1] == there._replace(score=found[1].score)
    assert seen[1] == found[1]._replace(body=None)
    assert values == [(there.body, there.rc, there.fr), (None, None, None)]


async def test_no_ids_are_no_messages(editor: RsmqEditor, client: Redis) -> None:
    for bodies in (True, False):
        at_ms, found = await editor.messages("a", [], bodies=bodies)
        assert found == []
        assert abs(at_ms - now_ms(client)) < 60_000
    assert await editor.values("a", []) == []


async def test_a_queues_own_fields(editor: RsmqEditor, client: Redis) -> None:
    assert await editor.fields("a") == QueueFields({}, listed=False, depth=0)
    assert not (await editor.fields("a")).exists

    Rsmq(client).create_queue("a", vt=7)
    lay(client, "a", message())
    client.hset("rsmq:a:Q", "totalsent", "\xff")
    found = await editor.fields("a")

    assert found.exists
    assert found.listed
    assert found.depth == 1
    own = client.hgetall("rsmq:a:Q")
    assert own.pop(b"one") == b"hello"
    assert found.attributes == own

    client.hdel("rsmq:a:Q", "maxsize")
    assert not (await editor.fields("a")).exists


@pytest.mark.parametrize("count", [0, 1, 3_000])
async def test_strays_are_found_whatever_the_hash_looks_like(editor: RsmqEditor, client: Redis, count: int) -> None:
    Rsmq(client).create_queue("a")
    strays = {b"field %d" % number: b"\xff%d" % number for number in range(count)}
    if strays:
        client.hset("rsmq:a:Q", mapping=strays)

    found: dict[bytes, bytes] = {}
    steps = 0
    async for part in editor.stray_fields("a"):
        async for values in editor.field_values("a", part):
            found |= values
        steps += 1

    assert found == strays
    assert steps > 1 or count < 3_000


async def test_long_strays_are_read_one_by_one(editor: RsmqEditor, client: Redis) -> None:
    client.hset("rsmq:a:Q", mapping={f"long {number}": b"x" * 2_000_000 for number in range(8)})
    client.hset("rsmq:a:Q", mapping={f"short {number}": b"x" for number in range(8)})
    before = editor.traffic.bytes_received
    (sizes,) = [part async for part in editor.stray_fields("a")]
    assert editor.traffic.bytes_received - before < 2_000
    parts = [part async for part in editor.field_values("a", sizes)]
    assert max(sum(map(len, part.values())) for part in parts) <= 2_000_000
    assert {name: len(value) for part in parts for name, value in part.items()} == sizes
    client.delete("rsmq:a:Q")
    assert [part async for part in editor.field_values("a", {b"gone": 1})] == [{}]


async def test_another_namespace_shares_the_connections(editor: RsmqEditor, client: Redis) -> None:
    lay(client, "a", message(), ns="jobs")
    clients = len(client.client_list())
    other = editor.within("jobs")

    assert (other.ns, other.label, editor.ns) == ("jobs", editor.label, "rsmq")
    assert (await other.fields("a")).depth == 1
    assert (await editor.fields("a")).depth == 0
    assert len(client.client_list()) <= clients + 1


@pytest.mark.parametrize("key", ["rsmq:a", "rsmq:a:Q"])
async def test_a_key_of_another_type_is_told(editor: RsmqEditor, client: Redis, key: str) -> None:
    client.set(key, "a string")

    for read in (editor.fields("a"), editor.messages("a", [b"one"])):
        with pytest.raises(RsmqError) as refused:
            await read
        assert refused.value.code == "wrongType"


async def test_a_label_holds_no_password(redis_url: str) -> None:
    editor = RsmqEditor(redis_url.replace("://", "://ann:secret@"))

    assert "secret" not in editor.label
    assert editor.label == redis_url
    with pytest.raises(ValueError, match="not a Redis URL"):
        RsmqEditor("http://example.org")
    await editor.aclose()


async def test_a_server_that_is_not_there_is_told() -> None:
    editor = RsmqEditor("redis://127.0.0.1:1/0")

    for call in (editor.fields("a"), editor.clock_us(), editor.settle("x"), editor.forget(["x"])):
        with pytest.raises(RedisConnectionError):
            await call
    await editor.forget([])
    await editor.aclose()
