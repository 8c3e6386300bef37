"""Each operation on a list queue as a value that a client runs, and the types of arguments and results. No I/O.

An ``end`` of None is the one that ``ListNames`` defines.

A blocking command uses a connection of its own, on which the socket timeout begins only when the command's own timeout
has passed. redis-py would send it again after an error; here it is sent once, because what the first one popped would
be lost.
"""

import asyncio
import os
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq_tui.protocol.connections.connect import cancels, end_if_cancelled
from rsmq_tui.protocol.connections.script_runner import RAW, AsyncCommandRunner, CommandRunner
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import name_of, random_suffix
from rsmq_tui.protocol.lists import scripts
from rsmq_tui.protocol.lists.naming import End, ListNames, other_end
from rsmq_tui.protocol.replies import decoded
from rsmq_tui.protocol.rsmq.operations import Argument, Operation, raise_refusal
from rsmq_tui.protocol.validation import SECONDS_MAX, body_bytes


class Lease(NamedTuple):
    """An item that a consumer took, and its lease.

    ``queue`` is the queue's key, ``token`` distinguishes this lease from others of equal items, and ``deadline_ms`` is
    the server's time when the lease ends, after which a reaper may return the item to the queue.
    """

    queue: str
    item: bytes
    token: str
    deadline_ms: int

    @property
    def member(self) -> bytes:
        """Its member in the zset of leases."""
        return b"%b:%b" % (self.token.encode(), self.item)


class Popped(NamedTuple):
    """An item, and the key of the queue that it came from."""

    queue: str
    item: bytes


class Reaped(NamedTuple):
    """What a reaper did.

    ``returned`` items had an expired lease and went back to the front of the queue; ``adopted`` items had no lease and
    got a grace period; ``dropped`` leases had no item. ``unexamined`` is the number of items in processing if they were
    too many or too large to compare with the leases, so that none was adopted; else 0.
    """

    returned: int = 0
    adopted: int = 0
    dropped: int = 0
    unexamined: int = 0


T = TypeVar("T")

# Servers round the timeout of a command to milliseconds, some of them down; 0 is for ever.
_SHORTEST_S = 0.001
# How long a cluster client waits at a time: shorter than its socket timeout.
_SLICE_S = 1.0
# Servers check for expired timeouts ten times a second by default, and at least once a second.
_LATENESS_S = 2.0
_LATE = "the server did not answer a blocking command after its timeout"


class Waiting(NamedTuple, Generic[T]):
    """A blocking command: ``command`` without the timeout at its end, which is ``wait_s`` seconds, 0 for ever."""

    command: tuple[Argument, ...]
    wait_s: float
    read: Any

    def timed(self, wait_s: float) -> tuple[Argument, ...]:
        """Return the command with a timeout."""
        return (*self.command, f"{wait_s:.3f}".rstrip("0").rstrip("."))


Flow = Generator[Operation[Any] | Waiting[Any], Any, T]
"""An operation of several round trips: it yields each of them, is sent the result, and returns the final result."""


def checked_timeout(timeout_s: object) -> float:
    """Return a timeout in seconds, 0 for ever; raise ``invalidValue``."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= SECONDS_MAX:
        raise rsmq_error("invalidValue", item="timeout_s", low=0, high=SECONDS_MAX)
    return max(timeout_s, _SHORTEST_S) if timeout_s else 0


class Deadline:
    """The deadline of a wait that takes several commands; ``timeout_s`` is 0 for ever."""

    def __init__(self, timeout_s: float) -> None:
        self._ends_s = time.monotonic() + timeout_s if timeout_s else inf

    def rest_s(self, at_most_s: float = inf) -> float | None:
        """Return how long the next command may wait, 0 for ever; None after the deadline."""
        rest_s = min(self._ends_s - time.monotonic(), at_most_s)
        if rest_s == inf:
            return 0
        return rest_s if rest_s >= _SHORTEST_S else None


def _patience_s(wait_s: float, connection: Any) -> float | None:
    if not wait_s or connection.socket_timeout is None:
        return None
    return wait_s + _LATENESS_S + float(connection.socket_timeout)


class WaitingRunner(CommandRunner):
    """A ``CommandRunner`` that also runs blocking commands and flows."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        # A client of a cluster has none.
        self._pool: Any = getattr(client, "connection_pool", None)

    def _wait(self, waiting: Waiting[T]) -> T:
        try:
            reply = self._wait_in_slices(waiting) if self._pool is None else self._wait_once(waiting)
        except ResponseError as error:
            raise_refusal(error)
        result: T = decoded(waiting.read, reply)
        return result

    def _wait_once(self, waiting: Waiting[Any]) -> Any:
        connection = self._pool.get_connection()
        try:
            connection.send_command(*waiting.timed(waiting.wait_s))
            return connection.read_response(disable_decoding=True, timeout=_patience_s(waiting.wait_s, connection))
        finally:
            self._pool.release(connection)

    def _wait_in_slices(self, waiting: Waiting[Any]) -> Any:
        deadline = Deadline(waiting.wait_s)
        reply = None
        while reply is None and (slice_s := deadline.rest_s(_SLICE_S)):
            reply = self._command(*waiting.timed(slice_s), **RAW)
        return reply

    def _follow(self, flow: Flow[T]) -> T:
        result: Any = None
        try:
            while True:
                step = flow.send(result)
                result = self._wait(step) if isinstance(step, Waiting) else self._run(step)
        except StopIteration as end:
            final: T = end.value
            return final


class AsyncWaitingRunner(AsyncCommandRunner):
    """``WaitingRunner`` for asyncio; cancelling a wait closes its connection."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._pool: Any = getattr(client, "connection_pool", None)

    async def _wait(self, waiting: Waiting[T]) -> T:
        try:
            reply = await (self._wait_in_slices(waiting) if self._pool is None else self._wait_once(waiting))
        except ResponseError as error:
            raise_refusal(error)
        result: T = decoded(waiting.read, reply)
        return result

    async def _wait_once(self, waiting: Waiting[Any]) -> Any:
        # If a cancellation were lost while the command is sent, this would wait on, perhaps for ever.
        before = cancels()
        connection = await self._pool.get_connection()
        try:
            await connection.send_command(*waiting.timed(waiting.wait_s))
            await end_if_cancelled(connection, before)
            # A timeout of read_response would look like a reply, and leave the connection in use with one to come.
            async with asyncio.timeout(_patience_s(waiting.wait_s, connection)):
                return await connection.read_response(disable_decoding=True, timeout=inf)
        except TimeoutError as error:
            raise RedisTimeoutError(_LATE) from error
        finally:
            await self._pool.release(connection)

    async def _wait_in_slices(self, waiting: Waiting[Any]) -> Any:
        deadline = Deadline(waiting.wait_s)
        reply = None
        while reply is None and (slice_s := deadline.rest_s(_SLICE_S)):
            reply = await self._command(*waiting.timed(slice_s), **RAW)
        return reply

    async def _follow(self, flow: Flow[T]) -> T:
        before, result = cancels(), None
        try:
            while True:
                step = flow.send(result)
                result = await (self._wait(step) if isinstance(step, Waiting) else self._run(step))
                # The cancellation was lost while a step was sent, as in ``_wait_once``.
                if cancels() > before:
                    raise asyncio.CancelledError
        except StopIteration as end:
            final: T = end.value
            return final


_PUSH = {"left": "LPUSH", "right": "RPUSH"}
_PUSH_EXISTING = {"left": "LPUSHX", "right": "RPUSHX"}
_POP = {"left": "LPOP", "right": "RPOP"}
_POP_BLOCKING = {"left": "BLPOP", "right": "BRPOP"}
_END = {"left": "LEFT", "right": "RIGHT"}


@dataclass(frozen=True, slots=True)
class Location:
    """The keys and the ends of a queue.

    ``name`` is its key as text; ``keys`` are the queue, the processing list and the leases, as the scripts need them.
    Consumers take from the ``front``, which LMOVE calls ``take_end``; producers push at the ``back``.
    """

    names: ListNames
    key: bytes
    name: str
    keys: tuple[bytes, bytes, bytes]
    front: End
    back: End
    take_end: str

    @classmethod
    def of(cls, queue: str | bytes, names: ListNames) -> "Location":
        """Return the location of a queue, given by its short name or, in bytes, by its whole key."""
        key, front = _key(queue, names), names.take_from
        name = name_of(key)
        keys = key, names.processing_key(name), names.leases_key(name)
        return cls(names, key, name, keys, front, other_end(front), _END[front])

    def push_at(self, end: End) -> str:
        """Return the command that pushes at an end."""
        return _PUSH[end]


def push(location: Location, items: tuple[str | bytes, ...], end: End | None) -> Operation[int]:
    """LPUSH or RPUSH."""
    return _plain(_PUSH[end or location.back], location.key, *_encoded(items), read=int)


def push_existing(location: Location, items: tuple[str | bytes, ...], end: End | None) -> Operation[int]:
    """LPUSHX or RPUSHX."""
    return _plain(_PUSH_EXISTING[end or location.back], location.key, *_encoded(items), read=int)


def pop(location: Location, end: End | None) -> Operation[bytes | None]:
    """LPOP or RPOP."""
    return _plain(_POP[end or location.front], location.key)


def pop_many(location: Location, count: int, end: End | None) -> Operation[list[bytes] | None]:
    """LPOP or RPOP with a count."""
    if count < 0:
        raise ValueError("count must be at least 0")
    return _plain(_POP[end or location.front], location.key, count)


def pop_blocking(
    location: Location, timeout_s: float, others: Iterable[str | bytes], end: End | None
) -> Waiting[Popped | None]:
    """BLPOP or BRPOP."""
    if isinstance(others, str | bytes):
        raise TypeError("others must be a list of queues")
    keys = (location.key, *(_key(other, location.names) for other in others))
    return Waiting((_POP_BLOCKING[end or location.front], *keys), checked_timeout(timeout_s), _read_popped)


def move(location: Location, to: str | bytes, from_end: End | None, to_end: End | None) -> Operation[bytes | None]:
    """LMOVE."""
    return _plain(*_move("LMOVE", location, to, from_end, to_end))


def move_blocking(
    location: Location, to: str | bytes, timeout_s: float, from_end: End | None, to_end: End | None
) -> Waiting[bytes | None]:
    """BLMOVE."""
    return Waiting(_move("BLMOVE", location, to, from_end, to_end), checked_timeout(timeout_s), _as_it_is)


def length(location: Location) -> Operation[int]:
    """LLEN."""
    return _plain("LLEN", location.key, read=int)


def remove(location: Location, item: str | bytes, count: int) -> Operation[int]:
    """LREM."""
    return _plain("LREM", location.key, count, *_encoded((item,)), read=int)


def trim(location: Location, start: int, stop: int) -> Operation[None]:
    """LTRIM."""
    return _plain("LTRIM", location.key, start, stop, read=lambda _reply: None)


def peek(location: Location, start: int, stop: int) -> Operation[list[bytes]]:
    """LRANGE."""
    return _plain("LRANGE", location.key, start, stop)


def item_at(location: Location, index: int) -> Operation[bytes | None]:
    """LINDEX."""
    return _plain("LINDEX", location.key, index)


def _key(queue: str | bytes, names: ListNames) -> bytes:
    return queue if isinstance(queue, bytes) else names.key(queue)


def _encoded(items: tuple[str | bytes, ...]) -> list[bytes]:
    if not items:
        raise ValueError("give at least one item to push")
    return [body_bytes(item)[0] for item in items]


def _move(
    command: str, location: Location, to: str | bytes, from_end: End | None, to_end: End | None
) -> tuple[Argument, ...]:
    ends = _END[from_end or location.front], _END[to_end or location.back]
    return (command, location.key, _key(to, location.names), *ends)


def _as_it_is(reply: Any) -> Any:
    return reply


def _plain(*command: Argument, read: Any = _as_it_is) -> Operation[Any]:
    return Operation(None, (), command, read)


def _read_popped(reply: Any) -> Popped | None:
    return None if reply is None else Popped(name_of(reply[0]), reply[1])


# The reliable pattern: take, acknowledge, extend, give back and reap.
MS_MAX = SECONDS_MAX * 1000
VT_MS = 30_000
GRACE_MS = 60_000
LIMIT = 10_000
EXAMINED_ITEMS = 10_000
EXAMINED_BYTES = 16_000_000

_TOKEN_BYTES = 11
_SEED_LENGTH = 16


def take(location: Location, vt_ms: int) -> Operation[Lease | None]:
    """Move the next item to processing and lease it."""
    token = _new_token()

    def read(reply: Any) -> Lease | None:
        return None if reply is None else Lease(location.name, reply[0], token, reply[1])

    return Operation(scripts.TAKE, location.keys, (location.take_end, token, _checked_ms("vt_ms", vt_ms)), read)


def take_blocking(location: Location, timeout_s: float, vt_ms: int) -> Flow[Lease | None]:
    """Take an item at once, or wait for one to be moved, and lease it.

    If a reaper returns the item before it is leased, the wait goes on.
    """
    deadline = Deadline(checked_timeout(timeout_s))
    lease: Lease | None = yield take(location, vt_ms)
    while lease is None and (rest_s := deadline.rest_s()) is not None:
        move = ("BLMOVE", *location.keys[:2], location.take_end, "LEFT")
        item: bytes | None = yield Waiting(move, rest_s, lambda reply: reply)
        if item is None:
            return None
        lease = yield adopt(location, item, vt_ms)
    return lease


def adopt(location: Location, item: bytes, vt_ms: int) -> Operation[Lease | None]:
    """Lease an item that was moved to processing without a lease; None if it is no longer there."""
    token = _new_token()
    read = _reader(lambda deadline_ms: Lease(location.name, item, token, deadline_ms))
    return Operation(scripts.ADOPT, location.keys, (token, item, _checked_ms("vt_ms", vt_ms)), read)


def ack(location: Location, lease: Lease) -> Operation[bool]:
    """Remove the item."""
    return Operation(scripts.ACK, location.keys, (_member(location, lease),), bool)


def extend(location: Location, lease: Lease, vt_ms: int) -> Operation[Lease | None]:
    """Set the deadline to ``vt_ms`` ms from now."""
    read = _reader(lambda deadline_ms: Lease(lease.queue, lease.item, lease.token, deadline_ms))
    return Operation(scripts.EXTEND, location.keys, (_member(location, lease), _checked_ms("vt_ms", vt_ms)), read)


def nack(location: Location, lease: Lease, to_back: bool) -> Operation[bool]:
    """Put the item back."""
    push = location.push_at(location.back if to_back else location.front)
    return Operation(scripts.NACK, location.keys, (_member(location, lease), push), bool)


def reap(location: Location, grace_ms: int, limit: int, examine: int, examine_bytes: int) -> Flow[Reaped]:
    """Return expired items and adopt items without a lease, in calls that block the server for a few ms each."""
    _checked_ms("grace_ms", grace_ms)
    if limit < 1:
        raise ValueError("limit must be at least 1")
    done, more = Reaped(), True
    while more and (rest := limit - done.returned - done.adopted) > 0:
        arguments = (
            location.push_at(location.front),
            min(rest, LIMIT),
            grace_ms,
            examine,
            examine_bytes,
            random_suffix(_SEED_LENGTH),
        )
        returned, adopted, dropped, unexamined, more = yield Operation(scripts.REAP, location.keys, arguments, list)
        done = Reaped(done.returned + returned, done.adopted + adopted, done.dropped + dropped, unexamined)
    return done


def _new_token() -> str:
    """Return 22 random characters."""
    return os.urandom(_TOKEN_BYTES).hex()


def _checked_ms(what: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MS_MAX:
        raise rsmq_error("invalidValue", item=what, low=0, high=MS_MAX)
    return value


def _member(location: Location, lease: Lease) -> bytes:
    if lease.queue != location.name:
        raise ValueError(f"the lease is of {lease.queue!r}, not of {location.name!r}")
    return lease.member


def _reader(lease_until: Callable[[int], Lease]) -> Callable[[Any], Lease | None]:
    return lambda deadline_ms: lease_until(deadline_ms) if deadline_ms else None
