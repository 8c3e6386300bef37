"""Looking at the items of list queues: pages, items, searches and leases, in words for people."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor import MessageState, PageRequest, PeekError, parse_filter
from rsmq_tui.monitor.filters.json_paths import age_path
from rsmq_tui.monitor.list_poller import (
    ListPoller,
    item_places_of,
    search_lists,
)
from rsmq_tui.monitor.messages.peek import count_states, state_of
from rsmq_tui.protocol.lists.naming import item_id
from rsmq_tui.protocol.lists.reader import ListReader
from tests.protocol.lists.lists_made import QUEUE, RIGHT, fill

MADE_MS = 1_700_000_000_000
LATER_MS = 4_000_000_000_000
AGE = age_path("made")


def job(number: int, kind: str = "mail") -> bytes:
    return json.dumps({"n": number, "kind": kind, "made": MADE_MS + number}).encode()


READY = [job(number) for number in range(5)]
LEASED, OVER, UNLEASED = job(10, "report"), job(11, "report"), job(12)


@pytest.fixture
async def reader(client: redis.Redis, redis_url: str) -> AsyncIterator[ListReader]:
    fill(client, ready=READY, processing=[LEASED, OVER, UNLEASED], leases=[(LEASED, LATER_MS), (OVER, 1_000)])
    async with aclosing(ListReader(redis_url, RIGHT, [QUEUE])) as reading:
        yield reading


async def found(reader: ListReader, text: str, *, age: bool = False) -> set[bytes]:
    """Return the ids of what a filter finds, less their SHA1."""
    rows = []
    async with aclosing(search_lists(reader, QUEUE, parse_filter(text), age=AGE if age else None)) as coming:
        async for progress in coming:
            rows += [message.id.rsplit(b":", 1)[0] for message in progress.messages]
    assert len(rows) == len(set(rows))
    return set(rows)


async def test_a_page_tells_what_is_with_each_lease(reader: ListReader) -> None:
    page = await ListPoller(reader).peek(PageRequest(QUEUE))
    assert [(row.state, row.due_ms) for row in page.rows] == [
        *[(MessageState.READY, None)] * 5,
        (MessageState.IN_FLIGHT, LATER_MS),
        (MessageState.EXPIRED, 1_000),
        (MessageState.UNLEASED, None),
    ]
    assert {(row.rc, row.fr_ms, row.sent_ms) for row in page.rows} == {(None, None, None)}
    assert [row.state_at(LATER_MS) for row in page.rows[4:6]] == [MessageState.READY, MessageState.EXPIRED]
    assert all(row.is_item for row in page.rows)
    assert page.is_first
    assert page.is_last
    ready = await ListPoller(reader).peek(PageRequest(QUEUE, "ready", "last", count=2))
    assert (ready.start, ready.is_first, ready.is_last) == (3, False, True)


async def test_an_age_comes_from_where_items_tell_it(client: redis.Redis, reader: ListReader) -> None:
    long = json.dumps({"made": MADE_MS, "x": "y" * 20_000}).encode()
    fill(client, ready=[job(3), b"no json", long, b'{"made": "never"}'])
    page = await ListPoller(reader, age=AGE).peek(PageRequest(QUEUE))
    assert [row.sent_ms for row in page.rows] == [MADE_MS + 3, None, None, None]
    assert [len(row.preview or b"") for row in page.rows] == [len(job(3)), 7, 240, 17]
    whole = await ListPoller(reader, age=AGE).read(QUEUE, item_id("queue", 2, long))
    assert whole.row is not None
    assert whole.row.sent_ms == MADE_MS


async def test_an_item_is_shown_where_it_is_and_one_that_has_gone_is_not(reader: ListReader) -> None:
    view = await ListPoller(reader).read(QUEUE, item_id("processing", 9, OVER))
    assert (view.id, view.body) == (item_id("processing", 1, OVER), OVER)
    assert view.row is not None
    assert view.row.state is MessageState.EXPIRED
    gone = await ListPoller(reader).read(QUEUE, item_id("queue", 0, b"gone"))
    assert (gone.row, gone.body) == (None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {b"q:0", b"q:1", b"q:2", b"q:3", b"q:4", b"p:0", b"p:1", b"p:2"}),
        ("state:ready", {b"q:0", b"q:1", b"q:2", b"q:3", b"q:4"}),
        ("state:hidden", {b"p:0", b"p:1", b"p:2"}),
        ("state:inflight", {b"p:0"}),
        ("state:expired", {b"p:1"}),
        ("state:unleased", {b"p:2"}),
        ("state:expired|unleased", {b"p:1", b"p:2"}),
        ("state:delayed|poison", set()),
        ("!state:ready !state:expired", {b"p:0", b"p:2"}),
        ("rc>=0", set()),
        ("json.kind=report", {b"p:0", b"p:1"}),
        ("report state:expired", {b"p:1"}),
        ("report", {b"p:0", b"p:1"}),
        ("id:p:", {b"p:0", b"p:1", b"p:2"}),
        ("due<0s state:hidden", {b"p:1"}),
        ("age>0s", set()),
        ("size<1", set()),
    ],
)
async def test_filters_mean_on_lists_what_they_say(reader: ListReader, text: str, expected: set[bytes]) -> None:
    assert await found(reader, text) == expected


async def test_ages_are_searched_where_items_tell_them(reader: ListReader) -> None:
    assert await found(reader, "age>1s state:hidden", age=True) == {b"p:0", b"p:1", b"p:2"}
    assert await found(reader, "age<1s", age=True) == set()
    async for progress in search_lists(reader, QUEUE, parse_filter("state:unleased"), age=AGE):
        assert [row.sent_ms for row in progress.rows] in ([], [MADE_MS + 12])


async def test_a_search_ends_after_enough_and_counts_what_it_cannot_read(
    client: redis.Redis, reader: ListReader
) -> None:
    parts = [each async for each in search_lists(reader, QUEUE, parse_filter(""), limit=3)]
    assert sum(len(each.messages) for each in parts) == 3
    fill(client, ready=[b"needle" + b"x" * 1_000_001, b"needle"])
    (*_, last) = [each async for each in search_lists(reader, QUEUE, parse_filter("needle"))]
    assert (last.scanned, last.matched, last.not_searched) == (2, 1, 1)


def test_only_where_something_can_match_is_searched() -> None:
    both = ("queue", "processing")
    for text, places in {
        "": both,
        "state:ready|expired": both,
        "!state:ready": ("processing",),
        "!state:hidden": ("queue",),
        "!state:expired": both,
        "state:ready": ("queue",),
        "state:hidden": ("processing",),
        "state:expired|unleased|inflight": ("processing",),
        "state:ready state:expired": (),
        "state:delayed": (),
    }.items():
        assert item_places_of(parse_filter(text)) == places, text


async def test_leases_are_counted_by_when_they_run_out(client: redis.Redis, reader: ListReader) -> None:
    at_ms = 1_000_000
    leases = [(LEASED, at_ms - 1), (OVER, at_ms + 5_000), (UNLEASED, at_ms + 30_000), (b"x", at_ms + 10**9)]
    fill(client, processing=[LEASED, OVER, UNLEASED, b"x", b"y", b"z"], leases=leases)
    assert dict(await ListPoller(reader).due(QUEUE, at_ms)) == {
        "over": 1, "< 10 s": 1, "< 1 min": 1, "< 10 min": 0, "< 1 h": 0, "later": 1, "no lease": 2,
    }  # fmt: skip


async def test_what_fails_is_a_sentence(client: redis.Redis, reader: ListReader) -> None:
    client.delete(QUEUE)
    client.set(QUEUE, "x")
    for look in (
        ListPoller(reader).peek(PageRequest(QUEUE)),
        ListPoller(reader).read(QUEUE, item_id("queue", 0, b"x")),
        anext(search_lists(reader, QUEUE, parse_filter(""))),
    ):
        with pytest.raises(PeekError, match="type"):
            await look
    client.set(RIGHT.leases_key(QUEUE), "x")
    with pytest.raises(PeekError, match="type"):
        await ListPoller(reader).due(QUEUE, 0)


async def test_nobody_waits(reader: ListReader) -> None:
    assert await ListPoller(reader).blocked(QUEUE) == (0, 0, None)


async def test_a_server_that_does_not_report_who_waits_is_asked_once(reader: ListReader, client: redis.Redis) -> None:
    client.config_resetstat()
    for _ in range(3):
        assert not await reader.reports_waits()
    assert client.info("commandstats")["cmdstat_info"]["calls"] == 1


async def test_a_server_that_tells_it_says_who_waits_here_and_how_long(list_server: ListServer) -> None:
    list_server.stop_clock()
    clients = [redis.Redis(port=list_server.port) for _ in range(3)]
    async with aclosing(ListReader(f"redis://127.0.0.1:{list_server.port}", RIGHT, [QUEUE])) as reader:
        waits = []
        for client, key in zip(clients, ("here it is", "here it is", "elsewhere"), strict=True):
            waits.append(asyncio.create_task(asyncio.to_thread(client.blpop, [key, "both"])))
            while (await ListPoller(reader).blocked("both")).anywhere < len(waits):
                pass
            list_server.advance_clock(20)
        assert await ListPoller(reader).blocked("here it is") == (3, 2, 60)
        assert await ListPoller(reader).blocked("both") == (3, 3, 60)
        assert await ListPoller(reader).blocked("none") == (3, 0, None)
        list_server.stop()
        assert len([each for each in await asyncio.gather(*waits, return_exceptions=True) if each]) == 3


def test_states_are_counted_by_ids_and_scores() -> None:
    ids = [item_id(place, 0, b"x").encode() for place in ("queue", "processing") for _ in range(4)]
    scores = [b"0", b"inf", b"nan", b"9", b"5", b"inf", b"nan", b"10"]
    assert [state_of(score, None, 7, id).value for score, id in zip(scores, ids, strict=True)] == [
        *["ready"] * 4, "expired", "no lease", "in flight", "in flight",
    ]  # fmt: skip
    assert {state.value: count for state, count in count_states(scores, [None] * 8, 7, ids).items()} == {
        "ready": 4, "in flight": 2, "delayed": 0, "expired": 1, "no lease": 1,
    }  # fmt: skip
    assert state_of(b"5", None, 7, b"p:but of another kind") is MessageState.READY
