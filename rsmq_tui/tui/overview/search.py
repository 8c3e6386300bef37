"""The search over queues: one filter for all queues of the servers, or for those that match a pattern."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from operator import itemgetter
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual import on, work
from textual.binding import BindingType
from textual.containers import Vertical

from rsmq_tui.monitor import Filter, MessageRow, PeekError, QueueState, Snapshot, parse_filter
from rsmq_tui.monitor.text import count, duration, matches, plural, printable
from rsmq_tui.protocol.kinds import names_queue
from rsmq_tui.triage.scope import Marked, Matching, Scope
from rsmq_tui.tui.changes.controller import Aim, Aims, ChangeStatus
from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.keys import Key, Usable, Where, bindings_of
from rsmq_tui.tui.queue.columns import MESSAGE_COLUMNS, MessageContext, message_columns
from rsmq_tui.tui.queue.marks import Marks, shown
from rsmq_tui.tui.queue.message import MessagePane
from rsmq_tui.tui.queue.search import DUE, Hits, MessageOrder, SearchState, orders_of
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import WatchedServer, are_of_one_server
from rsmq_tui.tui.widgets.controls import copy_text
from rsmq_tui.tui.widgets.lines import TextLine, cells_of, fitting
from rsmq_tui.tui.widgets.message_filter import FilterLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column, RowTable

# The order by queue: grouped, below a line for each queue. In other orders, the messages of all queues are one list.
BY_QUEUE = MessageOrder("queue")
# The maximum of matches that are listed in all, and for each queue if they are grouped; others are only counted.
LISTED_MAX = 5_000
OF_QUEUE_MAX = 100
_SHOWN_EVERY_S = 0.1
# How many characters of the filter, and of the pattern of queues, the first line shows.
_ASKED_MIN, _ASKED_MAX = 15, 60
# How many queues are searched at the same time: a search of a short queue mostly waits for the network.
_AT_ONCE = 4
# Actions that mean the same for both kinds of queues.
_FOR_ALL_KINDS = ("delete",)


# A queue of a server.
Queue = tuple[WatchedServer, str]


class QueueMatches:
    """The matches in one queue, and which of them are marked."""

    def __init__(
        self, server: WatchedServer, queue: str, wanted: Filter, marks: Marks, order: MessageOrder | None
    ) -> None:
        self.server, self.queue = server, queue
        self.hits = Hits(wanted, order=order or DUE, rows_max=OF_QUEUE_MAX if order is None else LISTED_MAX)
        self.marks = marks
        # How many of its messages are in the common list.
        self.listed = 0

    @property
    def key(self) -> str:
        """Its unique key."""
        return _key(self.server, self.queue)

    @property
    def words(self) -> str:
        """How many messages were not searched, how many match, of how many, and how many of them are listed."""
        hits = self.hits
        listed = f", first {count(len(hits.rows))} listed" if hits.matched > len(hits.rows) else ""
        # First, so that a narrow column shows it, because it is shown nowhere else.
        unsearched = f"{count(hits.not_searched)} too long to search, " if hits.not_searched else ""
        return f"{unsearched}{count(hits.matched)} of {count(hits.depth)}{listed}"

    @property
    def is_listed(self) -> bool:
        """Whether its row is shown: it has matches, or it was not searched completely."""
        return bool(self.hits.matched or self.hits.not_searched or self.hits.error)

    def scope(self) -> Scope | None:
        """The marked messages, or all that match; None if nothing is marked."""
        return self.all if self.marks.is_all else self.marks.scope(self.hits.wanted, None)

    @property
    def all(self) -> Scope:
        """The scope of all messages that match, except those received after the preview."""
        return Matching(self.hits.wanted, if_unchanged=True)


def _key(server: WatchedServer, queue: str) -> str:
    return f"{server.place}\0{queue}"


class SearchRow(NamedTuple):
    """A row of the table: a message, or without one the queue above its messages."""

    found: QueueMatches
    row: MessageRow | None

    @property
    def key(self) -> str:
        """Its unique key."""
        return f"{self.found.key}\0{'' if self.row is None else self.row.id}"


class QueuesSearch:
    """The search for one filter in the queues that a pattern matches: what was found, and how far it is.

    ``state`` is None until it starts. ``done`` of the ``queues`` were searched; ``read`` messages were read for that.
    ``listed`` matches are kept, of all queues. ``has_news`` is set whenever what was found may have changed.
    """

    def __init__(self, text: str = "", pattern: str = "*", order: MessageOrder = BY_QUEUE) -> None:
        self.text, self.pattern = text, pattern
        self.order = order
        self.state: SearchState | None = None
        self.found: dict[str, QueueMatches] = {}
        self.queues = self.done = self.read = self.listed = 0
        self.has_news = False

    def again(self) -> "QueuesSearch":
        """Return a search for the same, which has not started."""
        return QueuesSearch(self.text, self.pattern, self.order)

    @property
    def marked(self) -> list[QueueMatches]:
        """The queues with marked messages."""
        return [found for found in self.found.values() if found.scope() is not None]

    @property
    def matched(self) -> list[QueueMatches]:
        """The queues with matches."""
        return [found for found in self.found.values() if found.hits.matched]

    @property
    def is_grouped(self) -> bool:
        """Whether the messages are shown by queue, and not as one list."""
        return self.order.column == BY_QUEUE.column

    async def run(self, queues: Iterable[Queue], marks: Mapping[str, Marks], ends: SearchState) -> None:
        """Search some queues, a few at a time, and put what is found in place of what was found in them before.

        ``marks`` are those of the queues. The state is then ``ends``, or STOPPED if this is cancelled.
        """
        state, left = SearchState.STOPPED, iter(queues)

        async def search_some() -> None:
            for server, queue in left:
                await self._search_one(server, queue, marks.get(_key(server, queue)) or Marks())
                # Queues that are searched again after a change were counted before.
                self.done = min(self.done + 1, self.queues)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_AT_ONCE):
                    tasks.create_task(search_some())
            state = ends
        finally:
            self.state, self.has_news = state, True

    async def _search_one(self, server: WatchedServer, queue: str, marks: Marks) -> None:
        wanted = parse_filter(self.text, server.source.thresholds.poison_rc)
        found = QueueMatches(server, queue, wanted, marks, None if self.is_grouped else self.order)
        hits = found.hits
        try:
            async with aclosing(server.source.search(queue, wanted)) as parts:
                read, is_counted = 0, self.done < self.queues
                async for progress in parts:
                    others = self.listed - self.found.get(found.key, found).listed
                    is_full = self.is_grouped and others >= LISTED_MAX
                    hits.add(replace(progress, messages=()) if is_full else progress)
                    self.read += (progress.scanned - read) * is_counted
                    read = progress.scanned
                    self._put(found)
            hits.end(SearchState.DONE)
        except PeekError as error:
            hits.end(SearchState.FAILED, str(error))
        self._put(found)

    def _put(self, found: QueueMatches) -> None:
        """List the matches in a queue, in place of earlier ones."""
        before = self.found.pop(found.key, found)
        self.listed += found.hits.number_kept - before.listed
        found.listed = found.hits.number_kept
        if found.is_listed:
            self.found[found.key] = found
        if not self.is_grouped and self.listed > 2 * LISTED_MAX:
            kept = Counter(row.found.key for row in self._sorted())
            for each in self.found.values():
                each.hits.keep_first(kept[each.key])
                each.listed = each.hits.number_kept
            self.listed = kept.total()
        self.has_news = True

    def rows(self) -> Iterator[SearchRow]:
        """Yield the rows of the table: the messages by queue, or sorted, and the queues that have a row then."""
        if not self.is_grouped:
            yield from self._sorted()
        for _, found in sorted(self.found.items(), reverse=self.order.reverse):
            hits = found.hits
            hits.arrange()
            if self.is_grouped or hits.not_searched or hits.error:
                yield SearchRow(found, None)
            if self.is_grouped:
                yield from (SearchRow(found, row) for row in sorted(hits.rows, key=DUE.sort_key))

    def _sorted(self) -> Sequence[SearchRow]:
        """Return the first messages of all queues in the order."""
        rows = []
        for found in self.found.values():
            found.hits.arrange()
            rows += [(self.order.sort_key(row), found.key, SearchRow(found, row)) for row in found.hits.rows]
        return [row for *_, row in sorted(rows, key=itemgetter(0, 1))[:LISTED_MAX]]


class _Context:
    """What the cells show besides their line."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    @property
    def names_servers(self) -> bool:
        """Whether queues of several servers are shown."""
        return not are_of_one_server(self._dashboard.servers)

    def of(self, found: QueueMatches) -> MessageContext:
        """Return what the cells of a queue's messages show."""
        dashboard, server = self._dashboard, found.server
        part = dashboard.part(server.place)
        return MessageContext(
            max(found.hits.at_ms, 0 if part is None else part.at_ms),
            server.source.thresholds.poison_rc,
            dashboard.clock_times,
            found.marks.ids,
            all_marked=found.marks.is_all,
        )


def _of_message(column: Column[MessageRow, MessageContext]) -> Column[SearchRow, _Context]:
    """Return a column of messages for lines, whose cells are empty for a queue."""

    def cell(line: SearchRow, context: _Context) -> Piece | list[Piece]:
        return ("", "") if line.row is None else column.cell(line.row, context.of(line.found))

    return Column(column.id, column.title, column.width, cell, column.drop, column.right, column.grow)


def _mark(line: SearchRow, context: _Context) -> Piece | list[Piece]:
    if line.row is None:
        return ("●", "strong") if line.found.marks.is_all else ("", "")
    return MESSAGE_COLUMNS[0].cell(line.row, context.of(line.found))


def _queue(line: SearchRow, context: _Context) -> Piece:
    server = line.found.server
    title = f"{server.name or server.place} " if context.names_servers else ""
    return f"{title}{line.found.queue}", "strong" if line.row is None else "muted"


def _body(line: SearchRow, context: _Context) -> Piece | list[Piece]:
    hits = line.found.hits
    if line.row is not None:
        return MESSAGE_COLUMNS[-1].cell(line.row, context.of(line.found))
    return (f"✗ {hits.error}", "alarm") if hits.error else (line.found.words, "strong")


def _columns(*, clock_times: bool = False) -> tuple[Column[SearchRow, _Context], ...]:
    return (
        Column("mark", "", 1, _mark),
        Column("queue", "QUEUE", 12, _queue, grow=True, width_max=32),
        *(_of_message(column) for column in message_columns(clock_times=clock_times)[1:-1]),
        Column("body", "BODY", 12, _body, grow=True),
    )


class SearchScreen(DashboardScreen):
    """Shows the messages that match a filter in many queues, by queue or sorted; its keys change the marked messages.

    A few queues are searched at a time; those that were empty in the last poll are skipped. The results are not
    updated; after a change, its queues are searched again, and ``refresh_unpolled`` searches all. So does another
    order, unless all matches are listed.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("search", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("search")

    def __init__(self) -> None:
        super().__init__()
        self._cells = _Context(self.dashboard)
        self.table = RowTable(_columns(), self._cells, id="found", on_open=self._open)
        self.filter_line = FilterLine(names_queues=True)
        self._title = TextLine(id="title")
        self._pane = MessagePane()
        self.parts = (self._title, self.filter_line, Vertical(self.table, self._pane))
        self._search = QueuesSearch()
        self._namespaces: Mapping[str, str] = {}
        # The queues that were changed since they were searched.
        self._outdated: dict[str, Queue] = {}

    def on_mount(self) -> None:
        """Open the filter."""
        self._ticking = self.set_interval(_SHOWN_EVERY_S, self._tick, pause=True)
        self.action_filter()
        self._show()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Update the ages; in another namespace, search again."""
        if self._search.state is not None and self._namespaces_of(snapshot) != self._namespaces:
            # A queue of the same name there is another queue, whose messages are not marked.
            self._begin(self._search.again(), {})
        self._show()

    def refresh_unpolled(self) -> None:
        """Search all queues again."""
        if self._search.state is not None:
            self._begin(self._search.again(), {key: found.marks for key, found in self._search.found.items()})

    def _begin(self, search: QueuesSearch, marks: Mapping[str, Marks]) -> None:
        """Start another search; until it finds something, the table stays."""
        search.has_news = self._search.has_news
        self._search, self._outdated = search, {}
        queues = [(self.dashboard.server(queue.place), queue.name) for queue in self._wanted_queues()]
        search.queues = len(queues)
        self._start(queues, marks, ends=SearchState.DONE)

    def _start(self, queues: Sequence[Queue], marks: Mapping[str, Marks], ends: SearchState) -> None:
        """Search these queues."""
        self._namespaces = {} if self.snapshot is None else self._namespaces_of(self.snapshot)
        self._search.state = SearchState.RUNNING
        self._ticking.resume()
        self._run(self._search, queues, marks, ends)
        self._show()

    @work(group="search", exclusive=True)
    async def _run(
        self, search: QueuesSearch, queues: Sequence[Queue], marks: Mapping[str, Marks], ends: SearchState
    ) -> None:
        await search.run(queues, marks, ends)

    def _namespaces_of(self, snapshot: Snapshot) -> Mapping[str, str]:
        return {server.place: snapshot.part(server.place).ns for server in self.dashboard.servers}

    @on(FilterLine.Applied)
    def _apply(self, event: FilterLine.Applied) -> None:
        event.stop()
        self._close_filter()
        self._begin(QueuesSearch(event.wanted.text, event.pattern, self._search.order), {})

    def action_filter(self) -> None:
        """Open the filter."""
        pattern = "" if self._search.pattern == "*" else f"queue:{self._search.pattern} "
        self.filter_line.open(f"{pattern}{self._search.text}")

    def action_clear(self) -> None:
        """Clear the first of these: typed text, running search, marks, order; if there is none, go back."""
        search = self._search
        if self.filter_line.is_open and search.state is not None:
            self._close_filter()
        elif search.state is SearchState.RUNNING and not self.filter_line.is_open:
            self.workers.cancel_group(self, "search")
        elif marked := search.marked:
            for found in marked:
                found.marks.clear()
            self._show()
        elif search.order != BY_QUEUE:
            self._sort(BY_QUEUE)
        else:
            self.app.pop_screen()

    def action_sort_next(self) -> None:
        """Sort by the next column; after the last one, by queue again."""
        self._sort(self._search.order.next_of(self._sortable))

    def action_sort_reverse(self) -> None:
        """Reverse the order."""
        self._sort(self._search.order.reversed())

    @on(RowTable.HeadClicked)
    def _sort_by_click(self, event: RowTable.HeadClicked) -> None:
        if event.column in self._sortable:
            self._sort(self._search.order.clicked(event.column))

    @property
    def _sortable(self) -> Sequence[str]:
        return BY_QUEUE.column, *orders_of(*(server.kind for server in self.dashboard.servers))

    def _sort(self, order: MessageOrder) -> None:
        """Show the matches in an order; search again if some are not listed."""
        search = self._search
        search.order, search.has_news = order, True
        self.table.sorted_by = None if order == BY_QUEUE else (order.column, order.downwards)
        found = search.found.values()
        if search.state is SearchState.RUNNING or any(each.hits.matched > each.hits.number_kept for each in found):
            self.refresh_unpolled()
        else:
            self._show()

    def action_mark(self) -> None:
        """Mark or unmark the message under the cursor, or all that match in the queue under it."""
        line = self.table.cursor_row
        if line is None:
            return
        marks = line.found.marks
        if marks.is_all:
            marks.clear()
        elif line.row is not None:
            marks.toggle(line.row)
        else:
            marks.mark_all()
        self._show()
        self.table.action_cursor(1)

    def action_mark_all(self) -> None:
        """Mark all that match in all queues; or unmark them."""
        if self._search.state is SearchState.RUNNING:
            self.warn("the search is still running: wait until it ends, or press esc to stop it")
            return
        matched = self._search.matched
        is_marked = all(found.marks.is_all for found in matched)
        for found in matched:
            if is_marked:
                found.marks.clear()
            else:
                found.marks.mark_all()
        self._show()

    def action_change(self, name: str) -> None:
        """Start a change of the marked messages, one for each queue."""
        aims = self._aims()
        kinds = {aim.server.kind.name: aim.server.kind for aim in aims}
        if not aims:
            is_over = self._search.state is not SearchState.RUNNING
            self.warn("there is no message here" if is_over else "nothing was found yet: the search is still running")
        elif len(kinds) > 1 and name not in _FOR_ALL_KINDS:
            prefixes = " or ".join(f"queue:{kind.prefix}*" for kind in kinds.values())
            self.warn(f"the marked messages are in queues of several kinds: search {prefixes}")
        elif any(name not in kind.actions for kind in kinds.values()):
            self.warn("queues of this kind do not have this action")
        else:
            self.dashboard.changes.ask_several(aims, name)

    def action_export(self) -> None:
        """Export the marked messages, or else all matches, to one file."""
        if aims := self._marked or tuple(Aim(each.server, each.queue, each.all) for each in self._search.matched):
            self.dashboard.changes.export_several(aims)

    def action_undo(self) -> None:
        """Preview the undo of the last change that was started on a search screen, in all of its queues."""
        if not self.dashboard.changes.undo_several():
            self.warn("nothing was changed from a search; the screen of a queue undoes its changes")

    def action_copy_id(self) -> None:
        """Copy the id of the message under the cursor."""
        line = self.table.cursor_row
        if line is not None and line.row is not None:
            copy_text(self.app, line.row.id, "the id")

    def hint_of(self, key: Key) -> str:
        """Return the words of a key in the bottom line."""
        return self.dashboard.changes.undo_several_words if key.action == "undo" else super().hint_of(key)

    @property
    def chosen_place(self) -> str | None:
        """The server of the queue under the cursor."""
        line = self.table.cursor_row
        return super().chosen_place if line is None else line.found.server.place

    @property
    def usable(self) -> Usable:
        """The available keys; those for one kind of queue depend on the row under the cursor."""
        line, usable = self.table.cursor_row, super().usable
        return usable if line is None else replace(usable, kinds=frozenset({line.found.server.kind.name}))

    def _follow_change(self, status: ChangeStatus) -> None:
        # The marked messages there were changed, and the results may be outdated.
        search = self._search
        again = [aim for aim in status.aims if names_queue(search.pattern, aim.server.kind, aim.queue)]
        for aim in again if search.state is not None else ():
            if (found := search.found.get(_key(aim.server, aim.queue))) is not None:
                found.marks.clear()
            self._outdated[_key(aim.server, aim.queue)] = aim.server, aim.queue
        self._search_outdated()

    def _search_outdated(self) -> None:
        """Search changed queues again, once no search is running; a stopped search stays stopped."""
        state = self._search.state
        if self._outdated and state not in (None, SearchState.RUNNING):
            queues, self._outdated = list(self._outdated.values()), {}
            self._start(queues, {}, ends=state)

    @on(RowTable.Moved)
    def _follow_cursor(self) -> None:
        self._show_title()
        self._show_pane()
        self.hints.repaint()

    def _show_pane(self) -> None:
        """Show the message under the cursor; on the line of a queue, its first one."""
        line = self.table.cursor_row
        if line is None:
            self._pane.follow(None, 0, "", "")
            return
        found = line.found
        row = line.row or next(iter(found.hits.rows), None)
        self._pane.follow(row, self._cells.of(found).at_ms, found.queue, found.server.place)

    def _open(self, line: SearchRow) -> None:
        server, queue = line.found.server, line.found.queue
        if line.row is not None:
            self.dashboard.navigation.open("message", queue, line.row.id, server.place)
        else:
            self.dashboard.navigation.open("queue", queue, server.place, line.found.hits.wanted)

    def _close_filter(self) -> None:
        self.filter_line.close()
        self.set_focus(self.table)

    def _wanted_queues(self) -> Iterator[QueueState]:
        for queue in () if self.snapshot is None else self.snapshot.queues:
            kind = self.dashboard.server(queue.place).kind
            if queue.depth != 0 and names_queue(self._search.pattern, kind, queue.name):
                yield queue

    def _aims(self) -> Aims:
        """Return the marked messages, or else the message or the queue under the cursor."""
        line = self.table.cursor_row
        if (marked := self._marked) or line is None:
            return marked
        found = line.found
        scope = found.all if line.row is None else Marked((shown(line.row),))
        return (Aim(found.server, found.queue, scope, is_found=True),)

    @property
    def _marked(self) -> Aims:
        scopes = ((each, each.scope()) for each in self._search.marked)
        return tuple(Aim(each.server, each.queue, scope, is_found=True) for each, scope in scopes if scope is not None)

    def _tick(self) -> None:
        if self._search.state is not SearchState.RUNNING:
            self._ticking.pause()
            self._search_outdated()
        self._show()

    def _show(self) -> None:
        self._show_title()
        self.table.columns = _columns(clock_times=self.dashboard.clock_times)
        if self._search.has_news or not self.table.rows:
            self._search.has_news = False
            rows = list(self._search.rows())
            self.table.empty_text = [(f"  {self._empty_words}", "muted")]
            self.table.show(rows, [row.key for row in rows], self._cells)
        else:
            self.table.repaint()
        self._show_pane()

    @property
    def _empty_words(self) -> str:
        if self._search.state is None:
            return "Type a filter: json.customer.id=4711. Begin with queue:orders-* to search only these queues."
        return "Searching …" if self._search.state is SearchState.RUNNING else "No message matches."

    def _show_title(self) -> None:
        search, found = self._search, self._search.matched
        if search.state is None:
            self._title.show([(" ◀ search all queues", "strong")])
            return
        errors = sum(bool(each.hits.error) for each in search.found.values())
        total = sum(each.hits.matched for each in found)
        unsearched = sum(each.hits.not_searched for each in search.found.values())
        ranked: list[tuple[int, Piece]] = [(0, (f"   {matches(total)} in {plural(len(found), 'queue')}", "strong"))]
        if search.order != BY_QUEUE:
            ranked.append((0, (f", {search.order.words}", "muted")))
        if unsearched:
            ranked.append((1, (f" · {count(unsearched)} too long to search", "notice")))
        if errors:
            ranked.append((0, (f" · ✗ {plural(errors, 'queue')} not read", "alarm")))
        if marked := self._marked_words():
            ranked.append((1, (f" · {marked}", "strong")))
        ranked += [(rank, (words, "muted")) for rank, words in self._state_words]
        listed = search.listed if search.is_grouped else min(search.listed, LISTED_MAX)
        if LISTED_MAX <= listed < total:
            ranked.append((5, (f" · {count(listed)} listed, others only counted", "muted")))
        where = "" if search.pattern == "*" else f" in queues {printable(search.pattern, _ASKED_MAX)}"
        asked = f"{printable(search.text, _ASKED_MAX) or 'all messages'}{where}"
        # The results take precedence over the filter.
        width = self.size.width - len(" ◀ ") - 1
        pieces = fitting(ranked, width - min(cell_len(asked), _ASKED_MIN))
        self._title.show([(f" ◀ {printable(asked, max(_ASKED_MIN, width - cells_of(pieces)))}", ""), *pieces])

    @property
    def _state_words(self) -> list[tuple[int, str]]:
        """The progress of the search, or the age of its results: words with their ranks."""
        search = self._search
        queues = f"{count(search.done)} of {plural(search.queues, 'queue')}"
        looked = [(2, f" · {queues}"), (3, f", {count(search.read)} read")]
        again = self.dashboard.keymap.first_key("refresh")
        if search.state is SearchState.RUNNING:
            return [*looked, (1, " · esc stops")]
        if search.state is SearchState.STOPPED:
            return [(1, f" · stopped: {queues}"), *looked[1:], (4, f" · {again} searches again")]
        at_ms = max((found.hits.at_ms for found in search.found.values()), default=0)
        now_ms = 0 if self.snapshot is None else self.snapshot.at_ms
        age = f" · {duration(now_ms - at_ms)} old, {again} refreshes" if at_ms and now_ms - at_ms >= 1_000 else ""
        return [*looked, (4, age)]

    def _marked_words(self) -> str:
        marked = self._search.marked
        number = sum(found.hits.matched if found.marks.is_all else len(found.marks) for found in marked)
        return f"{count(number)} marked in {plural(len(marked), 'queue')}" if marked else ""
