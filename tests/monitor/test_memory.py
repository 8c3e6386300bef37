"""What is kept of a place across restarts: what goes on, and what starts anew."""

import json
import os
import random
import sqlite3
import stat
import zlib
from array import array
from collections.abc import Callable
from contextlib import aclosing, closing
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from rsmq_tui.monitor import RsmqPoller, Thresholds, Verdict
from rsmq_tui.monitor.tracking import memory
from rsmq_tui.monitor.tracking.memory import EVERY_MS, KEPT_MS, Memory
from rsmq_tui.monitor.tracking.place_tracker import PlaceMemory
from rsmq_tui.monitor.tracking.trend import Sums
from rsmq_tui.protocol import Flight, Rsmq, RsmqReader
from tests.monitor.batches import far_batches, follow
from tests.monitor.list_rows import ListFlow, ScriptedLists, filled
from tests.monitor.memories import MOMENT, began, run
from tests.monitor.rows import START_MS, Flow, Scripted
from tests.monitor.timing import FakeClock

pytestmark = pytest.mark.slow

MINUTE_S, HOUR_S = 60, 3600
LATER_MS = START_MS + 110_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "memory"


async def restarted(folder: Path, before: Memory, watched: Scripted, *, after_s: float) -> tuple[Memory, Scripted]:
    """Let a dashboard end, and another one start that much later."""
    await before.aclose(watched.tracker)
    assert before.problem is None
    new = type(watched)()
    return await began(folder, new, at_ms=watched.at_ms + round(after_s * 1000)), new


async def restarted_lists(folder: Path, before: Memory, watched: ScriptedLists) -> ScriptedLists:
    _, new = await restarted(folder, before, watched, after_s=MINUTE_S)
    assert isinstance(new, ScriptedLists)
    return new


class TestQueues:
    async def test_a_stalled_queue_is_stalled_since_the_same_time(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=10, received=5, deleted=5)
        first = await began(folder, watched)
        flow.move(received=1)
        watched.poll_one(flow.row())
        stalled = watched.run(flow, seconds=100)
        _, watched = await restarted(folder, first, watched, after_s=20 * MINUTE_S)
        again = watched.poll_one(flow.row(), after_s=0)

        assert stalled.verdict is again.verdict is Verdict.STALLED
        assert again.since_ms == stalled.since_ms
        assert again.idle_since_ms == stalled.idle_since_ms
        assert again.is_idle_longer == stalled.is_idle_longer

    async def test_a_receive_meanwhile_ends_it(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=10)
        first = await began(folder, watched)
        assert watched.run(flow, seconds=100).verdict is Verdict.STALLED
        _, watched = await restarted(folder, first, watched, after_s=20)
        flow.move(received=1)
        again = watched.poll_one(flow.row(), after_s=0)

        assert again.verdict is Verdict.STALLED
        assert again.pending_since_ms == watched.at_ms
        assert not watched.run(flow, seconds=31, received=1).verdict.is_trouble

    async def test_what_recovers_clears_after_the_same_delay(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=10, hidden=1)
        first = await began(folder, watched)
        watched.run(flow, seconds=100)
        flow.move(received=1)
        recovering = watched.run(flow, seconds=20)
        _, watched = await restarted(folder, first, watched, after_s=5)
        again = watched.poll_one(flow.row(), after_s=0)

        assert recovering.pending_until_ms is not None
        assert (again.verdict, again.pending_until_ms) == (Verdict.STALLED, recovering.pending_until_ms)

    @pytest.mark.parametrize(("taken", "goes_on"), [(0, True), (4000, False)])
    async def test_a_queue_that_still_grows_has_grown_all_the_time(
        self, folder: Path, taken: int, *, goes_on: bool
    ) -> None:
        watched, flow = Scripted(), Flow()
        first = await began(folder, watched)
        growing = watched.run(flow, seconds=200, sent=20, received=1)
        _, watched = await restarted(folder, first, watched, after_s=30)
        flow.move(received=taken, deleted=taken)
        again = watched.run(flow, seconds=130, sent=20, received=1)

        assert growing.verdict is again.verdict is Verdict.GROWING
        assert (again.since_ms == growing.since_ms) is goes_on
        assert growing.is_since_longer
        assert again.is_since_longer

    @pytest.mark.parametrize("rested_s", [1, 60])
    async def test_whether_it_grew_before_monitoring_is_known(self, folder: Path, rested_s: int) -> None:
        watched, flow = Scripted(), Flow()
        first = await began(folder, watched)
        watched.run(flow, seconds=rested_s, sent=1, received=1, deleted=1)
        growing = watched.run(flow, seconds=200, sent=20, received=1)
        _, watched = await restarted(folder, first, watched, after_s=30)
        again = watched.run(flow, seconds=130, sent=20, received=1)

        assert (again.since_ms, again.verdict) == (growing.since_ms, Verdict.GROWING)
        assert growing.is_since_longer is again.is_since_longer is (rested_s == 1)

    async def test_a_queue_that_grows_in_batches_goes_on_growing(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow()
        first = await began(folder, watched)
        depths = far_batches(150, 0.2, 14 * 150)
        for poll, depth in enumerate(depths[:-20]):
            growing = follow(watched, flow, depth)
            if poll % 6 == 0:
                await kept(first, watched)
        _, watched = await restarted(folder, first, watched, after_s=5)
        again = [follow(watched, flow, depth) for depth in depths[-19:]]

        assert growing.verdict is Verdict.GROWING
        assert {state.verdict for state in again[2:]} == {Verdict.GROWING}
        assert again[-1].since_ms == growing.since_ms

    async def test_poison_messages_are_known(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=10, received=50)
        first = await began(folder, watched)
        watched.poll_one(flow.row())
        watched.tracker.store_receive_counts(["q"], [(10, 2, 7)])
        poisoned = watched.poll_one(flow.row())
        _, watched = await restarted(folder, first, watched, after_s=20)
        again = watched.poll_one(flow.row(), after_s=0)

        assert (again.verdict, again.poison, again.highest_rc) == (Verdict.POISONED, 2, 7)
        assert (again.since_ms, again.looked_all_ms) == (poisoned.since_ms, poisoned.looked_all_ms)
        watched.tracker.store_receive_counts(["q"], [(10, 0, 1)])
        assert watched.poll_one(flow.row()).poison == 0

    async def test_nothing_that_happened_meanwhile_is_a_rate(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow()
        first = await began(folder, watched)
        watched.run(flow, seconds=300, sent=10)
        _, watched = await restarted(folder, first, watched, after_s=40)
        flow.move(sent=1_000_000)
        again = watched.poll_one(flow.row(), after_s=0)
        watched.run(flow, seconds=60, sent=10)
        trend = watched.tracker.trend

        assert (again.arrivals_s, again.deletes_s, again.receives_s, again.drain_s) == (None,) * 4
        assert set(trend.arrivals("q")) == {None, 10}
        assert {point.arrivals_s for point in trend.totals} <= {None, 10}

    @pytest.mark.parametrize(
        "new",
        [Flow(sent=3, head_ms=LATER_MS), Flow(sent=2_000, received=3_000, deleted=1_990)],
        ids=["lower counters", "higher ones"],
    )
    async def test_a_queue_that_was_created_again_is_a_new_one(self, folder: Path, new: Flow) -> None:
        watched, flow = Scripted(), Flow(sent=1_000, received=1_000, deleted=990)
        first = await began(folder, watched)
        flow.move(received=1)
        stalled = watched.run(flow, seconds=100)
        _, watched = await restarted(folder, first, watched, after_s=MINUTE_S)
        again = watched.poll_one(new.row(created=b"1749999999"), after_s=0)

        assert stalled.verdict is Verdict.STALLED
        assert again.since_ms is None or again.since_ms != stalled.since_ms
        assert again.idle_since_ms is None or again.idle_since_ms != stalled.idle_since_ms
        assert again.arrivals_s is None

    async def test_a_queue_that_is_gone_is_forgotten(self, folder: Path) -> None:
        watched = Scripted()
        first = await began(folder, watched)
        watched.poll({"a": Flow(sent=1).row(), "b": Flow(sent=2).row()})
        _, watched = await restarted(folder, first, watched, after_s=MINUTE_S)
        watched.poll({"b": Flow(sent=2).row()}, after_s=0)

        assert list(watched.tracker.trend.series) == ["b"]
        assert watched.totals.depth == 2

    async def test_an_unreadable_queue_and_numbers_without_end(self, folder: Path) -> None:
        watched = Scripted()
        first = await began(folder, watched)
        endless = Flow(sent=1).row(totalsent=b"9" * 30)
        watched.poll({"a": [b"WRONGTYPE", 1], "b": endless, "c": Flow(sent=3).row()})
        _, watched = await restarted(folder, first, watched, after_s=MINUTE_S)
        states = watched.poll({"a": Flow(sent=1).row(), "b": endless, "c": Flow(sent=3).row()}, after_s=0)

        assert [state.depth for state in states.values()] == [1, 1, 3]
        assert watched.tracker.trend.depths("a")[:-1] == [None, None]
        assert watched.tracker.trend.depths("c") == [3, None, 3]


class TestSeries:
    async def test_go_on_with_a_gap(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow()
        now = await began(folder, watched)
        for _ in range(10):
            watched.run(flow, seconds=30, sent=10)
            await kept(now, watched)
        ended_ms = watched.at_ms
        _, watched = await restarted(folder, now, watched, after_s=40)
        watched.run(flow, seconds=30, sent=10)
        points = list(watched.tracker.trend.queue("q"))
        before = [point for point in points if point.at_ms <= ended_ms]
        gap, *after = [point for point in points if point.at_ms > ended_ms]

        assert [later.at_ms - earlier.at_ms for earlier, later in pairwise(before)] == [30_000] * 9
        assert [point.ready for point in before] == [300 * number for number in range(1, 11)]
        assert (gap.at_ms, gap.ready, gap.arrivals_s) == (ended_ms + 1, None, None)
        assert after[0].at_ms >= ended_ms + 40_000
        assert (after[0].ready, after[0].arrivals_s, after[1].arrivals_s) == (3010, None, 10)

    async def test_a_day_of_charts_goes_on_with_a_gap(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow()
        now = await began(folder, watched)
        for _ in range(140):
            for _ in range(2):
                flow.move(sent=30)
                watched.poll_one(flow.row(), after_s=30)
            await kept(now, watched)
        ended_ms, before = watched.at_ms, list(watched.tracker.trend.day.queue("q"))
        assert len(before) > 5
        assert {point.arrivals_s for point in before[1:]} == {1.0}
        now, again = await restarted(folder, now, watched, after_s=600)
        assert list(again.tracker.trend.day.queue("q")) == before
        assert "q" in again.tracker.trend.followed
        # Later than an hour, the hour is lost, and a gap is shown.
        later = Scripted()
        await began(folder, later, at_ms=ended_ms + 3 * KEPT_MS)
        *older, gap = later.tracker.trend.day_of("q")
        assert older == before
        assert (gap.at_ms, gap.ready) == (ended_ms, None)
        # As in a file of an earlier version, and one of which that has deleted the names.
        run(now.path, "UPDATE day SET names = 'x' WHERE slot = (SELECT min(slot) FROM day)")
        earlier = now.load()
        assert earlier is not None
        assert len(earlier.day) == len(older) - 1
        run(now.path, "DROP TABLE day")
        earlier = now.load()
        assert earlier is not None
        assert earlier.day == []

    async def test_no_rate_spans_a_change_of_this_program(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=1_000)
        now = await began(folder, watched)
        for minute in range(3):
            if minute:
                watched.tracker.note_own_change(["q"])
                flow.move(deleted=100)
            for _ in range(60):
                watched.run(flow, seconds=1, sent=2, deleted=1)
                await kept(now, watched)
        now, watched = await restarted(folder, now, watched, after_s=5)
        watched.run(flow, seconds=20, sent=2, deleted=1)
        known = [(point.arrivals_s, point.deletes_s) for point in watched.tracker.trend.queue("q")]

        assert set(known) == {(None, None), (2, 1)}
        await now.aclose(watched.tracker)
        earlier = now.load()
        assert earlier is not None
        assert [at_ms - START_MS for at_ms in earlier.last.changes["q"]] == [61_000, 121_000]
        # As in a file that an earlier version began.
        run(now.path, "DROP TABLE changes")
        earlier = now.load()
        assert earlier is not None
        assert earlier.last.changes == {}

    async def test_sums_go_on_with_a_gap(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow()
        now = await began(folder, watched)
        watched.run(flow, seconds=30, sent=1)
        _, watched = await restarted(folder, now, watched, after_s=40)
        watched.run(flow, seconds=2, sent=1)

        assert [point.ready for point in watched.tracker.trend.totals] == [*range(1, 31), None, 31, 32]

    async def test_times_of_messages_in_flight_go_on(self, folder: Path) -> None:
        def poll() -> None:
            watched.poll({name: flow.row() for name in "ab"}, after_s=10)

        def sample(*names: str) -> list[int]:
            at_ms = watched.at_ms
            flights = [(Flight(b"", b"", b"1", b"%d" % (at_ms - 3_000)),) for _ in names]
            watched.tracker.store_flights(names, flights)
            return [at_ms] * len(names)

        watched, flow = Scripted(), Flow(sent=10, received=5)
        now = await began(folder, watched)
        sampled: list[int] = []
        for _ in range(30):
            poll()
            # As in a poll, where messages are sampled after the moment that is kept.
            await kept(now, watched)
            sampled += sample("a")
        for _ in range(2):
            now, watched = await restarted(folder, now, watched, after_s=40)
            poll()
            sampled += sample("a", "b")[:1]
        flights = watched.tracker.trend.flights("a")

        assert [times.at_ms for times in flights] == sampled
        assert {times.work_p95_ms for times in flights} == {3_000}
        assert [times.at_ms for times in watched.tracker.trend.flights("b")] == sampled[-2:]
        await now.aclose(watched.tracker)
        with closing(sqlite3.connect(now.path)) as db:
            # No sample is kept twice.
            packed = db.execute("SELECT samples FROM flights").fetchall()
            samples = [json.loads(zlib.decompress(each)) for (each,) in packed]
            assert sum(len(each.get("a", ())) for each in samples) == len(sampled)
            # As in a file that an earlier version began.
            db.execute("DROP TABLE flights")
        earlier = now.load()
        assert earlier is not None
        assert earlier.last.flights == {}

    async def test_queues_that_come_and_go_stay_aligned(self, folder: Path) -> None:
        watched = Scripted()
        now = await began(folder, watched)
        for names in ("ab", "b", "bc", "ca"):
            watched.poll({name: Flow(sent=ord(name)).row() for name in names}, after_s=30)
            await kept(now, watched)
        _, watched = await restarted(folder, now, watched, after_s=40)
        watched.poll({name: Flow(sent=ord(name)).row() for name in "abc"}, after_s=0)
        known = {name: watched.tracker.trend.depths(name) for name in "abc"}

        assert {name: [depth is not None for depth in depths] for name, depths in known.items()} == {
            "a": [True, False, False, True, False, True],
            "b": [True, True, True, False, False, True],
            "c": [False, False, True, True, False, True],
        }
        assert {depth for name in "abc" for depth in known[name]} == {None, *map(ord, "abc")}

    async def test_an_hour_is_kept(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=1)
        now = await began(folder, watched)
        for _ in range(2 * HOUR_S // 30):
            watched.poll_one(flow.row(), after_s=30)
            await kept(now, watched)
        _, watched = await restarted(folder, now, watched, after_s=1)
        *times_ms, gap_ms, _ = watched.poll_one(flow.row(), after_s=0) and watched.tracker.trend.times_ms
        steps_ms = [later - earlier for earlier, later in pairwise(times_ms)]

        assert gap_ms - times_ms[0] <= KEPT_MS
        assert gap_ms - times_ms[0] > KEPT_MS - 60_000
        assert steps_ms[-19:] == [30_000] * 19
        assert set(steps_ms[:-21]) == {60_000}

    @pytest.mark.parametrize("away_s", [MINUTE_S, 5 * HOUR_S])
    async def test_the_sums_of_a_day_go_on(self, folder: Path, away_s: int) -> None:
        watched, flow = Scripted(), Flow()
        now = await began(folder, watched)
        for _ in range(3 * HOUR_S // 60):
            flow.move(sent=60, received=20)
            watched.poll(
                {"q": flow.row(), "other": flow.row(), f"q{watched.at_ms // 3_600_000}": flow.row()}, after_s=60
            )
            await kept(now, watched)
        _, watched = await restarted(folder, now, watched, after_s=away_s)
        flow.move(sent=100)
        watched.poll({"new": Flow().row(), "other": Flow().row(), "q": flow.row()}, after_s=0)

        def sums() -> list[Sums]:
            return watched.tracker.trend.sums("q", watched.at_ms, flow.sent, flow.received)

        day = sums()[-1]
        assert 3 * HOUR_S - MINUTE_S <= (day.span_ms - away_s * 1000) // 1000 <= 3 * HOUR_S
        assert day.sent == (day.span_ms - away_s * 1000) // 1000 + 100
        assert not day.whole
        assert watched.tracker.trend.sums("new", watched.at_ms, 0, 0) == []
        # It was created anew: its counters are lower.
        assert watched.tracker.trend.sums("other", watched.at_ms, 0, 0) == []
        # A day later, half an hour is all that the span is longer.
        for _ in range(24 * HOUR_S // 600):
            flow.move(sent=600)
            watched.poll_one(flow.row(), after_s=600)
        day = sums()[-1]
        assert day.whole
        assert 24 * HOUR_S <= day.span_ms // 1000 <= 24 * HOUR_S + 1_800

    async def test_a_file_has_an_hour_and_the_half_hours_of_a_day(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=1)
        now = await began(folder, watched)
        for _ in range(30 * HOUR_S // 300):
            watched.poll_one(flow.row(), after_s=300)
            await kept(now, watched)
        with closing(sqlite3.connect(now.path)) as db:
            times_ms = [at_ms for (at_ms,) in db.execute("SELECT at_ms FROM bucket ORDER BY at_ms")]
        steps_s = [(later - earlier) // 1000 for earlier, later in pairwise(times_ms)]

        assert 24 * HOUR_S <= (times_ms[-1] - times_ms[0]) // 1000 <= 25 * HOUR_S
        assert set(steps_s[:45]) == {1_800}
        assert set(steps_s[-11:]) == {300}

    @pytest.mark.parametrize("after_s", [HOUR_S + 1, -1, -30 * MINUTE_S])
    async def test_what_is_too_old_or_in_the_future_is_not_used(self, folder: Path, after_s: int) -> None:
        watched, flow = Scripted(), Flow(sent=10)
        now = await began(folder, watched)
        watched.run(flow, seconds=100)
        new_memory, watched = await restarted(folder, now, watched, after_s=after_s)

        assert (watched.tracker.trend.times_ms, new_memory.problem) == ([], None)
        watched.poll_one(flow.row(), after_s=0)
        await new_memory.aclose(watched.tracker)
        assert new_memory.problem is None


class TestLists:
    async def test_a_list_whose_next_item_is_the_same_is_stalled_all_the_time(self, folder: Path) -> None:
        watched, flow = ScriptedLists(), filled(5)
        now = await began(folder, watched)
        stalled = watched.go(flow, seconds=100)
        new = await restarted_lists(folder, now, watched)
        again = new.once(flow, after_s=0)

        assert stalled.verdict is again.verdict is Verdict.STALLED
        assert (again.since_ms, again.idle_since_ms) == (stalled.since_ms, stalled.idle_since_ms)

    async def test_one_that_cannot_be_read_costs_the_others_nothing(self, folder: Path) -> None:
        watched, flow, broken = ScriptedLists(), filled(5), [b"WRONGTYPE not a list", None, None, None, None]
        now = await began(folder, watched)
        for _ in range(100):
            stalled = watched.poll({"broken": broken, "q": flow.row(watched.at_ms + 1000)})["q"]
        new = await restarted_lists(folder, now, watched)
        again = new.poll({"broken": broken, "q": flow.row(new.at_ms)}, after_s=0)

        assert (again["broken"].verdict, again["q"].verdict) == (Verdict.BROKEN, Verdict.STALLED)
        assert again["q"].since_ms == stalled.since_ms

    async def test_an_item_that_was_taken_meanwhile_ends_it(self, folder: Path) -> None:
        watched, flow = ScriptedLists(), filled(100)
        now = await began(folder, watched)
        stalled = watched.go(flow, seconds=100)
        new = await restarted_lists(folder, now, watched)
        flow.take(1)
        again = new.once(flow, after_s=0)

        assert stalled.verdict is again.verdict is Verdict.STALLED
        assert again.pending_since_ms == again.idle_since_ms == new.at_ms
        assert not new.go(flow, seconds=31, taken=1, done=1).verdict.is_trouble

    async def test_expired_leases_and_their_reaper_are_known(self, folder: Path) -> None:
        watched, flow = ScriptedLists(), ListFlow(processing=1, leases=[START_MS + 1000])
        now = await began(folder, watched)
        leaking = watched.go(flow, seconds=100)
        new = await restarted_lists(folder, now, watched)
        again = new.once(flow, after_s=0)

        assert leaking.verdict is again.verdict is Verdict.LEAKING
        assert again.since_ms == leaking.since_ms

    async def test_no_file_holds_an_item(self, folder: Path) -> None:
        watched, flow = ScriptedLists(), filled(0)
        flow.ready.append(b"a secret")
        now = await began(folder, watched)
        watched.once(flow)
        await now.aclose(watched.tracker)
        earlier = now.load()

        assert earlier is not None
        assert "secret" not in repr(earlier)


async def kept(now: Memory, watched: Scripted) -> None:
    """Do what follows a poll, and wait for what is written."""
    now.keep(watched.tracker, watched.at_ms)
    if now._saving is not None:
        await now._saving


class TestWriting:
    async def test_is_done_every_half_minute_and_at_the_end(self, folder: Path) -> None:
        watched, flow = Scripted(), Flow(sent=1)
        now = await began(folder, watched)
        written: list[int] = []
        for _ in range(100):
            watched.poll_one(flow.row())
            await kept(now, watched)
            earlier = now.load()
            if earlier is not None and earlier.last.at_ms not in written:
                written.append(earlier.last.at_ms)
        await now.aclose(watched.tracker)
        earlier = now.load()

        assert [at_ms - START_MS for at_ms in written] == [EVERY_MS, 2 * EVERY_MS, 3 * EVERY_MS]
        assert earlier is not None
        assert earlier.last.at_ms == watched.at_ms

    async def test_names_of_any_bytes_come_back(self, folder: Path) -> None:
        names = [b"\xff\x00\n\x1b[2J".decode("utf-8", "surrogateescape"), "a;'\"--", "", "[bold]", "💥" * 300]
        watched = Scripted()
        now = await began(folder, watched)
        watched.poll({name: Flow(sent=len(name)).row() for name in names})
        _, watched = await restarted(folder, now, watched, after_s=1)

        assert sorted(watched.tracker.trend.series) == sorted(names)

    def test_only_the_user_can_read_it_and_its_name_says_nothing(self, folder: Path) -> None:
        now = Memory(folder, "a server", "rsmq")
        now.save(MOMENT)
        (path,) = folder.iterdir()

        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert {stat.S_IMODE(part.stat().st_mode) for part in (folder, folder.parent)} == {0o700}
        assert "server" not in path.name
        assert Memory(folder, "a server", "other").path != path

    def test_files_that_nobody_writes_are_deleted_and_the_oldest_of_too_many(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory, "FOLDER_BYTES_MAX", 2_000)
        folder.mkdir(parents=True)
        now_s = 2_000_000_000
        monkeypatch.setattr("time.time", lambda: now_s)
        for name, age_s in (("a", 10), ("b", 20), ("c", 30), ("d", 90_000)):
            (folder / f"{name}.sqlite").write_bytes(b"x" * 900)
            os.utime(folder / f"{name}.sqlite", (now_s - age_s, now_s - age_s))
        (folder / "notes.txt").write_text("")
        now = Memory(folder, "x")
        now.save(MOMENT)

        assert {path.name for path in folder.iterdir()} == {"a.sqlite", "b.sqlite", "notes.txt", now.path.name}

    def test_an_hour_of_a_thousand_busy_queues_takes_less_than_a_megabyte(self, folder: Path) -> None:
        chance, now = random.Random(1), Memory(folder, "x")
        names = [f"jobs-{number:05d}" for number in range(1000)]
        sent = [chance.randrange(1_000_000) for _ in names]
        for slot in range(130):
            sent = [number + chance.randrange(300) for number in sent]
            depth = array("d", [chance.randrange(1000) for _ in names])
            total = array("d", sent)
            now.save(PlaceMemory(START_MS + slot * EVERY_MS, names, [depth, depth, total, total], [], array("q"), {}))

        assert now.problem is None
        assert now.path.stat().st_size < 1_000_000

    async def test_two_dashboards_share_it(self, folder: Path) -> None:
        flow, one, other = Flow(sent=10), Scripted(), Scripted()
        first = await began(folder, one)
        one.run(flow, seconds=20)
        second = await began(folder, other, at_ms=one.at_ms)
        for _ in range(40):
            one.poll_one(flow.row(), after_s=5)
            other.poll_one(flow.row(), after_s=5)
            await kept(first, one)
            await kept(second, other)
        stalled = one.poll_one(flow.row())
        await first.aclose(one.tracker)
        _, new = await restarted(folder, second, other, after_s=1)
        again = new.poll_one(flow.row(), after_s=0)

        assert (first.problem, second.problem) == (None, None)
        assert (again.verdict, again.since_ms) == (stalled.verdict, stalled.since_ms)
        assert set(new.tracker.trend.depths("q")) == {None, 10}

    async def test_one_that_was_paused_for_long_takes_nothing_from_another(self, folder: Path) -> None:
        flow, one, paused, clock = Flow(sent=10), Scripted(), Scripted(), FakeClock()
        first = await began(folder, one)
        second = Memory(folder, "a server", "rsmq", clock=clock)
        await second.restore(paused.tracker, START_MS)
        for _ in range(240):
            one.poll_one(flow.row(), after_s=30)
            await kept(first, one)
            if one.at_ms - START_MS < 10 * 60_000:
                paused.poll_one(flow.row(), after_s=30)
                await kept(second, paused)
        clock.now_s += 110 * MINUTE_S
        await second.aclose(paused.tracker)
        earlier = first.load()

        assert (first.problem, second.problem) == (None, None)
        assert earlier is not None
        assert earlier.last.at_ms == one.at_ms
        assert earlier.times_ms[-2] - earlier.times_ms[0] > KEPT_MS - MINUTE_S * 1000

    async def test_one_that_was_paused_alone_keeps_what_it_knows(self, folder: Path) -> None:
        flow, paused, clock = Flow(sent=10), Scripted(), FakeClock()
        alone = Memory(folder, "a server", "rsmq", clock=clock)
        await alone.restore(paused.tracker, START_MS)
        paused.run(flow, seconds=100)
        alone.keep(paused.tracker, paused.at_ms)
        paused.run(flow, seconds=5)
        clock.now_s += 20 * MINUTE_S
        _, new = await restarted(folder, alone, paused, after_s=20 * MINUTE_S)

        assert new.poll_one(flow.row(), after_s=0).idle_since_ms == paused.poll_one(flow.row()).idle_since_ms

    async def test_two_with_other_thresholds_have_verdicts_of_their_own(self, folder: Path) -> None:
        flow, usual, patient = Flow(sent=10), Scripted(), Scripted(Thresholds(stalled_ms=HOUR_S * 1000))
        first, second = await began(folder, usual), await began(folder, patient)
        for _ in range(60):
            stalled, calm = usual.poll_one(flow.row(), after_s=5), patient.poll_one(flow.row(), after_s=5)
        await first.aclose(usual.tracker)
        # The last one to write had no trouble.
        await second.aclose(patient.tracker)
        new = Scripted()
        await began(folder, new, at_ms=usual.at_ms + 1000)
        again = new.poll_one(flow.row(), after_s=0)

        assert (stalled.verdict, calm.verdict) == (Verdict.STALLED, Verdict.OK)
        assert (again.verdict, again.idle_since_ms) == (Verdict.STALLED, stalled.idle_since_ms)

    async def test_a_server_whose_nodes_disagree_on_the_time_harms_nothing(self, folder: Path) -> None:
        flow, ahead, behind = Flow(sent=10), Scripted(), Scripted()
        first, second = await began(folder, ahead, at_ms=START_MS + 90_000), await began(folder, behind)
        for _ in range(100):
            for memory_, watched in ((first, ahead), (second, behind)):
                watched.poll_one(flow.row(), after_s=30)
                await kept(memory_, watched)
        await first.aclose(ahead.tracker)
        _, new = await restarted(folder, second, behind, after_s=200)

        assert (first.problem, second.problem) == (None, None)
        times_ms = new.tracker.trend.times_ms
        assert times_ms[-1] - times_ms[0] > 48 * MINUTE_S * 1000
        assert max(later - earlier for earlier, later in pairwise(times_ms)) <= 60_000


def spoil(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("\x1b[2J" * 1000)


class TestPollers:
    @pytest.fixture
    def memory_of(self, folder: Path) -> Callable[[str], Memory]:
        return lambda ns: Memory(folder, "a server", ns)

    async def test_go_on_where_the_last_one_ended(
        self, client: redis.Redis, redis_url: str, memory_of: Callable[[str], Memory]
    ) -> None:
        queues = Rsmq(client)
        queues.create_queue("q")
        queues.send_message("q", "x")
        seen = []
        for polls in (2, 5, 8):
            async with aclosing(RsmqPoller(RsmqReader(redis_url), memory_of=memory_of)) as poller:
                seen += [await poller.poll(), await poller.poll()]
                assert len(seen[-1].trend.totals) == polls

        assert {snapshot.queues[0].idle_since_ms for snapshot in seen} == {seen[0].queues[0].idle_since_ms}
        assert seen[-1].notes == ()

    async def test_each_namespace_has_its_own(
        self, client: redis.Redis, redis_url: str, memory_of: Callable[[str], Memory]
    ) -> None:
        for ns in ("rsmq", "other"):
            Rsmq(client, ns).create_queue(f"of-{ns}")
        async with aclosing(RsmqPoller(RsmqReader(redis_url), memory_of=memory_of)) as poller:
            await poller.poll()
            poller.switch("other")
            other = await poller.poll()
            poller.switch("rsmq")
            back = await poller.poll()

        assert (set(other.trend.series), len(other.trend.totals)) == ({"of-other"}, 1)
        assert (set(back.trend.series), len(back.trend.totals)) == ({"of-rsmq"}, 3)

    async def test_say_what_is_wrong_with_the_file_and_go_on(
        self, client: redis.Redis, redis_url: str, memory_of: Callable[[str], Memory]
    ) -> None:
        Rsmq(client).create_queue("q")
        spoil(memory_of("rsmq").path)
        async with aclosing(RsmqPoller(RsmqReader(redis_url), memory_of=memory_of)) as poller:
            (note,) = (await poller.poll()).notes
            assert len((await poller.poll()).trend.totals) == 2

        assert note.endswith("another program wrote it")

    async def test_a_server_that_does_not_answer_at_first(
        self, client: redis.Redis, redis_url: str, memory_of: Callable[[str], Memory]
    ) -> None:
        Rsmq(client).create_queue("q")
        async with aclosing(RsmqPoller(RsmqReader(redis_url), memory_of=memory_of)) as poller:
            await poller.poll()
        client.acl_setuser("default", enabled=True, nopass=True, commands=["-smembers"])
        try:
            async with aclosing(RsmqPoller(RsmqReader(redis_url), memory_of=memory_of)) as poller:
                assert (await poller.poll()).connection.failure is not None
                client.acl_setuser("default", enabled=True, nopass=True, commands=["+smembers"])
                assert len((await poller.poll()).trend.totals) == 3
        finally:
            client.acl_setuser("default", enabled=True, nopass=True, commands=["+smembers"])
