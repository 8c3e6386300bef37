"""From the rows of a poll to the states of RSMQ queues: rates, totals, recent history, and inputs of the verdicts."""

import gc
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import ceil, inf, nan
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from rsmq_tui.monitor.model import Drain, QueueState, Totals, Verdict
from rsmq_tui.monitor.peek import QUICK_QUEUES, SHOWN_QUEUES, Look, Looked, flight_times
from rsmq_tui.monitor.reading import Attributes, read_attributes, read_id, read_score, read_total
from rsmq_tui.monitor.text import plural
from rsmq_tui.monitor.tracking.forecast import FORECAST_EVERY_MS, KNOWN_MS, WAITING_SHARE, Ages, Limit, limit_of
from rsmq_tui.monitor.tracking.series import (
    STILL,
    UNKNOWN,
    Moment,
    Past,
    QueueSeries,
    Rates,
    Reference,
    Sample,
    TotalsPoint,
    Trend,
    or_none,
    or_unknown,
)
from rsmq_tui.monitor.tracking.verdicts import OK, Judgement, Thresholds, Troubles, drain_of
from rsmq_tui.protocol import TIME_FROM, Flight, MessagePage, PageLook, Row


class RunningTotals:
    """Sums over all queues. A poll calls ``begin``, then ``replace`` for each new state, then ``totals``.

    A state that is not replaced in a poll has no rates, or rates of 0, so only the rates of new states are added up.
    """

    def __init__(self) -> None:
        self._depth = self._ready = self._hidden = 0
        self._measured = 0
        self._arrivals_s = self._deletes_s = self._receives_s = 0.0
        self._verdicts = dict.fromkeys(Verdict, 0)
        # When the longest-ready message became due, and its queue; None if both must be searched for.
        self._oldest: tuple[float, str] | None = None

    def begin(self) -> None:
        """Start a poll."""
        self._arrivals_s = self._deletes_s = self._receives_s = 0.0

    def replace(self, before: QueueState | None, after: QueueState | None) -> None:
        """Replace a queue's state; ``before`` is None for a new queue, ``after`` for one that is gone."""
        if before is not None:
            self._verdicts[before.verdict] -= 1
            self._depth -= before.depth or 0
            self._ready -= before.ready or 0
            self._hidden -= before.hidden or 0
            self._measured -= before.arrivals_s is not None
        if after is not None:
            self._verdicts[after.verdict] += 1
            self._depth += after.depth or 0
            self._ready += after.ready or 0
            self._hidden += after.hidden or 0
            if after.arrivals_s is not None:
                self._measured += 1
                self._arrivals_s += after.arrivals_s
                self._deletes_s += after.deletes_s or 0.0
                self._receives_s += after.receives_s or 0.0
        if self._oldest is not None:
            self._follow_oldest(self._oldest, before, after)

    def totals(self, states: Iterable[QueueState]) -> Totals:
        """Return the sums; ``states`` are all current states, ordered by name."""
        if self._oldest is None:
            self._oldest = _oldest_of(states)
        since_ms, name = self._oldest
        return Totals(
            depth=self._depth,
            ready=self._ready,
            hidden=self._hidden,
            arrivals_s=self._arrivals_s if self._measured else None,
            deletes_s=self._deletes_s if self._measured else None,
            receives_s=self._receives_s if self._measured else None,
            oldest=name or None,
            ready_since_ms=int(since_ms) if name else None,
            verdicts=self._verdicts.copy(),
        )

    def _follow_oldest(self, oldest: tuple[float, str], before: QueueState | None, after: QueueState | None) -> None:
        since_ms = None if after is None else after.ready_since_ms
        if after is not None and since_ms is not None and (since_ms, after.name) <= oldest:
            self._oldest = since_ms, after.name
        elif before is not None and before.name == oldest[1]:
            self._oldest = None


def _oldest_of(states: Iterable[QueueState]) -> tuple[float, str]:
    """Return the earliest time and its queue, the first of equals; (inf, "") if no message is ready."""
    oldest_ms, oldest = inf, ""
    for state in states:
        since_ms = state.ready_since_ms
        if since_ms is not None and since_ms < oldest_ms:
            oldest_ms, oldest = since_ms, state.name
    return oldest_ms, oldest


# The buckets for rates, for the drain, and for growth over the whole of its span and over the latter half.
References = tuple[Reference | None, Reference | None, Reference | None, Reference | None]


# A queue that did not grow over this span is not growing: growth that starts now takes ``growing_ms`` to show.
MEASURED_MS = 10_000


class Tracker(ABC):
    """Turns one queue's raw rows into states, one poll after another.

    It keeps the queue's series in ``trend``, the first sample since the last gap, and the troubles. It knows when
    monitoring of the queue began, and whether that is long enough to rule out growth. ``stale_from_ms`` is when the
    state changes even if the row does not. ``look`` holds the results of message samples; it is None for a kind that
    is not sampled. ``own_change_ms`` is the time since the last poll if a change of this program may have changed the
    row meanwhile, otherwise 0. ``memory_limit`` is when the memory of the server will be full. A memory
    has ``NUMBERS`` numbers of it.
    """

    NUMBERS: ClassVar[int]
    __slots__ = (
        "_changed",
        "_earlier",
        "_first",
        "_growth_known_ms",
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
        # The last sample that a change of this program may have affected.
        self._changed: Sample | None = None
        self.memory_limit: Limit | None = None
        self._name = name
        self._place = place
        self._thresholds = thresholds
        self._troubles = Troubles()
        self._first: Sample | None = None
        # For each reference: the time of its bucket, and this queue's sample there.
        self._earlier: list[tuple[int, Sample] | None] = [None] * 4
        self._is_resumed = False
        # Whether the queue was already idle before monitoring, for an unknown time.
        self._is_idle_longer = False
        self._watched_from_ms = 0
        # When it will be known whether the queue grows; 0 if it is known.
        self._growth_known_ms = 0
        self._may_grow = False
        self._limit: Limit | None = None
        self._limit_due_ms = 0

    @abstractmethod
    def update(self, row: Row, at_ms: int, references: References) -> QueueState:
        """Return the state after a poll's row."""

    def resume(self) -> None:
        """Note that polls failed until now."""
        self._is_resumed = True
        self.stale_from_ms = 0

    def remember(self) -> tuple[int, ...]:
        """Return ``NUMBERS`` numbers for ``restore``."""
        if self.sample is None:
            return (UNKNOWN,) * self.NUMBERS
        return (*self.sample, self._is_idle_longer, *self._remember())

    def remember_more(self) -> Any:
        """Return what else ``restore`` needs, as a value that JSON can hold; most queues need nothing."""
        return self._troubles.remember()

    def restore(self, numbers: "array[int]", more: Any) -> None:
        """Continue from what an earlier run knew, as if polls had failed since: call ``resume`` afterwards.

        Raises ``ValueError`` or ``TypeError`` if ``more`` is not valid.
        """
        at_ms, depth, ready, totalsent, totalrecv, is_idle_longer, *rest = numbers
        if at_ms == UNKNOWN:
            return
        self._restore(rest, more)
        self.sample = self._first = self.series.sample(at_ms, depth, ready, totalsent, totalrecv)
        self._is_idle_longer = bool(is_idle_longer)

    @abstractmethod
    def _remember(self) -> tuple[int, ...]:
        """Return the numbers that only queues of this kind have."""

    @abstractmethod
    def _restore(self, numbers: list[int], more: Any) -> None:
        """Take over what is known of a queue of this kind."""

    def _watch_from(self, from_ms: int, *, has_grown: bool = False) -> None:
        """Start monitoring: whether the queue grew before is unknown.

        If it grew until polls failed, and holds no fewer messages now (``has_grown``), it may turn out to still grow:
        then it has grown all the time.
        """
        limits = self._thresholds
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
        if sample.at_ms >= self._growth_known_ms or (is_measured and not grows):
            self._growth_known_ms = 0
            return 0
        self._may_grow = self._may_grow or sample.depth >= limits.growing_messages
        return self._growth_known_ms if self._may_grow else 0

    def _limit_at(
        self, sample: Sample, due_ms: int | None, *, is_still: bool, ages: Ages | None = None
    ) -> Limit | None:
        """Return the limit that the queue reaches first; of a queue that moves, as of the last ``FORECAST_EVERY_MS``.

        The first ready message became due at ``due_ms``, None for unknown; ``ages`` as in ``limit_of``.
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
            )
        return self._limit

    def _forecast_due_ms(self, sample: Sample, due_ms: int) -> tuple[int, ...]:
        """Return when the forecast of a queue that is still may change; its first message became due at ``due_ms``."""
        aged_ms = self._thresholds.aged_ms
        return due_ms + aged_ms, due_ms + ceil(WAITING_SHARE * aged_ms), self._known_from_ms(sample) + KNOWN_MS

    def _known_from_ms(self, sample: Sample) -> int:
        """Return from when on the samples of the series may be compared."""
        return max(self._watched_from_ms, (self._first or sample).at_ms)

    def _begin_at(self, sample: Sample | None) -> None:
        """Drop the samples before this one, or all of them if it is None."""
        self._first = sample
        self._earlier = [None] * 4

    def _rates_from(self, references: References, sample: Sample) -> tuple[Sample, Sample]:
        """Return the samples from which rates and the trend count: none spans a change of this program."""
        if self.own_change_ms:
            self._changed = sample
            self.series.note_change(sample.at_ms)
        earlier, before_trend = self._sample_at(0, references, sample), self._sample_at(1, references, sample)
        changed = self._changed
        if changed is None or changed.at_ms <= before_trend.at_ms:
            return earlier, before_trend
        return changed if changed.at_ms > earlier.at_ms else earlier, changed

    def _sample_at(self, which: int, references: References, sample: Sample) -> Sample:
        """Return the sample at a reference, or the first sample if the queue is younger than that bucket.

        Without a bucket, at the start or after a gap, it is ``sample`` itself: rates never span a gap.
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


_FOREVER = 1 << 62
_DIGITS_MAX = 15
# The number of elements in the row of a queue that holds messages; one more if the first message has no body.
_WHOLE_ROW = 5


class _Head(NamedTuple):
    """When the first message was sent, when it became due, and the problems of its id and score."""

    sent_ms: int | None = None
    due_ms: int | None = None
    problems: tuple[str, ...] = ()


_NO_HEAD = _Head()


class QueueTracker(Tracker):
    """Turns the rows of an RSMQ queue into states.

    Until ``stale_from_ms`` an unchanged row costs one comparison, so 10,000 quiet queues are cheap.
    """

    NUMBERS = 14
    __slots__ = (
        "_attributes",
        "_began_ms",
        "_created_ms",
        "_head",
        "_head_key",
        "_last_receive_ms",
        "_raw_fields",
        "_ready_since_ms",
        "_receives_known_ms",
    )
    look: Look

    def __init__(self, name: str, trend: Trend, thresholds: Thresholds, place: str = "") -> None:
        super().__init__(name, trend.add_queue(name), thresholds, place)
        self.look = Look()
        self._raw_fields: list[bytes | None] = []
        self._attributes = Attributes()
        self._head_key: tuple[bytes, bytes] | None = None
        self._head = _NO_HEAD
        self._last_receive_ms = 0
        self._ready_since_ms: int | None = None
        # When it will be known whether consumers receive the messages that were ready before monitoring; 0 if known.
        self._receives_known_ms = 0
        # When monitoring of the queue began; 0 if an earlier run monitored it.
        self._began_ms = 0
        # When the queue was created, empty, if that is less than ``growing_ms`` ago.
        self._created_ms: int | None = None

    def update(self, row: Row, at_ms: int, references: References) -> QueueState:
        """Return the state after a poll's row."""
        self.row = row
        fields, depth = row[0], row[1]
        broken = self._broken(fields, depth)
        if broken is not None:
            self.sample = self._first = None
            self.stale_from_ms = _FOREVER
            self.state = self._broken_state(broken, depth)
            return self.state
        problems: list[str] = []
        totalsent = _total("totalsent", fields[5], problems)
        totalrecv = _total("totalrecv", fields[6], problems)
        hidden = row[4] if depth else 0
        sample = Sample(at_ms, depth, depth - hidden, totalsent or 0, totalrecv or 0)
        head = self._read_head(row, at_ms) if depth else _NO_HEAD
        sent_ms, due_ms = head[:2] if sample.ready else (None, None)
        self._follow(sample, due_ms, never_received=totalrecv == 0)
        earlier, before_trend = self._rates_from(references, sample)
        rates, trend = sample.rates_since(earlier), sample.rates_since(before_trend)
        grows = rates is not None and rates.arrivals_s > rates.deletes_s
        growth_known_ms = 0
        if self._growth_known_ms:
            growth_known_ms = self._growth_known(sample, at_ms - earlier.at_ms, grows=grows)
        idle_since_ms = self._idle_since_ms()
        idle_ms = 0 if idle_since_ms is None else at_ms - idle_since_ms
        waiting_ms = 0 if due_ms is None else at_ms - due_ms
        # A queue cannot have grown by more than it holds.
        growth = self._growth(sample, references) if grows and depth >= self._thresholds.growing_messages else 0.0
        self._troubles.judge(self._thresholds, at_ms, idle_ms, waiting_ms, growth, self.look.found.poison)
        if depth and len(row) > _WHOLE_ROW:
            self.look.take_headless(at_ms)
        found = self.look.found
        limits = self._thresholds
        bodiless = _bodiless(found.missing, depth) if found.missing else None
        known_ms = max(growth_known_ms, self._receives_known_ms)
        if bodiless:
            judged = Judgement(Verdict.BROKEN)
        elif known_ms <= at_ms and not self._troubles.episodes:
            judged = OK
        else:
            judged = self._troubles.verdict(at_ms, limits.clear_ms, self._watched_from_ms, known_ms)
        drain, drain_s = drain_of(sample.ready, trend, rates, judged, limits)
        limit = self._limit_at(sample, due_ms, is_still=rates == trend == STILL)
        self.stale_from_ms = self._stale_from(sample, rates, trend, due_ms)
        attributes = self._attributes
        arrivals_s, deletes_s, receives_s = rates or (None, None, None)
        self.state = QueueState(
            self._name,
            "rsmq",
            depth,
            sample.ready,
            hidden,
            sent_ms,
            attributes.vt_s,
            attributes.delay_s,
            attributes.maxsize,
            attributes.created_ms,
            attributes.modified_ms,
            totalsent,
            totalrecv,
            arrivals_s,
            deletes_s,
            receives_s,
            found.poison,
            found.highest_rc,
            judged.verdict,
            judged.since_ms,
            drain,
            drain_s,
            bodiless,
            (*attributes.problems, *problems, *head.problems),
            self._place,
            None,
            None,
            due_ms,
            judged.pending_since_ms,
            judged.pending_until_ms,
            idle_since_ms,
            found.missing,
            found.looked,
            found.looked_all_ms,
            self._is_idle_longer,
            self.look.times if hidden else None,
            limit,
        )
        return self.state

    def _remember(self) -> tuple[int, ...]:
        found = self.look.found
        return (
            or_unknown(self._attributes.created_ms),
            self._last_receive_ms,
            or_unknown(self._ready_since_ms),
            self._receives_known_ms,
            found.poison,
            found.highest_rc,
            or_unknown(found.looked),
            or_unknown(found.looked_all_ms),
        )

    def _restore(self, numbers: list[int], more: Any) -> None:
        created_ms, last_receive_ms, ready_since_ms, receives_known_ms, poison, highest_rc, looked, looked_all_ms = (
            numbers
        )
        self._troubles.restore(more or [])
        self._attributes = Attributes(created_ms=or_none(created_ms))
        self._last_receive_ms, self._ready_since_ms = last_receive_ms, or_none(ready_since_ms)
        self._receives_known_ms = receives_known_ms
        if poison:
            self.look = Look.after(poison, highest_rc, or_none(looked), or_none(looked_all_ms))

    def _broken(self, fields: list[bytes | None] | bytes, depth: int | bytes) -> str | None:
        """Return why a queue cannot be read, or store its attributes and return None."""
        if isinstance(fields, bytes):
            self._raw_fields, self._attributes = [], Attributes()
            return "its attributes key is not a hash"
        attributes = fields[:5]
        if attributes != self._raw_fields:
            known, self._raw_fields = self._attributes, attributes
            self._attributes = read_attributes(attributes)
            if self._attributes.created_ms != known.created_ms:
                # Deleted and created again, or new.
                self._first = None
        if isinstance(depth, bytes):
            return "its messages key is not a sorted set"
        if self._attributes.broken is None:
            return None
        if not any(fields):
            return (
                f"it holds {depth:,} message ids but its attributes hash is gone: clients answer queueNotFound"
                if depth
                else "it is listed but has no keys: clients answer queueNotFound"
            )
        return self._attributes.broken

    def _broken_state(self, broken: str, depth: int | bytes) -> QueueState:
        attributes = self._attributes
        # fmt: off
        return QueueState(
            self._name, "rsmq", depth if isinstance(depth, int) else None, None, None, None,
            attributes.vt_s, attributes.delay_s, attributes.maxsize, attributes.created_ms, attributes.modified_ms,
            None, None, None, None, None, 0, 0, Verdict.BROKEN, None, Drain.UNKNOWN, None, broken, attributes.problems,
            self._place,
        )
        # fmt: on

    def _follow(self, sample: Sample, due_ms: int | None, *, never_received: bool) -> None:
        """Update the times that verdicts depend on."""
        before, at_ms = self.sample, sample.at_ms
        self.sample = sample
        if (
            self._first is None
            or before is None
            or sample.totalsent < before.totalsent
            or sample.totalrecv < before.totalrecv
        ):
            self._begin(sample, due_ms, never_received=never_received)
            return
        was_received = sample.totalrecv > before.totalrecv
        if was_received:
            self._last_receive_ms = at_ms
            self._receives_known_ms = 0
            self._is_idle_longer = False
        self._forget_gone_head(due_ms)
        if not sample.ready:
            self._ready_since_ms = None
            self._receives_known_ms = 0
            self._is_idle_longer = False
        elif self._ready_since_ms is None:
            self._ready_since_ms = at_ms
        if self._is_resumed:
            self._is_resumed = False
            self._watch_from(at_ms, has_grown=sample.depth >= before.depth)
            # It grew during the outage or before, which says nothing about now.
            self._created_ms = None
            # A receive happened during the outage, at an unknown time.
            self._receives_known_ms = at_ms + self._thresholds.stalled_ms if was_received and sample.ready else 0
            if self._idle_since_ms() == at_ms:
                self._is_idle_longer = True

    def _begin(self, sample: Sample, due_ms: int | None, *, never_received: bool) -> None:
        """Start afresh with a queue that is new, readable again, or recreated: earlier samples do not count.

        In a queue without any receive, a ready message has waited since it became due, or since the queue was created:
        older messages may have been moved there. Otherwise the time of the last receive is unknown, unless the first
        message became due recently, because consumers receive the first one first.
        """
        at_ms, limits, created_ms = sample.at_ms, self._thresholds, self._attributes.created_ms
        self._begin_at(sample)
        self._is_resumed = False
        self.look = Look()
        self._troubles.forget()
        is_new = created_ms is not None and at_ms - limits.growing_ms < created_ms <= at_ms
        self._created_ms = created_ms if is_new else None
        self._watch_from(at_ms if self._created_ms is None else self._created_ms)
        self._receives_known_ms = 0
        self._is_idle_longer = False
        self._began_ms = at_ms
        self._ready_since_ms = at_ms if sample.ready else None
        if due_ms is not None and (never_received or at_ms - due_ms < limits.stalled_ms):
            created_ms = 0 if created_ms is None or created_ms > at_ms else created_ms
            self._ready_since_ms = min(max(due_ms, created_ms), at_ms)
        elif sample.ready:
            self._receives_known_ms = at_ms + limits.stalled_ms
            self._is_idle_longer = True
        self._last_receive_ms = at_ms if self._ready_since_ms is None else self._ready_since_ms

    def _forget_gone_head(self, due_ms: int | None) -> None:
        """Count the time before monitoring from the first message that is there, which is all that is known of it."""
        since_ms = self._ready_since_ms
        if due_ms is None or since_ms is None or since_ms >= self._began_ms:
            return
        since_ms = max(since_ms, min(due_ms, self._began_ms))
        if self._last_receive_ms == self._ready_since_ms:
            self._last_receive_ms = since_ms
        self._ready_since_ms = since_ms

    def _idle_since_ms(self) -> int | None:
        """Return since when messages are ready and none was received; None if none is ready."""
        return None if self._ready_since_ms is None else max(self._last_receive_ms, self._ready_since_ms)

    def _read_head(self, row: Row, at_ms: int) -> _Head:
        key = (row[2], row[3])
        if key != self._head_key:
            due_ms, due_problem = read_score(row[3].decode("latin-1"))
            sent_ms, id_problem = read_id(row[2].decode("utf-8", "surrogateescape"), at_ms)
            # A score such as 0, set by hand, means 'at once' and is not a time.
            visible_ms = int(due_ms) if due_ms is not None and due_ms >= TIME_FROM else None
            sent_ms = visible_ms if sent_ms is None else int(sent_ms)
            problems = tuple(problem for problem in (due_problem, id_problem) if problem)
            self._head_key = key
            self._head = _Head(sent_ms, sent_ms if visible_ms is None else visible_ms, problems)
        return self._head

    def _growth(self, sample: Sample, references: References) -> float:
        earlier = self._sample_at(2, references, sample)
        if earlier.at_ms > sample.at_ms - self._thresholds.growing_ms:
            if self._created_ms is None:
                return 0.0
            earlier = Sample(self._created_ms, 0, 0, 0, 0)
        return self._thresholds.growth(earlier, self._sample_at(3, references, sample), sample)

    def _stale_from(self, sample: Sample, rates: Rates | None, trend: Rates | None, due_ms: int | None) -> int:
        if rates != STILL or trend != STILL:
            return 0
        limits, due = self._thresholds, [_FOREVER]
        if self._troubles.episodes:
            due += self._troubles.ends_ms(limits.clear_ms)
        if (idle_since_ms := self._idle_since_ms()) is not None:
            due.append(idle_since_ms + limits.stalled_ms)
        if due_ms is not None:
            due += self._forecast_due_ms(sample, due_ms)
        if self._growth_known_ms:
            due += [self._growth_known_ms, self._watched_from_ms + MEASURED_MS]
            if self._first is not None:
                due.append(self._first.at_ms + MEASURED_MS)
        return min(moment for moment in due if moment > sample.at_ms)


def _bodiless(missing: int, depth: int) -> str | None:
    if not missing or not depth:
        return None
    has = "has" if missing == 1 else "have"
    return f"{plural(missing, 'message')} {has} no body: consumers receive only an id"


def _total(name: str, raw: bytes | None, problems: list[str]) -> int | None:
    # Fast path: nearly every counter is a plain number.
    if raw is not None and len(raw) <= _DIGITS_MAX and raw.isdigit():
        return int(raw)
    return read_total(name, raw, problems)


# Rates span about ten seconds, the drain estimate a minute.
RATE_SPAN_MS = 10_000
DRAIN_SPAN_MS = 60_000


# Stands for the sample of a queue that could not be read.
_NO_SAMPLE = (nan,) * 5

NewTracker = Callable[[str, Trend, Thresholds, str], Tracker]

# Limits of the walk in one poll: messages read, queues read, and queues considered.
WALK_MESSAGES = 250
WALK_QUEUES = 20
_CONSIDERED = 500


class Rotation:
    """Chooses the queues that each poll samples, in turn."""

    def __init__(self) -> None:
        self._quick_index = 0
        self._shown_index = 0
        self._walk_index = 0

    def quick(self, names: Sequence[str], shown: Sequence[str]) -> Sequence[str]:
        """Return the queues whose receive counts this poll reads; those that are ``shown`` have more turns."""
        start = self._quick_index if self._quick_index < len(names) else 0
        looked = names[start : start + QUICK_QUEUES]
        self._quick_index = start + len(looked)
        start = self._shown_index if self._shown_index < len(shown) else 0
        more = shown[start : start + SHOWN_QUEUES]
        self._shown_index = start + len(more)
        return list(dict.fromkeys((*looked, *more)))

    def pages(self, names: Sequence[str], trackers: Mapping[str, Tracker], at_ms: int) -> list[MessagePage]:
        """Return the pages of messages that this poll reads."""
        pages: list[MessagePage] = []
        budget = WALK_MESSAGES
        for _ in range(min(len(names), _CONSIDERED)):
            if budget <= 0 or len(pages) == WALK_QUEUES:
                break
            self._walk_index = self._walk_index + 1 if self._walk_index + 1 < len(names) else 0
            tracker = trackers.get(names[self._walk_index])
            if tracker is None or tracker.look is None or tracker.sample is None or not tracker.sample.depth:
                continue
            page = tracker.look.next_page(names[self._walk_index], tracker.row, at_ms, budget)
            if page is not None:
                pages.append(page)
                budget -= min(budget, tracker.sample.depth)
        return pages


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make thousands of objects, none of them garbage: to look for some in between would double the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Sampler:
    """Keeps a tracker for each queue. A poll calls ``begin``, then ``take`` as rows arrive, then ``finish``.

    ``place`` names the server if there are several; ``new_tracker`` makes a tracker for the kind of queue.
    """

    def __init__(self, thresholds: Thresholds, place: str = "", new_tracker: NewTracker = QueueTracker) -> None:
        self.trend = Trend()
        self._thresholds = thresholds
        self._place = place
        self._new_tracker = new_tracker
        self._trackers: dict[str, Tracker] = {}
        self._states: list[QueueState] = []
        self._totals = RunningTotals()
        self._rotation = Rotation()
        self._shown: Sequence[str] = ()
        self._at_ms = 0
        self._since_poll_ms = 0
        self._references: References = (None, None, None, None)
        # The queues that this program changes, and how many polls have begun since.
        self._own_changes: dict[str, int] = {}
        self._memory_limit: Limit | None = None

    def note_own_change(self, names: Iterable[str]) -> None:
        """Note that this program changes these queues: what the running poll and the next one see may be its work."""
        self._own_changes |= dict.fromkeys(names, 0)

    def begin(self, at_ms: int, memory_limit: Limit | None = None) -> None:
        """Start a poll made at that server time; ``memory_limit`` is when the memory of the server will be full."""
        self._memory_limit = memory_limit
        self._since_poll_ms = at_ms - self._at_ms
        self._at_ms = at_ms
        self._states = []
        self._own_changes = {name: polls + 1 for name, polls in self._own_changes.items() if not polls}
        self._totals.begin()
        growing_ms = self._thresholds.growing_ms
        reference = self.trend.reference
        self._references = (
            reference(at_ms, RATE_SPAN_MS),
            reference(at_ms, DRAIN_SPAN_MS),
            reference(at_ms, growing_ms),
            reference(at_ms, growing_ms // 2),
        )

    def take(self, names: Sequence[str], rows: Iterable[Row]) -> None:
        """Process the rows of these queues."""
        trackers, at_ms, keep = self._trackers, self._at_ms, self._states.append
        for name, row in zip(names, rows, strict=True):
            tracker = trackers.get(name)
            if tracker is None:
                tracker = trackers[name] = self._new_tracker(name, self.trend, self._thresholds, self._place)
            before = tracker.state
            if before is not None and at_ms < tracker.stale_from_ms and (row is tracker.row or row == tracker.row):
                keep(before)
                continue
            tracker.own_change_ms = self._since_poll_ms if name in self._own_changes else 0
            tracker.memory_limit = self._memory_limit
            state = tracker.update(row, at_ms, self._references)
            self._totals.replace(before, state)
            keep(state)

    def finish(self) -> tuple[tuple[QueueState, ...], Totals]:
        """End the poll: drop queues that are gone, store a bucket if one is due, return the states and their sums."""
        states = tuple(self._states)
        if len(states) != len(self._trackers):
            for name in self._trackers.keys() - {state.name for state in states}:
                self._totals.replace(self._trackers.pop(name).state, None)
                self.trend.remove_queue(name)
        if self.trend.is_due(self._at_ms):
            self.trend.open_bucket(self._at_ms)
            for tracker in self._trackers.values():
                tracker.series.append(tracker.sample)
        totals = self._totals.totals(states)
        self.trend.add_totals(
            TotalsPoint(
                self._at_ms, totals.ready, totals.hidden, totals.arrivals_s, totals.deletes_s, totals.receives_s
            )
        )
        return states, totals

    def moment(self) -> Moment:
        """Return what is known after the last poll, to be kept for another run."""
        trackers = self._trackers
        samples = [_NO_SAMPLE if tracker.sample is None else tracker.sample for tracker in trackers.values()]
        counters = [array("d", map(itemgetter(column), samples)) for column in range(1, 5)]
        numbers, more = array("q"), {}
        for name, tracker in trackers.items():
            try:
                numbers.extend(array("q", tracker.remember()))
            except OverflowError:
                # Clients may write any number.
                numbers.extend(array("q", [UNKNOWN]) * tracker.NUMBERS)
            if rest := tracker.remember_more():
                more[name] = rest
        return Moment(self._at_ms, list(trackers), counters, list(self.trend.totals), numbers, more)

    def restore(self, past: Past, at_ms: int) -> None:
        """Continue from what an earlier run knew, as if polls had failed until now."""
        last, count = past.last, len(past.names)
        width = len(last.numbers) // max(1, len(last.names))
        starts = dict(zip(last.names, range(0, len(last.numbers), width), strict=True)) if width else {}
        self.trend.times_ms += past.times_ms
        self.trend.totals.extend(last.totals)
        with _uncollected():
            for index, name in enumerate(past.names):
                tracker = self._new_tracker(name, self.trend, self._thresholds, self._place)
                tracker.series.fill(column[index::count] for column in past.columns)
                start = starts.get(name)
                if start is not None and width == tracker.NUMBERS:
                    # If it is not valid, only its charts go on.
                    with suppress(ValueError, TypeError):
                        tracker.restore(last.numbers[start : start + width], last.more.get(name))
                self._trackers[name] = tracker
        self.resume(at_ms)

    def resume(self, at_ms: int) -> None:
        """Note that polls failed until now."""
        self.trend.resume(at_ms)
        for tracker in self._trackers.values():
            tracker.resume()

    def sample_first(self, names: Sequence[str]) -> None:
        """Give these queues more turns from now on."""
        self._shown = names

    def looks(self, names: Sequence[str]) -> tuple[Sequence[str], list[MessagePage]]:
        """Return the queues whose receive counts this poll samples, and the pages of messages that it reads."""
        shown = [name for name in self._shown if name in self._trackers]
        return self._rotation.quick(names, shown), self._rotation.pages(names, self._trackers, self._at_ms)

    def take_receive_counts(self, names: Sequence[str], counts: Iterable[Sequence[int]]) -> None:
        """Store the sampled receive counts of these queues: (messages looked at, poison, highest count) each."""
        for name, (looked, poison, highest_rc) in zip(names, counts, strict=True):
            tracker = self._trackers.get(name)
            if tracker is not None and tracker.look is not None and tracker.sample is not None:
                before = tracker.look.found
                tracker.look.take_counts(looked, poison, highest_rc, tracker.sample.depth, self._at_ms)
                _spread(tracker, before)

    def take_flights(self, names: Sequence[str], flights: Iterable[Sequence[Flight]]) -> None:
        """Store how long the sampled messages of these queues waited and are being worked on."""
        for name, found in zip(names, flights, strict=True):
            tracker = self._trackers.get(name)
            if tracker is None or tracker.look is None or tracker.state is None:
                continue
            times = flight_times(found, tracker.state.vt_s, self._at_ms)
            if times is not None:
                tracker.series.add_flights(times)
            if times != tracker.look.times:
                tracker.look.times = times
                tracker.stale_from_ms = 0

    def take_pages(self, pages: Iterable[tuple[MessagePage, PageLook]]) -> None:
        """Store what the sampled pages of messages contained."""
        for page, found in pages:
            tracker = self._trackers.get(page.queue)
            if tracker is not None and tracker.look is not None:
                before = tracker.look.found
                tracker.look.take_page(found, tracker.row, self._at_ms)
                _spread(tracker, before)


def _spread(tracker: Tracker, before: Looked) -> None:
    """Make the next poll compute a new state if a sample has changed, or found trouble again."""
    found = tracker.look.found if tracker.look is not None else before
    is_same = found[:-1] == before[:-1] and (found.looked_all_ms is None) == (before.looked_all_ms is None)
    if not is_same or (found != before and (found.poison or found.missing)):
        tracker.stale_from_ms = 0
