"""Incremental polls of all queues: a row cache, and CLIENT TRACKING, which reports the keys that changed.

Rows are read in chunks, and only if they may have changed. A queue keeps its cached row if its keys have not changed
and the passing of time alone cannot change it; to find the queues that are due by ``DueTimes`` costs nothing for those
that are not. A chunk of 250 queues holds the server for about 2 ms (two cores, loopback). Where scripts are refused,
the same rows are read by a pipeline of plain commands.

On the tracked connection the server remembers each key that is read, in scripts too, and sends one message when the key
changes; then nothing more until it is read again. Replies and these messages arrive in the order of events: after the
reply to TIME, every earlier change has been reported. Where a server does not support this, every row is read each
time.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from math import ceil, inf
from typing import Any, NamedTuple, Protocol

from redis import exceptions
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import ResponseError

from rsmq_tui.protocol.connections.connect import Traffic, reader_of
from rsmq_tui.protocol.connections.reply_limits import POLL_REPLY_BYTES_MAX
from rsmq_tui.protocol.connections.script_runner import Call, ScriptRunner, ScriptsRefusedError, read_reply
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import SERVER_ERRORS
from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.replies import decode_all, decode_clock, misshapen
from rsmq_tui.protocol.rsmq.scripts import Row, Script

# Each poll also reads this fraction of all queues, so that changes that the server does not report are found; but of
# more than 10,000 queues no more than of 10,000, so that what a poll costs depends on the queues that change. If the
# server reports nothing, they are enough to find that out in a poll or two.
FULL_EVERY = 30
FULL_ROWS_MAX = ceil(10_000 / FULL_EVERY)

QueueKeys = tuple[bytes, ...]


class RowCodec(Protocol):
    """The keys of the queues of one kind, and how their rows are read and checked."""

    @property
    def script(self) -> Script:
        """The script that reads the rows of many queues at once."""
        ...

    def keys(self, name: str) -> QueueKeys:
        """Return the keys of a queue, the same number for each queue."""
        ...

    def calls(self, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int) -> Sequence[Call]:
        """Return the calls of the script that read these queues; their replies, lists of rows, are joined."""
        ...

    async def read_plainly(
        self, runner: ScriptRunner, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int
    ) -> list[Row]:
        """Read the rows of these queues by plain commands, as the script does."""
        ...

    def normalize(self, name: str, row: Row, before: Row, now_ms: int) -> float:
        """Remove extra elements from a row, and return when, in ms, time alone will change it.

        0 means that the row must be read in each poll. ``before`` is the last row of that queue, empty for none.
        Raises ``InvalidResponse`` for a malformed row.
        """
        ...

    def is_row(self, row: Row) -> bool:
        """Return whether a normalized row has the right form."""
        ...

    def changed_alike(self, row: Row) -> Row:
        """Return a row that is as before although the first key of its queue has changed; another one if that tells."""
        ...


class RowCache:
    """The queues of one kind, sorted by name, and their rows as last read."""

    def __init__(self, codec: RowCodec) -> None:
        self.names: tuple[str, ...] = ()
        self.rows: list[Row] = []
        self._codec = codec
        self._raw_names: frozenset[bytes] = frozenset()
        self._keys: list[QueueKeys] = []
        # One dict per key position, because the same key may be the zset of ``a:Q`` and the hash of ``a``.
        self._by_key: list[dict[bytes, int]] = []
        # When a row must be read again; 0 for at once.
        self._due = DueTimes()
        # The keys that the server has reported as changed since the last poll.
        self._changed: frozenset[bytes] = frozenset()
        self._are_all_due = False
        self._next = 0
        self._last_ms = 0

    @property
    def begins_anew(self) -> bool:
        """Whether the round of full reads over all queues is complete."""
        return self._next >= len(self.names)

    def keep(self, raw_names: frozenset[bytes]) -> None:
        """Set the queues; rows of those that stay are kept."""
        if raw_names is self._raw_names or raw_names == self._raw_names:
            return
        before = dict(zip(self.names, zip(self.rows, self._due, strict=True), strict=True))
        unknown: tuple[Row, float] = ([], 0)
        self._raw_names = raw_names
        self.names = tuple(name_of(name) for name in sorted(raw_names))
        known = [before.get(name, unknown) for name in self.names]
        self.rows = [row for row, _ in known]
        self._due = DueTimes(due_ms for _, due_ms in known)
        self._keys = [self._codec.keys(name) for name in self.names]
        columns = zip(*self._keys, strict=True)
        self._by_key = [{key: position for position, key in enumerate(column)} for column in columns]

    def forget(self) -> None:
        """Mark every queue to be read again."""
        self._are_all_due = True

    def mark_changed(self, keys: Iterable[bytes]) -> None:
        """Mark the queues of these keys to be read again."""
        self._changed = frozenset(keys)
        for key in self._changed:
            for positions in self._by_key:
                position = positions.get(key)
                if position is not None:
                    self._due.set(position, 0)

    def to_ask(self, now_ms: int) -> list[int]:
        """Return the positions of the queues that must be read at that server time, in order."""
        if now_ms < self._last_ms:
            # The clock went back: rows that changed by time may change back.
            self.forget()
        self._last_ms = now_ms
        if self._are_all_due:
            # Each row that is read says when it is due.
            self._due, self._are_all_due = DueTimes.all_taken(len(self.names)), False
            return list(range(len(self.names)))
        due = self._due.pop_due(now_ms)
        if len(due) == len(self.names):
            return due
        start = 0 if self.begins_anew else self._next
        self._next = start + min(ceil(len(self.names) / FULL_EVERY), FULL_ROWS_MAX)
        return sorted({*due, *range(start, min(self._next, len(self.names)))})

    def names_of(self, positions: Iterable[int]) -> list[str]:
        """Return the names of these queues."""
        return [self.names[position] for position in positions]

    def keys_of(self, positions: Iterable[int]) -> list[QueueKeys]:
        """Return the keys of each of these queues."""
        return [self._keys[position] for position in positions]

    def store(self, positions: Sequence[int], reply: list[Row], now_ms: int) -> list[bytes]:
        """Store the rows of these queues; a row that is equal to the one before stays the same object.

        Returns the keys of the queues whose rows changed although the server did not report it and it was not due.
        """
        if len(reply) != len(positions):
            raise misshapen("other rows than those asked for")
        rows, due, names, normalize = self.rows, self._due, self.names, self._codec.normalize
        unreported: list[bytes] = []
        for position, row in zip(positions, reply, strict=True):
            before = rows[position]
            due_ms = normalize(names[position], row, before, now_ms)
            if row == before and self._changed and self._keys[position][0] in self._changed:
                rows[position] = self._codec.changed_alike(before)
            elif row != before:
                if not self._codec.is_row(row):
                    raise misshapen("in the row of a queue")
                if due[position] > now_ms:
                    unreported += self._keys[position]
                rows[position] = row
            due.set(position, due_ms)
        return unreported


# Older servers track all keys of a script each time that it reads one of them.
_TRACKS_SCRIPTS_FROM = (7, 2)
_UNREPORTED_MAX = 3
_CLOSED = "the connection was closed"


class TrackedConnection:
    """A connection outside a pool, made by ``begin``, and again after it broke.

    ``tracks`` is True if the server reports changes. ``epoch`` changes when all earlier reads became invalid: after a
    new connection, or when a database was flushed.
    """

    def __init__(self, pool: ConnectionPool, traffic: Traffic) -> None:
        self.tracks = False
        self.epoch = 0
        self.changed: set[bytes] = set()
        self._pool = pool
        self._traffic = traffic
        self._connection: Any = None
        self._refused = False
        self._unreported = 0
        self._sending = asyncio.Lock()
        self._turn = asyncio.Event()
        self._turn.set()

    async def begin(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send the first commands of a poll, as ``commands``; a connection that broke since is replaced.

        So is one to a cluster node that no longer holds the keys.
        """
        connection = self._connection
        if connection is not None and (self.tracks or self._refused) and not connection.should_reconnect():
            with suppress(exceptions.ConnectionError):
                replies = await self.commands(*commands)
                if not has_moved(replies):
                    return replies
            self._traffic.replaced += 1
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
            # Replies to earlier commands may still arrive on it.
            await self._close(connection)
            raise

    def pop_changed(self) -> set[bytes]:
        """Return the keys that changed since the last call."""
        changed, self.changed = self.changed, set()
        return changed

    def distrust(self) -> None:
        """Note that a change was not reported; after ``_UNREPORTED_MAX`` times, stop relying on the server."""
        self._forget()
        self._unreported += 1
        if self._unreported >= _UNREPORTED_MAX:
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
        # An error of the server itself is raised here, not taken for missing support of tracking.
        (clock,) = await self._exchange(("TIME",))
        if isinstance(clock, Exception):
            raise clock
        decode_clock(clock)
        if self._refused:
            return
        try:
            self.tracks = await self._ask_to_track()
        except SERVER_ERRORS:
            # A proxy may close the connection after an unknown command.
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
        # Push messages need RESP3. HELLO is sent here and not by redis-py, so that servers without it can be used too.
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
            # It may still have unread replies.
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
        # No other push messages were requested.
        if len(push) != 2 or push[0] != b"invalidate":
            return
        keys = push[1]
        if keys is None:
            self._forget()
        elif type(keys) is list:
            # Usually one; a poll may get thousands.
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


class Index(NamedTuple):
    """The names of all queues at one moment: ``at_ms`` is the server's clock, ``problem`` why they cannot be read."""

    at_ms: int
    names: tuple[str, ...]
    problem: str | None = None


class IncrementalPoll:
    """Reads the rows of the known queues: first which of them changed, then their rows. Polls must not overlap."""

    def __init__(self, connection: TrackedConnection, runner: ScriptRunner, codec: RowCodec) -> None:
        self._connection = connection
        self._runner = runner
        self._codec = codec
        self._known = RowCache(codec)
        self._epoch: int | None = None

    def forget(self) -> None:
        """Let the next poll read all rows, for a caller that does not know those of the last one."""
        self._known.forget()

    async def rows(self, now_ms: int) -> dict[str, Row]:
        """Read the rows that may have changed, and return the rows of all queues by name, but for deleted ones."""
        async with aclosing(self.read(now_ms)) as coming:
            async for _ in coming:
                pass
        return {name: row for name, row in zip(self._known.names, self._known.rows, strict=True) if row}

    async def read(self, now_ms: int) -> AsyncGenerator[tuple[Sequence[int], list[Row]]]:
        """Read the rows that may have changed, and yield them as they arrive, with their positions in the index.

        These are ascending. A row that did not change is the same object as before; so are all that are not read. The
        row of a queue that was deleted since the index was read is empty. A few chunks are under way at once, each as a
        round trip of its own, so that the server works while the caller reads them.
        """
        known = self._known
        wanted = known.to_ask(now_ms)
        chunks = (wanted[start : start + CHUNK_QUEUES] for start in range(0, len(wanted), CHUNK_QUEUES))
        pending: deque[tuple[list[int], asyncio.Task[list[Row]]]] = deque()
        try:
            for chunk in islice(chunks, CHUNKS_IN_FLIGHT):
                pending.append((chunk, asyncio.create_task(self._read(chunk, now_ms))))
            while pending:
                asked, coming = pending[0]
                reply = await coming
                pending.popleft()
                for chunk in islice(chunks, 1):
                    pending.append((chunk, asyncio.create_task(self._read(chunk, now_ms))))
                    # Send the next request before this reply is read, so that the server works meanwhile.
                    await asyncio.sleep(0)
                await self._take(asked, reply, now_ms)
                yield asked, [known.rows[position] for position in asked]
        except BaseException:
            # Rows that were due may not have been read.
            known.forget()
            raise
        finally:
            for _, task in pending:
                task.cancel()
            await asyncio.gather(*(task for _, task in pending), return_exceptions=True)

    def _learn_what_changed(self) -> set[bytes] | None:
        """Mark the queues that must be read again, and return the keys that changed; None if all may have."""
        connection = self._connection
        changed = connection.pop_changed()
        all_may_have = self._epoch != connection.epoch or not connection.tracks
        self._epoch = connection.epoch
        if all_may_have or self._runner.refused:
            # Plain commands use connections without tracking.
            self._known.forget()
        self._known.mark_changed(changed)
        return None if all_may_have else changed

    async def _read(self, asked: list[int], now_ms: int) -> list[Row]:
        codec, names, keys = self._codec, self._known.names_of(asked), self._known.keys_of(asked)
        try:
            calls = codec.calls(names, keys, now_ms)
            replies = await self._runner.run_many(codec.script, calls, self._connection.commands)
        except ScriptsRefusedError:
            return await codec.read_plainly(self._runner, names, keys, now_ms)
        return [row for reply in replies for row in reply]

    async def _take(self, asked: list[int], reply: list[Row], now_ms: int) -> None:
        unreported = self._known.store(asked, reply, now_ms)
        if unreported and self._connection.changed.isdisjoint(unreported):
            self._connection.distrust()


def as_data(reply: Any) -> Any:
    """Turn a WRONGTYPE error into its text, as the scripts do; raise any other error."""
    if isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply):
        return str(reply).encode()
    if isinstance(reply, Exception):
        raise reply
    return reply


async def sum_of(runner: ScriptRunner, *counts: Sequence[bytes | str | int]) -> int:
    """Return the sum of several counts, such as those of the units in which scores may be; errors count nothing."""
    return sum(reply for reply in await runner.commands(*counts) if isinstance(reply, int))


_SLOT_MS = 1_000
# The farthest slot: an entry that no longer counts takes memory until its slot has passed.
_SLOTS_AHEAD = 600
# No server's clock gets so far: later times count as never.
_NEVER_MS = 1 << 53
_NOWHERE = inf


class DueTimes:
    """The times, in ms, at which the positions from 0 on are due, in slots of a second.

    A position waits in one slot, which is that of its time or an earlier one: when it is found there too early, it goes
    on to a later one. So a time that is put off again and again costs no more than one that stays. A position that
    waits in no slot has ``inf`` for its slot, so any slot is earlier.
    """

    def __init__(self, times_ms: Iterable[float] = ()) -> None:
        self._times_ms = array("d", times_ms)
        # The slot that each position waits in. Slots may have older entries of it, which do not count.
        self._waits_in = array("d", [_NOWHERE]) * len(self._times_ms)
        self._slots: dict[int, array[int]] = {}
        # Earlier slots are empty.
        self._first = 0
        for position in range(len(self)):
            self._put(position)

    @classmethod
    def all_taken(cls, count: int) -> "DueTimes":
        """Return the times of that many positions that are due, as after ``pop_due``."""
        made = cls()
        made._times_ms = array("d", bytes(8 * count))
        made._waits_in = array("d", [_NOWHERE]) * count
        return made

    def __len__(self) -> int:
        """Return how many positions there are."""
        return len(self._times_ms)

    def __getitem__(self, position: int) -> float:
        """Return when a position is due."""
        return self._times_ms[position]

    def __iter__(self) -> Iterator[float]:
        """Iterate over the times, in the order of the positions."""
        return iter(self._times_ms)

    def set(self, position: int, due_ms: float) -> None:
        """Change when a position is due."""
        self._times_ms[position] = due_ms
        self._put(position)

    def pop_due(self, now_ms: int) -> list[int]:
        """Return the positions that are due, in order; the time of each must be set again."""
        last = now_ms // _SLOT_MS
        if last < self._first:
            # The clock went back.
            self._first = last
            self._slots.clear()
            self._waits_in = array("d", [_NOWHERE]) * len(self)
            for position in range(len(self)):
                self._put(position)
        slots, times_ms, waits_in = self._slots, self._times_ms, self._waits_in
        # After a long time without a poll, there are fewer slots than seconds.
        passed = range(self._first, last + 1) if last - self._first < len(slots) else [n for n in slots if n <= last]
        self._first = last
        due: list[int] = []
        early: list[int] = []
        for slot in passed:
            for position in slots.pop(slot, ()):
                if waits_in[position] == slot:
                    waits_in[position] = _NOWHERE
                    (due if times_ms[position] <= now_ms else early).append(position)
        for position in early:
            self._put(position)
        return sorted(due)

    def _put(self, position: int) -> None:
        due_ms = self._times_ms[position]
        if due_ms >= _NEVER_MS:
            return
        # Written out for speed: a poll puts thousands.
        slot = first = self._first
        if due_ms >= (first + _SLOTS_AHEAD) * _SLOT_MS:
            slot = first + _SLOTS_AHEAD
        elif due_ms > first * _SLOT_MS:
            slot = int(due_ms) // _SLOT_MS
        if slot < self._waits_in[position]:
            self._waits_in[position] = slot
            if slot in self._slots:
                self._slots[slot].append(position)
            else:
                self._slots[slot] = array("I", [position])
