"""What inspections see: a queue's keys, a message, a field, each at one moment."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


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
        return all(name in self.attributes for name in (b"vt", b"delay", b"maxsize"))


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
    """A body of no message."""
    OF_BODY = 2
    """A counter of such a body."""
    COUNTER = 3
    """A counter of nothing."""
