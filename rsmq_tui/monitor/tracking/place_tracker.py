"""From the rows of a poll to the states of all queues of a place, their sums, and the messages to be read next."""

import gc
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import filterfalse, islice
from math import fsum, inf
from operator import itemgetter
from typing import Any, NamedTuple, cast

from rsmq_tui.monitor.messages.peek import QUICK_QUEUES, SHOWN_QUEUES, Look, Looked, flight_times
from rsmq_tui.monitor.model import ChangedStates, QueueState, Totals, Verdict
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.monitor.tracking.rsmq_tracker import RsmqTracker
from rsmq_tui.monitor.tracking.series import COUNTERS, NO_SAMPLE, TREND_MS, UNKNOWN, FlightTimes
from rsmq_tui.monitor.tracking.tracker import DRAIN_SPAN_MS, RATE_SPAN_MS, NewTracker, ReferenceBuckets, Tracker
from rsmq_tui.monitor.tracking.trend import DayBucket, TotalsPoint, Trend
from rsmq_tui.monitor.tracking.verdicts import GROWTH_SAMPLES_MIN, Thresholds
from rsmq_tui.protocol import Flight, MessagePage, PageLook, Row
from rsmq_tui.protocol.polling import DueTimes

# Limits of the walk in one poll: messages read, queues read, and queues considered.
WALK_MESSAGES = 250
WALK_QUEUES = 20
_CONSIDERED = 500
# So many queues are updated without a pause: that takes a few milliseconds.
_STEP_QUEUES = 250
# If the server's clock is set back by less than this, what is known is kept: rates are unknown for as long.
_SET_BACK_MS = RATE_SPAN_MS
_RATES = [itemgetter(QueueState._fields.index(name)) for name in ("arrivals_s", "deletes_s", "receives_s")]


class RunningTotals:
    """Sums over all queues. A poll calls ``replace`` for each new state, then ``totals``."""

    def __init__(self) -> None:
        self._depth = self._ready = self._hidden = 0
        self._measured = 0
        # The states whose rates are not 0, by name: the others need not be added up.
        self._moving: dict[str, QueueState] = {}
        self._verdicts = dict.fromkeys(Verdict, 0)
        # When the longest-ready message became due, and its queue; None if both must be searched for.
        self._oldest: tuple[float, str] | None = None

    def replace(self, before: QueueState | None, after: QueueState | None) -> None:
        """Replace a queue's state; ``before`` is None for a new queue, ``after`` for one that is gone."""
        if before is not None:
            self._verdicts[before.verdict] -= 1
            self._depth -= before.depth or 0
            self._ready -= before.ready or 0
            self._hidden -= before.hidden or 0
            self._measured -= before.arrivals_s is not None
            if after is None:
                self._moving.pop(before.name, None)
        if after is not None:
            self._verdicts[after.verdict] += 1
            self._depth += after.depth or 0
            self._ready += after.ready or 0
            self._hidden += after.hidden or 0
            self._measured += after.arrivals_s is not None
            if after.arrivals_s or after.deletes_s or after.receives_s:
                self._moving[after.name] = after
            elif self._moving:
                self._moving.pop(after.name, None)
        if self._oldest is not None:
            self._follow_oldest(self._oldest, before, after)

    def totals(self, states: Iterable[QueueState]) -> Totals:
        """Return the sums; ``states`` are all current states, ordered by name."""
        if self._oldest is None:
            self._oldest = _oldest_of(states)
        since_ms, name = self._oldest
        moving = self._moving.values()
        # Exact, so that the order of the queues does not matter.
        rates = [fsum(rate or 0.0 for rate in map(column, moving)) if self._measured else None for column in _RATES]
        return Totals(
            depth=self._depth,
            ready=self._ready,
            hidden=self._hidden,
            arrivals_s=rates[0],
            deletes_s=rates[1],
            receives_s=rates[2],
            oldest=name or None,
            oldest_ready_due_ms=int(since_ms) if name else None,
            verdicts=self._verdicts.copy(),
        )

    def _follow_oldest(self, oldest: tuple[float, str], before: QueueState | None, after: QueueState | None) -> None:
        since_ms = None if after is None else after.oldest_ready_due_ms
        if after is not None and since_ms is not None and (since_ms, after.name) <= oldest:
            self._oldest = since_ms, after.name
        elif before is not None and before.name == oldest[1]:
            self._oldest = None


def _oldest_of(states: Iterable[QueueState]) -> tuple[float, str]:
    """Return the earliest time and its queue, the first of equals; (inf, "") if no message is ready."""
    oldest_ms, oldest = inf, ""
    for state in states:
        since_ms = state.oldest_ready_due_ms
        if since_ms is not None and since_ms < oldest_ms:
            oldest_ms, oldest = since_ms, state.name
    return oldest_ms, oldest


class Rotation:
    """Chooses the queues that each poll looks at, in turn: a part of the receive counts, and pages of messages.

    The pages are of a walk through each queue, which reads all its messages in the course of many polls.
    """

    def __init__(self) -> None:
        self._quick_index = 0
        self._shown_index = 0
        self._walk_index = 0
        self._outdated: dict[str, None] = {}

    def restart(self, name: str, look: Look) -> None:
        """Begin the walk through a queue again, and give it a page in each poll until it ends."""
        look.restart()
        self._outdated[name] = None

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
        first = self._outdated_page(trackers, at_ms)
        if first is not None:
            pages.append(first)
        budget = WALK_MESSAGES
        for _ in range(min(len(names), _CONSIDERED)):
            if budget <= 0 or len(pages) == WALK_QUEUES:
                break
            self._walk_index = self._walk_index + 1 if self._walk_index + 1 < len(names) else 0
            tracker = trackers.get(names[self._walk_index])
            if tracker is None or tracker.look is None or tracker.sample is None or not tracker.sample.depth:
                continue
            if first is not None and first.queue == names[self._walk_index]:
                continue
            page = tracker.look.next_page(names[self._walk_index], tracker.row, at_ms, budget)
            if page is not None:
                pages.append(page)
                budget -= min(budget, tracker.sample.depth)
        return pages

    def _outdated_page(self, trackers: Mapping[str, Tracker], at_ms: int) -> MessagePage | None:
        """Return the next page of the first queue whose walk began anew, beside those that have a turn."""
        for name in list(self._outdated):
            tracker = trackers.get(name)
            sample, look = (None, None) if tracker is None else (tracker.sample, tracker.look)
            if tracker is not None and look is not None and look.is_outdated and sample is not None and sample.depth:
                return look.next_page(name, tracker.row, at_ms, WALK_MESSAGES)
            del self._outdated[name]
        return None


@contextmanager
def _uncollected() -> Iterator[None]:
    """Suspend the garbage collector while thousands of objects are created: collections would double the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(slots=True)
class _PollInProgress:
    """A poll, from its beginning until the next one begins."""

    at_ms: int = 0
    since_last_ms: int = 0
    references: ReferenceBuckets = (None, None, None)
    memory_limit: Limit | None = None
    # The queues whose states change although their rows may not, in order, that were not updated yet.
    stale: Iterator[int] = field(default_factory=partial(iter, ()))
    # The queues whose rows this poll has read, and those that were deleted before it did.
    read: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class PlaceMemory:
    """What a place tracker knows after the poll of ``at_ms``, to be kept for another run.

    ``counters`` are depth, ready, totalsent and totalrecv of each queue. ``numbers`` has as many numbers of each
    tracker as it needs, and ``more`` what else there is to keep of some of them, as values that JSON can hold. They
    are flat arrays, because thousands of small objects would start the garbage collector. ``flights`` are the samples
    of messages in flight since the moment before, by queue. ``changes`` are the times, of the last hour, of the polls
    that a change of this program may have affected, by queue. ``day`` is the last bucket of what is older than an hour.
    """

    at_ms: int
    names: list[str]
    counters: "list[array[float]]"
    totals: list[TotalsPoint]
    numbers: "array[int]"
    more: dict[str, Any]
    flights: dict[str, list[FlightTimes]] = field(default_factory=dict)
    changes: dict[str, list[int]] = field(default_factory=dict)
    day: DayBucket | None = None


class EarlierRun(NamedTuple):
    """What an earlier run kept, until the moment ``last``.

    ``counters`` are those of ``names``, queue by queue, as ``QueueSeries`` has them. Their last bucket is just after
    ``last`` and empty, so that charts show a gap. ``marks`` are the counters of a day: time, totalsent and totalrecv of
    each queue, as ``QueueSeries`` stores them for one. The ``flights`` of ``last`` are all samples of the hour, oldest
    first. ``day`` is what is older than the hour, oldest first.
    """

    last: PlaceMemory
    times_ms: list[int]
    names: list[str]
    counters: "array[float]"
    marks: "array[float]"
    day: list[DayBucket]


class PlaceTracker:
    """Has a tracker for each queue of a place.

    A poll calls ``begin``, ``add_rows`` as they arrive, ``update_stale`` if others must not wait for thousands of
    queues, then ``finish``.

    What a poll costs depends on the queues that change, not on how many there are. ``changes`` says which states the
    last poll replaced, as in ``Snapshot``. ``place`` names the server if there are several; ``new_tracker`` makes a
    tracker for the kind of queue. After the clock of the server was set back, it begins anew, with another ``trend``.
    """

    def __init__(self, thresholds: Thresholds, place: str = "", new_tracker: NewTracker = RsmqTracker) -> None:
        self._thresholds = thresholds
        self._place = place
        self._new_tracker = new_tracker
        self._shown: Sequence[str] = ()
        # The queues that this program changes, and how many polls have begun since.
        self._own_changes: dict[str, int] = {}
        self._begin_anew(Trend())

    def _begin_anew(self, trend: Trend) -> None:
        self.trend = trend
        self._trackers: dict[str, Tracker] = {}
        # The queues in the order of the index, their trackers and their states: the same from poll to poll, but for
        # those that change.
        self._names: Sequence[str] = ()
        self._order: list[Tracker] = []
        self._states: list[QueueState | None] = []
        # When states change although the rows do not.
        self._stale_from = DueTimes()
        self._poll = _PollInProgress()
        # The states after the last poll that succeeded, None if there are other queues since; and the indexes of those
        # that were replaced since.
        self._finished: tuple[QueueState, ...] | None = ()
        self._changed: set[int] = set()
        self.changes: ChangedStates | None = None
        self._totals = RunningTotals()
        self._rotation = Rotation()
        # The contribution to the sums of queues whose rates are unknown because of a change of this program: their
        # last rates.
        self._counted: dict[str, QueueState] = {}
        # The time of the last moment that was kept.
        self._remembered_ms = 0

    def note_own_change(self, names: Iterable[str]) -> None:
        """Note that this program changes these queues: what the running poll and the next one see may be its effect."""
        self._own_changes |= dict.fromkeys(names, 0)

    def begin(self, at_ms: int, names: Sequence[str], memory_limit: Limit | None = None) -> None:
        """Start a poll of these queues made at that server time.

        ``memory_limit`` is when the memory of the server will be full.
        """
        if at_ms <= self._poll.at_ms - _SET_BACK_MS:
            # No time that was measured before can be compared with those of now.
            self._begin_anew(self.trend.successor())
        last = self._poll
        if names is not self._names and names != self._names:
            self._follow_names(names)
        # After a poll that did not end, the states of any may have to change.
        stale = iter(self._stale_from.pop_due(at_ms) if last.has_ended else range(len(names)))
        self._own_changes = {name: polls + 1 for name, polls in self._own_changes.items() if not polls}
        times_ms = self.trend.times_ms[1 - GROWTH_SAMPLES_MIN :]
        growth_ms = max(self._thresholds.growing_ms, at_ms - times_ms[0] if times_ms else 0)
        spans_ms = RATE_SPAN_MS, DRAIN_SPAN_MS, growth_ms
        rates, drain, growth = (self.trend.reference(at_ms, span_ms) for span_ms in spans_ms)
        self._poll = _PollInProgress(at_ms, at_ms - last.at_ms, (rates, drain, growth), memory_limit, stale)

    def add_rows(self, positions: Sequence[int], rows: Iterable[Row]) -> None:
        """Process the rows of the queues at these positions of the index, each of them once in a poll.

        A queue whose row is empty was deleted since the index was read.
        """
        self._poll.read.update(positions)
        read = list(zip(positions, rows, strict=True))
        self._poll.deleted.update(position for position, row in read if not row)
        self._update((position, row) for position, row in read if row)

    def update_stale(self) -> Iterator[None]:
        """Update the other queues whose states change, after all rows; it pauses from time to time."""
        left = filterfalse(self._poll.read.__contains__, self._poll.stale)
        while some := list(islice(left, _STEP_QUEUES)):
            # The row of a new queue is always read.
            self._update((index, cast("Row", self._order[index].row)) for index in some)
            yield

    def _update(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Update the states of the queues that have these rows, if the row is new or the state is stale."""
        poll, states, at_ms = self._poll, self._states, self._poll.at_ms
        for index, row in rows:
            tracker = self._order[index]
            if at_ms >= tracker.stale_from_ms or (row is not tracker.row and row != tracker.row):
                tracker.own_change_ms = poll.since_last_ms if self._names[index] in self._own_changes else 0
                tracker.memory_limit = poll.memory_limit
                before = tracker.state
                after = states[index] = tracker.update(row, at_ms, poll.references)
                if tracker.own_change_ms:
                    self.trend.note_change(self._names[index], at_ms)
                if after is not before:
                    self._changed.add(index)
                if self._own_changes or self._counted:
                    before, after = self._counted_of(before, after)
                self._totals.replace(before, after)
            self._stale_from.set(index, tracker.stale_from_ms)

    def finish(self) -> tuple[tuple[QueueState, ...], Totals]:
        """End the poll: drop queues that are gone, store a bucket if one is due, return the states and their sums.

        It also updates what ``update_stale`` has left.
        """
        at_ms = self._poll.at_ms
        for _ in self.update_stale():
            pass
        if self._poll.deleted:
            deleted = self._poll.deleted
            self._follow_names([name for position, name in enumerate(self._names) if position not in deleted])
        if len(self._names) != len(self._trackers):
            for name in self._trackers.keys() - set(self._names):
                state = self._trackers.pop(name).state
                self._totals.replace(self._counted.pop(name, state), None)
                self.trend.remove_queue(name)
        before = states = self._finished
        if states is None or self._changed:
            # None of them is None: the row of a new queue is new, so it has been updated.
            states = cast("tuple[QueueState, ...]", tuple(self._states))
        self.changes = None if before is None else ChangedStates(before, sorted(self._changed))
        self._finished, self._changed = states, set()
        if self.trend.is_due(at_ms):
            self.trend.add_bucket(at_ms, [self._trackers[name].sample for name in self.trend.series])
        self._poll.has_ended = True
        totals = self._totals.totals(states)
        self.trend.add_totals(
            TotalsPoint(at_ms, totals.ready, totals.hidden, totals.arrivals_s, totals.deletes_s, totals.receives_s)
        )
        return states, totals

    def _counted_of(self, before: QueueState | None, after: QueueState) -> tuple[QueueState | None, QueueState]:
        """Return the old and the new share of a queue in the sums: a change of this program does not make them dip."""
        before = self._counted.pop(after.name, before)
        if before is not None and after.arrivals_s is None and after.name in self._own_changes:
            after = self._counted[after.name] = after._replace(
                arrivals_s=before.arrivals_s, deletes_s=before.deletes_s, receives_s=before.receives_s
            )
        return before, after

    def _follow_names(self, names: Sequence[str]) -> None:
        """Let the queues be these: some were created or deleted since the last poll."""
        for name in names:
            if name not in self._trackers:
                self._trackers[name] = self._new_tracker(name, self.trend, self._thresholds, self._place)
        self._finished = None
        self._names = names
        self._order = order = [self._trackers[name] for name in names]
        for position, tracker in enumerate(order):
            tracker.position = position
        self._states = [tracker.state for tracker in order]
        self._stale_from = DueTimes(tracker.stale_from_ms for tracker in order)

    def moment(self) -> PlaceMemory:
        """Return the state after the last poll, to be kept for another run."""
        trackers = self._trackers
        samples = [tracker.sample or NO_SAMPLE for tracker in trackers.values()]
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
        # A moment within a poll is before the samples of that poll.
        from_ms, self._remembered_ms = self._remembered_ms, self._poll.at_ms
        flights = {
            name: series.flights.since(from_ms)
            for name, series in self.trend.series.items()
            if series.flights and series.flights[-1].at_ms >= from_ms
        }
        oldest_ms = self._poll.at_ms - TREND_MS
        changes = {
            name: [at_ms for at_ms in series.changed_ms if at_ms >= oldest_ms]
            for name, series in self.trend.series.items()
            if series.changed_ms and series.changed_ms[-1] >= oldest_ms
        }
        day, totals = self.trend.day.last, self.trend.day_totals
        return PlaceMemory(self._poll.at_ms, list(trackers), counters, totals, numbers, more, flights, changes, day)

    def restore(self, earlier: EarlierRun, at_ms: int) -> None:
        """Continue from the state of an earlier run, as if polls had failed until now."""
        last, buckets = earlier.last, COUNTERS * len(earlier.times_ms)
        width = len(last.numbers) // max(1, len(last.names))
        starts = dict(zip(last.names, range(0, len(last.numbers), width), strict=True)) if width else {}
        self.trend.times_ms += earlier.times_ms
        self.trend.totals.extend(last.totals)
        self._remembered_ms = last.at_ms + 1
        with _uncollected():
            for index, name in enumerate(earlier.names):
                tracker = self._new_tracker(name, self.trend, self._thresholds, self._place)
                tracker.series.fill(earlier.counters[index * buckets : (index + 1) * buckets])
                for times in last.flights.get(name, ()):
                    tracker.series.add_flights(times)
                for changed_ms in last.changes.get(name, ()):
                    tracker.series.note_change(changed_ms)
                start = starts.get(name)
                if start is not None and width == tracker.NUMBERS:
                    # If it is not valid, only its charts are continued.
                    with suppress(ValueError, TypeError):
                        tracker.restore(last.numbers[start : start + width], last.more.get(name))
                self._trackers[name] = tracker
        self.resume(at_ms)

    def resume(self, at_ms: int) -> None:
        """Note that polls failed until now."""
        self.trend.resume(at_ms)
        self._poll.has_ended = False
        for tracker in self._trackers.values():
            tracker.resume()

    def look_first(self, names: Sequence[str]) -> None:
        """Give these queues more turns from now on, and keep a day of them."""
        self._shown = names
        self.trend.follow(names)

    def looks(self, names: Sequence[str]) -> tuple[Sequence[str], list[MessagePage]]:
        """Return the queues of which this poll reads some receive counts, and the pages of messages that it reads."""
        shown = [name for name in self._shown if name in self._trackers]
        for name in self._own_changes:
            # Noted by the last poll: what was removed must not count until all queues had their turn.
            tracker = self._trackers.get(name)
            if tracker is not None and tracker.look is not None:
                self._rotation.restart(name, tracker.look)
        return self._rotation.quick(names, shown), self._rotation.pages(names, self._trackers, self._poll.at_ms)

    def store_receive_counts(self, names: Sequence[str], counts: Iterable[Sequence[int]]) -> None:
        """Store the receive counts of these queues at a look: (messages looked at, poison, highest count) each."""
        for name, (looked, poison, highest_rc) in zip(names, counts, strict=True):
            tracker = self._trackers.get(name)
            if tracker is not None and tracker.look is not None and tracker.sample is not None:
                before = tracker.look.found
                tracker.look.store_counts(looked, poison, highest_rc, tracker.sample.depth, self._poll.at_ms)
                self._follow_look(tracker, before)

    def store_flights(self, names: Sequence[str], flights: Iterable[Sequence[Flight]]) -> None:
        """Store how long the messages of these queues that a look read waited and are being worked on."""
        for name, found in zip(names, flights, strict=True):
            tracker = self._trackers.get(name)
            if tracker is None or tracker.look is None or tracker.state is None:
                continue
            times = flight_times(found, tracker.state.vt_s, self._poll.at_ms)
            if times is not None:
                self.trend.add_flights(name, times)
            if times != tracker.look.times:
                tracker.look.times = times
                self._make_stale(tracker)

    def store_pages(self, pages: Iterable[tuple[MessagePage, PageLook]]) -> None:
        """Store what the pages of messages that a look read contained."""
        for page, found in pages:
            tracker = self._trackers.get(page.queue)
            if tracker is not None and tracker.look is not None:
                before = tracker.look.found
                tracker.look.store_page(found, tracker.row, self._poll.at_ms)
                self._follow_look(tracker, before)

    def _follow_look(self, tracker: Tracker, before: Looked) -> None:
        """Make the next poll compute a new state if what a look has found differs, or is trouble again."""
        found = tracker.look.found if tracker.look is not None else before
        is_same = found[:-1] == before[:-1] and (found.looked_all_ms is None) == (before.looked_all_ms is None)
        if not is_same or (found != before and (found.poison or found.missing)):
            self._make_stale(tracker)

    def _make_stale(self, tracker: Tracker) -> None:
        tracker.stale_from_ms = 0
        self._stale_from.set(tracker.position, 0)
