"""The queue and message screens on a list queue of a real server: they look, and nothing of it changes."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.monitor import SearchProgress, parse_filter
from rsmq_tui.monitor.filters.json_paths import AGE_BYTES, age_path
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.naming import item_id
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.queue.search import ROWS_MAX, Hits
from rsmq_tui.tui.servers import WatchedServer
from tests.protocol.lists.lists_made import QUEUE, RIGHT, fill
from tests.tui.driving import says, settled, until
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of

COUNT = 1_000
LATER_MS = 4_000_000_000_000
READY = [
    json.dumps({"type": "refund" if number % 5 == 0 else "order", "n": number, "made": 1_700_000_000 + number}).encode()
    for number in range(COUNT)
]
PROCESSING = [b'{"type": "worked on", "n": %d}' % number for number in range(6)]
LEASES = [*((item, LATER_MS) for item in PROCESSING[:3]), *((item, 1_000) for item in PROCESSING[3:5])]


@pytest.fixture
def planted(client: redis.Redis) -> Iterator[None]:
    """A queue of which nothing may change."""
    fill(client, ready=READY, processing=PROCESSING, leases=LEASES)
    before = {key: client.dump(key) for key in client.scan_iter()}
    yield
    assert {key: client.dump(key) for key in client.scan_iter()} == before


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Pilot[None]]:
    reader = ListReader(url, RIGHT, [QUEUE], shown_bytes=AGE_BYTES)
    app = RsmqApp([WatchedServer(ListPoller(reader, interval_s=0.05, age=age_path("made")))])
    async with app.run_test(size=(150, 34)) as pilot:
        await until(pilot, lambda: names_in(pilot) == [QUEUE], "the queue is shown")
        await pilot.press("enter")
        await until(pilot, lambda: len(names_in(pilot)) == table_of(pilot).visible_rows, "a page is shown")
        yield pilot


def ids_of(place: str, items: list[bytes], first: int, stop: int) -> list[str]:
    return [item_id("queue" if place == "q" else "processing", at, items[at]) for at in range(first, stop)]


async def test_pages_turn_from_what_is_taken_next_to_what_is_worked_on(redis_url: str, planted: None) -> None:
    async with opened(redis_url) as pilot:
        rows = table_of(pilot).visible_rows
        assert names_in(pilot) == ids_of("q", READY, 0, rows)
        await says(pilot, f"1 of {COUNT + len(PROCESSING):,}")
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: names_in(pilot) == ids_of("q", READY, rows, 2 * rows), "the next page is shown")
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: names_in(pilot) == ids_of("q", READY, 0, rows), "the first page is shown")
        # Nobody knows how often an item was received; its age it tells itself.
        first = next(line for line in text_of(app_of(pilot)).splitlines() if "ready" in line and '"n": 0' in line)
        assert " now " in first
        assert " – " in first


async def test_a_filter_finds_items_in_the_order_that_they_are_taken_in(redis_url: str, planted: None) -> None:
    async with opened(redis_url) as pilot:
        await pilot.press("slash", *"json.type=refund", "enter")
        await says(pilot, "200 matches")
        await until(pilot, lambda: len(names_in(pilot)) == 200, "all are listed")
        assert names_in(pilot) == [item_id("queue", at, READY[at]) for at in range(0, COUNT, 5)]


def test_the_first_of_many_matches_are_kept_from_whichever_end_they_come() -> None:
    messages = [RawMessage(item_id("queue", at, b"x").encode(), b"0", None, None, 1, b"x") for at in range(3_000)]
    for order in (messages, messages[::-1]):
        hits = Hits(parse_filter(""))
        for start in range(0, 3_000, 500):
            hits.add(SearchProgress(1, 3_000, start + 500, start + 500, 0, tuple(order[start : start + 500])))
        hits.arrange()
        assert hits.keys == tuple(message.id.decode() for message in messages[:ROWS_MAX])
        assert [row.id for row in hits.rows] == list(hits.keys)
        assert hits.matched == 3_000


@pytest.mark.parametrize(
    ("term", "first", "stop", "word"),
    [("inflight", 0, 3, "in flight"), ("expired", 3, 5, "expired"), ("unleased", 5, 6, "no lease")],
)
async def test_states_of_leases_are_shown_and_found(
    redis_url: str, planted: None, term: str, first: int, stop: int, word: str
) -> None:
    async with opened(redis_url) as pilot:
        await pilot.press("slash", *f"state:{term}", "enter")
        await says(pilot, f"{stop - first} match")
        assert names_in(pilot) == ids_of("p", PROCESSING, first, stop)
        await says(pilot, word)


async def test_an_item_opens_and_tells_its_lease(redis_url: str, planted: None) -> None:
    async with opened(redis_url) as pilot:
        await pilot.press("enter")
        await says(pilot, "ready · waiting for a consumer · sent 2023-11-14")
        await says(pilot, '"type": "refund"')
        await pilot.press("escape", "slash", *"state:expired", "enter")
        await says(pilot, "2 matches")
        await pilot.press("enter")
        await says(pilot, "expired · its lease expired")
        await pilot.press("escape", "slash", *["backspace"] * 20, *"state:unleased", "enter")
        await says(pilot, "1 match")
        await pilot.press("enter")
        await says(pilot, "no lease · in processing without a lease")


async def test_items_are_grouped_by_what_is_in_them(redis_url: str, planted: None) -> None:
    async with opened(redis_url) as pilot:
        await pilot.press("b", "enter")
        await until(pilot, lambda: names_in(pilot) == ["order", "refund", "worked on"], "the groups are shown")
        await says(pilot, f"{COUNT + len(PROCESSING):,} counted")


async def test_a_mark_goes_with_its_item_while_the_queue_moves(client: redis.Redis, redis_url: str) -> None:
    fill(client, ready=READY)
    async with opened(redis_url) as pilot:
        await pilot.press("j", "j", "j", "space")
        await says(pilot, "1 marked")
        client.rpop(QUEUE, 2)
        await until(pilot, lambda: names_in(pilot)[0] == item_id("queue", 0, READY[2]), "the queue has moved")
        assert table_of(pilot).context.marked == {item_id("queue", 1, READY[3])}
        client.rpop(QUEUE, 2)
        await until(pilot, lambda: "1 marked" not in text_of(app_of(pilot)), "its mark has ended with it")


def states_in(pilot: Pilot[None], count: int) -> list[str]:
    """What is shown of the first rows' states, and where they are."""
    states = {"ready", "flight", "expired", "lease", "gone", "–"}
    lines = lines_of(table_of(pilot))[1 : count + 1]
    return [next((word for word in line.split() if word in states), "") for line in lines]


async def test_what_a_filter_found_is_told_as_it_is_now(client: redis.Redis, redis_url: str) -> None:
    fill(client, ready=READY[:100])
    async with opened(redis_url) as pilot:
        await pilot.press("slash", *"json.type=refund", "enter")
        await says(pilot, "20 matches")
        await until(pilot, lambda: states_in(pilot, 4) == ["ready"] * 4, "they are listed")
        await pilot.press("j", "space")
        # The first is acknowledged, the second taken, with a lease, and the others move.
        rest, taken = READY[6:100], READY[5]
        fill(client, ready=rest, processing=[taken], leases=[(taken, LATER_MS)])
        await until(pilot, lambda: states_in(pilot, 4) == ["gone", "flight", "ready", "ready"], "it is told")
        assert names_in(pilot)[1:4] == [
            item_id("processing", 0, taken),
            *(item_id("queue", at - 6, READY[at]) for at in (10, 15)),
        ]
        # The cursor and the mark are where they were, on items that have other ids now.
        assert table_of(pilot).cursor_index == 2
        assert table_of(pilot).context.marked == {item_id("processing", 0, taken)}
        fill(client, ready=rest)
        await until(pilot, lambda: states_in(pilot, 4) == ["gone", "gone", "ready", "ready"], "it was acknowledged")
        await until(pilot, lambda: "1 marked" not in text_of(app_of(pilot)), "its mark has ended with it")
        # In the place of an item that is gone, no other one with the same bytes is shown.
        client.lpush(QUEUE, taken)
        before = app_of(pilot).dashboard.snapshot
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not before, "another poll")
        await settled(pilot)
        assert states_in(pilot, 4) == ["gone", "gone", "ready", "ready"]


async def test_of_an_item_that_is_not_found_again_nothing_is_said(client: redis.Redis, redis_url: str) -> None:
    fill(client, ready=READY)
    async with opened(redis_url) as pilot:
        await pilot.press("slash", *"json.type=refund", "enter")
        await says(pilot, "200 matches")
        # So many come before it that it is not looked for so far away.
        client.rpush(QUEUE, *[b"urgent %d" % number for number in range(2_000)])
        await until(pilot, lambda: states_in(pilot, 4) == ["–"] * 4, "nobody knows")
        client.rpop(QUEUE, 2_000)
        await until(pilot, lambda: states_in(pilot, 4) == ["ready"] * 4, "they are found again")
        assert names_in(pilot)[:2] == [item_id("queue", at, READY[at]) for at in (0, 5)]
