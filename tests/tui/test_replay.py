"""A replay on the screen: said so at the top whatever is shown, moved about in by keys, and never able to change."""

import gc
import re
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from rsmq_tui.history.reading import History
from rsmq_tui.protocol import RawMessage, make_id
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.dialogs.palette import commands_of
from rsmq_tui.tui.dialogs.screens import HelpScreen
from rsmq_tui.tui.keys import KEYS, keys_of
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.replay.banner import ReplayBanner
from rsmq_tui.tui.replay.screens import DiffScreen
from rsmq_tui.tui.replay.session import ReplaySession, replay_session
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.lines import StatusLine
from tests.history.replayed import NOON_MS, STEP_MS, Tape, said
from tests.tui.driving import play_rows, press, resized, says, settled, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, names_in, notes_of, text_of
from tests.tui.scripted import FakeClock, ScriptedSource, row_of
from tests.tui.scripted_triage import ScriptedTriage

pytestmark = pytest.mark.slow

# Noon is of 2024-10-04.
DAY = "2024-10-04"


def taped(out: Path, polls: int = 120, polls_a_file: int = 50) -> Tape:
    """Ten minutes: the queue orders grows from 12:02 on and stalls from 12:04 on; there are messages of 12:01.

    With fewer polls it grows and stalls after as large a part of them.
    """
    tape = Tape(out, polls_a_file=polls_a_file)
    for poll in range(polls):
        verdict = "ok" if poll < polls // 5 else "growing" if poll < 2 * polls // 5 else "stalled"
        orders = said(verdict, depth=100 + poll, ready=90 + poll, hidden=10, totalsent=1000 + 5 * poll)
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", "emails", depth=3, ready=3, hidden=0), orders)
    tape.seal()
    messages = [
        RawMessage(f"hocx8qopw{n:023d}".encode(), str(NOON_MS + n).encode(), b"2", b"7", 9, b'{"n":%d}' % n)
        for n in range(40)
    ]
    tape.inventory(NOON_MS + 60_000, "orders", messages)
    return tape


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return taped(tmp_path / "history")


@asynccontextmanager
async def replayed(out: Path, at_ms: int = NOON_MS, **options: Any) -> AsyncIterator[Pilot[None]]:
    """The app on a history, paused, with a clock that is turned by hand."""
    clock = FakeClock()
    size = options.pop("size", (132, 36))
    ascii_only, notifications = options.pop("ascii_only", False), options.pop("notifications", False)
    keys = options.pop("keys", None)
    history = History(out, state=out)
    replaying = replay_session(history, **{"from_ms": at_ms, "playing": False, "clock": clock, **options})
    app = RsmqApp(replaying.servers, replay=replaying, clock=clock, ascii_only=ascii_only, keys=keys)
    dashboard = app.dashboard
    async with app.run_test(size=size, notifications=notifications) as pilot:
        await until(pilot, lambda: dashboard.snapshot is not None, "something is shown")
        await settled(pilot)
        yield pilot


def replay_in(pilot: Pilot[None]) -> ReplaySession:
    found = app_of(pilot).dashboard.replay
    assert found is not None
    return found


def banner(pilot: Pilot[None]) -> str:
    widget = pilot.app.screen.query_one_optional(ReplayBanner)
    if widget is None or not widget.size:
        return ""
    widget.repaint()
    return lines_of(widget)[0].strip()


async def at(pilot: Pilot[None], moment: str) -> None:
    """Wait until that moment of the day is shown."""
    await until(pilot, lambda: f"REPLAY {DAY} {moment} UTC" in banner(pilot), f"it is {moment}")
    dashboard = app_of(pilot).dashboard
    await until(pilot, lambda: dashboard.snapshot and not replay_in(pilot).player.is_busy, "it is shown")
    await settled(pilot)


async def later(pilot: Pilot[None], seconds: float) -> None:
    """Let so much time pass on the clock."""
    clock = app_of(pilot).dashboard.clock
    assert isinstance(clock, FakeClock)
    clock.now_s += seconds
    replay_in(pilot).player.wake()


async def test_keys_of_the_user_leave_those_of_the_replay(tape: Tape) -> None:
    # By default, this is also the key that plays.
    async with replayed(tape.out, keys={"pause": ["f9"]}) as pilot:
        await press(pilot, "p")
        await until(pilot, lambda: replay_in(pilot).player.is_playing, "it plays")


async def test_it_says_what_it_is_and_nothing_says_live(tape: Tape) -> None:
    async with replayed(tape.out) as pilot:
        text = text_of(app_of(pilot)).splitlines()
        assert text[0].startswith(f" REPLAY {DAY} 12:00:00 UTC · x60 · ‖ paused ")
        assert text[0].rstrip().endswith(f"of {DAY} 12:00 … {DAY} 12:09")
        assert text[1].rstrip().endswith("recorded every 5 s")
        assert "read-only" in text[1]
        assert "live" not in "\n".join(text)


async def test_every_screen_has_the_banner_and_each_key_leads_to_one(tape: Tape) -> None:
    async with replayed(tape.out, NOON_MS + 90_000) as pilot:
        for keys, screen in (("j", "enter"), QueueScreen), (("enter",), None), (("q", "q"), OverviewScreen):
            await press(pilot, *keys)
            assert screen is None or isinstance(pilot.app.screen, screen)
            await at(pilot, "12:01:30")


async def test_it_plays_as_the_clock_goes_and_pauses(tape: Tape) -> None:
    async with replayed(tape.out) as pilot:
        await later(pilot, 100)
        await at(pilot, "12:00:00")
        await press(pilot, "p")
        await until(pilot, lambda: "▶ playing" in banner(pilot), "it plays")
        await later(pilot, 1)
        await at(pilot, "12:01:00")
        assert names_in(pilot) == ["orders", "emails"]
        await press(pilot, "greater_than_sign", "greater_than_sign")
        await until(pilot, lambda: "x300" in banner(pilot), "it is faster")
        await later(pilot, 0.5)
        await at(pilot, "12:03:30")
        await press(pilot, "less_than_sign", "p")
        await until(pilot, lambda: "x120 · ‖ paused" in banner(pilot), "it is slower, and paused")
        await later(pilot, 5)
        await at(pilot, "12:03:30")


async def test_it_stops_at_the_end(tape: Tape) -> None:
    async with replayed(tape.out, NOON_MS + 580_000, playing=True, notifications=True) as pilot:
        await later(pilot, 1)
        await at(pilot, "12:09:55")
        await until(pilot, lambda: "‖ paused" in banner(pilot), "it has stopped")
        await press(pilot, "p")
        await says(pilot, "this is the end of the recorded history")


async def test_it_steps_from_poll_to_poll(tape: Tape) -> None:
    async with replayed(tape.out) as pilot:
        await press(pilot, "right_square_bracket", "right_square_bracket", "right_square_bracket")
        await at(pilot, "12:00:15")
        assert " 103 " in text_of(app_of(pilot))
        await press(pilot, "left_square_bracket")
        await at(pilot, "12:00:10")
        assert " 102 " in text_of(app_of(pilot))
        await press(pilot, "full_stop")
        await at(pilot, "12:01:10")
        await press(pilot, "comma", "comma")
        await at(pilot, "12:00:00")


async def test_it_goes_from_incident_to_incident(tape: Tape) -> None:
    async with replayed(tape.out) as pilot:
        await press(pilot, "right_curly_bracket")
        await at(pilot, "12:02:00")
        await until(pilot, lambda: "· orders becomes growing" in banner(pilot), "it says what begins")
        await press(pilot, "right_curly_bracket")
        await until(pilot, lambda: "no incident begins or ends after" in banner(pilot), "it says that there is none")
        await press(pilot, "at")
        await until(pilot, lambda: "no incident" not in banner(pilot), "another time is asked for")
        await press(pilot, "escape", "full_stop")
        await at(pilot, "12:03:00")
        await press(pilot, "left_curly_bracket")
        await at(pilot, "12:02:00")
        # On a queue's own screen it is that queue's verdicts.
        await press(pilot, "g", "enter")
        await wait_for_screen(pilot, QueueScreen)
        await press(pilot, "right_curly_bracket")
        await at(pilot, "12:04:00")
        await until(pilot, lambda: "· orders: growing → stalled" in banner(pilot), "it says what changed")
        await press(pilot, "escape", "G", "enter")
        await wait_for_screen(pilot, QueueScreen)
        screen = pilot.app.screen
        assert isinstance(screen, QueueScreen)
        assert screen.queue == "emails"
        await press(pilot, "left_curly_bracket")
        await until(pilot, lambda: "no verdict changed before this" in banner(pilot), "it says that there is none")


async def test_a_search_is_shown_on_a_narrow_terminal_too(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replayed(tape.out, size=(80, 24)) as pilot:
        replay, asked = replay_in(pilot).player.replay, threading.Event()

        def looks_long(direction: int, known: Callable[[int], bool]) -> list[object]:
            known(NOON_MS)
            asked.wait(60)
            known(NOON_MS)
            return []

        monkeypatch.setattr(replay, "go_to_incident", looks_long)
        try:
            await press(pilot, "right_curly_bracket")
            await until(pilot, lambda: "searching at" in banner(pilot), "it says that it searches")
            assert banner(pilot).startswith(f"REPLAY {DAY} 12:00:00 UTC")
            await press(pilot, "right_curly_bracket")
            await until(pilot, lambda: "the search was stopped" in banner(pilot), "it says that it stopped")
        finally:
            asked.set()
        await until(pilot, lambda: not replay_in(pilot).player.is_busy, "it has stopped")
        assert "the search was stopped" in banner(pilot)


@pytest.mark.parametrize("width", [44, 60, 80, 100])
async def test_what_a_search_found_leaves_room_for_whether_it_plays(tape: Tape, width: int) -> None:
    async with replayed(tape.out, size=(width, 15)) as pilot:
        await press(pilot, "right_curly_bracket")
        await at(pilot, "12:02:00")
        await until(pilot, lambda: "· orders" in banner(pilot) or width == 44, "it says what begins")
        assert "‖" in banner(pilot)
        # It is true of that moment only.
        await press(pilot, "p")
        await until(pilot, lambda: "▶" in banner(pilot), "it plays")
        assert "orders" not in banner(pilot)
        await later(pilot, 1)
        await at(pilot, "12:03:00")
        assert "▶" in banner(pilot)


@pytest.mark.parametrize(
    ("typed", "moment"),
    [
        ("12:05", "12:05:00"),
        ("+3m", "12:04:00"),
        ("end", "12:09:55"),
        ("-10h", "12:00:00"),
        # As the banner says it.
        (f"{DAY} 12:03:05 UTC", "12:03:05"),
    ],
)
async def test_it_goes_to_a_moment_that_is_typed(tape: Tape, typed: str, moment: str) -> None:
    async with replayed(tape.out, NOON_MS + 60_000) as pilot:
        await press(pilot, "at")
        await until(pilot, lambda: isinstance(pilot.app.screen.focused, Input), "the field has the keys")
        # What is typed reaches the field, and no key of the replay.
        await press(pilot, *typed)
        entry = pilot.app.screen.focused
        assert isinstance(entry, Input)
        assert entry.value == typed
        assert [str(label.content) for label in pilot.app.screen.query(".label").results(Static)] == ["time"]
        await press(pilot, "enter")
        await wait_for_screen(pilot, OverviewScreen)
        await at(pilot, moment)


@pytest.mark.parametrize(
    ("typed", "why"),
    [("noon", "'noon' is not a time: write 21:50"), ("23:00", f"nothing was recorded at {DAY} 23:00:00")],
)
async def test_what_is_no_moment_is_said_in_the_dialog(tape: Tape, typed: str, why: str) -> None:
    async with replayed(tape.out) as pilot:
        await press(pilot, "at")
        await until(pilot, lambda: isinstance(pilot.app.screen.focused, Input), "the field has the keys")
        await press(pilot, *typed, "enter")
        await says(pilot, why)
        assert isinstance(pilot.app.screen, FormScreen)
        await press(pilot, "escape")
        await at(pilot, "12:00:00")


async def test_two_instants_are_compared(tape: Tape) -> None:
    async with replayed(tape.out, notifications=True) as pilot:
        await press(pilot, "D")
        await says(pilot, "no time is marked: m marks one")
        await press(pilot, "m", "full_stop", "full_stop")
        await at(pilot, "12:02:00")
        assert "· marked 12:00:00 · D compares" in banner(pilot)
        await resized(pilot, 72, 24)
        assert "· marked 12:00:00" in banner(pilot)
        assert "compares" not in banner(pilot)
        await resized(pilot, 132, 36)
        await press(pilot, "D")
        await wait_for_screen(pilot, DiffScreen)
        await settled(pilot)
        text = text_of(app_of(pilot))
        assert f"{DAY} 12:00:00 → 12:02:00 UTC   2m 0s   2 queues · 1 verdict changed" in text
        assert "ready 93 → 117 (+24)   hidden 10 → 10 (0)   depth 103 → 127 (+24)" in text
        assert names_in(pilot) == ["orders", "emails"]
        assert re.search(r"ok → ▲ growing +orders +90 +114 +\+24 +10 +10 +0 +100 +124 +\+24", text)
        # It follows, and the earlier instant stands first whichever was marked.
        await press(pilot, "right_square_bracket")
        await at(pilot, "12:02:05")
        assert "(+25)" in text_of(app_of(pilot))
        await press(pilot, "m", "comma")
        await at(pilot, "12:01:05")
        assert f"{DAY} 12:01:05 → 12:02:05 UTC" in text_of(app_of(pilot))
        await press(pilot, "enter")
        await wait_for_screen(pilot, QueueScreen)
        await press(pilot, "D")
        await wait_for_screen(pilot, DiffScreen)
        await press(pilot, "escape")
        await wait_for_screen(pilot, QueueScreen)


async def _compare_with_the_next(pilot: Pilot[None]) -> None:
    """Mark the first instant, and compare the next one with it."""
    await press(pilot, "m", "right_square_bracket")
    await at(pilot, "12:00:05")
    await press(pilot, "D")


# Two polls, the names in their comparison, and what it says.
CHANGED = {
    "one that came and one that went": (
        (said("ok", "a", depth=50), said("ok", "same")),
        (said("aged", "b", depth=20), said("ok", "same")),
        ["a", "b", "same"],
        (r"1 new · 1 gone", r"gone +a ", r"new: ◷ aged +b "),
    ),
    "verdicts": (
        (said("ok", "a", depth=50), said("ok", "b")),
        (said("aged", "a", depth=50), said("aged", "b")),
        ["a", "b"],
        (r"2 queues · 2 verdicts changed",),
    ),
}


@pytest.mark.parametrize("what", CHANGED)
async def test_what_changed_is_named_and_counted_in_the_comparison(tmp_path: Path, what: str) -> None:
    first, second, names, words = CHANGED[what]
    tape = Tape(tmp_path)
    tape.poll(NOON_MS, *first)
    tape.poll(NOON_MS + STEP_MS, *second)
    tape.seal()
    async with replayed(tmp_path) as pilot:
        await _compare_with_the_next(pilot)
        await until(pilot, lambda: re.search(words[0], text_of(app_of(pilot))), "it is compared")
        assert names_in(pilot) == names
        assert all(re.search(each, text_of(app_of(pilot))) for each in words)


async def test_names_of_a_comparison_have_room_and_are_cut_in_the_middle(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    short, long = "invoices-of-the-second-quarter-eu", "mail-" + "x" * 60 + "-retry-3"
    for poll in range(2):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", short, depth=9), said("ok", long, depth=9 - poll))
    tape.seal()
    async with replayed(tmp_path) as pilot:
        await _compare_with_the_next(pilot)
        await until(pilot, lambda: len(names_in(pilot)) == 2, "it is compared")
        table, why = pilot.app.screen.query_one("#diff"), pilot.app.screen.query_one("#why")
        first, second = lines_of(table)[1:3]
        assert f" {short} " in second
        assert re.search(r" mail-x+…x+-retry-3 ", first)
        assert "LATER" in lines_of(table)[0]
        # The line below has all of it.
        assert lines_of(why)[0].strip() == long
        await press(pilot, "j")
        await until(pilot, lambda: lines_of(why)[0].strip() == short, "it follows the cursor")
        await resized(pilot, 60, 20)
        # The numbers stay, and the name keeps both its ends.
        assert re.search(r" mail-x*…x*-?r?etry-3 +9 +8 +-1", lines_of(table)[1])


async def test_no_key_changes_anything_and_none_of_those_is_offered(tape: Tape) -> None:
    async with replayed(tape.out) as pilot:
        app = app_of(pilot)
        dashboard = app.dashboard
        assert not dashboard.can_change
        for screen, keys in ((OverviewScreen, ()), (QueueScreen, ("enter",))):
            await press(pilot, *keys)
            assert isinstance(pilot.app.screen, screen)
            where = pilot.app.screen.WHERE
            left_out = [key for key in KEYS if key.where in (*where, "app") and (key.changes or key.live)]
            assert left_out
            for key in left_out:
                action = key.action.partition("(")[0]
                owner = app if key.where == "app" else pilot.app.screen
                assert not owner.check_action(action, ()), key
                await press(pilot, *key.keys.split(",")[:1])
                await wait_for_screen(pilot, screen)
            offered = {command.name for command in commands_of(pilot.app.screen)}
            assert offered.isdisjoint(key.help for key in left_out)
            assert {key.help for key in keys_of("replay")} <= offered


async def test_the_help_tells_the_keys_of_a_replay_first(tape: Tape) -> None:
    async with replayed(tape.out, size=(132, 60)) as pilot:
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        text = text_of(app_of(pilot))
        assert all(key.help in text for key in keys_of("replay"))
        assert all(key.help not in text for key in keys_of("overview", "app") if key.live or key.changes)
        assert text.index("Play or pause") < text.index("Overview")


async def test_an_outage_is_said_and_old_numbers_are_dim(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(10):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", depth=70))
    for poll in range(10, 14):
        tape.fail(NOON_MS + poll * STEP_MS, "no route to host")
    tape.seal()
    async with replayed(tmp_path, NOON_MS + 12 * STEP_MS) as pilot:
        status = lines_of(pilot.app.screen.query_one(StatusLine))[0]
        assert status.rstrip().endswith("✗ down, numbers 15 s old: no route to host")
        assert pilot.app.screen.has_class("-stale")
        assert " 70 " in text_of(app_of(pilot))
        await press(pilot, "left_curly_bracket")
        await at(pilot, "12:00:50")
        await until(pilot, lambda: "prod is down" in banner(pilot), "it is an incident like others")


async def test_an_incident_from_before_the_recording_is_told_as_such(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(10):
        tape.poll(NOON_MS + poll * STEP_MS, said("stalled", since_ms=NOON_MS - 60_000))
    tape.seal()
    async with replayed(tmp_path, NOON_MS + 5 * STEP_MS) as pilot:
        await press(pilot, "left_curly_bracket")
        words = f"orders was already stalled, since {DAY} 11:59:00"
        await until(pilot, lambda: words in banner(pilot), "it says since when")
        assert "12:00:00" in banner(pilot)


async def test_where_no_recorder_was_running_numbers_are_old_too(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in (*range(10), *range(15, 25)):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", depth=70))
    tape.seal()
    async with replayed(tmp_path, NOON_MS + 13 * STEP_MS) as pilot:
        status = lines_of(pilot.app.screen.query_one(StatusLine))[0]
        assert status.rstrip().endswith("✗ numbers 20 s old: nothing was recorded from 12:00:45 to 12:01:15")
        assert pilot.app.screen.has_class("-stale")
        assert " 70 " in text_of(app_of(pilot))


async def test_before_the_first_answer_nothing_is_known(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    tape.fail(NOON_MS, "no route to host")
    tape.poll(NOON_MS + STEP_MS, said("ok"))
    tape.seal()
    async with replayed(tmp_path) as pilot:
        text = text_of(app_of(pilot))
        assert "No data for this time: down: no route to host." in text
        assert "retrying" not in text


async def test_a_recorded_inventory_is_shown_with_its_age(tape: Tape) -> None:
    async with replayed(tape.out, NOON_MS + 90_000) as pilot:
        await press(pilot, "j", "enter") if names_in(pilot)[0] != "orders" else await press(pilot, "enter")
        await says(pilot, "messages as of 12:01:00, 30 s before")
        assert len(names_in(pilot)) > 10
        assert '{"n":3}' in text_of(app_of(pilot))
        await press(pilot, "enter")
        await until(pilot, lambda: '"n": 0' in text_of(app_of(pilot)), "the message opens")


@pytest.fixture
def inventories(tmp_path: Path) -> Path:
    """Ten minutes of a queue with messages that become visible minute by minute, written down at 12:01 and 12:05."""
    tape = Tape(tmp_path)
    for poll in range(120):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", depth=6))
    tape.seal()
    for at_ms, number in ((NOON_MS + 60_000, 6), (NOON_MS + 300_000, 9)):
        messages = [
            RawMessage(
                make_id((NOON_MS - 30_000) * 1000).encode(), str(NOON_MS + n * 60_000).encode(), b"2", b"7", 9, b"{}"
            )
            for n in range(number)
        ]
        tape.inventory(at_ms, "orders", messages)
    return tmp_path


def listed_of(pilot: Pilot[None]) -> list[tuple[str, str, str]]:
    """The state, the due time and the age of each message on the screen."""
    lines = lines_of(pilot.app.screen.query_one("#messages"))[1:]
    found = [re.match(r".{19}(ready|in flight) +(.+?)  +(\S.*?)  +2 ", line) for line in lines]
    return [(match[1], match[2], match[3]) for match in found if match]


async def test_the_messages_of_an_inventory_are_told_as_of_the_moment_that_is_shown(inventories: Path) -> None:
    async with replayed(inventories, NOON_MS + 90_000) as pilot:
        await press(pilot, "enter")
        await until(pilot, lambda: len(listed_of(pilot)) == 6, "they are listed")
        assert listed_of(pilot)[:3] == [
            ("ready", "1m 30s ago", "2m 0s"), ("ready", "30 s ago", "2m 0s"), ("in flight", "in 30 s", "2m 0s"),
        ]  # fmt: skip
        await press(pilot, "full_stop")
        await at(pilot, "12:02:30")
        assert listed_of(pilot)[2] == ("ready", "30 s ago", "3m 0s")
        replay_in(pilot).player.seek(NOON_MS + 330_000)
        await at(pilot, "12:05:30")
        await until(pilot, lambda: len(listed_of(pilot)) == 9, "there is a newer inventory")
        assert listed_of(pilot)[5:7] == [("ready", "30 s ago", "6m 0s"), ("in flight", "in 30 s", "6m 0s")]
        replay_in(pilot).player.seek(NOON_MS + 90_000)
        await at(pilot, "12:01:30")
        await until(pilot, lambda: len(listed_of(pilot)) == 6, "the one before is shown")
        assert listed_of(pilot)[0] == ("ready", "1m 30s ago", "2m 0s")
        # Of what was written down later, nothing is shown as if it had been there.
        replay_in(pilot).player.seek(NOON_MS + 330_000)
        await until(pilot, lambda: len(listed_of(pilot)) == 9, "the newer one is shown")
        replay_in(pilot).player.seek(NOON_MS + 30_000)
        await at(pilot, "12:00:30")
        await says(pilot, "no messages were recorded here before")
        assert listed_of(pilot) == []


async def test_what_was_found_later_is_searched_for_again_where_time_went_back(inventories: Path) -> None:
    async with replayed(inventories, NOON_MS + 330_000) as pilot:
        await press(pilot, "enter", "slash", *"rc>1", "enter")
        await says(pilot, "9 matches")
        await until(pilot, lambda: len(listed_of(pilot)) == 9, "it is listed")
        replay_in(pilot).player.seek(NOON_MS + 90_000)
        await at(pilot, "12:01:30")
        await says(pilot, "6 matches")
        await until(pilot, lambda: len(listed_of(pilot)) == 6, "it is listed")
        assert listed_of(pilot)[2] == ("in flight", "in 30 s", "2m 0s")
        assert "30 s old" in text_of(app_of(pilot))


async def test_without_an_inventory_it_says_so(tape: Tape) -> None:
    async with replayed(tape.out, NOON_MS + 30_000) as pilot:
        await press(pilot, "enter")
        await says(pilot, "no messages were recorded here before")
        assert "messages as of" not in text_of(app_of(pilot))


async def test_files_that_cannot_be_read_are_told_once(tape: Tape) -> None:
    tape.files[1].write_bytes(b"PAR1" + b"\0" * 300)
    async with replayed(tape.out, notifications=True) as pilot:
        await press(pilot, "right_square_bracket")
        await at(pilot, "12:00:05")
        await says(pilot, "was left out")
        assert "· 1 file left out" in banner(pilot)
        for _ in range(3):
            await press(pilot, "right_square_bracket")
        assert len(notes_of(pilot.app)) == 1


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (132, 36)])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_the_banner_fits_everywhere(tape: Tape, size: tuple[int, int], ascii_only: bool) -> None:
    async with replayed(tape.out, size=size, ascii_only=ascii_only) as pilot:
        await press(pilot, "m", "full_stop")
        await at(pilot, "12:01:00")
        line = text_of(app_of(pilot)).splitlines()[0]
        assert line.startswith(f" REPLAY {DAY} 12:01:00 UTC")
        assert not ascii_only or line.isascii()
        await resized(pilot, 30, 8)
        assert text_of(app_of(pilot)).startswith(f" REPLAY {DAY}")


@pytest.mark.parametrize("theme", ["rsmq-dark", "rsmq-light", "rsmq-ansi"])
async def test_the_banner_stands_out_in_each_theme(tape: Tape, theme: str) -> None:
    async with replayed(tape.out) as pilot:
        app_of(pilot).action_choose_theme(theme)
        await settled(pilot)
        styles = {segment.style for segment in pilot.app.screen.query_one(ReplayBanner).render_line(0)}
        others = {segment.style for segment in pilot.app.screen.query_one(StatusLine).render_line(0)}
        assert len(styles) == 1
        (style,) = styles
        assert style is not None
        grounds = {other.bgcolor for other in others if other is not None}
        assert style.reverse or style.bgcolor not in grounds


async def test_over_a_live_dashboard_it_opens_at_a_moment_and_leads_back(tape: Tape, source: ScriptedSource) -> None:
    triage: Any = ScriptedTriage()
    app = RsmqApp([WatchedServer(source, make_triage=lambda: triage)], clock=source.clock)
    dashboard = app.dashboard
    async with app.run_test(size=(132, 36)) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5), "live-2": row_of(depth=6)})
        await press(pilot, "enter")
        queue_screen = pilot.app.screen
        assert isinstance(queue_screen, QueueScreen)
        dashboard.open_replay(str(tape.out), NOON_MS + 120_000, None)
        await until(pilot, lambda: dashboard.replay and dashboard.snapshot, "the replay is open")
        await at(pilot, "12:02:00")
        assert names_in(pilot) == ["orders", "emails"]
        assert "‖ paused" in banner(pilot)
        assert not dashboard.can_change
        # What is polled meanwhile waits behind it.
        source.play_rows({"live-1": row_of(depth=7)})
        await press(pilot, "right_square_bracket")
        await at(pilot, "12:02:05")
        await press(pilot, "enter", "enter", "q", "q")
        assert isinstance(pilot.app.screen, OverviewScreen)
        await at(pilot, "12:02:05")
        await press(pilot, "q")
        await until(pilot, lambda: pilot.app.screen is queue_screen, "it leads back")
        assert dashboard.replay is None
        assert dashboard.snapshot is source.last
        assert dashboard.can_change
        await press(pilot, "q")
        assert names_in(pilot) == ["live-1"]
        assert "REPLAY" not in text_of(app)
        assert "● live" in text_of(app)


async def test_it_opens_on_a_queue_where_one_is_named(tape: Tape, source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    dashboard = app.dashboard
    async with app.run_test(size=(132, 36)) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5)})
        dashboard.open_replay(str(tape.out), NOON_MS + 120_000, "orders")
        await wait_for_screen(pilot, QueueScreen)
        await at(pilot, "12:02:00")
        assert "◀ orders   ▲ growing" in text_of(app)
        await press(pilot, "q", "q")
        assert names_in(pilot) == ["live-1"]


async def test_a_history_that_is_none_is_said_where_it_was_asked_for(tmp_path: Path, source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    dashboard = app.dashboard
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5)})
        dashboard.open_replay(str(tmp_path / "none"), NOON_MS)
        await until(pilot, lambda: "is not a history" in text_of(app), "it is said")
        assert dashboard.replay is None


async def test_whatever_else_is_wrong_with_a_history_is_a_sentence_too(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a file system has errors of its own")

    monkeypatch.setattr("rsmq_tui.history.reading.open_store", fail)
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    dashboard = app.dashboard
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5)})
        dashboard.open_replay("history", NOON_MS)
        await until(pilot, lambda: "this history cannot be replayed: " in text_of(app), "it is said")
        assert dashboard.replay is None


async def test_a_change_that_runs_is_not_covered_by_a_replay(tape: Tape, source: ScriptedSource) -> None:
    triage: Any = ScriptedTriage()
    app = RsmqApp([WatchedServer(source, make_triage=lambda: triage)], clock=source.clock)
    dashboard = app.dashboard
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5)})
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(dashboard.changes), "is_running", True)
            dashboard.open_replay(str(tape.out), NOON_MS)
            await until(pilot, lambda: "a change is running: open the history after it" in text_of(app), "it is said")
        assert dashboard.replay is None


async def test_live_screens_know_no_key_of_a_replay(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    async with app.run_test(size=(132, 36)) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5)})
        for key in keys_of("replay"):
            assert not app.check_action(key.action.partition("(")[0], ())
        await press(pilot, "at", "m", "D", "right_curly_bracket")
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert not pilot.app.screen.query(ReplayBanner)


async def test_replays_that_were_left_are_let_go_of(tape: Tape, source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    dashboard = app.dashboard
    held: list[weakref.ref[object]] = []
    async with app.run_test(size=(132, 36)) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5)})
        for _ in range(3):
            dashboard.open_replay(str(tape.out), NOON_MS)
            await until(pilot, lambda: dashboard.replay and dashboard.snapshot, "the replay is open")
            held.append(weakref.ref(replay_in(pilot).player.replay))
            await press(pilot, "enter", "q", "q")
            await until(pilot, lambda: dashboard.replay is None, "it is left")
        await play_rows(pilot, {"live-1": row_of(depth=6)})

        def are_gone() -> bool:
            gc.collect()
            return not any(replay() for replay in held)

        await until(pilot, are_gone, "nothing holds them")


async def test_files_left_out_are_told_in_each_replay(tape: Tape, source: ScriptedSource) -> None:
    tape.files[1].write_bytes(b"PAR1" + b"\0" * 300)
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    dashboard = app.dashboard
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await play_rows(pilot, {"live-1": row_of(depth=5)})
        for _ in range(2):
            dashboard.open_replay(str(tape.out), NOON_MS)
            await until(pilot, lambda: "was left out" in text_of(app), "the file is named")
            app.clear_notifications()
            await press(pilot, "q")
            await until(pilot, lambda: not dashboard.replay and "was left out" not in text_of(app), "it is left")


async def test_how_old_messages_are_is_said_on_a_small_screen_too(tape: Tape) -> None:
    async with replayed(tape.out, NOON_MS + 90_000, size=(80, 24)) as pilot:
        await press(pilot, "enter")
        await says(pilot, "messages as of 12:01:00, 30 s before")
