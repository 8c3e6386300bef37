"""Two times of a replay side by side: what moved, what is called something else, what came and went."""

from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from rsmq_tui.history.replay_diff import Diff, QueueDiff, diff_of
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.wording import clock, count, duration, plural, printable
from rsmq_tui.tui.key import Where
from rsmq_tui.tui.keymap import bindings_of
from rsmq_tui.tui.replay_columns import DiffContext, delta, diff_columns
from rsmq_tui.tui.screens.base import DashboardScreen
from rsmq_tui.tui.widgets.key_hints import KeyHints
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import RowTable
from rsmq_tui.tui.widgets.status_line import StatusLine
from rsmq_tui.tui.widgets.text_line import TextLine

_NAME_MAX = 160


class DiffScreen(DashboardScreen):
    """The instant that was marked and the one that is shown, queue by queue; it follows while the replay goes on."""

    WHERE: ClassVar[tuple[Where, ...]] = ("diff", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("diff")

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(diff_columns(1), DiffContext(), id="diff", on_open=self._open)
        self._title = TextLine(id="title")
        self._names = 0
        self._sums = TextLine(id="sums")
        self._why = TextLine(id="why")

    def compose(self) -> ComposeResult:
        """Status, the two instants, the sums, the queues, the name under the cursor, hints."""
        yield StatusLine().data_bind(DashboardScreen.snapshot)
        yield self._title
        yield self._sums
        yield self.table
        yield self._why
        yield KeyHints("table", "diff", "app")

    def on_mount(self) -> None:
        """Begin in the table."""
        self.table.focus()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Compare with what is shown now."""
        replaying = self.dashboard.replay
        if replaying is None or replaying.marked is None:
            return
        marked = replaying.marked
        diff = diff_of(marked.snapshot, snapshot, marked.at_ms, replaying.position_ms)
        self._title.show(self._instants(diff))
        self._sums.show(_sums(diff))
        titles = {site.place: site.title(snapshot.part(site.place).ns) for site in self.dashboard.sites}
        self._names = max((cell_len(printable(queue.state.name, _NAME_MAX)) for queue in diff.queues), default=0)
        self._lay_out()
        self.table.empty_text = [("  There are no queues at either time.", "muted")]
        keys = [queue.key for queue in diff.queues]
        self.table.show(diff.queues, keys, DiffContext(titles, self.dashboard.ascii_only))
        self._tell_row()

    @on(RowTable.Resized)
    def _lay_out(self) -> None:
        """Give the names the room that there is; where there is little, the line below has the one under the cursor."""
        self.table.columns = diff_columns(len(self.dashboard.sites), self._names, self.size.width)
        self.table.repaint()

    @on(RowTable.Moved)
    def _tell_row(self) -> None:
        """Say the name of the queue under the cursor in full."""
        queue = self.table.cursor_row
        if queue is None:
            self._why.show([])
            return
        title = self.table.context.titles.get(queue.state.place, "")
        where = f" on {printable(title, 40)}" if queue.state.place else ""
        self._why.show([(f" {printable(queue.state.name, _NAME_MAX)}", "strong"), (where, "")])

    def _open(self, queue: QueueDiff) -> None:
        if queue.now is None and queue.then is not None:
            self.notify("that queue does not exist at the later time", severity="warning", markup=False)
            return
        self.dashboard.open_queue(queue.state.name, queue.state.place)

    def _instants(self, diff: Diff) -> list[Piece]:
        back = " < " if self.dashboard.ascii_only else " ◀ "
        now = clock(diff.now_ms, date=True)[:19]
        # The date of the later one is said where it is another.
        same_day = clock(diff.then_ms, date=True)[:10] == now[:10]
        instants = f"{clock(diff.then_ms, date=True)[:19]} → {now[11:] if same_day else now} UTC"
        told = [
            f"{plural(diff.other_verdicts, 'verdict')} changed" if diff.other_verdicts else "",
            f"{count(diff.appeared)} new" if diff.appeared else "",
            f"{count(diff.vanished)} gone" if diff.vanished else "",
        ]
        words = " · ".join([plural(len(diff.queues), "queue"), *filter(None, told)])
        return [(back, "muted"), (instants, "strong"), (f"   {duration(diff.now_ms - diff.then_ms)}   {words}", "")]


def _sums(diff: Diff) -> list[Piece]:
    pieces: list[Piece] = []
    for name in ("ready", "hidden", "depth"):
        then, now = diff.sums(name)
        pieces += [(f"   {name} {count(then)} → {count(now)} ", ""), (f"({delta(now - then)})", "strong")]
    return pieces
