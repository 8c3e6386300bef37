"""What a report tells: gathered from an analysis, and put into the order of what matters."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import (
    AGE,
    DAY_MS,
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
from rsmq_tui.history.place import Place
from rsmq_tui.monitor.wording import printable

RATES = ("arrivals_s", "deletes_s", "receives_s")
# A chart is about 700 wide, and a line has two points in each.
_POINTS = 400
_NAME_MAX = 200
# Beyond this, hours are told by the day of the week.
_HEAT_DAYS = 45
_ORDER = ("down", "broken", "stalled", "leaking", "growing", "poisoned", "aged")


@dataclass(frozen=True, slots=True)
class Section:
    """One queue: its episodes in the range, and its lines."""

    facts: QueueFacts
    episodes: tuple[Episode, ...]
    depth: Line
    p95: Line
    usual: Band
    age: Line
    rates: tuple[Line, ...]


class Fullest(NamedTuple):
    """When all queues together held most, and between which bounds that was: roll-ups know it of each queue alone."""

    at_ms: int
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report tells. ``sections`` are of the queues in trouble, or those that were asked for.

    ``others`` counts queues in trouble beyond those; ``is_chosen`` tells that queues were asked for.
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
        """Whether queues of more than one place are told of."""
        return len({facts.ref.place for facts in self.queues}) > 1

    def name(self, ref: QueueRef) -> str:
        """Return a queue's name, harmless, with its place where there are several."""
        return self._shown(f"{ref.queue} · {self._place(ref.place)}" if self.is_several else ref.queue)

    def subject(self, episode: Episode) -> str:
        """Return what was in trouble, harmless: the queue, or all of a place."""
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
    """Read what a report of a range tells: of some queues, or of all, the worst of them one by one."""
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
        history=analysis.history,
        made_ms=analysis.made_ms,
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
    """Return how bad a verdict is; 0 is the worst, and what is not known comes last."""
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)


def within(episode: Episode, span: TimeRange) -> int:
    """Return for how many ms of a range an episode went on."""
    return episode.within(span)


def _in_trouble(queues: Sequence[QueueFacts], episodes: Sequence[Episode], span: TimeRange) -> list[QueueFacts]:
    """Return the queues that were in trouble, those first that were longest in the worst."""
    worst: dict[QueueRef, tuple[int, int]] = {}
    for episode in episodes:
        if episode.ref is not None:
            rank, lasted_ms = worst.get(episode.ref, (len(_ORDER), 0))
            worst[episode.ref] = min(rank, badness(episode.verdict)), lasted_ms - within(episode, span)
    return sorted((facts for facts in queues if facts.ref in worst), key=lambda facts: (worst[facts.ref], facts.ref))


def _peak(episode: Episode, span: TimeRange) -> tuple[int, float] | None:
    """Return when a queue held most in an episode, if that was in a range, and how much."""
    at_ms, depth = episode.peak_ms, episode.peak_depth
    return None if at_ms is None or depth is None or not span.holds(at_ms, at_ms) else (at_ms, depth)


def _fullest(mean: Line, highest: Line, alone: Sequence[tuple[int, float] | None]) -> Fullest | None:
    """Return when the queues of these lines held most: at least what they held on average, and what one held alone."""
    known = [found for found in (mean.peak, *alone) if found is not None]
    if not known:
        return None
    at_ms, least = max(known, key=lambda found: found[1])
    # Where the sum is unknown because a place was not polled, that of the others may be more.
    return Fullest(at_ms, least, max(least, highest.peak[1] if highest.peak is not None else least))


def _section(analysis: Analysis, facts: QueueFacts, episodes: Sequence[Episode], span: TimeRange) -> Section:
    asked = [("depth", "mean"), ("depth", "p95"), (AGE, "max"), *((rate, "mean") for rate in RATES)]
    depth, p95, age, *rates = analysis.lines((facts.ref,), asked, span, points=_POINTS)
    own = tuple(episode for episode in episodes if episode.ref == facts.ref)
    return Section(facts, own, depth, p95, analysis.band(facts.ref, "depth", span), age, tuple(rates))
