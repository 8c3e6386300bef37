"""One message whole: what is known of it, its body as JSON, text or hex, and the keys that change it."""

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from rsmq_tui.monitor import MessageRow, MessageState, MessageView, PeekError, Snapshot
from rsmq_tui.monitor.wording import clock, duration, plural, printable, size
from rsmq_tui.triage.previews import Marked, Scope
from rsmq_tui.tui.body_text import PieceLines, View, first_view, lines_of
from rsmq_tui.tui.key import Where
from rsmq_tui.tui.keymap import bindings_of
from rsmq_tui.tui.marks import shown
from rsmq_tui.tui.screens.acting import ActingScreen
from rsmq_tui.tui.screens.base import DashboardScreen
from rsmq_tui.tui.signs import MESSAGE_TOKENS
from rsmq_tui.tui.widgets.change_line import ChangeTold
from rsmq_tui.tui.widgets.key_hints import KeyHints
from rsmq_tui.tui.widgets.line_view import LineView
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.status_line import StatusLine
from rsmq_tui.tui.widgets.text_line import TextLine

_VIEWS = tuple(View)


class MessageScreen(ActingScreen):
    """Shows a message as it was when it was last read; its state is told as of now.

    It is read when it is opened, and again by ``r``, after each change, and when whatever lay over it has closed: a
    change is for what is shown here, and for nothing that it has become since.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("message", "lines")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("message")

    def __init__(self, queue: str, id: str, place: str = "") -> None:
        super().__init__(queue, place)
        self.message_id = id
        self.body_view = LineView(id="body")
        self._title = TextLine(id="title")
        self._facts = TextLine(id="facts")
        self._message: MessageView | None = None
        self._view = View.PRETTY
        self._width = 0
        self._error: str | None = None
        self._is_taken = False
        self._ns: str | None = None

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

    def on_screen_resume(self) -> None:
        """Read the message again: a dialog was in front, and something may have become of it."""
        if self._message is not None and not self._is_taken and self._shown_in is None:
            self._fetch()

    def rest(self) -> None:
        """Read the message again."""
        self._fetch()

    @on(LineView.Resized)
    def _wrap_anew(self) -> None:
        if self.body_view.size.width != self._width:
            self._show_body(stay=True)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Tell the message's state as of now."""
        if self._ns not in (None, snapshot.ns):
            # A queue of the same name in another namespace is another queue.
            self._message = None
            self._fetch()
        self._ns = snapshot.ns
        back = " < " if self.dashboard.ascii_only else " ◀ "
        self._title.show([(f"{back}{printable(self.queue, 60)} ", "muted"), (printable(self.message_id, 60), "strong")])
        self._facts.show(self._fact_pieces(snapshot.at_ms))

    def action_view(self, step: int) -> None:
        """Look at the body in another way."""
        self._view = _VIEWS[(_VIEWS.index(self._view) + step) % len(_VIEWS)]
        self._show_body()

    def action_copy_body(self) -> None:
        """Copy the body."""
        body = self._message.body if self._message else None
        if body is not None:
            self.dashboard.copy_text(body.decode("utf-8", "replace"), "the body")

    @property
    def scope(self) -> Scope | None:
        """The message, as it is shown."""
        row = self._row
        return None if row is None else Marked((shown(row),))

    @property
    def chosen_id(self) -> str | None:
        """The message."""
        return self.message_id

    @property
    def why_nothing(self) -> str:
        """Why there is nothing to change."""
        is_gone = self._is_taken or self._message is not None
        return "this message is no longer in the queue" if is_gone else "this message could not be read"

    @property
    def _row(self) -> MessageRow | None:
        return None if self._message is None or self._is_taken else self._message.row

    def _tell_change(self, told: ChangeTold | None) -> None:
        super()._tell_change(told)
        if told is None or told.is_running or self._shown_in is not None:
            return
        if told.taken and told.scope is not None and told.scope is self.asked:
            # Of a list, another item with the same bytes would be found in its place; and what was read before is old.
            self._is_taken = True
            self.workers.cancel_group(self, "message")
            self._show_body()
            self._refresh_words()
        else:
            self._fetch()

    @work(group="message", exclusive=True)
    async def _fetch(self) -> None:
        before, was_taken = self._message, self._is_taken
        try:
            self._message = found = await self.site.source.read(self.queue, self.message_id)
        except PeekError as error:
            if before is not None:
                # The line at the top says that nothing is as of now.
                return
            self._error = str(error)
            self._show_body()
        else:
            self._error, self._is_taken = None, False
            # An item of a list may lie elsewhere by now.
            self.message_id = found.id
            if found.body is not None and (before is None or before.body is None):
                self._view = first_view(found.body)
        # Setting a long body out takes a while, and would lose the place in it.
        if was_taken or _body_facts(before) != _body_facts(self._message):
            self._show_body()
        self._refresh_words()

    def _show_body(self, *, stay: bool = False) -> None:
        view, message = self.body_view, self._message
        body = message.body if message and self._row is not None else None
        if body is None:
            view.border_title = Content(self._why_no_body())
            view.show(PieceLines(()))
            return
        self._width = view.size.width
        if not self._width:
            return
        lines = lines_of(body, self._view, self._width)
        tabs = " · ".join(f"[{choice}]" if choice is self._view else choice.value for choice in _VIEWS)
        view.border_title = Content(tabs)
        view.show(lines, stay=stay)

    def _why_no_body(self) -> str:
        message = self._message
        if self._error is not None:
            return printable(self._error, 100)
        if message is None:
            return "reading …"
        if self._row is None:
            return f"this message is no longer in the queue {printable(self.queue, 40)}"
        if message.size and self.dashboard.replay is not None:
            return f"its body of {size(message.size)} was not recorded: rsmq-tui record --messages 5m --bodies does"
        return f"its body of {size(message.size)} is too long to show" if message.size else "it has no body"

    def _fact_pieces(self, at_ms: int) -> list[Piece]:
        message, row = self._message, self._row
        if message is None:
            return []
        if row is None:
            return [(" no longer in the queue", "alarm")]
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


def _body_facts(message: MessageView | None) -> tuple[object, ...]:
    """Return what tells how a body is shown, or why there is none."""
    return () if message is None else (message.body, message.size, message.row is None)


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
