"""The lines of every screen: status, plain text, key hints, and the progress of a change."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.reactive import reactive, var
from textual.strip import Strip

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.moments import DAY_MS
from rsmq_tui.monitor.text import (
    ago,
    count,
    duration,
    lists_hint,
    plural,
    printable,
    printable_ns,
    size,
    zone_words,
)
from rsmq_tui.protocol import ENDED, Failure
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.keys import Key, Keymap
from rsmq_tui.tui.servers import WatchedServer, are_of_one_server
from rsmq_tui.tui.widgets.painted import Painted, Piece


def age_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Describe the age of the numbers of a server that are stale."""
    fresh_s = part.connection.fresh_at_s
    if fresh_s is None:
        return "no data yet"
    if dashboard.replay is not None:
        return f"stale {duration(dashboard.replay.position_ms - fresh_s * 1000)}"
    return f"stale {max(0.0, dashboard.clock() - fresh_s):.0f} s"


def stale_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Describe the age of the numbers of a server that does not answer, the next attempt, and the reason."""
    if dashboard.replay is not None:
        from rsmq_tui.tui.replay.banner import outage_words  # noqa: PLC0415 - live screens need none

        return outage_words(part, dashboard.replay)
    failure, age = part.connection.failure, age_words(part, dashboard)
    if failure is None:
        return f"{age} · waiting for the server"
    if len({each.server for each in part.parts}) > 1:
        # Each server has its own age and reason, which are shown for its queues.
        return f"no server answers · {age} or more · {_retry_words(part, dashboard)}"
    if failure.kind == ENDED:
        return f"{age} · {printable(failure.words, 160)}"
    return f"{age} · {_retry_words(part, dashboard)}: {printable(failure.sentence, 80)}"


def _retry_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Describe when the next attempt is."""
    if part.paused:
        return "paused"
    connection = part.connection
    doing = "retrying" if connection.fresh_at_s is None else "reconnecting"
    again_s = 0.0 if connection.retry_at_s is None else connection.retry_at_s - dashboard.clock()
    return f"{doing} in {again_s:.0f} s" if again_s >= 0.5 else doing


def why_unread(server: str, failure: Failure) -> list[Piece]:
    """Return why a server cannot be read, and what to try."""
    return [
        (f"  Cannot read {printable(server)}: {printable(failure.sentence, 200)}.", "alarm"),
        (f"  Try: {failure.hint}{'' if failure.hint.endswith('?') else '.'}", ""),
    ]


def why_empty(snapshot: Snapshot, typed: str, dashboard: Dashboard) -> list[Piece]:
    """Return why there are no rows, with the filter ``typed``, and what to do next."""
    failure, replay, keymap = snapshot.connection.failure, dashboard.replay, dashboard.keymap
    if replay is not None and not (typed and snapshot.queues):
        from rsmq_tui.tui.replay.banner import empty_words  # noqa: PLC0415 - live screens need none

        return empty_words(snapshot, replay, keymap)
    if snapshot.connection.fresh_at_s is None:
        if failure is None:
            return [(f"  Connecting to {printable(snapshot.server)} …", "muted")]
        retry, leave = keymap.first_key("refresh"), keymap.first_key("leave")
        words = f"  It retries automatically; {retry} retries now, {leave} quits. `rsmq-tui demo` shows example queues."
        return [*why_unread(snapshot.server, failure), (words, "muted")]
    notes: list[Piece] = [(f"  {printable(note, 200)}", "alarm") for note in snapshot.notes]
    if typed and snapshot.queues:
        return [(f"  No queue matches {printable(typed, 60)}. Press esc to see all.", "muted")]
    others = [printable_ns(name, 40) for name in snapshot.namespaces or () if name != snapshot.ns]
    found = (
        f"Other namespaces: {', '.join(others[:8])}. Press {keymap.first_key('namespace')} to switch."
        if others
        else "No other namespaces were found."
    )
    hint = lists_hint(snapshot.lists)
    return [
        *notes,
        (f"  No queues in namespace {printable(snapshot.ns, 60)}. {found}", ""),
        *_before(snapshot, dashboard),
        *([(f"  {hint[0].upper()}{hint[1:]}", "")] if hint else []),
    ]


def _before(snapshot: Snapshot, dashboard: Dashboard) -> list[Piece]:
    """Return what the namespace held when it was last polled with queues, if this dashboard saw it."""
    last = dashboard.last_with_queues
    if last is None or (last.server, last.ns) != (snapshot.server, snapshot.ns):
        return []
    held = plural(last.totals.depth, "message")
    more = "" if dashboard.events is None else f" {dashboard.keymap.first_key('events')} shows what happened."
    before = ago(snapshot.at_ms - last.at_ms)
    return [(f"  It had {plural(len(last.queues), 'queue')} with {held} {before}.{more}", "alarm")]


# How long after the next numbers were due the last ones are called stale, and how often that is looked at.
_LATE_S = 1.0
FRESHNESS_S = 0.5


def is_stale(snapshot: Snapshot, dashboard: Dashboard) -> bool:
    """Return whether the numbers of a server are old: its last poll failed or is overdue; of several, all are."""
    return all(
        part.connection.failure is not None or _is_late(part, dashboard) for part in snapshot.parts or (snapshot,)
    )


def _is_late(part: Snapshot, dashboard: Dashboard) -> bool:
    fresh_s = part.connection.fresh_at_s
    if dashboard.replay is not None or part.paused or fresh_s is None:
        return False
    # A poll may take twice as long as the last one.
    due_s = part.interval_s + 2 * part.cost.poll_ms / 1000
    return dashboard.clock() - fresh_s > due_s + _LATE_S


# Pieces of the status line with their ranks: of those that do not fit, the highest rank is dropped first.
_Ranked = Sequence[tuple[int, Piece]]
_READ_ONLY, _REFUSAL, _SERVER, _ADDRESS, _ZONE, _PROGRAM, _COUNTS, _NOTE = range(8)


def _width_of(ranked: _Ranked) -> int:
    return cells_of(piece for _, piece in ranked)


def _most_important(ranked: _Ranked, width: int) -> _Ranked:
    """Return the pieces that fit; the counts, then the zone, are dropped before the note if that is enough for it."""
    kept = list(ranked)
    if kept[-1][0] == _NOTE:
        for less in ((), (_COUNTS,), (_COUNTS, _ZONE)):
            rest = [(rank, piece) for rank, piece in ranked if rank not in less]
            if _width_of(rest) <= width:
                return rest
    while kept and _width_of(kept) > width:
        last = max(range(len(kept)), key=lambda index: (kept[index][0], index))
        del kept[last]
    return kept


class StatusLine(Painted):
    """Shows the watched servers on the left; round trip, cost, interval and freshness of the numbers on the right.

    With a ``place``, only its server is shown. The age of stale data counts up while no reply arrives:
    ``stale 12 s · reconnecting in 4 s: …``.
    """

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $panel; }
    """
    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)
    place: var[str | None] = var(None)

    def on_mount(self) -> None:
        """Repaint regularly; nothing is sent unless the text changes."""
        self._began_s = dashboard_of(self.app).clock()
        self.set_interval(FRESHNESS_S, self.repaint)

    def watch_snapshot(self) -> None:
        """Repaint for a new snapshot."""
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the line; what does not fit is dropped, but never the freshness."""
        snapshot = self.snapshot
        if snapshot is None:
            return [self.line(self._connecting())]
        width = self.size.width
        cost, freshness = self._right(snapshot)
        ranked = [(_ZONE, self._zone(snapshot)), *self._left(snapshot)]
        while cost and _width_of(ranked) + cells_of((*cost, *freshness)) > width:
            cost.pop(0)
        kept = _most_important(ranked, width - cells_of((*cost, *freshness)))
        left = [piece for rank, piece in kept if rank != _ZONE]
        right = [*cost, *(piece for rank, piece in kept if rank == _ZONE), *freshness]
        gap = width - cells_of(left) - cells_of(right)
        return [self.line([*left, (" " * max(0, gap), ""), *right])]

    def _connecting(self) -> list[Piece]:
        """Name the servers that have not answered yet, and after a moment for how long."""
        names = ", ".join(dict.fromkeys(printable(server.address, 60) for server in self._servers if server.address))
        waited_s = dashboard_of(self.app).clock() - self._began_s
        since = f" {waited_s:.0f} s" if waited_s >= 1 else ""
        return [(f" rsmq-tui   connecting{' to ' if names else ''}{names} …{since}", "muted")]

    def _left(self, snapshot: Snapshot) -> list[tuple[int, Piece]]:
        ns = printable(snapshot.ns, 40)
        servers = self._servers
        names: list[Piece] = []
        is_one = are_of_one_server(servers)
        for server in servers[:1] if is_one else servers:
            if server.name or not is_one:
                part = snapshot.part(server.place)
                gone = (
                    "✗ "
                    if part.connection.failure is not None
                    else "◌ "
                    if _is_late(part, dashboard_of(self.app))
                    else ""
                )
                # The address beside it has the namespaces of one server.
                title = server.name if is_one else server.title(part.ns)
                names += [(f" {gone}{printable(title, 24)} ", server.colour or "strong"), (" ", "")]
        pieces: list[tuple[int, Piece]] = [(_PROGRAM, (" rsmq-tui  ", "strong"))]
        pieces += [(_SERVER, name) for name in names]
        pieces.append((_ADDRESS, (f" {printable(snapshot.server)} · {ns} ", "")))
        if all(server.read_only for server in servers):
            pieces.append((_READ_ONLY, (" read-only ", "strong")))
        if snapshot.connection.fresh_at_s is not None:
            queues = plural(len(snapshot.queues), "queue")
            pieces.append((_COUNTS, (f"   {queues} · {plural(snapshot.totals.depth, 'message')} ", "")))
            notes = [(_REFUSAL, refusal) for refusal in snapshot.refusals] or [(_NOTE, note) for note in snapshot.notes]
            pieces += [(rank, (f"  ! {printable(note, 50)} ", "alarm")) for rank, note in notes[:1]]
        return pieces

    def _right(self, snapshot: Snapshot) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces before the zone, of which the first ones are dropped first, and those after it."""
        replaying = dashboard_of(self.app).replay
        if replaying is not None:
            from rsmq_tui.tui.replay.banner import freshness  # noqa: PLC0415 - live screens need none

            return [], [freshness(snapshot, replaying)]
        cost = snapshot.cost
        before: list[Piece] = []
        if snapshot.connection.fresh_at_s is not None:
            before = [
                (f"{size(cost.bytes):>9} ", "muted"),
                (f"{count(cost.commands):>3} cmd · ", "muted"),
                (f"{cost.round_trip_ms:5.1f} ms · ", "muted"),
                (f"{snapshot.interval_s:g} s · ", "muted"),
            ]
        recording = self._recording()
        return before, [self._freshness(snapshot), *([recording] if recording else [])]

    @staticmethod
    def _zone(snapshot: Snapshot) -> Piece:
        """Name the time zone of all clock times on the screen: those of axes are there while ages are shown, too.

        For a day after the clocks are changed, both are named, because charts begin before that.
        """
        at_ms = snapshot.at_ms
        zones = dict.fromkeys((zone_words(at_ms - DAY_MS), zone_words(at_ms)))
        return f"times in {', '.join(zones)} ", "muted"

    def _recording(self) -> Piece | None:
        recording = dashboard_of(self.app).recording
        if recording is None:
            return None
        tally = recording.tally
        if tally.is_failing:
            return (f"✗ not recorded: {printable(tally.problem or '', 60)} ", "alarm")
        return ("REC ", "alarm")

    def _freshness(self, snapshot: Snapshot) -> Piece:
        dashboard, connection = dashboard_of(self.app), snapshot.connection
        if connection.failure is not None:
            return (f"✗ {stale_words(snapshot, dashboard)} ", "alarm")
        age_s = None if connection.fresh_at_s is None else max(0.0, dashboard.clock() - connection.fresh_at_s)
        if snapshot.paused:
            return (f"‖ paused · data {age_s or 0:.0f} s old ", "alarm")
        parts = snapshot.parts or (snapshot,)
        stale = [part for part in parts if is_stale(part, dashboard)]
        if not stale:
            return ("● live ", "live")
        if len(stale) == len(parts):
            awaited = "servers" if len({part.server for part in parts}) > 1 else "server"
            return (f"◌ stale {age_s or 0:.0f} s · waiting for the {awaited} ", "alarm")
        sign = "◌" if any(part.connection.failure is None for part in stale) else "✗"
        if len(stale) > 1:
            return (f"{sign} {len(stale)} of {len(parts)} stale ", "alarm")
        (part,) = stale
        title = dashboard.server(part.place).title(part.ns)
        return (f"{sign} {printable(title, 24)}: {age_words(part, dashboard)} ", "alarm")

    @property
    def _servers(self) -> Sequence[WatchedServer]:
        """The servers that the screen shows; in a replay, those that are in the snapshot."""
        dashboard = dashboard_of(self.app)
        if self.place is not None:
            return (dashboard.server(self.place),)
        if dashboard.replay is None or self.snapshot is None or not self.snapshot.parts:
            return dashboard.servers
        there = {part.place for part in self.snapshot.parts}
        return [server for server in dashboard.servers if server.place in there]


# The beginning of the title of a screen that can be left; a click on it goes back.
BACK = " ◀ "


class TextLine(Painted):
    """Shows pieces on as many lines as it has, or needs up to a limit; text that is too long is cut off with …."""

    DEFAULT_CSS = """
    TextLine { height: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces: Sequence[Piece] = ()
        self._height = self._lines_max = 1
        self._width = 0

    def on_resize(self) -> None:
        """Take as many lines as the words need in this width."""
        if self.size.width != self._width:
            self._width = self.size.width
            self.show(self._pieces, self._lines_max)

    def show(self, pieces: Sequence[Piece], lines_max: int = 1, *, keep: bool = False) -> None:
        """Show these pieces, on ``lines_max`` lines at most.

        To ``keep``, on no fewer lines than before, until the width changes: what is below does not jump with each poll.
        """
        self._pieces, self._lines_max = pieces, lines_max
        height = 1
        if lines_max > 1 and self.size:
            height = max(self._height if keep else 1, min(lines_max, len(self._wrapped())))
        if height != self._height:
            self._height = height
            # The height from the style sheet, which may be more than one line.
            self.styles.height = height if height > 1 else None
        self.repaint()

    async def on_click(self, event: events.Click) -> None:
        """Go back if the arrow at the start was clicked, but only once: a second click must not quit."""
        is_arrow = event.y == 0 and event.x < len(BACK) and self._pieces and self._pieces[0][0].startswith(BACK)
        if is_arrow and self.screen.is_active:
            await self.app.run_action("leave")

    def paint(self) -> list[Strip]:
        """Paint the line, or the lines."""
        height = self.size.height
        if height <= 1:
            return [self.clipped(self._pieces)]
        lines = self._wrapped()
        if len(lines) > height:
            last = lines[height - 1].crop(0, self.size.width - 1)
            lines[height - 1] = Strip([*last, Segment("…", self.token("muted"))])
        return lines[:height]

    def _wrapped(self) -> list[Strip]:
        """Wrap the pieces into lines; later lines are indented like the text of the first."""
        text = Text.assemble(*((words, self.token(tokens)) for words, tokens in self._pieces))
        first, *others = text.wrap(self.app.console, max(10, self.size.width - 1)) or [Text()]
        lines = [first, *(Text(" ", self.token("")) + line for line in others)]
        return [strip for line in lines for strip in self.lines_of(line)]


def tab_line(words: Sequence[str], chosen: int) -> list[Piece]:
    """Return the tabs in one line."""
    tabs = (
        (f"[ {text} ]", "strong") if index == chosen else (f"  {text}  ", "muted") for index, text in enumerate(words)
    )
    return [(" ", ""), *tabs]


def tab_alone(words: Sequence[str], chosen: int) -> list[Piece]:
    """Return the chosen tab, with its number among them."""
    return [(f" [ {words[chosen]} ]", "strong"), (f" {chosen + 1}/{len(words)}", "muted")]


_BAR_CELLS = 20


class ChangeLine(Painted):
    """Shows ``deleting  ███████░░░░ 812 / 1,204 · 9 skipped · esc stops``, then the outcome; otherwise hidden."""

    DEFAULT_CSS = """
    ChangeLine { height: 1; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._status: ChangeStatus | None = None

    def show(self, status: ChangeStatus | None) -> None:
        """Show this state; None hides the line."""
        self._status = status
        self.display = status is not None
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the line."""
        status, dashboard = self._status, dashboard_of(self.app)
        if status is None:
            return []
        if not status.is_running:
            may_undo = status.may_undo and dashboard.changes.is_undoable
            undoes = f" · {dashboard.keymap.first_key('undo')} undoes" if may_undo else ""
            return [self.clipped([(f" {printable(status.words)}{undoes}", "alarm" if status.is_alarm else "strong")])]
        end = "stopping after the current batch" if status.is_stopping else "esc stops"
        numbers = (
            f"{count(status.handled)} / {count(status.planned)}"
            if status.planned is not None
            else count(status.handled)
        )
        counts = [numbers if status.handled or status.planned is not None else ""]
        counts += [
            f"{count(number)} {word}"
            for number, word in ((status.skipped, "skipped"), (status.failed, "failed"))
            if number
        ]
        words = " · ".join([*filter(None, counts), end])
        room = self.size.width - cell_len(status.words) - len(words) - 5
        pieces: list[Piece] = [(f" {printable(status.words)}  ", "strong"), *self._bar(status, min(room, _BAR_CELLS))]
        return [self.clipped([*pieces, (words, "")])]

    def _bar(self, status: ChangeStatus, cells: int) -> list[Piece]:
        if status.planned is None or cells < 4:
            return []
        done = round(cells * min(1.0, status.handled / max(1, status.planned)))
        return [("█" * done, "spark"), ("░" * (cells - done) + " ", "muted")]


_WIDE = 100


class KeyHints(Painted):
    """Shows the hints of ``keys``, as many as fit; pinned ones come last and are always shown."""

    DEFAULT_CSS = """
    KeyHints { height: 1; background: $panel; }
    """

    def __init__(self, keys: Callable[[], Sequence[Key]]) -> None:
        super().__init__()
        self._keys = keys
        # The visible hints: the cells where each begins and ends, and its key.
        self._spans: list[tuple[int, int, Key]] = []

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the hint that was clicked, unless an earlier click has left the screen."""
        if not self.screen.is_active:
            return
        clicked = next((key.id for start, end, key in self._spans if start <= event.x < end), None)
        for active in self.screen.active_bindings.values():
            if clicked is not None and active.binding.id == clicked and active.enabled:
                await self.app.run_action(active.binding.action, active.node)
                return

    def paint(self) -> list[Strip]:
        """Paint key and word, one after the other."""
        keymap, hints = dashboard_of(self.app).keymap, self._keys()
        pinned = [key for key in hints if key.pinned]
        # On a narrow screen, hints are more important than wide gaps.
        gap = 2 if self.size.width < _WIDE else 3
        # There is no gap after the last.
        left = self.size.width - 1 + gap - sum(_width(keymap, key, gap) for key in pinned)
        shown = []
        for key in hints:
            if key.pinned:
                continue
            left -= _width(keymap, key, gap)
            if left < 0:
                break
            shown.append(key)
        pieces: list[Piece] = [(" ", "")]
        self._spans = []
        start = 1
        for key in (*shown, *pinned):
            pieces += [(f"{keymap.hint_keys(key)} ", "head"), (f"{key.hint}{' ' * gap}", "muted")]
            self._spans += _spans_of(keymap, key, start)
            start += _width(keymap, key, gap)
        return [self.line(pieces)]


def fitting(ranked: Iterable[tuple[int, Piece]], width: int) -> list[Piece]:
    """Return the pieces that fit into ``width`` cells, in their order.

    Those with the highest rank are left out first; 0 always stays.
    """
    kept = list(ranked)
    while cells_of(piece for _, piece in kept) > width and any(rank for rank, _ in kept):
        kept.remove(max(kept, key=itemgetter(0)))
    return [piece for _, piece in kept]


def cells_of(pieces: Iterable[Piece]) -> int:
    """Return the width of pieces, in cells."""
    return sum(cell_len(text) for text, _ in pieces)


def _spans_of(keymap: Keymap, key: Key, start: int) -> Iterator[tuple[int, int, Key]]:
    """Yield the cells of a hint that begins at ``start``, with their key: a pair has both."""
    word = start + len(keymap.hint_keys(key)) + 1
    if (pair := keymap.pair_of(key)) is not None:
        yield start, start + len(key.first), key
        start += len(key.first) + 1
        yield start, start + len(pair.first), pair
        start += len(pair.first) + 1
    yield start, word + len(key.hint), key


def _width(keymap: Keymap, key: Key, gap: int) -> int:
    return len(keymap.hint_keys(key)) + 1 + len(key.hint) + gap
