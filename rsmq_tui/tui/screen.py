"""The base of all full screens: the snapshot, the status line, and the line of the running change."""

from typing import TYPE_CHECKING, ClassVar

from textual.reactive import var
from textual.screen import Screen
from textual.widgets import Input

from rsmq_tui.monitor import Snapshot
from rsmq_tui.tui.changes.controller import ChangeTold
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.keys import Usable, Where, can_be_used
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.lines import ChangeLine, KeyHints

if TYPE_CHECKING:
    from rsmq_tui.tui.replay.session import ReplaySession

NO_SERVER = "select a queue first: this applies to its server"


class DashboardScreen(Screen[None]):
    """A screen that shows the app's last snapshot by ``show_snapshot``, as long as it is in front.

    ``WHERE`` names the keys that work here. ``place`` tells which of several servers it shows; None is all of them.
    While it ``is_following``, the app calls ``take`` and ``tell_change`` for what is new.
    """

    # A key that is typed ahead is for what the screen lists, and must not land in the line of a filter.
    AUTO_FOCUS = "RowTable"
    WHERE: ClassVar[tuple[Where, ...]] = ()
    snapshot: var[Snapshot | None] = var(None)

    def __init__(self, place: str | None = None) -> None:
        super().__init__()
        self.place = place
        self._shown_in: ReplaySession | None = None
        self.is_following = False

    def on_mount(self) -> None:
        """Show the last snapshot, and what is told of a change; from now on the app gives this screen what is new."""
        self._shown_in = self.dashboard.replay
        if self._shown_in is not None:
            from rsmq_tui.tui.replay.banner import ReplayBanner  # noqa: PLC0415 - live screens need none

            self.mount(ReplayBanner(), before=0)
        self.is_following = True
        self.take(self.dashboard.snapshot)
        self.tell_change(self.dashboard.changes.told)

    def on_screen_resume(self) -> None:
        """Show what came in while another screen was in front."""
        self.refresh_words()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let a slash be typed in the filter; leave out what changes a queue where that may not be."""
        if action == "filter" and isinstance(self.focused, Input):
            return False
        return can_be_used(self.WHERE, action, parameters, self.usable)

    def leads_somewhere(self, action: str) -> bool:
        """Tell whether a key's action does more here than to say why it does nothing."""
        return action != "history" or self.dashboard.past is not None

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the news."""
        raise NotImplementedError

    def rest(self) -> None:
        """Bring up to date what a poll alone does not: the user asked for it."""

    @property
    def dashboard(self) -> Dashboard:
        """What this screen shares with the others."""
        return dashboard_of(self.app)

    @property
    def can_change(self) -> bool:
        """True where what this screen shows may be changed."""
        return self.dashboard.can_change if self.place is None else self.site.can_change

    @property
    def usable(self) -> Usable:
        """Which keys have a use here."""
        sites = self.dashboard.sites if self.place is None else (self.site,)
        return Usable(self.can_change, self.dashboard.replay is None, frozenset(site.kind.name for site in sites))

    @property
    def chosen_place(self) -> str | None:
        """The server that a key is meant for; None where nothing tells."""
        return self.place

    @property
    def chosen_queue(self) -> tuple[str, str, str] | None:
        """The queue that the screen is of, by its server, namespace and name; None where it is of all."""
        return None

    @property
    def site(self) -> WatchedServer:
        """The server that this screen shows; raises ``LookupError`` where it shows several."""
        return self.dashboard.site(self.place or "")

    def take(self, snapshot: Snapshot | None) -> None:
        """Take the last snapshot, and show it where this screen is in front."""
        if self.dashboard.replay is not self._shown_in:
            # A replay is shown over this screen, or was until now.
            return
        if self._shown_in is not None and self.place is not None:
            # A place that was alone gets a label when another one appears.
            self.place = self._shown_in.label_of(self.place)
        news = snapshot if snapshot is None or self.place is None else snapshot.part(self.place)
        if news is self.snapshot:
            # Another server had news.
            return
        self.snapshot = news
        if self.is_current:
            self.refresh_words()

    def refresh_words(self) -> None:
        """Show the last snapshot again: what it is told with has changed."""
        snapshot = self.snapshot
        if snapshot is not None:
            self.set_class(snapshot.link.failure is not None and snapshot.link.fresh_at_s is not None, "-stale")
            self.show_snapshot(snapshot)

    def tell_change(self, told: ChangeTold | None) -> None:
        """Show what there is to tell of a change; None where there is nothing any more."""
        if self._shown_in is not None:
            # Whatever was changed was changed on a live server.
            return
        line = self.query_one_optional(ChangeLine)
        if line is None:
            # Most screens never need it.
            if told is None:
                return
            hints = self.query_one_optional(KeyHints)
            if hints is None:
                # The app is closing, and the screen is empty already.
                return
            line = ChangeLine()
            self.mount(line, before=hints)
        line.tell(told)
        if told is not None and not told.is_running:
            self._follow_change(told)

    def _follow_change(self, told: ChangeTold) -> None:
        """Bring up to date what a change that has ended may have changed."""
