"""The input of a filter of messages, in the language of filters, with its errors."""

import textwrap

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input

from rsmq_tui.monitor import Filter, FilterError, parse_filter
from rsmq_tui.monitor.filters.language import split_pattern
from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.widgets.painted import Painted
from rsmq_tui.tui.widgets.word_filter import FilterInput

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
            reads=lambda text: names_queues or split_pattern(text) == ("*", text),
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
        """Show and focus the input."""
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
            # A long input scrolls, and the error must be in the visible part.
            before = whole[: len(whole) - len(text) + error.start]
            start = max(0, cell_len(before) - int(self._entry.scroll_offset.x))
            self._problem.show(start, max(1, cell_len(text[error.start : error.end])), error.message)
            return None
        self._problem.hide()
        return wanted
