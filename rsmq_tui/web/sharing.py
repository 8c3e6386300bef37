"""Snapshots of one process for others: first in full, then the changes of each poll.

A snapshot refers to an hour of every queue, to which polls add one bucket every few seconds: sending all of it would
cost more than polling. Both ends are processes of one program, so the messages are pickled.
"""

import pickle
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import isnan
from typing import NamedTuple

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.model import Changes, QueueState
from rsmq_tui.monitor.tracking.series import FlightTimes, QueueSeries, TotalsPoint, Trend

_NO_TREND = Trend()


class _TrendNews(NamedTuple):
    """The additions of a poll to a ``Trend``.

    ``removed`` and ``added`` are queues, the latter with their kind of series. ``bucket`` is the time of a new bucket,
    and depth, ready, totalsent and totalrecv of each queue in it, in the order of the series. ``changes`` and
    ``flights`` are sent with a bucket.
    """

    gaps_ms: list[int]
    removed: list[str]
    added: list[tuple[str, type[QueueSeries]]]
    bucket: "tuple[int, list[array[float]]] | None"
    totals: list[TotalsPoint]
    changes: Mapping[str, list[int]]
    flights: Mapping[str, list[FlightTimes]]


class _News(NamedTuple):
    """A snapshot without its queues and its trend, and the changes in these.

    ``states`` are those of ``indexes``, or of all queues if that is None.
    """

    snapshot: Snapshot
    indexes: Sequence[int] | None
    states: Sequence[QueueState]
    trend: _TrendNews


class SnapshotSender:
    """Makes the messages for all receivers of one place: each gets ``full`` first, then every ``take``."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._names: list[str] = []
        self._bucket_ms: int | None = None
        self._totals_ms = 0
        self._gaps_ms: list[int] = []

    def full(self) -> bytes | None:
        """Return the last snapshot as a message, None before the first one."""
        return None if self._last is None else pickle.dumps(replace(self._last, changes=None), pickle.HIGHEST_PROTOCOL)

    def take(self, snapshot: Snapshot) -> bytes:
        """Take the next snapshot, and return the message for receivers of the previous one."""
        last, self._last = self._last, snapshot
        news = None if last is None or last.trend is not snapshot.trend else self._news(last, snapshot)
        self._note(snapshot.trend)
        if news is None:
            return self.full() or b""
        return pickle.dumps(news, pickle.HIGHEST_PROTOCOL)

    def _note(self, trend: Trend) -> None:
        self._names = list(trend.series)
        self._bucket_ms = trend.times_ms[-1] if trend.times_ms else None
        self._totals_ms = trend.totals[-1].at_ms if trend.totals else 0
        self._gaps_ms = trend.gaps_ms

    def _news(self, last: Snapshot, snapshot: Snapshot) -> _News | None:
        """Return the changes; None if they do not follow from what was sent before."""
        trend = self._trend_news(snapshot.trend)
        if trend is None:
            return None
        indexes: Sequence[int] | None = None
        queues, changes = snapshot.queues, snapshot.changes
        if changes is not None and changes.before is last.queues:
            indexes = changes.indexes
        elif queues is last.queues:
            indexes = ()
        states = queues if indexes is None else [queues[index] for index in indexes]
        return _News(replace(snapshot, queues=(), trend=_NO_TREND, changes=None), indexes, states, trend)

    def _trend_news(self, trend: Trend) -> _TrendNews | None:
        times_ms, series = trend.times_ms, trend.series
        newest_ms = times_ms[-1] if times_ms else None
        has_bucket = newest_ms != self._bucket_ms
        if has_bucket and self._bucket_ms != (times_ms[-2] if len(times_ms) > 1 else None):
            # The memory of an earlier run was restored.
            return None
        names = list(series)
        removed = [] if names == self._names else [name for name in self._names if name not in series]
        known = frozenset() if names == self._names else frozenset(self._names)
        added = [] if names == self._names else [(name, type(series[name])) for name in names if name not in known]
        since_ms = self._bucket_ms or 0
        bucket, changes, flights = None, {}, {}
        if has_bucket and newest_ms is not None:
            columns = ("depth", "ready", "totalsent", "totalrecv")
            bucket = newest_ms, [array("d", (getattr(each, name)[-1] for each in series.values())) for name in columns]
            changes = {
                name: [at_ms for at_ms in each.changed_ms if at_ms > since_ms]
                for name, each in series.items()
                if each.changed_ms and each.changed_ms[-1] > since_ms
            }
            flights = {
                name: each.flights.since(since_ms + 1)
                for name, each in series.items()
                if each.flights and each.flights[-1].at_ms > since_ms
            }
        totals = list(takewhile(lambda point: point.at_ms > self._totals_ms, reversed(trend.totals)))[::-1]
        gaps_ms = trend.gaps_ms if trend.gaps_ms != self._gaps_ms else []
        return _TrendNews(gaps_ms, removed, added, bucket, totals, changes, flights)


class SnapshotReceiver:
    """Converts the messages of a ``SnapshotSender`` to snapshots."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None

    def take(self, message: bytes) -> Snapshot:
        """Return the snapshot of the next message."""
        news: Snapshot | _News = pickle.loads(message)
        if isinstance(news, Snapshot):
            self._last = news
        elif self._last is not None:
            self._last = _applied(self._last, news)
        else:
            raise RuntimeError("a change without the snapshot before it")
        return self._last

    def follow(self, names: Sequence[str]) -> None:
        """Keep a day of these queues, rather than of those that were followed longest ago."""
        if self._last is not None:
            self._last.trend.follow(names)


def _applied(last: Snapshot, news: _News) -> Snapshot:
    _apply(last.trend, news.trend)
    if news.indexes is None:
        return replace(news.snapshot, trend=last.trend, queues=tuple(news.states))
    queues = last.queues
    if news.indexes:
        states = list(queues)
        for index, state in zip(news.indexes, news.states, strict=True):
            states[index] = state
        queues = tuple(states)
    return replace(news.snapshot, trend=last.trend, queues=queues, changes=Changes(last.queues, news.indexes))


def _apply(trend: Trend, news: _TrendNews) -> None:
    """Apply the sampler's steps to this trend, in the same order."""
    trend.gaps_ms = news.gaps_ms or trend.gaps_ms
    for name, kind in news.added:
        trend.add_queue(name, kind)
    for name in news.removed:
        trend.remove_queue(name)
    for name, changed_ms in news.changes.items():
        for at_ms in changed_ms:
            trend.series[name].note_change(at_ms)
    if news.bucket is not None:
        at_ms, columns = news.bucket
        trend.open_bucket(at_ms)
        for series, *counters in zip(trend.series.values(), *columns, strict=True):
            series.append(None if isnan(counters[0]) else series.sample(at_ms, *counters))
    for point in news.totals:
        trend.add_totals(point)
    for name, samples in news.flights.items():
        for times in samples:
            trend.series[name].add_flights(times)
