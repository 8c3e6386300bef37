"""The asyncio client of list queues: runs the same operations on a ``redis.asyncio.Redis``."""

from collections.abc import Iterable

from redis.asyncio import Redis, RedisCluster

from rsmq_tui.protocol.lists import leasing, operations
from rsmq_tui.protocol.lists.client import USUAL_NAMES, warn_deprecated
from rsmq_tui.protocol.lists.naming import End, ListNames
from rsmq_tui.protocol.lists.operations import Location
from rsmq_tui.protocol.lists.values import Lease, Popped, Reaped
from rsmq_tui.protocol.lists.waiting import AsyncWaitingRunner


class AsyncListQueue(AsyncWaitingRunner):
    """``ListQueue`` for asyncio: the same methods, arguments and errors, as coroutines.

    Whoever is cancelled while it waits closes its connection, as the server needs to see; an item that was just being
    popped is lost then, and one that was being taken is left to a reaper.
    """

    def __init__(self, client: Redis | RedisCluster, name: str | bytes, *, names: ListNames = USUAL_NAMES) -> None:
        super().__init__(client)
        self._location = Location.of(name, names)

    @property
    def key(self) -> str:
        """As ``ListQueue.key``."""
        return self._location.name

    @property
    def names(self) -> ListNames:
        """As ``ListQueue.names``."""
        return self._location.names

    async def push(self, *items: str | bytes, end: End | None = None) -> int:
        """As ``ListQueue.push``."""
        return await self._run(operations.push(self._location, items, end))

    async def push_front(self, *items: str | bytes) -> int:
        """As ``ListQueue.push_front``."""
        return await self._run(operations.push(self._location, items, self._location.front))

    async def push_existing(self, *items: str | bytes, end: End | None = None) -> int:
        """As ``ListQueue.push_existing``."""
        return await self._run(operations.push_existing(self._location, items, end))

    async def pop(self, end: End | None = None) -> bytes | None:
        """As ``ListQueue.pop``."""
        return await self._run(operations.pop(self._location, end))

    async def pop_many(self, count: int, end: End | None = None) -> list[bytes] | None:
        """As ``ListQueue.pop_many``."""
        return await self._run(operations.pop_many(self._location, count, end))

    async def pop_blocking(
        self, timeout_s: float = 0, *, others: Iterable[str | bytes] = (), end: End | None = None
    ) -> Popped | None:
        """As ``ListQueue.pop_blocking``."""
        return await self._wait(operations.pop_blocking(self._location, timeout_s, others, end))

    async def move(self, to: str | bytes, *, from_end: End | None = None, to_end: End | None = None) -> bytes | None:
        """As ``ListQueue.move``."""
        return await self._run(operations.move(self._location, to, from_end, to_end))

    async def move_blocking(
        self, to: str | bytes, timeout_s: float = 0, *, from_end: End | None = None, to_end: End | None = None
    ) -> bytes | None:
        """As ``ListQueue.move_blocking``."""
        return await self._wait(operations.move_blocking(self._location, to, timeout_s, from_end, to_end))

    async def rpoplpush(self, to: str | bytes) -> bytes | None:
        """As ``ListQueue.rpoplpush``: deprecated."""
        warn_deprecated("rpoplpush", "move")
        return await self.move(to, from_end="right", to_end="left")

    async def brpoplpush(self, to: str | bytes, timeout_s: float = 0) -> bytes | None:
        """As ``ListQueue.brpoplpush``: deprecated."""
        warn_deprecated("brpoplpush", "move_blocking")
        return await self.move_blocking(to, timeout_s, from_end="right", to_end="left")

    async def length(self) -> int:
        """As ``ListQueue.length``."""
        return await self._run(operations.length(self._location))

    async def remove(self, item: str | bytes, count: int = 1) -> int:
        """As ``ListQueue.remove``."""
        return await self._run(operations.remove(self._location, item, count))

    async def trim(self, start: int, stop: int) -> None:
        """As ``ListQueue.trim``."""
        await self._run(operations.trim(self._location, start, stop))

    async def peek(self, start: int = 0, stop: int = -1) -> list[bytes]:
        """As ``ListQueue.peek``."""
        return await self._run(operations.peek(self._location, start, stop))

    async def item_at(self, index: int) -> bytes | None:
        """As ``ListQueue.item_at``."""
        return await self._run(operations.item_at(self._location, index))

    async def take(self, vt_ms: int = leasing.VT_MS) -> Lease | None:
        """As ``ListQueue.take``."""
        return await self._run(leasing.take(self._location, vt_ms))

    async def take_blocking(self, timeout_s: float = 0, vt_ms: int = leasing.VT_MS) -> Lease | None:
        """As ``ListQueue.take_blocking``."""
        return await self._follow(leasing.take_blocking(self._location, timeout_s, vt_ms))

    async def ack(self, lease: Lease) -> bool:
        """As ``ListQueue.ack``."""
        return await self._run(leasing.ack(self._location, lease))

    async def extend(self, lease: Lease, vt_ms: int = leasing.VT_MS) -> Lease | None:
        """As ``ListQueue.extend``."""
        return await self._run(leasing.extend(self._location, lease, vt_ms))

    async def nack(self, lease: Lease, *, to_back: bool = False) -> bool:
        """As ``ListQueue.nack``."""
        return await self._run(leasing.nack(self._location, lease, to_back))

    async def reap(
        self,
        *,
        grace_ms: int = leasing.GRACE_MS,
        limit: int = leasing.LIMIT,
        examine: int = leasing.EXAMINED_ITEMS,
        examine_bytes: int = leasing.EXAMINED_BYTES,
    ) -> Reaped:
        """As ``ListQueue.reap``."""
        return await self._follow(leasing.reap(self._location, grace_ms, limit, examine, examine_bytes))
