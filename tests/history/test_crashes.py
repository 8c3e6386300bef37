"""kill -9 at every step of a recording, a recovery and a compaction.

No file is broken, nothing is doubled, and one poll is lost at most.
"""

import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from rsmq_tui.history.reading import History
from tests.history.crashing import OLD_POLLS, POLLS, Crasher, at_ms, compact_whole, recover
from tests.history.made import left_over, read_by, rows_of, sealed_one_by_one
from tests.killing import forking_from

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def forking() -> Iterator["subprocess.Popen[str]"]:
    with forking_from("tests.history.crashing") as process:
        yield process


@pytest.fixture
def crasher(forking: "subprocess.Popen[str]", tmp_path: Path) -> Crasher:
    return Crasher(forking, tmp_path / "crash")


def begin(crasher: Crasher) -> None:
    shutil.rmtree(crasher.folder, ignore_errors=True)
    crasher.folder.mkdir()


def seen(crasher: Crasher) -> set[int]:
    """The polls that any reader finds, each of them whole and once."""
    rows = rows_of(crasher.folder / "history")
    times = [row["at_ms"] for row in rows if row["queue"] is None]
    for at in times:
        assert [row["queue"] for row in rows if row["at_ms"] == at] == ["q0", "q1", None]
    found = {number for number in range(POLLS) if at_ms(number) in times}
    assert len(found) == len(times)
    return found


def check_all_is_there(crasher: Crasher) -> None:
    found, known = seen(crasher), crasher.polls_on_disk
    recent = {number for number in found if number >= OLD_POLLS}
    assert recent in (set(range(OLD_POLLS, known)), set(range(OLD_POLLS, known + 1)))
    assert left_over(crasher.folder / "history") == []


def test_a_recorder_that_is_killed_loses_one_poll_at_most(crasher: Crasher) -> None:
    for kill_at in count(1):
        begin(crasher)
        killed = crasher.run("record", kill_at)
        seen(crasher)
        recover(crasher.folder)
        check_all_is_there(crasher)
        if not killed:
            assert kill_at > 60
            assert seen(crasher) == set(range(OLD_POLLS, POLLS))
            return


def test_a_recovery_that_is_killed_is_finished_by_another(crasher: Crasher) -> None:
    begin(crasher)
    # In the middle of sealing, with another segment open.
    assert crasher.run("record", 45)
    left = crasher.folder.rename(crasher.folder.with_name("left"))
    for kill_at in count(1):
        shutil.rmtree(crasher.folder, ignore_errors=True)
        shutil.copytree(left, crasher.folder)
        before = crasher.polls_on_disk
        killed = crasher.run("recover", kill_at)
        seen(crasher)
        recover(crasher.folder)
        check_all_is_there(crasher)
        assert before >= OLD_POLLS
        if not killed:
            assert kill_at > 15
            return


def test_a_compaction_that_is_killed_leaves_every_row_once(crasher: Crasher) -> None:
    history, made = crasher.folder / "history", crasher.folder.with_name("made")
    sealed_one_by_one(made, 3)
    expected = read_by(History(made))
    for kill_at in count(1):
        begin(crasher)
        shutil.copytree(made, history)
        killed = crasher.run("compact", kill_at)
        assert read_by(History(history)) == expected
        compact_whole(crasher.folder)
        assert read_by(History(history)) == expected
        assert len(list(history.rglob("*.parquet"))) == 2
        assert left_over(history) == ["compaction"]
        if not killed:
            assert kill_at > 20
            return
