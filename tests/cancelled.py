"""Cancelling work at every moment of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tests.waiting import SECONDS_MAX

# A command is written and answered within so many turns of the loop; a connection takes a few more.
TURNS = 60
ROUNDS = 3

Work = Callable[[int], Awaitable[Any]]


async def cancelled_at_each_turn(
    work: Work, *, turns: int = TURNS, rounds: int = ROUNDS, before: Callable[[], Awaitable[Any]] | None = None
) -> int:
    """Cancel the work after no, one, two, … turns of the loop, and check that only the cancellation ends it.

    Each time, what ``before`` does is done first, and is not cancelled. Return how often the work was still under way.
    """
    under_way = 0
    for number in range(turns * rounds):
        if before is not None:
            await before()
        task = asyncio.ensure_future(work(number))
        for _ in range(number % turns):
            await asyncio.sleep(0)
        under_way += await _ended(task, f"turn {number % turns}")
    return under_way


async def cancelled_at_random(work: Work, *, times: int, within_s: float, seed: int) -> int:
    """Cancel the work so many times, each at a random moment, as ``cancelled_at_each_turn``."""
    moments = random.Random(seed)
    under_way = 0
    for number in range(times):
        task = asyncio.ensure_future(work(number))
        after_s = moments.uniform(0, within_s)
        await asyncio.sleep(after_s)
        under_way += await _ended(task, f"{after_s * 1000:.3f} ms")
    return under_way


async def _ended(task: "asyncio.Future[Any]", when: str) -> bool:
    if not task.cancel():
        task.result()
        return False
    await asyncio.wait((task,), timeout=SECONDS_MAX)
    assert task.cancelled(), f"not ended by a cancel at {when}: {task}"
    return True
