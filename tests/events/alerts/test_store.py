"""What was told, in a file that may be locked, damaged, removed, or on a full disk: a sentence, and never a stop."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rsmq_tui import sqlite_file
from rsmq_tui.events.alerts.store import FILE_NAME, KEPT_MS, AlertStore, ReportedCondition, Topic
from tests.cli.running import printed
from tests.monitor.timing import FakeClock

NOW_MS = 1_795_000_000_000
TOPIC = Topic("stalled", "stalled", "prod", "redis://shop:6379/0", "rsmq\udcff")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[AlertStore]:
    found = AlertStore(tmp_path / "state", clock)
    yield found
    found.close()


def test_it_remembers_by_topic_and_queue(store: AlertStore, tmp_path: Path) -> None:
    assert store.begin(TOPIC, {"a\udcff": NOW_MS - 5, "b": NOW_MS}, NOW_MS) == ["a\udcff", "b"]
    assert store.begin(TOPIC._replace(ns="other"), {"b": NOW_MS}, NOW_MS) == ["b"]
    again = AlertStore(tmp_path / "state")

    assert again.load(TOPIC, NOW_MS + 1) == {
        "a\udcff": ReportedCondition(NOW_MS - 5, NOW_MS),
        "b": ReportedCondition(NOW_MS, NOW_MS),
    }
    assert again.load(TOPIC._replace(when="depth > 1"), NOW_MS) == {}
    assert os.name == "nt" or (tmp_path / "state" / FILE_NAME).stat().st_mode & 0o777 == 0o600
    again.close()


def test_only_one_of_two_is_the_first(store: AlertStore, tmp_path: Path) -> None:
    other = AlertStore(tmp_path / "state")
    assert store.begin(TOPIC, {"a": NOW_MS}, NOW_MS) == ["a"]
    assert other.begin(TOPIC, {"a": NOW_MS, "b": NOW_MS}, NOW_MS + 1) == ["b"]
    # What could not be noted before is repeated too.
    lasting = dict.fromkeys("abc", NOW_MS)
    unreported_ms = dict.fromkeys("abc", 60_000)
    assert other.repeat(TOPIC, lasting, unreported_ms, NOW_MS + 60_000) == ["a", "b", "c"]
    assert store.repeat(TOPIC, lasting, unreported_ms, NOW_MS + 61_000) == []
    assert other.end(TOPIC, {"a": NOW_MS}, NOW_MS + 2) == ["a"]
    assert store.end(TOPIC, {"a": NOW_MS, "b": NOW_MS}, NOW_MS + 3) == ["b"]
    # It begins again.
    assert store.begin(TOPIC, {"a": NOW_MS + 9}, NOW_MS + 10) == ["a"]
    assert other.begin(TOPIC, {"a": NOW_MS + 9}, NOW_MS + 10) == []
    other.close()


def test_the_end_of_what_could_not_be_noted_is_news(store: AlertStore) -> None:
    assert store.end(TOPIC, {"a": NOW_MS}, NOW_MS + 1) == ["a"]
    assert store.end(TOPIC, {"a": NOW_MS}, NOW_MS + 2) == []


def test_what_could_not_be_sent_is_taken_back(store: AlertStore) -> None:
    store.begin(TOPIC, {"a": NOW_MS, "b": NOW_MS}, NOW_MS)
    store.begin(TOPIC, {"c": NOW_MS}, NOW_MS + 1)
    store.end(TOPIC, {"b": NOW_MS}, NOW_MS + 5)
    store.take_back(TOPIC, NOW_MS)
    assert set(store.load(TOPIC, NOW_MS + 9)) == {"c"}
    store.take_back(TOPIC, NOW_MS + 5)
    assert set(store.load(TOPIC, NOW_MS + 9)) == {"b", "c"}


def test_a_locked_file_is_told_and_tried_again(
    store: AlertStore, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.begin(TOPIC, {"a": NOW_MS}, NOW_MS)
    store.close()
    monkeypatch.setattr(sqlite_file, "BUSY_WAIT_S", 0.01)
    path = tmp_path / "state" / FILE_NAME
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        # Everything is news.
        assert store.begin(TOPIC, {"a": NOW_MS}, NOW_MS) == ["a"]
        assert store.problem == f"the file of sent alerts {path} cannot be used: another program has locked it"
    assert store.begin(TOPIC, {"a": NOW_MS}, NOW_MS) == ["a"]
    clock.now_s += 30
    assert store.begin(TOPIC, {"a": NOW_MS}, NOW_MS) == []
    assert [store.problem] == [None]


def test_a_damaged_file_is_told_and_left_alone(store: AlertStore, clock: FakeClock, tmp_path: Path) -> None:
    path = tmp_path / "state" / FILE_NAME
    path.parent.mkdir()
    path.write_bytes(b"not a database" * 1_000)

    assert store.load(TOPIC, NOW_MS) == {}
    assert store.end(TOPIC, {"a": NOW_MS}, NOW_MS) == ["a"]
    assert store.problem == (
        f"the file of sent alerts {path} cannot be used: it is not one of rsmq-tui, or it is damaged; "
        "move it away to start a new one"
    )
    assert path.read_bytes() == b"not a database" * 1_000
    path.rename(tmp_path / "away")
    clock.now_s += 30
    assert store.begin(TOPIC, {"a": NOW_MS}, NOW_MS) == ["a"]
    assert store.problem is None


def test_a_file_that_was_removed_begins_anew(store: AlertStore, tmp_path: Path) -> None:
    store.begin(TOPIC, {"a": NOW_MS}, NOW_MS)
    shutil.rmtree(tmp_path / "state")

    # What nobody remembers is told.
    assert store.end(TOPIC, {"a": NOW_MS}, NOW_MS + 1) == ["a"]
    assert store.problem is None


def test_rows_of_another_program_are_left_out(store: AlertStore, tmp_path: Path) -> None:
    store.begin(TOPIC, {"a": NOW_MS, "b": NOW_MS, "c": NOW_MS, "d": NOW_MS}, NOW_MS)
    with closing(sqlite3.connect(tmp_path / "state" / FILE_NAME)) as db:
        for name, change in (("a", "since_ms = 'soon'"), ("b", "queue = 1e12"), ("c", "since_ms = 1e300")):
            db.execute(f"UPDATE told SET {change} WHERE queue = ?", (name.encode(),))
        db.commit()

    assert set(store.load(TOPIC, NOW_MS)) <= {"c", "d"}
    assert store.problem is None


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of file sizes")
def test_a_full_disk_is_told_and_everything_is_news(tmp_path: Path) -> None:
    # Files may not become longer than this, as on a full disk.
    program = """
import json, resource, sys
from pathlib import Path
from rsmq_tui.events.alerts.store import AlertStore
from tests.events.alerts.test_store import NOW_MS, TOPIC
store = AlertStore(Path(sys.argv[1]), lambda: 0.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
number = 0
while store.problem is None:
    number += 1
    found = store.begin(TOPIC, {f"{number} {'x' * 1000}": NOW_MS}, NOW_MS)
print(json.dumps([number, store.problem, len(found)]))
"""
    number, problem, news = json.loads(printed(program, tmp_path))
    assert number > 10
    assert problem.startswith(f"the file of sent alerts {tmp_path / FILE_NAME} cannot be used: ")
    assert news == 1


def test_names_of_queues_whose_alerts_ended_long_ago_are_not_kept(
    store: AlertStore, tmp_path: Path, clock: FakeClock
) -> None:
    days = 30
    for day in range(days):
        now_ms = NOW_MS + day * 86_400_000
        names = {f"q{day}.{number}": now_ms for number in range(10)}
        store.begin(TOPIC, names, now_ms)
        store.end(TOPIC, names, now_ms + 1)
        clock.now_s += 86_400
    store.begin(TOPIC, {"lasts": now_ms}, now_ms)

    with closing(sqlite3.connect(tmp_path / "state" / FILE_NAME)) as db:
        (kept,) = db.execute("SELECT count(*) FROM told").fetchone()
    assert kept == 10 * (KEPT_MS // 86_400_000 + 1) + 1
