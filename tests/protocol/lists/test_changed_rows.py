"""Of list queues only what changed is read again, and nothing that changes is missed."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from tests.protocol.keyspace import scripts_run
from tests.protocol.lists.test_rows import LATER_MS, NOW_MS, L, P, Q, read_all


class TestWhatChanged:
    @pytest.fixture
    async def answer(self, redis_url: str) -> AsyncIterator[ListReader]:
        async with aclosing(ListReader(redis_url, ListNames(), [Q, "queue:r"])) as opened:
            await read_all(opened)
            await read_all(opened)
            assert opened.rows._connection.tracks
            yield opened

    async def test_of_quiet_queues_nothing_is_read(self, client: redis.Redis, answer: ListReader) -> None:
        # The part that is read although nothing changed has had its turn.
        before = scripts_run(client)
        rows = [await read_all(answer) for _ in range(3)]

        assert rows[0] == rows[1] == rows[2]
        assert scripts_run(client) - before <= 3

    @pytest.mark.parametrize(
        "change",
        [
            lambda client: client.lpush(Q, "x"),
            lambda client: client.lpush(P, "x"),
            lambda client: client.zadd(L, {"t:x": LATER_MS}),
            lambda client: client.set(Q, "x"),
        ],
    )
    async def test_a_change_of_any_key_is_read(
        self, client: redis.Redis, answer: ListReader, redis_url: str, change: Callable[[redis.Redis], object]
    ) -> None:
        before = await read_all(answer)
        change(client)
        after = await read_all(answer)
        async with aclosing(ListReader(redis_url, ListNames(), [Q, "queue:r"])) as fresh:
            assert after == await read_all(fresh)
        assert after[Q] != before[Q]
        assert after["queue:r"] is before["queue:r"]

    async def test_a_lease_expires_by_time_alone(self, client: redis.Redis, answer: ListReader) -> None:
        client.zadd(L, {"t:x": NOW_MS + 5, "t:y": NOW_MS + 9})
        expired = [(await read_all(answer, NOW_MS + ms))[Q][4][0] for ms in (0, 0, 4, 5, 8, 9, 100)]

        assert expired == [0, 0, 0, 1, 1, 2, 2]
        assert (await read_all(answer, NOW_MS))[Q][4][0] == 0

    async def test_whatever_happens_is_told(self, client: redis.Redis, answer: ListReader, redis_url: str) -> None:
        dice = random.Random(3)
        steps: Sequence[Callable[[], object]] = (
            lambda: client.lpush(Q, dice.randrange(3)),
            lambda: client.lmove(Q, P, "RIGHT", "LEFT"),
            lambda: client.zadd(L, {f"t{dice.randrange(5)}": NOW_MS + dice.randrange(100)}),
            lambda: client.rpop(P),
            lambda: client.zpopmin(L),
            lambda: client.delete(Q),
        )
        for moment in range(80):
            for _ in range(dice.randrange(3)):
                dice.choice(steps)()
            found = await read_all(answer, NOW_MS + moment)
            async with aclosing(ListReader(redis_url, ListNames(), [Q, "queue:r"])) as fresh:
                assert found == await read_all(fresh, NOW_MS + moment)
