"""Segments of polls: the rows are those that the states have, whatever is cut off, also for an earlier version."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rsmq_tui.history.names import HistoryError, Place
from rsmq_tui.history.poll_log import BEGINNING, PollLog, is_poll_log, read_polls
from rsmq_tui.history.rows import QueueChanges, SampleRows
from rsmq_tui.history.writer import read_segment, write_sealed
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds, Verdict
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.protocol.server.status import ServerInfo
from tests.history.made import NOON_MS, PLACE, failed, polled, state

OTHER = Place("another\udcff", "redis://db2", "rsmq\\")
INFO = ServerInfo("run\udcff", 77, "master", 2**70, at_ms=NOON_MS)

_QUEUE = some.fixed_dictionaries(
    {
        "name": some.sampled_from(["a", "b", "c\udcff", "\x00[/]"]),
        "kind": some.sampled_from(["rsmq", "list"]),
        "depth": some.none() | some.integers(0, 3),
        "oldest_ready_ms": some.none() | some.sampled_from([NOON_MS - 1, NOON_MS]),
        "vt_s": some.none() | some.sampled_from([1, 1.5, 10**20, 10**400, float("inf")]),
        "verdict": some.sampled_from(list(Verdict)),
        "broken": some.sampled_from([None, "\ud800"]),
        "problems": some.sampled_from([(), ("one",), ("one", "\udc80")]),
        "totalsent": some.sampled_from([None, 0, 2**64]),
        "is_idle_longer": some.booleans(),
        "times": some.sampled_from(
            [
                None,
                FlightTimes(NOON_MS - 59_999, 1, 2, 3, None, 2**70),
                FlightTimes(NOON_MS - 59_998, 1, 2, None, 4, 2**70),
            ]
        ),
    }
)
_POLL = some.tuples(
    some.booleans(),
    some.sampled_from([PLACE, OTHER]),
    some.lists(_QUEUE, max_size=3),
    some.sampled_from([None, INFO, INFO._replace(at_ms=NOON_MS + 1)]),
    some.sampled_from([None, Limit("memory", 1, 2)]),
)


def made(polls: list[Any]) -> list[tuple[Place, Snapshot]]:
    """Snapshots of two places; a queue that is as it was is the same object, as the tracker has it."""
    before: tuple[QueueState, ...] = ()
    snapshots = []
    for number, (is_up, place, fields, info, limit) in enumerate(polls):
        states = (state(**one) for one in fields)
        before = tuple(next((old for old in before if old == new), new) for new in states)
        snapshot = replace(polled(*before, at_ms=NOON_MS + number), info=info, memory_limit=limit)
        snapshots.append((place, snapshot if is_up else failed("refused \udcff")))
    return snapshots


def log_of(snapshots: list[tuple[Place, Snapshot]], lost: int | None = None) -> list[bytes]:
    """The frames of these polls; one of them, if it is named, cannot be written."""
    logs, segment, frames = {place: PollLog("me", place, Thresholds()) for place in (PLACE, OTHER)}, object(), []
    for number, (place, snapshot) in enumerate(snapshots):
        frame, *_ = logs[place].begin(snapshot, NOON_MS).frame(segment)
        if number == lost:
            logs[place].forget()
        else:
            frames.append(frame)
    return frames


@settings(max_examples=50)
@given(some.lists(_POLL, min_size=1, max_size=6))
def test_the_rows_are_those_of_the_states(polls: list[Any]) -> None:
    snapshots = made(polls)
    table = read_polls(BEGINNING + b"".join(log_of(snapshots)))
    rows = {place: SampleRows("me", place, Thresholds()) for place in (PLACE, OTHER)}
    expected = pa.Table.from_batches([rows[place].taken(snapshot, NOON_MS)[0] for place, snapshot in snapshots])

    assert table is not None
    table.validate(full=True)
    assert table.schema.equals(expected.schema)
    assert table.to_pylist() == expected.to_pylist()


def test_a_frame_has_only_the_columns_that_differ() -> None:
    sample = FlightTimes(NOON_MS, 1, 2, 3, None, None)
    before = tuple(state(name, times=sample) for name in ("a", "b", "c"))
    after = (*before[:2], before[2]._replace(depth=9, times=sample._replace(at_ms=NOON_MS + 1, work_p50_ms=5)))
    changes = QueueChanges()

    rows, found = changes.follow(before)
    assert list(rows) == [0, 1, 2, 3]
    assert found["queue"] == ["a", "b", "c", None]
    assert changes.follow(after) == ([2], {"depth": (9,), "sampled_age_ms": (NOON_MS + 1,), "work_p50_ms": (5,)})
    assert changes.follow(after) == ([], {})


@pytest.mark.parametrize("lost", range(4))
def test_a_poll_that_could_not_be_written_is_missing_alone(lost: int) -> None:
    queues = [tuple(state(name, depth=number) for name in ("a", "b")) for number in range(4)]
    snapshots = [(PLACE, polled(*states, at_ms=NOON_MS + number)) for number, states in enumerate(queues)]
    table = read_polls(BEGINNING + b"".join(log_of(snapshots, lost)))

    assert table is not None
    left = [number for number in range(4) if number != lost]
    rows = table.to_pylist()
    assert [row["at_ms"] - NOON_MS for row in rows[::3]] == left
    assert [[row["depth"] for row in rows[at : at + 3]] for at in range(0, 9, 3)] == [[n, n, None] for n in left]
    # No interval spans what is missing.
    known = [row["interval_ms"] for row in rows[2::3]]
    assert known == [1 if number and number - 1 != lost else None for number in left]


def test_what_is_whole_of_a_segment_that_is_cut_off_anywhere(tmp_path: Path) -> None:
    queues = [tuple(state(name, depth=number) for name in ("a", "b")) for number in range(3)]
    frames = log_of([(PLACE, polled(*states, at_ms=NOON_MS + number)) for number, states in enumerate(queues)])
    whole, path = BEGINNING + b"".join(frames), tmp_path / "samples.arrows"
    ends = [len(BEGINNING) + sum(map(len, frames[:number])) for number in (1, 2, 3)]
    for length in range(0, len(whole) + 1, 11):
        path.write_bytes(whole[:length])
        found = read_segment(path)
        times = [] if found is None else sorted(set(found.column("at_ms").to_pylist()))
        assert times == [NOON_MS + number for number in range(sum(end <= length for end in ends))]
    for tail in (b"\0" * 4096, b"\xff" * 64, bytes(range(256)) * 8, frames[1][:-1] + b"\x55"):
        path.write_bytes(whole + tail)
        found = read_segment(path)
        assert found is not None
        assert found.num_rows == 9


def test_a_segment_of_another_version_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(HistoryError, match="another version"):
        read_polls(BEGINNING.replace(b"\npolls 2\n", b"\npolls 3\n") + b"anything")


@pytest.mark.parametrize("first", [1, 2])
def test_what_does_not_follow_from_the_polls_before_is_left_out(first: int) -> None:
    states = (state("a"), state("b"))
    begun, *others = log_of([(PLACE, polled(*states[:count], at_ms=NOON_MS + count)) for count in (1, 2, 2)])

    assert read_polls(BEGINNING + others[1]) is None
    table = read_polls(BEGINNING + (begun if first == 1 else others[0]) + others[1])

    assert table is not None
    assert table.num_rows == (2 if first == 1 else 6)


def test_an_earlier_version_leaves_a_segment_of_polls_alone(tmp_path: Path) -> None:
    frames = log_of([(PLACE, polled(state()))])
    # It reads the batches of a stream, and removes a file that has none.
    table = pa.ipc.open_stream(BEGINNING + b"".join(frames)).read_all()

    assert table.num_rows > 0
    assert is_poll_log(BEGINNING)
    with pytest.raises(KeyError):
        write_sealed(table, tmp_path / "a")
