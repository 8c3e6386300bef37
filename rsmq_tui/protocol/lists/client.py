"""The clients of list queues, synchronous and asyncio."""

import warnings
from collections.abc import Iterable

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster

from rsmq_tui.protocol.lists import operations
from rsmq_tui.protocol.lists.naming import End, ListNames
from rsmq_tui.protocol.lists.operations import AsyncWaitingRunner, Lease, Location, Popped, Reaped, WaitingRunner

USUAL_NAMES = ListNames()


class ListQueue(WaitingRunner):
    """A queue that is a Redis List, over a redis-py client, which the caller owns, configures and closes.

    Producers push at one end, the back; consumers pop at the other, the front. With the usual names they are LPUSH and
    RPOP on ``queue:<name>``; ``names`` says otherwise. A ``name`` in bytes is a whole key, and so is every other queue
    that is named in bytes. It exists as long as it has items: the first push creates it, taking the last deletes it.

    Items are bytes; a ``str`` is sent as UTF-8. ``take``, ``take_blocking``, ``ack``, ``extend``, ``nack`` and ``reap``
    are the reliable pattern: an item that is taken stays in a processing list, under a lease, until it is acknowledged.
    It returns to the queue when the lease ends. So no item is lost, and none is delivered again before its lease ends.

    Methods that wait take a timeout in seconds, 0 for ever, which may be longer than the client's socket timeout. Each
    uses one connection of the client's pool until it returns. On Redis Cluster the keys of one call must be in one
    slot: see ``ListNames``. There a wait is repeated each second, and then goes to the end of the server's line of
    waiting clients. Needs Redis 6.2 or newer, or Valkey.

    A key of another type raises ``RsmqError`` with the code ``wrongType``; what the server or the network refuses
    raises redis-py's exceptions. ``AsyncListQueue`` has the same methods as coroutines.
    """

    def __init__(self, client: Redis | RedisCluster, name: str | bytes, *, names: ListNames = USUAL_NAMES) -> None:
        super().__init__(client)
        self._location = Location.of(name, names)

    @property
    def key(self) -> str:
        """The queue's whole key: its name on screens and in commands."""
        return self._location.name

    @property
    def names(self) -> ListNames:
        """How its keys are named."""
        return self._location.names

    def push(self, *items: str | bytes, end: End | None = None) -> int:
        """Push items, each behind the one before, and return the new length (LPUSH, or RPUSH for the other end).

        They go to the back unless ``end`` is given. Raises ``messageNotString`` for what is not ``str`` or ``bytes``.
        """
        return self._run(operations.push(self._location, items, end))

    def push_front(self, *items: str | bytes) -> int:
        """Push items at the front, where the last of them is taken next; returns the new length."""
        return self._run(operations.push(self._location, items, self._location.front))

    def push_existing(self, *items: str | bytes, end: End | None = None) -> int:
        """As ``push``, but only to a queue that has items; returns 0 if it has none (LPUSHX or RPUSHX)."""
        return self._run(operations.push_existing(self._location, items, end))

    def pop(self, end: End | None = None) -> bytes | None:
        """Remove and return the next item, or the one at ``end``; None if there is none (RPOP or LPOP)."""
        return self._run(operations.pop(self._location, end))

    def pop_many(self, count: int, end: End | None = None) -> list[bytes] | None:
        """Remove and return up to ``count`` items; None if there is no queue (RPOP or LPOP with a count)."""
        return self._run(operations.pop_many(self._location, count, end))

    def pop_blocking(
        self, timeout_s: float = 0, *, others: Iterable[str | bytes] = (), end: End | None = None
    ) -> Popped | None:
        """Pop from this queue, else from the first of the ``others`` that has items, else wait (BRPOP or BLPOP).

        Returns the queue's key and the item, or None after the timeout. Clients are served in the order in which they
        began to wait. If the connection breaks before the item arrives, the item is lost: see ``take_blocking``.
        """
        return self._wait(operations.pop_blocking(self._location, timeout_s, others, end))

    def move(self, to: str | bytes, *, from_end: End | None = None, to_end: End | None = None) -> bytes | None:
        """Move the next item to the back of another queue and return it, or None if there is none (LMOVE)."""
        return self._run(operations.move(self._location, to, from_end, to_end))

    def move_blocking(
        self, to: str | bytes, timeout_s: float = 0, *, from_end: End | None = None, to_end: End | None = None
    ) -> bytes | None:
        """As ``move``, but wait for an item; None after the timeout (BLMOVE)."""
        return self._wait(operations.move_blocking(self._location, to, timeout_s, from_end, to_end))

    def rpoplpush(self, to: str | bytes) -> bytes | None:
        """Deprecated by Redis, as RPOPLPUSH is: ``move`` from the right end to the left one."""
        warn_deprecated("rpoplpush", "move")
        return self.move(to, from_end="right", to_end="left")

    def brpoplpush(self, to: str | bytes, timeout_s: float = 0) -> bytes | None:
        """Deprecated by Redis, as BRPOPLPUSH is: ``move_blocking`` from the right end to the left one."""
        warn_deprecated("brpoplpush", "move_blocking")
        return self.move_blocking(to, timeout_s, from_end="right", to_end="left")

    def length(self) -> int:
        """Return how many items are ready (LLEN)."""
        return self._run(operations.length(self._location))

    def remove(self, item: str | bytes, count: int = 1) -> int:
        """Remove items equal to this one, and return how many (LREM).

        The first ``count`` from the left, from the right if it is negative, all if it is 0.
        """
        return self._run(operations.remove(self._location, item, count))

    def trim(self, start: int, stop: int) -> None:
        """Keep the items from index ``start`` to ``stop``, both included, and remove all others (LTRIM).

        Index 0 is the left end and -1 the right one.
        """
        self._run(operations.trim(self._location, start, stop))

    def peek(self, start: int = 0, stop: int = -1) -> list[bytes]:
        """Return the items from index ``start`` to ``stop``, both included, left to right (LRANGE)."""
        return self._run(operations.peek(self._location, start, stop))

    def item_at(self, index: int) -> bytes | None:
        """Return the item at an index, or None (LINDEX); index 0 is the left end and -1 the right one."""
        return self._run(operations.item_at(self._location, index))

    def take(self, vt_ms: int = operations.VT_MS) -> Lease | None:
        """Atomically move the next item to processing and lease it for ``vt_ms`` ms; None if there is none.

        Raises ``invalidValue`` for a time below 0.
        """
        return self._run(operations.take(self._location, vt_ms))

    def take_blocking(self, timeout_s: float = 0, vt_ms: int = operations.VT_MS) -> Lease | None:
        """As ``take``, but wait for an item; None after the timeout.

        An item that arrives during the wait is moved first (BLMOVE) and then leased. If this client fails in between,
        a reaper returns the item after a grace period. If that period ends before the lease begins, the wait goes on.
        """
        return self._follow(operations.take_blocking(self._location, timeout_s, vt_ms))

    def ack(self, lease: Lease) -> bool:
        """Remove an item that is done; False if its lease was reaped, or acknowledged before."""
        return self._run(operations.ack(self._location, lease))

    def extend(self, lease: Lease, vt_ms: int = operations.VT_MS) -> Lease | None:
        """Make a lease end ``vt_ms`` ms from now; return it with its new deadline, or None if it is no longer held."""
        return self._run(operations.extend(self._location, lease, vt_ms))

    def nack(self, lease: Lease, *, to_back: bool = False) -> bool:
        """Return an item to the front of the queue, or ``to_back``; False if its lease is no longer held."""
        return self._run(operations.nack(self._location, lease, to_back))

    def reap(
        self,
        *,
        grace_ms: int = operations.GRACE_MS,
        limit: int = operations.LIMIT,
        examine: int = operations.EXAMINED_ITEMS,
        examine_bytes: int = operations.EXAMINED_BYTES,
    ) -> Reaped:
        """Return items whose lease has ended, and adopt items without a lease; at most ``limit`` items in all.

        An item has no lease if its consumer failed before leasing it, or does not use leases; if adopted, it returns
        after ``grace_ms``. Any number of reapers may run at once. To find such items, the server compares the
        processing list with the leases, in one call. If both together exceed ``examine`` entries or ``examine_bytes``,
        only expired leases are handled, and ``unexamined`` is set. The defaults allow 5,000 items or 8 MB in
        processing, which block the server for some 20 ms at a time.
        """
        return self._follow(operations.reap(self._location, grace_ms, limit, examine, examine_bytes))


def warn_deprecated(old: str, new: str) -> None:
    """Warn the caller of the calling method."""
    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=3)


class AsyncListQueue(AsyncWaitingRunner):
    """``ListQueue`` for asyncio: the same methods, arguments and errors, as coroutines.

    Cancelling a wait closes its connection, so that the server ends the wait too. An item that was just being popped is
    then lost, and one that was being taken is left to a reaper.
    """

    def __init__(
        self, client: AsyncRedis | AsyncRedisCluster, name: str | bytes, *, names: ListNames = USUAL_NAMES
    ) -> None:
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

    async def take(self, vt_ms: int = operations.VT_MS) -> Lease | None:
        """As ``ListQueue.take``."""
        return await self._run(operations.take(self._location, vt_ms))

    async def take_blocking(self, timeout_s: float = 0, vt_ms: int = operations.VT_MS) -> Lease | None:
        """As ``ListQueue.take_blocking``."""
        return await self._follow(operations.take_blocking(self._location, timeout_s, vt_ms))

    async def ack(self, lease: Lease) -> bool:
        """As ``ListQueue.ack``."""
        return await self._run(operations.ack(self._location, lease))

    async def extend(self, lease: Lease, vt_ms: int = operations.VT_MS) -> Lease | None:
        """As ``ListQueue.extend``."""
        return await self._run(operations.extend(self._location, lease, vt_ms))

    async def nack(self, lease: Lease, *, to_back: bool = False) -> bool:
        """As ``ListQueue.nack``."""
        return await self._run(operations.nack(self._location, lease, to_back))

    async def reap(
        self,
        *,
        grace_ms: int = operations.GRACE_MS,
        limit: int = operations.LIMIT,
        examine: int = operations.EXAMINED_ITEMS,
        examine_bytes: int = operations.EXAMINED_BYTES,
    ) -> Reaped:
        """As ``ListQueue.reap``."""
        return await self._follow(operations.reap(self._location, grace_ms, limit, examine, examine_bytes))
