"""Queues in any state, made by hand: screens must not depend on how a state came about."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rsmq_tui.monitor import Connection, Drain, QueueState, Snapshot, Totals, Verdict
from tests.monitor.fresh import NOTHING_KNOWN
from tests.tui.scripted import START_MS, ScriptedSource

_QUIET = QueueState(
    name="",
    kind="rsmq",
    depth=0,
    ready=0,
    hidden=0,
    oldest_ready_ms=None,
    vt_s=30,
    delay_s=0,
    maxsize=65_536,
    created_ms=START_MS - 86_400_000,
    modified_ms=START_MS - 86_400_000,
    totalsent=0,
    totalrecv=0,
    **NOTHING_KNOWN,
    verdict=Verdict.OK,
    since_ms=None,
    drain=Drain.EMPTY,
)


def queue_of(name: str, **values: Any) -> QueueState:
    """Make a queue that is empty and quiet but for these values; ready and hidden add up to its depth."""
    state = _QUIET._replace(name=name, **{"oldest_ready_due_ms": values.get("oldest_ready_ms"), **values})
    if "depth" not in values and state.ready is not None and state.hidden is not None:
        state = state._replace(depth=state.ready + state.hidden)
    return state


def broken_queue(name: str, why: str) -> QueueState:
    """Make a queue that cannot be read."""
    nothing = dict.fromkeys(("depth", "ready", "hidden", "vt_s", "delay_s", "maxsize", "totalsent", "totalrecv"))
    return queue_of(name, verdict=Verdict.BROKEN, broken=why, drain=Drain.UNKNOWN, **nothing)


def poll_of(source: ScriptedSource, queues: Iterable[QueueState], at_ms: int = START_MS, **values: Any) -> Snapshot:
    """Make the snapshot of a poll that found these queues."""
    found = tuple(sorted(queues, key=lambda queue: queue.name))
    waiting = [queue for queue in found if queue.oldest_ready_due_ms is not None]
    since = min(waiting, key=lambda queue: queue.oldest_ready_due_ms or 0, default=None)
    totals = Totals(
        depth=sum(queue.depth or 0 for queue in found),
        ready=sum(queue.ready or 0 for queue in found),
        hidden=sum(queue.hidden or 0 for queue in found),
        arrivals_s=sum(queue.arrivals_s or 0.0 for queue in found),
        deletes_s=sum(queue.deletes_s or 0.0 for queue in found),
        receives_s=sum(queue.receives_s or 0.0 for queue in found),
        oldest=since and since.name,
        oldest_ready_due_ms=since and since.oldest_ready_due_ms,
        verdicts=Counter(queue.verdict for queue in found),
    )
    link = Connection(fresh_at_s=source.clock.now_s)
    return replace(source.last, at_ms=at_ms, queues=found, totals=totals, connection=link, **values)


def one_of_each(at_ms: int = START_MS) -> list[QueueState]:
    """A queue of each verdict, all different in every column; in order of names they are in no order of trouble."""
    minute = 60_000
    return [
        queue_of("audit", ready=3, oldest_ready_ms=at_ms - 2000, arrivals_s=0.4, deletes_s=0.5, receives_s=0.6,
                 drain=Drain.CLEARS, drain_s=4.0),
        queue_of("billing", ready=12, hidden=1, oldest_ready_ms=at_ms - 22 * minute, verdict=Verdict.AGED,
                 arrivals_s=1.1, deletes_s=1.2, receives_s=1.3, since_ms=at_ms - 12 * minute, drain=Drain.STEADY),
        broken_queue("cache", "its messages key is not a sorted set"),
        queue_of("emails", ready=3020, hidden=7, oldest_ready_ms=at_ms - 41 * minute, verdict=Verdict.STALLED,
                 arrivals_s=12.0, deletes_s=0.0, receives_s=0.0, since_ms=at_ms - 41 * minute, drain=Drain.STALLED),
        queue_of("invoices", ready=14, hidden=3, oldest_ready_ms=at_ms - minute, verdict=Verdict.POISONED,
                 arrivals_s=0.2, deletes_s=0.3, receives_s=4.1, poison=3, highest_rc=9, drain=Drain.UNKNOWN),
        queue_of("orders", ready=37_900, hidden=212, oldest_ready_ms=at_ms - 134 * minute, verdict=Verdict.GROWING,
                 arrivals_s=612.0, deletes_s=401.3, receives_s=440.1, since_ms=at_ms - 34 * minute,
                 drain=Drain.GROWING),
    ]  # fmt: skip
