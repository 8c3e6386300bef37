"""Differences between two moments, by queue and in total."""

from typing import NamedTuple

from rsmq_tui.monitor import QueueState, Snapshot


class QueueDiff(NamedTuple):
    """A queue at the earlier and at the later moment; None if it did not exist."""

    then: QueueState | None
    now: QueueState | None
    then_ms: int
    now_ms: int

    @property
    def state(self) -> QueueState:
        """The later known state."""
        found = self.now or self.then
        assert found is not None  # one of them is set
        return found

    @property
    def key(self) -> str:
        """The unique key of the queue among all servers."""
        return self.state.key

    def numbers(self, field: str) -> tuple[int | None, int | None]:
        """Return a count then and now; None if it is unknown, or the queue did not exist."""
        then = None if self.then is None else getattr(self.then, field)
        now = None if self.now is None else getattr(self.now, field)
        return then, now

    def change(self, field: str) -> int | None:
        """Return by how much a count changed; a queue that does not exist counts as 0."""
        then, now = self.numbers(field)
        if (then is None and self.then is not None) or (now is None and self.now is not None):
            return None
        return (now or 0) - (then or 0)

    def age_ms(self, when: str) -> int | None:
        """Return how long the first ready message had been ready ``then`` or ``now``, in ms."""
        state, at_ms = (self.then, self.then_ms) if when == "then" else (self.now, self.now_ms)
        return None if state is None else state.ready_for_ms(at_ms)

    @property
    def has_other_verdict(self) -> bool:
        """Whether the verdict changed, or the queue appeared or disappeared."""
        return self.then is None or self.now is None or self.then.verdict is not self.now.verdict


class Diff(NamedTuple):
    """The comparison of two moments, the earlier first; ``queues`` begins with those that changed most."""

    then_ms: int
    now_ms: int
    queues: tuple[QueueDiff, ...]

    @property
    def appeared(self) -> int:
        """The number of new queues."""
        return sum(queue.then is None for queue in self.queues)

    @property
    def vanished(self) -> int:
        """The number of queues that disappeared."""
        return sum(queue.now is None for queue in self.queues)

    @property
    def other_verdicts(self) -> int:
        """The number of queues with another verdict that are neither new nor gone."""
        known = (queue for queue in self.queues if queue.then is not None and queue.now is not None)
        return sum(queue.has_other_verdict for queue in known)

    def sums(self, field: str) -> tuple[int, int]:
        """Return the sum of a count over all queues, then and now."""
        pairs = [queue.numbers(field) for queue in self.queues]
        return sum(then or 0 for then, _ in pairs), sum(now or 0 for _, now in pairs)


def diff_of(one: Snapshot, other: Snapshot, one_ms: int, other_ms: int) -> Diff:
    """Compare two snapshots that were shown at these moments, in any order."""
    if one_ms > other_ms:
        one, other, one_ms, other_ms = other, one, other_ms, one_ms
    then = {queue.key: queue for queue in one.queues}
    now = {queue.key: queue for queue in other.queues}
    found = [
        QueueDiff(
            then.get(key),
            now.get(key),
            one.part(_place(key, then, now)).at_ms,
            other.part(_place(key, then, now)).at_ms,
        )
        for key in then.keys() | now.keys()
    ]
    return Diff(one_ms, other_ms, tuple(sorted(found, key=_rank)))


def _place(key: str, then: dict[str, QueueState], now: dict[str, QueueState]) -> str:
    return (now.get(key) or then[key]).place


def _rank(queue: QueueDiff) -> tuple[float, bool, str]:
    # Of queues that changed by the same amount, new and gone ones and those with another verdict come first.
    moved = max(abs(queue.change("depth") or 0), abs(queue.change("ready") or 0), abs(queue.change("hidden") or 0))
    return -moved, not queue.has_other_verdict, queue.key
