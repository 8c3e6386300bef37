"""Waiting for what threads, processes and servers bring about, which have no event that a test could await."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from inspect import isawaitable

import redis

SECONDS_MAX = 100.0
_EVERY_S = 0.005


def wait_until(holds: Callable[[], object], what: str = "the condition holds") -> None:
    """Wait for a condition; errors of the network count as not yet."""
    deadline_s = time.monotonic() + SECONDS_MAX
    while True:
        with suppress(redis.RedisError, OSError):
            if holds():
                return
        assert time.monotonic() < deadline_s, f"never: {what}"
        time.sleep(_EVERY_S)


async def until(holds: Callable[[], object], what: str = "the condition holds") -> None:
    """Wait for a condition, which may have to be awaited itself."""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            while not (await found if isawaitable(found := holds()) else found):  # noqa: ASYNC110
                await asyncio.sleep(_EVERY_S)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None
