"""Guarded changes of list queues, call by call: what is found, what is left alone, and how it comes back."""

from collections.abc import AsyncIterator

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from rsmq_tui.protocol import RsmqError
from rsmq_tui.protocol.editing import VoidedError
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, Window, list_item
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.edits import Edit

A, B = "queue:a", "queue:b"
EVERYWHERE = Window()
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


def removal(names: ListNames, items: list[bytes], window: Window = EVERYWHERE) -> ListBatch:
    return ListBatch(ListKind.REMOVE, A, tuple(Edit(list_item(item), None) for item in items), names, window=window)


def move(names: ListNames, items: list[bytes]) -> ListBatch:
    edits = tuple(Edit(list_item(item), list_item(item)) for item in items)
    return ListBatch(ListKind.MOVE, A, edits, names, B)


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
async def test_removing_and_putting_back(
    editor: ListEditor, client: Redis, names: ListNames, places: list[int]
) -> None:
    lay(client, names, A, ITEMS)
    chosen = [ITEMS[place] for place in places]
    batch = removal(names, chosen)
    outcome = await apply(editor, batch)
    assert outcome == "d" * len(places)
    left = [item for item in ITEMS if item not in chosen]
    assert read(client, names, A) == left

    inverse = batch.inverse(outcome)
    assert inverse is not None
    send(client, names, b"later")
    assert await apply(editor, inverse) == "d" * len(places)
    assert read(client, names, A) == [*chosen, *left, b"later"]


@pytest.mark.parametrize(("place", "way"), [(0, "end"), (29_999, "end"), (2, "through"), (15_000, "walk")])
async def test_each_way_of_taking_away(
    editor: ListEditor, client: Redis, names: ListNames, place: int, way: str
) -> None:
    # Long enough for each to be the cheapest.
    items = [b"%d" % number for number in range(30_000)]
    lay(client, names, A, items)
    chosen = [items[place]] if way == "end" else items[place : place + 10]
    client.config_resetstat()
    await apply(editor, removal(names, chosen))
    assert read(client, names, A) == [item for item in items if item not in chosen]
    assert bool(client.info("commandstats").get("cmdstat_lset")) == (way == "walk")


async def test_a_window_is_counted_from_the_end_that_producers_push_to(
    editor: ListEditor, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, ITEMS)
    take(client, names, 30)
    # 100 is at place 299, whatever consumers take.
    assert await apply(editor, removal(names, [b"100", b"50"], Window(299, 299))) == "dm"
    send(client, names, b"later", b"later still")
    assert await apply(editor, removal(names, [b"200"], Window(199, 199, slack=1))) == "m"
    assert await apply(editor, removal(names, [b"200"], Window(199, 199, slack=2))) == "d"
    assert read(client, names, A) == [*(i for i in ITEMS[30:] if i not in (b"100", b"200")), b"later", b"later still"]


async def test_of_equal_items_those_in_the_window_go_as_many_as_are_meant(
    editor: ListEditor, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, [b"same", b"x", b"same", b"y", b"same"])
    assert await apply(editor, removal(names, [b"same"], Window(2, 2, slack=9))) == "d"
    assert read(client, names, A) == [b"same", b"x", b"y", b"same"]
    assert await apply(editor, removal(names, [b"same"] * 3)) == "ddm"
    assert read(client, names, A) == [b"x", b"y"]


async def test_those_that_are_spared_stay(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, [b"same"] * 5)
    assert await apply(editor, removal(names, [b"same"] * 5, EVERYWHERE._replace(spared=2))) == "dddmm"
    assert client.llen(A) == 2


async def test_what_moves_keeps_its_order_and_comes_back(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, ITEMS[:10])
    lay(client, names, B, [b"b"])
    batch = move(names, [b"0", b"another", b"2"])
    outcome = await apply(editor, batch)
    assert outcome == "dmd"
    assert read(client, names, B) == [b"b", b"0", b"2"]
    inverse = batch.inverse(outcome)
    assert inverse is not None
    assert await apply(editor, inverse) == "dd"
    assert read(client, names, A) == [b"0", b"2", b"1", *ITEMS[3:10]]
    assert read(client, names, B) == [b"b"]


async def test_a_call_that_was_given_up_never_happens(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, ITEMS)
    batch = removal(names, [b"3"])
    token = editor.new_token(batch)
    assert await editor.settle(token) is None
    with pytest.raises(VoidedError):
        await editor.apply(batch, token)
    assert read(client, names, A) == ITEMS
    assert await editor.infer_outcome(batch) == ""
    take(client, names, 4)
    # Somebody may have taken it, or we: it counts as done, and that is told.
    assert await editor.infer_outcome(batch) == "d"


async def test_a_key_of_another_type_changes_nothing(editor: ListEditor, client: Redis, names: ListNames) -> None:
    lay(client, names, A, ITEMS)
    client.set("queue:a:leases", "text")
    with pytest.raises(RsmqError) as refusal:
        await apply(editor, removal(names, [b"0"]))
    assert refusal.value.code == "wrongType"
    assert read(client, names, A) == ITEMS


@pytest.mark.parametrize(("denied", "place"), [
    ("lset", 15_000), ("lrem", 15_000), ("rpush", 2), ("lpush", 2), ("zrem", 0), ("lpop", 0), ("rpop", 0),
])  # fmt: skip
async def test_what_a_user_may_not_do_is_refused_before_anything_is_done(
    redis_url: str, client: Redis, names: ListNames, denied: str, place: int
) -> None:
    items = [b"%d" % number for number in range(30_000)]
    lay(client, names, A, items)
    lay(client, names, B, [b"b"])
    client.acl_setuser("some", enabled=True, nopass=True, keys=["*"], commands=["+@all", f"-{denied}"])
    editor = ListEditor(redis_url.replace("redis://", "redis://some@"), names)
    batch = move(names, items[place : place + 10])
    needed = {"rpush": True, "lpush": True, "lpop": names.take_from == "left", "rpop": names.take_from == "right"}
    if needed.get(denied, True):
        with pytest.raises(ResponseError):
            await editor.apply(batch, editor.new_token(batch))
    assert read(client, names, A) == items
    assert read(client, names, B) == [b"b"]
    assert set(client.keys()) == {A.encode(), B.encode()}
    await editor.aclose()


async def test_no_consumer_sees_what_stands_for_an_item_that_goes(
    editor: ListEditor, client: Redis, names: ListNames
) -> None:
    lay(client, names, A, ITEMS)
    await apply(editor, removal(names, ITEMS[::3]))
    assert read(client, names, A) == [item for number, item in enumerate(ITEMS) if number % 3]


async def test_leases_go_and_come_with_their_items(editor: ListEditor, client: Redis, names: ListNames) -> None:
    processing, leases = names.processing_key(A), names.leases_key(A)
    lay(client, names, processing.decode(), [b"w", b"v", b"w"])
    client.zadd(leases, {b"1" * 22 + b":w": 1000, b"2" * 22 + b":w": 2000, b"3" * 22 + b":v": 3000})
    before = client.zrange(leases, 0, -1, withscores=True)
    found = await editor.leases(A)
    assert found[b"w"] == [(b"1" * 22, b"1000"), (b"2" * 22, b"2000")]
    one = list_item(b"w", area="p")._replace(rc=b"2" * 22, score=b"2000")
    other = list_item(b"v", area="p")._replace(rc=b"3" * 22, score=b"2999")
    batch = ListBatch(ListKind.REMOVE, A, (Edit(other, None), Edit(one, None)), names)
    outcome = await apply(editor, batch)
    assert outcome == "cd"
    assert client.zrange(leases, 0, -1) == [b"1" * 22 + b":w", b"3" * 22 + b":v"]
    inverse = batch.inverse(outcome)
    assert inverse is not None
    await apply(editor, inverse)
    assert client.zrange(leases, 0, -1, withscores=True) == before
    assert sorted(client.lrange(processing, 0, -1)) == [b"v", b"w", b"w"]
