"""Looking at the keys of one list queue and at its leases, member by member, for those who compare them."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from hashlib import sha1
from typing import NamedTuple

from rsmq_tui.protocol.lists.item_ids import item_sha, leased_item
from rsmq_tui.protocol.lists.looking import ask, list_keys, telling_wrong_types
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.running import ScriptRunner
from rsmq_tui.protocol.scan import CHUNK_MESSAGES, CHUNK_MESSAGES_MIN, SCAN_BODY_BYTES

_SHOWN_BYTES = 22


class LeaseMember(NamedTuple):
    """A member of the leases: ``sha`` is that of its item, None where the member is of another form than ours.

    ``mark`` tells it from all others, ``token`` is what of it may be shown.
    """

    mark: bytes
    token: bytes
    sha: str | None
    score: bytes


@dataclass(frozen=True, slots=True)
class LeasePage:
    """Some members, in no order, as they were at ``at_ms``."""

    at_ms: int
    members: tuple[LeaseMember, ...]


class KeyTypes(NamedTuple):
    """What Redis says that the keys of a list queue hold; ``none`` where there is no such key."""

    queue: str
    processing: str
    leases: str


class ListLeases:
    """Reads types and leases of list queues; raises ``wrongType`` where the leases are something else."""

    def __init__(self, runner: ScriptRunner, names: ListNames) -> None:
        self._runner = runner
        self._names = names

    async def types(self, queue: str) -> KeyTypes:
        """Return what the three keys hold."""
        # On a cluster each of them may be elsewhere.
        found = [(await ask(self._runner, ("TYPE", key)))[0] for key in list_keys(self._names, queue)]
        return KeyTypes(*(bytes(each).decode("latin-1") for each in found))

    async def processing(self, queue: str) -> int:
        """Return how many items are in processing."""
        with telling_wrong_types():
            (found,) = await ask(self._runner, ("LLEN", list_keys(self._names, queue)[1]))
        return int(found)

    async def pages(self, queue: str) -> AsyncGenerator[LeasePage, None]:
        """Yield all leases; one may come twice, and what comes and goes meanwhile or not."""
        key = list_keys(self._names, queue)[2]
        cursor, count = b"0", CHUNK_MESSAGES_MIN
        while True:
            at_ms, cursor, found = await self._page(key, cursor, count)
            scores = zip(found[::2], found[1::2], strict=True)
            yield LeasePage(at_ms, tuple(_member(member, score) for member, score in scores))
            if int(cursor) == 0:
                return
            longest = max(map(len, found[::2]), default=1)
            count = max(CHUNK_MESSAGES_MIN, min(CHUNK_MESSAGES, SCAN_BODY_BYTES // (longest or 1)))

    async def _page(self, key: bytes, cursor: bytes, count: int) -> tuple[int, bytes, list[bytes]]:
        with telling_wrong_types():
            (cursor, found), clock = await ask(self._runner, ("ZSCAN", key, cursor, "COUNT", count), ("TIME",))
        return clock_ms(clock), cursor, found


def _member(member: bytes, score: bytes) -> LeaseMember:
    item = leased_item(member)
    mark = sha1(member, usedforsecurity=False).digest()
    return LeaseMember(mark, member[:_SHOWN_BYTES], None if item is None else item_sha(item), score)
