"""What pages and scans of list queues have in common: their keys, their commands, and what may go wrong."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis.exceptions import ResponseError

from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import name_bytes
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.running import ScriptRunner, raise_first

Command = Sequence[bytes | str | int]
_STEP_MAX = 1_000


@contextmanager
def telling_wrong_types() -> Iterator[None]:
    """Raise ``wrongType`` where Redis says, in a script or not, that a key is something else."""
    try:
        yield
    except ResponseError as error:
        if "WRONGTYPE" in str(error):
            raise rsmq_error("wrongType") from error
        raise


def list_keys(names: ListNames, queue: str) -> tuple[bytes, bytes, bytes]:
    """Return the keys of a list queue: its own, those in processing, and the leases."""
    return name_bytes(queue), names.processing_key(queue), names.leases_key(queue)


def between(key: bytes, right: bool, first: int, count: int) -> Command:
    """Return the command for items from a position on, counted from the right end or from the left."""
    last = first + count - 1
    return ("LRANGE", key, -last - 1, -first - 1) if right else ("LRANGE", key, first, last)


async def ask(runner: ScriptRunner, *commands: Command) -> list[Any]:
    """Send plain commands; raises the first error among the replies."""
    replies = await runner.commands(*commands)
    raise_first(replies)
    return replies


async def walk(
    runner: ScriptRunner, key: bytes, right: bool, first: int, count: int, budget: int, *, longest: int = 0
) -> list[bytes]:
    """Read items in order by plain commands: a few at first, more where they are short, until the budget is used up.

    No command tells how long an item is without copying it: one that is longer than the budget is read all the same.
    ``longest`` is how long they were so far, where that is known.
    """
    items: list[bytes] = []
    step = max(1, min(_STEP_MAX, budget // (4 * longest))) if longest else 1
    longest = max(longest, 1)
    while len(items) < count and budget > 0:
        (found,) = await ask(runner, between(key, right, first + len(items), min(step, count - len(items))))
        if not found:
            break
        items += reversed(found) if right else found
        budget -= sum(map(len, found))
        longest = max(longest, *map(len, found))
        step = max(1, min(_STEP_MAX, budget // (4 * longest)))
    return items
