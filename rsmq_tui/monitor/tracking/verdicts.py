"""Verdicts: thresholds, conditions, when they begin and end, and the reason for each as a sentence.

``Troubles.judge`` has the conditions, on numbers that the trackers measure. A verdict begins when its condition holds.
It ends when the condition has been clearly over for ``clear_ms``: below half of the threshold (``aged``: below nine
tenths), so that a queue at a threshold does not flap. Until then the verdict stays, and its reason says when the
condition stopped holding. Only ``broken`` ends without this delay.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from math import isnan, sqrt
from operator import sub
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from rsmq_tui.monitor.model import Drain, QueueState, Verdict
from rsmq_tui.monitor.text import ago, compact, count, duration, plural, rate, seconds
from rsmq_tui.monitor.tracking.series import BUCKET_MS, BUCKETS_MS, COUNTERS, QueueSeries, Rates, Sample
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.protocol.kinds import kind_named

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
# In what time it would be good to drain a queue.
SOON_S = 600
# So many messages, and this share of those that were received, have to come back to be worth words.
_RETURNED_MIN, _RETURNED_SHARE = 5, 0.01
# Fewer deletes per second do not tell what consumers can do; a smaller surplus is not worth words.
_TELLING_S = 0.1
_MORE = 1.05
# A shorter time without a receive is not worth words.
_IDLE_LEAST_MS = 10_000
_SEEN_LEAST_MS = 1_000
# A condition is clearly over below this share of its threshold. Ages change steadily, and need less margin.
_CLEAR_SHARE = 0.5
_AGED_CLEAR_SHARE = 0.9
# Fewer samples do not tell how low a queue was: a third of them would be one, at any moment between two batches.
GROWTH_SAMPLES_MIN = 4
# So many batches, one after the other, have to leave more behind.
_BATCHES = 4
# A batch has been worked off if the queue has risen again by this share of how far it had fallen.
_BATCH_SHARE = 0.25
# Lowest depths that were as high so many times before tell that a rise to that is chance.
_SEVERAL = 2
# Fewer samples between two batches do not tell how low the queue was.
_BATCH_SAMPLES_MIN = 8
# By how many standard deviations a batch raises the depth; and how many times the median deviation one of these is.
_BATCH_DEVIATIONS = 5
_DEVIATION_OF_MEDIAN = 1.5


# Thresholds that are no durations, in words.
_THRESHOLD_WORDS: dict[str, Callable[[float], str]] = {
    "growing_messages": lambda value: f"growing by {count(int(value))} messages",
    "growing_share": lambda value: f"growing by {100 * value:g} % of arrivals",
    "poison_rc": lambda value: f"poisoned {count(int(value))} receives",
}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a queue counts as being in trouble.

    ``stalled_ms``: ready messages and no receive for this long. ``leaking_ms``: leases past their deadline, and none of
    them returned, for this long; or for twice the usual time between two returns, at most ten times this.
    ``growing_ms``: the depth rises over this span, by ``growing_messages`` or more and by more than ``growing_share``
    of what arrived. ``aged_ms``: the first ready message has been due for this long. ``poison_rc``: received this
    often. ``clear_ms``: a trouble ends when it has been clearly over for this long.

    ``depth_limit`` is how many messages a queue may hold, 0 for no limit. It starts no verdict; how long it takes to
    reach it, or ``aged_ms``, is the queue's ``limit``.
    """

    stalled_ms: int = 60_000
    growing_ms: int = 120_000
    growing_messages: int = 20
    growing_share: float = 0.02
    aged_ms: int = 600_000
    poison_rc: int = 5
    clear_ms: int = 30_000
    leaking_ms: int = 60_000
    depth_limit: int = 0

    @property
    def growing_s(self) -> float:
        """The lowest growth, in messages per second, that makes a queue ``growing``."""
        return self.growing_messages / max(1, self.growing_ms) * 1000

    def growth(self, times_ms: Sequence[int], depths: Sequence[float], arrived: int) -> float:
        """Return the growth of a queue over samples of ``growing_ms``, relative to the threshold: 1.0 is growing.

        ``arrived`` counts what was sent meanwhile; for lists, which do not count arrivals, it is 0.

        What counts is the lowest depth of each third of the samples. Each must exceed the one before, and the last one
        by half of the average or more, because one burst is no growth. As a third may be shorter than the time between
        two batches, the last third must be above all of the first. And over all samples, the depth must rise by as much
        as it does by chance, if messages are sent and deleted at random: by one standard deviation.
        """
        if len(depths) < GROWTH_SAMPLES_MIN:
            return 0.0
        third = len(depths) // 3
        starts_ms = times_ms[0], times_ms[third], times_ms[2 * third]
        lows = min(depths[:third]), min(depths[third : 2 * third]), min(depths[2 * third :])
        if lows[2] <= max(depths[:third]):
            return 0.0
        grown = depths[-1] - depths[0]
        chance = sqrt(max(1.0, 2 * arrived - grown)) if arrived else 0.0
        share = self._growth_of(starts_ms, lows, times_ms[-1], arrived)
        return min(share, grown / chance) if chance else share

    def is_lasting(self, times_ms: Sequence[int], depths: Sequence[float], first: int) -> bool:
        """Return whether a growth over the samples from the index ``first`` on is more than chance, by those before.

        The lowest depths of a queue that does not grow also rise from third to third at times, but seldom to more than
        they have been again and again.
        """
        third = (len(depths) - first) // 3
        lows = min(depths[first : first + third]), min(depths[first + 2 * third :])
        return _is_more_than_chance(max(1, self.growing_ms // 3), times_ms, depths, first, lows)

    def growth_in_batches(
        self, times_ms: Sequence[int], depths: Sequence[float], sent: Sequence[float]
    ) -> tuple[float, int]:
        """Return the growth of a queue that is filled or emptied in batches, as ``growth`` does, and where it begins.

        The samples are those of up to an hour, and ``sent`` counts all that had been sent at each. Spans of several
        lengths are looked at, in ``_BATCHES`` parts. If each part has a batch, the lowest depth of the part is what
        that left behind. These must rise from part to part, and as in ``is_lasting``.
        """
        found, lowest = (0.0, 0), min(depths)
        for part_ms in self._parts_ms(times_ms[-1] - times_ms[0]):
            recent = depths[bisect_left(times_ms, times_ms[-1] - part_ms) :]
            if min(recent) - lowest < _CLEAR_SHARE * self._needed(part_ms * (_BATCHES - 1), 0):
                # Most queues are nearly as low as ever. Over a longer span they are as low, and would need more.
                break
            if len(recent) >= _BATCH_SAMPLES_MIN:
                found = max(found, self._growth_in_parts(part_ms, times_ms, depths, sent, recent))
            if found[0] >= 1:
                break
        return found

    def _parts_ms(self, known_ms: int) -> Iterator[int]:
        # One part more, because the last batch may not count yet.
        shortest_ms, longest_ms = 2 * self.growing_ms // 3, known_ms // (_BATCHES + 1)
        part_ms = shortest_ms
        while part_ms < longest_ms:
            yield part_ms
            part_ms += 1 + part_ms // 2
        if shortest_ms <= longest_ms:
            yield longest_ms

    def _growth_in_parts(
        self,
        part_ms: int,
        times_ms: Sequence[int],
        depths: Sequence[float],
        sent: Sequence[float],
        recent: Sequence[float],
    ) -> tuple[float, int]:
        """Return what ``growth_in_batches`` does for one span; ``recent`` are the depths of its last part."""
        now, end = min(recent), len(depths) - 1
        at = last_index(recent, now)
        highest = max(recent[: at + 1])
        if max(recent[at:]) - now < _BATCH_SHARE * (highest - now):
            # A batch is being worked off: it leaves less behind than this, so it counts only if that is little.
            end -= len(recent) - 1 - last_index(recent[: at + 1], highest)
        starts = [bisect_left(times_ms, times_ms[end] - parts * part_ms) for parts in range(_BATCHES, 0, -1)]
        if any(one >= other for one, other in pairwise([*starts, end])):
            # This computer slept.
            return 0.0, 0
        lows = [min(depths[one:other]) for one, other in pairwise([*starts, end + 1])]
        last = starts[-1]
        at = last + last_index(depths[last : end + 1], lows[-1])
        rise = max(depths[at : end + 1]) - lows[-1]
        # A low depth within a rise is not what a batch left behind.
        while at > starts[-2] and depths[at - 1] < depths[at]:
            at -= 1
        lows[-1] = min(depths[at], now)
        if 2 * rise * (_BATCHES - 1) < lows[-1] - lows[0]:
            # The last batch came long ago.
            return 0.0, 0
        arrived = int(sent[end] - sent[starts[0]])
        share = self._growth_of([times_ms[each] for each in starts], lows, times_ms[end], arrived)
        if share and not _is_more_than_chance(part_ms, times_ms, depths, starts[0], lows):
            return 0.0, 0
        return share, starts[0]

    def _growth_of(self, starts_ms: Sequence[int], lows: Sequence[float], end_ms: int, arrived: int) -> float:
        """Return the growth from the lowest depths of the parts of a span, which begin at these times."""
        gained, gained_last = lows[-1] - lows[0], lows[-1] - lows[-2]
        lasts_ms, last_ms = starts_ms[-1] - starts_ms[0], starts_ms[-1] - starts_ms[-2]
        if any(one >= other for one, other in pairwise(lows)) or 2 * gained_last * lasts_ms < gained * last_ms:
            return 0.0
        span_ms = end_ms - starts_ms[0]
        needed = self._needed(span_ms, arrived)
        return gained * span_ms / lasts_ms / needed if needed else 1.0

    def _needed(self, span_ms: int, arrived: float) -> float:
        """Return by how much a queue that is growing grows at least over a span."""
        return max(self.growing_messages * span_ms / self.growing_ms, self.growing_share * arrived)

    def changed(self, *names: str, only_higher: bool = False, in_words: bool = False) -> str:
        """Return the thresholds that differ from the defaults, named as in configuration files: stalled 30 s, aged 1 h.

        ``names`` restricts them, if given; with ``only_higher``, only those above the default are returned. With
        ``in_words``, those that are not durations are given in words: growing by 100 messages, by 10 % of arrivals.
        """
        parts = []
        for known in fields(self):
            name, value = known.name.removesuffix("_ms"), getattr(self, known.name)
            words = _THRESHOLD_WORDS.get(name) if in_words else None
            if value == known.default or (names and name not in names) or (only_higher and value < known.default):
                continue
            if words is not None:
                parts.append(words(value))
            else:
                parts.append(f"{name} {_round_duration(value) if known.name.endswith('_ms') else f'{value:.12g}'}")
        return ", ".join(parts)


def _is_more_than_chance(
    part_ms: int, times_ms: Sequence[int], depths: Sequence[float], first: int, lows: Sequence[float]
) -> bool:
    """Return whether lowest depths that rise do so by more than chance, by the earlier ones.

    ``lows`` are those of parts of that length from the index ``first`` on. It is chance if earlier ones were as high as
    the last one ``_SEVERAL`` times: once, for however long, may have been a backlog. But if the one just before was
    lower than the first, they have risen once more than they had to.
    """
    end, occasions, was_as_high = first, 0, False
    for parts in range(1, 1 + (times_ms[first] - times_ms[0]) // part_ms):
        begin = bisect_left(times_ms, times_ms[first] - parts * part_ms)
        if begin < end:
            low = min(depths[begin:end])
            if parts == 1 and low < lows[0]:
                return True
            is_as_high = low >= lows[-1]
            occasions += is_as_high and not was_as_high
            if occasions == _SEVERAL:
                return False
            was_as_high = is_as_high
        end = begin
    return True


def last_index(values: Sequence[float], value: float) -> int:
    """Return where a value is in some for the last time."""
    return len(values) - 1 - values[::-1].index(value)


class Growth(NamedTuple):
    """How a queue grew over some samples: ``share`` is what ``Thresholds.growth`` returns.

    Its backlog was lowest at ``since_ms``, last, when it held ``since_depth`` messages; and highest at ``until_ms``,
    first. None of these is known without samples.
    """

    share: float = 0.0
    since_ms: int | None = None
    since_depth: int | None = None
    until_ms: int | None = None


NO_GROWTH = Growth()


class TroubleTimes(NamedTuple):
    """One trouble of a queue: when its condition began, stopped holding, and became clearly over; None for not yet.

    ``since_depth`` is how many messages a growing queue held at the beginning, if that is known.
    """

    since_ms: int
    over_since_ms: int | None = None
    clear_since_ms: int | None = None
    since_depth: int | None = None


def _time(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and 0 <= value < 1 << 53):
        return value
    raise ValueError("not a time")


T = TypeVar("T")
_NONE: Mapping[Verdict, Any] = MappingProxyType({})


def _without(verdict: Verdict, known: Mapping[Verdict, T]) -> Mapping[Verdict, T]:
    if verdict not in known:
        return known
    return {other: times for other, times in known.items() if other is not verdict} or _NONE


class Troubles:
    """The current troubles of a queue; each ends when it has been clearly over for ``clear_ms``."""

    __slots__ = ("episodes", "suspended")

    def __init__(self) -> None:
        # Replaced when they change: most of many queues share the one empty mapping.
        self.episodes: Mapping[Verdict, TroubleTimes] = _NONE
        # Troubles that cannot be judged now: when each began, and until when it may go on.
        self.suspended: Mapping[Verdict, tuple[int, int]] = _NONE

    def judge(
        self,
        limits: Thresholds,
        at_ms: int,
        idle_ms: int,
        waiting_ms: int,
        growth: Growth,
        poison: int = 0,
        unreturned_ms: int = 0,
        leaking_ms: int = 0,
        last_ms: int = 0,
    ) -> None:
        """Start the troubles whose conditions hold at that server time, and end those that are over.

        - ``stalled``: messages were ready, and none was received or taken, for ``idle_ms``.
        - ``leaking``: leases are past their deadline, and none was returned, for ``unreturned_ms``; ``leaking_ms`` is
          the threshold, which depends on how often leases are returned.
        - ``growing``: the share of ``growth`` is 1 or more. It shows late, so what counts is the time from the lowest
          depth to the highest.
        - ``poisoned``: ``poison`` messages were received ``poison_rc`` times or more.
        - ``aged``: the first ready message has been due for ``waiting_ms``. One that was moved or put back there since
          the sample before, of ``last_ms``, may have been due for long before that.
        """
        stalled_ms, aged_ms = limits.stalled_ms, limits.aged_ms
        is_stalled, is_aged = idle_ms >= stalled_ms, waiting_ms >= aged_ms
        # Fast path: most queues have no trouble, old or new.
        if not (is_stalled or is_aged or poison or unreturned_ms or growth.share >= 1 or self.episodes):
            return
        before = len(self.episodes)
        is_leaking, is_growing = unreturned_ms > 0 and unreturned_ms >= leaking_ms, growth.share >= 1
        grew_ms = at_ms - limits.growing_ms if growth.since_ms is None else growth.since_ms
        grew_until_ms = at_ms if growth.until_ms is None else growth.until_ms
        aged_from_ms, is_young = max(last_ms, at_ms - waiting_ms + aged_ms), waiting_ms < _AGED_CLEAR_SHARE * aged_ms
        for verdict, is_on, began_ms, over_ms, is_clear in (
            (Verdict.STALLED, is_stalled, at_ms - idle_ms, at_ms, idle_ms < _CLEAR_SHARE * stalled_ms),
            (Verdict.LEAKING, is_leaking, at_ms - unreturned_ms, at_ms, unreturned_ms < _CLEAR_SHARE * leaking_ms),
            (Verdict.GROWING, is_growing, grew_ms, grew_until_ms, growth.share < _CLEAR_SHARE),
            (Verdict.POISONED, poison > 0, at_ms, at_ms, not poison),
            (Verdict.AGED, is_aged, aged_from_ms, at_ms, is_young),
        ):
            if is_on:
                self._hold(verdict, began_ms, at_ms, growth.since_depth if verdict is Verdict.GROWING else None)
            else:
                self._pass(verdict, over_ms, at_ms, limits.clear_ms, is_clear=is_clear)
        if len(self.episodes) < before:
            # Others that are clearly over were hidden by it, and would be shown only to end.
            self.episodes = {each: times for each, times in self.episodes.items() if times.clear_since_ms is None}

    def _hold(self, verdict: Verdict, began_ms: int, at_ms: int, depth: int | None) -> None:
        """Update a trouble whose condition holds since ``began_ms``, when the queue held ``depth`` messages."""
        episode = self.episodes.get(verdict)
        if episode is None:
            since_ms = self._began(verdict, began_ms, at_ms)
            self._keep(verdict, TroubleTimes(since_ms, since_depth=depth if since_ms == began_ms else None))
        elif episode.over_since_ms is not None:
            self._keep(verdict, episode._replace(over_since_ms=None, clear_since_ms=None))

    def _pass(self, verdict: Verdict, over_ms: int, at_ms: int, clear_ms: int, *, is_clear: bool) -> None:
        """Update a trouble whose condition does not hold, since ``over_ms`` if it held at the last poll.

        ``is_clear`` is True if the condition is clearly over, not only below its threshold.
        """
        episode = self.episodes.get(verdict)
        if episode is None:
            return
        over_since_ms = max(over_ms, episode.since_ms) if episode.over_since_ms is None else episode.over_since_ms
        clear_since_ms = at_ms if episode.clear_since_ms is None else episode.clear_since_ms
        if is_clear and at_ms - clear_since_ms >= clear_ms:
            self.episodes = _without(verdict, self.episodes)
        else:
            clear_since = clear_since_ms if is_clear else None
            self._keep(verdict, episode._replace(over_since_ms=over_since_ms, clear_since_ms=clear_since))

    def _keep(self, verdict: Verdict, times: TroubleTimes) -> None:
        self.episodes = {**self.episodes, verdict: times}

    def _began(self, verdict: Verdict, began_ms: int, at_ms: int) -> int:
        since_ms, until_ms = self.suspended.get(verdict, (began_ms, 0))
        self.suspended = _without(verdict, self.suspended)
        return min(since_ms, began_ms) if at_ms <= until_ms else began_ms

    def forget(self) -> None:
        """Drop all troubles without waiting for them to end."""
        self.episodes = self.suspended = _NONE

    def suspend(self, verdict: Verdict, until_ms: int | None) -> None:
        """Drop a trouble that cannot be judged now. If it begins again by ``until_ms``, it continues; None: never."""
        episode, suspended = self.episodes.get(verdict), self.suspended.get(verdict)
        since_ms = episode.since_ms if episode is not None else None if suspended is None else suspended[0]
        self.episodes, self.suspended = _without(verdict, self.episodes), _without(verdict, self.suspended)
        if since_ms is not None and until_ms is not None:
            self.suspended = {**self.suspended, verdict: (since_ms, until_ms)}

    def remember(self) -> list[list[Any]]:
        """Return what ``restore`` takes: values that JSON can hold."""
        if not (self.episodes or self.suspended):
            return []
        known = chain(self.episodes.items(), self.suspended.items())
        return [[verdict.value, *times_ms] for verdict, times_ms in known]

    def restore(self, kept: list[list[Any]]) -> None:
        """Take over the troubles of an earlier run; raises ``ValueError`` or ``TypeError`` if they are not valid."""
        for name, *times_ms in kept:
            since_ms, *rest = map(_time, times_ms)
            if since_ms is None:
                raise ValueError("a trouble without its beginning")
            if len(rest) == 1:
                self.suspended = {**self.suspended, Verdict(name): (since_ms, rest[0] or 0)}
            else:
                self._keep(Verdict(name), TroubleTimes(since_ms, *rest))

    def ends_ms(self, clear_ms: int) -> list[int]:
        """Return the times at which troubles end if nothing changes."""
        clear = (episode.clear_since_ms for episode in self.episodes.values())
        return [since_ms + clear_ms for since_ms in clear if since_ms is not None]

    def verdict(self, at_ms: int, clear_ms: int, watched_from_ms: int, known_from_ms: int) -> "Judgement":
        """Return the worst trouble; without one, ``watching`` until ``known_from_ms``, then ``ok``.

        Monitoring of the queue began at ``watched_from_ms``; from ``known_from_ms`` on, every trouble can be detected.
        """
        if self.episodes:
            verdict = min(self.episodes, key=lambda one: one.rank)
            since_ms, over_since_ms, clear_since_ms, since_depth = self.episodes[verdict]
            if clear_since_ms is not None:
                return Judgement(verdict, since_ms, over_since_ms, clear_since_ms + clear_ms, since_depth)
            # Below its threshold but not clear. Only ``stalled`` counts as recovering then: one receive ended it.
            over_since_ms = over_since_ms if verdict is Verdict.STALLED else None
            return Judgement(verdict, since_ms, over_since_ms, None, since_depth)
        if known_from_ms > at_ms:
            return Judgement(Verdict.WATCHING, watched_from_ms, watched_from_ms, known_from_ms)
        return OK


class Judgement(NamedTuple):
    """A verdict, when its condition began, and the times between which it is pending; as in ``QueueState``."""

    verdict: Verdict
    since_ms: int | None = None
    pending_since_ms: int | None = None
    pending_until_ms: int | None = None
    since_depth: int | None = None


OK = Judgement(Verdict.OK)
_DRAINS = {Verdict.STALLED: Drain.STALLED, Verdict.GROWING: Drain.GROWING}
_USUAL = Thresholds()

# The thresholds that start each verdict. The reason for ``poisoned`` contains its own.
_NAMES = {
    Verdict.STALLED: ("stalled",),
    Verdict.LEAKING: ("leaking",),
    Verdict.GROWING: ("growing", "growing_messages", "growing_share"),
    Verdict.AGED: ("aged",),
}
_BEGINNING = ("poison_rc", *(name for names in _NAMES.values() for name in names))


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
    highest = max(range(len(samples)), key=lambda place: (samples[place].depth, place))
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
        """Return how many messages are ready that the next batches add to, at the rates of whole batches.

        0 if the last one was worked off before it ended, or if all are in ``drain_s``, which is before the next batch.
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
    if len(changes) < _BATCH_SAMPLES_MIN or isnan(sum(changes)) or max(changes) < _BATCH_DEVIATIONS:
        return None
    usual = sorted(changes)[len(changes) // 2]
    spread = sorted(abs(change - usual) for change in changes)[len(changes) // 2]
    chance = max(_DEVIATION_OF_MEDIAN * spread, sqrt(sum(map(abs, changes)) / len(changes)))
    least = max(0.0, usual + _BATCH_DEVIATIONS * chance)
    before = [
        start + place
        for place, change in enumerate(changes)
        # What takes several buckets is one batch.
        if change > least and not (place and changes[place - 1] > least)
    ]
    if len(before) < 2:
        return None
    begun_ms = [times_ms[place] for place in before]
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
    has only begun to shrink does so faster than ``net_s`` says. ``was_taken``
    is True if an item was taken lately: a constant depth is steady only then. A change of at most ``share_s`` counts as
    steady too, and so does a growth of at most ``chance_s``.
    """
    known = _known_drain(ready, judged)
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


def _known_drain(ready: int, judged: Judgement) -> Drain | None:
    """Return the drain that follows from the verdict alone: a queue that grows, or may grow, has no drain time."""
    if judged is OK:
        return None if ready else Drain.EMPTY
    if ready == 0:
        return Drain.EMPTY
    if judged.verdict is Verdict.WATCHING:
        return Drain.UNKNOWN
    is_over = judged.pending_since_ms is not None
    return None if is_over else _DRAINS.get(judged.verdict)


def reason(queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
    """Return one sentence: why a queue has its verdict, and what was not checked."""
    match queue.verdict:
        case Verdict.BROKEN:
            return queue.broken or "its keys disagree"
        case Verdict.WATCHING:
            unknown = "receives" if kind_named(queue.kind).counts_receives else "takes"
            watched = _watched(queue, at_ms)
            tells = f"too early to tell whether it grows, or whether a consumer {unknown}"
            return f"{watched}, {tells}" if watched else tells
        case Verdict.OK:
            may_be_poisoned = (queue.totalrecv or 0) >= thresholds.poison_rc
            unlooked = "; receive counts not checked yet" if may_be_poisoned and queue.looked is None else ""
            looked = unlooked or _looked(queue, at_ms, only_partly=True)
            higher = thresholds.changed(*_BEGINNING, only_higher=True, in_words=True)
            return f"nothing is wrong{_beginning(queue, at_ms)}{looked}{_by(higher)}" if queue.depth else "empty"
    if queue.pending_since_ms is not None:
        lasted = duration(None if queue.since_ms is None else queue.pending_since_ms - queue.since_ms)
        ended = ago(at_ms - queue.pending_since_ms)
        ends = f"when it has been clearly over for {_round_duration(thresholds.clear_ms)}"
        if queue.pending_until_ms is not None:
            # That a growth is over is found some time after its end.
            ends = f"in {duration(max(0, queue.pending_until_ms - at_ms))} unless it begins again"
        return f"was {queue.verdict} for {lasted}, until {ended}; the verdict ends {ends}"
    names = _NAMES.get(queue.verdict)
    return f"{_trouble(queue, at_ms, thresholds)}{_by(thresholds.changed(*names, in_words=True)) if names else ''}"


def _beginning(queue: QueueState, at_ms: int) -> str:
    """Return what may become a trouble if it lasts; empty for nothing."""
    growth = _net_growth(queue)
    if queue.drain is Drain.GROWING and growth is not None and growth >= 0.1:
        return f" yet: it grows by {rate(growth)}/s"
    if queue.ready and queue.idle_since_ms is not None and at_ms - queue.idle_since_ms >= _IDLE_LEAST_MS:
        return f" yet: none {kind_named(queue.kind).taken} for {_idle(queue, at_ms)}"
    return ""


def _trouble(queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
    kind = kind_named(queue.kind)
    span = _since(queue.since_ms, at_ms)
    idle = _idle(queue, at_ms)
    hardly = f", and almost none for {span}" if idle != span else ""
    idle += " or more" if queue.is_idle_longer else ""
    ready = f"{plural(queue.ready or 0, kind.noun)} ready"
    leases = f"{plural(queue.expired or 0, 'lease')} expired"
    waiting = duration(queue.waiting_ms(at_ms))
    growth = _net_growth(queue)
    # The rate covers the last seconds, not the whole span.
    now = f", now by {rate(growth)}/s" if growth is not None and growth >= 0.05 else ""
    match queue.verdict:
        case Verdict.STALLED if queue.totalrecv == 0:
            return f"{ready}, never received for {idle}{_never_received_since(queue)}"
        case Verdict.STALLED:
            beside = f"; {leases}" if queue.expired else ""
            return f"{ready} and none {kind.taken} for {idle}{hardly}{beside}"
        case Verdict.LEAKING:
            return f"{leases} and none returned for {span}: no reaper seems to be running"
        case Verdict.GROWING:
            more = "arrivals have exceeded deletes" if kind.counts_arrivals else "more was pushed than taken"
            # Short, because screens show what the queue needs after it.
            first = f"the first has waited {waiting}" if kind.counts_receives else waited(queue, at_ms)
            return f"{more} for {span}{now}{'' if queue.oldest_ready_ms is None else f'; {first}'}"
        case Verdict.POISONED:
            often = f"received {thresholds.poison_rc} times or more (up to {count(queue.highest_rc)})"
            # When it began is not known: receive counts are only looked at now and then.
            seen_ms = 0 if queue.since_ms is None else at_ms - queue.since_ms
            seen = f", seen for {duration(seen_ms)}" if seen_ms >= _SEEN_LEAST_MS else ""
            return f"{plural(queue.poison, 'message')} {often}{seen}{_looked(queue, at_ms)}"
        case Verdict.AGED:
            return waited(queue, at_ms)
    raise ValueError(f"there is no reason for the verdict {queue.verdict}")


def waited(queue: QueueState, at_ms: int) -> str:
    """Say how long the first ready message has waited, or how old the next item of a list is."""
    kind = kind_named(queue.kind)
    if kind.counts_receives:
        return f"the first ready {kind.noun} has waited {duration(queue.waiting_ms(at_ms))}"
    return f"the next {kind.noun} is {duration(queue.oldest_ready_age_ms(at_ms))} old"


def outlook(queue: QueueState, at_ms: int) -> str:
    """Return the text of the column DRAINS IN: when a queue drains, why it does not, or what is wrong with it."""
    if queue.verdict is Verdict.BROKEN:
        return queue.broken or ""
    if queue.verdict is Verdict.WATCHING:
        return ", ".join(filter(None, ("watching", _watched(queue, at_ms))))
    is_over = queue.pending_since_ms is not None
    if queue.verdict is Verdict.LEAKING and not is_over:
        return f"{plural(queue.expired or 0, 'lease')} expired"
    if queue.verdict is Verdict.POISONED and not is_over:
        # The end is cut off on most terminals.
        return f"rc up to {count(queue.highest_rc)}: {plural(queue.poison, 'message')}"
    match queue.drain:
        case Drain.EMPTY:
            return "nothing ready"
        case Drain.CLEARS:
            return duration((queue.drain_s or 0) * 1000)
        case Drain.STEADY:
            return "steady"
        case Drain.STALLED:
            # The column has 19 cells: too few for the words of the reason.
            least = "≥" if queue.is_idle_longer else "for"
            return f"no consumer {least} {_idle(queue, at_ms)}"
        case Drain.GROWING:
            growth = _net_growth(queue)
            if growth is None or growth >= 0.1:
                words = compact(growth) if growth is None or growth >= 10 else f"{growth:.1f}".removesuffix(".0")
                return f"never (+{words}/s)"
            return "steady"
        case Drain.UNKNOWN:
            return "recovering" if is_over else "–"


def needed_deletes(queue: QueueState, rates: Rates | None) -> str:
    """Return how many times its deletes, at ``drain_rates``, would keep up with the arrivals, and drain a queue soon.

    Empty if it drains within ``SOON_S`` or less, if that is not known, or if too few messages are deleted to tell.
    """
    if rates is None or not queue.ready or rates.deletes_s < _TELLING_S or queue.pending_since_ms is not None:
        return ""
    if queue.drain not in (Drain.GROWING, Drain.STEADY, Drain.CLEARS):
        return ""
    keeps_up = rates.arrivals_s / rates.deletes_s
    drains = keeps_up + queue.ready / SOON_S / rates.deletes_s
    if drains < _MORE:
        return ""
    soon = f"to drain in {_round_duration(SOON_S * 1000)}"
    if keeps_up < _MORE:
        return f"needs {drains:.1f}x the deletes {soon}"
    return f"needs {keeps_up:.1f}x the deletes to keep up, {drains:.1f}x {soon}"


def returned(queue: QueueState, trend: Trend) -> str:
    """Return how many of the received messages came back, and what that means; empty if it is few or not known."""
    returns = trend.returns(queue.name) if kind_named(queue.kind).counts_receives else None
    if returns is None or returns.back < max(_RETURNED_MIN, _RETURNED_SHARE * returns.received):
        return ""
    of_all = f"{count(returns.back)} or more of {count(returns.received)} received in {duration(returns.span_ms)}"
    return f"{of_all} came back: consumers fail, or need longer than the vt of {seconds(queue.vt_s)}"


def _by(changed: str) -> str:
    return f" (thresholds: {changed})" if changed else ""


def _watched(queue: QueueState, at_ms: int) -> str:
    """Return how far a queue is from its first verdict: '40 s of 2 min'; empty if not known."""
    since_ms, until_ms = queue.pending_since_ms, queue.pending_until_ms
    if since_ms is None or until_ms is None:
        return ""
    return f"{duration(max(0, at_ms - since_ms))} of {_round_duration(until_ms - since_ms)}"


def _since(since_ms: int | None, at_ms: int) -> str:
    return duration(None if since_ms is None else at_ms - since_ms)


def _idle(queue: QueueState, at_ms: int) -> str:
    return _since(queue.since_ms if queue.idle_since_ms is None else queue.idle_since_ms, at_ms)


def _looked(queue: QueueState, at_ms: int, *, only_partly: bool = False) -> str:
    """Return how many receive counts were checked; empty with ``only_partly`` if all were."""
    if queue.looked_all_ms is not None:
        return "" if only_partly else f"; all checked {ago(at_ms - queue.looked_all_ms)}"
    if queue.looked is None or not queue.depth:
        return ""
    return f"; checked {count(min(queue.looked, queue.depth))} of {plural(queue.depth, 'message')}"


# Messages that were due earlier than this before the queue had any were moved there, or put back by an undo.
_ARRIVED_LATE_MS = 60_000


def _never_received_since(queue: QueueState) -> str:
    """Return what the time without a receive is counted from; empty if nothing marks it."""
    since_ms = queue.since_ms if queue.idle_since_ms is None else queue.idle_since_ms
    if since_ms == queue.oldest_ready_ms:
        return " since the first send"
    if since_ms is not None and since_ms == queue.created_ms:
        return " since the queue was created"
    due_ms = queue.oldest_ready_due_ms
    if since_ms is not None and since_ms < (due_ms or 0):
        # What was due then is gone.
        return ""
    if since_ms is not None and due_ms is not None and since_ms - due_ms > _ARRIVED_LATE_MS:
        return " since they arrived"
    return " since the first was due"


def _round_duration(ms: int) -> str:
    """Format a duration that is usually a setting: 2 min, 1 h, otherwise as ``duration`` does."""
    for unit_ms, unit in ((3_600_000, "h"), (60_000, "min")):
        if ms >= unit_ms and ms % unit_ms == 0:
            return f"{ms // unit_ms} {unit}"
    return duration(ms)


def _net_growth(queue: QueueState) -> float | None:
    if queue.net_s is not None:
        return max(0.0, queue.net_s)
    if queue.arrivals_s is None or queue.deletes_s is None:
        return None
    return max(0.0, queue.arrivals_s - queue.deletes_s)
