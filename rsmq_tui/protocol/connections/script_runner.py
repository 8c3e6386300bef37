"""Running operations and read-only scripts on redis-py's clients."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from redis.asyncio import Redis as AsyncRedis
from redis.client import NEVER_DECODE
from redis.exceptions import ClusterCrossSlotError, NoPermissionError, NoScriptError, ResponseError

from rsmq_tui.protocol.connections.connect import Traffic
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.replies import Command, decode_all, misshapen
from rsmq_tui.protocol.rsmq.operations import Operation, raise_refusal
from rsmq_tui.protocol.rsmq.scripts import Script

Call = tuple[Sequence[bytes], Sequence[bytes | str | int]]
ScriptCall = tuple[Script, Sequence[bytes], Sequence[bytes | str | int]]
Exchange = Callable[..., Awaitable[list[Any]]]

# A question is out after three or four turns of the loop; a connection that is yet to be made takes longer than these.
_TURNS_TO_SEND = 20


class ScriptsRefusedError(Exception):
    """The server, a proxy or the user's permissions do not allow the script; read by plain commands instead."""


def raise_first(replies: Iterable[Any]) -> None:
    """Raise the first error among replies, ``wrongType`` where a key is something else."""
    for reply in replies:
        if isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply):
            raise rsmq_error("wrongType") from reply
        if isinstance(reply, Exception):
            raise reply


async def exchange(client: AsyncRedis, commands: Sequence[Command]) -> list[Any]:
    """Send plain commands in one round trip and decode the replies; a command's own error is its result.

    Raises redis-py's errors, ``InvalidResponse`` for a reply that is none: then its connection is not used again. Done
    on a connection and not by a pipeline of redis-py, which takes as long again.
    """
    if not commands:
        return []
    pool: Any = client.connection_pool
    connection = await pool.get_connection()
    try:
        await connection.send_packed_command(connection.pack_commands(commands))
        return decode_all(commands, [await read_reply(connection) for _ in commands])
    except BaseException:
        # Replies may be left on it that nobody waits for.
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)


async def read_reply(connection: Any) -> Any:
    """Read the next reply on a connection; an error reply is a result."""
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


class ScriptRunner:
    """Runs read scripts on one client, and remembers when they were refused.

    ``refused`` holds the server's reason once that has happened, None until then.
    """

    def __init__(self, client: AsyncRedis, traffic: Traffic) -> None:
        self.client = client
        self.traffic = traffic
        self.refused: str | None = None

    async def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[bytes | str | int]) -> Any:
        """Run the script once and return its reply; raises ``ScriptsRefusedError``, and ``wrongType`` as its error."""
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

        ``over`` is what sends commands as ``commands`` does, on another connection than the client's own.
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
            # Of the scripts, not of the AUTH that opened the connection.
            if not re.search(r"unknown command\W+EVAL", str(error), re.IGNORECASE):
                raise
            raise self._refuse(error) from error

    async def until_sent(self, task: asyncio.Task[Any]) -> None:
        """Let a task that asks this server go on until its question is out, so that both sides work at once."""
        sent = self.traffic.bytes_sent
        for _ in range(_TURNS_TO_SEND):
            if task.done() or self.traffic.bytes_sent != sent:
                break
            await asyncio.sleep(0)
        # redis-py writes in a task of its own, which begins in the next turn.
        await asyncio.sleep(0)

    async def commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send plain commands in one round trip; a command's own error is its result, not an exception.

        A cluster that has moved the keys is followed once.
        """
        replies = await self._commands(*commands)
        return await self._commands(*commands) if has_moved(replies) else replies

    async def ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send plain commands in one round trip; raises the first error among the replies, ``wrongType`` as such."""
        replies = await self.commands(*commands)
        raise_first(replies)
        return replies

    async def _commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        self.traffic.commands += len(commands)
        return await exchange(self.client, commands)

    async def _send(self, send: Exchange, calls: Sequence[ScriptCall], *, teach: bool) -> list[Any]:
        commands: list[Sequence[bytes | str | int]] = []
        taught: set[str] = set()
        for script, keys, values in calls:
            # The first EVAL of a script teaches the server what the others name.
            is_taught = not teach or script.sha in taught
            named = ("EVALSHA", script.sha) if is_taught else ("EVAL", script.text)
            taught.add(script.sha)
            commands.append((*named, len(keys), *keys, *values))
        replies = await send(*commands)
        # Raised here and not by a pipeline, which would wrap the server's words in its own.
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

# Bodies are bytes even for a client that was made with decode_responses=True.
RAW: dict[str, Any] = {NEVER_DECODE: True}


class CommandRunner:
    """Runs operations on a ``redis.Redis`` or ``redis.RedisCluster``, each in one round trip."""

    def __init__(self, client: Any) -> None:
        self._command: Callable[..., Any] = client.execute_command

    def _run(self, operation: Operation[T]) -> T:
        try:
            try:
                reply = self._command(*operation.by_sha, **RAW)
            except NoScriptError:
                reply = self._command(*operation.by_text, **RAW)
        except ResponseError as error:
            raise_refusal(error)
        return operation.decode(reply)

    def _run_all(self, chunks: Iterable[Operation[list[T]]]) -> list[T]:
        return [result for chunk in chunks for result in self._run(chunk)]


class AsyncCommandRunner:
    """``Runner`` for a ``redis.asyncio.Redis`` or ``RedisCluster``."""

    def __init__(self, client: Any) -> None:
        self._command: Callable[..., Any] = client.execute_command

    async def _run(self, operation: Operation[T]) -> T:
        try:
            try:
                reply = await self._command(*operation.by_sha, **RAW)
            except NoScriptError:
                reply = await self._command(*operation.by_text, **RAW)
        except ResponseError as error:
            raise_refusal(error)
        return operation.decode(reply)

    async def _run_all(self, chunks: Iterable[Operation[list[T]]]) -> list[T]:
        return [result for chunk in chunks for result in await self._run(chunk)]
