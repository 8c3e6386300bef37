"""From the rows of a poll to the states of RSMQ queues: totals, heads, and the inputs of the verdicts."""

from typing import Any, NamedTuple

from rsmq_tui.monitor.messages.peek import NO_BODY, Look
from rsmq_tui.monitor.messages.reading import Attributes, read_attributes, read_id, read_score, read_total
from rsmq_tui.monitor.model import Drain, QueueState, Verdict
from rsmq_tui.monitor.text import plural
from rsmq_tui.monitor.tracking.drain import clearly_shrinks, drain_of
from rsmq_tui.monitor.tracking.series import STILL, Rates, Sample, or_none, or_unknown
from rsmq_tui.monitor.tracking.tracker import BROKEN, FOREVER_MS, MEASURED_MS, RATE_SPAN_MS, ReferenceBuckets, Tracker
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.monitor.tracking.verdicts import OK, Judgement, Thresholds
from rsmq_tui.protocol import TIME_FROM, Row
from rsmq_tui.protocol.kinds import RSMQ

_DIGITS_MAX = 15
# The number of elements in the row of a queue that holds messages; one more if the first message has no body.
_WHOLE_ROW = 5


class _Head(NamedTuple):
    """The first message: its id and score, when it was sent, when it became due, and the problems of id and score."""

    id: bytes | None = None
    score: bytes | None = None
    sent_ms: int | None = None
    due_ms: int | None = None
    problems: tuple[str, ...] = ()


_NO_HEAD = _Head()


# What a row says of a queue that can be read: depth, hidden, totalsent, totalrecv, when its first message was sent and
# became due if it is ready, and the problems.
_Read = tuple[int, int, int | None, int | None, int | None, int | None, tuple[str, ...]]


class RsmqTracker(Tracker):
    """Turns the rows of an RSMQ queue into states.

    Until ``stale_from_ms`` an unchanged row costs one comparison, so 10,000 quiet queues are cheap. The rates of a
    queue that does not change are computed again when they begin at a later bucket, not in each poll.
    """

    NUMBERS = 15
    __slots__ = (
        "_attributes",
        "_began_ms",
        "_created_ms",
        "_head",
        "_last_receive_ms",
        "_read",
        "_ready_since_ms",
        "_receives_known_ms",
    )
    look: Look

    def __init__(self, name: str, trend: Trend, thresholds: Thresholds, place: str = "") -> None:
        super().__init__(name, trend.add_queue(name), thresholds, place)
        self.look = Look()
        self._attributes = Attributes()
        # What ``row`` says, or why the queue cannot be read.
        self._read: _Read | str = ""
        self._head = _NO_HEAD
        self._last_receive_ms = 0
        self._ready_since_ms: int | None = None
        # When it will be known whether consumers receive the messages that were ready before monitoring; 0 if known.
        self._receives_known_ms = 0
        # When monitoring of the queue began; 0 if an earlier run monitored it.
        self._began_ms = 0
        # When the queue was created, empty, if that is less than ``growing_ms`` ago.
        self._created_ms: int | None = None

    def update(self, row: Row, at_ms: int, references: ReferenceBuckets) -> QueueState:
        """Return the state after a poll's row."""
        if row is not self.row:
            self._read = self._read_row(row, at_ms)
            self.row = row
        read = self._read
        if isinstance(read, str):
            self.sample = self._first = None
            self.stale_from_ms = FOREVER_MS
            self.state = self._broken_state(read, row[1])
            return self.state
        depth, hidden, totalsent, totalrecv, sent_ms, due_ms, problems = read
        ready = depth - hidden
        sample = Sample(at_ms, depth, ready, totalsent or 0, totalrecv or 0)
        last_ms = 0 if self.sample is None else self.sample.at_ms
        self._follow(sample, due_ms, never_received=totalrecv == 0)
        earlier, before_trend = self._rates_from(references, sample)
        rates, trend = sample.rates_since(earlier), sample.rates_since(before_trend)
        grows = self._grows(earlier, sample, rates)
        measured_ms = at_ms - earlier.at_ms
        growth_known_ms = self._growth_known(sample, measured_ms, grows=grows) if self._growth_known_ms else 0
        idle_since_ms = self._idle_since_ms()
        idle_ms = 0 if idle_since_ms is None else at_ms - idle_since_ms
        waiting_ms = 0 if due_ms is None else at_ms - due_ms
        growth = self._growth(references, sample, grows=grows, created_ms=self._created_ms)
        poison = self.look.found.poison
        self._troubles.judge(self._thresholds, at_ms, idle_ms, waiting_ms, growth, last_ms=last_ms, poison=poison)
        if depth and len(row) > _WHOLE_ROW:
            self.look.note_headless(at_ms)
        found = self.look.found
        bodiless = _bodiless(found.missing, depth) if found.missing else None
        judged = Judgement(Verdict.BROKEN) if bodiless else self._verdict(at_ms, waiting_ms, growth_known_ms)
        drain, drain_s = self._drain(before_trend, sample, trend, rates, judged)
        is_still = rates == trend == STILL
        limit = self._limit_at(sample, due_ms, is_still=is_still, drain_s=drain_s)
        measures_growth = self._measures_growth(sample, grows=grows)
        until_ms = self._rates_until_ms(references, measured_ms, is_still=is_still, measures_growth=measures_growth)
        self.stale_from_ms = self._stale_from(sample, due_ms, until_ms, is_still=is_still) if until_ms > at_ms else 0
        attributes = self._attributes
        arrivals_s, deletes_s, receives_s = rates or (None, None, None)
        # By position, as names would take three times as long: this is done for each queue that changes.
        self.state = QueueState(
            self._name,
            RSMQ.name,
            depth,
            ready,
            hidden,
            sent_ms,
            attributes.vt_s,
            attributes.delay_s,
            attributes.maxsize,
            attributes.created_ms,
            attributes.modified_ms,
            totalsent,
            totalrecv,
            arrivals_s,
            deletes_s,
            receives_s,
            found.poison,
            found.highest_rc,
            judged.verdict,
            judged.since_ms,
            drain,
            drain_s,
            bodiless,
            problems,
            self._place,
            None,
            None,
            due_ms,
            judged.pending_since_ms,
            judged.pending_until_ms,
            idle_since_ms,
            found.missing,
            found.looked,
            found.looked_all_ms,
            self._is_idle_longer,
            self.look.times if hidden else None,
            limit,
            judged.since_depth,
            judged.is_since_longer,
        )
        return self.state

    def _verdict(self, at_ms: int, waiting_ms: int, growth_known_ms: int) -> Judgement:
        limits, troubles = self._thresholds, self._troubles
        # Consumers receive the first message first: while it has waited for less than that, the queue is not stalled.
        known_ms = growth_known_ms if waiting_ms < limits.stalled_ms else max(growth_known_ms, self._receives_known_ms)
        if known_ms <= at_ms and not troubles.episodes:
            return OK
        return troubles.verdict(at_ms, limits.clear_ms, self._watched_from_ms, known_ms)

    def _rates_until_ms(
        self, references: ReferenceBuckets, measured_ms: int, *, is_still: bool, measures_growth: bool
    ) -> int:
        """Return until when the rates of a queue that does not change stay the same."""
        if is_still and not measures_growth:
            self._earlier = self._grown = self._fallen = self._batched = None
            return FOREVER_MS
        if measured_ms < RATE_SPAN_MS:
            # Those over a shorter span change with each poll.
            return 0
        # Growth depends on the buckets of longer spans too.
        used = references if measures_growth else references[:1]
        return min(one.until_ms for one in used if one is not None)

    def _grows(self, earlier: Sample, sample: Sample, rates: Rates | None) -> bool:
        is_more = rates is not None and rates.arrivals_s > rates.deletes_s
        return is_more and self._backlog_since(earlier, sample) > 0

    def _drain(
        self, earlier: Sample, sample: Sample, trend: Rates | None, rates: Rates | None, judged: Judgement
    ) -> tuple[Drain, float | None]:
        """Return what ``drain_of`` does, by the rates since an earlier sample, or since the queue began to fall.

        Of a queue that drains over several batches, they are those of whole batches.
        """
        # Fast path: most queues neither grow nor shrink.
        if rates is not None and clearly_shrinks(rates):
            trend = sample.rates_since(self._falls_from(earlier, sample))
        backlog_s = None
        if trend is not None and trend.arrivals_s > trend.deletes_s:
            backlog_s = 1000 * self._backlog_since(earlier, sample) / (sample.at_ms - earlier.at_ms)
        found = drain_of(sample.ready, trend, rates, judged, self._thresholds, backlog_s)
        # If nothing moved for a minute, it is not known when something will.
        batches = None if trend == STILL else self._batches(sample)
        if batches is None or not (left := batches.left(sample.at_ms, found[1])):
            return found
        whole = batches.last.rates_since(batches.first)
        return drain_of(left, whole, whole, judged, self._thresholds)

    def _remember(self) -> tuple[int, ...]:
        found = self.look.found
        return (
            or_unknown(self._attributes.created_ms),
            self._last_receive_ms,
            or_unknown(self._ready_since_ms),
            self._receives_known_ms,
            found.poison,
            found.highest_rc,
            or_unknown(found.looked),
            or_unknown(found.looked_all_ms),
        )

    def _restore(self, numbers: list[int], more: Any) -> None:
        created_ms, last_receive_ms, ready_since_ms, receives_known_ms, poison, highest_rc, looked, looked_all_ms = (
            numbers
        )
        self._troubles.restore(more or [])
        self._attributes = Attributes(created_ms=or_none(created_ms))
        self._last_receive_ms, self._ready_since_ms = last_receive_ms, or_none(ready_since_ms)
        self._receives_known_ms = receives_known_ms
        if poison:
            self.look = Look.after(poison, highest_rc, or_none(looked), or_none(looked_all_ms))

    def _read_row(self, row: Row, at_ms: int) -> _Read | str:
        """Return what a row says, or why the queue cannot be read; stores its attributes."""
        fields, depth = row[0], row[1]
        broken = self._broken(fields, depth)
        if broken is not None:
            return broken
        problems: list[str] = []
        totalsent = _total("totalsent", fields[5], problems)
        totalrecv = _total("totalrecv", fields[6], problems)
        hidden = row[4] if depth else 0
        head = self._read_head(row, at_ms) if depth else _NO_HEAD
        sent_ms, due_ms = (head.sent_ms, head.due_ms) if depth > hidden else (None, None)
        all_problems = (*self._attributes.problems, *problems, *head.problems)
        return depth, hidden, totalsent, totalrecv, sent_ms, due_ms, all_problems

    def _broken(self, fields: list[bytes | None] | bytes, depth: int | bytes) -> str | None:
        """Return why a queue cannot be read, or store its attributes and return None."""
        if isinstance(fields, bytes):
            self._attributes = Attributes()
            return "its attributes key is not a hash"
        attributes = fields[:5]
        if self.row is None or attributes != self.row[0][:5]:
            known, self._attributes = self._attributes, read_attributes(attributes)
            self._has_delay = bool(self._attributes.delay_s)
            if self._attributes.created_ms != known.created_ms:
                # Deleted and created again, or new.
                self._first = None
        if isinstance(depth, bytes):
            return "its messages key is not a sorted set"
        if self._attributes.broken is None:
            return None
        if not any(fields):
            return (
                f"it holds {depth:,} message ids but its attributes hash is gone: clients report queueNotFound"
                if depth
                else "it is listed but has no keys: clients report queueNotFound"
            )
        return self._attributes.broken

    def _broken_state(self, broken: str, depth: int | bytes) -> QueueState:
        attributes = self._attributes
        return BROKEN._replace(
            name=self._name,
            kind=RSMQ.name,
            place=self._place,
            broken=broken,
            depth=depth if isinstance(depth, int) else None,
            vt_s=attributes.vt_s,
            delay_s=attributes.delay_s,
            maxsize=attributes.maxsize,
            created_ms=attributes.created_ms,
            modified_ms=attributes.modified_ms,
            problems=attributes.problems,
        )

    def _follow(self, sample: Sample, due_ms: int | None, *, never_received: bool) -> None:
        """Update the times that verdicts depend on."""
        before, at_ms = self.sample, sample.at_ms
        self.sample = sample
        # The undo of a send lowers a counter too; a queue that this program creates again has another creation time.
        has_fallen = before is not None and (sample.totalsent < before.totalsent or sample.totalrecv < before.totalrecv)
        if self._first is None or before is None or (has_fallen and not self.own_change_ms):
            self._begin(sample, due_ms, never_received=never_received)
            return
        was_received = sample.totalrecv > before.totalrecv
        if was_received:
            self._last_receive_ms = at_ms
            self._receives_known_ms = 0
            self._is_idle_longer = False
        if self._ready_since_ms is not None and self._ready_since_ms < self._began_ms and due_ms is not None:
            self._forget_gone_head(self._ready_since_ms, due_ms)
        if not sample.ready:
            self._ready_since_ms = None
            self._receives_known_ms = 0
            self._is_idle_longer = False
        elif self._ready_since_ms is None:
            self._ready_since_ms = at_ms
        if self._is_resumed:
            self._is_resumed = False
            self._watch_from(at_ms, has_grown=sample.depth >= before.depth)
            # It grew during the outage or before, which says nothing about now.
            self._created_ms = None
            # A receive happened during the outage, at an unknown time.
            self._receives_known_ms = at_ms + self._thresholds.stalled_ms if was_received and sample.ready else 0
            if self._idle_since_ms() == at_ms:
                self._is_idle_longer = True

    def _begin(self, sample: Sample, due_ms: int | None, *, never_received: bool) -> None:
        """Start afresh with a queue that is new, readable again, or recreated: earlier samples do not count.

        In a queue without any receive, a ready message has waited since it became due, or since the queue was created:
        older messages may have been moved there. Otherwise the time of the last receive is unknown: it may be just now,
        although the first message has waited, because others were before it.
        """
        at_ms, limits, created_ms = sample.at_ms, self._thresholds, self._attributes.created_ms
        self._begin_at(sample)
        self._is_resumed = False
        self.look = Look()
        self._troubles.forget()
        is_new = created_ms is not None and at_ms - limits.growing_ms < created_ms <= at_ms
        self._created_ms = created_ms if is_new else None
        self._watch_from(at_ms if self._created_ms is None else self._created_ms)
        self._receives_known_ms = 0
        self._is_idle_longer = False
        self._began_ms = at_ms
        self._ready_since_ms = at_ms if sample.ready else None
        if due_ms is not None and never_received:
            created_ms = 0 if created_ms is None or created_ms > at_ms else created_ms
            self._ready_since_ms = min(max(due_ms, created_ms), at_ms)
        elif sample.ready:
            self._receives_known_ms = at_ms + limits.stalled_ms
            self._is_idle_longer = True
        self._last_receive_ms = at_ms if self._ready_since_ms is None else self._ready_since_ms

    def _forget_gone_head(self, since_ms: int, due_ms: int) -> None:
        """Count the time before monitoring from the first message that is there, which is all that is known of it."""
        since_ms = max(since_ms, min(due_ms, self._began_ms))
        if self._last_receive_ms == self._ready_since_ms:
            self._last_receive_ms = since_ms
        self._ready_since_ms = since_ms

    def _idle_since_ms(self) -> int | None:
        """Return since when messages are ready and none was received; None if none is ready."""
        return None if self._ready_since_ms is None else max(self._last_receive_ms, self._ready_since_ms)

    def _read_head(self, row: Row, at_ms: int) -> _Head:
        if row[2] != self._head.id or row[3] != self._head.score:
            due_ms, due_problem = read_score(row[3].decode("latin-1"))
            sent_ms, id_problem = read_id(row[2].decode("utf-8", "surrogateescape"), at_ms)
            # A score such as 0, set by hand, means 'at once' and is not a time.
            visible_ms = int(due_ms) if due_ms is not None and due_ms >= TIME_FROM else None
            sent_ms = visible_ms if sent_ms is None else int(sent_ms)
            problems = tuple(problem for problem in (due_problem, id_problem) if problem)
            self._head = _Head(row[2], row[3], sent_ms, sent_ms if visible_ms is None else visible_ms, problems)
        return self._head

    def _stale_from(self, sample: Sample, due_ms: int | None, until_ms: int, *, is_still: bool) -> int:
        """Return when the state of a queue that does not change does; its rates do at ``until_ms``."""
        at_ms, limits, due = sample.at_ms, self._thresholds, []
        if (idle_since_ms := self._idle_since_ms()) is not None:
            due.append(idle_since_ms + limits.stalled_ms)
        if due_ms is not None:
            due.append(due_ms + limits.aged_ms)
            if self._receives_known_ms:
                due.append(due_ms + limits.stalled_ms)
            if is_still:
                due += self._forecast_due_ms(sample, due_ms)
        if self._troubles.episodes:
            due += self._troubles.ends_ms(limits.clear_ms)
        if self._growth_known_ms:
            due += [self._growth_known_ms, self._watched_from_ms + MEASURED_MS]
            if self._first is not None:
                due.append(self._first.at_ms + MEASURED_MS)
        for moment in due:
            if at_ms < moment < until_ms:
                until_ms = moment
        return until_ms


def _bodiless(missing: int, depth: int) -> str | None:
    if not missing or not depth:
        return None
    has = "has" if missing == 1 else "have"
    return f"{plural(missing, 'message')} {has} {NO_BODY}"


def _total(name: str, raw: bytes | None, problems: list[str]) -> int | None:
    # Fast path: nearly every counter is a plain number.
    if raw is not None and len(raw) <= _DIGITS_MAX and raw.isdigit():
        return int(raw)
    return read_total(name, raw, problems)
