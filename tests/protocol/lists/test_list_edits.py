"""Guarded changes of list queues, call by call: what is found, what is left alone, and how it comes back."""

from collections.abc import AsyncIterator

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from rsmq_tui.protocol import RsmqError
from rsmq_tui.protocol.carrying import VoidedError
from rsmq_tui.protocol.edits import Edit
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import EDGE, ListBatch, ListKind, list_item, sha_of, told_by
from rsmq_tui.protocol.lists.naming import ListNames

A, B = "queue:a", "queue:b"
ITEMS = [b"%d" % number for number in range(400)]


@pytest.fixture(params=["right", "left"])
def names(request: pytest.FixtureRequest) -> ListNames:
    return ListNames(take_from=request.param)


@pytest.fixture
async def editor(redis_url: str, names: ListNames) -> AsyncIterator[ListEditor]:
    opened = ListEditor(redis_url, names)
    yield opened
    await opened.aclose()


def lay(client: Redis, names: ListNames, key: str, items: list[bytes]) -> None:
    client.delete(key)
    client.rpush(key, *(items if names.take_from == "left" else items[::-1]))


def read(client: Redis, names: ListNames, key: str) -> list[bytes]:
    found = client.lrange(key, 0, -1)
    return found if names.take_from == "left" else found[::-1]


def take(client: Redis, names: ListNames, count: int) -> None:
    (client.lpop if names.take_from == "left" else client.rpop)(A, count)


def send(client: Redis, names: ListNames, *items: bytes) -> None:
    (client.rpush if names.take_from == "left" else client.lpush)(A, *items)


def removal(names: ListNames, places: list[int], items: list[bytes] = ITEMS, **hints: int) -> ListBatch:
    """Remove what lies at these places, remembering what is before those that begin a run."""
    edits = []
    for place in places:
        before = EDGE if place == 0 else sha_of(items[place - 1]).encode()
        item = list_item(place, items[place])._replace(fr=None if place - 1 in places else before)
        edits.append(Edit(item, None))
    return ListBatch(ListKind.REMOVE, A, tuple(edits), names, **hints)


async def apply(editor: ListEditor, batch: ListBatch) -> str:
    token = editor.new_token(batch)
    outcome = await editor.apply(batch, token)
    assert await editor.settle(token) == outcome
    await editor.forget([token])
    return outcome


PLACES = [
    [0],
    [399],
    [0, 1, 2],
    [398, 399],
    [200],
    [0, 399],
    [5, 6, 7, 200, 201, 390],
    list(range(400)),
    list(range(100, 300)),
]


@pytest.mark.parametrize("places", PLACES, ids=lambda places: f"{len(places)} from {places[0]}")
@pytest.mark.parametrize("by_sha", [False, True])
async def test_removing_and_putting_back(
    editor: ListEditor, client: Redis, names: ListNames, places: list[int], by_sha: bool
) -> None:
    lay(client, names, A, ITEMS)
    batch = removal(names, places)
    if by_sha:
        shas = tuple(Edit(before and before._replace(body=None), None) for before, _ in batch.edits)
        batch = ListBatch(ListKind.REMOVE, A, shas, names)
    outcome = await apply(editor, batch)
    assert outcome == "d" * len(places) + "@0@0@0"
    left = [item for place, item in enumerate(ITEMS) if place not in places]
    assert read(client, names, A) == left

    inverse = removal(names, places).inverse(outcome)
    assert inverse is not None
    send(client, names, b"later")
    assert await apply(editor, inverse) == "d" * len(places) + "@0@0@0"
    assert read(client, names, A) == [*ITEMS, b"later"]


@pytest.mark.parametrize("way", ["through the front", "through the back", "in the midst"])
async def test_each_way_of_putting_back(editor: ListEditor, client: Redis, names: ListNames, way: str) -> None:
    # Long enough for each to be the cheapest.
    items = [b"%d" % number for number in range(30_000)]
    lay(client, names, A, items)
    place = {"through the front": 100, "through the back": 29_900, "in the midst": 15_000}[way]
    batch = removal(names, [place, place + 1, place + 20], items)
    outcome = await apply(editor, batch)
    inverse = batch.inverse(outcome)
    assert inverse is not None
    client.config_resetstat()
    await apply(editor, inverse)
    inserted = client.info("commandstats").get("cmdstat_linsert", {}).get("calls", 0)
    # One of them is the try whether it is allowed.
    assert inserted == (4 if way == "in the midst" else 1)
    assert read(client, names, A) == items


async def test_what_has_shifted_is_found_where_several_agree(
    editor: ListEditor, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, ITEMS)
    batch = removal(names, [50, 60, 200])
    take(client, names, 30)
    send(client, names, b"later")
    outcome = await apply(editor, batch)
    assert outcome == "ddd@-30@0@0"
    gone = [item for item in ITEMS[30:] if item not in (b"50", b"60", b"200")]
    assert read(client, names, A) == [*gone, b"later"]
    take(client, names, 10)
    inverse = batch.inverse(outcome)
    assert inverse is not None
    assert await apply(editor, inverse) == "ddd@0@-10@0"
    assert read(client, names, A) == [*ITEMS[40:], b"later"]


async def test_one_alone_is_not_taken_for_another_of_the_same_bytes(
    editor: ListEditor, client: Redis, names: ListNames
) -> None:
    items = [b"x", b"same", b"y", b"same", b"z"]
    lay(client, names, A, items)
    batch = removal(names, [1], items)
    take(client, names, 2)
    assert (await apply(editor, batch))[0] == "g"
    assert read(client, names, A) == [b"y", b"same", b"z"]


async def test_what_lies_before_tells_one_alone(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, ITEMS)
    batch = removal(names, [100])
    take(client, names, 20)
    assert await apply(editor, batch) == "d@-20@0@0"
    assert b"100" not in read(client, names, A)


async def test_a_place_that_nothing_tells_of_is_said_to_be_inexact(
    editor: ListEditor, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, ITEMS)
    batch = removal(names, [100])
    outcome = await apply(editor, batch)
    lay(client, names, A, [b"a", b"b"])
    inverse = batch.inverse(outcome)
    assert inverse is not None
    assert told_by(await apply(editor, inverse)).inexact == 1
    assert read(client, names, A) == [b"a", b"b", b"100"]


async def test_what_was_not_there_leaves_no_gap(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, ITEMS[:10])
    befores = [list_item(0, b"0"), list_item(1, b"another"), list_item(2, b"2")]
    afters = [list_item(place, before.body or b"") for place, before in zip((-3, -2, -1), befores, strict=True)]
    lay(client, names, B, [b"b"])
    batch = ListBatch(ListKind.MOVE, A, tuple(map(Edit, befores, afters)), names, B)
    outcome = await apply(editor, batch)
    assert outcome == "dgd@0@0@0"
    assert read(client, names, B) == [b"b", b"0", b"2"]
    inverse = batch.inverse(outcome)
    assert inverse is not None
    assert await apply(editor, inverse) == "dd@0@0@0"
    assert read(client, names, A) == ITEMS[:10]
    assert read(client, names, B) == [b"b"]


async def test_a_call_that_was_given_up_never_happens(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, ITEMS)
    batch = removal(names, [3])
    token = editor.new_token(batch)
    assert await editor.settle(token) is None
    with pytest.raises(VoidedError):
        await editor.apply(batch, token)
    assert read(client, names, A) == ITEMS
    assert await editor.look(batch) == ""
    take(client, names, 4)
    # Somebody may have taken it, or we: it counts as done, and that is told.
    assert await editor.look(batch) == "d"


async def test_a_key_of_another_type_changes_nothing(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, ITEMS)
    client.set("queue:a:leases", "text")
    with pytest.raises(RsmqError) as refusal:
        await apply(editor, removal(names, [0]))
    assert refusal.value.code == "wrongType"
    assert read(client, names, A) == ITEMS


@pytest.mark.parametrize("denied", ["lset", "lrem", "rpush", "lpush", "linsert", "zrem", "zadd"])
async def test_what_a_user_may_not_do_is_refused_before_anything_is_done(
    redis_url: str, client: Redis, names: ListNames, denied: str
) -> None:
    lay(client, names, A, ITEMS)
    lay(client, names, B, [b"b"])
    client.acl_setuser("some", enabled=True, nopass=True, keys=["*"], commands=["+@all", f"-{denied}"])
    editor = ListEditor(redis_url.replace("redis://", "redis://some@"), names)
    befores = removal(names, [100, 200]).befores
    afters = [list_item(place, before.body or b"") for place, before in zip((-2, -1), befores, strict=True)]
    batch = ListBatch(ListKind.MOVE, A, tuple(map(Edit, befores, afters)), names, B)
    with pytest.raises(ResponseError):
        await editor.apply(batch, editor.new_token(batch))
    assert read(client, names, A) == ITEMS
    assert read(client, names, B) == [b"b"]
    assert set(client.keys()) == {A.encode(), B.encode()}
    await editor.aclose()


async def test_no_consumer_sees_what_stands_for_an_item_that_goes(
    editor: ListEditor, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, ITEMS)
    await apply(editor, removal(names, list(range(0, 400, 3))))
    assert all(item in ITEMS for item in read(client, names, A))


async def test_leases_go_and_come_with_their_items(editor: ListEditor, client: Redis, names: ListNames) -> None:
    processing, leases = names.processing_key(A), names.leases_key(A)
    lay(client, names, processing.decode(), [b"w", b"v", b"w"])
    client.zadd(leases, {b"1" * 22 + b":w": 1000, b"2" * 22 + b":w": 2000, b"3" * 22 + b":v": 3000})
    before = client.zrange(leases, 0, -1, withscores=True)
    found = await editor.leases(A)
    assert found[b"w"] == [(b"1" * 22, b"1000"), (b"2" * 22, b"2000")]
    one = list_item(2, b"w", area="p")._replace(rc=b"2" * 22, score=b"2000")
    other = list_item(1, b"v", area="p")._replace(rc=b"3" * 22, score=b"2999")
    batch = ListBatch(ListKind.REMOVE, A, (Edit(other, None), Edit(one, None)), names)
    outcome = await apply(editor, batch)
    assert outcome == "cd@0@0@0"
    assert client.zrange(leases, 0, -1) == [b"1" * 22 + b":w", b"3" * 22 + b":v"]
    inverse = batch.inverse(outcome)
    assert inverse is not None
    await apply(editor, inverse)
    assert client.zrange(leases, 0, -1, withscores=True) == before
    assert read(client, names, processing.decode()) == [b"w", b"v", b"w"]
