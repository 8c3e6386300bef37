"""What screens and commands may ask of the app they live in."""

from collections.abc import Callable
from typing import Protocol

from rsmq_tui.monitor import Snapshot, Source


class Dashboard(Protocol):
    """The app, as its screens know it."""

    source: Source
    clock: Callable[[], float]
    ascii_only: bool
    clock_times: bool
    snapshot: Snapshot | None

    def open_queue(self, queue: str) -> None:
        """Go to a queue's own screen."""
        ...

    def open_message(self, queue: str, id: str) -> None:
        """Go to one message."""
        ...

    def copy_text(self, text: str, what: str) -> None:
        """Copy to the terminal's clipboard."""
        ...
