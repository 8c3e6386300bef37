"""Runs read-only scripts and plain commands on a server."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import Any

from redis.asyncio.connection import ConnectionPool
from redis.exceptions import ClusterCrossSlotError, NoPermissionError, NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq_tui.protocol.connections.connect import Traffic, reader_of
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.replies import Command, decode_all, misshapen
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


async def exchange(pool: ConnectionPool, commands: Sequence[Command], arrived: Arrived | None = None) -> list[Any]:
    """Send plain commands in one round trip and decode the replies; a command's own error is its result.

    With ``arrived``, a reply may take any time while more of it arrives. Raises redis-py's errors, and
    ``InvalidResponse`` for a malformed reply, after which the connection is closed. A pipeline of redis-py would take
    twice as long.
    """
    if not commands:
        return []
    connection: Any = await pool.get_connection()  # type: ignore[no-untyped-call] # redis-py has not typed it
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
    """Runs read scripts on one server, and remembers when they were refused.

    ``refused`` is the server's reason, None until scripts were refused.
    """

    def __init__(self, pool: ConnectionPool, traffic: Traffic) -> None:
        self.pool = pool
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
            replies = await exchange(self.pool, [command], arrived)
            if not has_moved(replies):
                break
        raise_first(replies)
        return replies[0]

    async def _commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        self.traffic.commands += len(commands)
        return await exchange(self.pool, commands)

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
