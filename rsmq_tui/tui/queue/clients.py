"""Who works on a queue: a dialog with its clients, and the number of those that are blocked on a list."""

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from rsmq_tui.monitor import PeekError, Source
from rsmq_tui.monitor.poller import KnowsClients, KnowsWaiters, Waiters
from rsmq_tui.monitor.text import UNKNOWN, count, duration, plural, printable
from rsmq_tui.protocol.server.clients import COST, SECONDS_MAX, ClientActivity, ClientGroup, QueueClients
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.controls import Dialog, DialogButton, ScrolledText
from rsmq_tui.tui.widgets.row_table import Column, RowTable

_ROWS_MAX = 1_000
_ACTIVITIES: tuple[Column[ClientActivity, None], ...] = (
    Column("address", "ADDRESS", 21, lambda client, _: (client.address, "strong"), grow=True, middle=True),
    Column("name", "NAME", 10, lambda client, _: (client.name or UNKNOWN, ""), grow=True, drop=1),
    Column("library", "LIBRARY", 10, lambda client, _: (client.library or UNKNOWN, "muted"), grow=True, drop=3),
    Column("receives", "RECEIVES", 8, lambda client, _: (count(client.receives), ""), right=True),
    Column("deletes", "DELETES", 8, lambda client, _: (count(client.deletes), ""), right=True),
    Column("sends", "SENDS", 8, lambda client, _: (count(client.sends), ""), right=True),
    Column("calls", "CALLS", 8, lambda client, _: (count(client.calls), "muted"), right=True, drop=2),
)
_GROUPS: tuple[Column[ClientGroup, None], ...] = (
    Column("clients", "CLIENTS", 8, lambda group, _: (count(group.clients), "strong"), right=True),
    Column("name", "NAME", 12, lambda group, _: (group.name or UNKNOWN, ""), grow=True),
    Column("library", "LIBRARY", 12, lambda group, _: (group.library or UNKNOWN, "muted"), grow=True, drop=1),
    Column("command", "LAST COMMAND", 14, lambda group, _: (group.command, ""), grow=True),
    Column("idle", "IDLE", 8, lambda group, _: (duration(group.idle_s * 1000), ""), right=True, drop=2),
)


async def waiters_text(source: Source, queue: str) -> str:
    """Describe how many consumers are blocked on a list or on all lists of a server, or why that is unknown."""
    if not isinstance(source, KnowsWaiters):
        return "only consumers of Redis lists can be blocked"
    try:
        waiting = await source.blocked(queue)
    except PeekError as error:
        return printable(str(error), 200)
    if not waiting.here:
        which = "Redis does not say which" if waiting.here is None and waiting.anywhere else "none on this one"
        return f"{plural(waiting.anywhere, 'consumer')} blocked on lists of this server; {which}"
    others = plural(waiting.anywhere - waiting.here, "other")
    return f"{waiting_text(waiting)}; {others} on other lists"


def waiting_text(waiting: Waiters) -> str:
    """Describe the consumers that are blocked on a list."""
    return f"waiting: {waiting.here}, the first for {duration((waiting.longest_s or 0) * 1000)}"


class ClientsScreen(Dialog[None]):
    """Shows the clients that work on a queue: at once a guess from CLIENT LIST, and by MONITOR if the button says so.

    The text above the button describes the cost of MONITOR. ``has_watched`` says whether MONITOR has answered.
    """

    DEFAULT_CSS = """
    ClientsScreen .dialog {
        width: 100; max-width: 95%; height: 80%;
        & .words { height: auto; max-height: 50%; padding: 0 1; }
        & #words { height: auto; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("dialog")
    AUTO_FOCUS = None

    def __init__(self, source: Source, queue: str) -> None:
        super().__init__()
        self._source, self._queue = source, queue
        self.activities = RowTable(_ACTIVITIES, None, id="activities")
        self.groups = RowTable(_GROUPS, None, id="client-groups")
        self.has_watched = False
        self._blocked = ""

    def compose(self) -> ComposeResult:
        """The text, one of the tables, the buttons."""
        with Vertical(classes="dialog"):
            with ScrolledText(classes="words", can_focus=False):
                yield Static(markup=False, id="words")
            yield self.activities
            yield self.groups
            with Horizontal(classes="buttons"):
                yield DialogButton("Close", id="cancel")
                yield DialogButton(f"Watch for {SECONDS_MAX:g} second", id="watch", disabled=True)

    def on_mount(self) -> None:
        """Read CLIENT LIST."""
        self.query_one(".dialog").border_title = Content(f"Clients of {printable(self._queue, 60)}")
        self.query_one("#cancel").focus()
        self.activities.display = False
        self._look(None)

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_close()

    @on(Button.Pressed, "#watch")
    def _watch(self) -> None:
        self._look(SECONDS_MAX)

    @work(group="clients", exclusive=True)
    async def _look(self, seconds: float | None) -> None:
        watch = self.query_one("#watch", DialogButton)
        watch.disabled = True
        words = self.query_one("#words", Static)
        words.update("reading …" if seconds is None else f"watching for {seconds:g} second …")
        source = self._source
        if not isinstance(source, KnowsClients):
            words.update("only a live server knows its clients")
            return
        try:
            found = await source.clients(self._queue, seconds=seconds)
            if seconds is None and isinstance(source, KnowsWaiters):
                self._blocked = f"{await waiters_text(source, self._queue)}\n"
        except PeekError as error:
            words.update(printable(str(error), 200))
        else:
            self._show(found)
        watch.disabled = False

    def _show(self, found: QueueClients) -> None:
        is_watched = found.refused is None and found.ended is not None
        self.has_watched |= is_watched
        self.activities.display, self.groups.display = is_watched, not is_watched
        if is_watched:
            rows = found.activities[:_ROWS_MAX]
            self.activities.empty_text = [(" no client used this queue meanwhile", "muted")]
            self.activities.show(rows, [client.address for client in rows], None)
            more = "CALLS are attempts to receive, with or without success."
        else:
            groups = (found.groups or ())[:_ROWS_MAX]
            self.groups.show(groups, ["\0".join(group[:3]) for group in groups], None)
            more = COST
        sentence = printable(found.sentence, 300)
        self.query_one("#words", Static).update(f"{self._blocked}{sentence[:1].upper()}{sentence[1:]}.\n{more}")
