"""How many messages came back after a receive, against a queue of which every message is known."""

from dataclasses import dataclass, field
from random import Random

import pytest

from rsmq_tui.monitor.tracking.reasons import returned
from rsmq_tui.monitor.tracking.series import Sample
from rsmq_tui.monitor.tracking.trend import Returns, Trend
from tests.monitor.rows import START_MS
from tests.tui.states import queue_of

_VT_S, _SPAN_S, _POLL_S = 30, 600, 5
_DUE, _BACK, _DELETED = "due", "back", "deleted"


@dataclass
class Known:
    """A queue with all its messages; ``back`` is how often one was not deleted in time."""

    dice: Random
    fails: float = 0.0
    delayed: float = 0.0
    now_s: int = 0
    sent: int = 0
    received: int = 0
    back: int = 0
    ready: int = 0
    # When each hidden message is so no longer, and why.
    hidden: list[tuple[int, str]] = field(default_factory=list)

    def second(self) -> None:
        """Let a second pass."""
        self.now_s += 1
        for ends_s, why in [each for each in self.hidden if each[0] <= self.now_s]:
            self.hidden.remove((ends_s, why))
            self.ready += why != _DELETED
            self.back += why == _BACK
        for _ in range(self.dice.randrange(5)):
            self.sent += 1
            if self.dice.random() < self.delayed:
                self.hidden.append((self.now_s + self.dice.randrange(1, 120), _DUE))
            else:
                self.ready += 1
        for _ in range(min(self.dice.randrange(6), self.ready)):
            self.ready -= 1
            self.received += 1
            fails = self.dice.random() < self.fails
            works_s = _VT_S if fails else self.dice.randrange(1, _VT_S)
            self.hidden.append((self.now_s + works_s, _BACK if fails else _DELETED))

    @property
    def sample(self) -> Sample:
        """What a poll says of it."""
        at_ms, depth = START_MS + self.now_s * 1000, self.ready + len(self.hidden)
        return Sample(at_ms, depth, self.ready, self.sent, self.received)


def followed(known: Known) -> Trend:
    """Poll a queue for ten minutes."""
    trend = Trend()
    trend.add_queue("q")
    for second in range(_SPAN_S + 1):
        if second % _POLL_S == 0:
            trend.add_bucket(known.sample.at_ms, [known.sample])
        if second < _SPAN_S:
            known.second()
    return trend


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("fails", "delayed"), [(0.0, 0.0), (0.0, 0.3), (0.1, 0.0), (0.1, 0.3), (0.5, 0.9)])
def test_no_more_are_said_to_have_come_back_than_did(fails: float, delayed: float, seed: int) -> None:
    known = Known(Random(seed), fails, delayed)
    for _ in range(_SPAN_S):
        known.second()
    received, back, hidden = known.received, known.back, len(known.hidden)

    said = followed(known).returns("q")

    assert said is not None
    assert (said.span_ms, said.received) == (_SPAN_S * 1000, known.received - received)
    came_back = known.back - back
    assert said.back <= came_back
    if not delayed:
        assert said.back >= came_back - hidden


def test_a_queue_that_was_created_again_counts_from_then_on() -> None:
    trend = followed(Known(Random(1), fails=0.5))
    assert trend.returns("other") is None
    for number, received in enumerate((0, 9, 30)):
        at_ms = START_MS + (_SPAN_S + _POLL_S * (number + 1)) * 1000
        trend.add_bucket(at_ms, [Sample(at_ms, 10, 10, 10, received)])
    assert trend.returns("q") == Returns(2 * _POLL_S * 1000, 30, 30)


def test_what_this_program_changed_did_not_come_back() -> None:
    trend = Trend()
    trend.add_queue("q")
    for number, ready in enumerate((0, 0, 50, 50)):
        at_ms = START_MS + number * _POLL_S * 1000
        trend.add_bucket(at_ms, [Sample(at_ms, 50, ready, 50, 100 + number)])
        if number == 2:
            # It has released all of them.
            trend.note_change("q", at_ms)
    assert trend.returns("q") == Returns(_POLL_S * 1000, 1, 1)


@pytest.mark.parametrize("moved", [0, 200, 5_000])
def test_what_others_moved_into_the_queue_did_not_come_back(moved: int) -> None:
    trend = Trend()
    trend.add_queue("q")
    count = 0
    for number in range(60):
        at_ms, depth = START_MS + number * _POLL_S * 1000, 20 + (moved if number >= 30 else 0)
        # As many are sent as are received and deleted.
        count = 100 * number
        trend.add_bucket(at_ms, [Sample(at_ms, depth, depth - 10, count, count)])
    assert trend.returns("q") == Returns(*((145_000, 2_900, 0) if moved else (295_000, 5_900, 0)))


@pytest.mark.parametrize(
    ("received", "back", "words"),
    [
        (300, 4, ""),
        (3_000, 29, ""),
        (
            3_000,
            30,
            "30 or more of 3,000 received in 10m came back: consumers fail, or need longer than the vt of 30 s",
        ),
    ],
)
def test_what_is_said_of_it(received: int, back: int, words: str) -> None:
    trend = Trend()
    trend.add_queue("q")
    for at_s, count in ((0, 0), (_SPAN_S, 1)):
        at_ms = START_MS + 1000 * at_s
        trend.add_bucket(at_ms, [Sample(at_ms, count * back, count * back, count * received, count * received)])
    assert returned(queue_of("q"), trend) == words
    assert returned(queue_of("q", kind="list"), trend) == ""


def test_nothing_is_said_of_a_queue_that_was_not_polled() -> None:
    assert returned(queue_of("q"), Trend()) == ""
