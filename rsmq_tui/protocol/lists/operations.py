"""The list commands as values that a client only has to run; ``leasing`` has those of the reliable pattern.

Validates and builds; nothing here does I/O. An end that is None is the one that the queue's names say.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.lists.naming import End, ListNames, other_end
from rsmq_tui.protocol.lists.values import Popped
from rsmq_tui.protocol.lists.waiting import Waiting, checked_timeout
from rsmq_tui.protocol.operations import Argument, Operation
from rsmq_tui.protocol.validation import body_bytes

_PUSH = {"left": "LPUSH", "right": "RPUSH"}
_PUSH_EXISTING = {"left": "LPUSHX", "right": "RPUSHX"}
_POP = {"left": "LPOP", "right": "RPOP"}
_POP_BLOCKING = {"left": "BLPOP", "right": "BRPOP"}
_END = {"left": "LEFT", "right": "RIGHT"}


@dataclass(frozen=True, slots=True)
class Location:
    """Where a queue is, and which of its ends is which.

    ``name`` is its key as text; ``keys`` are those of the queue, of what is being processed and of the leases, which
    the scripts of the reliable pattern work on. Consumers take from the ``front``, which LMOVE calls ``take_end``;
    producers push at the ``back``.
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
        raise TypeError("others are many queues: give a list of them")
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
