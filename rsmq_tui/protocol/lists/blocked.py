"""Who is waiting on lists: the clients that the server has blocked, asked for on demand only.

CLIENT LIST tells that a client waits and with which command, not on which keys: no reply of Redis tells that. What is
counted here waits on some list of this database, not on a queue that could be named.
"""

import re
from typing import NamedTuple

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.operations import Operation
from rsmq_tui.protocol.replies import decode_blob, decoded
from rsmq_tui.protocol.runner import AsyncRunner, Runner

_WAITING = frozenset(("blpop", "brpop", "blmove", "brpoplpush", "blmpop"))
# Names hold no space: the server does not let a client give itself one that does.
_FIELD = re.compile(r"([a-z-]+)=([^ ]*)")


class BlockedConsumer(NamedTuple):
    """A client that waits: ``command`` is what it waits with, ``waited_s`` for how long; ``name`` is its own word."""

    id: int
    address: str
    name: str
    command: str
    waited_s: int


# What to ask: which database this connection is in, and who is connected.
COMMANDS: tuple[tuple[str, ...], ...] = (("CLIENT", "INFO"), ("CLIENT", "LIST", "TYPE", "NORMAL"))


def read_blocked(info: bytes, clients: bytes) -> list[BlockedConsumer]:
    """Read the replies to ``COMMANDS``: who waits on lists of that database, the longest first."""
    return decoded(_read, (info, clients))


def _read(replies: tuple[bytes, bytes]) -> list[BlockedConsumer]:
    info, clients = replies
    database = _fields(name_of(info)).get("db")
    found = []
    for line in name_of(clients).splitlines():
        fields = _fields(line)
        command = fields.get("cmd", "")
        if command in _WAITING and "b" in fields.get("flags", "") and fields.get("db") == database:
            found.append(
                BlockedConsumer(
                    int(fields["id"]), fields.get("addr", ""), fields.get("name", ""), command, int(fields["idle"])
                )
            )
    return sorted(found, key=lambda consumer: -consumer.waited_s)


def blocked_consumers(client: Redis) -> list[BlockedConsumer]:
    """Return who waits on lists of the database that a client is in, the longest first.

    The server sends a line for each of its clients. redis-py's exceptions say so where the user may not read them.
    """
    return _Asker(client).ask()


async def blocked_consumers_async(client: AsyncRedis) -> list[BlockedConsumer]:
    """As ``blocked_consumers``, for asyncio."""
    return await _AsyncAsker(client).ask()


class _Asker(Runner):
    def ask(self) -> list[BlockedConsumer]:
        return read_blocked(*(self._run(each) for each in _asking()))


class _AsyncAsker(AsyncRunner):
    async def ask(self) -> list[BlockedConsumer]:
        return read_blocked(*[await self._run(each) for each in _asking()])


def _asking() -> list[Operation[bytes]]:
    return [Operation(None, (), command, decode_blob) for command in COMMANDS]


def _fields(line: str) -> dict[str, str]:
    return dict(_FIELD.findall(line))
