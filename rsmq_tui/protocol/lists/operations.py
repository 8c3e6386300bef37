"""Each operation on a list queue as a value that a client runs, and the types of arguments and results. No I/O.

The functions are methods of ``ListQueue`` and of ``AsyncListQueue``, as those of RSMQ are of its clients. An ``end`` of
None is the one that ``ListNames`` defines.
"""

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rsmq_tui.protocol.connections.command_runner import SHORTEST_S, Deadline
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import name_of, random_suffix
from rsmq_tui.protocol.lists import scripts
from rsmq_tui.protocol.lists.naming import End, ListNames, other_end
from rsmq_tui.protocol.rsmq.operations import Argument, Flow, Operation, Waiting
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


def checked_timeout(timeout_s: object) -> float:
    """Return a timeout in seconds, 0 for ever; raise ``invalidValue``."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= SECONDS_MAX:
        raise rsmq_error("invalidValue", item="timeout_s", low=0, high=SECONDS_MAX)
    return max(timeout_s, SHORTEST_S) if timeout_s else 0


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


def push(location: Location, *items: str | bytes, end: End | None = None) -> Operation[int]:
    """Push items, each behind the one before, and return the new length (LPUSH, or RPUSH for the other end).

    They go to the back unless ``end`` is given. Raises ``messageNotString`` for what is not ``str`` or ``bytes``.
    """
    return _plain(_PUSH[end or location.back], location.key, *_encoded(items), read=int)


def push_front(location: Location, *items: str | bytes) -> Operation[int]:
    """Push items at the front, where the last of them is taken next; returns the new length."""
    return push(location, *items, end=location.front)


def push_existing(location: Location, *items: str | bytes, end: End | None = None) -> Operation[int]:
    """As ``push``, but only to a queue that has items; returns 0 if it has none (LPUSHX or RPUSHX)."""
    return _plain(_PUSH_EXISTING[end or location.back], location.key, *_encoded(items), read=int)


def pop(location: Location, end: End | None = None) -> Operation[bytes | None]:
    """Remove and return the next item, or the one at ``end``; None if there is none (RPOP or LPOP)."""
    return _plain(_POP[end or location.front], location.key)


def pop_many(location: Location, count: int, end: End | None = None) -> Operation[list[bytes] | None]:
    """Remove and return up to ``count`` items; None if there is no queue (RPOP or LPOP with a count)."""
    if count < 0:
        raise ValueError("count must be at least 0")
    return _plain(_POP[end or location.front], location.key, count)


def pop_blocking(
    location: Location, timeout_s: float = 0, *, others: Iterable[str | bytes] = (), end: End | None = None
) -> Waiting[Popped | None]:
    """Pop from this queue, else from the first of the ``others`` that has items, else wait (BRPOP or BLPOP).

    Returns the queue's key and the item, or None after the timeout. Clients are served in the order in which they began
    to wait. If the connection breaks before the item arrives, the item is lost: see ``take_blocking``.
    """
    if isinstance(others, str | bytes):
        raise TypeError("others must be a list of queues")
    keys = (location.key, *(_key(other, location.names) for other in others))
    return Waiting((_POP_BLOCKING[end or location.front], *keys), checked_timeout(timeout_s), _read_popped)


def move(
    location: Location, to: str | bytes, *, from_end: End | None = None, to_end: End | None = None
) -> Operation[bytes | None]:
    """Move the next item to the back of another queue and return it, or None if there is none (LMOVE)."""
    return _plain(*_move("LMOVE", location, to, from_end, to_end))


def move_blocking(
    location: Location,
    to: str | bytes,
    timeout_s: float = 0,
    *,
    from_end: End | None = None,
    to_end: End | None = None,
) -> Waiting[bytes | None]:
    """As ``move``, but wait for an item; None after the timeout (BLMOVE)."""
    return Waiting(_move("BLMOVE", location, to, from_end, to_end), checked_timeout(timeout_s), _as_it_is)


def rpoplpush(location: Location, to: str | bytes) -> Operation[bytes | None]:
    """Deprecated by Redis, as RPOPLPUSH is: ``move`` from the right end to the left one."""
    _warn_deprecated("rpoplpush", "move")
    return move(location, to, from_end="right", to_end="left")


def brpoplpush(location: Location, to: str | bytes, timeout_s: float = 0) -> Waiting[bytes | None]:
    """Deprecated by Redis, as BRPOPLPUSH is: ``move_blocking`` from the right end to the left one."""
    _warn_deprecated("brpoplpush", "move_blocking")
    return move_blocking(location, to, timeout_s, from_end="right", to_end="left")


def _warn_deprecated(old: str, new: str) -> None:
    # Names the line that calls the client's method.
    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=4)


def length(location: Location) -> Operation[int]:
    """Return how many items are ready (LLEN)."""
    return _plain("LLEN", location.key, read=int)


def remove(location: Location, item: str | bytes, count: int = 1) -> Operation[int]:
    """Remove items equal to this one, and return how many (LREM).

    The first ``count`` from the left, from the right if it is negative, all if it is 0.
    """
    return _plain("LREM", location.key, count, *_encoded((item,)), read=int)


def trim(location: Location, start: int, stop: int) -> Operation[None]:
    """Keep the items from index ``start`` to ``stop``, both included, and remove all others (LTRIM).

    Index 0 is the left end and -1 the right one.
    """
    return _plain("LTRIM", location.key, start, stop, read=lambda _reply: None)


def peek(location: Location, start: int = 0, stop: int = -1) -> Operation[list[bytes]]:
    """Return the items from index ``start`` to ``stop``, both included, left to right (LRANGE)."""
    return _plain("LRANGE", location.key, start, stop)


def item_at(location: Location, index: int) -> Operation[bytes | None]:
    """Return the item at an index, or None (LINDEX); index 0 is the left end and -1 the right one."""
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


def take(location: Location, vt_ms: int = VT_MS) -> Operation[Lease | None]:
    """Atomically move the next item to processing and lease it for ``vt_ms`` ms; None if there is none.

    Raises ``invalidValue`` for a time below 0.
    """
    token = _new_token()

    def read(reply: Any) -> Lease | None:
        return None if reply is None else Lease(location.name, reply[0], token, reply[1])

    return Operation(scripts.TAKE, location.keys, (location.take_end, token, _checked_ms("vt_ms", vt_ms)), read)


def take_blocking(location: Location, timeout_s: float = 0, vt_ms: int = VT_MS) -> Flow[Lease | None]:
    """As ``take``, but wait for an item; None after the timeout.

    An item that arrives during the wait is moved first (BLMOVE) and then leased. If this client fails in between, a
    reaper returns the item after a grace period. If that period ends before the lease begins, the wait continues.
    """
    deadline = Deadline(checked_timeout(timeout_s))
    lease: Lease | None = yield take(location, vt_ms)
    while lease is None and (rest_s := deadline.rest_s()) is not None:
        move = ("BLMOVE", *location.keys[:2], location.take_end, "LEFT")
        item: bytes | None = yield Waiting(move, rest_s, _as_it_is)
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
    """Remove an item that is done; False if its lease was reaped, or acknowledged before."""
    return Operation(scripts.ACK, location.keys, (_member(location, lease),), bool)


def extend(location: Location, lease: Lease, vt_ms: int = VT_MS) -> Operation[Lease | None]:
    """Make a lease end ``vt_ms`` ms from now; return it with its new deadline, or None if it is no longer held."""
    read = _reader(lambda deadline_ms: Lease(lease.queue, lease.item, lease.token, deadline_ms))
    return Operation(scripts.EXTEND, location.keys, (_member(location, lease), _checked_ms("vt_ms", vt_ms)), read)


def nack(location: Location, lease: Lease, *, to_back: bool = False) -> Operation[bool]:
    """Return an item to the front of the queue, or ``to_back``; False if its lease is no longer held."""
    push = location.push_at(location.back if to_back else location.front)
    return Operation(scripts.NACK, location.keys, (_member(location, lease), push), bool)


def reap(
    location: Location,
    *,
    grace_ms: int = GRACE_MS,
    limit: int = LIMIT,
    examine: int = EXAMINED_ITEMS,
    examine_bytes: int = EXAMINED_BYTES,
) -> Flow[Reaped]:
    """Return items whose lease has ended, and adopt items without a lease; at most ``limit`` items in all.

    An item has no lease if its consumer failed before leasing it, or does not use leases; if adopted, it returns after
    ``grace_ms``. Any number of reapers may run at once. To find such items, the server compares the processing list
    with the leases, in one call. If both together exceed ``examine`` entries or ``examine_bytes``, only expired leases
    are handled, and ``unexamined`` is set. The defaults allow 5,000 items or 8 MB in processing, which block the server
    for some 20 ms at a time.
    """
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
