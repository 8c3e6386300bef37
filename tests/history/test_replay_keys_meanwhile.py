"""Keys that are pressed while a frame is read: what is shown stays, and nothing is undone or made up for."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rsmq_tui.history.replay.player import Player, SeekOutcome
from rsmq_tui.history.replay.replay import Replay
from tests.history.replayed import NOON_MS, STEP_MS, Tape, replay_of, said
from tests.tui.scripted import FakeClock

POLLS = 600


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty minutes, an outage, and as much again."""
    tape = Tape(tmp_path_factory.mktemp("meanwhile"))
    for poll in range(2 * POLLS):
        after_ms = 3_600_000 if poll >= POLLS else 0
        tape.poll(NOON_MS + poll * STEP_MS + after_ms, said("ok", depth=poll))
    tape.seal()
    return tape.out


@pytest.fixture
def replay(out: Path) -> Replay:
    return replay_of(out, from_ms=NOON_MS)


class SlowPlayer:
    """A player at ten times the speed, whose frames take 3 s, and whoever presses keys while one of them is read."""

    def __init__(self, replay: Replay, monkeypatch: pytest.MonkeyPatch, speed: float = 10) -> None:
        self.clock = FakeClock()
        self.replay = replay
        self.player = Player(replay, speed=speed, clock=self.clock)
        self.frame_s = 3.0
        self._is_read, self._may_go_on = threading.Event(), threading.Event()
        self._patch = monkeypatch

    def slow_down(self, method: str) -> None:
        """Let what the replay does there wait for whoever looks on."""
        whole: Callable[..., None] = getattr(self.replay, method)

        def slowly(*args: int) -> None:
            whole(*args)
            self._is_read.set()
            assert self._may_go_on.wait(60)
            self._may_go_on.clear()
            self.clock.now_s += self.frame_s

        self._patch.setattr(self.replay, method, slowly)

    async def frame(self, press: Callable[[], object] = lambda: None, *, waited_s: float = 0.25) -> None:
        """Let a frame be read, and press keys while it is; to the eye nothing moves meanwhile."""
        self.clock.now_s += waited_s
        before_ms = self.player.position_ms
        moving = asyncio.create_task(self.player.move())
        assert await asyncio.to_thread(self._is_read.wait, 60)
        self._is_read.clear()
        press()
        seen_ms = self.player.position_ms
        self._may_go_on.set()
        await moving
        assert seen_ms == before_ms


@pytest.fixture
def slow(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> SlowPlayer:
    slow = SlowPlayer(replay, monkeypatch)
    slow.slow_down("play")
    return slow


async def test_a_pause_stands_at_what_was_shown_when_it_was_pressed(slow: SlowPlayer) -> None:
    player = slow.player
    await slow.frame()
    await slow.frame()
    assert player.position_ms == NOON_MS + 35_000
    shown = player.snapshot
    await slow.frame(lambda: player.set_playing(False))
    assert (player.position_ms, player.is_playing) == (NOON_MS + 35_000, False)
    assert player.snapshot.queues == shown.queues
    assert player.snapshot.at_ms == shown.at_ms
    # And it goes on from there, as if that frame had never been begun.
    player.set_playing(True)
    await slow.frame(waited_s=1)
    assert player.position_ms == NOON_MS + 45_000


async def test_paused_and_played_again_while_a_frame_is_read_it_goes_on_from_what_was_shown(slow: SlowPlayer) -> None:
    player = slow.player

    def press() -> None:
        player.set_playing(False)
        slow.clock.now_s += 100
        player.set_playing(True)

    await slow.frame()
    await slow.frame(press)
    assert (player.position_ms, player.is_playing) == (NOON_MS + 2_500, True)
    await slow.frame()
    assert player.position_ms == NOON_MS + 2_500 + 32_500


async def test_a_step_goes_from_what_was_shown_when_it_was_pressed(slow: SlowPlayer) -> None:
    player = slow.player
    await slow.frame()
    await slow.frame()
    await slow.frame(lambda: player.step(-1))
    await player.move()
    assert (player.position_ms, player.is_playing) == (NOON_MS + 30_000, False)


async def test_an_outage_that_was_not_shown_is_not_told(slow: SlowPlayer) -> None:
    player = slow.player
    player.seek(NOON_MS + (POLLS - 1) * STEP_MS)
    await player.move()
    before_ms = player.position_ms
    await slow.frame(lambda: player.set_playing(False))
    assert (player.position_ms, player.outcome) == (before_ms, SeekOutcome())
    player.set_playing(True)
    await slow.frame()
    assert player.outcome.skipped is not None


@pytest.mark.parametrize("stop", ["pause", "step"])
async def test_a_pause_is_not_undone_where_more_was_recorded_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    tape = Tape(tmp_path)
    for poll in range(20):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll))
    tape.seal()
    slow = SlowPlayer(replay_of(tmp_path, from_ms=NOON_MS), monkeypatch, speed=600)
    player = slow.player
    tape.poll(NOON_MS + 20 * STEP_MS, said("ok", depth=20))
    tape.seal()
    slow.slow_down("refresh")
    await slow.frame((lambda: player.set_playing(False)) if stop == "pause" else lambda: player.step(1), waited_s=1)
    assert not slow.replay.is_at_end
    await player.move()
    assert (player.position_ms, player.is_playing) == (NOON_MS + (STEP_MS if stop == "step" else 0), False)


@pytest.mark.parametrize(("before", "after"), [(10, 30), (30, 10)])
@pytest.mark.parametrize("when", ["while it is read", "then"])
async def test_what_passed_before_another_speed_was_asked_for_counts_as_it_went(
    slow: SlowPlayer, before: float, after: float, when: str
) -> None:
    player = slow.player
    player.set_speed(before)
    slow.frame_s = 8
    if when == "then":
        await slow.frame()
        player.set_speed(after)
    else:
        slow.frame_s = 3

        def press() -> None:
            slow.clock.now_s += 5
            player.set_speed(after)

        await slow.frame(press)
    shown_ms = player.position_ms
    await slow.frame()
    asked_s = 8 * before if when == "then" else 5 * before + 3 * after
    assert player.position_ms - shown_ms == 1000 * (asked_s + 0.25 * after)


async def test_at_another_speed_it_is_measured_anew(slow: SlowPlayer) -> None:
    player = slow.player
    slow.frame_s = 20
    player.set_speed(30)
    await slow.frame()
    await slow.frame()
    assert player.real_speed == pytest.approx(15, rel=0.05)
    # Bounds are no other speed.
    player.set_speed(30)
    assert player.real_speed < 20
    player.set_speed(1)
    assert player.real_speed == 1
    # Neither is it told of a frame that was begun before.
    await slow.frame()
    player.set_speed(30)
    await slow.frame(lambda: player.set_speed(1))
    assert player.real_speed == 1
    slow.frame_s = 0
    for _ in range(8):
        await slow.frame()
        assert player.real_speed == 1


async def test_while_nobody_watched_no_time_passed_and_nothing_was_slow(slow: SlowPlayer) -> None:
    player = slow.player
    slow.frame_s = 5
    await slow.frame()
    shown_ms = player.position_ms
    # The machine slept; one tick of it was meant to be waited for.
    await slow.frame(waited_s=3600)
    assert player.position_ms - shown_ms == (5 + 0.25) * 10_000
    assert player.real_speed == 10


@pytest.mark.parametrize("further_ms", [20_000, 2_000_000])
def test_what_was_played_is_taken_back_and_goes_on_as_if_it_had_not_been(out: Path, further_ms: int) -> None:
    replay, other = replay_of(out, from_ms=NOON_MS), replay_of(out, from_ms=NOON_MS)
    for each in (replay, other):
        each.play(600_000)
    instant, seen = replay.instant(), replay.snapshot
    replay.play(further_ms)
    assert replay.position_ms == NOON_MS + 600_000 + further_ms
    replay.take_back(instant)
    assert (replay.position_ms, replay.skipped) == (NOON_MS + 600_000, None)
    # What is far away was read anew, and what was shown is still there.
    assert (replay.snapshot is seen) == (further_ms > 1_000_000)
    for _ in range(2):
        assert (replay.snapshot.at_ms, replay.snapshot.queues) == (other.snapshot.at_ms, other.snapshot.queues)
        for each in (replay, other):
            each.play(10_000)
