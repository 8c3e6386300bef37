"""The connection that polls read over: on it the server tells which keys have changed since they were read.

CLIENT TRACKING remembers each key that is read here, in scripts too, and sends one message when it changes; then
nothing more of it until it is read again. Replies and these messages come in the order in which things happened, so
that after the reply to TIME nothing that changed before is untold. Where a server does not do this, the connection is
one as any other.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis import exceptions
from redis.asyncio import Redis

from rsmq_tui.protocol.failures import SERVER_ERRORS
from rsmq_tui.protocol.metering import Traffic
from rsmq_tui.protocol.replies import decode_all, decode_clock
from rsmq_tui.protocol.reply_limits import POLL_REPLY_BYTES_MAX
from rsmq_tui.protocol.routes import has_moved

# Older servers remember all the keys that a script was given each time that it reads one of them.
_TRACKS_SCRIPTS_FROM = (7, 2)
_UNTOLD_MAX = 3
_CLOSED = "the connection was closed"


class TrackedConnection:
    """One connection of its own beside a client's pool; it is made by ``begin``, and made anew when it broke.

    ``tracks`` tells whether the server says what changed. ``epoch`` is another number whenever nothing that was read
    before can be relied on: after a new connection, or when a whole database was emptied.
    """

    def __init__(self, client: Redis, traffic: Traffic) -> None:
        self.tracks = False
        self.epoch = 0
        self.changed: set[bytes] = set()
        self._pool = client.connection_pool
        self._traffic = traffic
        self._connection: Any = None
        self._refused = False
        self._untold = 0
        self._sending = asyncio.Lock()
        self._turn = asyncio.Event()
        self._turn.set()

    async def begin(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send the first commands of a poll, as ``commands``; a connection that died in between is replaced.

        So is one to a server of a cluster that has given the keys away.
        """
        connection = self._connection
        if connection is not None and (self.tracks or self._refused) and not connection.should_reconnect():
            with suppress(exceptions.ConnectionError):
                replies = await self.commands(*commands)
                if not has_moved(replies):
                    return replies
        await self._renew()
        return await self.commands(*commands)

    async def commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send commands in one round trip; a command's own error is its result, not an exception.

        Calls may overlap: each gets its own replies.
        """
        self._traffic.commands += len(commands)
        connection = self._connection
        replies = await self._exchange(*commands)
        try:
            return decode_all(commands, replies)
        except exceptions.InvalidResponse:
            # What comes next may be the replies to what was asked before.
            await self._close(connection)
            raise

    def take_changed(self) -> set[bytes]:
        """Return the keys that changed since this was last asked."""
        changed, self.changed = self.changed, set()
        return changed

    def distrust(self) -> None:
        """Take note that a key changed and the server did not tell: if that happens often, do not rely on it."""
        self._forget()
        self._untold += 1
        if self._untold >= _UNTOLD_MAX:
            self._refused, self.tracks = True, False

    async def aclose(self) -> None:
        """Close the connection."""
        connection = self._connection
        self._connection = None
        self.tracks = False
        self._forget()
        if connection is not None:
            await connection.disconnect()

    async def _renew(self) -> None:
        await self._open()
        # What is wrong with the server should be told as it is of any command.
        (clock,) = await self._exchange(("TIME",))
        if isinstance(clock, Exception):
            raise clock
        decode_clock(clock)
        if self._refused:
            return
        try:
            self.tracks = await self._ask_to_track()
        except SERVER_ERRORS:
            # A proxy may hang up on what it does not know.
            await self._open()
            self.tracks = False
        self._refused = not self.tracks

    async def _open(self) -> None:
        await self._close(self._connection)
        connection: Any = self._pool.connection_class(**self._pool.connection_kwargs)
        await connection.connect()
        reader = connection._parser._reader
        reader.take_push, reader.bytes_max = self._take_push, POLL_REPLY_BYTES_MAX
        self._connection = connection

    async def _ask_to_track(self) -> bool:
        # Only in RESP3 can messages come between replies. It is asked for here and not by redis-py, so that a server
        # which does not know it is none the less connected to.
        (hello,) = await self._exchange(("HELLO", 3))
        if not isinstance(hello, dict) or _version(hello) < _TRACKS_SCRIPTS_FROM:
            return False
        (tracking,) = await self._exchange(("CLIENT", "TRACKING", "ON"))
        return bool(tracking == b"OK")

    async def _exchange(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        connection = self._connection
        if connection is None:
            raise exceptions.ConnectionError(_CLOSED)
        mine = asyncio.Event()
        try:
            async with self._sending:
                if self._connection is not connection:
                    raise exceptions.ConnectionError(_CLOSED)
                packed = [part for command in commands for part in connection.pack_command(*command)]
                await connection.send_packed_command(packed, check_health=False)
                before, self._turn = self._turn, mine
            await before.wait()
            return [await _reply(connection) for _ in commands]
        except BaseException:
            # Replies may be left on it that nobody waits for.
            await self._close(connection)
            raise
        finally:
            mine.set()

    async def _close(self, connection: Any) -> None:
        if connection is None:
            return
        if self._connection is connection:
            self._connection = None
            self.tracks = False
            self._forget()
        await connection.disconnect(nowait=True)

    def _forget(self) -> None:
        self.epoch += 1

    def _take_push(self, push: list[Any]) -> None:
        # Pushed messages of other kinds were not asked for.
        if len(push) != 2 or push[0] != b"invalidate":
            return
        keys = push[1]
        if keys is None:
            self._forget()
        elif type(keys) is list:
            # Mostly one; a poll may be told of thousands.
            for key in keys:
                if type(key) is bytes:
                    self.changed.add(key)


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except exceptions.ResponseError as error:
        return error


def _version(hello: dict[bytes, Any]) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in hello[b"version"].split(b".")[:2])
    except (KeyError, ValueError, AttributeError):
        return ()
