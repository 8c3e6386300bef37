"""Scrollable text whose lines are made on demand."""

from collections.abc import Sequence
from typing import Protocol

from textual import events
from textual.message import Message
from textual.strip import Strip

from rsmq_tui.monitor.text import count
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.painted import Painted, Piece


class Lines(Protocol):
    """Lines by number, from 0; a list, or an object that makes them on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Sequence[Piece]: ...


class LineView(Painted, can_focus=True):
    """Shows lines and scrolls through them; its border says which are visible."""

    BINDINGS = bindings_of("lines")
    DEFAULT_CSS = """
    LineView { height: 1fr; border: round $rule; border-title-color: $quiet; border-subtitle-color: $quiet; }
    """

    class Resized(Message):
        """The lines may have to be wrapped again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: Lines | None = None
        self._top = 0

    def show(self, content: Lines, *, stay: bool = False) -> None:
        """Show these lines from the first; ``stay`` keeps the relative position, for text that was wrapped again."""
        top = self._top * len(content) // max(1, self._length) if stay else 0
        self._content = content
        self._scroll_to_line(top)

    def action_scroll_lines(self, step: int) -> None:
        """Scroll by lines."""
        self._scroll(step)

    def action_scroll_pages(self, step: int) -> None:
        """Scroll by screens."""
        self._scroll_to_line(self._top + step * max(1, self.size.height - 1))

    def action_scroll_to_end(self, step: int) -> None:
        """Scroll to the first line (-1) or to the last (1)."""
        self._scroll_to_line(0 if step < 0 else self._length)

    def paint(self) -> list[Strip]:
        """Paint the visible lines."""
        content = self._content
        if content is None:
            return []
        last = min(self._top + self.size.height, len(content))
        return [self.line(content[number]) for number in range(self._top, last)]

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three lines down."""
        event.stop()
        self._scroll(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three lines up."""
        event.stop()
        self._scroll(-3)

    def on_resize(self) -> None:
        """Stay within the lines."""
        self._scroll_to_line(self._top)
        self.post_message(self.Resized())

    @property
    def _length(self) -> int:
        return len(self._content) if self._content is not None else 0

    def _scroll(self, rows: int) -> None:
        self._scroll_to_line(self._top + rows)

    def _scroll_to_line(self, top: int) -> None:
        self._top = max(0, min(top, self._length - self.size.height))
        self._show_border()
        self.repaint()

    def _show_border(self) -> None:
        length = self._length
        last = min(self._top + self.size.height, length)
        self.border_subtitle = lines_words(self._top + 1, last, length) if length else ""


def lines_words(first: int, last: int, number: int, *, is_all: bool = True) -> str:
    """Return which lines are visible: 1–12 of 40 lines, 3 of 40+ lines if there may be more, 1 line."""
    if number == 1 and is_all:
        return "1 line"
    shown = count(first) if first == last else f"{count(first)}–{count(last)}"
    return f"{shown} of {count(number)}{'' if is_all else '+'} lines"
