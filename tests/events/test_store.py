"""The file of events: its limit, several writers, and files that are locked, damaged, somebody else's or full."""

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rsmq_tui import sqlite_file
from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.events.store import EventStore, EventStoreError
from rsmq_tui.monitor import Verdict
from tests.cli.running import printed
from tests.events.made import NOON_MS, SERVER, event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "events.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    with closing(EventStore(path, writer="one")) as opened:
        yield opened


@pytest.fixture
def other(path: Path, store: EventStore) -> Iterator[EventStore]:
    with closing(EventStore(path, writer="other")) as opened:
        yield opened


def test_what_is_written_is_read(store: EventStore, path: Path) -> None:
    events = [
        event(1, details={"depth": 3, "names": ["\udcff"]}),
        event(2, "\udcff\x1b[31m", ns="n\n", text="a \udcff name", run_id="a" * 40),
        event(3, None, kind=EventKind.EVICTED, severity=Severity.WARNING),
    ]
    assert store.write(events) == 3

    assert [stored.event for stored in store.last(10)] == events
    assert [stored.event for stored in store.last(1)] == events[2:]
    assert [stored.event for stored in store.last(10, since_ms=NOON_MS + 2_000)] == events[1:]
    assert [stored.event for stored in store.after(1)] == events[1:]
    assert store.newest_id() == 3
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_page_cache_does_not_grow_with_the_log(store: EventStore) -> None:
    # In KB if it is negative; 2,000 is what SQLite takes otherwise.
    assert store.db.execute("PRAGMA cache_size").fetchone()[0] == -256


def test_times_that_fit_in_no_column_are_cut(store: EventStore) -> None:
    store.write([event(at_ms=10**30)])

    (stored,) = store.last(1)
    assert stored.event.at_ms == 1 << 62


def test_the_oldest_go(path: Path) -> None:
    with closing(EventStore(path, limit=100)) as store:
        for number in range(30):
            store.write([event(100 * number + each) for each in range(10)])
        found = store.last(1_000)
        assert len(found) == 100
        assert found[0].event.at_ms == NOON_MS + 2_000_000


def test_the_same_event_of_two_dashboards_is_written_once(store: EventStore, other: EventStore) -> None:
    store.write([event()])

    assert other.write([event(2)]) == 0
    store.write([event(kind=EventKind.CREATED)])
    # Each of these is another one.
    assert other.write([event(121, kind=EventKind.CREATED), event(queue="mail"), event(ns="b"), event(same="growing"),
                        event(kind=EventKind.EMPTIED), event(server="redis://elsewhere")]) == 6  # fmt: skip
    # Nobody sees one event twice.
    assert store.write([event()]) == 1


def test_a_verdict_that_two_dashboards_find_at_different_times_is_written_once(
    store: EventStore, other: EventStore
) -> None:
    store.write([event(same="growing")])
    assert other.write([event(53, same="growing")]) == 0

    # It began again.
    store.write([event(60, same="ok")])
    assert other.write([event(70, same="growing")]) == 1
    # What is much later is another one.
    assert store.write([event(191, same="growing")]) == 1


def test_a_verdict_of_a_queue_that_was_created_again_is_another_one(store: EventStore, other: EventStore) -> None:
    store.write([event(), event(10, kind=EventKind.DELETED, same="1")])
    assert other.write([event(20)]) == 1


@pytest.mark.parametrize("kind", [EventKind.CREATED, EventKind.DELETED])
def test_a_list_that_programs_find_or_miss_in_searches_of_their_own_is_written_once(
    store: EventStore, other: EventStore, kind: EventKind
) -> None:
    store.write([event(31, "x", kind=kind, same="None")])

    assert other.write([event(number, "x", kind=kind, same="None") for number in (38, 95)]) == 0
    # Two queues of a name were created at different times.
    assert other.write([event(32, "y", kind=kind, same="1"), event(39, "y", kind=kind, same="2")]) == 2


def test_flapping_that_two_dashboards_find_at_different_times_is_written_once(
    store: EventStore, other: EventStore
) -> None:
    store.write([event(kind=EventKind.FLAPPING, same="")])
    assert other.write([event(71, kind=EventKind.FLAPPING, same="")]) == 0
    assert other.write([event(601, kind=EventKind.FLAPPING, same="")]) == 1


def test_two_dashboards_notice_at_different_times_that_a_server_is_back(store: EventStore, other: EventStore) -> None:
    store.write([event(0, None, kind=EventKind.BACK)])

    assert other.write([event(31, None, kind=EventKind.BACK)]) == 0
    assert other.write([event(40, None, kind=EventKind.BACK)]) == 1


def test_two_names_of_one_server_are_known_by_its_run_id(store: EventStore, other: EventStore) -> None:
    store.write([event(run_id="a" * 40)])

    assert other.write([event(server="redis://localhost:6379/0", run_id="a" * 40)]) == 0
    assert other.write([event(server="redis://localhost:6379/0", run_id="b" * 40)]) == 1


def test_an_event_with_an_id_is_written_once_ever(store: EventStore, other: EventStore) -> None:
    assert store.write([event(), event(60)], uids=["change:1", "change:2"]) == 2
    assert store.write([event(), event(90)], uids=["change:1", "change:3"]) == 1
    assert other.write([event(120)], uids=["change:3"]) == 0


def test_an_event_with_an_id_is_not_written_again_when_it_was_deleted(path: Path) -> None:
    with closing(EventStore(path, limit=100)) as store:
        assert store.write([event(), event(1)], uids=["change:1", "change:2"]) == 2
        store.write(event(10 + number, kind=EventKind.EMPTIED) for number in range(200))

        assert store.write([event(), event(1), event(300)], uids=["change:1", "change:2", "change:3"]) == 1
        assert store.last(1)[0].event == event(300)


def test_two_writers_at_once_lose_and_double_nothing(store: EventStore, other: EventStore) -> None:
    def write(writer: EventStore, name: str) -> None:
        for number in range(50):
            # Verdicts that are far apart may be those of two programs that do not agree.
            each = {"kind": EventKind.EMPTIED, "same": ""}
            writer.write([event(10 * number, **each), event(10 * number, name, **each)])

    threads = [threading.Thread(target=write, args=args) for args in ((store, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = [stored.event.queue for stored in store.last(1_000)]
    assert {name: found.count(name) for name in set(found)} == {"orders": 50, "a": 50, "b": 50}


def test_what_was_told_last(store: EventStore) -> None:
    store.write([event(1), event(2, "mail"), event(3, "gone"), event(4, "other", ns="b")])
    store.write([event(5, "mail", same="ok"), event(6, "gone", kind=EventKind.DELETED, same="1"),
                 event(7, kind=EventKind.FLAPPING)])  # fmt: skip
    assert store.reported_verdicts(SERVER, "rsmq") == {"orders": (Verdict.STALLED, event(1).at_ms)}
    assert not store.was_lost(SERVER)

    store.write([event(8, None, kind=EventKind.LOST)])
    assert store.was_lost(SERVER)
    store.write([event(9, None, kind=EventKind.BACK)])
    assert not store.was_lost(SERVER)


def test_news_of_others_are_noticed_and_silence_costs_no_read(store: EventStore, other: EventStore) -> None:
    assert store.has_news()
    assert not store.has_news()
    other.write([event()])
    assert store.has_news()
    store.write([event(60, same="ok")])
    assert store.has_news()
    assert not store.has_news()


def test_a_locked_file_is_told(store: EventStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_WAIT_S", 0.01)
    with closing(EventStore(path)) as impatient, closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(EventStoreError, match=f"the log of events {path} cannot be used: another program has loc"):
            impatient.write([event()])
        db.execute("ROLLBACK")
        assert impatient.write([event()]) == 1


def test_a_damaged_file_is_told(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database" * 1_000)

    with pytest.raises(EventStoreError) as sent:
        EventStore(path)
    assert str(sent.value) == (
        f"the log of events {path} cannot be used: it is not one of rsmq-tui, or it is damaged; "
        "move it away to start a new one"
    )


def test_somebody_elses_file_is_not_written_to(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE events (id INTEGER PRIMARY KEY)")
    before = path.read_bytes()

    with pytest.raises(EventStoreError, match="it is not one of rsmq-tui"):
        EventStore(path)
    assert path.read_bytes() == before


def test_each_of_thousands_of_queues_in_trouble_is_compared_with_its_own_events(
    store: EventStore, other: EventStore
) -> None:
    def steps_of(writer: EventStore, events: list[Event]) -> int:
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        writer.db.set_progress_handler(count, 100)
        writer.write(events)
        writer.db.set_progress_handler(None, 0)
        return steps

    one, two = ([event(after, f"q{after}-{number}") for number in range(1_000)] for after in (1, 2))

    # The time of both is nearly the same.
    few = steps_of(store, one), steps_of(other, one)
    more = steps_of(store, two), steps_of(other, two)
    assert store.newest_id() == 2_000
    assert max(few) < 2_000
    assert max(more) < 1.5 * max(few)


def test_the_file_of_an_earlier_version_is_used(store: EventStore, path: Path) -> None:
    store.write([event(1)])
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP INDEX events_by_queue; CREATE INDEX events_by_begin ON events (begin_ms); PRAGMA user_version = 1"
        )

    with closing(EventStore(path)) as opened:
        assert [stored.event for stored in opened.last(10)] == [event(1)]
        indexes = {row["name"] for row in opened.db.execute("PRAGMA index_list(events)") if row["origin"] == "c"}
    assert indexes == {"events_by_time", "events_by_queue"}


def test_a_newer_file_is_refused(store: EventStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {EventStore.version + 1}")

    with pytest.raises(EventStoreError, match="was written by a newer rsmq-tui"):
        EventStore(path)


def test_rows_that_are_no_events_are_left_out(store: EventStore, path: Path) -> None:
    store.write([event(number, f"q{number}") for number in range(8)])
    with closing(sqlite3.connect(path)) as db:
        for number, change in enumerate(
            ("kind = 'no such kind'", "details = '['", "queue = 1e12", "severity = ''", "at_ms = 'soon'",
             "text = 10000000000", f"details = '{'[' * 100_000}'"), 1
        ):  # fmt: skip
            db.execute(f"UPDATE events SET {change} WHERE id = {number}")
        db.commit()

    assert [stored.event.queue for stored in store.last(100)] == ["q7"]
    # Nobody is misled by what another program wrote as a verdict.
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE events SET same = 'no verdict'")
        db.commit()
    assert store.reported_verdicts(SERVER, "rsmq") == {}


def test_a_file_that_was_removed_is_told(store: EventStore, path: Path) -> None:
    assert store.is_in_place
    shutil.rmtree(path.parent)

    assert not store.is_in_place
    with pytest.raises(EventStoreError, match="was removed or replaced"):
        store.write([event()])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of file sizes")
def test_a_full_disk_is_told_and_what_was_written_stays(path: Path) -> None:
    # Files may not become longer than this, as on a full disk.
    program = """
import json, resource, sys
from pathlib import Path
from rsmq_tui.events.store import EventStore, EventStoreError
from tests.events.made import event
store = EventStore(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
written, told = 0, ""
for number in range(100_000):
    try:
        written += store.write([event(10 * number, text="x" * 1_000)])
    except EventStoreError as error:
        told = str(error)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
again = store.write([event(10 * number + 5)])
print(json.dumps([written, told, again, len(store.last(100_000))]))
"""
    written, sent, again, there = json.loads(printed(program, path))
    assert written > 10
    assert sent.startswith(f"the log of events {path} cannot be used: ")
    assert (again, there) == (1, written + 1)
