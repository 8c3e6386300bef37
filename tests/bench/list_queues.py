"""List queues as ``queues`` has those of RSMQ: a few items each, some of them leased, and a server that goes on."""

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice

import redis

from rsmq_tui.protocol.lists.naming import ListNames
from tests.bench.queues import bodies, names

NAMES = ListNames()
_READY, _LEASED = 7, 3
_HOUR_MS = 3_600_000
_PIPELINED = 2000

Command = tuple[str | bytes | int, ...]


class ListBacklog:
    """Fills a server with list queues, and lets the busy ones of them change, as ``Backlog`` does."""

    def __init__(self, client: redis.Redis, count: int, *, busy: float = 0.10) -> None:
        self.names = [NAMES.key(name).decode() for name in names(count)]
        self._client = client
        self._bodies = bodies(300)
        self._rng = random.Random(7)
        self._turns = cycle(self._rng.sample(self.names, max(1, round(busy * count))))
        self._serial = 0
        seconds, _ = client.time()
        self._deadline_ms = seconds * 1000 + _HOUR_MS

    def fill(self) -> None:
        """Create the queues, each with seven ready items and three leased ones."""
        self._run(self._queue, self.names)

    def change(self, share: float) -> None:
        """Let producers and consumers work on that share of all queues, the busy ones in turn.

        Half of them get an item; in the other half one is taken, and in every second of these also acknowledged.
        """
        self._run(self._step, islice(self._turns, max(1, round(share * len(self.names)))))

    def _queue(self, name: str) -> Iterable[Command]:
        yield ("LPUSH", name, *(self._item() for _ in range(_READY)))
        for _ in range(_LEASED):
            yield from self._taken(name, self._item())

    def _step(self, name: str) -> Iterable[Command]:
        kind = self._rng.randrange(4)
        if kind == 0:
            yield ("LMOVE", name, NAMES.processing_key(name), "RIGHT", "LEFT")
            yield self._lease(name, self._item())
        elif kind == 1:
            yield ("RPOP", name)
        else:
            yield ("LPUSH", name, self._item())

    def _taken(self, name: str, item: bytes) -> Iterable[Command]:
        yield ("LPUSH", NAMES.processing_key(name), item)
        yield self._lease(name, item)

    def _lease(self, name: str, item: bytes) -> Command:
        return ("ZADD", NAMES.leases_key(name), self._deadline_ms, b"%022d:%b" % (self._serial, item))

    def _item(self) -> bytes:
        # No two are equal: as jobs do, each carries its number.
        self._serial += 1
        return b'{"id":%d,%b' % (self._serial, self._rng.choice(self._bodies)[1:])

    def _run(self, work: Callable[[str], Iterable[Command]], names: Iterable[str]) -> None:
        batch: list[Command] = []
        for name in names:
            batch += work(name)
            if len(batch) >= _PIPELINED:
                self._send(batch)
                batch = []
        self._send(batch)

    def _send(self, batch: Sequence[Command]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for command in batch:
                pipeline.execute_command(*command)
            pipeline.execute()
