"""The table of a queue's messages: pages, search results, tabs and marks."""

from collections.abc import Callable, Sequence, Set
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from rsmq_tui.monitor import (
    Filter,
    MessageRow,
    Page,
    PageRequest,
    PeekError,
    QueueState,
    SearchProgress,
    Snapshot,
    Source,
    parse_filter,
)
from rsmq_tui.monitor.poller import ReadsRowsAgain
from rsmq_tui.monitor.text import count, printable
from rsmq_tui.protocol.kinds import Tab
from rsmq_tui.triage.scope import Marked, Scope
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.queue.columns import MessageContext, message_columns
from rsmq_tui.tui.queue.marks import Marks
from rsmq_tui.tui.queue.pager import OncePerPoll, Pager
from rsmq_tui.tui.queue.positions import FoundPosition, Position, PositionError, beyond_words, find, index_among
from rsmq_tui.tui.queue.search import (
    DUE,
    MATCH,
    SORTED_AT_ONCE,
    Hits,
    MessageOrder,
    SearchState,
    nothing_found,
    orders_of,
    search_pieces,
)
from rsmq_tui.tui.queue.tabs import Tabs, number_text
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.message_filter import FilterLine
from rsmq_tui.tui.widgets.row_table import RowTable

# Where the cursor goes on a page: the index of its row.
_Cursor = Callable[[Page], int]


def _top(_: Page) -> int:
    return 0


def _row_of(found: FoundPosition, page: Page) -> int:
    """Return the row of the found message; if it has moved meanwhile, the row at its former position."""
    indexes = (index for index, row in enumerate(page.rows) if found.row is not None and row.id == found.row.id)
    return next(indexes, found.offset - page.start + page.bounds(found.part)[0])


class PagedTable(RowTable[MessageRow, MessageContext]):
    """A table whose rows may be one page of many: the cursor keys move beyond them to other pages."""

    def __init__(self, messages: "MessageList", on_open: Callable[[MessageRow], None]) -> None:
        super().__init__(message_columns(), MessageContext(0, 0), id="messages", on_open=on_open)
        self._messages = messages

    def action_page(self, step: int) -> None:
        """Move by screens: to the same line of another page."""
        if not self._messages.turn(step, row=self.cursor_index):
            super().action_page(step)

    def action_top(self) -> None:
        """Move to the first message of the part."""
        super().action_top()
        self._messages.go_to_end(-1)

    def action_bottom(self) -> None:
        """Move to the last message of the part."""
        super().action_bottom()
        self._messages.go_to_end(1)


# How often the screen is updated while a search runs.
_FOLLOW_S = 0.1
# Each missing message is looked up in its own round trip.
_MISSING_MAX = 20


class MessageList(Vertical):
    """Shows a tab of a queue: pages that are read again at each poll or, with a filter, the results of a search.

    An order other than by due time is a search too, of all messages or those that match. A search is expensive: it
    is repeated only by ``search_again``, or after a failure by the next successful poll. Each tab keeps its results
    until the filter or the order changes.
    """

    class Shown(Message):
        """The rows, or their states, may have changed."""

    def __init__(
        self,
        queue: str,
        place: str,
        tabs: Sequence[Tab],
        *,
        on_open: Callable[[MessageRow], None],
        wanted: Filter | None = None,
    ) -> None:
        super().__init__()
        self._queue = queue
        self._place = place
        self.table = PagedTable(self, on_open)
        self.filter_line = FilterLine()
        self._tab_line = TextLine(id="tabs")
        self._search_line = TextLine(id="search")
        self._search_line.display = False
        # What is shown.
        self.tabs = Tabs(tabs)
        self.typed = wanted or parse_filter("")
        self.marks = Marks()
        self._order = DUE
        # The order that the user must confirm, because many messages must be read for it.
        self._order_asked: MessageOrder | None = None
        # What was read for it: by polls, the pages, and the results of searches, by the names of their tabs.
        self._snapshot: Snapshot | None = None
        self._state: QueueState | None = None
        self._pager = Pager(queue)
        self._hits: dict[str, Hits] = {}
        self._following = OncePerPoll()
        # The progress of the search for a position.
        self._finding = ""

    def compose(self) -> ComposeResult:
        """Tabs, the filter or the state of a search, messages."""
        yield self._tab_line
        yield self.filter_line
        yield self._search_line
        yield self.table

    def on_mount(self) -> None:
        """Focus the table."""
        self._ticking = self.set_interval(_FOLLOW_S, self._follow, pause=True)
        self.table.empty_text = [("  Reading …", "muted")]
        self.table.focus()
        if self.is_search:
            self._search()

    @property
    def wanted(self) -> Filter:
        """The filter of this tab, including what was typed."""
        return self.tabs.wanted(self.typed)

    @property
    def why_none(self) -> str:
        """Why there is no message under the cursor, if there is none."""
        hits, pager = self._found, self._pager
        if hits.error if hits is not None else pager.error is not None:
            return "the messages could not be read"
        is_reading = hits.is_running if hits is not None else pager.page is None
        return "the messages are still being read" if is_reading else "there is no message here"

    def confirm_order(self) -> bool:
        """Sort in the order that waits to be confirmed; return whether there was one."""
        if self._order_asked is None:
            return False
        self._rearrange(self.typed, self._order_asked)
        return True

    def stay(self, scope: Scope) -> None:
        """Keep the cursor in its place when a change moves the messages of a scope to other places."""
        ids = frozenset(message.id for message in scope.messages) if isinstance(scope, Marked) else {*self.table.keys}
        self.table.cursor.stay_when_moved(ids)

    def search_again(self) -> None:
        """Repeat the search, if there is one; until it has ended, earlier results are shown."""
        if self.is_search:
            self._search()

    def sort_next(self) -> None:
        """Sort by the next column; after the last one, by due time again."""
        self.sort((self._order_asked or self._order).next_of(orders_of(self._dashboard.server(self._place).kind)))

    def sort_reverse(self) -> None:
        """Reverse the order."""
        self.sort((self._order_asked or self._order).reversed())

    def sort(self, order: MessageOrder) -> None:
        """Sort in that order; if many messages must be read for it, only after ``confirm_order``."""
        if order.column not in orders_of(self._dashboard.server(self._place).kind):
            return
        depth = None if self._state is None else self._state.depth
        if order not in (DUE, self._order) and (depth or 0) > SORTED_AT_ONCE:
            self._order_asked = order
            self.show()
        else:
            self._rearrange(self.typed, order)

    def end_sort(self) -> bool:
        """Sort by due time again; return whether another order was set, or was to be confirmed."""
        was_other = self._order != DUE or self._order_asked is not None
        if was_other:
            self._rearrange(self.typed, DUE)
        return was_other

    def end_search(self) -> bool:
        """Stop searching, keep the results, and return whether a search was stopped.

        A repeated search that has not received a reply since a failure counts as failed.
        """
        if self._finding:
            self.workers.cancel_group(self, "find")
            return True
        hits = self._found
        if hits is None or not hits.is_running:
            return False
        self.workers.cancel_group(self, "search")
        hits.end(SearchState.STOPPED)
        self.show()
        return hits.state is SearchState.STOPPED

    def show_snapshot(self, snapshot: Snapshot, state: QueueState | None) -> None:
        """Update the ages, and read the page again."""
        before = self._snapshot
        is_elsewhere = before is not None and snapshot.ns != before.ns
        self._snapshot, self._state = snapshot, state
        if self._dashboard.replay is not None and before is not None and snapshot.at_ms < before.at_ms:
            self._forget_later(snapshot.at_ms)
        if is_elsewhere:
            # A queue of the same name in another namespace is another queue.
            self.marks.clear()
            self.tabs.counted.clear()
            self.apply(self.typed)
        self.show()
        if not self.is_search and self._pager.is_due(snapshot.at_ms):
            self._read(self._pager.request)
        self._search_after_failure(snapshot)
        self._follow_found()

    def show_unleased(self, number: int | None) -> None:
        """Show how many items of a list have no lease."""
        self.tabs.unleased = number
        self._show_head()

    def show(self) -> None:
        """Show the rows, with their marks, and the tabs."""
        hits = self._found
        self.table.set_class(self._pager.is_stale if hits is None else hits.is_stale, "-stale")
        if hits is not None:
            self._show_hits(hits)
        else:
            self._show_page()
        self._show_head()

    def choose_tab(self, step: int) -> None:
        """Show the next tab or the one before."""
        self.end_search()
        self.tabs.turn(step)
        self._begin()

    def apply(self, typed: Filter) -> None:
        """Apply a filter; an empty one shows all, with the cursor on the message chosen among the results.

        If the cursor was not moved there, the page and the cursor are those from before the filter.
        """
        self._rearrange(typed, self._order)

    def _rearrange(self, typed: Filter, order: MessageOrder) -> None:
        """Show the matches in an order."""
        self.end_search()
        back, was_paged = None, self._is_paged
        self.typed, self._order, self._order_asked = typed, order, None
        if was_paged:
            self.table.cursor.hold()
        elif self._is_paged:
            back = self._way_back()
        self.table.sorted_by = None if order == DUE else (order.column, order.downwards)
        self._hits.clear()
        self._begin(back)

    def turn(self, step: int, row: int | None = None) -> bool:
        """Show the next page or the one before, and return whether there is one; an open range continues there.

        The cursor goes to that ``row``, by default to the one beside the row that it leaves. While a page is on its
        way, the target is further away, so that no press of a key is lost.
        """
        request = None if self.is_search else self._pager.turned(step)
        if request is None:
            return False
        if self.marks.has_range and self._pager.is_turning:
            # All rows in between are marked: they are read page by page.
            self._pager.turns_left += step
            return True
        edge = len(self.table.keys) - 1 if step > 0 else 0
        if self.marks.has_range:
            self.marks.mark(self.marks.ranged(self.table.rows, self.table.keys, edge))
        target = (0 if step > 0 else self.table.visible_rows - 1) if row is None else row
        self._read(request, lambda _: target)
        return True

    def go_to_end(self, step: int) -> None:
        """Show the first page (-1) or the last one (1), unless a range is open, which has no gaps."""
        page, part = self._pager.page, self.tabs.chosen.part
        if self.is_search or part is None or page is None or self.marks.has_range:
            return
        if self._pager.is_turning or not (page.is_last if step > 0 else page.is_first):
            where = replace(self._pager.of_part(part), where="last") if step > 0 else self._pager.of_part(part)
            self._read(where, (lambda page: len(page.rows) - 1) if step > 0 else _top)

    def go_to(self, position: Position) -> None:
        """Move to a position in the part, or among the results that are listed."""
        if not self.is_search:
            self._go_to(position)
            return
        try:
            self.table.place_cursor(index_among(self.table.rows, position))
        except PositionError as error:
            self._warn(str(error))
        if words := beyond_words(position, len(self.table.rows)):
            self.notify(words, markup=False)
        self._show_head()

    @work(group="find", exclusive=True)
    async def _go_to(self, position: Position) -> None:
        part = self.tabs.chosen.part or "all"
        try:
            found = await find(self._source, self._queue, part, position, self._show_finding)
        except (PeekError, PositionError) as error:
            self._warn(str(error))
            return
        finally:
            self._finding = ""
            self._show_head()
        if found.part != part:
            self.tabs.choose_part(found.part)
        self.marks.end_range()
        request = self._pager.numbered(found.part, found.offset, self.table.visible_rows)
        self._read(request, partial(_row_of, found))
        if found.words:
            self.notify(found.words, markup=False)

    def _show_finding(self, progress: SearchProgress) -> None:
        self._finding = f" searching for the id · {count(progress.scanned)} of {count(progress.depth)} read · esc stops"
        self._show_head()

    def _warn(self, words: str) -> None:
        self.notify(printable(words, 300), severity="warning", markup=False)

    @on(RowTable.Overrun)
    def _turn_on(self, event: RowTable.Overrun) -> None:
        self.turn(event.step)

    @on(RowTable.HeadClicked)
    def _sort_by_click(self, event: RowTable.HeadClicked) -> None:
        self.sort((self._order_asked or self._order).clicked(event.column))

    @on(RowTable.Moved)
    def _stretch_range(self) -> None:
        if self.marks.has_range:
            self.show()
        else:
            self._show_head()

    @on(RowTable.Resized)
    def _fill(self) -> None:
        if self.table.visible_rows != self._pager.request.count and not self.is_search:
            self._read(self._pager.request)
        else:
            self._show_head()

    def _way_back(self) -> tuple[PageRequest, _Cursor | None] | None:
        """Return which page to show without the search, and where the cursor is on it if that must change."""
        request, row = self._pager.request, self.table.cursor_row
        if request.part != self.tabs.chosen.part:
            return None
        known = () if self._pager.page is None else self._pager.page.rows
        if row is None or self.table.cursor.is_held or any(row.id == each.id for each in known):
            return request, None
        return replace(request, where="at", anchor=row.anchor, offset=0), _top

    def _begin(self, back: tuple[PageRequest, _Cursor | None] | None = None) -> None:
        """Load another tab or filter, or go ``back``; individual marks stay, a mark on everything is removed."""
        # A position that is searched for belongs to the tab that was shown.
        self.workers.cancel_group(self, "find")
        self.marks.end_range()
        if self.marks.is_all:
            self.marks.clear()
        if self.is_search:
            hits = self._found
            # What an earlier visit of the tab found is no longer true. A search that was stopped took too long.
            if hits is None or (hits.state is SearchState.DONE and not hits.is_of_now(self._now_ms(hits.at_ms))):
                self._search()
        elif self.tabs.chosen.part is not None:
            self._read(*(back or (self._pager.of_part(self.tabs.chosen.part), _top)))
        self.show()
        if back is not None:
            self.table.restore_cursor()

    def _forget_later(self, at_ms: int) -> None:
        """In a replay, forget everything that was read for a later moment."""
        page, part = self._pager.page, self.tabs.chosen.part
        self._hits = {tab: hits for tab, hits in self._hits.items() if not hits.is_running and hits.at_ms <= at_ms}
        self.tabs.counted.clear()
        if self.is_search and self._found is None:
            self._search()
        elif not self.is_search and part is not None and page is not None and page.at_ms > at_ms:
            self._pager = Pager(self._queue)
            self._read(self._pager.of_part(part))

    def _read(self, request: PageRequest, cursor: _Cursor | None = None) -> None:
        """Request a page, and place the cursor when it arrives; the worker of an older request is cancelled."""
        self._fetch(self._pager.ask(request, self.table.visible_rows, self._polled_ms), cursor)

    @work(group="peek", exclusive=True)
    async def _fetch(self, request: PageRequest, cursor: _Cursor | None) -> None:
        try:
            page = await self._source.peek(request)
        except PeekError as error:
            if self._pager.fail(request, str(error)):
                if self._pager.page is not None and not self.is_search:
                    # The page is still that of another tab.
                    self.tabs.choose_part(self._pager.request.part)
                self.show()
            return
        before = () if self._pager.page is None else self._pager.page.rows
        if not self._pager.accept(request, page):
            return
        self.marks.follow(before, page.rows)
        self.show()
        if cursor is not None and not self.is_search:
            self.table.place_cursor(cursor(page))
            if self.marks.has_range and self.table.cursor_key is not None:
                self.marks.start_range(self.table.cursor_key, self.table.cursor_index)
            self.show()
        if not self.marks.has_range:
            self._pager.turns_left = 0
        if step := self._pager.next_turn():
            self.turn(step)
        if missing := self.marks.missing(page)[:_MISSING_MAX]:
            self._look_for(missing)

    def _show_hits(self, hits: Hits) -> None:
        hits.arrange()
        nothing = nothing_found(hits, self._dashboard.keymap.first_key("refresh")) or self.tabs.nothing(self.typed)
        words = printable(hits.error, 200) or ("Searching …" if hits.is_running else nothing)
        self.table.empty_text = [(f"  {words}", "alarm" if hits.error else "muted")]
        listed = hits.listed
        self._show_rows(listed.rows, listed.keys, hits.at_ms, listed.gone, listed.unknown)

    def _follow_found(self) -> None:
        """Read the visible results again, unless a read is under way."""
        hits = self._found
        gone: Set[str] = frozenset() if hits is None else hits.listed.gone
        # For a list item that is gone, another one with the same bytes would be found.
        rows = [row for row in self.table.rows_in_sight if not (row.is_item and row.id in gone)]
        source = self._source
        can_read = rows and isinstance(source, ReadsRowsAgain)
        if hits is not None and can_read and self._following.begin(self._now_ms(0)):
            self._read_found(source, hits.listed, rows)

    @work(group="found", exclusive=True)
    async def _read_found(self, source: ReadsRowsAgain, hits: Hits, rows: Sequence[MessageRow]) -> None:
        try:
            again = await source.rows_again(self._queue, rows)
        except PeekError:
            # The status line shows the error, and the next poll tries again.
            return
        finally:
            self._following.end()
        before = hits.rows
        hits.update_rows(again)
        self.marks.follow(before, hits.rows)
        for id, row in again.rows.items():
            if row is None:
                self.marks.lose(id)
        self.show()

    def _show_page(self) -> None:
        page, error = self._pager.page, self._pager.error
        if page is not None:
            self.table.empty_text = [(f"  {self.tabs.nothing(self.typed)}", "muted")]
            self._show_rows(page.rows, [row.id for row in page.rows], page.at_ms)
        elif error is not None:
            self.table.empty_text = [(f"  {printable(error, 200)}", "alarm")]
            self.table.show((), (), self.table.context)

    def _show_rows(
        self,
        rows: Sequence[MessageRow],
        keys: Sequence[str],
        at_ms: int,
        gone: Set[str] = frozenset(),
        unknown: Set[str] = frozenset(),
    ) -> None:
        dashboard, marks = self._dashboard, self.marks
        context = MessageContext(
            self._now_ms(at_ms),
            self._source.thresholds.poison_rc,
            dashboard.clock_times,
            marks.ids,
            all_marked=marks.is_all,
            gone=gone,
            unknown=unknown,
        )
        self.table.columns = message_columns(clock_times=dashboard.clock_times)
        self.table.show(rows, keys, context)
        if marks.has_range:
            # The range ends at the cursor's index among these rows.
            ranged = frozenset(row.id for row in marks.ranged(rows, keys, self.table.cursor_index))
            self.table.show(rows, keys, context._replace(ranged=ranged))
        self.post_message(self.Shown())

    def _show_head(self) -> None:
        """Show the tabs with their numbers, and below them the progress of a search."""
        hits = self._found
        if hits is None:
            self._show_head_of_page()
        else:
            self._show_head_of_search(hits)

    def _show_head_of_page(self) -> None:
        marked = self.marks.words(self.wanted, self.tabs.number_in_part(self._page or self._state), is_final=True)
        position, stale = self._pager.position(self.table.cursor_index), self._pager.staleness(self._now_ms(0))
        pieces = self.tabs.pieces(self._numbers, self.size.width, marked=marked, position=position, stale=stale)
        self._tab_line.show(pieces)
        words = self._finding or self._order_words
        self._search_line.display = bool(words) and not self.filter_line.is_open
        self._search_line.show([(words, "strong")])

    def _show_head_of_search(self, hits: Hits) -> None:
        numbers, noun, width, tab = self._numbers, MATCH, self.size.width, self.tabs.chosen
        now_ms, is_done = self._now_ms(hits.at_ms), hits.state is SearchState.DONE
        if self.typed.is_empty:
            noun = tab.name if tab.term else "messages"
            if not hits.error and tab.term:
                found = hits.matched if is_done else None
                numbers[noun] = number_text(found, is_sure=self._is_sure and hits.is_of_now(now_ms))
        marked = self.marks.words(self.wanted, None if hits.error else hits.matched, is_final=is_done)
        self._tab_line.show(self.tabs.pieces(numbers, width, marked=marked))
        self._search_line.display = not self.filter_line.is_open
        if self._order_asked is not None:
            self._search_line.show([(self._order_words, "strong")])
            return
        position = self.table.cursor_index + 1 if self.table.rows else 0
        text, refresh = self.typed.text, self._dashboard.keymap.first_key("refresh")
        pieces = search_pieces(hits, text, width, noun=noun, position=position, now_ms=now_ms, refresh=refresh)
        self._search_line.show(pieces)

    @property
    def _page(self) -> Page | None:
        """The page that is shown, None during a search."""
        return self._pager.page if self._found is None else None

    @property
    def _is_sure(self) -> bool:
        """Whether the last poll succeeded, so that its numbers are those of now."""
        return self._snapshot is not None and self._snapshot.connection.failure is None

    @property
    def _numbers(self) -> dict[str, str]:
        """The numbers of messages in the tabs, as text."""
        poison_rc = self._source.thresholds.poison_rc
        return self.tabs.numbers(self._state, self._page, self._now_ms(0), poison_rc, is_sure=self._is_sure)

    @property
    def _order_words(self) -> str:
        """The question whether to read many messages for an order; empty if there is none."""
        asked, depth = self._order_asked, None if self._state is None else self._state.depth
        if asked is None:
            return ""
        # It fits into 80 columns with millions of messages.
        read, turn = (self._dashboard.keymap.first_key(name) for name in ("refresh", "sort"))
        return f" {read} reads {count(depth)} messages, {asked.words} · {turn} next order · esc cancels"

    @property
    def _polled_ms(self) -> int | None:
        """The time of the last poll."""
        return None if self._snapshot is None else self._snapshot.at_ms

    def _now_ms(self, at_ms: int) -> int:
        return max(at_ms, self._polled_ms or 0)

    @property
    def _dashboard(self) -> Dashboard:
        return dashboard_of(self.app)

    @property
    def _source(self) -> Source:
        return self._dashboard.server(self._place).source

    @property
    def is_search(self) -> bool:
        """Whether the results of a search are shown, and not pages."""
        return self.tabs.chosen.part is None or not self._is_paged

    @property
    def _is_paged(self) -> bool:
        """Whether tabs with a part show pages of it."""
        return self.typed.is_empty and self._order == DUE

    @property
    def _found(self) -> Hits | None:
        return self._hits.get(self.tabs.chosen.name) if self.is_search else None

    def _search_after_failure(self, snapshot: Snapshot) -> None:
        """Repeat a failed search after a newer poll has succeeded."""
        hits = self._found
        if hits is None or hits.state is not SearchState.FAILED or snapshot.connection.failure is not None:
            return
        if snapshot.at_ms != hits.asked_for_ms:
            self._search()

    def _search(self) -> None:
        self._ticking.resume()
        before = self._hits.get(self.tabs.chosen.name)
        hits = self._hits[self.tabs.chosen.name] = Hits(self.wanted, before, self._order)
        if before is not None:
            before.end(SearchState.STOPPED)
        hits.asked_for_ms = self._polled_ms
        self._find(hits)
        self.show()

    @work(group="search", exclusive=True)
    async def _find(self, hits: Hits) -> None:
        before = hits.before
        try:
            async with aclosing(self._source.search(self._queue, hits.wanted)) as found:
                async for progress in found:
                    if not hits.is_running:
                        return
                    hits.add(progress)
        except PeekError as error:
            hits.end(SearchState.FAILED, str(error))
            hits.asked_for_ms = self._polled_ms
        hits.end(SearchState.DONE)
        if hits.state is SearchState.DONE:
            self._take_found(hits, before)
        self.show()

    def _take_found(self, hits: Hits, before: Hits | None) -> None:
        hits.arrange()
        if self.typed.is_empty:
            self.tabs.counted[self.tabs.chosen.name] = hits.matched
        if before is not None:
            self.marks.follow(before.rows, hits.rows)
        if before is not None and hits.matched == len(hits.rows):
            gone = self.marks.ids & set(before.keys) - set(hits.keys)
            self._look_for([*gone][:_MISSING_MAX])

    def _follow(self) -> None:
        self.show()
        hits = self._found
        if hits is None or not hits.is_running:
            self._ticking.pause()

    @work(group="missing", exclusive=True)
    async def _look_for(self, ids: list[str]) -> None:
        """Look up these ids, and unmark those that have left the queue."""
        for id in ids:
            try:
                view = await self._source.read(self._queue, id)
            except PeekError:
                return
            if view.row is None:
                self.marks.lose(id)
            else:
                self.marks.keep(id)
        self.show()
