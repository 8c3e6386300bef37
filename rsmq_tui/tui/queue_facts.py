"""What is said of one queue above its messages: verdict and reason, attributes and counters, and its recent past."""

from collections.abc import Iterable

from rsmq_tui.charts import Series
from rsmq_tui.monitor import QueuePoint, QueueState, Snapshot, Thresholds, reason
from rsmq_tui.monitor.wording import UNKNOWN, clock, count, net, plural, printable, seconds, size
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
    words = _list_words(state) if state.kind == "list" else _rsmq_words(state)
    pieces: list[Piece] = [(f" {words}", "muted")]
    if state.problems:
        pieces.append((f"   ! {'; '.join(state.problems)}", "verdict-aged"))
    return pieces


def _rsmq_words(state: QueueState) -> str:
    maxsize = "unlimited" if state.maxsize == -1 else size(state.maxsize)
    return (
        f"vt {seconds(state.vt_s)} · delay {seconds(state.delay_s)} · max {maxsize}"
        f" · sent {count(state.totalsent)} · received {count(state.totalrecv)}"
        f" · created {clock(state.created_ms, date=True)[:16]}"
    )


def _list_words(state: QueueState) -> str:
    expired = UNKNOWN if state.expired is None else plural(state.expired, "lease")
    return f"a Redis List · {count(state.hidden)} in processing · {expired} expired · depth {net(state.net_s)}/s"


def past_series(
    points: Iterable[QueuePoint], *, of_list: bool = False
) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """Return what was in it, and what came and went a second; of a list only what is left of both is known."""
    known = list(points)
    counts = (
        Series("ready", [(point.at_ms, point.ready) for point in known]),
        Series("hidden", [(point.at_ms, point.hidden) for point in known]),
    )
    if of_list:
        fills = Series("fills", [(point.at_ms, _above_zero(point.net_s)) for point in known])
        drains = Series("drains", [(point.at_ms, _above_zero(point.net_s, -1)) for point in known])
        return counts, (fills, drains)
    rates = (
        Series("arrivals", [(point.at_ms, point.arrivals_s) for point in known]),
        Series("deletes", [(point.at_ms, point.deletes_s) for point in known]),
        Series("receives", [(point.at_ms, point.receives_s) for point in known]),
    )
    return counts, rates


def _above_zero(per_s: float | None, sign: int = 1) -> float | None:
    return None if per_s is None else max(0.0, sign * per_s)


def present_numbers(state: QueueState | None) -> dict[str, float | None]:
    """Return the present value of each line of the past."""
    if state is None:
        return {}
    return {
        "ready": state.ready,
        "hidden": state.hidden,
        "arrivals/s": state.arrivals_s,
        "deletes/s": state.deletes_s,
        "receives/s": state.receives_s,
        "fills/s": _above_zero(state.net_s),
        "drains/s": _above_zero(state.net_s, -1),
    }
