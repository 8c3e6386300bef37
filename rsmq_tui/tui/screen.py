"""The base of all full screens: the snapshot, the status line, and the line of the running change."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.reactive import var
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.keys import Key, Usable, Where, can_be_used
from rsmq_tui.tui.links import Link
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.base_screen import BaseScreen
from rsmq_tui.tui.widgets.lines import FRESHNESS_S, ChangeLine, KeyHints, StatusLine, is_stale
from rsmq_tui.tui.widgets.painted import Painted
from rsmq_tui.tui.widgets.pane import Pane
from rsmq_tui.tui.widgets.word_filter import FilterInput, WordFilter

if TYPE_CHECKING:
    from rsmq_tui.tui.replay.session import ReplaySession

NO_SERVER = "select a queue first: this applies to its server"


class DashboardScreen(BaseScreen[None]):
    """A screen that shows the app's last snapshot by ``show_snapshot`` while it is in sight.

    ``WHERE`` names its key groups. ``place`` is the server that it shows; None means all servers. ``parts`` are the
    widgets between the status line and the key hints. While it ``is_following``, the app calls ``receive_snapshot`` and
    ``receive_change`` with updates.
    """

    # Not the filter, which is hidden.
    AUTO_FOCUS = "RowTable"
    WHERE: ClassVar[tuple[Where, ...]] = ()
    snapshot: var[Snapshot | None] = var(None)
    place: var[str | None] = var(None)

    def __init__(self, place: str | None = None) -> None:
        super().__init__()
        self.place = place
        self.parts: Sequence[Widget] = ()
        self.hints = KeyHints(self.hinted_keys)
        self._shown_in: ReplaySession | None = None
        self._banner: Painted | None = None
        self.is_following = False

    def compose(self) -> ComposeResult:
        """Status, the parts, hints."""
        yield StatusLine().data_bind(DashboardScreen.snapshot, DashboardScreen.place)
        yield from self.parts
        yield self.hints

    def on_mount(self) -> None:
        """Show the last snapshot and the state of a change, and follow updates from now on."""
        self._shown_in = self.dashboard.replay
        if self._shown_in is not None:
            from rsmq_tui.tui.replay.banner import ReplayBanner  # noqa: PLC0415 - live screens need none

            self._banner = ReplayBanner()
            self.mount(self._banner, before=0)
        self.is_following = True
        self.show_tour()
        # The next snapshot may not come.
        self.set_interval(FRESHNESS_S, self.dim_stale)
        self.receive_snapshot(self.dashboard.snapshot)
        self._show_change(self.dashboard.changes.status)

    def show_tour(self) -> None:
        """Show the step of the tour, if there is one."""
        tour = self.dashboard.tour
        if tour is not None and not tour.is_closed and self._shown_in is None:
            from rsmq_tui.tui.widgets.tour import TourStrip  # noqa: PLC0415 - few screens need it

            self.mount(TourStrip(tour), before=self.hints)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Show what arrived while another screen was active."""
        self._place_pane()
        self.refresh_words()

    def on_screen_suspend(self) -> None:
        """Stop reading for the pane: another screen is active."""
        if (pane := self.query_one_optional(Pane)) is not None:
            pane.leave()

    def on_resize(self) -> None:
        """Show the pane if there is room for it."""
        self._place_pane()

    def turn_pane(self) -> None:
        """Show the pane beside the table, below it, or not at all."""
        pane = self.query_one_optional(Pane)
        if pane is None:
            self.warn("this screen has no pane")
        else:
            pane.turn()
            self.refresh_words()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable unavailable keys; a filter that is being typed is not opened again."""
        if action in ("filter", "find") and isinstance(self.focused, Input):
            return False
        return can_be_used(self.WHERE, action, parameters, self.usable)

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing that would change queues if that were allowed."""
        keymap = self.dashboard.keymap
        if not keymap.would_change(self.WHERE, event.key, self.usable) or event.key in self.active_bindings:
            return
        if self.dashboard.replay is not None:
            self.warn("this is a replay: nothing can be changed")
        else:
            self.dashboard.changes.say_read_only()

    def leads_somewhere(self, action: str) -> bool:
        """Return whether the action has an effect here; otherwise its key hint is not shown."""
        return action != "history" or self.dashboard.analysis is not None

    def hinted_keys(self) -> list[Key]:
        """Return the available keys that have a hint here, those of the table before those of the screen."""
        where: tuple[Where, ...] = (*reversed(self.WHERE), "app")
        keys = self.dashboard.keymap.of(
            *(where if self.dashboard.replay is None else ("replay", *where)), usable=self.usable
        )
        return [replace(key, hint=words) for key in keys if key.hint and (words := self.hint_of(key))]

    def hint_of(self, key: Key) -> str:
        """Return the words of a key in the bottom line, empty if its action has no effect here."""
        if key.action != "undo":
            return key.hint if self.leads_somewhere(key.action) else ""
        scope = self.undo_scope
        return "" if scope is None else self.dashboard.changes.undo_words(*scope)

    @property
    def undo_scope(self) -> tuple[WatchedServer, str | None] | None:
        """The server, and the queue if it shows one, whose last change is undone; None if that is not known.

        While the outcome of a change says that the key undoes it, that is its server, wherever the cursor is.
        """
        if (server := self.dashboard.changes.server_to_undo) is not None:
            return server, None
        place = self.chosen_place
        return None if place is None else (self.dashboard.server(place), None)

    def action_undo(self) -> None:
        """Preview the undo of the last change."""
        scope = self.undo_scope
        if scope is None:
            self.warn(NO_SERVER)
        else:
            self.dashboard.changes.undo(*scope)

    def action_filter(self) -> None:
        """Open the filter, on a screen that has one."""
        if (entry := self.query_one_optional(WordFilter)) is not None:
            entry.open()

    def action_clear(self) -> None:
        """Clear the filter; if there is none, go back."""
        entry = self.query_one_optional(WordFilter)
        if entry is None or not entry.close():
            self.app.pop_screen()

    def action_saved_filters(self) -> None:
        """Choose a saved filter."""
        if not self.saved_filters:
            save = self.dashboard.keymap.first_key("save_filter")
            words = f"no filter is saved for such a screen: {save} in the filter line saves one"
            self.warn(words)
        elif (entry := self.query_one_optional(FilterInput)) is not None:
            self.dashboard.navigation.open("filters", entry.kind, lambda: self.saved_filters, self.apply_filter)

    @property
    def saved_filters(self) -> Mapping[str, str]:
        """The saved filters of screens of this kind that this one can read, by name."""
        entry = self.query_one_optional(FilterInput)
        return {} if entry is None else entry.saved

    def apply_filter(self, text: str) -> None:
        """Filter by a text, as if it had been typed and entered."""
        self.action_filter()
        self.query_one(FilterInput).apply(text)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show a new snapshot."""
        raise NotImplementedError

    def refresh_unpolled(self) -> None:
        """Refresh what a poll does not update, such as a search: the user asked for it."""

    @property
    def dashboard(self) -> Dashboard:
        """The state that all screens share."""
        return dashboard_of(self.app)

    @property
    def can_change(self) -> bool:
        """Whether the queues that this screen shows may be changed."""
        return self.dashboard.can_change if self.place is None else self.server.can_change

    @property
    def usable(self) -> Usable:
        """The available keys."""
        servers = self.dashboard.servers if self.place is None else (self.server,)
        return Usable(
            self.can_change,
            self.dashboard.replay is None,
            not self.app.is_web,
            frozenset(server.kind.name for server in servers),
            demo=self.dashboard.controls is not None,
            tour=self.dashboard.tour is not None,
        )

    @property
    def chosen_place(self) -> str | None:
        """The place of the server that a key applies to; None if it is not known."""
        return self.place

    @property
    def link(self) -> Link:
        """The link to what this screen shows; the link to the overview if it has none of its own."""
        queue = self.chosen_queue
        return Link() if queue is None else Link(queue[2], server=self.place or "")

    def address(self, page: str) -> str:
        """Return the address of what this screen shows: that of the ``page`` with a link, or else a command."""
        from shlex import join  # noqa: PLC0415 - not before the first paint

        servers, replay, link = self.dashboard.servers, self.dashboard.replay, self.link
        analysis = None if servers else self.dashboard.analysis
        link = link._replace(
            server=link.server if link.queue and len(servers) > 1 else "",
            at_ms=None if replay is None else replay.position_ms,
        )
        if page:
            return f"{page}#/{link}"
        words, names = ["rsmq-tui"], list(dict.fromkeys(server.name for server in servers if server.name))
        if replay is not None:
            words += ["replay", replay.label]
        elif analysis is not None:
            words += ["history", analysis.analysis, *(["--history", analysis.history] if analysis.history else [])]
        elif names:
            words += ["--profile", ",".join(names)]
        elif servers[0].address:
            words += ["-r", servers[0].address]
        if replay is None and len(names) < 2:
            words += [word for server in servers for word in server.options]
        return join([*words, "--open", str(link)] if str(link) else words)

    @property
    def chosen_queue(self) -> tuple[str, str, str] | None:
        """The queue of this screen as (server, namespace, name); None if it shows all queues."""
        return None

    @property
    def queue_in_sight(self) -> str | None:
        """The name of the queue that this screen shows, or that is under the cursor."""
        return None if self.chosen_queue is None else self.chosen_queue[2]

    def action_events(self) -> None:
        """Show the log of events; on a queue, of those that are about it, or about its server."""
        if self.dashboard.events is None and self.dashboard.replay is None:
            self.warn("no events are recorded here")
        else:
            self.dashboard.navigation.open("events", self.chosen_queue)

    def ask_known(self, queue: str, place: str) -> None:
        """Ask for a note and an end, and acknowledge the trouble of a queue."""
        part = self.dashboard.part(place)
        if part is None:
            return
        from rsmq_tui.tui.overview.known import ask_known  # noqa: PLC0415 - not before the first paint

        form = ask_known(self.dashboard, part, queue)
        if isinstance(form, str):
            self.warn(form)
        else:
            self.app.push_screen(form)

    @property
    def server(self) -> WatchedServer:
        """The server that this screen shows; raises ``LookupError`` if it shows several."""
        return self.dashboard.server(self.place or "")

    def receive_snapshot(self, snapshot: Snapshot | None) -> None:
        """Take the last snapshot, and show it if this screen is in sight."""
        if self.dashboard.replay is not self._shown_in:
            # A replay was opened or closed above this screen.
            return
        if self._banner is not None:
            self._banner.repaint()
        if self._shown_in is not None and self.place is not None:
            # The only place of a replay gets a label when another one appears.
            self.place = self._shown_in.label_of(self.place)
        news = snapshot if snapshot is None or self.place is None else snapshot.part(self.place)
        if news is self.snapshot:
            # Only another server has a new snapshot.
            return
        self.snapshot = news
        if self.is_in_sight:
            self.refresh_words()

    @property
    def is_in_sight(self) -> bool:
        """Whether it is in front, or only dialogs are above it."""
        # Textual's ``is_current`` is True below any screen.
        stack = self.app.screen_stack
        return self in stack and all(isinstance(above, ModalScreen) for above in stack[stack.index(self) + 1 :])

    def refresh_words(self) -> None:
        """Show the last snapshot again, in another form or with other information."""
        snapshot = self.snapshot
        if snapshot is not None:
            self.dim_stale()
            self.show_snapshot(snapshot)
            scope = self.undo_scope
            if scope is not None:
                self.dashboard.changes.follow_undo(*scope)

    def dim_stale(self) -> None:
        """Dim the numbers while they are stale, as the status line says it."""
        snapshot = self.snapshot
        if snapshot is not None:
            self.set_class(snapshot.connection.fresh_at_s is not None and is_stale(snapshot, self.dashboard), "-stale")

    def _place_pane(self) -> None:
        pane = self.query_one_optional(Pane)
        if pane is not None and pane.place():
            self.refresh_words()

    def receive_change(self, status: ChangeStatus | None) -> None:
        """Show the progress or outcome of a change, and what it has affected; None removes it."""
        if self._show_change(status) and status is not None and not status.is_running:
            self._follow_change(status)

    def _show_change(self, status: ChangeStatus | None) -> bool:
        """Show a change in its line, and return whether there is such a line."""
        if self._shown_in is not None:
            # Changes are made on live servers only.
            return False
        line = self.query_one_optional(ChangeLine)
        if line is None:
            # Most screens never need it.
            if status is None:
                return False
            if not (self.is_attached and self.hints.is_attached):
                # The app is closing: it accepts no more widgets, and the screen may already be empty.
                return False
            line = ChangeLine()
            self.mount(line, before=self.hints)
        line.show(None if status is None else self._named(status))
        return True

    def _named(self, status: ChangeStatus) -> ChangeStatus:
        """Name the queue in an outcome that is shown on the screen of another queue."""
        own, aims = self.chosen_queue, status.aims
        if own is None or len(aims) != 1 or (aims[0].server is self.server and aims[0].queue == own[2]):
            return status
        return replace(status, words=f"{printable(aims[0].queue, 60)}: {status.words}")

    def _follow_change(self, status: ChangeStatus) -> None:
        """Refresh what a change that has finished since the screen was opened may have affected."""
