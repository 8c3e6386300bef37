"""Running a workload in this process, and waiting for what it does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection

from rsmq_tui.cli.demo.scenarios import ListScenario, Scenario
from rsmq_tui.cli.demo.workload import run_workload
from rsmq_tui.protocol import connect_async
from tests.waiting import SECONDS_MAX, until


@asynccontextmanager
async def working(url: str, *scenarios: Scenario | ListScenario, **options: Any) -> AsyncIterator[None]:
    """Run scenarios once their backlogs are in place, as long as the block."""
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run_workload(url, stop=stop, scenarios=scenarios, on_ready=ready.set, **options))
    async with asyncio.timeout(SECONDS_MAX):
        await ready.wait()
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS_MAX):
            await task


def waiting_long(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let calls wait for their replies longer than the end of a workload may take; return what counts those that do."""
    patient = partial(connect_async, timeout_s=10 * SECONDS_MAX)
    monkeypatch.setattr("rsmq_tui.cli.demo.workload.connect_async", patient)
    read, waiting = AbstractConnection.read_response, set[object]()

    async def counting(connection: AbstractConnection, *given: Any, **options: Any) -> Any:
        waiting.add(call := object())
        try:
            return await read(connection, *given, **options)
        finally:
            waiting.remove(call)

    monkeypatch.setattr(AbstractConnection, "read_response", counting)
    return lambda: len(waiting)


async def highest_of_two_swings(read_depth: Callable[[], int]) -> int:
    """Wait until the depth has been at 200 and back at 60 twice; returns the highest that was seen."""
    depths = [0]

    def depth() -> int:
        depths.append(read_depth())
        return depths[-1]

    for _ in range(2):
        await until(lambda: depth() >= 200)
        await until(lambda: depth() <= 60)
    return max(depths)
