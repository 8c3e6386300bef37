"""Two dashboards that write one log and do not agree: on thresholds, on the time, and on when to poll."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from rsmq_tui import sqlite_file
from rsmq_tui.events.model import Event
from rsmq_tui.events.recorder import EventRecorder
from rsmq_tui.monitor import Connection, Snapshot, Thresholds
from rsmq_tui.protocol import Failure
from tests.events.made import SERVER, polled, state
from tests.events.test_recorder import STILL, recording, written
from tests.monitor.rows import Flow, Scripted
from tests.monitor.timing import FakeClock
from tests.waiting import wait_until


class Watching:
    """A dashboard with thresholds of its own."""

    def __init__(self, recorder: EventRecorder, thresholds: Thresholds | None = None) -> None:
        self.recorder = recorder
        self.thresholds = thresholds or Thresholds()
        self.watched = Scripted(self.thresholds)

    def poll(self, flow: Flow, *, after_s: float = 5) -> None:
        """Poll, and wait until that is written."""
        states = self.watched.poll({"q": flow.row()}, after_s=after_s)
        snapshot = Snapshot(
            self.watched.at_ms, SERVER, "rsmq", tuple(states.values()), connection=Connection(None, 1.0)
        )
        self.recorder.observe(snapshot, self)  # type: ignore[arg-type]
        wait_until(lambda: not self.recorder._work)


@pytest.fixture
def recorders(tmp_path: Path) -> Iterator[tuple[EventRecorder, EventRecorder]]:
    with recording(tmp_path) as one, recording(tmp_path) as other:
        yield one, other


def of_kind(found: list[Event], kind: str) -> list[str]:
    return [event.text for event in found if event.kind == kind]


def test_a_verdict_of_other_thresholds_says_which(
    tmp_path: Path, recorders: tuple[EventRecorder, EventRecorder]
) -> None:
    usual, hasty = Watching(recorders[0]), Watching(recorders[1], Thresholds(stalled_ms=20_000))
    flow = Flow(sent=10, received=5, deleted=5)
    for each in range(80):
        if each < 5 or each > 50:
            flow.move(sent=1, received=1, deleted=1)
        usual.poll(flow)
        hasty.poll(flow)
    for recorder in recorders:
        recorder.close()

    texts = of_kind(written(tmp_path), "verdict")
    stalled = [text for text in texts if text.startswith("stalled")]
    # Both saw that it was stalled since the same time: the hasty one was first, and says why.
    assert [text.endswith("(thresholds: stalled 20 s)") for text in stalled] == [True]
    ended = [text for text in texts if text.startswith("ok, was stalled")]
    assert len(ended) == 1
    assert len(texts) == 2


def test_one_that_begins_with_higher_thresholds_says_that_they_are_its_own(tmp_path: Path) -> None:
    flow = Flow(sent=10)
    with recording(tmp_path) as recorder:
        usual = Watching(recorder)
        for _ in range(30):
            usual.poll(flow)
        wait_until(lambda: recorder.recent)
        with recording(tmp_path) as later:
            patient = Watching(later, Thresholds(stalled_ms=3_600_000))
            patient.watched.at_ms = usual.watched.at_ms
            for _ in range(60):
                usual.poll(flow)
                patient.poll(flow)
        wait_until(lambda: not recorder._work)
    texts = of_kind(written(tmp_path), "verdict")

    # By its thresholds the trouble that is in the log is over.
    assert [text.partition(" ")[0] for text in texts] == ["stalled:", "ok,"]
    assert re.search(r"nothing is wrong.* \(thresholds: stalled 1 h\)$", texts[1])


def test_one_that_was_paused_for_long_tells_what_it_missed_once(
    tmp_path: Path, recorders: tuple[EventRecorder, EventRecorder]
) -> None:
    one, paused = recorders
    for s in range(0, 7_200, 60):
        queues = [state("a", created_ms=1)]
        queues += [state("b", created_ms=2)] if s >= 600 else []
        queues += [state("gone", created_ms=3)] if s < 1_200 else []
        for recorder in recorders if s < 300 else (one,):
            recorder.observe(polled(*queues, s=s), STILL)
    # It goes on.
    for recorder in (one, paused):
        recorder.observe(polled(state("a", created_ms=1), state("b", created_ms=2), s=7_200), STILL)
        recorder.observe(polled(state("a", created_ms=1), state("b", created_ms=2), s=7_260), STILL)
        recorder.close()

    found = [(event.kind.value, event.queue) for event in written(tmp_path)]
    assert found.count(("created", "b")) == found.count(("deleted", "gone")) == 1
    assert len(found) == 2


def test_two_whose_clocks_disagree_tell_of_a_server_that_never_answered(tmp_path: Path) -> None:
    lost = polled(failure=Failure("refused", "connection refused", "start it"))
    with ExitStack() as stack:
        for ahead_s in (0, 3_600):
            wall_s = 1_795_000_000 + ahead_s
            recorder = stack.enter_context(recording(tmp_path, wall_s=lambda wall_s=wall_s: wall_s))
            never = Snapshot(0, SERVER, "rsmq", connection=Connection(lost.connection.failure, None))
            for _ in range(3):
                recorder.observe(never, STILL)
            wait_until(lambda recorder=recorder: not recorder._work and recorder.recent)  # type: ignore[misc]

    # The local time is all that there is; the log says already that it is lost.
    (found,) = written(tmp_path)
    assert (found.kind, found.at_ms) == ("lost", 1_795_000_000_000)


def test_neither_waits_for_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_WAIT_S", 0.01)
    clock = FakeClock()
    with recording(tmp_path, clock=clock) as one, recording(tmp_path, clock=clock) as other:
        wait_until(one.path.exists)
        for recorder in (one, other):
            recorder.observe(polled(state("a")), STILL)
            wait_until(lambda recorder=recorder: not recorder._work)  # type: ignore[misc]
        with closing(sqlite3.connect(one.path, isolation_level=None)) as db:
            # A third one hangs in the middle of a write.
            db.execute("BEGIN IMMEDIATE")
            for recorder in (one, other):
                recorder.observe(polled(state("a"), state("b"), s=1), STILL)
                wait_until(lambda recorder=recorder: recorder.problem)  # type: ignore[misc]
                assert str(recorder.problem).endswith("another program has locked it")
                # It is shown all the same, and written later.
                wait_until(lambda recorder=recorder: [event.queue for event in recorder.recent] == ["b"])  # type: ignore[misc]
            db.execute("ROLLBACK")
        clock.now_s += 31
        wait_until(lambda: one.problem is None and other.problem is None)
    assert [event.queue for event in written(tmp_path)] == ["b"]
