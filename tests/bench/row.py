"""What a row of the bench is: two sides, one ratio, one target."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Sense(Enum):
    """How a row's ratio is computed from its two figures, and its direction."""

    TIMES_LESS = ">="
    """ratio = other / ours: how many times less ours takes; at least the target."""

    AT_MOST = "<="
    """ratio = ours / other: how many times the other's cost ours is; at most the target."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the bench: ``quick`` shrinks every size until the figures mean nothing; ``say`` tells the progress."""

    quick: bool
    say: Callable[[str], None]

    def size(self, full: int, quick: int) -> int:
        """Return the size that this run uses."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Measured:
    """The medians of both sides, in the row's unit; ``note`` has further observations."""

    ours: float
    other: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: what is measured, against what, and the ratio it must reach."""

    name: str
    against: str
    unit: str
    sense: Sense
    target: float
    measure: Callable[[Run], Measured]

    @property
    def wanted(self) -> str:
        """The target with its direction: >= 30, <= 1.15."""
        return f"{self.sense.value} {self.target:g}"

    def result(self, measured: Measured | None) -> dict[str, Any]:
        """Return the row as ``--json`` prints it; None stands for a row that could not be measured."""
        ours = other = ratio = None
        if measured is not None:
            ours, other = measured.ours, measured.other
            # Judged as printed, so that readers of the ratio reach the same verdict.
            ratio = round(other / ours if self.sense is Sense.TIMES_LESS else ours / other, 3)
        return {
            "row": self.name,
            "ours": None if ours is None else round(ours, 4),
            "other": None if other is None else round(other, 4),
            "unit": self.unit,
            "ratio": ratio,
            "target": self.wanted,
            "ok": ratio is not None and self.reaches(ratio),
        }

    def reaches(self, ratio: float) -> bool:
        """Return whether a ratio reaches the target."""
        return ratio >= self.target if self.sense is Sense.TIMES_LESS else ratio <= self.target
