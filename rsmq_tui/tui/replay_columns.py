"""The columns of what is different between two instants."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rsmq_tui.history.replay_diff import QueueDiff
from rsmq_tui.monitor.wording import UNKNOWN, compact, duration
from rsmq_tui.tui.signs import sign
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column

_LEAST_NAME, _MOST_NAME = 10, 40


@dataclass(frozen=True, slots=True)
class DiffContext:
    """What the cells need besides their queue: what each server is called, and whether only ASCII may be drawn."""

    titles: Mapping[str, str] = field(default_factory=dict)
    ascii_only: bool = False


def delta(change: int | None) -> str:
    """Say a difference in at most seven characters: +211, -1,204, 0."""
    if change is None:
        return UNKNOWN
    return f"{'+' if change > 0 else '-'}{compact(abs(change))}" if change else "0"


def _verdict(queue: QueueDiff, context: DiffContext) -> Piece:
    then, now = queue.then, queue.now
    if then is None and now is not None:
        return f"new: {sign(now.verdict, context.ascii_only)} {now.verdict}", f"verdict-{now.verdict}"
    if now is None:
        return "gone", "alarm"
    words = f"{sign(now.verdict, context.ascii_only)} {now.verdict}"
    if then is None or not queue.has_other_verdict:
        return words, "muted"
    return f"{then.verdict} → {words}", f"verdict-{now.verdict}"


def _count(name: str, title: str, drop: int) -> tuple[Column[QueueDiff, DiffContext], ...]:
    def then(queue: QueueDiff, _: DiffContext) -> Piece:
        return compact(queue.numbers(name)[0]), "muted"

    def now(queue: QueueDiff, _: DiffContext) -> Piece:
        return compact(queue.numbers(name)[1]), ""

    def change(queue: QueueDiff, _: DiffContext) -> Piece:
        moved = queue.change(name)
        return delta(moved), "strong" if moved else "muted"

    return (
        Column(f"{name}-then", title, 6, then, drop=drop and drop + 1, right=True),
        Column(f"{name}-now", "LATER", 6, now, drop=drop, right=True),
        Column(f"{name}-change", "±", 7, change, drop=drop, right=True),
    )


def _oldest(when: str) -> Column[QueueDiff, DiffContext]:
    title = "WAITING" if when == "then" else "LATER"
    return Column(f"oldest-{when}", title, 8, lambda queue, _: (duration(queue.age_ms(when)), ""), drop=6, right=True)


_VERDICT: Column[QueueDiff, DiffContext] = Column("verdict", "VERDICT", 21, _verdict)
_READY, _DEPTH = _count("ready", "READY", 2), _count("depth", "DEPTH", 0)
_SERVER: Column[QueueDiff, DiffContext] = Column(
    "server", "SERVER", 10, lambda queue, context: (context.titles.get(queue.state.place, ""), "muted"), drop=1
)


def diff_columns(servers: int, names: int = 0, room: int = 0) -> tuple[Column[QueueDiff, DiffContext], ...]:
    """Return the columns; with several servers, each queue's stands before it.

    ``names`` is how wide the names are, and ``room`` how wide the screen is: of the other columns, only the verdicts,
    the depths and the ready messages are worth more than the end of a name.
    """
    left = room - sum(column.width + 1 for column in (_VERDICT, *_READY, *_DEPTH, *((_SERVER,) if servers > 1 else ())))
    width = max(_LEAST_NAME, min(names, left - 1, _MOST_NAME))
    return (
        _VERDICT,
        *((_SERVER,) if servers > 1 else ()),
        Column("queue", "QUEUE", width, lambda queue, _: (queue.state.name, "strong"), grow=True, middle=True),
        *_READY,
        *_count("hidden", "HIDDEN", 8),
        *_DEPTH,
        _oldest("then"),
        _oldest("now"),
    )
