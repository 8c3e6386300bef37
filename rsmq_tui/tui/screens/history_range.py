"""Choosing a range of the past: one of the usual ones, or from and to, typed."""

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList

from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.history.moments import MomentError
from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.keymap import bindings_of
from rsmq_tui.tui.past import PRESETS, last, read_range, said
from rsmq_tui.tui.widgets.text_line import TextLine


class RangeScreen(ModalScreen[TimeRange | None]):
    """Gives the range that was chosen of the ``whole``, or None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("modal")

    def __init__(self, whole: TimeRange) -> None:
        super().__init__()
        self._whole = whole
        self._entry = Input(
            placeholder="21:50 – 22:30, 2031-05-17 21:50, -2h", id="from-to", compact=True, select_on_focus=False
        )
        self._told = TextLine(id="told")

    def compose(self) -> ComposeResult:
        """The usual ranges, and a line to type one."""
        with Vertical():
            yield OptionList(*(Content(words) for words, _ in PRESETS), markup=False)
            yield self._entry
            yield self._told

    def on_mount(self) -> None:
        """Begin in the list; what is typed goes to the line."""
        box = self.query_one(Vertical)
        box.border_title = "Time range, UTC"
        box.border_subtitle = Content("enter selects · or type a range")
        self._told.show([(f" recorded: {said(self._whole)}", "muted")])
        self.query_one(OptionList).focus()

    def on_key(self, event: events.Key) -> None:
        """What is typed in the list begins a range."""
        character = event.character or ""
        begins = character.isdigit() or character in {"-", "–"}
        # What was typed before the line had the focus belongs to it too.
        goes_on = bool(self._entry.value) and event.is_printable
        if self._entry.has_focus or not (begins or goes_on):
            return
        self._entry.value += character
        self._entry.cursor_position = len(self._entry.value)
        self.set_focus(self._entry)
        event.stop()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        if self._entry.value:
            self._take(self._entry.value)
        else:
            self.dismiss(last(PRESETS[event.option_index][1], self._whole))

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self._take(event.value)

    def _take(self, text: str) -> None:
        try:
            self.dismiss(read_range(text, self._whole))
        except MomentError as error:
            self._told.show([(f" {printable(str(error), 200)}", "alarm")])

    def action_close(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
