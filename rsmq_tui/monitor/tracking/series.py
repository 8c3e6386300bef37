"""The last hour of one queue, bucket by bucket, and rates between two samples.

Counters are stored every ``BUCKET_MS``; of what is older than ``BUCKETS`` of these, one bucket for each ``COARSE_MS``
stays, with the highest counts of that time. So 10,000 queues fit in 70 MB. Of a queue that did not change, one bucket
is stored for all of them, and most of many queues are such. Rates are computed on reading, over the measured interval.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import chain
from math import isnan, nan
from operator import sub
from typing import ClassVar, NamedTuple, Self, overload

BUCKET_MS = 5_000
BUCKETS = 120
BUCKETS_MS = BUCKET_MS * BUCKETS
COARSE_MS = 60_000
TREND_MS = 3_600_000
# The counters of a day are stored at this distance.
MARK_MS = 1_800_000
MARKS = 49


class Rates(NamedTuple):
    """Messages per second, over the interval between two samples."""

    arrivals_s: float
    deletes_s: float
    receives_s: float


STILL = Rates(0.0, 0.0, 0.0)


class FlightTimes(NamedTuple):
    """How long messages waited, and are being worked on: of the ``sampled`` messages in flight that a look read at
    ``at_ms``.

    The percentiles are nearest-rank values in ms. A wait lasts from the send of a message to its first receive, work
    from its last receive until now; None if that is known of no message.
    """

    at_ms: int
    sampled: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    work_p50_ms: int | None
    work_p95_ms: int | None

    @property
    def is_percentile(self) -> bool:
        """False if the 95th percentiles are the highest values, as they are of few messages."""
        return self.sampled >= _PERCENTILE_MIN


# Of fewer values, the 95th percentile by nearest rank is the highest.
_PERCENTILE_MIN = 20
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
NO_SAMPLE = (nan,) * 5


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


def higher(one: float | None, other: float | None) -> float | None:
    """Return the higher of two values, or the one that is known."""
    return max((value for value in (one, other) if value is not None), default=None)


def _repeats(values: "array[float]", some: "array[float]") -> bool:
    """Return whether these are some values again and again."""
    return values.tobytes() == some.tobytes() * (len(values) // len(some))


class QueueSeries:
    """One queue's counters, bucket by bucket, aligned with the times of its ``Trend``; NaN while it did not exist."""

    __slots__ = ("_stored", "changed_ms", "flights", "marked_ms", "marks", "peaks", "times_ms")
    sample: ClassVar[type[Sample]] = Sample

    def __init__(self, times_ms: list[int]) -> None:
        self.times_ms = times_ms
        # A single bucket stands for as many equal ones as there are times. One array, because four would take half as
        # much again.
        self._stored = array("d", [nan]) * COUNTERS
        # The highest counts of what the first buckets stand for; the last ``BUCKETS`` stand for themselves. None for
        # ten minutes, and while all buckets are equal: of 100,000 queues, empty arrays would take 8 MB.
        self.peaks: array[float] | None = None
        # The last polls that a change of this program may have affected: no rate spans them. None for most queues.
        self.changed_ms: deque[int] | None = None
        # Time, totalsent and totalrecv, every half hour; NaN while the queue did not exist. ``marked_ms`` is the last
        # of these times.
        self.marks = array("d")
        self.marked_ms = 0.0
        # None until the queue was looked at: most queues of many are rarely.
        self.flights: FlightLog | None = None

    @property
    def _is_constant(self) -> bool:
        return len(self._stored) == COUNTERS

    @property
    def counters(self) -> "array[float]":
        """The counters of all buckets, not to be changed."""
        return self._stored * len(self.times_ms) if self._is_constant else self._stored

    def append(self, sample: Sample | None) -> None:
        """Append the bucket of the last time; None for a queue that could not be read."""
        at_ms, *counters = sample or NO_SAMPLE
        if not self._is_constant or self._stored.tolist() != counters:
            if self._is_constant:
                self.fill(self._stored * (len(self.times_ms) - 1))
            self._stored.extend(counters)
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
        """Store the times of messages in flight for the chart; of older ones, one a minute."""
        if self.flights is None:
            self.flights = FlightLog()
        flights = self.flights
        while flights and flights[0].at_ms < times.at_ms - TREND_MS:
            del flights[0]
        if not flights or times.at_ms - flights[-1].at_ms >= BUCKET_MS:
            flights.append(times)
        index = len(flights) - BUCKETS - 1
        if index > 0 and flights[index].at_ms - flights[index - 1].at_ms < COARSE_MS:
            merged = map(higher, flights[index - 1][1:], flights[index][1:])
            flights[index - 1] = FlightTimes(flights[index - 1].at_ms, *merged)  # type: ignore[arg-type]
            del flights[index]

    def forget(self, buckets: int) -> None:
        """Drop that many buckets, the first ones."""
        if self._is_constant:
            return
        del self._stored[: COUNTERS * buckets]
        if self.peaks is not None:
            del self.peaks[: _PEAKS * buckets]
        self._merge_equal()

    def _merge_equal(self) -> None:
        """Let one bucket stand for all if they are equal."""
        first = self._stored[:COUNTERS]
        # Fast path: those of a queue that changes mostly differ at the ends.
        if first != self._stored[-COUNTERS:] or not _repeats(self._stored, first):
            return
        depth, ready = first[:2]
        if self.peaks is None or _repeats(self.peaks, array("d", (ready, depth - ready))):
            self._stored, self.peaks = first, None

    def coarsen(self, index: int, *, merge: bool) -> None:
        """Let the bucket after those with peaks be one of them, or, to ``merge`` it, a part of the last of them."""
        if self._is_constant:
            return
        start = COUNTERS * index
        depth, ready = self._stored[start : start + 2]
        if self.peaks is None:
            self.peaks = array("d")
        peaks = self.peaks
        if not merge:
            peaks.extend((ready, depth - ready))
            return
        del self._stored[start : start + COUNTERS]
        # If either is not known, the first one stays.
        peaks[-2] = max(peaks[-2], ready)
        peaks[-1] = max(peaks[-1], depth - ready)

    def rises_since(self, at_ms: int) -> bool:
        """Return whether the depth of the last bucket is higher than another one since that time."""
        depths = self.counters[COUNTERS * bisect_left(self.times_ms, at_ms) :: COUNTERS]
        return bool(depths) and depths[-1] > min(depths)

    @property
    def last(self) -> "array[float]":
        """The counters of the last bucket."""
        return self._stored[-COUNTERS:]

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
        stored = self._stored
        # A call of ``_is_constant`` would take as long as the rest.
        if len(stored) != COUNTERS:
            stored = stored[COUNTERS * index : COUNTERS * (index + 1)]
        depth, ready, totalsent, totalrecv = stored
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
        self._stored = counters
        coarse = counters[: COUNTERS * max(0, len(self.times_ms) - BUCKETS)]
        depth, ready = coarse[::COUNTERS], coarse[1::COUNTERS]
        peaks = array("d", chain.from_iterable(zip(ready, map(sub, depth, ready), strict=True)))
        self.peaks = peaks or None

    def copy(self, times_ms: list[int]) -> Self:
        """Return a copy of what charts show, aligned with a copy of the times."""
        same = type(self)(times_ms)
        same._stored, same.peaks = self._stored[:], self.peaks and self.peaks[:]
        same.flights = self.flights and self.flights.copy()
        return same


class ListSeries(QueueSeries):
    """One list queue's counts."""

    __slots__ = ()
    sample = ListSample
