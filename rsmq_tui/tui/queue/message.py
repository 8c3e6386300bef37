"""One message: its fields, its body as JSON, text or hex, the keys that change it, and the pane that shows it."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.worker import Worker

from rsmq_tui.monitor import MessageRow, MessageState, MessageView, PageRequest, PeekError, Snapshot
from rsmq_tui.monitor.messages.peek import item_place_of
from rsmq_tui.monitor.poller import ReadsAgain, ReadsLong
from rsmq_tui.monitor.text import clock, duration, plural, printable, size
from rsmq_tui.protocol.rsmq.pages import BODY_BYTES_MAX, START_OF_BYTES
from rsmq_tui.triage.scope import Marked, Scope
from rsmq_tui.tui.changes.command_line import NoCommandError, save_command
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.keys import Key, Where, bindings_of
from rsmq_tui.tui.queue import outside
from rsmq_tui.tui.queue.marks import ActingScreen, shown
from rsmq_tui.tui.theme import MESSAGE_TOKENS
from rsmq_tui.tui.widgets.body_view import BodyView, FindInput
from rsmq_tui.tui.widgets.controls import CLIPBOARD_BYTES_MAX, copy_text
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.pane import Pane

# Actions that need a body.
_OF_BODIES = ("edit", "edit_outside", "copy_body", "view", "find", "save_body", "open_in_pager")


class MessageScreen(ActingScreen):
    """Shows a message and its state as of the last poll; a change applies to it in exactly that state.

    The whole message is read on opening and by ``r``, a very long body only when the user asks for it; everything but
    the body is read again at each poll, after each change, and when a dialog above it has closed. If the message leaves
    the queue, its body stays, unless a change from this screen removed it. A removed item of a list is not read again
    before that change is undone: a read would find another item with the same bytes.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("message", "lines")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("message")

    def __init__(self, queue: str, id: str, place: str = "") -> None:
        super().__init__(queue, place)
        self.message_id = id
        self.body_view = BodyView(id="body")
        self._finder = FindInput(self.body_view)
        self._title = TextLine(id="title")
        self._facts = TextLine(id="facts")
        self.parts = (self._title, self._facts, self.body_view, self._finder)
        self._message: MessageView | None = None
        # Why the last read failed.
        self._problem: str | None = None
        self._is_taken = False
        self._taken_by: int | None = None
        self._reading: Worker[None] | None = None
        self._is_reading_long = False
        self._read_for_ms: int | None = None
        self._ns: str | None = None

    def on_mount(self) -> None:
        """Read the message."""
        self.body_view.show_none("reading …")
        self.body_view.focus()
        self._fetch()

    def on_unmount(self) -> None:
        """Free the body at once: it may be very long, and the screen is garbage-collected only later."""
        self._message = self._reading = None

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Read the message again: it may have changed while a dialog was open."""
        self._read_again()

    def refresh_unpolled(self) -> None:
        """Read the message again, with its body unless that is very long."""
        if self._message is not None and self._message.size > BODY_BYTES_MAX:
            self._read_again()
        elif not (self._is_taken and self._is_item):
            self._fetch()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the message's current state, and the keys that are available for it."""
        if self._ns not in (None, snapshot.ns):
            # A queue of the same name in another namespace is another queue.
            self._message, self._problem, self._is_taken = None, None, False
            self._fetch()
        elif snapshot.at_ms != self._read_for_ms and not snapshot.paused:
            self._follow()
        self._ns, self._read_for_ms = snapshot.ns, snapshot.at_ms
        self._title.show([(f" ◀ {printable(self.queue, 60)} ", "muted"), (printable(self.message_id, 60), "strong")])
        # Ages count to when the message was read; in a replay, to the moment that is shown.
        message = self._message if self._shown_in is None else None
        self._facts.show(self._fact_pieces(snapshot.at_ms if message is None else message.at_ms), 2, keep=True)
        self.hints.repaint()

    def leads_somewhere(self, action: str) -> bool:
        """Return whether the action has an effect here; otherwise its key hint is not shown."""
        if self._message is None and self._problem is None:
            # Not read yet.
            return super().leads_somewhere(action)
        name = action.partition("(")[0]
        if name in ("change", "life"):
            return self._row is not None
        if name in ("decoded", "fold"):
            return self.body_view.is_encoded if name == "decoded" else self.body_view.can_fold or self._can_read_long
        return self._body is not None if name in _OF_BODIES else super().leads_somewhere(action)

    def on_body_view_was_decoded(self) -> None:
        """Show the key that shows the body as it is stored."""
        self.hints.repaint()

    def action_view(self, step: int) -> None:
        """Show the body in the next or previous view."""
        self.body_view.turn(step)
        self.hints.repaint()

    def hint_of(self, key: Key) -> str:
        """Return the words of a key in the bottom line: the effect of ``d``, and whether Enter reads the body."""
        words = super().hint_of(key)
        if words and key.action == "fold" and self._can_read_long:
            return "read it"
        return "bytes" if words and key.action == "decoded" and self.body_view.shown_layers else words

    def action_decoded(self) -> None:
        """Show the body as it is stored, or decoded again; if it cannot be decoded, say why."""
        if self._body is not None and (why := self.body_view.why_as_stored):
            self.notify(f"the body is shown as it is stored: {why}", markup=False)
        self.body_view.toggle_decoded()
        self.hints.repaint()

    def action_fold(self) -> None:
        """Fold or unfold the object or array at the cursor; if the body is read only on request, read it."""
        if self._can_read_long:
            self._read_long()
        else:
            self.body_view.fold()

    def action_fold_all(self) -> None:
        """Fold everything but the outermost, or unfold all."""
        self.body_view.fold_all()

    def action_find(self) -> None:
        """Ask for the text to find."""
        self._finder.open()

    def action_find_next(self, step: int) -> None:
        """Go to the next or previous match; without a search, ask for the text."""
        if not self.body_view.find_next(step):
            self._finder.open()

    def action_clear(self) -> None:
        """End the search; if there is none, go back."""
        if not self._finder.close():
            self.app.pop_screen()

    def action_save_body(self) -> None:
        """Save the body as it is shown, stored or decoded, to a file."""
        if self._has_body():
            outside.save(self, self.message_id, self.body_view.content, self._about_body)

    def action_open_in_pager(self) -> None:
        """Show the body in the user's pager."""
        if self._has_body():
            self._go_out(outside.open_in_pager(self, self.body_view.content, self.body_view.view))

    def action_open_copy(self) -> None:
        """Show a copy of the body in the user's editor."""
        if self._has_body():
            self._go_out(outside.open_copy(self, self.body_view.content))

    def _go_out(self, work: Coroutine[None, None, None]) -> None:
        _: Worker[None] = self.run_worker(work, group="outside", exclusive=True)

    def _has_body(self) -> bool:
        """Return whether there is a body; if there is none, say so."""
        if self._body is None:
            self.warn(f"there is no body: {self._why_no_body()}")
        return self._body is not None

    @property
    def _about_body(self) -> str:
        layers = self.body_view.shown_layers
        return f"the body of {self.message_id}" + (f", decoded from {', '.join(layers)}" if layers else "")

    def action_copy_body(self) -> None:
        """Copy the body as it is shown, stored or decoded."""
        if self._body is None:
            self.warn(f"nothing to copy: {self._why_no_body()}")
        else:
            # The start of a longer body would be too long, too.
            content = self.body_view.content[: CLIPBOARD_BYTES_MAX + 1]
            copy_text(self.app, content.decode("utf-8", "replace"), "the body")

    def action_edit(self) -> None:
        """Edit a copy of the message, with its body as it is stored."""
        if self._body is not None:
            self._edit_body(self.message_id, self._body)
            return
        why = self.why_nothing if self._row is None else self._why_no_body()
        self.warn(f"nothing to copy: {why}")

    async def editable_body(self, id: str) -> bytes | None:
        """Return what is shown of the body."""
        return self.body_view.content if self._body is not None else await super().editable_body(id)

    @property
    def decoded_from(self) -> tuple[bytes, tuple[str, ...]] | None:
        """The body as it is stored and the names of its layers, if it is shown decoded."""
        layers = self.body_view.shown_layers
        return (self._body, layers) if self._body is not None and layers else None

    @property
    def scope(self) -> Scope | None:
        """The message, in the state that is shown."""
        row = self._row
        return None if row is None else Marked((shown(row),))

    @property
    def chosen_id(self) -> str | None:
        """The id of the message."""
        return self.message_id

    @property
    def why_nothing(self) -> str:
        """Why there is nothing to change."""
        if self._is_taken or self._message is not None:
            return "this message is no longer in the queue"
        return "this message is still being read" if self._problem is None else "this message could not be read"

    @property
    def _is_item(self) -> bool:
        return item_place_of(self.message_id) is not None

    @property
    def _body(self) -> bytes | None:
        """The body that is shown; None if there is none, or if a change from here removed the message."""
        return None if self._message is None or self._is_taken else self._message.body

    @property
    def _row(self) -> MessageRow | None:
        return None if self._message is None or self._is_taken else self._message.row

    def _follow_change(self, status: ChangeStatus) -> None:
        if status.taken and status.scope is not None and status.scope is self.asked:
            # A read that started before the change is outdated.
            self._is_taken, self._taken_by = True, status.change
            self.workers.cancel_group(self, "message")
            # A worker that is cancelled before its first step never counts as finished.
            self._reading, self._is_reading_long = None, False
            self._show_body()
            self.refresh_words()
        elif self._is_taken and status.undone is not None and status.undone == self._taken_by:
            self._is_taken = False
            self._fetch()
        else:
            self._read_again()

    def _follow(self) -> None:
        """Read again for a poll, unless a read is under way."""
        is_reading = self._reading is not None and not self._reading.is_finished
        if self._message is not None and not is_reading and may_follow(self._message, self.dashboard.changes.status):
            self._read_again()

    def _read_again(self) -> None:
        message, source = self._message, self.server.source
        if message is None or self._is_reading_long or (self._is_taken and self._is_item):
            return
        if isinstance(source, ReadsAgain) and may_read_again(message):
            self._begin(lambda: source.read_again(self.queue, message))

    def _fetch(self) -> None:
        self._begin(lambda: self.server.source.read(self.queue, self.message_id))

    def _read_long(self) -> None:
        message, source = self._message, self.server.source
        if message is None or not isinstance(source, ReadsLong):
            return

        def arrived(bytes_: int) -> None:
            self.body_view.show_none(f"reading {size(message.size)}: {min(1, bytes_ / max(1, message.size)):.0%}")

        arrived(0)
        self._begin(lambda: source.read_long(self.queue, message, arrived))
        self._is_reading_long = True
        self.hints.repaint()

    @property
    def _can_read_long(self) -> bool:
        """Whether there is a body that is read only when the user asks for it."""
        message, is_live = self._message, isinstance(self.server.source, ReadsLong)
        is_there = message is not None and self._row is not None and message.body is None and message.size > 0
        return is_live and is_there and not self._is_reading_long

    def _begin(self, ask: Callable[[], Awaitable[MessageView]]) -> None:
        self._is_reading_long = False
        # The worker may be replaced before it has started.
        self._reading = self.run_worker(partial(self._read, ask), group="message", exclusive=True)

    async def _read(self, ask: Callable[[], Awaitable[MessageView]]) -> None:
        was_taken = self._is_taken
        try:
            self._message = found = await ask()
        except PeekError as error:
            self._problem = str(error)
        else:
            self._problem = None
            # A list item may have another position by now.
            self.message_id = found.id
            # The id of an RSMQ message is never reused.
            self._is_taken = was_taken and (found.row is None or self._is_item)
        self._is_reading_long = False
        self._show_body()
        self.refresh_words()

    def _show_body(self) -> None:
        if self._body is None:
            self.body_view.show_none(self._why_no_body(), self._save_words)
        else:
            self.body_view.show_body(self._body, "" if self._row is not None else self.why_nothing)

    def _why_no_body(self) -> str:
        message = self._message
        if message is None:
            return "reading …" if self._problem is None else printable(self._problem, 100)
        if self._is_reading_long:
            return "it is still being read"
        if self._row is None:
            return f"this message is no longer in the queue {printable(self.queue, 40)}"
        if message.size and self.dashboard.replay is not None:
            return f"its body of {size(message.size)} was not recorded; record with --messages 5m --bodies"
        if self._can_read_long:
            return f"its body of {size(message.size)} is long: space or Enter reads it"
        return f"its body of {size(message.size)} is too long to show" if message.size else "it has no body"

    @property
    def _save_words(self) -> str:
        """The command that saves a body that is read only on request; empty if there is none."""
        if not self._can_read_long or not self.server.can_export:
            return ""
        triage = self.server.triage
        try:
            command = save_command(
                self.queue, self.message_id, server=triage.server, ns=triage.ns, profile=triage.profile
            )
        except NoCommandError:
            return ""
        return f"This saves it to a file, without reading it here:\n{command}"

    def _fact_pieces(self, at_ms: int) -> list[Piece]:
        message, row = self._message, self._row
        if message is None:
            return []
        if row is None:
            kept = "" if self._is_taken or message.body is None else " · this was its body"
            resend = f" · {self.dashboard.keymap.first_key('edit')} sends a copy" if kept and self.can_change else ""
            return [(" no longer in the queue", "alarm"), (f"{kept}{resend}", "")]
        as_of = f" as of {clock(at_ms)}: {printable(self._problem, 60)} ·" if self._problem else ""
        return [(as_of, "alarm"), *row_pieces(row, at_ms)]


def may_read_again(known: MessageView) -> bool:
    """Return whether a read would find this message: of a list item that is gone, it would find an equal one."""
    return known.row is not None or item_place_of(known.id) is None


def may_follow(known: MessageView, status: ChangeStatus | None) -> bool:
    """Return whether to read a message again at each poll.

    The server copies and hashes an item to find it again, which takes long for a long item; and while a change may be
    removing it, an equal one would be found.
    """
    is_item, is_changing = item_place_of(known.id) is not None, status is not None and status.is_running
    return not is_item or not (is_changing or known.size > START_OF_BYTES)


def row_pieces(row: MessageRow, at_ms: int) -> list[Piece]:
    """Return the state of a message, when it is visible, when it was sent and received, and its size."""
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
    parts = (due, sent, *_receives(row), size(row.size))
    return [(f" {state.value}", MESSAGE_TOKENS[state]), ("".join(f" · {words}" for words in parts), "")]


def _receives(row: MessageRow) -> tuple[str, ...]:
    """Describe how often a message was received; empty for a kind that does not count."""
    if row.rc is None:
        return ()
    first = f"received {plural(row.rc, 'time')}, first {clock(row.fr_ms, date=True)}"
    return (first if row.rc else "never received",)


def _lease(row: MessageRow, at_ms: int) -> str:
    """Describe where an item of a list is, and until when."""
    if row.state is MessageState.READY:
        return "waiting for a consumer"
    if row.state is MessageState.UNLEASED:
        return "in processing without a lease; a reaper adds one"
    if row.due_ms is None:
        return "in processing, until an unknown time"
    if row.due_ms > at_ms:
        return f"its lease ends in {duration(row.due_ms - at_ms)}"
    return f"its lease expired {duration(at_ms - row.due_ms)} ago; a reaper returns the item"


# A longer body is formatted only on its own screen; this is the maxsize of a queue unless it is changed.
_READ_BYTES_MAX = 65_536


class MessagePane(Pane[MessageView | None]):
    """Shows the message under the cursor of a table: its fields, and its body, or the start of a long one."""

    def __init__(self) -> None:
        super().__init__()
        self._queue = self._place = ""
        self._row: MessageRow | None = None
        self._body: bytes | None = None
        self._problem = ""
        self._head = TextLine(id="head")
        self._view = BodyView(id="pane-body", has_keys=False)

    def compose(self) -> ComposeResult:
        """The fields, and the body."""
        yield self._head
        with Vertical(classes="parts"):
            yield self._view

    def follow(self, row: MessageRow | None, at_ms: int, queue: str, place: str, *, is_gone: bool = False) -> None:
        """Show this message of a queue, None if there is none, in its state at that time; or that it is gone."""
        self._row, self._queue, self._place = row, queue, place
        pieces: list[Piece] = []
        if row is not None:
            state = [(" gone · it has left the queue", "muted")] if is_gone else row_pieces(row, at_ms)
            pieces = [(f" {printable(row.id, 60)} ", "strong"), *state]
        self._head.show(pieces)
        # The body of an id never changes.
        key = None if row is None else (place, queue, row.id)
        self.point(key, None, key)

    def forget(self) -> None:
        """Show the start of another body, or all of it if it is short."""
        self._problem = ""
        self._body = None if self._row is None else self._row.preview
        self._show_body()

    async def read(self) -> MessageView | None:
        """Read the body, unless all of it is shown, or it is too long to be formatted while the cursor moves.

        Of a body that is too long for a page, the start is read.
        """
        row, source = self._row, dashboard_of(self.app).server(self._place).source
        if row is None or not self._is_cut:
            return None
        if row.size > _READ_BYTES_MAX:
            if row.preview != b"":
                return None
            alone = PageRequest(self._queue, where="at", anchor=row.anchor, count=1, longest_bytes=START_OF_BYTES)
            page = await source.peek(alone)
            again = next((each for each in page.rows if each.id == row.id), None)
            return MessageView(page.at_ms, row.id, again, again.preview, again.size) if again else None
        return await source.read(self._queue, row.id)

    def show_details(self, found: MessageView | None) -> None:
        """Show the body, or that the message is gone."""
        if found is None:
            return
        if found.row is None:
            self._problem = "no longer in the queue"
        else:
            self._body = found.body
        self._show_body()

    def fail(self, problem: str) -> None:
        """Show why the body cannot be read."""
        self._problem = problem
        self._show_body()

    @property
    def _is_cut(self) -> bool:
        return self._row is not None and len(self._body or b"") < self._row.size

    def _show_body(self) -> None:
        row, body, problem = self._row, self._body, printable(self._problem, 100)
        if body is None:
            reasons = [] if row is None else ["not recorded" if row.size else "it has no body"]
            self._view.show_none(" · ".join([*filter(None, [problem]), *reasons]))
        elif not body and row is not None and row.size:
            self._view.show_none(
                " · ".join(filter(None, [problem, f"its {size(row.size)} are read when it is opened"]))
            )
        else:
            start = f"the first {size(len(body))} of {size(row.size)}" if row is not None and self._is_cut else ""
            self._view.show_body(body, start, problem=problem, is_start=bool(start))
