"""Reads an analysis: queues, lines, heat maps, incidents and episodes, as values.

A line is a metric over time, of one queue or of several together, from the roll-up that suits the width of the chart.
In a place that was polled, a queue without a sample did not exist: it counts as 0 in a sum, as all lists of a place do
while they are empty. Times without polls of a place are gaps, also in the sum of several places. Ages are combined by
their maximum, not by their sum.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from math import fsum, isfinite
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.analysis import schema
from rsmq_tui.history.analysis.incidents import incidents_of, of_chosen
from rsmq_tui.history.analysis.tables import Tables
from rsmq_tui.history.analysis.values import (
    AGE,
    Advice,
    Anomaly,
    Band,
    Episode,
    Forecast,
    HeatMap,
    Incident,
    Line,
    Point,
    Poison,
    QueueFacts,
    QueueRef,
    TimeRange,
    UsualRange,
)
from rsmq_tui.history.names import Place, read_name
from rsmq_tui.history.store import LAST_MS
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, weekday_of

Fact = TypeVar("Fact", Advice, Anomaly, Episode, Forecast, Incident, Poison, QueueFacts)
# A limit, because a damaged file may contain millions of days.
_DAYS_MAX = 3_660


def by_day(line: Line, span: TimeRange) -> HeatMap:
    """Fold an hourly line: a row for each day of the range, also for days without data."""
    hours = {at_ms // HOUR_MS: value for at_ms, value in line.points if at_ms >= span.from_ms - HOUR_MS + 1}
    last = max(span.from_ms, span.to_ms - 1) // DAY_MS
    first = max(span.from_ms // DAY_MS, last - _DAYS_MAX)
    days = range(first, last + 1) if line.points else ()
    rows = ((day * DAY_MS, tuple(hours.get(day * 24 + hour) for hour in range(24))) for day in days)
    return HeatMap(line.metric, False, tuple(rows))


def by_weekday(line: Line) -> HeatMap:
    """Fold an hourly line: the mean of each hour of the week; for ages the maximum."""
    known: dict[int, list[float]] = {}
    for at_ms, value in line.points:
        if value is not None:
            known.setdefault(hour_of_week(at_ms), []).append(value)
    if not known:
        return HeatMap(line.metric, True, ())
    joined = {at: max(values) if line.metric == AGE else _mean(values) for at, values in known.items()}
    rows = ((day, tuple(joined.get(24 * day + hour) for hour in range(24))) for day in range(7))
    return HeatMap(line.metric, True, tuple(rows))


def hour_of_week(at_ms: int) -> int:
    """Return the hour of the week of a time: 0 is Monday 00:00 UTC."""
    return weekday_of(at_ms) * 24 + at_ms // HOUR_MS % 24


def _on_clocks(at_ms: int, zone: tzinfo) -> int:
    """Return what the clocks of a zone show at a time, as ms since they showed 1970-01-01 00:00."""
    try:
        offset = datetime.fromtimestamp(at_ms / 1000, zone).utcoffset()
    except (ValueError, OverflowError, OSError):
        # At the ends of the calendar.
        offset = None
    return at_ms + (offset or timedelta(0)) // timedelta(milliseconds=1)


def _zone(name: str | None) -> tzinfo:
    """Return a time zone; UTC if it is not known here."""
    try:
        return ZoneInfo(name or "UTC")
    except (LookupError, ValueError, OSError):
        return UTC


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return fsum(numbers) / len(numbers)


_PLACE = ("profile", "server", "ns")
_QUEUE = (*_PLACE, "queue")
_STEPS_MAX = 3_000
# With fewer samples per bucket, an empty bucket does not mean that samples are missing.
_DENSE = 3
# So many polls of a place in a step, on average, are at least one: they may be a little less often than asked for.
_POLLS_MIN = 1.5
_NAMED_MAX = 200
_KNOWN = pc.ScalarAggregateOptions(min_count=1)


Asked = tuple[str, str]
"""A metric, and a statistic of it."""


def read_lines(
    tables: Tables,
    refs: Collection[QueueRef],
    asked: Sequence[Asked],
    span: TimeRange,
    points: int,
    lives: Mapping[Place, TimeRange],
    *,
    step_ms: int | None = None,
    is_all: bool,
) -> tuple[Line, ...]:
    """Return lines of about ``points`` points or more; ``lives`` is the recorded span of each place.

    ``asked`` are metrics and statistics; ``step_ms`` sets the exact length of the steps, in whole hours. ``is_all``
    says that ``refs`` are all queues: the roll-up of places is read, if there is one.
    """
    columns = tuple(name for metric, statistic in asked for name in _columns(metric, statistic))
    rows, width_ms = _read(tables, refs, columns, span, points if step_ms is None else None, is_all=is_all)
    if not rows.num_rows:
        return tuple(Line(metric, step_ms or width_ms, ()) for metric, _ in asked)
    seen = _buckets(rows)
    polls, samples = _Polls(tables, span), _usual_samples(rows)
    usual_ms = max(_usual_distance_ms(place, buckets, width_ms, polls) for place, buckets in seen.items())
    if step_ms is None:
        step_ms = width_ms * max(1, -(-span.length_ms // width_ms // _STEPS_MAX))
        if len(seen) > 1 and (usual_ms > width_ms or samples < 2):
            # Places are polled at different times: a step must be long enough to contain a poll of each.
            step_ms = max(step_ms, width_ms * -(-2 * usual_ms // width_ms))
    is_dense = step_ms > width_ms or samples >= _DENSE
    near_ms = step_ms if is_dense else max(2 * step_ms, usual_ms * 5 // 2)
    lines = []
    for metric, statistic in asked:
        values = _values(rows, metric, statistic, step_ms)
        known = _together(values, seen, step_ms, lives, polls, max if metric == AGE else sum)
        lines.append(Line(metric, step_ms, tuple(_with_gaps(known, step_ms, near_ms))))
    return tuple(lines)


def read_greatest(
    tables: Tables, refs: Collection[QueueRef], metric: str, span: TimeRange, points: int, *, is_all: bool = False
) -> tuple[int, float] | None:
    """Return the maximum of a metric over single queues, with its first time; None if nothing is known.

    It is read from the roll-up for a line of ``points`` points. Gaps of other places do not matter.
    """
    table, _ = _read(tables, refs, (f"{metric}_max",), span, points, is_all=is_all, of_places=(f"{metric}_greatest",))
    values = table.column(table.num_columns - 1).cast(pa.float64(), safe=False)
    known = pc.if_else(pc.is_finite(values), values, None)
    most = pc.max(known).as_py()
    if most is None:
        return None
    return pc.min(table.column("bucket_ms").filter(pc.equal(known, most))).as_py(), most


def of_queues(refs: Collection[QueueRef]) -> pc.Expression:
    """Return a filter for rows of these queues; with several places, it may also pass rows of others."""
    if len(refs) == 1:
        (ref,) = refs
        parts = [pc.field(name) == value for name, value in zip(_QUEUE, ref.stored, strict=True)]
    else:
        # With more names, a filter by name costs more than it saves.
        names = ("server", "ns", "queue") if len(refs) <= _NAMED_MAX else ("server", "ns")
        stored = [ref.stored for ref in refs]
        parts = [pc.field(name).isin(sorted({getattr(ref, name) for ref in stored})) for name in names]
    wanted = parts[0]
    for part in parts[1:]:
        wanted &= part
    return wanted


def only(table: pa.Table, refs: Collection[QueueRef]) -> pa.Table:
    """Return exactly the rows of these queues."""
    if len(refs) == 1 or not table.num_rows:
        return table
    wanted = pa.array(["\0".join(ref.stored) for ref in refs], pa.string())
    keys = pc.binary_join_element_wise(*(table.column(name) for name in _QUEUE), "\0")
    return table.filter(pc.is_in(keys, value_set=wanted))


def _read(
    tables: Tables,
    refs: Collection[QueueRef],
    columns: Sequence[str],
    span: TimeRange,
    points: int | None,
    *,
    is_all: bool,
    of_places: Sequence[str] | None = None,
) -> tuple[pa.Table, int]:
    """Read the coarsest roll-up that is fine enough, or a coarser one that covers more; return its width in ms too.

    If ``is_all``, the rows are those of places, without ``queue``, and with the columns ``of_places`` if these have
    other names. Analyses of earlier versions have no such rows.
    """
    choice = [schema.ROLLUP_1H] if points is None else _roll_ups(span, points)
    # For older days only a coarse roll-up may exist.
    name = max(choice, key=lambda table: len(tables.days(table, span)))

    def read(name: str, columns: Sequence[str], of_places: Sequence[str]) -> pa.Table:
        width_ms = schema.WIDTHS_MS[name]
        # The bucket in which the range begins is included.
        inside = (pc.field("bucket_ms") > span.from_ms - width_ms) & (pc.field("bucket_ms") <= span.to_ms)
        reach = TimeRange(span.from_ms - width_ms, span.to_ms)
        if is_all and tables.days(schema.PLACES, reach) >= tables.days(name, reach):
            wanted = dict.fromkeys(("bucket_ms", *_PLACE, "samples", *of_places))
            return tables.read(schema.PLACES, tuple(wanted), inside & (pc.field("width_ms") == width_ms), reach)
        wanted = dict.fromkeys(("bucket_ms", *_QUEUE, "samples", *columns))
        return only(tables.read(name, tuple(wanted), inside & of_queues(refs), reach), refs)

    rows = read(name, columns, of_places or columns)
    # What was polled every ten seconds or less often is only in the roll-ups by minute and hour.
    if name == schema.ROLLUP_10S and _minutes_in(rows) < _minutes_in(read(schema.ROLLUP_1M, (), ())):
        name = schema.ROLLUP_1M
        rows = read(name, columns, of_places or columns)
    return rows, schema.WIDTHS_MS[name]


def _minutes_in(table: pa.Table) -> int:
    """Return the number of minutes of each queue or place that has rows, added up."""
    keys = [name for name in _QUEUE if name in table.column_names]
    minutes = pc.divide(table.column("bucket_ms"), schema.WIDTHS_MS[schema.ROLLUP_1M])
    found: pa.Table = table.select(keys).append_column("minute", minutes).group_by([*keys, "minute"]).aggregate([])
    return int(found.num_rows)


def _roll_ups(span: TimeRange, points: int) -> list[str]:
    """Return the coarsest roll-up with a bucket for at least every second point, then the coarser ones."""
    order = [schema.ROLLUP_10S, schema.ROLLUP_1M, schema.ROLLUP_1H]
    fitting = [name for name in order if 2 * span.length_ms >= points * schema.WIDTHS_MS[name]]
    return order[order.index(fitting[-1] if fitting else schema.ROLLUP_10S) :]


def _columns(metric: str, statistic: str) -> tuple[str, ...]:
    if statistic == "mean" and metric.endswith("_s"):
        return metric.removesuffix("_s"), "covered_ms"
    return (f"{metric}_{statistic}",)


def _values(table: pa.Table, metric: str, statistic: str, step_ms: int) -> dict[int, dict[Place, float | None]]:
    """Return the value of each step and place: first combined per queue, then over all queues."""
    column, *others = _columns(metric, statistic)
    value = table.column(column).cast(pa.float64(), safe=False)
    steps = pc.multiply(pc.divide(table.column("bucket_ms"), step_ms), step_ms)
    of = [name for name in _QUEUE if name in table.column_names]
    keyed = table.select(of).append_column("step", steps)
    if statistic == "mean":
        weight = table.column(others[0] if others else "samples").cast(pa.float64(), safe=False)
        weight = pc.if_else(pc.and_(pc.is_valid(value), pc.greater(weight, 0.0)), weight, None)
        amount = pc.if_else(pc.is_valid(weight), value if others else pc.multiply(value, weight), None)
        keyed = keyed.append_column("amount", amount).append_column("weight", weight)
        each = keyed.group_by(["step", *of]).aggregate([("amount", "sum", _KNOWN), ("weight", "sum", _KNOWN)])
        scale = 1000.0 if others else 1.0
        mean = pc.multiply(pc.divide(each.column("amount_sum"), each.column("weight_sum")), scale)
    else:
        kind = "min" if statistic == "min" else "max"
        each = keyed.append_column("amount", value).group_by(["step", *of]).aggregate([("amount", kind)])
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
    polls: "_Polls",
    added: Callable[[Sequence[float]], float],
) -> list[Point]:
    """Combine the places of each step; the result is unknown if a place that was recorded then was not polled."""
    stored = {place.stored: span for place, span in lives.items()}
    points: list[Point] = []
    for step in sorted(values):
        at_step = values[step]
        missing = any(
            place not in at_step
            and stored[place].holds(step, step + step_ms - 1)
            and not polls.found_no_queue(place, step, step_ms)
            for place in seen
            if place in stored
        )
        numbers = [value for value in at_step.values() if value is not None and isfinite(value)]
        points.append((step, added(numbers) if numbers and not missing else None))
    return points


class _Polls:
    """When polls of places succeeded, in a range: a place without a row of a queue had none then. Reads what it needs.

    Analyses of earlier versions do not have these polls.
    """

    def __init__(self, tables: Tables, span: TimeRange) -> None:
        self._tables, self._span = tables, span
        self._runs: dict[Place, list[tuple[int, int, int]]] | None = None

    def found_no_queue(self, place: Place, step: int, step_ms: int) -> bool:
        """Return whether a place was polled in a step, in which it has no row; its names are as stored."""
        runs = self._polled_runs().get(place, [])
        last = bisect_right(runs, step + step_ms, key=itemgetter(0))
        polls = 0.0
        for first_ms, last_ms, samples in reversed(runs[:last]):
            if last_ms < step:
                break
            # Of a step with a poll or less, it is not known whether it has one.
            inside_ms = min(last_ms, step + step_ms) - max(first_ms, step)
            polls += inside_ms * (samples - 1) / max(1, last_ms - first_ms)
        return polls >= _POLLS_MIN

    def _polled_runs(self) -> dict[Place, list[tuple[int, int, int]]]:
        """Return the runs of polls that succeeded, each with its number of samples, in the order of time."""
        if self._runs is None:
            self._runs = {}
            reach = TimeRange(self._span.from_ms - DAY_MS, self._span.to_ms)
            wanted = pc.field("queue").is_null() & (pc.field("verdict") == "ok") & (pc.field("samples") > 1)
            columns = (*_PLACE, "first_ms", "last_ms", "samples")
            rows = self._tables.read(schema.VERDICT_RUNS, columns, wanted, reach).sort_by("first_ms")
            for *place, first_ms, last_ms, samples in zip(
                *(rows.column(name).to_pylist() for name in columns), strict=True
            ):
                self._runs.setdefault(Place(*place), []).append((first_ms, last_ms, samples))
        return self._runs


def _with_gaps(points: Sequence[Point], step_ms: int, near_ms: int) -> Iterable[Point]:
    """Yield the points, with a point of value None for each gap."""
    for (at_ms, value), (next_ms, _) in pairwise(points):
        yield at_ms, value
        if next_ms - at_ms > near_ms and value is not None:
            yield at_ms + step_ms, None
    yield from points[-1:]


def _buckets(table: pa.Table) -> dict[Place, list[int]]:
    """Return the sorted buckets in which each place has rows."""
    found: dict[Place, list[int]] = {}
    groups = table.group_by([*_PLACE, "bucket_ms"]).aggregate([])
    columns = (groups.column(name).to_pylist() for name in (*_PLACE, "bucket_ms"))
    for *place, bucket_ms in zip(*columns, strict=True):
        found.setdefault(Place(*place), []).append(bucket_ms)
    for buckets in found.values():
        buckets.sort()
    return found


def _usual_distance_ms(place: Place, buckets: Sequence[int], width_ms: int, polls: _Polls) -> int:
    """Return the usual distance between the polls of a place, by the buckets in which it has rows; 0 if not known."""
    apart = list(pairwise(buckets))
    distance_ms = _median_distance_ms(apart)
    if distance_ms <= width_ms:
        return distance_ms
    # It may have been polled between them, and have had no queue.
    return _median_distance_ms(
        (a, b) for a, b in apart if not polls.found_no_queue(place, a + width_ms, b - a - width_ms)
    )


def _median_distance_ms(apart: Iterable[tuple[int, int]]) -> int:
    distances = [b - a for a, b in apart]
    return int(median(distances)) if distances else 0


def _usual_samples(table: pa.Table) -> float:
    return float(pc.quantile(table.column("samples"), 0.5)[0].as_py() or 0)


# A band this many robust standard deviations wide holds what is usual; the factor makes one of a MAD.
_USUAL = 3 * 1.4826


def _usual_range(row: Mapping[str, Any]) -> UsualRange:
    middle, width = row["median"], _USUAL * (row["mad"] or 0.0)
    return UsualRange(max(0.0, middle - width), middle, middle + width)


# Older tables, without a zone, have one hour of each week.
_HOURS_MIN_IN_UTC = 3

# A limit, because a damaged file may cover millions of years.
_HOURS_MAX = 3_660 * 24

Chosen = Collection[QueueRef] | None
"""Some queues; None means all."""


class Analysis(Tables):
    """The analysis at ``out``, a path or a URL, as its last complete run left it: its tables, and their values.

    Raises ``HistoryError`` if there is none. Each method reads only the files that it needs.
    """

    def __init__(self, out: str | Path, *, state: Path | None = None) -> None:
        super().__init__(out, state)
        # Of the last run that was read.
        self._queues: dict[str, tuple[QueueFacts, ...]] = {}
        self._spans: dict[str, TimeRange] = {}

    def queues(self) -> tuple[QueueFacts, ...]:
        """Return the queues, in the order of their names."""
        run = self.manifest.run
        if run not in self._queues:
            found = (
                replace(facts, first_ms=_on_calendar(facts.first_ms), last_ms=_on_calendar(facts.last_ms))
                for facts in self._values(QueueFacts, schema.QUEUES)
            )
            self._queues = {self.manifest.run: tuple(sorted(found, key=lambda facts: (facts.ref.queue, facts.ref)))}
        return next(iter(self._queues.values()))

    def span(self) -> TimeRange | None:
        """Return the time that it covers, or None if nothing is known."""
        queues, run = self.queues(), self.manifest.run
        if not queues:
            return None
        if run not in self._spans:
            hour_ms = min(facts.first_ms for facts in queues)
            whole = TimeRange(self._first_sample_ms(hour_ms), max(facts.last_ms for facts in queues))
            self._spans = {run: whole}
        return self._spans[run]

    def _first_sample_ms(self, hour_ms: int) -> int:
        """Return when the first sample was taken in this hour, the first in which a queue was seen."""
        hour = TimeRange(hour_ms, hour_ms + HOUR_MS - 1)
        in_hour = (pc.field("first_ms") >= hour.from_ms) & (pc.field("first_ms") <= hour.to_ms)
        firsts = pc.min(self.read(schema.VERDICT_RUNS, ("first_ms",), in_hour, hour).column("first_ms")).as_py()
        return hour_ms if firsts is None else int(firsts)

    def lines(self, queues: Chosen, asked: Sequence[Asked], span: TimeRange, *, points: int = 200) -> tuple[Line, ...]:
        """Return metrics of a queue over time, or those of several together, with about ``points`` points or more.

        ``asked`` are metrics and their statistics. Depths and rates are added up. Of ages, and of percentiles of
        several queues, the maximum is used, because they cannot be added. A rate of all queues is that of
        all their messages, over the time that the counters cover.
        """
        refs = self._refs(queues)
        if not refs:
            return tuple(Line(metric, 0, ()) for metric, _ in asked)
        return read_lines(self, refs, asked, span, points, self._lives(), is_all=queues is None)

    def greatest(self, queues: Chosen, metric: str, span: TimeRange, *, points: int = 200) -> tuple[int, float] | None:
        """Return the maximum of a metric over single queues in a range, with its time; None if nothing is known."""
        refs = self._refs(queues)
        return read_greatest(self, refs, metric, span, points, is_all=queues is None) if refs else None

    def heat(self, queues: Chosen, metric: str, span: TimeRange, *, by_week: bool = False) -> HeatMap:
        """Return the hourly mean of a metric (of ages, the maximum) by day and hour, or by weekday and hour."""
        statistic = "max" if metric == AGE else "mean"
        refs = self._refs(queues)
        if not refs:
            return HeatMap(metric, by_week, ())
        asked = ((metric, statistic),)
        lives, is_all = self._lives(), queues is None
        (line,) = read_lines(self, refs, asked, span, 0, lives, step_ms=HOUR_MS, is_all=is_all)
        return by_weekday(line) if by_week else by_day(line, span)

    def episodes(self, span: TimeRange, queues: Chosen = None) -> tuple[Episode, ...]:
        """Return the episodes of queues and places that overlap a range, the earliest first."""
        inside = (pc.field("start_ms") <= span.to_ms) & (pc.field("end_ms") >= span.from_ms)
        found = self._values(Episode, schema.EPISODES, inside, ended="unknown", cause="")
        places = None if queues is None else {ref.place for ref in queues}
        wanted = (
            episode
            for episode in found
            if queues is None or places is None or (episode.ref in queues if episode.ref else episode.place in places)
        )
        return tuple(sorted(wanted, key=lambda episode: (episode.start_ms, episode.place, episode.queue or "")))

    def incidents(self, span: TimeRange, queues: Chosen = None) -> tuple[Incident, ...]:
        """Return the incidents of queues and servers that overlap a range, the earliest first.

        With ``queues``, these are their incidents, the outages of their servers, and heads of several of them: see
        ``of_chosen``. Analyses of earlier versions have no such table: it is computed from their episodes.
        """
        if schema.INCIDENTS in self.manifest.tables:
            inside = (pc.field("start_ms") <= span.to_ms) & (pc.field("end_ms") >= span.from_ms)
            found = self._values(Incident, schema.INCIDENTS, inside, ended="unknown", cause="")
        else:
            whole = (one for one in self._values(Episode, schema.EPISODES, ended="unknown", cause=""))
            found = (one for one in incidents_of(whole) if span.holds(one.start_ms, one.end_ms))
        every = tuple(sorted(found, key=lambda one: (one.start_ms, one.place, one.queue or "")))
        if queues is None:
            return every
        first_ms = min((one.start_ms for one in every), default=span.from_ms)
        return of_chosen(every, queues, self.episodes(TimeRange(first_ms, span.to_ms)))

    def has_inventories(self, span: TimeRange, queues: Chosen = None) -> bool:
        """Return whether a whole inventory of one of the queues was recorded on the days of a range, not before it."""
        refs = self._refs(queues)
        if not refs:
            return False
        wanted = (pc.field("last_inventory_ms") >= span.from_ms) & of_queues(refs)
        return bool(only(self.read(schema.LIFECYCLE, _QUEUE, wanted, span), refs).num_rows)

    def poison(self, span: TimeRange, queues: Chosen = None) -> tuple[Poison, ...]:
        """Return the poison messages seen in a range, the highest receive count first."""
        inside = (pc.field("first_seen_ms") <= span.to_ms) & (pc.field("last_seen_ms") >= span.from_ms)
        found = self._values(Poison, schema.POISON, inside, queues, rc=0)
        return tuple(sorted(found, key=lambda poison: (-poison.rc, poison.first_seen_ms, poison.ref, poison.id)))

    def advice(self, queues: Chosen = None) -> tuple[Advice, ...]:
        """Return the advice on the vt of queues, the greatest share of redeliveries first."""
        found = self._values(Advice, schema.ADVICE, None, queues, told="")
        return tuple(sorted(found, key=lambda advice: (-(advice.redelivered or 0.0), advice.ref)))

    def forecasts(self, queues: Chosen = None) -> tuple[Forecast, ...]:
        """Return the forecasts, those that reach a limit soonest first."""
        found = self._values(Forecast, schema.FORECAST, None, queues, hours=0, told="")
        return tuple(sorted(found, key=lambda one: (one.reaches_ms is None, one.reaches_ms or 0, one.ref, one.metric)))

    def anomalies(self, span: TimeRange, queues: Chosen = None) -> tuple[Anomaly, ...]:
        """Return the unusual hours that begin in a range, the most unusual first."""
        inside = (pc.field("bucket_ms") > span.from_ms - HOUR_MS) & (pc.field("bucket_ms") <= span.to_ms)
        found = self._values(Anomaly, schema.ANOMALIES, inside, queues, score=0.0)
        return tuple(sorted(found, key=lambda one: (-abs(one.score), one.bucket_ms, one.ref, one.metric)))

    def band(self, queue: QueueRef, metric: str, span: TimeRange) -> Band:
        """Return the usual values of a metric of a queue for each hour of a range, as of the end of the history."""
        rows = [*self._usual_rows(pc.field("metric") == metric, (queue,))]
        usual = {row["hour_of_week"]: _usual_range(row) for row in rows}
        zone = _zone(rows[0]["zone"] if rows else None)
        first_ms = max(span.from_ms, span.to_ms - _HOURS_MAX * HOUR_MS) // HOUR_MS * HOUR_MS
        hours = range(first_ms, span.to_ms + 1, HOUR_MS) if usual else ()
        known = ((at_ms, usual.get(hour_of_week(_on_clocks(at_ms, zone)))) for at_ms in hours)
        return Band(metric, tuple((at_ms, *values) for at_ms, values in known if values is not None))

    def usual(self, at_ms: int, *metrics: str) -> dict[QueueRef, dict[str, UsualRange]]:
        """Return the usual values of these metrics of all queues, at the hour of the week of a time."""
        hour = pc.field("hour_of_week")
        found: dict[QueueRef, dict[str, UsualRange]] = {}
        for name in self.read(schema.BASELINE, ("zone",)).column("zone").unique().to_pylist():
            zone = pc.field("zone").is_null() if name is None else pc.field("zone") == name
            wanted = zone & (hour == hour_of_week(_on_clocks(at_ms, _zone(name)))) & pc.field("metric").isin(metrics)
            for row in self._usual_rows(wanted):
                found.setdefault(_ref(row), {})[row["metric"]] = _usual_range(row)
        return found

    def _usual_rows(self, wanted: pc.Expression, queues: Chosen = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of the baseline that know enough hours."""
        for row in self._rows(schema.BASELINE, wanted, queues):
            least = schema.USUAL_HOURS_MIN if row["zone"] else _HOURS_MIN_IN_UTC
            if row["median"] is not None and (row["hours"] or 0) >= least:
                yield row

    def _refs(self, queues: Chosen) -> Sequence[QueueRef]:
        return [facts.ref for facts in self.queues()] if queues is None else tuple(queues)

    def _lives(self) -> dict[Place, TimeRange]:
        """Return the recorded span of each place."""
        lives: dict[Place, TimeRange] = {}
        for facts in self.queues():
            known = lives.get(facts.ref.place, TimeRange(facts.first_ms, facts.last_ms))
            lives[facts.ref.place] = TimeRange(min(known.from_ms, facts.first_ms), max(known.to_ms, facts.last_ms))
        return lives

    def _values(
        self,
        kind: type[Fact],
        table: str,
        wanted: pc.Expression | None = None,
        queues: Chosen = None,
        **usual: float | str,
    ) -> Iterator[Fact]:
        """Yield the rows of a table as values, with ``usual`` in place of unknown columns.

        A field is the column of its name; ``ref`` and ``place`` are made of several.
        """
        for row in self._rows(table, wanted, queues):
            known = row | {name: row[name] or value for name, value in usual.items()}
            known |= {"place": _place(row), "ref": None if row["queue"] is None else _ref(row)}
            yield kind(**{field.name: known[field.name] for field in fields(kind)})

    def _rows(self, table: str, wanted: pc.Expression | None = None, queues: Chosen = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table that is not kept by day, without rows that lack required columns."""
        if queues is not None:
            if not queues:
                return
            wanted = of_queues(queues) if wanted is None else wanted & of_queues(queues)
        for stored in self.read(table, schema.SCHEMAS[table].names, wanted).to_pylist():
            row = {name: _finite(value) for name, value in stored.items()}
            if any(row[name] is None for name in (*_PLACE, *_NEEDED[table])):
                continue
            row |= {name: read_name(row[name]) for name in _NAMES if row.get(name) is not None}
            if queues is None or _ref(row) in queues:
                yield row


_NEEDED = {
    schema.QUEUES: ("queue", "first_ms", "last_ms"),
    schema.EPISODES: ("verdict", "start_ms", "end_ms"),
    schema.INCIDENTS: ("id", "start_ms", "end_ms", "worst", "verdicts", "episodes"),
    schema.POISON: ("queue", "id", "first_seen_ms", "last_seen_ms"),
    schema.ADVICE: ("queue",),
    schema.FORECAST: ("queue", "metric", "at_ms"),
    schema.ANOMALIES: ("queue", "bucket_ms", "metric", "value", "median", "mad"),
    schema.BASELINE: ("queue", "metric", "hour_of_week"),
}


# The columns that hold names.
_NAMES = ("profile", "ns", "queue", "id")


def _finite(value: Any) -> Any:
    """Return a value, a list as a tuple; None for NaN or an infinity."""
    if isinstance(value, list):
        return tuple(value)
    return None if isinstance(value, float) and not isfinite(value) else value


def _place(row: dict[str, Any]) -> Place:
    return Place(row["profile"], row["server"], row["ns"])


def _ref(row: dict[str, Any]) -> QueueRef:
    return QueueRef(*_place(row), row["queue"])


def _on_calendar(at_ms: int) -> int:
    return max(0, min(at_ms, LAST_MS))
