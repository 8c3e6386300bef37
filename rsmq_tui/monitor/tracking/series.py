"""The last hour of every queue, stored compactly: 10,000 queues fit in 60 MB. And the last day of some queues.

Counters are stored every ``BUCKET_MS``; of what is older than ``BUCKETS`` of these, one bucket for each ``COARSE_MS``
stays, with the highest counts of that time. Rates are computed on reading, over the measured interval. Of what is older
than an hour, ``DayTrend`` keeps values for each ``DAY_BUCKET_MS``, of ``DAY_QUEUES`` queues at most: 7 MB.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from math import inf, isnan
from operator import methodcaller, sub
from typing import Any, ClassVar, Concatenate, NamedTuple, ParamSpec, TypeVar, overload

BUCKET_MS = 5_000
BUCKETS = 120
COARSE_MS = 60_000
COARSE_BUCKETS = 50
BUCKETS_MS = BUCKET_MS * BUCKETS
TREND_MS = 3_600_000
DAY_MS = 86_400_000
DAY_BUCKET_MS = 300_000
DAY_BUCKETS = (DAY_MS - TREND_MS) // DAY_BUCKET_MS
DAY_QUEUES = 1_000
# The counters of a day are stored at this distance.
MARK_MS = 1_800_000
MARKS = 49
SUM_SPANS_MS = (60_000, 3_600_000, DAY_MS)
# A sum since the creation of a queue is one of a span that is at most this many times shorter.
_SPAN_EXCESS = 1.1
# This many sums are kept unchanged; of older ones, the highest of each span of this length.
TOTALS_FINE = 600
TOTALS_COARSE_MS = 20_000
_NAN = float("nan")


class Rates(NamedTuple):
    """Messages per second, over the interval between two samples."""

    arrivals_s: float
    deletes_s: float
    receives_s: float


STILL = Rates(0.0, 0.0, 0.0)


class Reference(NamedTuple):
    """The earlier bucket of a rate: its index and its time; from ``until_ms`` on it may be another one."""

    bucket: int
    at_ms: int
    until_ms: int


class FlightTimes(NamedTuple):
    """How long messages waited, and are being worked on: of ``sampled`` messages in flight at ``at_ms``.

    The percentiles are nearest-rank values in ms. A wait lasts from the send of a message to its first receive, work
    from its last receive until now; None if that is known of no message.
    """

    at_ms: int
    sampled: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    work_p50_ms: int | None
    work_p95_ms: int | None


_FLIGHT_NUMBERS = len(FlightTimes._fields)
# Stands for None in the numbers of a memory.
UNKNOWN = -(1 << 63)


def or_none(number: int) -> int | None:
    """Return a number of a memory, None for one that stands for it."""
    return None if number == UNKNOWN else number


def or_unknown(number: int | None) -> int:
    """Return a number for a memory."""
    return UNKNOWN if number is None else number


def _flight_numbers(times: FlightTimes) -> "array[int]":
    return array("q", map(or_unknown, times))


class FlightLog(Sequence[FlightTimes]):
    """Samples of messages in flight, oldest first: 48 bytes each, a fifth of what the tuples take."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: "Sequence[int]" = ()) -> None:
        self._numbers = array("q", numbers)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._numbers) // _FLIGHT_NUMBERS

    @overload
    def __getitem__(self, index: int) -> FlightTimes: ...
    @overload
    def __getitem__(self, index: slice) -> list[FlightTimes]: ...
    def __getitem__(self, index: int | slice) -> FlightTimes | list[FlightTimes]:
        """Return a sample, or some of them."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = range(len(self))[index] * _FLIGHT_NUMBERS
        return FlightTimes(*map(or_none, self._numbers[at : at + _FLIGHT_NUMBERS]))  # type: ignore[arg-type]

    def __setitem__(self, index: int, times: FlightTimes) -> None:
        at = range(len(self))[index] * _FLIGHT_NUMBERS
        self._numbers[at : at + _FLIGHT_NUMBERS] = _flight_numbers(times)

    def __delitem__(self, index: int) -> None:
        at = range(len(self))[index] * _FLIGHT_NUMBERS
        del self._numbers[at : at + _FLIGHT_NUMBERS]

    def append(self, times: FlightTimes) -> None:
        """Append a sample."""
        self._numbers += _flight_numbers(times)

    def copy(self) -> "FlightLog":
        """Return a copy."""
        return FlightLog(self._numbers)

    def since(self, from_ms: int) -> list[FlightTimes]:
        """Return the samples from that time on, without a look at most of the earlier ones."""
        index = len(self)
        while index and self._numbers[(index - 1) * _FLIGHT_NUMBERS] >= from_ms:
            index -= 1
        return self[index:]


class Sums(NamedTuple):
    """How many messages were sent to and received from a queue in the last ``span_ms``.

    They are not ``whole`` if the counters are known for a shorter time than is asked for.
    """

    span_ms: int
    sent: int
    received: int
    whole: bool = True


class Returns(NamedTuple):
    """How many messages were received in the last ``span_ms``, and how many came back after that, at least.

    A message comes back if it is not deleted before it is visible again: its consumer failed, gave it back, or needed
    longer than the visibility timeout.
    """

    span_ms: int
    received: int
    back: int


class Sample(NamedTuple):
    """A queue's counters at one moment."""

    at_ms: int
    depth: int
    ready: int
    totalsent: int
    totalrecv: int

    def rates_since(self, earlier: "Sample") -> Rates | None:
        """Return the rates between two samples, or None if no time passed between them.

        Deletes are arrivals minus the growth of the depth; restored messages can make that negative, which counts as 0.
        """
        elapsed_s = (self.at_ms - earlier.at_ms) / 1000
        if elapsed_s <= 0:
            return None
        sent = self.totalsent - earlier.totalsent
        deleted = sent - (self.depth - earlier.depth)
        received = self.totalrecv - earlier.totalrecv
        return Rates(
            sent / elapsed_s if sent > 0 else 0.0,
            deleted / elapsed_s if deleted > 0 else 0.0,
            received / elapsed_s if received > 0 else 0.0,
        )

    def net_since(self, earlier: "Sample") -> float | None:
        """Return the change of the depth per second for a queue without rates, else None."""
        return None

    def backlog_since(self, earlier: "Sample") -> int:
        """Return by how much the messages that consumers have to deal with have increased at most.

        Messages that wait for a delay of their own are none of these. They are hidden, as those in flight are, but
        no receive hid them.
        """
        _, depth, ready, totalsent, totalrecv = self
        _, depth_then, ready_then, totalsent_then, totalrecv_then = earlier
        grown, received = depth - depth_then, totalrecv - totalrecv_then
        deleted = totalsent - totalsent_then - grown
        return min(grown, ready - ready_then + max(0, received - deleted))


# Stands for the sample of a queue that could not be read.
NO_SAMPLE = (_NAN,) * 5


class ListSample(Sample):
    """A list queue's counts at one moment. Lists do not count pushes and takes, so the totals stay 0."""

    __slots__ = ()

    def rates_since(self, earlier: Sample) -> Rates | None:
        """Return None: lists do not count arrivals and deletes."""
        return None

    def net_since(self, earlier: Sample) -> float | None:
        """Return the change of the depth per second, or None if no time passed between the two."""
        elapsed_s = (self.at_ms - earlier.at_ms) / 1000
        return (self.depth - earlier.depth) / elapsed_s if elapsed_s > 0 else None

    def backlog_since(self, earlier: Sample) -> int:
        """Return the change of the depth: items have no delay."""
        return self.depth - earlier.depth


# A bucket of a queue holds depth, ready, totalsent and totalrecv; its peaks are the highest ready and hidden counts.
COUNTERS, _PEAKS = 4, 2


class QueueSeries:
    """One queue's counters, bucket by bucket, aligned with the times of its ``Trend``; NaN while it did not exist."""

    __slots__ = ("changed_ms", "counters", "flights", "marked_ms", "marks", "peaks", "times_ms")
    sample: ClassVar[type[Sample]] = Sample

    def __init__(self, times_ms: list[int]) -> None:
        missed = len(times_ms)
        self.times_ms = times_ms
        # One array, because four would take half as much again.
        self.counters = array("d", [_NAN]) * (COUNTERS * missed)
        # The highest counts of what the first buckets stand for; the last ``BUCKETS`` stand for themselves. None for
        # ten minutes: of 100,000 queues, empty arrays would take 8 MB.
        self.peaks = array("d", [_NAN]) * (_PEAKS * (missed - BUCKETS)) if missed > BUCKETS else None
        # The last polls that a change of this program may have affected: no rate spans them. None for most queues.
        self.changed_ms: deque[int] | None = None
        # Time, totalsent and totalrecv, every half hour; NaN while the queue did not exist. ``marked_ms`` is the last
        # of these times.
        self.marks = array("d")
        self.marked_ms = 0.0
        # None until the queue was sampled: most queues of many are rarely.
        self.flights: FlightLog | None = None

    def append(self, sample: Sample | None) -> None:
        """Append a bucket; None for a queue that could not be read."""
        at_ms, *counters = sample or NO_SAMPLE
        self.counters.extend(counters)
        if at_ms - self.marked_ms >= MARK_MS:
            self.marked_ms = at_ms
            self.marks.extend((at_ms, *counters[2:]))
            del self.marks[: -3 * MARKS]

    def note_change(self, at_ms: int) -> None:
        """Note that a change of this program may have affected the queue since the poll before this one."""
        if self.changed_ms is None:
            self.changed_ms = deque(maxlen=BUCKETS)
        self.changed_ms.append(at_ms)

    def was_changed(self, earlier_ms: int, later_ms: int) -> bool:
        """Return whether a change of this program may have affected the queue between two polls."""
        return any(earlier_ms < at_ms <= later_ms for at_ms in self.changed_ms or ())

    def add_flights(self, times: FlightTimes) -> None:
        """Store a sample of messages in flight for the chart; of older ones, one a minute."""
        if self.flights is None:
            self.flights = FlightLog()
        flights = self.flights
        while flights and flights[0].at_ms < times.at_ms - TREND_MS:
            del flights[0]
        if not flights or times.at_ms - flights[-1].at_ms >= BUCKET_MS:
            flights.append(times)
        index = len(flights) - BUCKETS - 1
        if index > 0 and flights[index].at_ms - flights[index - 1].at_ms < COARSE_MS:
            merged = map(_higher, flights[index - 1][1:], flights[index][1:])
            flights[index - 1] = FlightTimes(flights[index - 1].at_ms, *merged)  # type: ignore[arg-type]
            del flights[index]

    def forget(self, buckets: int) -> None:
        """Drop that many buckets, the first ones."""
        del self.counters[: COUNTERS * buckets]
        if self.peaks is not None:
            del self.peaks[: _PEAKS * buckets]

    def coarsen(self, index: int, *, merge: bool) -> None:
        """Let the bucket after those with peaks be one of them, or, to ``merge`` it, a part of the last of them."""
        start = COUNTERS * index
        depth, ready = self.counters[start : start + 2]
        if self.peaks is None:
            self.peaks = array("d")
        peaks = self.peaks
        if not merge:
            peaks.extend((ready, depth - ready))
            return
        del self.counters[start : start + COUNTERS]
        # If either is not known, the first one stays.
        peaks[-2] = max(peaks[-2], ready)
        peaks[-1] = max(peaks[-1], depth - ready)

    @property
    def last(self) -> "array[float]":
        """The counters of the last bucket."""
        return self.counters[-COUNTERS:]

    @property
    def depth(self) -> "array[float]":
        """The depth in each bucket; a copy."""
        return self.counters[::COUNTERS]

    @property
    def totalsent(self) -> "array[float]":
        """The count of sent messages in each bucket; a copy."""
        return self.counters[2::COUNTERS]

    @property
    def totalrecv(self) -> "array[float]":
        """The count of receives in each bucket; a copy."""
        return self.counters[3::COUNTERS]

    def at(self, index: int) -> Sample | None:
        """Return the sample of a bucket, or None if the queue did not exist or could not be read."""
        depth, ready, totalsent, totalrecv = self.counters[COUNTERS * index : COUNTERS * (index + 1)]
        if isnan(depth):
            return None
        return self.sample(self.times_ms[index], int(depth), int(ready), int(totalsent), int(totalrecv))

    def between(self, after_ms: int, before_ms: int) -> list[Sample]:
        """Return the samples of the buckets between two times, both excluded."""
        start, stop = bisect_right(self.times_ms, after_ms), bisect_left(self.times_ms, before_ms)
        counters = self.counters[COUNTERS * start : COUNTERS * stop]
        if isnan(sum(counters)):
            return [sample for sample in map(self.at, range(start, stop)) if sample is not None]
        # Fast path: all of them have a sample.
        counts = map(int, counters.tolist())
        return list(map(self.sample._make, zip(self.times_ms[start:stop], counts, counts, counts, counts, strict=True)))

    def peaks_at(self, index: int) -> tuple[int, int] | None:
        """Return the highest ready and hidden counts of a bucket with a sample; None if it stands for itself."""
        if self.peaks is None or _PEAKS * index >= len(self.peaks):
            return None
        ready, hidden = self.peaks[_PEAKS * index : _PEAKS * (index + 1)]
        return int(ready), int(hidden)

    def fill(self, counters: "array[float]") -> None:
        """Replace the buckets by these, which are aligned with the times."""
        self.counters = counters
        if self.peaks is not None:
            coarse = self.counters[: COUNTERS * len(self.peaks) // _PEAKS]
            depth, ready = coarse[::COUNTERS], coarse[1::COUNTERS]
            self.peaks[::_PEAKS] = ready
            self.peaks[1::_PEAKS] = array("d", map(sub, depth, ready))


class ListSeries(QueueSeries):
    """One list queue's counts."""

    __slots__ = ()
    sample = ListSample


class TotalsPoint(NamedTuple):
    """The sums over all queues at one poll; rates are None before the second poll, and after a gap."""

    at_ms: int
    ready: int | None
    hidden: int | None
    arrivals_s: float | None
    deletes_s: float | None
    receives_s: float | None

    def merged(self, later: "TotalsPoint", every_ms: int = TOTALS_COARSE_MS) -> "TotalsPoint | None":
        """Return the higher values of two polls of about the same time; None if one is a gap, or they are apart."""
        is_near = self.at_ms // every_ms == later.at_ms // every_ms
        if self.ready is None or later.ready is None or not is_near:
            return None
        return TotalsPoint(self.at_ms, *map(_higher, self[1:], later[1:]))  # type: ignore[arg-type]


def _higher(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


class QueuePoint(NamedTuple):
    """One queue in one bucket; None for unknown. ``net_s`` is the change of a list queue's depth per second.

    ``ready`` and ``hidden`` are the highest counts of the time that the bucket stands for.
    """

    at_ms: int
    ready: float | None
    hidden: float | None
    arrivals_s: float | None
    deletes_s: float | None
    receives_s: float | None
    net_s: float | None = None


# What a day's bucket holds of a queue: the fields of ``QueuePoint`` after its time, the first two of them counts.
DAY_VALUES = 6
_DAY_COUNTS = 2


class DayBucket(NamedTuple):
    """A bucket of a ``DayTrend``: ``DAY_VALUES`` numbers of each queue, NaN for unknown; ``names`` has their places."""

    at_ms: int
    names: dict[str, int]
    values: "array[float]"


@dataclass(frozen=True, slots=True)
class Moment:
    """What a sampler knows at ``at_ms``, to be kept for another run.

    ``counters`` are depth, ready, totalsent and totalrecv of each queue. ``numbers`` has as many numbers of each
    tracker as it needs, and ``more`` what else there is to keep of some of them, as values that JSON can hold. They
    are flat arrays, because thousands of small objects would start the garbage collector. ``flights`` are the samples
    of messages in flight since the moment before, by queue. ``changes`` are the times, of the last hour, of the polls
    that a change of this program may have affected, by queue. ``day`` is the last bucket of what is older than an hour.
    """

    at_ms: int
    names: list[str]
    counters: "list[array[float]]"
    totals: list[TotalsPoint]
    numbers: "array[int]"
    more: dict[str, Any]
    flights: dict[str, list[FlightTimes]] = field(default_factory=dict)
    changes: dict[str, list[int]] = field(default_factory=dict)
    day: DayBucket | None = None


class EarlierRun(NamedTuple):
    """What an earlier run kept, until the moment ``last``.

    ``counters`` are those of ``names``, queue by queue, as ``QueueSeries`` has them. Their last bucket is just after
    ``last`` and empty, so that charts show a gap. ``marks`` are the counters of a day:
    time, totalsent and totalrecv of each queue, as ``QueueSeries`` stores them for one. The ``flights`` of ``last`` are
    all samples of the hour, oldest first. ``day`` is what is older than the hour, oldest first.
    """

    last: Moment
    times_ms: list[int]
    names: list[str]
    counters: "array[float]"
    marks: "array[float]"
    day: list[DayBucket]


class DayTrend:
    """What is older than the hour of a ``Trend``: the highest counts and the mean rates of each ``DAY_BUCKET_MS``.

    Numbers are of single precision, NaN for unknown. The buckets of a queue begin with the queue.
    """

    def __init__(self) -> None:
        self.totals: deque[TotalsPoint] = deque()
        self._times_ms: list[int] = []
        self._queues: dict[str, array[float]] = {}
        # How many points the last bucket is made of.
        self._merged = 0
        # Those of an earlier run.
        self._earlier: deque[DayBucket] = deque()

    def add_totals(self, point: TotalsPoint) -> None:
        """Add the sums of a poll that are older than an hour."""
        merged = self.totals[-1].merged(point, DAY_BUCKET_MS) if self.totals else None
        if merged is not None:
            self.totals[-1] = merged
        else:
            self.totals.append(point)
        while self.totals[0].at_ms < point.at_ms - DAY_MS + TREND_MS:
            self.totals.popleft()

    def add(self, at_ms: int, points: "Iterable[tuple[str, QueuePoint | None]]") -> None:
        """Add the points of a time, later than the last one; queues that have none now are dropped."""
        known, self._queues = self._queues, {}
        is_new = not self._times_ms or at_ms // DAY_BUCKET_MS > self._times_ms[-1] // DAY_BUCKET_MS
        if is_new:
            self._times_ms.append(at_ms)
            self._merged = 0
        while self._earlier and self._earlier[0].at_ms < at_ms - DAY_MS + TREND_MS:
            self._earlier.popleft()
        del self._times_ms[:-DAY_BUCKETS]
        self._merged += 1
        for name, point in points:
            values = known.get(name)
            if values is None:
                if point is not None and point.ready is None:
                    # It did not exist yet.
                    continue
                values = array("f")
            # The last values are those of the last bucket: a new queue has none before that.
            self._queues[name] = values
            if is_new or not values:
                values.extend([_NAN] * DAY_VALUES)
                del values[: -DAY_VALUES * DAY_BUCKETS]
            if point is not None:
                self._merge(values, point)

    @property
    def last(self) -> DayBucket | None:
        """The last bucket, to be kept for another run; None if there is none."""
        if not self._times_ms:
            return None
        names, values = {name: place for place, name in enumerate(sorted(self._queues))}, array("f")
        for name in names:
            values.extend(self._queues[name][-DAY_VALUES:])
        return DayBucket(self._times_ms[-1], names, values)

    def restore(self, buckets: Iterable[DayBucket]) -> None:
        """Continue after the buckets of an earlier run."""
        self._earlier.extend(buckets)

    def queue(self, name: str) -> Iterator[QueuePoint]:
        """Iterate over a queue's buckets, oldest first; nothing for a queue that is not followed."""
        for bucket in self._earlier:
            if (place := bucket.names.get(name)) is not None:
                yield _day_point(bucket.at_ms, bucket.values, place)
        values = self._queues.get(name, array("f"))
        count = len(values) // DAY_VALUES
        for place, at_ms in enumerate(self._times_ms[-count:] if count else ()):
            yield _day_point(at_ms, values, place)

    def _merge(self, values: "array[float]", point: QueuePoint) -> None:
        numbers = (point.ready, point.hidden, point.arrivals_s, point.deletes_s, point.receives_s, point.net_s)
        for index, number in enumerate(numbers):
            before = values[index - DAY_VALUES]
            if number is None:
                continue
            if isnan(before):
                values[index - DAY_VALUES] = number
            elif index < _DAY_COUNTS:
                values[index - DAY_VALUES] = max(before, number)
            else:
                values[index - DAY_VALUES] = before + (number - before) / self._merged


def _day_point(at_ms: int, values: "array[float]", place: int) -> QueuePoint:
    found = values[place * DAY_VALUES : (place + 1) * DAY_VALUES]
    return QueuePoint(at_ms, *(None if isnan(value) else value for value in found))


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _step(
    method: "Callable[Concatenate[Trend, _Arguments], _Result]",
) -> "Callable[Concatenate[Trend, _Arguments], _Result]":
    """Make each call of a method one of the ``steps`` of its trend; calls within that call are none."""

    @wraps(method)
    def call(trend: "Trend", /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        steps, trend.steps = trend.steps, None
        result = method(trend, *args, **kwargs)
        if steps is not None:
            steps.append(methodcaller(method.__name__, *args, **kwargs))
            trend.steps = steps
        return result

    return call


class Trend:
    """The recent history of all queues and of their sums; polls append to it, charts read it.

    Without ``is_charted``, only the hour of each queue is kept, which verdicts and forecasts need: no sums, no day, no
    samples of messages in flight. If ``steps`` is a list, all that is added is appended to it too: called with an equal
    trend, in another process, each step adds the same there.
    """

    def __init__(self) -> None:
        self.is_charted = True
        # None if nobody takes them, or if an earlier run was restored since they were last taken.
        self.steps: list[Callable[[Trend], object]] | None = None
        self.times_ms: list[int] = []
        self.totals: deque[TotalsPoint] = deque()
        self.day = DayTrend()
        # The queues of which a day is kept if there are too many for all, those that were followed last at the end.
        self.followed: dict[str, None] = {}
        self.series: dict[str, QueueSeries] = {}
        self.gaps_ms: list[int] = []
        # The counters of a day of queues that have no series yet.
        self.marks: dict[str, array[float]] = {}

    def is_due(self, at_ms: int) -> bool:
        """Return whether a new bucket is due."""
        return not self.times_ms or at_ms - self.times_ms[-1] >= BUCKET_MS

    def open_bucket(self, at_ms: int) -> None:
        """Open a bucket; the caller must then append to the series of each queue."""
        times_ms = self.times_ms
        times_ms.append(at_ms)
        # The bucket that is no longer one of the last ``BUCKETS``.
        index = len(times_ms) - BUCKETS - 1
        if index < 0:
            return
        is_coarse = index == 0 or times_ms[index] - times_ms[index - 1] >= COARSE_MS
        merge = not is_coarse and not self._is_gap(times_ms[index], times_ms[index + 1])
        for series in self.series.values():
            series.coarsen(index, merge=merge)
        if merge:
            del times_ms[index]
        elif len(times_ms) > BUCKETS + COARSE_BUCKETS:
            if self.is_charted:
                names = list(self.series if len(self.series) <= DAY_QUEUES else self.series.keys() & self.followed)
                # The rates of the second bucket, which becomes the first, need the one before.
                self.day.add(times_ms[1], ((name, next(self.queue(name, 1), None)) for name in names))
            self.forget(1)

    @_step
    def add_bucket(self, at_ms: int, samples: Iterable[Sample | None]) -> None:
        """Add a bucket with a sample of each queue, in the order of the series; None for one that was not read."""
        self.open_bucket(at_ms)
        for series, sample in zip(self.series.values(), samples, strict=True):
            series.append(sample)

    @_step
    def note_change(self, name: str, at_ms: int) -> None:
        """Note that a change of this program may have affected a queue since the poll before this one."""
        self.series[name].note_change(at_ms)

    @_step
    def add_flights(self, name: str, times: FlightTimes) -> None:
        """Store a sample of a queue's messages in flight."""
        if self.is_charted:
            self.series[name].add_flights(times)

    def follow(self, names: Iterable[str]) -> None:
        """Keep a day of these queues, rather than of those that were named longest ago."""
        for name in names:
            self.followed.pop(name, None)
            self.followed[name] = None
        for name in list(islice(self.followed, max(0, len(self.followed) - DAY_QUEUES))):
            del self.followed[name]

    def restore_day(self, buckets: Sequence[DayBucket], ended_ms: int | None) -> None:
        """Continue what is older than an hour from an earlier run, and keep a day of the same queues.

        A gap begins at ``ended_ms``, if that is given.
        """
        self.steps = None
        self.day.restore(buckets)
        names = buckets[-1].names if buckets else ()
        self.follow(names)
        if ended_ms is not None:
            self.day.add(ended_ms, ((name, None) for name in names))

    @_step
    def add_totals(self, point: TotalsPoint) -> None:
        """Append the sums of a poll; those of a day are kept."""
        if not self.is_charted:
            return
        totals = self.totals
        totals.append(point)
        index = len(totals) - TOTALS_FINE - 1
        if index > 0 and (merged := totals[index - 1].merged(totals[index])) is not None:
            totals[index - 1] = merged
            del totals[index]
        while totals[0].at_ms < point.at_ms - TREND_MS:
            self.day.add_totals(totals.popleft())

    @property
    def day_totals(self) -> list[TotalsPoint]:
        """The sums of a day, oldest first."""
        return [*self.day.totals, *self.totals]

    def forget(self, buckets: int) -> None:
        """Drop that many buckets of all queues, the first ones."""
        del self.times_ms[:buckets]
        for series in self.series.values():
            series.forget(buckets)

    @_step
    def add_queue(self, name: str, kind: type[QueueSeries] = QueueSeries) -> QueueSeries:
        """Add a new queue and return its series."""
        series = self.series[name] = kind(self.times_ms)
        if not self.is_charted:
            # No time is that long after it: counters of a day are never stored.
            series.marked_ms = inf
        if marks := self.marks.pop(name, None):
            series.marks, series.marked_ms = marks, marks[-3]
        return series

    @_step
    def remove_queue(self, name: str) -> None:
        """Remove a queue and its series."""
        self.series.pop(name, None)

    @_step
    def resume(self, at_ms: int) -> None:
        """Mark a gap that ends now: no rate spans it."""
        oldest_ms = self.times_ms[0] if self.times_ms else at_ms
        self.gaps_ms = [*(gap_ms for gap_ms in self.gaps_ms if oldest_ms < gap_ms < at_ms), at_ms]
        if self.totals and self.totals[-1].ready is not None:
            self.add_totals(TotalsPoint(self.totals[-1].at_ms + 1, None, None, None, None, None))

    def reference(self, at_ms: int, span_ms: int) -> Reference | None:
        """Return the bucket of about ``span_ms`` ago, or the oldest one after the last gap; None if there is none."""
        first = bisect_left(self.times_ms, self.gaps_ms[-1]) if self.gaps_ms else 0
        wanted = bisect_right(self.times_ms, at_ms - span_ms) - 1
        index = max(first, wanted)
        if index >= len(self.times_ms):
            return None
        # Without a later bucket, the one that the next poll finds may be it.
        next_ms = self.times_ms[index + 1] if index + 1 < len(self.times_ms) else at_ms - span_ms
        return Reference(index, self.times_ms[index], next_ms + span_ms)

    def rates(self, name: str, span_ms: int) -> Rates | None:
        """Return a queue's rates over the last ``span_ms``, or up to twice as long if polls are far apart.

        None if it was not polled that long, or if the span has a gap or a change of this program.
        """
        series = self.series.get(name)
        if series is None or not self.times_ms:
            return None
        reference = self.reference(self.times_ms[-1], span_ms)
        last = series.at(len(self.times_ms) - 1)
        earlier = None if reference is None else series.at(reference.bucket)
        if last is None or earlier is None or not span_ms <= last.at_ms - earlier.at_ms <= 2 * span_ms:
            return None
        return None if series.was_changed(earlier.at_ms, last.at_ms) else last.rates_since(earlier)

    def arrivals(self, name: str, first: int = 0) -> list[float | None]:
        """Return a queue's arrivals per second, bucket by bucket from the index ``first`` on."""
        return [point.arrivals_s for point in self.queue(name, first)]

    def depths(self, name: str, first: int = 0) -> list[float | None]:
        """Return how many messages a queue held, bucket by bucket from the index ``first`` on."""
        series = self.series.get(name)
        return [] if series is None else [None if isnan(depth) else depth for depth in series.depth[first:]]

    def flights(self, name: str) -> list[FlightTimes]:
        """Return the samples of a queue's messages in flight, oldest first."""
        series = self.series.get(name)
        return [] if series is None or series.flights is None else list(series.flights)

    def sums(self, name: str, at_ms: int, sent: int, received: int, created_ms: int | None = None) -> list[Sums]:
        """Return what was sent and received in about the last minute, hour and day, from the counters of now.

        A span is a little longer than that, or as long as the counters are known; spans that are the same are left
        out. Nothing from before the queue was created counts: before ``created_ms``, when both counters were 0, or when
        counters were higher.
        """
        series = self.series.get(name)
        if series is None:
            return []
        stored = zip(series.marks[::3], series.marks[1::3], series.marks[2::3], strict=True)
        buckets = zip(self.times_ms, series.totalsent, series.totalrecv, strict=False)
        begin_ms = 0 if created_ms is None or created_ms > at_ms else created_ms
        known = [(begin_ms, 0, 0)] if begin_ms else []
        known += [
            (int(at), int(one), int(other))
            for at, one, other in sorted([*stored, *buckets])
            if not isnan(one) and at >= begin_ms
        ]
        found: list[Sums] = []
        before = sent, received
        since: list[tuple[int, int, int]] = []
        for at, *counters in reversed(known):
            if counters[0] > before[0] or counters[1] > before[1]:
                break
            before = counters[0], counters[1]
            since.append((at, *before))
        for span_ms in SUM_SPANS_MS:
            # The creation may be much longer ago.
            near = [each for each in since if each[0] != begin_ms or at_ms - begin_ms <= span_ms * _SPAN_EXCESS]
            if not near:
                continue
            at, one, other = next((each for each in near if each[0] <= at_ms - span_ms), near[-1])
            if at < at_ms and (not found or found[-1].span_ms != at_ms - at):
                found.append(Sums(at_ms - at, sent - one, received - other, at <= at_ms - span_ms))
        return found

    def returns(self, name: str, span_ms: int = BUCKETS_MS) -> Returns | None:
        """Return how many messages of an RSMQ queue came back in about the last ``span_ms``; None if it is not known.

        What is ready, and was not ready before, was sent or came back. A delayed message that becomes due looks the
        same, and all that were hidden at the beginning may be such, so that the number is a lower bound. It counts
        since the last change of this program.
        """
        series = self.series.get(name)
        if series is None or not self.times_ms:
            return None
        last_ms = self.times_ms[-1]
        from_ms = max((last_ms - span_ms, *(series.changed_ms or ())))
        samples = series.between(from_ms - 1, last_ms + 1)
        if not samples:
            return None
        now = first = samples[-1]
        back = 0
        for sample in reversed(samples):
            if sample.totalsent > first.totalsent or sample.totalrecv > first.totalrecv:
                # It was created again meanwhile.
                break
            first = sample
            # Without those that came back, what was there and was sent, and is not ready now, was received once.
            once = sample.depth + now.totalsent - sample.totalsent - now.ready
            back = max(back, now.totalrecv - sample.totalrecv - once)
        return Returns(now.at_ms - first.at_ms, now.totalrecv - first.totalrecv, back)

    def day_of(self, name: str) -> Iterator[QueuePoint]:
        """Iterate over a queue's buckets of a day, oldest first; over those of an hour, if no more is kept of it."""
        yield from self.day.queue(name)
        yield from self.queue(name)

    def queue(self, name: str, first: int = 0) -> Iterator[QueuePoint]:
        """Iterate over a queue's buckets from the index ``first`` on, oldest first."""
        series = self.series.get(name)
        if series is None:
            return
        count = len(series.counters) // COUNTERS
        before = series.at(first - 1) if 0 < first <= count else None
        for index, at_ms in enumerate(self.times_ms[first:count], first):
            sample = series.at(index)
            if sample is None:
                yield QueuePoint(at_ms, None, None, None, None, None)
            else:
                earlier = before
                if before is None or self._is_gap(before.at_ms, at_ms) or series.was_changed(before.at_ms, at_ms):
                    earlier = None
                rates = None if earlier is None else sample.rates_since(earlier)
                net_s = None if earlier is None else sample.net_since(earlier)
                arrivals_s, deletes_s, receives_s = rates or (None, None, None)
                ready, hidden = series.peaks_at(index) or (sample.ready, sample.depth - sample.ready)
                yield QueuePoint(at_ms, ready, hidden, arrivals_s, deletes_s, receives_s, net_s)
            before = sample

    def _is_gap(self, earlier_ms: int, later_ms: int) -> bool:
        """Return whether polls failed between two moments."""
        return bisect_right(self.gaps_ms, earlier_ms) < bisect_right(self.gaps_ms, later_ms)
