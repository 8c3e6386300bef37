"""Reading all list queues at once: what a row holds, with scripts and without, and what it costs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.protocol import Row, name_of
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import BIG_PACE_MS, ListReader, ListRowCodec
from rsmq_tui.protocol.lists.scripts import BIG_BYTES, LOOK_BYTES_MAX, mark_of
from rsmq_tui.protocol.polling import CHUNK_QUEUES, CHUNKS_IN_FLIGHT
from tests.protocol.keyspace import everything, scripts_run

NOW_MS = 1_750_000_000_000
LATER_MS = 4_000_000_000_000
Q, P, L = "queue:q", "queue:q:processing", "queue:q:leases"
Reading = Callable[..., ListReader]


def user_without(client: redis.Redis, url: str, *commands: str) -> str:
    client.acl_setuser("narrow", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", *commands])
    return url.replace("redis://", "redis://narrow:x@")


@pytest.fixture(params=["scripts", "plain commands"])
async def reading(request: pytest.FixtureRequest, client: redis.Redis, redis_url: str) -> AsyncIterator[Reading]:
    """Makes readers of these queues, which may run scripts or not; they are closed afterwards."""
    plain = request.param == "plain commands"
    url = user_without(client, redis_url, "-@scripting") if plain else redis_url
    opened: list[ListReader] = []

    def read(*names: str, **options: Any) -> ListReader:
        opened.append(ListReader(url, options.pop("names", ListNames()), names or (Q,), **options))
        return opened[-1]

    yield read
    for reader in opened:
        assert (reader.scripts_refused is not None) == plain
        await reader.aclose()


async def read_all(reader: ListReader, at_ms: int = NOW_MS) -> dict[str, Row]:
    await reader.rows.index()
    return await reader.rows.rows(at_ms)


async def read_one(reader: ListReader, at_ms: int = NOW_MS) -> Row:
    (row,) = (await read_all(reader, at_ms)).values()
    return row


class TestARow:
    async def test_of_nothing(self, reading: Reading) -> None:
        assert await read_all(reading("gone", Q)) == {"gone": [0, 0, 0, None, None], Q: [0, 0, 0, None, None]}

    async def test_of_a_queue_with_items(self, client: redis.Redis, reading: Reading) -> None:
        client.lpush(Q, "first", "second", "third")
        client.lpush(P, "x", "y")
        client.zadd(L, {"t:x": LATER_MS, "t:y": LATER_MS + 1})

        assert await read_one(reading()) == [3, 2, 1, [5, b"first", 1], [0, str(LATER_MS).encode()]]

    async def test_knows_the_end_that_items_are_taken_from(self, client: redis.Redis, reading: Reading) -> None:
        client.rpush(Q, "a", "b", "c")

        assert (await read_one(reading(names=ListNames(take_from="left"))))[3] == [1, b"a", 1]

    @pytest.mark.parametrize("take_from", ["left", "right"])
    async def test_tells_whether_the_two_next_items_are_equal(
        self, client: redis.Redis, reading: Reading, take_from: Any
    ) -> None:
        reader = reading(names=ListNames(take_from=take_from))
        push = client.rpush if take_from == "right" else client.lpush
        heads = []
        for item in ("x", "x", "y", "z", "z"):
            push(Q, item)
            heads.append((await read_one(reader))[3])

        assert heads == [[1, b"x", 1], [1, b"x", 2], [1, b"y", 1], [1, b"z", 1], [1, b"z", 2]]

    async def test_marks_items_by_their_bytes(self, client: redis.Redis, reading: Reading) -> None:
        items = [b"a" * 40, b"a" * 41, b"\xff" * 5000, b"\r\n" * (BIG_BYTES // 2), b"x" * BIG_BYTES + b"y"]
        for number, item in enumerate(items):
            client.lpush(f"q{number}", item)
        rows = await read_all(reading(*(f"q{number}" for number in range(len(items)))))

        assert [row[3] for row in rows.values()] == [[len(item), mark_of(item), 1] for item in items]
        assert len({row[3][1] for row in rows.values()}) == len(items)
        assert all(len(row[3][1]) <= 40 for row in rows.values())

    async def test_holds_the_start_of_the_next_item_if_that_is_wanted(
        self, client: redis.Redis, reading: Reading
    ) -> None:
        client.lpush(Q, b"\x00\xff" * 50)

        assert (await read_one(reading(shown_bytes=7)))[3][3] == b"\x00\xff\x00\xff\x00\xff\x00"

    @pytest.mark.parametrize(
        ("scores", "expired"),
        [
            # Now is 1,750,000,000,000 ms; a lease is over at its deadline.
            (["1750000000001"], 0),
            (["1750000000000"], 1),
            (["1749999999999", "1750000000000.5", "1750000000001"], 1),
            (["1749999999999", "inf"], 1),
            (["inf"], 0),
            (["-inf", "0", "-5", "inf"], 3),
            (["1750000000", "1750000001", "1750000002"], 1),
            (["1750000000000000", "1750000000000001"], 1),
            (["5", "1750000005", "1749999999999", "1750000005000000"], 2),
        ],
    )
    async def test_counts_the_expired_leases_in_the_unit_of_each(
        self, client: redis.Redis, reading: Reading, scores: list[str], expired: int
    ) -> None:
        client.zadd(L, {f"t{number}": score for number, score in enumerate(scores)})
        first = client.zrange(L, 0, 0, withscores=True)[0][1]
        row = await read_one(reading())

        assert row[:2] == [0, 0]
        assert (row[2], row[4][0], float(row[4][1])) == (1, expired, first)

    async def test_of_wrong_types_holds_error_texts_and_disturbs_no_others(
        self, client: redis.Redis, reading: Reading
    ) -> None:
        for name in ("a", "b", "c"):
            client.lpush(name, "x")
        client.delete("a")
        client.set("a", "x")
        client.sadd("b:processing", "x")
        client.lpush("c:leases", "x")
        rows = await read_all(reading("a", "b", "c", "d"))

        texts = [[part for part in row[:3] if isinstance(part, bytes)] for row in rows.values()]
        assert [[text[:9] for text in each] for each in texts] == [[b"WRONGTYPE"]] * 3 + [[]]
        assert (rows["b"][0], rows["c"][0]) == (1, 1)
        assert rows["d"] == [0, 0, 0, None, None]

    @pytest.mark.parametrize("name", [b"\xff\xfe", b"a\r\nb\0", "日本\u202e".encode(), b"{tag}:x", b"n" * 5000])
    async def test_of_a_hostile_name(self, client: redis.Redis, reading: Reading, name: bytes) -> None:
        client.lpush(name, "x")
        client.lpush(name + b":processing", "y", "z")

        assert (await read_all(reading(name_of(name))))[name_of(name)][:2] == [1, 2]


async def test_looking_changes_nothing(client: redis.Redis, reading: Reading) -> None:
    client.lpush(Q, "a", b"\xff" * 100_000)
    client.lpush(P, "b")
    client.zadd(L, {"t:b": 5})
    before = everything(client)
    reader = reading()
    for _ in range(3):
        await read_all(reader)

    assert everything(client) == before


class TestBigItems:
    async def test_are_looked_at_again_only_after_a_while(self, client: redis.Redis, reading: Reading) -> None:
        reader = reading()
        client.rpush(Q, b"x" * BIG_BYTES)
        first = (await read_one(reader))[3]
        client.rpush(Q, "small")
        soon = await read_one(reader, NOW_MS + BIG_PACE_MS - 1)
        later = await read_one(reader, NOW_MS + BIG_PACE_MS)
        client.rpush(Q, "other")

        assert (soon[0], soon[3]) == (2, first)
        assert later[3] == [5, b"small", 1]
        assert (await read_one(reader, NOW_MS + BIG_PACE_MS + 1))[3] == [5, b"other", 1]

    async def test_of_an_emptied_queue_are_forgotten(self, client: redis.Redis, reading: Reading) -> None:
        reader = reading()
        client.rpush(Q, b"x" * BIG_BYTES)
        await read_one(reader)
        client.delete(Q)
        assert (await read_one(reader, NOW_MS + 1))[3] is None

    def test_of_queues_that_are_gone_are_forgotten(self) -> None:
        codec = ListRowCodec(ListNames())
        for number in range(10_000):
            codec.normalize(f"q{number}", [1, 0, 0, [BIG_BYTES, b"x", 1], None], [], NOW_MS + 1_000 * number)

        assert len(codec._big_at_ms) == BIG_PACE_MS // 1_000

    async def test_of_many_queues_are_not_all_looked_at_in_one_call(
        self, client: redis.Redis, reading: Reading
    ) -> None:
        size = LOOK_BYTES_MAX // 40
        names = [f"q{number:03d}" for number in range(120)]
        for name in names:
            client.lpush(name, b"x" * size)
        reader = reading(*names)
        looked: list[int] = []
        for second in range(8):
            rows = await read_all(reader, NOW_MS + second * 1000)
            looked.append(sum(row[3] is not None for row in rows.values()))

        assert looked[0] <= 60
        assert looked == sorted(looked)
        assert looked[-1] == len(names)


class TestManyQueues:
    COUNT = CHUNK_QUEUES * (CHUNKS_IN_FLIGHT + 1) + 7

    async def test_come_in_the_order_of_their_names(self, client: redis.Redis, reading: Reading) -> None:
        names = [f"q{number:05d}" for number in range(self.COUNT)]
        with client.pipeline(transaction=False) as pipeline:
            for number, name in enumerate(names):
                pipeline.lpush(name, number)
            pipeline.execute()
        rows = await read_all(reading(*reversed(names)))

        assert list(rows) == names
        assert [int(row[3][1]) for row in rows.values()] == list(range(self.COUNT))

    async def test_cost_one_script_for_each_chunk(self, client: redis.Redis, redis_url: str) -> None:
        names = [f"q{number}" for number in range(CHUNK_QUEUES * 2 + 1)]
        async with aclosing(ListReader(redis_url, ListNames(), names)) as reader:
            await read_all(reader)
            client.flushdb()
            before, commands = scripts_run(client), reader.traffic.commands
            await read_all(reader)

            assert scripts_run(client) - before == 3
            # TIME, and the chunks.
            assert reader.traffic.commands - commands == 4

    async def test_follow_the_names_that_are_known(self, client: redis.Redis, reading: Reading) -> None:
        reader = reading("a", "b")
        assert list(await read_all(reader)) == ["a", "b"]
        reader.discovery.names = frozenset({b"b", b"c"})
        client.lpush("c", "x")
        rows = await read_all(reader)

        assert list(rows) == ["b", "c"]
        assert rows["c"][0] == 1


async def test_scripts_that_the_server_forgot_are_taught_again(client: redis.Redis, redis_url: str) -> None:
    client.lpush(Q, "x")
    async with aclosing(ListReader(redis_url, ListNames(), [Q])) as reader:
        before = await read_one(reader)
        client.script_flush()
        client.lpush(P, "y")

        assert (await read_one(reader)) == [1, 1, *before[2:]]
        assert reader.scripts_refused is None


async def test_a_plain_row_makes_sense_although_the_queue_changes_between_its_commands(
    client: redis.Redis, redis_url: str
) -> None:
    url = user_without(client, redis_url, "-@scripting")
    async with aclosing(ListReader(url, ListNames(), [Q])) as reader:
        await read_one(reader)
        client.lpush(Q, "x")
        commands = reader._runner.commands

        async def emptied_before_the_look(*asked: Sequence[bytes | str | int]) -> list[Any]:
            if asked[0][0] == "LRANGE":
                await asyncio.to_thread(client.delete, Q)
            return await commands(*asked)

        reader._runner.commands = emptied_before_the_look  # type: ignore[method-assign]

        assert await read_one(reader) == [0, 0, 0, None, None]
