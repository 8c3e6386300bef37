"""Keys that are typed faster than they take effect do what they do when they are typed slowly."""

import asyncio
from collections.abc import Coroutine, Sequence

import pytest
from textual.dom import DOMNode
from textual.events import Key, Paste
from textual.widgets import Input

from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.scope import Preview
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.forms import BodyArea
from rsmq_tui.tui.dialogs.palette import PaletteScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.overview.search import SearchScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.type_ahead import TypeAhead
from tests.tui.driving import opened, play_orders, press, says, settled, type_at_once, until, wait_for_screen
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import one_of_each

pytestmark = pytest.mark.slow


async def test_the_name_of_a_command_is_typed_before_the_palette_is_open(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        type_at_once(pilot, ":pause or\r")
        await until(pilot, lambda: source.paused, "the command runs")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_a_filter_is_typed_before_the_search_is_open(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await play_orders(pilot, source, [b'{"type": "refund"}', b'{"type": "order"}'])
        type_at_once(pilot, "fjson.type=refund\r")
        await wait_for_screen(pilot, SearchScreen)
        await says(pilot, "1 of 2")


async def test_a_body_is_typed_before_the_form_is_open(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), triage=ScriptedTriage()) as pilot:
        type_at_once(pilot, "aqux")
        await until(pilot, lambda: pilot.app.screen.query(BodyArea), "the form is open")
        await settled(pilot)
        assert pilot.app.screen.query_one(BodyArea).text == "qux"


async def test_the_characters_of_a_text_do_not_wait_for_each_other(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(source, one_of_each(), triage=ScriptedTriage()) as pilot:
        await press(pilot, "a")
        await until(pilot, lambda: pilot.app.screen.query(BodyArea), "the form is open")
        await settled(pilot)
        waits = []
        follow = TypeAhead._follow

        def counted(keys: TypeAhead, way: Sequence[DOMNode]) -> Coroutine[None, None, None]:
            waits.append(way)
            return follow(keys, way)

        monkeypatch.setattr(TypeAhead, "_follow", counted)
        words = "jq \\e/3 " * 60
        type_at_once(pilot, f"{words}\r{words}")
        await settled(pilot)
        assert pilot.app.screen.query_one(BodyArea).text == f"{words}\n{words}"
        assert len(waits) < 10


async def test_what_is_pasted_stays_between_the_keys(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        type_at_once(pilot, ":pa")
        pilot.app.post_message(Paste("us"))
        type_at_once(pilot, "e o")
        await wait_for_screen(pilot, PaletteScreen)
        await settled(pilot)
        assert pilot.app.screen.query_one(Input).value == "pause o"


@pytest.mark.parametrize("keys", ["/inv\r\r", ":invoices\r", "jj\r", "/inv\r\r\x1b\r", "?\x1bjj\r", ":\x1bjj\r"])
async def test_a_queue_is_opened_however_fast_it_is_found(source: ScriptedSource, keys: str) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, *[{"\r": "enter", "\x1b": "escape"}.get(key, key) for key in keys])
        queue = (await wait_for_screen(pilot, QueueScreen)).queue
    async with opened(source, one_of_each()) as pilot:
        type_at_once(pilot, keys)
        assert (await wait_for_screen(pilot, QueueScreen)).queue == queue


async def test_a_key_on_its_way_waits_for_the_widgets_of_a_dialog(source: ScriptedSource) -> None:
    async def previewer(_: object) -> Preview:
        raise TriageError("refused")

    async with opened(source, one_of_each()) as pilot:
        app = pilot.app

        def open_dialog() -> None:
            # As a worker does, without waiting for it.
            app.push_screen(ConfirmScreen("Purge", previewer))

        # From the widget that has the focus, it comes to the app, which has the commands.
        app.screen._forward_event(Key("down", None))
        app.screen.call_later(open_dialog)
        await says(pilot, "refused")
        await settled(pilot)


async def test_keys_do_not_wait_for_the_end_of_messages_that_never_end(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:

        async def flood() -> None:
            if not source.paused:
                pilot.app.call_later(flood)
                await asyncio.sleep(0)

        pilot.app.call_later(flood)
        type_at_once(pilot, ":pause or\r")
        await until(pilot, lambda: source.paused, "the command runs")


@pytest.mark.parametrize("keys", ["qqqqqq", "jjqjjj", "?\x1bq\r\r"])
async def test_keys_that_wait_at_the_end_are_dropped(source: ScriptedSource, keys: str) -> None:
    async with opened(source, one_of_each()) as pilot:
        type_at_once(pilot, keys)
        # If the end fails, leaving the context raises why.
        await until(pilot, lambda: not pilot.app.is_running, "it quits")


@pytest.mark.parametrize("quits", ["\x03", "\x11"])
async def test_a_key_that_quits_from_anywhere_does_not_wait(source: ScriptedSource, quits: str) -> None:
    async with opened(source, one_of_each()) as pilot:
        type_at_once(pilot, "?\x1b" * 20 + "p" + quits)
        await until(pilot, lambda: not pilot.app.is_running, "it quits")
        assert not source.paused
