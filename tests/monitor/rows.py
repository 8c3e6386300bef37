"""Raw rows as the reader gives them, and a namespace whose polls are scripted, with a clock of the test's own."""

from collections.abc import Mapping
from dataclasses import dataclass

from rsmq_tui.monitor import QueueState, Thresholds, Totals, Verdict
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.monitor.tracking.rsmq_tracker import RsmqTracker
from rsmq_tui.monitor.tracking.tracker import NewTracker
from rsmq_tui.protocol import Row, make_id

# 2025-06-15T15:06:40Z
START_MS = 1_750_000_000_000
FIELDS: dict[str, bytes | None] = {
    "vt": b"30",
    "delay": b"0",
    "maxsize": b"65536",
    "created": b"1749999000",
    "modified": b"1749999000",
    "totalsent": None,
    "totalrecv": None,
}


def id_sent(at_ms: int) -> str:
    """A canonical id for that time, the same one each time it is asked for."""
    return make_id(at_ms * 1000)[:10] + "m" * 22


def raw_fields(**changes: bytes | None) -> list[bytes | None]:
    """The seven fields of a healthy queue, with these in place of its own."""
    return list({**FIELDS, **changes}.values())


@dataclass
class Flow:
    """One queue's counters, moved by the test.

    ``head_ms`` is when its first message was sent; ``score`` is that message's, by default the same time.
    """

    sent: int = 0
    received: int = 0
    deleted: int = 0
    hidden: int = 0
    head_ms: int = START_MS
    score: str | None = None

    @property
    def depth(self) -> int:
        return self.sent - self.deleted

    def row(self, **fields: bytes | None) -> Row:
        totals = {"totalsent": b"%d" % self.sent or None, "totalrecv": b"%d" % self.received}
        head = [id_sent(self.head_ms).encode(), (self.score or str(self.head_ms)).encode(), self.hidden]
        return [raw_fields(**{**totals, **fields}), self.depth, *(head if self.depth else ())]

    def move(self, *, sent: int = 0, received: int = 0, deleted: int = 0) -> None:
        self.sent += sent
        self.received += received
        self.deleted += deleted


class Scripted:
    """Feeds rows into a tracker, poll by poll."""

    def __init__(self, thresholds: Thresholds | None = None, new_tracker: NewTracker = RsmqTracker) -> None:
        self.tracker = PlaceTracker(thresholds or Thresholds(), "", new_tracker)
        self.at_ms = START_MS
        self.totals = Totals()
        self.memory_limit: Limit | None = None

    def poll(self, rows: Mapping[str, Row], *, after_s: float = 1.0) -> dict[str, QueueState]:
        """Poll that long after the previous poll."""
        self.at_ms += round(after_s * 1000)
        names = sorted(rows)
        self.tracker.begin(self.at_ms, names, self.memory_limit)
        self.tracker.add_rows(range(len(names)), [rows[name] for name in names])
        states, self.totals = self.tracker.finish()
        return {state.name: state for state in states}

    def poll_one(self, row: Row, *, after_s: float = 1.0) -> QueueState:
        """Poll a namespace that holds only the queue ``q``."""
        return self.poll({"q": row}, after_s=after_s)["q"]

    def run(self, flow: Flow, *, seconds: int, sent: int = 0, received: int = 0, deleted: int = 0) -> QueueState:
        """Poll once a second while these many messages move each second; return the last state."""
        state: QueueState | None = None
        for _ in range(seconds):
            flow.move(sent=sent, received=received, deleted=deleted)
            state = self.poll_one(flow.row())
        assert state is not None
        return state

    def outage(self, flow: Flow, *, after_s: float) -> None:
        """Let polls fail for that long, in which a million messages are sent, and one succeed."""
        self.resume(after_s=after_s)
        flow.move(sent=1_000_000)
        self.poll_one(flow.row(), after_s=0)

    def resume(self, *, after_s: float) -> None:
        """Let polls fail for that long; the next poll is the first that works."""
        self.at_ms += round(after_s * 1000)
        self.tracker.resume(self.at_ms)


def first_at(watched: Scripted, flow: Flow, wanted: Verdict, *, seconds: int, **per_s: int) -> int | None:
    """After how many seconds a queue gets a verdict, or None."""
    for second in range(1, seconds + 1):
        if watched.run(flow, seconds=1, **per_s).verdict is wanted:
            return second
    return None
