"""Runs operations on redis-py's clients, with which library users call this package."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from math import inf
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq_tui.protocol.connections.connect import cancels, end_if_cancelled
from rsmq_tui.protocol.replies import decoded
from rsmq_tui.protocol.rsmq.operations import Flow, Operation, Waiting, raise_refusal

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")

# Bodies are bytes even for a client that was made with decode_responses=True.
_RAW: dict[str, Any] = {NEVER_DECODE: True}

# Servers round the timeout of a command to milliseconds, some of them down; 0 is for ever.
SHORTEST_S = 0.001
# How long a cluster client waits at a time: shorter than its socket timeout.
_SLICE_S = 1.0
# Servers check for expired timeouts ten times a second by default, and at least once a second.
_LATENESS_S = 2.0
_LATE = "the server did not answer a blocking command after its timeout"


class Deadline:
    """The deadline of a wait that takes several commands; ``timeout_s`` is 0 for ever."""

    def __init__(self, timeout_s: float) -> None:
        self._ends_s = time.monotonic() + timeout_s if timeout_s else inf

    def rest_s(self, at_most_s: float = inf) -> float | None:
        """Return how long the next command may wait, 0 for ever; None after the deadline."""
        rest_s = min(self._ends_s - time.monotonic(), at_most_s)
        if rest_s == inf:
            return 0
        return rest_s if rest_s >= SHORTEST_S else None


def _patience_s(wait_s: float, connection: Any) -> float | None:
    if not wait_s or connection.socket_timeout is None:
        return None
    return wait_s + _LATENESS_S + float(connection.socket_timeout)


class CommandRunner(Generic[C]):
    """Runs operations on a ``redis.Redis`` or ``redis.RedisCluster``; ``target`` is what they apply to.

    A blocking command uses a connection of its own, on which the socket timeout begins only when the command's own
    timeout has passed. redis-py would send it again after an error; here it is sent once, because what the first one
    popped would be lost.
    """

    def __init__(self, client: Any, target: C) -> None:
        self._target = target
        self._command: Callable[..., Any] = client.execute_command
        # A client of a cluster has none.
        self._pool: Any = getattr(client, "connection_pool", None)

    def _run(self, step: Operation[T] | Waiting[T] | Flow[T]) -> T:
        if not isinstance(step, (Operation, Waiting)):
            return self._follow(step)
        try:
            reply = self._wait(step) if isinstance(step, Waiting) else self._call(step)
        except ResponseError as error:
            raise_refusal(error)
        result: T = decoded(step.read, reply)
        return result

    def _call(self, operation: Operation[Any]) -> Any:
        try:
            return self._command(*operation.by_sha, **_RAW)
        except NoScriptError:
            return self._command(*operation.by_text, **_RAW)

    def _follow(self, flow: Flow[T]) -> T:
        result: Any = None
        try:
            while True:
                result = self._run(flow.send(result))
        except StopIteration as end:
            final: T = end.value
            return final

    def _wait(self, waiting: Waiting[Any]) -> Any:
        if self._pool is None:
            deadline, reply = Deadline(waiting.wait_s), None
            while reply is None and (slice_s := deadline.rest_s(_SLICE_S)):
                reply = self._command(*waiting.timed(slice_s), **_RAW)
            return reply
        connection = self._pool.get_connection()
        try:
            connection.send_command(*waiting.timed(waiting.wait_s))
            return connection.read_response(disable_decoding=True, timeout=_patience_s(waiting.wait_s, connection))
        finally:
            self._pool.release(connection)


async def _evaluate(command: Callable[..., Any], operation: Operation[Any]) -> Any:
    """Send an operation by the ``execute_command`` of an asyncio client, and return the reply as it came."""
    try:
        return await command(*operation.by_sha, **_RAW)
    except NoScriptError:
        return await command(*operation.by_text, **_RAW)


class AsyncCommandRunner(Generic[C]):
    """``CommandRunner`` for a ``redis.asyncio.Redis`` or ``RedisCluster``; cancelling a wait closes its connection."""

    def __init__(self, client: Any, target: C) -> None:
        self._target = target
        self._command: Callable[..., Any] = client.execute_command
        self._pool: Any = getattr(client, "connection_pool", None)

    async def _run(self, step: Operation[T] | Waiting[T] | Flow[T]) -> T:
        if not isinstance(step, (Operation, Waiting)):
            return await self._follow(step)
        try:
            reply = await (self._wait(step) if isinstance(step, Waiting) else _evaluate(self._command, step))
        except ResponseError as error:
            raise_refusal(error)
        result: T = decoded(step.read, reply)
        return result

    async def _follow(self, flow: Flow[T]) -> T:
        before, result = cancels(), None
        try:
            while True:
                result = await self._run(flow.send(result))
                # The cancellation was lost while a step was sent, as in ``_wait``.
                if cancels() > before:
                    raise asyncio.CancelledError
        except StopIteration as end:
            final: T = end.value
            return final

    async def _wait(self, waiting: Waiting[Any]) -> Any:
        if self._pool is None:
            deadline, reply = Deadline(waiting.wait_s), None
            while reply is None and (slice_s := deadline.rest_s(_SLICE_S)):
                reply = await self._command(*waiting.timed(slice_s), **_RAW)
            return reply
        # If a cancellation were lost while the command is sent, this would wait on, perhaps for ever.
        before = cancels()
        connection = await self._pool.get_connection()
        try:
            await connection.send_command(*waiting.timed(waiting.wait_s))
            await end_if_cancelled(connection, before)
            # A timeout of read_response would look like a reply, and leave the connection in use with one to come.
            async with asyncio.timeout(_patience_s(waiting.wait_s, connection)):
                return await connection.read_response(disable_decoding=True, timeout=inf)
        except TimeoutError as error:
            raise RedisTimeoutError(_LATE) from error
        finally:
            await self._pool.release(connection)


class Method(Generic[P, T]):
    """A method of both clients that runs an operation on the client's target: a coroutine of the asyncio client.

    It has the signature and the docstring of the function that returns the operation.
    """

    def __init__(self, operation: Callable[Concatenate[Any, P], Operation[T] | Waiting[T] | Flow[T]]) -> None:
        @wraps(operation)
        def run(client: CommandRunner[Any], /, *arguments: P.args, **keywords: P.kwargs) -> T:
            return client._run(operation(client._target, *arguments, **keywords))

        @wraps(operation)
        async def run_async(client: AsyncCommandRunner[Any], /, *arguments: P.args, **keywords: P.kwargs) -> T:
            return await client._run(operation(client._target, *arguments, **keywords))

        self._run, self._run_async = run, run_async

    @overload
    def __get__(self, client: None, owner: type[CommandRunner[Any]]) -> Callable[Concatenate[Any, P], T]: ...

    @overload
    def __get__(
        self, client: None, owner: type[AsyncCommandRunner[Any]]
    ) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: CommandRunner[Any], owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncCommandRunner[Any], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Callable[..., Any]:
        run: Any = self._run_async if issubclass(owner, AsyncCommandRunner) else self._run
        bound: Callable[..., Any] = run.__get__(client, owner)
        return bound
