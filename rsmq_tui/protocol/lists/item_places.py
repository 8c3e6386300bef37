"""Reading stretches of lists, in places from 0 on: that of the item which was pushed last.

Consumers that take items from the other end shift none of these; each item that producers push shifts them all by one.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rsmq_tui.protocol.keys import Keys, name_bytes
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind
from rsmq_tui.protocol.lists.item_ids import Area, area_of, digest_of, item_digest
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.messages import RawMessage

# Sends commands in one round trip, and returns the replies.
Read = Callable[..., Awaitable[list[Any]]]

# So many items are read by the first call, and how many and about how much by others.
_STEP, _STEP_GROWS, _STEP_MOST = 8, 8, 4_096
_STEP_BYTES = 4_000_000


class Steps:
    """How many items to read at once: nothing tells how long they are before they are read."""

    def __init__(self) -> None:
        self.items = _STEP

    def learn(self, found: Sequence[bytes]) -> None:
        """Take note of what was read."""
        longest = max(map(len, found), default=0)
        self.items = max(1, min(_STEP_MOST, self.items * _STEP_GROWS, _STEP_BYTES // max(1, longest)))


def key_of(names: ListNames, queue: str, area: Area) -> bytes:
    """Return the key of a queue's list, or of its processing list."""
    return names.processing_key(queue) if area == "p" else name_bytes(queue)


async def read_places(
    read: Read, names: ListNames, queue: str, area: Area, near: int, far: int
) -> tuple[int, list[bytes]]:
    """Read how long a list is and what lies from ``far`` to ``near``, in the order in which it is taken."""
    key = key_of(names, queue, area)
    if area == "q" and names.take_from == "left":
        length, found = await read(("LLEN", key), ("LRANGE", key, -1 - far, -1 - near))
        return length, found
    length, found = await read(("LLEN", key), ("LRANGE", key, near, far))
    return length, found[::-1]


async def are_there(read: Read, batch: ListBatch) -> list[bool]:
    """Tell of each of what a batch takes (or puts) whether an item of its value is there."""
    messages = batch.afters if batch.kind is ListKind.PUT else batch.befores
    if batch.ns is not None:
        scores = await read(*(("ZSCORE", Keys(batch.ns).messages(batch.queue), message.id) for message in messages))
        return [score is not None for score in scores]
    found = await _found(read, batch, messages)
    if batch.kind is ListKind.LEASE:
        return [item is not None and await _has_lease(read, batch, *item) for item in found]
    return [item is not None for item in found]


async def _found(read: Read, batch: ListBatch, messages: Sequence[RawMessage]) -> list[tuple[RawMessage, bytes] | None]:
    """Return each with an item of its value, each item once."""
    wanted = Counter(digest_of(message.id) for message in messages)
    there: dict[bytes, list[bytes]] = {}
    area, steps, near = area_of(messages[0].id), Steps(), 0
    while wanted:
        length, items = await read_places(read, batch.names, batch.queue, area, near, near + steps.items - 1)
        for item in items:
            digest = item_digest(item)
            if wanted[digest] > len(there.get(digest, ())):
                there.setdefault(digest, []).append(item)
        near += len(items)
        if not items or near >= length:
            break
        steps.learn(items)
    return [(message, same.pop()) if (same := there.get(digest_of(message.id))) else None for message in messages]


async def _has_lease(read: Read, batch: ListBatch, message: RawMessage, item: bytes) -> bool:
    if message.rc is None:
        return True
    (score,) = await read(("ZSCORE", batch.names.leases_key(batch.queue), message.rc + b":" + item))
    return score is not None and float(score) == float(message.score)
