"""Incremental polls of all queues: a row cache, and CLIENT TRACKING, which reports the keys that changed.

Rows are read in chunks, and only if they may have changed. A queue keeps its cached row if its keys have not changed
and the passing of time alone cannot change it. A chunk of 250 queues holds the server for about 2 ms (two cores,
loopback). Where scripts are refused, the same rows are read by a pipeline of plain commands.

On the tracked connection the server remembers each key that is read, in scripts too, and sends one message when the key
changes; then nothing more until it is read again. Replies and these messages arrive in the order of events: after the
reply to TIME, every earlier change has been reported. Where a server does not support this, every row is read each
time.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, Protocol

from redis import exceptions
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ResponseError

from rsmq_tui.protocol.connections.connect import POLL_REPLY_BYTES_MAX, Traffic, reader_of
from rsmq_tui.protocol.connections.script_runner import Call, ScriptRunner, ScriptsRefusedError, read_reply
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import SERVER_ERRORS
from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.replies import decode_all, decode_clock, misshapen
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.protocol.rsmq.scripts import Row, Script

# What a server may fail to tell is found after so many polls: each poll also reads this part of all queues.
FULL_EVERY = 30

QueueKeys = tuple[bytes, ...]


class RowCodec(Protocol):
    """How the queues of one kind lie in Redis, and how their rows are read."""

    @property
    def script(self) -> Script:
        """What reads the rows of many queues at once."""
        ...

    def keys(self, name: str) -> QueueKeys:
        """Return the keys of a queue, as many for each."""
        ...

    def calls(self, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int) -> Sequence[Call]:
        """Return the calls of the script that read these queues; their replies, lists of rows, are joined."""
        ...

    async def read_plainly(
        self, runner: ScriptRunner, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int
    ) -> list[Row]:
        """Read the rows of these queues by plain commands, as the script does."""
        ...

    def settle(self, name: str, row: Row, before: Row, now_ms: int) -> float:
        """Take off a row what does not belong to it, and return when, in ms, time alone will change it.

        0 is for a row that has to be read each time. ``before`` is the row of that queue until now, empty for none.
        Raises ``InvalidResponse`` for what is no row.
        """
        ...

    def is_row(self, row: Row) -> bool:
        """Tell whether a settled row holds what it has to hold."""
        ...


class RowCache:
    """The queues of one layout, in the order of their names, and their rows as last read."""

    def __init__(self, layout: RowCodec) -> None:
        self.names: tuple[str, ...] = ()
        self.rows: list[Row] = []
        self._layout = layout
        self._raw_names: frozenset[bytes] = frozenset()
        self._keys: list[QueueKeys] = []
        # Apart, since one queue's messages may be another one's attributes: those of ``a:Q`` and of ``a``.
        self._by_key: list[dict[bytes, int]] = []
        # When a row has to be read again, in ms: 0 is now, whatever the time.
        self._from_ms: list[float] = []
        self._next = 0
        self._last_ms = 0

    @property
    def begins_anew(self) -> bool:
        """Whether all queues have been read in full since this was last so."""
        return self._next >= len(self.names)

    def keep(self, raw_names: frozenset[bytes]) -> None:
        """Know these queues and no others."""
        if raw_names is self._raw_names or raw_names == self._raw_names:
            return
        before = dict(zip(self.names, zip(self.rows, self._from_ms, strict=True), strict=True))
        unknown: tuple[Row, float] = ([], 0)
        self._raw_names = raw_names
        self.names = tuple(name_of(name) for name in sorted(raw_names))
        known = [before.get(name, unknown) for name in self.names]
        self.rows = [row for row, _ in known]
        self._from_ms = [from_ms for _, from_ms in known]
        self._keys = [self._layout.keys(name) for name in self.names]
        columns = zip(*self._keys, strict=True)
        self._by_key = [{key: position for position, key in enumerate(column)} for column in columns]

    def forget(self) -> None:
        """Ask about every queue again."""
        self._from_ms = [0] * len(self.names)

    def mark_changed(self, keys: Iterable[bytes]) -> None:
        """Ask about the queues of these keys again."""
        from_ms = self._from_ms
        for key in keys:
            for positions in self._by_key:
                position = positions.get(key)
                if position is not None:
                    from_ms[position] = 0

    def to_ask(self, now_ms: int) -> list[int]:
        """Return the positions of the queues that have to be read at that server time, in order."""
        if now_ms < self._last_ms:
            # What time had brought about is undone.
            self.forget()
        self._last_ms = now_ms
        due = [position for position, from_ms in enumerate(self._from_ms) if from_ms <= now_ms]
        if len(due) == len(self.names):
            return due
        start = 0 if self.begins_anew else self._next
        self._next = start + ceil(len(self.names) / FULL_EVERY)
        return sorted({*due, *range(start, min(self._next, len(self.names)))})

    def names_of(self, positions: Iterable[int]) -> list[str]:
        """Return the names of these queues."""
        return [self.names[position] for position in positions]

    def keys_of(self, positions: Iterable[int]) -> list[QueueKeys]:
        """Return the keys of each of these queues."""
        return [self._keys[position] for position in positions]

    def take(self, positions: Sequence[int], reply: list[Row], now_ms: int) -> list[bytes]:
        """Take the rows of these queues; a row that is as before stays the same object.

        Returns the keys of the queues whose rows changed although neither a message nor the time said so.
        """
        if len(reply) != len(positions):
            raise misshapen("other rows than those asked for")
        rows, from_ms, names, settle = self.rows, self._from_ms, self.names, self._layout.settle
        untold: list[bytes] = []
        for position, row in zip(positions, reply, strict=True):
            before = rows[position]
            due_ms = settle(names[position], row, before, now_ms)
            if row != before:
                if not self._layout.is_row(row):
                    raise misshapen("in the row of a queue")
                if from_ms[position] > now_ms:
                    untold += self._keys[position]
                rows[position] = row
            from_ms[position] = due_ms
        return untold


# Older servers remember all the keys that a script was given each time that it reads one of them.
_TRACKS_SCRIPTS_FROM = (7, 2)
_UNTOLD_MAX = 3
_CLOSED = "the connection was closed"


class TrackedConnection:
    """One connection of its own beside a client's pool; it is made by ``begin``, and made anew when it broke.

    ``tracks`` tells whether the server says what changed. ``epoch`` is another number whenever nothing that was read
    before can be relied on: after a new connection, or when a whole database was emptied.
    """

    def __init__(self, client: AsyncRedis, traffic: Traffic) -> None:
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
        reader = reader_of(connection)
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
            return [await read_reply(connection) for _ in commands]
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


def _version(hello: dict[bytes, Any]) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in hello[b"version"].split(b".")[:2])
    except (KeyError, ValueError, AttributeError):
        return ()


CHUNK_QUEUES = 250
CHUNKS_IN_FLIGHT = 6


@dataclass(frozen=True, slots=True)
class Index:
    """The names of all queues at one moment: ``at_ms`` is the server's clock, ``problem`` why they cannot be read."""

    at_ms: int
    names: tuple[str, ...]
    problem: str | None = None


class IncrementalPoll:
    """Reads the rows of the queues that are known; a poll learns first what changed. Polls may not overlap."""

    def __init__(self, connection: TrackedConnection, runner: ScriptRunner, layout: RowCodec) -> None:
        self._connection = connection
        self._runner = runner
        self._layout = layout
        self._known = RowCache(layout)
        self._epoch: int | None = None

    async def rows(self, now_ms: int) -> AsyncGenerator[tuple[Sequence[str], list[Row]]]:
        """Give the rows of all queues, in the order of their names, as they come.

        A few chunks are under way at once, each as a round trip of its own, so that the server works while the caller
        reads what came. A row that did not change is the same object as before.
        """
        known = self._known
        chunks = chunked(known.to_ask(now_ms), CHUNK_QUEUES)
        pending: deque[tuple[list[int], asyncio.Task[list[Row]]]] = deque()
        start = 0
        try:
            for chunk in islice(chunks, CHUNKS_IN_FLIGHT):
                pending.append((chunk, asyncio.create_task(self._read(chunk, now_ms))))
            while pending:
                asked, coming = pending[0]
                reply = await coming
                pending.popleft()
                for chunk in islice(chunks, 1):
                    pending.append((chunk, asyncio.create_task(self._read(chunk, now_ms))))
                    # The question goes out before this answer is read: else the server and we would take turns.
                    await asyncio.sleep(0)
                await self._take(asked, reply, now_ms)
                end = asked[-1] + 1 if pending else len(known.names)
                yield known.names[start:end], known.rows[start:end]
                start = end
            if start < len(known.names):
                yield known.names[start:], known.rows[start:]
        finally:
            for _, task in pending:
                task.cancel()
            await asyncio.gather(*(task for _, task in pending), return_exceptions=True)

    def _learn_what_changed(self) -> set[bytes] | None:
        """Mark the queues that have to be read again, and return the keys that changed; None when all may have."""
        connection = self._connection
        changed = connection.take_changed()
        all_may_have = self._epoch != connection.epoch or not connection.tracks
        self._epoch = connection.epoch
        if all_may_have or self._runner.refused:
            # Plain commands go over connections on which nothing is told.
            self._known.forget()
        self._known.mark_changed(changed)
        return None if all_may_have else changed

    async def _read(self, asked: list[int], now_ms: int) -> list[Row]:
        layout, names, keys = self._layout, self._known.names_of(asked), self._known.keys_of(asked)
        try:
            calls = layout.calls(names, keys, now_ms)
            replies = await self._runner.run_many(layout.script, calls, self._connection.commands)
        except ScriptsRefusedError:
            return await layout.read_plainly(self._runner, names, keys, now_ms)
        return [row for reply in replies for row in reply]

    async def _take(self, asked: list[int], reply: list[Row], now_ms: int) -> None:
        untold = self._known.take(asked, reply, now_ms)
        if untold and self._connection.changed.isdisjoint(untold):
            self._connection.distrust()


def as_data(reply: Any) -> Any:
    """Turn a command's error into its text, as the scripts do; what no row can explain is raised."""
    if isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply):
        return str(reply).encode()
    if isinstance(reply, Exception):
        raise reply
    return reply
