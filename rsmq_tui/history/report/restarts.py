"""Restarts and failovers of the servers in a time range, and the queues that were lost in them or created again.

A queue of the last poll before a restart was lost if the polls after it did not find it, or found one of the same name
that was created at another time. How many messages the others lost is not known: their counters at that moment are not
in the analysis. Lists have no time of creation, and are gone whenever they are empty.

What a report says of a name whose queue was deleted and created again is of several queues.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import SERVER_RUNS, VERDICT_RUNS
from rsmq_tui.history.analysis.values import DOWN, QueueRef, TimeRange
from rsmq_tui.history.names import Place, read_name
from rsmq_tui.history.report.slo import Server
from rsmq_tui.monitor.model import was_created_again
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.protocol.server.status import ServerInfo, server_change

DESCRIBED_MAX = 10
"""How many restarts a report describes."""
# Places of one server read INFO at different times.
_SAME_MS = MINUTE_MS
# A queue was there in the last poll of its place if it was seen that shortly before.
_NEAR_MS = MINUTE_MS
_PLACE = ("profile", "server", "ns")
_SERVER_COLUMNS = (*_PLACE, "run_id", "first_ms", "last_ms", "started_ms")
# A row of ``verdict_runs``.
Run = Mapping[str, Any]
# So many queues that were created again are looked at: a program may create its queues again all the time.
_RECREATED_MAX = 1_000
_QUEUE = (*_PLACE, "queue")
_CREATED_COLUMNS = (*_QUEUE, "first_ms", "last_ms", "last_depth", "created_ms")
_QUEUE_COLUMNS = (*_CREATED_COLUMNS, "verdict")


class Restart(NamedTuple):
    """Another process answers for a server at about ``at_ms``: it was restarted, or another server took over.

    ``queues`` and ``messages`` were lost in a restart.
    """

    server: Server
    at_ms: int
    is_restart: bool
    queues: int = 0
    messages: int = 0


class Recreated(NamedTuple):
    """A queue of this name was created at ``at_ms``; the one before held ``messages`` at its last poll."""

    ref: QueueRef
    at_ms: int
    messages: int


def restarts_of(
    analysis: Analysis, span: TimeRange, servers: Collection[Server], chosen: Collection[QueueRef] | None
) -> tuple[Restart, ...]:
    """Return those of some servers in a range, in the order of time.

    What was lost of the chosen queues is only looked up for the first ``DESCRIBED_MAX``: a server may restart all the
    time.
    """
    found: list[Restart] = []
    for one in sorted(_restarts(analysis, span), key=lambda one: (one.at_ms, one.server)):
        if one.server in servers and span.from_ms <= one.at_ms <= span.to_ms:
            is_described = one.is_restart and len(found) < DESCRIBED_MAX
            lost = _lost(analysis, one, chosen) if is_described else []
            found.append(one._replace(queues=len(lost), messages=sum(lost)))
    return tuple(found)


def _restarts(analysis: Analysis, span: TimeRange) -> Iterable[Restart]:
    """Return those of all servers, without what was lost."""
    # What answered before the range is in it.
    reach = TimeRange(span.from_ms - DAY_MS, span.to_ms)
    near = (pc.field("last_ms") >= reach.from_ms) & (pc.field("first_ms") <= reach.to_ms)
    rows = analysis.read(SERVER_RUNS, _SERVER_COLUMNS, near, reach).sort_by("first_ms").to_pylist()
    before: dict[Place, ServerInfo] = {}
    found: list[Restart] = []
    for row in rows:
        if None in row.values():
            continue
        place = _place(row)
        info = ServerInfo(row["run_id"], (row["first_ms"] - row["started_ms"]) // 1000, "", 0, at_ms=row["first_ms"])
        change = server_change(before.get(place), info)
        before[place] = info._replace(at_ms=row["last_ms"])
        if change is None:
            continue
        server = Server(place.profile, place.server)
        at_ms = max(change.from_ms, row["started_ms"]) if change.is_restart else (change.from_ms + change.until_ms) // 2
        if not any(one.server == server and abs(one.at_ms - at_ms) <= _SAME_MS for one in found):
            found.append(Restart(server, at_ms, change.is_restart))
    return found


def _lost(analysis: Analysis, restart: Restart, chosen: Collection[QueueRef] | None) -> list[int]:
    """Return the number of messages of each queue that was lost in a restart."""
    # A run ends with its hour.
    reach = TimeRange(restart.at_ms - HOUR_MS, restart.at_ms + HOUR_MS)
    near = (pc.field("last_ms") >= reach.from_ms) & (pc.field("first_ms") <= reach.to_ms)
    rows = analysis.read(VERDICT_RUNS, _QUEUE_COLUMNS, near, reach).sort_by("first_ms").to_pylist()
    places: dict[Place, list[Run]] = defaultdict(list)
    for row in rows:
        place = _place(row)
        if place[:2] == restart.server and row["verdict"] != DOWN and kind_of(place.ns).has_namespaces:
            places[place].append(row)
    lost = []
    for place, runs in places.items():
        polled_ms = max((min(run["last_ms"], restart.at_ms) for run in _before(runs, restart)), default=0)
        if all(run["last_ms"] < restart.at_ms for run in runs):
            # It was not polled since.
            continue
        queues: dict[str, list[Run]] = defaultdict(list)
        for run in runs:
            if run["queue"] is not None:
                queues[read_name(run["queue"])].append(run)
        for name, of_queue in queues.items():
            before = _before(of_queue, restart)[-1:]
            is_chosen = chosen is None or QueueRef(*place, name) in chosen
            if is_chosen and before and before[0]["last_ms"] >= polled_ms - _NEAR_MS and _is_lost(of_queue, restart):
                lost.append(before[0]["last_depth"] or 0)
    return lost


def _is_lost(runs: Sequence[Run], restart: Restart) -> bool:
    """Return whether a queue was lost in a restart, by all of its runs, at least one of which began before."""
    number = len(_before(runs, restart))
    before, after = runs[number - 1], runs[number : number + 1]
    if before["last_ms"] >= restart.at_ms:
        return False
    return not after or was_created_again(before["created_ms"], after[0]["created_ms"])


def _before(runs: Sequence[Run], restart: Restart) -> Sequence[Run]:
    return [run for run in runs if run["first_ms"] < restart.at_ms]


def _place(row: Run) -> Place:
    return Place(read_name(row["profile"]), row["server"], read_name(row["ns"]))


def recreated_of(
    analysis: Analysis, span: TimeRange, restarts: Collection[Restart], chosen: Collection[QueueRef] | None
) -> tuple[Recreated, ...]:
    """Return the queues that were created again in a range, and not lost in one of the restarts, in order of time."""
    created, first = pc.field("created_ms"), pc.field("first_ms")
    known = pc.field("queue").is_valid() & created.is_valid() & (pc.field("last_ms") >= span.from_ms)
    known &= first <= span.to_ms
    # Of each queue that was created in the range, the runs that follow no other: few, if little was created.
    begun = known & (created >= span.from_ms) & ~pc.field("continues")
    lives: dict[QueueRef, set[int]] = defaultdict(set)
    for row in analysis.read(VERDICT_RUNS, (*_QUEUE, "created_ms"), begun, span).to_pylist():
        lives[_ref(row)].add(row["created_ms"])
    names = pa.array(sorted({ref.queue for ref in lives}), pa.string())
    before = known & (created < span.from_ms) & pc.field("queue").isin(names)
    for row in analysis.read(VERDICT_RUNS, (*_QUEUE, "created_ms"), before, span).to_pylist():
        if (ref := _ref(row)) in lives:
            lives[ref].add(row["created_ms"])
    several = [ref for ref, times_ms in lives.items() if len(times_ms) > 1][:_RECREATED_MAX]
    of_these = known & pc.field("queue").isin(pa.array([ref.queue for ref in several], pa.string()))
    runs: dict[QueueRef, list[Run]] = {ref: [] for ref in several}
    for row in analysis.read(VERDICT_RUNS, _CREATED_COLUMNS, of_these, span).sort_by("first_ms").to_pylist():
        if (ref := _ref(row)) in runs:
            runs[ref].append(row)
    found = [one for ref, of_queue in runs.items() for one in _changes(ref, of_queue, span, restarts)]
    wanted = (one for one in found if chosen is None or one.ref in chosen)
    return tuple(sorted(wanted, key=lambda one: (one.at_ms, one.ref)))


def _ref(row: Run) -> QueueRef:
    """Return the queue of a row, by its names as stored."""
    return QueueRef(*(row[name] for name in _QUEUE))


def _changes(ref: QueueRef, runs: Sequence[Run], span: TimeRange, restarts: Collection[Restart]) -> list[Recreated]:
    """Return when the queue was another one than in the run before, by all runs of its name in the order of time."""
    found = []
    read = QueueRef(*map(read_name, ref))
    for before, after in pairwise(runs):
        if before["created_ms"] == after["created_ms"]:
            continue
        at_ms = min(max(after["created_ms"], before["last_ms"]), after["first_ms"])
        was_lost = any(
            one.is_restart and one.server == read[:2] and before["last_ms"] < one.at_ms <= after["first_ms"]
            for one in restarts
        )
        if span.from_ms <= at_ms <= span.to_ms and not was_lost:
            found.append(Recreated(read, at_ms, before["last_depth"] or 0))
    return found
