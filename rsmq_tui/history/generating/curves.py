"""How a queue behaves over time, as lines from knot to knot: a day of a queue is worked out by itself, in any order.

Consumers are as a look back in time: at a moment they have received what was sent until some time before, their lag,
and have deleted what they had received a moment ago. A stall is a lag that grows as fast as time goes by; where it
grows more slowly the queue grows; where it shrinks, they catch up. So the counters, the depth and the ages agree.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from rsmq_tui.history.generating.chance import between, share
from rsmq_tui.history.generating.plan import DAY_MS
from rsmq_tui.history.generating.roles import Queue, Role

HOUR_MS, WEEK_MS = 3_600_000, 7 * DAY_MS
_MINUTE_MS = 60_000
# No receive for so long, and it is a stall.
_STALLED_MS = 60_000
# How much an hour differs from what is usual.
_UNEVEN, _BURSTS_A_DAY = 0.35, 3
_POISON_EVERY_MS = DAY_MS
_LIFE_MS = 4 * DAY_MS
# Whatever lives for ever was created at the beginning of such a span.
_ERA_MS = 400 * DAY_MS
# What each number is drawn for.
_HOURS, _BURSTS, _LAGS, _POISON, _LIFE = 21, 22, 23, 24, 25


class Knots(NamedTuple):
    """A queue's day: at each of these times its counters and its lag; in between they go in a line.

    ``sent``, ``received`` and ``deleted`` count messages since the queue was created; a step down is where it was
    created anew, and has two knots at one time. ``events`` says what goes on from each knot to the next.
    """

    at_ms: list[float]
    sent: list[float]
    received: list[float]
    deleted: list[float]
    lag_ms: list[float]
    events: list["Event"]


class Event(NamedTuple):
    """What goes on between two knots; ``poison_ms`` is when the poison message was first received, None for none."""

    is_stalled: bool
    is_growing: bool
    poison_ms: float | None
    poisons: int
    """How many poison messages there were until now."""
    created_ms: float


class Counts(NamedTuple):
    """What a queue's counters are at a time, and what goes on."""

    sent: float
    received: float
    deleted: float
    lag_ms: float
    created_ms: float
    event: Event


class _Lag(NamedTuple):
    """A time in which consumers fall behind: the lag grows by ``slope`` from ``from_ms`` on, then it is made good."""

    from_ms: float
    to_ms: float
    slope: float
    good_ms: float


class Curve:
    """How one queue behaves."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._hours: dict[int, float] = {}
        self._lags: dict[int, list[_Lag]] = {}
        self._bursts: dict[int, list[tuple[float, float, float]]] = {}

    def day(self, from_ms: int) -> Knots:
        """Return the day that begins there."""
        # What was looked up for other days is not needed again soon.
        for kept in (self._hours, self._lags, self._bursts):
            if len(kept) > 4_000:
                kept.clear()
        to_ms = from_ms + DAY_MS
        times = {float(at_ms) for at_ms in range(from_ms, to_ms + 1, HOUR_MS)}
        for lag in self._lags_near(from_ms, to_ms):
            times.update((lag.from_ms, lag.to_ms, lag.good_ms))
            if lag.slope == 1:
                times.add(lag.from_ms + _STALLED_MS)
        for burst_ms, lasts_ms, _ in self._bursts_of(from_ms // DAY_MS):
            times.update((burst_ms, burst_ms + lasts_ms))
        if self._queue.role is Role.POISONED:
            times.update(at for span in self._poisons(from_ms, to_ms) for at in span)
        born = self.created_ms(to_ms)
        inside = sorted(at for at in times if from_ms <= at <= to_ms)
        knots = Knots([], [], [], [], [], [])
        for at_ms, next_ms in zip(inside, [*inside[1:], to_ms], strict=True):
            if at_ms < born < next_ms:
                self._knot(knots, at_ms, born)
                self._knot(knots, born, born, before=True)
                self._knot(knots, born, next_ms)
            else:
                self._knot(knots, at_ms, next_ms)
        return knots

    def counts(self, at_ms: int) -> Counts:
        """Return what the counters are at a time."""
        created_ms, lag_ms = self.created_ms(at_ms), self._lag(at_ms)
        start, received_ms = self._sent(created_ms), at_ms - lag_ms
        return Counts(
            self._sent(at_ms) - start,
            max(0.0, self._sent(received_ms) - start),
            max(0.0, self._sent(received_ms - self._queue.hold_ms) - start),
            lag_ms,
            created_ms,
            self._event(at_ms, created_ms),
        )

    def sent_at(self, first: int, last: int, at_ms: int) -> Iterator[float]:
        """Yield when each of some messages was sent, by their numbers; ``at_ms`` is a time when all of them were."""
        created_ms = self.created_ms(at_ms)
        start = self._sent(created_ms)
        # Back to a time when the first of them was not there.
        times = [float(at_ms)]
        counts = [self._sent(at_ms) - start]
        while counts[-1] >= first and times[-1] > created_ms:
            before_ms = max(created_ms, (math.ceil(times[-1] / HOUR_MS) - 1) * HOUR_MS)
            bursts = self._bursts_of(math.floor(before_ms / DAY_MS))
            edges = [edge for burst_ms, lasts_ms, _ in bursts for edge in (burst_ms, burst_ms + lasts_ms)]
            times.append(max((edge for edge in edges if before_ms < edge < times[-1]), default=before_ms))
            counts.append(self._sent(times[-1]) - start)
        number = len(times) - 1
        for message in range(first, last + 1):
            while number > 1 and counts[number - 1] < message:
                number -= 1
            since, more = counts[number], counts[number - 1] - counts[number]
            share_ = (message - since) / more if more > 0 else 1.0
            yield times[number] + share_ * (times[number - 1] - times[number])

    def created_ms(self, at_ms: float) -> float:
        """Return when the queue was created that there is at a time."""
        queue = self._queue
        if queue.role is not Role.ANEW:
            era = math.floor(at_ms / _ERA_MS)
            return era * _ERA_MS - between(1, 90, queue.seed, queue.number, _LIFE) * DAY_MS
        life = math.floor(at_ms / _LIFE_MS)
        born = self._born(life)
        return born if born <= at_ms else self._born(life - 1)

    def _born(self, life: int) -> float:
        # At least two days apart.
        queue = self._queue
        return life * _LIFE_MS + between(0, _LIFE_MS / 2, queue.seed, queue.number, _LIFE, life)

    def _knot(self, knots: Knots, at_ms: float, next_ms: float, *, before: bool = False) -> None:
        middle_ms = (at_ms + next_ms) / 2
        created_ms = self.created_ms(at_ms - 1 if before else middle_ms)
        lag_ms = self._lag(at_ms)
        start = self._sent(created_ms)
        received_ms = at_ms - lag_ms
        knots.at_ms.append(at_ms)
        knots.sent.append(max(0.0, self._sent(at_ms) - start))
        knots.received.append(max(0.0, self._sent(received_ms) - start))
        knots.deleted.append(max(0.0, self._sent(received_ms - self._queue.hold_ms) - start))
        knots.lag_ms.append(lag_ms)
        knots.events.append(self._event(middle_ms, created_ms))

    def _event(self, at_ms: float, created_ms: float) -> Event:
        is_stalled, is_growing = self._queue.role is Role.LETTERS, False
        for lag in self._lags_near(at_ms, at_ms):
            if lag.from_ms <= at_ms < lag.to_ms:
                is_stalled = lag.slope == 1 and at_ms >= lag.from_ms + _STALLED_MS
                is_growing = lag.slope < 1 or not is_stalled
        poison_ms, poisons = None, 0
        if self._queue.role is Role.POISONED:
            for first_ms, last_ms in self._poisons(at_ms, at_ms):
                poisons = round(first_ms // _POISON_EVERY_MS) - round(created_ms // _POISON_EVERY_MS)
                poison_ms = first_ms if first_ms <= at_ms < last_ms else None
                poisons += first_ms <= at_ms
        return Event(is_stalled, is_growing, poison_ms, poisons, created_ms)

    def _sent(self, at_ms: float) -> float:
        """Return how many messages were sent until then, from some beginning on."""
        hour = math.floor(at_ms / HOUR_MS)
        first = self._sent_by(hour)
        found = first + (self._sent_by(hour + 1) - first) * (at_ms / HOUR_MS - hour)
        if self._queue.role is Role.BURSTY:
            day = math.floor(at_ms / DAY_MS)
            bursts = self._bursts_of(day)
            size = sum(size for _, _, size in bursts)
            found += day * size
            for burst_ms, lasts_ms, size in bursts:
                found += size * min(1.0, max(0.0, (at_ms - burst_ms) / lasts_ms))
        return found

    def _sent_by(self, hour: int) -> float:
        found = self._hours.get(hour)
        if found is None:
            queue = self._queue
            smooth = self._smooth(hour)
            more = _UNEVEN * (self._smooth(hour + 1) - smooth)
            found = self._hours[hour] = smooth + more * share(queue.seed, queue.number, _HOURS, hour)
        return found

    def _smooth(self, hour: int) -> float:
        """Return the messages until an hour: the rate's integral, which goes up and down with the day and the week."""
        queue, at_ms, turn = self._queue, hour * HOUR_MS, 2 * math.pi
        daily = queue.daily * DAY_MS / turn * math.sin(turn * (at_ms - queue.peak_ms) / DAY_MS)
        # 1970 began on a Thursday: the week is highest there.
        weekly = queue.weekly * WEEK_MS / turn * math.sin(turn * (at_ms % WEEK_MS - DAY_MS / 2) / WEEK_MS)
        return queue.rate_s / 1000 * (at_ms + daily + weekly)

    def _bursts_of(self, day: int) -> list[tuple[float, float, float]]:
        """Return when bursts begin, how long they last, and how many messages come in each; as many every day."""
        queue = self._queue
        if queue.role is not Role.BURSTY:
            return []
        found = self._bursts.get(day)
        if found is None:
            size = queue.rate_s * 20_000
            slot_ms = DAY_MS / _BURSTS_A_DAY
            starts = (between(0.1, 0.8, queue.seed, queue.number, _BURSTS, day, n) for n in range(_BURSTS_A_DAY))
            found = [(day * DAY_MS + (n + start) * slot_ms, 5 * _MINUTE_MS, size) for n, start in enumerate(starts)]
            self._bursts[day] = found
        return found

    def _lag(self, at_ms: float) -> float:
        queue = self._queue
        if queue.role is Role.LETTERS:
            return at_ms - self.created_ms(at_ms)
        usual_ms = queue.wait_ms + queue.delay_s * 1000
        for lag in self._lags_near(at_ms, at_ms):
            if lag.from_ms <= at_ms <= lag.good_ms:
                most_ms = (lag.to_ms - lag.from_ms) * lag.slope
                if at_ms <= lag.to_ms:
                    return usual_ms + (at_ms - lag.from_ms) * lag.slope
                return usual_ms + most_ms * (lag.good_ms - at_ms) / (lag.good_ms - lag.to_ms)
        return usual_ms

    def _lags_near(self, from_ms: float, to_ms: float) -> list[_Lag]:
        """Return when consumers fall behind, in the weeks of this span; what begins in a week ends in it."""
        found: list[_Lag] = []
        for week in range(math.floor(from_ms / WEEK_MS), math.floor(to_ms / WEEK_MS) + 1):
            lags = self._lags.get(week)
            if lags is None:
                # Another thread may do the same, and comes to the same.
                lags = self._lags[week] = self._lags_of(week)
            found.extend(lags)
        return found

    def _lags_of(self, week: int) -> list[_Lag]:
        queue = self._queue

        def drawn(least: float, most: float, *what: int) -> float:
            return between(least, most, queue.seed, queue.number, _LAGS, week, *what)

        def lag(start_ms: float, lasts_ms: float, slope: float, catching_up: float) -> _Lag:
            end_ms = start_ms + lasts_ms
            return _Lag(start_ms, end_ms, slope, end_ms + lasts_ms * slope / catching_up)

        begin_ms = week * WEEK_MS
        match queue.role:
            case Role.STALLING:
                starts = (
                    begin_ms + (n + drawn(0, 0.7, n, 1)) * WEEK_MS / 7 for n in range(7) if drawn(0, 1, n, 0) < 0.6
                )
                return [lag(at, drawn(5, 45, n, 2) * _MINUTE_MS, 1, drawn(3, 9, n, 3)) for n, at in enumerate(starts)]
            case Role.GROWING:
                start_ms = begin_ms + drawn(0.2, 2.5, 1) * DAY_MS
                return [lag(start_ms, drawn(0.4, 1.5, 2) * DAY_MS, drawn(0.1, 0.3, 3), drawn(2, 4, 4))]
            case Role.AGED:
                starts = (begin_ms + (n + drawn(0.3, 0.6, n, 1)) * DAY_MS for n in range(7))
                return [
                    lag(at, drawn(1, 2.5, n, 2) * HOUR_MS, drawn(0.2, 0.4, n, 3), drawn(1, 3, n, 4))
                    for n, at in enumerate(starts)
                ]
            case Role.BURSTY:
                # In some bursts the consumers do not keep up.
                first = begin_ms // DAY_MS
                bursts = [burst for day in range(first, first + 7) for burst in self._bursts_of(day)]
                chosen = [burst for n, burst in enumerate(bursts) if drawn(0, 1, n, 1) < 0.5]
                return [lag(at_ms, lasts_ms, 0.6, drawn(1, 3, n, 2)) for n, (at_ms, lasts_ms, _) in enumerate(chosen)]
            case Role.STEADY | Role.POISONED if drawn(0, 1, 0) < 0.25:
                return [lag(begin_ms + drawn(0, 6.5, 1) * DAY_MS, drawn(2, 15, 2) * _MINUTE_MS, 1, drawn(3, 9, 3))]
        return []

    def _poisons(self, from_ms: float, to_ms: float) -> list[tuple[float, float]]:
        """Return when there was a poison message, on every day of this span once."""
        queue, found = self._queue, []
        for block in range(math.floor(from_ms / _POISON_EVERY_MS), math.floor(to_ms / _POISON_EVERY_MS) + 1):
            start = block * _POISON_EVERY_MS + between(0, 0.5, queue.seed, queue.number, _POISON, block) * DAY_MS
            found.append((start, start + queue.poison_most * queue.vt_s * 1000))
        return found
