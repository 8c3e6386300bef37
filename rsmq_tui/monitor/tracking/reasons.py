"""Reasons: why a queue has its verdict, when it drains and what it needs for that, as sentences."""

from rsmq_tui.monitor.model import Drain, QueueState, Verdict
from rsmq_tui.monitor.text import UNKNOWN, ago, compact, count, duration, plural, rate, round_duration, seconds
from rsmq_tui.monitor.tracking.series import Rates
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol.kinds import kind_named

# In what time it would be good to drain a queue.
SOON_S = 600
# So many messages, and this share of those that were received, have to come back to be worth words.
_RETURNED_MIN, _RETURNED_SHARE = 5, 0.01
# Fewer deletes per second do not tell what consumers can do; a smaller surplus is not worth words.
_TELLING_S = 0.1
_MORE = 1.05
# A shorter time without a receive is not worth words.
_IDLE_MIN_MS = 10_000
_SEEN_MIN_MS = 1_000

# The thresholds that start each verdict. The reason for ``poisoned`` contains its own.
_NAMES = {
    Verdict.STALLED: ("stalled",),
    Verdict.LEAKING: ("leaking",),
    Verdict.GROWING: ("growing", "growing_messages", "growing_share"),
    Verdict.AGED: ("aged",),
}
_BEGINNING = ("poison_rc", *(name for names in _NAMES.values() for name in names))


def reason(queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
    """Return one sentence: why a queue has its verdict, and what was not checked."""
    match queue.verdict:
        case Verdict.BROKEN:
            return queue.broken or "its keys disagree"
        case Verdict.WATCHING:
            watched = _watched(queue, at_ms)
            tells = "too early to tell whether it grows"
            if queue.is_idle_longer:
                verb = "receives" if kind_named(queue.kind).counts_receives else "takes"
                tells += f", or whether a consumer {verb}"
            return f"{watched}, {tells}" if watched else tells
        case Verdict.OK:
            may_be_poisoned = (queue.totalrecv or 0) >= thresholds.poison_rc
            unlooked = "; receive counts not checked yet" if may_be_poisoned and queue.looked is None else ""
            looked = unlooked or _checked(queue, at_ms, only_partly=True)
            higher = thresholds.changed(*_BEGINNING, only_higher=True, in_words=True)
            return f"nothing is wrong{_beginning(queue, at_ms)}{looked}{_by(higher)}" if queue.depth else "empty"
    poison = _poison_beside(queue)
    if queue.pending_since_ms is not None:
        lasted = _or_more(queue, duration(None if queue.since_ms is None else queue.pending_since_ms - queue.since_ms))
        ended = ago(at_ms - queue.pending_since_ms)
        ends = f"when it has been clearly over for {round_duration(thresholds.clear_ms)}"
        if queue.pending_until_ms is not None:
            # That a growth is over is found some time after its end.
            ends = f"in {duration(max(0, queue.pending_until_ms - at_ms))} unless it begins again"
        return f"was {queue.verdict} for {lasted}, until {ended}; the verdict ends {ends}{poison}"
    names = (*_NAMES.get(queue.verdict, ()), *(("poison_rc",) if poison else ()))
    changed = thresholds.changed(*names, in_words=True) if names else ""
    return f"{_trouble(queue, at_ms, thresholds)}{poison}{_by(changed)}"


def _beginning(queue: QueueState, at_ms: int) -> str:
    """Return what may become a trouble if it lasts; empty for nothing."""
    growth = _net_growth(queue)
    if queue.drain is Drain.GROWING and growth is not None and growth >= 0.1:
        return f" yet: it grows by {rate(growth)}/s"
    if queue.ready and queue.idle_since_ms is not None and at_ms - queue.idle_since_ms >= _IDLE_MIN_MS:
        return f" yet: none {kind_named(queue.kind).taken} for {_idle(queue, at_ms)}"
    return ""


def _poison_beside(queue: QueueState) -> str:
    """Return the number of poison messages, which a worse verdict hides; empty for none."""
    if not queue.poison or queue.verdict.rank >= Verdict.POISONED.rank:
        return ""
    return f"; {plural(queue.poison, 'poison message')}"


def _trouble(queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
    kind = kind_named(queue.kind)
    span = _or_more(queue, _since(queue.since_ms, at_ms))
    idle = _idle(queue, at_ms)
    hardly = f", and almost none for {span}" if idle != span else ""
    idle += " or more" if queue.is_idle_longer else ""
    ready = f"{plural(queue.ready or 0, kind.noun)} ready"
    leases = f"{plural(queue.expired or 0, 'lease')} expired"
    waiting = duration(queue.waiting_ms(at_ms))
    growth = _net_growth(queue)
    # The rate covers the last seconds, not the whole span.
    now = f", now by {rate(growth)}/s" if growth is not None and growth >= 0.05 else ""
    match queue.verdict:
        case Verdict.STALLED if queue.totalrecv == 0:
            return f"{ready}, never received for {idle}{_never_received_since(queue)}"
        case Verdict.STALLED:
            beside = f"; {leases}" if queue.expired else ""
            return f"{ready} and none {kind.taken} for {idle}{hardly}{beside}"
        case Verdict.LEAKING:
            return f"{leases} and none returned for {span}: no reaper seems to be running"
        case Verdict.GROWING:
            more = "arrivals have exceeded deletes" if kind.counts_arrivals else "more was pushed than taken"
            # Short, because screens show what the queue needs after it.
            first = f"the first has waited {waiting}" if kind.counts_receives else waited(queue, at_ms)
            return f"{more} for {span}{now}{'' if queue.oldest_ready_ms is None else f'; {first}'}"
        case Verdict.POISONED:
            often = f"received {plural(thresholds.poison_rc, 'time')} or more (up to {count(queue.highest_rc)})"
            # When it began is not known: receive counts are only looked at now and then.
            seen_ms = 0 if queue.since_ms is None else at_ms - queue.since_ms
            seen = f", seen for {duration(seen_ms)}" if seen_ms >= _SEEN_MIN_MS else ""
            return f"{plural(queue.poison, 'message')} {often}{seen}{_checked(queue, at_ms)}"
        case Verdict.AGED:
            return waited(queue, at_ms)
    raise ValueError(f"there is no reason for the verdict {queue.verdict}")


def waited(queue: QueueState, at_ms: int) -> str:
    """Say how long the first ready message has waited, or how old the next item of a list is."""
    kind = kind_named(queue.kind)
    if kind.counts_receives:
        return f"the first ready {kind.noun} has waited {duration(queue.waiting_ms(at_ms))}"
    return f"the next {kind.noun} is {duration(queue.oldest_ready_age_ms(at_ms))} old"


def outlook(queue: QueueState, at_ms: int) -> str:
    """Return the text of the column DRAINS IN: when a queue drains, why it does not, or what is wrong with it."""
    if queue.verdict is Verdict.BROKEN:
        return queue.broken or ""
    if queue.verdict is Verdict.WATCHING:
        return ", ".join(filter(None, ("watching", _watched(queue, at_ms))))
    is_over = queue.pending_since_ms is not None
    if queue.verdict is Verdict.LEAKING and not is_over:
        return f"{plural(queue.expired or 0, 'lease')} expired"
    if queue.verdict is Verdict.POISONED and not is_over:
        # The end is cut off on most terminals.
        return f"rc up to {count(queue.highest_rc)}: {plural(queue.poison, 'message')}"
    match queue.drain:
        case Drain.EMPTY:
            return "nothing ready"
        case Drain.CLEARS:
            return duration((queue.drain_s or 0) * 1000)
        case Drain.STEADY:
            return "steady"
        case Drain.STALLED:
            # The column has 19 cells: too few for the words of the reason.
            least = "≥" if queue.is_idle_longer else "for"
            return f"no consumer {least} {_idle(queue, at_ms)}"
        case Drain.GROWING:
            growth = _net_growth(queue)
            if growth is not None and growth < 0.1:
                # It grows over a longer time, as a queue does between two batches that each leave more behind.
                return "never"
            words = compact(growth) if growth is None or growth >= 10 else f"{growth:.1f}".removesuffix(".0")
            return f"never (+{words}/s)"
        case Drain.UNKNOWN:
            return "recovering" if is_over else UNKNOWN


def needed_deletes(queue: QueueState, rates: Rates | None) -> str:
    """Return how many times its deletes, at ``drain_rates``, would keep up with the arrivals, and drain a queue soon.

    Empty if it drains within ``SOON_S`` or less, if that is not known, or if too few messages are deleted to tell.
    """
    if rates is None or not queue.ready or rates.deletes_s < _TELLING_S or queue.pending_since_ms is not None:
        return ""
    if queue.drain not in (Drain.GROWING, Drain.STEADY, Drain.CLEARS):
        return ""
    keeps_up = rates.arrivals_s / rates.deletes_s
    drains = keeps_up + queue.ready / SOON_S / rates.deletes_s
    if drains < _MORE:
        return ""
    soon = f"to drain in {round_duration(SOON_S * 1000)}"
    if keeps_up < _MORE:
        return f"needs {drains:.1f}x the deletes {soon}"
    return f"needs {keeps_up:.1f}x the deletes to keep up, {drains:.1f}x {soon}"


def returned(queue: QueueState, trend: Trend) -> str:
    """Return how many of the received messages came back, and what that means; empty if it is few or not known."""
    returns = trend.returns(queue.name) if kind_named(queue.kind).counts_receives else None
    if returns is None or returns.back < max(_RETURNED_MIN, _RETURNED_SHARE * returns.received):
        return ""
    of_all = f"{count(returns.back)} or more of {count(returns.received)} received in {duration(returns.span_ms)}"
    return f"{of_all} came back: consumers fail, or need longer than the vt of {seconds(queue.vt_s)}"


def _by(changed: str) -> str:
    return f" (thresholds: {changed})" if changed else ""


def _watched(queue: QueueState, at_ms: int) -> str:
    """Return how far a queue is from its first verdict: '40 s of 2 min'; empty if not known."""
    since_ms, until_ms = queue.pending_since_ms, queue.pending_until_ms
    if since_ms is None or until_ms is None:
        return ""
    return f"{duration(max(0, at_ms - since_ms))} of {round_duration(until_ms - since_ms)}"


def _since(since_ms: int | None, at_ms: int) -> str:
    return duration(None if since_ms is None else at_ms - since_ms)


def _or_more(queue: QueueState, lasted: str) -> str:
    return f"{lasted} or more" if queue.is_since_longer else lasted


def _idle(queue: QueueState, at_ms: int) -> str:
    return _since(queue.since_ms if queue.idle_since_ms is None else queue.idle_since_ms, at_ms)


def _checked(queue: QueueState, at_ms: int, *, only_partly: bool = False) -> str:
    """Return how many receive counts were checked; empty with ``only_partly`` if all were."""
    if queue.looked_all_ms is not None:
        return "" if only_partly else f"; all checked {ago(at_ms - queue.looked_all_ms)}"
    if queue.looked is None or not queue.depth:
        return ""
    return f"; checked {count(min(queue.looked, queue.depth))} of {plural(queue.depth, 'message')}"


# Messages that were due earlier than this before the queue had any were moved there, or put back by an undo.
_ARRIVED_LATE_MS = 60_000


def _never_received_since(queue: QueueState) -> str:
    """Return what the time without a receive is counted from; empty if nothing marks it."""
    since_ms = queue.since_ms if queue.idle_since_ms is None else queue.idle_since_ms
    if since_ms == queue.oldest_ready_ms:
        return " since the first send"
    if since_ms is not None and since_ms == queue.created_ms:
        return " since the queue was created"
    due_ms = queue.oldest_ready_due_ms
    if since_ms is not None and since_ms < (due_ms or 0):
        # What was due then is gone.
        return ""
    if since_ms is not None and due_ms is not None and since_ms - due_ms > _ARRIVED_LATE_MS:
        return " since they arrived"
    return " since the first was due"


def _net_growth(queue: QueueState) -> float | None:
    if queue.net_s is not None:
        return max(0.0, queue.net_s)
    if queue.arrivals_s is None or queue.deletes_s is None:
        return None
    return max(0.0, queue.arrivals_s - queue.deletes_s)
