"""What lies in a demo's list queue before its producer pushes the first item, and when it was put there."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Any

from rsmq_tui.embedded.backlog import age_s
from rsmq_tui.embedded.jobs import created
from rsmq_tui.embedded.list_scenarios import ListScenario
from rsmq_tui.protocol import AsyncListQueue, Lease, name_bytes
from rsmq_tui.protocol.ids import random_suffix

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
