"""What a verdict and an outlook say to people."""

import pytest

from rsmq_tui.monitor import Drain, QueueState, Thresholds, Verdict, outlook, reason
from tests.monitor.rows import START_MS, Flow, Scripted

AT_MS = START_MS + 1000


def state(**changes: object) -> QueueState:
    return Scripted().poll_one(Flow(sent=7).row())._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"verdict": Verdict.BROKEN, "broken": "it is listed but has no keys"}, "it is listed but has no keys"),
        ({"verdict": Verdict.BROKEN, "broken": None}, "its keys disagree"),
        (
            {"verdict": Verdict.STALLED, "ready": 1234, "since_ms": AT_MS - 754_000},
            "1,234 messages ready and none received for 12m",
        ),
        (
            {"verdict": Verdict.STALLED, "ready": 1, "since_ms": AT_MS - 61_000},
            "1 message ready and none received for 1m 1s",
        ),
        (
            {"verdict": Verdict.GROWING, "arrivals_s": 40.0, "deletes_s": 12.5, "since_ms": AT_MS - 7_200_000},
            "arrivals exceed deletes by 27.5/s for 2h 0m; oldest ready 1 s",
        ),
        (
            {"verdict": Verdict.GROWING, "oldest_ready_ms": None, "since_ms": None},
            "arrivals exceed deletes by –/s for –; oldest ready –",
        ),
        (
            {"verdict": Verdict.POISONED, "poison": 3, "highest_rc": 12},
            "3 messages received 5 times or more (up to 12)",
        ),
        ({"verdict": Verdict.POISONED, "poison": 1, "highest_rc": 5}, "1 message received 5 times or more (up to 5)"),
        (
            {"verdict": Verdict.AGED, "oldest_ready_ms": AT_MS - 3 * 86_400_000},
            "the first ready message has waited 3d 0h",
        ),
        ({"verdict": Verdict.OK}, "nothing is wrong"),
        ({"verdict": Verdict.OK, "depth": 0}, "empty"),
    ],
)
def test_reasons(changes: dict[str, object], sentence: str) -> None:
    assert reason(state(**changes), AT_MS, Thresholds()) == sentence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": Verdict.BROKEN, "broken": "no hash"}, "no hash"),
        ({"verdict": Verdict.POISONED, "poison": 2, "highest_rc": 9}, "2 messages, rc up to 9"),
        ({"drain": Drain.EMPTY}, "nothing ready"),
        ({"drain": Drain.CLEARS, "drain_s": 8040.0}, "in 2h 14m"),
        ({"drain": Drain.STEADY}, "steady"),
        ({"drain": Drain.STALLED, "since_ms": AT_MS - 90_000}, "no consumer for 1m 30s"),
        ({"drain": Drain.GROWING, "arrivals_s": 40.0, "deletes_s": 12.5}, "no: +27.5/s"),
        ({"drain": Drain.GROWING, "arrivals_s": 1.0, "deletes_s": 3.0}, "steady"),
        ({"drain": Drain.UNKNOWN}, "–"),
    ],
)
def test_outlooks(changes: dict[str, object], words: str) -> None:
    assert outlook(state(**changes), AT_MS) == words


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_words_even_where_nothing_is_known(verdict: Verdict) -> None:
    unknown = QueueState("q", "rsmq", *[None] * 14, 0, 0, verdict, None, Drain.UNKNOWN, None, None, ())

    assert reason(unknown, AT_MS, Thresholds())
    assert isinstance(outlook(unknown, AT_MS), str)
