"""Reading all queues at once: what a row holds, in which order rows come, and what it costs."""

import pytest
import redis

from rsmq_tui.protocol import Index, PageRequest, Row, Rsmq, RsmqReader
from rsmq_tui.protocol.polling import CHUNK_QUEUES, CHUNKS_IN_FLIGHT
from tests.protocol.keyspace import now_ms, plant, scripts_run

ID = "a" * 32


async def read_all(reader: RsmqReader, at_ms: int | None = None) -> dict[str, Row]:
    index = await reader.rows.index()
    return await reader.rows.rows(index.at_ms if at_ms is None else at_ms)


class TestTheIndex:
    async def test_holds_the_names_sorted_and_the_servers_clock(self, client: redis.Redis, reader: RsmqReader) -> None:
        for name in ("b", "a", "C"):
            Rsmq(client).create_queue(name)
        before_ms = now_ms(client)
        index = await reader.rows.index()

        assert index.names == ("C", "a", "b")
        assert before_ms <= index.at_ms <= now_ms(client)
        assert index.problem is None

    async def test_of_a_namespace_that_is_not_there_is_empty(self, reader: RsmqReader) -> None:
        index = await reader.rows.index()

        assert index == Index(index.at_ms, ())
        assert await read_all(reader) == {}

    async def test_of_another_type_is_a_problem_and_no_queue_is_read_by_it(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        Rsmq(client).create_queue("q")
        assert list(await read_all(reader)) == ["q"]
        client.delete("rsmq:QUEUES")
        client.set("rsmq:QUEUES", "x")
        index = await reader.rows.index()

        assert index.names == ()
        assert (index.problem or "").startswith("rsmq:QUEUES is not a set of names: WRONGTYPE")
        assert await read_all(reader) == {}

    async def test_follows_queues_that_come_and_go(self, client: redis.Redis, reader: RsmqReader) -> None:
        Rsmq(client).create_queue("a")
        assert list(await read_all(reader)) == ["a"]
        Rsmq(client).create_queue("b")
        assert list(await read_all(reader)) == ["a", "b"]
        Rsmq(client).delete_queue("a")
        assert list(await read_all(reader)) == ["b"]


class TestARow:
    async def test_of_an_empty_queue(self, client: redis.Redis, reader: RsmqReader) -> None:
        Rsmq(client).create_queue("q", vt=5, delay=6, maxsize=2048)
        created = client.hget("rsmq:q:Q", "created")

        assert await read_all(reader) == {"q": [[b"5", b"6", b"2048", created, created, None, None], 0]}

    async def test_of_a_queue_with_messages(self, client: redis.Redis, reader: RsmqReader) -> None:
        queues = Rsmq(client)
        queues.create_queue("q")
        first, _, _ = queues.send_messages("q", ["x", "y", "z"])
        hidden = queues.receive_message("q")
        assert hidden is not None
        client.zadd("rsmq:q", {first: 1})
        (fields, depth, head, score, hidden_count) = (await read_all(reader))["q"]

        assert fields[5:] == [b"3", b"1"]
        assert (depth, head, score, hidden_count) == (3, first.encode(), b"1", int(hidden.id != first))

    @pytest.mark.parametrize(
        ("scores", "hidden"),
        [
            # Now is 2,750,000,000,000 ms; a score equal to it is ready.
            (["2750000000000"], 0),
            (["2750000000001"], 1),
            (["2749999999999", "2750000000000.5", "2750000000001"], 2),
            (["2749999999999", "inf"], 1),
            (["inf"], 1),
            (["-inf", "0", "-5"], 0),
            (["-inf", "2750000000001"], 1),
            (["2750000000", "2750000001", "2750000002"], 2),
            (["2750000000000000", "2750000000000001"], 1),
            (["2750000001000000"], 1),
            # The first score tells the unit; a queue that starts below ms is counted unit by unit.
            (["5", "2750000005", "2750000000005", "2750000000005000"], 3),
            (["5", "2740000000", "2740000000000", "2740000000000000"], 0),
        ],
    )
    async def test_counts_the_hidden_in_the_unit_of_its_scores(
        self, client: redis.Redis, reader: RsmqReader, scores: list[str], hidden: int
    ) -> None:
        Rsmq(client).create_queue("q")
        client.zadd("rsmq:q", {f"{number:032d}": score for number, score in enumerate(scores)})
        row = (await read_all(reader, 2_750_000_000_000))["q"]

        assert (row[1], row[4]) == (len(scores), hidden)

    async def test_does_not_count_as_hidden_what_was_sent_since_the_clock_was_read(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        queues = Rsmq(client)
        queues.create_queue("q")
        index = await reader.rows.index()
        while now_ms(client) <= index.at_ms:
            pass
        queues.send_message("q", "ready")
        queues.send_message("q", "delayed", delay=60)
        row = (await reader.rows.rows(index.at_ms))["q"]

        assert (row[1], row[4]) == (2, 1)

    async def test_of_wrong_types_holds_error_texts(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.sadd("rsmq:QUEUES", "hash", "zset", "both", "QUEUES")
        client.set("rsmq:hash:Q", "x")
        client.zadd("rsmq:hash", {ID: 1})
        client.hset("rsmq:zset", "x", "y")
        client.hset("rsmq:zset:Q", "vt", "30")
        client.set("rsmq:both", "x")
        client.set("rsmq:both:Q", "x")
        rows = await read_all(reader)

        assert rows["hash"][0].startswith(b"WRONGTYPE")
        assert rows["hash"][1:] == [1, ID.encode(), b"1", 0]
        assert rows["zset"][0][0] == b"30"
        assert rows["zset"][1].startswith(b"WRONGTYPE")
        assert [part[:9] for part in rows["both"]] == [b"WRONGTYPE", b"WRONGTYPE"]
        assert rows["QUEUES"][0] == [None] * 7
        assert rows["QUEUES"][1].startswith(b"WRONGTYPE")


class TestManyQueues:
    COUNT = CHUNK_QUEUES * (CHUNKS_IN_FLIGHT + 1) + 7

    async def test_come_in_the_order_of_their_names(self, client: redis.Redis, reader: RsmqReader) -> None:
        names = [f"q{number:05d}" for number in range(self.COUNT)]
        with client.pipeline(transaction=False) as pipeline:
            for number, name in enumerate(names):
                pipeline.sadd("rsmq:QUEUES", name).hset(f"rsmq:{name}:Q", "vt", number)
            pipeline.execute()
        rows = await read_all(reader)

        assert list(rows) == names
        assert [int(row[0][0]) for row in rows.values()] == list(range(self.COUNT))

    async def test_cost_one_script_for_each_chunk(self, client: redis.Redis, reader: RsmqReader) -> None:
        names = [f"q{number}" for number in range(CHUNK_QUEUES * 2 + 1)]
        client.sadd("rsmq:QUEUES", *names)
        await read_all(reader)
        client.flushdb()
        client.sadd("rsmq:QUEUES", *names)
        before = scripts_run(client)
        commands = reader.traffic.commands
        await read_all(reader)

        assert scripts_run(client) - before == 3
        # TIME, SMEMBERS, and the chunks.
        assert reader.traffic.commands - commands == 5

    async def test_reading_may_be_broken_off(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.sadd("rsmq:QUEUES", *(f"q{number}" for number in range(self.COUNT)))
        index = await reader.rows.index()
        coming = reader.rows.read(index.at_ms)
        await anext(coming)
        await coming.aclose()

        assert len(await read_all(reader)) == self.COUNT


class TestReceiveCounts:
    async def look(self, reader: RsmqReader, at_ms: int, *, threshold: int = 5, span: int = 50) -> list[int]:
        (counts,) = await reader.rows.receive_counts(["q"], at_ms, threshold, span)
        return counts

    async def test_of_nothing(self, reader: RsmqReader) -> None:
        assert await self.look(reader, 1000) == [0, 0, 0]
        assert await reader.rows.receive_counts([], 1000, 5, 50) == []

    async def test_say_how_many_reach_the_threshold_and_the_highest(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        for number, rc in enumerate((1, 4, 5, 6, 17)):
            plant(client, "q", f"{number:032d}", due_ms=1000 + number, rc=rc)
        plant(client, "q", "never", due_ms=1000)

        assert await self.look(reader, 1002) == [6, 3, 17]
        assert await self.look(reader, 1002, threshold=1) == [6, 5, 17]

    async def test_look_on_both_sides_of_the_first_hidden_message(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        for number in range(100):
            plant(client, "q", f"{number:032d}", due_ms=1000 + number, rc=number)

        # Up to 1049 are ready: ranks 40 to 59 are looked at.
        assert await self.look(reader, 1049, threshold=55, span=10) == [20, 5, 59]
        assert await self.look(reader, 0, span=10) == [10, 5, 9]
        assert await self.look(reader, 9999, span=10) == [10, 10, 99]

    @pytest.mark.parametrize("key", ["rsmq:q", "rsmq:q:Q"])
    async def test_of_a_wrong_type_are_none_and_disturb_no_others(
        self, client: redis.Redis, reader: RsmqReader, key: str
    ) -> None:
        plant(client, "q", ID, due_ms=1000, rc=7)
        plant(client, "other", ID, due_ms=1000, rc=8)
        client.delete(key)
        client.set(key, "x")
        counts = await reader.rows.receive_counts(["q", "other"], 1000, 5, 50)

        assert counts == [[0, 0, 0], [1, 1, 8]]


class TestScriptsThatTheServerForgot:
    async def test_are_taught_again(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.sadd("rsmq:QUEUES", *(f"q{number}" for number in range(CHUNK_QUEUES * 3)))
        plant(client, "q1", ID, due_ms=1000, body="x", rc=6)
        first = await read_all(reader)
        client.script_flush()

        assert await read_all(reader) == first
        client.script_flush()
        assert await reader.rows.receive_counts(["q1"], 1000, 5, 50) == [[1, 1, 6]]
        client.script_flush()
        assert (await reader.pages.page(PageRequest("q1", count=5))).depth == 1
        client.script_flush()
        assert (await reader.pages.message("q1", ID)).body == b"x"
        client.script_flush()
        assert await reader.pages.due_counts("q1", (1000,)) == (1, 1)
        assert reader.scripts_refused is None
