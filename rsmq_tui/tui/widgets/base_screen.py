"""The base of all screens and dialogs: each is styled once as it opens, and closes once."""

from collections.abc import Sequence
from typing import TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget

T = TypeVar("T")


class BaseScreen(Screen[T]):
    """A screen whose widgets have the styles for the terminal's size from the beginning, and that closes only once."""

    def on_compose(self) -> None:
        """Take the classes of the terminal's size, before there are widgets.

        Textual gives a screen these classes after the first layout, which then has to be repeated with the styles of
        all widgets.
        """
        app = self.app
        width, height = app.size
        for size, breakpoints in ((width, app.HORIZONTAL_BREAKPOINTS), (height, app.VERTICAL_BREAKPOINTS)):
            self.set_class(True, *_classes(size, breakpoints or ()), update=False)

    @property
    def is_open(self) -> bool:
        """False from the moment in which it is closed, when its widgets may still be there."""
        return self in self.app.screen_stack

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close the screen; do nothing if it was closed already, as by the first of two answers.

        Textual would close the screen in front instead.
        """
        return super().dismiss(result) if self.is_open else AwaitComplete()

    def warn(self, words: str) -> None:
        """Show a warning for some seconds; its words are never markup."""
        self.notify(words, severity="warning", markup=False)

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return the widget to select text in; none where the one that is painted has just been removed.

        Textual would look for its parent.
        """
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (widget, offset) if widget is self or (widget is not None and widget.parent) else (None, None)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Keep these styles when it comes to the front for the first time."""
        if not self.stack_updates:
            event.refresh_styles = False


def _classes(size: int, breakpoints: Sequence[tuple[int, str]]) -> list[str]:
    """Return the name of the last breakpoint that a size has reached, as Textual chooses it."""
    return [name for _, name in sorted(point for point in breakpoints if point[0] <= size)[-1:]]
