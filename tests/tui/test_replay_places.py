"""Places of a replay on the screen: each from its first poll on, and the speed as it really is."""

from pathlib import Path

import pytest

from rsmq_tui.history.names import Place
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.replay.screens import DiffScreen
from tests.history.made import DAY_MS
from tests.history.replayed import NOON_MS, PLACE, STEP_MS, Tape, said
from tests.tui.driving import press, says, until
from tests.tui.reading import app_of, lines_of, names_in, text_of
from tests.tui.test_replay import banner, later, replay_in, replayed

STAGE = Place("stage", "redis://db2:6379/0", "rsmq")
NEXT_MS = NOON_MS + DAY_MS
PROD, OTHER = "prod\0orders", "stage\0emails"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A place on three days, and another one for a while on the second, which nothing tells of on the first."""
    first, second = Tape(tmp_path, polls_a_file=20), Tape(tmp_path, place=STAGE, polls_a_file=20, first=500)
    for day_ms in (NOON_MS, NEXT_MS, NEXT_MS + DAY_MS):
        for poll in range(40):
            first.poll(day_ms + poll * STEP_MS, said("ok", depth=poll))
        first.seal()
    for poll in range(10, 30):
        second.poll(NEXT_MS + poll * STEP_MS, said("stalled", "emails"))
    second.seal()
    last = first.files[3]
    last.rename(last.with_name(f"{first.recorder}-000900.parquet"))
    return tmp_path


async def test_a_place_appears_when_time_reaches_it_and_is_gone_before(out: Path) -> None:
    async with replayed(out) as pilot:
        app = app_of(pilot)
        assert names_in(pilot) == ["orders"]
        assert "SERVER" not in text_of(app)
        replay_in(pilot).player.seek(NEXT_MS + 9 * STEP_MS)
        await until(pilot, lambda: replay_in(pilot).position_ms == NEXT_MS + 9 * STEP_MS, "it is the next day")
        assert names_in(pilot) == ["orders"]
        await press(pilot, "right_square_bracket")
        await until(pilot, lambda: names_in(pilot) == [OTHER, PROD], "it is there")
        assert "SERVER" in text_of(app)
        assert "stage" in lines_of(app.screen.query_one("StatusLine"))[0]
        await press(pilot, "enter")
        assert isinstance(app.screen, QueueScreen)
        await until(pilot, lambda: "◀ emails   ■ stalled" in text_of(app), "its queue opens")
        await press(pilot, "left_square_bracket")
        words = "nothing was recorded here before this time"
        await until(pilot, lambda: words in lines_of(app.screen.query_one("StatusLine"))[0], "it says that it is gone")
        await press(pilot, "q")
        await until(pilot, lambda: names_in(pilot) == [PROD], "it is gone")
        assert "stage" not in text_of(app)


async def test_the_lists_of_a_server_do_not_change_its_name(tmp_path: Path) -> None:
    for tape in (Tape(tmp_path), Tape(tmp_path, place=PLACE._replace(ns=LISTS_NS), first=500)):
        for poll in range(3):
            tape.poll(NOON_MS + poll * STEP_MS, *([said("ok")] if tape.place == PLACE else []))
        tape.seal()
    async with replayed(tmp_path, NOON_MS + STEP_MS) as pilot:
        status = lines_of(app_of(pilot).screen.query_one("StatusLine"))[0]
        assert status.startswith(f" rsmq-tui   prod   {PLACE.server} · rsmq and lists ")
        await press(pilot, "m", "D")
        await until(pilot, lambda: isinstance(pilot.app.screen, DiffScreen), "the comparison opens")
        assert "SERVER" not in text_of(app_of(pilot))


async def test_what_is_open_stays_what_it_is_when_another_place_appears(out: Path) -> None:
    async with replayed(out, NOON_MS + 5 * STEP_MS) as pilot:
        app = app_of(pilot)
        await press(pilot, "m", "enter")
        assert isinstance(app.screen, QueueScreen)
        replay_in(pilot).player.seek(NEXT_MS + 12 * STEP_MS)
        await until(pilot, lambda: replay_in(pilot).position_ms == NEXT_MS + 12 * STEP_MS, "it is the next day")
        await until(pilot, lambda: "◀ orders   ● ok" in text_of(app), "the queue is shown")
        await until(pilot, lambda: app.screen.snapshot.at_ms == NEXT_MS + 12 * STEP_MS, "as of then")  # type: ignore[attr-defined]
        await press(pilot, "D")
        await until(pilot, lambda: isinstance(app.screen, DiffScreen), "the comparison opens")
        await until(pilot, lambda: names_in(pilot) == [OTHER, PROD], "both are compared")
        text = text_of(app)
        assert "2 queues · 1 new" in text
        assert "prod" in text


async def test_a_comparison_that_is_open_tells_places_apart_when_another_appears(out: Path) -> None:
    async with replayed(out) as pilot:
        await press(pilot, "m", "D")
        await until(pilot, lambda: isinstance(pilot.app.screen, DiffScreen), "the comparison opens")
        assert "SERVER" not in text_of(app_of(pilot))
        replay_in(pilot).player.seek(NEXT_MS + 12 * STEP_MS)
        await says(pilot, "SERVER")
        assert set(names_in(pilot)) == {PROD, OTHER}


async def test_a_speed_that_cannot_be_held_is_said(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replayed(out, NEXT_MS, speed=1) as pilot:
        replay, clock = replay_in(pilot).player.replay, app_of(pilot).dashboard.clock
        play = replay.play

        def plays(elapsed_ms: int) -> None:
            play(elapsed_ms)
            clock.now_s += 40.0  # type: ignore[attr-defined]

        monkeypatch.setattr(replay, "play", plays)
        await press(pilot, "p")
        await later(pilot, 0.5)
        await until(pilot, lambda: "x1 (actual x0.2" in banner(pilot), "it says how fast it is")
