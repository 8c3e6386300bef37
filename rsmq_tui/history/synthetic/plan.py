"""What is generated: files, queues, their curves over time, and reproducible random numbers.

A curve is linear from knot to knot. The days of a queue can be computed independently, in any order.

Consumers are modelled by their lag: at any moment they have received what was sent until ``lag`` ago. The lag grows as
fast as time passes while they stall, more slowly while the queue grows, and shrinks while they catch up. So counters,
depth and ages agree.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from typing import NamedTuple

from rsmq_tui.history.names import Place
from rsmq_tui.history.store import day_of
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.protocol.kinds import LIST

_MASK = (1 << 64) - 1


def mixed(*parts: int) -> int:
    """Return a 64-bit hash of these numbers."""
    found = 0x9E3779B97F4A7C15
    for part in parts:
        # The finalizer of splitmix64.
        found = (found ^ part) * 0xBF58476D1CE4E5B9 & _MASK
        found = (found ^ found >> 27) * 0x94D049BB133111EB & _MASK
        found ^= found >> 31
    return found


def share(*parts: int) -> float:
    """Return a pseudo-random number in [0, 1) that depends on these numbers."""
    return mixed(*parts) / 2.0**64


def between(least: float, most: float, *parts: int) -> float:
    """Return a pseudo-random number between ``least`` and ``most`` that depends on these numbers."""
    return least + (most - least) * share(*parts)


# The recorder's limits of a segment, in time and rows.
FILE_MS = 600_000
_FILE_ROWS = 250_000
PLACE = Place("made", "redis://queues.example:6379/0", "rsmq")
LISTS = PLACE._replace(ns=LIST.ns)
_FILE_SPANS_MS = (FILE_MS, 300_000, 120_000, 60_000, 30_000, 10_000)
_GAP_EVERY_MS, _GAP_MS = 5 * DAY_MS, (20 * 60_000, 90 * 60_000)
_OUTAGE_EVERY_MS, _OUTAGE_MS = 3 * DAY_MS, (2 * 60_000, 12 * 60_000)
# What each number is drawn for.
_GAPS, _OUTAGES, _LATE = 101, 102, 103


class PlannedSpan(NamedTuple):
    """A span of time in ms; the end is excluded."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class HistorySpec:
    """What to generate. All times are in ms; ``messages_ms`` is None for no inventories, ``lists`` the number of lists.

    A moment looks the same whatever the span is: generating a later span extends an existing history.
    """

    from_ms: int
    to_ms: int
    queues: int
    every_ms: int
    messages_ms: int | None = None
    seed: int = 1
    lists: int = 0

    @property
    def file_ms(self) -> int:
        """The time span of one file."""
        most = self.every_ms * (_FILE_ROWS // (self.queues + self.lists + 1))
        return next((span for span in _FILE_SPANS_MS if span <= most), _FILE_SPANS_MS[-1])

    @property
    def must_equal(self) -> dict[str, int | None]:
        """The options that must be equal to extend a history."""
        return {
            "queues": self.queues,
            "every_ms": self.every_ms,
            "messages_ms": self.messages_ms,
            "seed": self.seed,
            # Left out if 0, for histories that were generated before there were lists.
            **({"lists": self.lists} if self.lists else {}),
        }


class Times(NamedTuple):
    """The polls of a file, oldest first: their times, and the time since the poll before, None if unknown."""

    at_ms: list[int]
    interval_ms: list[int | None]


@dataclass(frozen=True, slots=True)
class File:
    """A file of samples, and the inventories of its span; it is within one recorder run and one day."""

    span: PlannedSpan
    recorder: str
    number: int

    @property
    def day(self) -> str:
        """The day that it is of."""
        return day_of(self.span.from_ms)

    @property
    def name(self) -> str:
        """Its name within a day."""
        return f"{self.recorder}-{self.number:06d}.parquet"


class Plan:
    """The files of a history, and what is in each."""

    def __init__(self, wanted: HistorySpec) -> None:
        self.wanted = wanted
        first = -(-wanted.from_ms // wanted.file_ms)
        self._files = range(first, max(first, wanted.to_ms // wanted.file_ms))
        self._gap = cache(self._draw_gap)
        # An existing file is never written again, so each file must be complete.
        self.span = PlannedSpan(first * wanted.file_ms, self._files.stop * wanted.file_ms)

    def files(self) -> Iterator[File]:
        """Yield the files, oldest first."""
        file_ms = self.wanted.file_ms
        for number in self._files:
            span = PlannedSpan(number * file_ms, (number + 1) * file_ms)
            for part in self._recorded(span):
                run = self._run_of(part.from_ms)
                begun = self._gap(run - 1).to_ms // file_ms
                yield File(part, self._recorder(run), number - begun + 1)

    def outages(self, span: PlannedSpan) -> list[PlannedSpan]:
        """Return the spans in which the server was down."""
        return [
            found
            for block in range(span.from_ms // _OUTAGE_EVERY_MS - 1, span.to_ms // _OUTAGE_EVERY_MS + 1)
            if (found := self._outage(block)).from_ms < span.to_ms and found.to_ms > span.from_ms
        ]

    def polls(self, span: PlannedSpan) -> tuple[Times, list[int]]:
        """Return the successful polls of a file, and the times of the failed ones."""
        every_ms = self.wanted.every_ms
        outages = self.outages(PlannedSpan(span.from_ms - DAY_MS, span.to_ms))
        times, failed = Times([], []), []
        for number in range(span.from_ms // every_ms - 1, -(-span.to_ms // every_ms)):
            at_ms = self._at_ms(number)
            if not span.from_ms <= at_ms < span.to_ms:
                continue
            if self._is_down(at_ms, outages):
                failed.append(at_ms)
                continue
            before_ms = self._at_ms(number - 1)
            is_known = (
                before_ms >= self.span.from_ms
                and not self._is_down(before_ms, outages)
                and self._run_of(before_ms) == self._run_of(at_ms)
            )
            times.at_ms.append(at_ms)
            times.interval_ms.append(at_ms - before_ms if is_known else None)
        return times, failed

    def inventories(self, span: PlannedSpan) -> list[int]:
        """Return the start times of the inventories of a file's span."""
        messages_ms = self.wanted.messages_ms
        if messages_ms is None:
            return []
        found = range(-(-span.from_ms // messages_ms) * messages_ms, span.to_ms, messages_ms)
        outages = self.outages(span)
        return [at_ms for at_ms in found if not self._is_down(at_ms, outages)]

    def _recorded(self, span: PlannedSpan) -> list[PlannedSpan]:
        """Return the parts of a span outside of gaps."""
        found = []
        left = span
        for block in range(span.from_ms // _GAP_EVERY_MS - 1, span.to_ms // _GAP_EVERY_MS + 1):
            gap = self._gap(block)
            if gap.from_ms < left.to_ms and gap.to_ms > left.from_ms:
                if gap.from_ms > left.from_ms:
                    found.append(PlannedSpan(left.from_ms, gap.from_ms))
                left = PlannedSpan(min(gap.to_ms, left.to_ms), left.to_ms)
        return [*found, left] if left.to_ms > left.from_ms else found

    def _run_of(self, at_ms: int) -> int:
        """Return the number of the recorder's run; each begins at the end of a gap."""
        block = at_ms // _GAP_EVERY_MS
        return block if at_ms < self._gap(block).to_ms else block + 1

    def _recorder(self, run: int) -> str:
        text = f"{sorted(self.wanted.must_equal.items(), key=str)}:{run}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def _draw_gap(self, block: int) -> PlannedSpan:
        return self._drawn(block, _GAP_EVERY_MS, _GAP_MS, _GAPS)

    def _outage(self, block: int) -> PlannedSpan:
        return self._drawn(block, _OUTAGE_EVERY_MS, _OUTAGE_MS, _OUTAGES)

    def _drawn(self, block: int, every_ms: int, lasts_ms: tuple[int, int], what: int) -> PlannedSpan:
        seed = self.wanted.seed
        lasts = round(between(*lasts_ms, seed, what, block, 1))
        start = block * every_ms + round(between(0, every_ms - lasts, seed, what, block, 2))
        return PlannedSpan(start, start + lasts)

    def _at_ms(self, number: int) -> int:
        """Return the time of a poll, which is a little late, as real polls are."""
        late = min(15, self.wanted.every_ms // 100)
        return number * self.wanted.every_ms + mixed(self.wanted.seed, _LATE, number) % (late + 1)

    @staticmethod
    def _is_down(at_ms: int, outages: list[PlannedSpan]) -> bool:
        return any(outage.from_ms <= at_ms < outage.to_ms for outage in outages)


_WORDS = (
    *("orders", "emails", "invoices", "thumbnails", "webhooks", "reminders", "exports", "payments", "imports"),
    *("reports", "refunds", "signups", "audit", "search-index", "push", "billing", "shipping", "returns"),
)


class Role(Enum):
    """The behaviour of a queue: its share of all queues, and the least and the most messages per second."""

    # All queues without another role are quiet.
    QUIET = 0.0, 0.0002, 0.01
    STEADY = 0.2, 0.05, 6.0
    BURSTY = 0.05, 0.02, 0.5
    STALLING = 0.04, 0.1, 2.0
    GROWING = 0.005, 0.5, 2.0
    AGED = 0.01, 0.02, 0.3
    POISONED = 0.01, 0.02, 1.0
    # Recreated every few days.
    ANEW = 0.005, 0.05, 1.0
    # Dead letters: nothing is received.
    LETTERS = 0.005, 0.000_01, 0.0002

    def __init__(self, part: float, least: float, most: float) -> None:
        self.part, self.least, self.most = part, least, most

    def rate_s(self, drawn: float) -> float:
        """Return a rate for a number in [0, 1). It is log-uniform: ten times as much is as likely as a tenth."""
        rate_s: float = self.least * (self.most / self.least) ** drawn
        return rate_s


# The roles of the first queues, so that a small history has all of them.
_FIRST = (
    *(Role.STEADY, Role.STALLING, Role.GROWING, Role.POISONED, Role.BURSTY, Role.QUIET, Role.AGED, Role.ANEW),
    Role.LETTERS,
)
_OF_LISTS = (Role.STEADY, Role.STALLING, Role.GROWING, Role.QUIET)
_LISTS = 201
# The longest time until somebody intervenes.
_POISON_MAX, _POISON_MAX_S = 200, 36_000
_VTS = (30, 30, 60, 120, 300)
_SIZES = (65536, 65536, 65536, -1, 10240)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: ``rate_s`` messages a second on average, received after ``wait_ms`` and deleted ``hold_ms`` later.

    ``daily`` and ``weekly`` are the amplitudes of the rate, ``peak_ms`` the time of day when it is highest, and
    ``again`` the share of receives that are redeliveries.
    """

    number: int
    seed: int
    name: str
    role: Role
    rate_s: float
    wait_ms: float
    hold_ms: float
    daily: float
    weekly: float
    peak_ms: float
    again: float
    vt_s: float
    delay_s: float
    maxsize: int

    @property
    def poison_most(self) -> int:
        """How often a poison message is received until somebody deletes it."""
        return min(_POISON_MAX, int(_POISON_MAX_S / self.vt_s))


def queue_of(number: int, seed: int) -> Queue:
    """Return a queue of a seed; it does not depend on the number of queues."""
    role = _FIRST[number] if number < len(_FIRST) else _role(share(seed, number, 1))
    vt_s = _VTS[int(share(seed, number, 2) * len(_VTS))]
    return Queue(
        number,
        seed,
        f"{_WORDS[number % len(_WORDS)]}-{number:04d}",
        role,
        rate_s=role.rate_s(share(seed, number, 3)),
        wait_ms=200 * 20 ** share(seed, number, 4),
        hold_ms=min(100 * 100 ** share(seed, number, 5), vt_s * 300),
        daily=between(0.3, 0.65, seed, number, 6),
        weekly=between(0.05, 0.3, seed, number, 7),
        peak_ms=between(9, 17, seed, number, 8) * HOUR_MS,
        again=0.03 * share(seed, number, 9) ** 2,
        vt_s=float(vt_s),
        delay_s=30.0 if share(seed, number, 10) < 0.03 else 0.0,
        maxsize=_SIZES[int(share(seed, number, 11) * len(_SIZES))],
    )


def list_queue_of(number: int, seed: int) -> Queue:
    """Return a list queue of a seed: steady, stalling, growing or quiet in turn, without delays."""
    role = _OF_LISTS[number % len(_OF_LISTS)]
    found = queue_of(number, mixed(seed, _LISTS))
    rate_s = role.rate_s(share(found.seed, number, 3))
    return replace(found, name=f"queue:{found.name}", role=role, rate_s=rate_s, delay_s=0.0)


def _role(drawn: float) -> Role:
    for role in Role:
        drawn -= role.part
        if drawn < 0:
            return role
    return Role.QUIET


WEEK_MS = 7 * DAY_MS
# The time without a receive after which a queue is stalled.
_STALLED_MS = 60_000
# How much an hour differs from the usual rate.
_UNEVEN, _BURSTS_A_DAY = 0.35, 3
_POISON_EVERY_MS = DAY_MS
_LIFE_MS = 4 * DAY_MS
# How many hours, days and weeks of a queue are kept.
_KEPT = 4_000
# All other queues are recreated once in such a span.
_ERA_MS = 400 * DAY_MS
# What each number is drawn for.
_HOURS, _BURSTS, _LAGS, _POISON, _LIFE = 21, 22, 23, 24, 25


class Knots(NamedTuple):
    """A queue's day: its counters and its lag at each of these times, linear in between.

    ``sent``, ``received`` and ``deleted`` count messages since the queue was created; recreating it is a step down,
    with two knots at one time. ``events`` has the event from each knot to the next.
    """

    at_ms: list[float]
    sent: list[float]
    received: list[float]
    deleted: list[float]
    lag_ms: list[float]
    events: list["CurveState"]


class CurveState(NamedTuple):
    """The state between two knots; ``poison_ms`` is when the poison message was first received, None for none.

    ``since_ms`` is when the consumers fell behind, None if they keep up.
    """

    is_stalled: bool
    is_growing: bool
    since_ms: float | None
    poison_ms: float | None
    poisons: int
    """The number of poison messages until now."""
    created_ms: float


class Counts(NamedTuple):
    """A queue's counters and event at a time."""

    sent: float
    received: float
    deleted: float
    lag_ms: float
    created_ms: float
    event: CurveState


class _Lag(NamedTuple):
    """A period in which consumers fall behind: the lag grows by ``slope`` from ``from_ms`` on, then shrinks to 0."""

    from_ms: float
    to_ms: float
    slope: float
    good_ms: float


class Curve:
    """The counters of one queue over time."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        # Other days are not needed again soon. Two threads may compute the same value, which is harmless.
        self._sent_by = lru_cache(_KEPT)(self._draw_sent_by)
        self._bursts_of = lru_cache(_KEPT)(self._draw_bursts)
        self._lags_of = lru_cache(_KEPT)(self._draw_lags)

    def day(self, from_ms: int) -> Knots:
        """Return the day that begins there."""
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
        """Return the counters at a time."""
        created_ms = self.created_ms(at_ms)
        return Counts(*self._counters(at_ms, created_ms), created_ms, self._event(at_ms, created_ms))

    def sent_at(self, first: int, last: int, at_ms: int) -> Iterator[float]:
        """Yield when each message of a range of numbers was sent; all of them were sent before ``at_ms``."""
        created_ms = self.created_ms(at_ms)
        start = self._sent(created_ms)
        # Go back to a time before the first of them.
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
        """Return when the queue that exists at a time was created."""
        life = math.floor(at_ms / self._life_ms)
        born = self._born(life)
        return born if born <= at_ms else self._born(life - 1)

    def unusual(self, from_ms: int, to_ms: int) -> list[PlannedSpan]:
        """Return when consumers fell behind, until they have caught up, and the bursts, in the weeks of this span."""
        lags = [(lag.from_ms, lag.good_ms) for lag in self._lags_near(from_ms, to_ms)]
        days = range(from_ms // DAY_MS, to_ms // DAY_MS + 1)
        bursts = [(at_ms, at_ms + lasts_ms) for day in days for at_ms, lasts_ms, _ in self._bursts_of(day)]
        return [PlannedSpan(math.floor(begin), math.ceil(end)) for begin, end in sorted(lags + bursts)]

    @property
    def _life_ms(self) -> int:
        return _LIFE_MS if self._queue.role is Role.ANEW else _ERA_MS

    def _born(self, life: int) -> float:
        # At least half a life apart.
        queue = self._queue
        return life * self._life_ms + between(0, self._life_ms / 2, queue.seed, queue.number, _LIFE, life)

    def _knot(self, knots: Knots, at_ms: float, next_ms: float, *, before: bool = False) -> None:
        middle_ms = (at_ms + next_ms) / 2
        created_ms = self.created_ms(at_ms - 1 if before else middle_ms)
        for values, value in zip(knots[:5], (at_ms, *self._counters(at_ms, created_ms)), strict=True):
            values.append(value)
        knots.events.append(self._event(middle_ms, created_ms))

    def _counters(self, at_ms: float, created_ms: float) -> tuple[float, float, float, float]:
        """Return the messages sent, received and deleted since the queue was created, and the lag."""
        start, lag_ms = self._sent(created_ms), self._lag(at_ms)
        received_ms = at_ms - lag_ms
        times = at_ms, received_ms, received_ms - self._queue.hold_ms
        sent, received, deleted = (max(0.0, self._sent(until_ms) - start) for until_ms in times)
        return sent, received, deleted, lag_ms

    def _event(self, at_ms: float, created_ms: float) -> CurveState:
        is_stalled, is_growing = self._queue.role is Role.LETTERS, False
        since_ms = created_ms if is_stalled else None
        for lag in self._lags_near(at_ms, at_ms):
            if lag.from_ms <= at_ms < lag.to_ms:
                is_stalled = lag.slope == 1 and at_ms >= lag.from_ms + _STALLED_MS
                is_growing = lag.slope < 1 or not is_stalled
                since_ms = lag.from_ms
        poison_ms, poisons = None, 0
        if self._queue.role is Role.POISONED:
            for first_ms, last_ms in self._poisons(at_ms, at_ms):
                poisons = round(first_ms // _POISON_EVERY_MS) - round(created_ms // _POISON_EVERY_MS)
                poison_ms = first_ms if first_ms <= at_ms < last_ms else None
                poisons += first_ms <= at_ms
        return CurveState(is_stalled, is_growing, since_ms, poison_ms, poisons, created_ms)

    def _sent(self, at_ms: float) -> float:
        """Return the number of messages sent until a time, from a fixed origin on."""
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

    def _draw_sent_by(self, hour: int) -> float:
        smooth = self._smooth(hour)
        more = _UNEVEN * (self._smooth(hour + 1) - smooth)
        return smooth + more * share(self._queue.seed, self._queue.number, _HOURS, hour)

    def _smooth(self, hour: int) -> float:
        """Return the messages until an hour: the integral of a rate that varies by day and week."""
        queue, at_ms, turn = self._queue, hour * HOUR_MS, 2 * math.pi
        daily = queue.daily * DAY_MS / turn * math.sin(turn * (at_ms - queue.peak_ms) / DAY_MS)
        # 1970 began on a Thursday: the week is highest there.
        weekly = queue.weekly * WEEK_MS / turn * math.sin(turn * (at_ms % WEEK_MS - DAY_MS / 2) / WEEK_MS)
        return queue.rate_s / 1000 * (at_ms + daily + weekly)

    def _draw_bursts(self, day: int) -> list[tuple[float, float, float]]:
        """Return the start, duration and number of messages of each burst; every day has the same number of bursts."""
        queue = self._queue
        if queue.role is not Role.BURSTY:
            return []
        size, slot_ms = queue.rate_s * 20_000, DAY_MS / _BURSTS_A_DAY
        starts = (between(0.1, 0.8, queue.seed, queue.number, _BURSTS, day, n) for n in range(_BURSTS_A_DAY))
        return [(day * DAY_MS + (n + start) * slot_ms, 5 * MINUTE_MS, size) for n, start in enumerate(starts)]

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
        """Return the lags in the weeks of this span; each ends in the week in which it begins."""
        weeks = range(math.floor(from_ms / WEEK_MS), math.floor(to_ms / WEEK_MS) + 1)
        return [lag for week in weeks for lag in self._lags_of(week)]

    def _draw_lags(self, week: int) -> list[_Lag]:
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
                return [lag(at, drawn(5, 45, n, 2) * MINUTE_MS, 1, drawn(3, 9, n, 3)) for n, at in enumerate(starts)]
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
                # In some bursts the consumers fall behind.
                first = begin_ms // DAY_MS
                bursts = [burst for day in range(first, first + 7) for burst in self._bursts_of(day)]
                chosen = [burst for n, burst in enumerate(bursts) if drawn(0, 1, n, 1) < 0.5]
                return [lag(at_ms, lasts_ms, 0.6, drawn(1, 3, n, 2)) for n, (at_ms, lasts_ms, _) in enumerate(chosen)]
            case Role.STEADY | Role.POISONED if drawn(0, 1, 0) < 0.25:
                return [lag(begin_ms + drawn(0, 6.5, 1) * DAY_MS, drawn(2, 15, 2) * MINUTE_MS, 1, drawn(3, 9, 3))]
        return []

    def _poisons(self, from_ms: float, to_ms: float) -> list[tuple[float, float]]:
        """Return the periods with a poison message, one on each day of this span."""
        queue, found = self._queue, []
        for block in range(math.floor(from_ms / _POISON_EVERY_MS), math.floor(to_ms / _POISON_EVERY_MS) + 1):
            start = block * _POISON_EVERY_MS + between(0, 0.5, queue.seed, queue.number, _POISON, block) * DAY_MS
            found.append((start, start + queue.poison_most * queue.vt_s * 1000))
        return found
