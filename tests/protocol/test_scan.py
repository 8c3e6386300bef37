"""Scanning a queue: everything that is there throughout comes once, whatever others do meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from itertools import compress
from typing import Any

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import PageRequest, RawMessage, Rsmq, RsmqError, RsmqReader, ScanChunk, make_id
from rsmq_tui.protocol.rsmq import scan
from rsmq_tui.protocol.rsmq.scan import SCAN_BODY_BYTES, WINDOW_IDS, Seen
from tests.protocol.keyspace import everything

pytestmark = pytest.mark.slow

NOW_MS = 1_750_000_000_000


@pytest.fixture
def client(either_server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(either_server.url) as connected:
        connected.flushall()
        yield connected


@pytest.fixture(params=[65_536, -1])
async def reader(
    request: pytest.FixtureRequest, either_server: EmbeddedServer, client: redis.Redis
) -> AsyncIterator[RsmqReader]:
    """A reader of a queue that limits its bodies, which are then read at once, or that does not."""
    client.hset("rsmq:q:Q", "maxsize", request.param)
    async with aclosing(RsmqReader(either_server.url)) as opened:
        yield opened


def fill(client: redis.Redis, count: int, *, body: Callable[[int], bytes] = lambda n: b"body %d" % n) -> list[bytes]:
    ids = [make_id((NOW_MS - number) * 1000).encode() for number in range(count)]
    for start in range(0, count, 10_000):
        part = range(start, min(start + 10_000, count))
        client.zadd("rsmq:q", {ids[number]: NOW_MS + number for number in part})
        client.hset("rsmq:q:Q", mapping={ids[number]: body(number) for number in part})
    client.hset("rsmq:q:Q", mapping={"vt": 30, "delay": 0})
    return ids


def drop(client: redis.Redis, ids: list[bytes]) -> None:
    for start in range(0, len(ids), 5_000):
        part = ids[start : start + 5_000]
        client.zrem("rsmq:q", *part)
        client.hdel("rsmq:q:Q", *part)


async def scanned(
    reader: RsmqReader, *, counts: bool = False, bodies: bool = False, sizes: bool = False
) -> list[RawMessage]:
    chunks = reader.scan.chunks("q", counts=counts, bodies=bodies, sizes=sizes)
    return [message async for chunk in chunks for message in chunk.messages]


class TestWhatIsRead:
    @pytest.mark.parametrize("count", [1, 128, 129, 3_001])
    async def test_every_message_once(self, client: redis.Redis, reader: RsmqReader, count: int) -> None:
        ids = fill(client, count)
        found = await scanned(reader, bodies=True)

        assert sorted(message.id for message in found) == sorted(ids)
        assert {message.id: (message.score, message.body) for message in found} == {
            id: (b"%d" % (NOW_MS + number), b"body %d" % number) for number, id in enumerate(ids)
        }

    @pytest.mark.parametrize("counts", [True, False])
    @pytest.mark.parametrize("bodies", [True, False])
    async def test_only_what_is_asked_for(
        self, client: redis.Redis, reader: RsmqReader, counts: bool, bodies: bool
    ) -> None:
        (id,) = fill(client, 1)
        client.hset("rsmq:q:Q", mapping={id + b":rc": "7x", id + b":fr": "9"})
        (message,) = await scanned(reader, counts=counts, bodies=bodies, sizes=True)

        assert (message.rc, message.fr) == ((b"7x", b"9") if counts else (None, None))
        assert (message.size, message.body) == (6, b"body 0" if bodies else None)

    async def test_counts_of_many(self, client: redis.Redis, reader: RsmqReader) -> None:
        ids = fill(client, 2_500)
        client.hset("rsmq:q:Q", mapping={ids[number] + b":rc": number for number in range(0, 2_500, 3)})
        found = {message.id: message.rc for message in await scanned(reader, counts=True)}

        assert found == {id: b"%d" % number if number % 3 == 0 else None for number, id in enumerate(ids)}

    async def test_messages_with_an_empty_body_and_without_one(self, client: redis.Redis, reader: RsmqReader) -> None:
        ids = fill(client, 2, body=lambda _: b"")
        client.zadd("rsmq:q", {b"\xff\x00": 5.5})
        found = {message.id: message for message in await scanned(reader, bodies=True)}

        assert [found[id].body for id in ids] == [b"", b""]
        assert found[b"\xff\x00"] == RawMessage(b"\xff\x00", b"5.5", None, None, 0, None)

    async def test_the_moment_and_the_depth(self, client: redis.Redis, reader: RsmqReader) -> None:
        fill(client, 2_500)
        chunks = [chunk async for chunk in reader.scan.chunks("q", counts=False, bodies=False)]
        now_ms = client.time()[0] * 1000

        assert len(chunks) > 1
        assert all(chunk.depth == 2_500 and abs(chunk.at_ms - now_ms) < 60_000 for chunk in chunks)

    async def test_a_queue_that_is_not_there_has_no_messages(self, reader: RsmqReader) -> None:
        assert await scanned(reader, bodies=True) == []

    @pytest.mark.parametrize("key", ["rsmq:q", "rsmq:q:Q"])
    async def test_a_wrong_type_is_told(self, client: redis.Redis, reader: RsmqReader, key: str) -> None:
        client.zadd("rsmq:q", {"x": 1})
        client.delete(key)
        client.set(key, "x")
        with pytest.raises(RsmqError) as caught:
            await scanned(reader, counts=True, bodies=True)

        assert caught.value.code == "wrongType"

    async def test_nothing_is_changed(self, client: redis.Redis, reader: RsmqReader) -> None:
        fill(client, 700)
        before = everything(client)
        await scanned(reader, counts=True, bodies=True)

        assert everything(client) == before


class TestLongBodies:
    async def test_no_call_copies_more_than_its_share(self, client: redis.Redis, reader: RsmqReader) -> None:
        ids = fill(client, 300, body=lambda n: b"x" * (65_536 if n % 2 else 100))
        client.hset("rsmq:q:Q", "maxsize", -1)
        chunks = [chunk async for chunk in reader.scan.chunks("q", counts=False, bodies=True)]

        assert sorted(m.id for chunk in chunks for m in chunk.messages) == sorted(ids)
        assert all(sum(len(m.body or b"") for m in chunk.messages) <= SCAN_BODY_BYTES for chunk in chunks)
        assert all(m.body == b"x" * m.size for chunk in chunks for m in chunk.messages)

    async def test_the_longest_that_are_read_come_alone_and_longer_ones_are_counted(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        sizes = [SCAN_BODY_BYTES, SCAN_BODY_BYTES + 1, 5, SCAN_BODY_BYTES, 3_000_000]
        ids = fill(client, 5, body=lambda n: b"x" * sizes[n])
        client.hset("rsmq:q:Q", "maxsize", -1)
        chunks = [chunk async for chunk in reader.scan.chunks("q", counts=True, bodies=True)]
        found = {m.id: m for chunk in chunks for m in chunk.messages}

        assert [found[id].size for id in ids] == sizes
        assert [found[id].body is None for id in ids] == [False, True, False, False, True]
        assert sum(chunk.too_long for chunk in chunks) == 2

    async def test_without_bodies_none_is_too_long(self, client: redis.Redis, reader: RsmqReader) -> None:
        fill(client, 1, body=lambda _: b"x" * (SCAN_BODY_BYTES + 1))

        assert [c.too_long async for c in reader.scan.chunks("q", counts=False, bodies=False)] == [0]


async def step_by_step(reader: RsmqReader, meanwhile: Callable[[ScanChunk], object], **options: Any) -> list[bytes]:
    """Scan with something going on between the chunks; return the ids in the order that they came."""
    ids: list[bytes] = []
    async for chunk in reader.scan.chunks("q", counts=False, bodies=True, **options):
        ids += [message.id for message in chunk.messages]
        meanwhile(chunk)
    return ids


class TestWhileOthersWork:
    async def test_consumers_and_producers(self, client: redis.Redis, reader: RsmqReader) -> None:
        ids = fill(client, 6_000)
        staying, going = ids[::2], ids[1::2]
        rng = random.Random(1)
        queues = Rsmq(client)

        def work(_: ScanChunk) -> None:
            client.zadd("rsmq:q", {id: rng.choice([0, NOW_MS, NOW_MS * 2]) for id in rng.sample(staying, 200)})
            drop(client, [going.pop() for _ in range(min(150, len(going)))])
            queues.send_messages("q", [b"new"] * 40)
            queues.receive_messages("q", 20, vt=0)

        found = await step_by_step(reader, work, count=100)

        assert len(found) == len(set(found))
        assert set(staying) <= set(found)

    @pytest.mark.parametrize(("left", "at"), [(800, 0.1), (800, 0.97), (40, 0.55), (6, 0.1), (6, 0.97), (3, 0.55)])
    @pytest.mark.parametrize("window", [WINDOW_IDS, 20])
    @pytest.mark.parametrize("reader", [65_536], indirect=True)
    async def test_a_table_that_shrinks(
        self,
        client: redis.Redis,
        reader: RsmqReader,
        monkeypatch: pytest.MonkeyPatch,
        left: int,
        at: float,
        window: int,
    ) -> None:
        monkeypatch.setattr(scan, "WINDOW_IDS", window)
        ids = fill(client, 4_000)
        returned: list[bytes] = []
        staying: set[bytes] = set()

        def work(chunk: ScanChunk) -> None:
            returned.extend(message.id for message in chunk.messages)
            if not staying and len(returned) >= at * len(ids):
                # The scan goes back over these: they were returned not long ago, as the small table sees it.
                lately = returned[-240:]
                staying.update(lately[:: max(1, len(lately) // left)][:left])
                drop(client, [id for id in ids if id not in staying])
                # A table shrinks bit by bit, as it is used.
                with client.pipeline(transaction=False) as pipeline:
                    for _ in range(300):
                        pipeline.zscore("rsmq:q", "x")
                    pipeline.execute()

        found = await step_by_step(reader, work, count=25)

        assert len(found) == len(set(found))
        assert staying <= set(found)

    async def test_a_table_that_shrinks_step_by_step_and_grows_again(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        ids = fill(client, 8_000)
        staying, going = ids[:50], ids[50:]
        steps = 0

        def work(_: ScanChunk) -> None:
            nonlocal going, steps
            steps += 1
            if steps % 8 == 0:
                going = fill(client, 3_000)
            else:
                drop(client, going[: len(going) * 3 // 4])
                going = going[len(going) * 3 // 4 :]

        found = await step_by_step(reader, lambda chunk: work(chunk) if steps < 33 else None, count=50)

        assert len(found) == len(set(found))
        assert set(staying) <= set(found)

    async def test_a_table_that_grows(self, client: redis.Redis, reader: RsmqReader) -> None:
        ids = fill(client, 300)
        grown = 0

        def work(_: ScanChunk) -> None:
            nonlocal grown
            if grown < 12_000:
                grown += 2_000
                fill(client, 2_000)

        found = await step_by_step(reader, work, count=20)

        assert len(found) == len(set(found))
        assert set(ids) <= set(found)

    async def test_a_small_queue_that_becomes_a_large_one(self, client: redis.Redis, reader: RsmqReader) -> None:
        ids = fill(client, 20)
        found = await step_by_step(reader, lambda _: fill(client, 1_000))

        assert set(ids) <= set(found)

    async def test_a_queue_that_is_deleted_ends(self, client: redis.Redis, reader: RsmqReader) -> None:
        fill(client, 6_000)
        found = await step_by_step(reader, lambda _: client.delete("rsmq:q", "rsmq:q:Q"))

        assert 0 < len(found) < 3_000

    async def test_a_message_that_leaves_before_its_body_is_read_is_left_out(
        self, client: redis.Redis, reader: RsmqReader
    ) -> None:
        ids = fill(client, 100, body=lambda _: b"x" * 50_000)
        client.hset("rsmq:q:Q", "maxsize", -1)
        drops = iter([ids[50:]])
        kept = await step_by_step(reader, lambda _: drop(client, next(drops, [b"-"])))

        assert set(ids[:50]) <= set(kept)
        assert len(kept) < 100


class TestMemory:
    def test_of_a_deep_queue_that_shrank_to_nothing(self) -> None:
        seen = Seen(window=100)
        ids = [b"%d" % number for number in range(5_000)]
        for start in range(0, 5_000, 50):
            assert new_of(seen, ids[start : start + 50], 5_000) == ids[start : start + 50]

        assert new_of(seen, [ids[3], b"new", ids[4_999]], 3) == [b"new"]

    def test_of_the_last_ids(self) -> None:
        seen = Seen(window=100)
        ids = [b"%d" % number for number in range(5_000)]
        for start in range(0, 5_000, 50):
            new_of(seen, ids[start : start + 50], 5_000)

        assert new_of(seen, [b"new", *ids[-100:], b"newer", b"new"], 5_000) == [b"new", b"newer"]


def new_of(seen: Seen, ids: list[bytes], depth: int) -> list[bytes]:
    fresh = seen.fresh(ids, depth)
    return ids if fresh is None else list(compress(ids, fresh))


class TestLeaving:
    async def test_early_leaves_the_connection_fit_for_use(self, client: redis.Redis, reader: RsmqReader) -> None:
        fill(client, 2_000)
        for _ in range(20):
            async with aclosing(reader.scan.chunks("q", counts=True, bodies=True)) as chunks:
                assert (await anext(chunks)).depth == 2_000
            assert (await reader.pages.page(PageRequest("q", count=1))).depth == 2_000

    @pytest.mark.parametrize("turns", [0, 1, 2, 4, 7, 11])
    async def test_by_cancel_leaves_the_connection_fit_for_use(
        self, client: redis.Redis, reader: RsmqReader, turns: int
    ) -> None:
        fill(client, 2_000)
        task = asyncio.create_task(scanned(reader, counts=True, bodies=True))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert len(await scanned(reader, bodies=True)) == 2_000
        assert len(asyncio.all_tasks()) == 1
