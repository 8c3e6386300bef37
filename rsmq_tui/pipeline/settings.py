"""What people decide about an analysis: its thresholds. No Spark here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The thresholds of an analysis."""

    poison_rc: int = 5
    """A message received so often, or more, is poison."""
    depth_limit: int | None = None
    """The depth that a queue should not reach; None for no limit."""
    age_limit_ms: int = 600_000
    """The age that the first ready message of a queue should not reach."""
    anomaly_score: float = 6.0
    """An hour so many robust standard deviations away from what is usual, or more, is an anomaly."""
