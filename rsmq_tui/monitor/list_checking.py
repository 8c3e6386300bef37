"""Checking list queues once, for a monitoring system, as ``checking`` does it for those of RSMQ."""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from rsmq_tui.monitor.checking import Checked, begun, choose, in_time, judge
from rsmq_tui.monitor.json_paths import JsonPath
from rsmq_tui.monitor.last_seen import LastSeen
from rsmq_tui.monitor.limits import Limit, Limits, Status
from rsmq_tui.monitor.list_tracking import list_trackers
from rsmq_tui.monitor.sampler import Sampler
from rsmq_tui.monitor.snapshot import QueueState, Verdict
from rsmq_tui.monitor.verdicts import Thresholds, reason
from rsmq_tui.monitor.wording import count, duration, plural
from rsmq_tui.protocol import SERVER_ERRORS, Row, failure_of
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.protocol.lists.reader import ListReader

# What keeps somebody from a namespace, and not from the server.
_OF_RSMQ_ALONE = ("noperm", "crossslot")
_MARK_BYTES = 7


async def check_lists(
    reader: ListReader,
    patterns: Sequence[str],
    limits: Limits,
    thresholds: Thresholds,
    last_seen: LastSeen,
    age: JsonPath | None = None,
) -> Checked:
    """Check the list queues that the reader's ``patterns`` mean; what cannot be read is a problem too.

    ``age`` is where an item tells when it was made.
    """
    checked = begun(reader.label, LISTS_NS, thresholds)
    work = _ListCheck(reader, patterns, limits, thresholds, last_seen, age, checked)
    return await in_time(work.run(), checked, limits)


def reconcile(found: Sequence[Checked]) -> None:
    """Forgive places of a server what others of it make good for: of its namespaces, and its lists as the last.

    A queue that was asked for need be in one of them only, not each of them need hold queues, and whoever may read
    lists need not be able to read what RSMQ keeps.
    """
    read = [checked for checked in found if checked.failure is None]
    nowhere = [{problem.queue for problem in checked.problems if problem.kind == "missing"} for checked in read]
    missing = set.intersection(*nowhere) if nowhere else set()
    if any(checked.queues for checked in found):
        missing.discard(None)
    *others, lists = found
    for checked in found:
        checked.problems = [p for p in checked.problems if p.kind != "missing" or p.queue in missing]
    for checked in others:
        if lists.failure is None and checked.failure in _OF_RSMQ_ALONE:
            refused = [problem for problem in checked.problems if problem.kind == "unreachable"]
            checked.problems = [problem for problem in checked.problems if problem not in refused]
            checked.notes += [f"namespace {checked.ns} was not checked: {problem.text}" for problem in refused]


@dataclass(slots=True)
class _ListCheck:
    reader: ListReader
    patterns: Sequence[str]
    limits: Limits
    thresholds: Thresholds
    last_seen: LastSeen
    age: JsonPath | None
    checked: Checked
    rows: dict[str, Row] = field(default_factory=dict)

    async def run(self) -> None:
        checked, limits = self.checked, self.limits
        try:
            await self.reader.discovery.search()
            queues = await self._poll()
        except SERVER_ERRORS as error:
            checked.add_failure(failure_of(error))
            return
        if note := self.reader.discovery.note:
            checked.add(Status.UNKNOWN, "unread", None, note)
        # A list that is empty is no key: what a pattern does not find now need not be wrong.
        choose(checked, queues, limits, "among the lists", self.patterns)
        if not queues and not limits.queues:
            patterns = " or ".join(self.patterns)
            words = f"no list matches {patterns}: Redis has no key for an empty list, so name the lists to check"
            checked.add(Status.UNKNOWN, "missing", None, words)
        for queue in checked.queues:
            judge(checked, queue, limits, self.thresholds)
            self._judge_leases(queue)
        if limits.stalled_ms is not None:
            await self._judge_idle(queues, limits.stalled_ms)
        self._note_what_is_unknown()

    async def _poll(self) -> tuple[QueueState, ...]:
        rows = self.reader.rows
        index = await rows.index()
        self.checked.at_ms = index.at_ms
        sampler = Sampler(self.thresholds, "", list_trackers(self.age))
        sampler.begin(index.at_ms)
        async with aclosing(rows.rows(index.at_ms)) as coming:
            async for names, part in coming:
                sampler.take(names, part)
                self.rows.update(zip(names, part, strict=True))
        return sampler.finish()[0]

    def _judge_leases(self, queue: QueueState) -> None:
        """Find leases past their deadline: more than allowed, or for so long that no reaper can be there."""
        checked, limit = self.checked, self.limits.expired
        if queue.expired is None:
            return
        if limit is None:
            if queue.verdict is Verdict.LEAKING:
                words = reason(queue, checked.at_ms, self.thresholds)
                checked.add(Status.WARNING, "expired", queue.name, words, queue.expired)
        elif over := limit.above(queue.expired):
            words = f"{plural(queue.expired, 'lease')} past the deadline, more than {count(over[1])}"
            checked.add(over[0], "expired", queue.name, words, queue.expired, over[1])

    async def _judge_idle(self, queues: Sequence[QueueState], limit: Limit) -> None:
        """Find lists whose next item is still the one that the checks before saw."""
        checked = self.checked
        marked = [queue._replace(totalrecv=self._mark(queue)) for queue in queues]
        known = await asyncio.to_thread(self.last_seen.update, checked.at_ms, marked)
        if known.problem:
            checked.add(
                Status.UNKNOWN, "state", None, f"--stalled cannot read the state of earlier checks: {known.problem}"
            )
        elif known.is_first:
            checked.notes.append("--stalled: this is the first check of lists, with nothing to compare to yet")
        for queue in checked.queues:
            if not queue.ready:
                continue
            idle_ms = checked.at_ms - known.since_ms.get(queue.name, checked.at_ms)
            checked.idle_ms[queue.name] = idle_ms
            if over := limit.reached(idle_ms):
                words = (
                    f"{plural(queue.ready, 'item')} ready and the next one has been the same for {duration(idle_ms)}"
                )
                checked.add(over[0], "stalled_ms", queue.name, words, idle_ms, over[1])

    def _mark(self, queue: QueueState) -> int:
        """Return a number that tells the next item from others; another one each time where it is not known.

        Where the two next items are equal, one of them taken would not show: there the counts tell too.
        """
        head = self.rows[queue.name][3]
        if not isinstance(head, list):
            return self.checked.at_ms
        counts = (queue.ready, queue.hidden) if head[2] > 1 else ()
        told = repr((head[0], head[1], counts)).encode()
        return int.from_bytes(hashlib.sha1(told, usedforsecurity=False).digest()[:_MARK_BYTES])

    def _note_what_is_unknown(self) -> None:
        checked, limits = self.checked, self.limits
        if limits.rc is not None and checked.queues:
            checked.notes.append("--max-rc does not apply to lists: their items have no receive counts")
        unknown = sum(bool(queue.ready) and queue.oldest_ready_ms is None for queue in checked.queues)
        if limits.age_ms is not None and unknown:
            where = "set lists_age in a profile to the JSON path of the time in an item"
            checked.notes.append(f"--max-age does not apply to {plural(unknown, 'list')}: age unknown ({where})")
