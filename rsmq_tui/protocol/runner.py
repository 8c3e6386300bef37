"""Running operations on redis-py's clients: what the clients of both kinds of queue share."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError, ResponseError

from rsmq_tui.protocol.operations import Operation, raise_refusal

T = TypeVar("T")

# Bodies are bytes even for a client that was made with decode_responses=True.
RAW: dict[str, Any] = {NEVER_DECODE: True}


class Runner:
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


class AsyncRunner:
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
