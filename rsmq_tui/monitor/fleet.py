"""Combines the snapshots of several servers into one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby

from rsmq_tui.monitor.model import Connection, Cost, Snapshot, Totals, Verdict
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.monitor.tracking.trend import TOTALS_COARSE_MS, TotalsPoint, Trend
from rsmq_tui.protocol.kinds import kind_of

_POINT_MS = 1_000
# If the combined time differs by more than this from the time of the server that it follows, it begins anew.
_APART_MS = 60_000


class Fleet:
    """Keeps the last snapshot of each server, and combines them whenever one of them is new.

    If a server does not answer, its last queues stay, its counts stay in the sums, and a note says so. No server waits
    for another. Server clocks may differ: the combined time starts at the first snapshot's, and advances with the
    local clock of ``fresh_at_s``. That clock stands still while this machine sleeps, and the one of the server may be
    set: then the combined time starts again. The memories of an earlier run continue the sums.
    """

    def __init__(self, places: Sequence[str]) -> None:
        self._last: dict[str, Snapshot | None] = dict.fromkeys(places)
        self._trend = Trend()
        # The place whose time is followed, and its time and the local one at the start.
        self._began: tuple[str, int, float] | None = None
        # The sums of earlier runs, by place, and when they were read.
        self._earlier: dict[str, list[TotalsPoint]] = {}
        self._live_from_ms: int | None = None

    def combine(self, snapshot: Snapshot) -> Snapshot:
        """Store the snapshot of one server, and return the combined snapshot."""
        self._last[snapshot.place] = snapshot
        parts = _agreeing([part for part in self._last.values() if part is not None])
        live = [part for part in parts if part.connection.failure is None]
        at_ms = self._time(snapshot)
        totals = _totals(parts, live, at_ms)
        if snapshot.connection.failure is None and snapshot.place not in self._earlier:
            self._continue(snapshot, at_ms)
        points = self._trend.totals
        if live and (not points or at_ms - points[-1].at_ms >= _POINT_MS):
            self._trend.add_totals(
                TotalsPoint(at_ms, totals.ready, totals.hidden, totals.arrivals_s, totals.deletes_s, totals.receives_s)
            )
        return Snapshot(
            at_ms=at_ms,
            server=_servers(parts, len(self._last) - len(parts)),
            ns=_namespaces(parts),
            queues=tuple(chain.from_iterable(part.queues for part in parts)),
            totals=totals,
            trend=self._trend,
            cost=_cost(parts),
            connection=_connection(parts, live),
            interval_s=max(part.interval_s for part in parts),
            paused=all(part.paused for part in parts),
            notes=tuple(_notes(parts, live)),
            parts=parts,
        )

    def _continue(self, snapshot: Snapshot, at_ms: int) -> None:
        """Put the sums of a server's earlier run before those of this one; ``at_ms`` is the combined time."""
        ahead_ms = at_ms - snapshot.at_ms
        earlier = [point for point in snapshot.trend.day_totals if point.at_ms < snapshot.at_ms]
        self._earlier[snapshot.place] = [point._replace(at_ms=point.at_ms + ahead_ms) for point in earlier]
        if self._live_from_ms is None:
            self._live_from_ms = at_ms
        if earlier:
            live = [point for point in self._trend.day_totals if point.at_ms >= self._live_from_ms]
            self._trend.totals.clear()
            self._trend.day.totals.clear()
            for point in (*_summed(self._earlier, self._live_from_ms), *live):
                self._trend.add_totals(point)

    def _time(self, snapshot: Snapshot) -> int:
        fresh_s = max(
            (part.connection.fresh_at_s or 0.0 for part in self._last.values() if part is not None), default=0.0
        )
        connection = snapshot.connection
        if self._began is None and connection.fresh_at_s is not None:
            self._began = snapshot.place, snapshot.at_ms, connection.fresh_at_s
        if self._began is None:
            return snapshot.at_ms
        place, began_ms, began_s = self._began
        ahead_ms = 0
        if place == snapshot.place and connection.failure is None and connection.fresh_at_s is not None:
            ahead_ms = snapshot.at_ms - began_ms - round((connection.fresh_at_s - began_s) * 1000)
        if abs(ahead_ms) <= _APART_MS:
            return began_ms + round((fresh_s - began_s) * 1000)
        self._began = place, began_ms + ahead_ms, began_s
        at_ms = began_ms + ahead_ms + round((fresh_s - began_s) * 1000)
        if ahead_ms > 0:
            self._trend.resume(at_ms)
        else:
            # The times of the sums are later than now.
            self._trend, self._live_from_ms = self._trend.successor(), at_ms
            self._earlier = {name: [] for name in self._earlier}
        return at_ms


def _summed(earlier: Mapping[str, Sequence[TotalsPoint]], until_ms: int) -> Iterator[TotalsPoint]:
    """Yield the sums of several servers before a time, as ``Fleet`` makes them, at most one a second.

    A server counts from its first point on. In a gap its counts stay in the sums; a gap of all is one of the sums.
    """
    first_ms = [points[0].at_ms for points in earlier.values() if points]
    # Servers that were first polled together begin together.
    from_ms = max(at_ms for at_ms in first_ms if at_ms - min(first_ms) <= TOTALS_COARSE_MS)
    counted: dict[str, TotalsPoint] = {}
    rated: dict[str, TotalsPoint] = {}
    points = sorted((point.at_ms, place, point) for place, points in earlier.items() for point in points)
    for _, group in groupby(points, lambda one: one[0] // _POINT_MS):
        at_once = list(group)
        at_ms = at_once[-1][0]
        for _, place, point in at_once:
            if point.ready is None:
                rated.pop(place, None)
            else:
                counted[place] = rated[place] = point
        if not rated:
            yield TotalsPoint(at_ms, None, None, None, None, None)
        elif from_ms <= at_ms < until_ms:
            yield TotalsPoint(
                at_ms,
                sum(point.ready or 0 for point in counted.values()),
                sum(point.hidden or 0 for point in counted.values()),
                _sum(point.arrivals_s for point in rated.values()),
                _sum(point.deletes_s for point in rated.values()),
                _sum(point.receives_s for point in rated.values()),
            )


def _servers(parts: Sequence[Snapshot], unheard: int) -> str:
    """Return the name of the server, or their number; several parts may be of one server."""
    labels = {part.server for part in parts}
    return labels.pop() if len(labels) == 1 and not unheard else plural(len(labels) + unheard, "server")


def _namespaces(parts: Sequence[Snapshot]) -> str:
    names = list(dict.fromkeys(part.ns for part in parts))
    if len(names) == 1:
        return names[0]
    namespaces = [name for name in names if kind_of(name).has_namespaces]
    if len(namespaces) > 1:
        return "several namespaces"
    return " and ".join([*namespaces, *(kind_of(name).label for name in names if name not in namespaces)])


def _totals(parts: Sequence[Snapshot], live: Sequence[Snapshot], at_ms: int) -> Totals:
    verdicts = dict.fromkeys(Verdict, 0)
    for part in live:
        for verdict, number in part.totals.verdicts.items():
            verdicts[verdict] += number
    known = [part for part in parts if part.totals.oldest_ready_due_ms is not None]
    # Server clocks may differ, so compare ages, not times.
    oldest = max(known, key=_waiting_ms, default=None)
    return Totals(
        depth=sum(part.totals.depth for part in parts),
        ready=sum(part.totals.ready for part in parts),
        hidden=sum(part.totals.hidden for part in parts),
        arrivals_s=_sum(part.totals.arrivals_s for part in live),
        deletes_s=_sum(part.totals.deletes_s for part in live),
        receives_s=_sum(part.totals.receives_s for part in live),
        oldest=None if oldest is None else _oldest_name(oldest, parts),
        oldest_ready_due_ms=None if oldest is None else at_ms - _waiting_ms(oldest),
        verdicts=verdicts,
    )


def _oldest_name(oldest: Snapshot, parts: Sequence[Snapshot]) -> str:
    name = oldest.totals.oldest or ""
    return name if len({part.server for part in parts}) == 1 else f"{name} on {oldest.place}"


def _waiting_ms(part: Snapshot) -> int:
    return part.at_ms - (part.totals.oldest_ready_due_ms or 0)


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _agreeing(parts: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Give all parts of a server the same connection if it answers none of them."""
    of_server: dict[str, list[Snapshot]] = {}
    for part in parts:
        of_server.setdefault(part.server, []).append(part)
    shared = {
        server: _connection(same, ())
        for server, same in of_server.items()
        if len(same) > 1 and all(part.connection.failure is not None for part in same)
    }
    if not shared:
        return tuple(parts)
    return tuple(replace(part, connection=shared.get(part.server, part.connection)) for part in parts)


def _cost(parts: Sequence[Snapshot]) -> Cost:
    return Cost(
        round_trip_ms=max(part.cost.round_trip_ms for part in parts),
        poll_ms=max(part.cost.poll_ms for part in parts),
        bytes=sum(part.cost.bytes for part in parts),
        commands=sum(part.cost.commands for part in parts),
    )


def _connection(parts: Sequence[Snapshot], live: Sequence[Snapshot]) -> Connection:
    """Return a connection that fails only if every server does; other failures are in the notes."""
    fresh = [part.connection.fresh_at_s for part in parts if part.connection.fresh_at_s is not None]
    again = [part.connection.retry_at_s for part in parts if part.connection.retry_at_s is not None]
    failure = None if live else parts[0].connection.failure
    return Connection(failure, max(fresh, default=None), min(again, default=None) if failure else None)


def _notes(parts: Sequence[Snapshot], live: Sequence[Snapshot]) -> Iterable[str]:
    # The failure of the only server is that of the connection.
    has_others = bool(live) or len({part.server for part in parts}) > 1
    for part in parts:
        place = printable(part.place, 40)
        if part.connection.failure is not None and has_others:
            yield f"{place} is stale ({part.connection.failure.sentence})"
        yield from (f"{place}: {note}" for note in part.notes)
