"""From the raw rows of one poll to the states of all queues, their sums and their recent past."""

from collections.abc import Iterable, Sequence

from rsmq_tui.monitor.series import TotalsPoint, Trend
from rsmq_tui.monitor.snapshot import QueueState, Totals, Verdict
from rsmq_tui.monitor.tracking import QueueTracker
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.protocol import Row

# Rates are made over about ten seconds, the outlook of a backlog over a minute.
_RATE_SPAN_MS = 10_000
_DRAIN_SPAN_MS = 60_000


class Sampler:
    """Keeps a tracker for each queue; a poll is ``begin``, then ``take`` for its rows as they come, then ``finish``."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.trend = Trend()
        self._thresholds = thresholds
        self._trackers: dict[str, QueueTracker] = {}
        self._states: list[QueueState] = []
        self._at_ms = 0
        self._references: tuple[int | None, int | None, int | None] = (None, None, None)

    def begin(self, at_ms: int) -> None:
        """Start a poll made at that server time."""
        self._at_ms = at_ms
        self._states = []
        growing_ms = self._thresholds.growing_ms
        reference = self.trend.reference
        self._references = (
            reference(at_ms, _RATE_SPAN_MS),
            reference(at_ms, _DRAIN_SPAN_MS),
            reference(at_ms, growing_ms),
        )

    def take(self, names: Sequence[str], rows: Iterable[Row]) -> None:
        """Take the rows of these queues."""
        trackers, states, at_ms, references = self._trackers, self._states, self._at_ms, self._references
        for name, row in zip(names, rows, strict=True):
            tracker = trackers.get(name)
            if tracker is None:
                tracker = trackers[name] = QueueTracker(name, self.trend.add_queue(name), self._thresholds)
            elif at_ms < tracker.stale_from_ms and tracker.state is not None and row == tracker.row:
                states.append(tracker.state)
                continue
            states.append(tracker.update(row, at_ms, references))

    def finish(self) -> tuple[tuple[QueueState, ...], Totals]:
        """End the poll: forget queues that are gone, keep the counters, and return the states and their sums."""
        states = tuple(self._states)
        if len(states) != len(self._trackers):
            for name in self._trackers.keys() - {state.name for state in states}:
                del self._trackers[name]
                self.trend.remove_queue(name)
        if self.trend.is_due(self._at_ms):
            self.trend.open_bucket(self._at_ms)
            for tracker in self._trackers.values():
                tracker.series.append(tracker.sample)
        totals = _totals(states)
        self.trend.totals.append(
            TotalsPoint(
                self._at_ms, totals.ready, totals.hidden, totals.arrivals_s, totals.deletes_s, totals.receives_s
            )
        )
        return states, totals

    def resume(self, at_ms: int) -> None:
        """Tell that polls failed until now."""
        self.trend.resume(at_ms)

    def take_receive_counts(self, names: Sequence[str], counts: Iterable[Sequence[int]]) -> None:
        """Take what a look at the receive counts of these queues found: looked at, poison, highest."""
        for name, (_, poison, highest_rc) in zip(names, counts, strict=True):
            if tracker := self._trackers.get(name):
                tracker.take_receive_counts(poison, highest_rc)


def _totals(states: Iterable[QueueState]) -> Totals:
    depth = ready = hidden = 0
    arrivals = deletes = receives = 0.0
    measured = False
    oldest: QueueState | None = None
    verdicts = dict.fromkeys(Verdict, 0)
    for state in states:
        verdicts[state.verdict] += 1
        depth += state.depth or 0
        ready += state.ready or 0
        hidden += state.hidden or 0
        if state.arrivals_s is not None:
            measured = True
            arrivals += state.arrivals_s
            deletes += state.deletes_s or 0.0
            receives += state.receives_s or 0.0
        since = state.oldest_ready_ms
        if since is not None and (oldest is None or oldest.oldest_ready_ms is None or since < oldest.oldest_ready_ms):
            oldest = state
    return Totals(
        depth=depth,
        ready=ready,
        hidden=hidden,
        arrivals_s=arrivals if measured else None,
        deletes_s=deletes if measured else None,
        receives_s=receives if measured else None,
        oldest=oldest.name if oldest else None,
        oldest_ready_ms=oldest.oldest_ready_ms if oldest else None,
        verdicts=verdicts,
    )
