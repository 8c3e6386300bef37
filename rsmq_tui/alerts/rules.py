"""Decides when rules alert, from the snapshots of each place in the order of time.

A condition is told when it has lasted as long as its rule says, and its end when that has lasted for ``HOLD_MS``. What
flaps is told once (``events.detector.Hysteresis``). Queues of one rule and place that are due at nearly the same time
are one message.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import compress
from operator import is_not

from rsmq_tui.alerts.message import LISTED, Affected, Message, State
from rsmq_tui.events.detector import Hysteresis
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds, Verdict, reason
from rsmq_tui.monitor.incidents import HOLD_MS
from rsmq_tui.monitor.text import count, duration
from rsmq_tui.profiles.alerts import SERVER_GONE, TROUBLE, Condition, Rule
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.kinds import kind_named

# A message waits this long for more queues of its rule and place, and then this long until the next one.
GROUP_MS, EVERY_MS = 5_000, 60_000
_OLDEST = "oldest"
# Names for which it is kept whether a rule's patterns match.
_NAMES_MAX = 200_000

# Returns whether a condition holds for a queue at a time in ms; None: it is not known.
_Test = Callable[[QueueState, int], bool | None]
_NUMBERS: Mapping[str, Callable[[QueueState, int], int | None]] = {
    "depth": lambda queue, at_ms: queue.depth,
    _OLDEST: QueueState.waiting_ms,
    "receive count": lambda queue, at_ms: queue.highest_rc,
    "expired leases": lambda queue, at_ms: queue.expired,
}


def test_of(condition: Condition) -> _Test:
    """Return the test of a condition that is about queues."""
    if condition.what == TROUBLE:
        return lambda queue, at_ms: None if queue.verdict is Verdict.WATCHING else queue.verdict is not Verdict.OK
    read = _NUMBERS.get(condition.what)
    if read is None:
        wanted = Verdict(condition.what)

        def has_verdict(queue: QueueState, at_ms: int) -> bool | None:
            # A queue has only its worst verdict, behind which this one may still be.
            is_hidden = queue.verdict is Verdict.WATCHING or queue.verdict.rank < wanted.rank
            return None if is_hidden else queue.verdict is wanted

        return has_verdict
    # None of these values is a fraction.
    least = condition.bound if condition.or_equal else condition.bound + 1

    def is_above(queue: QueueState, at_ms: int) -> bool | None:
        value = read(queue, at_ms)
        # An empty queue has no oldest message.
        return (None if queue.depth is None else False) if value is None else value >= least

    return is_above


@dataclass(frozen=True, slots=True)
class _Now:
    """The moment of a poll: ``ms`` by the monotonic clock, ``wall_s`` by that of people, ``at_ms`` by the server's."""

    ms: int
    wall_s: float
    at_ms: int


class _Followed:
    """One rule on the queues of one place, or on one server: its name is then the only one, ""."""

    def __init__(self, rule: Rule, *, is_patient: bool) -> None:
        self._rule = rule
        self._is_patient = is_patient
        self._conditions: dict[str, Hysteresis] = {}
        # When something became due that is not told yet, and when the last message was made.
        self._due_ms: int | None = None
        self._told_ms: int | None = None
        self._firing_told_ms = 0

    @property
    def names(self) -> Set[str]:
        """The names whose condition holds, or held."""
        return self._conditions.keys()

    def take(self, values: Iterable[tuple[str, bool]], now_ms: int) -> None:
        """Note whether the condition holds for each name."""
        for name, holds in values:
            known = self._conditions.get(name)
            if known is None:
                if not holds:
                    continue
                known = self._conditions[name] = Hysteresis(told=False)
            if known.value is not holds:
                known.change(holds, now_ms)

    def due(self, now: _Now, muted: Collection[str]) -> list[tuple[State, list[str], int]]:
        """Return what is to be sent now, as state, names and how long the longest has lasted in ms."""
        if self._rule.quiet is not None and self._rule.quiet.holds(now.wall_s):
            return []
        firing, over = self._settled(now.ms, muted)
        if not self._rule.resolved:
            for name in over:
                self._conditions[name].tell()
            over = []
        found: list[tuple[State, list[str], int]] = []
        if not (firing or over):
            self._due_ms = None
        elif self._is_time(now.ms):
            for state, names in ((State.FIRING, firing), (State.RESOLVED, over)):
                if names:
                    found.append((state, names, self._tell(names, now.ms)))
            self._due_ms, self._told_ms = None, now.ms
            if firing:
                self._firing_told_ms = now.ms
        repeat_ms = self._rule.repeat_ms
        if repeat_ms is not None and not found and now.ms - self._firing_told_ms >= repeat_ms:
            still = [name for name, known in self._conditions.items() if known.told and known.value]
            if still := [name for name in still if name not in muted]:
                lasts_ms = max(now.ms - self._conditions[name].changed_ms for name in still)
                found.append((State.REPEATED, still, lasts_ms))
                self._told_ms = self._firing_told_ms = now.ms
        return found

    def _settled(self, now_ms: int, muted: Collection[str]) -> tuple[list[str], list[str]]:
        """Return the names whose beginning, and those whose end, is to be told; others are forgotten."""
        firing, over = [], []
        for name, known in list(self._conditions.items()):
            hold_ms = self._rule.for_ms if known.value else HOLD_MS
            if now_ms - known.changed_ms < hold_ms or not known.is_settled(now_ms, hold_ms):
                continue
            if known.value is known.told:
                if known.is_flapping:
                    known.tell()
                if not known.value:
                    del self._conditions[name]
            elif not known.value:
                over.append(name)
            elif name not in muted:
                firing.append(name)
        return firing, over

    def _is_time(self, now_ms: int) -> bool:
        if self._due_ms is None:
            self._due_ms = now_ms
        if not self._is_patient:
            return True
        return now_ms - self._due_ms >= GROUP_MS and (self._told_ms is None or now_ms - self._told_ms >= EVERY_MS)

    def _tell(self, names: Sequence[str], now_ms: int) -> int:
        lasts_ms = 0
        for name in names:
            known = self._conditions[name]
            # What is over lasted since it was told, or rather since it began.
            since_ms = known.changed_ms if known.value or known.told_ms is None else known.told_ms
            lasts_ms = max(lasts_ms, (now_ms if known.value else known.changed_ms) - since_ms)
            known.tell()
            if not known.value:
                del self._conditions[name]
        return lasts_ms


class AlertRules:
    """Applies rules to the snapshots of any number of places; not safe for threads.

    Without ``is_patient``, ``for`` and the wait for more queues do not apply: each snapshot is the only one of its
    place.
    """

    def __init__(self, rules: Sequence[Rule], *, is_patient: bool = True) -> None:
        self._rules = rules if is_patient else [replace(rule, for_ms=0, repeat_ms=None) for rule in rules]
        self._is_patient = is_patient
        self._tests = {rule.name: test_of(rule.when) for rule in rules if rule.when.what != SERVER_GONE}
        self._followed: dict[tuple[str, ...], _Followed] = {}
        self._wanted: dict[str, dict[tuple[str, str], bool]] = {}
        self._last: dict[tuple[str, ...], Sequence[QueueState]] = {}
        self._failures: dict[str, dict[tuple[str, str], Failure | None]] = {}

    def take(
        self,
        snapshot: Snapshot,
        thresholds: Thresholds,
        *,
        profile: str,
        now_ms: int,
        wall_s: float,
        muted: Collection[str] = (),
    ) -> list[Message]:
        """Return the messages that are to be sent after a poll; ``muted`` are queues whose trouble is known."""
        now = _Now(now_ms, wall_s, snapshot.at_ms)
        found: list[Message] = []
        # A failed poll says nothing about queues.
        answered = snapshot.link.failure is None and snapshot.link.fresh_at_s is not None
        changed = self._changed((profile, snapshot.server, snapshot.ns), snapshot.queues) if answered else None
        for rule in self._rules:
            if rule.profiles and profile not in rule.profiles:
                continue
            if rule.when.what == SERVER_GONE:
                found += self._take_server(rule, snapshot, profile, now)
            elif answered:
                found += self._take_queues(rule, snapshot, changed, thresholds, profile, now, muted)
        return found

    def _changed(self, place: tuple[str, ...], queues: Sequence[QueueState]) -> Sequence[QueueState] | None:
        """Return the queues that changed since the last poll of a place, None if some came or went."""
        last, self._last[place] = self._last.get(place, ()), queues
        if len(last) != len(queues):
            return None
        news = list(compress(zip(last, queues, strict=True), map(is_not, last, queues)))
        return [after for _, after in news] if all(before.name == after.name for before, after in news) else None

    def _take_queues(
        self,
        rule: Rule,
        snapshot: Snapshot,
        changed: Sequence[QueueState] | None,
        thresholds: Thresholds,
        profile: str,
        now: _Now,
        muted: Collection[str],
    ) -> list[Message]:
        followed = self._follow((rule.name, profile, snapshot.server, snapshot.ns), rule)
        test, at_ms, queues = self._tests[rule.name], snapshot.at_ms, snapshot.queues
        # Only states that changed are looked at, unless the condition depends on the time.
        looked = queues if changed is None else changed
        if rule.when.what == _OLDEST:
            names, before_ms = followed.names, at_ms - rule.when.bound
            looked = [
                queue for queue in queues if (due_ms := queue.oldest_ready_due_ms) is not None and due_ms <= before_ms
            ]
            if names:
                looked += [queue for queue in queues if queue.name in names]
        looked = self._of_rule(rule, looked)
        followed.take([(queue.name, holds) for queue in looked if (holds := test(queue, at_ms)) is not None], now.ms)
        if changed is None:
            # A queue that is gone has no trouble.
            followed.take([(name, False) for name in followed.names - {queue.name for queue in queues}], now.ms)
        due = followed.due(now, muted)
        present = {queue.name: queue for queue in queues} if due else {}

        def affected(name: str) -> Affected:
            queue = present.get(name)
            if queue is None:
                return Affected(name, None, None, "gone")
            return Affected(name, queue.verdict.value, queue.depth, _reason(rule.when, queue, at_ms, thresholds))

        return [
            Message(
                rule.name, state, rule.when.text, round(now.wall_s * 1000), profile, snapshot.server, snapshot.ns,
                tuple(map(affected, names[:LISTED])), len(names), lasts_ms if self._is_patient else None,
            )
            for state, names, lasts_ms in due
        ]  # fmt: skip

    def _take_server(self, rule: Rule, snapshot: Snapshot, profile: str, now: _Now) -> list[Message]:
        """The server is gone if none of its places can be polled."""
        failures = self._failures.setdefault(snapshot.server, {})
        failures[snapshot.place, snapshot.ns] = failure = snapshot.link.failure
        followed = self._follow((rule.name, profile, snapshot.server), rule)
        followed.take([("", None not in failures.values())], now.ms)
        why = "no answer" if failure is None else failure.sentence
        return [
            Message(
                rule.name, state, rule.when.text, round(now.wall_s * 1000), profile, snapshot.server, lasts_ms=lasts_ms,
                reason=f"answers again after {duration(lasts_ms)}" if state is State.RESOLVED
                else f"does not answer: {why}",
            )
            for state, _, lasts_ms in followed.due(now, ())
        ]  # fmt: skip

    def _follow(self, key: tuple[str, ...], rule: Rule) -> _Followed:
        if key not in self._followed:
            self._followed[key] = _Followed(rule, is_patient=self._is_patient)
        return self._followed[key]

    def _of_rule(self, rule: Rule, queues: Sequence[QueueState]) -> Sequence[QueueState]:
        """Return the queues that a rule names; what its patterns say of each name is kept."""
        if not rule.queues:
            return queues
        wanted = self._wanted.setdefault(rule.name, {})
        if len(wanted) > _NAMES_MAX:
            wanted.clear()
        found = []
        for queue in queues:
            key = queue.kind, queue.name
            is_wanted = wanted.get(key)
            if is_wanted is None:
                is_wanted = wanted[key] = names_queue(rule.queues, queue)
            if is_wanted:
                found.append(queue)
        return found


def names_queue(patterns: Sequence[str], queue: QueueState) -> bool:
    """Return whether names and patterns name a queue: by its name, or with its kind, as ``list:mail``."""
    names = (queue.name, f"{kind_named(queue.kind).prefix}{queue.name}")
    return any(name == pattern or fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _reason(condition: Condition, queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
    read = _NUMBERS.get(condition.what)
    if read is None:
        return f"{queue.verdict}: {reason(queue, at_ms, thresholds)}"
    value = read(queue, at_ms)
    return f"{condition.what} {duration(value) if condition.what == _OLDEST else count(value)} ({condition.text})"
