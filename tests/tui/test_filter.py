"""Filtering the overview while one types."""

import pytest
from textual.events import Paste
from textual.widgets import Input

from rsmq_tui.monitor import Verdict
from rsmq_tui.tui.dialogs.screens import HelpScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from tests.tui.driving import opened, play, press, settled, type_at_once, wait_for_screen
from tests.tui.reading import app_of, names_in, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import one_of_each, poll_of, queue_of

pytestmark = pytest.mark.slow


async def test_rows_follow_each_letter_typed(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash", "i")
        assert names_in(pilot) == ["emails", "invoices", "billing", "audit"]
        await press(pilot, "n")
        # The "n" of the app is a letter here.
        assert names_in(pilot) == ["invoices", "billing"]
        await press(pilot, "v")
        assert names_in(pilot) == ["invoices"]
        await press(pilot, "backspace")
        assert names_in(pilot) == ["invoices", "billing"]


async def test_words_match_names_and_verdicts_in_any_case_and_all_must_match(source: ScriptedSource) -> None:
    async with opened(source, [*one_of_each(), queue_of("Orders-EU")]) as pilot:
        await press(pilot, "slash")
        entry = pilot.app.screen.query_one("#filter", Input)
        for typed, found in {
            "ORDERS": ["orders", "Orders-EU"],
            "stalled": ["emails"],
            "order growing": ["orders"],
            "order stalled": [],
            "!ok": ["cache", "emails", "orders", "invoices", "billing"],
            "ok": ["audit", "Orders-EU"],
            "!ok !o": ["cache", "emails", "billing"],
            "orders !eu": ["orders"],
            "!": ["cache", "emails", "orders", "invoices", "billing", "audit", "Orders-EU"],
            "  audit  ": ["audit"],
            "[/x]": [],
        }.items():
            entry.value = typed
            await settled(pilot)
            assert names_in(pilot) == found, typed


async def test_the_cursor_goes_to_the_queue_whose_name_is_typed(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        worst = queue_of("mail-dlq", ready=9, verdict=Verdict.STALLED, since_ms=START_MS - 60_000)
        await play(pilot, source, poll_of(source, [worst, queue_of("mail"), queue_of("mails")]))
        await press(pilot, "slash", *"mai")
        assert table_of(pilot).cursor_row is worst
        await press(pilot, "l")
        cursor = table_of(pilot).cursor_row
        assert cursor is not None
        assert (cursor.name, names_in(pilot)[0]) == ("mail", "mail-dlq")


async def test_nothing_matches_says_what_and_how_to_go_on(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash", *"xyz", "left_square_bracket", "slash", "x", "right_square_bracket")
        assert "No queue matches xyz[/x]. Press esc to see all." in text_of(app_of(pilot))
        await press(pilot, "escape")
        assert len(names_in(pilot)) == 6


async def test_enter_keeps_the_filter_and_goes_to_the_rows_then_escape_clears_it(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        entry = pilot.app.screen.query_one("#filter", Input)
        assert not entry.display
        await press(pilot, "slash", *"in", "enter")
        assert table_of(pilot).has_focus
        assert entry.display
        await press(pilot, "j")
        assert table_of(pilot).cursor_key == "billing"
        await press(pilot, "slash", "v")
        assert names_in(pilot) == ["invoices"]
        await press(pilot, "enter", "escape")
        assert not entry.display
        assert entry.value == ""
        assert len(names_in(pilot)) == 6
        assert table_of(pilot).has_focus


async def test_escape_clears_while_typing_too(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash", *"emails", "escape")
        assert len(names_in(pilot)) == 6
        assert table_of(pilot).has_focus


async def test_an_empty_filter_closes_on_enter(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash", "enter")
        assert not pilot.app.screen.query_one("#filter").display
        assert table_of(pilot).has_focus


async def test_what_is_pasted_is_made_harmless(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash")
        app_of(pilot).post_message(Paste("in\x1b[31m\u202e\nvoices"))
        await settled(pilot)
        assert pilot.app.screen.query_one("#filter", Input).value == "in␛[31m\\u202e"
        assert "No queue matches in␛[31m\\u202e." in text_of(app_of(pilot))


async def test_the_filter_holds_for_what_comes_later(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash", *"new")
        assert names_in(pilot) == []
        await play(pilot, source, poll_of(source, [*one_of_each(), queue_of("new-orders")], START_MS + 1000))
        assert names_in(pilot) == ["new-orders"]


async def test_enter_typed_ahead_opens_the_queue_that_the_filter_found(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash")
        type_at_once(pilot, "invoices\r\r")
        screen = await wait_for_screen(pilot, QueueScreen)
        assert screen.queue == "invoices"


async def test_a_key_typed_ahead_behind_a_filter_is_not_part_of_it(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "slash")
        type_at_once(pilot, "invoices\r?")
        await wait_for_screen(pilot, HelpScreen)
        await press(pilot, "escape")
        assert names_in(pilot) == ["invoices"]
