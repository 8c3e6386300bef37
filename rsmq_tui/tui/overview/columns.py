"""The columns of the table of queues, and their cells."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from rsmq_tui.charts.drawing import fold_latest, spark_runs
from rsmq_tui.monitor import QueueState, Snapshot, Verdict, outlook
from rsmq_tui.monitor.text import NO_NAME, compact, count, duration, net, rate, short_clock
from rsmq_tui.monitor.tracking.forecast import limit_words
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.protocol.kinds import RSMQ, Kind
from rsmq_tui.tui.overview.groups import QueueGroup, judged
from rsmq_tui.tui.overview.known import NONE_SILENCED, Silenced, silenced_verdict
from rsmq_tui.tui.theme import verdict_words
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import CLOCK_WIDTH, Column

R = TypeVar("R")
C = TypeVar("C")
# One cell a minute.
SPARK_WIDTH = 10
_CELL_MS = 60_000
SPARK_MS = SPARK_WIDTH * _CELL_MS
_KEY_WIDTH = 20


@dataclass(frozen=True, slots=True)
class QueueContext:
    """What the cells of the queue table show besides their queue; ``changed`` had another verdict when last shown.

    A queue's age and trend come from the snapshot of its server. ``titles`` has the names of the servers by place, and
    ``stale`` the age of the numbers of those that do not answer. ``favourites`` are places and names of queues;
    ``unfolded`` groups and the ``members`` of these are keys of rows.
    """

    snapshot: Snapshot
    titles: Mapping[str, str]
    changed: frozenset[str] = frozenset()
    clock_times: bool = False
    stale: Mapping[str, str] = field(default_factory=dict)
    silenced: Silenced = NONE_SILENCED
    favourites: Set[tuple[str, str]] = frozenset()
    unfolded: Set[str] = frozenset()
    members: Set[str] = frozenset()

    def of(self, queue: QueueState) -> Snapshot:
        """Return the snapshot of the queue's server."""
        return self.snapshot.part(queue.place) if queue.place else self.snapshot


FAVOURITE = "★"


def _name(queue: QueueState, context: QueueContext) -> Piece:
    if isinstance(queue, QueueGroup):
        sign = "▾" if queue.key in context.unfolded else "▸"
        # The number comes first: a long name is cut off at its end.
        return f"{sign} {count(len(queue.members))} {queue.name}…", "strong"
    is_favourite = (queue.place, queue.name) in context.favourites
    mark = f"{FAVOURITE} " if is_favourite else "  " if queue.key in context.members else ""
    return mark + (queue.name or NO_NAME), "strong"


def _verdict(queue: QueueState, context: QueueContext) -> Piece:
    queue = judged(queue)
    if context.silenced.holds(queue):
        return silenced_verdict(queue), "muted"
    words = verdict_words(queue.verdict)
    if queue.place in context.stale:
        # The verdict is that of the last answer.
        return words, "muted"
    emphasis = " changed" if queue.key in context.changed else ""
    return words, f"verdict-{queue.verdict}{emphasis}"


def _since(at_ms: int | None, queue: QueueState, context: QueueContext) -> Piece:
    if context.clock_times:
        return short_clock(at_ms, context.of(queue).at_ms), ""
    return duration(None if at_ms is None else max(0, context.of(queue).at_ms - at_ms)), ""


def _waiting(queue: QueueState, context: QueueContext) -> Piece:
    return _since(queue.oldest_ready_due_ms, queue, context)


def _oldest(queue: QueueState, context: QueueContext) -> Piece:
    return _since(queue.oldest_ready_ms, queue, context)


def _rate(per_s: float | None) -> Piece:
    """Format a rate in at most six characters: 812.0, 1,204, 381k."""
    return rate(per_s) if per_s is None or per_s < 999.95 else compact(per_s), ""


def _expired(queue: QueueState, _: QueueContext) -> Piece:
    if queue.expired is None:
        return "", ""
    return compact(queue.expired), "alarm" if queue.expired else "muted"


def _ten_minutes(
    values: Callable[[Trend, str, int], Sequence[float | None]], queue: QueueState, context: QueueContext
) -> list[Piece]:
    """Draw what ``values`` returns of a trend for that queue from a bucket on."""
    if isinstance(queue, QueueGroup):
        return []
    part = context.of(queue)
    trend, at_ms = part.trend, part.at_ms
    first = bisect_left(trend.times_ms, at_ms - SPARK_MS)
    return spark_pieces(trend.times_ms[first:], values(trend, queue.name, first), at_ms)


def spark_pieces(times_ms: Sequence[int], values: Sequence[float | None], at_ms: int) -> list[Piece]:
    """Draw the last ten minutes, one cell each, on a scale from zero; high values are light.

    Cells are clock minutes, the last one the current minute: so a past bar never changes.
    """
    end_ms = at_ms - at_ms % _CELL_MS + _CELL_MS - 1
    minutes = fold_latest(times_ms[: len(values)], values, end_ms=end_ms, cell_ms=_CELL_MS, cells=SPARK_WIDTH)
    return [(marks, "spark-high" if is_high else "spark") for marks, is_high in spark_runs(minutes, SPARK_WIDTH)]


def _wait(queue: QueueState, context: QueueContext) -> Piece:
    times = queue.times_at(context.of(queue).at_ms)
    return duration(None if times is None else times.wait_p95_ms), ""


def _work(queue: QueueState, context: QueueContext) -> Piece:
    times = queue.times_at(context.of(queue).at_ms)
    return duration(None if times is None else times.work_p95_ms), ""


def _outlook(queue: QueueState, context: QueueContext) -> Piece:
    queue = judged(queue)
    if (stale := context.stale.get(queue.place)) is not None:
        return stale, "muted"
    words = outlook(queue, context.of(queue).at_ms)
    if queue.verdict.is_trouble:
        return words, f"verdict-{queue.verdict}"
    return queue.problems[0] if queue.problems and queue.verdict is Verdict.OK else words, "muted"


def _limit(queue: QueueState, context: QueueContext) -> Piece:
    return limit_words(queue.limit, context.of(queue).at_ms), "muted" if queue.place in context.stale else "strong"


@dataclass(frozen=True, slots=True)
class QueueColumn(Column[QueueState, QueueContext]):
    """A column of queues. Their order by it is that of ``sort_key``, greatest first if ``descending``; None comes last.

    The help shows its ``meaning``; neighbours may share one. ``fits`` says whether queues of these kinds have it.
    """

    sort_key: Callable[[QueueState], Any] = field(kw_only=True)
    descending: bool = False
    meaning: str = ""
    fits: Callable[[Collection[Kind]], bool] = lambda _: True


def _some(condition: Callable[[Kind], bool]) -> Callable[[Collection[Kind]], bool]:
    """Return whether the condition holds for any of some kinds, as a function of these."""
    return lambda kinds: any(map(condition, kinds))


_RATES = "arrivals, deletes and receives per second, over the last ten seconds"
_TREND = "arrivals in each of the last ten minutes, scaled from zero; light bars are high for this queue"

# A title is at least one cell narrower than its column, which leaves room for the mark of the sort order.
# fmt: off
QUEUE_COLUMNS = (
    QueueColumn("verdict", "VERDICT", 10, _verdict, sort_key=lambda queue: queue.verdict.rank),
    QueueColumn("server", "SERVER", 10, lambda queue, context: (context.titles[queue.place], "muted"), drop=2,
                width_max=16, sort_key=attrgetter("place")),
    QueueColumn("kind", "KIND", 5, lambda queue, _: (queue.kind, "muted"), drop=4, sort_key=attrgetter("kind"),
                fits=_some(lambda kind: kind is not RSMQ)),
    QueueColumn("queue", "QUEUE", 12, _name, grow=True, sort_key=attrgetter("name")),
    QueueColumn("ready", "READY", 6, lambda queue, _: (compact(queue.ready), ""), right=True,
                sort_key=attrgetter("ready"), descending=True,
                meaning="a consumer would get it now"),
    QueueColumn("hidden", "HIDDEN", 7, lambda queue, _: (compact(queue.hidden), ""), drop=5, right=True,
                sort_key=attrgetter("hidden"), descending=True,
                meaning="not visible yet: in flight (received, not deleted) or delayed (never received)"),
    QueueColumn("depth", "DEPTH", 6, lambda queue, _: (compact(queue.depth), ""), drop=6, right=True,
                sort_key=attrgetter("depth"), descending=True),
    # The earliest due or sent time comes first.
    QueueColumn("waiting", "WAITING", 8, _waiting, drop=3, right=True, sort_key=attrgetter("oldest_ready_due_ms"),
                meaning="how long the first ready message has been ready: no message has waited longer"),
    QueueColumn("oldest", "OLDEST", 8, _oldest, drop=14, right=True, sort_key=attrgetter("oldest_ready_ms"),
                meaning="age of the first ready message, from when it was sent"),
    QueueColumn("expired", "EXPIRED", 8, _expired, drop=8, right=True, sort_key=attrgetter("expired"), descending=True,
                fits=_some(attrgetter("has_leases"))),
    QueueColumn("net", "NET/s", 7, lambda queue, _: (net(queue.change_s), ""), drop=7, right=True,
                sort_key=attrgetter("change_s"), descending=True, fits=_some(lambda kind: not kind.counts_arrivals)),
    # Only messages that count their receives say when they were received.
    QueueColumn("wait", "WAIT", 8, _wait, drop=16, right=True, extra=True,
                sort_key=lambda queue: queue.times and queue.times.wait_p95_ms, descending=True,
                fits=_some(attrgetter("counts_receives")),
                meaning="how long messages in flight waited for their first receive: the 95th percentile of 20"
                " messages, or the longest time if fewer are in flight"),
    QueueColumn("work", "WORK", 8, _work, drop=16, right=True, extra=True,
                sort_key=lambda queue: queue.times and queue.times.work_p95_ms, descending=True,
                fits=_some(attrgetter("counts_receives")),
                meaning="how long messages in flight have been worked on, since their last receive: the 95th percentile"
                " of 20 messages, or the longest time if fewer are in flight"),
    QueueColumn("in", "IN/s", 6, lambda queue, _: _rate(queue.arrivals_s), drop=9, right=True,
                sort_key=attrgetter("arrivals_s"), descending=True, meaning=_RATES),
    QueueColumn("out", "OUT/s", 6, lambda queue, _: _rate(queue.deletes_s), drop=10, right=True,
                sort_key=attrgetter("deletes_s"), descending=True, meaning=_RATES),
    QueueColumn("recv", "RECV/s", 7, lambda queue, _: _rate(queue.receives_s), drop=11, right=True,
                sort_key=attrgetter("receives_s"), descending=True, meaning=_RATES),
    QueueColumn("trend", "IN, 10 MIN", SPARK_WIDTH + 1, partial(_ten_minutes, Trend.arrivals), drop=12,
                sort_key=attrgetter("arrivals_s"), descending=True, meaning=_TREND,
                fits=lambda kinds: all(kind.counts_arrivals for kind in kinds)),
    # Arrivals in a list are not counted; the depth is known for all kinds.
    QueueColumn("held", "DEPTH, 10 MIN", 14, partial(_ten_minutes, Trend.depths), drop=12, sort_key=attrgetter("depth"),
                descending=True, fits=_some(lambda kind: not kind.counts_arrivals)),
    QueueColumn("drains", "DRAINS IN", 19, _outlook, drop=1, width_max=30, sort_key=attrgetter("drain_s"),
                descending=True,
                meaning="time until no message is ready, at the current rates of arrivals and deletes"),
    # Limits that are reached first come first.
    QueueColumn("limit", "LIMIT", 20, _limit, drop=15, extra=True,
                sort_key=lambda queue: queue.limit and queue.limit.soonest_ms,
                meaning="time until the depth limit, aged or full memory, at the rates of the last ten minutes"),
)
# fmt: on
COLUMN_BY_ID = {column.id: column for column in QUEUE_COLUMNS}


def columns_of(
    kinds: Iterable[Kind] = (RSMQ,), *, several_servers: bool = False, clock_times: bool = False
) -> tuple[QueueColumn, ...]:
    """Return the columns of the queue table that fit these kinds of queues; ``server`` only with several servers.

    With ``clock_times``, the wait is shown as the time of its start, and there is room for dates.
    """
    kinds = tuple(kinds)
    columns = {
        column.id: column
        for column in QUEUE_COLUMNS
        if column.fits(kinds) and (several_servers or column.id != "server")
    }
    if not all(kind.has_namespaces for kind in kinds):
        # Without a namespace, a queue's name is its whole key.
        columns["queue"] = replace(columns["queue"], width=_KEY_WIDTH)
    if clock_times:
        columns["waiting"] = replace(columns["waiting"], title="SINCE", width=CLOCK_WIDTH)
        columns["oldest"] = replace(columns["oldest"], width=CLOCK_WIDTH)
    return tuple(columns.values())


def chosen_columns(columns: Sequence[Column[R, C]], chosen: Sequence[str]) -> list[tuple[Column[R, C], bool]]:
    """Return the columns in the order that was chosen, each with whether it is shown.

    ``chosen`` has their ids in order, with a ``-`` before those that are not shown. Columns that it does not name come
    last and are shown, and so is the name of the queue.
    """
    positions = {id.removeprefix("-"): position for position, id in enumerate(chosen)}
    ordered = sorted(columns, key=lambda column: positions.get(column.id, len(positions)))
    return [(column, f"-{column.id}" not in chosen or column.id == "queue") for column in ordered]
