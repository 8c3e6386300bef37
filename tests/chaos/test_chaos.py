"""Cheap rounds of fixed seeds, and that a defect of the program is found by them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.rsmq import edits
from rsmq_tui.triage.actions import Delete, DeleteQueue, Move, Redrive, Requeue, SetAttributes, Undo
from tests.chaos.__main__ import main
from tests.chaos.laws import broken_by, not_brought_back
from tests.chaos.model import LISTS, WORKING, A, Ask, Message, State
from tests.chaos.rounds import Result, play
from tests.clocked_server import ClockedServer

# An operator that is killed closes nothing, and its remains are found by the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROUNDS = 50
# A defect is found by one round in some dozens: from here on the first of them are such.
SEEDS = range(120, 1_000)


@pytest.fixture(scope="module")
def clocked() -> Iterator[ClockedServer]:
    with ClockedServer() as running:
        yield running


def is_found(server: ClockedServer, wanted: str, *kinds: str) -> bool:
    """Play rounds until one violates that law."""
    return any(law == wanted for seed in SEEDS for law, _ in play(server, seed, kinds).violations)


@pytest.mark.slow
def test_nothing_is_violated(clocked: ClockedServer) -> None:
    results = [play(clocked, seed) for seed in range(ROUNDS)]

    assert [violation for result in results for violation in result.violations] == []
    assert sum(result.changes for result in results) > ROUNDS
    assert len({name for result in results for name in result.faults}) > 15


def test_a_seed_is_the_same_round_each_time(clocked: ClockedServer) -> None:
    first, second = (play(clocked, 7) for _ in range(2))

    assert not [line for line in first.trace + second.trace if "VIOLATION" in line]
    # The server's replies, and the ids of what is sent, have its time, to which real time adds a little.
    first_trace, second_trace = (
        [re.sub(r"\w{32}", "<id>", line) for line in each.trace if "->" not in line] for each in (first, second)
    )
    assert first_trace == second_trace
    assert (first.points, first.faults, first.messages) == (second.points, second.faults, second.messages)


@pytest.mark.slow
def test_a_change_that_ignores_its_guard_is_found(clocked: ClockedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "guard_text", lambda conditions: "[]")

    assert is_found(clocked, "guarded", "rush")


def test_a_call_that_is_taken_for_lost_but_was_executed_is_found(
    clocked: ClockedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def settle(editor: EditExecutor, token: str) -> str:
        return ""

    monkeypatch.setattr(EditExecutor, "settle", settle)

    assert is_found(clocked, "told is done", "cut-after")


@pytest.mark.parametrize("is_undone", [False, True])
def test_the_total_of_a_queue_without_attributes_goes_with_the_queue(is_undone: bool) -> None:
    empty = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    left = empty._replace(fields={("b", b"totalsent"): b"1"})
    ask = Ask("operator 1", DeleteQueue(queue="b"), "every")

    assert broken_by(ask, left, empty, 0) is None
    if is_undone:
        ask = Ask("operator 1", Undo(queue="b", change=1, summary=""), "every", ask)
        assert broken_by(ask, empty, left, 0) is None
    other = Ask("operator 1", SetAttributes(queue="b", vt=1), "every")
    found = broken_by(other, left, empty, 0)
    assert found is not None
    assert found.law == "only what was asked"


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_queue_whose_deletion_was_lost_with_all_data_may_come_back(is_lost: bool) -> None:
    gone = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    there = gone._replace(fields={("b", b"vt"): b"30"}, listed=frozenset([b"b"]))
    ask = Ask("operator 1", DeleteQueue(queue="b"), "every")
    ask.look(there, 0)
    ask.is_lost = is_lost

    found = broken_by(Ask("operator 1", Undo(queue="b", change=1, summary=""), "every", ask), gone, there, 0)

    assert (found is None) is is_lost


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_body_of_a_message_that_was_sent_during_a_lost_deletion_may_come_back(is_lost: bool) -> None:
    gone = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    ask = Ask("operator 1", DeleteQueue(queue="b"), "every", is_previewed=True)
    ask.look(gone._replace(messages={("b", b"id"): Message(1.0, b"x", None, None)}), 0)
    ask.is_lost = is_lost
    assert not ask.seen
    undo = Ask("operator 1", Undo(queue="b", change=1, summary=""), "every", ask)

    found = broken_by(undo, gone, gone._replace(fields={("b", b"id"): b"x"}), 0)

    assert (found is None) is is_lost


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_field_whose_change_was_lost_may_be_changed_again(is_lost: bool) -> None:
    found = State({}, {("b", b"vt"): b"30"}, frozenset([b"b"]), dict.fromkeys(LISTS, ()), {})
    left = found._replace(fields={("b", b"vt"): b"5"})
    ask = Ask("operator 1", SetAttributes(queue="b", vt=5), "every")
    assert broken_by(ask, found, left, 0) is None
    # The server has lost the change: the undo finds nothing to do, and cannot know that it did nothing.
    undo = Ask("operator 1", Undo(queue="b", change=1, summary=""), "every", ask)
    undo.is_lost = is_lost

    redo = Ask("operator 1", Undo(queue="b", change=2, summary=""), "every", undo)

    assert (broken_by(redo, found, left, 0) is None) is is_lost
    other = left._replace(fields={("b", b"vt"): b"6"})
    assert broken_by(redo, found, other, 0) is not None


@pytest.mark.parametrize(
    ("is_lost", "is_asked_for", "is_doubled"),
    [(False, True, False), (True, False, False), (True, True, False), (True, True, True)],
)
def test_an_item_whose_move_was_lost_may_be_moved_back_if_asked_for(
    is_lost: bool, is_asked_for: bool, is_doubled: bool
) -> None:
    nothing = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    worked = nothing._replace(lists=nothing.lists | {WORKING: (b"x",)}, leases={b"%022d:x" % 1: 5.0})
    waiting = nothing._replace(lists=nothing.lists | {A: (b"x",)})
    ask = Ask("operator 1", Requeue(queue=A), "every")
    ask.look(worked, 0)
    ask.is_lost = is_lost
    undo = Ask("operator 1", Undo(queue=A, change=1, summary=""), "every", ask, unsettled=is_asked_for)
    after = worked._replace(lists=worked.lists | {A: (b"x",)}) if is_doubled else worked

    assert (broken_by(undo, waiting, after, 0) is None) is (is_lost and is_asked_for and not is_doubled)


@pytest.mark.parametrize("is_ready", [False, True])
def test_what_was_ready_may_be_changed_after_the_clock_was_set_back_if_it_is_ready_again(is_ready: bool) -> None:
    gone = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    message = Message(1_000.0 if is_ready else 50_000.0, b"x", None, None)
    place = "a", b"id"
    ask = Ask("operator 1", Delete(queue="a"), "ready")
    ask.look(gone._replace(messages={place: message._replace(score=50_000.0)}), 60_000)

    found = broken_by(ask, gone._replace(messages={place: message}), gone, 20_000)

    assert (found is None) is is_ready


@pytest.mark.parametrize("is_taken", [False, True])
def test_what_others_took_after_an_earlier_undo_need_not_come_back(is_taken: bool) -> None:
    place = "a", b"id"
    gone = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    ask = Ask("operator 1", Delete(queue="a"), "every")
    ask.effects["message", place] = [Message(1.0, b"x", None, None), None]
    other = Ask("operator 2", Move(queue="a", target="b"), "every")
    if is_taken:
        other.effects["message", place] = [Message(1.0, b"x", None, None), None]

    found = not_brought_back(ask, gone, gone, other.taken)

    assert (found is None) is is_taken


@pytest.mark.parametrize("part", [b"old", b"new", b"other"])
def test_the_part_of_a_redrive_names_a_message_by_either_id(part: bytes) -> None:
    nothing = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    before = nothing._replace(messages={("a", b"old"): Message(1.0, b"x", b"6", b"2")})
    after = nothing._replace(messages={("b", b"new"): Message(9.0, b"x", None, None)})
    ask = Ask("operator 1", Redrive(queue="a", target="b"), "every")
    ask.look(before, 20_000)
    assert broken_by(ask, before, after, 20_000) is None
    undo = Ask("operator 1", Undo(queue="a", change=1, summary=""), "every", ask, part=frozenset([part]))

    found = broken_by(undo, after, before, 20_000)

    assert (found is None) is (part != b"other")


@pytest.mark.parametrize("is_in_use", [False, True])
def test_what_was_moved_need_not_come_back_to_where_its_id_is_in_use(is_in_use: bool) -> None:
    nothing = State({}, {}, frozenset(), dict.fromkeys(LISTS, ()), {})
    message, copied = Message(1.0, b"x", None, None), Message(9.0, b"x", b"1", b"8")
    moved = nothing._replace(messages={("b", b"id"): message} | ({("a", b"id"): copied} if is_in_use else {}))
    ask = Ask("operator 1", Move(queue="a", target="b"), "every")
    ask.effects["message", ("a", b"id")] = [message, None]
    ask.effects["message", ("b", b"id")] = [None, message]

    found = not_brought_back(ask, moved, moved, set())

    assert (found is None) is is_in_use


def test_the_command_says_how_to_replay_a_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def violated(server: ClockedServer, seed: int, kinds: Any) -> Result:
        result = Result(seed)
        result.faults.update(kinds)
        if seed == 4:
            result.violations.append(("nothing lost", "a message"))  # type: ignore[arg-type]
        return result

    monkeypatch.setattr("tests.chaos.__main__.play", violated)
    monkeypatch.setattr("sys.argv", ["chaos", "--seed", "3", "--rounds", "3", "--fault", "cut-after"])

    assert main() == 1
    shown = capsys.readouterr()
    assert "nothing lost: python -m tests.chaos --seed 4 --rounds 1 --fault cut-after\n" in shown.out
    assert "seed 4: nothing lost: a message" in shown.err


def test_several_jobs_play_the_same_rounds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for jobs in ("1", "3"):
        monkeypatch.setattr("sys.argv", ["chaos", "--seed", "40", "--rounds", "7", "--jobs", jobs, "--json"])
        assert main() == 0
        shown.append(json.loads(capsys.readouterr().out) | {"seconds": 0})

    assert shown[0] == shown[1]
    assert shown[0]["rounds"] == 7
