"""Scores and ids in every unit and length that clients write, or people by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor.messages.reading import read_id, read_score
from rsmq_tui.protocol import make_id
from tests.monitor.rows import START_MS, Flow, Scripted, id_sent
from tests.protocol.keyspace import base36

IN_SECONDS = "scores are in seconds: clients that write milliseconds see every message as ready"
IN_MICROSECONDS = "scores are in microseconds: clients that write milliseconds see every message as hidden"
NEVER = "a score is infinite: that message never becomes visible"
NO_TIME = "message ids carry no time: ages count from when a message became visible"


@pytest.mark.parametrize(
    ("raw", "due_ms", "problem"),
    [
        ("1750000000000", 1_750_000_000_000, None),
        ("1750000000000.5", 1_750_000_000_000.5, None),
        # rsmq_async 7 and rsmq-rb.
        ("1750000000", 1_750_000_000_000, IN_SECONDS),
        ("1750000000.25", 1_750_000_000_250, IN_SECONDS),
        # rsmq_async with break-js-comp.
        ("1750000000000000", 1_750_000_000_000, IN_MICROSECONDS),
        ("1.75e+15", 1_750_000_000_000, IN_MICROSECONDS),
        # By hand: at once, or never.
        ("0", 0, None),
        ("-1", 0, None),
        ("1", 1, None),
        ("-inf", 0, None),
        ("inf", None, NEVER),
        ("+inf", None, NEVER),
        ("nan", None, NEVER),
        ("soon", None, "a score is not a number: soon"),
        # The borders between the units.
        ("99999999", 99_999_999, None),
        ("100000000", 100_000_000_000, IN_SECONDS),
        ("99999999999", 99_999_999_999_000, IN_SECONDS),
        ("100000000000", 100_000_000_000, None),
        ("99999999999999", 99_999_999_999_999, None),
        ("100000000000000", 100_000_000_000, IN_MICROSECONDS),
    ],
)
def test_scores(raw: str, due_ms: float | None, problem: str | None) -> None:
    assert read_score(raw) == (due_ms, problem)


@given(st.floats() | st.text(max_size=20))
def test_no_score_raises_and_a_time_is_finite(score: float | str) -> None:
    due_ms, problem = read_score(score if isinstance(score, str) else f"{score:.17g}")

    assert due_ms is None or (math.isfinite(due_ms) and due_ms >= 0)
    assert due_ms is not None or problem


MICROSECONDS = base36(START_MS * 1000)
MILLISECONDS = base36(START_MS)
SECONDS = base36(START_MS // 1000)
IDS = {
    "canonical": (MICROSECONDS + "X" * 22, START_MS, None),
    "canonical of 2013": (MICROSECONDS + "0f" * 16, START_MS, "not canonical"),
    "rsmq_async 3 to 15": (MILLISECONDS + "X" * 22, START_MS, "not canonical"),
    "rsmq_async 7": (SECONDS + "X" * 22, START_MS, "not canonical"),
    "ebuckley/rsmq": ("aB3dE6gH9jK2mN5pQ8sT1v", None, "not canonical"),
    "rsmq4s": ("0b5f6c9e-3d2a-4b1c-8e7f-1a2b3c4d5e6f", None, "not canonical"),
    "rbmq": ("0123456789abcdef" * 2, None, NO_TIME),
    "rsmqCsharp, upper case": (MICROSECONDS.upper() + "X" * 22, None, NO_TIME),
    "garbage of 32": ("x" * 32, None, NO_TIME),
    "next week": (make_id((START_MS + 7 * 86_400_000) * 1000), None, NO_TIME),
    "2001": (make_id(1_000_000_000_000_000), None, NO_TIME),
    "with a colon": (MICROSECONDS + ":" * 22, START_MS, None),
    "with a newline": (MICROSECONDS + "X" * 21 + "\n", START_MS, "not canonical"),
    "nothing": ("", None, "not canonical"),
    "bytes": ("\udcff\udc00\x00\x1b[31m", None, "not canonical"),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids(kind: str) -> None:
    identity, sent_ms, problem = IDS[kind]

    found_ms, found = read_id(identity, START_MS)

    assert found_ms == sent_ms
    if problem == "not canonical":
        assert found is not None
        assert found.startswith("message ids are not canonical (")
        assert found.endswith("): the canonical client can receive but never delete them")
    else:
        assert found == problem


def test_an_id_is_shown_harmlessly_and_cut() -> None:
    _, problem = read_id("\x1b[31m" + "x" * 100, START_MS)

    assert problem is not None
    assert problem.isprintable()
    assert "(␛[31mxxx" in problem
    assert "x…)" in problem


@given(st.binary(max_size=60))
def test_no_id_raises(raw: bytes) -> None:
    sent_ms, problem = read_id(raw.decode("utf-8", "surrogateescape"), START_MS)

    assert sent_ms is None or sent_ms <= START_MS + 86_400_000
    assert problem is None or problem.isprintable()


class TestTheHeadOfAQueue:
    def test_is_as_old_as_its_id_says(self) -> None:
        queue = Scripted().poll_one(Flow(sent=1, head_ms=START_MS - 90_000, score=str(START_MS)).row())

        assert queue.oldest_ready_ms == START_MS - 90_000
        assert queue.oldest_ready_age_ms(START_MS) == 90_000
        assert queue.problems == ()

    @pytest.mark.parametrize(
        ("score", "since_ms"),
        [
            (str(START_MS - 5000), START_MS - 5000),
            (str((START_MS - 5000) // 1000), START_MS - 5000),
            (str((START_MS - 5000) * 1000), START_MS - 5000),
            # Not a time at all: the age is unknown, not fifty years.
            ("0", None),
            ("-inf", None),
            ("-5", None),
            ("3", None),
        ],
    )
    def test_without_a_time_in_its_id_waits_since_its_score(self, score: str, since_ms: int | None) -> None:
        row = Flow(sent=1, score=score).row()
        row[2] = b"x" * 32

        queue = Scripted().poll_one(row)

        assert queue.oldest_ready_ms == since_ms
        assert NO_TIME in queue.problems

    def test_that_never_becomes_visible_has_no_age(self) -> None:
        row = Flow(sent=1, hidden=1, score="inf").row()

        queue = Scripted().poll_one(row)

        assert (queue.ready, queue.hidden, queue.oldest_ready_ms) == (0, 1, None)
        assert queue.problems == (NEVER,)

    def test_that_is_hidden_leaves_nothing_ready_to_be_old(self) -> None:
        queue = Scripted().poll_one(Flow(sent=3, hidden=3, head_ms=START_MS - 90_000).row())

        assert queue.oldest_ready_ms is None

    def test_says_every_oddity_of_the_queue(self) -> None:
        row = Flow(sent=1, score="1750000000").row(vt=b"15.5", totalrecv=b"many")
        row[2] = b"short"

        queue = Scripted().poll_one(row)

        assert len(queue.problems) == 4
        assert queue.totalrecv is None
        assert queue.broken is None

    def test_is_read_again_when_it_changes(self) -> None:
        watched = Scripted()
        first = watched.poll_one(Flow(sent=1, head_ms=START_MS - 9000).row())
        second = watched.poll_one(Flow(sent=1, head_ms=START_MS - 5000).row())

        assert (first.oldest_ready_ms, second.oldest_ready_ms) == (START_MS - 9000, START_MS - 5000)

    def test_is_never_older_than_the_clock(self) -> None:
        ahead = Flow(sent=1, head_ms=START_MS + 60_000, score=str(START_MS)).row()

        assert Scripted().poll_one(ahead).oldest_ready_age_ms(START_MS) == 0


def test_the_ids_of_these_tests_are_canonical() -> None:
    assert read_id(id_sent(START_MS), START_MS) == (START_MS, None)
