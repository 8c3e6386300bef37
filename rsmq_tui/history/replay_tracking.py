"""One recorded place followed from poll to poll: the recent past that rates, charts and `since` are made from."""

from collections import deque
from dataclasses import dataclass

from rsmq_tui.history.names import read_name
from rsmq_tui.history.place import Place
from rsmq_tui.history.reading import Poll
from rsmq_tui.history.replay_past import ListPast, QueuePast
from rsmq_tui.history.snapshots import state_of
from rsmq_tui.monitor import Drain, Link, QueueState, Snapshot, Thresholds, Totals, Verdict
from rsmq_tui.monitor.sampler import DRAIN_SPAN_MS, RATE_SPAN_MS
from rsmq_tui.monitor.series import BUCKET_MS, ListSeries, QueueSeries, Reference, TotalsPoint, Trend
from rsmq_tui.monitor.summing import RunningTotals
from rsmq_tui.monitor.wording import clock
from rsmq_tui.protocol import Failure

# What the charts show.
_CHARTS_MS = 600_000
_GAP_MS = 60_000
_NOTHING = Totals()
_OUTAGE_HINT = "the recorder could not reach the server at that time"
_GAP_HINT = "no recorder was running at that time"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often was recorded, in ms, and what follows from it.

    ``kept_ms`` is how much of the past is shown, ``warm_ms`` how much more has to be read for its rates, and after
    ``gap_ms`` without a poll nothing was recorded.
    """

    interval_ms: int

    @property
    def kept_ms(self) -> int:
        """How much of the past is kept."""
        return max(_CHARTS_MS, 4 * self.interval_ms)

    @property
    def warm_ms(self) -> int:
        """How much has to be read before a moment."""
        return self.kept_ms + max(_GAP_MS, 2 * self.interval_ms)

    @property
    def gap_ms(self) -> int:
        """The time without a poll that is a gap."""
        return max(_GAP_MS, 3 * self.interval_ms)


class RecordedTrend(Trend):
    """A past of so many ms, in buckets whose bounds are the clock's: the same wherever one begins to read."""

    def __init__(self, kept_ms: int) -> None:
        super().__init__()
        self._kept_ms = kept_ms

    def is_due(self, at_ms: int) -> bool:
        """Tell whether a new bucket begins."""
        return not self.times_ms or at_ms // BUCKET_MS > self.times_ms[-1] // BUCKET_MS

    def forget_old(self, at_ms: int) -> None:
        """Drop what is too long ago."""
        from_ms = at_ms - self._kept_ms
        surplus = next((index for index, time_ms in enumerate(self.times_ms) if time_ms >= from_ms), 0)
        if surplus:
            del self.times_ms[:surplus]
            for series in self.series.values():
                series.forget(surplus)
        while self.totals and self.totals[0].at_ms < from_ms:
            self.totals.popleft()
        self.gaps_ms = [gap_ms for gap_ms in self.gaps_ms if gap_ms > from_ms]

    def copy(self) -> Trend:
        """Return it as it is now, for those who draw while this one goes on."""
        same = Trend()
        same.times_ms, same.gaps_ms = self.times_ms.copy(), self.gaps_ms.copy()
        same.totals = deque(self.totals, self.totals.maxlen)
        for name, series in self.series.items():
            copied = same.series[name] = type(series)([])
            copied.times_ms = same.times_ms
            copied.depth, copied.ready = series.depth[:], series.ready[:]
            copied.totalsent, copied.totalrecv = series.totalsent[:], series.totalrecv[:]
        return same


class PlaceTrack:
    """Follows a place through its polls, in the order of their times; ``label`` tells it from others on the screen."""

    def __init__(self, place: Place, label: str, thresholds: Thresholds, pace: Pace) -> None:
        self.queues: dict[str, QueuePast] = {}
        self.poll: Poll | None = None
        self.last_ms: int | None = None
        self._place = place
        self.label = label
        self._thresholds = thresholds
        self._pace = pace
        self._trend = RecordedTrend(pace.kept_ms)
        self._totals = _NOTHING
        self._failure: str | None = None

    @property
    def pace(self) -> Pace:
        """How often this place is recorded just now, where that is less often than usual."""
        interval_ms = None if self.poll is None else self.poll.interval_ms
        local = self._pace if interval_ms is None else Pace(interval_ms)
        return local if local.gap_ms > self._pace.gap_ms else self._pace

    def take(self, poll: Poll) -> Snapshot:
        """Take a poll, and return what is known of the place then, without its queues."""
        at_ms, last_ms = poll.at_ms, self.last_ms
        self.last_ms = at_ms
        if poll.failure is not None:
            self._failure = poll.failure
        else:
            is_gap = last_ms is not None and at_ms - last_ms > self.pace.gap_ms
            if self._failure is not None or is_gap:
                self._trend.resume(at_ms)
            self._failure = None
            self.poll = poll
            self._follow(poll)
        return self._snapshot((), self._totals, Trend(), at_ms)

    def snapshot(self, now_ms: int) -> Snapshot:
        """Return what is known at that moment, which is at or after the last poll."""
        poll = self.poll
        if poll is None:
            return self._snapshot((), _NOTHING, Trend(), now_ms)
        rate_from, drain_from = self._reference(RATE_SPAN_MS), self._reference(DRAIN_SPAN_MS)
        totals = RunningTotals()
        totals.begin()
        states = sorted(
            (self._state(row, poll, rate_from, drain_from) for row in poll.rows.to_pylist()), key=lambda it: it.name
        )
        for state in states:
            totals.replace(None, state)
        return self._snapshot(tuple(states), totals.totals(states), self._trend.copy(), now_ms)

    def _follow(self, poll: Poll) -> None:
        at_ms, rows, trend = poll.at_ms, poll.rows, self._trend
        names = rows.column("queue").to_pylist()
        is_due = trend.is_due(at_ms)
        reference = self._reference(RATE_SPAN_MS)
        if len(names) != len(self.queues) or not all(map(self.queues.__contains__, names)):
            for name in self.queues.keys() - set(names):
                del self.queues[name]
                trend.remove_queue(read_name(name))
            for name, kind in zip(names, rows.column("kind").to_pylist(), strict=True):
                if name not in self.queues:
                    past_of, series = (ListPast, ListSeries) if kind == "list" else (QueuePast, QueueSeries)
                    self.queues[name] = past_of(trend.add_queue(read_name(name), series), at_ms)
        columns = (rows.column(name).to_pylist() for name in ("depth", "ready", "totalsent", "totalrecv", "verdict"))
        ready_sum = depth_sum = 0
        arrivals_s = deletes_s = receives_s = 0.0
        is_measured = False
        for name, depth, ready, sent, received, verdict in zip(names, *columns, strict=True):
            past = self.queues[name]
            depth_sum += depth or 0
            ready_sum += ready or 0
            is_known = depth is not None and ready is not None
            sample_of = past.sample_type
            past.follow(sample_of(at_ms, depth, ready, sent or 0, received or 0) if is_known else None, verdict)
            rates = past.rates(reference)
            if rates is not None:
                is_measured = True
                arrivals_s += rates.arrivals_s
                deletes_s += rates.deletes_s
                receives_s += rates.receives_s
        rated = (arrivals_s, deletes_s, receives_s) if is_measured else (None, None, None)
        hidden_sum = sum(hidden or 0 for hidden in rows.column("hidden").to_pylist())
        self._totals = Totals(depth_sum, ready_sum, hidden_sum, *rated)
        if is_due:
            trend.open_bucket(at_ms)
            for past in self.queues.values():
                past.series.append(past.sample)
        trend.totals.append(TotalsPoint(at_ms, ready_sum, hidden_sum, *rated))
        trend.forget_old(at_ms)

    def _reference(self, span_ms: int) -> Reference | None:
        return None if self.poll is None else self._trend.reference(self.poll.at_ms, span_ms)

    def _state(
        self, row: dict[str, object], poll: Poll, rate_from: Reference | None, drain_from: Reference | None
    ) -> QueueState:
        state = state_of(row, poll)
        past = self.queues[str(row["queue"])]
        rates = past.rates(rate_from)
        is_broken = past.sample is None
        drain, drain_s = (Drain.UNKNOWN, None) if is_broken else past.drain(state, drain_from, rate_from)
        arrivals_s, deletes_s, receives_s = rates or (None, None, None)
        return state._replace(
            arrivals_s=arrivals_s,
            deletes_s=deletes_s,
            receives_s=receives_s,
            since_ms=self._since_ms(state, past) if state.since_ms is None else state.since_ms,
            drain=drain,
            drain_s=drain_s,
            place=self.label,
            net_s=past.net_s(rate_from),
        )

    def _since_ms(self, state: QueueState, past: QueuePast) -> int | None:
        """Return when the condition of the recorder's verdict began, from polls: older files do not say it."""
        match state.verdict:
            case Verdict.STALLED | Verdict.LEAKING:
                return past.stalled_since_ms(self._thresholds)
            case Verdict.GROWING if past.growing_from_ms is not None:
                return past.growing_from_ms - self._thresholds.growing_ms
            case Verdict.AGED if state.oldest_ready_due_ms is not None:
                return state.oldest_ready_due_ms + self._thresholds.aged_ms
        return None

    def _snapshot(self, queues: tuple[QueueState, ...], totals: Totals, trend: Trend, now_ms: int) -> Snapshot:
        poll = self.poll
        fresh_at_s = None if poll is None else poll.at_ms / 1000
        return Snapshot(
            at_ms=(self.last_ms or now_ms) if poll is None else poll.at_ms,
            server=self._place.server,
            ns=self._place.ns,
            queues=queues,
            totals=totals,
            trend=trend,
            link=Link(self._failed(now_ms), fresh_at_s, None),
            interval_s=self.pace.interval_ms / 1000,
            place=self.label,
        )

    def _failed(self, now_ms: int) -> Failure | None:
        """Say why the last numbers are not those of that moment, where they are not."""
        if self._failure is not None:
            return Failure("outage", self._failure, _OUTAGE_HINT)
        if self.last_ms is None:
            return Failure("gap", "nothing was recorded", _GAP_HINT)
        if now_ms - self.last_ms > self.pace.gap_ms:
            return Failure("gap", f"nothing was recorded since {clock(self.last_ms)[:8]}", _GAP_HINT)
        return None
