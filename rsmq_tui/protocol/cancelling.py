"""Connections that a cancel always ends: asyncio's ``wait_for``, in which redis-py writes, may lose one on Python 3.11.

There a cancel that comes when the write is done, and the waiting task has not yet gone on, is dropped without a word:
the task would go on as if nobody had cancelled it, and count as one that is asked to end for as long as it lives.
"""

import asyncio
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError


def cancellable(base: type[Any]) -> type[Any]:
    """Make an asyncio connection class in which no cancel is lost; a connection that is cancelled is closed."""

    class Cancellable(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            before = cancels()
            try:
                await super().connect_check_health(check_health, retry_socket_connect)
            except Exception as error:
                await end_if_cancelled(self, before, error)
                raise
            await end_if_cancelled(self, before)

        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            before = cancels()
            try:
                await super().send_packed_command(command, check_health=check_health)
            except Exception as error:
                await end_if_cancelled(self, before, error)
                if isinstance(error, AttributeError) and not self.is_connected:
                    # redis-py writes in a task of its own, which does not look whether somebody closed the connection.
                    raise RedisConnectionError("the connection was closed") from error
                raise
            await end_if_cancelled(self, before)

    return Cancellable


def cancels() -> int:
    """Return how many cancels of the running task are still to be answered."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def end_if_cancelled(connection: Any, before: int, error: Exception | None = None) -> None:
    """Raise the ``CancelledError`` that was lost, if there are more cancels than before."""
    if cancels() > before:
        # The command may be on its way: its reply is nobody's.
        await connection.disconnect(nowait=True)
        raise asyncio.CancelledError from error
