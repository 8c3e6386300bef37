"""The buttons of dialogs."""

from textual.content import Content
from textual.widgets import Button


class DialogButton(Button):
    """A button of one line, ready to be pressed again at once; its words are never markup."""

    def __init__(self, words: str, *, id: str, disabled: bool = False) -> None:
        super().__init__(Content(words), id=id, disabled=disabled, compact=True)
        self.active_effect_duration = 0
