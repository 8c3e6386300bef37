"""What a connection keeps in memory of those who use it."""

import asyncio
import gc
import weakref
from contextvars import ContextVar

from rsmq_tui.protocol import Address, connect_async


class _Screen:
    """Stands for what a Textual app has in the context of each of its tasks."""


_screen: ContextVar[_Screen] = ContextVar("_screen")
# A stream with asyncio's own limit would pause for it, and resume.
_LONG_BYTES = 3_000_000
_TIMEOUT_S, _PATIENCE_S = 1.0, 20.0


async def keeps_nothing(server: Address | str) -> None:
    """Check that an open connection keeps nothing of the tasks that opened it, wrote to it and read from it."""
    async with connect_async(server, timeout_s=_TIMEOUT_S) as aclient:

        async def use(*command: str | bytes) -> "weakref.ref[_Screen]":
            screen = _Screen()
            _screen.set(screen)
            await aclient.execute_command(*command)
            return weakref.ref(screen)

        for command in (("PING",), ("SET", "long", b"x" * _LONG_BYTES), ("GET", "long")):
            screen = await asyncio.create_task(use(*command))
            async with asyncio.timeout(_PATIENCE_S):
                # The timers of the timeouts have it until then.
                while screen() is not None:
                    await asyncio.sleep(_TIMEOUT_S / 2)
                    gc.collect()
        assert len(await aclient.client_list()) == 1
