"""What keeps the snapshots that the dashboard shows, as far as the dashboard knows it."""

from typing import Protocol

from rsmq_tui.monitor import Snapshot


class RecordingTally(Protocol):
    """How a recording goes; ``problem`` is the last thing that went wrong, and ``is_failing`` whether it still does."""

    @property
    def polls(self) -> int:
        """How many were recorded."""
        ...

    @property
    def problem(self) -> str | None:
        """What went wrong, in a sentence."""
        ...

    @property
    def is_failing(self) -> bool:
        """Whether polls are not recorded now."""
        ...


class Recording(Protocol):
    """Takes snapshots, at once, and never fails: what went wrong is in its ``tally``."""

    @property
    def tally(self) -> RecordingTally:
        """How it goes."""
        ...

    def take(self, snapshot: Snapshot, profile: str | None = None) -> None:
        """Record a snapshot of that profile's server."""
        ...
