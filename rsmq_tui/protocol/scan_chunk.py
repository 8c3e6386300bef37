"""What a scan hands over at a time, and what it has read of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rsmq_tui.protocol.messages import RawMessage, raw_message

# Of what may be left unread of a message: both counters, the length of its body, and the body.
ReadField = Literal["counts", "size", "body"]


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Some messages in no order: ``at_ms`` is the server's time and ``depth`` the queue's when they were found.

    ``columns`` holds one sequence for each field of ``RawMessage``: who looks for a few of many makes only these.
    ``too_long`` counts those whose body was asked for and is longer than ``scan.SCAN_BODY_BYTES``: theirs is None.
    ``begun_anew`` counts how often the place in a list was lost so far, and it was read from the start.
    ``read`` says what was read of them besides ids and scores: what was not looks as if it were not there, or 0.
    """

    at_ms: int
    depth: int
    columns: tuple[Sequence[Any], ...]
    too_long: int = 0
    begun_anew: int = 0
    read: frozenset[ReadField] = frozenset()

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def bodies(self) -> Sequence[bytes | None]:
        """The bodies alone."""
        return self.columns[-1]

    @property
    def messages(self) -> list[RawMessage]:
        """All of them."""
        return list(map(raw_message, zip(*self.columns, strict=True)))

    def message(self, index: int) -> RawMessage:
        """Return one of them."""
        message: RawMessage = raw_message([column[index] for column in self.columns])
        return message
