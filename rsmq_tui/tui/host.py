"""What screens and commands may ask of the app they live in."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from rsmq_tui.monitor import Snapshot
from rsmq_tui.tui.sites import Site

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit_findings import Finding
    from rsmq_tui.triage.previews import Scope
    from rsmq_tui.tui.recording import Recording
    from rsmq_tui.tui.replaying import Replaying
    from rsmq_tui.tui.widgets.change_line import ChangeTold


class Dashboard(Protocol):
    """The app, as its screens know it.

    ``place`` tells in all of this which of several servers is meant, and is empty where there is one.
    """

    clock: Callable[[], float]
    ascii_only: bool
    recording: "Recording | None"
    replay: "Replaying | None"
    clock_times: bool
    snapshot: Snapshot | None
    change_told: "ChangeTold | None"

    @property
    def can_change(self) -> bool:
        """True where queues of any server may be changed."""
        ...

    @property
    def sites(self) -> Sequence[Site]:
        """The servers that are watched."""
        ...

    def site(self, place: str) -> Site:
        """Return the server of that place; raises ``LookupError``."""
        ...

    def ask_change(
        self,
        name: str,
        queue: str,
        scope: "Scope | None" = None,
        *,
        body: bytes | None = None,
        about: str = "",
        place: str = "",
    ) -> bool:
        """Ask for the change of that name, show what it would do, and make it when the answer is yes.

        ``scope`` says which messages it is for, or ``about`` what; ``body`` is what a message to send begins with.
        False where it may not be asked for now.
        """
        ...

    def undo(self, queue: str | None, place: str = "") -> None:
        """Show what taking back the last change (of that queue) would do, and do it when the answer is yes."""
        ...

    def retry_skipped(self) -> None:
        """Show what the last change would do to messages that it skipped because they were received meanwhile."""
        ...

    def export(self, queue: str, scope: "Scope | None", place: str = "") -> None:
        """Ask for a file and write messages to it."""
        ...

    def fix(self, queue: str, findings: "tuple[Finding, ...]", ns: str | None, place: str = "") -> None:
        """Show what mending these findings of a queue of ``ns`` would do, and do it when the answer is yes."""
        ...

    def open_audit(self, queue: str | None, place: str = "") -> None:
        """Go to the audit of a queue, or of all."""
        ...

    def open_history(self, queue: tuple[str, str, str] | None = None) -> None:
        """Go to the past, of a queue by its server, namespace and name, or of all."""
        ...

    def forget_closed(self) -> None:
        """Forget screens that are closed, and the replays that they hold."""
        ...

    def open_queue(self, queue: str, place: str = "") -> None:
        """Go to a queue's own screen."""
        ...

    def open_message(self, queue: str, id: str, place: str = "") -> None:
        """Go to one message."""
        ...

    def open_page(self, topic: str) -> None:
        """Show the page for users of that topic."""
        ...

    def copy_text(self, text: str, what: str) -> None:
        """Copy to the terminal's clipboard."""
        ...
