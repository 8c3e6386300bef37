"""Dialogs and their controls: buttons, check boxes, inputs and text areas."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from rich.table import Table
from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Input, OptionList

from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.base_screen import BaseScreen
from rsmq_tui.tui.widgets.painted import token_style

T = TypeVar("T")
# Terminals that support OSC 52 do not accept more than this.
CLIPBOARD_BYTES_MAX = 74_000
# How much of a copied text is shown, and for how long.
_LINES_SHOWN, _CHARS_SHOWN, _SHOWN_S = 5, 600, 10


def copy_text(app: App[Any], text: str, what: str, *, shown: bool = False) -> None:
    """Copy to the terminal's clipboard (OSC 52), which also works over SSH, and say so.

    A terminal may ignore it silently, so a text that is ``shown`` is also displayed for some time.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > CLIPBOARD_BYTES_MAX:
        app.notify(f"{what} is too long for the terminal's clipboard", severity="warning", markup=False)
        return
    app.copy_to_clipboard(encoded.decode())
    if not shown:
        app.notify(f"copied {what}", timeout=2, markup=False)
        return
    lines = [printable(line, _CHARS_SHOWN) for line in text.split("\n")]
    if len(lines) > _LINES_SHOWN:
        lines[_LINES_SHOWN:] = [f"… and {plural(len(lines) - _LINES_SHOWN, 'more line')}"]
    app.notify("\n".join([f"copied {what}", "", *lines]), timeout=_SHOWN_S, markup=False)


class Dialog(ModalScreen[T | None], BaseScreen[T | None]):
    """A dialog that returns an answer, or None if it is closed without one."""

    DEFAULT_CSS = """
    Dialog {
        & .dialog {
            width: 84; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
            background: $panel; border: round $primary; border-title-style: bold; border-subtitle-color: $quiet;
            & .words, & .fields { height: auto; max-height: 70vh; }
            & .field { height: auto; }
            & .field Input { width: 1fr; }
            & .label { color: $quiet; width: 19; }
            & .about { height: auto; max-height: 3; }
            & #about { width: 1fr; height: auto; }
            & #syntax { height: 1; color: $quiet; }
            & #syntax.-warning { color: $verdict-broken; }
            & #problem { height: auto; color: $verdict-broken; }
            & #typed { margin-top: 1; }
            & Input, & TextArea, & Checkbox { background: $surface; }
            & Checkbox { width: 1fr; }
            & TextArea { height: 10; }
            & .buttons { height: 1; align-horizontal: right; margin-top: 1; }
            & Button { margin-left: 2; min-width: 8; padding: 0 1; }
            &.-danger { border: double $verdict-broken; border-title-color: $verdict-broken; }
            &.-danger #yes { color: $verdict-broken; text-style: bold; }
            &.-named .words { max-height: 70vh; }
        }
        &.-short .dialog, &.-tiny .dialog {
            height: 100%;
            & .words, & .fields { height: 1fr; max-height: 100%; }
            & TextArea { height: 3; }
        }
        &.-tiny .dialog {
            & #typed, & .buttons { margin-top: 0; }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("modal")

    def action_close(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class ScrolledText(VerticalScroll):
    """Scrolls its content with the keys of the group "lines"."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("lines")

    def action_scroll_lines(self, step: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=step, animate=False)

    def action_scroll_pages(self, step: int) -> None:
        """Scroll by screens."""
        self.scroll_relative(y=step * max(1, self.size.height - 1), animate=False)

    def action_scroll_to_end(self, step: int) -> None:
        """Scroll to the first line (-1) or to the last (1)."""
        self.scroll_to(y=0 if step < 0 else self.max_scroll_y, animate=False)


def label_table(app: App[Any], rows: Iterable[tuple[str, str]], *, gap: int) -> Table:
    """Lay out labels and, ``gap`` cells beside them, their wrapped texts."""
    table = Table.grid(padding=(0, gap), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for label, words in rows:
        table.add_row(Text(label, str(token_style(app, "muted"))), Text(words))
    return table


class DialogButton(Button):
    """A button of one line without an active effect; its label is never markup."""

    def __init__(self, words: str, *, id: str, disabled: bool = False) -> None:
        super().__init__(Content(words), id=id, disabled=disabled, compact=True)
        self.active_effect_duration = 0


class TickBox(Checkbox, inherit_bindings=False):
    """A checkbox whose state is also visible without colours; enter submits the form, as in other fields."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "toggle_button", "Toggle", show=False)]

    class Submitted(Message):
        """Enter was pressed."""

    def render(self) -> Content:
        """Draw the check mark and the label."""
        return Content("[x] " if self.value else "[ ] ") + self.label

    def key_enter(self) -> None:
        """Submit the form."""
        self.post_message(self.Submitted())


class ChoiceList(OptionList):
    """Lists choices, which are never markup; the keys of rows move its cursor."""

    DEFAULT_CSS = """
    ChoiceList, ChoiceList:focus {
        width: 95%; min-width: 12; max-width: 60; height: auto; max-height: 70%;
        background: $panel; border: round $primary;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("list")

    def __init__(self, *choices: Content) -> None:
        super().__init__(*choices, markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the page keys while there is no room for a line, which Textual does not expect."""
        if action in ("page_up", "page_down") and not self.scrollable_content_region:
            return False
        return super().check_action(action, parameters)


class ChoiceInput(Input):
    """Accepts any text, and suggests the ``choices`` that contain what was typed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("choice")

    def __init__(self, value: str, *, choices: Sequence[str], placeholder: str, id: str) -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True)
        self._choices = choices
        self._chosen: str | None = value
        self._typed = ""

    def suggest(self, choices: Sequence[str], *, insert: bool) -> None:
        """Set the suggestions, and ``insert`` the first one unless something was typed."""
        self._choices = choices
        if insert and self.value == self._chosen:
            self._insert(choices[0])

    def on_input_changed(self) -> None:
        """Remember what was typed, for the suggestions."""
        if self.value != self._chosen:
            self._chosen, self._typed = None, self.value

    def action_choose(self, step: int) -> None:
        """Insert the next suggestion."""
        choices = [choice for choice in self._choices if self._typed.lower() in choice.lower()]
        if not choices:
            return
        index = choices.index(self.value) + step if self.value in choices else 0 if step > 0 else -1
        self._insert(choices[index % len(choices)])

    def _insert(self, choice: str) -> None:
        self._chosen = self.value = choice
        self.cursor_position = len(choice)
