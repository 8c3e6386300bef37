"""The line at the top of every screen: where we are, how fresh it is, and what looking costs."""

from collections.abc import Sequence
from typing import cast

from rich.cells import cell_len
from textual.reactive import reactive
from textual.strip import Strip

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.wording import count, plural, printable, size
from rsmq_tui.tui.host import Dashboard
from rsmq_tui.tui.overview_words import stale_words
from rsmq_tui.tui.sites import Site, are_of_one_server
from rsmq_tui.tui.widgets.painted import Painted, Piece


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
        kept = 1 if cast("Dashboard", self.app).recording is None else 2
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
        replaying = cast("Dashboard", self.app).replay
        if replaying is not None:
            from rsmq_tui.tui.replay_words import freshness  # noqa: PLC0415 - live screens need none

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
        recording = cast("Dashboard", self.app).recording
        if recording is None:
            return None
        tally = recording.tally
        if tally.is_failing:
            return (f"{'X' if self.ascii_only else '✗'} not recorded: {printable(tally.problem or '', 60)} ", "alarm")
        return ("REC ", "alarm")

    def _freshness(self, snapshot: Snapshot) -> Piece:
        dashboard, link = cast("Dashboard", self.app), snapshot.link
        if link.failure is not None:
            return (f"{'X' if self.ascii_only else '✗'} {stale_words(snapshot, dashboard)} ", "alarm")
        age_s = None if link.fresh_at_s is None else max(0.0, dashboard.clock() - link.fresh_at_s)
        if snapshot.paused:
            return (f"{'=' if self.ascii_only else '‖'} paused · data {age_s or 0:.0f} s old ", "alarm")
        if age_s is not None and age_s > 2 * snapshot.interval_s + 1.5:
            return (f"{'?' if self.ascii_only else '◌'} stale {age_s:.0f} s · waiting for the server ", "alarm")
        return (f"{'o' if self.ascii_only else '●'} live ", "live")

    @property
    def _sites(self) -> Sequence[Site]:
        """The servers that the screen shows; in a replay, those that were there at its moment."""
        dashboard, place = cast("Dashboard", self.app), getattr(self.screen, "place", None)
        if place is not None:
            return (dashboard.site(place),)
        if dashboard.replay is None or self.snapshot is None or not self.snapshot.parts:
            return dashboard.sites
        there = {part.place for part in self.snapshot.parts}
        return [site for site in dashboard.sites if site.place in there]


def _width(pieces: list[Piece]) -> int:
    return sum(cell_len(text) for text, _ in pieces)
