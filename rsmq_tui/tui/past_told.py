"""What the history screen says in words: where its numbers come from, of which time, and why there are none."""

import textwrap
from collections.abc import Sequence
from typing import Any

from rsmq_tui.history.analysis.values import Episode, QueueRef, TimeRange
from rsmq_tui.monitor.wording import clock, plural, printable
from rsmq_tui.tui.past import said
from rsmq_tui.tui.past_columns import PastContext, trouble_token, trouble_words
from rsmq_tui.tui.past_loading import Shown
from rsmq_tui.tui.past_pages import Page
from rsmq_tui.tui.widgets.painted import Piece

_NARROW = 60


def source_pieces(shown: Shown, out: str) -> list[Piece]:
    """Say which analysis is shown, that it is not live, and what is missing in it."""
    made = "" if shown.made_ms is None else f"   created {clock(shown.made_ms, date=True)[:16]} UTC"
    pieces: list[Piece] = [
        (" rsmq-tui  ", "strong"),
        (f"HISTORY (read-only) · {printable(shown.label or out, 60)}", ""),
        (made, "muted"),
    ]
    # Each begins with where the analysis is, which is said already.
    problems = [printable(problem.removeprefix(f"{shown.label}/"), 120) for problem in shown.problems]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return [*pieces, *((f"   ! {problem}{more}", "alarm") for problem in problems[:1])]


def range_pieces(span: TimeRange | None, marked: str, width: int, *, ascii_only: bool) -> list[Piece]:
    """Say which range is shown, and what is marked."""
    back = "<" if ascii_only else "◀"
    head = f" {back} history  " if width >= _NARROW else f" {back} "
    return [
        (head, "strong"),
        ("" if span is None else said(span), ""),
        (f"   {marked} marked" if marked else "", "strong"),
    ]


def queues_words(refs: Sequence[QueueRef], known: int, context: PastContext) -> str:
    """Name a queue, or say how many of the ``known`` ones are meant."""
    if len(refs) == 1:
        return printable(context.name(refs[0]), 60)
    return f"all {plural(len(refs), 'queue')}" if len(refs) == known else plural(len(refs), "queue")


def row_pieces(page: Page, row: Any, *, ascii_only: bool) -> list[Piece]:
    """Say in full what a row of a page cuts off; nothing where there is none."""
    if row is None:
        return []
    pieces: list[Piece] = [(" ", "")]
    if isinstance(row, Episode):
        words = trouble_words(row.verdict, ascii_only)
        pieces.append((f"{printable(words, 30)} ", trouble_token(row.verdict)))
    return [*pieces, (printable(page.told(row), 300), "")]


def why_empty(shown: Shown, page: Page, typed: str, width: int, of: str = "") -> list[Piece]:
    """Say why a page has no rows, ``of`` one queue or of all, and what to do, in lines of that width."""
    told = _why_empty(shown, page, typed, of)
    return [(f"  {line}", style) for words, style in told for line in _wrapped(words, width)]


def _why_empty(shown: Shown, page: Page, typed: str, of: str) -> list[Piece]:
    if shown.failure is not None:
        return [(printable(shown.failure, 300), "alarm"), ("r retries.", "muted")]
    if shown.made_ms is None:
        return [("loading …", "muted")]
    if shown.whole is None:
        history, out = printable(shown.history, 100) or "DIR", printable(shown.label, 100)
        return [
            ("This analysis is empty. Record some history, then run:", "muted"),
            (f"rsmq-tui pipeline run --history {history} --out {out}", ""),
        ]
    if typed:
        return [(f"Nothing matches {printable(typed, 60)}. Press esc to see all.", "muted")]
    if of:
        return [(f"{of} had no problems in this time. Press esc to go back.", "muted")]
    return [(page.empty, "muted")]


def _wrapped(words: str, width: int) -> list[str]:
    return textwrap.wrap(words, max(12, width - 4), break_on_hyphens=False)
