"""The changes made with this program beside an analysis: those of its queues, and the figures that contain them.

A recording has the counters of the server, and in these a change is no different from the work of producers and
consumers. A figure is said to contain a change only if the recording has no gap around it, and the figure is not less.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from rsmq_tui.history.analysis.reading import Analysis, of_queues
from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_1M, VERDICT_RUNS, WIDTHS_MS
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.store import day_of
from rsmq_tui.monitor.changes import AuditedChange
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from rsmq_tui.monitor.text import count, plural, printable

COUNTED_MAX = 20
"""For how many changes the figures are looked up that contain them: the greatest ones."""


class CountedChange(NamedTuple):
    """What a change contributes to a figure of an analysis: to the arrivals or deletes of a queue in some minutes.

    The ``metric`` is ``arrivals`` or ``deletes``; ``total`` is the figure, and ``number`` messages of it are of the
    change. If ``number`` is negative, up to that many deletes of consumers are missing in the figure.
    """

    change: AuditedChange
    ref: QueueRef
    metric: str
    number: int
    total: int
    span: TimeRange

    def sentence(self, queue: str, minutes: str, moment: str) -> str:
        """Return it in a sentence: names of the queue, of the time of the figure, and of when the change was made."""
        change = f"the change of {moment} ({printable(self.change.action, 40)})"
        if self.number < 0:
            missing = f"Up to {plural(-self.number, 'delete')} of consumers of {queue} from {minutes} are not counted"
            return f"{missing}, because of {change}: it put messages there."
        figure = f"Of the {count(self.total)} {self.metric} of {queue} from {minutes}"
        did = printable(self.change.past or "changed", 40)
        are, them = ("is", "it") if self.number == 1 else ("are", "them")
        return f"{figure}, {count(self.number)} {are} of {change}, which {did} {them}."


def changes_of(
    changes: Iterable[AuditedChange], span: TimeRange, refs: Collection[QueueRef], *, is_chosen: bool = False
) -> tuple[AuditedChange, ...]:
    """Return the changes that began in a range: of these queues, or if they were not chosen, of any in their places.

    A server is known by its address, as in the recording.
    """
    wanted = {ref[1:] for ref in refs}
    places = {ref[1:3] for ref in refs}

    def is_meant(change: AuditedChange) -> bool:
        return any(one in wanted if is_chosen else one[:2] in places for one in change.subjects)

    return tuple(one for one in changes if span.from_ms <= one.at_ms <= span.to_ms and is_meant(one))


def counted_of(
    analysis: Analysis, changes: Iterable[AuditedChange], refs: Collection[QueueRef]
) -> tuple[CountedChange, ...]:
    """Return the figures of these queues that contain changes, for the greatest changes, in the order of time."""
    named: dict[tuple[str, ...], list[QueueRef]] = {}
    for ref in refs:
        named.setdefault(ref[1:], []).append(ref)
    found = [
        (change, ref, metric, number)
        for change in changes
        for counts in change.counts
        for ref in named.get((change.server, counts.queue.ns, counts.queue.queue), ())
        for metric, number in (("arrivals", counts.arrivals), ("deletes", counts.deletes))
        # What the undo of a sent message takes from the arrivals may be more than those of producers.
        if number > 0 or (number < 0 and metric == "deletes")
    ]
    greatest = sorted(found, key=lambda one: -abs(one[3]))[:COUNTED_MAX]
    counted = [_counted(analysis, *one) for one in greatest]
    return tuple(sorted((one for one in counted if one is not None), key=lambda one: (one.change.at_ms, one.ref)))


def _counted(
    analysis: Analysis, change: AuditedChange, ref: QueueRef, metric: str, number: int
) -> CountedChange | None:
    """Return the figure, over whole buckets of a roll-up, that contains a change for certain; None if there is none."""
    if change.lasted_ms is None or change.lasted_ms > DAY_MS or not change.is_certain:
        return None
    from_ms, to_ms = change.at_ms, change.at_ms + change.lasted_ms
    near = TimeRange(from_ms - HOUR_MS, to_ms + 2 * HOUR_MS)
    table = ROLLUP_1M if day_of(from_ms) in analysis.days(ROLLUP_1M, near) else ROLLUP_1H
    width_ms = WIDTHS_MS[table]
    inside = (pc.field("bucket_ms") > from_ms - width_ms) & (pc.field("bucket_ms") <= near.to_ms)
    rows = analysis.read(table, ("bucket_ms", metric), inside & of_queues((ref,)), near).sort_by("bucket_ms")
    buckets: list[tuple[int, int | None]] = [(row["bucket_ms"], row[metric]) for row in rows.to_pylist()]
    # The first sample after the change, which has its messages, is in one of these at the latest.
    after = [bucket_ms for bucket_ms, _ in buckets if bucket_ms > to_ms][:1]
    known = [total for bucket_ms, total in buckets if after and bucket_ms <= after[0] and total is not None]
    if not known or not _is_recorded(analysis, ref, TimeRange(from_ms, to_ms), after[0] + width_ms):
        return None
    total = sum(known)
    span = TimeRange(buckets[0][0], after[0] + width_ms)
    return CountedChange(change, ref, metric, number, total, span) if total >= number else None


def _is_recorded(analysis: Analysis, ref: QueueRef, span: TimeRange, until_ms: int) -> bool:
    """Return whether samples before and after a range follow each other; the one after it is before ``until_ms``."""
    # A run lasts an hour at most.
    reach = TimeRange(span.from_ms - HOUR_MS, until_ms)
    near = (pc.field("last_ms") >= reach.from_ms) & (pc.field("first_ms") < until_ms)
    rows: Sequence[dict[str, int]] = analysis.read(
        VERDICT_RUNS, ("first_ms", "last_ms", "continues"), near & of_queues((ref,)), reach
    ).to_pylist()
    return (
        any(row["first_ms"] <= span.from_ms for row in rows)
        and any(row["last_ms"] > span.to_ms for row in rows)
        and all(row["continues"] or row["first_ms"] <= span.from_ms for row in rows)
    )
