"""The pane of the history screen: the charts, and everything that is known of the row under the cursor."""

import textwrap
from collections.abc import Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from rsmq_tui.history.analysis.values import QueueRef
from rsmq_tui.monitor.text import duration, printable
from rsmq_tui.tui.history.loading import Lists, moment
from rsmq_tui.tui.history.pages import Page, PastCharts, PastContext, trouble_token, trouble_words
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.pane import Pane
from rsmq_tui.tui.widgets.text_view import LineView

_LABEL = 11
_TEXT_MAX = 1_000


class PastPane(Pane[None]):
    """Shows the charts; beside or below the table also each value of the row, and the incidents of its queue."""

    def __init__(self, charts: PastCharts) -> None:
        super().__init__()
        self._charts = charts
        self._details = LineView(id="row")
        self._details.can_focus = False
        self._shown: tuple[Page, Any, QueueRef | None, Lists, PastContext] | None = None

    def compose(self) -> ComposeResult:
        """The charts, and the details."""
        yield self._charts
        with Vertical(classes="parts"):
            yield self._details

    def show(self, page: Page, row: Any, ref: QueueRef | None, lists: Lists, context: PastContext) -> None:
        """Show a row of a page, None if there is none, and the incidents of a queue."""
        self._shown = page, row, ref, lists, context
        self._show_lines()

    @on(LineView.Resized)
    def _show_lines(self) -> None:
        width = self._details.size.width
        if self._shown is not None and width:
            self._details.show(detail_lines(*self._shown, width))


def detail_lines(
    page: Page, row: Any, ref: QueueRef | None, lists: Lists, context: PastContext, width: int
) -> list[Sequence[Piece]]:
    """Return each value of a row, None if there is none, its text in full, and the incidents of a queue."""
    lines: list[Sequence[Piece]] = []
    if row is not None:
        for column in page.columns:
            cell = column.cell(row, context)
            text = "".join(text for text, _ in ([cell] if isinstance(cell, tuple) else cell))
            if column.title and text:
                style = cell[1] if isinstance(cell, tuple) else ""
                lines.append([(f"{column.title:<{_LABEL}} ", "muted"), (printable(text, _TEXT_MAX), style)])
        if wrapped := textwrap.wrap(printable(page.told(row), _TEXT_MAX), width):
            lines += [[], *([(line, "")] for line in wrapped)]
    incidents = [one for one in lists.incidents if ref is not None and one.ref == ref]
    if ref is not None and incidents:
        lines += [[]] if lines else []
        lines.append([(f"INCIDENTS of {printable(context.name(ref), 60)}", "head")])
    for one in reversed(incidents):
        when, worst = f"{moment(one.start_ms)} {duration(one.length_ms):>8} ", printable(trouble_words(one.worst), 30)
        lines.append([(when, "muted"), (f"{worst} ", trouble_token(one.worst)), (printable(one.cause, 300), "")])
    return lines
