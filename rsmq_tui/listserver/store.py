"""The data of the server: databases of keys with values and expiry times.

A value is one of Python's own: ``bytes`` is a string, ``deque`` a list, ``dict`` a hash, ``set`` a set; a sorted set
is ``SortedSet``. A key whose value is empty does not exist.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from rsmq_tui.listserver.resp import CommandError

# From so many keys with an expiry time on, those that have expired are looked for.
_SWEEP_FROM = 1_000
_WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"

List = deque[bytes]
Hash = dict[bytes, bytes]
Set = set[bytes]


class SortedSet:
    """Members in the order of their scores, and of their bytes if scores are equal."""

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self.scores)

    def __contains__(self, member: bytes) -> bool:
        return member in self.scores

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.scores)

    def add(self, member: bytes, score: float) -> None:
        """Add a member, or give it another score."""
        self.discard(member)
        self.scores[member] = score
        insort(self.order, (score, member))

    def discard(self, member: bytes) -> bool:
        """Remove a member; return whether it was there."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True

    def rank(self, member: bytes, *, backwards: bool = False) -> int | None:
        """Return how many members come before this one, or None if it is not there."""
        score = self.scores.get(member)
        if score is None:
            return None
        rank = bisect_left(self.order, (score, member))
        return len(self) - 1 - rank if backwards else rank


Value = bytes | List | Hash | Set | SortedSet
V = TypeVar("V", bytes, List, Hash, Set, SortedSet)

TYPES: dict[type, str] = {bytes: "string", deque: "list", dict: "hash", set: "set", SortedSet: "zset"}


class Database:
    """The keys of one database.

    ``on_change(key)`` is called after each change of a key, for clients that watch it or wait for it.
    """

    def __init__(self, now_ms: Callable[[], int], on_change: "Callable[[Database, bytes], None]") -> None:
        self.index = 0
        self.values: dict[bytes, Value] = {}
        self.expires_ms: dict[bytes, int] = {}
        self._sweep_from = _SWEEP_FROM
        self._now_ms = now_ms
        self._on_change = on_change

    def get(self, key: bytes) -> Value | None:
        """Return the value of a key, of any type."""
        expires_ms = self.expires_ms.get(key) if self.expires_ms else None
        if expires_ms is not None and expires_ms <= self._now_ms():
            self._forget(key)
            self._on_change(self, key)
            return None
        return self.values.get(key)

    def typed(self, key: bytes, kind: type[V]) -> V | None:
        """Return the value of a key; raises ``CommandError`` (WRONGTYPE) if it is of another type."""
        value: Any = self.get(key)
        if value is not None and type(value) is not kind:
            raise CommandError(_WRONG_TYPE)
        return value

    def made(self, key: bytes, kind: type[V]) -> V:
        """Return the value of a key, a new and empty one if there is none."""
        value = self.typed(key, kind)
        if value is None:
            value = kind()
            self.values[key] = value
        return value

    def put(self, key: bytes, value: Value, expires_ms: int | None = None) -> None:
        """Store a value in place of what the key holds."""
        self.values[key] = value
        if expires_ms is None:
            self.expires_ms.pop(key, None)
        else:
            self.expires_ms[key] = expires_ms
            if len(self.expires_ms) >= self._sweep_from:
                self._remove_expired()
                # So it costs little for each key, even if none has expired.
                self._sweep_from = max(_SWEEP_FROM, 2 * len(self.expires_ms))
        self._on_change(self, key)

    def changed(self, key: bytes) -> None:
        """Report a change of a key's value; remove the key if the value is empty."""
        if not self.values[key]:
            self._forget(key)
        self._on_change(self, key)

    def delete(self, key: bytes) -> bool:
        """Remove a key; return whether it was there."""
        if self.get(key) is None:
            return False
        self._forget(key)
        self._on_change(self, key)
        return True

    def _forget(self, key: bytes) -> None:
        del self.values[key]
        self.expires_ms.pop(key, None)

    def names(self) -> list[bytes]:
        """Return the names of all keys that have not expired."""
        self._remove_expired()
        return list(self.values)

    def _remove_expired(self) -> None:
        for key in list(self.expires_ms):
            self.get(key)

    def clear(self) -> None:
        """Remove all keys."""
        keys = self.names()
        self.values.clear()
        self.expires_ms.clear()
        for key in keys:
            self._on_change(self, key)


def span(values: List | list[tuple[float, bytes]], start: int, stop: int) -> range:
    """Return the positions from ``start`` to ``stop``, both included; negative ones count from the end."""
    size = len(values)
    start = max(start + size, 0) if start < 0 else start
    stop = stop + size if stop < 0 else min(stop, size - 1)
    return range(start, stop + 1)


def slice_of(values: List, positions: Iterable[int]) -> list[bytes]:
    """Return the elements of a range of positions, read from the nearer end of the list."""
    assert isinstance(positions, range)
    start, stop = positions.start, positions.stop
    if len(positions) == 0:
        return []
    if start <= len(values) - stop:
        return list(islice(values, start, stop))
    found = list(islice(reversed(values), len(values) - stop, len(values) - start))
    found.reverse()
    return found


class Cursors:
    """The cursors of SCAN: each is the rest of a list of names.

    An element that stays during a scan is returned. With an unknown cursor the scan starts again, which SCAN allows:
    elements may be returned more than once.
    """

    LIMIT = 256

    def __init__(self) -> None:
        self._rests: dict[int, Iterator[bytes]] = {}
        self._last = 0

    def page(self, cursor: int, names: Callable[[], Iterable[bytes]], count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, 0 at the end, and about ``count`` names."""
        rest = self._rests.pop(cursor, None)
        if rest is None:
            rest = iter(list(names()))
        page = list(islice(rest, count))
        if len(page) < count:
            return 0, page
        self._last += 1
        self._rests[self._last] = rest
        if len(self._rests) > self.LIMIT:
            del self._rests[next(iter(self._rests))]
        return self._last, page
