"""The first styles of a screen, computed once for the terminal's size."""

from collections.abc import Sequence
from typing import Any

from textual import events
from textual.screen import Screen


def take_size(screen: Screen[Any]) -> None:
    """Give a screen that has no widgets yet the classes of the terminal's size.

    Textual gives them after the first layout, which then has to be repeated with the styles of all widgets.
    """
    app = screen.app
    width, height = app.size
    for size, breakpoints in ((width, app.HORIZONTAL_BREAKPOINTS), (height, app.VERTICAL_BREAKPOINTS)):
        screen.set_class(True, *_classes(size, breakpoints or ()), update=False)


def keep_first(screen: Screen[Any], resume: events.ScreenResume) -> None:
    """Let a screen that comes to the front for the first time keep the styles that its widgets were made with."""
    if not screen.stack_updates:
        resume.refresh_styles = False


def _classes(size: int, breakpoints: Sequence[tuple[int, str]]) -> list[str]:
    """Return the name of the last breakpoint that a size has reached, as Textual chooses it."""
    return [name for _, name in sorted(point for point in breakpoints if point[0] <= size)[-1:]]
