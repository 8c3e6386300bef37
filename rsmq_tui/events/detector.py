"""Finds events by comparing successive snapshots of a place, and the INFO of its server.

Only states that changed are compared (``Snapshot.changed_since``): a quiet queue costs nothing. A worse verdict is
reported at once, a better one when it has lasted for ``HOLD_MS``. A verdict that changes ``FLAPS`` times within
``QUEUE_FLAP_SPAN_MS`` is reported as flapping, and then not again until it has been the same for that long; an error is
reported when it has lasted for ``FLAP_SPAN_MS``, and at once if it is not one of the verdicts of the flapping. The
connection of a server is flapping with as many changes within ``FLAP_SPAN_MS``.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

from rsmq_tui.events.known import local_minute
from rsmq_tui.events.model import Event, EventKind, ReportedVerdict, Severity
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds, Verdict, reason
from rsmq_tui.monitor.incidents import FLAP_SPAN_MS, FLAPS, HOLD_MS, QUEUE_FLAP_SPAN_MS, Expected
from rsmq_tui.monitor.model import Differences, was_created_again
from rsmq_tui.monitor.text import count, duration, duration_up, plural, seconds, size
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.server.status import ServerInfo, server_change

# A queue counts as emptied if a message was ready for this long: queues that consumers keep empty are no news. That
# polls found messages in it is not enough, because it may have been empty between them.
FILLED_MS = 60_000
# Evictions are reported at most this often, with their sum.
EVICTED_EVERY_MS = 60_000
# If more queues were created or deleted between two polls, or within a minute, that is one event, which names this many
# of them; then there is one event for each such minute. Some clients make a queue for each answer that they wait for.
_ONE_BY_ONE, _NAMED = 50, 100
_CHURN_EVERY_MS = 60_000

_SEVERITIES = {
    Verdict.BROKEN: Severity.ERROR,
    Verdict.STALLED: Severity.ERROR,
    Verdict.LEAKING: Severity.ERROR,
    Verdict.GROWING: Severity.WARNING,
    Verdict.POISONED: Severity.WARNING,
    Verdict.AGED: Severity.WARNING,
}
_ERRORS = " or ".join(verdict for verdict, severity in _SEVERITIES.items() if severity is Severity.ERROR)
_ATTRIBUTES = slice(QueueState._fields.index("vt_s"), QueueState._fields.index("created_ms") + 1)


class Hysteresis:
    """Decides when to report a condition that changes.

    ``value`` is the current one, ``reported`` the last reported. ``reported_ms`` is when the value that was reported
    last began, None if that is not known. The value changed after ``after_ms``, if that is known.
    """

    __slots__ = ("_changes", "_span_ms", "after_ms", "changes", "is_flapping", "reported", "reported_ms", "value")

    def __init__(self, reported: Any, reported_ms: int | None = None, span_ms: int = FLAP_SPAN_MS) -> None:
        self.value = self.reported = reported
        self.reported_ms = reported_ms
        self.after_ms: int | None = None
        self.changes = 0
        self.is_flapping = False
        self._span_ms = span_ms
        self._changes: deque[tuple[int, Any]] = deque(maxlen=FLAPS)

    @property
    def changed_ms(self) -> int:
        """When the value changed last."""
        return self._changes[-1][0] if self._changes else 0

    @property
    def is_new(self) -> bool:
        """Whether the value is new, not one of those that it changed between before."""
        return all(value != self.value for _, value in [*self._changes][:-1])

    def change(self, value: Any, at_ms: int, after_ms: int | None = None) -> bool:
        """Record a new value, and return whether the condition begins to flap with it."""
        self.value, self.after_ms = value, after_ms
        self.changes += 1
        self._changes.append((at_ms, value))
        begins = len(self._changes) == FLAPS and 0 <= at_ms - self._changes[0][0] <= self._span_ms
        if self.is_flapping or not begins:
            return False
        self.is_flapping = True
        return True

    def is_settled(self, at_ms: int, hold_ms: int, flapping_ms: int | None = None) -> bool:
        """Return whether the value has lasted long enough to be reported; ``flapping_ms`` applies while it flaps.

        If the clock was set back since, it may have lasted for any time.
        """
        held_ms = self._span_ms if flapping_ms is None else flapping_ms
        return not 0 <= at_ms - self.changed_ms < (held_ms if self.is_flapping else hold_ms)

    def report(self) -> int:
        """Record that the value is reported now, and return how often it changed since the last report."""
        changes, self.changes = self.changes, 0
        self.reported, self.reported_ms, self.is_flapping = self.value, self.changed_ms, False
        return changes


class _QueueVerdict(Hysteresis):
    """The verdict of a queue that is or was in trouble.

    The condition of the trouble that was reported last began at ``began_ms`` and ended at ``ended_ms``, if these are
    known: a verdict begins and ends later.
    """

    __slots__ = ("began_ms", "ended_ms")

    def __init__(self, reported: Verdict | None, reported_ms: int | None = None) -> None:
        super().__init__(reported, reported_ms, QUEUE_FLAP_SPAN_MS)
        self.began_ms: int | None = None
        self.ended_ms: int | None = None

    def lasted_ms(self, last: QueueState | None) -> int | None:
        """Return how long the condition held, None if that is not known; ``last`` is the state before its end."""
        begin_ms = self.reported_ms if self.began_ms is None else self.began_ms
        if begin_ms is None:
            return None
        if last is not None and last.verdict is self.reported and last.since_ms is not None:
            begin_ms = min(begin_ms, last.since_ms)
        return max(0, (self.changed_ms if self.ended_ms is None else self.ended_ms) - begin_ms)

    def report(self) -> int:
        """Record that the verdict is reported now; the times are those of another condition then."""
        self.began_ms = self.ended_ms = None
        return super().report()


class Churn:
    """Decides when to report queues that were created, or deleted: at once, but of many in a minute, once a minute."""

    __slots__ = ("_counted", "_counted_from_ms", "_summed_ms", "_waiting")

    def __init__(self) -> None:
        # How many were reported since that time; and when many were last reported as one.
        self._counted = 0
        self._counted_from_ms: int | None = None
        self._summed_ms: int | None = None
        self._waiting: list[tuple[int, QueueState]] = []

    def add(self, queues: Iterable[QueueState], at_ms: int) -> None:
        """Add the queues that a poll found."""
        self._waiting += ((at_ms, queue) for queue in queues)

    def pop(self, at_ms: int) -> tuple[list[tuple[int, QueueState]], bool]:
        """Return the queues to be reported now, with the times of their polls, and whether to report them as one."""
        if not self._waiting or _is_within(_CHURN_EVERY_MS, self._summed_ms, at_ms):
            return [], False
        found, self._waiting = self._waiting, []
        if not _is_within(_CHURN_EVERY_MS, self._counted_from_ms, at_ms):
            self._counted, self._counted_from_ms = 0, at_ms
        self._counted += len(found)
        are_many = self._counted > _ONE_BY_ONE
        self._summed_ms = at_ms if are_many else None
        return found, are_many


class QueueDetector:
    """Finds the events of the queues of one place, from its snapshots in the order of time.

    ``reported`` has the troubles that are in the log, by queue: an earlier run reported them, or another dashboard that
    has watched for longer. The first verdict of this run, if it began with the run, does not contradict them.
    """

    def __init__(
        self, server: str, ns: str, thresholds: Thresholds, reported: Mapping[str, ReportedVerdict] | None = None
    ) -> None:
        self._server = server
        self.ns = ns
        self._thresholds = thresholds
        self._reported = dict(reported or {})
        self._last: tuple[QueueState, ...] | None = None
        # The time of the previous poll, of the one that is being compared with it, and the events found by that.
        self._last_ms: int | None = None
        self._at_ms = 0
        self._found: list[Event] = []
        self._was_lost = False
        # The last INFO, and whether the server was restarted between the two polls that are compared.
        self._info: ServerInfo | None = None
        self._was_restarted = False
        self._begin_ms = 0
        # The queues that are or were in trouble; and those whose verdict is not reported yet, with their last state
        # before it.
        self._verdicts: dict[str, _QueueVerdict] = {}
        self._held: dict[str, tuple[QueueState, QueueState | None]] = {}
        # The queues whose verdict is not known now.
        self._watched: set[str] = set()
        # The queues in which a message was ready for ``FILLED_MS`` since they were empty last.
        self._filled: set[str] = set()
        self._deleted, self._created = Churn(), Churn()

    def observe(self, snapshot: Snapshot) -> list[Event]:
        """Return what happened since the last snapshot; a failed poll says nothing about queues."""
        if snapshot.connection.failure is not None or snapshot.connection.fresh_at_s is None:
            self._was_lost = True
            return []
        queues, last = snapshot.queues, self._last
        self._last_ms = None if last is None else self._at_ms
        self._last, self._at_ms, self._found = queues, snapshot.at_ms, []
        change = server_change(self._info, snapshot.info)
        self._info = snapshot.info or self._info
        # INFO may show a restart some polls later: which of them it was before is not certain then.
        self._was_restarted = change is not None and change.is_restart and change.until_ms >= (self._last_ms or 0)
        if last is None:
            self._begin_ms = self._at_ms
            self._begin(queues)
        elif queues is not last:
            self._compare(last, snapshot)
        else:
            self._report_churn()
        if self._held:
            self._settle()
        self._was_lost = False
        return self._found

    def _begin(self, queues: Sequence[QueueState]) -> None:
        """Report troubles that were not reported before, and the end of those that were."""
        for queue in queues:
            reported = self._reported.get(queue.name)
            if reported is not None:
                self._verdicts[queue.name] = _QueueVerdict(reported.verdict, reported.at_ms)
                self._follow(queue)
            else:
                self._meet(queue)

    def _meet(self, queue: QueueState) -> None:
        """Process the verdict of a queue of which nothing was known."""
        if queue.verdict is not Verdict.OK:
            self._verdicts[queue.name] = _QueueVerdict(None)
            self._follow(queue)

    def _compare(self, last: Sequence[QueueState], snapshot: Snapshot) -> None:
        differences = snapshot.differences(last)
        gone, created = differences.gone, differences.created
        self._note_filled(differences.before)
        # In most queues that changed, only counts differ. Of the depth, only whether it is 0 matters.
        pairs = [
            (before, after)
            for before, after in differences.pairs
            if before.verdict is not after.verdict
            or before[_ATTRIBUTES] != after[_ATTRIBUTES]
            or (not before.depth) is not (not after.depth)
            or self._was_restarted
        ]
        again = [pair for pair in pairs if was_created_again(pair[0].created_ms, pair[1].created_ms)]
        others = {after.name for _, after in again}
        self._forget({queue.name for queue in gone} | others)
        for before, after in pairs:
            if after.name not in others:
                self._compare_queue(before, after)
        for queue in (*created, *(after for _, after in again)):
            self._meet(queue)
        if self._was_restarted:
            shrunk = {after.name: before for before, after in pairs if _lost_some(before, after)}
            self._add_many(
                [after for _, after in pairs if after.name in shrunk], EventKind.SHRUNK,
                lambda queue: _shrunk(shrunk[queue.name], queue), of_many="shrunk with the restart of the server",
                is_loss=True,
            )  # fmt: skip
            self._add_many(
                # A list of which searches found no key was empty.
                [queue for queue in gone if queue.created_ms is not None], EventKind.DELETED,
                partial(_deleted, how="lost with the restart of the server"),
                of_many="lost with the restart of the server", is_loss=True,
            )  # fmt: skip
            gone = [queue for queue in gone if queue.created_ms is None]
        self._deleted.add(gone, self._at_ms)
        self._created.add(created, self._at_ms)
        self._report_churn()
        self._report_again(again, are_all=len(again) == len(last))

    def _forget(self, names: Set[str]) -> None:
        """Forget queues that no longer exist; others may have their names."""
        for name in names:
            for kept in (self._verdicts, self._held, self._reported):
                kept.pop(name, None)
        self._filled -= names
        self._watched -= names

    def _note_filled(self, queues: Iterable[QueueState]) -> None:
        """Remember the queues in which a message had been ready for ``FILLED_MS`` at the last poll, which they are of.

        A list whose items have no times shows that by a next item that stays the same.
        """
        if self._last_ms is not None:
            latest_ms = self._last_ms - FILLED_MS
            for queue in queues:
                ready_ms = queue.oldest_ready_due_ms
                since_ms = queue.idle_since_ms if ready_ms is None else ready_ms
                if since_ms is not None and since_ms <= latest_ms:
                    self._filled.add(queue.name)

    def _report_again(self, pairs: Sequence[tuple[QueueState, QueueState]], *, are_all: bool) -> None:
        """Report queues that were deleted and created again, by their states; several at a restart are one event."""
        gone = "lost with the restart of the server" if self._was_restarted else "deleted"
        if len(pairs) <= 1 or not (are_all or self._was_lost or self._was_restarted):
            before = {after.name: before for before, after in pairs}
            self._add_many(
                [after for _, after in pairs], EventKind.CREATED,
                lambda queue: f"{gone}{_held_words([before[queue.name]])}, and created again",
                of_many=f"{gone}, and created again", is_loss=self._was_restarted,
            )  # fmt: skip
            return
        why = "" if self._was_restarted else ", as if the server had lost its data"
        what = f"{gone}{_held_words(before for before, _ in pairs)}, and created again{why}"
        self._add_as_one([after for _, after in pairs], EventKind.CREATED, Severity.WARNING, what, str(len(pairs)))

    def _add_many(
        self,
        queues: Sequence[QueueState],
        kind: EventKind,
        text: Callable[[QueueState], str],
        *,
        of_many: str,
        is_loss: bool,
    ) -> None:
        """Report the same of some queues, or of many as one event, whose text is then ``of_many``."""
        severity = Severity.WARNING if is_loss else Severity.INFO
        if len(queues) > _ONE_BY_ONE:
            self._add_as_one(queues, kind, severity, of_many, str(len(queues)))
            return
        for queue in queues:
            self._add_one(queue, kind, severity, text(queue))

    def _report_churn(self) -> None:
        """Report queues that were deleted or created, if it is time for it."""
        for churn, kind, text in (
            (self._deleted, EventKind.DELETED, _deleted),
            (self._created, EventKind.CREATED, _created),
        ):
            seen, are_many = churn.pop(self._at_ms)
            if not are_many:
                for seen_ms, queue in seen:
                    self._add_one(queue, kind, Severity.INFO, text(queue), seen_ms)
                continue
            queues, span_ms = [queue for _, queue in seen], self._at_ms - seen[0][0]
            # Another dashboard counts other minutes, so the number would not tell that its event is the same.
            what, same = (f"{kind} within {duration(span_ms)}", "many") if span_ms > 0 else (kind, str(len(queues)))
            self._add_as_one(queues, kind, Severity.INFO, what, same)

    def _add_one(
        self, queue: QueueState, kind: EventKind, severity: Severity, text: str, at_ms: int | None = None
    ) -> None:
        self._add(kind, severity, text, queue.name, at_ms=at_ms, details=_facts(queue), same=str(queue.created_ms))

    def _add_as_one(
        self, queues: Sequence[QueueState], kind: EventKind, severity: Severity, what: str, same: str
    ) -> None:
        names = [queue.name for queue in queues[:_NAMED]]
        held = _held_words(queues) if kind is EventKind.DELETED else ""
        words = f"{plural(len(queues), 'queue')} {what}{held}: {_some(names)}"
        self._add(kind, severity, words, details={"queues": len(queues), "names": names}, same=same)

    def _compare_queue(self, before: QueueState, after: QueueState) -> None:
        if before.verdict is not after.verdict:
            self._follow(after, before)
        if before[_ATTRIBUTES] != after[_ATTRIBUTES]:
            self._compare_attributes(before, after)
        if before.depth and after.depth == 0 and after.name in self._filled:
            self._filled.discard(after.name)
            if self._was_restarted and _lost_some(before, after):
                return
            words = f"empty; it held {plural(before.depth, 'message')} at the previous poll"
            self._add(EventKind.EMPTIED, Severity.INFO, words, after.name, details={"depth": before.depth})

    def _compare_attributes(self, before: QueueState, after: QueueState) -> None:
        changed = {
            name: (old, new)
            for name in ("vt_s", "delay_s", "maxsize")
            # An unknown value, as in a broken queue, is not a change.
            if (old := getattr(before, name)) != (new := getattr(after, name)) and None not in (old, new)
        }
        if changed:
            words = ", ".join(f"{name.removesuffix('_s')} {_shown(name, old)} to {_shown(name, new)}"
                              for name, (old, new) in changed.items())  # fmt: skip
            details = {name: {"before": old, "after": new} for name, (old, new) in changed.items()}
            self._add(EventKind.ATTRIBUTES, Severity.INFO, words, after.name, details=details, same=words)

    def _follow(self, queue: QueueState, last: QueueState | None = None) -> None:
        """Report a verdict that changed, or wait; ``last`` is the state before it, None if that is not known."""
        verdict = queue.verdict
        tracked = self._verdicts.get(queue.name)
        if verdict is Verdict.WATCHING:
            # It is not a verdict yet: the last one still applies, but whether it lasts is unknown.
            self._watched.add(queue.name)
            return
        self._watched.discard(queue.name)
        if tracked is None and verdict is Verdict.OK:
            return
        if tracked is None:
            tracked = self._verdicts[queue.name] = _QueueVerdict(Verdict.OK)
        elif tracked.reported is None and verdict is Verdict.OK:
            # Nothing was known of it, and nothing is wrong.
            del self._verdicts[queue.name]
            return
        logged = self._reported.pop(queue.name, None)
        if logged is not None and verdict.is_trouble and not self._is_later(queue, logged):
            tracked.value = verdict
            return
        if verdict is tracked.value:
            return
        if verdict is tracked.reported:
            tracked.ended_ms = None
        elif last is not None and last.verdict is tracked.reported and last.pending_since_ms is not None:
            # A verdict lasts longer than its condition. Another trouble may follow before the queue is ok.
            tracked.ended_ms = last.pending_since_ms
        if tracked.change(verdict, self._at_ms, self._last_ms):
            changes = tracked.changes
            words = (
                f"its verdict changes often, {verdict} now: the next one is reported when it has lasted for "
                f"{duration(QUEUE_FLAP_SPAN_MS)}, or for {duration(FLAP_SPAN_MS)} if it is {_ERRORS}"
            )
            details = {"verdict": verdict.value, "before": tracked.reported.value, "changes": changes}
            self._add(EventKind.FLAPPING, Severity.WARNING, words, queue.name, details=details)
        is_worse = tracked.reported is None or verdict.rank < tracked.reported.rank
        if is_worse and (not tracked.is_flapping or tracked.is_new):
            self._report(queue, last, tracked)
        elif tracked.is_flapping or verdict is not tracked.reported:
            self._held[queue.name] = queue, last
        else:
            self._held.pop(queue.name, None)

    def _is_later(self, queue: QueueState, logged: ReportedVerdict) -> bool:
        """Return whether a first verdict is certainly newer than the log.

        A dashboard that was started later may see another trouble than one that has watched for longer.
        """
        is_known = queue.since_ms is not None and logged.at_ms < queue.since_ms < self._begin_ms
        return is_known or queue.verdict is Verdict.BROKEN

    def _settle(self) -> None:
        for name, (queue, last) in list(self._held.items()):
            if name in self._watched:
                continue
            tracked = self._verdicts[name]
            is_error = _SEVERITIES.get(queue.verdict) is Severity.ERROR
            if tracked.is_settled(self._at_ms, HOLD_MS, FLAP_SPAN_MS if is_error else None):
                self._report(queue, last, tracked)

    def _report(self, queue: QueueState, last: QueueState | None, tracked: _QueueVerdict) -> None:
        before, changed_ms, lasted_ms = tracked.reported, tracked.changed_ms, tracked.lasted_ms(last)
        changes = tracked.report()
        self._held.pop(queue.name, None)
        verdict = queue.verdict
        is_over = verdict is Verdict.OK
        why = reason(queue, changed_ms, self._thresholds)
        is_longer = last is not None and last.verdict is before and last.is_since_longer
        lasted = "" if lasted_ms is None else f" for {duration(lasted_ms)}{' or more' if is_longer else ''}"
        # Its own time is that of the first change; those in between were not reported.
        often = _often(changes)
        words = f"ok, was {before}{lasted}: {why}{often}" if is_over else f"{verdict}: {why}{often}"
        details = {
            "verdict": verdict.value,
            **({"first_seen": True} if before is None else {"before": before.value}),
            "since_ms": queue.since_ms,
            "changes": changes,
            **_facts(queue),
        }
        begin_ms = changed_ms if queue.since_ms is None else queue.since_ms
        if verdict.is_trouble:
            tracked.began_ms = begin_ms
        self._add(
            EventKind.VERDICT, _SEVERITIES.get(verdict, Severity.INFO), words, queue.name, at_ms=changed_ms,
            details=details, same=verdict.value, begin_ms=begin_ms, after_ms=tracked.after_ms,
        )  # fmt: skip

    def _add(
        self,
        kind: EventKind,
        severity: Severity,
        text: str,
        queue: str | None = None,
        *,
        details: Mapping[str, Any],
        at_ms: int | None = None,
        same: str = "",
        begin_ms: int | None = None,
        after_ms: int | None = None,
    ) -> None:
        """Add an event, by default at the time of this poll, of a queue or of several."""
        at_ms = self._at_ms if at_ms is None else at_ms
        begin_ms = at_ms if begin_ms is None else begin_ms
        after_ms = self._last_ms if after_ms is None else after_ms
        self._found.append(
            Event(
                at_ms, self._server, self.ns, queue, kind, severity, text, details, same, begin_ms, after_ms=after_ms,
            )
        )  # fmt: skip


def _is_within(span_ms: int, since_ms: int | None, at_ms: int) -> bool:
    """Return whether less than that time has passed since then; not if the clock of the server was set back."""
    return since_ms is not None and 0 <= at_ms - since_ms < span_ms


def _facts(queue: QueueState) -> dict[str, Any]:
    return {"depth": queue.depth, "ready": queue.ready, "created_ms": queue.created_ms}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _created(queue: QueueState) -> str:
    return "appeared" if queue.created_ms is None else "created"


def _deleted(queue: QueueState, how: str | None = None) -> str:
    # A list without items has no key, so whether it was deleted is unknown.
    return f"{how or ('gone' if queue.created_ms is None else 'deleted')}{_held_words([queue])}"


def _held_words(queues: Iterable[QueueState]) -> str:
    """Say how many messages queues held when they were there; empty if that is not known."""
    depths = [queue.depth for queue in queues if queue.depth is not None]
    return f", with {plural(sum(depths), 'message')} at the previous poll" if depths else ""


class Losses(NamedTuple):
    """What is missing since the restart of a server: how many queues, and messages in these and in others."""

    queues: int = 0
    messages: int = 0

    @property
    def words(self) -> str:
        """Say what is missing."""
        messages = plural(self.messages, "message")
        if self.queues:
            return f"{plural(self.queues, 'queue')} and {messages} are lost"
        if self.messages:
            return f"{messages} {'is' if self.messages == 1 else 'are'} lost"
        return "no queue is missing"


def losses_of(differences: Differences) -> Losses:
    """Return what is missing in the first poll after a restart, compared with the last one before it."""
    # A list of which searches found no key was empty.
    lost = [queue for queue in differences.gone if queue.created_ms is not None]
    fewer = 0
    for before, after in differences.pairs:
        if was_created_again(before.created_ms, after.created_ms):
            lost.append(before)
        elif _lost_some(before, after):
            fewer += (before.depth or 0) - (after.depth or 0)
    return Losses(len(lost), sum(queue.depth or 0 for queue in lost) + fewer)


def _lost_some(before: QueueState, after: QueueState) -> bool:
    """Return whether a queue holds fewer messages since a restart of its server, other than by a few deletes.

    A count of sent messages that has fallen proves that messages are lost. Without one, the depth has to be halved:
    consumers may have taken messages between the polls.
    """
    if before.depth is None or after.depth is None or before.created_ms != after.created_ms:
        return False
    if before.totalsent is not None and after.totalsent is not None:
        return after.depth < before.depth and after.totalsent < before.totalsent
    return after.depth * 2 < before.depth


def _shrunk(before: QueueState, after: QueueState) -> str:
    fewer, held = (before.depth or 0) - (after.depth or 0), plural(before.depth or 0, "message")
    return f"{count(fewer)} of {held} fewer since the restart of the server"


def _shown(name: str, value: float) -> str:
    if name != "maxsize":
        return seconds(value)
    return "unlimited" if value == -1 else count(value)


def _of_config(old: str | int, new: str | int) -> str:
    """Say from what to what a setting was changed: a policy, or a number of bytes, 0 for no limit."""
    if isinstance(old, str) or isinstance(new, str):
        return f"{old} to {new}"
    # A small change is not seen in rounded sizes.
    shown = size if size(old) != size(new) else partial(plural, noun="byte")
    before, after = (shown(each) if each else "unlimited" for each in (old, new))
    return f"{before} to {after}"


class Outage(NamedTuple):
    """A time in which a server was lost: from ``lost_ms``, and before ``back_ms``.

    The last attempt failed at ``failed_ms``. Before, it answered at ``answered_ms``, None if it never did.
    """

    answered_ms: int | None
    lost_ms: int
    failed_ms: int
    back_ms: int

    @property
    def words(self) -> str:
        """How long it lasted: since the last answer at most, and from the first to the last failure at least."""
        least = duration(self.failed_ms - self.lost_ms) if self.failed_ms > self.lost_ms else ""
        if self.answered_ms is None:
            return f"at least {least}" if least else ""
        most = duration_up(self.back_ms - self.answered_ms)
        if least == most:
            return most
        return f"{least} to {most}" if least else f"at most {most}"


class OutageClock:
    """Measures the outages of a server, from its answers and failures in the order of time."""

    def __init__(self) -> None:
        self.last: Outage | None = None
        self._answered_ms: int | None = None
        self._lost_ms: int | None = None
        self._failed_ms = 0

    def observe(self, at_ms: int, *, failed: bool, is_lost: bool) -> None:
        """Record an attempt to poll one of the server's places; it is lost if no place can be polled."""
        if failed:
            self._failed_ms = at_ms
            if is_lost and self._lost_ms is None:
                self._lost_ms = at_ms
            return
        if self._lost_ms is not None:
            self.last = Outage(self._answered_ms, self._lost_ms, self._failed_ms, at_ms)
        self._answered_ms, self._lost_ms = at_ms, None


def lost_words(failure: Failure | None) -> str:
    """Say that a server does not answer, and why, if that is not all that is known."""
    return f"does not answer: {failure.sentence}" if failure and failure.kind != "timeout" else "does not answer"


def back_words(outage: Outage | None, changes: int, answers_ms: int = 0) -> str:
    """Say that a server answers again after an outage, None if its beginning is not known, and how often it changed.

    ``answers_ms`` is for how long it has answered, if that is not the news of this moment.
    """
    lasted = "" if outage is None else outage.words
    now = f" for {duration(answers_ms)} now" if answers_ms else ""
    after = f"{',' if now else ''} after {lasted}" if lasted else ""
    return f"answers again{now}{after}{_often(changes)}"


def _often(changes: int) -> str:
    return f" ({count(changes)} changes since it was reported)" if changes > 2 else ""


class ServerDetector:
    """Finds the events of one server, which may be several places: whether it answers, its run id and its role."""

    def __init__(self, server: str, *, was_lost: bool = False) -> None:
        self._server = server
        self._failures: dict[str, Failure | None] = {}
        self._outages = OutageClock()
        self._link = Hysteresis(reported=was_lost)
        self._info: ServerInfo | None = None
        self._evicted = 0
        self._evicted_reported_ms: int | None = None

    @property
    def run_id(self) -> str:
        """The run id of the server that answers, empty if it is not known."""
        return "" if self._info is None else self._info.run_id

    @property
    def is_lost(self) -> bool:
        """Whether none of its places could be polled last."""
        return bool(self._link.value)

    def observe(self, place: str, failure: Failure | None, at_ms: int) -> list[Event]:
        """Record whether a place could be polled. The server is lost when no place can."""
        self._failures[place] = failure
        is_lost = all(one is not None for one in self._failures.values())
        self._outages.observe(at_ms, failed=failure is not None, is_lost=is_lost)
        link, found = self._link, []
        if is_lost is not link.value and link.change(is_lost, at_ms):
            words = f"its connection comes and goes: reported again after no change for {duration(FLAP_SPAN_MS)}"
            details = {"lost": is_lost, "changes": link.changes}
            found.append(self._event(at_ms, EventKind.FLAPPING, Severity.WARNING, words, details))
        was_flapping = link.is_flapping
        if link.changes and (link.reported is not link.value or was_flapping) and link.is_settled(at_ms, 0):
            changed_ms, changes = link.changed_ms, link.report()
            if is_lost:
                facts = {"failure": "" if failure is None else failure.kind, "changes": changes}
                words = f"{lost_words(failure)}{_often(changes)}"
                found.append(self._event(changed_ms, EventKind.LOST, Severity.ERROR, words, facts))
            else:
                words = back_words(self._outages.last, changes)
                found.append(self._event(changed_ms, EventKind.BACK, Severity.INFO, words, {"changes": changes}))
        return found

    def observe_info(self, info: ServerInfo) -> list[Event]:
        """Compare the INFO of the server with the previous one, if there was one."""
        before, at_ms = self._info, info.at_ms
        self._info = info
        if before is None or info == before:
            return []
        found = []
        change = server_change(before, info)
        if change is not None:
            self._evicted = 0
            details: dict[str, Any] = {"run_id": info.run_id, "before": before.run_id, "role": info.role}
            up = f"up for {duration(info.uptime_s * 1000)}"
            words = f"restarted, {up}" if change.is_restart else f"another server took over, {up}"
            kind = EventKind.RESTARTED if change.is_restart else EventKind.FAILOVER
            found.append(self._event(at_ms, kind, Severity.WARNING, words, details, same=info.run_id))
        elif info.role != before.role:
            words = f"its role is {info.role} now, was {before.role}: failed over"
            details = {"role": info.role, "before": before.role}
            found.append(self._event(at_ms, EventKind.ROLE, Severity.WARNING, words, details, same=info.role))
        counted = before.evicted_keys if info.run_id == before.run_id else 0
        # The counter may have been reset by CONFIG RESETSTAT.
        self._evicted += max(0, info.evicted_keys - counted)
        if self._evicted and not _is_within(EVICTED_EVERY_MS, self._evicted_reported_ms, at_ms):
            words = f"evicted {plural(self._evicted, 'key')} because its memory was full: messages may be lost"
            details = {"keys": self._evicted, "evicted_keys": info.evicted_keys}
            found.append(self._event(at_ms, EventKind.EVICTED, Severity.ERROR, words, details))
            self._evicted, self._evicted_reported_ms = 0, at_ms
        # Without a policy, a maxmemory of 0 may be unknown.
        if before.maxmemory_policy and info.maxmemory_policy:
            found += self._compare_config(before, info)
        return found

    def _compare_config(self, before: ServerInfo, info: ServerInfo) -> list[Event]:
        """Report the settings for the server's memory that were changed, also by a restart or a failover."""
        changed = {
            name: (old, new)
            for name in ("maxmemory", "maxmemory_policy")
            if (old := getattr(before, name)) != (new := getattr(info, name))
        }
        if not changed:
            return []
        words = ", ".join(f"{name.replace('_', '-')} {_of_config(old, new)}" for name, (old, new) in changed.items())
        details = {name: {"before": old, "after": new} for name, (old, new) in changed.items()}
        return [self._event(info.at_ms, EventKind.CONFIG, Severity.WARNING, words, details, same=words)]

    def _event(
        self, at_ms: int, kind: EventKind, severity: Severity, text: str, details: Mapping[str, Any], same: str = ""
    ) -> Event:
        return Event(at_ms, self._server, "", None, kind, severity, text, details, same, at_ms, self.run_id)


class MaintenanceDetector:
    """Finds the beginning and the end of maintenance of one server, as they are configured."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._span: tuple[int, int] | None = None

    def observe(self, server: str, now_ms: float) -> list[Event]:
        """Return what has begun and ended since the last call; the first returns a maintenance that goes on."""
        before, self._span = self._span, self._expected.span_at(now_ms)
        span = self._span
        if span == before:
            return []
        found = []
        if before is not None and (span is None or span[0] > before[1]):
            found.append(_maintenance(server, before[1], "maintenance is over", "over", before))
        if span is not None:
            words = f"maintenance until {local_minute(span[1], zone=True)}: no alerts are sent"
            found.append(_maintenance(server, span[0], words, str(span[1]), span))
        return found


def _maintenance(server: str, at_ms: int, text: str, same: str, span: tuple[int, int]) -> Event:
    details = {"from_ms": span[0], "until_ms": span[1]}
    return Event(at_ms, server, "", None, EventKind.MAINTENANCE, Severity.INFO, text, details, same, at_ms)
