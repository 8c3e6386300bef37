"""Follows the condition of a rule, on the queues of a place or on a server, and decides when that is reported.

A condition is reported when it has lasted as long as its rule requires, and its end when that has lasted for
``HOLD_MS``. A condition that flaps is reported once (``events.detector.Hysteresis``). Queues of one rule and place that
are due at nearly the same time are one message. Reported alerts are stored in ``alerts.store``, so that the next start
continues from there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.events.alerts.message import AlertState
from rsmq_tui.events.alerts.store import AlertStore, ReportedCondition, Topic
from rsmq_tui.events.detector import Hysteresis
from rsmq_tui.monitor.incidents import HOLD_MS
from rsmq_tui.monitor.tracking.tracker import FOREVER_MS
from rsmq_tui.profiles.alerts import Rule
from rsmq_tui.protocol.server.status import ServerChange

# A message waits this long for more queues of its rule and place, and then this long until the next one.
GROUP_MS, EVERY_MS = 5_000, 60_000
# What a message says of queues that were deleted by changes of this program.
DELETED_HERE = "deleted by rsmq-tui"


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of a poll: ``ms`` by the monotonic clock, ``wall_s`` by the local clock."""

    ms: int
    wall_s: float

    @property
    def wall_ms(self) -> int:
        """By the local clock, in milliseconds."""
        return round(self.wall_s * 1000)


class Due(NamedTuple):
    """What to report now: ``news`` are the names that no other program has reported, ``lasts_ms`` the longest time.

    ``is_gone`` and ``change`` are those of ``AlertMessage``. ``deletions`` has what deleted a queue, by its name, if
    that was done from here. ``changes`` is how often the condition of the first name changed since it was reported
    last.
    """

    state: AlertState
    names: Sequence[str]
    news: Sequence[str]
    lasts_ms: int
    is_gone: bool = False
    change: str = ""
    deletions: Mapping[str, str] = {}
    changes: int = 0


class _Condition(Hysteresis):
    """Whether the condition of a rule holds for a name, and since when. The times are of the monotonic clock.

    It began at ``began_ms``, if that was before the first poll in which it held. It has been over since ``over_ms``, if
    the verdict still holds. ``held_ms`` is the last poll in which it certainly held, if it is over or ``is_unknown``:
    whether it still holds is not known. ``is_restored`` is True while only an earlier run found that it held. ``gone``
    is None while the queue exists, then what deleted it, empty if that is not known.
    """

    __slots__ = ("began_ms", "gone", "held_ms", "is_restored", "is_unknown", "over_ms")

    def __init__(self) -> None:
        super().__init__(reported=False)
        self.began_ms: int | None = None
        self.over_ms: int | None = None
        self.held_ms: int | None = None
        self.gone: str | None = None
        self.is_unknown = self.is_restored = False

    @property
    def begin_ms(self) -> int:
        """When it began to hold, by the polls, or earlier if that is known."""
        begin_ms = self.changed_ms if self.value or self.reported_ms is None else self.reported_ms
        return begin_ms if self.began_ms is None else min(begin_ms, self.began_ms)

    @property
    def end_ms(self) -> int:
        """When it ended, of one that no longer holds."""
        return self.changed_ms if self.over_ms is None else self.over_ms


class FollowedRule:
    """One rule on the queues of one place, or on one server: its name is then the only one, ""."""

    def __init__(self, rule: Rule, topic: Topic, store: AlertStore | None, now: Now, *, is_patient: bool) -> None:
        self.next_ms = 0
        self.is_forecast = False
        self._rule = rule
        self._topic = topic
        self._store = store
        self._is_patient = is_patient
        self._conditions: dict[str, _Condition] = {}
        # Those that changed, and are not settled.
        self._pending: dict[str, _Condition] = {}
        self._polled_ms = -FOREVER_MS
        # Since when names have been silenced, and were not reported.
        self._silenced_ms: dict[str, int] = {}
        # When something became due that is not reported yet, and when the last message was made.
        self._due_ms: int | None = None
        self._sent_ms: int | None = None
        self._firing_sent_ms = 0
        if store is not None:
            self._restore(store.load(topic, now.wall_ms), now)

    def _restore(self, found: Mapping[str, ReportedCondition], now: Now) -> None:
        for name, reported in found.items():
            condition = self._conditions[name] = _Condition()
            condition.change(True, now.ms - (now.wall_ms - reported.since_ms))
            condition.report()
            condition.is_restored = True
        latest_ms = max((reported.reported_ms for reported in found.values()), default=now.wall_ms)
        self._firing_sent_ms = now.ms - (now.wall_ms - latest_ms)

    @property
    def names(self) -> Set[str]:
        """The names for which the condition holds or held."""
        return self._conditions.keys()

    def is_restored(self, name: str) -> bool:
        """Return whether only an earlier run found that the condition held for one of the names."""
        return self._conditions[name].is_restored

    def observe(self, values: Iterable[tuple[str, bool | None]], now_ms: int) -> None:
        """Record whether the condition holds for each name; None for unknown, which changes nothing."""
        for name, holds in values:
            condition = self._conditions.get(name)
            if condition is None:
                if not holds:
                    continue
                condition = self._conditions[name] = _Condition()
            if not holds:
                self._note_held(condition)
            else:
                # One of that name that is in no trouble does not tell that this one had recovered.
                condition.gone = None
                if condition.over_ms is None:
                    condition.held_ms = None
            condition.is_unknown = holds is None
            if holds is None:
                continue
            if condition.value is not holds:
                if not condition.reported:
                    condition.began_ms = None
                condition.change(holds, now_ms)
                self._pending[name] = condition
            condition.is_restored = False

    def note_times(self, name: str, began_ms: int | None, over_ms: int | None, ahead_ms: int) -> None:
        """Record when the condition began for a name for which it holds, and since when it has been over if it is.

        None for unknown, and for not over. A beginning that is known already stays. The monotonic clock is ``ahead_ms``
        ahead of these times.
        """
        condition = self._conditions[name]
        if condition.began_ms is None and began_ms is not None:
            condition.began_ms = began_ms + ahead_ms
        if over_ms is None:
            condition.over_ms = condition.held_ms = None
        else:
            condition.over_ms = over_ms + ahead_ms
            self._note_held(condition)

    def _note_held(self, condition: _Condition) -> None:
        if condition.held_ms is None:
            condition.held_ms = self._polled_ms

    def lose(self, names: Set[str], deletions: Mapping[str, str], now_ms: int) -> None:
        """Record that queues no longer exist: they are in no trouble. ``deletions`` are what deleted some of them."""
        self.observe([(name, False) for name in sorted(names)], now_ms)
        for name in names:
            condition = self._conditions[name]
            # One that is gone already keeps what deleted it.
            condition.gone = condition.gone or deletions.get(name, "")

    def due(self, now: Now, silenced: Collection[str], change: ServerChange | None = None) -> list[Due]:
        """Return what is to be sent now; call it after each poll. ``change`` is the last one of the server.

        The times of ``change`` are of the monotonic clock.
        """
        self._polled_ms = now.ms
        for name in self._conditions.keys() & silenced:
            self._silenced_ms.setdefault(name, now.ms)
        if self._rule.quiet is not None and self._rule.quiet.holds(now.wall_s):
            return []
        firing, over = self._settled(now.ms, silenced)
        if over and not self._rule.resolved:
            self._due_of(AlertState.RESOLVED, over, now)
            over = []
        found: list[Due] = []
        if not (firing or over):
            self._due_ms = None
        elif self._is_time(now.ms):
            found = [self._due_of(AlertState.FIRING, firing, now)] if firing else []
            for (is_gone, words), names in self._by_end(over, change).items():
                deletions = {name: deletion for name in names if (deletion := self._conditions[name].gone)}
                due = self._due_of(AlertState.RESOLVED, names, now)
                found.append(due._replace(is_gone=is_gone, change=words, deletions=deletions))
            self._due_ms, self._sent_ms = None, now.ms
            if firing:
                self._firing_sent_ms = now.ms
        if not found and (unreported_ms := self._again(now.ms, silenced)):
            lasted_ms = {name: now.ms - self._conditions[name].begin_ms for name in unreported_ms}
            since_ms = {name: now.wall_ms - ms for name, ms in lasted_ms.items()}
            names, store = list(unreported_ms), self._store
            news = names if store is None else store.repeat(self._topic, since_ms, unreported_ms, now.wall_ms)
            found.append(Due(AlertState.REPEATED, names, news, max(lasted_ms.values())))
            self._sent_ms = self._firing_sent_ms = now.ms
        return found

    def _again(self, now_ms: int, silenced: Collection[str]) -> dict[str, int]:
        """Return the names that are to be reported again, and for how long each was not.

        These are all whose condition still holds if it is time for that, otherwise those that are no longer silenced.
        """
        repeat_ms, again, conditions = self._rule.repeat_ms, {}, self._conditions
        if repeat_ms is not None and now_ms - self._firing_sent_ms >= repeat_ms:
            again = dict.fromkeys(conditions.keys() - silenced, repeat_ms)
        for name in [each for each in self._silenced_ms if each not in silenced and not conditions[each].is_unknown]:
            unreported_ms = now_ms - self._silenced_ms.pop(name)
            again[name] = min(unreported_ms, again.get(name, unreported_ms))
        return {name: ms for name, ms in again.items() if conditions[name].reported and conditions[name].value}

    def _settled(self, now_ms: int, silenced: Collection[str]) -> tuple[list[str], list[str]]:
        """Return the names whose start is to be reported, and those whose end is; others are forgotten."""
        firing, over = [], []
        for name, condition in list(self._pending.items()):
            if condition.is_unknown:
                continue
            hold_ms = self._rule.for_ms if condition.value else HOLD_MS
            if now_ms - condition.changed_ms < hold_ms or not condition.is_settled(now_ms, hold_ms):
                continue
            if condition.value is condition.reported:
                if condition.is_flapping:
                    condition.report()
                self._settle(name, condition)
            elif not condition.value:
                over.append(name)
            # What is over at the moment, although its verdict still holds, may be over for good.
            elif name not in silenced and not (self._is_patient and condition.over_ms is not None):
                firing.append(name)
        return firing, over

    def _by_end(self, names: Iterable[str], change: ServerChange | None) -> dict[tuple[bool, str], list[str]]:
        """Group names whose condition is over by whether their queue is gone, and what happened to it or its server."""
        found: dict[tuple[bool, str], list[str]] = {}
        for name in names:
            condition = self._conditions[name]
            held_ms = -FOREVER_MS if condition.held_ms is None else condition.held_ms
            is_cause = change is not None and change.from_ms <= condition.end_ms and change.until_ms >= held_ms
            words = DELETED_HERE if condition.gone else change.words if change and is_cause else ""
            found.setdefault((condition.gone is not None, words), []).append(name)
        return found

    def _is_time(self, now_ms: int) -> bool:
        if self._due_ms is None:
            self._due_ms = now_ms
        if not self._is_patient:
            return True
        return now_ms - self._due_ms >= GROUP_MS and (self._sent_ms is None or now_ms - self._sent_ms >= EVERY_MS)

    def _due_of(self, state: AlertState, names: Sequence[str], now: Now) -> Due:
        lasts_ms, since_ms = 0, {}
        changes = self._conditions[names[0]].changes
        for name in names:
            condition = self._conditions[name]
            begin_ms, end_ms = condition.begin_ms, now.ms if condition.value else condition.end_ms
            lasts_ms = max(lasts_ms, end_ms - begin_ms)
            since_ms[name] = now.wall_ms - (now.ms - begin_ms)
            condition.report()
            self._settle(name, condition)
        news = names
        if self._store is not None:
            note = self._store.begin if state is AlertState.FIRING else self._store.end
            news = note(self._topic, since_ms, now.wall_ms)
        return Due(state, names, news, lasts_ms, changes=changes)

    def _settle(self, name: str, condition: _Condition) -> None:
        """Wait for the next change of a condition; one that does not hold is no longer tracked."""
        del self._pending[name]
        self._silenced_ms.pop(name, None)
        if not condition.value:
            del self._conditions[name]
