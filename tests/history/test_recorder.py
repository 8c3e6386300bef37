"""The recorder in a program that polls: real servers, outages, several servers, and disks that fail."""

import asyncio
import errno
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import count, pairwise
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.history.names import Place
from rsmq_tui.history.recorder import Pace, RecordedPlace, Recorder, RecordingTotals, record
from rsmq_tui.history.writer import RecordingSettings
from rsmq_tui.monitor import RsmqPoller, Snapshot, Thresholds
from rsmq_tui.monitor.fleet import Fleet
from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.history.made import NOON_MS, failed, left_over, polled, rows_of, state
from tests.waiting import SECONDS_MAX, until, wait_until


def started(out: Path, wall_s: float | None = None) -> Recorder:
    recorder = (
        Recorder(out, RecordingSettings(), state=out)
        if wall_s is None
        else Recorder(out, state=out, wall_s=lambda: wall_s)
    )
    recorder.start()
    return recorder


def ended(recorder: Recorder) -> None:
    recorder.close()
    assert recorder.wait(SECONDS_MAX)


@asynccontextmanager
async def recording(out: Path, *urls: str, ns: str = "rsmq") -> AsyncIterator[Recorder]:
    """Record servers as fast as they answer; the first is `s0`, …"""
    recorder = started(out)
    watched = []
    for number, url in enumerate(urls):
        reader = RsmqReader(url, ns, timeout_s=1)
        place = Place(f"s{number}", reader.label, ns)
        watched.append(RecordedPlace(place, RsmqPoller(reader), RsmqReader(url, ns)))
    stop = asyncio.Event()
    task = asyncio.create_task(record(watched, recorder, Pace(0.01), stop))
    try:
        yield recorder
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS_MAX):
            await task


async def test_what_a_server_holds_is_written_down(redis_url: str, client: Redis, tmp_path: Path) -> None:
    queues = Rsmq(client)
    queues.create_queue("orders", vt=15, delay=0, maxsize=2048)
    queues.send_messages("orders", ["a", "b", "c"])
    queues.receive_message("orders")
    client.sadd("rsmq:QUEUES", b"\xff\x1b[2J")
    async with recording(tmp_path, redis_url) as recorder:
        await until(lambda: recorder.tally.polls >= 5)

    rows = [row for row in rows_of(tmp_path) if row["queue"] == "orders"]
    seen = {
        (r["depth"], r["ready"], r["hidden"], r["totalsent"], r["totalrecv"], r["vt_s"], r["maxsize"]) for r in rows
    }
    assert seen == {(3, 2, 1, 3, 1, 15.0, 2048)}
    assert {row["server"] for row in rows} == {redis_url if redis_url.endswith("/0") else f"{redis_url}/0"}
    assert rows[0]["interval_ms"] is None
    for before, row in pairwise(rows):
        assert row["interval_ms"] == row["at_ms"] - before["at_ms"]
        assert row["oldest_ready_age_ms"] - before["oldest_ready_age_ms"] == row["interval_ms"]
    known = {row["thresholds"] for row in rows_of(tmp_path) if row["queue"] is None}
    assert [json.loads(text) for text in known] == [asdict(Thresholds())]
    broken = [row for row in rows_of(tmp_path) if row["queue"] == "\\xff\x1b[2J"]
    assert {(row["verdict"], row["ready"]) for row in broken} == {("broken", None)}
    assert len(broken) == len(rows) == recorder.tally.polls
    assert left_over(tmp_path) == []


async def test_an_empty_namespace_is_not_a_gap(redis_url: str, tmp_path: Path) -> None:
    async with recording(tmp_path, redis_url, ns="nothing") as recorder:
        await until(lambda: recorder.tally.polls >= 3)

    rows = rows_of(tmp_path)
    assert {(row["queue"], row["status"], row["ns"]) for row in rows} == {(None, "ok", "nothing")}
    assert len(rows) >= 3


async def test_an_outage_is_recorded_as_one_and_delays_no_other(redis_url: str, tmp_path: Path) -> None:
    with EmbeddedServer() as server:
        with Redis.from_url(server.url) as client:
            Rsmq(client).create_queue("orders")
        async with recording(tmp_path, server.url, redis_url) as recorder:
            await until(lambda: recorder.tally.polls >= 10)
            server.stop()
            polls = recorder.tally.polls
            # The other goes on while this one is gone.
            await until(lambda: recorder.tally.polls >= polls + 20)

    rows = [row for row in rows_of(tmp_path) if row["profile"] == "s0"]
    down = [row for row in rows if row["status"] == "down"]
    assert rows[-len(down) :] == down != []
    for row in down:
        known = {name for name, value in row.items() if value is not None}
        assert known == {"at_ms", "recorder", "profile", "server", "ns", "status", "failure", "day"}
        assert 0 <= row["at_ms"] - rows[-len(down) - 1]["at_ms"] < SECONDS_MAX * 1000
    assert len({row["at_ms"] for row in rows_of(tmp_path) if row["profile"] == "s1"}) >= 20


def test_the_time_of_an_outage_is_the_servers(tmp_path: Path) -> None:
    recorder = started(tmp_path, wall_s=1_000.0)
    recorder.add(failed())
    recorder.add(polled(state()))
    recorder.add(failed())
    recorder.add(polled(state(), at_ms=NOON_MS + 9_000))
    recorder.add(polled(state(), at_ms=NOON_MS + 10_000))
    ended(recorder)

    rows = [row for row in rows_of(tmp_path) if row["queue"] is None]
    rows.sort(key=lambda row: (row["at_ms"], row["status"]))
    assert [(row["at_ms"], row["interval_ms"], row["status"]) for row in rows] == [
        (1_000_000, None, "down"), (NOON_MS, None, "down"), (NOON_MS, None, "ok"), (NOON_MS + 9_000, None, "ok"),
        (NOON_MS + 10_000, 1_000, "ok"),
    ]  # fmt: skip


def test_snapshots_of_several_servers_are_taken_apart_and_each_poll_once(tmp_path: Path) -> None:
    fleet, recorder = Fleet(("a", "b")), started(tmp_path)
    for snapshot in (polled(state(), at_ms=1, place="a"), polled(at_ms=2, place="b"), failed(place="b")):
        combined = fleet.combine(snapshot)
        recorder.add(combined)
        recorder.add(combined)
    recorder.add(Snapshot(0, "nothing was polled", "rsmq"))
    ended(recorder)

    polls = sorted((r["profile"], r["status"]) for r in rows_of(tmp_path) if r["queue"] is None)
    assert polls == [("a", "ok"), ("b", "down"), ("b", "ok")]
    assert recorder.tally.polls == 3


def test_a_disk_that_fails_never_reaches_whoever_polls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = started(tmp_path)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        for number in range(5):
            recorder.add(polled(state(), at_ms=NOON_MS + number))
        wait_until(lambda: recorder.tally.lost == 5)
        assert recorder.tally.problem == f"{tmp_path} cannot be written: Input/output error"
    recorder.add(polled(state(), at_ms=NOON_MS + 9))
    wait_until(lambda: recorder.tally.polls == 1 and not recorder.tally.is_failing)
    ended(recorder)

    assert [row["at_ms"] for row in rows_of(tmp_path)] == [NOON_MS + 9] * 2


def test_a_disk_that_hangs_loses_polls_and_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, hangs, may_go_on = started(tmp_path), threading.Event(), threading.Event()
    write = os.write

    def hang(fd: int, data: bytes) -> int:
        hangs.set()
        assert may_go_on.wait(SECONDS_MAX)
        return write(fd, data)

    monkeypatch.setattr(os, "write", hang)
    recorder.add(polled(state(), at_ms=NOON_MS))
    # From here on, the thread takes nothing.
    assert hangs.wait(SECONDS_MAX)
    for number in range(1, 300):
        recorder.add(polled(state(), at_ms=NOON_MS + number))
    assert recorder.tally.lost > 100
    assert recorder.tally.problem == "the disk is too slow: some polls were not recorded"
    may_go_on.set()
    wait_until(lambda: recorder.tally.polls == 300 - recorder.tally.lost)
    recorder.add(polled(state(), at_ms=NOON_MS + 1_000))
    ended(recorder)

    rows = [row for row in rows_of(tmp_path) if row["queue"] is None]
    assert len(rows) == recorder.tally.polls == 301 - recorder.tally.lost
    # Intervals are unknown after lost polls, and not before.
    intervals = [row["interval_ms"] for row in sorted(rows, key=lambda row: row["at_ms"])]
    assert intervals == [None, *([1] * (len(rows) - 2)), None]


def test_a_poll_that_is_refused_while_the_thread_counts_another_one_is_counted(tmp_path: Path) -> None:
    recorder, times_ms = Recorder(tmp_path, state=tmp_path), count(NOON_MS)
    meanwhile: list[Callable[[], None]] = []

    def add() -> None:
        recorder.add(polled(state(), at_ms=next(times_ms)))

    class Interrupted(RecordingTotals):
        """Another thread runs between the read of ``lost`` and its change."""

        @property
        def lost(self) -> int:
            found = self.counted
            if meanwhile:
                meanwhile.pop()()
            return found

        @lost.setter
        def lost(self, value: int) -> None:
            self.counted = value

    recorder._tally = Interrupted()
    # Nothing is open, so nothing can be written. The thread is not started: the queue stays full.
    add()
    work = recorder._work.get()
    assert work is not None
    while not recorder.tally.lost:
        add()
    meanwhile.append(add)
    recorder._guard([work])

    assert recorder.tally.lost == 3


def test_a_reader_meanwhile_never_fails_and_sees_each_row_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, RecordingSettings(seal_rows=8), state=tmp_path)
    recorder.start()
    (tmp_path / "samples").mkdir()
    seen, number = [0], 0
    while recorder.tally.sealed_files < 20:
        if recorder.has_room:
            number += 1
            recorder.add(polled(state("a"), state("b"), at_ms=NOON_MS + number))
        table = ds.dataset(tmp_path / "samples", partitioning="hive", format="parquet").to_table()
        keys = set()
        if table.num_rows:
            keys = set(zip(table["at_ms"].to_pylist(), table["queue"].to_pylist(), strict=True))
        assert len(keys) == table.num_rows
        assert table.num_rows >= seen[-1]
        assert table.num_rows % 3 == 0
        seen.append(table.num_rows)
    ended(recorder)

    assert len(set(seen)) > 3
    assert len(rows_of(tmp_path)) == 3 * number
