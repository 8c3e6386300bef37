"""The demo's producers and consumers: they run the scenarios against a server until stopped."""

import argparse
import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from random import Random
from typing import Any

from rsmq_tui.embedded.scenarios import (
    LIST_SCENARIOS,
    RETRY_S,
    SCENARIOS,
    Arrivals,
    Backlog,
    Consumer,
    Hands,
    ListScenario,
    Scenario,
    Ticks,
    created,
)
from rsmq_tui.protocol import (
    SERVER_ERRORS,
    AsyncListQueue,
    AsyncRsmq,
    Lease,
    RsmqError,
    StoredMessage,
    connect_async,
    make_id,
    name_bytes,
)
from rsmq_tui.protocol.keys import Keys, random_suffix


@dataclass(slots=True)
class WorkloadContext:
    """Where a workload works: its seed and speed, and whether it is ready, or over.

    Workers look at ``is_closed`` too because asyncio.wait_for, which redis-py sends with, can lose a cancellation on
    Python 3.11. ``waiting`` names the queues not made yet; ``on_ready`` is called when the last of them is.
    """

    seed: int
    speed: float
    waiting: set[str]
    on_ready: Callable[[], None] | None = None
    is_closed: bool = False

    def rng(self, queue: str, role: str) -> Random:
        """Return a generator of that role's own: what one makes does not depend on how they all interleave."""
        return Random(f"{self.seed} {queue} {role}")

    def made(self, queue: str) -> None:
        """Note that a queue is there, with its backlog."""
        if self.waiting == {queue} and self.on_ready is not None:
            self.on_ready()
        self.waiting.discard(queue)


def messages_of(scenario: Scenario, rng: Random, *, now_ms: int) -> Iterator[StoredMessage]:
    """Make the scenario's backlog as of ``now_ms``, the server's time in ms since the epoch, oldest first."""
    backlog = scenario.backlog
    if backlog is None:
        return
    body = backlog.body or scenario.body
    for index in range(backlog.count):
        if scenario.delay_s is None:
            sent_us = now_ms * 1000 - int(1e6 * age_s(backlog, index / backlog.count))
            due_ms = sent_us // 1000
        else:
            delay_ms = int(1000 * rng.uniform(*scenario.delay_s))
            due_ms = now_ms + int(delay_ms * rng.random())
            sent_us = (due_ms - delay_ms) * 1000
        rc = backlog.rcs[index % len(backlog.rcs)]
        # Whoever received it let it expire, each time.
        due_ms += rc * scenario.vt_s * 1000
        first_ms = sent_us // 1000 + 400 if rc else None
        yield StoredMessage(make_id(sent_us), body(rng), due_ms, rc, first_ms)


def age_s(backlog: Backlog, share: float) -> float:
    """Return how old the message is before which that share of the backlog was sent."""
    # The straight tenth keeps a skewed backlog from having thousands of messages in its oldest second.
    passed = 0.9 * float(share**backlog.skew) + 0.1 * share
    return backlog.oldest_s * (1.0 - passed)


# Says of each queue that it was made. Lists cannot: one without items is not there.
MADE_KEY = b"demo:lists"

# Whoever left items in processing took them within so many seconds, each so long after it was made, and had so many
# seconds to work on it.
_TAKEN_WITHIN_S = 20.0
_WAITED_S = 2.0
_LEASE_S = 30.0


def items_of(scenario: ListScenario, rng: Random, *, now_ms: int) -> Iterator[bytes]:
    """Make the scenario's backlog as of ``now_ms``, the server's time in ms since the epoch, oldest first."""
    backlog = scenario.backlog
    if backlog is None:
        return
    body = backlog.body or scenario.body
    for index in range(backlog.count):
        yield created(body(rng), now_ms - int(1000 * age_s(backlog, index / backlog.count)))


def abandoned_of(scenario: ListScenario, rng: Random, *, now_ms: int) -> Iterator[tuple[bytes, Lease | None]]:
    """Make what somebody left in processing, in the order in which it was taken, each with its lease if it has one."""
    abandoned = scenario.abandoned
    if abandoned is None:
        return
    count = abandoned.leased + abandoned.unleased
    # Those that nobody leased lie among the others.
    unleased = {int(count * (index + 0.5) / abandoned.unleased) for index in range(abandoned.unleased)}
    for index in range(count):
        deadline_ms = now_ms - int(1000 * (abandoned.ended_s + _TAKEN_WITHIN_S * (1 - (index + 1) / count)))
        item = created(scenario.body(rng), deadline_ms - int(1000 * (_LEASE_S + _WAITED_S)))
        lease = Lease(scenario.queue, item, random_suffix().decode(), deadline_ms)
        yield item, None if index in unleased else lease


class Server:
    """What of the server no queue does: what time it is, which queues were made, and what lies in processing."""

    def __init__(self, command: Callable[..., Awaitable[Any]]) -> None:
        self._command = command

    async def begin(self, queue: str) -> bool:
        """Note that a queue is made; False where it was made before."""
        return bool(await self._command("HSETNX", MADE_KEY, name_bytes(queue), 1))

    async def has(self, queue: str) -> bool:
        """Tell whether that queue was made here: a server that lost everything does not know."""
        return bool(await self._command("HEXISTS", MADE_KEY, name_bytes(queue)))

    async def now_ms(self) -> int:
        """Return the server's time in ms since the epoch."""
        seconds, microseconds = await self._command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def abandon(self, queue: AsyncListQueue, taken: Sequence[tuple[bytes, Lease | None]]) -> None:
        """Put items into processing, as somebody left them who took them in that order."""
        if taken:
            await self._command("LPUSH", queue.names.processing_key(queue.key), *(item for item, _ in taken))
        leases = [part for _, lease in taken if lease is not None for part in (lease.deadline_ms, lease.member)]
        if leases:
            await self._command("ZADD", queue.names.leases_key(queue.key), *leases)


_BACKLOG_CHUNK = 500
# How long a hand waits at a time for an item to come.
_WAIT_S = 5.0
# What a reaper gives to an item that somebody took who died before the lease.
_GRACE_MS = 10_000
_ERRORS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)


class ListWorker:
    """Runs one scenario on its queue."""

    def __init__(self, site: WorkloadContext, server: Server, queue: AsyncListQueue, scenario: ListScenario) -> None:
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


# The lists' small backlogs come first, so that the queues of RSMQ need not wait for those who made them.
DEMO: tuple[Scenario | ListScenario, ...] = (*LIST_SCENARIOS, *SCENARIOS)

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
    site = WorkloadContext(seed, speed, waiting, on_ready)
    async with connect_async(url) as client, asyncio.TaskGroup() as group:
        rsmq = _Rsmq(client, ns)
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


class _Rsmq:
    """The queues of one namespace; ``generation`` counts how often they had to be made."""

    def __init__(self, client: Any, ns: str) -> None:
        self.queues = AsyncRsmq(client, ns)
        self.generation = 1
        self._command: Callable[..., Awaitable[Any]] = client.execute_command
        self._keys = Keys(ns)

    async def count(self, queue: str, messages: Sequence[StoredMessage]) -> None:
        """Count restored messages as sent, and as received as often as they say: restoring leaves the totals alone."""
        key = self._keys.attributes(queue)
        await self._command("HINCRBY", key, "totalsent", len(messages))
        await self._command("HINCRBY", key, "totalrecv", sum(message.rc for message in messages))


class _Worker:
    """The producer and the consumer of one scenario."""

    def __init__(self, site: WorkloadContext, rsmq: _Rsmq, scenario: Scenario) -> None:
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
            await self._rsmq.count(self._queue, chunk)

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
