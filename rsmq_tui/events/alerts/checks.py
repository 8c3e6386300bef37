"""The conditions of rules, on queues and on servers, and the polls by which they are checked."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from rsmq_tui.events.alerts.following import Due, Now
from rsmq_tui.events.detector import Losses, OutageClock, back_words, lost_words
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds, Verdict, reason
from rsmq_tui.monitor.text import count, duration
from rsmq_tui.monitor.tracking.forecast import FORECAST_EVERY_MS, KNOWN_MS, limit_words
from rsmq_tui.monitor.tracking.tracker import FOREVER_MS
from rsmq_tui.profiles.alerts import (
    DEPTH,
    EXPIRED_LEASES,
    FULL_IN,
    MEMORY_FULL_IN,
    NUMBERS,
    OLDEST,
    RECEIVE_COUNT,
    SERVER_GONE,
    SERVER_RESTARTED,
    TROUBLE,
    Condition,
)
from rsmq_tui.protocol.server.status import ServerChange, ServerInfo

# A restart is news for so long.
_RESTARTED_MS = 10_000
_LOOKED = (TROUBLE, Verdict.POISONED.value, RECEIVE_COUNT)
_NO_LOSSES = Losses()


@dataclass(slots=True)
class KeptPlace:
    """What is kept of a place: the queues, the time and the INFO of its last poll, and the last change of its server.

    That was found at ``changed_ms``, when the ``losses`` were missing, compared with a poll ``span_ms`` before. The
    times are of the monotonic clock.
    """

    queues: Sequence[QueueState] = ()
    polled_ms: int | None = None
    info: ServerInfo | None = None
    change: ServerChange | None = None
    changed_ms: int = -FOREVER_MS
    losses: Losses = _NO_LOSSES
    span_ms: int = 0


class Poll(NamedTuple):
    """A poll of a place, for all rules: no alerts are sent for queues that are ``silenced``.

    ``changed`` are the queues that changed since the last poll, None if some were created or deleted, or if it is the
    first; ``again`` are the names of those that were deleted and created again.
    """

    snapshot: Snapshot
    profile: str
    now: Now
    thresholds: Thresholds
    silenced: Collection[str]
    place: KeptPlace
    changed: Sequence[QueueState] | None = None
    again: Set[str] = frozenset()

    @property
    def has_answer(self) -> bool:
        """Whether the poll succeeded; a failed one says nothing about queues."""
        return self.snapshot.connection.failure is None and self.snapshot.connection.fresh_at_s is not None

    @property
    def is_forecast(self) -> bool:
        """Whether polls have lasted long enough for forecasts: then a queue without a limit approaches none."""
        trend = self.snapshot.trend
        begins_ms = [*trend.times_ms[:1], *trend.gaps_ms[-1:]]
        return bool(begins_ms) and self.snapshot.at_ms - max(begins_ms) >= KNOWN_MS + 2 * FORECAST_EVERY_MS


class QueueCheck(ABC):
    """The condition of a rule, for the queues of one poll after another.

    It ``needs_looks`` if it is on receive counts, of which each poll looks at a part.
    """

    def __init__(self, condition: Condition) -> None:
        self.needs_looks = condition.what in _LOOKED
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
        return FOREVER_MS


class _IsVerdict(QueueCheck):
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


class _Above(QueueCheck):
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


class _Passing(QueueCheck):
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
        return min(times_ms, default=FOREVER_MS) + self._offset_ms


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
_QUEUE_CHECKS: Mapping[str, Callable[[Condition], QueueCheck]] = {
    DEPTH: partial(_Above, field="depth"),
    RECEIVE_COUNT: partial(_Above, field="highest_rc"),
    EXPIRED_LEASES: partial(_Above, field="expired"),
    OLDEST: partial(_Older, field="oldest_ready_due_ms"),
    FULL_IN: _Nearer,
}


def queue_check(condition: Condition) -> QueueCheck:
    """Return the check of a condition on queues."""
    check = _QUEUE_CHECKS[condition.what] if condition.what in NUMBERS else _IsVerdict
    return check(condition)


class ServerCheck(ABC):
    """The condition of a rule, for one server, from one poll after another of its places."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        # Not by namespace, which a dashboard may switch: of the old one, nothing more is heard.
        self._of_places: dict[str, bool | None] = {}

    def holds(self, poll: Poll) -> bool | None:
        """Return whether it holds for the server after a poll; None for unknown."""
        self._of_places[poll.snapshot.place] = self._holds_for(poll)
        known = [holds for holds in self._of_places.values() if holds is not None]
        return any(known) if known else None

    @abstractmethod
    def _holds_for(self, poll: Poll) -> bool | None:
        """Return whether it holds by what is known of the place that was polled; None for unknown."""

    @abstractmethod
    def words(self, poll: Poll, places: Sequence[KeptPlace]) -> str:
        """Return a sentence about the server, for which it holds; ``places`` are all places of the server."""

    def end_words(self, due: Due, now: Now) -> str:
        """Return a sentence about the server, for which it held; empty if ends are not reported."""
        return ""


class _IsGone(ServerCheck):
    """Holds if none of the places can be polled."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition)
        self._outages = OutageClock()

    def holds(self, poll: Poll) -> bool:
        super().holds(poll)
        is_lost = all(self._of_places.values())
        self._outages.observe(poll.now.ms, failed=poll.snapshot.connection.failure is not None, is_lost=is_lost)
        return is_lost

    def _holds_for(self, poll: Poll) -> bool:
        return poll.snapshot.connection.failure is not None

    def words(self, poll: Poll, places: Sequence[KeptPlace]) -> str:
        return lost_words(poll.snapshot.connection.failure)

    def end_words(self, due: Due, now: Now) -> str:
        outage = self._outages.last
        if outage is None:
            return f"answers again, {duration(due.lasts_ms)} after it was lost"
        return back_words(outage, due.changes, now.ms - outage.back_ms)


class _IsRestarted(ServerCheck):
    """Holds for a moment after another process began to answer for the server; its end is not reported."""

    def _holds_for(self, poll: Poll) -> bool:
        return _is_restarted(poll.place, poll.now)

    def words(self, poll: Poll, places: Sequence[KeptPlace]) -> str:
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


class _IsFilling(ServerCheck):
    """Holds if the memory of the server is full within the bound."""

    def _holds_for(self, poll: Poll) -> bool | None:
        snapshot = poll.snapshot
        if not poll.has_answer:
            return None
        if snapshot.memory_limit is None:
            return False if snapshot.info is not None and poll.is_forecast else None
        left_ms, _ = snapshot.memory_limit.until_ms(snapshot.at_ms)
        return left_ms < self._condition.bound + self._condition.or_equal

    def words(self, poll: Poll, places: Sequence[KeptPlace]) -> str:
        snapshot = poll.snapshot
        return f"{limit_words(snapshot.memory_limit, snapshot.at_ms) or 'memory'} ({self._condition.text})"

    def end_words(self, due: Due, now: Now) -> str:
        return f"its memory is no longer filling up, after {duration(due.lasts_ms)}"


def _is_restarted(place: KeptPlace, now: Now) -> bool:
    return now.ms - place.changed_ms < _RESTARTED_MS


_SERVER_CHECKS: Mapping[str, type[ServerCheck]] = {
    SERVER_GONE: _IsGone,
    SERVER_RESTARTED: _IsRestarted,
    MEMORY_FULL_IN: _IsFilling,
}


def server_check(condition: Condition) -> ServerCheck:
    """Return the check of a condition on a server."""
    return _SERVER_CHECKS[condition.what](condition)
