"""From the rows of a poll to the states of list queues: the inputs of the verdicts."""

from functools import partial
from hashlib import sha256
from typing import Any

from rsmq_tui.monitor.filters.json_paths import JsonPath, read_age
from rsmq_tui.monitor.messages.reading import read_score
from rsmq_tui.monitor.model import QueueState
from rsmq_tui.monitor.text import printable
from rsmq_tui.monitor.tracking.drain import net_drain_of
from rsmq_tui.monitor.tracking.forecast import Ages
from rsmq_tui.monitor.tracking.series import ListSample, ListSeries, or_none, or_unknown
from rsmq_tui.monitor.tracking.tracker import (
    BROKEN,
    DRAIN_SPAN_MS,
    FOREVER_MS,
    MEASURED_MS,
    NewTracker,
    ReferenceBuckets,
    Tracker,
)
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol import Row
from rsmq_tui.protocol.kinds import LIST

# If nothing was taken for this long, a constant backlog is not called steady.
_STEADY_MS = 60_000
_ELSEWHERE = (
    "its name has no hash tag: on a cluster its processing list and its leases may be on other nodes, "
    "and are not counted"
)


# Expired leases leak after this many times the interval between two rounds of a reaper, at most ``_LATE_MAX``
# thresholds.
_ROUNDS_LATE = 2
_LATE_MAX = 10
_ROUNDS_KEPT = 4
# The interval between two rounds is at most this many times as long as an expired lease was seen to wait.
_WAIT_SHARE = 4


class _Returns:
    """Follows the returns of expired leases, to estimate how often a reaper runs."""

    __slots__ = ("_overdue_ms", "_rounds_ms", "last_ms")

    def __init__(self) -> None:
        # The earliest deadline that had passed at the last poll, and when an expired lease was last seen to go.
        self._overdue_ms: int | None = None
        self.last_ms: int | None = None
        self._rounds_ms: tuple[int, ...] = ()

    def follow(self, overdue_ms: int | None, at_ms: int, *, is_resumed: bool, is_own_change: bool) -> None:
        """Process the earliest deadline that has passed; ``is_resumed`` means that polls failed since the last one.

        With ``is_own_change``, this program may have returned leases: that is not the work of a reaper.
        """
        before_ms, self._overdue_ms = self._overdue_ms, overdue_ms
        if is_own_change or before_ms is None or (overdue_ms is not None and overdue_ms <= before_ms):
            return
        last_ms, self.last_ms = self.last_ms, at_ms
        since_ms = before_ms if last_ms is None else last_ms
        # Leases that had expired by the last return may be the rest of the same round.
        is_round = last_ms is None or before_ms > last_ms or at_ms - last_ms > max(self._rounds_ms, default=0)
        # The time of a return during an outage is unknown.
        if is_round and not is_resumed:
            # A late ack, or rounds that returned nothing and so were not seen, must not lengthen the interval much.
            round_ms = min(at_ms - since_ms, _WAIT_SHARE * (at_ms - before_ms))
            self._rounds_ms = (*self._rounds_ms, round_ms)[-_ROUNDS_KEPT:]

    def remember(self) -> list[Any]:
        """Return what ``restore`` takes."""
        return [self._overdue_ms, self.last_ms, *self._rounds_ms]

    def restore(self, kept: list[Any]) -> None:
        """Take over what an earlier run knew; raises ``ValueError`` or ``TypeError``."""
        overdue_ms, last_ms, *rounds_ms = kept
        self._overdue_ms = None if overdue_ms is None else int(overdue_ms)
        self.last_ms = None if last_ms is None else int(last_ms)
        self._rounds_ms = tuple(map(int, rounds_ms[-_ROUNDS_KEPT:]))

    def since_ms(self, overdue_ms: int) -> int:
        """Return since when leases have been expired and none of them was returned."""
        return overdue_ms if self.last_ms is None else max(overdue_ms, self.last_ms)

    def limit_ms(self, leaking_ms: int) -> int:
        """Return how long expired leases may stay before they leak; ``leaking_ms`` is the threshold."""
        # What happened once, such as a clean-up by hand or a server that came back without its data, is no reaper.
        second_ms = sorted(self._rounds_ms)[-2] if len(self._rounds_ms) > 1 else 0
        late_ms = _ROUNDS_LATE * second_ms
        return max(leaking_ms, min(late_ms, _LATE_MAX * leaking_ms))


def list_trackers(path: JsonPath | None) -> NewTracker:
    """Return a factory of trackers; ``path`` is the path of the creation time in items, None if they have none."""
    return partial(ListTracker, path=path)


class ListTracker(Tracker):
    """Turns the rows of a list queue (see ``protocol.lists.reader``) into states.

    Lists do not count pushes and takes: consumers show only by a new next item, or by falling counts. Items have no
    receive counts, so there is no ``look``.
    """

    NUMBERS = 10
    __slots__ = (
        "_age",
        "_age_key",
        "_ages",
        "_is_restored",
        "_moved_ms",
        "_path",
        "_returns",
        "_taken_ms",
        "_takes_known_ms",
    )

    def __init__(
        self, name: str, trend: Trend, thresholds: Thresholds, place: str = "", path: JsonPath | None = None
    ) -> None:
        super().__init__(name, trend.add_queue(name, ListSeries), thresholds, place)
        self._path = path
        self._age_key: list[object] | None = None
        self._age: tuple[int | None, str | None] = (None, None)
        # None if items have no times.
        self._ages = None if path is None else Ages()
        # Since when the next item has been the same, as far as is known; ``_taken_ms`` is the last observed take.
        self._moved_ms = 0
        self._taken_ms: int | None = None
        self._returns = _Returns()
        # When it will be known whether consumers take the items that were ready before monitoring; 0 if known.
        self._takes_known_ms = 0
        # Whether ``row`` is of an earlier run, with the digest of the next item instead of the item.
        self._is_restored = False

    def update(self, row: Row, at_ms: int, references: ReferenceBuckets) -> QueueState:
        """Return the state after a poll's row."""
        before, self.row = self.row, row
        ready, hidden, leased, head, lease = row
        if isinstance(ready, bytes) or isinstance(hidden, bytes) or isinstance(leased, bytes):
            self.sample = None
            self.stale_from_ms = FOREVER_MS
            self.state = self._broken_state(_broken(ready, hidden, leased), ready, hidden)
            return self.state
        sample = ListSample(at_ms, ready + (hidden or 0), ready, 0, 0)
        expired, overdue_ms = (0 if hidden is not None else None, None) if lease is None else _expired(lease)
        last_ms = 0 if self.sample is None else self.sample.at_ms
        self._follow(before, sample, overdue_ms)
        earlier, before_trend = self._rates_from(references, sample)
        net_s, trend_s = sample.net_since(earlier), sample.net_since(before_trend)
        oldest_ms, problem = self._read_age(head) if head else (None, None)
        problems: tuple[str, ...] = (problem,) if problem else ()
        if hidden is None:
            problems += (_ELSEWHERE,)
        grows = net_s is not None and net_s > 0 and trend_s is not None and trend_s > 0
        growth_known_ms = self._growth_known(sample, at_ms - earlier.at_ms, grows=grows)
        self._judge(sample, oldest_ms, overdue_ms, references, grows=grows, last_ms=last_ms)
        judged = self._troubles.verdict(
            at_ms, self._thresholds.clear_ms, self._watched_from_ms, max(growth_known_ms, self._takes_known_ms)
        )
        is_worked_on = self._taken_ms is not None and at_ms - self._taken_ms < _STEADY_MS
        drains_s = trend_s
        if net_s is not None and net_s < 0:
            drains_s = sample.net_since(self._falls_from(before_trend, sample))
        drain, drain_s = net_drain_of(ready, drains_s, net_s, judged, self._thresholds, was_taken=is_worked_on)
        batches = None if net_s == trend_s == 0 else self._batches(sample)
        if batches is not None and (left := batches.left(at_ms, drain_s)):
            whole_s = batches.change_s
            drain, drain_s = net_drain_of(left, whole_s, whole_s, judged, self._thresholds, was_taken=is_worked_on)
        if self._ages is not None:
            self._ages = Ages() if problem else self._ages
            self._ages.add(at_ms, 0 if oldest_ms is None else max(0, at_ms - oldest_ms))
        # As many may come as go: it is still only if the next item has been the same as long as its depth.
        is_still = net_s == trend_s == 0 and at_ms - self._moved_ms >= DRAIN_SPAN_MS
        limit = self._limit_at(sample, oldest_ms, is_still=is_still, drain_s=drain_s, ages=self._ages)
        self.stale_from_ms = self._stale_from(sample, net_s, trend_s, oldest_ms, overdue_ms)
        # fmt: off
        self.state = QueueState(
            self._name, LIST.name, sample.depth, ready, hidden, oldest_ms,
            # Attributes, counters and rates, which lists do not have.
            None, None, None, None, None, None, None, None, None, None,
            0, 0, judged.verdict, judged.since_ms, drain, drain_s, None, problems, self._place, expired,
            net_s, oldest_ms, judged.pending_since_ms, judged.pending_until_ms,
            self._moved_ms if ready else None, is_idle_longer=self._is_idle_longer, limit=limit,
            since_depth=judged.since_depth, is_since_longer=judged.is_since_longer,
        )
        # fmt: on
        return self.state

    def remember_more(self) -> Any:
        """Return the troubles, the returns of leases, and the first four elements of the row, unless it is an error."""
        if self.sample is None:
            return []
        row = self.row if self._is_restored or self.row is None else _digested(self.row)
        return [super().remember_more(), self._returns.remember(), None if row is None else row[:4]]

    def _remember(self) -> tuple[int, ...]:
        return self._moved_ms, or_unknown(self._taken_ms), self._takes_known_ms

    def _restore(self, numbers: list[int], more: Any) -> None:
        troubles, returns, row = more
        ready, hidden, leased, head = row
        self._troubles.restore(troubles)
        self._returns.restore(returns)
        self._moved_ms, taken_ms, self._takes_known_ms = numbers
        self._taken_ms = or_none(taken_ms)
        self.row, self._is_restored = [int(ready), hidden, leased, head, None], True

    def _broken_state(self, broken: str, ready: int | bytes, hidden: int | bytes | None) -> QueueState:
        ready_count = ready if isinstance(ready, int) else None
        hidden_count = hidden if isinstance(hidden, int) else None
        is_known = ready_count is not None and not isinstance(hidden, bytes)
        return BROKEN._replace(
            name=self._name,
            kind=LIST.name,
            place=self._place,
            broken=broken,
            depth=(ready_count or 0) + (hidden_count or 0) if is_known else None,
            ready=ready_count,
            hidden=hidden_count,
        )

    def _follow(self, before: Row | None, sample: ListSample, overdue_ms: int | None) -> None:
        """Update the times that verdicts depend on; ``before`` is the row of the last poll."""
        at_ms, is_first, row = sample.at_ms, self.sample is None or before is None, self.row
        was_taken = is_ours = False
        if not is_first and before is not None and row is not None and row is not before:
            was_taken = _was_taken(before, _digested(row) if self._is_restored else row)
            is_ours = was_taken and self.own_change_ms > 0
            was_taken = was_taken and not is_ours
        self._is_restored = False
        if is_first:
            self._begin_at(sample)
            self._troubles.forget()
            self._moved_ms, self._taken_ms = at_ms, None
            self._returns = _Returns()
        elif was_taken:
            self._taken_ms = self._moved_ms = at_ms
        elif not sample.ready or before is None or before[3] is None or row is None or row[3] is None:
            self._moved_ms = at_ms
        elif is_ours:
            # Whether a consumer took an item too is unknown: this time does not count.
            self._moved_ms = min(at_ms, self._moved_ms + self.own_change_ms)
        self._returns.follow(overdue_ms, at_ms, is_resumed=self._is_resumed, is_own_change=self.own_change_ms > 0)
        if is_first or self._is_resumed:
            self._is_resumed = False
            self._watch_from(
                at_ms, has_grown=not is_first and self.sample is not None and sample.depth >= self.sample.depth
            )
            # A take during an outage happened at an unknown time.
            is_unknown = sample.ready and (is_first or was_taken)
            self._takes_known_ms = at_ms + self._thresholds.stalled_ms if is_unknown else 0
            self._is_idle_longer = bool(sample.ready) and (self._is_idle_longer or self._moved_ms == at_ms)
        elif was_taken or not sample.ready:
            self._takes_known_ms = 0
            self._is_idle_longer = False
        self.sample = sample

    def _judge(
        self,
        sample: ListSample,
        oldest_ms: int | None,
        overdue_ms: int | None,
        references: ReferenceBuckets,
        *,
        grows: bool,
        last_ms: int,
    ) -> None:
        limits, at_ms = self._thresholds, sample.at_ms
        idle_ms = at_ms - self._moved_ms if sample.ready else 0
        age_ms = 0 if oldest_ms is None else at_ms - oldest_ms
        unreturned_ms = 0 if overdue_ms is None else at_ms - self._returns.since_ms(overdue_ms)
        leaking_ms = self._returns.limit_ms(limits.leaking_ms) if unreturned_ms else limits.leaking_ms
        growth = self._growth(references, sample, grows=grows)
        self._troubles.judge(
            limits, at_ms, idle_ms, age_ms, growth, last_ms=last_ms, unreturned_ms=unreturned_ms, leaking_ms=leaking_ms
        )

    def _read_age(self, head: list[object]) -> tuple[int | None, str | None]:
        if self._path is None or len(head) < 4:
            return None, None
        if head != self._age_key:
            _, _, _, start = head
            assert isinstance(start, bytes), "the row script returns bytes"
            self._age_key, self._age = head, read_age(start, int(str(head[0])), self._path)
        return self._age

    def _stale_from(
        self,
        sample: ListSample,
        net_s: float | None,
        trend_s: float | None,
        oldest_ms: int | None,
        overdue_ms: int | None,
    ) -> int:
        if net_s != 0 or trend_s != 0 or self._measures_growth(sample, grows=False):
            return 0
        limits = self._thresholds
        due = [FOREVER_MS, *self._troubles.ends_ms(limits.clear_ms)]
        if self._growth_known_ms:
            due += [self._growth_known_ms, self._watched_from_ms + MEASURED_MS]
        if sample.ready:
            due += [self._moved_ms + limits.stalled_ms, (self._taken_ms or 0) + _STEADY_MS]
            due.append(self._moved_ms + DRAIN_SPAN_MS)
        if overdue_ms is not None:
            due.append(self._returns.since_ms(overdue_ms) + self._returns.limit_ms(limits.leaking_ms))
        if oldest_ms is not None:
            due += [oldest_ms + limits.aged_ms, *self._forecast_due_ms(sample, oldest_ms)]
        return min(moment for moment in due if moment > sample.at_ms)


def _broken(ready: int | bytes, hidden: int | bytes | None, leased: int | bytes | None) -> str:
    words = ""
    for error, key, kind in (
        (ready, "its key", "a list"),
        (hidden, "its processing key", "a list"),
        (leased, "its leases key", "a sorted set"),
    ):
        if isinstance(error, bytes) and not words:
            if error.startswith(b"WRONGTYPE"):
                words = f"{key} is not {kind}"
            else:
                words = f"{key} cannot be read: {printable(error.decode('utf-8', 'surrogateescape'), 120)}"
    return words


def _was_taken(before: Row, row: Row) -> bool:
    """Return whether an item was probably taken between two rows.

    If the next two items are equal, a take does not change the next item: then any change of the ready count
    counts as a take, and so does any other change of the list, if the server reports those.
    """
    if row[0] < before[0] or row[1:3] != before[1:3]:
        return True
    head, earlier = row[3], before[3]
    if head is None or earlier is None:
        return False
    if head[:2] != earlier[:2]:
        return True
    are_equal = head[2] > 1 or earlier[2] > 1
    return bool(are_equal and (row[0] != before[0] or head[2] > earlier[2] > 1))


def _digested(row: Row) -> Row:
    """Return a row with a digest of the next item instead of the item: files never contain the content of queues."""
    if row[3] is None:
        return row
    size, mark, equal, *_ = row[3]
    return [*row[:3], [size, sha256(mark).hexdigest(), min(equal, 2)], row[4]]


def _expired(lease: list[object]) -> tuple[int, int | None]:
    """Return how many leases are past their deadline, and the earliest deadline if any are."""
    expired, raw = lease
    assert isinstance(expired, int), "the row script returns an integer"
    assert isinstance(raw, bytes), "the row script returns bytes"
    if not expired:
        return 0, None
    overdue_ms, _ = read_score(raw.decode("latin-1"))
    return expired, None if overdue_ms is None else int(overdue_ms)
