"""Writers that send a message in two steps, as ebuckley/rsmq does, and what waits until they have."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import redis.asyncio

from rsmq_tui.protocol import AsyncRsmq, make_id
from rsmq_tui.protocol.keys import random_suffix

Work = Callable[[redis.asyncio.Redis, AsyncRsmq], Awaitable[object]]
_GAP_S = 0.005


class Halves:
    """Writers of queue q, with ids that carry a time and without, of which either side comes first.

    ``sent`` counts messages, ``lost`` are the ids of those of which a side was gone when the other had come; ``settle``
    takes the place of an audit's wait, and ``waits`` counts these.
    """

    def __init__(self) -> None:
        self.sent = self.waits = 0
        self.lost: list[str] = []
        self._under_way: set[asyncio.Event] = set()
        self.works: tuple[Work, ...] = tuple(
            self._writer(has_time, body_first) for has_time in (True, False) for body_first in (True, False)
        )

    async def settle(self, settling_s: float | None) -> None:
        """Wait until all that is under way now has come."""
        self.waits += 1
        for whole in list(self._under_way):
            await whole.wait()

    def _writer(self, has_time: bool, body_first: bool) -> Work:
        async def write(client: redis.asyncio.Redis, _: AsyncRsmq) -> None:
            id = make_id(time.time_ns() // 1000) if has_time else random_suffix().decode()
            member = lambda: client.zadd("rsmq:q", {id: 1_700_000_000_000})  # noqa: E731
            body = lambda: client.hset("rsmq:q:Q", id, "body")  # noqa: E731
            whole = asyncio.Event()
            self._under_way.add(whole)
            for number, step in enumerate((body, member) if body_first else (member, body)):
                await asyncio.sleep(number * _GAP_S)
                await step()
            self._under_way.discard(whole)
            whole.set()
            self.sent += 1
            async with client.pipeline(transaction=True) as pipeline:
                pipeline.zscore("rsmq:q", id).hexists("rsmq:q:Q", id)
                score, has_body = await pipeline.execute()
                if score is None or not has_body:
                    self.lost.append(id)
                # As much as is sent is consumed.
                pipeline.zrem("rsmq:q", id).hdel("rsmq:q:Q", id)
                await pipeline.execute()

        return write
