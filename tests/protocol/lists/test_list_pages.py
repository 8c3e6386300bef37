"""Pages and items of list queues, by a script and by plain commands, from both take ends."""

from collections.abc import AsyncIterator
from hashlib import sha1
from typing import get_args

import pytest
import redis

from rsmq_tui.protocol import PageRequest, RsmqError
from rsmq_tui.protocol.lists.naming import ListNames, item_id, read_item_id
from rsmq_tui.protocol.lists.pages import LEASES_MAX, PAGE_BYTES, SPAN_ITEMS, ListPages
from rsmq_tui.protocol.rsmq.pages import Anchor, Part, RawPage, Where
from tests.protocol.lists.lists_made import LEFT, QUEUE, RIGHT, fill, fill_wrongly, running

DEADLINE_MS = 4_000_000_000_000


@pytest.fixture(params=["script", "plain"])
async def ways(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[dict[str, ListPages]]:
    async with running(redis_url) as runner:
        if request.param == "plain":
            runner.refused = "not here"
        yield {names.take_from: ListPages(runner, names) for names in (RIGHT, LEFT)}


@pytest.fixture(params=[RIGHT, LEFT], ids=lambda names: names.take_from)
def names(request: pytest.FixtureRequest) -> ListNames:
    found: ListNames = request.param
    return found


@pytest.fixture
def pages(ways: dict[str, ListPages], names: ListNames) -> ListPages:
    return ways[names.take_from]


def previews(page: RawPage) -> list[bytes | None]:
    return [message.preview for message in page.messages]


def numbered(prefix: bytes, count: int) -> list[bytes]:
    return [b"%b-%04d" % (prefix, number) for number in range(count)]


async def test_a_page_begins_with_what_is_taken_next_and_ends_with_the_newest_in_processing(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    ready, processing = numbered(b"r", 5), numbered(b"p", 3)
    fill(client, names, ready=ready, processing=processing, leases=[(item, DEADLINE_MS) for item in processing[:2]])
    page = await pages.page(PageRequest(QUEUE, count=100))
    assert (page.depth, page.ready, page.start) == (8, 5, 0)
    assert previews(page) == ready + processing
    assert [message.id for message in page.messages] == [
        *(item_id("queue", place, item) for place, item in enumerate(ready)),
        *(item_id("processing", place, item) for place, item in enumerate(processing)),
    ]
    assert [message.score for message in page.messages] == ["0"] * 5 + [str(DEADLINE_MS)] * 2 + ["inf"]
    popped = client.rpop(QUEUE) if names.take_from == "right" else client.lpop(QUEUE)
    assert popped == ready[0]


async def test_pages_of_every_part_from_every_place_are_those_of_the_whole_order(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    ready, processing = numbered(b"r", 37), numbered(b"p", 11)
    fill(client, names, ready=ready, processing=processing)
    whole = ready + processing
    ids = [message.id for message in (await pages.page(PageRequest(QUEUE, count=100))).messages]
    bounds = {"all": (0, 48), "ready": (0, 37), "hidden": (37, 48)}
    for part in get_args(Part):
        low, high = bounds[part]
        for where in get_args(Where):
            for at in (0, 1, 35, 36, 37, 40, 47):
                page = await pages.page(PageRequest(QUEUE, part=part, where=where, anchor=Anchor("", ids[at]), count=7))
                before = max(low, min(at, high))
                start = {"first": low, "last": high - 7, "after": at + 1, "before": before - 7, "at": at}[where]
                start = max(low, min(start, high - 1))
                expected = whole[start : min(start + 7, high)]
                assert (page.start, previews(page)) == (start, expected), (part, where, at)


async def test_an_empty_or_missing_queue_has_an_empty_page(client: redis.Redis, pages: ListPages) -> None:
    for part in get_args(Part):
        for where in get_args(Where):
            page = await pages.page(
                PageRequest(QUEUE, part=part, where=where, anchor=Anchor("", "q:5:" + "0" * 40), count=5)
            )
            assert (page.depth, page.ready, page.start, page.messages) == (0, 0, 0, ())


async def test_an_anchor_is_found_where_its_bytes_are_now(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    ready = numbered(b"r", 200)
    for gone in (-30, 3, 60):
        now = ready[gone:] if gone > 0 else numbered(b"new", -gone) + ready
        fill(client, names, ready=now)
        page = await pages.page(
            PageRequest(QUEUE, where="after", anchor=Anchor("0", item_id("queue", 100, ready[100])), count=2)
        )
        assert previews(page) == ready[101:103]


async def test_an_anchor_that_has_gone_stands_for_its_place(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    ready = numbered(b"r", 20)
    fill(client, names, ready=ready)
    gone = Anchor("0", item_id("queue", 10, b"gone"))
    assert previews(await pages.page(PageRequest(QUEUE, where="after", anchor=gone, count=2))) == ready[10:12]
    assert previews(await pages.page(PageRequest(QUEUE, where="before", anchor=gone, count=2))) == ready[8:10]
    beyond = Anchor("0", item_id("queue", 10_000, b"gone"))
    assert previews(await pages.page(PageRequest(QUEUE, where="after", anchor=beyond, count=2))) == ready[-1:]
    odd = Anchor("0", "not an id of ours")
    assert previews(await pages.page(PageRequest(QUEUE, where="after", anchor=odd, count=2))) == ready[:2]


async def test_equal_items_share_their_deadlines_in_order(client: redis.Redis, pages: ListPages) -> None:
    leases = [(b"same", 3_000.0), (b"same", 1_000.0), (b"other", 2_000.0)]
    fill(client, processing=[b"same", b"other", b"same", b"same"], leases=leases)
    page = await pages.page(PageRequest(QUEUE, part="hidden", count=10))
    assert [message.score for message in page.messages] == ["1000", "2000", "3000", "inf"]


async def test_a_grace_lease_is_a_lease(client: redis.Redis, pages: ListPages) -> None:
    fill(client, processing=[b"adopted"])
    client.zadd(RIGHT.leases_key(QUEUE), {b"~" + b"x" * 21 + b":adopted": DEADLINE_MS})
    assert [message.score for message in (await pages.page(PageRequest(QUEUE, count=10))).messages] == [
        str(DEADLINE_MS)
    ]


async def test_what_is_no_lease_of_ours_is_none(client: redis.Redis, pages: ListPages) -> None:
    fill(client, processing=[b"item", b""])
    client.zadd(RIGHT.leases_key(QUEUE), {b"x" * 22 + b"=item": DEADLINE_MS, b"item": DEADLINE_MS})
    assert [message.score for message in (await pages.page(PageRequest(QUEUE, count=10))).messages] == ["inf", "inf"]


async def test_with_more_leases_than_are_looked_at_what_is_not_found_is_unknown(
    client: redis.Redis, pages: ListPages
) -> None:
    items = numbered(b"p", LEASES_MAX + 500)
    fill(client, processing=items, leases=[(item, DEADLINE_MS + place) for place, item in enumerate(items)])
    first = await pages.page(PageRequest(QUEUE, part="hidden", where="first", count=5))
    assert [message.score for message in first.messages] == [str(DEADLINE_MS + place) for place in range(5)]
    client.zrem(RIGHT.leases_key(QUEUE), *(b"%022d:%b" % (place, items[place]) for place in range(5)))
    unknown = await pages.page(PageRequest(QUEUE, part="hidden", where="first", count=5))
    assert {message.score for message in unknown.messages} == {"nan"}


async def test_long_items_are_cut_and_a_page_of_them_ends_early(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    long = [b"%02d" % number + b"x" * (PAGE_BYTES // 4) for number in range(20)]
    fill(client, names, ready=long)
    page = await pages.page(PageRequest(QUEUE, count=20))
    assert 1 <= len(page.messages) <= 5
    assert previews(page) == [item[:240] for item in long[: len(page.messages)]]
    assert page.messages[0].size == len(long[0])
    assert page.messages[0].id == f"q:0:{sha1(long[0]).hexdigest()}"
    last = await pages.page(PageRequest(QUEUE, where="last", count=20))
    assert 1 <= len(last.messages) <= 5
    assert previews(last) == [item[:240] for item in long[-len(last.messages) :]]
    assert last.start + len(last.messages) == 20
    before = await pages.page(PageRequest(QUEUE, where="before", anchor=Anchor("0", last.messages[0].id), count=20))
    assert before.start + len(before.messages) == last.start


async def test_a_single_item_is_shown_however_long_it_is(client: redis.Redis, pages: ListPages) -> None:
    fill(client, ready=[b"x" * (PAGE_BYTES + 5)], processing=[b"y" * (PAGE_BYTES + 7)])
    assert [message.size for message in (await pages.page(PageRequest(QUEUE, count=5))).messages] == [PAGE_BYTES + 5]
    last = await pages.page(PageRequest(QUEUE, where="last", count=5))
    assert [message.size for message in last.messages] == [PAGE_BYTES + 7]


async def test_an_item_is_read_whole_where_it_is_now(client: redis.Redis, pages: ListPages, names: ListNames) -> None:
    ready = [*numbered(b"r", 50), b"\0" * 100_000]
    fill(client, names, ready=ready)
    id = item_id("queue", 50, ready[50])
    found = await pages.item(QUEUE, id)
    assert (found.id, found.score, found.size, found.body) == (id, "0", 100_000, ready[50])
    fill(client, names, ready=ready[20:])
    assert (await pages.item(QUEUE, id)).id == item_id("queue", 30, ready[50])
    fill(client, names, ready=[b"pushed", *ready])
    assert (await pages.item(QUEUE, id)).id == item_id("queue", 51, ready[50])


async def test_an_item_that_was_taken_or_put_back_is_found_there(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    fill(client, names, processing=[*numbered(b"p", 30), b"taken"], leases=[(b"taken", DEADLINE_MS)])
    taken = await pages.item(QUEUE, item_id("queue", 0, b"taken"))
    assert (taken.id, taken.score) == (item_id("processing", 30, b"taken"), str(DEADLINE_MS))
    fill(client, names, ready=[b"back", *numbered(b"r", 30)])
    back = await pages.item(QUEUE, item_id("processing", 3, b"back"))
    assert (back.id, back.score, back.body) == (item_id("queue", 0, b"back"), "0", b"back")


async def test_an_item_that_has_gone_has_no_score(client: redis.Redis, pages: ListPages) -> None:
    for ready in ([], numbered(b"r", SPAN_ITEMS)):
        fill(client, ready=ready)
        for id in (item_id("queue", 7, b"gone"), item_id("processing", 0, b"gone"), "odd"):
            found = await pages.item(QUEUE, id)
            assert (found.id, found.score, found.body) == (id, None, None)


async def test_leases_are_counted_by_when_they_end(client: redis.Redis, pages: ListPages) -> None:
    fill(client, processing=numbered(b"p", 6), leases=[(b"p-0000", 10), (b"p-0001", 20), (b"p-0002", 40)])
    assert await pages.due_counts(QUEUE, (15, 30)) == (1, 2, 3, 6)


@pytest.mark.parametrize("place", range(3))
async def test_a_key_of_another_type_is_our_error(client: redis.Redis, pages: ListPages, place: int) -> None:
    fill_wrongly(client, place)
    with pytest.raises(RsmqError) as raised:
        await pages.page(PageRequest(QUEUE, count=5))
    assert raised.value.code == "wrongType"
    if place < 2:
        with pytest.raises(RsmqError) as raised:
            await pages.item(QUEUE, item_id("queue", 0, b"r"))
        assert raised.value.code == "wrongType"


def test_ids_say_where_and_what_and_nothing_else_is_one() -> None:
    id = item_id("processing", 12, b"body")
    found = read_item_id(id)
    assert found is not None
    assert (found.place, found.position, found.sha, str(found)) == ("processing", 12, sha1(b"body").hexdigest(), id)
    assert read_item_id(id.encode()) == found
    for odd in ("", "q:1", id + "\n", id.upper(), "x" + id, "q:-1:" + "0" * 40, "q:" + "9" * 16 + ":" + "0" * 40):
        assert read_item_id(odd) is None


async def _present(pages: ListPages, ids: list[str]) -> tuple[dict[str, tuple[str, str]], bool]:
    found = await pages.present(QUEUE, ids)
    return found.found, found.is_known


async def test_items_are_found_again_where_they_have_moved_to(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    ready, processing = numbered(b"r", 3_000), numbered(b"p", 4)
    fill(client, names, ready=ready, processing=processing)
    before = [*((ready, at) for at in (0, 1, 2, 900, 2_990)), *((processing, at) for at in (0, 3))]
    ids = [item_id("queue" if items is ready else "processing", at, items[at]) for items, at in before]
    # Two are taken, of which one is acknowledged at once; the oldest in processing is acknowledged, another put back.
    fill(
        client,
        names,
        ready=[processing[3], *ready[2:]],
        processing=[*processing[1:3], ready[1]],
        leases=[(ready[1], DEADLINE_MS)],
    )
    found, is_known = await _present(pages, ids)
    assert not is_known
    assert [found.get(id) for id in ids] == [
        None,
        (item_id("processing", 2, ready[1]), str(DEADLINE_MS)),
        *((item_id("queue", at - 1, ready[at]), "0") for at in (2, 900, 2_990)),
        None,
        (item_id("queue", 0, processing[3]), "0"),
    ]


async def test_in_a_short_queue_what_is_not_found_has_left_it(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    ready = numbered(b"r", 100)
    ids = [item_id("queue", at, ready[at]) for at in (0, 50, 99)]
    fill(client, names, ready=ready[60:], processing=ready[50:51])
    found, is_known = await _present(pages, ids)
    assert is_known
    assert found == {
        ids[1]: (item_id("processing", 0, ready[50]), "inf"),
        ids[2]: (item_id("queue", 39, ready[99]), "0"),
    }
    client.delete(QUEUE)
    assert (await _present(pages, ids))[1]
    fill(client, names, ready=numbered(b"o", 200))
    assert await _present(pages, ids) == ({}, True)
    fill(client, names, ready=numbered(b"o", 600))
    assert await _present(pages, ids) == ({}, False)


async def test_of_equal_items_each_is_found_once(client: redis.Redis, pages: ListPages, names: ListNames) -> None:
    fill(client, names, ready=[b"same"] * 3)
    ids = [item_id("queue", at, b"same") for at in range(3)]
    assert (await _present(pages, ids))[0] == {id: (id, "0") for id in ids}
    fill(client, names, ready=[b"same"] * 2)
    found, is_known = await _present(pages, ids)
    assert is_known
    assert sorted(id for id, _ in found.values()) == ids[:2]


async def test_looking_for_items_again_ends_after_so_many(
    client: redis.Redis, pages: ListPages, names: ListNames
) -> None:
    ready, gone = numbered(b"r", 5_000), numbered(b"gone", 40)
    fill(client, names, ready=ready)
    ids = [item_id("queue", 100 * at, item) for at, item in enumerate(gone)] + [item_id("queue", 0, ready[0])]
    client.config_resetstat()
    found, is_known = await _present(pages, ids)
    assert (found, is_known) == ({}, False)
    assert int(client.info("commandstats")["cmdstat_lrange"]["calls"]) < 100
    # Far away none is looked for.
    assert await _present(pages, [item_id("queue", 3_000, ready[0])]) == ({}, False)
