"""The history screen: a time range of an analysis, and the dialog that chooses the range."""

import asyncio
import textwrap
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList

from rsmq_tui.history.analysis.incidents import times_of
from rsmq_tui.history.analysis.values import DOWN, Episode, Incident, QueueRef, TimeRange
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.moments import DAY_MS, MomentError
from rsmq_tui.monitor.text import clock, passes, plural, printable, zone_words
from rsmq_tui.tui.history import pages
from rsmq_tui.tui.history.loading import (
    PRESETS,
    AnalysisLocation,
    Lists,
    Loaded,
    Loader,
    LoadRequest,
    last,
    range_words,
    read_range,
    shifted,
    zoomed,
)
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.controls import ChoiceList, Dialog
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Painted, Piece
from rsmq_tui.tui.widgets.row_table import RowTable
from rsmq_tui.tui.widgets.word_filter import WordFilter


class RangeScreen(Dialog[TimeRange]):
    """Returns the range that was chosen within ``whole``, or None."""

    DEFAULT_CSS = """
    RangeScreen Vertical {
        width: 76; max-width: 95%; height: auto; max-height: 95%;
        background: $panel; border: round $primary; border-subtitle-color: $quiet;
    }
    RangeScreen OptionList, RangeScreen OptionList:focus {
        width: 1fr; max-width: 100%; height: 5; max-height: 100%; background: $panel; border: none; padding: 0;
    }
    RangeScreen.-tiny OptionList { height: 3; }
    RangeScreen #from-to { border: none; padding: 0 1; background: $surface; }
    """

    def __init__(self, whole: TimeRange) -> None:
        super().__init__()
        self._whole = whole
        self._entry = Input(
            placeholder="21:50 – 22:30, 2031-05-17 21:50, -2h", id="from-to", compact=True, select_on_focus=False
        )
        self._words = TextLine(id="words")

    def compose(self) -> ComposeResult:
        """The preset ranges, and an input for others."""
        with Vertical():
            yield ChoiceList(*(Content(words) for words, _ in PRESETS))
            yield self._entry
            yield self._words

    def on_mount(self) -> None:
        """Focus the list; typed characters go to the input."""
        box = self.query_one(Vertical)
        box.border_title = Content(f"Time range, {zone_words(self._whole.to_ms)}")
        box.border_subtitle = Content("enter selects · or type a range")
        self._words.show([(f" recorded: {range_words(self._whole)}", "muted")])
        self.query_one(OptionList).focus()

    def on_key(self, event: events.Key) -> None:
        """Move typed characters from the list to the input."""
        character = event.character or ""
        begins = character.isdigit() or character in {"-", "–"}
        # Characters typed before the input had the focus belong to it too.
        goes_on = bool(self._entry.value) and event.is_printable
        if self._entry.has_focus or not (begins or goes_on):
            return
        self._entry.value += character
        self._entry.cursor_position = len(self._entry.value)
        self.set_focus(self._entry)
        event.stop()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        if self._entry.value:
            self._take(self._entry.value)
        else:
            self.dismiss(last(PRESETS[event.option_index][1], self._whole))

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self._take(event.value)

    def _take(self, text: str) -> None:
        try:
            self.dismiss(read_range(text, self._whole))
        except MomentError as error:
            self._words.show([(f" {printable(str(error), 200)}", "alarm")])


_NARROW = 60


def source_pieces(shown: Loaded, out: str) -> list[Piece]:
    """Return which analysis is shown, that it is not live, and what is missing in it."""
    made = (
        ""
        if shown.made_ms is None
        else f"   created {clock(shown.made_ms, date=True)[:16]} {zone_words(shown.made_ms)}"
    )
    pieces: list[Piece] = [
        (" rsmq-tui  ", "strong"),
        (f"HISTORY (read-only) · {printable(shown.label or out, 60)}", ""),
        (made, "muted"),
    ]
    # Each begins with the location of the analysis, which is shown already.
    problems = [printable(problem.removeprefix(f"{shown.label}/"), 120) for problem in shown.problems]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return [*pieces, *((f"   ! {problem}{more}", "alarm") for problem in problems[:1])]


def range_pieces(span: TimeRange | None, marked: str, width: int) -> list[Piece]:
    """Return which range is shown, and what is marked."""
    return [
        (" ◀ history  " if width >= _NARROW else " ◀ ", "strong"),
        ("" if span is None else range_words(span), ""),
        (f"   {marked} marked" if marked else "", "strong"),
    ]


def queues_words(refs: Sequence[QueueRef], known: int, context: pages.HistoryContext) -> str:
    """Name a single queue, or count the queues; ``known`` is the number of all."""
    if len(refs) == 1:
        return printable(context.name(refs[0]), 60)
    return f"all {plural(len(refs), 'queue')}" if len(refs) == known else plural(len(refs), "queue")


def row_pieces(page: pages.HistoryPage, row: Any, lists: Lists) -> list[Piece]:
    """Return the full text of a row, which the table may cut off, and the number of changes during an incident."""
    if row is None:
        return []
    pieces: list[Piece] = [(" ", "")]
    if isinstance(row, Episode | Incident):
        verdict = row.verdict if isinstance(row, Episode) else row.worst
        pieces.append((f"{printable(pages.trouble_words(verdict), 30)} ", pages.trouble_token(verdict)))
        changes = pages.changes_at(row, row.ref, lists)
        during = f"   {plural(len(changes), 'change')} made during it" if changes else ""
        return [*pieces, (printable(page.sentence(row), 300), ""), (during, "muted")]
    return [*pieces, (printable(page.sentence(row), 300), "")]


def why_empty(
    shown: Loaded, page: pages.HistoryPage, typed: str, width: int, of: str = "", *, refresh: str
) -> list[Piece]:
    """Return why a page has no rows, ``of`` one queue or of all, and what to do, in lines of that width.

    ``refresh`` is the key that reads it again.
    """
    reasons = _why_empty(shown, page, typed, of, refresh)
    return [(f"  {line}", style) for words, style in reasons for line in _wrapped(words, width)]


def _why_empty(shown: Loaded, page: pages.HistoryPage, typed: str, of: str, refresh: str) -> list[Piece]:
    if shown.failure is not None:
        return [(printable(shown.failure, 300), "alarm"), (f"{refresh} retries.", "muted")]
    if shown.made_ms is None:
        return [("loading …", "muted")]
    if shown.whole is None:
        history, out = printable(shown.history, 100) or "DIR", printable(shown.label, 100)
        return [
            ("This analysis is empty. Record some history, then run:", "muted"),
            (f"rsmq-tui pipeline run --history {history} --out {out}", ""),
        ]
    if typed:
        return [(f"Nothing matches {printable(typed, 60)}. Press esc to see all.", "muted")]
    if of:
        return [(f"{of} had no problems in this time. Press esc to go back.", "muted")]
    return [(page.empty, "muted")]


def _wrapped(words: str, width: int) -> list[str]:
    return textwrap.wrap(words, max(12, width - 4), break_on_hyphens=False)


class HistoryChoice:
    """The marked queues, the queues of the last row under the cursor, and the filters.

    Rows must match the words ``typed``; if ``only`` is set, incidents and episodes must be of that queue.
    """

    def __init__(self) -> None:
        self.marked: dict[QueueRef, None] = {}
        self.refs: tuple[QueueRef, ...] = ()
        self.only: QueueRef | None = None
        self.typed = ""
        self._before: tuple[pages.HistoryPage, dict[QueueRef, None]] | None = None

    def narrow(self, ref: QueueRef, page: pages.HistoryPage) -> None:
        """Show the incidents and episodes of one queue only, coming from that page."""
        self._before = page, self.marked
        self.only, self.marked = ref, {ref: None}

    def widen(self) -> pages.HistoryPage | None:
        """Show all queues again, with the earlier marks; return the page before ``narrow``, None if not narrowed."""
        before, self._before, self.only = self._before, None, None
        if before is None:
            return None
        page, self.marked = before
        return page

    def rows(self, page: pages.HistoryPage, lists: Lists, name: Callable[[QueueRef], str]) -> list[Any]:
        """Return the rows of a page that pass the filters; ``name`` returns the name of a queue."""
        rows = page.rows(lists)
        heads = {row.head_id for row in rows if isinstance(row, Incident) and row.ref == self.only}
        return [row for row in rows if self._holds(row, heads) and self.passes(page.ref(row), name)]

    def passes(self, ref: QueueRef | None, name: Callable[[QueueRef], str]) -> bool:
        """Return whether a queue, None for a row without one, passes the filter."""
        shown = "" if ref is None else name(ref).lower()
        return passes(self.typed, shown.__contains__)

    def _holds(self, row: Any, heads: Container[str | None]) -> bool:
        """Return whether a row is of the ``only`` queue, of its whole place, or one of the ``heads``."""
        only = self.only
        if only is None or row.ref == only:
            return True
        if isinstance(row, Incident):
            return row.id in heads or (row.worst == DOWN and row.place[:2] == only.place[:2])
        return row.ref is None and row.place == only.place

    def follow(self, page: pages.HistoryPage, row: Any, lists: Lists) -> tuple[QueueRef, ...]:
        """Return the queues to chart: the marked ones, else those of the row under the cursor, None for no row."""
        refs = tuple(self.marked)
        if not refs and row is not None:
            ref = page.ref(row)
            if ref is not None:
                refs = (ref,)
            elif isinstance(row, Episode):
                refs = tuple(facts.ref for facts in lists.queues if facts.ref.place == row.place)
            elif row.worst == DOWN:
                refs = tuple(facts.ref for facts in lists.queues if facts.ref.place[:2] == row.place[:2])
            else:
                refs = tuple(one.ref for one in lists.incidents if one.head_id == row.id and one.ref is not None)
        self.refs = refs or self.refs
        return self.refs

    def toggle(self, ref: QueueRef) -> None:
        """Mark or unmark a queue."""
        if ref in self.marked:
            del self.marked[ref]
        else:
            self.marked[ref] = None

    def toggle_all(self, refs: Sequence[QueueRef], name: Callable[[QueueRef], str]) -> None:
        """Mark exactly the queues that pass the filter; if they are marked already, unmark all."""
        refs = [ref for ref in refs if self.passes(ref, name)]
        self.marked = {} if set(refs) == set(self.marked) else dict.fromkeys(refs)

    def begin_with(self, wanted: tuple[str, str, str], shown: Loaded) -> bool:
        """Mark a queue by server, namespace and name, or one of that name elsewhere; return whether one exists."""
        server, ns, queue = wanted
        found = [facts.ref for facts in shown.lists.queues if facts.ref.queue == queue]
        here = [ref for ref in found if (ref.server, ref.ns) == (server, ns)] or found[:1]
        self.marked = dict.fromkeys(here)
        return bool(found)


# Differs from everything that the screen loads.
_NOTHING = LoadRequest(points=0)
_POINTS_MIN, _POINTS_MAX = 40, 400


class HistoryScreen(DashboardScreen):
    """Shows an analysis: charts, incidents, a heat map and the other tables.

    ``queue`` is the queue to mark first, as (server, namespace, name).
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("history", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("history")

    def __init__(self, location: AnalysisLocation, queue: tuple[str, str, str] | None = None) -> None:
        super().__init__()
        self._location = location
        self._wanted_queue = queue
        self._loader = Loader(location.analysis)
        self._shown = Loaded(_NOTHING)
        self._asked = LoadRequest(refs=())
        self._is_loading = False
        self._page = pages.PAGES[0]
        self._choice = HistoryChoice()
        self._listed: tuple[object, ...] = ()
        self._filter = WordFilter(
            "history",
            "words in a queue's name; !word excludes",
            apply=self._filter_rows,
            target=lambda: self._page_view,
        )
        self._where = TextLine(id="where")
        self._title = TextLine(id="title")
        self._tabs = TextLine(id="tabs")
        self._reason = TextLine(id="why")
        self.charts = pages.HistoryCharts()
        self._pane = pages.HistoryPane(self.charts)
        self.heat = pages.HeatView(id="heat")
        self.tables: dict[str, RowTable[Any, pages.HistoryContext]] = {
            page.id: RowTable(page.columns, pages.HistoryContext(), id=f"history-{page.id}", on_open=self._open)
            for page in pages.PAGES
            if page.columns
        }

    def compose(self) -> ComposeResult:
        """Source, range, charts and details of the row under the cursor, tabs, page, hints."""
        yield self._where
        yield self._title
        with Vertical(id="body"):
            yield self._pane
            yield self._tabs
            yield self._filter
            yield from self.tables.values()
            yield self.heat
        yield self._reason
        yield self.hints

    def on_mount(self) -> None:
        """Start loading."""
        self._turn_to(self._page)

    def on_resize(self) -> None:
        """Load lines with as many points as fit."""
        self._ask()

    def refresh_unpolled(self) -> None:
        """Look for a newer run."""
        self._ask(look=self._asked.look + 1)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Ignore polls."""

    def leads_somewhere(self, action: str) -> bool:
        """Return whether the action has an effect here; otherwise its key hint is not shown."""
        return action != "history"

    @property
    def can_change(self) -> bool:
        """Always False."""
        return False

    @property
    def span(self) -> TimeRange | None:
        """The requested range, or else the one that is shown."""
        return self._asked.span or self._shown.span

    @on(RowTable.Moved)
    def _follow_cursor(self) -> None:
        self._show_row()
        self._chart_cursor()

    def _open(self, row: Any) -> None:
        at_ms, ref = self._page.at_ms(row), self._page.ref(row)
        if at_ms is not None:
            history = self._location.history or self._shown.history
            if history:
                self.dashboard.open_replay(history, at_ms, None if ref is None else ref.queue)
                return
            words = f"cannot replay {clock(at_ms, date=True)[:16]}: name the folder of the history with --history"
            self.warn(words)
        elif ref is not None:
            self._choice.narrow(ref, self._page)
            self._turn_to(next(page for page in pages.PAGES if page.id == "incidents"))

    def _filter_rows(self) -> None:
        self._choice.typed = self._filter.value
        self._show_rows()

    def action_clear(self) -> None:
        """Go back from the incidents of one queue; clear the marks, then the filter; then leave."""
        is_typing = self._filter.has_focus
        if not is_typing and (page := self._choice.widen()) is not None:
            self._turn_to(page)
        elif self._choice.marked and not is_typing:
            self._choice.marked = {}
            self._marks_changed()
        elif not self._filter.close() and len(self.app.screen_stack) > 1:
            # If this is the only screen, only q closes it: escape must not end the program.
            self.app.pop_screen()

    def action_shift(self, step: int) -> None:
        """Shift the range by half its length."""
        if self._shown.whole is not None and self.span is not None:
            self._ask(span=shifted(self.span, step, self._shown.whole))

    def action_zoom(self, step: int) -> None:
        """Halve or double the range."""
        if self._shown.whole is not None and self.span is not None:
            self._ask(span=zoomed(self.span, step, self._shown.whole))

    def action_range(self) -> None:
        """Ask for a range."""
        if self._shown.whole is not None:
            self.app.push_screen(RangeScreen(self._shown.whole), self._take_range)

    def _take_range(self, span: TimeRange | None) -> None:
        if span is not None:
            self._ask(span=span)

    def action_mark(self) -> None:
        """Mark or unmark the queue of the row."""
        ref = None if self._row is None else self._page.ref(self._row)
        if ref is None:
            return
        self._choice.toggle(ref)
        self._marks_changed()
        if self._page.id in self.tables:
            self.tables[self._page.id].action_cursor(1)

    def action_mark_all(self) -> None:
        """Mark all queues that pass the filter; if they are marked already, unmark all."""
        self._choice.toggle_all([facts.ref for facts in self._shown.lists.queues], self._cells.name)
        self._marks_changed()

    def action_turn_page(self, step: int) -> None:
        """Show another page."""
        self._choice.widen()
        self._turn_to(pages.PAGES[(pages.PAGES.index(self._page) + step) % len(pages.PAGES)])

    def action_metric(self) -> None:
        """Chart the next metric."""
        self._ask(metric=pages.CHARTED[(pages.CHARTED.index(self._asked.metric) + 1) % len(pages.CHARTED)])

    def action_weekly(self) -> None:
        """Switch the heat map between days and weekdays."""
        self._ask(is_weekly=not self._asked.is_weekly)
        if self._page.id != pages.HEAT:
            self._turn_to(next(page for page in pages.PAGES if page.id == pages.HEAT))

    def action_scroll_pane(self, step: int) -> None:
        """Scroll the details of the row by so many of their screens."""
        self._pane.scroll_details(step)

    @property
    def _row(self) -> Any:
        table = self.tables.get(self._page.id)
        return None if table is None else table.cursor_row

    @property
    def _cells(self) -> pages.HistoryContext:
        lists = self._shown.lists
        places = {facts.ref.place for facts in lists.queues}
        return pages.HistoryContext(
            len(places) > 1,
            frozenset(self._choice.marked),
            pages.became_of(lists.episodes),
            times_of(lists.incidents, lists.episodes),
        )

    def _turn_to(self, page: pages.HistoryPage) -> None:
        self._page = page
        for name, table in self.tables.items():
            table.display = name == page.id
        self.heat.display = page.id == pages.HEAT
        self.set_focus(self._page_view)
        self._ask(is_heat=page.id == pages.HEAT)
        self._show_rows()
        self._chart_cursor()

    @property
    def _page_view(self) -> Painted:
        return self.heat if self._page.id == pages.HEAT else self.tables[self._page.id]

    def _marks_changed(self) -> None:
        self._listed = ()
        self._show_rows()
        self._chart_cursor()

    def _chart_cursor(self) -> None:
        """Chart the marked queues, or else the row under the cursor."""
        self._ask(refs=self._choice.follow(self._page, self._row, self._shown.lists))

    def _ask(self, **news: Any) -> None:
        """Request something else; earlier requests that have not started are dropped."""
        points = max(_POINTS_MIN, min(_POINTS_MAX, self.size.width))
        self._asked = replace(self._asked, points=points, **news)
        if not self._is_loading and self._asked != self._shown.wanted:
            self._is_loading = True
            self._load()
        self._show_head()

    @work(group="history")
    async def _load(self) -> None:
        try:
            while self._asked != self._shown.wanted:
                logs = self.dashboard.change_logs
                self._shown = await asyncio.to_thread(self._loader.load, self._asked, partial(last, DAY_MS), logs)
                self._show()
        finally:
            self._is_loading = False
            self._show_head()

    def _show(self) -> None:
        """Show what was loaded."""
        shown = self._shown
        self._mark_wanted()
        self._show_rows()
        self._chart_cursor()
        if shown.lines is not None and shown.span is not None and shown.wanted.refs:
            charted = {ref[1:] for ref in shown.wanted.refs}
            changes = [one for one in shown.lists.changes if not charted.isdisjoint(one.subjects)]
            self.charts.show(shown.lines, self._words_of(shown.wanted.refs), shown.span, changes)
        if self._page.id == pages.HEAT:
            heat = shown.heat if shown.wanted.is_heat or shown.failure else None
            words = self._words_of(shown.wanted.refs or ())
            self.heat.show_heat(heat, words, printable(shown.failure or self._page.empty, 300))

    def _show_rows(self) -> None:
        """Show the rows of the page, unless they are shown already."""
        page, shown = self._page, self._shown
        self._show_head()
        if page.id == pages.HEAT:
            self._show_row()
            return
        only = self._choice.only
        listed = (page.id, shown.lists, self._choice.typed, only, shown.failure, shown.made_ms, self.size.width)
        table = self.tables[page.id]
        if listed == self._listed:
            table.show(table.rows, table.keys, self._cells)
        else:
            self._listed = listed
            refresh = self.dashboard.keymap.first_key("refresh")
            table.empty_text = why_empty(shown, page, self._choice.typed, self.size.width, of=self._of, refresh=refresh)
            rows = self._choice.rows(page, shown.lists, self._cells.name)
            table.show(rows, [pages.key_of(page, row) for row in rows], self._cells)
        self._show_row()

    def _mark_wanted(self) -> None:
        """Mark the queue for which the screen was opened."""
        if self._wanted_queue is None or not self._shown.lists.queues:
            return
        wanted, self._wanted_queue = self._wanted_queue, None
        if not self._choice.begin_with(wanted, self._shown):
            words = f"the analysis does not contain queue {printable(wanted[2], 60)}"
            self.warn(words)

    def _words_of(self, refs: Sequence[QueueRef]) -> str:
        """Name or count these queues."""
        return queues_words(refs, len(self._shown.lists.queues), self._cells)

    @property
    def _of(self) -> str:
        """The name of the queue whose incidents are listed; empty if all are."""
        return "" if self._choice.only is None else self._words_of((self._choice.only,))

    def _show_head(self) -> None:
        """Show the source of the numbers, their range, and whether something is loading."""
        shown = self._shown
        self._where.show(source_pieces(shown, self._location.analysis))
        marked = self._words_of(tuple(self._choice.marked)) if self._choice.marked else ""
        width = self.size.width
        self._title.show(range_pieces(self.span, marked, width))
        notes = [f"   of {self._of}"] if self._of else []
        notes += ["   loading …"] if self._is_loading else []
        self._tabs.show(pages.tab_pieces(self._page, shown.lists if shown.whole else None, notes, width))

    def _show_row(self) -> None:
        """Show the full text of the row under the cursor, and its details."""
        page, row, refs = self._page, self._row, self._choice.refs
        self._reason.show(row_pieces(page, row, self._shown.lists))
        ref = page.ref(row) if row is not None else refs[0] if len(refs) == 1 else None
        self._pane.show(page, row, ref, self._shown.lists, self._cells)
