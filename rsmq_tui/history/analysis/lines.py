"""A metric over time, of one queue or of several together, from the roll-up that suits the width of the picture.

Where a place was polled, a queue of it that has no sample was not there: to a sum it adds nothing. Where it was not
polled there is a gap, for the sum of several places too. Of ages, the greatest stands in for the sum.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, WIDTHS_MS
from rsmq_tui.history.analysis.tables import Tables
from rsmq_tui.history.analysis.values import AGE, Line, Point, QueueRef, TimeRange
from rsmq_tui.history.names import stored_name
from rsmq_tui.history.place import Place

_PLACE = ("profile", "server", "ns")
_QUEUE = (*_PLACE, "queue")
_MOST_STEPS = 3_000
# A bucket with fewer samples may be followed by one that has none though nothing is missing.
_DENSE = 3
# Beyond this many names, a filter by each costs more than what it spares.
_NAMED_MAX = 200
_KNOWN = pc.ScalarAggregateOptions(min_count=1)


Asked = tuple[str, str]
"""A metric, and a statistic of it."""


class _Rows(NamedTuple):
    """Samples of the wanted queues: their steps, and what is added up or compared."""

    table: pa.Table
    width_ms: int


def read_lines(
    tables: Tables,
    refs: Collection[QueueRef],
    asked: Sequence[Asked],
    span: TimeRange,
    points: int,
    lives: Mapping[Place, TimeRange],
    *,
    step_ms: int | None = None,
) -> tuple[Line, ...]:
    """Return lines of about ``points`` points or more; ``lives`` tells when each place was recorded at all.

    ``asked`` are the metrics and statistics; ``step_ms`` asks for steps of exactly that length, whole hours.
    """
    rows = _read(tables, refs, asked, span, points if step_ms is None else None)
    if not rows.table.num_rows:
        return tuple(Line(metric, statistic, step_ms or rows.width_ms, ()) for metric, statistic in asked)
    seen = _buckets(rows.table)
    usual_ms, samples = _usual_distance_ms(seen.values()), _usual_samples(rows.table)
    if step_ms is None:
        step_ms = rows.width_ms * max(1, -(-span.length_ms // rows.width_ms // _MOST_STEPS))
        if len(seen) > 1 and (usual_ms > rows.width_ms or samples < 2):
            # Places are polled at times of their own, and are added up only where there is time for each to be.
            step_ms = max(step_ms, rows.width_ms * -(-2 * usual_ms // rows.width_ms))
    is_dense = step_ms > rows.width_ms or samples >= _DENSE
    near_ms = step_ms if is_dense else max(2 * step_ms, usual_ms * 5 // 2)
    lines = []
    for metric, statistic in asked:
        values = _values(rows.table, metric, statistic, step_ms)
        known = _together(values, seen, step_ms, lives, max if metric == AGE else sum)
        lines.append(Line(metric, statistic, step_ms, tuple(_with_gaps(known, step_ms, near_ms))))
    return tuple(lines)


def read_greatest(
    tables: Tables, refs: Collection[QueueRef], metric: str, span: TimeRange, points: int
) -> tuple[int, float] | None:
    """Return when a metric of any one of the queues was greatest, first, and how great; None where nothing is known.

    It is read from the roll-up that a line of so many points is made from, of whatever is there: a gap of another place
    takes nothing away.
    """
    table = _read(tables, refs, [(metric, "max")], span, points).table
    values = table.column(f"{metric}_max").cast(pa.float64(), safe=False)
    known = pc.if_else(pc.is_finite(values), values, None)
    most = pc.max(known).as_py()
    if most is None:
        return None
    return pc.min(table.column("bucket_ms").filter(pc.equal(known, most))).as_py(), most


def of_queues(refs: Collection[QueueRef]) -> pc.Expression:
    """Return the filter for rows that may be of these queues: with several places, others may pass it too."""
    if len(refs) == 1:
        (ref,) = refs
        stored = (stored_name(ref.profile), ref.server, stored_name(ref.ns), stored_name(ref.queue))
        parts = [pc.field(name) == value for name, value in zip(_QUEUE, stored, strict=True)]
    else:
        parts = [pc.field("server").isin(sorted({ref.server for ref in refs}))]
        parts.append(pc.field("ns").isin(sorted({stored_name(ref.ns) for ref in refs})))
        if len(refs) <= _NAMED_MAX:
            parts.append(pc.field("queue").isin(sorted({stored_name(ref.queue) for ref in refs})))
    wanted = parts[0]
    for part in parts[1:]:
        wanted &= part
    return wanted


def only(table: pa.Table, refs: Collection[QueueRef]) -> pa.Table:
    """Return the rows that are of these queues."""
    if len(refs) == 1 or not table.num_rows:
        return table
    wanted = [
        "\0".join((stored_name(ref.profile), ref.server, stored_name(ref.ns), stored_name(ref.queue))) for ref in refs
    ]
    keys = pc.binary_join_element_wise(*(table.column(name) for name in _QUEUE), "\0")
    return table.filter(pc.is_in(keys, value_set=pa.array(wanted, pa.string())))


def _read(
    tables: Tables, refs: Collection[QueueRef], asked: Sequence[Asked], span: TimeRange, points: int | None
) -> _Rows:
    """Read the coarsest roll-up that is fine enough, or a coarser one that more is there of."""
    needed = (name for metric, statistic in asked for name in _columns(metric, statistic))
    columns = tuple(dict.fromkeys(("bucket_ms", *_QUEUE, "samples", *needed)))
    choice = [ROLLUP_1H] if points is None else _roll_ups(span, points)
    # Older days may be kept in a coarse roll-up alone.
    name = max(choice, key=lambda table: len(tables.days(table, span)))
    width_ms = WIDTHS_MS[name]
    # A bucket that the range begins in is of it.
    inside = (pc.field("bucket_ms") > span.from_ms - width_ms) & (pc.field("bucket_ms") <= span.to_ms)
    reach = TimeRange(span.from_ms - width_ms, span.to_ms)
    return _Rows(only(tables.read(name, columns, inside & of_queues(refs), reach), refs), width_ms)


def _roll_ups(span: TimeRange, points: int) -> list[str]:
    """Return the coarsest roll-up with a bucket for at least every second point, and then those that are coarser."""
    order = [ROLLUP_10S, ROLLUP_1M, ROLLUP_1H]
    fitting = [name for name in order if 2 * span.length_ms >= points * WIDTHS_MS[name]]
    return order[order.index(fitting[-1] if fitting else ROLLUP_10S) :]


def _columns(metric: str, statistic: str) -> tuple[str, ...]:
    if statistic == "mean" and metric.endswith("_s"):
        return metric.removesuffix("_s"), "covered_ms"
    return (f"{metric}_{statistic}",)


def _values(table: pa.Table, metric: str, statistic: str, step_ms: int) -> dict[int, dict[Place, float | None]]:
    """Return the value of each step and place: first each queue's over the step, then all queues' together."""
    column, *others = _columns(metric, statistic)
    value = table.column(column).cast(pa.float64(), safe=False)
    steps = pc.multiply(pc.divide(table.column("bucket_ms"), step_ms), step_ms)
    keyed = table.select(list(_QUEUE)).append_column("step", steps)
    if statistic == "mean":
        weight = table.column(others[0] if others else "samples").cast(pa.float64(), safe=False)
        weight = pc.if_else(pc.and_(pc.is_valid(value), pc.greater(weight, 0.0)), weight, None)
        amount = pc.if_else(pc.is_valid(weight), value if others else pc.multiply(value, weight), None)
        keyed = keyed.append_column("amount", amount).append_column("weight", weight)
        each = keyed.group_by(["step", *_QUEUE]).aggregate([("amount", "sum", _KNOWN), ("weight", "sum", _KNOWN)])
        scale = 1000.0 if others else 1.0
        mean = pc.multiply(pc.divide(each.column("amount_sum"), each.column("weight_sum")), scale)
    else:
        kind = "min" if statistic == "min" else "max"
        each = keyed.append_column("amount", value).group_by(["step", *_QUEUE]).aggregate([("amount", kind)])
        mean = each.column(f"amount_{kind}")
    kind = "max" if metric == AGE else "sum"
    each = each.select(["step", *_PLACE]).append_column("value", mean)
    places = each.group_by(["step", *_PLACE]).aggregate([("value", kind, _KNOWN)])
    found: dict[int, dict[Place, float | None]] = {}
    columns = (places.column(name).to_pylist() for name in ("step", *_PLACE, f"value_{kind}"))
    for step, *place, known in zip(*columns, strict=True):
        found.setdefault(step, {})[Place(*place)] = known
    return found


def _together(
    values: Mapping[int, Mapping[Place, float | None]],
    seen: Collection[Place],
    step_ms: int,
    lives: Mapping[Place, TimeRange],
    added: Any,
) -> list[Point]:
    """Add up the places of each step; one that was recorded then, but has nothing there, makes the sum unknown."""
    stored = {Place(stored_name(place.profile), place.server, stored_name(place.ns)): lives[place] for place in lives}
    points: list[Point] = []
    for step in sorted(values):
        at_step = values[step]
        missing = any(
            place not in at_step and stored[place].holds(step, step + step_ms - 1) for place in seen if place in stored
        )
        numbers = [value for value in at_step.values() if value is not None and isfinite(value)]
        points.append((step, added(numbers) if numbers and not missing else None))
    return points


def _with_gaps(points: Sequence[Point], step_ms: int, near_ms: int) -> Iterable[Point]:
    """Yield the points, and one without a value where some are missing in between."""
    for (at_ms, value), (next_ms, _) in pairwise(points):
        yield at_ms, value
        if next_ms - at_ms > near_ms and value is not None:
            yield at_ms + step_ms, None
    yield from points[-1:]


def _buckets(table: pa.Table) -> dict[Place, list[int]]:
    """Return the buckets that each place has anything in, in order."""
    found: dict[Place, list[int]] = {}
    groups = table.group_by([*_PLACE, "bucket_ms"]).aggregate([])
    columns = (groups.column(name).to_pylist() for name in (*_PLACE, "bucket_ms"))
    for *place, bucket_ms in zip(*columns, strict=True):
        found.setdefault(Place(*place), []).append(bucket_ms)
    for buckets in found.values():
        buckets.sort()
    return found


def _usual_distance_ms(seen: Iterable[Sequence[int]]) -> int:
    return max((int(median(b - a for a, b in pairwise(buckets))) for buckets in seen if len(buckets) > 1), default=0)


def _usual_samples(table: pa.Table) -> float:
    return float(pc.quantile(table.column("samples"), 0.5)[0].as_py() or 0)
