"""The earlier samples of one queue that rates are made from."""

from rsmq_tui.monitor.series import QueueSeries, Reference, Sample

# The buckets for rates, for the drain and for growth.
References = tuple[Reference | None, Reference | None, Reference | None]


class Earlier:
    """What trackers of all kinds keep of a queue's past: its series, and its first sample since the last break."""

    __slots__ = ("_earlier", "_first", "series")

    def __init__(self, series: QueueSeries) -> None:
        self.series = series
        self._first: Sample | None = None
        # What each reference says of this queue, and of which bucket that is.
        self._earlier: list[tuple[int, Sample] | None] = [None, None, None]

    def _begin_at(self, sample: Sample | None) -> None:
        """Forget the past before a sample; None where there is none."""
        self._first = sample
        self._earlier = [None, None, None]

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
