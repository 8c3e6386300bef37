"""Which queues the overview shows, and which of them are news."""

from collections.abc import Sequence

from rsmq_tui.monitor import QueueState, Snapshot


def changed_verdicts(before: Snapshot | None, now: Snapshot) -> frozenset[str]:
    """Return the names of the queues whose verdict is another than at the last poll."""
    if before is None or before is now:
        return frozenset()
    return frozenset(
        new.key
        for old, new in zip(before.queues, now.queues, strict=False)
        if old is not new and old.verdict is not new.verdict and old.key == new.key
    )


def are_same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Tell whether two rows of states are the very same ones."""
    return len(one) == len(other) and all(map(_is, one, other))


def _is(one: object, other: object) -> bool:
    return one is other


def matching_queues(queues: Sequence[QueueState], wanted: str) -> list[QueueState]:
    """Return the queues whose name or server holds each word, or whose verdict begins with it; with a ! the others."""
    rows = list(queues)
    for word in wanted.lower().split():
        excluded, part = word.startswith("!"), word.removeprefix("!")
        if part:
            rows = [queue for queue in rows if _holds(queue, part) != excluded]
    return rows


def _holds(queue: QueueState, part: str) -> bool:
    return part in queue.name.lower() or part in queue.place.lower() or queue.verdict.startswith(part)
