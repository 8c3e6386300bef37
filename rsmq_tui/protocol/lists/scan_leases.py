"""Whose lease runs until when, for all that is in processing: read once, and again for what has none."""

from collections.abc import Sequence

from rsmq_tui.protocol.lists.item_ids import UNKNOWN_LEASE_SCORE, UNLEASED_SCORE, leased_item
from rsmq_tui.protocol.lists.looking import ask, telling_wrong_types
from rsmq_tui.protocol.running import ScriptRunner
from rsmq_tui.protocol.scan import CHUNK_MESSAGES, CHUNK_MESSAGES_MIN, SCAN_BODY_BYTES

# 60 bytes of memory each. Of more no deadlines are told.
LEASES_MAX = 200_000


class LeaseBook:
    """Deadlines by the bytes of items, each given once, the earliest first."""

    def __init__(self, runner: ScriptRunner, key: bytes) -> None:
        self._runner = runner
        self._key = key
        self._deadlines: dict[int, list[bytes]] = {}
        self._seen: set[int] = set()
        self._is_whole = True

    async def read(self) -> None:
        """Read all leases that were not read before."""
        cursor, count, fresh = b"0", CHUNK_MESSAGES_MIN, False
        with telling_wrong_types():
            while True:
                ((cursor, found),) = await ask(self._runner, ("ZSCAN", self._key, cursor, "COUNT", count))
                fresh = self._add(found) or fresh
                if int(cursor) == 0:
                    break
                if len(self._seen) >= LEASES_MAX:
                    self._is_whole = False
                    break
                longest = max(map(len, found[::2]), default=1)
                count = max(CHUNK_MESSAGES_MIN, min(CHUNK_MESSAGES, SCAN_BODY_BYTES // (longest or 1)))
        if fresh:
            for deadlines in self._deadlines.values():
                deadlines.sort(key=float, reverse=True)

    def take(self, mark: int) -> bytes | None:
        """Return a deadline for an item of that hash, or None where none is left."""
        deadlines = self._deadlines.get(mark)
        return deadlines.pop() if deadlines else None

    @property
    def missing(self) -> bytes:
        """What stands where an item has no deadline."""
        return UNLEASED_SCORE if self._is_whole else UNKNOWN_LEASE_SCORE

    def _add(self, found: Sequence[bytes]) -> bool:
        before = len(self._seen)
        for member, deadline in zip(found[::2], found[1::2], strict=True):
            known = hash(member)
            item = leased_item(member)
            if known not in self._seen and item is not None:
                self._seen.add(known)
                self._deadlines.setdefault(hash(item), []).append(deadline)
        return len(self._seen) > before
