"""What all full screens share: the snapshot, and the line at the top."""

from typing import ClassVar, cast

from textual.reactive import var
from textual.screen import Screen

from rsmq_tui.monitor import Snapshot
from rsmq_tui.tui.host import Dashboard
from rsmq_tui.tui.keymap import Where


class DashboardScreen(Screen[None]):
    """A screen that shows the app's last snapshot by ``show_snapshot``, as long as it is in front.

    ``WHERE`` names the keys that work here.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ()
    snapshot: var[Snapshot | None] = var(None)

    def on_mount(self) -> None:
        """Follow the app's snapshot and its choice between ages and clock times."""
        self.watch(self.app, "snapshot", self._take)
        self.watch(self.app, "clock_times", self._refresh_words, init=False)

    def on_screen_resume(self) -> None:
        """Show what came in while another screen was in front."""
        self._refresh_words()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the news."""
        raise NotImplementedError

    @property
    def dashboard(self) -> Dashboard:
        """The app that this screen lives in."""
        return cast("Dashboard", self.app)

    def _take(self, snapshot: Snapshot | None) -> None:
        self.snapshot = snapshot
        if self.is_current:
            self._refresh_words()

    def _refresh_words(self) -> None:
        snapshot = self.snapshot
        if snapshot is not None:
            self.set_class(snapshot.link.failure is not None and snapshot.link.fresh_at_s is not None, "-stale")
            self.show_snapshot(snapshot)
