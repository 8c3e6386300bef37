"""Ending work that is asked to end: redis-py swallows a cancel while it makes a connection."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_AGAIN_S = 0.05


async def ended_by_cancel(work: Coroutine[Any, Any, T]) -> T:
    """Do some work and return its result; when this is cancelled, the work is cancelled until it has ended."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        while not task.done():
            task.cancel()
            # To be cancelled once more while waiting is nothing new.
            with suppress(asyncio.CancelledError):
                await asyncio.wait((task,), timeout=_AGAIN_S)
        if not task.cancelled():
            # What it died of is of no interest any more; unasked for, asyncio would tell of it.
            task.exception()
        raise
    return task.result()
