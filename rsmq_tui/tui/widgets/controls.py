"""Dialogs and their controls: buttons, check boxes, inputs and text areas; and the inputs of filters."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Button, Checkbox, Input, OptionList, TextArea

from rsmq_tui.monitor import Filter, FilterError, parse_filter
from rsmq_tui.monitor.filters.language import split_pattern
from rsmq_tui.monitor.text import plural, printable, size
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.painted import Painted, token_style
from rsmq_tui.tui.widgets.row_table import RowTable

T = TypeVar("T")
# Terminals that support OSC 52 do not accept more than this.
CLIPBOARD_BYTES_MAX = 74_000
# How much of a copied text is shown, and for how long.
_LINES_SHOWN, _CHARS_SHOWN, _SHOWN_S = 5, 600, 10


def copy_text(app: App[Any], text: str, what: str, *, shown: bool = False) -> None:
    """Copy to the terminal's clipboard (OSC 52), which also works over SSH, and say so.

    A terminal may ignore it without an answer: a text that is ``shown`` can also be read for a while.
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


class Dialog(ModalScreen[T | None]):
    """A dialog that returns an answer, or None if it is closed without one."""

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

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("list")

    def __init__(self, *choices: Content) -> None:
        super().__init__(*choices, markup=False)


class ChoiceInput(Input):
    """Accepts any text, and suggests the ``choices`` that contain what was typed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("choice")

    def __init__(self, value: str, *, choices: Sequence[str], placeholder: str, id: str) -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True)
        self._choices = choices
        self._chosen: str | None = value
        self._typed = ""

    def suggest(self, choices: Sequence[str]) -> None:
        """Suggest these from now on."""
        self._choices = choices

    def on_input_changed(self) -> None:
        """Remember what was typed, for the suggestions."""
        if self.value != self._chosen:
            self._chosen, self._typed = None, self.value

    def action_choose(self, step: int) -> None:
        """Insert the next suggestion."""
        choices = [choice for choice in self._choices if self._typed.lower() in choice.lower()]
        if not choices:
            return
        place = choices.index(self.value) + step if self.value in choices else 0 if step > 0 else -1
        self._chosen = self.value = choices[place % len(choices)]
        self.cursor_position = len(self.value)


class FilterInput(Input):
    """The input of a filter, which can be saved under a name; ``kind`` is that of the screen that it filters."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("filter")

    class SaveAsked(Message):
        """The filter is to be saved."""

        def __init__(self, kind: str, text: str) -> None:
            super().__init__()
            self.kind, self.text = kind, text

    class SavedAsked(Message):
        """A saved filter is to be chosen."""

    def __init__(self, kind: str, placeholder: str, *, select_on_focus: bool = True) -> None:
        super().__init__(
            placeholder=f"{placeholder} · ↓ saved filters, ctrl+s saves",
            id="filter",
            compact=True,
            select_on_focus=select_on_focus,
        )
        self.kind = kind

    def action_save_filter(self) -> None:
        """Ask for a name, and save the filter under it."""
        self.post_message(self.SaveAsked(self.kind, self.value))

    def action_saved_filters(self) -> None:
        """Choose a saved filter."""
        self.post_message(self.SavedAsked())

    def apply(self, text: str) -> None:
        """Filter by a text, as if it was typed and entered."""
        self.value = text
        self.cursor_position = len(text)
        self.post_message(self.Submitted(self, text))


class WordFilter(FilterInput):
    """Filters rows by words while they are typed; hidden until it is opened.

    ``apply`` shows the rows that match the ``value``. ``target`` returns the widget that gets the keys afterwards; if
    it is a table, its cursor returns to its row if the filter is cleared while it is typed, unless the user has moved
    it; after Enter it stays on the row that was found.
    """

    def __init__(self, kind: str, placeholder: str, *, apply: Callable[[], None], target: Callable[[], Widget]) -> None:
        super().__init__(kind, placeholder)
        self._apply = apply
        self._target = target

    def open(self) -> None:
        """Show and focus the input at once: what is typed next must not reach the table."""
        table = self._target()
        if not self.display and isinstance(table, RowTable):
            table.hold_cursor()
        self.display = True
        self.screen.set_focus(self)

    def close(self) -> bool:
        """Clear the filter, and return whether it was open."""
        if not self.display:
            return False
        target = self._target()
        found = target.cursor_key if isinstance(target, RowTable) and not self.has_focus else None
        with self.prevent(Input.Changed):
            self.value = ""
        self._apply()
        self.display = False
        self.screen.set_focus(target)
        if isinstance(target, RowTable):
            if found in target.keys:
                target.place_cursor(target.keys.index(found))
            else:
                target.restore_cursor()
        return True

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._apply()

    @on(Input.Submitted)
    def _keep(self, event: Input.Submitted) -> None:
        event.stop()
        if self.value:
            self.screen.set_focus(self._target())
        else:
            self.close()


_EDITABLE_BYTES = 200_000


class BodyArea(TextArea):
    """Edits a body; an unedited one, or one that is not editable text, keeps its exact bytes."""

    def __init__(self, body: bytes, *, id: str) -> None:
        self._original = body
        text = _editable(body)
        super().__init__(text or "", id=id, compact=True, tab_behavior="focus")
        # A text area may change line ends: only a body that survives a round trip can be edited.
        self._is_kept = text is None or self.text != text
        if self._is_kept:
            self.load_text("")
            self.read_only = True
            self.placeholder = f"{size(len(body))} of binary data: cannot be edited, sent unchanged"
        self._before = self.text

    @property
    def is_edited(self) -> bool:
        """Whether the text was edited."""
        return self.text != self._before

    @property
    def body(self) -> bytes:
        """The current body."""
        return self.text.encode() if self.is_edited else self._original

    def get_line(self, line_index: int) -> Text:
        """Return a line in which each unprintable character is replaced by a printable one."""
        line = super().get_line(line_index)
        if printable(line.plain) != line.plain:
            line.plain = "".join(map(_one_for_one, line.plain))
        return line


def _one_for_one(character: str) -> str:
    shown = printable(character)
    return character if character == "\t" else shown if len(shown) == 1 else "�"


def _editable(body: bytes) -> str | None:
    if len(body) > _EDITABLE_BYTES:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


_LINES_MAX = 3


class FilterProblem(Painted):
    """Points at the error in the line above, and describes it."""

    DEFAULT_CSS = """
    FilterProblem { height: auto; display: none; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._start, self._length, self._words = 0, 0, ""

    def show(self, start: int, length: int, words: str) -> None:
        """Point at ``length`` cells from ``start``, and show the text."""
        self._start, self._length, self._words = start, length, printable(words)
        self.display = True
        self._make_room()
        self.repaint_all()

    def hide(self) -> None:
        """Hide the error."""
        self.display = False

    def paint(self) -> list[Strip]:
        """Paint the pointer, then the text."""
        pointer = " " * (self._start + 1) + "^" * self._length
        return [self.clipped([(line, "alarm")]) for line in (pointer, *self._wrapped())]

    def on_resize(self) -> None:
        """Wrap the text again."""
        self._make_room()

    def _make_room(self) -> None:
        self.styles.height = 1 + len(self._wrapped())

    def _wrapped(self) -> list[str]:
        width = (self.size.width or self.screen.size.width) - 2
        lines = textwrap.wrap(self._words, max(10, width), max_lines=_LINES_MAX, placeholder=" …")
        return [f" {line}" for line in lines]


class FilterLine(Vertical):
    """Accepts a filter and posts ``Applied``; hidden until it is opened.

    If it ``names_queues``, the filter may begin with ``queue:`` and a pattern of names.
    """

    DEFAULT_CSS = """
    FilterLine { height: auto; display: none; }
    """

    class Applied(Message):
        """A valid filter was entered, for the queues that match ``pattern``."""

        def __init__(self, wanted: Filter, pattern: str) -> None:
            super().__init__()
            self.wanted, self.pattern = wanted, pattern

    def __init__(self, *, names_queues: bool = False) -> None:
        super().__init__()
        self.poison_rc: int | None = None
        self._names_queues = names_queues
        self._entry = FilterInput(
            "queue",
            "queue:orders-* " * names_queues
            + 'state:ready rc>=5 age>10m size>1k id:… body:"…" body~regex json.type=refund !json.vip=true',
            select_on_focus=False,
        )
        self._problem = FilterProblem()

    def compose(self) -> ComposeResult:
        """The input, and the error below it."""
        yield self._entry
        yield self._problem

    @property
    def is_open(self) -> bool:
        """Whether the input is shown."""
        return bool(self.display)

    def open(self, text: str) -> None:
        """Show and focus the input at once: what is typed next must not reach the table."""
        self.display = True
        self._entry.value = text
        self._entry.cursor_position = len(text)
        self.screen.set_focus(self._entry)

    def close(self) -> None:
        """Hide the input."""
        self.display = False

    @on(Input.Changed)
    def _read(self, event: Input.Changed) -> None:
        event.stop()
        self._parsed()

    @on(Input.Submitted)
    def _apply(self, event: Input.Submitted) -> None:
        event.stop()
        wanted = self._parsed()
        if wanted is not None:
            self.post_message(self.Applied(wanted, self._split()[0]))

    def _split(self) -> tuple[str, str]:
        text = self._entry.value
        return split_pattern(text) if self._names_queues else ("*", text)

    def _parsed(self) -> Filter | None:
        whole, text = self._entry.value, self._split()[1]
        try:
            wanted = parse_filter(text) if self.poison_rc is None else parse_filter(text, self.poison_rc)
        except FilterError as error:
            # A long input scrolls, and the error must be in its visible part.
            before = whole[: len(whole) - len(text) + error.start]
            start = max(0, cell_len(before) - int(self._entry.scroll_offset.x))
            self._problem.show(start, max(1, cell_len(text[error.start : error.end])), error.message)
            return None
        self._problem.hide()
        return wanted
