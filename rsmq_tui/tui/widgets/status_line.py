"""The line at the top of every screen, and the text shown where there is no data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive
from textual.strip import Strip

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import count, duration, plural, printable, size
from rsmq_tui.protocol import ENDED
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.replay.banner import empty_words, outage_words
from rsmq_tui.tui.replay.session import ReplaySession
from rsmq_tui.tui.servers import WatchedServer, are_of_one_server
from rsmq_tui.tui.widgets.painted import Painted, Piece

if TYPE_CHECKING:
    pass


def age_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Say how old the numbers of a server are that does not answer."""
    fresh_s = part.link.fresh_at_s
    if fresh_s is None:
        return "no data yet"
    if dashboard.replay is not None:
        return f"stale {duration(dashboard.replay.position_ms - fresh_s * 1000)}"
    return f"stale {max(0.0, dashboard.clock() - fresh_s):.0f} s"


def stale_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Say how old the numbers of a server are that does not answer, when it is asked again, and why."""
    if dashboard.replay is not None:
        return outage_words(part, dashboard.replay)
    failure, age = part.link.failure, age_words(part, dashboard)
    if len({each.server for each in part.parts}) > 1:
        # Each of them has its own age and its own reason, which its queues tell.
        return f"no server answers · {age} or more · {_retry_words(part, dashboard)}"
    if failure is not None and failure.kind == ENDED:
        return f"{age} · {printable(failure.sentence, 80)}: {printable(failure.hint, 80)}"
    return f"{age} · {_retry_words(part, dashboard)}: {printable(failure.sentence if failure else '', 80)}"


def _retry_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Say when a server that does not answer is asked again."""
    if part.paused:
        return "paused"
    link = part.link
    doing = "retrying" if link.fresh_at_s is None else "reconnecting"
    again_s = 0.0 if link.retry_at_s is None else link.retry_at_s - dashboard.clock()
    return f"{doing} in {again_s:.0f} s" if again_s >= 0.5 else doing


def why_empty(snapshot: Snapshot, typed: str, replay: ReplaySession | None) -> list[Piece]:
    """Say why there is no row, ``typed`` being what is looked for, and what to do next."""
    failure = snapshot.link.failure
    if replay is not None and not (typed and snapshot.queues):
        return empty_words(snapshot, replay)
    if snapshot.link.fresh_at_s is None:
        if failure is None:
            return [(f"  Connecting to {printable(snapshot.server)} …", "muted")]
        return [
            (f"  Cannot read {printable(snapshot.server)}: {printable(failure.sentence, 200)}.", "alarm"),
            (f"  Try: {failure.hint}{'' if failure.hint.endswith('?') else '.'}", ""),
            ("  It retries automatically; r retries now, q quits. `rsmq-tui demo` shows example queues.", "muted"),
        ]
    notes: list[Piece] = [(f"  {printable(note, 200)}", "alarm") for note in snapshot.notes]
    if typed and snapshot.queues:
        return [(f"  No queue matches {printable(typed, 60)}. Press esc to see all.", "muted")]
    others = [printable(name, 40) or "(no prefix)" for name in snapshot.namespaces or () if name != snapshot.ns]
    found = (
        f"Other namespaces: {', '.join(others[:8])}. Press n to switch."
        if others
        else "No other namespaces were found."
    )
    return [*notes, (f"  No queues in namespace {printable(snapshot.ns, 60)}. {found}", "")]


class StatusLine(Painted):
    """Left: what is watched. Right: round trip, cost, interval, and whether the numbers are live.

    Stale data is said in words that count on while nothing comes: ``stale 12 s · reconnecting in 4 s: …``.
    """

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $panel; }
    """
    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)

    def __init__(self, left: Piece | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.left: tuple[Piece, ...] | None = None if left is None else (left,)

    def on_mount(self) -> None:
        """Look at the clock twice a second; nothing is sent unless the words change."""
        self.set_interval(0.5, self.repaint)

    def watch_snapshot(self) -> None:
        """Show the news."""
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the line; what does not fit is dropped from the middle outwards, the freshness never."""
        snapshot = self.snapshot
        if snapshot is None:
            return [self.line([(" rsmq-tui   connecting …", "muted")])]
        width = self.size.width
        left, right = self._left(snapshot), self._right(snapshot)
        kept = 1 if dashboard_of(self.app).recording is None else 2
        while len(right) > kept and _width(left) + _width(right) > width:
            right.pop(0)
        while len(left) > 1 and _width(left) + _width(right) > width:
            left.pop()
        gap = width - _width(left) - _width(right)
        return [self.line([*left, (" " * max(0, gap), ""), *right])]

    def _left(self, snapshot: Snapshot) -> list[Piece]:
        if self.left is not None:
            return list(self.left)
        ns = printable(snapshot.ns, 40)
        sites = self._sites
        names: list[Piece] = []
        is_one = are_of_one_server(sites)
        for site in sites[:1] if is_one else sites:
            if site.name or not is_one:
                part = snapshot.part(site.place)
                gone = "" if part.link.failure is None else "x " if self.ascii_only else "✗ "
                names += [(f" {gone}{printable(site.title(part.ns), 24)} ", site.colour or "strong"), (" ", "")]
        pieces: list[Piece] = [(" rsmq-tui  ", "strong"), *names, (f" {printable(snapshot.server)} · {ns} ", "")]
        if all(site.read_only for site in sites):
            pieces.append((" read-only ", "strong"))
        if snapshot.link.fresh_at_s is not None:
            queues = plural(len(snapshot.queues), "queue")
            pieces.append((f"   {queues} · {plural(snapshot.totals.depth, 'message')} ", ""))
            pieces += [(f"  ! {printable(note, 50)} ", "alarm") for note in snapshot.notes[:1]]
        return pieces

    def _right(self, snapshot: Snapshot) -> list[Piece]:
        replaying = dashboard_of(self.app).replay
        if replaying is not None:
            from rsmq_tui.tui.replay.banner import freshness  # noqa: PLC0415 - live screens need none

            return [freshness(snapshot, replaying, ascii_only=self.ascii_only)]
        cost = snapshot.cost
        pieces: list[Piece] = []
        if snapshot.link.fresh_at_s is not None:
            pieces = [
                (f"{size(cost.bytes):>9} ", "muted"),
                (f"{count(cost.commands):>3} cmd · ", "muted"),
                (f"{cost.round_trip_ms:5.1f} ms · ", "muted"),
                (f"{snapshot.interval_s:g} s · ", "muted"),
            ]
        pieces.append(self._freshness(snapshot))
        if recording := self._recording():
            pieces.append(recording)
        return pieces

    def _recording(self) -> Piece | None:
        recording = dashboard_of(self.app).recording
        if recording is None:
            return None
        tally = recording.tally
        if tally.is_failing:
            return (f"{'X' if self.ascii_only else '✗'} not recorded: {printable(tally.problem or '', 60)} ", "alarm")
        return ("REC ", "alarm")

    def _freshness(self, snapshot: Snapshot) -> Piece:
        dashboard, link = dashboard_of(self.app), snapshot.link
        if link.failure is not None:
            return (f"{'X' if self.ascii_only else '✗'} {stale_words(snapshot, dashboard)} ", "alarm")
        age_s = None if link.fresh_at_s is None else max(0.0, dashboard.clock() - link.fresh_at_s)
        if snapshot.paused:
            return (f"{'=' if self.ascii_only else '‖'} paused · data {age_s or 0:.0f} s old ", "alarm")
        if age_s is not None and age_s > 2 * snapshot.interval_s + 1.5:
            return (f"{'?' if self.ascii_only else '◌'} stale {age_s:.0f} s · waiting for the server ", "alarm")
        return (f"{'o' if self.ascii_only else '●'} live ", "live")

    @property
    def _sites(self) -> Sequence[WatchedServer]:
        """The servers that the screen shows; in a replay, those that were there at its moment."""
        dashboard, place = dashboard_of(self.app), getattr(self.screen, "place", None)
        if place is not None:
            return (dashboard.site(place),)
        if dashboard.replay is None or self.snapshot is None or not self.snapshot.parts:
            return dashboard.sites
        there = {part.place for part in self.snapshot.parts}
        return [site for site in dashboard.sites if site.place in there]


def _width(pieces: list[Piece]) -> int:
    return sum(cell_len(text) for text, _ in pieces)
