"""Figures of a queue against a simulation of which every message, receive and delete is known."""

from dataclasses import dataclass, field
from random import Random

import pytest

from rsmq_tui.monitor import Verdict
from rsmq_tui.protocol import Row, make_id
from tests.monitor.rows import START_MS, Scripted, raw_fields


@dataclass
class Simulated:
    """A queue, its producers and its consumers; ``messages`` are when each was sent, is due, and is deleted, or None.

    A consumer takes the first messages that are due, and deletes most of them later.
    """

    dice: Random
    now_ms: int = START_MS
    messages: dict[str, tuple[int, int, int | None]] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    received_ms: int = 0
    sends_s: float = 1.0
    receives_s: float = 1.0
    fails: float = 0.0
    vt_s: int = 30

    def second(self) -> None:
        """Let a second pass; sometimes, something changes."""
        self.now_ms += 1000
        match self.dice.randrange(600):
            case 0:
                self.messages.clear()
            case 1 | 2 | 3:
                self.sends_s, self.receives_s = self.dice.choice((0, 0.2, 3)), self.dice.choice((0, 0.2, 3))
            case 4:
                self.vt_s, self.fails = self.dice.choice((5, 60)), self.dice.choice((0, 0.3))
        for id, (_, _, deleted_ms) in list(self.messages.items()):
            if deleted_ms is not None and deleted_ms <= self.now_ms:
                del self.messages[id]
        for _ in range(self._times(self.sends_s)):
            self.sent += 1
            delay_s = self.dice.choice((0, 0, 0, 20))
            id = make_id(self.now_ms * 1000 + self.sent % 1000)
            self.messages[id] = self.now_ms, self.now_ms + 1000 * delay_s, None
        taken = self._times(self.receives_s)
        for id in self.ready[:taken] if taken else ():
            self.received, self.received_ms = self.received + 1, self.now_ms
            lasts_ms = 1000 * self.dice.randrange(1, self.vt_s)
            deleted_ms = None if self.dice.random() < self.fails else self.now_ms + lasts_ms
            self.messages[id] = self.messages[id][0], self.now_ms + 1000 * self.vt_s, deleted_ms

    def _times(self, per_s: float) -> int:
        return int(per_s) + (self.dice.random() < per_s % 1)

    @property
    def ready(self) -> list[str]:
        """The ids of the messages that a consumer would receive, in that order."""
        return sorted((id for id, (_, due, _) in self.messages.items() if due <= self.now_ms), key=self._order)

    def _order(self, id: str) -> tuple[int, str]:
        return self.messages[id][1], id

    @property
    def counters(self) -> tuple[int, int, int]:
        """What was sent and received, and how many there are."""
        return self.sent, self.received, len(self.messages)

    @property
    def row(self) -> Row:
        """The row of the queue."""
        fields = raw_fields(totalsent=b"%d" % self.sent, totalrecv=b"%d" % self.received, vt=b"%d" % self.vt_s)
        if not self.messages:
            return [fields, 0]
        first = min(self.messages, key=self._order)
        hidden = sum(due > self.now_ms for _, due, _ in self.messages.values())
        return [fields, len(self.messages), first.encode(), b"%d" % self.messages[first][1], hidden]


@pytest.mark.parametrize("seed", range(10))
def test_what_is_shown_is_true_of_the_messages(seed: int) -> None:
    queue, watched = Simulated(Random(seed)), Scripted()
    every_s = queue.dice.choice((1, 2, 5))
    polls: list[tuple[int, tuple[int, int, int]]] = []
    for _ in range(queue.dice.choice((0, 300))):
        # Before the dashboard was started.
        queue.second()
    watched.at_ms = queue.now_ms
    for _ in range(1200 // every_s):
        for _ in range(every_s):
            queue.second()
        if queue.dice.random() < 0.005:
            # Polls fail for a time.
            for _ in range(30):
                queue.second()
            watched.resume(after_s=30)
            polls.clear()
        state = watched.poll_one(queue.row, after_s=every_s)
        ready = queue.ready
        polls.append((queue.now_ms, queue.counters))

        assert (state.depth, state.ready) == (len(queue.messages), len(ready))
        first = queue.messages[ready[0]] if ready else (None, None, None)
        assert (state.oldest_ready_ms, state.oldest_ready_due_ms) == first[:2]
        if state.idle_since_ms is not None:
            # At its first poll, it is known only for a queue from which none was received.
            assert queue.received_ms <= state.idle_since_ms
        if state.verdict is Verdict.STALLED and state.pending_since_ms is None:
            assert ready
            assert queue.now_ms - queue.received_ms >= 30_000
        if state.arrivals_s is not None:
            shown = state.arrivals_s, state.receives_s, state.deletes_s
            assert any(shown == pytest.approx(rates, abs=1e-9) for rates in _possible(polls)), polls[-30:]


def _possible(polls: list[tuple[int, tuple[int, int, int]]]) -> list[tuple[float, float, float]]:
    """Return the arrivals, receives and deletes per second over up to 20 s, until what was last seen was first seen."""
    now_ms, last = polls[-1]
    found = []
    for end_ms, counters in polls[-6:]:
        if counters != last or end_ms < now_ms - 5_000:
            continue
        for begin_ms, (sent, received, depth) in polls[-30:]:
            if end_ms - 20_000 <= begin_ms < end_ms:
                arrived, lasted_s = last[0] - sent, (end_ms - begin_ms) / 1000
                deleted = max(0, arrived - last[2] + depth)
                found.append((arrived / lasted_s, (last[1] - received) / lasted_s, deleted / lasted_s))
    return found
