"""An exporter from its first poll to its end: polls on the event loop, requests in threads."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rsmq_tui.exporter.serving import Answers, MetricsServer, UnavailableError
from rsmq_tui.exporter.watching import Reading, Watches


@asynccontextmanager
async def serving(server: MetricsServer, watches: Watches) -> AsyncIterator[None]:
    """Poll, and serve what is found, for the length of the block; a request under way at its end is still answered."""
    loop = asyncio.get_running_loop()

    def scrape(limit_s: float | None) -> tuple[Reading, ...]:
        coming = watches.scrape(limit_s)
        try:
            answer = asyncio.run_coroutine_threadsafe(coming, loop)
        except RuntimeError as error:
            # The loop is closed.
            coming.close()
            raise UnavailableError from error
        try:
            return answer.result()
        except concurrent.futures.CancelledError as error:
            raise UnavailableError from error

    async with asyncio.TaskGroup() as group:
        polling = group.create_task(watches.run())
        server.start(Answers(scrape, watches.failed))
        try:
            yield
        finally:
            await asyncio.to_thread(server.stop, watches.patience_s)
            polling.cancel()
