"""Queues that look like somebody's: a few messages each, some in flight, one delayed, and a server that goes on."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from typing import Any

import redis

from rsmq_tui.cli.demo import EmbeddedServer, scenarios
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.rsmq import operations, scripts
from rsmq_tui.protocol.rsmq.operations import Operation
from tests.bench.row import Run

NS = "rsmq"
NAME_PREFIX = "jobs-"
_WORDS = ("orders", "emails", "thumbnails", "invoices", "webhooks", "reminders")
_READY, _IN_FLIGHT, _DELAYED = 6, 3, 1
_HOUR_S = 3600
_PIPELINED = 2000


def names(count: int) -> list[str]:
    """Return that many queue names."""
    return [f"{NAME_PREFIX}{_WORDS[number % len(_WORDS)]}-{number:05d}" for number in range(count)]


def bodies(count: int, seed: int = 1) -> list[bytes]:
    """Return that many JSON jobs of some hundred bytes, the same for the same seed."""
    rng = random.Random(seed)
    some = [scenarios.order_body(rng) for _ in range(min(count, 300))]
    return [some[number % len(some)] for number in range(count)]


def filled(run: Run, client: redis.Redis, count: int, *, busy: float = 0.10) -> "Backlog":
    """Fill a server with so many queues."""
    backlog = Backlog(client, count, busy=busy)
    run.say(f"filling {count:,} queues")
    backlog.fill()
    return backlog


def poller_on(server: EmbeddedServer, loop: asyncio.Runner) -> RsmqPoller:
    """A poller of the server's queues, which lives in that loop."""

    async def start() -> RsmqPoller:
        return RsmqPoller(RsmqReader(server.url, NS))

    return loop.run(start())


class Backlog:
    """Fills a server with queues, and lets the busy ones of them change.

    ``busy`` is their share. As on most servers of many queues it is a tenth: the others hold messages and rest.
    """

    def __init__(self, client: redis.Redis, count: int, *, busy: float = 0.10) -> None:
        self.names = names(count)
        self._client = client
        self._keys = Keys(NS)
        self._bodies = bodies(300)
        self._rng = random.Random(7)
        self._turns = cycle(self._rng.sample(self.names, max(1, round(busy * count))))
        for script in (scripts.CREATE_QUEUE, scripts.SEND, scripts.RECEIVE, scripts.POP):
            client.script_load(script.text)

    def fill(self) -> None:
        """Create the queues, each with six ready messages, three in flight and a delayed one."""
        self._run(operation for name in self.names for operation in self._queue(name))

    def change(self, share: float) -> None:
        """Let producers and consumers work on that share of all queues, the busy ones in turn.

        Half of them get a message; in the other half one is received, and in every second of these also deleted, so
        that depths stay about the same.
        """
        changed = islice(self._turns, max(1, round(share * len(self.names))))
        self._run(self._step(self._rng.randrange(4), name) for name in changed)

    def receive_in_half(self) -> None:
        """Receive a message in every second queue."""
        self._run(operations.receive_message(self._keys, name) for name in self.names[::2])

    def send_to_half(self) -> None:
        """Send a message to every second queue."""
        self._run(operations.send_message(self._keys, name, self._bodies[0]) for name in self.names[::2])

    def _queue(self, name: str) -> Iterable[Any]:
        keys, texts = self._keys, self._rng.sample(self._bodies, _READY + _IN_FLIGHT + _DELAYED)
        yield operations.create_queue(keys, name, vt=_HOUR_S)
        # Each is one chunk.
        yield next(operations.send_messages(keys, name, texts[_DELAYED:]))
        yield next(operations.send_messages(keys, name, texts[:_DELAYED], delay=_HOUR_S))
        yield operations.receive_messages(keys, name, _IN_FLIGHT)

    def _step(self, kind: int, name: str) -> Operation[Any]:
        if kind == 0:
            return operations.receive_message(self._keys, name)
        if kind == 1:
            return operations.pop_message(self._keys, name)
        return operations.send_message(self._keys, name, self._rng.choice(self._bodies))

    def _run(self, todo: Iterable[Operation[Any]]) -> None:
        batch: list[Sequence[Any]] = []
        for operation in todo:
            batch.append(operation.by_sha)
            if len(batch) == _PIPELINED:
                self._send(batch)
                batch = []
        self._send(batch)

    def _send(self, batch: Sequence[Sequence[Any]]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for command in batch:
                pipeline.execute_command(*command)
            pipeline.execute()
