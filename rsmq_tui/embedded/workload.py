"""The demo's producers and consumers: runs scenarios against a server until it is told to stop.

``python -m rsmq_tui.embedded.workload URL`` runs them in a process of their own, which writes ``ready`` to its standard
output once every backlog is in place, and ends when its standard input does.
"""

import argparse
import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from rsmq_tui.embedded.backlog import Counters, messages_of
from rsmq_tui.embedded.list_backlog import Server
from rsmq_tui.embedded.list_scenarios import LIST_SCENARIOS, ListScenario
from rsmq_tui.embedded.list_workload import ListWorker
from rsmq_tui.embedded.pacing import RETRY_S, Arrivals, Ticks
from rsmq_tui.embedded.scenarios import SCENARIOS, Consumer, Scenario
from rsmq_tui.embedded.site import Site
from rsmq_tui.protocol import SERVER_ERRORS, AsyncListQueue, AsyncRsmq, RsmqError, connect_async, name_bytes

# The lists' small backlogs come first, so that the queues of RSMQ need not wait for those who made them.
DEMO: tuple[Scenario | ListScenario, ...] = (*LIST_SCENARIOS, *SCENARIOS)

_BACKLOG_CHUNK = 500
_LAST_RESORT_S = 2.0


async def run_workload(
    url: str,
    *,
    ns: str = "rsmq",
    seed: int = 7,
    speed: float = 1.0,
    stop: asyncio.Event,
    scenarios: Sequence[Scenario | ListScenario] = DEMO,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Fill and drain the queues of the scenarios until ``stop`` is set.

    A queue that exists already keeps its messages and gets no backlog. ``speed`` multiplies the rates and divides the
    working times. ``on_ready`` is called once every backlog is in place. While the server is away it keeps trying. A
    queue that somebody deletes stays deleted, but a server that has lost them all gets them again; a list that somebody
    deletes is there again with the next item, as lists are. Raises ``ValueError`` for a URL that cannot be one.
    """
    waiting = {scenario.queue for scenario in scenarios}
    site = Site(seed, speed, waiting, on_ready)
    async with connect_async(url) as client, asyncio.TaskGroup() as group:
        rsmq = _Rsmq(AsyncRsmq(client, ns), Counters(client.execute_command, ns))
        server = Server(client.execute_command)
        workers = [
            ListWorker(site, server, AsyncListQueue(client, name_bytes(scenario.queue)), scenario)
            if isinstance(scenario, ListScenario)
            else _Worker(site, rsmq, scenario)
            for scenario in scenarios
        ]
        runs = [group.create_task(run) for worker in workers for run in worker.runs()]
        try:
            await stop.wait()
        finally:
            site.is_closed = True
            for run in runs:
                run.cancel()


@dataclass(slots=True)
class _Rsmq:
    """The queues of one namespace; ``generation`` counts how often they had to be made."""

    queues: AsyncRsmq
    counters: Counters
    generation: int = 1


class _Worker:
    """The producer and the consumer of one scenario."""

    def __init__(self, site: Site, rsmq: _Rsmq, scenario: Scenario) -> None:
        self._site = site
        self._rsmq = rsmq
        self._queues = rsmq.queues
        self._queue = scenario.queue
        self._scenario = scenario
        self._generation = 0
        self._backlog_rng, self._producer_rng, self._consumer_rng = (
            site.rng(scenario.queue, role) for role in ("backlog", "producer", "consumer")
        )

    def runs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Return what is to run until the site is closed."""
        yield self.produce()
        if self._scenario.consumer is not None:
            yield self.consume(self._scenario.consumer)

    async def produce(self) -> None:
        """Make the queue, with its backlog, and send to it until the site is closed."""
        while not self._site.is_closed:
            with suppress(*SERVER_ERRORS):
                try:
                    if self._generation < self._rsmq.generation:
                        await self._set_up()
                    await self._send()
                except RsmqError:
                    # Somebody deleted the queue, which no producer would undo, or the server came back empty.
                    if self._generation == self._rsmq.generation and not await self._queues.list_queues():
                        self._rsmq.generation += 1
            await asyncio.sleep(RETRY_S)

    async def consume(self, consumer: Consumer) -> None:
        """Receive from the queue, while it is there, until the site is closed."""
        while not self._site.is_closed:
            with suppress(RsmqError, *SERVER_ERRORS):
                await self._receive(consumer)
            await asyncio.sleep(RETRY_S)

    async def _set_up(self) -> None:
        try:
            await self._queues.create_queue(self._queue, vt=self._scenario.vt_s)
        except RsmqError as error:
            if error.code != "queueExists":
                raise
        else:
            await self._restore_backlog()
        self._generation = self._rsmq.generation
        self._site.made(self._queue)

    async def _restore_backlog(self) -> None:
        attributes = await self._queues.get_queue_attributes(self._queue)
        # The second in which the server made the queue is the server's time, which ages are counted from.
        now_ms = (attributes.created or 0) * 1000
        messages = messages_of(self._scenario, self._backlog_rng, now_ms=now_ms)
        while (chunk := list(islice(messages, _BACKLOG_CHUNK))) and not self._site.is_closed:
            await self._queues.restore_messages(self._queue, chunk)
            await self._rsmq.counters.count(self._queue, chunk)

    async def _send(self) -> None:
        scenario, rng = self._scenario, self._producer_rng
        arrivals = Arrivals(scenario.arrivals, scenario.bounds, self._site.speed, self._depth)
        while not self._site.is_closed:
            count = await arrivals.due()
            if not count:
                continue
            bodies = [scenario.body(rng) for _ in range(count)]
            if scenario.delay_s is None:
                await self._queues.send_messages(self._queue, bodies)
            else:
                for body in bodies:
                    await self._queues.send_message(self._queue, body, delay=rng.randint(*scenario.delay_s))

    async def _depth(self) -> int:
        return (await self._queues.get_queue_attributes(self._queue)).msgs

    async def _receive(self, consumer: Consumer) -> None:
        rng, ticks = self._consumer_rng, Ticks()
        in_work: list[tuple[float, str]] = []
        owed = 0.0
        while not self._site.is_closed:
            passed_s = await ticks.wait()
            gained = consumer.pace.rate(ticks.at_s * self._site.speed) * self._site.speed * passed_s
            # Time spent idle does not make a consumer faster afterwards.
            owed = min(owed, 1.0) + gained
            count = int(owed)
            if count:
                owed -= count
                for message in await self._queues.receive_messages(self._queue, count):
                    crashed = consumer.can_read is not None and not consumer.can_read(message.body)
                    if not crashed and rng.random() >= consumer.fails:
                        heappush(in_work, (ticks.at_s + rng.uniform(*consumer.work_s) / self._site.speed, message.id))
            done: list[str] = []
            while in_work and in_work[0][0] <= ticks.at_s:
                done.append(heappop(in_work)[1])
            if done:
                await self._queues.delete_messages(self._queue, done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the workload until standard input ends; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rsmq_tui.embedded.workload", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--ns", default="rsmq")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--speed", type=float, default=1.0)
    options = parser.parse_args(arguments)
    with suppress(KeyboardInterrupt):
        asyncio.run(_run_until_stdin_ends(options))
    return 0


async def _run_until_stdin_ends(options: argparse.Namespace) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def watch() -> None:
        while os.read(0, 1024):
            pass
        # Either the loop ends now, or it has ended already.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        time.sleep(_LAST_RESORT_S)
        os._exit(1)

    # A thread rather than the loop's pipe reader, which Windows and a stdin that is a file do not have.
    threading.Thread(target=watch, daemon=True).start()
    await run_workload(
        options.url, ns=options.ns, seed=options.seed, speed=options.speed, stop=stop, on_ready=_say_ready
    )


def _say_ready() -> None:
    # Nobody may be listening any more, which is no reason to stop.
    with suppress(BrokenPipeError):
        os.write(1, b"ready\n")


if __name__ == "__main__":
    raise SystemExit(main())
