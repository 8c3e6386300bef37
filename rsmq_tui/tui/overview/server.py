"""The server screen: memory, clients, replication, persistence and latency of one server, and its problems."""

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType

from rsmq_tui.monitor import PeekError, Snapshot
from rsmq_tui.monitor.poller import KnowsServer
from rsmq_tui.monitor.server import CheckLevel, status_results
from rsmq_tui.monitor.text import clock, printable, zone_words
from rsmq_tui.protocol.server.status import ServerStatus
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.lines import TextLine, why_unread
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.text_view import LineView

# INFO is read at most this often, and only while the screen is shown.
_READ_EVERY_S = 2.0
_SIGNS = {
    CheckLevel.OK: ("  ", ""),
    CheckLevel.WARN: ("▲ ", "verdict-growing"),
    CheckLevel.FAIL: ("✗ ", "verdict-broken"),
}
# The second part of a result's name -> its label, if it differs.
_LABELS = {
    "kind": "server",
    "memory_full": "memory full",
    "disk": "last save",
    "saved": "last save",
    "replica": "replicas",
    "aof": "AOF",
    "aof_rewrite": "AOF rewrite",
    "slow": "slow log",
}
_LABEL_WIDTH = 13
_WIDTH_MIN = 20


class ServerScreen(DashboardScreen):
    """Shows the results about one server, or about each node of a cluster; ``h`` and ``l`` show other servers.

    The status is read after a poll, so not while polls are paused or fail.
    """

    WHERE: ClassVar[tuple[Where, ...]] = ("server", "lines")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("server")
    AUTO_FOCUS = "LineView"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._title = TextLine(id="title")
        self._view = LineView()
        self.parts = (self._title, self._view)
        self._forget()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the last status with the round trip of this poll, and read it again if it is time."""
        self._show()
        is_answering = snapshot.connection.failure is None and snapshot.connection.fresh_at_s is not None
        if is_answering and not self._is_reading and self.dashboard.clock() >= self._due_s:
            self._read()

    def refresh_unpolled(self) -> None:
        """Read the status after the next poll."""
        self._due_s = float("-inf")

    def action_turn(self, step: int) -> None:
        """Show the next or the previous server."""
        places = self._places()
        if len(places) > 1 and self.snapshot is not None:
            shown = self._index(places)
            self.place = places[(shown + step) % len(places)]
            self._forget()
            self.receive_snapshot(self.dashboard.snapshot)

    def leads_somewhere(self, action: str) -> bool:
        """Return False for other servers if there is only one."""
        return super().leads_somewhere(action) and (not action.startswith("turn") or len(self._places()) > 1)

    def _forget(self) -> None:
        self._statuses: Sequence[ServerStatus] = ()
        self._earlier: Sequence[ServerStatus] = ()
        self._error: str | None = None
        self._is_reading = False
        self._due_s = float("-inf")

    def _places(self) -> list[str]:
        """Return a place of each server; a server may have several."""
        dashboard = self.dashboard
        of_server: dict[str, str] = {}
        for server in dashboard.servers:
            part = dashboard.part(server.place)
            of_server.setdefault((part.server if part is not None else "") or server.place, server.place)
        return list(of_server.values())

    def _index(self, places: Sequence[str]) -> int:
        address = self.snapshot.server if self.snapshot is not None else ""
        parts = [self.dashboard.part(place) for place in places]
        return next((index for index, part in enumerate(parts) if part is not None and part.server == address), 0)

    @work(group="server", exclusive=True)
    async def _read(self) -> None:
        place, source = self.place, self.server.source
        if not isinstance(source, KnowsServer):
            self._error = "the status of this server cannot be read"
            return
        self._is_reading, self._due_s = True, self.dashboard.clock() + _READ_EVERY_S
        try:
            statuses, error = await source.server(), None
        except PeekError as failed:
            statuses, error = (), str(failed)
        if self.place != place:
            # Meanwhile, another server is shown.
            return
        self._is_reading = False
        self._earlier, self._statuses, self._error = self._statuses, statuses or self._statuses, error
        if statuses and all(status.is_refused for status in statuses):
            # The server logs each refusal in its ACL LOG.
            self._due_s = float("inf")
        self._show()

    @on(LineView.Resized)
    def _show(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        places = self._places()
        pieces: list[Piece] = [(" ◀ ", "muted"), (printable(snapshot.server, 60), "strong")]
        if len(places) > 1:
            pieces.append((f"   server {self._index(places) + 1} of {len(places)}", ""))
        if self._statuses and self._statuses[0].at_ms is not None:
            pieces.append(
                (
                    f"   as of {clock(self._statuses[0].at_ms).split('.')[0]} {zone_words(self._statuses[0].at_ms)}",
                    "muted",
                )
            )
        if self._error is not None:
            pieces.append((f"   ! {printable(self._error, 200)}", "alarm"))
        self._title.show(pieces)
        lines: list[list[Piece]] = []
        before = {status.node: status for status in self._earlier}
        for status in self._statuses:
            if status.node:
                lines += [[], [(f" node {printable(status.node, 60)}", "head")]]
            lines += self._lines_of(status, before.get(status.node))
        if lines:
            trip = f"{snapshot.cost.round_trip_ms:.1f} ms, by the last poll"
            lines += self._row("round trip", trip, CheckLevel.OK)
        elif (failure := snapshot.connection.failure) is not None:
            lines = [[piece] for piece in why_unread(snapshot.server, failure)]
        elif self._error is None:
            lines = [[("  reading …", "muted")]]
        self._view.show(lines, stay=True)

    def _lines_of(self, status: ServerStatus, earlier: ServerStatus | None) -> list[list[Piece]]:
        lines: list[list[Piece]] = []
        last = ""
        for result in status_results(status, earlier, self.snapshot):
            name = result.name.partition(".")[2]
            # Findings of a kind are numbered: slow_0, slow_1.
            name = name.rpartition("_")[0] if name[-1].isdigit() else name
            label = _LABELS.get(name, name)
            lines += self._row("" if label == last else label, result.text, result.level, result.hint)
            last = label
        return lines

    def _row(self, label: str, text: str, level: CheckLevel, hint: str = "") -> list[list[Piece]]:
        """Lay out a result: its label and sign, the text beside them, and the hint below."""
        sign, token = _SIGNS[level]
        indent = _LABEL_WIDTH + len(sign) + 1
        width = max(_WIDTH_MIN, self._view.size.width - indent - 1)
        heads: list[Piece] = [(f" {label:<{_LABEL_WIDTH}}", "head"), (sign, token)]
        lines: list[list[Piece]] = []
        for words, style in ((text, token), (f"→ {hint}" if hint else "", "muted")):
            for part in wrap(words, width, break_on_hyphens=False):
                lines.append([*([(" " * indent, "")] if lines else heads), (part, style)])
        return lines
