"""Dialogs that any screen can open: help, pages for users, and choices of a namespace, columns or a saved filter."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from operator import attrgetter
from textwrap import wrap
from typing import Any, ClassVar, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Markdown, OptionList
from textual.widgets.option_list import Option

from rsmq_tui.docs import page, topics
from rsmq_tui.monitor import PeekError, Source, Verdict
from rsmq_tui.monitor.text import UNKNOWN, printable, printable_ns
from rsmq_tui.tui.changes.forms import Answers, Field, Form, FormScreen
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.keys import NO_CHANGES, Usable, Where, bindings_of, keymap_of
from rsmq_tui.tui.overview.columns import QUEUE_COLUMNS, chosen_columns
from rsmq_tui.tui.preferences import COLUMNS, FILTERS, TEXT_MAX, Preferences
from rsmq_tui.tui.theme import MEANINGS, verdict_words
from rsmq_tui.tui.widgets.controls import ChoiceList, Dialog, ScrolledText, copy_text
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column
from rsmq_tui.tui.widgets.text_view import LineView

T = TypeVar("T")
_TITLES: dict[Where, str] = {
    "overview": "Overview",
    "queue": "Queue",
    "message": "Message",
    "life": "Life of a message",
    "audit": "Audit",
    "events": "Events",
    "journal": "Journal",
    "recorded": "Messages of a change",
    "history": "History",
    "search": "Search over queues",
    "server": "Server",
    "table": "Rows",
    "lines": "Lines",
    "replay": "Replay",
    "diff": "Two times",
    "change": "While a change runs",
    "filter": "While typing a filter",
    "app": "Everywhere",
}


def _column_meanings() -> Iterator[tuple[Piece, str]]:
    """Yield the titles of columns with their meaning."""
    for meaning, columns in groupby(QUEUE_COLUMNS, attrgetter("meaning")):
        if meaning:
            yield (" ".join(column.title.lower() for column in columns), "strong"), meaning
    yield (UNKNOWN, "strong"), "unknown"


_INDENT = 3
# The minimum widths of names and of their meanings beside them.
_NAME_WIDTH_MIN = 16
_MEANING_WIDTH_MIN = 24


class HelpScreen(Dialog[None]):
    """Lists the ``usable`` keys of these key groups."""

    DEFAULT_CSS = """
    HelpScreen LineView { width: 86; max-width: 95%; height: 80%; background: $panel; border: round $primary; }
    """

    def __init__(self, where: Iterable[Where], usable: Usable = NO_CHANGES) -> None:
        super().__init__()
        self._usable = usable
        self._where = (*where, "change", "app")
        self._view = LineView()

    def compose(self) -> ComposeResult:
        """One view of lines."""
        yield self._view

    def on_mount(self) -> None:
        """Begin at the top."""
        self._view.border_title = "Help"
        self._view.focus()

    @on(LineView.Resized)
    def _fill(self) -> None:
        """Lay the help out for the current width."""
        lines: list[list[Piece]] = []
        for where in self._where:
            keys = keymap_of(self.app).of(where, usable=self._usable)
            lines += self._part(_TITLES[where], [((key.shown, "strong"), key.help) for key in keys])
        verdicts = (((verdict_words(each), f"verdict-{each}"), MEANINGS[each]) for each in Verdict)
        lines += self._part("Verdicts, worst first", list(verdicts))
        lines += self._part("Words", list(_column_meanings()))
        pages = [((topic, "strong"), sentence) for topic, sentence in topics().items()]
        lines += self._part(f"Pages, which {keymap_of(self.app).first_key('palette')} opens", pages)
        self._view.show(lines[1:], stay=True)

    def _part(self, title: str, rows: Sequence[tuple[Piece, str]]) -> list[list[Piece]]:
        """Lay out a part: each name, with its meaning beside it, or below if there is little room."""
        if not rows:
            return []
        lines: list[list[Piece]] = [[], [(f" {title}", "head")]]
        width, beside = self._view.size.width, max(_NAME_WIDTH_MIN, *(len(name) + 1 for (name, _), _ in rows))
        is_narrow = width < _INDENT + beside + _MEANING_WIDTH_MIN
        indent = _INDENT * 2 if is_narrow else _INDENT + beside
        for (name, token), meaning in rows:
            wrapped = wrap(meaning, max(1, width - indent - 1))
            lines.append([(f"{'':{_INDENT}}{name:<{beside}}", token)])
            if not is_narrow:
                lines[-1].append((wrapped.pop(0), ""))
            lines += [[(f"{'':{indent}}{line}", "")] for line in wrapped]
        return lines


class _ListDialog(Dialog[T]):
    """A dialog with one list."""

    def __init__(self, title: str, hint: str) -> None:
        super().__init__()
        self._options = ChoiceList()
        self._options.border_title, self._options.border_subtitle = title, hint

    def compose(self) -> ComposeResult:
        """The list."""
        yield self._options

    def on_mount(self) -> None:
        """Focus the list."""
        self._options.focus()


class NamespaceScreen(_ListDialog[str]):
    """Returns the chosen namespace, or None."""

    def __init__(self, source: Source) -> None:
        super().__init__("Namespaces on this server", "scanning …")
        self._source = source
        self._names: tuple[str, ...] = ()

    def on_mount(self) -> None:
        """Start the scan."""
        self._look()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index] if event.option_index < len(self._names) else None)

    @work(group="namespaces", exclusive=True)
    async def _look(self) -> None:
        options = self._options
        try:
            found = await self._source.namespaces()
        except PeekError as error:
            options.border_subtitle = Content(printable(str(error), 50))
            return
        self._names = found.names
        options.add_options([Option(printable_ns(name, 54)) for name in found.names])
        options.highlighted = 0 if found.names else None
        options.border_subtitle = "enter switches" if found.names else "none found"
        if not found.complete:
            options.border_subtitle += " · not all keys were scanned"


class ColumnsScreen(_ListDialog[None]):
    """Chooses which columns are shown and in which order.

    ``apply`` is called at the start and after each choice, and returns the ids of the columns that fit.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("columns")

    def __init__(self, columns: Sequence[Column[Any, Any]], apply: Callable[[], Set[str]]) -> None:
        super().__init__("Columns", "")
        self._columns = columns
        self._apply = apply

    def on_mount(self) -> None:
        """List the columns."""
        show, later, earlier, reset = map(keymap_of(self.app).first_key, ("show", "shift_right", "shift_left", "reset"))
        self._options.border_subtitle = Content(f"{show} shows or hides · {later} {earlier} move it · {reset} resets")
        self._list(0)

    @on(OptionList.OptionSelected)
    def action_show(self) -> None:
        """Show or hide the column."""
        index = self._index
        chosen = self._chosen
        chosen[index] = chosen[index].removeprefix("-") if chosen[index].startswith("-") else f"-{chosen[index]}"
        self._choose(chosen, index)

    def action_shift(self, step: int) -> None:
        """Move the column by one place."""
        index, chosen = self._index, self._chosen
        moved = max(0, min(index + step, len(chosen) - 1))
        chosen.insert(moved, chosen.pop(index))
        self._choose(chosen, moved)

    def action_reset(self) -> None:
        """Show all columns in their order."""
        self._choose([], 0)

    @property
    def _index(self) -> int:
        return self._options.highlighted or 0

    @property
    def _chosen(self) -> list[str]:
        return [f"{'' if is_shown else '-'}{column.id}" for column, is_shown in self._ordered]

    @property
    def _ordered(self) -> list[tuple[Column[Any, Any], bool]]:
        chosen = dashboard_of(self.app).preferences.get(COLUMNS)
        return chosen_columns(self._columns, chosen)

    def _choose(self, chosen: list[str], index: int) -> None:
        preferences = dashboard_of(self.app).preferences
        # Columns for other servers keep their places.
        named = {id.removeprefix("-") for id in chosen}
        others = [id for id in preferences.get(COLUMNS) if chosen and id.removeprefix("-") not in named]
        preferences.set(COLUMNS, [*chosen, *others])
        self._list(index)

    def _list(self, highlighted: int) -> None:
        fitting = self._apply()
        lines = []
        for column, is_shown in self._ordered:
            note = "  no room" if is_shown and column.id not in fitting else ""
            lines.append(f"{'[x]' if is_shown else '[ ]'} {column.title}{note}")
        self._options.set_options(lines)
        self._options.highlighted = highlighted


class SavedFiltersScreen(_ListDialog[None]):
    """Lists the saved filters of a ``kind`` that ``offered`` returns, and calls ``use`` with the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("filters")

    def __init__(self, kind: str, offered: Callable[[], Mapping[str, str]], use: Callable[[str], None]) -> None:
        super().__init__("Saved filters", "")
        self._kind, self._offered = kind, offered
        self._use = use

    def on_mount(self) -> None:
        """List the filters."""
        self._options.border_subtitle = Content(f"enter applies · {keymap_of(self.app).first_key('forget')} deletes")
        self._list()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        text = list(self._offered().values())[event.option_index]
        self.dismiss()
        self.app.call_later(self._use, text)

    def action_forget(self) -> None:
        """Delete the filter, and close when none is left."""
        index = self._options.highlighted
        if index is not None:
            _keep_filter(dashboard_of(self.app).preferences, self._kind, list(self._offered())[index], None)
            self._list()

    def _list(self) -> None:
        filters = self._offered()
        width = max((len(printable(name, 30)) for name in filters), default=0)
        lines = (f"{printable(name, 30):<{width}}  {printable(text, 200)}" for name, text in filters.items())
        self._options.set_options([Option(Content(line)) for line in lines])
        self._options.highlighted = 0
        if not filters:
            self.dismiss()


def _keep_filter(preferences: Preferences, kind: str, name: str, text: str | None) -> None:
    """Save a filter under a name; None deletes it."""

    def changed(saved: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        others = {other: each for other, each in saved.get(kind, {}).items() if other != name}
        return {**saved, kind: others if text is None else {**others, name: text}}

    preferences.edit(FILTERS, changed)


_NAME_MAX = 60


def filter_name_screen(preferences: Preferences, kind: str, text: str) -> FormScreen[str]:
    """Return the form that asks for the name of a filter and saves it."""

    def build(got: Answers) -> str:
        name = str(got["name"]).strip()
        if not 0 < len(name) <= _NAME_MAX:
            raise ValueError(f"give a name of at most {_NAME_MAX} characters")
        if len(text) > TEXT_MAX:
            raise ValueError(f"the filter is longer than {TEXT_MAX:,} characters")
        return name

    def keep(name: str) -> None:
        _keep_filter(preferences, kind, name, text)
        screen.dismiss()
        lists = keymap_of(screen.app).first_key("choose_saved")
        # The filter line has the keys again.
        words = f"saved as {printable(name, _NAME_MAX)}: {lists} lists the saved filters"
        screen.notify(words, markup=False)

    field = Field("name", "name", printable(text, _NAME_MAX), hint="a name")
    note = "a filter of the same name is replaced"
    screen = FormScreen(Form("Save the filter", (field,), build), keep, yes="Save", note=note)
    return screen


class PageScreen(Dialog[None]):
    """Shows the page of a topic; links to other pages work."""

    DEFAULT_CSS = """
    PageScreen ScrolledText { width: 90; max-width: 100%; height: 90%; background: $panel; border: round $primary; }
    """
    AUTO_FOCUS = "ScrolledText"

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def compose(self) -> ComposeResult:
        """One view with the page in it."""
        with ScrolledText() as view:
            view.border_title = f"Help: {self._topic}"
            # Over SSH no browser can be opened.
            yield Markdown(page(self._topic), open_links=False)

    @on(Markdown.LinkClicked)
    async def _follow(self, event: Markdown.LinkClicked) -> None:
        topic = event.href.removesuffix(".md")
        if topic not in topics():
            copy_text(self.app, event.href, "the link")
            return
        view = self.query_one(ScrolledText)
        view.border_title = f"Help: {topic}"
        await event.markdown.update(page(topic))
        view.action_scroll_to_end(-1)
