"""The screen of the journal: what was changed, what undoing it would do now, undo and redo of any change."""

import sqlite3
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from textual.pilot import Pilot

from rsmq_tui.triage.actions import Delete, Send
from rsmq_tui.triage.change import State
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.changes import journal
from rsmq_tui.tui.changes.journal import JournalScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.lines import KeyHints
from tests.triage.doing import done
from tests.tui.changing import Orders, asked, changing, confirm, fill, in_queue, made, on_queue, say_yes
from tests.tui.driving import says, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, text_of


async def _journal(pilot: Pilot[None], changes: int) -> JournalScreen:
    await pilot.press("J")
    screen = await wait_for_screen(pilot, JournalScreen)
    await until(pilot, lambda: len(screen.table.rows) == changes, "the changes are shown")
    return screen


def _has_rows(screen: JournalScreen, number: int) -> bool:
    return len(screen.table.rows) == number


async def test_any_change_is_undone_and_made_again(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("asterisk", "x")
        await confirm(pilot, "deleted 5,")
        await pilot.press("a")
        await fill(pilot, body="later")
        await confirm(pilot, "sent 1,")
        screen = await _journal(pilot, 2)
        await says(pilot, "undo applies to 1, as the change left it")
        await pilot.press("j")
        await says(pilot, "deleted 5 of 5: the 5 marked messages")
        await says(pilot, "undo applies to 5, all as the change left them")
        await pilot.press("u")
        await asked(pilot)
        await confirm(pilot, "put back 5,")
        states = ["done", "done", "undone"]
        await until(pilot, lambda: [change.state for change in screen.table.rows] == states, "the undo is listed")
        await says(pilot, "undone by 3; U makes it again")
        await pilot.press("u")
        await until(pilot, lambda: pilot.app.screen is screen, "nothing is asked")
        await pilot.press("U")
        await asked(pilot, "Redo change 1: deleted 5 messages")
        await asked(pilot, "delete 5 messages again")
        assert pilot.app.screen.query_one(".dialog").has_class("-danger")
        assert "and 2 more messages" in text_of(app_of(pilot))
        await confirm(pilot, "deleted 5,")
        states = ["done", "undone", "done", "undone"]
        await until(pilot, lambda: [change.state for change in screen.table.rows] == states, "it is made again")
        await says(pilot, "undone by 3, and made again by 4")
        await says(pilot, "redo of 1")
        assert orders.bodies() == [b"later"]
        await says(pilot, "deleted 5 of 5")
        await pilot.press("slash", *"redo", "enter")
        await until(pilot, lambda: len(screen.table.rows) == 1, "the filter leaves the redo")
        await pilot.press("escape", "escape")
        await wait_for_screen(pilot, QueueScreen)
        # What was made again is the last change of the queue.
        await until(
            pilot,
            lambda: "u undo delete 5" in lines_of(pilot.app.screen.query_one(KeyHints))[0],
            "the hint of the redo",
        )
        await pilot.press("u")
        await asked(pilot, "put back 5 messages that were deleted")
        await confirm(pilot, "put back 5,")
        # The first change says what counts now, and can be made again.
        screen = await _journal(pilot, 5)
        await says(pilot, "undo of 4")
        await pilot.press("G")
        await says(pilot, "undone by 5; U makes it again")
        await pilot.press("k", "k")
        await says(pilot, "change 1 was made again by 4, and undone by 5")
        await pilot.press("U")
        await asked(pilot, "delete 5 messages again")
        await pilot.press("escape", "escape")
        await wait_for_screen(pilot, QueueScreen)
        # Then the message that was sent is the last: it is removed, as the preview says.
        await pilot.press("u")
        await asked(pilot, "remove 1 message that was sent")
        await asked(pilot, "later")
        assert pilot.app.screen.query_one(".dialog").has_class("-danger")
        await confirm(pilot, "removed 1,")


async def test_what_has_changed_since_is_said_before_it_is_undone(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_AGAIN_MS", 0, raising=False)
    async with orders.opened() as pilot:
        await pilot.press("asterisk", "plus")
        await fill(pilot, seconds="10m")
        await confirm(pilot, "hidden 5,")
        first, second, *_ = orders.ids("orders")
        orders.queues.delete_message("orders", first)
        orders.queues.change_message_visibility("orders", second, 0)
        await _journal(pilot, 1)
        await says(pilot, "undo applies to 3 of 5; 2 have changed since and are skipped")
        # What changes while it is shown is found without a key.
        orders.queues.delete_message("orders", orders.ids("orders")[-1])
        await says(pilot, "undo applies to 2 of 5; 3 have changed since and are skipped")
        await pilot.press("o")
        await wait_for_screen(pilot, QueueScreen)


async def test_what_could_not_be_undone_is_counted(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("asterisk", "plus")
        await fill(pilot, seconds="10m")
        await confirm(pilot, "hidden 5,")
        orders.queues.delete_message("orders", orders.ids("orders")[0])
        screen = await _journal(pilot, 1)
        await says(pilot, "undo applies to 4 of 5; 1 has changed since")
        await pilot.press("u")
        await asked(pilot)
        await say_yes(pilot)
        assert "skipped 1 " in await made(pilot)
        await until(pilot, lambda: len(screen.table.rows) == 2, "the undo is listed")
        await says(pilot, "part undone")
        await pilot.press("G")
        await says(pilot, "undone by 2, except for 1 of 5; U makes it again")


async def test_a_change_of_another_server_is_shown_and_not_undone(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("x")
        await confirm(pilot)
    # The same journal, and a server by another name.
    async with changing(orders.url.replace("127.0.0.1", "localhost"), orders.folder, notifications=True) as pilot:
        await _journal(pilot, 1)
        await pilot.press("u")
        await says(pilot, "change 1 was made on")
    async with orders.dashboard(read_only=True) as pilot:
        await _journal(pilot, 1)
        assert "undo" not in "".join(lines_of(pilot.app.screen.query_one(KeyHints)))


async def test_the_cursor_stays_on_its_change_when_another_program_makes_one(orders: Orders) -> None:
    other = ChangeService(RsmqBackend(orders.url, "rsmq"), orders.folder)
    async with orders.opened() as pilot:
        await pilot.press("x")
        await confirm(pilot)
        screen = await _journal(pilot, 1)
        # Whether it was moved there or not.
        for changes, keys in ((2, ()), (3, ("home",)), (4, ("g",))):
            await pilot.press(*keys)
            before = screen.table.cursor_row
            assert before is not None
            await done(other, Send(queue="orders", bodies=(b"later",)))
            await until(pilot, partial(_has_rows, screen, changes), "the new change is listed")
            assert screen.table.cursor_index == 1
            assert screen.table.cursor_row == before
    await other.aclose()


async def test_a_change_whose_program_was_killed_is_settled(orders: Orders) -> None:
    orders.queues.send_messages("other", ["x"] * 9_000)
    other = ChangeService(RsmqBackend(orders.url, "rsmq"), orders.folder)
    async with orders.dashboard() as pilot:
        steps: Any = aiter(other.run(await other.preview(Delete(queue="other"))))
        await anext(steps)
        screen = await _journal(pilot, 1)
        await says(pilot, "it is running")
        assert [change.state for change in screen.table.rows] == [State.RUNNING]
        await steps.aclose()
        await until(pilot, lambda: screen.table.rows[0].state is State.INTERRUPTED, "it is found to be interrupted")
        done = 9_000 - orders.depth("other")
        assert 0 < done < 9_000
        await says(pilot, f"deleted {done:,} of 9,000")
        await says(pilot, f"applies to {done:,}" if done <= 1_000 else f"applies to {done:,} at most")
        await pilot.press("u")
        await asked(pilot, f"put back {done:,} messages that were deleted")
        await confirm(pilot)
        assert orders.depth("other") == 9_000
    await other.aclose()


async def test_a_redo_whose_changes_have_expired_is_named(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("asterisk", "x")
        await confirm(pilot)
        for key in "uU":
            screen = await _journal(pilot, 1 if key == "u" else 2)
            await pilot.press(key)
            await confirm(pilot)
            await pilot.press("escape")
        with closing(sqlite3.connect(orders.folder / "journal.sqlite")) as db, db:
            db.execute("DELETE FROM changes WHERE change < 3")
        screen = await _journal(pilot, 1)
        await says(pilot, "redo: change 1: deleted 5 messages")
        await says(pilot, "undo applies to 5, all as the change left them")
        await pilot.press("u")
        await asked(pilot, "put back what change 3 did")
        await confirm(pilot, "put back 5,")
        assert orders.depth("orders") == 5
        await until(pilot, lambda: len(screen.table.rows) == 2, "the undo is listed")


async def test_the_journal_of_a_queue_has_its_changes_only(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("x")
        await confirm(pilot)
        await pilot.press("escape")
        await in_queue(pilot, "orders-dlq", 3)
        await _journal(pilot, 0)
        assert "No changes were made from here yet." in text_of(app_of(pilot))
        await pilot.press("escape", "escape")
        await _journal(pilot, 1)


async def test_redo_on_an_undo_makes_the_original_change_again(orders: Orders) -> None:
    async with orders.opened() as pilot:
        await pilot.press("asterisk", "x")
        await confirm(pilot)
        screen = await _journal(pilot, 1)
        await pilot.press("u")
        await confirm(pilot)
        await until(pilot, lambda: len(screen.table.rows) == 2, "the undo is listed")
        await pilot.press("k")
        await says(pilot, "U makes change 1 again")
        await pilot.press("U")
        await asked(pilot, "Redo change 1: deleted 5 messages")
        await confirm(pilot, "deleted 5,")
        await until(pilot, lambda: len(screen.table.rows) == 3, "the redo is listed")
        await pilot.press("home", "down")
        await says(pilot, "change 1 was made again by 3")
        assert orders.depth("orders") == 0


async def test_a_queue_that_was_opened_from_the_journal_leads_back_there(orders: Orders) -> None:
    async with orders.dashboard() as pilot:
        await on_queue(pilot, "orders")
        await pilot.press("a")
        await fill(pilot, body="one")
        await confirm(pilot)
        screen = await _journal(pilot, 1)
        await pilot.press("o")
        await wait_for_screen(pilot, QueueScreen)
        await pilot.press("q")
        assert await wait_for_screen(pilot, JournalScreen) is screen
        await pilot.press("q")
        await wait_for_screen(pilot, OverviewScreen)
