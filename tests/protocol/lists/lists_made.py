"""List queues made by hand, for tests that look into them."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import redis

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.connections.connect import Traffic
from rsmq_tui.protocol.connections.pool import ConnectionManager
from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.lists.naming import ListNames

QUEUE = "queue:orders"
RIGHT, LEFT = ListNames(), ListNames(take_from="left")


def member(number: int, item: bytes) -> bytes:
    """Return the member of a lease with a token of that number."""
    return b"%022d:%b" % (number, item)


def fill(
    client: redis.Redis,
    names: ListNames = RIGHT,
    *,
    ready: Sequence[bytes] = (),
    processing: Sequence[bytes] = (),
    leases: Iterable[tuple[bytes, float]] = (),
    queue: str = QUEUE,
) -> None:
    """Make a queue: ``ready`` in the order that they are taken in, ``processing`` the oldest first."""
    key = queue.encode()
    client.delete(key, names.processing_key(queue), names.leases_key(queue))
    for start in range(0, len(ready), 10_000):
        items = ready[start : start + 10_000]
        (client.lpush if names.take_from == "right" else client.rpush)(key, *items)
    if processing:
        client.lpush(names.processing_key(queue), *processing)
    for number, (item, deadline_ms) in enumerate(leases):
        client.zadd(names.leases_key(queue), {member(number, item): deadline_ms})


def fill_wrongly(client: redis.Redis, place: int) -> None:
    """Make a queue of whose three keys one is of another type: the queue's own, that of processing, or of leases."""
    fill(client, ready=[b"r"], processing=[b"p"], leases=[(b"p", 1)])
    key = (QUEUE.encode(), RIGHT.processing_key(QUEUE), RIGHT.leases_key(QUEUE))[place]
    client.delete(key)
    client.set(key, "x")


@asynccontextmanager
async def running(url: str) -> AsyncIterator[ScriptRunner]:
    """A runner of scripts on a connection of its own."""
    links = ConnectionManager(Address.of(url), timeout_s=10, traffic=Traffic())
    try:
        yield links.of("").runner
    finally:
        await links.aclose()
