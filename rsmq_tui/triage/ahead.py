"""Making the next things while the ones before are worked on."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

T = TypeVar("T")


async def ahead(
    items: AsyncGenerator[T, None], count: int, weigh: Callable[[T], int] = lambda item: 0, heavy: int = 1
) -> AsyncGenerator[T, None]:
    """Walk through what a generator makes, in its order, and let it make more meanwhile; raises what it raises.

    At most ``count`` wait to be taken, and no more is made while those weigh ``heavy`` or more. What one of them asks
    a server for is answered before the work on those before it keeps the server busy. Close it with ``aclose`` when
    leaving early: nothing is made any more then.
    """
    made: _Made[T] = _Made(count, weigh, heavy)
    making = asyncio.create_task(made.fill(items))
    try:
        while await made.has_more():
            yield made.take()
        # Whatever ended it, and be it that somebody cancelled it: else nobody would be told.
        await making
    finally:
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)


class _Made(Generic[T]):
    """What waits to be taken."""

    def __init__(self, count: int, weigh: Callable[[T], int], heavy: int) -> None:
        self._waiting: deque[tuple[T, int]] = deque()
        self._count, self._weigh, self._heavy = count, weigh, heavy
        self._weight = 0
        self._is_over = False
        self._changed = asyncio.Event()

    async def fill(self, items: AsyncGenerator[T, None]) -> None:
        """Make them, as far ahead as there is room."""
        try:
            async with aclosing(items):
                async for item in items:
                    weight = self._weigh(item)
                    self._waiting.append((item, weight))
                    self._weight += weight
                    self._changed.set()
                    while len(self._waiting) >= self._count or self._weight >= self._heavy:
                        await self._change()
        finally:
            self._is_over = True
            self._changed.set()

    async def has_more(self) -> bool:
        """Wait for the next, and tell whether there is one."""
        while not self._waiting and not self._is_over:
            await self._change()
        return bool(self._waiting)

    def take(self) -> T:
        """Return the next."""
        item, weight = self._waiting.popleft()
        self._weight -= weight
        self._changed.set()
        return item

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
