"""The data of a report: values that are true of its range only.

Lines consist of the buckets of roll-ups that lie wholly in the range. Incidents that reach beyond it count with the
time in it; their causes and peaks are only known for the whole.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.analysis.incidents import TimeSpan, covered_ms, incidents_at, joined, severity, times_of
from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import (
    AGE,
    DOWN,
    OPEN,
    WAITING,
    Advice,
    Anomaly,
    Band,
    Episode,
    Forecast,
    HeatMap,
    Incident,
    Line,
    Poison,
    QueueRef,
    TimeRange,
)
from rsmq_tui.history.changes import CountedChange, changes_of, counted_of
from rsmq_tui.history.names import Place
from rsmq_tui.history.report import slo
from rsmq_tui.history.report.restarts import Recreated, Restart, recreated_of, restarts_of
from rsmq_tui.history.report.slo import (
    Measured,
    Objectives,
    Server,
    ServiceLevel,
    ServiceLevels,
    Use,
    WatchedTime,
    sums_by_queue,
)
from rsmq_tui.monitor import Thresholds
from rsmq_tui.monitor.changes import NO_CHANGES, AuditedChange, AuditedChanges, by_subject
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from rsmq_tui.monitor.slo import AGE as AGE_P99
from rsmq_tui.monitor.slo import Objective
from rsmq_tui.monitor.text import count, plural, printable
from rsmq_tui.protocol.kinds import kind_of

RATES = ("arrivals_s", "deletes_s", "receives_s")
LATE_MS = Thresholds().aged_ms
"""A message is late if it waited longer; for a queue with an objective of the age, longer than that."""
# Older tables have no waiting times.
_WAITED = (WAITING, AGE)
# The points of a line, for a chart of about 700 units.
_POINTS = 400
_NAME_MAX = 200
# The number of queues in trouble that have charts.
_SECTIONS_MAX = 20
# The heat map is by weekday for longer ranges, and left out for shorter ones.
_HEAT_DAYS, _HEAT_DAYS_MIN = 45, 2
# The number of missed objectives that are explained by incidents.
_USES_OF = 10

Outages = Mapping[Server, Sequence[TimeSpan]]
"""When each server was down, in the order of time."""


class Bounds(NamedTuple):
    """How long something lasted at least and at most, in ms."""

    least_ms: int
    most_ms: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a range: ``recoveries_ms`` is sorted, ``late`` is None if no messages are known to be received.

    ``trouble_ms`` is the time in which at least one queue or server was in an incident. ``down_ms`` are the bounds of
    all outages together, None if those of one are not known.
    """

    answering: Measured
    outages: int
    down_ms: Bounds | None
    incidents: int
    queues: int
    trouble_ms: int
    recoveries_ms: tuple[int, ...]
    late: float | None

    def recovery_ms(self, percent: int) -> int | None:
        """Return a percentile of the times to recovery, by nearest rank."""
        known = self.recoveries_ms
        return known[ceil(len(known) * percent / 100) - 1] if known else None


@dataclass(frozen=True, slots=True)
class QueueSums:
    """A queue in the range: ``arrivals_s`` and ``deletes_s`` are means; None if nothing is known."""

    ref: QueueRef
    incidents: int
    trouble_ms: int
    depth_mean: float | None
    depth_max: float | None
    age_max_ms: float | None
    arrivals_s: float | None
    deletes_s: float | None
    late: float | None


@dataclass(frozen=True, slots=True)
class Section:
    """The charts of one queue, its greatest depth, and its incidents in the range; ``depth`` consists of means."""

    ref: QueueRef
    depth_max: float | None
    incidents: tuple[Incident, ...]
    depth: Line
    p95: Line
    usual: Band
    age: Line
    rates: tuple[Line, ...]


class Fullest(NamedTuple):
    """The highest total depth: its bounds, because roll-ups have the maximum only for each queue, and their times."""

    least_ms: int
    least: float
    most_ms: int
    most: float


@dataclass(frozen=True, slots=True)
class Report:
    """The data of a report. ``sections`` are of the queues in trouble, or of the chosen ones.

    ``before`` is the range of the same length before, with its figures; both are None if it was not recorded.
    ``others`` is the number of further queues in trouble; ``is_chosen`` says whether queues were chosen. ``labels`` are
    what names of queues need to be unique: nothing, a server, a namespace or both. Without inventories, ``poison`` is
    unknown. ``bounds`` are those of outages, by their times, if they are known. ``times`` are when there was trouble in
    each incident, by its id. ``changes`` are those made with this program; ``changed`` has those of each queue,
    ``during`` the incidents in which they began, and ``counted`` the figures that contain them.
    """

    title: str | None
    label: str
    history: str
    made_ms: int
    problems: tuple[str, ...]
    span: TimeRange
    whole: TimeRange
    is_chosen: bool
    labels: Mapping[Place, str]
    figures: Figures
    before: TimeRange | None
    figures_before: Figures | None
    has_targets: bool
    queues: tuple[QueueSums, ...]
    incidents: tuple[Incident, ...]
    outages: Outages
    restarts: tuple[Restart, ...]
    recreated: tuple[Recreated, ...]
    bounds: Mapping[TimeSpan, Bounds]
    times: Mapping[str, Sequence[TimeSpan]]
    levels: tuple[ServiceLevel, ...]
    uses: Mapping[ServiceLevel, tuple[Use, ...]]
    depth: Line
    fullest: Fullest | None
    rates: tuple[Line, ...]
    heat: HeatMap | None
    sections: tuple[Section, ...]
    others: int
    has_inventories: bool
    poison: tuple[Poison, ...]
    advice: tuple[Advice, ...]
    forecasts: tuple[Forecast, ...]
    anomalies: tuple[Anomaly, ...]
    changes: tuple[AuditedChange, ...]
    changed: Mapping[tuple[str, ...], Sequence[AuditedChange]]
    during: Mapping[AuditedChange, Incident]
    counted: tuple[CountedChange, ...]

    @property
    def heads(self) -> tuple[Incident, ...]:
        """The incidents that count: those that belong to no other one."""
        return tuple(one for one in self.incidents if one.head_id is None)

    def name(self, ref: QueueRef) -> str:
        """Return a queue's printable name, with its label."""
        label = self.labels.get(ref.place, "")
        return shown(f"{ref.queue} · {label}" if label else ref.queue)

    def subject(self, incident: Incident) -> str:
        """Return the printable subject of an incident: the queue, all of a server, or queues of it."""
        if incident.ref is not None:
            return self.name(incident.ref)
        number, every = self.members(incident), sum(row.ref[:2] == incident.place[:2] for row in self.queues)
        if incident.is_outage:
            return f"all of {server_name(incident.place)}"
        of_every = plural(every, "chosen queue" if self.is_chosen else "queue")
        share = "all" if number == every > 1 else f"{count(number)} of"
        return f"{share} {of_every} of {server_name(incident.place)}"

    def changes_to(self, ref: QueueRef) -> Sequence[AuditedChange]:
        """Return the changes that concern a queue."""
        return self.changed.get(ref[1:], ())

    def queue_of(self, change: AuditedChange) -> QueueRef:
        """Return the queue of a change, at the first place that was recorded with its server and namespace."""
        place = next((place for place in self.labels if place[1:] == (change.server, change.ns)), None)
        return QueueRef("" if place is None else place.profile, change.server, change.ns, change.queue)

    def changes_during(self, incident: Incident) -> list[AuditedChange]:
        """Return the changes that began during an incident; of a head, those of what it stands for as well."""
        parts = {incident.id, *(one.id for one in self.parts(incident))}
        return [change for change, during in self.during.items() if during.id in parts]

    def parts(self, incident: Incident) -> list[Incident]:
        """Return the incidents of queues that a head stands for in the range."""
        return [one for one in self.incidents if one.head_id == incident.id]

    def members(self, incident: Incident) -> int:
        """Return the number of these queues."""
        return len({one.ref for one in self.parts(incident)})

    def ongoing(self, incident: Incident) -> int:
        """Return the number of these queues whose incident goes on at the end of the history."""
        return len({one.ref for one in self.parts(incident) if one.ended == OPEN})

    def times_down(self, incident: Incident) -> Sequence[TimeSpan]:
        """Return when the server of an incident was down in it; empty if it is not an outage."""
        return _times_down(incident, self.outages)

    def down_ms(self, incident: Incident) -> Bounds | None:
        """Return the bounds of how long the server of an incident was down in it; None if they are not known."""
        return _together(self.times_down(incident), self.bounds, self.span)

    def times_in_trouble(self, incident: Incident) -> Sequence[TimeSpan]:
        """Return when there was trouble in an incident: of an outage, when the server was down."""
        return _times(incident, self.outages, self.times)

    def lasted_ms(self, incident: Incident) -> int:
        """Return how long an incident lasted in the range, without the ok times in it."""
        return covered_ms(self.times_in_trouble(incident), self.span)

    def trouble_ms(self, incidents: Iterable[Incident]) -> int:
        """Return how long there was trouble in at least one of some incidents of queues in the range."""
        return _trouble_ms(incidents, self.times, self.span)

    def rank(self, incidents: Collection[Incident]) -> tuple[int, int]:
        """Return the rank of a queue by its incidents, the least for the worst: by verdict, then by time in trouble."""
        return _rank(incidents, self.times, self.span)

    def is_whole(self, incident: Incident) -> bool:
        """Return whether an incident lies completely in the range, so that the report may describe all of it."""
        return self.span.from_ms <= incident.start_ms and incident.end_ms <= self.span.to_ms


def gather(
    analysis: Analysis,
    span: TimeRange,
    queues: Collection[QueueRef] | None = None,
    *,
    title: str | None = None,
    objectives: Objectives = lambda _: (),
    audited: AuditedChanges = NO_CHANGES,
) -> Report:
    """Read the data of a report: of the chosen queues, or of all, with sections for the worst.

    Of the ``audited`` changes, it has those that were made to these queues in the range.
    """
    whole = analysis.span() or span
    # Once, because several runs of the pipeline may be published meanwhile.
    every = tuple(facts for facts in analysis.queues() if queues is None or facts.ref in queues)
    refs = tuple(facts.ref for facts in every if span.holds(facts.first_ms, facts.last_ms) or queues is not None)
    chosen = None if queues is None else refs
    limits_ms = {ref: _late_ms(objectives(ref.profile), ref) for ref in refs}
    spans = _compared(span, whole)
    sums = _sums(analysis, spans, sorted({LATE_MS, *limits_ms.values()}), whole)
    figures = _figures(analysis, spans, chosen, refs, sums, limits_ms)
    episodes = analysis.episodes(span)
    incidents, outages = _incidents(analysis, span, chosen, episodes), _outages(episodes, refs)
    times = times_of(incidents, episodes)
    own: dict[QueueRef | None, list[Incident]] = {}
    for incident in incidents:
        own.setdefault(incident.ref, []).append(incident)
    worst = sorted((ref for ref in refs if ref in own), key=lambda ref: (_rank(own[ref], times, span), ref))
    sections = worst if chosen is None else list(refs)
    levels = ServiceLevels(analysis, span.to_ms, objectives, chosen)
    depth, fullest, rates = _totals(analysis, chosen, episodes, span, whole)
    changes = changes_of(audited.changes, span, refs, is_chosen=queues is not None)
    restarts = restarts_of(analysis, span, _servers(refs), chosen)
    return Report(
        title=title,
        label=analysis.label,
        history=analysis.manifest.history,
        made_ms=analysis.manifest.made_ms,
        problems=(*analysis.problems, *audited.problems),
        span=span,
        whole=whole,
        is_chosen=queues is not None,
        labels=_labels(refs),
        figures=figures[0],
        before=spans[1] if len(spans) > 1 else None,
        figures_before=figures[1] if len(spans) > 1 else None,
        has_targets=any(limit != LATE_MS for limit in limits_ms.values()),
        queues=tuple(
            _queue_sums(ref, sums.get(ref, {}), own.get(ref, []), times, span, limits_ms[ref]) for ref in refs
        ),
        incidents=incidents,
        outages=outages,
        restarts=restarts,
        recreated=recreated_of(analysis, span, restarts, chosen),
        bounds=_bounds(episodes, outages),
        times=times,
        levels=levels.levels,
        uses={level: levels.uses(level) for level in levels.levels[:_USES_OF] if not level.is_met},
        depth=depth,
        fullest=fullest,
        rates=rates,
        heat=_heat(analysis, chosen, span, whole),
        sections=tuple(
            _section(analysis, ref, sums.get(ref, {}).get("depth_max"), own.get(ref, ()), span, whole)
            for ref in sections[:_SECTIONS_MAX]
        ),
        others=max(0, len(sections) - _SECTIONS_MAX),
        has_inventories=analysis.has_inventories(span, chosen),
        poison=tuple(one for one in analysis.poison(span, chosen) if _is_in(one.last_seen_ms, span)),
        advice=analysis.advice(chosen),
        forecasts=tuple(one for one in analysis.forecasts(chosen) if _is_in(one.at_ms, span)),
        anomalies=tuple(
            one
            for one in analysis.anomalies(span, chosen)
            if _is_in(one.bucket_ms, span) and _is_in(one.bucket_ms + HOUR_MS, span)
        ),
        changes=changes,
        changed=by_subject(changes),
        during=incidents_at(changes, incidents),
        counted=counted_of(analysis, changes, refs),
    )


def _compared(span: TimeRange, whole: TimeRange) -> list[TimeRange]:
    """Return the range, and the one of the same length before it, if that was recorded."""
    before = TimeRange(span.from_ms - span.length_ms, span.from_ms)
    # Nearly: a recording that is a day old began some seconds after the time that the user names.
    was_recorded = whole.from_ms <= before.from_ms + min(HOUR_MS, span.length_ms // 10)
    return [span, before] if was_recorded else [span]


def _is_in(at_ms: int, span: TimeRange) -> bool:
    return span.holds(at_ms, at_ms)


def worst_first(report: Report, incidents: Iterable[Incident]) -> list[Incident]:
    """Return incidents by their worst verdict, then by their time in the range."""
    return sorted(incidents, key=lambda one: (severity(one.worst), -report.lasted_ms(one), one.start_ms))


def server_name(subject: Sequence[str]) -> str:
    """Return the printable name of the server of a place or a queue: that of its profile, if it has one."""
    profile, server, *_ = subject
    return shown(profile or server)


def _labels(refs: Iterable[QueueRef]) -> dict[Place, str]:
    """Return the server of each place if there are several, and the namespace if a server has several."""
    places = dict.fromkeys(ref.place for ref in refs)
    servers = {Server(*place[:2]) for place in places}
    labels = {}
    for place in places:
        of_server = [other for other in places if other[:2] == place[:2] and kind_of(other.ns).has_namespaces]
        has_ns = len(of_server) > 1 and place in of_server
        labels[place] = " ".join(([server_name(place)] if len(servers) > 1 else []) + ([place.ns] if has_ns else []))
    return labels


def shown(text: str) -> str:
    """Return a name as printable text."""
    return printable(text, _NAME_MAX)


def _rank(incidents: Collection[Incident], times: Mapping[str, Sequence[TimeSpan]], span: TimeRange) -> tuple[int, int]:
    return min(severity(one.worst) for one in incidents), -_trouble_ms(incidents, times, span)


def _trouble_ms(incidents: Iterable[Incident], times: Mapping[str, Sequence[TimeSpan]], span: TimeRange) -> int:
    return covered_ms((each for one in incidents for each in times[one.id]), span)


def _times(incident: Incident, outages: Outages, times: Mapping[str, Sequence[TimeSpan]]) -> Sequence[TimeSpan]:
    return _times_down(incident, outages) or times[incident.id]


def _times_down(incident: Incident, outages: Outages) -> Sequence[TimeSpan]:
    known = outages.get(Server(*incident.place[:2]), ()) if incident.is_outage else ()
    return [each for each in known if incident.start_ms <= each[0] and each[1] <= incident.end_ms]


def _bounds(episodes: Iterable[Episode], outages: Outages) -> dict[TimeSpan, Bounds]:
    """Return the bounds of each outage by its times: the last answer before it, the first and the last failed poll."""
    down = [one for one in episodes if one.queue is None]
    found = {}
    for server, spans in outages.items():
        for start_ms, end_ms in spans:
            parts = [one for one in down if one.place[:2] == server and start_ms <= one.start_ms <= end_ms]
            # What one place answered before another one did not counts for the server.
            answered_ms = _greatest(one.answered_ms for one in parts if (one.answered_ms or start_ms) < start_ms)
            failed_ms = _greatest(one.failed_ms for one in parts)
            if answered_ms is not None and failed_ms is not None:
                found[start_ms, end_ms] = Bounds(failed_ms - start_ms, end_ms - answered_ms)
    return found


def _greatest(times: Iterable[int | None]) -> int | None:
    return max((at_ms for at_ms in times if at_ms is not None), default=None)


def _together(spans: Iterable[TimeSpan], bounds: Mapping[TimeSpan, Bounds], within: TimeRange) -> Bounds | None:
    """Return the bounds of several outages; None if there are none, one is not known, or one reaches beyond a range."""
    found = [bounds.get(span) if within.from_ms <= span[0] and span[1] <= within.to_ms else None for span in spans]
    known = [each for each in found if each is not None]
    if not found or len(known) < len(found):
        return None
    return Bounds(sum(each.least_ms for each in known), sum(each.most_ms for each in known))


def _recoveries_ms(
    incidents: Iterable[Incident], episodes: Iterable[Episode], outages: Outages, span: TimeRange
) -> tuple[int, ...]:
    """Return the sorted times to recovery in a range: of the incidents of queues, and of the outages of servers.

    The head of several queues does not count: one of them that is in trouble for ever would hide when others recovered.
    """
    up_ms = {(Server(*one.place[:2]), one.end_ms): one.recovered_ms for one in episodes if one.queue is None}
    spans: list[tuple[int, int | None]] = []
    for incident in incidents:
        server, times = Server(*incident.place[:2]), _times_down(incident, outages)
        if times:
            spans += [(start_ms, up_ms[server, end_ms]) for start_ms, end_ms in times]
        elif incident.queue is not None or incident.is_outage:
            spans.append((incident.start_ms, incident.recovered_ms))
    return tuple(
        sorted(
            recovered_ms - start_ms
            for start_ms, recovered_ms in spans
            if recovered_ms is not None and span.from_ms <= start_ms and recovered_ms <= span.to_ms
        )
    )


def _incidents(
    analysis: Analysis, span: TimeRange, queues: Collection[QueueRef] | None, episodes: Iterable[Episode]
) -> tuple[Incident, ...]:
    """Return the incidents that last in a range; the head of an outage lasts as long as that.

    In the table, a head lasts until the last of what it stands for is over. Incidents that began with an outage before
    the range belong to no head.
    """
    found = [one for one in analysis.incidents(span, queues) if one.end_ms > span.from_ms]
    heads = [one for one in found if one.is_outage]
    outages: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.queue is None and episode.end_ms > span.from_ms:
            before = [one for one in heads if one.place[:2] == episode.place[:2] and one.start_ms <= episode.start_ms]
            if before:
                outages.setdefault(before[-1].id, []).append(episode)
    gone = {one.id for one in heads} - set(outages)
    return tuple(
        replace(one, head_id=None if one.head_id in gone else one.head_id)
        if one.id not in outages
        else _outage(one, outages[one.id])
        for one in found
        if one.id not in gone
    )


def _outage(head: Incident, outages: Sequence[Episode]) -> Incident:
    last = max(outages, key=lambda one: one.end_ms)
    return replace(
        head,
        start_ms=min(one.start_ms for one in outages),
        end_ms=last.end_ms,
        ended=last.ended,
        recovered_ms=last.recovered_ms,
        worst=DOWN,
        verdicts=(DOWN,),
        peak_depth=None,
    )


def _late_ms(objectives: Iterable[Objective], ref: QueueRef) -> int:
    """Return how long a message of a queue may wait: the lowest of its objectives, if it has one."""
    limits = [one.below_ms for one in objectives if one.sli == AGE_P99 and one.covers(ref.queue, kind_of(ref.ns))]
    return min(limits, default=LATE_MS)


def _figures(
    analysis: Analysis, spans: Sequence[TimeRange], chosen: Collection[QueueRef] | None, refs: Collection[QueueRef],
    sums: Mapping[QueueRef, Mapping[str, float | None]], limits_ms: Mapping[QueueRef, int],
) -> list[Figures]:  # fmt: skip
    """Return the figures of each range; ``sums`` has the late messages by their limits."""
    watched, found = WatchedTime(analysis, spans), []
    for number, span in enumerate(spans):
        episodes = analysis.episodes(span)
        incidents = _incidents(analysis, span, chosen, episodes)
        measured = [watched.answering(server, episodes, span) for server in _servers(refs)]
        outages, times = _outages(episodes, refs), times_of(incidents, episodes)
        late = [sums[ref][f"late{limit}_{number}"] for ref, limit in limits_ms.items() if ref in sums]
        known = [messages for messages in late if messages is not None]
        found.append(
            Figures(
                answering=Measured(sum(one.watched_ms for one in measured), sum(one.bad_ms for one in measured)),
                outages=sum(map(len, outages.values())),
                down_ms=_together([one for each in outages.values() for one in each], _bounds(episodes, outages), span),
                incidents=sum(one.head_id is None for one in incidents),
                queues=len({one.ref for one in incidents if one.ref is not None}),
                trouble_ms=covered_ms((each for one in incidents for each in _times(one, outages, times)), span),
                recoveries_ms=_recoveries_ms(incidents, episodes, outages, span),
                late=sum(known) if known else None,
            )
        )
    return found


def _outages(episodes: Collection[Episode], refs: Iterable[QueueRef]) -> Outages:
    return {server: joined(slo.outages_of(episodes, server)) for server in _servers(refs)}


def _servers(refs: Iterable[QueueRef]) -> list[Server]:
    return list(dict.fromkeys(Server(ref.profile, ref.server) for ref in refs))


def _sums(
    analysis: Analysis, spans: Sequence[TimeRange], limits_ms: Sequence[int], whole: TimeRange
) -> dict[QueueRef, dict[str, float | None]]:
    """Aggregate each queue over the first of the ranges, and its late messages over each.

    A message counts as late if it was received, not for another time, while the first ready message had waited longer
    than the limit: queues deliver in this order. Older tables have only its age. Where nothing was received, the number
    is unknown: messages that wait for a consumer may be late.
    """
    kinds = {"weight": "sum", "depth": "sum", "depth_max": "max", "age_max": "max"}
    kinds |= dict.fromkeys(("arrivals", "deletes", "covered"), "sum")
    kinds |= {f"late{limit}_{number}": "sum" for number in range(len(spans)) for limit in limits_ms}

    def added(rows: pa.Table, width_ms: int) -> dict[str, pa.Array]:
        inside = [slo.inside(rows, span, width_ms, whole.to_ms) for span in spans]
        first = inside[0]

        def known(column: str) -> pa.Array:
            value = rows.column(column).cast(pa.float64(), safe=False)
            return pc.if_else(pc.and_(first, pc.is_finite(value)), value, None)

        mean = known("depth_mean")
        weight = pc.if_else(pc.is_valid(mean), known("samples"), None)
        again = pc.coalesce(rows.column("redeliveries"), 0)
        received = pc.subtract(rows.column("receives"), again).cast(pa.float64(), safe=False)
        received = pc.if_else(pc.greater(received, 0.0), received, None)
        waited, longest = (
            pc.coalesce(*(rows.column(f"{name}_{statistic}").cast(pa.float64(), safe=False) for name in _WAITED), 0.0)
            for statistic in ("mean", "max")
        )
        late = {
            f"late{limit}_{number}": pc.if_else(each, pc.multiply(received, _share_above(limit, waited, longest)), None)
            for number, each in enumerate(inside)
            for limit in limits_ms
        }
        return {
            "weight": weight,
            "depth": pc.multiply(mean, weight),
            "depth_max": known("depth_max"),
            "age_max": known(f"{AGE}_max"),
            **{name: known(name) for name in ("arrivals", "deletes")},
            "covered": pc.if_else(pc.is_valid(known("arrivals")), known("covered_ms"), None),
            **late,
        }

    columns = (
        *("samples", "depth_mean", "depth_max"),
        *(f"{name}_{statistic}" for name in _WAITED for statistic in ("mean", "max")),
        *("arrivals", "deletes", "receives", "redeliveries", "covered_ms"),
    )
    reach = TimeRange(spans[-1].from_ms, spans[0].to_ms)
    return sums_by_queue(analysis, reach, columns, added, kinds)


def _share_above(limit: float, mean: pa.Array, highest: pa.Array) -> pa.Array:
    """Return in what share of a minute a value is above a limit, if it falls or rises evenly to or from its highest."""
    lowest = pc.subtract(pc.multiply(mean, 2.0), highest)
    share = pc.divide(pc.subtract(highest, float(limit)), pc.subtract(highest, lowest))
    some = pc.min_element_wise(1.0, share)
    return pc.if_else(pc.greater(highest, float(limit)), pc.if_else(pc.greater(lowest, float(limit)), 1.0, some), 0.0)


def _queue_sums(
    ref: QueueRef, sums: Mapping[str, float | None], incidents: Sequence[Incident],
    times: Mapping[str, Sequence[TimeSpan]], span: TimeRange, late_ms: int,
) -> QueueSums:  # fmt: skip
    covered_ms, weight = sums.get("covered") or 0, sums.get("weight") or 0

    def mean(name: str, scale: float, of: float) -> float | None:
        value = sums.get(name)
        return None if value is None or not of else value * scale / of

    return QueueSums(
        ref=ref,
        incidents=len(incidents),
        trouble_ms=_trouble_ms(incidents, times, span),
        depth_mean=mean("depth", 1, weight),
        depth_max=sums.get("depth_max"),
        age_max_ms=sums.get("age_max"),
        arrivals_s=mean("arrivals", 1000, covered_ms),
        deletes_s=mean("deletes", 1000, covered_ms),
        late=sums.get(f"late{late_ms}_0"),
    )


def _lines(
    analysis: Analysis, queues: Collection[QueueRef] | None, asked: Sequence[tuple[str, str]], span: TimeRange,
    whole: TimeRange,
) -> tuple[Line, ...]:  # fmt: skip
    """Return lines of the steps that lie wholly in the range, or end with the analysis."""
    last_ms = span.to_ms if span.to_ms < whole.to_ms else whole.to_ms + DAY_MS
    lines = analysis.lines(queues, asked, span, points=_POINTS)
    return tuple(
        replace(
            line,
            points=tuple(
                point for point in line.points if span.from_ms <= point[0] and point[0] + line.step_ms <= last_ms
            ),
        )
        for line in lines
    )


def _heat(analysis: Analysis, queues: Collection[QueueRef] | None, span: TimeRange, whole: TimeRange) -> HeatMap | None:
    if span.length_ms < _HEAT_DAYS_MIN * DAY_MS:
        return None
    # Reading begins with the bucket in which a range begins, which must be the first whole hour.
    from_ms = -(-span.from_ms // HOUR_MS) * HOUR_MS + HOUR_MS - 1
    to_ms = span.to_ms if span.to_ms >= whole.to_ms else span.to_ms // HOUR_MS * HOUR_MS - 1
    by_week = span.length_ms > _HEAT_DAYS * DAY_MS
    return analysis.heat(queues, "depth", TimeRange(from_ms, to_ms), by_week=by_week)


def _totals(
    analysis: Analysis, queues: Collection[QueueRef] | None, episodes: Iterable[Episode], span: TimeRange,
    whole: TimeRange,
) -> tuple[Line, Fullest | None, tuple[Line, ...]]:  # fmt: skip
    """Return the total depth, when that was highest, and the rates, of some queues together."""
    asked = [("depth", "mean"), ("depth", "max"), *((rate, "mean") for rate in RATES)]
    depth, highest, *rates = _lines(analysis, queues, asked, span, whole)
    alone = analysis.greatest(queues, "depth", span, points=_POINTS)
    own = [one for one in episodes if queues is None or one.ref in queues]
    return depth, _fullest(depth, highest, alone, own, span), tuple(rates)


def _fullest(
    mean: Line, highest: Line, alone: tuple[int, float] | None, episodes: Iterable[Episode], span: TimeRange
) -> Fullest | None:
    """Return the highest total depth: at least the sum of the means, and at least that of any single queue.

    At most it is the sum of the maxima, which queues need not have had at the same moment.
    """
    peaks = [
        (one.peak_ms, float(one.peak_depth))
        for one in episodes
        if one.peak_ms is not None and one.peak_depth is not None and span.holds(one.peak_ms, one.peak_ms)
    ]
    inside = [one for one in (mean.peak, alone) if one is not None and one[0] >= span.from_ms]
    if not (inside or peaks):
        return None
    at_ms, least = max((*inside, *peaks), key=lambda found: found[1])
    # If the sum is unknown because a place was not polled, that of the others may be greater.
    if highest.peak is None or highest.peak[1] <= least:
        return Fullest(at_ms, least, at_ms, least)
    return Fullest(at_ms, least, *highest.peak)


def _section(
    analysis: Analysis,
    ref: QueueRef,
    depth_max: float | None,
    incidents: Iterable[Incident],
    span: TimeRange,
    whole: TimeRange,
) -> Section:
    asked = [("depth", "mean"), ("depth", "p95"), (AGE, "max"), *((rate, "mean") for rate in RATES)]
    depth, p95, age, *rates = _lines(analysis, (ref,), asked, span, whole)
    return Section(
        ref=ref,
        depth_max=depth_max,
        incidents=tuple(incidents),
        depth=depth,
        p95=p95,
        usual=analysis.band(ref, "depth", span),
        age=age,
        rates=tuple(rates),
    )
