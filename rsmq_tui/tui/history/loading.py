"""Loads an analysis and a time range in a thread."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rsmq_tui.files import reason_of
from rsmq_tui.history.analysis.values import (
    Advice,
    Anomaly,
    Band,
    Episode,
    Forecast,
    HeatMap,
    Incident,
    Line,
    Poison,
    QueueFacts,
    QueueRef,
    TimeRange,
)
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.changes import AuditedChange, AuditedChanges, by_subject, logs_version, read_changes
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MomentError, read_end, read_moment
from rsmq_tui.monitor.text import clock, duration, shown_zone, zone_words

if TYPE_CHECKING:
    from rsmq_tui.history.analysis.reading import Analysis
    from rsmq_tui.history.changes import CountedChange


RANGE_MIN_MS = 60_000
PRESETS = (
    ("last hour", HOUR_MS),
    ("last day", DAY_MS),
    ("last week", 7 * DAY_MS),
    ("last 30 days", 30 * DAY_MS),
    ("all", None),
)
_BETWEEN = re.compile(r"\s*(?:–|—|\.\.+|\bto\b|\s-\s)\s*")


@dataclass(frozen=True, slots=True)
class AnalysisLocation:
    """Where to find an ``analysis``, and the ``history`` that it was computed from, for replays.

    Both are paths or URLs. Without ``history``, the one that the analysis names is used.
    """

    analysis: str
    history: str | None = None


def last(length_ms: int | None, whole: TimeRange) -> TimeRange:
    """Return the end of ``whole``, of that length, or all of it."""
    if length_ms is None or length_ms >= whole.length_ms:
        return whole
    return TimeRange(whole.to_ms - length_ms, whole.to_ms)


def shifted(span: TimeRange, step: int, whole: TimeRange) -> TimeRange:
    """Return the range half its length later (``step`` 1) or earlier (-1), within ``whole``."""
    return _within(span.from_ms + step * span.length_ms // 2, span.length_ms, whole)


def zoomed(span: TimeRange, step: int, whole: TimeRange) -> TimeRange:
    """Return the middle half of the range (``step`` 1), at least a minute, or one twice as long (-1)."""
    length_ms = max(RANGE_MIN_MS, span.length_ms // 2 if step > 0 else span.length_ms * 2)
    return _within(span.from_ms + (span.length_ms - length_ms) // 2, length_ms, whole)


def range_words(span: TimeRange) -> str:
    """Format a range: 05-17 09:00 – 05-18 09:00 UTC, 1d 0h; with both zones if the clocks are changed in it."""
    with_seconds = span.length_ms < 10 * RANGE_MIN_MS
    zones = [zone_words(end_ms) for end_ms in span]
    first = f" {zones[0]}" if zones[0] != zones[1] else ""
    ends = f"{moment(span.from_ms, with_seconds)}{first} – {moment(span.to_ms, with_seconds)} {zones[1]}"
    return f"{ends}, {duration(span.length_ms)}"


def moment(at_ms: int | None, with_seconds: bool = False) -> str:
    """Format a moment without its year: 05-17 09:00."""
    words = clock(at_ms, date=True)
    return words if len(words) < 19 else words[5 : 19 if with_seconds else 16]


def _within(from_ms: int, length_ms: int, whole: TimeRange) -> TimeRange:
    if length_ms >= whole.length_ms:
        return whole
    from_ms = max(whole.from_ms, min(from_ms, whole.to_ms - length_ms))
    return TimeRange(from_ms, from_ms + length_ms)


def read_range(text: str, whole: TimeRange) -> TimeRange:
    """Parse a range: 2031-05-17 09:00 – 11:00, 09:00 .. 11:00, -2h.

    A single moment is the start of the range. Raises ``MomentError``.
    """
    first, *others = _BETWEEN.split(text.strip(), maxsplit=1)
    from_ms = read_moment(first, whole.to_ms, shown_zone())
    end = others[0].strip() if others else ""
    to_ms = read_end(end, from_ms, whole.to_ms, shown_zone()) if end else whole.to_ms
    if to_ms <= from_ms and end:
        raise MomentError("the range ends before it begins: write the earlier time first")
    if not whole.holds(from_ms, to_ms):
        raise MomentError(f"no data for that time: the analysis covers {range_words(whole)}")
    return TimeRange(from_ms, max(to_ms, from_ms + RANGE_MIN_MS))


T = TypeVar("T")
_RATES = ("arrivals_s", "deletes_s", "receives_s")
MISSING = "to read an analysis, install the extra `history`: pip install 'rsmq-tui[history]'"


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What to load: a range (None for the last day) and the queues of the charts (None for all).

    ``points`` is the number of points of a line; a heat map is loaded only if ``is_heat``. A changed ``look`` asks for
    a newer run.
    """

    span: TimeRange | None = None
    refs: tuple[QueueRef, ...] | None = None
    metric: str = "depth"
    points: int = 200
    is_heat: bool = False
    is_weekly: bool = False
    look: int = 0


@dataclass(frozen=True, slots=True)
class Lists:
    """The rows of the pages for a range, of all queues.

    ``changed`` has the ``changes`` of each queue and server, and ``counted`` are the figures that contain them.
    """

    span: TimeRange | None = None
    queues: tuple[QueueFacts, ...] = ()
    incidents: tuple[Incident, ...] = ()
    episodes: tuple[Episode, ...] = ()
    poison: tuple[Poison, ...] = ()
    advice: tuple[Advice, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
    changes: tuple[AuditedChange, ...] = ()
    changed: Mapping[tuple[str, ...], Sequence[AuditedChange]] = field(default_factory=dict)
    counted: "tuple[CountedChange, ...]" = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of the charts: a metric and the rates; for a single queue also its 95th percentile and usual values."""

    metric: Line
    p95: Line | None
    usual: Band | None
    rates: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was loaded for ``wanted``; ``failure`` says why nothing was."""

    wanted: LoadRequest
    label: str = ""
    history: str = ""
    made_ms: int | None = None
    whole: TimeRange | None = None
    span: TimeRange | None = None
    lists: Lists = Lists()
    lines: Lines | None = None
    heat: HeatMap | None = None
    problems: Sequence[str] = ()
    failure: str | None = None


class Loader:
    """Reads the analysis at ``out``, opened on the first load; used by one thread at a time."""

    def __init__(self, out: str) -> None:
        self._out = out
        self._analysis: Analysis | None = None
        self._look = 0
        self._kept: dict[str, tuple[object, object]] = {}
        self._failed: list[str] = []

    def load(
        self, wanted: LoadRequest, default: Callable[[TimeRange], TimeRange], change_logs: Sequence[Path] = ()
    ) -> Loaded:
        """Load what was requested; ``default`` chooses the range if none is given. Errors are in the result.

        ``change_logs`` are the audit logs of changes.

        A part that cannot be read is missing and listed in ``problems``; the others are there.
        """
        self._failed = []
        try:
            return self._load(self._opened(wanted.look), wanted, default, change_logs)
        except ImportError:
            return Loaded(wanted, failure=MISSING)
        except HistoryError as error:
            return Loaded(wanted, failure=str(error))
        except Exception as error:
            # A damaged file or a filesystem may raise any exception.
            return Loaded(wanted, failure=f"{self._label} cannot be shown: {reason_of(error)}")

    @property
    def _label(self) -> str:
        return self._out if self._analysis is None else self._analysis.label

    def _opened(self, look: int) -> "Analysis":
        if self._analysis is None:
            from rsmq_tui.history.analysis.reading import Analysis  # noqa: PLC0415 - its packages may be missing

            self._analysis = Analysis(self._out)
        elif look != self._look and self._analysis.renew():
            self._kept.clear()
        self._look = look
        return self._analysis

    def _load(
        self,
        analysis: "Analysis",
        wanted: LoadRequest,
        default: Callable[[TimeRange], TimeRange],
        change_logs: Sequence[Path],
    ) -> Loaded:
        whole, manifest = analysis.span(), analysis.manifest
        shown = Loaded(wanted, analysis.label, manifest.history, manifest.made_ms, whole)
        if whole is None:
            return replace(shown, problems=analysis.problems)
        span = wanted.span or default(whole)
        run = manifest.made_ms
        version = logs_version(change_logs)
        audited = self._keep("changes", version, lambda: read_changes(change_logs))
        lists = self._keep("lists", (run, span, version), lambda: self._lists(analysis, span, audited))
        subject = (run, span, wanted.refs, wanted.metric)
        lines = self._keep(
            "lines",
            (*subject, wanted.points),
            lambda: self._part("the charts", lambda: _lines(analysis, wanted, span), _no_lines(wanted)),
        )
        heat = None
        if wanted.is_heat:
            heat = self._keep(
                "heat",
                (*subject, wanted.is_weekly),
                lambda: self._part(
                    "the heat map",
                    lambda: analysis.heat(wanted.refs, wanted.metric, span, by_week=wanted.is_weekly),
                    HeatMap(wanted.metric, wanted.is_weekly, ()),
                ),
            )
        problems = (*analysis.problems, *audited.problems, *self._failed)
        return replace(shown, span=span, lists=lists, lines=lines, heat=heat, problems=problems)

    def _lists(self, analysis: "Analysis", span: TimeRange, audited: AuditedChanges) -> Lists:
        from rsmq_tui.history.changes import changes_of, counted_of  # noqa: PLC0415 - its packages may be missing

        none: tuple[()] = ()
        queues = analysis.queues()
        refs = [facts.ref for facts in queues]
        changes = changes_of(audited.changes, span, refs)
        return Lists(
            span=span,
            queues=queues,
            incidents=self._part("the incidents", lambda: analysis.incidents(span), none),
            episodes=self._part("the episodes", lambda: analysis.episodes(span), none),
            poison=self._part("the poison messages", lambda: analysis.poison(span), none),
            advice=self._part("the advice", analysis.advice, none),
            forecasts=self._part("the forecasts", analysis.forecasts, none),
            anomalies=self._part("the unusual hours", lambda: analysis.anomalies(span), none),
            changes=changes,
            changed=by_subject(changes),
            counted=self._part("what changes count for", lambda: counted_of(analysis, changes, refs), none),
        )

    def _part(self, name: str, make: Callable[[], T], none: T) -> T:
        """Load a part, or note why it cannot be shown."""
        try:
            return make()
        except HistoryError:
            # The whole analysis cannot be read.
            raise
        except Exception as error:
            # An error in one table must not hide the others.
            self._failed.append(f"{name} cannot be shown: {reason_of(error)}")
            return none

    def _keep(self, name: str, key: object, make: Callable[[], T]) -> T:
        kept = self._kept.get(name)
        if kept is not None and kept[0] == key:
            return kept[1]  # type: ignore[return-value] # what is kept under a name is of one kind
        failed = len(self._failed)
        made = make()
        if len(self._failed) == failed:
            # After a failure, the next load tries again.
            self._kept[name] = key, made
        return made


def _no_lines(wanted: LoadRequest) -> Lines:
    metric, *rates = (Line(name, 0, ()) for name in (wanted.metric, *_RATES))
    return Lines(metric, None, None, tuple(rates))


def _lines(analysis: "Analysis", wanted: LoadRequest, span: TimeRange) -> Lines:
    refs, metric = wanted.refs, wanted.metric
    asked = [(metric, "mean"), *((rate, "mean") for rate in _RATES)]
    if refs is None or len(refs) != 1:
        line, *rates = analysis.lines(refs, asked, span, points=wanted.points)
        return Lines(line, None, None, tuple(rates))
    line, *rates, p95 = analysis.lines(refs, [*asked, (metric, "p95")], span, points=wanted.points)
    return Lines(line, p95, analysis.band(refs[0], metric, span), tuple(rates))
