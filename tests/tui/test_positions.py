"""Positions in a queue: what may be typed, and where it is on a real server, with what it takes to find it."""

import json
import re
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.monitor import PeekError, RsmqPoller, SearchProgress, parse_filter
from rsmq_tui.monitor.filters.json_paths import age_path
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import Rsmq, RsmqReader, make_id, sent_ms
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.tui.queue import positions
from rsmq_tui.tui.queue.positions import IdPrefix, Number, PositionError, Sent, Share, find, read_position
from rsmq_tui.tui.queue.search import Hits, MessageOrder
from tests.protocol.keyspace import now_ms, plant
from tests.protocol.lists.lists_made import QUEUE, RIGHT, fill

NOON_MS = 1_800_100_800_000  # 2027-01-16 12:00 UTC


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("31", Number(31)),
        (" 1,000 ", Number(1000)),
        ("50%", Share(50)),
        ("99.9 %", Share(99.9)),
        ("11:50", Sent(NOON_MS - 600_000)),
        ("12:10", Sent(NOON_MS + 600_000 - 86_400_000)),
        ("10m ago", Sent(NOON_MS - 600_000)),
        ("10m", Sent(NOON_MS - 600_000)),
        ("-1h30m", Sent(NOON_MS - 5_400_000)),
        ("2027-01-16 11:00", Sent(NOON_MS - 3_600_000)),
        ("hoco5b5x55", IdPrefix("hoco5b5x55")),
        ("q:12:" + "0" * 40, IdPrefix("q:12:" + "0" * 40)),
        ("", None),
        ("101%", None),
        ("25:00", None),
        ("two words", None),
        ("[/red]\x1b 1", None),
    ],
)
def test_what_may_be_typed(text: str, position: positions.Position | None) -> None:
    if position is not None:
        assert read_position(text, NOON_MS) == position
    else:
        # As it was typed, with the forms of the dialog.
        words = f"'{printable(text.strip(), 60)}' is not a position: write {positions.FORMS}"
        with pytest.raises(PositionError, match=f"^{re.escape(words)}$"):
            read_position(text, NOON_MS)


async def test_a_time_is_found_where_messages_that_were_received_lie_in_between(
    client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Rsmq(client).create_queue("q")
    at_ms = now_ms(client) - 3_600_000
    ids = [make_id((at_ms + number * 1000) * 1000) for number in range(3000)]
    with client.pipeline() as planting:
        for number, id in enumerate(ids):
            # Each tenth was received again and again, and is due an hour later.
            late = number % 10 == 0
            plant(planting, "q", id, due_ms=at_ms + number * 1000 + late * 3_600_000, body="x" * 97, rc=int(late))
        planting.execute()
    in_order = [id.decode() for id in client.zrange("rsmq:q", 0, -1)]
    async with aclosing(RsmqPoller(RsmqReader(redis_url, "rsmq"))) as source:
        for number in (0, 1, 10, 1234, 2999):
            found = await find(source, "q", "all", Sent(at_ms + number * 1000), lambda _: None)
            assert found.row is not None
            assert in_order[found.offset] == found.row.id
            assert found.row.sent_ms is not None
            assert found.row.sent_ms >= at_ms + number * 1000
            earlier = in_order[: found.offset]
            assert not [id for id in earlier if id in ids[number:]]
            assert "examined" in found.words
        for number, words in ((3_000, ""), (99_999, "there are 3,000")):
            found = await find(source, "q", "all", Number(number), lambda _: None)
            assert (found.offset, found.words) == (2999, words)
        for wanted in (Sent(at_ms + 3_000_000), IdPrefix("nope")):
            with pytest.raises(PositionError):
                await find(source, "q", "all", wanted, lambda _: None)
        monkeypatch.setattr(positions, "LOOKED_MAX", 100)
        monkeypatch.setattr(positions, "_AT_ONCE", 50)
        # All that are due from then on were sent before.
        with pytest.raises(PositionError, match="100 messages examined, the maximum"):
            await find(source, "q", "all", Sent(at_ms + 3_000_000 - 600_000 + 3_600_000 - 2_900_000), lambda _: None)
        seen: list[SearchProgress] = []
        found = await find(source, "q", "ready", IdPrefix(ids[7][:-3]), seen.append)
        assert (found.row and found.row.id, in_order[found.offset]) == (ids[7], ids[7])
        assert seen
        assert (await find(source, "q", "ready", IdPrefix(ids[2990]), lambda _: None)).part == "all"
        assert (await find(source, "q", "all", Share(100), lambda _: None)).offset == 2999
        client.set("rsmq:wrong", "x")
        with pytest.raises(PeekError):
            await find(source, "wrong", "all", IdPrefix("x"), lambda _: None)


async def test_orders_of_a_whole_queue_are_those_that_a_sort_of_all_would_give(
    client: redis.Redis, redis_url: str
) -> None:
    Rsmq(client).create_queue("q")
    at_ms = now_ms(client) - 10_000
    known = []
    with client.pipeline() as planting:
        for number in range(1500):
            id = make_id((at_ms - number * 37 % 1000) * 1000 + number)
            size, rc = number * 31 % 700, number % 7
            plant(planting, "q", id, due_ms=at_ms + number, body="x" * size, rc=rc)
            known.append((id, size, rc))
        planting.execute()
    async with aclosing(RsmqPoller(RsmqReader(redis_url, "rsmq"))) as source:
        for column, value in (
            ("age", lambda one: sent_ms(one[0], now_ms=at_ms + 10_000)),
            ("size", lambda one: one[1]),
            ("rc", lambda one: one[2]),
        ):
            for reverse in (False, True):
                hits = Hits(parse_filter(""), order=MessageOrder(column, reverse))
                async with aclosing(source.search("q", hits.wanted)) as progress:
                    async for each in progress:
                        hits.add(each)
                hits.arrange()
                is_down = (column != "age") is not reverse
                values = sorted(map(value, known), reverse=is_down)[:1000]
                by_id = {one[0]: value(one) for one in known}
                assert [by_id[row.id] for row in hits.rows] == values
                assert hits.matched == 1500


async def test_an_item_of_a_list_is_found_by_its_time_in_few_reads(client: redis.Redis, redis_url: str) -> None:
    items = [json.dumps({"made": NOON_MS + number * 1000, "n": number}).encode() for number in range(5000)]
    fill(client, ready=items[100:], processing=items[:5])
    async with aclosing(ListPoller(ListReader(redis_url, RIGHT, [QUEUE]), age=age_path("made"))) as source:
        for number in (100, 101, 3333, 4999):
            found = await find(source, QUEUE, "all", Sent(NOON_MS + number * 1000 - 500), lambda _: None)
            assert found.offset == number - 100
            reads = int(found.words.rpartition("; ")[2].split()[0])
            assert reads <= 14
        assert (await find(source, QUEUE, "all", Number(4905), lambda _: None)).offset == 4904
        assert (await find(source, QUEUE, "hidden", Share(50), lambda _: None)).offset == 2
        with pytest.raises(PositionError):
            await find(source, QUEUE, "all", Sent(NOON_MS + 5_000_000), lambda _: None)
    async with aclosing(ListPoller(ListReader(redis_url, RIGHT, [QUEUE]))) as source:
        with pytest.raises(PositionError, match="not known when item"):
            await find(source, QUEUE, "all", Sent(NOON_MS), lambda _: None)
