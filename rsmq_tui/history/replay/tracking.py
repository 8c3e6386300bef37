"""One recorded place followed from poll to poll: its snapshots, rates and recent history."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.names import Place, read_name
from rsmq_tui.history.reading import Poll
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.monitor import Connection, Drain, QueueState, Snapshot, Totals, Verdict
from rsmq_tui.monitor.text import clock, printable
from rsmq_tui.monitor.tracking.drain import batches_of, clearly_shrinks, drain_of, drain_rates, falls_from
from rsmq_tui.monitor.tracking.forecast import WAITING_SHARE, Ages, Limit, limit_of
from rsmq_tui.monitor.tracking.place_tracker import RunningTotals
from rsmq_tui.monitor.tracking.series import BUCKET_MS, BUCKETS, FlightTimes, ListSeries, QueueSeries, Rates, Sample
from rsmq_tui.monitor.tracking.tracker import DRAIN_SPAN_MS, RATE_SPAN_MS
from rsmq_tui.monitor.tracking.trend import TotalsPoint, Trend
from rsmq_tui.monitor.tracking.verdicts import Judgement
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.kinds import kind_named
from rsmq_tui.protocol.server.status import ServerInfo

_TEXT_MAX, _PROBLEMS_MAX = 1_000, 100
VERDICTS = frozenset(verdict.value for verdict in Verdict)
_DRAINS = frozenset(drain.value for drain in Drain)
# The columns that are copied to fields of the state unchanged.
_SAME = tuple(name for name in SCHEMAS[SAMPLES].names if name in QueueState._fields)
_TIMES = FlightTimes._fields[1:]
_FLIGHTS = ("queue", "sampled_age_ms", *_TIMES)
_SERIES = ("depth", "ready", "totalsent", "totalrecv", "oldest_ready_waiting_ms")
# The fields that are computed from several polls.
_MEASURED = ("arrivals_s", "deletes_s", "receives_s", "net_s", "drain_s")
# With types: to infer the type of a value, Arrow tries to import dateutil, each time anew where it is not installed.
_ZERO, _UNKNOWN = pa.scalar(0.0, pa.float64()), pa.scalar(None, pa.float64())


def rates_between(then: Poll, now: Poll) -> dict[str, pa.ChunkedArray]:
    """Return rates of the queues of a poll since an earlier one, in messages per second; null if unknown.

    They are null for queues that did not exist then or were recreated. ``grown_s`` is the change of the depth. Deletes
    are the arrivals minus that change; if restored messages make this negative, it is 0.
    """
    at = pc.index_in(now.rows.column("queue"), value_set=then.rows.column("queue").combine_chunks())

    def change(name: str) -> pa.ChunkedArray:
        # Clients may write any number: floats do not overflow.
        before, after = (rows.column(name).cast(pa.float64(), safe=False) for rows in (then.rows, now.rows))
        return pc.subtract(after, before.take(at))

    sent, received, grown = map(change, ("totalsent", "totalrecv", "depth"))
    deleted = pc.max_element_wise(pc.subtract(sent, grown), _ZERO, skip_nulls=False)
    is_same = pc.and_(pc.greater_equal(sent, _ZERO), pc.greater_equal(received, _ZERO))
    # A condition on an unknown number is null, which selects nothing.
    counts = {
        "arrivals_s": pc.if_else(is_same, sent, _UNKNOWN),
        "deletes_s": pc.if_else(is_same, deleted, _UNKNOWN),
        "receives_s": pc.if_else(is_same, received, _UNKNOWN),
        "grown_s": grown,
    }
    elapsed_s = pa.scalar((now.at_ms - then.at_ms) / 1000 or None, pa.float64())
    return {name: pc.divide(count, elapsed_s) for name, count in counts.items()}


def state_of(row: dict[str, Any], poll: Poll, place: str = "") -> QueueState:
    """Return a row of a poll as a queue's state; an unknown verdict becomes broken.

    ``place`` is the label of its place. Columns that are missing, as in files of older versions, are unknown.
    """
    age_ms, waiting_ms = row["oldest_ready_age_ms"], row["oldest_ready_waiting_ms"]
    if waiting_ms is None:
        # Older files have only the age.
        waiting_ms = age_ms
    verdict, broken = _verdict(row)
    if row["drain"] in _DRAINS:
        drain = Drain(row["drain"])
    else:
        # Older files have no drain: only the verdict may imply it.
        pending = row["pending_since_ms"], row["pending_until_ms"]
        drain, _ = drain_of(row["ready"] or 0, None, None, Judgement(verdict, row["since_ms"], *pending))
    drain_s = row.get("drain_s") if drain is Drain.CLEARS else None
    if drain is Drain.CLEARS and drain_s is None:
        drain = Drain.UNKNOWN
    known = {name: row[name] for name in _SAME} | {name: row.get(name) for name in _MEASURED}
    known |= {
        "verdict": verdict,
        "drain": drain,
        "drain_s": drain_s,
        "poison": row["poison"] or 0,
        "highest_rc": row["highest_rc"] or 0,
        "missing": row["missing"] or 0,
        # The recorder made it printable, but another program may have written the file.
        "broken": None if (why := row["broken"] or broken) is None else printable(why, _TEXT_MAX),
        "problems": tuple(printable(problem or "", _TEXT_MAX) for problem in (row["problems"] or ())[:_PROBLEMS_MAX]),
        # Older files do not have it: then a minute without receives may be more.
        "is_idle_longer": row["is_idle_longer"] is not False,
        "is_since_longer": verdict is Verdict.GROWING and row["is_since_longer"] is not False,
    }
    return QueueState(
        name=read_name(row["queue"]),
        times=_times_of(row, poll.at_ms),
        oldest_ready_ms=None if age_ms is None else poll.at_ms - age_ms,
        oldest_ready_due_ms=None if waiting_ms is None else poll.at_ms - waiting_ms,
        place=place,
        **known,
    )


def _times_of(row: dict[str, Any], at_ms: int) -> FlightTimes | None:
    """Return the times of messages in flight of a row; older files have none."""
    age_ms, sampled = row["sampled_age_ms"], row["sampled"]
    return None if age_ms is None or sampled is None else FlightTimes(at_ms - age_ms, *(row[name] for name in _TIMES))


def _verdict(row: dict[str, Any]) -> tuple[Verdict, str | None]:
    """Return a row's verdict, and, if the recorded one is not valid, a sentence about it.

    Older files call a leaking list stalled.
    """
    recorded = row["verdict"]
    if recorded is None:
        return Verdict.BROKEN, "no verdict was recorded"
    if recorded not in VERDICTS:
        return Verdict.BROKEN, f"this version does not know the recorded verdict: {recorded}"
    verdict = Verdict(recorded)
    is_leak = verdict is Verdict.STALLED and row["expired"] and not row["ready"]
    return Verdict.LEAKING if is_leak else verdict, None


# The time span of the charts.
_CHARTS_MS = 600_000
_GAP_MS = 60_000
# Slow polls of short intervals make no gap.
_STALE_MS = 10_000
_NOTHING = Totals()
_OUTAGE_HINT = "the recorder could not reach the server at that time"
_GAP_HINT = "no recorder was running at that time"


@dataclass(frozen=True, slots=True)
class ReplaySpans:
    """The recording interval in ms, and the spans that follow from it.

    ``kept_ms`` is the span that is shown, ``warm_ms`` the span to read before a moment, which includes rates and whole
    buckets, ``gap_ms`` the time without a poll that counts as a gap, and ``stale_ms`` the time without a poll after
    which numbers are old.
    """

    interval_ms: int

    @property
    def kept_ms(self) -> int:
        """The span that is kept."""
        return max(_CHARTS_MS, 4 * self.interval_ms)

    @property
    def warm_ms(self) -> int:
        """The span to read before a moment."""
        return self.kept_ms + max(_GAP_MS, 2 * self.interval_ms)

    @property
    def gap_ms(self) -> int:
        """The time without a poll that is a gap."""
        return max(_GAP_MS, 3 * self.interval_ms)

    @property
    def stale_ms(self) -> int:
        """The time without a poll after which numbers are old."""
        return max(_STALE_MS, 3 * self.interval_ms)


class RecordedTrend(Trend):
    """A trend of ``kept_ms``, in buckets aligned to the clock: the same wherever reading begins."""

    def __init__(self, kept_ms: int) -> None:
        super().__init__()
        self._kept_ms = kept_ms

    def is_due(self, at_ms: int) -> bool:
        """Return whether a new bucket begins."""
        return not self.times_ms or at_ms // BUCKET_MS > self.times_ms[-1] // BUCKET_MS

    def forget_old(self, at_ms: int) -> None:
        """Drop points older than ``kept_ms``."""
        from_ms = at_ms - self._kept_ms
        surplus = next((index for index, time_ms in enumerate(self.times_ms) if time_ms >= from_ms), 0)
        surplus = max(surplus, len(self.times_ms) - BUCKETS)
        if surplus > 0:
            self.forget(surplus)
        while self.totals and self.totals[0].at_ms < from_ms:
            self.totals.popleft()
        self.gaps_ms = [gap_ms for gap_ms in self.gaps_ms if gap_ms > from_ms]

    def copy(self) -> Trend:
        """Return a copy, for screens to draw while this one changes."""
        same = Trend()
        same.times_ms, same.gaps_ms = self.times_ms.copy(), self.gaps_ms.copy()
        same.totals = self.totals.copy()
        same.series = {name: series.copy(same.times_ms) for name, series in self.series.items()}
        return same


class PlaceTrack:
    """Follows a place from poll to poll in chronological order; ``label`` identifies it on the screen."""

    def __init__(self, place: Place, label: str, spans: ReplaySpans) -> None:
        self.last_ms: int | None = None
        self.place = place
        self.label = label
        self._spans = spans
        self._trend = RecordedTrend(spans.kept_ms)
        self._totals = _NOTHING
        self._failure: str | None = None
        # What the server last said of itself since the last gap.
        self._info: ServerInfo | None = None
        # How old the next items of lists were.
        self._ages: dict[str, Ages] = {}
        # The polls since the last gap, as far back as rates need; the last one is the current state of the place.
        self._polls: deque[Poll] = deque()

    @property
    def spans(self) -> ReplaySpans:
        """The spans of this place, which may currently be recorded less often than usual."""
        interval_ms = self._polls[-1].interval_ms if self._polls else None
        local = self._spans if interval_ms is None else ReplaySpans(interval_ms)
        return local if local.gap_ms > self._spans.gap_ms else self._spans

    def add_poll(self, poll: Poll) -> Snapshot:
        """Take a poll, and return the snapshot of the place then, without its queues."""
        at_ms, last_ms = poll.at_ms, self.last_ms
        self.last_ms = at_ms
        if poll.failure is not None:
            self._failure = poll.failure
        else:
            is_gap = last_ms is not None and at_ms - last_ms > self.spans.gap_ms
            if self._failure is not None or is_gap:
                self._trend.resume(at_ms)
                self._polls.clear()
                self._info = None
            self._failure = None
            self._info = poll.info or self._info
            self._polls.append(poll)
            while len(self._polls) > 1 and self._polls[1].at_ms <= at_ms - DRAIN_SPAN_MS:
                self._polls.popleft()
            self._follow(poll)
        return self._snapshot((), self._totals, Trend(), at_ms)

    def is_stale(self, now_ms: int) -> bool:
        """Return whether nothing was recorded for longer than usual before a moment."""
        return self.last_ms is not None and now_ms - self.last_ms > self.spans.stale_ms

    def snapshot(self, now_ms: int, next_ms: int | None = None) -> Snapshot:
        """Return the snapshot at a moment that is not before the last poll; ``next_ms`` is the next poll, if known."""
        if not self._polls:
            return self._snapshot((), _NOTHING, Trend(), now_ms, next_ms)
        poll = self._polls[-1]
        rates = self._rates(RATE_SPAN_MS)
        # Lists have no counters: only the change of their depth is known.
        net_s = pc.if_else(pc.is_null(poll.rows.column("totalsent")), rates.pop("grown_s"), _UNKNOWN)
        rows = poll.rows
        for name, values in {**rates, "net_s": net_s}.items():
            rows = rows.append_column(name, values)
        states = tuple(
            sorted(
                (state_of({**row, "drain_s": self._drain_s(row, poll)}, poll, self.label) for row in rows.to_pylist()),
                key=lambda state: state.name,
            )
        )
        states = tuple(state._replace(limit=self._limit_at(state, poll)) for state in states)
        totals = RunningTotals()
        for state in states:
            totals.replace(None, state)
        return self._snapshot(states, totals.totals(states), self._trend.copy(), now_ms, next_ms)

    def _drain_s(self, row: dict[str, Any], poll: Poll) -> float | None:
        """Return the time in which the queue of a row drains, None if it does not: see ``drain_of``."""
        series = None if row["drain"] != Drain.CLEARS else self._trend.series.get(read_name(row["queue"]))
        reference = self._trend.reference(poll.at_ms, DRAIN_SPAN_MS)
        if series is None or reference is None or row["depth"] is None or row["ready"] is None:
            return None
        counts = row["depth"], row["ready"], row["totalsent"] or 0, row["totalrecv"] or 0
        now = series.sample(poll.at_ms, *counts)
        # Before its creation, the samples are those of another queue. Clients may write any time of that.
        created_ms = row["created_ms"] if (row["created_ms"] or 0) <= poll.at_ms else None
        earlier = [series.at(reference.bucket), *series.between(reference.at_ms, poll.at_ms)]
        samples = [one for one in earlier if one is not None and one.at_ms >= (created_ms or 0)] + [now]
        rates = row["arrivals_s"], row["deletes_s"], row["receives_s"]
        latest = None if None in rates else Rates(*rates)
        shrinks = (row["net_s"] or 0.0) < 0 if latest is None else clearly_shrinks(latest)
        since = falls_from(samples) if shrinks else samples[0]
        recent = now.rates_since(since)
        if latest is not None and recent is not None and drain_rates(recent, latest) is latest:
            net_s = latest.arrivals_s - latest.deletes_s
        else:
            net_s = 1000 * (now.depth - since.depth) / max(1, now.at_ms - since.at_ms)
        drain_s = now.ready / -net_s if net_s < 0 else None
        batches = batches_of(series, max(0, created_ms or 0, *self._trend.gaps_ms[-1:]), now.at_ms)
        if batches is not None and batches.change_s < 0 and (left := batches.left(now.at_ms, drain_s)):
            return left / -batches.change_s
        return drain_s

    def _limit_at(self, state: QueueState, poll: Poll) -> Limit | None:
        """Return the limit that a queue reaches first, as it was live."""
        trend, limits, at_ms, memory = self._trend, poll.thresholds, poll.at_ms, poll.memory_limit
        series, age_ms = trend.series.get(state.name), state.waiting_ms(at_ms)
        is_waiting = age_ms is not None and age_ms >= WAITING_SHARE * limits.aged_ms
        if series is None or state.depth is None or not (limits.depth_limit or is_waiting or memory):
            return None
        reference = trend.reference(at_ms, DRAIN_SPAN_MS)
        then = None if reference is None else series.at(reference.bucket)
        counts = state.depth, state.totalsent or 0, state.totalrecv or 0
        is_still = then is not None and (then.depth, then.totalsent, then.totalrecv) == counts
        if isinstance(series, ListSeries) and state.idle_since_ms is not None:
            # As many may come as go.
            is_still = is_still and at_ms - state.idle_since_ms >= DRAIN_SPAN_MS
        # Clients may write any time of creation.
        created_ms = 0 if state.created_ms is None or state.created_ms > at_ms else state.created_ms
        return limit_of(
            series,
            at_ms,
            max(*trend.times_ms[:1], *trend.gaps_ms[-1:], created_ms),
            depth=state.depth,
            depth_limit=limits.depth_limit,
            age_ms=age_ms,
            age_limit_ms=limits.aged_ms,
            is_still=is_still,
            ages=self._ages.get(state.name),
            memory=memory,
            drain_s=state.drain_s,
        )

    def _rates(self, span_ms: int) -> dict[str, pa.ChunkedArray]:
        """Return the rates over the last ``span_ms``, or since the oldest poll after a gap."""
        now = self._polls[-1]
        before = [poll for poll in self._polls if poll.at_ms <= now.at_ms - span_ms]
        return rates_between(before[-1] if before else self._polls[0], now)

    def _follow(self, poll: Poll) -> None:
        at_ms, rows, trend = poll.at_ms, poll.rows, self._trend
        rates = self._rates(RATE_SPAN_MS)
        depth, ready, hidden = (pc.sum(rows.column(name)).as_py() or 0 for name in ("depth", "ready", "hidden"))
        rated = [pc.sum(rates[name]).as_py() for name in ("arrivals_s", "deletes_s", "receives_s")]
        self._totals = Totals(depth, ready, hidden, *rated)
        trend.add_totals(TotalsPoint(at_ms, ready, hidden, *rated))
        if trend.is_due(at_ms):
            self._open_bucket(at_ms, rows)
        trend.forget_old(at_ms)

    def _open_bucket(self, at_ms: int, rows: pa.Table) -> None:
        trend = self._trend
        names = [read_name(name) for name in rows.column("queue").to_pylist()]
        for name in trend.series.keys() - set(names):
            trend.remove_queue(name)
        for name, kind in zip(names, rows.column("kind").to_pylist(), strict=True):
            if name not in trend.series:
                trend.add_queue(name, QueueSeries if kind_named(kind).counts_arrivals else ListSeries)
        trend.open_bucket(at_ms)
        columns = (rows.column(name).to_pylist() for name in _SERIES)
        known_ages, self._ages = self._ages, {}
        for name, depth, ready, sent, received, waiting_ms in zip(names, *columns, strict=True):
            is_known, series = depth is not None and ready is not None, trend.series[name]
            series.append(Sample(at_ms, depth, ready, sent or 0, received or 0) if is_known else None)
            # Without times in its items, the age of a list is unknown.
            if isinstance(series, ListSeries) and (waiting_ms is not None or ready == 0):
                ages = self._ages[name] = known_ages.get(name, Ages())
                ages.add(at_ms, waiting_ms or 0)
        for row in rows.select(_FLIGHTS).filter(pc.is_valid(rows.column("sampled"))).to_pylist():
            times = _times_of(row, at_ms)
            if times is not None:
                trend.series[read_name(row["queue"])].add_flights(times)

    def _snapshot(
        self, queues: tuple[QueueState, ...], totals: Totals, trend: Trend, now_ms: int, next_ms: int | None = None
    ) -> Snapshot:
        at_ms = self._polls[-1].at_ms if self._polls else None
        return Snapshot(
            at_ms=(self.last_ms or now_ms) if at_ms is None else at_ms,
            server=self.place.server,
            ns=self.place.ns,
            queues=queues,
            totals=totals,
            trend=trend,
            connection=Connection(self._failed(now_ms, next_ms), None if at_ms is None else at_ms / 1000, None),
            interval_s=self.spans.interval_ms / 1000,
            place=self.label,
            info=self._info,
            memory_limit=self._polls[-1].memory_limit if self._polls else None,
        )

    def _failed(self, now_ms: int, next_ms: int | None) -> Failure | None:
        """Return why the last numbers are not of that moment; None if they are."""
        if self._failure is not None:
            return Failure("outage", self._failure, _OUTAGE_HINT)
        if self.last_ms is None:
            return Failure("gap", "nothing was recorded", _GAP_HINT)
        if self.is_stale(now_ms):
            last = clock(self.last_ms)[:8]
            when = f"since {last}" if next_ms is None else f"from {last} to {clock(next_ms)[:8]}"
            return Failure("gap", f"nothing was recorded {when}", _GAP_HINT)
        return None
