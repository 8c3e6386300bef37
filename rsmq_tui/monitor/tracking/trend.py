"""The last hour of all queues and of their sums, and the last day of some queues.

Each queue has a ``QueueSeries``. Of what is older than an hour, ``DayTrend`` keeps values for each ``DAY_BUCKET_MS``,
of ``DAY_QUEUES`` queues at most: 7 MB.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from itertools import islice
from math import inf, isnan, nan
from operator import methodcaller
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from rsmq_tui.monitor.tracking.series import (
    BUCKET_MS,
    BUCKETS,
    BUCKETS_MS,
    COARSE_MS,
    COUNTERS,
    TREND_MS,
    FlightTimes,
    QueueSeries,
    Rates,
    Sample,
    higher,
)

COARSE_BUCKETS = 50
DAY_MS = 86_400_000
DAY_BUCKET_MS = 300_000
DAY_BUCKETS = (DAY_MS - TREND_MS) // DAY_BUCKET_MS
DAY_QUEUES = 1_000
SUM_SPANS_MS = (60_000, 3_600_000, DAY_MS)
# A sum since the creation of a queue is one of a span that is at most this many times shorter.
_SPAN_EXCESS = 1.1
# This many sums are kept unchanged; of older ones, the highest of each span of this length.
TOTALS_FINE = 600
TOTALS_COARSE_MS = 20_000


class ReferenceBucket(NamedTuple):
    """The earlier bucket of a rate: its index and its time; from ``until_ms`` on it may be another one."""

    bucket: int
    at_ms: int
    until_ms: int


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


class TotalsPoint(NamedTuple):
    """The sums over all queues at one poll; rates are None before the second poll, and after a gap."""

    at_ms: int
    ready: int | None
    hidden: int | None
    arrivals_s: float | None
    deletes_s: float | None
    receives_s: float | None

    def merged(self, later: "TotalsPoint") -> "TotalsPoint | None":
        """Return the higher values of two polls, at the time of the first one; None if one is a gap."""
        if self.ready is None or later.ready is None:
            return None
        return TotalsPoint(self.at_ms, *map(higher, self[1:], later[1:]))  # type: ignore[arg-type]


def _merge(points: "deque[TotalsPoint]", index: int, every_ms: int) -> None:
    """Let the point at an index be a part of one before it, if both are of the same ``every_ms``.

    At most three of them stay, although the server may have come and gone all that time: a gap, what was polled, a gap.
    """
    point = points[index]
    for before in range(index - 1, max(-1, index - 3), -1):
        known = points[before]
        if known.at_ms // every_ms != point.at_ms // every_ms:
            return
        if (merged := known.merged(point)) is not None:
            points[before] = merged
        if merged is not None or known.ready is point.ready is None:
            del points[index]
            return
        if point.ready is None:
            return


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
    """A bucket of a ``DayTrend``: ``DAY_VALUES`` numbers of each queue, NaN for unknown; ``names`` has the indexes."""

    at_ms: int
    names: dict[str, int]
    values: "array[float]"


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
        self.totals.append(point)
        _merge(self.totals, len(self.totals) - 1, DAY_BUCKET_MS)
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
                values.extend([nan] * DAY_VALUES)
                del values[: -DAY_VALUES * DAY_BUCKETS]
            if point is not None:
                self._merge(values, point)

    @property
    def last(self) -> DayBucket | None:
        """The last bucket, to be kept for another run; None if there is none."""
        if not self._times_ms:
            return None
        names, values = {name: index for index, name in enumerate(sorted(self._queues))}, array("f")
        for name in names:
            values.extend(self._queues[name][-DAY_VALUES:])
        return DayBucket(self._times_ms[-1], names, values)

    def restore(self, buckets: Iterable[DayBucket]) -> None:
        """Continue after the buckets of an earlier run."""
        self._earlier.extend(buckets)

    def queue(self, name: str) -> Iterator[QueuePoint]:
        """Iterate over a queue's buckets, oldest first; nothing for a queue that is not followed."""
        for bucket in self._earlier:
            if (index := bucket.names.get(name)) is not None:
                yield _day_point(bucket.at_ms, bucket.values, index)
        values = self._queues.get(name, array("f"))
        count = len(values) // DAY_VALUES
        for index, at_ms in enumerate(self._times_ms[-count:] if count else ()):
            yield _day_point(at_ms, values, index)

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


def _day_point(at_ms: int, values: "array[float]", index: int) -> QueuePoint:
    found = values[index * DAY_VALUES : (index + 1) * DAY_VALUES]
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

    def successor(self) -> "Trend":
        """Return an empty one that keeps the same of each queue."""
        trend = Trend()
        trend.is_charted, trend.followed = self.is_charted, self.followed.copy()
        return trend

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
        """Store the times of a queue's messages in flight."""
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
        if index > 0:
            _merge(totals, index, TOTALS_COARSE_MS)
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

    def reference(self, at_ms: int, span_ms: int) -> ReferenceBucket | None:
        """Return the bucket of about ``span_ms`` ago, or the oldest one after the last gap; None if there is none."""
        first = bisect_left(self.times_ms, self.gaps_ms[-1]) if self.gaps_ms else 0
        wanted = bisect_right(self.times_ms, at_ms - span_ms) - 1
        index = max(first, wanted)
        if index >= len(self.times_ms):
            return None
        # Without a later bucket, the one that the next poll finds may be it.
        next_ms = self.times_ms[index + 1] if index + 1 < len(self.times_ms) else at_ms - span_ms
        return ReferenceBucket(index, self.times_ms[index], next_ms + span_ms)

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
        """Return the times of a queue's messages in flight, oldest first."""
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

    def returns(self, name: str) -> Returns | None:
        """Return how many messages of an RSMQ queue came back in about the last ``BUCKETS_MS``; None if unknown.

        What is ready, and was not ready before, was sent or came back. A delayed message that becomes due looks the
        same, and all that were hidden at the beginning may be such, so that the number is a lower bound. It counts
        since the last change of this program, and since more messages came than were sent: then others were moved here.
        """
        series = self.series.get(name)
        if series is None or not self.times_ms:
            return None
        last_ms = self.times_ms[-1]
        from_ms = max((last_ms - BUCKETS_MS, *(series.changed_ms or ())))
        samples = series.between(from_ms - 1, last_ms + 1)
        if not samples:
            return None
        now = first = samples[-1]
        back = 0
        for sample in reversed(samples):
            if sample.totalsent > first.totalsent or sample.totalrecv > first.totalrecv:
                # It was created again meanwhile.
                break
            if first.depth - sample.depth > first.totalsent - sample.totalsent:
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
