"""Checking queues once, for a monitoring system: what is over its limit, and how bad that is."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rsmq_tui.monitor.filters import parse_filter
from rsmq_tui.monitor.last_seen import LastSeen
from rsmq_tui.monitor.limits import Limit, Limits, Status, worst
from rsmq_tui.monitor.looks import QUICK_QUEUES, QUICK_SPAN
from rsmq_tui.monitor.peek import PeekError
from rsmq_tui.monitor.poller import LivePoller
from rsmq_tui.monitor.search import search
from rsmq_tui.monitor.snapshot import QueueState, Snapshot, Verdict
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.monitor.wording import SENTENCE_MAX, count, duration, plural, printable
from rsmq_tui.protocol import SERVER_ERRORS, Failure, QueueReader, RawMessage, failure_of, leading_int

Scanned = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; ``queue`` is None where it is the server. ``value`` and ``limit`` have ``kind``'s unit.

    ``kind`` is one of broken, poisoned, aged, depth, age_ms, rc, stalled_ms, expired, index, missing, unreachable,
    timeout, unread and state.
    """

    status: Status
    kind: str
    queue: str | None
    text: str
    value: int | None = None
    limit: int | None = None


@dataclass(slots=True)
class Checked:
    """What a check of one namespace found.

    ``queues`` are those that were checked, as they were at ``at_ms``; ``poison`` counts the messages that the rc limit
    is about, and ``idle_ms`` says how long no message was received although some were ready. ``notes`` are sentences
    about what was not looked at. ``failure`` is the kind of failure that kept it from being read, if one did.
    """

    server: str
    ns: str
    at_ms: int = 0
    queues: tuple[QueueState, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    poison: dict[str, int] = field(default_factory=dict)
    idle_ms: dict[str, int] = field(default_factory=dict)
    failure: str | None = None

    @property
    def status(self) -> Status:
        """The worst that was found."""
        return worst(problem.status for problem in self.problems)

    def add(self, status: Status, kind: str, queue: str | None, text: str, *numbers: int) -> None:
        """Take note of a problem; the numbers are its value and its limit."""
        self.problems.append(Problem(status, kind, queue, printable(text, SENTENCE_MAX), *numbers))

    def add_failure(self, failure: Failure) -> None:
        """Take note that the server cannot be read."""
        self.failure = failure.kind
        self.add(Status.UNKNOWN, "unreachable", None, f"{failure.sentence}; {failure.hint}")


async def check(
    reader: QueueReader,
    limits: Limits,
    thresholds: Thresholds,
    last_seen: LastSeen,
    scanned: Scanned = lambda queue, messages, depth: None,
) -> Checked:
    """Check the reader's namespace; what cannot be read is a problem too. ``scanned`` is told how far a scan is."""
    checked = begun(reader.label, reader.ns, thresholds)
    return await in_time(_Check(reader, limits, thresholds, last_seen, checked, scanned).run(), checked, limits)


def begun(server: str, ns: str, thresholds: Thresholds) -> Checked:
    """Return a check that has found nothing yet; it notes the thresholds that are not the defaults."""
    changed = thresholds.changed()
    return Checked(server, ns, notes=[f"thresholds that differ from the defaults: {changed}"] if changed else [])


async def in_time(checking: Coroutine[None, None, None], checked: Checked, limits: Limits) -> Checked:
    """Let a check run for as long as it may take, and return what it found, the worst first."""
    try:
        async with asyncio.timeout(limits.timeout_s):
            await checking
    except TimeoutError:
        words = f"not done within {limits.timeout_s:g} s: check fewer queues, scan less or allow more time"
        checked.add(Status.UNKNOWN, "timeout", None, words)
    checked.problems.sort(key=lambda problem: (problem.status.rank, problem.queue or ""))
    return checked


@dataclass(slots=True)
class _Check:
    reader: QueueReader
    limits: Limits
    thresholds: Thresholds
    last_seen: LastSeen
    checked: Checked
    scanned: Scanned

    async def run(self) -> None:
        # The poller is only asked once: the reader stays its owner's to close.
        snapshot = await LivePoller(self.reader, thresholds=self.thresholds).poll()
        if failure := snapshot.link.failure:
            self.checked.add_failure(failure)
            return
        self.checked.at_ms = snapshot.at_ms
        self._choose(snapshot)
        for queue in self.checked.queues:
            judge(self.checked, queue, self.limits, self.thresholds)
        try:
            if self.limits.stalled_ms is not None:
                await self._judge_idle(snapshot, self.limits.stalled_ms)
            if self.limits.rc is None:
                await self._look_at_counts()
            else:
                await self._scan_counts(self.limits.rc)
        except SERVER_ERRORS as error:
            self.checked.add_failure(failure_of(error))

    def _choose(self, snapshot: Snapshot) -> None:
        """Take the queues that are asked for; a check of nothing is never OK."""
        if problem := _index_problem(snapshot, self.reader):
            self.checked.add(Status.CRITICAL, "index", None, problem)
            return
        where = f"in namespace {snapshot.ns}"
        choose(self.checked, snapshot.queues, self.limits, where)
        if not snapshot.queues and not self.limits.queues:
            self.checked.add(Status.UNKNOWN, "missing", None, f"no queues {where}")

    async def _judge_idle(self, snapshot: Snapshot, limit: Limit) -> None:
        """Find queues that nobody receives from: since the checks before, or as the queue itself proves."""
        # All queues are remembered, whichever were asked for: another check may be about others.
        known = await asyncio.to_thread(self.last_seen.update, snapshot.at_ms, snapshot.queues)
        if known.problem:
            self.checked.add(
                Status.UNKNOWN, "state", None, f"--stalled cannot read the state of earlier checks: {known.problem}"
            )
        elif known.is_first:
            self.checked.notes.append("--stalled: this is the first check, with nothing to compare to yet")
        for queue in self.checked.queues:
            if not queue.ready:
                continue
            idle_ms = snapshot.at_ms - known.since_ms.get(queue.name, snapshot.at_ms)
            if queue.totalrecv == 0:
                # Never received from: a message that is ready has waited since it became due.
                idle_ms = max(idle_ms, queue.waiting_ms(snapshot.at_ms) or 0)
            self.checked.idle_ms[queue.name] = idle_ms
            if over := limit.reached(idle_ms):
                words = f"{plural(queue.ready, 'message')} ready and none received for {duration(idle_ms)}"
                self.checked.add(over[0], "stalled_ms", queue.name, words, idle_ms, over[1])

    async def _look_at_counts(self) -> None:
        """Find messages that come back again and again, as far as a quick look at each queue shows them."""
        rc, depth, seen = self.thresholds.poison_rc, 0, 0
        depths = {queue.name: queue.depth for queue in self.checked.queues}
        names = [queue.name for queue in self.checked.queues if queue.depth]
        for start in range(0, len(names), QUICK_QUEUES):
            part = names[start : start + QUICK_QUEUES]
            looks = await self.reader.rows.receive_counts(part, self.checked.at_ms, rc, QUICK_SPAN)
            for name, (looked, poison, highest) in zip(part, looks, strict=True):
                depth, seen = depth + (depths[name] or 0), seen + looked
                if poison:
                    words = f"{plural(poison, 'message')} received {rc} times or more (up to {count(highest)})"
                    self.checked.add(Status.WARNING, "poisoned", name, words, highest, rc)
        if seen < depth:
            words = f"receive counts: checked {count(seen)} of {plural(depth, 'message')}; --max-rc checks all"
            self.checked.notes.append(words)

    async def _scan_counts(self, limit: Limit) -> None:
        """Find them by looking at all messages, up to the limit of a scan."""
        for queue in self.checked.queues:
            if not queue.depth:
                continue
            try:
                await self._scan(queue, limit)
            except PeekError as error:
                # A broken queue has been told of.
                if not queue.broken:
                    self.checked.add(
                        Status.UNKNOWN, "unread", queue.name, f"its receive counts cannot be read: {error}"
                    )

    async def _scan(self, queue: QueueState, limit: Limit) -> None:
        wanted, found, looked = parse_filter(f"rc>={limit.least}"), [0], 0
        scan = search(self.reader, queue.name, wanted, counts=True, bodies=False, sizes=False)
        async with aclosing(scan) as coming:
            async for progress in coming:
                found += map(_rc, progress.messages)
                looked = progress.scanned
                self.scanned(queue.name, looked, progress.depth)
                if looked >= self.limits.scan_limit and looked < progress.depth:
                    words = f"{count(looked)} of {count(progress.depth)} messages were checked for --max-rc"
                    self.checked.notes.append(f"{printable(queue.name)}: {words}; --scan-limit allows more")
                    break
        self.checked.poison[queue.name] = len(found) - 1
        if over := limit.reached(max(found)):
            many = sum(rc >= over[1] for rc in found)
            words = f"{plural(many, 'message')} received {over[1]} times or more (up to {count(max(found))})"
            self.checked.add(over[0], "rc", queue.name, words, max(found), over[1])


def choose(
    checked: Checked, queues: Sequence[QueueState], limits: Limits, where: str, empty: Sequence[str] = ()
) -> None:
    """Take the queues that are asked for; those that match a pattern of ``empty`` need not be there."""
    chosen: set[str] = set()
    names = {queue.name for queue in queues}
    for wanted in limits.queues:
        found = {wanted} & names or (
            {name for name in names if fnmatchcase(name, wanted)} if _is_glob(wanted) else set()
        )
        if not found and (_is_glob(wanted) or not any(fnmatchcase(wanted, pattern) for pattern in empty)):
            what = "no queue matches this pattern" if _is_glob(wanted) else "no such queue"
            checked.add(Status.UNKNOWN, "missing", wanted, f"{what} {where}")
        chosen |= found
    checked.queues = tuple(queue for queue in queues if not limits.queues or queue.name in chosen)


def judge(checked: Checked, queue: QueueState, limits: Limits, thresholds: Thresholds) -> None:
    """Find what the numbers of a queue say."""
    one = "item" if queue.kind == "list" else "message"
    if queue.verdict is Verdict.BROKEN:
        checked.add(Status.CRITICAL, "broken", queue.name, queue.broken or "its keys disagree")
    if limits.depth and queue.depth is not None and (over := limits.depth.above(queue.depth)):
        words = f"{plural(queue.depth, one)} stored, more than {count(over[1])}"
        checked.add(over[0], "depth", queue.name, words, queue.depth, over[1])
    waiting_ms = queue.waiting_ms(checked.at_ms)
    if waiting_ms is None:
        return
    waited = f"the first ready {one} has waited {duration(waiting_ms)}"
    if limits.age_ms is None:
        if waiting_ms >= thresholds.aged_ms:
            checked.add(Status.WARNING, "aged", queue.name, waited, waiting_ms, thresholds.aged_ms)
    elif over := limits.age_ms.above(waiting_ms):
        words = f"{waited}, longer than {duration(over[1])}"
        checked.add(over[0], "age_ms", queue.name, words, waiting_ms, over[1])


def _rc(message: RawMessage) -> int:
    return leading_int(message.rc) or 0


def _is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _index_problem(snapshot: Snapshot, reader: QueueReader) -> str | None:
    """Return why the names of the queues cannot be read; what else is noted of a server is no problem."""
    notes: Sequence[str] = snapshot.notes
    return notes[0] if len(notes) > (reader.scripts_refused is not None) else None
