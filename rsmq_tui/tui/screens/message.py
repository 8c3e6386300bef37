"""One message whole: what is known of it, and its body as JSON, text or hex."""

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from rsmq_tui.monitor import MessageRow, MessageState, MessageView, PeekError, Snapshot
from rsmq_tui.monitor.wording import clock, duration, plural, printable, size
from rsmq_tui.tui.body_text import View, first_view, lines_of
from rsmq_tui.tui.key import Where
from rsmq_tui.tui.keymap import bindings_of
from rsmq_tui.tui.screens.base import DashboardScreen
from rsmq_tui.tui.signs import MESSAGE_TOKENS
from rsmq_tui.tui.widgets.key_hints import KeyHints
from rsmq_tui.tui.widgets.line_view import LineView
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.status_line import StatusLine
from rsmq_tui.tui.widgets.text_line import TextLine

_VIEWS = tuple(View)


class MessageScreen(DashboardScreen):
    """Shows a message as it was when it was opened; its state is told as of now."""

    WHERE: ClassVar[tuple[Where, ...]] = ("message", "lines")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("message")

    def __init__(self, queue: str, id: str, place: str = "") -> None:
        super().__init__(place)
        self.queue = queue
        self.message_id = id
        self.body_view = LineView(id="body")
        self._title = TextLine(id="title")
        self._facts = TextLine(id="facts")
        self._message: MessageView | None = None
        self._view = View.PRETTY
        self._width = 0
        self._error: str | None = None

    def compose(self) -> ComposeResult:
        """Status, title, facts, body, hints."""
        yield StatusLine().data_bind(DashboardScreen.snapshot)
        yield self._title
        yield self._facts
        yield self.body_view
        yield KeyHints("message", "lines", "app")

    def on_mount(self) -> None:
        """Read the message."""
        self.body_view.border_title = "reading …"
        self.body_view.focus()
        self._fetch()

    @on(LineView.Resized)
    def _wrap_anew(self) -> None:
        if self.body_view.size.width != self._width:
            self._show_body(stay=True)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Tell the message's state as of now."""
        back = " < " if self.dashboard.ascii_only else " ◀ "
        self._title.show([(f"{back}{printable(self.queue, 60)} ", "muted"), (printable(self.message_id, 60), "strong")])
        self._facts.show(self._fact_pieces(snapshot.at_ms))

    def action_view(self, step: int) -> None:
        """Look at the body in another way."""
        self._view = _VIEWS[(_VIEWS.index(self._view) + step) % len(_VIEWS)]
        self._show_body()

    def action_copy_id(self) -> None:
        """Copy the id."""
        self.dashboard.copy_text(self.message_id, "the id")

    def action_copy_body(self) -> None:
        """Copy the body."""
        body = self._message.body if self._message else None
        if body is not None:
            self.dashboard.copy_text(body.decode("utf-8", "replace"), "the body")

    @work(group="message", exclusive=True)
    async def _fetch(self) -> None:
        try:
            self._message = await self.site.source.read(self.queue, self.message_id)
        except PeekError as error:
            self._error = str(error)
        else:
            if self._message.body is not None:
                self._view = first_view(self._message.body)
        self._show_body()
        if self.snapshot is not None:
            self.show_snapshot(self.snapshot)

    def _show_body(self, *, stay: bool = False) -> None:
        view, message = self.body_view, self._message
        body = message.body if message else None
        if body is None:
            view.border_title = Content(self._why_no_body())
            return
        self._width = view.size.width
        if not self._width:
            return
        shown = lines_of(body, self._view, self._width)
        tabs = " · ".join(f"[{choice}]" if choice is self._view else choice.value for choice in _VIEWS)
        view.border_title = Content(tabs)
        view.show(shown, stay=stay)

    def _why_no_body(self) -> str:
        message = self._message
        if self._error is not None:
            return printable(self._error, 100)
        if message is None:
            return "reading …"
        if message.row is None and not message.size:
            return "this message has left the queue"
        if message.size and self.dashboard.replay is not None:
            return f"its body of {size(message.size)} was not recorded: rsmq-tui record --messages 5m --bodies does"
        return f"its body of {size(message.size)} is too long to show" if message.size else "it has no body"

    def _fact_pieces(self, at_ms: int) -> list[Piece]:
        message = self._message
        row = message.row if message else None
        if message is None or row is None:
            return []
        due_ms = row.due_ms
        if row.is_item:
            due = _lease(row, at_ms)
        elif due_ms is None:
            due = "never visible"
        elif due_ms > at_ms:
            due = f"visible in {duration(due_ms - at_ms)}"
        else:
            due = f"visible for {duration(at_ms - due_ms)}"
        sent = "sent at an unknown time" if row.sent_ms is None else f"sent {clock(row.sent_ms, date=True)}"
        state = row.state_at(at_ms)
        told = (due, sent, *_receives(row), size(message.size))
        return [(f" {state.value}", MESSAGE_TOKENS[state]), ("".join(f" · {words}" for words in told), "")]


def _receives(row: MessageRow) -> tuple[str, ...]:
    """Say how often a message was received; nothing where nobody counts."""
    if row.rc is None:
        return ()
    first = f"received {plural(row.rc, 'time')}, first {clock(row.fr_ms, date=True)}"
    return (first if row.rc else "never received",)


def _lease(row: MessageRow, at_ms: int) -> str:
    """Say where an item of a list is, and until when."""
    if row.state is MessageState.READY:
        return "waiting to be taken"
    if row.state is MessageState.UNLEASED:
        return "being processed without a lease: a reaper gives it one"
    if row.due_ms is None:
        return "being processed, until when is not known"
    if row.due_ms > at_ms:
        return f"its lease ends in {duration(row.due_ms - at_ms)}"
    return f"its lease ended {duration(at_ms - row.due_ms)} ago: a reaper puts it back"
