"""What is said of one queue above its messages: verdict and reason, attributes and counters, and its recent past."""

from collections.abc import Iterable

from rsmq_tui.charts import Series
from rsmq_tui.monitor import QueuePoint, QueueState, Snapshot, Thresholds, reason
from rsmq_tui.monitor.wording import clock, compact, count, printable, rate, seconds, size
from rsmq_tui.tui.signs import sign
from rsmq_tui.tui.widgets.painted import Piece


def title_pieces(
    queue: str, state: QueueState | None, snapshot: Snapshot, thresholds: Thresholds, *, ascii_only: bool
) -> list[Piece]:
    """Say the queue's name, its verdict and why."""
    pieces: list[Piece] = [(" < " if ascii_only else " ◀ ", "muted"), (printable(queue, 80), "strong")]
    if state is not None:
        words = reason(state, snapshot.at_ms, thresholds)
        pieces.append((f"   {sign(state.verdict, ascii_only)} {state.verdict}", f"verdict-{state.verdict}"))
        pieces.append((f": {words}", ""))
    elif snapshot.link.fresh_at_s is not None:
        pieces.append(("   this queue is gone: it was deleted, or its namespace was switched", "alarm"))
    return pieces


def fact_pieces(state: QueueState | None) -> list[Piece]:
    """Say its attributes and counters, and what is odd about it."""
    if state is None:
        return []
    maxsize = "unlimited" if state.maxsize == -1 else size(state.maxsize)
    words = (
        f" vt {seconds(state.vt_s)} · delay {seconds(state.delay_s)} · max {maxsize}"
        f" · sent {count(state.totalsent)} · received {count(state.totalrecv)}"
        f" · created {clock(state.created_ms, date=True)[:16]}"
    )
    pieces: list[Piece] = [(words, "muted")]
    if state.problems:
        pieces.append((f"   ! {'; '.join(state.problems)}", "verdict-aged"))
    return pieces


def past_series(points: Iterable[QueuePoint]) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """Return what was in it, and what came and went a second."""
    known = list(points)
    counts = (
        Series("ready", [(point.at_ms, point.ready) for point in known]),
        Series("hidden", [(point.at_ms, point.hidden) for point in known]),
    )
    rates = (
        Series("arrivals", [(point.at_ms, point.arrivals_s) for point in known]),
        Series("deletes", [(point.at_ms, point.deletes_s) for point in known]),
        Series("receives", [(point.at_ms, point.receives_s) for point in known]),
    )
    return counts, rates


def present_numbers(state: QueueState | None) -> dict[str, str]:
    """Say the present value of each line of the past."""
    if state is None:
        return {}
    return {
        "ready": compact(state.ready),
        "hidden": compact(state.hidden),
        "arrivals/s": rate(state.arrivals_s),
        "deletes/s": rate(state.deletes_s),
        "receives/s": rate(state.receives_s),
    }
