"""The past: what an analysis of a history tells of a range of time. A thread reads it, and nothing waits for that."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from rsmq_tui.history.analysis.values import DAY_MS, QueueRef, TimeRange
from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.key import Where
from rsmq_tui.tui.keymap import bindings_of
from rsmq_tui.tui.past import Past, last
from rsmq_tui.tui.past_choice import PastChoice
from rsmq_tui.tui.past_columns import PastContext
from rsmq_tui.tui.past_loading import Loader, Shown, Wanted
from rsmq_tui.tui.past_pages import CHARTED, HEAT, PAGES, Page, key_of, tab_pieces
from rsmq_tui.tui.past_replay import jump
from rsmq_tui.tui.past_told import queues_words, range_pieces, row_pieces, source_pieces, why_empty
from rsmq_tui.tui.screens.ranged import RangedScreen
from rsmq_tui.tui.widgets.heat_view import HeatView
from rsmq_tui.tui.widgets.key_hints import KeyHints
from rsmq_tui.tui.widgets.past_charts import PastCharts
from rsmq_tui.tui.widgets.row_table import RowTable
from rsmq_tui.tui.widgets.text_line import TextLine

# Nobody asks for it.
_NOTHING = Wanted(points=0)
_FEWEST_POINTS, _MOST_POINTS = 40, 400


class HistoryScreen(RangedScreen):
    """Charts, episodes, a heat map, and what else an analysis holds.

    ``queue`` names one to begin with: its server, namespace and name.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("history", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("history")

    def __init__(self, past: Past, queue: tuple[str, str, str] | None = None) -> None:
        super().__init__()
        self._past = past
        self._wanted_queue = queue
        self._loader = Loader(past.analysis)
        self._shown = Shown(_NOTHING)
        self._asked = Wanted(refs=())
        self._is_loading = False
        self._page = PAGES[0]
        self._choice = PastChoice()
        self._listed: tuple[object, ...] = ()
        self._where = TextLine(id="where")
        self._title = TextLine(id="title")
        self._tabs = TextLine(id="tabs")
        self._told = TextLine(id="why")
        self.charts = PastCharts()
        self.heat = HeatView(id="heat")
        self.tables: dict[str, RowTable[Any, PastContext]] = {
            page.id: RowTable(page.columns, PastContext(), id=f"past-{page.id}", on_open=self._open)
            for page in PAGES
            if page.columns
        }

    def compose(self) -> ComposeResult:
        """Where the numbers come from, the range, charts, pages, hints."""
        yield self._where
        yield self._title
        yield self.charts
        yield self._tabs
        yield Input(placeholder="words in a queue's name; !word excludes", id="filter", compact=True)
        yield from self.tables.values()
        yield self.heat
        yield self._told
        yield KeyHints("table", "history", "app")

    def on_mount(self) -> None:
        """Begin to read."""
        self._turn_to(self._page)

    def on_resize(self) -> None:
        """Let lines have as many points as there is room for."""
        self._ask()

    def rest(self) -> None:
        """Look for a newer run."""
        self._ask(look=self._asked.look + 1)

    @property
    def whole(self) -> TimeRange | None:
        """All the time that the analysis covers."""
        return self._shown.whole

    @property
    def span(self) -> TimeRange | None:
        """The range that is asked for, or else shown."""
        return self._asked.span or self._shown.span

    def show_span(self, span: TimeRange) -> None:
        """Ask for another range."""
        self._ask(span=span)

    @on(RowTable.Moved)
    def _follow_cursor(self) -> None:
        self._tell_row()
        self._chart_cursor()

    def _open(self, row: Any) -> None:
        at_ms, ref = self._page.at_ms(row), self._page.ref(row)
        if at_ms is not None:
            history = self._past.history or self._shown.history
            jump(self.app, history, at_ms, None if ref is None else ref.queue)
        elif ref is not None:
            self._choice.narrow(ref, self._page)
            self._turn_to(next(page for page in PAGES if page.id == "episodes"))

    @on(Input.Changed, "#filter")
    def _filter_as_typed(self, event: Input.Changed) -> None:
        self._choice.typed = event.value
        self._show_rows()

    @on(Input.Submitted, "#filter")
    def _keep_filter(self) -> None:
        if not self._choice.typed:
            self.query_one("#filter").display = False
        self._focus_page()

    def action_filter(self) -> None:
        """Open the filter."""
        entry = self.query_one("#filter")
        entry.display = True
        self.set_focus(entry)

    def action_clear(self) -> None:
        """Go back from the episodes of one queue; clear the marks, then the filter; then leave."""
        entry = self.query_one("#filter", Input)
        if not entry.has_focus and (page := self._choice.widen()) is not None:
            self._turn_to(page)
        elif self._choice.marked and not entry.has_focus:
            self._choice.marked = {}
            self._marks_changed()
        elif entry.display:
            entry.value = ""
            entry.display = False
            self._focus_page()
        elif len(self.app.screen_stack) > 1:
            # Alone it is left by q: escape must not end the program.
            self.app.call_later(self.app.run_action, "leave")

    def action_mark(self) -> None:
        """Mark the queue of the row, or take the mark off."""
        ref = None if self._row is None else self._page.ref(self._row)
        if ref is None:
            return
        self._choice.toggle(ref)
        self._marks_changed()
        if self._page.id in self.tables:
            self.tables[self._page.id].action_cursor(1)

    def action_mark_all(self) -> None:
        """Mark all queues that pass the filter; take all marks off where they are marked already."""
        self._choice.toggle_all([facts.ref for facts in self._shown.lists.queues], self._cells.name)
        self._marks_changed()

    def action_turn_page(self, step: int) -> None:
        """Show another page."""
        self._choice.widen()
        self._turn_to(PAGES[(PAGES.index(self._page) + step) % len(PAGES)])

    def action_metric(self) -> None:
        """Chart the next metric."""
        self._ask(metric=CHARTED[(CHARTED.index(self._asked.metric) + 1) % len(CHARTED)])

    def action_weekly(self) -> None:
        """Fold the heat map by day, or by weekday."""
        self._ask(is_weekly=not self._asked.is_weekly)
        if self._page.id != HEAT:
            self._turn_to(next(page for page in PAGES if page.id == HEAT))

    @property
    def _row(self) -> Any:
        table = self.tables.get(self._page.id)
        return None if table is None else table.cursor_row

    @property
    def _cells(self) -> PastContext:
        places = {facts.ref.place for facts in self._shown.lists.queues}
        became = {(episode.ref, episode.start_ms): episode.verdict for episode in self._shown.lists.episodes}
        return PastContext(len(places) > 1, self.dashboard.ascii_only, frozenset(self._choice.marked), became)

    def _turn_to(self, page: Page) -> None:
        self._page = page
        for name, table in self.tables.items():
            table.display = name == page.id
        self.heat.display = page.id == HEAT
        self._focus_page()
        self._ask(is_heat=page.id == HEAT)
        self._show_rows()
        self._chart_cursor()

    def _focus_page(self) -> None:
        self.set_focus(self.heat if self._page.id == HEAT else self.tables[self._page.id])

    def _marks_changed(self) -> None:
        self._listed = ()
        self._show_rows()
        self._chart_cursor()

    def _chart_cursor(self) -> None:
        """Let the charts be of what is marked, or else of what is under the cursor."""
        self._ask(refs=self._choice.follow(self._page, self._row, self._shown.lists.queues))

    def _ask(self, **news: Any) -> None:
        """Let something else be read; what was asked before and is not read yet is not read any more."""
        points = max(_FEWEST_POINTS, min(_MOST_POINTS, self.size.width))
        self._asked = replace(self._asked, points=points, **news)
        if not self._is_loading and self._asked != self._shown.wanted:
            self._is_loading = True
            self._load()
        self._tell()

    @work(group="history")
    async def _load(self) -> None:
        try:
            while self._asked != self._shown.wanted:
                self._shown = await asyncio.to_thread(self._loader.load, self._asked, partial(last, DAY_MS))
                self._show()
        finally:
            self._is_loading = False
            self._tell()

    def _show(self) -> None:
        """Show what has been read."""
        shown = self._shown
        self._mark_wanted()
        self._show_rows()
        self._chart_cursor()
        if shown.lines is not None and shown.span is not None and shown.wanted.refs:
            self.charts.show(shown.lines, self._words_of(shown.wanted.refs), shown.span)
        if self._page.id == HEAT:
            heat = shown.heat if shown.wanted.is_heat or shown.failure else None
            words = self._words_of(shown.wanted.refs or ())
            self.heat.show_heat(heat, words, printable(shown.failure or self._page.empty, 300))

    def _show_rows(self) -> None:
        """Show the rows of the page, unless they are there already."""
        page, shown = self._page, self._shown
        self._tell()
        if page.id == HEAT:
            self._tell_row()
            return
        only = self._choice.only
        listed = (page.id, shown.lists, self._choice.typed, only, shown.failure, shown.made_ms, self.size.width)
        table = self.tables[page.id]
        if listed == self._listed:
            table.show(table.rows, table.keys, self._cells)
        else:
            self._listed = listed
            table.empty_text = why_empty(shown, page, self._choice.typed, self.size.width, of=self._of)
            rows = self._choice.rows(page, shown.lists, self._cells.name)
            table.show(rows, [key_of(page, row) for row in rows], self._cells)
        self._tell_row()

    def _mark_wanted(self) -> None:
        """Begin with the queue that the screen was opened for."""
        if self._wanted_queue is None or not self._shown.lists.queues:
            return
        wanted, self._wanted_queue = self._wanted_queue, None
        if not self._choice.begin_with(wanted, self._shown):
            words = f"the analysis does not contain queue {printable(wanted[2], 60)}"
            self.notify(words, severity="warning", markup=False)

    def _words_of(self, refs: Sequence[QueueRef]) -> str:
        """Name some queues."""
        return queues_words(refs, len(self._shown.lists.queues), self._cells)

    @property
    def _of(self) -> str:
        """The queue whose episodes are listed; empty where all are."""
        return "" if self._choice.only is None else self._words_of((self._choice.only,))

    def _tell(self) -> None:
        """Say where the numbers come from, of which time they are, and what is still being read."""
        shown = self._shown
        self._where.show(source_pieces(shown, self._past.analysis))
        marked = self._words_of(tuple(self._choice.marked)) if self._choice.marked else ""
        width, ascii_only = self.size.width, self.dashboard.ascii_only
        self._title.show(range_pieces(self.span, marked, width, ascii_only=ascii_only))
        told = [f"   of {self._of}"] if self._of else []
        told += ["   loading …"] if self._is_loading else []
        self._tabs.show(tab_pieces(self._page, shown.lists if shown.whole else None, told, width))

    def _tell_row(self) -> None:
        """Say in full what the row under the cursor cuts off."""
        self._told.show(row_pieces(self._page, self._row, ascii_only=self.dashboard.ascii_only))
