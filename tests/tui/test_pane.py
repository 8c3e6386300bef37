"""The pane: where there is room for it, what it shows of the row under the cursor, and what that costs."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from rsmq_tui.monitor import Connection, Verdict
from rsmq_tui.protocol import Failure
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.preferences import PANE
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.pane import QueuePane
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.charts import ChartPanel
from rsmq_tui.tui.widgets.pane import Pane
from tests.history.replayed import NOON_MS
from tests.screenshots.history import order_messages, play_history
from tests.tui.changing import Orders, in_queue, on_queue
from tests.tui.driving import opened, play, press, resized, says, settled, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, names_in, source_of, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of
from tests.tui.states import one_of_each, poll_of, queue_of
from tests.tui.test_history import analysis_folder, past_of
from tests.tui.test_history import press as press_and_read
from tests.tui.test_replay import replayed, taped

__all__ = ["analysis_folder"]
pytestmark = pytest.mark.slow

HOSTILE = "\x1b[31m[bold]evil[/bold]\u202e"


@pytest.fixture(autouse=True)
def no_room_for_a_pane() -> None:
    """Here the pane is where it is by default."""


def pane_of(pilot: Pilot[None]) -> Pane[object]:
    return pilot.app.screen.query_one(Pane)


def shown_in(pilot: Pilot[None]) -> str:
    """What is on the screen within the pane."""
    region = pane_of(pilot).region
    lines = text_of(app_of(pilot)).splitlines()
    return "\n".join(line[region.x : region.right] for line in lines[region.y : region.bottom])


def toasts_of(pilot: Pilot[None]) -> list[str]:
    return [toast.message for toast in app_of(pilot)._toasts]


async def complete(pilot: Pilot[None]) -> str:
    """Wait until the pane of the screen in front has its size and shows everything, and return what it shows.

    A look at the screen before that would make Textual forget to tell new widgets their size.
    """
    await until(pilot, lambda: pilot.app.screen.query(Pane), "there is a pane")
    pane = pane_of(pilot)
    await until(pilot, lambda: any(part.size for part in pane.query(".parts > *")), "the parts have their size")
    await until(pilot, lambda: not pane.is_waiting, "the pane shows everything")
    await settled(pilot)
    return shown_in(pilot)


async def rested(pilot: Pilot[None]) -> str:
    """Let the cursor rest, wait until the pane shows everything, and return that."""
    source_of(pilot).clock.now_s += 1
    return await complete(pilot)


def with_messages(source: ScriptedSource, names: list[str]) -> None:
    for name in names:
        source.messages[name] = messages_of([f"a body of {name}".encode()] * 30)


async def test_the_pane_is_where_there_is_room_and_its_key_goes_round(source: ScriptedSource) -> None:
    with_messages(source, ["emails"])
    async with opened(source, one_of_each(), size=(160, 50), notifications=True) as pilot:
        await press(pilot, "j", "j")
        key = table_of(pilot).cursor_key
        whole = table_of(pilot).size.width
        assert pane_of(pilot).position == "beside"
        assert pane_of(pilot).region.x >= table_of(pilot).region.right
        await press(pilot, "|")
        assert pane_of(pilot).position == "below"
        assert table_of(pilot).size.width > whole
        assert pane_of(pilot).region.y >= table_of(pilot).region.bottom
        await press(pilot, "|")
        assert pane_of(pilot).position == "closed"
        # The reason of the verdict stays, on its own line.
        assert pane_of(pilot).region.height == 1
        assert f" {key}: " in shown_in(pilot)
        await press(pilot, "|")
        assert app_of(pilot).dashboard.preferences.get(PANE) == pane_of(pilot).position == "beside"
        # A choice for which there is no room waits for a terminal that has it.
        for size, position, is_low in (
            ((120, 30), "beside", True),
            ((119, 40), "below", False),
            ((80, 40), "below", True),
            ((119, 39), "closed", None),
            ((200, 60), "beside", False),
        ):
            await resized(pilot, *size)
            assert pane_of(pilot).position == position, size
            assert table_of(pilot).cursor_key == key
            assert table_of(pilot).has_focus
            if is_low is not None:
                charts = [panel.size.height > 3 for panel in pane_of(pilot).query(ChartPanel) if panel.id != "flights"]
                assert charts == [not is_low] * 2, size
        await resized(pilot, 120, 30)
        await press(pilot, "|", "|")
        assert app_of(pilot).dashboard.preferences.get(PANE) == "beside"
        await resized(pilot, 80, 24)
        await press(pilot, "|")
        assert toasts_of(pilot) == ["the pane needs 120 columns or 40 rows; here are 80 x 24"]


@pytest.mark.parametrize("size", [(150, 40), (120, 30), (80, 42), (40, 42)], ids=str)
async def test_the_reason_is_whole_in_the_pane_and_what_is_below_stays(
    source: ScriptedSource, size: tuple[int, int]
) -> None:
    problem = "message ids are not canonical (x): the canonical client can receive but never delete them"
    odd = queue_of("odd", ready=1, verdict=Verdict.STALLED, since_ms=START_MS - 60_000, problems=(problem,))
    with_messages(source, ["odd", "plain"])
    async with opened(source, [odd, queue_of("plain", ready=1)], size=size) as pilot:
        await rested(pilot)
        why = pilot.app.screen.query_one("#why")
        words = [line.strip() for line in lines_of(why)]
        assert " ".join(filter(None, words)).endswith(problem)
        # Fewer words move nothing while the cursor stays; those of another queue take no more lines than they need.
        height = why.size.height
        await play(pilot, source, poll_of(source, [odd._replace(problems=()), queue_of("plain", ready=1)]))
        assert why.size.height == height > 2
        await press(pilot, "j")
        await until(pilot, lambda: why.size.height <= 3, "the reason of the other queue is short")


async def test_with_little_room_a_message_is_shown_in_place_of_a_frame(source: ScriptedSource) -> None:
    with_messages(source, ["orders"])
    async with opened(source, [queue_of("orders", ready=30)], size=(140, 40)) as pilot:
        await complete(pilot)
        first = pilot.app.screen.query_one("#first")
        rows = set()
        for height in range(26, 14, -1):
            await resized(pilot, 140, height)
            shown = await complete(pilot)
            rows.add(first.outer_size.height)
            assert ("First 20 of" in shown) is (first.outer_size.height >= 4), height
            assert ("a body of orders" in shown) is (first.outer_size.height >= 2), height
        assert rows >= {2, 3, 4, 5}


async def test_an_app_that_ends_at_once_needs_no_pane_and_no_line(source: ScriptedSource) -> None:
    async with opened(source, size=(160, 40)) as pilot:
        app, screen = app_of(pilot), pilot.app.screen
        pane = screen.query_one(QueuePane)
        pane.follow(None, poll_of(source, []))
        app.exit()
        cast("DashboardScreen", screen).receive_change(ChangeStatus("deleted 1"))
        pane._fill()
    assert app.return_code == 0


async def test_the_overview_shows_the_charts_and_first_messages_of_the_queue_under_the_cursor(
    source: ScriptedSource,
) -> None:
    snapshot = play_history(source)
    source.messages["orders"] = order_messages(30)
    async with opened(source, size=(160, 50)) as pilot:
        await play(pilot, source, snapshot)
        await press(pilot, "j")
        # What the snapshot has is there at once, also while the cursor moves.
        assert "▲ growing orders: arrivals have exceeded deletes" in shown_in(pilot)
        shown = await rested(pilot)
        assert "100k" in shown
        assert "arrivals" in shown
        assert "First 20 of 91,074 messages" in shown
        assert "ready" in shown
        assert '{"type": "refund", "order"' in shown
        # The keys are those of the table: the pane takes neither focus nor clicks.
        for widget in pane_of(pilot).query(Widget):
            assert not widget.focusable
        asked = len(source.requests)
        await pilot.click("#first", offset=(5, 3))
        await settled(pilot)
        assert table_of(pilot).cursor_key == "orders"
        # An unchanged queue is not read again, a changed one is.
        await play(pilot, source, replace(snapshot, at_ms=snapshot.at_ms + 1000))
        await rested(pilot)
        assert len(source.requests) == asked
        grown = tuple(each._replace(ready=1) if each.name == "orders" else each for each in snapshot.queues)
        await play(pilot, source, replace(snapshot, at_ms=snapshot.at_ms + 2000, queues=grown))
        await rested(pilot)
        assert len(source.requests) == asked + 1
        # Without a server, what was read last stays, dimmed and with its time.
        source.peek_error = "connection refused"
        source.play_failure(Failure("refused", "connection refused", "is it running?"))
        await says(pilot, "of 91,074 messages as of")
        assert '{"type": "refund"' in shown_in(pilot)
        assert pilot.app.screen.query_one("#first").styles.opacity < 1
        # Enter opens the queue, as without the pane.
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_no_move_is_waited_for_and_the_last_one_wins(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"q{number:03d}" for number in range(100)]
    with_messages(source, names)
    drawn: list[str] = []
    draw = QueuePane.draw

    def counted(self: QueuePane) -> None:
        drawn.append(self.screen.query_one("RowTable").cursor_key)  # type: ignore[attr-defined]
        draw(self)

    monkeypatch.setattr(QueuePane, "draw", counted)
    async with opened(source, [queue_of(name, ready=30) for name in names], size=(160, 50)) as pilot:
        assert [request.queue for request in source.requests] == ["q000"]
        # Two seconds of a key that is held down: nothing is read meanwhile, and charts are drawn ten times a second.
        for _ in range(60):
            source.clock.now_s += 1 / 30
            await pilot.press("j")
        await settled(pilot)
        assert "q060" in shown_in(pilot)
        assert "a body of" not in shown_in(pilot)
        assert len(source.requests) <= 2
        assert 10 <= len(drawn) <= 22
        assert "a body of q060" in await rested(pilot)
        assert drawn[-1] == "q060"
        # The reply of a slow server to an earlier request is not shown.
        asked = len(source.requests)
        source.hold = asyncio.Event()
        await pilot.press("j")
        await until(pilot, lambda: len(source.requests) == asked + 1, "the next queue is read")
        await pilot.press("j", "j")
        source.clock.now_s += 1
        await pilot.pause()
        assert len(source.requests) == asked + 1
        source.hold.set()
        await says(pilot, "a body of q063")
        assert [request.queue for request in source.requests[asked:]] == ["q061", "q063"]
        # Leaving the screen ends what is under way.
        source.hold = asyncio.Event()
        await pilot.press("j")
        await until(pilot, lambda: len(source.requests) == asked + 3, "the next queue is read")
        pane = pane_of(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: not pane.is_waiting, "nothing is read")
        source.hold.set()
        await press(pilot, "escape")
        await says(pilot, "a body of q064")


async def test_a_queue_shows_the_body_of_the_message_under_the_cursor(source: ScriptedSource) -> None:
    whole = json.dumps({"order": 1, "text": "x" * 300, "last": HOSTILE}).encode()
    bodies = [b'{"order": 0}', whole, b"y" * 70_000, None, HOSTILE.encode(), b"\0\x01"]
    *rows, last = messages_of([*bodies, b""])
    # It is too long even for a request of its start.
    source.messages["orders"] = [*rows, replace(last, size=20_000_000)]
    ids = [row.id for row in source.messages["orders"]]
    source.bodies[ids[1]] = whole
    async with opened(source, [queue_of("orders", ready=len(ids))], size=(160, 50)) as pilot:
        await press(pilot, "enter")
        assert '│  "order": 0' in await complete(pilot)
        assert "pretty" in shown_in(pilot)
        assert "visible for 1m" in shown_in(pilot)
        assert ids[0] in shown_in(pilot)
        # The start is there before the rest is read.
        await press(pilot, "j")
        assert "the first 240 B of" in shown_in(pilot)
        assert '  "last": "\\u001b[31m[bold]evil[/bold]\\u202e"' in await rested(pilot)
        await press(pilot, "j")
        assert "raw · the first 240 B of 68.4 KiB" in await rested(pilot)
        await press(pilot, "j")
        assert "it has no body" in shown_in(pilot)
        await press(pilot, "j")
        assert "[bold]evil[/bold]" in shown_in(pilot)
        assert "\x1b" not in text_of(app_of(pilot))
        await press(pilot, "j")
        assert "hex" in shown_in(pilot)
        await press(pilot, "j")
        assert "its 19.1 MiB are read when it is opened" in await rested(pilot)
        # A message that leaves meanwhile keeps its start; an error is shown, and tried again by the next poll.
        source.read_error = "the server does not answer"
        await press(pilot, "g", "j")
        assert "the server does not answer" in await rested(pilot)
        source.read_error = None
        await play(pilot, source, replace(source.last, at_ms=START_MS + 1000, connection=Connection(fresh_at_s=0)))
        assert '  "order": 1' in await rested(pilot)
        await press(pilot, "enter")
        screen = await wait_for_screen(pilot, MessageScreen)
        assert screen.message_id == ids[1]
        # A screen without a table has no pane.
        await press(pilot, "|")
        assert toasts_of(pilot) == ["this screen has no pane"]


async def test_the_pane_of_a_real_server_changes_nothing_in_it(orders: Orders) -> None:
    orders.queues.create_queue("large", maxsize=-1)
    orders.queues.send_message("large", "start of a long body " + "x" * 6_000_000)
    before = orders.everything()
    async with orders.dashboard(size=(160, 50)) as pilot:
        await on_queue(pilot, "orders")
        shown = await complete(pilot)
        assert "First 5 of 5 messages" in shown
        assert '{"order": 3}' in shown
        await in_queue(pilot, "orders-dlq", 3)
        for key, body in (("g", "dead 0"), ("G", "dead 2")):
            await pilot.press(key)
            assert f"│{body}" in await complete(pilot)
        await press(pilot, "escape")
        await in_queue(pilot, "large", 1)
        assert "raw · the first 240 B of 5.7 MiB" in await complete(pilot)
        assert "│start of a long body" in shown_in(pilot)
    assert orders.everything() == before


async def test_a_replay_shows_the_messages_that_were_recorded(tmp_path: Path) -> None:
    async with replayed(taped(tmp_path / "history").out, NOON_MS + 120_000, size=(160, 50)) as pilot:
        shown = await complete(pilot)
        assert "First 20 of 40 messages as of 12:01:00" in shown
        assert '{"n":0}' in shown
        await press(pilot, "j")
        app_of(pilot).dashboard.clock.now_s += 1  # type: ignore[attr-defined]
        assert "no messages were recorded here" in await complete(pilot)
        await press(pilot, "g", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen) and names_in(pilot), "the queue opens")
        assert '"n": 0' in await complete(pilot)


async def test_the_history_shows_all_values_of_a_row_and_the_incidents_of_its_queue(analysis_folder: Path) -> None:
    async with past_of(analysis_folder, size=(160, 50)) as pilot:
        shown = shown_in(pilot)
        assert "LAST SEEN   05-17 23:59" in shown
        assert "INCIDENTS of emails" in shown
        assert "05-17 20:00    1h 0m ■ stalled" in shown
        await press_and_read(pilot, "j")
        assert "depth of orders" in shown_in(pilot)
        await press_and_read(pilot, "l", "l")
        assert "EPISODES" in shown_in(pilot)
        await press_and_read(pilot, "|", "|")
        assert pane_of(pilot).position == "closed"
        # The charts are where they were before there was a pane.
        charts = pilot.app.screen.query_one("#charts")
        assert charts.region.bottom <= pilot.app.screen.query_one("#tabs").region.y
        await resized(pilot, 100, 45)
        assert pane_of(pilot).position == "closed"
        await press_and_read(pilot, "|")
        assert pane_of(pilot).position == "below"
        assert "EPISODES" in shown_in(pilot)


async def test_it_says_that_a_message_that_was_found_is_gone(orders: Orders) -> None:
    async with orders.dashboard(size=(160, 50)) as pilot:
        await in_queue(pilot, "orders", 5)
        await press(pilot, "slash", *"body:order", "enter", "g")
        first = names_in(pilot)[0]
        await says(pilot, f"{first} ready · visible for ")
        orders.queues.delete_message("orders", first)
        await says(pilot, f"{first} gone · it has left the queue")
        await press(pilot, "j")
        await says(pilot, f"{names_in(pilot)[1]} ready · visible for ")
