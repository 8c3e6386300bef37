"""Running scripts that only read, on servers that may not allow scripts at all."""

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ClusterCrossSlotError, NoPermissionError, NoScriptError, ResponseError

from rsmq_tui.protocol.connection import Traffic
from rsmq_tui.protocol.scripts import Script

Call = tuple[Sequence[bytes], Sequence[bytes | str | int]]


class ScriptsRefusedError(Exception):
    """The server, a proxy or the user's permissions do not allow the script; read by plain commands instead."""


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

    async def run_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run the script once for each call, all in one round trip; raises ``ScriptsRefusedError``."""
        if self.refused:
            raise ScriptsRefusedError(self.refused)
        try:
            try:
                return await self._send(script, calls, teach=False)
            except NoScriptError:
                return await self._send(script, calls, teach=True)
        except (NoPermissionError, ClusterCrossSlotError) as error:
            raise self._refuse(error) from error
        except ResponseError as error:
            if "unknown command" not in str(error).lower():
                raise
            raise self._refuse(error) from error

    async def commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send plain commands in one round trip; a command's own error is its result, not an exception."""
        self.traffic.commands += len(commands)
        async with self.client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute(raise_on_error=False)

    async def _send(self, script: Script, calls: Sequence[Call], *, teach: bool) -> list[Any]:
        self.traffic.commands += len(calls)
        async with self.client.pipeline(transaction=False) as pipeline:
            for number, (keys, arguments) in enumerate(calls):
                # The first EVAL of a round trip teaches the server the script that the others name.
                named = ("EVAL", script.text) if teach and number == 0 else ("EVALSHA", script.sha)
                pipeline.execute_command(*named, len(keys), *keys, *arguments)
            # Raised here and not by the pipeline, which would wrap the server's words in its own.
            replies = await pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _refuse(self, error: Exception) -> ScriptsRefusedError:
        self.refused = " ".join(str(error).split()) or type(error).__name__
        return ScriptsRefusedError(self.refused)
