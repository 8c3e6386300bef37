"""Which list queues there are: those that were named, and those that a slow SCAN finds by patterns."""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from redis.exceptions import ResponseError

from rsmq_tui.protocol.failures import failure_of
from rsmq_tui.protocol.keys import name_bytes, name_of
from rsmq_tui.protocol.links import Link, Links
from rsmq_tui.protocol.lists.naming import ListNames

# One step passes about so many keys, which holds the server for a millisecond or less.
SCAN_COUNT = 1_000
# On demand a search ends after so many steps of a server: ten million keys, some ten seconds.
STEPS_MAX = 10_000
LISTS_MAX = 100_000
# A list is deleted when its last item is taken: one that was seen stays for so many searches that do not find it.
KEPT_SEARCHES = 10

Told = Callable[[int, int], None]
"""Is told how many keys were passed, about, and how many lists are known."""

_GLOB = re.compile(r"[*?\[]")
_SPECIAL = re.compile(r"([*?\[\]\\])")


def is_pattern(text: str) -> bool:
    """Tell whether that is a pattern of keys, and not a name."""
    return bool(_GLOB.search(text))


class ListDiscovery:
    """Knows the list queues that ``patterns`` mean: names, which are taken as they are, and globs as SCAN knows them.

    ``names`` holds their keys; a processing list, leases or a marker stand for the queue that they belong to. ``note``
    says why these may not be all, None if they are.
    """

    def __init__(self, links: Links, names: ListNames, patterns: Sequence[str]) -> None:
        self.note: str | None = None
        self._links = links
        self._list_names = names
        self._named = frozenset(name_bytes(pattern) for pattern in patterns if not is_pattern(pattern))
        globs = dict.fromkeys(pattern for pattern in patterns if is_pattern(pattern))
        self._globs = tuple(name_bytes(glob) for pattern in globs for glob in _globs_of(pattern, names))
        # How many searches have not found each of those that were found.
        self._missed: dict[bytes, int] = {}
        self.names = self._named

    @property
    def searches(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._globs)

    async def search(
        self, *, pause_s: float = 0.0, steps_max: int | None = STEPS_MAX, told: Told | None = None
    ) -> bool:
        """Look through the keys of the server, of a cluster's every node, and tell whether it came to the end.

        What it finds is known at once. It rests for ``pause_s`` between steps; ``steps_max`` is for each server and
        pattern, None for no end. ``told`` is called after each. Raises redis-py's errors.
        """
        found: set[bytes] = set()
        passed = count(SCAN_COUNT, SCAN_COUNT)

        def stepped() -> None:
            if told is not None:
                told(next(passed), len(self.names))

        note: str | None = None
        if self._globs:
            for link in await self._links.everywhere():
                for glob in self._globs:
                    note = await self._walk(link, glob, found, pause_s, steps_max, stepped) or note
        self.note = note
        if note is None:
            self._forget_others(found)
        return note is None

    async def _walk(
        self,
        link: Link,
        glob: bytes,
        found: set[bytes],
        pause_s: float,
        steps_max: int | None,
        stepped: Callable[[], None],
    ) -> str | None:
        """Add what one server holds, and say why not all of it."""
        cursor: int | bytes = 0
        steps = 0
        while steps_max is None or steps < steps_max:
            (reply,) = await link.runner.commands(("SCAN", cursor, "MATCH", glob, "COUNT", SCAN_COUNT, "TYPE", "list"))
            if isinstance(reply, ResponseError) and failure_of(reply).kind in ("noperm", "error"):
                told = " ".join(str(reply).split())
                return f"the server refused the search for lists ({told}): only lists given by name are shown"
            if isinstance(reply, Exception):
                raise reply
            cursor, keys = reply
            steps += 1
            if not self._add(keys, found):
                return f"there are more than {LISTS_MAX:,} lists: narrow the pattern {name_of(glob)}"
            stepped()
            if int(cursor) == 0:
                return None
            await asyncio.sleep(pause_s)
        return (
            f"the search for lists stopped after about {steps * SCAN_COUNT:,} keys: name the lists, or narrow "
            "the pattern"
        )

    def _add(self, keys: Iterable[bytes], found: set[bytes]) -> bool:
        queues = {self._queue_of(key) for key in keys}
        found |= queues
        if queues <= self.names:
            return True
        room = LISTS_MAX - len(self.names)
        new = sorted(queues - self.names)[: max(0, room)]
        self._missed |= dict.fromkeys(new, 0)
        self.names |= frozenset(new)
        return queues <= self.names

    def _queue_of(self, key: bytes) -> bytes:
        owner = self._list_names.owner(name_of(key))
        return key if owner is None else name_bytes(owner)

    def _forget_others(self, found: set[bytes]) -> None:
        """Forget those that have been gone for long."""
        self._missed = {name: 0 if name in found else missed + 1 for name, missed in self._missed.items()}
        gone = {name for name, missed in self._missed.items() if missed >= KEPT_SEARCHES}
        if gone:
            for name in gone:
                del self._missed[name]
            self.names = (self.names - gone) | self._named


def _globs_of(pattern: str, names: ListNames) -> list[str]:
    """Return the pattern itself, and the one of processing lists where it does not cover them: they may be all that is
    left of a queue.
    """
    processing = _as_glob(names, pattern)
    before, _, _ = names.processing.partition("{queue}")
    covered = pattern.endswith("*") and "{queue}" in names.processing and not before
    return [pattern] if covered or processing == pattern else [pattern, processing]


def processing_glob(names: ListNames) -> str:
    """Return the glob that means all processing lists."""
    return _as_glob(names, "*")


def _as_glob(names: ListNames, pattern: str) -> str:
    """Put a pattern into the template of processing lists, whose own text stands for itself."""
    for placeholder in ("{queue}", "{name}"):
        before, found, after = names.processing.partition(placeholder)
        if found:
            inner = pattern if placeholder == "{queue}" else "*"
            return _SPECIAL.sub(r"\\\1", before) + inner + _SPECIAL.sub(r"\\\1", after)
    return pattern
