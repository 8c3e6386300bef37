"""Decides when rules alert, from the snapshots of each place in the order of time.

A condition is reported when it has lasted as long as its rule requires, and its end when that has lasted for
``HOLD_MS``. A condition that flaps is reported once (``events.detector.Hysteresis``). Queues of one rule and place that
are due at nearly the same time are one message. Reported alerts are stored in ``alerts.store``, so that the next start
continues from there.

Only the states that changed since the last poll are checked. A condition that begins as time passes is also checked
when the first queue is due.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from rsmq_tui.events.alerts.message import LISTED, Affected, AlertMessage, AlertState, gone_words
from rsmq_tui.events.alerts.store import AlertStore, ReportedCondition, Topic
from rsmq_tui.events.detector import Hysteresis, Losses, OutageClock, back_words, losses_of, lost_words
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds, Verdict, reason
from rsmq_tui.monitor.incidents import HOLD_MS
from rsmq_tui.monitor.model import was_created_again
from rsmq_tui.monitor.text import count, duration
from rsmq_tui.monitor.tracking.forecast import FORECAST_EVERY_MS, KNOWN_MS, limit_words
from rsmq_tui.profiles.alerts import (
    DEPTH,
    EXPIRED_LEASES,
    FULL_IN,
    MEMORY_FULL_IN,
    NUMBERS,
    OF_SERVERS,
    OLDEST,
    RECEIVE_COUNT,
    SERVER_GONE,
    SERVER_RESTARTED,
    TROUBLE,
    Condition,
    Rule,
)
from rsmq_tui.protocol.kinds import is_among, kind_named
from rsmq_tui.protocol.server.status import ServerChange, ServerInfo, server_change

# A message waits this long for more queues of its rule and place, and then this long until the next one.
GROUP_MS, EVERY_MS = 5_000, 60_000
# A restart is news for so long.
_RESTARTED_MS = 10_000
# Conditions on receive counts, of which each poll looks at a part.
_LOOKED = (TROUBLE, Verdict.POISONED.value, RECEIVE_COUNT)
_FOREVER = 1 << 62
_NO_LOSSES = Losses()
# What a message says of queues that were deleted by changes of this program.
DELETED_HERE = "deleted by rsmq-tui"

Deletions = Callable[[Snapshot, Collection[str]], Mapping[str, str]]


def unknown_deletions(snapshot: Snapshot, queues: Collection[str]) -> Mapping[str, str]:
    """Return that it is not known what deleted any of these queues."""
    return {}


class _Check(ABC):
    """The condition of a rule, for the queues of one poll after another."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition

    @abstractmethod
    def holding(self, queues: Iterable[QueueState], at_ms: int) -> list[QueueState]:
        """Return the queues for which it holds."""

    @abstractmethod
    def is_over(self, queue: QueueState, *, is_forecast: bool) -> bool:
        """Return whether it is certain that it does not hold for a queue that is not among ``holding``.

        ``is_forecast`` is whether forecasts are possible: a queue without a limit then approaches none.
        """

    @abstractmethod
    def words(self, queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
        """Return a sentence about a queue for which it holds or held."""

    def over_since_ms(self, queue: QueueState) -> int | None:
        """Return since when it is over for a queue among ``holding``, whose verdict ends later; None if it is not."""
        return None

    def since_ms(self, queue: QueueState) -> int | None:
        """Return since when it has held for a queue among ``holding``, if that is known; a verdict begins later."""
        return None

    def next_ms(self, queues: Iterable[QueueState], at_ms: int) -> int:
        """Return when it begins to hold for the first of these queues, provided that they do not change."""
        return _FOREVER


class _IsVerdict(_Check):
    """Holds if the verdict of a queue is one of a set."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition)
        wanted = [verdict for verdict in Verdict if condition.what in (verdict.value, TROUBLE) and verdict.is_trouble]
        self._worst_rank = min(verdict.rank for verdict in wanted)
        # Most queues are ok, which is the first verdict.
        self._others = tuple(verdict for verdict in reversed(Verdict) if verdict not in wanted)

    def holding(self, queues: Iterable[QueueState], at_ms: int) -> list[QueueState]:
        others = self._others
        return [queue for queue in queues if queue.verdict not in others]

    def is_over(self, queue: QueueState, *, is_forecast: bool) -> bool:
        # A queue has only its worst verdict, which may hide this one.
        return queue.verdict is not Verdict.WATCHING and queue.verdict.rank > self._worst_rank

    def over_since_ms(self, queue: QueueState) -> int | None:
        return queue.pending_since_ms

    def since_ms(self, queue: QueueState) -> int | None:
        return queue.since_ms

    def words(self, queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
        return f"{queue.verdict}: {reason(queue, at_ms, thresholds)}"


class _Above(_Check):
    """Holds if a number, which is a field of the state, is above its bound."""

    def __init__(self, condition: Condition, field: str) -> None:
        super().__init__(condition)
        self._field = QueueState._fields.index(field)
        # None of these values is a fraction.
        self._least = condition.bound if condition.or_equal else condition.bound + 1

    def holding(self, queues: Iterable[QueueState], at_ms: int) -> list[QueueState]:
        field, least = self._field, self._least
        rows: Iterable[Any] = queues
        return [queue for queue in rows if (value := queue[field]) is not None and value >= least]

    def is_over(self, queue: QueueState, *, is_forecast: bool) -> bool:
        return queue[self._field] is not None or queue.depth is not None

    def words(self, queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
        value: Any = queue[self._field]
        return f"{self._condition.what} {count(value)} ({self._condition.text})"


class _Passing(_Check):
    """Begins to hold as time passes: ``offset_ms`` after a moment of the queue, or before it if that is negative."""

    def __init__(self, condition: Condition, moment_ms: Callable[[QueueState], int | None], offset_ms: int) -> None:
        super().__init__(condition)
        self._moment_ms, self._offset_ms = moment_ms, offset_ms

    def holding(self, queues: Iterable[QueueState], at_ms: int) -> list[QueueState]:
        moment_ms, before_ms = self._moment_ms, at_ms - self._offset_ms
        return [queue for queue in queues if (ms := moment_ms(queue)) is not None and ms <= before_ms]

    def next_ms(self, queues: Iterable[QueueState], at_ms: int) -> int:
        after_ms = at_ms - self._offset_ms
        times_ms = (ms for ms in map(self._moment_ms, queues) if ms is not None and ms > after_ms)
        return min(times_ms, default=_FOREVER) + self._offset_ms


class _Older(_Passing):
    """Holds if a time, which is a field of the state, is longer ago than the bound."""

    def __init__(self, condition: Condition, field: str) -> None:
        moment_ms = itemgetter(QueueState._fields.index(field))
        super().__init__(condition, moment_ms, condition.bound if condition.or_equal else condition.bound + 1)

    def is_over(self, queue: QueueState, *, is_forecast: bool) -> bool:
        # An empty queue has no oldest message.
        return queue.depth is not None

    def words(self, queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
        since_ms = self._moment_ms(queue)
        age_ms = None if since_ms is None else max(0, at_ms - since_ms)
        return f"{self._condition.what} {duration(age_ms)} ({self._condition.text})"


class _Nearer(_Passing):
    """Holds if the queue reaches a limit sooner than the bound."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition, _soonest_ms, -condition.bound if condition.or_equal else 1 - condition.bound)

    def is_over(self, queue: QueueState, *, is_forecast: bool) -> bool:
        return queue.depth is not None and (queue.limit is not None or is_forecast)

    def words(self, queue: QueueState, at_ms: int, thresholds: Thresholds) -> str:
        return f"{limit_words(queue.limit, at_ms) or 'no limit'} ({self._condition.text})"


def _soonest_ms(queue: QueueState) -> int | None:
    return None if queue.limit is None else queue.limit.soonest_ms


# How the numbers of queues are checked; all other conditions are verdicts.
_CHECKS: Mapping[str, Callable[[Condition], _Check]] = {
    DEPTH: partial(_Above, field="depth"),
    RECEIVE_COUNT: partial(_Above, field="highest_rc"),
    EXPIRED_LEASES: partial(_Above, field="expired"),
    OLDEST: partial(_Older, field="oldest_ready_due_ms"),
    FULL_IN: _Nearer,
}


def _check_of(condition: Condition) -> _Check:
    check = _CHECKS[condition.what] if condition.what in NUMBERS else _IsVerdict
    return check(condition)


@dataclass(frozen=True, slots=True)
class _Now:
    """The moment of a poll: ``ms`` by the monotonic clock, ``wall_s`` by the local clock, ``at_ms`` by the server's."""

    ms: int
    wall_s: float
    at_ms: int

    @property
    def wall_ms(self) -> int:
        return round(self.wall_s * 1000)


@dataclass(slots=True)
class _Place:
    """What is kept of a place: the queues, the time and the INFO of its last poll, and the last change of its server.

    That was found at ``changed_ms``, when the ``losses`` were missing, compared with a poll ``span_ms`` before. The
    times are of the monotonic clock.
    """

    queues: Sequence[QueueState] = ()
    polled_ms: int | None = None
    info: ServerInfo | None = None
    change: ServerChange | None = None
    changed_ms: int = -_FOREVER
    losses: Losses = _NO_LOSSES
    span_ms: int = 0


class _Poll(NamedTuple):
    """A poll of a place, for all rules: ``silenced`` are queues whose trouble is known or expected.

    ``changed`` are the queues that changed since the last poll, None if some were created or deleted, or if it is the
    first; ``again`` are the names of those that were deleted and created again.
    """

    snapshot: Snapshot
    profile: str
    now: _Now
    thresholds: Thresholds
    silenced: Collection[str]
    place: _Place
    changed: Sequence[QueueState] | None = None
    again: Set[str] = frozenset()

    @property
    def has_answer(self) -> bool:
        """Whether the poll succeeded; a failed one says nothing about queues."""
        return self.snapshot.connection.failure is None and self.snapshot.connection.fresh_at_s is not None


class _Due(NamedTuple):
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


class _ServerCheck(ABC):
    """The condition of a rule, for one server, from one poll after another of its places."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        # Not by namespace, which a dashboard may switch: of the old one, nothing more is heard.
        self._of_places: dict[str, bool | None] = {}

    def holds(self, poll: _Poll) -> bool | None:
        """Return whether it holds for the server after a poll; None for unknown."""
        self._of_places[poll.snapshot.place] = self._holds_for(poll)
        known = [holds for holds in self._of_places.values() if holds is not None]
        return any(known) if known else None

    @abstractmethod
    def _holds_for(self, poll: _Poll) -> bool | None:
        """Return whether it holds by what is known of the place that was polled; None for unknown."""

    @abstractmethod
    def words(self, poll: _Poll, places: Sequence[_Place]) -> str:
        """Return a sentence about the server, for which it holds; ``places`` are all places of the server."""

    def end_words(self, due: _Due, now: _Now) -> str:
        """Return a sentence about the server, for which it held; empty if ends are not reported."""
        return ""


class _IsGone(_ServerCheck):
    """Holds if none of the places can be polled."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition)
        self._outages = OutageClock()

    def holds(self, poll: _Poll) -> bool:
        super().holds(poll)
        is_lost = all(self._of_places.values())
        self._outages.observe(poll.now.ms, failed=poll.snapshot.connection.failure is not None, is_lost=is_lost)
        return is_lost

    def _holds_for(self, poll: _Poll) -> bool:
        return poll.snapshot.connection.failure is not None

    def words(self, poll: _Poll, places: Sequence[_Place]) -> str:
        return lost_words(poll.snapshot.connection.failure)

    def end_words(self, due: _Due, now: _Now) -> str:
        outage = self._outages.last
        if outage is None:
            return f"answers again, {duration(due.lasts_ms)} after it was lost"
        return back_words(outage, due.changes, now.ms - outage.back_ms)


class _IsRestarted(_ServerCheck):
    """Holds for a moment after another process began to answer for the server; its end is not reported."""

    def _holds_for(self, poll: _Poll) -> bool:
        return _is_restarted(poll.place, poll.now)

    def words(self, poll: _Poll, places: Sequence[_Place]) -> str:
        """Return what happened to the server, and what all of its places miss since."""
        info, changed = poll.snapshot.info, [place for place in places if _is_restarted(place, poll.now)]
        if not changed or (change := changed[0].change) is None:
            return ""
        up = "" if info is None else f", up for {duration(info.uptime_s * 1000)}"
        if not change.is_restart:
            return f"{change.words}{up}"
        lost = Losses(*map(sum, zip(*(place.losses for place in changed), strict=True)))
        since = duration(max(place.span_ms for place in changed))
        return f"{change.words}{up}: {lost.words}, compared with the poll {since} before"


class _IsFilling(_ServerCheck):
    """Holds if the memory of the server is full within the bound."""

    def _holds_for(self, poll: _Poll) -> bool | None:
        snapshot = poll.snapshot
        if not poll.has_answer:
            return None
        if snapshot.memory_limit is None:
            return False if snapshot.info is not None and _is_forecast(snapshot) else None
        left_ms, _ = snapshot.memory_limit.until_ms(snapshot.at_ms)
        return left_ms < self._condition.bound + self._condition.or_equal

    def words(self, poll: _Poll, places: Sequence[_Place]) -> str:
        snapshot = poll.snapshot
        return f"{limit_words(snapshot.memory_limit, snapshot.at_ms) or 'memory'} ({self._condition.text})"

    def end_words(self, due: _Due, now: _Now) -> str:
        return f"its memory is no longer filling up, after {duration(due.lasts_ms)}"


def _is_restarted(place: _Place, now: _Now) -> bool:
    return now.ms - place.changed_ms < _RESTARTED_MS


_SERVER_CHECKS: Mapping[str, type[_ServerCheck]] = {
    SERVER_GONE: _IsGone,
    SERVER_RESTARTED: _IsRestarted,
    MEMORY_FULL_IN: _IsFilling,
}


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


class _Followed:
    """One rule on the queues of one place, or on one server: its name is then the only one, ""."""

    def __init__(self, rule: Rule, topic: Topic, store: AlertStore | None, now: _Now, *, is_patient: bool) -> None:
        self.next_ms = 0
        self.is_forecast = False
        self._rule = rule
        self._topic = topic
        self._store = store
        self._is_patient = is_patient
        self._conditions: dict[str, _Condition] = {}
        # Those that changed, and are not settled.
        self._pending: dict[str, _Condition] = {}
        self._polled_ms = -_FOREVER
        # Since when names have been silenced, and were not reported.
        self._silenced_ms: dict[str, int] = {}
        # When something became due that is not reported yet, and when the last message was made.
        self._due_ms: int | None = None
        self._sent_ms: int | None = None
        self._firing_sent_ms = 0
        if store is not None:
            self._restore(store.load(topic, now.wall_ms), now)

    def _restore(self, found: Mapping[str, ReportedCondition], now: _Now) -> None:
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

    def due(self, now: _Now, silenced: Collection[str], change: ServerChange | None = None) -> list[_Due]:
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
        found: list[_Due] = []
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
            found.append(_Due(AlertState.REPEATED, names, news, max(lasted_ms.values())))
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
            held_ms = -_FOREVER if condition.held_ms is None else condition.held_ms
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

    def _due_of(self, state: AlertState, names: Sequence[str], now: _Now) -> _Due:
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
        return _Due(state, names, news, lasts_ms, changes=changes)

    def _settle(self, name: str, condition: _Condition) -> None:
        """Wait for the next change of a condition; one that does not hold is no longer tracked."""
        del self._pending[name]
        self._silenced_ms.pop(name, None)
        if not condition.value:
            del self._conditions[name]


class Notice(NamedTuple):
    """A message, and the same one without the queues that another program has reported; None if it has reported all."""

    message: AlertMessage
    news: AlertMessage | None


class AlertRules:
    """Applies rules to the snapshots of any number of places; not safe for threads.

    ``store`` keeps the reported alerts. Without ``is_patient``, ``for`` and the wait for more queues do not apply: each
    snapshot is the only one of its place. ``deletions`` says, for queues that a snapshot misses, what deleted them.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        store: AlertStore | None = None,
        *,
        is_patient: bool = True,
        deletions: Deletions = unknown_deletions,
    ) -> None:
        self._rules = [_applied(rule, is_patient=is_patient) for rule in rules]
        self._store = store
        self._is_patient = is_patient
        self._deletions = deletions
        self._contents = _contents_of(rules)
        self._checks = {rule.name: _check_of(rule.when) for rule in rules if rule.when.what not in OF_SERVERS}
        self._followed: dict[tuple[str, ...], _Followed] = {}
        self._wanted: dict[str, dict[tuple[str, str], bool]] = {}
        # By profile, server and namespace.
        self._places: dict[tuple[str, str, str], _Place] = {}
        # By rule and server.
        self._server_checks: dict[tuple[str, str], _ServerCheck] = {}

    def apply(
        self,
        snapshot: Snapshot,
        thresholds: Thresholds,
        *,
        profile: str,
        now_ms: int,
        wall_s: float,
        silenced: Collection[str] = (),
    ) -> list[Notice]:
        """Return the messages that are to be sent after a poll; no alerts are sent for queues that are ``silenced``."""
        place = self._places.setdefault((profile, snapshot.server, snapshot.ns), _Place())
        poll = _Poll(snapshot, profile, _Now(now_ms, wall_s, snapshot.at_ms), thresholds, silenced, place)
        if poll.has_answer:
            poll = _compared(poll)
        found: list[Notice] = []
        for rule in self._rules:
            if rule.profiles and profile not in rule.profiles:
                continue
            if rule.when.what in OF_SERVERS:
                found += self._take_server(rule, poll)
            elif poll.has_answer:
                found += self._take_queues(rule, poll)
        return found

    def _take_queues(self, rule: Rule, poll: _Poll) -> list[Notice]:
        """Apply a rule to the queues of a place."""
        snapshot, now = poll.snapshot, poll.now
        topic = Topic(self._contents[rule.name], rule.when.text, poll.profile, snapshot.server, snapshot.ns)
        followed = self._follow(topic, rule, now)
        self._observe_queues(rule, poll, followed)
        due = followed.due(now, poll.silenced, poll.place.change)
        return self._notices_of_queues(rule, poll, due) if due else []

    def _observe_queues(self, rule: Rule, poll: _Poll, followed: _Followed) -> None:
        """Let a rule follow for which queues it holds now, since when, and for which it is over."""
        snapshot, now = poll.snapshot, poll.now
        check, at_ms, queues = self._checks[rule.name], snapshot.at_ms, snapshot.queues
        looked, was_forecast, followed.is_forecast = poll.changed, followed.is_forecast, _is_forecast(snapshot)
        if looked is None or at_ms >= followed.next_ms or was_forecast is not followed.is_forecast:
            looked, followed.next_ms = queues, _FOREVER
        followed.next_ms = min(followed.next_ms, check.next_ms(looked, at_ms))
        holding = self._of_rule(rule, check.holding(looked, at_ms))
        if replaced := poll.again & followed.names:
            followed.lose(replaced, self._deletions(snapshot, replaced), now.ms)
        if names := followed.names:
            hold = {queue.name for queue in holding}
            needs_looks = rule.when.what in _LOOKED
            others: list[tuple[str, bool | None]] = []
            for queue in looked:
                if queue.name not in names or queue.name in hold:
                    continue
                # An age that has reached its limit has no forecast, and is not over.
                is_aged = (queue.waiting_ms(at_ms) or 0) >= poll.thresholds.aged_ms
                is_over = check.is_over(queue, is_forecast=followed.is_forecast and not is_aged)
                is_unread = needs_looks and followed.is_restored(queue.name) and _may_have_unread_counts(queue)
                others.append((queue.name, False if is_over and not is_unread else None))
            if poll.changed is None:
                lost = names - {queue.name for queue in queues}
                followed.lose(lost, self._deletions(snapshot, lost) if lost else {}, now.ms)
            followed.observe(others, now.ms)
        followed.observe([(queue.name, True) for queue in holding], now.ms)
        ahead_ms = now.ms - at_ms
        for queue in holding:
            followed.note_times(queue.name, check.since_ms(queue), check.over_since_ms(queue), ahead_ms)

    def _notices_of_queues(self, rule: Rule, poll: _Poll, due: Sequence[_Due]) -> list[Notice]:
        snapshot, check = poll.snapshot, self._checks[rule.name]
        present = {queue.name: queue for queue in snapshot.queues}

        def affected(name: str, due: _Due) -> Affected:
            queue, change = present.get(name), due.change
            if queue is None or due.is_gone:
                return Affected(name, None, None, f"queue {gone_words(due.deletions.get(name, change))}")
            words = check.words(queue, snapshot.at_ms, poll.thresholds)
            return Affected(name, queue.verdict.value, queue.depth, f"{change}; {words}" if change else words)

        def message(each: _Due, names: Sequence[str]) -> AlertMessage:
            return AlertMessage(
                rule.name, each.state, rule.when.text, poll.now.wall_ms, poll.profile, snapshot.server, snapshot.ns,
                tuple(affected(name, each) for name in names[:LISTED]), len(names),
                each.lasts_ms if self._is_patient else None, is_gone=each.is_gone, change=each.change,
            )  # fmt: skip

        return [Notice(message(each, each.names), message(each, each.news) if each.news else None) for each in due]

    def _take_server(self, rule: Rule, poll: _Poll) -> list[Notice]:
        """Apply a rule to a server, from the states of its places."""
        server, profile, now = poll.snapshot.server, poll.profile, poll.now
        if (rule.name, server) not in self._server_checks:
            self._server_checks[rule.name, server] = _SERVER_CHECKS[rule.when.what](rule.when)
        check = self._server_checks[rule.name, server]
        followed = self._follow(Topic(self._contents[rule.name], rule.when.text, profile, server, ""), rule, now)
        followed.observe([("", check.holds(poll))], now.ms)
        found = []
        for each in followed.due(now, ()):
            if each.state is AlertState.RESOLVED:
                words = check.end_words(each, now)
            else:
                words = check.words(poll, [place for of, place in self._places.items() if of[:2] == (profile, server)])
            message = AlertMessage(
                rule.name, each.state, rule.when.text, now.wall_ms, profile, server, lasts_ms=each.lasts_ms,
                reason=words,
            )  # fmt: skip
            found.append(Notice(message, message if each.news else None))
        return found

    def _follow(self, topic: Topic, rule: Rule, now: _Now) -> _Followed:
        if topic not in self._followed:
            self._followed[topic] = _Followed(rule, topic, self._store, now, is_patient=self._is_patient)
        return self._followed[topic]

    def topic_of(self, message: AlertMessage) -> Topic:
        """Return the topic of a rule's message."""
        return Topic(self._contents[message.rule], message.when, message.profile, message.server, message.ns)

    def _of_rule(self, rule: Rule, queues: Sequence[QueueState]) -> Sequence[QueueState]:
        """Return the queues that a rule names, by name or with the kind (``list:mail``); cached for each queue."""
        if not rule.queues:
            return queues
        wanted = self._wanted.setdefault(rule.name, {})
        if len(wanted) > 2 * sum(len(place.queues) for place in self._places.values()):
            # Most of these queues are gone.
            wanted.clear()
        found = []
        for queue in queues:
            key = queue.kind, queue.name
            is_wanted = wanted.get(key)
            if is_wanted is None:
                is_wanted = wanted[key] = is_among(queue.name, kind_named(queue.kind), rule.queues)
            if is_wanted:
                found.append(queue)
        return found


def _compared(poll: _Poll) -> _Poll:
    """Compare a poll with the last one of its place, and remember it."""
    place, snapshot, last_ms = poll.place, poll.snapshot, poll.place.polled_ms
    differences = snapshot.differences(place.queues)
    change, ahead_ms = server_change(place.info, snapshot.info), poll.now.ms - snapshot.at_ms
    if change is not None:
        # Another process answers for the server than before.
        place.change = change._replace(from_ms=change.from_ms + ahead_ms, until_ms=change.until_ms + ahead_ms)
        place.losses = losses_of(differences) if change.is_restart else _NO_LOSSES
        place.changed_ms, place.span_ms = poll.now.ms, 0 if last_ms is None else poll.now.ms - last_ms
    place.queues, place.polled_ms, place.info = snapshot.queues, poll.now.ms, snapshot.info or place.info
    again = {one.name for was, one in differences.pairs if was_created_again(was.created_ms, one.created_ms)}
    is_whole = last_ms is None or differences.gone or differences.created
    return poll._replace(changed=None if is_whole else differences.after, again=again)


def _applied(rule: Rule, *, is_patient: bool) -> Rule:
    """Return a rule as it is applied: a restart has no duration and no end."""
    if rule.when.what == SERVER_RESTARTED:
        return replace(rule, for_ms=0, repeat_ms=None, resolved=False)
    return rule if is_patient else replace(rule, for_ms=0, repeat_ms=None)


def _contents_of(rules: Iterable[Rule]) -> dict[str, str]:
    """Return what identifies each rule beside its condition, by name: its queues, and its number if several are alike.

    So a rule with another name is still the same.
    """
    numbers: Counter[tuple[str, ...]] = Counter()
    contents = {}
    for rule in rules:
        queues = sorted(rule.queues)
        numbers[rule.when.text, *queues] += 1
        contents[rule.name] = json.dumps([queues, numbers[rule.when.text, *queues]])
    return contents


def _is_forecast(snapshot: Snapshot) -> bool:
    """Return whether polls have lasted long enough for forecasts: then a queue without a limit approaches none."""
    begins_ms = [*snapshot.trend.times_ms[:1], *snapshot.trend.gaps_ms[-1:]]
    return bool(begins_ms) and snapshot.at_ms - max(begins_ms) >= KNOWN_MS + 2 * FORECAST_EVERY_MS


def _may_have_unread_counts(queue: QueueState) -> bool:
    """Return whether there may be receive counts that polls have not read since the start."""
    return bool(queue.depth and queue.totalrecv) and queue.looked_all_ms is None
