"""The window of time of the charts: a minute to a day, which the next start shows again; and the zone of its times."""

import re
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from textual.pilot import Pilot

from rsmq_tui.history.reading import History
from rsmq_tui.monitor.text import clock, shown_zone
from rsmq_tui.protocol import Failure
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.replay.session import replay_session
from rsmq_tui.tui.widgets.charts import ChartPanel, SparkPanel
from tests.history.replayed import NOON_MS, STEP_MS, Tape, said
from tests.tui.driving import opened, play, play_rows, press, says, settled, until
from tests.tui.reading import app_of, lines_of, notes_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, row_of
from tests.tui.states import poll_of, queue_of

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
BRAILLE = "[\u2801-\u28ff]"


def _chart(pilot: Pilot[None], id: str) -> str:
    panel = pilot.app.screen.query_one(f"#{id}", ChartPanel)
    return "\n".join([str(panel.border_title), *lines_of(panel)])


async def _after_an_hour(pilot: Pilot[None], source: ScriptedSource) -> None:
    """Show a queue that holds 20 messages, and 700 of them for ten seconds 45 minutes ago; polls failed 30 min ago."""
    for at_ms in range(START_MS - HOUR_MS, START_MS, 5_000):
        minutes = (START_MS - at_ms) / MINUTE_MS
        if 25 < minutes <= 30:
            continue
        if minutes == 25:
            source.tracker.resume(at_ms)
        source.snapshot_of({"orders": row_of(depth=700 if 45 <= minutes < 45.2 else 20, sent=100)}, at_ms)
    await play_rows(pilot, {"orders": row_of(depth=20, sent=100)})


async def test_the_hour_has_its_peak_and_its_gap(source: ScriptedSource) -> None:
    async with opened(source, size=(160, 50), notifications=True) as pilot:
        await _after_an_hour(pilot, source)
        assert "Messages a second, 10 min" in _chart(pilot, "throughput")
        await press(pilot, "enter")
        assert _chart(pilot, "depth").startswith("Messages, 10 min\n")
        assert "700" not in _chart(pilot, "depth")
        ten_min = re.findall(r"\d\d:\d\d", _chart(pilot, "depth"))

        await press(pilot, "z")
        await says(pilot, "charts show the last 60 min")
        hour = _chart(pilot, "depth")
        assert hour.startswith("Messages, 60 min\n")
        assert "Messages a second, 60 min" in _chart(pilot, "rates")
        # The axis has times of the whole hour, and reaches to the peak; the outage is a gap in the line of 20.
        times = re.findall(r"\d\d:\d\d", hour)
        assert _minutes(times) > 4 * _minutes(ten_min)
        highest = max(int(number) for number in re.findall(r"^ *(\d+)", hour, re.MULTILINE))
        assert highest >= 700
        assert re.search(rf"{BRAILLE}{{10,}} {{2,}}{BRAILLE}{{10,}}", hour)

        await press(pilot, "Z", "Z")
        assert _chart(pilot, "depth").startswith("Messages, 1 min\n")
        assert re.search(r"\d\d:\d\d:\d\d", _chart(pilot, "depth"))
        await press(pilot, "escape")
        assert "Messages a second, 1 min" in _chart(pilot, "throughput")


def _minutes(times: list[str]) -> int:
    first, last = (int(time[:2]) * 60 + int(time[3:]) for time in (times[0], times[-1]))
    return (last - first) % 1440


async def test_sparklines_have_the_same_window(source: ScriptedSource) -> None:
    async with opened(source, size=(90, 28)) as pilot:
        await _after_an_hour(pilot, source)
        await press(pilot, "enter")
        assert "max 700" not in lines_of(pilot.app.screen.query_one(SparkPanel))[0]
        await press(pilot, "z")
        assert "max 700" in lines_of(pilot.app.screen.query_one(SparkPanel))[0]


async def test_the_next_start_has_the_same_window(tmp_path: Path) -> None:
    choices = tmp_path / "state" / "dashboard.json"
    for keys, shown in (("", "10 min"), ("zz", "6 h"), ("z", "24 h"), ("", "24 h"), ("z", "1 min"), ("ZZ", "6 h")):
        source = ScriptedSource()
        async with opened(source, choices=choices) as pilot:
            await play_rows(pilot, {"orders": row_of(depth=20)})
            await press(pilot, *keys)
            assert f"Messages a second, {shown}" in _chart(pilot, "throughput")


@pytest.mark.parametrize(("text", "problem"), [("{", "not JSON"), ('{"window_ms": 7}', "")])
async def test_a_file_that_says_nothing_is_no_choice(
    source: ScriptedSource, tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "dashboard.json").write_text(text)
    async with opened(source, choices=tmp_path / "dashboard.json", size=(200, 40), notifications=True) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=20)})
        assert "Messages a second, 10 min" in _chart(pilot, "throughput")
        assert ("your choices cannot be read" in text_of(app_of(pilot))) == bool(problem)
        await press(pilot, "z")
    assert (tmp_path / "dashboard.json").read_text() == '{"window_ms": 3600000}'


async def test_a_choice_that_cannot_be_kept_is_said(source: ScriptedSource, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with opened(source, choices=tmp_path / "file" / "dashboard.json", notifications=True) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=20)})
        await pilot.press("z")
        await says(pilot, "your choices cannot be kept")
        assert any(note.message.endswith("they last until you quit") for note in notes_of(pilot.app))
        assert "Messages a second, 60 min" in _chart(pilot, "throughput")


async def test_a_replay_shows_ten_minutes_at_most(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "history")
    for poll in range(30):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll, ready=poll, hidden=0))
    tape.seal()
    (tmp_path / "dashboard.json").write_text('{"window_ms": 3600000}')
    replaying = replay_session(History(tape.out, state=tape.out), from_ms=NOON_MS + 29 * STEP_MS, playing=False)
    app = RsmqApp(replaying.servers, replay=replaying, choices=tmp_path / "dashboard.json")
    async with app.run_test(size=(132, 36)) as pilot:
        await until(pilot, lambda: app.dashboard.snapshot is not None, "something is shown")
        await settled(pilot)
        for shown in ("10", "1", "10"):
            assert f"Messages a second, {shown} min" in _chart(pilot, "throughput")
            await press(pilot, "z")


async def test_a_day_has_the_peak_of_last_night_and_times_in_the_zone_that_is_chosen(tmp_path: Path) -> None:
    source = ScriptedSource()
    begin_ms = START_MS - 20 * HOUR_MS
    for at_ms in range(begin_ms, START_MS, 60_000):
        depth = 4_000 if at_ms == begin_ms + 5 * HOUR_MS else 20
        source.snapshot_of({"orders": row_of(depth=depth, sent=(at_ms - begin_ms) // 100)}, at_ms)
    berlin = ZoneInfo("Europe/Berlin")
    async with opened(source, size=(200, 50), choices=tmp_path / "dashboard.json", zone=berlin) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=20, sent=720_000)})
        # Beside ages, the zone that was named counts.
        assert "times in CET" in text_of(app_of(pilot))
        await press(pilot, "z", "z", "z")
        assert _chart(pilot, "throughput").startswith("Messages a second, 24 h")
        await press(pilot, "enter")
        assert "20h ago" not in text_of(app_of(pilot))
        day = _chart(pilot, "depth")
        assert day.startswith("Messages, 24 h\n")
        assert re.search(r"^ *[4-9]k┤", day, re.MULTILINE)
        local = re.findall(r"\d\d:\d\d", day)
        await press(pilot, "t")
        utc = re.findall(r"\d\d:\d\d", _chart(pilot, "depth"))
        assert "times in UTC" in text_of(app_of(pilot))
        assert local != utc
        assert {_hour(time) for time in utc} == {_hour(time) for time in local}
        await press(pilot, "escape")
        assert re.search(r"SINCE", text_of(app_of(pilot)))
        since = clock(START_MS - 1000)[:8]
        assert since in text_of(app_of(pilot))
        await press(pilot, "t")
        assert "times in CET" in text_of(app_of(pilot))
        assert f"{(int(since[:2]) + 1) % 24:02}{since[2:]}" in text_of(app_of(pilot))
    assert shown_zone() is UTC
    async with opened(ScriptedSource(), choices=tmp_path / "dashboard.json", zone=berlin) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=20)})
        assert "times in CET" in text_of(app_of(pilot))
        await press(pilot, "t")
        assert "SINCE" not in text_of(app_of(pilot))


async def test_the_zone_of_the_axes_is_named_while_ages_are_shown(source: ScriptedSource) -> None:
    async with opened(source, size=(200, 50)) as pilot:
        for after_s in (0, 30, 60):
            source.play_rows({"orders": row_of(depth=20, sent=after_s)}, START_MS + after_s * 1000)
            await settled(pilot)
        assert re.search(r"└.*\d\d:\d\d", _chart(pilot, "throughput"))
        assert "times in UTC" in text_of(app_of(pilot))


async def test_both_zones_are_named_for_a_day_after_the_clocks_are_changed(source: ScriptedSource) -> None:
    # 2026-10-25T01:30:00Z
    changed_ms = 1_792_891_800_000
    async with opened(source, size=(200, 50), zone=ZoneInfo("Europe/Berlin")) as pilot:
        for after_ms, zones in ((-HOUR_MS, "CEST"), (0, "CEST, CET"), (24 * HOUR_MS, "CET")):
            source.play_rows({"orders": row_of(depth=20)}, changed_ms + after_ms)
            await settled(pilot)
            assert f"times in {zones} ●" in text_of(app_of(pilot))


async def test_the_zone_gives_way_to_a_failure_on_a_narrow_terminal(source: ScriptedSource) -> None:
    async with opened(source, size=(60, 20)) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=20)})
        assert "times in UTC" in text_of(app_of(pilot)).splitlines()[0]
        source.play_failure(Failure("refused", "connection refused by cache-1:6379", "start it"))
        await settled(pilot)
        first = text_of(app_of(pilot)).splitlines()[0]
        assert "times in" not in first
        assert "stale" in first


@pytest.mark.parametrize(
    "changes",
    [{"server": "orders.a1b2c3.ng.0001.euw1.cache.example.com:6379/0"}, {"notes": ("INFO may not be read",)}],
    ids=["address", "note"],
)
async def test_the_zone_gives_way_to_what_is_more_important(source: ScriptedSource, changes: dict[str, Any]) -> None:
    ((_, words),) = changes.items()
    for width, has_zone in ((120, True), (76, False)):
        async with opened(source, size=(width, 20)) as pilot:
            await play(pilot, source, poll_of(source, [queue_of("orders")], **changes))
            first = text_of(app_of(pilot)).splitlines()[0]
            assert (words if isinstance(words, str) else words[0]) in first
            assert ("times in UTC" in first) is has_zone
            assert "● live" in first


def _hour(time: str) -> int:
    """Labels are at whole multiples of hours, in each zone."""
    return int(time[3:])
