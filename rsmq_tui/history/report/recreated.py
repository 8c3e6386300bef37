"""Queues that were deleted and created again in a time range: what a report says of such a name is of several queues.

Lists have no time of creation, so nothing is known of them. What was lost in a restart of the server is told there.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import VERDICT_RUNS
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.names import read_name
from rsmq_tui.history.report.restarts import Restart

# So many queues are looked at: a program may create its queues again all the time.
_QUEUES_MAX = 1_000
_QUEUE = ("profile", "server", "ns", "queue")
_COLUMNS = (*_QUEUE, "first_ms", "last_ms", "last_depth", "created_ms")


class Recreated(NamedTuple):
    """A queue of this name was created at ``at_ms``; the one before held ``messages`` at its last poll."""

    ref: QueueRef
    at_ms: int
    messages: int


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
    several = [ref for ref, times_ms in lives.items() if len(times_ms) > 1][:_QUEUES_MAX]
    of_these = known & pc.field("queue").isin(pa.array([ref.queue for ref in several], pa.string()))
    runs: dict[QueueRef, list[dict[str, Any]]] = {ref: [] for ref in several}
    for row in analysis.read(VERDICT_RUNS, _COLUMNS, of_these, span).sort_by("first_ms").to_pylist():
        if (ref := _ref(row)) in runs:
            runs[ref].append(row)
    found = [one for ref, of_queue in runs.items() for one in _changes(ref, of_queue, span, restarts)]
    wanted = (one for one in found if chosen is None or one.ref in chosen)
    return tuple(sorted(wanted, key=lambda one: (one.at_ms, one.ref)))


def _ref(row: dict[str, Any]) -> QueueRef:
    """Return the queue of a row, by its names as stored."""
    return QueueRef(*(row[name] for name in _QUEUE))


def _changes(
    ref: QueueRef, runs: Sequence[dict[str, Any]], span: TimeRange, restarts: Collection[Restart]
) -> list[Recreated]:
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
