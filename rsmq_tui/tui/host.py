"""What screens and commands may ask of the app they live in."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rsmq_tui.monitor import Snapshot, Source

if TYPE_CHECKING:
    from rsmq_tui.triage.previews import Scope


class Dashboard(Protocol):
    """The app, as its screens know it."""

    source: Source
    clock: Callable[[], float]
    ascii_only: bool
    clock_times: bool
    snapshot: Snapshot | None

    @property
    def can_change(self) -> bool:
        """True where queues may be changed."""
        ...

    @property
    def read_only(self) -> bool:
        """True where whoever started the dashboard said that nothing may be changed."""
        ...

    def ask_change(self, name: str, queue: str, scope: "Scope | None" = None, *, body: bytes | None = None) -> None:
        """Ask for the change of that name, show what it would do, and make it when the answer is yes.

        ``scope`` says which messages it is for; ``body`` is what a message to send begins with.
        """
        ...

    def undo(self, queue: str | None) -> None:
        """Show what taking back the last change (of that queue) would do, and do it when the answer is yes."""
        ...

    def export(self, queue: str, scope: "Scope | None") -> None:
        """Ask for a file and write messages to it."""
        ...

    def open_queue(self, queue: str) -> None:
        """Go to a queue's own screen."""
        ...

    def open_message(self, queue: str, id: str) -> None:
        """Go to one message."""
        ...

    def copy_text(self, text: str, what: str) -> None:
        """Copy to the terminal's clipboard."""
        ...
