"""From the raw rows of one poll to the states of all queues, their sums and their recent past."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rsmq_tui.monitor.earlier import References
from rsmq_tui.monitor.looks import Look, Looked, Rotation
from rsmq_tui.monitor.series import QueueSeries, Sample, TotalsPoint, Trend
from rsmq_tui.monitor.snapshot import QueueState, Totals
from rsmq_tui.monitor.summing import RunningTotals
from rsmq_tui.monitor.tracking import QueueTracker
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.protocol import MessagePage, PageLook, Row

# Rates are made over about ten seconds, the outlook of a backlog over a minute.
RATE_SPAN_MS = 10_000
DRAIN_SPAN_MS = 60_000


class Tracker(Protocol):
    """What is remembered of one queue between polls, as ``QueueTracker`` says."""

    row: Row | None
    sample: Sample | None
    series: QueueSeries
    stale_from_ms: int
    state: QueueState | None

    def update(self, row: Row, at_ms: int, references: References) -> QueueState:
        """Take a poll's row."""
        ...

    @property
    def look(self) -> Look | None:
        """What looks at its messages found; None where there are no looks."""
        ...

    def resume(self) -> None:
        """Tell that polls failed until now."""
        ...


NewTracker = Callable[[str, Trend, Thresholds, str], Tracker]


class Sampler:
    """Keeps a tracker for each queue; a poll is ``begin``, then ``take`` for its rows as they come, then ``finish``.

    ``place`` tells which of several servers the queues are on; ``new_tracker`` knows the kind of their rows.
    """

    def __init__(
        self, thresholds: Thresholds, place: str = "", new_tracker: NewTracker = QueueTracker.beginning
    ) -> None:
        self.trend = Trend()
        self._thresholds = thresholds
        self._place = place
        self._new_tracker = new_tracker
        self._trackers: dict[str, Tracker] = {}
        self._states: list[QueueState] = []
        self._totals = RunningTotals()
        self._rotation = Rotation()
        self._at_ms = 0
        self._references: References = (None, None, None, None)

    def begin(self, at_ms: int) -> None:
        """Start a poll made at that server time."""
        self._at_ms = at_ms
        self._states = []
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
        """Take the rows of these queues."""
        trackers, at_ms, keep = self._trackers, self._at_ms, self._states.append
        for name, row in zip(names, rows, strict=True):
            tracker = trackers.get(name)
            if tracker is None:
                tracker = trackers[name] = self._new_tracker(name, self.trend, self._thresholds, self._place)
            before = tracker.state
            if before is not None and at_ms < tracker.stale_from_ms and (row is tracker.row or row == tracker.row):
                keep(before)
                continue
            state = tracker.update(row, at_ms, self._references)
            self._totals.replace(before, state)
            keep(state)

    def finish(self) -> tuple[tuple[QueueState, ...], Totals]:
        """End the poll: forget queues that are gone, keep the counters, and return the states and their sums."""
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
        self.trend.totals.append(
            TotalsPoint(
                self._at_ms, totals.ready, totals.hidden, totals.arrivals_s, totals.deletes_s, totals.receives_s
            )
        )
        return states, totals

    def resume(self, at_ms: int) -> None:
        """Tell that polls failed until now."""
        self.trend.resume(at_ms)
        for tracker in self._trackers.values():
            tracker.resume()

    def looks(self, names: Sequence[str]) -> tuple[Sequence[str], list[MessagePage]]:
        """Return whose receive counts to look at in this poll, and which pages of messages; the next poll tells."""
        return self._rotation.quick(names), self._rotation.pages(names, self._trackers, self._at_ms)

    def take_receive_counts(self, names: Sequence[str], counts: Iterable[Sequence[int]]) -> None:
        """Take what a look at the receive counts of these queues found: looked at, poison, highest."""
        for name, (looked, poison, highest_rc) in zip(names, counts, strict=True):
            tracker = self._trackers.get(name)
            if tracker is not None and tracker.look is not None and tracker.sample is not None:
                before = tracker.look.found
                tracker.look.take_counts(looked, poison, highest_rc, tracker.sample.depth, self._at_ms)
                _spread(tracker, before)

    def take_pages(self, pages: Iterable[tuple[MessagePage, PageLook]]) -> None:
        """Take what a look at pages of messages found."""
        for page, found in pages:
            tracker = self._trackers.get(page.queue)
            if tracker is not None and tracker.look is not None:
                before = tracker.look.found
                tracker.look.take_page(found, tracker.row, self._at_ms)
                _spread(tracker, before)


def _spread(tracker: Tracker, before: Looked) -> None:
    """Let the next poll make another state where a look found something else, or found trouble anew."""
    found = tracker.look.found if tracker.look is not None else before
    is_same = found[:-1] == before[:-1] and (found.looked_all_ms is None) == (before.looked_all_ms is None)
    if not is_same or (found != before and (found.poison or found.missing)):
        tracker.stale_from_ms = 0
