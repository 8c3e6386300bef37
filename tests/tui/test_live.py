"""The screens on a real server: what they show is what is there, and it is the same afterwards."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.text_view import LineView
from tests.tui.driving import says, settled, until
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of


@pytest.fixture
def queues(client: redis.Redis) -> Iterator[Rsmq]:
    """A namespace of two queues and another one of one; nothing of it may change."""
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    rsmq.create_queue("empty")
    rsmq.send_messages("orders", [f'{{"order": {number}}}' for number in range(100)])
    for _ in range(10):
        rsmq.receive_message("orders")
    Rsmq(client, ns="mail").create_queue("newsletter")
    before = {key: client.dump(key) for key in client.scan_iter()}
    yield rsmq
    assert {key: client.dump(key) for key in client.scan_iter()} == before


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Pilot[None]]:
    app = RsmqApp([WatchedServer(RsmqPoller(RsmqReader(url), interval_s=0.05))])
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.dashboard.snapshot is not None, "the first poll arrives")
        yield pilot


async def test_from_the_overview_to_one_message_and_back(redis_url: str, queues: Rsmq) -> None:
    async with _opened(redis_url) as pilot:
        await until(pilot, lambda: names_in(pilot) == ["orders", "empty"], "the queues are shown")
        assert "2 queues · 100 messages" in text_of(app_of(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: len(names_in(pilot)) == table_of(pilot).visible_rows, "a page is shown")
        tabs = "[ all 100 ] ready 90 in flight – delayed – poison – 1 of 100"
        await until(pilot, lambda: tabs in " ".join(text_of(app_of(pilot)).split()), "its tabs")
        first = names_in(pilot)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: not set(names_in(pilot)) & set(first), "the next page is shown")
        await pilot.press("l", "l")
        await until(pilot, lambda: len(names_in(pilot)) == 10, "those in flight are shown")
        await until(pilot, lambda: "in flight" in lines_of(table_of(pilot))[1], "they are in flight")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, MessageScreen), "the message opens")
        view = pilot.app.screen.query_one(LineView)
        await until(pilot, lambda: lines_of(view)[1].startswith('  "order": '), "its body is set out")
        assert "received 1 time, first " in text_of(app_of(pilot))
        await pilot.press("l", "l", "I", "y", "escape", "escape")
        await until(pilot, lambda: names_in(pilot) == ["orders", "empty"], "back on the overview")


async def test_another_namespace(redis_url: str, queues: Rsmq) -> None:
    async with _opened(redis_url) as pilot:
        await pilot.press("n")
        await says(pilot, "│ mail")
        await pilot.press("enter")
        await until(pilot, lambda: names_in(pilot) == ["newsletter"], "the other namespace is shown")
        assert "/0 · mail" in text_of(app_of(pilot))


async def test_paused_and_polled_by_hand(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders")
    async with _opened(redis_url) as pilot:
        app = app_of(pilot)
        await pilot.press("p")
        await until(pilot, lambda: app.dashboard.snapshot and app.dashboard.snapshot.paused, "it is paused")
        rsmq.create_queue("later")
        await pilot.press("r")
        await until(pilot, lambda: "later" in names_in(pilot), "r polls once")
        polled = app.dashboard.snapshot
        await settled(pilot)
        assert app.dashboard.snapshot is polled
        await pilot.press("p")
        await until(pilot, lambda: app.dashboard.snapshot and not app.dashboard.snapshot.paused, "it goes on")
