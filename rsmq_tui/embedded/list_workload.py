"""The producer, the worker and the reaper of one list queue of the demo."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from itertools import islice
from random import Random
from typing import Any

from rsmq_tui.embedded.jobs import created
from rsmq_tui.embedded.list_backlog import Server, abandoned_of, items_of
from rsmq_tui.embedded.list_scenarios import Hands, ListScenario
from rsmq_tui.embedded.pacing import RETRY_S, Arrivals
from rsmq_tui.embedded.site import Site
from rsmq_tui.protocol import SERVER_ERRORS, AsyncListQueue, RsmqError

_BACKLOG_CHUNK = 500
# How long a hand waits at a time for an item to come.
_WAIT_S = 5.0
# What a reaper gives to an item that somebody took who died before the lease.
_GRACE_MS = 10_000
_ERRORS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)


class ListWorker:
    """Runs one scenario on its queue."""

    def __init__(self, site: Site, server: Server, queue: AsyncListQueue, scenario: ListScenario) -> None:
        self._site = site
        self._server = server
        self._queue = queue
        self._scenario = scenario
        self._backlog_rng, self._producer_rng, self._life_rng = (
            site.rng(scenario.queue, role) for role in ("backlog", "producer", "life")
        )

    def runs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Return what is to run until the site is closed."""
        yield self.produce()
        if self._scenario.worker is not None:
            yield self.work(self._scenario.worker)
        if self._scenario.reap_every_s is not None:
            yield self.reap(self._scenario.reap_every_s)

    async def produce(self) -> None:
        """Make the queue, with its backlog, and push to it until the site is closed."""
        while not self._site.is_closed:
            with suppress(*_ERRORS):
                await self._set_up()
                await self._push()
            await asyncio.sleep(RETRY_S)

    async def work(self, worker: Hands) -> None:
        """Let one worker after the other live and die until the site is closed."""
        rngs = [self._site.rng(self._scenario.queue, f"hand {number}") for number in range(worker.count)]
        while not self._site.is_closed:
            lives_s = None
            if worker.dies_after_s is not None:
                lives_s = self._life_rng.uniform(*worker.dies_after_s) / self._site.speed
            with suppress(TimeoutError):
                async with asyncio.timeout(lives_s) as life, asyncio.TaskGroup() as hands:
                    for rng in rngs:
                        hands.create_task(self._use_hand(worker, rng, life))
            await asyncio.sleep(worker.down_s / self._site.speed)

    async def reap(self, every_s: float) -> None:
        """Bring back what dead workers left, every so often, until the site is closed."""
        while not self._site.is_closed:
            await asyncio.sleep(every_s / self._site.speed)
            with suppress(*_ERRORS):
                await self._queue.reap(grace_ms=_GRACE_MS)

    async def _set_up(self) -> None:
        scenario, rng = self._scenario, self._backlog_rng
        if await self._server.begin(scenario.queue):
            now_ms = await self._server.now_ms()
            await self._server.abandon(self._queue, list(abandoned_of(scenario, rng, now_ms=now_ms)))
            items = items_of(scenario, rng, now_ms=now_ms)
            while (chunk := list(islice(items, _BACKLOG_CHUNK))) and not self._site.is_closed:
                await self._queue.push(*chunk)
        self._site.made(scenario.queue)

    async def _push(self) -> None:
        """Push items until the site is closed, or the server has lost everything."""
        scenario, rng = self._scenario, self._producer_rng
        arrivals = Arrivals(scenario.arrivals, scenario.bounds, self._site.speed, self._queue.length)
        while not self._site.is_closed:
            count = await arrivals.due()
            if not count:
                continue
            if not await self._server.has(scenario.queue):
                return
            now_ms = await self._server.now_ms()
            await self._queue.push(*(created(scenario.body(rng), now_ms) for _ in range(count)))

    async def _use_hand(self, worker: Hands, rng: Random, life: asyncio.Timeout) -> None:
        # As the site's end, the end of a life can be lost on a task that is sending.
        while not self._site.is_closed and not life.expired():
            try:
                await self._do_next(worker, rng)
            except _ERRORS:
                await asyncio.sleep(RETRY_S)

    async def _do_next(self, worker: Hands, rng: Random) -> None:
        """Wait for an item, work on it, and have done with it."""
        if worker.lease_ms is None:
            if await self._queue.pop_blocking(_WAIT_S) is not None:
                await self._do(worker, rng)
        elif (lease := await self._queue.take_blocking(_WAIT_S, worker.lease_ms)) is not None:
            await self._do(worker, rng)
            await self._queue.ack(lease)

    async def _do(self, worker: Hands, rng: Random) -> None:
        await asyncio.sleep(rng.uniform(*worker.work_s) / self._site.speed)
