"""Checks queues once, for a monitoring system: limits, results, and the state of earlier checks."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from rsmq_tui.files import locked, read_json, reason_of, whole_file
from rsmq_tui.monitor.filters.json_paths import JsonPath
from rsmq_tui.monitor.filters.language import is_pattern, parse_filter
from rsmq_tui.monitor.filters.search import search
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.messages.peek import QUICK_QUEUES, QUICK_SPAN, PeekError
from rsmq_tui.monitor.model import QueueState, Snapshot, Verdict
from rsmq_tui.monitor.poller import RsmqPoller
from rsmq_tui.monitor.text import (
    SENTENCE_MAX,
    and_more,
    count,
    duration,
    plural,
    printable,
    printable_name,
    size,
)
from rsmq_tui.monitor.tracking.list_tracker import list_trackers
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.monitor.tracking.reasons import reason, waited
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol import SERVER_ERRORS, Failure, RawMessage, Row, RsmqReader, failure_of, leading_int
from rsmq_tui.protocol.kinds import LIST, is_among, kind_named, kind_of, read_reference
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.server.status import STALE_REPLICA


class Status(StrEnum):
    """The result of a check, worst first. UNKNOWN is worse than WARNING: an unreadable server may hide anything."""

    CRITICAL = "critical"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"

    @property
    def exit_status(self) -> int:
        """The exit status of monitoring plugins: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
        return {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}[self.value]

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self]


_RANKS = {status: rank for rank, status in enumerate(Status)}


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of them, OK if there are none."""
    return min(statuses, key=lambda status: status.rank, default=Status.OK)


@dataclass(frozen=True, slots=True)
class CheckLimit:
    """The bounds of a number for a warning and for critical; None for never."""

    warning: int | None = None
    critical: int | None = None

    @property
    def least(self) -> int:
        """The lower of the two."""
        return min(bound for bound in (self.warning, self.critical) if bound is not None)

    def above(self, value: int) -> tuple[Status, int] | None:
        """Return the status of a value above a bound, and that bound; None for a value within both."""
        return self._judged(lambda bound: value > bound)

    def reached(self, value: int) -> tuple[Status, int] | None:
        """As ``above``, but a value equal to the bound exceeds it."""
        return self._judged(lambda bound: value >= bound)

    def _judged(self, is_over: Callable[[int], bool]) -> tuple[Status, int] | None:
        if self.critical is not None and is_over(self.critical):
            return Status.CRITICAL, self.critical
        if self.warning is not None and is_over(self.warning):
            return Status.WARNING, self.warning
        return None


@dataclass(frozen=True, slots=True)
class Limits:
    """What is checked: ``queues`` are names or patterns, empty for all; a limit of None is not checked.

    ``expired`` applies to the leases of list queues. ``scan_limit`` is how many messages of a queue are read for
    ``rc``; ``timeout_s`` applies to a whole check.
    """

    queues: tuple[str, ...] = ()
    depth: CheckLimit | None = None
    age_ms: CheckLimit | None = None
    rc: CheckLimit | None = None
    stalled_ms: CheckLimit | None = None
    expired: CheckLimit | None = None
    scan_limit: int = 100_000
    timeout_s: float = 10.0

    @property
    def any_given(self) -> bool:
        """Whether there is a limit."""
        return any(each is not None for each in (self.depth, self.age_ms, self.rc, self.stalled_ms, self.expired))


# If the stored time is further ahead than this, the server's clock was set back, and the file does not count.
_OVERLAP_MAX_MS = 60_000
# Of the queues that a note names.
_NAMED_MAX, _NAME_MAX = 5, 40
# The end of the calendar.
_LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class UnreceivedSince:
    """Since when, in server time, each queue with ready messages has had no receive, as far as checks have seen.

    ``is_first`` is True if there was no earlier check; ``problem`` says why the file cannot be used, or is None.
    """

    since_ms: Mapping[str, int]
    is_first: bool = False
    problem: str | None = None


class _Seen(NamedTuple):
    """A queue with ready messages, as the file has it. Older files have no ``created_ms``."""

    totalrecv: int | None
    since_ms: int
    created_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Record:
    """The content of the file: ``queues`` are those that had ready messages at ``at_ms``."""

    at_ms: int
    queues: dict[str, _Seen] = field(default_factory=dict)


class LastSeen:
    """Stores the state of namespace ``ns`` on ``server`` in its own file in ``folder``, created if needed."""

    def __init__(self, folder: Path, server: str, ns: str) -> None:
        self._server, self._ns = server, ns
        name = hashlib.sha256(f"{server}\n{ns}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path = folder / f"{name}.json"

    def update(self, at_ms: int, queues: Sequence[QueueState]) -> UnreceivedSince:
        """Store the state of all queues of the namespace, and return the times with no receive.

        Several programs may do so at once. A file with invalid content counts as missing. Queues that are gone, or
        have nothing ready, are dropped.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self.path.with_suffix(".lock")):
                earlier = self._read(at_ms)
                now = _followed(earlier, at_ms, queues)
                # A later check may have written first.
                if earlier is None or earlier.at_ms <= at_ms:
                    self._write(now)
        except OSError as error:
            problem = f"{self.path.parent} cannot be written: {reason_of(error)}"
            return UnreceivedSince({}, problem=problem)
        return UnreceivedSince({name: seen.since_ms for name, seen in now.queues.items()}, is_first=earlier is None)

    def _read(self, at_ms: int) -> _Record | None:
        try:
            found = read_json(self.path)
            if (found["server"], found["ns"]) != (self._server, self._ns):
                return None
            queues = {str(name): _entry(*entry) for name, entry in found["queues"].items()}
            record = _Record(_entry(None, found["at_ms"]).since_ms, queues)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, LookupError, AttributeError):
            return None
        return None if record.at_ms > at_ms + _OVERLAP_MAX_MS else record

    def _write(self, record: _Record) -> None:
        fields = {"server": self._server, "ns": self._ns, "at_ms": record.at_ms, "queues": record.queues}
        with whole_file(self.path, force=True) as write:
            # Names may hold bytes that are not UTF-8; JSON escapes preserve them.
            write(json.dumps(fields))


def _entry(totalrecv: Any, since_ms: Any, created_ms: Any = None) -> _Seen:
    """Return an entry of the file; raises TypeError or ValueError if it is invalid."""
    if not isinstance(since_ms, int) or not all(isinstance(each, int | None) for each in (totalrecv, created_ms)):
        raise TypeError
    if not 0 <= since_ms <= _LAST_MS:
        raise ValueError
    return _Seen(totalrecv, since_ms, created_ms)


def _followed(earlier: _Record | None, at_ms: int, queues: Sequence[QueueState]) -> _Record:
    """Return the new record: a queue keeps its time while it is the same queue and its receive counter is the same."""
    known = {} if earlier is None else earlier.queues
    now = _Record(at_ms)
    for queue in queues:
        if queue.ready:
            seen = known.get(queue.name)
            # A queue that was deleted and created again starts at 0 receives, as the one before it may have ended.
            runs_on = (
                seen is not None and seen.totalrecv == queue.totalrecv and seen.created_ms in (None, queue.created_ms)
            )
            since_ms = min(seen.since_ms, at_ms) if seen is not None and runs_on else at_ms
            now.queues[queue.name] = _Seen(queue.totalrecv, since_ms, queue.created_ms)
    return now


Scanned = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; ``queue`` is None for a problem of the server. ``value`` and ``limit`` are in the unit of ``kind``.

    ``kind`` is one of broken, poisoned, aged, depth, age_ms, rc, stalled_ms, expired, memory, replication, index,
    missing, unreachable, timeout, unread and state.
    """

    status: Status
    kind: str
    queue: str | None
    text: str
    value: int | None = None
    limit: int | None = None


@dataclass(slots=True)
class Checked:
    """The result of a check of one namespace.

    ``queues`` are the checked queues, as they were at ``at_ms``. ``poison`` counts the messages above the rc limit;
    ``idle_ms`` is how long no message was received although some were ready. ``notes`` are sentences about what was
    not checked. ``failure`` is the kind of failure if the namespace could not be read.
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
        """The worst status of the problems."""
        return worst(problem.status for problem in self.problems)

    def add(self, status: Status, kind: str, queue: str | None, text: str, *numbers: int) -> None:
        """Add a problem; the numbers are its value and its limit."""
        self.problems.append(Problem(status, kind, queue, printable(text, SENTENCE_MAX), *numbers))

    def leave_out(self, expected: Expected) -> None:
        """Drop the problems of queues whose trouble is expected; a note says which queues that are."""
        queues, kind = (problem.queue for problem in self.problems), kind_of(self.ns).name
        names = dict.fromkeys(name for name in queues if name is not None and expected.holds(name, kind))
        if names:
            self.problems = [problem for problem in self.problems if problem.queue not in names]
            shown = [printable_name(name, _NAME_MAX) for name in list(names)[:_NAMED_MAX]]
            self.notes.append(f"expected, as `ignore` names them: problems of {and_more(shown, len(names))}")

    def add_failure(self, failure: Failure) -> None:
        """Add a problem: the server cannot be read."""
        self.failure = failure.kind
        self.add(Status.UNKNOWN, "unreachable", None, failure.words)


async def check(
    reader: RsmqReader,
    limits: Limits,
    thresholds: Thresholds,
    last_seen: LastSeen,
    scanned: Scanned = lambda queue, messages, depth: None,
) -> Checked:
    """Check the reader's namespace; a failed read is a problem too. ``scanned`` is called with a scan's progress."""
    checked = begun(reader.label, reader.ns, thresholds)
    return await in_time(_Check(limits, thresholds, last_seen, checked, reader, scanned).run(), checked, limits)


def begun(server: str, ns: str, thresholds: Thresholds) -> Checked:
    """Return an empty result; a note lists the thresholds that differ from the defaults."""
    changed = thresholds.changed()
    return Checked(server, ns, notes=[f"thresholds that differ from the defaults: {changed}"] if changed else [])


async def in_time(checking: Coroutine[None, None, None], checked: Checked, limits: Limits) -> Checked:
    """Run a check until its timeout, and return what it found, the worst first."""
    try:
        async with asyncio.timeout(limits.timeout_s):
            await checking
    except TimeoutError:
        hint = "check fewer queues, scan less" if checked.at_ms else "nothing was read: check whether it is overloaded"
        words = f"not done within {limits.timeout_s:g} s: {hint} or allow more time"
        checked.add(Status.UNKNOWN, "timeout", None, words)
    checked.problems.sort(key=lambda problem: (problem.status.rank, problem.queue or ""))
    return checked


async def _judge_idle(checked: Checked, queues: Sequence[QueueState], last_seen: LastSeen, limit: CheckLimit) -> None:
    """Find checked queues without receives or takes, since earlier checks or according to their own counters.

    All ``queues`` are stored, because another check may select others.
    """
    known = await asyncio.to_thread(last_seen.update, checked.at_ms, queues)
    if known.problem:
        words = f"--stalled cannot read the state of earlier checks: {known.problem}"
        checked.add(Status.UNKNOWN, "state", None, words)
    elif known.is_first:
        label = kind_of(checked.ns).label
        of_lists = f" of {label}" if label else ""
        checked.notes.append(f"--stalled: this is the first check{of_lists}, with nothing to compare to yet")
    for queue in checked.queues:
        if not queue.ready:
            continue
        kind = kind_named(queue.kind)
        idle_ms = checked.at_ms - known.since_ms.get(queue.name, checked.at_ms)
        if queue.totalrecv == 0:
            # Without any receive, a ready message has waited since it became due, or since the queue was created:
            # older messages may have been moved there.
            waiting_ms = queue.waiting_ms(checked.at_ms) or 0
            if queue.created_ms is not None and queue.created_ms <= checked.at_ms:
                waiting_ms = min(waiting_ms, checked.at_ms - queue.created_ms)
            idle_ms = max(idle_ms, waiting_ms)
        # The messages that earlier checks saw may be deleted: nothing is idle before its first message is ready.
        # The time in an item of a list is by the clock of its producer, which may be ahead.
        if queue.oldest_ready_due_ms is not None and queue.oldest_ready_due_ms <= checked.at_ms:
            idle_ms = min(idle_ms, checked.at_ms - queue.oldest_ready_due_ms)
        checked.idle_ms[queue.name] = idle_ms
        if over := limit.reached(idle_ms):
            words = f"{plural(queue.ready, kind.noun)} ready and none {kind.taken} for {duration(idle_ms)}"
            checked.add(over[0], "stalled_ms", queue.name, words, idle_ms, over[1])


@dataclass(slots=True)
class _Check:
    limits: Limits
    thresholds: Thresholds
    last_seen: LastSeen
    checked: Checked
    reader: RsmqReader
    scanned: Scanned

    async def run(self) -> None:
        # The poller is not closed: the caller owns the reader.
        snapshot = await RsmqPoller(self.reader, thresholds=self.thresholds).poll()
        if failure := snapshot.connection.failure:
            self.checked.add_failure(failure)
            return
        self.checked.at_ms = snapshot.at_ms
        self._choose(snapshot)
        for queue in self.checked.queues:
            judge(self.checked, queue, self.limits, self.thresholds)
        try:
            await self._judge_server()
            if self.limits.stalled_ms is not None:
                await _judge_idle(self.checked, snapshot.queues, self.last_seen, self.limits.stalled_ms)
            if self.limits.rc is None:
                await self._check_receive_counts()
            else:
                await self._scan_counts(self.limits.rc)
        except SERVER_ERRORS as error:
            self.checked.add_failure(failure_of(error))

    async def _judge_server(self) -> None:
        """Find out whether the memory of the server is full, or its data old, if its user may read INFO."""
        try:
            info = await self.reader.server_info()
        except SERVER_ERRORS as error:
            if failure_of(error).kind not in ("noperm", "error"):
                raise
            return
        if info is None:
            return
        if info.is_stale:
            self.checked.add(Status.WARNING, "replication", None, STALE_REPLICA)
        used, most = info.used_memory, info.maxmemory
        if most and used >= most:
            words = (
                f"the memory of the server is full, {size(used)} of {size(most)}: it refuses messages or evicts keys"
            )
            self.checked.add(Status.CRITICAL, "memory", None, words, used, most)

    def _choose(self, snapshot: Snapshot) -> None:
        """Select the queues; a check of no queue is never OK."""
        if problem := _index_problem(snapshot, self.reader):
            self.checked.add(Status.CRITICAL, "index", None, problem)
            return
        where = f"in namespace {snapshot.ns}"
        choose(self.checked, snapshot.queues, self.limits, where)
        if not snapshot.queues and not self.limits.queues:
            self.checked.add(Status.UNKNOWN, "missing", None, f"no queues {where}")

    async def _check_receive_counts(self) -> None:
        """Find messages that were received too often, in a sample of each queue."""
        rc, depth, seen = self.thresholds.poison_rc, 0, 0
        depths = {queue.name: queue.depth for queue in self.checked.queues}
        names = [queue.name for queue in self.checked.queues if queue.depth]
        for start in range(0, len(names), QUICK_QUEUES):
            part = names[start : start + QUICK_QUEUES]
            looks = await self.reader.rows.receive_counts(part, self.checked.at_ms, rc, QUICK_SPAN)
            for name, (looked, poison, highest) in zip(part, looks, strict=True):
                depth, seen = depth + (depths[name] or 0), seen + looked
                if poison:
                    words = (
                        f"{plural(poison, 'message')} received {plural(rc, 'time')} or more (up to {count(highest)})"
                    )
                    self.checked.add(Status.WARNING, "poisoned", name, words, highest, rc)
        if seen < depth:
            words = f"receive counts: checked {count(seen)} of {plural(depth, 'message')}; --max-rc checks all"
            self.checked.notes.append(words)

    async def _scan_counts(self, limit: CheckLimit) -> None:
        """Find messages that were received too often by scanning, up to ``scan_limit`` messages of each queue."""
        for queue in self.checked.queues:
            if not queue.depth:
                continue
            try:
                await self._scan(queue, limit)
            except PeekError as error:
                # A broken queue has been reported already.
                if not queue.broken:
                    self.checked.add(
                        Status.UNKNOWN, "unread", queue.name, f"its receive counts cannot be read: {error}"
                    )

    async def _scan(self, queue: QueueState, limit: CheckLimit) -> None:
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
    """Select the queues, by name or reference; a named queue that matches a pattern of ``empty`` need not exist."""
    kind, chosen = kind_of(checked.ns), set[str]()
    for wanted in limits.queues:
        named = read_reference(wanted, checked.ns)
        name = named.queue if named is not None and (named.kind, named.ns) == (kind, checked.ns) else wanted
        found = {queue.name for queue in queues if is_among(queue.name, kind, (wanted, name))}
        if not found and (is_pattern(wanted) or not is_among(name, kind, empty)):
            what = "no queue matches this pattern" if is_pattern(wanted) else "no such queue"
            checked.add(Status.UNKNOWN, "missing", wanted, f"{what} {where}")
        chosen |= found
    checked.queues = tuple(queue for queue in queues if not limits.queues or queue.name in chosen)


def judge(checked: Checked, queue: QueueState, limits: Limits, thresholds: Thresholds) -> None:
    """Compare the numbers of a queue with the limits."""
    if queue.verdict is Verdict.BROKEN:
        checked.add(Status.CRITICAL, "broken", queue.name, queue.broken or "its keys disagree")
    if limits.depth and queue.depth is not None and (over := limits.depth.above(queue.depth)):
        words = f"{plural(queue.depth, kind_named(queue.kind).noun)} stored, more than {count(over[1])}"
        checked.add(over[0], "depth", queue.name, words, queue.depth, over[1])
    waiting_ms = queue.waiting_ms(checked.at_ms)
    if waiting_ms is None:
        return
    waits = waited(queue, checked.at_ms)
    if limits.age_ms is None:
        if waiting_ms >= thresholds.aged_ms:
            checked.add(Status.WARNING, "aged", queue.name, waits, waiting_ms, thresholds.aged_ms)
    elif over := limits.age_ms.above(waiting_ms):
        words = f"{waits}, longer than {duration(over[1])}"
        checked.add(over[0], "age_ms", queue.name, words, waiting_ms, over[1])


def _rc(message: RawMessage) -> int:
    return leading_int(message.rc) or 0


def _index_problem(snapshot: Snapshot, reader: RsmqReader) -> str | None:
    """Return why the index of queues cannot be read; the note on refused scripts is not a problem."""
    notes: Sequence[str] = snapshot.notes
    return notes[0] if len(notes) > (reader.scripts_refused is not None) else None


# Failures that concern the keys of RSMQ, not the server.
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
    """Check the list queues that match the reader's ``patterns``; a failed read is a problem too.

    ``age`` is the path of the creation time in an item.
    """
    checked = begun(reader.label, LIST.ns, thresholds)
    work = _ListCheck(limits, thresholds, last_seen, checked, reader, patterns, age)
    return await in_time(work.run(), checked, limits)


def reconcile(found: Sequence[Checked]) -> None:
    """Remove problems that another result of the same server resolves; ``found`` are its namespaces, then any lists.

    A named queue needs to exist in only one of them. If there are lists, one of them may be empty if another holds
    queues, and a user who can read the lists need not be able to read RSMQ's keys.
    """
    lists = None if kind_of(found[-1].ns).has_namespaces else found[-1]
    read = [checked for checked in found if checked.failure is None]
    missing = [{problem.queue for problem in checked.problems if problem.kind == "missing"} for checked in read]

    def is_resolved(problem: Problem, failure: str | None) -> bool:
        match problem.kind, problem.queue:
            case "missing", None:
                return lists is not None and any(checked.queues for checked in found)
            case "missing", queue:
                return any(queue not in queues for queues in missing)
            case "unreachable", _:
                return lists is not None and lists.failure is None and failure in _OF_RSMQ_ALONE
        return False

    for checked in found:
        resolved = [problem for problem in checked.problems if is_resolved(problem, checked.failure)]
        checked.problems = [problem for problem in checked.problems if problem not in resolved]
        refused = (problem.text for problem in resolved if problem.kind == "unreachable")
        checked.notes += [f"namespace {checked.ns} was not checked: {text}" for text in refused]


@dataclass(slots=True)
class _ListCheck:
    limits: Limits
    thresholds: Thresholds
    last_seen: LastSeen
    checked: Checked
    reader: ListReader
    patterns: Sequence[str]
    age: JsonPath | None
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
        # An empty list has no key, so a missing list that matches a pattern is not a problem.
        choose(checked, queues, limits, "among the lists", self.patterns)
        if not queues and not limits.queues:
            patterns = " or ".join(self.patterns)
            words = f"no list matches {patterns}: Redis has no key for an empty list, so name the lists to check"
            checked.add(Status.UNKNOWN, "missing", None, words)
        for queue in checked.queues:
            judge(checked, queue, limits, self.thresholds)
            self._judge_leases(queue)
        if limits.stalled_ms is not None:
            # Lists do not count takes: a hash of the next item replaces the counter.
            marked = [queue._replace(totalrecv=self._mark(queue)) for queue in queues]
            await _judge_idle(checked, marked, self.last_seen, limits.stalled_ms)
        self._note_what_is_unknown()

    async def _poll(self) -> tuple[QueueState, ...]:
        rows = self.reader.rows
        index = await rows.index()
        self.checked.at_ms = index.at_ms
        tracker = PlaceTracker(self.thresholds, "", list_trackers(self.age))
        tracker.begin(index.at_ms, index.names)
        self.rows.update(await rows.rows(index.at_ms))
        tracker.add_rows(range(len(index.names)), [self.rows[name] for name in index.names])
        return tracker.finish()[0]

    def _judge_leases(self, queue: QueueState) -> None:
        """Find leases past their deadline: more than the limit, or for so long that no reaper can be running."""
        checked, limit = self.checked, self.limits.expired
        if queue.expired is None:
            return
        if limit is None:
            if queue.verdict is Verdict.LEAKING:
                words = reason(queue, checked.at_ms, self.thresholds)
                checked.add(Status.WARNING, "expired", queue.name, words, queue.expired)
        elif over := limit.above(queue.expired):
            words = f"{plural(queue.expired, 'lease')} expired, more than {count(over[1])}"
            checked.add(over[0], "expired", queue.name, words, queue.expired, over[1])

    def _mark(self, queue: QueueState) -> int:
        """Return a number that identifies the next item; a new number each time if the item is unknown.

        If the next two items are equal, a take does not change the next item, so the counts are included.
        """
        head = self.rows[queue.name][3]
        if not isinstance(head, list):
            return self.checked.at_ms
        counts = (queue.ready, queue.hidden) if head[2] > 1 else ()
        text = repr((head[0], head[1], counts)).encode()
        return int.from_bytes(hashlib.sha1(text, usedforsecurity=False).digest()[:_MARK_BYTES])

    def _note_what_is_unknown(self) -> None:
        checked, limits = self.checked, self.limits
        if limits.rc is not None and checked.queues:
            checked.notes.append("--max-rc does not apply to lists: their items have no receive counts")
        unknown = sum(bool(queue.ready) and queue.oldest_ready_ms is None for queue in checked.queues)
        if limits.age_ms is not None and unknown:
            where = "set lists_age in a profile to the JSON path of the time in an item"
            checked.notes.append(f"--max-age does not apply to {plural(unknown, 'list')}: age unknown ({where})")
