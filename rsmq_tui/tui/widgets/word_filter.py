"""The filter by words in the rows of a table, and the common base of this input and that for messages."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.keys import bindings_of, keymap_of
from rsmq_tui.tui.preferences import FILTERS
from rsmq_tui.tui.widgets.row_table import RowTable


class FilterInput(Input):
    """The input of a filter, which can be saved under a name; ``kind`` is that of the screen that it filters.

    Of the saved filters of that kind, those are offered that it ``reads``.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("filter")

    def __init__(
        self,
        kind: str,
        placeholder: str,
        *,
        select_on_focus: bool = True,
        reads: Callable[[str], bool] = lambda _: True,
    ) -> None:
        super().__init__(placeholder=placeholder, id="filter", compact=True, select_on_focus=select_on_focus)
        self.kind, self.reads = kind, reads

    def on_mount(self) -> None:
        """Name the keys for saved filters."""
        saved, save = (keymap_of(self.app).first_key(name) for name in ("choose_saved", "save_filter"))
        self.placeholder += f" · {saved} saved filters, {save} saves"

    def action_save_filter(self) -> None:
        """Ask for a name, and save the filter under it."""
        dashboard = dashboard_of(self.app)
        if self.value.strip():
            dashboard.navigation.open("filter name", dashboard.preferences, self.kind, self.value)
        else:
            self.notify("type a filter first", severity="warning", markup=False)

    @property
    def saved(self) -> Mapping[str, str]:
        """The saved filters of its kind that it reads, by name."""
        saved = dashboard_of(self.app).preferences.get(FILTERS).get(self.kind, {})
        return {name: text for name, text in saved.items() if self.reads(text)}

    def apply(self, text: str) -> None:
        """Filter by a text, as if it had been typed and entered."""
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
        """Show and focus the input."""
        table = self._target()
        if not self.display and isinstance(table, RowTable):
            table.cursor.hold()
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
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.value:
            self.screen.set_focus(self._target())
        else:
            self.close()
