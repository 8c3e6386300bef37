"""Reading stretches of a list queue at one moment, for scans: a script, or plain commands where these are refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.protocol.lists.item_ids import Place, item_sha
from rsmq_tui.protocol.lists.look_scripts import RANGES
from rsmq_tui.protocol.lists.looking import ask, list_keys, telling_wrong_types, walk
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.running import ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.scan import SCAN_BODY_BYTES

# An item as it is; of one that is longer than SCAN_BODY_BYTES its length and its SHA1.
Item = bytes | list[int | bytes]


class Stretch(NamedTuple):
    """Some items of a list in order, counted from its right end or from its left."""

    place: Place
    right: bool
    first: int
    length: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What lay there at one moment: ``ready`` items in the queue, ``hidden`` in processing, and those asked for."""

    at_ms: int
    ready: int
    hidden: int
    stretches: tuple[Sequence[Item], ...]


class ListLook:
    """Reads one list queue; no call copies more than about SCAN_BODY_BYTES for a stretch, and one item."""

    def __init__(self, runner: ScriptRunner, names: ListNames, queue: str) -> None:
        self.runner = runner
        self.takes_right = names.take_from == "right"
        self.keys = list_keys(names, queue)
        self._longest = 0

    async def at(self, *stretches: Stretch, more_bytes: int = 0) -> Moment:
        """Read these; ``more_bytes`` of them are known, and come on top of what may be copied."""
        arguments: list[bytes | str | int] = [SCAN_BODY_BYTES + more_bytes, SCAN_BODY_BYTES]
        for place, right, first, length in stretches:
            arguments += [1 if place == "queue" else 2, int(right), first, length]
        with telling_wrong_types():
            try:
                now, ready, hidden, *found = await self.runner.run(RANGES, self.keys[:2], arguments)
            except ScriptsRefusedError:
                return await self._plainly(stretches, SCAN_BODY_BYTES + more_bytes)
        return Moment(int(now), int(ready), int(hidden), tuple(found))

    async def _plainly(self, stretches: Sequence[Stretch], budget: int) -> Moment:
        """Read them one after another: each at one moment, once it is known how long the items are."""
        queue, processing, _ = self.keys
        clock, ready, hidden = await ask(self.runner, ("TIME",), ("LLEN", queue), ("LLEN", processing))
        found: list[Sequence[Item]] = []
        for place, right, first, length in stretches:
            key = queue if place == "queue" else processing
            items = await walk(self.runner, key, right, first, length, budget, longest=self._longest)
            self._longest = max([self._longest, *map(len, items)])
            found.append(
                [item if len(item) <= SCAN_BODY_BYTES else [len(item), item_sha(item).encode()] for item in items]
            )
        return Moment(clock_ms(clock), ready, hidden, tuple(found))


def hashes(items: Sequence[Item]) -> list[int]:
    """Return a hash for each item: Python's, which has 64 bits and a secret of this process."""
    try:
        return list(map(hash, items))
    except TypeError:
        return [hash(item if isinstance(item, bytes) else item[1]) for item in items]


def size_of(item: Item) -> int:
    """Return an item's length in bytes."""
    return len(item) if isinstance(item, bytes) else int(item[0])


def sha_of(item: Item) -> str:
    """Return an item's SHA1."""
    if isinstance(item, bytes):
        return item_sha(item)
    sha = item[1]
    return sha.decode() if isinstance(sha, bytes) else str(sha)
