"""What is remembered of one queue between polls, and how its next state is made from it."""

from rsmq_tui.monitor.earlier import Earlier, References
from rsmq_tui.monitor.reading import TIME_FROM, Attributes, read_attributes, read_id, read_score, read_total
from rsmq_tui.monitor.series import STILL, QueueSeries, Rates, Sample, Trend
from rsmq_tui.monitor.snapshot import Drain, QueueState, Verdict
from rsmq_tui.monitor.verdicts import Thresholds, drain_of
from rsmq_tui.protocol import Row

_FOREVER = 1 << 62
_DIGITS_MAX = 15


class QueueTracker(Earlier):
    """Turns one queue's raw rows into states, one poll after another.

    ``stale_from_ms`` is when the state would change although the row did not: until then an unchanged row costs one
    comparison, which is what keeps 10,000 quiet queues cheap.
    """

    __slots__ = (
        "_attributes",
        "_growing_since_ms",
        "_head",
        "_head_key",
        "_last_receive_ms",
        "_name",
        "_place",
        "_raw_fields",
        "_ready_since_ms",
        "_thresholds",
        "highest_rc",
        "poison",
        "row",
        "sample",
        "stale_from_ms",
        "state",
    )

    def __init__(self, name: str, series: QueueSeries, thresholds: Thresholds, place: str = "") -> None:
        super().__init__(series)
        self.row: Row | None = None
        self.sample: Sample | None = None
        self.state: QueueState | None = None
        self.stale_from_ms = 0
        self.poison = 0
        self.highest_rc = 0
        self._name = name
        self._place = place
        self._thresholds = thresholds
        self._raw_fields: list[bytes | None] = []
        self._attributes = Attributes()
        self._head_key: tuple[bytes, bytes] | None = None
        self._head: tuple[int | None, tuple[str, ...]] = (None, ())
        self._last_receive_ms = 0
        self._ready_since_ms: int | None = None
        self._growing_since_ms: int | None = None

    @classmethod
    def beginning(cls, name: str, trend: Trend, thresholds: Thresholds, place: str) -> "QueueTracker":
        """Begin to track a queue in that past of all queues."""
        return cls(name, trend.add_queue(name), thresholds, place)

    def update(self, row: Row, at_ms: int, references: References) -> QueueState:
        """Take a poll's row."""
        self.row = row
        fields, depth = row[0], row[1]
        broken = self._broken(fields, depth)
        if broken is not None:
            self.sample = self._first = None
            self.stale_from_ms = _FOREVER
            self.state = self._broken_state(broken, depth)
            return self.state
        problems: list[str] = []
        totalsent = _total("totalsent", fields[5], problems)
        totalrecv = _total("totalrecv", fields[6], problems)
        hidden = row[4] if depth else 0
        sample = Sample(at_ms, depth, depth - hidden, totalsent or 0, totalrecv or 0)
        self._follow(sample)
        oldest_ms, head_problems = self._read_head(row, at_ms) if depth else (None, ())
        oldest_ms = oldest_ms if sample.ready else None
        rates = sample.rates_since(self._sample_at(0, references, sample))
        trend = sample.rates_since(self._sample_at(1, references, sample))
        growing = self._is_growing(sample, references, rates)
        verdict, since_ms = self._verdict(sample, oldest_ms, growing)
        drain, drain_s = drain_of(sample.ready, trend, verdict)
        self.stale_from_ms = self._stale_from(sample, rates, trend, oldest_ms)
        attributes = self._attributes
        arrivals_s, deletes_s, receives_s = rates or (None, None, None)
        self.state = QueueState(
            self._name,
            "rsmq",
            depth,
            sample.ready,
            hidden,
            oldest_ms,
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
            self.poison,
            self.highest_rc,
            verdict,
            since_ms,
            drain,
            drain_s,
            None,
            (*attributes.problems, *problems, *head_problems),
            self._place,
        )
        return self.state

    def take_receive_counts(self, poison: int, highest_rc: int) -> None:
        """Take what a look at the receive counts found; the next poll's state shows it."""
        if (poison, highest_rc) != (self.poison, self.highest_rc):
            self.poison, self.highest_rc = poison, highest_rc
            self.stale_from_ms = 0

    def _broken(self, fields: list[bytes | None] | bytes, depth: int | bytes) -> str | None:
        """Say why a queue cannot be read, or take its attributes."""
        if isinstance(fields, bytes):
            self._raw_fields, self._attributes = [], Attributes()
            return "its attributes key holds another type than a hash"
        attributes = fields[:5]
        if attributes != self._raw_fields:
            self._raw_fields = attributes
            self._attributes = read_attributes(attributes)
        if isinstance(depth, bytes):
            return "its messages key holds another type than a sorted set"
        if self._attributes.broken is None:
            return None
        if not any(fields):
            return (
                f"it holds {depth:,} message ids but its attributes hash is gone: clients answer queueNotFound"
                if depth
                else "it is listed but has no keys: clients answer queueNotFound"
            )
        return self._attributes.broken

    def _broken_state(self, broken: str, depth: int | bytes) -> QueueState:
        attributes = self._attributes
        # fmt: off
        return QueueState(
            self._name, "rsmq", depth if isinstance(depth, int) else None, None, None, None,
            attributes.vt_s, attributes.delay_s, attributes.maxsize, attributes.created_ms, attributes.modified_ms,
            None, None, None, None, None, 0, 0, Verdict.BROKEN, None, Drain.UNKNOWN, None, broken, attributes.problems,
            self._place,
        )
        # fmt: on

    def _follow(self, sample: Sample) -> None:
        """Keep the moments that verdicts are made from."""
        before = self.sample
        if (
            self._first is None
            or before is None
            or sample.totalsent < before.totalsent
            or sample.totalrecv < before.totalrecv
        ):
            # New to us, readable again, or deleted and created again: nothing of the past counts.
            before = sample
            self._begin_at(sample)
            self.poison = self.highest_rc = 0
            self._last_receive_ms = sample.at_ms
            self._ready_since_ms = None
            self._growing_since_ms = None
        if sample.totalrecv > before.totalrecv:
            self._last_receive_ms = sample.at_ms
        if not sample.ready:
            self._ready_since_ms = None
        elif self._ready_since_ms is None:
            self._ready_since_ms = sample.at_ms
        self.sample = sample

    def _read_head(self, row: Row, at_ms: int) -> tuple[int | None, tuple[str, ...]]:
        """Return when the first message was sent, or became visible where its id does not tell, and what is odd."""
        key = (row[2], row[3])
        if key != self._head_key:
            due_ms, due_problem = read_score(row[3].decode("latin-1"))
            sent_ms, id_problem = read_id(row[2].decode("utf-8", "surrogateescape"), at_ms)
            # A score such as 0, by hand, says 'at once' and tells no age.
            visible_ms = due_ms if due_ms is not None and due_ms >= TIME_FROM else None
            since_ms = sent_ms if sent_ms is not None else visible_ms
            problems = tuple(problem for problem in (due_problem, id_problem) if problem)
            self._head_key, self._head = key, (None if since_ms is None else int(since_ms), problems)
        return self._head

    def _is_growing(self, sample: Sample, references: References, rates: Rates | None) -> bool:
        # Most queues are told by their rates alone.
        growing = (
            rates is not None
            and rates.arrivals_s > rates.deletes_s
            and self._thresholds.is_growing(self._sample_at(2, references, sample), sample, rates)
        )
        if not growing:
            self._growing_since_ms = None
        elif self._growing_since_ms is None:
            self._growing_since_ms = sample.at_ms - self._thresholds.growing_ms
        return growing

    def _verdict(self, sample: Sample, oldest_ms: int | None, growing: bool) -> tuple[Verdict, int | None]:
        limits = self._thresholds
        if self._ready_since_ms is not None:
            idle_since_ms = max(self._last_receive_ms, self._ready_since_ms)
            if sample.at_ms - idle_since_ms >= limits.stalled_ms:
                return Verdict.STALLED, idle_since_ms
        if growing:
            return Verdict.GROWING, self._growing_since_ms
        if self.poison:
            return Verdict.POISONED, None
        if oldest_ms is not None and sample.at_ms - oldest_ms >= limits.aged_ms:
            return Verdict.AGED, oldest_ms + limits.aged_ms
        return Verdict.OK, None

    def _stale_from(self, sample: Sample, rates: Rates | None, trend: Rates | None, oldest_ms: int | None) -> int:
        if rates != STILL or trend != STILL:
            return 0
        due = [_FOREVER]
        if self._ready_since_ms is not None:
            due.append(max(self._last_receive_ms, self._ready_since_ms) + self._thresholds.stalled_ms)
        if oldest_ms is not None:
            due.append(oldest_ms + self._thresholds.aged_ms)
        return min(moment for moment in due if moment > sample.at_ms)


def _total(name: str, raw: bytes | None, problems: list[str]) -> int | None:
    # Nearly every counter is a plain number.
    if raw is not None and len(raw) <= _DIGITS_MAX and raw.isdigit():
        return int(raw)
    return read_total(name, raw, problems)
