"""Runs operations and read-only scripts on redis-py's clients."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from math import inf
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from redis.asyncio import Redis as AsyncRedis
from redis.client import NEVER_DECODE
from redis.exceptions import ClusterCrossSlotError, NoPermissionError, NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq_tui.protocol.connections.connect import Traffic, cancels, end_if_cancelled, reader_of
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.replies import Command, decode_all, decoded, misshapen
from rsmq_tui.protocol.rsmq.operations import Flow, Operation, Waiting, raise_refusal
from rsmq_tui.protocol.rsmq.scripts import Script

Call = tuple[Sequence[bytes], Sequence[bytes | str | int]]
ScriptCall = tuple[Script, Sequence[bytes], Sequence[bytes | str | int]]
Exchange = Callable[..., Awaitable[list[Any]]]

# A request is sent after three or four turns of the event loop; only a new connection takes longer than this.
_TURNS_TO_SEND = 20


class ScriptsRefusedError(Exception):
    """The server, a proxy or the user's permissions do not allow the script; use plain commands instead."""


def raise_first(replies: Iterable[Any]) -> None:
    """Raise the first error among replies: WRONGTYPE as ``RsmqError`` (``wrongType``), others as they are."""
    for reply in replies:
        if isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply):
            raise rsmq_error("wrongType") from reply
        if isinstance(reply, Exception):
            raise reply


# Called several times a second with the bytes of a long reply that have arrived.
Arrived = Callable[[int], None]
_ARRIVED_S = 0.2


async def exchange(client: AsyncRedis, commands: Sequence[Command], arrived: Arrived | None = None) -> list[Any]:
    """Send plain commands in one round trip and decode the replies; a command's own error is its result.

    With ``arrived``, a reply may take any time while more of it arrives. Raises redis-py's errors, and
    ``InvalidResponse`` for a malformed reply, after which the connection is closed. A pipeline of redis-py would take
    twice as long.
    """
    if not commands:
        return []
    pool: Any = client.connection_pool
    connection = await pool.get_connection()
    try:
        await connection.send_packed_command(connection.pack_commands(commands))
        return decode_all(commands, [await read_reply(connection, arrived) for _ in commands])
    except BaseException:
        # It may still have unread replies.
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)


async def read_reply(connection: Any, arrived: Arrived | None = None) -> Any:
    """Read the next reply on a connection; an error reply is a result."""
    try:
        return await (connection.read_response() if arrived is None else _read_long(connection, arrived))
    except ResponseError as error:
        return error


async def _read_long(connection: Any, arrived: Arrived) -> Any:
    """Read a reply for as long as more of it arrives within the socket timeout; else raise ``RedisTimeoutError``."""
    reading = asyncio.ensure_future(connection.read_response(timeout=inf))
    before, since_s = 0, time.monotonic()
    try:
        while not (await asyncio.wait((reading,), timeout=_ARRIVED_S))[0]:
            now, now_s = reader_of(connection).arrived, time.monotonic()
            if now > before:
                before, since_s = now, now_s
                arrived(now)
            elif now_s - since_s > (connection.socket_timeout or inf):
                raise RedisTimeoutError("Timeout reading from socket")
        return reading.result()
    finally:
        reading.cancel()


class ScriptRunner:
    """Runs read scripts on one client, and remembers when they were refused.

    ``refused`` is the server's reason, None until scripts were refused.
    """

    def __init__(self, client: AsyncRedis, traffic: Traffic) -> None:
        self.client = client
        self.traffic = traffic
        self.refused: str | None = None

    async def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[bytes | str | int]) -> Any:
        """Run the script once and return its reply; raises ``ScriptsRefusedError`` or ``wrongType``."""
        try:
            return (await self.run_all(((script, keys, arguments),)))[0]
        except ResponseError as error:
            raise_first((error,))
            raise

    async def run_many(self, script: Script, calls: Sequence[Call], over: Exchange | None = None) -> list[Any]:
        """Run the script once for each call, all in one round trip, as ``run_all``."""
        return await self.run_all([(script, keys, arguments) for keys, arguments in calls], over)

    async def run_all(self, calls: Sequence[ScriptCall], over: Exchange | None = None) -> list[Any]:
        """Run several scripts in one round trip; raises ``ScriptsRefusedError``.

        ``over`` sends the commands in place of ``commands``, on another connection.
        """
        if self.refused:
            raise ScriptsRefusedError(self.refused)
        send = over or self.commands
        try:
            try:
                return await self._send(send, calls, teach=False)
            except NoScriptError:
                return await self._send(send, calls, teach=True)
        except (NoPermissionError, ClusterCrossSlotError) as error:
            raise self._refuse(error) from error
        except ResponseError as error:
            # An error about EVAL, not about the AUTH that opened the connection.
            if not re.search(r"unknown command\W+EVAL", str(error), re.IGNORECASE):
                raise
            raise self._refuse(error) from error

    async def until_sent(self, task: asyncio.Task[Any]) -> None:
        """Run the event loop until a task has sent its request, so that the server works in parallel."""
        sent = self.traffic.bytes_sent
        for _ in range(_TURNS_TO_SEND):
            if task.done() or self.traffic.bytes_sent != sent:
                break
            await asyncio.sleep(0)
        # redis-py writes in a task of its own, which starts in the next turn.
        await asyncio.sleep(0)

    async def commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send plain commands in one round trip; a command's own error is its result, not an exception.

        If a cluster has moved the keys, the commands are sent once more.
        """
        replies = await self._commands(*commands)
        return await self._commands(*commands) if has_moved(replies) else replies

    async def ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send plain commands in one round trip; raises the first error, as ``raise_first``."""
        replies = await self.commands(*commands)
        raise_first(replies)
        return replies

    async def ask_long(self, arrived: Arrived, command: Sequence[bytes | str | int]) -> Any:
        """As ``ask``, for one long reply, which may take any time while more of it arrives."""
        for _ in range(2):
            self.traffic.commands += 1
            replies = await exchange(self.client, [command], arrived)
            if not has_moved(replies):
                break
        raise_first(replies)
        return replies[0]

    async def _commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        self.traffic.commands += len(commands)
        return await exchange(self.client, commands)

    async def _send(self, send: Exchange, calls: Sequence[ScriptCall], *, teach: bool) -> list[Any]:
        commands: list[Sequence[bytes | str | int]] = []
        taught: set[str] = set()
        for script, keys, values in calls:
            # The first EVAL loads a script; further calls name it by its SHA1.
            is_taught = not teach or script.sha in taught
            named = ("EVALSHA", script.sha) if is_taught else ("EVAL", script.text)
            taught.add(script.sha)
            commands.append((*named, len(keys), *keys, *values))
        replies = await send(*commands)
        # A pipeline of redis-py would change the server's message.
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        for (script, keys, values), reply in zip(calls, replies, strict=True):
            if not script.reply(keys, values)(reply):
                raise misshapen("in reply to a script")
        return replies

    def _refuse(self, error: Exception) -> ScriptsRefusedError:
        self.refused = " ".join(str(error).split()) or type(error).__name__
        return ScriptsRefusedError(self.refused)


T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")

# Bodies are bytes even for a client that was made with decode_responses=True.
RAW: dict[str, Any] = {NEVER_DECODE: True}

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
            return self._command(*operation.by_sha, **RAW)
        except NoScriptError:
            return self._command(*operation.by_text, **RAW)

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
                reply = self._command(*waiting.timed(slice_s), **RAW)
            return reply
        connection = self._pool.get_connection()
        try:
            connection.send_command(*waiting.timed(waiting.wait_s))
            return connection.read_response(disable_decoding=True, timeout=_patience_s(waiting.wait_s, connection))
        finally:
            self._pool.release(connection)


async def evaluate(command: Callable[..., Any], operation: Operation[Any]) -> Any:
    """Send an operation by the ``execute_command`` of an asyncio client, and return the reply as it came."""
    try:
        return await command(*operation.by_sha, **RAW)
    except NoScriptError:
        return await command(*operation.by_text, **RAW)


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
            reply = await (self._wait(step) if isinstance(step, Waiting) else evaluate(self._command, step))
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
                reply = await self._command(*waiting.timed(slice_s), **RAW)
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
