"""From recorded polls back to snapshots, as those who recorded them saw them."""

from typing import Any

from rsmq_tui.history.names import read_name
from rsmq_tui.history.reading import Poll
from rsmq_tui.monitor import Drain, QueueState, Snapshot, Totals, Verdict


def snapshot_of(poll: Poll) -> Snapshot:
    """Return a poll as a snapshot: without rates, trend and outlook, which come from several polls."""
    queues = tuple(sorted((state_of(row, poll) for row in poll.rows.to_pylist()), key=lambda queue: queue.name))
    verdicts: dict[Verdict, int] = {}
    for queue in queues:
        verdicts[queue.verdict] = verdicts.get(queue.verdict, 0) + 1
    oldest = min(
        (queue for queue in queues if queue.oldest_ready_ms is not None),
        key=lambda queue: queue.oldest_ready_ms or 0,
        default=None,
    )
    totals = Totals(
        depth=sum(queue.depth or 0 for queue in queues),
        ready=sum(queue.ready or 0 for queue in queues),
        hidden=sum(queue.hidden or 0 for queue in queues),
        oldest=None if oldest is None else oldest.name,
        oldest_ready_ms=None if oldest is None else oldest.oldest_ready_ms,
        verdicts=verdicts,
    )
    place = poll.place
    return Snapshot(
        at_ms=poll.at_ms,
        server=place.server,
        ns=place.ns,
        queues=queues,
        totals=totals,
        interval_s=(poll.interval_ms or 0) / 1000,
        notes=() if poll.failure is None else (poll.failure,),
        place=place.profile,
    )


def state_of(row: dict[str, Any], poll: Poll) -> QueueState:
    """Return a row of a poll as a queue's state."""
    age_ms = row["oldest_ready_age_ms"]
    return QueueState(
        name=read_name(row["queue"]),
        kind=row["kind"],
        depth=row["depth"],
        ready=row["ready"],
        hidden=row["hidden"],
        oldest_ready_ms=None if age_ms is None else poll.at_ms - age_ms,
        vt_s=row["vt_s"],
        delay_s=row["delay_s"],
        maxsize=row["maxsize"],
        created_ms=row["created_ms"],
        modified_ms=row["modified_ms"],
        totalsent=row["totalsent"],
        totalrecv=row["totalrecv"],
        arrivals_s=None,
        deletes_s=None,
        receives_s=None,
        poison=row["poison"] or 0,
        highest_rc=row["highest_rc"] or 0,
        verdict=Verdict(row["verdict"]),
        since_ms=None,
        drain=Drain.UNKNOWN,
        drain_s=None,
        broken=row["broken"],
        problems=tuple(row["problems"] or ()),
        place=poll.place.profile,
        expired=row["expired"],
    )
