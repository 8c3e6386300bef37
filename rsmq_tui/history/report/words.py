"""The data of a report, its sentences and its tables: printable text, not escaped, for both formats."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import (
    AGE,
    DOWN,
    OPEN,
    Advice,
    Anomaly,
    Band,
    Episode,
    Forecast,
    HeatMap,
    Line,
    Poison,
    QueueFacts,
    QueueRef,
    TimeRange,
)
from rsmq_tui.history.moments import DAY_MS
from rsmq_tui.history.names import Place
from rsmq_tui.monitor.text import UNKNOWN, clock, compact, count, duration, plural, printable, rate, seconds, size

RATES = ("arrivals_s", "deletes_s", "receives_s")
# The points of a line, for a chart of about 700 units.
_POINTS = 400
_NAME_MAX = 200
# For longer ranges, the heat map is by weekday.
_HEAT_DAYS = 45
_ORDER = ("down", "broken", "stalled", "leaking", "growing", "poisoned", "aged")


@dataclass(frozen=True, slots=True)
class Section:
    """The section of one queue: its episodes in the range, and its lines."""

    facts: QueueFacts
    episodes: tuple[Episode, ...]
    depth: Line
    p95: Line
    usual: Band
    age: Line
    rates: tuple[Line, ...]


class Fullest(NamedTuple):
    """The time of the highest total depth, and its bounds: roll-ups have the exact maximum only for each queue."""

    at_ms: int
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Report:
    """The data of a report. ``sections`` are of the queues in trouble, or of the chosen ones.

    ``others`` is the number of further queues in trouble; ``is_chosen`` says whether queues were chosen.
    """

    title: str | None
    label: str
    history: str
    made_ms: int
    problems: tuple[str, ...]
    span: TimeRange
    whole: TimeRange
    is_chosen: bool
    queues: tuple[QueueFacts, ...]
    episodes: tuple[Episode, ...]
    depth: Line
    fullest: Fullest | None
    rates: tuple[Line, ...]
    heat: HeatMap
    sections: tuple[Section, ...]
    others: int
    poison: tuple[Poison, ...]
    advice: tuple[Advice, ...]
    forecasts: tuple[Forecast, ...]
    anomalies: tuple[Anomaly, ...]

    @property
    def is_several(self) -> bool:
        """Whether the report has queues of more than one place."""
        return len({facts.ref.place for facts in self.queues}) > 1

    def name(self, ref: QueueRef) -> str:
        """Return a queue's printable name, with its place if there are several."""
        return self._shown(f"{ref.queue} · {self._place(ref.place)}" if self.is_several else ref.queue)

    def subject(self, episode: Episode) -> str:
        """Return the printable subject of an episode: the queue, or all of a place."""
        if episode.ref is not None:
            return self.name(episode.ref)
        return self._shown(f"all of {self._place(episode.place)}")

    def _place(self, place: Place) -> str:
        return f"{place.profile or place.server} {place.ns}"

    def _shown(self, text: str) -> str:
        return printable(text, _NAME_MAX)


def gather(
    analysis: Analysis,
    span: TimeRange,
    queues: Collection[QueueRef] | None = None,
    *,
    title: str | None = None,
    sections_max: int = 20,
) -> Report:
    """Read the data of a report: of the chosen queues, or of all, with sections for the worst."""
    every = analysis.queues()
    told = tuple(facts for facts in every if queues is None or facts.ref in queues)
    episodes = analysis.episodes(span, queues)
    worst = _in_trouble(told, episodes, span)
    chosen = list(told) if queues is not None else worst
    sections = tuple(_section(analysis, facts, episodes, span) for facts in chosen[:sections_max])
    refs = None if queues is None else tuple(facts.ref for facts in told)
    by_week = span.length_ms > _HEAT_DAYS * DAY_MS
    asked = [("depth", "mean"), ("depth", "max"), *((rate, "mean") for rate in RATES)]
    depth, highest, *rates = analysis.lines(refs, asked, span, points=_POINTS)
    alone = [analysis.greatest(refs, "depth", span, points=_POINTS), *(_peak(episode, span) for episode in episodes)]
    heat = analysis.heat(refs, "depth", span, by_week=by_week)
    poison, anomalies = analysis.poison(span, queues), analysis.anomalies(span, queues)
    advice, forecasts = analysis.advice(queues), analysis.forecasts(queues)
    return Report(
        title=title,
        label=analysis.label,
        history=analysis.manifest.history,
        made_ms=analysis.manifest.made_ms,
        problems=analysis.problems,
        span=span,
        whole=analysis.span() or span,
        is_chosen=queues is not None,
        queues=told,
        episodes=episodes,
        depth=depth,
        fullest=_fullest(depth, highest, alone),
        rates=tuple(rates),
        heat=heat,
        sections=sections,
        others=max(0, len(chosen) - sections_max),
        poison=poison,
        advice=advice,
        forecasts=forecasts,
        anomalies=anomalies,
    )


def badness(verdict: str) -> int:
    """Return the severity rank of a verdict; 0 is the worst, unknown ones are last."""
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)


def _in_trouble(queues: Sequence[QueueFacts], episodes: Sequence[Episode], span: TimeRange) -> list[QueueFacts]:
    """Return the queues that were in trouble, by the worst verdict, then by the time in trouble."""
    worst: dict[QueueRef, tuple[int, int]] = {}
    for episode in episodes:
        if episode.ref is not None:
            rank, lasted_ms = worst.get(episode.ref, (len(_ORDER), 0))
            worst[episode.ref] = min(rank, badness(episode.verdict)), lasted_ms - episode.within(span)
    return sorted((facts for facts in queues if facts.ref in worst), key=lambda facts: (worst[facts.ref], facts.ref))


def _peak(episode: Episode, span: TimeRange) -> tuple[int, float] | None:
    """Return the time and value of an episode's peak depth, if it was in the range."""
    at_ms, depth = episode.peak_ms, episode.peak_depth
    return None if at_ms is None or depth is None or not span.holds(at_ms, at_ms) else (at_ms, depth)


def _fullest(mean: Line, highest: Line, alone: Sequence[tuple[int, float] | None]) -> Fullest | None:
    """Return the highest total depth: at least the sum of the means, and at least that of any single queue."""
    known = [found for found in (mean.peak, *alone) if found is not None]
    if not known:
        return None
    at_ms, least = max(known, key=lambda found: found[1])
    # If the sum is unknown because a place was not polled, that of the others may be greater.
    return Fullest(at_ms, least, max(least, highest.peak[1] if highest.peak is not None else least))


def _section(analysis: Analysis, facts: QueueFacts, episodes: Sequence[Episode], span: TimeRange) -> Section:
    asked = [("depth", "mean"), ("depth", "p95"), (AGE, "max"), *((rate, "mean") for rate in RATES)]
    depth, p95, age, *rates = analysis.lines((facts.ref,), asked, span, points=_POINTS)
    own = tuple(episode for episode in episodes if episode.ref == facts.ref)
    return Section(facts, own, depth, p95, analysis.band(facts.ref, "depth", span), age, tuple(rates))


# Delimiters of names in sentences; printable text does not contain them.
NAME, END = "\x02", "\x03"
_CAUSE_MAX = 300
_TOLD_MAX = 12
METRICS = {
    "depth": "depth",
    AGE: "oldest ready message",
    "arrivals_s": "arrivals",
    "deletes_s": "deletes",
    "receives_s": "receives",
    "redeliveries_s": "redeliveries",
}
_SIGNS = {
    "broken": "✗", "down": "✗", "stalled": "■", "leaking": "▼", "growing": "▲", "poisoned": "☣", "aged": "◷",
}  # fmt: skip
_WAS = {
    "broken": "could not be used", "stalled": "was stalled", "leaking": "was leaking", "growing": "was growing",
    "poisoned": "was poisoned", "aged": "was aged", DOWN: "was down",
}  # fmt: skip


def verdict_words(verdict: str) -> str:
    """Return a verdict's sign and word."""
    return f"{_SIGNS.get(verdict, '•')} {printable(verdict, 40)}"


def moment(at_ms: int | None) -> str:
    """Format a moment to the minute: 2031-05-17 21:50."""
    words = clock(at_ms, date=True)
    return words[:16] if len(words) >= 19 else words


def range_words(span: TimeRange) -> str:
    """Format a range: 2031-05-17 21:50 to 22:30 UTC."""
    first, last = moment(span.from_ms), moment(span.to_ms)
    same_day = first[:10] == last[:10] and len(last) == 16
    return f"{first} to {last[11:] if same_day else last} UTC"


def counts(report: Report) -> str:
    """Return how many queues and episodes the report has."""
    return f"{plural(len(report.queues), 'queue')}, {plural(len(report.episodes), 'episode')}"


def others(report: Report) -> str:
    """Return a note of the queues in trouble that have no section; empty if there are none."""
    return f"{plural(report.others, 'more queue')} in trouble; see the tables." if report.others else ""


def title(report: Report) -> str:
    """Return the report's title."""
    return printable(report.title, 200) if report.title else f"Queues from {range_words(report.span)}"


def metric_value(metric: str, value: float | None) -> str:
    """Format a value of a metric with its unit."""
    if value is None:
        return "–"
    return duration(value) if metric == AGE else f"{rate(value)}/s" if metric.endswith("_s") else count(value)


def summary(report: Report) -> list[str]:
    """Return the sentences of the summary, the worst episode first."""
    if not report.queues:
        return ["The analysis contains no queues."]
    sentences = [_overall(report)]
    order = sorted(report.episodes, key=lambda one: (badness(one.verdict), -one.within(report.span), one.start_ms))
    sentences += [episode_sentence(report, episode) for episode in order[:_TOLD_MAX]]
    if len(order) > _TOLD_MAX:
        sentences.append(f"{plural(len(order) - _TOLD_MAX, 'more episode')} are in the timeline.")
    there = [poison for poison in report.poison if poison.is_there]
    if report.poison:
        still = f"; {count(len(there))} of them were still there at the last inventory" if there else ""
        of = len({poison.ref for poison in report.poison})
        who = f"{plural(len(report.poison), 'message')} of {plural(of, 'queue')}"
        were = "was" if len(report.poison) == 1 else "were"
        sentences.append(f"{who} {were} received too often{still}.")
    return sentences


def episode_sentence(report: Report, episode: Episode) -> str:
    """Describe an episode in a few sentences."""
    who = f"{NAME}{report.subject(episode)}{END}"
    was = _WAS.get(episode.verdict, f"was {printable(episode.verdict, 40)}")
    began = moment(episode.start_ms)
    lasted = duration(episode.length_ms)
    if episode.ended == "over":
        until = f"for {lasted}, from {began} to {moment(episode.end_ms)}"
    elif episode.ended == OPEN:
        until = f"since {began}, and still was at the end of the history, {lasted} later"
    else:
        until = f"from {began} for at least {lasted}; what happened after that is unknown"
    parts = [f"{who} {was} {until}: {_sentence(episode.cause)}" if episode.cause else f"{who} {was} {until}."]
    if episode.peak_depth is not None:
        when = f" ({moment(episode.peak_ms)})" if episode.peak_ms is not None else ""
        ready = f", {count(episode.peak_ready)} of them ready" if episode.peak_ready else ""
        parts.append(f"Its depth reached {plural(episode.peak_depth, 'message')}{ready}{when}.")
    if episode.peak_age_ms:
        parts.append(f"The oldest ready message was {duration(episode.peak_age_ms)} old.")
    if episode.affected:
        were = "was" if episode.affected == 1 else "were"
        parts.append(f"{plural(episode.affected, 'message')} {were} affected.")
    parts.append(_recovery(episode))
    return " ".join(filter(None, parts))


def recovered_words(episode: Episode) -> str:
    """Return the recovery of an episode, for a table."""
    if episode.recovered_ms is not None:
        return moment(episode.recovered_ms)
    return "ongoing" if episode.ended == OPEN else "–"


def line_words(line: Line, what: str) -> str:
    """Describe a line, for screen readers."""
    known = [value for _, value in line.points if value is not None]
    if not known:
        return f"{what}: no data for this time."
    at_ms, highest = line.peak or (0, 0.0)
    say = [metric_value(line.metric, value) for value in (min(known), highest, known[-1])]
    gaps = sum(value is None for _, value in line.points)
    holes = f" There {'is 1 gap' if gaps == 1 else f'are {gaps} gaps'} in it." if gaps else ""
    return f"{what} between {say[0]} and {say[1]}, highest at {moment(at_ms)}, {say[2]} at the end.{holes}"


def _forecast_note(report: Report) -> str:
    """Return a note if forecasts are of another time than the report, otherwise empty."""
    times = [one.at_ms for one in report.forecasts if not report.span.holds(one.at_ms, one.at_ms)]
    if not times:
        return ""
    first, last = moment(min(times)), moment(max(times))
    when = first if first == last else f"{first} to {last}"
    return f"Forecasts are made at {when}, which may be later than the range of this report."


def about(report: Report) -> list[str]:
    """Return sentences about the source of the numbers, and what is missing."""
    history = f" of the history {printable(report.history, 300)}" if report.history else ""
    sentences = [
        f"Made from the analysis {printable(report.label, 300)}{history}, as of {moment(report.made_ms)} UTC.",
        f"It covers {range_words(report.whole)}. All times are UTC, by the clock of the Redis server.",
        "A gap in a line means that nothing was recorded at that time; it does not mean zero.",
    ]
    return [*sentences, *(f"Missing: {printable(problem, 300)}" for problem in report.problems)]


def _overall(report: Report) -> str:
    in_trouble = {episode.ref for episode in report.episodes if episode.ref is not None}
    outages = [episode for episode in report.episodes if episode.verdict == DOWN and episode.queue is None]
    when = f"From {range_words(report.span)} ({duration(report.span.length_ms)})"
    if not report.episodes:
        return f"{when}, none of {plural(len(report.queues), 'queue')} was in trouble."
    were = "was" if len(in_trouble) == 1 else "were"
    own = len(report.episodes) - len(outages)
    words = [f"{when}, {count(len(in_trouble))} of {plural(len(report.queues), 'queue')} {were} in trouble"]
    if own:
        words.append(f", in {plural(own, 'episode')}")
    if outages:
        down_ms = sum(episode.within(report.span) for episode in outages)
        words.append(f"; {plural(len(outages), 'outage')} of a server lasted {duration(down_ms)} in total")
    if report.fullest is not None:
        at_ms, *bounds = report.fullest
        who = "queue's" if len(report.queues) == 1 else "total"
        least, most = map(compact, bounds)
        number = f"about {least}" if least == most else f"between {least} and {most}"
        words.append(f". The {who} depth peaked at {moment(at_ms)}: {number} messages")
    return "".join(words) + "."


def _recovery(episode: Episode) -> str:
    if episode.ended != "over":
        return ""
    if episode.recovered_ms is None:
        return "Its recovery was not recorded: the verdict changed, or no data follows."
    after_ms = episode.recovered_ms - episode.end_ms
    return f"It was ok again {duration(after_ms)} later." if after_ms > 0 else "Then it was ok again."


def _sentence(text: str) -> str:
    shown = printable(text, _CAUSE_MAX)
    return shown if shown.endswith((".", "…", "!", "?")) else f"{shown}."


ROWS_MAX = 200


@dataclass(frozen=True, slots=True)
class Table:
    """Titles, rows, and which columns hold names (in ``code``) and numbers (to the right)."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: frozenset[int] = frozenset()
    right: frozenset[int] = frozenset()
    left_out: int = 0


def episodes_table(report: Report) -> Table:
    """Every episode, the earliest first."""
    return _table(
        ("Began", "What", "Verdict", "Lasted", "OK again", "Peak", "Oldest", "Affected", "Why"),
        [
            (
                moment(one.start_ms), report.subject(one), verdict_words(one.verdict),
                duration(one.length_ms) if one.ended == "over" else f"more than {duration(one.length_ms)}",
                recovered_words(one), count(one.peak_depth), duration(one.peak_age_ms), count(one.affected),
                printable(one.cause, _CAUSE_MAX),
            )
            for one in report.episodes
        ],
        code={1}, right={3, 5, 6, 7},
    )  # fmt: skip


def _queues_table(report: Report) -> Table:
    """All queues, with a summary of their episodes."""
    rows = []
    for facts in report.queues:
        own = [one for one in report.episodes if one.ref == facts.ref]
        trouble = duration(sum(one.within(report.span) for one in own)) if own else "none"
        name, last = report.name(facts.ref), moment(facts.last_ms)
        rows.append((name, count(len(own)), trouble, count(facts.peak_depth), count(facts.last_depth), last))
    return _table(
        ("Queue", "Episodes", "In trouble", "Greatest depth ever", "Last depth", "Last seen"),
        rows, code={0}, right={1, 2, 3, 4},
    )  # fmt: skip


def facts_table(section: Section) -> Table:
    """The minimum, mean and maximum of the lines of a queue."""
    lines = [("Depth", section.depth), ("Oldest ready", section.age)]
    lines += [(METRICS[one.metric].capitalize(), one) for one in section.rates]
    rows: list[tuple[str, ...]] = []
    for name, line in lines:
        known = [value for _, value in line.points if value is not None]
        if known:
            peak = line.peak
            mean = sum(known) / len(known)
            values = (min(known), mean, max(known), known[-1])
            told = tuple(metric_value(line.metric, value) for value in values)
            rows.append((name, *told, moment(None if peak is None else peak[0])))
        else:
            rows.append((name, *[UNKNOWN] * 5))
    return _table(("", "Least", "Mean", "Most", "At the end", "Most at"), rows, right={1, 2, 3, 4})


def _poison_table(report: Report) -> Table:
    there = {True: "still there", False: "gone", None: UNKNOWN}
    return _table(
        ("Queue", "Message", "Received", "Sent", "First seen", "Last seen", "Size", "Now"),
        [
            (
                report.name(one.ref), printable(one.id, 80), f"{count(one.rc)} times", moment(one.sent_ms),
                moment(one.first_seen_ms), moment(one.last_seen_ms), size(one.size), there[one.is_there],
            )
            for one in report.poison
        ],
        code={0, 1}, right={2, 6},
    )  # fmt: skip


def _advice_table(report: Report) -> Table:
    return _table(
        ("Queue", "vt", "Advised", "Visible again", "99 % deleted within", "Received", "Advice"),
        [
            (
                report.name(one.ref), seconds(one.vt_s), seconds(one.advised_vt_s),
                UNKNOWN if one.expired_share is None else f"{100 * one.expired_share:.1f} %",
                duration(one.holding_ms_p99), compact(one.received), printable(one.told, _CAUSE_MAX),
            )
            for one in report.advice
        ],
        code={0}, right={1, 2, 3, 4, 5},
    )  # fmt: skip


def _forecasts_table(report: Report) -> Table:
    return _table(
        ("Queue", "What", "As of", "Was", "Limit", "Reaches it", "Forecast"),
        [
            (
                report.name(one.ref), METRICS.get(one.metric, printable(one.metric, 40)), moment(one.at_ms),
                metric_value(one.metric, one.value), metric_value(one.metric, one.limit),
                "never" if one.reaches_ms is None else moment(one.reaches_ms), printable(one.told, _CAUSE_MAX),
            )
            for one in report.forecasts
        ],
        code={0}, right={3, 4},
    )  # fmt: skip


def _anomalies_table(report: Report) -> Table:
    return _table(
        ("Hour", "Queue", "What", "Was", "Usual at that hour", "Score"),
        [
            (
                moment(one.bucket_ms), report.name(one.ref), METRICS.get(one.metric, printable(one.metric, 40)),
                metric_value(one.metric, one.value), metric_value(one.metric, one.median), f"{one.score:+,.1f}",
            )
            for one in report.anomalies
        ],
        code={1}, right={3, 4, 5},
    )  # fmt: skip


class Overview(NamedTuple):
    """A table after the sections of queues: its name, its title, a note before it, and the text if it is empty."""

    name: str
    title: str
    note: str
    table: Table
    none: str


def overviews(report: Report) -> tuple[Overview, ...]:
    """Return the tables after the sections of queues."""
    no_poison = "No message was received too often in this time range, according to the recorded inventories."
    no_advice = "No advice: advice needs inventories of messages (rsmq-tui record --messages 5m)."
    no_forecast = "No forecast: a forecast needs at least one day of history."
    no_anomaly = "There were no unusual hours; finding them needs some weeks of history."
    return (
        Overview("queues", "Queues", "", _queues_table(report), ""),
        Overview("poison", "Poison messages", "", _poison_table(report), no_poison),
        Overview("advice", "Visibility timeouts", "", _advice_table(report), no_advice),
        Overview("forecasts", "Forecasts", _forecast_note(report), _forecasts_table(report), no_forecast),
        Overview("unusual", "Unusual hours", "", _anomalies_table(report), no_anomaly),
    )


def _table(
    titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, code: Iterable[int] = (), right: Iterable[int] = ()
) -> Table:
    left_out = max(0, len(rows) - ROWS_MAX)
    return Table(titles, tuple(rows[:ROWS_MAX]), frozenset(code), frozenset(right), left_out)
