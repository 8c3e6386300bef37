"""The audit screen: findings in a table, details of each, and fixes."""

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.widgets import Static

from rsmq_tui.monitor import PeekError, Snapshot
from rsmq_tui.monitor.text import NO_NAME, count, plural, printable
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.controls import label_table
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column, RowTable

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.findings import Finding
    from rsmq_tui.monitor.audit.rsmq import AuditProgress


def finding_key(finding: "Finding") -> str:
    """Return the unique key of a finding."""
    return f"{finding.kind} {finding.queue}"


def _severity(finding: "Finding", _: str) -> Piece:
    if finding.words.severity == "error":
        return f"✗ {finding.words.severity}", "verdict-broken"
    return f"▲ {finding.words.severity}", "verdict-growing"


FINDING_COLUMNS: tuple[Column["Finding", str], ...] = (
    Column("severity", "SEVERITY", 9, _severity),
    Column("queue", "QUEUE", 16, lambda finding, _: (finding.queue or NO_NAME, "strong"), width_max=32),
    Column("what", "WHAT", 20, lambda finding, _: (finding.what, ""), grow=True),
    Column("fix", "FIX", 8, lambda finding, key: (_fix(finding, key), "muted"), drop=1),
)


def _fix(finding: "Finding", key: str) -> str:
    if finding.fix is None:
        return "manual"
    return "on request" if finding.asks else f"{key} fixes"


# Findings beyond these are only counted.
FINDINGS_MAX = 10_000
_SHOWN_EVERY_S = 0.1
_DETAILS = ("which", "made by", "effect", "fix")


class AuditScreen(DashboardScreen):
    """Shows the findings of an audit of one queue, or of all queues of a namespace, as they are found."""

    WHERE: ClassVar[tuple[Where, ...]] = ("audit", "table")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("audit")

    def __init__(self, queue: str | None, place: str = "") -> None:
        super().__init__(place)
        self.queue = queue
        self.table = RowTable(FINDING_COLUMNS, "", id="findings", on_open=self._open)
        self._title = TextLine(id="title")
        self._details = Static(id="details", markup=False)
        self.parts = (self._title, self.table, self._details)
        self._explained: tuple[Finding | None, str] | None = None
        self._found: list[Finding] = []
        self._progress: AuditProgress | None = None
        self._is_running = False
        self._is_asked_again = False
        self._ns: str | None = None
        self._error: str | None = None

    def on_mount(self) -> None:
        """Start the audit."""
        self.table.focus()
        self._audit()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the findings; a poll changes them only if it shows that the namespace was switched."""
        if self._ns is not None and snapshot.ns != self._ns:
            self._ns = None
            self._audit()
        self._show()

    def refresh_unpolled(self) -> None:
        """Audit again."""
        self._audit()

    def _open(self, finding: "Finding") -> None:
        self.dashboard.navigation.open_queue(finding.queue, self.server.place)

    @on(RowTable.Moved)
    def _follow_cursor(self) -> None:
        self._show_details()

    def action_fix(self) -> None:
        """Preview the fix of the findings in the queue under the cursor."""
        chosen = self.table.cursor_row
        if chosen is None:
            self.warn("there is nothing to fix")
            return
        if chosen.fix is None:
            self.warn("there is no safe fix: check it manually")
            return
        # A finding that may be valid for another client is fixed only if the cursor is on it.
        others = [finding for finding in self._found if finding.queue == chosen.queue and finding is not chosen]
        findings = [chosen, *(finding for finding in others if finding.fix is not None and not finding.asks)]
        self.dashboard.changes.fix(self.server, chosen.queue, tuple(findings), self._ns)

    @property
    def undo_scope(self) -> tuple[WatchedServer, str | None]:
        """The last change of the queue, or of the namespace if all of its queues are audited."""
        return self.server, self.queue

    def _follow_change(self, status: ChangeStatus) -> None:
        if self._is_running:
            self._is_asked_again = True
        else:
            self._audit()

    @work(group="audit", exclusive=True)
    async def _audit(self) -> None:
        # A cancelled audit may take a moment to end, and must not add its findings to the newer one.
        found: list[Finding] = []
        self._found = found
        self._progress, self._error, self._is_running, self._is_asked_again = None, None, True, False
        self._ns = self.snapshot.ns if self.snapshot is not None else None
        self._show()
        queues = None if self.queue is None else (self.queue,)
        shown_s = 0.0
        try:
            async with aclosing(self.server.source.audit(queues)) as steps:
                async for progress in steps:
                    if self._found is not found:
                        return
                    self._progress = progress
                    found += progress.findings[: FINDINGS_MAX - len(found)]
                    # Showing the table costs time for each row in it.
                    if time.monotonic() >= shown_s + _SHOWN_EVERY_S:
                        self._show()
                        shown_s = time.monotonic()
        except PeekError as error:
            if self._found is found:
                self._error = str(error)
        finally:
            if self._found is found:
                self._is_running = False
        if self._found is not found:
            return
        self._show()
        if self._is_asked_again:
            self._audit()

    def _show(self) -> None:
        self._title.show(self._head())
        self.table.empty_text = [("  No problems found.", "ready")] if self._is_clean else []
        keys = [finding_key(finding) for finding in self._found]
        self.table.show(self._found, keys, self.dashboard.keymap.first_key("fix"))
        self._show_details()

    @property
    def _is_clean(self) -> bool:
        progress = self._progress
        is_seen = progress is not None and not progress.unseen
        return is_seen and not (self._is_running or self._error or self._found)

    def _head(self) -> list[Piece]:
        where = f" on {printable(self.server.title(self._ns or ''), 40)}" if self.server.place else ""
        what = f"all queues{where}" if self.queue is None else f"{printable(self.queue, 60)}{where}"
        pieces: list[Piece] = [(f" ◀ audit of {what}   ", "strong")]
        if self._error is not None:
            return [*pieces, (printable(self._error, 200), "alarm")]
        progress = self._progress
        if progress is not None:
            looked = f"{plural(progress.queues, 'queue')}, {count(progress.examined)} messages and fields checked"
            pieces.append((f"{plural(progress.found, 'finding')}", "strong"))
            pieces += [(f"   ! {printable(sentence, 120)}", "alarm") for sentence in progress.unseen]
            pieces.append((f" · {progress.words if self._is_running else looked}", ""))
            if progress.found > FINDINGS_MAX:
                pieces.append((f" · first {count(FINDINGS_MAX)} shown", "muted"))
            if progress.young:
                pieces.append((f" · {count(progress.young)} sent less than a minute ago: not checked", "muted"))
        if self._is_running:
            where = "" if progress is None or progress.queue is None else f" {printable(progress.queue, 40)}"
            pieces.append((f"   checking{where} …", "muted"))
        return pieces

    def _show_details(self) -> None:
        finding = self.table.cursor_row
        before, self._explained = self._explained, (finding, self.app.theme)
        if self._explained == before:
            return
        self._details.display = finding is not None
        if finding is None:
            return
        more = ", …" if finding.ids and finding.count > len(finding.ids) else ""
        fix = finding.fix or finding.hint or "no safe fix: check it manually"
        ids = ", ".join(printable(id, 60) for id in finding.ids) + more
        values = (ids, finding.words.maker, finding.words.effect, fix)
        pairs = [(f" {label:<10}", printable(value)) for label, value in zip(_DETAILS, values, strict=True) if value]
        self._details.update(label_table(self.app, pairs, gap=0))
