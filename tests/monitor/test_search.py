"""Searching a queue: what is found, how far it has come, and that the loop stays free meanwhile."""

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import MessageRow, MessageState, PeekError, SearchProgress, parse_filter, search
from rsmq_tui.protocol import RawMessage, Rsmq, RsmqReader
from rsmq_tui.protocol.rsmq.scan import SCAN_BODY_BYTES
from tests.protocol.keyspace import now_ms, plant


async def found(reader: RsmqReader, text: str, **options: Any) -> list[SearchProgress]:
    return [progress async for progress in search(reader, "q", parse_filter(text), **options)]


async def messages(reader: RsmqReader, text: str) -> list[RawMessage]:
    return [message for progress in await found(reader, text) for message in progress.messages]


def rows(all_progress: list[SearchProgress]) -> list[MessageRow]:
    return [row for progress in all_progress for row in progress.rows]


@pytest.fixture
def queues(client: redis.Redis) -> Rsmq:
    queues = Rsmq(client)
    queues.create_queue("q", maxsize=-1)
    return queues


class TestWhatIsFound:
    async def test_every_match_as_a_row(self, queues: Rsmq, reader: RsmqReader) -> None:
        ids = list(queues.send_messages("q", [b'{"n": %d}' % number for number in range(3_000)]))
        progress = await found(reader, "json.n>=2990")

        assert {row.id for row in rows(progress)} == set(ids[2_990:])
        assert (progress[-1].scanned, progress[-1].matched, progress[-1].depth) == (3_000, 10, 3_000)
        assert [p.scanned for p in progress] == sorted(p.scanned for p in progress)
        assert len(progress) > 2

    async def test_a_row_is_as_a_page_shows_it(self, queues: Rsmq, client: redis.Redis, reader: RsmqReader) -> None:
        queues.send_message("q", b"x" * 1_000)
        received = queues.receive_message("q", vt=60)
        plant(client, "q", "no-body", due_ms=5)
        assert received is not None
        by_id = {row.id: row for row in rows(await found(reader, ""))}
        row = by_id[received.id]

        assert (row.state, row.rc, row.fr_ms, row.size) == (MessageState.IN_FLIGHT, 1, received.fr_ms, 1_000)
        assert row.preview == b"x" * 240
        assert (by_id["no-body"].preview, by_id["no-body"].state) == (None, MessageState.READY)

    async def test_only_counting_reads_no_bodies_and_no_counts(self, queues: Rsmq, reader: RsmqReader) -> None:
        queues.send_message("q", b"x" * 100_000)
        before = reader.traffic.bytes_received
        progress = await found(reader, "state:ready", counts=False, bodies=False)

        assert progress[-1].matched == 1
        assert progress[-1].messages[0].size == 100_000
        assert rows(progress)[0].preview == b""
        assert reader.traffic.bytes_received - before < 10_000

    async def test_the_raw_message_is_given_for_changes(self, queues: Rsmq, reader: RsmqReader) -> None:
        id = queues.send_message("q", b"x")
        (message,) = (await found(reader, ""))[0].messages

        assert (message.id, message.body, message.rc) == (id.encode(), b"x", None)

    async def test_a_limit_ends_it(self, queues: Rsmq, reader: RsmqReader) -> None:
        queues.send_messages("q", [b"x"] * 6_000)
        progress = await found(reader, "x", limit=300)

        assert len(rows(progress)) == progress[-1].matched == 300
        assert progress[-1].scanned < 4_000

    async def test_bodies_that_are_too_long_are_counted(
        self, queues: Rsmq, client: redis.Redis, reader: RsmqReader
    ) -> None:
        for text in (b"x", b"y" * (SCAN_BODY_BYTES + 1)):
            queues.send_message("q", text)
        received = now_ms(client) + 1_000_000
        plant(client, "q", "late", due_ms=received, body=b"z" * (SCAN_BODY_BYTES + 1))

        assert [(p[-1].matched, p[-1].not_searched) for p in [await found(reader, "!body:x state:ready")]] == [(0, 1)]
        assert [(p[-1].matched, p[-1].not_searched) for p in [await found(reader, "size>1k")]] == [(2, 0)]


class TestFailures:
    async def test_a_wrong_type_in_words(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.set("rsmq:q", "x")
        with pytest.raises(PeekError, match="another type"):
            await found(reader, "x")

    async def test_no_server_in_words(self) -> None:
        async with aclosing(RsmqReader("redis://127.0.0.1:1")) as reader:
            with pytest.raises(PeekError, match="connection refused"):
                await found(reader, "x")


async def test_the_loop_is_free_while_much_is_matched(queues: Rsmq, reader: RsmqReader) -> None:
    # Some milliseconds of work for each body.
    queues.send_messages("q", [b'{"a": [%s 0]}' % (b"1, " * 20_000)] * 60)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count_turns())
        started = time.process_time()
        progress = await found(reader, "json.a[0]=2")
        worked_s = time.process_time() - started
        counting.cancel()

    assert progress[-1].scanned == 60
    assert turns > worked_s / 0.2


async def test_leaving_early_leaves_the_reader_fit_for_use(queues: Rsmq, reader: RsmqReader) -> None:
    queues.send_messages("q", [b"x"] * 2_000)
    for _ in range(5):
        async with aclosing(search(reader, "q", parse_filter("x"))) as searching:
            while not (await anext(searching)).matched:
                pass

    assert (await found(reader, "x"))[-1].matched == 2_000


IDS = ["a" * 22, "hoco5b5x5555Dc9r4FfmKqsaDQEYVAbY", "b" * 42, "5e6f5bb6-3f4e-4a9b-9a53-0d6f3d5f8a11"]


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("form", ["id:{}", "id={}", "!id!={}", "rc>=0 id:{} body:hello", "body~l{{2}}o id={}"])
async def test_a_whole_id_is_looked_up(
    queues: Rsmq, client: redis.Redis, reader: RsmqReader, id: str, form: str
) -> None:
    queues.send_messages("q", [b"x"] * 1_000)
    client.zadd("rsmq:q", {id: 1_750_000_000_000})
    client.hset("rsmq:q:Q", mapping={id: b"hello", id + ":rc": 3})
    client.config_resetstat()
    there = await messages(reader, form.format(id))
    assert [(each.id, each.body, each.rc, each.size) for each in there] == [(id.encode(), b"hello", b"3", 5)]
    assert not {"cmdstat_zscan", "cmdstat_hscan"} & set(client.info("commandstats"))
    assert await messages(reader, f"{form.format(id)} body:other") == []


async def test_what_is_not_there_is_walked_for_only_where_it_may_begin_an_id(
    queues: Rsmq, client: redis.Redis, reader: RsmqReader
) -> None:
    queues.send_messages("q", [b"x"] * 10)
    client.zadd("rsmq:q", {"a" * 42: 1})
    for text, count, walks in [
        ("id:" + "a" * 22, 1, True), ("id:" + "a" * 33, 1, True), ("id:" + "c" * 32, 0, False),
        ("id=" + "a" * 22, 0, False), ("id:" + "a" * 42, 1, False), ("!id:" + "a" * 42, 10, True),
    ]:  # fmt: skip
        client.config_resetstat()
        assert len(await messages(reader, text)) == count, text
        assert ("cmdstat_zscan" in client.info("commandstats")) is walks, text
