"""What is too much: limits with a warning and a critical bound, and how bad it is to be beyond them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ends, worst first: a server that cannot be read may hide anything, and comes before a warning."""

    CRITICAL = "critical"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"

    @property
    def exit_status(self) -> int:
        """The number that monitoring systems know it by."""
        return {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}[self.value]

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self]


_RANKS = {status: rank for rank, status in enumerate(Status)}


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of them, OK where there are none."""
    return min(statuses, key=lambda status: status.rank, default=Status.OK)


@dataclass(frozen=True, slots=True)
class Limit:
    """From where on a number is a warning, and from where on critical; None for never."""

    warning: int | None = None
    critical: int | None = None

    @property
    def least(self) -> int:
        """The lower of the two."""
        return min(bound for bound in (self.warning, self.critical) if bound is not None)

    def above(self, value: int) -> tuple[Status, int] | None:
        """Return what a value beyond a bound is, and that bound; None for a value within both."""
        return self._judged(lambda bound: value > bound)

    def reached(self, value: int) -> tuple[Status, int] | None:
        """As ``above``, where the bound itself is too much already."""
        return self._judged(lambda bound: value >= bound)

    def _judged(self, is_over: Callable[[int], bool]) -> tuple[Status, int] | None:
        if self.critical is not None and is_over(self.critical):
            return Status.CRITICAL, self.critical
        if self.warning is not None and is_over(self.warning):
            return Status.WARNING, self.warning
        return None


@dataclass(frozen=True, slots=True)
class Limits:
    """What is checked: ``queues`` are names or patterns, none for all; a limit of None is not looked at.

    ``expired`` is about the leases of list queues. ``scan_limit`` is how many messages of a queue are looked at for
    ``rc``; ``timeout_s`` is for a whole check.
    """

    queues: tuple[str, ...] = ()
    depth: Limit | None = None
    age_ms: Limit | None = None
    rc: Limit | None = None
    stalled_ms: Limit | None = None
    expired: Limit | None = None
    scan_limit: int = 100_000
    timeout_s: float = 10.0
