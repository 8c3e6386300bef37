"""Running scripts that only read, on servers that may not allow scripts at all."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import ClusterCrossSlotError, InvalidResponse, NoPermissionError, NoScriptError, ResponseError

from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.failures import SERVER_ERRORS
from rsmq_tui.protocol.metering import Traffic
from rsmq_tui.protocol.routes import has_moved
from rsmq_tui.protocol.scripts import Script

Call = tuple[Sequence[bytes], Sequence[bytes | str | int]]
Exchange = Callable[..., Awaitable[list[Any]]]
P = ParamSpec("P")
T = TypeVar("T")

# A question is out after three or four turns of the loop; a connection that is yet to be made takes longer than these.
_TURNS_TO_SEND = 20
_NONSENSE = "what answers there does not speak as Redis does"
# What reading a reply raises that is of another shape than the one asked for.
_SHAPE_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class ScriptsRefusedError(Exception):
    """The server, a proxy or the user's permissions do not allow the script; read by plain commands instead."""


def raise_first(replies: Iterable[Any]) -> None:
    """Raise the first error among replies, ``wrongType`` where a key is something else."""
    for reply in replies:
        if isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply):
            raise rsmq_error("wrongType") from reply
        if isinstance(reply, Exception):
            raise reply


def raising_nonsense(read: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a reader of replies raise redis-py's ``InvalidResponse`` for one that it cannot read."""

    @wraps(read)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await read(*args, **kwargs)
        except _SHAPE_ERRORS as error:
            raise InvalidResponse(_NONSENSE) from error

    return guarded


class ScriptRunner:
    """Runs read scripts on one client, and remembers when they were refused.

    ``refused`` holds the server's reason once that has happened, None until then.
    """

    def __init__(self, client: Redis, traffic: Traffic) -> None:
        self.client = client
        self.traffic = traffic
        self.refused: str | None = None

    async def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[bytes | str | int]) -> Any:
        """Run the script once and return its reply; raises ``ScriptsRefusedError``."""
        return (await self.run_many(script, ((keys, arguments),)))[0]

    async def run_many(self, script: Script, calls: Sequence[Call], over: Exchange | None = None) -> list[Any]:
        """Run the script once for each call, all in one round trip; raises ``ScriptsRefusedError``.

        ``over`` is what sends commands as ``commands`` does, on another connection than the client's own.
        """
        if self.refused:
            raise ScriptsRefusedError(self.refused)
        exchange = over or self.commands
        try:
            try:
                return await self._send(exchange, script, calls, teach=False)
            except NoScriptError:
                return await self._send(exchange, script, calls, teach=True)
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

    async def _commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        self.traffic.commands += len(commands)
        async with self.client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await self._execute(pipeline)

    async def _execute(self, pipeline: Pipeline) -> list[Any]:
        try:
            return await pipeline.execute(raise_on_error=False)
        except SERVER_ERRORS:
            raise
        except _SHAPE_ERRORS as error:
            # redis-py stops at the first reply that it cannot read: nobody may be given the rest for his own.
            await self.client.connection_pool.disconnect()
            raise InvalidResponse(_NONSENSE) from error

    async def _send(self, exchange: Exchange, script: Script, calls: Sequence[Call], *, teach: bool) -> list[Any]:
        commands: list[Sequence[bytes | str | int]] = []
        for number, (keys, values) in enumerate(calls):
            # The first EVAL of a round trip teaches the server the script that the others name.
            named = ("EVAL", script.text) if teach and number == 0 else ("EVALSHA", script.sha)
            commands.append((*named, len(keys), *keys, *values))
        replies = await exchange(*commands)
        # Raised here and not by a pipeline, which would wrap the server's words in its own.
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _refuse(self, error: Exception) -> ScriptsRefusedError:
        # Without the arguments that a server repeats of a command which it does not know.
        words = str(error).split(", with args beginning with", 1)[0]
        self.refused = " ".join(words.split()) or type(error).__name__
        return ScriptsRefusedError(self.refused)
