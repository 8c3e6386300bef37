"""What the trackers of all kinds share: the series of a queue, its verdict, growth, forecast and memory."""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import ceil, isnan
from typing import Any, ClassVar

from rsmq_tui.monitor.messages.peek import Look
from rsmq_tui.monitor.model import Drain, QueueState, Verdict
from rsmq_tui.monitor.tracking.drain import Batches, batches_of, falls_from
from rsmq_tui.monitor.tracking.forecast import FORECAST_EVERY_MS, KNOWN_MS, WAITING_SHARE, Ages, Limit, limit_of
from rsmq_tui.monitor.tracking.series import BUCKET_MS, COUNTERS, UNKNOWN, QueueSeries, Sample
from rsmq_tui.monitor.tracking.trend import ReferenceBucket, Trend
from rsmq_tui.monitor.tracking.verdicts import GROWTH_SAMPLES_MIN, NO_GROWTH, Growth, Thresholds, Troubles, last_index
from rsmq_tui.protocol import Row

# Rates span about ten seconds, the drain estimate a minute.
RATE_SPAN_MS = 10_000
DRAIN_SPAN_MS = 60_000
# After every time of a server: a state that only a new row changes is stale from then on.
FOREVER_MS = 1 << 62

# The buckets for rates, for the trend of the drain, and for growth.
ReferenceBuckets = tuple[ReferenceBucket | None, ReferenceBucket | None, ReferenceBucket | None]
_FOR_RATES, _FOR_TREND, _FOR_GROWTH = range(3)

# A queue that cannot be read; trackers add what is known of it.
# fmt: off
BROKEN = QueueState(
    name="", kind="", depth=None, ready=None, hidden=None, oldest_ready_ms=None, vt_s=None, delay_s=None, maxsize=None,
    created_ms=None, modified_ms=None, totalsent=None, totalrecv=None, arrivals_s=None, deletes_s=None,
    receives_s=None, poison=0, highest_rc=0, verdict=Verdict.BROKEN, since_ms=None, drain=Drain.UNKNOWN, drain_s=None,
    broken=None, problems=(),
)
# fmt: on

# A queue that did not grow over this span is not growing: growth that starts now takes ``growing_ms`` to show.
MEASURED_MS = 10_000


class Tracker(ABC):
    """Turns one queue's raw rows into states, one poll after another.

    It keeps the queue's ``series``, the first sample since the last gap, and the troubles. It knows when monitoring of
    the queue began, and whether that is long enough to rule out growth. ``stale_from_ms`` is when the state changes
    even if the row does not. ``look`` holds the results of looks; it is None for a kind that is not looked at.
    ``own_change_ms`` is the time since the last poll if a change of this program may have changed the row meanwhile,
    otherwise 0. ``position`` is the index of the queue in the last poll. ``memory_limit`` is when the memory of the
    server will be full. ``NUMBERS`` is how many numbers are kept of it for the next start.
    """

    NUMBERS: ClassVar[int]
    __slots__ = (
        "_batched",
        "_changed",
        "_earlier",
        "_fallen",
        "_first",
        "_grown",
        "_growth_known_ms",
        "_has_delay",
        "_is_idle_longer",
        "_is_resumed",
        "_limit",
        "_limit_due_ms",
        "_may_grow",
        "_name",
        "_place",
        "_thresholds",
        "_troubles",
        "_watched_from_ms",
        "look",
        "memory_limit",
        "own_change_ms",
        "position",
        "row",
        "sample",
        "series",
        "stale_from_ms",
        "state",
    )

    def __init__(self, name: str, series: QueueSeries, thresholds: Thresholds, place: str) -> None:
        self.series = series
        self.stale_from_ms = 0
        self.row: Row | None = None
        self.sample: Sample | None = None
        self.state: QueueState | None = None
        self.look: Look | None = None
        self.own_change_ms = 0
        self.position = 0
        # The last sample that a change of this program may have affected.
        self._changed: Sample | None = None
        self.memory_limit: Limit | None = None
        self._name = name
        self._place = place
        self._thresholds = thresholds
        self._troubles = Troubles()
        self._first: Sample | None = None
        # Whether messages are delayed when they are sent: those are no backlog, so the ready ones are what grows.
        self._has_delay = False
        # For each reference: the time of its bucket, and this queue's sample there. None while the queue rests, which
        # most of many queues do.
        self._earlier: list[tuple[int, Sample] | None] | None = None
        self._is_resumed = False
        # Whether the queue was already idle before monitoring, for an unknown time.
        self._is_idle_longer = False
        self._watched_from_ms = 0
        # When it will be known whether the queue grows; 0 if it is known.
        self._growth_known_ms = 0
        self._may_grow = False
        # The growths that were measured since the last bucket, by their kind, after the time of that bucket.
        self._grown: tuple[list[int], dict[str, Growth]] | None = None
        # The last sample that ``_falls_from`` returned, after the buckets that it was found from.
        self._fallen: tuple[tuple[Any, ...], Sample] | None = None
        # The batches of the last minutes, after the time of the bucket that they were found at.
        self._batched: tuple[int, Batches | None] | None = None
        self._limit: Limit | None = None
        self._limit_due_ms = 0

    @abstractmethod
    def update(self, row: Row, at_ms: int, references: ReferenceBuckets) -> QueueState:
        """Return the state after a poll's row."""

    def resume(self) -> None:
        """Note that polls failed until now."""
        self._is_resumed = True
        self.stale_from_ms = 0

    def remember(self) -> tuple[int, ...]:
        """Return ``NUMBERS`` numbers for ``restore``."""
        if self.sample is None:
            return (UNKNOWN,) * self.NUMBERS
        first_ms = (self._first or self.sample).at_ms
        numbers = (*self.sample, self._is_idle_longer, first_ms, *self._remember())
        assert len(numbers) == self.NUMBERS, "otherwise nothing of it would be restored"
        return numbers

    def remember_more(self) -> Any:
        """Return further values for ``restore``, as JSON can hold them; most queues need none."""
        return self._troubles.remember()

    def restore(self, numbers: "array[int]", more: Any) -> None:
        """Continue from the state of an earlier run, as if polls had failed since: call ``resume`` afterwards.

        Raises ``ValueError`` or ``TypeError`` if ``more`` is not valid.
        """
        at_ms, depth, ready, totalsent, totalrecv, is_idle_longer, first_ms, *rest = numbers
        if at_ms == UNKNOWN:
            return
        self._restore(rest, more)
        self.sample = self.series.sample(at_ms, depth, ready, totalsent, totalrecv)
        kept = bisect_left(self.series.times_ms, first_ms)
        first = self.series.at(kept) if kept < len(self.series.times_ms) else None
        self._first = first or self.sample
        self._is_idle_longer = bool(is_idle_longer)

    @abstractmethod
    def _remember(self) -> tuple[int, ...]:
        """Return the numbers that only queues of this kind have."""

    @abstractmethod
    def _restore(self, numbers: list[int], more: Any) -> None:
        """Take over what is known of a queue of this kind."""

    def _watch_from(self, from_ms: int, *, has_grown: bool = False) -> None:
        """Start monitoring: whether the queue grew before is unknown.

        If it grew until polls failed, and holds no fewer messages now (``has_grown``) or grew in batches, it may turn
        out to still grow: then it has grown all the time.
        """
        limits = self._thresholds
        if Verdict.GROWING in self._troubles.episodes:
            has_grown = has_grown or self._batch_growth(from_ms).share >= 1
        self._watched_from_ms = from_ms
        self._growth_known_ms = from_ms + limits.growing_ms
        self._may_grow = False
        self._limit_due_ms = 0
        self._troubles.suspend(Verdict.GROWING, self._growth_known_ms + limits.clear_ms if has_grown else None)

    def _growth_known(self, sample: Sample, measured_ms: int, *, grows: bool) -> int:
        """Return when it is known whether the queue grows, 0 for now.

        It is known after ``growing_ms`` of monitoring, or earlier if the queue did not grow over the measured span, or
        holds too few messages to have grown.
        """
        if not self._growth_known_ms:
            return 0
        limits = self._thresholds
        is_measured = measured_ms >= min(MEASURED_MS, limits.growing_ms // 2)
        if is_measured and not grows:
            self._growth_known_ms = 0
            return 0
        if sample.at_ms >= self._growth_known_ms:
            times_ms = self.series.times_ms
            # Without the sample of now.
            if len(times_ms) - bisect_left(times_ms, self._watched_from_ms) >= GROWTH_SAMPLES_MIN - 1:
                self._growth_known_ms = 0
                return 0
            # Polls are so far apart that it takes more of them.
            self._growth_known_ms = sample.at_ms + BUCKET_MS
        self._may_grow = self._may_grow or self._backlog(sample) >= limits.growing_messages
        return self._growth_known_ms if self._may_grow else 0

    def _limit_at(
        self, sample: Sample, due_ms: int | None, *, is_still: bool, drain_s: float | None, ages: Ages | None = None
    ) -> Limit | None:
        """Return the limit that the queue reaches first; of a queue that moves, as of the last ``FORECAST_EVERY_MS``.

        The first ready message became due at ``due_ms``, None for unknown; ``drain_s`` and ``ages`` as in ``limit_of``.
        """
        at_ms, limits = sample.at_ms, self._thresholds
        age_ms = None if due_ms is None else at_ms - due_ms
        # Fast path: most queues have no limit of their depth, and no message that waits for long.
        is_waiting = age_ms is not None and age_ms >= WAITING_SHARE * limits.aged_ms
        if not (limits.depth_limit or is_waiting or self.memory_limit):
            self._limit = None
        elif is_still or at_ms >= self._limit_due_ms:
            self._limit_due_ms = at_ms if is_still else at_ms + FORECAST_EVERY_MS
            self._limit = limit_of(
                self.series,
                at_ms,
                self._known_from_ms(sample),
                depth=sample.depth,
                depth_limit=limits.depth_limit,
                age_ms=age_ms,
                age_limit_ms=limits.aged_ms,
                is_still=is_still,
                ages=ages,
                memory=self.memory_limit,
                drain_s=drain_s,
            )
        return self._limit

    def _forecast_due_ms(self, sample: Sample, due_ms: int) -> tuple[int, ...]:
        """Return when the forecast of a queue that is still may change; its first message became due at ``due_ms``."""
        return due_ms + ceil(WAITING_SHARE * self._thresholds.aged_ms), self._known_from_ms(sample) + KNOWN_MS

    def _known_from_ms(self, sample: Sample) -> int:
        """Return from when on the samples of the series may be compared."""
        return max(self._watched_from_ms, (self._first or sample).at_ms)

    def _begin_at(self, sample: Sample | None) -> None:
        """Drop the samples before this one, or all of them if it is None."""
        self._first = sample
        self._earlier = self._grown = self._fallen = self._batched = None

    def _rates_from(self, references: ReferenceBuckets, sample: Sample) -> tuple[Sample, Sample]:
        """Return the samples from which rates and the trend count: none spans a change of this program."""
        if self.own_change_ms:
            self._changed = sample
        earlier = self._sample_at(_FOR_RATES, references, sample)
        before_trend = self._sample_at(_FOR_TREND, references, sample)
        changed = self._changed
        if changed is None or changed.at_ms <= before_trend.at_ms:
            return earlier, before_trend
        return changed if changed.at_ms > earlier.at_ms else earlier, changed

    def _falls_from(self, earlier: Sample, sample: Sample) -> Sample:
        """Return what ``falls_from`` does for a queue that shrinks now, since an earlier sample; once for each bucket.

        The sample of now decides nothing: it is below that of a bucket.
        """
        buckets = earlier.at_ms, self.series.times_ms[-1:]
        if self._fallen is None or self._fallen[0] != buckets:
            between = self.series.between(earlier.at_ms, sample.at_ms)
            self._fallen = buckets, falls_from((earlier, *between, sample))
        return self._fallen[1]

    def _batches(self, sample: Sample) -> Batches | None:
        """Return the batches that fill the queue; found once for each bucket."""
        # Fast path: most queues hold few messages.
        if sample.ready < self._thresholds.growing_messages:
            return None
        known, series = self._batched, self.series
        last_ms = series.times_ms[-1] if series.times_ms else 0
        if known is None or known[0] != last_ms:
            found = None
            # Fast path: if there were none, only a rise can be one.
            if known is None or known[1] is not None or series.rises_since(known[0]):
                found = batches_of(series, self._known_from_ms(sample), sample.at_ms)
            self._batched = known = last_ms, found
        return known[1]

    def _growth(
        self, references: ReferenceBuckets, sample: Sample, *, grows: bool, created_ms: int | None = None
    ) -> Growth:
        """Return the growth over ``growing_ms``, or of batches over an hour if it is less than 1; once for each bucket.

        A queue that does not grow now may only be between two batches. ``created_ms`` is when the queue was created,
        empty, if that was shortly before monitoring began.
        """
        if not self._measures_growth(sample, grows=grows):
            return NO_GROWTH
        earlier = self._grown_from(references, sample, created_ms)
        last = self.series.times_ms[-1:]
        if self._grown is None or self._grown[0] != last:
            self._grown = last, {}
        measured = self._grown[1]
        growth = NO_GROWTH
        if earlier is not None:
            if "steady" not in measured:
                measured["steady"] = self._steady_growth(earlier, sample)
            growth = measured["steady"] if grows else measured["steady"]._replace(share=0.0)
        if growth.share < 1:
            if "batches" not in measured:
                measured["batches"] = self._batch_growth(sample.at_ms)
            found = measured["batches"]
            growth = found if found.share > growth.share else growth
        return growth

    def _grown_from(self, references: ReferenceBuckets, sample: Sample, created_ms: int | None) -> Sample | None:
        """Return the sample from which growth counts; None if the queue was not monitored for ``growing_ms``."""
        from_ms = sample.at_ms - self._thresholds.growing_ms
        earlier = self._sample_at(_FOR_GROWTH, references, sample)
        if earlier.at_ms > from_ms and created_ms is not None:
            earlier = Sample(created_ms, 0, 0, 0, 0)
        return earlier if earlier.at_ms <= from_ms else None

    def _steady_growth(self, earlier: Sample, sample: Sample) -> Growth:
        """Return the growth since an earlier sample."""
        # Before the first sample, buckets may hold those of another queue of that name.
        after_ms = max(earlier.at_ms, (self._first or sample).at_ms - 1)
        samples = [earlier, *self.series.between(after_ms, sample.at_ms), sample]
        backlog = [self._backlog_since(earlier, each) for each in samples]
        times_ms = [each.at_ms for each in samples]
        share = self._thresholds.growth(times_ms, backlog, sample.totalsent - earlier.totalsent)
        if share >= 1 and not self._is_lasting(samples):
            share = 0.0
        return self._growth_between(share, samples, backlog)

    def _is_lasting(self, samples: Sequence[Sample]) -> bool:
        """Return whether a growth over some samples is more than chance, by those that are known from before."""
        before = self.series.between(self._known_from_ms(samples[-1]) - 1, samples[0].at_ms)
        known = [*before, *samples]
        backlog = [self._backlog_since(known[0], each) for each in known]
        return self._thresholds.is_lasting([each.at_ms for each in known], backlog, len(before))

    def _batch_growth(self, at_ms: int) -> Growth:
        """Return the growth of batches, of the buckets until a time.

        Those before a gap count too: what batches left behind then is known, and those after it take long to tell.
        """
        series, from_ms = self.series, at_ms if self._first is None else self._first.at_ms
        first = bisect_left(series.times_ms, from_ms)
        times_ms = series.times_ms[first:]
        if not times_ms:
            return NO_GROWTH
        columns = series.counters[COUNTERS * first :]
        depths, sent = columns[int(self._has_delay) :: COUNTERS], columns[2::COUNTERS]
        # Fast path: the depths of most queues tell that they do not grow. The gap of a restart has a bucket without.
        if not isnan(sum(depths)):
            share, _ = self._thresholds.growth_in_batches(times_ms, depths, sent)
            if not share and Verdict.GROWING not in self._troubles.episodes:
                return NO_GROWTH
        samples = series.between(from_ms - 1, at_ms + 1)
        if not samples:
            return NO_GROWTH
        backlog = [self._backlog_since(samples[0], each) for each in samples]
        times_ms, totals = [each.at_ms for each in samples], [each.totalsent for each in samples]
        share, start = self._thresholds.growth_in_batches(times_ms, backlog, totals)
        return self._growth_between(share, samples[start:], backlog[start:])

    def _growth_between(self, share: float, samples: Sequence[Sample], backlog: Sequence[float]) -> Growth:
        """Return a growth over some samples, with their backlog, and between which of them it was."""
        known = self._troubles.episodes.get(Verdict.GROWING)
        if share < 1 and known is None:
            # Fast path: most queues that grow for some seconds go on to shrink.
            return Growth(share)
        # The last one of the lowest, and the first one of the highest since the growth began.
        lowest = last_index(backlog, min(backlog))
        # A shorter time does not tell that it did not grow before, unless monitoring began with its creation.
        is_new = self._watched_from_ms < (self._first or samples[-1]).at_ms
        is_longer = not is_new and 0 <= samples[lowest].at_ms - self._watched_from_ms < MEASURED_MS
        # All are before it if the clock of a server was set back.
        begin = lowest if known is None else bisect_left(samples, known.since_ms, key=lambda one: one.at_ms)
        begin = min(len(backlog) - 1, begin)
        highest = backlog.index(max(backlog[begin:]), begin)
        return Growth(share, samples[lowest].at_ms, samples[lowest].depth, samples[highest].at_ms, is_longer)

    def _backlog(self, sample: Sample) -> int:
        return sample.ready if self._has_delay else sample.depth

    def _backlog_since(self, earlier: Sample, sample: Sample) -> int:
        return sample.ready - earlier.ready if self._has_delay else sample.backlog_since(earlier)

    def _measures_growth(self, sample: Sample, *, grows: bool) -> bool:
        """Return whether a queue has to be measured: it did grow, or grows now and holds enough to have grown."""
        troubles = self._troubles
        if Verdict.GROWING in troubles.episodes or troubles.may_go_on(Verdict.GROWING, sample.at_ms):
            return True
        return grows and self._backlog(sample) >= self._thresholds.growing_messages

    def _sample_at(self, which: int, references: ReferenceBuckets, sample: Sample) -> Sample:
        """Return the sample at a reference, or the first sample if the queue is younger than that bucket.

        Without a bucket, at the start or after a gap, it is ``sample`` itself: rates never span a gap.
        """
        reference = references[which]
        if reference is None:
            return sample
        if self._earlier is None:
            self._earlier = [None] * len(references)
        known = self._earlier[which]
        if known is not None and known[0] == reference.at_ms:
            return known[1]
        first = self._first or sample
        earlier = self.series.at(reference.bucket)
        if earlier is None or earlier.at_ms < first.at_ms:
            earlier = first
        self._earlier[which] = reference.at_ms, earlier
        return earlier


# A queue's name, the series of all queues, the thresholds, and the place of the queue.
NewTracker = Callable[[str, Trend, Thresholds, str], Tracker]
