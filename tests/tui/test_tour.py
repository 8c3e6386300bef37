"""The tour of the demo: its ten steps by real keys on the demo's server, and skipping them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Button, Static, TextArea

from rsmq_tui.cli.demo import EmbeddedServer, WorkloadProcess
from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.dialogs.tour import DEAD_LETTERS, EMAILS, ORDERS, STEPS
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.clients import ClientsScreen
from rsmq_tui.tui.queue.life import LifeScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.tour import Tour, TourStrip
from tests.tui.changing import confirm, say_yes
from tests.tui.driving import play, press, press_for_screen, says, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, names_in, table_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import poll_of, queue_of


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedServer() as server, WorkloadProcess(server.url, scenario="tour") as workload:
        assert workload.wait_ready(), workload.failure
        yield server.url


@asynccontextmanager
async def _touring(url: str, folder: Path) -> AsyncIterator[Pilot[None]]:
    app = RsmqApp(
        [
            WatchedServer(
                RsmqPoller(RsmqReader(url), interval_s=0.1),
                make_triage=partial(ChangeService, RsmqBackend(url, "rsmq"), folder),
            )
        ],
        controls=None,
        tour=True,
    )
    async with app.run_test(size=(100, 36)) as pilot:
        await until(pilot, lambda: {ORDERS, EMAILS, DEAD_LETTERS} <= set(names_in(pilot)), "the queues are shown")
        yield pilot


def _tour(pilot: Pilot[None]) -> Tour:
    tour = app_of(pilot).dashboard.tour
    assert tour is not None
    return tour


def _hidden(pilot: Pilot[None], name: str) -> int | None:
    snapshot = app_of(pilot).dashboard.snapshot
    assert snapshot is not None
    return next(queue.hidden for queue in snapshot.queues if queue.name == name)


async def _at(pilot: Pilot[None], number: int) -> None:
    """Wait for a step, from 1; past the last one is the summary."""
    await until(pilot, lambda: len(_tour(pilot).done) == number - 1, f"step {number} of the tour")


async def _move_to(pilot: Pilot[None], queue: str) -> None:
    """Move the overview's cursor to a queue by keys."""
    screen = await wait_for_screen(pilot, OverviewScreen)
    await pilot.press("g")
    for _ in range(10):
        if screen.queue_in_sight == queue:
            return
        await pilot.press("j")
    raise AssertionError(f"{queue} is not among {names_in(pilot)}")


async def _hide_or_release(pilot: Pilot[None], key: str, past: str) -> None:
    await pilot.press(key)
    if key == "plus":
        await wait_for_screen(pilot, FormScreen)
        await pilot.press("enter")
    await confirm(pilot, past)


async def test_ten_steps_by_keys(url: str, tmp_path: Path) -> None:
    async with _touring(url, tmp_path) as pilot, _client(url) as client:
        await _at(pilot, 1)
        await says(pilot, "Tour 1 of 10 Each queue has a verdict")
        await says(pilot, "→ Move to orders")
        await _move_to(pilot, ORDERS)
        await _at(pilot, 2)
        await press_for_screen(pilot, "enter", QueueScreen)
        await _at(pilot, 3)
        await until(pilot, lambda: names_in(pilot), "messages are shown")
        await press_for_screen(pilot, "enter", MessageScreen)
        await _at(pilot, 4)
        await press_for_screen(pilot, "q", QueueScreen)
        # What the tab shows is searched once.
        await until(pilot, lambda: _hidden(pilot, ORDERS), "some are in flight")
        await pilot.press("l", "l")
        await until(pilot, lambda: names_in(pilot), "those in flight are shown")
        await press_for_screen(pilot, "W", LifeScreen)
        await _at(pilot, 5)
        await press_for_screen(pilot, "q", QueueScreen)
        await pilot.press("q")
        await _move_to(pilot, EMAILS)
        await press_for_screen(pilot, "enter", QueueScreen)
        await until(pilot, lambda: len(names_in(pilot)) > 1, "messages are shown")
        first = names_in(pilot)[0]
        await _hide_or_release(pilot, "plus", "hidden 1,")
        assert len(_tour(pilot).done) == 4
        await until(pilot, lambda: names_in(pilot)[0] != first, "it is behind those that are ready")
        # The message that was hidden is the only one on its tab, which is empty then.
        await pilot.press("l", "l", "l")
        await until(pilot, lambda: names_in(pilot) == [first], "the hidden one is shown")
        await _hide_or_release(pilot, "0", "released 1,")
        await _at(pilot, 6)
        await pilot.press("q")
        await wait_for_screen(pilot, OverviewScreen)
        await press_for_screen(pilot, "enter", QueueScreen)
        await press(pilot, "slash", *"welcome", "enter")
        await _at(pilot, 7)
        await press(pilot, "escape")
        await until(pilot, lambda: not _queue_screen(pilot).messages.typed.text, "the filter is cleared")
        form = await press_for_screen(pilot, "a", FormScreen)
        form.query_one(TextArea).focus()
        await pilot.press(*"hello", "ctrl+s")
        await confirm(pilot, "sent 1,")
        await _at(pilot, 8)
        depth = client.zcard(f"rsmq:{EMAILS}")
        await until(pilot, lambda: len(names_in(pilot)) > 1, "messages are shown")
        await pilot.press("x")
        await confirm(pilot, "deleted 1,")
        await pilot.press("u")
        await say_yes(pilot)
        await _at(pilot, 9)
        assert client.zcard(f"rsmq:{EMAILS}") >= depth
        clients = await press_for_screen(pilot, "w", ClientsScreen)
        watch = clients.query_one("#watch", Button)
        await until(pilot, lambda: not watch.disabled, "it may watch")
        assert len(_tour(pilot).done) == 8
        watch.press()
        await _at(pilot, 10)
        assert "no client tried to receive" in str(clients.query_one("#words", Static).content)
        await pilot.press("escape")
        await wait_for_screen(pilot, QueueScreen)
        await pilot.press("q")
        assert client.zcard(f"rsmq:{DEAD_LETTERS}") == 40
        await _move_to(pilot, DEAD_LETTERS)
        await press_for_screen(pilot, "R", FormScreen)
        await pilot.press("ctrl+s")
        await say_yes(pilot)
        await _at(pilot, 11)
        assert client.zcard(f"rsmq:{DEAD_LETTERS}") == 0
        await says(pilot, "Tour: the end You did 10 of 10 steps.")
        await pilot.press("ctrl+n")
        await until(pilot, lambda: not pilot.app.screen.query_one(TourStrip).display, "the strip is gone")


def _queue_screen(pilot: Pilot[None]) -> QueueScreen:
    screen = pilot.app.screen
    assert isinstance(screen, QueueScreen)
    return screen


@asynccontextmanager
async def _client(url: str) -> AsyncIterator[redis.Redis]:
    with redis.Redis.from_url(url) as client:
        yield client


async def test_steps_are_skipped_and_named_at_the_end(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock, tour=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, source, _poll(source))
        await until(pilot, lambda: app.dashboard.tour is not None, "the tour begins")
        for number, step in enumerate(STEPS, 1):
            await says(pilot, f"Tour {number} of 10")
            lines = lines_of(pilot.app.screen.query_one(TourStrip))
            # All of it is on a small terminal.
            assert step.sentence in " ".join(" ".join(lines[:-1]).split())
            assert step.do in lines[-1]
            await pilot.press("ctrl+n")
        await says(pilot, "skipped: verdict")
        # On a screen that is opened later, too.
        await press(pilot, "enter")
        await says(pilot, "You did 0 of 10 steps")
        await press(pilot, "ctrl+n", "q")
        assert table_of(pilot)


def _poll(source: ScriptedSource) -> Snapshot:
    return poll_of(source, [queue_of("other", ready=3)])


async def test_without_a_tour_there_is_no_strip(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, source, _poll(source))
        await press(pilot, "ctrl+n")
        assert not pilot.app.screen.query(TourStrip)
