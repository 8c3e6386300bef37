"""From recorded polls back to snapshots, as those who recorded them saw them."""

from typing import Any

from rsmq_tui.history.names import read_name
from rsmq_tui.history.reading import Poll
from rsmq_tui.monitor import Drain, QueueState, Snapshot, Totals, Verdict
from rsmq_tui.monitor.wording import printable

_TEXT_MAX, _PROBLEMS_MAX = 1_000, 100
_VERDICTS = frozenset(verdict.value for verdict in Verdict)


def snapshot_of(poll: Poll) -> Snapshot:
    """Return a poll as a snapshot: without rates, trend and outlook, which come from several polls."""
    queues = tuple(sorted((state_of(row, poll) for row in poll.rows.to_pylist()), key=lambda queue: queue.name))
    verdicts: dict[Verdict, int] = {}
    for queue in queues:
        verdicts[queue.verdict] = verdicts.get(queue.verdict, 0) + 1
    oldest = min(
        (queue for queue in queues if queue.ready_since_ms is not None),
        key=lambda queue: queue.ready_since_ms or 0,
        default=None,
    )
    totals = Totals(
        depth=sum(queue.depth or 0 for queue in queues),
        ready=sum(queue.ready or 0 for queue in queues),
        hidden=sum(queue.hidden or 0 for queue in queues),
        oldest=None if oldest is None else oldest.name,
        ready_since_ms=None if oldest is None else oldest.ready_since_ms,
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
    """Return a row of a poll as a queue's state; one whose verdict is none that is known here is called broken."""
    age_ms, waiting_ms = row["oldest_ready_age_ms"], row["oldest_ready_waiting_ms"]
    if waiting_ms is None:
        # In older files, age is all that is known of it.
        waiting_ms = age_ms
    verdict, broken = _verdict(row)
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
        verdict=verdict,
        since_ms=row["since_ms"],
        drain=Drain.UNKNOWN,
        drain_s=None,
        # Who recorded made it harmless; who wrote the file may be somebody else.
        broken=None if (why := row["broken"] or broken) is None else printable(why, _TEXT_MAX),
        problems=tuple(printable(problem or "", _TEXT_MAX) for problem in (row["problems"] or ())[:_PROBLEMS_MAX]),
        place=poll.place.profile,
        expired=row["expired"],
        oldest_ready_due_ms=None if waiting_ms is None else poll.at_ms - waiting_ms,
        pending_since_ms=row["pending_since_ms"],
        pending_until_ms=row["pending_until_ms"],
        idle_since_ms=row["idle_since_ms"],
        missing=row["missing"] or 0,
        looked=row["looked"],
        looked_all_ms=row["looked_all_ms"],
        # Older files do not say it: then nothing received for a minute means a minute or more.
        is_idle_longer=row["is_idle_longer"] is not False,
    )


def _verdict(row: dict[str, Any]) -> tuple[Verdict, str | None]:
    """Return a row's verdict, and why it is not the recorded one, where that is none.

    Older files say stalled of leases that nobody returns too.
    """
    recorded = row["verdict"]
    if recorded not in _VERDICTS:
        told = (
            ("no verdict was recorded")
            if recorded is None
            else f"this version does not know the recorded verdict: {recorded}"
        )
        return Verdict.BROKEN, told
    verdict = Verdict(recorded)
    is_leak = verdict is Verdict.STALLED and row["expired"] and not row["ready"]
    return Verdict.LEAKING if is_leak else verdict, None
