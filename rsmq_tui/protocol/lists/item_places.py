"""Looking for what a change of list queues would touch, or may have touched, without touching it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, sha_of, spot_of
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.messages import RawMessage

# Sends commands in one round trip, and returns the replies.
Read = Callable[..., Awaitable[list[Any]]]
Command = tuple[bytes | str | int, ...]

NEAR_ITEMS = 250
# What is in processing is read whole up to this.
_PROCESSING_MOST = 10_000


def key_of(names: ListNames, queue: str, area: str) -> bytes:
    """Return the key of a queue's list, or of its processing list."""
    return names.processing_key(queue) if area == "p" else name_bytes(queue)


def is_left(names: ListNames, area: str) -> bool:
    """Tell whether position 0 is the head of the list: in processing the oldest is the last, wherever it was taken."""
    return area == "q" and names.take_from == "left"


def range_of(names: ListNames, queue: str, area: str, first: int, last: int) -> Command:
    """Return the command that reads what lies at these positions, and ``in_order`` puts in order."""
    key = key_of(names, queue, area)
    return ("LRANGE", key, first, last) if is_left(names, area) else ("LRANGE", key, -1 - last, -1 - first)


def in_order(names: ListNames, area: str, found: list[bytes]) -> list[bytes]:
    """Return what ``range_of`` reads, from the lowest position on."""
    return found if is_left(names, area) else found[::-1]


async def are_there(read: Read, batch: ListBatch) -> list[bool]:
    """Tell of each of what a batch takes (or puts) whether it is there, near where it was."""
    if batch.kind is ListKind.PUT:
        return await _of_side(read, batch, batch.queue, batch.ns, batch.afters)
    there = await _of_side(read, batch, batch.queue, batch.ns, batch.befores)
    if batch.kind is ListKind.LEASE:
        return await _have_leases(read, batch, batch.befores, there)
    return there


async def _of_side(
    read: Read, batch: ListBatch, queue: str, ns: str | None, messages: Sequence[RawMessage]
) -> list[bool]:
    if ns is not None:
        scores = await read(*(("ZSCORE", Keys(ns).messages(queue), message.id) for message in messages))
        return [score is not None for score in scores]
    names, spots = batch.names, [spot_of(message.id) for message in messages]
    key = key_of(names, queue, spots[0].area)
    (length,) = await read(("LLEN", key))
    if spots[0].area == "p" and length <= _PROCESSING_MOST:
        shas = [sha_of(item) for item in (await read(("LRANGE", key, 0, -1)))[0]]
        return [spot.sha in shas for spot in spots]
    found = []
    for spot in spots:
        at = spot.position + (length if spot.position < 0 else 0) + batch.hint
        (around,) = await read(range_of(names, queue, spot.area, max(0, at - NEAR_ITEMS), max(0, at + NEAR_ITEMS)))
        found.append(any(sha_of(item) == spot.sha for item in around))
    return found


async def _have_leases(
    read: Read, batch: ListBatch, messages: Sequence[RawMessage], there: Sequence[bool]
) -> list[bool]:
    """Tell which still have the leases that they had, of those that are there."""
    key, leases = key_of(batch.names, batch.queue, "p"), batch.names.leases_key(batch.queue)
    items = {sha_of(item): item for item in (await read(("LRANGE", key, 0, -1)))[0]}
    found = []
    for message, is_there in zip(messages, there, strict=True):
        if not is_there or message.rc is None:
            found.append(is_there)
            continue
        (score,) = await read(("ZSCORE", leases, message.rc + b":" + items[spot_of(message.id).sha]))
        found.append(score is not None and float(score) == float(message.score))
    return found
