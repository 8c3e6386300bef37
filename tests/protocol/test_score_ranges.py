"""Ranges of scores: counted, cut, and read once, however many messages share a score."""

import pytest
import redis

from rsmq_tui.protocol import RsmqError, RsmqReader
from rsmq_tui.protocol.rsmq.scan_strategies import QueueSize, ScoreRange

ZSET = "rsmq:q"


async def ids_in(reader: RsmqReader, bounds: ScoreRange, *, remember: bool = False, count: int = 10) -> list[bytes]:
    chunks = reader.ranges.chunks("q", bounds, remember=remember, count=count)
    return [id async for chunk in chunks for id in chunk.columns[0]]


class TestReading:
    @pytest.mark.parametrize("same", [1, 7, 10, 11, 95])
    @pytest.mark.parametrize("remember", [True, False])
    async def test_every_message_once_and_in_order(
        self, client: redis.Redis, reader: RsmqReader, same: int, remember: bool
    ) -> None:
        scores = {f"m{number:03}".encode(): number // same for number in range(100)}
        client.zadd(ZSET, scores)

        assert await ids_in(reader, ScoreRange(), remember=remember) == list(scores)

    async def test_bounds(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.zadd(ZSET, {"a": 1, "b": 2, "c": 2.5, "d": 3, "e": "inf", "f": "-inf"})

        assert await ids_in(reader, ScoreRange(b"2", b"(3")) == [b"b", b"c"]
        assert await ids_in(reader, ScoreRange(b"(2", b"+inf")) == [b"c", b"d", b"e"]
        assert await ids_in(reader, ScoreRange(b"-inf", b"1")) == [b"f", b"a"]
        assert await ids_in(reader, ScoreRange(b"4", b"5")) == []

    async def test_what_moves_on_comes_once_where_it_is_remembered(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        for remember, times in ((True, 1), (False, 2)):
            client.zadd(ZSET, {f"m{number:03}": number for number in range(100)})
            found: list[bytes] = []
            async for chunk in reader.ranges.chunks("q", ScoreRange(), remember=remember, count=10):
                found += chunk.columns[0]
                if len(found) == 10:
                    client.zadd(ZSET, {"m003": 500})

            assert found.count(b"m003") == times
            assert set(found) == set(client.zrange(ZSET, 0, -1))

    async def test_more_is_read_of_what_was_found(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.zadd(ZSET, {"a": 1, "b": 2, "gone": 3})
        client.hset("rsmq:q:Q", mapping={"a": b"one", "a:rc": 4, "a:fr": 9, "b": b"", "gone": b"x"})
        chunks = reader.ranges.chunks("q", ScoreRange(), counts=True, remember=False)
        (counted,) = [chunk async for chunk in chunks]
        client.zrem(ZSET, "gone")
        client.hdel("rsmq:q:Q", "gone")
        whole = await reader.scan.read("q", counted, bodies=True, sizes=False)
        sized = await reader.scan.read("q", counted, bodies=False, sizes=True)

        assert [message.rc for message in counted.messages] == [b"4", None, None]
        # One that has left meanwhile is left out; what was read before is kept.
        assert [tuple(message) for message in whole.messages] == [
            (b"a", b"1", b"4", b"9", 3, b"one"),
            (b"b", b"2", None, None, 0, b""),
        ]
        assert [(message.rc, message.size, message.body) for message in sized.messages][:2] == [
            (b"4", 3, None),
            (None, 0, None),
        ]


class TestCounting:
    async def test_sizes(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.zadd(ZSET, {"a": 1, "b": 2, "c": 3})
        client.hset("rsmq:q:Q", "vt", 30)
        client.hset("rsmq:empty:Q", "vt", 30)
        client.set("rsmq:odd", "a text")
        sizes = await reader.ranges.sizes(["q", "empty", "none", "odd"], [ScoreRange(b"2"), ScoreRange(b"9")])

        assert sizes[:3] == [QueueSize(3, (2, 0), True), QueueSize(0, (0, 0), True), QueueSize(0, (0, 0), False)]
        assert sizes[3].depth == 0
        assert "WRONGTYPE" in (sizes[3].problem or "")

    async def test_many_queues(self, client: redis.Redis, reader: RsmqReader) -> None:
        names = [f"q{number}" for number in range(600)]
        for number, name in enumerate(names):
            client.zadd(f"rsmq:{name}", {str(score): score for score in range(number % 5 + 1)})

        assert [size.depth for size in await reader.ranges.sizes(names)] == [number % 5 + 1 for number in range(600)]

    async def test_cuts(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.zadd(ZSET, {f"m{number:03}": number for number in range(100)})

        assert await reader.ranges.scores_at("q", ScoreRange(b"20", b"(80"), 60, 25) == [b"45", b"70"]
        assert await reader.ranges.scores_at("q", ScoreRange(b"(20", b"80"), 60, 25) == [b"46", b"71"]
        assert await reader.ranges.scores_at("q", ScoreRange(), 100, 100) == []

    async def test_only_a_table_can_be_split(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.zadd(ZSET, {"a": 1})
        assert await reader.ranges.can_split("q") is False
        client.zadd(ZSET, {f"m{number}": number for number in range(5_000)})
        assert await reader.ranges.can_split("q") is True

    async def test_a_wrong_type_is_told(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.set(ZSET, "a text")
        with pytest.raises(RsmqError, match="another type"):
            await ids_in(reader, ScoreRange())
