"""One recorded place followed from poll to poll: its snapshots and recent history."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rsmq_tui.history.names import Place, read_name
from rsmq_tui.history.reading import Poll
from rsmq_tui.monitor import Drain, Link, QueueState, Snapshot, Thresholds, Totals, Verdict
from rsmq_tui.monitor.rsmq_tracker import DRAIN_SPAN_MS, RATE_SPAN_MS, RunningTotals
from rsmq_tui.monitor.series import (
    BUCKET_MS,
    STILL,
    ListSample,
    ListSeries,
    QueueSeries,
    Rates,
    Reference,
    Sample,
    TotalsPoint,
    Trend,
)
from rsmq_tui.monitor.text import clock, printable
from rsmq_tui.monitor.verdicts import Judgement, drain_of, net_drain_of
from rsmq_tui.protocol import Failure


class QueueHistory:
    """What is remembered of a queue.

    ``idle_from_ms`` is since when messages are ready and none was received, ``growing_from_ms`` since when the recorder
    called it growing; None where that is not so. ``seen_from_ms`` is when it was first read here.
    """

    __slots__ = ("first", "growing_from_ms", "idle_from_ms", "sample", "seen_from_ms", "series")
    sample_type: type[Sample] = Sample

    def __init__(self, series: QueueSeries, at_ms: int) -> None:
        self.series = series
        self.seen_from_ms = at_ms
        self.first: Sample | None = None
        self.sample: Sample | None = None
        self.idle_from_ms: int | None = None
        self.growing_from_ms: int | None = None

    def follow(self, sample: Sample | None, verdict: str) -> None:
        """Take a poll; no sample means that it could not be read."""
        before, self.sample = self.sample, sample
        if sample is None:
            self.first = self.idle_from_ms = self.growing_from_ms = None
            return
        at_ms = sample.at_ms
        if before is None or sample.totalsent < before.totalsent or sample.totalrecv < before.totalrecv:
            # Readable again, or deleted and created again: nothing of the past counts.
            self.first, self.idle_from_ms = sample, None
        elif sample.totalrecv > before.totalrecv:
            self.idle_from_ms = None
        if not sample.ready:
            self.idle_from_ms = None
        elif self.idle_from_ms is None:
            self.idle_from_ms = at_ms
        if verdict != Verdict.GROWING:
            self.growing_from_ms = None
        elif self.growing_from_ms is None:
            self.growing_from_ms = at_ms

    def rates(self, reference: Reference | None) -> Rates | None:
        """Return the rates since that bucket, or since the queue is known."""
        sample, first = self.sample, self.first
        if sample is None or first is None or reference is None:
            return None
        bucket, series = reference.bucket, self.series
        is_still = (
            series.totalsent[bucket] == sample.totalsent
            and series.totalrecv[bucket] == sample.totalrecv
            and series.depth[bucket] == sample.depth
        )
        if is_still and first.at_ms <= reference.at_ms < sample.at_ms:
            # Most queues of most polls.
            return STILL
        earlier = series.at(bucket)
        return sample.rates_since(first if earlier is None or earlier.at_ms < first.at_ms else earlier)

    def net_s(self, reference: Reference | None) -> float | None:
        """Return how the depth changed a second since that bucket, where no rates tell it."""
        return None

    def drain(
        self, state: QueueState, recent: Reference | None, latest: Reference | None
    ) -> tuple[Drain, float | None]:
        """Say whether the ready messages clear, as ``drain_of`` does, by what happened since these buckets."""
        return drain_of(state.ready or 0, self.rates(recent), self.rates(latest), _judged(state))

    def stalled_since_ms(self, thresholds: Thresholds) -> int | None:
        """Return when it began that nothing was received, where that is known."""
        return self.idle_from_ms

    def idles_in(self, row: Mapping[str, Any]) -> bool:
        """Tell whether an earlier row belongs to the time in which nothing was received."""
        return bool(row["ready"]) and self.sample is not None and (row["totalrecv"] or 0) == self.sample.totalrecv


class ListHistory(QueueHistory):
    """What is remembered of a list queue: nothing counts its arrivals and receives.

    So ``idle_from_ms`` is since when the recorder called it stalled, or leaking, whichever ``called`` says.
    """

    __slots__ = ("called",)
    sample_type = ListSample

    def __init__(self, series: QueueSeries, at_ms: int) -> None:
        super().__init__(series, at_ms)
        self.called: str | None = None

    def follow(self, sample: Sample | None, verdict: str) -> None:
        """Take a poll; no sample means that it could not be read."""
        before, self.sample = self.sample, sample
        if sample is None:
            self.first = self.idle_from_ms = self.growing_from_ms = None
            return
        at_ms = sample.at_ms
        if before is None:
            self.first = sample
        is_idle = verdict in (Verdict.STALLED, Verdict.LEAKING)
        self.idle_from_ms = _since(self.idle_from_ms if verdict == self.called else None, at_ms) if is_idle else None
        self.called = verdict
        self.growing_from_ms = _since(self.growing_from_ms, at_ms) if verdict == Verdict.GROWING else None

    def rates(self, reference: Reference | None) -> Rates | None:
        """Return None: what arrived and what was deleted cannot be told apart."""
        return None

    def net_s(self, reference: Reference | None) -> float | None:
        """Return how the depth changed a second since that bucket, or since the queue is known."""
        sample, first = self.sample, self.first
        if sample is None or first is None or reference is None:
            return None
        earlier = self.series.at(reference.bucket)
        return sample.net_since(first if earlier is None or earlier.at_ms < first.at_ms else earlier)

    def drain(
        self, state: QueueState, recent: Reference | None, latest: Reference | None
    ) -> tuple[Drain, float | None]:
        """Say whether the items clear; whether some were taken while the depth stayed the same is not recorded."""
        net_s, latest_s = self.net_s(recent), self.net_s(latest)
        return net_drain_of(state.ready or 0, net_s, latest_s, _judged(state), was_taken=False)

    def stalled_since_ms(self, thresholds: Thresholds) -> int | None:
        """Return when that began for which it was called stalled."""
        return None if self.idle_from_ms is None else self.idle_from_ms - thresholds.stalled_ms

    def idles_in(self, row: Mapping[str, Any]) -> bool:
        """Tell whether an earlier row was called the same."""
        return bool(row["verdict"] == self.called)


def _judged(state: QueueState) -> Judgement:
    return Judgement(state.verdict, state.since_ms, state.pending_since_ms, state.pending_until_ms)


def _since(before_ms: int | None, at_ms: int) -> int:
    return at_ms if before_ms is None else before_ms


_TEXT_MAX, _PROBLEMS_MAX = 1_000, 100
_VERDICTS = frozenset(verdict.value for verdict in Verdict)


def snapshot_of(poll: Poll) -> Snapshot:
    """Return a poll as a snapshot: without rates, trend and outlook, which come from several polls."""
    queues = tuple(sorted((state_of(row, poll) for row in poll.rows.to_pylist()), key=lambda queue: queue.name))
    verdicts: dict[Verdict, int] = {}
    for queue in queues:
        verdicts[queue.verdict] = verdicts.get(queue.verdict, 0) + 1
    oldest = min(
        (queue for queue in queues if queue.ready_since_ms is not None),
        key=lambda queue: queue.ready_since_ms or 0,
        default=None,
    )
    totals = Totals(
        depth=sum(queue.depth or 0 for queue in queues),
        ready=sum(queue.ready or 0 for queue in queues),
        hidden=sum(queue.hidden or 0 for queue in queues),
        oldest=None if oldest is None else oldest.name,
        ready_since_ms=None if oldest is None else oldest.ready_since_ms,
        verdicts=verdicts,
    )
    place = poll.place
    return Snapshot(
        at_ms=poll.at_ms,
        server=place.server,
        ns=place.ns,
        queues=queues,
        totals=totals,
        interval_s=(poll.interval_ms or 0) / 1000,
        notes=() if poll.failure is None else (poll.failure,),
        place=place.profile,
    )


def state_of(row: dict[str, Any], poll: Poll) -> QueueState:
    """Return a row of a poll as a queue's state; one whose verdict is none that is known here is called broken."""
    age_ms, waiting_ms = row["oldest_ready_age_ms"], row["oldest_ready_waiting_ms"]
    if waiting_ms is None:
        # In older files, age is all that is known of it.
        waiting_ms = age_ms
    verdict, broken = _verdict(row)
    return QueueState(
        name=read_name(row["queue"]),
        kind=row["kind"],
        depth=row["depth"],
        ready=row["ready"],
        hidden=row["hidden"],
        oldest_ready_ms=None if age_ms is None else poll.at_ms - age_ms,
        vt_s=row["vt_s"],
        delay_s=row["delay_s"],
        maxsize=row["maxsize"],
        created_ms=row["created_ms"],
        modified_ms=row["modified_ms"],
        totalsent=row["totalsent"],
        totalrecv=row["totalrecv"],
        arrivals_s=None,
        deletes_s=None,
        receives_s=None,
        poison=row["poison"] or 0,
        highest_rc=row["highest_rc"] or 0,
        verdict=verdict,
        since_ms=row["since_ms"],
        drain=Drain.UNKNOWN,
        drain_s=None,
        # Who recorded made it harmless; who wrote the file may be somebody else.
        broken=None if (why := row["broken"] or broken) is None else printable(why, _TEXT_MAX),
        problems=tuple(printable(problem or "", _TEXT_MAX) for problem in (row["problems"] or ())[:_PROBLEMS_MAX]),
        place=poll.place.profile,
        expired=row["expired"],
        oldest_ready_due_ms=None if waiting_ms is None else poll.at_ms - waiting_ms,
        pending_since_ms=row["pending_since_ms"],
        pending_until_ms=row["pending_until_ms"],
        idle_since_ms=row["idle_since_ms"],
        missing=row["missing"] or 0,
        looked=row["looked"],
        looked_all_ms=row["looked_all_ms"],
        # Older files do not say it: then nothing received for a minute means a minute or more.
        is_idle_longer=row["is_idle_longer"] is not False,
    )


def _verdict(row: dict[str, Any]) -> tuple[Verdict, str | None]:
    """Return a row's verdict, and why it is not the recorded one, where that is none.

    Older files say stalled of leases that nobody returns too.
    """
    recorded = row["verdict"]
    if recorded not in _VERDICTS:
        told = (
            ("no verdict was recorded")
            if recorded is None
            else f"this version does not know the recorded verdict: {recorded}"
        )
        return Verdict.BROKEN, told
    verdict = Verdict(recorded)
    is_leak = verdict is Verdict.STALLED and row["expired"] and not row["ready"]
    return Verdict.LEAKING if is_leak else verdict, None


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
        self.queues: dict[str, QueueHistory] = {}
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
                    past_of, series = (ListHistory, ListSeries) if kind == "list" else (QueueHistory, QueueSeries)
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

    def _since_ms(self, state: QueueState, past: QueueHistory) -> int | None:
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
