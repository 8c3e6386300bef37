"""Which queue is in trouble, and why: the verdict of one queue from its counts, rates and recent past."""

from dataclasses import dataclass

from rsmq_tui.monitor.series import Rates, Sample
from rsmq_tui.monitor.snapshot import Drain, QueueState, Verdict
from rsmq_tui.monitor.wording import count, duration, plural, rate

# Items a second that are no change.
_STEADY_S = 0.02


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a queue counts as being in trouble.

    ``stalled_ms``: ready messages and no receive for this long. ``growing_ms``: arrivals exceed deletes over this span,
    by ``growing_messages`` or more and by more than ``growing_share`` of what arrived. ``aged_ms``: the first ready
    message is this old. ``poison_rc``: received this often.
    """

    stalled_ms: int = 60_000
    growing_ms: int = 120_000
    growing_messages: int = 20
    growing_share: float = 0.02
    aged_ms: int = 600_000
    poison_rc: int = 5

    def is_growing(self, earlier: Sample, now: Sample, recent: Rates | None) -> bool:
        """Tell whether a queue grew between two samples that span ``growing_ms``, and still does."""
        if recent is None or now.at_ms - earlier.at_ms < self.growing_ms:
            return False
        gained = now.depth - earlier.depth
        arrived = now.totalsent - earlier.totalsent
        still = recent.arrivals_s > recent.deletes_s
        return still and gained >= self.growing_messages and gained > self.growing_share * arrived

    def has_grown(self, earlier: Sample, now: Sample) -> bool:
        """Tell whether a queue whose arrivals are not known grew between two samples that span ``growing_ms``."""
        return now.at_ms - earlier.at_ms >= self.growing_ms and now.depth - earlier.depth >= self.growing_messages


def drain_of(ready: int, recent: Rates | None, verdict: Verdict) -> tuple[Drain, float | None]:
    """Say whether the ready messages clear, and in how many seconds if arrivals and deletes go on as they do."""
    if ready == 0:
        return Drain.EMPTY, None
    if verdict is Verdict.STALLED:
        return Drain.STALLED, None
    if recent is None:
        return Drain.UNKNOWN, None
    net_s = recent.deletes_s - recent.arrivals_s
    if verdict is Verdict.GROWING or net_s < -0.02 * max(1.0, recent.arrivals_s):
        return Drain.GROWING, None
    if net_s > 0.02 * max(1.0, recent.arrivals_s):
        return Drain.CLEARS, ready / net_s
    if recent.deletes_s > 0:
        return Drain.STEADY, None
    return Drain.UNKNOWN, None


def net_drain_of(ready: int, net_s: float | None, verdict: Verdict, *, was_taken: bool) -> tuple[Drain, float | None]:
    """Say as ``drain_of`` does whether a backlog clears whose depth changes by ``net_s`` a second.

    ``was_taken`` tells whether an item was taken lately: a depth that stays is steady only then.
    """
    if ready == 0:
        return Drain.EMPTY, None
    if net_s is None:
        return Drain.UNKNOWN, None
    if verdict is Verdict.GROWING or net_s > _STEADY_S:
        return Drain.GROWING, None
    if net_s < -_STEADY_S:
        return Drain.CLEARS, ready / -net_s
    return (Drain.STEADY if was_taken else Drain.UNKNOWN), None


def reason(queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
    """Say in one sentence why a queue has its verdict."""
    if queue.kind == "list":
        return _list_reason(queue, at_ms)
    span = duration(None if queue.since_ms is None else at_ms - queue.since_ms)
    oldest = queue.oldest_ready_age_ms(at_ms)
    match queue.verdict:
        case Verdict.BROKEN:
            return queue.broken or "its keys disagree"
        case Verdict.STALLED:
            return f"{plural(queue.ready or 0, 'message')} ready and none received for {span}"
        case Verdict.GROWING:
            return (
                f"arrivals exceed deletes by {rate(_net_growth(queue))}/s for {span}; oldest ready {duration(oldest)}"
            )
        case Verdict.POISONED:
            return (
                f"{plural(queue.poison, 'message')} received {thresholds.poison_rc} times or more "
                f"(up to {count(queue.highest_rc)})"
            )
        case Verdict.AGED:
            return f"the first ready message has waited {duration(oldest)}"
        case Verdict.OK:
            return "nothing is wrong" if queue.depth else "empty"


def outlook(queue: QueueState, at_ms: int) -> str:
    """Say in a few words whether a queue clears: in T, no and why not, or unknown."""
    if queue.verdict is Verdict.BROKEN:
        return queue.broken or ""
    if queue.kind == "list" and queue.verdict is Verdict.STALLED and queue.drain is not Drain.STALLED:
        return f"{plural(queue.expired or 0, 'lease')} expired"
    if queue.verdict is Verdict.POISONED:
        return f"{plural(queue.poison, 'message')}, rc up to {count(queue.highest_rc)}"
    match queue.drain:
        case Drain.EMPTY:
            return "nothing ready"
        case Drain.CLEARS:
            return f"in {duration((queue.drain_s or 0) * 1000)}"
        case Drain.STEADY:
            return "steady"
        case Drain.STALLED:
            return f"no consumer for {_since(queue, at_ms)}"
        case Drain.GROWING:
            growth = _net_growth(queue)
            return f"no: +{rate(growth)}/s" if growth is None or growth >= 0.1 else "steady"
        case Drain.UNKNOWN:
            return "–"


def _list_reason(queue: QueueState, at_ms: int) -> str:
    oldest = duration(queue.oldest_ready_age_ms(at_ms))
    overdue = f"{plural(queue.expired or 0, 'lease')} past the deadline"
    match queue.verdict:
        case Verdict.BROKEN:
            return queue.broken or "its keys disagree"
        case Verdict.STALLED if queue.drain is Drain.STALLED:
            beside = f"; {overdue}" if queue.expired else ""
            ready = f"{plural(queue.ready or 0, 'item')} ready"
            return f"{ready} and the next one has been the same for {_since(queue, at_ms)}{beside}"
        case Verdict.STALLED:
            return f"{overdue} for {_since(queue, at_ms)} and nobody brings the items back"
        case Verdict.GROWING:
            known = "" if queue.oldest_ready_ms is None else f"; next item {oldest} old"
            return f"grows by {rate(_net_growth(queue))}/s for {_since(queue, at_ms)}{known}"
        case Verdict.AGED:
            return f"the next item is {oldest} old"
        case _:
            return "nothing is wrong" if queue.depth else "empty"


def _since(queue: QueueState, at_ms: int) -> str:
    return duration(None if queue.since_ms is None else at_ms - queue.since_ms)


def _net_growth(queue: QueueState) -> float | None:
    if queue.net_s is not None:
        return max(0.0, queue.net_s)
    if queue.arrivals_s is None or queue.deletes_s is None:
        return None
    return max(0.0, queue.arrivals_s - queue.deletes_s)
