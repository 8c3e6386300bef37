"""Inspects list queues: their key types and leases, and the clients that wait.

CLIENT LIST of Redis and Valkey reports that a client is blocked and on which command, but not on which keys. So the
number of waiting clients is that of a whole database, and is read on demand only. ``rsmq_tui.listserver`` reports the
keys as well.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from hashlib import sha1
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.lists.naming import ListNames, item_sha, leased_item
from rsmq_tui.protocol.lists.pages import list_keys
from rsmq_tui.protocol.replies import clock_ms, decoded
from rsmq_tui.protocol.rsmq.scan import CHUNK_MESSAGES, CHUNK_MESSAGES_MIN, SCAN_BODY_BYTES
from rsmq_tui.protocol.server.clients import fields_of

_SHOWN_BYTES = 22


class LeaseMember(NamedTuple):
    """A member of the leases: ``sha`` is the SHA1 of its item, None if the member has another form than ours.

    ``mark`` identifies the member, ``token`` is the part of it that may be shown.
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
    """The types of a list queue's keys, as TYPE returns them; ``none`` for a key that does not exist."""

    queue: str
    processing: str
    leases: str


class ListLeases:
    """Reads types and leases of list queues; raises ``wrongType`` if the leases are another type."""

    def __init__(self, runner: ScriptRunner, names: ListNames) -> None:
        self._runner = runner
        self._names = names

    async def types(self, queue: str) -> KeyTypes:
        """Return the types of the three keys."""
        # In a cluster each may be on another node.
        found = [(await self._runner.ask(("TYPE", key)))[0] for key in list_keys(self._names, queue)]
        return KeyTypes(*(bytes(each).decode("latin-1") for each in found))

    async def processing(self, queue: str) -> int:
        """Return how many items are in processing."""
        (found,) = await self._runner.ask(("LLEN", list_keys(self._names, queue)[1]))
        return int(found)

    async def pages(self, queue: str) -> AsyncGenerator[LeasePage, None]:
        """Yield all leases; one may come twice, and those added or removed meanwhile may be missing."""
        key = list_keys(self._names, queue)[2]
        cursor, count = b"0", CHUNK_MESSAGES_MIN
        while True:
            (cursor, found), clock = await self._runner.ask(("ZSCAN", key, cursor, "COUNT", count), ("TIME",))
            scores = zip(found[::2], found[1::2], strict=True)
            yield LeasePage(clock_ms(clock), tuple(_member(member, score) for member, score in scores))
            if int(cursor) == 0:
                return
            longest = max(map(len, found[::2]), default=1)
            count = max(CHUNK_MESSAGES_MIN, min(CHUNK_MESSAGES, SCAN_BODY_BYTES // (longest or 1)))


def _member(member: bytes, score: bytes) -> LeaseMember:
    item = leased_item(member)
    mark = sha1(member, usedforsecurity=False).digest()
    return LeaseMember(mark, member[:_SHOWN_BYTES], None if item is None else item_sha(item), score)


_WAITING = frozenset(("blpop", "brpop", "blmove", "brpoplpush", "blmpop"))


class BlockedConsumer(NamedTuple):
    """A client that waits with ``command``, for ``waited_s`` seconds so far; ``name`` is set by the client.

    ``keys`` are the lists that it waits for, None if the server does not report them.
    """

    id: int
    address: str
    name: str
    command: str
    waited_s: int
    keys: frozenset[bytes] | None = None


# For the database of this connection, and for all clients.
COMMANDS: tuple[tuple[str, ...], ...] = (("CLIENT", "INFO"), ("CLIENT", "LIST", "TYPE", "NORMAL"))


def read_blocked(info: bytes, clients: bytes) -> list[BlockedConsumer]:
    """Decode the replies to ``COMMANDS``: the clients that wait for lists of the database, the longest wait first."""
    return decoded(_read, (info, clients))


def _read(replies: tuple[bytes, bytes]) -> list[BlockedConsumer]:
    info, clients = replies
    database = fields_of(name_of(info)).get("db")
    found = []
    for line in name_of(clients).splitlines():
        fields = fields_of(line)
        command = fields.get("cmd", "")
        if command in _WAITING and "b" in fields.get("flags", "") and fields.get("db") == database:
            address, name, keys = fields.get("addr", ""), fields.get("name", ""), fields.get("wait-keys")
            waited_s = int(fields["idle"] if keys is None else fields["wait-ms"]) // (1 if keys is None else 1000)
            lists = None if keys is None else frozenset(map(unquote_to_bytes, keys.split(",")))
            found.append(BlockedConsumer(int(fields["id"]), address, name, command, waited_s, lists))
    return sorted(found, key=lambda consumer: -consumer.waited_s)
