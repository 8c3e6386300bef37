"""Incidents: periods of trouble of a queue that belong together, and incidents of a server that begin together.

Events and alerts use the same thresholds for the end of a trouble, and for what counts as flapping.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from rsmq_tui.protocol.kinds import is_among, kind_named

if TYPE_CHECKING:
    from rsmq_tui.monitor.model import QueueState

HOLD_MS = 30_000
"""A trouble is over when its queue has been ok for this long."""

FLAPS, FLAP_SPAN_MS = 4, 60_000
"""A value that changes this many times within this time is flapping."""

QUEUE_FLAP_SPAN_MS = 600_000
"""The same time for verdicts of queues: those of small queues change every few minutes."""

TOGETHER_MS = 60_000
"""Incidents of one server that begin within this time have one head."""

RECEIVED_WITHIN_MS = 10_000
"""A consumer receives a ready message within this time: workers poll that often even if they found nothing before."""


class Period(Protocol):
    """A time in which a queue was in trouble."""

    @property
    def start_ms(self) -> int:
        """When it began."""

    @property
    def end_ms(self) -> int:
        """When it ended, or the last known time of it."""

    @property
    def recovered_ms(self) -> int | None:
        """When the queue was ok after it; None if that is not known."""


T = TypeVar("T", bound=Period)


def grouped(periods: Iterable[T]) -> list[list[T]]:
    """Group the troubles of one queue into incidents, in the order of time.

    Two troubles belong to one incident if the queue was ok between them for ``HOLD_MS`` or less; if the changes between
    them are two of ``FLAPS`` changes within ``QUEUE_FLAP_SPAN_MS``; or if it is not known whether the queue was ok, and
    the time between them is not longer than that. Each gap is decided by what is near it, so that the result for a time
    does not depend on how much is known before it.
    """
    blocks: list[list[T]] = []
    for period in sorted(periods, key=lambda one: (one.start_ms, one.end_ms)):
        if blocks and _is_short(_last(blocks[-1]), period):
            blocks[-1].append(period)
        else:
            blocks.append([period])
    changes = [at_ms for block in blocks for at_ms in (block[0].start_ms, _last(block).end_ms)]
    if blocks and _last(blocks[-1]).recovered_ms is None:
        # The trouble in which the history ends has not ended yet.
        changes.pop()
    found: list[list[T]] = []
    for number, block in enumerate(blocks):
        if number and _is_flapping(changes, 2 * number - 1):
            found[-1] += block
        else:
            found.append(block)
    return found


def _last(periods: Sequence[T]) -> T:
    return max(periods, key=lambda one: one.end_ms)


def _is_short(one: Period, following: Period) -> bool:
    """Return whether the time between two troubles is too short to end an incident."""
    if one.recovered_ms is None:
        return following.start_ms - one.end_ms <= QUEUE_FLAP_SPAN_MS
    return following.start_ms - one.recovered_ms <= HOLD_MS


def _is_flapping(changes: Sequence[int], end: int) -> bool:
    """Return whether the end of a trouble and the next start are among ``FLAPS`` changes within the span."""
    firsts = range(max(0, end + 2 - FLAPS), min(end, len(changes) - FLAPS) + 1)
    return any(changes[first + FLAPS - 1] - changes[first] <= QUEUE_FLAP_SPAN_MS for first in firsts)


class Expected(NamedTuple):
    """Expected troubles, which are no incidents: those of some ``queues``, and those in some spans of time.

    ``queues`` are names and patterns, with or without the prefix of a kind; ``spans`` are pairs of a beginning and an
    end in ms.
    """

    queues: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()

    def as_lists(self) -> list[list[Any]]:
        """Return the argument of ``of_lists``, for JSON."""
        return [list(self.queues), [list(span) for span in self.spans]]

    @classmethod
    def of_lists(cls, queues: Sequence[str], spans: Sequence[Sequence[int]]) -> "Expected":
        """Return the object whose ``as_lists`` gave these lists."""
        return cls(tuple(queues), tuple((from_ms, to_ms) for from_ms, to_ms in spans))

    def holds(self, queue: str, kind: str) -> bool:
        """Return whether every trouble of a queue is expected; ``kind`` is the name of its kind."""
        return is_among(queue, kind_named(kind), self.queues)

    def ignores(self, queue: "QueueState") -> bool:
        """Return whether a queue is in trouble, and every trouble of it is expected."""
        return queue.verdict.is_trouble and self.holds(queue.name, queue.kind)

    def span_at(self, at_ms: float) -> tuple[int, int] | None:
        """Return the span in which a time is, of several the one that ends last; None for none."""
        spans = (span for span in self.spans if span[0] <= at_ms < span[1])
        return max(spans, key=lambda span: span[1], default=None)

    def end_ms(self, at_ms: float) -> int | None:
        """Return until when every trouble is expected that there is at a time; None if it is not."""
        span = self.span_at(at_ms)
        return None if span is None else span[1]

    def rest(self, start_ms: int, end_ms: int) -> tuple[int, int] | None:
        """Return the beginning and the end of the part of a trouble outside the expected spans; None if there is none.

        A trouble that lasts beyond such a span begins at the end of the span.
        """
        for from_ms, to_ms in sorted(self.spans):
            if from_ms <= start_ms < to_ms:
                start_ms = to_ms
        for from_ms, to_ms in sorted(self.spans, reverse=True):
            if from_ms < end_ms <= to_ms:
                end_ms = from_ms
        return (start_ms, end_ms) if start_ms <= end_ms else None
