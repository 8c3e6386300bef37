"""What is remembered of one recorded queue from poll to poll, of either kind."""

from collections.abc import Mapping
from typing import Any

from rsmq_tui.monitor import Drain, QueueState, Thresholds, Verdict
from rsmq_tui.monitor.series import STILL, ListSample, QueueSeries, Rates, Reference, Sample
from rsmq_tui.monitor.verdicts import Judgement, drain_of, net_drain_of


class QueuePast:
    """What is remembered of a queue.

    ``idle_from_ms`` is since when messages are ready and none was received, ``growing_from_ms`` since when the recorder
    called it growing; None where that is not so. ``seen_from_ms`` is when it was first read here.
    """

    __slots__ = ("first", "growing_from_ms", "idle_from_ms", "sample", "seen_from_ms", "series")
    sample_type: type[Sample] = Sample

    def __init__(self, series: QueueSeries, at_ms: int) -> None:
        self.series = series
        self.seen_from_ms = at_ms
        self.first: Sample | None = None
        self.sample: Sample | None = None
        self.idle_from_ms: int | None = None
        self.growing_from_ms: int | None = None

    def follow(self, sample: Sample | None, verdict: str) -> None:
        """Take a poll; no sample means that it could not be read."""
        before, self.sample = self.sample, sample
        if sample is None:
            self.first = self.idle_from_ms = self.growing_from_ms = None
            return
        at_ms = sample.at_ms
        if before is None or sample.totalsent < before.totalsent or sample.totalrecv < before.totalrecv:
            # Readable again, or deleted and created again: nothing of the past counts.
            self.first, self.idle_from_ms = sample, None
        elif sample.totalrecv > before.totalrecv:
            self.idle_from_ms = None
        if not sample.ready:
            self.idle_from_ms = None
        elif self.idle_from_ms is None:
            self.idle_from_ms = at_ms
        if verdict != Verdict.GROWING:
            self.growing_from_ms = None
        elif self.growing_from_ms is None:
            self.growing_from_ms = at_ms

    def rates(self, reference: Reference | None) -> Rates | None:
        """Return the rates since that bucket, or since the queue is known."""
        sample, first = self.sample, self.first
        if sample is None or first is None or reference is None:
            return None
        bucket, series = reference.bucket, self.series
        is_still = (
            series.totalsent[bucket] == sample.totalsent
            and series.totalrecv[bucket] == sample.totalrecv
            and series.depth[bucket] == sample.depth
        )
        if is_still and first.at_ms <= reference.at_ms < sample.at_ms:
            # Most queues of most polls.
            return STILL
        earlier = series.at(bucket)
        return sample.rates_since(first if earlier is None or earlier.at_ms < first.at_ms else earlier)

    def net_s(self, reference: Reference | None) -> float | None:
        """Return how the depth changed a second since that bucket, where no rates tell it."""
        return None

    def drain(
        self, state: QueueState, recent: Reference | None, latest: Reference | None
    ) -> tuple[Drain, float | None]:
        """Say whether the ready messages clear, as ``drain_of`` does, by what happened since these buckets."""
        return drain_of(state.ready or 0, self.rates(recent), self.rates(latest), _judged(state))

    def stalled_since_ms(self, thresholds: Thresholds) -> int | None:
        """Return when it began that nothing was received, where that is known."""
        return self.idle_from_ms

    def idles_in(self, row: Mapping[str, Any]) -> bool:
        """Tell whether an earlier row belongs to the time in which nothing was received."""
        return bool(row["ready"]) and self.sample is not None and (row["totalrecv"] or 0) == self.sample.totalrecv


class ListPast(QueuePast):
    """What is remembered of a list queue: nothing counts its arrivals and receives.

    So ``idle_from_ms`` is since when the recorder called it stalled, or leaking, whichever ``called`` says.
    """

    __slots__ = ("called",)
    sample_type = ListSample

    def __init__(self, series: QueueSeries, at_ms: int) -> None:
        super().__init__(series, at_ms)
        self.called: str | None = None

    def follow(self, sample: Sample | None, verdict: str) -> None:
        """Take a poll; no sample means that it could not be read."""
        before, self.sample = self.sample, sample
        if sample is None:
            self.first = self.idle_from_ms = self.growing_from_ms = None
            return
        at_ms = sample.at_ms
        if before is None:
            self.first = sample
        is_idle = verdict in (Verdict.STALLED, Verdict.LEAKING)
        self.idle_from_ms = _since(self.idle_from_ms if verdict == self.called else None, at_ms) if is_idle else None
        self.called = verdict
        self.growing_from_ms = _since(self.growing_from_ms, at_ms) if verdict == Verdict.GROWING else None

    def rates(self, reference: Reference | None) -> Rates | None:
        """Return None: what arrived and what was deleted cannot be told apart."""
        return None

    def net_s(self, reference: Reference | None) -> float | None:
        """Return how the depth changed a second since that bucket, or since the queue is known."""
        sample, first = self.sample, self.first
        if sample is None or first is None or reference is None:
            return None
        earlier = self.series.at(reference.bucket)
        return sample.net_since(first if earlier is None or earlier.at_ms < first.at_ms else earlier)

    def drain(
        self, state: QueueState, recent: Reference | None, latest: Reference | None
    ) -> tuple[Drain, float | None]:
        """Say whether the items clear; whether some were taken while the depth stayed the same is not recorded."""
        net_s, latest_s = self.net_s(recent), self.net_s(latest)
        return net_drain_of(state.ready or 0, net_s, latest_s, _judged(state), was_taken=False)

    def stalled_since_ms(self, thresholds: Thresholds) -> int | None:
        """Return when that began for which it was called stalled."""
        return None if self.idle_from_ms is None else self.idle_from_ms - thresholds.stalled_ms

    def idles_in(self, row: Mapping[str, Any]) -> bool:
        """Tell whether an earlier row was called the same."""
        return bool(row["verdict"] == self.called)


def _judged(state: QueueState) -> Judgement:
    return Judgement(state.verdict, state.since_ms, state.pending_since_ms, state.pending_until_ms)


def _since(before_ms: int | None, at_ms: int) -> int:
    return at_ms if before_ms is None else before_ms
