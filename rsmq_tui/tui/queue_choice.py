"""Which queues the overview shows, and which of them are news."""

from collections.abc import Sequence

from rsmq_tui.monitor import QueueState, Snapshot


def changed_verdicts(before: Snapshot | None, now: Snapshot) -> frozenset[str]:
    """Return the keys of the queues that were there at the last poll and have another verdict now."""
    if before is None or before is now or before.ns != now.ns:
        return frozenset()
    # Most of 10,000 states are the very same objects, and need no look.
    before_ids, now_ids = set(map(id, before.queues)), set(map(id, now.queues))
    verdicts = {queue.key: queue.verdict for queue in before.queues if id(queue) not in now_ids}
    fresh = (queue for queue in now.queues if id(queue) not in before_ids) if verdicts else ()
    return frozenset(queue.key for queue in fresh if verdicts.get(queue.key, queue.verdict) is not queue.verdict)


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
