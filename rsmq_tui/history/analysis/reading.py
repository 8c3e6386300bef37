"""Reading an analysis: its queues, lines, episodes, and whatever else the pipeline found out, as values."""

from collections.abc import Collection, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from rsmq_tui.history.analysis.heat import by_day, by_weekday, hour_of_week
from rsmq_tui.history.analysis.lines import Asked, of_queues, read_greatest, read_lines
from rsmq_tui.history.analysis.schema import (
    ADVICE,
    ANOMALIES,
    BASELINE,
    EPISODES,
    FORECAST,
    POISON,
    QUEUES,
    SCHEMAS,
)
from rsmq_tui.history.analysis.tables import Tables
from rsmq_tui.history.analysis.values import (
    AGE,
    HOUR_MS,
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
from rsmq_tui.history.keeping import LAST_MS
from rsmq_tui.history.names import read_name
from rsmq_tui.history.place import Place

# A band this many robust standard deviations wide holds what is usual; the factor makes one of a MAD.
_USUAL = 3 * 1.4826
# Fewer hours than this, of one hour of the week, are what happened, and not what is usual.
_USUAL_HOURS = 3

# A damaged file may tell of millions of years.
_MOST_HOURS = 3_660 * 24

Chosen = Collection[QueueRef] | None
"""Some queues; None means all."""


class Analysis:
    """The analysis at ``out``, a path or a URL, as its last complete run left it.

    Raises ``HistoryError`` where there is none. Questions are answered from the files that they need, and never fail
    for one that cannot be read: it is left out, and ``problems`` says so.
    """

    def __init__(self, out: str | Path, *, state: Path | None = None) -> None:
        self._tables = Tables(out, state)
        self._queues: dict[str, tuple[QueueFacts, ...]] = {}

    @property
    def label(self) -> str:
        """Where it is, without secrets."""
        return self._tables.label

    @property
    def history(self) -> str:
        """The history that it was made of, as the run was told."""
        return self._tables.manifest.history

    @property
    def made_ms(self) -> int:
        """When the run was completed."""
        return self._tables.manifest.made_ms

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each thing that is missing."""
        return self._tables.problems

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each file that could not be read, among these problems."""
        return self._tables.left_out

    def renew(self) -> bool:
        """Look for a newer run, and tell whether there is one; raises ``HistoryError``."""
        return self._tables.renew()

    def queues(self) -> tuple[QueueFacts, ...]:
        """Return the queues, in the order of their names."""
        run = self._tables.manifest.run
        if run not in self._queues:
            found = sorted((_facts(row) for row in self._rows(QUEUES)), key=lambda facts: (facts.ref.queue, facts.ref))
            self._queues = {self._tables.manifest.run: tuple(found)}
        return next(iter(self._queues.values()))

    def span(self) -> TimeRange | None:
        """Return the time that it covers, or None where nothing is known."""
        queues = self.queues()
        if not queues:
            return None
        return TimeRange(min(facts.first_ms for facts in queues), max(facts.last_ms for facts in queues))

    def line(self, queues: Chosen, metric: str, span: TimeRange, *, points: int = 200, statistic: str = "mean") -> Line:
        """Return a metric of a queue over time, or that of several together, with about ``points`` points or more.

        Depths and rates are added up. The greatest of the ages stands for all, and so does the greatest of several
        queues' percentiles: they cannot be added.
        """
        (line,) = self.lines(queues, ((metric, statistic),), span, points=points)
        return line

    def lines(self, queues: Chosen, asked: Sequence[Asked], span: TimeRange, *, points: int = 200) -> tuple[Line, ...]:
        """Return several lines, as ``line`` does one; ``asked`` are metrics and their statistics."""
        refs = self._refs(queues)
        if not refs:
            return tuple(Line(metric, statistic, 0, ()) for metric, statistic in asked)
        return read_lines(self._tables, refs, asked, span, points, self._lives())

    def greatest(self, queues: Chosen, metric: str, span: TimeRange, *, points: int = 200) -> tuple[int, float] | None:
        """Return when a metric of any one queue was greatest in a range, and how great; None where nothing is known."""
        refs = self._refs(queues)
        return read_greatest(self._tables, refs, metric, span, points) if refs else None

    def heat(self, queues: Chosen, metric: str, span: TimeRange, *, by_week: bool = False) -> HeatMap:
        """Return the hourly mean of a metric (the greatest, of ages) by day and hour, or by weekday and hour."""
        statistic = "max" if metric == AGE else "mean"
        refs = self._refs(queues)
        if not refs:
            return HeatMap(metric, by_week, ())
        asked = ((metric, statistic),)
        (line,) = read_lines(self._tables, refs, asked, span, 0, self._lives(), step_ms=HOUR_MS)
        return by_weekday(line) if by_week else by_day(line, span)

    def episodes(self, span: TimeRange, queues: Chosen = None) -> tuple[Episode, ...]:
        """Return the periods of trouble that reach into a range, the earliest first; those of places too."""
        inside = (pc.field("start_ms") <= span.to_ms) & (pc.field("end_ms") >= span.from_ms)
        found = (_episode(row) for row in self._rows(EPISODES, inside))
        places = None if queues is None else {ref.place for ref in queues}
        wanted = (
            episode
            for episode in found
            if queues is None or places is None or (episode.ref in queues if episode.ref else episode.place in places)
        )
        return tuple(sorted(wanted, key=lambda episode: (episode.start_ms, episode.place, episode.queue or "")))

    def poison(self, span: TimeRange, queues: Chosen = None) -> tuple[Poison, ...]:
        """Return the messages that were seen too often received in a range, the most often received first."""
        inside = (pc.field("first_seen_ms") <= span.to_ms) & (pc.field("last_seen_ms") >= span.from_ms)
        found = [
            Poison(
                _ref(row), read_name(row["id"]), row["sent_ms"], row["fr_ms"], row["rc"] or 0, row["size"],
                row["first_seen_ms"], row["last_seen_ms"], row["is_there"],
            )
            for row in self._rows(POISON, inside, queues)
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda poison: (-poison.rc, poison.first_seen_ms, poison.ref, poison.id)))

    def advice(self, queues: Chosen = None) -> tuple[Advice, ...]:
        """Return what is advised for the vt of queues, those first of which most came back too early."""
        found = [
            Advice(
                _ref(row), row["vt_s"], row["received"] or 0, row["expired_share"], row["holding_ms_p99"],
                row["advised_vt_s"], row["told"] or "",
            )
            for row in self._rows(ADVICE, None, queues)
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda advice: (-(advice.expired_share or 0.0), advice.ref)))

    def forecasts(self, queues: Chosen = None) -> tuple[Forecast, ...]:
        """Return where queues are going, those first that get to a limit soonest."""
        found = [
            Forecast(
                _ref(row), row["metric"], row["at_ms"], row["value"], row["slope_s"], row["hours"] or 0, row["limit"],
                row["reaches_ms"], row["told"] or "",
            )
            for row in self._rows(FORECAST, None, queues)
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda one: (one.reaches_ms is None, one.reaches_ms or 0, one.ref, one.metric)))

    def anomalies(self, span: TimeRange, queues: Chosen = None) -> tuple[Anomaly, ...]:
        """Return the unusual hours that begin in a range, the most unusual first."""
        inside = (pc.field("bucket_ms") > span.from_ms - HOUR_MS) & (pc.field("bucket_ms") <= span.to_ms)
        found = [
            Anomaly(
                _ref(row), row["bucket_ms"], row["metric"], row["value"], row["median"], row["mad"], row["score"] or 0.0
            )
            for row in self._rows(ANOMALIES, inside, queues)
        ]
        return tuple(sorted(found, key=lambda one: (-abs(one.score), one.bucket_ms, one.ref, one.metric)))

    def band(self, queue: QueueRef, metric: str, span: TimeRange) -> Band:
        """Return what is usual for a metric of a queue in each hour of a range, as far as that is known."""
        usual = {
            row["hour_of_week"]: (row["median"], row["mad"] or 0.0)
            for row in self._rows(BASELINE, pc.field("metric") == metric, (queue,))
            if row["median"] is not None and (row["hours"] or 0) >= _USUAL_HOURS
        }
        points = []
        first_ms = max(span.from_ms, span.to_ms - _MOST_HOURS * HOUR_MS) // HOUR_MS * HOUR_MS
        for at_ms in range(first_ms, span.to_ms + 1, HOUR_MS) if usual else ():
            if (known := usual.get(hour_of_week(at_ms))) is not None:
                middle, width = known[0], _USUAL * known[1]
                points.append((at_ms, max(0.0, middle - width), middle, middle + width))
        return Band(metric, tuple(points))

    def _refs(self, queues: Chosen) -> Sequence[QueueRef]:
        return [facts.ref for facts in self.queues()] if queues is None else tuple(queues)

    def _lives(self) -> dict[Place, TimeRange]:
        """Return when each place was recorded."""
        lives: dict[Place, TimeRange] = {}
        for facts in self.queues():
            known = lives.get(facts.ref.place, TimeRange(facts.first_ms, facts.last_ms))
            lives[facts.ref.place] = TimeRange(min(known.from_ms, facts.first_ms), max(known.to_ms, facts.last_ms))
        return lives

    def _rows(self, table: str, wanted: pc.Expression | None = None, queues: Chosen = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table that is kept whole; what lacks the names and times of a row is none."""
        if queues is not None:
            if not queues:
                return
            wanted = of_queues(queues) if wanted is None else wanted & of_queues(queues)
        for stored in self._tables.read(table, SCHEMAS[table].names, wanted).to_pylist():
            row = {name: _known(value) for name, value in stored.items()}
            needed = (row["profile"], row["server"], row["ns"])
            if None in needed or any(row[name] is None for name in _NEEDED[table]):
                continue
            if queues is None or _ref(row) in queues:
                yield row


_NEEDED = {
    QUEUES: ("queue", "first_ms", "last_ms"),
    EPISODES: ("verdict", "start_ms", "end_ms"),
    POISON: ("queue", "id", "first_seen_ms", "last_seen_ms"),
    ADVICE: ("queue",),
    FORECAST: ("queue", "metric", "at_ms"),
    ANOMALIES: ("queue", "bucket_ms", "metric", "value", "median", "mad"),
    BASELINE: ("queue", "metric", "hour_of_week"),
}


def _known(value: Any) -> Any:
    """Return a value, or None for what is no number."""
    return None if isinstance(value, float) and not isfinite(value) else value


def _place(row: dict[str, Any]) -> Place:
    return Place(read_name(row["profile"]), row["server"], read_name(row["ns"]))


def _ref(row: dict[str, Any]) -> QueueRef:
    return QueueRef(*_place(row), read_name(row["queue"]))


def _facts(row: dict[str, Any]) -> QueueFacts:
    return QueueFacts(
        _ref(row), row["kind"], _on_calendar(row["first_ms"]), _on_calendar(row["last_ms"]), row["samples"] or 0,
        row["peak_depth"], row["last_depth"],
    )  # fmt: skip


def _on_calendar(at_ms: int) -> int:
    return max(0, min(at_ms, LAST_MS))


def _episode(row: dict[str, Any]) -> Episode:
    return Episode(
        _place(row), None if row["queue"] is None else read_name(row["queue"]), row["verdict"], row["start_ms"],
        row["end_ms"], row["ended"] or "unknown", row["recovered_ms"], row["peak_depth"], row["peak_ready"],
        row["peak_ms"], row["peak_age_ms"], row["affected"], row["cause"] or "",
    )  # fmt: skip
