"""Verdicts: thresholds, conditions, and when they begin and end.

``Troubles.judge`` has the conditions, on numbers that the trackers measure. A verdict begins when its condition holds.
It ends when the condition has been clearly over for ``clear_ms``: below half of the threshold (``aged``: below nine
tenths), so that a queue at a threshold does not flap. Until then the verdict stays, and its reason says when the
condition stopped holding. Only ``broken`` ends without this delay.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from math import sqrt
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from rsmq_tui.monitor.model import Verdict
from rsmq_tui.monitor.text import plural, round_duration

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
BATCH_SAMPLES_MIN = 8

# Thresholds that are no durations, in words.
_THRESHOLD_WORDS: dict[str, Callable[[float], str]] = {
    "growing_messages": lambda value: f"growing by {plural(int(value), 'message')}",
    "growing_share": lambda value: f"growing by {100 * value:g} % of arrivals",
    "poison_rc": lambda value: f"poisoned {plural(int(value), 'receive')}",
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
            if len(recent) >= BATCH_SAMPLES_MIN:
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
                parts.append(f"{name} {round_duration(value) if known.name.endswith('_ms') else f'{value:.12g}'}")
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
    first. None of these is known without samples. ``is_longer`` is True if it may have grown before ``since_ms``,
    because monitoring began then.
    """

    share: float = 0.0
    since_ms: int | None = None
    since_depth: int | None = None
    until_ms: int | None = None
    is_longer: bool = False


NO_GROWTH = Growth()


class TroubleTimes(NamedTuple):
    """One trouble of a queue: when its condition began, stopped holding, and became clearly over; None for not yet.

    ``since_depth`` is how many messages a growing queue held at the beginning, if that is known; ``is_longer`` is as in
    ``Growth``.
    """

    since_ms: int
    over_since_ms: int | None = None
    clear_since_ms: int | None = None
    since_depth: int | None = None
    is_longer: bool = False


class _Suspended(NamedTuple):
    """A trouble that cannot be judged now: when it began, until when it may go on, and ``is_longer`` as before."""

    since_ms: int
    until_ms: int
    is_longer: bool = False


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
        self.suspended: Mapping[Verdict, _Suspended] = _NONE

    def judge(
        self,
        limits: Thresholds,
        at_ms: int,
        idle_ms: int,
        waiting_ms: int,
        growth: Growth,
        *,
        last_ms: int,
        poison: int = 0,
        unreturned_ms: int = 0,
        leaking_ms: int = 0,
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
                self._hold(verdict, began_ms, at_ms, growth if verdict is Verdict.GROWING else NO_GROWTH)
            else:
                self._pass(verdict, over_ms, at_ms, limits.clear_ms, is_clear=is_clear)
        if len(self.episodes) < before:
            # Others that are clearly over were hidden by it, and would be shown only to end.
            self.episodes = {each: times for each, times in self.episodes.items() if times.clear_since_ms is None}

    def _hold(self, verdict: Verdict, began_ms: int, at_ms: int, growth: Growth) -> None:
        """Update a trouble whose condition holds since ``began_ms``; ``growth`` is that of a growing queue."""
        episode = self.episodes.get(verdict)
        if episode is None:
            earlier = self.suspended.get(verdict)
            self.suspended = _without(verdict, self.suspended)
            times = TroubleTimes(began_ms, since_depth=growth.since_depth, is_longer=growth.is_longer)
            if earlier is not None and at_ms <= earlier.until_ms and earlier.since_ms < began_ms:
                times = TroubleTimes(earlier.since_ms, is_longer=earlier.is_longer)
            self._keep(verdict, times)
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

    def forget(self) -> None:
        """Drop all troubles without waiting for them to end."""
        self.episodes = self.suspended = _NONE

    def suspend(self, verdict: Verdict, until_ms: int | None) -> None:
        """Drop a trouble that cannot be judged now. If it begins again by ``until_ms``, it continues; None: never."""
        known = self.episodes.get(verdict) or self.suspended.get(verdict)
        self.episodes, self.suspended = _without(verdict, self.episodes), _without(verdict, self.suspended)
        if known is not None and until_ms is not None:
            suspended = _Suspended(known.since_ms, until_ms, known.is_longer)
            self.suspended = {**self.suspended, verdict: suspended}

    def may_go_on(self, verdict: Verdict, at_ms: int) -> bool:
        """Return whether a suspended trouble continues if it begins again now."""
        return bool(self.suspended) and at_ms <= self.suspended.get(verdict, (0, 0))[1]

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
            until_ms, *more = rest
            if len(more) <= 1:
                suspended = _Suspended(since_ms, until_ms or 0, any(more))
                self.suspended = {**self.suspended, Verdict(name): suspended}
            else:
                clear_since_ms, since_depth, *longer = more
                times = TroubleTimes(since_ms, until_ms, clear_since_ms, since_depth, any(longer))
                self._keep(Verdict(name), times)

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
            since_ms, over_since_ms, clear_since_ms, depth, is_longer = self.episodes[verdict]
            if clear_since_ms is not None:
                return Judgement(verdict, since_ms, over_since_ms, clear_since_ms + clear_ms, depth, is_longer)
            # Below its threshold but not clear. Only ``stalled`` counts as recovering then: one receive ended it.
            over_since_ms = over_since_ms if verdict is Verdict.STALLED else None
            return Judgement(verdict, since_ms, over_since_ms, None, depth, is_longer)
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
    is_since_longer: bool = False


OK = Judgement(Verdict.OK)
