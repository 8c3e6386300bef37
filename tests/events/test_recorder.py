"""Recording: on a real server, with what the journal and other dashboards write, and with a file that fails."""

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui import sqlite_file
from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.events.model import Event
from rsmq_tui.events.recorder import RECENT, EventRecorder, deletions
from rsmq_tui.events.store import EventStore
from rsmq_tui.monitor import RsmqPoller, Thresholds, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.poller import INFO_EVERY_S
from rsmq_tui.protocol import Failure, Rsmq, RsmqReader
from rsmq_tui.triage.actions import DeleteQueue, Move, Purge
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from tests.events.made import NOON_MS, event, polled, state
from tests.monitor.timing import FakeClock
from tests.servers.real import real_server
from tests.triage.doing import done, undone
from tests.waiting import until, wait_until


class StillSource:
    """A source of which only the thresholds are asked for."""

    thresholds = Thresholds()


STILL: Any = StillSource()


@contextmanager
def recording(folder: Path, **values: Any) -> Iterator[EventRecorder]:
    recorder = EventRecorder(folder, tick_s=0.01, **values)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.close()


def kinds(recorder: EventRecorder) -> list[str]:
    return [event.kind.value for event in recorder.recent]


def written(folder: Path) -> list[Event]:
    with closing(EventStore(folder / "events.sqlite")) as store:
        return [stored.event for stored in store.last(1_000)]


def test_events_are_written_and_shown(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder:
        recorder.observe(polled(state("a")), STILL)
        recorder.observe(polled(state("a", Verdict.BROKEN, broken="it is odd"), s=1), STILL)
        wait_until(lambda: recorder.recent)
    assert [event.text for event in written(tmp_path)] == ["broken: it is odd"]

    # The next run knows it.
    with recording(tmp_path) as recorder:
        recorder.observe(polled(state("a", Verdict.BROKEN, broken="it is odd"), s=2), STILL)
        recorder.observe(polled(state("a", depth=1), s=3), STILL)
        recorder.observe(polled(state("a", depth=1), s=40), STILL)
        wait_until(lambda: len(recorder.recent) == 2)
    assert [event.text for event in written(tmp_path)] == [
        "broken: it is odd",
        "ok, was broken for 2 s: nothing is wrong",
    ]


def test_the_events_of_more_queues_than_are_kept_in_memory(tmp_path: Path) -> None:
    names = [f"q{number:05}" for number in range(12_000)]
    with recording(tmp_path) as recorder:
        recorder.observe(polled(*map(state, names)), STILL)
        broken = (state(name, Verdict.BROKEN, broken="it is odd") for name in names)
        recorder.observe(polled(*broken, s=1), STILL)
        wait_until(lambda: recorder.recent)
        assert [event.queue for event in recorder.recent] == names[-RECENT:]
    with closing(EventStore(tmp_path / "events.sqlite")) as store:
        assert [stored.event.queue for stored in store.last(20_000)] == names


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder:
        recorder.observe(polled(state("a")), STILL)
        recorder.observe(polled(state("a"), state("b"), s=1), STILL)
        wait_until(lambda: recorder.recent)
        with closing(sqlite3.connect(recorder.path)) as db:
            before = db.execute("PRAGMA data_version").fetchone()
            revision = recorder.revision
            last = polled(state("a"), state("b"), state("c"), s=100)
            for s in range(2, 100):
                recorder.observe(polled(state("a"), state("b"), s=s), STILL)
                wait_until(lambda: not recorder._work)
            assert db.execute("PRAGMA data_version").fetchone() == before
            assert recorder.revision == revision
            recorder.observe(last, STILL)
            wait_until(lambda: len(recorder.recent) == 2)


def test_what_another_dashboard_records_is_shown(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder, closing(EventStore(tmp_path / "events.sqlite", writer="other")) as other:
        other.write([event()])
        wait_until(lambda: recorder.recent)
        assert list(recorder.recent) == [event()]


def test_a_namespace_that_is_switched_is_no_news(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder:
        recorder.observe(polled(state("a")), STILL)
        recorder.observe(replace(polled(state("b"), s=1), ns="other"), STILL)
        recorder.observe(replace(polled(state("b"), state("c"), s=2), ns="other"), STILL)
        wait_until(lambda: recorder.recent)
    assert [(event.ns, event.queue) for event in written(tmp_path)] == [("other", "c")]


async def test_changes_are_taken_from_the_journal_once(redis_url: str, client: Redis, tmp_path: Path) -> None:
    queues = Rsmq(client)
    queues.create_queue("orders")
    queues.send_messages("orders", ["1", "2", "3"])
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), tmp_path)
    with recording(tmp_path) as recorder:
        await done(service, Purge(queue="orders"))
        await until(lambda: recorder.recent)
        queues.send_messages("orders", ["4", "5"])
        await done(service, DeleteQueue(queue="orders"))
        await until(lambda: len(recorder.recent) == 2)
    await service.aclose()

    with recording(tmp_path) as recorder:
        wait_until(lambda: len(recorder.recent) == 2)
    purged, deleted = written(tmp_path)
    assert (purged.kind, purged.queue, purged.ns, purged.details["change"]) == ("change", "orders", "rsmq", 1)
    assert purged.text.startswith("change 1, purge: deleted 3 of 3 messages, by ")
    assert deleted.text.startswith("change 2, delete-queue: deleted 3 of 3: the queue and its messages, by ")
    # Whether they can be undone is not certain later.
    assert not any("undo" in event.text for event in (purged, deleted))


async def test_a_queue_that_an_undo_removes_names_the_undo(
    live: RsmqPoller, redis_url: str, client: Redis, tmp_path: Path
) -> None:
    queues = Rsmq(client)
    queues.create_queue("orders")
    ids = queues.send_messages("orders", ["1", "2", "3"])
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), tmp_path)
    await done(service, Move(queue="orders", target="parked", create=True))
    with recording(tmp_path) as recorder:
        recorder.observe(await live.poll(), live)
        await service.run(await service.preview_undo(1, scope=Named(tuple(ids[:1])))).to_end()
        # The undo of a part leaves the queue: somebody else deletes it then.
        assert deletions(tmp_path / "journal.sqlite", await live.poll(), ["parked"]) == {}
        await undone(service, 1)
        queues.create_queue("mail")
        snapshot = await live.poll()
        recorder.observe(snapshot, live)
        await until(lambda: "deleted" in kinds(recorder))
        undo = {"parked": "deleted by change 3, which undoes change 1"}
        assert deletions(tmp_path / "journal.sqlite", snapshot, ["parked", "mail"]) == undo
        late = replace(snapshot, at_ms=snapshot.at_ms + 61_000)
        assert deletions(tmp_path / "journal.sqlite", late, ["parked"]) == {}
        queues.delete_queue("mail")
        recorder.observe(await live.poll(), live)
        await until(lambda: kinds(recorder).count("deleted") == 2)
        await recorder.aclose()
    await service.aclose()
    assert {event.queue: event.text for event in written(tmp_path) if event.kind == "deleted"} == {
        "parked": "deleted by change 3, which undoes change 1; it held 3 messages at the previous poll",
        "mail": "deleted, with 0 messages at the previous poll",
    }


async def test_an_undo_that_restores_a_queue_is_not_named_when_another_client_deletes_it(
    live: RsmqPoller, redis_url: str, client: Redis, tmp_path: Path
) -> None:
    queues = Rsmq(client)
    queues.create_queue("orders")
    queues.send_messages("orders", ["1", "2", "3"])
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), tmp_path)
    await done(service, DeleteQueue(queue="orders"))
    await undone(service, 1)
    await done(service, Purge(queue="orders"))
    await undone(service, 3)
    before = await live.poll()
    queues.delete_queue("orders")
    after = await live.poll()
    journal = tmp_path / "journal.sqlite"
    assert ([queue.name for queue in before.queues], after.queues) == (["orders"], ())
    assert deletions(journal, after, ["orders"]) == {}
    queues.create_queue("orders")
    queues.delete_queue("orders")
    await undone(service, 4)
    # Making the purge again deletes no queue, and making the deletion again finds none that it could delete.
    assert deletions(journal, await live.poll(), ["orders"]) == {}
    await service.aclose()


async def test_a_redo_that_deletes_a_queue_again_is_named(
    live: RsmqPoller, redis_url: str, client: Redis, tmp_path: Path
) -> None:
    Rsmq(client).create_queue("orders")
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), tmp_path)
    await done(service, DeleteQueue(queue="orders"))
    await undone(service, 1)
    await undone(service, 2)
    snapshot = await live.poll()
    assert not snapshot.queues
    redo = {"orders": "deleted by change 3, which undoes change 2"}
    assert deletions(tmp_path / "journal.sqlite", snapshot, ["orders"]) == redo
    await service.aclose()


def test_a_locked_file_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_WAIT_S", 0.01)
    clock = FakeClock()
    with recording(tmp_path, clock=clock) as recorder:
        wait_until(recorder.path.exists)
        recorder.observe(polled(state("a")), STILL)
        wait_until(lambda: not recorder._work)
        with closing(sqlite3.connect(recorder.path, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            recorder.observe(polled(state("a"), state("b"), s=1), STILL)
            wait_until(lambda: recorder.problem)
            assert recorder.problem.endswith("another program has locked it")
            # It is shown all the same, and written later.
            wait_until(lambda: kinds(recorder) == ["created"])
            db.execute("ROLLBACK")
        clock.now_s += 31
        wait_until(lambda: recorder.problem is None)
        assert kinds(recorder) == ["created"]
    assert [event.queue for event in written(tmp_path)] == ["b"]


def test_a_damaged_file_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "events.sqlite").write_bytes(b"nothing" * 1_000)
    with recording(tmp_path) as recorder:
        recorder.observe(polled(state("a")), STILL)
        recorder.observe(polled(state("a"), state("b"), s=1), STILL)
        wait_until(lambda: recorder.recent)
        assert "or it is damaged; move it away to start a new one" in str(recorder.problem)


def test_a_file_that_was_removed_is_begun_anew(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder:
        recorder.observe(polled(state("a")), STILL)
        recorder.observe(polled(state("a"), state("b"), s=1), STILL)
        wait_until(lambda: recorder.recent)
        for path in tmp_path.iterdir():
            path.unlink()
        recorder.observe(polled(state("a"), s=2), STILL)
        wait_until(lambda: kinds(recorder) == ["deleted"])
    assert [event.queue for event in written(tmp_path)] == ["b"]


def test_a_defect_is_told_and_ends_nothing(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder:
        recorder.observe(polled(state("a")), object())  # type: ignore[arg-type]
        wait_until(lambda: recorder.problem)
        assert str(recorder.problem).startswith("an event was not recorded: AttributeError")
        assert recorder._thread.is_alive()


@pytest.fixture
async def live(redis_url: str) -> AsyncIterator[RsmqPoller]:
    async with aclosing(RsmqPoller(RsmqReader(redis_url))) as poller:
        yield poller


async def test_queues_on_a_real_server(live: RsmqPoller, client: Redis, tmp_path: Path) -> None:
    hostile = "\x1b]0;x\x07"
    queues = Rsmq(client)
    queues.create_queue("orders")
    with recording(tmp_path) as recorder:
        recorder.observe(await live.poll(), live)
        queues.set_queue_attributes("orders", vt=77)
        queues.create_queue("mail")
        client.sadd("rsmq:QUEUES", hostile)
        recorder.observe(await live.poll(), live)
        queues.delete_queue("mail")
        recorder.observe(await live.poll(), live)
        await until(lambda: len(recorder.recent) >= 5)
        await recorder.aclose()
    found = written(tmp_path)
    assert {(event.kind.value, event.queue) for event in found} == {
        ("created", "mail"), ("created", hostile), ("attributes", "orders"), ("verdict", hostile), ("deleted", "mail"),
    }  # fmt: skip
    assert "vt 30 s to 77 s" in {event.text for event in found}
    assert all(abs(event.at_ms - time.time() * 1000) < 3_600_000 for event in found)


async def test_a_restart_with_another_run_id(tmp_path: Path) -> None:
    clock = FakeClock()
    with recording(tmp_path, clock=clock) as recorder:
        with real_server() as first:
            url = f"redis://127.0.0.1:{first.port}/0"
            poller = RsmqPoller(RsmqReader(url))
            async with aclosing(poller):
                await poller.poll()
                before = await poller.poll()
                recorder.observe(before, poller)
                await until(lambda: recorder.run_id(before.server))
                was = recorder.run_id(before.server)
                first.kill()
                recorder.observe(await poller.poll(), poller)
                with real_server(port=first.port):
                    recorder.observe(await poller.poll(), poller)
                    await until(lambda: len(recorder.recent) == 3)
        await recorder.aclose()
    lost, back, restarted = written(tmp_path)
    assert (lost.kind, back.kind, restarted.kind) == ("lost", "back", "restarted")
    assert restarted.details["before"] == was == lost.run_id
    assert restarted.run_id not in ("", was)


async def test_evictions(tmp_path: Path) -> None:
    clock = FakeClock()
    with EmbeddedServer() as server, Redis.from_url(server.url) as client, recording(tmp_path, clock=clock) as recorder:
        async with aclosing(RsmqPoller(RsmqReader(server.url), clock=clock)) as poller:
            used = int(client.info("memory")["used_memory"])
            client.config_set("maxmemory-policy", "allkeys-random")
            client.config_set("maxmemory", used + 500_000)
            await poller.poll()
            first = await poller.poll()
            recorder.observe(first, poller)
            await until(lambda: recorder.run_id(first.server))
            for number in range(50):
                client.set(f"filler{number}", "x" * 100_000)
            clock.now_s += INFO_EVERY_S
            recorder.observe(await poller.poll(), poller)
            await until(lambda: recorder.recent)
            await recorder.aclose()
    (found,) = written(tmp_path)
    assert found.kind == "evicted"
    assert found.details["keys"] > 10


async def test_settings_that_are_changed(tmp_path: Path) -> None:
    clock = FakeClock()
    with EmbeddedServer() as server, Redis.from_url(server.url) as client, recording(tmp_path, clock=clock) as recorder:
        client.config_set("maxmemory-policy", "noeviction")
        async with aclosing(RsmqPoller(RsmqReader(server.url), clock=clock)) as poller:
            await poller.poll()
            first = await poller.poll()
            recorder.observe(first, poller)
            await until(lambda: recorder.run_id(first.server))
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.config_set("maxmemory", 100 << 20)
            clock.now_s += INFO_EVERY_S
            recorder.observe(await poller.poll(), poller)
            await until(lambda: recorder.recent)
            await recorder.aclose()
    (found,) = written(tmp_path)
    assert (found.kind, found.severity, found.queue) == ("config", "warning", None)
    assert found.text == "maxmemory unlimited to 100.0 MiB, maxmemory-policy noeviction to allkeys-lru"
    assert found.details == {
        "maxmemory": {"before": 0, "after": 100 << 20},
        "maxmemory_policy": {"before": "noeviction", "after": "allkeys-lru"},
    }


def test_maintenance_is_recorded_once_also_while_the_server_is_lost(tmp_path: Path) -> None:
    now_s = NOON_MS / 1000
    expected = Expected((), ((NOON_MS + 60_000, NOON_MS + 120_000),))
    lost = Failure("refused", "connection refused", "")

    def observe(recorder: EventRecorder, failure: Failure | None = None) -> None:
        # Two places of a server.
        for place in ("rsmq", "lists"):
            recorder.observe(polled(state("a"), place=place, failure=failure), STILL, expected)

    with recording(tmp_path, wall_s=lambda: now_s) as one:
        observe(one)
        wait_until(lambda: not one._work)
        now_s += 61
        observe(one, lost)
        wait_until(lambda: "maintenance" in kinds(one))
        # Another dashboard is started meanwhile.
        with recording(tmp_path, wall_s=lambda: now_s) as other:
            observe(other)
            wait_until(lambda: not other._work)
            now_s += 60
            observe(one)
            wait_until(lambda: kinds(one).count("maintenance") == 2)
            observe(other)
    found = [event for event in written(tmp_path) if event.kind == "maintenance"]
    assert [event.at_ms - NOON_MS for event in found] == [60_000, 120_000]
    assert found[0].text.startswith("maintenance until ")
    assert [event.text for event in found[1:]] == ["maintenance is over"]
    assert {event.severity for event in found} == {"info"}


async def test_info_that_is_not_allowed_leaves_the_rest(redis_url: str, client: Redis, tmp_path: Path) -> None:
    client.acl_setuser("watcher", enabled=True, passwords=["+x"], keys=["*"], channels=["*"],
                       categories=["+@all"], commands=["-info"])  # fmt: skip
    url = redis_url.replace("redis://", "redis://watcher:x@")
    with recording(tmp_path) as recorder:
        async with aclosing(RsmqPoller(RsmqReader(url))) as poller:
            recorder.observe(await poller.poll(), poller)
            Rsmq(client).create_queue("orders")
            recorder.observe(await poller.poll(), poller)
            await until(lambda: recorder.recent)
            await recorder.aclose()
        assert recorder.problem is None
    assert [event.kind for event in written(tmp_path)] == ["created"]
