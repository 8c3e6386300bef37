"""Choosing a namespace among those that a scan of the server finds."""

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from rsmq_tui.monitor import PeekError, Source
from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.keymap import bindings_of


class NamespaceScreen(ModalScreen[str | None]):
    """Gives the namespace that was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("modal")

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._names: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """A list."""
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Begin to look."""
        options = self.query_one(OptionList)
        options.border_title = "Namespaces on this server"
        options.border_subtitle = "scanning …"
        self._look()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index] if event.option_index < len(self._names) else None)

    def action_close(self) -> None:
        """Close without a choice."""
        self.dismiss(None)

    @work(group="namespaces", exclusive=True)
    async def _look(self) -> None:
        options = self.query_one(OptionList)
        try:
            found = await self._source.namespaces()
        except PeekError as error:
            options.border_subtitle = Content(printable(str(error), 50))
            return
        self._names = found.names
        options.add_options([Option(printable(name, 54) or "(no prefix)") for name in found.names])
        options.highlighted = 0 if found.names else None
        options.border_subtitle = "enter switches" if found.names else "none found"
        if not found.complete:
            options.border_subtitle += " · not all keys were scanned"
        options.focus()
