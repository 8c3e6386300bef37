"""What a verdict and an outlook say to people."""

from collections.abc import Sequence
from typing import Any

import pytest

from rsmq_tui.monitor import Drain, QueueState, Thresholds, Verdict, outlook, reason
from tests.monitor.rows import START_MS, Flow, Scripted

AT_MS = START_MS + 1000
PARTLY = "3 messages received 5 times or more (up to 12); checked 1,200 of 2,000 messages"
IDLE: dict[str, object] = {
    "verdict": Verdict.STALLED,
    "since_ms": AT_MS - 1_560_000,
    "idle_since_ms": AT_MS - 1_560_000,
}


def state(**changes: Any) -> QueueState:
    return Scripted().poll_one(Flow(sent=7).row())._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"verdict": Verdict.BROKEN, "broken": "it is listed but has no keys"}, "it is listed but has no keys"),
        ({"verdict": Verdict.BROKEN, "broken": None}, "its keys disagree"),
        (
            {**IDLE, "ready": 1234, "idle_since_ms": AT_MS - 754_000, "since_ms": AT_MS - 754_000, "totalrecv": 9},
            "1,234 messages ready and none received for 12m",
        ),
        (
            {**IDLE, "ready": 1, "idle_since_ms": None, "since_ms": AT_MS - 61_000, "totalrecv": 9},
            "1 message ready and none received for 1m 1s",
        ),
        (
            {**IDLE, "ready": 50_000, "totalrecv": 0, "oldest_ready_ms": AT_MS - 1_560_000},
            "50,000 messages ready, never received for 26m since the first send",
        ),
        (
            {
                **IDLE,
                "ready": 50_000,
                "totalrecv": 0,
                "oldest_ready_ms": AT_MS - 9_560_000,
                "oldest_ready_due_ms": AT_MS - 1_560_000,
            },
            "50,000 messages ready, never received for 26m since the first was due",
        ),
        (
            {
                **IDLE,
                "ready": 50_000,
                "totalrecv": 0,
                "oldest_ready_ms": AT_MS - 9_560_000,
                "oldest_ready_due_ms": AT_MS - 9_000_000,
            },
            "50,000 messages ready, never received for 26m since they arrived",
        ),
        (
            {"verdict": Verdict.LEAKING, "kind": "list", "expired": 2, "since_ms": AT_MS - 90_000},
            "2 leases expired and none returned for 1m 30s: no reaper seems to be running",
        ),
        (
            {"verdict": Verdict.WATCHING, "pending_since_ms": AT_MS - 40_000, "pending_until_ms": AT_MS + 80_000},
            "40 s of 2 min, too early to tell whether it grows",
        ),
        (
            {
                "verdict": Verdict.WATCHING,
                "pending_since_ms": AT_MS - 40_000,
                "pending_until_ms": AT_MS + 80_000,
                "is_idle_longer": True,
            },
            "40 s of 2 min, too early to tell whether it grows, or whether a consumer receives",
        ),
        ({"verdict": Verdict.POISONED, "poison": 3, "highest_rc": 12, "depth": 2000, "looked": 1200}, PARTLY),
        (
            {"verdict": Verdict.POISONED, "poison": 1, "highest_rc": 9, "looked": 7, "looked_all_ms": AT_MS - 40_000},
            "1 message received 5 times or more (up to 9); all checked 40 s ago",
        ),
        (
            {"verdict": Verdict.POISONED, "poison": 1, "highest_rc": 9, "looked": 7, "looked_all_ms": AT_MS - 999},
            "1 message received 5 times or more (up to 9); all checked just now",
        ),
        (
            {"verdict": Verdict.POISONED, "poison": 1, "highest_rc": 9, "since_ms": AT_MS - 720_000, "looked": 7},
            "1 message received 5 times or more (up to 9), seen for 12m; checked 7 of 7 messages",
        ),
        (
            {"verdict": Verdict.POISONED, "poison": 1, "highest_rc": 9, "since_ms": AT_MS},
            "1 message received 5 times or more (up to 9)",
        ),
        (
            {**IDLE, "pending_since_ms": AT_MS - 3_000},
            "was stalled for 25m, until 3 s ago; the verdict ends when it has been clearly over for 30 s",
        ),
        (
            {**IDLE, "pending_since_ms": AT_MS - 3_000, "pending_until_ms": AT_MS + 9_000},
            "was stalled for 25m, until 3 s ago; the verdict ends in 9 s unless it begins again",
        ),
        ({"verdict": Verdict.AGED, "kind": "list", "oldest_ready_ms": AT_MS - 90_000}, "the next item is 1m 30s old"),
        (
            {"verdict": Verdict.OK, "kind": "list", "ready": 3, "idle_since_ms": AT_MS - 40_000},
            "nothing is wrong yet: none taken for 40 s",
        ),
        (
            {"verdict": Verdict.OK, "depth": 2000, "looked": 1200},
            "nothing is wrong; checked 1,200 of 2,000 messages",
        ),
        ({"verdict": Verdict.OK, "depth": 2000, "looked": 1200, "looked_all_ms": AT_MS}, "nothing is wrong"),
        (
            {"verdict": Verdict.GROWING, "arrivals_s": 40.0, "deletes_s": 12.5, "since_ms": AT_MS - 7_200_000},
            "arrivals have exceeded deletes for 2h 0m, now by 27.5/s; the first has waited 1 s",
        ),
        (
            {"verdict": Verdict.GROWING, "since_ms": AT_MS - 150_000, "is_since_longer": True},
            "arrivals have exceeded deletes for 2m 30s or more; the first has waited 1 s",
        ),
        (
            {"verdict": Verdict.GROWING, "since_ms": AT_MS - 90_000, "poison": 3, "highest_rc": 12},
            "arrivals have exceeded deletes for 1m 30s; the first has waited 1 s; 3 poison messages",
        ),
        (
            {**IDLE, "ready": 4, "totalrecv": 9, "poison": 1, "highest_rc": 9},
            "4 messages ready and none received for 26m; 1 poison message",
        ),
        (
            {**IDLE, "verdict": Verdict.GROWING, "pending_since_ms": AT_MS - 3_000, "poison": 3},
            "was growing for 25m, until 3 s ago; the verdict ends when it has been clearly over for 30 s; "
            "3 poison messages",
        ),
        (
            {**IDLE, "verdict": Verdict.GROWING, "pending_since_ms": AT_MS - 3_000, "is_since_longer": True},
            "was growing for 25m or more, until 3 s ago; the verdict ends when it has been clearly over for 30 s",
        ),
        (
            {"verdict": Verdict.GROWING, "oldest_ready_ms": None, "oldest_ready_due_ms": None, "since_ms": None},
            "arrivals have exceeded deletes for –",
        ),
        (
            {"verdict": Verdict.POISONED, "poison": 3, "highest_rc": 12},
            "3 messages received 5 times or more (up to 12)",
        ),
        ({"verdict": Verdict.POISONED, "poison": 1, "highest_rc": 5}, "1 message received 5 times or more (up to 5)"),
        (
            {"verdict": Verdict.AGED, "oldest_ready_due_ms": AT_MS - 3 * 86_400_000},
            "the first ready message has waited 3d 0h",
        ),
        ({"verdict": Verdict.OK}, "nothing is wrong"),
        ({"verdict": Verdict.OK, "totalrecv": 5}, "nothing is wrong; receive counts not checked yet"),
        ({"verdict": Verdict.OK, "depth": 0}, "empty"),
    ],
)
def test_reasons(changes: dict[str, object], sentence: str) -> None:
    assert reason(state(**changes), AT_MS, Thresholds()) == sentence


@pytest.mark.parametrize(
    ("changes", "thresholds", "sentence"),
    [
        (
            {**IDLE, "ready": 1, "since_ms": AT_MS - 1_560_000, "totalrecv": 9},
            {"stalled_ms": 90_000, "aged_ms": 1},
            "1 message ready and none received for 26m (thresholds: stalled 1m 30s)",
        ),
        (
            {"verdict": Verdict.LEAKING, "kind": "list", "expired": 2, "since_ms": AT_MS - 90_000},
            {"leaking_ms": 30_000},
            "2 leases expired and none returned for 1m 30s: no reaper seems to be running (thresholds: leaking 30 s)",
        ),
        (
            {"verdict": Verdict.GROWING, "kind": "list", "since_ms": AT_MS - 90_000},
            {"growing_ms": 60_000, "growing_share": 0.1},
            "more was pushed than taken for 1m 30s; the next item is 1 s old "
            "(thresholds: growing 1 min, growing by 10 % of arrivals)",
        ),
        (
            {"verdict": Verdict.AGED, "oldest_ready_due_ms": AT_MS - 90_000},
            {"aged_ms": 60_000, "stalled_ms": 1},
            "the first ready message has waited 1m 30s (thresholds: aged 1 min)",
        ),
        (
            {"verdict": Verdict.POISONED, "poison": 3, "highest_rc": 12},
            {"poison_rc": 3},
            "3 messages received 3 times or more (up to 12)",
        ),
        (
            {"verdict": Verdict.GROWING, "since_ms": AT_MS - 90_000, "oldest_ready_ms": None, "poison": 3},
            {"poison_rc": 3},
            "arrivals have exceeded deletes for 1m 30s; 3 poison messages (thresholds: poisoned 3 receives)",
        ),
        # What by other thresholds may not be ok.
        (
            {"verdict": Verdict.OK},
            {"aged_ms": 3_600_000, "stalled_ms": 30_000, "clear_ms": 60_000, "poison_rc": 9},
            "nothing is wrong (thresholds: aged 1 h, poisoned 9 receives)",
        ),
        (
            {"verdict": Verdict.OK},
            {"growing_share": 0.1, "growing_messages": 100},
            "nothing is wrong (thresholds: growing by 100 messages, growing by 10 % of arrivals)",
        ),
        (
            {"verdict": Verdict.GROWING, "since_ms": AT_MS - 90_000, "oldest_ready_ms": None, "poison": 1},
            {"growing_messages": 1, "poison_rc": 1},
            "arrivals have exceeded deletes for 1m 30s; 1 poison message"
            " (thresholds: growing by 1 message, poisoned 1 receive)",
        ),
        (
            {"verdict": Verdict.POISONED, "poison": 1, "highest_rc": 1},
            {"poison_rc": 1},
            "1 message received 1 time or more (up to 1)",
        ),
        ({"verdict": Verdict.OK}, {"stalled_ms": 30_000, "clear_ms": 60_000}, "nothing is wrong"),
        ({"verdict": Verdict.OK, "depth": 0}, {"aged_ms": 3_600_000}, "empty"),
    ],
)
def test_thresholds_that_are_not_the_defaults_are_named(
    changes: dict[str, object], thresholds: dict[str, float], sentence: str
) -> None:
    assert reason(state(**changes), AT_MS, Thresholds(**thresholds)) == sentence  # type: ignore[arg-type] # any


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": Verdict.BROKEN, "broken": "no hash"}, "no hash"),
        ({"verdict": Verdict.POISONED, "poison": 2, "highest_rc": 9}, "rc up to 9: 2 messages"),
        ({"drain": Drain.EMPTY}, "nothing ready"),
        ({"drain": Drain.CLEARS, "drain_s": 8040.0}, "2h 14m"),
        ({"drain": Drain.STEADY}, "steady"),
        ({"drain": Drain.STALLED, "idle_since_ms": AT_MS - 90_000}, "no consumer for 1m 30s"),
        ({"drain": Drain.GROWING, "arrivals_s": 40.0, "deletes_s": 12.5}, "never (+28/s)"),
        ({"drain": Drain.GROWING, "arrivals_s": 1.0, "deletes_s": 3.0}, "never"),
        ({"drain": Drain.GROWING, "arrivals_s": 3.0, "deletes_s": 2.6}, "never (+0.4/s)"),
        (
            {"verdict": Verdict.WATCHING, "pending_since_ms": AT_MS - 40_000, "pending_until_ms": AT_MS + 80_000},
            "watching, 40 s of 2 min",
        ),
        ({"verdict": Verdict.WATCHING}, "watching"),
        ({"verdict": Verdict.LEAKING, "expired": 1}, "1 lease expired"),
        ({"drain": Drain.UNKNOWN}, "–"),
    ],
)
def test_outlooks(changes: dict[str, object], words: str) -> None:
    assert outlook(state(**changes), AT_MS) == words


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_words_even_where_nothing_is_known(verdict: Verdict) -> None:
    values: Sequence[Any] = ("q", "rsmq", *[None] * 14, 0, 0, verdict, None, Drain.UNKNOWN, None, None, ())
    unknown = QueueState(*values)

    assert reason(unknown, AT_MS, Thresholds())
    assert isinstance(outlook(unknown, AT_MS), str)
