"""Commands that wait on the server, and operations that take several round trips, for both clients.

A command that waits has a connection of its own for that time, whose reply is waited for as long as the command waits:
the client's socket timeout, five seconds by default, counts only from when the server should have answered. It is never
sent twice, as redis-py does after an error: what the first one popped would be lost.
"""

import asyncio
import time
from collections.abc import Generator
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq_tui.protocol.cancelling import cancels, end_if_cancelled
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.operations import Argument, Operation, raise_refusal
from rsmq_tui.protocol.replies import decoded
from rsmq_tui.protocol.runner import RAW, AsyncRunner, Runner
from rsmq_tui.protocol.validation import SECONDS_MAX

T = TypeVar("T")

# Servers round the timeout of a command to milliseconds, some of them down; 0 is for ever.
_SHORTEST_S = 0.001
# How long a client of a cluster waits at a time: shorter than its socket timeout.
_SLICE_S = 1.0
# A server looks only so often whose time is over: ten times a second by default, or as little as once.
_LATENESS_S = 2.0
_LATE = "the server has not answered a command that should have waited no longer"


class Waiting(NamedTuple, Generic[T]):
    """A command that waits: ``command`` without the timeout that ends it, which is ``wait_s`` seconds, 0 for ever."""

    command: tuple[Argument, ...]
    wait_s: float
    read: Any

    def timed(self, wait_s: float) -> tuple[Argument, ...]:
        """Return the command with a timeout."""
        return (*self.command, f"{wait_s:.3f}".rstrip("0").rstrip("."))


Flow = Generator[Operation[Any] | Waiting[Any], Any, T]
"""An operation of several round trips: it yields each of them, is sent its result, and returns its own."""


def checked_timeout(timeout_s: object) -> float:
    """Return a timeout in seconds, 0 for ever; raise ``invalidValue``."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= SECONDS_MAX:
        raise rsmq_error("invalidValue", item="timeout_s", low=0, high=SECONDS_MAX)
    return max(timeout_s, _SHORTEST_S) if timeout_s else 0


class Deadline:
    """The end of a wait of several commands; ``timeout_s`` is 0 for ever."""

    def __init__(self, timeout_s: float) -> None:
        self._ends_s = time.monotonic() + timeout_s if timeout_s else inf

    def rest_s(self, at_most_s: float = inf) -> float | None:
        """Return how long the next command may wait, 0 for ever; None when the time is over."""
        rest_s = min(self._ends_s - time.monotonic(), at_most_s)
        if rest_s == inf:
            return 0
        return rest_s if rest_s >= _SHORTEST_S else None


def _patience_s(wait_s: float, connection: Any) -> float | None:
    if not wait_s or connection.socket_timeout is None:
        return None
    return wait_s + _LATENESS_S + float(connection.socket_timeout)


class WaitingRunner(Runner):
    """A runner that also waits and follows flows."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        # A client of a cluster has none.
        self._pool: Any = getattr(client, "connection_pool", None)

    def _wait(self, waiting: Waiting[T]) -> T:
        try:
            reply = self._wait_in_slices(waiting) if self._pool is None else self._wait_once(waiting)
        except ResponseError as error:
            raise_refusal(error)
        result: T = decoded(waiting.read, reply)
        return result

    def _wait_once(self, waiting: Waiting[Any]) -> Any:
        connection = self._pool.get_connection()
        try:
            connection.send_command(*waiting.timed(waiting.wait_s))
            return connection.read_response(disable_decoding=True, timeout=_patience_s(waiting.wait_s, connection))
        finally:
            self._pool.release(connection)

    def _wait_in_slices(self, waiting: Waiting[Any]) -> Any:
        deadline = Deadline(waiting.wait_s)
        reply = None
        while reply is None and (slice_s := deadline.rest_s(_SLICE_S)):
            reply = self._command(*waiting.timed(slice_s), **RAW)
        return reply

    def _follow(self, flow: Flow[T]) -> T:
        result: Any = None
        try:
            while True:
                step = flow.send(result)
                result = self._wait(step) if isinstance(step, Waiting) else self._run(step)
        except StopIteration as end:
            final: T = end.value
            return final


class AsyncWaitingRunner(AsyncRunner):
    """``WaitingRunner`` for asyncio; whoever is cancelled while it waits closes that connection."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._pool: Any = getattr(client, "connection_pool", None)

    async def _wait(self, waiting: Waiting[T]) -> T:
        try:
            reply = await (self._wait_in_slices(waiting) if self._pool is None else self._wait_once(waiting))
        except ResponseError as error:
            raise_refusal(error)
        result: T = decoded(waiting.read, reply)
        return result

    async def _wait_once(self, waiting: Waiting[Any]) -> Any:
        # A cancel that is lost while the command is sent would leave this waiting, perhaps for ever.
        before = cancels()
        connection = await self._pool.get_connection()
        try:
            await connection.send_command(*waiting.timed(waiting.wait_s))
            await end_if_cancelled(connection, before)
            # A timeout of read_response would look like an answer, and leave the connection with one to come.
            async with asyncio.timeout(_patience_s(waiting.wait_s, connection)):
                return await connection.read_response(disable_decoding=True, timeout=inf)
        except TimeoutError as error:
            raise RedisTimeoutError(_LATE) from error
        finally:
            await self._pool.release(connection)

    async def _wait_in_slices(self, waiting: Waiting[Any]) -> Any:
        deadline = Deadline(waiting.wait_s)
        reply = None
        while reply is None and (slice_s := deadline.rest_s(_SLICE_S)):
            reply = await self._command(*waiting.timed(slice_s), **RAW)
        return reply

    async def _follow(self, flow: Flow[T]) -> T:
        before, result = cancels(), None
        try:
            while True:
                step = flow.send(result)
                result = await (self._wait(step) if isinstance(step, Waiting) else self._run(step))
                # Lost while a step was sent, as in ``_wait_once``: the next step would not know of it.
                if cancels() > before:
                    raise asyncio.CancelledError
        except StopIteration as end:
            final: T = end.value
            return final
