"""What is different between two moments: queue by queue, and in sum."""

from typing import NamedTuple

from rsmq_tui.monitor import QueueState, Snapshot


class QueueDiff(NamedTuple):
    """A queue then and now, in the order of the moments; None where it was not there."""

    then: QueueState | None
    now: QueueState | None
    then_ms: int
    now_ms: int

    @property
    def state(self) -> QueueState:
        """The later of what is known."""
        found = self.now or self.then
        assert found is not None  # one of them is there
        return found

    @property
    def key(self) -> str:
        """Its name among the queues of all servers."""
        return self.state.key

    def numbers(self, field: str) -> tuple[int | None, int | None]:
        """Return a count then and now; None where it is unknown, or the queue was not there."""
        then = None if self.then is None else getattr(self.then, field)
        now = None if self.now is None else getattr(self.now, field)
        return then, now

    def change(self, field: str) -> int | None:
        """Return by how much a count changed; what is not there holds nothing."""
        then, now = self.numbers(field)
        if (then is None and self.then is not None) or (now is None and self.now is not None):
            return None
        return (now or 0) - (then or 0)

    def age_ms(self, when: str) -> int | None:
        """Return for how long the first ready message had been ready ``then`` or ``now``."""
        state, at_ms = (self.then, self.then_ms) if when == "then" else (self.now, self.now_ms)
        return None if state is None else state.ready_for_ms(at_ms)

    @property
    def has_other_verdict(self) -> bool:
        """Whether it is called something else now, or came or went."""
        return self.then is None or self.now is None or self.then.verdict is not self.now.verdict


class Diff(NamedTuple):
    """Two moments, the earlier first; ``queues`` are those that changed most first."""

    then_ms: int
    now_ms: int
    queues: tuple[QueueDiff, ...]

    @property
    def appeared(self) -> int:
        """How many queues are new."""
        return sum(queue.then is None for queue in self.queues)

    @property
    def vanished(self) -> int:
        """How many queues are gone."""
        return sum(queue.now is None for queue in self.queues)

    @property
    def other_verdicts(self) -> int:
        """How many queues are called something else, but are neither new nor gone."""
        known = (queue for queue in self.queues if queue.then is not None and queue.now is not None)
        return sum(queue.has_other_verdict for queue in known)

    def sums(self, field: str) -> tuple[int, int]:
        """Return the sum of a count over all queues, then and now."""
        pairs = [queue.numbers(field) for queue in self.queues]
        return sum(then or 0 for then, _ in pairs), sum(now or 0 for _, now in pairs)


def diff_of(one: Snapshot, other: Snapshot, one_ms: int, other_ms: int) -> Diff:
    """Return what is different between two snapshots, shown at those moments; which is the earlier does not matter."""
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
    # What came or went, or is called something else, comes before queues that moved as far.
    moved = max(abs(queue.change("depth") or 0), abs(queue.change("ready") or 0), abs(queue.change("hidden") or 0))
    return -moved, not queue.has_other_verdict, queue.key
