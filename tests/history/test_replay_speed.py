"""However long it takes to make what is shown, recorded time goes as fast as asked; where it cannot, it is told."""

from pathlib import Path

import pytest

from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.player import Player
from rsmq_tui.history.replay.replay import Replay
from rsmq_tui.monitor import QueueState
from tests.history.replayed import NOON_MS, Live, Tape, queue_row, replay_of
from tests.tui.scripted import FakeClock

pytestmark = pytest.mark.slow

STEP_MS = 60_000
POLLS = 600


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Live]:
    """Ten hours: a queue that stalls all the time, one that grows now and then, one that is worked off."""
    live = Live(Tape(tmp_path_factory.mktemp("speed"), polls_a_file=10))
    grown = 0
    for poll in range(POLLS):
        grown += 50 if poll % 200 < 120 else -75
        rows = {
            "stalls": queue_row(5 + poll, 50 + poll, 45),
            "waves": queue_row(grown, 100_000 + 100 * poll, 90_000 + 50 * poll),
            "worked": queue_row(3, 100 * poll, 100 * poll),
        }
        live.poll(NOON_MS + poll * STEP_MS, rows)
    live.tape.seal()
    return live.tape.out, live


def slow(replay: Replay, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let each frame take so long."""
    play = replay.play

    def plays(elapsed_ms: int) -> None:
        play(elapsed_ms)
        clock.now_s += seconds

    monkeypatch.setattr(replay, "play", plays)


async def play(player: Player, clock: FakeClock, until_s: float) -> list[int]:
    """Play until the clock says so, and return the moments that were shown."""
    shown = []
    while clock.now_s < until_s:
        clock.now_s += 0.25
        await player.move()
        shown.append(player.position_ms)
    return shown


async def test_frames_are_left_out_and_the_clock_keeps_its_speed(
    recorded: tuple[Path, Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    replay = replay_of(recorded[0], from_ms=NOON_MS)
    player = Player(replay, speed=1800, clock=clock)
    begun_s = clock.now_s
    slow(replay, clock, monkeypatch, 3.0)
    shown = await play(player, clock, begun_s + 13)

    # The last frame is of the moment at which it was begun.
    assert len(shown) == 4
    assert shown[-1] == NOON_MS + round((3 * 3.25 + 0.25) * 1_800_000)
    assert player.real_speed == 1800


async def test_what_cannot_be_held_is_told(recorded: tuple[Path, Live], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    replay = replay_of(recorded[0], from_ms=NOON_MS)
    player = Player(replay, speed=60, clock=clock)
    begun_s = clock.now_s
    with monkeypatch.context() as patched:
        slow(replay, clock, patched, 40.0)
        shown = await play(player, clock, begun_s + 120)
        assert len(shown) == 3
        # Of the reading ten seconds, and what was waited for.
        assert shown[-1] - shown[-2] == 10.25 * 60_000
        assert player.real_speed == pytest.approx(60 * 10 / 40)
    # What was slow once is forgotten soon.
    await play(player, clock, clock.now_s + 60)
    assert player.real_speed == 60
    player.set_playing(False)
    assert player.real_speed == 60


async def test_what_is_shown_at_full_speed_is_what_was_recorded(recorded: tuple[Path, Live]) -> None:
    clock = FakeClock()
    replay = replay_of(recorded[0], from_ms=NOON_MS)
    player = Player(replay, speed=3600, clock=clock)
    frames: list[tuple[int, tuple[QueueState, ...]]] = []
    while not replay.is_at_end:
        clock.now_s += 0.25
        await player.move()
        frames.append((replay.snapshot.at_ms, replay.snapshot.queues))

    assert len(frames) == pytest.approx(POLLS * STEP_MS / 900_000, abs=1)
    states = recorded[1].states
    for at_ms, queues in frames:
        live = {queue.name: queue for queue in states[at_ms]}
        assert {queue.name: (queue.verdict, queue.depth) for queue in queues} == {
            name: (queue.verdict, queue.depth) for name, queue in live.items()
        }
        # Since when a trouble is is found out from what the frames before found.
        assert [queue.since_ms for queue in queues if queue.name != "stalls"] == [
            live[queue.name].since_ms for queue in queues if queue.name != "stalls"
        ]


def test_a_frame_reads_what_passed_since_the_one_before_and_no_more(
    recorded: tuple[Path, Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = replay_of(recorded[0], from_ms=NOON_MS + 8 * 3_600_000)
    read: list[str] = []
    columns = History.columns

    def counted(self: History, name: str, *args: object) -> object:
        read.append(name)
        return columns(self, name, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(History, "columns", counted)
    for _ in range(4):
        read.clear()
        replay.play(900_000)
        # The troubles of now began hours ago, in many files before.
        assert len(read) <= 4
