"""A place shows from its first recorded poll on, whenever that is and whenever one comes to know of it."""

from pathlib import Path

import pytest

from rsmq_tui.history.names import Place
from rsmq_tui.history.replay.replay import Replay, labels_of
from tests.history.made import DAY_MS
from tests.history.replayed import NOON_MS, PLACE, STEP_MS, Tape, replay_of, said

STAGE = Place("stage", "redis://db2:6379/0", "rsmq")
BEGINS_MS = NOON_MS + DAY_MS + 10 * STEP_MS


def places(replay: Replay) -> list[tuple[str, str]]:
    return [(queue.place, queue.name) for queue in replay.snapshot.queues]


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """Of one recorder: a place for three days, and on the second another one, in none of the first and last files."""
    first = Tape(tmp_path, polls_a_file=20)
    second = Tape(tmp_path, place=STAGE, polls_a_file=20, first=500)
    for poll in range(40):
        first.poll(NOON_MS + poll * STEP_MS, said("ok"))
    first.seal()
    for poll in range(10, 30):
        second.poll(NOON_MS + DAY_MS + poll * STEP_MS, said("stalled", "emails"))
    second.seal()
    for poll in range(40):
        first.poll(NOON_MS + DAY_MS + poll * STEP_MS, said("ok"))
    first.seal()
    first.files[-1].rename(first.files[-1].with_name(f"{first.recorder}-000900.parquet"))
    for poll in range(40):
        first.poll(NOON_MS + 2 * DAY_MS + poll * STEP_MS, said("ok"))
    first.seal()
    return tmp_path


def test_a_place_of_a_later_day_appears_when_time_reaches_it(later: Path) -> None:
    replay = replay_of(later, from_ms=NOON_MS)
    assert (replay.labels, places(replay)) == ({PLACE: ""}, [("", "orders")])

    replay.seek(BEGINS_MS - 1)
    assert places(replay) == [("", "orders")]
    replay.play(1)
    assert places(replay) == [("prod", "orders"), ("stage", "emails")]
    replay.step(-1)
    # It is known by now, and not there yet.
    assert places(replay) == [("prod", "orders")]
    assert [part.place for part in replay.snapshot.parts] == ["prod"]
    assert replay.snapshot.server == PLACE.server


def test_a_replay_begins_when_each_place_was_polled(tmp_path: Path) -> None:
    first, second = Tape(tmp_path), Tape(tmp_path, "b" * 12, place=STAGE)
    for poll in range(3):
        first.poll(NOON_MS + poll * STEP_MS, said("ok"))
        second.poll(NOON_MS + poll * STEP_MS + 40, said("stalled", "emails"))
    first.seal()
    second.seal()
    replay = replay_of(tmp_path)

    assert (replay.position_ms, places(replay)) == (NOON_MS + 40, [("prod", "orders"), ("stage", "emails")])
    replay.step(-1)
    assert replay.position_ms == NOON_MS + 40


def test_reaching_a_place_by_playing_is_as_good_as_going_there(later: Path) -> None:
    played = replay_of(later, from_ms=NOON_MS)
    while played.position_ms < BEGINS_MS + 5 * STEP_MS:
        played.play(STEP_MS)
    sought = replay_of(later, from_ms=played.position_ms)

    one, other = played.snapshot, sought.snapshot
    assert (one.queues, one.totals, one.notes, one.server) == (other.queues, other.totals, other.notes, other.server)
    assert [part.place for part in one.parts] == [part.place for part in other.parts] == ["prod", "stage"]
    assert list(one.trend.totals) == list(other.trend.totals)


def test_its_changes_of_verdict_are_found_before_it_is_known(later: Path) -> None:
    replay = replay_of(later, from_ms=NOON_MS)
    Tape(later, "f" * 12, STAGE, first=700).seal()
    tape = Tape(later, "f" * 12, STAGE, first=700)
    for poll, verdict in enumerate(("ok", "stalled")):
        tape.poll(NOON_MS + DAY_MS + (32 + poll) * STEP_MS, said(verdict, "mail"))
    tape.seal()
    replay.refresh()
    (change,) = replay.go_to_change(1, (STAGE, "mail"))
    assert (change.place, change.queue, change.after) == (STAGE, "mail", "stalled")
    assert ("stage", "mail") in places(replay)


def test_a_place_that_a_recorder_began_meanwhile_appears(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(10):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok"))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    replay.seek(replay.span.to_ms)
    other = Tape(tmp_path, "d" * 12, STAGE)
    for poll in range(10, 20):
        other.poll(NOON_MS + poll * STEP_MS, said("ok", "emails"))
    other.seal()
    replay.refresh()
    assert replay.step(1)
    assert places(replay) == [("prod", "orders"), ("stage", "emails")]


def test_where_nothing_is_known_yet_no_place_counts_as_begun(tmp_path: Path) -> None:
    first, second = Tape(tmp_path, "a" * 12), Tape(tmp_path, "d" * 12, STAGE)
    first.poll(NOON_MS, said("ok"))
    for poll in range(5):
        first.poll(NOON_MS + 20 * 3_600_000 + poll * STEP_MS, said("ok"))
        second.poll(NOON_MS + 20 * 3_600_000 + (poll + 2) * STEP_MS, said("ok", "emails"))
    first.seal()
    second.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + 20 * 3_600_000 - 60_000)
    assert replay.snapshot.connection.failure is not None
    assert replay.step(1)
    assert places(replay) == [("prod", "orders")]
    assert [part.place for part in replay.snapshot.parts] == ["prod"]


def test_labels_that_are_known_are_kept() -> None:
    known = labels_of([PLACE, STAGE])
    jobs = PLACE._replace(ns="jobs")
    assert labels_of([PLACE, STAGE, jobs], known) == {PLACE: "prod", STAGE: "stage", jobs: "prod jobs"}
    assert labels_of([PLACE, jobs], {PLACE: ""}) == {PLACE: "prod rsmq", jobs: "prod jobs"}
