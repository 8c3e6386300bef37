"""The clients of list queues, synchronous and asyncio, and the reapers: loops that reap at an interval."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster

from rsmq_tui.protocol.connections.command_runner import AsyncCommandRunner, CommandRunner, Method
from rsmq_tui.protocol.errors import SERVER_ERRORS
from rsmq_tui.protocol.lists import operations
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.operations import GRACE_MS, Location, Reaped

USUAL_NAMES = ListNames()


class _Operations:
    """The operations, as methods of both clients, and what both know of their queue."""

    _target: Location

    push = Method(operations.push)
    push_front = Method(operations.push_front)
    push_existing = Method(operations.push_existing)
    pop = Method(operations.pop)
    pop_many = Method(operations.pop_many)
    pop_blocking = Method(operations.pop_blocking)
    move = Method(operations.move)
    move_blocking = Method(operations.move_blocking)
    rpoplpush = Method(operations.rpoplpush)
    brpoplpush = Method(operations.brpoplpush)
    length = Method(operations.length)
    remove = Method(operations.remove)
    trim = Method(operations.trim)
    peek = Method(operations.peek)
    item_at = Method(operations.item_at)
    take = Method(operations.take)
    take_blocking = Method(operations.take_blocking)
    ack = Method(operations.ack)
    extend = Method(operations.extend)
    nack = Method(operations.nack)
    reap = Method(operations.reap)

    @property
    def key(self) -> str:
        """The queue's whole key: its name on screens and in commands."""
        return self._target.name

    @property
    def names(self) -> ListNames:
        """How its keys are named."""
        return self._target.names


class ListQueue(_Operations, CommandRunner[Location]):
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
        super().__init__(client, Location.of(name, names))


class AsyncListQueue(_Operations, AsyncCommandRunner[Location]):
    """``ListQueue`` for asyncio: the same methods, arguments and errors, as coroutines.

    Cancelling a wait closes its connection, so that the server ends the wait too. An item that was just being popped is
    then lost, and one that was being taken is left to a reaper.
    """

    def __init__(
        self, client: AsyncRedis | AsyncRedisCluster, name: str | bytes, *, names: ListNames = USUAL_NAMES
    ) -> None:
        super().__init__(client, Location.of(name, names))


Q = TypeVar("Q")
OnReaped = Callable[[str, Reaped], object]
OnError = Callable[[str, Exception], object]


@dataclass(eq=False)
class _Loop(Generic[Q]):
    """The queues and the settings of a loop that reaps."""

    queues: Sequence[Q]
    _: KW_ONLY
    interval_s: float = 1.0
    grace_ms: int = GRACE_MS
    on_reaped: OnReaped | None = None
    on_error: OnError | None = None

    def _report(self, key: str, reaped: Reaped) -> None:
        if self.on_reaped is not None and any(reaped):
            self.on_reaped(key, reaped)

    def _report_error(self, key: str, error: Exception) -> None:
        """Call ``on_error``, or raise the error if there is none."""
        if self.on_error is None:
            raise error
        self.on_error(key, error)


@dataclass(eq=False)
class Reaper(_Loop[ListQueue]):
    """Reaps queues every ``interval_s`` seconds until it is stopped; any number of reapers may run at once.

    ``on_reaped`` is called with the key of a queue and the result, if anything was reaped. ``on_error`` is called with
    the key and the error if the server cannot be reached, and the loop continues; without it the error is raised.
    """

    _stopped: threading.Event = field(init=False, default_factory=threading.Event)

    def run(self) -> None:
        """Reap until ``stop`` is called, by another thread or a signal handler."""
        while not self._stopped.is_set():
            for queue in self.queues:
                try:
                    reaped = queue.reap(grace_ms=self.grace_ms)
                except SERVER_ERRORS as error:
                    self._report_error(queue.key, error)
                else:
                    self._report(queue.key, reaped)
            self._stopped.wait(self.interval_s)

    def stop(self) -> None:
        """Make ``run`` return after the current queue."""
        self._stopped.set()


class AsyncReaper(_Loop[AsyncListQueue]):
    """``Reaper`` for asyncio: ``run`` continues until it is cancelled."""

    async def run(self) -> None:
        """Reap until cancelled."""
        while True:
            for queue in self.queues:
                try:
                    reaped = await queue.reap(grace_ms=self.grace_ms)
                except SERVER_ERRORS as error:
                    self._report_error(queue.key, error)
                else:
                    self._report(queue.key, reaped)
            await asyncio.sleep(self.interval_s)
