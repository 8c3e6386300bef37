"""The values that a reader of an analysis gets: small, immutable, and independent of the files.

Names are untrusted, and hold bytes that are not UTF-8 as lone surrogates. Times are in ms since 1970, UTC. None means
unknown.
"""

from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.history.names import Place, stored_name
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS

AGE, WAITING = "oldest_ready_age_ms", "oldest_ready_waiting_ms"
DOWN = "down"
OPEN = "open"

LEVELS = 5

Point = tuple[int, float | None]

_AGE_UNITS = (
    (2 * DAY_MS, DAY_MS, "d"),
    (2 * HOUR_MS, HOUR_MS, "h"),
    (10 * MINUTE_MS, MINUTE_MS, "min"),
    (0, 1_000, "s"),
)


def age_unit(highest_ms: float) -> tuple[float, str]:
    """Return the unit for a chart of ages up to that one: its length in ms, and its name."""
    return next((float(unit_ms), name) for least_ms, unit_ms, name in _AGE_UNITS if highest_ms >= least_ms)


class TimeRange(NamedTuple):
    """A span of time in ms, both ends included."""

    from_ms: int
    to_ms: int

    @property
    def length_ms(self) -> int:
        """How long it is, at least 1."""
        return max(1, self.to_ms - self.from_ms)

    def holds(self, from_ms: int, to_ms: int) -> bool:
        """Return whether the ranges overlap."""
        return from_ms <= self.to_ms and to_ms >= self.from_ms


class QueueRef(NamedTuple):
    """Identifies a queue by its place and name."""

    profile: str
    server: str
    ns: str
    queue: str

    @property
    def place(self) -> Place:
        """The place of the queue."""
        return Place(self.profile, self.server, self.ns)

    @property
    def stored(self) -> "QueueRef":
        """It with its names as files have them."""
        return QueueRef(*self.place.stored, stored_name(self.queue))


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue of the history: when it was seen, and its depths."""

    ref: QueueRef
    kind: str | None
    first_ms: int
    last_ms: int
    peak_depth: int | None
    last_depth: int | None


class _Trouble:
    """What episodes and incidents have in common."""

    __slots__ = ()
    place: Place
    queue: str | None
    start_ms: int
    end_ms: int
    ended: str

    @property
    def ref(self) -> QueueRef | None:
        """The queue; None for a trouble of a place or server."""
        return None if self.queue is None else QueueRef(*self.place, self.queue)

    @property
    def length_ms(self) -> int:
        """How long it lasted, as far as it is known."""
        return max(0, self.end_ms - self.start_ms)

    def is_ongoing(self, at_ms: int | None = None) -> bool:
        """Return whether it goes on after a time, or at the end of the history."""
        return self.ended == OPEN or (at_ms is not None and self.end_ms > at_ms)


@dataclass(frozen=True, slots=True)
class Episode(_Trouble):
    """A period of trouble of one queue; where ``queue`` is None, the whole place was down.

    ``ended`` is ``over``, ``unknown`` if a gap follows, or ``open`` if the history ends in it. Of a place that was
    down, ``answered_ms`` is the last poll before that, and ``failed_ms`` the last one that failed. The rest is unknown
    unless it is given.
    """

    place: Place
    queue: str | None
    verdict: str
    start_ms: int
    end_ms: int
    ended: str
    recovered_ms: int | None
    peak_depth: int | None = None
    peak_ms: int | None = None
    peak_age_ms: int | None = None
    affected: int | None = None
    cause: str = ""
    created_ms: int | None = None
    answered_ms: int | None = None
    failed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Incident(_Trouble):
    """Troubles of one queue that belong together; where ``queue`` is None, what happened together in one server.

    The latter is the head of other incidents, whose ``head_id`` is its ``id``; the namespace of its place is empty.
    ``worst`` is the worst verdict, ``verdicts`` are all of them in order, each once; ``episodes`` is their number.
    ``ended`` is as for an episode.
    """

    place: Place
    queue: str | None
    id: str
    worst: str
    verdicts: tuple[str, ...]
    start_ms: int
    end_ms: int
    ended: str
    recovered_ms: int | None
    peak_depth: int | None
    affected: int | None
    episodes: int
    cause: str
    head_id: str | None = None

    @property
    def is_outage(self) -> bool:
        """Whether it is an outage of a server."""
        return self.queue is None and DOWN in self.verdicts


@dataclass(frozen=True, slots=True)
class Line:
    """One metric over time: a point for each step of ``step_ms``, at its beginning; a value of None is a gap."""

    metric: str
    step_ms: int
    points: tuple[Point, ...]

    @property
    def is_empty(self) -> bool:
        """True if nothing is known."""
        return all(value is None for _, value in self.points)

    @property
    def peak(self) -> tuple[int, float] | None:
        """The first time of the highest value, and that value; None if nothing is known."""
        known = [(at_ms, value) for at_ms, value in self.points if value is not None]
        return max(known, key=lambda point: (point[1], -point[0]), default=None)


class UsualRange(NamedTuple):
    """The values of a metric that are usual at an hour of the week, and their median."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Band:
    """The usual values of a metric by hour: (start of the hour, low, median, high)."""

    metric: str
    points: tuple[tuple[int, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A metric by day and hour: one row of 24 values for each day; or by weekday, Monday first, where ``is_week``.

    ``rows`` has each day as its start in ms; weekdays as 0 to 6.
    """

    metric: str
    is_week: bool
    rows: tuple[tuple[int, tuple[float | None, ...]], ...]

    @property
    def levels(self) -> list[float]:
        """The lower bound of each of up to ``LEVELS`` shades, with about the same number of distinct values in each."""
        distinct = sorted({value for _, hours in self.rows for value in hours if value is not None})
        number = min(LEVELS, len(distinct))
        return [distinct[index * len(distinct) // number] for index in range(number)]

    @property
    def peak(self) -> float | None:
        """The highest value."""
        return max((value for _, hours in self.rows for value in hours if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class Poison:
    """A poison message; ``is_there`` says whether the last inventory still contained it."""

    ref: QueueRef
    id: str
    sent_ms: int | None
    fr_ms: int | None
    rc: int
    size: int | None
    first_seen_ms: int
    last_seen_ms: int
    is_there: bool | None


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice on a queue's vt: how many of all receives were redeliveries; ``told`` is its sentence."""

    ref: QueueRef
    vt_s: float | None
    receives: int | None
    redeliveries: int | None
    advised_vt_s: float | None
    told: str

    @property
    def redelivered(self) -> float | None:
        """The share of receives that were redeliveries."""
        return self.redeliveries / self.receives if self.redeliveries is not None and self.receives else None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of a metric of a queue; ``reaches_ms`` is when it reaches the limit, or did, None for never."""

    ref: QueueRef
    metric: str
    at_ms: int
    value: float | None
    slope_s: float | None
    hours: int
    limit: float | None
    reaches_ms: int | None
    told: str

    @property
    def is_over(self) -> bool:
        """Whether it has reached the limit already."""
        return self.reaches_ms is not None and self.reaches_ms <= self.at_ms


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An hour in which a metric was far from the usual value at that hour of the week."""

    ref: QueueRef
    bucket_ms: int
    metric: str
    value: float
    median: float
    score: float
