"""The demo's producers and consumers: they run the scenarios against a server until stopped."""

import argparse
import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from random import Random
from typing import Any

from rsmq_tui.cli.demo.scenarios import (
    DEMO_SCENARIOS,
    MIXED,
    RETRY_S,
    Arrivals,
    Backlog,
    Body,
    Consumer,
    Hands,
    ListScenario,
    Scenario,
    Ticks,
    VariedRate,
    created,
    cut_off_invoice_body,
)
from rsmq_tui.protocol import (
    SERVER_ERRORS,
    AsyncListQueue,
    AsyncRsmq,
    Lease,
    RsmqError,
    StoredMessage,
    connect_async,
    failure_of,
    make_id,
    name_bytes,
)
from rsmq_tui.protocol.keys import CANONICAL_ID, Keys, random_suffix

_SLOW, _FAST = 0.2, 5.0
BURST_MESSAGES = 1_000
# A sender with a wrong clock is an hour behind.
_CLOCK_OFF_MS = 3_600_000
_DELAYS_S = (20, 60)
# A consumer that has failed lets the message be received again after this time, in s.
_RETRY_POISON_S = 2


@dataclass(slots=True)
class Switches:
    """The controls of a queue's clients that are ``on``, by name, and what they have sent.

    ``sent`` are the ids of RSMQ messages, or the items of a list, which leave the queue when the control is turned off.
    """

    on: set[str] = field(default_factory=set)
    sent: dict[str, list[Any]] = field(default_factory=dict)

    def rate(self, role: str) -> float:
        """Return by what the rate of the producer or the consumer is multiplied; 0 stops it."""
        if f"{role}-stop" in self.on:
            return 0.0
        slow, fast = f"{role}-slow" in self.on, f"{role}-fast" in self.on
        return (_SLOW if slow else 1.0) * (_FAST if fast else 1.0)


@dataclass(slots=True)
class WorkloadContext:
    """The settings and the state of a workload, shared by its workers.

    Workers check ``is_closed`` because asyncio.wait_for, by which redis-py sends, can lose a cancellation on Python
    3.11. ``waiting`` names the queues not created yet; ``on_ready`` is called when the last of them is.
    """

    seed: int
    speed: float
    waiting: set[str]
    on_ready: Callable[[], None] | None = None
    is_closed: bool = False
    switches: dict[str, Switches] = field(default_factory=dict)

    def rng(self, queue: str, role: str) -> Random:
        """Return the random generator of one role: its values do not depend on the order in which workers run."""
        return Random(f"{self.seed} {queue} {role}")

    def made(self, queue: str) -> None:
        """Note that a queue was created, with its backlog."""
        if self.waiting == {queue} and self.on_ready is not None:
            self.on_ready()
        self.waiting.discard(queue)


def messages_of(scenario: Scenario, rng: Random, *, now_ms: int) -> Iterator[StoredMessage]:
    """Make the scenario's backlog as of ``now_ms``, the server's time in ms since the epoch, oldest first."""
    for backlog, body, index in _planned(scenario):
        if scenario.delay_s is None:
            sent_us = now_ms * 1000 - int(1e6 * age_s(backlog, index / backlog.count))
            due_ms = sent_us // 1000
        else:
            delay_ms = int(1000 * rng.uniform(*scenario.delay_s))
            due_ms = now_ms + int(delay_ms * rng.random())
            sent_us = (due_ms - delay_ms) * 1000
        rc = backlog.rcs[index % len(backlog.rcs)]
        # Each time it was received, its visibility timeout expired.
        due_ms += rc * scenario.vt_s * 1000
        first_ms = sent_us // 1000 + 400 if rc else None
        yield StoredMessage(make_id(sent_us), body(rng), due_ms, rc, first_ms)


def _planned(scenario: Scenario | ListScenario) -> Iterator[tuple[Backlog, Body, int]]:
    """Yield the backlog, if there is one, once for each of its messages, with what makes their bodies and the index."""
    if (backlog := scenario.backlog) is not None:
        yield from ((backlog, backlog.body or scenario.body, index) for index in range(backlog.count))


def age_s(backlog: Backlog, share: float) -> float:
    """Return the age in seconds of the message before which ``share`` (0 to 1) of the backlog was sent."""
    # The linear tenth keeps a skewed backlog from having thousands of messages in its oldest second.
    passed = 0.9 * float(share**backlog.skew) + 0.1 * share
    return backlog.oldest_s * (1.0 - passed)


# A hash of the list queues that were created, because an empty list does not exist.
MADE_KEY = b"demo:lists"

# Items left in processing were taken within ``_TAKEN_WITHIN_S``, each ``_WAITED_S`` after its creation, and leased for
# ``_LEASE_S``.
_TAKEN_WITHIN_S = 20.0
_WAITED_S = 2.0
_LEASE_S = 30.0


def items_of(scenario: ListScenario, rng: Random, *, now_ms: int) -> Iterator[bytes]:
    """Make the scenario's backlog as of ``now_ms``, the server's time in ms since the epoch, oldest first."""
    for backlog, body, index in _planned(scenario):
        yield created(body(rng), now_ms - int(1000 * age_s(backlog, index / backlog.count)))


def abandoned_of(scenario: ListScenario, rng: Random, *, now_ms: int) -> Iterator[tuple[bytes, Lease | None]]:
    """Make the items left in processing, in the order in which they were taken, each with its lease if it has one."""
    abandoned = scenario.abandoned
    if abandoned is None:
        return
    count = abandoned.leased + abandoned.unleased
    # Items without a lease are spread among the others.
    unleased = {int(count * (index + 0.5) / abandoned.unleased) for index in range(abandoned.unleased)}
    for index in range(count):
        deadline_ms = now_ms - int(1000 * (abandoned.ended_s + _TAKEN_WITHIN_S * (1 - (index + 1) / count)))
        item = created(scenario.body(rng), deadline_ms - int(1000 * (_LEASE_S + _WAITED_S)))
        lease = Lease(scenario.queue, item, random_suffix().decode(), deadline_ms)
        yield item, None if index in unleased else lease


class Server:
    """The commands that are not of one queue's client: the time, the created queues, and items left in processing."""

    def __init__(self, command: Callable[..., Awaitable[Any]]) -> None:
        self._command = command

    async def begin(self, queue: str) -> bool:
        """Note that a queue is created; False if it was created before."""
        return bool(await self._command("HSETNX", MADE_KEY, name_bytes(queue), 1))

    async def has(self, queue: str) -> bool:
        """Return whether that queue was created on this server; False after the server lost its data."""
        return bool(await self._command("HEXISTS", MADE_KEY, name_bytes(queue)))

    async def now_ms(self) -> int:
        """Return the server's time in ms since the epoch."""
        seconds, microseconds = await self._command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def abandon(self, queue: AsyncListQueue, taken: Sequence[tuple[bytes, Lease | None]]) -> None:
        """Put items into processing, as if a worker had taken them in that order."""
        if taken:
            await self._command("LPUSH", queue.names.processing_key(queue.key), *(item for item, _ in taken))
        leases = [part for _, lease in taken if lease is not None for part in (lease.deadline_ms, lease.member)]
        if leases:
            await self._command("ZADD", queue.names.leases_key(queue.key), *leases)


_BACKLOG_CHUNK = 500
# How long a task waits at a time for an item.
_WAIT_S = 5.0
# The grace period of an item whose worker died before leasing it.
_GRACE_MS = 10_000
_ERRORS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)


class ListWorker:
    """The producer, the worker and the reaper of one list scenario."""

    def __init__(self, context: WorkloadContext, server: Server, queue: AsyncListQueue, scenario: ListScenario) -> None:
        self._context = context
        self._server = server
        self._queue = queue
        self._scenario = scenario
        self._switches = context.switches.setdefault(scenario.queue, Switches())
        if scenario.worker is None:
            self._switches.on.add("consumer-stop")
        self._backlog_rng, self._producer_rng, self._life_rng = (
            context.rng(scenario.queue, role) for role in ("backlog", "producer", "life")
        )

    def runs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the coroutines to run until the workload is closed."""
        yield self.produce()
        yield self.work(self._scenario.worker or _SPARE_HANDS)
        if self._scenario.reap_every_s is not None:
            yield self.reap(self._scenario.reap_every_s)

    async def produce(self) -> None:
        """Create the queue with its backlog, and push to it until the workload is closed."""
        while not self._context.is_closed:
            with suppress(*_ERRORS):
                await self._set_up()
                await self._push()
            await asyncio.sleep(RETRY_S)

    async def work(self, worker: Hands) -> None:
        """Run one worker after the other until the workload is closed."""
        rngs = [self._context.rng(self._scenario.queue, f"hand {number}") for number in range(worker.count)]
        while not self._context.is_closed:
            lives_s = None
            if worker.dies_after_s is not None:
                lives_s = self._life_rng.uniform(*worker.dies_after_s) / self._context.speed
            with suppress(TimeoutError):
                async with asyncio.timeout(lives_s) as life, asyncio.TaskGroup() as hands:
                    for rng in rngs:
                        hands.create_task(self._use_hand(worker, rng, life))
            await asyncio.sleep(worker.down_s / self._context.speed)

    async def reap(self, every_s: float) -> None:
        """Reap every ``every_s`` seconds until the workload is closed."""
        while not self._context.is_closed:
            await asyncio.sleep(every_s / self._context.speed)
            with suppress(*_ERRORS):
                await self._queue.reap(grace_ms=_GRACE_MS)

    async def _set_up(self) -> None:
        scenario, rng = self._scenario, self._backlog_rng
        if await self._server.begin(scenario.queue):
            now_ms = await self._server.now_ms()
            await self._server.abandon(self._queue, list(abandoned_of(scenario, rng, now_ms=now_ms)))
            items = items_of(scenario, rng, now_ms=now_ms)
            while (chunk := list(islice(items, _BACKLOG_CHUNK))) and not self._context.is_closed:
                await self._queue.push(*chunk)
        self._context.made(scenario.queue)

    async def _push(self) -> None:
        """Push items until the workload is closed or the server has lost its data."""
        scenario, rng = self._scenario, self._producer_rng
        arrivals = Arrivals(scenario.arrivals, scenario.bounds, self._context.speed, self._queue.length)
        while not self._context.is_closed:
            count = await arrivals.due(self._switches.rate("producer"))
            if not count:
                continue
            if not await self._server.has(scenario.queue):
                return
            now_ms = await self._server.now_ms()
            if "wrong-clock" in self._switches.on:
                now_ms -= _CLOCK_OFF_MS
            await self._queue.push(*(created(scenario.body(rng), now_ms) for _ in range(count)))

    async def send(self, control: str) -> str:
        """Push the items of a control at once, and say what was done."""
        now_ms = await self._server.now_ms()
        items = [created(self._scenario.body(self._producer_rng), now_ms) for _ in range(BURST_MESSAGES)]
        self._switches.sent[control] = items
        await self._queue.push(*items)
        return f"sent {len(items):,} items"

    async def take_back(self, control: str) -> str:
        """Remove what a control has sent from the queue, and say how many items that were."""
        items = self._switches.sent.get(control, [])
        left = sum([await self._queue.remove(item) for item in items])
        self._switches.sent.pop(control, None)
        return f"removed {left:,} of {len(items):,} items" if items else ""

    async def _use_hand(self, worker: Hands, rng: Random, life: asyncio.Timeout) -> None:
        # The timeout's cancellation can be lost on a task that is sending, as in ``WorkloadContext``.
        while not self._context.is_closed and not life.expired():
            if not self._switches.rate("consumer"):
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._do_next(worker, rng)
            except _ERRORS:
                await asyncio.sleep(RETRY_S)

    async def _do_next(self, worker: Hands, rng: Random) -> None:
        """Wait for an item, work on it, and acknowledge it if it is leased."""
        if worker.lease_ms is None:
            if await self._queue.pop_blocking(_WAIT_S) is not None:
                await self._do(worker, rng)
        elif (lease := await self._queue.take_blocking(_WAIT_S, worker.lease_ms)) is not None:
            await self._do(worker, rng)
            if "consumer-crash" not in self._switches.on:
                await self._queue.ack(lease)

    async def _do(self, worker: Hands, rng: Random) -> None:
        await asyncio.sleep(
            rng.uniform(*worker.work_s) / self._context.speed / (self._switches.rate("consumer") or 1.0)
        )


# The consumers of queues that have none until a control starts them.
_SPARE = Consumer(VariedRate(40.0))
_SPARE_HANDS = Hands(2, work_s=(0.2, 0.6))

_LAST_RESORT_S = 2.0


@dataclass(slots=True)
class ControlRequests:
    """The controls that the parent process turns on or off, one after the other.

    A request has an ``id``, a ``queue``, a ``control`` and ``on``. Its answer has the ``id``, what was ``said`` and
    whether it was ``done``, and the controls that are on, by queue.
    """

    answer: Callable[[dict[str, Any]], None]
    waiting: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)

    async def obey(self, context: WorkloadContext, workers: "dict[str, ListWorker | _Worker]") -> None:
        """Carry out requests until cancelled."""
        while not context.is_closed:
            request = await self.waiting.get()
            done, said = True, ""
            try:
                said = await _switch(workers[request["queue"]], context.switches[request["queue"]], request)
            except _ERRORS as error:
                done, said = False, str(error) if isinstance(error, RsmqError) else failure_of(error).sentence
            on = {queue: sorted(switches.on) for queue, switches in context.switches.items()}
            self.answer({"id": request["id"], "done": done, "said": said, "on": on})


async def _switch(worker: "ListWorker | _Worker", switches: Switches, request: dict[str, Any]) -> str:
    control = request["control"]
    if not request["on"]:
        # Turned off first, so that nothing is sent meanwhile.
        switches.on.discard(control)
        try:
            return await worker.take_back(control)
        except _ERRORS:
            switches.on.add(control)
            raise
    said = await worker.send(control) if control in ("burst", "poison") and control not in switches.on else ""
    switches.on.add(control)
    return said


async def run_workload(
    url: str,
    *,
    ns: str = "rsmq",
    seed: int = 7,
    speed: float = 1.0,
    stop: asyncio.Event,
    scenarios: Sequence[Scenario | ListScenario] = MIXED.queues,
    on_ready: Callable[[], None] | None = None,
    requests: ControlRequests | None = None,
) -> None:
    """Fill and drain the queues of the scenarios until ``stop`` is set.

    A queue that exists already keeps its messages and gets no backlog. ``speed`` multiplies the rates and divides the
    working times. ``on_ready`` is called once every backlog is in place; ``requests`` turn controls on and off. While
    the server is down it keeps trying. An RSMQ queue that is deleted stays deleted, unless the server has lost all
    queues: then they are created again. A list that is deleted exists again with the next item. Raises ``ValueError``
    for an invalid URL.
    """
    waiting = {scenario.queue for scenario in scenarios}
    context = WorkloadContext(seed, speed, waiting, on_ready)
    async with connect_async(url) as client, asyncio.TaskGroup() as group:
        rsmq = _Rsmq(client, ns)
        server = Server(client.execute_command)
        workers = {
            scenario.queue: ListWorker(context, server, AsyncListQueue(client, name_bytes(scenario.queue)), scenario)
            if isinstance(scenario, ListScenario)
            else _Worker(context, rsmq, server, scenario)
            for scenario in scenarios
        }
        runs = [group.create_task(run) for worker in workers.values() for run in worker.runs()]
        if requests is not None:
            runs.append(group.create_task(requests.obey(context, workers)))
        try:
            await stop.wait()
        finally:
            context.is_closed = True
            for run in runs:
                run.cancel()


class _Rsmq:
    """The queues of one namespace; ``generation`` counts how often they had to be created."""

    def __init__(self, client: Any, ns: str) -> None:
        self.queues = AsyncRsmq(client, ns)
        self.generation = 1
        self._command: Callable[..., Awaitable[Any]] = client.execute_command
        self._keys = Keys(ns)

    async def count(self, queue: str, messages: Sequence[StoredMessage]) -> None:
        """Add restored messages to the totals, which restoring does not change."""
        key = self._keys.attributes(queue)
        await self._command("HINCRBY", key, "totalsent", len(messages))
        await self._command("HINCRBY", key, "totalrecv", sum(message.rc for message in messages))

    async def age(self, queue: str, created_s: int, by_s: float) -> None:
        """Let a queue, created at ``created_s`` since the epoch, have been created ``by_s`` seconds earlier."""
        await self._command("HSET", self._keys.attributes(queue), "created", int(created_s - by_s))


class _Worker:
    """The producer and the consumer of one scenario."""

    def __init__(self, context: WorkloadContext, rsmq: _Rsmq, server: Server, scenario: Scenario) -> None:
        self._context = context
        self._rsmq = rsmq
        self._queues = rsmq.queues
        self._server = server
        self._queue = scenario.queue
        self._scenario = scenario
        self._switches = context.switches.setdefault(scenario.queue, Switches())
        if scenario.consumer is None:
            self._switches.on.add("consumer-stop")
        self._generation = 0
        self._backlog_rng, self._producer_rng, self._consumer_rng = (
            context.rng(scenario.queue, role) for role in ("backlog", "producer", "consumer")
        )

    def runs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the coroutines to run until the workload is closed."""
        yield self.produce()
        yield self.consume(self._scenario.consumer or _SPARE)

    async def produce(self) -> None:
        """Create the queue with its backlog, and send to it until the workload is closed."""
        while not self._context.is_closed:
            with suppress(*SERVER_ERRORS):
                try:
                    if self._generation < self._rsmq.generation:
                        await self._set_up()
                    await self._send()
                except RsmqError:
                    # Either the queue was deleted, and stays so, or the server came back empty.
                    if self._generation == self._rsmq.generation and not await self._queues.list_queues():
                        self._rsmq.generation += 1
            await asyncio.sleep(RETRY_S)

    async def consume(self, consumer: Consumer) -> None:
        """Receive from the queue, while it exists, until the workload is closed."""
        while not self._context.is_closed:
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
        self._context.made(self._queue)

    async def _restore_backlog(self) -> None:
        attributes = await self._queues.get_queue_attributes(self._queue)
        # Ages are counted from the server's time, here the second in which it created the queue.
        now_ms = (attributes.created or 0) * 1000
        if self._scenario.consumer is None and self._scenario.backlog is not None:
            # As if it had been there, without a consumer, since its oldest message was sent.
            await self._rsmq.age(self._queue, now_ms // 1000, self._scenario.backlog.oldest_s)
        messages = messages_of(self._scenario, self._backlog_rng, now_ms=now_ms)
        while (chunk := list(islice(messages, _BACKLOG_CHUNK))) and not self._context.is_closed:
            await self._queues.restore_messages(self._queue, chunk)
            await self._rsmq.count(self._queue, chunk)

    async def _send(self) -> None:
        scenario, rng = self._scenario, self._producer_rng
        arrivals = Arrivals(scenario.arrivals, scenario.bounds, self._context.speed, self._depth)
        while not self._context.is_closed:
            count = await arrivals.due(self._switches.rate("producer"))
            if not count:
                continue
            bodies = [scenario.body(rng) for _ in range(count)]
            on = self._switches.on
            if "odd-dates" in on:
                # One at a time: no consumer of the canonical client can delete them.
                await self._send_odd(bodies.pop())
            delay_s = _DELAYS_S if "delays" in on else scenario.delay_s
            if "wrong-clock" in on:
                await self._send_late(bodies)
            elif delay_s is None:
                await self._queues.send_messages(self._queue, bodies)
            else:
                for body in bodies:
                    await self._queues.send_message(self._queue, body, delay=rng.randint(*delay_s))

    async def _send_late(self, bodies: Sequence[bytes]) -> None:
        """Send as a client that makes ids by its own clock, which is an hour behind."""
        now_ms = await self._server.now_ms()
        await self._restore(
            [StoredMessage(make_id((now_ms - _CLOCK_OFF_MS) * 1000), body, now_ms, 0, None) for body in bodies]
        )

    async def _send_odd(self, body: bytes) -> None:
        """Send as rsmq_async 7 for Rust: times in seconds, in the score and in an id of 28 characters."""
        now_s = await self._server.now_ms() // 1000
        message = StoredMessage(make_id(now_s)[4:10] + random_suffix().decode(), body, now_s, 0, None)
        self._switches.sent.setdefault("odd-dates", []).append(message.id)
        await self._restore([message])
        if "odd-dates" not in self._switches.on:
            # It was turned off meanwhile.
            await self._queues.delete_message(self._queue, message.id)

    async def _restore(self, messages: Sequence[StoredMessage]) -> None:
        await self._queues.restore_messages(self._queue, messages)
        await self._rsmq.count(self._queue, messages)

    async def send(self, control: str) -> str:
        """Send the messages of a control at once, and say what was done."""
        scenario, rng = self._scenario, self._producer_rng
        if control == "poison":
            ids = [await self._queues.send_message(self._queue, cut_off_invoice_body(rng))]
            said = "sent one message that no consumer can read"
        else:
            ids = await self._queues.send_messages(self._queue, [scenario.body(rng) for _ in range(BURST_MESSAGES)])
            said = f"sent {len(ids):,} messages"
        self._switches.sent[control] = ids
        return said

    async def take_back(self, control: str) -> str:
        """Delete what a control has sent and is still in the queue, and say how many messages that were."""
        ids = self._switches.sent.get(control, [])
        left = sum(await self._queues.delete_messages(self._queue, ids))
        self._switches.sent.pop(control, None)
        return f"deleted {left:,} of {len(ids):,} messages" if ids else ""

    async def _depth(self) -> int:
        return (await self._queues.get_queue_attributes(self._queue)).msgs

    async def _receive(self, consumer: Consumer) -> None:
        rng, ticks = self._consumer_rng, Ticks()
        in_work: list[tuple[float, str]] = []
        owed = 0.0
        while not self._context.is_closed:
            passed_s = await ticks.wait()
            on, factor = self._switches.on, self._switches.rate("consumer")
            gained = consumer.pace.rate(ticks.at_s * self._context.speed) * self._context.speed * passed_s * factor
            # An idle consumer is not faster afterwards.
            owed = min(owed, 1.0) + gained if factor else 0.0
            count = int(owed)
            if count:
                owed -= count
                for message in await self._queues.receive_messages(self._queue, count):
                    if message.id in self._switches.sent.get("poison", ()):
                        await self._queues.change_message_visibility(self._queue, message.id, _RETRY_POISON_S)
                        continue
                    crashed = consumer.can_read is not None and not consumer.can_read(message.body)
                    crashed |= "consumer-crash" in on or not CANONICAL_ID.fullmatch(message.id)
                    if not crashed and rng.random() >= consumer.fails:
                        heappush(
                            in_work, (ticks.at_s + rng.uniform(*consumer.work_s) / self._context.speed, message.id)
                        )
            done: list[str] = []
            while in_work and in_work[0][0] <= ticks.at_s:
                done.append(heappop(in_work)[1])
            if done:
                await self._queues.delete_messages(self._queue, done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the workload until standard input ends; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rsmq_tui.cli.demo.workload", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--ns", default="rsmq")
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--scenario", choices=DEMO_SCENARIOS, default="mixed")
    parser.add_argument("--without-scripts", action="store_true", help="only queues that need no Lua")
    options = parser.parse_args(arguments)
    with suppress(KeyboardInterrupt):
        asyncio.run(_run_until_stdin_ends(options))
    return 0


async def _run_until_stdin_ends(options: argparse.Namespace) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    requests = ControlRequests(lambda answer: _say(json.dumps(answer).encode()))

    def watch() -> None:
        # RuntimeError: the loop has ended already.
        with suppress(RuntimeError):
            for line in os.fdopen(0, "rb"):
                loop.call_soon_threadsafe(requests.waiting.put_nowait, json.loads(line))
            loop.call_soon_threadsafe(stop.set)
        time.sleep(_LAST_RESORT_S)
        os._exit(1)

    # A thread, because the loop's pipe reader does not work on Windows, or if stdin is a file.
    threading.Thread(target=watch, daemon=True).start()
    await run_workload(
        options.url,
        ns=options.ns,
        speed=options.speed,
        stop=stop,
        scenarios=[
            each
            for each in DEMO_SCENARIOS[options.scenario].queues
            if not options.without_scripts or (isinstance(each, ListScenario) and not each.needs_scripts)
        ],
        on_ready=lambda: _say(b"ready"),
        requests=requests,
    )


def _say(line: bytes) -> None:
    # If the parent no longer reads, the workload goes on.
    with suppress(BrokenPipeError):
        os.write(1, line + b"\n")


if __name__ == "__main__":
    raise SystemExit(main())
