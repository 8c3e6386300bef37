"""An input with suggestions, which the arrow keys walk through."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import Input

from rsmq_tui.tui.keymap import bindings_of


class ChoiceInput(Input):
    """Takes any text, and suggests those ``choices`` that hold what was typed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("choice")

    def __init__(self, value: str, *, choices: Sequence[str], placeholder: str, id: str) -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True)
        self._choices = choices
        self._chosen: str | None = value
        self._typed = ""

    def on_input_changed(self) -> None:
        """Remember what was typed: suggestions hold it."""
        if self.value != self._chosen:
            self._chosen, self._typed = None, self.value

    def action_choose(self, step: int) -> None:
        """Take the next suggestion."""
        choices = [choice for choice in self._choices if self._typed.lower() in choice.lower()]
        if not choices:
            return
        place = choices.index(self.value) + step if self.value in choices else 0 if step > 0 else -1
        self._chosen = self.value = choices[place % len(choices)]
        self.cursor_position = len(self.value)
