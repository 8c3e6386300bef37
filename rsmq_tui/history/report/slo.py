"""Service levels: how well the objectives of profiles were met, from the tables of an analysis.

The terms are those of Google's SRE workbook. The attainment is the share of the watched time that was good. The error
budget is the share that may be bad; the burn rate is how many times faster than allowed it was used. Time that was not
watched is neither good nor bad.

answering  the server's polls succeed. Watched is the time between consecutive polls of any of its places, and its
           outages; bad are the outages, as the episodes have them. An outage of several places is one of the server.
stalled    watched is the time between consecutive samples of the queue; bad is what its episodes with the verdict
           stalled cover of that: they may have begun before the recording, and last over gaps.
age p99    watched are the minutes with samples of the queue in which its age is known or no message is ready; bad are
           those whose 99th percentile is not below the limit. Days without minutes are measured by the hour.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.analysis.incidents import TimeSpan, common, covered_ms
from rsmq_tui.history.analysis.reading import Analysis, of_queues
from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_1M, VERDICT_RUNS, WIDTHS_MS
from rsmq_tui.history.analysis.values import DOWN, Episode, Incident, QueueRef, TimeRange
from rsmq_tui.history.names import Place, read_name
from rsmq_tui.history.store import day_span_ms
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from rsmq_tui.monitor.slo import AGE, ANSWERING, STALLED, Objective
from rsmq_tui.protocol.kinds import Reference, kind_of

BURNS_MS = (HOUR_MS, 6 * HOUR_MS, 3 * DAY_MS)
"""The times before the end for which burn rates are computed."""
WEEK_MS = 7 * DAY_MS
# The workbook's burn rates that justify a page: 2 % of a budget of 30 days in an hour, 5 % in six hours,
# and 10 % in three days.
ALERTING = (14.4, 6.0, 1.0)

_QUEUE = ("profile", "server", "ns", "queue")
_AGE_P99 = "oldest_ready_age_ms_p99"


class Server(NamedTuple):
    """A server of a profile, which may have several places."""

    profile: str
    server: str


Subject = Server | QueueRef


@dataclass(frozen=True, slots=True)
class Measured:
    """How much of a time was watched, and how much of that was bad."""

    watched_ms: int
    bad_ms: int

    @property
    def attained(self) -> float | None:
        """The share of the watched time that was good; None if nothing was watched."""
        return 1 - min(1.0, self.bad_ms / self.watched_ms) if self.watched_ms else None

    def burn(self, objective: Objective) -> float | None:
        """How many times faster than allowed the error budget was used; None if nothing was watched."""
        return None if self.attained is None else (1 - self.attained) / objective.budget


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """How well a server or a queue met an objective, up to ``end_ms``.

    ``window`` is the objective's own; ``burns`` are of the times ``BURNS_MS``; ``week`` are the last seven days, and
    ``before`` the seven days before those.
    """

    objective: Objective
    subject: Subject
    end_ms: int
    window: Measured
    burns: tuple[Measured, ...]
    week: Measured
    before: Measured

    @property
    def queue(self) -> QueueRef | None:
        """The queue; None for the level of a server."""
        return self.subject if isinstance(self.subject, QueueRef) else None

    @property
    def budget_left(self) -> float | None:
        """The share of the error budget of the watched time that is left; below 0 if more than all was used."""
        used = self.window.burn(self.objective)
        return None if used is None else 1 - used

    @property
    def is_met(self) -> bool:
        """Whether the objective is met, as far as is known."""
        return self.budget_left is None or self.budget_left >= 0

    @property
    def burn_rates(self) -> tuple[float | None, ...]:
        """How many times faster than allowed the budget was used, in each of ``BURNS_MS``."""
        return tuple(measured.burn(self.objective) for measured in self.burns)

    @property
    def alerting(self) -> tuple[bool, ...]:
        """Whether each burn rate is so high that it needs attention."""
        return tuple(rate is not None and rate >= limit for rate, limit in zip(self.burn_rates, ALERTING, strict=True))

    def as_json(self, uses: "Sequence[Use]") -> dict[str, Any]:
        """Return it as the documented JSON object, with the incidents that used the budget."""
        one, ref = self.objective, self.queue
        return {
            "profile": self.subject.profile,
            "server": self.subject.server,
            "ns": None if ref is None else ref.ns,
            "queue": None if ref is None else command_name(ref),
            "target": one.target,
            "objective": one.percent,
            "window_ms": one.window_ms,
            "end_ms": self.end_ms,
            "watched_ms": self.window.watched_ms,
            "bad_ms": self.window.bad_ms,
            "attained": _percentage(self.window.attained),
            "budget_left": _percentage(self.budget_left),
            "burn_1h": self.burn_rates[0],
            "burn_6h": self.burn_rates[1],
            "burn_3d": self.burn_rates[2],
            "week": _percentage(self.week.attained),
            "week_before": _percentage(self.before.attained),
            "is_met": self.is_met,
            "is_burning": any(self.alerting),
            "incidents": [
                {"start_ms": use.incident.start_ms, "end_ms": use.incident.end_ms, "verdict": use.incident.worst,
                 "cause": use.incident.cause, "bad_ms": use.bad_ms, "budget": _percentage(use.share)}
                for use in uses
            ],
        }  # fmt: skip


class Use(NamedTuple):
    """What an incident used of an error budget: bad time, and its share of the budget of the window."""

    incident: Incident
    bad_ms: int
    share: float


def command_name(ref: QueueRef) -> str:
    """Return a queue's name as commands accept it."""
    kind = kind_of(ref.ns)
    return ref.queue if kind.has_namespaces else Reference(kind, ref.ns, ref.queue).text


def _percentage(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 6)


Objectives = Callable[[str], Sequence[Objective]]
"""The objectives of a profile, by its name."""


class ServiceLevels:
    """The service levels up to ``end_ms``, of some queues or of all, and what used their error budgets.

    ``levels`` has those whose budget was used most first.
    """

    def __init__(
        self, analysis: Analysis, end_ms: int, objectives: Objectives, queues: Iterable[QueueRef] | None = None
    ) -> None:
        self._analysis = analysis
        refs = [facts.ref for facts in analysis.queues()] if queues is None else list(queues)
        wanted = [
            (objective, subject)
            for profile in dict.fromkeys(ref.profile for ref in refs)
            for objective in objectives(profile)
            for subject in _subjects(objective, [ref for ref in refs if ref.profile == profile])
        ]
        self._spans = sorted({span for objective, _ in wanted for span in _spans(objective, end_ms)})
        self._number_of = {span: number for number, span in enumerate(self._spans)}
        self._reach = TimeRange(min((span.from_ms for span in self._spans), default=end_ms), end_ms)
        self._episodes = analysis.episodes(self._reach) if wanted else ()
        self._stalled: dict[QueueRef, list[TimeSpan]] = {}
        for one in self._episodes:
            if one.verdict == STALLED and one.ref is not None:
                self._stalled.setdefault(one.ref, []).append((one.start_ms, one.end_ms))
        self._watched = WatchedTime(analysis, self._spans if wanted else (), self._stalled)
        limits_ms = sorted({objective.below_ms for objective, _ in wanted if objective.sli == AGE})
        self._ages = _ages(analysis, self._spans, limits_ms)
        levels = (self._level(objective, subject, end_ms) for objective, subject in wanted)
        self.levels = tuple(sorted(levels, key=lambda one: 1.0 if one.budget_left is None else one.budget_left))

    def uses(self, level: ServiceLevel, most: int = 3) -> tuple[Use, ...]:
        """Return the incidents that used most of the error budget in the window."""
        budget_ms = level.window.watched_ms * level.objective.budget
        if not (level.window.bad_ms and budget_ms):
            return ()
        span, bad = TimeRange(level.end_ms - level.objective.window_ms, level.end_ms), self._bad(level)
        found = []
        for incident in self._analysis.incidents(span, None if level.queue is None else (level.queue,)):
            is_its = incident.ref == level.queue and Server(*incident.place[:2]) == Server(*level.subject[:2])
            # The head of several queues is of the server too, but takes nothing from its budget.
            is_its &= level.queue is not None or DOWN in incident.verdicts
            within = TimeRange(max(incident.start_ms, span.from_ms), min(incident.end_ms, span.to_ms))
            bad_ms = covered_ms(bad, within) if is_its else 0
            if bad_ms:
                found.append(Use(incident, bad_ms, bad_ms / budget_ms))
        return tuple(sorted(found, key=lambda use: -use.bad_ms)[:most])

    def _level(self, objective: Objective, subject: Subject, end_ms: int) -> ServiceLevel:
        window, *burns, week, before = (self._measured(objective, subject, span) for span in _spans(objective, end_ms))
        return ServiceLevel(objective, subject, end_ms, window, tuple(burns), week, before)

    def _measured(self, objective: Objective, subject: Subject, span: TimeRange) -> Measured:
        number = self._number_of[span]
        if isinstance(subject, Server):
            return self._watched.answering(subject, self._episodes, span)
        if objective.sli == AGE:
            known = self._ages.get((subject, objective.below_ms))
            return known[number] if known else Measured(0, 0)
        watched_ms = self._watched.queues.get(subject, [0] * len(self._spans))[number]
        return Measured(watched_ms, covered_ms(self._stalls(subject, objective), span))

    def _stalls(self, queue: QueueRef, objective: Objective) -> list[TimeSpan]:
        spans = self._stalled.get(queue, ())
        long = [(from_ms, to_ms) for from_ms, to_ms in spans if to_ms - from_ms >= objective.below_ms]
        return common(long, self._watched.spans_of(queue))

    def _bad(self, level: ServiceLevel) -> list[TimeSpan]:
        """Return when the indicator of a level was bad."""
        if level.queue is None:
            return outages_of(self._episodes, Server(*level.subject[:2]))
        if level.objective.sli == STALLED:
            return self._stalls(level.queue, level.objective)
        is_bad = of_queues((level.queue,)) & (pc.field(_AGE_P99) >= float(level.objective.below_ms))
        return [
            (bucket_ms, bucket_ms + WIDTHS_MS[table])
            for table, day in by_width(self._analysis, self._reach)
            for bucket_ms in self._analysis.read(table, ("bucket_ms",), is_bad, day).column("bucket_ms").to_pylist()
        ]


def _subjects(objective: Objective, refs: Sequence[QueueRef]) -> Iterable[Subject]:
    if objective.sli == ANSWERING:
        return dict.fromkeys(Server(ref.profile, ref.server) for ref in refs)
    return [ref for ref in refs if objective.covers(ref.queue, kind_of(ref.ns))]


def _spans(objective: Objective, end_ms: int) -> list[TimeRange]:
    """Return the window, the times of the burn rates, the last week and the week before."""
    lengths = (objective.window_ms, *BURNS_MS, WEEK_MS)
    last = [TimeRange(end_ms - length_ms, end_ms) for length_ms in lengths]
    return [*last, TimeRange(end_ms - 2 * WEEK_MS, end_ms - WEEK_MS)]


def outages_of(episodes: Iterable[Episode], server: Server) -> list[TimeSpan]:
    """Return when the polls of a server failed, in any of its places."""
    return [
        (one.start_ms, one.end_ms)
        for one in episodes
        if one.queue is None and one.verdict == DOWN and Server(*one.place[:2]) == server
    ]


class WatchedTime:
    """How long each queue was watched in some ranges, and when each server, and those of ``queues``, were."""

    def __init__(self, analysis: Analysis, spans: Sequence[TimeRange], queues: Iterable[QueueRef] = ()) -> None:
        self.queues: dict[QueueRef, list[int]] = {}
        self._of_queues: dict[str, list[TimeSpan]] = {"\0".join(ref.stored): [] for ref in queues}
        self._servers: dict[Server, list[TimeSpan]] = {}
        self._spans = spans
        if not spans:
            return
        reach = TimeRange(min(span.from_ms for span in spans), max(span.to_ms for span in spans))
        columns = (*_QUEUE, "first_ms", "last_ms", "continues")
        near = (pc.field("last_ms") >= reach.from_ms) & (pc.field("first_ms") <= reach.to_ms)
        before: pa.Table | None = None
        for day in sorted(analysis.days(VERDICT_RUNS, reach)):
            runs = analysis.read(VERDICT_RUNS, columns, near, _of_day(day))
            before = self._add(runs if before is None else pa.concat_tables([before, runs]))

    def answering(self, server: Server, episodes: Iterable[Episode], span: TimeRange) -> Measured:
        """Return how much of a range a server was watched, and how much of that its polls failed."""
        outages = outages_of(episodes, server)
        if server not in self._servers:
            return Measured(0, 0)
        watched = [*self._servers[server], *outages]
        return Measured(covered_ms(watched, span), covered_ms(outages, span))

    def spans_of(self, queue: QueueRef) -> Sequence[TimeSpan]:
        """Return when one of the queues was watched."""
        return self._of_queues.get("\0".join(queue.stored), ())

    def _add(self, runs: pa.Table) -> pa.Table:
        """Add the runs of a day, and return the end of the last run of each queue, with which the next day begins."""
        runs = runs.sort_by([(name, "ascending") for name in (*_QUEUE, "first_ms", "last_ms")]).combine_chunks()
        key = pc.binary_join_element_wise(*(pc.fill_null(runs.column(name), "\1") for name in _QUEUE), "\0")
        is_same = pc.fill_null(pc.equal(key, _shifted(key)), False)
        follows = pc.and_(is_same, pc.fill_null(runs.column("continues"), False))
        first, last = runs.column("first_ms"), runs.column("last_ms")
        start = pc.if_else(follows, _shifted(last), first)
        is_queue = pc.is_valid(runs.column("queue"))
        self._add_queues(runs.select(list(_QUEUE)).filter(is_queue), start.filter(is_queue), last.filter(is_queue))
        self._add_servers(runs.select(["profile", "server"]), start, last)
        is_wanted = pc.is_in(key, pa.array(self._of_queues, pa.string()))
        columns = (column.filter(is_wanted).to_pylist() for column in (key, start, last))
        for name, from_ms, to_ms in zip(*columns, strict=True):
            self._of_queues[name].append((from_ms, to_ms))
        ends = pc.invert(pc.fill_null(pc.equal(key, _shifted(key, -1)), False))
        kept = runs.filter(ends)
        return kept.set_column(kept.schema.get_field_index("first_ms"), "first_ms", kept.column("last_ms"))

    def _add_queues(self, keyed: pa.Table, start: pa.ChunkedArray, last: pa.ChunkedArray) -> None:
        names = [f"span{number}" for number in range(len(self._spans))]
        for name, span in zip(names, self._spans, strict=True):
            inside = pc.subtract(pc.min_element_wise(last, span.to_ms), pc.max_element_wise(start, span.from_ms))
            keyed = keyed.append_column(name, pc.max_element_wise(inside, 0))
        sums = keyed.group_by(list(_QUEUE)).aggregate([(name, "sum") for name in names])
        for *queue, rest in zip(*(sums.column(name).to_pylist() for name in _QUEUE), _rows(sums, names), strict=True):
            known = self.queues.setdefault(_ref(queue), [0] * len(names))
            for number, value in enumerate(rest):
                known[number] += value

    def _add_servers(self, keyed: pa.Table, start: pa.ChunkedArray, last: pa.ChunkedArray) -> None:
        spans = keyed.append_column("start", start).append_column("last", last)
        spans = spans.group_by(["profile", "server", "start"]).aggregate([("last", "max")]).sort_by("start")
        columns = (spans.column(name).to_pylist() for name in ("profile", "server", "start", "last_max"))
        for profile, server, from_ms, to_ms in zip(*columns, strict=True):
            known = self._servers.setdefault(Server(read_name(profile), server), [])
            if known and from_ms <= known[-1][1]:
                known[-1] = (known[-1][0], max(known[-1][1], to_ms))
            else:
                known.append((from_ms, to_ms))


def _ages(
    analysis: Analysis, spans: Sequence[TimeRange], limits_ms: Sequence[int]
) -> dict[tuple[QueueRef, int], list[Measured]]:
    """Return the watched and the bad minutes of each queue, for each limit of the age and each range."""
    if not limits_ms:
        return {}
    kinds = {f"{kind}_{number}": "sum" for number in range(len(spans)) for kind in ("known", *limits_ms)}

    def added(rows: pa.Table, width_ms: int) -> dict[str, pa.Array]:
        age = rows.column(_AGE_P99).cast(pa.float64(), safe=False)
        is_known = pc.or_kleene(pc.is_finite(age), pc.equal(rows.column("ready_mean"), 0.0))
        found = {}
        for number, span in enumerate(spans):
            known = pc.and_(inside(rows, span, width_ms, span.to_ms + 1), pc.fill_null(is_known, False))
            found[f"known_{number}"] = pc.multiply(known.cast(pa.int64()), width_ms)
            for limit_ms in limits_ms:
                is_bad = pc.and_(known, pc.fill_null(pc.greater_equal(age, float(limit_ms)), False))
                found[f"{limit_ms}_{number}"] = pc.multiply(is_bad.cast(pa.int64()), width_ms)
        return found

    reach = TimeRange(min(span.from_ms for span in spans), max(span.to_ms for span in spans))
    sums = sums_by_queue(analysis, reach, ("ready_mean", _AGE_P99), added, kinds)
    return {
        (ref, limit_ms): [
            Measured(known[f"known_{number}"], known[f"{limit_ms}_{number}"]) for number in range(len(spans))
        ]
        for ref, known in sums.items()
        for limit_ms in limits_ms
    }


def sums_by_queue(
    analysis: Analysis,
    span: TimeRange,
    columns: Sequence[str],
    added: Callable[[pa.Table, int], Mapping[str, pa.Array]],
    kinds: Mapping[str, str],
) -> dict[QueueRef, dict[str, Any]]:
    """Aggregate columns for each queue, from the roll-up of minutes, or of hours on days without minutes.

    ``added`` returns these columns of some rows, whose buckets have a width in ms; ``kinds`` says how each is
    aggregated. Memory does not depend on the number of rows.
    """

    def joined(parts: Sequence[pa.Table]) -> pa.Table:
        groups = pa.concat_tables(parts).group_by(list(_QUEUE)).aggregate(list(kinds.items()))
        return groups.rename_columns({f"{name}_{kind}": name for name, kind in kinds.items()})

    def made(rows: pa.Table, width_ms: int) -> pa.Table:
        keyed = rows.select(list(_QUEUE))
        for name, column in added(rows, width_ms).items():
            keyed = keyed.append_column(name, column)
        return joined([keyed])

    wanted = ("bucket_ms", *_QUEUE, *columns)
    found: list[pa.Table] = []
    for table, day in by_width(analysis, span):
        near = (pc.field("bucket_ms") >= span.from_ms) & (pc.field("bucket_ms") <= span.to_ms)
        found += analysis.parts(table, wanted, partial(made, width_ms=WIDTHS_MS[table]), near, day, joined)
        found = [joined(found)] if found else []
    rows = found[0].to_pylist() if found else []
    return {_ref([row.pop(name) for name in _QUEUE]): row for row in rows}


def inside(rows: pa.Table, span: TimeRange, width_ms: int, end_ms: int) -> pa.Array:
    """Return whether each bucket lies wholly in a range; those in which the analysis ends at ``end_ms`` do, too."""
    last_ms = span.to_ms - width_ms if span.to_ms < end_ms else span.to_ms
    bucket_ms = rows.column("bucket_ms")
    return pc.and_(pc.greater_equal(bucket_ms, span.from_ms), pc.less_equal(bucket_ms, last_ms))


def by_width(analysis: Analysis, span: TimeRange) -> Iterable[tuple[str, TimeRange]]:
    """Yield the days of a range, each with the roll-up of minutes, or of hours if there is no other."""
    minutes = analysis.days(ROLLUP_1M, span)
    for day in sorted(minutes | analysis.days(ROLLUP_1H, span)):
        yield ROLLUP_1M if day in minutes else ROLLUP_1H, _of_day(day)


def _of_day(day: str) -> TimeRange:
    first_ms, last_ms = day_span_ms(day) or (0, 0)
    return TimeRange(first_ms, last_ms)


def _rows(table: pa.Table, names: Sequence[str]) -> Iterable[tuple[int, ...]]:
    return zip(*(table.column(f"{name}_sum").to_pylist() for name in names), strict=True)


def _shifted(column: pa.ChunkedArray, by: int = 1) -> pa.Array:
    """Return the value of the row before each row; of the row after it, if ``by`` is -1."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    none = pa.nulls(min(1, len(values)), values.type)
    return pa.concat_arrays([none, values[:-1]] if by > 0 else [values[1:], none])


def _ref(queue: Sequence[str]) -> QueueRef:
    *place, name = queue
    return QueueRef(*Place.read(*place), read_name(name))
