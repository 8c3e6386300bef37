"""The overview: all queues, what is wrong now, and the trend of each."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import QueueState, Snapshot, Verdict, reason
from rsmq_tui.monitor.poller import LooksFirst
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.monitor.tracking.reasons import returned
from rsmq_tui.tui.keys import Key, Usable, Where, bindings_of
from rsmq_tui.tui.links import Link
from rsmq_tui.tui.overview.columns import (
    COLUMN_BY_ID,
    QueueContext,
    chosen_columns,
    columns_of,
)
from rsmq_tui.tui.overview.events import LastEvents
from rsmq_tui.tui.overview.groups import QueueGroup, judged
from rsmq_tui.tui.overview.known import SIGN, Silenced, silenced_verdict
from rsmq_tui.tui.overview.rows import BY_TROUBLE, Arrangement, QueueRows
from rsmq_tui.tui.overview.totals import NowPanel, TotalsCharts
from rsmq_tui.tui.preferences import COLUMNS, FAVOURITES, GROUPED, REVERSE, SEPARATORS, SORT, Preferences
from rsmq_tui.tui.queue.pane import QueuePane
from rsmq_tui.tui.screen import NO_SERVER, DashboardScreen
from rsmq_tui.tui.servers import are_of_one_server
from rsmq_tui.tui.theme import verdict_words
from rsmq_tui.tui.widgets.lines import TextLine, age_words, is_stale, stale_words, why_empty
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column, Order, RowTable
from rsmq_tui.tui.widgets.word_filter import WordFilter


def changed_verdicts(before: Snapshot | None, now: Snapshot) -> frozenset[str]:
    """Return the keys of the queues whose verdict differs from that in ``before``; new queues are left out."""
    if before is None or before is now or before.ns != now.ns:
        return frozenset()
    changed = now.changed_since(before.queues)
    if changed is not None:
        pairs = zip(*changed, strict=True)
        return frozenset(new.key for old, new in pairs if old.verdict is not new.verdict and old.key == new.key)
    # Most of 10,000 states are the same objects, which are skipped quickly.
    before_ids, now_ids = set(map(id, before.queues)), set(map(id, now.queues))
    verdicts = {queue.key: queue.verdict for queue in before.queues if id(queue) not in now_ids}
    fresh = (queue for queue in now.queues if id(queue) not in before_ids) if verdicts else ()
    return frozenset(queue.key for queue in fresh if verdicts.get(queue.key, queue.verdict) is not queue.verdict)


def _group_words(row: QueueState) -> str:
    """Say what is in a group: 12 queues: 1 stalled, 11 ok."""
    members = row.members if isinstance(row, QueueGroup) else (row,)
    numbers = Counter(queue.verdict for queue in members)
    verdicts = ", ".join(f"{numbers[verdict]} {verdict.value}" for verdict in Verdict if numbers[verdict])
    return f"{plural(len(members), 'queue')}: {verdicts}"


# Rows keep their positions for this long after the cursor was moved, so that none moves away under it.
REST_S = 3.0
# How often the screen shows what changes between polls: the next one may be ten seconds away.
_FOLLOW_S = 0.5


class OverviewScreen(DashboardScreen):
    """The table of all queues below the sums and the throughput."""

    WHERE: ClassVar[tuple[Where, ...]] = ("overview", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("overview")

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(columns_of(), QueueContext(Snapshot(0, "", ""), {}), id="queues", on_open=self._open)
        self.charts = TotalsCharts()
        self._now = NowPanel()
        self._maintenance = TextLine(id="maintenance")
        self._maintenance.display = False
        self._why = TextLine(id="why")
        self._pane = QueuePane(self._why)
        self._last_events = LastEvents()
        self._filter = WordFilter(
            "overview",
            "words in a queue's name or verdict; !word excludes",
            apply=self._apply_filter,
            target=lambda: self.table,
        )
        self.parts = (
            Horizontal(self.charts.rates, self._now, id="charts"),
            *(self.charts.sparks, self._maintenance, self._filter),
            Vertical(self.table, self._pane, id="body"),
            self._last_events,
        )
        self._rows = QueueRows()
        self._order = BY_TROUBLE
        self._unfolded: frozenset[str] = frozenset()
        self._moved_s = -REST_S
        # The key of the row whose reason is shown.
        self._explained = ""

    def on_mount(self) -> None:
        """Focus the table."""
        column = self._preferences.get(SORT)
        self._order = Order(column if column in COLUMN_BY_ID else BY_TROUBLE.column, self._preferences.get(REVERSE))
        self._show_columns()
        self.table.focus()
        self.set_interval(_FOLLOW_S, self._follow)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the sums, the chart and the rows."""
        self._show_columns()
        self.charts.show(snapshot, self.dashboard.window_ms, self.dashboard.changed_ms(snapshot))
        self._last_events.follow(snapshot)
        self._show_maintenance()
        silenced = self._silenced()
        self._now.show(snapshot, silenced)
        before, wanted = self._rows.snapshot, self._arrangement(snapshot, silenced)
        self._rows.arrange(snapshot, wanted)
        context = QueueContext(
            snapshot,
            {server.place: server.title(snapshot.part(server.place).ns) for server in self.dashboard.servers},
            changed_verdicts(before, snapshot),
            self.dashboard.clock_times,
            self._stale(snapshot),
            silenced,
            wanted.favourites,
            wanted.unfolded,
            self._rows.members,
        )
        self.table.empty_text = why_empty(snapshot, self._filter.value, self.dashboard)
        self.table.sorted_by = self._rows.sorted_by
        self.table.show(self._rows.rows, self._rows.keys, context)
        self._look_at_shown()
        self._show_why()

    def _show_maintenance(self) -> None:
        """Say until when there is maintenance, on terminals of every size."""
        words = self.dashboard.maintenance(now_ms())
        self._maintenance.display = bool(words)
        self._maintenance.show([(f" {SIGN} {words}: no alerts are sent", "verdict-watching")])

    def _look_at_shown(self) -> None:
        """Let the sources look at the queues in sight first."""
        in_sight = [row for row in self.table.rows_in_sight if not isinstance(row, QueueGroup)]
        for server in self.dashboard.servers:
            if isinstance(server.source, LooksFirst):
                server.source.look_first([queue.name for queue in in_sight if queue.place == server.place])

    def _arrangement(self, snapshot: Snapshot, silenced: Silenced) -> Arrangement:
        """Return which rows to show: they keep their positions for some time after the cursor was moved."""
        return Arrangement(
            self._filter.value,
            self._order,
            self._preferences.get(SEPARATORS) if self._preferences.get(GROUPED) else "",
            self._unfolded,
            self._favourites_of(snapshot),
            silenced,
            may_move=self.dashboard.clock() - self._moved_s >= REST_S,
        )

    def _show_columns(self) -> None:
        """Show the columns that the user has chosen, of those for the servers."""
        chosen = self._preferences.get(COLUMNS)
        self.table.columns = tuple(column for column, is_shown in chosen_columns(self._columns, chosen) if is_shown)

    @property
    def _columns(self) -> Sequence[Column[QueueState, QueueContext]]:
        """All columns for the servers."""
        servers = self.dashboard.servers
        return columns_of(
            [server.kind for server in servers],
            several_servers=not are_of_one_server(servers),
            clock_times=self.dashboard.clock_times,
        )

    def _stale(self, snapshot: Snapshot) -> dict[str, str]:
        """Return the age of the numbers that are stale, by place, if there are several servers."""
        stale = (part for part in snapshot.parts if is_stale(part, self.dashboard))
        return {part.place: age_words(part, self.dashboard) for part in stale}

    def _silenced(self) -> Silenced:
        """Return the troubles for which no alerts are sent now."""
        known = {
            server.place: {name: each for name, each in self.dashboard.known(server.place).items() if each.is_active}
            for server in self.dashboard.servers
        }
        return Silenced({place: active for place, active in known.items() if active}, self.dashboard.ignored)

    def _follow(self) -> None:
        """Show what changes between polls: acknowledged troubles, and the ages of servers that do not answer."""
        if self.snapshot is None or not self.is_in_sight:
            return
        if self._silenced() != self.table.context.silenced:
            self.show_snapshot(self.snapshot)
        stale = self._stale(self.snapshot)
        if stale:
            self.table.context = replace(self.table.context, stale=stale)
            self.table.repaint()
            self._show_why()
        if stale or self.snapshot.connection.failure is not None or self.snapshot.paused:
            self._last_events.follow(self.snapshot)

    def refresh_unpolled(self) -> None:
        """Sort the rows at once."""
        self._moved_s = -REST_S

    def _open(self, queue: QueueState) -> None:
        if isinstance(queue, QueueGroup):
            self.action_unfold(-1 if queue.key in self._unfolded else 1)
        else:
            self.dashboard.navigation.open_queue(queue.name, queue.place)

    @on(RowTable.Moved)
    def _keep_places(self) -> None:
        self._moved_s = self.dashboard.clock()
        self._show_why()

    @on(RowTable.Resized)
    def _fit_why(self) -> None:
        self._show_why()

    @on(RowTable.HeadClicked)
    def _sort_by_click(self, event: RowTable.HeadClicked) -> None:
        self._sort(self._order.clicked(event.column))

    def action_clear(self) -> None:
        """Clear the filter; if there is none, sort by trouble again."""
        if not self._filter.close():
            self._sort(BY_TROUBLE)

    def action_sort_next(self) -> None:
        """Sort by the next column; after the last one, by trouble again."""
        columns = (BY_TROUBLE.column, *(column.id for column in self.table.columns))
        self._sort(self._order.next_of(columns))

    def action_sort_reverse(self) -> None:
        """Reverse the order."""
        self._sort(self._order.reversed())

    def _sort(self, order: Order) -> None:
        self._order = order
        self._preferences.set(SORT, order.column)
        self._preferences.set(REVERSE, order.reverse)
        self._rearrange()

    def action_unfold(self, step: int) -> None:
        """Unfold the group under the cursor (``step`` 1), or fold it, or that of the queue under the cursor (-1)."""
        fold = step < 0
        row = self.table.cursor_row
        index = self.table.cursor_index
        members = self._rows.members
        if fold and row is not None and row.key in members:
            index = next(above for above in range(index, -1, -1) if self.table.rows[above].key not in members)
            row = self.table.rows[index]
        if not isinstance(row, QueueGroup) or (row.key in self._unfolded) != fold:
            return
        self._unfolded ^= {row.key}
        self.table.place_cursor(index)
        self._rearrange()

    def action_group(self) -> None:
        """Group the queues by the prefixes of their names, or show them all."""
        self._preferences.edit(GROUPED, lambda grouped: not grouped)
        self._rearrange()

    def action_separators(self) -> None:
        """Ask for the characters with which a prefix ends, and group the queues."""
        from rsmq_tui.tui.changes.forms import Answers, Field, Form, FormScreen  # noqa: PLC0415 - not before the first paint

        def build(got: Answers) -> str:
            separators = str(got["separators"]).strip()
            if not SEPARATORS.fits(separators):
                raise ValueError("give 1 to 20 characters, such as : - _ . /")
            return separators

        def keep(separators: str) -> None:
            self._preferences.set(SEPARATORS, separators)
            self._preferences.set(GROUPED, True)
            screen.dismiss()
            self._rearrange()

        field = Field("separators", "prefixes end with", self._preferences.get(SEPARATORS), hint=":-_./")
        note = "the last of these characters in a name ends its prefix"
        screen = FormScreen(Form("Groups of queues", (field,), build), keep, yes="Group", note=note)
        self.app.push_screen(screen)

    def action_favourite(self) -> None:
        """Add the queue under the cursor to the favourites, or remove it."""
        name, snapshot = self._queue_for("favourite"), self.snapshot
        row = self.table.cursor_row
        if name is None or snapshot is None or row is None:
            return
        part = snapshot.part(row.place)
        entry = [part.server, part.ns, name]
        is_favourite = entry in self._preferences.get(FAVOURITES)

        def changed(favourites: list[list[str]]) -> list[list[str]]:
            others = [each for each in favourites if each != entry]
            return others if is_favourite else [*others, entry]

        self._preferences.edit(FAVOURITES, changed)
        if (entry in self._preferences.get(FAVOURITES)) == is_favourite:
            self.warn("there are too many favourites, or the name is too long")
        self._rearrange()

    def action_columns(self) -> None:
        """Choose the columns and their order."""
        self.dashboard.navigation.open("columns", self._columns, self._apply_columns)

    def _apply_columns(self) -> Set[str]:
        """Show the columns that were chosen, and return the ids of those that fit."""
        self._show_columns()
        self.table.repaint()
        return self.table.fitting

    def _favourites_of(self, snapshot: Snapshot) -> frozenset[tuple[str, str]]:
        """Return the places and names of the favourites on these servers."""
        places = {(part.server, part.ns): part.place for part in snapshot.parts or (snapshot,)}
        return frozenset(
            (place, name)
            for server, ns, name in self._preferences.get(FAVOURITES)
            if (place := places.get((server, ns))) is not None
        )

    @property
    def _preferences(self) -> Preferences:
        return self.dashboard.preferences

    def action_change(self, name: str) -> None:
        """Start a change of the queue under the cursor, or the creation of a queue."""
        queue, place = self._queue_for(name), self.chosen_place
        if queue is not None and place is not None:
            self.dashboard.changes.ask(self.dashboard.server(place), name, queue)

    def action_audit(self) -> None:
        """Audit all queues on the server of the queue under the cursor."""
        place = self._place_for_key()
        if place is not None:
            self.dashboard.navigation.open("audit", None, place)

    def action_search(self) -> None:
        """Search all queues."""
        self.dashboard.navigation.open("search")

    def action_journal(self) -> None:
        """Show the journal."""
        self.dashboard.navigation.open("journal")

    def action_known(self) -> None:
        """Acknowledge the trouble of the queue under the cursor."""
        queue, place = self._queue_for("known"), self.chosen_place
        if queue is not None and place is not None:
            self.ask_known(queue, place)

    def action_export(self) -> None:
        """Export all messages of the queue under the cursor."""
        queue, place = self._queue_for("export"), self.chosen_place
        if queue is not None and place is not None:
            self.dashboard.changes.export(self.dashboard.server(place), queue, None)

    @property
    def chosen_place(self) -> str | None:
        """The server of the queue under the cursor, or the only one."""
        if len(self.dashboard.servers) == 1:
            return self.dashboard.servers[0].place
        return None if self.table.cursor_row is None else self.table.cursor_row.place

    @property
    def queue_in_sight(self) -> str | None:
        """The name of the queue under the cursor."""
        row = self.table.cursor_row
        return None if row is None or isinstance(row, QueueGroup) else row.name

    @property
    def link(self) -> Link:
        """The overview with its filter."""
        return Link(filter=self._filter.value)

    @property
    def usable(self) -> Usable:
        """The available keys; keys for one kind of queue depend on the row under the cursor."""
        row, usable = self.table.cursor_row, super().usable
        return usable if row is None else replace(usable, kinds=frozenset({row.kind}))

    def hint_of(self, key: Key) -> str:
        """Return the words of a key in the bottom line; a group is not changed."""
        is_on_group = isinstance(self.table.cursor_row, QueueGroup)
        return "" if is_on_group and key.changes and key.action != "undo" else super().hint_of(key)

    def _place_for_key(self) -> str | None:
        if self.chosen_place is None:
            self.warn(NO_SERVER)
        return self.chosen_place

    def _queue_for(self, name: str) -> str | None:
        if name == "create":
            return None if self._place_for_key() is None else ""
        if self.table.cursor_row is None:
            self.warn("no queue is selected")
            return None
        if isinstance(self.table.cursor_row, QueueGroup):
            queues = plural(len(self.table.cursor_row.members), "queue")
            self.warn(f"this is a group of {queues}: enter unfolds it")
            return None
        # While a dialog is open, polls may reorder the rows; its queue must stay under the cursor.
        self.table.place_cursor(self.table.cursor_index)
        return self.table.cursor_row.name

    def _show_why(self) -> None:
        """Show the reason for the verdict of the queue under the cursor, and its problems."""
        self.hints.repaint()
        row, snapshot = self.table.cursor_row, self.snapshot
        if snapshot is None:
            return
        part = snapshot if row is None else snapshot.part(row.place)
        self._pane.follow(None if isinstance(row, QueueGroup) else row, part)
        if row is None:
            self._why.show([])
            return
        queue = judged(row)
        is_stale = queue.place in self.table.context.stale
        words = reason(queue, part.at_ms, self.dashboard.server(queue.place).source.thresholds)
        title, silenced = self.table.context.titles[queue.place], self.table.context.silenced
        where = "" if are_of_one_server(self.dashboard.servers) else f" on {printable(title, 40)}"
        is_silenced = silenced.holds(queue)
        words_of_verdict = silenced_verdict(queue) if is_silenced else verdict_words(queue.verdict)
        pieces: list[Piece] = [] if row is queue else [(f" {_group_words(row)}; the worst is", "muted")]
        pieces += [
            (f" {words_of_verdict} ", "muted" if is_stale or is_silenced else f"verdict-{queue.verdict}"),
            (f"{printable(queue.name, 40)}{where}: ", ""),
        ]
        if is_stale:
            # This is the last known verdict, which may no longer be true.
            sign = "◌" if part.connection.failure is None else "✗"
            pieces.append((f"{sign} {stale_words(part, self.dashboard)} · ", "alarm"))
        pieces.append((words, "muted" if is_stale else ""))
        if back := returned(queue, part.trend):
            pieces.append((f"; {back}", "muted" if is_stale else "strong"))
        if usual := self.dashboard.usual_words(part, queue.name):
            pieces.append((f" · {usual}", "muted"))
        if queue.problems:
            pieces.append((f"   ! {'; '.join(queue.problems)}", "notice"))
        pieces += silenced.pieces(queue)
        # While the cursor stays, what is below does not jump.
        stays = self._explained == row.key and self._pane.position != "closed"
        self._explained = row.key
        self._why.show(pieces, self._lines_for_why, keep=stays)

    @property
    def _lines_for_why(self) -> int:
        """The number of lines that the reason may have: those that are free below the rows, or a part of the pane."""
        if self._pane.position != "closed":
            return max(3, self._pane.size.height // 3)
        return self.table.size.height + self._why.size.height - 1 - max(1, len(self.table.rows))

    def _apply_filter(self) -> None:
        """Show the rows that match; if the filter is the name of a queue, the cursor goes to that queue."""
        self._rearrange()
        name = self._filter.value
        named = (
            index for index, row in enumerate(self.table.rows) if row.name == name and not isinstance(row, QueueGroup)
        )
        if name and (index := next(named, None)) is not None:
            self.table.place_cursor(index, for_now=True)

    def _rearrange(self) -> None:
        self.refresh_unpolled()
        if self.snapshot is not None:
            self.show_snapshot(self.snapshot)
