"""What trackers of all kinds keep of a queue's past: earlier samples, troubles, and since when it is watched."""

from rsmq_tui.monitor.series import QueueSeries, Reference, Sample
from rsmq_tui.monitor.snapshot import Verdict
from rsmq_tui.monitor.verdicts import Thresholds, Troubles

# The buckets for rates, for the drain, and for growth over the whole of its span and over the latter half.
References = tuple[Reference | None, Reference | None, Reference | None, Reference | None]


# A queue that did not grow over so long does not: whatever begins now takes ``growing_ms`` to be told.
MEASURED_MS = 10_000


class Earlier:
    """What trackers of all kinds keep of a queue: its series, its first sample since the last break, its troubles.

    It also knows since when the queue is watched, and whether that is enough to tell that it does not grow.
    """

    __slots__ = (
        "_earlier",
        "_first",
        "_growth_known_ms",
        "_is_resumed",
        "_may_grow",
        "_thresholds",
        "_troubles",
        "_watched_from_ms",
        "series",
        "stale_from_ms",
    )

    def __init__(self, series: QueueSeries, thresholds: Thresholds) -> None:
        self.series = series
        self.stale_from_ms = 0
        self._thresholds = thresholds
        self._troubles = Troubles()
        self._first: Sample | None = None
        # What each reference says of this queue, and of which bucket that is.
        self._earlier: list[tuple[int, Sample] | None] = [None] * 4
        self._is_resumed = False
        self._watched_from_ms = 0
        # When it will be known that the queue does not grow; 0 where it is.
        self._growth_known_ms = 0
        self._may_grow = False

    def resume(self) -> None:
        """Tell that polls failed until now."""
        self._is_resumed = True
        self.stale_from_ms = 0

    def _watch_from(self, from_ms: int) -> None:
        """Begin to watch: whether the queue grew before is not known."""
        self._watched_from_ms = from_ms
        self._growth_known_ms = from_ms + self._thresholds.growing_ms
        self._may_grow = False
        self._troubles.forget(Verdict.GROWING)

    def _growth_known(self, sample: Sample, measured_ms: int, *, grows: bool) -> int:
        """Return when it is known whether the queue grows, 0 for now.

        It is known when the queue was watched for ``growing_ms``, and before that, when it did not grow over what was
        measured. A queue that holds too few messages for it may be told not to grow yet.
        """
        if not self._growth_known_ms:
            return 0
        limits = self._thresholds
        is_measured = measured_ms >= min(MEASURED_MS, limits.growing_ms // 2)
        if sample.at_ms >= self._growth_known_ms or (is_measured and not grows):
            self._growth_known_ms = 0
            return 0
        self._may_grow = self._may_grow or sample.depth >= limits.growing_messages
        return self._growth_known_ms if self._may_grow else 0

    def _begin_at(self, sample: Sample | None) -> None:
        """Forget the past before a sample; None where there is none."""
        self._first = sample
        self._earlier = [None] * 4

    def _sample_at(self, which: int, references: References, sample: Sample) -> Sample:
        """Return a reference's sample, or the first one for a queue that is younger than that bucket.

        Without a bucket, at the start or after a gap, it is the sample itself: no rate is made from before.
        """
        reference = references[which]
        if reference is None:
            return sample
        known = self._earlier[which]
        if known is not None and known[0] == reference.at_ms:
            return known[1]
        first = self._first or sample
        earlier = self.series.at(reference.bucket)
        if earlier is None or earlier.at_ms < first.at_ms:
            earlier = first
        self._earlier[which] = reference.at_ms, earlier
        return earlier
