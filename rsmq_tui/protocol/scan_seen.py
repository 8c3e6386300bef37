"""What a scan has returned already, in little memory."""

from array import array
from collections.abc import Sequence
from itertools import chain, compress

WINDOW_IDS = 65_536
# A table holds at most 35 messages a bucket in Valkey, 5 in Redis, and twice as many while it grows.
_BUCKET_MAX = 128


class Seen:
    """What a scan has returned, so that it is not returned again.

    A table that shrinks to some buckets has the scan go back to the start of one of these. What had been returned of
    it lies among the last ``window`` ids, except where a deep queue shrank to next to nothing: only then the hashes of
    all ids are asked.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent: set[bytes] = set()
        # The same as it came, to tell afterwards what was there before.
        self._came: list[Sequence[bytes]] = []
        self._before: set[bytes] = set()
        self._hashes: list[array[int]] = []
        self._deepest = 0

    def fresh(self, found: Sequence[bytes], depth: int) -> list[bool] | None:
        """Tell which of these ids are new, or None for all; the queue held ``depth`` messages at that moment."""
        self._deepest = max(self._deepest, depth)
        recent, before = self._recent, self._before
        count = len(recent)
        # Most ids are new: to add them and look how many came to it takes a third of the time of asking for each first.
        recent.update(found)
        collapsed = bool(self._hashes) and depth * self._window <= _BUCKET_MAX * self._deepest
        fresh: list[bool] | None = None
        if collapsed or len(recent) < count + len(found) or not before.isdisjoint(found):
            recent = self._recent = set(chain.from_iterable(self._came))
            old = self._old(found) if collapsed else set()
            fresh = []
            for id in found:
                is_fresh = id not in recent and id not in before and hash(id) not in old
                if is_fresh:
                    recent.add(id)
                fresh.append(is_fresh)
            found = list(compress(found, fresh))
        self._came.append(found)
        if len(recent) >= self._window:
            # Python's hash of bytes has 64 bits and a secret of this process: nobody can make two ids collide.
            self._hashes.append(array("q", map(hash, before)))
            self._before, self._recent, self._came = recent, set(), []
        return fresh

    def _old(self, ids: Sequence[bytes]) -> set[int]:
        wanted = {hash(id) for id in ids}
        return {old for run in self._hashes for old in wanted.intersection(run)} if wanted else wanted
