"""The servers that the dashboard watches, and what screens may ask of their app."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from rsmq_tui.monitor import Snapshot, Source, Thresholds
from rsmq_tui.protocol.lists.naming import LISTS_NS

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.findings import Finding
    from rsmq_tui.triage.scope import Scope
    from rsmq_tui.triage.service import ChangeService
    from rsmq_tui.tui.replay.session import Replaying
    from rsmq_tui.tui.widgets.text_lines import ChangeTold


class WatchedServer:
    """One server, in one namespace at a time.

    ``place`` tells it from others for as long as the program runs, and is empty where there is one; ``name`` is the
    profile's, shown at the top in its ``colour``, which is ``#rrggbb``, and ``ns`` the namespace that it begins in.
    ``triage`` is what changes its queues, or makes
    it when it is first needed: the first numbers are on the screen before it is loaded. Without it, and where it or the
    site is ``read_only``, nothing is changed.
    """

    def __init__(
        self,
        source: Source,
        *,
        place: str = "",
        name: str = "",
        ns: str = "",
        colour: str | None = None,
        triage: "ChangeService | Callable[[], ChangeService] | None" = None,
        read_only: bool = False,
    ) -> None:
        self.source = source
        self.place = place
        self.name = name
        self.colour = colour
        self.read_only = read_only or bool(getattr(triage, "read_only", False))
        self._opening = triage
        self._triage: ChangeService | None = None
        self._first_ns = ns
        self._ns: str | None = None

    @property
    def is_of_lists(self) -> bool:
        """True where the queues are Redis Lists, of which no namespace has more than the others."""
        return self._first_ns == LISTS_NS

    def title(self, ns: str) -> str:
        """Return what it is called while it watches that namespace."""
        is_elsewhere = self._first_ns and ns and ns != self._first_ns
        return f"{self.name or self.place} {ns}" if is_elsewhere else self.place or self.name

    @property
    def can_export(self) -> bool:
        """True where messages may be written to a file."""
        return self._opening is not None

    @property
    def can_change(self) -> bool:
        """True where queues may be changed."""
        return self._opening is not None and not self.read_only

    def awaited_ns(self, shown_ns: str) -> str | None:
        """Return the namespace that it was switched to, as long as another one is shown; None where all is one."""
        return None if self.is_of_lists or self._ns in (None, shown_ns) else self._ns

    @property
    def triage(self) -> "ChangeService":
        """What changes its queues, made when it is first asked for."""
        if self._triage is None:
            if self._opening is None:
                raise RuntimeError("changes are not available")
            self._triage = self._opening() if callable(self._opening) else self._opening
            if self._ns is not None:
                self._triage.watch(self._ns)
        return self._triage

    def switch(self, ns: str) -> None:
        """Watch and change the queues of another namespace from now on."""
        self._ns = ns
        self.source.switch(ns)
        if self._triage is not None:
            self._triage.watch(ns)

    async def aclose(self) -> None:
        """Let go of the server and the journal."""
        if self._triage is not None:
            await self._triage.aclose()
        elif self._opening is not None and not callable(self._opening):
            await self._opening.aclose()
        await self.source.aclose()


def are_of_one_server(sites: Sequence[WatchedServer]) -> bool:
    """Tell whether there is nothing to tell apart but the kinds of queues: one namespace, and the lists beside it."""
    of_lists = [site for site in sites if site.is_of_lists]
    others = [site for site in sites if not site.is_of_lists]
    return len(of_lists) <= 1 and len(others) <= 1 and len({site.name for site in sites}) == 1


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
    def sites(self) -> Sequence[WatchedServer]:
        """The servers that are watched."""
        ...

    def site(self, place: str) -> WatchedServer:
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

    def take(self, snapshot: Snapshot, profile: str | None = None, thresholds: Thresholds | None = None) -> None:
        """Record a snapshot of that profile's server, with the thresholds of its verdicts."""
        ...
