"""The comparison of two times, the dialog that asks for a time, and the actions of the replay keys."""

from collections.abc import Mapping
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import App
from textual.binding import BindingType

from rsmq_tui.history.replay.replay import Diff, QueueDiff, diff_of
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.moments import end_of_day, read_moment
from rsmq_tui.monitor.text import (
    UNKNOWN,
    clock,
    compact,
    count,
    date_clock,
    duration,
    plural,
    printable,
    shown_zone,
    zone_words,
)
from rsmq_tui.tui.changes.forms import Answers, Field, Form, FormScreen
from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.keys import Where, bindings_of, keymap_of
from rsmq_tui.tui.replay.session import ReplaySession
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import are_of_one_server
from rsmq_tui.tui.theme import verdict_words
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column, RowTable

_QUEUE_WIDTH_MIN, _QUEUE_WIDTH_MAX = 10, 40


# The context of the cells: the title of each server, by place.
Titles = Mapping[str, str]


def delta(change: int | None) -> str:
    """Format a difference in at most seven characters: +211, -1,204, 0."""
    if change is None:
        return UNKNOWN
    return f"{'+' if change > 0 else '-'}{compact(abs(change))}" if change else "0"


def _verdict(queue: QueueDiff, _: Titles) -> Piece:
    then, now = queue.then, queue.now
    if then is None and now is not None:
        return f"new: {verdict_words(now.verdict)}", f"verdict-{now.verdict}"
    if now is None:
        return "gone", "alarm"
    words = verdict_words(now.verdict)
    if then is None or not queue.has_other_verdict:
        return words, "muted"
    return f"{then.verdict} → {words}", f"verdict-{now.verdict}"


def _count(name: str, title: str, drop: int) -> tuple[Column[QueueDiff, Titles], ...]:
    def then(queue: QueueDiff, _: Titles) -> Piece:
        return compact(queue.numbers(name)[0]), "muted"

    def now(queue: QueueDiff, _: Titles) -> Piece:
        return compact(queue.numbers(name)[1]), ""

    def change(queue: QueueDiff, _: Titles) -> Piece:
        moved = queue.change(name)
        return delta(moved), "strong" if moved else "muted"

    return (
        Column(f"{name}-then", title, 6, then, drop=drop and drop + 1, right=True),
        Column(f"{name}-now", "LATER", 6, now, drop=drop, right=True),
        Column(f"{name}-change", "±", 7, change, drop=drop, right=True),
    )


def _oldest(when: str) -> Column[QueueDiff, Titles]:
    title = "WAITING" if when == "then" else "LATER"
    return Column(f"oldest-{when}", title, 8, lambda queue, _: (duration(queue.age_ms(when)), ""), drop=6, right=True)


_VERDICT: Column[QueueDiff, Titles] = Column("verdict", "VERDICT", 21, _verdict)
_READY, _DEPTH = _count("ready", "READY", 2), _count("depth", "DEPTH", 0)
_SERVER: Column[QueueDiff, Titles] = Column(
    "server", "SERVER", 10, lambda queue, titles: (titles.get(queue.state.place, ""), "muted"), drop=1
)


def diff_columns(
    names: int = 0, room: int = 0, *, several_servers: bool = False
) -> tuple[Column[QueueDiff, Titles], ...]:
    """Return the columns; ``server`` only with several servers.

    ``names`` is the width of the longest name, and ``room`` that of the screen: only the columns of verdict, depth and
    ready take precedence over a full name.
    """
    server = (_SERVER,) if several_servers else ()
    left = room - sum(column.width + 1 for column in (_VERDICT, *_READY, *_DEPTH, *server))
    width = max(_QUEUE_WIDTH_MIN, min(names, left - 1, _QUEUE_WIDTH_MAX))
    return (
        _VERDICT,
        *server,
        Column("queue", "QUEUE", width, lambda queue, _: (queue.state.name, "strong"), grow=True, middle=True),
        *_READY,
        *_count("hidden", "HIDDEN", 8),
        *_DEPTH,
        _oldest("then"),
        _oldest("now"),
    )


_NAME_MAX = 160


class DiffScreen(DashboardScreen):
    """Compares the marked time with the current one, queue by queue; it follows the replay."""

    WHERE: ClassVar[tuple[Where, ...]] = ("diff", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("diff")

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(diff_columns(), {}, id="diff", on_open=self._open)
        self._title = TextLine(id="title")
        self._names = 0
        self._sums = TextLine(id="sums")
        self._why = TextLine(id="why")
        self.parts = (self._title, self._sums, self.table, self._why)

    def on_mount(self) -> None:
        """Focus the table."""
        self.table.focus()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Compare the marked snapshot with this one."""
        replaying = self.dashboard.replay
        if replaying is None or replaying.marked is None:
            return
        marked = replaying.marked
        diff = diff_of(marked.snapshot, snapshot, marked.at_ms, replaying.position_ms)
        self._title.show(self._instants(diff))
        self._sums.show(_sums(diff))
        titles = {server.place: server.title(snapshot.part(server.place).ns) for server in self.dashboard.servers}
        self._names = max((cell_len(printable(queue.state.name, _NAME_MAX)) for queue in diff.queues), default=0)
        self._lay_out()
        self.table.empty_text = [("  There are no queues at either time.", "muted")]
        keys = [queue.key for queue in diff.queues]
        self.table.show(diff.queues, keys, titles)
        self._show_row()

    @on(RowTable.Resized)
    def _lay_out(self) -> None:
        """Fit the columns to the width."""
        several_servers = not are_of_one_server(self.dashboard.servers)
        self.table.columns = diff_columns(self._names, self.size.width, several_servers=several_servers)
        self.table.repaint()

    @on(RowTable.Moved)
    def _show_row(self) -> None:
        """Show the full name of the queue under the cursor."""
        queue = self.table.cursor_row
        if queue is None:
            self._why.show([])
            return
        title = self.table.context.get(queue.state.place, "")
        where = f" on {printable(title, 40)}" if queue.state.place else ""
        self._why.show([(f" {printable(queue.state.name, _NAME_MAX)}", "strong"), (where, "")])

    def _open(self, queue: QueueDiff) -> None:
        if queue.now is None and queue.then is not None:
            self.warn("that queue does not exist at the later time")
            return
        self.dashboard.navigation.open_queue(queue.state.name, queue.state.place)

    def _instants(self, diff: Diff) -> list[Piece]:
        now = date_clock(diff.now_ms)
        # The later date is shown only if it differs.
        same_day = clock(diff.then_ms, date=True)[:10] == now[:10]
        instants = f"{date_clock(diff.then_ms)} → {now[11:] if same_day else now} {zone_words(diff.now_ms)}"
        notes = [
            f"{plural(diff.other_verdicts, 'verdict')} changed" if diff.other_verdicts else "",
            f"{count(diff.appeared)} new" if diff.appeared else "",
            f"{count(diff.vanished)} gone" if diff.vanished else "",
        ]
        words = " · ".join([plural(len(diff.queues), "queue"), *filter(None, notes)])
        return [(" ◀ ", "muted"), (instants, "strong"), (f"   {duration(diff.now_ms - diff.then_ms)}   {words}", "")]


def _sums(diff: Diff) -> list[Piece]:
    pieces: list[Piece] = []
    for name in ("ready", "hidden", "depth"):
        then, now = diff.sums(name)
        pieces += [(f"   {name} {count(then)} → {count(now)} ", ""), (f"({delta(now - then)})", "strong")]
    return pieces


_NOTE = "21:50 · 2031-05-17 21:50 · -10m · +1h, in "


def seek_screen(replaying: ReplaySession) -> FormScreen[int]:
    """Return a dialog that asks for a time and goes there."""
    span = replaying.span
    ends = tuple(date_clock(at_ms) for at_ms in span)
    field = Field("time", "time", hint="21:50 or -10m", choices=("-10m", "+10m", "-1h", "+1h", *ends))

    def go(at_ms: int) -> None:
        screen.dismiss()
        replaying.player.seek(at_ms)

    form = Form("Go to a time", (field,), lambda answers: _time_ms(answers, replaying))
    screen = FormScreen(form, go, yes="Go", note=_NOTE + zone_words(replaying.position_ms))
    return screen


def _time_ms(answers: Answers, replaying: ReplaySession) -> int:
    """Parse the time; raises ``ValueError`` if it is outside of the recorded span."""
    text, now_ms, span = str(answers["time"]).strip(), replaying.position_ms, replaying.span
    if text in ("now", "end"):
        return span.to_ms
    if text[:1] in ("-", "+"):
        # Clamped to the recorded span.
        return max(span.from_ms, min(read_moment(text, now_ms), span.to_ms))
    # A time of day is on the day that is shown.
    at_ms = read_moment(text, end_of_day(now_ms, shown_zone()), shown_zone())
    # The last minute, written without seconds, means the last poll in it.
    if not span.from_ms - 60_000 < at_ms <= span.to_ms + 60_000:
        first, last = (date_clock(end_ms) for end_ms in span)
        raise ValueError(f"nothing was recorded at {date_clock(at_ms)}; recorded: {first} to {last}")
    return at_ms


_JUMP_MS = 60_000


def act(app: App[None], dashboard: Dashboard, name: str, direction: int = 1) -> None:
    """Run a replay action; ``direction`` is 1 forward and -1 back. Does nothing if no replay is shown."""
    replay, screen = dashboard.replay, app.screen
    if replay is None or not isinstance(screen, DashboardScreen):
        return
    player = replay.player
    match name:
        case "play":
            _play(app, replay)
        case "step":
            player.step(direction)
        case "verdict":
            # On a queue's screen, search for changes of that queue.
            shown = screen.chosen_queue
            wanted = None if shown is None or screen.place is None else (replay.place(screen.place), shown[2])
            player.go_to_change(direction, wanted)
        case "jump":
            player.jump(direction * _JUMP_MS)
        case "speed":
            player.change_speed(direction)
        case "seek":
            # The banner must not show it beside a time that is refused.
            player.forget_outcome()
            dashboard.navigation.open("seek", replay)
        case "mark" if dashboard.snapshot is not None:
            replay.mark(dashboard.snapshot)
        case "diff" if replay.marked is None:
            mark, compare = (dashboard.keymap.first_key(each) for each in ("mark_time", "diff"))
            words = f"no time is marked: {mark} marks one for {compare} to compare with"
            app.notify(words, severity="warning", markup=False)
        case "diff" if "diff" not in screen.WHERE:
            dashboard.navigation.open("diff")


def _play(app: App[None], replay: ReplaySession) -> None:
    player = replay.player
    if not player.is_playing and player.position_ms >= replay.span.to_ms:
        seek = keymap_of(app).first_key("seek")
        app.notify(f"this is the end of the recorded history; {seek} goes to another time", markup=False)
    player.set_playing(not player.is_playing)
