"""Service level objectives (SLOs): what a profile promises of its server and its queues.

The terms are those of Google's SRE workbook: an indicator (SLI) is the share of the time that is good, an objective is
the least share that is accepted, and the rest of the time is the error budget.
"""

from dataclasses import dataclass

from rsmq_tui.monitor.text import duration
from rsmq_tui.protocol.kinds import Kind, is_among

ANSWERING, AGE, STALLED = "answering", "age p99", "stalled"


@dataclass(frozen=True, slots=True)
class Objective:
    """One promise: in ``percent`` of the time, of any ``window_ms``, the ``sli`` is good.

    ``answering`` is of the server: polls succeed. The others are of each queue that ``queues`` names, by names and
    patterns; all if it is empty. ``age p99``: in a minute, the age of the first ready message is below ``below_ms`` at
    the 99th percentile of the samples. ``stalled``: no stall, where one that is shorter than ``below_ms`` counts as
    none.
    """

    sli: str
    percent: float
    below_ms: int = 0
    queues: tuple[str, ...] = ()
    window_ms: int = 28 * 86_400_000

    @property
    def target(self) -> str:
        """The target, as the configuration file has it."""
        limit = duration(self.below_ms).removesuffix(" 0s").removesuffix(" 0m")
        return self.sli if self.sli == ANSWERING else f"{self.sli} < {limit}"

    @property
    def budget(self) -> float:
        """The share of the time that may be bad."""
        return (100 - self.percent) / 100

    def covers(self, queue: str, kind: Kind) -> bool:
        """Return whether it applies to a queue of this name."""
        return not self.queues or is_among(queue, kind, self.queues)
