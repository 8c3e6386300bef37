"""Playing: as fast as it was asked for, on a clock that the test turns; what is asked for is done in order."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rsmq_tui.history.reading import Poll
from rsmq_tui.history.replay.player import SPEEDS, Player
from rsmq_tui.history.replay.replay import Replay
from tests.history.replayed import NOON_MS, PLACE, STEP_MS, Tape, replay_of, said
from tests.tui.scripted import FakeClock


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tape = Tape(tmp_path_factory.mktemp("recorded"))
    for poll in range(200):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok" if poll < 150 else "aged", depth=poll))
    tape.seal()
    return tape.out


@pytest.fixture
def replay(recorded: Path) -> Replay:
    return replay_of(recorded, from_ms=NOON_MS)


@pytest.mark.parametrize("speed", [1, 60, 600])
async def test_recorded_time_passes_so_many_times_as_fast(replay: Replay, speed: float) -> None:
    clock = FakeClock()
    player = Player(replay, speed=speed, clock=clock)
    for _ in range(4):
        clock.now_s += 0.25
        assert await player.move()
    assert player.position_ms == NOON_MS + 1000 * speed


async def test_paused_no_time_passes_and_none_is_made_up_for(replay: Replay) -> None:
    clock = FakeClock()
    player = Player(replay, playing=False, clock=clock)
    clock.now_s += 100
    assert not await player.move()
    player.set_playing(True)
    clock.now_s += 1
    await player.move()
    assert player.position_ms == NOON_MS + 60_000


async def test_what_nobody_watched_or_took_long_to_read_is_not_made_up_for(replay: Replay) -> None:
    clock = FakeClock()
    player = Player(replay, clock=clock)
    clock.now_s += 50
    await player.move()
    # As much as a tick is.
    assert player.position_ms == NOON_MS + 15_000
    player.seek(NOON_MS)
    clock.now_s += 50
    await player.move()
    assert player.position_ms == NOON_MS


async def test_what_is_asked_for_is_done_in_order(replay: Replay) -> None:
    player = Player(replay, clock=FakeClock())
    player.seek(NOON_MS + 100_000)
    player.step(3)
    player.step(-1)
    assert player.is_busy
    assert await player.move()
    assert not player.is_busy
    # Stepping pauses.
    assert (player.position_ms, player.is_playing) == (NOON_MS + 110_000, False)
    assert player.snapshot.paused
    player.step(2)
    player.seek(NOON_MS)
    await player.move()
    assert player.position_ms == NOON_MS


async def test_speeds_have_bounds_and_steps(replay: Replay) -> None:
    player = Player(replay, speed=45, clock=FakeClock())
    player.change_speed(1)
    assert player.speed == 60
    player.change_speed(-1)
    player.change_speed(-1)
    assert player.speed == 10
    for _ in SPEEDS:
        player.change_speed(1)
    assert player.speed == 3600
    player.set_speed(1_000_000)
    assert player.speed == 3600
    player.set_speed(0)
    assert player.speed == 1


async def test_it_follows_what_is_recorded_until_nothing_more_comes(replay: Replay) -> None:
    clock = FakeClock()
    player = Player(replay, speed=3600, clock=clock)
    for _ in range(8):
        clock.now_s += 1
        await player.move()
    assert (player.position_ms, player.is_playing) == (NOON_MS + 199 * STEP_MS, False)


async def test_a_change_is_told_until_something_else_is_done(replay: Replay) -> None:
    player = Player(replay, clock=FakeClock())
    player.go_to_change(1, (PLACE, "orders"))
    await player.move()
    (change,) = player.outcome.changes
    assert (player.position_ms, change.before, change.after) == (NOON_MS + 150 * STEP_MS, "ok", "aged")
    player.go_to_change(1, (PLACE, "orders"))
    await player.move()
    assert (player.outcome.changes, player.outcome.sought, player.outcome.is_queue) == ((), 1, True)
    player.step(-1)
    await player.move()
    assert (player.outcome.changes, player.outcome.sought) == ((), 0)
    player.go_to_change(-1)
    await player.move()
    assert (player.outcome.turns, player.outcome.sought, player.outcome.is_queue) == ((), -1, False)
    player.go_to_change(1)
    await player.move()
    (turn,) = player.outcome.turns
    assert (turn.incident.queue, turn.incident.worst, turn.is_end) == ("orders", "aged", False)


async def test_asking_again_ends_a_search(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    player = Player(replay, clock=FakeClock())

    def looks_long(direction: int, known: Callable[[int], bool]) -> list[object]:
        assert known(NOON_MS)
        assert player.outcome.looking_ms == NOON_MS
        player.go_to_change(1)
        assert not known(NOON_MS)
        return []

    monkeypatch.setattr(replay, "go_to_incident", looks_long)
    player.go_to_change(1)
    before = player.outcome
    # Before anything was read.
    assert before.looking_ms == player.position_ms
    await player.move()
    assert (player.outcome.looking_ms, player.outcome.sought, player.is_busy) == (None, 0, False)
    assert player.outcome.is_stopped
    player.step(1)
    await player.move()
    assert not player.outcome.is_stopped


async def test_snapshots_come_as_something_changes_and_end_when_it_is_closed(replay: Replay) -> None:
    player = Player(replay, playing=False, clock=FakeClock())
    found = []
    async with asyncio.timeout(100):
        async for snapshot in player.snapshots():
            found.append((snapshot.queues[0].depth, snapshot.paused))
            match len(found):
                case 1:
                    player.step(3)
                case 2:
                    player.step(-1)
                case 3:
                    player.set_playing(True)
                case 4:
                    player.wake()
                case 5:
                    player.close()
    assert found == [(0, True), (3, True), (2, True), (2, False), (2, False)]


async def test_jumps_add_up_and_are_done_in_order(replay: Replay) -> None:
    player = Player(replay, playing=False, clock=FakeClock())
    for _ in range(3):
        player.jump(60_000)
    player.jump(-30_000)
    assert player.is_busy
    assert await player.move()
    assert (player.position_ms, player.is_busy) == (NOON_MS + 150_000, False)
    player.jump(60_000)
    player.seek(NOON_MS)
    player.jump(10_000)
    await player.move()
    assert player.position_ms == NOON_MS + 10_000


async def test_at_the_end_that_was_asked_for_it_plays_on_however_slow(recorded: Path) -> None:
    clock = FakeClock()
    player = Player(replay_of(recorded, from_ms=NOON_MS, to_ms=NOON_MS + 50_000), clock=clock, speed=60)
    clock.now_s += 1
    await player.move()
    assert (player.position_ms, player.is_playing) == (NOON_MS + 50_000, False)
    player.set_speed(1)
    player.set_playing(True)
    for _ in range(4):
        clock.now_s += 0.0003
        await player.move()
    assert player.is_playing
    assert NOON_MS + 50_000 < player.position_ms < NOON_MS + 50_005


async def test_a_step_beyond_the_end_finds_what_was_sealed_meanwhile(tmp_path: Path, recorded: Path) -> None:
    replay = replay_of(shutil.copytree(recorded, tmp_path / "copied"), from_ms=NOON_MS)
    player = Player(replay, playing=False, clock=FakeClock())
    replay.seek(replay.span.to_ms)
    tape = Tape(tmp_path / "copied", first=90)
    tape.poll(NOON_MS + 200 * STEP_MS, said("ok"))
    tape.seal()
    player.step(1)
    await player.move()
    assert player.position_ms == NOON_MS + 200 * STEP_MS


def test_what_is_shown_and_its_moment_go_together(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()
    polls = replay.timeline.polls

    def noted(from_ms: int, to_ms: int) -> Iterator[Poll]:
        seen.add(replay.position_ms)
        return polls(from_ms, to_ms)

    monkeypatch.setattr(replay.timeline, "polls", noted)
    replay.seek(NOON_MS + 100_000)
    # As long as it reads, nothing else is said to be shown.
    assert (seen, replay.position_ms) == ({NOON_MS}, NOON_MS + 100_000)
