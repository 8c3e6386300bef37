"""The preview of a change: exact numbers, and the button that starts it."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from rsmq_tui.monitor.text import count, matches, plural, printable
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.triage.actions import MessageAction, Undo
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.controls import DialogButton
from rsmq_tui.tui.widgets.painted import token_style

if TYPE_CHECKING:
    from rsmq_tui.triage.scope import Preview, Scope, Seeing

Look = Callable[[Callable[["Seeing"], None]], Awaitable["Preview"]]
LookWider = Callable[["Scope", Callable[["Seeing"], None]], Awaitable["Preview"]]

# How long a preview has been on the screen before it can be said yes to: keys that were typed ahead confirm nothing.
SEEN_S = 0.25
_SEEING_EVERY_S = 0.1
_TITLE_MAX = 100
_VALUE_MAX = 400

# Where messages have leases, these are for those that somebody is working on.
_OF_PROCESSING = ("requeue", "ack", "hide", "release")


class ConfirmScreen(ModalScreen["Preview | None"]):
    """Gives the preview that was said yes to, or None.

    ``look`` makes the preview and tells how far it is; until it is there, there is only Cancel. A change that ends a
    queue or all its messages wants the queue's name typed as well. ``colour`` marks the server that it is for.
    ``look_wider`` previews the same change with another scope: where marked messages have changed since they were
    shown, a button asks for one that includes them.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of("modal"), *bindings_of("dialog"), *bindings_of("lines")]

    def __init__(self, verb: str, look: Look, colour: str | None = None, look_wider: LookWider | None = None) -> None:
        super().__init__()
        self._verb = verb
        self._look = look
        self._look_wider = look_wider
        self._colour = colour
        self._preview: Preview | None = None
        self._told_s = 0.0
        self._is_seen = False

    def compose(self) -> ComposeResult:
        """Words, the name to be typed, buttons."""
        with Vertical(classes="dialog"):
            with VerticalScroll(classes="words", can_focus=False):
                yield Static(markup=False, id="words")
            yield Input(id="typed", compact=True)
            with Horizontal(classes="buttons"):
                yield DialogButton("Cancel", id="cancel")
                yield DialogButton("", id="wider")
                yield DialogButton(self._verb, id="yes", disabled=True)

    def on_mount(self) -> None:
        """Begin to look; the harmless button has the focus."""
        dialog = self.query_one(".dialog")
        dialog.border_title = Content(f"{self._verb} …")
        if self._colour is not None:
            dialog.styles.border = ("heavy", self._colour)
        self.query_one("#typed").display = False
        self._begin_to_look(self._look)

    def _begin_to_look(self, look: Look) -> None:
        self._is_seen = False
        self._arm()
        self.query_one("#yes").display = self.query_one("#wider").display = False
        self.query_one("#cancel", Button).label = Content("Cancel")
        self.query_one("#cancel").focus()
        self._say("scanning …")
        self.run_worker(self._find_out(look), group="preview", exclusive=True)

    def on_unmount(self) -> None:
        """Free what was seen, unless it was said yes to."""
        if self._preview is not None:
            self._preview.close()

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_close()

    @on(Button.Pressed, "#yes")
    def _say_yes(self) -> None:
        preview, self._preview = self._preview, None
        # A second press may come before the dialog is gone.
        if preview is not None:
            self.dismiss(preview)

    @on(Button.Pressed, "#wider")
    def _include_changed(self) -> None:
        preview, look_wider = self._preview, self._look_wider
        if preview is not None and preview.wider is not None and look_wider is not None:
            self._preview = None
            preview.close()
            self._begin_to_look(partial(look_wider, preview.wider))

    @on(Input.Changed, "#typed")
    def _check_name(self) -> None:
        self._arm()

    @on(Input.Submitted, "#typed")
    def _leave_name(self) -> None:
        if self._is_armed:
            self.query_one("#yes").focus()
        elif self._preview is not None and self._is_seen:
            name = printable(self._preview.action.queue)
            self.notify(f"type the queue's name to confirm: {name}", severity="warning", markup=False)

    def action_close(self) -> None:
        """Close without a change."""
        if self.is_active:
            self.dismiss(None)

    def action_scroll_lines(self, step: int) -> None:
        """Scroll the words by lines, where they do not fit."""
        self._words.scroll_relative(y=step, animate=False)

    def action_scroll_pages(self, step: int) -> None:
        """Scroll the words by what is in sight."""
        self._words.scroll_relative(y=step * max(1, self._words.size.height - 1), animate=False)

    def action_scroll_to_end(self, step: int) -> None:
        """Scroll to the first words (-1) or to the last (1)."""
        self._words.scroll_to(y=0 if step < 0 else self._words.max_scroll_y, animate=False)

    @property
    def _words(self) -> VerticalScroll:
        return self.query_one(".words", VerticalScroll)

    async def _find_out(self, look: Look) -> None:
        try:
            preview = await look(self._tell_progress)
        except TriageError as error:
            if self._is_open:
                self._refuse(str(error))
            return
        self._preview = preview
        if not self._is_open:
            preview.close()
            return
        self.query_one(".dialog").border_title = Content(printable(preview.title, _TITLE_MAX))
        rows, notes = _rows(preview), _notes(preview)
        if preview.wider is not None and self._look_wider is not None:
            wider = self.query_one("#wider", Button)
            wider.label = Content(f"Include {count(preview.changed)} changed")
            wider.display = True
        if not preview.count:
            self.query_one("#words", Static).update(
                self._table(rows, ["There is nothing to do: " + _why_nothing(preview)])
            )
            self._only_close()
            return
        self.query_one("#words", Static).update(self._table(rows, notes))
        if preview.action.asks_for_name:
            name = self.query_one("#typed", Input)
            name.placeholder = f"type the queue's name: {printable(preview.action.queue)}"
            name.display = True
            name.focus()
        yes = self.query_one("#yes", Button)
        yes.label = Content(_button(preview))
        yes.display = True
        self.call_after_refresh(self.set_timer, SEEN_S, self._see)
        self.call_after_refresh(self._tell_scrolling)

    def on_resize(self) -> None:
        """Tell whether there is more to read than fits."""
        self.call_after_refresh(self._tell_scrolling)

    def _tell_scrolling(self) -> None:
        self.query_one(".dialog").border_subtitle = "↓ ↑ scroll" if self._words.max_scroll_y else ""

    def _see(self) -> None:
        self._is_seen = True
        self._arm()

    def _arm(self) -> None:
        self.query_one("#yes", Button).disabled = not self._is_armed

    @property
    def _is_armed(self) -> bool:
        preview = self._preview
        if preview is None or not self._is_seen:
            return False
        # What cannot be shown cannot be typed: then it is what stands for it.
        names = (preview.action.queue, printable(preview.action.queue))
        return not preview.action.asks_for_name or self.query_one("#typed", Input).value in names

    def _tell_progress(self, seeing: "Seeing") -> None:
        now_s = time.monotonic()
        if self._is_open and now_s - self._told_s >= _SEEING_EVERY_S:
            self._told_s = now_s
            scanned = f"{count(seeing.scanned)} of {count(max(seeing.scanned, seeing.depth))}"
            self._say(f"scanning … {scanned}, {matches(seeing.matched)}")

    @property
    def _is_open(self) -> bool:
        """Whether the words are still there: a dialog may be closed while a server is asked, which may answer later."""
        return bool(self.query("#words"))

    def _refuse(self, sentence: str) -> None:
        self._say(printable(sentence, _VALUE_MAX), "alarm")
        self._only_close()

    def _only_close(self) -> None:
        self.query_one("#cancel", Button).label = Content("Close")
        self.query_one("#yes").display = False

    def _say(self, words: str, token: str = "") -> None:
        self.query_one("#words", Static).update(Text(words, self._style(token)))

    def _table(self, rows: list[tuple[str, str]], notes: list[str]) -> Table:
        """Set rows out as label and words; rich wraps the words beside their label."""
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for label, words in rows:
            table.add_row(Text(label, self._style("muted")), Text(words))
        table.add_row(Text(), Text())
        for note in notes:
            table.add_row(Text(), Text(note))
        return table

    def _style(self, token: str) -> str:
        return str(token_style(self.app, token)) if token else ""


def _rows(preview: "Preview") -> list[tuple[str, str]]:
    rows = [(label, printable(words, _VALUE_MAX)) for label, words in preview.rows]
    if preview.elsewhere:
        rows.append(("skipped", f"{plural(preview.elsewhere, 'message')} changed or left the queue since shown"))
    if preview.unsearched:
        rows.append(("skipped", f"{plural(preview.unsearched, 'message')} too long to search"))
    return rows


def _notes(preview: "Preview") -> list[str]:
    return [printable(note, _VALUE_MAX) for note in preview.notes]


def _why_nothing(preview: "Preview") -> str:
    if isinstance(preview.action, Undo):
        return "it is already undone."
    if preview.elsewhere:
        return "the marked messages have changed or left the queue since they were shown."
    if kind_of(preview.ns).has_leases and preview.action.name in _OF_PROCESSING:
        return "this applies only to items in processing."
    return "the message is not in the queue."


def _button(preview: "Preview") -> str:
    action = preview.action
    if isinstance(action, MessageAction | Undo) and action.name != "delete-queue":
        return f"{action.verb} {count(preview.count)}"
    return action.verb
