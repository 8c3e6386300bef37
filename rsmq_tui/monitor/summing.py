"""The sums over all queues, kept up to date by what changed: a poll in which little moved costs little to sum up."""

from collections.abc import Iterable
from math import inf

from rsmq_tui.monitor.snapshot import QueueState, Totals, Verdict


class RunningTotals:
    """A poll is ``begin``, then ``replace`` for each new state, then ``totals``.

    A state that is not replaced in a poll has no rates, or rates of 0: only those of new ones are added up.
    """

    def __init__(self) -> None:
        self._depth = self._ready = self._hidden = 0
        self._measured = 0
        self._arrivals_s = self._deletes_s = self._receives_s = 0.0
        self._verdicts = dict.fromkeys(Verdict, 0)
        # Since when a message has been ready for the longest time, and its queue; None when that has to be looked for.
        self._oldest: tuple[float, str] | None = None

    def begin(self) -> None:
        """Start a poll."""
        self._arrivals_s = self._deletes_s = self._receives_s = 0.0

    def replace(self, before: QueueState | None, after: QueueState | None) -> None:
        """Put one state of a queue in the place of another; None before it came and when it is gone."""
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
        """Return the sums; these are all the states that they are made of, in order."""
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
    """Return the smallest time and its queue, the first in order of several; infinite and nameless if none is ready."""
    oldest_ms, oldest = inf, ""
    for state in states:
        since_ms = state.ready_since_ms
        if since_ms is not None and since_ms < oldest_ms:
            oldest_ms, oldest = since_ms, state.name
    return oldest_ms, oldest
