"""Reading a history back: in order, from a span of time, past files that cannot be read."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsmq_tui.history.names import HistoryError, Place
from rsmq_tui.history.reading import History, RecordedSpan
from rsmq_tui.history.recorder import Recorder
from rsmq_tui.history.replay.tracking import state_of
from rsmq_tui.history.store import FolderStore
from rsmq_tui.monitor import Thresholds, Verdict
from tests.history.made import DAY_MS, NOON_MS, PLACE, ClockedWriter, failed, polled, state

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recorders' polls, each second of two hours around midnight, in files of ten minutes."""
    state = tmp_path_factory.mktemp("recorded")
    out = state / "history"
    for recorder in range(2):
        clocked = ClockedWriter(out, state, seal_every_s=600 + 100 * recorder)
        for second in range(0, 7200, 100):
            clocked.poll(NOON_MS + DAY_MS // 2 - 3_600_000 + 1000 * second + recorder)
            clocked.now_s += 100
            clocked.writer.tend()
        clocked.writer.close()
    return out


@pytest.fixture
def history(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(recorded, tmp_path / "history"))


MIDNIGHT_MS = NOON_MS + DAY_MS // 2


def test_all_polls_in_the_order_of_their_times(recorded: Path) -> None:
    found = History(recorded)
    polls = list(found.polls())

    assert [poll.at_ms for poll in polls] == sorted(
        MIDNIGHT_MS - 3_600_000 + 1000 * second + recorder for second in range(0, 7200, 100) for recorder in range(2)
    )
    assert {(poll.place, poll.failure, tuple(poll.rows["queue"].to_pylist())) for poll in polls} == {
        (PLACE, None, ("q0", "q1"))
    }
    assert found.span() == RecordedSpan(polls[0].at_ms, polls[-1].at_ms)
    assert found.places() == [PLACE]
    assert found.problems == []


def test_a_span_of_time(recorded: Path) -> None:
    times = [poll.at_ms for poll in History(recorded).polls()]
    for from_ms, to_ms in (
        (-1, 1), (-1_000_000, 0), (0, 1_000_000), (0, 1), (5, 5), (-10 * DAY_MS, 10 * DAY_MS), (DAY_MS, 2 * DAY_MS),
    ):  # fmt: skip
        wanted = RecordedSpan(MIDNIGHT_MS + from_ms, MIDNIGHT_MS + to_ms)
        found = [poll.at_ms for poll in History(recorded).polls(wanted)]
        assert found == [at_ms for at_ms in times if wanted.from_ms <= at_ms <= wanted.to_ms], (from_ms, to_ms)


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"\0" * 5000, "cut"])
def test_files_that_cannot_be_read_are_named_and_the_others_read(history: Path, damage: bytes | str) -> None:
    whole = len(list(History(history).polls()))
    victim = sorted(history.rglob("*.parquet"))[3]
    victim.write_bytes(damage if isinstance(damage, bytes) else victim.read_bytes()[:-100])
    found = History(history)

    assert 0 < whole - len(list(found.polls())) <= 8
    (problem,) = found.problems
    assert problem.startswith(f"{victim} was left out: ")
    assert "\n" not in problem


def test_a_file_that_goes_meanwhile_is_left_out(history: Path) -> None:
    found = History(history)
    polls = found.polls()
    next(polls)
    max(history.rglob("*.parquet")).unlink()

    assert len(list(polls)) > 100
    assert len(found.problems) == 1


def test_what_was_recorded_comes_back(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h", state=tmp_path)
    recorder.start()
    odd = state("a\udcff\\", problems=("odd",), verdict=Verdict.AGED, poison=2, place="prod")
    broken = state(
        "b", depth=None, ready=None, hidden=None, oldest_ready_ms=None, broken="no keys", verdict=Verdict.BROKEN,
        place="prod",
    )  # fmt: skip
    recorder.add(polled(odd, broken))
    recorder.add(failed("no route to host", place="else"))
    recorder.close()
    assert recorder.wait(100)
    history = History(tmp_path / "h")
    other = Place("else", PLACE.server, PLACE.ns)

    assert history.places() == [other, PLACE]
    outage, poll = sorted(history.polls(), key=lambda poll: poll.place)
    assert [state_of(row, poll, "prod") for row in poll.rows.to_pylist()] == [odd, broken]
    assert (poll.at_ms, poll.place, poll.thresholds) == (NOON_MS, PLACE, Thresholds())
    assert (outage.place, outage.failure, outage.rows.num_rows) == (other, "no route to host", 0)


def test_what_is_no_history_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"is not a history: rsmq-tui record --out"):
        History(tmp_path)
    (tmp_path / "_schema.json").write_text('{"schema": 9}')
    with pytest.raises(HistoryError, match="has version 9, but this program reads versions up to 1"):
        History(tmp_path)


def test_an_empty_history_has_no_span(tmp_path: Path) -> None:
    ClockedWriter(tmp_path, tmp_path).writer.close()
    history = History(tmp_path)

    assert (history.span(), history.places(), list(history.polls()), history.problems) == (None, [], [], [])


def test_a_day_that_is_removed_while_it_is_listed_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = ClockedWriter(tmp_path, tmp_path)
    for day in range(3):
        clocked.poll(NOON_MS + day * DAY_MS)
    clocked.writer.close()
    listed = FolderStore(tmp_path)
    days = [file.day for file in listed.files("samples")]
    assert len(days) == 3
    real = Path.iterdir

    def removed(path: Path) -> Iterator[Path]:
        if path.name.startswith("day="):
            if path.name == f"day={days[0]}":
                raise FileNotFoundError(path)
            return real(path)
        return iter(sorted(real(path)))

    monkeypatch.setattr(Path, "iterdir", removed)
    assert [file.day for file in listed.files("samples")] == days[1:]
