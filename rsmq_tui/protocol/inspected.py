"""What inspections see: a queue's keys, a message, a field, each at one moment."""

from collections.abc import Container
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

# What follows an id in the names of the fields that are not its body.
COUNTER_SUFFIXES = (b":rc", b":fr", b":meta")
# Without one of these every client answers queueNotFound.
NEEDED_ATTRIBUTES = (b"vt", b"delay", b"maxsize")


def is_queue(attributes: Container[bytes]) -> bool:
    """Tell whether these are the attributes of what every client takes for a queue."""
    return all(name in attributes for name in NEEDED_ATTRIBUTES)


def stem_of(name: bytes) -> bytes | None:
    """Return the id whose counter a field of that name would be, or None."""
    return next((name.removesuffix(suffix) for suffix in COUNTER_SUFFIXES if name.endswith(suffix)), None)


@dataclass(frozen=True, slots=True)
class QueueLook:
    """The keys of one queue at one moment: their types (``none``, ``zset``, ``hash``, …), and what they hold.

    ``attributes`` are the raw attribute fields that are there, ``fields`` counts all fields; ``head`` is the first
    message's id and score, None where there is none.
    """

    queue: str
    zset_type: str
    hash_type: str
    listed: bool
    depth: int
    fields: int
    head: tuple[bytes, bytes] | None
    attributes: dict[bytes, bytes]

    @property
    def exists(self) -> bool:
        """True for what every client takes for a queue."""
        return is_queue(self.attributes)


class MemberNow(NamedTuple):
    """A message at one moment; ``score`` is None when it is not in the queue. A counter that is a body is None."""

    id: bytes
    score: bytes | None
    has_body: bool
    rc: bytes | None
    fr: bytes | None


class Belonging(IntEnum):
    """Whose a field is."""

    MESSAGE = 0
    """A message's that is in the queue, or the field is gone."""
    BODY = 1
    """A body without a message."""
    OF_BODY = 2
    """A counter of such a body."""
    COUNTER = 3
    """A counter of nothing."""
