"""Known troubles on the screen: noted by a form, shown with the note, sunk in the order, ended."""

import re
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from textual.pilot import Pilot

from rsmq_tui.events.known import Known, KnownStore, read_until
from rsmq_tui.monitor import QueueState, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.text import short_clock, show_in_zone
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.overview.known import known_pieces
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.overview.totals import NowPanel
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.tui.driving import play, says, settled, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, notes_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import poll_of, queue_of
from tests.tui.test_events_screen import watched


def stalled(name: str, ready: int) -> QueueState:
    values: dict[str, Any] = {"since_ms": START_MS, "idle_since_ms": START_MS, "totalrecv": 1}
    return queue_of(name, ready=ready, verdict=Verdict.STALLED, **values)


async def polled(pilot: Pilot[None], source: ScriptedSource, s: int, *queues: QueueState) -> None:
    await play(pilot, source, poll_of(source, list(queues), START_MS + s * 1000))


def order(pilot: Pilot[None]) -> list[str]:
    screen = app_of(pilot).screen
    assert isinstance(screen, OverviewScreen)
    return [queue.name for queue in screen.table.rows]


async def test_a_known_trouble_is_noted_shown_and_ended(source: ScriptedSource, tmp_path: Path) -> None:
    bad = (stalled("orders", 9), stalled("mail", 3), queue_of("fine"))
    async with watched(source, tmp_path) as pilot:
        app = app_of(pilot)
        await polled(pilot, source, 70, *bad)
        assert order(pilot) == ["orders", "mail", "fine"]
        await pilot.press("N")
        await until(pilot, lambda: "Acknowledge trouble of orders" in text_of(app), "the form is open")
        await pilot.press(*"[red]", "ctrl+y")
        await until(pilot, lambda: app.clipboard, "the command is copied")
        assert app.clipboard.startswith("rsmq-tui known add orders --note '[red]' --until 'until it is ok' -r redis://")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OverviewScreen), "the form is closed")
        events = app.dashboard.events
        assert events is not None
        snapshot = app.dashboard.snapshot
        assert snapshot is not None
        await until(pilot, lambda: events.acknowledged(snapshot), "it is kept")
        await until(pilot, lambda: "‖ stalled  orders" in text_of(app), "it is shown before the next poll")
        source.clock.now_s += 10
        await polled(pilot, source, 80, *bad)
        assert order(pilot) == ["mail", "orders", "fine"]
        assert "‖ stalled  orders" in text_of(app)
        await pilot.press("g", "j")
        await settled(pilot)
        assert "acknowledged until it is ok: [red]" in text_of(app)

        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen), "the queue is open")
        await until(pilot, lambda: "‖ acknowledged until it is ok: [red]" in text_of(app), "the note is shown")
        await polled(pilot, source, 90, queue_of("orders"), stalled("mail", 3), queue_of("fine"))
        await until(pilot, lambda: not events.acknowledged(snapshot), "it has ended")
        await polled(pilot, source, 100, queue_of("orders"), stalled("mail", 3), queue_of("fine"))
        assert "note: [red]" in text_of(app)
    with closing(KnownStore(tmp_path / "known.sqlite")) as store:
        assert [(known.queue, known.is_active) for known in store.all()] == [("orders", False)]


async def test_what_cannot_be_read_is_told_in_the_form(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path) as pilot:
        app = app_of(pilot)
        await polled(pilot, source, 70, stalled("orders", 9))
        # The time is one of the zone that the screen shows.
        show_in_zone(ZoneInfo("Asia/Tokyo"))
        await pilot.press("N", "tab", "home", "ctrl+k", *"21:30")
        await until(pilot, lambda: re.search(r"until \(JST\) +21:30", text_of(app)), "the zone is beside the time")
        await pilot.press("ctrl+y")
        await until(pilot, lambda: app.clipboard, "the command is copied")
        until_ms = read_until("21:30", round(time.time() * 1000), ZoneInfo("Asia/Tokyo"))
        local = time.strftime("%Y-%m-%d %H:%M", time.localtime((until_ms or 0) / 1000))
        assert f" --until '{local}' " in app.clipboard
        known = Known("server", "rsmq", "orders", "", 0, until_ms)
        ((words, _),) = known_pieces(known)
        assert words.endswith(" 21:30 JST")
        await pilot.press("home", "ctrl+k")
        await until(pilot, lambda: "06:00, 2031-05-19 09:00, 2h" in text_of(app), "the hint has examples")
        await until(pilot, lambda: "Acknowledge trouble of orders" in text_of(app), "the form is open")
        await pilot.press("end", *"6x", "enter")
        await until(pilot, lambda: "is not a time such as 06:00" in text_of(app), "it is told")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, OverviewScreen), "the form is closed")


async def test_expected_trouble_comes_after_the_rest_and_says_so(source: ScriptedSource) -> None:
    bad = (stalled("orders-dead", 9), stalled("mail", 3), queue_of("fine-dead"), queue_of("fine"))
    app = RsmqApp([WatchedServer(source)], clock=source.clock, expected={"": Expected(("rsmq:*-dead",))})
    async with app.run_test(size=(132, 36)) as pilot:
        await polled(pilot, source, 70, *bad)
        assert order(pilot) == ["mail", "orders-dead", "fine", "fine-dead"]
        text = text_of(app)
        assert "‖ stalled  orders-dead" in text
        assert "■ stalled  mail" in text
        assert "● ok       fine-dead" in text
        assert lines_of(app.screen.query_one(NowPanel))[5].split() == ["■", "1", "●", "2", "‖", "1"]
        await pilot.press("g", "j")
        await settled(pilot)
        said = "‖ expected: `ignore` in the configuration names this queue"
        await says(pilot, said)
        await pilot.press("enter")
        await wait_for_screen(pilot, QueueScreen)
        await says(pilot, said)
        await polled(pilot, source, 71, queue_of("orders-dead"), *bad[1:])
        assert said not in " ".join(text_of(app).split())
        await pilot.press("escape")
        source.clock.now_s += 10
        await polled(pilot, source, 80, queue_of("orders-dead"), *bad[1:])
        assert order(pilot) == ["mail", "fine", "fine-dead", "orders-dead"]


async def test_trouble_is_expected_on_the_servers_of_the_profile_only(source: ScriptedSource) -> None:
    sources = {place: ScriptedSource(place=place) for place in "ab"}
    servers = [WatchedServer(each, place=place, name=place) for place, each in sources.items()]
    app = RsmqApp(servers, clock=source.clock, expected={"b": Expected(("dead",))})
    async with app.run_test(size=(132, 36)) as pilot:
        for place, each in sources.items():
            queue = stalled("dead", 9)._replace(place=place)
            each.play(replace(poll_of(each, [queue], START_MS + 70_000), place=place))
        await until(pilot, lambda: len(order(pilot)) == 2, "both are shown")
        text = text_of(app)
        assert len(re.findall("■ stalled +a +dead", text)) == 1
        assert len(re.findall("‖ stalled +b +dead", text)) == 1


@pytest.mark.parametrize("size", [(160, 36), (80, 24), (60, 12)])
async def test_maintenance_is_shown_until_it_ends(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    at_ms = START_MS
    monkeypatch.setattr("rsmq_tui.tui.overview.screen.now_ms", lambda: at_ms)
    sources = {name: ScriptedSource(place=name) for name in ("prod", "spare")}
    servers = [WatchedServer(each, name=name, place=name) for name, each in sources.items()]
    windows = {"prod": Expected((), ((START_MS - 1, START_MS + 60_000), (START_MS - 5, START_MS + 30_000)))}
    app = RsmqApp(servers, clock=source.clock, expected=windows)
    async with app.run_test(size=size) as pilot:

        async def shown() -> str:
            poll = poll_of(sources["prod"], [queue_of("fine", place="prod")], at_ms)
            sources["prod"].play(replace(poll, place="prod"))
            await settled(pilot)
            return text_of(app)

        until_words = f"until {short_clock(START_MS + 60_000, START_MS)} UTC: no"
        assert f"‖ maintenance of prod {until_words}" in await shown()
        at_ms = START_MS + 59_999
        assert "maintenance of prod" in await shown()
        at_ms = START_MS + 60_000
        assert "maintenance" not in await shown()


def _taken(folder: Path) -> None:
    """Put a folder in the place of each file."""
    for name in ("known.sqlite", "events.sqlite"):
        # It is opened again by then, if something is just being noted.
        while not (folder / name).is_dir():
            for path in folder.glob(f"{name}*"):
                path.unlink(missing_ok=True)
            with suppress(FileExistsError):
                (folder / name).mkdir()


async def test_a_note_that_cannot_be_kept_is_told_and_hides_no_other_problem(
    source: ScriptedSource, tmp_path: Path
) -> None:
    async with watched(source, tmp_path) as pilot:
        app = app_of(pilot)
        events = app.dashboard.events
        assert events is not None
        _taken(tmp_path)
        await until(pilot, lambda: len(events.problems) == 2, "neither can be used")
        await polled(pilot, source, 70, stalled("orders", 9))

        def notes() -> list[str]:
            return [
                note.message for note in notes_of(app) if note.title == "The acknowledgement of orders was not saved"
            ]

        assert {"events", "known troubles"} <= {note.title for note in notes_of(app)}
        await pilot.press("N")
        await until(pilot, lambda: "Acknowledge trouble of orders" in text_of(app), "the form is open")
        await pilot.press("x", "enter")
        await until(pilot, lambda: len(notes()) == 1, "it is told")
        assert f"{tmp_path / 'known.sqlite'} cannot be used" in notes()[0]
        assert "press N again; alerts continue" in notes()[0]
