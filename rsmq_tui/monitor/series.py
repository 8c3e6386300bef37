"""The last minutes of every queue, stored compactly: 10,000 queues fit in 50 MB.

Counters are kept every few seconds. Rates are computed when they are read, over the interval that was measured.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

BUCKET_MS = 5_000
BUCKETS = 120
TOTALS_KEPT = 900
_NAN = float("nan")


class Rates(NamedTuple):
    """Messages a second, over the interval between two samples."""

    arrivals_s: float
    deletes_s: float
    receives_s: float


STILL = Rates(0.0, 0.0, 0.0)


class Reference(NamedTuple):
    """A bucket to make rates from: its place among the buckets, and its time."""

    bucket: int
    at_ms: int


class Sample(NamedTuple):
    """A queue's counters at one moment."""

    at_ms: int
    depth: int
    ready: int
    totalsent: int
    totalrecv: int

    def rates_since(self, earlier: "Sample") -> Rates | None:
        """Return the rates between two samples, or None when no time passed between them.

        Deletes are what arrived and is not there any more; restored messages may make that negative, which is 0.
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
        """Return how the depth changed a second where no rates tell it, else None."""
        return None


class ListSample(Sample):
    """A list queue's counts at one moment: nothing counts what is pushed or taken, so that the totals stay 0."""

    __slots__ = ()

    def rates_since(self, earlier: Sample) -> Rates | None:
        """Return None: what arrived and what was deleted cannot be told apart."""
        return None

    def net_since(self, earlier: Sample) -> float | None:
        """Return how the depth changed a second, or None when no time passed between the two."""
        elapsed_s = (self.at_ms - earlier.at_ms) / 1000
        return (self.depth - earlier.depth) / elapsed_s if elapsed_s > 0 else None


class QueueSeries:
    """One queue's counters, bucket by bucket, aligned with the times of its ``Trend``; NaN where it was not there."""

    __slots__ = ("depth", "ready", "times_ms", "totalrecv", "totalsent")

    def __init__(self, times_ms: list[int]) -> None:
        missed = len(times_ms)
        self.times_ms = times_ms
        self.depth = array("d", [_NAN]) * missed
        self.ready = array("d", [_NAN]) * missed
        self.totalsent = array("d", [_NAN]) * missed
        self.totalrecv = array("d", [_NAN]) * missed

    def append(self, sample: Sample | None) -> None:
        """Add a bucket."""
        self.depth.append(_NAN if sample is None else sample.depth)
        self.ready.append(_NAN if sample is None else sample.ready)
        self.totalsent.append(_NAN if sample is None else sample.totalsent)
        self.totalrecv.append(_NAN if sample is None else sample.totalrecv)

    def forget(self, buckets: int) -> None:
        """Drop the oldest buckets."""
        for values in (self.depth, self.ready, self.totalsent, self.totalrecv):
            del values[:buckets]

    def at(self, index: int) -> Sample | None:
        """Return the sample of a bucket, or None where the queue was not there or could not be read."""
        depth = self.depth[index]
        if isnan(depth):
            return None
        return Sample(
            self.times_ms[index],
            int(depth),
            int(self.ready[index]),
            int(self.totalsent[index]),
            int(self.totalrecv[index]),
        )


class ListSeries(QueueSeries):
    """One list queue's counts."""

    __slots__ = ()

    def at(self, index: int) -> ListSample | None:
        """Return the sample of a bucket, or None where the queue was not there or could not be read."""
        depth = self.depth[index]
        return None if isnan(depth) else ListSample(self.times_ms[index], int(depth), int(self.ready[index]), 0, 0)


class TotalsPoint(NamedTuple):
    """The sums over all queues at one poll; rates are None until two polls have been made, and after a gap."""

    at_ms: int
    ready: int | None
    hidden: int | None
    arrivals_s: float | None
    deletes_s: float | None
    receives_s: float | None


@dataclass(frozen=True, slots=True)
class QueuePoint:
    """One queue in one bucket; None where unknown. ``net_s`` is how a list queue's depth changed a second."""

    at_ms: int
    ready: float | None
    hidden: float | None
    arrivals_s: float | None
    deletes_s: float | None
    receives_s: float | None
    net_s: float | None = None


class Trend:
    """The recent past of all queues and of their sums; it grows as polls come in, and is read by those who draw."""

    def __init__(self) -> None:
        self.times_ms: list[int] = []
        self.totals: deque[TotalsPoint] = deque(maxlen=TOTALS_KEPT)
        self.series: dict[str, QueueSeries] = {}
        self.gaps_ms: list[int] = []

    def is_due(self, at_ms: int) -> bool:
        """Tell whether a new bucket begins."""
        return not self.times_ms or at_ms - self.times_ms[-1] >= BUCKET_MS

    def open_bucket(self, at_ms: int) -> None:
        """Begin a bucket; each queue's series must then be appended to."""
        self.times_ms.append(at_ms)
        if (surplus := len(self.times_ms) - BUCKETS) > 0:
            del self.times_ms[:surplus]
            for series in self.series.values():
                series.forget(surplus)

    def add_queue(self, name: str, kind: type[QueueSeries] = QueueSeries) -> QueueSeries:
        """Begin the series of a queue that was not there before."""
        series = self.series[name] = kind(self.times_ms)
        return series

    def remove_queue(self, name: str) -> None:
        """Forget a queue that is gone."""
        self.series.pop(name, None)

    def resume(self, at_ms: int) -> None:
        """Mark that nothing was seen until now: no rate is made across this moment."""
        oldest_ms = self.times_ms[0] if self.times_ms else at_ms
        self.gaps_ms = [*(gap_ms for gap_ms in self.gaps_ms if oldest_ms < gap_ms < at_ms), at_ms]
        if self.totals and self.totals[-1].ready is not None:
            self.totals.append(TotalsPoint(self.totals[-1].at_ms + 1, None, None, None, None, None))

    def reference(self, at_ms: int, span_ms: int) -> Reference | None:
        """Return the bucket to make rates from: the one of about ``span_ms`` ago, or the oldest after a gap."""
        first = bisect_left(self.times_ms, self.gaps_ms[-1]) if self.gaps_ms else 0
        wanted = bisect_right(self.times_ms, at_ms - span_ms) - 1
        index = max(first, wanted)
        return Reference(index, self.times_ms[index]) if index < len(self.times_ms) else None

    def arrivals(self, name: str) -> list[float | None]:
        """Return what arrived in a queue a second, bucket by bucket."""
        return [point.arrivals_s for point in self.queue(name)]

    def depths(self, name: str) -> list[float | None]:
        """Return how many messages a queue held, bucket by bucket."""
        series = self.series.get(name)
        return [] if series is None else [None if isnan(depth) else depth for depth in series.depth]

    def queue(self, name: str) -> Iterator[QueuePoint]:
        """Walk through a queue's buckets, oldest first."""
        series = self.series.get(name)
        if series is None:
            return
        before: Sample | None = None
        for index, at_ms in enumerate(self.times_ms[: len(series.depth)]):
            sample = series.at(index)
            if sample is None:
                yield QueuePoint(at_ms, None, None, None, None, None)
            else:
                earlier = None if before is None or self._is_gap(before.at_ms, at_ms) else before
                rates = None if earlier is None else sample.rates_since(earlier)
                net_s = None if earlier is None else sample.net_since(earlier)
                arrivals_s, deletes_s, receives_s = rates or (None, None, None)
                hidden = sample.depth - sample.ready
                yield QueuePoint(at_ms, sample.ready, hidden, arrivals_s, deletes_s, receives_s, net_s)
            before = sample

    def _is_gap(self, earlier_ms: int, later_ms: int) -> bool:
        """Tell whether polls failed between two moments."""
        return bisect_right(self.gaps_ms, earlier_ms) < bisect_right(self.gaps_ms, later_ms)
