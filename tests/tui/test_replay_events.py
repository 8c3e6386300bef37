"""What a replay shows beside the counts of queues: restarts and evictions in its log, waiting times in its charts."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, closing
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.history.reading import History
from rsmq_tui.history.recorder import Recorder
from rsmq_tui.history.schema import OF_SERVER, SAMPLES, SCHEMAS
from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.monitor.poller import INFO_EVERY_S
from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.protocol.server.status import ServerInfo
from rsmq_tui.triage.journal.journal import user_name
from rsmq_tui.tui.replay.session import events_before, replay_session
from tests.history.operated import operated
from tests.history.replayed import NOON_MS, STEP_MS, Tape, replay_of, said, without
from tests.monitor.test_changes import change, log
from tests.monitor.timing import FakeClock
from tests.servers.real import real_server


def sealed(recorder: Recorder) -> None:
    recorder.close()
    assert recorder.wait(100.0)
    assert recorder.tally.problem is None


async def taken(recorder: Recorder, poller: RsmqPoller, before: Snapshot | None = None) -> Snapshot:
    """Poll and record, a millisecond or more after the poll before: of two within one, only the first is recorded."""
    snapshot = await poller.poll()
    while before is not None and snapshot.at_ms == before.at_ms:
        snapshot = await poller.poll()
    recorder.add(snapshot)
    return snapshot


async def test_a_restart_of_a_real_server(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history", state=tmp_path)
    recorder.start()
    with real_server() as first:
        poller = RsmqPoller(RsmqReader(f"redis://127.0.0.1:{first.port}/0"))
        async with aclosing(poller):
            # INFO is read from the second poll on.
            await taken(recorder, poller, await taken(recorder, poller))
            first.kill()
            recorder.add(await poller.poll())
            with real_server(port=first.port):
                last = await taken(recorder, poller)
    await asyncio.to_thread(sealed, recorder)

    *_, back, restarted = found = events_before(str(tmp_path / "history"), last.at_ms, 900_000)
    assert [event.kind.value for event in found] == ["lost", "back", "restarted"]
    assert last.info is not None
    assert (restarted.at_ms, restarted.run_id) == (last.at_ms, last.info.run_id)
    assert back.at_ms == last.at_ms


async def test_evictions_and_settings_of_a_real_server(tmp_path: Path) -> None:
    recorder, clock = Recorder(tmp_path / "history", state=tmp_path), FakeClock()
    recorder.start()
    with EmbeddedServer() as server, closing(Redis.from_url(server.url)) as client:
        async with aclosing(RsmqPoller(RsmqReader(server.url), clock=clock)) as poller:
            identified = await taken(recorder, poller, await taken(recorder, poller))
            client.config_set("maxmemory-policy", "allkeys-random")
            client.config_set("maxmemory", int(client.info("memory")["used_memory"]) + 500_000)
            for number in range(50):
                client.set(f"filler{number}", "x" * 100_000)
            between = await taken(recorder, poller, identified)
            clock.now_s += INFO_EVERY_S
            last = await taken(recorder, poller, between)
    await asyncio.to_thread(sealed, recorder)

    evicted, changed = events_before(str(tmp_path / "history"), last.at_ms, 900_000)
    assert (evicted.kind, evicted.at_ms) == ("evicted", last.at_ms)
    assert evicted.details["keys"] > 10
    assert (changed.kind, changed.at_ms) == ("config", last.at_ms)
    assert changed.details["maxmemory_policy"]["after"] == "allkeys-random"


async def test_changes_are_in_the_log_of_a_replay(tmp_path: Path) -> None:
    recorded = await operated(tmp_path)
    purged_ms, undone_ms = recorded.changed_ms
    # Of another server, and of a namespace that nobody recorded.
    other = recorded.log.with_name("other.jsonl")
    log(other, change(1, at_ms=purged_ms), change(2, at_ms=purged_ms, server=recorded.server, ns="jobs"))
    logs = [recorded.log, other, tmp_path / "none"]

    async def changes_before(at_ms: int, span_ms: int = 900_000, logs: Sequence[Path] = logs) -> list[str]:
        replaying = replay_session(History(recorded.history, state=tmp_path), change_logs=logs)
        found = events_before(str(recorded.history), at_ms, span_ms, (await replaying.changes()).changes)
        replaying.player.close()
        return [f"{event.at_ms} {event.queue}: {event.text}" for event in found if event.kind == "change"]

    who = user_name()
    purge = f"{purged_ms} orders: change 1, purge: deleted 349 of 349 messages, by {who}"
    undo = f"{undone_ms} orders: change 2, undo: put back 349 of 349 messages, by {who}; undoes change 1"
    assert await changes_before(recorded.last_ms) == [purge, undo]
    assert await changes_before(undone_ms - 1) == [purge]
    assert await changes_before(recorded.last_ms, recorded.last_ms - undone_ms) == [undo]
    assert await changes_before(recorded.last_ms, logs=()) == []


def test_a_failover_and_another_role(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "history")
    for poll in range(8):
        up_s = 3_600 + poll * STEP_MS // 1000
        info = ServerInfo("a" if poll < 4 else "b", up_s, "slave" if poll in (4, 5) else "master", 0)
        tape.poll(NOON_MS + poll * STEP_MS, said("ok"), info=None if poll % 2 else info)
    tape.seal()

    found = events_before(str(tape.out), NOON_MS + 8 * STEP_MS, 900_000)
    assert [(event.kind.value, (event.at_ms - NOON_MS) // STEP_MS, event.run_id) for event in found] == [
        ("failover", 4, "b"), ("role", 6, "b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "how"),
    [("b", "deleted"), ("a", "lost with the restart of the server")],
    ids=["the same process", "another process"],
)
def test_queues_that_a_restart_lost_were_not_deleted(tmp_path: Path, before: str, how: str) -> None:
    tape = Tape(tmp_path / "history")
    tape.poll(NOON_MS, said("ok", depth=3), info=ServerInfo(before, 3_600, "master", 0))
    tape.poll(NOON_MS + STEP_MS, said("ok", depth=4))
    tape.poll(NOON_MS + 2 * STEP_MS, info=ServerInfo("b", 1, "master", 0))
    tape.seal()

    *_, gone = events_before(str(tape.out), NOON_MS + 2 * STEP_MS, 900_000)
    assert (gone.queue, gone.text) == ("orders", f"{how}, with 4 messages at the previous poll")


@pytest.mark.parametrize("missing", [OF_SERVER, OF_SERVER[1:2]])
def test_older_files_and_odd_rows_say_nothing_of_the_server(tmp_path: Path, missing: tuple[str, ...]) -> None:
    tape = Tape(tmp_path / "history")
    for poll in range(2):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok"), info=ServerInfo(f"\x1b{poll}", 1, "master", 2**70 * poll))
    tape.seal()
    without(tape, *missing)

    assert events_before(str(tape.out), NOON_MS + STEP_MS, 900_000) == []


def test_waiting_and_working_times_are_replayed(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "history")
    samples = [FlightTimes(NOON_MS + poll * STEP_MS - 200, 3, 10 + poll, 20, None, 40) for poll in range(10)]
    for poll in range(40):
        # After ten polls no sample was taken.
        at_ms, times = NOON_MS + poll * STEP_MS, samples[min(poll, 9)]
        tape.poll(at_ms, said("ok", "a"), said("ok", "orders", times=times))
    tape.seal()
    replay = replay_of(tape.out, from_ms=NOON_MS + 9 * STEP_MS)

    quiet, orders = replay.snapshot.queues
    assert (quiet.times, orders.times) == (None, samples[9])
    assert replay.snapshot.trend.flights("orders") == samples
    assert replay.snapshot.trend.flights("a") == []
    replay.seek(NOON_MS + 39 * STEP_MS)
    assert replay.snapshot.queues[1].times is None
    assert len(replay.snapshot.trend.flights("orders")) == 10

    without(tape, *(name for name in SCHEMAS[SAMPLES].names if name.startswith(("sampled", "wait_", "work_"))))
    older = replay_of(tape.out, from_ms=NOON_MS + 9 * STEP_MS).snapshot
    assert (older.queues[1].times, older.trend.flights("orders")) == (None, [])
