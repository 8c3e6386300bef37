"""Drain: whether and when the ready messages of a queue are gone, by its rates and the batches that fill it."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import isnan, sqrt
from operator import sub
from typing import NamedTuple

from rsmq_tui.monitor.model import Drain, Verdict
from rsmq_tui.monitor.tracking.series import BUCKET_MS, BUCKETS_MS, COUNTERS, QueueSeries, Rates, Sample
from rsmq_tui.monitor.tracking.verdicts import BATCH_SAMPLES_MIN, OK, Judgement, Thresholds

# A change of the depth up to this many items per second counts as steady.
_STEADY_S = 0.02
# So does a growth that is no larger than this many standard deviations of what comes and goes at random in a minute.
_STEADY_DEVIATIONS, _STEADY_SPAN_S = 2, 60
# Rates of about this span show that the last minute says nothing of the next one: counts that differ by more than this
# many standard deviations of what comes at random.
_TURN_S = 10
_TURN_DEVIATIONS = 3
# A queue must have fallen in that many buckets.
_FALLS_MIN = 3
# A queue that has shrunk by this much faster lately than before has only begun to: how fast is not known yet.
_BEGINS = 3.5
# By how many standard deviations a batch raises the depth; and how many times the median deviation one of these is.
_BATCH_DEVIATIONS = 5
_DEVIATION_OF_MEDIAN = 1.5

_DRAINS = {Verdict.STALLED: Drain.STALLED, Verdict.GROWING: Drain.GROWING}
_USUAL = Thresholds()


def drain_rates(recent: Rates, latest: Rates | None) -> Rates:
    """Return the rates by which a queue drains.

    They are those of the last minute, ``recent``, or the ``latest`` ones, of about ten seconds, if arrivals have
    clearly fallen since, and the queue clearly shrinks: after a burst, the minute would include the burst.
    """
    # Fast path: most queues have not turned.
    if latest is None or latest.arrivals_s >= recent.arrivals_s or latest.deletes_s <= latest.arrivals_s:
        return recent
    usual, arrived = recent.arrivals_s * _TURN_S, latest.arrivals_s * _TURN_S
    has_fallen = usual - arrived > _TURN_DEVIATIONS * sqrt(usual)
    return latest if has_fallen and clearly_shrinks(latest) else recent


def clearly_shrinks(latest: Rates) -> bool:
    """Return whether a queue shrinks by more than by chance, by its rates over about ten seconds."""
    shrunk, moved = latest.deletes_s - latest.arrivals_s, latest.deletes_s + latest.arrivals_s
    return shrunk > 0 and shrunk * _TURN_S > _TURN_DEVIATIONS * sqrt(moved * _TURN_S)


def falls_from(samples: Sequence[Sample]) -> Sample:
    """Return the sample since which the depth of a queue tells how it drains: the first one, or the highest since.

    ``samples`` are of the last minute, the last one of now. It counts from the highest depth if it has clearly fallen
    since: in at least ``_FALLS_MIN`` buckets, and by more than by chance, as the changes from bucket to bucket tell.
    """
    highest = max(range(len(samples)), key=lambda index: (samples[index].depth, index))
    falls = [one.depth - other.depth for one, other in pairwise(samples[highest:-1])]
    if len(falls) < _FALLS_MIN:
        return samples[0]
    fall = sum(falls)
    variance = max(fall, sum((each - fall / len(falls)) ** 2 for each in falls))
    return samples[highest] if fall > _TURN_DEVIATIONS * sqrt(variance) else samples[0]


class Batches(NamedTuple):
    """The batches that fill a queue: the samples just before the first and the last one, and when the next is due."""

    first: Sample
    last: Sample
    due_ms: int

    @property
    def change_s(self) -> float:
        """The change of the depth per second, over whole batches."""
        return 1000 * (self.last.depth - self.first.depth) / (self.last.at_ms - self.first.at_ms)

    def left(self, at_ms: int, drain_s: float | None) -> int:
        """Return how many ready messages the next batch will find, at the rates of whole batches.

        0 if the last one found none, or if ``drain_s`` says that the queue drains before the next one.
        """
        if drain_s is not None and at_ms + 1000 * drain_s <= self.due_ms:
            return 0
        return max(0, round(self.last.ready + min(0.0, self.change_s) * (at_ms - self.last.at_ms) / 1000))


def batches_of(series: QueueSeries, from_ms: int, at_ms: int) -> Batches | None:
    """Return the batches of the last ``BUCKETS_MS``, but not before ``from_ms``; None without two, or if they are over.

    A batch is a rise from one bucket to the next by more than chance: by more than what the other buckets differ by,
    and what comes and goes at random. A change of this program is none.
    """
    times_ms = series.times_ms
    start = bisect_left(times_ms, max(from_ms, at_ms - BUCKETS_MS, *(series.changed_ms or ())))
    depths = series.counters[COUNTERS * start :: COUNTERS]
    changes = list(map(sub, depths[1:], depths))
    # Fast path: most queues only fall or rise by little. Without a sample, a depth is NaN.
    if len(changes) < BATCH_SAMPLES_MIN or isnan(sum(changes)) or max(changes) < _BATCH_DEVIATIONS:
        return None
    usual = sorted(changes)[len(changes) // 2]
    spread = sorted(abs(change - usual) for change in changes)[len(changes) // 2]
    chance = max(_DEVIATION_OF_MEDIAN * spread, sqrt(sum(map(abs, changes)) / len(changes)))
    least = max(0.0, usual + _BATCH_DEVIATIONS * chance)
    before = [
        start + index
        for index, change in enumerate(changes)
        # What takes several buckets is one batch.
        if change > least and not (index and changes[index - 1] > least)
    ]
    if len(before) < 2:
        return None
    begun_ms = [times_ms[index] for index in before]
    longest_ms = max(later - earlier for earlier, later in pairwise(begun_ms))
    due_ms = begun_ms[-1] + longest_ms
    first, last = series.at(before[0]), series.at(before[-1])
    # A batch is seen in the bucket after it, and may be one bucket late.
    if first is None or last is None or at_ms > due_ms + 2 * BUCKET_MS:
        return None
    return Batches(first, last, due_ms)


def drain_of(
    ready: int,
    recent: Rates | None,
    latest: Rates | None,
    judged: Judgement,
    limits: Thresholds = _USUAL,
    backlog_s: float | None = None,
) -> tuple[Drain, float | None]:
    """Return whether the ready messages clear, and in how many seconds at the current rates.

    ``recent`` are the rates of the last minute, or since ``falls_from``, ``latest`` those of about ten seconds;
    ``drain_rates`` are those that determine the time. In the latest ones, the queue must shrink too. Growth below the
    thresholds counts as steady. ``backlog_s`` is ``Sample.backlog_since`` over the last minute, per second: messages
    that wait for a delay of their own are no growth.
    """
    if recent is None:
        return net_drain_of(ready, None, None, judged, limits, was_taken=False)
    recent = drain_rates(recent, latest)
    latest_s = None if latest is None else latest.arrivals_s - latest.deletes_s
    share_s = limits.growing_share * recent.arrivals_s
    # If as many came as were deleted, both would differ by this much from minute to minute.
    chance_s = _STEADY_DEVIATIONS * sqrt(2 * min(recent.arrivals_s, recent.deletes_s) / _STEADY_SPAN_S)
    net_s, was_taken = recent.arrivals_s - recent.deletes_s, recent.deletes_s > 0
    if backlog_s is not None:
        net_s = min(net_s, max(0.0, backlog_s))
    return net_drain_of(ready, net_s, latest_s, judged, limits, was_taken=was_taken, share_s=share_s, chance_s=chance_s)


def net_drain_of(
    ready: int,
    net_s: float | None,
    latest_s: float | None,
    judged: Judgement,
    limits: Thresholds,
    *,
    was_taken: bool,
    share_s: float = 0.0,
    chance_s: float = 0.0,
) -> tuple[Drain, float | None]:
    """As ``drain_of``, for a backlog whose depth changes by ``net_s`` per second.

    ``latest_s`` is the change over a shorter span: a queue that has grown and shrinks now may do either, and one that
    has only begun to shrink does so faster than ``net_s`` says. ``was_taken`` is True if an item was taken lately: a
    constant depth is steady only then. A change of at most ``share_s`` counts as steady too, and so does a growth of at
    most ``chance_s``.
    """
    known = _drain_by_verdict(ready, judged)
    if known is not None:
        return known, None
    if net_s is None:
        return Drain.UNKNOWN, None
    if net_s > max(share_s, limits.growing_s):
        if latest_s is not None and latest_s < 0:
            return Drain.UNKNOWN, None
        if net_s > chance_s:
            return Drain.GROWING, None
    elif net_s < -max(share_s, _STEADY_S):
        is_known = latest_s is not None and _BEGINS * net_s < latest_s < 0
        return (Drain.CLEARS, ready / -net_s) if is_known else (Drain.UNKNOWN, None)
    return (Drain.STEADY if was_taken else Drain.UNKNOWN), None


def _drain_by_verdict(ready: int, judged: Judgement) -> Drain | None:
    """Return the drain that follows from the verdict alone: a queue that grows, or may grow, has no drain time."""
    if judged is OK:
        return None if ready else Drain.EMPTY
    if ready == 0:
        return Drain.EMPTY
    if judged.verdict is Verdict.WATCHING:
        return Drain.UNKNOWN
    is_over = judged.pending_since_ms is not None
    return None if is_over else _DRAINS.get(judged.verdict)
