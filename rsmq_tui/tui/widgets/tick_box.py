"""A switch that says by a sign whether it is on."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Checkbox


class TickBox(Checkbox, inherit_bindings=False):
    """A checkbox that is told from its opposite without colours too; enter means what it means in other fields."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "toggle_button", "Toggle", show=False)]

    class Submitted(Message):
        """Enter was pressed."""

    def render(self) -> Content:
        """Draw the sign and the label."""
        return Content("[x] " if self.value else "[ ] ") + self.label

    def key_enter(self) -> None:
        """Go on with the form."""
        self.post_message(self.Submitted())
