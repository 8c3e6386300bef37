"""What the history screen shows: pages with their columns, charts, heat maps, and the pane of a row."""

import textwrap
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.strip import Strip

from rsmq_tui.charts.drawing import sparklines
from rsmq_tui.charts.series import Series
from rsmq_tui.history.analysis.incidents import TimeSpan, covered_ms, incidents_at, outcome_words, severity, times_of
from rsmq_tui.history.analysis.values import (
    AGE,
    OPEN,
    Advice,
    Anomaly,
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
    age_unit,
)
from rsmq_tui.history.names import Place
from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.changes import AuditedChange
from rsmq_tui.monitor.moments import WEEKDAYS
from rsmq_tui.monitor.text import UNKNOWN, compact, count, duration, printable, rate, seconds, size
from rsmq_tui.tui.history.loading import Lines, Lists, moment
from rsmq_tui.tui.theme import verdict_words
from rsmq_tui.tui.widgets.charts import ChartPanel, changes_words
from rsmq_tui.tui.widgets.lines import cells_of, tab_alone, tab_line
from rsmq_tui.tui.widgets.painted import Painted, Piece
from rsmq_tui.tui.widgets.pane import Pane
from rsmq_tui.tui.widgets.row_table import Column
from rsmq_tui.tui.widgets.text_view import LineView

METRIC_WORDS = {
    "depth": "depth",
    AGE: "oldest ready",
    "arrivals_s": "arrivals/s",
    "deletes_s": "deletes/s",
    "receives_s": "receives/s",
    "redeliveries_s": "redeliveries/s",
}


@dataclass(frozen=True, slots=True)
class HistoryContext:
    """What the cells of the history's tables show besides their row."""

    has_several_places: bool = False
    marked: Set[QueueRef] = frozenset()
    # The verdict that followed an episode of a queue, by its end.
    became: Mapping[tuple[QueueRef | None, int], str] = field(default_factory=dict)
    # When there was trouble in each incident, by its id.
    times: Mapping[str, Sequence[TimeSpan]] = field(default_factory=dict)

    def name(self, ref: QueueRef) -> str:
        """Return a queue's name, with its place if there are several."""
        return f"{ref.queue} · {self.place(ref.place)}" if self.has_several_places else ref.queue

    def place(self, place: Place) -> str:
        """Return a place's name."""
        return f"{place.profile or place.server} {place.ns}"

    def lasted_ms(self, row: Episode | Incident) -> int:
        """Return how long there was trouble, without the ok times in an incident."""
        known = self.times.get(row.id, ()) if isinstance(row, Incident) else ()
        return sum(to_ms - from_ms for from_ms, to_ms in known) if known else row.length_ms


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue, and a summary of its incidents in the range."""

    facts: QueueFacts
    worst: str
    incidents: int
    trouble_ms: int


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change, its queue, the incident during which it was made, and sentences on the figures that contain it."""

    change: AuditedChange
    ref: QueueRef
    incident: Incident | None
    counted: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its unique key."""
        return f"{self.change.host} {self.change.who} {self.change.change} {self.change.at_ms}"


def trouble_words(verdict: str) -> str:
    """Return a verdict's sign and word; an unknown word from a file is kept."""
    try:
        return verdict_words(Verdict(verdict))
    except ValueError:
        return f"✗ {verdict}"


def trouble_token(verdict: str) -> str:
    """Return the style of a verdict, or of "down"."""
    return f"verdict-{verdict}" if verdict in tuple(Verdict) else "verdict-broken"


def metric_value(metric: str, value: float | None) -> str:
    """Format a value of a metric."""
    if value is None:
        return UNKNOWN
    return duration(value) if metric == AGE else rate(value) if metric.endswith("_s") else compact(value)


QUEUE_COLUMNS: tuple[Column[QueueRow, HistoryContext], ...] = (
    Column("mark", "", 1, lambda row, context: ("●", "strong") if row.facts.ref in context.marked else ("", "")),
    Column("worst", "WORST", 10, lambda row, _: (trouble_words(row.worst), trouble_token(row.worst))),
    Column("queue", "QUEUE", 12, lambda row, context: (context.name(row.facts.ref), "strong"), grow=True),
    Column("trouble", "TROUBLE", 8, lambda row, _: (duration(row.trouble_ms) if row.incidents else "", ""), right=True),
    Column("incidents", "INCIDENTS", 9, lambda row, _: (count(row.incidents), ""), drop=2, right=True),
    Column("peak", "PEAK", 7, lambda row, _: (compact(row.facts.peak_depth), ""), drop=1, right=True),
    Column("last", "LAST", 7, lambda row, _: (compact(row.facts.last_depth), ""), drop=4, right=True),
    Column("seen", "LAST SEEN", 11, lambda row, _: (moment(row.facts.last_ms), "muted"), drop=3, right=True),
)


def _incident_name(row: Incident, context: HistoryContext) -> Piece:
    if row.ref is None:
        return f"(all of {row.place.profile or row.place.server})", "muted"
    return f"{'└ ' if row.head_id is not None else ''}{context.name(row.ref)}", "strong"


def _episode_name(row: Episode, context: HistoryContext) -> Piece:
    if row.ref is None:
        return f"(all of {context.place(row.place)})", "muted"
    return context.name(row.ref), "strong"


def _lasted(row: Episode | Incident, context: HistoryContext) -> Piece:
    words = duration(context.lasted_ms(row))
    return (words, "") if row.ended == "over" else (f">{words}", "")


def became_of(episodes: Iterable[Episode]) -> dict[tuple[QueueRef | None, int], str]:
    """Return the verdict that followed each episode directly, by its queue and end."""
    became: dict[tuple[QueueRef | None, int], str] = {}
    last: dict[QueueRef | None, Episode] = {}
    # The verdicts of a queue follow each other, but begin when their conditions began.
    for episode in sorted(episodes, key=lambda one: one.end_ms):
        before = last.get(episode.ref)
        if before is not None and episode.start_ms <= before.end_ms != before.recovered_ms and before.ended == "over":
            became[before.ref, before.end_ms] = episode.verdict
        last[episode.ref] = episode
    return became


def _recovered(row: Episode, context: HistoryContext) -> Piece:
    if (verdict := context.became.get((row.ref, row.end_ms))) is not None:
        return f"became {verdict}", trouble_token(verdict)
    if row.recovered_ms is not None:
        after_ms = row.recovered_ms - row.end_ms
        return duration(after_ms) if after_ms > 0 else "0 s", ""
    return ("ongoing", "alarm") if row.ended == OPEN else (UNKNOWN, "muted")


def _ok_again(row: Incident, _: HistoryContext) -> Piece:
    if row.recovered_ms is not None:
        return moment(row.recovered_ms), ""
    return ("ongoing", "alarm") if row.ended == OPEN else (UNKNOWN, "muted")


INCIDENT_COLUMNS: tuple[Column[Incident, HistoryContext], ...] = (
    Column("worst", "WORST", 10, lambda row, _: (trouble_words(row.worst), trouble_token(row.worst))),
    Column("queue", "QUEUE", 10, _incident_name, width_max=32),
    Column("start", "BEGAN", 11, lambda row, _: (moment(row.start_ms), "")),
    Column("lasted", "LASTED", 8, _lasted, drop=2, right=True),
    Column("ok", "OK AGAIN", 11, _ok_again, drop=5, right=True),
    Column("peak", "PEAK", 7, lambda row, _: (compact(row.peak_depth), ""), drop=4, right=True),
    Column("affected", "AFFECTED", 8, lambda row, _: (compact(row.affected), ""), drop=6, right=True),
    Column("episodes", "EPISODES", 8, lambda row, _: (count(row.episodes), ""), drop=7, right=True),
    Column("cause", "CAUSE", 16, lambda row, _: (row.cause, "muted"), drop=3, grow=True),
)

EPISODE_COLUMNS: tuple[Column[Episode, HistoryContext], ...] = (
    Column("verdict", "VERDICT", 10, lambda row, _: (trouble_words(row.verdict), trouble_token(row.verdict))),
    Column("queue", "QUEUE", 10, _episode_name, width_max=24),
    Column("start", "BEGAN", 11, lambda row, _: (moment(row.start_ms), "")),
    Column("lasted", "LASTED", 8, _lasted, drop=2, right=True),
    Column("recovered", "RECOVERED", 15, _recovered, drop=5, right=True),
    Column("peak", "PEAK", 7, lambda row, _: (compact(row.peak_depth), ""), drop=4, right=True),
    Column("age", "OLDEST", 8, lambda row, _: (duration(row.peak_age_ms), ""), drop=6, right=True),
    Column("affected", "AFFECTED", 8, lambda row, _: (compact(row.affected), ""), drop=7, right=True),
    Column("cause", "CAUSE", 16, lambda row, _: (row.cause, "muted"), drop=3, grow=True),
)


def _there(row: Poison, _: HistoryContext) -> Piece:
    return (UNKNOWN, "muted") if row.is_there is None else ("there", "alarm") if row.is_there else ("gone", "muted")


POISON_COLUMNS: tuple[Column[Poison, HistoryContext], ...] = (
    Column("queue", "QUEUE", 12, lambda row, context: (context.name(row.ref), "strong"), width_max=30),
    Column("rc", "RC", 5, lambda row, _: (count(row.rc), "verdict-poisoned"), right=True),
    Column("there", "NOW", 6, _there),
    Column("sent", "SENT", 11, lambda row, _: (moment(row.sent_ms), ""), drop=3, right=True),
    Column("first", "FIRST SEEN", 11, lambda row, _: (moment(row.first_seen_ms), ""), drop=4, right=True),
    Column("last", "LAST SEEN", 11, lambda row, _: (moment(row.last_seen_ms), ""), drop=2, right=True),
    Column("size", "SIZE", 9, lambda row, _: (size(row.size), ""), drop=5, right=True),
    Column("id", "ID", 12, lambda row, _: (row.id, "muted"), grow=True),
)


def _share(row: Advice, _: HistoryContext) -> Piece:
    return (UNKNOWN, "muted") if row.redelivered is None else (f"{100 * row.redelivered:.1f}%", "")


ADVICE_COLUMNS: tuple[Column[Advice, HistoryContext], ...] = (
    Column("queue", "QUEUE", 12, lambda row, context: (context.name(row.ref), "strong"), width_max=30),
    Column("vt", "VT", 8, lambda row, _: (seconds(row.vt_s), ""), right=True),
    Column("advised", "ADVISED", 8, lambda row, _: (seconds(row.advised_vt_s), "strong"), right=True),
    Column("again", "AGAIN", 7, lambda row, _: (compact(row.redeliveries), ""), drop=3, right=True),
    Column("share", "SHARE", 7, _share, drop=1, right=True),
    Column("receives", "RECEIVES", 8, lambda row, _: (compact(row.receives), ""), drop=4, right=True),
    Column("advice", "ADVICE", 16, lambda row, _: (row.told, "muted"), drop=2, grow=True),
)


def _growth(row: Forecast, _: HistoryContext) -> Piece:
    if row.slope_s is None:
        return UNKNOWN, "muted"
    hourly = row.slope_s * 3600
    words = duration(abs(hourly)) if row.metric == AGE else compact(abs(hourly))
    return f"{'-' if hourly < 0 else '+'}{words}", ""


def _reaches(row: Forecast, _: HistoryContext) -> Piece:
    if row.reaches_ms is None:
        return "never", "muted"
    return (f"since {moment(row.reaches_ms)}", "alarm") if row.is_over else (moment(row.reaches_ms), "")


FORECAST_COLUMNS: tuple[Column[Forecast, HistoryContext], ...] = (
    Column("queue", "QUEUE", 12, lambda row, context: (context.name(row.ref), "strong"), width_max=30),
    Column("metric", "METRIC", 12, lambda row, _: (METRIC_WORDS.get(row.metric, row.metric), ""), drop=2),
    Column("reaches", "REACHES", 17, _reaches),
    Column("limit", "LIMIT", 8, lambda row, _: (metric_value(row.metric, row.limit), ""), drop=1, right=True),
    Column("value", "NOW", 8, lambda row, _: (metric_value(row.metric, row.value), ""), drop=4, right=True),
    Column("growth", "AN HOUR", 8, _growth, drop=5, right=True),
    Column("forecast", "FORECAST", 16, lambda row, _: (row.told, "muted"), drop=3, grow=True),
)  # fmt: skip

ANOMALY_COLUMNS: tuple[Column[Anomaly, HistoryContext], ...] = (
    Column("hour", "HOUR", 11, lambda row, _: (moment(row.bucket_ms), "")),
    Column("queue", "QUEUE", 12, lambda row, context: (context.name(row.ref), "strong"), grow=True),
    Column("metric", "METRIC", 14, lambda row, _: (METRIC_WORDS.get(row.metric, row.metric), ""), drop=3),
    Column("value", "WAS", 8, lambda row, _: (metric_value(row.metric, row.value), ""), drop=1, right=True),
    Column("usual", "USUAL", 8, lambda row, _: (metric_value(row.metric, row.median), "muted"), drop=2, right=True),
    Column("score", "SCORE", 7, lambda row, _: (f"{row.score:+,.1f}", ""), drop=4, right=True),
)


def _undone(row: ChangeRow, _: HistoryContext) -> Piece:
    return row.change.undone_words(moment), "muted"


def _incident_of_change(row: ChangeRow, _: HistoryContext) -> Piece:
    if row.incident is None:
        return "", ""
    worst = row.incident.worst
    return f"{trouble_words(worst)}, {outcome_words(row.change, row.incident)}", trouble_token(worst)


CHANGE_COLUMNS: tuple[Column[ChangeRow, HistoryContext], ...] = (
    Column("time", "TIME", 14, lambda row, _: (_second(row.change.at_ms), "")),
    Column("queue", "QUEUE", 10, lambda row, context: (context.name(row.ref), "strong"), width_max=20),
    Column("by", "BY", 8, lambda row, _: (row.change.who, ""), drop=3, width_max=16),
    Column("undone", "UNDONE", 11, _undone, drop=2, grow=True, width_max=22),
    Column("incident", "INCIDENT", 16, _incident_of_change, drop=4, grow=True, width_max=32),
    Column("what", "WHAT", 30, lambda row, _: (row.change.summary, ""), grow=True),
)


CHARTED = ("depth", AGE, "arrivals_s", "deletes_s", "receives_s", "redeliveries_s")
HEAT = "heat"
_INVENTORIES = "this page needs message inventories: rsmq-tui record --messages 5m"


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """One page. For a row, ``ref`` returns its queue, ``at_ms`` the moment to replay, ``sentence`` its text in full."""

    id: str
    title: str
    columns: tuple[Column[Any, Any], ...] = ()
    rows: Callable[[Lists], Sequence[Any]] = lambda _: ()
    count: Callable[[Lists], int] = lambda _: 0
    ref: Callable[[Any], QueueRef | None] = lambda row: row.ref
    at_ms: Callable[[Any], int | None] = lambda _: None
    sentence: Callable[[Any], str] = lambda _: ""
    empty: str = ""


def queue_rows(lists: Lists) -> list[QueueRow]:
    """Return the queues, by the worst verdict, then by the time in trouble."""
    of_queue: dict[QueueRef, list[Incident]] = {}
    times = times_of(lists.incidents, lists.episodes)
    for incident in lists.incidents:
        if incident.ref is not None:
            of_queue.setdefault(incident.ref, []).append(incident)
    rows = []
    for facts in lists.queues:
        incidents = of_queue.get(facts.ref, [])
        worst = min((incident.worst for incident in incidents), key=severity, default=Verdict.OK.value)
        spans = [each for one in incidents for each in times[one.id]]
        trouble_ms = covered_ms(spans, lists.span or TimeRange(0, max((end for _, end in spans), default=0)))
        rows.append(QueueRow(facts, worst, len(incidents), trouble_ms))
    rows.sort(key=lambda row: (severity(row.worst), -row.trouble_ms, -(row.facts.peak_depth or 0), row.facts.ref.queue))
    return rows


def incident_rows(lists: Lists) -> list[Incident]:
    """Return the incidents, the latest first; those that have a head follow it."""
    members: dict[str | None, list[Incident]] = {}
    for incident in lists.incidents:
        members.setdefault(incident.head_id, []).append(incident)
    heads = {incident.id for incident in lists.incidents}
    # A head may lie outside of the range.
    first = [one for one in lists.incidents if one.head_id not in heads]
    return [row for one in reversed(first) for row in (one, *members.get(one.id, ()))]


def _second(at_ms: int) -> str:
    return moment(at_ms, with_seconds=True)


def change_rows(lists: Lists) -> list[ChangeRow]:
    """Return the changes, the latest first."""
    places = {(facts.ref.server, facts.ref.ns): facts.ref.profile for facts in reversed(lists.queues)}
    during = incidents_at(lists.changes, lists.incidents)
    counted: dict[AuditedChange, list[str]] = {}
    for one in lists.counted:
        minutes = f"{moment(one.span.from_ms)} to {moment(one.span.to_ms)}"
        sentence = one.sentence(one.ref.queue, minutes, _second(one.change.at_ms))
        counted.setdefault(one.change, []).append(sentence)
    return [
        ChangeRow(
            change,
            QueueRef(places.get((change.server, change.ns), ""), change.server, change.ns, change.queue),
            during.get(change),
            tuple(counted.get(change, ())),
        )
        for change in reversed(lists.changes)
    ]


PAGES = (
    HistoryPage(
        "queues",
        "Queues",
        QUEUE_COLUMNS,
        queue_rows,
        lambda lists: len(lists.queues),
        ref=lambda row: row.facts.ref,
        empty="The analysis contains no queues.",
    ),
    HistoryPage(HEAT, "Heat map", empty="No data for this time."),
    HistoryPage(
        "incidents",
        "Incidents",
        INCIDENT_COLUMNS,
        incident_rows,
        lambda lists: sum(one.head_id is None for one in lists.incidents),
        at_ms=lambda row: row.start_ms,
        sentence=lambda row: f"{' → '.join(row.verdicts)}: {row.cause}" if len(row.verdicts) > 1 else row.cause,
        empty="No queue had a problem in this time.",
    ),
    HistoryPage(
        "episodes",
        "Episodes",
        EPISODE_COLUMNS,
        lambda lists: lists.episodes[::-1],
        lambda lists: len(lists.episodes),
        at_ms=lambda row: row.start_ms,
        sentence=lambda row: row.cause,
        empty="No queue had a problem in this time.",
    ),
    HistoryPage(
        "changes",
        "Changes",
        CHANGE_COLUMNS,
        change_rows,
        lambda lists: len(lists.changes),
        at_ms=lambda row: row.change.at_ms,
        sentence=lambda row: " ".join((f"{row.change.in_words(_second)}.", *row.counted)),
        empty="Nothing was changed with rsmq-tui in this time, according to the audit logs that were read.",
    ),
    HistoryPage(
        "poison",
        "Poison",
        POISON_COLUMNS,
        lambda lists: lists.poison,
        lambda lists: len(lists.poison),
        at_ms=lambda row: row.first_seen_ms,
        sentence=lambda row: row.id,
        empty=f"No poison messages in this time; {_INVENTORIES}.",
    ),
    HistoryPage(
        "advice",
        "Advice",
        ADVICE_COLUMNS,
        lambda lists: lists.advice,
        lambda lists: len(lists.advice),
        sentence=lambda row: row.told,
        empty=f"No advice on visibility timeouts; {_INVENTORIES}.",
    ),
    HistoryPage(
        "forecasts",
        "Forecasts",
        FORECAST_COLUMNS,
        lambda lists: lists.forecasts,
        lambda lists: len(lists.forecasts),
        sentence=lambda row: row.told,
        empty="No forecasts: they need three hours of history, and depths a limit (pipeline run --depth-limit).",
    ),
    HistoryPage(
        "unusual",
        "Unusual hours",
        ANOMALY_COLUMNS,
        lambda lists: lists.anomalies,
        lambda lists: len(lists.anomalies),
        at_ms=lambda row: row.bucket_ms,
        empty="No hour of this time was unusual. A baseline needs some weeks of history.",
    ),
)


def key_of(page: HistoryPage, row: Any) -> str:
    """Return the unique key of a row in its page."""
    if page.id == "queues":
        return repr(row.facts.ref)
    parts = (getattr(row, name, None) for name in ("place", "queue", "ref", "verdict", "start_ms", "id", "metric"))
    return repr((*parts, getattr(row, "bucket_ms", None)))


def tab_pieces(chosen: HistoryPage, lists: Lists | None, notes: Sequence[str], width: int) -> list[Piece]:
    """Return the tabs of the pages with their numbers, and ``notes``, texts about the chosen one.

    If they do not fit, only the chosen one has its number; if not all tabs fit, only that one is shown, with its place
    among them.
    """
    numbers = {} if lists is None else {page.id: page.count(lists) for page in PAGES if page.id != HEAT}
    words = [f"{page.title} {compact(numbers[page.id])}" if page.id in numbers else page.title for page in PAGES]
    index = PAGES.index(chosen)
    short = [words[index] if page is chosen else page.title for page in PAGES]
    room = width - sum(map(cell_len, notes))
    fitting = (pieces for pieces in (tab_line(words, index), tab_line(short, index)) if cells_of(pieces) <= room)
    pieces = next(fitting, tab_alone(words, index))
    return [*pieces, *((text, "muted") for text in notes)]


def sparks(lines: Lines) -> list[tuple[Series, str]]:
    """Return up to three series, the metric and rates, each with its peak as text."""
    shown = [lines.metric, *(line for line in lines.rates if line.metric != lines.metric.metric)][:3]
    return [(Series(METRIC_WORDS[line.metric], line.points), _peak(line)) for line in shown]


def _peak(line: Line) -> str:
    return metric_value(line.metric, None if line.peak is None else line.peak[1])


def _scaled(points: Sequence[Point], divisor: float) -> Sequence[Point]:
    if divisor == 1.0:
        return points
    return [(at_ms, None if value is None else value / divisor) for at_ms, value in points]


_VALUE_WIDTH = 8


class HistorySparks(Painted):
    """Shows name, sparkline and peak of each series, each on its own scale."""

    DEFAULT_CSS = """
    HistorySparks { padding: 0 1; height: 3; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._series: Sequence[tuple[Series, str]] = ()
        self._span = TimeRange(0, 1)

    def show(self, series: Sequence[tuple[Series, str]], span: TimeRange) -> None:
        """Show these series, each with its peak as text."""
        self._series, self._span = series, span
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint one series a line."""
        if not self._series:
            return [self.line([(" loading …", "muted")])]
        names = max(len(series.label) for series, _ in self._series) + 2
        width = self.size.width - names - 1 - _VALUE_WIDTH
        return [
            self.line(
                [
                    (f"{series.label:<{names}}", "muted"),
                    (self._spark(series, width), "spark"),
                    (f" {peak:>{_VALUE_WIDTH}}", "strong"),
                ]
            )
            for series, peak in self._series
        ]

    def _spark(self, series: Series, width: int) -> str:
        start_ms, end_ms = self._span
        (drawn,) = sparklines([series], width=width, start_ms=start_ms, end_ms=end_ms)
        return drawn


class HistoryCharts(Vertical):
    """The charts of the metric and the rates of some queues, or sparklines if there is little room."""

    DEFAULT_CSS = """
    HistoryCharts { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        words: dict[str, Any] = {"waiting": "loading …", "nothing": "no data for this time", "least": 1}
        self.metric = ChartPanel("", ("series-first", "series-third", "quiet"), id="history-metric", **words)
        self.rates = ChartPanel("", ("series-first", "series-second", "series-third"), id="history-rates", **words)
        self.sparks = HistorySparks(id="sparks")

    def compose(self) -> ComposeResult:
        """Two charts, and the sparklines that replace them."""
        with Horizontal(id="charts"):
            yield self.metric
            yield self.rates
        yield self.sparks

    def show(self, lines: Lines, of: str, span: TimeRange, changes: Sequence[AuditedChange] = ()) -> None:
        """Show these lines ``of`` some queues, a text that must already be printable, and when they were changed.

        The chart of the metric has its mean; for a single queue also the 95th percentile and the usual value.
        """
        metric, title = lines.metric.metric, f"{METRIC_WORDS[lines.metric.metric]} of {of}"
        known = [line.peak[1] for line in (lines.metric, lines.p95) if line is not None and line.peak is not None]
        divisor, unit = age_unit(max(known, default=0.0)) if metric == AGE else (1.0, "")
        series = [Series("mean", _scaled(lines.metric.points, divisor))]
        if lines.p95 is not None:
            series.append(Series("95th percentile", _scaled(lines.p95.points, divisor)))
        if lines.usual is not None and lines.usual.points:
            series.append(Series("usual", [(at_ms, middle / divisor) for at_ms, _, middle, _ in lines.usual.points]))
        marked_ms = [one.at_ms for one in changes]
        times: dict[str, Any] = {"start_ms": span.from_ms, "marked_ms": marked_ms}
        marks = changes_words(marked_ms)
        self.metric.show(series, span.to_ms, title=f"{title}{marks}", unit=unit, **times)
        rates = [Series(METRIC_WORDS[line.metric].removesuffix("/s"), line.points) for line in lines.rates]
        self.rates.show(rates, span.to_ms, title=f"messages a second{marks}", **times)
        self.sparks.show(sparks(lines), span)


_SHADES = "·░▒▓█"
_LABEL = 10


class HeatView(LineView):
    """Shows a heat map, the newest day first; its legend gives the lower bound of each shade."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heat: HeatMap | None = None

    def show_heat(self, heat: HeatMap | None, of: str, empty: str) -> None:
        """Show a heat map ``of`` some queues, None while it is loading; both texts must already be printable."""
        stays = self._heat is not None and heat is not None and len(heat.rows) == len(self._heat.rows)
        self._heat = heat
        title = "" if heat is None else f"{METRIC_WORDS.get(heat.metric, '')} of {of}, by hour, UTC"
        self.border_title = Content(title)
        self._draw(empty, stays)

    def on_resize(self) -> None:
        """Adapt the width of the cells."""
        super().on_resize()
        self._draw("", True)

    def _draw(self, empty: str, stays: bool) -> None:
        heat = self._heat
        if heat is None:
            lines: list[list[Piece]] = [[("  loading …", "muted")]]
        elif heat.peak is None:
            lines = [[(f"  {empty or 'no data for this time'}", "muted")]]
        else:
            lines = self._lines_of_map(heat)
        self.show(lines, stay=stays)

    def _lines_of_map(self, heat: HeatMap) -> list[list[Piece]]:
        cell = max(1, min(5, (self.size.width - _LABEL) // 24))
        label_width = min(_LABEL, max(0, self.size.width - 24 * cell))
        levels = heat.levels
        step = 1 if cell >= 3 else 2 if cell == 2 else 6
        hours = "".join(f"{hour:02d}".ljust(step * cell) for hour in range(0, 24, step))
        lines: list[list[Piece]] = [[(" " * label_width, ""), (hours, "head")]]
        for day, values in heat.rows if heat.is_week else reversed(heat.rows):
            pieces: list[Piece] = [(_label(day, heat.is_week)[:label_width].ljust(label_width), "muted")]
            for value in values:
                level = -1 if value is None else bisect_right(levels, value) - 1
                shade = " " if level < 0 else _SHADES[level]
                pieces.append((shade * cell, "strong" if level == len(_SHADES) - 1 else "spark"))
            lines.append(pieces)
        legend = [f"{_SHADES[index] * 2} {metric_value(heat.metric, level)}+" for index, level in enumerate(levels)]
        lines += [[], [(" " + "  ".join(legend) + "   blank: no data", "muted")]]
        return lines


def _label(day: int, is_week: bool) -> str:
    if is_week:
        return f" {WEEKDAYS[day]}"
    try:
        moment = datetime.fromtimestamp(day / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return " –"
    return f"{moment:%m-%d} {WEEKDAYS[moment.weekday()]}"


_TITLE_WIDTH = 11
_TEXT_MAX = 1_000
# Wrapping the text of thousands of changes would take seconds.
_CHANGES_SHOWN = 20


class HistoryPane(Pane[None]):
    """Shows the charts; beside or below the table also the values of the row, and its changes and incidents."""

    def __init__(self, charts: HistoryCharts) -> None:
        super().__init__()
        self._charts = charts
        self._details = LineView(id="row")
        self._details.can_focus = False
        self._shown: tuple[HistoryPage, Any, QueueRef | None, Lists, HistoryContext] | None = None
        self._subject: tuple[str, str | None, QueueRef | None] | None = None

    def compose(self) -> ComposeResult:
        """The charts, and the details."""
        yield self._charts
        with Vertical(classes="parts"):
            yield self._details

    def show(self, page: HistoryPage, row: Any, ref: QueueRef | None, lists: Lists, context: HistoryContext) -> None:
        """Show a row of a page, None if there is none, and the changes and incidents of a queue."""
        subject = page.id, None if row is None else key_of(page, row), ref
        # A newer run of the pipeline leaves the position; another row begins at its first line.
        is_same, self._subject = subject == self._subject, subject
        self._shown = page, row, ref, lists, context
        self._show_lines(stay=is_same)

    @on(LineView.Resized)
    def _wrap_lines(self) -> None:
        self._show_lines(stay=True)

    def _show_lines(self, *, stay: bool) -> None:
        width = self._details.size.width
        if self._shown is not None and width:
            self._details.show(detail_lines(*self._shown, width), stay=stay)

    def scroll_details(self, step: int) -> None:
        """Scroll the details by so many of their screens."""
        self._details.action_scroll_pages(step)


def detail_lines(
    page: HistoryPage, row: Any, ref: QueueRef | None, lists: Lists, context: HistoryContext, width: int
) -> list[Sequence[Piece]]:
    """Return each value of a row, None if there is none, its text in full, and changes and incidents.

    A value that is part of the text, such as a cause, is not repeated, nor is a change in the list of changes.
    """
    lines: list[Sequence[Piece]] = []
    if row is not None:
        sentence = page.sentence(row)
        for column in page.columns:
            cell = column.cell(row, context)
            text = "".join(text for text, _ in ([cell] if isinstance(cell, tuple) else cell))
            if column.title and text and not (column.grow and text in sentence):
                style = cell[1] if isinstance(cell, tuple) else ""
                lines.append([(f"{column.title:<{_TITLE_WIDTH}} ", "muted"), (printable(text, _TEXT_MAX), style)])
        if wrapped := textwrap.wrap(printable(sentence, _TEXT_MAX), width):
            lines += [[], *([(line, "")] for line in wrapped)]
    own = row.change if isinstance(row, ChangeRow) else None
    if changes := [change for change in changes_at(row, ref, lists) if change != own]:
        lines += [[]] if lines else []
        lines.append([("CHANGES made with rsmq-tui" if own is None else "OTHER CHANGES made with rsmq-tui", "head")])
    for change in reversed(changes[-_CHANGES_SHOWN:]):
        undone = change.undone_words(moment)
        words = f"{change.in_words(_second)}, by {printable(change.who, 40)}{f', undone: {undone}' if undone else ''}"
        when = f"{_second(change.at_ms)} "
        for number, line in enumerate(textwrap.wrap(words, max(20, width - len(when)))):
            lines.append([(" " * len(when) if number else when, "muted"), (line, "")])
    if len(changes) > _CHANGES_SHOWN:
        lines.append([(f"and {count(len(changes) - _CHANGES_SHOWN)} before these", "muted")])
    incidents = [one for one in lists.incidents if ref is not None and one.ref == ref]
    if ref is not None and incidents:
        lines += [[]] if lines else []
        lines.append([(f"INCIDENTS of {printable(context.name(ref), 60)}", "head")])
    for one in reversed(incidents):
        when = f"{moment(one.start_ms)} {duration(context.lasted_ms(one)):>8} "
        worst = printable(trouble_words(one.worst), 30)
        lines.append([(when, "muted"), (f"{worst} ", trouble_token(one.worst)), (printable(one.cause, 300), "")])
    return lines


def changes_at(row: Any, ref: QueueRef | None, lists: Lists) -> list[AuditedChange]:
    """Return the changes of the queue of a row; of an incident or an episode, those that were made during it.

    Those of a head are of the queues for which it stands, those of an outage of any queue of its server.
    """
    is_span = isinstance(row, Episode | Incident)
    subjects: set[tuple[str, ...]] = set()
    if ref is not None:
        subjects = {ref[1:]}
    elif isinstance(row, Incident) and not row.is_outage:
        subjects = {one.ref[1:] for one in lists.incidents if one.head_id == row.id and one.ref is not None}
    elif is_span:
        subjects = {(row.place.server,)}
    # Several of these queues may be of one change.
    found = dict.fromkeys(chain.from_iterable(lists.changed.get(subject, ()) for subject in subjects))
    during = (one for one in found if not is_span or row.start_ms <= one.at_ms <= row.end_ms)
    return sorted(during, key=lambda one: (one.at_ms, one.change))
