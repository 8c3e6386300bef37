"""The preview of a change: exact numbers, and the button that starts it."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Button, Input, Static

from rsmq_tui.monitor.text import count, matches, plural, printable
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.triage.actions import Fix, MessageAction, Purge, Undo
from rsmq_tui.triage.errors import NoTargetError, TriageError
from rsmq_tui.triage.scope import Everything, Matching
from rsmq_tui.triage.several import previews_in
from rsmq_tui.tui.changes.command_line import command_of, copy_command
from rsmq_tui.tui.keys import Keymap, bindings_of, keymap_of
from rsmq_tui.tui.type_ahead import type_ahead_of
from rsmq_tui.tui.widgets.controls import Dialog, DialogButton, ScrolledText, label_table
from rsmq_tui.tui.widgets.painted import token_style

if TYPE_CHECKING:
    from rsmq_tui.triage.scope import Preview, ScanProgress, Scope

Previewer = Callable[[Callable[["ScanProgress"], None]], Awaitable["Preview"]]
ScopePreviewer = Callable[["Scope", Callable[["ScanProgress"], None]], Awaitable["Preview"]]

# A preview can be confirmed only after it was visible this long without an attempt to confirm it, and when no key
# waits: a key that was typed ahead, or is held down, must not confirm it.
SEEN_S = 0.25
_SHOWN_EVERY_S = 0.1
_TITLE_MAX = 100
_VALUE_MAX = 400


class ConfirmScreen(Dialog["Preview"]):
    """Returns the confirmed preview, or None.

    ``previewer`` makes the preview and reports its progress; until it is done, the only button is Cancel. To delete or
    purge a queue, the user must also type its name. ``colour`` marks the server. ``preview_wider`` previews the same
    change with another scope: if marked messages have changed since they were shown, a button includes them.
    ``preview_creating`` previews it with its target created: if there is no such queue, a button does that.
    """

    DEFAULT_CSS = """
    /* Four lines of a preview are its border and its buttons; the input of a name takes two more. */
    ConfirmScreen .dialog .words { max-height: 80vh; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of("dialog"), *bindings_of("lines"), *bindings_of("confirm")]

    def __init__(
        self,
        verb: str,
        previewer: Previewer,
        colour: str | None = None,
        preview_wider: ScopePreviewer | None = None,
        preview_creating: Previewer | None = None,
    ) -> None:
        super().__init__()
        self._verb = verb
        self._previewer = previewer
        self._preview_wider = preview_wider
        self._preview_creating = preview_creating
        self._colour = colour
        self._preview: Preview | None = None
        self._shown_s = 0.0
        self._is_seen = False
        self._seeing: Timer | None = None
        # The preview of the button in the middle: the same change in a wider scope, or with its target created.
        self._again: Previewer | None = None

    def compose(self) -> ComposeResult:
        """The text, the input for the queue's name, the buttons."""
        with Vertical(classes="dialog"):
            with ScrolledText(classes="words", can_focus=False):
                yield Static(markup=False, id="words")
            yield Input(id="typed", compact=True)
            with Horizontal(classes="buttons"):
                yield DialogButton("Cancel", id="cancel")
                yield DialogButton("", id="wider")
                yield DialogButton(self._verb, id="yes", disabled=True)

    def on_mount(self) -> None:
        """Start the preview, with the focus on Cancel."""
        dialog = self.query_one(".dialog")
        dialog.border_title = Content(f"{self._verb} …")
        if self._colour is not None:
            dialog.styles.border = ("heavy", self._colour)
        self.query_one("#typed").display = False
        self._begin_preview(self._previewer)

    def _begin_preview(self, previewer: Previewer) -> None:
        self._is_seen = False
        self._again = None
        self._arm()
        self.query_one("#yes").display = self.query_one("#wider").display = False
        self.query_one("#cancel", Button).label = Content("Cancel")
        self.query_one("#cancel").focus()
        self._say("scanning …")
        self._find_out(previewer)

    def on_unmount(self) -> None:
        """Close the preview, unless it was confirmed."""
        if self._preview is not None:
            self._preview.close()

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_close()

    @on(Button.Pressed, "#yes")
    def _say_yes(self) -> None:
        preview, self._preview = self._preview, None
        # The button may be pressed twice before the dialog is gone.
        if preview is not None:
            self.dismiss(preview)

    def action_submit(self) -> None:
        """Confirm; while the button cannot be pressed, only show what is missing."""
        if self._is_armed:
            self._say_yes()
        else:
            self._say_what_is_missing()

    @on(Button.Pressed, "#wider")
    def _preview_again(self) -> None:
        preview, previewer, self._preview = self._preview, self._again, None
        if preview is not None:
            preview.close()
        if previewer is not None:
            self._begin_preview(previewer)

    @on(Input.Changed, "#typed")
    def _check_name(self) -> None:
        self._arm()

    @on(Input.Submitted, "#typed")
    def _leave_name(self) -> None:
        if self._is_armed:
            self.query_one("#yes").focus()
        else:
            self._say_what_is_missing()

    def _say_what_is_missing(self) -> None:
        preview = self._preview
        if preview is None or not preview.count:
            return
        if self._is_seen:
            words = f"type the queue's name to confirm: {printable(preview.action.queue)}"
        else:
            self._begin_seeing(preview)
            words = f"This has just appeared: read it, then press {self._keymap.first_key('submit')} again."
        self.warn(words)

    def action_close(self) -> None:
        """Close without a change."""
        if self.is_active:
            self.dismiss(None)

    def action_scroll_lines(self, step: int) -> None:
        """Scroll the text by lines."""
        self._words.action_scroll_lines(step)

    def action_scroll_pages(self, step: int) -> None:
        """Scroll the text by screens."""
        self._words.action_scroll_pages(step)

    def action_scroll_to_end(self, step: int) -> None:
        """Scroll to the first line (-1) or to the last (1)."""
        self._words.action_scroll_to_end(step)

    @property
    def _words(self) -> ScrolledText:
        return self.query_one(".words", ScrolledText)

    @work(group="preview", exclusive=True)
    async def _find_out(self, previewer: Previewer) -> None:
        try:
            preview = await previewer(self._show_progress)
        except TriageError as error:
            if self.is_open:
                self._refuse(str(error))
                if isinstance(error.__cause__, NoTargetError) and self._preview_creating is not None:
                    self._offer("Create it too", self._preview_creating)
                    self.query_one("#wider").focus()
            return
        self._preview = preview
        if not self.is_open:
            preview.close()
            return
        dialog = self.query_one(".dialog")
        dialog.border_title = Content(printable(preview.title, _TITLE_MAX))
        dialog.set_class(preview.action.removes, "-danger")
        dialog.set_class(preview.action.asks_for_name, "-named")
        rows = _rows(preview, self._keymap.first_key("undo"))
        if preview.wider is not None and self._preview_wider is not None:
            self._offer(f"Include {count(preview.changed)} changed", partial(self._preview_wider, preview.wider))
        if not preview.count:
            self.query_one("#words", Static).update(
                self._table(rows, ["There is nothing to do: " + _why_nothing(preview)])
            )
            self._only_close()
            return
        notes = [printable(note, _VALUE_MAX) for note in preview.notes]
        self.query_one("#words", Static).update(self._table(rows, notes))
        if preview.action.asks_for_name:
            name = self.query_one("#typed", Input)
            name.placeholder = f"type the queue's name: {printable(preview.action.queue)}"
            name.display = True
            name.focus()
        yes = self.query_one("#yes", Button)
        yes.label = Content(_button(preview))
        yes.display = True
        self.call_after_refresh(self._begin_seeing, preview)
        self.call_after_refresh(self._show_hints)

    def on_resize(self) -> None:
        """Update the scrolling hint."""
        self.call_after_refresh(self._show_hints)

    @property
    def _keymap(self) -> Keymap:
        return keymap_of(self.app)

    def _show_hints(self) -> None:
        hints = ["↓ ↑ scroll"] if self._words.max_scroll_y else []
        if self._preview is not None:
            if self.query_one("#yes").display:
                hints.append(f"{self._keymap.first_key('submit')} confirms")
            if not self._preview.action.asks_for_name:
                hints.append(f"{self._keymap.first_key('copy_command')} copies the command")
        self.query_one(".dialog").border_subtitle = " · ".join(hints)

    def _offer(self, words: str, previewer: Previewer) -> None:
        """Show the button in the middle."""
        self._again = previewer
        button = self.query_one("#wider", Button)
        button.label = Content(words)
        button.display = True

    def action_copy_command(self) -> None:
        """Copy the command that previews the same change."""
        preview = self._preview
        if preview is None:
            self.warn("wait for the preview")
            return
        what = "the command, which only previews: --yes applies the change"
        if (number := len(previews_in(preview))) > 1:
            what = f"{number} commands, one for each queue, which only preview: --yes in each applies the change"
        copy_command(self, partial(command_of, preview), what)

    def _begin_seeing(self, preview: "Preview") -> None:
        if self._seeing is not None:
            self._seeing.stop()
        # The app takes what was typed by then before it calls.
        self._seeing = self.set_timer(SEEN_S, partial(self.app.call_later, self._see, preview))

    def _see(self, preview: "Preview") -> None:
        if preview is not self._preview or not self.is_open:
            return
        if type_ahead_of(self.app).is_idle:
            self._is_seen = True
            self._arm()
        else:
            self._begin_seeing(preview)

    def _arm(self) -> None:
        self.query_one("#yes", Button).disabled = not self._is_armed

    @property
    def _is_armed(self) -> bool:
        preview = self._preview
        if preview is None or not self._is_seen:
            return False
        # Unprintable characters cannot be typed: then the printable form is accepted.
        names = (preview.action.queue, printable(preview.action.queue))
        return not preview.action.asks_for_name or self.query_one("#typed", Input).value in names

    def _show_progress(self, progress: "ScanProgress") -> None:
        now_s = time.monotonic()
        if self.is_open and now_s - self._shown_s >= _SHOWN_EVERY_S:
            self._shown_s = now_s
            scanned = f"{count(progress.scanned)} of {count(max(progress.scanned, progress.depth))}"
            self._say(f"scanning … {scanned}, {matches(progress.matched)}")

    def _refuse(self, sentence: str) -> None:
        self._say(printable(sentence, _VALUE_MAX), "alarm")
        self._only_close()

    def _only_close(self) -> None:
        self.query_one("#cancel", Button).label = Content("Close")
        self.query_one("#yes").display = False

    def _say(self, words: str, token: str = "") -> None:
        self.query_one("#words", Static).update(Text(words, str(token_style(self.app, token)) if token else ""))

    def _table(self, rows: list[tuple[str, str]], notes: list[str]) -> Table:
        table = label_table(self.app, rows, gap=2)
        table.add_row(Text(), Text())
        for note in notes:
            table.add_row(Text(), Text(note))
        return table


def _rows(preview: "Preview", undo_key: str) -> list[tuple[str, str]]:
    rows = [(label, printable(words, _VALUE_MAX)) for label, words in preview.rows_with(undo_key)]
    if preview.elsewhere:
        rows.append(("skipped", f"{plural(preview.elsewhere, 'message')} changed or left the queue since shown"))
    if preview.unsearched:
        rows.append(("skipped", f"{plural(preview.unsearched, 'message')} too long to search"))
    return rows


def _why_nothing(preview: "Preview") -> str:
    if isinstance(preview.action, Undo):
        return "it is already undone."
    if preview.elsewhere:
        is_one = preview.elsewhere == 1
        what, it = ("the message", "it") if is_one else ("the marked messages", "they")
        was, has = ("was", "has") if is_one else ("were", "have")
        became = f"{has} changed or left the queue"
        if preview.changed == preview.elsewhere:
            became = f"{was} received or changed"
        elif kind_of(preview.ns).counts_receives and not preview.changed:
            became = f"{has} left the queue"
        return f"{what} {became} since {it} {was} shown."
    if kind_of(preview.ns).has_leases and preview.action.of_processing:
        return "this applies only to items in processing."
    if isinstance(preview.action, Fix):
        return "these problems are gone."
    if isinstance(preview.action, Purge) or preview.scope == Everything():
        return "the queue is empty."
    if isinstance(preview.scope, Matching):
        return "no message matches."
    return "the message is not in the queue."


def _button(preview: "Preview") -> str:
    action = preview.action
    if isinstance(action, MessageAction | Undo) and not action.counts_queue:
        return f"{action.verb} {count(preview.count)}"
    return action.verb
