"""The log of events on the screen: what is recorded while the dashboard polls, chosen, opened and shown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from textual.pilot import Pilot

from rsmq_tui.events.known import local_minute
from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.events.recorder import EventRecorder
from rsmq_tui.events.store import EventStore
from rsmq_tui.history.reading import History
from rsmq_tui.history.recorder import Recorder
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import RsmqPoller, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.protocol import Failure, Rsmq, RsmqReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.overview.events import EventsScreen, LastEvents
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.replay.session import replay_session
from rsmq_tui.tui.servers import WatchedServer
from tests.events.made import event
from tests.history.replayed import NOON_MS, STEP_MS, Tape, said
from tests.tui.changing import on_queue
from tests.tui.driving import play, press, resized, says, settled, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow


@asynccontextmanager
async def watched(
    source: ScriptedSource, folder: Path, height: int = 30, expected: Expected | None = None
) -> AsyncIterator[Pilot[None]]:
    """Run the app with a recorder of events, after the first poll."""

    def start() -> EventRecorder:
        recorder = EventRecorder(folder, clock=source.clock, tick_s=0.01)
        recorder.start()
        return recorder

    app = RsmqApp(
        [WatchedServer(source)], clock=source.clock, events=start, expected=None if expected is None else {"": expected}
    )
    async with app.run_test(size=(132, height), notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders"), queue_of("mail")]))
        await until(pilot, lambda: app.dashboard.events, "events are recorded")
        await play(pilot, source, poll_of(source, [queue_of("orders"), queue_of("mail")], START_MS + 1_000))
        yield pilot


def stalled(at_ms: int) -> list[object]:
    since_ms = at_ms - 60_000
    return [
        queue_of("mail"),
        queue_of("orders", ready=3, verdict=Verdict.STALLED, since_ms=since_ms, idle_since_ms=since_ms, totalrecv=1),
    ]


async def trouble(pilot: Pilot[None], source: ScriptedSource, s: int = 2) -> None:
    at_ms = START_MS + s * 1_000
    await play(pilot, source, poll_of(source, stalled(at_ms), at_ms))  # type: ignore[arg-type]
    events = app_of(pilot).dashboard.events
    await until(pilot, lambda: events and len(events.recent) > 0, "it is recorded")


async def test_maintenance_is_an_event(source: ScriptedSource, tmp_path: Path) -> None:
    span = now_ms() - 3_600_000, now_ms() + 3_600_000
    async with watched(source, tmp_path, expected=Expected((), (span,))) as pilot:
        await pilot.press("L")
        await says(pilot, f"maintenance until {local_minute(span[1], zone=True)}: no alerts are sent")


async def test_the_screen_shows_what_happened_and_enter_goes_to_the_queue(
    source: ScriptedSource, tmp_path: Path
) -> None:
    async with watched(source, tmp_path) as pilot:
        await trouble(pilot, source)
        await pilot.press("L")
        await says(pilot, "stalled: 3 messages ready")
        text = text_of(app_of(pilot))
        assert "1 event" in text
        assert "verdict orders: stalled: 3 messages ready and none received for 1m 0s" in text
        screen = pilot.app.screen
        await pilot.press("enter")
        assert isinstance(app_of(pilot).screen, QueueScreen)
        await press(pilot, "q")
        assert app_of(pilot).screen is screen
    with closing(EventStore(tmp_path / "events.sqlite")) as store:
        assert [stored.event.queue for stored in store.last(10)] == ["orders"]


async def test_news_appear_and_words_choose_them(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path) as pilot:
        await pilot.press("L")
        await says(pilot, "Nothing has happened yet.")
        await trouble(pilot, source)
        with closing(EventStore(tmp_path / "events.sqlite", writer="other")) as other:
            other.write([event(queue="\x1b[31m[b]x", text="another dashboard's [red]\x07")])
        screen = app_of(pilot).screen
        assert isinstance(screen, EventsScreen)
        await until(pilot, lambda: len(screen.table.rows) == 2, "both are shown")
        assert "\x1b" not in text_of(app_of(pilot))
        assert "another dashboard's [red]" in text_of(app_of(pilot))

        await pilot.press("slash", *"orders")
        await says(pilot, "1 of 2 events")
        await pilot.press("escape")
        await until(pilot, lambda: len(screen.table.rows) == 2, "the filter is gone")
        await pilot.press("escape")
        await until(pilot, lambda: app_of(pilot).screen is not screen, "it is closed")


async def test_a_queue_that_is_gone_cannot_be_opened(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("mail")], START_MS + 2_000))
        await pilot.press("L")
        await says(pilot, "deleted, with 0 messages")
        await pilot.press("enter")
        await says(pilot, "queue orders was deleted at 20")
        assert "replay" not in text_of(app_of(pilot)).splitlines()[-1]
        await pilot.press("at")
        await says(pilot, "nothing is being recorded")


async def test_the_last_three_are_on_a_high_overview(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path, height=40) as pilot:
        assert not app_of(pilot).screen.query_one("#last-events").display
        for number in range(4):
            names = [queue_of(name) for name in ("mail", "orders", *(f"new{each}" for each in range(number + 1)))]
            await play(pilot, source, poll_of(source, names, START_MS + 1_000 * (number + 2)))
        events = app_of(pilot).dashboard.events
        await until(pilot, lambda: events and len(events.recent) == 4, "all are recorded")
        await play(pilot, source, poll_of(source, names, START_MS + 7_000))
        assert last_events(pilot) == ["2 s new3 created", "3 s new2 created", "4 s new1 created"]


def last_events(pilot: Pilot[None]) -> list[str]:
    """The lines of the overview that show the last events."""
    return [
        " ".join(line.split()) for line in text_of(app_of(pilot)).splitlines() if line.rstrip().endswith(" created")
    ]


async def test_ages_count_on_while_the_server_does_not_answer(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path, height=40) as pilot:
        at_ms = START_MS + 2_000
        queues = [queue_of(name) for name in ("mail", "new", "orders")]
        await play(pilot, source, poll_of(source, queues, at_ms))
        events = app_of(pilot).dashboard.events
        await until(pilot, lambda: events and len(events.recent) == 1, "it is recorded")
        source.play_failure(Failure("refused", "connection refused", "start it"))
        await says(pilot, "connection refused")
        source.clock.now_s += 125
        await until(pilot, lambda: "2m 5s new created" in last_events(pilot), "the overview counts on")
        await pilot.press("L")
        await says(pilot, "2m 5s")
        source.clock.now_s += 60
        await says(pilot, "3m 5s")


async def test_on_a_queue_it_is_of_the_queue_and_of_its_server(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path) as pilot:
        snapshot = app_of(pilot).dashboard.snapshot
        assert snapshot is not None
        here = {"server": snapshot.server, "ns": snapshot.ns}
        # Words, and where it happened.
        happened: list[tuple[str, dict[str, Any]]] = [
            ("emptied", {**here, "queue": "orders"}),
            ("restarted", {"server": snapshot.server, "ns": "", "queue": None}),
            ("many were lost", {**here, "queue": None}),
            ("of another queue", {**here, "queue": "mail"}),
            ("of a queue of its name", {**here, "ns": "other", "queue": "orders"}),
            ("of another namespace", {**here, "ns": "other", "queue": None}),
            ("of another server", {"server": "other", "ns": "", "queue": None}),
        ]
        with closing(EventStore(tmp_path / "events.sqlite", writer="other")) as other:
            other.write([
                event(at_ms=START_MS + number, text=text, same=text, **where)
                for number, (text, where) in enumerate(happened)
            ])  # fmt: skip
        events = app_of(pilot).dashboard.events
        await until(pilot, lambda: events and len(events.recent) == len(happened), "all are in the log")
        await on_queue(pilot, "orders")
        await pilot.press("enter")
        queue = await wait_for_screen(pilot, QueueScreen)
        await pilot.press("L")
        screen = await wait_for_screen(pilot, EventsScreen)
        await until(pilot, lambda: screen.table.rows, "they are shown")
        assert [one.text for one in screen.table.rows] == ["many were lost", "restarted", "emptied"]
        assert "events of orders and its server   3 events" in text_of(app_of(pilot))
        await pilot.press("G", "enter")
        await until(pilot, lambda: app_of(pilot).screen is queue, "it goes back to the queue")


async def test_a_narrow_terminal_shows_the_reason(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path) as pilot:
        await resized(pilot, 80, 24)
        await trouble(pilot, source)
        await pilot.press("L")
        screen = app_of(pilot).screen
        assert isinstance(screen, EventsScreen)
        await until(pilot, lambda: screen.table.rows, "the event is shown")
        line = " ".join(lines_of(screen.table)[1].split())
        assert line.startswith("0 ms orders stalled: 3 messages ready and none received for 1m")


async def test_of_equal_times_the_last_recorded_is_the_newest(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path) as pilot:
        with closing(EventStore(tmp_path / "events.sqlite", writer="other")) as other:
            other.write([event(queue=None, text=text, same=text) for text in ("back", "created", "restarted")])
        await pilot.press("L")
        screen = app_of(pilot).screen
        assert isinstance(screen, EventsScreen)
        await until(pilot, lambda: len(screen.table.rows) == 3, "all are shown")
        assert [one.text for one in screen.table.rows] == ["restarted", "created", "back"]


async def test_the_overview_shows_events_of_its_own_servers_only(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path, height=44) as pilot:
        snapshot = app_of(pilot).dashboard.snapshot
        assert snapshot is not None

        def own(one: Event, ns: str = snapshot.ns) -> Event:
            return replace(one, server=snapshot.server, ns=ns)

        with closing(EventStore(tmp_path / "events.sqlite", writer="other")) as other:
            other.write(
                [
                    own(event(1, queue=None, text="restarted", same="1")),
                    own(event(2, text="stalled here", same="2")),
                    event(3, text="of another server", same="3"),
                    event(4, queue=None, text="another server was lost", same="4"),
                    own(event(5, text="of another namespace", same="5"), "elsewhere"),
                ]
            )
        events = app_of(pilot).dashboard.events
        await until(pilot, lambda: events and len(events.recent) == 5, "all are in the log")
        await play(pilot, source, poll_of(source, [queue_of("orders"), queue_of("mail")], START_MS + 2_000))
        shown = " ".join(lines_of(pilot.app.screen.query_one("#last-events", LastEvents)))
        assert "restarted" in shown
        assert "stalled here" in shown
        assert "another" not in shown
        await pilot.press("L")
        await says(pilot, "of another server")


async def test_a_restart_stays_on_the_overview_for_a_minute(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path, height=44) as pilot:
        snapshot = app_of(pilot).dashboard.snapshot
        assert snapshot is not None

        def at(s: int, text: str, severity: str, queue: str | None = "orders") -> Event:
            at_ms, severe = START_MS + s * 1_000, Severity(severity)
            found = event(queue=queue, at_ms=at_ms, text=text, same=text, severity=severe, kind=EventKind.FLAPPING)
            return replace(found, server=snapshot.server, ns=snapshot.ns if queue else "")

        with closing(EventStore(tmp_path / "events.sqlite", writer="other")) as other:
            other.write([
                at(1, "answers again", "info", None), at(1, "restarted", "warning", None),
                at(2, "was lost", "warning"), at(3, "stalled", "error"), at(4, "flaps", "warning"),
                *(at(5 + number, f"created {number}", "info") for number in range(3)),
            ])  # fmt: skip
        events = app_of(pilot).dashboard.events
        await until(pilot, lambda: events and len(events.recent) == 8, "all are in the log")

        async def shown(s: int) -> list[str]:
            queues = [queue_of("mail"), queue_of("orders")]
            await play(pilot, source, poll_of(source, queues, START_MS + s * 1_000))
            return [line.split()[-1] for line in lines_of(pilot.app.screen.query_one("#last-events", LastEvents))]

        assert await shown(9) == ["flaps", "stalled", "restarted"]
        assert await shown(61) == ["flaps", "stalled", "lost"]
        assert await shown(65) == ["2", "1", "0"]


async def test_a_verdict_that_is_over_does_not_stay_on_the_overview(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path, height=44) as pilot:
        snapshot = app_of(pilot).dashboard.snapshot
        assert snapshot is not None

        def at(s: int, queue: str, text: str, severity: Severity) -> Event:
            found = event(queue=queue, at_ms=START_MS + s * 1_000, text=text, same=text, severity=severity)
            return replace(found, server=snapshot.server, ns=snapshot.ns)

        with closing(EventStore(tmp_path / "events.sqlite", writer="other")) as other:
            other.write([
                at(1, "mail", "stalled", Severity.ERROR), at(2, "orders", "leaking", Severity.ERROR),
                at(3, "orders", "stalled", Severity.ERROR), at(4, "orders", "growing", Severity.WARNING),
                at(5, "orders", "ok", Severity.INFO),
            ])  # fmt: skip
        events = app_of(pilot).dashboard.events
        await until(pilot, lambda: events and len(events.recent) == 5, "all are in the log")
        await play(pilot, source, poll_of(source, [queue_of("mail"), queue_of("orders")], START_MS + 9_000))
        last = [line.split()[-2:] for line in lines_of(pilot.app.screen.query_one("#last-events", LastEvents))]
        assert last == [["orders", "ok"], ["orders", "growing"], ["mail", "stalled"]]


async def test_there_are_none_on_a_low_overview(source: ScriptedSource, tmp_path: Path) -> None:
    async with watched(source, tmp_path, height=39) as pilot:
        await trouble(pilot, source)
        await play(pilot, source, poll_of(source, stalled(START_MS + 3_000), START_MS + 3_000))  # type: ignore[arg-type]
        assert not app_of(pilot).screen.query_one("#last-events").display


async def test_a_log_that_cannot_be_written_is_said_and_the_dashboard_goes_on(
    source: ScriptedSource, tmp_path: Path
) -> None:
    (tmp_path / "events.sqlite").write_bytes(b"no database" * 1_000)
    async with watched(source, tmp_path) as pilot:
        events = app_of(pilot).dashboard.events
        await until(pilot, lambda: events and events.problem, "it fails")
        await trouble(pilot, source)
        await play(pilot, source, poll_of(source, stalled(START_MS + 3_000), START_MS + 3_000))  # type: ignore[arg-type]
        await pilot.press("L")
        await says(pilot, "stalled: 3 messages ready")
        assert "! the log of events" in text_of(app_of(pilot))


async def test_without_a_log_the_key_says_so(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    async with app.run_test(size=(132, 30), notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        await pilot.press("L")
        await until(pilot, lambda: "no events are recorded here" in text_of(app), "it is said")


async def test_enter_replays_a_recorded_moment_and_else_opens_the_queue(
    redis_url: str, client: Redis, tmp_path: Path
) -> None:
    queues = Rsmq(client)
    queues.create_queue("first")

    @asynccontextmanager
    async def recorded() -> AsyncIterator[tuple[RsmqApp, Pilot[None]]]:
        recorder, events = Recorder(tmp_path / "history", state=tmp_path), EventRecorder(tmp_path, tick_s=0.01)
        recorder.start()
        events.start()
        poller = RsmqPoller(RsmqReader(redis_url), interval_s=0.05)
        app = RsmqApp([WatchedServer(poller)], recording=recorder, events=lambda: events)
        try:
            async with app.run_test(size=(132, 36), notifications=True) as pilot:
                await until(pilot, lambda: app.dashboard.events, "events are recorded")
                yield app, pilot
        finally:
            recorder.close()
            assert await asyncio.to_thread(recorder.wait, 100.0)

    async def created(app: RsmqApp, pilot: Pilot[None], name: str) -> EventsScreen:
        """Create a queue, and put the cursor on the event of that."""
        polled = app.dashboard.snapshot
        await until(pilot, lambda: app.dashboard.snapshot not in (None, polled), "a poll has been compared with")
        queues.create_queue(name)
        await pilot.press("L")
        screen = await wait_for_screen(pilot, EventsScreen)
        await until(pilot, lambda: [one.queue for one in screen.table.rows][:1] == [name], "it is shown")
        return screen

    async with recorded() as (app, pilot):
        await created(app, pilot, "orders")
        # Nothing is sealed yet.
        await pilot.press("enter")
        assert (await wait_for_screen(pilot, QueueScreen)).queue == "orders"
        assert app.dashboard.replay is None
        await settled(pilot)
    queues.delete_queue("orders")
    async with recorded() as (app, pilot):
        screen = await created(app, pilot, "mail")
        await until(pilot, lambda: "orders" in [one.queue for one in screen.table.rows], "the earlier one is there")
        screen.table.place_cursor([one.queue for one in screen.table.rows].index("orders"))
        moment = screen.table.cursor_row
        assert moment is not None
        await pilot.press("enter")
        assert (await wait_for_screen(pilot, QueueScreen)).queue == "orders"
        assert app.dashboard.replay is not None
        assert app.dashboard.replay.position_ms == moment.at_ms
        assert app.dashboard.snapshot is not None
        assert [queue.name for queue in app.dashboard.snapshot.queues] == ["first", "orders"]
        await press(pilot, "escape", "q")
        await until(pilot, lambda: app.dashboard.replay is None, "the replay is left")
        # What happened after the end of what is sealed is not recorded yet.
        screen = await wait_for_screen(pilot, EventsScreen)
        screen.table.place_cursor([one.queue for one in screen.table.rows].index("mail"))
        await pilot.press("enter")
        assert (await wait_for_screen(pilot, QueueScreen)).queue == "mail"
        assert app.dashboard.replay is None


async def test_a_replay_shows_what_happened_before_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape(tmp_path / "history")
    for poll in range(100):
        verdict = "ok" if poll < 24 else "growing" if poll < 48 else "stalled"
        at_ms = NOON_MS + poll * STEP_MS
        orders = said(verdict, depth=100 + poll, ready=90 + poll, hidden=10, totalsent=1000 + 5 * poll)
        if poll == 60:
            tape.fail(at_ms)
        else:
            tape.poll(at_ms, orders, *([said("ok", "new", depth=1, ready=1, hidden=0)] if poll >= 80 else []))
    tape.seal()

    replaying = replay_session(History(tape.out, state=tape.out), from_ms=NOON_MS + 450_000, playing=False)
    app = RsmqApp(replaying.servers, replay=replaying)
    async with app.run_test(size=(132, 36)) as pilot:
        await until(pilot, lambda: app.dashboard.snapshot is not None, "something is shown")
        await settled(pilot)
        await pilot.press("L")
        screen = app.screen
        assert isinstance(screen, EventsScreen)
        await until(pilot, lambda: screen.table.rows, "events are shown")
        found = [(event.kind.value, event.queue, (event.at_ms - NOON_MS) // 1000) for event in screen.table.rows]
        assert found == [
            ("created", "new", 400), ("back", None, 305), ("lost", None, 300), ("verdict", "orders", 240),
            ("verdict", "orders", 120),
        ]  # fmt: skip
        assert "5 events in the 15m before" in text_of(app)
        # While they are read for another position, their number is not known.
        read = asyncio.Event()

        async def reads_long(*_: object) -> list[Event]:
            await read.wait()
            return []

        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "to_thread", reads_long)
            screen.refresh_unpolled()
            await until(pilot, lambda: "reading the 15m before …" in text_of(app), "it says that it reads")
            read.set()
            await until(pilot, lambda: "0 events in the 15m before" in text_of(app), "they are read")
        screen.refresh_unpolled()
        await until(pilot, lambda: screen.table.rows, "events are shown")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen), "the queue is shown")
