"""Auditing, and work that goes on meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import redis.asyncio

from rsmq_tui.monitor.audit.findings import Finding
from rsmq_tui.monitor.audit.rsmq import AuditProgress, audit
from rsmq_tui.protocol import AsyncRsmq, RsmqReader
from tests.monitor.halves import Work


async def progress_of(reader: RsmqReader, queues: list[str] | None = None) -> list[AuditProgress]:
    return [progress async for progress in audit(reader, queues)]


async def found(reader: RsmqReader, queues: list[str] | None = None) -> list[Finding]:
    return [finding for progress in await progress_of(reader, queues) for finding in progress.findings]


@asynccontextmanager
async def working(url: str, *works: Work) -> AsyncIterator[None]:
    """Do these things over and over, each over a connection of its own."""
    stop = asyncio.Event()

    async def run(work: Work) -> None:
        async with redis.asyncio.Redis.from_url(url) as client:
            while not stop.is_set():
                await work(client, AsyncRsmq(client))

    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(run(work))
        try:
            yield
        finally:
            stop.set()
