"""The reliable pattern: take, acknowledge, extend, give back and reap, as values and sequences."""

import os
from collections.abc import Callable
from typing import Any

from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import random_suffix
from rsmq_tui.protocol.lists import scripts
from rsmq_tui.protocol.lists.operations import Deadline, Flow, Lease, Location, Reaped, Waiting, checked_timeout
from rsmq_tui.protocol.rsmq.operations import Operation
from rsmq_tui.protocol.validation import SECONDS_MAX

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
    """Take at once, else wait for an item to be moved, and lease it.

    An item that was reaped before it could be leased is somebody else's: the wait then goes on.
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
    """Lease an item that was moved to processing without a lease; None where it is not there for the taking."""
    token = _new_token()
    read = _reader(lambda deadline_ms: Lease(location.name, item, token, deadline_ms))
    return Operation(scripts.ADOPT, location.keys, (token, item, _checked_ms("vt_ms", vt_ms)), read)


def ack(location: Location, lease: Lease) -> Operation[bool]:
    """Remove the item."""
    return Operation(scripts.ACK, location.keys, (_member(location, lease),), bool)


def extend(location: Location, lease: Lease, vt_ms: int) -> Operation[Lease | None]:
    """Set the deadline to so many ms from now."""
    read = _reader(lambda deadline_ms: Lease(lease.queue, lease.item, lease.token, deadline_ms))
    return Operation(scripts.EXTEND, location.keys, (_member(location, lease), _checked_ms("vt_ms", vt_ms)), read)


def nack(location: Location, lease: Lease, to_back: bool) -> Operation[bool]:
    """Put the item back."""
    push = location.push_at(location.back if to_back else location.front)
    return Operation(scripts.NACK, location.keys, (_member(location, lease), push), bool)


def reap(location: Location, grace_ms: int, limit: int, examine: int, examine_bytes: int) -> Flow[Reaped]:
    """Return what expired and adopt what nobody leased, in calls that hold the server for some milliseconds each."""
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
